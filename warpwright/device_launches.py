"""Kernels on several GPUs that run at once in simulated time, and may wait for each other over memory that they share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from warpwright.engine.constant_bank0 import is_cooperative
from warpwright.engine.execute import Cancelled, Counts
from warpwright.engine.geometry import check_cooperative
from warpwright.engine.kernels import calls_services, copies_in_bulk, lowered_of, traced
from warpwright.engine.launch import GRID_WORKSPACE_BYTES
from warpwright.engine.launch_snapshot import LaunchSnapshot, hindrance
from warpwright.engine.multi_grid import Reaches, connect, state_of
from warpwright.engine.standstill import Among
from warpwright.engine.textures.launch_textures import uses_textures
from warpwright.errors import AssertionFailedError, LaunchError, TrapError, UnsupportedError, only_checked
from warpwright.launch_context import launch_context
from warpwright.launch_job import Job
from warpwright.messages import report
from warpwright.run import Progress, Run
from warpwright.session import session

if TYPE_CHECKING:
    from warpwright.engine.allocation import Allocation
    from warpwright.engine.device_memory import DeviceMemory
    from warpwright.kernel import Launcher
    from warpwright.timing.block_sources import Grid
    from warpwright.timing.device_group import DeviceLaunch
    from warpwright.timing.interface import Progress as TimingProgress
    from warpwright.timing.interface import TimingResult
    from warpwright.timing.unchanged_launches import Look


IN_FULL = "kernels of several GPUs that run at once are not sampled"
"""Why such a launch is timed in full with ``timing="sampled"``."""


@dataclass(frozen=True, slots=True)
class DeviceMember:
    """One GPU's launch."""

    launcher: Launcher
    parameters: bytes


def refuse(launcher: Launcher) -> None:
    """Refuse a launch that cannot run concurrently with those of other GPUs.

    Raises:
        UnsupportedError: the launch cannot.
    """
    loaded, name = launcher.kernel._loaded, launcher.kernel.name
    if calls_services(loaded) or uses_textures(loaded.program) or copies_in_bulk(loaded):
        raise UnsupportedError(
            f"{name} calls the driver (printf, malloc, assert), samples textures or uses bulk copies: such kernels run on one GPU at a "
            "time; launch the kernels one after the other"
        )
    if is_cooperative(loaded.program):
        check_cooperative(launcher.geometry, launcher.resident, launcher.chip, name)


def difference(members: Sequence[DeviceMember]) -> str:
    """How a launch differs from that of the first device; empty if all are equal."""
    first = members[0].launcher
    for number, member in enumerate(members):
        launcher = member.launcher
        for what, mine, others in (
            ("kernel", launcher.kernel.name, first.kernel.name),
            ("grid", launcher.geometry.grid, first.geometry.grid),
            ("block", launcher.geometry.block, first.geometry.block),
            ("cluster", launcher.geometry.cluster, first.geometry.cluster),
            (
                "dynamic shared memory",
                launcher.geometry.dynamic_shared_bytes,
                first.geometry.dynamic_shared_bytes,
            ),
        ):
            if mine != others:
                return f"the {what} of device {number} is {mine} and that of device 0 {others}; they must be equal"
        if launcher.kernel._loaded_module.compiled.cubin != first.kernel._loaded_module.compiled.cubin:
            return (
                f"the machine code of {launcher.kernel.name} on device {number} is not that of device 0; "
                "compile one source for chips of one architecture"
            )
    return ""


def refuse_unequal(members: Sequence[DeviceMember]) -> None:
    """Refuse launches that are not one cooperative launch on several devices.

    Raises:
        LaunchError: their kernels, grids, blocks or shared memory differ, or a grid does not fit its chip.
    """
    if apart := difference(members):
        raise LaunchError(f"a cooperative launch on several devices: {apart}")
    for member in members:
        launcher = member.launcher
        check_cooperative(launcher.geometry, launcher.resident, launcher.chip, launcher.kernel.name)


def refuse_checks(members: Sequence[DeviceMember]) -> None:
    """Refuse launches that the checks cannot follow together.

    Raises:
        UnsupportedError: they are not the same kernel with the same grid and block, or some of their GPUs have no checks.
    """
    names = ", ".join(dict.fromkeys(member.launcher.kernel.name for member in members))
    if not all(member.launcher.kernel.gpu.checker is not None for member in members):
        raise UnsupportedError(
            f"{names}: of GPUs whose kernels run at once, either all or none must have checks: make them with ww.System(NAME, check=...)"
        )
    if apart := difference(members):
        raise UnsupportedError(
            f"{names}: the checks can follow kernels of several GPUs that run at once only if they are equal, but {apart}. Omit --check (check=) for this launch, "
            "or launch the kernels one after the other if they do not wait for each other"
        )


