"""Loads, stores, atomics, constant loads, asynchronous copies, fences.

Addresses: global and generic are 64-bit (a register pair, ``.U32`` widens one register,
plus a uniform pair, plus a displacement); shared and local are 32-bit offsets.  On sm_90 a
shared address is formed as ``(cluster CTA id << 24) + offset`` with offsets from 0x400, because the first KiB is
reserved for the system.  Offsets are used unchanged, so a block's shared memory begins at 0 on every chip and is 1 KiB
longer on sm_90. Values of atomics are raw bits (i32 or i64), whatever their arithmetic type.
"""

from __future__ import annotations

from warpwright.isa.ops import SHARED_RANK_SHIFT, Access, Value
from warpwright.isa.program import RZ, Instruction, Kind, Operand
from warpwright.isa.sass.meaning import (
    MEANINGS,
    Emitter,
    constant,
    constant_offset,
    is_predicate,
    is_true,
    is_zero,
    meaning,
    only,
    predicate,
    raw32,
    set32,
    set_predicate,
    set_words,
    src64,
    unsupported,
)

SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16}
SCOPES = ("CTA", "SM", "GPU", "SYS", "CLUSTER")
CACHE = ("EF", "EL", "LU", "EU", "NA", "BYPASS", "ACCESS", "LTC64B", "LTC128B", "LTC256B", "CONSTANT", "PRIVATE")
IGNORED = ("E", "U", "WEAK", "STRONG", "MMIO", "SPIN", *SCOPES, *CACHE)


def address(b: Emitter, o: Operand, wide: bool) -> Value:
    """The address of a memory operand: i64 (global, generic) or i32 (shared, local)."""
    if o.kind is not Kind.MEMORY:
        raise unsupported(f"operand of kind {o.kind.value} as an address")
    parts: list[Value] = []
    base = o.base
    if base is not None and not is_zero(base):
        suffix = base.suffix.replace(".reuse", "")
        scale = {"": 0, ".64": 0, ".U32": 0, ".32": 0, ".X4": 2, ".X8": 3, ".X16": 4}.get(suffix)
        if scale is None:
            raise unsupported(f"address register suffix {suffix}")
        if wide and suffix not in (".U32", ".32"):
            parts.append(src64(b, Operand(base.kind, base.index)))
        elif wide:
            widen = b.zext if suffix == ".U32" else b.sext
            parts.append(widen(raw32(b, base), "i64"))
        else:
            value = raw32(b, base)
            parts.append(b.shl(value, b.const(scale)) if scale else value)
    uniform = o.uniform
    if uniform is not None and not is_zero(uniform):
        if wide:
            parts.append(src64(b, Operand(uniform.kind, uniform.index)))
        else:
            parts.append(raw32(b, uniform))
    if o.value or not parts:
        parts.append(b.const(o.value, "i64" if wide else "i32"))
    total = parts[0]
    for part in parts[1:]:
        total = b.add(total, part)
    return total


def access(i: Instruction, space: str, size: int, operation: str = "", type: str = "i32") -> Access:
    cache = next((m for m in i.modifiers if m in CACHE), "")
    strong = "STRONG" in i.modifiers or "MMIO" in i.modifiers or (bool(operation) and space != "shared")
    scope = "block" if strong and not operation and not {"CTA", "SM"}.isdisjoint(i.modifiers) else ""
    return Access(space, size, strong, operation, type, cache, scope)


WORDS = {4: "i32", 8: "i32x2", 16: "i32x4"}


def size_of(i: Instruction) -> tuple[int, bool]:
    """Bytes per lane and whether they are sign-extended."""
    for m in i.modifiers:
        if m in SIZES:
            return SIZES[m], m.startswith("S")
    return 4, False


def load(b: Emitter, i: Instruction, space: str, d: Operand, at: Value) -> None:
    size, signed = size_of(i)
    how = access(i, space, size)
    if size < 4:
        value = b.op("load", "i8" if size == 1 else "i16", at, attr=how)
        set32(b, d, b.sext(value, "i32") if signed else b.zext(value, "i32"))
    elif size == 8:
        set_words(b, d, b.op("load", "i32x2", at, attr=how))
    else:
        set_words(b, d, b.op("load", WORDS[size], at, attr=how))


