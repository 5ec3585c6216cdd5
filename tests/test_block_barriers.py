"""Block barriers whose number and count stand in registers: one word for both when both do."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import warpwright as ww

SOURCE = """
extern "C" __global__ void both(int *out, int number, int threads) {
    __shared__ int all[128];
    int t = threadIdx.x, half = t / 64;
    // A number and a count that differ from one half of the block to the other only in the number.
    int n = number + half, count = threads;
    all[t] = 3 * t;
    asm volatile("bar.sync %0, %1;" ::"r"(n), "r"(count) : "memory");
    out[t] = all[64 * half + 63 - t % 64];
}
extern "C" __global__ void producers(int *out, int number, int threads) {
    __shared__ int all[64];
    int t = threadIdx.x;
    if (t < 64) all[t] = 5 * t;
    if (t < 64) asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
    else asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
    if (t >= 64) out[t] = all[127 - t];
}
extern "C" __global__ void votes(int *out, int number, int threads) {
    int t = threadIdx.x, r;
    asm volatile(
        "{ .reg .pred p, q; setp.ne.s32 p, %1, 7; bar.red.and.pred q, %2, %3, p; selp.s32 %0, 1, 2, q; }"
        : "=r"(r) : "r"(t % 64 + 64 * (t / 64)), "r"(number + t / 64), "r"(threads) : "memory");
    out[t] = r;
}
extern "C" __global__ void count(int *out, int number, int threads) {
    asm volatile("bar.sync 3, %0;" ::"r"(threads) : "memory");
    asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory");
    asm volatile("bar.sync %0;" ::"r"(number) : "memory");
    out[threadIdx.x] = 1;
}
"""
T = np.arange(128)
WANTED = {
    "both": (64, 3 * (T // 64 * 64 + 63 - T % 64)),
    "producers": (128, np.where(T < 64, 0, 5 * (127 - T))),
    "votes": (64, np.where(T < 64, 2, 1)),
    "count": (128, np.ones(128)),
}


@cache
def module(chip: str, engine: str) -> Any:
    return ww.GPU(chip, timing="off", engine=engine).compile(SOURCE)


@pytest.mark.parametrize("kernel", WANTED)
@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize("chip", ["p100", "v100", "h200"])
def test_numbers_and_counts_in_registers(chip: str, engine: str, kernel: str) -> None:
    threads, wanted = WANTED[kernel]
    out = np.zeros(128, np.int32)
    module(chip, engine)[kernel][1, 128](out, np.int32(5), np.int32(threads))
    np.testing.assert_array_equal(out, wanted)


SPIN = """
extern "C" __global__ void rounds(int *out, unsigned *arrived, int rounds) {
    for (int r = 0; r < rounds; ++r) {
        if (threadIdx.x == 0) {
            atomicAdd(arrived, 1);
            while (*(volatile unsigned *)arrived < (r + 1) * gridDim.x) {}
        }
        __syncthreads();
        out[blockIdx.x * blockDim.x + threadIdx.x] += r + 1;
    }
}
"""


@pytest.mark.parametrize("engine", ["compiled", pytest.param("interpreter", marks=pytest.mark.ci)])
@pytest.mark.parametrize("front_end", ["sass", "ptx"])
@pytest.mark.parametrize("timing", ["off", "full"])
def test_lanes_at_a_barrier_are_kept_while_another_of_their_warp_spins(
    engine: str, front_end: str, timing: str
) -> None:
    """A lane that polls gives way, so that as PTX the others go on to the barrier without it; it lets other blocks run."""
    if timing == "full" and engine == "interpreter":
        pytest.skip("the cycle model runs compiled code")
    out = np.zeros(3 * 64, np.int32)
    gpu = ww.GPU("h200", timing=timing, engine=engine, front_end=front_end)
    gpu.compile(SPIN)["rounds"][3, 64](out, np.zeros(1, np.uint32), np.int32(4))
    assert (out == 10).all()


COUNTED = """
.version 8.8
.target sm_80
.address_size 64
.visible .entry counted(.param .u64 out)
{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<3>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
    and.b32 %r3, %r0, 1;
    setp.eq.u32 %p0, %r3, 1;
AGAIN:
    add.u32 %r4, %r0, %r1;
    rem.u32 %r4, %r4, 3;
    setp.eq.u32 %p1, %r4, 0;
    @%p0 bra ODD;
    barrier.red.popc.u32 %r5, 0, %p1;
    bra NEXT;
ODD:
    barrier.red.popc.u32 %r5, 0, %p1;
NEXT:
    mad.lo.u32 %r2, %r2, 64, %r5;
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p2, %r1, 4;
    @%p2 bra AGAIN;
    ld.param.u64 %rd0, [out];
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd0, %rd0, %rd1;
    st.global.u32 [%rd0], %r2;
    ret;
}
"""


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
def test_votes_of_halves_of_a_warp_are_of_their_own_barrier(engine: str) -> None:
    """Halves of a warp that come to one barrier apart, four times: who voted before has not voted now."""
    out = np.zeros(62, np.uint32)
    ww.GPU("a100", timing="off", engine=engine, front_end="ptx").compile(COUNTED)["counted"][1, 62](out)
    votes = [sum((t + r) % 3 == 0 for t in range(62)) for r in range(4)]
    assert (out == np.uint32(((votes[0] * 64 + votes[1]) * 64 + votes[2]) * 64 + votes[3])).all()


SOME_WAIT = """
extern "C" __global__ void some_wait(int *out) {
    __shared__ int told;
    int t = threadIdx.x;
    if (t == 0) told = 1;
    __syncthreads();
    asm volatile("{ .reg .pred p; setp.lt.s32 p, %0, 20; @p barrier.sync 0; }" :: "r"(t % 32) : "memory");
    if (t % 32 < 20) {
        out[t] = told;
        return;
    }
    told = 7;
}
"""


@pytest.mark.parametrize("front_end", ["sass", "ptx"])
@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_lanes_that_a_guard_lets_pass_a_barrier_do_not_wait(chip: str, front_end: str) -> None:
    """They run to their end while the others of the warp wait, for whom the barrier is complete then."""
    out = np.zeros(64, np.int32)
    ww.GPU(chip, timing="off", front_end=front_end).compile(SOME_WAIT)["some_wait"][1, 64](out)
    assert (out == np.where(np.arange(64) % 32 < 20, 7, 0)).all()
