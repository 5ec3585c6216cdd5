"""The page of a frame: what was drawn after each draw, what each draw took on each stage, maps, and the pipeline with its bottleneck."""

from __future__ import annotations

import base64
import json
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.recording import keep_last_image, last_image, png
from warpwright.graphics.timed.frame import FrameTime, frame_of
from warpwright.graphics.timed.work import GRAPHICS_KINDS, KINDS, STAGES
from warpwright.quantity_text import share_text, time_text
from warpwright.tools.report.figures import rectangle, svg, text
from warpwright.tools.report.markup import bar, panel, scroll

MOST_PICTURES = 64
CHART_WIDTH, CHART_HEIGHT, CHART_LEFT = 720, 150, 40
Image = npt.NDArray[np.uint8]
_SHARED = ("SPs", "SFUs", "texture units", "DRAM")
"""Units that all programs share, after the stages of the pipeline."""


class FramePictures:
    """Keeps what was drawn after draws of a device that keeps time: after each of them, or after every second, fourth … of many."""

    def __init__(self, device: GraphicsDevice) -> None:
        assert device.timer is not None
        self.device = device
        self.pictures: list[tuple[int, Image]] = []
        """Numbers of draws, and the picture after each."""
        keep_last_image(device)
        device.timer.watch.maps_wanted = True
        device.timer.watch.before_draw = self._before
        self._draws, self._step = 0, 1

    def _before(self) -> None:
        if self._draws and (self._draws - 1) % self._step == 0:
            self._keep()
        self._draws += 1

    def _keep(self) -> None:
        if len(self.pictures) == MOST_PICTURES:
            self.pictures = self.pictures[::2]
            self._step *= 2
            if (self._draws - 1) % self._step:
                return
        self.pictures.append((self._draws - 1, self._now()))

    def _now(self) -> Image:
        image = last_image(self.device)
        return np.zeros((1, 1, 4), np.uint8) if image is None else image

    def finish(self) -> list[tuple[int, Image]]:
        """All pictures, with that of the end."""
        return [*self.pictures, (max(self._draws - 1, 0), self._now())]


def data_uri(image: Image) -> str:
    """An opaque picture (height, width, 4) as the address of an ``img`` element."""
    shown = image.copy()
    shown[..., 3] = 255
    return "data:image/png;base64," + base64.b64encode(png(shown)).decode()


def heat_image(values: npt.NDArray[Any], most: float) -> Image:
    """Values as colours from dark blue over yellow to red; the highest row of the framebuffer first."""
    share = np.clip(values[::-1] / max(most, 1e-9), 0, 1)
    stops = np.array([[13, 24, 74], [36, 120, 180], [240, 220, 90], [200, 40, 40]], float)
    at = share * (len(stops) - 1)
    low = np.minimum(at.astype(int), len(stops) - 2)
    mixed = stops[low] + (stops[low + 1] - stops[low]) * (at - low)[..., None]
    return np.concatenate([mixed, np.full((*values.shape, 1), 255.0)], axis=-1).astype(np.uint8)


def _maps(device: GraphicsDevice) -> str:
    """Figures of the largest target's maps."""
    assert device.timer is not None
    maps = device.timer.watch.maps
    if not maps:
        return "<p>Nothing was rasterised.</p>"
    heat = maps[max(maps, key=lambda size: size[0] * size[1])]
    most = int(heat.shaded.max())
    rejected = heat.culled / np.maximum(heat.tiles, 1)
    figures = (
        (heat.shaded, float(most), f"Overdraw: a pixel is shaded up to {most} {'time' if most == 1 else 'times'}"),
        (
            rejected,
            1.0,
            f"Z-cull: {share_text(heat.culled.sum() / max(heat.tiles.sum(), 1))} of the primitives' tiles are rejected",
        ),
        (
            heat.occupancy,
            1.0,
            f"Quads: {share_text(heat.pixels.sum() / max(4 * heat.quads.sum(), 1))} of their pixels are covered",
        ),
    )
    shown = "".join(
        f'<figure><img alt="{escape(told)}" src="{data_uri(heat_image(values, highest))}"><figcaption>{escape(told)}</figcaption></figure>'
        for values, highest, told in figures
    )
    return f'<p class="scale">none <b aria-hidden="true"></b> most (overdraw) or all</p><div class="maps">{shown}</div>'


