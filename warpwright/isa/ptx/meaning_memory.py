"""Loads, stores, atomics, fences and cache hints (PTX ISA, sections 9.7.9 and 9.7.13).

Global and generic addresses are i64; shared, local and kernel-parameter addresses are 32-bit offsets, whatever register
holds them.  ``.const`` is bank 3, kernel parameters are in bank 0; parameters of device functions and call arguments
are in the frame, in local memory.
"""

from __future__ import annotations

from warpwright.isa.mbarrier import change
from warpwright.isa.ops import Access, Value
from warpwright.isa.ptx.meaning import (
    Emitter,
    Storage,
    is_signed,
    meaning,
    only,
    pack_halves,
    type_of,
    unsupported,
)
from warpwright.isa.ptx.syntax import BITS, Address, Instruction, Operand, Register, Symbol, Vector

SPACES = {
    **{s: s for s in ("global", "shared", "local", "const", "param")},
    **{"shared::cta": "shared", "shared::cluster": "cluster", "param::entry": "param", "param::func": "param"},
}
"""State spaces of PTX by modifier; the ``cluster`` space is accessed by generic addresses."""
ORDERS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio")
SCOPES = ("cta", "gpu", "sys", "cluster")
CACHE = ("ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc")
VECTORS = {"v2": 2, "v4": 4, "v8": 8}
WORDS = {4: "i32", 8: "i32x2", 16: "i32x4"}


def is_hint(modifier: str) -> bool:
    """Whether a modifier is a cache level or eviction priority, which does not affect results."""
    return modifier.startswith(("L1::", "L2::")) or modifier == "unified"


def check(i: Instruction, *known: str) -> None:
    """Like ``only``, but also allows spaces, memory orders, scopes and hints."""
    hints = [m for m in i.modifiers if is_hint(m)]
    only(i, SPACES, ORDERS, SCOPES, CACHE, VECTORS, hints, known)


def space_of(i: Instruction) -> str:
    return next((SPACES[m] for m in i.modifiers if m in SPACES), "generic")


def is_strong(i: Instruction) -> bool:
    return any(m in i.modifiers for m in ORDERS if m != "weak") or "cv" in i.modifiers


def cache_of(i: Instruction) -> str:
    return next((m.upper() for m in i.modifiers if m in CACHE), "")


def locate(b: Emitter, o: Operand, space: str) -> tuple[str, Value]:
    """(space of the common operations or const0 and const3, address) of ``[…]``."""
    if isinstance(o, Register | Symbol):
        o = Address(o)
    if not isinstance(o, Address):
        raise unsupported("an operand that is not an address")
    storage: Storage | None = None
    if isinstance(o.base, Symbol):
        storage = b.context.symbols(o.base.name)
        o = Address(o.base, o.offset + o.base.offset)
    if space == "param":
        # A kernel's own parameters are constants; all others are in the frame.
        in_kernel = storage.space == "param" if storage is not None else b.context.stack is None
        space = "const0" if in_kernel else "local"
    elif space == "const":
        space = "const3"
    if storage is not None and space == "generic" and storage.space in ("shared", "local", "const", "param"):
        space = {"const": "const3", "param": "const0"}.get(storage.space, storage.space)
    if storage is not None and storage.space == "local":
        return space, b.frame(storage.offset + o.offset)
    if space == "cluster":
        return "generic", generic_of(b, b.trunc(shared_value(b, o), "i32"))
    wide = space in ("global", "generic")
    kind = "i64" if wide else "i32"
    if storage is not None:
        return space, b.const(storage.offset + o.offset, kind)
    if o.base is None:
        return space, b.const(o.offset, kind)
    assert isinstance(o.base, Register)
    _, type = b.lookup(o.base)
    value = b.source(o.base, f"b{BITS[type]}")
    value = b.zext(value, "i64") if wide else b.trunc(value, "i32") if BITS[type] == 64 else value
    return space, b.add(value, b.const(o.offset, kind)) if o.offset else value


def shared_value(b: Emitter, o: Address) -> Value:
    """The shared address (i64) that a register or a variable with a displacement names, its block's rank included."""
    if isinstance(o.base, Symbol):
        return b.address_of(Symbol(o.base.name, o.offset + o.base.offset))
    if o.base is None:
        return b.const(o.offset, "i64")
    _, type = b.lookup(o.base)
    value = b.zext(b.trunc(b.source(o.base, f"b{BITS[type]}"), "i32"), "i64")
    return b.add(value, b.const(o.offset, "i64")) if o.offset else value


