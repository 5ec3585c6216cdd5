"""Several chips that draw together, as NVIDIA's SLI links them: each frame split among them, or frames in turn.

Split frame: every chip gets all commands, and transforms all vertices; for surfaces of the frame's size it draws a band of rows.  From frame to frame
the bands are made such that the chips would have taken equally long.  Smaller and larger surfaces, such as shadow maps, are drawn by all.
Alternate frames: each chip draws every n-th frame by itself.

Rows that another chip has drawn cross the link to the one with the display while the next frame is drawn.  The rate of the link is in the chip's
file; how drivers choose the bands was never published (not anchored).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.errors import UnsupportedError
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.recording import Replay, last_image
from warpwright.graphics.state_3d import ShareOfFrame
from warpwright.graphics.timed.frame import FrameTime, frame_of

Image = npt.NDArray[np.uint8]
BYTES_PER_PIXEL = 4
"""Of a finished picture on the link."""


@dataclass(frozen=True, slots=True)
class LinkedFrames:
    """A frame that is drawn again and again by several chips.

    Attributes:
        bands: first row and end of what each chip draws; of the whole frame if they take turns.
        frames: each chip's time.
        link_seconds: for which the link is busy per frame, on average.
        interval_seconds: from finished frame to finished frame.
        latency_seconds: from a frame's begin until it is at the display.
        picture: the rows of all chips (height, width, 4), the frame's highest row first.
    """

    bands: list[tuple[int, int]]
    frames: list[FrameTime]
    link_seconds: float
    interval_seconds: float
    latency_seconds: float
    picture: Image


def _drawn(path: Path, chip: Chip, share: ShareOfFrame | None) -> tuple[FrameTime, Image]:
    """A recorded frame, or a band of it, without its uploads."""
    replay = Replay(path, chip)

    def prepare(device: GraphicsDevice) -> None:
        assert device.timer is not None
        device.timer.times_copies = False
        device.three_d.share = share

    replay.on_device = prepare
    replay.run()
    assert replay.device is not None
    assert replay.device.timer is not None
    image = last_image(replay.device)
    if image is None:
        raise UnsupportedError(f"{path} draws nothing: chips cannot share it")
    return frame_of(replay.device.timer), image


def _check(chip: Chip) -> None:
    if not chip.graphics.frame_link_gb_per_s:
        raise UnsupportedError(f"{chip.identity.product} has no link for frames: its file has no frame_link_gb_per_s")


def _crossing(chip: Chip, pixels: float) -> float:
    return pixels * BYTES_PER_PIXEL / (chip.graphics.frame_link_gb_per_s * 1e9)


def in_turn(path: Path, chip: Chip, count: int = 2) -> LinkedFrames:
    """Chips that draw whole frames in turn.

    Raises:
        UnsupportedError: the chip has no link, or nothing is drawn.
    """
    _check(chip)
    frame, picture = _drawn(path, chip, None)
    height, width = picture.shape[:2]
    crossing = _crossing(chip, width * height)
    link = crossing * (count - 1) / count
    interval = max(frame.seconds / count, link)
    return LinkedFrames([(0, height)] * count, [frame] * count, link, interval, frame.seconds + crossing, picture)


def split(path: Path, chip: Chip, count: int = 2, rounds: int = 3) -> LinkedFrames:
    """Chips that each draw a band of every frame.

    Args:
        rounds: frames until the bands stay; those of the last one are returned.

    Raises:
        UnsupportedError: the chip has no link, or nothing is drawn.
    """
    _check(chip)
    _, whole = _drawn(path, chip, None)
    height, width = whole.shape[:2]
    cuts = [height * n // count for n in range(count + 1)]
    for number in range(rounds):
        bands = list(itertools.pairwise(cuts))
        drawn = [_drawn(path, chip, ShareOfFrame(width, height, first, end)) for first, end in bands]
        if number < rounds - 1:
            cuts = balanced(cuts, [frame.cycles for frame, _ in drawn])
    # The first row of a picture is the last one in memory.
    picture = np.concatenate(
        [image[height - end : height - first] for (first, end), (_, image) in zip(bands, drawn, strict=True)][::-1]
    )
    frames = [frame for frame, _ in drawn]
    crossing = _crossing(chip, width * (height - (bands[0][1] - bands[0][0])))
    slowest = max(frame.seconds for frame in frames)
    return LinkedFrames(bands, frames, crossing, max(slowest, crossing), slowest + crossing, picture)


def balanced(cuts: list[int], cycles: list[float]) -> list[int]:
    """Rows at which bands begin and end so that, at the speeds with which the rows were just drawn, all take equally long.

    A band keeps at least two rows: a quad.
    """
    rows = np.diff(cuts)
    speed = np.repeat(np.array(cycles) / rows, rows)
    spent = np.concatenate([[0.0], np.cumsum(speed)])
    count, height = len(rows), cuts[-1]
    made = [int(np.searchsorted(spent, spent[-1] * n / count)) // 2 * 2 for n in range(1, count)]
    found = [0]
    for n, cut in enumerate(made):
        found.append(min(max(cut, found[-1] + 2), height - 2 * (count - 1 - n)))
    return [*found, height]
