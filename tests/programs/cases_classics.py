"""Kernels in the manner of the public benchmark suites, with references in NumPy."""

from __future__ import annotations

import hashlib

import numpy as np

from tests.kernels.case import Array, Case, Size
from tests.programs.build import F32, I32, U8, U32, probe

FILE = "classics.cu"


def lu_block(size: Size, rng: np.random.Generator) -> Case:
    a = rng.standard_normal((3, 16, 16)) + 8 * np.eye(16)
    want = a.copy()
    for k in range(16):
        want[:, k + 1 :, k] /= want[:, k : k + 1, k]
        want[:, k + 1 :, k + 1 :] -= want[:, k + 1 :, k, None] * want[:, k, None, k + 1 :]
    return probe(FILE, "lu_block", 3, 16, (a.astype(F32).ravel(),), {0: want.astype(F32).ravel()}, rtol=1e-4, atol=1e-4)


def path_finder(size: Size, rng: np.random.Generator) -> Case:
    rows, columns = 5, 130
    wall, src = rng.integers(0, 10, (rows, columns), dtype=I32), rng.integers(0, 10, columns, dtype=I32)
    want = src.astype(np.int64)
    for row in wall:
        padded = np.pad(want, 1, constant_values=1 << 28)
        want = np.minimum(np.minimum(padded[:-2], padded[2:]), want) + row
    args = (np.zeros(columns, I32), wall.ravel(), src, I32(rows), I32(columns))
    return probe(FILE, "path_finder", 3, 64, args, {0: want.astype(I32)})


def needleman_wunsch(size: Size, rng: np.random.Generator) -> Case:
    n, penalty = 30, 4
    similar = rng.integers(-6, 9, (n, n), dtype=I32)
    s = np.zeros((n + 1, n + 1), I32)
    s[0], s[:, 0] = -penalty * np.arange(n + 1), -penalty * np.arange(n + 1)
    for r in range(1, n + 1):
        for c in range(1, n + 1):
            s[r, c] = max(s[r - 1, c - 1] + similar[r - 1, c - 1], s[r - 1, c] - penalty, s[r, c - 1] - penalty)
    args = (np.zeros((n + 1) ** 2, I32), similar.ravel(), I32(n), I32(penalty))
    return probe(FILE, "needleman_wunsch", 1, 32, args, {0: s.ravel()})


def hot_spot(size: Size, rng: np.random.Generator) -> Case:
    w, h = 20, 13
    heat, power = (rng.uniform(10, 90, (h, w)).astype(F32) for _ in range(2))
    p = np.pad(heat.astype(float), 1, mode="edge")
    c = p[1:-1, 1:-1]
    flow = (p[2:, 1:-1] + p[:-2, 1:-1] - 2 * c) * 0.2 + (p[1:-1, 2:] + p[1:-1, :-2] - 2 * c) * 0.1 + (80 - c) * 0.05
    want = c + 0.5 * (power + flow)
    args = (np.zeros(w * h, F32), heat.ravel(), power.ravel(), I32(w), I32(h), F32(0.1), F32(0.2), F32(0.05), F32(0.5))
    return probe(FILE, "hot_spot", (2, 2), (16, 8), args, {0: want.astype(F32).ravel()}, rtol=1e-5)


def speckle_coefficients(size: Size, rng: np.random.Generator) -> Case:
    w, h, q0 = 18, 11, 0.3
    image = rng.uniform(1, 2, (h, w)).astype(F32)
    p = np.pad(image.astype(float), 1, mode="edge")
    j = p[1:-1, 1:-1]
    n, s, e, v = p[:-2, 1:-1] - j, p[2:, 1:-1] - j, p[1:-1, 2:] - j, p[1:-1, :-2] - j
    g2, lap = (n * n + s * s + e * e + v * v) / (j * j), (n + s + e + v) / j
    q = (0.5 * g2 - 0.0625 * lap * lap) / (1 + 0.25 * lap) ** 2
    want = np.clip(1 / (1 + (q - q0) / (q0 * (1 + q0))), 0, 1).astype(F32)
    args = (np.zeros(w * h, F32), image.ravel(), I32(w), I32(h), F32(q0))
    return probe(FILE, "speckle_coefficients", (2, 2), (16, 8), args, {0: want.ravel()}, rtol=2e-5, atol=1e-6)


