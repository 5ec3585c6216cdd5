"""Sampled timing of grids that repeat the same step between their barriers: times the first steps and runs the others untimed.

A cooperative launch is a single wave, so its steps are sampled instead of its blocks.  Once several steps in a row have taken about the same number of cycles,
the launch continues untimed to its end (``untimed_rest.py``).  Each further step is taken to last as long as those, or a longer or shorter time if it executes
clearly more or fewer thread instructions (``docs/model/sampling.md``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.engine.constant_bank0 import is_cooperative
from warpwright.engine.launch import LaunchContext
from warpwright.native import intrinsics
from warpwright.timing import metrics as metrics_module
from warpwright.timing import state as s
from warpwright.timing import untimed_rest, warming, windows
from warpwright.timing.block_sampling import set_estimate
from warpwright.timing.block_sources import Grid
from warpwright.timing.interface import ALONE, Progress, Sampling, Supervision, TimingCancelled, TimingResult
from warpwright.timing.kept_caches import KeptCaches
from warpwright.timing.policies import Policies
from warpwright.timing.repeated_steps import repeated_steps
from warpwright.timing.simulate import (
    OWN_POLICIES,
    Prepared,
    advance,
    deadlock,
    judge,
    prepare,
    result_at_end,
    result_of,
)

UNJUDGED_STEPS = 3
"""Number of a launch's first steps whose ends are left out: they fill caches, and their blocks begin one after the other."""
REPETITIONS = ((8, 0.01, 0.02), (24, 0.4, 0.03))
"""Rows: how many consecutive steps, or patterns of steps, must agree, and two limits relative to their mean: for the difference between the longest and the shortest, and for the larger of
twice the mean's standard error and the difference between the means of the two halves.  If steps vary more, long runs of them are slow or fast, so more steps are needed."""
FEWEST = REPETITIONS[0][0]
LONGEST = 1.5
"""Earlier repetitions also count if they take at most this many times, and at least the reciprocal, as long as those that agree."""
WINDOWS_AT_ONCE = 64
TURNS_AT_ONCE = 256
MODEL_ERROR = 0.005
"""Least expected error, as for sampled blocks."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One or more steps that repeat as a group; the first of them comes next."""

    cycles: tuple[int, ...]
    """Mean cycles of each step."""
    work: tuple[int, ...]
    """Mean thread instructions of each step."""
    spread: float
    """Difference between the longest and the shortest repetition, relative to the mean."""
    error: float
    """Uncertainty of the mean cycles, relative to the mean."""


def pattern_of(ends: Sequence[int], work: Sequence[int]) -> Pattern | None:
    """The shortest pattern in which the last steps of a grid repeat, or None.

    Args:
        ends: cycle at which each of the last steps ended, without the launch's first steps.
        work: thread instructions that the grid had executed by then, one number per step.
    """
    cycles = np.diff(np.asarray(ends, np.int64)).astype(np.int64)
    works = np.diff(np.asarray(work, np.int64)).astype(np.int64)
    for steps in range(1, s.MAX_PATTERN + 1):
        for count, largest_spread, tolerance in REPETITIONS:
            if len(cycles) < steps * count:
                break
            turns = cycles[-steps * count :].reshape(count, steps)
            works_of_turns = works[-steps * count :].reshape(count, steps)
            spread, error = _variation(turns.sum(axis=1))
            alike = (np.ptp(works_of_turns, axis=0) * untimed_rest.ALIKE <= works_of_turns.mean(axis=0)).all()
            if error <= tolerance and spread <= largest_spread and alike:
                return _made_of(cycles, works, steps, count)
    return None


