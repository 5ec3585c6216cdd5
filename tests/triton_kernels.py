"""Triton kernels of the kinds that its tutorials teach, run without torch: a program for ``warpwright run``.

Each function below launches one kernel on arrays in managed memory and compares it with NumPy; the name of those that agree is
printed.  ``python tests/triton_kernels.py NAME ...`` runs some of them.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import triton
import triton.language as tl

cuda = ctypes.CDLL("libcuda.so.1")
rng = np.random.default_rng(7)
_NAMES = {"float32": "fp32", "float16": "fp16", "int32": "i32", "int64": "i64"}


class Array:
    """Managed memory that NumPy sees, with what Triton asks of a tensor."""

    def __init__(self, values):
        values = np.ascontiguousarray(values)
        place = ctypes.c_uint64()
        assert cuda.cuMemAllocManaged(ctypes.byref(place), ctypes.c_size_t(max(values.nbytes, 16)), 1) == 0
        raw = (ctypes.c_uint8 * values.nbytes).from_address(place.value)
        self.host = np.frombuffer(raw, dtype=values.dtype).reshape(values.shape)
        self.host[...] = values
        self.address = place.value
        self.dtype = getattr(
            tl, {"fp32": "float32", "fp16": "float16", "i32": "int32", "i64": "int64"}[_NAMES[values.dtype.name]]
        )
        self.shape = values.shape

    def data_ptr(self):
        return self.address

    def stride(self, axis):
        return self.host.strides[axis] // self.host.itemsize


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


def vector_add():
    n = 5000
    x, y, out = (Array(rng.random(n, dtype=np.float32)) for _ in range(3))
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return np.array_equal(out.host, x.host + y.host)


@triton.jit
def softmax_kernel(out, x, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, at < columns, other=-float("inf"))
    top = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + at, top / tl.sum(top, axis=0), at < columns)


def fused_softmax():
    x = Array(rng.standard_normal((33, 781), dtype=np.float32))
    out = Array(np.zeros_like(x.host))
    softmax_kernel[(33,)](out, x, 781, 781, BLOCK=1024)
    e = np.exp(x.host - x.host.max(1, keepdims=True))
    return np.allclose(out.host, e / e.sum(1, keepdims=True), atol=1e-6)


@triton.jit
def matmul_kernel(a, b, c, m, n, k, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        left = tl.load(a + rows[:, None] * sam + (start + inner)[None, :], (start + inner)[None, :] < k, other=0.0)
        right = tl.load(b + (start + inner)[:, None] * sbk + columns[None, :], (start + inner)[:, None] < k, other=0.0)
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * scm + columns[None, :], total, (rows[:, None] < m) & (columns[None, :] < n))


def matmul():
    a = Array(rng.standard_normal((128, 96)).astype(np.float16))
    b = Array(rng.standard_normal((96, 128)).astype(np.float16))
    c = Array(np.zeros((128, 128), np.float32))
    matmul_kernel[(2, 2)](a, b, c, 128, 128, 96, 96, 128, 128, BM=64, BN=64, BK=32)
    return np.allclose(c.host, a.host.astype(np.float32) @ b.host.astype(np.float32), atol=1e-2)


@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(kept, tl.load(x + at, at < n) / (1 - p), 0.0), at < n)


def dropout():
    x = Array(np.ones(4000, np.float32))
    out, again = Array(np.zeros(4000, np.float32)), Array(np.zeros(4000, np.float32))
    for target in (out, again):
        dropout_kernel[(4,)](x, target, 4000, 0.5, 123, BLOCK=1024)
    return (
        np.array_equal(out.host, again.host)
        and set(np.unique(out.host)) == {0.0, 2.0}
        and 0.45 < out.host.mean() / 2 < 0.55
    )


@triton.jit
def norm_kernel(x, out, w, b, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, inside, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    tl.store(out + row * columns + at, centred * scale * tl.load(w + at, inside) + tl.load(b + at, inside), inside)


def layer_norm():
    x = Array(rng.standard_normal((20, 500), dtype=np.float32))
    w, b = (Array(rng.random(500, dtype=np.float32)) for _ in range(2))
    out = Array(np.zeros_like(x.host))
    norm_kernel[(20,)](x, out, w, b, 500, 1e-5, BLOCK=512)
    centred = x.host - x.host.mean(1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w.host + b.host
    return np.allclose(out.host, wanted, atol=1e-5)


@triton.jit
def attention_kernel(q, k, v, out, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1) * length * D
    inner = tl.arange(0, D)
    query = tl.load(q + head + rows[:, None] * D + inner[None, :])
    top = tl.full((BM,), -float("inf"), dtype=tl.float32)
    weight = tl.zeros((BM,), dtype=tl.float32)
    total = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, length, BN):
        others = start + tl.arange(0, BN)
        key = tl.load(k + head + others[None, :] * D + inner[:, None])
        score = tl.dot(query, key) * scale
        higher = tl.maximum(top, tl.max(score, 1))
        share = tl.exp(score - higher[:, None])
        fade = tl.exp(top - higher)
        weight = weight * fade + tl.sum(share, 1)
        value = tl.load(v + head + others[:, None] * D + inner[None, :])
        total = total * fade[:, None] + tl.dot(share.to(tl.float16), value)
        top = higher
    tl.store(out + head + rows[:, None] * D + inner[None, :], total / weight[:, None])


def fused_attention():
    heads, length, width = 2, 128, 32
    q, k, v = (Array(rng.standard_normal((heads, length, width)).astype(np.float16)) for _ in range(3))
    out = Array(np.zeros((heads, length, width), np.float32))
    attention_kernel[(length // 64, heads)](q, k, v, out, length, width**-0.5, D=width, BM=64, BN=32)
    score = np.einsum("hid,hjd->hij", q.host.astype(np.float32), k.host.astype(np.float32)) * width**-0.5
    share = np.exp(score - score.max(-1, keepdims=True))
    wanted = np.einsum("hij,hjd->hid", share / share.sum(-1, keepdims=True), v.host.astype(np.float32))
    return np.allclose(out.host, wanted, atol=5e-3)


@triton.jit
def grouped_kernel(pointers, sizes, count, PROGRAMS: tl.constexpr, B: tl.constexpr):
    tile = tl.program_id(0)
    before = 0
    for g in range(count):
        m, n, k = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        wide = tl.cdiv(n, B)
        tiles = tl.cdiv(m, B) * wide
        while tile >= before and tile < before + tiles:
            a = tl.load(pointers + g * 3).to(tl.pointer_type(tl.float16))
            b = tl.load(pointers + g * 3 + 1).to(tl.pointer_type(tl.float16))
            c = tl.load(pointers + g * 3 + 2).to(tl.pointer_type(tl.float16))
            here = tile - before
            rows, columns = here // wide * B + tl.arange(0, B), here % wide * B + tl.arange(0, B)
            inner = tl.arange(0, B)
            total = tl.zeros((B, B), dtype=tl.float32)
            for start in range(0, k, B):
                total += tl.dot(
                    tl.load(a + rows[:, None] * k + start + inner[None, :]),
                    tl.load(b + (start + inner)[:, None] * n + columns[None, :]),
                )
            tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))
            tile += PROGRAMS
        before += tiles


def grouped_gemm():
    shapes = [(64, 32, 32), (32, 96, 64), (64, 64, 32)]
    groups = [
        tuple(Array(x.astype(np.float16)) for x in (rng.random((m, k)), rng.random((k, n)), np.zeros((m, n))))
        for m, n, k in shapes
    ]
    pointers = Array(np.array([[x.address for x in g] for g in groups], np.int64))
    grouped_kernel[(4,)](pointers, Array(np.array(shapes, np.int32)), len(shapes), PROGRAMS=4, B=32)
    return all(
        np.allclose(c.host, (a.host.astype(np.float32) @ b.host.astype(np.float32)), rtol=2e-3) for a, b, c in groups
    )


@triton.jit
def persistent_kernel(a, b, c, m, n, k, PROGRAMS: tl.constexpr, B: tl.constexpr):
    wide = tl.cdiv(n, B)
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, B) * wide, PROGRAMS, flatten=True):
        rows, columns = tile // wide * B + tl.arange(0, B), tile % wide * B + tl.arange(0, B)
        inner = tl.arange(0, B)
        total = tl.zeros((B, B), dtype=tl.float32)
        for start in range(0, k, B):
            total += tl.dot(
                tl.load(a + rows[:, None] * k + start + inner[None, :]),
                tl.load(b + (start + inner)[:, None] * n + columns[None, :]),
            )
        tl.store(c + rows[:, None] * n + columns[None, :], total)


def persistent_matmul():
    a, b = (
        Array(rng.standard_normal((160, 64)).astype(np.float16)),
        Array(rng.standard_normal((64, 96)).astype(np.float16)),
    )
    c = Array(np.zeros((160, 96), np.float32))
    persistent_kernel[(4,)](a, b, c, 160, 96, 64, PROGRAMS=4, B=32)
    return np.allclose(c.host, a.host.astype(np.float32) @ b.host.astype(np.float32), atol=1e-2)


@triton.jit(debug=True)
def asserting_kernel(x, n: tl.constexpr):
    tl.device_assert(tl.load(x + tl.arange(0, n)) < 3, "too large")


def failing_assertion():
    asserting_kernel[(1,)](Array(np.arange(4, dtype=np.int32)), 4, num_warps=1)
    return cuda.cuCtxSynchronize() == 710  # CUDA_ERROR_ASSERT


KERNELS = (vector_add, fused_softmax, matmul, dropout, layer_norm, fused_attention, grouped_gemm, persistent_matmul)

if __name__ == "__main__":
    cuda.cuInit(0)
    context = ctypes.c_void_p()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)
    for function in [globals()[name] for name in sys.argv[1:]] or KERNELS:
        try:
            outcome = "agrees" if function() else "differs"
        except Exception as error:
            outcome = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        print(f"{function.__name__}: {outcome}", flush=True)
