"""Words as named bit fields that can be read and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


class UndefinedWord(ValueError):
    """A word that is not an instruction of the chip, or that is not allowed at its place in the program."""


@dataclass(frozen=True)
class Layout:
    """The fields of a word of several 32-bit parts; bits outside all fields are reserved and zero.

    Args:
        name: the word's name in AMD's manuals.
        parts: for each 32-bit part, its fields as (lowest bit, highest bit) by name.
    """

    name: str
    parts: tuple[Mapping[str, tuple[int, int]], ...]

    @cached_property
    def places(self) -> tuple[tuple[str, int, int], ...]:
        """Name, lowest bit in the whole word and mask of each field."""
        return tuple(
            (name, 32 * part + low, (1 << high - low + 1) - 1)
            for part, fields in enumerate(self.parts)
            for name, (low, high) in fields.items()
        )

    @cached_property
    def reserved(self) -> int:
        """Mask of the bits that are zero in every word."""
        used = sum(mask << low for _, low, mask in self.places)
        return ((1 << 32 * len(self.parts)) - 1) & ~used

    def read(self, word: int) -> dict[str, int]:
        """The fields of a word.

        Raises:
            UndefinedWord: when a reserved bit is set.
        """
        if wrong := word & self.reserved:
            raise UndefinedWord(f"reserved bit {(wrong & -wrong).bit_length() - 1} of {self.name} is set")
        return {name: word >> low & mask for name, low, mask in self.places}

    def write(self, fields: Mapping[str, int]) -> int:
        """The word with these field values; fields that are not named are zero.

        Raises:
            UndefinedWord: for an unknown field, or a value too wide for its field.
        """
        word, left = 0, dict(fields)
        for name, low, mask in self.places:
            value = left.pop(name, 0)
            if value & ~mask:
                raise UndefinedWord(f"{value:#x} does not fit in {name} of {self.name}")
            word |= value << low
        if left:
            raise UndefinedWord(f"{self.name} has no field {', '.join(left)}")
        return word
