"""Decides whether a variable of a warp function is kept in registers or in the warp's save area.

LLVM keeps a variable in registers by joining its values (phi) wherever control flow joins.  In the chain of blocks that
a divergent kernel becomes, every variable would be joined at every block, and most of the compile time would go into
moving them. A variable that is not used in loops and outlives its block therefore stays in memory; variables used in
loops, and those local to a block, are left to LLVM.  If these exceed the registers in many blocks, only the ones that
loops use most are.  The memory is the warp's save area: such a variable needs no saving when the warp stops.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from warpwright.engine.blocks import BasicBlock
from warpwright.engine.jit.flow_graph import Bits, Flow, add_loop, set_of
from warpwright.engine.jit.live_ranges import Webs

FEW_BLOCKS = 6
"""A kernel without loops and with at most this many blocks keeps everything in registers."""
MOST_JOINS = 1500
"""Maximum of (vectors times the basic blocks in which they are live), for vectors in registers.

No processor has registers for more vectors that live everywhere: LLVM would join them at each block and spill them
anyway. Four kernels of the five sets (``bench``) have more, at most 4,080: a loop around eight divisions with their
slow paths, whose code took 3.6 s to generate with AVX-512 and 8.6 s with AVX2, and takes 2.1 and 5; it runs as fast.
"""
MOST_CHOICES = 125_000
"""Maximum of (basic blocks times variables that outlive their block) for variables in registers.

It corresponds to ``object_code.MOST_CHOICES``, because LLVM has about eight blocks for one of these: beyond it variables do not become registers.  A variable outside of
the save area would then only be copied there at every stop, and where the groups of a warp may stand at hundreds of blocks, each stop copies the variables of all of them
(shuffles of a coalesced group, 828 basic blocks: 34 MB of LLVM's text and 25 s, 3 s without the copies).
"""
LOOP_WEIGHT = 8
"""Factor by which each surrounding loop increases the weight of a reference."""


@dataclass(slots=True)
class Storage:
    """Variables in memory."""

    webs: frozenset[int]
    masks: Bits
    """Blocks whose masks of pending lanes are in memory."""
    is_large: bool = False
    """Whether the function exceeds ``MOST_CHOICES``."""


def loop_bodies(flow: Flow) -> list[Bits]:
    """Bodies of loops, one per backward branch; called functions count if they contain loops themselves."""
    predecessors: list[list[int]] = [[] for _ in flow.blocks]
    for n, successors in enumerate(flow.inner):
        for s in successors:
            predecessors[s].append(n)
    bodies = []
    for n, successors in enumerate(flow.inner):
        for header in successors:
            if header > n:
                continue
            body = bytearray(len(flow.blocks))
            add_loop(body, header, n, predecessors)
            bodies.append(set_of(body))
    return bodies


def in_loops(flow: Flow) -> Bits:
    """Blocks of loops."""
    # A barrier saves and restores registers, so around it memory is no more expensive than they are.
    stops = sum(1 << n for n, end in enumerate(flow.ends) if end in ("barrier", "barrier_red"))
    found = 0
    for body in loop_bodies(flow):
        if not body & stops:
            found |= body
    return found


def place_variables(
    blocks: Sequence[BasicBlock], webs: Webs, flow: Flow, hot: Bits, vectors: Collection[int]
) -> Storage:
    """Decide for every web and mask; ``hot``: :func:`in_loops`, ``vectors``: webs that hold a value per lane."""
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
    outliving = frozenset().union(*webs.live_in)
    is_large = len(outliving) * len(blocks) > MOST_CHOICES
    if is_large:
        cold = outliving
    cold |= _crowded_out(blocks, webs, flow, [n for n in vectors if n in touched and n not in cold])
    masks: Bits = sum(1 << b.number for b in blocks)
    for b in blocks:
        if hot >> b.number & 1:
            for n in (b.number, *b.successors):
                masks &= ~(1 << n)
    return Storage(cold, masks, is_large)


def _crowded_out(blocks: Sequence[BasicBlock], webs: Webs, flow: Flow, vectors: Sequence[int]) -> frozenset[int]:
    """The vectors that do not fit in registers, least used first."""
    live = dict.fromkeys(vectors, 0)
    for b in blocks:
        for n in webs.live_in[b.number]:
            if n in live:
                live[n] += 1
    if sum(live.values()) <= MOST_JOINS:
        return frozenset()
    bodies = loop_bodies(flow)
    weights = [LOOP_WEIGHT ** sum(body >> b.number & 1 for body in bodies) for b in blocks for _ in range(b.count)]
    used = dict.fromkeys(vectors, 0)
    for (index, _), reference in webs.references.items():
        for n in {reference.low, reference.high} & used.keys():
            used[n] += weights[index]
    joins, out = 0, set()
    for n in sorted(vectors, key=lambda n: (-used[n], n)):
        if joins + live[n] > MOST_JOINS:
            out.add(n)
        else:
            joins += live[n]
    return frozenset(out)
