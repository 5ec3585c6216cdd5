"""Operands whose encoding depends on several fields: the sources and destinations that most rows share.

Source: envytools' documentation of the Tesla ISA; the tables print what ``envydis`` prints
(``tests/test_nv50_tables.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from warpwright.isa.nv50.fields import (
    LONG_AREG,
    NOWHERE,
    SHORT_AREG,
    Context,
    DoesNotFit,
    Reg,
    Space,
    Token,
    Tokens,
    UndefinedField,
    bits_of,
    put,
    register,
)
from warpwright.isa.program import Kind, Operand

TYPES = ("u8", "u16", "s16", "b32")
SCALES = (0, 1, 1, 2)
BIT_C2, BIT_C3, BIT_SHARED = 23, 24, 53
PROGRAMS_WITH_INPUTS = ("vp", "gp")


def primitive(width: int, areg: tuple[tuple[int, int], ...]) -> Space:
    return Space("p", 9, width, 2, areg)


SHORT_SHARED = tuple(
    Space("s", 9, 4, scale, SHORT_AREG, steps=True, type=t) for t, scale in zip(TYPES, SCALES, strict=True)
)
LONG_SHARED = tuple(
    Space("s", 9, 5, scale, LONG_AREG, steps=True, type=t) for t, scale in zip(TYPES, SCALES, strict=True)
)
SHORT_INPUT, LONG_INPUT = Space("a", 9, 6, 2), Space("a", 9, 7, 2)
SHORT_PRIMITIVE, LONG_PRIMITIVE = primitive(6, SHORT_AREG), primitive(7, LONG_AREG)


@dataclass(frozen=True, slots=True)
class ShortSource:
    """Source 1 of a short (``immediate``: of an immediate) word: a register or shared memory."""

    half: bool = False
    immediate: bool = False

    def read(self, word: int, context: Context) -> Sequence[Token]:
        if not word >> 24 & 1:
            return Reg(9, 6, self.half).read(word, context)
        both = bool(word >> 23 & 1)
        if context.stage == "gp" and (both or self.immediate):
            return (SHORT_PRIMITIVE.operand(word),)
        if context.stage == "cp" and (not both or self.immediate):
            return (SHORT_SHARED[bits_of(word, 13, 2)].operand(word),)
        if context.stage in PROGRAMS_WITH_INPUTS and not both and not self.immediate:
            return (SHORT_INPUT.operand(word),)
        raise UndefinedField("source 1")

    def write(self, tokens: Tokens, context: Context) -> int:
        token = tokens.peek()
        if not isinstance(token, Operand) or token.kind is not Kind.MEMORY:
            return Reg(9, 6, self.half).write(tokens, context)
        tokens.take()
        if token.name == "a" and not self.immediate:
            return SHORT_INPUT.put(token) | 1 << 24
        if token.name == "p":
            return SHORT_PRIMITIVE.put(token) | (1 if self.immediate else 3) << (24 if self.immediate else 23)
        if token.name != "s" or token.suffix not in TYPES:
            raise DoesNotFit("shared memory is wanted")
        kind = TYPES.index(token.suffix)
        return SHORT_SHARED[kind].put(token) | put(kind, 13, 2) | 1 << 24


@dataclass(frozen=True, slots=True)
class ShortConstant:
    """Source 2 of a short word: a register or a constant of c0 or c1."""

    half: bool = False

    @property
    def space(self) -> Space:
        return Space("c", 16, 5, 1 if self.half else 2, SHORT_AREG, steps=True, space=(21, 1))

    def read(self, word: int, context: Context) -> Sequence[Token]:
        if word >> 23 & 3 == 1:
            return (self.space.operand(word),)
        return Reg(16, 6, self.half).read(word, context)

    def write(self, tokens: Tokens, context: Context) -> int:
        token = tokens.peek()
        if isinstance(token, Operand) and token.kind is Kind.CONSTANT:
            tokens.take()
            return self.space.put(token) | 1 << 23
        return Reg(16, 6, self.half).write(tokens, context)


@dataclass(frozen=True, slots=True)
class LongSource:
    """Source 1 of a long word: a register, shared memory, an input or a primitive."""

    half: bool = False

    def read(self, word: int, context: Context) -> Sequence[Token]:
        if word >> 23 & 3 == 3:
            if context.stage != "gp":
                raise UndefinedField("source 1")
            return (LONG_PRIMITIVE.operand(word),)
        if not word >> BIT_SHARED & 1:
            return Reg(9, 7, self.half).read(word, context)
        if context.stage == "cp":
            return (LONG_SHARED[bits_of(word, 14, 2)].operand(word),)
        if context.stage in PROGRAMS_WITH_INPUTS:
            return (LONG_INPUT.operand(word),)
        raise UndefinedField("source 1")

    def write(self, tokens: Tokens, context: Context) -> int:
        token = tokens.peek()
        if not isinstance(token, Operand) or token.kind is not Kind.MEMORY:
            return Reg(9, 7, self.half).write(tokens, context)
        tokens.take()
        if token.name == "a":
            return LONG_INPUT.put(token) | 1 << BIT_SHARED
        if token.name == "p":  # with this bit the other sources are registers
            return LONG_PRIMITIVE.put(token) | 3 << BIT_C2 | 1 << BIT_SHARED
        if token.name != "s" or token.suffix not in TYPES:
            raise DoesNotFit("shared memory is wanted")
        kind = TYPES.index(token.suffix)
        return LONG_SHARED[kind].put(token) | put(kind, 14, 2) | 1 << BIT_SHARED


@dataclass(frozen=True, slots=True)
class LongConstant:
    """Source 2 (``low`` 16) or 3 (``low`` 46) of a long word: a register or a constant."""

    low: int
    half: bool = False

    def _space(self, addressed: bool, steps: bool) -> Space:
        areg = LONG_AREG if addressed else ()
        # Geometry programs print source 3's constants as halves, and use this form for nothing else.
        return Space("c", self.low, 7, 1 if self.half else 2, areg, steps=steps, space=(54, 4))

    @property
    def _bit(self) -> int:
        return BIT_C2 if self.low == 16 else BIT_C3

    def read(self, word: int, context: Context) -> Sequence[Token]:
        which, shared = word >> 23 & 3, word >> BIT_SHARED & 1
        if which == 3 and not shared:
            if context.stage != "gp":
                raise UndefinedField("a constant")
            space = self._space(False, False)
            return ((replace(space, scale=1) if self.low == 46 else space).operand(word),)
        if which != 1 << (self._bit - 23):
            return Reg(self.low, 7, self.half).read(word, context)
        if context.stage == "cp" and shared:
            return (self._space(False, False).operand(word),)
        steps = context.stage != "cp" or self.half or self.low == 46
        return (self._space(True, steps).operand(word),)

    def write(self, tokens: Tokens, context: Context) -> int:
        token = tokens.peek()
        if isinstance(token, Operand) and token.kind is Kind.CONSTANT:
            tokens.take()
            return self._space(True, True).put(token) | 1 << self._bit
        return Reg(self.low, 7, self.half).write(tokens, context)


@dataclass(frozen=True, slots=True)
class Modified:
    """A source with ``neg``, ``abs`` or ``not`` before it, given by bit position; None means that the form has none."""

    source: ShortSource | ShortConstant | LongSource | LongConstant | Reg
    negate: int | None = None
    absolute: int | None = None
    invert: int | None = None

    def read(self, word: int, context: Context) -> Sequence[Token]:
        (o,) = self.source.read(word, context)
        assert isinstance(o, Operand)
        return (
            replace(
                o,
                negate=self.negate is not None and bool(word >> self.negate & 1),
                absolute=self.absolute is not None and bool(word >> self.absolute & 1),
                invert=self.invert is not None and bool(word >> self.invert & 1),
            ),
        )

    def write(self, tokens: Tokens, context: Context) -> int:
        token = tokens.take()
        if not isinstance(token, Operand):
            raise DoesNotFit(token)
        result = 0
        for bit, asked in ((self.negate, token.negate), (self.absolute, token.absolute), (self.invert, token.invert)):
            if asked and bit is None:
                raise DoesNotFit("a modifier of a source")
            if asked and bit is not None:
                result |= 1 << bit
        plain = replace(token, negate=False, absolute=False, invert=False)
        return result | self.source.write(Tokens((plain,)), context)


@dataclass(frozen=True, slots=True)
class LongDestination:
    """A register, an output word ``o[]``, or nothing."""

    half: bool = False

    def read(self, word: int, context: Context) -> Sequence[Token]:
        if not word >> 35 & 1:
            return Reg(2, 7, self.half).read(word, context)
        number = bits_of(word, 2, 7)
        if number == 127:
            return (NOWHERE,)
        return (Operand(Kind.MEMORY, value=number << (1 if self.half else 2), name="o"),)

    def write(self, tokens: Tokens, context: Context) -> int:
        token = tokens.peek()
        if token == NOWHERE:
            tokens.take()
            return put(127, 2, 7) | 1 << 35
        if isinstance(token, Operand) and token.kind is Kind.MEMORY:
            tokens.take()
            if token.name != "o" or token.base is not None:
                raise DoesNotFit("an output is wanted")
            return put(token.value >> (1 if self.half else 2), 2, 7) | 1 << 35
        return Reg(2, 7, self.half).write(tokens, context)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several parts, selected by the value of a field; None is undefined."""

    low: int
    width: int
    parts: tuple[tuple[object, ...] | None, ...]

    def read(self, word: int, context: Context) -> Sequence[Token]:
        chosen = self.parts[bits_of(word, self.low, self.width)]
        if chosen is None:
            raise UndefinedField("a form of an operand")
        return tuple(token for part in chosen for token in part.read(word, context))  # type: ignore[attr-defined]

    def write(self, tokens: Tokens, context: Context) -> int:
        here = tokens.mark()
        for number, chosen in enumerate(self.parts):
            if chosen is None:
                continue
            try:
                result = put(number, self.low, self.width)
                for part in chosen:
                    result |= part.write(tokens, context)  # type: ignore[attr-defined]
                return result
            except DoesNotFit:
                tokens.back_to(here)
        raise DoesNotFit("no form of an operand fits")


