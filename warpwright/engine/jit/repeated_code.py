"""Compiles code that repeats itself once: unrolled loops become loops again, inside the compiler only.

A *run* is a segment of instructions that follows itself several times in a program: all copies have the same operations on the same registers, their branches
lead to the same places within the copy (or to one place outside the run), and their constants are the same or grow by the same amount from copy to copy, such as
return addresses.  The compiler is given the first copy and a loop around it: two operations that no instruction set has, ``next_copy`` and ``copy_const``, use the
number of the copy that a warp executes, which is kept in the warp's save area (``%copy``).  Everything that leaves the compiled function (trace records, addresses
of faults, saved positions) names the true copy, and the loop itself is neither counted nor recorded.

All lanes of a warp must be in the same copy.  If lanes can be apart at the end of a copy (``Flow``), a WARPSYNC of all lanes gathers them there; this is done only
if each copy ends with a block barrier for all threads, which lets no lane be a copy ahead of others.  Otherwise the program is compiled as it is.  On chips before
Volta, an entry of the reconvergence stack around each copy brings the lanes together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.blocks import BasicBlock, basic_blocks, indirect_targets
from warpwright.isa.ops import WARP_LANES, Lowered, Op
from warpwright.isa.program import Instruction, Program

FEWEST_INSTRUCTIONS = 2048
"""Size from which a program is searched: smaller ones compile in a second or two."""
FEWEST_SAVED = 1024
"""Least number of instructions that a run must save."""
FEWEST_COPIES = 4
FIRST_MAXWELL, FIRST_VOLTA = 50, 70
MAXWELL_BUNDLE = 3
"""Instructions with one control word: addresses repeat only with it."""
MASKS = {"i32": 0xFFFF_FFFF, "i64": 0xFFFF_FFFF_FFFF_FFFF}
"""Types of constants that may grow from copy to copy."""
SMALLEST_COPY = 64
"""A segment with fewer instructions is repeated to make a copy, so that the loop costs little."""
GRAM = 16
"""Number of instructions in a row that must be alike at two places for the distance between them to be tried as a period."""
PERIODS_TRIED = 8
MOST_RUNS = 8


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive copies of a segment."""

    first: int
    """Index of the first instruction of the first copy."""
    length: int
    """Instructions per copy."""
    copies: int
    address: int
    """Byte address of the first copy."""
    bytes: int
    """Bytes per copy."""

    @property
    def end(self) -> int:
        """Index after the last copy."""
        return self.first + self.length * self.copies


@dataclass(slots=True)
class Repeats:
    """A program with one copy of each run, as the compiler gets it."""

    program: Program
    lowered: list[Lowered]
    blocks: list[BasicBlock]
    """Blocks of the shorter program."""
    true_blocks: list[BasicBlock]
    """Blocks of the whole program; a block begins at each copy."""
    runs: list[Run]
    numbers: list[int]
    """For each block of the shorter program: its number (in the first copy) in the whole program, -1 for the loop's own instructions."""
    blocks_per_copy: list[int]
    """For each block of the shorter program: by how much its number grows with each copy, 0 outside of runs."""
    bytes_per_copy: list[int]
    """The same for its address."""
    ends: list[int]
    """The block after each run's copy, which gathers the lanes."""
    true_index: list[int]
    """For each instruction of the shorter program: its index (in the first copy) in the whole program, -1 for added ones."""

    def index_of(self, block: BasicBlock) -> int:
        """Index of a block's first instruction in the whole program; -1 for an added one."""
        return self.true_index[block.first]

    def ends_with_barrier(self, end: int) -> bool:
        """Whether a copy ends with a barrier for all threads of the block; ``end``: the added block after it."""
        ending = self.lowered[self.blocks[end - 1].first : self.blocks[end].first]
        low = next((low for low in reversed(ending) if low.ops), None)
        if low is None:
            return False
        op = low.ops[-1]
        if op.name != "barrier" or op.attr != "sync" or low.guard is not None:
            return False
        threads = low.ops[op.args[1]]
        return threads.name == "const" and threads.attr == 0


def repeats_of(program: Program, lowered: Sequence[Lowered]) -> Repeats | None:
    """The program with one copy of each of its runs, or None if there are none worth it."""
    if len(lowered) < FEWEST_INSTRUCTIONS or program.lanes != WARP_LANES:
        return None
    for known, operations, found in _known:
        if known is program and operations is lowered:
            return found
    runs = _find_runs(program, lowered)
    made = _shorten(program, lowered, runs) if runs else None
    _known.append((program, lowered, made))
    del _known[:-MOST_KNOWN]
    return made


