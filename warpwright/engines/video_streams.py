"""What a video is, and its pictures: containers and codecs by PyAV (FFmpeg's libraries)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from types import ModuleType

INSTALL = "pip install 'warpwright[engines]'"
CODECS = {"h264": "H.264", "hevc": "HEVC", "vp9": "VP9"}
"""FFmpeg's names of the codecs that the engine decodes."""
CODED_UNIT = {"h264": 16, "hevc": 8, "vp9": 8}
"""Pixels along a side of the units that a picture is padded to."""
_PIXELS = {
    "yuv420p": (8, "420"), "yuvj420p": (8, "420"), "yuv420p10le": (10, "420"), "yuv420p12le": (12, "420"),
    "yuv444p": (8, "444"), "yuvj444p": (8, "444"), "yuv444p10le": (10, "444"), "yuv444p12le": (12, "444"),
}  # fmt: skip
"""Bits and chroma of FFmpeg's pixel formats."""

Picture = npt.NDArray[Any]


def _pyav() -> ModuleType:
    try:
        import av
    except ImportError:
        raise UnsupportedError(f"videos are decoded by PyAV, which is not installed: {INSTALL}") from None
    return av


@dataclass(frozen=True)
class VideoStream:
    """A video as its container and codec describe it."""

    data: bytes
    codec: str
    """A key of ``CODECS``, or another of FFmpeg's names."""
    width: int
    height: int
    pixels: str
    """FFmpeg's name of the pixel format."""
    packet_bytes: tuple[int, ...]
    """Of each coded frame, in the order of decoding."""
    on_device: bool = False
    """Whether the file was in device memory."""

    @property
    def bits(self) -> int:
        """Of a sample; 0 for formats that the engine lacks."""
        return _PIXELS.get(self.pixels, (0, ""))[0]

    @property
    def chroma(self) -> str:
        """``420`` or ``444``; empty for formats that the engine lacks."""
        return _PIXELS.get(self.pixels, (0, ""))[1]

    @property
    def coded_pixels(self) -> int:
        """Of a frame, padded to whole coded units."""
        unit = CODED_UNIT.get(self.codec, 1)
        return -(-self.width // unit) * -(-self.height // unit) * unit * unit

    @property
    def frame_bytes(self) -> int:
        """Of a decoded frame."""
        samples = 2 if self.chroma == "420" else 3
        even = -(-self.width // 2) * 2
        rows = self.height + -(-self.height // 2) if samples == 2 else 3 * self.height
        return (even if samples == 2 else self.width) * rows * (1 if self.bits == 8 else 2)

    @cached_property
    def pictures(self) -> list[Picture]:
        """Frames as the engine writes them, in the order in which they are shown."""
        return [_as_written(frame, self) for frame in self._frames()]

    def rgb(self) -> list[Picture]:
        """Frames of shape (height, width, 3), by FFmpeg's conversion."""
        return [frame.to_ndarray(format="rgb24") for frame in self._frames()]

    def _frames(self) -> Iterator[Any]:
        av = _pyav()
        try:
            with av.open(io.BytesIO(self.data)) as container:
                yield from container.decode(video=0)
        except av.FFmpegError as error:
            raise ArgumentError(f"the video is damaged: {error}") from None


def read_video(data: bytes, name: str, on_device: bool = False) -> VideoStream:
    """What a file's first video stream is.

    Raises:
        ArgumentError: it has none.
        UnsupportedError: PyAV is not installed.
    """
    av = _pyav()
    try:
        with av.open(io.BytesIO(data)) as container:
            if not container.streams.video:
                raise ArgumentError(f"{name} has no video stream")
            context = container.streams.video[0].codec_context
            sizes = tuple(packet.size for packet in container.demux(video=0) if packet.size)
            found = VideoStream(
                data, context.name, context.width, context.height, context.pix_fmt or "", sizes, on_device
            )
    except av.FFmpegError as error:
        raise ArgumentError(f"{name} is not a video that FFmpeg can read: {error}") from None
    if not sizes or not found.width or not found.height:
        raise ArgumentError(f"{name} has no frames")
    return found


def _plane(plane: Any, bits: int) -> Picture:
    """The samples of a component, those of more than 8 bits in the upper ones."""
    type, size = (np.uint8, 1) if bits == 8 else (np.uint16, 2)
    rows = np.frombuffer(plane, type).reshape(-1, plane.line_size // size)[: plane.height, : plane.width]
    return rows if bits == 8 else rows << (16 - bits)


def _as_written(frame: Any, stream: VideoStream) -> Picture:
    """NV12 or P016 (luma, then both components of chroma in turn), or three planes of 4:4:4."""
    y, u, v = (_plane(plane, stream.bits) for plane in frame.planes)
    if stream.chroma == "444":
        return np.stack([y, u, v])
    height, width = y.shape
    rows, columns = u.shape
    found = np.zeros((height + rows, 2 * columns), y.dtype)
    found[:height, :width] = y
    found[height:, 0::2], found[height:, 1::2] = u, v
    return found
