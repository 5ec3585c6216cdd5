"""Sums, scans, sorts, particles, random numbers, transforms, pictures, linear systems."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import special

from bench.validation.case import Array, Builder, Case, Outputs, launch

I32, F32, F64, U32, U8 = np.int32, np.float32, np.float64, np.uint32, np.uint8
Rng = np.random.Generator


def sum_two_level(rng: Rng, n: int, grid: int) -> Case:
    src = rng.integers(0, 4, n, dtype=np.int8).astype(F32)
    args = (np.zeros(1, F32), src, I32(n // 4))
    return launch("reductions", "sum_two_level", grid, 256, args, {0: np.array([src.sum(dtype=F64)], F32)})


def strided(values: Array, threads: int, fill: int) -> Array:
    """Rows of what each pass of a grid-stride loop reads."""
    padded = np.full(-(-values.size // threads) * threads, fill, values.dtype)
    padded[: values.size] = values
    return padded.reshape(-1, threads)


def sum_group_tiles(rng: Rng, n: int, grid: int) -> Case:
    src = rng.integers(-100, 100, n, dtype=I32)
    want = strided(src, grid * 256, 0).sum(axis=0).reshape(grid, 256).sum(axis=1).astype(I32)
    return launch("reductions", "sum_group_tiles", grid, 256, (np.zeros(grid, I32), src, I32(n)), {0: want})


def argmax_block(rng: Rng, n: int, grid: int) -> Case:
    src = rng.permutation(n).astype(F32)
    mine = strided(np.arange(n), grid * 256, -1).reshape(-1, grid, 256).transpose(1, 0, 2).reshape(grid, -1)
    value = np.where(mine >= 0, src[mine], -1)
    place = mine[np.arange(grid), value.argmax(axis=1)]
    args = (np.zeros(grid, F32), np.zeros(grid, I32), src, I32(n))
    return launch("reductions", "argmax_block", grid, 256, args, {0: src[place], 1: place.astype(I32)})


def segment_sums(rng: Rng, segments: int, mean: int) -> Case:
    lengths = rng.integers(0, 2 * mean, segments)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(I32)
    values = rng.integers(-100, 100, int(starts[-1]), dtype=I32)
    total = np.concatenate(([0], np.cumsum(values)))
    want = (total[starts[1:]] - total[starts[:-1]]).astype(I32)
    args = (np.zeros(segments, I32), values, starts, I32(segments))
    return launch("reductions", "segment_sums", -(-segments // 32), 256, args, {0: want})


def scan_tiles(rng: Rng, n: int) -> Case:
    src = rng.integers(-100, 100, n, dtype=I32)
    tiles = strided(src, 1024, 0).cumsum(axis=1).astype(I32)
    args = (np.zeros(n, I32), np.zeros(len(tiles), I32), src, I32(n))
    return launch("reductions", "scan_tiles", len(tiles), 1024, args, {0: tiles.ravel()[:n], 1: tiles[:, -1]})


def scan_add_offsets(rng: Rng, tiles: int) -> Case:
    data, offsets = rng.integers(-100, 100, (tiles, 1024), dtype=I32), rng.integers(0, 1000, tiles, dtype=I32)
    want = data + np.concatenate(([0], offsets[:-1])).astype(I32)[:, None]
    return launch("reductions", "scan_add_offsets", tiles, 256, (data.ravel(), offsets), {0: want.ravel()})


def histogram_bytes(rng: Rng, n: int, grid: int) -> Case:
    src = np.minimum(255, rng.exponential(40, 4 * n)).astype(U8)
    want = np.bincount(src, minlength=256).astype(U32)
    return launch("reductions", "histogram_bytes", grid, 256, (np.zeros(256, U32), src, I32(n)), {0: want})


def histogram_wide(rng: Rng, n: int, bits: int) -> Case:
    src = rng.integers(0, 1 << 32, n, dtype=U32)
    want = np.bincount(src >> (32 - bits), minlength=1 << bits).astype(U32)
    args = (np.zeros(1 << bits, U32), src, I32(n), I32(32 - bits))
    return launch("reductions", "histogram_wide", -(-n // 256), 256, args, {0: want})


def keep_even(rng: Rng, n: int) -> Case:
    src = rng.integers(0, 1 << 30, n, dtype=I32)
    want = np.sort(src[src % 2 == 0])

    def check(outputs: Outputs) -> None:
        np.testing.assert_array_equal(outputs[1], [want.size])
        np.testing.assert_array_equal(np.sort(outputs[0][: want.size]), want)

    args = (np.zeros(n, I32), np.zeros(1, I32), src, I32(n))
    return launch("reductions", "keep_even", -(-n // 256), 256, args, check=check)


def moments_double(rng: Rng, grid: int, each: int) -> Case:
    threads = grid * 128
    src = rng.random((each, threads))
    mean = src.mean(axis=0)
    spread = ((src - mean) ** 2).sum(axis=0)
    args = (np.zeros(threads), np.zeros(threads), src.ravel(), I32(src.size))
    return launch("reductions", "moments_double", grid, 128, args, {0: mean, 1: spread}, rtol=1e-9)


def radix_count(rng: Rng, tiles: int) -> Case:
    keys = rng.integers(0, 1 << 32, (tiles, 1024), dtype=U32)
    digits = keys >> 8 & 15
    want = np.array([(digits == d).sum(axis=1) for d in range(16)], U32)
    args = (np.zeros(16 * tiles, U32), keys.ravel(), I32(tiles * 1024), I32(8))
    return launch("sorting", "radix_count", tiles, 256, args, {0: want.ravel()})


def radix_scatter(rng: Rng, tiles: int) -> Case:
    keys = rng.integers(0, 1 << 32, (tiles, 256), dtype=U32)
    digits = keys >> 4 & 15
    counts = np.array([(digits == d).sum(axis=1) for d in range(16)]).ravel()
    starts = (np.cumsum(counts) - counts).astype(U32)
    flat = keys.ravel()
    want = flat[np.argsort(flat >> 4 & 15, kind="stable")]
    args = (np.zeros(flat.size, U32), flat, starts, I32(4))
    return launch("sorting", "radix_scatter", tiles, 256, args, {0: want})


def bitonic_shared(rng: Rng, tiles: int) -> Case:
    data = rng.integers(-(1 << 30), 1 << 30, (tiles, 1024), dtype=I32)
    return launch("sorting", "bitonic_shared", tiles, 512, (data.ravel(),), {0: np.sort(data, axis=1).ravel()})


def bitonic_step(rng: Rng, n: int, j: int, k: int) -> Case:
    data = rng.integers(-(1 << 30), 1 << 30, n, dtype=I32)
    t = np.arange(n // 2)
    i = 2 * t - (t & (j - 1))
    low, high = np.minimum(data[i], data[i + j]), np.maximum(data[i], data[i + j])
    up = (i & k) == 0
    want = data.copy()
    want[i], want[i + j] = np.where(up, low, high), np.where(up, high, low)
    return launch("sorting", "bitonic_step", n // 512, 256, (data, I32(j), I32(k)), {0: want})


def merge_runs(rng: Rng, n: int) -> Case:
    a, b = (np.sort(rng.integers(0, 1 << 30, n, dtype=I32)) for _ in range(2))
    want = np.sort(np.concatenate((a, b)))
    return launch("sorting", "merge_runs", n // 512, 128, (np.zeros(2 * n, I32), a, b, I32(n)), {0: want})


def search_sorted(rng: Rng, n: int, count: int) -> Case:
    data, queries = np.sort(rng.integers(0, 1 << 30, n, dtype=I32)), rng.integers(0, 1 << 30, count, dtype=I32)
    args = (np.zeros(count, I32), data, queries, I32(n), I32(count))
    want = np.searchsorted(data, queries).astype(I32)
    return launch("sorting", "search_sorted", -(-count // 128), 128, args, {0: want})


def bodies_tiled(rng: Rng, n: int) -> Case:
    body = rng.random((n, 4), F32)
    p = body[:, :3].astype(F64)
    want = np.zeros((n, 4), F32)
    for first in range(0, n, 256):
        d = p[None, :, :] - p[first : first + 256, None, :]
        r = 1 / np.sqrt((d * d).sum(axis=2) + 0.01)
        want[first : first + 256, :3] = ((body[:, 3] * r**3)[:, :, None] * d).sum(axis=1)
    args = (np.zeros(4 * n, F32), body.ravel(), I32(n))
    return launch("particles", "bodies_tiled", n // 128, 128, args, {0: want.ravel()}, rtol=1e-3, atol=1e-2)


def pair_forces(rng: Rng, side: int, most: int) -> Case:
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    atoms = len(grid)
    position = np.zeros((atoms, 4), F32)
    position[:, :3] = 1.1 * grid + 0.1 * rng.random((atoms, 3))
    # Neighbours: a cube of cells around, periodic, in random order.
    offsets = np.array(
        [(x, y, z) for x in (-2, -1, 0, 1, 2) for y in (-1, 0, 1) for z in (-1, 0, 1) if (x, y, z) != (0, 0, 0)]
    )
    chosen = offsets[rng.permutation(len(offsets))[:most]]
    near = (grid[None, :, :] + chosen[:, None, :]) % side
    neighbours = (near[:, :, 0] * side + near[:, :, 1]) * side + near[:, :, 2]
    p = position[:, :3].astype(F64)
    force = np.zeros((atoms, 4))
    for row in neighbours:
        d = p - p[row]
        r2 = (d * d).sum(axis=1)
        i2 = 1 / r2
        i6 = i2**3
        s = np.where(r2 < 6.25, 48 * i6 * (i6 - 0.5) * i2, 0)
        force[:, :3] += d * s[:, None]
    args = (np.zeros(4 * atoms, F32), position.ravel(), neighbours.astype(I32).ravel(), I32(atoms), I32(most))
    return launch(
        "particles", "pair_forces", -(-atoms // 128), 128, args, {0: force.astype(F32).ravel()}, rtol=1e-2, atol=1e-1
    )


def bin_particles(rng: Rng, n: int, side: int) -> Case:
    position = (rng.integers(0, 1 << 16, (n, 4)) / 65536).astype(F32)
    c = (position[:, :3] * F32(side)).astype(I32)
    cell = (c[:, 2] * side + c[:, 1]) * side + c[:, 0]
    args = (np.zeros(side**3, I32), np.zeros(n, I32), position.ravel(), I32(n), I32(side))
    counts = np.bincount(cell, minlength=side**3).astype(I32)
    return launch("particles", "bin_particles", -(-n // 256), 256, args, {0: counts, 1: cell.astype(I32)})


def coulomb_double(rng: Rng, n: int) -> Case:
    atom = rng.random((n, 4))
    p, w = atom[:, :3], atom[:, 3]
    d = p[None, :, :] - p[:, None, :]
    want = w * (w[None, :] / np.sqrt((d * d).sum(axis=2) + 0.5)).sum(axis=1)
    args = (np.zeros(n), atom.ravel(), I32(n))
    return launch("particles", "coulomb_double", n // 64, 64, args, {0: want}, rtol=1e-9)


def option_prices(rng: Rng, n: int) -> Case:
    spot, strike, years = 10 + 90 * rng.random(n, F32), 10 + 90 * rng.random(n, F32), 0.25 + 2 * rng.random(n, F32)
    s, k, t = (v.astype(F64) for v in (spot, strike, years))
    root = 0.3 * np.sqrt(t)
    d1 = (np.log(s / k) + (0.02 + 0.045) * t) / root
    d2, paid = d1 - root, k * np.exp(-0.02 * t)
    call = s * special.ndtr(d1) - paid * special.ndtr(d2)
    put = paid * special.ndtr(-d2) - s * special.ndtr(-d1)
    args = (np.zeros(n, F32), np.zeros(n, F32), spot, strike, years, I32(n))
    want = {0: call.astype(F32), 1: put.astype(F32)}
    return launch("random", "option_prices", -(-n // 128), 128, args, want, rtol=1e-3, atol=1e-3)


def option_tree(rng: Rng, options: int) -> Case:
    spot, strike = 50 + 50 * rng.random(options, F32), 50 + 50 * rng.random(options, F32)
    up = float(F32(1.01886))
    p, discount = float(F32(0.50135)), float(F32(0.99996))
    value = np.maximum(spot[:, None] * up ** (2.0 * np.arange(257) - 256) - strike[:, None].astype(F64), 0)
    for _ in range(256):
        value = discount * (p * value[:, 1:] + (1 - p) * value[:, :-1])
    args = (np.zeros(options, F32), spot, strike)
    return launch("random", "option_tree", options, 256, args, {0: value[:, 0].astype(F32)}, rtol=2e-3, atol=1e-3)


def path_means(rng: Rng, grid: int, paths: int, steps: int) -> Case:
    threads = grid * 256
    x = (np.arange(1, threads + 1, dtype=np.uint64) * 2654435761).astype(U32) ^ U32(77)
    total = np.zeros(threads)
    for _ in range(paths):
        s, mean = np.ones(threads), np.zeros(threads)
        for _ in range(steps):
            x = x ^ (x << U32(13))
            x = x ^ (x >> U32(17))
            x = x ^ (x << U32(5))
            s = s * (1 + 0.01 * ((x >> U32(8)) * 5.9604645e-8 - 0.5))
            mean += s
        total += np.maximum(mean / steps - 1, 0)
    args = (np.zeros(threads, F32), U32(77), I32(paths), I32(steps))
    want = (total / paths).astype(F32)
    return launch("random", "path_means", grid, 256, args, {0: want}, rtol=1e-2, atol=1e-5)


def philox_fill(rng: Rng, n: int) -> Case:
    key = [0x12345678, 0x9ABCDEF0]
    c = [np.arange(n, dtype=np.uint64), *(np.zeros(n, np.uint64) for _ in range(3))]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        k0, k1, half = np.uint64(key[0]), np.uint64(key[1]), np.uint64(32)
        c = [(b >> half) ^ c[1] ^ k0, b & low, (a >> half) ^ c[3] ^ k1, a & low]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    want = np.stack(c, 1).astype(U32).ravel()
    args = (np.zeros(4 * n, U32), U32(0x12345678), U32(0x9ABCDEF0), I32(n))
    return launch("random", "philox_fill", -(-n // 256), 256, args, {0: want})


def mersenne_rounds(rng: Rng, generators: int, rounds: int) -> Case:
    seeds = rng.integers(0, 1 << 32, generators, dtype=U32)
    want = np.empty((generators, rounds * 624), U32)
    for g, seed in enumerate(seeds):
        want[g] = np.random.RandomState(int(seed)).randint(0, 1 << 32, rounds * 624, dtype=np.uint32)
    args = (np.zeros(want.size, U32), seeds, I32(rounds))
    return launch("random", "mersenne_rounds", generators, 256, args, {0: want.ravel()})


def sobol_points(rng: Rng, n: int, dimensions: int) -> Case:
    directions = rng.integers(0, 1 << 32, (dimensions, 32), dtype=U32)
    i = np.arange(n, dtype=U32)
    gray = i ^ (i >> U32(1))
    want = np.zeros((dimensions, n), U32)
    for bit in range(32):
        want ^= np.where(gray >> U32(bit) & U32(1), directions[:, bit, None], U32(0))
    scaled = (want.astype(F32) * F32(2.3283064e-10)).astype(F32)
    args = (np.zeros(scaled.size, F32), directions.ravel(), I32(n))
    grid = (-(-n // 256), dimensions)
    return launch("random", "sobol_points", grid, 256, args, {0: scaled.ravel()}, rtol=1e-6)


def _complex(values: Array) -> Array:
    return np.stack((values.real, values.imag), -1).astype(F32).ravel()


def fft_shared(rng: Rng, rows: int) -> Case:
    z = rng.standard_normal((rows, 256)) + 1j * rng.standard_normal((rows, 256))
    want = np.fft.fft(z, axis=1)
    return launch("spectral", "fft_shared", rows, 128, (_complex(z),), {0: _complex(want)}, rtol=1e-3, atol=2e-3)


def fft_pass(rng: Rng, n: int, span: int) -> Case:
    z = (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(np.complex64).astype(np.complex128)
    t = np.arange(n // 4)
    k = t % span
    to = (t - k) * 4 + k
    w = np.exp(-1j * np.pi / 2 * k / span)
    v = [z[t + i * (n // 4)] * w**i for i in range(4)]
    want = np.empty(n, np.complex128)
    for r in range(4):
        want[to + r * span] = sum(v[i] * (-1j) ** (i * r) for i in range(4))
    args = (np.zeros(2 * n, F32), _complex(z), I32(n), I32(span))
    return launch("spectral", "fft_pass", n // 1024, 256, args, {0: _complex(want)}, rtol=1e-3, atol=1e-4)


def walsh_rows(rng: Rng, rows: int) -> Case:
    data = rng.integers(-50, 50, (rows, 1024)).astype(F32)
    want = data.astype(F64)
    for h in (1 << np.arange(10)).tolist():
        pairs = want.reshape(rows, -1, 2, h)
        want = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), 2).reshape(rows, 1024)
    return launch("spectral", "walsh_rows", rows, 256, (data.ravel(),), {0: want.astype(F32).ravel()})


def cosine_blocks(rng: Rng, width: int, height: int) -> Case:
    src = rng.random((height, width), F32)
    u, x = np.meshgrid(np.arange(8), np.arange(8), indexing="ij")
    c = (np.where(u == 0, np.sqrt(1 / 8), 0.5) * np.cos((2 * x + 1) * u * np.pi / 16)).astype(F32)
    tiles = src.astype(F64).reshape(height // 8, 8, width // 8, 8).transpose(0, 2, 1, 3)
    d = c.astype(F64)
    want = (d @ tiles @ d.T).transpose(0, 2, 1, 3).reshape(height, width)
    args = (np.zeros(src.size, F32), src.ravel(), I32(width))
    return launch(
        "spectral", "cosine_blocks", (width // 32, height // 8), (8, 8, 4), args, {0: want.astype(F32).ravel()},
        rtol=1e-4, atol=1e-4, device_globals={"cosines": c.ravel()},
    )  # fmt: skip


def escape(cx: Array, cy: Array, zx: Array, zy: Array, most: int) -> Array:
    """Rounds until |z|² reaches 4, in the arithmetic of the arrays' type."""
    steps = np.zeros(zx.shape, I32)
    two, four = zx.dtype.type(2), zx.dtype.type(4)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(most):
            live = zx * zx + zy * zy < four
            steps += live & (steps == _)
            zx, zy = zx * zx - zy * zy + cx, two * zx * zy + cy
    return steps


