"""Kernels beside draws: the compute work distribution unit hands their blocks (CTAs) to the clusters that run graphics.

Lindholm et al.: "The vertex and compute work distribution units deliver work to processors in a round-robin scheme", and "the SM schedules and executes multiple
warp types concurrently".  A block goes to the next cluster with room; the SM controller's policy decides when it starts (``sm_controllers.py``).  Intervals and
latencies of blocks are those of the chip's dispatcher (``[launch]``).  How long a real chip takes between graphics and compute was never published (not anchored).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.graphics.timed.sm_controllers import COMPUTE, Controller, Needs, Waiting
from warpwright.graphics.timed.work import BLOCK, UNKNOWN, Records, new_records, running
from warpwright.timing.block_sources import Grid


@dataclass(frozen=True, slots=True)
class KernelWork:
    """A kernel that runs beside a batch of draws."""

    label: str
    grid: Grid

    @property
    def blocks(self) -> int:
        return self.grid.context.geometry.blocks

    @property
    def warps_per_block(self) -> int:
        return self.grid.context.geometry.warps_per_block


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The time of a kernel, in cycles of the SMs' clock.

    Attributes:
        begin: when its launch began, before its overhead.
        end: when its last block ended.
        warp_cycles: cycles for which its warps were resident, summed over the warps.
    """

    label: str
    begin: float
    end: float
    blocks: int
    warps: int
    instructions: int
    warp_cycles: float

    @property
    def cycles(self) -> float:
        return self.end - self.begin


class Distributor:
    """Hands blocks to clusters in turn, kernel by kernel.

    Args:
        first_grid: number of the first kernel's grid in the machine; the others follow.
    """

    def __init__(self, chip: Chip, kernels: Sequence[KernelWork], first_grid: int) -> None:
        self.kernels, self._launch = kernels, chip.launch
        counts = [kernel.blocks for kernel in kernels]
        self.records: Records = new_records(sum(counts), BLOCK)
        self.records["kernel"] = np.repeat(np.arange(len(kernels)), counts)
        self.records["grid"] = first_grid + self.records["kernel"]
        self.records["block"] = np.concatenate([np.zeros(0, np.int64), *(np.arange(count) for count in counts)])
        self.handed = 0
        """Blocks that have been handed to a cluster."""
        self._free = float(chip.launch.launch_overhead_cycles)
        self._turn = 0
        self._rooms: deque[float] = deque()
        """Times at which blocks have ended whose room no block has taken yet."""
        self._sm_free: dict[int, float] = {}

    @property
    def done(self) -> bool:
        return self.handed == len(self.records)

    @property
    def next_time(self) -> float:
        """When the next block can be handed out; UNKNOWN if none is left."""
        return UNKNOWN if self.done else self._free

    def feed(self, controllers: Sequence[Controller], needs: Sequence[Needs], now: float, until: float) -> int:
        """Hand blocks to the clusters in turn that have room for one and none waiting; returns how many.

        Args:
            needs: what a block of each of the machine's grids needs.
            now: the beginning of the window; ``until`` is its end.
        """
        first = self.handed
        while not self.done and self._free < until:
            row = self.records[self.handed]
            one = needs[int(row["grid"])]
            count = len(controllers)
            order = [(self._turn + n) % count for n in range(count)]
            cluster = next(
                (n for n in order if not controllers[n].queues[COMPUTE] and controllers[n].room_for(one) >= 0), -1
            )
            if cluster < 0:
                break
            latency, time = self._launch.block_start_latency_cycles, max(self._free, now)
            if self._rooms:
                latency, time = self._launch.block_launch_latency_cycles, max(self._free, self._rooms.popleft())
            self._free += self._launch.block_first_interval_cycles
            self._turn = (cluster + 1) % count
            controllers[cluster].queues[COMPUTE].append(Waiting(time, int(row["grid"]), int(row["block"]), self.handed))
            self.records["latency"][self.handed] = latency
            self.handed += 1
        return self.handed - first

    def begin(self, record: int, sm: int, ready: float, warps: int) -> float:
        """When a block executes its first instruction on an SM, which starts one block at a time."""
        time = max(ready, self._sm_free.get(sm, 0.0))
        launch = self._launch
        self._sm_free[sm] = time + max(launch.block_sm_interval_cycles, warps * launch.block_warp_interval_cycles)
        return time + float(self.records["latency"][record])

    def ended(self, time: float) -> None:
        """A block has ended, and left its room to another one."""
        self._rooms.append(time)

    def running(self, times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Number of warps of kernels running at each time."""
        found = np.zeros(len(times))
        for number, kernel in enumerate(self.kernels):
            found += kernel.warps_per_block * running(self.records[self.records["kernel"] == number], times)
        return found

    def times(self, instructions: Sequence[int]) -> list[KernelTime]:
        """The time of each kernel, from the batch's beginning; ``instructions`` that its warps executed."""
        found = []
        for number, kernel in enumerate(self.kernels):
            rows = self.records[self.records["kernel"] == number]
            spent = float((rows["end"] - rows["start"]).sum()) * kernel.warps_per_block
            warps = kernel.blocks * kernel.warps_per_block
            found.append(
                KernelTime(
                    kernel.label, 0.0, float(rows["end"].max()), kernel.blocks, warps, instructions[number], spent
                )
            )
        return found
