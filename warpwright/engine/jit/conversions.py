"""Conversions between integers, floats and the formats of each, as LLVM text."""

from __future__ import annotations

from warpwright.engine.jit.float_formats import directed, odd_single, round_single, to_double, to_single
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.operation_form import Form, Handler
from warpwright.isa.ops import Op

ROUND = {"rn": "roundeven", "rz": "trunc", "rm": "floor", "rp": "ceil"}


def _cast(text: str) -> Handler:
    def emit(f: Form, op: Op, args: list[Val]) -> str:
        if args[0].single and op.type == "f32" and not f.vector:
            return args[0].single
        return f.cast(text, args[0].type, op.type, f.w.operand(args[0], f.vector))

    return emit


def _fround(f: Form, op: Op, args: list[Val]) -> str:
    x = f.w.operand(args[0], f.vector)
    if op.type in ("f32", "f64"):
        return f.call(ROUND[op.attr], op.type, x)
    return round_single(f, op.type, f.call(ROUND[op.attr], "f32", to_single(f, op.type, x)), "rn")


def _fcvt(f: Form, op: Op, args: list[Val]) -> str:
    source, target, rounding = args[0].type, op.type, op.attr or "rn"
    x = f.w.operand(args[0], f.vector)
    if source == target:
        return x
    if target == "f64":
        return to_double(f, source, x)
    if target == "f32":
        if source in ("f16", "bf16"):
            return to_single(f, source, x)
        if rounding != "rn":
            return directed(f, "fptrunc", "f32", ["f64"], [x], rounding)
        return f.cast("fptrunc", "f64", "f32", x)
    single = odd_single(f, x) if source == "f64" else to_single(f, source, x)
    return round_single(f, target, single, rounding)


def _f2i(f: Form, op: Op, args: list[Val]) -> str:
    signed, rounding = op.attr
    type = args[0].type
    x = f.w.operand(args[0], f.vector)
    if type in ("f16", "bf16"):
        x, type = to_single(f, type, x), "f32"
    # The conversion itself truncates.
    whole = x if rounding == "rz" else f.call(ROUND[rounding], type, x)
    name = "fptosi.sat" if signed else "fptoui.sat"
    result = f.call(name, type, whole, result=op.type)
    if op.type == "i64":
        result = f.select("i64", f.op("fcmp uno", type, x, x), f.const("i64", 1 << 63), result)
    return result


def _i2f(f: Form, op: Op, args: list[Val]) -> str:
    signed, rounding = op.attr
    source = args[0].type
    x = f.w.operand(args[0], f.vector)
    text = "sitofp" if signed else "uitofp"
    if op.type in ("f32", "f64"):
        if rounding == "rn" or (op.type == "f64" and source != "i64"):
            return f.cast(text, source, op.type, x)
        if not signed and source != "i64":
            # On hosts that convert only signed numbers, LLVM converts an unsigned 0 as 2**52 - 2**52, which is -0 when rounding down.
            text, source, x = "sitofp", "i64", f.cast("zext", source, "i64", x)
        return directed(f, text, op.type, [source], [x], rounding)
    if source == "i64":
        # Beyond 2**53, every half overflows or needs only the sticky bit that rounding to odd preserves.
        double = directed(f, text, "f64", [source], [x], "rz")
        back = f.call("fptosi.sat" if signed else "fptoui.sat", "f64", double, result="i64")
        word = f.cast("bitcast", "f64", "i64", double)
        inexact = f.cast("zext", "i1", "i64", f.op("icmp ne", "i64", back, x))
        double = f.cast("bitcast", "i64", "f64", f.op("or", "i64", word, inexact))
    else:
        double = f.cast(text, source, "f64", x)
    return round_single(f, op.type, odd_single(f, double), rounding)


HANDLERS: dict[str, Handler] = {
    "bitcast": _cast("bitcast"),
    "trunc": _cast("trunc"),
    "zext": _cast("zext"),
    "sext": _cast("sext"),
    "fround": _fround,
    "fcvt": _fcvt,
    "f2i": _f2i,
    "i2f": _i2f,
}
