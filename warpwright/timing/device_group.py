"""Launches on several devices that run at once in simulated time and may wait for each other.

Each device has its own machine, and all begin at the same time.  They run in rounds of windows that overlap in simulated time (``device_windows.py``), each device on a host
thread of its own where there are cores.  A window is shorter than the path from an SM to L2 and therefore than any link, so a write to another device's memory takes effect before
that device could have observed its absence.  What devices see of each other is ordered by simulated time and number, so it is the same in every run.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.native import intrinsics
from warpwright.timing import buffer_reuse, device_windows, host_threads, warming, window_steps, windows
from warpwright.timing import metrics as metrics_module
from warpwright.timing import state as s
from warpwright.timing.block_sources import Grid
from warpwright.timing.interface import (
    CancelCallback,
    Progress,
    ProgressCallback,
    TimingCancelled,
    TimingError,
    TimingResult,
)
from warpwright.timing.kept_caches import KeptCaches
from warpwright.timing.livelock import Standstill
from warpwright.timing.policies import Policies
from warpwright.timing.simulate import Prepared, deadlock, is_model_loaded, judge, prepare, result_at_end

REPORT_SECONDS = 0.02
"""Host time between two checks of progress and of warps that only repeat themselves."""
_LOOP = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


def _loop(group: int, limit: int) -> int:
    return int(_LOOP(windows.run_windows.address(device_windows.run_devices))(group, limit))


@dataclass(frozen=True, slots=True)
class DeviceLaunch:
    """One device's launch."""

    chip: Chip
    grid: Grid
    policies: Policies
    kept: KeptCaches | None = None


class DeviceError(Exception):
    """A launch of one device has failed; the others are given up."""

    def __init__(self, device: int, error: TimingError, ended: Sequence[int]) -> None:
        super().__init__(str(error))
        self.device, self.error = device, error
        self.ended = tuple(ended)
        """Devices whose launches have ended."""


def simulate_devices(
    launches: Sequence[DeviceLaunch],
    *,
    progress: ProgressCallback | None = None,
    cancel: CancelCallback | None = None,
    threads: int = 1,
) -> list[TimingResult]:
    """Run one launch on each of several devices, all at once, on so many host threads; results do not depend on their number.

    Raises:
        DeviceError: a warp faulted or trapped, or the remaining launches will never end.
        TimingCancelled: ``cancel`` returned true.
    """
    began, worked = time.perf_counter(), time.thread_time()
    machines = [prepare(one.chip, [one.grid], one.policies, kept=one.kept) for one in launches]
    try:
        _run(machines, progress, cancel, threads)
        results = [result_at_end(machine) for machine in machines]
    finally:
        for machine in machines:
            machine.close()
    wall, cpu = time.perf_counter() - began, time.thread_time() - worked
    for result in results:
        result.wall_seconds, result.cpu_seconds = wall / len(results), cpu / len(results)
    return results


def _run(
    machines: Sequence[Prepared], progress: ProgressCallback | None, cancel: CancelCallback | None, threads: int
) -> None:
    """Advance all machines to their ends, in the order of simulated time."""
    standstill = Standstill([one.watch for one in machines], [one.state for one in machines])
    if progress is not None and not is_model_loaded():
        progress(Progress("model"))
    group = _group(machines)
    running = list(range(len(machines)))
    limit = 16
    with host_threads.device_helpers(group, threads):
        while running:
            began = time.perf_counter()
            stopped = _run_rounds(machines, group, running, limit)
            spent = time.perf_counter() - began
            for number in stopped:
                if _ended(machines, number, _row(group, number)[s.DV_OUTCOME], running):
                    running.remove(number)
                    _row(group, number)[s.DV_RUNS] = 0
            if cancel is not None and cancel():
                raise TimingCancelled(f"cancelled at cycle {int(machines[0].state.words[s.chip.now]):,}")
            if running and standstill.reached(running):
                # A device of which some blocks have ended is more likely to be the one that the others wait for.
                shown = max(running, key=lambda number: bool(machines[number].state.words[s.chip.done_blocks]))
                endless = deadlock(machines[shown].state, repeats=True)
                raise DeviceError(shown, endless, _others(machines, running))
            if progress is not None:
                progress(_progress(machines, running))
            limit = int(min(max(limit * REPORT_SECONDS / max(spent, 1e-4), 1), limit * 8, 1 << 20))


def _group(machines: Sequence[Prepared]) -> npt.NDArray[np.int64]:
    """The table of the devices for ``device_windows.run_devices``."""
    group = buffer_reuse.aligned(s.DG_WORDS + len(machines) * s.DV_WORDS)
    group[s.DG_COUNT] = len(machines)
    for number, machine in enumerate(machines):
        row = _row(group, number)
        row[s.DV_STATE] = intrinsics.address_of(machine.state.words)
        row[s.DV_PROGRAM] = intrinsics.address_of(machine.static.rows)
        row[s.DV_PERIOD] = round(1e9 / machine.chip.clocks.sm_clock_mhz)
        row[s.DV_RUNS], row[s.DV_TAKEN] = 1, 1
    return group


def _row(group: npt.NDArray[np.int64], number: int) -> npt.NDArray[np.int64]:
    first = s.DG_WORDS + number * s.DV_WORDS
    return group[first : first + s.DV_WORDS]


def _run_rounds(
    machines: Sequence[Prepared], group: npt.NDArray[np.int64], running: Sequence[int], limit: int
) -> list[int]:
    """Run rounds of windows; returns the devices that have left their loops."""
    if intrinsics.BOUNDSCHECK:
        # The loop of several devices has no checked form: the device with the earliest clock runs its next window.
        first = min(
            running, key=lambda i: (int(machines[i].state.words[s.chip.now]) * int(_row(group, i)[s.DV_PERIOD]), i)
        )
        machine = machines[first]
        outcome = int(windows.run_windows(machine.state.words, machine.static.rows, 1))
        _row(group, first)[s.DV_OUTCOME] = outcome
        return [first]
    if not _loop(intrinsics.address_of(group), limit):
        return []
    return [number for number in running if _row(group, number)[s.DV_OUTCOME] != warming.RUNNING]


def _ended(machines: Sequence[Prepared], number: int, outcome: int, running: Sequence[int]) -> bool:
    """Whether a device has left its loop because its launch has ended."""
    try:
        judge(machines[number], int(outcome))
    except TimingError as error:
        raise DeviceError(number, error, _others(machines, running)) from None
    return int(outcome) in (window_steps.FINISHED, window_steps.IDLE)


def _others(machines: Sequence[Prepared], running: Sequence[int]) -> list[int]:
    return [number for number in range(len(machines)) if number not in running]


def _progress(machines: Sequence[Prepared], running: Sequence[int]) -> Progress:
    """Progress of all devices together, with the clock of the first one that still runs."""
    words = [machine.state.words for machine in machines]
    instructions = sum(int(metrics_module.sm_column(machine.state, s.SM.instructions).sum()) for machine in machines)
    done, total = (sum(int(m[field]) for m in words) for field in (s.chip.done_blocks, s.chip.blocks))
    now = int(words[running[0]][s.chip.now]) if running else 0
    return Progress("running", now, done, total, instructions)
