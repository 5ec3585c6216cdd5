"""MATCH.ANY: processes the lanes' different values one after the other. Each additional value takes a fixed time, part of it in the barrier unit, which the warps of all sub-cores share (an H200: bench.micro ``matches``)."""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s
from warpwright.timing.coalescer import different
from warpwright.timing.dependence_counters import hold_both
from warpwright.timing.mio_queue import enter_barrier_unit
from warpwright.timing.records import record_at


@core
def match(m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int) -> None:
    """Issue a MATCH.ANY whose record, the values that the lanes compare, is available."""
    addresses = record_at(m, w)
    further = max(different(m, sm, addresses, -1), 1) - 1
    start = enter_barrier_unit(m, sm, sc, time, (1 + further) * code[row.extra])
    hold_both(m, code, w, row, start + code[row.latency] + further * code[row.op], start + 1)
