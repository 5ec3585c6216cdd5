"""NVDEC, the video decoders of GA100 and GV100 (NVIDIA A100 whitepaper, "NVDEC for DL", Tables 7 to 9).

Each unit decodes one frame at a time, of whichever stream comes next; the frames of one stream follow each other, because each may refer to the one before.
A frame takes a constant and a time for each pixel, both of its codec.  Pictures are FFmpeg's, through PyAV.

A frame reads its packet and one picture that it refers to, and writes its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from warpwright.arrays import DeviceArray
from warpwright.engines.decoded_pictures import written
from warpwright.engines.timeline import Device, Task, Timeline
from warpwright.engines.video_streams import CODECS, VideoStream, read_video
from warpwright.errors import UNTIMED, ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from warpwright.chips import Chip

FORMATS = ("native", "rgb")
_BITS = {"h264": (8,), "hevc": (8, 10, 12), "vp9": (8, 10, 12)}
"""Table 7."""
Source = bytes | bytearray | memoryview | DeviceArray | VideoStream


@dataclass(frozen=True, slots=True)
class FrameTimes:
    """What one unit takes for a frame of a codec."""

    pixel_seconds: float
    frame_seconds: float

    @classmethod
    def of(cls, chip: Chip, codec: str) -> FrameTimes:
        """Of a chip."""
        engines = chip.engines
        pixels, frame_us = {
            "h264": (engines.nvdec_h264_pixels_per_clk, engines.nvdec_h264_frame_us),
            "hevc": (engines.nvdec_hevc_pixels_per_clk, engines.nvdec_hevc_frame_us),
            "vp9": (engines.nvdec_vp9_pixels_per_clk, engines.nvdec_vp9_frame_us),
        }[codec]
        return cls(1 / (pixels * chip.clocks.sm_clock_mhz * 1e6), frame_us * 1e-6)

    def seconds(self, stream: VideoStream) -> float:
        """Of one frame; 4:4:4 has twice the samples of 4:2:0."""
        samples = 2.0 if stream.chroma == "444" else 1.0
        return self.frame_seconds + samples * stream.coded_pixels * self.pixel_seconds


@dataclass(eq=False, slots=True)
class VideoJob:
    """Streams that the decoders were given together.  Made by ``gpu.video.submit``."""

    streams: list[VideoStream]
    format: str
    dram_read_bytes: int = 0
    """Packets, and pictures that frames refer to."""
    dram_write_bytes: int = 0
    """The pictures."""
    _decoder: VideoDecoder | None = None
    _tasks: list[list[Task]] = field(default_factory=list)
    _frames: list[list[DeviceArray]] | None = None

    def wait(self) -> list[list[DeviceArray]]:
        """Let simulated time pass until all frames are decoded, and return them by stream, in the order in which they are shown.

        Raises:
            ArgumentError: a stream is damaged.
        """
        self._pass_time()
        if self._frames is None and self._decoder is not None:
            self._frames = [self._decoder.written(stream, self.format) for stream in self.streams]
        return self._frames or []

    def frame_end_seconds(self, stream: int = 0) -> list[float]:
        """When each frame of a stream was decoded, in the order of decoding, on the clock ``gpu.timeline``; waits for the job.

        Raises:
            UnsupportedError: the GPU keeps no time.
        """
        self._check_timed()
        self._pass_time()
        return [task.end_seconds or 0.0 for task in self._tasks[stream]]

    @property
    def begin_seconds(self) -> float:
        """When the first frame began, on the clock ``gpu.timeline``; waits for the job.

        Raises:
            UnsupportedError: the GPU keeps no time.
        """
        self._check_timed()
        self._pass_time()
        return min((task.begin_seconds or 0.0 for tasks in self._tasks for task in tasks), default=0.0)

    @property
    def end_seconds(self) -> float:
        """When the last frame was decoded; waits for the job.

        Raises:
            UnsupportedError: the GPU keeps no time.
        """
        return max((self.frame_end_seconds(stream)[-1] for stream in range(len(self.streams))), default=0.0)

    @property
    def seconds(self) -> float:
        """From the beginning of the first frame to the end of the last; waits for the job."""
        return self.end_seconds - self.begin_seconds

    def _check_timed(self) -> None:
        if self.streams and not self._tasks:
            raise UnsupportedError(f"the job has no times: {UNTIMED}")

    def _pass_time(self) -> None:
        if self._decoder is not None:
            self._decoder.timeline.wait(task for tasks in self._tasks for task in tasks)


class VideoDecoder:
    """The video decoders of a GPU: ``gpu.video``.

    Raises:
        UnsupportedError: the chip has none.
    """

    def __init__(self, device: Device, timeline: Timeline) -> None:
        count = device.chip.engines.nvdec_count
        if not count:
            raise UnsupportedError(
                f"{device.chip.name} has no video decoders in this model: use a100, v100, or a MIG instance with one (any but 1g.5gb)"
            )
        self._device = device
        self.timeline = timeline
        self._units = [timeline.unit(f"NVDEC {number}") for number in range(count)]
        self._ready = {unit.name: 0.0 for unit in self._units}

    @property
    def unit_count(self) -> int:
        """Frames that are decoded at once."""
        return len(self._units)

    def open(self, data: bytes | bytearray | memoryview | DeviceArray, name: str = "the video") -> VideoStream:
        """Read what a file's first video stream is.

        Args:
            data: a file of any container that FFmpeg reads: bytes, or a device array of uint8 that holds them.

        Raises:
            ArgumentError: the file has no video stream.
            UnsupportedError: the decoders lack its codec or format, or PyAV is not installed (the extra ``engines``).
        """
        on_device = isinstance(data, DeviceArray)
        if isinstance(data, DeviceArray):
            if data.dtype != np.uint8 or data.memory is not self._device.memory:
                raise ArgumentError(f"{name} must be a device array of uint8 on this GPU, not {data!r}")
            data = data.get().tobytes()
        if not isinstance(data, bytes | bytearray | memoryview):
            raise ArgumentError(f"{name} must be bytes or a device array of uint8, not {data!r}")
        stream = read_video(bytes(data), name, on_device)
        self._refuse(stream, name)
        return stream

    def decode(self, video: Source, format: str = "native") -> list[DeviceArray]:
        """Decode a video and wait for it: :meth:`submit` and ``wait``."""
        return self.submit([video], format).wait()[0]

    def submit(self, videos: Sequence[Source], format: str = "native") -> VideoJob:
        """Give the decoders streams, which they decode together; kernels that are launched before ``wait`` run beside them.

        Args:
            videos: files, or streams from :meth:`open`.  Bytes are copied to the device first.
            format: ``"native"``: NV12 and, for more than 8 bits, P016, of shape (3/2 height, width); three planes of 4:4:4.  Or ``"rgb"``,
                converted by FFmpeg, of shape (height, width, 3).

        Raises:
            ArgumentError: a file has no video stream, or there is no such format.
            UnsupportedError: the decoders lack a stream's codec or format.
        """
        if format not in FORMATS:
            raise ArgumentError(f"format={format!r} is not known; use one of {', '.join(map(repr, FORMATS))}")
        if isinstance(videos, bytes | bytearray | memoryview | DeviceArray | VideoStream):
            raise ArgumentError("submit() takes a list of videos: submit([video])")
        streams = []
        for number, video in enumerate(videos):
            streams.append(video if isinstance(video, VideoStream) else self.open(video, f"video {number}"))
            self._refuse(streams[-1], f"video {number}")
        job = VideoJob(streams, format, _decoder=self)
        for stream in streams:
            pictures = (len(stream.packet_bytes) - 1) * stream.frame_bytes
            job.dram_read_bytes += sum(stream.packet_bytes) + pictures
            job.dram_write_bytes += pictures + stream.frame_bytes
        if self._device.timing != "off":
            self._schedule(job)
        return job

    def written(self, stream: VideoStream, format: str) -> list[DeviceArray]:
        """The pictures of a stream in device memory; L2 does not have them."""
        return [
            written(self._device, picture, "decoded frame")
            for picture in (stream.rgb() if format == "rgb" else stream.pictures)
        ]

    def _schedule(self, job: VideoJob) -> None:
        """Give each frame to the unit on which it can begin first, frame by frame of all streams in turn."""
        now = self.timeline.seconds
        job._tasks = [[] for _ in job.streams]
        before: list[list[Task]] = []
        for stream in job.streams:
            before.append([] if stream.on_device else [self.timeline.copy_to_device(sum(stream.packet_bytes))])
        times = [FrameTimes.of(self._device.chip, stream.codec).seconds(stream) for stream in job.streams]
        ready = [now] * len(job.streams)
        for frame in range(max((len(stream.packet_bytes) for stream in job.streams), default=0)):
            for number, stream in enumerate(job.streams):
                if frame >= len(stream.packet_bytes):
                    continue
                unit = min(self._units, key=lambda one: max(self._ready[one.name], ready[number]))
                ready[number] = max(self._ready[unit.name], ready[number]) + times[number]
                self._ready[unit.name] = ready[number]
                traffic = stream.packet_bytes[frame] + stream.frame_bytes * (2 if frame else 1)
                task = Task("video frame", times[number], traffic, before[number])
                before[number] = [task]
                job._tasks[number].append(self.timeline.submit(unit, task))

    def _refuse(self, stream: VideoStream, name: str) -> None:
        """Refuse what the decoders lack (Table 7)."""
        if stream.codec not in CODECS:
            raise UnsupportedError(
                f"{name} is coded by {stream.codec}: the decoders have H.264, HEVC and VP9; decode it on the host"
            )
        most = self._device.chip.engines.nvdec_hevc_444_bits if stream.codec == "hevc" else 0
        chroma = ("420", "444") if 0 < stream.bits <= most else ("420",)
        if stream.bits not in _BITS[stream.codec] or stream.chroma not in chroma:
            bits = "/".join(map(str, _BITS[stream.codec]))
            formats = " and ".join(f"4:{one[1]}:{one[2]}" for one in chroma)
            raise UnsupportedError(
                f"{name} has pixels of {stream.pixels}: {self._device.chip.name} decodes {CODECS[stream.codec]} of {bits} bits with {formats}; "
                "decode it on the host"
            )

    def __repr__(self) -> str:
        return f"<video decoders of {self._device.chip.name}, {self.unit_count} units>"
