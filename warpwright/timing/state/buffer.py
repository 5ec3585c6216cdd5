"""The buffer itself, and sums over its areas."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpwright.timing.state.chip import (
    H_CHANNELS_PER_SLICE,
    H_DRAM_STATE,
    H_SLICE_GROUPS,
    H_SLICES,
    H_SM_FIRST,
    H_SM_SLOTS,
    H_SMS,
    SG_SLOTS,
)
from warpwright.timing.state.common import MAX_SUB_CORES, MAX_WARPS, SLICE_GROUPS
from warpwright.timing.state.memory_system import D_SLOTS
from warpwright.timing.state.sm import OFF_WARPS, SM_RESIDENT, W_ACTIVE, W_SLOTS


def counted(words: npt.NDArray[np.int64], *fields: int) -> int:
    """Sum of counters (``SG_``) over all groups of slices."""
    first = int(words[H_SLICE_GROUPS])
    groups = words[first : first + SLICE_GROUPS * SG_SLOTS].reshape(SLICE_GROUPS, SG_SLOTS)
    return int(groups[:, list(fields)].sum())


def dram_counted(words: npt.NDArray[np.int64], *fields: int) -> int:
    """Sum of fields (``D_``) over all DRAM channels."""
    first = int(words[H_DRAM_STATE])
    count = int(words[H_CHANNELS_PER_SLICE] * words[H_SLICES])
    return int(words[first : first + count * D_SLOTS].reshape(count, D_SLOTS)[:, list(fields)].sum())


@dataclass(slots=True)
class State:
    """The buffer and where its areas begin."""

    words: npt.NDArray[np.int64]
    areas: dict[str, int] = field(default_factory=dict)

    def sm(self, index: int) -> int:
        """Start of an SM's region."""
        return int(self.words[H_SM_FIRST] + index * self.words[H_SM_SLOTS])

    def active_warps(self) -> list[tuple[int, int]]:
        """(SM region, warp slot) of every resident warp that has not ended."""
        regions = [sm for sm in map(self.sm, range(int(self.words[H_SMS]))) if self.words[sm + SM_RESIDENT]]
        slots = np.arange(MAX_SUB_CORES * MAX_WARPS) * W_SLOTS + OFF_WARPS + W_ACTIVE
        return [(sm, int(slot)) for sm in regions for slot in np.flatnonzero(self.words[sm + slots])]

    def sms(self) -> npt.NDArray[np.int64]:
        """Every SM's region, shape (SMs, words)."""
        first, size, count = (int(self.words[field]) for field in (H_SM_FIRST, H_SM_SLOTS, H_SMS))
        return self.words[first : first + count * size].reshape(count, size)
