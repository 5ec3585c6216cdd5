"""Barriers in shared memory (PTX ``mbarrier``): arrivals, transactions, phases.

A barrier is one 64-bit word whose layout the compiled code takes part in: it writes the initial value and takes
tokens apart.  Both layouts count up, so that the last arrival carries into the phase bit 63:

* sm_80: bits 32–62 hold 2**31 − pending, bits 0–29 hold 2**30 − expected (``ATOMS.ARRIVE``, a load tests the phase);
* sm_90: bits 43–62 hold 2**20 − pending, bits 1–20 hold 2**20 − expected (``SYNCS``).  Between them, at bits 21–42,
  stands the number of outstanding transactions.  A phase whose arrivals are complete while transactions are
  outstanding keeps its phase bit and has 0 in the pending field.

Facts: the values that NVRTC's code for ``mbarrier.init``, ``.pending_count`` and ``.test_wait`` computes with; PTX ISA,
"mbarrier".  Copies are complete at once in the functional engine, so an arrival "on completion" is an arrival.
"""

from __future__ import annotations

from warpwright.isa.ops import Access, Value
from warpwright.isa.program import Instruction, Kind
from warpwright.isa.sass.meaning import Emitter, is_zero, meaning, only, raw32, set64, set_predicate, src64, unsupported
from warpwright.isa.sass.meaning_memory import address

COUNT = Access("shared", 8, operation="add", type="i64")
PHASE = 1 << 63
PENDING_90, TRANSACTIONS_90, EXPECTED_90 = 43, 21, 1
FIELD_90, TRANSACTION_FIELD = (1 << 20) - 1, (1 << 22) - 1
ARRIVALS = {"": ("one", "register"), "A1T0": ("one", ""), "ART0": ("register", ""), "A0TR": ("", "register")}
ARRIVALS |= {"A0T1": ("", "one"), "A0TX": ("", "complete")}
"""Suffix of SYNCS.ARRIVE: where the arrivals and the transactions come from."""


def field(b: Emitter, word: Value, low: int, mask: int) -> Value:
    return b.and_(b.lshr(word, b.const(low, "i64")), b.const(mask, "i64"))


def add(b: Emitter, at: Value, change: Value) -> tuple[Value, Value]:
    """Add to the barrier's word: (what it held, what it holds)."""
    old = b.op("atomic", "i64", at, change, attr=COUNT)
    return old, b.add(old, change)


def arrive_80(b: Emitter, at: Value) -> Value:
    """One arrival of every lane; the last of a phase begins the next one.  Returns the word before."""
    old, new = add(b, at, b.const(1 << 32, "i64"))
    last = b.icmp("slt", b.xor(old, new), b.const(0, "i64"))
    again = b.and_(b.add(new, b.const(1 << 30, "i64")), b.const((1 << 31) - 1, "i64"))
    add(b, at, b.select(last, b.shl(again, b.const(32, "i64")), b.const(0, "i64")))
    return old


def change_90(b: Emitter, at: Value, arrivals: Value | None, transactions: Value | None, leaves: bool = False) -> Value:
    """Arrivals (i64), then transactions expected (i64, negative: completed).  Returns the word before."""
    change = b.const(2 if leaves else 0, "i64")
    if arrivals is not None:
        change = b.add(change, b.shl(arrivals, b.const(PENDING_90, "i64")))
    if transactions is not None:
        change = b.add(change, b.shl(transactions, b.const(TRANSACTIONS_90, "i64")))
    old, new = add(b, at, change)
    nothing, phase = b.const(0, "i64"), b.const(PHASE, "i64")
    all_arrived = b.icmp("slt", b.xor(old, new), nothing)
    waited = b.icmp("eq", field(b, new, PENDING_90, FIELD_90), nothing)
    transferred = b.icmp("eq", field(b, new, TRANSACTIONS_90, TRANSACTION_FIELD), nothing)
    again = b.shl(field(b, new, EXPECTED_90, FIELD_90), b.const(PENDING_90, "i64"))
    # The last arrival has flipped the phase bit by its carry: taken back while transactions are outstanding.
    by_arrival = b.select(transferred, again, phase)
    by_transfer = b.select(b.and_(waited, transferred), b.add(again, phase), nothing)
    add(b, at, b.select(all_arrived, by_arrival, by_transfer))
    return old


@meaning("ARRIVES")
def ARRIVES(i: Instruction, b: Emitter) -> None:
    """Arrive when this thread's copies have completed: at once.  Also sm_80's ``ATOMS.ARRIVE``, which gives the token."""
    only(i, "LDGSTSBAR", "ARRIVE", "64", "ARVCNT", "TRANSCNT")
    at = address(b, i.operands[-1], False)
    if b.arch < 90:
        old = arrive_80(b, at)
        if len(i.operands) > 1 and not is_zero(i.operands[0]):
            set64(b, i.operands[0], old)
    elif "TRANSCNT" in i.modifiers:
        change_90(b, at, None, b.const(-1, "i64"))
    else:
        change_90(b, at, b.const(1, "i64"), None)


@meaning("SYNCS")
def SYNCS(i: Instruction, b: Emitter) -> None:
    only(i, "ARRIVE", "TRANS64", "RED", "OPTOUT", *ARRIVALS, "PHASECHK", "TRYWAIT", "EXCH", "64", "CCTL", "IV")
    if "CCTL" in i.modifiers:
        return
    memory = next(o for o in i.operands if o.kind is Kind.MEMORY)
    at, last = address(b, memory, False), i.operands[-1]
    if "EXCH" in i.modifiers:
        how = Access("shared", 8, operation="exch", type="i64")
        set64(b, i.operands[0], b.op("atomic", "i64", at, src64(b, last), attr=how))
    elif "PHASECHK" in i.modifiers:
        upper = b.op("load", "i32", b.add(at, b.const(4)), attr=Access("shared", 4, strong=True))
        set_predicate(b, i.operands[0], b.icmp("slt", b.xor(upper, raw32(b, last)), b.const(0)))
    elif "ARRIVE" in i.modifiers:
        how_many, transactions = ARRIVALS[next((m for m in i.modifiers if m in ARRIVALS), "")]
        given = b.zext(raw32(b, last), "i64")
        sources = {"": None, "one": b.const(1, "i64"), "register": given, "complete": b.sub(b.const(0, "i64"), given)}
        old = change_90(b, at, sources[how_many], sources[transactions], "OPTOUT" in i.modifiers)
        if not is_zero(i.operands[0]):
            set64(b, i.operands[0], old)
    else:
        raise unsupported("SYNCS other than ARRIVE, PHASECHK, EXCH and CCTL")


@meaning("UCGABAR_ARV", "UCGABAR_WAIT")
def UCGABAR(i: Instruction, b: Emitter) -> None:
    """The barrier of a cluster of one block: the block's own; arriving is left to the wait."""
    only(i)
    if i.opcode == "UCGABAR_WAIT":
        b.op("barrier", "void", b.const(CLUSTER_BARRIER), b.const(0), attr="sync")


CLUSTER_BARRIER = 15
"""The named barrier that stands for the cluster's."""
