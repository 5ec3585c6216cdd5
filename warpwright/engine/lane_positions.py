"""Where the lanes of a stopped warp stand, read from its save area: for messages about warps that never end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

ALL_LANES = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Group:
    """Lanes of one warp that stand at one place."""

    what: str
    """``runs``, ``turn`` (waits until the running lanes end or give way), ``joins`` (at a convergence point) or
    ``barrier`` (at a block barrier)."""
    instruction: int
    """Byte address in the program; -1 when not known."""
    lanes: int


@dataclass(slots=True)
class Standing:
    """How a compiled function keeps the groups of a warp.  Offsets are bytes in the save area."""

    addresses: list[int] = field(default_factory=list)
    """Byte address of each basic block's first instruction."""
    resumes: list[tuple[int, int]] = field(default_factory=list)
    """For each resume point from 1 on: its block, and the offset of the mask of the lanes that go on there (-1: none)."""
    joins: list[tuple[int, int]] = field(default_factory=list)
    """Convergence points: block, offset of the mask of lanes that wait there."""
    count: int = -1
    """Offset of the number of stack entries; -1 where a warp never parts."""
    entries: int = -1
    """Offset of the stack's first entry."""
    stacked: bool = False
    """Entries are the reconvergence stack's: lanes, block, kind and a spare word, and a lane is in the entries of all
    places that it has yet to return to.  Else an entry is one 64-bit word of lanes and block."""

    def groups(self, save: npt.NDArray[Any], resume: int, lanes: int, exited: int) -> list[Group]:
        """The groups of a warp, the one that runs first.

        Args:
            save: the warp's save area.
            resume: WARP.resume.
            lanes: the warp's lanes that hold a thread.
            exited: those that have ended.
        """
        alive = lanes & ~exited & ALL_LANES
        words = save.view(np.uint32)
        found: list[Group] = []
        seen = 0

        def add(what: str, block: int, mask: int) -> None:
            nonlocal seen
            if mask := mask & alive & ~seen:
                seen |= mask
                found.append(Group(what, self.addresses[block] if block >= 0 else -1, mask))

        if 0 < resume <= len(self.resumes):
            block, mask_at = self.resumes[resume - 1]
            if mask_at >= 0:
                add("runs", block, int(words[mask_at // 4]))
        for block, at in self.joins:
            add("joins", block, int(words[at // 4]))
        for entry in range(int(words[self.count // 4]) - 1 if self.count >= 0 else -1, -1, -1):
            if self.stacked:
                first = self.entries // 4 + 4 * entry
                add("turn", int(words[first + 1]), int(words[first]))
            else:
                first = self.entries // 4 + 2 * entry
                add("turn", int(words[first]), int(words[first + 1]))
        add("turn" if found else "runs", -1, alive)
        return found
