"""Compares a run with runs of the same launches on chips with one resource relieved, and ranks the resources by what each saves.

A launch changes its arrays, so it can't simply be repeated: the caller hands over a function that makes its arrays and
launches on a GPU that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from warpwright.chips import Chip, ChipError, load_chip
from warpwright.errors import LaunchError, UnsupportedError
from warpwright.isa.machine_code import FIRST_MAXWELL
from warpwright.quantity_text import share_text
from warpwright.timing.bounds import ATOMICS
from warpwright.timing.metrics import BINDING_SHARE
from warpwright.tools.report.attribution import IDLE_SHARE, Attribution, attribute, sm_count
from warpwright.tools.report.resources import (
    BALANCE,
    BOUNDS,
    DRAM_LATENCY,
    L1_LATENCY,
    L2_LATENCY,
    LAST_WAVE,
    LAUNCH,
    MEANINGS,
    STALLS,
    WARPS_ATOMICS,
    Resource,
)

if TYPE_CHECKING:
    from warpwright.api import GPU
    from warpwright.run import Run
    from warpwright.tools.checks import Finding


class RepeatFailedError(Exception):
    """A program failed when it was run again; the message is a clause that says where and how: ``x.py:17: AssertionError``."""


Program = Callable[["GPU"], object]
"""Makes its arrays and launches on the GPU that it is given."""

ISSUE = BOUNDS["instruction issue"]
LEAST_WAIT = 0.02
"""Share of warps' time from which on a wait is worth a run with its resource relieved."""
LEAST_BOUND = 0.25
"""Share of the cycles after launch from which on a unit's throughput is worth one."""
MOST_RELIEVED = 10
"""Resources that are tried for a launch: those with the most evidence."""
MOST_CHIPS = 16
"""Changed chips that are timed for all launches together."""
MOST_RANKED = 4
"""Kernels whose longest launch is ranked."""
NOTABLE_KERNEL = 0.05
"""Smallest share of the simulated time for which a kernel is ranked."""
NOTABLE_IDLE = 0.2
"""Share of the SMs' time without a block that is named."""
NOT_COMPARED = "Not compared: "
"""Begins the sentence about runs in which the program made other launches."""
WORTH_NAMING = 0.005
"""Share of the cycles that a relieved resource has to save to be called a limit."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Cycles of the same launches, as they are and with part of the chip changed."""

    change: str
    """What was changed, in words: ``twice the DRAM bandwidth``."""
    overrides: Mapping[str, Any]
    """The chip's fields with their new values."""
    before: tuple[int, ...]
    """Cycles of each launch on the chip as it is."""
    after: tuple[int, ...]
    """Cycles of each launch on the changed chip; 0 for one that has no partner there, which is not ranked by this change."""

    def saved(self, launch: int) -> float:
        """Share of a launch's cycles that the change saves; negative when it costs cycles."""
        return 1.0 - self.after[launch] / self.before[launch]

    def sentence(self, launch: int = 0) -> str:
        """``With twice the DRAM bandwidth it takes 4,100 cycles instead of 5,134 (20% less).``"""
        saved = self.saved(launch)
        amount = f"{share_text(abs(saved))} {'less' if saved >= 0 else 'more'}"
        if abs(saved) < 0.005:
            amount = "no difference"
        return (
            f"With {self.change} it takes {self.after[launch]:,} cycles instead of {self.before[launch]:,} ({amount})."
        )


@dataclass(frozen=True, slots=True)
class Relief:
    """One resource, and the launches with it relieved."""

    resource: Resource
    what_if: WhatIf


