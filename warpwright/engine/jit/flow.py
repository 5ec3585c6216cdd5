"""Control flow: where lanes of one warp can be at the same time.

Volta's divergence is compiled to one static control-flow graph: each block has a mask of pending lanes, blocks run in
code order, the lowest pending address first, and only back edges jump.  ``concurrency`` says, for each block, in
which other blocks lanes can be pending while it runs; everything else follows from it: which writes must keep
other lanes' values, which jumps may be direct, what is live at a stop.

BSYNC needs no code where that order alone brings all lanes together: when every block between BSSY and BSYNC lies
before the BSYNC.  Code placed out of line (calls of division subroutines, BREAK targets) makes it a real wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from warpwright.engine.blocks import BasicBlock
from warpwright.engine.jit.webs import Webs
from warpwright.isa.ops import Access, Lowered
from warpwright.isa.program import Program

Bits = int
"""A set of blocks as the bits of an integer."""


def members(bits: Bits) -> list[int]:
    """Block numbers in a set, ascending."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


@dataclass(slots=True)
class Flow:
    """Facts about the graph that do not depend on which branches diverge."""

    blocks: Sequence[BasicBlock]
    ends: list[str]
    """Name of each block's last operation when it is a control operation, else ""."""
    starts: list[str]
    """'bsync' or 'warpsync' when the block begins with one, else ""."""
    inner: list[tuple[int, ...]]
    """Successors within the same function: a call leads to its return site, a return nowhere."""
    region: list[tuple[int, ...]]
    """``inner`` and the entries of called functions."""
    post_dominator: list[int]
    """Immediate post-dominator within the function, -1 for none."""
    fair: list[bool]
    """Blocks of loops that wait for other lanes, warps or blocks (spin loops)."""
    honoured: Bits = 0
    """Blocks that begin with a BSYNC at which lanes must really wait."""
    saved: Bits = 0
    """Honoured BSYNC blocks whose register is saved and restored: lanes may wait there for different groups."""
    joined_by: dict[int, Bits] = field(default_factory=dict)
    """Honoured BSYNC block without BREAK: the blocks whose divergence ends at it."""

    @property
    def any_fair(self) -> bool:
        return any(self.fair)

    def reach(self, start: int, stop: int, everywhere: bool = False) -> Bits:
        """Blocks reachable from ``start`` (included) without entering ``stop``."""
        if start == stop:
            return 0
        seen = 1 << start
        work = [start]
        while work:
            n = work.pop()
            for s in self.blocks[n].successors if everywhere else self.region[n]:
                if s != stop and not seen >> s & 1:
                    seen |= 1 << s
                    work.append(s)
        return seen


def _post_dominators(inner: Sequence[tuple[int, ...]]) -> list[int]:
    count = len(inner)
    everything = (1 << count) - 1
    known = [everything] * count
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for n, successors in enumerate(inner):
        for s in successors:
            predecessors[s].append(n)
    work = list(range(count))
    queued = [True] * count
    while work:
        n = work.pop()
        queued[n] = False
        both = everything if inner[n] else 0
        for s in inner[n]:
            both &= known[s]
        new = both | 1 << n
        if new != known[n]:
            known[n] = new
            for p in predecessors[n]:
                if not queued[p]:
                    queued[p] = True
                    work.append(p)
    block_of = {mask: n for n, mask in enumerate(known)}
    # Blocks of an endless loop keep the full set: nothing post-dominates them.
    return [
        -1 if mask == everything and count > 1 else block_of.get(mask & ~(1 << n), -1) for n, mask in enumerate(known)
    ]


