"""Launches on several devices that run at once in simulated time and may wait for each other.

Each device has its own machine, and all begin at the same time.  The device with the earliest clock runs its next window.  A window is shorter than the path
from an SM to L2 and therefore than any link, so a write to another device's memory takes effect before that device could have observed its absence.  Devices are
ordered by simulated time and number, so the order is the same in every run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from warpwright.chips.chip import Chip
from warpwright.timing import metrics as metrics_module
from warpwright.timing import state as s
from warpwright.timing.block_sources import Grid
from warpwright.timing.interface import CancelCallback, Progress, ProgressCallback, TimingError, TimingResult
from warpwright.timing.kept_caches import KeptCaches
from warpwright.timing.policies import Policies
from warpwright.timing.simulate import Prepared, advance, deadlock, prepare, result_of

WINDOWS_A_REPORT = 512
"""Windows of all devices together between two checks of progress and of warps that only repeat themselves."""


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


class _Standstill:
    """Judges whether the launches of all devices together will never end.

    One device's warps may repeat themselves because they wait for another device.  So all must do so at the same time: each is found to repeat itself, and
    again after all of them were found.
    """

    def __init__(self, launches: Sequence[Prepared]) -> None:
        self.launches = launches
        self._repeating: set[int] = set()
        self._again = False

    def reached(self, running: Sequence[int]) -> bool:
        """Called between windows, for the devices whose launches have not ended."""
        for number in running:
            launch = self.launches[number]
            if launch.watch is None:
                return False
            if launch.watch.never_ends(launch.state):
                self._repeating.add(number)
            elif not launch.watch.streak and not launch.watch.memory:
                # Something new was seen.
                self._repeating.discard(number)
                self._again = False
        if not self._repeating.issuperset(running):
            return False
        found, self._again = self._again, True
        self._repeating.clear()
        return found


def simulate_devices(
    launches: Sequence[DeviceLaunch],
    *,
    progress: ProgressCallback | None = None,
    cancel: CancelCallback | None = None,
) -> list[TimingResult]:
    """Run one launch on each of several devices, all at once.

    Raises:
        DeviceError: a warp faulted or trapped, or the remaining launches will never end.
        TimingCancelled: ``cancel`` returned true.
    """
    began, worked = time.perf_counter(), time.thread_time()
    machines = [prepare(one.chip, [one.grid], one.policies, kept=one.kept) for one in launches]
    try:
        _run(machines, progress, cancel)
        results = []
        for machine in machines:
            cycles = int(metrics_module.sm_column(machine.state, s.SM.finish).max())
            results.append(result_of(machine, cycles, machine.grids[0].context.geometry.blocks))
    finally:
        for machine in machines:
            machine.close()
    wall, cpu = time.perf_counter() - began, time.thread_time() - worked
    for result in results:
        result.wall_seconds, result.cpu_seconds = wall / len(results), cpu / len(results)
    return results


def _run(machines: Sequence[Prepared], progress: ProgressCallback | None, cancel: CancelCallback | None) -> None:
    """Advance all machines to their ends, in the order of simulated time."""
    standstill = _Standstill(machines)
    watches = [machine.watch for machine in machines]
    periods = [1 / machine.chip.clocks.sm_clock_mhz for machine in machines]
    running = list(range(len(machines)))
    count = 0
    while running:
        number = min(running, key=lambda i: (int(machines[i].state.words[s.chip.now]) * periods[i], i))
        machine = machines[number]
        # A device alone cannot be judged: its warps may wait for another one.
        machine.watch = None
        try:
            left = advance(machine, None, cancel, windows_at_once=1)
        except TimingError as error:
            raise DeviceError(number, error, [i for i in range(len(machines)) if i not in running]) from None
        finally:
            machine.watch = watches[number]
        if not left:
            running.remove(number)
        count += 1
        if count % WINDOWS_A_REPORT == 0:
            if standstill.reached(running) and running:
                first = running[0]
                endless = deadlock(machines[first].state, repeats=True)
                raise DeviceError(first, endless, [i for i in range(len(machines)) if i not in running])
            if progress is not None:
                progress(_progress(machines, running))


def _progress(machines: Sequence[Prepared], running: Sequence[int]) -> Progress:
    """Progress of all devices together, with the clock of the first one that still runs."""
    words = [machine.state.words for machine in machines]
    instructions = sum(int(metrics_module.sm_column(machine.state, s.SM.instructions).sum()) for machine in machines)
    done, total = (sum(int(m[field]) for m in words) for field in (s.chip.done_blocks, s.chip.blocks))
    now = int(words[running[0]][s.chip.now]) if running else 0
    return Progress("running", now, done, total, instructions)
