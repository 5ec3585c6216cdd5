"""Launches on instances of one chip that run at once in simulated time and share nothing: a failure of one leaves the others as they are.

Each instance has its own machine, because it has its own SMs, crossbar ports, L2 slices and DRAM channels.  The one with the earliest clock runs its next window,
so that all are at the same cycle, to within a window, at any time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from warpwright.timing import state as s
from warpwright.timing.device_group import DeviceLaunch
from warpwright.timing.interface import CancelCallback, TimingError, TimingResult
from warpwright.timing.simulate import advance, prepare, result_at_end


def simulate_isolated(
    launches: Sequence[DeviceLaunch], *, cancel: CancelCallback | None = None
) -> list[TimingResult | TimingError]:
    """Run one launch on each of several instances; returns the result or the error of each.

    Raises:
        TimingCancelled: ``cancel`` returned true.
    """
    began, worked = time.perf_counter(), time.thread_time()
    machines = [prepare(one.chip, [one.grid], one.policies, kept=one.kept) for one in launches]
    errors: dict[int, TimingError] = {}
    running = list(range(len(machines)))
    while running:
        number = min(running, key=lambda i: (int(machines[i].state.words[s.chip.now]), i))
        try:
            left = advance(machines[number], None, cancel, windows_at_once=1)
        except TimingError as error:
            errors[number] = error
            left = False
        if not left:
            running.remove(number)
    found = [errors.get(number) or result_at_end(machine) for number, machine in enumerate(machines)]
    for machine in machines:
        machine.close()
    wall, cpu = time.perf_counter() - began, time.thread_time() - worked
    for one in found:
        if isinstance(one, TimingResult):
            one.wall_seconds, one.cpu_seconds = wall / len(found), cpu / len(found)
    return found
