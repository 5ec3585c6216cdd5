"""Lowers decoded SASS to common operations: ``lower``, 64-bit pair fusion, register effects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from warpwright.isa.effects import register_effects
from warpwright.isa.ops import Lowered, verify
from warpwright.isa.program import PT, RZ, Instruction, Kind, Operand, Program
from warpwright.isa.sass import (  # noqa: F401  (importing a meaning module fills the table)
    meaning_bulk,
    meaning_control,
    meaning_convert,
    meaning_float,
    meaning_half,
    meaning_integer,
    meaning_mbarrier,
    meaning_memory,
    meaning_move,
    meaning_service,
    meaning_tensor,
    meaning_texture,
    meaning_wgmma,
)
from warpwright.isa.sass.decode import decode
from warpwright.isa.sass.meaning import MEANINGS, Emitter, UnsupportedInstruction
from warpwright.isa.sass.meaning_pairs import fuse


def describe(i: Instruction) -> str:
    """The instruction in the style of nvdisasm, for error messages."""

    def operand(o: Operand) -> str:
        mark = ("~" if o.invert and o.kind is not Kind.PREDICATE else "!" if o.invert else "") + (
            "-" if o.negate else ""
        )
        if o.kind in (Kind.IMMEDIATE, Kind.FLOAT, Kind.LABEL):
            return f"{mark}{o.name or hex(o.value)}{o.suffix}"
        if o.kind is Kind.CONSTANT:
            return f"{mark}c[{o.index:#x}][{o.value:#x}]"
        if o.kind is Kind.MEMORY:
            base = "" if o.base is None else operand(o.base)
            return f"[{base}+{o.value:#x}]"
        return f"{mark}{o.name or o.kind.value + str(o.index)}{o.suffix}"

    guard = "" if i.guard is None else f"@{operand(i.guard)} "
    return guard + ".".join((i.opcode, *i.modifiers)) + " " + ", ".join(operand(o) for o in i.operands)


def lower_instruction(i: Instruction, arch: int, code_base: int = 0, exclusive: Operand | None = None) -> Lowered:
    """One instruction as operations; ``exclusive`` as in :class:`Emitter`.

    Raises:
        UnsupportedInstruction: if the opcode or one of its modifiers has no meaning.
    """
    known = MEANINGS.get(i.opcode)
    if known is None:
        raise UnsupportedInstruction(f"opcode {i.opcode} has no meaning yet")
    emitter = Emitter(arch=arch, code_base=code_base, exclusive=exclusive)
    guard = None
    if i.guard is not None and not (i.guard.index == PT and not i.guard.invert):
        if i.guard.index == PT:
            return Lowered([])
        guard = ("pred" if i.guard.kind is Kind.PREDICATE else "upred", i.guard.index, i.guard.invert)
    known(i, emitter)
    within = i.opcode == "BRA" and bool({"DIV", "CONV", "ANY"} & set(i.modifiers))  # it applies its guard itself
    return Lowered(emitter.ops, None if within else guard)


def depends_on_place(opcode: str) -> bool:
    """Whether an instruction's meaning depends on its address."""
    return opcode == "LEPC" or opcode not in MEANINGS or MEANINGS[opcode].__module__ == meaning_control.__name__


@lru_cache(maxsize=1 << 15)
def _lower_word(word: int, arch: int) -> Lowered:
    """The verified meaning of a machine word at any address."""
    lowered = lower_instruction(decode(word, arch), arch)
    verify(lowered.ops)
    return lowered


def lower_at(i: Instruction, arch: int, code_base: int, exclusive: Operand | None) -> Lowered:
    """As :func:`lower_instruction`, verified; equal words of all programs share one meaning.

    Words that the loader has replaced are not shared.
    """
    if exclusive is None and i.encoding and not depends_on_place(i.opcode):
        word = decode(i.encoding, arch)
        if word.operands is i.operands and word.opcode == i.opcode:
            return _lower_word(i.encoding, arch)
    lowered = lower_instruction(i, arch, code_base, exclusive)
    verify(lowered.ops)
    return lowered


