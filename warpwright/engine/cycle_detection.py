"""Detects that a machine has returned to an earlier state and will repeat it forever (Brent's algorithm)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.memory_digests import digest


class Recurrence:
    """Keeps one state of a launch for comparison; ``jit/livelock.py`` does the same in compiled code.

    Args:
        first_pass: passes without the end of a block before states are compared.
    """

    def __init__(self, first_pass: int) -> None:
        self.first_pass = first_pass
        self._warps = self._memory = b""

    def found(self, passes: int, warps: Callable[[], bytes], memory: Callable[[], bytes]) -> bool:
        """Whether the state after this pass was seen before.

        Args:
            passes: number of passes since a block last ended.
            warps: digest of the warps' state.
            memory: returns the digest of all memory that they can write; called only if the warps' digest recurs.
        """
        if passes < self.first_pass:
            return False
        if passes & (passes - 1) == 0:
            self._warps, self._memory = warps(), b""
            return False
        if not self._warps or warps() != self._warps:
            return False
        before, self._memory = self._memory, memory()
        if before and before != self._memory:
            # Progress is being made; compare again after as many further passes.
            self._warps = b""
        return before == self._memory


def memory_digest(memory: DeviceMemory, own: Iterable[npt.NDArray[Any]], without: Collection[int] = ()) -> bytes:
    """Digest of all memory that warps can write.

    Args:
        memory: the device's memory.
        own: shared and local memory of the resident blocks, in a fixed order.
        without: addresses of allocations to omit.
    """
    parts = [digest(contents.reshape(-1).view(np.uint8)) for contents in own]
    parts += [digest(memory.view(address, size, read_only=True)) for address, size in memory.writable(without)]
    return b"".join(parts)
