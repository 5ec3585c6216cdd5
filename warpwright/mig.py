"""A card in MIG mode in this process: its instances as GPUs, whose kernels run at once in one simulated clock.

card = MigGPU("a100")
small, large = card.create("1g.5gb"), card.create("3g.20gb")
small.compile(source)                                         # each instance is a GPU of its own
card.launch((one[grid, block], arguments), (other[grid, block], arguments))

Nothing of one instance is another's: their launches have the cycles that they have alone, and a fault, a hang or an overrun ends its own launch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warpwright.api import GPU
from warpwright.chips import load_chip
from warpwright.device_launches import as_device_launches, refuse, take
from warpwright.engine.constant_bank0 import is_cooperative
from warpwright.engine.kernels import traced
from warpwright.errors import ExecutionError, UnsupportedError
from warpwright.launch_context import launch_context
from warpwright.launch_job import Job
from warpwright.run import Run
from warpwright.session import session
from warpwright.system.mig import ComputeInstance, GpuInstance, MigCard, card_uuid

if TYPE_CHECKING:
    from warpwright.engine.allocation import Allocation
    from warpwright.engine.device_memory import DeviceMemory
    from warpwright.kernel import Launcher


class InstanceGPU(GPU):
    """A GPU instance (or one compute instance of it) as a GPU."""

    instance: GpuInstance
    compute: ComputeInstance
    uuid: str


class MigGPU:
    """A card whose instances exist only in this process.

    Args:
        chip: a chip with MIG (``a100``).
        options: what every instance's GPU is made with, such as ``timing="off"``.

    Raises:
        MigError: the chip has no MIG mode here.
    """

    def __init__(self, chip: str = "a100", **options: Any) -> None:
        found = load_chip(chip)
        self.card = MigCard(found, card_uuid(found.name, 0))
        self.card.set_enabled(True)
        self.gpus: list[InstanceGPU] = []
        self._options = options

    def create(self, profile: str | int, start: int | None = None, *, compute_slices: int | None = None) -> InstanceGPU:
        """Make a GPU instance with a compute instance, and return it as a GPU.

        Args:
            start: first memory slice; the first that is free by default.
            compute_slices: of its compute instance; all by default.

        Raises:
            MigError: there is no room, or no such place.
        """
        made = self.card.create(profile, start)
        try:
            compute = made.create_compute(compute_slices)
        except BaseException:
            self.card.destroy(made.number)
            raise
        gpu = InstanceGPU(made.chip(self.card.chip, compute), **self._options)
        gpu.instance, gpu.compute, gpu.uuid = made, compute, self.card.device_uuid(made, compute)
        self.gpus.append(gpu)
        return gpu

    def destroy(self, gpu: InstanceGPU) -> None:
        """Destroy an instance and its arrays."""
        self.card.destroy_compute(gpu.instance.number, gpu.compute.number)
        self.card.destroy(gpu.instance.number)
        self.gpus.remove(gpu)

    def launch(self, *launches: tuple[Launcher, Sequence[Any]]) -> list[Run | ExecutionError]:
        """Run one kernel on each of several instances, all at once: its run, or its own error.

        Raises:
            UnsupportedError: two launches on one instance, an instance of another card, or a kernel that cannot run beside others.
            ArgumentError: arguments do not fit a kernel's parameters; nothing has run then.
            KeyboardInterrupt: Ctrl-C.
        """
        from warpwright.engine.arguments import pack

        if not launches or not all(isinstance(one, tuple | list) and len(one) == 2 for one in launches):
            raise UnsupportedError("launch() takes launches as pairs: (kernel[grid, block], (argument, …)), …")
        gpus = [launcher.kernel.gpu for launcher, _ in launches]
        if len({id(gpu) for gpu in gpus}) < len(gpus) or any(gpu not in self.gpus for gpu in gpus):
            raise UnsupportedError("give one launch for each of several instances of this card")
        for launcher, _ in launches:
            refuse(launcher)
            gpu = launcher.kernel.gpu
            if is_cooperative(launcher.kernel._loaded.program) or gpu.timing != "full" or gpu.checker is not None:
                raise UnsupportedError(
                    f"{launcher.kernel.name}: instances run at once with timing='full', without checks or grid barriers"
                )
        packed = []
        held: list[tuple[DeviceMemory, Allocation]] = []
        try:
            for launcher, arguments in launches:
                packed.append(
                    pack(launcher.kernel.parameters, launcher.kernel.name, arguments, launcher.kernel.gpu.memory)
                )
            jobs = [
                _job(launcher, bytes(one.parameters), held) for (launcher, _), one in zip(launches, packed, strict=True)
            ]
            group = _IsolatedJob(jobs)
            group.run()
            for one, outcome in zip(packed, group.outcomes, strict=True):
                if outcome is None:
                    one.copy_back()
        finally:
            for one in packed:
                one.release()
            for memory, allocation in held:
                memory.free(allocation)
        return [_finished(job, outcome) for job, outcome in zip(jobs, group.outcomes, strict=True)]


def _job(launcher: Launcher, parameters: bytes, held: list[tuple[DeviceMemory, Allocation]]) -> Job:
    context, window = launch_context(launcher, parameters)
    if window is not None:
        held.append((launcher.kernel.gpu.memory, window))
    return Job(launcher, context, checked=False, timed=True)


def _finished(job: Job, outcome: ExecutionError | None) -> Run | ExecutionError:
    if outcome is not None:
        return outcome
    run = job.result()
    job.launcher.kernel.gpu.launches.append(run)
    if session.on_launch is not None:
        session.on_launch(run)
    return run


class _IsolatedJob(Job):
    """The worker's side and the waiting side of launches on several instances."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        super().__init__(jobs[0].launcher, jobs[0].context, checked=False, timed=True)
        self.jobs = jobs
        self.outcomes: list[ExecutionError | None] = []

    def _timed(self) -> None:
        from warpwright.timing.interface import TimingCancelled, TimingError
        from warpwright.timing.isolated_devices import simulate_isolated
        from warpwright.timing.launch_errors import explain

        began = time.perf_counter()
        kernels = [traced(job.launcher.kernel._loaded, job.context) for job in self.jobs]
        self._start(began)
        try:
            found = simulate_isolated(as_device_launches(self.jobs, kernels), cancel=lambda: self.context.cancelled)
        except TimingCancelled:
            raise KeyboardInterrupt from None
        for job, kernel, one in zip(self.jobs, kernels, found, strict=True):
            if isinstance(one, TimingError):
                error = explain(one, job.context, kernel)
                if not isinstance(error, ExecutionError):
                    raise error
                self.outcomes.append(error)
                continue
            self.outcomes.append(None)
            take(job, one)
