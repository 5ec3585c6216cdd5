"""Drawings of the report as SVG text: roofline, memory picture, SM activity.

Colours are classes of the page's style sheet, so that drawings follow light and dark.  Each drawing has a title and a
description for those who don't see it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpwright.chips import Chip
from warpwright.quantity_text import amount_text, figures, share_text, size_text
from warpwright.tools.report.attribution import Attribution, Traffic

if TYPE_CHECKING:
    from warpwright.run import Run


def svg(width: int, height: int, title: str, description: str, parts: Sequence[str], kind: str, top: int = 0) -> str:
    """A drawing that scales with its column; ``top`` is the y of its upper edge."""
    return (
        f'<svg class="figure {kind}" viewBox="0 {top} {width} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{''.join(parts)}</svg>"
    )


def chart(width: int, height: int, title: str, description: str, parts: Sequence[str]) -> str:
    """A drawing of a sweep or study, at most of its own size; it scrolls sideways where its text would be too small to read."""
    drawing = svg(width, height, title, description, parts, "sweep")
    return (
        f'<div class="scroll chart" style="--wide: {width}px" tabindex="0" role="region" aria-label="{escape(title)}">'
        f"{drawing}</div>"
    )


def power_text(power: int) -> str:
    """A power of ten beside an axis: ``100``, ``1 k``, ``10 M``."""
    number, _, prefix = amount_text(10.0**power).partition(" ")
    shown = number.rstrip("0").rstrip(".") if "." in number else number
    return f"{shown} {prefix}".rstrip()


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start", rotate: float = 0) -> str:
    """A piece of text; ``rotate`` in degrees about its place."""
    turn = f' transform="rotate({rotate:.1f} {x:.1f} {y:.1f})"' if rotate else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"{turn}>{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def rectangle(x: float, y: float, width: float, height: float, kind: str, round_by: float = 0, title: str = "") -> str:
    inside = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" rx="{round_by}" '
        f'class="{kind}">{inside}</rect>'
    )


# --- roofline ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Roof:
    """One ceiling: a peak of the SMs (flat) or of a memory (slope, in bytes or transactions per second)."""

    name: str
    value: float
    slope: bool


@dataclass(frozen=True, slots=True)
class Roofline:
    """The launch among its ceilings."""

    unit: str
    """FLOP or warp-instructions."""
    per: str
    """byte."""
    performance: float
    """Units per second."""
    roofs: tuple[Roof, ...]
    points: tuple[tuple[str, float], ...]
    """Intensity (units per byte) by memory level."""


def roofline(a: Attribution, chip: Chip, seconds: float, instructions: int) -> Roofline | None:
    """The launch's roofline: of floating-point work, or of warp-instructions when there is none; None without bytes."""
    hertz = chip.clocks.sm_clock_mhz * 1e6
    sub_cores = chip.sm.sm_count * chip.sm.sub_core_count
    slopes = [
        ("DRAM", chip.dram.dram_gb_per_s * 1e9, a.traffic.dram_read + a.traffic.dram_write),
        (
            "L2",
            chip.l2.l2_slice_count * chip.l2.l2_slice_bytes_per_clk * hertz,
            a.traffic.l2_read + a.traffic.l2_write + a.traffic.l2_atomic,
        ),
        (
            "L1 and shared",
            chip.l1.l1_data_bytes_per_clk * chip.sm.sm_count * hertz,
            a.traffic.l1_read + a.traffic.l1_write + a.traffic.shared,
        ),
    ]
    used = [(name, rate, amount) for name, rate, amount in slopes if amount > 0]
    if not used or seconds <= 0:
        return None
    work = a.arithmetic.flops
    roofs = [Roof(name, rate, True) for name, rate, _ in used]
    if work > 0:
        unit = "FLOP"
        roofs += flat_peaks(chip, work, a.arithmetic.tensor_flops, a.arithmetic.fp64_flops)
    else:
        unit, work = "instruction", float(instructions)
        roofs.append(
            Roof(
                "issue peak",
                chip.issue.issue_per_clk_count / chip.issue.issue_interval_cycles * sub_cores * hertz,
                False,
            )
        )
    return Roofline(
        unit, "byte", work / seconds, tuple(roofs), tuple((name, work / amount) for name, _, amount in used)
    )


