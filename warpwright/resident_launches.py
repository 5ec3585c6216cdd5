"""Launches that stay on the chip while the host works: kernels that poll memory which a host function, a copy or the host's threads answer.

Their machine stops where one of them ends, and at the time of the host's next work (``timing/stopping.py``).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from warpwright.engine.execute import Cancelled, Counts
from warpwright.engine.kernels import traced
from warpwright.errors import ExecutionError
from warpwright.isa.services import LAUNCHES
from warpwright.launch_context import assembled
from warpwright.launch_groups import GroupError, GroupJob, Member, Timed, Window, make_jobs
from warpwright.launch_job import Job
from warpwright.session import session

if TYPE_CHECKING:
    from warpwright.kernel import Launcher
    from warpwright.timing.simulate import Prepared
    from warpwright.timing.stopping import StoppingMachine


def may_stop(launcher: Launcher, checked: bool) -> bool:
    """Whether a launch that polls memory can be in a machine that stops, be it alone there.

    Args:
        checked: whether the checks of its GPU, if it has any, watch this launch.
    """
    unwatched = launcher.kernel.gpu.checker is None or not checked
    return unwatched and LAUNCHES not in launcher.kernel._loaded.program.services


class ResidentLaunches:
    """Launches of one GPU in a machine that stops.

    Caches that the GPU keeps belong to the machine until it is closed: other launches begin with cold ones.
    """

    def __init__(self, members: Sequence[Member], *, timed: bool) -> None:
        self._gpu = members[0].launcher.kernel.gpu
        self._origins = [member.origin for member in members]
        self._timed = timed
        self._windows: list[Window] = []
        self._kept = self._gpu.kept_caches
        self._closed = False
        self._alone = ExitStack()
        """What a launch that shares its machine with no other needs while it runs."""
        try:
            self._job = _Slice(members, self._make_jobs(members))
        except BaseException:
            self._free()
            raise
        self._clock = self._job.launcher.chip.clocks.sm_clock_mhz * 1e6
        self._gpu.kept_caches = None

    def _make_jobs(self, members: Sequence[Member]) -> list[Job]:
        if len(members) > 1:
            return make_jobs(members, self._windows)
        launcher = members[0].launcher
        context, _ = self._alone.enter_context(assembled(launcher, members[0].parameters, members[0].cooperative))
        return [Job(launcher, context, checked=False, timed=True)]

    @property
    def now_seconds(self) -> float:
        """Its clock, since it began."""
        machine = self._job.machine
        return machine.now / self._clock if machine is not None else 0.0

    def stand(self, seconds: float) -> None:
        """Advance the clocks that its kernels read, while it stands still."""
        self._job.made().stand(round(seconds * self._clock))

    @property
    def machine(self) -> Prepared:
        """Its machine, which is made now if it has not run."""
        return self._job.made().launch

    @property
    def done(self) -> bool:
        """Nothing is left on the chip, and nothing comes by itself."""
        return self._job.machine is not None and self._job.machine.done

    def run(self, until_seconds: float | None) -> dict[int, Timed]:
        """Run up to a time, the end of a launch, or a tenth of a second of the host's; the launches that have ended, by their places.

        Raises:
            GroupError: a fault, a trap or a deadlock (``ExecutionError``) in one of them.
            KeyboardInterrupt: Ctrl-C.
        """
        job = self._job
        job.kept = self._kept
        job.until = None if until_seconds is None else round(until_seconds * self._clock)
        job.failure, job.ended = None, []
        try:
            job.run()
            if self.done:
                self._alone.close()
        except (GroupError, ExecutionError) as failure:
            raise GroupError(getattr(failure, "place", 0), self._said_of(getattr(failure, "error", failure))) from None
        return {number: self._result(number) for number in job.ended}

    def _said_of(self, error: Exception) -> Exception:
        """An error with what the context of a launch alone knows of it."""
        try:
            if self._alone.__exit__(type(error), error, None):
                return error
        except Exception as other:
            return other
        return error

    def _result(self, number: int) -> Timed:
        job, grid = self._job.jobs[number], self._job.grids_ended[number]
        job.timing = grid.result if self._timed else None
        job.counts = Counts(grid.instructions, grid.thread_instructions, job.context.geometry.blocks)
        job.wall_seconds = self._job.host_seconds[number]
        run = job.result()
        run.origin = self._origins[number]
        if session.on_launch is not None:
            session.on_launch(run)
        return Timed(run, grid.begin / self._clock, grid.end / self._clock)

    def stop(self) -> None:
        """Let the running :meth:`run` return after its current window."""
        assert self._job.machine is not None
        self._job.machine.stop()

    def release(self, number: int, seconds: float) -> None:
        """Let a held launch begin, no earlier than at a time."""
        machine = self._job.machine
        assert machine is not None
        machine.release(number, round(seconds * self._clock))

    def repeats(self) -> bool:
        """Whether all warps only repeat themselves, as far as can be seen so far."""
        return self._job.machine is not None and self._job.machine.repeats()

    def deadlock(self) -> Exception:
        """The error of launches that will never end."""
        from warpwright.timing.simulate import deadlock

        assert self._job.machine is not None
        return self._job.explained(deadlock(self._job.machine.launch.state, repeats=True), self._job.kernels)

    def close(self) -> None:
        """Give the machine up, or leave its caches where all has ended."""
        if self._closed:
            return
        self._closed = True
        self._gpu.kept_caches = self._kept
        machine = self._job.machine
        if machine is not None and machine.done:
            machine.close()
            if self._kept is not None:
                self._kept.launched(object())  # what this group has left, no later one finds again
        elif self._kept is not None:
            self._kept.drop()
        self._free()

    def _free(self) -> None:
        self._alone.close()
        for memory, window in self._windows:
            memory.free(window)
        self._windows.clear()


class _Slice(GroupJob):
    """The worker's side: one stretch of the machine's time after another."""

    def __init__(self, members: Sequence[Member], jobs: Sequence[Any]) -> None:
        super().__init__(members, jobs)
        self.machine: StoppingMachine | None = None
        self.kernels: list[Any] = []
        self.kept: Any = None
        self.until: int | None = None
        self.ended: list[int] = []
        self.grids_ended: dict[int, Any] = {}
        self.host_seconds = [0.0] * len(jobs)
        """Host time of each launch: that of the machine, divided equally among the launches that had not ended."""

    def made(self) -> StoppingMachine:
        """The machine, which is made when it is first asked for."""
        from warpwright.timing.stopping import StoppingMachine

        if self.machine is None:
            self.kernels = [traced(job.launcher.kernel._loaded, job.context) for job in self.jobs]
            self.phase = "running"
            grids = self.make_grids(self.kernels)
            self.machine = StoppingMachine(self.launcher.chip, grids, self.launcher.kernel.gpu.policies, self.kept)
        return self.machine

    def _timed(self) -> None:
        from warpwright.timing.interface import TimingCancelled, TimingError
        from warpwright.timing.simulate import is_model_loaded

        gpu = self.launcher.kernel.gpu
        machine = self.made()
        began = time.perf_counter()
        try:
            self.phase = "running" if is_model_loaded() else "model"
            # What kernels print and where malloc puts things is the same in every run on one thread alone.
            single = self.context.program.services or self.context.textures is not None
            self.ended = machine.run(self.until, 1 if single else gpu.threads, lambda: self.context.cancelled)
            self.phase = "running"
        except (Cancelled, TimingCancelled):
            raise KeyboardInterrupt from None
        except TimingError as error:
            raise self.explained(error, self.kernels) from None
        left = [number for number in range(len(self.jobs)) if number not in self.grids_ended]
        for number in left:
            self.host_seconds[number] += (time.perf_counter() - began) / len(left)
        for number in self.ended:
            self.grids_ended[number] = machine.grid(number)
