"""Memory records of a warp's trace (``engine/abi.py``), as the load/store unit reads them.

A record becomes lanes and three numbers: ``base``, ``step`` and whether ``step`` is a stride in bytes between lanes or
the host address of a table with every lane's distance from ``base``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from warpwright.engine.abi import BULK_WORDS, TAG_AFFINE, TAG_BULK, TAG_PATTERN, TAG_POLICY
from warpwright.native.intrinsics import core, peek
from warpwright.timing import state as s

# words of a bulk copy's record
(AT_HEAD, AT_BYTES, AT_ADDRESS, AT_ROW, AT_PAIRS) = range(5)
(AT_BARRIER, AT_RANKS, AT_BLOCK, AT_SHARED, AT_TARGETS, AT_SOURCE) = range(AT_PAIRS + 8, AT_PAIRS + 14)


@core
def lanes_of(place: int, head: int) -> int:
    """Lanes of the record at a host address; ``head``: the number of words of its head."""
    return peek(place) & 0xFFFFFFFF if head == 1 else peek(place + 8)


@core
def decode(place: int, head: int, lanes: int) -> tuple[int, int, int, bool, int]:
    """(words, lanes, base, whether step is a table, step) of the memory record at a host address.

    ``head``: words of a record's head; ``lanes``: of a wave.
    """
    tag = (peek(place) >> 60) & 15
    mask = lanes_of(place, head)
    after = place + 8 * head
    if tag == TAG_AFFINE:
        return head + 1, mask, peek(after), False, (peek(place) << 8) >> 40
    if tag == TAG_BULK:
        return BULK_WORDS, mask, peek(place + 16), False, 0
    if tag == TAG_PATTERN:
        return head + 2, mask, peek(after), True, peek(after + 8)
    return head + lanes, mask, 0, True, after


class Addresses(NamedTuple):
    """The addresses of a memory instruction's lanes; ``address_of`` returns each one."""

    base: int
    tabled: bool
    """Whether ``step`` is a table."""
    step: int
    mask: int
    """The active lanes."""


@core
def record_at(m: Any, w: s.Warp) -> Addresses:
    """Take the warp's next memory record."""
    position = m[w.pos]
    if m[s.chip.policies]:
        first = peek(m[w.trace] + position * 8)
        m[w.policy] = 0
        if (first >> 60) & 15 == TAG_POLICY:
            m[w.policy] = first & 0xFFFFFFFF
            position += 1
    words, mask, base, tabled, step = decode(m[w.trace] + position * 8, m[s.chip.head_words], m[s.chip.lanes])
    m[w.pos] = position + words
    return Addresses(base, tabled, step, mask)


@core
def address_of(base: int, tabled: bool, step: int, lane: int) -> int:
    """A lane's address."""
    return base + (peek(step + lane * 8) if tabled else lane * step)
