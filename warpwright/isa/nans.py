"""NaN results of conversions, for the front ends."""

from __future__ import annotations

from warpwright.isa.ops import Builder, Value

EXPONENT_AND_FRACTION = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def keep_nan(b: Builder, x: Value, result: Value) -> Value:
    """The result of a conversion from or to f64: a NaN keeps its sign and its upper fraction bits and becomes quiet.

    Measured on an H200; conversions among shorter types return the canonical NaN.
    """
    to, of = b.type_of(result), b.type_of(x)
    (exponent, fraction), (_, old_fraction) = EXPONENT_AND_FRACTION[to], EXPONENT_AND_FRACTION[of]
    width, old_width = 1 + exponent + fraction, int(of[-2:])
    bits = b.bitcast(x, f"i{old_width}")
    sign = b.lshr(bits, b.const(old_width - 1, f"i{old_width}"))
    payload = b.and_(bits, b.const((1 << old_fraction) - 1, f"i{old_width}"))
    if old_fraction > fraction:
        payload = b.lshr(payload, b.const(old_fraction - fraction, f"i{old_width}"))
    sign, payload = (b.trunc(v, f"i{width}") if old_width > width else b.zext(v, f"i{width}") for v in (sign, payload))
    if old_fraction < fraction:
        payload = b.shl(payload, b.const(fraction - old_fraction, f"i{width}"))
    quiet = b.const(((1 << exponent) - 1 << fraction) | 1 << fraction - 1, f"i{width}")
    nan = b.or_(b.or_(payload, quiet), b.shl(sign, b.const(width - 1, f"i{width}")))
    return b.select(b.fcmp("uno", x, x), b.bitcast(nan, to), result)
