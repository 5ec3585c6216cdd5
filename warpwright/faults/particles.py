"""Draws flips for a launch: by rates per bit (FIT per Mbit), or by a flux of particles that strike cells.

``rate@dram=F,seconds=S``: each launch is exposed for S seconds; F is in failures per 10^9 hours and Mbit.  ``particles@flux=F,hours=H``: F particles
per cm2 and hour for H hours of beam per launch; a strike flips one to four neighbouring cells, which belong to several words where the array
interleaves them (``rates.toml``).  Bits count that the launch occupies: its allocations in DRAM, as much of them as L2 holds, and registers and shared
memory of the blocks that are resident at once.  Draws depend on the seed and the number of the launch alone.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from warpwright.chips import Chip
from warpwright.engine.geometry import launch_shared_bytes
from warpwright.engine.launch import LaunchContext
from warpwright.faults.error_counters import STRUCTURES
from warpwright.faults.injection import MEMORY, WORD_BITS, Exposure, Injection, InjectionError
from warpwright.faults.secded import code_of

tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
HOURS_PER_FIT = 1e9
MBIT = 1 << 20
SECONDS_PER_HOUR = 3600.0
MOST_FLIPS = 1000
"""Of one launch: more is a wrong unit."""
Profile = Callable[[int], list[int]]
"""Instructions of each warp of a block, by the block's number."""


@cache
def strike_model() -> dict[str, Any]:
    """The values of ``rates.toml``, by name."""
    document = tomllib.loads((Path(__file__).parent / "rates.toml").read_text(encoding="utf-8"))
    found = {}
    for name, section in document.items():
        if name != "sources":
            for key, entry in section.items():
                found[key] = next(value for kind, value in entry.items() if kind != "source")
    return found


@dataclass(frozen=True, slots=True)
class Exposed:
    """A launch as particles see it."""

    chip: Chip
    context: LaunchContext
    resident_blocks: int
    profile: Profile

    def words(self, structure: str) -> int:
        """Words of a structure that the launch occupies."""
        geometry, program = self.context.geometry, self.context.program
        resident = min(self.resident_blocks, geometry.blocks)
        used = sum(a.size_bytes for a in self.context.memory if not a.mapped)
        held = {
            "dram": used,
            "l2": min(used, self.chip.l2.l2_kib << 10),
            "registers": resident * geometry.threads_per_block * program.registers * 4,
            "shared": resident * launch_shared_bytes(program, geometry),
        }
        return held[structure] * 8 // WORD_BITS[structure]


def expected_strikes(exposure: Exposure, structure: str, words: int) -> float:
    """How many strikes a structure of so many words meets on average in one launch."""
    bits = words * code_of(WORD_BITS[structure]).bits
    values = exposure.values
    if exposure.kind == "rate":
        hours = values.get("seconds", 0.0) / SECONDS_PER_HOUR
        return values.get(structure, 0.0) * bits / MBIT * hours / HOURS_PER_FIT
    known = strike_model()
    flux = values.get("flux", known["neutrons_per_cm2_hour"])
    return flux * values.get("hours", 0.0) * values.get(f"{structure}_cm2", known[f"{structure}_cm2"]) * bits


def draw(exposure: Exposure, exposed: Exposed, launch: int) -> list[Injection]:
    """The flips of one launch.

    Raises:
        InjectionError: there would be thousands.
    """
    random = np.random.default_rng([exposure.seed, launch])
    found: list[Injection] = []
    for structure in STRUCTURES:
        words = exposed.words(structure)
        mean = expected_strikes(exposure, structure, words)
        if mean > MOST_FLIPS:
            raise InjectionError(
                f"{exposure.kind}@…: {mean:,.0f} flips in {structure} per launch are expected; expose it for a shorter time"
            )
        for _ in range(random.poisson(mean) if words else 0):
            found += _strike(exposure, structure, exposed, launch, random)
    return found


def _strike(
    exposure: Exposure, structure: str, exposed: Exposed, launch: int, random: np.random.Generator
) -> list[Injection]:
    """Flips of one strike: a cell of a random word, and its neighbours."""
    code = code_of(WORD_BITS[structure])
    cells, ways = 1, 1
    if exposure.kind == "particles":
        known = strike_model()
        shares = np.array(known["cells_share"])
        cells, ways = (
            1 + int(random.choice(len(shares), p=shares / shares.sum())),
            int(known["interleaved_words_count"]),
        )
    first = int(random.integers(code.bits * ways))
    flipped: dict[int, list[int]] = {}
    for cell in range(first, min(first + cells, code.bits * ways)):
        flipped.setdefault(cell % ways, []).append(cell // ways)
    around = places(structure, exposed, random, ways)
    return [
        replace(around[word % len(around)], bits=tuple(bits), launch=launch) for word, bits in sorted(flipped.items())
    ]


def places(structure: str, exposed: Exposed, random: np.random.Generator, ways: int) -> list[Injection]:
    """A random word and its neighbours with a random moment, as injections without bits and launch."""
    geometry, program = exposed.context.geometry, exposed.context.program
    made = Injection(structure, (), block=int(random.integers(geometry.blocks)))
    if structure in MEMORY:
        allocations = [a for a in exposed.context.memory if not a.mapped and a.size_bytes >= 8]
        sizes = np.array([a.size_bytes // 8 for a in allocations], float)
        chosen = allocations[int(random.choice(len(allocations), p=sizes / sizes.sum()))]
        words = chosen.size_bytes // 8
        first = int(random.integers(words))
        return [replace(made, address=chosen.address + 8 * ((first + n) % words)) for n in range(ways)]
    counts = exposed.profile(made.block)
    if structure == "shared":
        words = launch_shared_bytes(program, geometry) // 4
        first, moment = int(random.integers(words)), int(random.integers(sum(counts)))
        return [replace(made, address=4 * ((first + n) % words), instruction=moment) for n in range(ways)]
    warp = int(random.integers(len(counts)))
    lane, register = int(random.integers(program.lanes)), int(random.integers(max(program.registers, 1)))
    made = replace(made, address=register, warp=warp, instruction=int(random.integers(counts[warp])))
    return [replace(made, lane=(lane + n) % program.lanes) for n in range(ways)]
