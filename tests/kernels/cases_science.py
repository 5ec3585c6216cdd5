"""Cases of stencils, Fourier transforms, scientific and irregular kernels, and neural-network layers."""

from __future__ import annotations

import numpy as np
from scipy import special

from tests.kernels.case import Array, Case, Outputs, Size, launch, pick

I32, F32, F64, U32, U64, I64 = np.int32, np.float32, np.float64, np.uint32, np.uint64, np.int64


def stencil_1d(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 300, 1_000_000)
    src = rng.standard_normal(n, dtype=F32)
    padded = np.pad(src.astype(F64), 3)
    want = sum(padded[k : k + n] for k in range(7)).astype(F32)
    args = (np.zeros(n, F32), src, I32(n))
    return launch("stencils.cu", "stencil_1d", -(-n // 128), 128, args, {0: want}, rtol=1e-5, atol=1e-6)


def stencil_2d(size: Size, rng: np.random.Generator) -> Case:
    width, height = (40, 20) if size == "small" else (1500, 1000)
    src, rate = rng.standard_normal((height, width), dtype=F32), F32(0.2)
    f = src.astype(F64)
    around = f[1:-1, :-2] + f[1:-1, 2:] + f[:-2, 1:-1] + f[2:, 1:-1]
    want = src.copy()
    want[1:-1, 1:-1] = f[1:-1, 1:-1] + F64(rate) * (around - 4 * f[1:-1, 1:-1])
    args = (np.zeros(src.size, F32), src.ravel(), I32(width), I32(height), rate)
    grid = (-(-width // 32), -(-height // 8))
    return launch("stencils.cu", "stencil_2d", grid, (32, 8), args, {0: want.ravel()}, rtol=1e-5, atol=1e-6)


def stencil_3d(size: Size, rng: np.random.Generator) -> Case:
    nx, ny, nz = (33, 9, 5) if size == "small" else (256, 256, 32)
    src = rng.standard_normal((nz, ny, nx), dtype=F32)
    f = src.astype(F64)
    inner = slice(1, -1)
    around = f[inner, inner, :-2] + f[inner, inner, 2:] + f[inner, :-2, inner] + f[inner, 2:, inner]
    want = np.zeros_like(src)
    vertical = f[:-2, inner, inner] + f[2:, inner, inner]
    want[inner, inner, inner] = 0.5 * f[inner, inner, inner] + 0.125 * around - 0.0625 * vertical
    args = (np.zeros(src.size, F32), src.ravel(), I32(nx), I32(ny), I32(nz))
    grid = (-(-nx // 32), -(-ny // 4))
    return launch("stencils.cu", "stencil_3d", grid, (32, 4), args, {0: want.ravel()}, rtol=1e-5, atol=1e-6)


def convolution_2d(size: Size, rng: np.random.Generator) -> Case:
    width, height = (30, 14) if size == "small" else (640, 480)
    src, mask = rng.standard_normal((height, width), dtype=F32), rng.standard_normal((5, 5), dtype=F32)
    padded = np.pad(src.astype(F64), 2, mode="edge")
    want = np.zeros((height, width))
    for dy in range(5):
        for dx in range(5):
            want += F64(mask[dy, dx]) * padded[dy : dy + height, dx : dx + width]
    args = (np.zeros(src.size, F32), src.ravel(), I32(width), I32(height))
    return launch(
        "stencils.cu",
        "convolution_2d",
        (-(-width // 16), -(-height // 8)),
        (16, 8),
        args,
        {0: want.astype(F32).ravel()},
        rtol=1e-5,
        atol=1e-5,
        device_globals={"mask": mask.ravel()},
    )


def game_of_life(size: Size, rng: np.random.Generator) -> Case:
    width, height = (30, 14) if size == "small" else (400, 300)
    alive = rng.integers(0, 2, (height, width), dtype=np.uint8)
    shifts = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0)]
    neighbours = sum(np.roll(alive, shift, axis=(0, 1)).astype(I32) for shift in shifts)
    want = ((neighbours == 3) | ((neighbours == 2) & (alive == 1))).astype(np.uint8)
    args = (np.zeros(alive.size, np.uint8), alive.ravel(), I32(width), I32(height))
    return launch("stencils.cu", "game_of_life", (-(-width // 16), -(-height // 8)), (16, 8), args, {0: want.ravel()})


def _complex(values: Array) -> Array:
    """Complex numbers as pairs of float32."""
    return np.ascontiguousarray(values.astype(np.complex64)).view(F32).ravel()


def dft_direct(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 40, 768)
    points = (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(np.complex64)
    want = _complex(np.fft.fft(points.astype(np.complex128)))
    args = (np.zeros(2 * n, F32), _complex(points), I32(n))
    return launch("spectral.cu", "dft_direct", -(-n // 64), 64, args, {0: want}, rtol=1e-4, atol=2e-4)


def fft_radix2(size: Size, rng: np.random.Generator) -> Case:
    grid, bits = pick(size, 2, 528), pick(size, 6, 9)
    n = 2**bits
    points = (rng.standard_normal((grid, n)) + 1j * rng.standard_normal((grid, n))).astype(np.complex64)
    want = _complex(np.fft.fft(points.astype(np.complex128), axis=1))
    args = (_complex(points), I32(bits))
    return launch("spectral.cu", "fft_radix2", grid, n // 2, args, {0: want}, rtol=1e-4, atol=1e-4, shared_bytes=8 * n)


def nbody_forces(size: Size, rng: np.random.Generator) -> Case:
    n, softening = pick(size, 64, 2048), F32(0.01)
    body = rng.uniform(-1, 1, (n, 4)).astype(F32)
    body[:, 3] = rng.uniform(0.1, 1, n)
    place, mass = body[:, :3].astype(F64), body[:, 3].astype(F64)
    force = np.zeros((n, 3))
    for start in range(0, n, 256):
        apart = place[None, :, :] - place[start : start + 256, None, :]
        strength = mass * ((apart**2).sum(axis=2) + F64(softening)) ** -1.5
        force[start : start + 256] = (apart * strength[:, :, None]).sum(axis=1)
    want = np.concatenate([force, mass[:, None]], axis=1).astype(F32).ravel()
    args = (np.zeros(4 * n, F32), body.ravel(), I32(n), softening)
    return launch("science.cu", "nbody_forces", n // 64, 64, args, {0: want}, rtol=1e-4, atol=2e-5 * n)


def black_scholes(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 128, 200_000)
    price, strike = rng.uniform(5, 30, n).astype(F32), rng.uniform(1, 100, n).astype(F32)
    years, rate, volatility = rng.uniform(0.25, 10, n).astype(F32), F32(0.02), F32(0.3)
    s, x, t = price.astype(F64), strike.astype(F64), years.astype(F64)
    spread = F64(volatility) * np.sqrt(t)
    d1 = (np.log(s / x) + (F64(rate) + 0.5 * F64(volatility) ** 2) * t) / spread
    d2 = d1 - spread
    discounted = x * np.exp(-F64(rate) * t)
    call = s * special.ndtr(d1) - discounted * special.ndtr(d2)
    put = discounted * special.ndtr(-d2) - s * special.ndtr(-d1)
    args = (np.zeros(n, F32), np.zeros(n, F32), price, strike, years, rate, volatility, I32(n))
    want = {0: call.astype(F32), 1: put.astype(F32)}
    return launch("science.cu", "black_scholes", -(-n // 128), 128, args, want, rtol=1e-5, atol=1e-4)


def monte_carlo_pi(size: Size, rng: np.random.Generator) -> Case:
    grid, samples = pick(size, 2, 264), pick(size, 10, 60)
    seeds = rng.integers(1, 2**32, grid * 128, dtype=U32)
    state, hits = seeds.copy(), 0
    for _ in range(samples):
        state = state ^ state << U32(13)
        state = state ^ state >> U32(17)
        state = state ^ state << U32(5)
        x, y = (state >> U32(16)).astype(U64), (state & U32(0xFFFF)).astype(U64)
        hits += int((x * x + y * y < U64(2**32)).sum())
    args = (np.zeros(1, U64), seeds, I32(samples))
    return launch("science.cu", "monte_carlo_pi", grid, 128, args, {0: np.array([hits], U64)})


def kmeans_assign(size: Size, rng: np.random.Generator) -> Case:
    n, count = pick(size, 150, 100_000), pick(size, 7, 16)
    points, centres = rng.standard_normal((n, 2), dtype=F32), rng.standard_normal((count, 2), dtype=F32)
    apart = points[:, None, :] - centres[None, :, :]
    squared = apart * apart
    label = (squared[:, :, 0] + squared[:, :, 1]).argmin(axis=1).astype(I32)
    args = (np.zeros(n, I32), np.zeros(count, I32), points.ravel(), centres.ravel(), I32(count), I32(n))
    want = {0: label, 1: np.bincount(label, minlength=count).astype(I32)}
    return launch("science.cu", "kmeans_assign", -(-n // 128), 128, args, want, shared_bytes=8 * count)


def _best_alignments(first: Array, second: Array) -> Array:
    """The highest local-alignment score (match 3, mismatch -2, gap -1) of each pair of rows."""
    pairs, n = first.shape
    above, best = np.zeros((pairs, n + 1), I32), np.zeros(pairs, I32)
    for i in range(n):
        row = np.zeros_like(above)
        for j in range(n):
            step = np.where(first[:, i] == second[:, j], 3, -2)
            gap = np.maximum(above[:, j + 1], row[:, j]) - 1
            row[:, j + 1] = np.maximum(0, np.maximum(above[:, j] + step, gap))
        best = np.maximum(best, row.max(axis=1))
        above = row
    return best


def smith_waterman(size: Size, rng: np.random.Generator) -> Case:
    pairs, n = pick(size, 3, 264), pick(size, 32, 64)
    first, second = rng.integers(0, 4, (2, pairs, n)).astype(np.int8)
    args = (np.zeros(pairs, I32), first.ravel(), second.ravel(), I32(n))
    want = {0: _best_alignments(first, second)}
    return launch("science.cu", "smith_waterman", pairs, n, args, want)


def floyd_warshall(size: Size, rng: np.random.Generator) -> Case:
    n, via = pick(size, 40, 1000), 17
    distance = rng.integers(1, 100, (n, n), dtype=I32)
    np.fill_diagonal(distance, 0)
    want = np.minimum(distance, distance[:, via : via + 1] + distance[via : via + 1, :])
    grid = (-(-n // 16), -(-n // 16))
    args = (distance.ravel(), I32(n), I32(via))
    return launch("science.cu", "floyd_warshall", grid, (16, 16), args, {0: want.ravel()})


def _sparse(rng: np.random.Generator, rows: int, longest: int) -> tuple[Array, Array]:
    """Row starts and column indices of a random sparse pattern, with some empty and some long rows."""
    lengths = np.minimum(rng.geometric(0.12, rows) - 1, longest)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(I32)
    return starts, rng.integers(0, rows, int(starts[-1]), dtype=I32)


def _spmv(kernel: str, rows: int, lanes_per_row: int, rng: np.random.Generator) -> Case:
    starts, columns = _sparse(rng, rows, 60)
    values, x = rng.standard_normal(columns.size, dtype=F32), rng.standard_normal(rows, dtype=F32)
    owner = np.repeat(np.arange(rows), np.diff(starts))
    want = np.bincount(owner, weights=values.astype(F64) * x[columns], minlength=rows).astype(F32)
    args = (np.zeros(rows, F32), starts, columns, values, x, I32(rows))
    grid = -(-rows * lanes_per_row // 128)
    return launch("sparse.cu", kernel, grid, 128, args, {0: want}, rtol=1e-5, atol=1e-5)


def spmv_scalar(size: Size, rng: np.random.Generator) -> Case:
    return _spmv("spmv_scalar", pick(size, 128, 100_000), 1, rng)


def spmv_warp(size: Size, rng: np.random.Generator) -> Case:
    return _spmv("spmv_warp", pick(size, 30, 30_000), 32, rng)


def bfs_level(size: Size, rng: np.random.Generator) -> Case:
    vertices, count, depth = pick(size, 200, 100_000), pick(size, 50, 20_000), 3
    starts, columns = _sparse(rng, vertices, 40)
    level = np.where(rng.random(vertices) < 0.3, 1, -1).astype(I32)
    frontier = rng.permutation(vertices)[:count].astype(I32)
    level[frontier] = depth - 1
    reached = np.zeros(vertices, bool)
    for vertex in frontier:
        reached[columns[starts[vertex] : starts[vertex + 1]]] = True
    fresh = np.flatnonzero(reached & (level == -1))
    want = level.copy()
    want[fresh] = depth

    def check(outputs: Outputs) -> None:
        np.testing.assert_array_equal(np.sort(outputs[1][: fresh.size]), fresh)

    args = (level, np.zeros(vertices, I32), np.zeros(1, I32), frontier, I32(count), starts, columns, I32(depth))
    expected = {0: want, 2: np.array([fresh.size], I32)}
    return launch("sparse.cu", "bfs_level", -(-count // 64), 64, args, expected, check=check)


def string_search(size: Size, rng: np.random.Generator) -> Case:
    length = pick(size, 250, 1_000_000)
    text = rng.integers(ord("a"), ord("c"), length, dtype=np.int8)
    pattern = np.frombuffer(b"abbab", np.int8).copy()
    grid = -(-length // 128)
    match = np.zeros(grid * 128, bool)
    windows = np.lib.stride_tricks.sliding_window_view(text, pattern.size)
    match[: windows.shape[0]] = (windows == pattern).all(axis=1)
    want = np.packbits(match, bitorder="little").view(U32)
    args = (np.zeros(want.size, U32), text, I32(length), pattern, I32(pattern.size))
    return launch("sparse.cu", "string_search", grid, 128, args, {0: want})


def softmax_rows(size: Size, rng: np.random.Generator) -> Case:
    grid, columns = pick(size, 2, 500), pick(size, 70, 500)
    src = (rng.standard_normal((grid * 4, columns)) * 3).astype(F32)
    want = special.softmax(src.astype(F64), axis=1).astype(F32).ravel()
    args = (np.zeros(src.size, F32), src.ravel(), I32(columns))
    return launch("layers.cu", "softmax_rows", grid, 128, args, {0: want}, rtol=1e-5, atol=1e-9)


def layer_norm(size: Size, rng: np.random.Generator) -> Case:
    grid, columns, epsilon = pick(size, 3, 800), pick(size, 150, 768), F32(1e-5)
    src = (rng.standard_normal((grid, columns)) * 2 + 1).astype(F32)
    gain, bias = rng.standard_normal((2, columns), dtype=F32)
    f = src.astype(F64)
    mean = f.mean(axis=1, keepdims=True)
    variance = ((f - mean) ** 2).mean(axis=1, keepdims=True)
    want = ((f - mean) / np.sqrt(variance + F64(epsilon)) * gain + bias).astype(F32).ravel()
    args = (np.zeros(src.size, F32), src.ravel(), gain.copy(), bias.copy(), I32(columns), epsilon)
    return launch("layers.cu", "layer_norm", grid, 128, args, {0: want}, rtol=2e-5, atol=1e-5)


def gelu_bias(size: Size, rng: np.random.Generator) -> Case:
    n, columns = pick(size, 100, 150_000), 20
    data, bias = rng.standard_normal((n, 4), dtype=F32), rng.standard_normal((columns, 4), dtype=F32)
    x = (data + bias[np.arange(n) % columns]).astype(F64)
    want = (0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))).astype(F32).ravel()
    args = (data.ravel(), bias.ravel(), I32(columns), I32(n))
    return launch("layers.cu", "gelu_bias", -(-n // 128), 128, args, {0: want}, rtol=1e-5, atol=2e-6)


CASES = (
    stencil_1d,
    stencil_2d,
    stencil_3d,
    convolution_2d,
    game_of_life,
    dft_direct,
    fft_radix2,
    nbody_forces,
    black_scholes,
    monte_carlo_pi,
    kmeans_assign,
    smith_waterman,
    floyd_warshall,
    spmv_scalar,
    spmv_warp,
    bfs_level,
    string_search,
    softmax_rows,
    layer_norm,
    gelu_bias,
)
