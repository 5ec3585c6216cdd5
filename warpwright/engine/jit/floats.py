"""Arithmetic of floats as LLVM text."""

from __future__ import annotations

import struct
from collections.abc import Callable

from warpwright.engine.jit import shapes as sh
from warpwright.engine.jit.float_formats import (
    CANONICAL,
    INTEGER_OF,
    SIGN_BIT,
    SMALLEST_NORMAL,
    bits,
    directed,
    exact_sum,
    from_bits,
    is_nan,
    odd_double,
    odd_single,
    round_single,
    to_double,
    to_single,
)
from warpwright.engine.jit.llvm_text import Text, Val
from warpwright.engine.jit.operation_form import Form, Handler
from warpwright.engine.jit.shapes import VECTOR_KIND
from warpwright.engine.numerics import tiny_limit
from warpwright.isa.ops import Op


def _float_binary(name: str) -> Handler:
    def emit(f: Form, op: Op, args: list[Val]) -> str:
        type, rounding = op.type, op.attr or "rn"
        values = [f.w.operand(a, f.vector) for a in args]
        if type in ("f32", "f64"):
            if rounding != "rn":
                return directed(f, name, type, [type] * len(values), values, rounding)
            if name == "fma":
                return f.call("fma", type, *values)
            return f.op(name, type, *values)
        if name != "fma":
            # Both halves have at most half of f64's digits less two, so double rounding equals single rounding.
            wide = [to_double(f, type, v) for v in values]
            return round_single(f, type, odd_single(f, f.op(name, "f64", *wide)), rounding)
        x, y, z = (to_double(f, type, v) for v in values)
        product = f.op("fmul", "f64", x, y)
        return round_single(f, type, odd_single(f, odd_double(f, *exact_sum(f, product, z))), rounding)

    return emit


def _fneg(f: Form, op: Op, args: list[Val]) -> str:
    x = bits(f, op.type, f.w.operand(args[0], f.vector))
    return from_bits(f, op.type, f.op("xor", INTEGER_OF[op.type], x, f.const(INTEGER_OF[op.type], SIGN_BIT[op.type])))


def _fabs(f: Form, op: Op, args: list[Val]) -> str:
    x = bits(f, op.type, f.w.operand(args[0], f.vector))
    integer = INTEGER_OF[op.type]
    return from_bits(f, op.type, f.op("and", integer, x, f.const(integer, SIGN_BIT[op.type] - 1)))


def _ftz(f: Form, op: Op, args: list[Val]) -> str:
    integer = INTEGER_OF[op.type]
    x = bits(f, op.type, f.w.operand(args[0], f.vector))
    if x in f.w.flushed:
        return from_bits(f, op.type, x)
    size = f.op("and", integer, x, f.const(integer, SIGN_BIT[op.type] - 1))
    small = f.op("icmp ult", integer, size, f.const(integer, SMALLEST_NORMAL[op.type]))
    sign = f.op("and", integer, x, f.const(integer, SIGN_BIT[op.type]))
    word = f.select(integer, small, sign, x)
    f.w.flushed.add(word)
    return from_bits(f, op.type, word)


def _canonical_nan(f: Form, op: Op, args: list[Val]) -> str:
    x = f.w.operand(args[0], f.vector)
    return f.select(op.type, is_nan(f, op.type, x), f.const(op.type, CANONICAL[op.type]), x)


def _nan_of(f: Form, op: Op, args: list[Val]) -> str:
    result, *sources = (f.w.operand(a, f.vector) for a in args)

    def fix() -> str:
        found = f.const("f64", CANONICAL["f64"])
        for x in reversed(sources):
            word = f.op("or", "i64", f.cast("bitcast", "f64", "i64", x), f.const("i64", 1 << 51))
            found = f.select("f64", is_nan(f, "f64", x), f.cast("bitcast", "i64", "f64", word), found)
        return found

    return rarely(f, "f64", is_nan(f, "f64", result), result, fix)