def words(b: Emitter, o: Operand, size: int) -> Value:
    """The value that a store of ``size`` bytes reads from consecutive registers."""
    if size < 4:
        return b.trunc(raw32(b, o), "i8" if size == 1 else "i16")
    if size == 4:
        return raw32(b, o)
    if is_zero(o):
        parts = [b.const(0)] * (size // 4)
    else:
        parts = [raw32(b, o, n) for n in range(size // 4)]
    return b.op("pack2" if size == 8 else "pack4", WORDS[size], *parts)


SPACES = {
    "LDG": "global",
    "STG": "global",
    "LD": "generic",
    "ST": "generic",
    "LDS": "shared",
    "STS": "shared",
    "LDL": "local",
    "STL": "local",
    "ATOM": "generic",
    "ATOMG": "global",
    "ATOMS": "shared",
    "RED": "global",
    "REDG": "global",
}


@meaning("LDG", "LD", "LDS", "LDL")
def LD(i: Instruction, b: Emitter) -> None:
    only(i, *SIZES, *IGNORED)
    space = SPACES[i.opcode]
    registers = [o for o in i.operands if o.kind is Kind.REGISTER]
    memory = next(o for o in i.operands if o.kind is Kind.MEMORY)
    if any(is_predicate(o) and o.index != 7 for o in i.operands):
        raise unsupported(f"{i.opcode} with a predicate operand")
    load(b, i, space, registers[0], address(b, memory, space in ("global", "generic")))


@meaning("STG", "ST", "STS", "STL")
def ST(i: Instruction, b: Emitter) -> None:
    only(i, *SIZES, *IGNORED)
    space = SPACES[i.opcode]
    memory, value = i.operands[0], i.operands[1]
    size, _ = size_of(i)
    at = address(b, memory, space in ("global", "generic"))
    b.op("store", "void", at, words(b, value, size), attr=access(i, space, size))


@meaning("LDC", "ULDC")
def LDC(i: Instruction, b: Emitter) -> None:
    only(i, *SIZES)
    d, source = i.operands
    size, signed = size_of(i)
    if source.base is not None and not is_zero(source.base):
        b.op("touch", "void", constant_offset(b, source), attr=Access("constant", size))
    if size < 4:
        value = constant(b, source, "i8" if size == 1 else "i16")
        set32(b, d, b.sext(value, "i32") if signed else b.zext(value, "i32"))
    else:
        set_words(b, d, constant(b, source, {4: "i32", 8: "i64", 16: "i32x4"}[size]))


OPERATIONS = ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "CAS", "CAST", "POPC")
ATOMIC_TYPES = {
    "32": ("i32", False),
    "U32": ("i32", False),
    "S32": ("i32", True),
    "64": ("i64", False),
    "U64": ("i64", False),
    "S64": ("i64", True),
    "F32": ("f32", True),
    "F64": ("f64", True),
    "F16x2": ("f16x2", True),
    "BF16x2": ("bf16x2", True),
    "BF16_V2": ("bf16x2", True),
    "128": ("i128", False),
}
ATOMIC_BYTES = {"i64": 8, "f64": 8, "i128": 16}


VECTOR_ATOMICS = {
    **{"F32x2": ("f32", 2), "F32x4": ("f32", 4)},
    **{f"{name}x{n}": (f"{name.lower()}x2", n // 2) for name in ("F16", "BF16") for n in (4, 8)},
}
"""Vector atomics of sm_90: type and number of words; each word is atomic separately."""


def vector_atomic(i: Instruction, b: Emitter, type: str, words: int) -> None:
    """ADD, MIN or MAX of consecutive words."""
    only(i, "ADD", "MIN", "MAX", *VECTOR_ATOMICS, *IGNORED, "FTZ", "RN")
    operands = [o for o in i.operands if not is_predicate(o)]
    d = operands.pop(0) if not i.opcode.startswith("RED") else None
    memory, data = operands
    space = SPACES[i.opcode]
    at = address(b, memory, space != "shared")
    if "ADD" in i.modifiers:
        operation = f"fadd_{type}" if type != "f32" else "fadd_ftz" if "FTZ" in i.modifiers else "fadd"
    else:
        operation = "fmin" if "MIN" in i.modifiers else "fmax"
    values = [raw32(b, data, n) for n in range(words)]
    how = access(i, space, 4, operation, type)
    old = [b.op("atomic", "i32", b.add(at, b.const(4 * n, "i64")), value, attr=how) for n, value in enumerate(values)]
    for n, value in enumerate(old):
        if d is not None and d.index != RZ:
            set32(b, Operand(d.kind, d.index + n), value)


def atomic(i: Instruction) -> tuple[str, str, int]:
    """Operation (as ``Access`` names it), type and bytes."""
    name = next((m for m in i.modifiers if m in OPERATIONS), "")
    printed = next((m for m in i.modifiers if m in ATOMIC_TYPES), "U32")
    type, signed = ATOMIC_TYPES[printed]
    size = ATOMIC_BYTES.get(type, 4)
    floating = type not in ("i32", "i64", "i128")
    if name == "ADD":
        flushes = "FTZ" in i.modifiers and SPACES[i.opcode] != "shared"
        operation = {
            "f32": "fadd_ftz" if flushes else "fadd",
            "f64": "fadd",
            "f16x2": "fadd_f16x2",
            "bf16x2": "fadd_bf16x2",
        }.get(type, "add")
    elif name in ("MIN", "MAX"):
        operation = ("f" if floating else "s" if signed else "u") + name.lower()
    else:
        operation = name.lower()
    if not operation:
        raise unsupported("an atomic without an operation")
    return operation, type, size


def atomic_value(b: Emitter, o: Operand, size: int) -> Value:
    return raw32(b, o) if size == 4 else src64(b, o) if size == 8 else words(b, o, size)


@meaning("ATOM", "ATOMG", "ATOMS", "RED", "REDG")
def ATOM(i: Instruction, b: Emitter) -> None:
    if "ARRIVE" in i.modifiers:  # sm_80's mbarriers: meaning_mbarrier
        MEANINGS["ARRIVES"](i, b)
        return
    for name, (kind, count) in VECTOR_ATOMICS.items():
        if name in i.modifiers:
            vector_atomic(i, b, kind, count)
            return
    only(i, *OPERATIONS, *ATOMIC_TYPES, *IGNORED, "FTZ", "RN")
    space = SPACES[i.opcode]
    operation, type, size = atomic(i)
    operands = list(i.operands)
    d: Operand | None = None
    done: Operand | None = None
    if not i.opcode.startswith("RED"):
        if is_predicate(operands[0]):
            done = operands.pop(0)
        d = operands.pop(0)
    memory, *sources = operands
    if any(is_predicate(o) and o.index != 7 for o in sources):
        raise unsupported(f"{i.opcode} with a predicate operand")
    sources = [o for o in sources if not is_predicate(o)]
    at = address(b, memory, space != "shared")
    result_type = {4: "i32", 8: "i64", 16: "i32x4"}[size]
    if operation == "popc":  # each lane adds one
        old = b.op("atomic", "i32", at, b.const(1), attr=access(i, space, 4, "add"))
        if d is not None and not is_zero(d):
            set32(b, d, old)
        return
    if operation == "cast":
        compare, value = (atomic_value(b, o, size) for o in sources[:2])
        assert d is not None
        if space == "shared" and "SPIN" in i.modifiers:
            done_here = b.op("atomic", result_type, at, value, compare, attr=access(i, space, size, "cast", type))
        else:
            old = b.op("atomic", result_type, at, value, compare, attr=access(i, space, size, "cas", type))
            done_here = b.zext(b.icmp("eq", old, compare), result_type)
        set_words(b, d, done_here)
        return
    if operation == "cas":
        if len(sources) == 1:  # the register pair (or quad) holds the comparand, then the value
            sources = [sources[0], Operand(sources[0].kind, sources[0].index + size // 4)]
        compare, value = (atomic_value(b, o, size) for o in sources[:2])
        old = b.op("atomic", result_type, at, value, compare, attr=access(i, space, size, "cas", type))
    else:
        value = atomic_value(b, sources[0], size)
        old = b.op("atomic", result_type, at, value, attr=access(i, space, size, operation, type))
    if d is not None and d.index != RZ:
        set_words(b, d, old)
    if done is not None:  # false makes the code work around a space without such an atomic
        set_predicate(b, done, b.const(1, "i1"))


@meaning("QSPC")
def QSPC(i: Instruction, b: Emitter) -> None:
    """Whether a generic address is in the shared (S; D: of any block of the cluster) or local (L) window, or in global memory (G)."""
    only(i, "E", "S", "D", "L", "G")
    p, d, memory = i.operands
    at = address(b, memory, True)
    shared, local = (
        b.icmp("ult", b.sub(at, window(b, space)), b.const(size, "i64"))
        for space, size in (("shared", 1 << 32 if b.arch >= 90 else 1 << 24), ("local", 1 << 24))
    )
    if "D" in i.modifiers or ("S" in i.modifiers and b.arch < 90):
        result = shared
    elif "S" in i.modifiers:
        rank = b.lshr(b.op("extract", "i32", at, attr=0), b.const(SHARED_RANK_SHIFT))
        result = b.and_(shared, b.icmp("eq", rank, b.op("special", "i32", attr="cluster_ctaid")))
    elif "L" in i.modifiers:
        result = local
    else:
        result = b.not_(b.or_(shared, local))
    set_predicate(b, p, result)
    set32(b, d, b.zext(result, "i32"))


def window(b: Emitter, space: str) -> Value:
    """First generic address of the shared or local window."""
    low, high = (b.op("special", "i32", attr=f"{space}_window_{half}") for half in ("lo", "hi"))
    return b.op("pack64", "i64", low, high)


@meaning("LDGSTS")
def LDGSTS(i: Instruction, b: Emitter) -> None:
    """Copy from global to shared memory; complete at once in the functional engine.

    With ZFILL only some leading bytes are copied and the rest is filled with zeros: no bytes if the predicate is false,
    otherwise 16 minus the low bits of the global address (the compiler adds ``-valid & 15`` to an aligned address).
    """
    only(i, *SIZES, *IGNORED, "ZFILL")
    to, source, *rest = i.operands
    size, _ = size_of(i)
    wanted = [predicate(b, o) for o in rest if is_predicate(o) and not is_true(o)]
    how = access(i, "global", size)
    at = address(b, source, True)
    if "ZFILL" not in i.modifiers:
        # A false predicate copies nothing and writes zeros (a source size of 0, which the compiler can distinguish from 16).
        value = b.op("load", WORDS[size], at, *wanted[:1], attr=how)
    else:
        value = filled(b, at, size, wanted[0] if wanted else b.const(1, "i1"), how)
    b.op("store", "void", address(b, to, False), value, attr=access(i, "shared", size))


def filled(b: Emitter, at: Value, size: int, wanted: Value, how: Access) -> Value:
    """A load of the leading bytes; complete elements by one access, others word by word."""
    skipped = b.trunc(b.and_(at, b.const(size - 1, "i64")), "i32")
    whole = b.icmp("eq", skipped, b.const(0))
    aligned = b.and_(at, b.const(-size, "i64"))
    all_words = b.op("load", WORDS[size], aligned, b.and_(wanted, whole), attr=how)
    partial = b.and_(wanted, b.not_(whole))
    present = b.sub(b.const(size), skipped)
    words = []
    for n in range(size // 4):
        here = b.and_(partial, b.icmp("ugt", present, b.const(4 * n)))
        place = b.add(aligned, b.const(4 * n, "i64"))
        word = b.op("load", "i32", place, here, attr=how._replace(bytes=4))
        bits = b.binary("umin", b.shl(b.sub(present, b.const(4 * n)), b.const(3)), b.const(32))
        mask = b.not_(b.shl(b.const(0xFFFFFFFF), bits))
        first = all_words if size == 4 else b.op("extract", "i32", all_words, attr=n)
        words.append(b.or_(first, b.and_(word, mask)))
    return words[0] if size == 4 else b.op("pack2" if size == 8 else "pack4", WORDS[size], *words)


@meaning("LDGDEPBAR")
def LDGDEPBAR(i: Instruction, b: Emitter) -> None:
    only(i)
    b.op("async_commit", "void", attr=0)


@meaning("LDSM")
def LDSM(i: Instruction, b: Emitter) -> None:
    """8x8 matrices of 16-bit elements: lane 8m + r addresses row r of matrix m."""
    only(i, "16", "M88", "MT88", "1", "2", "4")
    d, memory = i.operands
    count = next(int(m) for m in i.modifiers[::-1] if m in ("1", "2", "4")) if i.modifiers[-1] in ("2", "4") else 1
    at = address(b, memory, False)
    lane = b.op("special", "i32", attr="laneid")
    # The machine reads one row of 16 bytes for each lane that addresses one.
    names_row = b.icmp("ult", lane, b.const(8 * count))
    b.op("aligned", "void", at, names_row, attr=access(i, "shared", 16))
    b.op("touch", "void", at, names_row, attr=access(i, "shared", 16))
    row, column = b.lshr(lane, b.const(2)), b.and_(lane, b.const(3))
    results = []
    for matrix in range(count):
        if "MT88" not in i.modifiers:
            source = b.op("shuffle", "i32", at, b.add(row, b.const(8 * matrix)))
            place = b.add(source, b.shl(column, b.const(2)))
            results.append(b.op("load", "i32", place, attr=access(i, "shared", 4)))
        else:
            halves = []
            for half in range(2):
                which = b.add(b.shl(column, b.const(1)), b.const(8 * matrix + half))
                place = b.add(b.op("shuffle", "i32", at, which), b.shl(row, b.const(1)))
                halves.append(b.zext(b.op("load", "i16", place, attr=access(i, "shared", 2)), "i32"))
            results.append(b.or_(halves[0], b.shl(halves[1], b.const(16))))
    for n, value in enumerate(results):
        set32(b, Operand(d.kind, d.index + n), value)


@meaning("STSM")
def STSM(i: Instruction, b: Emitter) -> None:
    """Stores 8x8 matrices of 16-bit elements to shared memory, the reverse of LDSM: lane 8m + r addresses row r of
    matrix m."""
    only(i, "16", "M88", "MT88", "2", "4")
    memory, data = i.operands
    count = int(i.modifiers[-1]) if i.modifiers[-1] in ("2", "4") else 1
    at = address(b, memory, False)
    lane = b.op("special", "i32", attr="laneid")
    names_row = b.icmp("ult", lane, b.const(8 * count))
    b.op("aligned", "void", at, names_row, attr=access(i, "shared", 16))
    b.op("touch", "void", at, names_row, attr=access(i, "shared", 16))
    row, column = b.lshr(lane, b.const(2)), b.and_(lane, b.const(3))
    for matrix in range(count):
        word = raw32(b, data, matrix)
        if "MT88" not in i.modifiers:
            source = b.op("shuffle", "i32", at, b.add(row, b.const(8 * matrix)))
            b.op("store", "void", b.add(source, b.shl(column, b.const(2))), word, attr=access(i, "shared", 4))
            continue
        for half in range(2):
            which = b.add(b.shl(column, b.const(1)), b.const(8 * matrix + half))
            place = b.add(b.op("shuffle", "i32", at, which), b.shl(row, b.const(1)))
            element = b.trunc(b.lshr(word, b.const(16 * half)), "i16")
            b.op("store", "void", place, element, attr=access(i, "shared", 2))


@meaning("MEMBAR")
def MEMBAR(i: Instruction, b: Emitter) -> None:
    only(i, "SC", "ALL", "VC", "EL", *SCOPES)
    scope = next((m for m in i.modifiers if m in SCOPES), "GPU")
    if i.guard is not None:  # its time depends on whether any lane executes it
        b.op("touch", "void", b.const(0), attr=Access("value", 4))
    b.op("fence", "void", attr={"CTA": "cta", "SM": "cta", "SYS": "sys"}.get(scope, "gpu"))


@meaning("FENCE")
def FENCE(i: Instruction, b: Emitter) -> None:
    b.op("fence", "void", attr="cta")


@meaning("ERRBAR", "CGAERRBAR", "CCTL", "CCTLL", "UCCTL", "DEPBAR", "NOP", "ENDCOLLECTIVE")
def NOP(i: Instruction, b: Emitter) -> None:
    """Affects only order and caches: functional memory is coherent and copies complete at once."""
