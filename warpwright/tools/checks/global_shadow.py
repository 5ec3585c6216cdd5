"""The shadow of global memory: cells by allocation, kept from launch to launch.

Cell contents from an earlier launch are older than the first epoch of the current one and are ignored (``shadow.py``), so cells need not be cleared or
allocated again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from warpwright.engine.allocation import Allocation
from warpwright.tools.checks import shadow as sh

KEPT_SHARE = 4
"""Cells may take one part in this many of the host's memory between launches; the rest is freed."""
LAST_EPOCH = 1 << 31
"""Epochs restart after this value; a launch uses far fewer than half of the values that a stamp can hold."""
WORDS, SINGLE_BYTES = 2, 0
"""Shifts from a byte's offset to the index of its cell."""


class Shadows:
    """Cells of one GPU's memory."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], tuple[npt.NDArray[np.int64], int]] = {}
        """Cells and shift, by address and bytes of the allocation."""
        self._sectors: dict[tuple[int, int], npt.NDArray[np.int64]] = {}
        """The same for sectors: one word each."""
        self.oldest = 1
        """The launch's first epoch."""
        self.last = 0
        """The last epoch of any block that has ended."""

    def begin(self, live: Sequence[Allocation]) -> None:
        """Begin a launch with these allocations."""
        self.oldest = self.last + 1
        there = {(a.address, a.size_bytes) for a in live}
        self._cells = {key: value for key, value in self._cells.items() if key in there}
        most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // KEPT_SHARE
        too_many = sum(cells.nbytes for cells, _ in self._cells.values()) > most
        if too_many or self.oldest > LAST_EPOCH:
            self._cells.clear()
        self._sectors = {key: value for key, value in self._sectors.items() if key in self._cells}
        if self.oldest > LAST_EPOCH:
            self.oldest, self.last = 1, 0

    def passed(self, epoch: int) -> None:
        """A block ended at an epoch."""
        self.last = max(self.last, epoch)

    def of(self, allocation: Allocation) -> tuple[int, int, int]:
        """Host pointer of an allocation's cells, their shift, and host pointer of its sectors; 0 if it has none."""
        key = allocation.address, allocation.size_bytes
        cells, shift = self._cells.get(key, (None, WORDS))
        return (0, shift, 0) if cells is None else (int(cells.ctypes.data), shift, int(self._sectors[key].ctypes.data))

    def cells(self, allocation: Allocation) -> tuple[npt.NDArray[np.int64] | None, int]:
        """An allocation's cells (None if it has none) and their shift."""
        return self._cells.get((allocation.address, allocation.size_bytes), (None, WORDS))

    def give(self, allocation: Allocation, shift: int) -> tuple[int, int, int]:
        """Create an allocation's cells, per word or per byte (each word's cell is then copied to its four bytes)."""
        key = allocation.address, allocation.size_bytes
        if key in self._cells and self._cells[key][1] <= shift:
            return self.of(allocation)  # created for another view of the memory
        cells = np.zeros(sh.words_of((allocation.size_bytes >> shift) + 1), np.int64)
        if key in self._cells:
            self._spread(self._cells[key][0], cells)
        self._cells[key] = cells, shift
        if key not in self._sectors:
            first = allocation.address >> sh.SECTOR_SHIFT
            self._sectors[key] = np.zeros((allocation.end >> sh.SECTOR_SHIFT) - first + 1, np.int64)
        return self.of(allocation)

    def _spread(self, words: npt.NDArray[np.int64], cells: npt.NDArray[np.int64]) -> None:
        """Copy the contents of word cells that belong to the current launch to the cells of their bytes."""
        groups = words.reshape(-1, sh.CELL_WORDS, sh.GROUP_CELLS)
        bytes_ = cells[: len(cells) // groups[0].size * groups[0].size].reshape(-1, *groups.shape[1:])
        value = sh.WRITE_INFO // sh.WORD_STEP
        for n in np.flatnonzero((groups[:, ::2] & sh.EPOCH_BITS >= self.oldest).any(axis=(1, 2))):
            wide = np.repeat(groups[n], 4, axis=1)
            # Split the value of a word's last write into its bytes.
            each = (wide[value] >> (8 * (np.arange(wide.shape[1]) % 4))) & 255
            wide[value] = (wide[value] & ~0xFFFFFFFF) | each
            of_bytes = wide.reshape(sh.CELL_WORDS, 4, sh.GROUP_CELLS).swapaxes(0, 1)
            count = min(4, len(bytes_) - 4 * n)
            bytes_[4 * n : 4 * n + count] = of_bytes[:count]
