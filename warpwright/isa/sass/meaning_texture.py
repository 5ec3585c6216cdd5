"""Textures and surfaces: decoded, not executed yet.  What runs into one says which family it is."""

from __future__ import annotations

from warpwright.isa.program import Instruction
from warpwright.isa.sass.meaning import Emitter, meaning, unsupported


@meaning("TEX", "TLD", "TLD4", "TXD", "TXQ")
def TEX(i: Instruction, b: Emitter) -> None:
    raise unsupported("it belongs to the texture instructions (TEX, TLD, TXQ …), which this version does not model")


@meaning("SULD", "SUST", "SURED")
def SULD(i: Instruction, b: Emitter) -> None:
    raise unsupported(
        "it belongs to the surface instructions (SULD, SUST, SUATOM …), which this version does not model"
    )
