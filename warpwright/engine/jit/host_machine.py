"""The host's registers for a warp's vectors and masks, where generated code depends on them.

LLVM lowers vectors of 32 lanes to whatever there is.  Three things it does not find by itself: that a mask which outlives its
block is better kept as an i32 where no register has a bit for each lane, that a comparison's bits are collected best register by
register where these have two halves, and that a masked store there is to be avoided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

PROBE = """
define i16 @less(<16 x i32> %x, <16 x i32> %y) {
  %lanes = icmp slt <16 x i32> %x, %y
  %bits = bitcast <16 x i1> %lanes to i16
  ret i16 %bits
}
"""


@dataclass(frozen=True, slots=True)
class Registers:
    """Of one processor."""

    masks: bool
    """Whether there are registers with one bit for each lane."""
    words: int
    """32-bit words in a vector register."""

    @property
    def halves(self) -> bool:
        """Whether a vector register is two halves between which moving lanes takes long (AVX2)."""
        return self.words == 8 and not self.masks


AVX512 = Registers(masks=True, words=16)


def registers_of(machine: Any) -> Registers:
    """What LLVM makes of a comparison for a target machine tells which registers that one has."""
    text = machine.emit_assembly(llvm.parse_assembly(PROBE))
    return Registers("kmov" in text, 16 if "%zmm" in text else 8 if "%ymm" in text else 4)
