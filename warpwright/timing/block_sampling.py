"""Sampled timing: times some blocks of a large grid on a part of the chip, while all others run without timing.

The part has the same fraction of the SMs as of the grid's blocks, and as much of the crossbar for each SM as the whole chip, so it passes through the
whole launch, from its cold start to its last wave.  L2 and DRAM are whole; the other blocks access them in step with the timed ones (``background.py``).
For very large grids, stretches of the grid are left out (``docs/model/sampling.md`` derives the estimate and its expected error).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.chips.occupancy import Occupancy
from warpwright.engine.execute import Counts
from warpwright.timing import metrics as metrics_module
from warpwright.timing import state as s
from warpwright.timing import warming
from warpwright.timing.block_sources import Grid
from warpwright.timing.interface import ALONE, Progress, Sampling, Supervision, TimingResult
from warpwright.timing.policies import Policies
from warpwright.timing.simulate import OWN_POLICIES, Prepared, advance, prepare, result_of, run_untimed

REDUCTION = 20
"""Sampling is used only if it times at least this many times fewer blocks."""
LEAST_WAVES = 2
"""A grid with fewer waves of resident blocks is timed in full."""
ENOUGH_WAVES, MOST_WAVES = 24, 48
"""Waves of resident blocks: the least that a part larger than the smallest must time, and the most that are timed, beyond which stretches are left out."""
STRETCHES = 6
"""Stretches of the grid that are timed if others are left out."""
PART_ERROR = 0.32
"""Divided by the part's SMs, this is added to the expected error.  Six of an H200 are up to 3.7% off and one of 24 kernels 13, four of a V100 or A100 up to 7.9
(``python -m bench.sampled``, ``--further``)."""
MODEL_ERROR = 0.005
WARM_TIMES = 3
"""Blocks before a stretch go through L2's tags until they have requested this many times its size."""

TAIL_POINTS = 512
"""Points at which the distribution of the last end is computed."""

WINDOWS_AT_ONCE = 4

RangeCallback = Callable[[int, int], Counts]
"""Runs ``count`` blocks, beginning with a linear block number, without timing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which blocks are timed, on which part of the chip: one of each period of a stretch."""

    chip: Chip
    """The part."""
    share: float
    """Its SMs over those of the chip."""
    resident: int
    """Blocks that it holds concurrently."""
    timed_blocks: int
    per_stretch: int
    """Timed blocks of a stretch."""
    left_out: int
    """Blocks between two stretches."""

    @property
    def period(self) -> int:
        """One block in this many is timed, in 1/65536 block."""
        return int(65536 / self.share)

    @property
    def stretch(self) -> int:
        """Blocks of a stretch."""
        return self.per_stretch * self.period >> 16