@dataclass(frozen=True, slots=True)
class Fixed:
    """A resource that is no number of the chip: the issue of instructions, stall counts of the machine code, blocks of unequal work."""

    resource: Resource
    share: float
    """Of the launch, 0 to 1; a launch with half of it needed would be up to half of this share shorter."""
    because: str
    """The evidence, as a clause."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What relieving each resource saves one launch; the largest saving first."""

    kernel: str
    launch: int
    """Index of the launch in each :class:`WhatIf`."""
    reliefs: tuple[Relief, ...]
    idle: str
    """``44 of 108 SMs got no block``; empty when all SMs were busy."""
    fixed: Fixed | None = None
    """What no number of the chip relieves, if it may be the limit."""
    accesses: tuple[str, ...] = ()
    """What perfcheck found in the kernel: ``32 wavefronts a request where 1 would do, matmul.py:14``."""
    left_out: tuple[str, ...] = ()
    """Sentences about runs that are missing because the program failed in them or made other launches."""

    @property
    def best(self) -> Relief | None:
        """The resource whose relief saves most; None when no relief saves anything."""
        return self.reliefs[0] if self.reliefs and self._saved(0) >= WORTH_NAMING else None

    def _saved(self, n: int) -> float:
        return self.reliefs[n].what_if.saved(self.launch)

    @property
    def headline(self) -> str:
        """What limits the launch, with the two largest savings, idle SMs and the costliest accesses."""
        parts = [self._limits()]
        if self.idle:
            parts.append(f"{self.idle}.")
        parts += [f"{one[0].upper()}{one[1:]}." for one in self.accesses[:2]]
        limit = self.limit
        if limit is not None:
            parts.append(f"What would help: {limit.advice}.")
        return " ".join(parts)

    @property
    def limit(self) -> Resource | None:
        """What limits the launch: the relief that saves most, or what cannot be relieved, if half of it is more than that."""
        if self._is_fixed():
            assert self.fixed is not None
            return self.fixed.resource
        return self.best.resource if self.best is not None else None

    def _is_fixed(self) -> bool:
        return self.fixed is not None and self.fixed.share / 2 > (self._saved(0) if self.reliefs else 0.0)

    def _limits(self) -> str:
        best = self.best
        if self.fixed is not None and self._is_fixed():
            return f"Limited by {self.fixed.resource.title}: {self.fixed.because}{self._beside(0)}."
        if not self.reliefs and self.left_out:
            differ = any(sentence.startswith(NOT_COMPARED) for sentence in self.left_out)
            end = "can be compared" if differ else "succeeded"
            return f"The limit of {self.kernel} was not found: no run with a resource relieved {end}."
        if best is None:
            tried = ", ".join(relief.what_if.change for relief in self.reliefs)
            return f"No single resource limits {self.kernel}: {tried or 'nothing to relieve'} saves less than 1%."
        first = (
            f"Limited by {best.resource.title}: {best.what_if.change} saves {share_text(self._saved(0))} of the cycles"
        )
        return f"{first}{self._beside(1)}."

    def _beside(self, n: int) -> str:
        """The saving of the n-th relief, as a further clause."""
        if len(self.reliefs) <= n:
            return ""
        if self._saved(n) < WORTH_NAMING:
            return f"; none of {len(self.reliefs) - n} other changes saves 1%"
        return f"; {self.reliefs[n].what_if.change} saves {share_text(self._saved(n))}"


def launches(program: Program, gpu: GPU) -> list[Run]:
    """What a program launches on a GPU.

    Raises:
        LaunchError: nothing.
    """
    program(gpu)
    if not gpu.launches:
        raise LaunchError(
            "a what-if needs a function that launches on the GPU that it is given; this one launched nothing"
        )
    return gpu.launches


def compare(before: Sequence[Run], after: Sequence[Run], change: str, overrides: Mapping[str, Any]) -> WhatIf:
    """Two runs of the same launches as one record.

    Raises:
        LaunchError: the launches are not the same.
    """
    if [(r.kernel, r.grid, r.block) for r in before] != [(r.kernel, r.grid, r.block) for r in after]:
        raise LaunchError("a what-if compares the same launches, but the program launched others on the changed chip")
    return WhatIf(change, dict(overrides), tuple(r.cycles for r in before), tuple(r.cycles for r in after))


def _partners(before: Sequence[Run], after: Sequence[Run]) -> list[Run | None]:
    """For each launch, the same one in another run of the program: that of the same kernel, grid and block with the same number among them, if both runs made equally many."""
    sides: list[dict[Any, list[Run]]] = [{}, {}]
    for side, runs in zip(sides, (before, after), strict=True):
        for run in runs:
            side.setdefault((run.kernel, run.grid, run.block), []).append(run)
    found = {
        id(run): partner
        for key, runs in sides[0].items()
        if len(runs) == len(sides[1].get(key, ()))
        for run, partner in zip(runs, sides[1][key], strict=True)
    }
    return [found.get(id(run)) for run in before]


