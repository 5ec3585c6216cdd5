"""The optical flow accelerator: vectors are OpenCV's, in S10.5 on a grid; times follow from pixels and preset; kernels run beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.chips.mig import instance_chip, profile_of
from warpwright.engines import flow_vectors
from warpwright.engines.optical_flow import PRESETS, pixels_per_second
from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.studies.a100_optical_flow import MOTIONS, scene, seen

cv2 = pytest.importorskip("cv2", reason="the extra engines")


@pytest.fixture(scope="module")
def gpu() -> ww.GPU:
    return ww.GPU("a100", timing="full")


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    picture = scene()
    return seen(picture, 0, 0), seen(picture, 5, 3)


@pytest.mark.parametrize(("preset", "number"), [("fast", 0), ("medium", 1), ("slow", 2)])
def test_dense_vectors_are_the_library_s(gpu: ww.GPU, pair: tuple[Any, Any], preset: str, number: int) -> None:
    theirs = cv2.DISOpticalFlow_create(number).calc(*pair, None)
    ours = gpu.optical_flow.flow(*pair, preset=preset, grid=1).get()
    assert ours.dtype == np.int16
    assert np.array_equal(ours, np.rint(theirs * np.float64(32)).astype(np.int16))


def test_a_block_s_vector_is_the_mean_of_what_there_is_of_it() -> None:
    values = np.arange(35, dtype=np.float32).reshape(5, 7)
    means = flow_vectors.on_grid(values, 4)
    assert means.tolist() == [
        [values[:4, :4].mean(), values[:4, 4:].mean()],
        [values[4:, :4].mean(), values[4:, 4:].mean()],
    ]
    matches = np.array([[-1, 4], [6, -1]], np.float32)
    assert flow_vectors.matched_on_grid(matches, 2).tolist() == [[5]]
    assert flow_vectors.matched_on_grid(np.full((2, 2), -1, np.float32), 2).tolist() == [[-1]]
    assert flow_vectors.fixed(np.array([1.5, -0.03125, 2000, -2000], np.float32)).tolist() == [48, -1, 32767, -32768]


@pytest.mark.parametrize(("right", "down"), MOTIONS)
def test_known_motions_are_found(gpu: ww.GPU, right: int, down: int) -> None:
    picture = scene(seed=7)
    found = gpu.optical_flow.flow(seen(picture, 0, 0), seen(picture, right, down)).get()
    assert np.median(found, (0, 1)) / 32 == pytest.approx([right, down], abs=0.2)


def test_disparities_are_the_library_s_up_to_the_left_edge(gpu: ww.GPU) -> None:
    picture = scene(seed=3)
    left, right = seen(picture, 0, 0), seen(picture, -12, 0)
    found = gpu.optical_flow.disparity(left, right, grid=1).get()
    assert np.median(found[:, 20:]) == 12 * 32
    wide = [np.hstack([np.repeat(one[:, :1], 256, 1), one]) for one in (left, right)]
    theirs = cv2.StereoSGBM_create(minDisparity=0, numDisparities=256, blockSize=5, P1=200, P2=800).compute(*wide)
    theirs = theirs[:, 256:]
    assert np.array_equal(found, np.where(theirs < 0, -32, 2 * theirs))


def test_formats_give_the_vectors_of_their_luma(gpu: ww.GPU, pair: tuple[Any, Any]) -> None:
    gray = gpu.optical_flow.flow(*pair).get()
    nv12 = [np.vstack([one, np.full((128, 256), 90, np.uint8)]) for one in pair]
    assert np.array_equal(gpu.optical_flow.flow(*nv12, format="nv12").get(), gray)
    rgb = [np.dstack([one] * 3) for one in pair]
    assert np.array_equal(gpu.optical_flow.flow(*rgb, format="rgb").get(), gray)
    on_device = [gpu.array(one) for one in pair]
    assert np.array_equal(gpu.optical_flow.flow(*on_device).get(), gray)


def test_wrong_arguments_are_refused(gpu: ww.GPU, pair: tuple[Any, Any]) -> None:
    engine = gpu.optical_flow
    with pytest.raises(ArgumentError, match=r"preset='best' is not known; use one of 'slow', 'medium', 'fast'"):
        engine.flow(*pair, preset="best")
    with pytest.raises(ArgumentError, match=r"grid=8 is not known; use one of 1, 2, 4"):
        engine.flow(*pair, grid=8)
    with pytest.raises(
        ArgumentError, match=r"pair 0 has pictures of \(256, 256\) and \(256, 128\): they must have one size"
    ):
        engine.flow(pair[0], pair[1][:, :128])
    with pytest.raises(
        ArgumentError, match=r"picture 1 of pair 0 has shape \(256, 256\) of float32: pictures of 'gray' are"
    ):
        engine.flow(pair[0], pair[1].astype(np.float32))
    with pytest.raises(ArgumentError, match="pair 0 must be two pictures"):
        engine.submit([pair[0]])  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="must be a device array or a NumPy array"):
        engine.flow(b"", b"")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="must be on this GPU"):
        engine.flow(pair[0], ww.GPU("a100", timing="off").array(pair[1]))
    with pytest.raises(UnsupportedError, match="v100 has no optical flow accelerator in this model: use a100"):
        repr(ww.GPU("v100", timing="off").optical_flow)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_pair_takes_its_pixels_at_the_preset_s_rate(pair: tuple[Any, Any], preset: str) -> None:
    gpu = ww.GPU("a100", timing="full")
    held = gpu.array(pair[0]), gpu.array(pair[1])
    job = gpu.optical_flow.submit([held] * 4, preset=preset, grid=2)
    assert job.seconds == pytest.approx(4 * 256 * 256 / pixels_per_second(gpu.chip, preset))
    assert (job.dram_read_bytes, job.dram_write_bytes) == (4 * 2 * 256 * 256, 4 * 128 * 128 * 4)
    stereo = gpu.optical_flow.submit_stereo([held], preset=preset)
    assert stereo.begin_seconds == pytest.approx(job.end_seconds)
    assert stereo.dram_write_bytes == 64 * 64 * 2


def test_pictures_of_the_host_are_copied_first(pair: tuple[Any, Any]) -> None:
    gpu = ww.GPU("a100", timing="full")
    job = gpu.optical_flow.submit([pair])
    transfer = gpu.chip.transfer
    assert job.begin_seconds == pytest.approx(
        transfer.host_copy_latency_us * 1e-6 + 2 * 256 * 256 / (transfer.pageable_copy_gb_per_s * 1e9)
    )


def test_kernels_run_beside_it_and_share_dram_s_bandwidth(pair: tuple[Any, Any]) -> None:
    source = 'extern "C" __global__ void twice(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }'
    gpu = ww.GPU("a100", timing="full")
    held = gpu.array(pair[0]), gpu.array(pair[1])
    job = gpu.optical_flow.submit([held])
    run = gpu.compile(source)["twice"][8, 128](gpu.zeros(1024))
    assert gpu.timeline.seconds == pytest.approx(run.seconds)
    job.wait()
    alone = 256 * 256 / pixels_per_second(gpu.chip, "medium")
    assert job.seconds == pytest.approx(alone)


def test_an_engine_that_asks_for_more_than_dram_leaves_takes_longer(pair: tuple[Any, Any]) -> None:
    wide = 'extern "C" __global__ void add(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }'
    gpu = ww.GPU(load_chip("a100", ofa_fast_pixels_per_clk=500.0), timing="full")
    held = gpu.array(pair[0]), gpu.array(pair[1])
    alone = gpu.optical_flow.submit([held] * 4, preset="fast").seconds
    shared = gpu.optical_flow.submit([held] * 4, preset="fast")
    run = gpu.compile(wide)["add"][2048, 256](gpu.zeros(2048 * 256))
    bandwidth = max(2e9 * gpu.chip.transfer.device_copy_gb_per_s, 4 * (2 * 256 * 256 + 64 * 64 * 4) / alone)
    left = bandwidth - run.metrics["dram__bytes.sum"] / run.seconds
    assert left < bandwidth
    asked = (shared.dram_read_bytes + shared.dram_write_bytes) / alone
    assert shared.seconds == pytest.approx(alone * max(1, asked / left))
    assert shared.seconds > 1.1 * alone


def test_nothing_is_timed_without_timing(pair: tuple[Any, Any]) -> None:
    job = ww.GPU("a100", timing="off").optical_flow.submit([pair])
    assert job.wait()[0].shape == (64, 64, 2)
    with pytest.raises(UnsupportedError, match="has no times"):
        repr(job.seconds)


def test_instances_have_their_accelerator() -> None:
    whole = load_chip("a100")
    counts = {
        name: instance_chip(whole, profile_of(name)).engines.ofa_count
        for name in ("1g.5gb", "1g.5gb+me", "4g.20gb", "7g.40gb")
    }
    assert counts == {"1g.5gb": 0, "1g.5gb+me": 1, "4g.20gb": 0, "7g.40gb": 1}


def test_opencv_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    with pytest.raises(
        UnsupportedError, match=r"opencv-python-headless\), which is not installed: pip install 'warpwright\[engines\]'"
    ):
        repr(ww.GPU("a100", timing="off").optical_flow)
