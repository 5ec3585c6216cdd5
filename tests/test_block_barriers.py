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
