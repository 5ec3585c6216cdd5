"""Kernels that never end are stopped and explained, on every chip, in both engines and in simulated time; others are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.cycle_detection import Recurrence
from warpwright.engine.geometry import Geometry
from warpwright.engine.lane_positions import StandingBlock
from warpwright.engine.standstill import _absent_blocks
from warpwright.timing import livelock

ENDLESS = """
extern "C" __global__ void lane_lock(int *lock, int *count) {
    while (atomicCAS(lock, 0, 1) != 0) { }
    *(volatile int *)count += 1;
    atomicExch(lock, 0);
}
extern "C" __global__ void unset_flag(volatile int *flag, int *out) {
    __shared__ int seen;
    if (threadIdx.x == 0) {
        while (*flag == 0) { }
        seen = 3;
    }
    __syncthreads();
    out[threadIdx.x] = seen;
}
extern "C" __global__ void round_trip(volatile int *flag, int *out) {
    // Memory changes on the way, but always comes back to what it was.
    while (flag[1] == 0) {
        atomicAdd((int *)flag, 1);
        atomicSub((int *)flag, 1);
    }
    out[0] = 1;
}
extern "C" __global__ void grid_barrier(int *count, int *out) {
    if (blockIdx.x == 1) return;
    atomicAdd(count, 1);
    while (atomicAdd(count, 0) < gridDim.x * blockDim.x) {
#if __CUDA_ARCH__ >= 700
        __nanosleep(100);
#endif
    }
    out[0] = 1;
}
extern "C" __global__ void thread_barrier(int *count, int *out) {
    if (blockIdx.x == 1) return;
    if (threadIdx.x == 0) {
        atomicAdd(count, 1);
        while (*(volatile int *)count < gridDim.x) { }
    }
    __syncthreads();
    out[threadIdx.x] = 1;
}
extern "C" __global__ void without_meeting(int *count, int *out) {
    if (blockIdx.x == 1) return;
    if (threadIdx.x == 0) {
        atomicAdd(count, 1);
        while (*(volatile int *)count < gridDim.x) { }
    }
    out[threadIdx.x] = 1;
}
extern "C" __global__ void keeps_ticket(int *tickets, int *out) {
    if (threadIdx.x == 0) {
        int mine = atomicAdd(tickets, 1);
        while (atomicAdd(tickets + 1, 0) != mine) { }
        out[0] += 1;
        __threadfence();
        if (blockIdx.x != 1) atomicAdd(tickets + 1, 1);
    }
}
"""
ENDING = """
extern "C" __global__ void slow_setter(volatile int *flag, int *out) {
    if (blockIdx.x == 0) {
        int n = 0;
        while (n < 3000) n += *(flag + 1) + 1;
        *flag = n;
    } else {
        while (*flag == 0) { }
        out[blockIdx.x] = *flag;
    }
}
extern "C" __global__ void counts_in_memory(volatile int *flag, int *out) {
    // Every warp is always in the same state; only memory tells that it goes on.
    while (atomicAdd((int *)flag, 1) < 30000) { }
    out[0] = 1;
}
extern "C" __global__ void passes_a_token(volatile int *token, int *out) {
    // Memory is the same after every round, and only the blocks' registers tell that they go on.
    for (int round = 0; round < 400; round++) {
        while (*token != blockIdx.x) { }
        *token = (blockIdx.x + 1) % gridDim.x;
    }
    out[0] = 1;
}
extern "C" __global__ void works_in_turns(volatile int *token, int *out) {
    // The same, with much to do in every round.
    unsigned x = threadIdx.x;
    for (int round = 0; round < 30; round++) {
        while (*token != blockIdx.x) { }
        for (int i = 0; i < 2000; i++) x = x * 1664525 + 1013904223;
        *token = (blockIdx.x + 1) % gridDim.x;
    }
    out[0] = x != 1;
}
extern "C" __global__ void meets(volatile int *count, int *out) {
    // All blocks wait for the last one.
    if (threadIdx.x == 0) {
        atomicAdd((int *)count, 1);
        while (*count < (int)gridDim.x) { }
    }
    __syncthreads();
    if (blockIdx.x == 0) out[0] = *count;
}
extern "C" __global__ void in_reverse(volatile int *done, int *out) {
    // Each block waits for the next one, so only the last can end at first.
    while (*done != gridDim.x - 1 - blockIdx.x) { }
    *done += 1;
    out[0] = *done;
}
extern "C" __global__ void times_out(volatile int *flag, int *out) {
    long long begin = clock64();
    while (*flag == 0 && clock64() - begin < 200000) { }
    out[0] = *flag == 0 ? -1 : 1;
}
"""


FIRST_LINE = next(
    n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.startswith("ENDLESS =")
)


def at(number: int) -> str:
    """A line of ENDLESS, which is one of this file."""
    return f"{__file__}:{FIRST_LINE + number - 1}"


def launch(gpu: ww.GPU, source: str, name: str, grid: int, block: int) -> np.ndarray:
    flag, out = gpu.array(np.zeros(64, np.int32)), gpu.array(np.zeros(64, np.int32))
    gpu.compile(source)[name][grid, block](flag, out)
    return np.asarray(out.numpy())


def deadlock(gpu: ww.GPU, name: str, grid: int, block: int) -> str:
    with pytest.raises(ww.DeadlockError, match="only repeat themselves") as caught:
        launch(gpu, ENDLESS, name, grid, block)
    return str(caught.value)


def test_a_lock_among_lanes_hangs_before_volta_and_is_explained() -> None:
    text = deadlock(ww.GPU("p100", timing="off"), "lane_lock", 1, 32)
    assert f"lanes 1-31 only repeat {at(3)}" in text
    assert "lane 0 waits its turn at" in text
    assert "do not go on independently on sm_60" in text
    assert "reconvergence stack" in text


@pytest.mark.ci
@pytest.mark.parametrize("kernel", ["thread_barrier", "without_meeting"])
@pytest.mark.parametrize("chip", ["p100", "v100"])
def test_a_barrier_of_the_grid_is_explained_by_the_block_that_ended(chip: str, kernel: str) -> None:
    """On p100 too, where lanes wait for the spinning one but hold nothing that it waits for."""
    text = deadlock(ww.GPU(chip, timing="off"), kernel, 4, 64)
    spins = 38 if kernel == "thread_barrier" else 47
    assert f"lane 0 only repeats {at(spins)}: while (*(volatile int *)count < gridDim.x)" in text
    if kernel == "thread_barrier":
        assert f"lanes 1-31 wait for the warp's other lanes at {at(40)}: __syncthreads();" in text
    assert "\n  block (1, 0, 0) has ended\n" in text
    assert "does one return before it has" in text
    assert "reconvergence stack" not in text


@pytest.mark.ci
@pytest.mark.parametrize("chip", ["v100", "h200"])
def test_a_loop_is_named_by_its_own_line(chip: str) -> None:
    """And not by the line of the instruction before it, which the compiler gives to the YIELD at the loop's beginning."""
    text = deadlock(ww.GPU(chip, timing="off"), "keeps_ticket", 4, 64)
    assert f"warp 0: lane 0 only repeats {at(54)}: while (atomicAdd(tickets + 1, 0) != mine)" in text
    assert "\n  blocks (0, 0, 0) and (1, 0, 0) have ended\n" in text