def _loops(blocks: Sequence[BasicBlock]) -> list[Bits]:
    """Bodies of loops, one for each target of a jump back."""
    predecessors: list[list[int]] = [[] for _ in blocks]
    for b in blocks:
        for s in b.successors:
            predecessors[s].append(b.number)
    bodies: dict[int, Bits] = {}
    for b in blocks:
        for header in b.successors:
            if header > b.number:
                continue
            body = bodies.get(header, 0) | 1 << header
            work = [b.number]
            while work:
                n = work.pop()
                if not body >> n & 1:
                    body |= 1 << n
                    work.extend(predecessors[n])
            bodies[header] = body
    return list(bodies.values())


def _spin_loops(blocks: Sequence[BasicBlock], lowered: Sequence[Lowered], webs: Webs) -> list[bool]:
    """Blocks of loops whose exit waits for what others write.

    A loop qualifies when a value that a strong load or an atomic in it brings decides any of its branches, or a value
    from shared memory decides whether it ends (a flag that is read with a plain load because it is volatile).
    """
    fair = [False] * len(blocks)
    for body in _loops(blocks):
        inside = members(body)
        accesses = [a for n in inside for a in blocks[n].accesses]
        strong = any(a.kind == "atomic" or (a.kind == "load" and a.access.strong) for a in accesses)
        weak = any(a.kind == "load" and a.space in ("shared", "generic") for a in accesses)
        if (strong and _decided_by(body, blocks, lowered, webs, False)) or (
            weak and _decided_by(body, blocks, lowered, webs, True)
        ):
            for n in inside:
                fair[n] = True
    return fair


def _decided_by(
    body: Bits, blocks: Sequence[BasicBlock], lowered: Sequence[Lowered], webs: Webs, exits_only: bool
) -> bool:
    """Whether values loaded in a loop reach one of its branches (or, ``exits_only``, one that leaves it)."""
    tainted: set[int] = set()
    before = -1
    while before != len(tainted):
        before = len(tainted)
        for n in members(body):
            b = blocks[n]
            leaves = any(not body >> s & 1 for s in b.successors)
            for index in range(b.first, b.first + b.count):
                low = lowered[index]
                values: list[bool] = []
                guarded = low.guard is not None and webs.references[index, -1].low in tainted
                for position, op in enumerate(low.ops):
                    hot = any(values[a] for a in op.args)
                    if op.name[:4] == "get_":
                        reference = webs.references[index, position]
                        hot = reference.low in tainted or reference.high in tainted
                    elif op.name[:4] == "set_":
                        if hot or guarded:
                            reference = webs.references[index, position]
                            tainted.add(reference.low)
                            if reference.high >= 0:
                                tainted.add(reference.high)
                    elif op.name in ("load", "atomic"):
                        access: Access = op.attr
                        weak = access.space in ("shared", "generic") and op.name == "load"
                        hot = hot or (weak if exits_only else op.name == "atomic" or access.strong)
                    elif (
                        op.name in ("branch", "exit", "branch_indirect")
                        and (hot or guarded)
                        and (leaves or op.name == "exit" or not exits_only)
                    ):
                        return True
                    values.append(hot)
    return False


def make_flow(program: Program, blocks: Sequence[BasicBlock], lowered: Sequence[Lowered], webs: Webs) -> Flow:
    """Analyse the graph of a kernel."""
    ends, starts = [], []
    inner: list[tuple[int, ...]] = []
    region: list[tuple[int, ...]] = []
    for b in blocks:
        last = lowered[b.first + b.count - 1]
        end = next(
            (op.name for op in reversed(last.ops) if op.name not in ("set_reg", "set_pred", "set_ureg", "set_upred")),
            "",
        )
        control = end in ("branch", "branch_indirect", "exit", "trap", "barrier", "barrier_red", "nanosleep")
        if not control and any(op.name == "barrier_red" for op in last.ops):
            end, control = "barrier_red", True
        ends.append(end if control else "")
        first = lowered[b.first].ops
        starts.append(first[-1].name if first and first[-1].name in ("bsync", "warpsync") else "")
        opcode = program.instructions[b.first + b.count - 1].opcode
        successors = b.successors
        if opcode == "CALL":
            inner.append((b.number + 1,) if b.number + 1 < len(blocks) else ())
            region.append(tuple(sorted({*successors, *inner[-1]})))
            continue
        if opcode == "RET":
            successors = (b.number + 1,) if last.guard is not None and b.number + 1 < len(blocks) else ()
        inner.append(successors)
        region.append(successors)
    fair = _spin_loops(blocks, lowered, webs)
    flow = Flow(blocks, ends, starts, inner, region, _post_dominators(inner), fair)
    _decide_honoured(flow, lowered)
    return flow


