"""A line on the terminal that shows where a long launch stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.status import Status

if TYPE_CHECKING:
    from warpwright.run import Progress


def describe(progress: Progress) -> str:
    """``matmul: 12 of 64 blocks, 81,920 cycles, 3 s (Ctrl-C stops it)``."""
    if progress.phase == "compiling":
        where = "compiling"
    else:
        where = f"{progress.blocks_done:,} of {progress.blocks:,} blocks"
        if progress.cycles:
            where += f", {progress.cycles:,} cycles"
    return f"{progress.kernel}: {where}, {progress.seconds:.0f} s (Ctrl-C stops it)"


class ProgressLine:
    """Shows the latest :class:`Progress` in place; removes itself when the launch has finished."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._status: Status | None = None

    def __call__(self, progress: Progress) -> None:
        if progress.finished:
            if self._status is not None:
                self._status.stop()
                self._status = None
            return
        if self._status is None:
            self._status = self._console.status(describe(progress))
            self._status.start()
        else:
            self._status.update(describe(progress))