def forget(program: Program, lowered: Sequence[Lowered]) -> None:
    """The program is to be compiled as it is from now on."""
    _known[:] = [(p, o, None if p is program and o is lowered else r) for p, o, r in _known]


MOST_KNOWN = 8
_known: list[tuple[Program, Sequence[Lowered], Repeats | None]] = []
"""The last results."""


# --- search ---------------------------------------------------------------------------------------
def _likeness(instruction: Instruction, low: Lowered) -> tuple[Any, ...]:
    """What copies of an instruction have in common."""
    address = instruction.address
    ops: list[Any] = []
    for op in low.ops:
        if op.name == "const" and op.type in MASKS:
            ops.append(op.type)
        elif op.name == "branch" and instruction.opcode != "CALL":
            ops.append((op.name, op.args, op.attr - address))
        elif op.name in ("bssy", "push"):
            ops.append((op.name, op.attr[0], op.attr[1] - address))
        else:
            ops.append(op)
    return (instruction.opcode, instruction.modifiers, low.guard, tuple(ops))


def _numbered(program: Program, lowered: Sequence[Lowered]) -> npt.NDArray[np.int64]:
    """A number per instruction; alike instructions have the same."""
    number_of: dict[Any, int] = {}
    numbers = np.empty(len(lowered), np.int64)
    for n, (instruction, low) in enumerate(zip(program.instructions, lowered, strict=True)):
        what = _likeness(instruction, low)
        try:
            numbers[n] = number_of.setdefault(what, len(number_of))
        except TypeError:  # an attribute that cannot be a key
            numbers[n] = number_of.setdefault(repr(what), len(number_of))
    return numbers


def _periods(numbers: npt.NDArray[np.int64]) -> list[int]:
    """The most frequent distances between an instruction and the next place at which the same instructions follow."""
    grams = np.zeros(len(numbers) - GRAM + 1, np.uint64)
    with np.errstate(over="ignore"):
        for n in range(GRAM):
            grams = grams * np.uint64(0x9E3779B97F4A7C15) + numbers[n : len(grams) + n].astype(np.uint64)
    order = np.argsort(grams, kind="stable")
    same = grams[order[1:]] == grams[order[:-1]]
    distances = (order[1:] - order[:-1])[same]
    found, counts = np.unique(distances, return_counts=True)
    best = np.argsort(-counts, kind="stable")[:PERIODS_TRIED]
    return [int(found[n]) for n in best]


def _stretch(numbers: npt.NDArray[np.int64], period: int, free: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """First index and end of the longest stretch of unused instructions that repeats with a period."""
    equal = (numbers[:-period] == numbers[period:]) & free[:-period] & free[period:]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], equal, [False])).astype(np.int8)))
    if not len(edges):
        return 0, 0
    begins, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest]) + period


def _find_runs(program: Program, lowered: Sequence[Lowered]) -> list[Run]:
    """Runs that save enough, in code order."""
    numbers = _numbered(program, lowered)
    addresses = np.array([i.address for i in program.instructions], np.int64)
    free = np.ones(len(numbers), np.bool_)
    runs: list[Run] = []
    for period in _periods(numbers):
        while len(runs) < MOST_RUNS:
            first, end = _stretch(numbers, period, free)
            if end - first - period < FEWEST_SAVED:
                break
            run = _aligned(program, lowered, addresses, first, end, period)
            free[first:end] = False
            if run is not None:
                runs.append(run)
    return sorted(runs, key=lambda run: run.first)


