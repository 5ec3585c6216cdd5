"""Kinds of kernels of the known benchmark suites: Rodinia's, Parboil's, SHOC's, PolyBench's."""

from __future__ import annotations

import numpy as np

from bench.holdout.fourth.case import Array, Case, Rng, Sized, launch, normal, sized

I8, I32, F32, F64, U8, U16 = np.int8, np.int32, np.float32, np.float64, np.uint8, np.uint16


def hodgkin_huxley(rng: Rng, n: int, steps: int) -> Case:
    state = np.stack([rng.uniform(-10, 60, n), *rng.uniform(0.1, 0.6, (3, n))]).astype(F32)
    v, m, h, g = state.astype(F64)
    dt, current = 0.01, 8.0

    def ratio(x: Array) -> Array:
        small = np.abs(x) < 1e-3
        return np.where(small, 1 - 0.5 * x, x / np.expm1(np.where(small, 1, x)))

    for _ in range(steps):
        an, bn = 0.1 * ratio((10 - v) / 10), 0.125 * np.exp(-v / 80)
        am, bm = ratio((25 - v) / 10), 4 * np.exp(-v / 18)
        ah, bh = 0.07 * np.exp(-v / 20), 1 / (np.exp((30 - v) / 10) + 1)
        flow = current - 120 * m**3 * h * (v - 115) - 36 * g**4 * (v + 12) - 0.3 * (v - 10.6)
        v, g = v + dt * flow, g + dt * (an * (1 - g) - bn * g)
        m, h = m + dt * (am * (1 - m) - bm * m), h + dt * (ah * (1 - h) - bh * h)
    args = (np.zeros(n, F32), state.ravel(), F32(current), I32(n), I32(steps), F32(dt))
    return launch("suites", "hodgkin_huxley", -(-n // 192), 192, args, {0: v.astype(F32)}, rtol=2e-3, atol=5e-3)


def gotoh_warp(rng: Rng, pairs: int, rows: int, columns: int) -> Case:
    query, target = rng.integers(0, 24, (pairs, rows), dtype=U8), rng.integers(0, 24, (pairs, columns), dtype=U8)
    target[:, 3 : 3 + rows // 2] = query[:, : rows // 2]
    matrix = rng.integers(-4, 3, (24, 24), dtype=I8)
    matrix[np.arange(24), np.arange(24)] = rng.integers(4, 10, 24)
    high, down = np.zeros((columns + 1, pairs), I32), np.full((columns + 1, pairs), -30000)
    best = np.zeros(pairs, I32)
    for r in range(rows):
        diagonal, left, across = np.zeros(pairs, I32), np.zeros(pairs, I32), np.full(pairs, -30000)
        for c in range(columns):
            above = high[c].copy()
            across, down[c] = np.maximum(across - 1, left - 11), np.maximum(down[c] - 1, above - 11)
            value = diagonal + matrix[query[:, r], target[:, c]]
            left = np.maximum(np.maximum(0, value), np.maximum(across, down[c]))
            high[c], diagonal = left, above
            best = np.maximum(best, left)
    args = (np.zeros(pairs, I32), query.ravel(), target.ravel(), matrix.ravel(), I32(pairs), I32(rows), I32(columns))
    return launch("suites", "gotoh_warp", -(-pairs // 4), 128, args, {0: best.astype(I32)})


def backprop_forward(rng: Rng, inputs: int) -> Case:
    weights, given = rng.random((inputs + 1, 17), F32), rng.random(inputs + 1, F32)
    tiles = (weights[1:, 1:] * given[1:, None]).reshape(inputs // 16, 16, 16)
    for power in (2, 4, 8, 16):
        tiles[:, ::power] += tiles[:, power // 2 :: power]
    after = weights.copy()
    after[1:, 1:] = tiles.reshape(inputs, 16)
    args = (np.zeros(inputs, F32), weights.ravel(), given, I32(16))
    expected = {0: tiles[:, 0].ravel(), 1: after.ravel()}
    return launch("suites", "backprop_forward", (1, inputs // 16), (16, 16), args, expected, rtol=1e-5)


def streamcluster_gain(rng: Rng, n: int, dims: int, centres: int) -> Case:
    x, weight, cost = rng.random((dims, n), F32), rng.integers(1, 4, n).astype(F32), rng.random(n, F32) * dims / 3
    centre = rng.choice(n, centres, replace=False)
    assigned, table, lower = (
        centre[rng.integers(0, centres, n)].astype(I32),
        np.zeros(n, I32),
        np.zeros((n, centres + 1), F32),
    )
    table[centre] = np.arange(centres)
    exact = x.astype(F64)
    change = ((exact - exact[:, 5:6]) ** 2).sum(axis=0) * weight - cost
    near = np.abs(change) < 1e-4
    assert not near.any()
    want, rows = lower.astype(F64), np.arange(n)
    want[rows[change < 0], centres] = change[change < 0]
    want[rows[change >= 0], table[assigned[change >= 0]]] = -change[change >= 0]
    args = (
        *(lower.ravel(), np.zeros(n, I32), x.ravel(), weight, cost, assigned, table),
        *(I32(n), I32(dims), I32(centres), I32(5)),
    )
    expected = {0: want.astype(F32).ravel(), 1: (change < 0).astype(I32)}
    return launch(
        "suites", "streamcluster_gain", -(-n // 256), 256, args, expected, rtol=1e-4, atol=1e-3, shared_bytes=4 * dims
    )


def suffix_search(rng: Rng, n: int, count: int, length: int) -> Case:
    text = np.frombuffer(b"ACGT", U8)[rng.integers(0, 4, n)]
    padded = np.concatenate([text, np.zeros(64, U8)])
    windows = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(padded, 64)[:n])
    order = np.argsort(windows.view("S64").ravel(), kind="stable")
    starts = rng.integers(0, n - length, count)
    queries = text[starts[:, None] + np.arange(length)]
    wrong = rng.random(count) < 0.3
    queries[wrong, rng.integers(length // 2, length, wrong.sum())] = ord("A")
    prefixes = np.ascontiguousarray(windows[order][:, :length]).view(f"S{length}").ravel()
    keys = np.ascontiguousarray(queries).view(f"S{length}").ravel()
    want = np.stack([np.searchsorted(prefixes, keys, side) for side in ("left", "right")], axis=1).astype(I32)
    args = (np.zeros(count * 2, I32), text, order.astype(I32), queries.ravel(), I32(n), I32(count), I32(length))
    return launch("suites", "suffix_search", -(-count // 128), 128, args, {0: want.ravel()})


def template_correlate(rng: Rng, points: int, width: int, height: int) -> Case:
    image, parts = rng.random((height, width), F32), rng.random((points, 16, 16), F32)
    at = np.stack([rng.integers(0, width - 48, points), rng.integers(0, height - 48, points)], axis=1).astype(I32)
    want = np.zeros((points, 33, 33))
    for p, (x, y) in enumerate(at):
        parts[p] = 0.7 * parts[p] + 0.3 * image[y + 9 : y + 25, x + 5 : x + 21]
        window = np.lib.stride_tricks.sliding_window_view(image[y : y + 48, x : x + 48].astype(F64), (16, 16))
        off = parts[p].astype(F64) - parts[p].astype(F64).mean()
        dot = np.einsum("yxrc,rc->yx", window, off)
        want[p] = dot / np.sqrt((off**2).sum() * 256 * window.var(axis=(2, 3)))
    args = (np.zeros(want.size, F32), image.ravel(), parts.ravel(), at.ravel(), I32(width))
    return launch(
        "suites", "template_correlate", points, 256, args, {0: want.astype(F32).ravel()}, rtol=1e-3, atol=1e-4
    )


def particle_likelihood(rng: Rng, n: int, width: int, height: int) -> Case:
    picture = rng.integers(80, 250, (height, width), dtype=U8)
    y, x = np.mgrid[-4:5, -4:5]
    inside = x * x + y * y <= 22
    disc = np.stack([x[inside], y[inside]], axis=1).astype(I32)
    particles = (rng.normal(0.5, 0.1, (n, 2)) * [width, height]).astype(F32)
    at = np.rint(particles).astype(I32)[:, None] + disc
    values = picture[np.clip(at[..., 1], 0, height - 1), np.clip(at[..., 0], 0, width - 1)].astype(F64)
    weight = np.exp((((values - 100) ** 2 - (values - 228) ** 2) / 50).mean(axis=1) * 0.01)
    blocks = -(-n // 256)
    total = np.pad(weight, (0, blocks * 256 - n)).reshape(blocks, 256).sum(axis=1)
    args = (
        *(np.zeros(n, F32), np.zeros(blocks, F32), particles.ravel(), picture.ravel(), disc.ravel()),
        *(I32(len(disc)), I32(n), I32(width), I32(height)),
    )
    expected = {0: weight.astype(F32), 1: total.astype(F32)}
    return launch("suites", "particle_likelihood", blocks, 256, args, expected, rtol=1e-4)


def lifted(x: Array) -> Array:
    """One level of the 5/3 wavelet along the last axis: low half, high half."""
    even, odd = x[..., ::2], x[..., 1::2]
    high = odd - (even + np.concatenate([even[..., 1:], even[..., -1:]], axis=-1) >> 1)
    low = even + (np.concatenate([high[..., :1], high[..., :-1]], axis=-1) + high + 2 >> 2)
    return np.concatenate([low, high], axis=-1)


def dwt53_tiles(rng: Rng, across: int, down: int) -> Case:
    src = rng.integers(0, 256, (down, 64, across, 64), dtype=U8)
    tiles = src.swapaxes(1, 2).astype(I32) - 128
    for size in (64, 32, 16):
        part = lifted(tiles[..., :size, :size])
        tiles[..., :size, :size] = lifted(part.swapaxes(-1, -2)).swapaxes(-1, -2)
    args = (np.zeros(src.size, I32), src.ravel(), I32(across * 64))
    return launch("suites", "dwt53_tiles", (across, down), 256, args, {0: tiles.swapaxes(1, 2).ravel()})


def cutoff_lattice(rng: Rng, side: int) -> Case:
    spacing, cutoff = 0.5, 3.9
    bins = np.zeros((side, side, side, 8, 4), F32)
    z, y, x = np.mgrid[:side, :side, :side]
    corner = np.stack([x, y, z], axis=-1)[..., None, :]
    bins[..., :3] = (corner + rng.random((side, side, side, 8, 3))) * (8 * spacing) + 0.01
    bins[..., 3] = rng.uniform(0.5, 1, bins.shape[:4]) * (np.arange(8) < rng.integers(2, 9, (side, side, side, 1)))
    want, wide = np.zeros((side * 8, side * 8, side * 8)), np.pad(bins.astype(F64), ((1, 1),) * 3 + ((0, 0),) * 2)
    for cz, cy, cx in np.ndindex(side, side, side):
        atoms = wide[cz : cz + 3, cy : cy + 3, cx : cx + 3].reshape(-1, 4)
        atoms = atoms[atoms[:, 3] > 0]
        places = (
            np.stack(np.mgrid[cz * 8 : cz * 8 + 8, cy * 8 : cy * 8 + 8, cx * 8 : cx * 8 + 8][::-1], axis=-1) * spacing
        )
        r2 = ((places[..., None, :] - atoms[:, :3]) ** 2).sum(axis=-1)
        s = np.maximum(1 - r2 / cutoff**2, 0)
        part = (atoms[:, 3] / np.sqrt(r2) * s * s).sum(axis=-1)
        want[cz * 8 : cz * 8 + 8, cy * 8 : cy * 8 + 8, cx * 8 : cx * 8 + 8] = part
    args = (np.zeros(want.size, F32), bins.ravel(), I32(side), F32(spacing), F32(cutoff**2))
    expected = {0: want.astype(F32).ravel()}
    return launch("suites", "cutoff_lattice", (side, side, side), 128, args, expected, rtol=2e-3, atol=1e-3)


def gridding_gather(rng: Rng, tiles: int, spokes: int, each: int) -> Case:
    width = tiles * 16
    angle = np.repeat(np.arange(spokes) * np.pi / spokes, each)
    radius = np.tile(np.linspace(-0.48, 0.48, each), spokes) * width
    samples = np.zeros((spokes * each, 4), F32)
    samples[:, 0], samples[:, 1] = width / 2 + radius * np.cos(angle), width / 2 + radius * np.sin(angle)
    samples[:, 2:] = normal(rng, (len(samples), 2))
    x, y = samples[:, 0].astype(F64), samples[:, 1].astype(F64)
    lists = []
    for ty in range(tiles):
        rows = np.flatnonzero((y > ty * 16 - 2) & (y < ty * 16 + 17))
        lists += [rows[(x[rows] > tx * 16 - 2) & (x[rows] < tx * 16 + 17)] for tx in range(tiles)]
    first = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(I32)
    want = np.zeros((width, width, 2))
    for dy in range(-2, 4):
        for dx in range(-2, 4):
            gx, gy = np.floor(x).astype(int) + dx - 1, np.floor(y).astype(int) + dy - 1
            r2 = (x - gx) ** 2 + (y - gy) ** 2
            ok = (r2 < 4) & (gx >= 0) & (gy >= 0) & (gx < width) & (gy < width)
            np.add.at(want, (gy[ok], gx[ok]), np.exp(-1.5 * r2[ok])[:, None] * samples[ok, 2:])
    args = (np.zeros(want.size, F32), samples.ravel(), first, np.concatenate(lists).astype(I32), I32(width))
    expected = {0: want.astype(F32).ravel()}
    return launch("suites", "gridding_gather", (tiles, tiles), 256, args, expected, rtol=1e-2, atol=2e-2)


def s3d_rates(rng: Rng, n: int) -> Case:
    table = np.stack([rng.uniform(0, 2, 24), rng.uniform(-0.5, 0.5, 24), rng.uniform(100, 3000, 24)], axis=1).astype(
        F32
    )
    c, t = rng.random((9, n), F32), rng.uniform(800, 2000, n).astype(F32)
    rates, exact, kelvin = np.zeros((9, n)), c.astype(F64), t.astype(F64)
    for r, (a, b, e) in enumerate(table.astype(F64)):
        forward = np.exp(a + b * np.log(kelvin) - e / kelvin)
        one, two, three, four = r % 9, (r * 4 + 1) % 9, (r * 5 + 2) % 9, (r * 7 + 3) % 9
        backward = forward * np.exp(0.1 * e / kelvin - 1)
        q = forward * exact[one] * exact[two] - backward * exact[three] * exact[four]
        for s, sign in ((one, -1), (two, -1), (three, 1), (four, 1)):
            rates[s] += sign * q
    args = (np.zeros(9 * n, F32), c.ravel(), t, I32(n))
    return launch(
        "suites", "s3d_rates", -(-n // 128), 128, args, {0: rates.astype(F32).ravel()},
        rtol=1e-3, atol=2e-2, device_globals={"arrhenius": table},
    )  # fmt: skip


def gesummv_rows(rng: Rng, n: int) -> Case:
    a, b, x = normal(rng, (n, n)), normal(rng, (n, n)), normal(rng, n)
    args = (np.zeros(n, F32), a.ravel(), b.ravel(), x, I32(n), F32(1.5), F32(-0.5))
    want = 1.5 * (a @ x) - 0.5 * (b @ x)
    return launch("suites", "gesummv_rows", -(-n // 128), 128, args, {0: want.astype(F32)}, rtol=1e-3, atol=1e-2)


def syr2k_naive(rng: Rng, n: int, m: int) -> Case:
    a, b, c = normal(rng, (n, m)), normal(rng, (n, m)), normal(rng, (n, n))
    want = c * F32(1.2) + 0.7 * (a @ b.T + b @ a.T)
    args = (c.ravel(), a.ravel(), b.ravel(), I32(n), I32(m), F32(0.7), F32(1.2))
    grid = (-(-n // 32), -(-n // 8))
    return launch("suites", "syr2k_naive", grid, (32, 8), args, {0: want.astype(F32).ravel()}, rtol=1e-3, atol=1e-2)


def nussinov_diagonal(rng: Rng, n: int, apart: int) -> Case:
    bases, table = rng.integers(0, 4, n, dtype=U8), np.cumsum(rng.integers(0, 2, (n, n)), axis=1, dtype=I32)
    want = table.copy()
    for i in range(n - apart):
        j = i + apart
        splits = table[i, i + 1 : j] + table[i + 2 : j + 1, j]
        pair = table[i + 1, j - 1] + (int(bases[i]) + int(bases[j]) == 3)
        want[i, j] = max(table[i + 1, j], table[i, j - 1], pair, splits.max())
    args = (table.ravel(), bases, I32(n), I32(apart))
    return launch("suites", "nussinov_diagonal", -(-(n - apart) // 64), 64, args, {0: want.ravel()})


def bucket_pivots(rng: Rng, n: int, grid: int) -> Case:
    pivots, keys = np.sort(rng.standard_normal(1024, F32)), normal(rng, n)
    pivots[0] = -100
    want = np.searchsorted(pivots, keys, "right") - 1
    counts = np.zeros((grid, 1024), I32)
    np.add.at(counts, (np.arange(n) // 256 % grid, want), 1)
    args = (np.zeros(n, U16), np.zeros(grid * 1024, I32), keys, pivots, I32(n))
    return launch("suites", "bucket_pivots", grid, 256, args, {0: want.astype(U16), 1: counts.ravel()})


CASES: dict[str, Sized] = {
    "hodgkin_huxley": sized(hodgkin_huxley, {"n": 200, "steps": 5}, n=100000, steps=40),
    "gotoh_warp": sized(gotoh_warp, {"pairs": 6, "columns": 40}, pairs=1500, rows=64, columns=180),
    "backprop_forward": sized(backprop_forward, {"inputs": 64}, inputs=65536),
    "streamcluster_gain": sized(streamcluster_gain, {"n": 300, "dims": 8}, n=30000, dims=64, centres=40),
    "suffix_search": sized(suffix_search, {"n": 2000, "count": 200}, n=400000, count=30000, length=24),
    "template_correlate": sized(template_correlate, {"points": 2, "width": 90, "height": 70}, points=51, width=640, height=480),
    "particle_likelihood": sized(particle_likelihood, {"n": 300, "width": 64, "height": 64}, n=40000, width=512, height=512),
    "dwt53_tiles": sized(dwt53_tiles, {"across": 2, "down": 1}, across=20, down=15),
    "cutoff_lattice": sized(cutoff_lattice, {"side": 2}, side=9),
    "gridding_gather": sized(gridding_gather, {"tiles": 3, "spokes": 9, "each": 40}, tiles=16, spokes=200, each=200),
    "s3d_rates": sized(s3d_rates, {"n": 150}, n=96000),
    "gesummv_rows": sized(gesummv_rows, {"n": 70}, n=1500),
    "syr2k_naive": sized(syr2k_naive, {"n": 40, "m": 20}, n=300, m=200),
    "nussinov_diagonal": sized(nussinov_diagonal, {"n": 120, "apart": 40}, n=2000, apart=500),
    "bucket_pivots": sized(bucket_pivots, {"n": 1500, "grid": 2}, n=700000, grid=200),
}  # fmt: skip
