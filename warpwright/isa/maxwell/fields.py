"""Bit fields of the 64-bit SASS encodings of sm_50 to sm_62 (Maxwell and Pascal).

The vocabulary is that of :mod:`warpwright.isa.sass.fields`; this module adds what is specific to these encodings.

Layout (documented by CuAssembler's repository and the wiki of maxas; confirmed here by flipping bits and comparing with
NVIDIA's disassembler):

* bits 63 downwards: opcode, of 5 to 16 bits; in the immediate form bit 56 is the immediate's sign;
* bits 0-7 destination, 8-15 source A, 16-18 guard and 19 its complement;
* bits 20-27 source B as a register, 20-38 as an immediate of 19 bits or as a constant (14 bits of offset in words,
  5 bits of bank), 39-46 source C;
* bit 47 writes the condition code.

Every fourth word of a section holds no instruction but the control bits of the three after it (:func:`control`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from warpwright.isa.program import PT, RZ, Control, Kind, Operand
from warpwright.isa.sass.fields import (
    Bits,
    Choice,
    Custom,
    Derived,
    Fixed,
    Form,
    Imm,
    Modifier,
    Named,
    Offset,
    Pred,
    Reg,
    Target,
    UndefinedField,
    When,
    Word,
    at,
    flag,
    signed,
)

WORD_BYTES = 8
BUNDLE_BYTES = 32
"""A control word and its three instructions."""

FORMS = {
    "R": Form(1, "register", "register"),
    "C": Form(2, "constant", "register"),
    "I": Form(3, "immediate", "register"),
    "RC": Form(4, "register 39", "constant"),
    "": Form(0, "", ""),
}
IMMEDIATE_SIGN = 56
PACKED = "packed"


def control(bits: int, reuse_shift: int = 17) -> Control:
    """Control of one instruction, 21 bits: stall 0-3, yield 4 (yields when 0), barriers 5-10, wait mask 11-16, reuse 17-20."""
    return Control(
        stall_cycles=bits & 15,
        yield_flag=not bits >> 4 & 1,
        write_barrier=bits >> 5 & 7,
        read_barrier=bits >> 8 & 7,
        wait_mask=bits >> 11 & 63,
        reuse=bits >> reuse_shift & 15,
    )


class Reader(Protocol):
    """An entry of a row that reads its operands from a word."""

    def read(self, word: int, form: Form) -> tuple[Operand, ...]: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction: for each form, its opcode (the upper 16 bits) and the number of significant bits."""

    opcode: str
    codes: tuple[tuple[str, int, int], ...]
    modifiers: tuple[Modifier, ...] = ()
    operands: tuple[Reader, ...] = ()
    where: tuple[tuple[Bits, int], ...] = ()
    """Further fields that must match to select this row."""
    guarded: bool = True
    first: int = 50
    """The first architecture with this instruction."""

    def encodings(self) -> list[tuple[int, int, Form]]:
        """(mask, value, form) over the whole word, for each form."""
        found = []
        for form, code, bits in self.codes:
            mask = ((1 << bits) - 1) << (64 - bits)
            if form == "I" and bits > 7:
                mask &= ~(1 << IMMEDIATE_SIGN)
            value = code << 48 & mask
            for field, wanted in self.where:
                mask |= field.mask
                value = value & ~field.mask | field.put(wanted)
            found.append((mask, value, FORMS[form]))
        return found


def codes(bits: int, **forms: int) -> tuple[tuple[str, int, int], ...]:
    """The forms of an instruction, for example ``codes(13, R=0x5c10, C=0x4c10, I=0x3810)``."""
    return tuple((form, code, bits) for form, code in forms.items())


def single(code: int, bits: int) -> tuple[tuple[str, int, int], ...]:
    """The row of an instruction with a single form."""
    return (("", code, bits),)


def bit(word: int, position: int | None) -> bool:
    return position is not None and bool(word >> position & 1)


