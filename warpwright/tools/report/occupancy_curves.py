"""Occupancy curves: the theoretical occupancy over block size, registers and shared memory, each with the others as launched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from warpwright.chips import Chip, occupancy
from warpwright.chips.occupancy import OccupancyError
from warpwright.quantity_text import size_text
from warpwright.tools.report.figures import line, svg, text
from warpwright.tools.report.markup import datum, panel, rows_table

if TYPE_CHECKING:
    from warpwright.run import Run

MOST_STEPS = 512
"""Points of a curve."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Resident warps of an SM over one resource of a block."""

    title: str
    name: str
    """Of the resource, as a word."""
    points: tuple[tuple[int, int], ...]
    """Value of the resource and resident warps; 0 where no SM holds the block."""
    here: tuple[int, int]
    """The launch."""
    most: int
    """Warp slots of an SM."""
    shown: Callable[[float], str]
    """A value of the resource with its unit."""


def curves(run: Run) -> tuple[Curve, ...]:
    """The curves of a launch on its chip."""
    chip, program = run.device, run.program
    assert chip is not None
    assert program is not None
    threads = run.block[0] * run.block[1] * run.block[2]
    barriers = max(program.barriers, 1)
    clustered = "clusters" in run.resident.block_limits

    def warps(threads: int, registers: int, shared: int) -> int:
        try:
            found = occupancy(chip, threads, registers, shared, barriers, clustered, program.lanes)
        except OccupancyError:
            return 0
        return found.blocks_per_sm * found.warps_per_block

    sizes = range(program.lanes, chip.sm.max_threads_per_block + 1, program.lanes)
    registers = range(1, chip.sm.max_registers_per_thread + 1)
    step = max(chip.shared.shared_allocation_unit_bytes, 1)
    last = chip.shared.shared_max_per_block_kib * 1024
    step *= -(-last // (step * MOST_STEPS))
    bytes_each = [*range(0, last, step), last]
    here = run.resident.blocks_per_sm * run.resident.warps_per_block
    most = chip.sm.max_warps_per_sm
    shared = run.shared_bytes
    return (
        Curve(
            title="Occupancy over the block size",
            name="threads per block",
            points=tuple((n, warps(n, run.registers, shared)) for n in sizes),
            here=(threads, here),
            most=most,
            shown=lambda n: f"{n:,.0f}",
        ),
        Curve(
            title="Occupancy over registers",
            name="registers per thread",
            points=tuple((n, warps(threads, n, shared)) for n in registers),
            here=(run.registers, here),
            most=most,
            shown=lambda n: f"{n:,.0f}",
        ),
        Curve(
            title="Occupancy over shared memory",
            name="shared memory per block",
            points=tuple((n, warps(threads, run.registers, n)) for n in bytes_each),
            here=(shared, here),
            most=most,
            shown=size_text,
        ),
    )


def draw_curve(curve: Curve) -> str:
    """Steps, with the launch as a dot."""
    width, height, left, right, top, bottom = 340, 210, 38, 14, 12, 42
    last = curve.points[-1][0]

    def px(value: float) -> float:
        return left + value / last * (width - left - right)

    def py(warps: float) -> float:
        return height - bottom - warps / curve.most * (height - top - bottom)

    parts = []
    for quarter in range(5):
        warps = curve.most * quarter / 4
        parts.append(line(left, py(warps), width - right, py(warps), "grid"))
        parts.append(text(left - 5, py(warps) + 4, f"{warps:g}", "tick", "end"))
        parts.append(
            text(
                px(last * quarter / 4),
                height - bottom + 16,
                curve.shown(last * quarter / 4),
                "tick",
                "middle" if quarter < 4 else "end",
            )
        )
    parts.append(text((left + width - right) / 2, height - 6, curve.name, "axis", "middle"))
    x, y = curve.points[0]
    path = [f"M{px(x):.1f} {py(y):.1f}"]
    for value, warps in curve.points[1:]:
        if warps != y:
            path.append(f"H{px(value):.1f}V{py(warps):.1f}")
        y = warps
    path.append(f"H{px(last):.1f}")
    parts.append(f'<path class="curve" d="{"".join(path)}"/>')
    value, warps = curve.here
    title = f"this launch: {curve.shown(value)} {curve.name}, {warps} warps"
    parts.append(
        f'<circle cx="{px(value):.1f}" cy="{py(warps):.1f}" r="5" class="dot"><title>{escape(title)}</title></circle>'
    )
    described = f"{title} of {curve.most}. {_described(curve.points, curve.shown)}"
    return svg(width, height, curve.title, described, parts, "occupancy")


def _described(points: Sequence[tuple[int, int]], shown: Callable[[float], str]) -> str:
    best = max(warps for _, warps in points)
    last = max(value for value, warps in points if warps == best)
    return f"At most {best} warps, up to {shown(last)}."


def occupancy_panel(run: Run, anchor: str) -> str:
    """The three curves, and the blocks that each resource alone would allow."""
    chip = run.device
    assert chip is not None
    found = run.resident
    drawings = "".join(f"<div>{draw_curve(curve)}</div>" for curve in curves(run))
    rows = [
        f"<tr><td>{escape(name)}{' <small>the limit</small>' if name == found.limiter else ''}</td>"
        f"{datum(f'blocks by {name}', blocks, f'{blocks:,}')}"
        f'<td class="num">{blocks * found.warps_per_block:,}</td></tr>'
        for name, blocks in found.block_limits.items()
    ]
    table = rows_table(
        "What each resource alone would allow on an SM.", ("resource", "blocks", "warps"), rows, "compact"
    )
    return panel(
        "Occupancy",
        f'<p class="note">Warps that an SM can hold ({_slots(chip)}), over one resource of the block with the others as launched; '
        f'the dot is this launch.</p><div class="curves">{drawings}</div>{table}',
        anchor,
        "whole",
    )


def _slots(chip: Chip) -> str:
    return f"{chip.sm.max_warps_per_sm} warp slots"
