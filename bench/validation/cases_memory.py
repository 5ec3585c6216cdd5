"""Passes over arrays, transposes, stencils, images: what moves bytes."""

from __future__ import annotations

from functools import partial

import numpy as np

from bench.validation.case import Array, Builder, Case, launch

I32, F32, F64, U8, U32 = np.int32, np.float32, np.float64, np.uint8, np.uint32
Rng = np.random.Generator


def blocks(n: int, threads: int) -> int:
    return -(-n // threads)


def words(rng: Rng, n: int) -> Array:
    """Floats with exact sums and products, made faster than normal ones."""
    return rng.integers(-1000, 1000, n, dtype=np.int16).astype(F32)


def copy_word(rng: Rng, n: int, threads: int = 256) -> Case:
    src = words(rng, n)
    return launch("streams", "copy_word", blocks(n, threads), threads, (np.zeros(n, F32), src, I32(n)), {0: src})


def copy_vector(rng: Rng, mib: int, grid: int) -> Case:
    src = words(rng, mib << 18)
    args = (np.zeros(src.size, F32), src, I32(src.size // 4))
    return launch("streams", "copy_vector", grid or blocks(src.size // 4, 256), 256, args, {0: src})


def fill_vector(rng: Rng, mib: int) -> Case:
    n = mib << 18
    return launch(
        "streams", "fill_vector", n // 1024, 256, (np.zeros(n, F32), F32(2.5), I32(n // 4)), {0: np.full(n, 2.5, F32)}
    )


def triad_double(rng: Rng, n: int) -> Case:
    b, c = words(rng, n).astype(F64), words(rng, n).astype(F64)
    return launch(
        "streams", "triad_double", blocks(n, 256), 256, (np.zeros(n), b, c, F64(3.0), I32(n)), {0: b + 3.0 * c}
    )


def read_passes(rng: Rng, mib: int, passes: int, grid: int) -> Case:
    src = rng.integers(0, 1 << 30, mib << 18, dtype=I32)
    threads = grid * 256
    vectors = src.reshape(-1, 4)
    folded = vectors[:, 0] ^ vectors[:, 1] ^ vectors[:, 2] ^ vectors[:, 3]
    padded = np.zeros(-(-folded.size // threads) * threads, I32)
    padded[: folded.size] = folded
    want = (padded.reshape(-1, threads).astype(np.int64).sum(axis=0) * passes).astype(np.uint64).astype(U32).view(I32)
    args = (np.zeros(threads, I32), src, I32(src.size // 4), I32(passes))
    return launch("streams", "read_passes", grid, 256, args, {0: want})


def read_stride(rng: Rng, n: int, stride: int) -> Case:
    src = words(rng, n * stride)
    return launch(
        "streams",
        "read_stride",
        blocks(n, 256),
        256,
        (np.zeros(n, F32), src, I32(n), I32(stride)),
        {0: src[::stride] + 1},
    )


def write_stride(rng: Rng, n: int, stride: int) -> Case:
    src = words(rng, n)
    want = np.zeros(n * stride, F32)
    want[::stride] = src
    return launch(
        "streams", "write_stride", blocks(n, 256), 256, (np.zeros(n * stride, F32), src, I32(n), I32(stride)), {0: want}
    )


def gather_index(rng: Rng, n: int, pool: int) -> Case:
    src, at = words(rng, pool), rng.integers(0, pool, n, dtype=I32)
    return launch("streams", "gather_index", blocks(n, 128), 128, (np.zeros(n, F32), src, at, I32(n)), {0: src[at]})


def scatter_index(rng: Rng, n: int) -> Case:
    src, at = words(rng, n), rng.permutation(n).astype(I32)
    want = np.zeros(n, F32)
    want[at] = src
    return launch("streams", "scatter_index", blocks(n, 256), 256, (np.zeros(n, F32), src, at, I32(n)), {0: want})


def add_bytes(rng: Rng, n: int) -> Case:
    a, b = rng.integers(0, 256, n, dtype=U8), rng.integers(0, 256, n, dtype=U8)
    return launch("streams", "add_bytes", blocks(n, 256), 256, (np.zeros(n, U8), a, b, I32(n)), {0: a + b})


def adam_step(rng: Rng, n: int) -> Case:
    w, m, g = (rng.standard_normal(n, F32) for _ in range(3))
    v = rng.random(n, F32)
    m1, v1 = 0.9 * m.astype(F64) + 0.1 * g, 0.999 * v.astype(F64) + 0.001 * g.astype(F64) ** 2
    want = w - 0.01 * m1 / (np.sqrt(v1) + 1e-8)
    args = (w, m, v, g, I32(n), F32(0.01))
    expected = {0: want.astype(F32), 1: m1.astype(F32), 2: v1.astype(F32)}
    return launch("streams", "adam_step", blocks(n, 256), 256, args, expected, rtol=1e-4, atol=1e-5)


def split_structures(rng: Rng, n: int) -> Case:
    points = words(rng, 3 * n)
    p = points.reshape(-1, 3)
    outs = [np.zeros(n, F32) for _ in range(3)]
    args = (*outs, points, I32(n))
    return launch("streams", "split_structures", blocks(n, 256), 256, args, {k: p[:, k] for k in range(3)})


def transpose(rng: Rng, kernel: str, width: int, height: int) -> Case:
    src = words(rng, width * height)
    block = (32, 8)
    if kernel == "transpose_double":
        src, block = src.astype(F64), (16, 16)
    tile = block[0]
    args = (np.zeros_like(src), src, I32(width), I32(height))
    want = src.reshape(height, width).T.ravel()
    return launch("transposes", kernel, (width // tile, height // tile), block, args, {0: want})


def heat_direct(rng: Rng, nx: int, ny: int) -> Case:
    src = rng.random((ny, nx), F32)
    f, want = src.astype(F64), np.zeros((ny, nx), F32)
    around = f[1:-1, :-2] + f[1:-1, 2:] + f[:-2, 1:-1] + f[2:, 1:-1]
    want[1:-1, 1:-1] = 0.6 * f[1:-1, 1:-1] + 0.1 * around
    args = (np.zeros(src.size, F32), src.ravel(), I32(nx), I32(ny))
    return launch(
        "stencils", "heat_direct", (blocks(nx, 32), blocks(ny, 8)), (32, 8), args, {0: want.ravel()}, rtol=1e-5
    )


def heat_tiled(rng: Rng, nx: int, ny: int) -> Case:
    src = rng.random((ny, nx), F32)
    f = np.pad(src.astype(F64), 4, mode="edge")
    for _ in range(4):
        f = 0.6 * f[1:-1, 1:-1] + 0.1 * (f[1:-1, :-2] + f[1:-1, 2:] + f[:-2, 1:-1] + f[2:, 1:-1])
    args = (np.zeros(src.size, F32), src.ravel(), I32(nx), I32(ny))
    grid = (blocks(nx, 16), blocks(ny, 16))
    return launch("stencils", "heat_tiled", grid, (24, 24), args, {0: f.astype(F32).ravel()}, rtol=1e-5)


def star_march(rng: Rng, nx: int, ny: int, nz: int) -> Case:
    src = rng.random((nz, ny, nx), F32)
    f, want = src.astype(F64), np.zeros((nz, ny, nx), F32)
    c = slice(4, -4)

    def shifted(axis: int, by: int) -> Array:
        return np.roll(f, -by, axis)[c, c, c]

    total = 0.5 * f[c, c, c]
    for r in range(1, 5):
        total = total + 0.01 * r * sum(shifted(axis, by) for axis in range(3) for by in (-r, r))
    want[c, c, c] = total
    args = (np.zeros(src.size, F32), src.ravel(), I32(nx), I32(ny), I32(nz))
    return launch("stencils", "star_march", (nx // 32, ny // 16), (32, 16), args, {0: want.ravel()}, rtol=1e-5)


def box_27(rng: Rng, nx: int, ny: int, nz: int) -> Case:
    src = rng.random((nz, ny, nx), F32)
    want = np.zeros((nz, ny, nx), F32)
    total = np.zeros((nz - 2, ny - 2, nx - 2))
    for dz in range(3):
        for dy in range(3):
            for dx in range(3):
                total += src[dz : nz - 2 + dz, dy : ny - 2 + dy, dx : nx - 2 + dx]
    want[1:-1, 1:-1, 1:-1] = total / 27
    args = (np.zeros(src.size, F32), src.ravel(), I32(nx), I32(ny), I32(nz))
    grid = (blocks(nx, 32), blocks(ny, 4), nz)
    return launch("stencils", "box_27", grid, (32, 4), args, {0: want.ravel()}, rtol=1e-5)


def wave_double(rng: Rng, nx: int, ny: int) -> Case:
    now, before = rng.random((ny, nx)), rng.random((ny, nx))
    want = np.zeros((ny, nx))
    i = now[1:-1, 1:-1]
    around = now[1:-1, :-2] + now[1:-1, 2:] + now[:-2, 1:-1] + now[2:, 1:-1]
    want[1:-1, 1:-1] = 2 * i - before[1:-1, 1:-1] + 0.25 * (around - 4 * i)
    args = (np.zeros(now.size), now.ravel(), before.ravel(), I32(nx), I32(ny))
    grid = (blocks(nx, 64), blocks(ny, 4))
    return launch("stencils", "wave_double", grid, (64, 4), args, {0: want.ravel()}, rtol=1e-12, atol=1e-12)


def lattice_step(rng: Rng, nx: int, ny: int) -> Case:
    ex, ey = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
    weight = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    src = (weight[:, None, None] * (1 + 0.1 * rng.random((9, ny, nx)))).astype(F32)
    f = np.array([np.roll(src[q].astype(F64), (ey[q], ex[q]), (0, 1)) for q in range(9)])
    rho = f.sum(axis=0)
    ux, uy = np.tensordot(ex, f, 1) / rho, np.tensordot(ey, f, 1) / rho
    want = np.empty_like(f)
    for q in range(9):
        eu = 3 * (ex[q] * ux + ey[q] * uy)
        want[q] = f[q] - 0.8 * (f[q] - weight[q] * rho * (1 + eu + eu * eu / 2 - 1.5 * (ux * ux + uy * uy)))
    args = (np.zeros(src.size, F32), src.ravel(), I32(nx), I32(ny))
    return launch(
        "stencils",
        "lattice_step",
        (nx // 64, ny // 4),
        (64, 4),
        args,
        {0: want.astype(F32).ravel()},
        rtol=1e-4,
        atol=1e-6,
    )


def picture(rng: Rng, width: int, height: int) -> Array:
    return rng.random((height, width), F32)


def windows(src: Array, radius: int) -> list[Array]:
    """The image moved by every offset of a square, edges repeated, row by row of offsets."""
    height, width = src.shape
    padded = np.pad(src, radius, mode="edge")
    side = range(2 * radius + 1)
    return [padded[dy : dy + height, dx : dx + width] for dy in side for dx in side]


def box_filter(rng: Rng, width: int, height: int, radius: int) -> Case:
    src = picture(rng, width, height)
    want = sum(w.astype(F64) for w in windows(src, radius)) / (2 * radius + 1) ** 2
    args = (np.zeros(src.size, F32), src.ravel(), I32(width), I32(height), I32(radius))
    grid = (blocks(width, 16), blocks(height, 16))
    return launch("images", "box_filter", grid, (16, 16), args, {0: want.astype(F32).ravel()}, rtol=1e-5)


def sobel_bytes(rng: Rng, width: int, height: int) -> Case:
    src = rng.integers(0, 256, (height, width), dtype=U8)
    p = [w.astype(I32) for w in windows(src, 1)]
    gx = p[2] + 2 * p[5] + p[8] - p[0] - 2 * p[3] - p[6]
    gy = p[6] + 2 * p[7] + p[8] - p[0] - 2 * p[1] - p[2]
    want = np.minimum(255, np.abs(gx) + np.abs(gy)).astype(U8)
    args = (np.zeros(src.size, U8), src.ravel(), I32(width), I32(height))
    return launch("images", "sobel_bytes", (blocks(width, 32), blocks(height, 8)), (32, 8), args, {0: want.ravel()})


def median_bytes(rng: Rng, width: int, height: int) -> Case:
    src = rng.integers(0, 256, (height, width), dtype=U8)
    want = np.sort(np.array(windows(src, 1)), axis=0)[4]
    args = (np.zeros(src.size, U8), src.ravel(), I32(width), I32(height))
    return launch("images", "median_bytes", (blocks(width, 32), blocks(height, 8)), (32, 8), args, {0: want.ravel()})


def bilateral_filter(rng: Rng, width: int, height: int) -> Case:
    src = picture(rng, width, height)
    total, weights = np.zeros(src.shape), np.zeros(src.shape)
    for k, moved in enumerate(windows(src.astype(F64), 2)):
        dy, dx = k // 5 - 2, k % 5 - 2
        weight = np.exp(-0.125 * (dx * dx + dy * dy) - 8 * (moved - src) ** 2)
        total += weight * moved
        weights += weight
    args = (np.zeros(src.size, F32), src.ravel(), I32(width), I32(height))
    grid = (blocks(width, 16), blocks(height, 16))
    want = (total / weights).astype(F32).ravel()
    return launch("images", "bilateral_filter", grid, (16, 16), args, {0: want}, rtol=1e-4)


def gauss(rng: Rng, kernel: str, width: int, height: int) -> Case:
    src = picture(rng, width, height)
    taps = np.exp(-(((np.arange(17) - 8) / 4.0) ** 2)).astype(F32)
    axis = 1 if kernel == "gauss_rows" else 0
    pad = [(8, 8) if a == axis else (0, 0) for a in (0, 1)]
    padded = np.pad(src.astype(F64), pad, mode="edge")
    extent = src.shape[axis]
    want = sum(float(taps[k]) * padded.take(range(k, k + extent), axis) for k in range(17))
    args: tuple[Array | np.generic, ...] = (np.zeros(src.size, F32), src.ravel(), I32(width))
    if axis == 0:
        args = (*args, I32(height))
    return launch(
        "images", kernel, (blocks(width, 256), height), 256, args, {0: np.asarray(want, F32).ravel()},
        rtol=1e-5, device_globals={"taps": taps},
    )  # fmt: skip


def grey_pixels(rng: Rng, n: int) -> Case:
    src = rng.integers(0, 256, (n, 4), dtype=U8)
    p = src.astype(I32)
    want = ((77 * p[:, 0] + 150 * p[:, 1] + 29 * p[:, 2]) >> 8).astype(U8)
    return launch("images", "grey_pixels", blocks(n, 256), 256, (np.zeros(n, U8), src.ravel(), I32(n)), {0: want})


def resize_bilinear(rng: Rng, width: int, height: int, to_width: int, to_height: int) -> Case:
    src = picture(rng, width, height)
    fx = (np.arange(to_width, dtype=F32) * F32(width - 1) / F32(to_width - 1)).astype(F64)
    fy = (np.arange(to_height, dtype=F32) * F32(height - 1) / F32(to_height - 1)).astype(F64)
    x, y = np.minimum(fx.astype(int), width - 2), np.minimum(fy.astype(int), height - 2)
    u, v, p = (fx - x)[None, :], (fy - y)[:, None], src.astype(F64)
    top = (1 - u) * p[y][:, x] + u * p[y][:, x + 1]
    low = (1 - u) * p[y + 1][:, x] + u * p[y + 1][:, x + 1]
    want = ((1 - v) * top + v * low).astype(F32)
    args = (np.zeros(want.size, F32), src.ravel(), I32(width), I32(height), I32(to_width), I32(to_height))
    grid = (blocks(to_width, 32), blocks(to_height, 8))
    return launch("images", "resize_bilinear", grid, (32, 8), args, {0: want.ravel()}, rtol=1e-3, atol=1e-3)


def map_levels(rng: Rng, n: int, grid: int) -> Case:
    data, levels = rng.integers(0, 256, 4 * n, dtype=U8), rng.permutation(256).astype(U8)
    return launch("images", "map_levels", grid, 256, (data, levels, I32(n)), {0: levels[data]})


CASES: dict[str, Builder] = {
    "copy_one_block": partial(copy_word, n=1000),
    "copy_24_blocks": partial(copy_word, n=6000),
    "copy_l2": partial(copy_word, n=1 << 21),
    "copy_blocks_1024": partial(copy_word, n=3_000_000, threads=1024),
    "copy_vector_64m": partial(copy_vector, mib=48, grid=0),
    "copy_vector_stride": partial(copy_vector, mib=32, grid=528),
    "fill_48m": partial(fill_vector, mib=48),
    "triad_double": partial(triad_double, n=1_500_000),
    "read_dram_once": partial(read_passes, mib=96, passes=1, grid=1056),
    "read_l2_passes": partial(read_passes, mib=8, passes=8, grid=1056),
    "read_stride_2": partial(read_stride, n=2_000_000, stride=2),
    "read_stride_32": partial(read_stride, n=400_000, stride=32),
    "write_stride_4": partial(write_stride, n=1_000_000, stride=4),
    "gather_l2": partial(gather_index, n=600_000, pool=1 << 20),
    "gather_dram": partial(gather_index, n=500_000, pool=1 << 25),
    "scatter_permuted": partial(scatter_index, n=1_000_000),
    "add_bytes": partial(add_bytes, n=4_000_000),
    "adam_step": partial(adam_step, n=1_000_000),
    "split_structures": partial(split_structures, n=1_000_000),
    "transpose_direct": partial(transpose, kernel="transpose_direct", width=1024, height=1024),
    "transpose_shared": partial(transpose, kernel="transpose_shared", width=1024, height=1024),
    "transpose_swizzled": partial(transpose, kernel="transpose_swizzled", width=2048, height=1024),
    "transpose_double": partial(transpose, kernel="transpose_double", width=1024, height=768),
    "heat_direct": partial(heat_direct, nx=1600, ny=1200),
    "heat_direct_small": partial(heat_direct, nx=128, ny=96),
    "heat_tiled": partial(heat_tiled, nx=640, ny=480),
    "star_march": partial(star_march, nx=256, ny=256, nz=40),
    "box_27": partial(box_27, nx=128, ny=128, nz=48),
    "wave_double": partial(wave_double, nx=1280, ny=800),
    "lattice_step": partial(lattice_step, nx=512, ny=384),
    "box_filter": partial(box_filter, width=500, height=400, radius=3),
    "sobel_bytes": partial(sobel_bytes, width=1280, height=720),
    "median_bytes": partial(median_bytes, width=800, height=600),
    "bilateral_filter": partial(bilateral_filter, width=512, height=320),
    "gauss_rows": partial(gauss, kernel="gauss_rows", width=1920, height=540),
    "gauss_columns": partial(gauss, kernel="gauss_columns", width=1024, height=600),
    "grey_pixels": partial(grey_pixels, n=3_000_000),
    "resize_bilinear": partial(resize_bilinear, width=640, height=480, to_width=1280, to_height=800),
    "map_levels": partial(map_levels, n=2_000_000, grid=1056),
}
