"""The result of timed graphics: the time of draws on each stage, and their limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from warpwright.graphics.timed.compute_work import KernelTime
from warpwright.graphics.timed.copy_times import CopyTime
from warpwright.graphics.timed.work import (
    COARSE,
    COUNTERS,
    DEPTH,
    DISTRIBUTION,
    FINE,
    FRONT,
    GRAPHICS_KINDS,
    INPUT,
    ROP,
    SETUP,
    STAGES,
    ZCULL,
)

if TYPE_CHECKING:
    from warpwright.graphics.timed.timer import GraphicsTimer

SM_STAGES = ("vertex programs", "geometry programs", "pixel programs")
UNITS = (*(name for name in STAGES if name not in SM_STAGES), "SPs", "SFUs", "texture units", "DRAM", "copies")
"""Resources that can limit a frame: fixed-function stages, and resources that all programs share."""
ADVICE = {
    "front end": "the command stream is the limit: draw more primitives with each call",
    "input assembler": "the input assembler is the limit: use fewer or narrower attributes, or indices, so that vertices are found again",
    "clip and setup": "setup is the limit at one primitive per clock: use fewer triangles, or cull them earlier",
    "coarse raster": "coarse rasterisation is the limit: triangles touch too many tiles for their size",
    "z-cull": "Z-cull is the limit: most of the work is rejected tiles",
    "fine raster": "fine rasterisation is the limit: triangles fill little of the tiles that they touch",
    "early depth": "the ROPs' depth tests are the limit",
    "distribution": "the distribution of quads is the limit: the clusters' programs are short",
    "ROP": "the ROPs' colours are the limit: blend less, write fewer or narrower targets, or draw front to back",
    "SPs": "the programs' arithmetic is the limit: shorten the pixel program, or draw front to back so that fewer pixels are shaded",
    "SFUs": "the special-function units are the limit: use fewer interpolated attributes and transcendental functions",
    "texture units": "the texture units are the limit: take fewer or cheaper samples",
    "copies": "copies and uploads between draws are the limit: make them before the frame, or keep the data in the device's memory",
    "DRAM": "memory is the limit: use compressed textures and narrower targets",
}


@dataclass(frozen=True, slots=True)
class DrawTime:
    """One draw's time, in cycles of the SMs' clock.

    Attributes:
        number: index among all draws and clears, including those without work.
        spans: by stage, when its first work began and its last ended; only stages with work.
        busy: by stage, how long it was busy with the draw, summed over its units.
    """

    number: int
    label: str
    begin: float
    end: float
    spans: dict[str, tuple[float, float]]
    busy: dict[str, float]
    counts: dict[str, int]
    warps: dict[str, int]
    instructions: dict[str, int]
    warp_cycles: dict[str, float]

    @property
    def cycles(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class FrameTime:
    """All draws of a device, and the share of time for which each unit was busy."""

    chip: str
    cycles: float
    seconds: float
    draws: list[DrawTime]
    use: dict[str, float]
    """Share of time for which each of ``UNITS`` was busy, averaged over the units of a kind."""
    counters: dict[str, float]
    resident: list[tuple[float, ...]]
    """Times, and the number of warps of each of ``KINDS`` running on the SMs then."""
    copies: list[CopyTime] = field(default_factory=list)
    """Copies, uploads and blits, in order."""
    kernels: list[KernelTime] = field(default_factory=list)
    """Kernels that ran beside draws, in order."""

    @property
    def copy_cycles(self) -> float:
        """The part of ``cycles`` in which engines copied while nothing was drawn."""
        return sum(copy.end - copy.begin for copy in self.copies)

    @property
    def bottleneck(self) -> str:
        """The busiest unit."""
        return max(self.use, key=lambda name: self.use[name]) if self.use else ""

    @property
    def advice(self) -> str:
        """One sentence."""
        if not self.use:
            return "nothing was drawn"
        name = self.bottleneck
        return f"{ADVICE[name]} ({100 * self.use[name]:.0f}% busy)"

    def shares(self) -> dict[str, float]:
        """Share of each kind of work in the SMs' warp time."""
        by_kind = {kind: sum(d.warp_cycles[kind] for d in self.draws) for kind in GRAPHICS_KINDS}
        by_kind["compute"] = sum(kernel.warp_cycles for kernel in self.kernels)
        total = sum(by_kind.values())
        return {kind: value / total if total else 0.0 for kind, value in by_kind.items()}

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "chip": self.chip,
            "cycles": self.cycles,
            "seconds": self.seconds,
            "use": self.use,
            "counters": self.counters,
            "resident": self.resident,
            "copies": [asdict(copy) for copy in self.copies],
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "draws": [{name: getattr(d, name) for name in DrawTime.__dataclass_fields__} for d in self.draws],
        }


