"""LLVM IR of registers, integers and floats.

Single precision follows the chip: subnormals are flushed to zero, so that flushing needs no instruction.
"""

from __future__ import annotations

from warpwright.isa.ops import Op
from warpwright.isa.ptx.meaning import Place
from warpwright.isa.r600.compiler.rounding import directed, fused, fused_error, product_error, sum_error
from warpwright.isa.r600.compiler.writer import IR_TYPES, Writer, literal, operation, refuse

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


# --- registers and structure ---------------------------------------------------------------------------------
@operation("const")
def const(w: Writer, op: Op) -> str:
    if isinstance(op.attr, Place):
        return str(w.labels.setdefault(op.attr, len(w.labels) + 1))
    if not isinstance(op.attr, int):
        raise refuse("an address that is not known")
    return literal(op.type, op.attr)


@operation("get_reg")
def get_reg(w: Writer, op: Op) -> str:
    return w.read(op.attr)


@operation("get_reg64")
def get_reg64(w: Writer, op: Op) -> str:
    return _pair(w, w.read(op.attr), w.read(op.attr + 1))


@operation("get_pred")
def get_pred(w: Writer, op: Op) -> str:
    return w.read_predicate(op.attr)


@operation("set_reg")
def set_reg(w: Writer, op: Op, x: int) -> None:
    w.write(w.register(op.attr), "i32", w.values[x])


@operation("set_reg64")
def set_reg64(w: Writer, op: Op, x: int) -> None:
    low = w.let(f"trunc i64 {w.values[x]} to i32")
    high = w.let(f"trunc i64 {w.let(f'lshr i64 {w.values[x]}, 32')} to i32")
    w.write(w.register(op.attr), "i32", low)
    w.write(w.register(op.attr + 1), "i32", high)


@operation("set_pred")
def set_pred(w: Writer, op: Op, x: int) -> None:
    w.write(w.predicate(op.attr), "i1", w.values[x])


@operation("get_barrier")
def get_barrier(w: Writer, op: Op) -> str:
    return "0"


@operation("set_barrier", "touch", "gathers", "named", "aligned", "warpsync", "yield", "nanosleep", "bssy", "bsync")
def nothing(w: Writer, op: Op, *args: int) -> None:
    """Nothing to do: the lanes of a wavefront run in lockstep, and LLVM determines where they reconverge."""


@operation("select")
def select(w: Writer, op: Op, condition: int, x: int, y: int) -> str:
    return w.let(f"select i1 {w.values[condition]}, {w.typed(x)}, {w.typed(y)}")


@operation("bitcast")
def bitcast(w: Writer, op: Op, x: int) -> str:
    if w.type_of(x) == IR_TYPES[op.type]:
        return w.values[x]
    return w.let(f"bitcast {w.typed(x)} to {IR_TYPES[op.type]}")


@operation("trunc", "zext", "sext")
def resize(w: Writer, op: Op, x: int) -> str:
    if w.type_of(x) == IR_TYPES[op.type]:
        return w.values[x]
    return w.let(f"{op.name} {w.typed(x)} to {op.type}")


def _pair(w: Writer, low: str, high: str) -> str:
    upper = w.let(f"shl i64 {w.let(f'zext i32 {high} to i64')}, 32")
    return w.let(f"or i64 {upper}, {w.let(f'zext i32 {low} to i64')}")


@operation("pack64")
def pack64(w: Writer, op: Op, low: int, high: int) -> str:
    return _pair(w, w.values[low], w.values[high])


@operation("pack2", "pack4")
def pack(w: Writer, op: Op, *words: int) -> str:
    type, found = IR_TYPES[op.type], "poison"
    for n, word in enumerate(words):
        found = w.let(f"insertelement {type} {found}, i32 {w.values[word]}, i32 {n}")
    return found


@operation("extract")
def extract(w: Writer, op: Op, x: int) -> str:
    if w.ops[x].type == "i64":
        return w.word(w.let(f"lshr i64 {w.values[x]}, {32 * op.attr}"), "i64")
    return w.let(f"extractelement {w.typed(x)}, i32 {op.attr}")


# --- integers --------------------------------------------------------------------------------------------------
@operation("add", "sub", "mul", "and", "or", "xor", "sdiv", "udiv", "srem", "urem")
def binary(w: Writer, op: Op, x: int, y: int) -> str:
    return w.let(f"{op.name} {w.typed(x)}, {w.values[y]}")


@operation("not")
def not_(w: Writer, op: Op, x: int) -> str:
    return w.let(f"xor {w.typed(x)}, -1")


