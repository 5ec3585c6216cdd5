"""Selects instructions for moves, constants, memory and atomics."""

from __future__ import annotations

from collections.abc import Callable

from warpwright.isa.nv50.assembler.select_integer import add, logic, shift
from warpwright.isa.nv50.assembler.selector import Const, Selector, Value, Word, refuse, select
from warpwright.isa.nv50.assembler.virtual_instructions import wide, word
from warpwright.isa.nv50.fields import Token
from warpwright.isa.nv50.launch_words import PARAMETERS_AT
from warpwright.isa.ops import Access, Op
from warpwright.isa.program import Kind, Operand
from warpwright.isa.ptx.meaning import Place

GLOBAL_SPACE = 14
"""The generic space, in which CUDA maps all of the device's memory."""
BITS = {1: "i8", 2: "i16", 4: "i32"}


# --- registers and structure ----------------------------------------------------------------------
@select("const")
def const(s: Selector, op: Op) -> Value:
    if isinstance(op.attr, Place):
        number = s.labels.setdefault(op.attr, len(s.labels) + 1)
        return (Const(number), Const(0)) if op.type == "i64" else Const(number)
    if not isinstance(op.attr, int):
        raise refuse("an address that is not known")
    if op.type == "f64" and op.attr:
        raise refuse("double precision needs compute capability 1.3")
    if op.type in ("i64", "f64"):
        return Const(op.attr & 0xFFFFFFFF), Const(op.attr >> 32)
    return Const(0xFFFFFFFF if op.type == "i1" and op.attr else op.attr)


@select("get_reg")
def get_reg(s: Selector, op: Op) -> Value:
    return _get(s, s.register(op.attr))


def _get(s: Selector, number: int) -> Word:
    return s.known.get(number, number)


@select("get_reg64")
def get_reg64(s: Selector, op: Op) -> Value:
    return _get(s, s.register(op.attr)), _get(s, s.register(op.attr + 1))


@select("get_pred")
def get_pred(s: Selector, op: Op) -> Value:
    return _get(s, s.predicate(op.attr))


def _set(s: Selector, number: int, value: Word) -> None:
    """Write a register whose old value may still be needed by later operations of the step."""
    held = [n for n, v in s.values.items() if v == number or (isinstance(v, tuple) and number in v)]
    if held:
        copy = s.result("mov", ("mov", "b32"), word(number))
        for n in held:
            v = s.values[n]
            s.values[n] = tuple(copy if w == number else w for w in v) if isinstance(v, tuple) else copy
        value = copy if value == number else value
    s.write(number, value)


@select("set_reg")
def set_reg(s: Selector, op: Op, value: Value) -> None:
    _set(s, s.register(op.attr), s.raw(value))


@select("set_reg64")
def set_reg64(s: Selector, op: Op, value: Value) -> None:
    low, high = s.pair(value)
    # Read both words before writing either.
    first, second = s.register(op.attr), s.register(op.attr + 1)
    if high == first:
        high = s.result("mov", ("mov", "b32"), word(first))
    _set(s, first, low)
    _set(s, second, high)


@select("set_pred")
def set_pred(s: Selector, op: Op, value: Value) -> None:
    _set(s, s.predicate(op.attr), s.raw(value))


@select("get_barrier")
def get_barrier(s: Selector, op: Op) -> Value:
    return Const(0)


@select("set_barrier", "touch", "gathers", "named", "aligned", "warpsync", "yield", "nanosleep")
def nothing(s: Selector, op: Op, *values: Value) -> None:
    """Nothing to do: lanes of a warp run in lockstep and reconverge by the warp's stack."""


@select("fence")
def fence(s: Selector, op: Op) -> None:
    """A thread's accesses stay in order; the instruction only marks the position."""
    s.emit("nop", "nop")


@select("select")
def select_(s: Selector, op: Op, condition: Value, x: Value, y: Value) -> Value:
    if isinstance(x, tuple) and isinstance(y, tuple):
        return tuple(s.choose(condition, a, b) for a, b in zip(x, y, strict=True))
    return s.choose(condition, x, y)


@select("bitcast")
def bitcast(s: Selector, op: Op, x: Value) -> Value:
    if op.type in ("i32", "i16"):
        return s.raw(x)
    return x


@select("pack64", "pack2", "pack4")
def pack(s: Selector, op: Op, *words: Value) -> Value:
    return tuple(s.raw(w) for w in words)


@select("extract")
def extract(s: Selector, op: Op, x: Value) -> Value:
    assert isinstance(x, tuple)
    return x[op.attr]


# --- launch values -------------------------------------------------------------------------
HEADER = {"ntid.x": 0x2, "ntid.y": 0x4, "ntid.z": 0x6, "nctaid.x": 0x8, "nctaid.y": 0xA, "ctaid.x": 0xC, "ctaid.y": 0xE}
FIXED = {"ctaid.z": 0, "nctaid.z": 1, "gridid": 0, "nwarpid": 24}


