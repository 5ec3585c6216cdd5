"""Schedules from a scoreboard, for code without control bits (PTX executed directly, NV50).

An instruction issues once every earlier instruction has written the registers and predicates that it reads or writes;
operands are read at issue, so later writes need not wait for them.  This is the scoreboard of chips before Kepler (Coon
et al., US patent 7,634,621: registers that one instruction writes together share an entry).  The latency of each pipe
is
a property of the chip.

The code uses the front end's registers, any number of them.  Entries are assigned as a compiler allocates registers:
one
for each set of registers that an instruction writes together, while the set is live, the entry that has been free
longest
first.  Two registers that use an entry one after the other may wait for each other, as two values in one hardware
register do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Protocol

from warpwright.isa.effects import Effect, register_effects
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Instruction, Kind, Program
from warpwright.isa.schedule import COUNTERS, Constant, Issue, Work

COPY_COUNTER = 0
"""Counter of groups of asynchronous copies, as in machine code; entries of registers follow the counters."""
PREDICATES = 8
"""Minimum number of entries for a kernel's predicates."""
CONSTANT_BANK = 3
"""Constant bank of ``__constant__`` variables."""
TRACKED = ("reg", "ureg", "pred", "upred")


class Block(Protocol):
    """The parts of a basic block that determine registers' lifetimes."""

    @property
    def first(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def successors(self) -> Sequence[int]: ...


@dataclass(slots=True)
class _Lifetime:
    """The range of instructions in which a set of registers is live."""

    first: int
    last: int

    def include(self, position: int) -> None:
        self.first, self.last = min(self.first, position), max(self.last, position)


Effects = tuple[frozenset[Effect], frozenset[Effect]]


def _tracked(effects: Iterable[Effect]) -> frozenset[Effect]:
    return frozenset(effect for effect in effects if effect[0] in TRACKED)


class _Sets:
    """Sets of registers that some instruction writes together, each named by one of them."""

    def __init__(self) -> None:
        self.parent: dict[Effect, Effect] = {}

    def of(self, register: Effect) -> Effect:
        while self.parent.setdefault(register, register) != register:
            self.parent[register] = self.parent[self.parent[register]]
            register = self.parent[register]
        return register

    def join(self, registers: Iterable[Effect]) -> None:
        roots = sorted({self.of(register) for register in registers})
        for root in roots[1:]:
            self.parent[root] = roots[0]


def _live_at_starts(effects: Sequence[Effects], blocks: Sequence[Block], sets: _Sets) -> list[set[Effect]]:
    """Sets of registers that are live at the start of each block."""
    reads: list[set[Effect]] = []
    writes: list[set[Effect]] = []
    for block in blocks:
        first: set[Effect] = set()
        made: set[Effect] = set()
        for position in range(block.first, block.first + block.count):
            first |= {sets.of(r) for r in effects[position][0]} - made
            made |= {sets.of(r) for r in effects[position][1]}
        reads.append(first)
        writes.append(made)
    live = [set(first) for first in reads]
    before: list[list[int]] = [[] for _ in blocks]
    for number, block in enumerate(blocks):
        for follower in block.successors:
            before[follower].append(number)
    work = deque(range(len(blocks)))
    while work:
        number = work.pop()
        for previous in before[number]:
            new = live[number] - writes[previous] - live[previous]
            if new:
                live[previous] |= new
                work.append(previous)
    return live


def _lifetimes(effects: Sequence[Effects], blocks: Sequence[Block], sets: _Sets) -> dict[Effect, _Lifetime]:
    """The first and last instruction at which a set may hold a value that is read later."""
    found: dict[Effect, _Lifetime] = {}
    for position, (reads, writes) in enumerate(effects):
        for register in (*reads, *writes):
            found.setdefault(sets.of(register), _Lifetime(position, position)).include(position)
    live = _live_at_starts(effects, blocks, sets)
    for number, block in enumerate(blocks):
        for register in live[number]:
            found[register].include(block.first)
        for follower in block.successors:
            for register in live[follower] & found.keys():
                found[register].include(block.first + block.count - 1)
    return found


def _allocate(lifetimes: dict[Effect, _Lifetime], first: int, at_least: int) -> dict[Effect, int]:
    """Assign an entry to each set, numbered from ``first`` on: the one that has been free longest."""
    free = deque(range(first, first + at_least))
    end = first + at_least
    held: list[tuple[int, int]] = []
    found: dict[Effect, int] = {}
    for register, lifetime in sorted(lifetimes.items(), key=lambda item: (item[1].first, item[0])):
        while held and held[0][0] < lifetime.first:
            free.append(heappop(held)[1])
        if not free:
            free.append(end)
            end += 1
        found[register] = free.popleft()
        heappush(held, (lifetime.last, found[register]))
    return found


def entries_of(program: Program, effects: Sequence[Effects], blocks: Sequence[Block]) -> dict[Effect, int]:
    """The scoreboard entry of each register and predicate; registers written together share one."""
    sets = _Sets()
    for _, writes in effects:
        sets.join(writes)
    found = _allocate(_lifetimes(effects, blocks, sets), COUNTERS, program.registers + PREDICATES)
    return {register: found[sets.of(register)] for reads, writes in effects for register in (*reads, *writes)}


def _awaited(i: Instruction) -> int:
    """Number of groups of copies that may be outstanding: the number at the end of ``cp.async.wait_group 1``."""
    words = i.operands[0].name.rstrip("; ").split() if i.operands else []
    return int(words[-1], 0) if words and words[-1].isdigit() else 0


def _constant(i: Instruction, work: Work) -> Constant | None:
    found = next((o for o in i.operands if o.kind is Kind.CONSTANT), None)
    if found is not None:
        return Constant(found.index, found.value)
    return Constant(CONSTANT_BANK, 0, True) if work.unit == "constant" else None


def from_scoreboard(
    program: Program, lowered: Sequence[Lowered], blocks: Sequence[Block], work: Callable[[Instruction], Work]
) -> list[Issue]:
    """The schedule of a program with a scoreboard: each instruction waits for the entries of its registers, and holds
    one until it has written."""
    effects = []
    for meaning in lowered:
        reads, writes = register_effects(meaning)
        effects.append((_tracked(reads), _tracked(writes)))
    entries = entries_of(program, effects, blocks)
    found: list[Issue] = []
    copies = False
    for instruction, (reads, writes) in zip(program.instructions, effects, strict=True):
        asks = work(instruction)
        waits = {entries[register] for register in reads | writes}
        if copies:
            waits.add(COPY_COUNTER)
        copies = False
        (written,) = {entries[register] for register in writes} or {-1}
        issue = Issue(
            asks,
            instruction.address,
            reads,
            writes,
            constant=_constant(instruction, asks),
            waits=tuple(sorted(waits)),
            write_counter=written,
        )
        if asks.unit == "copies_done":
            issue = replace(issue, write_counter=COPY_COUNTER)
        elif asks.unit == "counter_wait":
            issue = replace(issue, awaited_counter=COPY_COUNTER, work=asks._replace(amount=_awaited(instruction)))
            if "wait_all" in instruction.modifiers:  # a separate group, for which the following instructions wait
                issue = replace(issue, work=Work("copies_done"), write_counter=COPY_COUNTER, awaited_counter=-1)
                copies = True
        found.append(issue)
    return found
