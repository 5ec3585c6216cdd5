"""Shows the progress of a long launch: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from warpwright.messages import report
from warpwright.quantity_text import figures

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

    from warpwright.run import Progress

LINE_SECONDS = 5.0
"""Between two lines of a log."""
LATE_SECONDS = 60.0
"""A launch that has run for so long gets its lines at the longer interval."""
LATE_LINE_SECONDS = 30.0
IDLE_SECONDS = 1.0
"""A shorter time without the end of a block does not mean that their rate has changed."""


BLOCKS_END = ("running", "interpreting")
"""Phases in which blocks run."""


def seconds_left(progress: Progress) -> float | None:
    """Host seconds until the last block ends, at the rate of the blocks so far.

    None before the first block has ended, if all blocks run at once, and when none has ended for twice the longest gap so far: the rate then says nothing about what runs now.
    """
    if progress.phase not in BLOCKS_END or not progress.blocks_done or progress.together:
        return None
    if progress.idle_seconds > max(IDLE_SECONDS, 2 * progress.longest_gap_seconds):
        return None
    ran = progress.seconds - progress.waited_seconds
    return ran / progress.blocks_done * (progress.blocks - progress.blocks_done)


def duration(seconds: float) -> str:
    """``8 s``, ``2 min 5 s`` or ``1 h 20 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def describe(progress: Progress) -> str:
    """``12 of 64 blocks, 81,920 cycles (27,306/s), 3 s, 13 s left``."""
    size = f" {progress.instructions:,} instructions" if progress.instructions else ""
    if progress.phase == "model":
        return f"waiting for the cycle model, which is compiled once on this machine, {duration(progress.seconds)}"
    if progress.phase == "compiling":
        return f"compiling{size}, {duration(progress.seconds)}"
    parts = [f"{progress.blocks_done:,} of {progress.blocks:,} blocks"]
    if progress.phase == "interpreting":
        parts.append(f"interpreted until compiling its{size or ' code'} pays off")
    if progress.cycles:
        parts.append(f"{progress.cycles:,} cycles ({figures(progress.cycles / max(progress.seconds, 1e-3))}/s)")
    elif progress.blocks_done:
        parts[0] += f" ({figures(progress.blocks_done / max(progress.seconds, 1e-3))}/s)"
    parts.append(duration(progress.seconds))
    left = seconds_left(progress)
    if left is not None:
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


class ProgressLine:
    """Shows the latest :class:`Progress` as a bar in place; removes itself when the launch has finished.

    Rich is imported when a bar begins: most launches end before that, and processes without a terminal show no bar.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._bar: Bar | None = None

    def __call__(self, progress: Progress) -> None:
        if progress.finished:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None
            return
        bar = self._bar or self._begin(progress.kernel)
        # Without a block that has ended, the bar only shows that something is going on.
        total = progress.blocks if progress.blocks_done else None
        where = f"{describe(progress)} (Ctrl-C stops it)"
        bar.update(bar.task_ids[0], total=total, completed=progress.blocks_done, where=where)

    def _begin(self, kernel: str) -> Bar:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        columns = TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[where]}")
        self._bar = Bar(*columns, console=self._console or Console(stderr=True), transient=True)
        self._bar.add_task(kernel, total=None, where="")
        self._bar.start()
        return self._bar


class ProgressLog:
    """Prints the latest :class:`Progress` as a line every few seconds, for logs.

    One log serves all launches of a process, so that many launches of a second each are heard of as well.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._last = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        wait = LINE_SECONDS if progress.seconds < LATE_SECONDS else LATE_LINE_SECONDS
        if progress.finished or now - self._last < wait:
            return
        self._last = now
        report(f"{progress.kernel}: {describe(progress)}", self._stream)


log = ProgressLog()
"""Of this process."""
