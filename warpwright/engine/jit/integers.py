"""LLVM text for integers, predicates and selections."""

from __future__ import annotations

from collections.abc import Callable

from warpwright.engine.jit import shapes as sh
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.operation_form import Form, Handler
from warpwright.engine.jit.shape_inference import two_operand
from warpwright.engine.jit.shapes import SCALAR_KIND, VECTOR_KIND, WIDTH
from warpwright.isa.ops import Op


def _plain(text: str) -> Handler:
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
        n = f"<{f.w.lanes} x i128>" if f.vector else "i128"
        shift = "<" + ", ".join(["i128 64"] * f.w.lanes) + ">" if f.vector else "64"
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
    return w.op(f"select {w.vector_type('i1')} {w.vector(condition)}, {kind} {x}, {kind} {y}")


def _popcount(f: Form, op: Op, args: list[Val]) -> str:
    return f.call("ctpop", op.type, f.w.operand(args[0], f.vector))


def _clz(f: Form, op: Op, args: list[Val]) -> str:
    stem = f"llvm.ctlz.{f.suffix(op.type)}"
    kind = f.type(op.type)
    f.w.declared[stem] = f"declare {kind} @{stem}({kind}, i1)"
    return f.w.op(f"call {kind} @{stem}({kind} {f.w.operand(args[0], f.vector)}, i1 false)")


def _bitreverse(f: Form, op: Op, args: list[Val]) -> str:
    return f.call("bitreverse", op.type, f.w.operand(args[0], f.vector))


def _of_two(f: Form, table: int, b: str, c: str) -> str | int:
    """A function of two words by its 4-bit table (bit b<<1 | c): text, or 0 / 1 for constants."""

    def invert(x: str) -> str:
        return f.op("xor", "i32", x, f.const("i32", 0xFFFFFFFF))

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


def _lop3(f: Form, op: Op, args: list[Val]) -> str:
    """A truth table as nested choices on the first operand: f = a ? f1(b, c) : f0(b, c)."""
    two = two_operand(op.attr)
    if two is not None:
        return _bitwise(f, Op(two[0], "i32", (0, 1)), [args[two[1]], args[two[2]]])
    a, b, c = (f.w.operand(v, f.vector) for v in args)
    ones, zero = f.const("i32", 0xFFFFFFFF), f.const("i32", 0)

    def not_a() -> str:
        return f.op("xor", "i32", a, ones)

    low, high = op.attr & 15, op.attr >> 4
    result: str | int
    if low == high:
        result = _of_two(f, low, b, c)
    elif high == 15 - low:
        inner = _of_two(f, low, b, c)
        result = f.op("xor", "i32", a, inner) if isinstance(inner, str) else (a if inner == 0 else not_a())
    elif low == 0:
        inner = _of_two(f, high, b, c)
        result = f.op("and", "i32", a, inner) if isinstance(inner, str) else a
    elif high == 0:
        inner = _of_two(f, low, b, c)
        result = f.op("and", "i32", not_a(), inner) if isinstance(inner, str) else not_a()
    elif high == 15:
        inner = _of_two(f, low, b, c)
        result = f.op("or", "i32", a, inner) if isinstance(inner, str) else a
    elif low == 15:
        inner = _of_two(f, high, b, c)
        result = f.op("or", "i32", not_a(), inner) if isinstance(inner, str) else not_a()
    else:
        first, difference = _of_two(f, low, b, c), _of_two(f, low ^ high, b, c)
        assert isinstance(first, str)
        assert isinstance(difference, str)
        result = f.op("xor", "i32", first, f.op("and", "i32", a, difference))
    if isinstance(result, int):
        return f.op("or", "i32", ones if result else zero, zero)
    return result


def _prmt(f: Form, op: Op, args: list[Val]) -> str:
    """Byte permutation; selector bit 3 of a nibble repeats the byte's sign."""
    selector = args[1].shape
    fixed = selector.const if selector.kind == SCALAR_KIND and selector.pattern is None else None
    x, z = f.w.operand(args[0], f.vector), f.w.operand(args[2], f.vector)
    if fixed is not None:
        parts = [_known_byte(f, fixed >> 4 * byte & 15, byte, x, z) for byte in range(4)]
        return _joined(f, parts)
    wide = f.op(
        "or",
        "i64",
        f.cast("zext", "i32", "i64", x),
        f.op("shl", "i64", f.cast("zext", "i32", "i64", z), f.const("i64", 32)),
    )
    chooser = f.cast("zext", "i32", "i64", f.w.operand(args[1], f.vector))
    return _joined(f, [_chosen_byte(f, wide, chooser, byte) for byte in range(4)])


def _joined(f: Form, parts: list[str]) -> str:
    total = parts[0]
    for part in parts[1:]:
        total = f.op("or", "i32", total, part)
    return total


def _known_byte(f: Form, nibble: int, byte: int, x: str, z: str) -> str:
    """A byte of the result in its position, selected by a known nibble."""
    source, at = (x, nibble & 3) if nibble & 7 < 4 else (z, nibble & 3)
    if nibble & 8:
        part = f.op("shl", "i32", source, f.const("i32", 24 - 8 * at)) if at < 3 else source
        part = f.op("ashr", "i32", part, f.const("i32", 31))
    elif at > byte:
        part = f.op("lshr", "i32", source, f.const("i32", 8 * (at - byte)))
    elif at < byte:
        part = f.op("shl", "i32", source, f.const("i32", 8 * (byte - at)))
    else:
        part = source
    return f.op("and", "i32", part, f.const("i32", 0xFF << 8 * byte))


def _chosen_byte(f: Form, wide: str, chooser: str, byte: int) -> str:
    """A byte of the result in its position, selected from eight bytes by the nibble of a selector (both as i64)."""
    digit = f.op("lshr", "i64", chooser, f.const("i64", 4 * byte))
    amount = f.op("shl", "i64", f.op("and", "i64", digit, f.const("i64", 7)), f.const("i64", 3))
    value = f.cast("trunc", "i64", "i8", f.op("lshr", "i64", wide, amount))
    sign = f.op("icmp ne", "i64", f.op("and", "i64", digit, f.const("i64", 8)), f.const("i64", 0))
    value = f.select("i8", sign, f.op("ashr", "i8", value, f.const("i8", 7)), value)
    return f.op("shl", "i32", f.cast("zext", "i8", "i32", value), f.const("i32", 8 * byte))


HANDLERS: dict[str, Handler] = {
    "select": _select,
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
}
