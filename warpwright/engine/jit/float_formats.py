"""LLVM text for formats of floats: their bits, conversion and rounding."""

from __future__ import annotations

from warpwright.engine.jit.operation_form import Form

SIGN_BIT = {"f16": 0x8000, "bf16": 0x8000, "f32": 1 << 31, "f64": 1 << 63}
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF << 52}
SMALLEST_NORMAL = {"f16": 0x400, "bf16": 0x80, "f32": 0x800000, "f64": 1 << 52}
CANONICAL = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}
INTEGER_OF = {"f16": "i16", "bf16": "i16", "f32": "i32", "f64": "i64"}


def bits(f: Form, type: str, value: str) -> str:
    return f.cast("bitcast", type, INTEGER_OF[type], value)


def from_bits(f: Form, type: str, value: str) -> str:
    return f.cast("bitcast", INTEGER_OF[type], type, value)


def is_nan(f: Form, type: str, x: str) -> str:
    if type != "bf16":
        return f.op("fcmp uno", type, x, x)
    size = f.op("and", "i16", x, f.const("i16", 0x7FFF))
    return f.op("icmp ugt", "i16", size, f.const("i16", INFINITY["bf16"]))


def to_single(f: Form, type: str, value: str) -> str:
    """The exact f32 of a half."""
    if type == "f16":
        return f.cast("fpext", "f16", "f32", value)
    if type == "bf16":
        wide = f.cast("zext", "i16", "i32", value)
        return f.cast("bitcast", "i32", "f32", f.op("shl", "i32", wide, f.const("i32", 16)))
    return value


def to_double(f: Form, type: str, value: str) -> str:
    if type == "f64":
        return value
    return f.cast("fpext", "f32", "f64", to_single(f, type, value))


def odd_single(f: Form, x: str) -> str:
    """f64 to f32 rounded to odd, so that a second rounding to a shorter format is exact."""
    single = f.cast("fptrunc", "f64", "f32", x)
    back = f.cast("fpext", "f32", "f64", single)
    word = f.cast("bitcast", "f32", "i32", single)
    size = f.call("fabs", "f64", x)
    finite = f.op("fcmp olt", "f64", size, f.const("f64", INFINITY["f64"]))
    inexact = f.op("fcmp une", "f64", back, x)
    inexact = f.select("i1", finite, inexact, f.const("i1", 0))
    away = f.op("fcmp ogt", "f64", f.call("fabs", "f64", back), size)
    away = f.select("i1", inexact, away, f.const("i1", 0))
    word = f.select("i32", away, f.op("sub", "i32", word, f.const("i32", 1)), word)
    word = f.select("i32", inexact, f.op("or", "i32", word, f.const("i32", 1)), word)
    return f.cast("bitcast", "i32", "f32", word)


def exact_sum(f: Form, x: str, y: str) -> tuple[str, str]:
    """The sum of two doubles rounded to nearest, and the rounding error."""
    total = f.op("fadd", "f64", x, y)
    back = f.op("fsub", "f64", total, x)
    lost = f.op("fsub", "f64", x, f.op("fsub", "f64", total, back))
    return total, f.op("fadd", "f64", lost, f.op("fsub", "f64", y, back))


def odd_double(f: Form, total: str, error: str) -> str:
    """``total + error`` rounded to odd."""
    word = f.cast("bitcast", "f64", "i64", total)
    finite = f.op("fcmp olt", "f64", f.call("fabs", "f64", total), f.const("f64", INFINITY["f64"]))
    inexact = f.op("fcmp one", "f64", error, f.const("f64", 0))
    even = f.op("icmp eq", "i64", f.op("and", "i64", word, f.const("i64", 1)), f.const("i64", 0))
    change = f.select("i1", finite, f.select("i1", inexact, even, f.const("i1", 0)), f.const("i1", 0))
    error_word = f.cast("bitcast", "f64", "i64", error)
    same = f.op("icmp sge", "i64", f.op("xor", "i64", error_word, word), f.const("i64", 0))
    step = f.select("i64", same, f.const("i64", 1), f.const("i64", (1 << 64) - 1))
    word = f.select("i64", change, f.op("add", "i64", word, step), word)
    return f.cast("bitcast", "i64", "f64", word)


