"""Sections of a launch that show its attribution: limit, facts, speed of light, bounds, stall reasons, SMs, counters."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from warpwright.chips import Chip
from warpwright.quantity_text import amount_text, figures, share_text, size_text, time_text
from warpwright.tools.launch_tables import dims
from warpwright.tools.report.attribution import Attribution, Unit, sm_count
from warpwright.tools.report.evidence import Evidence
from warpwright.tools.report.figures import draw_blocks, draw_sms
from warpwright.tools.report.markup import bar, datum, panel, rows_table, scroll
from warpwright.tools.report.phases import phases, phases_panel
from warpwright.tools.report.quantities import quantity
from warpwright.tools.report.relieved import WORTH_NAMING

if TYPE_CHECKING:
    from warpwright.run import Run
    from warpwright.tools.report.relieved import Ranking, Relief

MOST_NUMBERS = 12
"""Numbers of the chip that are listed with their share of the time."""


def answer(a: Attribution, ranking: Ranking | None) -> str:
    shares = throughput(a)
    if ranking is None:
        return f'<div class="answer"><p data-name="headline">{escape(a.advice)}</p>{shares}</div>'
    rows = "".join(
        f"<tr><td>{escape(relief.what_if.change)}{_advice(relief, ranking)}</td>"
        + datum(
            f"after {relief.what_if.change}",
            relief.what_if.after[ranking.launch],
            f"{relief.what_if.after[ranking.launch]:,}",
        )
        + f'<td class="num">{share_text(round(relief.what_if.saved(ranking.launch), 3) + 0.0)}</td></tr>'
        for relief in ranking.reliefs
    )
    table = (
        f'<table data-name="what-if"><caption>Cycles with each resource relieved; the largest saving first, with what would help.</caption><thead><tr><th scope="col">with</th><th scope="col" class="num">cycles</th><th scope="col" class="num">saved</th></tr></thead><tbody>{rows}</tbody></table>'
        if rows
        else ""
    )
    left_out = "".join(f'<p data-name="left-out">{escape(sentence)}</p>' for sentence in ranking.left_out)
    headline = ranking.headline if ranking.reliefs or not left_out else a.advice
    return f'<div class="answer"><p data-name="headline">{escape(headline)}</p>{shares}{table}{left_out}</div>'


def _advice(relief: Relief, ranking: Ranking) -> str:
    """What a programmer can do about a resource whose relief is worth naming."""
    if relief.what_if.saved(ranking.launch) < WORTH_NAMING:
        return ""
    return f'<small class="under">{escape(relief.resource.advice)}</small>'


def source_of(field: str, chip: Chip) -> str:
    """A number's source; of AMD's chips, of which nothing was published to calibrate on, with what is not anchored called so."""
    source = chip.source(field)
    of_the_chip = chip.kind(field) not in ("assumed", "borrowed")
    return (
        source if of_the_chip or not chip.identity.generation or "not anchored" in source else f"{source}; not anchored"
    )


def evidence_panel(known: Evidence, chip: Chip, anchor: str) -> str:
    """How well the numbers are known that the launch's time rests on."""
    rows = "".join(
        f"<tr><td>{escape(kind)}</td><td>{bar(share)}</td>{datum(f'evidence: {kind}', share, share_text(share))}</tr>"
        for kind, share in known.by_kind.items()
    )
    fields = "".join(
        f'<tr><td class="code">{escape(field)}</td><td>{escape(chip.kind(field))}</td>'
        f'<td class="num">{share_text(share)}</td><td class="source">{escape(source_of(field, chip))}</td></tr>'
        for field, share in list(known.by_field.items())[:MOST_NUMBERS]
        if share >= 0.005
    )
    return (
        f'<div class="panel whole" id="{anchor}"><details><summary>{escape(known.sentence)}</summary><table class="bars"><caption>Share of '
        f"the time by how the number is known that it rests on; “program” is what the machine code alone decides.</caption>"
        '<thead><tr><th scope="col">kind</th><td></td><th scope="col" class="num">share</th></tr></thead>'
        f'<tbody>{rows}</tbody></table><div class="scroll" tabindex="0" role="region" aria-label="Numbers"><table aria-label="Numbers"><thead><tr>'
        '<th scope="col">number</th><th scope="col">kind</th><th scope="col" class="num">share</th><th scope="col">source</th></tr>'
        f"</thead><tbody>{fields}</tbody></table></div></details></div>"
    )


