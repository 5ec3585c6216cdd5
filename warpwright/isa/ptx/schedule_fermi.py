"""The units that execute PTX on Fermi, and the number of machine instructions there.

Sources: CUDA C Programming Guide 3.2, table 5-1 (an SM executes 32 lanes per clock, but 16 for integer products,
shifts,
conversions and bit counts); envytools' description of Fermi's machine code (``gf100``: a product returns one half of
its
bits; bit fields, counts, votes and sums of absolute differences are single instructions; there is no three-operand
logic and no funnel shift).
"""

from __future__ import annotations

from collections.abc import Callable

from warpwright.isa.program import Instruction
from warpwright.isa.ptx.schedule import WORDS, WORKS, Modifiers, find_work, first_type
from warpwright.isa.schedule import Work

HALF_RATE = frozenset(("half_rate",))


def _half_rate(m: Modifiers) -> Work:
    """One instruction per 32 bits."""
    return Work("alu", HALF_RATE, instructions=WORDS.get(first_type(m), 1))


def _shift(m: Modifiers) -> Work:
    """For 64 bits: a shift of each half, one for the bits that cross, and an OR."""
    return Work("alu", HALF_RATE, instructions=4 if first_type(m) in WORDS else 1)


def _product(m: Modifiers) -> Work:
    """The lower half, the upper half, or one instruction for each; 64-bit products from their parts."""
    kind = first_type(m)
    if kind[0] == "f":
        return WORKS["mul"](m)
    if kind in WORDS:
        return Work("fma_heavy", HALF_RATE, instructions=7 if "hi" in m else 4)
    return Work("fma_heavy", HALF_RATE, instructions=2 if "wide" in m and kind[1:] != "16" else 1)


def _convert(m: Modifiers) -> Work:
    found = WORKS["cvt"](m)
    return Work("fp64") if "f64" in m else Work("alu", HALF_RATE) if found.unit == "xu" else found


def _logic_of_three(m: Modifiers) -> Work:
    return Work("alu", instructions=2)


def _funnel_shift(m: Modifiers) -> Work:
    """Two shifts and an OR."""
    return Work("alu", HALF_RATE, instructions=3)


def _extreme(m: Modifiers) -> Work:
    found = WORKS["min"](m)
    return Work("fp64") if found.unit == "fp64" else found


FERMI: dict[str, Callable[[Modifiers], Work]] = {
    **WORKS,
    **dict.fromkeys(("mul", "mad", "madc"), _product),
    **dict.fromkeys(("shl", "shr"), _shift),
    **dict.fromkeys(("sad", "popc", "clz", "brev", "bfind", "bfe", "bfi"), _half_rate),
    **dict.fromkeys(("vadd", "vsub", "vmin", "vmax", "vshl", "vshr", "vmad", "vabsdiff", "vset"), _half_rate),
    **dict.fromkeys(("min", "max"), _extreme),
    "cvt": _convert,
    "lop3": _logic_of_three,
    "shf": _funnel_shift,
}


def work_of_fermi(i: Instruction) -> Work:
    """The unit that executes a step of a PTX kernel on a chip of compute capability 2.x.

    Raises:
        UnknownTiming: the table has no row for its opcode.
    """
    return find_work(i, FERMI)
