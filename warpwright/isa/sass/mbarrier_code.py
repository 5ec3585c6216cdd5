"""Which instructions are operations of mbarriers, by machine code alone.

From sm_90 on they have an opcode of their own. Before, an arrival is ``ATOMS.ARRIVE``, an initialisation a plain store, and a test a plain LDS of the
mbarrier's upper word; LOP3 compares its highest bit, the phase, with the one that the thread waits for, and a NOP follows (nvcc 13.0, sm_80 to sm_89).
"""

from __future__ import annotations

from warpwright.isa.program import RZ, Instruction, Kind, Program

_OPCODES = ("SYNCS", "ARRIVES")
_ARRIVALS = ("ATOMS", "ATOM")
"""Before sm_90: at a shared address, or at a generic one."""
_TESTS = ("LDS", "LD")
FIRST_WITH_SYNCS = 90
"""The first architecture with an opcode for mbarriers."""


def is_mbarrier(instruction: Instruction) -> bool:
    return instruction.opcode in _OPCODES or (instruction.opcode in _ARRIVALS and "ARRIVE" in instruction.modifiers)


PHASE_BIT = 0x80000000


def tests_of_mbarriers(program: Program) -> dict[int, int]:
    """For chips without SYNCS: maps the index of each LDS (or LD) that reads an mbarrier's phase to that of the LOP3 which compares it."""
    code = program.instructions
    if not any(i.opcode in _ARRIVALS and "ARRIVE" in i.modifiers for i in code):
        return {}
    found = {}
    for index, compare in enumerate(code):
        if compare.opcode != "LOP3" or not any(
            o.kind is Kind.IMMEDIATE and o.value & 0xFFFFFFFF == PHASE_BIT for o in compare.operands
        ):
            continue
        if index + 1 == len(code) or code[index + 1].opcode != "NOP":
            continue
        read = {o.index for o in compare.operands if o.kind is Kind.REGISTER}
        for back in range(index - 1, max(index - 16, -1), -1):
            before = code[back]
            target = before.operands[0] if before.operands else None
            if target is not None and target.kind is Kind.REGISTER and target.index in read and target.index != RZ:
                if before.opcode in _TESTS:
                    found[back] = index
                    break
                read.discard(target.index)
    return found


def tests_phase(program: Program) -> set[int]:
    """Indices of the instructions that test the phase of an mbarrier."""
    if program.arch >= FIRST_WITH_SYNCS:
        return {n for n, i in enumerate(program.instructions) if i.opcode == "SYNCS" and "PHASECHK" in i.modifiers}
    return set(tests_of_mbarriers(program))
