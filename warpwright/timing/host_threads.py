"""Host threads that help with a launch by taking pieces of each window's phases (``windows.py``), or with launches on several devices by taking devices (``device_windows.py``).

The thread that runs the launch never waits for a helper that has not begun a piece: if the host is busy with other work, it does all of them.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.native import intrinsics
from warpwright.timing import device_windows, windows
from warpwright.timing import state as s

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
    given = intrinsics.address_of(words), intrinsics.address_of(rows)
    with _team(windows.help_windows, [given] * count, words, int(words[s.chip.thread_phase]) + s.PHASE_LEAVE):
        yield


@contextmanager
def device_helpers(group: npt.NDArray[np.int64], threads: int) -> Iterator[None]:
    """``threads`` - 1 host threads, at most one per core and device, help with the launches of a group of devices (``s.DG_WORDS``)."""
    devices = int(group[s.DG_COUNT])
    count = max(min(threads, cores(), devices) - 1, 0)
    group[s.DG_HELPERS] = count
    given = [(intrinsics.address_of(group), (1 + number) * devices // (count + 1)) for number in range(count)]
    with _team(device_windows.help_devices, given, group, s.DG_LEAVE):
        yield


@contextmanager
def _team(part: Any, given: Sequence[tuple[int, int]], words: npt.NDArray[np.int64], leave: int) -> Iterator[None]:
    """A host thread for each pair of words, which a part of the model's code is called with; the word ``leave`` tells all to end."""
    if not given:
        yield
        return
    words[leave] = 0
    work = _HELP(windows.run_windows.address(part))
    team = [threading.Thread(target=work, args=one, name="warpwright helper", daemon=True) for one in given]
    for helper in team:
        helper.start()
    try:
        yield
    finally:
        words[leave] = 1
        for helper in team:
            helper.join()