def facts(run: Run, a: Attribution) -> str:
    blocks = run.grid[0] * run.grid[1] * run.grid[2]
    scale = f" {run.library}" if run.library is not None else ""
    facts = [
        ("cycles", datum("cycles", run.cycles, f"{run.cycles:,}", "dd", "")),
        ("time", datum("seconds", run.seconds, f"{time_text(run.seconds)}{scale}", "dd", "")),
        ("grid", f"<dd>{escape(dims(run.grid))} <small>{blocks:,} blocks</small></dd>"),
        ("block", f"<dd>{escape(dims(run.block))}</dd>"),
        ("warp-instructions", datum("instructions", run.instructions, f"{run.instructions:,}", "dd", "")),
        ("IPC of the chip", datum("ipc", run.ipc, figures(run.ipc), "dd", "")),
        ("active threads per warp", f"<dd>{figures(a.arithmetic.lanes)} <small>of 32</small></dd>"),
        ("registers per thread", f"<dd>{run.registers}</dd>"),
        ("shared memory per block", f"<dd>{size_text(run.shared_bytes)}</dd>"),
        (
            "occupancy an SM can hold",
            f"<dd>{share_text(run.occupancy)} <small>{run.resident.blocks_per_sm} blocks, by {escape(run.resident.limiter)}</small></dd>",
        ),
        ("simulated at", f"<dd>{escape(amount_text(run.simulation_speed, ' instructions/s'))}</dd>"),
    ]
    reached = run.metrics.get("sm__warps_active.avg.pct_of_peak_sustained_active")
    if reached is not None:
        facts.insert(10, ("occupancy reached", datum("occupancy", reached / 100, share_text(reached / 100), "dd", "")))
    return '<dl class="facts">' + "".join(f"<div><dt>{name}</dt>{value}</div>" for name, value in facts) + "</dl>"


def speed_of_light(a: Attribution, anchor: str) -> str:
    rows = []
    for group in ("SM", "memory"):
        rows.append(f'<tr class="group"><th scope="colgroup" colspan="3">{group[0].upper()}{group[1:]}</th></tr>')
        for unit in a.units:
            if unit.group == group:
                rows.append(
                    f"<tr><td>{escape(unit.name)}<small>{escape(unit.peak)}</small></td><td>{bar(unit.share)}</td>"
                    + datum(f"unit: {unit.name}", unit.share, share_text(unit.share))
                    + "</tr>"
                )
    table = rows_table(
        "Share of each unit’s peak over the whole launch, mean of all its instances.",
        ("unit", "", "share"),
        rows,
        "bars",
    )
    return panel("Speed of light", table, anchor)


def stalls(a: Attribution, anchor: str) -> str:
    rows = []
    for stall in a.stalls:
        kind = "issue" if stall.reason == "selected" else ""
        rows.append(
            f"<tr><td>{escape(stall.reason.replace('_', ' '))}<small>{escape(stall.meaning)}</small></td>"
            f"<td>{bar(stall.share, kind)}</td>"
            + datum(f"stall: {stall.reason}", stall.warp_cycles, share_text(stall.share))
            + "</tr>"
        )
    table = rows_table(
        f"Of {a.warp_cycles:,} warp-cycles; reasons in Nsight Compute’s words.", ("reason", "", "share"), rows, "bars"
    )
    return panel("What warps did with their time", table, anchor)


