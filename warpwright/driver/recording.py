"""Launches of this process, for the table that ``warpwright run`` prints: handed over through a folder of files.

The process that the command itself runs in collects its launches directly (``session.on_launch`` is set); any other
writes a file when it ends.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

from warpwright.run import Run
from warpwright.session import session

MOST = 4096
"""Launches that are kept of one process: memory must not grow with a program that launches for hours."""
_runs: list[Run] = []
_count = 0
_kept: list[Any] = []
_FOLDER = "WARPWRIGHT_RESULTS"


def _add(run: Run) -> None:
    global _count
    _count += 1
    if len(_runs) < MOST:
        _runs.append(run)


def start() -> None:
    """Record this process's launches, when somebody waits for them."""
    if session.on_launch is None and os.environ.get(_FOLDER):
        session.on_launch = _add
        # A program that is not Python ends without telling the interpreter.
        libc = ctypes.CDLL(None)
        at_exit = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: finish())
        _kept.append(at_exit)
        if hasattr(libc, "__cxa_atexit"):
            libc.__cxa_atexit.argtypes = [type(at_exit), ctypes.c_void_p, ctypes.c_void_p]
            libc.__cxa_atexit(at_exit, None, None)


def finish() -> None:
    """Write what was recorded."""
    folder = os.environ.get(_FOLDER)
    if not folder or not _runs or not os.path.isdir(folder):
        return
    runs = _runs[:]
    _runs.clear()
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file:
        pickle.dump((runs, _count), file, protocol=pickle.HIGHEST_PROTOCOL)
    os.replace(file.name, f"{file.name.removesuffix('.part')}.launches")


def collect(folder: Path) -> tuple[list[Run], int]:
    """Launches that child processes left, in the order of their ends, and how many there were in all."""
    found: list[Run] = []
    total = 0
    for path in sorted(folder.glob("*.launches"), key=lambda p: p.stat().st_mtime_ns):
        runs, count = pickle.loads(path.read_bytes())
        found += runs
        total += count
    return found, total
