"""Launches that share one simulated chip: those of several streams, or of branches of a graph, with no order between them.

They are timed in one machine (``timing/block_sources.py``), in which each begins when those that it waits for have ended.  What no other launch can
stand beside runs alone: see :func:`hinders`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from warpwright.engine.constant_bank0 import is_cooperative
from warpwright.engine.execute import Cancelled, Counts
from warpwright.engine.kernels import copies_in_bulk, lowered_of, traced, watches_memory
from warpwright.engine.textures.launch_textures import uses_textures
from warpwright.launch_context import launch_context
from warpwright.launch_job import SAMPLED_THREADS, Job
from warpwright.run import Progress, Run
from warpwright.session import session

if TYPE_CHECKING:
    from warpwright.engine.allocation import Allocation
    from warpwright.engine.device_memory import DeviceMemory
    from warpwright.kernel import Launcher
    from warpwright.ranges import Origin
    from warpwright.timing.block_sources import Grid
    from warpwright.timing.shared_chip import TimedGrid


Window = tuple["DeviceMemory", "Allocation"]
"""Memory of a launch's parameters, and whose it is."""


@dataclass(frozen=True, slots=True)
class Member:
    """One launch of a group."""

    launcher: Launcher
    parameters: bytes
    priority: int = 0
    """As a stream's: the lowest number goes first."""
    after: tuple[int, ...] = ()
    """Places in the group of the launches that must have ended before."""
    gap_seconds: float = 0.0
    """From the end of the last of those, or from the group's beginning, to the launch."""
    delays_seconds: tuple[float, ...] = ()
    """From the end of each of ``after`` on that it waits, before the gap; none without."""
    earliest_seconds: float = 0.0
    """Since the group began, before which it is not launched; the gap not counted."""
    early: tuple[int, ...] = ()
    """Of ``after``, launches of which it need not await the end: it begins when their blocks let dependents begin, and waits for the end itself."""
    cooperative: bool = False
    """As a launch of its own (``resident_launches.py``)."""
    held: bool = False
    """Whether it waits for work of the host besides (``resident_launches.py``)."""
    origin: Origin | None = None
    """Where the program made it."""
    client: int = 0
    """Number of the process that it belongs to, among those that share the chip (``sharing.py``)."""
    most_sms: int = 0
    """SMs that the client's blocks may be on at once; 0: all."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The result and times of a launch of a group, in seconds since the group began."""

    run: Run
    begin_seconds: float
    end_seconds: float


class GroupError(Exception):
    """One launch of a group has failed, and with it the group."""

    def __init__(self, place: int, error: Exception) -> None:
        super().__init__(str(error))
        self.place, self.error = place, error


def hinders(launcher: Launcher, timed: bool = True) -> str:
    """The reason why a launch runs alone; empty if others may share the chip.

    Args:
        timed: whether the group's times are asked for, and not only its results.
    """
    gpu, geometry = launcher.kernel.gpu, launcher.geometry
    loaded = launcher.kernel._loaded
    in_full = gpu.timing == "full" or (gpu.timing == "sampled" and watches_memory(loaded))
    if (not in_full if timed else gpu.timing != "off") or gpu.checker is not None:
        return "it is not timed in full"
    if gpu.injected is not None and gpu.injected.active:
        return "errors are injected"
    if launcher.partition is not None:
        return "its context has a part of the chip"
    if geometry.cluster_blocks > 1 or is_cooperative(loaded.program):
        return "its blocks start together"
    if loaded.program.services or uses_textures(loaded.program) or copies_in_bulk(loaded):
        return "it calls the driver, samples textures or copies in bulk"
    if in_full and watches_memory(loaded):
        return ""
    if gpu.samples_large and geometry.blocks * geometry.threads_per_block >= SAMPLED_THREADS:
        return "it is sampled"
    return ""