@pytest.mark.ci
@pytest.mark.parametrize("work", ['printf("begin");', "out[1] = malloc(64) != 0;"])
def test_a_kernel_that_prints_or_allocates_and_waits(work: str) -> None:
    source = f"""
#include <cstdio>
extern "C" __global__ void waits(volatile int *flag, int *out) {{
    {work}
    while (*flag == 0) {{ }}
    out[0] = 1;
}}
"""
    with pytest.raises(ww.DeadlockError, match=r"lanes 0-31 only repeat .*: while \(\*flag == 0\)"):
        launch(ww.GPU("v100", timing="off"), source, "waits", 2, 32)


@pytest.mark.ci
def test_an_mbarrier_that_is_never_completed() -> None:
    source = """
extern "C" __global__ void waits(volatile int *flag, int *out) {
    __shared__ unsigned long long barrier;
    unsigned at = (unsigned)__cvta_generic_to_shared(&barrier), done = 0;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 33;" :: "r"(at));
    __syncthreads();
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at) : "memory");
    while (!done) asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(at));
    out[0] = 1;
}
"""
    with pytest.raises(ww.DeadlockError, match="the phase of an mbarrier is never completed"):
        launch(ww.GPU("h200", timing="off"), source, "waits", 1, 32)


@pytest.mark.ci
def test_memory_that_allocations_use_up_ends_a_loop() -> None:
    source = 'extern "C" __global__ void exhausts(int *flag, int *out) { while (malloc(1 << 20)) { } out[0] = 7; }'
    assert launch(ww.GPU("v100", timing="off"), source, "exhausts", 1, 1)[0] == 7


