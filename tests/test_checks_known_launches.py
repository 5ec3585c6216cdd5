"""Launches that do what an earlier one did are not watched again, and show what that one showed; others are watched."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
extern "C" __global__ void turn(const int *x, int *y) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    if (x[0] == 0) __syncthreads();
    y[t] = s[(t + 32) & 63];
}
__constant__ int wanted;
extern "C" __global__ void fills(int *x) { if (threadIdx.x < wanted) x[threadIdx.x] = 1; }
extern "C" __global__ void reads(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void counts(int *x) { if (x[threadIdx.x] >= 0) x[threadIdx.x] += 1; }
"""


def checked() -> tuple[ww.GPU, ww.Module]:
    gpu = ww.GPU("a100", check="all")
    return gpu, gpu.compile(SOURCE, name="repeats.cu")


def repeated(gpu: ww.GPU) -> int:
    assert gpu.checker is not None
    return gpu.checker.repeats.repeated


def test_the_same_launch_shows_the_same_again() -> None:
    gpu, module = checked()
    x, y = gpu.array(np.arange(1, 65, dtype=np.int32)), gpu.array(np.zeros(64, np.int32))
    counts = []
    for _ in range(5):
        module["turn"][1, 64](x, y)
        counts.append([f.count for f in gpu.findings])
    # The first tells what such launches touch; the second finds in y what the first wrote, as all later ones do.
    assert repeated(gpu) == 3
    assert counts == [[32 * n for _ in counts[0]] for n in range(1, 6)]
    assert len(counts[0]) >= 1
    assert (y.numpy()[32:] == np.arange(1, 33)).all()


def test_other_contents_are_watched() -> None:
    gpu, module = checked()
    x, y = gpu.array(np.zeros(64, np.int32)), gpu.array(np.zeros(64, np.int32))
    for _ in range(4):
        module["turn"][1, 64](x, y)
    assert repeated(gpu) == 2
    assert gpu.findings == []
    x.set(np.full(64, 1, np.int32))
    module["turn"][1, 64](x, y)
    assert repeated(gpu) == 2
    assert "error" in {f.severity for f in gpu.findings}


def test_a_launch_that_changes_its_memory_is_watched_each_time() -> None:
    gpu, module = checked()
    x = gpu.array(np.zeros(32, np.int32))
    for _ in range(4):
        module["counts"][1, 32](x)
    assert repeated(gpu) == 0
    assert (x.numpy() == 4).all()


def test_constant_memory_is_part_of_how_a_launch_begins() -> None:
    gpu, module = checked()
    x = gpu.array(np.zeros(32, np.int32))
    for wanted in (8, 8, 8, 16, 16, 16):
        module.symbol("wanted").set(np.int32(wanted))
        module["fills"][1, 32](x)
    # The first of each three tells of the others: what they do does not follow from what x holds.
    assert repeated(gpu) == 4
    assert x.numpy().sum() == 16


def test_what_was_written_is_part_of_how_a_launch_begins() -> None:
    gpu, module = checked()
    y = gpu.array(np.zeros(32, np.int32))
    x = gpu.empty(32, np.int32)
    for _ in range(4):
        module["reads"][1, 32](x, y)
    assert repeated(gpu) == 2
    (finding,) = gpu.findings
    assert finding.count == 4 * 32
    x.set(np.zeros(32, np.int32))  # what was there already: now it was written
    module["reads"][1, 32](x, y)
    assert repeated(gpu) == 2
    assert finding.count == 4 * 32


OBLIVIOUS = r"""
extern "C" __global__ void adds(int *x, const int *f, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t] * f[0];
    __syncthreads();
    for (int i = 0; i < n; i++) x[t] += s[(t + i) & 63];
}
extern "C" __global__ void adds_in_half(int *x, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        if (threadIdx.x & 1) sum += x[(threadIdx.x + i) & 63];
        __syncwarp();
    }
    x[threadIdx.x + 64] += sum;
}
extern "C" __global__ void adds_some(int *x, const int *f) { if (f[threadIdx.x]) x[threadIdx.x] += 1; }
extern "C" __global__ void gathers(int *x, const int *at) { x[threadIdx.x + 64] += x[at[threadIdx.x]]; }
extern "C" __global__ void swaps(int *x) { int other = __shfl_xor_sync(~0u, x[threadIdx.x], 1); x[threadIdx.x] = other + 1; }
extern "C" __global__ void finds(int *x) { if (__any_sync(~0u, x[threadIdx.x] == 3)) x[threadIdx.x] += 1; }
extern "C" __global__ void through_shared(int *x) {
    __shared__ int place[32];
    place[threadIdx.x] = threadIdx.x;
    __syncwarp();
    x[place[threadIdx.x ^ 1]] += 1;
}
extern "C" __global__ void races(int *x) { __shared__ int s; s = x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = s + 1; }
"""


