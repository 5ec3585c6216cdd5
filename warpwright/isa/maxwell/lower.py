"""Lowers decoded SASS of sm_50 to sm_62 to common operations."""

from __future__ import annotations

from warpwright.isa.maxwell import (  # noqa: F401  (importing a meaning module fills the table)
    meaning_control,
    meaning_float,
    meaning_integer,
    meaning_memory,
    meaning_video,
)
from warpwright.isa.maxwell.meaning import ALL_FLAGS, MEANINGS, SHARED, PascalEmitter, flags_read, shared
from warpwright.isa.maxwell.text import format_instruction
from warpwright.isa.ops import Lowered, verify
from warpwright.isa.program import PT, Instruction, Program
from warpwright.isa.sass import meaning_control as _common_control  # noqa: F401
from warpwright.isa.sass import meaning_move as _common_move  # noqa: F401
from warpwright.isa.sass.meaning import UnsupportedInstruction


def lower_instruction(i: Instruction, arch: int, code_base: int = 0, flags: frozenset[int] = ALL_FLAGS) -> Lowered:
    """One instruction as operations; ``flags`` are the condition-code flags that the program reads.

    Raises:
        UnsupportedInstruction: when the opcode or one of its modifiers has no meaning.
    """
    known = MEANINGS.get(i.opcode) or (shared if i.opcode in SHARED else None)
    if known is None:
        raise UnsupportedInstruction(f"opcode {i.opcode} has no meaning yet")
    guard = None
    if i.guard is not None and not (i.guard.index == PT and not i.guard.invert):
        if i.guard.index == PT:
            return Lowered([])
        guard = ("pred", i.guard.index, i.guard.invert)
    emitter = PascalEmitter(arch=arch, code_base=code_base, flags=flags)
    known(i, emitter)
    return Lowered(emitter.ops, guard)


def lower(program: Program) -> list[Lowered]:
    """The meaning of every instruction of ``program``, in order.

    Raises:
        UnsupportedInstruction: naming kernel, address, text and chip.
    """
    flags = flags_read(program.instructions)
    result: list[Lowered] = []
    for i in program.instructions:
        try:
            lowered = lower_instruction(i, program.arch, program.code_base, flags)
        except UnsupportedInstruction as error:
            raise UnsupportedInstruction(
                f"kernel {program.name}: cannot execute the instruction at {i.address:#06x} (sm_{program.arch}): "
                f"{format_instruction(i)}: {error}"
            ) from None
        verify(lowered.ops)
        result.append(lowered)
    return result
