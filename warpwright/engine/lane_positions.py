"""Reads from a stopped warp's save area where its lanes are, for messages about warps that never end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Group:
    """Lanes of one warp at the same position."""

    what: str
    """``runs``, ``turn`` (waits until the running lanes end or yield), ``joins`` (at a convergence point),
    ``barrier`` (at a block barrier) or ``cluster`` (at the barrier of its block's cluster)."""
    instruction: int
    """Byte address in the program; -1 if unknown."""
    lanes: int


@dataclass(frozen=True, slots=True)
class StandingBlock:
    """A resident block whose warps only repeat themselves."""

    index: tuple[int, int, int]
    warps: Sequence[tuple[int, Sequence[Group]]]
    """The warps' numbers and the positions of their lanes, without exited ones."""

    @property
    def polls(self) -> Group | None:
        """Lanes that poll, if any do."""
        return self._first("runs", "turn")

    @property
    def at_cluster(self) -> Group | None:
        """Lanes that wait at their cluster's barrier, if any do."""
        return self._first("cluster")

    def _first(self, *kinds: str) -> Group | None:
        return next((group for _, warp in self.warps for group in warp if group.what in kinds), None)


@dataclass(slots=True)
class SavedPositions:
    """Where a compiled function stores the groups of a warp.  Offsets are bytes in the save area."""

    addresses: list[int] = field(default_factory=list)
    """Byte address of each basic block's first instruction."""
    resumes: list[tuple[int, int]] = field(default_factory=list)
    """For each resume point from 1 on: its block, and the offset of the mask of the lanes that continue there (-1: none)."""
    joins: list[tuple[int, int]] = field(default_factory=list)
    """Convergence points: block, offset of the mask of lanes that wait there."""
    timed: list[tuple[int, int]] = field(default_factory=list)
    """Offset and size of each variable that only clocks decide and that only delays the warp (``clock_uses.timed_writes``), in ascending order."""
    count: int = -1
    """Offset of the number of stack entries; -1 if the warp never diverges."""
    entries: int = -1
    """Offset of the stack's first entry."""
    lanes: int = 32
    """Number of lanes of the warp."""
    copy: int = -1
    """Offset of the number of the copy that the warp executes of repeated code; -1 if there is none."""
    bytes_per_copy: list[int] = field(default_factory=list)
    """For each basic block: by how much its address grows with each copy."""
    stacked: bool = False
    """Whether entries are those of the reconvergence stack: lanes, block, kind (0: a side of a divergent branch; otherwise a convergence point) and a spare word, with a lane in the
    entries of all points to which it has yet to return.  Otherwise an entry is a word with the block number and, above
    32 bits, the lanes: 64 bits, or 128 bits for 64 lanes."""

    def lasting(self, first: int, end: int) -> list[tuple[int, int]]:
        """Offset and size of the parts of the save area between two offsets that decide what the warp does."""
        parts = []
        for offset, size in self.timed:
            parts.append((first, offset - first))
            first = offset + size
        return [part for part in (*parts, (first, end - first)) if part[1] > 0]

    def groups(self, save: npt.NDArray[Any], resume: int, lanes: int, exited: int) -> list[Group]:
        """The groups of a warp, the one that runs first.

        Args:
            save: the warp's save area.
            resume: WARP.resume.
            lanes: the warp's lanes that hold a thread.
            exited: those that have ended.
        """
        alive = lanes & ~exited & (1 << self.lanes) - 1
        contents = save.view(np.uint8)
        found: list[Group] = []
        seen = 0

        def address(block: int) -> int:
            copies = word(self.copy) * self.bytes_per_copy[block] if self.copy >= 0 else 0
            return self.addresses[block] + copies

        def add(what: str, block: int, mask: int) -> None:
            nonlocal seen
            if mask := mask & alive & ~seen:
                seen |= mask
                found.append(Group(what, address(block) if block >= 0 else -1, mask))

        def word(at: int, size: int = 4) -> int:
            return int.from_bytes(contents[at : at + size].tobytes(), "little")

        mask_bytes = self.lanes // 8
        if 0 < resume <= len(self.resumes):
            block, mask_at = self.resumes[resume - 1]
            if mask_at >= 0:
                add("runs", block, word(mask_at, mask_bytes))
        for block, at in self.joins:
            add("joins", block, word(at, mask_bytes))
        for entry in range(word(self.count) - 1 if self.count >= 0 else -1, -1, -1):
            if self.stacked:
                first = self.entries + 16 * entry
                block_at = first + max(mask_bytes, 4)
                # Lanes in no entry above a convergence point have reached it.
                add("joins" if word(block_at + 4) else "turn", word(block_at), word(first, mask_bytes))
            else:
                first = self.entries + (8 if self.lanes <= 32 else 16) * entry
                add("turn", word(first), word(first + 4, mask_bytes))
        add("turn" if found else "runs", -1, alive)
        if not any(group.what == "runs" for group in found):
            # All have given way, for example before a sleep; the first is the next to run.
            turns = [n for n, group in enumerate(found) if group.what == "turn"]
            if turns:
                found.insert(0, replace(found.pop(turns[0]), what="runs"))
        return found