def launch_group(members: Sequence[Member]) -> list[Timed]:
    """Run launches that share a chip, in the order of their places where they wait for each other: of one GPU, or of clients (``sharing.py``).

    Raises:
        GroupError: a fault, a trap or a deadlock (``ExecutionError``) in one of them.
        KeyboardInterrupt: Ctrl-C.
    """
    found: dict[int, Timed] = {}
    while len(found) < len(members):
        rest = [number for number in range(len(members)) if number not in found]
        try:
            some = launch_until_idle([_later(members[number], rest, found) for number in rest])
        except GroupError as failure:
            raise GroupError(rest[failure.place], failure.error) from None
        found |= {number: one for number, one in zip(rest, some, strict=True) if one is not None}
    return [found[number] for number in range(len(members))]


def _later(member: Member, rest: Sequence[int], found: Mapping[int, Timed]) -> Member:
    """A launch among those that are left."""
    delays = member.delays_seconds or (0.0,) * len(member.after)
    waited = list(zip(member.after, delays, strict=True))
    ended = [found[other].end_seconds + delay for other, delay in waited if other in found]
    left = [(rest.index(other), delay) for other, delay in waited if other not in found]
    return replace(
        member,
        after=tuple(other for other, _ in left),
        early=tuple(rest.index(other) for other in member.early if other in rest),
        delays_seconds=tuple(delay for _, delay in left),
        earliest_seconds=max(member.earliest_seconds, *ended) if ended else member.earliest_seconds,
    )


def launch_until_idle(members: Sequence[Member], *, timed: bool = True) -> list[Timed | None]:
    """Run launches of one GPU that share its chip until it has nothing to do: None for each that begins later.

    Args:
        timed: without, the runs have no times: launches that wait for each other need a machine in which all go on.

    Raises:
        GroupError: a fault, a trap or a deadlock (``ExecutionError``) in one of them.
        KeyboardInterrupt: Ctrl-C.
    """
    windows: list[Window] = []
    try:
        jobs = make_jobs(members, windows)
        group = GroupJob(members, jobs)
        group.run()
    finally:
        for memory, window in windows:
            memory.free(window)
    clock = members[0].launcher.chip.clocks.sm_clock_mhz * 1e6
    found: list[Timed | None] = []
    for member, job, grid in zip(members, jobs, group.grids, strict=True):
        if grid is None:
            found.append(None)
            continue
        job.timing = job.timing if timed else None
        run = job.result()
        run.origin = member.origin
        found.append(Timed(run, grid.begin / clock, grid.end / clock))
        if session.on_launch is not None:
            session.on_launch(run)
    return found


def make_jobs(members: Sequence[Member], windows: list[Window]) -> list[Job]:
    """The jobs of launches that run at once; ``windows`` takes the memory of their parameters, which is to be freed."""
    jobs = []
    for member in members:
        context, window = launch_context(member.launcher, member.parameters)
        if window is not None:
            windows.append((member.launcher.kernel.gpu.memory, window))
        jobs.append(Job(member.launcher, context, checked=False, timed=True))
    if windows:
        for job in jobs:  # each is to see the parameters' memory of all
            job.context.show_allocations(job.launcher.kernel.gpu.memory.table())
    return jobs


