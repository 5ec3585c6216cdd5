"""Cases of memory streams, access patterns, reductions, scans and shared-memory tiles."""

from __future__ import annotations

import numpy as np

from tests.kernels.case import Case, Size, launch, pick

I32, F32, F64, U32, U64 = np.int32, np.float32, np.float64, np.uint32, np.uint64


def stream_copy(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 1000, 4_000_000)
    src = rng.standard_normal(n, dtype=F32)
    grid = -(-n // 256)
    return launch("streams.cu", "stream_copy", grid, 256, (np.zeros_like(src), src, I32(n)), {0: src})


def stream_copy_vec4(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 500, 1_500_000)
    src = rng.standard_normal(4 * n, dtype=F32)
    return launch("streams.cu", "stream_copy_vec4", -(-n // 256), 256, (np.zeros_like(src), src, I32(n)), {0: src})


def stream_scale(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 700, 3_000_000)
    src = rng.standard_normal(n)
    args = (np.zeros_like(src), src, F64(1.7), I32(n))
    return launch("streams.cu", "stream_scale", -(-n // 128), 128, args, {0: src * 1.7})


def stream_triad(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 3000, 4_000_000)
    b, c = rng.standard_normal((2, n), dtype=F32)
    want = b.astype(F64) + F64(F32(3.1)) * c
    args = (np.zeros(n, F32), b.copy(), c.copy(), F32(3.1), I32(n))
    grid = pick(size, 4, 1056)
    return launch("streams.cu", "stream_triad", grid, 256, args, {0: want.astype(F32)}, rtol=1e-6, atol=5e-7)


def strided_read(size: Size, rng: np.random.Generator) -> Case:
    n, stride = pick(size, 600, 400_000), 9
    src = rng.integers(-(2**31), 2**31 - 1, n * stride, dtype=I32)
    args = (np.zeros(n, I32), src, I32(n), I32(stride))
    return launch("access.cu", "strided_read", -(-n // 192), 192, args, {0: src[::stride] + I32(1)})


def gather(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 800, 1_000_000)
    src = rng.standard_normal(2 * n, dtype=F32)
    index = rng.integers(0, 2 * n, n, dtype=I32)
    return launch("access.cu", "gather", -(-n // 256), 256, (np.zeros(n, F32), src, index, I32(n)), {0: src[index]})


def scatter(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 800, 1_000_000)
    src = rng.standard_normal(n, dtype=F32)
    index = rng.permutation(2 * n)[:n].astype(I32)
    want = np.full(2 * n, -1, F32)
    want[index] = src
    args = (np.full(2 * n, -1, F32), src, index, I32(n))
    return launch("access.cu", "scatter", -(-n // 256), 256, args, {0: want})


def narrow_widths(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 500, 1_000_000)
    src = rng.integers(-128, 128, n, dtype=np.int8)
    wide = src.astype(np.int64)
    args = (np.zeros(n, np.uint8), np.zeros(n, np.int16), np.zeros(n, np.int64), src, I32(n))
    want = {0: ((wide + 200) % 256).astype(np.uint8), 1: (wide * 300).astype(np.int16), 2: wide * 2**33}
    return launch("access.cu", "narrow_widths", -(-n // 128), 128, args, want)


def reduce_sum(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 3001, 8_000_000)
    src = rng.integers(-1000, 1000, n, dtype=I32)
    want = np.array([7 + src.sum(dtype=np.int64)], np.int64).astype(I32)
    args = (np.array([7], I32), src, I32(n))
    return launch("reduce.cu", "reduce_sum", pick(size, 3, 528), 256, args, {0: want})


def reduce_max_shared(size: Size, rng: np.random.Generator) -> Case:
    n, grid = pick(size, 1500, 4_000_000), pick(size, 3, 528)
    src = rng.standard_normal(n, dtype=F32)
    owner = (np.arange(n) // 128) % grid
    want = np.array([src[owner == b].max() for b in range(grid)], F32)
    args = (np.zeros(grid, F32), src, I32(n))
    return launch("reduce.cu", "reduce_max_shared", grid, 128, args, {0: want}, shared_bytes=512)


def reduce_last_block(size: Size, rng: np.random.Generator) -> Case:
    n, grid = pick(size, 1200, 4_000_000), pick(size, 5, 528)
    src = rng.integers(0, 2**32, n, dtype=U32)
    owner = (np.arange(n) // 128) % grid
    partial = np.zeros(grid, U64)
    np.add.at(partial, owner, src.astype(U64))
    args = (np.zeros(1, U64), np.zeros(grid, U64), np.zeros(1, U32), src, I32(n))
    want = {0: np.array([src.sum(dtype=U64)], U64), 1: partial, 2: np.zeros(1, U32)}
    return launch("reduce.cu", "reduce_last_block", grid, 128, args, want)


def reduce_xor_butterfly(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 3, 2000)
    src = rng.integers(0, 2**32, grid * 128, dtype=U32)
    lanes = np.arange(32)
    value = src.reshape(-1, 32).copy()
    for bit in range(5):
        value = value ^ (value[:, lanes ^ (1 << bit)] * U32(3))
    return launch("reduce.cu", "reduce_xor_butterfly", grid, 128, (np.zeros_like(src), src), {0: value.ravel()})


def reduce_min_double(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 4, 2000)
    src = rng.standard_normal(grid * 64)
    want = src.reshape(-1, 16).min(axis=1)
    return launch("reduce.cu", "reduce_min_double", grid, 64, (np.zeros_like(want), src), {0: want})


def scan_warp_inclusive(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 3, 2000)
    src = rng.integers(-100, 100, grid * 128, dtype=I32)
    want = np.cumsum(src.reshape(-1, 32), axis=1, dtype=I32).ravel()
    return launch("scan.cu", "scan_warp_inclusive", grid, 128, (np.zeros_like(src), src), {0: want})


def scan_block_exclusive(size: Size, rng: np.random.Generator) -> Case:
    grid, threads = pick(size, 2, 1000), pick(size, 64, 128)
    src = rng.integers(-100, 100, (grid, 2 * threads), dtype=I32)
    inclusive = np.cumsum(src, axis=1, dtype=I32)
    args = (np.zeros(src.size, I32), np.zeros(grid, I32), src.ravel())
    want = {0: (inclusive - src).ravel(), 1: inclusive[:, -1].copy()}
    return launch("scan.cu", "scan_block_exclusive", grid, threads, args, want, shared_bytes=8 * threads)


def compact_positive(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 3, 1000)
    src = rng.integers(-50, 50, (grid, 256), dtype=I32)
    want = np.zeros_like(src)
    for row, values in zip(want, src, strict=True):
        kept = values[values > 0]
        row[: kept.size] = kept
    counts = (src > 0).sum(axis=1).astype(I32)
    args = (np.zeros(src.size, I32), np.zeros(grid, I32), src.ravel())
    return launch("scan.cu", "compact_positive", grid, 256, args, {0: want.ravel(), 1: counts})


def transpose_padded(size: Size, rng: np.random.Generator) -> Case:
    width, height = (70, 45) if size == "small" else (2000, 1500)
    src = rng.standard_normal((height, width), dtype=F32)
    grid = (-(-width // 32), -(-height // 32))
    args = (np.zeros(src.size, F32), src.ravel(), I32(width), I32(height))
    return launch("tiles.cu", "transpose_padded", grid, (32, 8), args, {0: src.T.ravel()})


def transpose_conflicted(size: Size, rng: np.random.Generator) -> Case:
    width = pick(size, 64, 1536)
    src = rng.standard_normal((width, width), dtype=F32)
    args = (np.zeros(src.size, F32), src.ravel(), I32(width))
    return launch("tiles.cu", "transpose_conflicted", (width // 32,) * 2, (32, 8), args, {0: src.T.ravel()})


def bank_stride(size: Size, rng: np.random.Generator) -> Case:
    grid, rounds, stride = pick(size, 2, 528), pick(size, 12, 100), 8
    src = rng.integers(-1000, 1000, 2048, dtype=I32)
    thread = np.arange(128)
    total = np.zeros(128, I32)
    for r in range(rounds):
        total = total * I32(5) + src[(thread * stride + r) % 2048]
    args = (np.zeros(grid * 128, I32), src, I32(stride), I32(rounds))
    return launch("tiles.cu", "bank_stride", grid, 128, args, {0: np.tile(total, grid)}, shared_bytes=8192)


def _matmul(kernel: str, n: int, rng: np.random.Generator) -> Case:
    a, b = rng.standard_normal((2, n, n), dtype=F32)
    want = (a.astype(F64) @ b.astype(F64)).astype(F32)
    args = (np.zeros(n * n, F32), a.ravel().copy(), b.ravel().copy(), I32(n))
    return launch("tiles.cu", kernel, (n // 16, n // 16), (16, 16), args, {0: want.ravel()}, rtol=1e-5, atol=1e-4)


def matmul_naive(size: Size, rng: np.random.Generator) -> Case:
    return _matmul("matmul_naive", pick(size, 32, 256), rng)


def matmul_tiled(size: Size, rng: np.random.Generator) -> Case:
    return _matmul("matmul_tiled", pick(size, 32, 256), rng)


CASES = (
    stream_copy,
    stream_copy_vec4,
    stream_scale,
    stream_triad,
    strided_read,
    gather,
    scatter,
    narrow_widths,
    reduce_sum,
    reduce_max_shared,
    reduce_last_block,
    reduce_xor_butterfly,
    reduce_min_double,
    scan_warp_inclusive,
    scan_block_exclusive,
    compact_positive,
    transpose_padded,
    transpose_conflicted,
    bank_stride,
    matmul_naive,
    matmul_tiled,
)