def launch_on_devices(members: Sequence[DeviceMember], *, reaches: Reaches | None = None) -> list[Run]:
    """Run one launch on each of several GPUs, all beginning at the same moment; the runs in the order of the launches.

    Args:
        reaches: which of the GPUs can access each other's memory; the launches are then one cooperative launch, whose ``multi_grid_group`` has all grids.

    Raises:
        UnsupportedError: a launch that cannot run beside others, two launches on one GPU, or GPUs of a cooperative launch that peer access does not join.
        LaunchError: a cooperative grid does not fit its chip, or the launches of a cooperative launch differ.
        ExecutionError: a fault or a trap in one of them, or a deadlock of those that are left.
        KeyboardInterrupt: Ctrl-C.
    """
    gpus = [member.launcher.kernel.gpu for member in members]
    if len({id(gpu) for gpu in gpus}) < len(gpus):
        raise UnsupportedError("two of the launches are on the same GPU: give one for each GPU")
    if reaches is not None:
        refuse_unequal(members)
    for member in members:
        refuse(member.launcher)
    if any(gpu.checker is not None for gpu in gpus):
        runs = _run_checked(members, reaches)
    else:
        runs = _run_once(members, reaches, checked=False)
    if session.on_launch is not None:
        for run in runs:
            session.on_launch(run)
    return runs


def _run_checked(members: Sequence[DeviceMember], reaches: Reaches | None) -> list[Run]:
    """Run the launches under the checks and, if timing was requested and they can be repeated, once more from the same state with timing."""
    refuse_checks(members)
    gpus = [member.launcher.kernel.gpu for member in members]
    timed = any(gpu.timing != "off" for gpu in gpus) or session.times_checked
    reason = _not_repeatable(members) if timed else ""
    if reason:
        report(f"a launch of {members[0].launcher.kernel.name} is checked but not timed: {reason}")
    before = [LaunchSnapshot(memory) for memory in _changeable(members)] if timed and not reason else []
    runs = _run_once(members, reaches, checked=True)
    if not before:
        for run in runs if reason else ():
            run.why_untimed = only_checked(reason)
        return runs
    for snapshot in before:
        snapshot.restore()
    return _run_once(members, reaches, checked=False)


def _changeable(members: Sequence[DeviceMember]) -> list[DeviceMemory]:
    """The memories of devices that the launches can change: their own, and those of peers."""
    own = [member.launcher.kernel.gpu.memory for member in members]
    return list(dict.fromkeys([*own, *(peer for memory in own for peer in memory.peers())]))


def _not_repeatable(members: Sequence[DeviceMember]) -> str:
    """Why the launches cannot be repeated from the same state; empty if they can."""
    memories = _changeable(members)
    reasons = (
        hindrance(one.launcher.kernel._loaded.program, one.launcher.kernel.gpu.memory, memories) for one in members
    )
    return next((reason for reason in reasons if reason), "")


NO_MULTI_GRID = (
    "if the kernel calls this_multi_grid(): its functions trap unless the launch is cooperative (cooperative=True, "
    "cudaLaunchCooperativeKernelMultiDevice) and the source is compiled with -rdc=true"
)


def _run_once(members: Sequence[DeviceMember], reaches: Reaches | None, *, checked: bool) -> list[Run]:
    """Run the launches once, either under the checks or, as their GPUs ask, with timing."""
    held: list[tuple[DeviceMemory, Allocation]] = []
    try:
        workspaces = _workspaces(members, reaches, held)
        jobs = []
        for member, workspace in zip(members, workspaces, strict=True):
            launcher, memory = member.launcher, member.launcher.kernel.gpu.memory
            context, window = launch_context(launcher, member.parameters, workspace)
            if window is not None:
                held.append((memory, window))
            context.is_cooperative = workspace is not None
            if reaches is not None and len(members) > 1:
                context.grid_barrier = 0  # its barrier is of all grids
            jobs.append(Job(launcher, context, checked=checked, timed=not checked))
        joined = [one for one in workspaces if one is not None] if reaches is not None else []
        try:
            _DevicesJob(jobs, joined, checked=checked).run()
        except TrapError as error:
            program = members[0].launcher.kernel._loaded.program
            if isinstance(error, AssertionFailedError) or (reaches is not None and is_cooperative(program)):
                raise
            raise TrapError(f"{error}\n  {NO_MULTI_GRID}") from None
    finally:
        for memory, allocation in held:
            memory.free(allocation)
    runs = []
    for job in jobs:
        if job.launcher.kernel.gpu.timing == "off" and not session.times_checked:
            job.timing = None
        run = job.result()
        sampled = job.launcher.kernel.gpu.timing == "sampled"
        run.timed_in_full = IN_FULL if run.timed and sampled and run.sampling is None else ""
        runs.append(run)
    return runs


