"""Machines of several GPUs: chips, links and switches, the routes between devices, and the time and bandwidth of a
route.

A machine is a TOML file of this package or of the user's (``machine_files.py``).  This package may import chips, isa,
engine and timing; the driver queries it for peer access and for the duration of copies.
"""

from warpwright.system.machine import Cable, LinkKind, Machine, MachineError
from warpwright.system.machine_files import load_machine, machine_names
from warpwright.system.matrix import topology_matrix
from warpwright.system.migration import connect, managed_memory_of, migration_of
from warpwright.system.routes import Route, host_route, peer_routes, relay_route, route

__all__ = [
    "Cable",
    "LinkKind",
    "Machine",
    "MachineError",
    "Route",
    "connect",
    "host_route",
    "load_machine",
    "machine_names",
    "managed_memory_of",
    "migration_of",
    "peer_routes",
    "relay_route",
    "route",
    "topology_matrix",
]
