"""The page of a study: its tables, those that the paper draws as heat maps as such."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from warpwright.studies.study import Cell, Result, Study, Table, grid, spread
from warpwright.tools.report.figures import rectangle, svg, text

WIDTH, LEFT, TOP, ROW = 540, 96, 28, 30
HEATS = 8


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
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f'<title>{escape(asked.name)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<header class="top"><h1>{escape(asked.name)}</h1></header>\n'
        f'<main id="content">\n{"".join(parts)}\n</main>\n</body>\n</html>\n'
    )


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
            line += (
                f'<td class="num">{cell.ours:.4g}</td><td class="num">{cell.paper:g}</td><td class="num">{told}</td>'
            )
        body.append(line + "</tr>")
    errors = ", ".join(f"{name} {value:.1%}" for name, value in spread(table.cells))
    drawn = ""
    if table.heat_map:
        maps = (("Model", [c.ours for c in table.cells]), ("Paper", [c.paper for c in table.cells]))
        panels = "".join(f'<div class="panel"><h3>{name}</h3>{_heat_map(table, values)}</div>' for name, values in maps)
        drawn = f'<div class="pair">{panels}</div>'
    return (
        f'<section class="card"><h2>{escape(table.title)} ({escape(table.unit)})</h2>{drawn}<div class="scroll" tabindex="0"><table>'
        f"<caption>{escape(errors)}</caption><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div></section>"
    )


def _heat_map(table: Table, values: Sequence[float]) -> str:
    """One value per cell, coloured by the logarithm over the range of model and paper, so that both maps have one scale."""
    rows, columns, _ = grid(table.cells)
    every = [value for cell in table.cells for value in (cell.ours, cell.paper)]
    low, high = math.log(min(every)), math.log(max(every))
    wide = (WIDTH - LEFT) / len(columns)
    drawn = [text(LEFT + (i + 0.5) * wide, TOP - 8, column, "label", "middle") for i, column in enumerate(columns)]
    drawn += [text(LEFT - 8, TOP + i * ROW + 19, row, "label", "end") for i, row in enumerate(rows)]
    for cell, value in zip(table.cells, values, strict=True):
        x, y = LEFT + columns.index(cell.column) * wide, TOP + rows.index(cell.row) * ROW
        step = round(HEATS * (math.log(value) - low) / (high - low)) if high > low else 0
        drawn.append(
            rectangle(
                x + 1,
                y + 1,
                wide - 2,
                ROW - 2,
                f"heat{step}",
                2,
                f"{cell.row}, {cell.column}: {value:.3g} {table.unit}",
            )
        )
        drawn.append(text(x + wide / 2, y + 19, f"{value:.3g}", "cell", "middle"))
    return svg(WIDTH, TOP + len(rows) * ROW + 8, table.title, f"{len(table.cells)} cells", drawn, "sweep")
