"""Control flow of one PTX function: basic blocks, and where diverged lanes reconverge.

PTX does not specify reconvergence.  Here diverged lanes reconverge at the immediate post-dominator J of their branch,
where NVIDIA's compilers also place it: a convergence barrier is set (``bssy``) while all of them still run together,
and awaited (``bsync``) on the edges into J.  If the branch is on a cycle that avoids J (a loop's exit), the barrier is
set on the edges into the cycle, that is, into the strongly connected component of the graph without J.  Loops that wait
for other threads (compare-and-swap, exchange, volatile or acquiring loads) get no barrier, because lanes that hold a
lock must not wait for lanes that spin on it; their back edges yield.  There is no barrier either if the path to J
contains an instruction that gathers the whole warp: either all lanes take the branch together, or lanes must not wait
for one that stays in the loop.  There are 16 barrier registers; a region for which none is free gets no barrier, which
costs speed but not correctness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from warpwright.isa.ops import Access, Op
from warpwright.isa.ptx.meaning import Place
from warpwright.isa.ptx.syntax import Instruction

BARRIERS = 16
Guard = tuple[str, int, bool]


@dataclass(slots=True)
class Step:
    """One machine step: the operations of a PTX instruction or of a part of one."""

    ops: list[Op]
    guard: Guard | None
    instruction: Instruction | None
    opcode: str = ""
    """Replaces the instruction's text in steps that do not come from an instruction."""
    returns_to: str = ""
    """For a call: the label at which it returns; the branch itself leaves the function."""
    leaves: bool = False
    """For a return: the branch leaves the function."""


@dataclass(slots=True)
class Block:
    """Steps that execute from first to last; only the last one branches."""

    label: str
    steps: list[Step] = field(default_factory=list)
    next: str | None = None
    """The block that it falls through to, or None."""

    def targets(self) -> list[str]:
        """Labels that the last step branches to."""
        if not self.steps or not self.steps[-1].ops:
            return []
        last = self.steps[-1]
        if last.returns_to or last.leaves:
            return []
        op = last.ops[-1]
        if op.name == "branch":
            return [op.attr.name]
        if op.name == "branch_indirect":
            return [place.name for place in op.attr]
        return []

    def retarget(self, old: str, new: str) -> None:
        """Redirect every edge from ``old`` to ``new``."""
        if self.next == old:
            self.next = new
        if old not in self.targets():
            return
        step = self.steps[-1]
        op = step.ops[-1]
        if op.name == "branch":
            step.ops[-1] = op._replace(attr=Place(new))
        else:
            # The addresses are constants in the same step.
            step.ops = [
                o._replace(attr=Place(new)) if o.name == "const" and o.attr == Place(old) else o for o in step.ops[:-1]
            ] + [op._replace(attr=tuple(Place(new) if p == Place(old) else p for p in op.attr))]


def ends_run(step: Step) -> bool:
    """Whether control never continues after the step: an unguarded branch, exit, trap or return."""
    if not step.ops or step.guard is not None or step.returns_to:
        return False
    op = step.ops[-1]
    return op.name in ("branch", "branch_indirect", "exit", "trap") and not (op.name == "branch" and op.args)


ENDS = frozenset(("branch", "branch_indirect", "exit", "trap"))


def split_blocks(items: Iterable[Step | str]) -> list[Block]:
    """Split steps and labels into blocks; nothing branches to the first block."""
    blocks = [Block("@entry")]
    serial = 0
    for item in items:
        current = blocks[-1]
        if isinstance(item, str):
            current.next = item if not (current.steps and ends_run(current.steps[-1])) else None
            blocks.append(Block(item))
            continue
        if current.steps and current.steps[-1].ops and current.steps[-1].ops[-1].name in ENDS:
            serial += 1
            label = f"@after{serial}"
            current.next = None if ends_run(current.steps[-1]) else label
            current = Block(label)
            blocks.append(current)
        current.steps.append(item)
    return blocks


