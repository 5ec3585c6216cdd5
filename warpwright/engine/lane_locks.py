"""Locks that threads take with atomics: whether accesses are made under one, and whether lanes on a reconvergence stack may hold what the running lanes of
their warp wait for.

Before Volta, lanes that wait at a convergence point continue only after the others have arrived.  If the waiting lanes have yet to release a lock or to set a
flag for which the others spin, the warp never ends.  But lanes also wait there harmlessly, for example while one lane spins at a barrier of the whole grid.
The code that they have yet to execute decides which it is: whether it writes memory that other threads see, before a block barrier that they could not pass
alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import IntEnum

from warpwright.engine.blocks import BasicBlock, address_index, basic_blocks
from warpwright.engine.code_sites import index_at
from warpwright.engine.lane_positions import Group
from warpwright.isa.machine_code import lower
from warpwright.isa.ops import Lowered, Op
from warpwright.isa.program import Program
from warpwright.isa.sass.mbarrier_code import is_mbarrier, tests_phase

_SEEN = ("global", "generic", "shared")
_TAKES = ("cas", "exch", "cast", "cas_half")
"""Operations of atomics that may take a lock."""


class Blame(IntEnum):
    """Whether the reconvergence stack explains a warp that never ends."""

    NO = 0
    PERHAPS = 1
    """The waiting lanes will write memory, as any kernel does that stores a result."""
    YES = 2
    """They will write by an atomic or a strong store, or the running lanes spin to take a lock."""


def blame(program: Program, lowered: Sequence[Lowered], warps: Sequence[tuple[int, Sequence[Group]]]) -> Blame:
    """Whether the waiting lanes of these warps hold what the running ones wait for."""
    found = Blame.NO
    blocks = basic_blocks(program, lowered)
    for _, groups in warps:
        runs = [group for group in groups if group.what == "runs"]
        waits = [group for group in groups if group.what in ("joins", "turn") and group.instruction >= 0]
        if not runs or not waits:
            continue
        ahead = max(_writes_ahead(program, lowered, blocks, group.instruction) for group in waits)
        if ahead and any(_takes_lock(program, lowered, group.instruction) for group in runs):
            ahead = Blame.YES
        found = max(found, ahead)
    return found


class Lock(IntEnum):
    """Whether two accesses are made under a lock."""

    NO = 0
    UNFENCED = 1
    FENCED = 2
    """A fence separates taking the lock from the second access, and the first access from whatever may release the lock, on every path."""


class Locks:
    """The places of a program that threads reach only through an atomic that may take a lock (compare-and-swap, exchange)."""

    def __init__(self, program: Program) -> None:
        self._lowered = lower(program)
        self._blocks = basic_blocks(program, self._lowered)
        takes = {
            n
            for n, (low, one) in enumerate(zip(self._lowered, program.instructions, strict=True))
            if any(_takes(op) for op in low.ops) and not is_mbarrier(one) and one.address not in program.of_barriers
        }
        self._fences = {
            n for n, low in enumerate(self._lowered) if low.guard is None and any(op.name == "fence" for op in low.ops)
        }
        self._takes_locks = bool(takes)
        self._outside = _reached(self._blocks, [0], takes)
        self._unacquired = _reached(self._blocks, [n + 1 for n in takes], self._fences)

    def around(self, first: int, second: int) -> Lock:
        """Whether two instructions, given by index, are both reached so; whether it is the same lock is not known."""
        if not self._takes_locks or not self._outside.isdisjoint((first, second)):
            return Lock.NO
        unreleased = _reached(self._blocks, [first + 1], self._fences)
        releases = (n for n in unreleased if any(_written(op) is Blame.YES for op in self._lowered[n].ops))
        return Lock.UNFENCED if second in self._unacquired or any(releases) else Lock.FENCED


def _reached(blocks: Sequence[BasicBlock], starts: Sequence[int], stops: set[int]) -> set[int]:
    """Indices of the instructions that threads can reach from any of ``starts`` without passing one of ``stops``."""
    found, work = set[int](), list(starts)
    firsts = [block.first for block in blocks]
    while work:
        start = work.pop()
        block = blocks[bisect_right(firsts, start) - 1]
        for n in range(start, block.first + block.count):
            if n in stops or n in found:
                break
            found.add(n)
        else:
            work += [blocks[n].first for n in block.successors]
    return found


def _takes(op: Op) -> bool:
    return op.name == "atomic" and op.attr.operation in _TAKES


def _writes_ahead(program: Program, lowered: Sequence[Lowered], blocks: Sequence[BasicBlock], address: int) -> Blame:
    """How lanes that continue at an address write memory before they reach a block barrier."""
    barriers = {n for n, low in enumerate(lowered) if any(op.name in ("barrier", "barrier_red") for op in low.ops)}
    ahead = _reached(blocks, [index_at(program, address)], barriers)
    return max((_written(op) for n in ahead for op in lowered[n].ops), default=Blame.NO)


def _written(op: Op) -> Blame:
    if op.name not in ("store", "atomic") or op.attr.space not in _SEEN:
        return Blame.NO
    return Blame.YES if op.name == "atomic" or op.attr.strong else Blame.PERHAPS


def waits_for_mbarrier(program: Program, lowered: Sequence[Lowered], address: int) -> bool:
    """Whether the innermost loop around an instruction waits for a phase of an mbarrier, or for a ``cuda::barrier``, which before sm_80 is not one."""
    looped = _loop_around(program, lowered, address)
    tests = tests_phase(program)
    return any(n in tests or program.instructions[n].address in program.of_barriers for n in looped)


def _takes_lock(program: Program, lowered: Sequence[Lowered], address: int) -> bool:
    """Whether the innermost loop around an instruction contains an atomic that takes a lock."""
    return any(_takes(op) for n in _loop_around(program, lowered, address) for op in lowered[n].ops)


def _loop_around(program: Program, lowered: Sequence[Lowered], address: int) -> range:
    """The innermost loop around an instruction, as the indices from a backward branch's target to the branch; empty if there is none."""
    if address < 0:
        return range(0)
    inside, index_of = index_at(program, address), address_index(program)
    loops = [
        (n - target, target, n)
        for n, low in enumerate(lowered)
        if low.ops and low.ops[-1].name == "branch" and (target := index_of.get(low.ops[-1].attr, n)) <= inside <= n
    ]
    if not loops:
        return range(0)
    _, first, last = min(loops)
    return range(first, last + 1)
