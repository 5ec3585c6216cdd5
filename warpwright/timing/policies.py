"""Warp schedulers: plain functions of three arguments, compiled to a function pointer when a launch asks for one.

A scheduler gets ``ready`` (bit k: warp slot k of the sub-core can issue now; never 0), ``last`` (the slot that
issued last, or -1 when that warp gave way) and ``ages`` (int64 array: launch number of the warp in each slot) and returns a
slot whose bit is set.  Swapping one costs its own compilation only; the model calls it by address, so nothing
that is cached knows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpwright.errors import UnsupportedError

Scheduler = Callable[[int, int, Any], int]


def greedy_then_youngest(ready: int, last: int, ages: Any) -> int:
    """Huerta et al., MICRO'25, section 4: the same warp while it can, then the youngest."""
    if last >= 0 and (ready >> last) & 1:
        return last
    best = -1
    for slot in range(16):
        if (ready >> slot) & 1 and (best < 0 or ages[slot] > ages[best]):
            best = slot
    return best


def greedy_then_oldest(ready: int, last: int, ages: Any) -> int:
    """What earlier simulators assume."""
    if last >= 0 and (ready >> last) & 1:
        return last
    best = -1
    for slot in range(16):
        if (ready >> slot) & 1 and (best < 0 or ages[slot] < ages[best]):
            best = slot
    return best


def loose_round_robin(ready: int, last: int, ages: Any) -> int:
    """The next ready slot after the last one."""
    for step in range(1, 17):
        slot = (last + step) & 15
        if (ready >> slot) & 1:
            return slot
    return last


SCHEDULERS: dict[str, Scheduler] = {
    policy.__name__: policy for policy in (greedy_then_youngest, greedy_then_oldest, loose_round_robin)
}


def named(scheduler: str | Scheduler) -> Scheduler:
    """The scheduler of a name, or the function itself.

    Raises:
        UnsupportedError: no scheduler has that name.
    """
    if not isinstance(scheduler, str):
        return scheduler
    if scheduler not in SCHEDULERS:
        raise UnsupportedError(
            f"scheduler={scheduler!r} is not known; use a function or one of {', '.join(SCHEDULERS)}"
        )
    return SCHEDULERS[scheduler]


def compile_scheduler(policy: Scheduler) -> Any:
    """A C function of a scheduler; keep the result alive while its ``address`` is in use."""
    # Imported here: a GPU that keeps no time names a scheduler too, and should not wait for Numba.
    from numba import carray, cfunc, types

    from warpwright.timing.native import core

    body = core(policy, boundscheck=False)  # becomes a part of the C function, once

    @cfunc(types.int64(types.int64, types.int64, types.CPointer(types.int64)))
    def entry(ready: int, last: int, ages: Any) -> int:
        return body(ready, last, carray(ages, (16,)))

    return entry