def flat_peaks(chip: Chip, flops: float, tensor_flops: float, fp64_flops: float) -> list[Roof]:
    """The peaks of the units that some floating-point work used."""
    pipes = chip.pipes
    rate = chip.clocks.sm_clock_mhz * 1e6 * chip.sm.sm_count * chip.sm.sub_core_count
    found = []
    if tensor_flops:
        found.append(Roof("FP16 tensor peak", 2 * pipes.tensor_fp16_fma_per_clk * rate, False))
    if flops - tensor_flops - fp64_flops or not fp64_flops:
        lite = pipes.fma_lite_lanes if pipes.fma_lite_in_xu else 2 * pipes.fma_lite_lanes  # products alone
        found.append(Roof("FP32 peak", (2 * pipes.fma_heavy_lanes + lite) * rate, False))
    if fp64_flops:
        found.append(Roof("FP64 peak", 2 * pipes.fp64_lanes * rate, False))
    return found


def peaks(chip: Chip, flops: float, tensor_flops: float, fp64_flops: float) -> tuple[Roof, ...]:
    """DRAM's bandwidth, and the peaks of the units that some floating-point work used."""
    dram = Roof("DRAM", chip.dram.dram_gb_per_s * 1e9, True)
    return (dram, *flat_peaks(chip, flops, tensor_flops, fp64_flops))


@dataclass(frozen=True, slots=True)
class LayerPoint:
    """One place on a roofline of many."""

    name: str
    intensity: float
    """FLOP per byte of DRAM."""
    performance: float
    """FLOP per second."""
    seconds: float


def draw_layers(roofs: Sequence[Roof], points: Sequence[LayerPoint]) -> str:
    """A roofline with numbered points, whose areas are times."""
    slowest = min(point.performance for point in points)
    r = Roofline("FLOP", "byte", slowest, tuple(roofs), tuple((p.name, p.intensity) for p in points))
    axes = _Axes(r)
    parts = [*axes.draw(r), *_draw_roofs(r, axes)]
    longest = max(point.seconds for point in points)
    for number, p in enumerate(points, 1):
        x, y, radius = axes.px(p.intensity), axes.py(p.performance), 4 + 8 * (p.seconds / longest) ** 0.5
        title = f"{escape(p.name)}: {figures(p.intensity)} FLOPs per byte, {amount_text(p.performance, 'FLOP/s')}"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" class="dot layer"><title>{title}</title></circle>'
        )
        parts.append(text(x + radius + 2, y + 4, str(number), "dotname"))
    where = "; ".join(f"{n}: {p.name}" for n, p in enumerate(points, 1))
    return svg(axes.width, axes.height, "Roofline by module", f"{where}.", parts, "roofline")


def _together(points: Sequence[tuple[str, float]], px: Callable[[float], float]) -> list[tuple[list[str], float]]:
    """Points from left to right, those that would cover each other as one."""
    groups: list[tuple[list[str], float]] = []
    for name, x in sorted(points, key=lambda point: point[1]):
        if groups and px(x) - px(groups[-1][1]) < 8:
            groups[-1][0].append(name)
        else:
            groups.append(([name], x))
    return groups


class _Axes:
    """Both axes of a roofline, logarithmic: from values to places in the drawing."""

    width, height, left, right, top, bottom = 560, 340, 64, 16, 14, 48

    def __init__(self, r: Roofline) -> None:
        flats = [roof.value for roof in r.roofs if not roof.slope]
        slopes = [roof.value for roof in r.roofs if roof.slope]
        self.best = max(flats)
        low_x = min(*(x for _, x in r.points), self.best / max(slopes)) / 4
        high_x = max(*(x for _, x in r.points), max(self.best / slope for slope in slopes)) * 4
        low_y = min(r.performance / 5, min(flats) / 100, self.best / 1000)
        self.x0, self.x1 = math.floor(math.log10(low_x)), math.ceil(math.log10(high_x))
        self.y0, self.y1 = math.log10(low_y), math.log10(self.best * 2.5)

    def px(self, value: float) -> float:
        return self.left + (math.log10(value) - self.x0) / (self.x1 - self.x0) * (self.width - self.left - self.right)

    def py(self, value: float) -> float:
        height = self.height - self.top - self.bottom
        return self.height - self.bottom - (math.log10(value) - self.y0) / (self.y1 - self.y0) * height

    def draw(self, r: Roofline) -> list[str]:
        """Grid, ticks and titles."""
        px, py, foot = self.px, self.py, self.height - self.bottom
        parts = []
        for power in range(self.x0, self.x1 + 1):
            parts.append(line(px(10**power), self.top, px(10**power), foot, "grid"))
            parts.append(text(px(10**power), foot + 16, f"{10.0**power:g}", "tick", "middle"))
        for power in range(math.ceil(self.y0), math.floor(self.y1) + 1):
            parts.append(line(self.left, py(10**power), self.width - self.right, py(10**power), "grid"))
            parts.append(text(self.left - 6, py(10**power) + 4, power_text(power), "tick", "end"))
        middle = (self.left + self.width - self.right) / 2
        parts.append(text(middle, self.height - 10, f"{r.unit}s per {r.per}", "axis", "middle"))
        parts.append(text(14, (self.top + foot) / 2, f"{r.unit}s per second", "axis", "middle", -90))
        return parts


