"""Inputs, outputs and constants of graphics programs, kept in the engine's memory (``stage_words.py``)."""

from __future__ import annotations

from warpwright.isa.nv50.emitter import FIRST_ADDRESS_REGISTER, Nv50Emitter, address, get, unsupported
from warpwright.isa.nv50.stage_words import (
    INDEX,
    OUTPUT,
    PARAMETERS,
    PRIMITIVE_ID_AT,
    SPACE_BYTES,
    VERTEX_BASE,
    StageInterface,
)
from warpwright.isa.ops import ATTRIBUTES, Access, Value
from warpwright.isa.program import Operand

WORD = Access("global", 4, cache=ATTRIBUTES)


def interface(b: Nv50Emitter, what: str) -> StageInterface:
    if b.interface is None:
        raise unsupported(f"{what} has no meaning in a compute program")
    return b.interface


def parameter(b: Nv50Emitter, name: str) -> Value:
    return b.op("load_const", "i32", b.const(PARAMETERS[name]), attr=(0, 4))


def wide(b: Nv50Emitter, low: Value) -> Value:
    """A device address, given its lower word."""
    return b.op("pack64", "i64", low, b.const(b.window))


def row_address(b: Nv50Emitter, base: str, row: Value, row_bytes: str) -> Value:
    """Address of the thread's word in a row."""
    first = b.add(parameter(b, base), b.mul(row, parameter(b, row_bytes)))
    return wide(b, b.add(first, get(b, INDEX)))


def limited(b: Nv50Emitter, o: Operand, slot: Value, most: Value) -> Value:
    """A slot; an index beyond the last slot, which an address register may produce, selects the row after it."""
    return slot if o.base is None else b.binary("umin", slot, most)


def input_word(b: Nv50Emitter, o: Operand) -> Value:
    """``a[]`` and ``p[]`` as sources."""
    stage = interface(b, f"{o.name}[]").stage
    if o.name == "p":
        return b.op("load", "i32", _vertex_address(b, o), attr=WORD)
    if stage == "gp":
        return _primitive_word(b, o)
    slot = b.lshr(address(b, o), b.const(2))
    slot = limited(b, o, slot, parameter(b, "input_slots"))
    return b.op("load", "i32", row_address(b, "inputs", slot, "input_row_bytes"), attr=WORD)


def _primitive_word(b: Nv50Emitter, o: Operand) -> Value:
    """The words before the vertices: their bases, and the primitive's number."""
    at = b.and_(address(b, o), b.const(0xFFFC))
    base = b.mul(at, b.const(VERTEX_BASE // 4))
    if o.base is None and o.value != PRIMITIVE_ID_AT:
        return base
    row = b.mul(parameter(b, "input_slots"), parameter(b, "vertices"))
    number = b.op("load", "i32", row_address(b, "inputs", row, "input_row_bytes"), attr=WORD)
    return number if o.base is None else b.select(b.icmp("eq", at, b.const(PRIMITIVE_ID_AT)), number, base)


def _vertex_address(b: Nv50Emitter, o: Operand) -> Value:
    """``p[$a + offset]``, at base / 16 + slot * vertices."""
    vertices = parameter(b, "vertices")
    row = b.mul(b.const(o.value >> 2), vertices)
    if o.base is not None:
        row = b.add(row, b.lshr(get(b, FIRST_ADDRESS_REGISTER + o.base.index), b.const(4)))
    most = b.add(b.mul(parameter(b, "input_slots"), vertices), b.const(1))
    return row_address(b, "inputs", b.binary("umin", row, most), "input_row_bytes")


def output_address(b: Nv50Emitter, o: Operand) -> Value:
    """Address of a word of ``o[]``."""
    known = interface(b, "o[]")
    if known.stage == "fp":
        raise unsupported("pixel programs leave their results in registers, not in o[]")
    slot = b.lshr(address(b, o), b.const(2))
    slot = limited(b, o, slot, b.const(known.output_slots))
    offset = b.mul(slot, parameter(b, "output_row_bytes"))
    return wide(b, b.add(b.add(parameter(b, "outputs"), offset), get(b, OUTPUT)))


def put_output(b: Nv50Emitter, o: Operand, value: Value) -> None:
    """Write a result to ``o[]``."""
    if b.type_of(value) == "i16":
        raise unsupported("an output of 16 bits has no meaning here")
    b.op("store", "void", output_address(b, o), b.bitcast(value, "i32"), attr=WORD)


def constant_place(b: Nv50Emitter, o: Operand) -> tuple[int, Value]:
    """The engine's bank, and the byte offset in it, of a constant operand; a constant space is 64 KiB long."""
    known = interface(b, "c[]")
    bank, first = known.bank_of(o.index)
    at = b.and_(address(b, o), b.const(SPACE_BYTES - 1)) if o.base is not None else b.const(o.value)
    return bank, b.add(at, b.const(first)) if first else at
