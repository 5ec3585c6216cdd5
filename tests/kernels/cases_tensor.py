"""Cases of asynchronous copies and tensor-core products.

Products whose factors are small integers are exact in every order of accumulation and compared bit for bit; the
others have a tolerance for the float accumulation, whose internal order and rounding CUDA does not state.
"""

from __future__ import annotations

import numpy as np

from tests.kernels.case import Array, Case, Size, launch, pick

I32, F16, F32, F64, U32 = np.int32, np.float16, np.float32, np.float64, np.uint32


def async_reverse(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 3, 2000)
    src = rng.standard_normal((grid, 128, 4), dtype=F32)
    args = (np.zeros(src.size, F32), src.ravel())
    return launch("async_copy.cu", "async_reverse", grid, 128, args, {0: src[:, ::-1].ravel()})


def async_double_buffer(size: Size, rng: np.random.Generator) -> Case:
    grid, tiles = pick(size, 2, 528), pick(size, 5, 24)
    src = rng.integers(0, 2**32, (grid, tiles * 4, 64), dtype=U32)
    total = np.zeros((grid, 64), U32)
    for k in range(tiles * 4):
        total = total * U32(3) + src[:, k, ::-1]
    args = (np.zeros(total.size, I32), src.view(I32).ravel(), I32(tiles))
    return launch("async_copy.cu", "async_double_buffer", grid, 64, args, {0: total.view(I32).ravel()})


def async_zero_fill(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 390, 500_001)
    grid = -(-n // 256)
    src = rng.standard_normal(grid * 256, dtype=F32)
    padded = np.where(np.arange(src.size) < n, src, F32(0))
    args = (np.zeros(src.size, F32), src, I32(n))
    return launch("async_copy.cu", "async_zero_fill", grid, 64, args, {0: padded[np.arange(src.size) ^ 5]})


def _whole(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-2, 3, shape).astype(F16)


def wmma_float(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 32, 512)
    a, b = rng.standard_normal((2, n, n)).astype(F16)
    want = (a.astype(F64) @ b.astype(F64)).astype(F32)
    warps = pick(size, 2, 4)
    args = (np.zeros(n * n, F32), a.ravel().copy(), b.ravel().copy(), I32(n))
    grid = (n // 16 // warps, n // 16)
    return launch("tensor.cu", "wmma_float", grid, 32 * warps, args, {0: want.ravel()}, rtol=1e-4, atol=2e-3)


def wmma_half(size: Size, rng: np.random.Generator) -> Case:
    """B is stored by columns."""
    n = pick(size, 32, 256)
    a, b, c = _whole(rng, n, n), _whole(rng, n, n), _whole(rng, n, n)
    want = ((c.astype(F64) + a.astype(F64) @ b.astype(F64)) * 0.5).astype(F16)
    args = (np.zeros(n * n, F16), a.ravel(), b.T.ravel().copy(), c.ravel(), I32(n))
    return launch("tensor.cu", "wmma_half", (n // 16, n // 16), 32, args, {0: want.ravel()})


def wmma_tiled(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 64, 768)
    a, b = rng.standard_normal((2, n, n)).astype(F16)
    want = (a.astype(F64) @ b.astype(F64)).astype(F32)
    args = (np.zeros(n * n, F32), a.ravel().copy(), b.ravel().copy(), I32(n))
    return launch("tensor.cu", "wmma_tiled", (n // 64, n // 64), 128, args, {0: want.ravel()}, rtol=1e-4, atol=3e-3)


def mma_float(size: Size, rng: np.random.Generator) -> Case:
    m, n, depth = (32, 16, 48) if size == "small" else (512, 512, 256)
    a, b = _whole(rng, m, depth), _whole(rng, depth, n)
    want = (a.astype(F64) @ b.astype(F64)).astype(F32)
    args = (np.zeros(m * n, F32), a.ravel(), b.ravel(), I32(n), I32(depth))
    return launch("tensor_mma.cu", "mma_float", (n // 8, m // 16), 32, args, {0: want.ravel()}, min_arch=80)


def mma_half(size: Size, rng: np.random.Generator) -> Case:
    """B is stored by columns: one row of 16 halves per column."""
    grid = pick(size, 3, 1000)
    a, b, c = _whole(rng, grid, 16, 16), _whole(rng, grid, 8, 16), _whole(rng, grid, 16, 8)
    want = (c.astype(F64) + a.astype(F64) @ b.astype(F64).transpose(0, 2, 1)).astype(F16)
    words = [x.ravel().view(U32) for x in (np.zeros_like(c), a, b, c)]
    return launch("tensor_mma.cu", "mma_half", grid, 32, words, {0: want.ravel().view(U32)}, min_arch=80)


def ldmatrix_layout(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 2, 1000)
    matrices = rng.integers(0, 2**16, (grid, 4, 8, 8)).astype(np.uint16)
    both = np.stack([matrices, matrices.transpose(0, 1, 3, 2)], axis=1)
    src = matrices.ravel().view(U32)
    want = np.ascontiguousarray(both).ravel().view(U32)
    args = (np.zeros(want.size, U32), src)
    return launch("tensor_mma.cu", "ldmatrix_layout", grid, 32, args, {0: want}, min_arch=80)


def mma_volta(size: Size, rng: np.random.Generator) -> Case:
    """Four 8x8x4 products per warp; B has one row of 4 halves per column."""
    grid = pick(size, 2, 1000)
    a, b = _whole(rng, grid * 4, 8, 4), _whole(rng, grid * 4, 8, 4)
    want = (a.astype(F64) @ b.astype(F64).transpose(0, 2, 1)).astype(F32).ravel()
    args = (np.zeros(want.size, F32), a.ravel().view(U32), b.ravel().view(U32))
    return launch("tensor_volta.cu", "mma_volta", grid, 32, args, {0: want})


CASES = (
    async_reverse,
    async_double_buffer,
    async_zero_fill,
    wmma_float,
    wmma_half,
    wmma_tiled,
    mma_float,
    mma_half,
    ldmatrix_layout,
    mma_volta,
)
