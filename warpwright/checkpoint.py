"""Checkpoints of a launch in the middle, and going on from one: in another process, or on another instance of the same size.

gpu.checkpoints = Checkpoints("run.ckpt", every_cycles=1_000_000)
kernel[grid, block](…)                                       # writes run.ckpt now and then
resumed = resume("run.ckpt")                                 # in another process
resumed.run.cycles, resumed.array("y", np.float32)

A checkpoint holds the machine, the device's memory, the machine code and the launch.  The launch ends at the cycle at which it would have ended without, with the
same memory, counters and stall reasons.  The file has no code of Python in it: it is a ZIP archive of NumPy arrays and a text in JSON.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright.api import GPU
from warpwright.chips import Chip
from warpwright.engine.abi import DEVICE_BASE
from warpwright.engine.allocation import Allocation
from warpwright.engine.execute import Counts
from warpwright.engine.kernels import lowered_of, traced
from warpwright.errors import UnsupportedError, WarpwrightError, whole_number
from warpwright.kernel import Kernel, Launcher
from warpwright.launch_context import launch_context
from warpwright.launch_job import Job
from warpwright.run import Run
from warpwright.session import session

if TYPE_CHECKING:
    from warpwright.timing.checkpoint import MachineCheckpoint
    from warpwright.timing.simulate import Prepared

FORMAT = 1
"""Of the file; the state of a machine is this version's, and another version's cannot go on from it."""
PAGE_BYTES = 4096
EVERY_CYCLES = 1_000_000


class CheckpointError(WarpwrightError, ValueError):
    """A file that is not a checkpoint, or that the model or the GPU given cannot go on from."""


class CheckpointTaken(WarpwrightError):
    """A launch was ended after its first checkpoint (``Checkpoints(stop=True)``)."""


class Checkpoints:
    """Where and how often a GPU's launches write a checkpoint; assign it to ``gpu.checkpoints``.

    Args:
        path: the file; each checkpoint replaces the one before.
        every_cycles: simulated cycles between two checkpoints.
        stop: end the launch after the first one, with :class:`CheckpointTaken`.
    """

    def __init__(self, path: str | os.PathLike[str], *, every_cycles: int = EVERY_CYCLES, stop: bool = False) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"Checkpoints(path) takes the path of a file, not {path!r}")
        whole_number("Checkpoints(every_cycles)", every_cycles)
        if every_cycles < 1:
            raise CheckpointError(f"a checkpoint every {every_cycles} cycles: at least one cycle")
        self.path, self.every_cycles, self.stop = Path(path), every_cycles, stop
        self.taken = 0
        """Checkpoints so far."""

    def run(self, launcher: Launcher, launch: Prepared, advance: Callable[[], bool]) -> None:
        """Run a launch to its end with checkpoints.

        Args:
            advance: runs some windows; False at the end.
        """
        from warpwright.timing import state as s

        now = launch.state.words
        due = int(now[s.chip.now]) // self.every_cycles * self.every_cycles + self.every_cycles
        while advance():
            if int(now[s.chip.now]) < due:
                continue
            due += self.every_cycles
            write(self.path, launcher, launch)
            self.taken += 1
            if self.stop:
                raise CheckpointTaken(
                    f"{self.path} is written at cycle {int(now[s.chip.now]):,}: resume it with warpwright resume {self.path}"
                )


# --- the file ------------------------------------------------------------------------------------------
def _model_version() -> str:
    """The version of the model's state, which must be equal for a checkpoint to be resumed."""
    from warpwright.timing import state as s

    units = {
        unit.__name__: [(name, one.offset, one.size) for name, one in unit.fields.items()]
        for unit in (s.Header, s.Kernel, s.SM, s.Warp)
    }
    import hashlib

    return hashlib.sha256(json.dumps(units).encode()).hexdigest()[:16]


