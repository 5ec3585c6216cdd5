"""Semantics of SASS instructions in the common operations: the table and the operand readers.

One short function for each opcode lives in the ``meaning_*`` modules, registered by
:func:`meaning` under every opcode that shares it (``IADD3`` and ``UIADD3`` differ only
in the register file that their operands name).  Sources: NVIDIA's CUDA Binary Utilities
(the instruction lists), the PTX ISA manual for the operations that they implement, and the
code sequences that the compiler emits (64-bit carries, division, conversions), which
tests check against references.

Operands are in printed order.  Readers below turn one operand into a value with all
of its modifiers applied; writers discard results to RZ, URZ or PT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warpwright.errors import UnsupportedError
from warpwright.isa.ops import Builder, Value
from warpwright.isa.program import PT, RZ, URZ, Instruction, Kind, Operand


class UnsupportedInstruction(UnsupportedError):
    """An instruction that decodes but has no meaning here."""


@dataclass(slots=True)
class Emitter(Builder):
    """A builder that knows its instruction's address and context."""

    arch: int = 80
    """Compute capability times ten."""
    code_base: int = 0
    """Virtual address of the program's first byte."""
    exclusive: Operand | None = None
    """Inside WARPSYNC.EXCLUSIVE … WARPSYNC.ALL: the mask of the threads that run exclusively."""


Meaning = Callable[[Instruction, Emitter], None]
MEANINGS: dict[str, Meaning] = {}
"""Opcode to meaning; filled by the ``meaning_*`` modules."""


def meaning(*opcodes: str) -> Callable[[Meaning], Meaning]:
    """Register a function as the meaning of ``opcodes``."""

    def register(function: Meaning) -> Meaning:
        for opcode in opcodes:
            if opcode in MEANINGS:
                raise ValueError(f"{opcode} has two meanings: {MEANINGS[opcode].__module__} and {function.__module__}")
            MEANINGS[opcode] = function
        return function

    return register


def unsupported(what: str) -> UnsupportedInstruction:
    """The error that a meaning raises; ``lower`` adds kernel, address, text and chip."""
    return UnsupportedInstruction(what)


def only(i: Instruction, *known: str) -> None:
    """Raise unless every modifier of ``i`` is one of ``known``, so that none is silently ignored."""
    for modifier in i.modifiers:
        if modifier not in known:
            raise unsupported(f"modifier .{modifier} of {i.opcode} has no meaning yet")


# --- operand kinds --------------------------------------------------------------------------------
REGISTERS = (Kind.REGISTER, Kind.UNIFORM_REGISTER)
PREDICATES = (Kind.PREDICATE, Kind.UNIFORM_PREDICATE)


def is_predicate(operand: Operand) -> bool:
    return operand.kind in PREDICATES


def is_zero(operand: Operand) -> bool:
    """Whether the operand is the constant zero (RZ, URZ or 0) without a complement."""
    if operand.invert:
        return False
    if operand.kind is Kind.REGISTER:
        return operand.index == RZ
    if operand.kind is Kind.UNIFORM_REGISTER:
        return operand.index == URZ
    return operand.kind is Kind.IMMEDIATE and operand.value & 0xFFFFFFFF == 0


def is_false(operand: Operand) -> bool:
    """Whether a predicate operand is the constant ``!PT``."""
    return is_predicate(operand) and operand.index == PT and operand.invert


def is_true(operand: Operand) -> bool:
    """Whether a predicate operand is the constant ``PT``."""
    return is_predicate(operand) and operand.index == PT and not operand.invert


@dataclass(frozen=True, slots=True)
class Split:
    """Operands of an arithmetic instruction by position: ``D, [P, [P]] sources… [, P…]``."""

    destination: Operand | None
    predicates_out: tuple[Operand, ...]
    sources: tuple[Operand, ...]
    predicates_in: tuple[Operand, ...]


