"""NVJPG, the JPEG decoder of GA100 (NVIDIA A100 whitepaper, "NVJPG Decode for DL Training", Table 6).

The engine takes batches of as many images as it has cores.  Each core decodes one image of a batch, and the next batch begins when the slowest
image has ended.  A core's time is that of the image's samples of luma, of those of chroma, each at a rate of its own, and a constant.  The
two rates follow from Table 6's for 4:2:0 and 4:4:4, so that those for 4:2:2 and 4:0:0 lie on the same line; the constant follows from
the note on images of 224 x 224.  Padding to whole minimum coded units counts.

The engine reads the file from device memory and writes the picture there; pixels are libjpeg's, through Pillow.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright.arrays import DeviceArray
from warpwright.engines.decoded_pictures import written
from warpwright.engines.jobs import EngineJob
from warpwright.engines.jpeg_files import BASELINE, EXTENDED, JpegFile, read_jpeg
from warpwright.engines.timeline import Device, Task, Timeline
from warpwright.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from types import ModuleType

    from warpwright.chips import Chip

FORMATS = {"rgb": "RGB", "bgr": "RGB", "rgba": "RGB", "ycbcr": "YCbCr", "y": "L"}
"""Pictures that the engine writes, and Pillow's mode for each."""
INSTALL = "pip install 'warpwright[engines]'"
_CHROMA_SAMPLES_420, _CHROMA_SAMPLES_444 = 0.5, 2.0
"""Of both components, per pixel."""

Pixels = npt.NDArray[np.uint8]
Source = bytes | bytearray | memoryview | DeviceArray


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError(f"JPEG files are decoded by Pillow, which is not installed: {INSTALL}") from None
    return Image


@dataclass(frozen=True, slots=True)
class CoreTimes:
    """What one core takes."""

    luma_seconds: float
    """Per sample."""
    chroma_seconds: float
    image_seconds: float

    @classmethod
    def of(cls, chip: Chip) -> CoreTimes:
        """Of a chip: the line through the times of a pixel with half a sample of chroma and with two."""
        clock = chip.clocks.sm_clock_mhz * 1e6
        few = 1 / (chip.engines.nvjpg_420_pixels_per_clk * clock)
        many = 1 / (chip.engines.nvjpg_444_pixels_per_clk * clock)
        chroma = (many - few) / (_CHROMA_SAMPLES_444 - _CHROMA_SAMPLES_420)
        return cls(few - _CHROMA_SAMPLES_420 * chroma, chroma, chip.engines.nvjpg_image_us * 1e-6)

    def seconds(self, file: JpegFile) -> float:
        """Of one image."""
        luma, chroma = file.samples
        return self.image_seconds + luma * self.luma_seconds + chroma * self.chroma_seconds


@dataclass(eq=False, slots=True)
class JpegJob(EngineJob):
    """Images that the engine was given together: a task for each batch.  Made by ``gpu.jpeg.submit``."""

    images: list[DeviceArray] = field(default_factory=list)
    """Pictures of shape (height, width, channels), or (height, width) of ``y``: valid on the clock after :meth:`wait`."""
    dram_read_bytes: int = 0
    """The files, which the engine reads."""
    dram_write_bytes: int = 0
    """The pictures, which it writes."""
    core_busy_seconds: list[list[float]] = field(default_factory=list)
    """What each core of each batch takes for its image."""

    def wait(self) -> list[DeviceArray]:
        """Let simulated time pass until the pictures are there, and return them."""
        self.pass_time()
        return self.images

    @property
    def batch_count(self) -> int:
        """Batches that the images were divided into."""
        return len(self.core_busy_seconds)


