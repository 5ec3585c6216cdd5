"""Semantics of NV50 words: the table, operand readers and writers.

**Registers.** ``$r0`` to ``$r127`` are R0 to R127; the address registers ``$a1`` to ``$a7``, of 16 bits, are R128 and following.
A half register is part of its full register.  **Shared memory** begins with the words that the launch writes: the
block's and the grid's extents and the kernel's parameters.  Operands that address these bytes directly read them from
the launch (:mod:`launch_words`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from warpwright.isa.nv50.attributes import constant_place, input_word, put_output
from warpwright.isa.nv50.condition_registers import Flags
from warpwright.isa.nv50.emitter import Nv50Emitter, address, get, unsupported
from warpwright.isa.nv50.launch_words import read_launch_word
from warpwright.isa.ops import Access, Value
from warpwright.isa.program import Instruction, Kind, Operand

USER_CONSTANTS, LITERALS = 3, 1
"""Banks of the engine: ``c0[]`` holds ``__constant__`` variables, ``c1[]`` the assembler's literals."""
BANKS = {0: USER_CONSTANTS, 1: LITERALS}


Meaning = Callable[[Instruction, Nv50Emitter], None]
MEANINGS: dict[str, Meaning] = {}
"""Meanings for programs of every kind."""
GRAPHICS_MEANINGS: dict[str, Meaning] = {}
"""Meanings for vertex, geometry and pixel programs only; a compute program that contains one is refused."""


def _registering(table: dict[str, Meaning], opcodes: tuple[str, ...]) -> Callable[[Meaning], Meaning]:
    def register(function: Meaning) -> Meaning:
        for opcode in opcodes:
            if opcode in MEANINGS or opcode in GRAPHICS_MEANINGS:
                raise ValueError(f"{opcode} has two meanings")
            table[opcode] = function
        return function

    return register


def meaning(*opcodes: str) -> Callable[[Meaning], Meaning]:
    """Register a function as the meaning of rows."""
    return _registering(MEANINGS, opcodes)


def graphics_meaning(*opcodes: str) -> Callable[[Meaning], Meaning]:
    """Register a function as the meaning of rows that compute programs may not contain."""
    return _registering(GRAPHICS_MEANINGS, opcodes)


# --- operands -------------------------------------------------------------------------------------
def is_condition(o: Operand) -> bool:
    return o.kind is Kind.PREDICATE


def written(i: Instruction) -> tuple[Operand | None, Operand, tuple[Operand, ...]]:
    """The condition register written, the destination and the sources of an instruction with these operands first."""
    operands = i.operands
    condition = operands[0] if is_condition(operands[0]) else None
    if condition is not None:
        operands = operands[1:]
    return condition, operands[0], operands[1:]


def source(b: Nv50Emitter, o: Operand, bits: int = 32) -> Value:
    """A source without its modifiers: i32, or i16 for ``bits`` 16."""
    kind = f"i{bits}"
    if o.kind is Kind.REGISTER:
        if o.suffix in ("l", "h"):
            word = get(b, o.index)
            return _resized(b, b.trunc(b.lshr(word, b.const(16)) if o.suffix == "h" else word, "i16"), kind)
        return _resized(b, get(b, o.index), kind)
    if o.kind is Kind.IMMEDIATE:
        return b.const(o.value, kind)
    if o.kind is Kind.CONSTANT:
        return _constant(b, o, bits)
    if o.kind is Kind.MEMORY and o.name == "s":
        return _resized(b, shared(b, o), kind, o.suffix.startswith("s"))
    if o.kind is Kind.MEMORY and o.name in ("a", "p"):
        return _resized(b, input_word(b, o), kind)
    raise unsupported(f"{o.name}[] has no meaning in a compute program")


def _resized(b: Nv50Emitter, x: Value, kind: str, sign: bool = False) -> Value:
    have, want = int(b.type_of(x)[1:]), int(kind[1:])
    if have > want:
        return b.trunc(x, kind)
    return b.sext(x, kind) if sign else b.zext(x, kind)


def _constant(b: Nv50Emitter, o: Operand, bits: int) -> Value:
    if b.interface is not None:
        bank, at = constant_place(b, o)
        return b.op("load_const", f"i{bits}", at, attr=(bank, bits // 8))
    bank = BANKS.get(o.index, -1)
    if bank < 0:
        raise unsupported(f"constant space c{o.index}[]: compute programs have c0[] and c1[]")
    return b.op("load_const", f"i{bits}", address(b, o), attr=(bank, bits // 8))


SIZES = {
    "u8": 1,
    "s8": 1,
    "b8": 1,
    "u16": 2,
    "s16": 2,
    "b16": 2,
    "b32": 4,
    "u32": 4,
    "s32": 4,
    "b64": 8,
    "u64": 8,
    "b128": 16,
}


def shared(b: Nv50Emitter, o: Operand) -> Value:
    """The contents of a shared-memory operand: i8, i16 or i32."""
    size = SIZES[o.suffix]
    if o.base is None:
        found = read_launch_word(b, o.value, size, b.parameter_bytes, b.parameter_base_bytes)
        if found is not None:
            return found
    return b.op("load", f"i{8 * size}", address(b, o), attr=Access("shared", size))


def float_source(b: Nv50Emitter, o: Operand) -> Value:
    """An f32 source with its modifiers; subnormals are flushed to zero."""
    x = b.op("ftz", "f32", b.bitcast(source(b, o), "f32"))
    if o.absolute:
        x = b.op("fabs", "f32", x)
    return b.op("fneg", "f32", x) if o.negate else x


def integer_source(b: Nv50Emitter, o: Operand, bits: int = 32) -> Value:
    """An integer source with its complement."""
    x = source(b, replace(o, invert=False), bits)
    return b.not_(x) if o.invert else x


def put(b: Nv50Emitter, d: Operand, value: Value) -> None:
    """Write a destination: a register, half of one, or nothing."""
    if d.kind is Kind.NAME:
        return
    if d.kind is Kind.MEMORY and d.name == "o":
        put_output(b, d, value)
        return
    if d.kind is not Kind.REGISTER:
        raise unsupported(f"{d.name}[] as a destination has no meaning in a compute program")
    if b.type_of(value) in ("f32",):
        value = b.bitcast(value, "i32")
    if d.suffix in ("l", "h"):
        half = _resized(b, _resized(b, value, "i16"), "i32")
        old = b.and_(get(b, d.index), b.const(0xFFFF0000 if d.suffix == "l" else 0xFFFF))
        value = b.or_(old, half if d.suffix == "l" else b.shl(half, b.const(16)))
    b.op("set_reg", "void", _resized(b, value, "i32"), attr=d.index)


def finish(
    b: Nv50Emitter,
    i: Instruction,
    value: Value,
    carry: Value | None = None,
    overflow: Value | None = None,
) -> None:
    """Write an integer result and, if there is one, the condition register."""
    condition, d, _ = written(i)
    put(b, d, value)
    if condition is not None:
        zero = b.const(0, b.type_of(value))
        Flags(b, b.icmp("eq", value, zero), b.icmp("slt", value, zero), carry, overflow).write(
            condition.index, b.wanted
        )


def finish_float(b: Nv50Emitter, i: Instruction, value: Value) -> None:
    """As :func:`finish` for an f32; a NaN sets the zero and sign flags."""
    condition, d, _ = written(i)
    put(b, d, value)
    if condition is not None:
        zero = b.const(0, "f32")
        Flags(b, b.fcmp("ueq", value, zero), b.fcmp("ult", value, zero)).write(condition.index, b.wanted)


def is_half(o: Operand) -> bool:
    return o.suffix in ("l", "h")
