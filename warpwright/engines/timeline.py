"""The simulated clock of one GPU's engines, kernels and copies, which share DRAM's bandwidth.

Each unit (an engine, the copy engine, the SMs) makes its tasks one after the other.  A task takes its own time while DRAM serves everybody's
traffic.  Otherwise each running task gets the bandwidth that it asks for up to an equal share, and what is left goes to those that ask for
more; the ones that get less than they ask for take longer in proportion.  A kernel asks for its average traffic.

Kernels take the place on the clock at which they were launched: everything that an engine was given earlier, and has not ended, runs beside them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from warpwright.chips import Chip
from warpwright.engine.device_memory import DeviceMemory
from warpwright.timing.kept_caches import KeptCaches

DONE = 1e-12
"""What is left of a task that has ended, by rounding."""


class Launch(Protocol):
    """What engines need of a launch: of ``run.Run``."""

    @property
    def kernel(self) -> str: ...
    @property
    def timed(self) -> bool: ...
    @property
    def shared(self) -> bool: ...
    @property
    def seconds_with_children(self) -> float: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...


class Device(Protocol):
    """What engines need of a GPU."""

    @property
    def chip(self) -> Chip: ...
    @property
    def memory(self) -> DeviceMemory: ...
    @property
    def launches(self) -> Sequence[Launch]: ...
    @property
    def kept_caches(self) -> KeptCaches | None: ...
    @property
    def timing(self) -> str: ...


@dataclass(eq=False, slots=True)
class Task:
    """What a unit does in one piece."""

    name: str
    seconds: float
    """That it takes alone."""
    dram_bytes: int
    """That it reads and writes there."""
    after: Sequence[Task] = ()
    """Tasks that end before it begins."""
    begin_seconds: float | None = None
    """On the clock, once it has begun."""
    end_seconds: float | None = None
    left: float = 1.0
    """The part of it that is still to be done."""

    @property
    def bytes_per_second(self) -> float:
        """Traffic that it asks for."""
        return self.dram_bytes / self.seconds if self.seconds > 0 else 0.0


@dataclass(eq=False, slots=True)
class Unit:
    """What makes tasks, one at a time, in the order in which they were given."""

    name: str
    queue: deque[Task] = field(default_factory=deque)

    def runnable(self) -> Task | None:
        """The task that it works on, or could begin."""
        if self.queue and all(one.end_seconds is not None for one in self.queue[0].after):
            return self.queue[0]
        return None


def shares(asked: Sequence[float], bandwidth: float) -> list[float]:
    """Bandwidth that each gets: what it asks for up to an equal share, where what others leave is shared again."""
    given = [0.0] * len(asked)
    left = bandwidth
    order = sorted(range(len(asked)), key=lambda i: asked[i])
    for served, i in enumerate(order):
        given[i] = min(asked[i], left / (len(order) - served))
        left -= given[i]
    return given


class Timeline:
    """The clock of one GPU's engines.

    Args:
        device: the GPU; its launches are taken over when the clock is used next.
    """

    def __init__(self, device: Device) -> None:
        transfer = device.chip.transfer
        self._device = device
        self._bytes_per_second = 2e9 * transfer.device_copy_gb_per_s
        self._now_seconds = 0.0
        self._seen = len(device.launches)
        self._sms = Unit("SMs")
        self._units = [self._sms]
        self.to_device = self.unit("copies to the device")

    def unit(self, name: str) -> Unit:
        """A further unit."""
        made = Unit(name)
        self._units.append(made)
        return made

    @property
    def seconds(self) -> float:
        """The time now: when the last kernel, or whatever was waited for, had ended."""
        self._take_launches()
        return self._now_seconds

    def submit(self, unit: Unit, task: Task) -> Task:
        """Give a unit a task; it begins when the unit, and the tasks that it comes after, have ended."""
        self._take_launches()
        unit.queue.append(task)
        return task

    def copy_to_device(self, size_bytes: int) -> Task:
        """Submit a copy of ordinary host memory."""
        transfer = self._device.chip.transfer
        seconds = transfer.host_copy_latency_us * 1e-6 + size_bytes / (transfer.pageable_copy_gb_per_s * 1e9)
        return self.submit(self.to_device, Task("copy", seconds, size_bytes))

    def wait(self, tasks: Iterable[Task]) -> None:
        """Let time pass until tasks have ended."""
        self._take_launches()
        for task in tasks:
            while task.end_seconds is None:
                self._step()

    def _take_launches(self) -> None:
        """Let time pass for the kernels that have run since the last time."""
        launches = self._device.launches
        # Whoever empties the list begins anew.
        self._seen = min(self._seen, len(launches))
        while self._seen < len(launches):
            run = launches[self._seen]
            self._seen += 1
            if not run.timed:
                continue
            # Beside other launches a kernel has no counters of DRAM.
            traffic = 0 if run.shared else int(run.metrics["dram__bytes.sum"])
            kernel = Task(run.kernel, run.seconds_with_children, traffic)
            self._sms.queue.append(kernel)
            while kernel.end_seconds is None:
                self._step()

    def _step(self) -> None:
        """Let time pass until the next task ends."""
        running = [task for unit in self._units if (task := unit.runnable()) is not None]
        asked = [task.bytes_per_second for task in running]
        # What a task reaches alone, DRAM serves.
        given = shares(asked, max(self._bytes_per_second, *asked))
        speeds = [part / whole if whole > 0 else 1.0 for part, whole in zip(given, asked, strict=True)]
        needed = [task.left * task.seconds / speed for task, speed in zip(running, speeds, strict=True)]
        passed = min(needed)
        for task, need in zip(running, needed, strict=True):
            if task.begin_seconds is None:
                task.begin_seconds = self._now_seconds
            task.left = task.left * (1 - passed / need) if need > 0 else 0.0
        self._now_seconds += passed
        for unit in self._units:
            if unit.queue and unit.queue[0].begin_seconds is not None and unit.queue[0].left <= DONE:
                unit.queue.popleft().end_seconds = self._now_seconds