def test_all_blocks_that_ended_are_counted() -> None:
    blocks = [StandingBlock((n, 0, 0), []) for n in (0, 9)]
    absent = _absent_blocks(Geometry((10, 1, 1), (32, 1, 1)), blocks, 0)
    assert absent.lines == ["blocks (1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0) and 4 more have ended"]
    absent = _absent_blocks(Geometry((3, 1, 1), (32, 1, 1)), blocks[:1], 1)
    assert absent.lines == [
        "block (1, 0, 0) has ended",
        "1 of the grid's 3 blocks has not begun: the chip has no room for it until others end",
    ]
    assert not _absent_blocks(Geometry((10, 1, 1), (32, 1, 1)), blocks, -1).lines


def test_a_lock_among_lanes_ends_from_volta_on() -> None:
    gpu = ww.GPU("v100", timing="off")
    lock, count = gpu.array(np.zeros(1, np.int32)), gpu.array(np.zeros(1, np.int32))
    gpu.compile(ENDLESS)["lane_lock"][2, 64](lock, count)
    assert count.numpy()[0] == 128


@pytest.mark.parametrize("chip", ["p100", "v100", "h200"])
def test_a_flag_that_nobody_sets(chip: str) -> None:
    text = deadlock(ww.GPU(chip, timing="off"), "unset_flag", 3, 64)
    assert f"warp 0: lane 0 only repeats {at(10)}: while (*flag == 0) {{ }}" in text
    assert f"warp 1: lanes 0-31 wait at the block barrier {at(13)}: __syncthreads();" in text
    assert "and 2 more resident blocks" in text


@pytest.mark.ci
@pytest.mark.parametrize(
    ("chip", "options"), [("gtx480", {}), ("p100", {"front_end": "ptx"}), ("h200", {"front_end": "ptx"})]
)
def test_ptx_that_is_executed_itself(chip: str, options: dict[str, str]) -> None:
    text = deadlock(ww.GPU(chip, timing="off", **options), "unset_flag", 3, 64)
    assert "warp 0: lane 0 only repeats" in text
    assert "does any thread set the flag?" in text


def test_memory_that_comes_back_to_what_it_was() -> None:
    assert "lane" in deadlock(ww.GPU("a100", timing="off"), "round_trip", 1, 1)


@pytest.mark.ci
@pytest.mark.parametrize(("chip", "name"), [("p100", "lane_lock"), ("v100", "unset_flag")])
def test_the_interpreter_finds_the_same(chip: str, name: str) -> None:
    texts = [
        deadlock(ww.GPU(chip, timing="off", engine=engine), name, 1, 32).splitlines()[:3]
        for engine in ("compiled", "interpreter")
    ]
    assert texts[0] == texts[1]


def test_under_the_checks() -> None:
    text = deadlock(ww.GPU("a100", timing="off", check="racecheck"), "unset_flag", 3, 64)
    assert f"warp 0: lane 0 only repeats {at(10)}" in text
    assert "warp 1: lanes 0-31 wait at the block barrier" in text
    assert "and 2 more resident blocks" in text


@pytest.mark.ci
@pytest.mark.usefixtures("early_inspections")
def test_in_simulated_time() -> None:
    text = deadlock(ww.GPU("v100"), "unset_flag", 3, 64)
    assert f"warp 0: lane 0 only repeats {at(10)}" in text
    assert "warp 1: lanes 0-31 wait at the block barrier" in text


@pytest.mark.ci
@pytest.mark.usefixtures("early_inspections")
def test_many_warps_that_poll_are_found_in_few_inspections(monkeypatch: pytest.MonkeyPatch) -> None:
    """They meet a rare state of their loop every now and then, and sleep between two polls."""
    inspections = []
    inspect = livelock.Watch.repeats
    monkeypatch.setattr(livelock.Watch, "repeats", lambda watch, state: inspections.append(0) or inspect(watch, state))
    text = deadlock(ww.GPU("a100"), "grid_barrier", 64, 256)
    assert f"{at(27)}: while (atomicAdd(count, 0) <" in text
    assert "and 62 more resident blocks" in text
    assert len(inspections) < 5 * livelock.LOOKS


@pytest.mark.ci
def test_blocks_that_cannot_begin_are_named() -> None:
    text = deadlock(ww.GPU("v100", timing="off"), "grid_barrier", 1000, 256)
    assert "and 639 more resident blocks" in text
    assert "\n  359 of the grid's 1,000 blocks have not begun: the chip has no room for them until others end" in text
    assert "use at most as many as the chip holds at once" in text


