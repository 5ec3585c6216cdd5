"""Lowers vertex, geometry and pixel programs to common operations.

A program is the code reachable from its entry, whatever lies between.  What the pipeline does before and after a
thread's
own code is an instruction before the first one, and operations before each ``exit``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpwright.errors import WarpwrightError
from warpwright.isa.nv50.attributes import WORD, parameter, row_address
from warpwright.isa.nv50.condition_registers import tests_read
from warpwright.isa.nv50.decode import LONG_BYTES, WORD_BYTES, decode, is_long
from warpwright.isa.nv50.emitter import Nv50Emitter
from warpwright.isa.nv50.lower import WINDOW, meaning_of, size_of
from warpwright.isa.nv50.stage_words import (
    CENTROID,
    EMITTED,
    INDEX,
    NOBODY,
    OUTPUT,
    PARAMETER_BYTES,
    PARAMETERS_AT,
    PIXEL_ROWS,
    PLANE,
    POSITION,
    StageInterface,
)
from warpwright.isa.nv50.text import text_of
from warpwright.isa.ops import Lowered, verify
from warpwright.isa.program import Instruction, Kind, Program
from warpwright.isa.sass.decode import UnknownEncoding
from warpwright.isa.sass.meaning import UnsupportedInstruction

ARCH = 10
PROLOGUE_BYTES = 8
MOST_INSTRUCTIONS = 1 << 16
TAIL_AT = 4
"""Offset from an instruction to the separate ``exit`` or ``join`` made of its tail, because the guard does not apply to
the tail (Mesa ends programs with ``exit (never) nop``)."""


class BadProgram(WarpwrightError, ValueError):
    """Invalid code: it leaves its segment, or a word is not an instruction."""


def _next_addresses(i: Instruction) -> Iterator[int]:
    """Addresses at which a program may continue after an instruction, and those that it pushes onto the stack."""
    for o in i.operands:
        if o.kind is Kind.LABEL:
            yield o.value
    jumps = i.opcode in ("bra", "ret", "brk", "trap") and i.guard is None
    if not jumps and "+exit" not in i.modifiers:
        yield i.address + size_of(i)


def reachable(code: bytes, entry: int, stage: str) -> list[Instruction]:
    """The reachable instructions of a program, sorted by address.

    Raises:
        BadProgram: naming the address.
    """
    found: dict[int, Instruction] = {}
    left = [entry]
    while left:
        at = left.pop()
        if at in found:
            continue
        if len(found) > MOST_INSTRUCTIONS:
            raise BadProgram(f"the program at {entry:#x} has more than {MOST_INSTRUCTIONS:,} instructions")
        found[at] = i = _decode_at(code, at, stage)
        left.extend(_next_addresses(i))
    return [found[at] for at in sorted(found)]


def _decode_at(code: bytes, at: int, stage: str) -> Instruction:
    word = int.from_bytes(code[at : at + WORD_BYTES], "little") if 0 <= at <= len(code) - WORD_BYTES else -1
    size = LONG_BYTES if word >= 0 and is_long(word) else WORD_BYTES
    if word < 0 or at % size or at + size > len(code):
        raise BadProgram(f"the program continues at {at:#x}, outside of its code of {len(code):,} bytes or misaligned")
    try:
        return decode(int.from_bytes(code[at : at + size], "little"), ARCH, at, stage)
    except UnknownEncoding as error:
        raise BadProgram(str(error)) from None


def _moved(i: Instruction, by: int) -> Instruction:
    operands = tuple(replace(o, value=o.value + by) if o.kind is Kind.LABEL else o for o in i.operands)
    return replace(i, address=i.address + by, operands=operands)


def make_program(instructions: list[Instruction], entry: int, name: str, local_bytes: int) -> Program:
    """A :class:`Program` whose first instruction represents the pipeline's part, with tails as separate
    instructions."""
    by = PROLOGUE_BYTES - instructions[0].address
    made = [Instruction(0, "nop", (), (), encoding=entry + by)]
    for i in instructions:
        moved = _moved(i, by)
        made.append(moved)
        if "+exit" in i.modifiers or "+join" in i.modifiers:
            tail = "+exit" if "+exit" in i.modifiers else "+join"
            made.append(Instruction(moved.address + TAIL_AT, "tail", (tail,), (), encoding=i.encoding))
    return Program(
        name=name,
        arch=ARCH,
        instructions=made,
        parameter_base_bytes=PARAMETERS_AT,
        parameter_size_bytes=PARAMETER_BYTES,
        registers=128,
        local_bytes_per_thread=local_bytes,
        control_bits=False,
    )


def lower_graphics(program: Program, interface: StageInterface) -> list[Lowered]:
    """The meaning of every instruction of a program that :func:`make_program` made.

    Raises:
        UnsupportedInstruction: naming program, address and text.
    """
    wanted = tests_read(program.instructions)
    joins = {
        i.address: i.address + size_of(i) for i in program.instructions if i.opcode != "tail" and "+join" in i.modifiers
    }
    result = []
    for n, i in enumerate(program.instructions):
        emitter = Nv50Emitter([], program.arch, wanted, window=WINDOW, targets=joins, interface=interface)
        try:
            if n == 0:
                lowered = _prologue(emitter, i.encoding, program.instructions[1].address)
            elif i.opcode == "tail":
                lowered = _tail(i, emitter)
            else:
                lowered = meaning_of(i, emitter)
        except UnsupportedInstruction as error:
            text = text_of(i.encoding, program.arch, interface.stage)
            raise UnsupportedInstruction(
                f"{program.name}: cannot execute the instruction at {i.address:#06x}: {text}: {error}"
            ) from None
        verify(lowered.ops)
        result.append(lowered)
    return result


def _prologue(b: Nv50Emitter, entry: int, first: int) -> Lowered:
    """Initialise the registers that the pipeline sets; threads beyond the last end at once."""
    known = b.interface
    assert known is not None
    block = b.mul(b.op("special", "i32", attr="ctaid.x"), b.const(32))
    thread = b.add(block, b.op("special", "i32", attr="tid.x"))
    index = b.shl(thread, b.const(2))
    b.op("set_reg", "void", index, attr=INDEX)
    b.op("set_reg", "void", index, attr=OUTPUT)
    b.op("set_reg", "void", b.const(0), attr=EMITTED)
    there = b.icmp("ult", thread, parameter(b, "threads"))
    absent = b.not_(there)
    if known.stage == "fp":
        targets = (PLANE, *POSITION, *(CENTROID if known.centroid else ()))
        for n, (register, _) in enumerate(zip(targets, PIXEL_ROWS, strict=False)):
            at = row_address(b, "inputs", b.const(n), "input_row_bytes")
            word = b.op("load", "i32", at, there, attr=WORD)
            if register == PLANE:
                absent = b.or_(absent, b.icmp("eq", word, b.const(NOBODY)))
                word = b.mul(word, parameter(b, "plane_row_bytes"))
            b.op("set_reg", "void", word, attr=register)
    if entry == first:
        b.op("exit", "void", absent)
        return Lowered(b.ops)
    # The entry is not the lowest address; threads beyond the last read zeros as inputs and have rows of their own.
    b.op("branch", "void", attr=entry)
    return Lowered(b.ops)


def _tail(i: Instruction, b: Nv50Emitter) -> Lowered:
    """``join`` or ``exit``."""
    if i.modifiers[0] == "+join":
        b.op("pop", "void", attr="ssy")
        return Lowered(b.ops)
    known = b.interface
    assert known is not None
    if known.stage == "fp":
        for n in range(known.output_slots):
            at = row_address(b, "outputs", b.const(n), "output_row_bytes")
            b.op("store", "void", at, b.op("get_reg", "i32", attr=n), attr=WORD)
    if known.stage == "gp":
        row = b.add(parameter(b, "most_vertices"), b.const(1))
        at = row_address(b, "cuts", row, "output_row_bytes")
        b.op("store", "void", at, b.op("get_reg", "i32", attr=EMITTED), attr=WORD)
    b.op("exit", "void")
    return Lowered(b.ops)
