"""Figure 6 of "Volta: Performance and Programmability": products of half-precision matrices with sums of single precision, on V100's tensor cores and on P100.

The article runs cuBLAS.  Here both kernels are ours: tiles of 128 x 128 in shared memory, the next tile on its way while one is multiplied; V100's warps multiply 16 x 16 x 4 at a
time on tensor cores, P100's threads 8 x 8 values each with fused multiply-adds.  The figure's sizes are not in the text; the sizes here fill both chips' SMs evenly.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from warpwright.api import GPU
from warpwright.studies.study import Cell, Result, Step, Table, study
from warpwright.studies.volta_demos import PAPER

RATIO = 9.0
"""The article: more than nine times."""
TOLERANCE = 0.15
TILE = 128
SIZES = {"v100": (2560, 2048, 1024), "p100": (1792, 2048, 512)}
"""Rows, columns and depth: 320 tiles on 80 SMs, 224 on 56."""
SOURCE = r"""
#include <cuda_fp16.h>

// c = a b, a of m x k in rows, b of k x n in columns, c in rows; tiles of 128 x 128, two blocks of an SM.
#if __CUDA_ARCH__ >= 700
// Of 16 x 16 x 4: each quarter of a warp's lanes (0 to 3 with 16 to 19, and so on) multiplies 8 x 8 x 4.
static __device__ __forceinline__ void multiply(float *sum, const unsigned *left, const unsigned *right)
{
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, "
                 "{%0,%1,%2,%3,%4,%5,%6,%7};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
                   "+f"(sum[7])
                 : "r"(left[0]), "r"(left[1]), "r"(right[0]), "r"(right[1]));
}

