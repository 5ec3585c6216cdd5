"""Sparse matrices, graphs, hash tables, texts and ciphers, clusters and trees: accesses and branches that data decides."""

from __future__ import annotations

import hashlib
from functools import partial

import numpy as np

from bench.validation.case import Array, Builder, Case, Outputs, launch

I32, F32, F64, U32, U8 = np.int32, np.float32, np.float64, np.uint32, np.uint8
Rng = np.random.Generator


def compressed(rng: Rng, nodes: int, mean: int, heavy: bool) -> tuple[Array, Array]:
    """Row starts and columns of a random sparse matrix; ``heavy`` rows follow a power law."""
    if heavy:
        lengths = np.minimum((mean / 3 * (1 + rng.pareto(1.5, nodes))).astype(int), 40 * mean)
    else:
        lengths = rng.integers(mean // 2, mean + mean // 2 + 1, nodes)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(I32)
    return starts, rng.integers(0, nodes, int(starts[-1]), dtype=I32)


def row_sums(values: Array, starts: Array) -> Array:
    total = np.concatenate(([0.0], np.cumsum(values.astype(F64))))
    return total[starts[1:]] - total[starts[:-1]]


def spmv(rng: Rng, kernel: str, rows: int, mean: int, heavy: bool) -> Case:
    starts, columns = compressed(rng, rows, mean, heavy)
    values, x = rng.random(columns.size, F32), rng.random(rows, F32)
    want = row_sums(values.astype(F64) * x[columns], starts).astype(F32)
    args = (np.zeros(rows, F32), starts, columns, values, x, I32(rows))
    each = 16 if kernel == "spmv_groups" else 128
    return launch("graphs", kernel, -(-rows // each), 128, args, {0: want}, rtol=1e-3, atol=1e-4)


def spmv_ell(rng: Rng, rows: int, width: int) -> Case:
    columns, values = rng.integers(0, rows, (width, rows), dtype=I32), rng.random((width, rows), F32)
    columns[rng.random((width, rows)) < 0.2] = -1
    x = rng.random(rows, F32)
    want = np.where(columns >= 0, values.astype(F64) * x[columns], 0).sum(axis=0).astype(F32)
    args = (np.zeros(rows, F32), columns.ravel(), values.ravel(), x, I32(rows), I32(width))
    return launch("graphs", "spmv_ell", -(-rows // 256), 256, args, {0: want}, rtol=1e-4)


def spmv_triples(rng: Rng, n: int, rows: int) -> Case:
    at, columns = np.sort(rng.integers(0, rows, n, dtype=I32)), rng.integers(0, rows, n, dtype=I32)
    values, x = rng.random(n, F32), rng.random(rows, F32)
    want = np.bincount(at, values.astype(F64) * x[columns], rows).astype(F32)
    args = (np.zeros(rows, F32), at, columns, values, x, I32(n))
    return launch("graphs", "spmv_triples", -(-n // 256), 256, args, {0: want}, rtol=1e-3)


def bfs_frontier(rng: Rng, nodes: int, mean: int, size: int) -> Case:
    starts, edges = compressed(rng, nodes, mean, False)
    frontier = rng.permutation(nodes)[:size].astype(I32)
    level = np.full(nodes, -1, I32)
    level[frontier] = 3
    reached = np.unique(np.concatenate([edges[starts[v] : starts[v + 1]] for v in frontier]))
    fresh = reached[level[reached] < 0]
    want = level.copy()
    want[fresh] = 4

    def check(outputs: Outputs) -> None:
        np.testing.assert_array_equal(outputs[0], want)
        np.testing.assert_array_equal(outputs[2], [fresh.size])
        np.testing.assert_array_equal(np.sort(outputs[1][: fresh.size]), fresh)

    args = (level, np.zeros(nodes, I32), np.zeros(1, I32), frontier, I32(size), starts, edges, I32(4))
    return launch("graphs", "bfs_frontier", -(-size // 128), 128, args, check=check)


def bfs_pull(rng: Rng, nodes: int, mean: int) -> Case:
    starts, edges = compressed(rng, nodes, mean, False)
    level = np.where(rng.random(nodes) < 0.2, 2, np.where(rng.random(nodes) < 0.1, 1, -1)).astype(I32)
    hits = row_sums((level[edges] == 2).astype(F64), starts) > 0
    want = np.where(level < 0, np.where(hits, 3, -1), level).astype(I32)
    args = (np.zeros(nodes, I32), level, starts, edges, I32(nodes), I32(3))
    return launch("graphs", "bfs_pull", -(-nodes // 256), 256, args, {0: want})


def pagerank_pull(rng: Rng, nodes: int, mean: int) -> Case:
    starts, edges = compressed(rng, nodes, mean, True)
    rank, share = rng.random(nodes, F32), rng.random(nodes, F32)
    want = 0.15 / nodes + 0.85 * row_sums(rank[edges].astype(F64) * share[edges], starts)
    args = (np.zeros(nodes, F32), rank, share, starts, edges, I32(nodes))
    return launch("graphs", "pagerank_pull", -(-nodes // 128), 128, args, {0: want.astype(F32)}, rtol=1e-3)


def relax_edges(rng: Rng, nodes: int, edges: int) -> Case:
    source, target = rng.integers(0, nodes, edges, dtype=I32), rng.integers(0, nodes, edges, dtype=I32)
    weight, start = rng.integers(1, 100, edges, dtype=I32), rng.integers(0, 1000, nodes, dtype=I32)
    want = start.copy()
    np.minimum.at(want, target, start[source] + weight)
    args = (start.copy(), start, source, target, weight, I32(edges))
    return launch("graphs", "relax_edges", -(-edges // 256), 256, args, {0: want})


def count_triangles(rng: Rng, nodes: int, mean: int) -> Case:
    pairs = rng.integers(0, nodes, (nodes * mean // 2, 2))
    pairs = np.unique(np.concatenate((pairs, pairs[:, ::-1])), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    source, target = pairs[:, 0].astype(I32), pairs[:, 1].astype(I32)
    starts = np.searchsorted(source, np.arange(nodes + 1)).astype(I32)
    lists = [set(target[starts[v] : starts[v + 1]].tolist()) for v in range(nodes)]
    want = np.array([len(lists[a] & lists[b]) for a, b in pairs.tolist()], I32)
    n = source.size
    args = (np.zeros(n, I32), source, target, starts, target, I32(n))
    return launch("graphs", "count_triangles", -(-n // 128), 128, args, {0: want})


def mixed(key: Array) -> Array:
    """The hash of ``hashing.cu``."""
    key = key ^ (key >> U32(16))
    key = key * U32(0x7FEB352D)
    key = key ^ (key >> U32(15))
    key = key * U32(0x846CA68B)
    return key ^ (key >> U32(16))


def table_insert(rng: Rng, n: int, bits: int) -> Case:
    keys = rng.integers(1, 1 << 32, n, dtype=U32)
    size = 1 << bits

    def check(outputs: Outputs) -> None:
        table = outputs[0]
        np.testing.assert_array_equal(np.sort(table[table != 0]), np.unique(keys))
        # No key has a free slot between its home and its place.
        at = np.nonzero(table)[0]
        far = (at - (mixed(table[at]) & U32(size - 1)).astype(int)) % size
        free = np.concatenate(([0], np.cumsum(np.concatenate((table, table)) == 0)))
        home = at - far + np.where(at < far, size, 0)
        assert (free[home + far] == free[home]).all()

    args = (np.zeros(size, U32), keys, I32(n), U32(size - 1))
    return launch("hashing", "table_insert", -(-n // 256), 256, args, check=check)


def table_lookup(rng: Rng, n: int, bits: int) -> Case:
    size = 1 << bits
    keys = np.unique(rng.integers(1, 1 << 32, size // 2, dtype=U32))
    table = np.zeros(size, U32)
    at, left = mixed(keys) & U32(size - 1), keys
    while left.size:
        free = table[at] == 0
        table[at[free]] = left[free]
        done = table[at] == left
        at, left = (at[~done] + U32(1)) & U32(size - 1), left[~done]
    queries = np.where(rng.random(n) < 0.5, rng.choice(keys, n), rng.integers(1, 1 << 32, n, dtype=U32)).astype(U32)
    args = (np.zeros(n, I32), table, queries, I32(n), U32(size - 1))
    return launch("hashing", "table_lookup", -(-n // 128), 128, args, {0: np.isin(queries, keys).astype(I32)})


def bloom_set(rng: Rng, n: int, bits: int) -> Case:
    keys = rng.integers(1, 1 << 32, n, dtype=U32)
    h = mixed(keys)
    step = mixed(h) | U32(1)
    flags = np.zeros(1 << bits, bool)
    for k in range(3):
        place = h + U32(k) * step
        word = (place & U32((1 << bits) - 1)) // 32
        flags[word.astype(int) * 32 + (place & U32(31))] = True
    want = np.packbits(flags, bitorder="little").view(U32)
    args = (np.zeros((1 << bits) // 32, U32), keys, I32(n), U32((1 << bits) - 1))
    return launch("hashing", "bloom_set", -(-n // 256), 256, args, {0: want})


def primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % p for p in found):
            found.append(number)
        number += 1
    return found


def _padded(rng: Rng, n: int, order: str) -> tuple[Array, list[bytes]]:
    """One padded 64-byte block for each of n messages of 48 bytes, word by word, and the messages."""
    text = rng.integers(0, 256, (n, 48), dtype=U8)
    block = np.zeros((n, 64), U8)
    block[:, :48] = text
    block[:, 48] = 0x80
    length = np.array([48 * 8], f"{order}u8").view(U8)
    block[:, 56:] = length
    return block.view(f"{order}u4").astype(U32).T.copy(), [row.tobytes() for row in text]


def sha256_blocks(rng: Rng, n: int) -> Case:
    words, texts = _padded(rng, n, ">")
    want = np.array([np.frombuffer(hashlib.sha256(t).digest(), ">u4") for t in texts]).astype(U32).T
    roots = [int((p ** (1 / 3) % 1) * 2**32) for p in primes(64)]
    return launch(
        "texts", "sha256_blocks", -(-n // 128), 128, (np.zeros(8 * n, U32), words.ravel(), I32(n)), {0: want.ravel()},
        device_globals={"sha_rounds": np.array(roots, U32)},
    )  # fmt: skip


def md5_blocks(rng: Rng, n: int) -> Case:
    words, texts = _padded(rng, n, "<")
    want = np.array([np.frombuffer(hashlib.md5(t).digest(), "<u4") for t in texts]).astype(U32)
    sines = (np.abs(np.sin(np.arange(1, 65))) * 2**32).astype(np.uint64).astype(U32)
    turns = np.array([7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21], I32)
    return launch(
        "texts", "md5_blocks", -(-n // 256), 256, (np.zeros(4 * n, U32), words.ravel(), I32(n)), {0: want.ravel()},
        device_globals={"md5_sines": sines, "md5_turns": turns},
    )  # fmt: skip


def chacha_stream(rng: Rng, count: int) -> Case:
    text, key = rng.integers(0, 1 << 32, (count, 16), dtype=U32), rng.integers(0, 1 << 32, 8, dtype=U32)
    first = np.zeros((16, count), U32)
    first[:4] = np.array([0x61707865, 0x3320646E, 0x79622D32, 0x6B206574], U32)[:, None]
    first[4:12] = key[:, None]
    first[12], first[14], first[15] = np.arange(count), 7, 9
    x = first.copy()

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for to, add, by, left in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[to] += x[add]
            v = x[by] ^ x[to]
            x[by] = (v << U32(left)) | (v >> U32(32 - left))

    for _ in range(10):
        for k in range(4):
            quarter(k, 4 + k, 8 + k, 12 + k)
        for k in range(4):
            quarter(k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4)
    want = text ^ (x + first).T
    return launch("texts", "chacha_stream", -(-count // 128), 128, (text.ravel(), key, I32(count)), {0: want.ravel()})


def table_cipher(rng: Rng, n: int, rounds: int) -> Case:
    data, s = rng.integers(0, 1 << 32, (n, 4), dtype=U32), rng.integers(0, 1 << 32, (4, 256), dtype=U32)
    v = data.T
    for _ in range(rounds):
        v = np.array(
            [
                s[0][v[k] & U32(255)] ^ s[1][v[(k + 1) % 4] >> U32(8) & U32(255)]
                ^ s[2][v[(k + 2) % 4] >> U32(16) & U32(255)] ^ s[3][v[(k + 3) % 4] >> U32(24)]
                for k in range(4)
            ]
        )  # fmt: skip
    args = (data.ravel(), s.ravel(), I32(n), I32(rounds))
    return launch("texts", "table_cipher", -(-n // 256), 256, args, {0: v.T.ravel()})


def find_needle(rng: Rng, n: int) -> Case:
    text = rng.integers(0, 3, n, dtype=U8)
    needle = np.zeros(16, U8)
    needle[:10] = rng.integers(0, 3, 10, dtype=U8)
    place = n * 3 // 4
    text[place : place + 10] = needle[:10]
    first = bytes(text).find(bytes(needle[:10]))
    args = (np.array([1 << 30], I32), text, I32(n), I32(10))
    want = np.array([first], I32)
    return launch("texts", "find_needle", -(-n // 256), 256, args, {0: want}, device_globals={"needle": needle})


def edit_distances(rng: Rng, n: int) -> Case:
    pattern, words = rng.integers(0, 4, 32), rng.integers(0, 4, (64, n), dtype=U8)
    masks = np.array([sum(1 << k for k in range(32) if pattern[k] == letter) for letter in range(4)], U32)
    row = np.repeat(np.arange(33)[:, None], n, axis=1)
    for k in range(64):
        fresh = np.empty_like(row)
        fresh[0] = k + 1
        for i in range(1, 33):
            swap = row[i - 1] + (words[k] != pattern[i - 1])
            fresh[i] = np.minimum(swap, np.minimum(row[i], fresh[i - 1]) + 1)
        row = fresh
    args = (np.zeros(n, I32), words.ravel(), masks, I32(n))
    return launch("texts", "edit_distances", -(-n // 128), 128, args, {0: row[32].astype(I32)})


def base64_encode(rng: Rng, groups: int) -> Case:
    import base64

    src = rng.integers(0, 256, 3 * groups, dtype=U8)
    want = np.frombuffer(base64.b64encode(src.tobytes()), U8)
    args = (np.zeros(4 * groups, U8), src, I32(groups))
    return launch("texts", "base64_encode", -(-groups // 256), 256, args, {0: want})


def assign_clusters(rng: Rng, n: int) -> Case:
    points = rng.integers(0, 256, (n, 4)).astype(F32)
    centres = rng.integers(0, 256, (16, 4)).astype(F32)
    d = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2)
    args = (np.zeros(n, I32), points.ravel(), I32(n), I32(16))
    want = d.argmin(axis=1).astype(I32)
    return launch(
        "learning", "assign_clusters", -(-n // 256), 256, args, {0: want}, device_globals={"centres": centres.ravel()}
    )


def gather_clusters(rng: Rng, n: int, grid: int) -> Case:
    label, points = rng.integers(0, 16, n, dtype=I32), rng.integers(0, 100, (n, 4), dtype=I32)
    want = np.zeros((16, 5), I32)
    np.add.at(want, label, np.concatenate((points, np.ones((n, 1), I32)), axis=1))
    args = (np.zeros(80, I32), label, points.ravel(), I32(n))
    return launch("learning", "gather_clusters", grid, 256, args, {0: want.ravel()})


def nearest_four(rng: Rng, n: int, queries: int) -> Case:
    points, asked = rng.integers(0, 1000, (n, 2)).astype(F32), rng.integers(0, 1000, (queries, 2)).astype(F32)
    d = ((asked[:, None, :] - points[None]) ** 2).sum(axis=2)
    want = np.sort(d, axis=1)[:, :4]

    def check(outputs: Outputs) -> None:
        found = outputs[0].reshape(queries, 4)
        np.testing.assert_array_equal(np.take_along_axis(d, found, axis=1), want)
        assert (np.diff(np.sort(found, axis=1), axis=1) > 0).all(), "a point stands twice"

    args = (np.zeros(4 * queries, I32), points.ravel(), asked.ravel(), I32(n))
    return launch("learning", "nearest_four", queries // 128, 128, args, check=check)


def forest_votes(rng: Rng, n: int, trees: int, depth: int, features: int) -> Case:
    inner = (1 << depth) - 1
    feature, threshold = rng.integers(0, features, (trees, inner), dtype=I32), rng.random((trees, inner), F32)
    leaf, rows = rng.integers(-8, 8, (trees, inner + 1)).astype(F32), rng.random((features, n), F32)
    want = np.zeros(n)
    for t in range(trees):
        node = np.zeros(n, int)
        for _ in range(depth):
            node = 2 * node + 1 + (rows[feature[t, node], np.arange(n)] > threshold[t, node])
        want += leaf[t, node - inner]
    args = (
        np.zeros(n, F32),
        feature.ravel(),
        threshold.ravel(),
        leaf.ravel(),
        rows.ravel(),
        I32(n),
        I32(trees),
        I32(depth),
        I32(features),
    )
    return launch("learning", "forest_votes", -(-n // 128), 128, args, {0: want.astype(F32)})


CASES: dict[str, Builder] = {
    "spmv_rows": partial(spmv, kernel="spmv_rows", rows=60_000, mean=12, heavy=False),
    "spmv_groups": partial(spmv, kernel="spmv_groups", rows=40_000, mean=24, heavy=False),
    "spmv_groups_heavy": partial(spmv, kernel="spmv_groups", rows=30_000, mean=24, heavy=True),
    "spmv_ell": partial(spmv_ell, rows=100_000, width=12),
    "spmv_triples": partial(spmv_triples, n=600_000, rows=50_000),
    "bfs_frontier": partial(bfs_frontier, nodes=200_000, mean=8, size=30_000),
    "bfs_pull": partial(bfs_pull, nodes=100_000, mean=10),
    "pagerank_pull": partial(pagerank_pull, nodes=50_000, mean=10),
    "relax_edges": partial(relax_edges, nodes=100_000, edges=600_000),
    "count_triangles": partial(count_triangles, nodes=3000, mean=16),
    "table_insert": partial(table_insert, n=200_000, bits=19),
    "table_lookup": partial(table_lookup, n=300_000, bits=18),
    "bloom_set": partial(bloom_set, n=200_000, bits=22),
    "sha256_blocks": partial(sha256_blocks, n=16_000),
    "md5_blocks": partial(md5_blocks, n=40_000),
    "chacha_stream": partial(chacha_stream, count=20_000),
    "table_cipher": partial(table_cipher, n=50_000, rounds=8),
    "find_needle": partial(find_needle, n=1_000_000),
    "edit_distances": partial(edit_distances, n=20_000),
    "base64_encode": partial(base64_encode, groups=300_000),
    "assign_clusters": partial(assign_clusters, n=200_000),
    "gather_clusters": partial(gather_clusters, n=300_000, grid=264),
    "nearest_four": partial(nearest_four, n=1024, queries=4096),
    "forest_votes": partial(forest_votes, n=10_000, trees=16, depth=8, features=16),
}
