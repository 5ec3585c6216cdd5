"""Schedulers' activity: issue slots that were used, and warps that were active and eligible in a cycle.

A warp is eligible in a cycle in which its next instruction can issue: it then issues (``selected``) or another warp of its scheduler does
(``not_selected``).  A scheduler leaves a slot empty only if no warp is eligible.  Names are those of Nsight Compute's scheduler
statistics; values are means over all schedulers and over the cycles in which their SM has a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from warpwright.quantity_text import figures, share_text
from warpwright.tools.report.attribution import Attribution, sm_count
from warpwright.tools.report.markup import bar, datum, panel, rows_table

if TYPE_CHECKING:
    from warpwright.run import Run


@dataclass(frozen=True, slots=True)
class SchedulerActivity:
    """Means over all schedulers and over the cycles in which their SM has a block."""

    schedulers: int
    """Of an SM."""
    slots: int
    """Warp slots of a scheduler."""
    active_warps: float
    """Warps that are resident in a cycle."""
    eligible_warps: float
    """Warps that can issue in a cycle."""
    issued: float
    """Issue slots with an instruction, 0 to 1."""
    no_eligible: float
    """Issue slots in which no warp is eligible, 0 to 1."""


def scheduler_activity(run: Run, a: Attribution) -> SchedulerActivity:
    """What the schedulers of a timed run did with their issue slots."""
    assert run.device is not None
    chip = run.device
    counts = {stall.reason: stall.warp_cycles for stall in a.stalls}
    interval, per_clk = chip.issue.issue_interval_cycles, chip.issue.issue_per_clk_count
    active = run.metrics["sm__cycles_active.avg"] * sm_count(run)
    cycles = max(active * chip.sm.sub_core_count, 1.0)
    selected = counts.get("selected", 0)
    issued = min(selected * interval / (per_clk * cycles), 1.0)
    return SchedulerActivity(
        schedulers=chip.sm.sub_core_count,
        slots=chip.sm.max_warps_per_sm // chip.sm.sub_core_count,
        active_warps=a.warp_cycles / cycles,
        eligible_warps=(selected * interval + counts.get("not_selected", 0)) / cycles,
        issued=issued,
        no_eligible=1.0 - issued,
    )


def scheduler_panel(run: Run, a: Attribution, anchor: str) -> str:
    """Issue slots by use, and the warps of a scheduler."""
    found = scheduler_activity(run, a)
    rows = []
    for name, title, meaning, share, kind in (
        ("issued", "issued", "a warp issued an instruction", found.issued, "issue"),
        ("no eligible", "no eligible warp", "all resident warps waited, or none was resident", found.no_eligible, ""),
    ):
        rows.append(
            f"<tr><td>{title}<small>{meaning}</small></td><td>{bar(share, kind)}</td>"
            f"{datum(f'slots: {name}', share, share_text(share))}</tr>"
        )
    slots = rows_table(
        f"Issue slots of the {found.schedulers} schedulers of an SM, in cycles in which the SM had a block.",
        ("slot", "", "share"),
        rows,
        "bars",
    )
    rows = []
    for name, meaning, value in (
        ("active", f"resident, of {found.slots} warp slots", found.active_warps),
        ("eligible", "can issue their next instruction", found.eligible_warps),
    ):
        rows.append(
            f"<tr><td>{name}<small>{escape(meaning)}</small></td><td>{bar(value / found.slots)}</td>"
            f"{datum(f'warps: {name}', value, figures(value))}</tr>"
        )
    warps = rows_table("Warps of a scheduler, mean over the same cycles.", ("warps", "", "mean"), rows, "bars")
    return panel("Schedulers", slots + warps, anchor)
