"""Condition registers ``$c0`` to ``$c3`` as predicates.

Each has four flags: zero, sign, carry and overflow.  A guard uses one of 24 tests, of which 12 are the complements of
the others.  Each test that the program reads is a predicate, computed where the register is written, so that a guard
reads one predicate; unused tests cost nothing.  Formulas: envytools' documentation of the Tesla ISA, "Predicates".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from warpwright.isa.nv50.rows import TESTS
from warpwright.isa.ops import Builder, Value
from warpwright.isa.program import Instruction, Kind

Test = tuple[int, str]
"""A condition register and one of the canonical tests."""

FIRST_PREDICATE = 8
"""Predicates beyond those that other machine codes name."""
COMPLEMENTS = {
    **{name: TESTS[15 - n] for n, name in enumerate(TESTS[:16]) if n > 7 and name},
    **{name: TESTS[47 - n] for n, name in enumerate(TESTS) if n > 27 and name},
}
"""Tests that are the complement of a canonical one."""
ZERO, SIGN, CARRY, OVERFLOW = "eu", "s", "c", "o"
"""The tests of a single flag each."""


def canonical(test: str) -> tuple[str, bool]:
    """The canonical test, and whether ``test`` is its complement."""
    found = COMPLEMENTS.get(test)
    return (test, False) if found is None else (found, True)


def predicate(test: Test) -> int:
    """Number of the predicate that holds a canonical test."""
    return FIRST_PREDICATE + 32 * test[0] + TESTS.index(test[1])


def tests_read(instructions: Iterable[Instruction]) -> frozenset[Test]:
    """Canonical tests that the guards and operands of a program read."""
    found: set[Test] = set()
    for i in instructions:
        if i.guard is not None and i.guard.suffix != "never":
            found.add((i.guard.index, canonical(i.guard.suffix)[0]))
        if i.opcode == "mov_from_c":
            found.update((i.operands[-1].index, canonical(t)[0]) for t in (ZERO, SIGN, CARRY, OVERFLOW))
        elif "addc" in i.modifiers and i.operands[-1].kind is Kind.PREDICATE:
            found.add((i.operands[-1].index, CARRY))
    return frozenset(found)


def read(b: Builder, register: int, test: str) -> Value:
    """The value of a test."""
    name, inverted = canonical(test)
    value = b.op("get_pred", "i1", attr=predicate((register, name)))
    return b.not_(value) if inverted else value


class Flags:
    """The four flags of a result; flags that are not given are false."""

    def __init__(
        self, b: Builder, zero: Value, sign: Value, carry: Value | None = None, overflow: Value | None = None
    ) -> None:
        self.b, self.zero, self.sign, self.carry, self.overflow = b, zero, sign, carry, overflow

    def _signed(self, x: Value) -> Value:
        return x if self.overflow is None else self.b.xor(x, self.overflow)

    def test(self, name: str) -> Value:
        """The value of a canonical test."""
        b, z, s = self.b, self.zero, self.sign
        never = b.const(0, "i1")
        rules: dict[str, Callable[[], Value]] = {
            "never": lambda: never,
            "l": lambda: self._signed(b.and_(s, b.not_(z))),
            "e": lambda: b.and_(z, b.not_(s)),
            "le": lambda: b.xor(s, z if self.overflow is None else b.or_(z, self.overflow)),
            "g": lambda: b.and_(b.not_(z), b.not_(self._signed(s))),
            "lg": lambda: b.not_(z),
            "ge": lambda: b.not_(self._signed(s)),
            "lge": lambda: b.not_(b.and_(z, s)),
            "o": lambda: never if self.overflow is None else self.overflow,
            "c": lambda: never if self.carry is None else self.carry,
            "a": lambda: never if self.carry is None else b.and_(b.not_(z), self.carry),
            "s": lambda: s,
        }
        return rules[name]()

    def write(self, register: int, wanted: Iterable[Test]) -> None:
        """Set the predicates of those tests of a register that the program reads."""
        values = {name: self.test(name) for number, name in sorted(wanted) if number == register}
        for name, value in values.items():
            self.b.op("set_pred", "void", value, attr=predicate((register, name)))
