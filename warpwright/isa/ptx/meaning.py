"""Common parts of PTX semantics: the table of meanings, operand readers and writers, modifiers.

Virtual registers live in the common register file: up to 16 bits in one 32-bit register (upper bits zero), 64 bits in a
pair, predicates in the predicate file, the carry flag in a predicate of its own.  If a PTX instruction needs several
machine steps (gathering lanes before an exchange), ``Emitter.step`` ends one and begins the next.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from warpwright.isa.bank0 import CURRENT_GRAPH, ENVIRONMENT_COUNT, environment_register
from warpwright.isa.ops import FIRST_CLUSTERS, SHARED_RANK_SHIFT, Builder, Op, Value
from warpwright.isa.ptx.special_registers import CURRENT_GRAPH_EXEC, SPECIALS, WIDE
from warpwright.isa.ptx.syntax import (
    BITS,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)


class UnsupportedInstruction(NotImplementedError):
    """A PTX instruction or modifier that is not implemented."""


def unsupported(what: str) -> UnsupportedInstruction:
    return UnsupportedInstruction(what)


@dataclass(frozen=True, slots=True)
class Place:
    """A code address that is known once the program is laid out; attributes hold it until then."""

    name: str
    """A label of the function, or a function."""


_ENVIRONMENT = frozenset(map(str, range(ENVIRONMENT_COUNT)))


@dataclass(frozen=True, slots=True)
class Storage:
    """The location of a variable."""

    space: str
    """global (device address) | const (offset in bank 3) | shared | local (offset in the frame) | param (offset in
    bank 0) | code."""
    offset: int = 0


@dataclass(slots=True)
class Context:
    """What meanings know about the function that contains the instruction."""

    arch: int
    registers: dict[str, tuple[int, str]]
    """Number and PTX type of each virtual register."""
    carry: int
    """Predicate number of the condition code's carry flag (CC.CF)."""
    symbols: Callable[[str], Storage]
    """The location of a name; raises UnsupportedInstruction for an unknown one."""
    stack: int | None = None
    """Register with the frame's offset in local memory; None in a kernel, whose frame begins at 0."""
    constant_window_bytes: int = 0x50
    """Offset in bank 0 of the generic address of constant bank 3."""
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    parameter_window_bytes: int | None = None
    """Offset in bank 0 of the generic addresses of the parameters' first and last byte, on chips that have them."""
    bank_window_bytes: tuple[int, int] | None = None
    """Offsets in bank 0 of its own generic address and of the offset of the parameters' last byte, on chips that have
    them."""
    parameter_base_bytes: int = 0
    """Offset in bank 0 of the parameters."""


