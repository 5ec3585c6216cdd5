"""Resolves calls of driver functions if the code shows which function is called.

This is the case for ``CALL.ABS`` with a label, and for a call through a register that was just loaded from a word of
constant bank 4 that a relocation fills: linked programs call ``malloc`` in this way.  Such a call is replaced by the
service itself, after which execution continues, so that the calls of a function do not share one piece of code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from warpwright.isa.program import PT, Instruction, Kind, Operand

ADDRESS_BANK = 4
"""Constant bank of addresses that the loader fills."""
_MARK = "SERVICE"
_MOVES = frozenset(
    ("BRA", "BRX", "BRXU", "JMP", "JMX", "CALL", "RET", "EXIT", "BSYNC", "BSSY", "WARPSYNC", "BREAK", "SERVICE")
)
_LONGEST_WAY = 24
"""How many instructions before a call are examined."""


def service_of(i: Instruction) -> str:
    """The service that replaced a call; empty for other instructions."""
    return i.modifiers[-1] if len(i.modifiers) > 1 and i.modifiers[-2] == _MARK else ""


def resolve_calls(
    instructions: Sequence[Instruction], services: Mapping[int, str], words: Mapping[int, str]
) -> tuple[list[Instruction], frozenset[str]]:
    """Replace calls of services by the services.

    Args:
        services: name by offset in the program.
        words: name by offset in constant bank 4.

    Returns:
        The instructions, and the services that other calls through registers may reach.
    """
    landings = {o.value for i in instructions for o in i.operands if o.kind is Kind.LABEL}
    found = list(instructions)
    consumed: set[int] = set()
    open_calls = False
    for index, i in enumerate(instructions):
        if i.opcode != "CALL":
            continue
        conditional = any(o.kind is Kind.PREDICATE and o.index != PT for o in i.operands)
        label = next((o for o in i.operands if o.kind is Kind.LABEL), None)
        register = next((o for o in i.operands if o.kind is Kind.REGISTER), None)
        name = ""
        if conditional:
            open_calls = True
        elif register is None:
            name = services.get(label.value, "") if label is not None else ""
        else:
            load = _load_before(instructions, index, register, landings) if "ABS" in i.modifiers else -1
            name = words.get(_bank_offset(instructions, load, landings), "") if load >= 0 else ""
            if name:
                consumed.add(load)
            elif "ABS" in i.modifiers:
                open_calls = True
        if name:
            found[index] = replace(i, modifiers=(*i.modifiers, _MARK, name), operands=())
    taken: set[str] = set(words.values()) if open_calls else set()
    for index, i in enumerate(instructions):
        if index not in consumed and any(_in_bank(o) for o in i.operands):
            offset = _bank_offset(instructions, index, landings)
            taken.update(words.values() if offset < 0 else [words[offset]] if offset in words else ())
    return found, frozenset(taken)


def _in_bank(o: Operand) -> bool:
    return o.kind is Kind.CONSTANT and o.index == ADDRESS_BANK


def _definition(instructions: Sequence[Instruction], before: int, register: int, count: int, landings: set[int]) -> int:
    """Index of the instruction in straight-line code that last wrote one of ``count`` registers, or -1."""
    for index in range(before - 1, max(before - _LONGEST_WAY, 0) - 1, -1):
        if instructions[index + 1].address in landings or instructions[index].opcode in _MOVES:
            return -1
        i = instructions[index]
        target = i.operands[0] if i.operands else None
        if target is None or target.kind is not Kind.REGISTER:
            continue
        wide = 4 if {"64", "128", "WIDE"} & set(i.modifiers) else 1
        if target.index < register + count and register < target.index + wide:
            return index if target.index == register and i.guard is None else -1
    return -1


def _load_before(instructions: Sequence[Instruction], call: int, register: Operand, landings: set[int]) -> int:
    index = _definition(instructions, call, register.index, 2, landings)
    if index < 0 or instructions[index].opcode != "LDC" or "64" not in instructions[index].modifiers:
        return -1
    between = instructions[index + 1 : call]
    if any(
        o.kind is Kind.REGISTER and o.index in (register.index, register.index + 1) for i in between for o in i.operands
    ):
        return -1
    return index


def _bank_offset(instructions: Sequence[Instruction], load: int, landings: set[int]) -> int:
    """Byte offset in the bank that an instruction reads, or -1 if unknown."""
    o = next((o for o in instructions[load].operands if _in_bank(o)), None)
    if o is None:
        return -1
    if o.base is None:
        return o.value
    index = _definition(instructions, load, o.base.index, 1, landings)
    move = instructions[index]
    if index < 0 or move.opcode != "MOV" or move.operands[1].kind is not Kind.IMMEDIATE:
        return -1
    return o.value + move.operands[1].value
