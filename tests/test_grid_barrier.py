"""The grid's barrier of the device runtime, whose functions the driver provides as machine code (``cudaCGSynchronize``)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright.errors import DeadlockError, LaunchError, TrapError
from warpwright.run_launch import launch_packed
from warpwright.studies.synchronisation import routine_code
from warpwright.toolchain import InputKind, compile_source, link

SOURCE = r"""
extern "C" __device__ void *__cuda_syscall_CGS_get_intrinsic_handle(unsigned scope);
extern "C" __device__ unsigned __cuda_syscall_CGS_sync(void *handle, unsigned flags);

extern "C" __global__ void turns(int *x, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    void *grid = __cuda_syscall_CGS_get_intrinsic_handle(1);
    for (int round = 0; round < rounds; round++) {
        int other = x[(i + blockDim.x) % n];
        __cuda_syscall_CGS_sync(grid, 0);
        x[i] = other + 1;
        __cuda_syscall_CGS_sync(grid, 0);
    }
}
"""


@cache
def cubin(arch: str) -> bytes:
    object_code = compile_source(SOURCE, arch, options=["-rdc=true"]).cubin
    return link([(InputKind.CUBIN, object_code, "turns.cubin")], arch).cubin


@pytest.mark.ci
@pytest.mark.parametrize(
    ("chip", "arch", "engine", "blocks", "rounds"),
    [
        pytest.param("p100", "60", "", 5, 4, marks=pytest.mark.ci),
        pytest.param("v100", "70", "", 5, 4, marks=pytest.mark.ci),
        pytest.param("a100", "80", "", 5, 4, marks=pytest.mark.ci),
        ("h200", "90", "", 5, 4),
        ("a100", "80", "interpreter", 2, 1),
    ],
)
def test_blocks_wait_for_each_other(chip: str, arch: str, engine: str, blocks: int, rounds: int) -> None:
    x = np.arange(blocks * 64, dtype=np.int32)
    gpu = ww.GPU(chip, timing="off", **({"engine": engine} if engine else {}))
    gpu.compile(cubin(arch))["turns"][blocks, 64](x, np.int32(x.size), np.int32(rounds))
    np.testing.assert_array_equal(x, np.roll(np.arange(blocks * 64, dtype=np.int32), -64 * rounds) + rounds)


@pytest.mark.ci
def test_timed_blocks_wait_for_each_other() -> None:
    x = np.arange(4 * 64, dtype=np.int32)
    run = ww.GPU("a100").compile(cubin("80"))["turns"][4, 64](x, np.int32(x.size), np.int32(2))
    np.testing.assert_array_equal(x, np.roll(np.arange(4 * 64, dtype=np.int32), -128) + 2)
    assert run.cycles > 4 * 1000  # four barriers of two trips to the L2 each


def test_a_grid_that_does_not_fit_is_refused() -> None:
    x = np.zeros(1 << 20, np.int32)
    with pytest.raises(LaunchError, match="synchronises its whole grid, so all of its 16,384 blocks must run at once"):
        ww.GPU("a100", timing="off").compile(cubin("80"))["turns"][1 << 14, 64](x, np.int32(x.size), np.int32(1))


GROUP = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry meets()
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    mov.u32 %r1, %envreg1;
    mov.u32 %r2, %envreg2;
    or.b32 %r3, %r1, %r2;
    setp.ne.u32 %p, %r3, 0;
    @%p ret;
    trap;
}
"""
"""As ``grid.sync()`` begins: it traps where there is no workspace."""


@pytest.mark.parametrize(
    ("check", "titles"), [("synccheck", ["Barrier error detected. Grid barrier in ordinary launch"]), ("", [])]
)
def test_the_grid_barrier_traps_in_a_launch_that_is_not_cooperative(check: str, titles: list[str]) -> None:
    gpu = ww.GPU("a100", timing="off", check=check)
    launcher = gpu.compile(GROUP)["meets"][2, 32]
    launch_packed(launcher, b"", cooperative=True)
    launch_packed(launcher, b"")
    with pytest.raises(
        TrapError, match=r"grid\.sync\(\) traps in a launch that is not cooperative: .*cudaLaunchCooperativeKernel"
    ):
        launch_packed(launcher, b"", cooperative=False)
    assert [finding.title for finding in gpu.findings] == titles


