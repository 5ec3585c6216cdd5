"""Runs the rest of a launch untimed, once its steps between grid barriers repeat (``step_sampling.py``).

The warps of the grid run to their ends in turns, as the engine's functions execute them.  The clock that they read advances by one step's cycles at each barrier.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit, peek
from warpwright.timing import state as s
from warpwright.timing.block_barriers import BAR_ID, complete, count_arrival, end_warp
from warpwright.timing.grid_steps import (
    STRONG,
    THREADS,
    WARP_SLOTS,
    is_passed,
    is_poll,
    place_of,
    work_of_grid,
)
from warpwright.timing.numbered_units import sm_at
from warpwright.timing.warming import RUNNING, STOPPED, STUCK
from warpwright.timing.warp import BARRIER, EXIT, run_function
from warpwright.timing.warp_slots import warp_at

ENDED = 3
"""Outcome of ``run_rest``, like ``window_steps.FINISHED``: every warp has ended."""
ALIKE = 4
"""If an untimed step's thread instructions, without polls, differ from those of the timed steps by more than 1/``ALIKE``, its time after the blocks have left the
barrier is in proportion to them."""


@core
def end_step(m: Any) -> None:
    """Advance the clock past a barrier that the grid has passed untimed."""
    steps = m[s.chip.rest_steps]
    place = steps % m[s.chip.pattern_steps]
    cycles = m[s.chip.pattern_cycles[place]]
    own = m[s.chip.rest_work]
    known = m[s.chip.pattern_work[place]]
    taken = cycles
    if max(own - known, known - own) * ALIKE > known:
        leaves = m[s.chip.pattern_leaves]
        taken = leaves + (cycles - leaves) * own // max(known, 1)
        m[s.chip.rest_corrected] += max(taken - cycles, cycles - taken)
    if steps == 0:
        taken = max(taken - m[s.chip.rest_lead], 0)
    m[s.chip.rest_clock] += taken
    m[s.chip.rest_steps] = steps + 1
    m[s.chip.rest_work] = 0


@core
def run_on(m: Any, sm: s.SM, w: s.Warp) -> int:
    """Run a warp to its next stop; returns its status, or -1 if Python must handle it. Records that the model has not issued are dropped."""
    time = m[s.chip.rest_clock]
    status = m[w.status]
    if status != EXIT and status != BARRIER:
        place, threads = place_of(m, w), peek(m[w.pointer] + THREADS)
        if not run_function(m, sm, w, time):
            return -1
        if status != STRONG or not is_poll(m, w, place):
            m[s.chip.rest_work] += peek(m[w.pointer] + THREADS) - threads
        if is_passed(m):
            end_step(m)
        status = m[w.status]
    m[w.pos] = m[w.used]
    if status == EXIT:
        end_warp(m, sm, w, time)
    elif status == BARRIER:
        count_arrival(m, sm, w, time, False)
    return status


@core
def complete_barriers(m: Any, sm: s.SM, arrived: int) -> None:
    """Release the block barriers at which all threads have arrived; ``arrived`` has a bit for the number of each barrier at which a warp has arrived."""
    numbers = arrived
    while numbers:
        number = lowest_bit(numbers)
        numbers &= numbers - 1
        for i in range(s.MAX_BLOCKS):
            b = sm.blocks[i]
            if m[b.live]:
                complete(m, sm, b, number, m[s.chip.rest_clock])


@core
def turn_of_sm(m: Any, sm: s.SM) -> int:
    """Give every warp of an SM a turn; returns RUNNING, STOPPED, STUCK (all of them wait) or ENDED."""
    arrived = 0
    outcome = ENDED
    for slot in range(WARP_SLOTS):
        w = warp_at(sm, slot)
        if m[w.active] == 0 or outcome == STOPPED:
            continue
        if m[w.barrier]:
            outcome = STUCK if outcome == ENDED else outcome
            continue
        status = run_on(m, sm, w)
        outcome = STOPPED if status < 0 else RUNNING
        if status == BARRIER:
            arrived |= 1 << (peek(m[w.pointer] + BAR_ID) & 15)
    complete_barriers(m, sm, arrived)
    m[sm.done] = 0
    m[sm.reconsider] = 0
    return outcome


@core
def run_rest(m: Any, turns: int) -> int:
    """Give every warp on the chip a number of turns; returns RUNNING, STOPPED (Python must handle something), STUCK or ENDED."""
    if m[s.chip.rest_begun] == 0:
        m[s.chip.rest_begun] = 1
        m[s.chip.rest_work] = work_of_grid(m) - m[s.chip.step_work[m[s.chip.grid_steps] - 1 & (s.STEP_ENDS - 1)]]
    for _ in range(turns):
        outcome = ENDED
        for i in range(m[s.chip.sms]):
            sm = sm_at(m, i)
            if m[sm.resident]:
                here = turn_of_sm(m, sm)
                if here == STOPPED:
                    return STOPPED
                outcome = here if outcome == ENDED or here == RUNNING else outcome
        if outcome != RUNNING:
            return outcome
    return RUNNING
