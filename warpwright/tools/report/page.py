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

from warpwright.chips import Chip
from warpwright.errors import UnsupportedError
from warpwright.tools.report.attribution import Attribution, attribute
from warpwright.tools.report.evidence import Evidence, evidence
from warpwright.tools.report.figures import draw_blocks, draw_memory, draw_roofline, draw_sms, roofline
from warpwright.tools.report.listing import hot_lines, listing
from warpwright.tools.tables import dims, dram_gb_per_s, format_rate, format_seconds
from warpwright.version import __version__

if TYPE_CHECKING:
    from warpwright.run import Run
    from warpwright.tools.report.relieved import Ranking

MOST_DETAILED = 12
"""Launches that are shown in full: the longest ones, as many as the page's size allows; the table lists all."""
MOST_BYTES = 850_000
"""Of the launches shown in full, so that a page opens at once and can be mailed."""
MOST_NUMBERS = 12
"""Numbers of the chip that are listed with their share of the time."""
MOST_LISTED = 500
"""Rows of the table of launches."""


def report_html(runs: Sequence[Run], *, title: str = "", rankings: Mapping[int, Ranking] | None = None) -> str:
    """The page for some launches, in order.

    Args:
        runs: timed runs.
        title: the page's heading; the kernels' names otherwise.
        rankings: what relieving each resource saves, by index of the run.

    Raises:
        UnsupportedError: no runs, or one made with timing="off".
    """
    if not runs:
        raise UnsupportedError("there is nothing to report: the program launched no kernel")
    for run in runs:
        if not run.timed:
            raise UnsupportedError(f"this run of {run.kernel} has no report: its GPU was made with timing='off'")
    heading = title or _heading(runs)
    script = files(__package__).joinpath("page.js").read_text(encoding="utf-8")
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    alone = [i for i in range(len(runs)) if not runs[i].shared]
    longest = sorted(alone, key=lambda i: -runs[i].seconds)[:MOST_DETAILED]
    listed = {*longest, *range(min(len(runs), MOST_LISTED))}
    explained = {i: attribute(runs[i]) for i in listed if not runs[i].shared}
    details: dict[int, str] = {}
    for i in longest:
        found = _launch(i, runs[i], explained[i], (rankings or {}).get(i))
        if details and sum(map(len, details.values())) + len(found) > MOST_BYTES:
            break
        details[i] = found
    body = [_top(runs, heading), '<main id="content">', _launches(runs, _limits(explained, rankings or {}), details)]
    body += [details[i] for i in sorted(details)]
    body += ["</main>", _foot()]
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
    path: str | PathLike[str], runs: Sequence[Run], *, title: str = "", rankings: Mapping[int, Ranking] | None = None
) -> Path:
    """Write :func:`report_html` to a file and give its path."""
    target = Path(path)
    target.write_text(report_html(runs, title=title, rankings=rankings), encoding="utf-8")
    return target


# --- pieces -------------------------------------------------------------------------------------------------------------


def _heading(runs: Sequence[Run]) -> str:
    names = list(dict.fromkeys(run.kernel for run in runs))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _datum(name: str, value: float, shown: str, tag: str = "td", kind: str = "num") -> str:
    """A number as people read it, with its exact value beside it for programs."""
    exact = repr(int(value)) if float(value).is_integer() else repr(float(value))
    return f'<{tag} class="{kind}" data-name="{escape(name)}" data-value="{exact}">{escape(shown)}</{tag}>'


def _percent(share: float) -> str:
    if 0 < share < 0.0005:
        return "<0.1%"
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"


def _bar(share: float, kind: str = "") -> str:
    return f'<span class="bar {kind}" aria-hidden="true"><i style="width:{100 * min(max(share, 0.0), 1.0):.2f}%"></i></span>'


def _chips(runs: Sequence[Run]) -> str:
    names = dict.fromkeys(f"{run.chip} ({run.device.identity.product})" if run.device else run.chip for run in runs)
    return ", ".join(names)


def _top(runs: Sequence[Run], heading: str) -> str:
    total = sum(run.seconds for run in runs)
    count = f"{len(runs):,} launch{'es' if len(runs) != 1 else ''}"
    return (
        '<a class="skip" href="#content">Skip to the content</a>\n<header class="top">'
        f"<h1>{escape(heading)}</h1>"
        f'<p class="quiet">{escape(_chips(runs))} · {count} · {escape(format_seconds(total))} of simulated time</p></header>'
    )