CARD = json.loads((Path(__file__).parents[1] / "bench/data/h200/barriers.json").read_text())


@pytest.mark.ci
@pytest.mark.parametrize(("per_sm", "threads"), [(1, 32), (1, 1024), (2, 256), (2, 512), (4, 32), (8, 32)])
def test_the_routine_takes_as_long_as_the_drivers_on_an_h200(per_sm: int, threads: int) -> None:
    """``python -m bench.machine.barriers``; the routine itself is ours, with the driver's count of instructions."""
    gpu = ww.GPU("h200")
    kernel = gpu.compile(routine_code("90"))["grid"]
    word = gpu.zeros(32, np.uint32)
    few, many = (kernel[per_sm * gpu.chip.sm.sm_count, threads](word, np.int32(n)).cycles for n in (2, 6))
    card = CARD["rows"]["driver, grid"][CARD["shapes"].index([per_sm, threads])]
    assert (many - few) / 4 == pytest.approx(card, rel=0.15)


@pytest.mark.ci
def test_the_barrier_of_several_grids_takes_as_long_as_the_drivers_on_one_h200() -> None:
    """A grid that is alone on its device fences for the device only."""
    node = ww.System("h200x2")
    kernel = node.gpus[0].compile(routine_code("90"))["grids"]
    blocks = node.gpus[0].chip.sm.sm_count
    few, many = (node.launch((kernel[blocks, 32], (np.int32(n),)), cooperative=True)[0].cycles for n in (2, 10))
    card = CARD["rows"]["driver, grids"][CARD["shapes"].index([1, 32])]
    assert (many - few) / 8 == pytest.approx(card, rel=0.2)


PARTIAL = """#include <cooperative_groups.h>
extern "C" __global__ void left_early(int *x, int left) {
    if (blockIdx.x >= left) return;
    cooperative_groups::this_grid().sync();
    x[blockIdx.x] = 1;
}
extern "C" __global__ void waits_elsewhere(volatile int *x, int left) {
    if (blockIdx.x == left) {
        if (threadIdx.x == 0) while (x[0] == 0) { }
        asm volatile("bar.sync 1;");
    }
    cooperative_groups::this_grid().sync();
    x[blockIdx.x] = 1;
}
"""

PARTIAL_LINE = next(
    n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.startswith("PARTIAL =")
)


def partial(chip: str, timing: str, kernel: str, blocks: int, left: int) -> str:
    x = np.zeros(blocks, np.int32)
    with pytest.raises(DeadlockError) as caught:
        ww.GPU(chip, timing=timing).compile(PARTIAL)[kernel][blocks, 64](x, np.int32(left))
    return str(caught.value)


@pytest.mark.ci
@pytest.mark.parametrize(("chip", "timing"), [("p100", "off"), ("v100", "off"), ("h200", "off"), ("a100", "full")])
@pytest.mark.usefixtures("early_inspections")
def test_blocks_that_leave_before_the_barrier_are_named(chip: str, timing: str) -> None:
    text = partial(chip, timing, "left_early", 8, 7)
    line = PARTIAL_LINE + 3
    assert "block (7, 0, 0) has ended, with one call of grid.sync() fewer than 7 of 8 blocks, which wait in" in text
    assert f"which wait in grid.sync() at {__file__}:{line}" in text
    assert "every block must call grid.sync() equally often" in text
    assert "release the lock" not in text
    assert text.count(f"{__file__}:") == text.count(f"{__file__}:{line}")


@pytest.mark.ci
def test_many_blocks_that_leave_before_the_barrier_are_counted() -> None:
    text = partial("v100", "off", "left_early", 9, 2)
    assert (
        "blocks (2, 0, 0), (3, 0, 0), (4, 0, 0), (5, 0, 0) and 3 more have ended, with one call of grid.sync()" in text
    )
    assert "fewer than 2 of 9 blocks, which wait in grid.sync()" in text


@pytest.mark.ci
def test_a_barrier_is_not_blamed_if_a_block_polls_elsewhere() -> None:
    """Which of the blocks that poll do so at the barrier is not known, only that one does not."""
    text = partial("v100", "off", "waits_elsewhere", 4, 2)
    assert "1 resident block does not come to grid.sync()" in text
    assert "where 3 of 4 blocks wait" in text
