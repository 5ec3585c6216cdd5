"""Pure operations: integers, conversions, floats and special functions as LLVM text."""

from __future__ import annotations

import struct
from collections.abc import Callable

from warpwright.engine.jit import shapes as sh
from warpwright.engine.jit import silicon
from warpwright.engine.jit.function import Text, Val, vector_type
from warpwright.engine.jit.infer import two_operand
from warpwright.engine.jit.shapes import LANES, SCALAR_KIND, VECTOR_KIND, WIDTH, Shape
from warpwright.engine.numerics import tiny_limit
from warpwright.isa.ops import Op


class Form:
    """Text of one operation in scalar or vector form: types, constants, intrinsics."""

    def __init__(self, w: Text, vector: bool) -> None:
        self.w = w
        self.vector = vector

    def type(self, type: str) -> str:
        return self.w.typed(type, self.vector)

    def const(self, type: str, bits: int) -> str:
        if self.vector:
            return self.w.literal_vector(type, (bits,) * LANES)
        return self.w.literal(type, bits)

    def real(self, value: float) -> str:
        """A double constant."""
        return self.const("f64", struct.unpack("<Q", struct.pack("<d", value))[0])

    def suffix(self, type: str) -> str:
        stem = {"f16": "f16", "f32": "f32", "f64": "f64"}.get(type, type)
        return f"v{LANES}{stem}" if self.vector else stem

    def call(self, name: str, type: str, *args: str, result: str = "") -> str:
        """An intrinsic overloaded on one type (and the result's when it differs)."""
        stem = f"llvm.{name}." + (f"{self.suffix(result)}." if result else "") + self.suffix(type)
        kind = self.type(type)
        out = self.type(result or type)
        self.w.declared[stem] = f"declare {out} @{stem}({', '.join([kind] * len(args))})"
        return self.w.op(f"call {out} @{stem}({', '.join(f'{kind} {a}' for a in args)})")

    def op(self, text: str, type: str, *args: str) -> str:
        return self.w.op(f"{text} {self.type(type)} {', '.join(args)}")

    def cast(self, text: str, source: str, target: str, value: str) -> str:
        kind, other = self.type(source), self.type(target)
        if text == "bitcast":
            return value if kind == other else self.w.bitcast(kind, value, other)
        return self.w.op(f"{text} {kind} {value} to {other}")

    def select(self, type: str, condition: str, x: str, y: str) -> str:
        kind = self.type(type)
        return self.w.op(f"select {self.type('i1')} {condition}, {kind} {x}, {kind} {y}")


def emit_pure(w: Text, op: Op, args: list[Val], shape: Shape) -> Val:
    """Write one operation whose result has ``shape``."""
    if shape.kind == sh.UNSET_KIND or (shape.kind == SCALAR_KIND and shape.const is not None):
        return Val(op.type, shape)
    is_vector = shape.kind == VECTOR_KIND
    if is_vector and op.type == "i1" and not w.registers.masks and op.name in PREDICATE_OPERATIONS:
        return _predicates(w, op, args, shape)
    form = Form(w, is_vector)
    handler = HANDLERS.get(op.name)
    if handler is None:
        raise NotImplementedError(f"operation {op.name} has no compiled form")
    return w.made(op.type, shape, handler(form, op, args))


PREDICATE_OPERATIONS = frozenset(("and", "or", "xor", "not", "select"))


def _predicates(w: Text, op: Op, args: list[Val], shape: Shape) -> Val:
    """An operation on predicates where no register has a bit for each lane."""
    if op.name != "select" and all(a.vector and a.place == w.place and not a.bits for a in args):
        # They have just been compared: as long as the numbers.
        form = Form(w, True)
        words = [form.cast("sext", "i1", "i32", a.vector) for a in args]
        both = ("xor", words[0], form.const("i32", 0xFFFFFFFF)) if op.name == "not" else (op.name, *words)
        name = form.op("icmp slt", "i32", form.op(both[0], "i32", *both[1:]), "zeroinitializer")
        return w.made("i1", shape, name)
    names = [w.predicate(a) for a in args]
    if op.name == "select":
        name = w.choose(*names)
    else:
        name = w.op(f"xor i32 {names[0]}, -1" if op.name == "not" else f"{op.name} i32 {names[0]}, {names[1]}")
    return Val("i1", shape, bits=name)


