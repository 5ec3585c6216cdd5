"""What programs write to standard error, passed on and kept, so that a page can show why one failed."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

KEPT_BYTES = 1 << 16
"""Of the end of what was written."""
SHOWN_LINES, SHOWN_ERROR_LINES = 5, 8
"""Number of lines shown: the last ones if no line is known to begin an error, otherwise the first ones of the error."""
WAIT_SECONDS = 0.5
"""For what is still on its way; a process that the program has left behind may keep standard error open."""
_TRACEBACK = "Traceback (most recent call last):"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_OWN = re.compile(r"(note: |warpwright: (compiling |.*, \d+ (s|min \d+ s)(, .* left)?$))")
"""Advice and progress."""


class Copy:
    """The end of what was written to standard error."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, part: bytes) -> None:
        """Keep what was written."""
        self._bytes += part
        del self._bytes[:-KEPT_BYTES]

    def error(self) -> str:
        """The lines that show what went wrong: the first ones of Warpwright's error or of a Python program's exception, otherwise the last lines."""
        text = _CONTROL.sub("", self._bytes.decode("utf-8", "replace"))
        lines = [line.rstrip() for line in text.splitlines() if line.strip() and not _OWN.match(line)]
        if _TRACEBACK in lines:
            last = len(lines) - lines[::-1].index(_TRACEBACK)
            raised = next((n for n in range(last, len(lines)) if not lines[n].startswith(" ")), last)
            return "\n".join(lines[raised:][:SHOWN_ERROR_LINES])
        begins = _first_line(lines)
        return "\n".join(lines[-SHOWN_LINES:] if begins is None else lines[begins:][:SHOWN_ERROR_LINES])


def _first_line(lines: list[str]) -> int | None:
    """Index of the line at which an error of several lines begins: that of a launch, which the program may report again in its own words, or the one that ends the program; None if there is neither."""
    launch = next((n for n, line in enumerate(lines) if line.startswith("warpwright: ")), None)
    if launch is not None:
        return launch
    last = max((n for n, line in enumerate(lines) if not line.startswith(" ")), default=len(lines))
    return last if last < len(lines) - 1 else None


@contextmanager
def copied_stderr() -> Iterator[Copy]:
    """Keep what this process and those that it starts write to standard error, which still reaches the terminal as if nothing were between."""
    copy = Copy()
    try:
        before = os.dup(2)
    except OSError:  # standard error is closed
        yield copy
        return
    reads, writes = _channel(before)
    sys.stderr.flush()
    os.dup2(writes, 2)
    os.close(writes)
    thread = threading.Thread(target=_pass_on, args=(reads, before, copy), daemon=True)
    thread.start()
    try:
        yield copy
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        thread.join(WAIT_SECONDS)


def _channel(terminal: int) -> tuple[int, int]:
    """Two ends: a terminal of the same size where standard error is one, otherwise a pipe."""
    if not os.isatty(terminal):
        return os.pipe()
    import fcntl
    import pty
    import termios

    reads, writes = pty.openpty()
    size = fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8))
    fcntl.ioctl(writes, termios.TIOCSWINSZ, size)
    attributes = termios.tcgetattr(writes)
    attributes[1] &= ~termios.OPOST  # the real terminal does that
    termios.tcsetattr(writes, termios.TCSANOW, attributes)
    return reads, writes


def _pass_on(reads: int, to: int, copy: Copy) -> None:
    try:
        while part := os.read(reads, 1 << 16):
            copy.add(part)
            while part:
                part = part[os.write(to, part) :]
    except OSError:  # all writers of a terminal have closed it
        pass
    finally:
        os.close(reads)
        os.close(to)
