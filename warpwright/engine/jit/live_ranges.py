"""Live ranges: splits each architectural register into webs, one variable each.

A web is a set of definitions and uses that must share storage: found by liveness analysis, joining the values that
reach a block entry at which a register is live (union-find).  A guarded definition keeps the old value in the other
lanes, so it joins the old value's web, unless every later use is under the same guard. Registers that are always
written as 64-bit pairs become one 64-bit web.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from warpwright.engine.blocks import BasicBlock
from warpwright.isa.ops import Lowered, mask_type

Key = int
"""A storage cell: register file and number in one integer."""

FILE_BASE = {"barrier": 0, "upred": 16, "ureg": 24, "reg": 1 << 20, "pred": 1 << 24}
"""First cell of each file; there are as many registers and predicates as virtual ones (PTX) need."""
FILE_OF_OP = {
    "get_reg": "reg",
    "set_reg": "reg",
    "get_reg64": "reg",
    "set_reg64": "reg",
    "get_ureg": "ureg",
    "set_ureg": "ureg",
    "get_ureg64": "ureg",
    "set_ureg64": "ureg",
    "get_pred": "pred",
    "set_pred": "pred",
    "get_upred": "upred",
    "set_upred": "upred",
    "get_barrier": "barrier",
    "set_barrier": "barrier",
}


def key_type(key: Key, lanes: int) -> str:
    """Type of a cell: i32, i1 for predicates, a mask for convergence barriers."""
    if FILE_BASE["barrier"] <= key < FILE_BASE["upred"]:
        return mask_type(lanes)
    return "i1" if is_predicate(key) else "i32"


def is_predicate(key: Key) -> bool:
    """Whether a cell is a predicate or uniform predicate."""
    return key >= FILE_BASE["pred"] or FILE_BASE["upred"] <= key < FILE_BASE["ureg"]


@dataclass(slots=True)
class Web:
    """One variable."""

    number: int
    type: str
    """i1, i32 or i64."""
    keys: tuple[Key, ...]


@dataclass(slots=True)
class Reference:
    """A read or write of a cell (or pair) by one operation."""

    low: int
    """Node of the union-find; later the web."""
    high: int = -1
    """Node of the upper half of a 64-bit access."""
    keeps_old: bool = False
    """For writes: the instruction is guarded, and lanes whose guard is false keep a value that is read later."""


@dataclass(slots=True)
class Webs:
    """Result of :func:`find_webs`."""

    webs: list[Web]
    references: dict[tuple[int, int], Reference]
    """(instruction index, operation index; -1 = guard) to the accessed storage; ``low`` and ``high`` are web numbers.

    For a pair web ``high == low``."""
    live_in: list[frozenset[int]]
    """Webs live at the start of each block."""
    defined: list[frozenset[int]] = field(default_factory=list)
    """Webs written in each block."""


def cells(name: str, attr: int) -> tuple[Key, ...]:
    """The cells that a get or set operation accesses; none for other operations."""
    file = FILE_OF_OP.get(name)
    return () if file is None else _cells(file, attr, name.endswith("64"))


@cache
def _cells(file: str, number: int, pair: bool) -> tuple[Key, ...]:
    base = FILE_BASE[file] + number
    return (base, base + 1) if pair else (base,)


class UnionFind:
    """Disjoint sets of small integers."""

    def __init__(self) -> None:
        self.parent: list[int] = []

    def new(self) -> int:
        self.parent.append(len(self.parent))
        return len(self.parent) - 1

    def find(self, node: int) -> int:
        parent = self.parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def union(self, x: int, y: int) -> None:
        self.parent[self.find(x)] = self.find(y)


Event = tuple[int, int, Key, bool, int]
"""(instruction, operation, cell, is write, guard): guard 0 = none, else 2 * cell + inverted + 1."""


def events_of(lowered: Sequence[Lowered], first: int, count: int) -> list[Event]:
    """Reads and writes of a block in order."""
    events: list[Event] = []
    for index in range(first, first + count):
        low = lowered[index]
        guard = 0
        if low.guard is not None:
            cell = FILE_BASE[low.guard[0]] + low.guard[1]
            guard = 2 * cell + low.guard[2] + 1
            events.append((index, -1, cell, False, 0))
        for position, op in enumerate(low.ops):
            name = op.name
            if name[:4] in ("get_", "set_"):
                write = name[0] == "s"
                for cell in cells(name, op.attr):
                    events.append((index, position, cell, write, guard))
            elif name == "bssy":
                events.append((index, position, FILE_BASE["barrier"] + op.attr[0], True, guard))
            elif name == "bsync":
                events.append((index, position, FILE_BASE["barrier"] + op.attr, False, guard))
            elif name == "break":
                events.append((index, position, FILE_BASE["barrier"] + op.attr, False, guard))
                # It also changes the mask of lanes that stay, so it always keeps the rest.
                events.append((index, position, FILE_BASE["barrier"] + op.attr, True, -1))
    return events


ALWAYS = -2
"""State of a cell in the backward scan: live under any guard."""


def scan(
    events: Sequence[Event], live_out: set[Key], before: dict[int, set[Key]] | None = None
) -> tuple[set[Key], list[bool]]:
    """Walk a block backwards.

    Args:
        before: receives the cells live before each instruction that has events.

    Returns the cells live at its start and, for each event, whether a write keeps the old value of other lanes.
    """
    state: dict[Key, int] = dict.fromkeys(live_out, ALWAYS)
    keeps = [False] * len(events)
    for n in range(len(events) - 1, -1, -1):
        index, _, cell, write, guard = events[n]
        if before is not None and n + 1 < len(events) and events[n + 1][0] != index:
            before[events[n + 1][0]] = set(state)
        if not write:
            now = state.get(cell, 0)
            if guard == 0:
                state[cell] = ALWAYS
            elif now == 0:
                state[cell] = guard
            elif now != guard:
                state[cell] = ALWAYS
            continue
        now = state.get(cell, 0)
        if guard == 0 or now == guard:
            state.pop(cell, None)
        elif now != 0:
            keeps[n] = True
        if is_predicate(cell):
            # A new predicate: a cell that was live under its later value is live under an unknown condition before.
            for other, condition in state.items():
                if condition > 0 and (condition - 1) >> 1 == cell:
                    state[other] = ALWAYS
    if before is not None and events:
        before[events[0][0]] = set(state)
    return set(state), keeps


def live_keys(blocks: Sequence[BasicBlock], events: Sequence[Sequence[Event]]) -> list[set[Key]]:
    """For each block: the cells that are live at its start."""
    generated: list[set[Key]] = []
    killed: list[set[Key]] = []
    for block_events in events:
        generated.append(scan(block_events, set())[0])
        killed.append({cell for _, _, cell, write, guard in block_events if write and guard == 0})
    live: list[set[Key]] = [set(g) for g in generated]
    predecessors: list[list[int]] = [[] for _ in blocks]
    for b in blocks:
        for s in b.successors:
            predecessors[s].append(b.number)
    work = list(range(len(blocks)))
    queued = [True] * len(blocks)
    while work:
        n = work.pop()
        queued[n] = False
        new = generated[n] | (_behind(blocks[n], live) - killed[n])
        if len(new) != len(live[n]):
            live[n] = new
            for p in predecessors[n]:
                if not queued[p]:
                    queued[p] = True
                    work.append(p)
    return live


def _behind(block: BasicBlock, live: Sequence[set[Key]]) -> set[Key]:
    """The cells that are live after a block."""
    out: set[Key] = set()
    for s in block.successors:
        out |= live[s]
    return out


def find_webs(blocks: Sequence[BasicBlock], lowered: Sequence[Lowered], lanes: int = 32) -> Webs:
    """Split all registers of a kernel into webs."""
    events = [events_of(lowered, b.first, b.count) for b in blocks]
    live = live_keys(blocks, events)
    sets = UnionFind()
    entry: list[dict[Key, int]] = [{key: sets.new() for key in sorted(keys)} for keys in live]
    references: dict[tuple[int, int], Reference] = {}
    exits: list[dict[Key, int]] = []
    node_key: dict[int, Key] = {node: key for nodes in entry for key, node in nodes.items()}
    wide: list[tuple[Reference, bool]] = []
    narrow_writes: list[int] = []
    written: list[list[int]] = []
    for n, block_events in enumerate(events):
        keeps = scan(block_events, _behind(blocks[n], live))[1]
        current = dict(entry[n])
        written_here: list[int] = []
        position = 0
        while position < len(block_events):
            index, op_index, cell, write, _ = block_events[position]
            pair = op_index >= 0 and lowered[index].ops[op_index].name.endswith("64")
            nodes = []
            keeps_old = False
            for offset in range(2 if pair else 1):
                if write:
                    node = sets.new()
                    node_key[node] = cell + offset
                    if keeps[position + offset]:
                        keeps_old = True
                        old = current.get(cell + offset)
                        if old is not None:
                            sets.union(old, node)
                    current[cell + offset] = node
                    written_here.append(node)
                else:
                    known = current.get(cell + offset)
                    if known is None:
                        # A read of a cell that no path defines (dead code) gets a separate variable.
                        known = sets.new()
                        node_key[known] = cell + offset
                        current[cell + offset] = known
                    node = known
                nodes.append(node)
            reference = Reference(nodes[0], nodes[-1] if pair else -1, keeps_old)
            if pair:
                wide.append((reference, write))
            elif write:
                narrow_writes.append(nodes[0])
            references[index, op_index] = reference
            position += len(nodes)
        exits.append(current)
        written.append(written_here)
    for b in blocks:
        for s in b.successors:
            for key, node in entry[s].items():
                before = exits[b.number].get(key)
                if before is not None:
                    sets.union(before, node)
    return _number(sets, references, entry, node_key, wide, narrow_writes, written, lanes)


def _number(
    sets: UnionFind,
    references: dict[tuple[int, int], Reference],
    entry: list[dict[Key, int]],
    node_key: dict[int, Key],
    wide: list[tuple[Reference, bool]],
    narrow_writes: list[int],
    written: list[list[int]],
    lanes: int,
) -> Webs:
    """Number the webs; join the halves of pairs that are only ever written as pairs."""
    find = sets.find
    narrow = {find(node) for node in narrow_writes}
    upper_of: dict[int, set[int]] = {}
    lower_of: dict[int, set[int]] = {}
    for reference, _ in wide:
        low, high = find(reference.low), find(reference.high)
        upper_of.setdefault(low, set()).add(high)
        lower_of.setdefault(high, set()).add(low)
    written_wide = {find(r.low) for r, write in wide if write} | {find(r.high) for r, write in wide if write}
    paired: dict[int, int] = {}
    for low, highs in upper_of.items():
        high = next(iter(highs))
        if (
            len(highs) == 1
            and len(lower_of[high]) == 1
            and low not in lower_of
            and high not in upper_of
            and low not in narrow
            and high not in narrow
            and low in written_wide
        ):
            paired[high] = low
    webs: list[Web] = []
    number_of: dict[int, int] = {}

    def number(node: int) -> int:
        root = find(node)
        root = paired.get(root, root)
        known = number_of.get(root)
        if known is None:
            known = number_of[root] = len(webs)
            is_pair = root in pair_roots
            key = node_key[root]
            webs.append(Web(known, "i64" if is_pair else key_type(key, lanes), (key, key + 1) if is_pair else (key,)))
        return known

    pair_roots = set(paired.values())
    for reference in references.values():
        reference.low = number(reference.low)
        if reference.high >= 0:
            reference.high = number(reference.high)
    return Webs(
        webs,
        references,
        [frozenset(number(node) for node in nodes.values()) for nodes in entry],
        [frozenset(number(node) for node in nodes) for nodes in written],
    )
