"""Quotients, remainders and square roots from common operations, which have neither.

Integers of 32 bits and less: the quotient of the values in f64 by a reciprocal that Newton's iteration refines, then
one correction by the remainder.  64 bits: two partial quotients from below, each good to 2**-45, then one correction.
Division by zero gives all ones, and the dividend as remainder, as NVIDIA's own integer routines do.

Floats are rounded correctly in every direction (IEEE 754).  f32: the f64 quotient (root) is within one unit in the
last place; the sign of its exact remainder (one fma) makes it rounded to odd; one conversion to f32 then rounds as if
from the exact value, since f64 has more than two extra bits (Boldo and Melquiond, 2008).  f64: significands are
divided in [1, 2), the truncated quotient's exact remainder gives the half and sticky bits, and the result is
rounded in integers at the place that its exponent leaves, subnormals included.
"""

from __future__ import annotations

from warpwright.isa.ops import Value
from warpwright.isa.ptx.meaning import Emitter, is_signed

ONE = 0x3FF0000000000000
SIGN64 = 1 << 63
FRACTION = (1 << 52) - 1
INFINITY64 = 0x7FF << 52
NAN64 = 0x7FF8 << 48


# --- integers -------------------------------------------------------------------------------------
def divide(b: Emitter, type: str, x: Value, y: Value) -> Value:
    """Quotient, rounded towards zero."""
    return _signed(b, type, x, y)[0]


def remainder(b: Emitter, type: str, x: Value, y: Value) -> Value:
    """Remainder with the dividend's sign."""
    return _signed(b, type, x, y)[1]


def _signed(b: Emitter, type: str, x: Value, y: Value) -> tuple[Value, Value]:
    kind = b.type_of(x)
    if kind == "i16":
        extend = b.sext if is_signed(type) else b.zext
        wide = _signed(b, type[0] + "32", extend(x, "i32"), extend(y, "i32"))
        return b.trunc(wide[0], "i16"), b.trunc(wide[1], "i16")
    unsigned = _unsigned64 if kind == "i64" else _unsigned32
    if not is_signed(type):
        return unsigned(b, x, y)
    zero = b.const(0, kind)
    x_negative, y_negative = b.icmp("slt", x, zero), b.icmp("slt", y, zero)
    quotient, rest = unsigned(b, b.select(x_negative, b.neg(x), x), b.select(y_negative, b.neg(y), y))
    quotient = b.select(b.xor(x_negative, y_negative), b.neg(quotient), quotient)
    rest = b.select(x_negative, b.neg(rest), rest)
    by_zero = b.icmp("eq", y, zero)
    return b.select(by_zero, b.const(-1, kind), quotient), b.select(by_zero, x, rest)


def reciprocal(b: Emitter, y: Value) -> Value:
    """1 / y in f64 within a unit in the last place, for y well inside the range."""
    minus = b.op("fneg", "f64", y)
    r = b.op("mufu", "f64", y, attr="rcp")
    for _ in range(3):
        error = b.op("fma", "f64", minus, r, b.const(ONE, "f64"), attr="rn")
        r = b.op("fma", "f64", r, error, r, attr="rn")
    return r


def _unsigned32(b: Emitter, x: Value, y: Value) -> tuple[Value, Value]:
    by_zero = b.icmp("eq", y, b.const(0))
    safe = b.select(by_zero, b.const(1), y)
    wide_x, wide_y = (b.op("i2f", "f64", v, attr=(False, "rn")) for v in (x, safe))
    estimate = b.op("fmul", "f64", wide_x, reciprocal(b, wide_y), attr="rn")
    quotient = b.op("f2i", "i32", estimate, attr=(False, "rz"))
    rest = b.sub(x, b.mul(quotient, safe))
    # The estimate's error is far less than one: the quotient is exact, one too high or one too low.
    high = b.icmp(
        "slt", b.sub(b.zext(x, "i64"), b.mul(b.zext(quotient, "i64"), b.zext(safe, "i64"))), b.const(0, "i64")
    )
    quotient = b.select(high, b.sub(quotient, b.const(1)), quotient)
    rest = b.select(high, b.add(rest, safe), rest)
    low = b.icmp("uge", rest, safe)
    quotient = b.select(low, b.add(quotient, b.const(1)), quotient)
    rest = b.select(low, b.sub(rest, safe), rest)
    return b.select(by_zero, b.const(-1), quotient), b.select(by_zero, x, rest)


