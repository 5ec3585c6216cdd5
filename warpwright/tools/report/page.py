"""The report: a self-contained HTML page made from attributed runs.

Everything that comes from a program (names of kernels, source text) is escaped, and the page's content security policy
allows its own script only and no connection.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from warpwright.errors import UnsupportedError
from warpwright.quantity_text import time_text
from warpwright.tools.report import launch_sections, overview
from warpwright.tools.report.attribution import Attribution, attribute
from warpwright.tools.report.caches import caches_panel
from warpwright.tools.report.comparison import Comparison
from warpwright.tools.report.evidence import evidence
from warpwright.tools.report.figures import draw_memory, draw_roofline, roofline
from warpwright.tools.report.instruction_mix import mix_panel
from warpwright.tools.report.listing import hot_lines, listing
from warpwright.tools.report.markup import panel, scroll
from warpwright.tools.report.model_panel import model_panel
from warpwright.tools.report.occupancy_curves import occupancy_panel
from warpwright.tools.report.origins import model_of
from warpwright.tools.report.schedulers import scheduler_panel
from warpwright.tools.report.side_by_side import compared_launches, compared_panel
from warpwright.version import __version__

if TYPE_CHECKING:
    from warpwright.run import Run
    from warpwright.tools.report.relieved import Ranking

MOST_DETAILED = 12
"""Launches that are shown in full: the longest ones, as many as the page's size allows; the table lists all."""
MOST_BYTES = 850_000
"""Of the launches shown in full, so that a page opens at once and can be mailed."""


def report_html(
    runs: Sequence[Run],
    *,
    title: str = "",
    rankings: Mapping[int, Ranking] | None = None,
    comparison: Comparison | None = None,
) -> str:
    """The page for some launches, in order.

    Args:
        runs: timed runs.
        title: the page's heading; the kernels' names otherwise.
        rankings: what relieving each resource saves, by index of the run.
        comparison: the same launches of another run, shown beside these (:func:`comparison.compared_with`).

    Raises:
        UnsupportedError: no runs, or one made with timing="off".
    """
    if not runs:
        raise UnsupportedError("there is nothing to report: the program launched no kernel")
    for run in runs:
        if not run.timed:
            raise UnsupportedError(f"this run of {run.kernel} has no report: {run.why_untimed}")
    heading = title or _heading(runs)
    script = files(__package__).joinpath("page.js").read_text(encoding="utf-8")
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    alone = [i for i in range(len(runs)) if not runs[i].shared]
    longest = sorted(alone, key=lambda i: -runs[i].seconds)[:MOST_DETAILED]
    listed = {*longest, *range(min(len(runs), overview.MOST_LISTED))}
    explained = {i: attribute(runs[i]) for i in listed if not runs[i].shared}
    details: dict[int, str] = {}
    for i in longest:
        found = _launch(i, runs[i], explained[i], (rankings or {}).get(i), comparison)
        if details and sum(map(len, details.values())) + len(found) > MOST_BYTES:
            break
        details[i] = found
    model = model_of(runs)
    chip = next((run.device for run in runs if run.device is not None), None)
    modelled = model_panel(model, chip) if model is not None and chip is not None else ""
    body = [
        _top(runs, heading),
        _contents(runs, details, comparison, bool(modelled)),
        '<main id="content" tabindex="-1">',
        modelled,
        overview.launches(runs, overview.limits(explained, rankings or {}), details),
        *([compared_launches(comparison, details)] if comparison is not None else ()),
    ]
    body += [details[i] for i in sorted(details)]
    body += ["</main>", _foot(runs)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(heading)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + f"\n<script>{script}</script>\n</body>\n</html>\n"
    )


def write_report(
    path: str | PathLike[str],
    runs: Sequence[Run],
    *,
    title: str = "",
    rankings: Mapping[int, Ranking] | None = None,
    comparison: Comparison | None = None,
) -> Path:
    """Write :func:`report_html` to a file and give its path."""
    target = Path(path)
    target.write_text(report_html(runs, title=title, rankings=rankings, comparison=comparison), encoding="utf-8")
    return target


# --- pieces -------------------------------------------------------------------------------------------------------------


def _heading(runs: Sequence[Run]) -> str:
    names = list(dict.fromkeys(run.kernel for run in runs))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _chips(runs: Sequence[Run]) -> str:
    names = dict.fromkeys(f"{run.chip} ({run.device.identity.product})" if run.device else run.chip for run in runs)
    return ", ".join(names)


def _top(runs: Sequence[Run], heading: str) -> str:
    total = sum(run.seconds for run in runs)
    count = f"{len(runs):,} launch{'es' if len(runs) != 1 else ''}"
    return (
        '<a class="skip" href="#content">Skip to the content</a>\n<header class="top">'
        f"<h1>{escape(heading)}</h1>"
        f'<p class="quiet">{escape(_chips(runs))} · {count} · {escape(time_text(total))} of simulated time</p></header>'
    )


