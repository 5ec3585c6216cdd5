"""Bit fields of NV50 words, as parts of a row that can be read and written.

A 4-byte word is *short* (bit 0 is 0); an 8-byte word is *long*, *immediate* or *control*.  Bits are numbered through
both
halves: bit 32 is bit 0 of the second half.  Fields that most words share (envytools' documentation of the Tesla ISA,
docs/hw/graph/tesla/cuda/isa.rst):

* 2-8 destination (2-7 in short and immediate words), 9-15 source 1, 16-22 source 2, 46-52 source 3;
* 23 and 24 select a constant space for source 2 or 3 (in short words, 24 selects shared memory for source 1), 25
  auto-increments an address register, 26-27 and 34 name it;
* long words: 32-33 ``join`` or ``exit``, 35 output instead of a register, 36-38 condition register written, 39-43 test
  and
  44-45 condition register of the guard, 53 source 1 in shared memory, 54-57 constant space.

Each part reads *tokens* from a word: words of text and operands in the order in which ``envydis`` prints them.  Writing
takes the same tokens from a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from warpwright.isa.program import Kind, Operand

Token = str | Operand


class UndefinedField(Exception):
    """A field holds an undefined value."""


class DoesNotFit(Exception):
    """A token cannot be encoded in a row's field."""


class Context(NamedTuple):
    """Selects between interpretations of the same bits."""

    stage: str = "cp"
    """Kind of program: ``cp`` compute, ``vp`` vertex, ``gp`` geometry, ``fp`` fragment."""
    features: frozenset[str] = frozenset()
    """sm11 | sm12 | fp64 | d3d10_1."""


COMPUTE = Context()


def bits_of(word: int, low: int, width: int) -> int:
    return word >> low & ((1 << width) - 1)


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> width - 1 else value


def put(value: int, low: int, width: int) -> int:
    if not 0 <= value < 1 << width:
        raise DoesNotFit(f"{value:#x} does not fit in {width} bits")
    return value << low