def _unsigned64(b: Emitter, x: Value, y: Value) -> tuple[Value, Value]:
    zero, one = b.const(0, "i64"), b.const(1, "i64")
    by_zero = b.icmp("eq", y, zero)
    safe = b.select(by_zero, one, y)
    # A reciprocal that is never too large: of the divisor rounded up, times 1 - 2**-48.
    above = b.op("i2f", "f64", safe, attr=(False, "rp"))
    shrink = b.const(ONE - (1 << 5), "f64")
    inverse = b.op("fmul", "f64", reciprocal(b, above), shrink, attr="rz")
    quotient, rest = zero, x
    for _ in range(2):
        part = b.op("fmul", "f64", b.op("i2f", "f64", rest, attr=(False, "rz")), inverse, attr="rz")
        step = b.op("f2i", "i64", part, attr=(False, "rz"))
        quotient = b.add(quotient, step)
        rest = b.sub(rest, b.mul(step, safe))
    for _ in range(2):
        low = b.icmp("uge", rest, safe)
        quotient = b.select(low, b.add(quotient, one), quotient)
        rest = b.select(low, b.sub(rest, safe), rest)
    return b.select(by_zero, b.const(-1, "i64"), quotient), b.select(by_zero, x, rest)


# --- floats of 32 bits ----------------------------------------------------------------------------
def _odd(b: Emitter, x: Value, error: Value) -> Value:
    """x (f64) rounded to odd; ``error`` has the sign of (exact value - x), and x is not zero."""
    bits = b.bitcast(x, "i64")
    zero = b.const(0, "f64")
    inexact = b.fcmp("une", error, zero)
    even = b.icmp("eq", b.and_(bits, b.const(1, "i64")), b.const(0, "i64"))
    away = b.xor(b.fcmp("ogt", error, zero), b.icmp("slt", bits, b.const(0, "i64")))
    moved = b.select(away, b.add(bits, b.const(1, "i64")), b.sub(bits, b.const(1, "i64")))
    return b.bitcast(b.select(b.and_(inexact, even), moved, bits), "f64")


def divide32(b: Emitter, x: Value, y: Value, rounding: str) -> Value:
    """x / y for f32."""
    wide_x, wide_y = b.op("fcvt", "f64", x, attr="rn"), b.op("fcvt", "f64", y, attr="rn")
    special, by = _special32(b, x, y)
    r = reciprocal(b, wide_y)
    minus = b.op("fneg", "f64", wide_y)
    q = b.op("fmul", "f64", wide_x, r, attr="rn")
    q = b.op("fma", "f64", b.op("fma", "f64", minus, q, wide_x, attr="rn"), r, q, attr="rn")
    left = b.op("fma", "f64", minus, q, wide_x, attr="rn")
    # The remainder has the sign of the error times that of the divisor.
    negative = b.fcmp("olt", wide_y, b.const(0, "f64"))
    error = b.select(negative, b.op("fneg", "f64", left), left)
    result = b.op("fcvt", "f32", _odd(b, q, error), attr=rounding)
    return b.select(special, b.op("fmul", "f32", x, by, attr="rn"), result)


def _special32(b: Emitter, x: Value, y: Value) -> tuple[Value, Value]:
    """Whether an operand is zero, infinite or NaN, and the factor for x in that case."""
    x_bits, y_bits = b.bitcast(x, "i32"), b.bitcast(y, "i32")
    infinity, magnitude = b.const(0x7F800000), b.const(0x7FFFFFFF)
    x_size, y_size = b.and_(x_bits, magnitude), b.and_(y_bits, magnitude)
    one = b.const(1)
    inner = b.const(0x7F7FFFFF)
    special = b.or_(b.icmp("uge", b.sub(x_size, one), inner), b.icmp("uge", b.sub(y_size, one), inner))
    by = b.const(0x3F800000)
    by = b.select(b.icmp("eq", y_size, b.const(0)), infinity, by)
    by = b.select(b.icmp("eq", y_size, infinity), b.const(0), by)
    by = b.or_(by, b.and_(y_bits, b.const(0x80000000)))
    by = b.select(b.icmp("ugt", y_size, infinity), y_bits, by)
    return special, b.bitcast(by, "f32")


def root32(b: Emitter, x: Value, rounding: str) -> Value:
    """Square root for f32."""
    wide = b.op("fcvt", "f64", x, attr="rn")
    bits = b.bitcast(x, "i32")
    special = b.icmp("uge", b.sub(bits, b.const(1)), b.const(0x7F7FFFFF))
    q, left = _root(b, b.select(special, b.const(ONE, "f64"), wide))
    result = b.op("fcvt", "f32", _odd(b, q, left), attr=rounding)
    # Zeros, +infinity and NaN are returned unchanged; negative numbers have no root.
    kept = b.select(b.fcmp("olt", x, b.const(0, "f32")), b.const(0x7FFFFFFF, "f32"), x)
    return b.select(special, kept, result)


