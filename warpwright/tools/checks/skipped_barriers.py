"""Barriers that threads go round: they pass where a barrier lies behind a branch, take the other way, and end.

Since Volta a block barrier waits for the threads that still live, so a thread may return in front of one (``if (i >= n)
return;``).  One that takes the other way round a barrier and goes on behind it has not returned: it should have come, and that
nobody waits for it any more once it has ended does not make it right.  On the machine code: a barrier is control dependent on
a branch when the branch may lead away from it (Ferrante, Ottenstein and Warren, TOPLAS'87); both ways meet at the branch's immediate
post-dominator.  A thread that was at the branch and then at that block without the barrier between went round it, if from
there on it still writes memory or meets barriers.  A detour is such a (branch, meeting place, barrier) by basic blocks.  A guard of
the barrier itself is such a branch in the barrier's own block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import RECORD_WORDS, TAG_BLOCK
from warpwright.engine.blocks import BasicBlock, waits_under_guard
from warpwright.engine.jit.flow import post_dominators, within_functions
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Program

BARRIERS = frozenset(("barrier", "barrier_red"))
EFFECTS = frozenset(("store", "atomic", "service", "bulk", "texture")) | BARRIERS
"""What a thread that has returned does no more."""


class Detour(NamedTuple):
    """A way round a barrier, as numbers of basic blocks."""

    branch: int
    meeting: int
    barrier: int


class Detours:
    """Those of one kernel, and the blocks at which a walk over records has something to note."""

    def __init__(self, ways: Sequence[Detour], blocks: int) -> None:
        self.ways = tuple(ways)
        self.table: npt.NDArray[np.int64] = np.array(ways, np.int64).reshape(-1, 3)
        self.matters = np.zeros(blocks, np.int64)
        self.matters[self.table.reshape(-1)] = 1
        self.past: dict[int, list[int]] = {}
        """Barrier's block: the ways round it."""
        for number, way in enumerate(self.ways):
            self.past.setdefault(way.barrier, []).append(number)


def detours_of(program: Program, blocks: Sequence[BasicBlock], lowered: Sequence[Lowered]) -> Detours:
    """The ways round the barriers of a kernel."""
    inner = within_functions(program, blocks, lowered)
    dominator = post_dominators(inner)
    acting = _acting(blocks, lowered)
    barriers = [b.number for b in blocks if any(op.name in BARRIERS for op in _operations(b, lowered))]
    ways = []
    for branch in (b.number for b in blocks if len(inner[b.number]) > 1):
        meeting = dominator[branch]
        if meeting < 0 or not acting[meeting]:
            continue
        chains = [_chain(s, meeting, dominator) for s in inner[branch]]
        for barrier in barriers:
            if any(barrier in chain for chain in chains) and not all(barrier in chain for chain in chains):
                ways.append(Detour(branch, meeting, barrier))
    for b in blocks:
        if waits_under_guard(lowered[b.first]) and b.count == 1 and acting[b.number + 1]:
            ways.append(Detour(b.number, b.number + 1, b.number))
    return Detours(ways, len(blocks))


def _operations(block: BasicBlock, lowered: Sequence[Lowered]) -> list[Any]:
    return [op for index in range(block.first, block.first + block.count) for op in lowered[index].ops]


def _chain(start: int, end: int, dominator: Sequence[int]) -> set[int]:
    """What every way from ``start`` to ``end`` passes, ``end`` left out."""
    found: set[int] = set()
    while start not in (-1, end) and start not in found:
        found.add(start)
        start = dominator[start]
    return found


def _acting(blocks: Sequence[BasicBlock], lowered: Sequence[Lowered]) -> list[bool]:
    """For each block whether a thread that comes to it may still do what one that has returned does not."""
    before: list[list[int]] = [[] for _ in blocks]
    for block in blocks:
        for successor in block.successors:
            before[successor].append(block.number)
    acting = [any(op.name in EFFECTS for op in _operations(b, lowered)) for b in blocks]
    work = [n for n, acts in enumerate(acting) if acts]
    while work:
        for n in before[work.pop()]:
            if not acting[n]:
                acting[n] = True
                work.append(n)
    return acting


def blocks_of(trace: npt.NDArray[np.int64], used: int) -> Iterator[tuple[int, int]]:
    """(basic block, lanes) by a warp's records, in the order of execution."""
    position = 0
    while position < used:
        word = int(trace[position])
        tag = (word >> 60) & 15
        if tag == TAG_BLOCK:
            yield (word >> 32) & 0xFFFFFFF, word & 0xFFFFFFFF
        position += RECORD_WORDS[tag]


class Walked:
    """Where the lanes of a block's warps were since their last barriers; ``turn.walk`` follows their records."""

    def __init__(self, detours: Detours, warps: int) -> None:
        self._past = detours.past
        ways = max(len(detours.ways), 1)
        self.at_branch = np.zeros((warps, ways), np.int64)
        self.round_it = np.zeros((warps, ways), np.int64)
        self.with_others = np.zeros(ways, np.int64)
        """Ways round the barrier being waited at that threads there took too: in a turn before this one."""

    def begin(self) -> None:
        """Nothing is known of the block yet."""
        self.at_branch.fill(0)
        self.round_it.fill(0)
        self.with_others.fill(0)

    def went_round(self, warp: int, barrier: int, lanes: int) -> int:
        """Those of the lanes that went round a barrier's block, by ways that no thread at the barrier took too."""
        found = 0
        for number in self._past.get(barrier, ()):
            if not self.with_others[number]:
                found |= int(self.round_it[warp, number]) & lanes
        return found

    def forget(self, warp: int, lanes: int) -> None:
        """What the lanes did is told."""
        self.at_branch[warp] &= ~lanes
        self.round_it[warp] &= ~lanes
