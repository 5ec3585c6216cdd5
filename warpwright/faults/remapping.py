"""What the driver does about DRAM that fails: pages are off-lined at once, rows are replaced by spare ones at the next reset.

Ampere and later have spare rows in every bank: up to 512 remappings for the whole memory, and a failure is reported when a bank's are used up (NVIDIA,
"GPU Memory Error Management", row remapping and RMA policy).  A page with an uncorrectable error is off-lined until the reset.  Earlier chips retire up
to 64 pages for good: those with one uncorrectable error, or with two corrected ones at an address (NVIDIA, "Dynamic Page Retirement").
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from warpwright.chips import Chip

FIRST_ROW_REMAPPER = 80
"""Compute capability times ten."""
MOST_REMAPPINGS = 512
SPARE_ROWS_PER_BANK = 8
MOST_RETIRED_PAGES = 64
PAGE_BYTES = 64 << 10
"""Unit of off-lining: the GPU's large page; NVIDIA's documents do not say which."""
CORRECTED, UNCORRECTABLE = "corrected", "uncorrectable"
_LEVELS = ((SPARE_ROWS_PER_BANK, "max"), (6, "high"), (3, "partial"), (1, "low"), (0, "none"))
"""Least spare rows left of a bank, and what NVML's histogram calls it."""


class Row(NamedTuple):
    """A row of DRAM: consecutive rows' worth of addresses go to the channels in turn, as if no hash spread them."""

    channel: int
    bank: int
    row: int


def row_of(chip: Chip, offset_bytes: int) -> Row:
    """The row that holds a byte of device memory."""
    number = offset_bytes // chip.dram.dram_row_bytes
    number, channel = divmod(number, chip.dram.dram_channel_count)
    row, bank = divmod(number, chip.dram.dram_bank_count)
    return Row(channel, bank, row)


@dataclass(slots=True)
class RowRemapper:
    """Spare rows of a chip's DRAM."""

    remapped: dict[Row, str] = field(default_factory=dict)
    """Recorded rows, with the kind of error that caused it."""
    pending: set[Row] = field(default_factory=set)
    """Those that wait for a reset."""
    failed: bool = False

    def record(self, row: Row, cause: str) -> bool:
        """Note that a row is to be replaced; False where no spare row is left."""
        if row in self.remapped:
            return True
        of_bank = [one for one in self.remapped if one[:2] == row[:2]]
        if len(of_bank) >= SPARE_ROWS_PER_BANK or len(self.remapped) >= MOST_REMAPPINGS:
            given_up = next((one for one in of_bank if self.remapped[one] == CORRECTED), None)
            if cause == CORRECTED or given_up is None:
                self.failed = self.failed or cause == UNCORRECTABLE
                return False
            del self.remapped[given_up]
            self.pending.discard(given_up)
        self.remapped[row] = cause
        self.pending.add(row)
        return True

    def counts(self) -> tuple[int, int]:
        """Rows replaced because of corrected and of uncorrectable errors."""
        causes = Counter(self.remapped.values())
        return causes[CORRECTED], causes[UNCORRECTABLE]

    def histogram(self, chip: Chip) -> dict[str, int]:
        """Banks by how many spare rows they have left."""
        used = Counter(row[:2] for row in self.remapped)
        found = dict.fromkeys((name for _, name in _LEVELS), 0)
        found["max"] = chip.dram.dram_channel_count * chip.dram.dram_bank_count - len(used)
        for count in used.values():
            left = SPARE_ROWS_PER_BANK - count
            found[next(name for least, name in _LEVELS if left >= least)] += 1
        return found


@dataclass(slots=True)
class RetiredPages:
    """Pages that chips before row remapping use no longer."""

    pages: dict[int, str] = field(default_factory=dict)
    """First byte, as an offset in memory, and the kind of error that caused it."""
    corrected_at: Counter[int] = field(default_factory=Counter)
    """Corrected errors by the address of their word."""
    failed: bool = False

    def retire(self, page: int, cause: str) -> bool:
        """Retire a page; False where there are too many."""
        if page in self.pages:
            return True
        if len(self.pages) >= MOST_RETIRED_PAGES:
            self.failed = True
            return False
        self.pages[page] = cause
        return True
