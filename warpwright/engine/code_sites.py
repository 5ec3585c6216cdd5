"""Source places of instructions that the compiler or the linker has put elsewhere.

For warps whose lanes are apart, the compiler repeats a barrier in a function of its own (WARPSYNC, BAR, RET) behind the kernel, under the line of whatever
comes before.  Functions of the driver's library, such as the barrier of several grids, have no lines at all.  The place of both is that of the calls.
"""

from __future__ import annotations

from warpwright.isa.program import Instruction, Kind, Program

MOST_CALLERS = 4
"""Depth of calls that are followed."""
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
"""Beginnings of opcodes that branch, call, end, or access memory."""


def place_of(program: Program, index: int) -> list[int]:
    """The instructions whose lines say where an instruction is: itself, or the calls of a function that has no lines of its own; without repeated lines."""
    found = _callers(program, index, MOST_CALLERS)
    lines: dict[tuple[str, int] | None, int] = {}
    for n in found:
        lines.setdefault(program.instructions[n].line, n)
    return list(lines.values())


def index_at(program: Program, address: int) -> int:
    """The index of the instruction at a byte address.

    Linked functions follow in any order, and the padding before one may have its address: the last instruction of an address counts.

    Raises:
        ValueError: if there is none.
    """
    for n in reversed(range(len(program.instructions))):
        if program.instructions[n].address == address:
            return n
    raise ValueError(f"{program.name} has no instruction at {address:#x}")


def first_operation(program: Program, index: int) -> int:
    """The first instruction from here on that does something: compilers put a YIELD before a loop's first instruction, under the line of what comes before."""
    instructions = program.instructions
    for n in range(index, len(instructions)):
        if instructions[n].opcode not in ("NOP", "YIELD"):
            return n
    return index


def awaited_operation(program: Program, index: int) -> int:
    """The instruction that says where lanes are that wait to go on at an instruction: the block barrier to which only arithmetic leads from there, else ``first_operation``.

    Before Volta, compilers leave NOPs where lanes meet, under the line of what comes before, and arithmetic of later lines.
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
