"""Kinds of words in the header: copies of a chip's numbers, what follows from them, and offsets of areas.

A word that is copied names its field of the chip file; a field in nanoseconds becomes cycles, and one in cycles becomes the unit that its
declaration names.  ``reset.py`` computes the size of each area.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpwright.chips.chip import Chip
from warpwright.native.units import Field
from warpwright.timing.dram_rules import BY_NAME

UNITS_OF_CYCLES = {"cycle": 1, "1/64 cycle": 64, "1/256 cycle": 256}


class Derived(Field):
    """A word whose initial value in every launch comes from the chip, the program or the areas."""

    def __init__(self, unit: str, text: str, value: Callable[[Any], int]) -> None:
        super().__init__(unit, text)
        self.value = value


class OfChip(Derived):
    """A word that follows from the chip file alone, the same in every launch on a chip."""

    def __init__(self, unit: str, text: str, of_chip: Callable[[Chip], int]) -> None:
        super().__init__(unit, text, lambda z: of_chip(z.chip))
        self.of_chip = of_chip


def copied(chip: Chip, path: str, unit: str) -> int:
    """A field of a chip's record in the model's unit: ``path`` is ``section.field``, and ``unit`` the unit of the word."""
    section, name = path.split(".")
    value = getattr(getattr(chip, section), name)
    scale: float = UNITS_OF_CYCLES.get(unit, 1)
    if unit == "slice bytes":
        return round(value * chip.l2.l2_slice_bytes_per_clk)
    if name.endswith("_ns"):
        return round(scale * value * (chip.clocks.sm_clock_mhz / 1000.0))
    return int(value) if scale == 1 else round(scale * value)


def from_chip(path: str, unit: str, text: str) -> OfChip:
    """A word that holds a field of the chip file."""
    return OfChip(unit, text, lambda chip: copied(chip, path, unit))


def derived(value: Callable[[Any], int], unit: str, text: str) -> Derived:
    """A word that follows from the sizes of the chip and the program (``reset.py``)."""
    return Derived(unit, text, value)


def rule(name: str) -> OfChip:
    """A word that holds a row of DRAM's timing rules; of a rule over several commands, one command's share."""
    row = BY_NAME[name]
    scale = UNITS_OF_CYCLES[row.unit]

    def value(chip: Chip) -> int:
        latency_ns = chip.get(row.field) / row.commands
        return round(scale * latency_ns * (chip.clocks.sm_clock_mhz / 1000.0))

    return OfChip(row.unit, str(row), value)


def area(name: str, text: str, skip: Callable[[Any], int] | None = None) -> Derived:
    """The first word of an area."""
    return Derived("index", text, lambda z: z.areas[name] + (skip(z) if skip else 0))


def offset(name: str, text: str) -> Derived:
    """Offset, in an SM's region, of a part whose place depends on the chip or the program."""
    return Derived("words", text, lambda z: z.offsets[name])
