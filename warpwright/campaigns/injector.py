"""Runs a workload with one error after the other, and judges each run against the one without.

An injection chooses a structure in turn, and at random a launch (by its share of all instructions), a block, a word, a bit and a moment; it depends on the
campaign's seed and its own number alone.  The chosen word is one that the launch occupies, so that rates are those of occupied bits.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from warpwright.api import GPU
from warpwright.campaigns.specification import CampaignError, CampaignSpecification, load_program
from warpwright.engine.launch_snapshot import LaunchSnapshot, hindrance
from warpwright.errors import DeadlockError, ExecutionError, WarpwrightError
from warpwright.faults.error_counters import UncorrectableEccError
from warpwright.faults.injection import WORD_BITS, Injection
from warpwright.faults.particles import Exposed, places
from warpwright.faults.secded import code_of
from warpwright.faults.sm_faults import HungError

OUTCOMES = ("masked", "corrected", "sdc", "detected", "crash", "hang")
"""The results are right; right, and a code has corrected something; wrong without a sign; an uncorrectable error was reported; a fault or a trap;
no end."""
HANG_FACTOR = 10
"""Times the instructions, or the host time, of the run without error."""
LEAST_HANG_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Row:
    """One injection and its outcome."""

    number: int
    structure: str
    launch: int
    block: int
    warp: int
    lane: int
    address: int
    bits: str
    instruction: int
    outcome: str
    detail: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """As a flat row."""
        return asdict(self)


class Injector:
    """A workload on its own GPU."""

    def __init__(self, asked: CampaignSpecification) -> None:
        self.asked = asked
        self.gpu = GPU(asked.chip, timing="off")
        self.faults = self.gpu.faults
        self.faults.ecc = asked.ecc
        self.job = load_program(asked.program)(self.gpu)
        if not callable(self.job):
            raise CampaignError(
                f"{asked.program}: prepare(gpu) returns a function that launches, not {type(self.job).__name__}"
            )
        self._memory = LaunchSnapshot(self.gpu.memory)
        began = time.perf_counter()
        self._golden = self._results()
        seconds = time.perf_counter() - began
        self._weights = np.array([run.instructions for run in self.gpu.launches], float)
        if not len(self._weights):
            raise CampaignError(f"{asked.program}: the function that prepare(gpu) returns launches nothing")
        reasons = [hindrance(run.program, self.gpu.memory) for run in self.gpu.launches if run.program is not None]
        if any(reasons):
            raise CampaignError(f"{asked.program}: {next(filter(None, reasons))}")
        self._restore()
        self.faults.hang_seconds = max(LEAST_HANG_SECONDS, HANG_FACTOR * seconds)
        self._profiles: dict[tuple[int, int], list[int]] = {}
        self._chosen: list[Injection] = []

    def _results(self) -> list[bytes]:
        self.gpu.launches.clear()
        found = self.job()
        parts: Sequence[Any] = found if isinstance(found, tuple | list) else (found,)
        return [np.ascontiguousarray(part.get() if hasattr(part, "get") else part).tobytes() for part in parts]

    def _restore(self) -> None:
        with self.faults.quiet():
            self._memory.restore()

    def inject(self, number: int) -> Row:
        """Run the workload with one error."""
        random = np.random.default_rng([self.asked.seed, number])
        structure = self.asked.structures[number % len(self.asked.structures)]
        launch = int(random.choice(len(self._weights), p=self._weights / self._weights.sum()))
        faults = self.faults
        first = faults.launches
        faults.sampler = partial(self._sample, structure=structure, launch=first + launch, place=launch, random=random)
        corrected = faults.log.total("corrected")
        self._chosen = []
        began = time.perf_counter()
        outcome, detail = self._judge()
        seconds = time.perf_counter() - began
        if outcome == "masked" and faults.log.total("corrected") > corrected:
            outcome = "corrected"
        faults.sampler = None
        faults.waiting.clear()
        faults.upsets.clear()
        self._restore()
        if not self._chosen:
            raise CampaignError(
                f"injection {number}: launch {launch} of the workload occurred only in its first run; its launches must not depend on anything"
            )
        (one,) = self._chosen
        place = (one.block, one.warp, one.lane, one.address, "+".join(map(str, one.bits)), one.instruction)
        return Row(number, structure, launch, *place, outcome, detail, round(seconds, 4))

    def _judge(self) -> tuple[str, str]:
        try:
            found = self._results()
        except UncorrectableEccError as error:
            return "detected", error.consumer
        except (HungError, DeadlockError) as error:
            return "hang", str(error).splitlines()[0]
        except ExecutionError as error:
            return "crash", str(error).splitlines()[0]
        except WarpwrightError as error:
            if not self._chosen:
                raise
            return "crash", str(error).splitlines()[0]
        return ("masked" if found == self._golden else "sdc"), ""

    def _sample(
        self, exposed: Exposed, number: int, *, structure: str, launch: int, place: int, random: np.random.Generator
    ) -> list[Injection]:
        """The error of the launch that it is for; nothing for others."""
        if number != launch:
            return []
        code = code_of(WORD_BITS[structure])
        reachable = code.bits if self.asked.ecc else code.data_bits
        first = int(random.integers(reachable - self.asked.bits + 1))
        bits = tuple(range(first, first + self.asked.bits))
        if structure == "shared" and not exposed.words("shared"):
            raise CampaignError(
                f"{self.asked.program}: its launch {place} has no shared memory: leave shared out of the structures"
            )
        known = Exposed(exposed.chip, exposed.context, exposed.resident_blocks, partial(self._profile, exposed, place))
        where = places(structure, known, random, 1)[0]
        profile = self._profiles.get((place, where.block))
        self.faults.instruction_limit = HANG_FACTOR * sum(profile) if profile is not None else None
        self._chosen = [replace(where, bits=bits, launch=launch)]
        return self._chosen

    def _profile(self, exposed: Exposed, place: int, block: int) -> list[int]:
        key = place, block
        if key not in self._profiles:
            self._profiles[key] = exposed.profile(block)
        return self._profiles[key]
