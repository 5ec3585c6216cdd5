"""Kernels whose clocks only delay their loops are judged by their states, others are not."""

from __future__ import annotations

import pytest

import warpwright as ww
from warpwright.engine.clock_uses import judged
from warpwright.engine.kernels import lowered_of

SOURCE = r"""
__device__ unsigned long long now() { unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
#define KERNEL(name) extern "C" __global__ void name(volatile int *flag, int *out)
KERNEL(no_clock) { while (!*flag) { } *out = 1; }
KERNEL(sleeps_longer) { auto t = now(); while (!*flag) __nanosleep((now() - t) / 4); *out = 1; }
KERNEL(sleeps_in_steps) {
    auto t = now();
    for (int n = 0; !*flag; ) {
        if (n < 64) { n++; continue; }
        auto waited = now() - t;
        if (waited > 1000000) __nanosleep(1000000);
        else if (waited > 10000) __nanosleep(waited / 4);
    }
    *out = 1;
}
#define SLEEP_LONGER(what) { auto t = now(); while (!(what)) __nanosleep((now() - t) / 4); }
KERNEL(acts_between) { SLEEP_LONGER(*flag); *out = 1; atomicAdd(out + 1, 1); SLEEP_LONGER(flag[1]); }
__device__ __noinline__ int looks(volatile int *flag) { return *flag & 1; }
KERNEL(calls_in_both) { SLEEP_LONGER(looks(flag)); *out = 1; SLEEP_LONGER(looks(flag + 1)); }
KERNEL(writes_between_rounds) { for (int i = 0; i < 100; i++) { SLEEP_LONGER(flag[i]); out[i] = 1; } }
KERNEL(measures_all) { auto t = now(); while (!*flag) { } *out = (int)(now() - t); }
KERNEL(gives_up) { auto t = now(); while (!*flag && now() - t < 1000000) { } *out = 1; }
KERNEL(delays) { auto t = clock64(); while (clock64() - t < 1000000) { } *out = *flag; }
KERNEL(writes_it) { while (!*flag) *out = (int)now(); }
KERNEL(chooses_word) { while (!flag[now() & 15]) { } *out = 1; }
KERNEL(counts_late_rounds) { int late = 0; auto t = now(); while (late < 5) { if (now() - t > 1000) late++; flag[1] = 1; } *out = late; }
KERNEL(leaves_by_count) { int n = 0; auto t = now(); while (!*flag) { if (now() - t > 1000) n += 2; if (n > 100) break; } *out = n; }
KERNEL(barriers_when_late) { auto t = now(); while (!*flag) { if (now() - t > 1000) __syncthreads(); } *out = 1; }
KERNEL(returns_late) { auto t = now(); while (!*flag) { if (now() - t > 1000) return; } *out = 1; }
"""
DELAYED = {
    *("no_clock", "sleeps_longer", "sleeps_in_steps", "measures_all"),
    *("acts_between", "calls_in_both", "writes_between_rounds"),
}


@pytest.mark.ci
@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_only_kernels_that_clocks_delay_are_judged(chip: str) -> None:
    module = ww.GPU(chip, timing="off").compile(SOURCE)
    names = [line.split("(")[1].split(")")[0] for line in SOURCE.splitlines() if line.startswith("KERNEL(")]
    loaded = {name: module[name]._loaded for name in names}
    assert {name for name, one in loaded.items() if judged(one.program, lowered_of(one))} == DELAYED