def _made_of(
    cycles: npt.NDArray[np.int64],
    works: npt.NDArray[np.int64],
    steps: int,
    agreeing: int,
) -> Pattern:
    """The pattern of all repetitions like the last ones.

    Steps agree in uniform stretches, which may be faster or slower than others. The mean is therefore also taken over the repetitions before them, back to the last that
    takes another time or does other work, except for the earliest quarter.  Neighbouring repetitions are similar, so the uncertainty of their mean is the standard deviation of one of them.

    Args:
        cycles, works: of each step, the last one at the end.
        steps: of a repetition.
        agreeing: number of the last repetitions that agree: none of them counts as another time or other work.
    """
    count = len(cycles) // steps
    turns, works_of_turns = (values[-steps * count :].reshape(count, steps) for values in (cycles, works))
    sums = turns.sum(axis=1)
    mean, work = sums[-agreeing:].mean(), works_of_turns[-agreeing:].mean(axis=0)
    other = (sums > mean * LONGEST) | (sums * LONGEST < mean)
    other |= (np.abs(works_of_turns - work) * untimed_rest.ALIKE > work).any(axis=1)
    other[-agreeing:] = False
    # The earliest ones still warm up.
    first = max(int(np.flatnonzero(other).max(initial=-1)) + 1, min(count // 4, count - FEWEST))
    spread, error = _variation(sums[first:])
    deviation = float(sums[first:].std(ddof=1)) / max(float(sums[first:].mean()), 1.0)
    return Pattern(_means(turns[first:]), _means(works_of_turns[first:]), spread, max(error, deviation))


def _means(turns: npt.NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(int(mean) for mean in np.rint(turns.mean(axis=0)))


def _variation(sums: npt.NDArray[np.int64]) -> tuple[float, float]:
    """The difference between the longest and the shortest, and the larger of twice the mean's standard error and the difference between the means of the two
    halves; both relative to the mean."""
    mean = max(float(sums.mean()), 1.0)
    early, late = (float(half.mean()) for half in np.array_split(sums, 2))
    doubt = 2 * float(sums.std(ddof=1)) / math.sqrt(len(sums))
    return float(sums.max() - sums.min()) / mean, max(doubt, abs(late - early)) / mean


def repeats_steps(context: LaunchContext) -> bool:
    """Whether a launch may be sampled by its steps: it has grid barriers, and nothing that only timed execution completes."""
    program = context.program
    return (
        is_cooperative(program)
        and context.grid_barrier != 0
        and context.geometry.cluster_blocks == 1
        and not context.memory.pages_move
        and not program.services
    )


def simulate_steps(
    chip: Chip,
    grid: Grid,
    host: Supervision = ALONE,
    *,
    policies: Policies = OWN_POLICIES,
    kept: KeptCaches | None = None,
) -> TimingResult:
    """Time a grid's steps until they repeat, and estimate the rest; ``TimingResult.sampling`` is None if they never repeat.

    Raises:
        TimingError, TimingCancelled: as ``simulate``.
    """
    began, worked = time.perf_counter(), time.thread_time()
    launch = prepare(chip, [grid], policies, kept=kept)
    m = launch.state.words
    word = grid.context.memory.view(grid.context.grid_barrier, 8, read_only=True)
    m[s.chip.grid_barrier], m[s.chip.grid_word] = intrinsics.address_of(word), grid.context.grid_barrier
    m[s.chip.grid_bit] = int(word[7]) >> 7
    with launch.helpers(host.threads, host.progress):
        pattern = _time_until_steady(launch, host)
    if pattern is None:
        result = result_at_end(launch)
        launch.close()
    else:
        result = _estimate(launch, pattern, host)
    result.wall_seconds, result.cpu_seconds = time.perf_counter() - began, time.thread_time() - worked
    return result


def _time_until_steady(launch: Prepared, host: Supervision) -> Pattern | None:
    """Run windows until the steps repeat; None if the launch ends before they do."""
    m = launch.state.words
    judged = UNJUDGED_STEPS
    while advance(launch, host.progress, host.cancel, host.interpret, windows_at_once=WINDOWS_AT_ONCE):
        steps = int(m[s.chip.grid_steps])
        if steps == judged:
            continue
        judged = steps
        known = min(steps - UNJUDGED_STEPS, s.STEP_ENDS)
        if known > 0:
            places = _places(steps, known)
            ends, work = (m[first + places].tolist() for first in (s.chip.step_ends[0], s.chip.step_work[0]))
            pattern = pattern_of(ends, work)
            if pattern is not None and m[s.chip.done_blocks] == 0:
                return pattern
    return None


def _places(steps: int, count: int) -> npt.NDArray[np.int64]:
    """Indices at which the last ``count`` of a grid's steps are recorded."""
    return np.arange(steps - count, steps) % s.STEP_ENDS


def _run_rest(launch: Prepared, pattern: Pattern, host: Supervision) -> None:
    """Run every warp to its end untimed; afterwards ``chip.rest_clock`` is the cycle at which the last step ended."""
    m, state = launch.state.words, launch.state
    last = int(m[s.chip.step_ends[(int(m[s.chip.grid_steps]) - 1) % s.STEP_ENDS]])
    m[s.chip.pattern_steps] = len(pattern.cycles)
    noted = _places(int(m[s.chip.grid_steps]), len(pattern.cycles) * FEWEST)
    m[s.chip.pattern_leaves] = round(float(np.mean(m[s.chip.step_leaves[0] + noted])))
    for place, (cycles, work) in enumerate(zip(pattern.cycles, pattern.work, strict=True)):
        m[s.chip.pattern_cycles[place]], m[s.chip.pattern_work[place]] = cycles, work
    m[s.chip.rest_clock], m[s.chip.rest_lead] = m[s.chip.now], int(m[s.chip.now]) - last
    blocks = int(m[s.chip.blocks])
    repeated = repeated_steps(launch)
    while True:
        outcome = int(windows.run_windows(m, launch.static.rows, -TURNS_AT_ONCE if repeated is None else -1))
        if outcome == untimed_rest.ENDED:
            return
        judge(launch, outcome, host.interpret)
        if host.cancel is not None and host.cancel():
            raise TimingCancelled(f"cancelled at cycle {int(m[s.chip.rest_clock]):,}")
        if outcome == warming.RUNNING and launch.standstill.reached():
            raise deadlock(state, repeats=True)
        if repeated is not None and outcome == warming.RUNNING and not repeated.goes_on():
            repeated = None
            launch.standstill.forget()
        if host.progress is not None:
            ended = blocks - int(metrics_module.sm_column(state, s.SM.resident).sum())
            host.progress(Progress("running", int(m[s.chip.rest_clock]), ended, blocks))


def _estimate(launch: Prepared, pattern: Pattern, host: Supervision) -> TimingResult:
    """The launch's result, from its timed and its untimed steps."""
    m, blocks = launch.state.words, launch.grids[0].context.geometry.blocks
    timed, frozen = int(m[s.chip.grid_steps]), int(m[s.chip.now])
    executed = int(metrics_module.sm_column(launch.state, s.SM.instructions).sum())
    result = result_of(launch, frozen, blocks)
    _run_rest(launch, pattern, host)
    rest = int(m[s.chip.rest_steps])
    mean = sum(pattern.cycles) / len(pattern.cycles)
    # Blocks leave the last barrier as they left the others; what they do then takes time in proportion to its work.
    leaves = int(m[s.chip.pattern_leaves])
    work = sum(pattern.work) / len(pattern.work)
    tail = leaves + (mean - leaves) * int(m[s.chip.rest_work]) / max(work, 1)
    cycles = round(int(m[s.chip.rest_clock]) + tail)
    corrected = int(m[s.chip.rest_corrected]) / cycles
    expected = float(np.hypot(pattern.error * rest / (timed + rest), corrected) + MODEL_ERROR + mean / 2 / cycles)
    more = cycles / frozen
    result.sampling = Sampling(
        blocks, blocks, executed, round(executed * more), 1, 1.0, expected, timed, timed + rest, pattern.spread
    )
    _scale(result, launch.chip, cycles, more)
    return result


def _scale(result: TimingResult, chip: Chip, cycles: int, more: float) -> None:
    """Extend a result from the timed steps to the whole launch: sums and cycles are multiplied by ``more``, the ratio of their times; shares stay as measured."""
    values = result.metrics
    for name in values:
        if name.endswith(".sum") or name.startswith("sm__cycles_active"):
            values[name] *= more
    set_estimate(result, chip, cycles, more)
    result.bounds = {name: value * more for name, value in result.bounds.items()}
    result.busiest_slice = None
