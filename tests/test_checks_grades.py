"""How races are graded: what loses or tears data is an error, a read that may find an old line a warning, what a card orders anyway information."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
__device__ unsigned finished;
extern "C" __global__ void last_block(const int *in, int *part, int *out, int before, int behind) {
    __shared__ bool last;
    int t = threadIdx.x, b = blockIdx.x;
    if (t == 0) {
        part[b] = in[b];
        if (before) __threadfence();
        last = atomicAdd(&finished, 1) == gridDim.x - 1;
        if (behind) __threadfence();
    }
    __syncthreads();
    if (last) {
        for (int i = t; i < gridDim.x; i += blockDim.x) out[i] = part[i];
    }
}
template <typename Read> __device__ void last_block_after(const int *in, Read *seen, int *part, int *out, int apart) {
    __shared__ bool last;
    int t = threadIdx.x, b = blockIdx.x, before = 0;
    if (b == 0) before = seen[apart];
    __syncthreads();
    if (t == 0) {
        part[b] = in[b] + before;
        __threadfence();
        last = atomicAdd(&finished, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        for (int i = t; i < gridDim.x; i += blockDim.x) out[i] = part[i];
    }
}
extern "C" __global__ void last_block_after_a_look(const int *in, int *part, int *out, int apart) {
    last_block_after(in, part, part, out, apart);
}
extern "C" __global__ void last_block_after_a_volatile_look(const int *in, int *part, int *out, int apart) {
    last_block_after(in, (volatile int *)part, part, out, apart);
}
extern "C" __global__ void last_block_writes(const int *in, int *part, int *out) {
    __shared__ bool last;
    int t = threadIdx.x, b = blockIdx.x;
    if (t == 0) {
        out[b] = part[b];
        __threadfence();
        last = atomicAdd(&finished, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t < gridDim.x) part[t] = 0;
}
extern "C" __global__ void through_barriers(const int *in, int *part, int *out) {
    __shared__ bool last;
    int t = threadIdx.x, b = blockIdx.x;
    part[b * blockDim.x + t] = in[0] + t;
    __syncthreads();
    if (t == 0) {
        __threadfence();
        last = atomicAdd(&finished, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last) out[t] = part[((b + 1) % gridDim.x) * blockDim.x + t];
}
extern "C" __global__ void each_fences(const int *in, int *part, int *out, int before, int behind) {
    __shared__ bool last;
    int t = threadIdx.x, b = blockIdx.x;
    part[b * blockDim.x + t] = in[0] + t;
    if (before) __threadfence();
    __syncthreads();
    if (t == 0) last = atomicAdd(&finished, 1) == gridDim.x - 1;
    __syncthreads();
    if (behind) __threadfence();
    if (last) out[t] = part[((b + 1) % gridDim.x) * blockDim.x + t];
}
extern "C" __global__ void pops(int *top, int *data, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (*top >= 0) {
        int mine = atomicAdd(top, -1);
        if (mine >= 0) out[i] = data[mine];
    }
}
extern "C" __global__ void looks_and_pops(int *top, int *data, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, seen = *top;
    if (seen >= 0) atomicAdd(top, -1);
    out[i] = seen;
}
extern "C" __global__ void overwrites(int *top, int *data, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (*top >= 0) atomicAdd(top, -1);
    else *top = i;
}
extern "C" __global__ void counts(int *top, int *data, int *out) {
    __shared__ int bins[64];
    int t = threadIdx.x;
    if (t < 64) bins[t] = 0;
    __syncthreads();
    atomicAdd(&bins[(t * 7) & 63], 1);
    out[t] = bins[t & 63];
}
"""


