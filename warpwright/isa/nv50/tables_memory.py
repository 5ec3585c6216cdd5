"""Rows of memory, control, special registers, graphics and texture instructions.

Facts: as in :mod:`tables`.
"""

from __future__ import annotations

from warpwright.isa.nv50.fields import (
    LONG_AREG,
    SHORT_AREG,
    Choice,
    Global,
    Imm,
    Part,
    Space,
    Target,
    either,
    flag,
)
from warpwright.isa.nv50.operands import Modified, OneOf, Vector
from warpwright.isa.nv50.rows import CONTROL, LONG, SHORT, SHORT_CONTROL, Row
from warpwright.isa.nv50.special import SpecialRegister
from warpwright.isa.nv50.tables_arithmetic import (
    C_WRITTEN,
    D6,
    D7,
    DD7,
    DQ7,
    LANES,
    LD,
    LHD,
    S6,
    S7,
    T7,
    TD7,
    U7,
    UD7,
    UH7,
    W,
    row,
    sub,
    top,
)

CP, GP, FP = ("cp",), ("gp",), ("fp",)
G, G2 = Global(16), Global(23)
LOCAL = Space("l", 9, 16, 0, LONG_AREG, steps=True, step_sign=False)


def wide_space(name: str, scale: int, number: bool = False, steps: bool = True) -> Space:
    """A space with its full 16-bit range."""
    return Space(name, 9, 16 - scale, scale, LONG_AREG, steps=steps, space=(54, 4) if number else (), step_sign=False)  # type: ignore[arg-type]


SHARED_8, SHARED_16, SHARED_32 = (wide_space("s", scale) for scale in (0, 1, 2))
SIZES = Choice(53, 3, ("u8", "s8", "u16", "s16", "b64", "b128", "b32", None))
DATA = OneOf(53, 3, ((D7,), (D7,), (D7,), (D7,), (DD7,), (DQ7,), (D7,), (D7,)))
TO_HALF_OR_WORD = OneOf(58, 1, ((LHD,), (LD,)))
FROM_HALF_OR_WORD = OneOf(53, 1, ((UH7,), (U7,)))
CONSTANT_LOAD = OneOf(
    46, 2, tuple((W(t), wide_space("c", s, number=True)) for t, s in (("u8", 0), ("u16", 1), ("s16", 1), ("b32", 2)))
)


ADDS = ((4, "u64"), (6, "u32"), (7, "s32"))
WHOLE, EXTREME, BITS = ((6, "u32"),), ((6, "u32"), (7, "s32")), ((6, "b32"),)
REDUCTIONS = (
    (0, "add", ADDS),
    (4, "inc", WHOLE),
    (5, "dec", WHOLE),
    (6, "max", EXTREME),
    (7, "min", EXTREME),
    (10, "and", BITS),
    (11, "or", BITS),
    (12, "xor", BITS),
)
EXCHANGES = ((1, "exch", ((4, "b64"), (6, "b32"))), (2, "cas", ((4, "b64"), (6, "b32"))))


def reductions() -> tuple[Row, ...]:
    rows = []
    for number, name, types in REDUCTIONS:
        for code, type in types:
            data = DD7 if code == 4 else D7
            rows.append(
                row(
                    "red_g",
                    LONG,
                    (top(13), sub(6), (34, 4, number), (53, 3, code)),
                    W("red"),
                    W(name),
                    W(type),
                    G,
                    data,
                    stages=CP,
                    feature="sm12" if code == 4 else "sm11",
                )
            )
    return tuple(rows)


def atomics() -> tuple[Row, ...]:
    rows = []
    for number, name, types in (*REDUCTIONS, *EXCHANGES):
        for code, type in types:
            data, second, third = (DD7, TD7, UD7) if code == 4 else (D7, T7, U7)
            operands: tuple[Part, ...] = (data, G2, second, *((third,) if name == "cas" else ()))
            first = (W(name), W(type)) if (number, name, types) in EXCHANGES else (W("ld"), W(name), W(type))
            rows.append(
                row(
                    "atomic_g",
                    LONG,
                    (top(13), sub(7), (34, 4, number), (53, 3, code)),
                    *first,
                    *operands,
                    stages=CP,
                    feature="sm12" if code == 4 else "sm11",
                )
            )
    return tuple(rows)


def control(
    opcode: str,
    primary: int,
    *parts: Part,
    guarded: bool = False,
    where: tuple[tuple[int, int, int], ...] = (),
    stages: tuple[str, ...] = (),
    feature: str = "",
) -> Row:
    return Row(opcode, CONTROL, (top(primary), *where), parts, guarded, stages, feature)


