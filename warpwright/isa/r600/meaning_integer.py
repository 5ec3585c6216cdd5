"""Meanings of integer operations and moves."""

from __future__ import annotations

from warpwright.isa.ops import Value
from warpwright.isa.r600.meaning import (
    INTEGER_MEANINGS,
    TEST_MEANINGS,
    Meaning,
    R600Emitter,
    meaning,
    truth,
)

ALMOST_TWO_TO_32 = 0x4F7FFFFE
"""The largest float below 2**32 with which a reciprocal is never too large."""


@meaning(INTEGER_MEANINGS, "MOV")
def mov(b: R600Emitter, x: list[Value]) -> Value:
    return x[0]


def _binary(name: str) -> Meaning:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return b.binary(name, x[0], x[1])

    return mean


BINARY = {
    **{"ADD_INT": "add", "SUB_INT": "sub", "AND_INT": "and", "OR_INT": "or", "XOR_INT": "xor"},
    **{"MAX_INT": "smax", "MIN_INT": "smin", "MAX_UINT": "umax", "MIN_UINT": "umin"},
    **{"MULLO_INT": "mul", "MULLO_UINT": "mul", "MULHI_INT": "smulhi", "MULHI_UINT": "umulhi"},
}
for _name, _operation in BINARY.items():
    meaning(INTEGER_MEANINGS, _name)(_binary(_operation))


@meaning(INTEGER_MEANINGS, "NOT_INT")
def not_int(b: R600Emitter, x: list[Value]) -> Value:
    return b.not_(x[0])


def low_bits(b: R600Emitter, x: Value, mask: int = 31) -> Value:
    return b.and_(x, b.number(mask))


def _shift(name: str) -> Meaning:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return b.binary(name, x[0], low_bits(b, x[1]))

    return mean


for _name, _operation in {"ASHR_INT": "ashr", "LSHR_INT": "lshr", "LSHL_INT": "shl"}.items():
    meaning(INTEGER_MEANINGS, _name)(_shift(_operation))


@meaning(INTEGER_MEANINGS, "ADDC_UINT")
def addc(b: R600Emitter, x: list[Value]) -> Value:
    """The carry of a sum."""
    return truth(b, b.icmp("ult", b.add(x[0], x[1]), x[0]), 1)


@meaning(INTEGER_MEANINGS, "SUBB_UINT")
def subb(b: R600Emitter, x: list[Value]) -> Value:
    """The borrow of a difference."""
    return truth(b, b.icmp("ult", x[0], x[1]), 1)


# --- bits -----------------------------------------------------------------------------------------------------
@meaning(INTEGER_MEANINGS, "BCNT_INT")
def bcnt(b: R600Emitter, x: list[Value]) -> Value:
    return b.op("popcount", "i32", x[0])


@meaning(INTEGER_MEANINGS, "BFREV_INT")
def bfrev(b: R600Emitter, x: list[Value]) -> Value:
    return b.op("bitreverse", "i32", x[0])


def _first(b: R600Emitter, x: Value, leading: Value) -> Value:
    """A bit position, or -1 if there is none."""
    return b.select(b.icmp("eq", x, b.number(0)), b.number(-1), leading)


@meaning(INTEGER_MEANINGS, "FFBH_UINT")
def ffbh(b: R600Emitter, x: list[Value]) -> Value:
    return _first(b, x[0], b.op("clz", "i32", x[0]))


@meaning(INTEGER_MEANINGS, "FFBL_INT")
def ffbl(b: R600Emitter, x: list[Value]) -> Value:
    return _first(b, x[0], b.op("clz", "i32", b.op("bitreverse", "i32", x[0])))


@meaning(INTEGER_MEANINGS, "FFBH_INT")
def ffbh_int(b: R600Emitter, x: list[Value]) -> Value:
    """Number of leading bits equal to the sign bit."""
    folded = b.xor(x[0], b.ashr(x[0], b.number(31)))
    return _first(b, folded, b.op("clz", "i32", folded))


@meaning(INTEGER_MEANINGS, "BFM_INT")
def bfm(b: R600Emitter, x: list[Value]) -> Value:
    ones = b.sub(b.shl(b.number(1), low_bits(b, x[0])), b.number(1))
    return b.shl(ones, low_bits(b, x[1]))


@meaning(INTEGER_MEANINGS, "BFI_INT")
def bfi(b: R600Emitter, x: list[Value]) -> Value:
    return b.or_(b.and_(x[0], x[1]), b.and_(b.not_(x[0]), x[2]))


@meaning(INTEGER_MEANINGS, "BFE_UINT")
def bfe_uint(b: R600Emitter, x: list[Value]) -> Value:
    ones = b.sub(b.shl(b.number(1), low_bits(b, x[2])), b.number(1))
    return b.and_(b.lshr(x[0], low_bits(b, x[1])), ones)


@meaning(INTEGER_MEANINGS, "BFE_INT")
def bfe_int(b: R600Emitter, x: list[Value]) -> Value:
    """A signed bit field; beyond the top of the word it is filled with the word's sign."""
    width, offset = low_bits(b, x[2]), low_bits(b, x[1])
    room = b.sub(b.number(32), width)
    left = b.op("umin", "i32", offset, room)
    top = b.sub(room, left)
    inside = b.ashr(b.shl(x[0], top), b.sub(b.number(32), width))
    beyond = b.icmp("ugt", b.add(offset, width), b.number(32))
    found = b.select(beyond, b.ashr(x[0], offset), inside)
    return b.select(b.icmp("eq", width, b.number(0)), b.number(0), found)


