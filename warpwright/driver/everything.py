"""Importing this module registers every entry point."""

from warpwright.driver import (
    arrays,
    contexts,
    copies,
    devices,
    functions,
    graphs,
    launches,
    memory,
    modules,
    occupancies,
    process,
    streams,
    tensor_maps,
    virtual,
)

__all__ = [
    "arrays",
    "contexts",
    "copies",
    "devices",
    "functions",
    "graphs",
    "launches",
    "memory",
    "modules",
    "occupancies",
    "process",
    "streams",
    "tensor_maps",
    "virtual",
]
