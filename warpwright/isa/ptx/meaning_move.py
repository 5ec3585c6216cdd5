"""Moves, packing and conversions (PTX ISA, section 9.7.9: mov, cvt, cvta, isspacep; also cvt.pack)."""

from __future__ import annotations

from warpwright.isa.float8 import half_of
from warpwright.isa.nans import keep_nan
from warpwright.isa.ops import SHARED_RANK_SHIFT, Value
from warpwright.isa.ptx.meaning import (
    Emitter,
    half,
    is_float,
    is_signed,
    meaning,
    only,
    only_types,
    pack_halves,
    type_of,
    types_of,
    unsupported,
    value_type,
)
from warpwright.isa.ptx.meaning_float import ROUNDINGS, saturate
from warpwright.isa.ptx.syntax import BITS, Instruction, Register, Special, Vector

TO_INTEGRAL = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


@meaning("mov")
def mov(i: Instruction, b: Emitter) -> None:
    only(i, "v2", "v4", "v8")
    type = type_of(i)
    d, o = i.operands
    if {"v2", "v4", "v8"} & set(i.modifiers):
        if not isinstance(d, Vector) or not isinstance(o, Vector) or len(d.items) != len(o.items):
            raise unsupported("a move between vectors of different lengths")
        values = [b.source(item, type) for item in o.items]
        for item, value in zip(d.items, values, strict=True):
            b.result(item, value)
        return
    if type == "b128":
        mov128(b, i)
        return
    if isinstance(o, Special) and type == "pred":
        b.result(d, b.icmp("ne", b.special(o.name, 32), b.const(0)))  # %is_explicit_cluster
        return
    b.result(d, b.source(o, type))


def mov128(b: Emitter, i: Instruction) -> None:
    """Packing and unpacking of 128-bit registers, which are four consecutive 32-bit ones."""
    d, o = i.operands
    if isinstance(o, Register):
        words = b.words(o, 4)
    elif isinstance(o, Vector) and len(o.items) == 2:
        words = [w for item in o.items for w in b.high_low(b.source(item, "b64"))]
    elif isinstance(o, Vector) and len(o.items) == 4:
        words = [b.source(item, "b32") for item in o.items]
    else:
        raise unsupported("this source of mov.b128")
    if isinstance(d, Register):
        b.set_words(d, words)
    elif isinstance(d, Vector) and len(d.items) == 2:
        for n, item in enumerate(d.items):
            b.result(item, b.op("pack64", "i64", words[2 * n], words[2 * n + 1]))
    elif isinstance(d, Vector) and len(d.items) == 4:
        for item, word in zip(d.items, words, strict=True):
            b.result(item, word)
    else:
        raise unsupported("this destination of mov.b128")


# --- conversions ----------------------------------------------------------------------------------
@meaning("cvt")
def cvt(i: Instruction, b: Emitter) -> None:
    """Conversion between all scalar types; two f32 to a packed pair."""
    if "pack" in i.modifiers:
        cvt_pack(i, b)
        return
    only(i, "ftz", "sat", "relu", "rna", "satfinite", *ROUNDINGS, *TO_INTEGRAL)
    to, from_ = types_of(i)
    d, o, *more = i.operands
    if to in ("f16x2", "bf16x2") and from_ == "f32":
        high, low = (narrowed(b, i, b.source(x, "f32"), to[:-2]) for x in (o, more[0]))
        b.result(d, pack_halves(b, low, high))
        return
    if to == "tf32":
        b.result(d, tf32(b, i, b.source(o, "f32")))
        return
    if to in FP8 and from_ in ("f32", "f16x2"):
        pair = (
            [b.source(x, "f32") for x in (more[0], o)]
            if from_ == "f32"
            else [b.op("fcvt", "f32", half(b, b.source(o, "b32"), n, "f16"), attr="rn") for n in range(2)]
        )
        low, high = (to_fp8(b, i, x, to) for x in pair)
        b.result(d, b.trunc(b.or_(low, b.shl(high, b.const(8))), "i16"))
        return
    if from_ in FP8 and to == "f16x2":
        word = b.zext(b.source(o, "b16"), "i32")
        low, high = (from_fp8(b, i, b.and_(x, b.const(0xFF)), from_) for x in (word, b.lshr(word, b.const(8))))
        b.result(d, pack_halves(b, low, high))
        return
    if more or to.endswith("x2") or from_.endswith("x2") or from_ == "tf32":
        raise unsupported(f"cvt from .{from_} to .{to}")
    if is_float(to):
        value = to_float(b, i, from_, to, b.source(o, from_))
    elif is_float(from_):
        value = float_to_integer(b, i, from_, to, b.source(o, from_))
    else:
        value = between_integers(b, i, from_, to, b.source(o, from_))
    b.result(d, value, is_signed(to))