def _ftz_of(f: Form, op: Op, args: list[Val]) -> str:
    type, integer = op.type, INTEGER_OF[op.type]
    result, *factors = (f.w.operand(a, f.vector) for a in args)
    word = bits(f, type, result)
    size = f.op("and", integer, word, f.const(integer, SIGN_BIT[type] - 1))
    sign = f.op("and", integer, word, f.const(integer, SIGN_BIT[type]))
    smallest = f.const(integer, SMALLEST_NORMAL[type])
    flushed = f.select(integer, f.op("icmp ult", integer, size, smallest), sign, word)

    def fix() -> str:
        wide = [f.cast("fpext", "f32", "f64", to_single(f, type, x) if type != "f32" else x) for x in factors]
        total = product = f.op("fmul", "f64", wide[0], wide[1])
        error = f.const("f64", 0)
        if len(wide) == 3:
            total, error = exact_sum(f, product, wide[2])
        magnitude = f.call("fabs", "f64", total)
        negative = f.op("fcmp olt", "f64", total, f.const("f64", 0))
        outward = f.select("f64", negative, f.op("fsub", "f64", f.const("f64", SIGN_BIT["f64"]), error), error)
        limit = f.real(tiny_limit(type, op.attr))
        inside = "olt" if op.attr == "rn" else "ole"
        at_limit = f.op(f"fcmp {inside}", "f64", outward, f.const("f64", 0))
        tiny = f.select(
            "i1",
            f.op("fcmp olt", "f64", magnitude, limit),
            f.const("i1", 1),
            f.select("i1", f.op("fcmp oeq", "f64", magnitude, limit), at_limit, f.const("i1", 0)),
        )
        return f.select(integer, tiny, sign, flushed)

    doubtful = f.op("icmp eq", integer, size, smallest)
    return from_bits(f, type, rarely(f, integer, doubtful, flushed, fix))


LEAST_PRODUCT = 2.0**-100
"""For products of at least this magnitude, f32 can hold the rounding error."""
INFINITY = 0x7F800000


def _fmad(f: Form, op: Op, args: list[Val]) -> str:
    """Computed in f32 if the product is neither too small for its error nor too large; else in f64.

    The sign of the product's rounding error tells whether it was rounded away from zero; subtracting one unit then
    gives the truncated product.
    """
    x, y, z = (f.w.operand(a, f.vector) for a in args)
    zero = f.const("f32", 0)
    product = f.op("fmul", "f32", x, y)
    error = f.call("fma", "f32", x, y, f.op("fneg", "f32", product))
    word = bits(f, "f32", product)
    apart = f.op("icmp slt", "i32", f.op("xor", "i32", word, bits(f, "f32", error)), f.const("i32", 0))
    away = f.op("and", "i1", f.op("fcmp one", "f32", error, zero), apart)
    away = f.op("and", "i1", away, f.op("fcmp une", "f32", z, zero))
    cut = f.op("add", "i32", word, f.cast("sext", "i1", "i32", away))
    usual = f.op("fadd", "f32", from_bits(f, "f32", cut), z)

    size = f.op("and", "i32", word, f.const("i32", SIGN_BIT["f32"] - 1))
    least = struct.unpack("<I", struct.pack("<f", LEAST_PRODUCT))[0]
    outside = f.op("icmp uge", "i32", f.op("sub", "i32", size, f.const("i32", least)), f.const("i32", INFINITY - least))
    for factor in (x, y):
        outside = f.op("and", "i1", outside, f.op("fcmp une", "f32", factor, zero))

    def in_double() -> str:
        wide = [f.cast("fpext", "f32", "f64", v) for v in (x, y, z)]
        exact = f.op("fmul", "f64", wide[0], wide[1])
        kept = f.op("and", "i64", bits(f, "f64", exact), f.const("i64", ~((1 << 29) - 1)))
        # The bits of a NaN are above those that are truncated.
        chosen = f.select("f64", f.op("fcmp oeq", "f32", z, zero), exact, from_bits(f, "f64", kept))
        return f.cast("fptrunc", "f64", "f32", f.op("fadd", "f64", chosen, wide[2]))

    return rarely(f, "f32", outside, usual, in_double)


