"""Values of graph conditions, which kernels set with ``cudaGraphSetConditional``.

The driver creates the handles, and reads a value when a graph reaches the node that depends on it (CUDA C++ Programming
Guide, "Conditional Graph Nodes").  Setting an unknown handle has no effect.
"""

from __future__ import annotations

_values: dict[int, int] = {}


def new_condition(handle: int, value: int) -> None:
    """Start to record the value of a handle."""
    _values[handle] = value


def drop_condition(handle: int) -> None:
    _values.pop(handle, None)


def set_condition(handle: int, value: int) -> None:
    """Set a value from a kernel; ``value`` is an unsigned 32-bit number."""
    if handle in _values:
        _values[handle] = value


def condition(handle: int) -> int:
    """The value that was set last."""
    return _values[handle]