def flush_f32(b: Emitter, i: Instruction, x: Value) -> Value:
    """.ftz applies to f32 only."""
    return b.op("ftz", "f32", x) if "ftz" in i.modifiers and b.type_of(x) == "f32" else x


def narrowed(b: Emitter, i: Instruction, x: Value, to: str) -> Value:
    """f32 to a half-precision format, with ReLU and finite saturation; .ftz has no effect in compiled code."""
    rounding = next((m for m in i.modifiers if m in ROUNDINGS), "rn")
    y = b.op("canonical_nan", to, b.op("fcvt", to, x, attr=rounding))
    if "relu" in i.modifiers:
        y = b.op("fmax", to, y, b.const(0, to), attr="nan")
    if "satfinite" in i.modifiers:
        most = {"f16": 0x7BFF, "bf16": 0x7F7F}[to]
        limited = b.op("fmin", to, y, b.const(most, to), attr="number")
        limited = b.op("fmax", to, limited, b.const(most | 0x8000, to), attr="number")
        y = b.select(b.fcmp("uno", y, y), y, limited)
    return y


FP8 = {"e4m3x2": (3, 7, 0x7E), "e5m2x2": (2, 15, 0x7B)}
"""Bits of fraction, exponent bias and the largest finite code of the 8-bit formats."""


def to_fp8(b: Emitter, i: Instruction, x: Value, format: str) -> Value:
    """The code (i32) of an f32, rounded to nearest even and limited to the largest finite number."""
    fraction, bias, most = FP8[format]
    if "relu" in i.modifiers:
        x = b.op("fmax", "f32", x, b.const(0, "f32"), attr="nan")
    bits = b.bitcast(x, "i32")
    size = b.and_(bits, b.const(0x7FFFFFFF))
    drop = 23 - fraction
    rounded = b.add(b.add(size, b.const((1 << drop - 1) - 1)), b.and_(b.lshr(size, b.const(drop)), b.const(1)))
    normal = b.sub(b.lshr(rounded, b.const(drop)), b.const(127 - bias << fraction))
    # Adding a power of two whose last place is the smallest subnormal number rounds to that number.
    anchor = b.const(127 + 23 + 1 - bias - fraction << 23)
    total = b.op("fadd", "f32", b.bitcast(size, "f32"), b.bitcast(anchor, "f32"), attr="rn")
    small = b.sub(b.bitcast(total, "i32"), anchor)
    code = b.select(b.icmp("ult", size, b.const(128 - bias << 23)), small, normal)
    code = b.select(b.icmp("sgt", code, b.const(most)), b.const(most), code)
    code = b.or_(code, b.and_(b.lshr(bits, b.const(24)), b.const(0x80)))
    return b.select(b.icmp("ugt", size, b.const(0x7F800000)), b.const(0x7F), code)


def from_fp8(b: Emitter, i: Instruction, code: Value, format: str) -> Value:
    """An 8-bit float as f16, exactly."""
    x = b.bitcast(b.trunc(half_of(b, code, format.removesuffix("x2")), "i16"), "f16")
    return b.op("fmax", "f16", x, b.const(0, "f16"), attr="nan") if "relu" in i.modifiers else x


