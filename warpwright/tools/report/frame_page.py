"""The page of a frame: what was drawn after each draw, what each draw took on each stage, maps, and the pipeline with its bottleneck."""

from __future__ import annotations

import base64
import json
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.recording import last_image, png
from warpwright.graphics.timed.frame import FrameTime, frame_of
from warpwright.graphics.timed.work import KINDS, STAGES

MOST_PICTURES = 64
Image = npt.NDArray[np.uint8]
_STYLE = """body{font:15px system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#222;background:#fff}
img{image-rendering:pixelated;max-width:100%;border:1px solid #ccc}table{border-collapse:collapse;font-size:13px}td,th{padding:2px 8px;text-align:right}
th:first-child,td:first-child{text-align:left}.bar{background:#e8e8e8;height:14px;width:16rem;position:relative}.bar i{position:absolute;left:0;top:0;height:14px;background:#4a7fb5}
.worst i{background:#c0504d}.lane{position:relative;height:16px;background:#f2f2f2;margin:2px 0}.lane i{position:absolute;height:16px;background:#4a7fb5;min-width:1px}
.maps{display:flex;flex-wrap:wrap;gap:1rem}.maps figure{margin:0;width:16rem}figcaption{font-size:13px}"""
_SCRIPT = """const d=JSON.parse(document.getElementById('data').textContent),s=document.getElementById('draw');
function show(){const n=+s.value,p=d.pictures[Math.min(n,d.pictures.length-1)],w=d.draws[n];document.getElementById('picture').src=p;
document.getElementById('label').textContent=w.label;document.getElementById('lanes').innerHTML=d.stages.map(k=>{const r=w.spans[k];
const at=r?`<i style="left:${100*r[0]/d.cycles}%;width:${100*(r[1]-r[0])/d.cycles}%"></i>`:'';
return `<div>${k}${r?`: ${Math.round(r[0]).toLocaleString()} to ${Math.round(r[1]).toLocaleString()}`:''}<div class="lane">${at}</div></div>`}).join('')}
s.addEventListener('input',show);show();"""


class FramePictures:
    """Keeps what was drawn after each draw of a device that keeps time."""

    def __init__(self, device: GraphicsDevice) -> None:
        assert device.timer is not None
        self.device = device
        self.pictures: list[Image] = []
        device.timer.watch.maps_wanted = True
        device.timer.watch.before_draw = self._before
        self._begun = False

    def _before(self) -> None:
        if self._begun and len(self.pictures) < MOST_PICTURES:
            self._keep()
        self._begun = True

    def _keep(self) -> None:
        image = last_image(self.device)
        self.pictures.append(np.zeros((1, 1, 4), np.uint8) if image is None else image)

    def finish(self) -> list[Image]:
        """All pictures, with that of the end."""
        self._keep()
        return self.pictures


def _data_uri(image: Image) -> str:
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
    rejected = heat.culled / np.maximum(heat.tiles, 1)
    figures = (
        (heat.shaded, float(heat.shaded.max()), f"Overdraw: pixels shaded up to {int(heat.shaded.max())} times"),
        (
            rejected,
            1.0,
            f"Z-cull: {100 * heat.culled.sum() / max(heat.tiles.sum(), 1):.0f}% of the tiles of primitives rejected",
        ),
        (
            heat.occupancy,
            1.0,
            f"Quads: {100 * heat.pixels.sum() / max(4 * heat.quads.sum(), 1):.0f}% of their pixels are covered",
        ),
    )
    return "".join(
        f'<figure><img alt="{escape(text)}" style="width:16rem" src="{_data_uri(heat_image(values, most))}"><figcaption>{escape(text)}</figcaption></figure>'
        for values, most, text in figures
    )


def _pipeline(frame: FrameTime) -> str:
    """The units with how busy they were."""
    rows = []
    for name, share in frame.use.items():
        worst = " worst" if name == frame.bottleneck else ""
        rows.append(
            f'<tr><td>{escape(name)}</td><td><div class="bar{worst}"><i style="width:{min(100 * share, 100):.1f}%"></i></div></td><td>{100 * share:.1f}%</td></tr>'
        )
    return "<table>" + "".join(rows) + "</table>"


def _draw_table(frame: FrameTime) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in STAGES)
    rows = []
    for d in frame.draws:
        cells = "".join(f"<td>{d.busy[name]:,.0f}</td>" if name in d.busy else "<td></td>" for name in STAGES)
        warps = " / ".join(f"{d.warps[kind]:,}" for kind in KINDS)
        rows.append(f"<tr><td>{escape(d.label)}</td><td>{warps}</td>{cells}</tr>")
    return f"<table><tr><th>draw</th><th>warps: {' / '.join(KINDS)}</th>{head}</tr>{''.join(rows)}</table>"


def frame_page(device: GraphicsDevice, pictures: list[Image], title: str) -> str:
    """The page as HTML.

    Args:
        pictures: what was drawn after each draw, as :class:`FramePictures` keeps it.
    """
    assert device.timer is not None
    frame = frame_of(device.timer)
    data = {
        "pictures": [_data_uri(image) for image in pictures],
        "cycles": frame.cycles,
        "stages": list(STAGES),
        "draws": [{"label": d.label, "spans": d.spans} for d in frame.draws],
    }
    shares = ", ".join(f"{kind} {100 * share:.1f}%" for kind, share in frame.shares().items())
    packed = json.dumps(data).replace("</", "<\\/")
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>
<h1>{escape(title)}</h1><p>{len(frame.draws)} draws and clears, {frame.cycles:,.0f} cycles, {1e3 * frame.seconds:.3f} ms on {escape(frame.chip)}: <b>{escape(frame.advice)}</b>.</p>
<h2>Draw by draw</h2><p><label>After draw <input id="draw" type="range" min="0" max="{max(len(frame.draws) - 1, 0)}" value="{max(len(frame.draws) - 1, 0)}" style="width:30rem"></label> <b id="label"></b></p>
<img id="picture" alt="What was drawn"><p>When each stage worked for the draw, of the whole time:</p><div id="lanes"></div>
<h2>Stages</h2><p>Share of the time for which each unit was busy, all units of a kind together.</p>{_pipeline(frame)}
<h2>Maps</h2><div class="maps">{_maps(device)}</div><p>Time of warps on the SMs by kind: {shares}.</p>
<h2>Draws</h2><p>Cycles of the SMs' clock for which each stage was busy, all units added up; of programs, from the first warp to the last.</p>{_draw_table(frame)}
<p>Formats of Z-cull and compression, shapes of tiles, queues and latencies of fixed stages are not anchored: nobody published them.</p>
<script id="data" type="application/json">{packed}</script><script>{_SCRIPT}</script></html>"""


def write_frame_page(path: Path, device: GraphicsDevice, pictures: list[Image], title: str) -> None:
    """Write the page."""
    path.write_text(frame_page(device, pictures, title), encoding="utf-8")
