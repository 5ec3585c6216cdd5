"""Vectors of optical flow and disparities of stereo pairs, by OpenCV.

Flow is found by dense inverse search (``cv2.DISOpticalFlow``), whose presets stand for the engine's; disparities by semi-global matching (``cv2.StereoSGBM``), which
is also what NVIDIA's engine does (VPI documentation, "Stereo Disparity Estimator").
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from types import ModuleType

INSTALL = "pip install 'warpwright[engines]'"
FRACTION_BITS = 5
"""Of a vector's component: S10.5 of NVIDIA's Optical Flow SDK."""
DISPARITIES = 256
"""That are searched: 0 to 255 pixels to the left."""
_LARGEST = 32767
_LIBRARY_PATHS = "LD_LIBRARY_PATH"
_BLOCK = 5
"""Pixels along a side of the block that semi-global matching compares."""

Picture = npt.NDArray[np.uint8]


def library() -> ModuleType:
    """OpenCV.

    Raises:
        UnsupportedError: it is not installed.
    """
    # Its import adds its own folder to this variable, which programs that this process starts would inherit.
    paths = os.environ.get(_LIBRARY_PATHS)
    try:
        import cv2
    except ImportError:
        raise UnsupportedError(
            f"optical flow is computed by OpenCV (opencv-python-headless), which is not installed: {INSTALL}"
        ) from None
    if paths is None:
        os.environ.pop(_LIBRARY_PATHS, None)
    else:
        os.environ[_LIBRARY_PATHS] = paths
    return cv2


def luma(pixels: Picture, format: str, name: str) -> Picture:
    """The luma of a picture of a format of ``optical_flow.FORMATS``.

    Raises:
        ArgumentError: the picture has another shape or type.
    """
    shapes = {"gray": "(height, width)", "nv12": "(3/2 height, width)", "rgb": "(height, width, 3)"}
    right = pixels.dtype == np.uint8 and pixels.ndim == (3 if format == "rgb" else 2)
    if not right or (format == "rgb" and pixels.shape[2] != 3) or (format == "nv12" and pixels.shape[0] % 3):
        raise ArgumentError(
            f"{name} has shape {pixels.shape} of {pixels.dtype}: pictures of {format!r} are uint8 of shape {shapes[format]}"
        )
    if format == "rgb":
        cv2 = library()
        return np.asarray(cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY), np.uint8)
    return np.ascontiguousarray(pixels[: pixels.shape[0] * 2 // 3] if format == "nv12" else pixels)


def flow(first: Picture, second: Picture, preset: str) -> npt.NDArray[np.float32]:
    """Where each pixel of the first picture is in the second: (height, width, 2), x then y, in pixels."""
    cv2 = library()
    number = {
        "fast": cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST,
        "medium": cv2.DISOPTICAL_FLOW_PRESET_FAST,
        "slow": cv2.DISOPTICAL_FLOW_PRESET_MEDIUM,
    }[preset]
    found: npt.NDArray[np.float32] = cv2.DISOpticalFlow_create(number).calc(first, second, None)
    return found


def disparity(left: Picture, right: Picture, preset: str) -> npt.NDArray[np.float32]:
    """How far to the left each pixel of the left picture is in the right one, in pixels; -1 where there is no match."""
    cv2 = library()
    mode = {
        "fast": cv2.STEREO_SGBM_MODE_SGBM_3WAY,
        "medium": cv2.STEREO_SGBM_MODE_SGBM,
        "slow": cv2.STEREO_SGBM_MODE_HH,
    }
    # Penalties as OpenCV's documentation recommends, by the area of the block.
    matcher: Any = cv2.StereoSGBM_create(
        minDisparity=0,
        numDisparities=DISPARITIES,
        blockSize=_BLOCK,
        P1=8 * _BLOCK**2,
        P2=32 * _BLOCK**2,
        mode=mode[preset],
    )
    # OpenCV searches no pixel nearer to the left edge than the largest disparity.
    wider = (cv2.copyMakeBorder(one, 0, 0, DISPARITIES, 0, cv2.BORDER_REPLICATE) for one in (left, right))
    sixteenths = matcher.compute(*wider)[:, DISPARITIES:]
    return np.where(sixteenths < 0, np.float32(-1), sixteenths.astype(np.float32) / 16)


def on_grid(values: npt.NDArray[np.float32], grid: int) -> npt.NDArray[np.float32]:
    """The mean of each block of ``grid`` x ``grid`` pixels, of what there is of it at the edges."""
    rows, columns = (np.arange(0, size, grid) for size in values.shape[:2])
    sums = np.add.reduceat(np.add.reduceat(values, rows, 0, dtype=np.float64), columns, 1)
    counts = np.outer(
        *(np.diff(starts, append=size) for starts, size in zip((rows, columns), values.shape[:2], strict=True))
    )
    return np.asarray(sums / counts.reshape(counts.shape + (1,) * (values.ndim - 2)), np.float32)


def matched_on_grid(values: npt.NDArray[np.float32], grid: int) -> npt.NDArray[np.float32]:
    """The same of the disparities that were found; -1 for blocks without any."""
    found = values >= 0
    shares = on_grid(found.astype(np.float32), grid)
    means = on_grid(np.where(found, values, np.float32(0)), grid)
    return np.where(shares > 0, means / np.where(shares > 0, shares, 1), np.float32(-1))


def fixed(values: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """S10.5: 32nds of a pixel, clamped."""
    scaled = np.rint(values.astype(np.float64) * (1 << FRACTION_BITS))
    return np.clip(scaled, -_LARGEST - 1, _LARGEST).astype(np.int16)
