"""The video decoders: frames are FFmpeg's bit for bit, formats are Table 7's, times follow from pixels and units, kernels run beside them."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.chips.mig import instance_chip, profile_of
from warpwright.engines.video import FrameTimes
from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.studies.a100_video import second_of, streams_supported

av = pytest.importorskip("av", reason="the extra engines")

WIDTH, HEIGHT, COUNT = 130, 74, 5
QUIET = {"libx265": {"x265-params": "log-level=none"}}


def video(encoder: str, pixels: str = "yuv420p", container: str = "matroska") -> bytes:
    """A file of a moving ramp."""
    into = io.BytesIO()
    with av.open(into, "w", format=container) as file:
        stream: Any = file.add_stream(encoder, rate=30)
        stream.width, stream.height, stream.pix_fmt, stream.options = WIDTH, HEIGHT, pixels, QUIET.get(encoder, {})
        y, x = np.mgrid[:HEIGHT, :WIDTH]
        for i in range(COUNT):
            rgb = np.stack([2 * x + 5 * i, 3 * y + i, x + y + 9 * i], -1).astype(np.uint8)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(rgb, format="rgb24")))
        file.mux(stream.encode())
    return into.getvalue()


@pytest.fixture(scope="module")
def gpu() -> ww.GPU:
    return ww.GPU("a100", timing="full")


@pytest.fixture(scope="module")
def h264() -> bytes:
    return video("libx264")


def library(data: bytes, format: str) -> list[Any]:
    with av.open(io.BytesIO(data)) as file:
        return [frame.to_ndarray(format=format) for frame in file.decode(video=0)]


@pytest.mark.parametrize(
    ("encoder", "pixels", "format"),
    [
        ("libx264", "yuv420p", "nv12"),
        pytest.param("libx265", "yuv420p", "nv12", marks=pytest.mark.ci),
        pytest.param("libvpx-vp9", "yuv420p", "nv12", marks=pytest.mark.ci),
    ],
)
def test_frames_are_the_library_s_bit_for_bit(gpu: ww.GPU, encoder: str, pixels: str, format: str) -> None:
    data = video(encoder, pixels)
    ours = gpu.video.decode(data)
    theirs = library(data, format)
    assert len(ours) == len(theirs) == COUNT
    for a, b in zip(ours, theirs, strict=True):
        assert np.array_equal(a.get(), b)
    colours = gpu.video.decode(data, "rgb")
    assert all(np.array_equal(a.get(), b) for a, b in zip(colours, library(data, "rgb24"), strict=True))


@pytest.mark.ci
@pytest.mark.parametrize("bits", [10, 12])
def test_more_bits_are_in_the_upper_ones(gpu: ww.GPU, bits: int) -> None:
    data = video("libx265", f"yuv420p{bits}le")
    found = gpu.video.decode(data)[0].get()
    with av.open(io.BytesIO(data)) as file:
        luma, blue, _ = next(file.decode(video=0)).planes
        theirs = np.frombuffer(luma, np.uint16).reshape(HEIGHT, -1)[:, :WIDTH]
        chroma = np.frombuffer(blue, np.uint16).reshape(HEIGHT // 2, -1)[:, : WIDTH // 2]
    assert found.dtype == np.uint16
    assert np.array_equal(found[:HEIGHT] >> (16 - bits), theirs)
    assert np.array_equal(found[HEIGHT:, 0::2] >> (16 - bits), chroma)
    assert not (found & ((1 << (16 - bits)) - 1)).any()


@pytest.mark.ci
def test_hevc_has_444_on_a100_only(gpu: ww.GPU) -> None:
    data = video("libx265", "yuv444p")
    assert np.array_equal(gpu.video.decode(data)[0].get(), library(data, "yuv444p")[0])
    stream, times = gpu.video.open(data), FrameTimes.of(gpu.chip, "hevc")
    less = replace(stream, pixels="yuv420p")
    assert times.seconds(stream) - times.frame_seconds == pytest.approx(2 * (times.seconds(less) - times.frame_seconds))
    with pytest.raises(UnsupportedError, match=r"v100 decodes HEVC of 8/10/12 bits with 4:2:0; decode it on the host"):
        ww.GPU("v100", timing="off").video.open(data)


def test_other_formats_and_codecs_are_refused(gpu: ww.GPU, h264: bytes) -> None:
    with pytest.raises(UnsupportedError, match=r"pixels of yuv422p: a100 decodes H.264 of 8 bits with 4:2:0"):
        gpu.video.decode(video("libx264", "yuv422p"))
    with pytest.raises(UnsupportedError, match="coded by mpeg4"):
        gpu.video.decode(video("mpeg4"))
    with pytest.raises(ArgumentError, match="not a video that FFmpeg can read"):
        gpu.video.decode(b"no video at all, but long enough to be looked at")
    with pytest.raises(ArgumentError, match="format='bgr' is not known"):
        gpu.video.decode(h264, "bgr")
    with pytest.raises(ArgumentError, match="takes a list"):
        gpu.video.submit(h264)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="p100 has no video decoders"):
        repr(ww.GPU("p100", timing="off").video)


def test_a_frame_takes_a_constant_and_its_coded_pixels(h264: bytes) -> None:
    gpu = ww.GPU("a100", timing="full")
    job = gpu.video.submit([gpu.array(np.frombuffer(h264, np.uint8))])
    engines = gpu.chip.engines
    coded = 144 * 80
    one = engines.nvdec_h264_frame_us * 1e-6 + coded / (
        engines.nvdec_h264_pixels_per_clk * gpu.chip.clocks.sm_clock_mhz * 1e6
    )
    ends = job.frame_end_seconds()
    assert np.diff([job.begin_seconds, *ends]) == pytest.approx(one)
    assert job.dram_write_bytes == COUNT * 130 * 111


def test_frames_of_a_stream_follow_each_other_and_streams_share_units(h264: bytes) -> None:
    gpu = ww.GPU("a100", timing="full")
    stream = gpu.video.open(gpu.array(np.frombuffer(h264, np.uint8)))
    alone = gpu.video.submit([stream]).seconds
    assert gpu.video.submit([stream] * 5).seconds == pytest.approx(alone)
    assert gpu.video.submit([stream] * 10).seconds == pytest.approx(2 * alone)


def test_a_stream_of_the_table_s_size_has_the_table_s_rate(h264: bytes) -> None:
    gpu = ww.GPU("a100", timing="full")
    stream = gpu.video.open(gpu.array(np.frombuffer(h264, np.uint8)))
    large = second_of(replace(stream, codec="hevc", width=1920, height=1080))
    assert streams_supported(gpu, large, 157) == pytest.approx(157, rel=0.05)


def test_kernels_run_beside_the_decoders_and_nothing_is_timed_without_timing(h264: bytes) -> None:
    source = 'extern "C" __global__ void twice(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }'
    gpu = ww.GPU("a100", timing="full")
    job = gpu.video.submit([h264])
    run = gpu.compile(source)["twice"][8, 128](gpu.zeros(1024))
    frames = job.wait()[0]
    assert len(frames) == COUNT
    assert gpu.timeline.seconds == pytest.approx(job.end_seconds)
    assert gpu.timeline.seconds > run.seconds
    untimed = ww.GPU("a100", timing="off").video.submit([h264])
    assert len(untimed.wait()[0]) == COUNT
    with pytest.raises(UnsupportedError, match="has no times"):
        repr(untimed.end_seconds)


def test_instances_have_their_decoders() -> None:
    whole = load_chip("a100")
    counts = {
        name: instance_chip(whole, profile_of(name)).engines.nvdec_count
        for name in ("1g.5gb", "1g.5gb+me", "3g.20gb", "7g.40gb")
    }
    assert counts == {"1g.5gb": 0, "1g.5gb+me": 1, "3g.20gb": 2, "7g.40gb": 5}