def _workspaces(
    members: Sequence[DeviceMember], reaches: Reaches | None, held: list[tuple[DeviceMemory, Allocation]]
) -> list[Allocation | None]:
    """Memory of the barriers of each launch, None for kernels without; entered in ``held`` as soon as it is allocated."""
    memories = [member.launcher.kernel.gpu.memory for member in members]
    synchronise = [is_cooperative(member.launcher.kernel._loaded.program) for member in members]
    if reaches is not None and all(synchronise):
        joined = connect(memories, reaches, members[0].launcher.kernel.name)
        held += zip(memories, joined, strict=True)
        return list(joined)
    found: list[Allocation | None] = []
    for member, memory, synchronises in zip(members, memories, synchronise, strict=True):
        workspace = None
        if synchronises:
            workspace = memory.allocate(GRID_WORKSPACE_BYTES, f"grid barrier of {member.launcher.kernel.name}")
            held.append((memory, workspace))
        found.append(workspace)
    return found


def as_device_launches(jobs: Sequence[Job], kernels: Sequence[Any]) -> list[DeviceLaunch]:
    """One launch on each of several devices, as the timing model takes them."""
    from warpwright.timing.block_sources import Grid
    from warpwright.timing.device_group import DeviceLaunch

    launches = []
    for job, kernel in zip(jobs, kernels, strict=True):
        gpu, loaded = job.launcher.kernel.gpu, job.launcher.kernel._loaded
        grid = Grid(job.context.program, lowered_of(loaded), kernel, job.context)
        launches.append(DeviceLaunch(job.launcher.chip, grid, gpu.policies, gpu.kept_caches))
    return launches


def take(job: Job, result: TimingResult) -> None:
    """Give a job what the timing model found of its launch."""
    job.timing, job.wall_seconds = result, result.wall_seconds
    job.counts = Counts.of_metrics(result.metrics, job.context.geometry.blocks)