def bounds(a: Attribution) -> str:
    rows = []
    for bound in a.bounds:
        if bound.cycles > a.overhead_cycles:
            rows.append(
                f"<tr><td>{escape(bound.name)}</td><td>{bar(bound.share)}</td>"
                + datum(f"bound: {bound.name}", bound.cycles, f"{bound.cycles:,.0f}")
                + f'<td class="num">{share_text(bound.share)}</td></tr>'
            )
    if not rows:
        rows.append('<tr><td colspan="4">No unit needed longer than the launch overhead.</td></tr>')
    table = rows_table(
        f"Cycles that each unit needs at least for this work, with {a.overhead_cycles:,} cycles of launch overhead; share of the "
        "cycles after it.",
        ("unit", "", "cycles", "share"),
        rows,
        "bars",
    )
    return panel("Lower bounds", table)


def roofline_note(a: Attribution, unit: str) -> str:
    if unit == "FLOP":
        return (
            '<p class="note">Operations are counted by instruction with the launch’s mean of '
            f"{figures(a.arithmetic.lanes)} active threads. Each dot is the same speed over the bytes of one memory.</p>"
        )
    return (
        '<p class="note">The kernel does no floating-point work, so this roofline counts warp-instructions. Each dot is the '
        "same speed over the bytes of one memory.</p>"
    )


def launch_phases(run: Run, anchor: str) -> str:
    """The launch's waves, overhead and tail."""
    assert run.timing is not None
    count = run.grid[0] * run.grid[1] * run.grid[2]
    found = None if run.sampling is not None else phases(run.timing.blocks, count, run.cycles)
    return phases_panel(found, count, run.resident.blocks_per_sm * sm_count(run), anchor)


def sms(run: Run, anchor: str) -> str:
    assert run.device is not None
    assert run.timing is not None
    if run.sampling is not None:
        note = f"{run.sampling}; the activity of the other SMs and blocks is not known."
        return panel("SMs", f'<p class="note">Cycles are {escape(note)}</p>', anchor, "whole")
    blocks = run.timing.sm["blocks"]
    idle = int((blocks == 0).sum())
    fewest, most = int(blocks.min()), int(blocks.max())
    facts = f"Blocks per SM: {fewest:,} to {most:,}." if fewest < most else f"Blocks per SM: {most:,}."
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
            f"are stacked. {told}</p>{scroll('Blocks over time', drawing, 'wide')}"
        )
    return panel(
        "SMs",
        f'<p class="note">Cycles with at least one block, of all cycles of the launch. {facts}</p>'
        f"{scroll('Activity of the SMs', draw_sms(run, run.device), 'wide')}{timeline}",
        anchor,
        "whole",
    )


def metrics(run: Run, anchor: str) -> str:
    rows = "".join(
        f'<div><span class="code">{escape(name)}</span>{datum(name, value, quantity(name, value), "span")}</div>'
        for name, value in sorted(run.metrics.items())
    )
    return (
        f'<div class="panel whole" id="{anchor}"><details><summary><h3>All counters, by Nsight Compute’s names</h3></summary>'
        f'<div class="columns">{rows}</div></details></div>'
    )


def highest(a: Attribution, group: str) -> Unit | None:
    """The unit of a group (SM or memory) that is nearest to its peak: the throughput that Nsight Compute shows for the group."""
    return max((unit for unit in a.units if unit.group == group), key=lambda unit: unit.share, default=None)


def throughput(a: Attribution) -> str:
    """Compute and memory throughput: the highest share of peak among the units of each group."""
    rows = ""
    for title, group in (("Compute", "SM"), ("Memory", "memory")):
        unit = highest(a, group)
        if unit is not None:
            value = datum(f"throughput: {title.lower()}", unit.share, share_text(unit.share), "dd", "")
            rows += f"<div><dt>{title} throughput <small>{escape(unit.name)}</small></dt>{value}{bar(unit.share)}</div>"
    return f'<dl class="throughput">{rows}</dl>'
