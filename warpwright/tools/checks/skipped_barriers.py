"""Finds barriers that threads skip: a thread takes a branch around a barrier and continues after it.

Since Volta a block barrier waits only for live threads, so a thread may return before one (``if (i >= n) return;``). A thread that goes round a barrier and
continues after it has not returned: it should have reached the barrier, and the fact that no thread waits for it once it has ended does not make the program
correct.  In machine code, a barrier is control dependent on a branch that may lead away from it (Ferrante, Ottenstein and Warren, TOPLAS'87); both paths meet
at the branch's immediate post-dominator. A thread that passes from the branch to that block without the barrier in between went round it, if it still writes
memory or reaches barriers from there on. A detour is such a triple of basic blocks (branch, meeting point, barrier). A predicate on the barrier itself is such
a branch in the barrier's own block.

The same holds for a warp-wide operation (``warp_syncs.py``) whose mask names a thread. The records show which lanes carry it out and which lanes of its mask
are missing; a missing lane that has ended went round it if it has taken a detour more often than the lanes that are present.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import TAG_BLOCK, head_words, record_words
from warpwright.engine.blocks import BasicBlock, waits_under_guard
from warpwright.engine.jit.flow import post_dominators, within_functions
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Program
from warpwright.tools.checks.shadow import MOST_LANES
from warpwright.tools.checks.warp_syncs import asks_who_is_here

BARRIERS = frozenset(("barrier", "barrier_red"))
EFFECTS = frozenset(("store", "atomic", "service", "bulk", "texture")) | BARRIERS
"""Effects that a thread that has returned no longer has."""


ON_A_WAY, GOES_ROUND, ACTS = 1, 2, 4
"""Flags of a basic block: part of some detour; its barrier; a warp-wide operation after which a thread still has such effects."""


class Detour(NamedTuple):
    """A way round a barrier, as basic-block numbers."""

    branch: int
    meeting: int
    barrier: int


class Detours:
    """The detours of one kernel, and the basic blocks at which a walk over records has work to do."""

    def __init__(self, ways: Sequence[Detour], acting: Sequence[bool], syncs: Mapping[int, int] | None = None) -> None:
        self.ways = ways = tuple(dict.fromkeys(ways))
        self.syncs = dict(syncs or {})
        """Basic blocks in which a warp-wide operation begins, with the instruction that gives its line."""
        self.table: npt.NDArray[np.int64] = np.array(ways, np.int64).reshape(-1, 3)
        self.matters = np.zeros(len(acting), np.int64)
        """Flags of each basic block."""
        self.matters[self.table.reshape(-1)] = ON_A_WAY
        self.matters[[way.barrier for way in ways]] |= GOES_ROUND
        self.matters[[n for n in self.syncs if acting[n]]] |= ACTS
        self.past: dict[int, list[int]] = {}
        """By the barrier's basic block: the ways round it."""
        for number, way in enumerate(self.ways):
            self.past.setdefault(way.barrier, []).append(number)


def detours_of(
    program: Program, blocks: Sequence[BasicBlock], lowered: Sequence[Lowered], syncs: Mapping[int, int] | None = None
) -> Detours:
    """The ways round the barriers of a kernel.

    Args:
        syncs: places of warp-wide operations, which are barriers of a warp.
    """
    inner = within_functions(program, blocks, lowered)
    dominator = post_dominators(_with_an_end(inner, blocks, lowered))
    acting = _acting(blocks, lowered)
    barriers = [b.number for b in blocks if any(op.name in BARRIERS for op in _operations(b, lowered))]
    barriers += [n for n in syncs or () if n not in barriers]
    ways = []
    for branch in (b.number for b in blocks if len(inner[b.number]) > 1):
        if asks_who_is_here(program.instructions[blocks[branch].first + blocks[branch].count - 1]):
            continue
        meeting = dominator[branch]
        if not 0 <= meeting < len(blocks) or not acting[meeting]:
            continue
        chains = [_chain(s, meeting, dominator) for s in inner[branch]]
        for barrier in barriers:
            if any(barrier in chain for chain in chains) and not all(barrier in chain for chain in chains):
                ways.append(Detour(branch, meeting, barrier))
    for b in blocks:
        if waits_under_guard(lowered[b.first]) and b.count == 1 and acting[b.number + 1]:
            ways.append(Detour(b.number, b.number + 1, b.number))
    return Detours(ways, acting, syncs)