# --- graphs over block numbers; a set of blocks is an integer with one bit per block ----------------
def bits(mask: int) -> list[int]:
    """The numbers in a set."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


class Graph:
    """Edges between blocks and properties derived from them; block ``exit`` is the end of the function."""

    def __init__(self, blocks: list[Block]) -> None:
        number = {block.label: n for n, block in enumerate(blocks)}
        self.exit = len(blocks)
        self.successors: list[list[int]] = []
        for block in blocks:
            labels = dict.fromkeys(block.targets() + ([block.next] if block.next is not None else []))
            found = [number[label] for label in labels]
            last = block.steps[-1] if block.steps else None
            leaves = last is not None and last.ops and last.ops[-1].name in ("exit", "trap")
            if last is not None and (leaves or last.leaves):
                found.append(self.exit)
            self.successors.append(found or [self.exit])
        self.successors.append([])
        self.predecessors: list[list[int]] = [[] for _ in self.successors]
        for n, targets in enumerate(self.successors):
            for target in targets:
                self.predecessors[target].append(n)

    def dominators(self, backwards: bool = False) -> list[int]:
        """The set of (post-)dominators of each block, itself included."""
        edges_in = self.successors if backwards else self.predecessors
        root = self.exit if backwards else 0
        order = self.order(root, self.predecessors if backwards else self.successors)
        whole = (1 << len(self.successors)) - 1
        found = [whole] * len(self.successors)
        found[root] = 1 << root
        changed = True
        while changed:
            changed = False
            for n in order:
                if n == root:
                    continue
                meet = whole
                for p in edges_in[n]:
                    meet &= found[p]
                meet |= 1 << n
                if meet != found[n]:
                    found[n] = meet
                    changed = True
        return found

    def order(self, root: int, edges: list[list[int]]) -> list[int]:
        """Reverse postorder from a block."""
        seen, done = {root}, []
        stack = [(root, iter(edges[root]))]
        while stack:
            node, rest = stack[-1]
            following = next((m for m in rest if m not in seen), None)
            if following is None:
                done.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(edges[following])))
        return done[::-1]

    def reach(self, start: int, without: int, edges: list[list[int]] | None = None) -> int:
        """Blocks reachable from ``start`` (included) without entering ``without``."""
        edges = edges or self.successors
        seen, queue = 1 << start, [start]
        while queue:
            for m in edges[queue.pop()]:
                if m != without and not seen >> m & 1:
                    seen |= 1 << m
                    queue.append(m)
        return seen

    def cycle(self, block: int, without: int) -> int:
        """The strongly connected component of a block in the graph without another block; 0 if it is not on a cycle."""
        ahead = self.reach(block, without)
        behind = self.reach(block, without, self.predecessors)
        both = ahead & behind
        return both if both != 1 << block or block in self.successors[block] else 0


def is_strong(step: Step) -> bool:
    """Whether the step may be an access on which a spin loop waits."""
    for op in step.ops:
        if op.name == "atomic" and op.attr.operation in ("cas", "cas_half", "exch"):
            return True
        if op.name == "load":
            how: Access = op.attr
            if how.strong:
                return True
    return False


def gathers_warp(step: Step) -> bool:
    """Whether the step waits for every lane of the warp."""
    if not step.ops or step.ops[-1].name != "warpsync":
        return False
    mask = step.ops[step.ops[-1].args[0]]
    return mask.name == "const" and mask.attr == 0xFFFFFFFF


@dataclass(slots=True)
class Region:
    """One convergence barrier: set at ``at`` (the end of a block, or the edges into a cycle) and awaited before
    ``join``."""

    join: int
    at: int
    cycle: int
    inside: int
    """Blocks in between, as a set."""


def find_regions(blocks: list[Block], graph: Graph) -> tuple[list[Region], int]:
    """Barriers that the divergent branches need, outermost first, and the blocks of spin loops."""
    after = graph.dominators(backwards=True)
    before = graph.dominators()
    reachable = graph.reach(0, -1)
    spinning = 0
    found: list[Region] = []
    for n, block in enumerate(blocks):
        if not reachable >> n & 1 or len(graph.successors[n]) < 2 or not diverges(block):
            continue
        others = after[n] & ~(1 << n)
        if not after[n] >> graph.exit & 1:
            continue
        size = others.bit_count()
        join = next(m for m in bits(others) if after[m].bit_count() == size)
        if join == graph.exit:
            continue
        cycle = graph.cycle(n, join)
        if cycle and any(is_strong(step) for m in bits(cycle) for step in blocks[m].steps):
            spinning |= cycle
            continue
        at = min(bits(cycle)) if cycle else n
        between = cycle or graph.reach(n, join) & ~(1 << n | 1 << graph.exit)
        if any(gathers_warp(step) for m in bits(between) for step in blocks[m].steps):
            continue
        if not any(r.join == join and r.at == at and r.cycle == cycle for r in found):
            inside = 0
            for m in bits(cycle) if cycle else [n]:
                inside |= graph.reach(m, join)
            found.append(Region(join, at, cycle, inside & ~(1 << graph.exit)))
    needed = [
        r
        for r in found
        if not any(
            o is not r and o.join == r.join and before[r.at] >> o.at & 1 and o.inside >> r.at & 1 and o.at != r.at
            for o in found
        )
    ]
    needed.sort(key=lambda r: -r.inside.bit_count())
    return needed, spinning


def diverges(block: Block) -> bool:
    """Whether lanes may diverge at the end of the block."""
    last = block.steps[-1] if block.steps else None
    if last is None or last.instruction is None:
        return False
    return last.instruction.opcode in ("bra", "brx") and "uni" not in last.instruction.modifiers


def reconverge(blocks: list[Block]) -> list[Block]:
    """Add convergence barriers and yields to a function."""
    graph = Graph(blocks)
    regions, spinning = find_regions(blocks, graph)
    labels = [block.label for block in blocks]
    chosen = [(r, number) for r, number in zip(regions, _colours(regions), strict=True) if number is not None]
    before: dict[str, list[Block]] = {}
    pads = _pads(chosen, blocks, labels, before)
    _fills(chosen, blocks, graph, pads, before)
    result: list[Block] = []
    for n, block in enumerate(blocks):
        result += before.get(block.label, [])
        result.append(block)
        if spinning >> n & 1 and block.steps and ends_spin(n, blocks, graph):
            block.steps.insert(len(block.steps) - 1, Step([Op("yield", "void", (), None)], None, None, "yield"))
    return result


def _pads(
    chosen: list[tuple[Region, int]], blocks: list[Block], labels: list[str], before: dict[str, list[Block]]
) -> list[Block]:
    """One block per region that awaits its barrier, on every edge from the region to its join."""
    pads: list[Block] = []
    for serial, (region, number) in enumerate(chosen):
        join = labels[region.join]
        # Of regions with the same join, the inner one (later in this list) is awaited first.
        earlier = [n for n in range(serial) if chosen[n][0].join == region.join and chosen[n][0].inside & region.inside]
        pad = Block(f"@join{serial}", next=pads[earlier[-1]].label if earlier else join)
        # A lane whose own bit is not in its barrier does not wait: barriers are cleared after use, so that a stale one is never awaited.
        pad.steps = [
            Step([Op("bsync", "void", (), number)], None, None, "bsync"),
            Step([Op("const", "i32", (), 0), Op("set_barrier", "void", (0,), number)], None, None, "bclear"),
        ]
        for m in bits(region.inside):
            for old in (join, *(pads[n].label for n in earlier)):
                blocks[m].retarget(old, pad.label)
        pads.append(pad)
        before.setdefault(join, []).insert(0, pad)
    return pads


def _fills(
    chosen: list[tuple[Region, int]],
    blocks: list[Block],
    graph: Graph,
    pads: list[Block],
    before: dict[str, list[Block]],
) -> None:
    """Set each barrier: before its branch, or on the edges into its cycle."""
    ways: list[Block] = []
    for serial, (region, number) in enumerate(chosen):
        fill = Op("bssy", "void", (), (number, Place(pads[serial].label)))
        if not region.cycle:
            place = blocks[region.at].steps
            place.insert(len(place) - 1, Step([fill], None, None, "bssy"))
            continue
        inside = {blocks[m].label for m in bits(region.cycle)}
        inside |= {pads[n].label for n, (other, _) in enumerate(chosen) if region.cycle >> other.at & 1}
        for m in bits(region.cycle):
            if all(region.cycle >> p & 1 for p in graph.predecessors[m]):
                continue
            header = blocks[m].label
            way = Block(f"@way{serial}.{m}", [Step([fill], None, None, "bssy")], header)
            for other in (*blocks, *pads, *ways):
                if other.label not in inside:
                    other.retarget(header, way.label)
            ways.append(way)
            before.setdefault(header, []).insert(0, way)


def ends_spin(n: int, blocks: list[Block], graph: Graph) -> bool:
    """Whether a block ends a loop that may wait for other threads; loops nested in such a loop are not counted."""
    for header in graph.successors[n]:
        body = 1 << header | (graph.reach(n, header, graph.predecessors) if header < n else 0)
        if header <= n and any(is_strong(step) for m in bits(body) for step in blocks[m].steps):
            return True
    return False


def _colours(regions: list[Region]) -> list[int | None]:
    """Assign a barrier register to each region, so that overlapping regions have different ones."""
    numbers: list[int | None] = []
    for n, region in enumerate(regions):
        taken = {numbers[m] for m in range(n) if regions[m].inside & region.inside}
        numbers.append(next((c for c in range(BARRIERS) if c not in taken), None))
    return numbers
