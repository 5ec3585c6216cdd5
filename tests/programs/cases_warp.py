"""Shuffles, votes, matches, reductions by the warp, partial masks, and cooperative groups."""

from __future__ import annotations

import numpy as np

from tests.kernels.case import Case, Outputs, Size
from tests.programs.build import F32, F64, I32, I64, U32, U64, probe, words


def shuffle_types(size: Size, rng: np.random.Generator) -> Case:
    n = 64
    lanes = rng.integers(-40, 40, n, dtype=I32)
    args = (*(np.zeros(7 * n, t) for t in (U32, I64, F32, F64, U32)), words(rng, n, 1), lanes, I32(n))
    return probe("shuffles.cu", "shuffle_types", 1, 64, args)


def partial_masks(size: Size, rng: np.random.Generator) -> Case:
    n = 90
    return probe(
        "shuffles.cu", "partial_masks", 2, 48, (np.zeros(n, I32), rng.integers(-200, 200, n, dtype=I32), I32(n))
    )


def match_types(size: Size, rng: np.random.Generator) -> Case:
    n = 64
    wide = rng.integers(-3, 3, n) * (2**61)
    wide[:32] = wide[:32] % 2**40 + 2**62
    real = rng.integers(-2, 3, n).astype(F64) / 3
    real[32:] = 0.25
    return probe("shuffles.cu", "match_types", 2, 32, (np.zeros(5 * n, U32), np.zeros(2 * n, I32), wide, real, I32(n)))


def ragged_sum(size: Size, rng: np.random.Generator) -> Case:
    n, block, grid = 380, 100, 4
    src = rng.integers(-50, 50, n).astype(F32)
    padded = np.concatenate([src, np.zeros(grid * block - n, F32)])
    want = padded.reshape(grid, block).sum(axis=1)
    return probe("shuffles.cu", "ragged_sum", grid, block, (np.zeros(grid, F32), src, I32(n)), {0: want})


def divergent_exit(size: Size, rng: np.random.Generator) -> Case:
    n = 64
    src = rng.integers(0, 30, n, dtype=I32)
    want = np.zeros(2 * n, I32)
    want[:n] = np.where(src <= 21, src * 100, -1)
    for i in range(n):
        steps = range(min(int(src[i]), 21))
        want[n + i] = sum(k for k in steps if not ((k & 3) == 3 and src[i] & 1))
    return probe("shuffles.cu", "divergent_exit", 2, 32, (np.zeros(2 * n, I32), src, I32(n)), {0: want})


def lane_registers(size: Size, rng: np.random.Generator) -> Case:
    grid, block = (2, 3, 2), (5, 4, 3)
    threads = np.arange(60)
    lane = (threads % 32).astype(U32)
    one = (U64(1) << lane.astype(U64)).astype(U64)
    everything = U64(0xFFFFFFFF)
    columns = (
        lane,
        one - U64(1),
        everything & ~(one - U64(1)),
        one,
        one * U64(2) - U64(1),
        everything & ~(one * U64(2) - U64(1)),
    )
    want = np.zeros((12, 60, 8), U32)
    for k, column in enumerate(columns):
        want[:, :, k] = column
    want[:, :, 6] = 80
    want[:, :, 7] = 3000 + threads // 5 % 4 * 100 + threads // 20
    return probe(
        "shuffles.cu", "lane_registers", grid, block, (np.zeros(want.size, U32),), {0: want.ravel()}, shared_bytes=80
    )


def reduce_sync(size: Size, rng: np.random.Generator) -> Case:
    n = 64
    src = words(rng, n, 1)
    rows = src.reshape(2, 32)
    signed = rows.view(I32)
    want = np.zeros((9, 2, 32), U32)
    full = (
        rows.sum(axis=1, dtype=U32),
        *(rows.min(axis=1), rows.max(axis=1), signed.min(axis=1).view(U32), signed.max(axis=1).view(U32)),
        *(np.bitwise_and.reduce(rows | U32(0xFF00FF), axis=1), np.bitwise_or.reduce(rows & U32(0xFF0F), axis=1)),
        np.bitwise_xor.reduce(rows, axis=1),
    )
    for k, value in enumerate(full):
        want[k] = value[:, None]
    for w in range(2):
        odd = (rows[w] & 1) == 1
        want[8, w, odd] = U32((int(rows[w, odd].sum()) + int(signed[w, odd].max())) & 0xFFFFFFFF)
        want[8, w, ~odd] = np.bitwise_xor.reduce(rows[w, ~odd])
    return probe("reduces.cu", "reduce_sync", 2, 32, (np.zeros(9 * n, U32), src, I32(n)), {0: want.ravel()})


def tiles_of_all_sizes(size: Size, rng: np.random.Generator) -> Case:
    n = 64
    args = (np.zeros(6 * n, I32), rng.integers(-9, 20, n, dtype=I32), I32(n))
    return probe("groups_more.cu", "tiles_of_all_sizes", 1, 64, args)


def partitions(size: Size, rng: np.random.Generator) -> Case:
    n = 64
    args = (np.zeros(4 * n, I32), rng.integers(0, 100, n, dtype=I32), I32(n))
    return probe("groups_more.cu", "partitions", 2, 32, args)


def float_reductions(size: Size, rng: np.random.Generator) -> Case:
    n = 64
    src = rng.integers(-20, 20, n).astype(F32)
    return probe("groups_more.cu", "float_reductions", 2, 32, (np.zeros(3 * n, F32), np.zeros(n, F64), src, I32(n)))


def block_tile(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 9, 256, dtype=I32)
    rows = src.reshape(4, 64)
    want = rows.sum(axis=1) + rows[:, 5] + 7 * (rows == 3).any(axis=1)
    return probe(
        "groups_more.cu", "block_tile", 2, 128, (np.zeros(256, I32), src), {0: np.repeat(want, 64).astype(I32)}
    )


def grid_rank(size: Size, rng: np.random.Generator) -> Case:
    block = np.arange(6)[:, None]
    thread = np.arange(24)
    want = (6 * 24 * 1000 + thread + 7 * (thread // 4 % 3) + block * 100000 + 1).astype(U64)
    return probe("groups_more.cu", "grid_rank", (3, 2), (4, 3, 2), (np.zeros(144, U64),), {0: want.ravel()})


def group_copy(size: Size, rng: np.random.Generator) -> Case:
    per_block = 100
    src = rng.integers(0, 1000, 200, dtype=I32)

    def right(outputs: Outputs) -> None:
        got, twice = outputs[0].reshape(2, per_block), src.reshape(2, per_block)[:, ::-1] * 2
        np.testing.assert_array_equal(got[:, 32:], twice[:, 32:])
        extra = np.concatenate([src[0:16], src[32:48]])
        np.testing.assert_array_equal(got[:, :32], twice[:, :32] + extra)

    args = (np.zeros(200, I32), src, I32(per_block))
    return probe("groups_async.cu", "group_copy", 2, 64, args, check=right, shared_bytes=4 * per_block)


def split_barrier(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 1000, 192, dtype=I32)
    want = src * 3 + np.roll(src.reshape(2, 96), -40, axis=1).ravel()
    return probe("groups_async.cu", "split_barrier", 2, 96, (np.zeros(192, I32), src), {0: want})


CASES = (
    *(shuffle_types, partial_masks, match_types, ragged_sum, divergent_exit, lane_registers, reduce_sync),
    *(tiles_of_all_sizes, partitions, float_reductions, block_tile, grid_rank, group_copy, split_barrier),
)