def _plain(text: str) -> Callable[[Form, Op, list[Val]], str]:
    def emit(f: Form, op: Op, args: list[Val]) -> str:
        return f.op(text, op.type, *(f.w.operand(a, f.vector) for a in args))

    return emit


def _bitwise(f: Form, op: Op, args: list[Val]) -> str:
    if not f.vector:
        mask = sh.scalar_mask(op.name, args[0].shape, args[1].shape)
        if mask is not None:
            patterned = args[0] if args[0].shape.pattern is not None else args[1]
            return f.op(op.name, op.type, f.w.scalar(patterned), f.const(op.type, mask))
    return f.op(op.name, op.type, *(f.w.operand(a, f.vector) for a in args))


def _not(f: Form, op: Op, args: list[Val]) -> str:
    return f.op("xor", op.type, f.w.operand(args[0], f.vector), f.const(op.type, (1 << WIDTH[op.type]) - 1))


def _shift(f: Form, op: Op, args: list[Val]) -> str:
    width = WIDTH[op.type]
    x = f.w.operand(args[0], f.vector)
    amount = args[1].shape
    if amount.kind == SCALAR_KIND and amount.const is not None and amount.pattern is None:
        count = amount.const
        if count >= width:
            if op.name != "ashr":
                return f.op("and", op.type, x, f.const(op.type, 0))
            count = width - 1
        return f.op(op.name, op.type, x, f.const(op.type, count))
    y = f.w.operand(args[1], f.vector)
    last = f.const(op.type, width - 1)
    if op.name == "ashr":
        return f.op("ashr", op.type, x, f.call("umin", op.type, y, last))
    inside = f.op("icmp ule", op.type, y, last)
    shifted = f.op(op.name, op.type, x, f.op("and", op.type, y, last))
    return f.select(op.type, inside, shifted, f.const(op.type, 0))


def _multiply_high(f: Form, op: Op, args: list[Val]) -> str:
    width = WIDTH[op.type]
    widen = "zext" if op.name == "umulhi" else "sext"
    if width == 64:
        n = f"<{LANES} x i128>" if f.vector else "i128"
        shift = "<" + ", ".join(["i128 64"] * LANES) + ">" if f.vector else "64"
        x, y = (f.w.op(f"{widen} {f.type('i64')} {f.w.operand(a, f.vector)} to {n}") for a in args)
        product = f.w.op(f"mul {n} {x}, {y}")
        high = f.w.op(f"lshr {n} {product}, {shift}")
        return f.w.op(f"trunc {n} {high} to {f.type('i64')}")
    x, y = (f.cast(widen, op.type, "i64", f.w.operand(a, f.vector)) for a in args)
    high = f.op("lshr", "i64", f.op("mul", "i64", x, y), f.const("i64", width))
    return f.cast("trunc", "i64", op.type, high)


def _extreme(f: Form, op: Op, args: list[Val]) -> str:
    return f.call(op.name, op.type, *(f.w.operand(a, f.vector) for a in args))


def _compare(f: Form, op: Op, args: list[Val]) -> str:
    is_vector = f.vector
    x, y = (f.w.operand(a, is_vector) for a in args)
    return f.op(f"icmp {op.attr}", args[0].type, x, y)


def _select(f: Form, op: Op, args: list[Val]) -> str:
    w = f.w
    condition = args[0]
    kind = f.type(op.type)
    x, y = (w.operand(a, f.vector) for a in args[1:])
    if condition.shape.kind != VECTOR_KIND and condition.shape.pattern is None:
        return w.op(f"select i1 {w.scalar(condition)}, {kind} {x}, {kind} {y}")
    return w.op(f"select {vector_type('i1')} {w.vector(condition)}, {kind} {x}, {kind} {y}")


def _cast(text: str) -> Callable[[Form, Op, list[Val]], str]:
    def emit(f: Form, op: Op, args: list[Val]) -> str:
        if args[0].single and op.type == "f32" and not f.vector:
            return args[0].single
        return f.cast(text, args[0].type, op.type, f.w.operand(args[0], f.vector))

    return emit


def _popcount(f: Form, op: Op, args: list[Val]) -> str:
    return f.call("ctpop", op.type, f.w.operand(args[0], f.vector))


def _clz(f: Form, op: Op, args: list[Val]) -> str:
    stem = f"llvm.ctlz.{f.suffix(op.type)}"
    kind = f.type(op.type)
    f.w.declared[stem] = f"declare {kind} @{stem}({kind}, i1)"
    return f.w.op(f"call {kind} @{stem}({kind} {f.w.operand(args[0], f.vector)}, i1 false)")


