"""Kernels that stress one mechanism each: chases, tables, atomics, queues, divergence, pipes."""

from __future__ import annotations

from functools import partial

import numpy as np

from bench.validation.case import Builder, Case, launch

I32, F16, F32, F64, U32, U64, U8 = np.int32, np.float16, np.float32, np.float64, np.uint32, np.uint64, np.uint8
Rng = np.random.Generator


def do_nothing(rng: Rng, grid: int) -> Case:
    return launch("mechanisms", "do_nothing", grid, 128, ())


def tiny_blocks(rng: Rng, grid: int) -> Case:
    want = np.repeat(np.arange(grid, dtype=I32), 32)
    return launch("mechanisms", "tiny_blocks", grid, 32, (np.zeros(grid * 32, I32),), {0: want})


def chase_lists(rng: Rng, grid: int, threads: int, entries: int, steps: int) -> Case:
    follow = rng.permutation(entries).astype(I32)
    at = np.arange(grid * threads)
    for _ in range(steps):
        at = follow[at]
    args = (np.zeros(at.size, I32), follow, I32(steps))
    return launch("mechanisms", "chase_lists", grid, threads, args, {0: at.astype(I32)})


def constant_lookup(rng: Rng, n: int, rounds: int, spread: int) -> Case:
    table = rng.integers(0, 1 << 20, 1024, dtype=I32)
    v = src = np.repeat(rng.integers(0, 1 << 20, -(-n // spread), dtype=I32), spread)[:n]
    for r in range(rounds):
        v = table[v & 1023] + I32(r)
    args = (np.zeros(n, I32), src, I32(n), I32(rounds))
    return launch(
        "mechanisms", "constant_lookup", -(-n // 256), 256, args, {0: v}, device_globals={"small_table": table}
    )


def shared_lookup(rng: Rng, grid: int, rounds: int) -> Case:
    table, src = rng.integers(0, 1 << 20, 2048, dtype=I32), rng.integers(0, 1 << 20, grid * 256, dtype=I32)
    v = src
    for r in range(rounds):
        v = table[(v + r) & 2047]
    args = (np.zeros(src.size, I32), src, table, I32(rounds))
    return launch("mechanisms", "shared_lookup", grid, 256, args, {0: v})


def local_counts(rng: Rng, grid: int, each: int) -> Case:
    src = rng.integers(0, 256, (each, grid * 128), dtype=U8)
    counts = np.array([(src & 15 == k).sum(axis=0) for k in range(16)])
    best = counts.argmax(axis=0)
    want = (best * 1000 + counts.max(axis=0)).astype(I32)
    args = (np.zeros(grid * 128, I32), src.ravel(), I32(each))
    return launch("mechanisms", "local_counts", grid, 128, args, {0: want})


def draw_tiles(rng: Rng, tiles: int, grid: int) -> Case:
    work = np.minimum(200, rng.exponential(20, tiles)).astype(I32)
    v = np.arange(tiles * 256, dtype=U32).reshape(tiles, 256)
    for r in range(int(work.max())):
        v = np.where((work > r)[:, None], v * U32(1664525) + U32(1013904223), v)
    args = (np.zeros(v.size, I32), np.zeros(1, I32), work, I32(tiles))
    return launch("mechanisms", "draw_tiles", grid, 256, args, {0: v.view(I32).ravel()})


def add_to_one(rng: Rng, grid: int, each: int) -> Case:
    want = np.array([grid * each * sum(range(128))], I32)
    return launch("mechanisms", "add_to_one", grid, 128, (np.zeros(1, I32), I32(each)), {0: want})


def add_to_bins(rng: Rng, n: int, bins: int) -> Case:
    at = rng.integers(0, bins, n, dtype=I32)
    want = np.bincount(at, minlength=bins).astype(F32)
    return launch("mechanisms", "add_to_bins", -(-n // 256), 256, (np.zeros(bins, F32), at, I32(n)), {0: want})


def minimum_double(rng: Rng, n: int) -> Case:
    src = 1000 * rng.random(n)
    args = (np.array([1e300]).view(U64), src, I32(n))
    return launch("mechanisms", "minimum_double", -(-n // 256), 256, args, {0: np.array([src.min()]).view(U64)})


def shared_counters(rng: Rng, grid: int, spread: int, each: int) -> Case:
    t = np.arange(256)
    one = sum(np.bincount((t * spread + k) & 255, minlength=256) for k in range(each))
    args = (np.zeros(grid * 256, I32), I32(spread), I32(each))
    return launch("mechanisms", "shared_counters", grid, 256, args, {0: np.tile(one, grid).astype(I32)})


def async_stages(rng: Rng, grid: int, tiles: int) -> Case:
    src = rng.integers(-8, 8, (grid, tiles, 128, 4)).astype(F32)
    want = src[:, :, ::-1].sum(axis=(1, 3)).astype(F32).ravel()
    args = (np.zeros(grid * 128, F32), src.ravel(), I32(tiles))
    return launch("mechanisms", "async_stages", grid, 128, args, {0: want})


def switch_lanes(rng: Rng, n: int, rounds: int) -> Case:
    v = src = rng.integers(0, 1 << 20, n, dtype=I32)
    with np.errstate(over="ignore"):
        for _ in range(rounds):
            third = np.trunc(v / 3).astype(I32) + I32(11)
            v = np.choose(v & 3, (v * I32(5) + I32(1), (v ^ (v >> 3)) + I32(7), v * v + I32(3), third))
    return launch("mechanisms", "switch_lanes", -(-n // 128), 128, (np.zeros(n, I32), src, I32(n), I32(rounds)), {0: v})


def uneven_loops(rng: Rng, n: int, most: int) -> Case:
    rounds = rng.integers(0, most, n, dtype=I32)
    v = np.arange(n, dtype=U32)
    for r in range(most):
        v = np.where(rounds > r, v * U32(1664525) + (v >> U32(7)), v)
    return launch("mechanisms", "uneven_loops", -(-n // 256), 256, (np.zeros(n, U32), rounds, I32(n)), {0: v})


def fma_chain(rng: Rng, grid: int, threads: int, rounds: int) -> Case:
    v = np.arange(threads) * 1e-3
    for _ in range(rounds):
        v = v * 0.999 + 0.001
    args = (np.zeros(grid * threads, F32), I32(rounds))
    return launch("mechanisms", "fma_chain", grid, threads, args, {0: np.tile(v, grid).astype(F32)}, rtol=1e-3)


def fma_wide(rng: Rng, grid: int, threads: int, rounds: int) -> Case:
    v = np.arange(threads)[None] * 1e-3 + np.arange(8)[:, None]
    for _ in range(rounds):
        v = v * 0.999 + 0.001
    args = (np.zeros(grid * threads, F32), I32(rounds))
    return launch(
        "mechanisms", "fma_wide", grid, threads, args, {0: np.tile(v.sum(axis=0), grid).astype(F32)}, rtol=1e-3
    )


def horner_double(rng: Rng, n: int, terms: int) -> Case:
    x = rng.random(n)
    v = np.ones(n)
    for k in range(terms, 0, -1):
        v = v * x + 1.0 / k
    return launch("mechanisms", "horner_double", -(-n // 128), 128, (x.copy(), I32(n), I32(terms)), {0: v}, rtol=1e-12)


def special_mix(rng: Rng, n: int) -> Case:
    src = rng.random(n, F32)
    f = src.astype(F64)
    want = sum(np.sin(f * k) + np.exp(-f * k) + 1 / np.sqrt(f + k) for k in range(1, 17))
    args = (np.zeros(n, F32), src, I32(n))
    return launch(
        "mechanisms", "special_mix", -(-n // 256), 256, args, {0: np.asarray(want, F32)}, rtol=1e-4, atol=1e-4
    )


def horner_half(rng: Rng, n: int, terms: int) -> Case:
    x = (0.5 * rng.random(2 * n)).astype(F16)
    v = np.full(2 * n, 0.5, F16)
    for _ in range(terms):
        v = (v.astype(F64) * x.astype(F64) + 0.25).astype(F16)
    return launch("mechanisms", "horner_half", -(-n // 256), 256, (x.copy(), I32(n), I32(terms)), {0: v}, rtol=1e-3)


def remainders(rng: Rng, n: int) -> Case:
    a, b = rng.integers(0, 1 << 63, n).astype(U64), rng.integers(1, 1 << 32, n, dtype=U32)
    want = a % b + (a.astype(U32) // b)
    return launch("mechanisms", "remainders", -(-n // 128), 128, (np.zeros(n, U64), a, b, I32(n)), {0: want})


def long_bodies(rng: Rng, grid: int, rounds: int) -> Case:
    threads = grid * 128
    src = rng.standard_normal((32, threads), F32)
    v = src.astype(F64)
    for _ in range(rounds):
        for d in (16, 8, 4, 2, 1):
            fresh = np.empty_like(v)
            for k in range(32):
                if not k & d:
                    fresh[k], fresh[k + d] = 0.7 * (v[k] + v[k + d]), 0.7 * (v[k] - v[k + d])
            v = fresh
    want = (v * np.arange(1, 33)[:, None]).sum(axis=0).astype(F32)
    args = (np.zeros(threads, F32), src.ravel(), I32(rounds))
    return launch("mechanisms", "long_bodies", grid, 128, args, {0: want}, rtol=1e-3, atol=1e-2)


CASES: dict[str, Builder] = {
    "nothing_one_block": partial(do_nothing, grid=1),
    "nothing_20000_blocks": partial(do_nothing, grid=20_000),
    "tiny_blocks": partial(tiny_blocks, grid=12_000),
    "chase_one_warp": partial(chase_lists, grid=1, threads=32, entries=1 << 22, steps=40),
    "chase_l2": partial(chase_lists, grid=264, threads=64, entries=1 << 20, steps=24),
    "chase_dram": partial(chase_lists, grid=132, threads=32, entries=1 << 25, steps=24),
    "constant_warp": partial(constant_lookup, n=150_000, rounds=32, spread=32),
    "constant_lanes": partial(constant_lookup, n=30_000, rounds=16, spread=1),
    "shared_lookup": partial(shared_lookup, grid=264, rounds=64),
    "local_counts": partial(local_counts, grid=132, each=48),
    "draw_tiles": partial(draw_tiles, tiles=2000, grid=396),
    "add_to_one": partial(add_to_one, grid=264, each=8),
    "add_to_bins": partial(add_to_bins, n=400_000, bins=4096),
    "minimum_double": partial(minimum_double, n=300_000),
    "shared_counters_apart": partial(shared_counters, grid=264, spread=1, each=48),
    "shared_counters_same": partial(shared_counters, grid=132, spread=0, each=24),
    "async_stages": partial(async_stages, grid=396, tiles=32),
    "switch_lanes": partial(switch_lanes, n=60_000, rounds=12),
    "uneven_loops": partial(uneven_loops, n=200_000, most=64),
    "fma_chain": partial(fma_chain, grid=132, threads=128, rounds=1024),
    "fma_wide": partial(fma_wide, grid=264, threads=256, rounds=96),
    "horner_double": partial(horner_double, n=80_000, terms=32),
    "special_mix": partial(special_mix, n=150_000),
    "horner_half": partial(horner_half, n=500_000, terms=64),
    "remainders": partial(remainders, n=60_000),
    "long_bodies": partial(long_bodies, grid=264, rounds=4),
    "long_bodies_one_block": partial(long_bodies, grid=1, rounds=12),
}