def _decide_honoured(flow: Flow, lowered: Sequence[Lowered]) -> None:
    """Find the BSYNCs at which lanes must wait, and what each one joins."""
    setters: dict[int, list[int]] = {}
    breaks: dict[int, Bits] = {}
    moved: set[int] = set()
    for b in flow.blocks:
        for index in range(b.first, b.first + b.count):
            for op in lowered[index].ops:
                if op.name == "bssy":
                    setters.setdefault(op.attr[0], []).append(b.number)
                elif op.name == "break":
                    breaks[op.attr] = breaks.get(op.attr, 0) | 1 << b.number
                elif op.name in ("set_barrier", "get_barrier"):
                    moved.add(op.attr)
    for b in flow.blocks:
        if flow.starts[b.number] != "bsync":
            continue
        number = lowered[b.first].ops[-1].attr
        inside = 0
        for setter in setters.get(number, ()):
            between = 0
            for s in flow.region[setter]:
                between |= flow.reach(s, b.number)
            # A BSSY in the middle of a block: the rest of the block belongs to the region as well.
            if flow.post_dominator[setter] >= 0 or between:
                inside |= between | 1 << setter
        late = inside >> (b.number + 1)
        if late or flow.any_fair or number in moved or number not in setters:
            flow.honoured |= 1 << b.number
            if number in moved:
                flow.saved |= 1 << b.number
            if number not in moved and not breaks.get(number, 0) & inside and number in setters:
                flow.joined_by[b.number] = inside


def concurrency(flow: Flow, divergent: Bits) -> tuple[list[Bits], Bits]:
    """For each block, the blocks in which other lanes can be pending while it runs; and the blocks that lanes wait at.

    Args:
        divergent: blocks whose last instruction may send lanes to different places.
    """
    count = len(flow.blocks)
    together = [0] * count
    fair = flow.any_fair
    for d in members(divergent):
        successors = flow.blocks[d].successors
        join = flow.post_dominator[d]
        sides: list[Bits] = []
        if flow.ends[d] != "branch_indirect" or flow.region[d]:
            if join >= 0:
                sides = [flow.reach(s, join) for s in flow.region[d]]
                inside = 0
                for side in sides:
                    inside |= side
                ordered = not fair and not inside >> (join + 1)
                if not ordered and not flow.joined_by.get(join, 0) >> d & 1:
                    join = -1
        else:
            join = -1
        if join < 0:
            sides = [flow.reach(s, -1, everywhere=True) for s in successors]
        for i, side in enumerate(sides):
            others = 1 << join if join >= 0 else 0
            for j, other in enumerate(sides):
                if i != j:
                    others |= other
            for n in members(side):
                together[n] |= others
    anywhere = 0
    for bits in together:
        anywhere |= bits
    waiting = flow.honoured & anywhere
    for n, end in enumerate(flow.ends):
        if end in ("barrier", "barrier_red") and together[n]:
            waiting |= 1 << (n + 1)
        if flow.starts[n] == "warpsync" and together[n]:
            waiting |= 1 << n
    result = []
    for n, bits in enumerate(together):
        if not bits:
            result.append(0)
            continue
        later = bits >> (n + 1) << (n + 1)
        allowed = bits if fair else later | bits & waiting
        if not waiting >> n & 1:
            allowed &= ~(1 << n)
        result.append(allowed)
    return result, waiting
