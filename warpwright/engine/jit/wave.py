"""Waves of any width: the LLVM types and sizes that follow from the number of lanes.

A front end says once how many lanes its waves have (``Program.lanes``): 16, 32 or 64.  A mask has a bit for each lane and is an integer
of as many bits.
"""

from __future__ import annotations

from functools import cache

LLVM_TYPE = {
    "i1": "i1",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "f16": "half",
    "bf16": "i16",
    "f32": "float",
    "f64": "double",
}
"""bf16 is kept as its bits: no target computes in it."""
WIDTHS = (16, 32, 64)
"""Lanes of a wave, of those that can be."""


class Wave:
    """LLVM types and sizes that follow from the number of lanes of a wave."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.all = tuple(range(lanes))
        self.mask_type = f"i{lanes}"
        self.vector_types = {type: f"<{lanes} x {llvm}>" for type, llvm in LLVM_TYPE.items()}
        self.row_bytes = 4 * lanes
        """Of a register in memory: one word for each lane."""
        self.entry_bytes = 8 if lanes <= 32 else 16
        """Of a group that waits for its turn: block number and, above 32 bits, lanes."""
        self.number = "%number" if lanes == 32 else "%lane_number"
        """Name that loops over lanes give to a lane's number, of the mask's type."""

    @property
    def row_shift(self) -> int:
        """``row_bytes`` as a shift."""
        return self.row_bytes.bit_length() - 1

    def wide(self, name: str, value: str) -> str:
        """An instruction that makes a mask, or a number of its type, an i64."""
        return f"{name} = or i64 {value}, 0" if self.lanes == 64 else f"{name} = zext {self.mask_type} {value} to i64"


@cache
def wave_of(lanes: int) -> Wave:
    """The types of waves with so many lanes."""
    return Wave(lanes)