def tf32(b: Emitter, i: Instruction, x: Value) -> Value:
    """f32 with 10 bits of fraction: .rna to nearest, ties away; .rn to even; .rz towards zero."""
    bits = b.bitcast(x, "i32")
    if "rna" in i.modifiers:
        return away_tf32(b, i, bits)
    if "relu" in i.modifiers:
        x = b.op("fmax", "f32", x, b.const(0, "f32"), attr="nan")
        bits = b.bitcast(x, "i32")
    if "rn" in i.modifiers:
        rounded = b.add(b.add(bits, b.const(0xFFF)), b.and_(b.lshr(bits, b.const(13)), b.const(1)))
    else:
        rounded = bits
    rounded = b.and_(rounded, b.const(0xFFFFE000))
    size = b.and_(bits, b.const(0x7FFFFFFF))
    if "satfinite" in i.modifiers:
        most = b.or_(b.and_(bits, b.const(0x80000000)), b.const(0x7F7FE000))
        over = b.icmp("uge", b.and_(rounded, b.const(0x7FFFFFFF)), b.const(0x7F800000))
        rounded = b.select(over, most, rounded)
    else:
        rounded = b.select(b.icmp("eq", size, b.const(0x7F800000)), bits, rounded)
    return b.select(b.icmp("ugt", size, b.const(0x7F800000)), b.const(0x7FFFE000), rounded)


def away_tf32(b: Emitter, i: Instruction, bits: Value) -> Value:
    """.rna as in compiled code: infinity and NaN only lose their lower bits; .satfinite reduces them by one step."""

    def beyond(word: Value) -> Value:
        return b.icmp("uge", b.and_(word, b.const(0x7FFFFFFF)), b.const(0x7F800000))

    rounded = b.select(beyond(bits), bits, b.add(bits, b.const(0x1000)))
    rounded = b.and_(rounded, b.const(0xFFFFE000))
    if "satfinite" in i.modifiers:
        rounded = b.select(beyond(rounded), b.sub(rounded, b.const(0x2000)), rounded)
    return rounded


FIRST_HALF_TO_DOUBLE = 70
"""The first architecture with conversions between f16 and f64; for earlier ones the compiler's code converts through
f32, which makes NaN canonical."""


def to_float(b: Emitter, i: Instruction, from_: str, to: str, x: Value) -> Value:
    rounding = next((m for m in i.modifiers if m in ROUNDINGS), "rn")
    integral = next((TO_INTEGRAL[m] for m in i.modifiers if m in TO_INTEGRAL), None)
    if not is_float(from_):
        y = b.op("i2f", to, x, attr=(is_signed(from_), rounding))
    elif to == from_:
        x = flush_f32(b, i, x)
        y = x if integral is None else b.op("fround", to, x, attr=integral)
        if to == "f64" and integral is not None:
            y = keep_nan(b, x, y)
        elif integral is not None or "ftz" in i.modifiers or to == "f16":
            y = b.op("canonical_nan", to, y)
    elif from_ == "f32" and to in ("f16", "bf16"):
        return saturate(b, narrowed(b, i, x, to)) if "sat" in i.modifiers else narrowed(b, i, x, to)
    elif {from_, to} == {"f16", "bf16"}:
        y = b.op("fcvt", to, b.op("fcvt", "f32", x, attr="rn"), attr=rounding)
        y = b.op("canonical_nan", to, y)
    elif (from_, to) == ("bf16", "f32") and "ftz" not in i.modifiers:
        y = b.bitcast(b.shl(b.zext(b.bitcast(x, "i16"), "i32"), b.const(16)), "f32")
    else:
        if from_ == "f32" and "ftz" in i.modifiers:  # a separate instruction, with its own NaN
            x = b.op("canonical_nan", "f32", flush_f32(b, i, x))
        if (from_, to) == ("f16", "f64") and b.arch < FIRST_HALF_TO_DOUBLE:
            from_, x = "f32", b.op("canonical_nan", "f32", b.op("fcvt", "f32", x, attr="rn"))
        y = b.op("fcvt", to, x, attr=integral or rounding)
        by_way = to == "f16" and b.arch < FIRST_HALF_TO_DOUBLE
        y = keep_nan(b, x, y) if "f64" in (to, from_) and not by_way else b.op("canonical_nan", to, y)
    y = flush_f32(b, i, y)
    if "relu" in i.modifiers:
        y = b.op("fmax", to, y, b.const(0, to), attr="nan")
    return saturate(b, y) if "sat" in i.modifiers else y


