"""The record of one chip: the machine's numbers, each with its unit in its name.

The model's sections are the machine's units (``sections.py``); every name is unique over all sections.  ``chip_files.py`` reads
records from TOML files.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from warpwright import html_tables
from warpwright.chips.kinds import KINDS
from warpwright.chips.sections import (
    L1,
    L2,
    Clocks,
    Cluster,
    ConstantCache,
    Crossbar,
    Dram,
    Engines,
    Graphics,
    Identity,
    InstructionCache,
    Issue,
    Launch,
    Links,
    Mio,
    Pipes,
    Section,
    Shared,
    Sm,
    Texture,
    Transfer,
)
from warpwright.errors import WarpwrightError

GENERATIONS = {"evergreen": 3, "cayman": 4}
"""``Program.arch`` of AMD's chips by their encodings: numbers below those of any compute capability."""


class ChipError(WarpwrightError, ValueError):
    """A chip that does not exist or whose description is wrong; the message says what to change."""


class Chip(BaseModel):
    """One chip.  ``chip.sm.sm_count`` by section, or ``chip.get("sm_count")`` by its unique name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    identity: Identity
    clocks: Clocks
    sm: Sm
    issue: Issue
    pipes: Pipes
    mio: Mio
    instruction_cache: InstructionCache
    constant_cache: ConstantCache
    shared: Shared
    l1: L1
    crossbar: Crossbar
    l2: L2
    dram: Dram
    cluster: Cluster
    launch: Launch
    transfer: Transfer
    links: Links
    texture: Texture = Texture()
    graphics: Graphics = Graphics()
    engines: Engines = Engines()
    sources: Mapping[str, str]
    """Where each number comes from, by its name: ``document: place``."""
    kinds: Mapping[str, str]
    """How each number is known, by its name: a word of ``kinds.KINDS``."""
    documents: Mapping[str, str]
    """The documents that sources begin with."""

    @property
    def arch(self) -> int:
        """Compute capability times ten: 60, 70, 80, 90; of AMD's chips the number of their generation, below 10."""
        if self.identity.generation:
            return GENERATIONS[self.identity.generation]
        major, minor = self.identity.compute_capability.split(".")
        return int(major) * 10 + int(minor)

    @property
    def lanes(self) -> int:
        """Lanes of a warp, or of a wavefront."""
        return 64 if self.identity.generation else 32

    def get(self, field: str) -> Any:
        """The value of a field by its name, whatever its section.

        Raises:
            ChipError: there is no such field.
        """
        section = section_of(self.name, field)
        return getattr(getattr(self, section), field)

    def kind(self, field: str) -> str:
        """How a number is known: ``measured``, ``published``, ``derived``, ``borrowed``, ``fitted``, ``assumed`` or ``set``.

        The product's names (``[identity]``) are ``published``.

        Raises:
            ChipError: there is no such field.
        """
        section_of(self.name, field)
        return self.kinds.get(field, "published")

    def source(self, field: str) -> str:
        """Where a number comes from: ``document: place``; empty for the product's names.

        Raises:
            ChipError: there is no such field.
        """
        section_of(self.name, field)
        return self.sources.get(field, "")

    def __repr__(self) -> str:
        return f"<chip {self.name} ({self.identity.product}), {self.sm.sm_count} SMs>"

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        sm, dram = self.sm, self.dram
        rows = [
            ("product", self.identity.product),
            (
                "architecture",
                ", compute capability ".join(
                    filter(None, (self.identity.architecture, self.identity.compute_capability))
                ),
            ),
            ("SMs", f"{sm.sm_count} at {self.clocks.sm_clock_mhz:,} MHz"),
            ("L2", f"{self.l2.l2_kib / 1024:g} MiB"),
            ("memory", f"{dram.dram_kib / (1 << 20):g} GiB, {dram.dram_gb_per_s:,.0f} GB/s"),
        ]
        return html_tables.table(self.name, rows)


class Row(NamedTuple):
    """One line of ``describe``."""

    section: str
    field: str
    value: str
    source: str
    kind: str


@cache
def sections() -> dict[str, type[Section]]:
    return {
        name: info.annotation
        for name, info in Chip.model_fields.items()
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section)
    }


@cache
def fields() -> dict[str, str]:
    """Section of every field."""
    return {field: section for section, model in sections().items() for field in model.model_fields}


def suggest(word: str, words: list[str]) -> str:
    same = [one for one in words if one.lower() == word.lower()]
    near = same or difflib.get_close_matches(word, words, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(repr(one) for one in near)}?" if near else ""


def section_of(chip: str, field: str) -> str:
    section = fields().get(field)
    if section is None:
        raise ChipError(no_field(chip, field))
    return section


def no_field(chip: str, field: str, place: str = "", section: str = "") -> str:
    return f"chip {chip!r} has no field {field!r}{section}{suggest(field, list(fields()))}{place and f' ({place.strip()})'}"


def describe(chip: Chip) -> list[Row]:
    """Every field of a chip in the order of the record: section, name, value as text, source, kind."""
    return [
        Row(section, field, str(getattr(getattr(chip, section), field)), chip.source(field), chip.kind(field))
        for field, section in fields().items()
        if section == "identity" or field in chip.sources
    ]


def kind_counts(chip: Chip) -> dict[str, int]:
    """How many of a chip's numbers are known in each way, in the order of ``KINDS``, without those of which there are none."""
    counts = {kind: list(chip.kinds.values()).count(kind) for kind in KINDS}
    return {kind: count for kind, count in counts.items() if count}