def write(path: Path, launcher: Launcher, launch: Prepared) -> None:
    """Write a checkpoint of a launch; the file appears when it is complete.

    Raises:
        UnsupportedError: the launch cannot be saved.
    """
    from warpwright.timing.checkpoint import save

    kernel, gpu = launcher.kernel, launcher.kernel.gpu
    if launcher.partition is not None or gpu.memory.base != DEVICE_BASE:
        raise UnsupportedError(f"{kernel.name}: checkpoints are of launches of ww.GPU on all of its SMs")
    saved = save(launch)
    context, geometry = launch.grids[0].context, launch.grids[0].context.geometry
    base, size = kernel._loaded.program.parameter_base_bytes, kernel._loaded.program.parameter_size_bytes
    meta = {
        "format": FORMAT,
        "model": _model_version(),
        "chip": launch.chip.model_dump_json(),
        "policies": [gpu.policies.scheduler.__name__, gpu.policies.l1_replacement.__name__],
        "module": kernel._loaded_module.compiled.name,
        "kernel": kernel._loaded.kernel.name,
        "grid": geometry.grid,
        "block": geometry.block,
        "dynamic_shared_bytes": geometry.dynamic_shared_bytes,
        "parameters": bytes(context.banks[0][base : base + size]).hex(),
        "cycle": saved.cycle,
        "sizes": saved.sizes,
        "bases": saved.bases,
        "tables": saved.tables,
        "allocations": [[a.address, a.size_bytes, a.name] for a in gpu.memory],
    }
    fresh = path.with_suffix(path.suffix + ".new")
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("checkpoint.json", json.dumps(meta))
        file.writestr("module.cubin", kernel._loaded_module.compiled.cubin)
        for name, (numbers, rows) in saved.pages.items():
            _put(file, f"machine/{name}.pages", numbers)
            _put(file, f"machine/{name}", rows)
        for allocation in gpu.memory:
            numbers, rows = _used_pages(gpu.memory.snapshot(allocation))
            _put(file, f"memory/{allocation.address:x}.pages", numbers)
            _put(file, f"memory/{allocation.address:x}", rows)
    os.replace(fresh, path)


def _put(file: zipfile.ZipFile, name: str, array: npt.NDArray[Any]) -> None:
    raw = io.BytesIO()
    np.save(raw, array, allow_pickle=False)
    file.writestr(f"{name}.npy", raw.getvalue())


