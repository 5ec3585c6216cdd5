"""Sampled timing: stretches of a large grid are timed, the blocks between them run at functional speed.

The chip that times them may be a part of the real one: as many SMs, and of crossbar, L2 and DRAM the same part, so that every SM
finds the bandwidth that it would find on the whole chip.  Time is extrapolated by warp instructions
(``docs/model/sampling.md`` derives the estimate and its expected error).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from warpwright.chips.chip import Chip
from warpwright.chips.occupancy import Occupancy
from warpwright.engine.execute import Counts
from warpwright.engine.launch import LaunchContext
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Program
from warpwright.timing import metrics as metrics_module
from warpwright.timing import state as s
from warpwright.timing import warming
from warpwright.timing.interface import (
    CancelCallback,
    Progress,
    ProgressCallback,
    Sampling,
    TimingCancelled,
    TimingResult,
    TracedKernel,
)
from warpwright.timing.policies import Policies
from warpwright.timing.simulate import OWN_POLICIES, Prepared, advance, deadlock, handle_stop, prepare, result_of

REDUCTION = 22
"""So many times fewer blocks are timed, where the grid is large enough: 20, and room for blocks that differ."""
FIRST_WAVES = 1
"""Whole waves of resident blocks in the first section, which begins with cold caches; the grid's part of a wave follows."""
WAVES = 3
"""Waves of a further section: one to start, two to measure while blocks are replaced."""
LEAST_SECTIONS, MOST_SECTIONS = 2, 6
"""Further sections."""
SHARES = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
"""Parts of the chip that may stand for the whole."""
LEAST_REDUCTION = 4
"""A grid that can't be reduced so far is timed in full."""
PART_ERROR = 0.023
"""What half a chip adds to the expected error, more as the root of the part: fewer slices and channels even out less.  On a sixteenth that is
6.6 %; the root of the mean square of the errors of thirteen kernels there is 5.8 % (``python -m bench.sampled``)."""
MODEL_ERROR = 0.005
WARM_TIMES = 3
"""Blocks in front of a section go through L2's tags until they have asked for so many times its size."""
WARM_TURN = 4096
"""Blocks between two looks whether the launch was cancelled."""

RangeCallback = Callable[[int, int], Counts]
"""Runs ``count`` blocks from a linear number on, without time."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which blocks are timed, on which part of the chip."""

    share: float
    """SMs that time over SMs of the chip."""
    chip: Chip
    resident: int
    """Blocks that the timing SMs hold at once."""
    sections: tuple[range, ...]

    @property
    def timed_blocks(self) -> int:
        return sum(map(len, self.sections))