def gauss_step(size: Size, rng: np.random.Generator) -> Case:
    n, k = 20, 3
    m, a, b = rng.standard_normal((n, n), F32), rng.standard_normal((n, n), F32), rng.standard_normal(n, F32)
    want, right = a.astype(float), b.astype(float)
    want[k + 1 :, k:] -= m[k + 1 :, k, None].astype(float) * a[k, None, k:]
    right[k + 1 :] -= m[k + 1 :, k] * right[k]
    args = (m.ravel(), a.ravel(), b, I32(n), I32(k))
    expected = {1: want.astype(F32).ravel(), 2: right.astype(F32)}
    return probe(FILE, "gauss_step", (2, 3), (16, 8), args, expected, rtol=1e-5, atol=1e-6)


def back_propagation(size: Size, rng: np.random.Generator) -> Case:
    weights, before = (rng.standard_normal(17 * 18, F32) for _ in range(2))
    args = (weights, before, rng.standard_normal(17, F32), rng.standard_normal(17, F32), I32(16))
    return probe(FILE, "back_propagation", 1, (16, 16), args)


def column_covariance(size: Size, rng: np.random.Generator) -> Case:
    rows, columns = 17, 14
    data = rng.standard_normal((rows, columns), F32)
    want = np.cov(data.astype(float), rowvar=False).astype(F32)
    args = (np.zeros(columns**2, F32), data.ravel(), I32(rows), I32(columns))
    return probe(FILE, "column_covariance", 1, 32, args, {0: want.ravel()}, rtol=1e-4, atol=1e-5)


def rank_two_update(size: Size, rng: np.random.Generator) -> Case:
    n, m = 12, 9
    c, a, b = rng.standard_normal((n, n)), rng.standard_normal((n, m)), rng.standard_normal((n, m))
    want = 0.5 * c + 1.5 * (a @ b.T + b @ a.T)
    args = (c.ravel(), a.ravel(), b.ravel(), I32(n), I32(m), np.float64(1.5), np.float64(0.5))
    return probe(FILE, "rank_two_update", (1, 2), (16, 8), args, {0: want.ravel()}, rtol=1e-12, atol=1e-12)


def fdtd_fields(size: Size, rng: np.random.Generator) -> Case:
    w, h = 14, 9
    ex, ey, hz = (rng.standard_normal((h, w), F32) for _ in range(3))
    x, y, z = ex.astype(float), ey.astype(float), hz.astype(float)
    y[1:] -= 0.5 * (z[1:] - z[:-1])
    y[0] = 0.75
    x[:, 1:] -= 0.5 * (z[:, 1:] - z[:, :-1])
    z[:-1, :-1] -= 0.7 * (x[:-1, 1:] - x[:-1, :-1] + y[1:, :-1] - y[:-1, :-1])
    args = (ex.ravel(), ey.ravel(), hz.ravel(), I32(w), I32(h), F32(0.75))
    want = {0: x.astype(F32).ravel(), 1: y.astype(F32).ravel(), 2: z.astype(F32).ravel()}
    return probe(FILE, "fdtd_fields", 1, 64, args, want, rtol=1e-5, atol=1e-5)


def resonance(size: Size, rng: np.random.Generator) -> Case:
    n, count = 40, 20
    samples = rng.uniform(-0.5, 0.5, (64, 4)).astype(F32)
    x, y, z = (rng.uniform(-1, 1, n).astype(F32) for _ in range(3))
    phase = (
        2
        * np.pi
        * (samples[:count, 0] * x[:, None] + samples[:count, 1] * y[:, None] + samples[:count, 2] * z[:, None])
    )
    want = np.stack(
        [(samples[:count, 3] * np.cos(phase)).sum(axis=1), (samples[:count, 3] * np.sin(phase)).sum(axis=1)], axis=1
    )
    args = (np.zeros(2 * n, F32), x, y, z, I32(n), I32(count))
    more = {"device_globals": {"samples": samples.ravel()}, "rtol": 1e-5, "atol": 1e-5}
    return probe(FILE, "resonance", 2, 32, args, {0: want.astype(F32).ravel()}, **more)