def _limits(explained: Mapping[int, Attribution], rankings: Mapping[int, Ranking]) -> dict[int, str]:
    """Title of what limits each launch: by runs with it relieved where there are any."""
    limits = {}
    for i, a in explained.items():
        relieved = rankings[i].limit if i in rankings else None
        limits[i] = (relieved or a.limit).title
    return limits


def _launches(runs: Sequence[Run], limits: Mapping[int, str], shown: Mapping[int, str]) -> str:
    total = sum(run.seconds for run in runs)
    rows = []
    for i, run in enumerate(runs[:MOST_LISTED]):
        name = f'<a href="#launch-{i + 1}">{escape(run.kernel)}</a>' if i in shown else escape(run.kernel)
        rate = dram_gb_per_s(run)
        limit = limits.get(i, "shared the chip")
        rows.append(
            f'<tr><td class="num">{i + 1}</td><td>{name}</td><td class="nowrap">{escape(dims(run.grid))}</td>'
            f'<td class="nowrap">{escape(dims(run.block))}</td>'
            + _datum("cycles", run.cycles, f"{run.cycles:,}")
            + _datum("seconds", run.seconds, format_seconds(run.seconds))
            + f'<td class="num">{_percent(run.seconds / total if total else 0)}</td>'
            + _datum("ipc", run.ipc, f"{run.ipc:.2f}")
            + f'<td class="num">{"" if rate is None else f"{rate:,.0f}"}</td><td>{escape(limit)}</td></tr>'
        )
    more = ""
    if len(runs) > len(shown):
        which = f"The {len(shown)} longest launches are" if len(shown) > 1 else "The longest launch is"
        more = f'<p class="note">{which} shown in full below.' if shown else '<p class="note">'
        if any(run.shared for run in runs):
            more += " What limits a launch that shared the chip with others is not known; launch it alone."
        more += f" The table holds the first {MOST_LISTED:,}.</p>" if len(runs) > MOST_LISTED else "</p>"
    heads = ("#", "kernel", "grid", "block", "cycles", "time", "share", "IPC", "DRAM GB/s", "limited by")
    numeric = {"#", "cycles", "time", "share", "IPC", "DRAM GB/s"}
    head = "".join(f'<th scope="col"{" class=num" if h in numeric else ""}>{h}</th>' for h in heads)
    return (
        '<section class="card"><h2>Launches</h2><div class="scroll" tabindex="0" role="region" aria-label="Launches"><table>'
        f"<caption>In order; time and share of simulated time.</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>{more}</section>"
    )


