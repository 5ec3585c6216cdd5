"""The state's buffer, and sums over its areas."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpwright.timing.state.common import SLICE_GROUPS
from warpwright.timing.state.header import chip
from warpwright.timing.state.launch_contexts import Kernel
from warpwright.timing.state.memory_system import Channel, SliceGroup
from warpwright.timing.state.sm import SM, Warp


def counted(words: npt.NDArray[np.int64], *fields: int) -> int:
    """Sum of counters of ``SliceGroup`` over all groups of slices."""
    first, size = int(words[chip.slice_groups]), SliceGroup.size
    end = first + SLICE_GROUPS * size
    # A launch's metrics need a few numbers of each of 30 fields, for which Python is faster than NumPy.
    return sum(sum(words[first + field : end : size].tolist()) for field in fields)


def dram_counted(words: npt.NDArray[np.int64], *fields: int) -> int:
    """Sum of fields of ``Channel`` over all DRAM channels."""
    first = int(words[chip.dram_state])
    count = int(words[chip.channels_per_slice] * words[chip.slices])
    return int(words[first : first + count * Channel.size].reshape(count, Channel.size)[:, list(fields)].sum())


@dataclass(slots=True)
class State:
    """The buffer and where its areas begin."""

    words: npt.NDArray[np.int64]
    areas: dict[str, int] = field(default_factory=dict)
    _sms: npt.NDArray[np.int64] | None = field(default=None, repr=False, compare=False)

    def sm(self, index: int) -> SM:
        """An SM's region."""
        return SM(self.words[chip.sm_first] + index * self.words[chip.sm_slots])

    def kernel(self, number: int) -> Kernel:
        """A launch's context."""
        return Kernel(int(self.words[chip.kernels]) + number * Kernel.size)

    def active_warps(self) -> list[tuple[SM, int]]:
        """(SM region, warp slot) of every resident warp that has not ended."""
        regions = [self.sm(int(number)) for number in np.flatnonzero(self.sms()[:, SM.resident])]
        slots = SM.warps + Warp.active + np.arange(SM.fields["warps"].count) * Warp.size
        return [(sm, int(slot)) for sm in regions for slot in np.flatnonzero(self.words[sm + slots])]

    def sms(self) -> npt.NDArray[np.int64]:
        """Every SM's region, shape (SMs, words)."""
        if self._sms is None:
            first, size, count = (int(self.words[field]) for field in (chip.sm_first, chip.sm_slots, chip.sms))
            self._sms = self.words[first : first + count * size].reshape(count, size)
        return self._sms