@operation("umulhi", "smulhi")
def high_product(w: Writer, op: Op, x: int, y: int) -> str:
    bits = BITS[op.type]
    widen = "zext" if op.name[0] == "u" else "sext"
    a, b = (w.let(f"{widen} {w.typed(v)} to i{2 * bits}") for v in (x, y))
    product = w.let(f"mul i{2 * bits} {a}, {b}")
    return w.let(f"trunc i{2 * bits} {w.let(f'lshr i{2 * bits} {product}, {bits}')} to {op.type}")


@operation("shl", "lshr", "ashr")
def shift(w: Writer, op: Op, x: int, y: int) -> str:
    """A shift; an amount of the width or more gives 0, or the sign."""
    bits, amount = BITS[op.type], w.constant(y)
    if amount is not None and amount >= bits:
        return w.let(f"ashr {w.typed(x)}, {bits - 1}") if op.name == "ashr" else "0"
    if amount is not None:
        return w.let(f"{op.name} {w.typed(x)}, {amount}")
    fits = w.let(f"icmp ult {w.typed(y)}, {bits}")
    if op.name == "ashr":
        least = w.let(f"select i1 {fits}, {w.typed(y)}, {w.type_of(y)} {bits - 1}")
        return w.let(f"ashr {w.typed(x)}, {least}")
    # An amount that is too large gives poison, but only where the result is unused.
    moved = w.let(f"{op.name} {w.typed(x)}, {w.let(f'and {w.typed(y)}, {bits - 1}')}")
    return w.let(f"select i1 {fits}, {op.type} {moved}, {op.type} 0")


@operation("umin", "umax", "smin", "smax", "popcount", "bitreverse", "clz")
def function(w: Writer, op: Op, *args: int) -> str:
    name = {"popcount": "ctpop", "clz": "ctlz"}.get(op.name, op.name)
    tail = ["i1 false"] if op.name == "clz" else []
    return w.call(op.type, f"llvm.{name}.{op.type}", *(w.typed(a) for a in args), *tail)


@operation("icmp", "fcmp")
def compare(w: Writer, op: Op, x: int, y: int) -> str:
    return w.let(f"{op.name} {op.attr} {w.typed(x)}, {w.values[y]}")


@operation("lop3")
def lop3(w: Writer, op: Op, *args: int) -> str:
    """OR of the products of a truth table."""
    plain = [w.values[a] for a in args]
    inverted = [w.let(f"xor i32 {v}, -1") for v in plain]
    found = "0"
    for row in range(8):
        if op.attr >> row & 1:
            a, b, c = ((plain, inverted)[not row >> 2 - n & 1][n] for n in range(3))
            found = w.let(f"or i32 {found}, {w.let(f'and i32 {a}, ' + w.let(f'and i32 {b}, {c}'))}")
    return found


@operation("prmt")
def prmt(w: Writer, op: Op, x: int, selector: int, y: int) -> str:
    """Select bytes of two words."""
    both, chosen = _pair(w, w.values[x], w.values[y]), w.values[selector]
    found = "0"
    for n in range(4):
        nibble = w.let(f"lshr i32 {chosen}, {4 * n}")
        place = w.let(f"zext i32 {w.let('shl i32 ' + w.let(f'and i32 {nibble}, 7') + ', 3')} to i64")
        byte = w.let(f"and i32 {w.word(w.let(f'lshr i64 {both}, {place}'), 'i64')}, 255")
        sign = w.let(f"icmp ugt i32 {byte}, 127")
        spread = w.let(f"select i1 {sign}, i32 255, i32 0")
        asked = w.let(f"icmp ne i32 {w.let(f'and i32 {nibble}, 8')}, 0")
        byte = w.let(f"select i1 {asked}, i32 {spread}, i32 {byte}")
        found = w.let(f"or i32 {found}, {w.let(f'shl i32 {byte}, {8 * n}')}")
    return found


# --- floats ----------------------------------------------------------------------------------------------------
ROUNDINGS = {"rn": "rint", "rz": "trunc", "rm": "floor", "rp": "ceil"}


def _single(w: Writer, position: int) -> str:
    """A half or single as ``float``."""
    if w.ops[position].type == "f16":
        return w.let(f"fpext half {w.values[position]} to float")
    return w.values[position]


def _result(w: Writer, op: Op, value: str) -> str:
    return w.let(f"fptrunc float {value} to half") if op.type == "f16" else value


def _check(op: Op, rounding: object) -> None:
    if op.type == "bf16":
        raise refuse("bfloat16 needs compute capability 8.0")
    if rounding != "rn":
        raise refuse(f"{op.name} rounded as .{rounding}: the chip rounds to the nearest")


