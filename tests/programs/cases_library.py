"""libcu++ (atomics, containers, complex numbers, barriers, pipelines) and CUB's warp and block collectives."""

from __future__ import annotations

import numpy as np

from tests.kernels.case import Case, Size
from tests.programs.build import F32, I32, U8, U32, U64, probe


def scoped_atomics(size: Size, rng: np.random.Generator) -> Case:
    n = 80
    i = np.arange(n)
    values = np.zeros(12, I32)
    values[0], values[8], values[9], values[11] = i.sum(), n, 7, 9
    values[1], values[2] = (i[:48] * 3 % 101).max(), (i[48:] * 3 % 101).max()
    values[10] = np.bitwise_xor.reduce(i)
    wide = np.array([2**64 - 1, 3 * n], U64)
    args = (np.zeros(12, I32), np.zeros(2, U64), np.zeros(1, F32), np.zeros(n, I32), I32(n))
    want = {0: values, 1: wide, 2: np.array([n / 2], F32), 3: np.ones(n, I32)}
    return probe("libcupp.cu", "scoped_atomics", 2, 48, args, want)


def message_passing(size: Size, rng: np.random.Generator) -> Case:
    want = 42 + np.arange(3, dtype=I32)
    return probe(
        "libcupp.cu", "message_passing", 3, 64, (np.zeros(3, I32), np.zeros(3, I32), I32(3)), {0: want * 2, 1: want}
    )


def containers(size: Size, rng: np.random.Generator) -> Case:
    n = 48
    return probe("libcupp.cu", "containers", 2, 32, (np.zeros(n, F32), rng.integers(0, 30, n, dtype=I32), I32(n)))


def complex_numbers(size: Size, rng: np.random.Generator) -> Case:
    n = 32
    args = (np.zeros(6 * n, F32), np.zeros(2 * n), rng.standard_normal(2 * n, F32), I32(n))
    return probe("libcupp.cu", "complex_numbers", 1, 32, args, rtol=2e-6, atol=2e-6)


def block_barrier(size: Size, rng: np.random.Generator) -> Case:
    src, rounds = rng.integers(0, 1000, 128, dtype=I32), 4
    value = src.reshape(2, 64).astype(np.int64)
    for k in range(rounds):
        value = ((value * 3 + k) & 0xFFFFFFFF) ^ np.roll(value, -(k + 1), axis=1)
    want = value.astype(U32).view(I32).ravel()
    return probe("libcupp_barrier.cu", "block_barrier", 2, 64, (np.zeros(128, I32), src, I32(rounds)), {0: want})


def barrier_copy(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 1000, 256, dtype=I32)
    t = np.arange(64)
    want = (src.reshape(2, 128)[:, 127 - t] + src.reshape(2, 128)[:, t ^ 1]).ravel()
    return probe("libcupp_barrier.cu", "barrier_copy", 2, 64, (np.zeros(128, I32), src), {0: want})


def staged_pipeline(size: Size, rng: np.random.Generator) -> Case:
    tiles = 5
    src = rng.integers(0, 1000, 2 * tiles * 64, dtype=I32)
    want = np.zeros((2, 64), I32)
    for k in range(tiles):
        want = want * 5 + np.roll(src.reshape(2, tiles, 64)[:, k], -k, axis=1)
    return probe(
        "libcupp_barrier.cu", "staged_pipeline", 2, 64, (np.zeros(128, I32), src, I32(tiles)), {0: want.ravel()}
    )


def thread_pipeline(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(-1000, 1000, 256, dtype=I32)
    a, b = src.reshape(2, 32, 4)
    want = np.stack([a[:, 0] + b[:, 3], a[:, 1] - b[:, 2], a[:, 2] * b[:, 1], a[:, 3] ^ b[:, 0]], axis=1)
    return probe("libcupp_barrier.cu", "thread_pipeline", 1, 32, (np.zeros(128, I32), src), {0: want.ravel()})


def cub_warps(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(-50, 50, 128, dtype=I32)
    rows = src.reshape(4, 32)
    want = np.full((4, 4, 32), -1, I32)
    want[0, :, 0] = rows.sum(axis=1)
    want[1] = np.maximum.accumulate(rows, axis=1)
    want[2] = np.cumsum(rows, axis=1) - rows
    heads = rows % 5 == 0
    want[3] = 0
    for w in range(4):
        starts = np.flatnonzero(heads[w])
        for start, end in zip(starts, [*starts[1:], 32], strict=True):
            want[3, w, start] = rows[w, start:end].sum()
    return probe("cub_blocks.cu", "cub_warps", 1, 128, (np.zeros(512, I32), src), {0: want.ravel()})


def cub_reduce_scan(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(-20, 30, 512, dtype=I32)
    rows = src.reshape(2, 256)
    sums = np.cumsum(rows, axis=1)
    scanned = np.maximum.accumulate(np.concatenate([np.full((2, 1), -5), sums[:, :-1]], axis=1), axis=1).astype(I32)
    total = (scanned.reshape(2, 64, 4)[:, :, 2] * 0.5).sum(axis=1) + sums[:, -1]
    args = (np.zeros(512, I32), np.zeros(2, F32), src)
    return probe("cub_blocks.cu", "cub_reduce_scan", 2, 64, args, {0: scanned.ravel(), 1: total.astype(F32)})


def cub_sorts(size: Size, rng: np.random.Generator) -> Case:
    keys, reals = rng.integers(0, 2**32, 192, dtype=U32), rng.standard_normal(192, F32)
    keys[::7] = 12345
    order = np.argsort(keys, kind="stable").astype(I32)
    want = {0: keys[order], 1: order, 2: np.sort(reals)[::-1]}
    return probe("cub_blocks.cu", "cub_sorts", 1, 64, (keys, np.zeros(192, I32), reals), want)


def cub_merge_histogram(size: Size, rng: np.random.Generator) -> Case:
    keys, samples = rng.integers(0, 1000, 256, dtype=I32), rng.integers(0, 256, 256, dtype=U8)
    ordered = keys[np.argsort(keys % 100, kind="stable")]
    heads = np.append(1, ordered[1:] != ordered[:-1]).astype(I32)
    bins = np.bincount(samples & 31, minlength=32).astype(U32) * 2
    args = (keys, np.zeros(32, U32), np.zeros(256, I32), samples)
    return probe("cub_blocks.cu", "cub_merge_histogram", 1, 64, args, {0: ordered, 1: bins, 2: heads})


CASES = (
    *(scoped_atomics, message_passing, containers, complex_numbers),
    *(block_barrier, barrier_copy, staged_pipeline, thread_pipeline),
    *(cub_warps, cub_reduce_scan, cub_sorts, cub_merge_histogram),
)
