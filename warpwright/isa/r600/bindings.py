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
"""A launch's record of a buffer: address (8 bytes), size and number of elements."""
IMAGE_RECORD_BYTES = 32
"""A launch's record of a level of an image: address (8 bytes), width, height, layers, elements per row and per layer; 4 unused bytes."""


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


WRAP, MIRROR, CLAMP_LAST, MIRROR_ONCE_LAST, CLAMP_HALF, MIRROR_ONCE_HALF, CLAMP_BORDER, MIRROR_ONCE_BORDER = range(8)
"""What a sampler does with coordinates outside the image."""
MIP_NONE, MIP_NEAREST, MIP_LINEAR = range(3)


class Sampler(NamedTuple):
    """How a fetch filters."""

    wraps: tuple[int, int, int]
    """By axis: one of the modes above."""
    magnify: bool
    """Whether the mean of the nearest texels is taken, where the image is magnified."""
    minify: bool
    mip: int
    anisotropy: int
    """The largest number of means along the longer gradient: 1, 2, 4, 8 or 16."""
    least: int
    most: int
    bias: int
    """Of the level of detail, in 1/256."""
    border: int
    """Type of the border's colour: 0 transparent, 1 black, 2 white, 3 of a register."""


class FixedLevel(NamedTuple):
    """A level of an image of assembly."""

    width: int
    height: int
    offset: int
    """Bytes from the image's first texel to the level's."""


class BoundImage(NamedTuple):
    """An image with linear rows, for fetches or random accesses."""

    at: int
    """Offset of its levels' records in the launch's words."""
    dimensions: int
    """Dimensions of a layer: 1, 2 or 3."""
    layered: bool
    """Whether the third coordinate selects a layer."""
    data_format: int
    number_format: int
    """As for :class:`Resource`."""
    signed: bool
    levels: int
    """Number of mipmap levels, each with a record."""
    selects: tuple[int, int, int, int]
    """As for :class:`Resource`."""
    cube: bool = False
    fixed: tuple[FixedLevel, ...] = ()
    """Levels of an image of assembly, whose sizes its text says: ``at`` is the offset of its address among the kernel's parameters."""


class Target(NamedTuple):
    """A buffer that random accesses write."""

    at: int
    """Offset of its record in the launch's words."""
    data_format: int
    number_format: int
    """As for :class:`Resource`."""
    signed: bool
    selects: tuple[int, int, int, int] = (0, 1, 2, 3)
    """As for :class:`Resource`."""


@dataclass(frozen=True)
class Bindings:
    """The bindings of a program."""

    lines: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Offset in the launch's words of a line of a constant buffer, by the buffer's number and the line's."""
    resources: Mapping[int, Resource] = field(default_factory=dict)
    textures: Mapping[int, BoundImage] = field(default_factory=dict)
    """Resources that are images."""
    samplers: Mapping[int, Sampler] = field(default_factory=dict)
    targets: Mapping[int, Target | BoundImage] = field(default_factory=dict)
    returns: Mapping[int, int] = field(default_factory=dict)
    """Resources that hold the values returned by random accesses, with the target of those accesses."""
    size_bytes: int = 0
    """Number of the launch's words."""