class Emitter(Builder):
    """A :class:`Builder` that reads and writes PTX operands."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self.steps: list[list[Op]] = []

    @property
    def arch(self) -> int:
        """Compute capability times ten."""
        return self.context.arch

    def step(self) -> None:
        """End a machine step; values are not available in the next one."""
        self.steps.append(self.ops)
        self.ops = []

    # --- reading ----------------------------------------------------------------------------------
    def source(self, o: Operand, type: str) -> Value:
        """The operand as a value of the PTX type: iN for integers and bits, i1 for predicates, f16 … f64 for floats."""
        bits = BITS[type]
        if isinstance(o, Register):
            return self._as(self._register(o, bits), type)
        if isinstance(o, Immediate):
            return self.const(immediate_bits(o, type), value_type(type))
        if isinstance(o, Special):
            return self._as(self.special(o.name, bits), type)
        if isinstance(o, Symbol):
            return self._resized(self.address_of(o), bits)
        if isinstance(o, Negated):
            x = self.source(o.operand, type)
            if o.sign == "!":
                return self.not_(x)
            if is_float(type):
                return self.op("fneg", self.type_of(x), x)
            return self.sub(self.const(0, self.type_of(x)), x)
        if isinstance(o, Vector):
            return self._as(self.packed(o, bits), type)
        raise unsupported(f"an operand of kind {o.__class__.__name__.lower()} as a source")

    def _as(self, x: Value, type: str) -> Value:
        return self.bitcast(x, value_type(type))

    def _register(self, o: Register, bits: int) -> Value:
        number, type = self.lookup(o)
        if type == "pred":
            x = self.op("get_pred", "i1", attr=number)
            return x if bits == 1 else self.zext(x, f"i{bits}")
        if bits == 1:
            raise unsupported(f"register {o.name} of type .{type} where a predicate belongs")
        x = self.op("get_reg64", "i64", attr=number) if BITS[type] == 64 else self.op("get_reg", "i32", attr=number)
        if o.offset:
            x = self.add(x, self.like(o.offset, x))
        if o.part:
            shift = {"b": 8, "h": 16}[o.part[0]] * int(o.part[1])
            x = self.lshr(x, self.const(shift, self.type_of(x)))
            return self._resized(self.trunc(x, "i8" if o.part[0] == "b" else "i16"), bits)
        return self._resized(x, bits)

    def _resized(self, x: Value, bits: int) -> Value:
        have = int(self.type_of(x)[1:])
        return x if have == bits else self.trunc(x, f"i{bits}") if have > bits else self.zext(x, f"i{bits}")

    def lookup(self, o: Register) -> tuple[int, str]:
        found = self.context.registers.get(o.name)
        if found is None:
            raise unsupported(f"register {o.name} is not declared")
        return found

    def words(self, o: Operand, count: int) -> list[Value]:
        """Consecutive 32-bit words of a register of 64 or 128 bits."""
        if not isinstance(o, Register):
            raise unsupported(f"a source of {32 * count} bits that is not a register")
        number, _ = self.lookup(o)
        return [self.op("get_reg", "i32", attr=number + n) for n in range(count)]

    def special(self, name: str, bits: int) -> Value:
        if name.startswith("envreg") and name[6:] in _ENVIRONMENT:
            offset = environment_register(self.context.arch, int(name[6:]))
            return self._resized(self.op("load_const", "i32", self.const(offset), attr=(0, 4)), bits)
        if name == CURRENT_GRAPH_EXEC and self.context.arch // 10 in CURRENT_GRAPH:
            offset = CURRENT_GRAPH[self.context.arch // 10]
            words = (self.op("load_const", "i32", self.const(offset + at), attr=(0, 4)) for at in (0, 4))
            return self._resized(self.op("pack64", "i64", *words), bits)
        known = SPECIALS.get(name)
        if known is None or name == CURRENT_GRAPH_EXEC:
            raise unsupported(f"special register %{name} has no meaning here")
        if isinstance(known, int):
            return self.const(known, f"i{bits}")
        x = self.op("special64", "i64", attr=known) if name in WIDE else self.op("special", "i32", attr=known)
        return self._resized(x, bits)

    def packed(self, o: Vector, bits: int) -> Value:
        """``{a, b, …}`` as one value, first element lowest."""
        each = bits // len(o.items)
        total: Value | None = None
        for n, item in enumerate(o.items):
            part = self.zext(self.source(item, f"b{each}"), f"i{bits}")
            part = self.shl(part, self.const(n * each, f"i{bits}")) if n else part
            total = part if total is None else self.or_(total, part)
        assert total is not None
        return total

    def address_of(self, o: Symbol) -> Value:
        """The address of a variable in its own state space, or of code, as i64."""
        storage = self.context.symbols(o.name)
        if storage.space == "code":
            return self.op("const", "i64", attr=Place(o.name))
        if storage.space == "local":
            return self.zext(self.frame(storage.offset + o.offset), "i64")
        at = self.const(storage.offset + o.offset, "i64")
        if storage.space != "shared" or self.arch < FIRST_CLUSTERS:
            return at
        rank = self.op("special", "i32", attr="cluster_ctaid")
        return self.add(at, self.zext(self.shl(rank, self.const(SHARED_RANK_SHIFT)), "i64"))

    def frame(self, offset: int) -> Value:
        """The local address (i32) of a byte in the frame."""
        if self.context.stack is None:
            return self.const(offset)
        base = self.op("get_reg", "i32", attr=self.context.stack)
        return self.add(base, self.const(offset)) if offset else base

    # --- writing ----------------------------------------------------------------------------------
    def result(self, o: Operand, value: Value, signed: bool = False) -> None:
        """Write a destination; a wider register receives the zero- or sign-extended value."""
        if isinstance(o, Sink):
            return
        if isinstance(o, Pair):
            self.result(o.first, value, signed)
            return
        if isinstance(o, Vector):
            self.unpacked(o, value)
            return
        if not isinstance(o, Register):
            raise unsupported("a destination that is not a register")
        number, type = self.lookup(o)
        have = self.type_of(value)
        if have in FLOAT_BITS:
            value = self.bitcast(value, f"i{FLOAT_BITS[have]}")
            have = self.type_of(value)
        if type == "pred":
            if have != "i1":
                raise unsupported(f"a value of {have[1:]} bits for the predicate {o.name}")
            self.op("set_pred", "void", value, attr=number)
            return
        bits = BITS[type]
        extend = self.sext if signed else self.zext
        if int(have[1:]) > bits:
            value = self.trunc(value, f"i{bits}")
        elif int(have[1:]) < bits:
            value = extend(value, f"i{bits}")
        if bits == 64:
            self.op("set_reg64", "void", value, attr=number)
        else:
            self.op("set_reg", "void", self.zext(value, "i32"), attr=number)

    def set_words(self, o: Operand, words: list[Value]) -> None:
        """Write a register of 64 or 128 bits: consecutive ones of 32."""
        if isinstance(o, Sink):
            return
        if not isinstance(o, Register):
            raise unsupported(f"a destination of {32 * len(words)} bits that is not a register")
        number, _ = self.lookup(o)
        for n, word in enumerate(words):
            self.op("set_reg", "void", word, attr=number + n)

    def unpacked(self, o: Vector, value: Value) -> None:
        """Write the parts of a value to ``{a, b, …}``, lowest first."""
        have = self.type_of(value)
        bits = int(have[1:])
        each = bits // len(o.items)
        for n, item in enumerate(o.items):
            part = self.lshr(value, self.const(n * each, have)) if n else value
            self.result(item, self.trunc(part, f"i{each}"))

    # --- carry ------------------------------------------------------------------------------------
    def carry(self) -> Value:
        return self.op("get_pred", "i1", attr=self.context.carry)

    def set_carry(self, value: Value) -> None:
        self.op("set_pred", "void", value, attr=self.context.carry)

    # --- small idioms -----------------------------------------------------------------------------
    def like(self, bits: int, x: Value) -> Value:
        """A constant of ``x``'s type."""
        return self.const(bits, self.type_of(x))

    def neg(self, x: Value) -> Value:
        return self.sub(self.like(0, x), x)

    def high_low(self, x: Value) -> tuple[Value, Value]:
        """(low, high) words of an i64."""
        return self.op("extract", "i32", x, attr=0), self.op("extract", "i32", x, attr=1)


