"""Sections that show two runs beside each other: a table of all launches, and each launch's numbers with their differences."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from warpwright.quantity_text import figures, time_text
from warpwright.tools.launch_tables import dims
from warpwright.tools.report.comparison import Comparison, Difference, Pair, Row
from warpwright.tools.report.markup import bar, datum, panel, rows_table, scroll
from warpwright.tools.report.quantities import change_of, quantity, title_of

MOST_PAIRS = 500
"""Rows of the table of launches."""
STALLED, PER_ISSUE = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
FIRST = (
    *("cycles", "seconds", "ipc", "warp_instructions", "thread_instructions", "registers_per_thread", "occupancy"),
    *("shared_bytes_per_block", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    *("l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct", "dram__bytes.sum"),
    *("dram__throughput.avg.pct_of_peak_sustained_elapsed", "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    *("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
)
"""Numbers that are shown at once, in this order; the others are in a part that opens."""


def compared_launches(comparison: Comparison, shown: Mapping[int, str]) -> str:
    """All launches, each with its cycles and time on both sides."""
    before, now = escape(comparison.name_before), escape(comparison.name_now)
    rows = [_pair_row(pair, shown) for pair in comparison.pairs[:MOST_PAIRS]]
    total = comparison.total
    gone, new = comparison.unmatched
    note = (
        f"Launches on both sides: {comparison.name_before} {time_text(total.before)}, "
        f"{comparison.name_now} {time_text(total.now)} ({change_of('seconds', total.before, total.now)})."
    )
    if gone or new:
        note += f" Without a partner: {gone} of {comparison.name_before}, {new} of {comparison.name_now}."
    if len(comparison.pairs) > MOST_PAIRS:
        note += f" The table holds the first {MOST_PAIRS:,}."
    head = "".join(
        f'<th scope="col"{" class=num" if numeric else ""}>{name}</th>'
        for name, numeric in (
            *(("kernel", False), ("grid", False), ("block", False), (f"cycles, {before}", True)),
            *((f"cycles, {now}", True), ("change", True), (f"time, {before}", True), (f"time, {now}", True)),
            ("change", True),
        )
    )
    table = f'<table class="sortable"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return (
        '<section class="card" id="compared" aria-labelledby="title-compared">'
        f'<h2 id="title-compared">{now} beside {before}</h2><p class="note">{escape(note)}</p>'
        f"{scroll('Launches of both sides', table)}</section>"
    )


def _shape(row: Row, what: str) -> str:
    return dims((int(row[f"{what}_x"]), int(row.get(f"{what}_y", 1)), int(row.get(f"{what}_z", 1))))


def _pair_row(pair: Pair, shown: Mapping[int, str]) -> str:
    row = pair.now if pair.now is not None else pair.before
    assert row is not None
    name = escape(str(row["kernel"]))
    if pair.index is not None and pair.index in shown:
        name = f'<a href="#launch-{pair.index + 1}">{name}</a>'
    cells = [f"<td>{name}</td>"]
    for what in ("grid", "block"):
        here = _shape(row, what)
        there = _shape(pair.before, what) if pair.before is not None else here
        cells.append(
            f'<td class="nowrap">{there} → {here}</td>' if here != there else f'<td class="nowrap">{here}</td>'
        )
    for column in ("cycles", "seconds"):
        values = [None if side is None else float(side[column]) for side in (pair.before, pair.now)]
        for side, value in zip(("before", "now"), values, strict=True):
            shown_as = "–" if value is None else f"{value:,.0f}" if column == "cycles" else time_text(value)
            cells.append(
                f'<td class="num">{shown_as}</td>' if value is None else datum(f"{column} {side}", value, shown_as)
            )
        first, second = values
        change = "" if first is None or second is None else change_of(column, first, second)
        cells.append(f'<td class="num">{change or ("gone" if second is None else "new")}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def compared_panel(comparison: Comparison, pair: Pair, anchor: str) -> str:
    """One launch's numbers on both sides."""
    differences = pair.differences()
    by_name = {one.name: one for one in differences}
    main = [by_name[name] for name in FIRST if name in by_name]
    stalls = [one for one in differences if one.name.startswith(STALLED)]
    rest = [one for one in differences if one not in main and one not in stalls and one.before != one.now]
    heads = ("", comparison.name_before, comparison.name_now, "change")
    content = scroll("Both sides", rows_table("", ("number", *heads[1:]), [_row(one) for one in main]))
    if stalls:
        most = max(max(one.before, one.now) for one in stalls)
        rows = [_stall_row(one, most) for one in sorted(stalls, key=lambda one: -max(one.before, one.now))]
        table = rows_table("", ("reason", "", *heads[1:]), rows, "bars")
        content += (
            '<h4>Stall reasons</h4><p class="note">Warp-cycles of each reason per issued instruction; '
            f"the upper bar is {escape(comparison.name_before)}.</p>{scroll('Stall reasons of both sides', table)}"
        )
    if rest:
        table = rows_table("", ("counter", *heads[1:]), [_row(one) for one in sorted(rest, key=_weight)])
        content += (
            f"<details><summary>{len(rest)} other numbers that differ, the largest differences first</summary>"
            f"{scroll('Other numbers that differ', table)}</details>"
        )
    title = f"{comparison.name_now} beside {comparison.name_before}"
    return panel(title, content, anchor, "whole compared")


def _weight(one: Difference) -> float:
    """Sorts large relative differences first, in either direction."""
    if one.change is None or one.change <= -1:
        return -1e9
    factor = 1 + one.change
    return -max(factor, 1 / factor) if factor > 0 else -1e9


def _row(one: Difference) -> str:
    title = title_of(one.name)
    name = ""
    if "__" in one.name:
        name = f' title="{escape(one.name)}"' if title != one.name else ' class="code"'
    return (
        f"<tr><td{name}>{escape(title)}</td>"
        f"{datum(f'before: {one.name}', one.before, quantity(one.name, one.before))}"
        f"{datum(f'now: {one.name}', one.now, quantity(one.name, one.now))}"
        f'<td class="num">{change_of(one.name, one.before, one.now)}</td></tr>'
    )


def _stall_row(one: Difference, most: float) -> str:
    reason = one.name.removeprefix(STALLED).removesuffix(PER_ISSUE)
    bars = bar(one.before / most if most else 0, "before") + bar(one.now / most if most else 0)
    return (
        f"<tr><td>{escape(reason.replace('_', ' '))}</td><td>{bars}</td>"
        f"{datum(f'before: stall {reason}', one.before, figures(one.before))}"
        f"{datum(f'now: stall {reason}', one.now, figures(one.now))}"
        f'<td class="num">{change_of(one.name, one.before, one.now)}</td></tr>'
    )
