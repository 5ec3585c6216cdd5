"""Barriers in shared memory (PTX ``mbarrier``): arrivals, transactions, phases.

A barrier is one 64-bit word.  Compiled code depends on its layout: it writes the initial value and decomposes tokens.
Both layouts count up, so that the last arrival carries into the phase, bit 63:

* sm_80: bits 32–62 hold 2**31 − pending, bits 0–29 hold 2**30 − expected (``ATOMS.ARRIVE``, or ``ATOM.ARRIVE`` where PTX has a generic
  address; a load tests the phase);
* sm_90: ``isa/mbarrier.py``.

Source: the values that NVRTC's code for ``mbarrier.init``, ``.pending_count`` and ``.test_wait`` computes with.
"""

from __future__ import annotations

from dataclasses import replace

from warpwright.isa.mbarrier import change
from warpwright.isa.ops import Access, Value
from warpwright.isa.program import Instruction, Kind
from warpwright.isa.sass.meaning import Emitter, is_zero, meaning, only, raw32, set64, set_predicate, src64, unsupported
from warpwright.isa.sass.meaning_memory import IGNORED, SIZES, address, size_of, window, words

PHASE = 1 << 63
ARRIVALS = {"": ("one", "register"), "A1T0": ("one", ""), "ART0": ("register", ""), "A0TR": ("", "register")}
ARRIVALS |= {"A0T1": ("", "one"), "A0TX": ("", "complete")}
"""Suffix of SYNCS.ARRIVE: where arrivals and transaction counts come from."""


def add(b: Emitter, space: str, at: Value, change: Value) -> tuple[Value, Value]:
    """Add to the barrier's word; returns its old and new value."""
    old = b.op("atomic", "i64", at, change, attr=Access(space, 8, space != "shared", "add", "i64"))
    return old, b.add(old, change)


def arrive_80(b: Emitter, at: Value, space: str = "shared") -> Value:
    """One arrival per lane; the last of a phase begins the next phase.  Returns the old word."""
    old, new = add(b, space, at, b.const(1 << 32, "i64"))
    last = b.icmp("slt", b.xor(old, new), b.const(0, "i64"))
    again = b.and_(b.add(new, b.const(1 << 30, "i64")), b.const((1 << 31) - 1, "i64"))
    add(b, space, at, b.select(last, b.shl(again, b.const(32, "i64")), b.const(0, "i64")))
    return old


def arrived_80(word: int) -> int:
    """The object after one arrival, as :func:`arrive_80` computes it, on Python integers."""
    new = word + (1 << 32) & (1 << 64) - 1
    if (word ^ new) & PHASE:
        new += (new + (1 << 30) & (1 << 31) - 1) << 32
    return new


@meaning("ARRIVES")
def ARRIVES(i: Instruction, b: Emitter) -> None:
    """Arrive when this thread's copies have completed, which is at once.  Also sm_80's ``ATOMS.ARRIVE`` and
    ``ATOM.ARRIVE``, which return the token."""
    generic = i.opcode == "ATOM"
    only(i, "LDGSTSBAR", "ARRIVE", "64", "ARVCNT", "TRANSCNT", *(IGNORED if generic else ()))
    at = address(b, i.operands[-1], generic)
    if b.arch < 90:
        old = arrive_80(b, at, "generic" if generic else "shared")
        if len(i.operands) > 1 and not is_zero(i.operands[-2]):
            set64(b, i.operands[-2], old)
        if generic:
            set_predicate(b, i.operands[0], b.const(1, "i1"))
    elif "TRANSCNT" in i.modifiers:
        change(b, "shared", at, None, b.const(-1, "i64"))
    else:
        change(b, "shared", at, b.const(1, "i64"), None)


@meaning("SYNCS")
def SYNCS(i: Instruction, b: Emitter) -> None:
    only(i, "ARRIVE", "TRANS64", "TMASK", "RED", "OPTOUT", *ARRIVALS, "PHASECHK", "TRYWAIT", "EXCH", "64", "CCTL", "IV")
    if "CCTL" in i.modifiers:
        return
    memory = next(o for o in i.operands if o.kind is Kind.MEMORY)
    at, last = address(b, memory, False), i.operands[-1]
    if "EXCH" in i.modifiers:
        how = Access("shared", 8, operation="exch", type="i64")
        set64(b, i.operands[0], b.op("atomic", "i64", at, src64(b, last), attr=how))
    elif "PHASECHK" in i.modifiers:
        upper = b.op("load", "i32", b.add(at, b.const(4)), attr=Access("shared", 4, True, "phase"))
        set_predicate(b, i.operands[0], b.icmp("slt", b.xor(upper, raw32(b, last)), b.const(0)))
    elif "ARRIVE" in i.modifiers:
        how_many, transactions = ARRIVALS[next((m for m in i.modifiers if m in ARRIVALS), "")]
        given = b.zext(raw32(b, last), "i64")
        sources = {"": None, "one": b.const(1, "i64"), "register": given, "complete": b.sub(b.const(0, "i64"), given)}
        space = "shared"
        if "RED" in i.modifiers:  # for any block of the cluster
            space, at = "generic", cluster_address(b, at)
        old = change(b, space, at, sources[how_many], sources[transactions], "OPTOUT" in i.modifiers)
        if not is_zero(i.operands[0]):
            set64(b, i.operands[0], old)
    else:
        raise unsupported("SYNCS other than ARRIVE, PHASECHK, EXCH and CCTL")


def cluster_address(b: Emitter, at: Value) -> Value:
    """The generic address for a shared address (i32) that contains its block's rank."""
    return b.add(b.zext(at, "i64"), window(b, "shared"))


@meaning("STAS")
def STAS(i: Instruction, b: Emitter) -> None:
    """A store to a block of the cluster that signals the mbarrier whose address is in the second register."""
    only(i, *SIZES)
    memory, data = i.operands
    size, _ = size_of(i)
    assert memory.base is not None
    at = cluster_address(b, address(b, replace(memory, base=replace(memory.base, suffix="")), False))
    barrier = cluster_address(b, raw32(b, replace(memory.base, index=memory.base.index + 1, suffix="")))
    b.op("store", "void", at, words(b, data, size), attr=Access("generic", size, True))
    change(b, "generic", barrier, None, b.const(-size, "i64"))


@meaning("UCGABAR_ARV", "UCGABAR_WAIT")
def UCGABAR(i: Instruction, b: Emitter) -> None:
    """The barrier of the cluster."""
    only(i)
    how = "cluster_wait" if i.opcode == "UCGABAR_WAIT" else "cluster_arrive"
    b.op("barrier", "void", b.const(0), b.const(0), attr=how)
