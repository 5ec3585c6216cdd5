"""Times a device's draws and copies: collects them, runs batches, and keeps the device's simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.graphics.timed.compute_work import KernelTime, KernelWork
from warpwright.graphics.timed.copy_times import Copy, CopyTime, copy_cycles
from warpwright.graphics.timed.pipeline_machine import Batch, BatchResult
from warpwright.graphics.timed.sm_controllers import BALANCES, LoadBalance
from warpwright.graphics.timed.tiles import TileWatch
from warpwright.graphics.video_memory import VideoMemory
from warpwright.timing.state import MAX_KERNELS

MOST_WARPS = 60_000
"""Number of warps at which a batch is run; its inputs are kept in memory until then."""


class GraphicsTimer:
    """Simulated time of a device's graphics.

    Args:
        chip: a chip with numbers of its graphics pipeline.
        memory: the device's memory.
        balance: how the SM controllers choose.
    """

    def __init__(self, chip: Chip, memory: VideoMemory, balance: LoadBalance = BALANCES["dynamic"]) -> None:
        self.chip, self.balance = chip, balance
        self._memory = memory
        self.watch = TileWatch(chip, memory, balance.clusters(len(chip.sm.gpc_sm_counts)))
        self.watch.when_full = self.make_room
        self.batches: list[BatchResult] = []
        self.begins: list[float] = []
        """When each batch began, in cycles."""
        self.copies: list[CopyTime] = []
        self.kernels: list[KernelTime] = []
        """Kernels that ran beside draws, in order, in cycles of the device's clock."""
        self._waiting: list[KernelWork] = []
        self.clock_cycles = 0.0
        self.writes_reports = True
        """Whether queries report simulated times; a replay does not, so that memory is as it was recorded."""
        self.times_copies = True
        """Whether copies take time; if not, a frame's cycles are those of its draws."""
        self._kept: dict[str, npt.NDArray[np.int64]] = {}
        self._after: list[Callable[[int], None]] = []

    @property
    def nanoseconds(self) -> int:
        """The device's time."""
        return round(self.clock_cycles / self.chip.clocks.sm_clock_mhz * 1000)

    def launch(self, kernel: KernelWork) -> None:
        """Run a kernel beside the next batch that has more than clears, with which it begins; the batch ends when both have ended."""
        self._waiting.append(kernel)

    def when_done(self, tell: Callable[[int], None]) -> None:
        """Call a function with the time in nanoseconds at which all work submitted so far has ended."""
        draw = self.watch.draws
        self._after.append(lambda began: tell(self._end_of(draw, began)))

    def _end_of(self, draws: int, began: int) -> int:
        """Time in nanoseconds at which the first draws of the last batch, given by number, have ended."""
        if not draws or not self.batches:
            return began
        cycles = float(self.batches[-1].last[:draws].max())
        return began + round(cycles / self.chip.clocks.sm_clock_mhz * 1000)

    def end_of_submission(self) -> None:
        """End a submission: the program may read its queries from now on. Without queries, the next submission's draws follow without a gap."""
        if self._after:
            self.flush()
        else:
            self.make_room()

    def copied(self, label: str, source: tuple[int, int] | None, target: tuple[int, int], words: int = 0) -> None:
        """Account for a copy by an engine, given device address and number of bytes of both sides; without a source, ``words`` of the command stream are
        copied."""
        if not self.times_copies:
            return
        self.flush()
        copy = Copy(
            label,
            source[1] if source is not None else 4 * words,
            target[1],
            source is None or self._is_host(source[0]),
            self._is_host(target[0]),
        )
        begin = self.clock_cycles
        self.clock_cycles += np.ceil(copy_cycles(self.chip, copy))
        self.copies.append(CopyTime(copy, begin, self.clock_cycles))

    def _is_host(self, address: int) -> bool:
        buffer = self._memory.find(address)
        return buffer is not None and not buffer.local

    def make_room(self) -> None:
        """Before a draw, run the batch if another draw may not fit."""
        warps = sum(run.warps for run in self.watch.runs)
        if len(self.watch.runs) + len(self._waiting) + 8 > MAX_KERNELS or warps > MOST_WARPS:
            self.flush()

    def flush(self, last: bool = False) -> None:
        """Run the collected draws with the kernels that were launched; with ``last``, also kernels beside which nothing was drawn."""
        watch, began = self.watch, self.nanoseconds
        if watch.draws or (last and self._waiting):
            kernels: list[KernelWork] = []
            if last or any(label != "clear" for label in watch.labels):
                kernels, self._waiting = self._waiting, []
            batch = Batch(self.chip, watch.work(), watch.runs, self.balance, self._kept, kernels)
            batch.run()
            result = batch.result(list(watch.labels))
            self._kept = batch.close() or self._kept
            self.begins.append(self.clock_cycles)
            self.kernels += [
                replace(one, begin=one.begin + self.clock_cycles, end=one.end + self.clock_cycles)
                for one in result.kernels
            ]
            self.batches.append(result)
            self.clock_cycles += np.ceil(result.cycles)
            watch.empty()
            told = began
        else:
            told = self.nanoseconds
        after, self._after = self._after, []
        for tell in after:
            tell(told)