def _root(b: Emitter, x: Value) -> tuple[Value, Value]:
    """(root of x within a unit in the last place, exact x - root**2) in f64, away from the range's ends."""
    half = b.const(0x3FE0000000000000, "f64")
    r = b.op("mufu", "f64", x, attr="rsq")
    for _ in range(3):
        s = b.op("fmul", "f64", x, r, attr="rn")
        error = b.op("fma", "f64", b.op("fneg", "f64", s), r, b.const(ONE, "f64"), attr="rn")
        r = b.op("fma", "f64", b.op("fmul", "f64", r, half, attr="rn"), error, r, attr="rn")
    q = b.op("fmul", "f64", x, r, attr="rn")
    left = b.op("fma", "f64", b.op("fneg", "f64", q), q, x, attr="rn")
    q = b.op("fma", "f64", b.op("fmul", "f64", left, r, attr="rn"), half, q, attr="rn")
    return q, b.op("fma", "f64", b.op("fneg", "f64", q), q, x, attr="rn")


# --- floats of 64 bits ----------------------------------------------------------------------------
def _parts(b: Emitter, x: Value) -> tuple[Value, Value]:
    """(significand in [1, 2) as f64, exponent as i64) of a finite number that is not zero."""
    bits = b.and_(b.bitcast(x, "i64"), b.const(~SIGN64, "i64"))
    small = b.icmp("ult", bits, b.const(1 << 52, "i64"))
    scaled = b.bitcast(b.op("fmul", "f64", b.bitcast(bits, "f64"), b.const(ONE + (54 << 52), "f64"), attr="rn"), "i64")
    bits = b.select(small, scaled, bits)
    exponent = b.sub(b.lshr(bits, b.const(52, "i64")), b.const(1023, "i64"))
    exponent = b.select(small, b.sub(exponent, b.const(54, "i64")), exponent)
    return b.bitcast(b.or_(b.and_(bits, b.const(FRACTION, "i64")), b.const(ONE, "i64")), "f64"), exponent


def _pack64(b: Emitter, sign: Value, significand: Value, exponent: Value, rounding: str) -> Value:
    """f64 bits: ``significand`` is an i64 in [2**54, 2**55) of which the last two bits are half and sticky.

    ``sign`` is 0 or the sign bit; ``exponent`` that of the leading bit.
    """
    one, two, zero = b.const(1, "i64"), b.const(2, "i64"), b.const(0, "i64")
    below = b.sub(b.const(-1022, "i64"), exponent)
    subnormal = b.icmp("sgt", below, zero)
    shift = b.select(subnormal, b.binary("smin", below, b.const(60, "i64")), zero)
    moved = b.lshr(significand, shift)
    lost = b.icmp("ne", b.shl(moved, shift), significand)
    moved = b.or_(moved, b.zext(lost, "i64"))
    kept, rest = b.lshr(moved, two), b.and_(moved, b.const(3, "i64"))
    inexact = b.icmp("ne", rest, zero)
    negative = b.icmp("ne", sign, zero)
    if rounding == "rn":
        odd = b.icmp("ne", b.and_(kept, one), zero)
        up = b.or_(b.icmp("eq", rest, b.const(3, "i64")), b.and_(b.icmp("eq", rest, two), odd))
    elif rounding == "rz":
        up = b.const(0, "i1")
    else:
        up = b.and_(inexact, negative if rounding == "rm" else b.not_(negative))
    kept = b.add(kept, b.zext(up, "i64"))
    # A carry out of the significand raises the exponent by itself.
    biased = b.select(subnormal, zero, b.add(exponent, b.const(1022, "i64")))
    bits = b.add(kept, b.shl(biased, b.const(52, "i64")))
    finite = b.const(INFINITY64 - 1, "i64")
    infinite = b.const(INFINITY64, "i64")
    if rounding == "rn":
        most = infinite
    elif rounding == "rz":
        most = finite
    else:
        most = b.select(negative, infinite, finite) if rounding == "rm" else b.select(negative, finite, infinite)
    over = b.or_(b.icmp("sgt", exponent, b.const(1023, "i64")), b.icmp("uge", bits, infinite))
    return b.or_(b.select(over, most, bits), sign)