PARTS = (
    ("limit", "Limit"),
    ("compared", "Both sides"),
    ("evidence", "What the time rests on"),
    ("speed", "Speed of light"),
    ("stalls", "Stall reasons"),
    ("phases", "Launch and tail"),
    ("schedulers", "Schedulers"),
    ("mix", "Instruction mix"),
    ("occupancy", "Occupancy"),
    ("memory", "Memory picture"),
    ("caches", "Caches and memory"),
    ("sms", "SMs"),
    ("hot", "Hot lines"),
    ("code", "Source and machine code"),
    ("counters", "Counters"),
)
"""Parts of a launch that the contents link to: the end of their anchor, and their name there."""


def _contents(runs: Sequence[Run], shown: Mapping[int, str], comparison: Comparison | None, has_model: bool) -> str:
    """Links to the model, to the tables of launches, to each launch that is shown in full, and to its parts."""
    links: list[str] = []
    for i in sorted(shown):
        anchors = ((f"launch-{i + 1}-{part}", name) for part, name in PARTS)
        parts = "".join(f'<li><a href="#{at}">{name}</a></li>' for at, name in anchors if f'id="{at}"' in shown[i])
        is_first = " open" if not links else ""
        links.append(
            f'<li><details{is_first}><summary><a href="#launch-{i + 1}">{i + 1}. {escape(runs[i].kernel)}</a></summary>'
            f"<ul>{parts}</ul></details></li>"
        )
    both = '<li><a href="#compared">Both sides</a></li>' if comparison is not None else ""
    model = '<li><a href="#model">Model</a></li>' if has_model else ""
    return (
        '<nav class="contents" aria-label="Contents"><details open><summary>Contents</summary>'
        f'<ul>{model}<li><a href="#launches">Launches</a></li>{both}{"".join(links)}</ul></details></nav>'
    )


def _launch(index: int, run: Run, a: Attribution, ranking: Ranking | None, comparison: Comparison | None = None) -> str:
    assert run.device is not None
    assert run.program is not None
    at = f"launch-{index + 1}-"
    pair = comparison.of_launch(index) if comparison is not None else None
    roof = roofline(a, run.device, run.seconds, run.instructions)
    roof_panel = panel(
        "Roofline",
        scroll("Roofline", draw_roofline(roof), "roof") + launch_sections.roofline_note(a, roof.unit)
        if roof is not None
        else '<p class="note">The launch moved no bytes, so it has no place on a roofline.</p>',
    )
    memory = scroll("Bytes between units", draw_memory(a.traffic, run.seconds), "wide")
    parts = [
        f'<section class="launch" id="launch-{index + 1}" aria-labelledby="title-{index + 1}"><details open>'
        f'<summary><h2 id="title-{index + 1}">{index + 1}. {escape(run.kernel)}</h2></summary>',
        f'<div id="{at}limit">{launch_sections.answer(a, ranking)}</div>',
        f'<p class="note">{escape(run.schedule_note)}.</p>' if run.schedule_note else "",
        launch_sections.facts(run, a),
        compared_panel(comparison, pair, f"{at}compared") if comparison is not None and pair is not None else "",
        launch_sections.evidence_panel(evidence(a, run.program, run.device), run.device, f"{at}evidence"),
        f'<div class="pair"><div>{launch_sections.speed_of_light(a, f"{at}speed")}{launch_sections.bounds(a)}</div>'
        f"<div>{roof_panel}{launch_sections.stalls(a, f'{at}stalls')}</div></div>",
        f'<div class="pair"><div>{launch_sections.launch_phases(run, f"{at}phases")}{scheduler_panel(run, a, f"{at}schedulers")}</div>'
        f"<div>{mix_panel(a, run.program, f'{at}mix')}</div></div>",
        occupancy_panel(run, f"{at}occupancy"),
        panel("Memory picture", memory, f"{at}memory", "whole"),
        caches_panel(run.metrics, run.device, run.seconds, f"{at}caches"),
        launch_sections.sms(run, f"{at}sms"),
        hot_lines(a, f"{at}hot"),
        listing(a, run.program, f"{at}code"),
        launch_sections.metrics(run, f"{at}counters"),
        "</details></section>",
    ]
    return "\n".join(part for part in parts if part)


def _foot(runs: Sequence[Run]) -> str:
    """The version, and with which caches the launches began."""
    begun = {run.caches for run in runs}
    cold, kept = "with cold caches", "with what earlier launches, copies and fills had left in L2"
    how = f"{cold} or, in a program, {kept}" if len(begun) > 1 else kept if begun == {"kept"} else cold
    return (
        f'<footer class="note">Warpwright {__version__}. Cycles are simulated SM cycles. Launches began {how}.</footer>'
    )
