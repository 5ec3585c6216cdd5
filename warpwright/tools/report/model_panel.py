"""The report's part for a model: time, memory and limits by module and operator, and the modules on a roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TypeVar

from warpwright.chips import Chip
from warpwright.quantity_text import amount_text, figures, share_text, size_text, time_text
from warpwright.tools.report.figures import LayerPoint, draw_layers, peaks
from warpwright.tools.report.markup import bar, datum, rows_table, scroll
from warpwright.tools.report.origins import OUTSIDE, Layer, Model, Share

Key = TypeVar("Key")
MOST_LAYERS, MOST_OPERATORS, MOST_RANGES = 600, 60, 200
"""Rows of the tables."""
MOST_POINTS = 16
"""Kinds of modules on the roofline: the longest ones."""
HEADS = ("share", "limited by", "forward", "backward", "launches", "DRAM", "DRAM GB/s", "FLOP/s", "allocated")
"""The most important columns come first, because narrow screens show only the beginning of a row."""
NOTE = (
    "Simulated time of the launches, forward and backward. Allocated: device memory that the program's allocator had given out, at most, when one of the launches was made."
    " Limited by: what limits the launches that take most of the time, and their share of it."
)


def model_panel(model: Model, chip: Chip) -> str:
    """The section for a program whose launches have origins."""
    total = _total(model)
    content = f'<p class="note">{NOTE}</p>'
    if model.has_modules:
        content += _modules(model, total)
        content += _roofline(model, chip)
    if model.operators:
        rows = [
            _row(_operator(name, backward), share, total)
            for (name, backward), share in _longest(model.operators, MOST_OPERATORS)
        ]
        content += f"<h3>Operators</h3>{_table('Operators', ('operator', *HEADS), rows)}"
        content += _more(len(model.operators), MOST_OPERATORS)
    if model.ranges:
        rows = [
            _row(escape(" › ".join(names)), share, total) for names, share in list(model.ranges.items())[:MOST_RANGES]
        ]
        content += f"<h3>NVTX ranges</h3>{_table('NVTX ranges', ('range', *HEADS), rows)}"
        content += _more(len(model.ranges), MOST_RANGES)
    return f'<section class="card" id="model" aria-labelledby="title-model"><h2 id="title-model">Model</h2>{content}</section>'


def _total(model: Model) -> float:
    layers = sum(layer.all.seconds for layer in model.root.children.values())
    return layers + model.outside.seconds


def _longest(shares: Mapping[Key, Share], most: int) -> list[tuple[Key, Share]]:
    return sorted(shares.items(), key=lambda item: -item[1].seconds)[:most]


def _more(count: int, most: int) -> str:
    return f'<p class="note">The table holds {most:,} of {count:,}.</p>' if count > most else ""


def _modules(model: Model, total: float) -> str:
    rows = []
    for depth, layer in list(model.root.walk())[:MOST_LAYERS]:
        rows.append(_row(layer_name(layer, depth), layer.all, total, size_text(layer.parameter_bytes)))
    if model.outside.launches:
        rows.append(_row(f"<em>{OUTSIDE}</em>", model.outside, total, ""))
    count = sum(1 for _ in model.root.walk())
    return f"<h3>Modules</h3>{_table('Modules', ('module', *HEADS, 'parameters'), rows)}{_more(count, MOST_LAYERS)}"


def layer_name(layer: Layer, depth: int) -> str:
    """A module's name and type, indented by its depth."""
    kind = f' <span class="quiet">{escape(layer.type)}</span>' if layer.type and layer.type != layer.name else ""
    return f'<span class="layer" style="--depth:{depth}" title="{escape(layer.path)}">{escape(layer.name)}{kind}</span>'


def _operator(name: str, backward: bool) -> str:
    return escape(name) + (' <span class="quiet">backward</span>' if backward else "")


def _row(name: str, share: Share, total: float, parameters: str | None = None) -> str:
    limit, part = share.limit
    rate = share.dram_bytes / share.dram_seconds / 1e9 if share.dram_seconds else 0.0
    part_of_all = share.seconds / total if total else 0.0
    cells = [
        f"<td>{name}</td>",
        f'<td class="num">{share_text(part_of_all)}{bar(part_of_all)}</td>',
        f"<td>{escape(limit)}{f' ({share_text(part)})' if part < 0.995 else ''}</td>",
        _time("forward seconds", share.forward_seconds),
        _time("backward seconds", share.backward_seconds),
        f'<td class="num">{share.launches:,}</td>',
        datum("DRAM bytes", share.dram_bytes, size_text(share.dram_bytes)),
        f'<td class="num">{figures(rate) if rate else ""}</td>',
        f'<td class="num">{amount_text(share.flops / share.seconds, "") if share.flops and share.seconds else ""}</td>',
        f'<td class="num">{size_text(share.allocated_bytes) if share.allocated_bytes else ""}</td>',
    ]
    if parameters is not None:
        cells.append(f'<td class="num">{parameters}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _time(name: str, seconds: float) -> str:
    return datum(name, seconds, time_text(seconds) if seconds else "")


def _table(label: str, heads: Sequence[str], rows: list[str]) -> str:
    words = {heads[0], "limited by"}
    head = "".join(f'<th scope="col"{"" if name in words else " class=num"}>{escape(name)}</th>' for name in heads)
    return scroll(label, f"<table class=model><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>")


def _points(model: Model) -> Iterator[LayerPoint]:
    for name, share in _longest(model.kinds, MOST_POINTS):
        if share.flops and share.dram_bytes and share.seconds:
            yield LayerPoint(name, share.flops / share.dram_bytes, share.flops / share.seconds, share.seconds)


def _roofline(model: Model, chip: Chip) -> str:
    points = list(_points(model))
    if not points:
        return ""
    shares = model.kinds.values()
    used = Share(
        flops=sum(s.flops for s in shares),
        tensor_flops=sum(s.tensor_flops for s in shares),
        fp64_flops=sum(s.fp64_flops for s in shares),
    )
    drawing = draw_layers(peaks(chip, used.flops, used.tensor_flops, used.fp64_flops), points)
    rows = [
        f'<tr><td class="num">{number}</td><td>{escape(p.name)}</td><td class="num">{figures(p.intensity)}</td>'
        f'<td class="num">{amount_text(p.performance, "FLOP/s")}</td><td class="num">{time_text(p.seconds)}</td></tr>'
        for number, p in enumerate(points, 1)
    ]
    legend = scroll(
        "Modules on the roofline", rows_table("", ("#", "module", "FLOP per byte", "reached", "time"), rows)
    )
    return (
        '<h3>Roofline by module</h3><p class="note">Floating-point work of the launches in a module and in none within it, '
        "forward and backward, against the bytes that they move to and from DRAM. Modules at equal places are one point; the area is the time.</p>"
        f'<div class="pair"><div>{scroll("Roofline by module", drawing, "roof")}</div><div>{legend}</div></div>'
    )
