"""Conditional rendering: the registers COND_MODE and COND_ADDRESS, with the reports of queries, decide whether work is done."""

from __future__ import annotations

from warpwright.graphics.methods import RegisterEngine
from warpwright.graphics.video_memory import VideoMemory

NEVER, ALWAYS, RESULT_NON_ZERO, EQUAL, NOT_EQUAL = range(5)
REPORT_BYTES = 16
"""A query's report: a sequence number or a counter's low half, the counter, and a time of 64 bits."""


def holds(engine: RegisterEngine, memory: VideoMemory) -> bool:
    """Whether an engine's condition allows work."""
    mode = engine["COND_MODE"]
    if mode in (NEVER, ALWAYS):
        return mode == ALWAYS
    if mode > NOT_EQUAL:
        raise engine.refuse("COND_MODE", mode, "conditions are numbers 0 to 4")
    words = memory.words(engine.address("COND_ADDRESS_HIGH"), 2 * REPORT_BYTES // 4, "a condition")
    if mode == RESULT_NON_ZERO:
        return bool(words[1])
    # Two reports, one after the other: their first 64 bits are compared.
    same = bool(words[0] == words[4] and words[1] == words[5])
    return same == (mode == EQUAL)
