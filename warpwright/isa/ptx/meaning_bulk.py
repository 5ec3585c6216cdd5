"""Bulk copies (PTX ISA, sections 9.7.9.25.4 and 9.7.9.27): cp.async.bulk, cp.reduce.async.bulk and their tensor forms."""

from __future__ import annotations

from warpwright.isa import bulk
from warpwright.isa.bulk import Bulk
from warpwright.isa.ops import Access, Value
from warpwright.isa.ptx.meaning import Emitter, meaning, unsupported
from warpwright.isa.ptx.meaning_memory import locate, shared
from warpwright.isa.ptx.syntax import Address, Instruction, Operand, Vector

TYPES = {**{t: t for t in bulk.TYPES}, "b32": "u32", "b64": "u64"}
RANKS = {f"{n}d": n for n in range(1, 6)}
FORMS = ("tile", "im2col", "im2col_no_offs")
DONE = ("commit_group", "wait_group")


def in_global(b: Emitter, words: dict[int, Value], o: Operand) -> None:
    space, at = locate(b, o, "global")
    if space != "global":
        raise unsupported(f"a bulk copy of {space} memory")
    words[bulk.GLOBAL], words[bulk.GLOBAL + 1] = (b.op("extract", "i32", at, attr=n) for n in range(2))


def emit(b: Emitter, what: Bulk, words: dict[int, Value]) -> None:
    b.op("bulk", "void", *(words[n] if n in words else b.const(0) for n in range(bulk.WORDS)), attr=what)


def copy(i: Instruction, b: Emitter) -> None:
    """cp.async.bulk and cp.reduce.async.bulk, with and without ``.tensor``; groups complete at once."""
    if any(m in i.modifiers for m in DONE):
        return
    modifiers = [m for m in i.modifiers if not m.startswith("L2::")]
    operation = next((m for m in modifiers if m in bulk.OPERATIONS), "")
    operands = list(i.operands)
    words: dict[int, Value] = {}
    prefetch = "prefetch" in modifiers
    multicast = "multicast::cluster" in modifiers
    spaces = [m for m in modifiers if m.startswith(("shared::", "global"))]
    direction = "prefetch" if prefetch else "store" if spaces[0] == "global" else "load"
    if direction == "load" and spaces[1].startswith("shared"):
        direction = "within"
    if "tensor" in modifiers:
        tensor(i, b, direction, operation, multicast)
        return
    if direction == "prefetch":
        in_global(b, words, operands[0])
        words[bulk.BYTES] = b.source(operands[1], "u32")
        emit(b, Bulk("prefetch"), words)
        return
    to, from_, size, *more = operands
    words[bulk.BYTES] = b.source(size, "u32")
    if direction == "store":
        in_global(b, words, to)
        words[bulk.SHARED] = shared(b, from_)
    else:
        words[bulk.SHARED] = shared(b, to)
        words[bulk.BARRIER] = shared(b, more[0])
        if direction == "load":
            in_global(b, words, from_)
        else:
            words[bulk.SOURCE] = shared(b, from_)
        if multicast:
            words[bulk.RANKS] = b.zext(b.source(more[1], "b16"), "i32")
    type = next((TYPES[m] for m in modifiers if m in TYPES), "u32")
    emit(b, Bulk(direction, operation, type, multicast=multicast), words)


def items_of(o: Operand) -> tuple[Operand, ...]:
    if not isinstance(o, Vector):
        raise unsupported("an operand that is no {…}")
    return o.items


def tensor(i: Instruction, b: Emitter, direction: str, operation: str, multicast: bool) -> None:
    rank = next(n for name, n in RANKS.items() if name in i.modifiers)
    im2col = any(m in i.modifiers for m in FORMS[1:])
    operands = list(i.operands)
    words: dict[int, Value] = {}
    if direction == "load":
        words[bulk.SHARED] = shared(b, operands.pop(0))
    place = operands.pop(0)
    if not isinstance(place, Address) or not place.more:
        raise unsupported("a tensor copy without coordinates")
    _, at = locate(b, Address(place.base, place.offset), "generic")
    words[bulk.GLOBAL], words[bulk.GLOBAL + 1] = (b.op("extract", "i32", at, attr=n) for n in range(2))
    for n, item in enumerate(items_of(place.more[0])):
        words[bulk.FIRST_COORDINATE + n] = b.source(item, "s32")
    if direction == "store":
        words[bulk.SHARED] = shared(b, operands.pop(0))
    elif direction == "load":
        words[bulk.BARRIER] = shared(b, operands.pop(0))
    if im2col and "im2col_no_offs" not in i.modifiers:
        for n, item in enumerate(items_of(operands.pop(0))):
            words[bulk.FIRST_OFFSET + n] = b.zext(b.source(item, "b16"), "i32")
    if multicast:
        words[bulk.RANKS] = b.zext(b.source(operands.pop(0), "b16"), "i32")
    emit(b, Bulk(direction, operation, rank=rank, im2col=im2col, multicast=multicast), words)


@meaning("tensormap")
def tensormap(i: Instruction, b: Emitter) -> None:
    """tensormap.replace writes one field (``engine/tensor_map.py``); cp_fenceproxy copies a map to global memory."""
    if "cp_fenceproxy" in i.modifiers:
        to, from_, *_ = i.operands
        _, target = locate(b, to, "global")
        _, source = locate(b, from_, "shared")
        for n in range(0, 128, 16):
            value = b.op("load", "i32x4", b.add(source, b.const(n)), attr=Access("shared", 16))
            b.op("store", "void", b.add(target, b.const(n, "i64")), value, attr=Access("global", 16))
        return
    raise unsupported(f"{i.name}: compile it to machine code, which runs")
