"""Where the variables of a warp function live: registers, or the warp's save area.

LLVM keeps a variable in registers by joining its values wherever control flow meets.  In the chain of blocks that a
divergent kernel becomes, every variable then meets at every block, and most of compile time goes into moving them.
So a variable that no loop touches and that outlives its block stays in memory, where it is a load and a store;
what loops touch, and what lives within one block, is left to LLVM.  The memory is the warp's save area: such
a variable needs no saving when the warp stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpwright.engine.blocks import BasicBlock
from warpwright.engine.jit.flow import Bits, Flow
from warpwright.engine.jit.webs import Webs

FEW_BLOCKS = 6
"""A kernel without loops and with no more blocks keeps everything in registers."""


@dataclass(slots=True)
class Storage:
    """Variables in memory."""

    webs: frozenset[int]
    masks: Bits
    """Blocks whose masks of pending lanes are in memory."""


def in_loops(flow: Flow) -> Bits:
    """Blocks of loops; called functions count where they loop themselves."""
    predecessors: list[list[int]] = [[] for _ in flow.blocks]
    for n, successors in enumerate(flow.inner):
        for s in successors:
            predecessors[s].append(n)
    found = 0
    # A barrier saves and restores what registers hold: around it, memory is no farther than they are.
    stops = sum(1 << n for n, end in enumerate(flow.ends) if end in ("barrier", "barrier_red"))
    for n, successors in enumerate(flow.inner):
        for header in successors:
            if header > n:
                continue
            body = 1 << header
            work = [n]
            while work:
                b = work.pop()
                if not body >> b & 1:
                    body |= 1 << b
                    work.extend(predecessors[b])
            if not body & stops:
                found |= body
    return found


def place_variables(blocks: Sequence[BasicBlock], webs: Webs, flow: Flow, hot: Bits) -> Storage:
    """Decide for every web and mask; ``hot``: :func:`in_loops`."""
    if not hot and len(blocks) <= FEW_BLOCKS:
        return Storage(frozenset(), 0)
    block_of = [b.number for b in blocks for _ in range(b.count)]
    touched: dict[int, Bits] = {}
    for (index, _), reference in webs.references.items():
        bit = 1 << block_of[index]
        touched[reference.low] = touched.get(reference.low, 0) | bit
        if reference.high >= 0:
            touched[reference.high] = touched.get(reference.high, 0) | bit
    cold = frozenset(n for n, where in touched.items() if not where & hot and where & (where - 1))
    masks: Bits = 0
    for b in blocks:
        near = 1 << b.number
        for other in blocks:
            if b.number in other.successors:
                near |= 1 << other.number
        if not near & hot:
            masks |= 1 << b.number
    return Storage(cold, masks)