def _bitreverse(f: Form, op: Op, args: list[Val]) -> str:
    return f.call("bitreverse", op.type, f.w.operand(args[0], f.vector))


def _lop3(f: Form, op: Op, args: list[Val]) -> str:
    """A truth table as nested choices on the first operand: f = a ? f1(b, c) : f0(b, c)."""
    two = two_operand(op.attr)
    if two is not None:
        return _bitwise(f, Op(two[0], "i32", (0, 1)), [args[two[1]], args[two[2]]])
    a, b, c = (f.w.operand(v, f.vector) for v in args)
    ones, zero = f.const("i32", 0xFFFFFFFF), f.const("i32", 0)

    def invert(x: str) -> str:
        return f.op("xor", "i32", x, ones)

    def pair(table: int) -> str | int:
        """A function of b and c by its 4-bit table (bit b<<1 | c): text, or 0 / 1 for constants."""
        simple: dict[int, Callable[[], str | int]] = {
            0: lambda: 0,
            15: lambda: 1,
            12: lambda: b,
            3: lambda: invert(b),
            10: lambda: c,
            5: lambda: invert(c),
            8: lambda: f.op("and", "i32", b, c),
            7: lambda: invert(f.op("and", "i32", b, c)),
            14: lambda: f.op("or", "i32", b, c),
            1: lambda: invert(f.op("or", "i32", b, c)),
            6: lambda: f.op("xor", "i32", b, c),
            9: lambda: invert(f.op("xor", "i32", b, c)),
            4: lambda: f.op("and", "i32", b, invert(c)),
            2: lambda: f.op("and", "i32", c, invert(b)),
            11: lambda: f.op("or", "i32", c, invert(b)),
            13: lambda: f.op("or", "i32", b, invert(c)),
        }
        return simple[table]()

    low, high = op.attr & 15, op.attr >> 4
    if low == high:
        result = pair(low)
    elif high == 15 - low:
        inner = pair(low)
        result = f.op("xor", "i32", a, inner) if isinstance(inner, str) else (a if inner == 0 else invert(a))
    elif low == 0:
        inner = pair(high)
        result = f.op("and", "i32", a, inner) if isinstance(inner, str) else a
    elif high == 0:
        inner = pair(low)
        result = f.op("and", "i32", invert(a), inner) if isinstance(inner, str) else invert(a)
    elif high == 15:
        inner = pair(low)
        result = f.op("or", "i32", a, inner) if isinstance(inner, str) else a
    elif low == 15:
        inner = pair(high)
        result = f.op("or", "i32", invert(a), inner) if isinstance(inner, str) else invert(a)
    else:
        first, difference = pair(low), pair(low ^ high)
        assert isinstance(first, str)
        assert isinstance(difference, str)
        result = f.op("xor", "i32", first, f.op("and", "i32", a, difference))
    if isinstance(result, int):
        return f.op("or", "i32", ones if result else zero, zero)
    return result


def _prmt(f: Form, op: Op, args: list[Val]) -> str:
    """Byte permutation; selector bit 3 of a nibble repeats the byte's sign."""
    w = f.w
    selector = args[1].shape
    fixed = selector.const if selector.kind == SCALAR_KIND and selector.pattern is None else None
    x, z = w.operand(args[0], f.vector), w.operand(args[2], f.vector)
    if fixed is not None:
        total = ""
        for byte in range(4):
            nibble = fixed >> 4 * byte & 15
            source, at = (x, nibble & 3) if nibble & 7 < 4 else (z, nibble & 3)
            if nibble & 8:
                part = f.op("shl", "i32", source, f.const("i32", 24 - 8 * at)) if at < 3 else source
                part = f.op("ashr", "i32", part, f.const("i32", 31))
                part = f.op("and", "i32", part, f.const("i32", 0xFF << 8 * byte))
            else:
                part = source
                if at > byte:
                    part = f.op("lshr", "i32", part, f.const("i32", 8 * (at - byte)))
                elif at < byte:
                    part = f.op("shl", "i32", part, f.const("i32", 8 * (byte - at)))
                part = f.op("and", "i32", part, f.const("i32", 0xFF << 8 * byte))
            total = part if not total else f.op("or", "i32", total, part)
        return total
    wide = f.op(
        "or",
        "i64",
        f.cast("zext", "i32", "i64", x),
        f.op("shl", "i64", f.cast("zext", "i32", "i64", z), f.const("i64", 32)),
    )
    chooser = f.cast("zext", "i32", "i64", w.operand(args[1], f.vector))
    total = ""
    for byte in range(4):
        digit = f.op("lshr", "i64", chooser, f.const("i64", 4 * byte))
        amount = f.op("shl", "i64", f.op("and", "i64", digit, f.const("i64", 7)), f.const("i64", 3))
        value = f.cast("trunc", "i64", "i8", f.op("lshr", "i64", wide, amount))
        sign = f.op("icmp ne", "i64", f.op("and", "i64", digit, f.const("i64", 8)), f.const("i64", 0))
        value = f.select("i8", sign, f.op("ashr", "i8", value, f.const("i8", 7)), value)
        part = f.op("shl", "i32", f.cast("zext", "i8", "i32", value), f.const("i32", 8 * byte))
        total = part if not total else f.op("or", "i32", total, part)
    return total