def lower(program: Program) -> list[Lowered]:
    """The meaning of every instruction of ``program``, in order.

    Raises:
        UnsupportedInstruction: naming kernel, address, text and chip.
    """
    result: list[Lowered] = []
    exclusive: Operand | None = None
    reductions: dict[int, Instruction] = {}
    for i in program.instructions:
        exclusive = exclusive_mask(i, exclusive)
        if exclusive is None:
            reductions.clear()
        try:
            lowered = _exclusive_reduction(i, program.arch, exclusive, reductions)
            if lowered is None:
                lowered = lower_at(i, program.arch, program.code_base, exclusive)
        except UnsupportedInstruction as error:
            raise UnsupportedInstruction(
                f"kernel {program.name}: cannot execute the instruction at {i.address:#06x} (sm_{program.arch}): "
                f"{describe(i)}: {error}"
            ) from None
        result.append(lowered)
        if exclusive is None:
            continue
        written = register_effects(lowered)[1]
        if ("reg", exclusive.index) in written:
            exclusive = None
        for number, reduction in tuple(reductions.items()):
            if ("reg", reduction.operands[1].index) in written:
                del reductions[number]
    return result


def _exclusive_reduction(
    i: Instruction, arch: int, exclusive: Operand | None, reductions: dict[int, Instruction]
) -> Lowered | None:
    """REDUX inside WARPSYNC.EXCLUSIVE, where every group of threads has its own result in the same uniform register.

    The groups run together here, so the reduction is computed where its result is moved to a vector register.
    ``reductions`` holds pending ones by uniform register.  Returns None for any other instruction.
    """
    if exclusive is None:
        return None
    if i.opcode == "REDUX":
        reductions[i.operands[0].index] = i
        return Lowered([])
    uniform = [o for o in i.operands if o.kind is Kind.UNIFORM_REGISTER and o.index in reductions]
    if not uniform or i.operands[0].kind is Kind.UNIFORM_REGISTER:
        return None
    sources = [o for o in i.operands[1:] if not (o.kind is Kind.REGISTER and o.index == RZ)]
    moves = i.opcode in ("MOV", "IMAD") and sources[:1] == uniform and all(o.kind is not Kind.CONSTANT for o in sources)
    if not moves or i.guard is not None:
        raise UnsupportedInstruction("a use of a reduction inside WARPSYNC.EXCLUSIVE that is not a move")
    emitter = Emitter(arch=arch, exclusive=exclusive)
    meaning_control.reduce_groups(reductions[uniform[0].index], i.operands[0], emitter)
    verify(emitter.ops)
    return Lowered(emitter.ops)


def exclusive_mask(i: Instruction, current: Operand | None) -> Operand | None:
    """The mask register of the WARPSYNC.EXCLUSIVE or .COLLECTIVE region that ``i`` is in, or None.

    Regions are short straight-line code; any branch ends one.
    """
    if i.opcode == "WARPSYNC":
        opens = bool({"EXCLUSIVE", "COLLECTIVE"} & set(i.modifiers)) and bool(i.operands)
        return i.operands[0] if opens and i.operands[0].kind is Kind.REGISTER else None
    return None if i.opcode in ("ENDCOLLECTIVE", "BRA", "BSYNC", "EXIT", "CALL", "RET", "BRX", "BRXU") else current


def fuse_pairs(lowered: Sequence[Lowered], program: Program, leaders: Iterable[int] | None = None) -> list[Lowered]:
    """Fuse 64-bit idioms of two instructions into one 64-bit operation; the other instruction becomes empty.

    Pairs are fused only if this provably changes nothing (see ``meaning_pairs``): results, guards and carry predicates
    are preserved.

    Args:
        lowered: from :func:`lower` for the same program.
        leaders: indices at which basic blocks begin, if the caller knows them.
    """
    return fuse(program, lowered, register_effects, leaders)
