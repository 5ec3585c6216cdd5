"""OFA, the optical flow accelerator of GA100 (NVIDIA A100 whitepaper, "Optical Flow Accelerator"; Optical Flow SDK, NVOFA Application Note).

The engine works on one pair of pictures at a time: it finds a vector, or for stereo pairs a disparity, for each block of 4 x 4, 2 x 2 or 1 x 1 pixels.  A pair takes a
time for each pixel, which depends on the preset.  It reads the luma of both pictures (all of RGB) and writes the vectors.

Vectors are OpenCV's (``flow_vectors.py``), in the format of NVIDIA's Optical Flow SDK: 16 bits with five after the point for each component.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpwright.arrays import DeviceArray
from warpwright.engines import flow_vectors
from warpwright.engines.decoded_pictures import written
from warpwright.engines.jobs import EngineJob
from warpwright.engines.timeline import Device, Task, Timeline
from warpwright.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from warpwright.chips import Chip

FORMATS = ("gray", "rgb", "nv12")
GRIDS = (1, 2, 4)
LEAST_SIDE = 32
"""Pixels; the library's coarsest search needs as many."""
PRESETS = ("slow", "medium", "fast")

Source = DeviceArray | npt.NDArray[np.uint8]
Pair = tuple[Source, Source]
Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Search:
    """What the engine is asked for."""

    preset: str
    grid: int
    format: str
    stereo: bool = False

    def check(self) -> None:
        """Refuse unknown values.

        Raises:
            ArgumentError: a value is not known.
        """
        for name, value, known in (
            ("format", self.format, FORMATS),
            ("grid", self.grid, GRIDS),
            ("preset", self.preset, PRESETS),
        ):
            if value not in known:
                raise ArgumentError(f"{name}={value!r} is not known; use one of {', '.join(map(repr, known))}")

    def vectors(self, first: Pixels, second: Pixels) -> npt.NDArray[np.int16]:
        """What the engine writes for a pair of luma pictures."""
        if self.stereo:
            found = flow_vectors.disparity(first, second, self.preset)
            return flow_vectors.fixed(flow_vectors.matched_on_grid(found, self.grid))
        return flow_vectors.fixed(flow_vectors.on_grid(flow_vectors.flow(first, second, self.preset), self.grid))


def pixels_per_second(chip: Chip, preset: str) -> float:
    """Rate of a chip's engine."""
    engines = chip.engines
    rates = {
        "fast": engines.ofa_fast_pixels_per_clk,
        "medium": engines.ofa_medium_pixels_per_clk,
        "slow": engines.ofa_slow_pixels_per_clk,
    }
    return rates[preset] * chip.clocks.sm_clock_mhz * 1e6


