"""The page of a sweep: ratios to the baseline, heat maps of two axes, Pareto fronts and what failed, asked from the Parquet files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from warpwright.quantity_text import figures, time_text
from warpwright.sweeps.result import Sweep
from warpwright.sweeps.specification import PageOptions
from warpwright.tools.report.figures import chart, line, rectangle, text
from warpwright.version import __version__

MOST_LISTED = 2000
MOST_FIGURES = 12
"""Heat maps, and Pareto fronts."""
FIGURE_WIDTH = 540
LETTER_WIDTH = 6.6
"""Mean width of a letter of a label, in pixels."""
MOST_CELLS = 24
"""Values of an axis in a heat map."""


@dataclass(frozen=True, slots=True)
class Row:
    """One point on the page."""

    axes: Mapping[str, Any]
    """``program``, ``chip``, overrides and arguments by their names without prefix."""
    launches: int
    seconds: float | None
    """Simulated time of all launches; None without timing."""
    instructions: int
    status: str
    message: str
    ratio: float | None = None
    """Time over the time of the baseline with the same program and arguments."""


def write_page(sweep: Sweep, options: PageOptions) -> Path:
    """Write ``index.html`` into the sweep's folder."""
    rows = _rows(sweep)
    rows = _with_ratios(rows, options.baseline)
    path = sweep.folder / "index.html"
    path.write_text(_page(sweep, rows, options), encoding="utf-8")
    return path


# --- numbers ------------------------------------------------------------------------------------------------------------


def _rows(sweep: Sweep) -> list[Row]:
    """One row per finished point, in the order of the specification."""
    import duckdb
    import pyarrow

    table = sweep.table()
    with duckdb.connect() as database:
        database.register("launches", table)
        timed = "seconds" if "seconds" in table.column_names else "NULL::DOUBLE"
        kernel = "kernel" if "kernel" in table.column_names else "NULL"
        work = "warp_instructions" if "warp_instructions" in table.column_names else "0"
        found: pyarrow.Table = database.sql(
            f"SELECT point, count({kernel}) AS launches, sum({timed}) AS seconds, sum({work}) AS instructions, "
            "any_value(status) AS status, any_value(message) AS message FROM launches GROUP BY point"
        ).to_arrow_table()
    by_key = {row["point"]: row for row in found.to_pylist()}
    rows = []
    for point in sweep.points:
        told = by_key.get(point.key)
        if told is not None:
            axes = {"program": point.program, "chip": _short(point.chip), **point.overrides, **point.arguments}
            count = int(told["instructions"] or 0)
            rows.append(Row(axes, told["launches"], told["seconds"], count, told["status"], told["message"] or ""))
    return rows


def _short(chip: str) -> str:
    return Path(chip).stem if chip.endswith(".toml") else chip


