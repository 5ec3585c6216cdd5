"""Names of special registers, texture units and samplers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpwright.isa.nv50.fields import Context, DoesNotFit, Token, Tokens, bits_of, put
from warpwright.isa.program import Kind, Operand

NAMES = {0: "physid", 1: "clock", 3: "vstride", 4: "pm0", 5: "pm1", 6: "pm2", 7: "pm3", 8: "sampleid"}
"""Special registers with names; the sample number came with Direct3D 10.1."""


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """``$physid`` or, with ``prefix``, ``$t5``."""

    low: int
    width: int = 4
    prefix: str = ""

    def read(self, word: int, context: Context) -> Sequence[Token]:
        number = bits_of(word, self.low, self.width)
        known = not self.prefix and number in NAMES and (number != 8 or "d3d10_1" in context.features)
        return (Operand(Kind.SPECIAL, number, name=NAMES[number] if known else f"{self.prefix or 'sr'}{number}"),)

    def write(self, tokens: Tokens, context: Context) -> int:
        o = tokens.operand(Kind.SPECIAL)
        if (o.name.startswith(self.prefix) if self.prefix else True) is False:
            raise DoesNotFit(o.name)
        return put(o.index, self.low, self.width)
