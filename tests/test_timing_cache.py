"""Launches of unmodified programs that have an earlier one's time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.timing import timing_cache
from warpwright.timing.state import BR_DROPPED

SOURCE = """
__constant__ float table[256] = {1, 2, 3, 4};

extern "C" __global__ void blur(float* out, const float* in, int turns) {
    __shared__ float tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    tile[threadIdx.x] = in[i];
    for (int n = 0; n < turns; n++) {
        __syncthreads();
        float x = tile[(threadIdx.x + n) & 255] + tile[(threadIdx.x * 3) & 255];
        __syncthreads();
        tile[threadIdx.x] = x * 0.5f;
    }
    out[i] = tile[threadIdx.x];
}
extern "C" __global__ void branches(float* out, const float* in) {
    if (in[threadIdx.x] > 0) out[threadIdx.x] = 1;
}
extern "C" __global__ void gathers(float* out, const int* in) { out[threadIdx.x] = out[in[threadIdx.x]]; }
extern "C" __global__ void turns(float* out, const int* in) {
    for (int n = 0; n < in[threadIdx.x]; n++) out[threadIdx.x] = out[threadIdx.x] * 0.5f + n;
}
extern "C" __global__ void adds(int* out) { atomicAdd(out, 1); }
extern "C" __global__ void looks_up(float* out, const int* in) { out[threadIdx.x] = table[in[threadIdx.x] & 255]; }
extern "C" __global__ void clocks(long long* out) { out[threadIdx.x] = clock64(); }
extern "C" __global__ void sms(unsigned* out) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    out[blockIdx.x] = sm;
}
extern "C" __global__ void matches(unsigned* out, const int* in) { out[threadIdx.x] = __match_any_sync(~0u, in[threadIdx.x]); }
extern "C" __global__ void waits(volatile float* out, volatile const float* in) { out[threadIdx.x] = in[threadIdx.x]; }
"""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ww.GPU:
    """As the driver makes one, but with cold caches; launches of any length are repeated."""
    monkeypatch.setattr(timing_cache, "WORTH_SECONDS", 0)
    return ww.GPU("a100", device=0, caches="cold")


def timed(gpu: ww.GPU) -> int:
    """How many launches' times are known."""
    assert gpu.repeats is not None
    return len(gpu.repeats._known)


def test_a_launch_like_an_earlier_one_has_its_time_and_results_of_its_own(gpu: ww.GPU) -> None:
    kernel = gpu.compile(SOURCE)["blur"]
    rng = np.random.default_rng(1)
    source, out = gpu.array(rng.random(40 * 256, dtype=np.float32)), gpu.array(np.zeros(40 * 256, np.float32))
    first = kernel[40, 256](out, source, 9)
    results = [out.numpy().copy()]
    source.set(rng.random(40 * 256, dtype=np.float32))
    again = kernel[40, 256](out, source, 9)
    results.append(out.numpy().copy())
    assert timed(gpu) == 1
    assert again.timing is not first.timing
    assert (again.cycles, again.metrics, again.instructions) == (first.cycles, first.metrics, first.instructions)
    assert again.attribution().limit == first.attribution().limit
    known, gpu.repeats = gpu.repeats, None
    really = kernel[40, 256](out, source, 9)
    assert (really.cycles, really.metrics) == (first.cycles, first.metrics)
    assert np.array_equal(out.numpy(), results[1])
    assert not np.array_equal(results[0], results[1])
    gpu.repeats = known


def test_with_kept_caches_the_launches_before_are_the_same_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing_cache, "WORTH_SECONDS", 0)
    gpu = ww.GPU("a100", device=0)
    module = gpu.compile(SOURCE)
    source, out = (gpu.array(np.zeros(40 * 256, np.float32)) for _ in range(2))
    sums = gpu.array(np.zeros(256, np.int32))

    def blurred() -> ww.Run:
        return module["blur"][40, 256](out, source, 9)

    runs = [blurred() for _ in range(4)]
    assert [run.repeated for run in runs] == [False, False, False, True]
    assert runs[1].cycles < runs[0].cycles  # the arrays are in L2
    assert runs[3].cycles == runs[2].cycles
    module["adds"][1, 32](sums)  # timed always; another launch between
    assert not blurred().repeated
    assert gpu.kept_caches is not None
    gpu.kept_caches.used(source.device_address(), source.nbytes, BR_DROPPED)
    dropped = blurred()
    assert not dropped.repeated
    assert dropped.cycles > runs[2].cycles


