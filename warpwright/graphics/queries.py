"""Queries: counters of the stages, and the reports that QUERY_GET writes to memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

import numpy as np

from warpwright.graphics.conditions import REPORT_BYTES
from warpwright.graphics.methods import RegisterEngine
from warpwright.graphics.video_memory import VideoMemory

_SHORT = 1 << 28
_COUNTERS = (
    "vertices fetched",
    "primitives fetched",
    "vertex programs",
    "geometry programs",
    "primitives of geometry programs",
    "primitives streamed out",
    "primitives generated",
    "primitives before clipping",
    "primitives after clipping",
    "pixel programs",
)
"""Counters of 64 bits by their number in QUERY_GET."""
_ZERO, _SAMPLES, _NO_OVERFLOW = 0, 1, 2
"""Values of 32 bits by their number."""
_RESETS = {0x10: 5, 0x11: 6, 0x12: 0, 0x13: 1, 0x15: 2, 0x1A: 3, 0x1B: 4, 0x1C: 7, 0x1D: 8, 0x1E: 9}
"""Counters by their number in COUNTER_RESET."""
_RESET_SAMPLES = 1


class Clock(Protocol):
    """Reports the time at which work has ended (``timed/timer.py``)."""

    writes_reports: bool
    """Whether reports contain its times."""

    def when_done(self, tell: Callable[[int], None]) -> None: ...


class Queries:
    """The counters of a channel.

    Without a timer, the time in a report is the number of reports so far. With one, it is the simulated time in nanoseconds at which all earlier work ended,
    which is known, and written, at the end of the submission.
    """

    def __init__(self, memory: VideoMemory) -> None:
        self._memory = memory
        self.counts: Counter[str] = Counter()
        self.samples = 0
        self.overflowed = False
        """Whether a primitive did not fit into the stream-output buffers."""
        self._time = 0
        self.timer: Clock | None = None

    def reset(self, number: int) -> None:
        """COUNTER_RESET; numbers of counters that are not kept have no effect."""
        if number == _RESET_SAMPLES:
            self.samples = 0
        elif number in _RESETS:
            self.counts[_COUNTERS[_RESETS[number]]] = 0

    def report(self, engine: RegisterEngine, word: int) -> None:
        """QUERY_GET: write a report at QUERY_ADDRESS.

        Raises:
            CommandError: a value that the model does not have.
            MemoryFaultError: the address is not in a buffer.
        """
        self._time += 1
        address = engine.address("QUERY_ADDRESS_HIGH")
        if word & 3 == 1:
            raise engine.refuse("QUERY_GET", word, "waits for a value in memory are")
        size = 4 if word & _SHORT else REPORT_BYTES
        place = self._memory.view(address, size, "a query")
        select = word >> 24 & 15
        if word >> 23 & 1:
            if select >= len(_COUNTERS):
                raise engine.refuse("QUERY_GET", word, f"counter {select} is unknown")
            report = np.array([self.counts[_COUNTERS[select]], self._time], dtype=np.uint64).view(np.uint8)
        else:
            values = {_ZERO: 0, _SAMPLES: self.samples, _NO_OVERFLOW: int(not self.overflowed)}
            if select not in values:
                raise engine.refuse("QUERY_GET", word, f"value {select} is unknown")
            report = np.zeros(REPORT_BYTES, dtype=np.uint8)
            report.view(np.uint32)[:2] = engine["QUERY_SEQUENCE"], values[select] & 0xFFFFFFFF
            report.view(np.uint64)[1] = self._time
        place[:] = report[:size]
        if self.timer is not None and self.timer.writes_reports and size == REPORT_BYTES:
            time_at = place[8:].view(np.uint64)

            def tell(nanoseconds: int) -> None:
                time_at[0] = nanoseconds

            self.timer.when_done(tell)