def _aligned(
    program: Program, lowered: Sequence[Lowered], addresses: npt.NDArray[np.int64], first: int, end: int, period: int
) -> Run | None:
    """The copies in a stretch of code that repeats, cut where no branch crosses."""
    length = period * -(-SMALLEST_COPY // period)
    if FIRST_MAXWELL <= program.arch < FIRST_VOLTA and length % MAXWELL_BUNDLE:
        length *= MAXWELL_BUNDLE
    cut = _cut(program, lowered, addresses, first, period)
    if cut < 0 or (end - cut) // length < FEWEST_COPIES:
        return None
    copies = _copies_with_growing_constants(lowered, cut, length, (end - cut) // length)
    size = int(addresses[cut + length] - addresses[cut]) if copies >= FEWEST_COPIES else 0
    last = cut + length * copies
    if copies < FEWEST_COPIES or length * (copies - 1) < FEWEST_SAVED or last >= len(lowered):
        return None
    if (addresses[cut + length : last] - addresses[cut : last - length] != size).any():
        return None
    begin, stop = int(addresses[cut]), int(addresses[last])
    if (
        any(begin < place < stop for place in program.functions)
        or program.instructions[cut + length - 1].opcode == "CALL"
    ):
        return None
    return Run(cut, length, copies, begin, size)


def _cut(
    program: Program, lowered: Sequence[Lowered], addresses: npt.NDArray[np.int64], first: int, period: int
) -> int:
    """A place in the second period from an index on at which copies may begin, because no branch leads across it; if possible after a block barrier.

    Returns -1 if there is none.
    """
    end = min(first + 3 * period, len(lowered))
    crossings = np.zeros(end - first + 1, np.int64)
    after_barriers = set()
    for n in range(first, end):
        for op in lowered[n].ops:
            if op.name == "barrier" and op.attr == "sync" and lowered[n].guard is None:
                after_barriers.add(n + 1)
            place = op.attr if op.name == "branch" and program.instructions[n].opcode != "CALL" else None
            place = op.attr[1] if op.name in ("bssy", "push") else place
            if place is not None:
                target = int(np.searchsorted(addresses, place))
                # The places between the two.  A copy may begin at the target, unless an entry of the stack is pushed before it.
                begin, stop = (n + 1, target + (program.arch < FIRST_VOLTA)) if target > n else (target + 1, n + 1)
                crossings[min(max(begin, first), end) - first] += 1
                crossings[min(max(stop, first), end) - first] -= 1
    uncrossed = [
        int(n) for n in np.flatnonzero(np.cumsum(crossings) == 0) + first if first + period <= n < first + 2 * period
    ]
    return next((n for n in uncrossed if n in after_barriers), uncrossed[0] if uncrossed else -1)


def _copies_with_growing_constants(lowered: Sequence[Lowered], first: int, length: int, copies: int) -> int:
    """How many copies have constants that are the same or grow steadily."""
    for j in range(first, first + length):
        for position, op in enumerate(lowered[j].ops):
            if op.name != "const" or op.type not in MASKS or copies < 2:
                continue
            values = np.array([lowered[j + c * length].ops[position].attr for c in range(copies)], np.uint64)
            steps = np.diff(values) & np.uint64(MASKS[op.type])
            odd = np.flatnonzero(steps != steps[0])
            copies = int(odd[0]) + 1 if len(odd) else copies
    return copies


# --- the shorter program ----------------------------------------------------------------------------
def _one_copy(lowered: Sequence[Lowered], run: Run) -> list[Lowered]:
    """The operations of a run's first copy; constants that grow depend on the copy's number."""
    result = []
    for low, following in zip(
        lowered[run.first : run.first + run.length], lowered[run.first + run.length :][: run.length], strict=True
    ):
        ops = [
            Op("copy_const", op.type, (), (op.attr, other.attr - op.attr & MASKS[op.type]))
            if op.name == "const" and op.type in MASKS and op.attr != other.attr
            else op
            for op, other in zip(low.ops, following.ops, strict=True)
        ]
        result.append(Lowered(ops, low.guard))
    return result


Added = tuple[list[Instruction], list[Lowered]]


def _loop(program: Program, run: Run) -> tuple[Added, Added]:
    """The instructions that are added before and after a run's first copy."""
    begin, end = run.address - 1, run.address + run.bytes
    again = [Op("next_copy", "i1", (), run.copies)]
    if program.arch >= FIRST_VOLTA:
        again.append(Op("branch", "void", (0,), run.address))
        gather = [Op("const", "i32", (), 0xFFFFFFFF), Op("warpsync", "void", (0,), None)]
        return ([], []), (
            [Instruction(end, "WARPSYNC", ("ALL",), ()), Instruction(end + 1, "NEXTCOPY", (), ())],
            [Lowered(gather), Lowered(again)],
        )
    again.append(Op("branch", "void", (0,), begin))
    return (
        ([Instruction(begin, "SSY", (), ())], [Lowered([Op("push", "void", (), ("ssy", end + 1))])]),
        (
            [Instruction(end, "SYNC", (), ()), Instruction(end + 1, "NEXTCOPY", (), ())],
            [Lowered([Op("pop", "void", (), "ssy")]), Lowered(again)],
        ),
    )


def _shorten(program: Program, lowered: Sequence[Lowered], runs: Sequence[Run]) -> Repeats | None:
    """The program with one copy of each run; None if its blocks are not those of the whole program."""
    instructions: list[Instruction] = []
    operations: list[Lowered] = []
    true_index: list[int] = []
    at = 0
    for run in runs:
        before, after = _loop(program, run)
        copy = slice(run.first, run.first + run.length)
        instructions += [*program.instructions[at : run.first], *before[0], *program.instructions[copy], *after[0]]
        operations += [*lowered[at : run.first], *before[1], *_one_copy(lowered, run), *after[1]]
        true_index += [*range(at, run.first), *(-1 for _ in before[0])]
        true_index += [*range(run.first, run.first + run.length), *(-1 for _ in after[0])]
        at = run.end
    instructions += program.instructions[at:]
    operations += lowered[at:]
    true_index += range(at, len(lowered))
    shorter = replace(program, instructions=instructions, facts={}, meaning=None)
    try:
        blocks = basic_blocks(shorter, operations, [true_index.index(run.first) for run in runs])
    except ValueError:
        return None  # a branch to another copy
    begins = [run.first + n * run.length for run in runs for n in range(run.copies + 1)]
    whole = basic_blocks(program, lowered, begins)
    return _matched(
        Repeats(shorter, operations, blocks, whole, list(runs), [], [], [], [], true_index), program, lowered
    )


def _matched(made: Repeats, program: Program, lowered: Sequence[Lowered]) -> Repeats | None:
    """Match the blocks of the shorter program with those of the whole one, in all copies; None if they differ."""
    number_at = {b.first: b.number for b in made.true_blocks}
    firsts = np.array([b.first for b in made.true_blocks], np.int64)
    counts = np.array([b.count for b in made.true_blocks], np.int64)
    kinds: dict[tuple[str, bool], int] = {}
    stops = np.array([kinds.setdefault((b.stop, b.gives_way), len(kinds)) for b in made.true_blocks], np.int64)
    for b in made.blocks:
        first = made.index_of(b)
        run = next((r for r in made.runs if r.first <= first < r.first + r.length), None)
        if first < 0:
            if made.program.instructions[b.first].opcode in ("WARPSYNC", "SYNC"):
                made.ends.append(b.number)
            made.numbers.append(-1)
            made.blocks_per_copy.append(0)
            made.bytes_per_copy.append(0)
            continue
        number = number_at.get(first, -1)
        per_copy = number_at[run.first + run.length] - number_at[run.first] if run else 0
        copies = number + per_copy * np.arange(run.copies if run else 1)
        if number < 0 or copies[-1] >= len(firsts) or (counts[copies] != b.count).any():
            return None
        places = first + (run.length if run else 0) * np.arange(len(copies))
        if (firsts[copies] != places).any() or (stops[copies] != kinds[b.stop, b.gives_way]).any():
            return None
        made.numbers.append(number)
        made.blocks_per_copy.append(per_copy)
        made.bytes_per_copy.append(run.bytes if run else 0)
    return made if _same_jumps(made, program, lowered) and _pops_stay_inside(made, lowered) else None


def _pops_stay_inside(made: Repeats, lowered: Sequence[Lowered]) -> bool:
    """Whether lanes that leave an entry of the reconvergence stack in a copy stay in it, or go on to the next one."""
    blocks = made.true_blocks
    number_at = {b.first: b.number for b in blocks}
    for run in made.runs:
        begin, end = number_at[run.first], number_at[run.first + run.length]
        for b in blocks[begin:end]:
            ops = lowered[b.first + b.count - 1].ops
            if ops and ops[-1].name == "pop" and not all(begin <= s <= end for s in b.successors):
                return False
    return True


def _same_jumps(made: Repeats, program: Program, lowered: Sequence[Lowered]) -> bool:
    """Whether indirect branches have the same targets in the shorter program, up to the number of the copy."""

    def in_first_copy(index: int) -> int:
        run = next((r for r in made.runs if r.first <= index < r.end), None)
        return index if run is None else run.first + (index - run.first) % run.length

    wanted: dict[int, set[int]] = {}
    for index, targets in indirect_targets(program, lowered).items():
        wanted.setdefault(in_first_copy(index), set()).update(in_first_copy(t) for t in targets)
    have = {
        made.true_index[index]: {made.true_index[t] for t in targets}
        for index, targets in indirect_targets(made.program, made.lowered).items()
    }
    return wanted == have