def watched(kernel: str, block: int, *arguments: object, launches: int = 4, chip: str = "a100") -> int:
    """How many of some launches of one kernel were watched; every one of them changes the memory that it reads."""
    gpu = ww.GPU(chip, check="all", check_level="info")
    x = gpu.array(np.arange(128, dtype=np.int32))
    module = gpu.compile(OBLIVIOUS, name="oblivious.cu")
    given = [gpu.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    for _ in range(launches):
        module[kernel][1, block](x, *given)
    return launches - repeated(gpu)


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_a_launch_whose_accesses_do_not_follow_from_memory_is_watched_once(chip: str) -> None:
    assert watched("adds", 64, np.ones(1, np.int32), np.int32(5), chip=chip) == 1
    assert watched("swaps", 32, chip=chip) == 1
    assert watched("adds_in_half", 64, np.int32(7), chip=chip) == 1


@pytest.mark.parametrize("kernel", ["adds_some", "gathers", "finds", "through_shared"])
def test_a_launch_whose_way_or_addresses_follow_from_memory_is_watched_each_time(kernel: str) -> None:
    arguments = [np.ones(32, np.int32)] if kernel in ("adds_some", "gathers") else []
    assert watched(kernel, 32, *arguments) == 4


def test_a_launch_that_shows_something_says_nothing_of_others() -> None:
    assert watched("races", 64) == 4


def test_what_is_allocated_anew_is_watched_anew() -> None:
    gpu = ww.GPU("a100", check="all")
    factor, module = gpu.array(np.ones(1, np.int32)), gpu.compile(OBLIVIOUS, name="oblivious.cu")
    run = module["adds"][1, 64]
    x = gpu.array(np.zeros(64, np.int32))
    for _ in range(2):
        run(x, factor, np.int32(1))
    assert repeated(gpu) == 1
    assert gpu.findings == []
    address = x.device_address()
    x.free()
    fresh = gpu.empty(64, np.int32)
    assert fresh.device_address() == address
    run(fresh, factor, np.int32(1))
    assert repeated(gpu) == 1
    assert {f.check for f in gpu.findings} == {"initcheck"}


TEXTURED = r"""
extern "C" __global__ void samples(unsigned long long texture, float *out) { out[threadIdx.x] += tex2D<float>(texture, threadIdx.x + 0.5f, 0.5f); }
"""


def test_textures_are_part_of_how_a_launch_begins() -> None:
    gpu = ww.GPU("a100", check="all")
    run = gpu.compile(TEXTURED, name="textured.cu")["samples"][1, 32]
    array, out = gpu.cuda_array((8, 32)), gpu.array(np.zeros(32, np.float32))
    array.set(np.ones((8, 32), np.float32))
    texture = gpu.texture(array)
    for _ in range(3):
        run(np.uint64(texture.object_handle()), out)
    assert repeated(gpu) == 2
    other = gpu.texture(array, address="border")
    run(np.uint64(texture.object_handle()), out)
    assert repeated(gpu) == 2
    run(np.uint64(texture.object_handle()), out)
    assert repeated(gpu) == 3
    assert other.object_handle() != texture.object_handle()
    np.testing.assert_array_equal(out.numpy(), 5)


PRINTING = r"""
#include <cstdio>
extern "C" __global__ void adds(int *x) { x[threadIdx.x] += 1; }
extern "C" __global__ void prints(int *x) { x[threadIdx.x] += 1; if (threadIdx.x == 0) printf("%d\n", x[0]); }
"""


def test_a_kernel_that_prints_is_watched_each_time_and_others_of_its_module_are_not() -> None:
    gpu = ww.GPU("a100", check="all")
    x, module = gpu.array(np.zeros(32, np.int32)), gpu.compile(PRINTING, name="printing.cu")
    for kernel, expected in (("adds", 2), ("prints", 2)):
        for _ in range(3):
            module[kernel][1, 32](x)
        assert repeated(gpu) == expected
