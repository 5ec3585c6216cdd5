"""Bit fields of the 128-bit SASS encodings: the vocabulary in which the instruction tables are written.

A row of a table (:class:`Row`) names the opcode bits, then lists modifiers and operands
in printed order.  Every entry is a small reader: given the 128-bit word, it returns part of the record.  No specific
instruction is known here.

Layout shared by all encodings from sm_70 to sm_90 (sources: CuAssembler; NAK; confirmed here by flipping bits and
comparing with NVIDIA's disassembler):

* bits 0–8 opcode, bits 9–11 *form*: which of the sources B and C is a register, an
  immediate, a constant or a uniform register (:data:`FORMS`);
* bits 12–14 guard predicate, bit 15 its complement;
* bits 16–23 destination, 24–31 source A, 32–39 the first and 64–71 the second of B and C;
  an immediate, constant or uniform source always is at bit 32, and the register
  source beside it moves to bit 64;
* bits 105–125 control (see :func:`control`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from warpwright.isa.program import PT, RZ, URZ, Control, Kind, Operand


class UndefinedField(Exception):
    """A field holds a value that has no meaning; ``decode`` adds chip, address and word."""


@dataclass(frozen=True, slots=True)
class Bits:
    """A field of one or more pieces, least significant first: ``((low bit, width), …)``."""

    pieces: tuple[tuple[int, int], ...]

    def get(self, word: int) -> int:
        value = shift = 0
        for low, width in self.pieces:
            value |= (word >> low & ((1 << width) - 1)) << shift
            shift += width
        return value

    @property
    def width(self) -> int:
        return sum(width for _, width in self.pieces)

    @property
    def mask(self) -> int:
        """The bits of the word that the field covers."""
        return sum(((1 << width) - 1) << low for low, width in self.pieces)

    def put(self, value: int) -> int:
        """A word with ``value`` in this field and zero elsewhere."""
        word = 0
        for low, width in self.pieces:
            word |= (value & ((1 << width) - 1)) << low
            value >>= width
        return word


def at(*numbers: int) -> Bits:
    """The field with these pieces: ``at(low, width, low, width, …)``."""
    return Bits(tuple(zip(numbers[::2], numbers[1::2], strict=True)))


def signed(value: int, width: int) -> int:
    """Two's complement of ``width`` bits as a Python integer."""
    return value - (1 << width) if value >> (width - 1) & 1 else value


def control(word: int) -> Control:
    """Control bits: stall 105–108, yield 109 (yields when 0), barriers 110–115, wait mask 116–121, reuse 122–125."""
    bits = word >> 105
    return Control(
        stall_cycles=bits & 15,
        yield_flag=not bits >> 4 & 1,
        write_barrier=bits >> 5 & 7,
        read_barrier=bits >> 8 & 7,
        wait_mask=bits >> 11 & 63,
        reuse=bits >> 17 & 15,
    )


# --- forms ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Form:
    """Where a form encodes the sources B and C."""

    number: int
    b: str
    c: str

    @property
    def uniform(self) -> bool:
        return "uniform" in (self.b, self.c)

    @property
    def constant(self) -> bool:
        return "constant" in (self.b, self.c)


FORMS = {
    1: Form(1, "register 32", "register 64"),
    2: Form(2, "register 64", "immediate"),
    3: Form(3, "register 64", "constant"),
    4: Form(4, "immediate", "register 64"),
    5: Form(5, "constant", "register 64"),
    6: Form(6, "uniform", "register 64"),
    7: Form(7, "register 64", "uniform"),
}
B_FORMS = (1, 4, 5, 6)
"""Forms of instructions without a C source, or whose C is always a register."""
C_FORMS = (1, 2, 3, 7)
"""Forms of instructions without a B source: C takes its position."""
ALL_FORMS = (1, 2, 3, 4, 5, 6, 7)
NO_FORM = Form(0, "", "")


