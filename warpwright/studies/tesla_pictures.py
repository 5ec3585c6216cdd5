"""Pictures of a scene in the modes of antialiasing of Table 2 of "NVIDIA Tesla: A Unified Graphics and Computing Architecture" (IEEE Micro, 2008)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.graphics import coverage_samples, targets
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.recording import Replay, last_image
from warpwright.studies.study import Pictures, Step

RECORDINGS = Path(__file__).parent / "recordings"
MODES = {
    "without": ("antialiased_1", False),
    "supersampling 4x": ("supersampled_4", False),
    "supersampling 16x": ("supersampled_16", False),
    "multisampling 2x": ("antialiased_2", False),
    "multisampling 4x": ("antialiased_4", False),
    "multisampling 8x": ("antialiased_8", False),
    "coverage sampling 16x, 4 stored": ("antialiased_4", True),
    "coverage sampling 16x, 8 stored": ("antialiased_8", True),
}
"""Recording of each mode, and whether coverage samples are added."""
SIDE = 64
"""Width and height of the part that is shown."""


def picture(scene: str, adds_coverage: bool) -> npt.NDArray[np.uint8]:
    """The resolved picture (height, width, 4) of a recorded scene."""
    replay = Replay(RECORDINGS / f"{scene}.wwcs")
    drawn: list[Any] = []

    def on_device(device: GraphicsDevice) -> None:
        engine = device.three_d
        engine.adds_coverage_samples = adds_coverage

        def after() -> None:
            mode = targets.sample_mode(engine)
            if mode:
                drawn[:] = [targets.colour_target(engine, 0), targets.depth_target(engine), mode]

        device.after_submit = after

    replay.on_device = on_device
    replay.run()
    device = replay.device
    assert device is not None
    if drawn and adds_coverage:
        colour, depth, mode = drawn
        means = coverage_samples.resolve(device.memory, colour, depth, mode, targets.SAMPLES[mode])
        return (np.clip(means[::-1], 0, 1) * 255 + 0.5).astype(np.uint8)
    image = last_image(device)
    assert image is not None
    if not drawn:
        return image
    across, down = targets.SAMPLES[drawn[2]]
    height, width = image.shape[0] // down, image.shape[1] // across
    samples = image.reshape(height, down, width, across, 4).astype(float)
    return (samples.mean(axis=(1, 3)) + 0.5).astype(np.uint8)


def pictures(step: Step) -> Pictures:
    """The same part of the scene in all modes: the square in which antialiasing changes most."""
    step("pictures")
    whole = {what: picture(*scene) for what, scene in MODES.items()}
    change = np.abs(whole["without"].astype(int) - whole["supersampling 16x"]).sum(axis=2)
    height, width = (n // SIDE for n in change.shape)
    squares = change[: height * SIDE, : width * SIDE].reshape(height, SIDE, width, SIDE).sum(axis=(1, 3))
    top, left = (int(n) * SIDE for n in np.unravel_index(squares.argmax(), squares.shape))
    part = slice(top, top + SIDE), slice(left, left + SIDE)
    return Pictures(
        f"The same {SIDE} x {SIDE} pixels in each mode",
        {what: np.ascontiguousarray(image[part]) for what, image in whole.items()},
    )