@select("special")
def special(s: Selector, op: Op) -> Value:
    name = op.attr
    if name in HEADER:
        found = s.result("mov", ("mov", "b32"), Operand(Kind.MEMORY, value=HEADER[name], name="s", suffix="u16"))
        s.short.add(found)
        return found
    if name in FIXED:
        return Const(FIXED[name])
    if name == "tid.x":
        return logic(s, "and", s.position, Const(0xFFFF))
    if name == "tid.y":
        return logic(s, "and", shift(s, "u32", s.position, Const(16)), Const(0x3FF))
    if name == "tid.z":
        return shift(s, "u32", s.position, Const(26))
    if name == "barrier_result":
        return s.barrier_result
    if name in ("clock_lo",):
        return s.result("mov_from_sr", ("mov",), Operand(Kind.SPECIAL, 1, name="clock"))
    if name in ("laneid", "warpid", "smid") or name.startswith("lanemask"):
        return _place(s, name)
    raise refuse(f"special register {name}")


def _place(s: Selector, name: str) -> Word:
    """Lane, warp and SM numbers from ``$physid``."""
    place = s.result("mov_from_sr", ("mov",), Operand(Kind.SPECIAL, 0, name="physid"))
    if name == "warpid":
        return logic(s, "and", shift(s, "u32", place, Const(8)), Const(0xFF))
    if name == "smid":
        tpc = shift(s, "shl", logic(s, "and", shift(s, "u32", place, Const(20)), Const(15)), Const(1))
        return logic(s, "or", tpc, logic(s, "and", shift(s, "u32", place, Const(16)), Const(1)))
    lane = logic(s, "and", place, Const(31))
    if name == "laneid":
        return lane
    own = s.result("shl", ("shl", "b32"), s.src(Const(1)), s.src(lane))
    below = add(s, own, Const(0xFFFFFFFF))
    relation = name.removeprefix("lanemask_")
    if relation == "eq":
        return own
    if relation == "lt":
        return below
    if relation == "le":
        return logic(s, "or", below, own)
    upper = below if relation == "ge" else logic(s, "or", below, own)
    return logic(s, "xor", upper, Const(0xFFFFFFFF))


@select("load_const")
def load_const(s: Selector, op: Op, address: Value) -> Value:
    bank, size = op.attr
    at = s.raw(address)
    if bank == 3:
        return _words(s, op, size, lambda n, type: _user_constant(s, at, n, type))
    if bank != 0 or not isinstance(at, Const):
        raise refuse("constants that are addressed by registers, other than __constant__ variables")
    offset = at.bits - s.parameter_base
    if not 0 <= offset < s.header_bytes - PARAMETERS_AT:
        raise refuse("generic addresses of constant memory and of parameters need compute capability 2.0")
    return _words(s, op, size, lambda n, type: read_shared(s, Const(0), PARAMETERS_AT + offset + n, type))


def _words(s: Selector, op: Op, size: int, read: Callable[[int, str], Word]) -> Value:
    """A value of ``size`` bytes, read in words of at most four bytes."""
    if size <= 4:
        return read(0, {1: "u8", 2: "u16", 4: "b32"}[size])
    return tuple(read(n, "b32") for n in range(0, size, 4))


def _user_constant(s: Selector, at: Word, n: int, type: str) -> Word:
    if isinstance(at, Const):
        place = Operand(Kind.CONSTANT, 0, at.bits + n, name="c")
    else:
        place = Operand(Kind.CONSTANT, 0, n, base=s.address_of(at), name="c")
    return s.result("ld_c", ("ld",), type, place)


def read_shared(s: Selector, base: Word, offset: int, type: str) -> Word:
    """Read a shared operand: nearby addresses directly, others through an address register."""
    scale = {"u8": 1, "u16": 2, "b32": 4}[type]
    if offset % scale or offset >= 32 * scale:
        base, offset = add(s, base, Const(offset)), 0
    found = s.raw(base)
    a = None
    if isinstance(found, Const) and (found.bits + offset) % scale == 0 and found.bits + offset < 32 * scale:
        offset += found.bits
    else:
        a = s.address_of(found)
    place = Operand(Kind.MEMORY, value=offset, base=a, name="s", suffix=type)
    made = s.new()
    s.emit("mov", "mov", "b32", word(made), place, guarded=True)
    return made


# --- memory ---------------------------------------------------------------------------------------
def split_address(s: Selector, op: Op) -> tuple[Word, int]:
    """Split an address into a base and a constant offset, if it is such a sum."""
    address = s.values[op.args[0]]
    low = s.raw(address[0] if isinstance(address, tuple) else address)
    made = s.ops[op.args[0]]
    if made.name == "add" and not isinstance(low, Const):
        offset = s.values[made.args[1]]
        offset = offset[0] if isinstance(offset, tuple) else offset
        base = s.values[made.args[0]]
        base = base[0] if isinstance(base, tuple) else base
        if isinstance(offset, Const) and offset.bits < 0x4000:
            return s.raw(base), offset.bits
    return low, 0


TYPES = {1: "u8", 2: "u16", 4: "b32", 8: "b64", 16: "b128"}