class Tokens:
    """A list of tokens, consumed from the front."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def peek(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def take(self) -> Token:
        if self._next >= len(self._tokens):
            raise DoesNotFit("an operand is missing")
        self._next += 1
        return self._tokens[self._next - 1]

    def mark(self) -> int:
        return self._next

    def back_to(self, mark: int) -> None:
        self._next = mark

    def operand(self, kind: Kind) -> Operand:
        token = self.take()
        if not isinstance(token, Operand) or token.kind is not kind:
            raise DoesNotFit(f"{token} is not of the kind {kind.value}")
        return token


class Part(Protocol):
    """An entry of a row."""

    def read(self, word: int, context: Context) -> Sequence[Token]: ...

    def write(self, tokens: Tokens, context: Context) -> int: ...


def register(number: int, suffix: str = "") -> Operand:
    """``$r5``, a half ``$r5l`` or ``$r5h``, a pair ``$r4d``, a quad ``$r4q``."""
    return Operand(Kind.REGISTER, number, suffix=suffix)


def address_register(number: int) -> Operand:
    return Operand(Kind.REGISTER, number, name="a")


def condition_register(number: int) -> Operand:
    return Operand(Kind.PREDICATE, number)


def immediate(value: int) -> Operand:
    return Operand(Kind.IMMEDIATE, value=value & 0xFFFFFFFF)


NOWHERE = Operand(Kind.NAME, name="#")
"""A discarded destination."""


@dataclass(frozen=True, slots=True)
class Word:
    """A fixed word of text."""

    text: str

    def read(self, word: int, context: Context) -> Sequence[Token]:
        return (self.text,)

    def write(self, tokens: Tokens, context: Context) -> int:
        if tokens.take() != self.text:
            raise DoesNotFit(self.text)
        return 0


@dataclass(frozen=True, slots=True)
class Choice:
    """A field whose values stand for words: ``""`` prints nothing, None is undefined."""

    low: int
    width: int
    names: tuple[str | None, ...]
    feature: str = ""
    """The field is present only if this condition holds."""

    def read(self, word: int, context: Context) -> Sequence[Token]:
        if self.feature and self.feature not in context.features:
            return ()
        name = self.names[bits_of(word, self.low, self.width)]
        if name is None:
            raise UndefinedField(f"bits {self.low} to {self.low + self.width - 1}")
        return (name,) if name else ()

    def write(self, tokens: Tokens, context: Context) -> int:
        wanted = tokens.peek()
        absent = self.feature and self.feature not in context.features
        if not absent and isinstance(wanted, str) and wanted in self.names and wanted:
            tokens.take()
            return put(self.names.index(wanted), self.low, self.width)
        if absent or "" in self.names:
            return 0 if absent else put(self.names.index(""), self.low, self.width)
        raise DoesNotFit(f"{wanted} is none of {self.names}")


def flag(bit: int, name: str, feature: str = "") -> Choice:
    return Choice(bit, 1, ("", name), feature)


def either(bit: int, zero: str, one: str) -> Choice:
    return Choice(bit, 1, (zero, one))


@dataclass(frozen=True, slots=True)
class Split:
    """A word of text encoded in two fields (``low`` first)."""

    fields: tuple[tuple[int, int], ...]
    names: tuple[str | None, ...]

    def read(self, word: int, context: Context) -> Sequence[Token]:
        value = shift = 0
        for low, width in self.fields:
            value |= bits_of(word, low, width) << shift
            shift += width
        name = self.names[value]
        if name is None:
            raise UndefinedField("an operation")
        return (name,) if name else ()

    def write(self, tokens: Tokens, context: Context) -> int:
        wanted = tokens.take()
        if not isinstance(wanted, str) or wanted not in self.names:
            raise DoesNotFit(str(wanted))
        value, result = self.names.index(wanted), 0
        for low, width in self.fields:
            result |= put(value & ((1 << width) - 1), low, width)
            value >>= width
        return result


@dataclass(frozen=True, slots=True)
class Reg:
    """A general register: ``suffix`` d or q for pairs and quads, ``half`` for halves."""

    low: int
    width: int
    half: bool = False
    suffix: str = ""

    def read(self, word: int, context: Context) -> Sequence[Token]:
        number = bits_of(word, self.low, self.width)
        if self.half:
            return (register(number >> 1, "lh"[number & 1]),)
        return (register(number, self.suffix),)

    def write(self, tokens: Tokens, context: Context) -> int:
        o = tokens.operand(Kind.REGISTER)
        if o.name or o.negate or o.absolute or o.invert:
            raise DoesNotFit("a plain register is wanted")
        if self.half:
            if o.suffix not in ("l", "h"):
                raise DoesNotFit("half of a register is wanted")
            return put(2 * o.index + "lh".index(o.suffix), self.low, self.width)
        if o.suffix != self.suffix:
            raise DoesNotFit("another width of register is wanted")
        return put(o.index, self.low, self.width)


@dataclass(frozen=True, slots=True)
class AddressReg:
    """An address register as an operand."""

    fields: tuple[tuple[int, int], ...]

    def read(self, word: int, context: Context) -> Sequence[Token]:
        value = shift = 0
        for low, width in self.fields:
            value |= bits_of(word, low, width) << shift
            shift += width
        return (address_register(value),)

    def write(self, tokens: Tokens, context: Context) -> int:
        o = tokens.operand(Kind.REGISTER)
        if o.name != "a":
            raise DoesNotFit("an address register is wanted")
        value, result = o.index, 0
        for low, width in self.fields:
            result |= put(value & ((1 << width) - 1), low, width)
            value >>= width
        if value:
            raise DoesNotFit(f"address register {o.index}")
        return result


SHORT_AREG = ((26, 2),)
LONG_AREG = ((26, 2), (34, 1))


@dataclass(frozen=True, slots=True)
class CondReg:
    """A condition register; if ``optional``, bit 38 says whether it is written."""

    low: int
    optional: bool = False

    def read(self, word: int, context: Context) -> Sequence[Token]:
        if self.optional and not word >> 38 & 1:
            return ()
        return (condition_register(bits_of(word, self.low, 2)),)

    def write(self, tokens: Tokens, context: Context) -> int:
        token = tokens.peek()
        if isinstance(token, Operand) and token.kind is Kind.PREDICATE:
            tokens.take()
            return put(token.index, self.low, 2) | (1 << 38 if self.optional or self.low == 36 else 0)
        if self.optional:
            return 0
        raise DoesNotFit("a condition register is wanted")


@dataclass(frozen=True, slots=True)
class FirstCondition:
    """``$c0``, from which short and immediate words take their carry."""

    def read(self, word: int, context: Context) -> Sequence[Token]:
        return (condition_register(0),) if word >> 22 & 1 and word >> 28 & 1 else ()

    def write(self, tokens: Tokens, context: Context) -> int:
        if isinstance(tokens.peek(), Operand) and tokens.operand(Kind.PREDICATE).index:
            raise DoesNotFit("only $c0 fits")
        return 0


@dataclass(frozen=True, slots=True)
class Carry:
    """The condition register of ``addc``, where these bits say that there is one."""

    bits: tuple[int, int]

    def read(self, word: int, context: Context) -> Sequence[Token]:
        if all(word >> bit & 1 for bit in self.bits):
            return (condition_register(bits_of(word, 44, 2)),)
        return ()

    def write(self, tokens: Tokens, context: Context) -> int:
        if tokens.peek() is None:
            return 0
        return put(tokens.operand(Kind.PREDICATE).index, 44, 2)


@dataclass(frozen=True, slots=True)
class Imm:
    """A number; ``pieces`` are (low, width), lowest first; with ``sign`` it is printed as a signed number."""

    pieces: tuple[tuple[int, int], ...]
    sign: bool = False

    @property
    def width(self) -> int:
        return sum(width for _, width in self.pieces)

    def read(self, word: int, context: Context) -> Sequence[Token]:
        value = shift = 0
        for low, width in self.pieces:
            value |= bits_of(word, low, width) << shift
            shift += width
        return (Operand(Kind.IMMEDIATE, value=signed(value, shift) if self.sign else value),)

    def write(self, tokens: Tokens, context: Context) -> int:
        value = tokens.operand(Kind.IMMEDIATE).value
        result = 0
        if self.sign:
            value &= (1 << self.width) - 1
        for low, width in self.pieces:
            result |= put(value & ((1 << width) - 1), low, width)
            value >>= width
        if value:
            raise DoesNotFit("an immediate is too wide")
        return result


@dataclass(frozen=True, slots=True)
class Target:
    """A code address in words of 4 bytes."""

    def read(self, word: int, context: Context) -> Sequence[Token]:
        return (Operand(Kind.LABEL, value=(bits_of(word, 11, 16) | bits_of(word, 46, 6) << 16) * 4),)

    def write(self, tokens: Tokens, context: Context) -> int:
        value = tokens.operand(Kind.LABEL).value >> 2
        return put(value & 0xFFFF, 11, 16) | put(value >> 16, 46, 6)


@dataclass(frozen=True, slots=True)
class Space:
    """A memory operand ``name[$a + offset]``."""

    name: str
    low: int
    width: int
    scale: int
    areg: tuple[tuple[int, int], ...] = ()
    """Fields of the address register; none if the operand has no address register."""
    steps: bool = False
    """Whether bit 25 increments the register by a signed offset."""
    space: tuple[int, int] = ()  # type: ignore[assignment]
    """Field of the space's number."""
    step_sign: bool = True
    type: str = ""
    """Size printed before the operand, such as ``u16``."""

    def operand(self, word: int) -> Operand:
        value = bits_of(word, self.low, self.width) << self.scale
        index = shift = 0
        for low, width in self.areg:
            index |= bits_of(word, low, width) << shift
            shift += width
        stepping = self.steps and bool(word >> 25 & 1)
        if stepping and self.step_sign:
            value = signed(value, self.width + self.scale)
        number = bits_of(word, *self.space) if self.space else 0
        base = address_register(index) if index else None
        kind = Kind.CONSTANT if self.name == "c" else Kind.MEMORY
        return Operand(kind, number, value, base=base, name=self.name, suffix=self.type, reuse=stepping)

    def put(self, o: Operand) -> int:
        if (o.name, o.suffix) != (self.name, self.type) or (o.reuse and not self.steps):
            raise DoesNotFit(f"not {self.type} {self.name}[]")
        if o.value & ((1 << self.scale) - 1):
            raise DoesNotFit(f"{o.value:#x} is not aligned")
        value = o.value >> self.scale
        if o.reuse and self.step_sign:
            value &= (1 << self.width) - 1
        result = put(value, self.low, self.width)
        if o.base is not None and not self.areg:
            raise DoesNotFit("no address register fits")
        index = o.base.index if o.base is not None else 0
        for low, width in self.areg:
            result |= put(index & ((1 << width) - 1), low, width)
            index >>= width
        if index:
            raise DoesNotFit("that address register does not fit")
        if self.space:
            result |= put(o.index, *self.space)
        elif o.index:
            raise DoesNotFit("no number of a space fits")
        return result | (1 << 25 if o.reuse else 0)

    def read(self, word: int, context: Context) -> Sequence[Token]:
        return (self.operand(word),)

    def write(self, tokens: Tokens, context: Context) -> int:
        token = tokens.take()
        if not isinstance(token, Operand) or token.kind not in (Kind.MEMORY, Kind.CONSTANT):
            raise DoesNotFit("memory is wanted")
        return self.put(token)


@dataclass(frozen=True, slots=True)
class Global:
    """``g14[$r5]``: the register holds the complete address."""

    space: int

    def read(self, word: int, context: Context) -> Sequence[Token]:
        base = register(bits_of(word, 9, 7))
        return (Operand(Kind.MEMORY, bits_of(word, self.space, 4), base=base, name="g"),)

    def write(self, tokens: Tokens, context: Context) -> int:
        o = tokens.operand(Kind.MEMORY)
        if o.name != "g" or o.base is None:
            raise DoesNotFit("global memory is wanted")
        return put(o.index, self.space, 4) | put(o.base.index, 9, 7)
