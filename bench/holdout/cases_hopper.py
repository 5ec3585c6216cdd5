"""Tensor cores, clusters, bulk copies, collective primitives; graphs and pictures that blocks change together."""

from __future__ import annotations

import numpy as np

from bench.holdout.case import Array, Case, Outputs, Sized, launch, sized

I8, I32, I64, F16, F32, F64 = np.int8, np.int32, np.int64, np.float16, np.float32, np.float64
U8, U16, U32, U64 = np.uint8, np.uint16, np.uint32, np.uint64
Rng = np.random.Generator


def flash_attention(rng: Rng, heads: int, length: int) -> Case:
    q, k, v = (rng.standard_normal((heads, length, 64), F32).astype(F16) for _ in range(3))
    dots = q.astype(F32) @ k.astype(F32).transpose(0, 2, 1) / 8
    dots = np.where(np.tri(length, dtype=bool), dots, -np.inf)
    e = np.exp(dots - dots.max(axis=-1, keepdims=True))
    want = (e / e.sum(axis=-1, keepdims=True)) @ v.astype(F32)
    args = (np.zeros(q.size, F16), q.ravel(), k.ravel(), v.ravel(), I32(length))
    return launch(
        "tensors", "flash_attention", (length // 64, heads), 128, args, {0: want.astype(F16).ravel()},
        rtol=1e-2, atol=5e-3,
    )  # fmt: skip


def product_bytes(rng: Rng, m: int, n: int, depth: int) -> Case:
    a, b = rng.integers(-128, 128, (m, depth), dtype=I8), rng.integers(-128, 128, (n, depth), dtype=I8)
    want = (a.astype(F64) @ b.astype(F64).T).astype(I32)
    args = (np.zeros(m * n, I32), a.view(U32).ravel(), b.view(U32).ravel(), I32(n), I32(depth // 4))
    return launch("tensors", "product_bytes", (n // 64, m // 64), 128, args, {0: want.ravel()})


def product_doubles(rng: Rng, n: int, depth: int) -> Case:
    a, b = rng.standard_normal((n, depth)), rng.standard_normal((depth, n))
    args = (np.zeros(n * n), a.ravel(), b.ravel(), I32(n), I32(depth))
    return launch(
        "tensors", "product_doubles", (n // 32, n // 32), 128, args, {0: (a @ b).ravel()}, rtol=1e-10, atol=1e-10
    )


def bulk_axpy(rng: Rng, tiles: int, grid: int) -> Case:
    x, y = rng.integers(-50, 50, (2, tiles * 1024)).astype(F32)
    return launch("hopper", "bulk_axpy", grid, 256, (y.copy(), x, F32(3), I32(tiles)), {0: 3 * x + y})


def cluster_histogram(rng: Rng, n: int, grid: int) -> Case:
    keys = np.minimum(rng.exponential(300, n), 2047).astype(U16)
    want = np.bincount(keys, minlength=2048).astype(U32)
    return launch("hopper", "cluster_histogram", grid, 256, (np.zeros(2048, U32), keys, I32(n)), {0: want})


def cluster_softmax(rng: Rng, rows: int) -> Case:
    x = rng.standard_normal((rows, 16384), F32)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    want = (e / e.sum(axis=1, keepdims=True)).ravel()
    return launch(
        "hopper", "cluster_softmax", rows * 8, 256, (np.zeros(x.size, F32), x.ravel()), {0: want}, rtol=1e-4, atol=1e-9
    )


def split_jobs(rng: Rng, blocks: int, columns: int) -> Case:
    a, x = rng.standard_normal((blocks * 24, columns), F32), rng.standard_normal(columns, F32)
    args = (np.zeros(blocks * 24, F32), a.ravel(), x, I32(columns))
    return launch("hopper", "split_jobs", blocks, 128, args, {0: a @ x}, rtol=1e-3, atol=1e-3)


def cores(x: Array) -> Array:
    """Tiles of 64 by 64 with eight rows of 16 bytes together, as warpgroup products want them: [row tile][column tile]."""
    m, k = x.shape
    return np.ascontiguousarray(x.reshape(m // 64, 8, 8, k // 64, 8, 8).transpose(0, 3, 1, 4, 2, 5)).ravel()


def warpgroup_product(rng: Rng, m: int, n: int, depth: int) -> Case:
    a, b = rng.standard_normal((m, depth), F32).astype(F16), rng.standard_normal((n, depth), F32).astype(F16)
    want = a.astype(F32) @ b.astype(F32).T
    args = (np.zeros(m * n, F32), cores(a), cores(b), I32(n), I32(depth))
    return launch("hopper", "warpgroup_product", (n // 64, m // 64), 128, args, {0: want.ravel()}, rtol=1e-3, atol=1e-2)


def sort_tiles(rng: Rng, tiles: int) -> Case:
    keys = rng.integers(0, 1 << 20, (tiles, 1024), dtype=U32)
    values = rng.integers(0, 1 << 32, (tiles, 1024), dtype=U32)
    order = np.argsort(keys, axis=1, kind="stable")
    expected = {k: np.take_along_axis(v, order, axis=1).ravel() for k, v in enumerate((keys, values))}
    return launch("primitives", "sort_tiles", tiles, 128, (keys.ravel(), values.ravel()), expected)


def run_lengths(rng: Rng, tiles: int) -> Case:
    src = np.repeat(rng.integers(0, 9, tiles * 1024, dtype=I32), rng.integers(1, 12, tiles * 1024))
    src = src[: tiles * 1024].reshape(tiles, 1024)
    runs, lengths = np.zeros((tiles, 1025), I32), np.zeros((tiles, 1024), I32)
    for tile, values in enumerate(src):
        starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
        runs[tile, 0], runs[tile, 1 : starts.size + 1] = starts.size, values[starts]
        lengths[tile, : starts.size] = np.diff(np.append(starts, 1024))
    args = (np.zeros(runs.size, I32), np.zeros(lengths.size, I32), src.ravel())
    return launch("primitives", "run_lengths", tiles, 256, args, {0: runs.ravel(), 1: lengths.ravel()})


def join_trees(rng: Rng, nodes: int, edges: int) -> Case:
    pairs = rng.integers(0, nodes, (edges, 2), dtype=I32)
    near = rng.random(edges) < 0.7
    pairs[near, 1] = np.minimum(pairs[near, 0] + rng.integers(1, 5, int(near.sum())), nodes - 1)
    label = np.arange(nodes)
    while True:
        least = np.minimum(label[pairs[:, 0]], label[pairs[:, 1]])
        after = label.copy()
        np.minimum.at(after, label[pairs[:, 0]], least)
        np.minimum.at(after, label[pairs[:, 1]], least)
        after = after[after]
        if np.array_equal(after, label):
            break
        label = after

    def check(outputs: Outputs) -> None:
        """Trees take any shape; their roots are each component's least node."""
        roots = np.asarray(outputs[0])
        for _ in range(64):
            roots = roots[roots]
        np.testing.assert_array_equal(roots, label)

    args = (np.arange(nodes, dtype=I32), pairs.ravel(), I32(edges))
    return launch("graphs", "join_trees", -(-edges // 256), 256, args, check=check)


def push_ranks(rng: Rng, nodes: int, mean: int) -> Case:
    lengths = np.minimum((mean / 3 * (1 + rng.pareto(1.4, nodes))).astype(int), 60 * mean)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(I32)
    targets = np.minimum(rng.zipf(1.4, int(starts[-1])) - 1, nodes - 1).astype(I32)
    targets = rng.permutation(nodes).astype(I32)[targets]
    rank = rng.integers(1 << 30, 1 << 40, nodes, dtype=U64)
    want = np.zeros(nodes, U64)
    np.add.at(want, targets, np.repeat(rank // np.maximum(lengths, 1).astype(U64), lengths))
    args = (np.zeros(nodes, U64), rank, starts, targets, I32(nodes))
    return launch("graphs", "push_ranks", -(-nodes // 8), 256, args, {0: want})


def solve_triangle(rng: Rng, n: int, most: int) -> Case:
    rows = []
    for row in range(n):
        count = min(row, int(rng.integers(0, most + 1)))
        back = np.minimum(rng.geometric(1 / 600, count), row)
        rows.append(np.unique(row - back) if count else np.zeros(0, I64))
    starts = np.concatenate(([0], np.cumsum([r.size for r in rows]))).astype(I32)
    columns = np.concatenate(rows).astype(I32)
    values, diagonal = rng.standard_normal(columns.size, F32) * F32(0.2), 1 + rng.random(n, F32)
    right, x = rng.standard_normal(n, F32), np.zeros(n)
    for row in range(n):
        at = slice(starts[row], starts[row + 1])
        x[row] = (right[row] - (values[at] * x[columns[at]]).sum()) / diagonal[row]
    args = (np.zeros(n, F32), np.zeros(n, I32), starts, columns, values, right, diagonal, I32(n))
    expected = {0: x.astype(F32), 1: np.ones(n, I32)}
    return launch("graphs", "solve_triangle", -(-n // 4), 128, args, expected, rtol=1e-3, atol=1e-4)


def count_matched(rng: Rng, n: int, bins: int, grid: int) -> Case:
    keys = np.minimum(rng.zipf(1.5, n) - 1, bins - 1).astype(I32)
    want = np.bincount(keys, minlength=bins).astype(U32)
    return launch("graphs", "count_matched", grid, 256, (np.zeros(bins, U32), keys, I32(n)), {0: want})


def draw_points(rng: Rng, n: int, width: int, height: int) -> Case:
    points = rng.standard_normal((n, 4), F32)
    points[:, 2] = 1 + 3 * rng.random(n, F32)
    points[:, 3].view(U32)[:] = np.arange(n)
    exact = points.astype(F64)
    x = np.trunc(exact[:, 0] / exact[:, 2] * width * 0.5 + width * 0.5)
    y = np.trunc(exact[:, 1] / exact[:, 2] * width * 0.5 + height * 0.5)
    inside = (x >= 0) & (y >= 0) & (x < width) & (y < height)
    key = points[:, 2].view(U32).astype(U64) << U64(32) | np.arange(n, dtype=U64)
    want = np.full(width * height, 2**64 - 1, U64)
    np.minimum.at(want, (y * width + x)[inside].astype(I64), key[inside])

    def check(outputs: Outputs) -> None:
        """A point on the edge of two pixels goes where rounding sends it."""
        differ = (np.asarray(outputs[0]) != want).mean()
        assert differ < 1e-3, f"draw_points: {100 * differ:.2f}% of the pixels differ"

    picture = np.full(width * height, 2**64 - 1, U64)
    args = (picture, points.ravel(), I32(n), I32(width), I32(height))
    return launch("graphs", "draw_points", -(-n // 256), 256, args, check=check)


def flood_step(rng: Rng, width: int, height: int, step: int) -> Case:
    src = np.full((height, width), -1, I32)
    seeds = rng.choice(width * height, width * height // 40, replace=False)
    src.ravel()[seeds] = seeds
    y, x = np.mgrid[:height, :width]
    best, who = np.full(src.shape, 1 << 30), np.full(src.shape, -1)
    padded = np.pad(src, step, constant_values=-1)
    for dy in (-step, 0, step):
        for dx in (-step, 0, step):
            seed = padded[step + dy : step + dy + height, step + dx : step + dx + width]
            distance = (seed % width - x) ** 2 + (seed // width - y) ** 2
            closer = (seed >= 0) & (distance < best)
            best, who = np.where(closer, distance, best), np.where(closer, seed, who)
    args = (np.zeros(src.size, I32), src.ravel(), I32(width), I32(height), I32(step))
    grid = (-(-width // 32), -(-height // 8))
    return launch("graphs", "flood_step", grid, (32, 8), args, {0: who.astype(I32).ravel()})


CASES: dict[str, Sized] = {
    "flash_attention": sized(flash_attention, {"heads": 1, "length": 128}, heads=24, length=512),
    "product_bytes": sized(product_bytes, {"m": 64, "n": 64, "depth": 64}, m=1024, n=1024, depth=512),
    "product_doubles": sized(product_doubles, {"n": 32, "depth": 32}, n=512, depth=256),
    "bulk_axpy": sized(bulk_axpy, {"tiles": 7, "grid": 2}, tiles=6000, grid=264),
    "cluster_histogram": sized(cluster_histogram, {"n": 5000, "grid": 4}, n=2000000, grid=264),
    "cluster_softmax": sized(cluster_softmax, {"rows": 1}, rows=200),
    "split_jobs": sized(split_jobs, {"blocks": 1, "columns": 320}, blocks=264, columns=2048),
    "warpgroup_product": sized(warpgroup_product, {"m": 64, "n": 64, "depth": 192}, m=1024, n=1536, depth=512),
    "sort_tiles": sized(sort_tiles, {"tiles": 1}, tiles=600),
    "run_lengths": sized(run_lengths, {"tiles": 2}, tiles=1500),
    "join_trees": sized(join_trees, {"nodes": 300, "edges": 260}, nodes=100000, edges=90000),
    "push_ranks": sized(push_ranks, {"nodes": 60}, nodes=40000, mean=12),
    "solve_triangle": sized(solve_triangle, {"n": 40}, n=6000, most=20),
    "count_matched": sized(count_matched, {"n": 1000, "bins": 50, "grid": 2}, n=1500000, bins=5000, grid=528),
    "draw_points": sized(draw_points, {"n": 700, "width": 32, "height": 24}, n=400000, width=640, height=480),
    "flood_step": sized(flood_step, {"width": 40, "height": 20, "step": 2}, width=1024, height=768, step=4),
}