def _with_an_end(
    inner: Sequence[tuple[int, ...]], blocks: Sequence[BasicBlock], lowered: Sequence[Lowered]
) -> list[tuple[int, ...]]:
    """The graph with an additional end block. A predicated EXIT leads to it if there is no other way out; other predicated EXITs remove threads without
    changing where the remaining ones meet.
    """
    ends = {b.number for b in blocks if not inner[b.number]}
    work = list(ends)
    before: list[list[int]] = [[] for _ in blocks]
    for number, successors in enumerate(inner):
        for successor in successors:
            before[successor].append(number)
    while work:
        for number in before[work.pop()]:
            if number not in ends:
                ends.add(number)
                work.append(number)
    result = [*inner, ()]
    for b in blocks:
        if b.number not in ends and any(op.name == "exit" for op in lowered[b.first + b.count - 1].ops):
            result[b.number] = (*inner[b.number], len(blocks))
    return result


def _operations(block: BasicBlock, lowered: Sequence[Lowered]) -> list[Any]:
    return [op for index in range(block.first, block.first + block.count) for op in lowered[index].ops]


def _chain(start: int, end: int, dominator: Sequence[int]) -> set[int]:
    """The blocks that every path from ``start`` to ``end`` passes, without ``end``."""
    found: set[int] = set()
    while 0 <= start < len(dominator) - 1 and start != end and start not in found:
        found.add(start)
        start = dominator[start]
    return found


def _acting(blocks: Sequence[BasicBlock], lowered: Sequence[Lowered]) -> list[bool]:
    """For each block, whether a thread that reaches it may still have effects that a returned thread has not."""
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


def lanes_of_record(trace: npt.NDArray[np.int64], at: int, width: int) -> int:
    """Lanes of the record at word ``at``; ``width`` is the wave's."""
    if head_words(width) == 1:
        return int(trace[at]) & 0xFFFFFFFF
    return int(trace[at + 1]) & 0xFFFFFFFFFFFFFFFF


def blocks_of(trace: npt.NDArray[np.int64], used: int, lanes: int = 32) -> Iterator[tuple[int, int]]:
    """Pairs (basic block, lanes) from a warp's records, in execution order."""
    position, lengths = 0, record_words(lanes)
    while position < used:
        word = int(trace[position])
        tag = (word >> 60) & 15
        if tag == TAG_BLOCK:
            yield (word >> 32) & 0xFFFFFFF, lanes_of_record(trace, position, lanes)
        position += lengths[tag]


class Walked:
    """Where the lanes of a block's warps have been since their last barriers; ``turn.walk`` follows their records."""

    def __init__(self, detours: Detours, warps: int) -> None:
        self._past = detours.past
        ways = max(len(detours.ways), 1)
        self.at_branch = np.zeros((warps, ways), np.int64)
        self.round_it = np.zeros((warps, ways), np.int64)
        self.times_round = np.zeros((warps, ways, MOST_LANES), np.int64)
        """How often each lane took each way."""
        self.came = np.zeros((warps, ways), np.int64)
        """Lanes whose last warp-wide operation is the one that the detour avoids."""
        self.expected = np.zeros((warps, ways), np.int64)
        """Lanes without which others carried it out; whether they will still come is not yet known."""
        self.with_others = np.zeros(ways, np.int64)
        """Detours round the current barrier that its waiting threads have also taken, in an earlier turn."""

    def begin(self) -> None:
        """Reset for another block."""
        self.at_branch.fill(0)
        self.round_it.fill(0)
        self.times_round.fill(0)
        self.came.fill(0)
        self.expected.fill(0)
        self.with_others.fill(0)

    def went_round(self, warp: int, barrier: int, lanes: int) -> int:
        """The given lanes that went round a barrier's block by a detour that no thread at the barrier has also taken."""
        found = 0
        for number in self._past.get(barrier, ()):
            if not self.with_others[number]:
                found |= int(self.round_it[warp, number]) & lanes
        return found

    def forget(self, warp: int, lanes: int) -> None:
        """Forget lanes that have been reported."""
        self.at_branch[warp] &= ~lanes
        self.round_it[warp] &= ~lanes
