"""The table of launches, sortable and filterable in the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from warpwright.quantity_text import figures, share_text, time_text
from warpwright.tools.launch_tables import dims, dram_gb_per_s, library_summary, on_several_gpus
from warpwright.tools.report.attribution import Attribution
from warpwright.tools.report.markup import datum

if TYPE_CHECKING:
    from warpwright.run import Run
    from warpwright.tools.report.relieved import Ranking

MOST_LISTED = 500
"""Rows of the table of launches."""


def limits(explained: Mapping[int, Attribution], rankings: Mapping[int, Ranking]) -> dict[int, str]:
    """Title of what limits each launch: by runs with it relieved where there are any."""
    found = {}
    for i, a in explained.items():
        relieved = rankings[i].limit if i in rankings else None
        found[i] = (relieved or a.limit).title
    return found


def _scale(run: Run) -> str:
    """How the time of a launch from a library was scaled."""
    return f" {run.library}" if run.library is not None else ""


def launches(runs: Sequence[Run], limits: Mapping[int, str], shown: Mapping[int, str]) -> str:
    total = sum(run.seconds for run in runs)
    several_gpus = on_several_gpus(runs)
    rows = []
    for i, run in enumerate(runs[:MOST_LISTED]):
        name = f'<a href="#launch-{i + 1}">{escape(run.kernel)}</a>' if i in shown else escape(run.kernel)
        rate = dram_gb_per_s(run)
        limit = limits.get(i, "shared the chip")
        gpu = f'<td class="num">{run.gpu_number}</td>' if several_gpus else ""
        rows.append(
            f'<tr><td class="num">{i + 1}</td><td>{name}</td>{gpu}<td class="nowrap">{escape(dims(run.grid))}</td>'
            f'<td class="nowrap">{escape(dims(run.block))}</td>'
            + datum("cycles", run.cycles, f"{run.cycles:,}")
            + datum("seconds", run.seconds, time_text(run.seconds) + _scale(run))
            + f'<td class="num">{share_text(run.seconds / total if total else 0)}</td>'
            + datum("ipc", run.ipc, figures(run.ipc))
            + f'<td class="num">{"" if rate is None else figures(rate)}</td><td>{escape(limit)}</td></tr>'
        )
    more = f'<p class="note">{escape(scaled)}.</p>' if (scaled := library_summary(runs)) else ""
    if len(runs) > len(shown):
        which = f"The {len(shown)} longest launches are" if len(shown) > 1 else "The longest launch is"
        more += f'<p class="note">{which} shown in full below.' if shown else '<p class="note">'
        if any(run.shared for run in runs):
            more += " What limits a launch that shared the chip with others is not known; launch it alone."
        more += f" The table holds the first {MOST_LISTED:,}.</p>" if len(runs) > MOST_LISTED else "</p>"
    device = ("GPU",) if several_gpus else ()
    heads = ("#", "kernel", *device, "grid", "block", "cycles", "time", "share", "IPC", "DRAM GB/s", "limited by")
    numeric = {"#", "GPU", "cycles", "time", "share", "IPC", "DRAM GB/s"}
    head = "".join(f'<th scope="col"{" class=num" if h in numeric else ""}>{h}</th>' for h in heads)
    return (
        '<section class="card" id="launches" aria-labelledby="title-launches"><h2 id="title-launches">Launches</h2><p class="note">In order; time and share of simulated time.</p><div class="scroll" tabindex="0" role="region" aria-label="Launches"><table class="sortable" aria-label="Launches">'
        f"<thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>{more}</section>"
    )
