"""Barriers that threads go round: they pass where a barrier lies behind a branch, take the other way, and end.

Since Volta a block barrier waits for the threads that still live, so a thread may return in front of one (``if (i >= n)
return;``).  One that takes the other way round a barrier and goes on behind it has not returned: it should have come, and that
nobody waits for it any more once it has ended does not make it right.  On the machine code: a barrier is control dependent on
a branch when the branch may lead away from it (Ferrante, Ottenstein and Warren, TOPLAS'87); both ways meet at the branch's immediate
post-dominator.  A thread that was at the branch and then at that block without the barrier between went round it, if from
there on it still writes memory or meets barriers.  A detour is such a (branch, meeting place, barrier) by basic blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import RECORD_WORDS, TAG_BLOCK
from warpwright.engine.blocks import BasicBlock
from warpwright.engine.jit.flow import post_dominators, within_functions
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Program
from warpwright.native import direct
from warpwright.native.direct import bare, held
from warpwright.timing import SOURCES

BARRIERS = frozenset(("barrier", "barrier_red"))
EFFECTS = frozenset(("store", "atomic", "service", "bulk", "texture")) | BARRIERS
"""What a thread that has returned does no more."""
_WORDS = np.array([RECORD_WORDS.get(tag, 1) for tag in range(16)], np.int64)
_HELD_WORDS = held(_WORDS)


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
        self.held = len(self.ways), held(self.table), held(self.matters)
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


@partial(direct.entry, what="the checks of barriers", sources=(*SOURCES, Path(__file__).parent))
def _walk_records(
    trace: Any, used: int, words: Any, ways: int, table: Any, matters: Any, at_branch: Any, round_it: Any
) -> int:
    """Follow a warp's records: lanes at the branch of each detour, lanes that went round; the last basic block."""
    position = 0
    last = 0
    while position < used:
        word = trace[position]
        tag = (word >> 60) & 15
        if tag == TAG_BLOCK:
            last = (word >> 32) & 0xFFFFFFF
            if matters[last]:
                lanes = word & 0xFFFFFFFF
                for d in range(ways):
                    if table[3 * d + 1] == last:
                        round_it[d] |= at_branch[d] & lanes
                        at_branch[d] &= ~lanes
                    if table[3 * d + 2] == last:
                        at_branch[d] &= ~lanes
                    if table[3 * d] == last:
                        at_branch[d] |= lanes
        position += words[tag]
    return last


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
    """Where the lanes of one warp were since its last barrier."""

    def __init__(self, detours: Detours) -> None:
        self._detours = detours
        self._at_branch = np.zeros(len(detours.ways), np.int64)
        self._round_it = np.zeros(len(detours.ways), np.int64)
        self._held = held(self._at_branch), held(self._round_it)
        self._walk = bare(_walk_records)

    def follow(self, trace: Any, used: int) -> int:
        """Read the first ``used`` words of a trace (as ``held`` gives it); the number of the last basic block."""
        return self._walk(trace, used, _HELD_WORDS, *self._detours.held, *self._held)

    def went_round(self, barrier: int, lanes: int, with_others: set[int]) -> int:
        """Those of the lanes that went round a barrier's block, by ways that no thread at the barrier took too."""
        found = 0
        for number in self._detours.past.get(barrier, ()):
            if number not in with_others:
                found |= int(self._round_it[number]) & lanes
        return found

    def taken(self, barrier: int, lanes: int) -> set[int]:
        """Ways round a barrier that some of the lanes took."""
        return {n for n in self._detours.past.get(barrier, ()) if int(self._round_it[n]) & lanes}

    def forget(self, lanes: int) -> None:
        """The lanes have come to a barrier, or what they did is told."""
        if self._detours.ways:
            self._at_branch &= ~lanes
            self._round_it &= ~lanes