FIRST_NARROW_F2I = 70
"""The first architecture that converts f64 directly to 8- and 16-bit integers."""


def float_to_integer(b: Emitter, i: Instruction, from_: str, to: str, x: Value) -> Value:
    """Saturates.  NaN becomes zero if neither side has 64 bits, otherwise only the highest bit is set (PTX ISA,
    ``cvt``)."""
    rounding = next((TO_INTEGRAL[m] for m in i.modifiers if m in TO_INTEGRAL), None)
    if rounding is None:
        raise unsupported("cvt to an integer without .rni, .rzi, .rmi or .rpi")
    x = flush_f32(b, i, x)
    bits = BITS[to]
    value = b.op("f2i", f"i{bits}", x, attr=(is_signed(to), rounding))
    if from_ == "f64" and bits <= 32:
        nan = 1 << bits - 1
        if b.arch < FIRST_NARROW_F2I and bits < 32 and not is_signed(to):
            nan = (1 << bits) - 1  # the compiler's code converts to 32 bits and then saturates
        value = b.select(b.fcmp("uno", x, x), b.const(nan, f"i{bits}"), value)
    return value


def between_integers(b: Emitter, i: Instruction, from_: str, to: str, x: Value) -> Value:
    """Truncation or extension; .sat clamps to the destination's range."""
    if from_ == "pred" or to == "pred":
        raise unsupported("cvt of a predicate")
    wide = b.sext(x, "i64") if is_signed(from_) else b.zext(x, "i64")
    if "sat" in i.modifiers:
        bits = BITS[to]
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed(to) else (0, (1 << bits) - 1)
        if is_signed(from_):
            wide = b.binary("smax", wide, b.const(low if bits < 64 or not is_signed(to) else -(1 << 63), "i64"))
            top = min(high, (1 << 63) - 1)
            wide = b.binary("smin", wide, b.const(top, "i64"))
        else:
            wide = b.binary("umin", wide, b.const(high, "i64"))
    return b.trunc(wide, value_type(to))


PACKED_INTEGERS = ("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2")


