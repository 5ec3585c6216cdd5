"""The units that execute NV50 instructions: rows for the opcodes of compute programs and of the graphics pipeline's programs.

G80's multiprocessor has eight streaming processors, which add, multiply and compare, and two special-function units; double precision
came with compute capability 1.3 (CUDA Programming Guide 1.1, appendix A; 2.3, section 5.1.1.1).  Conversions have the
throughput of additions; a sine, a cosine or a power of two uses the special-function units twice, for range reduction
and evaluation (guide 1.1, section 5.1.1.1: 4, 32 cycles).

Graphics programs read inputs from and write outputs to the multiprocessor's memory (Lindholm et al., IEEE Micro 2008);
such a move has the throughput of an addition.  The special-function units interpolate; texture instructions go to the
cluster's texture unit.
"""

from __future__ import annotations

from warpwright.isa.nv50.text import format_instruction
from warpwright.isa.program import Instruction
from warpwright.isa.schedule import UnknownTiming, Work

# fmt: off
UNITS: dict[str, tuple[str, ...]] = {
    "alu": (
        *("mov", "hmov", "iadd", "hadd", "imax", "imin", "hmax", "hmin", "iset", "hset", "logic", "hlogic", "shl", "shr", "hshl", "hshr"),
        *("ld_a", "st_o", "emit", "restart", "quadop"),
        *("sad", "sad16", "add_a", "shl_to_a", "mov_from_a", "mov_to_c", "mov_from_c", "fmax", "fmin", "fset", "slct", "cvt"),
    ),
    "fma": ("fadd", "fmul", "fmad"),
    "fma_heavy": ("mul16", "mul24", "imad"),
    "fp64": ("dadd", "dmul", "dfma", "dmax", "dmin", "dset"),
    "xu": ("rcp", "rsqrt", "lg2", "ex2", "sin", "cos", "presin", "preex2"),
    "interpolation": ("interp",),
    "texture": ("tex", "texsize"),
    "special": ("mov_from_sr",),
    "memory": ("ld_g", "ld_l", "ld_s", "st_g", "st_l", "st_s", "atomic_g", "red_g"),
    "constant": ("ld_c",),
    "branch": ("bra", "call", "ret", "prebrk", "brk", "joinat", "trap", "discard"),
    "block_barrier": ("bar",),
    "none": ("nop", "brkpt", "pmevent", "tail", "quadon", "quadpop"),
}
# fmt: on
TRAITS: dict[str, frozenset[str]] = {
    "fmul": frozenset(("product",)),
    "ld_g": frozenset(("l2_only",)),
    "ld_l": frozenset(("l2_only",)),
}
"""Products may use the special-function units; an SM has no cache for global and local memory (guide, section
5.1.2.1)."""
WORKS: dict[str, Work] = {
    opcode: Work(unit, TRAITS.get(opcode, frozenset())) for unit, opcodes in UNITS.items() for opcode in opcodes
}


def work_of(i: Instruction) -> Work:
    """The unit that executes an instruction.

    Raises:
        UnknownTiming: the table has no row for its opcode.
    """
    known = WORKS.get(i.opcode)
    if known is None:
        text = format_instruction(i)
        raise UnknownTiming(f"opcode {i.opcode} has no timing row: {text} at {i.address:#06x}; use timing='off'")
    return known
