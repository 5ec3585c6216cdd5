"""What a device's memory held when it was last looked at: tells at little cost whether, and where, it has changed since.

Comparing memory with a copy takes a tenth of the time of a digest, so only allocations that have changed are digested again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.engine.device_memory import Allocation, Bytes
from warpwright.engine.launch import LaunchContext

MOST_COPIED_BYTES = 1 << 28
"""Of a device's memory; allocations beyond that are digested each time."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """An allocation as it was last seen."""

    digest: bytes
    contents: Bytes | None
    """A copy; None if there are too many."""


class MemoryImage:
    """The memory of one device, without what belongs to single launches."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], _Seen] = {}

    def digest(self, context: LaunchContext) -> bytes:
        """Digest of all memory that warps of a launch can write; the image is then up to date."""
        seen: dict[tuple[int, int], _Seen] = {}
        whole = hashlib.sha1(usedforsecurity=False)
        room = MOST_COPIED_BYTES
        for allocation in _kept(context):
            now = _contents(context, allocation)
            key = allocation.address, allocation.size_bytes
            known = self._seen.get(key)
            if known is None or known.contents is None or not _equal(now, known.contents):
                copied = now.copy() if now.size <= room else None
                # Three times as fast as BLAKE2 on processors with SHA-1 instructions, and no slower on others.
                known = _Seen(hashlib.sha1(now.data, usedforsecurity=False).digest(), copied)
            room -= now.size if known.contents is not None else 0
            seen[key] = known
            whole.update(known.digest)
        self._seen = seen
        return whole.digest()

    def changes(self, context: LaunchContext, piece_bytes: int) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """Address of each allocation that differs from the image, and its pieces that do, counted from there; of an allocation without a copy, all."""
        for allocation in _kept(context):
            now = _contents(context, allocation)
            known = self._seen.get((allocation.address, allocation.size_bytes))
            if known is None or known.contents is None:
                yield allocation.address, np.arange(-(-now.size // piece_bytes))
            elif not _equal(now, known.contents):
                yield allocation.address, np.unique(np.flatnonzero(now != known.contents) // piece_bytes)


def _kept(context: LaunchContext) -> Iterator[Allocation]:
    """The allocations that outlive a launch."""
    return (one for one in context.memory if one.address not in context.passing)


def _contents(context: LaunchContext, allocation: Allocation) -> Bytes:
    return context.memory.view(allocation.address, allocation.size_bytes, read_only=True)


def _equal(one: Bytes, other: Bytes) -> bool:
    words = one.size // 8 * 8
    return bool(
        np.array_equal(one[:words].view(np.uint64), other[:words].view(np.uint64))
        and np.array_equal(one[words:], other[words:])
    )
