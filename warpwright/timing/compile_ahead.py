"""Compiles the cycle model in a process of its own while a command imports its modules, or a launch compiles its kernel.

The first timed launch on a machine needs the model's machine code, which takes LLVM some seconds, even for the quick tier (``native/tiered.py``).  A thread could not do this:
llvmlite lets one thread at a time into LLVM.  The launch waits for the process at the entry's lock (``toolchain/cache.py``), and compiles the model itself if the process
has failed.

``python -m warpwright.timing.compile_ahead`` ends when the optimised code is on disk, for example while a container image is built.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from warpwright.native import tiered
from warpwright.native.intrinsics import BOUNDSCHECK
from warpwright.timing import SOURCES

MODEL = tiered.Named(
    "warpwright.timing.windows", "run_windows", Path(__file__).parent / "windows.py", SOURCES, "the cycle model"
)
"""The model's entry, which is imported only by the process that compiles it."""


def begin() -> bool:
    """Start the process, unless the code is on disk or there is no second core; returns whether it was started."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if BOUNDSCHECK or cores < 2 or not tiered.in_background():
        return False
    try:
        return tiered.begin(MODEL)
    except OSError:  # the launch compiles the model itself
        return False


@cache
def begin_once() -> None:
    """As ``begin``, once per process: for a launch that will need the model when its kernel has been compiled."""
    begin()


def main() -> None:
    """Compile the model, if no other process does."""
    from warpwright.timing import windows

    windows.run_windows.prepare()


if __name__ == "__main__":
    main()