def split(i: Instruction, destination: bool = True) -> Split:
    """Sort operands into destination, predicate results, sources and predicate sources."""
    operands = list(i.operands)
    first = operands.pop(0) if destination else None
    out = []
    while operands and is_predicate(operands[0]):
        out.append(operands.pop(0))
    inputs: list[Operand] = []
    while operands and is_predicate(operands[-1]):
        inputs.insert(0, operands.pop())
    return Split(first, tuple(out), tuple(operands), tuple(inputs))


# --- readers --------------------------------------------------------------------------------------
def raw32(b: Builder, o: Operand, word: int = 0) -> Value:
    """32 bits of an operand without its modifiers; ``word`` 1 selects the upper half of a pair."""
    if o.kind is Kind.REGISTER:
        return b.const(0) if o.index == RZ else b.op("get_reg", "i32", attr=o.index + word)
    if o.kind is Kind.UNIFORM_REGISTER:
        return b.const(0) if o.index == URZ else b.op("get_ureg", "i32", attr=o.index + word)
    if o.kind in (Kind.IMMEDIATE, Kind.FLOAT, Kind.LABEL):
        return b.const(o.value >> (32 * word))
    if o.kind is Kind.CONSTANT:
        return constant(b, o, "i32", 4 * word)
    if o.kind in PREDICATES:
        return b.zext(predicate(b, o), "i32")
    raise unsupported(f"operand of kind {o.kind.value} as a 32-bit source")


def constant_offset(b: Builder, o: Operand, more_bytes: int = 0) -> Value:
    """Byte offset of ``c[bank][R + offset]`` in its bank."""
    if o.uniform is not None:
        raise unsupported("a bindless constant bank cx[UR]")
    offset = b.const(o.value + more_bytes)
    return offset if o.base is None or is_zero(o.base) else b.add(raw32(b, o.base), offset)


def constant(b: Builder, o: Operand, type: str, more_bytes: int = 0) -> Value:
    """A constant-bank operand; ``c[bank][R + offset]`` includes its base register."""
    size = {"i8": 1, "i16": 2, "i32": 4, "f32": 4, "i64": 8, "f64": 8, "i32x2": 8, "i32x4": 16}[type]
    return b.op("load_const", type, constant_offset(b, o, more_bytes), attr=(o.index, size))


def src32(b: Builder, o: Operand) -> Value:
    """A 32-bit integer source with complement, absolute value and negation (in this order)."""
    if o.kind is Kind.IMMEDIATE:
        value = o.value
        value = ~value if o.invert else value
        return b.const(-value if o.negate else value)
    if is_zero(o):
        return b.const(0)
    x = raw32(b, o)
    x = half_integer(b, x, o.suffix)
    if o.invert:
        x = b.not_(x)
    if o.absolute:
        x = b.op("smax", "i32", x, b.sub(b.const(0), x))
    return b.sub(b.const(0), x) if o.negate else x


def half_integer(b: Builder, x: Value, suffix: str) -> Value:
    """Part selection of integer sources (.B0 … .B3, .H0, .H1); other suffixes do not affect the value."""
    part = suffix.lstrip(".")
    if part in ("B0", "B1", "B2", "B3"):
        return b.and_(b.lshr(x, b.const(8 * int(part[1]))), b.const(0xFF))
    return x


def src64(b: Builder, o: Operand) -> Value:
    """A 64-bit integer source: register pair, constant or sign-extended immediate, with modifiers."""
    if o.kind is Kind.REGISTER:
        x = b.const(0, "i64") if o.index == RZ else b.op("get_reg64", "i64", attr=o.index)
    elif o.kind is Kind.UNIFORM_REGISTER:
        x = b.const(0, "i64") if o.index == URZ else b.op("get_ureg64", "i64", attr=o.index)
    elif o.kind in (Kind.IMMEDIATE, Kind.LABEL):
        value = o.value
        x = b.const(value - (1 << 32) if 0x80000000 <= value < 1 << 32 else value, "i64")
    elif o.kind is Kind.CONSTANT:
        x = constant(b, o, "i64")
    else:
        raise unsupported(f"operand of kind {o.kind.value} as a 64-bit source")
    if o.invert:
        x = b.not_(x)
    return b.sub(b.const(0, "i64"), x) if o.negate else x