class _DevicesJob(Job):
    """The worker's side and the waiting side of launches on several GPUs."""

    def __init__(self, jobs: Sequence[Job], joined: Sequence[Allocation] = (), *, checked: bool = False) -> None:
        super().__init__(jobs[0].launcher, jobs[0].context, checked=checked, timed=not checked)
        self.jobs, self.joined = jobs, joined
        for job in jobs if checked else ():
            checker = job.launcher.kernel.gpu.checker
            assert checker is not None
            checker.launching()  # in the thread whose calls its findings name; another one executes

    def _progress(self, seconds: float, finished: bool = False) -> Progress:
        """Of the blocks of all GPUs; named after the first launch."""
        return replace(
            super()._progress(seconds, finished),
            kernel=self.launcher.kernel.name + (f" on {len(self.jobs)} GPUs" if len(self.jobs) > 1 else ""),
            blocks=sum(job.context.geometry.blocks for job in self.jobs),
        )

    def _functional(self) -> None:
        """Under the checks."""
        began = time.perf_counter()
        first = self.launcher.kernel.gpu.checker
        assert first is not None
        launches = []
        for job in self.jobs:
            checker, kernel = job.launcher.kernel.gpu.checker, job.launcher.kernel
            assert checker is not None
            at_once = job.launcher.resident.blocks_per_sm * job.launcher.chip.sm.sm_count
            launches.append(checker.execution(kernel._loaded, job.context, at_once, kernel._loaded_module.compiled.ptx))
        blocks = self.context.geometry.blocks
        execution = first.together(launches, lambda number, ended: self._among(number, ended, blocks))
        self._start(began)
        self.blocks_done = lambda: execution.blocks_done
        try:
            counts = execution.run()
        except Cancelled as stop:
            self.positions = stop.where
            raise KeyboardInterrupt from None
        wall = time.perf_counter() - began - self.compile_seconds
        for job, found in zip(self.jobs, counts, strict=True):
            job.counts, job.wall_seconds = found, wall / len(counts)

    def _timed(self) -> None:
        from warpwright.timing.device_group import DeviceError, simulate_devices
        from warpwright.timing.interface import TimingCancelled

        began = time.perf_counter()
        look, named = self._look_at_all()
        if look is not None and look.known is not None:
            for job, (timing, counts) in zip(self.jobs, look.known.results, strict=True):
                job.skip(timing, counts, began)
            return
        kernels = [traced(job.launcher.kernel._loaded, job.context) for job in self.jobs]
        self._start(began)
        launches = as_device_launches(self.jobs, kernels)

        def follow(progress: TimingProgress) -> None:
            self.phase, self.cycles = progress.phase, progress.cycles
            self.blocks_done = lambda: progress.blocks_done

        try:
            if len(self.jobs) == 1 and self.jobs[0].samples_steps():
                results = [self._sampled_alone(launches[0].grid, follow)]
            else:
                results = simulate_devices(
                    launches,
                    progress=follow,
                    cancel=lambda: self.context.cancelled,
                    threads=max(job.launcher.kernel.gpu.threads for job in self.jobs),
                )
        except (Cancelled, TimingCancelled):
            raise KeyboardInterrupt from None
        except DeviceError as failure:
            raise self._explained(failure, kernels) from None
        for job, result in zip(self.jobs, results, strict=True):
            take(job, result)
        if look is not None:
            found = [(result, job.counts) for job, result in zip(self.jobs, results, strict=True)]
            self.launcher.kernel.gpu.unchanged.keep(look, [job.context for job in self.jobs], found, *named)

    def _sampled_alone(self, grid: Grid, follow: Callable[[TimingProgress], None]) -> TimingResult:
        """Time the launch of the only device until its steps between barriers repeat, and estimate the rest."""
        from warpwright.timing.device_group import DeviceError
        from warpwright.timing.interface import Supervision, TimingError
        from warpwright.timing.step_sampling import simulate_steps

        gpu = self.launcher.kernel.gpu
        host = Supervision(threads=gpu.threads, progress=follow, cancel=lambda: self.context.cancelled)
        try:
            result = simulate_steps(self.launcher.chip, grid, host, policies=gpu.policies, kept=gpu.kept_caches)
        except TimingError as error:
            raise DeviceError(0, error, ()) from None
        self.forget_caches(result)
        return result

    def _look_at_all(self) -> tuple[Look | None, list[Any]]:
        """An earlier launch that did what this one would do, None where that cannot be known; and what its key names by identity."""
        gpus = [job.launcher.kernel.gpu for job in self.jobs]
        if any(gpu.repeats is None for gpu in gpus):
            return None, []
        named: list[Any] = []
        may = []
        for job, gpu in zip(self.jobs, gpus, strict=True):
            how = (job.launcher.chip, gpu.policies, None)
            may.append(job.begin(how))
            named += [job.launcher.kernel._loaded, *how]
        if not all(may):
            return None, []
        kind = tuple(job.exactly for job in self.jobs), tuple(map(id, gpus))
        found = tuple(job.begins.found for job in self.jobs if job.begins is not None)
        return gpus[0].unchanged.look(kind, found, [job.context for job in self.jobs]), [*named, *gpus]

    def _explained(self, failure: Any, kernels: Sequence[Any]) -> Exception:
        """The failure as the error of its GPU's launch, with the state of the other GPUs."""
        from warpwright.timing.launch_errors import explain

        job = self.jobs[failure.device]
        among = self._among(failure.device, failure.ended, job.context.geometry.blocks)
        return explain(failure.error, job.context, kernels[failure.device], among)

    def _among(self, number: int, ended: Sequence[int], blocks: int) -> Among:
        """A GPU's launch among the others, of which some have ended."""
        rest = [str(other) for other in range(len(self.jobs)) if other not in ended]
        note = f"launches on {len(self.jobs)} GPUs at once: this is GPU {number} of them"
        note += f"; ended: {', '.join(map(str, ended)) or 'none'}; not ended: {', '.join(rest)}"
        lines = [note]
        if self.joined:
            memories = [one.launcher.kernel.gpu.memory for one in self.jobs]
            lines.append(state_of(memories, self.joined, blocks))
        return Among(lines, bool(self.joined))