def cvt_pack(i: Instruction, b: Emitter) -> None:
    """``cvt.pack.sat.T.s32 d, a, b[, c]``: saturates two integers into the low part of d, with c above."""
    only(i, "pack", "sat", *PACKED_INTEGERS)
    to = next(m for m in i.modifiers if m in PACKED_INTEGERS)
    d, o1, o2, *more = i.operands
    bits = int(to[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed(to) else (0, (1 << bits) - 1)
    mask = b.const((1 << bits) - 1)
    parts = []
    for o in (o1, o2):
        x = b.binary("smin", b.binary("smax", b.source(o, "s32"), b.const(low)), b.const(high))
        parts.append(b.and_(x, mask))
    word = b.or_(b.shl(parts[0], b.const(bits)), parts[1])
    if more:
        word = b.or_(word, b.shl(b.source(more[0], "b32"), b.const(2 * bits)))
    b.result(d, word)


# --- addresses ------------------------------------------------------------------------------------
WINDOWS = ("shared", "local", "const", "param")
SPACES = ("global", "shared", "local", "const", "param", "shared::cta", "shared::cluster", "param::entry")


def window(b: Emitter, space: str) -> Value:
    """The generic address (i64) of byte 0 of a state space."""
    space = space.split("::")[0]
    if space == "const":
        return b.op("load_const", "i64", b.const(b.context.constant_window_bytes), attr=(0, 8))
    if space == "param":
        # A parameter's address counts from the start of the constant bank.
        return b.sub(parameter_bounds(b)[0], b.const(b.context.parameter_base_bytes, "i64"))
    low, high = (b.op("special", "i32", attr=f"{space}_window_{part}") for part in ("lo", "hi"))
    return b.op("pack64", "i64", low, high)


def parameter_bounds(b: Emitter) -> tuple[Value, Value]:
    """Generic addresses (i64) of the first and the last byte of the kernel's parameters."""
    context = b.context
    if context.parameter_window_bytes is not None:
        at = context.parameter_window_bytes
        first, last = (b.op("load_const", "i64", b.const(at + n), attr=(0, 8)) for n in (0, 8))
        return first, last
    if context.bank_window_bytes is None:
        raise unsupported("generic addresses of kernel parameters")
    at, end = context.bank_window_bytes
    bank = b.op("load_const", "i64", b.const(at), attr=(0, 8))
    last = b.zext(b.op("load_const", "i32", b.const(end), attr=(0, 4)), "i64")
    return b.add(bank, b.const(context.parameter_base_bytes, "i64")), b.add(bank, last)


def space_of(i: Instruction) -> str:
    return next((m for m in i.modifiers if m in SPACES), "")


@meaning("cvta")
def cvta(i: Instruction, b: Emitter) -> None:
    """Between a generic address and one in a state space; ``.to`` goes to the space."""
    only(i, "to", *SPACES)
    type = only_types(i, "u64", "u32")
    d, o = i.operands
    space = space_of(i)
    address = b.zext(b.source(o, type), "i64")
    if space != "global":
        base = window(b, space)
        address = b.sub(address, base) if "to" in i.modifiers else b.add(address, base)
    b.result(d, b.trunc(address, value_type(type)))


WINDOW_BYTES = 1 << 24
CLUSTER_BYTES = 1 << 32
"""Size of the shared memory window of all blocks of a cluster."""


@meaning("isspacep")
def isspacep(i: Instruction, b: Emitter) -> None:
    only(i, *SPACES)
    d, o = i.operands
    address = b.source(o, "u64")
    space = space_of(i)

    def inside(of: str) -> Value:
        size = CLUSTER_BYTES if of.startswith("shared") else WINDOW_BYTES
        return b.icmp("ult", b.sub(address, window(b, of)), b.const(size, "i64"))

    if space in ("shared", "shared::cta"):
        own = b.icmp("eq", rank_of(b, b.trunc(address, "i32")), b.op("special", "i32", attr="cluster_ctaid"))
        b.result(d, b.and_(inside("shared"), own))
    elif space == "global":
        b.result(d, b.not_(b.or_(inside("shared"), inside("local"))))
    elif space.startswith(("shared", "local")):
        b.result(d, inside(space))
    elif space == "const":  # compiled code checks that an address is in the window by comparing with its start and end
        b.result(d, b.const(0, "i1"))
    else:
        first, last = parameter_bounds(b)
        b.result(d, b.and_(b.icmp("uge", address, first), b.icmp("ule", address, last)))


def rank_of(b: Emitter, low: Value) -> Value:
    """Rank of the block that a shared address (i32, or the lower word of a generic one) names."""
    return b.lshr(low, b.const(SHARED_RANK_SHIFT))


@meaning("mapa")
def mapa(i: Instruction, b: Emitter) -> None:
    """The same offset in the shared memory of another block of the cluster."""
    only(i, "shared::cluster")
    type = only_types(i, "u32", "u64")
    d, o, rank = i.operands
    address = b.source(o, type)
    low = b.trunc(address, "i32") if type == "u64" else address
    offset = b.and_(low, b.const((1 << SHARED_RANK_SHIFT) - 1))
    named = b.or_(offset, b.shl(b.source(rank, "u32"), b.const(SHARED_RANK_SHIFT)))
    b.result(d, named if type == "u32" else b.op("pack64", "i64", named, b.op("extract", "i32", address, attr=1)))


@meaning("getctarank")
def getctarank(i: Instruction, b: Emitter) -> None:
    only(i, "shared::cluster")
    type = only_types(i, "u32", "u64")
    address = b.source(i.operands[1], type)
    b.result(i.operands[0], rank_of(b, b.trunc(address, "i32") if type == "u64" else address))
