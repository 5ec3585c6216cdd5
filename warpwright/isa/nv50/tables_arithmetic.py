"""Rows of arithmetic, logic, moves, conversions and functions.

Facts: envytools' documentation of the Tesla ISA (docs/hw/graph/tesla/cuda) and its disassembler; every form is tested
against it with random words.  Names of rows are that documentation's: ``iadd``, ``hadd`` for halves, ``fmad`` …
"""

from __future__ import annotations

from warpwright.isa.nv50.fields import (
    LONG_AREG,
    AddressReg,
    Carry,
    Choice,
    CondReg,
    FirstCondition,
    Imm,
    Part,
    Reg,
    Split,
    Word,
    either,
    flag,
)
from warpwright.isa.nv50.operands import (
    LongConstant,
    LongDestination,
    LongSource,
    Modified,
    OneOf,
    ShortConstant,
    ShortSource,
)
from warpwright.isa.nv50.rows import IMMEDIATE, LONG, SHORT, Row

W = Word
OPENS, CLOSES = Word("("), Word(")")

# Registers by field.
D6, DH6 = Reg(2, 6), Reg(2, 6, half=True)
D7, DH7, DD7, DQ7 = Reg(2, 7), Reg(2, 7, half=True), Reg(2, 7, suffix="d"), Reg(2, 7, suffix="q")
S6, SH6, S7, SD7 = Reg(9, 6), Reg(9, 6, half=True), Reg(9, 7), Reg(9, 7, suffix="d")
T6, TH6, T7, TD7 = Reg(16, 6), Reg(16, 6, half=True), Reg(16, 7), Reg(16, 7, suffix="d")
U7, UH7, UD7 = Reg(46, 7), Reg(46, 7, half=True), Reg(46, 7, suffix="d")
A_DESTINATION = AddressReg(((2, 3),))
A_SOURCE = AddressReg(LONG_AREG)
C_READ, C_WRITTEN, C_MAY = CondReg(44), CondReg(36), CondReg(36, optional=True)

# Sources and destinations of the usual kinds.
SW, SHW = ShortSource(), ShortSource(half=True)
IW, IHW = ShortSource(immediate=True), ShortSource(half=True, immediate=True)
SC, SHC = ShortConstant(), ShortConstant(half=True)
LW, LHW = LongSource(), LongSource(half=True)
C2, CH2, C3, CH3 = LongConstant(16), LongConstant(16, half=True), LongConstant(46), LongConstant(46, half=True)
LD, LHD = LongDestination(), LongDestination(half=True)
IMM = Imm(((16, 6), (34, 26)))

ADDS = ("add", "sub", "subr", "addc")
ADD = Split(((22, 1), (28, 1)), ADDS)
ADD_MUL = Choice(58, 2, ADDS)
CARRY, CARRY_MUL, CARRY_SHORT = Carry((22, 28)), Carry((58, 59)), FirstCondition()
SAT_8, SAT_8_LATE = flag(8, "sat"), flag(8, "sat", "sm12")
RELATIONS = ("never", "l", "e", "le", "g", "lg", "ge", "always")
FLOAT_RELATIONS = (*RELATIONS[:7], "lge", "u", "lu", "eu", "leu", "gu", "lgu", "geu", "always")
LOGIC = ("and", "or", "xor", "mov2")
ROUND = Choice(49, 2, ("rn", "rm", "rp", "rz"))
ROUND_INTEGER = Choice(49, 2, ("rni", "rmi", "rpi", "rzi"))
ROUND_ADD, ROUND_MUL = Choice(16, 2, ("rn", None, None, "rz")), Choice(46, 2, ("rn", None, None, "rz"))
LANES = Choice(
    46,
    4,
    (
        *("(lnone)", "(l0)", "(l1)", "(l01)", "(l2)", "(l02)", "(l12)", "(l012)"),
        *("(l3)", "(l03)", "(l13)", "(l013)", "(l23)", "(l023)", "(l123)", ""),
    ),
)
"""The lanes of each group of four to which a move applies."""
SIGN_16, SIGN_32 = either(59, "u16", "s16"), either(59, "u32", "s32")

