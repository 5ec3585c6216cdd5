"""Values of graph conditions, which kernels set with ``cudaGraphSetConditional``.

The driver makes the handles, and reads a value when a graph comes to the node that depends on it (CUDA C++ Programming Guide,
"Conditional Graph Nodes").  A handle that the driver did not make has no value, and setting it changes nothing.
"""

from __future__ import annotations

_values: dict[int, int] = {}


def new_condition(handle: int, value: int) -> None:
    """Begin to keep the value of a handle."""
    _values[handle] = value


def drop_condition(handle: int) -> None:
    _values.pop(handle, None)


def set_condition(handle: int, value: int) -> None:
    """What a kernel does; ``value`` is unsigned, of 32 bits."""
    if handle in _values:
        _values[handle] = value


def condition(handle: int) -> int:
    """The value that was last set."""
    return _values[handle]
