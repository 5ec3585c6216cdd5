"""Bytes and half-words at addresses that nothing says anything about: the same values and faults as the interpreter's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
template<class T> __device__ void scattered(T *out, const T *x, const int *at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        T v = x[at[i]];
        if (at[i] % 3) out[at[n - 1 - i]] = v + T(i);
    }
}
extern "C" __global__ void bytes(unsigned char *out, const unsigned char *x, const int *at, int n) { scattered(out, x, at, n); }
extern "C" __global__ void halves(short *out, const short *x, const int *at, int n) { scattered(out, x, at, n); }
extern "C" __global__ void shared(unsigned char *out, const unsigned char *x, const int *at, int n) {
    __shared__ unsigned char s[259];
    __shared__ short h[259];
    for (int i = threadIdx.x; i < 259; i += blockDim.x) { s[i] = x[i]; h[i] = -x[i]; }
    __syncthreads();
    unsigned char t = s[at[threadIdx.x] % 259];
    short u = h[at[threadIdx.x + 1] % 259];
    __syncthreads();
    s[(at[threadIdx.x] * 7) % 259] = t + u;
    __syncthreads();
    for (int i = threadIdx.x; i < 259; i += blockDim.x) out[i] = s[i];
}
extern "C" __global__ void local(unsigned char *out, const unsigned char *x, const int *at, int n) {
    unsigned char a[37];
    for (int i = 0; i < 37; i++) a[i] = x[i + threadIdx.x];
    int sum = 0;
    for (int i = 0; i < 20; i++) {
        int j = at[threadIdx.x + i] % 37;
        a[j] ^= sum;
        sum += a[(j * 5 + threadIdx.x) % 37];
    }
    out[threadIdx.x] = sum;
}
extern "C" __global__ void strided(unsigned char *out, const unsigned char *x, const int *unused, int n) {
    int step = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) out[i] = x[i];
}
"""
BLOCK = 96


@pytest.fixture(scope="module")
def modules() -> list[Any]:
    return [ww.GPU("a100", timing="off", engine=engine).compile(SOURCE) for engine in ("compiled", "interpreter")]


@pytest.mark.parametrize("order", ["permuted", "in order"])
@pytest.mark.parametrize("name", ["bytes", "halves", "shared", "local", "strided"])
def test_values_are_the_interpreters(modules: list[Any], name: str, order: str) -> None:
    n = 700
    rng = np.random.default_rng(3)
    at = np.arange(n) if order == "in order" else rng.permutation(n)
    kind = np.int16 if name == "halves" else np.uint8
    x = rng.integers(0, 100, n).astype(kind)
    results = []
    for module in modules:
        out = np.zeros(n, kind)
        module[name][1 if name in ("shared", "local") else 8, BLOCK](out, x, at.astype(np.int32), n)
        results.append(out)
    assert np.array_equal(*results)
    if name == "strided":
        assert np.array_equal(results[0], x)


@pytest.mark.parametrize("wrong", [-1, 700, 1 << 20])
@pytest.mark.parametrize("name", ["bytes", "halves"])
def test_one_lane_outside_is_the_interpreters_fault(modules: list[Any], name: str, wrong: int) -> None:
    n = 700
    at = np.arange(n, dtype=np.int32)
    at[417] = wrong
    kind = np.int16 if name == "halves" else np.uint8
    found = []
    for module in modules:
        memory = module.gpu.array(np.zeros(n, kind)), module.gpu.array(np.zeros(n, kind))
        with pytest.raises(ww.ExecutionError) as raised:
            module[name][8, BLOCK](*memory, at, n)
        found.append(str(raised.value))
    assert found[0].split("0x")[0] == found[1].split("0x")[0]
