"""Runs: equal requests that an SM sends in consecutive cycles, kept as one.

A half-warp of compute capability 1.0 that is not coalesced makes a transaction for each lane, so a load of one word by all lanes is 16 requests for one
sector.  Each of them takes its turn at ports, slice and DRAM; only what is equal for all is done once: making the request, finding its slice, ordering it among
those of other SMs.

A word of a list names a piece of a run: the requests between which none of another SM comes (``exchange.join_runs``, ``exchange.take``).
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, popcount
from warpwright.timing import state as s
from warpwright.timing.dram import place_of
from warpwright.timing.l2 import counters, read_again
from warpwright.timing.links import read_line
from warpwright.timing.ports import reserve


@core
def length_of(m: Any, sm: s.SM, number: int) -> int:
    """How many equal requests an SM's request stands for; ``number``: its own in this window."""
    if m[s.chip.keeps_runs] == 0:
        return 1
    return m[sm + m[s.chip.runs_at] + number] & ((1 << s.RUN_BITS) - 1)


@core
def number_of(m: Any, sm: s.SM, r: s.Request) -> int:
    """The number of an SM's request in this window."""
    return (r - sm - m[s.chip.requests_at]) // s.Request.size


@core
def answers_of(m: Any, sm: s.SM, r: s.Request) -> int:
    """Where the answers to the requests of a run are."""
    return sm + m[s.chip.answers_at] + (m[sm + m[s.chip.runs_at] + number_of(m, sm, r)] >> s.RUN_BITS)


@core
def reads_dram(m: Any) -> bool:
    """Whether every load goes to this device's DRAM, whatever came before it."""
    elsewhere = m[s.chip.range_count] | m[s.chip.compressible_count] | m[s.chip.coalescer_lines]
    return bool(m[s.chip.l2_keeps] == 0 and m[s.chip.partitions] == 1 and elsewhere == 0)


@core
def serve_run(m: Any, sm: s.SM, r: s.Request, first: int, count: int) -> None:
    """Serve ``count`` requests of a run, from its ``first`` on, at its home (``Request.answer``)."""
    index = m[sm.index]
    gpc = m[m[s.chip.gpc_of_sm] + index]
    if m[r.full] < 0:
        gpc = m[r.full]
    partition = m[m[s.chip.partition_of_sm] + index]
    home = m[r.answer]
    line = m[r.line]
    sectors = m[r.sectors]
    time = m[r.time]
    answers = answers_of(m, sm, r)
    if reads_dram(m):
        where = place_of(m, home, line)
        size = popcount(sectors)
        m[counters(m, home).read] += size * count
        for k in range(first, first + count):
            m[answers + k] = read_again(m, home, line, where, size, time + k)
        return
    for k in range(first, first + count):
        m[answers + k] = read_line(m, gpc, partition, home, line, sectors, time + k)


@core
def run_back_to_gpc(m: Any, gpc: int, sm: s.SM, r: s.Request, first: int, count: int) -> None:
    """Move the answers to ``count`` requests of a run, from its ``first`` on, to their SM."""
    ports = m[s.chip.gpc_ports] + gpc * s.CALENDAR_SLOTS
    sectors = popcount(m[r.sectors])
    answers = answers_of(m, sm, r)
    for k in range(first, first + count):
        passed = reserve(m, ports, s.CALENDAR_SHIFT, m[s.chip.gpc_capacity], m[answers + k], sectors)
        m[answers + k] = passed + m[s.chip.from_l2]


@core
def receive_run(m: Any, sm: s.SM, r: s.Request, count: int) -> int:
    """Pass the answers of a run through the SM's port; returns when the load that waits for the run can use the last of them, as if it had no requests before."""
    sectors = popcount(m[r.sectors])
    m[sm.fill_sectors] += sectors * count
    answers = answers_of(m, sm, r)
    came = 0
    for k in range(count):
        filled = reserve(m, sm.fill_calendar, s.CALENDAR_SHIFT, m[s.chip.fill_capacity], m[answers + k], sectors)
        came = max(came, filled + (m[s.chip.replay] - 1) * k)
    return came