# --- which resources are tried ------------------------------------------------------------------------------------------


def candidates(run: Run) -> list[Resource]:
    """The resources whose relief may shorten a launch; the one with the most evidence first.

    Only resources that the launch waits for, or whose lower bound is near its time, can shorten it; the runs show which of them does.
    """
    chip = run.device
    assert chip is not None
    a = attribute(run)
    weights: dict[str, float] = {}
    found: dict[str, Resource] = {}
    for resource, weight in _evidence(run, a):
        found[resource.title] = resource
        weights[resource.title] = max(weights.get(resource.title, 0.0), weight)
    order = sorted(found, key=lambda title: -weights[title])
    return [found[title] for title in order if _possible(found[title], chip)][:MOST_RELIEVED]


def _evidence(run: Run, a: Attribution) -> Iterable[tuple[Resource, float]]:
    if a.overhead_cycles >= LEAST_WAIT * a.cycles:
        yield LAUNCH, a.overhead_cycles / a.cycles
    for bound in a.bounds:
        if bound.share >= LEAST_BOUND and bound.name in BOUNDS:
            yield BOUNDS[bound.name], bound.share
        if bound.name == ATOMICS and bound.share >= LEAST_BOUND and _lanes_meet(run):
            yield WARPS_ATOMICS, bound.share
    for stall in a.stalls:
        if stall.share < LEAST_WAIT:
            continue
        if stall.reason == "long_scoreboard":
            # Which level the waits are for is what the runs show: a few misses can delay every warp.
            yield from ((latency, stall.share) for latency in (DRAM_LATENCY, L2_LATENCY, L1_LATENCY))
        elif stall.reason == "math_pipe_throttle":
            yield from ((BOUNDS[b.name], stall.share) for b in a.bounds if b.name.endswith("pipe") and b.name in BOUNDS)
        elif stall.reason in STALLS and not (stall.reason == "wait" and _prescribes_waits(run)):
            yield STALLS[stall.reason], stall.share
    wave = _last_wave(run)
    if wave is not None:
        yield wave, BINDING_SHARE


def _lanes_meet(run: Run) -> bool:
    """Whether lanes of a warp access the same word in the slice whose atomics take the most time."""
    busiest = run.timing.busiest_slice if run.timing is not None else None
    return busiest is not None and busiest.passes >= 2 * busiest.requests


