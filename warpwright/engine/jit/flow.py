"""Control-flow analysis: where lanes of one warp can be at the same time.

Lanes that diverge at a branch run as groups, one at a time, until BSYNC or WARPSYNC joins them (``convergence.py``).  A
group that does not run is at the start of a block: after the branch that it came from, after a YIELD, or at a
convergence point.  ``concurrency`` determines, for each block, where other groups can be while it runs.  Everything
else follows from this: which writes must keep other lanes' values, what is live at a stop, and which BSYNC must wait; a
BSYNC costs nothing if lanes cannot diverge between its BSSY and it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from warpwright.engine.blocks import INSTRUCTION_BYTES, BasicBlock, waits_under_guard
from warpwright.engine.jit import stack_flow
from warpwright.engine.jit.flow_graph import Bits, Flow, add_loop, cycles, members, set_of
from warpwright.engine.jit.live_ranges import Webs
from warpwright.engine.reconvergence import uses_stack
from warpwright.isa.ops import Access, Lowered
from warpwright.isa.program import Program


def post_dominators(inner: Sequence[tuple[int, ...]]) -> list[int]:
    """Each block's immediate post-dominator, -1 for none."""
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


def _loops(blocks: Sequence[BasicBlock], lowered: Sequence[Lowered]) -> list[Bits]:
    """Bodies of loops, one for each target of a backward branch that can be reached again from there; not those around the copies of a run."""
    ends_copy = [any(op.name == "next_copy" for op in lowered[b.first + b.count - 1].ops) for b in blocks]
    cycle = cycles([() if ends_copy[b.number] else b.successors for b in blocks])
    predecessors: list[list[int]] = [[] for _ in blocks]
    for b in blocks:
        for s in b.successors:
            if cycle[s] == cycle[b.number]:
                predecessors[s].append(b.number)
    bodies: dict[int, bytearray] = {}
    for b in blocks:
        if ends_copy[b.number]:
            continue
        for header in b.successors:
            # Code that is placed out of line branches backward as well, but once.
            if header <= b.number and cycle[header] == cycle[b.number]:
                add_loop(bodies.setdefault(header, bytearray(len(blocks))), header, b.number, predecessors)
    return [set_of(body) for body in bodies.values()]


def _spin_loops(blocks: Sequence[BasicBlock], lowered: Sequence[Lowered], webs: Webs) -> list[bool]:
    """Blocks of loops whose exit waits for a write by another thread.

    A loop qualifies if the result of a strong load or an atomic in it decides any of its branches, or if a value from
    shared memory decides whether it ends (a volatile flag that is read with a plain load).
    """
    fair = [False] * len(blocks)
    uses = cache(lambda n: _uses(blocks[n], lowered, webs))
    strong, weak = _waiting_reads(blocks, lowered)
    for body in _loops(blocks, lowered):
        if (body & strong and _decided_by(body, blocks, lowered, webs, uses, False)) or (
            body & weak and _decided_by(body, blocks, lowered, webs, uses, True)
        ):
            for n in members(body):
                fair[n] = True
    return fair


def _waiting_reads(blocks: Sequence[BasicBlock], lowered: Sequence[Lowered]) -> tuple[Bits, Bits]:
    """The blocks with strong loads or atomics, and those with loads that may read shared memory."""
    strong, weak = bytearray(len(blocks)), bytearray(len(blocks))
    for block in blocks:
        # Uses the operations, because a test of an mbarrier leaves no trace record and is missing from the blocks' accesses.
        for index in range(block.first, block.first + block.count):
            for op in lowered[index].ops:
                if op.name == "atomic" or (op.name == "load" and op.attr.strong):
                    strong[block.number] = 1
                if op.name == "load" and op.attr.space in ("shared", "generic"):
                    weak[block.number] = 1
    return set_of(strong), set_of(weak)


DECIDES = frozenset(("branch", "exit", "branch_indirect", "pop"))


@dataclass(frozen=True, slots=True)
class _Uses:
    """The results of a block's instructions, and the conditions of its branches."""

    writes: list[tuple[int, tuple[int, tuple[int, ...]]]]
    """(Web, (instruction, values from which it is computed))."""
    decides: list[tuple[bool, tuple[int, tuple[int, ...]]]]
    """(Whether it ends lanes, (instruction, values that decide))."""


def _uses(block: BasicBlock, lowered: Sequence[Lowered], webs: Webs) -> _Uses:
    found = _Uses([], [])
    for index in range(block.first, block.first + block.count):
        for position, op in enumerate(lowered[index].ops):
            if op.name[:4] == "set_":
                reference = webs.references[index, position]
                found.writes.extend((web, (index, op.args)) for web in {reference.low, reference.high})
            elif op.name in DECIDES:
                found.decides.append((op.name == "exit", (index, op.args)))
    return found