def part_of(chip: Chip, share: float) -> Chip:
    """A chip of about ``share`` of the SMs, with as much bandwidth for each SM as the whole chip has, and all of its L2.

    GPCs keep their number of SMs down to two GPCs, one for each L2 partition; below that they shrink.
    """
    if share == 1.0:
        return chip
    sms = max(2, round(chip.sm.sm_count * share))
    exact = sms / chip.sm.sm_count
    gpcs = max(2, round(len(chip.sm.gpc_sm_counts) * share))
    counts = [sms // gpcs + (1 if i < sms % gpcs else 0) for i in range(gpcs)]
    slices = max(2, 2 * round(chip.l2.l2_slice_count * exact / 2))
    per_slice = max(1, chip.dram.dram_channel_count // chip.l2.l2_slice_count)

    def for_slices(whole: float) -> int:
        return max(1, round(whole * exact * chip.l2.l2_slice_count / slices))

    def for_gpcs(whole: float) -> int:
        return max(32, round(whole * exact * len(chip.sm.gpc_sm_counts) / gpcs))

    return chip.model_copy(
        update={
            "sm": chip.sm.model_copy(update={"sm_count": sms, "gpc_sm_counts": counts, "cluster_sm_counts": counts}),
            "crossbar": chip.crossbar.model_copy(
                update={
                    "gpc_read_bytes_per_clk": for_gpcs(chip.crossbar.gpc_read_bytes_per_clk),
                    "gpc_write_bytes_per_clk": for_gpcs(chip.crossbar.gpc_write_bytes_per_clk),
                }
            ),
            "l2": chip.l2.model_copy(
                update={
                    "l2_slice_count": slices,
                    "l2_slice_bytes_per_clk": for_slices(chip.l2.l2_slice_bytes_per_clk),
                    "l2_far_bytes_per_clk": max(32, round(chip.l2.l2_far_bytes_per_clk * exact)),
                }
            ),
            "dram": chip.dram.model_copy(
                update={
                    "dram_gb_per_s": chip.dram.dram_gb_per_s * exact,
                    "dram_channel_count": slices * per_slice,
                }
            ),
            "launch": chip.launch.model_copy(
                update={"block_dispatch_interval_cycles": chip.launch.block_dispatch_interval_cycles / exact}
            ),
        }
    )


def _length(resident: int) -> int:
    """Blocks of a further section."""
    return WAVES * resident


def plan(chip: Chip, blocks: int, occupancy: Occupancy) -> Plan | None:
    """Choose the part of the chip and the sections; None where the grid is too small to leave much out.

    The largest part is taken on which the least number of sections stays within the budget, else the smallest part.  The
    first section ends in the same part of a wave as the whole grid does, so that its last wave drains as the grid's last
    one; the others stand in the middle of equal stretches of the rest.
    """
    budget = blocks / REDUCTION
    for share in SHARES:
        part = part_of(chip, share)
        resident = part.sm.sm_count * occupancy.blocks_per_sm
        exact = part.sm.sm_count / chip.sm.sm_count
        first = round((FIRST_WAVES + blocks * exact / resident % 1.0) * resident)
        further = min(int((budget - first) / (_length(resident))), MOST_SECTIONS)
        if further >= LEAST_SECTIONS:
            break
    further = max(further, LEAST_SECTIONS)
    if (first + further * _length(resident)) * LEAST_REDUCTION > blocks or _length(resident) > s.MAX_LOGGED_BLOCKS:
        return None
    sections = [range(first)]
    for index in range(further):
        start = int(first + (index + 0.5) * (blocks - first) / further - _length(resident) / 2)
        sections.append(range(start, start + _length(resident)))
    return Plan(exact, part, resident, tuple(sections))


@dataclass(frozen=True, slots=True)
class _Timed:
    """One section after it ran: durations are cycles of the chip that timed it."""

    instructions: int
    cycles: int
    cost: float
    """Cycles for one warp instruction while the chip was full: from a wave's time on until one wave is left."""


def _time(launch: Prepared, section: range, resident: int, wave: float, turn: Callable[[], bool]) -> _Timed:
    """Run one section from an idle chip to an idle chip; ``turn`` advances one window and says whether blocks are left."""
    state, m = launch.state, launch.state.words
    began = int(m[s.H_NOW]) if section.start else 0
    before = _instructions(state)
    m[s.H_NEXT_BLOCK] = m[s.H_DONE_BLOCKS] = m[s.H_LOG_FIRST] = section.start
    m[s.H_BLOCKS] = section.stop
    m[s.H_LOGGED_BLOCKS] = min(len(section), s.MAX_LOGGED_BLOCKS)
    m[s.H_BEGUN] = 0
    if section.start:
        m[s.H_OVERHEAD] = began
        # Far inside a grid the blocks of an SM are at different places: they start over the length of a wave.
        m[s.H_STAGGER] = round(wave / launch.occupancy.blocks_per_sm)
    full: tuple[int, int] | None = None
    last: tuple[int, int] | None = None
    while turn():
        if m[s.H_NOW] >= began + wave or m[s.H_DONE_BLOCKS] - section.start >= resident:
            mark = int(m[s.H_NOW]), _instructions(state)
            full = full or mark
            if last is None and m[s.H_DONE_BLOCKS] >= section.stop - resident:
                last = mark
    instructions, end = _instructions(state), int(metrics_module.sm_column(state, s.SM_FINISH).max())
    cost = (end - began) / max(instructions - before, 1)
    if full is not None and last is not None and last[1] > full[1]:
        cost = (last[0] - full[0]) / (last[1] - full[1])
    # The first blocks did not pass the dispatcher, the grid's blocks do.
    least = launch.chip.launch.block_dispatch_interval_cycles * len(section) / max(instructions - before, 1)
    return _Timed(instructions - before, end - began, max(cost, least))


def _instructions(state: s.State) -> int:
    return int(metrics_module.sm_column(state, s.SM_INSTRUCTIONS).sum())


def estimate(plan: Plan, timed: Sequence[_Timed], between: Sequence[int]) -> tuple[float, float]:
    """Cycles of the whole grid on the whole chip, and their expected relative error.

    Args:
        between: warp instructions of the untimed blocks behind each section.
    """
    means = [section.cost * plan.share for section in timed[1:]]
    total = float(timed[0].cycles)
    # The first section stands for 1 / share as many blocks of the whole chip, of which it has run only its own.
    rest = [-timed[0].instructions * (1 / plan.share - 1) * means[0]]
    for index, instructions in enumerate(between):
        before, behind = means[max(index - 1, 0)], means[min(index, len(means) - 1)]
        rest.append(instructions * (before + behind) / 2)
    rest += [section.instructions * mean for section, mean in zip(timed[1:], means, strict=True)]
    total += sum(rest)
    statistical = 2 * float(np.std(means, ddof=1) / np.mean(means)) / math.sqrt(len(means)) * sum(rest) / total
    part = PART_ERROR / math.sqrt(2 * plan.share) if plan.share < 1 else 0.0
    return total, math.sqrt(statistical**2 + part**2 + MODEL_ERROR**2)


def _warm(launch: Prepared, first: int, count: int, cancel: CancelCallback | None) -> None:
    """Run blocks without time, with their lines going through L2; the SM on which they run stays as it was, with its counters and ports."""
    end = first + count
    words, sm = launch.state.words, launch.state.sm(0)
    before = words[sm : sm + s.SM_SCALARS].copy()
    while first < end:
        some = min(end - first, WARM_TURN)
        outcome = int(warming.warm_blocks(launch.state.words, launch.static.rows, first, some))
        if outcome == warming.STOPPED:
            handle_stop(launch.state, None)
        if outcome == warming.STUCK:
            raise deadlock(launch.state)
        if cancel is not None and cancel():
            raise TimingCancelled(f"cancelled at block {first:,}")
        first += some
    words[sm : sm + s.SM_SCALARS] = before


def _blocks_that_fill(launch: Prepared, chip: Chip, blocks: int) -> int:
    """How many blocks bring L2 into the state that it has far inside the grid: their accesses are WARM_TIMES its size."""
    sectors = s.counted(launch.state.words, s.SG_READ, s.SG_WRITTEN)
    per_block = max(sectors, 1) * chip.l1.sector_bytes / blocks
    return math.ceil(WARM_TIMES * chip.l2.l2_kib * 1024 / per_block)


def simulate_sampled(
    chip: Chip,
    plan: Plan,
    program: Program,
    lowered: Sequence[Lowered],
    kernel: TracedKernel,
    context: LaunchContext,
    run_range: RangeCallback,
    *,
    threads: int = 1,
    progress: ProgressCallback | None = None,
    cancel: CancelCallback | None = None,
    policies: Policies = OWN_POLICIES,
) -> tuple[TimingResult, Counts]:
    """Run a launch, all of it functionally and the plan's sections in simulated time; result and exact counts.

    Raises:
        TimingError, TimingCancelled: as ``simulate``; and whatever ``run_range`` raises.
    """
    began, worked = time.perf_counter(), time.thread_time()
    blocks = context.geometry.blocks
    launch = prepare(plan.chip, program, lowered, kernel, context, policies)
    done = 0

    def show(inner: Progress) -> None:
        if progress is not None:
            progress(Progress(inner.phase, inner.cycles, max(inner.blocks_done, done), blocks, inner.instructions))

    def turn() -> bool:
        return advance(launch, show, cancel, windows_at_once=1)

    timed: list[_Timed] = []
    between: list[int] = []
    rest = Counts()
    stops = [*(section.start for section in plan.sections[1:]), blocks]
    m = launch.state.words
    wave = 0.0
    for section, stop in zip(plan.sections, stops, strict=True):
        with launch.helpers(threads, show):
            timed.append(_time(launch, section, plan.resident, wave, turn))
        if section.start == 0:
            wave = (timed[0].cycles - chip.launch.launch_overhead_cycles) * plan.resident / len(section)
        gap = stop - section.stop
        warm = (
            min(gap, _blocks_that_fill(launch, chip, sum(map(len, plan.sections[: len(timed)]))))
            if stop < blocks
            else 0
        )
        counts = run_range(section.stop, gap - warm) if gap > warm else Counts()
        m[s.H_WARM_INSTRUCTIONS] = m[s.H_WARM_THREADS] = 0
        m[s.H_LOGGED_BLOCKS] = -s.INF  # blocks without time are in no log
        if warm and progress is not None and not warming.warm_blocks.signatures:
            progress(Progress("compiling", blocks_done=done, blocks=blocks))
        _warm(launch, stop - warm, warm, cancel)
        between.append(counts.warp_instructions + int(m[s.H_WARM_INSTRUCTIONS]))
        rest.warp_instructions += between[-1]
        rest.thread_instructions += counts.thread_instructions + int(m[s.H_WARM_THREADS])
        done = stop
    cycles, expected = estimate(plan, timed, between)
    own = sum(section.instructions for section in timed)
    own_threads = int(metrics_module.sm_column(launch.state, s.SM_THREADS).sum())
    total = Counts(own + rest.warp_instructions, own_threads + rest.thread_instructions, blocks)
    spent = sum(section.cycles for section in timed)
    result = result_of(launch, spent, plan.timed_blocks)
    result.sampling = Sampling(
        plan.timed_blocks, blocks, own, total.warp_instructions, len(timed), plan.share, expected
    )
    once = metrics_module.launch_lookups(launch.state, launch.chip)
    launch.close()
    _scale(result, chip, round(cycles), spent, total, once)
    result.wall_seconds, result.cpu_seconds = time.perf_counter() - began, time.thread_time() - worked
    return result, total


def _scale(result: TimingResult, chip: Chip, cycles: int, spent: int, total: Counts, once: dict[str, float]) -> None:
    """From the timed sections to the whole grid: sums by instructions, but for what a launch does ``once``, cycles by the estimate;
    shares stay as measured."""
    sampling = result.sampling
    assert sampling is not None
    more, longer = total.warp_instructions / max(sampling.timed_instructions, 1), cycles / max(spent, 1)
    values = result.metrics
    for name in values:
        if name.endswith(".sum"):
            own = once.get(name, 0.0)
            values[name] = (values[name] - own) * more + own
        elif name.startswith("sm__cycles_active"):
            values[name] *= longer
    seconds = cycles / (chip.clocks.sm_clock_mhz * 1e6)
    values["gpc__cycles_elapsed.max"] = float(cycles)
    values["gpu__time_duration.sum"] = seconds * 1e9
    values["launch__sm_count"] = float(chip.sm.sm_count)
    for name in ("sm__inst_executed.sum", "smsp__inst_executed.sum"):
        values[name] = float(total.warp_instructions)
    values["smsp__thread_inst_executed.sum"] = float(total.thread_instructions)
    values["sm__inst_executed.avg.per_cycle_elapsed"] = total.warp_instructions / (chip.sm.sm_count * max(cycles, 1))
    values["dram__bytes.sum.per_second"] = values["dram__bytes.sum"] / seconds if seconds else 0.0
    values["sampling__timed_blocks"] = float(sampling.timed_blocks)
    values["sampling__timed_instructions"] = float(sampling.timed_instructions)
    values["sampling__expected_error.pct"] = 100 * sampling.expected_error
    result.cycles, result.seconds = cycles, seconds
    overhead = min(chip.launch.launch_overhead_cycles, cycles)
    result.bounds = {name: overhead + (value - overhead) * longer for name, value in result.bounds.items()}
    result.stalls = {name: round(value * more) for name, value in result.stalls.items()}
    for field in ("instruction_issues", "instruction_stall_cycles", "instruction_stalls"):
        setattr(result, field, np.rint(getattr(result, field) * more).astype(np.int64))
