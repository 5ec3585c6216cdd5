"""Moves, memory and atomics.

Global memory is addressed by 32 bits; the upper word of the device's addresses is a constant of the model (``window``).
"""

from __future__ import annotations

from warpwright.isa.nv50.attributes import interface, parameter
from warpwright.isa.nv50.condition_registers import CARRY, OVERFLOW, SIGN, ZERO, Flags, read
from warpwright.isa.nv50.emitter import FIRST_ADDRESS_REGISTER, Nv50Emitter, address, for_lanes, get, unsupported
from warpwright.isa.nv50.launch_words import header_bytes
from warpwright.isa.nv50.meaning import SIZES, meaning, put, shared, source
from warpwright.isa.ops import Access, Value
from warpwright.isa.program import Instruction, Operand

OPERATIONS = {"inc": "inc", "dec": "dec", "and": "and", "or": "or", "xor": "xor", "exch": "exch", "cas": "cas"}


@meaning("mov", "hmov")
def mov(i: Instruction, b: Nv50Emitter) -> None:
    d, o = i.operands
    put(b, d, for_lanes(b, i, d, source(b, o, 16 if i.opcode == "hmov" else 32)))


@meaning("mov_from_a")
def mov_from_a(i: Instruction, b: Nv50Emitter) -> None:
    d, a = i.operands
    put(b, d, get(b, FIRST_ADDRESS_REGISTER + a.index) if a.index else b.const(0))


@meaning("shl_to_a")
def shl_to_a(i: Instruction, b: Nv50Emitter) -> None:
    d, o, n = i.operands
    _set_address(b, d, b.shl(source(b, o), b.const(n.value)))


@meaning("add_a")
def add_a(i: Instruction, b: Nv50Emitter) -> None:
    d, a, n = i.operands
    _set_address(b, d, b.add(get(b, FIRST_ADDRESS_REGISTER + a.index) if a.index else b.const(0), b.const(n.value)))


def _set_address(b: Nv50Emitter, d: Operand, value: Value) -> None:
    if d.index:
        b.op("set_reg", "void", b.and_(value, b.const(0xFFFF)), attr=FIRST_ADDRESS_REGISTER + d.index)


@meaning("mov_from_c")
def mov_from_c(i: Instruction, b: Nv50Emitter) -> None:
    d, c = i.operands
    total = b.const(0)
    for n, test in enumerate((ZERO, SIGN, CARRY, OVERFLOW)):
        total = b.or_(total, b.shl(b.zext(read(b, c.index, test), "i32"), b.const(n)))
    put(b, d, total)


@meaning("mov_to_c")
def mov_to_c(i: Instruction, b: Nv50Emitter) -> None:
    c, o = i.operands
    x = source(b, o)
    bits = [b.icmp("ne", b.and_(x, b.const(1 << n)), b.const(0)) for n in range(4)]
    Flags(b, *bits).write(c.index, b.wanted)


@meaning("mov_from_sr")
def mov_from_sr(i: Instruction, b: Nv50Emitter) -> None:
    """``$physid``: lane, warp, SM of its TPC and TPC; ``$clock``."""
    d, o = i.operands
    if o.name == "clock":
        put(b, d, b.op("special", "i32", attr="clock_lo"))
        return
    if o.name == "vstride":
        interface(b, "$vstride")
        put(b, d, parameter(b, "vertices"))
        return
    if o.name != "physid":
        raise unsupported(f"special register ${o.name} has no meaning in a compute program")
    sm = b.op("special", "i32", attr="smid")
    place = b.or_(b.op("special", "i32", attr="laneid"), b.shl(b.op("special", "i32", attr="warpid"), b.const(8)))
    place = b.or_(place, b.shl(b.and_(sm, b.const(1)), b.const(16)))
    put(b, d, b.or_(place, b.shl(b.lshr(sm, b.const(1)), b.const(20))))


