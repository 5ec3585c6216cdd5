"""Accesses of neighbouring words are judged 32 at a time: they show what the same accesses show lane by lane."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
typedef %(type)s T;
typedef %(part)s P;
__device__ T one(float x) { T v; for (int k = 0; k < sizeof(T) / sizeof(P); k++) ((P *)&v)[k] = x + k; return v; }
__device__ void add(T &v) { for (int k = 0; k < sizeof(T) / sizeof(P); k++) ((P *)&v)[k] += 1; }
// Through the table t, which holds 0, 1, 2 ..., nothing is known of how the lanes lie.
#define KERNELS(name, AT) \
    extern "C" __global__ void in_place_##name(T *a, const int *t, int n) { \
        int i = blockIdx.x * blockDim.x + threadIdx.x; \
        for (int k = 0; k < 3; k++) if (i < n) { T v = a[AT(i)]; add(v); a[AT(i)] = v; __syncwarp(0xffffffff); } \
    } \
    extern "C" __global__ void next_##name(T *a, const int *t, int n) { \
        int i = blockIdx.x * blockDim.x + threadIdx.x; \
        if (i < n) { T v = a[AT(i + 1)]; add(v); a[AT(i)] = v; } \
    } \
    extern "C" __global__ void over_##name(T *a, const int *t, int n) { \
        int i = blockIdx.x * (blockDim.x - 16) + threadIdx.x; \
        if (i < n) a[AT(i)] = one(threadIdx.x); \
    } \
    extern "C" __global__ void turns_##name(T *a, const int *t, int n) { \
        __shared__ T s[272]; \
        int i = threadIdx.x; \
        s[AT(i)] = one(i); s[AT(i + 8)] = one(i); \
        __syncthreads(); \
        T v = s[AT(i + 3)]; \
        if (n > 500) __syncthreads(); \
        s[AT(i)] = v; \
        __syncthreads(); \
        a[AT(i)] = s[AT(i)]; \
    }
#define ITSELF(i) (i)
#define LOOKED_UP(i) t[i]
KERNELS(direct, ITSELF)
KERNELS(table, LOOKED_UP)
"""
N = 2048


def findings(type: str, kernel: str, n: int) -> list[tuple[object, ...]]:
    gpu = ww.GPU("a100", check="all", check_level="info")
    part = type if type in ("short", "char") else "float"
    module = gpu.compile(SOURCE % {"type": type, "part": part}, name="rows.cu")
    a, table = gpu.array(np.zeros(4 * N, np.float32)), gpu.array(np.arange(N, dtype=np.int32))
    for _ in range(2):
        module[kernel][3, 256](a, table, np.int32(n))
    return sorted((f.title, f.severity, f.count) for f in gpu.findings)


@pytest.mark.parametrize("type", ["float", "float2", "float4", "char", "short"])
@pytest.mark.parametrize("kernel", ["in_place", "next", "over", "turns"])
@pytest.mark.parametrize("n", [700, 300])
def test_neighbours_show_what_lanes_show_one_by_one(type: str, kernel: str, n: int) -> None:
    direct, table = (findings(type, f"{kernel}_{way}", n) for way in ("direct", "table"))
    assert direct == table
    if kernel == "in_place":
        assert direct == []
    else:
        assert direct
