"""Kernels beside the draws of a recorded frame, which share the SMs and the memory of one simulated chip (``graphics/timed/compute_work.py``).

A program cannot submit both today: CUDA programs do not run unmodified on chips with the graphics pipeline.  The frame is therefore a recording
(``warpwright run --record``), and the kernels are launched from Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.arguments import pack
from warpwright.engine.kernels import lowered_of, traced
from warpwright.errors import UnsupportedError
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.recording import Replay, last_image
from warpwright.graphics.timed.compute_work import KernelWork
from warpwright.graphics.timed.frame import FrameTime, frame_of
from warpwright.launch_groups import Member, Window, hinders, make_jobs
from warpwright.timing.block_sources import Grid
from warpwright.timing.interface import TimingError
from warpwright.timing.launch_errors import explain

if TYPE_CHECKING:
    from warpwright.kernel import Launcher
    from warpwright.launch_job import Job


@dataclass(frozen=True, slots=True)
class SharedFrame:
    """A frame that was drawn while kernels ran."""

    frame: FrameTime
    """The time of each draw, and of each kernel in ``kernels``."""
    image: npt.NDArray[np.uint8] | None
    """The last target drawn to, as bytes (height, width, 4)."""
    is_same: bool | None
    """Whether the device's memory ended as recorded; None if the recording has no end."""


def refuse(launcher: Launcher) -> None:
    """Refuse a launch that cannot run beside draws.

    Raises:
        UnsupportedError: the launch cannot.
    """
    reason = hinders(launcher)
    if reason:
        raise UnsupportedError(f"{launcher.kernel.name} cannot run beside draws: {reason}; launch it alone")


def replay_beside(
    recording: Path, *launches: tuple[Launcher, Sequence[Any]], balance: str = "dynamic", times_copies: bool = True
) -> SharedFrame:
    """Replay a frame while kernels run: they begin together with the first batch of draws.

    Args:
        launches: a launcher (``kernel[grid, block]``) and its arguments for each kernel, all of one GPU; its chip draws the frame.
        balance: how the SM controllers choose between vertices, primitives, pixels and blocks (a name in ``sm_controllers.BALANCES``).
        times_copies: whether uploads and copies of the frame take time; otherwise all draws can be in one batch.

    Returns:
        The frame; arrays of the host have the kernels' results.

    Raises:
        ArgumentError: arguments do not fit a kernel's parameters.
        UnsupportedError: the chip has no modelled graphics pipeline, the kernels are of several GPUs, or one of them cannot run beside draws.
        ExecutionError: a fault or a trap in a kernel.
        RecordingError: the file is damaged.
    """
    gpus = {id(launcher.kernel.gpu) for launcher, _ in launches}
    if len(gpus) != 1:
        raise UnsupportedError(
            f"kernels of {len(gpus)} GPUs: those beside one frame are of one GPU, whose chip draws it"
        )
    for launcher, _ in launches:
        refuse(launcher)
    chip = launches[0][0].kernel.gpu.chip
    windows: list[Window] = []
    packed = []
    try:
        for launcher, arguments in launches:
            kernel = launcher.kernel
            packed.append(pack(kernel.parameters, kernel.name, arguments, kernel.gpu.memory))
        members = [Member(launcher, bytes(one.parameters)) for (launcher, _), one in zip(launches, packed, strict=True)]
        frame = _replay(Replay(recording, chip, balance), make_jobs(members, windows), times_copies)
        for one in packed:
            one.copy_back()
    finally:
        for memory, window in windows:
            memory.free(window)
        for one in packed:
            one.release()
    return frame


def _replay(replay: Replay, jobs: Sequence[Job], times_copies: bool) -> SharedFrame:
    kernels = [traced(job.launcher.kernel._loaded, job.context) for job in jobs]

    def launch(device: GraphicsDevice) -> None:
        assert device.timer is not None
        device.timer.times_copies = times_copies
        for job, kernel in zip(jobs, kernels, strict=True):
            grid = Grid(job.context.program, lowered_of(job.launcher.kernel._loaded), kernel, job.context)
            device.timer.launch(KernelWork(job.launcher.kernel.name, grid))

    replay.on_device = launch
    try:
        replay.run()
        assert replay.device is not None
        assert replay.device.timer is not None
        return SharedFrame(frame_of(replay.device.timer), last_image(replay.device), replay.is_same)
    except TimingError as error:
        address = error.warps[0]["launch"] if error.warps else jobs[0].context.address
        number = next((n for n, job in enumerate(jobs) if job.context.address == address), 0)
        raise explain(error, jobs[number].context, kernels[number]) from None
