"""One launch on several chips: the figures that explain its time, and sentences about the changes from one chip to the next.

Every sentence follows from counters of both runs and numbers of both chips; a figure that differs by less than a seventh is not mentioned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from warpwright.chips import Chip
from warpwright.quantity_text import figures, share_text, size_text, time_text
from warpwright.tools.launch_tables import dims, short_reason

if TYPE_CHECKING:
    from warpwright.run import Run

NOTABLE = 1.15
"""Ratio from which on a difference is mentioned."""
MUCH_CONFLICT, MUCH_LAUNCH, BANDWIDTH_BOUND = 1.15, 0.25, 40.0
RULES = {
    "whole_warp": "sectors of 32 bytes",
    "half_warp_in_order": "half-warps whose lanes access a segment in order, otherwise 32 bytes for each lane",
    "half_warp_any_order": "segments of half-warps, in any order",
    "whole_lines": "whole lines of 128 bytes for loads, segments of 32 for stores",
    "quarter_wavefront": "lines of 64 bytes of quarter-wavefronts",
    "quarter_wavefront_joined": "lines of 64 bytes of quarter-wavefronts, neighbours joined",
}
"""How chips join the lanes' accesses, in words (``chips/sections.py``)."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One launch on one chip."""

    chip: Chip
    seconds: float
    cycles: int
    instructions: int
    load_bytes: float
    """That a warp's load of global memory moves; 0 without loads."""
    store_bytes: float
    l1_hit_percent: float
    l2_hit_percent: float | None
    """None on a chip without a cache for global memory."""
    dram_bytes: float
    dram_percent: float
    """Of the peak."""
    occupancy_percent: float
    active_warps: float
    """Of an SM that has blocks, on average."""
    bank_passes: float
    """Wavefronts of shared memory over what they would be without conflicts; 1 without accesses."""
    launch_share: float
    """Of the time, before the first block runs."""
    lanes: int
    """Of a warp or wavefront."""
    reason: str
    note: str
    """Where the cycles are not those of machine code."""


def _over(metrics: Mapping[str, float], above: str, below: str, scale: float = 1.0) -> float:
    return scale * metrics.get(above, 0.0) / metrics[below] if metrics.get(below) else 0.0


def figures_of(run: Run) -> Figures:
    """The figures of a timed run.

    Raises:
        ValueError: the run has no cycles.
    """
    if not run.timed or run.device is None:
        raise ValueError(f"the run of {run.kernel} has no cycles")
    m, chip = run.metrics, run.device
    bank, conflicts = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", m.get("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", 0.0)  # fmt: skip
    wavefronts = m.get(bank, 0.0)
    lsu, sector = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum", float(chip.l1.sector_bytes)
    return Figures(
        chip=chip,
        seconds=run.seconds,
        cycles=run.cycles,
        instructions=run.instructions,
        load_bytes=_over(m, lsu.format("sectors", "ld"), lsu.format("requests", "ld"), sector),
        store_bytes=_over(m, lsu.format("sectors", "st"), lsu.format("requests", "st"), sector),
        l1_hit_percent=m.get("l1tex__t_sector_hit_rate.pct", 0.0),
        l2_hit_percent=m.get("lts__t_sector_hit_rate.pct", 0.0) if chip.l2.l2_keeps_data else None,
        dram_bytes=m.get("dram__bytes.sum", 0.0),
        dram_percent=m.get("dram__throughput.avg.pct_of_peak_sustained_elapsed", 0.0),
        occupancy_percent=100 * run.occupancy,
        active_warps=m.get("sm__warps_active.avg.pct_of_peak_sustained_active", 0.0) / 100 * chip.sm.max_warps_per_sm,
        bank_passes=wavefronts / (wavefronts - conflicts) if wavefronts > conflicts else 1.0,
        launch_share=min(chip.launch.launch_overhead_cycles / max(run.cycles, 1), 1.0),
        lanes=run.program.lanes if run.program is not None else 32,
        reason=short_reason(run),
        note=run.schedule_note,
    )


def changed(before: float, now: float) -> bool:
    """Whether a figure differs enough to be mentioned."""
    low, high = sorted((before, now))
    return high > 0 and (low <= 0 or high / low >= NOTABLE)


def wave(f: Figures) -> str:
    """What the lanes that execute one instruction are called."""
    return "warp" if f.lanes == 32 else f"wavefront of {f.lanes} lanes"


# --- what changed -------------------------------------------------------------------------------------
def _transactions(before: Figures, now: Figures) -> str:
    """Bytes that a warp's accesses move, with the rule that joins them."""
    told = [
        f"a {what} by a {wave(now)} moves {now_bytes:,.0f} bytes instead of {before_bytes:,.0f}"
        for what, before_bytes, now_bytes in (
            ("load", before.load_bytes, now.load_bytes),
            ("store", before.store_bytes, now.store_bytes),
        )
        if before_bytes and changed(before_bytes, now_bytes)
    ]
    if not told:
        return ""
    rules = before.chip.l1.coalescing, now.chip.l1.coalescing
    how = f" ({RULES[rules[1]]}; before: {RULES[rules[0]]})" if rules[0] != rules[1] else ""
    return ", ".join(told) + how


