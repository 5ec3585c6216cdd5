"""Launches of this process, for the table that ``warpwright run`` prints: passed on as files in a folder.

The process that the command itself runs in collects its launches directly (``session.on_launch`` is set); any other
writes a file when it ends.  So do processes that the tests of ``pytest --warpwright`` start.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from warpwright.driver.cuda_error import say
from warpwright.driver.pending import queue
from warpwright.driver.process_end import at_end
from warpwright.environment import SettingError, seconds, setting, whole_number
from warpwright.errors import DeadlockError, ExecutionError
from warpwright.run import Run
from warpwright.session import Collective, FailedLaunch, chips_named, session

if TYPE_CHECKING:
    from warpwright.tools.checks import Finding

MOST = 4096
"""Maximum number of launches recorded per process, so that memory does not grow with a program that launches for
hours."""
_runs: list[Run] = []
_count = 0
FOLDER = "WARPWRIGHT_RESULTS"
"""The folder in which processes write their launches and findings when they end."""
TIMES_CHECKED = "WARPWRIGHT_TIMES_CHECKED"
"""``1``: launches are timed after they have been checked."""
DEADLINE = "WARPWRIGHT_DEADLINE"
"""For a process that the command started: the end of its time limit, on the system's monotonic clock."""


def _add(run: Run) -> None:
    global _count
    _count += 1
    if len(_runs) < MOST:
        _runs.append(run)


def note_failure(error: ExecutionError) -> None:
    """Record a launch that ended with an error."""
    if len(session.failed_launches) < MOST:
        first_line = str(error).partition("\n")[0]
        session.failed_launches.append(FailedLaunch(first_line, isinstance(error, DeadlockError)))


def note_collective(collective: Collective) -> None:
    """Record what a communicator moved through the host's memory."""
    if len(session.collectives) < MOST:
        session.collectives.append(collective)


def obey() -> None:
    """In a process started by ``warpwright run`` or a test: apply the requested settings to the GPUs that it creates,
    and record them."""
    session.chip = chips_named(os.environ.get("WARPWRIGHT_GPU"))[0]
    session.timing = os.environ.get("WARPWRIGHT_TIMING")
    session.check, session.check_level = os.environ.get("WARPWRIGHT_CHECK"), os.environ.get("WARPWRIGHT_CHECK_LEVEL")
    session.times_checked = os.environ.get(TIMES_CHECKED) == "1"
    start()
    atexit.register(finish)


def start() -> None:
    """Record this process's launches, if requested."""
    with contextlib.suppress(SettingError):  # the driver refuses invalid values of both
        session.threads = setting("THREADS", whole_number, session.threads)
        session.deadline = setting("DEADLINE", seconds, session.deadline)
    session.caches = os.environ.get("WARPWRIGHT_CACHES") or session.caches
    session.memory_faults = os.environ.get("WARPWRIGHT_MEMORY_FAULTS") or session.memory_faults
    session.inject = os.environ.get("WARPWRIGHT_INJECT") or session.inject
    session.library_model = os.environ.get("WARPWRIGHT_LIBRARY_MODEL") or session.library_model
    session.notes_origins = session.notes_origins or os.environ.get("WARPWRIGHT_ORIGINS") == "1"
    if session.on_launch is None and os.environ.get(FOLDER):
        session.on_launch = _add
        if not sys.orig_argv:
            # In Python processes, ``obey`` calls it.
            at_end(finish)


def report_leaks() -> None:
    """Report to the checks the memory that the program allocated and never freed."""
    for checker in session.checkers:
        checker.leaked(a for a in checker.memory if a.name.startswith("device memory") and not a.mapped)


def _portable(run: Run) -> Run:
    """A run without parts that another process cannot load, because the class of its GPU may be the program's own."""
    return replace(run, gpu_type=None, children=[_portable(child) for child in run.children])


def finish(complete: bool = True) -> None:
    """Run the remaining queue, unless the time limit has passed or it is not to be completed, and write the records."""
    if session.timed_out or not complete:
        queue.drop()
    try:
        queue.drain()
    except Exception as error:
        say(str(error))
    folder = os.environ.get(FOLDER)
    report_leaks()
    # The command prints those of its own process itself.
    if os.environ.get("WARPWRIGHT_INJECT"):
        for device in session.devices_with_errors:
            say("\n".join(f"{device.chip.name}: {line}" for line in device.summary()))
    found = session.findings()
    failures = session.failed_launches[:]
    collectives = session.collectives[:]
    if not folder or not (_runs or found or failures or collectives) or not os.path.isdir(folder):
        return
    runs = _runs[:]
    _runs.clear()
    session.checkers.clear()
    session.failed_launches.clear()
    session.collectives.clear()
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file:
        pickle.dump(
            ([_portable(run) for run in runs], _count, found, failures, collectives),
            file,
            protocol=pickle.HIGHEST_PROTOCOL,
        )
    os.replace(file.name, f"{file.name.removesuffix('.part')}.launches")


def collect(folder: Path) -> tuple[list[Run], int, list[Finding]]:
    """Launches recorded by child processes, in the order in which they ended, their total number, and the checks'
    findings; failed launches and collectives are added to the session's.

    The files are removed, so that each is collected once.
    """
    found: list[Run] = []
    findings: list[Finding] = []
    total = 0
    for path in sorted(folder.glob("*.launches"), key=lambda p: p.stat().st_mtime_ns):
        runs, count, some, failures, collectives = pickle.loads(path.read_bytes())
        path.unlink()
        found += runs
        findings += some
        session.failed_launches += failures
        session.collectives += collectives
        total += count
    return found, total, findings
