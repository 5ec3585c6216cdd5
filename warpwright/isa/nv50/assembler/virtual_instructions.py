"""Machine instructions over virtual registers, before encoding.

``tokens`` are those of the tables (``isa.nv50.fields``); a register operand's ``index`` names a virtual register.  A virtual
register has 1, 2 or 4 words; an operand names one word of a wide one by ``value``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from warpwright.isa.nv50.fields import NOWHERE, Token, register
from warpwright.isa.program import Kind, Operand

WITHOUT_RESULT = frozenset(
    ("st_g", "st_l", "st_s", "red_g", "bra", "call", "ret", "joinat", "bar", "trap", "nop", "brkpt", "label")
)
"""Instructions whose first register is a source, or that have none."""
KEPT = WITHOUT_RESULT | {"atomic_g", "mov_to_c"}
"""Instructions with an effect other than writing a register."""
ALLOCATED = frozenset(("shl_to_a", "add_a"))


@dataclass(slots=True)
class Inst:
    """One instruction."""

    opcode: str
    tokens: list[Token]
    guard: tuple[str, int] | None = None
    tail: str = ""
    label: str = ""
    """The name of a ``label``, or the target of a branch."""
    line: tuple[str, int] | None = None

    def registers(self) -> Iterable[tuple[int, Operand]]:
        """Positions and operands of the general registers, including those used as addresses."""
        for n, t in enumerate(self.tokens):
            if not isinstance(t, Operand):
                continue
            if t.kind is Kind.REGISTER and t.name != "a":
                yield n, t
            elif t.kind is Kind.MEMORY and t.name == "g" and t.base is not None:
                yield n, t.base

    @property
    def result(self) -> Operand | None:
        """The register written."""
        if self.opcode in WITHOUT_RESULT or self.opcode in ALLOCATED or self.opcode == "mov_to_c":
            return None
        for t in self.tokens:
            if t == NOWHERE:
                return None
            if isinstance(t, Operand) and t.kind is Kind.REGISTER:
                return t
        return None

    @property
    def sources(self) -> list[Operand]:
        """Registers read, except those that a guarded write keeps."""
        found = [o for _, o in self.registers()]
        return found[1:] if self.result is not None else found

    @property
    def condition_written(self) -> int | None:
        """The condition register written: the first token that is a condition register."""
        first = next((t for t in self.tokens if isinstance(t, Operand)), None)
        return first.index if first is not None and first.kind is Kind.PREDICATE else None

    def conditions_read(self) -> set[int]:
        found = {self.guard[1]} if self.guard is not None else set()
        if "addc" in self.tokens:
            last = self.tokens[-1]
            assert isinstance(last, Operand)
            found.add(last.index)
        return found

    def renamed(self, names: dict[int, int]) -> None:
        """Replace virtual registers by others."""
        for n, o in list(self.registers()):
            if o.index in names:
                self.put(n, replace(o, index=names[o.index]))

    def put(self, n: int, o: Operand) -> None:
        """Replace one register by another."""
        old = self.tokens[n]
        assert isinstance(old, Operand)
        self.tokens[n] = replace(old, base=o) if old.kind is Kind.MEMORY else o


@dataclass(slots=True)
class Code:
    """A kernel's instructions and what they need."""

    instructions: list[Inst] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    """Number of words of virtual registers that have more than one."""
    next_register: int = 0

    def new(self, words: int = 1) -> int:
        number = self.next_register
        self.next_register += 1
        if words > 1:
            self.sizes[number] = words
        return number


def word(number: int, part: int = 0) -> Operand:
    """One word of a virtual register."""
    return Operand(Kind.REGISTER, number, part)


def half(number: int, which: str, part: int = 0) -> Operand:
    return Operand(Kind.REGISTER, number, part, suffix=which)


def wide(number: int, words: int) -> Operand:
    """The whole of a virtual register."""
    return register(number, {1: "", 2: "d", 4: "q"}[words])
