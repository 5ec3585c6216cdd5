"""The page of a study: its tables, those that the paper draws as heat maps as such."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise

from warpwright.quantity_text import number_text
from warpwright.studies.study import Cell, Pictures, Plot, Result, Study, Table, differences, grid
from warpwright.tools.report.figures import chart, line, rectangle, text
from warpwright.tools.report.frame_page import data_uri

WIDTH, LEFT, TOP, ROW = 540, 96, 28, 30
HEATS = 8
PLOT_HEIGHT = 260
PICTURE_WIDTH = 256
KINDS = ("best", "point")
"""Classes of the points of the first series, and of all others."""


def study_page(asked: Study, found: Result) -> str:
    """The page as HTML."""
    style = files("warpwright.tools.report").joinpath("page.css").read_text(encoding="utf-8")
    style += files("warpwright.sweeps").joinpath("page.css").read_text(encoding="utf-8")
    missed = found.missed_count
    verdict = (
        "All cells are within their tolerance."
        if not missed
        else f"{missed} of {len(found.cells())} cells are beyond their tolerance."
    )
    parts = [f'<section class="card"><p>{escape(asked.summary)}: {escape(asked.source)}. {verdict}</p>']
    parts += [f'<p class="note">{escape(remark)}</p>' for remark in found.remarks]
    parts.append("</section>")
    parts += [_table(table) for table in found.tables]
    parts += [_plot(plot) for plot in found.plots]
    parts += [_map(table) for table in found.maps]
    parts += [_pictures(one) for one in found.pictures]
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f'<title>{escape(asked.name)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<header class="top"><h1>{escape(asked.name)}</h1></header>\n'
        f'<main id="content">\n{"".join(parts)}\n</main>\n</body>\n</html>\n'
    )


def _pictures(shown: Pictures) -> str:
    """Pictures in one row, of PICTURE_WIDTH pixels each."""
    figures = [
        f'<figure style="display:inline-block;margin:4px"><img alt="{escape(name)}" src="{data_uri(image)}" '
        f'style="width:{PICTURE_WIDTH}px;image-rendering:pixelated"><figcaption>{escape(name)}</figcaption></figure>'
        for name, image in shown.images.items()
    ]
    return f'<section class="card"><h2>{escape(shown.title)}</h2>{"".join(figures)}</section>'


def figure(value: float) -> str:
    """A number of ours as people read it: four digits, all of those before the point."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def difference(cell: Cell) -> str:
    """A cell's difference as people read it."""
    return f"{cell.difference:+.3g}" if cell.absolute else f"{cell.difference:+.1%}"


def _table(table: Table) -> str:
    rows, columns, cells = grid(table.cells)
    head = "".join(
        f'<th class="num">{escape(c)}</th><th class="num">paper</th><th class="num">difference</th>' for c in columns
    )
    body = []
    for row in rows:
        line = f'<tr><td class="nowrap">{escape(row)}</td>'
        for column in columns:
            cell = cells.get((row, column))
            if cell is None:
                line += "<td></td><td></td><td></td>"
                continue
            told = difference(cell) if cell.holds else f"<strong>{difference(cell)}</strong>"
            line += f'<td class="num">{figure(cell.ours)}</td><td class="num">{cell.paper:g}</td><td class="num">{told}</td>'
        body.append(line + "</tr>")
    drawn = ""
    if table.heat_map:
        maps = (("Model", [c.ours for c in table.cells]), ("Paper", [c.paper for c in table.cells]))
        panels = "".join(f'<div class="panel"><h3>{name}</h3>{_heat_map(table, values)}</div>' for name, values in maps)
        drawn = f'<div class="pair">{panels}</div>'
    return (
        f'<section class="card"><h2>{escape(table.title)} ({escape(table.unit)})</h2>{drawn}<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}"><table>'
        f"<caption>{escape(differences(table))}</caption><thead><tr><td></td>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div></section>"
    )


def _heat_map(table: Table, values: Sequence[float]) -> str:
    """One value per cell, coloured by the logarithm over the range of model and paper, so that both maps have one scale; zeros have the lowest colour."""
    rows, columns, _ = grid(table.cells)
    every = [math.log(value) for cell in table.cells for value in (cell.ours, cell.paper) if value > 0]
    low, high = min(every, default=0.0), max(every, default=0.0)
    wide = (WIDTH - LEFT) / len(columns)
    drawn = [text(LEFT + (i + 0.5) * wide, TOP - 8, column, "label", "middle") for i, column in enumerate(columns)]
    drawn += [text(LEFT - 8, TOP + i * ROW + 19, row, "label", "end") for i, row in enumerate(rows)]
    for cell, value in zip(table.cells, values, strict=True):
        x, y = LEFT + columns.index(cell.column) * wide, TOP + rows.index(cell.row) * ROW
        step = round(HEATS * (math.log(value) - low) / (high - low)) if value > 0 and high > low else 0
        drawn.append(
            rectangle(
                x + 1,
                y + 1,
                wide - 2,
                ROW - 2,
                f"heat{step}",
                2,
                f"{cell.row}, {cell.column}: {number_text(value)} {table.unit}",
            )
        )
        drawn.append(text(x + wide / 2, y + 19, number_text(value), "cell", "middle"))
    return chart(WIDTH, TOP + len(rows) * ROW + 8, table.title, f"{len(table.cells)} cells", drawn)


def _map(table: Table) -> str:
    drawn = _heat_map(table, [cell.ours for cell in table.cells])
    return f'<section class="card"><h2>{escape(table.title)} ({escape(table.unit)})</h2>{drawn}</section>'


def _plot(plot: Plot) -> str:
    """Both axes begin at zero."""
    points = [point for series in plot.series.values() for point in series]
    most_x, most_y = max(x for x, _ in points), max(y for _, y in points)
    bottom, wide = TOP + PLOT_HEIGHT, WIDTH - LEFT - 20

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + wide * x / most_x, bottom - PLOT_HEIGHT * y / most_y

    drawn = [line(LEFT, bottom, LEFT + wide, bottom, "axis"), line(LEFT, TOP, LEFT, bottom, "axis")]
    for step in range(5):
        x, y = most_x * step / 4, most_y * step / 4
        drawn.append(text(place(x, 0)[0], bottom + 18, f"{x:.3g}", "label", "middle"))
        drawn.append(text(LEFT - 8, place(0, y)[1] + 4, f"{y:.3g}", "label", "end"))
    for number, (name, series) in enumerate(plot.series.items()):
        kind = KINDS[min(number, len(KINDS) - 1)]
        for (x1, y1), (x2, y2) in pairwise([place(*point) for point in series]):
            drawn.append(line(x1, y1, x2, y2, "front other" if number else "front"))
        for x, y in series:
            px, py = place(x, y)
            drawn.append(
                rectangle(
                    px - 4, py - 4, 8, 8, kind, 4 if number else 0, f"{name}, {x:g}: {number_text(y)} {plot.y_title}"
                )
            )
        px, py = place(*series[-1])
        drawn.append(text(px - 8, py - 8, name, "label", "end"))
    drawn.append(text(LEFT + wide / 2, bottom + 36, plot.x_title, "label", "middle"))
    drawn.append(text(8, TOP - 10, plot.y_title, "label"))
    figure = chart(WIDTH, bottom + 44, plot.title, f"{len(points)} points", drawn)
    return f'<section class="card"><h2>{escape(plot.title)}</h2>{figure}</section>'