def round_single(f: Form, type: str, x: str, rounding: str) -> str:
    """f32 (exact or rounded to odd) to f16 or bf16."""
    if type == "f16":
        if rounding == "rn":
            return f.cast("fptrunc", "f32", "f16", x)
        return _directed_half(f, x, rounding)
    word = f.cast("bitcast", "f32", "i32", x)
    nan = f.op("fcmp uno", "f32", x, x)
    quiet = f.op("or", "i32", f.op("lshr", "i32", word, f.const("i32", 16)), f.const("i32", 0x40))
    if rounding == "rn":
        even = f.op("and", "i32", f.op("lshr", "i32", word, f.const("i32", 16)), f.const("i32", 1))
        moved = f.op("add", "i32", f.op("add", "i32", word, f.const("i32", 0x7FFF)), even)
    elif rounding == "rz":
        moved = word
    else:
        negative = f.op("icmp slt", "i32", word, f.const("i32", 0))
        away = negative if rounding == "rm" else f.op("xor", "i1", negative, f.const("i1", 1))
        moved = f.select("i32", away, f.op("add", "i32", word, f.const("i32", 0xFFFF)), word)
    short = f.op("lshr", "i32", moved, f.const("i32", 16))
    return f.cast("trunc", "i32", "i16", f.select("i32", nan, quiet, short))


def _directed_half(f: Form, x: str, rounding: str) -> str:
    """f32 to f16 in a given direction: the nearest number, or its neighbour."""
    nearest = f.cast("fptrunc", "f32", "f16", x)
    back = f.cast("fpext", "f16", "f32", nearest)
    word = f.cast("bitcast", "f16", "i16", nearest)
    if rounding == "rz":
        wrong = f.op("fcmp ogt", "f32", f.call("fabs", "f32", back), f.call("fabs", "f32", x))
        moved = f.op("sub", "i16", word, f.const("i16", 1))
    else:
        down = rounding == "rm"
        wrong = f.op("fcmp ogt" if down else "fcmp olt", "f32", back, x)
        negative = f.op("icmp slt", "i16", word, f.const("i16", 0))
        zero = f.op("icmp eq", "i16", f.op("and", "i16", word, f.const("i16", 0x7FFF)), f.const("i16", 0))
        larger = f.op("add", "i16", word, f.const("i16", 1))
        smaller = f.op("sub", "i16", word, f.const("i16", 1))
        moved = f.select("i16", negative, larger, smaller) if down else f.select("i16", negative, smaller, larger)
        moved = f.select("i16", zero, f.const("i16", 0x8001 if down else 1), moved)
    return f.cast("bitcast", "i16", "f16", f.select("i16", wrong, moved, word))


def directed(f: Form, name: str, type: str, types: list[str], args: list[str], rounding: str) -> str:
    """An operation in a rounding direction: calls a shared function that sets the machine's rounding direction around
    it."""
    kind = {"fadd": "fadd", "fmul": "fmul", "fma": "fma", "fptrunc": "fptrunc"}.get(name, name)
    function = f"ww_{kind}_{'_'.join([*types, type])}_{rounding}"
    w = f.w
    vectors = []
    for t, a in zip(types, args, strict=True):
        vectors.append(f"{w.vector_type(t)} {a if f.vector else w.splat(t, a)}")
    w.declare(function, w.vector_type(type), ", ".join(w.vector_type(t) for t in types))
    result = w.op(f"call {w.vector_type(type)} @{function}({', '.join(vectors)})")
    return result if f.vector else w.op(f"extractelement {w.vector_type(type)} {result}, i64 0")