def draw_roofline(r: Roofline) -> str:
    """Both axes logarithmic; one slope for each memory, one dot for each memory's intensity."""
    axes = _Axes(r)
    parts = [*axes.draw(r), *_draw_roofs(r, axes), *_draw_points(r, axes)]
    reached = amount_text(r.performance, ("FLOP" if r.unit == "FLOP" else "inst") + "/s")
    where = "; ".join(f"{name} {figures(x)} {r.unit}s per byte" for name, x in r.points)
    return svg(axes.width, axes.height, f"Roofline: {reached}", f"{where}.", parts, "roofline")


def _draw_roofs(r: Roofline, axes: _Axes) -> list[str]:
    px, py = axes.px, axes.py
    slopes = [roof for roof in r.roofs if roof.slope]
    parts = []
    angle = -math.degrees(math.atan2(py(1) - py(10), px(10) - px(1)))
    for number, roof in enumerate(sorted(slopes, key=lambda one: -one.value)):
        start_x = max(10.0**axes.x0, 10**axes.y0 / roof.value)
        end_x = min(axes.best / roof.value, 10.0**axes.x1)
        parts.append(line(px(start_x), py(start_x * roof.value), px(end_x), py(end_x * roof.value), "roof"))
        # Names sit at different heights of neighbouring slopes, so that they don't meet.
        along = start_x * (end_x / start_x) ** (0.62 - 0.2 * number)
        name = f"{roof.name} {amount_text(roof.value, 'B/s')}"
        # Above its slope, where the slope above is far enough; the lowest's below it.
        away = (4, 14) if 0 < number == len(slopes) - 1 else (-4, -6)
        parts.append(text(px(along) + away[0], py(along * roof.value) + away[1], name, "label", "middle", angle))
    steepest = max(roof.value for roof in slopes)
    edge = axes.width - axes.right
    for roof in r.roofs:
        if not roof.slope:
            parts.append(line(px(roof.value / steepest), py(roof.value), edge, py(roof.value), "roof"))
            name = f"{roof.name} {amount_text(roof.value, ('FLOP' if r.unit == 'FLOP' else 'inst') + '/s')}"
            parts.append(text(edge - 4, py(roof.value) - 5, name, "label", "end"))
    return parts


def _draw_points(r: Roofline, axes: _Axes) -> list[str]:
    px = axes.px
    xs = [px(x) for _, x in r.points]
    y = axes.py(r.performance)
    parts = [line(min(xs), y, max(xs), y, "reach")]
    for number, (names, x) in enumerate(_together(r.points, px)):
        title = f"{escape(', '.join(names))}: {figures(x)} {r.unit}s per byte"
        parts.append(f'<circle cx="{px(x):.1f}" cy="{y:.1f}" r="5" class="dot"><title>{title}</title></circle>')
        short = ", ".join(name.split(" ")[0] for name in names)
        parts.append(text(px(x), y + (18 if number % 2 == 0 else -10), short, "dotname", "middle"))
    return parts


# --- memory picture -----------------------------------------------------------------------------------------------------


