"""The page of ``warpwright compare --report``: one program on several chips, and why they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from warpwright.quantity_text import figures, time_text
from warpwright.tools.chip_differences import Figures, Launch
from warpwright.tools.chip_table import COLUMNS, explaining_cells, ratios
from warpwright.tools.report.markup import bar, datum, rows_table, scroll
from warpwright.tools.report.model_panel import layer_name
from warpwright.tools.report.origins import OUTSIDE, Model, Share, model_of

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
CAPTION = (
    "Bars are times on one scale. × NAME: how many times as fast as that chip; × before: as the chip above. Load and store: bytes that a warp's access of global memory moves. L1 and L2: hit rates. DRAM: traffic, and its share of"
    " the peak. Warps: average number of active warps on an SM, and the largest possible."
)


def chips_page(launches: Sequence[Launch], refused: Mapping[str, str], program: str) -> str:
    """The page as HTML.

    Args:
        refused: why the program does not run on a chip, by the chip's name; lines after the first are shown as the program wrote them.
    """
    style = files("warpwright.tools.report").joinpath("page.css").read_text(encoding="utf-8")
    timed = [launch for launch in launches if launch.figures()]
    body = [_machines(timed), _modules(timed), *(_launch(launch) for launch in timed)] if timed else []
    if not timed and not refused:
        body.append('<section class="card"><p>The program launched no kernel.</p></section>')
    if refused:
        items = "".join(f"<li><strong>{escape(chip)}</strong>: {_reason(why)}</li>" for chip, why in refused.items())
        body.append(f'<section class="card"><h2>Chips on which the program does not run</h2><ul>{items}</ul></section>')
    count = len({chip for launch in timed for chip in launch.runs})
    title = f"{program} on {count} chip{'s' if count != 1 else ''}" if count else f"{program}: no launches"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f'<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<header class="top"><h1>{escape(title)}</h1></header>\n'
        f'<main id="content">\n{"".join(body)}\n</main>\n</body>\n</html>\n'
    )


def _reason(why: str) -> str:
    first, _, rest = why.partition("\n")
    return escape(first) + (f"<pre>{escape(rest)}</pre>" if rest else "")


def write_chips_page(path: Path, launches: Sequence[Launch], refused: Mapping[str, str], program: str) -> None:
    """Write :func:`chips_page` to a file."""
    path.write_text(chips_page(launches, refused, program), encoding="utf-8")


def _machines(launches: Sequence[Launch]) -> str:
    """The chips' main numbers."""
    chips = {name: f.chip for launch in launches for name, f in launch.figures().items()}
    rows = []
    for name, chip in chips.items():
        cells = (
            f"{chip.identity.architecture} {chip.identity.compute_capability}",
            f"{chip.sm.sm_count} at {chip.clocks.sm_clock_mhz:,} MHz",
            f"{chip.sm.max_warps_per_sm}",
            f"{chip.shared.l1_kib} KiB",
            f"{chip.l2.l2_kib / 1024:g} MiB" if chip.l2.l2_keeps_data else "none",
            f"{chip.dram.dram_gb_per_s:,.0f} GB/s",
        )
        rows.append(
            f'<tr><th scope="row">{escape(name)}</th>'
            + "".join(f'<td class="num">{escape(c)}</td>' for c in cells)
            + "</tr>"
        )
    headings = ("chip", "architecture", "SMs", "warps per SM", "L1 and shared memory", "L2", "DRAM")
    return f'<section class="card"><h2>The chips</h2>{scroll("The chips", rows_table("", headings, rows))}</section>'


def _modules(launches: Sequence[Launch]) -> str:
    """Times of the program's modules on each chip; empty for a program without."""
    chips = list(dict.fromkeys(chip for launch in launches for chip in launch.figures()))
    models: dict[str, Model] = {}
    for chip in chips:
        model = model_of([launch.runs[chip] for launch in launches if chip in launch.figures()])
        if model is not None and model.has_modules:
            models[chip] = model
    if not models:
        return ""
    shares = {chip: {layer.path: layer.all for _, layer in model.root.walk()} for chip, model in models.items()}
    names = {layer.path: layer_name(layer, depth) for model in models.values() for depth, layer in model.root.walk()}
    rows = [_module_row(name, [shares[chip].get(path) for chip in models]) for path, name in names.items()]
    if any(model.outside.launches for model in models.values()):
        rows.append(_module_row(f"<em>{OUTSIDE}</em>", [model.outside for model in models.values()]))
    headings = ["module", *models]
    for chip in models:
        headings.append(f"limit on {chip}")
    table = scroll("Modules on the chips", rows_table("", tuple(headings), rows))
    return (
        '<section class="card" id="modules"><h2>Modules</h2><p class="note">Simulated time, forward and backward, and how many times as fast as '
        f"on {escape(next(iter(models)))}; what limits most of it.</p>{table}</section>"
    )


def _module_row(name: str, shares: Sequence[Share | None]) -> str:
    first = shares[0].seconds if shares[0] is not None else 0.0
    cells = []
    for number, share in enumerate(shares):
        if share is None or not share.seconds:
            cells.append('<td class="num"></td>')
            continue
        ratio = f" ({figures(first / share.seconds)} ×)" if number and first else ""
        cells.append(datum("seconds", share.seconds, f"{time_text(share.seconds)}{ratio}"))
    cells += [f"<td>{escape(share.limit[0]) if share is not None else ''}</td>" for share in shares]
    return f"<tr><td>{name}</td>{''.join(cells)}</tr>"


def _launch(launch: Launch) -> str:
    found = launch.figures()
    compared = ratios(found)
    longest = max(f.seconds for f in found.values())
    rows = [_row(chip, f, compared[chip], longest) for chip, f in found.items()]
    headings = ("chip", "time", "", "cycles", f"× {next(iter(found))}", "× before", *COLUMNS)
    told = "".join(f"<li>{escape(sentence)}</li>" for sentence in launch.differences())
    why = f"<h3>What changed from chip to chip</h3><ul>{told}</ul>" if told else ""
    notes = dict.fromkeys(f"{chip}: {f.note}." for chip, f in found.items() if f.note)
    noted = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    table = scroll(launch.kernel, rows_table("", headings, rows))
    return (
        f'<section class="card"><h2>{escape(launch.kernel)}, grid {escape(launch.grid)}, block {escape(launch.block)}</h2>'
        f'{table}<p class="note">{escape(CAPTION)}</p>{noted}{why}</section>'
    )


def _row(chip: str, f: Figures, compared: tuple[str, str], longest: float) -> str:
    cells = [*compared, *explaining_cells(f)]
    return (
        f'<tr><th scope="row">{escape(chip)}</th>{datum("seconds", f.seconds, time_text(f.seconds))}'
        f"<td>{bar(f.seconds / longest)}</td>{datum('cycles', f.cycles, f'{f.cycles:,}')}"
        + "".join(f'<td class="num">{escape(cell)}</td>' for cell in cells)
        + "</tr>"
    )