# Float sources: sign bits 58 and 59, magnitude bits 52 and 51.
F1, F2 = Modified(LW, negate=58, absolute=52), Modified(C2, negate=59, absolute=51)
FD1, FD2 = Modified(SD7, negate=58, absolute=52), Modified(TD7, negate=59, absolute=51)
F1_REG = Modified(S7, negate=58, absolute=52)


def top(primary: int) -> tuple[int, int, int]:
    """The upper four bits of the first half: the primary opcode."""
    return (28, 4, primary)


def sub(value: int) -> tuple[int, int, int]:
    """The upper three bits of the second half: the secondary opcode."""
    return (61, 3, value)


def row(
    opcode: str,
    form: str,
    where: tuple[tuple[int, int, int], ...],
    *parts: Part,
    feature: str = "",
    stages: tuple[str, ...] = (),
) -> Row:
    return Row(opcode, form, where, parts, True, stages, feature)


# fmt: off
MOVES = (
    row("hmov", SHORT, (top(1), (15, 1, 0)), W("mov"), flag(17, "sfu"), W("b16"), DH6, SHW),
    row("mov", SHORT, (top(1), (15, 1, 1)), W("mov"), flag(17, "sfu"), W("b32"), D6, SW),
    row("hmov", IMMEDIATE, (top(1), (15, 1, 0)), W("mov"), W("b16"), DH7, IMM),
    row("mov", IMMEDIATE, (top(1), (15, 1, 1)), W("mov"), W("b32"), D7, IMM),
    row("hmov", LONG, (top(1), sub(0), (58, 1, 0)), LANES, W("mov"), flag(57, "sfu"), W("b16"), LHD, LHW),
    row("mov", LONG, (top(1), sub(0), (58, 1, 1)), LANES, W("mov"), flag(57, "sfu"), W("b32"), LD, LW),
    row("mov_from_c", LONG, (top(0), sub(1)), W("mov"), D7, C_READ),
    row("mov_from_a", LONG, (top(0), sub(2)), W("mov"), D7, A_SOURCE),
    row("mov_to_c", LONG, (top(0), sub(5)), W("mov"), C_WRITTEN, S7),
    row("shl_to_a", LONG, (top(0), sub(6)), W("shl"), A_DESTINATION, LW, Imm(((16, 4),))),
    row("add_a", LONG, (top(13), sub(1)), W("add"), A_DESTINATION, A_SOURCE, Imm(((9, 16),))),
)

SHIFT_COUNT = OneOf(52, 1, ((C2,), (Imm(((16, 7),)),)))
SHIFT_COUNT_HALF = OneOf(52, 1, ((CH2,), (Imm(((16, 7),)),)))


def sums(form: str, half: bool) -> Row:
    """The four sums of short and immediate words; bit 28 belongs to the operation."""
    where = ((29, 3, 1), (15, 1, 0 if half else 1))
    source = (SHW if half else SW) if form == SHORT else (IHW if half else IW)
    second = (SHC if half else SC) if form == SHORT else IMM
    return row("hadd" if half else "iadd", form, where, ADD, SAT_8, W("b16" if half else "b32"), DH6 if half else D6, source, second, CARRY_SHORT)


def short_products(form: str) -> tuple[Row, ...]:
    """``add d (mul x y) d`` of short and immediate words, by bits 15 and 8."""
    half, word = (SHW, SW) if form == SHORT else (IHW, IW)
    half2, word2 = (SHC, SC) if form == SHORT else (IMM, IMM)
    rows = []
    for bits, sat, kind, wide in ((0, False, "u16", False), (1, False, "s16", False), (2, True, "s16", False), (3, False, "u24", True)):
        saturating = (W("sat"),) if sat else ()
        operands = (word, word2) if wide else (half, half2)
        rows.append(row("imad", form, ((29, 3, 3), (15, 1, bits >> 1), (8, 1, bits & 1)), ADD, *saturating, D6, OPENS, W("mul"), W(kind), *operands, CLOSES, D6, CARRY_SHORT))
    return tuple(rows)