@meaning(INTEGER_MEANINGS, "BIT_ALIGN_INT")
def bit_align(b: R600Emitter, x: list[Value]) -> Value:
    return _aligned(b, x, low_bits(b, x[2]))


@meaning(INTEGER_MEANINGS, "BYTE_ALIGN_INT")
def byte_align(b: R600Emitter, x: list[Value]) -> Value:
    return _aligned(b, x, b.shl(low_bits(b, x[2], 3), b.number(3)))


def _aligned(b: R600Emitter, x: list[Value], by: Value) -> Value:
    """A word extracted from two, at a bit offset from the lower end; a shift by 32 gives zero."""
    upper = b.shl(x[0], b.sub(b.number(32), by))
    return b.or_(b.lshr(x[1], by), upper)


# --- 24 bits --------------------------------------------------------------------------------------------------
def unsigned24(b: R600Emitter, x: Value) -> Value:
    return b.and_(x, b.number(0xFFFFFF))


def signed24(b: R600Emitter, x: Value) -> Value:
    return b.ashr(b.shl(x, b.number(8)), b.number(8))


@meaning(INTEGER_MEANINGS, "MUL_UINT24")
def mul_uint24(b: R600Emitter, x: list[Value]) -> Value:
    return b.mul(unsigned24(b, x[0]), unsigned24(b, x[1]))


@meaning(INTEGER_MEANINGS, "MULHI_UINT24")
def mulhi_uint24(b: R600Emitter, x: list[Value]) -> Value:
    return b.binary("umulhi", unsigned24(b, x[0]), unsigned24(b, x[1]))


@meaning(INTEGER_MEANINGS, "MUL_INT24")
def mul_int24(b: R600Emitter, x: list[Value]) -> Value:
    return b.mul(signed24(b, x[0]), signed24(b, x[1]))


@meaning(INTEGER_MEANINGS, "MULHI_INT24")
def mulhi_int24(b: R600Emitter, x: list[Value]) -> Value:
    return b.binary("smulhi", signed24(b, x[0]), signed24(b, x[1]))


@meaning(INTEGER_MEANINGS, "MULADD_UINT24")
def muladd_uint24(b: R600Emitter, x: list[Value]) -> Value:
    return b.add(b.mul(unsigned24(b, x[0]), unsigned24(b, x[1])), x[2])


@meaning(INTEGER_MEANINGS, "MULADD_INT24")
def muladd_int24(b: R600Emitter, x: list[Value]) -> Value:
    return b.add(b.mul(signed24(b, x[0]), signed24(b, x[1])), x[2])


@meaning(INTEGER_MEANINGS, "RECIP_UINT")
def recip_uint(b: R600Emitter, x: list[Value]) -> Value:
    """2**32 divided by the source, never too large: what LLVM's division computes on Cayman, which lacks the
    operation."""
    reciprocal = b.op("mufu", "f32", b.op("i2f", "f32", x[0], attr=(False, "rn")), attr="rcp")
    scaled = b.op("fmul", "f32", reciprocal, b.single(ALMOST_TWO_TO_32), attr="rn")
    return b.op("f2i", "i32", scaled, attr=(False, "rz"))


# --- comparisons ----------------------------------------------------------------------------------------------
def _compare(relation: str) -> Meaning:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return b.icmp(relation, x[0], x[1])

    return mean


for _short, _relation in {"E": "eq", "GT": "sgt", "GE": "sge", "NE": "ne"}.items():
    meaning(TEST_MEANINGS, f"SET{_short}_INT", f"PRED_SET{_short}_INT")(_compare(_relation))
for _short, _relation in {"GT": "ugt", "GE": "uge"}.items():
    meaning(TEST_MEANINGS, f"SET{_short}_UINT", f"PRED_SET{_short}_UINT")(_compare(_relation))


def _choose(relation: str) -> Meaning:
    def mean(b: R600Emitter, x: list[Value]) -> Value:
        return b.select(b.icmp(relation, x[0], b.number(0)), x[1], x[2])

    return mean


for _short, _relation in {"E": "eq", "GT": "sgt", "GE": "sge"}.items():
    meaning(INTEGER_MEANINGS, f"CND{_short}_INT")(_choose(_relation))


HALF_LANES = 32


def lanes_below(b: R600Emitter, mask: Value, first: int) -> Value:
    """Number of set bits of a mask below one's own lane, among the 32 lanes from ``first`` on."""
    lane = b.op("special", "i32", attr="laneid")
    below = b.sub(b.shl(b.number(1), b.sub(lane, b.number(first)) if first else lane), b.number(1))
    if first:
        below = b.select(b.icmp("ult", lane, b.number(first)), b.number(0), below)
    return b.op("popcount", "i32", b.and_(mask, below))


@meaning(INTEGER_MEANINGS, "MBCNT_32HI_INT")
def mbcnt_high(b: R600Emitter, x: list[Value]) -> Value:
    return lanes_below(b, x[0], HALF_LANES)