def graded(kernel: str, *arguments: object) -> set[str]:
    gpu = ww.GPU("a100", check="racecheck", check_level="info")
    module = gpu.compile(SOURCE, name="grades.cu")
    passed = [gpu.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    module[kernel][8, 64](*passed)
    return {
        f.severity
        for f in gpu.findings
        if {p.block for p in f.places} != {f.places[0].block} or "one warp" not in f.details[1]
    }


@pytest.mark.parametrize(
    ("before", "behind", "grades"), [(1, 1, set()), (1, 0, {"info"}), (0, 1, {"error"}), (0, 0, {"error"})]
)
def test_a_release_that_nobody_acquires_is_information(before: int, behind: int, grades: set[str]) -> None:
    zeros = np.zeros(8, np.int32)
    assert graded("last_block", zeros, zeros, zeros, np.int32(before), np.int32(behind)) == grades


@pytest.mark.parametrize(
    ("kernel", "apart", "grades"),
    [
        # Word 20 lies in a sector of its own, which nobody writes.
        ("last_block_after_a_look", 20, {"info"}),
        # Word 0 is block 0's own, read in front of its write: of words 1 to 7 of the sector, L1 may hold old ones.
        ("last_block_after_a_look", 0, {"warning"}),
        # A volatile read brings nothing into L1.
        ("last_block_after_a_volatile_look", 0, {"info"}),
    ],
)
def test_it_is_a_warning_where_the_sector_was_read_before_it_was_written(
    kernel: str, apart: int, grades: set[str]
) -> None:
    assert (
        graded(kernel, np.zeros(8, np.int32), np.zeros(32, np.int32), np.zeros(8, np.int32), np.int32(apart)) == grades
    )


def test_writes_behind_what_was_released_are_information() -> None:
    arrays = (np.zeros(8, np.int32), np.zeros(8, np.int32), np.zeros(8, np.int32))
    assert graded("last_block_writes", *arrays) == {"info"}


@pytest.mark.parametrize(("before", "grades"), [(1, set()), (0, {"error"})])
def test_each_thread_may_fence_in_front_of_the_barrier_behind_which_one_raises_the_flag(
    before: int, grades: set[str]
) -> None:
    arrays = (np.zeros(1, np.int32), np.zeros(512, np.int32), np.zeros(64, np.int32))
    assert graded("each_fences", *arrays, np.int32(before), np.int32(1)) == grades


def test_information_is_told_on_request() -> None:
    zeros = np.zeros(8, np.int32)
    for level, told in (("info", {"info"}), ("warning", set()), ("error", set())):
        gpu = ww.GPU("a100", check="racecheck", check_level=level)
        arrays = [gpu.array(zeros) for _ in range(3)]
        gpu.compile(SOURCE)["last_block"][8, 64](*arrays, np.int32(1), np.int32(0))
        assert {f.severity for f in gpu.findings} == told
    with pytest.raises(ww.UnsupportedError, match="check level 'fatal' is not known; use error, warning, info"):
        ww.GPU("a100", check="racecheck", check_level="fatal")


def test_barriers_pass_on_what_one_thread_releases_and_acquires() -> None:
    assert graded("through_barriers", np.zeros(1, np.int32), np.zeros(512, np.int32), np.zeros(64, np.int32)) == set()


@pytest.mark.parametrize(
    ("kernel", "worst"),
    [("pops", "info"), ("looks_and_pops", "error"), ("overwrites", "error"), ("counts", "error")],
)
def test_a_read_that_only_decides_on_an_atomic_is_information(kernel: str, worst: str) -> None:
    top = np.full(1, 20 if kernel == "overwrites" else 10_000, np.int32)
    grades = graded(kernel, top, np.zeros(10_001, np.int32), np.zeros(512, np.int32))
    assert min(grades) == worst  # by the alphabet, too


WARPS = r"""
extern "C" __global__ void together(float *out) {
    __shared__ float s[32];
    int i = threadIdx.x;
    s[i] = i;
    __syncwarp();
    s[i] += s[i ^ 8];
    __syncwarp();
    out[i] = s[i];
}
extern "C" __global__ void behind(float *out) {
    __shared__ float s[32];
    int i = threadIdx.x;
    s[i] = i;
    out[i] = s[i ^ 8];
}
extern "C" __global__ void elsewhere(float *out, int n) {
    __shared__ float s[32];
    int i = threadIdx.x;
    s[i] = i;
    __syncwarp();
    if (i < 16) for (int k = 0; k < n; k++) { float x = s[i + 16]; out[i] += x; }
    else for (int k = 0; k < n; k++) { s[i] = out[i] + k; out[i] = k; }
}
"""


def test_races_within_a_warp_are_graded_by_who_executes_together() -> None:
    """compute-sanitizer 2025.3.1 on an H200 warns of ``behind`` and displays nothing for ``together``."""
    graded = {}
    for kernel, more in (("together", ()), ("behind", ()), ("elsewhere", (np.int32(3),))):
        gpu = ww.GPU("a100", check="racecheck", check_level="info")
        gpu.compile(WARPS, name="warps.cu")[kernel][1, 32](gpu.zeros(32, np.float32), *more)
        graded[kernel] = {f.severity for f in gpu.findings}
    assert graded == {"together": {"info"}, "behind": {"warning"}, "elsewhere": {"warning"}}


ONE_ADDRESS = r"""
extern "C" __global__ void one_place(int *out, const int *in) {
    __shared__ int s[4];
    int most = in[threadIdx.x];
    for (int d = 16; d; d /= 2) most = max(most, __shfl_xor_sync(~0u, most, d));
    s[threadIdx.x / 32] = most;
    __syncthreads();
    out[threadIdx.x] = max(s[0], s[1]);
}
extern "C" __global__ void pairs(int *out, const int *in) {
    int t = threadIdx.x;
    out[in[t]] = in[t ^ 1] + in[t];
}
extern "C" __global__ void bytes(unsigned char *out, const int *in) { *out = in[threadIdx.x] / 64; }
"""


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_lanes_that_store_the_same_at_one_address(chip: str) -> None:
    """Information, by what they store when they run: a warp's maximum, which each of its lanes has; a warning when one lane differs."""
    values = np.arange(64, dtype=np.int32)
    in_pairs = (values // 2 * 2).astype(np.int32)
    for kernel, same, other in (
        ("one_place", values, None),
        ("pairs", in_pairs, np.where(values == 9, 4, in_pairs)),
        ("bytes", values, np.where(values == 5, 200, values)),
    ):
        for given in (same, other):
            if given is None:
                continue
            gpu = ww.GPU(chip, timing="off", check="racecheck", check_level="info")
            gpu.compile(ONE_ADDRESS)[kernel][1, 32 if kernel != "one_place" else 64](
                np.zeros(256, np.uint8 if kernel == "bytes" else np.int32), given.astype(np.int32)
            )
            wanted = {"info"} if given is same else {"warning"}
            assert {f.severity for f in gpu.findings} == wanted, (kernel, gpu.findings)
