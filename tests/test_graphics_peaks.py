"""Peak rates of the graphics pipeline (Lindholm et al., 2008), measured on whole frames and pinned from both sides: reached, and never exceeded.

576 Gflops are in ``test_paper_tesla.py``; rates of stages alone are in ``test_graphics_timing.py`` and those of the texture unit in ``test_texture_unit.py``.
"""

from __future__ import annotations

from functools import cache

import pytest

from warpwright.chips import load_chip
from warpwright.graphics.recording import Replay
from warpwright.graphics.timed.frame import FrameTime, frame_of
from warpwright.studies import tesla_graphics
from warpwright.studies.catalogue import STUDIES
from warpwright.studies.study import Result

pytestmark = pytest.mark.ci
PEAKS = {
    # Row, column of the study's tables: the peak, and the least share of it that a frame reaches.
    ("colour, six ROPs", "pixels/clk"): (24.0, 0.98),
    ("depth alone", "pixels/clk"): (48.0, 0.98),
    ("Z-cull", "pixels/clk"): (256.0, 0.98),
    ("setup", "primitives/clk"): (1.0, 0.99),
    ("trilinear", "Gbilerp/s"): (38.4, 0.9),
    ("anisotropic", "Gbilerp/s"): (38.4, 0.9),
    # The pins' rate: rows, turnarounds and refresh take a share.
    ("blended 16-bit floats", "GB/s"): (103.68, 0.8),
}


@cache
def result() -> Result:
    return STUDIES["tesla-graphics-peaks"].run(lambda _: None)


@pytest.mark.parametrize("place", PEAKS, ids=lambda place: place[0])
def test_a_frame_reaches_a_peak_and_does_not_exceed_it(place: tuple[str, str]) -> None:
    cells = {(cell.row, cell.column): cell for table in result().tables for cell in table.cells}
    assert set(cells) == set(PEAKS)
    peak, least_share = PEAKS[place]
    assert least_share * peak <= cells[place].ours <= peak * (1 + 1e-9)


def changed(scene: str, **fields: float) -> FrameTime:
    """A scene on a chip with other numbers."""
    replay = Replay(tesla_graphics.RECORDINGS / f"{scene}.wwcs", load_chip(tesla_graphics.CHIP, **fields))
    replay.on_device = lambda device: tesla_graphics._prepare(device, False)
    replay.run()
    assert replay.device is not None
    return frame_of(replay.device.timer)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scene", "stage", "field", "amount"),
    [
        ("fill", "ROP", "rop_pixels_per_clk", tesla_graphics.PIXELS / 12),
        ("depth_only", "early depth", "rop_depth_pixels_per_clk", tesla_graphics.PIXELS / 24),
    ],
)
def test_half_of_the_rate_takes_twice_as_long(scene: str, stage: str, field: str, amount: float) -> None:
    half = getattr(load_chip(tesla_graphics.CHIP).graphics, field) / 2
    assert 0.98 <= tesla_graphics.per_clock(changed(scene, **{field: half}), amount, stage) <= 1


@pytest.mark.parametrize(
    ("scene", "field"), [("hidden", "zcull_pixels_per_clk"), ("primitives", "clip_primitives_per_clk"),
                         ("primitives", "input_primitives_per_clk")]
)  # fmt: skip
def test_half_of_a_peak_s_rate_makes_a_frame_slower(scene: str, field: str) -> None:
    chip = load_chip(tesla_graphics.CHIP)
    ratio = changed(scene, **{field: getattr(chip.graphics, field) / 2}).cycles / tesla_graphics.frame(scene).cycles
    assert ratio > 1.5
