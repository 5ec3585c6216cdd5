"""A machine that stops, and continues when the host has done the work that is due, for launches that wait for the host.

The main loop returns when a launch has ended and at the time of the host's next work (``window_steps.PAUSED``).  A stop changes nothing in the machine: windows are those
of a run without stops, and the times of stops are simulated times, the same for any number of host threads.  A launch that follows work of the
host is held until that work is done (``Grid.held``).
"""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.chips.chip import Chip
from warpwright.timing import state as s
from warpwright.timing import warming, window_steps
from warpwright.timing.block_sources import Grid
from warpwright.timing.interface import CancelCallback
from warpwright.timing.kept_caches import KeptCaches
from warpwright.timing.policies import Policies
from warpwright.timing.shared_chip import TimedGrid, timed_grid
from warpwright.timing.simulate import deadlock, prepare, result_at_end, run_until

SLICE_SECONDS = 0.1
"""Host time after which the machine stops, so that other host threads get a turn; results do not depend on it."""


class StoppingMachine:
    """Launches on one simulated chip, up to the next stop."""

    def __init__(self, chip: Chip, grids: Sequence[Grid], policies: Policies, kept: KeptCaches | None) -> None:
        self.chip = chip
        self.launch = prepare(chip, grids, policies, kept=kept)
        self.done = False
        """Whether nothing is left on the chip and no launch will begin without a release."""
        self._ended: set[int] = set()
        self._single = len(grids) == 1

    @property
    def now(self) -> int:
        """The machine's clock, in cycles."""
        return int(self.launch.state.words[s.chip.now])

    def run(self, cycle: int | None, threads: int, cancel: CancelCallback | None) -> list[int]:
        """Run up to a cycle or an earlier stop; returns the launches that have ended since.

        Raises:
            TimingError: a fault or a trap, or no warp can continue.
            TimingCancelled: ``cancel`` returned true.
        """
        m = self.launch.state.words
        with self.launch.helpers(threads, None):
            outcome = run_until(self.launch, s.INF if cycle is None else cycle, cancel, SLICE_SECONDS)
        if outcome == warming.STUCK and int(m[s.chip.on_chip]):
            raise deadlock(self.launch.state)
        if outcome == warming.STUCK and self._single:
            raise deadlock(self.launch.state)
        self.done = outcome in (window_steps.FINISHED, window_steps.IDLE, warming.STUCK)
        m[s.chip.known_ended] = m[s.chip.ended_kernels]
        new = [
            number for number in range(len(self.launch.grids)) if number not in self._ended and self._has_ended(number)
        ]
        self._ended.update(new)
        return new

    def _has_ended(self, number: int) -> bool:
        if self._single:
            return self.done
        m, k = self.launch.state.words, self.launch.state.kernel(number)
        return bool(m[k.done_blocks] == m[k.blocks] and not m[k.settles])

    def stop(self) -> None:
        """Let the main loop return after its current window; for what a launch asks of the driver while it runs."""
        self.launch.state.words[s.chip.pause_at] = 0

    def stand(self, cycles: int) -> None:
        """Advance the clocks that kernels read, and nothing else."""
        self.launch.state.words[s.chip.clock_ahead] += cycles

    def release(self, number: int, cycle: int) -> None:
        """Let a held launch begin, no earlier than at a cycle."""
        m, k = self.launch.state.words, self.launch.state.kernel(number)
        m[k.needs] &= ~s.HOST_BIT
        m[k.waited] = max(int(m[k.waited]), cycle)
        if not m[k.needs]:
            m[k.begins] = m[k.waited] + m[k.gap]
            m[s.chip.next_arrival] = min(int(m[s.chip.next_arrival]), int(m[k.begins] + m[s.chip.overhead]))

    def grid(self, number: int) -> TimedGrid:
        """The time and counters of a launch that has ended."""
        launch, one = self.launch, self.launch.placed[number]
        if not self._single:
            return timed_grid(launch.state, self.chip, number, one.first_pc, one.static.instructions)
        grid = launch.grids[0]
        result = result_at_end(launch)
        executed = int(result.metrics["smsp__inst_executed.sum"])
        begin = grid.earliest_cycle + grid.gap_cycles
        return TimedGrid(
            begin, begin + result.cycles, result, executed, int(result.metrics["smsp__thread_inst_executed.sum"])
        )

    def repeats(self) -> bool:
        """Whether all its warps have so far been found only to repeat themselves."""
        return self.launch.standstill.reached()

    def close(self) -> None:
        """Leave the memory, and the caches where they are kept, to the next launch."""
        self.launch.close()