def mandelbrot_set(rng: Rng, width: int, height: int, most: int) -> Case:
    # The compiler may fuse the two coordinate sums: both roundings are allowed in a pixel in a thousand.
    def check(outputs: Outputs) -> None:
        x, y = np.arange(width, dtype=F32), np.arange(height, dtype=F32)
        fx = (3.2 * x.astype(F64) / width - 2.2).astype(F32)
        fy = (2.4 * y.astype(F64) / height - 1.2).astype(F32)
        cx, cy = np.broadcast_arrays(fx[None, :], fy[:, None])
        want = escape(cx, cy, np.zeros_like(cx), np.zeros_like(cy), most)
        got = outputs[0].reshape(height, width)
        assert (got != want).mean() < 0.06, f"{(got != want).mean():.4f} of the pixels differ"
        assert np.abs(got.mean() / want.mean() - 1) < 0.01

    args = (np.zeros(width * height, I32), I32(width), I32(height), I32(most))
    return launch("rendering", "mandelbrot_set", (-(-width // 16), -(-height // 16)), (16, 16), args, check=check)


def julia_double(rng: Rng, width: int, height: int, most: int) -> Case:
    def check(outputs: Outputs) -> None:
        fx, fy = -1.5 + 3.0 * np.arange(width) / width, -1.5 + 3.0 * np.arange(height) / height
        zx, zy = np.broadcast_arrays(fx[None, :], fy[:, None])
        want = escape(np.full(zx.shape, -0.4), np.full(zx.shape, 0.6), zx, zy, most)
        got = outputs[0].reshape(height, width)
        assert (got != want).mean() < 0.02, f"{(got != want).mean():.4f} of the pixels differ"

    args = (np.zeros(width * height, I32), I32(width), I32(height), F64(-0.4), F64(0.6), I32(most))
    return launch("rendering", "julia_double", (-(-width // 32), -(-height // 4)), (32, 4), args, check=check)


def ray_spheres(rng: Rng, width: int, height: int, count: int) -> Case:
    s = np.concatenate(
        (4 * rng.random((count, 2)) - 2, 3 + 4 * rng.random((count, 1)), 0.2 + 0.3 * rng.random((count, 1))), 1
    )
    spheres = s.astype(F32)

    def check(outputs: Outputs) -> None:
        x, y = np.arange(width) / width - 0.5, np.arange(height) / height - 0.5
        d = np.stack(np.broadcast_arrays(x[None, :], y[:, None], 1.0), -1)
        d /= np.linalg.norm(d, axis=2, keepdims=True)
        f = spheres.astype(F64)
        b = d @ f[:, :3].T
        q = b * b - ((f[:, :3] ** 2).sum(axis=1) - f[:, 3] ** 2)
        t = np.where(q > 0, b - np.sqrt(np.maximum(q, 0)), 1e30)
        t = np.where(t > 0, t, 1e30)
        want = np.where(t.min(axis=2) < 1e30, t.argmin(axis=2), -1)
        assert (outputs[0].reshape(height, width) != want).mean() < 0.002

    args = (np.zeros(width * height, I32), np.zeros(width * height, F32), I32(width), I32(height), I32(count))
    grid = (-(-width // 8), -(-height // 8))
    padded = np.zeros((64, 4), F32)
    padded[:count] = spheres
    return launch(
        "rendering", "ray_spheres", grid, (8, 8), args, check=check, device_globals={"spheres": padded.ravel()}
    )


def ray_march(rng: Rng, width: int, height: int) -> Case:
    def check(outputs: Outputs) -> None:
        x, y = np.arange(width) / width - 0.5, np.arange(height) / height - 0.5
        d = np.stack(np.broadcast_arrays(x[None, :], y[:, None], 1.0), -1)
        d /= np.linalg.norm(d, axis=2, keepdims=True)
        t, live = np.zeros((height, width)), np.ones((height, width), bool)
        for _ in range(64):
            live &= t < 24
            p = d * t[:, :, None]
            px = p[:, :, 0] - 2 * np.floor(0.5 * p[:, :, 0] + 0.5)
            py = p[:, :, 1] - 2 * np.floor(0.5 * p[:, :, 1])
            pz = p[:, :, 2] - 2 * np.floor(0.5 * p[:, :, 2] + 0.25)
            r = np.sqrt(px * px + (py - 1) ** 2 + (pz - 0.5) ** 2) - 0.4
            live &= r >= 0.001
            t = np.where(live, t + 0.8 * r, t)
        got = outputs[0].reshape(height, width)
        assert (np.abs(got - t) > 0.05).mean() < 0.02, f"{(np.abs(got - t) > 0.05).mean():.4f} of the pixels differ"

    args = (np.zeros(width * height, F32), I32(width), I32(height))
    return launch("rendering", "ray_march", (-(-width // 32), -(-height // 4)), (32, 4), args, check=check)


def dominant(rng: Rng, count: int, n: int) -> Array:
    """Matrices that need no pivots."""
    return (rng.random((count, n, n)) + n * np.eye(n)).astype(F32)


def lu_diagonal(rng: Rng, count: int) -> Case:
    a = dominant(rng, count, 32)
    want = a.astype(F64)
    for k in range(31):
        want[:, k + 1 :, k] /= want[:, k, k, None]
        want[:, k + 1 :, k + 1 :] -= want[:, k + 1 :, k, None] * want[:, k, None, k + 1 :]
    return launch(
        "solvers", "lu_diagonal", count, 32, (a.ravel(),), {0: want.astype(F32).ravel()}, rtol=1e-3, atol=1e-4
    )


def lu_trailing(rng: Rng, n: int) -> Case:
    a, left, top = (rng.standard_normal(shape).astype(F32) for shape in ((n, n), (n, 16), (16, n)))
    want = a - left.astype(F64) @ top.astype(F64)
    args = (a.ravel(), left.ravel(), top.ravel(), I32(n))
    return launch(
        "solvers",
        "lu_trailing",
        (n // 16, n // 16),
        (16, 16),
        args,
        {0: want.astype(F32).ravel()},
        rtol=1e-4,
        atol=1e-4,
    )


def eliminate_step(rng: Rng, n: int, pivot: int) -> Case:
    a = rng.random((n, n)) + np.eye(n)
    want = a.copy()
    p = pivot
    want[p + 1 :, p + 1 :] -= np.outer(a[p + 1 :, p] / a[p, p], a[p, p + 1 :])
    grid = (-(-n // 256), n - p - 1)
    args = (a.ravel(), I32(n), I32(p))
    return launch("solvers", "eliminate_step", grid, 256, args, {0: want.ravel()}, rtol=1e-10, atol=1e-12)


def cholesky_batch(rng: Rng, count: int) -> Case:
    r = rng.random((count, 16, 16))
    a = (r @ r.transpose(0, 2, 1) + 16 * np.eye(16)).astype(F32)
    want = np.linalg.cholesky(a.astype(F64)).astype(F32)
    args = (a.ravel(), I32(count))
    return launch("solvers", "cholesky_batch", -(-count // 4), 128, args, {0: want.ravel()}, rtol=1e-3, atol=1e-4)


def tridiagonal(rng: Rng, shape: tuple[int, int], axis: int) -> tuple[Array, Array, Array, Array, Array]:
    """Diagonals and right sides along an axis, and the solutions."""
    low, high, right = (rng.random(shape, F32) for _ in range(3))
    middle = (3 + rng.random(shape, F32)).astype(F32)
    a, b, c, d = (np.moveaxis(v, axis, 0).astype(F64) for v in (low, middle, high, right))
    n = len(b)
    cp, dp = np.zeros_like(b), np.zeros_like(b)
    cp[0], dp[0] = c[0] / b[0], d[0] / b[0]
    for k in range(1, n):
        scale = 1 / (b[k] - a[k] * cp[k - 1])
        cp[k], dp[k] = c[k] * scale, (d[k] - a[k] * dp[k - 1]) * scale
    for k in range(n - 2, -1, -1):
        dp[k] -= cp[k] * dp[k + 1]
    return low, middle, high, right, np.moveaxis(dp, 0, axis).astype(F32)


def thomas_systems(rng: Rng, systems: int, n: int) -> Case:
    low, middle, high, right, want = tridiagonal(rng, (n, systems), 0)
    args = (right.ravel(), np.zeros(right.size, F32), low.ravel(), middle.ravel(), high.ravel(), I32(systems), I32(n))
    return launch("solvers", "thomas_systems", -(-systems // 64), 64, args, {0: want.ravel()}, rtol=1e-3, atol=1e-4)


def cyclic_reduction(rng: Rng, systems: int) -> Case:
    low, middle, high, right, want = tridiagonal(rng, (systems, 256), 1)
    args = (right.ravel(), low.ravel(), middle.ravel(), high.ravel())
    return launch("solvers", "cyclic_reduction", systems, 256, args, {0: want.ravel()}, rtol=1e-3, atol=1e-3)


def jacobi_rows(rng: Rng, n: int) -> Case:
    a, x, b = dominant(rng, 1, n)[0], rng.random(n, F32), rng.random(n, F32)
    f = a.astype(F64)
    want = (b - (f @ x - np.diag(f) * x)) / np.diag(f)
    args = (np.zeros(n, F32), a.ravel(), x, b, I32(n))
    return launch("solvers", "jacobi_rows", -(-n // 8), 256, args, {0: want.astype(F32)}, rtol=1e-3, atol=1e-4)


def align_tiles(rng: Rng, tiles: int) -> Case:
    pitch, gap = tiles * 32 + 1, 4
    similar = rng.integers(-5, 6, (pitch, pitch), dtype=I32)
    score = np.zeros((pitch, pitch), np.int64)
    score[0], score[:, 0] = -gap * np.arange(pitch), -gap * np.arange(pitch)
    before = score.copy()
    for d in range(2, 2 * pitch - 1):
        i = np.arange(max(1, d - pitch + 1), min(d, pitch))
        j = d - i
        best = np.maximum(score[i - 1, j], score[i, j - 1]) - gap
        score[i, j] = np.maximum(score[i - 1, j - 1] + similar[i, j], best)
    # The launch computes the long anti-diagonal from the ones before it.
    diagonal = tiles - 1
    want = np.zeros((pitch, pitch), np.int64)
    at = (np.arange(pitch) - 1) // 32
    earlier = np.add.outer(at, at) < diagonal
    given = np.where(earlier, score, before)
    given[0], given[:, 0] = score[0], score[:, 0]
    want = np.where(np.add.outer(at, at) == diagonal, score, given)
    want[0], want[:, 0] = score[0], score[:, 0]
    args = (given.astype(I32).ravel(), similar.ravel(), I32(pitch), I32(diagonal), I32(gap))
    return launch("solvers", "align_tiles", tiles, 32, args, {0: want.astype(I32).ravel()})


def path_rows(rng: Rng, columns: int) -> Case:
    row, wall = rng.integers(0, 10, columns, dtype=I32), rng.integers(0, 10, (20, columns), dtype=I32)
    want = row
    for k in range(20):
        edge = np.pad(want, 1, mode="edge")
        want = np.minimum(want, np.minimum(edge[:-2], edge[2:])) + wall[k]
    args = (np.zeros(columns, I32), row, wall.ravel(), I32(columns))
    return launch("solvers", "path_rows", -(-columns // 216), 256, args, {0: want})


def knapsack_row(rng: Rng, capacity: int, weight: int) -> Case:
    now = np.sort(rng.integers(0, 1 << 20, capacity + 1, dtype=I32))
    want = now.copy()
    want[weight:] = np.maximum(now[weight:], now[: capacity + 1 - weight] + 777)
    args = (np.zeros(capacity + 1, I32), now, I32(weight), I32(777), I32(capacity))
    return launch("solvers", "knapsack_row", -(-(capacity + 1) // 256), 256, args, {0: want})


CASES: dict[str, Builder] = {
    "sum_two_level": partial(sum_two_level, n=8_000_000, grid=528),
    "sum_one_block": partial(sum_two_level, n=20_000, grid=1),
    "sum_group_tiles": partial(sum_group_tiles, n=2_000_000, grid=264),
    "argmax_block": partial(argmax_block, n=1_500_000, grid=264),
    "segment_sums": partial(segment_sums, segments=40_000, mean=24),
    "scan_tiles": partial(scan_tiles, n=500_000),
    "scan_add_offsets": partial(scan_add_offsets, tiles=4000),
    "histogram_bytes": partial(histogram_bytes, n=600_000, grid=264),
    "histogram_wide": partial(histogram_wide, n=500_000, bits=14),
    "keep_even": partial(keep_even, n=800_000),
    "moments_double": partial(moments_double, grid=132, each=24),
    "radix_count": partial(radix_count, tiles=1000),
    "radix_scatter": partial(radix_scatter, tiles=1200),
    "bitonic_shared": partial(bitonic_shared, tiles=80),
    "bitonic_step": partial(bitonic_step, n=1 << 21, j=64, k=4096),
    "merge_runs": partial(merge_runs, n=1 << 18),
    "search_sorted": partial(search_sorted, n=1 << 20, count=120_000),
    "bodies_tiled": partial(bodies_tiled, n=2048),
    "pair_forces": partial(pair_forces, side=28, most=40),
    "bin_particles": partial(bin_particles, n=500_000, side=16),
    "coulomb_double": partial(coulomb_double, n=768),
    "option_prices": partial(option_prices, n=200_000),
    "option_tree": partial(option_tree, options=64),
    "path_means": partial(path_means, grid=132, paths=4, steps=64),
    "philox_fill": partial(philox_fill, n=300_000),
    "mersenne_rounds": partial(mersenne_rounds, generators=132, rounds=6),
    "sobol_points": partial(sobol_points, n=100_000, dimensions=4),
    "fft_shared": partial(fft_shared, rows=1200),
    "fft_pass": partial(fft_pass, n=1 << 20, span=64),
    "walsh_rows": partial(walsh_rows, rows=500),
    "cosine_blocks": partial(cosine_blocks, width=1024, height=512),
    "mandelbrot_set": partial(mandelbrot_set, width=480, height=320, most=128),
    "julia_double": partial(julia_double, width=384, height=256, most=64),
    "ray_spheres": partial(ray_spheres, width=400, height=300, count=48),
    "ray_march": partial(ray_march, width=320, height=200),
    "lu_diagonal": partial(lu_diagonal, count=100),
    "lu_trailing": partial(lu_trailing, n=1024),
    "eliminate_step": partial(eliminate_step, n=1100, pivot=100),
    "cholesky_batch": partial(cholesky_batch, count=1500),
    "thomas_systems": partial(thomas_systems, systems=8192, n=64),
    "cyclic_reduction": partial(cyclic_reduction, systems=600),
    "jacobi_rows": partial(jacobi_rows, n=1500),
    "align_tiles": partial(align_tiles, tiles=40),
    "path_rows": partial(path_rows, columns=200_000),
    "knapsack_row": partial(knapsack_row, capacity=1_000_000, weight=333),
}
