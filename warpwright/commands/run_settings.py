"""Options of ``warpwright run`` that change the session in which the program runs."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warpwright.commands.output import MISUSED, check_folder, console, fail
from warpwright.commands.program_execution import stopped

if TYPE_CHECKING:
    from collections.abc import Iterator


def gpus_of(system: str | None, gpu: str | None) -> str | None:
    """The text of ``--gpu`` for the machine of ``--system``, which becomes the session's."""
    from warpwright.errors import WarpwrightError
    from warpwright.session import session
    from warpwright.system import load_machine

    session.system = None
    if system is None:
        return gpu
    if gpu is not None:
        raise fail("--system names the GPUs: omit --gpu", MISUSED)
    try:
        machine = load_machine(system)
    except WarpwrightError as error:
        raise fail(str(error), MISUSED) from None
    session.system = system
    return ",".join(machine.gpus)


@contextlib.contextmanager
def graphics_kept(record: Path | None, report: Path | None, gpu: str | None, timing: str | None) -> Iterator[None]:
    """Within the block, the program's graphics device records its input, or keeps the data for the page of its draws."""
    from warpwright.session import session

    if record is not None:
        _start_recording(record, gpu, "full" if report is not None else timing)
    session.wants_frame_page = report is not None
    try:
        yield
    finally:
        session.record, session.wants_frame_page = None, False


def _start_recording(path: Path, gpu: str | None, timing: str | None) -> None:
    """Have the program's graphics device record its input in a file."""
    from warpwright.driver.drm.attach import has_graphics
    from warpwright.session import chips_named, session

    if not has_graphics(chips_named(gpu)[0]):
        raise fail("--record needs a chip with graphics: --gpu g80, g80-ultra, fx5600 or g92", MISUSED)
    if timing == "full":
        raise fail(
            "--record does not record simulated times: record without --timing full and --report, then use warpwright replay with them",
            MISUSED,
        )
    check_folder("--record", path)
    session.record = str(path.absolute())


@contextlib.contextmanager
def host_clock_of(name: str, timing: str | None) -> Iterator[None]:
    """Within the block, the program reads the simulated clock if ``--host-clock`` requests it."""
    from warpwright.session import session

    if name not in ("host", "simulated"):
        raise fail(f"--host-clock {name} is not known: host or simulated", MISUSED)
    if name == "simulated" and timing == "off":
        raise fail("--host-clock simulated needs times: omit --timing off", MISUSED)
    if name == "simulated" and sys.platform != "linux":
        raise fail("--host-clock simulated needs Linux", MISUSED)
    session.simulates_host_clock = name == "simulated"
    try:
        yield
    finally:
        session.simulates_host_clock = False


@contextlib.contextmanager
def caches_of(name: str | None, timing: str | None) -> Iterator[None]:
    """Within the ``with`` block, timed launches of every GPU of the program begin as ``--caches`` says."""
    from warpwright.gpu_options import CACHES
    from warpwright.session import session

    if name is not None and name not in CACHES:
        raise fail(f"--caches {name} is not known: {' or '.join(CACHES)}", MISUSED)
    if name is not None and timing == "off":
        raise fail("--caches has no effect without times: omit --timing off", MISUSED)
    session.caches = name
    try:
        yield
    finally:
        session.caches = None


@contextlib.contextmanager
def memory_faults_of(name: str | None, check: str | None, checkpoint: Path | None) -> Iterator[None]:
    """Within the ``with`` block, accesses of every GPU of the program fault as ``--memory-faults`` specifies."""
    from warpwright.gpu_options import MEMORY_FAULTS
    from warpwright.session import session

    if name is not None and name not in MEMORY_FAULTS:
        raise fail(f"--memory-faults {name} is not known: {' or '.join(MEMORY_FAULTS)}", MISUSED)
    if name == "page" and check is not None:
        raise fail("--check reports every access outside its allocation: omit --memory-faults page", MISUSED)
    if name == "page" and checkpoint is not None:
        raise fail("--checkpoint saves allocations, not pages: omit --memory-faults page", MISUSED)
    session.memory_faults = name
    try:
        yield
    finally:
        session.memory_faults = None


@contextlib.contextmanager
def checkpoints_saved(
    program: str, timing: str | None, check: str | None, path: Path | None, every: int | None
) -> Iterator[None]:
    """Within the block, checkpoints of the program's launches are written."""
    if path is None:
        if every is not None:
            raise fail("--checkpoint-every has no effect without --checkpoint: add --checkpoint FILE", MISUSED)
        yield
        return
    from warpwright.checkpoint import Checkpoints
    from warpwright.programs import is_python_file
    from warpwright.session import session

    if not is_python_file(program):
        raise fail("--checkpoint saves launches of Python programs that use warpwright.GPU: give a FILE.py", MISUSED)
    if timing == "off":
        raise fail("--checkpoint saves launches that are timed in full: omit --timing off", MISUSED)
    if check is not None and timing is None:
        raise fail(
            "--checkpoint saves launches that are timed in full, and --check alone times none: add --timing full, or omit --check",
            MISUSED,
        )
    check_folder("--checkpoint", path)
    session.checkpoints = Checkpoints(path.absolute(), every_cycles=every or 1_000_000)
    try:
        yield
    finally:
        session.checkpoints = None


@contextlib.contextmanager
def errors_injected(text: str | None, check: str | None) -> Iterator[None]:
    """Within the block, the errors of ``--inject`` are injected into every GPU of the program; its error counters are printed at the end."""
    if text is None:
        yield
        return
    from warpwright.faults import InjectionError, parse_injections
    from warpwright.session import session

    if check is not None:
        raise fail("--inject and --check exclude each other: omit one of them", MISUSED)
    try:
        parse_injections(text)
    except InjectionError as error:
        raise fail(f"--inject: {error}", MISUSED) from None
    session.inject = text
    try:
        yield
    finally:
        session.inject = None
        for device in session.devices_with_errors:
            for line in device.summary():
                console(stderr=True).print(f"{device.chip.name}: {line}", markup=False, soft_wrap=True)
        session.devices_with_errors.clear()


@contextlib.contextmanager
def library_times_of(model: str | None, gpu: str | None, timing: str | None) -> Iterator[None]:
    """Within the block, launches from the drop-in libraries have the times of ``--library-model``."""
    from warpwright.chips import load_chip
    from warpwright.gpu_options import DEFAULT_CHIP
    from warpwright.library_times import MODELS, unmeasured
    from warpwright.session import chips_named, session

    if model is None:
        yield
        return
    if model not in MODELS:
        raise fail(f"--library-model {model} is not known: {' or '.join(MODELS)}", MISUSED)
    if timing == "off":
        raise fail("--library-model scales times: omit --timing off", MISUSED)
    names = [load_chip(name or DEFAULT_CHIP).name for name in chips_named(gpu)]
    if message := unmeasured(names):
        raise fail(f"--library-model {model}: {message}", MISUSED)
    session.library_model = model
    try:
        yield
    finally:
        session.library_model = None


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    from warpwright.session import session

    try:
        with session.time_limit(seconds):
            yield
    except KeyboardInterrupt:
        raise stopped() from None
