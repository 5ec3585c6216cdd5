"""Changes that kernels make to kernel nodes of graphs: parameters, grid, and whether the node runs.

The driver creates the handles (``CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE``) and uploads what the host has set; a node runs with what the
device has for it at that time.  Error codes are those of ``cuda_device_runtime_api.h`` for ``cudaGraphKernelNodeSetParam`` and the other calls.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Dim3 = tuple[int, int, int]
Reader = Callable[[int, int], bytes]
"""Reads (generic address, size) as bytes; raises IndexError for an invalid address."""
UPDATES = frozenset(f"cudaGraphKernelNode{what}" for what in ("SetParam", "SetGridDim", "SetEnabled", "UpdatesApply"))
"""Names of the services that ``serve`` executes."""
_GRID, _PARAMETER, _ENABLED = 1, 2, 3
"""cudaGraphKernelNodeField."""
_UPDATE_BYTES = 40
"""cudaGraphKernelNodeUpdate: node, field, and at byte 16 the data."""
_INVALID_VALUE = 1


@dataclass(eq=False)
class DeviceNode:
    """What the device has for a kernel node."""

    parameters: bytearray
    """In the layout of the kernel's parameters."""
    grid: Dim3
    enabled: bool
    largest_grid: Dim3


_nodes: dict[int, DeviceNode] = {}
_handles = itertools.count(0x7000_0040, 64)
"""cudaGraphDeviceNode_t: opaque pointers."""


def new_handle() -> int:
    """A node's handle in kernels."""
    return next(_handles)


def upload(handle: int, node: DeviceNode) -> None:
    """Replace what the device has for a node."""
    _nodes[handle] = node


def drop(handle: int) -> None:
    """Forget a node."""
    _nodes.pop(handle, None)


def device_node(handle: int) -> DeviceNode | None:
    """What the device has for a node; None if its graph was not uploaded."""
    return _nodes.get(handle)


def serve(name: str, words: Sequence[int], read: Reader) -> int:
    """Execute one of the services for a thread; returns 0 or the error's number.

    Args:
        name: one of ``UPDATES``.
        words: the arguments as 32-bit words.
        read: reads the thread's memory.
    """
    wide = [words[at] | words[at + 1] << 32 for at in range(0, len(words) - 1, 2)]
    try:
        if name == "cudaGraphKernelNodeUpdatesApply":
            return _apply(wide[0], wide[1], read)
        if name == "cudaGraphKernelNodeSetParam":
            return _set_parameter(wide[0], wide[1], wide[2], wide[3], read)
    except IndexError:
        return _INVALID_VALUE
    if name == "cudaGraphKernelNodeSetGridDim":
        return _set_grid(wide[0], (words[2], words[3], words[4]))
    return _set_enabled(wide[0], words[2])


def _apply(address: int, count: int, read: Reader) -> int:
    """Apply a list of updates up to the first error; returns that error or 0."""
    for number in range(count):
        raw = read(address + number * _UPDATE_BYTES, _UPDATE_BYTES)
        node, field = struct.unpack_from("<Qi", raw)
        if field == _GRID:
            error = _set_grid(node, struct.unpack_from("<3I", raw, 16))
        elif field == _PARAMETER:
            value, offset, size = struct.unpack_from("<3Q", raw, 16)
            error = _set_parameter(node, offset, value, size, read)
        elif field == _ENABLED:
            error = _set_enabled(node, *struct.unpack_from("<I", raw, 16))
        else:
            error = _INVALID_VALUE
        if error:
            return error
    return 0


def _set_parameter(handle: int, offset: int, value: int, size: int, read: Reader) -> int:
    node = _nodes.get(handle)
    if node is None or offset + size > len(node.parameters):
        return _INVALID_VALUE
    node.parameters[offset : offset + size] = read(value, size)
    return 0


def _set_grid(handle: int, grid: Dim3) -> int:
    node = _nodes.get(handle)
    if node is None or any(not 0 < size <= most for size, most in zip(grid, node.largest_grid, strict=True)):
        return _INVALID_VALUE
    node.grid = grid
    return 0


def _set_enabled(handle: int, enabled: int) -> int:
    node = _nodes.get(handle)
    if node is None:
        return _INVALID_VALUE
    node.enabled = bool(enabled)
    return 0