def _last_wave(run: Run) -> Resource | None:
    """The last wave of blocks, where it leaves at least half of the chip's room empty: relieved by the SMs that it lacks."""
    blocks = run.grid[0] * run.grid[1] * run.grid[2]
    resident = run.resident.blocks_per_sm
    at_once = sm_count(run) * resident
    waves, rest = divmod(blocks, at_once)
    if not waves or not 0 < rest <= at_once // 2:
        return None
    enough = -(-blocks // (waves * resident))
    return replace(LAST_WAVE, overrides=lambda chip: {"sm_count": enough})


def _possible(resource: Resource, chip: Chip) -> bool:
    """Whether numbers of the chip stand for the resource, and the chip with them is a valid one."""
    if resource.overrides is None:
        return False
    values = resource.overrides(chip)
    try:
        return bool(values) and load_chip(chip, **values) is not None
    except ChipError:
        return False


def idle_sms(run: Run) -> str:
    """``44 of 108 SMs got no block``, or for how long they had none; nothing when all were busy."""
    assert run.timing is not None
    active = run.timing.sm["active_cycles"]
    without = int((active == 0).sum())
    if without:
        return f"{without:,} of {len(active):,} SMs got no block"
    idle = attribute(run).idle_share
    return f"SMs had no block for {share_text(idle)} of the time after launch" if idle >= NOTABLE_IDLE else ""


# --- the runs -----------------------------------------------------------------------------------------------------------


Trial = tuple[Resource, Mapping[str, Any]]
"""A resource, and the chip's fields that relieve it."""


def _these(changes: Sequence[str]) -> str:
    """``this change`` or ``these changes``, by number."""
    return "this change" if len(changes) == 1 else "these changes"


def notable_launches(runs: Sequence[Run]) -> list[int]:
    """The longest launch of each kernel that takes a notable share of the time, the longest first.

    Launches that shared the chip with others, and those of other processes, are left out.
    """
    total = sum(run.seconds for run in runs)
    of_kernel: dict[str, float] = {}
    for run in runs:
        of_kernel[run.kernel] = of_kernel.get(run.kernel, 0.0) + run.seconds
    alone = [i for i, run in enumerate(runs) if not run.shared and run.device is not None]
    found: dict[str, int] = {}
    for i in sorted(alone, key=lambda i: -runs[i].seconds):
        if not found or of_kernel[runs[i].kernel] >= NOTABLE_KERNEL * total:
            found.setdefault(runs[i].kernel, i)
    return list(found.values())[:MOST_RANKED]


def trials(runs: Sequence[Run], chosen: Sequence[int]) -> dict[int, list[Trial]]:
    """The trials of each chosen launch, by its index.

    A changed chip is timed once for all launches. Launches after the first are left out if they would raise the number of changed chips
    above ``MOST_CHIPS``.
    """
    found: dict[int, list[Trial]] = {}
    for launch in chosen:
        chip = runs[launch].device
        assert chip is not None
        wanted = [(one, one.overrides(chip)) for one in candidates(runs[launch]) if one.overrides is not None]
        together = {_key(values) for others in (*found.values(), wanted) for _, values in others}
        if not found or len(together) <= MOST_CHIPS:
            found[launch] = wanted
    return found


def chip_count(wanted: Mapping[int, Sequence[Trial]]) -> int:
    """The number of changed chips among some launches' trials."""
    return len({_key(overrides) for some in wanted.values() for _, overrides in some})


def _key(overrides: Mapping[str, Any]) -> str:
    return repr(sorted(overrides.items()))


def rank(
    before: Sequence[Run],
    wanted: Mapping[int, Sequence[Trial]],
    again: Callable[[Resource, Mapping[str, Any]], Sequence[Run]],
    accesses: Callable[[Run], Sequence[str]] = lambda _: (),
    unchecked: str = "",
) -> dict[int, Ranking]:
    """Relieve resources in turn, and order those of each launch by what they save; returns the rankings by index of the launch.

    A resource with which the program fails, or does not make the launch as often and with the same grid, is left out, with a sentence about it in the ranking.

    Args:
        before: all launches of the program, on the chip as it is.
        wanted: the trials of each launch, by its index (:func:`trials`).
        again: repeats the program on the chip with some fields changed; raises RepeatFailedError if the program fails.
        accesses: what perfcheck found in a launch's kernel.
        unchecked: a sentence on why perfcheck found nothing, if the program failed with it.
    """
    timed: dict[str, WhatIf | None] = {}
    failures: dict[str, str] = {}
    found = {}
    for launch, some in wanted.items():
        reliefs = []
        missing: dict[str, list[str]] = {}
        other: list[str] = []
        for resource, overrides in some:
            key = _key(overrides)
            if key not in timed:
                try:
                    partners = _partners(before, again(resource, overrides))
                    timed[key] = WhatIf(
                        resource.change,
                        dict(overrides),
                        tuple(run.cycles for run in before),
                        tuple(run.cycles if run is not None else 0 for run in partners),
                    )
                except RepeatFailedError as error:
                    timed[key], failures[key] = None, str(error)
            what_if = timed[key]
            if what_if is None:
                missing.setdefault(failures[key], []).append(resource.change)
            elif not what_if.after[launch]:
                other.append(resource.change)
            else:
                reliefs.append(Relief(resource, replace(what_if, change=resource.change)))
        ranking = _ranking(before[launch], launch, reliefs, accesses(before[launch]))
        left_out = [
            f"Not timed: {', '.join(changes)}; the program fails with {_these(changes)} ({failure})."
            for failure, changes in missing.items()
        ]
        if other:
            left_out.append(
                f"{NOT_COMPARED}{', '.join(other)}; with {_these(other)}, the program launches {before[launch].kernel} a different number of times or with other grids."
            )
        found[launch] = replace(ranking, left_out=(*left_out, *([unchecked] if unchecked else [])))
    return found


def _ranking(run: Run, launch: int, reliefs: list[Relief], accesses: Sequence[str]) -> Ranking:
    reliefs.sort(key=lambda relief: -relief.what_if.saved(launch))
    fixed = _fixed(run)
    idle = "" if fixed is not None and fixed.resource is BALANCE else idle_sms(run)
    return Ranking(run.kernel, launch, tuple(reliefs), idle, fixed, tuple(accesses))


def _fixed(run: Run) -> Fixed | None:
    """The issue of instructions, or waits that the machine code prescribes, where they make up most of the launch."""
    a = attribute(run)
    issue = next((b.share for b in a.bounds if BOUNDS.get(b.name) is ISSUE), 0.0)
    if issue >= BINDING_SHARE:
        return Fixed(ISSUE, issue, f"it needs at least {share_text(issue)} of the cycles after launch")
    assert run.timing is not None
    if a.idle_share >= IDLE_SHARE and run.timing.sm["active_cycles"].all():
        return Fixed(
            BALANCE, a.idle_share, f"SMs have no block for {share_text(a.idle_share)} of the time after launch"
        )
    wait = next((stall.share for stall in a.stalls if stall.reason == "wait"), 0.0)
    if wait >= BINDING_SHARE and _prescribes_waits(run):
        return Fixed(STALLS["wait"], wait, f"warps spend {share_text(wait)} of their time waiting ({MEANINGS['wait']})")
    return None


def _prescribes_waits(run: Run) -> bool:
    """Whether the machine code has stall counts, so that no latency of the chip decides these waits."""
    return run.program is not None and run.program.control_bits


def ranked(program: Program, run: Run, *, baseline: Sequence[Run] = ()) -> Ranking:
    """Time a program again with each resource relieved that may limit one of its launches.

    Args:
        program: makes its arrays and launches on the GPU that it is given.
        run: the launch whose limit counts.
        baseline: all launches of the program on this chip; ``run`` alone when it has no other.

    Raises:
        UnsupportedError: the run comes from another process.
        LaunchError: as for :func:`what_if`.
    """
    chip, gpu_type = run.device, run.gpu_type
    if chip is None or gpu_type is None:
        raise UnsupportedError(f"the run of {run.kernel} comes from another process: time the changed chip there")
    before = list(baseline) or [run]
    launch = next(i for i, one in enumerate(before) if one is run)

    def again(resource: Resource, overrides: Mapping[str, Any]) -> Sequence[Run]:
        return launches(program, gpu_type(chip, **overrides))

    wanted = trials(before, [launch])
    if not has_checks(chip):
        return rank(before, wanted, again)[launch]
    watched = gpu_type(chip, timing="full", check="perfcheck")  # timed too: the program may read its times
    program(watched)
    return rank(before, wanted, again, lambda one: wasteful(watched.findings, one))[launch]


def has_checks(chip: Chip) -> bool:
    """Whether launches on a chip can be checked: from Pascal on."""
    return chip.arch >= FIRST_MAXWELL


def wasteful(findings: Iterable[Finding], run: Run) -> list[str]:
    """perfcheck's findings of a kernel as clauses; that of the instruction on which warps spend most time first."""
    shares = {cost.address: cost.share for cost in attribute(run).instructions}
    found: dict[str, float] = {}
    for finding in findings:
        place = finding.places[0] if finding.places else None
        if finding.check != "perfcheck" or place is None or place.kernel != run.kernel:
            continue
        line = place.line.rstrip(" ;")  # The clause becomes a sentence.
        clause = f"{finding.title}{f', {line}' if line else ''}"
        found[clause] = found.get(clause, 0.0) + shares.get(place.offset, 0.0)
    return sorted(found, key=lambda clause: -found[clause])