# --- floats ---------------------------------------------------------------------------------------
SIGN_BIT = {"f16": 0x8000, "bf16": 0x8000, "f32": 1 << 31, "f64": 1 << 63}
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF << 52}
SMALLEST_NORMAL = {"f16": 0x400, "bf16": 0x80, "f32": 0x800000, "f64": 1 << 52}
CANONICAL = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}
INTEGER_OF = {"f16": "i16", "bf16": "i16", "f32": "i32", "f64": "i64"}


def bits(f: Form, type: str, value: str) -> str:
    return f.cast("bitcast", type, INTEGER_OF[type], value)


def from_bits(f: Form, type: str, value: str) -> str:
    return f.cast("bitcast", INTEGER_OF[type], type, value)


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
    """f32 to f16 in a direction: the nearest number, or its neighbour."""
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
    """An operation in a rounding direction: a shared function that sets the machine's direction around it."""
    kind = {"fadd": "fadd", "fmul": "fmul", "fma": "fma", "fptrunc": "fptrunc"}.get(name, name)
    function = f"ww_{kind}_{'_'.join([*types, type])}_{rounding}"
    w = f.w
    vectors = []
    for t, a in zip(types, args, strict=True):
        vectors.append(f"{vector_type(t)} {a if f.vector else w.splat(t, a)}")
    w.declare(function, vector_type(type), ", ".join(vector_type(t) for t in types))
    result = w.op(f"call {vector_type(type)} @{function}({', '.join(vectors)})")
    return result if f.vector else w.op(f"extractelement {vector_type(type)} {result}, i64 0")


def _float_binary(name: str) -> Callable[[Form, Op, list[Val]], str]:
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
            # Both halves have at most half of f64's digits less two, so rounding twice is rounding once.
            wide = [to_double(f, type, v) for v in values]
            return round_single(f, type, odd_single(f, f.op(name, "f64", *wide)), rounding)
        x, y, z = (to_double(f, type, v) for v in values)
        product = f.op("fmul", "f64", x, y)
        total = f.op("fadd", "f64", product, z)
        back = f.op("fsub", "f64", total, product)
        error = f.op(
            "fadd", "f64", f.op("fsub", "f64", product, f.op("fsub", "f64", total, back)), f.op("fsub", "f64", z, back)
        )
        return round_single(f, type, odd_single(f, odd_double(f, total, error)), rounding)

    return emit


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
    size = f.op("and", integer, x, f.const(integer, SIGN_BIT[op.type] - 1))
    small = f.op("icmp ult", integer, size, f.const(integer, SMALLEST_NORMAL[op.type]))
    sign = f.op("and", integer, x, f.const(integer, SIGN_BIT[op.type]))
    return from_bits(f, op.type, f.select(integer, small, sign, x))


def is_nan(f: Form, type: str, x: str) -> str:
    if type != "bf16":
        return f.op("fcmp uno", type, x, x)
    size = f.op("and", "i16", x, f.const("i16", 0x7FFF))
    return f.op("icmp ugt", "i16", size, f.const("i16", INFINITY["bf16"]))


def _canonical_nan(f: Form, op: Op, args: list[Val]) -> str:
    x = f.w.operand(args[0], f.vector)
    return f.select(op.type, is_nan(f, op.type, x), f.const(op.type, CANONICAL[op.type]), x)


