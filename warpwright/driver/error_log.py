"""The driver's error log: errors of the process's calls, for programs that read them.

Each entry has a number; a buffer of limited size keeps the latest.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

KEPT_BYTES = 25_600
"""Maximum bytes of text (CUDA driver API, "Error Log Management")."""
ERROR = 0
"""CU_LOG_LEVEL_ERROR."""
_CUT = "Older messages are not here: they did not fit"
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)


@dataclass(frozen=True, slots=True)
class _Entry:
    number: int
    line: bytes


class ErrorLog:
    """Entries by number, and the callbacks for new ones."""

    def __init__(self) -> None:
        self.following = 0
        """Number of the next entry."""
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self._callbacks: dict[int, tuple[Any, int]] = {}
        self._numbers = itertools.count(1)

    def add(self, message: str) -> None:
        """Store a message and call the callbacks."""
        entry = _Entry(self.following, _line(message))
        self.following += 1
        self._entries.append(entry)
        self._bytes += len(entry.line)
        while self._bytes > KEPT_BYTES:
            self._bytes -= len(self._entries.popleft().line)
        raw = message.encode()
        for function, data in list(self._callbacks.values()):
            function(data, ERROR, raw, len(raw))

    def since(self, number: int, room: int = KEPT_BYTES) -> bytes | None:
        """Lines of the entries from a number on: the latest that fit in ``room`` bytes, preceded by a line that says so
        if some are missing.

        None if not even one fits.
        """
        wanted = [entry.line for entry in self._entries if entry.number >= number]
        lost = bool(self._entries) and number < self._entries[0].number
        if not lost and sum(map(len, wanted)) <= room:
            return b"".join(wanted)
        room -= len(head := _line(_CUT))
        kept: list[bytes] = []
        for line in reversed(wanted):
            if len(line) > room:
                break
            room -= len(line)
            kept.append(line)
        return b"".join([head, *reversed(kept)]) if kept else None

    def tell(self, function: int, data: int) -> int:
        """Call a function of the program with each new message; returns the number with which this can be ended."""
        number = next(self._numbers)
        self._callbacks[number] = (_CALLBACK(function), data)
        return number

    def tell_no_longer(self, number: int) -> bool:
        """Undo :meth:`tell`; returns False if there is nothing to undo."""
        return self._callbacks.pop(number, None) is not None


def _line(message: str) -> bytes:
    """A line as NVIDIA's driver writes it: local time, thread, level."""
    now = time.time()
    clock = time.strftime("%H:%M:%S", time.localtime(now))
    return f"[{clock}.{int(now * 1000) % 1000:03d}][{threading.get_ident()}][CUDA][E] {message}\n".encode()


log = ErrorLog()
"""The log of this process."""