def _caches(before: Figures, now: Figures) -> str:
    if now.l2_hit_percent is not None and before.l2_hit_percent is None:
        return (
            f"caches are new: {share_text(now.l1_hit_percent / 100)} of loads hit in L1, {share_text(now.l2_hit_percent / 100)} of requests in L2 of"
            f" {now.chip.l2.l2_kib / 1024:g} MiB"
        )
    if now.l2_hit_percent is None or before.l2_hit_percent is None:
        return ""
    told = [
        f"{name} hits {share_text(ours / 100)} instead of {share_text(theirs / 100)}"
        for name, theirs, ours in (
            ("L1", before.l1_hit_percent, now.l1_hit_percent),
            ("L2", before.l2_hit_percent, now.l2_hit_percent),
        )
        if abs(ours - theirs) >= 10
    ]
    return " and ".join(told)


def _dram(before: Figures, now: Figures) -> str:
    """Traffic, and the bandwidth where it limits one of the two."""
    told = []
    if changed(before.dram_bytes, now.dram_bytes):
        told.append(f"DRAM moves {size_text(now.dram_bytes)} instead of {size_text(before.dram_bytes)}")
    peaks = before.chip.dram.dram_gb_per_s, now.chip.dram.dram_gb_per_s
    if max(before.dram_percent, now.dram_percent) >= BANDWIDTH_BOUND and changed(*peaks):
        told.append(
            f"its DRAM has {figures(peaks[1] / peaks[0])} times the bandwidth, of which {share_text(now.dram_percent / 100)} is used"
        )
    return " and ".join(told)


def _banks(before: Figures, now: Figures) -> str:
    if not changed(before.bank_passes, now.bank_passes):
        return ""
    count = now.chip.shared.shared_bank_count
    banks = f" in {count} banks" if count != before.chip.shared.shared_bank_count else ""
    return f"an access of shared memory takes {figures(now.bank_passes)} times its passes for conflicts{banks} instead of {figures(before.bank_passes)}"


def _warps(before: Figures, now: Figures) -> str:
    if not changed(before.active_warps, now.active_warps):
        return ""
    # As few decimals as distinguish the two, at most three.
    number, old = next(
        texts for n in range(4) if len(set(texts := [f"{f.active_warps:.{n}f}" for f in (now, before)])) == 2 or n == 3
    )
    waves = wave(now).split()[0] + ("" if number == "1" else "s")
    return f"an SM has {number} active {waves} instead of {old}, of at most {now.chip.sm.max_warps_per_sm}"


def _machine(before: Figures, now: Figures) -> str:
    old, new = (f.chip.sm.sm_count * f.chip.clocks.sm_clock_mhz for f in (before, now))
    if not changed(old, new):
        return ""
    return f"{now.chip.sm.sm_count} SMs at {now.chip.clocks.sm_clock_mhz:,} MHz instead of {before.chip.sm.sm_count} at {before.chip.clocks.sm_clock_mhz:,}"


def _instructions(before: Figures, now: Figures) -> str:
    if not changed(before.instructions, now.instructions):
        return ""
    of = "" if now.lanes == before.lanes else f", each for {now.lanes} lanes instead of {before.lanes}"
    return f"its code executes {figures(now.instructions / before.instructions)} times the instructions{of}"


def _launch(before: Figures, now: Figures) -> str:
    if now.launch_share < MUCH_LAUNCH:
        return ""
    return f"{share_text(now.launch_share)} of the time is before the first block runs"


CLAUSES: tuple[Callable[[Figures, Figures], str], ...] = (
    *(_transactions, _caches, _dram, _banks, _machine, _warps, _instructions, _launch),
)


def _pace(ratio: float) -> str:
    """The words for a time that is so many times as short; times that differ by less than the digits shown are the same."""
    if figures(max(ratio, 1 / ratio)) == figures(1.0):
        return "about as fast as"
    return f"{figures(ratio)} times as fast as" if ratio >= 1 else f"{figures(1 / ratio)} times as long as"


def difference(before: Figures, now: Figures) -> str:
    """A paragraph: how much faster or slower, what changed, and what limits the launch now."""
    told = [clause for clause in (make(before, now) for make in CLAUSES) if clause]
    why = f": {'; '.join(told)}" if told else ""
    limit = f" Limited by: {now.reason}" + (f" (before: {before.reason})." if before.reason != now.reason else ".")
    note = f" {now.note}." if now.note and now.note != before.note else ""
    return f"{now.chip.name} takes {time_text(now.seconds)}, {_pace(before.seconds / now.seconds)} {before.chip.name}{why}.{limit}{note}"


# --- launches of several chips -------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of the program, by chip; a chip that launched something else in its place is missing."""

    kernel: str
    grid: str
    block: str
    runs: Mapping[str, Run]

    def figures(self) -> dict[str, Figures]:
        """Of the runs with cycles, in the order of the chips."""
        return {chip: figures_of(run) for chip, run in self.runs.items() if run.timed}

    def differences(self) -> list[str]:
        """What changed from each chip to the next."""
        found = list(self.figures().values())
        return [difference(before, now) for before, now in pairwise(found)]


def match_launches(by_chip: Mapping[str, Sequence[Run]]) -> list[Launch]:
    """Launches matched by their place in the program; a program that launches other kernels on another chip has launches of its own for them."""
    keys: list[tuple[str, str, str]] = []
    runs: list[dict[str, Run]] = []
    for chip, launched in by_chip.items():
        at = 0
        for run in launched:
            key = (run.kernel, dims(run.grid), dims(run.block))
            place = next((i for i in range(at, len(keys)) if keys[i] == key), len(keys))
            if place == len(keys):
                keys.append(key)
                runs.append({})
            runs[place][chip] = run
            at = place + 1
    return [Launch(*key, found) for key, found in zip(keys, runs, strict=True)]