class JpegDecoder:
    """The JPEG engine of a GPU: ``gpu.jpeg``.

    Raises:
        UnsupportedError: the chip has none, or Pillow is not installed.
    """

    def __init__(self, device: Device, timeline: Timeline) -> None:
        if not device.chip.engines.nvjpg_core_count:
            raise UnsupportedError(
                f"{device.chip.name} has no JPEG engine in this model: use a100, or a MIG instance with one (1g.5gb+me, 7g.40gb)"
            )
        self._device = device
        self._timeline = timeline
        self._unit = timeline.unit("NVJPG")
        self._times = CoreTimes.of(device.chip)
        self._pillow = _pillow()

    @property
    def core_count(self) -> int:
        """Images of a batch."""
        return self._device.chip.engines.nvjpg_core_count

    def decode(self, images: Sequence[Source], format: str = "rgb") -> list[DeviceArray]:
        """Decode images and wait for them: :meth:`submit` and ``wait``."""
        return self.submit(images, format).wait()

    def submit(self, images: Sequence[Source], format: str = "rgb") -> JpegJob:
        """Give the engine images to decode; kernels that are launched before ``wait`` run beside it.

        Args:
            images: JPEG files: bytes, which are copied to the device first, or device arrays of uint8 that hold them.  Every ``core_count``
                of them, in their order, are a batch.
            format: ``"rgb"``, ``"bgr"``, ``"rgba"`` (opaque), ``"ycbcr"`` (chroma interpolated to full size) or ``"y"``.

        Raises:
            ArgumentError: an image is no JPEG file or is damaged, or there is no such format.
            UnsupportedError: an image has a coding or sampling that the engine lacks.
        """
        if format not in FORMATS:
            raise ArgumentError(f"format={format!r} is not known; use one of {', '.join(map(repr, FORMATS))}")
        if isinstance(images, bytes | bytearray | memoryview | DeviceArray):
            raise ArgumentError("decode() takes a list of images: decode([image])")
        held = [self._held(source, i) for i, source in enumerate(images)]
        files = [read_jpeg(data, f"image {i}") for i, data in enumerate(held)]
        for i, file in enumerate(files):
            _refuse(file, f"image {i}")
        pictures = [self._pixels(data, format, f"image {i}") for i, data in enumerate(held)]
        job = JpegJob(images=[written(self._device, pixels, "decoded image") for pixels in pictures])
        job.dram_read_bytes = sum(map(len, held))
        job.dram_write_bytes = sum(picture.nbytes for picture in job.images)
        for first in range(0, len(files), self.core_count):
            self._submit_batch(job, images, files, slice(first, first + self.core_count))
        return job

    def _submit_batch(self, job: JpegJob, images: Sequence[Source], files: list[JpegFile], part: slice) -> None:
        busy = [self._times.seconds(file) for file in files[part]]
        job.core_busy_seconds.append(busy)
        if self._device.timing == "off":
            return
        job.timeline = self._timeline
        sizes = [source.nbytes if isinstance(source, DeviceArray) else len(source) for source in images[part]]
        copied = sum(n for n, one in zip(sizes, images[part], strict=True) if not isinstance(one, DeviceArray))
        after = [self._timeline.copy_to_device(copied)] if copied else []
        traffic = sum(sizes) + sum(picture.nbytes for picture in job.images[part])
        job.tasks.append(self._timeline.submit(self._unit, Task("JPEG batch", max(busy), traffic, after)))

    def _held(self, source: Source, number: int) -> bytes:
        """The bytes of a file."""
        if not isinstance(source, DeviceArray):
            if not isinstance(source, bytes | bytearray | memoryview):
                raise ArgumentError(f"image {number} must be bytes or a device array of uint8, not {source!r}")
            return bytes(source)
        if source.dtype != np.uint8 or source.memory is not self._device.memory:
            raise ArgumentError(f"image {number} must be a device array of uint8 on this GPU, not {source!r}")
        return source.get().tobytes()

    def _pixels(self, data: bytes, format: str, name: str) -> Pixels:
        """The picture, by libjpeg."""
        mode = FORMATS[format]
        try:
            with self._pillow.open(io.BytesIO(data), formats=("JPEG",)) as image:
                if image.mode == "RGB" and mode != "RGB":
                    # libjpeg's own YCbCr or luma, which a conversion of its RGB would round again.
                    image.draft(mode, None)
                pixels: Pixels = np.asarray(image if image.mode == mode else image.convert(mode))
        except (OSError, SyntaxError, ValueError) as error:
            raise ArgumentError(f"{name} is damaged: {error}") from None
        if format == "bgr":
            return pixels[..., ::-1]
        if format == "rgba":
            return np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)])
        return pixels

    def __repr__(self) -> str:
        return f"<JPEG engine of {self._device.chip.name}, {self.core_count} cores>"


def _refuse(file: JpegFile, name: str) -> None:
    """Refuse what the engine does not decode."""
    decodes: Any = "the engine decodes sequential files of 8 bits with 4:2:0, 4:2:2, 4:4:4 or 4:0:0"
    if file.frame not in (BASELINE, EXTENDED) or file.bits != 8:
        raise UnsupportedError(
            f"{name} is {file.coding}, {file.bits} bits: {decodes}; convert it, or decode it on the host"
        )
    if not file.format:
        across = " ".join(f"{h}x{v}" for h, v in file.sampling)
        raise UnsupportedError(
            f"{name} has components of {across} blocks: {decodes}; convert it, or decode it on the host"
        )
    if file.scan_components != len(file.sampling):
        raise UnsupportedError(
            f"{name} has several scans: the engine decodes files of one scan; convert it, or decode it on the host"
        )