def _get(file: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    return np.load(io.BytesIO(_contents(file, f"{name}.npy")), allow_pickle=False)


def _contents(file: zipfile.ZipFile, name: str) -> bytes:
    try:
        return file.read(name)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
        raise CheckpointError(f"{file.filename} is damaged: {error}") from None


def _used_pages(contents: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Numbers and bytes of the pages that are not all zeros."""
    rows = np.zeros((-(-len(contents) // PAGE_BYTES), PAGE_BYTES), np.uint8)
    rows.reshape(-1)[: len(contents)] = contents
    used = np.flatnonzero(rows.any(axis=1))
    return used, rows[used]


# --- going on ----------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Resumed:
    """A launch that has ended after it was resumed."""

    run: Run
    gpu: GPU
    cycle: int
    """At which it went on."""
    allocations: dict[str, Allocation]

    def array(self, name: str, dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        """A copy of an array by the name that it was made with, or by its label (``array float32[64]``).

        Raises:
            CheckpointError: there is none; the message lists those there are.
        """
        for label in (name, f"array {name!r}"):
            if label in self.allocations:
                return self.gpu.memory.snapshot(self.allocations[label]).view(dtype)
        raise CheckpointError(f"there is no array {name!r}; the arrays are: {', '.join(self.allocations)}")


def read_meta(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The metadata of a checkpoint.

    Raises:
        CheckpointError: it is none, or another version's.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"resume() takes the path of a checkpoint file, not {path!r}")
    try:
        with zipfile.ZipFile(path) as file:
            if "checkpoint.json" not in file.namelist():
                raise CheckpointError(
                    f"{path} is a ZIP file but no checkpoint: gpu.checkpoints or warpwright run --checkpoint writes one"
                )
            meta: dict[str, Any] = json.loads(file.read("checkpoint.json"))
    except CheckpointError:
        raise
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError) as error:
        raise CheckpointError(f"{path} is not a checkpoint, or is damaged: {error}") from None
    if meta.get("format") != FORMAT or meta.get("model") != _model_version():
        raise CheckpointError(f"{path} is a checkpoint of another version of the model: resume it with that version")
    return meta


def _machine(file: zipfile.ZipFile, meta: dict[str, Any]) -> MachineCheckpoint:
    from warpwright.timing.checkpoint import MachineCheckpoint

    pages = {name: (_get(file, f"machine/{name}.pages"), _get(file, f"machine/{name}")) for name in meta["sizes"]}
    tables = [(address, words) for address, words in meta["tables"]]
    return MachineCheckpoint(meta["cycle"], meta["sizes"], meta["bases"], pages, tables)


def _target(meta: dict[str, Any], gpu: GPU | None) -> GPU:
    """The GPU that goes on.

    Raises:
        CheckpointError: the one given is of another size, or in use.
    """
    chip = Chip.model_validate_json(meta["chip"])
    scheduler, replacement = meta["policies"]
    if gpu is None:
        return GPU(chip, timing="full", scheduler=scheduler, l1_replacement=replacement)
    if gpu.chip != chip:
        raise CheckpointError(
            f"the checkpoint is of {chip.name} with {chip.sm.sm_count} SMs and {chip.l2.l2_slice_count} L2 slices, the GPU is {gpu.chip.name} with "
            f"{gpu.chip.sm.sm_count} and {gpu.chip.l2.l2_slice_count}: resume on the same chip, or on an instance of the same profile"
        )
    if len(gpu.memory) or gpu.timing != "full":
        raise CheckpointError(
            "the GPU has arrays or modules, or is not timed in full: resume on a fresh one with timing='full'"
        )
    return gpu


def resume(path: str | os.PathLike[str], gpu: GPU | None = None, *, checkpoints: Checkpoints | None = None) -> Resumed:
    """Run a launch from its checkpoint to its end.

    Args:
        gpu: a GPU without arrays on which it goes on, of the same size: another instance, for example; a new one by default.
        checkpoints: where further checkpoints go.

    Raises:
        CheckpointError: the file is not a checkpoint, damaged, another version's, or of another size than the GPU.
        ExecutionError: a fault, a trap or a deadlock of the launch.
    """
    meta = read_meta(path)
    target = _target(meta, gpu)
    with zipfile.ZipFile(path) as file:
        machine = _machine(file, meta)
        allocations: dict[tuple[str, int], list[int]] = {}
        for address, size, name in meta["allocations"]:
            allocations.setdefault((name, size), []).append(address)
        with target.memory.placing(allocations):
            module = target.compile(_contents(file, "module.cubin"), name=meta["module"])
            kernel: Kernel = module[meta["kernel"]]
            held = {a.address for a in target.memory}
            for address, size, name in meta["allocations"]:
                if address not in held and not name.startswith("parameters of "):
                    target.memory.allocate(size, name)
            _fill(file, target)
            launcher = kernel[tuple(meta["grid"]), tuple(meta["block"]), meta["dynamic_shared_bytes"]]
            context, window = launch_context(launcher, bytes.fromhex(meta["parameters"]))
    try:
        job = _ResumedJob(launcher, context, machine, checkpoints)
        job.run()
    finally:
        if window is not None:
            target.memory.free(window)
    run = job.result()
    target.launches.append(run)
    if session.on_launch is not None:
        session.on_launch(run)
    return Resumed(run, target, meta["cycle"], {a.name: a for a in target.memory})


def _fill(file: zipfile.ZipFile, gpu: GPU) -> None:
    """Restore the contents of memory."""
    for allocation in gpu.memory:
        numbers, rows = (_get(file, f"memory/{allocation.address:x}{end}") for end in (".pages", ""))
        view = gpu.memory.view(allocation.address, allocation.size_bytes)
        view[:] = 0
        for number, row in zip(numbers.tolist(), rows, strict=True):
            part = view[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]
            part[:] = row[: len(part)]


class _ResumedJob(Job):
    """A launch that is resumed from a checkpoint."""

    def __init__(
        self, launcher: Launcher, context: Any, machine: MachineCheckpoint, checkpoints: Checkpoints | None
    ) -> None:
        super().__init__(launcher, context, checked=False, timed=True)
        self.machine, self.checkpoints = machine, checkpoints

    def _timed(self) -> None:
        import time

        from warpwright.timing.block_sources import Grid
        from warpwright.timing.checkpoint import restore
        from warpwright.timing.interface import Progress as TimingProgress
        from warpwright.timing.interface import Supervision, TimingCancelled, TimingError
        from warpwright.timing.launch_errors import explain, positions_at
        from warpwright.timing.simulate import finish, prepare

        began = time.perf_counter()
        loaded, gpu = self.launcher.kernel._loaded, self.launcher.kernel.gpu
        kernel = traced(loaded, self.context)
        self._start(began)
        grid = Grid(self.context.program, lowered_of(loaded), kernel, self.context)
        launch = prepare(self.launcher.chip, [grid], gpu.policies)
        held = restore(launch, self.machine)

        def follow(progress: TimingProgress) -> None:
            self.phase, self.cycles = progress.phase, progress.cycles
            self.blocks_done = lambda: progress.blocks_done

        saver = _saver(self.launcher, self.checkpoints)
        try:
            self.timing = finish(launch, Supervision(gpu.threads, follow, lambda: self.context.cancelled, saver=saver))
        except TimingCancelled as stop:
            self.positions = positions_at(stop, self.context)
            raise KeyboardInterrupt from None
        except TimingError as error:
            raise explain(error, self.context, kernel) from None
        del held
        self.counts = Counts.of_metrics(self.timing.metrics, self.context.geometry.blocks)
        self.wall_seconds = self.timing.wall_seconds


def _saver(launcher: Launcher, checkpoints: Checkpoints | None) -> Callable[[Any, Callable[[], bool]], None] | None:
    """What runs a launch with checkpoints, as the timing model takes it."""
    if checkpoints is None:
        return None
    return lambda launch, advance: checkpoints.run(launcher, launch, advance)