def long_product(primary: int, secondary: int, kind: str, sat: bool = False, high: bool = False) -> Row:
    words = (*((W("high"),) if high else ()), W(kind))
    operands = (LHW, CH2) if kind.endswith("16") else (LW, C2)
    return row("imad", LONG, (top(primary), sub(secondary)), ADD_MUL, *((W("sat"),) if sat else ()), C_MAY, LD, OPENS, W("mul"), *words, *operands, CLOSES, C3, CARRY_MUL)


INTEGERS = (
    sums(SHORT, True), sums(SHORT, False), sums(IMMEDIATE, True), sums(IMMEDIATE, False),
    row("hadd", LONG, ((29, 3, 1), sub(0), (58, 1, 0)), ADD, W("b16"), flag(59, "sat"), C_MAY, LHD, LHW, CH3, CARRY),
    row("iadd", LONG, ((29, 3, 1), sub(0), (58, 1, 1)), ADD, W("b32"), flag(59, "sat"), C_MAY, LD, LW, C3, CARRY),
    row("hset", LONG, (top(3), sub(3), (58, 1, 0)), W("set"), C_MAY, LHD, Choice(46, 3, RELATIONS), SIGN_16, LHW, CH2),
    row("iset", LONG, (top(3), sub(3), (58, 1, 1)), W("set"), C_MAY, LD, Choice(46, 3, RELATIONS), SIGN_32, LW, C2),
    row("hmax", LONG, (top(3), sub(4), (58, 1, 0)), W("max"), SIGN_16, C_MAY, LHD, LHW, CH2),
    row("imax", LONG, (top(3), sub(4), (58, 1, 1)), W("max"), SIGN_32, C_MAY, LD, LW, C2),
    row("hmin", LONG, (top(3), sub(5), (58, 1, 0)), W("min"), SIGN_16, C_MAY, LHD, LHW, CH2),
    row("imin", LONG, (top(3), sub(5), (58, 1, 1)), W("min"), SIGN_32, C_MAY, LD, LW, C2),
    row("hshl", LONG, (top(3), sub(6), (58, 1, 0)), W("shl"), W("b16"), C_MAY, LHD, LHW, SHIFT_COUNT_HALF),
    row("shl", LONG, (top(3), sub(6), (58, 1, 1)), W("shl"), W("b32"), C_MAY, LD, LW, SHIFT_COUNT),
    row("hshr", LONG, (top(3), sub(7), (58, 1, 0)), W("shr"), SIGN_16, C_MAY, LHD, LHW, SHIFT_COUNT_HALF),
    row("shr", LONG, (top(3), sub(7), (58, 1, 1)), W("shr"), SIGN_32, C_MAY, LD, LW, SHIFT_COUNT),
    row("mul16", SHORT, (top(4), (22, 1, 0)), W("mul"), D6, either(15, "u16", "s16"), SHW, either(8, "u16", "s16"), SHC),
    row("mul24", SHORT, (top(4), (22, 1, 1)), W("mul"), D6, flag(8, "high"), either(15, "u24", "s24"), SW, SC),
    row("mul16", IMMEDIATE, (top(4), (22, 1, 0)), W("mul"), D6, either(15, "u16", "s16"), IHW, either(8, "u16", "s16"), IMM),
    row("mul24", IMMEDIATE, (top(4), (22, 1, 1)), W("mul"), D6, flag(8, "high"), either(15, "u24", "s24"), IW, IMM),
    row("mul16", LONG, (top(4), sub(0), (48, 1, 0)), W("mul"), C_MAY, LD, either(47, "u16", "s16"), LHW, either(46, "u16", "s16"), CH2),
    row("mul24", LONG, (top(4), sub(0), (48, 1, 1)), W("mul"), C_MAY, LD, flag(46, "high"), either(47, "u24", "s24"), LW, C2),
    row("sad16", SHORT, (top(5), (15, 1, 0)), W("sad"), D6, either(8, "u16", "s16"), SH6, TH6, D6),
    row("sad", SHORT, (top(5), (15, 1, 1)), W("sad"), D6, either(8, "u32", "s32"), S6, T6, D6),
    row("sad16", LONG, (top(5), sub(0), (58, 1, 0)), W("sad"), C_MAY, LD, SIGN_16, LHW, CH2, C3),
    row("sad", LONG, (top(5), sub(0), (58, 1, 1)), W("sad"), C_MAY, LD, SIGN_32, LW, C2, C3),
    *short_products(SHORT), *short_products(IMMEDIATE),
    long_product(6, 0, "u16"), long_product(6, 1, "s16"), long_product(6, 2, "s16", sat=True),
    long_product(6, 3, "u24"), long_product(6, 4, "s24"), long_product(6, 5, "s24", sat=True),
    long_product(6, 6, "u24", high=True), long_product(6, 7, "s24", high=True), long_product(7, 0, "s24", sat=True, high=True),
    row("logic", IMMEDIATE, (top(13),), Split(((8, 1), (15, 1)), LOGIC), W("b32"), D6, Modified(IW, invert=22), IMM),
    row("hlogic", LONG, (top(13), sub(0), (58, 1, 0)), Choice(46, 2, LOGIC), W("b16"), C_MAY, LHD, Modified(LHW, invert=48), Modified(CH2, invert=49)),
    row("logic", LONG, (top(13), sub(0), (58, 1, 1)), Choice(46, 2, LOGIC), W("b32"), C_MAY, LD, Modified(LW, invert=48), Modified(C2, invert=49)),
)

