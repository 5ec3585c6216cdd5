"""Host threads that help with a launch by taking pieces of each window's phases (``windows.py``).

The thread that runs the launch never waits for a helper that has not begun a piece: if the host is busy with other work, it does all of them.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from warpwright.native import intrinsics
from warpwright.timing import state as s
from warpwright.timing import windows

_HELP = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


def cores() -> int:
    """Host cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def helpers(state: s.State, rows: Any, threads: int) -> Iterator[None]:
    """``threads`` - 1 host threads, at most one per core, help with the launch; none if indices are checked."""
    count = 0 if intrinsics.BOUNDSCHECK else min(threads, cores()) - 1
    if count < 1:
        yield
        return
    words = state.words
    leave = int(words[s.chip.thread_phase]) + s.PHASE_LEAVE
    words[leave] = 0
    given = intrinsics.address_of(words), intrinsics.address_of(rows)
    work = _HELP(windows.run_windows.address(windows.help_windows))
    team = [threading.Thread(target=work, args=given, name="warpwright helper", daemon=True) for _ in range(count)]
    for helper in team:
        helper.start()
    try:
        yield
    finally:
        words[leave] = 1
        for helper in team:
            helper.join()