def _decided_by(
    body: Bits,
    blocks: Sequence[BasicBlock],
    lowered: Sequence[Lowered],
    webs: Webs,
    uses: Callable[[int], _Uses],
    exits_only: bool,
) -> bool:
    """Whether values loaded in a loop reach one of its branches (or, ``exits_only``, one that leaves it).

    Searched backwards, from the deciding values to the values in the loop from which they are computed.
    """
    writes: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    work: list[tuple[int, tuple[int, ...]]] = []
    """Instructions and their relevant values."""
    inside = members(body)
    within = frozenset(inside)
    for n in inside:
        mine = uses(n)
        for web, made in mine.writes:
            writes.setdefault(web, []).append(made)
        if mine.decides:
            leaves = not within.issuperset(blocks[n].successors)
            work += [what for ends, what in mine.decides if leaves or ends or not exits_only]
    seen = {-1}
    while work:
        index, wanted = work.pop()
        low = lowered[index]
        read = {-1} if low.guard is None else {webs.references[index, -1].low}
        values = list(wanted)
        while values:
            position = values.pop()
            op = low.ops[position]
            values += op.args
            if op.name[:4] == "get_":
                reference = webs.references[index, position]
                read |= {reference.low, reference.high}
            elif op.name in ("load", "atomic"):
                access: Access = op.attr
                weak = access.space in ("shared", "generic") and op.name == "load"
                if weak if exits_only else op.name == "atomic" or access.strong:
                    return True
        for web in read - seen:
            work += writes.get(web, ())
        seen |= read
    return False


def within_functions(
    program: Program, blocks: Sequence[BasicBlock], lowered: Sequence[Lowered]
) -> list[tuple[int, ...]]:
    """Successors within the same function: a call leads to its return site, a return nowhere."""
    inner: list[tuple[int, ...]] = []
    for b in blocks:
        index = b.first + b.count - 1
        behind = (b.number + 1,) if b.number + 1 < len(blocks) else ()
        opcode = program.instructions[index].opcode
        if opcode in ("CALL", "CAL", "JCAL"):
            inner.append(behind)
        elif opcode == "RET":
            inner.append(behind if lowered[index].guard is not None else ())
        else:
            inner.append(b.successors)
    return inner


def make_flow(program: Program, blocks: Sequence[BasicBlock], lowered: Sequence[Lowered], webs: Webs) -> Flow:
    """Analyse the graph of a kernel."""
    ends, starts = [], []
    inner = within_functions(program, blocks, lowered)
    region: list[tuple[int, ...]] = []
    for b in blocks:
        last = lowered[b.first + b.count - 1]
        end = next(
            (op.name for op in reversed(last.ops) if op.name not in ("set_reg", "set_pred", "set_ureg", "set_upred")),
            "",
        )
        control = end in (
            *(
                "branch",
                "branch_indirect",
                "exit",
                "trap",
                "barrier",
                "barrier_red",
                "nanosleep",
                "yield",
                "pop",
                "call",
            ),
        )
        if not control and any(op.name == "barrier_red" for op in last.ops):
            end, control = "barrier_red", True
        ends.append(end if control else "")
        first = lowered[b.first].ops
        starts.append(first[-1].name if first and first[-1].name in ("bsync", "warpsync") else "")
        opcode = program.instructions[b.first + b.count - 1].opcode
        calls = opcode in ("CALL", "CAL", "JCAL")
        region.append(tuple(sorted({*b.successors, *inner[b.number]})) if calls else inner[b.number])
    fair = _spin_loops(blocks, lowered, webs)
    flow = Flow(blocks, ends, starts, inner, region, post_dominators(inner), fair)
    if uses_stack(lowered):
        flow.stacked = True
        start_of = {program.instructions[b.first].address: b.number for b in blocks}
        flow.pushes = stack_flow.pushed_at(blocks, lowered, start_of)
        flow.falls = [lowered[b.first + b.count - 1].guard is not None or flow.ends[b.number] == "" for b in blocks]
        for b in blocks:
            last = lowered[b.first + b.count - 1]
            if flow.ends[b.number] == "pop" and last.ops[-1].args:
                flow.falls[b.number] = True
        flow.anywhere = stack_flow.calls_by_jumps(lowered)
        return flow
    for b in blocks:
        if ends[b.number] in ("yield", "nanosleep"):
            flow.gives_way |= 1 << b.number
        first = lowered[b.first].ops
        exclusive = starts[b.number] == "warpsync" and first[-1].attr == "exclusive"
        if starts[b.number] == "warpsync" and first[-1].attr == "collective":
            flow.collective |= 1 << b.number
        if ends[b.number] == "branch_indirect" or exclusive or waits_under_guard(lowered[b.first]):
            flow.replays |= 1 << b.number
    _find_regions(flow, program, lowered)
    return flow


