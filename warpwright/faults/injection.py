"""Which bits flip, and when: the text of ``--inject`` and its parts.

Injections are separated by semicolons:

    dram@0x7f0000010000:3                      bit 3 of the 64-bit word at a device address, before the first launch
    dram@x+128:3+17,launch=2,block=40          bits 3 and 17 of the word at byte 128 of the array named x, before block 40 of launch 2
    l2@0x7f0000010000:70                       bits 64 to 71 are those of the code
    registers@R5:31,block=2,warp=1,lane=7,instruction=120     before the warp's instruction 120 (its count from 0)
    shared@0x40:3,block=2,instruction=500      bits of the 32-bit word at a byte offset, before the block's instruction 500
    rate@dram=0.05,registers=0.1,seconds=1e9,seed=1           see ``particles``
    particles@flux=13,hours=1e9,seed=1
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from warpwright.chips.chip import suggest
from warpwright.errors import WarpwrightError
from warpwright.faults.error_counters import STRUCTURES
from warpwright.faults.secded import code_of

WORD_BITS = {"dram": 64, "l2": 64, "registers": 32, "shared": 32}
"""Data bits that one code protects.  DRAM: HBM2's 64 bits with 8 of its own (JESD235); the others are this model's choice."""
MEMORY = ("dram", "l2")


class InjectionError(WarpwrightError, ValueError):
    """An injection that cannot be: says which part of it, and what may stand there."""


@dataclass(frozen=True, slots=True)
class Injection:
    """Flipped bits of one word at one moment."""

    structure: str
    bits: tuple[int, ...]
    """Of the codeword: data first, then the code's own."""
    address: int = 0
    """Device address (DRAM, L2), byte offset (shared memory) or number of a register."""
    array: str = ""
    """Name of the allocation from whose begin ``address`` counts; empty for an absolute address."""
    launch: int = 0
    """Which launch of the device, counted from 0 on."""
    block: int = 0
    """Linear number of the block before which, or in which, it happens."""
    warp: int = 0
    lane: int = 0
    instruction: int = 0
    """Executed warp-instructions before it: of the warp (registers) or of the block (shared memory)."""

    @property
    def pattern(self) -> int:
        """The flipped bits as an integer."""
        return sum(1 << bit for bit in self.bits)

    def __str__(self) -> str:
        """Where and when, as ``--inject`` takes it."""
        where = f"R{self.address}" if self.structure == "registers" else f"{self.address:#x}"
        if self.array:
            where = f"{self.array}+{self.address}"
        return f"{self.structure}@{where}:{'+'.join(map(str, self.bits))},launch={self.launch},block={self.block}"

    def check(self) -> None:
        """Refuse what no chip could have.

        Raises:
            InjectionError: says why.
        """
        bits = code_of(WORD_BITS[self.structure]).bits
        wrong = [bit for bit in self.bits if not 0 <= bit < bits]
        if wrong or not self.bits or len(set(self.bits)) < len(self.bits):
            raise InjectionError(
                f"bits {', '.join(map(str, self.bits))} of {self.structure}: a word has bits 0 to {bits - 1}, each named once"
            )
        if min(self.launch, self.block, self.warp, self.lane, self.instruction, self.address) < 0:
            raise InjectionError(f"{self.structure}: launch, block, warp, lane and instruction count from 0 on")
        if self.lane >= 64:
            raise InjectionError(f"{self.structure}: a warp has no lane {self.lane}")


@dataclass(frozen=True, slots=True)
class Exposure:
    """Flips to be drawn for each launch: by rates, or by a flux of particles (``particles.draw``)."""

    kind: str
    """``rate`` or ``particles``."""
    values: Mapping[str, float]
    seed: int = 0


_KEYS = ("launch", "block", "warp", "lane", "instruction")
_DRAWN = {"rate": (*STRUCTURES, "seconds"), "particles": ("flux", "hours", *(f"{name}_cm2" for name in STRUCTURES))}


def _number(text: str, what: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise InjectionError(f"{what} is a number, not {text!r}") from None


def _pairs(text: str, allowed: tuple[str, ...], whole: str) -> dict[str, str]:
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or key not in allowed:
            raise InjectionError(
                f"{part!r} in {whole!r}: one of {', '.join(f'{key}=' for key in allowed)} is allowed here"
            )
        found[key] = value
    return found


_PLACES = {"dram": "ADDRESS", "l2": "ADDRESS", "registers": "R5", "shared": "OFFSET"}
"""Placeholder or example of the place in messages, by structure."""


def _place(structure: str, text: str) -> tuple[int, str]:
    """Address, and the name of the array that it counts from."""
    if not text:
        raise InjectionError(f"{structure}@ names no place: write {structure}@{_PLACES[structure]}:BIT")
    if structure == "registers":
        match = re.fullmatch(r"[Rr]?(\d+)", text)
        if match is None:
            raise InjectionError(f"registers@{text}: a register is R0 to R254")
        return int(match[1]), ""
    if re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", text):
        return int(text, 0), ""
    if structure == "shared":
        raise InjectionError(f"shared@{text}: a place in shared memory is a byte offset")
    name, _, offset = text.partition("+")
    return (_number(offset, f"the offset in {text!r}") if offset else 0), name


def _drawn(kind: str, rest: str, whole: str) -> Exposure:
    values = _pairs(rest, (*_DRAWN[kind], "seed"), whole)
    seed = _number(values.pop("seed", "0"), "seed")
    numbers = {}
    for key, value in values.items():
        try:
            numbers[key] = float(value)
        except ValueError:
            raise InjectionError(f"{whole!r}: {key} is a number, not {value!r}") from None
    return Exposure(kind, numbers, seed)


def parse_injections(text: str) -> list[Injection | Exposure]:
    """The parts of ``--inject``'s text.

    Raises:
        InjectionError: names the part that is wrong and what may stand there.
    """
    found: list[Injection | Exposure] = []
    for whole in filter(None, (part.strip() for part in text.split(";"))):
        structure, at, rest = whole.partition("@")
        if not at or structure not in (*STRUCTURES, *_DRAWN):
            known = [f"{name}@" for name in (*STRUCTURES, *_DRAWN)]
            raise InjectionError(
                f"{whole!r} must begin with one of {', '.join(known)}{suggest(structure + '@', known)}"
            )
        if structure in _DRAWN:
            found.append(_drawn(structure, rest, whole))
            continue
        head, _, keys = rest.partition(",")
        place, colon, bits = head.rpartition(":")
        if not colon:
            place = head or _PLACES[structure]
            raise InjectionError(
                f"{whole!r} names no bits: write {structure}@{place}:BIT, or {structure}@{place}:BIT+BIT for several bits of a word"
            )
        address, array = _place(structure, place)
        values = {key: _number(value, key) for key, value in _pairs(keys, _KEYS, whole).items()}
        made = Injection(structure, tuple(_number(bit, "a bit") for bit in bits.split("+")), address, array, **values)
        made.check()
        found.append(made)
    if not found:
        raise InjectionError("no injection is named: dram@ADDRESS:BIT, for example")
    return found
