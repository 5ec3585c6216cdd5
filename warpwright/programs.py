"""Runs a user's program on the simulated device and collects its launches: a Python file in this process, another command in a separate process.

``warpwright run`` prints the results.  Modules that are slow to import are imported by the function that needs them.
"""

from __future__ import annotations

import os
import runpy
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from types import TracebackType

    from warpwright.run import Run
    from warpwright.tools.checks import Finding


class ProgramError(Exception):
    """A command cannot be started."""


@dataclass(slots=True)
class ChildResults:
    """Launches and findings of the processes that the program started."""

    runs: list[Run] = field(default_factory=list)
    """Launches, in the order of the processes' ends."""
    findings: list[Finding] = field(default_factory=list)
    """What the checks found."""


GRACE_SECONDS = 3.0
"""Time that a process gets after its limit to report where its warps are."""


def execute(
    program: Path, arguments: list[str], chip: str | None, timing: str | None, finished: list[Run] | None = None
) -> list[Run]:
    """Run a Python file as ``__main__`` with its own argv and return its launches.

    Args:
        chip: the chip of ``--gpu``, which replaces that of every GPU of the program.
        timing: the timing mode, which replaces that of every GPU.
        finished: list that takes the launches as they end, for a caller that wants those of a program that fails.

    Raises:
        BaseException: whatever the program raises, except a ``sys.exit()`` without an error.
    """
    from warpwright.session import chips_named, session

    runs: list[Run] = finished if finished is not None else []
    session.chip, session.timing, session.on_launch = chips_named(chip)[0], timing, runs.append
    session.in_command, session.failed_here = True, 0
    argv, path = sys.argv, list(sys.path)
    _preload(session.chip)
    clocks = _simulated_clock()
    sys.argv = [str(program), *arguments]
    # As Python itself has it: the folder of the file that a link leads to, whatever the program changes to.
    sys.path.insert(0, os.path.dirname(os.path.realpath(program)))
    try:
        with clocks:
            runpy.run_path(str(program), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    finally:
        sys.argv, sys.path[:] = argv, path
        session.chip = session.timing = session.on_launch = session.host_clock = None
        session.in_command = False
        session.launched = bool(runs)
    return runs


def _preload(chip: str | None) -> None:
    """Let the program find the simulated driver, if the system supports drop-in libraries."""
    if sys.platform != "linux":
        return
    from warpwright.driver import attach, nvtx
    from warpwright.driver.drm import attach as drm
    from warpwright.libraries import provide
    from warpwright.session import session

    provide()
    nvtx.provide()
    attach.preload()
    if session.notes_origins:
        from warpwright.driver import pytorch_origins

        os.environ.setdefault(nvtx.INJECTION, nvtx.place())
        pytorch_origins.install()
    if drm.serves_mesa(chip):
        drm.preload(chip)


def _simulated_clock() -> AbstractContextManager[None]:
    """Where the program is to read the simulated clock: a block in which it does, with the session's clock set."""
    from warpwright.driver.host_clock import HostClock, installed
    from warpwright.session import session

    if not session.simulates_host_clock:
        return nullcontext()
    clock = HostClock(simulated=True)
    session.host_clock = clock
    return installed(clock)


def is_python_file(word: str) -> bool:
    """True if the program runs in this process."""
    return word.endswith(".py")


def find_program(word: str) -> str:
    """Return the path of the program that a word on the command line names.

    A word with a slash is that file; a word without one is the file of that name in the working folder if that is
    executable, else the command that the shell's search path has.

    Raises:
        ProgramError: it does not exist, is a folder, or is not executable.
    """
    import shutil

    if is_python_file(word):
        if os.path.isfile(word):
            return word
        raise ProgramError(_missing(word))
    here = os.path.isfile(word)
    if here and os.access(word, os.X_OK):
        return os.path.abspath(word)
    has_folder = os.path.basename(word) != word
    found = None if has_folder else shutil.which(word)
    if found is not None:
        return found
    if here:
        raise ProgramError(f"{word} is not executable: chmod +x {word} (a Python file's name must end in .py)")
    if os.path.isdir(word):
        raise ProgramError(f"{word} is a folder: give a Python file or a command")
    raise ProgramError(_missing(word))


def _missing(word: str) -> str:
    if os.path.islink(word):
        return f"{word} is a link to {os.readlink(word)}, which does not exist"
    if os.path.isdir(word):
        return f"{word} is a folder: give a Python file or a command"
    folder = os.path.dirname(word)
    if folder and not os.path.isdir(folder):
        return f"there is no program {word}: there is no folder {folder}"
    if os.path.exists(word):
        return f"{word} is not a regular file: give a Python file or a command"
    if folder or is_python_file(word):
        return f"there is no program {word}"
    return f"there is no program {word}, neither in this folder nor on the search path (PATH)"


def has_begun_driver() -> bool:
    """Whether a program in this process has called the drop-in driver, which keeps its devices from then on."""
    state = sys.modules.get("warpwright.driver.driver_state")
    return state is not None and state.has_begun()


def execute_command(words: list[str], chip: str | None, timing: str | None) -> tuple[ChildResults, int]:
    """Run a command in a separate process on the simulated device; return its results and its exit code.

    Raises:
        ProgramError: there is no such command, it cannot be started, or the system is not Linux.
    """
    import signal
    import subprocess

    if sys.platform != "linux":
        raise ProgramError("programs other than Python files run on the simulated driver only on Linux")
    found = find_program(words[0])
    with child_results(chip, timing) as results:
        # Ctrl-C goes to the child as well, which ends as it likes.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process = subprocess.Popen(words, executable=found, preexec_fn=_default_interrupt)
            code = _wait(process)
        except OSError as error:
            raise ProgramError(
                f"cannot start {found}: {error.strerror}; give a program of this machine, or a script whose first line "
                "names its interpreter (#!/bin/sh)"
            ) from None
        finally:
            signal.signal(signal.SIGINT, before)
    # A shell says 128 + the signal.
    return results, code if code >= 0 else 128 - code


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Exit code of a process, which is killed soon after the session's deadline."""
    import subprocess
    import time

    from warpwright.session import TIMED_OUT, session

    if session.deadline is None:
        return process.wait()
    try:
        return process.wait(max(0.0, session.deadline - time.monotonic()) + GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return TIMED_OUT


def _default_interrupt() -> None:
    import signal

    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def child_results(chip: str | None, timing: str | None) -> Iterator[ChildResults]:
    """Processes started within the block use the simulated device; their results are available after the block."""
    results = ChildResults()
    if sys.platform != "linux":
        yield results
        return
    import tempfile

    from warpwright.driver import attach, launch_records, nvtx
    from warpwright.driver.drm import attach as drm
    from warpwright.libraries import provide
    from warpwright.session import chips_named, session

    with tempfile.TemporaryDirectory(prefix="warpwright-") as folder:
        before = dict(os.environ)
        provide()
        nvtx.provide()
        os.environ.update(attach.child_environment(chip, timing, Path(folder)))
        if session.notes_origins:
            os.environ.setdefault(nvtx.INJECTION, nvtx.place())
        if drm.serves_mesa(chips_named(chip)[0]):
            os.environ.update(drm.child_environment(chips_named(chip)[0]))
        try:
            yield results
        finally:
            os.environ.clear()
            os.environ.update(before)
            results.runs, _, results.findings = launch_records.collect(Path(folder))
            if any(Path(folder).glob("*.frames")):  # the graphics pipeline is loaded only for programs that draw
                from warpwright.driver.drm import frames

                frames.collect(Path(folder))


def line_of(error: BaseException, program: Path) -> str:
    """Return ``matmul.py:31: ``, the innermost line of the program itself in an error's traceback."""
    import traceback

    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == program.name]
    return f"{program}:{frames[-1].lineno}: " if frames else ""


def outside_launch(error: BaseException, program: Path, launched: bool) -> str:
    """What a program was doing, and at which of its lines, when Ctrl-C or its time limit ended it outside a launch."""
    import linecache
    import traceback

    stack = list(traceback.walk_tb(error.__traceback__))
    compiling = any(frame.f_globals.get("__name__", "").startswith("warpwright.toolchain") for frame, _ in stack)
    doing = "a kernel's source was being compiled" if compiling else "no kernel was running"
    if not launched:
        doing += ", before the first launch"
    places = [(frame.f_code.co_filename, number) for frame, number in stack]
    own = [place for place in places if os.path.basename(place[0]) == program.name]
    if not own:
        return doing
    file, number = own[-1]
    text = linecache.getline(file, number).strip()
    return f"{doing}; {program.name}:{number}{f': {text}' if text else ''}"


def own_frames(error: BaseException, program: Path) -> TracebackType | None:
    """Return the traceback from the program's first frame on; None for a file that does not parse."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename != str(program):
        at = at.tb_next
    return at
