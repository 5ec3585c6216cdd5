"""Asynchronous copies (PTX ISA, section 9.7.9.25): cp.async and its waits."""

from __future__ import annotations

from warpwright.isa.mbarrier import change
from warpwright.isa.ops import Access, Value
from warpwright.isa.ptx.meaning import Emitter, meaning, unsupported
from warpwright.isa.ptx.meaning_bulk import copy as copy_in_bulk
from warpwright.isa.ptx.meaning_memory import WORDS, cache_of, check, locate, offset_by, read, space_of, split_words
from warpwright.isa.ptx.syntax import Immediate, Instruction, Register


@meaning("cp")
def cp(i: Instruction, b: Emitter) -> None:
    """cp.async: completes at once, so that waiting for groups has no effect."""
    if i.modifiers[:2] == ("async", "mbarrier"):
        copies_arrive(i, b)
        return
    if "bulk" in i.modifiers:
        copy_in_bulk(i, b)
        return
    if not i.modifiers or i.modifiers[0] != "async":
        raise unsupported(f"{i.name}")
    check(i, "async", "commit_group", "wait_group", "wait_all")
    if any(m in i.modifiers for m in ("commit_group", "wait_group", "wait_all")):
        return
    to, from_, size_operand, *more = i.operands
    if not isinstance(size_operand, Immediate):
        raise unsupported("cp.async of a size that is not a literal")
    size = size_operand.bits
    where: Value | None = None
    filled: Value | None = None
    if more:
        kind = b.lookup(more[0])[1] if isinstance(more[0], Register) else "u32"
        if kind == "pred":
            where = b.not_(b.source(more[0], "pred"))
        elif kind != "b64" and kind != "u64":
            filled = b.source(more[0], "u32")
    _, source = locate(b, from_, "global")
    _, target = locate(b, to, "shared")
    words: list[Value] = []
    if filled is None:
        value = read(b, "global", source, size, Access("global", size, cache=cache_of(i)), where)
        words = split_words(b, value)
    else:
        # Bytes beyond the source size are zero and not read.
        for n in range(0, size, 4):
            some = b.icmp("ugt", filled, b.const(n))
            word = read(b, "global", offset_by(b, source, n), 4, Access("global", 4, cache=cache_of(i)), some)
            held = b.binary("umin", b.sub(filled, b.const(n)), b.const(4))
            kept = b.sub(b.shl(b.const(1, "i64"), b.zext(b.shl(held, b.const(3)), "i64")), b.const(1, "i64"))
            words.append(b.select(some, b.and_(word, b.trunc(kept, "i32")), b.const(0)))
    whole = words[0] if size == 4 else b.op("pack2" if size == 8 else "pack4", WORDS[size], *words)
    b.op("store", "void", target, whole, attr=Access("shared", size))


def copies_arrive(i: Instruction, b: Emitter) -> None:
    """``cp.async.mbarrier.arrive``: arrives at once, because the copies are already complete.

    Without ``.noinc`` the expected count grows by the same arrival, so the object does not change.
    """
    check(i, "async", "mbarrier", "arrive", "noinc", "b64")
    if "noinc" in i.modifiers:
        space, at = locate(b, i.operands[0], space_of(i))
        change(b, space, at, b.const(1, "i64"), None)
