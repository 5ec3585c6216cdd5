"""Source lines of instructions whose own line information is missing or misleading.

For warps that have diverged, the compiler repeats a barrier in a function of its own (WARPSYNC, BAR, RET) after the kernel, with the line of the
instruction before it.  Functions of the driver's library, such as the barrier of several grids, have no lines at all.  Both get the lines of their calls.
"""

from __future__ import annotations

from warpwright.isa.program import Instruction, Kind, Program

MOST_CALLERS = 4
"""Number of levels of calls that are followed."""
_CALLS = ("CALL", "CAL", "JCAL")
_EVENTS = (
    "B",
    "J",
    "C",
    "RET",
    "EXIT",
    "SYNC",
    "SSY",
    "PBK",
    "PCNT",
    "PRET",
    "LD",
    "ST",
    "AT",
    "RED",
    "SU",
    "T",
    "MEMBAR",
)
"""Prefixes of opcodes that branch, call, exit, reconverge or access memory."""


def place_of(program: Program, index: int) -> list[int]:
    """Indices of the instructions whose lines give an instruction's place: its own, or those of the calls if its function has no lines of its own; one per line."""
    found = _callers(program, index, MOST_CALLERS)
    lines: dict[tuple[str, int] | None, int] = {}
    for n in found:
        lines.setdefault(program.instructions[n].line, n)
    return list(lines.values())


def find(program: Program, address: int) -> int | None:
    """The index of the instruction at a byte address, or None if there is none.

    Linked functions are not in order of address, and padding may have the same address as the function that follows it, so the last match is returned.
    """
    if "indices" not in program.facts:
        program.facts["indices"] = {one.address: n for n, one in enumerate(program.instructions)}
    found: int | None = program.facts["indices"].get(address)
    return found


def index_at(program: Program, address: int) -> int:
    """The same where there must be one.

    Raises:
        ValueError: if there is none.
    """
    index = find(program, address)
    if index is None:
        raise ValueError(f"{program.name} has no instruction at {address:#x}")
    return index


def first_operation(program: Program, index: int) -> int:
    """Index of the first instruction from ``index`` on that is neither NOP nor YIELD: compilers put a YIELD before a loop's first instruction, with the line of the instruction before it."""
    instructions = program.instructions
    for n in range(index, len(instructions)):
        if instructions[n].opcode not in ("NOP", "YIELD"):
            return n
    return index


def awaited_operation(program: Program, index: int) -> int:
    """Index of the instruction that shows where lanes that will continue at ``index`` wait: a block barrier if only arithmetic precedes it, otherwise ``first_operation``.

    Before Volta, compilers place NOPs where lanes reconverge, with the line of the instruction before them, and then arithmetic of later lines.
    """
    instructions = program.instructions
    for n in range(index, len(instructions)):
        if instructions[n].opcode == "BAR":
            return n
        if instructions[n].opcode.startswith(_EVENTS):
            break
    return first_operation(program, index)


def _callers(program: Program, index: int, depth: int) -> list[int]:
    instructions = program.instructions
    address = instructions[index].address
    entry = max((f for f in program.functions if f <= address), default=0)
    if not entry or depth == 0:
        return [index]
    end = min((f for f in program.functions if f > entry), default=1 << 62)
    members = {n for n, i in enumerate(instructions) if entry <= i.address < end}
    before = instructions[index_at(program, entry) - 1].line
    if any(instructions[n].line not in (None, before) for n in members):
        return [index]
    calls = [n for n, i in enumerate(instructions) if n not in members and _calls(i, entry)]
    return [site for call in calls for site in _callers(program, call, depth - 1)] or [index]


def _calls(instruction: Instruction, entry: int) -> bool:
    return instruction.opcode in _CALLS and any(o.kind is Kind.LABEL and o.value == entry for o in instruction.operands)