def lennard_jones(size: Size, rng: np.random.Generator) -> Case:
    n, count = 48, 8
    position = rng.uniform(0, 4, (n, 4)).astype(F32)
    neighbours = rng.integers(0, n, (count, n), dtype=I32)
    d = position[:, None, :3].astype(float) - position[neighbours.T, :3]
    r2 = (d * d).sum(axis=2)
    near = (r2 < 6.0) & (r2 > 0)
    inverse = np.where(near, 1 / np.where(near, r2, 1), 0)
    six = inverse**3
    s = inverse * six * (1.5 * six - 2)
    want = np.concatenate([(d * s[..., None]).sum(axis=1), six.sum(axis=1)[:, None]], axis=1).astype(F32)
    args = (np.zeros(4 * n, F32), position.ravel(), neighbours.ravel(), I32(n), I32(count), F32(6.0))
    return probe(FILE, "lennard_jones", 2, 32, args, {0: want.ravel()}, rtol=2e-3, atol=1e-4)


def walsh(size: Size, rng: np.random.Generator) -> Case:
    data = rng.integers(-8, 9, (2, 128)).astype(F32)
    want = data.copy()
    stride = 1
    while stride < 128:
        pairs = want.reshape(2, -1, 2, stride)
        want = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(2, 128)
        stride *= 2
    return probe(FILE, "walsh", 2, 48, (data.ravel(), I32(7)), {0: want.ravel()}, shared_bytes=512)


def binomial_option(size: Size, rng: np.random.Generator) -> Case:
    steps, up, down, p, discount = 30, 1.02, 1 / 1.02, 0.52, 0.999
    spot, strike = rng.uniform(80, 120, 3).astype(F32), rng.uniform(80, 120, 3).astype(F32)
    k = np.arange(steps + 1)
    value = np.maximum(spot[:, None].astype(float) * up**k * down ** (steps - k) - strike[:, None], 0)
    for _ in range(steps):
        value = discount * (p * value[:, 1:] + (1 - p) * value[:, :-1])
    args = (np.zeros(3, F32), spot, strike, I32(steps), F32(up), F32(down), F32(p), F32(discount))
    want = {0: value[:, 0].astype(F32)}
    return probe(FILE, "binomial_option", 3, 48, args, want, shared_bytes=256, rtol=1e-4, atol=1e-4)


def mersenne(size: Size, rng: np.random.Generator) -> Case:
    count, threads = 40, 64
    return probe(
        FILE,
        "mersenne",
        2,
        32,
        (np.zeros(count * threads, U32), rng.integers(0, 2**32, threads, dtype=U32), I32(count)),
    )


def cosine_8x8(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 256, (16, 24)).astype(F32)
    k = np.arange(8)
    basis = np.cos((2 * k[None] + 1) * k[:, None] * np.pi / 16) * np.where(k, 0.5, 0.35355339)[:, None]
    blocks = (src - 128).reshape(2, 8, 3, 8).transpose(0, 2, 1, 3)
    want = np.rint(basis @ blocks @ basis.T).transpose(0, 2, 1, 3).reshape(16, 24).astype(F32)
    args = (np.zeros(16 * 24, F32), src.ravel(), I32(24))
    return probe(FILE, "cosine_8x8", (3, 2), (8, 8), args, {0: want.ravel()}, atol=1.0)


