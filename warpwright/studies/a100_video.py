"""Video decoders of the A100 whitepaper: streams that NVDEC decodes at 30 frames per second, on A100 and V100 (Tables 8 and 9)."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from warpwright.api import GPU
from warpwright.engines import VideoStream
from warpwright.errors import UnsupportedError
from warpwright.studies.a100_engines import PAPER, picture
from warpwright.studies.study import Cell, Result, Step, Table, study

TOLERANCE = 0.05
FRAMES_PER_SECOND = 30
CODECS = {"HEVC": ("libx265", "mp4"), "H264": ("libx264", "mp4"), "VP9": ("libvpx-vp9", "webm")}
"""The encoder and the container of each."""
SIZES = {"4K30": (3840, 2160), "1080p30": (1920, 1080), "720p30": (1280, 720)}
TABLE_8 = {
    "4K30": {"HEVC": 44, "H264": 22, "VP9": 31},
    "1080p30": {"HEVC": 157, "H264": 75, "VP9": 108},
    "720p30": {"HEVC": 304, "H264": 167, "VP9": 192},
}
TABLE_9_V100 = {"HEVC": 22, "H264": 16, "VP9": 22}
"""1080p30."""
OPTIONS = {
    "libx264": {"preset": "ultrafast"},
    "libx265": {"preset": "ultrafast", "x265-params": "log-level=none"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8"},
}
CLIP_FRAMES = 3


@cache
def clip(codec: str, size: str) -> bytes:
    """A file of a few frames of a moving picture.

    Raises:
        UnsupportedError: PyAV is not installed, or its FFmpeg lacks the encoder.
    """
    try:
        import av
    except ImportError:
        raise UnsupportedError("this study encodes videos by PyAV: pip install 'warpwright[engines]'") from None
    width, height = SIZES[size]
    encoder, container = CODECS[codec]
    if encoder not in av.codecs_available:
        raise UnsupportedError(f"this study needs an FFmpeg with {encoder}; PyAV's wheels have it")
    still = picture(1024)
    wide = np.tile(still, (-(-height // 1024) + 1, -(-width // 1024) + 1, 1))
    into = io.BytesIO()
    with av.open(into, "w", format=container) as file:
        stream: Any = file.add_stream(encoder, rate=FRAMES_PER_SECOND)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.options = OPTIONS[encoder]
        for number in range(CLIP_FRAMES):
            moved = np.ascontiguousarray(wide[4 * number : 4 * number + height, 8 * number : 8 * number + width])
            file.mux(stream.encode(av.VideoFrame.from_ndarray(moved, format="rgb24")))
        file.mux(stream.encode())
    return into.getvalue()


def second_of(stream: VideoStream) -> VideoStream:
    """The stream, repeated to a second."""
    packets = stream.packet_bytes * FRAMES_PER_SECOND
    return replace(stream, packet_bytes=packets[:FRAMES_PER_SECOND])


def streams_supported(gpu: GPU, stream: VideoStream, about: int) -> int:
    """Streams that are decoded as fast as they are shown, from the rate of about as many."""
    job = gpu.video.submit([second_of(stream)] * about)
    return int(about / job.seconds)


def frames_equal(gpu: GPU, data: bytes) -> bool:
    """Whether all frames are those of the library, in its own conversion to NV12."""
    import av

    with av.open(io.BytesIO(data)) as file:
        theirs = [frame.to_ndarray(format="nv12") for frame in file.decode(video=0)]
    ours = gpu.video.decode(data)
    return len(ours) == len(theirs) and all(np.array_equal(a.get(), b) for a, b in zip(ours, theirs, strict=True))


@study("nvdec-table8", f"{PAPER}, Tables 8 and 9")
def table_8(step: Step) -> Result:
    """Streams of HEVC, H.264 and VP9 that A100's five video decoders, and V100's, decode at 30 frames per second."""
    cells, equal = [], []
    for size, papers in TABLE_8.items():
        for codec, paper in papers.items():
            step(f"{codec}, {size}")
            gpu = GPU("a100", timing="full")
            data = clip(codec, size)
            stream = gpu.video.open(gpu.array(np.frombuffer(data, np.uint8)))
            cells.append(Cell(size, codec, streams_supported(gpu, stream, paper), paper, TOLERANCE))
            if size == "720p30":
                equal.append(Cell("every frame is the library's", codec, int(frames_equal(gpu, data)), 1, 0, True))
    volta = []
    for codec, paper in TABLE_9_V100.items():
        step(f"V100: {codec}, 1080p30")
        gpu = GPU("v100", timing="full")
        stream = gpu.video.open(gpu.array(np.frombuffer(clip(codec, "1080p30"), np.uint8)))
        volta.append(Cell("1080p30", codec, streams_supported(gpu, stream, paper), paper, TOLERANCE))
    return Result(
        [
            Table("A100, Table 8", "streams", cells),
            Table("V100, Table 9", "streams", volta),
            Table("Frames", "1 if so", equal),
        ],
        [
            "The time of a frame has two numbers per codec, for three sizes in Table 8, and one on V100, whose other sizes are not published. Table 8's cells therefore test"
            " that a constant and a time per pixel suffice, the sharing of five units, and DRAM's bandwidth; V100's cells only the latter two.",
            "A clip of three frames is encoded for each cell and repeated to a second. The time does not depend on the bit rate: the paper gives none.",
        ],
    )