@dataclass(frozen=True, slots=True)
class Src:
    """Source B or C, wherever the form encodes it.  Modifiers are given by bit position; ``None`` means that the form
    has none."""

    which: str = "B"
    negate: int | None = None
    absolute: int | None = None
    invert: int | None = None
    immediate: str = "signed"
    """``signed``, ``unsigned`` (19 bits and sign), ``u16`` (16 bits), ``f32``, ``f64``, ``f16`` (one of two halves
    each)."""
    suffix: Choice | None = None
    packed: bool = False
    """If a part of the constant can be selected, bank and offset are printed with a space between them."""

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        place = form.b if self.which == "B" else form.c
        suffix = "" if self.suffix is None else "".join("." + n for n in self.suffix.read(word, form))
        minus, bars, tilde = bit(word, self.negate), bit(word, self.absolute), bit(word, self.invert)
        if place == "immediate":
            return self._immediate(word, minus, bars, tilde, suffix)
        if place == "constant":
            offset = (word >> 20 & 0x3FFF) * 4
            name = PACKED if self.packed else ""
            return (Operand(Kind.CONSTANT, word >> 34 & 31, offset, minus, bars, tilde, suffix=suffix, name=name),)
        low = 20 if place == "register" and self.which == "B" else 39
        slot = SLOT_B if self.which == "B" else SLOT_C
        return (Operand(Kind.REGISTER, word >> low & 255, slot, minus, bars, tilde, False, suffix),)

    def _immediate(self, word: int, minus: bool, bars: bool, tilde: bool, suffix: str) -> tuple[Operand, ...]:
        low, sign = word >> 20 & 0x7FFFF, word >> IMMEDIATE_SIGN & 1
        marks = (".NEG" if minus else "") + (".ABS" if bars else "") + (".INV" if tilde else "")
        if self.immediate == "f32":
            return (Operand(Kind.FLOAT, value=low << 12 | sign << 31, suffix=marks + suffix, name="f32"),)
        if self.immediate == "f64":
            return (Operand(Kind.FLOAT, value=low << 44 | sign << 63, suffix=marks + suffix, name="f64"),)
        if self.immediate == "u16":
            return (Operand(Kind.IMMEDIATE, value=word >> 20 & 0xFFFF, suffix=marks + suffix),)
        if self.immediate == "u6":
            return (Operand(Kind.IMMEDIATE, value=word >> 20 & 0x3F, suffix=marks + suffix),)
        value = low | (0xFFF80000 if sign else 0)
        name = self.immediate if self.immediate in ("signed", "u20") else ""
        return (Operand(Kind.IMMEDIATE, value=value, suffix=marks + suffix, name=name),)


SLOT_A, SLOT_B, SLOT_C = 1, 2, 3
"""Stored in a register's ``Operand.value`` until :mod:`decode` has read the reuse flags: the operand slot plus one."""


@dataclass(frozen=True, slots=True)
class A:
    """Source A: the register at bit 8."""

    negate: int | None = None
    absolute: int | None = None
    invert: int | None = None
    suffix: Choice | None = None

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        suffix = "" if self.suffix is None else "".join("." + n for n in self.suffix.read(word, form))
        return (
            Operand(
                Kind.REGISTER,
                word >> 8 & 255,
                SLOT_A,
                bit(word, self.negate),
                bit(word, self.absolute),
                bit(word, self.invert),
                False,
                suffix,
            ),
        )


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand: register at bit 8 and a signed displacement."""

    bits: Bits
    scale: int = 1

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        value = signed(self.bits.get(word), self.bits.width) * self.scale
        index = word >> 8 & 255
        base = None if index == RZ and value else Operand(Kind.REGISTER, index)
        return (Operand(Kind.MEMORY, value=value, base=base),)


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition-code test of a control instruction; omitted when it is T."""

    low: int = 0

    def read(self, word: int, form: Form) -> tuple[Operand, ...]:
        value = word >> self.low & 31
        return () if value == 15 else (Operand(Kind.NAME, value, name=f"CC.{CONDITIONS[value]}"),)


CONDITIONS = (
    *("F", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "T"),
    *("OFF", "LO", "SFF", "LS", "HI", "SFT", "HS", "OFT", "CSM_TA", "CSM_TR", "CSM_MX", "FCSM_TA", "FCSM_TR"),
    *("FCSM_MX", "RLE", "RGT"),
)

__all__ = [
    "BUNDLE_BYTES",
    "CONDITIONS",
    "FORMS",
    "PT",
    "WORD_BYTES",
    "A",
    "Address",
    "Choice",
    "Condition",
    "Custom",
    "Derived",
    "Fixed",
    "Imm",
    "Named",
    "Offset",
    "Pred",
    "Reg",
    "Row",
    "Src",
    "Target",
    "UndefinedField",
    "When",
    "Word",
    "at",
    "bit",
    "codes",
    "control",
    "flag",
    "signed",
    "single",
]
