"""8-bit floats (e4m3, e5m2) as half-precision numbers, for both front ends' conversions and products."""

from __future__ import annotations

from warpwright.isa.ops import Builder, Value

NAN = 0x7FFF


def half_of(b: Builder, code: Value, format: str) -> Value:
    """The f16 bits (i32) of the 8-bit float in an i32: exact."""
    size = b.and_(code, b.const(0x7F))
    if format == "e5m2":
        value = b.shl(size, b.const(8))
        nan = b.icmp("ugt", size, b.const(0x7C))
    else:
        # The exponent's bias grows from 7 to 15, also for subnormal numbers; the largest code is NaN.
        scaled = b.bitcast(b.trunc(b.shl(size, b.const(7)), "i16"), "f16")
        value = b.zext(b.bitcast(b.op("fmul", "f16", scaled, b.const(0x5C00, "f16"), attr="rn"), "i16"), "i32")
        nan = b.icmp("eq", size, b.const(0x7F))
    sign = b.shl(b.and_(code, b.const(0x80)), b.const(8))
    return b.select(nan, b.const(NAN), b.or_(value, sign))


def half_pair_of(b: Builder, word: Value, format: str, upper: bool = False) -> Value:
    """The lower or upper two 8-bit floats of a word as two packed halves."""
    at = 16 if upper else 0
    low, high = (half_of(b, b.and_(b.lshr(word, b.const(at + n)), b.const(0xFF)), format) for n in (0, 8))
    return b.or_(low, b.shl(high, b.const(16)))