def rarely(f: Form, type: str, lanes: str, usual: str, fix: Callable[[], str]) -> str:
    """``usual``, or the result of ``fix``, which is computed only if one of ``lanes`` needs it.

    ``fix`` must not read a register; its operands must exist before.
    """
    if not f.vector:
        return f.select(type, lanes, fix(), usual)
    w = f.w
    before, slow, join = w.new_label("usual"), w.new_label("rare"), w.new_label("joined")
    some = w.op(f"icmp ne {w.mask_type} {w.bits_of(lanes)}, 0")
    w.emit(f"br label %{before}")
    w.label(before)
    w.emit(f"br i1 {some}, label %{slow}, label %{join}, !prof !2")
    w.label(slow)
    fixed = f.select(type, lanes, fix(), usual)
    w.emit(f"br label %{join}")
    w.label(join)
    return w.op(f"phi {f.type(type)} [ {usual}, %{before} ], [ {fixed}, %{slow} ]")


def _fcmp(f: Form, op: Op, args: list[Val]) -> str:
    type = args[0].type
    x, y = (f.w.operand(a, f.vector) for a in args)
    if type in ("f16", "bf16"):
        x, y = to_single(f, type, x), to_single(f, type, y)
        type = "f32"
    return f.op(f"fcmp {op.attr}", type, x, y)


def _float_extreme(f: Form, op: Op, args: list[Val]) -> str:
    type, integer = op.type, INTEGER_OF[op.type]
    x, y = (f.w.operand(a, f.vector) for a in args)
    sx, sy = (x, y) if type in ("f32", "f64") else (to_single(f, type, x), to_single(f, type, y))
    compared = type if type in ("f32", "f64") else "f32"
    minimum = op.name == "fmin"
    first = f.op("fcmp olt" if minimum else "fcmp ogt", compared, sx, sy)
    result = f.select(type, first, x, y)
    bx, by = bits(f, type, x), bits(f, type, y)
    either = f.op("and", integer, f.op("or", integer, bx, by), f.const(integer, SIGN_BIT[type] - 1))
    zeros = from_bits(f, type, f.op("or" if minimum else "and", integer, bx, by))
    result = f.select(type, f.op("icmp eq", integer, either, f.const(integer, 0)), zeros, result)
    x_nan, y_nan = is_nan(f, type, x), is_nan(f, type, y)
    if op.attr == "nan":
        any_nan = f.op("or", "i1", x_nan, y_nan)
        return f.select(type, any_nan, f.const(type, CANONICAL[type]), result)
    return f.select(type, x_nan, y, f.select(type, y_nan, x, result))


def canonical_word(w: Text, value: Val) -> Val:
    """The 32 bits of an f32 with any NaN made canonical."""
    if value.shape.kind == sh.UNSET_KIND or value.shape.const is not None:
        return value
    f = Form(w, value.shape.kind == VECTOR_KIND)
    word = w.operand(value, f.vector)
    single = f.cast("bitcast", "i32", "f32", word)
    nan = f.op("fcmp uno", "f32", single, single)
    return w.made("i32", value.shape, f.select("i32", nan, f.const("i32", CANONICAL["f32"]), word))


HANDLERS: dict[str, Handler] = {
    "fadd": _float_binary("fadd"),
    "fmul": _float_binary("fmul"),
    "fma": _float_binary("fma"),
    "fmad": _fmad,
    "fneg": _fneg,
    "fabs": _fabs,
    "ftz": _ftz,
    "canonical_nan": _canonical_nan,
    "nan_of": _nan_of,
    "ftz_of": _ftz_of,
    "fcmp": _fcmp,
    "fmin": _float_extreme,
    "fmax": _float_extreme,
}
