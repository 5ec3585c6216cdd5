"""Data bases and graphs: partitions, look-ups, text, codes, sketches; labels, sets, dependencies, walks, sparse products."""

from __future__ import annotations

import datetime

import numpy as np

from bench.holdout.fourth.case import Array, Case, Outputs, Rng, Sized, launch, mixed, normal, sized

I32, I64, F32, F64, U8, U32, U64 = np.int32, np.int64, np.float32, np.float64, np.uint8, np.uint32, np.uint64


def radix_partition(rng: Rng, n: int) -> Case:
    src = rng.integers(0, 1 << 32, (n, 2), dtype=U32)
    part = (mixed(src[:, 0]) >> U32(10) & U32(63)).astype(I64)
    blocks = -(-n // 2048)
    counts = np.zeros((blocks, 64), I64)
    np.add.at(counts, (np.arange(n) // 2048, part), 1)
    base = (np.cumsum(counts.T.ravel()) - counts.T.ravel()).reshape(64, blocks).T
    order = np.lexsort((np.arange(n) // 2048, part))
    groups = np.repeat(np.arange(64 * blocks), counts.T.ravel())

    def check(outputs: Outputs) -> None:
        """Within a block's run of a partition the order is open."""
        made, want = (pairs[np.lexsort((*pairs.T[::-1], groups))] for pairs in (outputs[0].reshape(-1, 2), src[order]))
        np.testing.assert_array_equal(made, want)

    args = (np.zeros(n * 2, U32), src.ravel(), base.astype(I32).ravel(), I32(n), I32(10))
    return launch("tables", "radix_partition", blocks, 256, args, check=check)


def cuckoo_lookup(rng: Rng, buckets: int, n: int) -> Case:
    keys = np.unique(rng.integers(1, 1 << 32, buckets * 3, dtype=U32))
    rng.shuffle(keys)
    mask, filled = U32(buckets - 1), np.zeros(buckets, I64)
    table, values = np.zeros((buckets, 4), U32), np.zeros((buckets, 4), U32)
    kept = []
    for round_ in range(2):
        place = mixed(keys if round_ == 0 else keys ^ U32(0x5BD1E995)) & mask
        order = np.argsort(place, kind="stable")
        ranked = place[order]
        rank = np.arange(len(keys)) - np.searchsorted(ranked, ranked) + filled[ranked]
        fits = rank < 4
        table[ranked[fits], rank[fits]] = keys[order[fits]]
        values[ranked[fits], rank[fits]] = mixed(keys[order[fits]] + U32(7))
        filled += np.bincount(ranked[fits], minlength=buckets)
        kept.append(keys[order[fits]])
        keys = keys[order[~fits]]
    known = np.concatenate(kept)
    wanted = np.where(rng.random(n) < 0.8, rng.choice(known, n), rng.integers(1, 1 << 32, n, dtype=U32)).astype(U32)
    want = np.where(np.isin(wanted, known), mixed(wanted + U32(7)), U32(0xFFFFFFFF))
    args = (np.zeros(n, U32), table.ravel(), values.ravel(), wanted, I32(n), mask)
    return launch("tables", "cuckoo_lookup", -(-n // 256), 256, args, {0: want})


def like_match(rng: Rng, rows: int) -> Case:
    words = [b"special", b"requests", b"deposits", b"furious", b"ironic", b"bold", b"spec", b"packages", b"reque"]
    picks = rng.integers(0, len(words), rows * 20)
    sizes = rng.integers(3, 16, rows)
    texts, at = [], 0
    for size in sizes:
        texts.append(b" ".join(words[k] for k in picks[at : at + size]))
        at += int(size)
    want = np.array([(k := t.find(b"special")) >= 0 and t.find(b"requests", k + 7) >= 0 for t in texts], U8)
    offset = np.concatenate([[0], np.cumsum([len(t) for t in texts])]).astype(I32)
    pattern = np.frombuffer(b"specialrequests", U8)
    args = (np.zeros(rows, U8), np.frombuffer(b"".join(texts), U8), offset, pattern, I32(7), I32(8), I32(rows))
    return launch("tables", "like_match", -(-rows // 128), 128, args, {0: want})


def json_bitmaps(rng: Rng, chunks: int) -> Case:
    alphabet = np.frombuffer(b'abcdefgh  "":,{}[]\\', U8)
    text = rng.choice(alphabet, (chunks, 1024))
    after = np.zeros(text.shape, bool)
    after[:, 1:] = text[:, :-1] == ord("\\")
    quote = (text == ord('"')) & ~after
    inside = np.cumsum(quote, axis=1) % 2 == 1
    structure = np.isin(text, np.frombuffer(b"{}[]:,", U8)) & ~inside | quote
    bits = [np.packbits(b, axis=1, bitorder="little").view(U32).ravel() for b in (structure, inside)]
    args = (np.zeros(chunks * 32, U32), np.zeros(chunks * 32, U32), text.ravel(), I32(chunks))
    return launch("tables", "json_bitmaps", -(-chunks // 4), 128, args, {0: bits[0], 1: bits[1]})


def rle_expand(rng: Rng, runs: int) -> Case:
    lengths, values = np.minimum(rng.geometric(0.06, runs), 200), rng.integers(0, 1000, runs, dtype=I32)
    want = np.repeat(values, lengths)
    n = len(want)
    args = (np.zeros(n, I32), np.cumsum(lengths).astype(I32), values, I32(runs), I32(n))
    return launch("tables", "rle_expand", -(-n // 1024), 256, args, {0: want})


def filter_query6(rng: Rng, n: int, grid: int) -> Case:
    day, discount = rng.integers(0, 2500, n, dtype=I32), rng.integers(0, 11, n, dtype=U8)
    quantity, price = rng.integers(1, 51, n, dtype=U8), rng.integers(1000, 100000, n, dtype=I32)
    passed = (day >= 800) & (day < 1165) & (discount >= 5) & (discount <= 7) & (quantity < 24)
    revenue = (price[passed].astype(U64) * discount[passed]).sum(dtype=U64)
    args = (np.zeros(n // 32, U32), np.zeros(1, U64), day, discount, quantity, price, I32(n))
    expected = {0: np.packbits(passed, bitorder="little").view(U32), 1: np.array([revenue], U64)}
    return launch("tables", "filter_query6", grid, 256, args, expected)


def varint_decode(rng: Rng, n: int) -> Case:
    fields = rng.integers(1, 14, n)
    values = rng.integers(-(1 << 40), 1 << 40, int(fields.sum())) >> rng.integers(0, 40, int(fields.sum()))
    zigzag = ((values << 1) ^ (values >> 63)).astype(U64)
    size = np.maximum(1, -(-np.ceil(np.log2(zigzag.astype(F64) + 1)).astype(I64) // 7))
    parts = zigzag[:, None] >> (U64(7) * np.arange(7, dtype=U64)) & U64(127)
    more = np.arange(7) < size[:, None] - 1
    data = (parts | more * U64(128)).astype(U8)[np.arange(7) < size[:, None]]
    owner = np.repeat(np.arange(n), fields)
    sums, bytes_ = np.zeros(n, I64), np.zeros(n, I64)
    np.add.at(sums, owner, values)
    np.add.at(bytes_, owner, size)
    offset = np.concatenate([[0], np.cumsum(bytes_)]).astype(I32)
    args = (np.zeros(n, U64), np.zeros(n, I32), data, offset, I32(n))
    return launch("tables", "varint_decode", -(-n // 128), 128, args, {0: sums.view(U64), 1: fields.astype(I32)})


def hyperloglog(rng: Rng, n: int, grid: int) -> Case:
    keys = rng.integers(0, n, n, dtype=U32)
    other = mixed(keys + U32(0x9E3779B9))
    zeros = 33 - np.ceil(np.log2(other.astype(F64) + 1)).astype(I32)
    want = np.zeros(4096, I32)
    np.maximum.at(want, mixed(keys) & U32(4095), zeros)
    return launch("tables", "hyperloglog", grid, 512, (np.zeros(4096, I32), keys, I32(n)), {0: want})


def count_min(rng: Rng, n: int, width: int) -> Case:
    keys = np.minimum(rng.zipf(1.3, n), 1 << 30).astype(U32)
    want = np.stack(
        [
            np.bincount(mixed(keys ^ U32((r + 1) * 0x9E3779B9 & 0xFFFFFFFF)) % U32(width), minlength=width)
            for r in range(4)
        ]
    )
    args = (np.zeros(4 * width, U32), keys, I32(n), I32(width))
    return launch("tables", "count_min", -(-n // 256), 256, args, {0: want.astype(U32).ravel()})


def group_by_month(rng: Rng, n: int, grid: int) -> Case:
    days, amounts = rng.integers(8000, 20000, n, dtype=I32), rng.integers(0, 1000, n, dtype=I32)
    months = np.array([(datetime.date(1970, 1, 1) + datetime.timedelta(d)).month - 1 for d in range(8000, 20000)])
    month = months[days - 8000]
    want = np.concatenate([np.bincount(month, amounts, 12), np.bincount(month, minlength=12)]).astype(U64)
    return launch("tables", "group_by_month", grid, 256, (np.zeros(24, U64), days, amounts, I32(n)), {0: want})


def graph(rng: Rng, nodes: int, degree: float, near: int = 0) -> tuple[Array, Array]:
    """Sorted rows of neighbours of an undirected graph, without loops; degrees uneven, most edges short where ``near`` says how far."""
    count = int(nodes * degree / 2)
    a = (nodes * rng.random(count) ** 1.5).astype(I64)
    b = a + rng.integers(1, near + 1, count) if near else rng.integers(0, nodes, count)
    b %= nodes
    keys = np.unique(np.concatenate([a * nodes + b, b * nodes + a])[np.concatenate([a != b, a != b])])
    first = np.searchsorted(keys, np.arange(nodes + 1) * nodes)
    return first.astype(I32), (keys % nodes).astype(I32)


def label_propagate(rng: Rng, nodes: int, degree: float) -> Case:
    first, edges = graph(rng, nodes, degree, 40)
    label = (np.arange(nodes) // 12 * 12 + rng.integers(0, 3, nodes)).astype(I32)
    want = label.copy()
    for node in range(nodes):
        around = label[edges[first[node] : first[node + 1]]]
        if around.size:
            names, counts = np.unique(around, return_counts=True)
            want[node] = names[counts == counts.max()].min()
    args = (np.zeros(nodes, I32), label, first, edges, I32(nodes))
    return launch("networks", "label_propagate", -(-nodes // 4), 128, args, {0: want})


def luby_round(rng: Rng, nodes: int, degree: float) -> Case:
    first, edges = graph(rng, nodes, degree)
    before = np.where(rng.random(nodes) < 0.03, 1, 0).astype(I32)
    number, owner = mixed(np.arange(nodes).astype(U32) ^ U32(77)), np.repeat(np.arange(nodes), np.diff(first))
    want = before.copy()
    for node in np.flatnonzero(before == 0):
        want[node] = 1
        for other in edges[first[node] : first[node + 1]]:
            if before[other] == 1:
                want[node] = 2
                break
            if number[other] <= number[node]:
                want[node] = 0
                break
    assert owner.size == edges.size
    args = (before.copy(), before, first, edges, I32(nodes), U32(77))
    return launch("networks", "luby_round", -(-nodes // 256), 256, args, {0: want})


def brandes_backward(rng: Rng, nodes: int, degree: float) -> Case:
    first, edges = graph(rng, nodes, degree)
    owner = np.repeat(np.arange(nodes), np.diff(first))
    depth = np.full(nodes, -1)
    depth[int(np.argmax(np.diff(first)))] = 0
    paths = (depth == 0).astype(F64)
    level = 0
    while True:
        new = (depth[owner] == level) & (depth[edges] < 0)
        if not new.any():
            break
        depth[edges[new]] = level + 1
        step = (depth[owner] == level) & (depth[edges] == level + 1)
        np.add.at(paths, edges[step], paths[owner[step]])
        level += 1
    level = int(np.argmax(np.bincount(depth[depth >= 0]))) - 1
    delta = rng.random(nodes).astype(F32)
    want = delta.astype(F64)
    want[depth == level] = 0
    step = (depth[owner] == level) & (depth[edges] == level + 1)
    np.add.at(want, owner[step], paths[owner[step]] / paths[edges[step]] * (1.0 + delta[edges[step]]))
    args = (delta, depth.astype(I32), paths.astype(F32), first, edges, I32(nodes), I32(level))
    expected = {0: want.astype(F32)}
    return launch("networks", "brandes_backward", -(-nodes // 128), 128, args, expected, rtol=1e-4, atol=1e-4)


def jaccard_edges(rng: Rng, nodes: int, degree: float, n: int) -> Case:
    first, edges = graph(rng, nodes, degree, 60)
    a = np.repeat(np.arange(nodes), np.diff(first))
    pick = rng.integers(0, edges.size, n)
    pairs = np.stack([a[pick], edges[pick]], axis=1).astype(I32)
    around = [set(edges[first[k] : first[k + 1]].tolist()) for k in range(nodes)]
    want = np.array([len(around[x] & around[y]) / len(around[x] | around[y]) for x, y in pairs], F32)
    args = (np.zeros(n, F32), pairs.ravel(), first, edges, I32(n))
    return launch("networks", "jaccard_edges", -(-n // 128), 128, args, {0: want}, rtol=1e-6)


def random_walks(rng: Rng, nodes: int, degree: float, walks: int, steps: int) -> Case:
    first, edges = graph(rng, nodes, degree)
    at, state = np.arange(walks) % nodes, mixed(np.arange(1, walks + 1).astype(U32))
    path = np.zeros((steps, walks), I32)
    for s in range(steps):
        path[s] = at
        count = (first[at + 1] - first[at]).astype(U64)
        state = state * U32(1664525) + U32(1013904223)
        step = (state.astype(U64) * count >> U64(32)).astype(I64)
        at = np.where(count > 0, edges[np.minimum(first[at] + step, edges.size - 1)], at)
    args = (np.zeros(path.size, I32), first, edges, I32(walks), I32(nodes), I32(steps))
    return launch("networks", "random_walks", -(-walks // 128), 128, args, {0: path.ravel()})


def gat_aggregate(rng: Rng, nodes: int, degree: float) -> Case:
    first, edges = graph(rng, nodes, degree)
    x, source, target = normal(rng, (nodes, 64)), normal(rng, nodes), normal(rng, nodes)
    owner = np.repeat(np.arange(nodes), np.diff(first))
    s = source[edges].astype(F64) + target[owner]
    w = np.exp(np.where(s > 0, s, 0.2 * s))
    want, sums = np.zeros((nodes, 64)), np.bincount(owner, w, nodes)
    for c in range(64):
        want[:, c] = np.bincount(owner, w * x[edges, c], nodes) / np.where(sums > 0, sums, 1)
    args = (np.zeros(want.size, F32), x.ravel(), source, target, first, edges, I32(nodes))
    expected = {0: want.astype(F32).ravel()}
    return launch("networks", "gat_aggregate", -(-nodes // 8), 256, args, expected, rtol=1e-3, atol=1e-4)


def boruvka_edges(rng: Rng, nodes: int, n: int) -> Case:
    edges, weight = rng.integers(0, nodes, (n, 2), dtype=I32), rng.integers(0, 1 << 30, n, dtype=U32)
    component = (np.arange(nodes) // 20 * 20).astype(I32)
    a, b = component[edges[:, 0]], component[edges[:, 1]]
    apart, keys = a != b, weight.astype(U64) << U64(32) | np.arange(n, dtype=U64)
    want = np.full(nodes, ~U64(0))
    np.minimum.at(want, a[apart], keys[apart])
    np.minimum.at(want, b[apart], keys[apart])
    args = (np.full(nodes, ~U64(0)), component, edges.ravel(), weight, I32(n))
    return launch("networks", "boruvka_edges", -(-n // 256), 256, args, {0: want})


def sddmm(rng: Rng, rows: int, n: int, depth: int) -> Case:
    a, b = normal(rng, (rows, depth)), normal(rng, (rows, depth))
    row, column = np.sort(rng.integers(0, rows, n, dtype=I32)), rng.integers(0, rows, n, dtype=I32)
    want = np.einsum("ik,ik->i", a[row].astype(F64), b[column])
    args = (np.zeros(n, F32), row, column, a.ravel(), b.ravel(), I32(n), I32(depth))
    return launch("networks", "sddmm", -(-n // 16), 128, args, {0: want.astype(F32)}, rtol=1e-3, atol=1e-3)


def spmm_rows(rng: Rng, rows: int, columns: int, degree: float) -> Case:
    first, where = graph(rng, rows, degree)
    value, b = normal(rng, where.size), normal(rng, (rows, columns))
    want, owner = np.zeros((rows, columns)), np.repeat(np.arange(rows), np.diff(first))
    np.add.at(want, owner, value[:, None].astype(F64) * b[where])
    args = (np.zeros(want.size, F32), first, where, value, b.ravel(), I32(columns))
    expected = {0: want.astype(F32).ravel()}
    return launch("networks", "spmm_rows", rows, 128, args, expected, rtol=1e-3, atol=1e-3)


CASES: dict[str, Sized] = {
    "radix_partition": sized(radix_partition, {"n": 5000}, n=1000000),
    "cuckoo_lookup": sized(cuckoo_lookup, {"buckets": 256, "n": 900}, buckets=1 << 17, n=500000),
    "like_match": sized(like_match, {"rows": 300}, rows=30000),
    "json_bitmaps": sized(json_bitmaps, {"chunks": 9}, chunks=3000),
    "rle_expand": sized(rle_expand, {"runs": 200}, runs=60000),
    "filter_query6": sized(filter_query6, {"n": 3200, "grid": 2}, n=2000000, grid=528),
    "varint_decode": sized(varint_decode, {"n": 300}, n=40000),
    "hyperloglog": sized(hyperloglog, {"n": 5000, "grid": 2}, n=1200000, grid=132),
    "count_min": sized(count_min, {"n": 2000, "width": 512}, n=150000, width=65536),
    "group_by_month": sized(group_by_month, {"n": 2000, "grid": 2}, n=800000, grid=264),
    "label_propagate": sized(label_propagate, {"nodes": 200}, nodes=9000, degree=14),
    "luby_round": sized(luby_round, {"nodes": 500}, nodes=60000, degree=8),
    "brandes_backward": sized(brandes_backward, {"nodes": 500}, nodes=100000, degree=10),
    "jaccard_edges": sized(jaccard_edges, {"nodes": 300, "n": 300}, nodes=8000, degree=30, n=50000),
    "random_walks": sized(random_walks, {"nodes": 400, "walks": 300, "steps": 5}, nodes=50000, degree=12, walks=40000, steps=16),
    "gat_aggregate": sized(gat_aggregate, {"nodes": 100}, nodes=12000, degree=16),
    "boruvka_edges": sized(boruvka_edges, {"nodes": 300, "n": 1500}, nodes=40000, n=400000),
    "sddmm": sized(sddmm, {"rows": 50, "n": 300}, rows=4000, n=60000, depth=128),
    "spmm_rows": sized(spmm_rows, {"rows": 60, "columns": 64}, rows=3000, columns=256, degree=20),
}  # fmt: skip