# --- modifiers ------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Choice:
    """A modifier: the field's value selects a name.  ``""`` prints nothing, ``None`` is undefined."""

    bits: Bits
    names: tuple[str | None, ...]

    def read(self, word: int, form: Form) -> tuple[str, ...]:
        value = self.bits.get(word)
        name = self.names[value] if value < len(self.names) else None
        if name is None:
            low, width = self.bits.pieces[0]
            raise UndefinedField(f"value {value} of the modifier field at bits {low}-{low + width - 1} is undefined")
        return tuple(name.split(".")) if name else ()


def flag(bit: int, name: str, otherwise: str = "") -> Choice:
    """A one-bit modifier."""
    return Choice(at(bit, 1), (otherwise, name))


@dataclass(frozen=True, slots=True)
class Fixed:
    """A modifier that the row always has."""

    name: str

    def read(self, word: int, form: Form) -> tuple[str, ...]:
        return tuple(self.name.split("."))


@dataclass(frozen=True, slots=True)
class Derived:
    """A modifier that depends on several fields: ``rule(word, form)`` gives its name."""

    rule: Callable[[int, Form], str]

    def read(self, word: int, form: Form) -> tuple[str, ...]:
        name = self.rule(word, form)
        return tuple(name.split(".")) if name else ()


Modifier = Choice | Fixed | Derived


# --- operands -------------------------------------------------------------------------------------
REUSE_A, REUSE_B, REUSE_C = 122, 123, 124


@dataclass(frozen=True, slots=True)
class Reg:
    """A register (``uniform``: of the uniform file).  Modifiers are given by bit position; ``None`` means that there is
    none."""

    low: int
    negate: int | None = None
    absolute: int | None = None
    invert: int | None = None
    reuse: int | None = None
    suffix: Choice | str = ""
    uniform: bool = False
    optional: bool = False
    """Omitted from text and record if it is RZ."""

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        width, zero = (6, URZ) if self.uniform else (8, RZ)
        index = word >> self.low & ((1 << width) - 1)
        if self.optional and index == zero:
            return ()
        suffix = self.suffix
        if not isinstance(suffix, str):
            names = suffix.read(word, form)
            suffix = "." + ".".join(names) if names else ""
        return (
            Operand(
                Kind.UNIFORM_REGISTER if self.uniform else Kind.REGISTER,
                index,
                negate=_bit(word, self.negate),
                absolute=_bit(word, self.absolute),
                invert=_bit(word, self.invert),
                reuse=_bit(word, self.reuse),
                suffix=suffix,
            ),
        )


def _bit(word: int, position: int | None) -> bool:
    return position is not None and bool(word >> position & 1)


@dataclass(frozen=True, slots=True)
class Pred:
    """A predicate of three bits, ``invert`` the position of its complement bit."""

    low: int
    invert: int | None = None
    uniform: bool = False
    optional: bool = False
    """Omitted from text and record if it is PT (as a source: true; as a destination: discarded)."""

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        index = word >> self.low & 7
        invert = _bit(word, self.invert)
        if self.optional and index == PT and not invert:
            return ()
        return (Operand(Kind.UNIFORM_PREDICATE if self.uniform else Kind.PREDICATE, index, invert=invert),)


@dataclass(frozen=True, slots=True)
class Imm:
    """An immediate.  ``value`` holds the encoded bits; ``name`` is ``signed`` when it is printed with its sign."""

    bits: Bits
    is_signed: bool = False
    scale: int = 1
    optional: bool = False
    """Omitted from text and record if it is zero."""

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        value = self.bits.get(word) * self.scale
        if self.optional and not value:
            return ()
        if self.is_signed and self.bits.width < 32:
            value = signed(value, self.bits.width) & 0xFFFFFFFF
        return (Operand(Kind.IMMEDIATE, value=value, name="signed" if self.is_signed else ""),)


def constant_operand(word: int, negate: bool = False, absolute: bool = False, invert: bool = False) -> Operand:
    """``c[bank][offset]`` of an arithmetic source, or ``cx[UR][offset]`` when bit 91 is set."""
    offset = (word >> 40 & 0x3FFF) * 4
    if word >> 91 & 1:
        handle = Operand(Kind.UNIFORM_REGISTER, word >> 32 & 63)
        return Operand(Kind.CONSTANT, 0, offset, negate, absolute, invert, uniform=handle)
    return Operand(Kind.CONSTANT, word >> 54 & 31, offset, negate, absolute, invert)


