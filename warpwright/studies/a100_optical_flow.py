"""The optical flow accelerator of the A100 whitepaper: its rate beside those of cameras, and its vectors on pictures whose motion is known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpwright.api import GPU
from warpwright.engines import flow_vectors
from warpwright.engines.optical_flow import PRESETS
from warpwright.studies.a100_engines import PAPER
from warpwright.studies.study import Cell, Result, Step, Table, study

TOLERANCE = 0.05
FRAMES_PER_SECOND = 150
WIDTH, HEIGHT = 3840, 2160
CAMERAS = {"modern cameras (50 Mpixel/s)": 50.0, "ten times that": 500.0}
"""Mpixel/s: "routinely exceed 50 Mpixels/second and can easily reach 10 times that"."""
ERROR_PIXELS = 0.25
PAIRS = 3
MOTIONS = ((5, 3), (-4, 2), (0, 0))
"""Pixels to the right and down."""
SHIFTS = (4, 12, 40)
_SIDE, _MARGIN = 256, 48

Picture = npt.NDArray[np.uint8]


def scene(seed: int = 1) -> Picture:
    """A picture with detail of 4 to 32 pixels."""
    random = np.random.default_rng(seed)
    side = _SIDE + 2 * _MARGIN
    total = np.zeros((side, side))
    for width in (4, 8, 16, 32):
        cells = -(-side // width)
        total += np.kron(random.standard_normal((cells, cells)), np.ones((width, width)))[:side, :side] * width**0.5
    kernel = np.array([1.0, 2.0, 1.0]) / 4
    for axis in (0, 1):
        total = np.apply_along_axis(lambda line: np.convolve(line, kernel, "same"), axis, total)
    return np.clip(128 + 40 * total / total.std(), 0, 255).astype(np.uint8)


def seen(picture: Picture, right: int, down: int) -> Picture:
    """What a camera sees of a scene that has moved."""
    rows, columns = _MARGIN - down, _MARGIN - right
    return np.ascontiguousarray(picture[rows : rows + _SIDE, columns : columns + _SIDE])


def rate(gpu: GPU, preset: str) -> float:
    """Pairs of 4K pictures per second."""
    still = np.tile(scene(), (HEIGHT // 256 + 1, WIDTH // 256 + 1))[:HEIGHT, :WIDTH]
    held = gpu.array(np.ascontiguousarray(still))
    job = gpu.optical_flow.submit([(held, held)] * PAIRS, preset=preset)
    return PAIRS / job.seconds


def vector_cells(gpu: GPU) -> list[Cell]:
    """Mean vectors of known motions, away from the edges, and disparities of known shifts."""
    picture, inner = scene(), slice(_MARGIN // 4, -_MARGIN // 4)
    cells = []
    for right, down in MOTIONS:
        found = gpu.optical_flow.flow(seen(picture, 0, 0), seen(picture, right, down), preset="slow").get()
        mean = found[inner, inner].mean((0, 1)) / (1 << flow_vectors.FRACTION_BITS)
        error = float(np.hypot(*(mean - (right, down))))
        cells.append(Cell("error of the mean vector", f"{right:+d}, {down:+d}", error, 0, ERROR_PIXELS, True))
    for shift in SHIFTS:
        found = gpu.optical_flow.disparity(seen(picture, 0, 0), seen(picture, -shift, 0)).get()
        error = float(np.median(found[found >= 0])) / (1 << flow_vectors.FRACTION_BITS) - shift
        cells.append(Cell("error of the median disparity", f"{shift}", error, 0, ERROR_PIXELS, True))
    return cells


def equal_to_library(gpu: GPU, grid: int) -> bool:
    """Whether the engine's vectors are those of OpenCV."""
    first, second = seen(scene(), 0, 0), seen(scene(), *MOTIONS[0])
    dense = flow_vectors.library().DISOpticalFlow_create(1).calc(first, second, None)
    side = _SIDE // grid
    means = dense.astype(np.float64).reshape(side, grid, side, grid, 2).mean((1, 3)).astype(np.float32)
    ours = gpu.optical_flow.flow(first, second, grid=grid).get()
    return bool(np.array_equal(ours, np.rint(means.astype(np.float64) * 32).astype(np.int16)))


@study("a100-optical-flow", f"{PAPER}, Optical Flow Accelerator")
def optical_flow(step: Step) -> Result:
    """Rates of A100's optical flow accelerator beside those of cameras, and vectors of known motions."""
    gpu = GPU("a100", timing="full")
    per_second = {}
    for preset in PRESETS:
        step(f"3840 x 2160, {preset}")
        per_second[preset] = rate(gpu, preset)
    megapixels = {preset: found * WIDTH * HEIGHT / 1e6 for preset, found in per_second.items()}
    reached = [
        Cell(name, preset, int(megapixels[preset] >= needed), 1, 0, True)
        for name, needed in CAMERAS.items()
        for preset in (PRESETS if needed < 100 else ("fast",))
    ]
    step("vectors")
    equal = [
        Cell("vectors are the library's", f"grid {grid}", int(equal_to_library(gpu, grid)), 1, 0, True)
        for grid in (4, 1)
    ]
    return Result(
        [
            Table(
                "Rate",
                "frames/s of 3840 x 2160",
                [Cell("optical flow", "fast", per_second["fast"], FRAMES_PER_SECOND, TOLERANCE)],
            ),
            Table("Pixel rates of cameras", "1 if reached", reached),
            Table("Known motions", "pixels", vector_cells(gpu)),
            Table("Vectors", "1 if so", equal),
        ],
        [
            "The whitepaper gives no rate of the engine. 150 frames/s are NVIDIA's Optical Flow SDK's, for Turing and Ampere, up to; the chip's number follows from them, so that the first cell checks what"
            " pairs, the queue and DRAM's bandwidth make of it.",
            f"The other presets reach {megapixels['medium']:.0f} (medium) and {megapixels['slow']:.0f} Mpixel/s (slow), by assumed rates.",
            "Vectors are OpenCV's: their errors are those of dense inverse search and semi-global matching, not of NVIDIA's engine, whose search is not published.",
        ],
    )
