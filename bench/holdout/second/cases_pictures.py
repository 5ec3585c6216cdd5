"""Images; learning, classical and deep."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from bench.holdout.second.case import Array, Case, Outputs, Rng, Sized, launch, normal, sized

I16, I32, I64, F32, F64, U16, U32, U8 = (
    np.int16,
    np.int32,
    np.int64,
    np.float32,
    np.float64,
    np.uint16,
    np.uint32,
    np.uint8,
)
BF16 = ml_dtypes.bfloat16


def filtered(image: Array, taps: Array, axis: int) -> Array:
    """The image with a filter of 17 taps along an axis, zeros beyond its rim."""
    pad = [(8, 8) if a == axis else (0, 0) for a in range(2)]
    wide, n = np.pad(image.astype(F64), pad), image.shape[axis]
    return sum(taps[16 - k] * np.take(wide, range(k, k + n), axis) for k in range(17)).astype(F32)


def filter_rows_8(rng: Rng, width: int, height: int) -> Case:
    src, taps = normal(rng, (height, width)), normal(rng, 17)
    args = (np.zeros(src.size, F32), src.ravel(), I32(width))
    expected, contents = {0: filtered(src, taps, 1).ravel()}, {"taps": taps}
    grid = (width // 128, height // 4)
    return launch(
        "images", "filter_rows_8", grid, (16, 4), args, expected, rtol=1e-4, atol=1e-4, device_globals=contents
    )


def filter_columns_8(rng: Rng, width: int, height: int) -> Case:
    src, taps = normal(rng, (height, width)), normal(rng, 17)
    args = (np.zeros(src.size, F32), src.ravel(), I32(width), I32(height))
    expected, contents = {0: filtered(src, taps, 0).ravel()}, {"taps": taps}
    grid = (width // 16, height // 64)
    return launch(
        "images", "filter_columns_8", grid, (16, 8), args, expected, rtol=1e-4, atol=1e-4, device_globals=contents
    )


def erode_disc(rng: Rng, width: int, height: int) -> Case:
    src = rng.integers(0, 256, (height, width), dtype=U8)
    wide, want = np.pad(src, 3, mode="edge"), np.full_like(src, 255)
    for dy in range(-3, 4):
        for dx in range(-3, 4):
            if dx * dx + dy * dy <= 9:
                want = np.minimum(want, wide[3 + dy : 3 + dy + height, 3 + dx : 3 + dx + width])
    args = (np.zeros(src.size, U8), src.ravel(), I32(width), I32(height))
    return launch("images", "erode_disc", (-(-width // 32), -(-height // 32)), (32, 32), args, {0: want.ravel()})


def thin_edges(rng: Rng, width: int, height: int) -> Case:
    y, x = np.mgrid[:height, :width]
    smooth = 90 * np.stack([np.sin(x / 9) * np.cos(y / 7), np.cos(x / 8 + y / 11)], axis=-1)
    gradient = (smooth + 8 * rng.standard_normal((height, width, 2))).astype(I16)
    gx, gy = (gradient[..., k].astype(I32) for k in range(2))
    size, low, high = np.abs(gx) + np.abs(gy), 40, 100
    flat = np.abs(gy) * 5 < np.abs(gx) * 2
    steep = ~flat & (np.abs(gx) * 5 < np.abs(gy) * 2)
    step = np.where(flat, 1, np.where(steep, width, np.where((gx ^ gy) < 0, width - 1, width + 1)))
    at = y * width + x
    inside = (x > 0) & (y > 0) & (x < width - 1) & (y < height - 1)
    every = size.ravel()
    a, b = every[np.where(inside, at - step, 0)], every[np.where(inside, at + step, 0)]
    keep = inside & (size > low) & (size > a) & (size >= b)
    want = np.where(keep, np.where(size > high, 255, 128), 0).astype(U8)
    args = (np.zeros(want.size, U8), gradient.ravel(), I32(width), I32(height), I32(low), I32(high))
    return launch("images", "thin_edges", (-(-width // 32), -(-height // 12)), (32, 12), args, {0: want.ravel()})


def seam_costs(rng: Rng, width: int, height: int) -> Case:
    energy = rng.integers(0, 1000, (height, width), dtype=I32)
    want = energy.copy()
    for row in range(1, height):
        wide = np.pad(want[row - 1], 1, constant_values=np.iinfo(I32).max)
        want[row] += np.minimum(np.minimum(wide[:-2], wide[1:-1]), wide[2:])
    args = (np.zeros(want.size, I32), energy.ravel(), I32(width), I32(height))
    return launch("images", "seam_costs", 1, 1024, args, {0: want.ravel()}, shared_bytes=8 * width)


def turn_pixels(rng: Rng, width: int, height: int) -> Case:
    src = rng.integers(0, 256, (height, width, 4), dtype=U8)
    c, s = 0.8, 0.6
    y, x = np.mgrid[:height, :width]
    fx, fy = (
        c * (x - width // 2) - s * (y - height // 2) + width // 2,
        s * (x - width // 2) + c * (y - height // 2) + height // 2,
    )
    px, py = np.floor(fx * 256).astype(I64), np.floor(fy * 256).astype(I64)
    u, v, px, py = (px & 255)[..., None], (py & 255)[..., None], px >> 8, py >> 8
    inside = (px >= 0) & (py >= 0) & (px < width - 1) & (py < height - 1)
    px, py = np.where(inside, px, 0), np.where(inside, py, 0)
    p = [src[py + dy, px + dx, :3].astype(I64) for dy in (0, 1) for dx in (0, 1)]
    mixed = (p[0] * (256 - u) * (256 - v) + p[1] * u * (256 - v) + p[2] * (256 - u) * v + p[3] * u * v) >> 16
    want = np.zeros((height, width, 4), I64)
    want[..., :3], want[..., 3] = np.where(inside[..., None], mixed, 0), 255

    def check(outputs: Outputs) -> None:
        """A weight may be one step apart where single precision rounds the place otherwise."""
        got = np.asarray(outputs[0]).reshape(want.shape).astype(I64)
        if (np.abs(got - want) > 2).mean() > 0.002:
            raise AssertionError(f"turn_pixels: {(np.abs(got - want) > 2).sum()} values differ")

    args = (np.zeros(src.size, U8), src.ravel(), I32(width), I32(height), F32(c), F32(s))
    return launch("images", "turn_pixels", (width // 16, height // 16), (16, 16), args, check=check)


def quantise_zigzag(rng: Rng, blocks: int) -> Case:
    order = sorted(range(64), key=lambda k: (k // 8 + k % 8, k // 8 if (k // 8 + k % 8) % 2 else k % 8))
    steps = (8 + 3 * np.add.outer(np.arange(8), np.arange(8)).ravel()).astype(U16)
    src = (rng.standard_normal((blocks, 64)) * 400 / (1 + np.add.outer(np.arange(8), np.arange(8)).ravel())).astype(I16)
    size = (np.abs(src.astype(I32)) + steps // 2) // steps
    want = (np.sign(src.astype(I32)) * size)[:, order].astype(I16)
    last = np.where(want.any(axis=1), 64 - np.argmax(want[:, ::-1] != 0, axis=1), 0)
    contents = {"zigzag": np.array(order, U8), "steps": steps}
    args = (np.zeros(src.size, I16), np.zeros(blocks, U8), src.ravel())
    expected = {0: want.ravel(), 1: last.astype(U8)}
    return launch("images", "quantise_zigzag", blocks // 4, 256, args, expected, device_globals=contents)


def integral_rows(rng: Rng, width: int, height: int) -> Case:
    src = rng.integers(0, 256, (height, width), dtype=U8)
    args = (np.zeros(src.size, U32), src.ravel(), I32(width))
    return launch("images", "integral_rows", height, 1024, args, {0: np.cumsum(src, axis=1, dtype=U32).ravel()})


def lstm_cells(rng: Rng, units: int, batch: int) -> Case:
    gates, bias, c = normal(rng, (batch, 4, units)), normal(rng, (4, units)), normal(rng, (batch, units))
    g = (gates + bias).astype(F64)
    i, f, o = (1 / (1 + np.exp(-g[:, k])) for k in (0, 1, 3))
    cell = f * c + i * np.tanh(g[:, 2])
    args = (np.zeros(c.size, F32), c.ravel(), gates.ravel(), bias.ravel(), I32(units), I32(c.size))
    expected = {0: (o * np.tanh(cell)).astype(F32).ravel(), 1: cell.astype(F32).ravel()}
    return launch("learning", "lstm_cells", -(-c.size // 384), 384, args, expected, rtol=1e-3, atol=1e-5)


def radial_kernel(rng: Rng, rows: int, columns: int, features: int) -> Case:
    x, y = normal(rng, (rows, features)), normal(rng, (columns, features))
    square = ((x.astype(F64) ** 2).sum(axis=1)[:, None] + (y.astype(F64) ** 2).sum(axis=1)) - 2 * x.astype(
        F64
    ) @ y.T.astype(F64)
    args = (np.zeros(rows * columns, F32), x.ravel(), y.ravel(), I32(columns), I32(features), F32(0.02))
    expected = {0: np.exp(-0.02 * square).astype(F32).ravel()}
    return launch(
        "learning", "radial_kernel", (columns // 16, rows // 16), (16, 16), args, expected, rtol=1e-3, atol=1e-6
    )


def covariances(rng: Rng, rows: int, columns: int) -> Case:
    data = normal(rng, (rows, columns))
    mean = data.mean(axis=0, dtype=F64)
    want = ((data - mean).T @ (data - mean) / (rows - 1)).astype(F32)
    args = (np.zeros(want.size, F32), data.ravel(), mean.astype(F32), I32(rows), I32(columns))
    return launch(
        "learning",
        "covariances",
        (columns // 8, columns // 8),
        (8, 8, 8),
        args,
        {0: want.ravel()},
        rtol=1e-3,
        atol=1e-4,
    )


def update_centres(rng: Rng, n: int, k: int, blocks: int) -> Case:
    points, labels = rng.integers(0, 64, (4, n)).astype(F32), rng.integers(0, k, n, dtype=I32)
    want = np.stack([np.bincount(labels, p, k) for p in points]).astype(F32)
    args = (np.zeros(4 * k, F32), np.zeros(k, U32), points.ravel(), labels, I32(n), I32(k))
    expected = {0: want.ravel(), 1: np.bincount(labels, minlength=k).astype(U32)}
    return launch("learning", "update_centres", blocks, 256, args, expected, rtol=1e-5, atol=1e-3, shared_bytes=20 * k)


def product_dp4a(rng: Rng, rows: int, columns: int, depth: int) -> Case:
    a, b = (rng.integers(-128, 128, (n, depth), dtype=np.int8) for n in (rows, columns))
    want = ((a.astype(F64) @ b.T.astype(F64)).astype(F32) * F32(0.01)).astype(F32)
    args = (
        np.zeros(want.size, F32),
        a.view(I32).ravel(),
        b.view(I32).ravel(),
        I32(columns),
        I32(depth // 4),
        F32(0.01),
    )
    return launch("learning", "product_dp4a", (columns // 64, rows // 64), 256, args, {0: want.ravel()}, rtol=1e-6)


def separable_block(rng: Rng, channels: int, outputs: int, width: int, height: int) -> Case:
    src, depth, point = (
        normal(rng, (channels, height, width)),
        normal(rng, (channels, 3, 3)),
        normal(rng, (outputs, channels)),
    )
    wide, middle = np.pad(src, ((0, 0), (1, 1), (1, 1))).astype(F64), np.zeros(src.shape)
    for r in range(3):
        for c in range(3):
            middle += depth[:, r, c, None, None] * wide[:, r : r + height, c : c + width]
    want = np.einsum("oc,chw->ohw", point, np.maximum(middle, 0), optimize=True).astype(F32)
    args = (
        *(np.zeros(want.size, F32), src.ravel(), depth.ravel(), point.ravel()),
        *(I32(channels), I32(outputs), I32(width), I32(height)),
    )
    shared = 4 * channels * (3 * (width + 2) + width)
    return launch(
        "learning", "separable_block", height, 320, args, {0: want.ravel()}, rtol=1e-3, atol=1e-3, shared_bytes=shared
    )


def channel_moments(rng: Rng, batch: int, channels: int, pixels: int) -> Case:
    src = normal(rng, (batch, channels, pixels)) + F32(1)
    args = (np.zeros(channels, F32), np.zeros(channels, F32), src.ravel(), I32(batch), I32(channels), I32(pixels))
    expected = {0: src.mean(axis=(0, 2), dtype=F64).astype(F32), 1: src.var(axis=(0, 2), dtype=F64).astype(F32)}
    return launch("learning", "channel_moments", channels, 512, args, expected, rtol=1e-3, atol=1e-4)


def product_wmma_bytes(rng: Rng, rows: int, columns: int, depth: int) -> Case:
    a, b = (rng.integers(-128, 128, (n, depth), dtype=np.int8) for n in (rows, columns))
    want = (a.astype(F64) @ b.T.astype(F64)).astype(I32)
    args = (np.zeros(want.size, I32), a.ravel(), b.ravel(), I32(columns), I32(depth))
    return launch("learning", "product_wmma_bytes", rows * columns // 4096, 128, args, {0: want.ravel()})


def product_tf32(rng: Rng, rows: int, columns: int, depth: int) -> Case:
    a, b = normal(rng, (rows, depth)), normal(rng, (depth, columns))
    want = (a.astype(F64) @ b.astype(F64)).astype(F32)
    args = (np.zeros(want.size, F32), a.ravel(), b.ravel(), I32(columns), I32(depth))
    return launch(
        "learning", "product_tf32", (columns // 64, rows // 64), 128, args, {0: want.ravel()}, rtol=1e-2, atol=0.1
    )


def rows_times_eight(rng: Rng, rows: int, depth: int) -> Case:
    a, b = normal(rng, (rows, depth), BF16), normal(rng, (8, depth), BF16)
    want = a.astype(F32) @ b.astype(F32).T
    args = (np.zeros(want.size, F32), a.view(U16).ravel(), b.view(U16).ravel(), I32(depth))
    return launch("learning", "rows_times_eight", rows // 32, 64, args, {0: want.ravel()}, rtol=1e-3, atol=1e-2)


CASES: dict[str, Sized] = {
    "filter_rows_8": sized(filter_rows_8, {"width": 256, "height": 4}, width=2048, height=1024),
    "filter_columns_8": sized(filter_columns_8, {"width": 32, "height": 128}, width=2048, height=1024),
    "erode_disc": sized(erode_disc, {"width": 40, "height": 37}, width=1280, height=1000),
    "thin_edges": sized(thin_edges, {"width": 45, "height": 20}, width=1600, height=1200),
    "seam_costs": sized(seam_costs, {"width": 1500, "height": 4}, width=3000, height=120),
    "turn_pixels": sized(turn_pixels, {"width": 64, "height": 32}, width=1024, height=1024),
    "quantise_zigzag": sized(quantise_zigzag, {"blocks": 8}, blocks=24_000),
    "integral_rows": sized(integral_rows, {"width": 1100, "height": 2}, width=3000, height=600),
    "lstm_cells": sized(lstm_cells, {"units": 100, "batch": 4}, units=512, batch=800),
    "radial_kernel": sized(radial_kernel, {"rows": 16, "columns": 32, "features": 32}, rows=640, columns=800, features=64),
    "covariances": sized(covariances, {"rows": 50, "columns": 16}, rows=800, columns=128),
    "update_centres": sized(update_centres, {"n": 1000, "k": 5, "blocks": 2}, n=800_000, k=20, blocks=528),
    "update_centres_few": sized(update_centres, {"n": 700, "k": 3, "blocks": 1}, n=60_000, k=64, blocks=16),
    "product_dp4a": sized(product_dp4a, {"rows": 64, "columns": 128, "depth": 128}, rows=1024, columns=1024, depth=1024),
    "separable_block": sized(separable_block, {"channels": 9, "outputs": 5, "width": 20, "height": 3}, channels=96, outputs=64, width=62, height=132),
    "channel_moments": sized(channel_moments, {"batch": 2, "channels": 3, "pixels": 600}, batch=16, channels=256, pixels=1024),
    "product_wmma_bytes": sized(product_wmma_bytes, {"rows": 64, "columns": 64, "depth": 64}, rows=1024, columns=1536, depth=768),
    "product_tf32": sized(product_tf32, {"rows": 64, "columns": 128, "depth": 32}, rows=1024, columns=768, depth=512),
    "rows_times_eight": sized(rows_times_eight, {"rows": 32, "depth": 64}, rows=8192, depth=1024),
}  # fmt: skip
