"""A warp's scoreboard: when the registers of outstanding writes become available.

It serves code without control bits (``isa/scoreboard.py`` assigns entries to registers).  An entry holds the end of the writes whose end is known, the number
of those whose end is not known, and whether the last one came from L1TEX: three words of host memory, which only launches of such code have.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, peek, poke
from warpwright.timing import state as s

ENTRY_BYTES = 24
UNKNOWN, LONG = 8, 16
"""Byte offsets within an entry; its first word is the time."""


@core
def entry_at(m: Any, w: s.Warp, counter: int) -> int:
    """Address of an entry by its number in instructions."""
    return m[w.scoreboard] + (counter - s.DEPENDENCE_BARRIERS) * ENTRY_BYTES


@core
def hold_entry(m: Any, w: s.Warp, counter: int, time: int, long: int) -> None:
    """Count a write of an entry's registers; ``time`` is its end, INF when unknown."""
    entry = entry_at(m, w, counter)
    if time >= s.INF:
        poke(entry + UNKNOWN, peek(entry + UNKNOWN) + 1)
    elif time > peek(entry):
        poke(entry, time)
    poke(entry + LONG, long)


@core
def end_of_entry(m: Any, w: s.Warp, counter: int, time: int) -> None:
    """A write whose end was not known ends at ``time``."""
    entry = entry_at(m, w, counter)
    poke(entry + UNKNOWN, peek(entry + UNKNOWN) - 1)
    if time > peek(entry):
        poke(entry, time)


@core
def clear_entries(m: Any, w: s.Warp) -> None:
    """Initialise the scoreboard of a warp that starts. Requests of the slot's previous warp may still be in flight and will decrement its counters."""
    entry = m[w.scoreboard]
    for _ in range(m[s.chip.scoreboard_entries]):
        poke(entry, 0)
        poke(entry + LONG, 0)
        entry += ENTRY_BYTES


@core
def listed_ready(m: Any, code: Any, w: s.Warp, place: int) -> int:
    """Twice the time at which all writes in a list have ended, plus one if the last came from L1TEX; INF if that is not known."""
    over = 0
    long = 1
    for i in range(code[place]):
        counter = code[place + 1 + i]
        if counter < s.DEPENDENCE_BARRIERS:
            unknown = (m[w.sb_unknown] >> s.UNKNOWN_BITS * counter) & ((1 << s.UNKNOWN_BITS) - 1)
            time, slow = m[w.sb_time[counter]], (m[w.sb_long] >> counter) & 1
        else:
            entry = entry_at(m, w, counter)
            unknown, time, slow = peek(entry + UNKNOWN), peek(entry), peek(entry + LONG)
        if unknown:
            return s.INF
        if time > over:
            over = time
            long = slow
    return over * 2 + long
