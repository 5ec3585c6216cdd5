"""What a GPU shares with the other processors of a machine: pages of managed memory, and page tables and caches with the host."""

from __future__ import annotations

from warpwright.chips import load_chip
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.host_coherence import ProbeFilter, Translations
from warpwright.engine.managed_pages import FIRST_GPU, ManagedMemory, Migration, processor_of
from warpwright.system.machine import Machine
from warpwright.system.routes import host_route, peer_routes, route

FIRST_WITH_ACCESS_COUNTERS = 70
"""Compute capability times ten of Volta, whose GPUs were the first with access counters (Choquette et al., Volta, IEEE Micro 2018)."""


def host_copy_gb_per_s(machine: Machine, ordinal: int) -> float:
    """Of a copy between the host's page-locked memory and a GPU: over NVLink where the two have some, else over PCI Express."""
    way = host_route(machine, ordinal)
    return way.copy_gb_per_s if way is not None else load_chip(machine.gpus[ordinal]).transfer.host_copy_gb_per_s


def migration_of(machine: Machine, ordinal: int) -> Migration | None:
    """How pages move to a GPU; None where the machine's file has no ``[migration]``."""
    costs = machine.migration
    if costs is None:
        return None
    share = costs.copy_percent / 100
    to_host = host_copy_gb_per_s(machine, ordinal)
    rates, maps = [0.0, to_host * share], [False, True]
    for other in range(len(machine.gpus)):
        way = route(machine, ordinal, other)
        # Without peer access a page passes through the host's memory.
        staged = min(to_host, host_copy_gb_per_s(machine, other)) * machine.staged_copy_percent / 100
        rates.append((way.copy_gb_per_s if way is not None else staged) * share)
        maps.append(way is not None or other == ordinal)
    assert len(rates) == FIRST_GPU + len(machine.gpus)
    counts = load_chip(machine.gpus[ordinal]).arch >= FIRST_WITH_ACCESS_COUNTERS
    return Migration(processor_of(ordinal), costs, counts, tuple(rates), tuple(maps))


def managed_memory_of(machine: Machine) -> ManagedMemory | None:
    """The machine's managed memory before any allocation; None where its pages do not move."""
    if machine.migration is None:
        return None
    # A host that caches GPUs' memory can use a page where it is.
    shared = range(len(machine.gpus)) if machine.probes is not None else ()
    return ManagedMemory(machine.migration, frozenset(processor_of(ordinal) for ordinal in shared))


def connect(machine: Machine, memory: DeviceMemory, ordinal: int, managed: ManagedMemory | None) -> None:
    """Give a GPU's memory its place in a machine."""
    memory.peer_routes = peer_routes(machine, ordinal)
    memory.migration = migration_of(machine, ordinal)
    memory.managed = managed
    if managed is not None:
        managed.free_bytes[processor_of(ordinal)] = lambda: memory.capacity_bytes - memory.used_bytes
    if machine.translation is not None:
        memory.translations = Translations(machine.translation)
    if machine.probes is not None:
        memory.probe_filter = ProbeFilter(machine.probes, load_chip(machine.gpus[ordinal]).l1.l1_line_bytes)