def generic_of(b: Emitter, at: Value) -> Value:
    """The generic address (i64) of a shared address (i32) of any block of the cluster."""
    low, high = (b.op("special", "i32", attr=f"shared_window_{half}") for half in ("lo", "hi"))
    return b.add(b.zext(at, "i64"), b.op("pack64", "i64", low, high))


def shared(b: Emitter, o: Operand) -> Value:
    """A shared address (i32) with its block's rank, from ``[…]`` or a register."""
    if isinstance(o, Register | Symbol):
        o = Address(o)
    if not isinstance(o, Address):
        raise unsupported("an operand that is not an address")
    return b.trunc(shared_value(b, o), "i32")


def offset_by(b: Emitter, at: Value, count: int) -> Value:
    return b.add(at, b.like(count, at)) if count else at


CONSTANTS = "const3"
"""Constant variables, as a space."""


def read(b: Emitter, space: str, at: Value, size: int, how: Access | None = None, where: Value | None = None) -> Value:
    """``size`` bytes: i8, i16, i32, i32x2 (from a constant bank i64) or i32x4."""
    type = {1: "i8", 2: "i16", **WORDS}[size]
    if space.startswith("const"):
        type = "i64" if size == 8 else type
        return b.op("load_const", type, at, attr=(int(space[5:]), size))
    args = (at,) if where is None else (at, where)
    return b.op("load", type, *args, attr=how or Access(space, size))


def split_words(b: Emitter, value: Value) -> list[Value]:
    count = {"i32": 1, "i64": 2, "i32x2": 2, "i32x4": 4}[b.type_of(value)]
    return [value] if count == 1 else [b.op("extract", "i32", value, attr=n) for n in range(count)]


def elements_of(i: Instruction, registers: Operand) -> tuple[Operand, ...]:
    """The registers of a load or store: one, or as many as ``.v2`` or ``.v4`` specifies."""
    count = next((VECTORS[m] for m in i.modifiers if m in VECTORS), 1)
    items: tuple[Operand, ...] = registers.items if isinstance(registers, Vector) else (registers,)
    if len(items) != count:
        raise unsupported(f"{i.opcode} of {count} elements with {len(items)} registers")
    return items


