"""Finds loops that wait for a write of another warp of the block to shared memory.

Nothing in machine code marks a volatile access to shared memory.  But a load of a fixed address, in a loop without a
block barrier whose exit depends on the loaded value, can only wait for another thread: the compiler would have hoisted
any other load.  Timing needs to know these loads: such a load must see memory as it is at the cycle of its issue, and
every write that it may wait for must be performed at its own cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from warpwright.isa.effects import Effect, effect_of, register_effects
from warpwright.isa.ops import Lowered, Op

Effects = Callable[[int], tuple[frozenset[Effect], frozenset[Effect]]]
"""(reads, writes) of the instruction with an index."""
BARRIERS = ("barrier", "barrier_red")


def _touches(op: Op, space: str, *names: str) -> bool:
    return op.name in names and op.attr.space == space


def _address(low: Lowered, space: str) -> set[Effect]:
    """The registers from which the address of an instruction's first access to a space is computed."""
    place = next(n for n, op in enumerate(low.ops) if _touches(op, space, "load", "atomic"))
    wanted, found = [low.ops[place].args[0]], set[Effect]()
    while wanted:
        op = low.ops[wanted.pop()]
        effect_of(op, found, set())
        wanted.extend(op.args)
    return found


def _decides(
    first: int,
    last: int,
    look: int,
    lowered: Sequence[Lowered],
    effects: Effects,
    target_of: Mapping[int, int],
) -> bool:
    """Whether the result of instruction ``look`` decides if the loop from ``first`` to ``last`` ends."""
    tainted = set(effects(look)[1])
    grows = True
    while grows:
        grows = False
        for index in range(first, last + 1):
            reads, writes = effects(index)
            if tainted.isdisjoint(reads):
                continue
            end = lowered[index].ops[-1].name if lowered[index].ops else ""
            leaves = end == "exit" or (
                end == "branch" and (index == last or not first <= target_of.get(index, first) <= last)
            )
            if leaves:
                return True
            grows = grows or not writes <= tainted
            tainted |= writes
    return False


def _targets(lowered: Sequence[Lowered], index_of: Mapping[int, int]) -> dict[int, int]:
    """For each direct branch, the index of its target."""
    return {
        n: index_of[low.ops[-1].attr]
        for n, low in enumerate(lowered)
        if low.ops and low.ops[-1].name == "branch" and low.ops[-1].attr in index_of
    }


def polls(lowered: Sequence[Lowered], index_of: Mapping[int, int], space: str = "shared") -> frozenset[int]:
    """The instructions with which loops wait for a word of shared memory, or of another space.

    Args:
        index_of: byte address of each instruction to its index.
    """
    looks = [n for n, low in enumerate(lowered) if any(_touches(op, space, "load", "atomic") for op in low.ops)]
    if not looks:
        return frozenset()
    target_of = _targets(lowered, index_of)
    decides = _decides if space == "shared" else _decides_in_order

    @cache
    def effects(index: int) -> tuple[frozenset[Effect], frozenset[Effect]]:
        return register_effects(lowered[index])

    found = set[int]()
    for last, first in target_of.items():
        inside = [look for look in looks if first <= look <= last]
        if not inside or any(op.name in BARRIERS for low in lowered[first : last + 1] for op in low.ops):
            continue
        written: set[Effect] = set().union(*(effects(index)[1] for index in range(first, last + 1)))
        found.update(
            look
            for look in inside
            if written.isdisjoint(_address(lowered[look], space))
            and decides(first, last, look, lowered, effects, target_of)
        )
    return frozenset(found)


def with_strong_polls(lowered: Sequence[Lowered], index_of: Mapping[int, int]) -> list[Lowered]:
    """A program in which loops that wait for a word of global memory load it as strong.

    NV50 code, whose chip has no cache for global memory, does not mark such loads.
    """
    looks = polls(lowered, index_of, "global")
    return [_with_strong_loads(low) if n in looks else low for n, low in enumerate(lowered)]


def _with_strong_loads(low: Lowered) -> Lowered:
    ops = [op._replace(attr=op.attr._replace(strong=True)) if op.name == "load" else op for op in low.ops]
    return replace(low, ops=ops)


def _decides_in_order(
    first: int,
    last: int,
    look: int,
    lowered: Sequence[Lowered],
    effects: Effects,
    target_of: Mapping[int, int],
) -> bool:
    """``_decides`` for code that reuses registers in a loop: a rewritten register no longer depends on its old
    sources."""
    tainted = set[Effect]()
    while True:
        before = set(tainted)
        for index in range(first, last + 1):
            reads, writes = effects(index)
            if index == look or not tainted.isdisjoint(reads):
                tainted |= writes
            elif lowered[index].guard is None:
                tainted -= writes
            end = lowered[index].ops[-1].name if lowered[index].ops else ""
            leaves = index == last or not first <= target_of.get(index, first) <= last
            if not tainted.isdisjoint(reads) and (end == "exit" or (end == "branch" and leaves)):
                return True
        if tainted <= before:
            return False
        tainted |= before


def block_looks(lowered: Sequence[Lowered], index_of: Mapping[int, int]) -> frozenset[int]:
    """The strong loads of their block's scope that decide whether a loop ends: they may wait for another warp.

    Other strong loads of block scope behave like weak loads.
    """
    looks = [
        n for n, low in enumerate(lowered) if any(op.name == "load" and op.attr.scope == "block" for op in low.ops)
    ]
    if not looks:
        return frozenset()
    target_of = _targets(lowered, index_of)

    @cache
    def effects(index: int) -> tuple[frozenset[Effect], frozenset[Effect]]:
        return register_effects(lowered[index])

    return frozenset(
        look
        for last, first in target_of.items()
        for look in looks
        if first <= look <= last and _decides_in_order(first, last, look, lowered, effects, target_of)
    )


def changes_shared(low: Lowered) -> bool:
    """Whether an instruction writes data that such a loop may test; copies from global memory are not signals."""
    return any(_touches(op, "shared", "store", "atomic") for op in low.ops) and not any(
        op.name == "load" and op.attr.space != "shared" for op in low.ops
    )