def test_a_loop_of_kernels_of_which_one_is_timed_always_repeats_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing_cache, "WORTH_SECONDS", 0)
    gpu = ww.GPU("a100", device=0)
    module = gpu.compile(SOURCE)
    source, out = (gpu.array(np.zeros(40 * 256, np.float32)) for _ in range(2))
    sums = gpu.array(np.zeros(256, np.int32))
    repeated = []
    for _ in range(4):
        repeated.append(module["blur"][40, 256](out, source, 9).repeated)
        assert not module["adds"][1, 32](sums).repeated
    assert repeated == [False, False, True, True]


@pytest.mark.parametrize("change", ["turns", "grid", "pointer", "policy", "place"])
def test_a_launch_that_differs_is_timed(gpu: ww.GPU, change: str) -> None:
    kernel = gpu.compile(SOURCE)["blur"]
    arrays = [gpu.array(np.zeros(40 * 256, np.float32)) for _ in range(3)]
    kernel[20, 256](arrays[0], arrays[1], 5)
    if change == "policy":
        gpu.policies = type(gpu.policies).named("loose_round_robin", "older_of_two")
    host: Any = None
    if change == "place":
        host = np.zeros(4096, np.uint8)
        gpu.memory.map(host.ctypes.data, host.nbytes, "host")
    kernel[21 if change == "grid" else 20, 256](
        arrays[2] if change == "pointer" else arrays[0], arrays[1], 6 if change == "turns" else 5
    )
    assert timed(gpu) == 2


@pytest.mark.parametrize("name", ["branches", "gathers", "adds", "looks_up", "clocks", "sms", "matches", "waits"])
def test_kernels_whose_time_or_results_depend_on_more_are_timed_always(gpu: ww.GPU, name: str) -> None:
    kernel = gpu.compile(SOURCE)[name]
    arrays = [gpu.array(np.zeros(1024, p.dtypes[0])) for p in kernel.parameters]
    kernel[1, 32](*arrays)
    assert timed(gpu) == 0


def test_short_launches_are_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = ww.GPU("a100", device=0)
    monkeypatch.setattr(timing_cache, "WORTH_SECONDS", 1e9)
    arrays = [gpu.array(np.zeros(256, np.float32)) for _ in range(2)]
    gpu.compile(SOURCE)["blur"][1, 256](*arrays, 3)
    assert timed(gpu) == 0


def test_a_gpu_of_ones_own_times_every_launch() -> None:
    assert ww.GPU("a100").repeats is None


def test_sampled_timing_takes_equal_work_on_other_arrays_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing_cache, "WORTH_SECONDS", 0)
    for timing, expected in (("sampled", [False, True, True]), ("full", [False, False, False])):
        gpu = ww.GPU("a100", device=0, caches="cold", timing=timing)
        kernel = gpu.compile(SOURCE)["blur"]
        arrays = [gpu.array(np.full(40 * 256, i, np.float32)) for i in range(6)]
        runs = [kernel[40, 256](arrays[2 * i], arrays[2 * i + 1], 9) for i in range(3)]
        assert [run.repeated for run in runs] == expected
        assert np.array_equal(arrays[4].numpy()[:5], np.full(5, 5, np.float32))
        assert not kernel[40, 256](arrays[0], arrays[0], 9).repeated  # both parameters are one array


def test_sampled_timing_of_what_memory_decides_repeats_after_two_that_executed_as_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timing_cache, "WORTH_SECONDS", 0)
    gpu = ww.GPU("a100", device=0, caches="cold", timing="sampled")
    kernel = gpu.compile(SOURCE)["turns"]
    out, few, many = gpu.array(np.zeros(256, np.float32)), *(gpu.array(np.full(256, n, np.int32)) for n in (9, 900))
    runs = [kernel[1, 256](out, source) for source in (few, few, few, many, many, many, many)]
    # The first launch that differs is known by its instructions only once it has run.
    assert [run.repeated for run in runs] == [False, False, True, True, False, False, True]
    assert runs[4].cycles > 2 * runs[0].cycles
