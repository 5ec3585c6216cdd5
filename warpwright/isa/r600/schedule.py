"""Schedules of clauses: when each instruction of a wavefront may issue.

An ALU bundle processes a quarter of a wavefront per cycle, four cycles in all, and the next bundle of the same
wavefront issues four cycles after that: its operands are then available, and another wavefront's bundle issues in
between.  The fetches of a clause issue in sequence; the wavefront continues when all have returned.  A bundle that
consumes values from local data share waits for them.  A fetch into local data share (Cayman) is a load and a store in one instruction.
"""

from __future__ import annotations

from warpwright.isa.program import Instruction
from warpwright.isa.r600.items import TWO_READS, Filtering, Flow, Item
from warpwright.isa.r600.load import R600Program
from warpwright.isa.r600.meaning_filter import GRADIENTS
from warpwright.isa.r600.meaning_memory import RETURN_BUFFER
from warpwright.isa.schedule import Issue, UnknownTiming, Work

BUNDLE_CYCLES = 8
"""Cycles from one bundle of a wavefront to its next: two wavefronts alternate, four cycles each."""
FETCHES, QUEUE, RETURNS = 0, 1, 2
"""Dependence counters: fetches of a clause, values from local data share, old values of atomics."""
INTO_LOCAL_SHARE = frozenset(("async_copy",))
GLOBAL_SHARE = frozenset(("global_share",))
FILTERED = frozenset(("filtered",))


def work_of(i: Instruction) -> Work:
    """The unit that executes an instruction, determined by its name alone.

    Raises:
        UnknownTiming: if the table has no row for the name.
    """
    if i.opcode == "FILTER":
        return Work("memory", FILTERED) if Filtering.COARSE.value in i.modifiers else Work("none")
    if i.opcode.startswith(("SAMPLE", "GATHER4")):
        return Work("memory", FILTERED)
    if i.opcode.startswith("GDS_"):
        return Work("memory", GLOBAL_SHARE)
    found = WORKS.get(i.opcode)
    if found is None:
        raise UnknownTiming(f"opcode {i.opcode} has no timing row: {i.operands[0].name}; use timing='off'")
    if i.opcode == "BUNDLE":
        if "GROUP_BARRIER" in i.modifiers:
            return Work("block_barrier")
        if any(name.startswith("LDS_") for name in i.modifiers):
            return Work("memory")
    return found


_CONTROL = [
    "JUMP",
    "ELSE",
    "POP",
    "PUSH",
    "LOOP_START",
    "LOOP_START_DX10",
    "LOOP_START_NO_AL",
    "LOOP_END",
    "LOOP_BREAK",
    "LOOP_CONTINUE",
]
WORKS: dict[str, Work] = {
    "BUNDLE": Work("alu"),
    "LDS_READ2_RET": Work("memory", frozenset(("second_word",))),
    **{name: Work("memory") for name in ("VFETCH", "LD")},
    # A resource's size is returned without a memory access.
    **{name: Work("none") for name in ("GET_BUFFER_RESINFO", "GET_TEXTURE_RESINFO", *GRADIENTS)},
    "BOUNDS": Work("none"),
    "MEM_RAT": Work("memory"),
    "MEM_RAT_CACHELESS": Work("memory"),
    **{name: Work("branch") for name in _CONTROL},
    **{name: Work("none") for name in ("NOP", "WAIT_ACK", "ALU_PUSH_BEFORE", "ALU_POP_AFTER", "ALU_POP2_AFTER")},
    **{name: Work("exit") for name in ("CF_END", "END")},
}


def from_clauses(program: R600Program) -> list[Issue]:
    """The schedule of a program.

    Raises:
        UnknownTiming: if an instruction has no timing row.
    """
    issues = []
    pending: set[int] = set()
    clause = None
    for item, i in zip(program.items, program.instructions, strict=True):
        waits: set[int] = set()
        returned = _returned(item, program)
        if item.fetch is None or item.clause is not clause:
            waits |= pending & {FETCHES}
        clause = item.clause
        if returned:
            waits |= pending & {RETURNS}
        if item.reads:
            waits |= {QUEUE}
        pending -= waits
        counter = _counter(item, returned)
        if counter >= 0:
            pending.add(counter)
        issues.append(
            Issue(
                _work(item, i, returned),
                i.address,
                stall_cycles=_stall(item),
                waits=tuple(sorted(waits)),
                write_counter=counter,
            )
        )
    return issues


def _returned(item: Item, program: R600Program) -> bool:
    """Whether an item fetches what a random access has returned."""
    if item.fetch is None:
        return False
    number = item.fetch.fields.get("buffer_id")
    returns = () if program.images is None else program.images.returns
    return number in returns or (number == RETURN_BUFFER and program.bindings is None)


def _counter(item: Item, returned: bool) -> int:
    if item.fetch is not None and not returned:
        accesses = item.filtering in (Filtering.NONE, Filtering.MEAN, Filtering.COARSE)
        return FETCHES if accesses and item.fetch.operation.name not in GRADIENTS else -1
    if item.fills:
        return QUEUE
    if item.control is not None and item.control.rat_operation.endswith("_RTN"):
        return RETURNS
    return -1


def _work(item: Item, i: Instruction, returned: bool) -> Work:
    if (item.free and item.flow is not Flow.EXIT) or returned:
        return Work("none")
    if item.fetch is not None and item.fetch.fields.get("lds_req", 0):
        return Work("memory", INTO_LOCAL_SHARE)
    return work_of(i)


def _stall(item: Item) -> int:
    """Cycles until the wavefront's next instruction may issue."""
    if item.second_read:
        return BUNDLE_CYCLES - 1
    if item.bundle is not None:
        return 1 if TWO_READS in (w.operation.name for w in item.bundle.words) else BUNDLE_CYCLES
    return 1
