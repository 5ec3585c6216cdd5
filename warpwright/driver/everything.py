"""Importing this module registers every entry point."""

from warpwright.driver import (
    arrays,
    contexts,
    copies,
    devices,
    functions,
    graph_conditions,
    graph_launches,
    graph_memory,
    graph_nodes,
    graph_shapes,
    launches,
    memory,
    modules,
    nvml,
    occupancies,
    pools,
    process,
    sharing,
    streams,
    tensor_maps,
    user_objects,
    virtual,
)
from warpwright.driver.runtime import devices as runtime_devices
from warpwright.driver.runtime import launching, registration
from warpwright.driver.runtime import memory as runtime_memory
from warpwright.driver.runtime import streams as runtime_streams
from warpwright.driver.runtime import textures as runtime_textures

__all__ = [
    "arrays",
    "contexts",
    "copies",
    "devices",
    "functions",
    "graph_conditions",
    "graph_launches",
    "graph_memory",
    "graph_nodes",
    "graph_shapes",
    "launches",
    "launching",
    "memory",
    "modules",
    "nvml",
    "occupancies",
    "pools",
    "process",
    "registration",
    "runtime_devices",
    "runtime_memory",
    "runtime_streams",
    "runtime_textures",
    "sharing",
    "streams",
    "tensor_maps",
    "user_objects",
    "virtual",
]