@dataclass(eq=False, slots=True)
class FlowJob(EngineJob):
    """Pairs that the engine was given together: a task for each.  Made by ``gpu.optical_flow.submit``."""

    vectors: list[DeviceArray] = field(default_factory=list)
    """``int16`` in 32nds of a pixel: of shape (rows, columns, 2), x then y, or (rows, columns) of disparities, -32 where there is no match.  Valid on the clock after
    :meth:`wait`."""
    dram_read_bytes: int = 0
    """The pictures."""
    dram_write_bytes: int = 0
    """The vectors."""

    def wait(self) -> list[DeviceArray]:
        """Let simulated time pass until the vectors are there, and return them."""
        self.pass_time()
        return self.vectors


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A pair, before it is given to the engine."""

    vectors: npt.NDArray[np.int16]
    pixel_count: int
    read_bytes: int
    copied_bytes: int
    """From the host."""


class OpticalFlow:
    """The optical flow accelerator of a GPU: ``gpu.optical_flow``.

    Raises:
        UnsupportedError: the chip has none, or OpenCV is not installed.
    """

    def __init__(self, device: Device, timeline: Timeline) -> None:
        if not device.chip.engines.ofa_count:
            raise UnsupportedError(
                f"{device.chip.name} has no optical flow accelerator in this model: use a100, or a MIG instance with one (1g.5gb+me, 7g.40gb)"
            )
        flow_vectors.library()
        self._device = device
        self._timeline = timeline
        self._unit = timeline.unit("OFA")

    def flow(
        self, first: Source, second: Source, *, preset: str = "medium", grid: int = 4, format: str = "gray"
    ) -> DeviceArray:
        """The motion from one picture to the next, and wait for it: :meth:`submit` and ``wait``."""
        return self.submit([(first, second)], preset=preset, grid=grid, format=format).wait()[0]

    def disparity(
        self, left: Source, right: Source, *, preset: str = "medium", grid: int = 4, format: str = "gray"
    ) -> DeviceArray:
        """The disparities of a rectified stereo pair, and wait for them: :meth:`submit_stereo` and ``wait``."""
        return self.submit_stereo([(left, right)], preset=preset, grid=grid, format=format).wait()[0]

    def submit(self, pairs: Sequence[Pair], *, preset: str = "medium", grid: int = 4, format: str = "gray") -> FlowJob:
        """Give the engine pairs of pictures; kernels that are launched before ``wait`` run beside it.

        Args:
            pairs: pictures of one size, the earlier one first: device arrays, or arrays of the host, which are copied to the device first.
            preset: ``"slow"``, ``"medium"`` or ``"fast"``; the slower, the better the vectors.
            grid: pixels along a side of the blocks that have a vector each: 1, 2 or 4.
            format: ``"gray"``, ``"rgb"``, or ``"nv12"`` as ``gpu.video`` writes it, whose luma is used.

        Raises:
            ArgumentError: a picture has another shape, or there is no such preset, grid or format.
        """
        return self._submit(pairs, Search(preset, grid, format))

    def submit_stereo(
        self, pairs: Sequence[Pair], *, preset: str = "medium", grid: int = 4, format: str = "gray"
    ) -> FlowJob:
        """The same for stereo pairs, the left picture first: disparities of 0 to 255 pixels."""
        return self._submit(pairs, Search(preset, grid, format, stereo=True))

    def _submit(self, pairs: Sequence[Pair], search: Search) -> FlowJob:
        search.check()
        prepared = [self._prepared(pair, search, f"pair {number}") for number, pair in enumerate(pairs)]
        job = FlowJob(timeline=None if self._device.timing == "off" else self._timeline)
        for one in prepared:
            vectors = written(self._device, one.vectors, "flow vectors")
            job.vectors.append(vectors)
            job.dram_read_bytes += one.read_bytes
            job.dram_write_bytes += vectors.nbytes
            if job.timeline is None:
                continue
            after = [job.timeline.copy_to_device(one.copied_bytes)] if one.copied_bytes else []
            seconds = one.pixel_count / pixels_per_second(self._device.chip, search.preset)
            task = Task("optical flow", seconds, one.read_bytes + vectors.nbytes, after)
            job.tasks.append(job.timeline.submit(self._unit, task))
        return job

    def _prepared(self, pair: Pair, search: Search, name: str) -> _Prepared:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ArgumentError(f"{name} must be two pictures, not {pair!r}")
        held = [self._held(source, f"picture {i} of {name}") for i, source in enumerate(pair)]
        first, second = (
            flow_vectors.luma(pixels, search.format, f"picture {i} of {name}") for i, pixels in enumerate(held)
        )
        if first.shape != second.shape or min(first.shape) < LEAST_SIDE:
            raise ArgumentError(
                f"{name} has pictures of {first.shape} and {second.shape}: they must have one size, of {LEAST_SIDE} pixels or more each way"
            )
        return _Prepared(
            search.vectors(first, second),
            first.size,
            # Chroma of NV12 is not read.
            sum(pixels.nbytes for pixels in held) if search.format == "rgb" else 2 * first.nbytes,
            sum(source.nbytes for source in pair if not isinstance(source, DeviceArray)),
        )

    def _held(self, source: Source, name: str) -> Pixels:
        """The pixels of a picture."""
        if isinstance(source, DeviceArray):
            if source.memory is not self._device.memory:
                raise ArgumentError(f"{name} must be on this GPU, not {source!r}")
            return np.asarray(source.get())
        if not isinstance(source, np.ndarray):
            raise ArgumentError(f"{name} must be a device array or a NumPy array, not {source!r}")
        return source

    def __repr__(self) -> str:
        return f"<optical flow accelerator of {self._device.chip.name}>"
