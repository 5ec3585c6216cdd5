"""Lowers decoded NV50 words to common operations."""

from __future__ import annotations

from warpwright.isa.nv50 import meaning_control, meaning_float, meaning_graphics, meaning_integer, meaning_memory
from warpwright.isa.nv50.condition_registers import canonical, predicate, tests_read
from warpwright.isa.nv50.emitter import Nv50Emitter
from warpwright.isa.nv50.launch_words import thread_position
from warpwright.isa.nv50.meaning import GRAPHICS_MEANINGS, MEANINGS
from warpwright.isa.nv50.text import format_instruction
from warpwright.isa.ops import Lowered, verify
from warpwright.isa.program import Instruction, Program
from warpwright.isa.sass.meaning import UnsupportedInstruction

_FILLED = (meaning_control, meaning_float, meaning_graphics, meaning_integer, meaning_memory)
WORD_BYTES = {False: 4, True: 8}
WINDOW = 0x7F00
"""Upper word of the device's addresses (``engine/abi.py``, DEVICE_BASE)."""


def size_of(i: Instruction) -> int:
    """Bytes of an instruction."""
    return WORD_BYTES[bool(i.encoding & 1)]


def meaning_of(i: Instruction, emitter: Nv50Emitter) -> Lowered:
    """One instruction as operations, without its ``exit`` or ``join``.

    Raises:
        UnsupportedInstruction: if it has no meaning in a program of this kind, or is not implemented.
    """
    graphics = emitter.interface is not None
    known = MEANINGS.get(i.opcode) or (GRAPHICS_MEANINGS.get(i.opcode) if graphics else None)
    if known is None:
        kind = "graphics" if graphics else "compute"
        raise UnsupportedInstruction(f"{i.opcode} has no meaning in a {kind} program")
    if i.guard is not None and i.guard.suffix == "never":
        return Lowered([])
    guard = None
    if i.guard is not None:
        name, inverted = canonical(i.guard.suffix)
        guard = ("pred", predicate((i.guard.index, name)), inverted)
    known(i, emitter)
    return Lowered(emitter.ops, guard)


def lower_instruction(i: Instruction, emitter: Nv50Emitter) -> Lowered:
    """One instruction of a compute program as operations; raises as :func:`meaning_of`."""
    lowered = meaning_of(i, emitter)
    if i.guard is not None and i.guard.suffix == "never":
        return lowered
    if "+exit" in i.modifiers or "+join" in i.modifiers:
        if i.guard is not None and emitter.ops:
            raise UnsupportedInstruction("a guarded instruction with exit or join has no meaning here")
        if "+exit" in i.modifiers:
            emitter.op("exit", "void")
        else:
            emitter.op("pop", "void", attr="ssy")
    return lowered


def lower(program: Program) -> list[Lowered]:
    """The meaning of every instruction of a program, in order; the first also sets ``$r0``.

    Raises:
        UnsupportedInstruction: naming kernel, address, text and chip.
    """
    wanted = tests_read(program.instructions)
    joins = {i.address: i.address + size_of(i) for i in program.instructions if "+join" in i.modifiers}
    result: list[Lowered] = []
    for n, i in enumerate(program.instructions):
        emitter = Nv50Emitter(
            [], program.arch, wanted, program.parameter_size_bytes, WINDOW, program.parameter_base_bytes, joins
        )
        try:
            if n == 0:
                if i.guard is not None:
                    raise UnsupportedInstruction("the first instruction has a guard")
                emitter.op("set_reg", "void", thread_position(emitter), attr=0)
            lowered = lower_instruction(i, emitter)
        except UnsupportedInstruction as error:
            raise UnsupportedInstruction(
                f"kernel {program.name}: cannot execute the instruction at {i.address:#06x} (sm_{program.arch}): "
                f"{format_instruction(i, program.arch)}: {error}"
            ) from None
        verify(lowered.ops)
        result.append(lowered)
    return result
