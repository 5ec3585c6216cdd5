"""Kernels beside draws: results, pictures, overlap where they need other units, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.arguments import pack
from warpwright.engine.kernels import lowered_of, traced
from warpwright.frame_launches import replay_beside
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.recording import Replay, last_image
from warpwright.graphics.timed.compute_work import KernelWork
from warpwright.graphics.timed.frame import FrameTime, described, frame_of
from warpwright.launch_groups import Member, make_jobs
from warpwright.studies.page import study_page
from warpwright.studies.study import Cell, Result, Study, Table
from warpwright.timing.block_sources import Grid

RECORDINGS = Path(ww.__file__).parent / "studies" / "recordings"
SOURCE = """
#include <cstdio>
extern "C" __global__ void turned(float *x)
{
    __shared__ float s[128];
    s[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    x[blockIdx.x * 128 + threadIdx.x] = s[127 - threadIdx.x];
}
extern "C" __global__ void chain(float *x, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = x[i], b = 1.0f;
    for (int n = 0; n < steps; n++) {
        a = a * 0.5f + b;
        b = b * 0.5f + a;
    }
    x[i] = a + b;
}
extern "C" __global__ void outside(float *x) { x[1 << 24] = 1.0f; }
"""


@pytest.fixture(scope="module")
def gpu() -> ww.GPU:
    return ww.GPU("g80", timing="full")


@pytest.fixture(scope="module")
def module(gpu: ww.GPU) -> Any:
    return gpu.compile(SOURCE)


def by_the_distributor(launcher: Any, *arguments: Any) -> FrameTime:
    """A kernel on a graphics device that draws nothing."""
    kernel = launcher.kernel
    device = GraphicsDevice.of_chip(kernel.gpu.chip)
    timer = device.keep_time(kernel.gpu.chip)
    packed = pack(kernel.parameters, kernel.name, arguments, kernel.gpu.memory)
    (job,) = make_jobs([Member(launcher, bytes(packed.parameters))], [])
    grid = Grid(job.context.program, lowered_of(kernel._loaded), traced(kernel._loaded, job.context), job.context)
    timer.launch(KernelWork(kernel.name, grid))
    frame = frame_of(timer)
    packed.copy_back()
    packed.release()
    return frame


@pytest.mark.ci
@pytest.mark.parametrize(("name", "blocks", "steps"), [("chain", 16, 20), ("chain", 300, 20), ("turned", 200, None)])
def test_alone_a_kernel_takes_as_long_as_by_the_dispatcher(
    module: Any, name: str, blocks: int, steps: int | None
) -> None:
    launcher, more = module[name][blocks, 128], () if steps is None else (steps,)
    first = np.random.default_rng(1).random(blocks * 128).astype(np.float32)
    second = first.copy()
    run = launcher(first, *more)
    frame = by_the_distributor(launcher, second, *more)
    np.testing.assert_array_equal(first, second)
    # The dispatcher's time has a launch's end in it: writes that are on their way, and fences.
    assert run.cycles - 400 < frame.cycles <= run.cycles
    (kernel,) = frame.kernels
    assert kernel.warps == 4 * blocks
    assert kernel.instructions == run.metrics["smsp__inst_executed.sum"]
    assert frame.shares()["compute"] == 1.0


@pytest.mark.ci
def test_kernels_and_draws_share_the_chip_and_change_nothing_of_each_other(gpu: ww.GPU, module: Any) -> None:
    plain = Replay(RECORDINGS / "hidden.wwcs", gpu.chip)
    plain.run()
    assert plain.device is not None
    assert plain.device.timer is not None
    draws = frame_of(plain.device.timer)
    first = np.arange(128 * 60, dtype=np.float32)
    second = np.ones(128 * 60, np.float32)
    want = np.arange(128 * 60, dtype=np.float32).reshape(-1, 128)[:, ::-1].reshape(-1)
    shared = replay_beside(
        RECORDINGS / "hidden.wwcs", (module["turned"][60, 128], (first,)), (module["chain"][60, 128], (second, 10))
    )
    np.testing.assert_array_equal(first, want)
    assert (second == second[0]).all()
    assert shared.is_same is True
    np.testing.assert_array_equal(shared.image, last_image(plain.device))
    assert [kernel.label for kernel in shared.frame.kernels] == ["turned", "chain"]
    assert draws.cycles < shared.frame.cycles
    begin = shared.frame.kernels[0].begin
    first_draw = next(d for d in shared.frame.draws if d.label != "clear")
    assert begin <= first_draw.begin < shared.frame.kernels[1].end, "they overlap"
    assert any("kernel turned: from" in line for line in described(shared.frame))
    assert set(shared.frame.to_dict()["kernels"][0]) >= {"label", "begin", "end", "blocks"}


@pytest.mark.ci
def test_kernels_overlap_with_draws_that_need_other_units(module: Any) -> None:
    """Depth alone keeps ROPs busy and no processor."""
    scene = RECORDINGS / "depth_only.wwcs"
    values = np.ones(128 * 300, np.float32)
    alone = module["chain"][300, 128](values, 60).cycles
    replay = Replay(scene, module["chain"].gpu.chip)
    replay.on_device = lambda device: setattr(device.timer, "times_copies", False)
    replay.run()
    assert replay.device is not None
    assert replay.device.timer is not None
    draws = frame_of(replay.device.timer).cycles
    both = replay_beside(scene, (module["chain"][300, 128], (values, 60)), times_copies=False).frame.cycles
    assert max(alone, draws) * 0.98 < both < max(alone, draws) + 0.35 * min(alone, draws)


def test_what_cannot_run_beside_draws_is_refused(gpu: ww.GPU, module: Any) -> None:
    values = np.ones(128, np.float32)
    other = ww.GPU("g80", timing="full").compile(SOURCE)["turned"][1, 128]
    with pytest.raises(ww.UnsupportedError, match="kernels of 2 GPUs"):
        replay_beside(RECORDINGS / "hidden.wwcs", (module["turned"][1, 128], (values,)), (other, (values,)))
    untimed = ww.GPU("g80", timing="off").compile(SOURCE)["turned"][1, 128]
    with pytest.raises(
        ww.UnsupportedError, match="turned cannot run beside draws: it is not timed in full; launch it alone"
    ):
        replay_beside(RECORDINGS / "hidden.wwcs", (untimed, (values,)))
    late = ww.GPU("v100", timing="full").compile(SOURCE)["turned"][1, 128]
    with pytest.raises(ww.UnsupportedError, match="graphics"):
        replay_beside(RECORDINGS / "hidden.wwcs", (late, (values,)))


@pytest.mark.ci
def test_a_fault_of_a_kernel_beside_draws_names_the_kernel(module: Any) -> None:
    with pytest.raises(ww.MemoryFaultError, match="kernel outside"):
        replay_beside(RECORDINGS / "hidden.wwcs", (module["outside"][1, 32], (np.ones(32, np.float32),)))


def test_a_map_of_shares_may_have_zeros() -> None:
    cells = [
        Cell("a", "vertex", 0.0, 0.0, 0.0),
        Cell("a", "pixel", 90.0, 90.0, 0.0),
        Cell("b", "pixel", 10.0, 10.0, 0.0),
    ]
    cells.append(Cell("b", "vertex", 5.0, 5.0, 0.0))
    found = Result([], [], [])
    found.maps = [Table("Warp time by kind", "%", cells)]
    page = study_page(Study("x", "y", "z", lambda _: Result()), found)
    assert page.count("heat0") >= 1
