"""Control-flow analysis for chips before Volta: where lanes of one warp can be at the same time.

One group runs while the others wait as entries of the stack (``engine/reconvergence.py``): the other side of a
divergent branch, or the reconvergence point.  A branch's region ends at its immediate post-dominator if lanes can enter
that block from the region only by SYNC, BRK, CONT or RET, and the entries that these find on the stack were pushed
before the branch; otherwise lanes of both sides may be anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.engine.blocks import BasicBlock
from warpwright.engine.jit.flow_graph import Bits, Flow, members
from warpwright.isa.ops import Lowered


def pushed_at(blocks: Sequence[BasicBlock], lowered: Sequence[Lowered], start_of: dict[int, int]) -> dict[int, Bits]:
    """For each block that a push names as its target: the blocks that push it.  ``start_of``: block by address."""
    found: dict[int, Bits] = {}
    for b in blocks:
        for index in range(b.first, b.first + b.count):
            for op in lowered[index].ops:
                if op.name == "push" and op.attr[1] in start_of:
                    target = start_of[op.attr[1]]
                    found[target] = found.get(target, 0) | 1 << b.number
    return found


def calls_by_jumps(lowered: Sequence[Lowered]) -> bool:
    """Whether a PRET prepares a call through a register, which the graph does not show as one."""
    return any(op.name == "push" and op.attr[0] == "ret" for one in lowered for op in one.ops)


def meeting_place(flow: Flow, d: int, inside: Bits) -> bool:
    """Whether the stack brings all lanes of a branch in block d together at its post-dominator."""
    join = flow.post_dominator[d]
    region = inside | 1 << d
    if flow.anywhere or flow.pushes.get(join, 0) & inside:
        return False
    for n in members(region):
        if join not in flow.blocks[n].successors:
            continue
        if flow.ends[n] != "pop" or (n + 1 == join and flow.falls[n]):
            return False
    return join in flow.pushes


def concurrency(flow: Flow, divergent: Bits) -> tuple[list[Bits], Bits, Bits]:
    """As ``flow.concurrency``; lanes wait in no block, because waiting lanes are on the stack."""
    together = [0] * len(flow.blocks)
    for d in members(divergent):
        join = flow.post_dominator[d]
        sides: list[Bits] = []
        if join >= 0 and flow.region[d]:
            sides = [flow.reach(s, join) for s in flow.region[d]]
            inside = 0
            for side in sides:
                inside |= side
            if not meeting_place(flow, d, inside):
                join = -1
        else:
            join = -1
        if join < 0:
            sides = [flow.reach(s, -1, everywhere=True) for s in flow.blocks[d].successors]
        for i, side in enumerate(sides):
            others = 1 << join if join >= 0 else 0
            for j, other in enumerate(sides):
                if i != j:
                    others |= other
            if join < 0:
                others |= side
            for n in members(side):
                together[n] |= others
        if join >= 0:
            # A side that reaches the branch again finds the other one still waiting.
            for side in sides:
                if side >> d & 1:
                    for n in members(side):
                        together[n] |= side
    stands = 0
    for target in flow.pushes:
        stands |= 1 << target
    for n, end in enumerate(flow.ends):
        if end == "call" and n + 1 < len(flow.blocks):
            stands |= 1 << (n + 1)
    for d in members(divergent):
        for s in flow.blocks[d].successors:
            stands |= 1 << s
    return together, 0, stands
