"""Orders, graphs and sparse matrices; checksums, automata and wide integers."""

from __future__ import annotations

import zlib

import numpy as np
from scipy import sparse

from bench.holdout.second.case import Case, Outputs, Rng, Sized, launch, normal, sized

I32, F32, F64, U16, U32, U64, U8 = np.int32, np.float32, np.float64, np.uint16, np.uint32, np.uint64, np.uint8


def digit_ranks(rng: Rng, blocks: int, shift: int) -> Case:
    keys = rng.integers(0, 1 << 32, (blocks, 256), dtype=U32)
    digits = keys >> U32(shift) & U32(15)
    order = np.argsort(digits, axis=1, kind="stable")
    counts = np.stack([(digits == d).sum(axis=1) for d in range(16)]).astype(U32)
    args = (np.zeros(keys.size, U32), np.zeros(counts.size, U32), keys.ravel(), I32(shift))
    expected = {0: np.take_along_axis(keys, order, axis=1).ravel(), 1: counts.ravel()}
    return launch("orders", "digit_ranks", blocks, 256, args, expected)


def merge_path(rng: Rng, na: int, nb: int) -> Case:
    a, b = (np.sort(rng.integers(0, 1 << 30, n, dtype=I32)) for n in (na, nb))
    args = (np.zeros(na + nb, I32), a, b, I32(na), I32(nb))
    return launch("orders", "merge_path", -(-(na + nb) // 1024), 128, args, {0: np.sort(np.concatenate([a, b]))})


def scan_look_back(rng: Rng, blocks: int) -> Case:
    src = rng.integers(0, 100, blocks * 512, dtype=U32)
    args = (np.zeros(src.size, U32), src, np.zeros(blocks, U64), np.zeros(1, U32))
    return launch("orders", "scan_look_back", blocks, 128, args, {0: np.cumsum(src, dtype=U32)})


def scan_segments(rng: Rng, n: int) -> Case:
    src, flags = rng.integers(-50, 50, n).astype(F32), (rng.random(n) < 0.15).astype(U8)
    heads = flags.astype(bool) | (np.arange(n) % 32 == 0)
    sums = np.cumsum(src, dtype=F64)
    first = np.maximum.accumulate(np.where(heads, np.arange(n), 0))
    want = sums - np.where(first > 0, sums[first - 1], 0)
    args = (np.zeros(n, F32), src, flags, I32(n))
    return launch("orders", "scan_segments", -(-n // 224), 224, args, {0: want.astype(F32)})


def sort_lanes(rng: Rng, blocks: int) -> Case:
    keys = rng.integers(0, 1 << 32, (blocks * 3, 64), dtype=U32)
    return launch("orders", "sort_lanes", blocks, 96, (keys.ravel(),), {0: np.sort(keys, axis=1).ravel()})


def colour_round(rng: Rng, vertices: int, degree: int) -> Case:
    graph = sparse.random(vertices, vertices, degree / vertices / 2, "csr", random_state=rng)
    graph = (graph + graph.T).tocsr()
    weights, old = rng.permutation(vertices).astype(I32), np.where(rng.random(vertices) < 0.3, 0, -1).astype(I32)
    rows = np.repeat(np.arange(vertices), np.diff(graph.indptr))
    lost = np.zeros(vertices, bool)
    lost[rows[(old[graph.indices] < 0) & (weights[graph.indices] > weights[rows])]] = True
    want = np.where((old < 0) & ~lost, 1, old).astype(I32)
    args = (old.copy(), graph.indptr.astype(I32), graph.indices.astype(I32), weights, old, I32(vertices), I32(1))
    return launch("orders", "colour_round", -(-vertices // 256), 256, args, {0: want})


def unite_edges(rng: Rng, vertices: int, edges: int) -> Case:
    pairs = rng.integers(0, vertices, (edges, 2), dtype=I32)
    graph = sparse.coo_matrix((np.ones(edges), pairs.T), (vertices, vertices))
    label = sparse.csgraph.connected_components(graph, directed=False)[1]
    least = np.full(label.max() + 1, vertices)
    np.minimum.at(least, label, np.arange(vertices))

    def check(outputs: Outputs) -> None:
        """Every vertex leads to the least one of its component, by whatever path."""
        parent = np.asarray(outputs[0])
        for _ in range(64):
            parent = parent[parent]
        np.testing.assert_array_equal(parent, least[label])

    args = (np.arange(vertices, dtype=I32), pairs.ravel(), I32(edges))
    return launch("orders", "unite_edges", -(-edges // 128), 128, args, check=check)


def blocks_times(rng: Rng, rows: int, most: int) -> Case:
    each = rng.integers(0, most, rows)
    first = np.concatenate([[0], np.cumsum(each)]).astype(I32)
    columns, values, x = (
        rng.integers(0, rows, first[-1], dtype=I32),
        normal(rng, (first[-1], 4, 4)),
        normal(rng, rows * 4),
    )
    products = np.einsum("bij,bj->bi", values.astype(F64), x.reshape(-1, 4)[columns])
    want = np.zeros((rows, 4))
    np.add.at(want, np.repeat(np.arange(rows), each), products)
    args = (np.zeros(rows * 4, F32), first, columns, values.ravel(), x, I32(rows))
    return launch(
        "orders", "blocks_times", -(-rows // 6), 192, args, {0: want.astype(F32).ravel()}, rtol=1e-4, atol=1e-4
    )


def columns_times(rng: Rng, n: int, each: int) -> Case:
    matrix = sparse.random(n, n, each / n, "csc", random_state=rng)
    x = rng.standard_normal(n)
    args = (np.zeros(n), matrix.indptr.astype(I32), matrix.indices.astype(I32), matrix.data, x, I32(n))
    return launch("orders", "columns_times", -(-n // 256), 256, args, {0: matrix @ x}, rtol=1e-10, atol=1e-12)


def adler_chunks(rng: Rng, chunks: int) -> Case:
    src = rng.integers(0, 256, (chunks, 4096), dtype=U8)
    want = np.array([zlib.adler32(c.tobytes()) for c in src], U32)
    return launch(
        "codes", "adler_chunks", -(-chunks // 8), 256, (np.zeros(chunks, U32), src.ravel(), I32(chunks)), {0: want}
    )


def crc_by_eight(rng: Rng, records: int) -> Case:
    tables = np.zeros((8, 256), U32)
    tables[0] = np.arange(256, dtype=U32)
    for _ in range(8):
        tables[0] = tables[0] >> U32(1) ^ np.where(tables[0] & 1, U32(0xEDB88320), U32(0))
    for k in range(1, 8):
        tables[k] = tables[k - 1] >> U32(8) ^ tables[0][tables[k - 1] & 255]
    text = rng.integers(0, 256, (records, 32, 8), dtype=U8)
    want = np.array([zlib.crc32(r.tobytes()) for r in text], U32)
    args = (np.zeros(records, U32), text.transpose(1, 0, 2).ravel(), tables.ravel(), I32(records))
    return launch("codes", "crc_by_eight", -(-records // 128), 128, args, {0: want})


def run_automaton(rng: Rng, n: int, length: int, states: int) -> Case:
    table = np.zeros((states, 256), U8)
    letters = rng.integers(0, 256, (states, 40))
    for s in range(states - 1):  # some letters lead on, some stay, others restart
        table[s, letters[s, :20]] = s
        table[s, letters[s, 20:]] = s + 1
    texts = rng.integers(0, 256, (length, n), dtype=U8)
    texts = np.where(
        rng.random((length, n)) < 0.6,
        letters[np.minimum(np.arange(length)[:, None], states - 1), rng.integers(0, 40, (length, n))],
        texts,
    )
    texts = texts.astype(U8)
    state, taken = np.zeros(n, int), np.zeros(n, int)
    for k in range(length):
        going = state != states - 1
        state = np.where(going, table[state, texts[k]], state)
        taken += going
    want = np.where(state == states - 1, taken, 0).astype(U8)
    args = (np.zeros(n, U8), texts.ravel(), table.ravel(), I32(states), I32(n), I32(length))
    return launch("codes", "run_automaton", -(-n // 160), 160, args, {0: want}, shared_bytes=states * 256)


def longest_matches(rng: Rng, n: int) -> Case:
    words = [rng.integers(97, 110, rng.integers(3, 9), dtype=U8) for _ in range(24)]
    src = np.concatenate([words[w] for w in rng.integers(0, 24, n // 3)])[:n]
    most, where = np.zeros(n, int), np.zeros(n, int)
    for back in range(1, 65):
        length, going = np.zeros(n, int), np.arange(n) >= back
        for k in range(15):
            inside = np.arange(n) + k < n
            going &= inside & (
                src[np.minimum(np.arange(n) + k, n - 1)]
                == src[np.maximum(np.minimum(np.arange(n) + k, n - 1) - back, 0)]
            )
            length += going
        better = (length > most) & (np.arange(n) >= back)
        most, where = np.where(better, length, most), np.where(better, back, where)
    args = (np.zeros(n, U16), src, I32(n))
    return launch("codes", "longest_matches", -(-n // 256), 256, args, {0: (most << 8 | where).astype(U16)})


def field_powers(rng: Rng, n: int, rounds: int) -> Case:
    src = rng.integers(0, 1 << 32, (8, n), dtype=U32)
    prime = (1 << 255) - 19
    numbers = [sum(int(src[k, i]) << 32 * k for k in range(8)) for i in range(n)]
    want = [pow(x, (1 << rounds) + sum(1 << r for r in range(rounds)), prime) for x in numbers]

    def check(outputs: Outputs) -> None:
        """Numbers modulo the prime, of which the limbs are one of two or three forms."""
        got = np.asarray(outputs[0]).reshape(8, n)
        for i in range(n):
            if sum(int(got[k, i]) << 32 * k for k in range(8)) % prime != want[i]:
                raise AssertionError(f"field_powers: number {i} is not the power modulo 2^255 - 19")

    args = (np.zeros(src.size, U32), src.ravel(), I32(n), I32(rounds))
    return launch("codes", "field_powers", -(-n // 64), 64, args, check=check)


def mark_runs(rng: Rng, blocks: int) -> Case:
    src = np.repeat(rng.integers(0, 5, blocks * 4096, dtype=U8), rng.integers(1, 7, blocks * 4096))[: blocks * 4096]
    heads = np.concatenate([[True], src[1:] != src[:-1]])
    bits = np.packbits(heads, bitorder="little").view(U32)
    counts = heads.reshape(blocks, -1).sum(axis=1).astype(U32)
    args = (np.zeros(bits.size, U32), np.zeros(blocks, U32), src)
    return launch("codes", "mark_runs", blocks, 128, args, {0: bits, 1: counts})


def count_classes(rng: Rng, quads: int, blocks: int) -> Case:
    table, src = rng.integers(0, 8, 256, dtype=U8), rng.integers(0, 256, quads * 4, dtype=U8)
    want = np.bincount(table[src], minlength=8).astype(U32)
    args = (np.zeros(8, U32), src, I32(quads))
    return launch("codes", "count_classes", blocks, 256, args, {0: want}, device_globals={"classes": table})


CASES: dict[str, Sized] = {
    "digit_ranks": sized(digit_ranks, {"blocks": 3}, blocks=2400, shift=12),
    "merge_path": sized(merge_path, {"na": 700, "nb": 900}, na=400_000, nb=330_000),
    "scan_look_back": sized(scan_look_back, {"blocks": 3}, blocks=1200),
    "scan_segments": sized(scan_segments, {"n": 500}, n=1_200_000),
    "sort_lanes": sized(sort_lanes, {"blocks": 2}, blocks=2600),
    "colour_round": sized(colour_round, {"vertices": 400, "degree": 6}, vertices=80_000, degree=12),
    "unite_edges": sized(unite_edges, {"vertices": 300, "edges": 250}, vertices=80_000, edges=100_000),
    "blocks_times": sized(blocks_times, {"rows": 20, "most": 7}, rows=9000, most=16),
    "columns_times": sized(columns_times, {"n": 300, "each": 5}, n=40_000, each=8),
    "adler_chunks": sized(adler_chunks, {"chunks": 11}, chunks=3000),
    "crc_by_eight": sized(crc_by_eight, {"records": 140}, records=40_000),
    "run_automaton": sized(run_automaton, {"n": 200, "length": 30, "states": 5}, n=40_000, length=120, states=40),
    "longest_matches": sized(longest_matches, {"n": 600}, n=120_000),
    "field_powers": sized(field_powers, {"n": 70, "rounds": 2}, n=16_000, rounds=8),
    "field_powers_one_block": sized(field_powers, {"n": 64, "rounds": 2}, n=64, rounds=12),
    "mark_runs": sized(mark_runs, {"blocks": 2}, blocks=900),
    "count_classes": sized(count_classes, {"quads": 800, "blocks": 2}, quads=600_000, blocks=300),
}  # fmt: skip