# fmt: off
MEMORY = (
    row("ld_a", LONG, (top(0), (61, 3, 0), (58, 1, 1), (53, 1, 1)), LANES, W("ld"), W("b32"), LD, Space("a", 9, 7, 2, LONG_AREG), stages=("vp", "gp")),
    row("mov_from_sr", LONG, (top(0), sub(3)), W("mov"), D7, SpecialRegister(46)),
    row("st_o", LONG, (top(0), sub(4), (54, 2, 3)), W("st"), W("b32"), Space("o", 9, 14, 2, LONG_AREG), U7),
    row("st_s", LONG, (top(0), sub(7), (54, 1, 1)), W("st"), W("b8"), SHARED_8, FROM_HALF_OR_WORD, stages=CP),
    row("st_s", LONG, (top(0), sub(7), (54, 1, 0), (58, 1, 0)), W("st"), W("b16"), SHARED_16, FROM_HALF_OR_WORD, stages=CP),
    row("st_s", LONG, (top(0), sub(7), (54, 1, 0), (58, 1, 1)), W("st"), flag(55, "unlock", "sm12"), W("b32"), SHARED_32, FROM_HALF_OR_WORD, stages=CP),
    row("ld_c", LONG, (top(1), sub(1)), W("ld"), TO_HALF_OR_WORD, CONSTANT_LOAD),
    row("ld_s", LONG, (top(1), sub(2), (46, 2, 0)), W("ld"), TO_HALF_OR_WORD, W("u8"), SHARED_8, stages=CP, feature="sm11"),
    row("ld_s", LONG, (top(1), sub(2), (46, 2, 1)), W("ld"), TO_HALF_OR_WORD, W("u16"), SHARED_16, stages=CP, feature="sm11"),
    row("ld_s", LONG, (top(1), sub(2), (46, 2, 2)), W("ld"), TO_HALF_OR_WORD, W("s16"), SHARED_16, stages=CP, feature="sm11"),
    row("ld_s", LONG, (top(1), sub(2), (46, 2, 3), (55, 1, 0)), W("ld"), TO_HALF_OR_WORD, W("b32"), SHARED_32, stages=CP, feature="sm11"),
    row("ld_lock", LONG, (top(1), sub(2), (46, 2, 3), (55, 1, 1)), W("ld"), W("lock"), C_WRITTEN, TO_HALF_OR_WORD, W("b32"), SHARED_32, stages=CP, feature="sm12"),
    row("vote", LONG, (top(1), sub(3), (9, 2, 1)), W("vote"), W("any"), C_WRITTEN, feature="sm12"),
    row("vote", LONG, (top(1), sub(3), (9, 2, 2)), W("vote"), W("all"), C_WRITTEN, feature="sm12"),
    row("ld_l", LONG, (top(13), sub(2)), W("ld"), SIZES, DATA, LOCAL),
    row("st_l", LONG, (top(13), sub(3)), W("st"), SIZES, LOCAL, DATA),
    row("ld_g", LONG, (top(13), sub(4)), W("ld"), SIZES, DATA, G, stages=CP),
    row("st_g", LONG, (top(13), sub(5)), W("st"), SIZES, G, DATA, stages=CP),
    *reductions(), *atomics(),
)

CENTROID, FLAT = W("cent"), W("flat")
VARYING_SHORT, VARYING = Space("v", 16, 8, 2, SHORT_AREG), Space("v", 16, 8, 2, LONG_AREG)
SCALE = Modified(S7, negate=58)
TEXTURE = (Imm(((9, 8),)),)
GRAPHICS = (
    *(
        row("interp", SHORT, (top(8), (24, 2, kind), (8, 1, 0)), W("interp"), D6, *((CENTROID,) if kind & 1 else ()), VARYING_SHORT, *((S6,) if kind & 2 else ()), stages=FP)
        for kind in range(4)
    ),
    row("interp", SHORT, (top(8), (24, 2, 0), (8, 1, 1)), W("interp"), D6, FLAT, VARYING_SHORT, stages=FP),
    *(
        row("interp", LONG, (top(8), (48, 3, kind)), W("interp"), D7, *((CENTROID,) if kind & 1 else ()), VARYING, *((SCALE,) if kind & 2 else ()), stages=FP)
        for kind in range(4)
    ),
    row("interp", LONG, (top(8), (48, 3, 4)), W("interp"), D7, FLAT, VARYING, stages=FP),
    row("emit", LONG, (top(15), sub(6), (9, 2, 1)), W("emit"), stages=GP),
    row("restart", LONG, (top(15), sub(6), (9, 2, 2)), W("restart"), stages=GP),
    row("nop", LONG, (top(15), sub(7), (34, 1, 0)), W("nop")),
    row("pmevent", LONG, (top(15), sub(7), (34, 1, 1)), W("pmevent"), Imm(((10, 4),))),
)