@pytest.mark.ci
def test_blocks_that_spin_in_turns_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is found spinning in the same state several times, while another one works, and memory is the same after every round."""
    monkeypatch.setattr(livelock, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(livelock, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(livelock, "LOOK_SHARE", 0)
    monkeypatch.setattr("warpwright.timing.simulate.REPORT_SECONDS", 1e-4)
    assert launch(ww.GPU("a100"), ENDING, "works_in_turns", 2, 32)[0] == 1


@pytest.mark.parametrize("name", ["slow_setter", "counts_in_memory", "passes_a_token", "times_out"])
@pytest.mark.parametrize("options", [{"timing": "off"}, {"timing": "full"}, {"timing": "off", "check": "racecheck"}])
def test_kernels_that_end_are_left_alone(name: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livelock, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(livelock, "PAUSE_SECONDS", 0.0)
    out = launch(ww.GPU("a100", **options), ENDING, name, 3, 32)
    expected = {
        "slow_setter": [0, 3000, 3000],
        "counts_in_memory": [1, 0, 0],
        "passes_a_token": [1, 0, 0],
        "times_out": [-1, 0, 0],
    }[name]
    assert out[:3].tolist() == expected


@pytest.mark.parametrize(("name", "instructions_per_block"), [("meets", 4000), ("in_reverse", 20_000)])
def test_blocks_that_wait_for_all_others_spin_in_few_turns(name: str, instructions_per_block: int) -> None:
    """If one block became resident at a time and all spun 64 times in each turn, 500 of them would execute 500,000 instructions each."""
    gpu = ww.GPU("h200", timing="off")
    count, out = gpu.array(np.zeros(1, np.int32)), gpu.array(np.zeros(1, np.int32))
    run = gpu.compile(ENDING)[name][500, 32](count, out)
    assert out.numpy()[0] == 500
    assert run.instructions < 500 * instructions_per_block


@pytest.mark.parametrize("lead", [0, 5, 70])
@pytest.mark.parametrize("period", [1, 3, 8])
def test_recurrence_finds_every_period(lead: int, period: int) -> None:
    past = Recurrence(4)

    def state(n: int) -> bytes:
        return b"%d" % (n if n < lead else lead + (n - lead) % period)

    found = next(n for n in range(1, 2000) if past.found(n, lambda: state(n), lambda: b"memory"))  # noqa: B023
    assert found > lead
    assert found <= 4 * (lead + period) + 16


def test_recurrence_wants_memory_to_come_back_too() -> None:
    past = Recurrence(4)
    assert not any(past.found(n, lambda: b"same", lambda: b"%d" % n) for n in range(1, 500))  # noqa: B023


BARRIERS = """
#include <cuda/barrier>
extern "C" __global__ void waits(volatile int *flag, int *out) {
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    if (threadIdx.x == 0) init(&barrier, blockDim.x + 1);
    __syncthreads();
    barrier.arrive_and_wait();
    out[0] = 1;
}
"""


@pytest.mark.ci
@pytest.mark.parametrize(
    ("chip", "timing"), [("v100", "off"), ("v100", "full"), ("a100", "off"), ("h200", "off"), ("h200", "full")]
)
@pytest.mark.usefixtures("early_inspections")
def test_a_cuda_barrier_that_is_never_completed(chip: str, timing: str) -> None:
    """Its wait reads a clock, but only to look again less often."""
    with pytest.raises(ww.DeadlockError, match="the phase of an mbarrier is never completed") as caught:
        launch(ww.GPU(chip, timing=timing), BARRIERS, "waits", 1, 64)
    assert "barrier.arrive_and_wait();" in str(caught.value)


CLUSTERS = """
#include <cooperative_groups.h>
extern "C" __global__ void __cluster_dims__(4) one_spins(volatile int *flag, int *out) {
    auto cluster = cooperative_groups::this_cluster();
    if (blockIdx.x >= 4) return;
    if (cluster.block_rank() == 3)
        while (*flag == 0) { }
    cluster.sync();
    out[0] = 1;
}
"""


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["off", "full"])
@pytest.mark.usefixtures("early_inspections")
def test_a_block_that_does_not_come_to_its_clusters_barrier(timing: str) -> None:
    with pytest.raises(ww.DeadlockError) as caught:
        launch(ww.GPU("h200", timing=timing), CLUSTERS, "one_spins", 8, 64)
    text = str(caught.value)
    assert text.startswith("deadlock in kernel one_spins, block (3, 0, 0)")
    assert "only repeat" in text
    assert "while (*flag == 0)" in text
    assert "blocks (0, 0, 0), (1, 0, 0) and (2, 0, 0) wait at their cluster's barrier at" in text
    assert "cluster.sync();, at which every thread of the cluster must arrive" in text
    assert "\n  blocks (4, 0, 0), (5, 0, 0), (6, 0, 0) and (7, 0, 0) have ended\n" in text
    assert text.endswith(
        "does every path release the lock, and does any thread set the flag?"
    )  # not of all blocks of the grid