def _stage_rows(frame: FrameTime) -> str:
    """The stages of the pipeline, how busy each was, and when it worked for the chosen draw."""
    rows = []
    for name in STAGES:
        share = frame.use.get(name)
        busy = (
            f'<td style="width:26%">{bar(share)}</td><td class="num">{share_text(share)}</td>'
            if share is not None
            else "<td></td><td></td>"
        )
        worst = ' class="worst"' if name == frame.bottleneck else ""
        rows.append(
            f'<tr{worst}><th scope="row">{escape(name)}</th>{busy}<td style="width:40%"><div class="lane" data-stage="{escape(name)}"></div></td>'
            '<td class="num" data-cycles></td></tr>'
        )
    for name in _SHARED:
        share = frame.use.get(name, 0.0)
        worst = ' class="worst"' if name == frame.bottleneck else ""
        rows.append(
            f'<tr{worst}><th scope="row">{escape(name)}</th><td>{bar(share)}</td><td class="num">{share_text(share)}</td><td></td><td></td></tr>'
        )
    return (
        '<table class="stages"><caption>The pipeline from top to bottom, and the units that programs share; the limit is marked</caption><thead><tr><td></td>'
        '<th scope="col" colspan="2">busy, of the frame</th><th scope="col">the draw, along the frame</th><th scope="col" class="num">cycles</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _resident(frame: FrameTime) -> str:
    """Warps of each kind that run along the frame, one on top of the other."""
    if not frame.resident:
        return "<p>No program ran.</p>"
    rows = np.array(frame.resident)
    most = max(float(rows[:, 1:].sum(axis=1).max()), 1.0)
    inner, bottom = CHART_WIDTH - CHART_LEFT, CHART_HEIGHT - 22
    parts = [rectangle(CHART_LEFT, 8, inner, bottom - 8, "ground")]
    edges = np.append(rows[:, 0], frame.cycles)
    for n, row in enumerate(rows):
        x, width = CHART_LEFT + inner * row[0] / frame.cycles, inner * (edges[n + 1] - row[0]) / frame.cycles
        level = float(bottom)
        for kind, count in zip(KINDS, row[1:], strict=True):
            high = (bottom - 8) * float(count) / most
            level -= high
            if high:
                parts.append(rectangle(x, level, width + 0.3, high, kind))
    parts += [
        text(CHART_LEFT - 6, 16, f"{most:,.0f}", anchor="end"),
        text(CHART_LEFT - 6, bottom, "0", anchor="end"),
        text(CHART_LEFT, CHART_HEIGHT - 4, "0"),
        text(CHART_WIDTH, CHART_HEIGHT - 4, f"{frame.cycles:,.0f} cycles", anchor="end"),
    ]
    shares = frame.shares()
    keys = " ".join(
        f'<span class="key {kind}"></span> {kind} {share_text(shares[kind])}' for kind in KINDS if shares[kind]
    )
    drawing = svg(
        CHART_WIDTH,
        CHART_HEIGHT,
        "Warps by kind along the frame",
        f"Up to {most:,.0f} warps run at once.",
        parts,
        "resident",
    )
    return f'<p class="note">Warps on the SMs, and their share of all warp time: {keys}</p>{drawing}'


def _draw_table(frame: FrameTime) -> str:
    head = "".join(f'<th scope="col" class="num">{escape(name)}</th>' for name in STAGES)
    rows = []
    for d in frame.draws:
        cells = "".join(
            f'<td class="num">{d.busy[name]:,.0f}</td>' if name in d.busy else "<td></td>" for name in STAGES
        )
        warps = " / ".join(f"{d.warps[kind]:,}" for kind in GRAPHICS_KINDS)
        rows.append(f'<tr><th scope="row">{escape(d.label)}</th><td class="num">{warps}</td>{cells}</tr>')
    table = (
        f'<table class="draws"><thead><tr><td></td><th scope="col" class="num">warps: {" / ".join(GRAPHICS_KINDS)}</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
    told = "Cycles of the SMs' clock for which each stage was busy, all units of it added up; of programs, from the first warp to the last. A click shows the draw above."
    return f'<p class="note">{told}</p>{scroll("Draws", table)}'


def _described(frame: FrameTime) -> str:
    """What the header says."""
    clears = sum(d.label == "clear" for d in frame.draws)
    draws = len(frame.draws) - clears
    copies = f"{len(frame.copies)} copies ({frame.copy_cycles:,.0f} cycles), " if frame.copies else ""
    kernels = f"{len(frame.kernels)} kernel{'s' * (len(frame.kernels) != 1)}, " if frame.kernels else ""
    return f"{draws} draw{'s' * (draws != 1)}, {clears} clear{'s' * (clears != 1)}, {copies}{kernels}{frame.cycles:,.0f} cycles, {time_text(frame.seconds)} on {frame.chip}"


def frame_page(device: GraphicsDevice, pictures: list[tuple[int, Image]], title: str) -> str:
    """The page as HTML.

    Args:
        pictures: what was drawn after which draws, as :class:`FramePictures` keeps it.
    """
    assert device.timer is not None
    frame = frame_of(device.timer)
    data = {
        "pictures": [{"after": after, "image": data_uri(image)} for after, image in pictures],
        "cycles": max(frame.cycles, 1),
        "draws": [{"number": d.number, "label": d.label, "spans": d.spans} for d in frame.draws],
    }
    last = max(len(frame.draws) - 1, 0)
    choose = (
        f'<p class="choose"><label for="draw">After draw</label><input id="draw" type="range" min="0" max="{last}" value="{last}">'
        '<output id="label" for="draw"></output></p>'
    )
    picture = (
        '<div><img id="picture" alt=""><p class="note" id="late" hidden>Of many draws not every one has a picture: this is the last one before.</p></div>'
        f"<div>{_stage_rows(frame)}</div>"
    )
    parts = [
        f'<p class="answer">{escape(frame.advice[:1].upper() + frame.advice[1:])}.</p>',
        panel(
            "Draw by draw",
            f'{choose}<div class="frame-draw">{picture}</div>' if frame.draws else "<p>Nothing was drawn.</p>",
            kind="whole",
        ),
        panel("Maps", _maps(device), kind="whole"),
        panel("Warps by kind", _resident(frame), kind="whole"),
        panel("Draws", _draw_table(frame), kind="whole"),
        '<p class="note">Formats of Z-cull and compression, shapes of tiles, queues, latencies of fixed stages, and when the bits of coverage samples (CSAA) are cleared are not anchored: nobody published them.</p>',
    ]
    return _page(
        title, _described(frame), "".join(parts), json.dumps(data).replace("</", "<\\/") if frame.draws else ""
    )


def _page(title: str, told: str, content: str, data: str) -> str:
    own = files(__package__)
    style, script = (
        "".join(own.joinpath(name).read_text(encoding="utf-8") for name in names)
        for names in (("page.css", "frame.css"), ("frame.js",))
    )
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    scripts = f'<script id="data" type="application/json">{data}</script><script>{script}</script>' if data else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
        f'<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<header class="top"><h1>{escape(title)}</h1><p class="quiet">{escape(told)}</p></header>\n'
        f'<main id="content">\n{content}\n</main>\n{scripts}</body>\n</html>\n'
    )


def write_frame_page(path: Path, device: GraphicsDevice, pictures: list[tuple[int, Image]], title: str) -> None:
    """Write the page."""
    path.write_text(frame_page(device, pictures, title), encoding="utf-8")
