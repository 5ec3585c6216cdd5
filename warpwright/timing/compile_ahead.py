"""Compiles the cycle model in a process of its own while a command imports its modules and compiles the program's first kernel.

The first timed launch on a machine needs the model's machine code, which takes LLVM some seconds.  A thread could not do this: llvmlite lets
one thread at a time into LLVM.  The launch waits for the process at the entry's lock (``toolchain/cache.py``), and compiles the model itself if the process
has failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from warpwright.native import direct
from warpwright.native.intrinsics import BOUNDSCHECK
from warpwright.timing import SOURCES
from warpwright.toolchain.cache import default_cache, default_folder

FILE, NAME, WHAT = Path(__file__).parent / "windows.py", "run_windows", "the cycle model"
"""Where the entry is, which is imported by the process that compiles it only."""

_started: list[subprocess.Popen[bytes]] = []
"""Referenced so that Python does not warn of a process that still runs."""


def begin() -> bool:
    """Start the process, unless the code is on disk or there is no second core; returns whether it was started."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if BOUNDSCHECK or cores < 2:
        return False
    key = direct.code_key(NAME, FILE, SOURCES)
    if default_cache().path(direct.KIND, key).is_file():
        return False
    print(f"warpwright: compiling {WHAT}, once on this machine …", file=sys.stderr, flush=True)
    # The working folder, which Python searches first, is the package's: the program's may hold modules of any name.
    package = Path(__file__).parent.parent.parent
    quiet = subprocess.DEVNULL
    _started.append(
        subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=package,
            env={**os.environ, "WARPWRIGHT_CACHE": str(default_folder().resolve())},
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
        )
    )
    return True


def main() -> None:
    """Compile the model, if no other process does."""
    from warpwright.timing import windows

    windows.run_windows.prepare()


if __name__ == "__main__":
    main()
