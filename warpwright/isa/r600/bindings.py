"""What a graphics driver binds to a compute program: constant buffers, resources for fetches and random access targets.

A program is compiled for its kinds of bindings; their addresses, sizes and constants are words of the launch, in place
of CUDA's parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

LINE_BYTES = 256
"""A line of a constant cache: 16 constants of four words."""
RECORD_BYTES = 16
"""A launch's record of a resource or a target: address (8 bytes), size and number of elements."""


class Resource(NamedTuple):
    """A buffer that fetches read."""

    at: int
    """Offset of its record in the launch's words."""
    stride_bytes: int
    data_format: int
    number_format: int
    """Number format: 0 a fraction of the largest value, 1 an integer, 2 a number."""
    signed: bool
    selects: tuple[int, int, int, int]
    """Channels of the element, for a fetch that takes its format from the resource."""


class Target(NamedTuple):
    """A buffer that random accesses write."""

    at: int
    """Offset of its record in the launch's words."""
    element_bytes: int


@dataclass(frozen=True)
class Bindings:
    """The bindings of a program."""

    lines: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Offset in the launch's words of a line of a constant buffer, by the buffer's number and the line's."""
    resources: Mapping[int, Resource] = field(default_factory=dict)
    targets: Mapping[int, Target] = field(default_factory=dict)
    returns: Mapping[int, int] = field(default_factory=dict)
    """Resources that hold the old values returned by atomics, with the target of those atomics."""
    size_bytes: int = 0
    """Number of the launch's words."""