N15, N22 = Modified(SW, negate=15), Modified(SC, negate=22)
SIGNED_MUL_I = (flag(15, "neg"), OPENS, W("mul"), IW, IMM, CLOSES)
FLOATS = (
    row("rcp", SHORT, (top(9),), W("rcp"), W("f32"), D6, Modified(S6, negate=22, absolute=15)),
    row("fadd", SHORT, (top(11),), W("add"), SAT_8, W("f32"), D6, N15, N22),
    row("fmul", SHORT, (top(12),), W("mul"), SAT_8_LATE, W("f32"), D6, N15, N22),
    row("fmad", SHORT, (top(14),), W("add"), SAT_8, W("f32"), D6, flag(15, "neg"), OPENS, W("mul"), SW, SC, CLOSES, Modified(D6, negate=22)),
    row("fadd", IMMEDIATE, (top(11),), W("add"), SAT_8, W("f32"), D6, Modified(IW, negate=15), flag(22, "neg"), IMM),
    row("fmul", IMMEDIATE, (top(12),), W("mul"), SAT_8_LATE, W("f32"), D6, Modified(IW, negate=15), flag(22, "neg"), IMM),
    row("fmad", IMMEDIATE, (top(14),), W("add"), SAT_8, W("f32"), D6, *SIGNED_MUL_I, Modified(D6, negate=22)),
    row("rcp", LONG, (top(9), sub(0)), W("rcp"), W("f32"), LD, F1_REG),
    row("rsqrt", LONG, (top(9), sub(2)), W("rsqrt"), W("f32"), LD, F1_REG),
    row("lg2", LONG, (top(9), sub(3)), W("lg2"), W("f32"), LD, F1_REG),
    row("sin", LONG, (top(9), sub(4)), W("sin"), W("f32"), LD, S7),
    row("cos", LONG, (top(9), sub(5)), W("cos"), W("f32"), LD, S7),
    row("ex2", LONG, (top(9), sub(6)), W("ex2"), W("f32"), flag(59, "sat"), LD, S7),
    row("fadd", LONG, (top(11), (62, 2, 0)), W("add"), flag(61, "sat"), ROUND_ADD, W("f32"), C_MAY, LD, Modified(LW, negate=58), Modified(C3, negate=59)),
    row("fset", LONG, (top(11), sub(3)), W("set"), C_MAY, LD, Choice(46, 4, FLOAT_RELATIONS), W("f32"), F1, F2),
    row("fmax", LONG, (top(11), sub(4)), W("max"), W("f32"), C_MAY, LD, F1, F2),
    row("fmin", LONG, (top(11), sub(5)), W("min"), W("f32"), C_MAY, LD, F1, F2),
    row("presin", LONG, (top(11), sub(6), (46, 1, 0)), W("presin"), W("f32"), LD, F1),
    row("preex2", LONG, (top(11), sub(6), (46, 1, 1)), W("preex2"), W("f32"), LD, F1),
    row("fmul", LONG, (top(12), sub(0)), W("mul"), flag(52, "sat", "sm12"), ROUND_MUL, W("f32"), C_MAY, LD, Modified(LW, negate=58), Modified(C2, negate=59)),
    row("slct", LONG, (top(12), (62, 2, 1)), W("slct"), W("b32"), C_MAY, LD, LW, C2, W("f32"), Modified(C3, negate=61)),
    row("quadop", LONG, (top(12), sub(4)), W("quadop"), W("f32"), *(Choice(low, 2, ("add", "subr", "sub", "mov2")) for low in (58, 56, 54, 20)),
        C_MAY, LD, Choice(16, 3, ("l0", "l1", "l2", "l3", "dx", "dy", "dx", "dy")), S7, U7),
    row("fmad", LONG, (top(14), (62, 2, 0)), W("add"), flag(61, "sat"), W("f32"), C_MAY, LD, flag(58, "neg"), OPENS, W("mul"), LW, C2, CLOSES, Modified(C3, negate=59)),
    row("dfma", LONG, (top(14), sub(2)), W("fma"), Choice(54, 2, ("rn", "rm", "rp", "rz")), W("f64"), C_MAY, DD7, Modified(SD7, negate=58), TD7, Modified(UD7, negate=59), feature="fp64"),
    row("dadd", LONG, (top(14), sub(3)), W("add"), Choice(16, 2, ("rn", "rm", "rp", "rz")), W("f64"), C_MAY, DD7, Modified(SD7, negate=58), Modified(UD7, negate=59), feature="fp64"),
    row("dmul", LONG, (top(14), sub(4)), W("mul"), ROUND, W("f64"), C_MAY, DD7, Modified(SD7, negate=58), TD7, feature="fp64"),
    row("dmin", LONG, (top(14), sub(5)), W("min"), W("f64"), C_MAY, DD7, FD1, FD2, feature="fp64"),
    row("dmax", LONG, (top(14), sub(6)), W("max"), W("f64"), C_MAY, DD7, FD1, FD2, feature="fp64"),
    row("dset", LONG, (top(14), sub(7)), W("set"), C_MAY, LD, Choice(46, 4, FLOAT_RELATIONS), W("f64"), FD1, FD2, feature="fp64"),
)