def _axes(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """The values of each axis, in the order of the points."""
    names = dict.fromkeys(name for row in rows for name in row.axes)
    return {name: list(dict.fromkeys(row.axes[name] for row in rows if name in row.axes)) for name in names}


def _varying(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {name: values for name, values in _axes(rows).items() if len(values) > 1}


def _with_ratios(rows: Sequence[Row], baseline: Mapping[str, Any]) -> list[Row]:
    """Every row with its time over that of the baseline: the first point that fits, with the same program and arguments.

    A baseline that fixes ``program`` or an argument is compared with all points that differ in it.
    """
    machine = _machine_axes(rows)

    def group(row: Row) -> tuple[Any, ...]:
        return tuple((name, value) for name, value in row.axes.items() if name not in machine and name not in baseline)

    base: dict[tuple[Any, ...], float] = {}
    for row in rows:
        fits = all(row.axes.get(name) == value for name, value in baseline.items())
        if fits and row.seconds and row.status == "done":
            base.setdefault(group(row), row.seconds)
    found = []
    for row in rows:
        reference = base.get(group(row))
        ratio = row.seconds / reference if row.seconds and reference else None
        found.append(Row(row.axes, row.launches, row.seconds, row.instructions, row.status, row.message, ratio))
    return found


def _machine_axes(rows: Sequence[Row]) -> set[str]:
    """The axes that belong to the chip."""
    from warpwright.chips.chip import fields

    return {"chip", *(name for name in _axes(rows) if name in fields())}


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points for which no other is at most as large in both and smaller in one, by the first."""
    front: list[int] = []
    best = math.inf
    for index in sorted(range(len(points)), key=lambda i: points[i]):
        if points[index][1] < best:
            best = points[index][1]
            front.append(index)
    return front


# --- page ---------------------------------------------------------------------------------------------------------------


def _page(sweep: Sweep, rows: Sequence[Row], options: PageOptions) -> str:
    style = files("warpwright.tools.report").joinpath("page.css").read_text(encoding="utf-8")
    style += files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    title = f"Sweep {sweep.folder.name}"
    parts = [
        _summary(sweep, rows, options),
        _figures("Heat maps: mean ratio by two axes", _heat_maps(rows)),
        _figures("Pareto fronts: mean ratio of the programs, by a number of the chip", _fronts(rows, options)),
    ]
    parts += [_table(rows), _failures(rows)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header class="top"><h1>{escape(title)}</h1></header>\n<main id="content">\n'
        + "\n".join(part for part in parts if part)
        + f'\n<p class="note">Warpwright {escape(__version__)}</p></main>\n</body>\n</html>\n'
    )


def _summary(sweep: Sweep, rows: Sequence[Row], options: PageOptions) -> str:
    done = [row for row in rows if row.status == "done"]
    facts = [
        ("points", f"{len(sweep.points):,}"),
        ("with a result", f"{len(done):,}"),
        ("failed", f"{len(rows) - len(done):,}"),
    ]
    facts.append(("simulated", time_text(sum(row.seconds or 0.0 for row in done))))
    facts.append(("warp-instructions", f"{sum(row.instructions for row in done):,}"))
    listed = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    base = (
        ", ".join(f"{name} = {_shown(value)}" for name, value in options.baseline.items())
        or "the first point of each program"
    )
    axes = "; ".join(f"{name}: {', '.join(map(_shown, values[:12]))}" for name, values in _varying(rows).items())
    return (
        f'<section class="card"><dl class="facts">{listed}</dl><p class="note">Ratios are simulated time over that of '
        f"{escape(base)}. {escape(axes)}</p></section>"
    )


def _shown(value: Any) -> str:
    return (
        f"{value:g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else str(value)
    )


def _figures(title: str, drawn: Sequence[str]) -> str:
    if not drawn:
        return ""
    panels = "".join(f'<div class="panel">{figure}</div>' for figure in drawn[:MOST_FIGURES])
    more = f'<p class="note">{len(drawn) - MOST_FIGURES} more are not shown.</p>' if len(drawn) > MOST_FIGURES else ""
    return f'<section><h2>{escape(title)}</h2><div class="pair">{panels}</div>{more}</section>'


def _table(rows: Sequence[Row]) -> str:
    names = list(_varying(rows)) or ["program", "chip"]
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = []
    for row in rows[:MOST_LISTED]:
        cells = "".join(f"<td>{escape(_shown(row.axes.get(name, '')))}</td>" for name in names)
        time = time_text(row.seconds) if row.seconds is not None else ""
        ratio = figures(row.ratio) if row.ratio is not None else ""
        body.append(
            f'<tr>{cells}<td class="num">{row.launches:,}</td><td class="num">{time}</td><td class="num">{ratio}</td>'
            f"<td>{escape(row.status)}</td></tr>"
        )
    note = f"the first {MOST_LISTED:,} of {len(rows):,} points" if len(rows) > MOST_LISTED else f"{len(rows):,} points"
    return (
        '<section class="card"><h2>Points</h2><div class="scroll" tabindex="0" role="region" aria-label="Points">'
        f"<table><caption>{note}; all of them, by launch, in "
        f'results/*.parquet</caption><thead><tr>{head}<th class="num">launches</th><th class="num">time</th>'
        f'<th class="num">ratio</th><th>status</th></tr></thead><tbody>{"".join(body)}</tbody></table></div></section>'
    )


def _failures(rows: Sequence[Row]) -> str:
    failed = [row for row in rows if row.status != "done"]
    if not failed:
        return ""
    entries = []
    for row in failed[:200]:
        where = ", ".join(f"{name} {_shown(value)}" for name, value in row.axes.items())
        entries.append(f"<h3>{escape(row.status)}: {escape(where)}</h3><pre>{escape(row.message)}</pre>")
    return f'<section class="card"><h2>Without a result</h2>{"".join(entries)}</section>'


def _heat_maps(rows: Sequence[Row]) -> list[str]:
    """One per pair of axes; a cell is the geometric mean of the ratios of its points."""
    axes = {name: values for name, values in _varying(rows).items() if len(values) <= MOST_CELLS}
    return [_heat_map(rows, (x, axes[x]), (y, axes[y])) for y, x in itertools.combinations(axes, 2)]


def _heat_map(rows: Sequence[Row], across: tuple[str, Sequence[Any]], down: tuple[str, Sequence[Any]]) -> str:
    (x_name, xs), (y_name, ys) = across, down
    cells: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        if row.ratio is not None and x_name in row.axes and y_name in row.axes:
            cells.setdefault((xs.index(row.axes[x_name]), ys.index(row.axes[y_name])), []).append(row.ratio)
    means = {place: _mean(ratios) for place, ratios in cells.items()}
    low, high = min(means.values(), default=1.0), max(means.values(), default=1.0)
    most = max(map(len, cells.values()), default=0)
    longest = max(len(_shown(value)) for value in ys)
    left = min(150, round(longest * LETTER_WIDTH) + 16)
    top, wide, tall = 24, min(70, (FIGURE_WIDTH - left - 10) // len(xs)), 28
    drawn = []
    for column, value in enumerate(xs):
        drawn.append(text(left + (column + 0.5) * wide, top - 8, _clipped(_shown(value), wide), "label", "middle"))
    for number, value in enumerate(ys):
        drawn.append(text(left - 8, top + number * tall + 18, _clipped(_shown(value), left - 12), "label", "end"))
    for (column, number), mean in means.items():
        share = math.log(mean / low) / math.log(high / low) if high > low else 0.0
        x, y = left + column * wide, top + number * tall
        step = min(8, int(share * 9))
        about = f"{x_name} {_shown(xs[column])}, {y_name} {_shown(ys[number])}: {figures(mean)}"
        drawn.append(rectangle(x + 1, y + 1, wide - 2, tall - 2, f"heat{step}", 2, about))
        star = "*" if len(cells[column, number]) < most else ""
        drawn.append(text(x + wide / 2, y + 18, f"{figures(mean)}{star}", "cell", "middle"))
    about = f"{len(means)} cells from {figures(low)} to {figures(high)}"
    note = "* the mean of fewer points than elsewhere" if any(len(cell) < most for cell in cells.values()) else ""
    drawing = chart(left + len(xs) * wide + 8, top + len(ys) * tall + 8, f"{x_name} and {y_name}", about, drawn)
    return _panel(f"{y_name} (down) and {x_name} (across)", drawing, note)


def _panel(title: str, drawing: str, note: str = "") -> str:
    """A figure with its heading."""
    below = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<h3>{escape(title)}</h3>{drawing}{below}"


def _clipped(content: str, width: float) -> str:
    most = max(3, int(width / LETTER_WIDTH))
    return content if len(content) <= most else content[: most - 1] + "…"


def _fronts(rows: Sequence[Row], options: PageOptions) -> list[str]:
    """Mean ratio over each numeric axis of the chip, or over the cost alone, with the points that nothing beats."""
    machine = _machine_axes(rows)
    names = [options.cost] if options.cost else [name for name in _varying(rows) if name in machine and name != "chip"]
    return [drawn for name in names if (drawn := _front(rows, name, machine))]


def _front(rows: Sequence[Row], name: str, machine: set[str]) -> str:
    """A chip variant is a point: its cost, and the geometric mean of its programs' ratios."""
    ratios: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        cost = row.axes.get(name)
        if row.ratio is not None and isinstance(cost, (int, float)) and not isinstance(cost, bool):
            others = tuple((axis, row.axes[axis]) for axis in row.axes if axis in machine)
            ratios.setdefault((float(cost), others), []).append(row.ratio)
    if len({cost for cost, _ in ratios}) < 2:
        return ""
    keys = list(ratios)
    points = [(key[0], _mean(ratios[key])) for key in keys]
    front = pareto_front(points)
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    left, top, width, height = 62, 12, FIGURE_WIDTH - 82, 220

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - min(xs)) / (max(xs) - min(xs))
        up = (y - min(ys)) / (max(ys) - min(ys)) if max(ys) > min(ys) else 0.5
        return left + 8 + across * (width - 16), top + height - 8 - up * (height - 16)

    drawn = [line(left, top + height, left + width, top + height, "axis"), line(left, top, left, top + height, "axis")]
    for value in sorted(set(xs))[:: max(1, len(set(xs)) // 6)]:
        drawn.append(text(place(value, min(ys))[0], top + height + 18, _shown(value), "label", "middle"))
    for value in (min(ys), max(ys)):
        drawn.append(text(left - 6, place(min(xs), value)[1] + 4, figures(value), "label", "end"))
    for a, b in itertools.pairwise(front):
        (x1, y1), (x2, y2) = place(*points[a]), place(*points[b])
        drawn += [line(x1, y1, x2, y1, "front"), line(x2, y1, x2, y2, "front")]
    for index, (x, y) in enumerate(points):
        about = ", ".join(f"{axis} {_shown(value)}" for axis, value in keys[index][1]) + f": {figures(y)}"
        px, py = place(x, y)
        drawn.append(rectangle(px - 4, py - 4, 8, 8, "best" if index in front else "point", 4, about))
    about = f"{len(points)} variants, {len(front)} on the front"
    drawing = chart(FIGURE_WIDTH, top + height + 30, f"Pareto front of {name}", about, drawn)
    return _panel(name, drawing)
