"""Notes which pieces of a device's memory the loads of a launch have read.

A launch that changes memory does the same once more only if it has read nothing of what it changed (``unchanged_launches.py``).  The cycle model notes the lines
of weak loads of global memory, and of asynchronous copies from it, as they are looked up in L1 (``l1.py``).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from warpwright.engine.device_memory import DeviceMemory
from warpwright.native.intrinsics import address_of
from warpwright.timing import state as s

PIECE_BYTES = 1 << s.READ_PIECE_SHIFT
MOST_PIECES = 1 << 21
"""More memory (1 GiB) is not noted: all of it counts as read."""


class Reads(Protocol):
    """What a launch has read of memory."""

    def includes_any(self, address: int, pieces: npt.NDArray[np.int64]) -> bool:
        """Whether the launch may have read any of ``pieces``, counted from the one at ``address``."""


class ReadPieces:
    """The pieces of ``memory`` that one launch has read; all of them until :meth:`attach` has been called."""

    def __init__(self, memory: DeviceMemory) -> None:
        ranges = memory.table()
        self._first = int(ranges[0, 0]) // PIECE_BYTES if len(ranges) else 0
        count = int(ranges[-1, 1]) // PIECE_BYTES + 1 - self._first if len(ranges) else 0
        # The last word is for lines elsewhere.
        self._read = np.zeros(min(count, MOST_PIECES) + 1, np.int64)
        self._is_noted = False
        self._fits = count <= MOST_PIECES

    def attach(self, state: s.State) -> None:
        """Have the machine that begins the launch note what it reads."""
        m = state.words
        m[s.chip.read_pieces] = address_of(self._read)
        m[s.chip.read_first], m[s.chip.read_count] = self._first, len(self._read) - 1
        self._is_noted = self._fits

    def includes_any(self, address: int, pieces: npt.NDArray[np.int64]) -> bool:
        """Whether the launch may have read any of ``pieces``, counted from the one at ``address``."""
        if not self._is_noted or self._read[-1]:
            return True
        return bool(self._read[pieces + (address // PIECE_BYTES - self._first)].any())


class NothingRead:
    """Of a launch whose kernel has no instruction that reads memory."""

    def includes_any(self, address: int, pieces: npt.NDArray[np.int64]) -> bool:
        """False: no piece has been read."""
        return False
