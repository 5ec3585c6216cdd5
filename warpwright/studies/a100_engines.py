"""Fixed-function engines of the A100 whitepaper: rates of NVJPG.

Images have the table's compression, 10:1 of 24 bits per pixel, which the quality of each is chosen for.  Files are in device memory, so that
copies from the host are no part of the rate.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt

from warpwright.api import GPU
from warpwright.errors import UnsupportedError
from warpwright.studies.study import Cell, Result, Step, Table, study

PAPER = "NVIDIA A100 Tensor Core GPU Architecture"
TOLERANCE = 0.05
RATES = {"420": 7000.0, "444": 3335.0}
"""Mpixel/s."""
SUBSAMPLING = {"444": 0, "422": 1, "420": 2}
"""Pillow's numbers."""
COMPRESSION = 10.0
SIDES = (1024, 2048)
SMALL_SIDE, SMALL_LOSS_PERCENT, SMALL_TOLERANCE = 224, 35.0, 5.0
"""The note to Table 6: 30 to 40 % lower."""
BATCHES = 2


def picture(side: int, seed: int = 1) -> npt.NDArray[np.uint8]:
    """A square picture with detail at every scale, as photographs have: noise at widths of 1 to 64 pixels, the wider the stronger."""
    random = np.random.default_rng(seed)
    sum_of_scales = np.zeros((side, side, 3))
    for width in (1, 2, 4, 8, 16, 32, 64):
        cells = -(-side // width)
        noise = random.standard_normal((cells, cells, 3)) * width**0.5
        sum_of_scales += noise.repeat(width, 0).repeat(width, 1)[:side, :side]
    spread = sum_of_scales.std()
    return np.clip(128 + 50 * sum_of_scales / spread, 0, 255).astype(np.uint8)


def compressed(pixels: npt.NDArray[np.uint8], format: str) -> bytes:
    """The JPEG file whose compression is nearest to 10:1.

    Raises:
        UnsupportedError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError("this study writes JPEG files by Pillow: pip install 'warpwright[engines]'") from None
    image = Image.fromarray(pixels)

    def file(quality: int) -> bytes:
        into = io.BytesIO()
        image.save(into, "JPEG", quality=quality, subsampling=SUBSAMPLING[format])
        return into.getvalue()

    wanted_bytes = pixels.nbytes / COMPRESSION
    low, high = 1, 95
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if len(file(middle)) <= wanted_bytes else (low, middle)
    return min((file(low), file(high)), key=lambda one: abs(len(one) - wanted_bytes))


def megapixels_per_second(gpu: GPU, file: bytes, side: int) -> float:
    """The rate of whole batches of an image."""
    held = gpu.array(np.frombuffer(file, np.uint8))
    count = BATCHES * gpu.jpeg.core_count
    job = gpu.jpeg.submit([held] * count)
    return count * side * side / job.seconds / 1e6


@study("nvjpg-table6", f"{PAPER}, Table 6")
def table_6(step: Step) -> Result:
    """Rates of A100's JPEG engine for 4:2:0 and 4:4:4 at 10:1, of large images and of small ones."""
    gpu = GPU("a100", timing="full")
    cells, small, ratios = [], [], []
    for format, paper in RATES.items():
        rates = {}
        for side in (*SIDES, SMALL_SIDE):
            step(f"{format}, {side} x {side}")
            pixels = picture(side)
            file = compressed(pixels, format)
            ratios.append(pixels.nbytes / len(file))
            rates[side] = megapixels_per_second(gpu, file, side)
        cells += [
            Cell(f"4:{format[1]}:{format[2]}", f"{side} x {side}", rates[side], paper, TOLERANCE) for side in SIDES
        ]
        if format == "420":
            loss = 100 * (1 - rates[SMALL_SIDE] / paper)
            small.append(Cell("4:2:0", f"{SMALL_SIDE} x {SMALL_SIDE}", loss, SMALL_LOSS_PERCENT, SMALL_TOLERANCE, True))
    remarks = [
        f"The files are compressed {min(ratios):.1f} to {max(ratios):.1f} times.  The engine's time does not depend on it: the paper has one compression.",
        "The rates of the two formats and what an image takes beside its pixels follow from this table and its note: the cells check what batches, "
        "padding and images of other sizes make of them.",
    ]
    return Result(
        [Table("Rate", "Mpixel/s", cells), Table("Lower rate of small images", "% below Table 6", small)], remarks
    )