@meaning("ld", "ldu")
def ld(i: Instruction, b: Emitter) -> None:
    check(i)
    type = type_of(i)
    d, o, *_ = i.operands
    items = elements_of(i, d)
    space, at = locate(b, o, space_of(i))
    if space == CONSTANTS and b.ops[at].name != "const":  # its time depends on the lanes' offsets
        b.op("touch", "void", at, attr=Access("constant", BITS[type] // 8))
    values = read_elements(b, i, space, at, BITS[type] // 8, len(items))
    if "acquire" in i.modifiers:
        b.op("fence", "void", attr="gpu")
    for item, value in zip(items, values, strict=True):
        if type == "b128":
            b.set_words(item, split_words(b, value))
        else:
            b.result(item, value, is_signed(type))


def read_elements(b: Emitter, i: Instruction, space: str, at: Value, size: int, count: int) -> list[Value]:
    """``count`` values of ``size`` bytes, in as few accesses as their alignment allows."""
    whole = size * count
    pieces = [16] * (whole // 16) if whole > 16 else [whole]
    strong = is_strong(i) and not space.startswith("const")
    loaded: list[Value] = []
    for n, piece in enumerate(pieces):
        how = Access(space, piece, strong, cache=cache_of(i), scope="block" if strong and "cta" in i.modifiers else "")
        loaded.append(read(b, space, offset_by(b, at, sum(pieces[:n])), piece, how))
    if size == 16:
        return loaded
    if whole < 4:
        return [loaded[0]] if count == 1 else parts(b, b.zext(loaded[0], "i32"), size, count)
    words = [w for value in loaded for w in split_words(b, value)]
    if size == 4:
        return words
    if size == 8:
        return [b.op("pack64", "i64", words[n], words[n + 1]) for n in range(0, len(words), 2)]
    return [part for word in words for part in parts(b, word, size, min(count, 4 // size))]


def parts(b: Emitter, word: Value, size: int, count: int) -> list[Value]:
    """Pieces of a word of ``size`` bytes each, lowest first."""
    return [b.trunc(b.lshr(word, b.const(8 * size * n)) if n else word, f"i{8 * size}") for n in range(count)]


@meaning("st")
def st(i: Instruction, b: Emitter) -> None:
    check(i, "async", "mbarrier::complete_tx::bytes")
    if "async" in i.modifiers:
        store_async(i, b)
        return
    type = type_of(i)
    o, d, *_ = i.operands
    items = elements_of(i, d)
    size = BITS[type] // 8
    space, at = locate(b, o, space_of(i))
    if space.startswith("const"):
        raise unsupported("a store to constant memory")
    if "release" in i.modifiers:
        b.op("fence", "void", attr="gpu")
    if size == 16:
        words = [w for item in items for w in b.words(item, 4)]
    else:
        values = [b.source(item, f"b{BITS[type]}") for item in items]
        if size == 8:
            words = [w for value in values for w in b.high_low(value)]
        elif size == 4:
            words = values
        else:
            write_small(b, i, space, at, size, values)
            return
    write_words(b, i, space, at, words)


def write_words(b: Emitter, i: Instruction, space: str, at: Value, words: list[Value]) -> None:
    """1, 2, 4 or 8 words."""
    done = 0
    while done < len(words):
        count = min(4, len(words) - done)
        group = words[done : done + count]
        value = group[0] if count == 1 else b.op("pack2" if count == 2 else "pack4", WORDS[4 * count], *group)
        how = Access(space, 4 * count, is_strong(i), cache=cache_of(i))
        b.op("store", "void", offset_by(b, at, 4 * done), value, attr=how)
        done += count


def write_small(b: Emitter, i: Instruction, space: str, at: Value, size: int, values: list[Value]) -> None:
    """Elements of 1 or 2 bytes, packed into one access."""
    whole = size * len(values)
    if len(values) == 1:
        b.op("store", "void", at, values[0], attr=Access(space, size, is_strong(i), cache=cache_of(i)))
        return
    words: list[Value] = []
    each = min(4, whole) // size
    for first in range(0, len(values), each):
        word = b.zext(values[first], "i32")
        for n in range(1, each):
            word = b.or_(word, b.shl(b.zext(values[first + n], "i32"), b.const(8 * size * n)))
        words.append(word)
    if whole == 2:
        b.op("store", "void", at, b.trunc(words[0], "i16"), attr=Access(space, 2, is_strong(i), cache=cache_of(i)))
    else:
        write_words(b, i, space, at, words)


# --- atomics --------------------------------------------------------------------------------------
OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")


@meaning("atom", "red")
def atom(i: Instruction, b: Emitter) -> None:
    check(i, "noftz", "async", "mbarrier::complete_tx::bytes", *OPERATIONS)
    if "async" in i.modifiers:
        reduce_async(i, b)
        return
    type = type_of(i)
    operands = list(i.operands)
    d = operands.pop(0) if i.opcode == "atom" else None
    o, *values = operands
    name = next(m for m in i.modifiers if m in OPERATIONS)
    space, at = locate(b, o, space_of(i))
    if space not in ("global", "generic", "shared"):
        raise unsupported(f"an atomic operation on {space} memory")
    if any(m in i.modifiers for m in ("release", "acq_rel")):
        b.op("fence", "void", attr="gpu")
    if any(m in i.modifiers for m in VECTORS):
        vector_atomic(b, space, at, name, type, d, values[0])
        return
    if BITS[type] == 16:
        old = half_atomic(b, space, at, name, type, values)
    else:
        old = word_atomic(b, space, at, name, type, values)
    if d is not None and type == "b128":
        b.set_words(d, split_words(b, old))
    elif d is not None:
        b.result(d, old)


def vector_atomic(b: Emitter, space: str, at: Value, name: str, type: str, d: Operand | None, values: Operand) -> None:
    """``.v2`` to ``.v8``: each word is atomic separately; two 16-bit elements share a word."""
    if not isinstance(values, Vector) or not (d is None or isinstance(d, Vector)):
        raise unsupported("a vector atomic without vectors")
    paired = type in ("f16", "bf16")
    elements = [b.source(o, "b16" if paired else "b32") for o in values.items]
    words = elements
    if paired:
        words = [pack_halves(b, low, high) for low, high in zip(elements[::2], elements[1::2], strict=True)]
        type += "x2"
    operation, kind = operation_of(name, type, space)
    how = Access(space, 4, space != "shared", operation, kind)
    old = [b.op("atomic", "i32", b.add(at, b.like(4 * n, at)), word, attr=how) for n, word in enumerate(words)]
    if d is None:
        return
    if paired:
        old = [b.trunc(b.lshr(word, b.const(shift)), "i16") for word in old for shift in (0, 16)]
    for item, value in zip(d.items, old, strict=True):
        b.result(item, value)


def operation_of(name: str, type: str, space: str) -> tuple[str, str]:
    """Operation and type as ``Access`` names them."""
    operation, kind = name, f"i{BITS[type]}"
    if type in ("f32", "f64", "f16x2", "bf16x2"):
        kind = type
        if name == "add":
            operation = "fadd" if type in ("f32", "f64") else f"fadd_{type}"
            if type == "f32" and space != "shared":  # PTX ISA, ``atom``: subnormals are flushed for global memory
                operation = "fadd_ftz"
            if type == "f64" and space == "shared":  # compiled code adds and uses compare-and-swap
                operation = "fadd_quiet"
        elif name in ("min", "max"):
            operation = f"f{name}"
    elif name in ("min", "max"):
        operation = ("s" if is_signed(type) else "u") + name
    return operation, kind


def word_atomic(b: Emitter, space: str, at: Value, name: str, type: str, values: list[Operand]) -> Value:
    bits = BITS[type]
    if bits not in (32, 64, 128):
        raise unsupported(f"an atomic operation of {bits} bits")
    operation, kind = operation_of(name, type, space)
    if bits == 128:
        inputs = [b.op("pack4", "i32x4", *b.words(o, 4)) for o in values]
    else:
        inputs = [b.source(o, f"b{bits}") for o in values]
    if name == "cas":
        inputs = [inputs[1], inputs[0]]
    how = Access(space, bits // 8, space != "shared", operation, kind)
    return b.op("atomic", "i32x4" if bits == 128 else f"i{bits}", at, *inputs, attr=how)


def half_atomic(b: Emitter, space: str, at: Value, name: str, type: str, values: list[Operand]) -> Value:
    """Addition or compare-and-swap of one half of a word; compiled code does it by compare-and-swap of the whole
    word."""
    if (name, type) not in (("add", "f16"), ("add", "bf16"), ("cas", "b16")):
        raise unsupported(f"atom.{name}.{type}")
    word = b.and_(at, b.like(-4, at))
    place = b.shl(b.and_(at if b.type_of(at) == "i32" else b.trunc(at, "i32"), b.const(2)), b.const(3))
    halves = [b.zext(b.source(o, "b16"), "i32") for o in values]
    if name == "cas":
        compare, new = halves
        operand, operation, kind = b.or_(new, b.shl(compare, b.const(16))), "cas_half", "i32"
    else:
        operand, operation, kind = halves[0], "fadd_half", type
    old = b.op("atomic", "i32", word, operand, place, attr=Access(space, 4, space != "shared", operation, kind))
    return b.trunc(b.lshr(old, place), "i16")


def store_async(i: Instruction, b: Emitter) -> None:
    """st.async: a store to a block of the cluster that signals its bytes to an mbarrier."""
    o, value, barrier = i.operands
    type = type_of(i)
    items: tuple[Operand, ...] = value.items if isinstance(value, Vector) else (value,)
    values = [b.source(item, f"b{BITS[type]}") for item in items]
    parts = values if BITS[type] == 32 else [w for v in values for w in b.high_low(v)]
    write_words(b, i, "generic", generic_of(b, shared(b, o)), parts)
    change(b, "generic", generic_of(b, shared(b, barrier)), None, b.const(-4 * len(parts), "i64"))


def reduce_async(i: Instruction, b: Emitter) -> None:
    """red.async: as st.async, with an atomic operation."""
    o, value, barrier = i.operands
    type = type_of(i)
    size = BITS[type] // 8
    operation, kind = operation_of(next(m for m in i.modifiers if m in OPERATIONS), type, "shared")
    how = Access("generic", size, True, operation, kind)
    b.op("atomic", f"i{8 * size}", generic_of(b, shared(b, o)), b.source(value, f"b{8 * size}"), attr=how)
    change(b, "generic", generic_of(b, shared(b, barrier)), None, b.const(-size, "i64"))


# --- fences and hints -----------------------------------------------------------------------------
@meaning("membar", "fence")
def fence(i: Instruction, b: Emitter) -> None:
    known = ("gl", "proxy", "alias", "async", "mbarrier_init", "tensormap::generic", "sync_restrict::shared::cta")
    check(i, "acquire", "release", "async.global", *known)
    scope = "cta" if "cta" in i.modifiers else "sys" if "sys" in i.modifiers else "gpu"
    b.op("fence", "void", attr=scope)


@meaning("prefetch", "prefetchu", "applypriority", "discard", "pmevent", "nop", "setmaxnreg", "brkpt")
def hint(i: Instruction, b: Emitter) -> None:
    """A hint, which does not affect results."""


@meaning("griddepcontrol")
def griddepcontrol(i: Instruction, b: Emitter) -> None:
    """Without timing, launches run one after the other, so the grids that this one depends on have already ended."""
    b.op("nanosleep", "void", b.const(0), attr="grid")


@meaning("createpolicy")
def createpolicy(i: Instruction, b: Emitter) -> None:
    """A cache policy is a hint; its register holds zero."""
    b.result(i.operands[0], b.const(0, "i64"))