@dataclass(frozen=True, slots=True)
class Slot:
    """The source B or C: register, immediate, constant or uniform register, as the form says.

    ``marks`` lists the modifiers that the instruction supports: ``-`` negate, ``|`` absolute, ``~`` complement. Their
    bits depend on the position: 63, 62 at bit 32; 75, 74 at bit 64 (84, 83 for packed halves).
    """

    which: str
    marks: str = ""
    immediate: str = "int"
    """``int``, ``signed``, ``f32``, ``f64`` (the upper word), ``f16`` or ``bf16`` (two halves), ``half`` (one ``f16``)."""
    halves: bool = False
    """Packed halves: the position includes a swizzle (60–61 or 81–82)."""
    swizzle: bool = True
    conjugate: bool = False
    """Bit 86 negates the upper half of this source (``.H0_NH1``, from sm_86 on)."""
    low_register: bool = False
    """A C source that is at bit 32 in form 1 (instructions without B)."""
    suffix: Choice | None = None
    """The part of the source that is read."""

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        place = form.b if self.which == "B" else form.c
        if self.low_register and form.number == 1:
            place = "register 32"
        if place == "immediate":
            return self._immediate(word)
        negate, absolute = (63, 62) if place != "register 64" else (84, 83) if self.halves else (75, 74)
        flip = bool(word >> negate & 1)
        minus = "-" in self.marks and flip
        bars = "|" in self.marks and bool(word >> absolute & 1)
        tilde = "~" in self.marks and flip
        suffix = ""
        if self.halves and self.swizzle:
            part = word >> (81 if place == "register 64" else 60) & 3
            suffix = HALVES[part]
            if self.conjugate and word >> 86 & 1:
                if part:
                    raise UndefinedField("a swizzled source cannot also have its upper half negated (bit 86)")
                suffix = ".H0_NH1"
        elif self.suffix is not None:
            suffix = "".join("." + name for name in self.suffix.read(word, form))
        if place == "constant":
            operand = constant_operand(word, minus, bars, tilde)
            packed = (self.halves and self.swizzle) or self.suffix is not None
            return (replace(operand, suffix=suffix, name=PACKED),) if packed else (operand,)
        if place == "uniform":
            return (Operand(Kind.UNIFORM_REGISTER, word >> 32 & 63, 0, minus, bars, tilde, False, suffix),)
        low = 64 if place == "register 64" else 32
        reuse = bool(word >> (REUSE_B if self.which == "B" else REUSE_C) & 1)
        return (Operand(Kind.REGISTER, word >> low & 255, 0, minus, bars, tilde, reuse, suffix),)

    def _immediate(self, word: int) -> tuple[Operand, ...]:
        bits = word >> 32 & 0xFFFFFFFF
        if self.immediate in ("f16", "bf16"):
            name = self.immediate
            return (
                Operand(Kind.FLOAT, value=bits >> 16, name=name),
                Operand(Kind.FLOAT, value=bits & 0xFFFF, name=name),
            )
        if self.immediate == "half":
            return (Operand(Kind.FLOAT, value=bits & 0xFFFF, name="f16"),)
        if self.immediate == "f64":
            return (Operand(Kind.FLOAT, value=bits << 32, name="f64"),)
        if self.immediate == "f32":
            return (Operand(Kind.FLOAT, value=bits, name="f32"),)
        return (Operand(Kind.IMMEDIATE, value=bits, name="signed" if self.immediate == "signed" else ""),)


PACKED = "packed"
"""Name of a constant operand of which a part may be selected (printed with a space: ``c[0x0] [0x170]``)."""
HALVES = ("", ".F32", ".H0_H0", ".H1_H1")
"""Swizzle of a packed-half source: both halves in order, one half twice."""