def relax_edges(size: Size, rng: np.random.Generator) -> Case:
    nodes, count = 40, 120
    edges = np.stack([rng.integers(0, nodes, count), rng.integers(0, nodes, count), rng.integers(1, 20, count)], axis=1)
    distance: Array = np.full(nodes, 1 << 28, I32)
    distance[0] = 0
    want = distance.copy()
    for _ in range(nodes):
        for a, b, weight in edges:
            if want[a] < 1 << 28:
                want[b] = min(want[b], want[a] + weight)
    args = (distance, np.zeros(1, I32), edges.astype(I32).ravel(), I32(count))
    return probe(FILE, "relax_edges", 1, 64, args, {0: want})


def components(size: Size, rng: np.random.Generator) -> Case:
    nodes, count = 60, 45
    edges = rng.integers(0, nodes, (count, 2), dtype=I32)
    want = np.arange(nodes, dtype=I32)
    for _ in range(nodes):
        for a, b in edges:
            want[a] = want[b] = min(want[a], want[b])
    return probe(FILE, "components", 1, 64, (np.arange(nodes, dtype=I32), edges.ravel(), I32(count)), {0: want})


def image_filters(size: Size, rng: np.random.Generator) -> Case:
    w, h = 19, 14
    image = rng.integers(0, 256, (h, w), dtype=U8)
    p = np.pad(image, 1, mode="edge")
    v = np.stack([p[y : y + h, x : x + w] for y in range(3) for x in range(3)]).astype(I32)
    gx, gy = v[2] + 2 * v[5] + v[8] - v[0] - 2 * v[3] - v[6], v[6] + 2 * v[7] + v[8] - v[0] - 2 * v[1] - v[2]
    edge = np.minimum(np.sqrt((gx * gx + gy * gy).astype(float)).astype(I32), 255).astype(U8)
    median = np.sort(v, axis=0)[4].astype(U8)
    dy, dx = np.divmod(np.arange(9), 3)
    d = v - image
    g = np.exp(-0.5 * ((dx - 1) ** 2 + (dy - 1) ** 2)[:, None, None] - d * d / 800)
    smooth = ((g * v).sum(axis=0) / g.sum(axis=0)).astype(F32)

    def right(outputs: dict[int, Array]) -> None:
        np.testing.assert_allclose(outputs[0], smooth.ravel(), rtol=1e-5)
        np.testing.assert_array_equal(outputs[1], edge.ravel())
        np.testing.assert_array_equal(outputs[2], median.ravel())

    args = (np.zeros(w * h, F32), np.zeros(w * h, U8), np.zeros(w * h, U8), image.ravel(), I32(w), I32(h))
    return probe(FILE, "image_filters", (2, 2), (16, 8), args, check=right)


def long_grid(size: Size, rng: np.random.Generator) -> Case:
    grid, n = (70, 5, 3), 100
    x, y, z = np.meshgrid(*(np.arange(g) for g in grid), indexing="ij")
    marks = np.zeros(4 + n, U32)
    marks[:3] = grid
    marks[4:] = np.arange(n) ** 2
    args = (np.zeros(1, U32), np.zeros(4 + n, U32), I32(n))
    return probe(FILE, "long_grid", grid, 32, args, {0: np.array([(x + 3 * y + 7 * z).sum()], U32), 1: marks})


def sha256(size: Size, rng: np.random.Generator) -> Case:
    n = 32
    messages = [bytes(rng.integers(0, 256, int(length), dtype=U8)) for length in rng.integers(0, 56, n)]
    padded = [m + b"\x80" + bytes(55 - len(m)) + (8 * len(m)).to_bytes(8, "big") for m in messages]
    src = np.frombuffer(b"".join(padded), ">u4").astype(U32)
    want = np.frombuffer(b"".join(hashlib.sha256(m).digest() for m in messages), ">u4").astype(U32)
    return probe(FILE, "sha256", 1, 32, (np.zeros(8 * n, U32), src), {0: want})


CASES = (
    *(lu_block, path_finder, needleman_wunsch, hot_spot, speckle_coefficients, gauss_step, back_propagation),
    *(column_covariance, rank_two_update, fdtd_fields, resonance, lennard_jones, walsh, binomial_option, mersenne),
    *(cosine_8x8, relax_edges, components, image_filters, long_grid, sha256),
)