def divide64(b: Emitter, x: Value, y: Value, rounding: str) -> Value:
    """x / y for f64."""
    x_bits, y_bits = b.bitcast(x, "i64"), b.bitcast(y, "i64")
    sign_mask, magnitude = b.const(SIGN64, "i64"), b.const(~SIGN64, "i64")
    sign = b.and_(b.xor(x_bits, y_bits), sign_mask)
    x_size, y_size = b.and_(x_bits, magnitude), b.and_(y_bits, magnitude)
    infinity, zero, one = b.const(INFINITY64, "i64"), b.const(0, "i64"), b.const(1, "i64")
    inner = b.const(INFINITY64 - 1, "i64")
    special = b.or_(b.icmp("uge", b.sub(x_size, one), inner), b.icmp("uge", b.sub(y_size, one), inner))
    some = b.const(ONE, "f64")
    m, m_exponent = _parts(b, b.select(special, some, x))
    n, n_exponent = _parts(b, b.select(special, some, y))
    # The dividend's significand in [n, 2n): the quotient is in [1, 2).
    less = b.fcmp("olt", m, n)
    m = b.select(less, b.op("fadd", "f64", m, m, attr="rn"), m)
    exponent = b.sub(b.sub(m_exponent, n_exponent), b.zext(less, "i64"))
    r, minus = reciprocal(b, n), b.op("fneg", "f64", n)
    q = b.op("fmul", "f64", m, r, attr="rn")
    q = b.op("fma", "f64", b.op("fma", "f64", minus, q, m, attr="rn"), r, q, attr="rn")
    left = b.op("fma", "f64", minus, q, m, attr="rn")
    above = b.fcmp("olt", left, b.const(0, "f64"))
    q = b.select(above, b.bitcast(b.sub(b.bitcast(q, "i64"), one), "f64"), q)
    left = b.op("fma", "f64", minus, q, m, attr="rn")
    # Half of the last place is 2**-53 in [1, 2).
    half = b.op("fmul", "f64", n, b.const(ONE - (53 << 52), "f64"), attr="rn")
    significand = _significand(b, q, left, b.fcmp("oge", left, half), b.fcmp("oeq", left, half))
    result = _pack64(b, sign, significand, exponent, rounding)
    nan = b.const(NAN64, "i64")
    infinite = b.or_(b.icmp("eq", x_size, infinity), b.icmp("eq", y_size, zero))
    other = b.or_(b.select(infinite, infinity, zero), sign)
    invalid = b.or_(b.icmp("ugt", x_size, infinity), b.icmp("ugt", y_size, infinity))
    both = b.and_(b.icmp("eq", x_size, y_size), special)
    same = b.and_(both, b.or_(b.icmp("eq", x_size, zero), b.icmp("eq", x_size, infinity)))
    other = b.select(b.or_(invalid, same), nan, other)
    return b.bitcast(b.select(special, other, result), "f64")


def _significand(b: Emitter, q: Value, left: Value, half: Value, exact_half: Value) -> Value:
    """The truncated q in [1, 2) with its half and sticky bits below."""
    kept = b.or_(b.and_(b.bitcast(q, "i64"), b.const(FRACTION, "i64")), b.const(1 << 52, "i64"))
    sticky = b.and_(b.fcmp("une", left, b.const(0, "f64")), b.not_(exact_half))
    last = b.or_(b.shl(b.zext(half, "i64"), b.const(1, "i64")), b.zext(sticky, "i64"))
    return b.or_(b.shl(kept, b.const(2, "i64")), last)


def root64(b: Emitter, x: Value, rounding: str) -> Value:
    """Square root for f64."""
    bits = b.bitcast(x, "i64")
    one = b.const(1, "i64")
    special = b.icmp("uge", b.sub(bits, one), b.const(INFINITY64 - 1, "i64"))
    m, exponent = _parts(b, b.select(special, b.const(ONE, "f64"), x))
    odd = b.icmp("ne", b.and_(exponent, one), b.const(0, "i64"))
    m = b.select(odd, b.op("fadd", "f64", m, m, attr="rn"), m)
    exponent = b.ashr(b.sub(exponent, b.zext(odd, "i64")), one)
    q, left = _root(b, m)
    above = b.fcmp("olt", left, b.const(0, "f64"))
    q = b.select(above, b.bitcast(b.sub(b.bitcast(q, "i64"), one), "f64"), q)
    left = b.op("fma", "f64", b.op("fneg", "f64", q), q, m, attr="rn")
    # (q + u/2)**2 <= m means left >= q u + u**2/4, and left and q u are multiples of u**2.
    half = b.fcmp("ogt", left, b.op("fmul", "f64", q, b.const(ONE - (52 << 52), "f64"), attr="rn"))
    significand = _significand(b, q, left, half, b.const(0, "i1"))
    result = b.bitcast(_pack64(b, b.const(0, "i64"), significand, exponent, rounding), "f64")
    kept = b.select(b.fcmp("olt", x, b.const(0, "f64")), b.const(NAN64, "f64"), x)
    return b.select(special, kept, result)