@dataclass(frozen=True, slots=True)
class Vector:
    """The registers of a texture instruction, those that are not written as ``#``."""

    low: int
    width: int
    count: tuple[int, int] | None = None
    """Field with the number of registers less one; None means four registers."""
    mask: tuple[tuple[int, int], ...] = ()

    def read(self, word: int, context: Context) -> Sequence[Token]:
        base = bits_of(word, self.low, self.width)
        count = 4 if self.count is None else bits_of(word, *self.count) + 1
        mask, shift = (15, 0) if not self.mask else (0, 0)
        for low, width in self.mask:
            mask |= bits_of(word, low, width) << shift
            shift += width
        found: list[Token] = ["{"]
        for n in range(count):
            if mask >> n & 1:
                found.append(register(base))
                base += 1
            else:
                found.append(NOWHERE)
        return (*found, "}")

    def write(self, tokens: Tokens, context: Context) -> int:
        if tokens.take() != "{":
            raise DoesNotFit("a vector is wanted")
        lanes: list[Operand] = []
        while (token := tokens.take()) != "}":
            if not isinstance(token, Operand):
                raise DoesNotFit(f"{token} is not a register of a vector")
            lanes.append(token)
        mask = sum(1 << n for n, o in enumerate(lanes) if o.kind is Kind.REGISTER)
        first = next((o.index for o in lanes if o.kind is Kind.REGISTER), 0)
        result = put(first, self.low, self.width)
        if self.count is not None:
            result |= put(len(lanes) - 1, *self.count)
        for low, width in self.mask:
            result |= put(mask & ((1 << width) - 1), low, width)
            mask >>= width
        return result