def frame_of(timer: GraphicsTimer) -> FrameTime:
    """The result of everything submitted so far."""
    timer.flush(last=True)
    draws: list[DrawTime] = []
    resident: list[tuple[float, ...]] = []
    number = -1
    for batch, begin in zip(timer.batches, timer.begins, strict=True):
        resident += [(begin + row[0], *row[1:]) for row in batch.resident.tolist()]
        # No warp is left when a batch ends; copies may follow before the next one.
        resident.append((begin + batch.cycles, *[0.0] * (batch.resident.shape[1] - 1)))
        for n, label in enumerate(batch.labels):
            number += 1
            ran = np.isfinite(batch.first[n])
            spans = {
                name: (begin + float(batch.first[n, k]), begin + float(batch.last[n, k]))
                for k, name in enumerate(STAGES)
                if ran[k]
            }
            if not spans:
                continue
            draws.append(
                DrawTime(
                    number,
                    label,
                    min(span[0] for span in spans.values()),
                    max(span[1] for span in spans.values()),
                    spans,
                    {name: float(batch.busy[n, k]) for k, name in enumerate(STAGES) if ran[k]},
                    {name: int(batch.counts[n, k]) for k, name in enumerate(COUNTERS)},
                    {kind: int(batch.warps[n, k]) for k, kind in enumerate(GRAPHICS_KINDS)},
                    {kind: int(batch.instructions[n, k]) for k, kind in enumerate(GRAPHICS_KINDS)},
                    {kind: float(batch.warp_cycles[n, k]) for k, kind in enumerate(GRAPHICS_KINDS)},
                )
            )
    counters: dict[str, float] = {}
    for batch in timer.batches:
        for name, value in batch.units.items():
            counters[name] = counters.get(name, 0.0) + value
    chip, cycles = timer.chip, timer.clock_cycles
    seconds = cycles / (chip.clocks.sm_clock_mhz * 1e6)
    return FrameTime(
        chip.name,
        cycles,
        seconds,
        draws,
        _use(timer, draws, counters, cycles),
        counters,
        resident,
        list(timer.copies),
        list(timer.kernels),
    )


def _use(timer: GraphicsTimer, draws: list[DrawTime], counters: dict[str, float], cycles: float) -> dict[str, float]:
    """How busy each unit was."""
    if not cycles:
        return {}
    chip = timer.chip
    clusters, partitions = len(chip.sm.gpc_sm_counts), chip.l2.l2_slice_count
    counts = {
        FRONT: 1,
        INPUT: 1,
        SETUP: 1,
        COARSE: 1,
        ZCULL: 1,
        FINE: 1,
        DEPTH: partitions,
        DISTRIBUTION: clusters,
        ROP: partitions,
    }
    use = {STAGES[k]: sum(d.busy.get(STAGES[k], 0.0) for d in draws) / (count * cycles) for k, count in counts.items()}
    for unit in ("SP", "SFU"):
        use[f"{unit}s"] = counters.get(f"{unit} busy cycles", 0.0) / (chip.sm.sm_count * cycles)
    use["texture units"] = counters.get("texture busy cycles", 0.0) / (clusters * cycles)
    moved = counters.get("DRAM bytes read", 0.0) + counters.get("DRAM bytes written", 0.0)
    use["DRAM"] = moved / (chip.dram.dram_gb_per_s * 1e3 * cycles / chip.clocks.sm_clock_mhz)
    use["copies"] = sum(copy.end - copy.begin for copy in timer.copies) / cycles
    return use


def described(frame: FrameTime, most: int = 12) -> list[str]:
    """Lines of text: the frame, its units, and the longest draws."""
    clears = sum(draw.label == "clear" for draw in frame.draws)
    draws = len(frame.draws) - clears
    what = [
        f"{number} {name}{'s' if number != 1 else ''}"
        for number, name in ((draws, "draw"), (clears, "clear"))
        if number
    ]
    lines = [
        f"{' and '.join(what) or 'no draw'} took {frame.cycles:,.0f} cycles ({1e3 * frame.seconds:.3f} ms) on {frame.chip}: {frame.advice}",
        "busy: " + ", ".join(f"{name} {100 * share:.0f}%" for name, share in frame.use.items() if share >= 0.005),
    ]
    if frame.copies:
        moved = sum(max(copy.copy.read, copy.copy.written) for copy in frame.copies)
        share = frame.copy_cycles / frame.cycles if frame.cycles else 0.0
        count = f"{len(frame.copies)} {'copies' if len(frame.copies) != 1 else 'copy'}"
        lines.append(
            f"{count} of {moved:,} bytes took {frame.copy_cycles:,.0f} cycles ({100 * share:.0f}%) between the draws"
        )
    lines += [
        f"  kernel {k.label}: from {k.begin:,.0f} to {k.end:,.0f}; {k.blocks:,} blocks, {k.warps:,} warps"
        for k in frame.kernels
    ]
    longest = sorted(frame.draws, key=lambda d: -d.cycles)[:most]
    for d in sorted(longest, key=lambda d: d.number):
        lines.append(
            f"  {d.label}: from {d.begin:,.0f} to {d.end:,.0f}; {d.counts['tiles']:,} tiles, {d.counts['tiles culled']:,} culled, "
            f"{d.counts['quads shaded']:,} quads shaded"
        )
    if len(frame.draws) > most:
        lines.append(f"  and {len(frame.draws) - most} shorter ones")
    return lines