def part_of(chip: Chip, share: float) -> Chip:
    """A chip with about ``share`` of the SMs and all of the L2; shared resources are in proportion to the SMs.

    GPCs keep their number of SMs down to two GPCs, one for each L2 partition; below that they shrink.
    """
    if share == 1.0:
        return chip
    sms = max(2, round(chip.sm.sm_count * share))
    exact = sms / chip.sm.sm_count
    gpcs = max(2, round(len(chip.sm.gpc_sm_counts) * share))
    counts = [sms // gpcs + (1 if i < sms % gpcs else 0) for i in range(gpcs)]
    fuller = exact * len(chip.sm.gpc_sm_counts) / gpcs
    crossbar, launch, constants = chip.crossbar, chip.launch, chip.constant_cache

    def parts(section: Any, by: float, *names: str) -> dict[str, float]:
        return {name: getattr(section, name) * by for name in names}

    return chip.model_copy(
        update={
            "sm": chip.sm.model_copy(
                update={
                    "sm_count": sms,
                    "gpc_sm_counts": counts,
                    "cluster_sm_counts": counts,
                    "dispatch_apart_sm_count": 0,
                }
            ),
            "constant_cache": constants.model_copy(
                update=parts(
                    constants, 1 / fuller, "gpc_constant_interval_cycles", "gpc_first_constant_interval_cycles"
                )
            ),
            "crossbar": crossbar.model_copy(
                update={
                    "gpc_read_bytes_per_clk": round(crossbar.gpc_read_bytes_per_clk * fuller),
                    "store_port_bytes_per_clk": round(
                        crossbar.store_port_bytes_per_clk * (1 if crossbar.gpc_store_port_count > 1 else fuller)
                    ),
                    **parts(crossbar, 1 / fuller, "gpc_tlb_hit_cycles", "gpc_tlb_miss_cycles"),
                }
            ),
            "launch": launch.model_copy(
                update=parts(launch, 1 / exact, "block_dispatch_interval_cycles", "block_first_interval_cycles")
            ),
        }
    )


def plan(chip: Chip, blocks: int, occupancy: Occupancy) -> Plan | None:
    """Choose the part of the chip and the blocks; None if the grid is too small.

    Takes the largest part that times enough waves of its resident blocks within the budget, otherwise the smallest.
    """
    count = chip.sm.sm_count
    if blocks < LEAST_WAVES * count * occupancy.blocks_per_sm:
        return None
    least = max(2, count // REDUCTION // 2 * 2)
    budget = int(blocks / (REDUCTION + 1))
    sms = count
    while sms > least and budget < ENOUGH_WAVES * sms * occupancy.blocks_per_sm:
        sms = max(sms // 2, least) if sms // 4 >= least else least
    share = sms / count
    resident = sms * occupancy.blocks_per_sm
    timed = min(budget if sms > least else int(blocks * share), MOST_WAVES * resident)
    part = part_of(chip, share)
    if timed == int(blocks * share):
        return Plan(part, share, resident, timed, timed, 0)
    per_stretch = timed // STRETCHES
    some = Plan(part, share, resident, per_stretch * STRETCHES, per_stretch, 0)
    left_out = (blocks - STRETCHES * some.stretch) // (STRETCHES - 1)
    return replace(some, left_out=left_out)


def _instructions(state: s.State) -> int:
    return int(metrics_module.sm_column(state, s.SM.instructions).sum())


@dataclass(frozen=True, slots=True)
class _Mark:
    """Progress of the timed blocks."""

    cycle: int
    instructions: int


def estimate(
    plan: Plan,
    cycles: float,
    marks: Sequence[_Mark],
    along: tuple[int, int],
    left_out: Sequence[int],
    unlike_sms: float = 0.0,
) -> tuple[float, float]:
    """Cycles of the whole grid on the whole chip, and their expected relative error.

    Args:
        cycles: of the part of the chip.
        marks: when its first wave had ended, at the end of each stretch but the last, and when its last block began.
        along: warp instructions of timed blocks, and of the untimed ones that accompanied them.
        left_out: of the blocks between two stretches.
        unlike_sms: :func:`spread_of_sms`.
    """
    costs = [
        (behind.cycle - before.cycle) / (behind.instructions - before.instructions)
        for before, behind in pairwise(marks)
        if behind.instructions > before.instructions
    ]
    if not costs:
        costs = [cycles / max(along[0], 1)]
    # Timed blocks may be longer or shorter than the others.
    unlike = (along[0] + along[1]) * plan.share - along[0]
    rest = [unlike * float(np.mean(costs))]
    for index, instructions in enumerate(left_out):
        before, behind = costs[min(index, len(costs) - 1)], costs[min(index + 1, len(costs) - 1)]
        rest.append(instructions * plan.share * (before + behind) / 2)
    total = cycles + sum(rest)
    spread = 2 * float(np.std(costs, ddof=1) / np.mean(costs)) / math.sqrt(len(costs)) if len(costs) > 1 else 0.0
    part = PART_ERROR / plan.chip.sm.sm_count if plan.share < 1 else 0.0
    parts = (part, 2 * unlike_sms, spread * sum(rest[1:]) / total, abs(rest[0]) / total / 2, MODEL_ERROR)
    return total, math.sqrt(sum(error**2 for error in parts))


def spread_of_sms(plan: Plan, blocks: npt.NDArray[np.int64]) -> float:
    """Relative standard error of a block's time, from the differences between the part's SMs.

    Concurrent blocks share their SM, so their times are not independent samples; SMs are (a sample of clusters).

    Args:
        blocks: the log of the timed blocks.
    """
    sms = np.unique(blocks[:, s.LoggedBlock.sm])
    if plan.share == 1 or len(sms) < 2:
        return 0.0
    took = blocks[:, s.LoggedBlock.end] - blocks[:, s.LoggedBlock.start]
    means = np.array([took[blocks[:, s.LoggedBlock.sm] == sm].mean() for sm in sms])
    return float(means.std(ddof=1) / means.mean()) * math.sqrt((1 - plan.share) / len(sms))


def later_end(plan: Plan, blocks: npt.NDArray[np.int64]) -> float:
    """By how many cycles the last block of the whole chip ends after the last one of its part.

    Where the part has one of its last blocks, the chip has as many as it has parts.  They start at about the same time, but each takes a time of
    its own, and the longest of many takes longer than that of few.  What the last blocks take is a line over their starts (the chip empties), and each differs
    from it as one of them does: the mean of the last end follows from so many independent draws.

    But blocks of one SM share it, so their times are not independent: the end is between the part's own and that one, and the middle is taken.

    Args:
        blocks: the log of the timed blocks.
    """
    if plan.share == 1 or len(blocks) < 2 * plan.resident:
        return 0.0
    last = blocks[np.argsort(blocks[:, s.LoggedBlock.start], kind="stable")[-plan.resident :]].astype(np.float64)
    starts, took = last[:, s.LoggedBlock.start], last[:, s.LoggedBlock.end] - last[:, s.LoggedBlock.start]
    usual = np.polyval(np.polyfit(starts - starts[0], took, 1), starts - starts[0]) if np.ptp(starts) else took.mean()
    differ = np.sort(took - usual)
    expected = starts + usual
    times = np.linspace(expected.min() + differ[0], expected.max() + differ[-1], TAIL_POINTS)
    ended = np.searchsorted(differ, times[:, None] - expected[None, :], side="right") / len(differ)
    mean_end = times[0] + (times[1] - times[0]) * float(np.sum(1 - np.prod(ended, axis=1) ** (1 / plan.share)))
    return float(mean_end - last[:, s.LoggedBlock.end].max()) / 2


def _start(launch: Prepared, plan: Plan, blocks: int) -> None:
    """Set the launch up to time the plan's blocks and to run the others on its spare SM."""
    state, m = launch.state, launch.state.words
    m[s.chip.timed_period] = plan.period
    m[s.chip.stretch] = plan.per_stretch
    m[s.chip.left_out] = plan.left_out
    k = state.kernel(0)
    m[s.chip.blocks] = m[k.blocks] = plan.timed_blocks
    m[k.logged_blocks] = min(plan.timed_blocks, s.MAX_LOGGED_BLOCKS)
    m[s.chip.warm_stop] = plan.stretch if plan.left_out else blocks
    m[s.chip.warm_ratio] = round(65536 * (1 / plan.share - 1))
    sms = int(m[s.chip.sms])
    spare, idle = state.sm(sms), state.sm(0)
    m[spare : spare + s.SM.size] = m[idle : idle + s.SM.size]
    m[s.SM(spare).index] = sms
    m[s.chip.warm_sm] = spare


def _blocks_that_fill(launch: Prepared, chip: Chip) -> int:
    """How many blocks bring L2 into its state far inside the grid: their accesses are WARM_TIMES its size."""
    sectors = s.counted(launch.state.words, s.SliceGroup.read, s.SliceGroup.written)
    per_block = max(sectors, 1) * chip.l1.sector_bytes / max(int(launch.state.words[s.chip.done_blocks]), 1)
    return math.ceil(WARM_TIMES * chip.l2.l2_kib * 1024 / per_block)


def _leave_out(launch: Prepared, plan: Plan, chip: Chip, blocks: int, run_range: RangeCallback) -> tuple[int, Counts]:
    """Run the blocks after a stretch without timing, the last of them through L2's tags; returns their instructions and what ``run_range`` counted."""
    m = launch.state.words
    first = int(m[s.chip.warm_stop])
    warm = min(plan.left_out, _blocks_that_fill(launch, chip))
    counts = run_range(first, plan.left_out - warm) if plan.left_out > warm else Counts()
    before, work = int(m[s.chip.warm_instructions]), int(m[s.chip.warm_work])
    m[s.chip.warm_next], m[s.chip.warm_stop] = first + plan.left_out - warm, first + plan.left_out
    run_untimed(launch)
    own = int(m[s.chip.warm_instructions]) - before
    m[s.chip.warm_free] += own
    m[s.chip.warm_work] = work
    behind = first + plan.left_out
    m[s.chip.warm_stop] = blocks if behind + plan.stretch + plan.left_out > blocks else behind + plan.stretch
    return own + counts.warp_instructions, counts


def simulate_sampled(
    chip: Chip,
    plan: Plan,
    grid: Grid,
    run_range: RangeCallback,
    host: Supervision = ALONE,
    *,
    policies: Policies = OWN_POLICIES,
) -> tuple[TimingResult, Counts]:
    """Run a launch, all of it functionally and the plan's blocks in simulated time; result and exact counts.

    Raises:
        TimingError, TimingCancelled: as ``simulate``; and whatever ``run_range`` raises.
    """
    began, worked = time.perf_counter(), time.thread_time()
    blocks = grid.context.geometry.blocks
    launch = prepare(plan.chip, [grid], policies, spare=True)
    _start(launch, plan, blocks)
    m = launch.state.words
    k = launch.state.kernel(0)
    marks: list[_Mark] = []
    left_out: list[int] = []
    fast = Counts()
    unseen = 0  # instructions of blocks without time that were left when the timed ones had ended

    def show(inner: Progress) -> None:
        if host.progress is not None:
            host.progress(Progress(inner.phase, inner.cycles, int(m[s.chip.warm_next]), blocks, inner.instructions))

    def mark() -> None:
        marks.append(_Mark(int(m[s.chip.now]), _instructions(launch.state)))

    with launch.helpers(host.threads, show):
        running = True
        while running or m[s.chip.warm_sm]:
            if running:
                running = advance(launch, show, host.cancel, windows_at_once=WINDOWS_AT_ONCE)
            else:
                before = int(m[s.chip.warm_instructions])
                run_untimed(launch)
                unseen += int(m[s.chip.warm_instructions]) - before
            if not marks and m[s.chip.done_blocks] >= plan.resident:
                mark()
            if running and len(marks) == len(left_out) + 1 and m[k.next_block] >= m[k.blocks]:
                mark()
            if m[s.chip.warm_sm] and warming.stretch_ended(m):
                if m[s.chip.warm_stop] >= blocks:
                    m[s.chip.warm_sm] = 0
                    continue
                mark()
                instructions, counts = _leave_out(launch, plan, chip, blocks, run_range)
                left_out.append(instructions)
                fast = _added(fast, counts)
    result, total = _whole_grid(launch, plan, chip, blocks, marks, left_out, fast, unseen)
    result.wall_seconds, result.cpu_seconds = time.perf_counter() - began, time.thread_time() - worked
    return result, total


def _added(one: Counts, other: Counts) -> Counts:
    """Instructions of both; blocks are counted elsewhere."""
    return Counts(
        one.warp_instructions + other.warp_instructions,
        one.thread_instructions + other.thread_instructions,
        one.blocks_done,
    )


def _whole_grid(
    launch: Prepared,
    plan: Plan,
    chip: Chip,
    blocks: int,
    marks: list[_Mark],
    left_out: list[int],
    fast: Counts,
    unseen: int,
) -> tuple[TimingResult, Counts]:
    """The estimate for all of a grid's ``blocks``, and the exact counts; closes the launch.

    Args:
        left_out: instructions of each stretch that was left out; ``fast``: the counts of these stretches.
        unseen: instructions of blocks without time that were left when the timed ones had ended.
    """
    m, k = launch.state.words, launch.state.kernel(0)
    own = _instructions(launch.state)
    ends = metrics_module.sm_column(launch.state, s.SM.finish)
    spent = int(ends.max())
    along = int(m[s.chip.warm_instructions] - m[s.chip.warm_free])
    log, logged = int(m[k.block_log]), int(m[k.logged_blocks])
    log_of_blocks = m[log : log + logged * s.LoggedBlock.size].reshape(logged, s.LoggedBlock.size)
    later, unlike_sms = later_end(plan, log_of_blocks), spread_of_sms(plan, log_of_blocks)
    cycles, expected = estimate(plan, spent + later, marks, (own, along), left_out, unlike_sms)
    total = Counts(
        own + int(m[s.chip.warm_instructions]) + fast.warp_instructions,
        int(metrics_module.sm_column(launch.state, s.SM.threads).sum())
        + int(m[s.chip.warm_threads])
        + fast.thread_instructions,
        blocks,
    )
    result = result_of(launch, spent, plan.timed_blocks)
    result.sampling = Sampling(
        plan.timed_blocks, blocks, own, total.warp_instructions, len(left_out) + 1, plan.share, expected
    )
    once = metrics_module.launch_lookups(launch.state, launch.chip)
    whole = metrics_module.launch_lookups(launch.state, launch.chip, chip)
    cycles += metrics_module.end_fences(launch.state, launch.chip, chip)
    launch.close()
    _scale(result, chip, round(cycles), spent, total, own + along - unseen, once, whole)
    return result, total


def _scale(
    result: TimingResult,
    chip: Chip,
    cycles: int,
    spent: int,
    total: Counts,
    seen: int,
    once: dict[str, float],
    whole: dict[str, float],
) -> None:
    """From the timed sections to the whole grid: sums by instructions, those of L2 and DRAM from what they have ``seen``; what a launch does ``once``
    on the part, on the ``whole`` chip; cycles by the estimate; shares stay as measured."""
    sampling = result.sampling
    assert sampling is not None
    more, longer = total.warp_instructions / max(sampling.timed_instructions, 1), cycles / max(spent, 1)
    values = result.metrics
    for name in values:
        if name.endswith(".sum"):
            by = total.warp_instructions / max(seen, 1) if name.startswith(("lts__", "dram__")) else more
            values[name] = (values[name] - once.get(name, 0.0)) * by + whole.get(name, 0.0)
        elif name.startswith("sm__cycles_active"):
            values[name] *= longer
    set_estimate(result, chip, cycles, more)
    values["launch__sm_count"] = float(chip.sm.sm_count)
    for name in ("sm__inst_executed.sum", "smsp__inst_executed.sum"):
        values[name] = float(total.warp_instructions)
    values["smsp__thread_inst_executed.sum"] = float(total.thread_instructions)
    values["sm__inst_executed.avg.per_cycle_elapsed"] = total.warp_instructions / (chip.sm.sm_count * max(cycles, 1))
    values["dram__bytes.sum.per_second"] = values["dram__bytes.sum"] / result.seconds if result.seconds else 0.0
    overhead = min(chip.launch.launch_overhead_cycles, cycles)
    result.bounds = {name: overhead + (value - overhead) * longer for name, value in result.bounds.items()}
    result.busiest_slice = None


def set_estimate(result: TimingResult, chip: Chip, cycles: int, more: float) -> None:
    """Set the estimated time and the sample's metrics of a sampled result, and multiply the issues and stalls of its timed part by ``more``."""
    sampling = result.sampling
    assert sampling is not None
    result.cycles, result.seconds = cycles, cycles / (chip.clocks.sm_clock_mhz * 1e6)
    result.metrics |= {
        "gpc__cycles_elapsed.max": float(cycles),
        "gpu__time_duration.sum": result.seconds * 1e9,
        "sampling__timed_blocks": float(sampling.timed_blocks),
        "sampling__timed_instructions": float(sampling.timed_instructions),
        "sampling__expected_error.pct": 100 * sampling.expected_error,
    }
    result.stalls = {name: round(value * more) for name, value in result.stalls.items()}
    for field in ("instruction_issues", "instruction_stall_cycles", "instruction_stalls"):
        setattr(result, field, np.rint(getattr(result, field) * more).astype(np.int64))
