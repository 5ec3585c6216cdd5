"""Waves of any width: the LLVM types and sizes that follow from the number of lanes.

A front end states the width of its waves once (``Program.lanes``): 16, 32 or 64 lanes.  A mask is an integer with one
bit per lane.
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
"""bf16 is kept as its bits, because no target computes in it."""
WIDTHS = (16, 32, 64)
"""Supported widths of waves, in lanes."""


class Wave:
    """LLVM types and sizes that follow from the number of lanes of a wave."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.all = tuple(range(lanes))
        self.mask_type = f"i{lanes}"
        self.vector_types = {type: f"<{lanes} x {llvm}>" for type, llvm in LLVM_TYPE.items()}
        self.row_bytes = 4 * lanes
        """Size of a register in memory: one word per lane."""
        self.entry_bytes = 8 if lanes <= 32 else 16
        """Type of a waiting group: block number and, above 32 bits, lanes."""
        self.number = "%number" if lanes == 32 else "%lane_number"
        """Name of the lane number, in the mask's type, in loops over lanes."""

    @property
    def row_shift(self) -> int:
        """``row_bytes`` as a shift."""
        return self.row_bytes.bit_length() - 1

    def wide(self, name: str, value: str) -> str:
        """An instruction that converts a mask, or a number of its type, to i64."""
        return f"{name} = or i64 {value}, 0" if self.lanes == 64 else f"{name} = zext {self.mask_type} {value} to i64"


@cache
def wave_of(lanes: int) -> Wave:
    """The types of waves of this many lanes."""
    return Wave(lanes)