// Four warps of 64 x 64.  A thread's row of a quarter is one of eight neighbours of eight lanes, whose chunks of eight halves are in different banks.
extern "C" __global__ void __launch_bounds__(128, 2) product(const half *a, const half *b, float *c, int m, int n, int k)
{
    const int DEEP = 32, PITCH = DEEP + 8;
    __shared__ __align__(16) half as[2][128 * PITCH], bs[2][128 * PITCH];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 64, column = warp % 2 * 64;
    int down = lane % 4 + lane / 4 % 2 * 4 + lane / 16 * 8, across = lane % 4 + lane / 8 % 2 * 4 + lane / 16 * 8;
    const half *from_a = a + (blockIdx.y * 128 + threadIdx.x / 4) * (size_t)k + threadIdx.x % 4 * 8;
    const half *from_b = b + (blockIdx.x * 128 + threadIdx.x / 4) * (size_t)k + threadIdx.x % 4 * 8;
    int to = threadIdx.x / 4 * PITCH + threadIdx.x % 4 * 8;
    float sum[4][4][8] = {};
    uint4 next[8];
    for (int step = -1; step < k / DEEP; step++) {
        bool more = step + 1 < k / DEEP;
        if (more)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                next[i] = *(const uint4 *)(from_a + (step + 1) * DEEP + i * 32 * (size_t)k);
                next[4 + i] = *(const uint4 *)(from_b + (step + 1) * DEEP + i * 32 * (size_t)k);
            }
        if (step >= 0) {
            const half *own_a = as[step & 1] + (row + down) * PITCH, *own_b = bs[step & 1] + (column + across) * PITCH;
#pragma unroll
            for (int deep = 0; deep < DEEP; deep += 8) {
                uint4 left[4], right[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    left[i] = *(const uint4 *)(own_a + i * 16 * PITCH + deep);
                    right[i] = *(const uint4 *)(own_b + i * 16 * PITCH + deep);
                }
#pragma unroll
                for (int half_of = 0; half_of < 2; half_of++)
#pragma unroll
                    for (int i = 0; i < 16; i++)
                        multiply(sum[i / 4][i % 4], (unsigned *)&left[i / 4] + 2 * half_of,
                                 (unsigned *)&right[i % 4] + 2 * half_of);
            }
        }
        if (more)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                *(uint4 *)(as[(step + 1) & 1] + to + i * 32 * PITCH) = next[i];
                *(uint4 *)(bs[(step + 1) & 1] + to + i * 32 * PITCH) = next[4 + i];
            }
        __syncthreads();
    }
    // Value i of a quarter's 8 x 8: row (lane & 1) + (i & 2), four more in the upper lanes; column (i & 4) + (lane & 2) + (i & 1).
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int v = 0; v < 8; v += 2) {
                int r = lane % 2 + (v & 2) + lane / 16 * 4, s = (v & 4) + (lane & 2);
                int y = row + i * 16 + r % 4 + lane / 4 % 2 * 4 + r / 4 * 8;
                int x = column + j * 16 + s % 4 + lane / 8 % 2 * 4 + s / 4 * 8;
                *(float2 *)(c + (blockIdx.y * 128 + y) * (size_t)n + blockIdx.x * 128 + x) =
                    make_float2(sum[i][j][v], sum[i][j][v + 1]);
            }
}
#else
extern "C" __global__ void __launch_bounds__(256, 2) product(const half *a, const half *b, float *c, int m, int n, int k)
{
    const int DEEP = 8, PITCH = 128 + 4;
    __shared__ __align__(16) float as[2][DEEP * PITCH], bs[2][DEEP * PITCH];
    const half *from_a = a + (blockIdx.y * 128 + threadIdx.x / 2) * (size_t)k + threadIdx.x % 2 * 4;
    const half *from_b = b + (blockIdx.x * 128 + threadIdx.x / 2) * (size_t)k + threadIdx.x % 2 * 4;
    int down = threadIdx.x / 16 * 4, across = threadIdx.x % 16 * 4, to = threadIdx.x % 2 * 4 * PITCH + threadIdx.x / 2;
    float sum[8][8] = {};
    uint2 next_a, next_b;
    for (int step = -1; step < k / DEEP; step++) {
        bool more = step + 1 < k / DEEP;
        if (more) {
            next_a = *(const uint2 *)(from_a + (step + 1) * DEEP);
            next_b = *(const uint2 *)(from_b + (step + 1) * DEEP);
        }
        if (step >= 0) {
            const float *own_a = as[step & 1], *own_b = bs[step & 1];
#pragma unroll
            for (int deep = 0; deep < DEEP; deep++) {
                float left[8], right[8];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    *(float4 *)(left + 4 * i) = *(const float4 *)(own_a + deep * PITCH + down + 64 * i);
                    *(float4 *)(right + 4 * i) = *(const float4 *)(own_b + deep * PITCH + across + 64 * i);
                }
#pragma unroll
                for (int i = 0; i < 64; i++)
                    sum[i / 8][i % 8] += left[i / 8] * right[i % 8];
            }
        }
        if (more) {
            const half *halves_a = (const half *)&next_a, *halves_b = (const half *)&next_b;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                as[(step + 1) & 1][to + i * PITCH] = __half2float(halves_a[i]);
                bs[(step + 1) & 1][to + i * PITCH] = __half2float(halves_b[i]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        float *out = c + (blockIdx.y * 128 + down + i / 4 * 64 + i % 4) * (size_t)n + blockIdx.x * 128 + across;
        *(float4 *)out = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
        *(float4 *)(out + 64) = make_float4(sum[i][4], sum[i][5], sum[i][6], sum[i][7]);
    }
}
#endif
"""
THREADS = {"v100": 128, "p100": 256}


@cache
def tflops(chip: str, rows: int, columns: int, depth: int) -> tuple[float, bool]:
    """Rate of a product with the given rows and columns, and whether the result is right."""
    gpu = GPU(chip, timing="full")
    gpu.repeats = None
    random = np.random.default_rng(6)
    a = random.integers(-4, 5, (rows, depth)).astype(np.float16)
    b = random.integers(-4, 5, (columns, depth)).astype(np.float16)
    c = gpu.zeros(rows * columns, np.float32)
    kernel = gpu.compile(SOURCE)["product"]
    sizes = (np.int32(rows), np.int32(columns), np.int32(depth))
    launcher = kernel[(columns // TILE, rows // TILE), THREADS[chip]]
    run = launcher(gpu.array(a.reshape(-1)), gpu.array(b.reshape(-1)), c, *sizes)
    right = np.array_equal(c.numpy().reshape(rows, columns), a.astype(np.float32) @ b.T.astype(np.float32))
    return 2 * rows * columns * depth / run.seconds / 1e12, right


@study("volta-fig6", f"{PAPER}, Figure 6")
def mixed_precision(step: Step) -> Result:
    """Products of half-precision matrices on V100's tensor cores and on P100: more than nine times as fast."""
    rates = {}
    found, sums = Result(), []
    for chip, sizes in SIZES.items():
        step(f"{chip}, {sizes[0]} x {sizes[1]} x {sizes[2]}")
        rates[chip], right = tflops(chip, *sizes)
        sums.append(Cell("every value is right", chip, int(right), 1, 0.0, True))
        found.remarks.append(f"{chip}: {rates[chip]:.1f} Tflops.")
    found.tables.append(
        Table("V100 to P100", "times", [Cell("ratio", "", rates["v100"] / rates["p100"], RATIO, TOLERANCE)])
    )
    found.tables.append(Table("Products", "1 if so", sums))
    found.remarks.append(
        "The article prints 'more than 9x' for cuBLAS with CUDA 8 and 9; its figure's sizes and values are not in the text."
    )
    return found