def draw_memory(t: Traffic, seconds: float) -> str:
    """SM, L1 and shared memory, L2, DRAM as boxes; arrows carry bytes, thicker for more."""
    width, height, top = 860, 200, 25
    most = max(t.l1_read, t.l1_write, t.shared, t.l2_read, t.l2_write, t.l2_atomic, t.dram_read, t.dram_write, 1.0)
    parts: list[str] = []

    def box(x: float, y: float, w: float, h: float, name: str, below: str) -> None:
        parts.append(rectangle(x, y, w, h, "box", 8))
        parts.append(text(x + w / 2, y + h / 2 - (5 if below else -5), name, "boxname", "middle"))
        if below:
            parts.append(text(x + w / 2, y + h / 2 + 15, below, "boxnote", "middle"))

    def arrow(x1: float, x2: float, y: float, amount: float, label: str) -> None:
        kind = "flow" if amount else "flow none"
        thick = 2 + 12 * (amount / most) ** 0.5 if amount else 1
        head = 6 + thick / 2
        toward = 1 if x2 > x1 else -1
        parts.append(
            f'<path class="{kind}" d="M{x1:.1f} {y - thick / 2:.1f}H{x2 - toward * head:.1f}V{y - head:.1f}L{x2:.1f} {y:.1f}'
            f'L{x2 - toward * head:.1f} {y + head:.1f}V{y + thick / 2:.1f}H{x1:.1f}Z"><title>{escape(label)} {amount:,.0f} bytes</title></path>'
        )
        rate = f" · {amount_text(amount / seconds, 'B/s')}" if amount and seconds > 0 else ""
        parts.append(text((x1 + x2) / 2, y - 14, f"{label} {size_text(amount)}", "flowname", "middle"))
        if rate:
            parts.append(text((x1 + x2) / 2, y + 21, rate.removeprefix(" · "), "flownote", "middle"))

    def hits(rate: float | None) -> str:
        return "no loads" if rate is None else f"{share_text(rate)} hits"

    box(4, 30, 76, 190, "SMs", "")
    box(250, 30, 100, 112, "L1", hits(t.l1_hit_rate))
    conflicts = f"{amount_text(t.bank_conflicts)} conflicts" if t.bank_conflicts else "no conflicts"
    box(250, 166, 100, 54, "Shared", conflicts if t.shared else "not used")
    box(520, 30, 96, 190, "L2", hits(t.l2_hit_rate))
    box(774, 30, 82, 190, "DRAM", "")
    arrow(246, 84, 58, t.l1_read, "reads")
    arrow(84, 246, 112, t.l1_write, "writes")
    arrow(84, 246, 196, t.shared, "shared")
    arrow(516, 354, 58, t.l2_read, "reads")
    arrow(354, 516, 112, t.l2_write, "writes")
    arrow(354, 516, 196, t.l2_atomic, "atomics")
    arrow(770, 620, 70, t.dram_read, "reads")
    arrow(620, 770, 166, t.dram_write, "writes")
    description = (
        f"SM and L1: {size_text(t.l1_read)} read, {size_text(t.l1_write)} written, L1 {hits(t.l1_hit_rate)}. "
        f"Shared memory: {size_text(t.shared)}. L2: {size_text(t.l2_read)} read, {size_text(t.l2_write)} written, "
        f"{size_text(t.l2_atomic)} of atomics, {hits(t.l2_hit_rate)}. DRAM: {size_text(t.dram_read)} read, {size_text(t.dram_write)} written."
    )
    return svg(width, height, "Bytes between units", description, parts, "memory", top)


# --- SMs ----------------------------------------------------------------------------------------------------------------


def draw_sms(run: Run, chip: Chip) -> str:
    """One bar per SM, grouped by GPC: cycles with at least one block, of all cycles."""
    timing = run.timing
    assert timing is not None
    active, blocks = timing.sm["active_cycles"], timing.sm["blocks"]
    instructions = timing.sm["instructions"]
    width, height, left, top, bottom = 860, 170, 64, 12, 34
    gap = 10
    counts = chip.sm.gpc_sm_counts
    step = (width - left - 8 - gap * (len(counts) - 1)) / len(active)
    tall = height - top - bottom
    parts = []
    for share in (0, 0.5, 1):
        y = top + tall * (1 - share)
        parts.append(line(left, y, width - 8, y, "grid"))
        parts.append(text(left - 6, y + 4, share_text(share), "tick", "end"))
    x, index = float(left), 0
    for gpc, count in enumerate(counts):
        parts.append(text(x + step * count / 2, height - bottom + 16, f"GPC {gpc}", "tick", "middle"))
        for _ in range(count):
            bar = tall * float(active[index]) / max(timing.cycles, 1)
            title = (
                f"SM {index}: active {int(active[index]):,} cycles, {int(blocks[index]):,} blocks, "
                f"{int(instructions[index]):,} instructions"
            )
            parts.append(rectangle(x, top + tall - bar, max(step - 1, 1), bar, "sm" if bar else "sm none", 1, title))
            x += step
            index += 1
        x += gap
    description = (
        f"Share of the launch's cycles with at least one block: least {share_text(float(np.min(active)) / max(timing.cycles, 1))}, "
        f"most {share_text(float(np.max(active)) / max(timing.cycles, 1))}."
    )
    return svg(width, height, "Activity of the SMs", description, parts, "sms")