def float_modifiers(b: Builder, x: Value, o: Operand) -> Value:
    if o.absolute:
        x = b.op("fabs", b.type_of(x), x)
    return b.op("fneg", b.type_of(x), x) if o.negate else x


def src_f32(b: Builder, o: Operand) -> Value:
    """A single-precision source; ``.H0_H0`` and ``.H1_H1`` widen one half exactly."""
    if o.suffix in (".H0_H0", ".H1_H1"):
        half = b.trunc(b.lshr(raw32(b, o), b.const(16 if o.suffix == ".H1_H1" else 0)), "i16")
        x = b.op("fcvt", "f32", b.bitcast(half, "f16"), attr="rn")
    else:
        x = b.bitcast(raw32(b, o), "f32")
    return float_modifiers(b, x, o)


def src_f64(b: Builder, o: Operand) -> Value:
    """A double-precision source: a pair, a 64-bit constant, or an immediate that holds the upper word."""
    if o.kind in (Kind.FLOAT, Kind.IMMEDIATE):
        bits = o.value if o.value >= 1 << 32 else o.value << 32
        x = b.const(bits, "f64")
    elif o.kind in REGISTERS or o.kind is Kind.CONSTANT:
        plain = Operand(o.kind, o.index, o.value, base=o.base, uniform=o.uniform)
        x = b.bitcast(src64(b, plain), "f64")
    else:
        raise unsupported(f"operand of kind {o.kind.value} as a double-precision source")
    return float_modifiers(b, x, o)


def predicate(b: Builder, o: Operand) -> Value:
    """A predicate source with its complement."""
    if o.index == PT:
        return b.const(0 if o.invert else 1, "i1")
    x = b.op("get_pred" if o.kind is Kind.PREDICATE else "get_upred", "i1", attr=o.index)
    return b.not_(x) if o.invert else x


# --- writers --------------------------------------------------------------------------------------
def set32(b: Builder, o: Operand, value: Value) -> None:
    if o.kind is Kind.REGISTER:
        if o.index != RZ:
            b.op("set_reg", "void", value, attr=o.index)
    elif o.kind is Kind.UNIFORM_REGISTER:
        if o.index != URZ:
            b.op("set_ureg", "void", value, attr=o.index)
    else:
        raise unsupported(f"operand of kind {o.kind.value} as a destination")


def set64(b: Builder, o: Operand, value: Value) -> None:
    if o.kind is Kind.REGISTER:
        if o.index != RZ:
            b.op("set_reg64", "void", b.bitcast(value, "i64"), attr=o.index)
    elif o.kind is Kind.UNIFORM_REGISTER:
        if o.index != URZ:
            b.op("set_ureg64", "void", b.bitcast(value, "i64"), attr=o.index)
    else:
        raise unsupported(f"operand of kind {o.kind.value} as a 64-bit destination")


def set_words(b: Builder, o: Operand, value: Value) -> None:
    """Write the words of an i32, i64, i32x2 or i32x4 to consecutive registers."""
    type = b.type_of(value)
    if type == "i32":
        set32(b, o, value)
    elif type == "i64":
        set64(b, o, value)
    elif type == "i32x2":
        set64(b, o, b.op("pack64", "i64", b.op("extract", "i32", value, attr=0), b.op("extract", "i32", value, attr=1)))
    else:
        for word in range(4):
            part = Operand(o.kind, o.index + word) if o.index not in (RZ, URZ) else o
            set32(b, part, b.op("extract", "i32", value, attr=word))


def set_f32(b: Builder, o: Operand, value: Value) -> None:
    set32(b, o, b.bitcast(value, "i32"))


def set_predicate(b: Builder, o: Operand, value: Value) -> None:
    if o.index != PT:
        b.op("set_pred" if o.kind is Kind.PREDICATE else "set_upred", "void", value, attr=o.index)
