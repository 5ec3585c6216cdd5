"""Launches of ``kernels.cu`` with references computed in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.kernels.case import Array, Case, triple

SOURCE = Path(__file__).parent / "kernels.cu"
I32, U32, U8, I16, F32, F64 = np.int32, np.uint32, np.uint8, np.int16, np.float32, np.float64
Chance = np.random.Generator


def made(kernel: str, grid: Any, block: Any, args: list[Any], want: dict[int, Array], **more: Any) -> Case:
    return Case(kernel, SOURCE, kernel, triple(grid), triple(block), tuple(args), expected=want, **more)


def walsh_transform(c: Chance) -> Case:
    data = c.integers(-1000, 1000, 1024, dtype=I32)
    signs = np.array([[1 - 2 * (bin(i & j).count("1") & 1) for j in range(256)] for i in range(256)])
    return made("walsh_transform", 4, 256, [data], {0: (data.reshape(4, 256) @ signs).astype(I32).ravel()})


def scalar_products(c: Chance) -> Case:
    a, b = (c.standard_normal((6, 500), dtype=F32) for _ in range(2))
    want = (a.astype(F64) * b).sum(axis=1).astype(F32)
    return made("scalar_products", 6, 128, [a, b, np.zeros(6, F32), I32(500)], {2: want}, atol=1e-4, rtol=1e-5)


def histogram_bytes(c: Chance) -> Case:
    data = c.integers(0, 256, (3, 20 * 64), dtype=U8)
    want = np.concatenate([np.bincount(row >> 2, minlength=64) for row in data]).astype(U32)
    return made("histogram_bytes", 3, 64, [data, np.zeros(192, U32), I32(20)], {1: want})


def convolution_rows(c: Chance) -> Case:
    src, taps = c.standard_normal((5, 150), dtype=F32), c.standard_normal(9, dtype=F32)
    padded = np.pad(src.astype(F64), ((0, 0), (4, 4)))
    want = sum(F64(taps[k]) * padded[:, k : k + 150] for k in range(9))
    more = {"device_globals": {"row_filter": taps}, "rtol": 1e-4, "atol": 1e-5}
    return made("convolution_rows", (3, 5), 64, [src, np.zeros_like(src), I32(150)], {1: want.astype(F32)}, **more)


def dct_8x8(c: Chance) -> Case:
    k, x = np.mgrid[0:8, 0:8]
    cosines = (np.where(k == 0, np.sqrt(0.125), 0.5) * np.cos((2 * x + 1) * k * np.pi / 16)).astype(F32)
    src = c.standard_normal((16, 24), dtype=F32)
    want = np.zeros((16, 24))
    for j in range(0, 16, 8):
        for i in range(0, 24, 8):
            want[j : j + 8, i : i + 8] = cosines.astype(F64) @ src[j : j + 8, i : i + 8] @ cosines.astype(F64).T
    more = {"device_globals": {"cosines": cosines.ravel()}, "rtol": 1e-4, "atol": 1e-5}
    return made("dct_8x8", (3, 2), (8, 8), [src, np.zeros_like(src), I32(24)], {1: want.astype(F32)}, **more)


def sobel(c: Chance) -> Case:
    src = c.integers(0, 256, (21, 37), dtype=U8)
    p = np.pad(src.astype(I32), 1, mode="edge")
    at = {(j, i): p[j : j + 21, i : i + 37] for j in range(3) for i in range(3)}
    h = at[0, 2] + 2 * at[1, 2] + at[2, 2] - at[0, 0] - 2 * at[1, 0] - at[2, 0]
    v = at[2, 0] + 2 * at[2, 1] + at[2, 2] - at[0, 0] - 2 * at[0, 1] - at[0, 2]
    want = np.minimum((abs(h) + abs(v)) // 2, 255).astype(U8)
    return made("sobel", (3, 2), (16, 16), [src, np.zeros_like(src), I32(37), I32(21)], {1: want})


def box_filter(c: Chance) -> Case:
    src = c.integers(-500, 500, (19, 70), dtype=I32)
    want = np.array([src[max(y - 3, 0) : y + 4].sum(axis=0) for y in range(19)], dtype=I32)
    return made("box_filter", 2, 64, [src, np.zeros_like(src), I32(70), I32(19), I32(3)], {1: want})


def quasirandom(c: Chance) -> Case:
    directions = c.integers(0, 1 << 32, (4, 32), dtype=U32)
    want = np.zeros((4, 200), U32)
    for dimension in range(4):
        for i in range(200):
            for bit in range(32):
                if (i ^ i >> 1) >> bit & 1:
                    want[dimension, i] ^= directions[dimension, bit]
    globals_ = {"directions": directions.ravel()}
    return made("quasirandom", (2, 4), 128, [np.zeros_like(want), I32(200)], {0: want}, device_globals=globals_)


def xorshift_streams(c: Chance) -> Case:
    state = c.integers(1, 1 << 32, 192, dtype=U32)
    x, sums = state.copy(), np.zeros(192, U32)
    for _ in range(30):
        x ^= x << U32(13)
        x ^= x >> U32(17)
        x ^= x << U32(5)
        sums += x >> U32(8)
    return made("xorshift_streams", 3, 64, [state, np.zeros(192, U32), I32(30)], {0: x, 1: sums})


def gray_pixels(c: Chance) -> Case:
    src = c.integers(0, 256, (300, 4), dtype=U8)
    want = ((src[:, :3].astype(I32) @ np.array([77, 151, 28]) + 128) >> 8).astype(U8)
    return made("gray_pixels", 3, 128, [src, np.zeros(300, U8), I32(300)], {1: want})


def matrix_vector(c: Chance) -> Case:
    a, x = c.standard_normal((9, 333), dtype=F32), c.standard_normal(333, dtype=F32)
    want = (a.astype(F64) @ x).astype(F32)
    return made("matrix_vector", 9, 64, [a, x, np.zeros(9, F32), I32(333)], {2: want}, atol=1e-4, rtol=1e-5)


def edit_distance(c: Chance) -> Case:
    a, b = (c.integers(0, 3, (3, 64)).astype(np.int8) for _ in range(2))
    want = []
    for one, other in zip(a, b, strict=True):
        row = list(range(65))
        for i in range(1, 65):
            new = [i]
            for j in range(1, 65):
                new.append(min(row[j - 1] + int(one[i - 1] != other[j - 1]), 1 + min(row[j], new[j - 1])))
            row = new
        want.append(row[64])
    return made("edit_distance", 3, 65, [a, b, np.zeros(3, I32), I32(64)], {2: np.array(want, I32)})


def transpose_bits(c: Chance) -> Case:
    src = c.integers(0, 1 << 32, (3, 32), dtype=U32)
    bits = src[:, :, None] >> np.arange(32, dtype=U32) & U32(1)
    want = (bits.transpose(0, 2, 1) << np.arange(32, dtype=U32)).sum(axis=2).astype(U32)
    return made("transpose_bits", 3, 32, [src, np.zeros_like(src)], {1: want})


def points_in_polygon(c: Chance) -> Case:
    points, corners = c.integers(-100, 100, (200, 2), dtype=I32), c.integers(-100, 100, (9, 2), dtype=I32)
    want = np.zeros(200, I32)
    for n, (px, py) in enumerate(points.tolist()):
        for k in range(9):
            (ax, ay), (bx, by) = corners[k].tolist(), corners[k - 1].tolist()
            if (ay > py) != (by > py):
                side = (bx - ax) * (py - ay) - (px - ax) * (by - ay)
                want[n] ^= int(side > 0 if by > ay else side < 0)
    return made("points_in_polygon", 2, 128, [points, corners, np.zeros(200, I32), I32(200), I32(9)], {2: want})


def fir_filter(c: Chance) -> Case:
    src, taps = c.integers(-3000, 3000, 250, dtype=I16), c.integers(-9000, 9000, 16, dtype=I16)
    total = np.convolve(src.astype(np.int64), taps.astype(np.int64))[:250] + (1 << 14)
    want = (total >> 15).astype(I16)
    return made("fir_filter", 2, 128, [src, np.zeros(250, I16), I32(250)], {1: want}, device_globals={"taps": taps})


def heat_step(c: Chance) -> Case:
    src = c.standard_normal((20, 35), dtype=F32)
    f = np.pad(src.astype(F64), 1, mode="edge")
    around = f[:-2, 1:-1] + f[2:, 1:-1] + f[1:-1, :-2] + f[1:-1, 2:]
    want = (src + F64(F32(0.2)) * (around - 4 * src.astype(F64))).astype(F32)
    args = [src, np.zeros_like(src), I32(35), I32(20)]
    return made("heat_step", (3, 2), (16, 16), args, {1: want}, rtol=1e-4, atol=1e-5)


CASES = (
    *(walsh_transform, scalar_products, histogram_bytes, convolution_rows, dct_8x8, sobel, box_filter, quasirandom),
    *(xorshift_streams, gray_pixels, matrix_vector, edit_distance, transpose_bits, points_in_polygon, fir_filter),
    heat_step,
)


def early_case(name: str) -> Case:
    """One case by its kernel's name."""
    builder = next(one for one in CASES if one.__name__ == name)
    return builder(np.random.default_rng(sum(map(ord, name))))


def early_names() -> list[str]:
    return [one.__name__ for one in CASES]
