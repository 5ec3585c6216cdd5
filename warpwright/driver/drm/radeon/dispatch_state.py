"""What registers and descriptors of a dispatch say, under the names of AMD's register references for Evergreen and Cayman."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from warpwright.errors import UnsupportedError

PROGRAM_START, PROGRAM_RESOURCES = 0x288D0, 0x288D4
"""SQ_PGM_START_LS and SQ_PGM_RESOURCES_LS: compute programs take the registers of LS."""
THREADS_X = 0x286EC
"""SPI_COMPUTE_NUM_THREAD_X, and after it Y and Z."""
LDS_ALLOCATION = 0x288E8
CONSTANT_SIZES, CONSTANT_ADDRESSES = 0x28FC0, 0x28F40
"""ALU_CONST_BUFFER_SIZE_LS and ALU_CONST_CACHE_LS of 16 buffers."""
FIRST_RESOURCE = 816
"""Number of a compute program's first resource among all."""
TARGET_REGISTERS = tuple(0x28C60 + 0x3C * n for n in range(8)) + tuple(0x28E40 + 0x1C * n for n in range(4))
"""CB_COLOR_BASE of the twelve random access targets."""
INFO_AT, DIMENSIONS_AT = 0x10, 0x18
"""CB_COLOR_INFO and CB_COLOR_DIM after it."""
LINE_BYTES = 256
BYTES_OF_FORMAT = {0x01: 1, 0x05: 2, 0x0D: 4, 0x0E: 4, 0x1D: 8, 0x1E: 8, 0x22: 16, 0x23: 16}
"""Of colour formats with components of one size, which a store writes as they are."""
UNSIGNED, SIGNED, FLOAT = 4, 5, 7
"""Number types of which a store changes nothing."""
BUFFER = 3
"""Type of a resource that is a buffer."""


class BufferResource(NamedTuple):
    """A buffer for fetches."""

    address: int
    size: int
    elements: int
    stride_bytes: int
    data_format: int
    number_format: int
    signed: bool
    selects: tuple[int, int, int, int]


class RandomTarget(NamedTuple):
    """A buffer for stores and atomics."""

    address: int
    elements: int
    element_bytes: int


def buffer_resource(words: tuple[int, ...]) -> BufferResource:
    """A descriptor of a buffer.

    Raises:
        UnsupportedError: it describes a texture.
    """
    if words[7] >> 30 != BUFFER:
        raise UnsupportedError("textures of compute shaders are not modelled on Cypress and Cayman; use buffers")
    form = words[2]
    selects = tuple(words[3] >> 3 + 3 * n & 7 for n in range(4))
    return BufferResource(
        words[0] | (form & 0xFF) << 32,
        words[1] + 1,
        words[4] or 0xFFFFFFFF,
        form >> 8 & 0x7FF,
        form >> 20 & 0x3F,
        form >> 26 & 3,
        bool(form >> 28 & 1),
        selects,  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class ComputeState:
    """The state that a dispatch takes.

    Args:
        registers: by byte address.
        resources: words of descriptors, by number.
    """

    registers: Mapping[int, int]
    resources: Mapping[int, tuple[int, ...]]

    @property
    def program_address(self) -> int:
        """Virtual address of the program."""
        return self.registers.get(PROGRAM_START, 0) << 8

    @property
    def registers_used(self) -> int:
        """Registers of a thread."""
        return max(1, self.registers.get(PROGRAM_RESOURCES, 1) & 0xFF)

    @property
    def shared_bytes(self) -> int:
        """Bytes of local data share of a group."""
        return 4 * (self.registers.get(LDS_ALLOCATION, 0) & 0x3FFF)

    @property
    def group(self) -> tuple[int, int, int]:
        """Extents of a group."""
        x, y, z = (max(1, self.registers.get(THREADS_X + 4 * n, 1)) for n in range(3))
        return x, y, z

    def constants(self, number: int) -> tuple[int, int]:
        """Virtual address and bytes of a constant buffer."""
        size = self.registers.get(CONSTANT_SIZES + 4 * number, 0)
        return self.registers.get(CONSTANT_ADDRESSES + 4 * number, 0) << 8, LINE_BYTES * size

    def resource(self, number: int) -> tuple[int, ...] | None:
        """Words of a resource; None: nothing is bound."""
        words = self.resources.get(FIRST_RESOURCE + number)
        return words if words is not None and len(words) == 8 and words[7] >> 30 else None

    def target(self, number: int) -> RandomTarget | None:
        """A random access target; None: nothing is bound.

        Raises:
            UnsupportedError: it is an image, or of a format that a store converts to.
        """
        at = TARGET_REGISTERS[number]
        if at not in self.registers:
            return None
        info = self.registers.get(at + INFO_AT, 0)
        form, kind, resource_type = info >> 2 & 0x3F, info >> 12 & 7, info >> 27 & 7
        if not form:
            return None
        if resource_type:
            raise UnsupportedError(f"random access target {number} is an image, which is not modelled; use buffers")
        if form not in BYTES_OF_FORMAT or kind not in (UNSIGNED, SIGNED, FLOAT):
            raise UnsupportedError(
                f"random access target {number}: stores convert to its format ({form:#x}, {kind}), which is not modelled"
            )
        elements = self.registers.get(at + DIMENSIONS_AT, 0) + 1
        return RandomTarget(self.registers[at] << 8, elements, BYTES_OF_FORMAT[form])