def rarely(f: Form, type: str, lanes: str, usual: str, fix: Callable[[], str]) -> str:
    """``usual``, or what ``fix`` makes of it: computed only when one of ``lanes`` needs it.

    ``fix`` must not read a register: what it uses was made before.
    """
    if not f.vector:
        return f.select(type, lanes, fix(), usual)
    w = f.w
    before, slow, join = w.new_label("usual"), w.new_label("rare"), w.new_label("joined")
    some = w.op(f"icmp ne i32 {w.bits_of(lanes)}, 0")
    w.emit(f"br label %{before}")
    w.label(before)
    w.emit(f"br i1 {some}, label %{slow}, label %{join}, !prof !2")
    w.label(slow)
    fixed = f.select(type, lanes, fix(), usual)
    w.emit(f"br label %{join}")
    w.label(join)
    return w.op(f"phi {f.type(type)} [ {usual}, %{before} ], [ {fixed}, %{slow} ]")


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
            total = f.op("fadd", "f64", product, wide[2])
            back = f.op("fsub", "f64", total, product)
            lost = f.op("fsub", "f64", product, f.op("fsub", "f64", total, back))
            error = f.op("fadd", "f64", lost, f.op("fsub", "f64", wide[2], back))
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


def canonical_word(w: Text, value: Val) -> Val:
    """The 32 bits of an f32 with any NaN made canonical."""
    if value.shape.kind == sh.UNSET_KIND or value.shape.const is not None:
        return value
    f = Form(w, value.shape.kind == VECTOR_KIND)
    word = w.operand(value, f.vector)
    single = f.cast("bitcast", "i32", "f32", word)
    nan = f.op("fcmp uno", "f32", single, single)
    return w.made("i32", value.shape, f.select("i32", nan, f.const("i32", CANONICAL["f32"]), word))


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


ROUND = {"rn": "roundeven", "rz": "trunc", "rm": "floor", "rp": "ceil"}


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
    whole = x if rounding == "rz" else f.call(ROUND[rounding], type, x)
    if rounding == "rz":
        whole = x
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
            # Where a host converts signed numbers only, LLVM's way for unsigned 0 ends in 2**52 - 2**52: -0 when rounding down.
            text, source, x = "sitofp", "i64", f.cast("zext", source, "i64", x)
        return directed(f, text, op.type, [source], [x], rounding)
    if source == "i64":
        # Beyond 2**53 every half overflows or only needs the sticky bit that rounding to odd keeps.
        double = directed(f, text, "f64", [source], [x], "rz")
        back = f.call("fptosi.sat" if signed else "fptoui.sat", "f64", double, result="i64")
        word = f.cast("bitcast", "f64", "i64", double)
        inexact = f.cast("zext", "i1", "i64", f.op("icmp ne", "i64", back, x))
        double = f.cast("bitcast", "i64", "f64", f.op("or", "i64", word, inexact))
    else:
        double = f.cast(text, source, "f64", x)
    return round_single(f, op.type, odd_single(f, double), rounding)


HANDLERS: dict[str, Callable[[Form, Op, list[Val]], str]] = {
    "select": _select,
    "bitcast": _cast("bitcast"),
    "trunc": _cast("trunc"),
    "zext": _cast("zext"),
    "sext": _cast("sext"),
    "add": _plain("add"),
    "sub": _plain("sub"),
    "mul": _plain("mul"),
    "umulhi": _multiply_high,
    "smulhi": _multiply_high,
    "and": _bitwise,
    "or": _bitwise,
    "xor": _bitwise,
    "not": _not,
    "shl": _shift,
    "lshr": _shift,
    "ashr": _shift,
    "umin": _extreme,
    "umax": _extreme,
    "smin": _extreme,
    "smax": _extreme,
    "icmp": _compare,
    "popcount": _popcount,
    "clz": _clz,
    "bitreverse": _bitreverse,
    "lop3": _lop3,
    "prmt": _prmt,
    "fadd": _float_binary("fadd"),
    "fmul": _float_binary("fmul"),
    "fma": _float_binary("fma"),
    "fneg": _fneg,
    "fabs": _fabs,
    "ftz": _ftz,
    "canonical_nan": _canonical_nan,
    "nan_of": _nan_of,
    "ftz_of": _ftz_of,
    "fcmp": _fcmp,
    "fmin": _float_extreme,
    "fmax": _float_extreme,
    "fround": _fround,
    "fcvt": _fcvt,
    "f2i": _f2i,
    "i2f": _i2f,
    "mufu": silicon.call,
}
