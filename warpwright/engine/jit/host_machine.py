"""The host's registers for a warp's vectors and masks, where generated code depends on them.

LLVM lowers vectors of 32 lanes to the registers available.  It misses three optimisations: on machines without mask
registers, a mask that outlives its block is better kept as an i32; a comparison's bits are best collected register by
register if registers have two halves; and masked stores should be avoided there.
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
    """Registers of one processor."""

    masks: bool
    """Whether there are mask registers, with one bit per lane."""
    words: int
    """Number of 32-bit words in a vector register."""

    @property
    def halves(self) -> bool:
        """Whether a vector register consists of two halves between which moving lanes is slow (AVX2)."""
        return self.words == 8 and not self.masks


AVX512 = Registers(masks=True, words=16)


def registers_of(machine: Any) -> Registers:
    """Determines a target machine's registers from LLVM's code for a comparison."""
    text = machine.emit_assembly(llvm.parse_assembly(PROBE))
    return Registers("kmov" in text, 16 if "%zmm" in text else 8 if "%ymm" in text else 4)