@select("load")
def load(s: Selector, op: Op, address: Value, *condition: Value) -> Value:
    how: Access = op.attr
    if condition or how.operation:
        raise refuse(f"a load of the kind {how.operation or 'conditional'}")
    if how.space == "shared":
        base, offset = split_address(s, op)
        if how.bytes <= 4:
            return read_shared(s, base, offset, TYPES[how.bytes])
        return tuple(read_shared(s, base, offset + n, "b32") for n in range(0, how.bytes, 4))
    place = _place_of(s, how, op)
    return _load(s, f"ld_{how.space[0]}", place, how.bytes)


def _place_of(s: Selector, how: Access, op: Op) -> Operand:
    if how.space == "local":
        base, offset = split_address(s, op)
        if isinstance(base, Const):
            return Operand(Kind.MEMORY, value=base.bits + offset, name="l")
        return Operand(Kind.MEMORY, value=offset, base=s.address_of(base), name="l")
    if how.space != "global":
        raise refuse("generic addresses need compute capability 2.0; the compiler could not determine the memory space")
    address = s.values[op.args[0]]
    low = address[0] if isinstance(address, tuple) else address
    return Operand(Kind.MEMORY, GLOBAL_SPACE, base=s.src(low), name="g")


def _load(s: Selector, opcode: str, place: Operand, size: int) -> Value:
    count = max(1, size // 4)
    d = s.new(count)
    s.emit(opcode, "ld", TYPES[size], wide(d, count), place, guarded=True)
    return d if count == 1 else tuple(s.result("mov", ("mov", "b32"), word(d, n)) for n in range(count))


@select("store")
def store(s: Selector, op: Op, address: Value, value: Value) -> None:
    how: Access = op.attr
    words = value if isinstance(value, tuple) else (value,)
    if how.space == "shared":
        base, offset = split_address(s, op)
        for n, w in enumerate(words):
            store_shared(s, base, offset + 4 * n, min(how.bytes, 4), s.reg(w))
        return
    if how.space == "local" and isinstance(s.ops[op.args[1]].attr, Place):
        return  # a return address, which is on the warp's stack
    place = _place_of(s, how, op)
    opcode = f"st_{how.space[0]}"
    if len(words) == 1:
        s.emit(opcode, "st", TYPES[how.bytes], place, s.src(words[0]), guarded=True)
        return
    d = s.new(len(words))
    for n, w in enumerate(words):
        s.emit("mov", "mov", "b32", word(d, n), s.src_or_imm(w))
    s.emit(opcode, "st", TYPES[how.bytes], place, wide(d, len(words)), guarded=True)


def store_shared(s: Selector, base: Word, offset: int, size: int, value: int) -> None:
    """Store a register's lower bytes to shared memory."""
    found = s.raw(base)
    if isinstance(found, Const):
        place = Operand(Kind.MEMORY, value=found.bits + offset, name="s")
    elif offset % size:
        place = Operand(Kind.MEMORY, base=s.address_of(add(s, found, Const(offset))), name="s")
    else:
        place = Operand(Kind.MEMORY, value=offset, base=s.address_of(found), name="s")
    s.emit("st_s", "st", f"b{8 * size}", place, word(value), guarded=True)


# --- atomics --------------------------------------------------------------------------------------
ATOMICS = {
    **{
        "add": ("add", "u32"),
        "umin": ("min", "u32"),
        "smin": ("min", "s32"),
        "umax": ("max", "u32"),
        "smax": ("max", "s32"),
    },
    **{"inc": ("inc", "u32"), "dec": ("dec", "u32"), "and": ("and", "b32"), "or": ("or", "b32"), "xor": ("xor", "b32")},
    **{"exch": ("exch", "b32"), "cas": ("cas", "b32")},
}
EXCHANGES = ("exch", "cas")


def _later_atomic(how: Access) -> str:
    """The compute capability that an atomic on global memory needs beyond 1.1 (CUDA C Programming Guide 3.2, table
    G-1)."""
    if how.bytes == 4 and how.operation.startswith("f"):
        return "atomic sums of f32 need compute capability 2.0"
    if how.bytes == 8 and how.operation in ("add", *EXCHANGES):
        return "atomics of 64 bits on global memory need compute capability 1.2"
    return f"the atomic operation {how.operation} of {8 * how.bytes} bits needs a compute capability after 1.3"


@select("atomic")
def atomic(s: Selector, op: Op, address: Value, operand: Value, *rest: Value) -> Value:
    how: Access = op.attr
    if how.space == "shared":
        raise refuse("atomics on shared memory need compute capability 1.2")
    if how.space != "global":
        raise refuse("generic addresses need compute capability 2.0")
    if s.arch < 11:
        raise refuse("atomics on global memory need compute capability 1.1")
    if how.bytes != 4 or how.operation not in ATOMICS or how.type not in ("i32", "f32"):
        raise refuse(_later_atomic(how))
    name, type = ATOMICS[how.operation]
    place = _place_of(s, how, op)
    data: list[Token] = [s.src(operand)]
    if name == "cas":
        data = [s.src(rest[0]), *data]
    words = (name, type) if name in EXCHANGES else ("ld", name, type)
    d = s.new()
    s.emit("atomic_g", *words, word(d), place, *data, guarded=True)
    return d