@operation("fadd", "fmul")
def float_binary(w: Writer, op: Op, x: int, y: int) -> str:
    a, b = _single(w, x), _single(w, y)
    nearest = w.let(f"{op.name} float {a}, {b}")
    if op.type == "f32" and op.attr != "rn":
        error = sum_error(w, a, b, nearest) if op.name == "fadd" else product_error(w, a, b, nearest)
        return directed(w, op.attr, nearest, error)
    _check(op, op.attr)
    return _result(w, op, nearest)


@operation("fma")
def fma(w: Writer, op: Op, *args: int) -> str:
    a, b, c = (_single(w, x) for x in args)
    nearest = fused(w, a, b, c)
    if op.type == "f32" and op.attr != "rn":
        return directed(w, op.attr, nearest, fused_error(w, a, b, c, nearest))
    _check(op, op.attr)
    return _result(w, op, nearest)


@operation("fneg")
def fneg(w: Writer, op: Op, x: int) -> str:
    return w.let(f"fneg {w.typed(x)}")


@operation("fabs")
def fabs(w: Writer, op: Op, x: int) -> str:
    type = w.type_of(x)
    return w.call(type, f"llvm.fabs.{op.type}", w.typed(x))


@operation("ftz", "canonical_nan", "ftz_of")
def same(w: Writer, op: Op, x: int, *others: int) -> str:
    """The value unchanged: the chip flushes subnormals itself and has its own NaNs."""
    return w.values[x]


@operation("fmin", "fmax")
def extreme(w: Writer, op: Op, x: int, y: int) -> str:
    a, b = _single(w, x), _single(w, y)
    found = w.call("float", f"llvm.{op.name[1:]}num.f32", f"float {a}", f"float {b}")
    if op.attr == "nan":
        either = w.let(f"fcmp uno float {a}, {b}")
        found = w.let(f"select i1 {either}, float 0x7FF8000000000000, float {found}")
    return _result(w, op, found)


@operation("fround")
def fround(w: Writer, op: Op, x: int) -> str:
    return _result(w, op, w.call("float", f"llvm.{ROUNDINGS[op.attr]}.f32", f"float {_single(w, x)}"))


@operation("fcvt")
def fcvt(w: Writer, op: Op, x: int) -> str:
    if op.type == w.ops[x].type:
        return w.values[x]
    if op.type == "f32" and w.ops[x].type == "f16":
        return _single(w, x)
    _check(op, op.attr)
    return w.let(f"fptrunc {w.typed(x)} to half")


@operation("f2i")
def f2i(w: Writer, op: Op, x: int) -> str:
    """A conversion; the instruction saturates."""
    signed, rounding = op.attr
    value = _single(w, x)
    if rounding != "rz":
        value = w.call("float", f"llvm.{ROUNDINGS[rounding]}.f32", f"float {value}")
    if BITS[op.type] < 32:
        wide = w.let(f"{'fptosi' if signed else 'fptoui'} float {value} to i32")
        least, most = (
            (-(1 << BITS[op.type] - 1), (1 << BITS[op.type] - 1) - 1) if signed else (0, (1 << BITS[op.type]) - 1)
        )
        kind = "s" if signed else "u"
        if signed:
            wide = w.call("i32", "llvm.smax.i32", f"i32 {wide}", f"i32 {least}")
        wide = w.call("i32", f"llvm.{kind}min.i32", f"i32 {wide}", f"i32 {most}")
        return w.let(f"trunc i32 {wide} to {op.type}")
    if BITS[op.type] == 64:
        raise refuse("conversions of floats to 64-bit integers")
    return w.let(f"{'fptosi' if signed else 'fptoui'} float {value} to i32")


@operation("i2f")
def i2f(w: Writer, op: Op, x: int) -> str:
    signed, rounding = op.attr
    _check(op, rounding)
    return _result(w, op, w.let(f"{'sitofp' if signed else 'uitofp'} {w.typed(x)} to float"))


@operation("mufu")
def mufu(w: Writer, op: Op, x: int) -> str:
    name, _, argument = op.attr.partition(" ")
    value = f"float {w.values[x]}"
    if name == "rcp":
        return w.let(f"fdiv float 1.0, {w.values[x]}")
    if name == "rsq":
        return w.call("float", "llvm.r600.recipsqrt.ieee.f32", value)
    if name in ("sqrt", "ex2", "lg2") or argument == "radians":
        known = {"sqrt": "sqrt", "ex2": "exp2", "lg2": "log2", "sin": "sin", "cos": "cos"}[name]
        return w.call("float", f"llvm.{known}.f32", value)
    raise refuse(f"{name}.approx is not an instruction of this chip")