class GroupJob(Job):
    """The worker's side and the waiting side of a group."""

    def __init__(self, members: Sequence[Member], jobs: Sequence[Job]) -> None:
        super().__init__(jobs[0].launcher, jobs[0].context, checked=False, timed=True)
        self.members, self.jobs = members, jobs
        self.grids: list[TimedGrid | None] = []

    def _progress(self, seconds: float, finished: bool = False) -> Progress:
        """Of all blocks; named after the first launch."""
        others = f" and {len(self.jobs) - 1} other launches" if len(self.jobs) > 1 else ""
        return replace(
            super()._progress(seconds, finished),
            kernel=f"{self.launcher.kernel.name}{others}",
            blocks=sum(job.context.geometry.blocks for job in self.jobs),
        )

    def _timed(self) -> None:
        from warpwright.timing.interface import Progress as TimingProgress
        from warpwright.timing.interface import TimingCancelled, TimingError

        gpu = self.launcher.kernel.gpu
        known = self._known()
        if known is not None:
            for job, grid in zip(self.jobs, known, strict=True):
                if grid is None:
                    continue
                job._functional()
                job.repeated = True
                job.timing = replace(grid.result, wall_seconds=job.wall_seconds, cpu_seconds=job.wall_seconds)
            self.grids = known
            return
        began = time.perf_counter()
        kernels = [traced(job.launcher.kernel._loaded, job.context) for job in self.jobs]
        self._start(began)

        def follow(progress: TimingProgress) -> None:
            self.phase, self.cycles = progress.phase, progress.cycles
            self.blocks_done = lambda: progress.blocks_done

        try:
            self.grids = self._simulate(kernels, follow)
        except (Cancelled, TimingCancelled):
            raise KeyboardInterrupt from None
        except TimingError as error:
            raise self.explained(error, kernels) from None
        for job, grid in zip(self.jobs, self.grids, strict=True):
            if grid is None:
                continue
            job.timing = grid.result
            job.wall_seconds = grid.result.wall_seconds
            job.counts = Counts(grid.instructions, grid.thread_instructions, job.context.geometry.blocks)
        if gpu.repeats is not None and self._key is not None:
            gpu.repeats.keep_group(
                self._key, self.grids, *(job.launcher.kernel._loaded for job in self.jobs), *self._how()
            )

    def _how(self) -> tuple[Any, ...]:
        return self.launcher.chip, self.launcher.kernel.gpu.policies

    def _known(self) -> list[TimedGrid | None] | None:
        """The times of an earlier group that began in the same state."""
        gpu = self.launcher.kernel.gpu
        self._key = None
        if gpu.repeats is None:
            return None
        order = tuple((m.priority, m.after, m.early, self._cycles(m)) for m in self.members)
        launches = [(job.launcher.kernel._loaded, job.context) for job in self.jobs]
        self._key = gpu.repeats.group_key(launches, order, *self._how(), kept=gpu.kept_caches)
        if gpu.memory.pages_move:
            # Its time depends on where pages are, and it moves them.
            self._key = None
        return gpu.repeats.find_group(self._key)

    def _cycles(self, member: Member) -> tuple[int, int, tuple[int, ...]]:
        """The gap, the earliest beginning and the delays of a launch, in cycles."""
        clock = self.launcher.chip.clocks.sm_clock_mhz * 1e6
        gap, earliest, *delays = (
            round(seconds * clock) for seconds in (member.gap_seconds, member.earliest_seconds, *member.delays_seconds)
        )
        return gap, earliest, tuple(delays)

    def make_grids(self, kernels: Sequence[Any]) -> list[Grid]:
        """The launches as sources of blocks."""
        from warpwright.timing.block_sources import Grid

        cycles = [self._cycles(member) for member in self.members]
        return [
            Grid(
                job.context.program,
                lowered_of(job.launcher.kernel._loaded),
                kernel,
                job.context,
                -member.priority,
                member.after,
                gap,
                delays,
                earliest,
                member.early,
                member.held,
                member.client,
                member.most_sms,
            )
            for member, job, kernel, (gap, earliest, delays) in zip(
                self.members, self.jobs, kernels, cycles, strict=True
            )
        ]

    def _simulate(self, kernels: Sequence[Any], follow: Any) -> list[TimedGrid | None]:
        from warpwright.timing.interface import Supervision
        from warpwright.timing.simulate import simulate_together

        gpu, chip = self.launcher.kernel.gpu, self.launcher.chip
        return simulate_together(
            chip,
            self.make_grids(kernels),
            Supervision(threads=gpu.threads, progress=follow, cancel=lambda: self.context.cancelled),
            policies=gpu.policies,
            kept=gpu.kept_caches,
        )

    def explained(self, error: Any, kernels: Sequence[Any]) -> Exception:
        """The error of the launch that it is about; of a deadlock of several, of the first one's warps."""
        from warpwright.timing.launch_errors import explain

        if not error.warps:
            return GroupError(0, error)
        address = error.warps[0]["launch"]
        error.warps = [warp for warp in error.warps if warp["launch"] == address]
        number = next(n for n, job in enumerate(self.jobs) if job.context.address == address)
        return GroupError(number, explain(error, self.jobs[number].context, kernels[number]))
