"""Barriers that not all threads come to: threads that go round one, and masks that lack who comes."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
extern "C" __global__ void some_go_round(const int *in, int n, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    for (int b = 0; b < 4; b++) {
        if (64 * b + t < n) {
            s[t] += in[64 * b + t];
            __syncthreads();  // round
        }
    }
    if (t == 0) for (int i = 0; i < 64; i++) *out += s[i];
}
extern "C" __global__ void none_goes_round(const int *in, int n, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    for (int b = 0; b < 4; b++) {
        if (64 * b + t < n) s[t] += in[64 * b + t];
        __syncthreads();
    }
    if (t == 0) for (int i = 0; i < 64; i++) *out += s[i];
}
extern "C" __global__ void some_return(const int *in, int n, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t >= n) return;
    s[t] = in[t];
    __syncthreads();
    out[t] = s[n - 1 - t];
}
extern "C" __global__ void leaves_the_loop(const int *in, int n, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    for (int i = t; i < n; i += 64) {
        s[t] = in[i];
        __syncthreads();  // loop
    }
    out[t] = s[t];
}
extern "C" __global__ void lacks_one(int last, int *out) {
    __shared__ int s[32];
    int t = threadIdx.x;
    unsigned mask = __ballot_sync(0xffffffff, t < 16);
    if (t <= last) {
        s[t] = t;
        __syncwarp(mask);  // mask
        if (t == 0) for (int i = 0; i < 16; i++) *out += s[i];
    }
    __syncthreads();
}
extern "C" __global__ void shuffles(int last, unsigned mask, int *out) {
    int t = threadIdx.x;
    if (t <= last) out[t] = __shfl_xor_sync(mask, t, 1);
}
"""
CHIPS = pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
IN, OUT = np.arange(256, dtype=np.int32), np.zeros(64, np.int32)


def checked(chip: str) -> tuple[ww.GPU, ww.Module]:
    gpu = ww.GPU(chip, check="synccheck")
    return gpu, gpu.compile(SOURCE, name="sync.cu")


def line(mark: str) -> str:
    return f"sync.cu:{SOURCE[: SOURCE.index('// ' + mark)].count(chr(10)) + 1}:"


@CHIPS
def test_threads_that_end_behind_a_barrier_that_they_went_round(chip: str) -> None:
    gpu, module = checked(chip)
    module["some_go_round"][1, 64](IN, 240, OUT)
    (finding,) = gpu.findings
    assert finding.title == "Barrier error detected. Divergent thread(s) in warp."
    (place,) = finding.places
    assert place.line.startswith(line("round"))
    assert place.thread == (48, 0, 0)
    assert finding.details[0].startswith("16 thread(s) of the warp did not come with the others")


@CHIPS
def test_a_whole_warp_goes_round(chip: str) -> None:
    gpu, module = checked(chip)
    module["some_go_round"][1, 64](IN, 224, OUT)
    (finding,) = gpu.findings
    assert finding.title == "Barrier error detected. Divergent thread(s) in block."
    assert finding.places[0].line.startswith(line("round"))
    assert finding.places[0].thread == (32, 0, 0)
    gpu.findings.clear()
    module["leaves_the_loop"][1, 64](IN, 224, OUT)
    (finding,) = gpu.findings
    assert finding.places[0].line.startswith(line("loop"))


@CHIPS
def test_barriers_that_are_met_as_they_should_be(chip: str) -> None:
    gpu, module = checked(chip)
    for n in (224, 240, 256):
        module["none_goes_round"][1, 64](IN, n, OUT)
    module["some_go_round"][1, 64](IN, 256, OUT)
    module["leaves_the_loop"][1, 64](IN, 256, OUT)
    for n in (20, 32, 40, 64):
        module["some_return"][1, 64](IN, n, OUT)
    assert not gpu.findings


@CHIPS
def test_a_mask_that_lacks_a_thread(chip: str) -> None:
    gpu, module = checked(chip)
    module["lacks_one"][1, 32](15, OUT)
    module["shuffles"][1, 32](15, 0xFFFF, OUT)
    assert not gpu.findings
    module["lacks_one"][1, 32](16, OUT)
    (finding,) = gpu.findings
    assert finding.title == "Barrier error detected. Invalid arguments."
    assert finding.places[0].line.startswith(line("mask"))
    assert finding.places[0].thread == (16, 0, 0)


TWO_INSTRUCTIONS = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry apart(.param .u64 out)
{
    .reg .pred %p;
    .reg .u32 %t;
    .reg .u64 %d;
    ld.param.u64 %d, [out];
    mov.u32 %t, %tid.x;
    setp.ge.u32 %p, %t, 32;
    @%p bra others;
    bar.sync 0;
    st.global.u32 [%d], %t;
    ret;
others:
    bar.sync 0;
    ret;
}
"""


def test_one_barrier_may_be_several_instructions() -> None:
    """Compilers copy a barrier into the ways behind it; without lines of source nobody can tell that it was two."""
    gpu = ww.GPU("a100", timing="off", check="synccheck")
    gpu.compile(TWO_INSTRUCTIONS)["apart"][1, 64](np.zeros(1, np.int32))
    assert gpu.findings == []