FLOAT_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def value_type(type: str) -> str:
    """The common operations' type of a PTX type."""
    if type in FLOAT_BITS:
        return type
    return "i1" if type == "pred" else f"i{BITS[type]}"


def is_float(type: str) -> bool:
    return type in FLOAT_BITS


def is_signed(type: str) -> bool:
    return type[0] == "s"


def immediate_bits(o: Immediate, type: str) -> int:
    """The bits of a literal in an instruction of the given type."""
    if type not in ("f32", "f64") or not o.float_bits:
        if type in ("f32", "f64") and o.bits:
            packed = struct.pack("<f" if type == "f32" else "<d", float(o.bits))
            return int.from_bytes(packed, "little")
        return o.bits
    if o.float_bits == BITS[type]:
        return o.bits
    if o.float_bits == 64:
        value = struct.unpack("<d", struct.pack("<Q", o.bits))[0]
        return int.from_bytes(struct.pack("<f", value), "little")
    value = struct.unpack("<f", struct.pack("<I", o.bits))[0]
    return int.from_bytes(struct.pack("<d", value), "little")


# --- the table ------------------------------------------------------------------------------------
Meaning = Callable[[Instruction, Emitter], None]
MEANINGS: dict[str, Meaning] = {}


def meaning(*names: str) -> Callable[[Meaning], Meaning]:
    """Register a function as the meaning of one or more opcodes."""

    def enter(function: Meaning) -> Meaning:
        for name in names:
            if name in MEANINGS:
                raise ValueError(f"{name} has two meanings")
            MEANINGS[name] = function
        return function

    return enter


def types_of(i: Instruction) -> list[str]:
    """The types among the modifiers, in order."""
    return [m for m in i.modifiers if m in BITS]


def type_of(i: Instruction) -> str:
    """The instruction's type: the last one named."""
    types = types_of(i)
    if not types:
        raise unsupported("an instruction without a type")
    return types[-1]


def only(i: Instruction, *known: str | Iterable[str]) -> None:
    """Raise unless every modifier other than types is known, so that none is silently ignored."""
    allowed: set[str] = set()
    for k in known:
        allowed |= {k} if isinstance(k, str) else set(k)
    for modifier in i.modifiers:
        if modifier not in allowed and modifier not in BITS:
            raise unsupported(f"modifier .{modifier} of {i.opcode} has no meaning here")


def only_types(i: Instruction, *known: str) -> str:
    """The instruction's type, which must be one of ``known``."""
    type = type_of(i)
    if type not in known:
        raise unsupported(f"{i.opcode} has no type .{type}")
    return type


def count_operands(i: Instruction, low: int, high: int | None = None) -> None:
    """Raise if there are too few or too many operands."""
    if not low <= len(i.operands) <= (high or low):
        wanted = str(low) if high is None else f"{low} to {high}"
        raise unsupported(f"{i.opcode} takes {wanted} operands, not {len(i.operands)}")


def elementwise(b: Emitter, type: str, function: Callable[..., Value], *values: Value) -> Value:
    """Apply an operation to a scalar, or to both halves of a packed value."""
    if not type.endswith("x2"):
        return function(*values)
    part_type = value_type({"u16x2": "u16", "s16x2": "s16"}.get(type, type[:-2]))
    results = []
    for n in range(2):
        parts = [half(b, x, n, part_type) for x in values]
        results.append(function(*parts))
    return pack_halves(b, results[0], results[1])


def half(b: Emitter, x: Value, n: int, type: str) -> Value:
    """Half ``n`` of an i32, as 16 bits."""
    word = b.lshr(x, b.const(16)) if n else x
    return b.bitcast(b.trunc(word, "i16"), type)


def pack_halves(b: Emitter, low: Value, high: Value) -> Value:
    """Two 16-bit values as an i32."""
    words = [b.zext(b.bitcast(x, "i16"), "i32") for x in (low, high)]
    return b.or_(words[0], b.shl(words[1], b.const(16)))