@dataclass(frozen=True, slots=True)
class Word:
    """A bare word that the row always prints (``PR``)."""

    name: str

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        return (Operand(Kind.NAME, name=self.name),)


@dataclass(frozen=True, slots=True)
class Named:
    """An operand whose field selects a printed word: ``kind`` is NAME, SPECIAL, BARRIER or SCOREBOARD."""

    bits: Bits
    names: tuple[str | None, ...]
    kind: Kind = Kind.NAME

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        value = self.bits.get(word)
        name = self.names[value] if value < len(self.names) else None
        if name is None:
            raise UndefinedField(f"value {value} of the operand field at bit {self.bits.pieces[0][0]} is undefined")
        return (Operand(self.kind, value, name=name),)


@dataclass(frozen=True, slots=True)
class Target:
    """A code address: ``bits`` hold a displacement (in units of ``scale`` bytes) from the next instruction.

    ``relative`` targets become the absolute byte offset within the section when decoded; the reader
    returns the displacement and marks the operand ``next`` for :mod:`decode` to finish.
    """

    bits: Bits
    scale: int = 1
    relative: bool = True

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        value = signed(self.bits.get(word), self.bits.width) * self.scale
        return (Operand(Kind.LABEL, value=value, name=NEXT if self.relative else ""),)


NEXT = "+next"
"""Name of a label operand whose value is still relative to the next instruction."""


@dataclass(frozen=True, slots=True)
class Offset:
    """A signed displacement printed after a register without a comma (BRX, JMX, RET, CALL): name ``offset``."""

    bits: Bits
    scale: int = 1
    optional: bool = False

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        value = signed(self.bits.get(word), self.bits.width) * self.scale
        if self.optional and not value:
            return ()
        return (Operand(Kind.IMMEDIATE, value=value, name="offset"),)


@dataclass(frozen=True, slots=True)
class When:
    """An operand that is present only if ``bits`` hold one of ``values``."""

    bits: Bits
    values: tuple[int, ...]
    entry: Source

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        return self.entry.read(word, form) if self.bits.get(word) in self.values else ()


@dataclass(frozen=True, slots=True)
class Custom:
    """Any other operand: ``rule(word, form)`` gives the operands."""

    rule: Callable[[int, Form], tuple[Operand, ...]]

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        return self.rule(word, form)


Source = Reg | Pred | Imm | Slot | Word | Named | Target | Offset | Custom


def reg_a(marks: str = "", **more: Choice | str) -> Reg:
    """The source A at bit 24: negate 72, absolute 73."""
    suffix = more.get("suffix", "")
    return Reg(
        24,
        negate=72 if "-" in marks else None,
        absolute=73 if "|" in marks else None,
        invert=72 if "~" in marks else None,
        reuse=REUSE_A,
        suffix=suffix,
    )


# --- rows -----------------------------------------------------------------------------------------
FIRST_ARCH, LAST_ARCH = 70, 90


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction: all forms that share its fields."""

    opcode: str
    code: int
    """Nine bits if ``forms`` are given, otherwise twelve bits."""
    forms: tuple[int, ...] = ()
    modifiers: tuple[Modifier, ...] = ()
    operands: tuple[Source | When, ...] = ()
    where: tuple[tuple[Bits, int], ...] = ()
    """Further fields that distinguish this row from others with the same opcode bits."""
    first: int = FIRST_ARCH
    last: int = LAST_ARCH
    uniform: bool = False
    """Guarded by a uniform predicate."""

    def encodings(self) -> list[tuple[int, Form]]:
        """Twelve-bit opcodes and their forms."""
        if not self.forms:
            return [(self.code, NO_FORM)]
        return [(number << 9 | self.code, FORMS[number]) for number in self.forms]

    def conditions(self, form: Form) -> tuple[int, int]:
        """Mask and value that a word must match beyond its opcode bits."""
        mask = value = 0
        if form.number and not form.constant and not self.uniform:
            mask, value = 1 << 91, int(form.uniform) << 91
        for bits, wanted in self.where:
            mask |= bits.mask
            value = value & ~bits.mask | bits.put(wanted)
        return mask, value