def _launch(index: int, run: Run, a: Attribution, ranking: Ranking | None) -> str:
    assert run.device is not None
    assert run.program is not None
    roof = roofline(a, run.device, run.seconds, run.instructions)
    roof_panel = (
        f'<div class="panel"><h3>Roofline</h3><div class="scroll roof" tabindex="0" role="region" '
        f'aria-label="Roofline">{draw_roofline(roof)}</div>{_roofline_note(a, roof.unit)}</div>'
        if roof is not None
        else '<div class="panel"><h3>Roofline</h3><p class="note">The launch moved no bytes, so it has no place on a roofline.</p></div>'
    )
    parts = [
        f'<section class="launch" id="launch-{index + 1}"><h2>{index + 1}. {escape(run.kernel)}</h2>',
        _answer(a, ranking),
        f'<p class="note">{escape(run.schedule_note)}.</p>' if run.schedule_note else "",
        _facts(run, a),
        _evidence(evidence(a, run.program, run.device), run.device),
        f'<div class="pair"><div>{_speed_of_light(a)}{_bounds(a)}</div><div>{roof_panel}{_stalls(a)}</div></div>',
        '<div class="panel whole"><h3>Memory picture</h3><div class="scroll wide" tabindex="0" role="region" '
        f'aria-label="Bytes between units">{draw_memory(a.traffic, run.seconds)}</div></div>',
        _sms(run, a),
        hot_lines(a),
        listing(a, run.program),
        _metrics(run),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _answer(a: Attribution, ranking: Ranking | None) -> str:
    if ranking is None:
        return f'<div class="answer"><p>{escape(a.advice)}</p></div>'
    rows = "".join(
        f"<tr><td>{escape(relief.what_if.change)}</td>"
        + _datum(
            f"after {relief.what_if.change}",
            relief.what_if.after[ranking.launch],
            f"{relief.what_if.after[ranking.launch]:,}",
        )
        + f'<td class="num">{relief.what_if.saved(ranking.launch):+.1%}</td></tr>'
        for relief in ranking.reliefs
    )
    table = (
        f'<table data-name="what-if"><thead><tr><th>with</th><th class="num">cycles</th><th class="num">saved</th></tr></thead><tbody>{rows}</tbody></table>'
        if rows
        else ""
    )
    return f'<div class="answer"><p data-name="headline">{escape(ranking.headline)}</p>{table}</div>'


def _evidence(known: Evidence, chip: Chip) -> str:
    """How well the numbers are known that the launch's time rests on."""
    rows = "".join(
        f"<tr><td>{escape(kind)}</td><td>{_bar(share)}</td>{_datum(f'evidence: {kind}', share, _percent(share))}</tr>"
        for kind, share in known.by_kind.items()
    )
    fields = "".join(
        f'<tr><td class="code">{escape(field)}</td><td>{escape(chip.kind(field))}</td>'
        f'<td class="num">{_percent(share)}</td><td>{escape(chip.source(field))}</td></tr>'
        for field, share in list(known.by_field.items())[:MOST_NUMBERS]
        if share >= 0.005
    )
    return (
        f'<div class="panel whole"><details><summary>{escape(known.sentence)}</summary><table class="bars"><caption>Share of '
        f"the time by how the number is known that it rests on; “program” is what the machine code alone decides.</caption>"
        f'<tbody>{rows}</tbody></table><div class="scroll" tabindex="0" role="region" aria-label="Numbers"><table><thead><tr>'
        '<th scope="col">number</th><th scope="col">kind</th><th scope="col" class="num">share</th><th scope="col">source</th></tr>'
        f"</thead><tbody>{fields}</tbody></table></div></details></div>"
    )


def _facts(run: Run, a: Attribution) -> str:
    blocks = run.grid[0] * run.grid[1] * run.grid[2]
    facts = [
        ("cycles", _datum("cycles", run.cycles, f"{run.cycles:,}", "dd", "")),
        ("time", _datum("seconds", run.seconds, format_seconds(run.seconds), "dd", "")),
        ("grid", f"<dd>{escape(dims(run.grid))} <small>{blocks:,} blocks</small></dd>"),
        ("block", f"<dd>{escape(dims(run.block))}</dd>"),
        ("warp-instructions", _datum("instructions", run.instructions, f"{run.instructions:,}", "dd", "")),
        ("IPC of the chip", _datum("ipc", run.ipc, f"{run.ipc:.2f}", "dd", "")),
        ("active threads a warp", f"<dd>{a.arithmetic.lanes:.1f} <small>of 32</small></dd>"),
        ("registers a thread", f"<dd>{run.registers}</dd>"),
        ("shared memory a block", f"<dd>{run.shared_bytes:,} B</dd>"),
        (
            "occupancy an SM can hold",
            f"<dd>{run.occupancy:.0%} <small>{run.resident.blocks_per_sm} blocks, by {escape(run.resident.limiter)}</small></dd>",
        ),
        ("simulated at", f"<dd>{escape(format_rate(run.simulation_speed))} <small>instructions</small></dd>"),
    ]
    reached = run.metrics.get("sm__warps_active.avg.pct_of_peak_sustained_active")
    if reached is not None:
        facts.insert(10, ("occupancy reached", _datum("occupancy", reached / 100, f"{reached / 100:.0%}", "dd", "")))
    return '<dl class="facts">' + "".join(f"<div><dt>{name}</dt>{value}</div>" for name, value in facts) + "</dl>"


def _speed_of_light(a: Attribution) -> str:
    rows = []
    for group in ("SM", "memory"):
        rows.append(f'<tr class="group"><th scope="colgroup" colspan="3">{group[0].upper()}{group[1:]}</th></tr>')
        for unit in a.units:
            if unit.group == group:
                rows.append(
                    f"<tr><td>{escape(unit.name)}<small>{escape(unit.peak)}</small></td><td>{_bar(unit.share)}</td>"
                    + _datum(f"unit: {unit.name}", unit.share, _percent(unit.share))
                    + "</tr>"
                )
    return (
        '<div class="panel"><h3>Speed of light</h3><table class="bars"><caption>Share of each unit’s peak over the whole '
        f"launch, mean of all its instances.</caption><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _stalls(a: Attribution) -> str:
    rows = []
    for stall in a.stalls:
        kind = "issue" if stall.reason == "selected" else ""
        rows.append(
            f"<tr><td>{escape(stall.reason.replace('_', ' '))}<small>{escape(stall.meaning)}</small></td>"
            f"<td>{_bar(stall.share, kind)}</td>"
            + _datum(f"stall: {stall.reason}", stall.warp_cycles, _percent(stall.share))
            + "</tr>"
        )
    return (
        '<div class="panel"><h3>What warps did with their time</h3><table class="bars"><caption>Of '
        f"{a.warp_cycles:,} warp-cycles; reasons in Nsight Compute’s words.</caption><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _bounds(a: Attribution) -> str:
    rows = []
    for bound in a.bounds:
        if bound.cycles > a.overhead_cycles:
            rows.append(
                f"<tr><td>{escape(bound.name)}</td><td>{_bar(bound.share)}</td>"
                + _datum(f"bound: {bound.name}", bound.cycles, f"{bound.cycles:,.0f}")
                + f'<td class="num">{_percent(bound.share)}</td></tr>'
            )
    if not rows:
        rows.append('<tr><td colspan="4">No unit needed longer than the launch overhead.</td></tr>')
    return (
        '<div class="panel"><h3>Lower bounds</h3><table class="bars"><caption>Cycles that each unit needs at least for this '
        f"work, with {a.overhead_cycles:,} cycles of launch overhead; share of the cycles after it.</caption>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _roofline_note(a: Attribution, unit: str) -> str:
    if unit == "FLOP":
        return (
            '<p class="note">Operations are counted by instruction with the launch’s mean of '
            f"{a.arithmetic.lanes:.1f} active threads. Each dot is the same speed over the bytes of one memory.</p>"
        )
    return (
        '<p class="note">The kernel does no floating-point work, so this roofline counts warp-instructions. Each dot is the '
        "same speed over the bytes of one memory.</p>"
    )


def _sms(run: Run, a: Attribution) -> str:
    assert run.device is not None
    assert run.timing is not None
    blocks = run.timing.sm["blocks"]
    idle = int((blocks == 0).sum())
    fewest, most = int(blocks.min()), int(blocks.max())
    facts = f"Blocks an SM: {fewest:,} to {most:,}." if fewest < most else f"Blocks an SM: {most:,}."
    if idle:
        facts += f" {idle} of {len(blocks)} SMs ran none."
    over_time = draw_blocks(run)
    timeline = ""
    if over_time is not None:
        drawing, drawn = over_time
        spans = run.timing.blocks[:, 2] - run.timing.blocks[:, 1]
        told = (
            f"A block lasts {int(spans.min()):,} to {int(spans.max()):,} cycles, {float(spans.mean()):,.0f} on average."
        )
        if len(spans) < run.grid[0] * run.grid[1] * run.grid[2]:
            told += f" The first {len(spans):,} blocks of the grid are drawn."
        busy = len(blocks) - idle
        if drawn < busy:
            told += f" {drawn} of {busy} SMs are drawn."
        timeline = (
            f'<h3>Blocks over time</h3><p class="note">Each row is an SM and each bar is a block; concurrent blocks '
            f'are stacked. {told}</p><div class="scroll wide" tabindex="0" role="region" aria-label="Blocks over time">{drawing}</div>'
        )
    return (
        '<div class="panel whole"><h3>SMs</h3><p class="note">Cycles with at least one block, of all cycles of the launch. '
        f'{facts}</p><div class="scroll wide" tabindex="0" role="region" aria-label="Activity of the SMs">'
        f"{draw_sms(run, run.device)}</div>{timeline}</div>"
    )


def _metrics(run: Run) -> str:
    rows = "".join(
        f'<div><span class="code">{escape(name)}</span>{_datum(name, value, _number(value), "span")}</div>'
        for name, value in sorted(run.metrics.items())
    )
    return (
        '<div class="panel whole"><details><summary>All counters, by Nsight Compute’s names</summary>'
        f'<div class="columns">{rows}</div></details></div>'
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"


def _foot() -> str:
    return f'<footer class="note">Warpwright {__version__}. Cycles are simulated SM cycles, with cold caches.</footer>'