# Conversions.  Bits: 62-63 kinds (integer or float) of both sides, 58 destination of 32 bits, 59 signed or rounded to an integer,
# 54 and 46 widths, 61 and 52 sign and magnitude of the source, 51 saturation (or an 8-bit destination).
NEGATED = flag(61, "neg")
MAGNITUDE = flag(52, "abs")
SATURATED = flag(51, "sat")
INTEGER_SOURCE = OneOf(46, 3, (
    (W("u16"), LHW), (W("u32"), LW), (W("u8"), LHW), (W("u8"), S7), (W("s16"), LHW), (W("s32"), LW), (W("s8"), LHW), (W("s8"), S7),
))


def cvt(kinds: int, wide: int, second: tuple[tuple[int, int, int], ...], *parts: Part, feature: str = "") -> Row:
    """A conversion; all of them begin with ``cvt`` and the source's modifiers."""
    return row("cvt", LONG, (top(10), (62, 2, kinds), (58, 1, wide), *second), W("cvt"), NEGATED, MAGNITUDE, *parts, feature=feature)


def narrow(double: int, single: int) -> tuple[tuple[int, int, int], ...]:
    return ((54, 1, double), (46, 1, single))


PLAIN, TO_INTEGER = ((59, 1, 0),), ((59, 1, 1),)
DOUBLE = "fp64"
FLOAT_TO_FLOAT = (
    cvt(3, 0, (*narrow(0, 0), *PLAIN), SATURATED, W("f16"), C_MAY, LHD, W("f16"), LHW),
    cvt(3, 0, (*narrow(0, 0), *TO_INTEGER), SATURATED, ROUND_INTEGER, W("f16"), C_MAY, LHD, W("f16"), LHW),
    cvt(3, 0, narrow(0, 1), SATURATED, ROUND, W("f16"), C_MAY, LHD, W("f32"), LW),
    cvt(3, 1, (*narrow(0, 1), *PLAIN), SATURATED, W("f32"), C_MAY, LD, W("f32"), LW),
    cvt(3, 1, (*narrow(0, 1), *TO_INTEGER), SATURATED, ROUND_INTEGER, W("f32"), C_MAY, LD, W("f32"), LW),
    cvt(3, 1, narrow(0, 0), SATURATED, W("f32"), C_MAY, LD, W("f16"), LHW),
    cvt(3, 0, narrow(1, 1), ROUND, W("f32"), C_MAY, LD, W("f64"), SD7, feature=DOUBLE),
    cvt(3, 1, (*narrow(1, 1), *PLAIN), W("f64"), C_MAY, DD7, W("f64"), SD7, feature=DOUBLE),
    cvt(3, 1, (*narrow(1, 1), *TO_INTEGER), ROUND_INTEGER, W("f64"), C_MAY, DD7, W("f64"), SD7, feature=DOUBLE),
    cvt(3, 1, narrow(1, 0), W("f64"), C_MAY, DD7, W("f32"), LW, feature=DOUBLE),
)
FLOAT_TO_INTEGER = (
    *(
        cvt(2, wide, (*narrow(0, single), (59, 1, sign)), ROUND_INTEGER, W(("u16", "s16", "u32", "s32")[2 * wide + sign]), C_MAY, LD if wide else LHD,
            W("f32" if single else "f16"), LW if single else LHW)
        for wide in (0, 1) for sign in (0, 1) for single in (0, 1)
    ),
    cvt(2, 0, (*narrow(1, 1), (59, 1, 0)), ROUND_INTEGER, W("u32"), C_MAY, LD, W("f64"), SD7, feature=DOUBLE),
    cvt(2, 0, (*narrow(1, 1), (59, 1, 1)), ROUND_INTEGER, W("s32"), C_MAY, LD, W("f64"), SD7, feature=DOUBLE),
    *(
        cvt(2, 1, (*narrow(1, double), (59, 1, sign)), ROUND_INTEGER, W("s64" if sign else "u64"), C_MAY, DD7,
            W("f64" if double else "f32"), SD7 if double else LW, feature=DOUBLE)
        for sign in (0, 1) for double in (0, 1)
    ),
)
INTEGER_TO_FLOAT = (
    cvt(1, 0, ((54, 1, 0),), SATURATED, ROUND, W("f16"), C_MAY, LHD, INTEGER_SOURCE),
    cvt(1, 1, ((54, 1, 0),), SATURATED, ROUND, W("f32"), C_MAY, LD, INTEGER_SOURCE),
    *(
        cvt(1, wide, ((54, 1, 1), (46, 1, double), (48, 1, sign)), SATURATED, ROUND, W("f64" if wide else "f32"), C_MAY, DD7 if wide else LD,
            W(("u32", "s32", "u64", "s64")[2 * double + sign]), SD7 if double else LW, feature=DOUBLE)
        for wide, double in ((1, 0), (0, 1), (1, 1)) for sign in (0, 1)
    ),
)
INTEGER_TO_INTEGER = tuple(
    cvt(0, wide, ((59, 1, sign), (51, 1, byte)), W("su"[1 - sign] + ("8" if byte else "32" if wide else "16")), C_MAY, LD if wide else LHD, INTEGER_SOURCE)
    for wide in (0, 1) for sign in (0, 1) for byte in (0, 1)
)

ROWS = (*MOVES, *INTEGERS, *FLOATS, *FLOAT_TO_FLOAT, *FLOAT_TO_INTEGER, *INTEGER_TO_FLOAT, *INTEGER_TO_INTEGER)
# fmt: on