# --- loads and stores -----------------------------------------------------------------------------
def global_address(b: Nv50Emitter, o: Operand) -> Value:
    assert o.base is not None
    within = b.op("zext", "i64", get(b, o.base.index), attr="address")
    return b.add(within, b.const(b.window << 32, "i64"))


def kind_of(i: Instruction) -> str:
    return next(m for m in i.modifiers if m in SIZES)


def extended(b: Nv50Emitter, x: Value, type: str) -> Value:
    return b.sext(x, "i32") if type[0] == "s" else b.zext(x, "i32")


def load_to(b: Nv50Emitter, d: Operand, at: Value, space: str, type: str) -> None:
    size = SIZES[type]
    how = Access(space, size)
    if size <= 4:
        put(b, d, extended(b, b.op("load", f"i{8 * size}", at, attr=how), type))
        return
    words = b.op("load", f"i32x{size // 4}", at, attr=how)
    for n in range(size // 4):
        b.op("set_reg", "void", b.op("extract", "i32", words, attr=n), attr=d.index + n)


def store_from(b: Nv50Emitter, o: Operand, at: Value, space: str, type: str) -> None:
    size = SIZES[type]
    how = Access(space, size)
    if size > 4:
        words = [get(b, o.index + n) for n in range(size // 4)]
        b.op("store", "void", at, b.op(f"pack{size // 4}", f"i32x{size // 4}", *words), attr=how)
        return
    b.op("store", "void", at, b.trunc(source(b, o), f"i{8 * size}"), attr=how)


@meaning("ld_g", "ld_l")
def ld(i: Instruction, b: Nv50Emitter) -> None:
    d, o = i.operands
    at = global_address(b, o) if o.name == "g" else address(b, o)
    load_to(b, d, at, "global" if o.name == "g" else "local", kind_of(i))


@meaning("st_g", "st_l")
def st(i: Instruction, b: Nv50Emitter) -> None:
    o, data = i.operands
    at = global_address(b, o) if o.name == "g" else address(b, o)
    store_from(b, data, at, "global" if o.name == "g" else "local", kind_of(i))


@meaning("ld_s")
def ld_s(i: Instruction, b: Nv50Emitter) -> None:
    d, o = i.operands
    type = kind_of(i)
    put(b, d, extended(b, shared(b, _typed(o, type)), type))


def _typed(o: Operand, type: str) -> Operand:
    return Operand(o.kind, o.index, o.value, base=o.base, name=o.name, suffix=type, reuse=o.reuse)


@meaning("st_s")
def st_s(i: Instruction, b: Nv50Emitter) -> None:
    o, data = i.operands
    if o.base is None and o.value < header_bytes(b.parameter_bytes) and not o.reuse:
        raise unsupported("a store over the launch's own words of shared memory")
    store_from(b, data, address(b, o), "shared", kind_of(i))


@meaning("ld_c")
def ld_c(i: Instruction, b: Nv50Emitter) -> None:
    d, o = i.operands
    type = kind_of(i)
    put(b, d, extended(b, source(b, o, 8 * SIZES[type]), type))


# --- atomics --------------------------------------------------------------------------------------
def _atomic(i: Instruction, b: Nv50Emitter, place: Operand, data: list[Operand]) -> Value:
    type = next(m for m in i.modifiers if m in SIZES)
    name = next(m for m in i.modifiers if m not in SIZES and m not in ("red", "ld"))
    if SIZES[type] == 8:
        raise unsupported("atomics of 64 bits have no meaning yet")
    if name in ("min", "max"):
        name = ("s" if type[0] == "s" else "u") + name
    values = [source(b, o) for o in data]
    if name == "cas":
        values = values[1:] + values[:1]
    return b.op("atomic", "i32", global_address(b, place), *values, attr=Access("global", 4, operation=name))


@meaning("red_g")
def red(i: Instruction, b: Nv50Emitter) -> None:
    place, data = i.operands
    _atomic(i, b, place, [data])


@meaning("atomic_g")
def atomic(i: Instruction, b: Nv50Emitter) -> None:
    d, place, *data = i.operands
    put(b, d, _atomic(i, b, place, data))
