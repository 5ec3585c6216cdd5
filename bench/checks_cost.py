"""Measures the cost of the checks: a warp's run between barriers, an access, a resident block; CPU seconds of one thread.

python -m bench.checks_cost [--gpu a100]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import warpwright as ww

SOURCE = r"""
extern "C" __global__ void barriers(float *a, int n) {
    __shared__ float s[256];
    for (int i = 0; i < n; i++) { s[threadIdx.x] = i; __syncthreads(); }
    a[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void copies(const float *a, float *b, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) b[i] = a[i];
}
extern "C" __global__ void columns(const float *a, float *b, int n) {
    __shared__ float s[16][16];
    int x = threadIdx.x & 15;
    float sum = 0;
    s[threadIdx.x / 16][x] = a[threadIdx.x];
    __syncthreads();
    for (int i = 0; i < n; i++) sum += s[(i + n) & 15][x];
    b[threadIdx.x] = sum;
}
#include <cuda/barrier>
extern "C" __global__ void phases(float *a, int n) {
    __shared__ float s[256];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    for (int i = 0; i < n; i++) { s[threadIdx.x] = i; bar.arrive_and_wait(); }
    a[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void loads(const float *a, float *b, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += a[(i * 256 + threadIdx.x) & 4095];
    b[threadIdx.x] = sum;
}
"""
WORDS, TURNS, BLOCKS = 1 << 20, 4000, 8192


def seconds(launch: Callable[[int], object]) -> float:
    """Time of the second launch; memory differs from the first one's, so that it is watched as well."""
    launch(0)
    began = time.process_time()
    launch(1)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", default="a100")
    gpu = ww.GPU(parser.parse_args().gpu, check="all")
    module = gpu.compile(SOURCE, name="cost.cu")
    ones, out = gpu.array(np.ones(WORDS, np.float32)), gpu.array(np.zeros(WORDS, np.float32))
    rows = (
        ("µs per interval between barriers, one shared store in it", "barriers", 1, 256, TURNS, TURNS * 8 / 1e6),
        (
            "µs per interval between phases of a cuda::barrier, one shared store in it",
            "phases",
            1,
            256,
            TURNS // 8,
            TURNS / 1e6,
        ),
        ("ns an access of a warp to global memory, each word once", "copies", 108, 256, WORDS, 2 * WORDS / 32 / 1e9),
        ("ns an access of a warp to global memory, the same 16 KiB", "loads", 1, 256, TURNS, TURNS * 8 / 1e9),
        ("ns a load of a tile's row of 16 words, by both halves of a warp", "columns", 1, 256, TURNS, TURNS * 8 / 1e9),
        ("µs a resident block of one warp, two accesses in it", "copies", BLOCKS, 32, BLOCKS * 32, BLOCKS / 1e6),
    )
    for what, kernel, grid, block, n, count in rows:
        run = module[kernel][grid, block]
        arguments = (out,) if kernel in ("barriers", "phases") else (ones, out)
        # Another n is another kind of launch: it is watched, whatever came before.
        spent = seconds(lambda turn, run=run, arguments=arguments, n=n: run(*arguments, np.int32(n - turn)))
        print(f"{spent / count:8.2f} {what}")


if __name__ == "__main__":
    main()
