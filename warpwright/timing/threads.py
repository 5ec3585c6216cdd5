"""Host threads that share each window: a loop that Numba compiles, with its threads."""

from __future__ import annotations

import os
from functools import partial

import numba

from warpwright.timing import state as s
from warpwright.timing.native import call_turn, entry
from warpwright.timing.windows import ASK, CLOSE, OPEN, RUN_GPC, RUNNING, SERVE_GROUP


def use(threads: int) -> None:
    """How many threads the launches that follow have."""
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS, os.cpu_count() or 1))


@partial(entry, parallel=True, what="what host threads share")
def share_windows(turn_at: int, state: int, program: int, gpcs: int, scheduler: int, limit: int) -> int:
    """``windows.run_windows`` with GPCs, then groups of slices, shared among host threads; the model is called by address."""
    outcome = RUNNING
    for _ in range(limit):
        end = call_turn(turn_at, state, program, OPEN, 0, 0, scheduler)
        for index in numba.prange(gpcs):
            call_turn(turn_at, state, program, RUN_GPC, index, end, scheduler)
        if call_turn(turn_at, state, program, ASK, 0, end, scheduler):
            for group in numba.prange(s.SLICE_GROUPS):
                call_turn(turn_at, state, program, SERVE_GROUP, group, end, scheduler)
        outcome = call_turn(turn_at, state, program, CLOSE, 0, end, scheduler)
        if outcome != RUNNING:
            break
    return outcome
