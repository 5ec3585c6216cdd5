"""Register allocation: liveness over the whole program, then a linear scan.

The successor of a call is the called function, and the successors of a return are all places after a call of that
function, so that functions and their callers share the register file.  Registers that do not fit are spilled to local
memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from warpwright.isa.nv50.assembler.virtual_instructions import Code, Inst, word
from warpwright.isa.program import Kind, Operand

MOST_REGISTERS = 63
"""Number of registers that every instruction form and every half register can name, less one."""
JUMPS = frozenset(("bra", "call", "ret", "trap"))


@dataclass(slots=True)
class Span:
    """The range of positions in which a register may hold a live value."""

    register: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """The physical register of each virtual register."""

    places: dict[int, int]
    count: int
    """Number of registers used."""


def blocks_of(code: Code) -> list[tuple[int, int]]:
    """First and end position of each basic block."""
    starts = {0}
    for n, i in enumerate(code.instructions):
        if i.opcode == "label":
            starts.add(n)
        elif i.opcode in JUMPS or i.tail:
            starts.add(n + 1)
    ordered = sorted(n for n in starts if n < len(code.instructions))
    return list(zip(ordered, [*ordered[1:], len(code.instructions)], strict=True))


def successors_of(code: Code, blocks: list[tuple[int, int]], returns: Mapping[int, list[int]]) -> list[list[int]]:
    """Blocks that may follow each block."""
    number = {first: n for n, (first, _) in enumerate(blocks)}
    labels = {i.label: number[n] for n, i in enumerate(code.instructions) if i.opcode == "label"}
    found = []
    for n, (_, end) in enumerate(blocks):
        last = code.instructions[end - 1]
        following = [n + 1] if n + 1 < len(blocks) else []
        if last.opcode == "bra":
            found.append([labels[last.label], *(following if last.guard is not None else [])])
        elif last.opcode == "call":
            found.append([labels[last.label]])
        elif last.opcode == "ret":
            found.append(
                [number[m] for m in returns.get(end - 1, []) if m in number] + (following if last.guard else [])
            )
        elif last.opcode == "trap" or (last.tail == "exit" and last.guard is None):
            found.append([])
        else:
            found.append(following)
    return found


def return_places(code: Code) -> dict[int, list[int]]:
    """For each return: positions after the calls of its function, whose labels begin with ``@function``."""
    owner = ""
    callers: dict[str, list[int]] = {}
    rets: list[tuple[int, str]] = []
    for n, i in enumerate(code.instructions):
        if i.opcode == "label" and i.label.startswith("@function "):
            owner = i.label
        elif i.opcode == "call":
            callers.setdefault(i.label, []).append(n + 1)
        elif i.opcode == "ret":
            rets.append((n, owner))
    return {n: callers.get(name, []) for n, name in rets}


def live_sets(code: Code) -> list[tuple[int, int, set[int], set[int]]]:
    """First and end position of each basic block, and the registers that are live at its start and at its end."""
    blocks = blocks_of(code)
    successors = successors_of(code, blocks, return_places(code))
    uses: list[set[int]] = []
    kills: list[set[int]] = []
    for first, end in blocks:
        read: set[int] = set()
        written: set[int] = set()
        for i in code.instructions[first:end]:
            read |= {o.index for o in reads(i)} - written
            result = i.result
            if result is not None and not partial(i, result, code):
                written.add(result.index)
        uses.append(read)
        kills.append(written)
    live_in: list[set[int]] = [set(u) for u in uses]
    changed = True
    while changed:
        changed = False
        for n in range(len(blocks) - 1, -1, -1):
            live = set().union(*(live_in[m] for m in successors[n])) - kills[n] | uses[n]
            if live != live_in[n]:
                live_in[n], changed = live, True
    return [
        (first, end, live_in[n], set().union(*(live_in[m] for m in successors[n])))
        for n, (first, end) in enumerate(blocks)
    ]


def spans_of(code: Code) -> list[Span]:
    """Live ranges without holes, sorted by start."""
    spans: dict[int, Span] = {}

    def at(register: int, position: int) -> None:
        span = spans.setdefault(register, Span(register, position, position))
        span.start, span.end = min(span.start, position), max(span.end, position)

    for first, end, at_start, at_end in live_sets(code):
        for register in at_start:
            at(register, 2 * first)
        for register in at_end:
            at(register, 2 * end)
        for position in range(first, end):
            i = code.instructions[position]
            for o in i.sources:
                at(o.index, 2 * position)
            result = i.result
            if result is not None:
                at(result.index, 2 * position + 1)
    return sorted(spans.values(), key=lambda span: (span.start, span.end))


def partial(i: Inst, result: Operand, code: Code) -> bool:
    """Whether an instruction leaves part of a register unchanged; the words of a wide register are written in order."""
    later_word = result.suffix == "" and result.index in code.sizes and result.value > 0
    return i.guard is not None or result.suffix in ("l", "h") or later_word


def reads(i: Inst) -> list[Operand]:
    """Registers whose values an instruction reads."""
    result = i.result
    keeps = result is not None and (i.guard is not None or result.suffix in ("l", "h"))
    return [*i.sources, result] if keeps and result is not None else i.sources


def hints_of(code: Code) -> dict[int, list[int]]:
    """Pairs of registers joined by a copy."""
    found: dict[int, list[int]] = {}
    for i in code.instructions:
        if i.opcode == "mov" and len(i.sources) == 1 and i.result is not None:
            a, b = i.result, i.sources[0]
            if a.index not in code.sizes and b.index not in code.sizes:
                found.setdefault(a.index, []).append(b.index)
                found.setdefault(b.index, []).append(a.index)
    return found


def scan(code: Code, limit: int, fixed: Mapping[int, int]) -> tuple[Allocation, int | None]:
    """Places for all registers, or the register to spill."""
    hints = hints_of(code)
    places: dict[int, int] = {}
    active: list[Span] = []
    highest = 0
    for span in sorted(spans_of(code), key=lambda s: (s.start, s.register not in fixed, s.end)):
        active = [a for a in active if a.end > span.start]
        taken = {places[a.register] + n for a in active for n in range(code.sizes.get(a.register, 1))}
        size = code.sizes.get(span.register, 1)
        wanted = (
            [fixed[span.register]]
            if span.register in fixed
            else [places[h] for h in hints.get(span.register, ()) if h in places]
        )
        free = [
            r
            for r in (*wanted, *range(0, limit, size))
            if r % size == 0 and r + size <= limit and not taken & set(range(r, r + size))
        ]
        if not free:
            candidates = [a for a in (*active, span) if code.sizes.get(a.register, 1) == 1 and a.register not in fixed]
            return Allocation(places, highest), max(candidates, key=lambda a: a.end - a.start).register
        places[span.register] = free[0]
        active.append(span)
        highest = max(highest, free[0] + size)
    return Allocation(places, highest), None


def spill(code: Code, register: int, offset: int) -> None:
    """Spill a register to local memory: loaded before each reader, stored after each writer."""
    place = Operand(Kind.MEMORY, value=offset, name="l")
    rewritten: list[Inst] = []
    for i in code.instructions:
        positions = [n for n, o in i.registers() if o.index == register]
        if not positions:
            rewritten.append(i)
            continue
        new = code.next_register
        code.next_register += 1
        result = i.result
        writes = result is not None and result.index == register
        if any(o.index == register for o in reads(i)):
            rewritten.append(Inst("ld_l", ["ld", "b32", word(new), place], line=i.line))
        i.renamed({register: new})
        rewritten.append(i)
        if writes:
            rewritten.append(Inst("st_l", ["st", "b32", place, word(new)], line=i.line))
    code.instructions = rewritten


def allocate(code: Code, limit: int, fixed: Mapping[int, int], local_bytes: int) -> tuple[Allocation, int]:
    """Places for all registers, and the local memory per thread including spills."""
    while True:
        allocation, victim = scan(code, limit, fixed)
        if victim is None:
            return allocation, local_bytes
        spill(code, victim, local_bytes)
        local_bytes += 4


def apply(code: Code, allocation: Allocation) -> None:
    """Replace virtual registers by their places; remove copies of a register to itself."""
    kept = []
    for i in code.instructions:
        for n, o in list(i.registers()):
            i.put(n, replace(o, index=allocation.places[o.index] + o.value, value=0))
        same = i.opcode == "mov" and len(i.tokens) == 4 and i.tokens[2] == i.tokens[3]
        if not same or i.tail:
            kept.append(i)
    code.instructions = kept