MOST_ROWS = 33
"""SMs of a drawing of blocks: with more, bars get too thin to tell apart, so that every second, third … SM is drawn."""
MOST_SPANS = 1500
"""Blocks of such a drawing; beyond, fewer SMs are drawn."""


def lanes_of(blocks: npt.NDArray[np.int64]) -> list[int]:
    """For each block (rows SM, start, end) the first lane of its SM that is free when it starts."""
    ends: dict[int, list[int]] = {}
    lanes = [0] * len(blocks)
    for i in np.argsort(blocks[:, 1], kind="stable"):
        sm, start, end = (int(v) for v in blocks[i])
        busy = ends.setdefault(sm, [])
        lane = next((n for n, over in enumerate(busy) if over <= start), len(busy))
        if lane == len(busy):
            busy.append(0)
        busy[lane] = end
        lanes[int(i)] = lane
    return lanes


def draw_blocks(run: Run) -> tuple[str, int] | None:
    """Blocks of each SM over time, a row per SM; with it the number of SMs drawn.  None when the run has no times."""
    timing = run.timing
    assert timing is not None
    if timing.blocks is None or not len(timing.blocks):
        return None
    blocks = timing.blocks[timing.blocks[:, 2] > 0]
    used = np.unique(blocks[:, 0])
    counts = np.array([np.count_nonzero(blocks[:, 0] == sm) for sm in used])
    every = max(1, -(-int(counts.sum()) // MOST_SPANS), -(-len(used) // MOST_ROWS))
    drawn = used[::every]
    numbers = np.flatnonzero(np.isin(blocks[:, 0], drawn))
    chosen = blocks[numbers]
    lanes = lanes_of(chosen)
    deep = {int(sm): max(lane for lane, row in zip(lanes, chosen, strict=True) if row[0] == sm) + 1 for sm in drawn}
    width, left, top, bottom = 860, 64, 6, 34
    tall = 14.0
    height = int(top + tall * len(drawn) + bottom)
    scale = (width - left - 8) / max(timing.cycles, 1)
    parts = []
    step = 10 ** math.floor(math.log10(max(timing.cycles, 1)))
    step = next(s for s in (step // 5, step // 2, step, step * 2) if s > 0 and timing.cycles / s <= 8)
    for cycle in range(0, timing.cycles + 1, step):
        x = left + cycle * scale
        parts.append(line(x, top, x, height - bottom, "grid"))
        # The last number may be at the edge.
        parts.append(text(x, height - bottom + 15, f"{cycle:,}", "tick", "end" if x > width - 40 else "middle"))
    parts.append(text(width - 8, height - 4, "cycles", "axis", "end"))
    place = {int(sm): i for i, sm in enumerate(drawn)}
    for i, sm in enumerate(int(one) for one in drawn):
        if i % max(1, round(len(drawn) / 16)) == 0:
            parts.append(text(left - 6, top + tall * i + tall / 2 + 3, f"SM {sm}", "tick", "end"))
    for lane, (sm, start, end) in zip(lanes, chosen.tolist(), strict=True):
        thick = tall / deep[sm]
        y = top + tall * place[sm] + thick * lane
        parts.append(
            f'<path class="block" d="M{left + start * scale:.1f} {y:.2f}h{max((end - start) * scale, 0.5):.1f}v{max(thick - 0.5, thick * 0.7) if thick < 4 else thick - 1.2:.2f}'
            f'H{left + start * scale:.1f}Z"/>'
        )
    lasts = blocks[:, 2] - blocks[:, 1]
    description = (
        f"{len(blocks):,} blocks on {len(used)} SMs; a block lasts {int(lasts.min()):,} to {int(lasts.max()):,} cycles, "
        f"{float(lasts.mean()):,.0f} on average."
    )
    return svg(width, height, "Blocks of the SMs over time", description, parts, "timeline"), len(drawn)