def _find_regions(flow: Flow, program: Program, lowered: Sequence[Lowered]) -> None:
    """Find the blocks between each BSYNC and its BSSYs, and the BSYNCs that certainly join lanes that diverge there."""
    setters: dict[int, list[tuple[int, int]]] = {}
    breaks: dict[int, Bits] = {}
    moved: set[int] = set()
    for b in flow.blocks:
        for index in range(b.first, b.first + b.count):
            for op in lowered[index].ops:
                if op.name == "bssy":
                    setters.setdefault(op.attr[0], []).append((b.number, op.attr[1]))
                elif op.name == "break":
                    breaks[op.attr] = breaks.get(op.attr, 0) | 1 << b.number
                elif op.name in ("set_barrier", "get_barrier"):
                    moved.add(op.attr)
    for b in flow.blocks:
        if flow.starts[b.number] != "bsync":
            continue
        number = lowered[b.first].ops[-1].attr
        if number in moved:
            flow.saved |= 1 << b.number
            continue
        # BSSY names the BSYNC or the address directly after it.
        at = program.instructions[b.first].address
        found = setters.get(number, [])
        own = [n for n, place in found if at <= place <= at + INSTRUCTION_BYTES] or [n for n, _ in found]
        if not own:
            continue
        inside = 0
        for setter in own:
            inside |= 1 << setter
            for s in flow.region[setter]:
                inside |= flow.reach(s, b.number)
        flow.inside[b.number] = inside
        if not (breaks.get(number, 0) | flow.gives_way) & inside:
            flow.joined_by[b.number] = inside


def join_of(flow: Flow, n: int) -> int:
    """The BSYNC block that certainly joins lanes that diverge after block ``n``, or -1."""
    if flow.replays >> n & 1 and not flow.region[n]:
        return -1
    join = flow.post_dominator[n]
    seen = 0
    while join >= 0 and not seen >> join & 1:
        if flow.joined_by.get(join, 0) >> n & 1:
            return join
        seen |= 1 << join
        join = flow.post_dominator[join]
    return -1


def concurrency(flow: Flow, divergent: Bits) -> tuple[list[Bits], Bits, Bits]:
    """Determine where groups can be.  A BSYNC that lanes may pass early is removed from ``flow.joined_by``.

    Args:
        divergent: blocks whose last instruction may send lanes to different places.

    Returns:
        For each block, the blocks at which other groups can be while it runs; the blocks at which groups wait; the
        blocks at whose start a group that could run can be.
    """
    if flow.stacked:
        return stack_flow.concurrency(flow, divergent)
    while True:
        found = _concurrency(flow, divergent)
        _, waiting, _ = found
        syncs = sum(1 << n for n in members(waiting) if flow.starts[n] == "warpsync")
        early = [n for n, inside in flow.joined_by.items() if inside & syncs]
        if not early:
            return found
        for n in early:
            del flow.joined_by[n]


def _concurrency(flow: Flow, divergent: Bits) -> tuple[list[Bits], Bits, Bits]:
    """:func:`concurrency` if the BSYNCs of ``flow.joined_by`` join all diverged lanes."""
    count = len(flow.blocks)
    beside: dict[Bits, Bits] = {}
    """For blocks on a side of a branch: the blocks of its other sides."""
    stands = 0
    for d in members(divergent):
        successors = flow.blocks[d].successors
        join = join_of(flow, d)
        itself = flow.replays & 1 << d
        if itself or join not in successors:
            for s in successors:
                stands |= 1 << s
        stands |= itself
        if join >= 0:
            sides = [flow.reach(s, join) for s in flow.region[d]]
        else:
            sides = [flow.reach(s, -1, everywhere=True) for s in successors]
        if itself:
            # The lanes with other targets stay at the instruction.
            everything = itself
            for side in sides:
                everything |= side
            sides = [*sides, everything]
            if flow.ends[d] != "branch_indirect":
                sides.append(everything)
        for i, side in enumerate(sides):
            others = 1 << join if join >= 0 else 0
            for j, other in enumerate(sides):
                if i != j:
                    others |= other
            beside[side] = beside.get(side, 0) | others
    together = [0] * count
    for side, others in beside.items():
        for n in members(side):
            together[n] |= others
    anywhere = 0
    for bits in together:
        anywhere |= bits
    waiting = 0
    for n, end in enumerate(flow.ends):
        if end in ("barrier", "barrier_red") and together[n]:
            waiting |= 1 << (n + 1)
        if flow.starts[n] == "warpsync" and (together[n] or flow.replays & divergent & 1 << n):
            waiting |= 1 << n
            if flow.collective >> n & 1:
                stands |= 1 << (n + 1)
        if flow.starts[n] == "bsync" and anywhere >> n & 1 and flow.inside.get(n, -1) & divergent:
            waiting |= 1 << n
            stands |= 1 << n
        if flow.gives_way >> n & 1 and (together[n] or anywhere):
            for s in flow.blocks[n].successors:
                stands |= 1 << s
    return [bits & (stands | waiting) for bits in together], waiting, stands
