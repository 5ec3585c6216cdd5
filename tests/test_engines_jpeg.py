"""The JPEG engine: pictures are libjpeg's bit for bit, times follow from samples and batches, kernels run beside it."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.chips.mig import instance_chip, profile_of
from warpwright.engines.jpeg import CoreTimes
from warpwright.engines.jpeg_files import read_jpeg
from warpwright.engines.timeline import Task, Timeline, Unit, shares
from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.studies.a100_engines import compressed, picture

Image = pytest.importorskip("PIL.Image", reason="the extra engines")

STREAM = """
extern "C" __global__ void stream(const float4 *x, float4 *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i];
}
"""


def jpeg(width: int, height: int, mode: str = "RGB", **options: Any) -> bytes:
    """A file of noise over a gradient."""
    random = np.random.default_rng(width * height)
    shape = (height, width) if mode == "L" else (height, width, {"RGB": 3, "CMYK": 4}[mode])
    ramp = np.arange(width * height).reshape(height, width)[..., None] * 200 // (width * height)
    pixels = (random.integers(0, 56, shape) + (ramp[..., 0] if mode == "L" else ramp)).astype(np.uint8)
    into = io.BytesIO()
    Image.fromarray(pixels, mode=mode).save(into, "JPEG", quality=85, **options)
    return into.getvalue()


FILES = {
    "420": jpeg(101, 67, subsampling=2),
    "422": jpeg(101, 67, subsampling=1),
    "444": jpeg(101, 67, subsampling=0),
    "400": jpeg(101, 67, "L"),
}


@pytest.fixture(scope="module")
def gpu() -> ww.GPU:
    return ww.GPU("a100", timing="full")


@pytest.mark.parametrize("format", FILES)
def test_pictures_are_the_library_s_bit_for_bit(gpu: ww.GPU, format: str) -> None:
    file = FILES[format]
    assert read_jpeg(file, "").format == format
    rgb = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
    luma = Image.open(io.BytesIO(file))
    luma.draft("L", None)
    (ours,) = gpu.jpeg.decode([file])
    assert np.array_equal(ours.get(), rgb)
    (bgr,), (rgba,), (y,) = (gpu.jpeg.decode([file], format=one) for one in ("bgr", "rgba", "y"))
    assert np.array_equal(bgr.get(), rgb[..., ::-1])
    assert np.array_equal(rgba.get()[..., :3], rgb)
    assert (rgba.get()[..., 3] == 255).all()
    assert np.array_equal(y.get(), np.asarray(luma))
    (ycbcr,) = gpu.jpeg.decode([file], format="ycbcr")
    assert np.array_equal(ycbcr.get()[..., 0], y.get())


def test_pictures_are_those_of_another_program_of_libjpeg(gpu: ww.GPU, monkeypatch: pytest.MonkeyPatch) -> None:
    # OpenCV changes it when it is imported.
    monkeypatch.setenv("LD_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", ""))
    cv2 = pytest.importorskip("cv2", reason="opencv-python-headless")
    for file in FILES.values():
        (ours,) = gpu.jpeg.decode([file], format="bgr")
        assert np.array_equal(ours.get(), cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR))


@pytest.mark.parametrize(("format", "samples"), [("420", 1.5), ("422", 2), ("444", 3), ("400", 1)])
def test_whole_units_are_coded(format: str, samples: float) -> None:
    """101 x 67 becomes 112 x 80, 112 x 72 and 104 x 72."""
    width, height = {"420": (112, 80), "422": (112, 72)}.get(format, (104, 72))
    assert sum(read_jpeg(FILES[format], "").samples) == samples * width * height


def test_a_core_takes_table_6_s_time_and_other_samplings_lie_on_the_line() -> None:
    times = CoreTimes.of(load_chip("a100"))
    luma, chroma = times.luma_seconds * 1e9 / 5, times.chroma_seconds * 1e9 / 5
    assert luma + 0.5 * chroma == pytest.approx(1e3 / 7000, rel=1e-3)
    assert luma + 2.0 * chroma == pytest.approx(1e3 / 3335, rel=1e-3)
    assert 0 < luma < luma + chroma < luma + 2 * chroma
    many = times.seconds(read_jpeg(jpeg(224, 224, subsampling=2), ""))
    assert 0.6 < (224 * 224 / many * 5 / 1e6) / 7000 < 0.7


def test_a_batch_of_five_takes_as_long_as_its_slowest_image(gpu: ww.GPU) -> None:
    small, large = jpeg(64, 64), jpeg(512, 512)
    held = {name: gpu.array(np.frombuffer(file, np.uint8)) for name, file in (("small", small), ("large", large))}
    mixed = gpu.jpeg.submit([held[name] for name in ("small", "small", "large", "small", "small", "small")])
    alone = [gpu.jpeg.submit([held[name]]) for name in ("large", "small")]
    assert mixed.batch_count == 2
    assert list(map(len, mixed.core_busy_seconds)) == [5, 1]
    assert mixed.seconds == pytest.approx(sum(job.seconds for job in alone))
    assert mixed.core_busy_seconds[0][2] == max(mixed.core_busy_seconds[0])


def test_files_and_pictures_are_counted_as_traffic_of_dram(gpu: ww.GPU) -> None:
    files = list(FILES.values())
    job = gpu.jpeg.submit(files)
    assert job.dram_read_bytes == sum(map(len, files))
    assert job.dram_write_bytes == len(files) * 101 * 67 * 3


def test_files_of_the_host_are_copied_before_their_batch_and_beside_others() -> None:
    gpu = ww.GPU("a100", timing="full")
    file = jpeg(256, 256)
    transfer = gpu.chip.transfer
    copy = transfer.host_copy_latency_us * 1e-6 + 5 * len(file) / (transfer.pageable_copy_gb_per_s * 1e9)
    job = gpu.jpeg.submit([file] * 10)
    assert job.begin_seconds == pytest.approx(copy)
    assert job.seconds == pytest.approx(2 * job.core_busy_seconds[0][0])  # the second copy is made meanwhile
    assert gpu.timeline.seconds == job.end_seconds


def test_kernels_run_beside_the_engine() -> None:
    gpu = ww.GPU("a100", timing="full")
    kernel = gpu.compile(STREAM)["stream"]
    x, y = gpu.zeros(1 << 18, np.float32), gpu.zeros(1 << 18, np.float32)
    job = gpu.jpeg.submit([gpu.array(np.frombuffer(jpeg(512, 512), np.uint8))])
    run = kernel[108, 256](x, y, 1 << 16)
    alone = job.core_busy_seconds[0][0]
    assert gpu.timeline.seconds == pytest.approx(run.seconds)
    assert job.begin_seconds == 0
    assert job.end_seconds == pytest.approx(alone)
    assert run.seconds < alone
    kernel[108, 256](x, y, 1 << 16)
    assert gpu.timeline.seconds > alone


def test_equal_shares_of_a_bandwidth_first() -> None:
    assert shares([1.0, 2.0], 10.0) == [1.0, 2.0]
    assert shares([30.0, 2.0, 40.0], 42.0) == [20.0, 2.0, 20.0]
    assert shares([30.0, 8.0], 20.0) == [12.0, 8.0]


def test_tasks_that_ask_for_more_than_dram_serves_slow_each_other_down() -> None:
    timeline = Timeline(ww.GPU("a100", timing="full"))
    rate = 2e9 * load_chip("a100").transfer.device_copy_gb_per_s
    one, other = (timeline.submit(timeline.unit(name), Task(name, 1.0, int(0.75 * rate))) for name in ("one", "other"))
    last = timeline.submit(Unit("idle"), Task("none", 0.0, 0))
    assert last.end_seconds is None
    timeline.wait([one, other])
    assert one.end_seconds == pytest.approx(1.5)
    assert other.end_seconds == pytest.approx(1.5)
    light = timeline.submit(timeline.unit("light"), Task("light", 1.0, int(0.1 * rate)))
    heavy = timeline.submit(timeline.unit("heavy"), Task("heavy", 1.0, int(rate)))
    timeline.wait([light, heavy])
    assert light.end_seconds == pytest.approx(2.5)
    assert heavy.end_seconds == pytest.approx(2.6)


def test_without_timing_there_are_pictures_and_no_times() -> None:
    gpu = ww.GPU("a100", timing="off")
    job = gpu.jpeg.submit([FILES["420"]])
    assert job.wait()[0].shape == (67, 101, 3)
    with pytest.raises(UnsupportedError, match=r"the job has no times: its GPU was made with timing='off'"):
        _ = job.seconds


def test_pictures_are_arguments_of_kernels(gpu: ww.GPU) -> None:
    source = 'extern "C" __global__ void invert(unsigned char *x) { x[blockIdx.x * 101 + threadIdx.x] ^= 255; }'
    (picture,) = gpu.jpeg.decode([FILES["400"]], format="y")
    before = picture.get()
    gpu.compile(source)["invert"][67, 101](picture)
    assert np.array_equal(picture.get(), 255 - before)


@pytest.mark.parametrize(
    ("file", "error", "message"),
    [
        (b"\x89PNG\r\n", ArgumentError, "image 0 is not a JPEG file: it begins with 89 50 4e 47, not ff d8"),
        (b"", ArgumentError, "image 0 is not a JPEG file: it begins with nothing, not ff d8"),
        (FILES["420"][:100], ArgumentError, "image 0 is not a complete JPEG file: it has no frame within 100 bytes"),
        (FILES["420"][:-400], ArgumentError, r"image 0 is damaged: image file is truncated"),
        (
            jpeg(64, 64, progressive=True),
            UnsupportedError,
            "image 0 is progressive, 8 bits: the engine decodes sequential files of 8 bits with 4:2:0, 4:2:2, 4:4:4 or 4:0:0; "
            "convert it, or decode it on the host",
        ),
        (jpeg(64, 64, "CMYK"), UnsupportedError, "image 0 has components of 1x1 1x1 1x1 1x1 blocks"),
    ],
)
def test_what_the_engine_does_not_decode_is_refused(
    gpu: ww.GPU, file: bytes, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(")):
        gpu.jpeg.decode([file])


def test_wrong_arguments_are_refused(gpu: ww.GPU) -> None:
    with pytest.raises(ArgumentError, match=r"format='nv12' is not known; use one of 'rgb'"):
        gpu.jpeg.decode([], format="nv12")
    with pytest.raises(ArgumentError, match="takes a list of images"):
        gpu.jpeg.decode(FILES["420"])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="must be a device array of uint8 on this GPU"):
        gpu.jpeg.decode([gpu.zeros(8, np.float32)])
    assert gpu.jpeg.decode([]) == []


def test_chips_and_instances_without_the_engine_say_so() -> None:
    with pytest.raises(UnsupportedError, match="v100 has no JPEG engine in this model: use a100"):
        _ = ww.GPU("v100", timing="off").jpeg
    cores = {
        name: instance_chip(load_chip("a100"), profile_of(name)).engines.nvjpg_core_count
        for name in ("1g.5gb", "7g.40gb")
    }
    assert cores == {"1g.5gb": 0, "7g.40gb": 5}


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(UnsupportedError, match=r"Pillow, which is not installed: pip install 'warpwright\[engines\]'"):
        _ = ww.GPU("a100", timing="off").jpeg


def test_the_study_s_files_have_the_table_s_compression() -> None:
    pixels = picture(224)
    for format in ("420", "444"):
        assert pixels.nbytes / len(compressed(pixels, format)) == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize("rate", [0.4, 1.9])
def test_a_chip_whose_rates_contradict_each_other_is_refused(rate: float) -> None:
    """Chroma of full size takes at most as many pixels; beyond four times fewer, luma would take no time."""
    with pytest.raises(ww.chips.ChipError, match=f"nvjpg_420_pixels_per_clk = {rate} must be"):
        load_chip("a100", nvjpg_420_pixels_per_clk=rate)