# Textures: bits 24-27 of the first half refine the kind.
UNIT, SAMPLER = SpecialRegister(9, 8, "t"), SpecialRegister(17, 5, "s")
TO, FROM, SHORT_TO, SHORT_FROM = Vector(2, 7, None, ((25, 2), (46, 2))), Vector(2, 7, (22, 2)), Vector(2, 6), Vector(2, 6, (22, 2))
OFFSETS = tuple(Imm(((low, 4),), sign=True) for low in (56, 52, 48))
LIVE = (either(34, "all", "live"), flag(35, "deriv"))


def texture(name: str, secondary: int, where: tuple[tuple[int, int, int], ...], cube: bool = False, feature: str = "") -> Row:
    words = (W(name), *((W("cube"),) if cube else ()), *LIVE, TO, UNIT, SAMPLER, FROM)
    return row("tex", LONG, (top(15), (60, 4, 2 * secondary), *where), *words, *(() if cube else OFFSETS), feature=feature)


NOT_CUBE, CUBE, FETCH = ((27, 1, 0),), ((27, 1, 1),), ((24, 1, 1),)
SAMPLED = ((24, 1, 0),)
TEXTURES = (
    row("tex", SHORT, (top(15), (24, 1, 0)), W("texauto"), either(8, "all", "live"), SHORT_TO, UNIT, SAMPLER, SHORT_FROM),
    row("tex", SHORT, (top(15), (24, 1, 1)), W("texfetch"), either(8, "all", "live"), SHORT_TO, UNIT, SAMPLER, SHORT_FROM),
    texture("texauto", 0, (*SAMPLED, *NOT_CUBE)), texture("texauto", 0, (*SAMPLED, *CUBE), cube=True), texture("texfetch", 0, FETCH),
    texture("texbias", 1, NOT_CUBE), texture("texbias", 1, CUBE, cube=True), texture("texlod", 2, NOT_CUBE), texture("texlod", 2, CUBE, cube=True),
    row("texsize", LONG, (top(15), (60, 4, 6), (48, 4, 0)), W("texsize"), *LIVE, TO, UNIT, SAMPLER, D7),
    texture("texprep", 3, ((48, 4, 1), *CUBE), cube=True, feature="d3d10_1"),
    row("tex", LONG, (top(15), (60, 4, 6), (48, 4, 2), *NOT_CUBE), W("texquerylod"), *LIVE, TO, UNIT, SAMPLER, FROM, feature="d3d10_1"),
    texture("texquerylod", 3, ((48, 4, 2), *CUBE), cube=True, feature="d3d10_1"),
    texture("texcsaa", 4, SAMPLED), texture("texgather", 4, (*FETCH, *NOT_CUBE), feature="d3d10_1"), texture("texgather", 4, (*FETCH, *CUBE), cube=True, feature="d3d10_1"),
)

LIMITED = flag(38, "lim")
BARRIER = (W("bar"), flag(25, "inc"), flag(26, "wait"), Imm(((21, 4),)))
CONTROLS = (
    control("discard", 0, W("discard"), guarded=True, stages=FP),
    control("bra", 1, W("bra"), Target(), guarded=True),
    control("call", 2, W("call"), LIMITED, Target()),
    control("ret", 3, W("ret"), guarded=True),
    control("prebrk", 4, W("breakaddr"), Target()),
    control("brk", 5, W("break"), guarded=True),
    control("quadon", 6, W("quadon")),
    control("quadpop", 7, W("quadpop")),
    control("bar", 8, *BARRIER, Imm(((9, 12),)), where=((46, 1, 0),)),
    control("bar", 8, *BARRIER, W("all"), where=((46, 1, 1),)),
    control("trap", 9, W("trap")),
    control("joinat", 10, W("joinat"), Target()),
    control("brkpt", 11, W("brkpt"), guarded=True, feature="sm11"),
    control("bra_c", 12, W("bra"), LIMITED, wide_space("c", 0, number=True, steps=False), feature="d3d10_1"),
    control("preret", 13, W("preret"), LIMITED, Target(), feature="d3d10_1"),
    Row("trap", SHORT_CONTROL, (top(9),), (W("trap"),), False),
    Row("brkpt", SHORT_CONTROL, (top(11),), (W("brkpt"),), False, (), "sm11"),
)
# fmt: on

ROWS = (*MEMORY, *GRAPHICS, *TEXTURES, *CONTROLS)
