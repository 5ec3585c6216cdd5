"""Finds the remainders of unrolled loops: copies of a part of the body for the last few iterations.

The compiler unrolls a loop with an unknown trip count, and appends copies of half, a quarter and so on of its body for
counts that are not a multiple of the unroll factor.  They are as much code as the loop itself, and most launches never
execute them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from warpwright.engine.jit.flow_graph import Bits, Flow, members
from warpwright.isa.ops import Lowered

WORK = frozenset(("load", "store", "atomic", "texture", "barrier", "shuffle", "mma", "wgmma", "mufu"))
WORK |= frozenset(("fadd", "fmul", "fma", "fmad", "fmin", "fmax", "fcvt", "f2i", "i2f"))
"""Operations that identify a loop's work; the others are bookkeeping."""


def remainders(flow: Flow, lowered: Sequence[Lowered]) -> Bits:
    """Blocks that a branch can skip and that do the work of part of a preceding loop's body."""
    blocks = flow.blocks

    def work(numbers: Iterable[int]) -> Counter[str]:
        found: Counter[str] = Counter()
        for n in numbers:
            block = blocks[n]
            for low in lowered[block.first : block.first + block.count]:
                found.update(op.name for op in low.ops if op.name in WORK)
        return found

    loops = [(body, work(body)) for body in _loops(flow)]
    found: Bits = 0
    for branch in blocks:
        start = branch.number + 1
        if flow.ends[branch.number] != "branch" or len(branch.successors) != 2 or start not in branch.successors:
            continue
        end = max(branch.successors)
        inside = range(start, end)
        if not inside or not _is_passage(flow, inside):
            continue
        part = work(inside)
        for body, whole in loops:
            turns = {whole[name] / count for name, count in part.items()}
            if max(body) < start and part.keys() == whole.keys() and len(turns) == 1 and _is_several(*turns):
                found |= sum(1 << n for n in inside)
                break
    return found


def _is_several(turns: float) -> bool:
    return turns >= 2 and turns == int(turns)


def _loops(flow: Flow) -> list[set[int]]:
    """The blocks of each loop."""
    before: list[list[int]] = [[] for _ in flow.blocks]
    for block in flow.blocks:
        for successor in block.successors:
            before[successor].append(block.number)
    found = []
    for block in flow.blocks:
        for header in block.successors:
            if header > block.number:
                continue
            body, work = {header}, [block.number]
            while work:
                n = work.pop()
                if n not in body:
                    body.add(n)
                    work.extend(before[n])
            found.append(body)
    return found


def _is_passage(flow: Flow, inside: range) -> bool:
    """Whether consecutive blocks are entered only at the first and left only after the last."""
    for block in flow.blocks:
        for successor in block.successors:
            if block.number in inside:
                if successor not in inside and successor != inside.stop:
                    return False
            elif successor in inside and successor != inside.start:
                return False
    return all(flow.ends[n] in ("", "branch", "barrier") and flow.blocks[n].successors for n in inside)


def reachable(flow: Flow, starts: Bits) -> Bits:
    """The given blocks and all blocks reachable from them."""
    found, work = 0, members(starts)
    while work:
        n = work.pop()
        if not found >> n & 1:
            found |= 1 << n
            work.extend(flow.blocks[n].successors)
    return found
