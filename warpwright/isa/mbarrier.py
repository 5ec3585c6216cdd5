"""mbarrier objects of sm_90: their 64 bits and the atomic operation that updates them.

Bit 63 is the phase's parity, bits 43-62 hold 2**20 - pending arrivals, bits 1-20 hold 2**20 - expected ones; bits 21-42
between them hold the number of outstanding bytes (PTX ISA, "mbarrier": the tx-count).  While no arrival is pending but
bytes are outstanding, the pending field is 0 and the phase continues.  Source: the values that NVRTC's code for
``mbarrier.init``, ``.pending_count`` and ``.test_wait`` computes with.

A change is one 64-bit operand: arrivals (20 bits), expected bytes (22 bits, signed; completed bytes are negative), and
whether the arriving threads also leave all later phases.
"""

from __future__ import annotations

from warpwright.isa.ops import Access, Builder, Value

COUNT_BITS, BYTES_BITS = 20, 22
COUNT_MASK, BYTES_MASK = (1 << COUNT_BITS) - 1, (1 << BYTES_BITS) - 1
PENDING_AT, BYTES_AT, EXPECTED_AT = 43, 21, 1
PHASE = 1 << 63
OPERAND_BYTES_AT, OPERAND_LEAVES_AT = 20, 42
"""Positions of the byte count and of the leave flag in an operand; arrivals begin at bit 0."""


def fresh(b: Builder, count: Value) -> Value:
    """A new object (i64) that expects ``count`` (i64) arrivals."""
    left = b.sub(b.const(1 << COUNT_BITS, "i64"), count)
    return b.or_(b.shl(left, b.const(PENDING_AT, "i64")), b.shl(left, b.const(EXPECTED_AT, "i64")))


def operand(b: Builder, arrivals: Value | None, expected_bytes: Value | None, leaves: bool = False) -> Value:
    """The operand of a change, from i64 values."""
    total = b.const(int(leaves) << OPERAND_LEAVES_AT, "i64")
    if arrivals is not None:
        total = b.or_(total, b.and_(arrivals, b.const(COUNT_MASK, "i64")))
    if expected_bytes is not None:
        given = b.and_(expected_bytes, b.const(BYTES_MASK, "i64"))
        total = b.or_(total, b.shl(given, b.const(OPERAND_BYTES_AT, "i64")))
    return total


def change(
    b: Builder,
    space: str,
    at: Value,
    arrivals: Value | None,
    expected_bytes: Value | None,
    leaves: bool = False,
) -> Value:
    """Apply arrivals and expected bytes (i64, negative for completed ones) in every lane; returns the object as each
    lane found it."""
    how = Access(space, 8, space != "shared", "mbarrier", "i64")
    return b.op("atomic", "i64", at, operand(b, arrivals, expected_bytes, leaves), attr=how)


def changed(word: int, by: int) -> int:
    """The new value of an object: the meaning of the atomic operation ``mbarrier``, on Python integers."""
    arrivals, leaves = by & COUNT_MASK, by >> OPERAND_LEAVES_AT & 1
    field = word >> PENDING_AT & COUNT_MASK
    pending = (1 << COUNT_BITS) - field if field else 0
    pending = (pending - arrivals) & COUNT_MASK if pending != arrivals else 0
    outstanding = ((word >> BYTES_AT) + (by >> OPERAND_BYTES_AT)) & BYTES_MASK
    expected = ((word >> EXPECTED_AT) + (arrivals if leaves else 0)) & COUNT_MASK
    phase = word & PHASE
    if pending == 0 and outstanding == 0:
        phase ^= PHASE
        field = expected
    else:
        field = (1 << COUNT_BITS) - pending & COUNT_MASK
    return phase | field << PENDING_AT | outstanding << BYTES_AT | expected << EXPECTED_AT


def waits_for_bytes(state: int) -> bool:
    """Whether copies still have to deliver bytes of the phase, so that they may end it, not only arrivals."""
    return bool(state >> BYTES_AT & BYTES_MASK)


def passed_over(before: int, after: int) -> bool:
    """Whether one operation's arrivals ended a phase and continued into the next, or left a negative count."""
    field, expected = (after >> at & COUNT_MASK for at in (PENDING_AT, EXPECTED_AT))
    if (before ^ after) & PHASE:
        return field != expected
    return 0 < field < 1 << (COUNT_BITS - 1) and before >> PENDING_AT & COUNT_MASK >= 1 << (COUNT_BITS - 1)
