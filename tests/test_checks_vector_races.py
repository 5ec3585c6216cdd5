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


WINDOWS = r"""
typedef %(type)s T;
// Word i of a row of which every place stands FAR words behind the one before.
#define AT(i) (FAR * (i))
#define KERNELS(name, INDEX) \
    extern "C" __global__ void reads_##name(T *a, const int *t, int n) { \
        __shared__ T s[32 * FAR]; \
        int i = threadIdx.x & 31; \
        if (threadIdx.x < 32) s[AT(i)] = i; \
        if (n & 1) __syncthreads(); \
        T v = 0; \
        for (int k = 0; k < 3; k++) v += s[AT(INDEX(i + k))]; \
        if (n & 2) __syncthreads(); \
        if (threadIdx.x >= 32) s[AT(i)] = v; \
        __syncthreads(); \
        a[threadIdx.x] = s[AT(i)]; \
    } \
    extern "C" __global__ void own_##name(T *a, const int *t, int n) { \
        __shared__ T s[64 * FAR]; \
        int i = threadIdx.x & 31, w = threadIdx.x & 32; \
        if (n & 1 || i & 1) s[AT(w + i)] = i; \
        if (n & 2) __syncwarp(); \
        T v = s[AT(w + INDEX(i))]; \
        if (n & 4) __syncwarp(); \
        s[AT(w + i)] += v; \
        a[threadIdx.x] = s[AT(w + i)]; \
    }
#define HALF(i) ((i) & 15)
#define LOOKED_UP(i) t[(i) & 31]
KERNELS(pattern, HALF)
KERNELS(table, LOOKED_UP)
"""


def findings_in_windows(type: str, kernel: str, n: int, table: list[int], far: int) -> list[tuple[object, ...]]:
    gpu = ww.GPU("a100", check="all", check_level="info")
    module = gpu.compile(f"#define FAR {far}\n" + WINDOWS % {"type": type}, name="windows.cu")
    a, t = gpu.array(np.zeros(128, np.float64)), gpu.array(np.array(table, np.int32))
    module[kernel][2, 64](a, t, np.int32(n))
    return sorted((f.title, f.severity, f.count) for f in gpu.findings)


@pytest.mark.parametrize("type", ["int", "char", "double"])
@pytest.mark.parametrize("kernel", ["reads", "own"])
@pytest.mark.parametrize("n", range(8))
def test_a_window_shows_what_lanes_show_one_by_one(type: str, kernel: str, n: int) -> None:
    rng = np.random.default_rng(n)
    scattered = rng.integers(0, 16, 32).tolist()
    near, far = (findings_in_windows(type, f"{kernel}_table", n, scattered, distance) for distance in (1, 40))
    assert near == far
    assert near or kernel == "own" or n & 1
    halves = [i & 15 for i in range(32)]
    pattern, looked_up = (findings_in_windows(type, f"{kernel}_{way}", n, halves, 1) for way in ("pattern", "table"))
    assert pattern == looked_up
