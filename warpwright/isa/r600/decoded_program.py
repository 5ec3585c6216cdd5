"""Decoded programs of Cypress and Cayman."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpwright.isa.r600.fields import Layout
from warpwright.isa.r600.tables_alu import AluOperation
from warpwright.isa.r600.tables_control import ControlOperation
from warpwright.isa.r600.tables_fetch import FetchOperation

LITERAL = 253
"""``sel`` of a source that is one of the bundle's literals, by channel."""


@dataclass(frozen=True, slots=True)
class Word:
    """The bits of one word."""

    address: int
    """Address in units of 64 bits, as the code itself counts."""
    layout: Layout
    fields: Mapping[str, int]

    @property
    def encoding(self) -> int:
        return self.layout.write(self.fields)


@dataclass(frozen=True, slots=True)
class Source:
    """A source of an ALU word."""

    select: int
    channel: int
    relative: bool
    negate: bool
    absolute: bool


@dataclass(frozen=True, slots=True)
class AluWord(Word):
    """An operation in one slot of a bundle."""

    operation: AluOperation
    slot: str
    """x | y | z | w | t"""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that the operation has."""
        f = self.fields
        return tuple(
            Source(
                f[f"src{i}_sel"],
                f[f"src{i}_chan"],
                bool(f[f"src{i}_rel"]),
                bool(f.get(f"src{i}_neg", 0)),
                bool(f.get(f"src{i}_abs", 0)),
            )
            for i in range(self.operation.source_count)
        )

    @property
    def writes(self) -> bool:
        """Whether the result is written to the destination register; PV and PS always receive it."""
        return "dst_gpr" in self.fields and bool(self.fields.get("write_mask", 1))

    @property
    def lds_offset(self) -> int:
        """The six offset bits of a local data share access, which are scattered over its word."""
        return sum(self.fields.get(f"idx_offset_{i}", 0) << i for i in range(6))


@dataclass(frozen=True, slots=True)
class Bundle:
    """Operations that execute together: all read their sources before any writes."""

    address: int
    words: tuple[AluWord, ...]
    literals: tuple[int, ...]
    """Two or four 32-bit values after the operations, or none."""


@dataclass(frozen=True, slots=True)
class FetchWord(Word):
    """A load, a texture fetch or an access to global data share."""

    operation: FetchOperation


@dataclass(frozen=True, slots=True)
class Clause:
    """The words that a control-flow word executes: bundles or fetches, never both."""

    address: int
    end: int
    bundles: tuple[Bundle, ...] = ()
    fetches: tuple[FetchWord, ...] = ()


@dataclass(frozen=True, slots=True)
class ControlWord(Word):
    """A control-flow word."""

    operation: ControlOperation
    rat_operation: str = ""
    """Operation of a word on a random access target."""

    @property
    def ends_program(self) -> bool:
        return bool(self.fields.get("end_of_program", 0)) or self.operation.name == "CF_END"


@dataclass(frozen=True, slots=True)
class Listing:
    """A complete program."""

    generation: str
    control: tuple[ControlWord, ...]
    clauses: Mapping[int, Clause]
    """Clauses by address, in ascending order."""
