"""Rows of the instruction tables: one instruction in one form, with the fields that all long words share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpwright.isa.nv50.fields import Context, DoesNotFit, Part, Token, Tokens, UndefinedField, bits_of, put
from warpwright.isa.program import Kind, Operand

SHORT, LONG, IMMEDIATE, CONTROL, SHORT_CONTROL = "short", "long", "immediate", "control", "short control"
FIRST_BITS = {SHORT: 0, LONG: 1, IMMEDIATE: 1, CONTROL: 3, SHORT_CONTROL: 2}
TAILS = ("", "exit", "join")
"""Tail by bits 32 and 33 of a long word; 3 makes it an immediate word."""
TESTS: tuple[str | None, ...] = (
    *("never", "l", "e", "le", "g", "lg", "ge", "lge", "u", "lu", "eu", "leu", "gu", "lgu", "geu", ""),
    *("o", "c", "a", "s", None, None, None, None, None, None, None, None, "ns", "na", "nc", "no"),
)
"""Tests of a condition register: ordered relations (l, e, g, with u for unordered) and single flags."""
ALWAYS = 15


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction in one form."""

    opcode: str
    form: str
    where: tuple[tuple[int, int, int], ...]
    """(low bit, width, value) of the fields that select this row."""
    parts: tuple[Part, ...]
    guarded: bool = True
    """For control words: whether the guard's bits hold a guard."""
    stages: tuple[str, ...] = ()
    """Kinds of program that have this instruction; empty for all."""
    feature: str = ""

    @property
    def mask_and_value(self) -> tuple[int, int]:
        mask, value = 3, FIRST_BITS[self.form]
        if self.form == IMMEDIATE:
            mask, value = mask | 3 << 32, value | 3 << 32
        for low, width, wanted in self.where:
            mask |= ((1 << width) - 1) << low
            value |= wanted << low
        return mask, value

    def fits(self, context: Context) -> bool:
        return (not self.stages or context.stage in self.stages) and (
            not self.feature or self.feature in context.features
        )

    @property
    def is_wide(self) -> bool:
        return self.form in (LONG, IMMEDIATE, CONTROL)

    def read(self, word: int, context: Context) -> list[Token]:
        return [token for part in self.parts for token in part.read(word, context)]

    def write(self, tokens: Sequence[Token], context: Context) -> int:
        """Encode the word without guard and tail.

        Raises:
            DoesNotFit: when the row cannot hold these tokens.
        """
        taken = Tokens(tokens)
        _, word = self.mask_and_value
        for part in self.parts:
            word |= part.write(taken, context)
        if taken.peek() is not None:
            raise DoesNotFit(f"{self.opcode} has no place for {taken.peek()}")
        if self.form != LONG and _registers(self.read(word, context)) != _registers(tokens):
            raise DoesNotFit(f"{self.opcode} writes one of its sources in this form")
        return word


def _registers(tokens: Sequence[Token]) -> list[tuple[int, str]]:
    """The registers of an instruction; a short form may name one register for two operands."""
    return [(t.index, t.suffix) for t in tokens if isinstance(t, Operand) and t.kind is Kind.REGISTER]


def read_guard(word: int) -> tuple[str, int] | None:
    """Test and condition register of a guard, or None."""
    test = TESTS[bits_of(word, 39, 5)]
    if test is None:
        raise UndefinedField("the guard's test")
    return (test, bits_of(word, 44, 2)) if test else None


def write_guard(guard: tuple[str, int] | None) -> int:
    if guard is None:
        return ALWAYS << 39
    if guard[0] not in TESTS:
        raise DoesNotFit(f"{guard[0]} is not a test of a condition register")
    return put(TESTS.index(guard[0]), 39, 5) | put(guard[1], 44, 2)


def guard_operand(guard: tuple[str, int]) -> Operand:
    """The guard as a program's instruction holds it: the register and, in ``suffix``, the test."""
    return Operand(Kind.PREDICATE, guard[1], suffix=guard[0])
