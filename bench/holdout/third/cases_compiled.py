"""Machine code of other compilers: PTX of Triton and of Numba, as ``compiled.py`` made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from bench.holdout.third.case import SOURCES, Array, Case, Outputs, Rng, Sized, launch, near, normal, sized
from tests.kernels.case import Argument

I32, I64, F16, F32, F64, U16, U64 = np.int32, np.int64, np.float16, np.float32, np.float64, np.uint16, np.uint64
BF16 = ml_dtypes.bfloat16


def triton(kernel: str, grid: int | Sequence[int], args: Sequence[Argument], **more: Any) -> Case:
    """A kernel of Triton's: threads and shared memory are given in the first line of its PTX, and two null pointers follow the arguments."""
    words = (SOURCES / f"{kernel}.ptx").open().readline().split()
    shared, threads = int(words[words.index("bytes") - 1]), int(words[words.index("threads") - 1])
    case = launch("", kernel, grid, threads, (*args, U64(0), U64(0)), shared_bytes=shared, **more)
    return replace(case, source=SOURCES / f"{kernel}.ptx")


def numba(
    kernel: str, grid: Sequence[int] | int, block: Sequence[int] | int, args: Sequence[Argument], **more: Any
) -> Case:
    """A kernel of Numba's: for an array two null pointers, elements, bytes of one, its address, shape and strides."""
    passed: list[Argument] = []
    for a in args:
        if isinstance(a, np.ndarray):
            passed += [
                U64(0),
                U64(0),
                I64(a.size),
                I64(a.itemsize),
                a.ravel(),
                *map(I64, a.shape),
                *map(I64, a.strides),
            ]
        else:
            passed.append(a)
    return replace(launch("", kernel, grid, block, passed, **more), source=SOURCES / f"{kernel}.ptx")


def triton_matmul(rng: Rng, m: int, n: int, k: int) -> Case:
    a, b = normal(rng, (m, k), BF16), normal(rng, (k, n), BF16)
    args = (np.zeros(m * n, U16), a.view(U16).ravel(), b.view(U16).ravel())
    want = a.astype(F32) @ b.astype(F32)
    tiles = -(-m // 128) * -(-n // 128)
    return triton(
        "triton_matmul",
        tiles,
        (args[1], args[2], args[0], I32(m), I32(n), I32(k)),
        check=near(2, BF16, want, 1e-2, 0.3),
    )


def triton_layer_norm(rng: Rng, rows: int, columns: int) -> Case:
    x, gain, bias = normal(rng, (rows, columns)), normal(rng, columns), normal(rng, columns)
    exact = x.astype(F64)
    want = (exact - exact.mean(axis=1, keepdims=True)) / np.sqrt(exact.var(axis=1, keepdims=True) + 1e-5) * gain + bias
    args = (x.ravel(), gain, bias, np.zeros(x.size, F32), I32(columns), F32(1e-5))
    return triton("triton_layer_norm", rows, args, expected={3: want.astype(F32).ravel()}, rtol=1e-3, atol=1e-4)


def triton_attention(rng: Rng, heads: int, length: int) -> Case:
    q, k, v = (normal(rng, (heads, length, 64), F16) for _ in range(3))
    logits = q.astype(F32) @ k.astype(F32).transpose(0, 2, 1) * F32(0.125)
    e = np.exp(logits - logits.max(axis=2, keepdims=True))
    want = (e / e.sum(axis=2, keepdims=True)) @ v.astype(F32)
    args = (q.ravel(), k.ravel(), v.ravel(), np.zeros(q.size, F16), I32(length), F32(0.125 * 1.4426950408889634))
    return triton(
        "triton_attention", (length // 64, heads), args, expected={3: want.astype(F16).ravel()}, rtol=2e-2, atol=5e-3
    )


def triton_int4_matmul(rng: Rng, n: int, k: int) -> Case:
    x, words = normal(rng, (16, k), F16), rng.integers(-(1 << 31), 1 << 31, (k // 8, n)).astype(I32)
    scales = (rng.random((k // 128, n)) * 0.1 + 0.01).astype(F16)
    codes = (words[:, None] >> (4 * np.arange(8)[:, None]) & 15).reshape(k, n) - 8
    weights = codes.astype(F32) * np.repeat(scales.astype(F32), 128, axis=0)
    want = x.astype(F32) @ weights.astype(F16).astype(F32)
    args = (x.ravel(), words.ravel(), scales.ravel(), np.zeros(16 * n, F16), I32(n), I32(k))
    return triton("triton_int4_matmul", n // 64, args, expected={3: want.astype(F16).ravel()}, rtol=1e-2, atol=0.05)


def triton_vocabulary_loss(rng: Rng, rows: int, columns: int) -> Case:
    logits, label = normal(rng, (rows, columns), BF16), rng.integers(0, columns, rows, dtype=I32)
    exact = logits.astype(F64)
    want = np.log(np.exp(exact).sum(axis=1)) - exact[np.arange(rows), label]
    args = (logits.view(U16).ravel(), label, np.zeros(rows, F32), I32(columns))
    return triton("triton_vocabulary_loss", rows, args, expected={2: want.astype(F32)}, rtol=1e-3, atol=1e-3)


def numba_matmul(rng: Rng, m: int, n: int, k: int) -> Case:
    a, b = normal(rng, (m, k)), normal(rng, (k, n))
    grid = (-(-n // 16), -(-m // 16))
    expected = {4 + 18: (a @ b).ravel()}
    return numba("numba_matmul", grid, (16, 16), (a, b, np.zeros((m, n), F32)), expected=expected, rtol=1e-3, atol=1e-3)


def numba_stencil(rng: Rng, width: int, height: int, grid: tuple[int, int]) -> Case:
    src = rng.standard_normal((height, width))
    want = np.zeros(src.shape)
    inner = src[1:-1, 1:-1]
    want[1:-1, 1:-1] = inner + 0.2 * (src[:-2, 1:-1] + src[2:, 1:-1] + src[1:-1, :-2] + src[1:-1, 2:] - 4 * inner)
    args = (src, np.zeros(src.shape), I32(1))
    return numba("numba_stencil", grid, (32, 8), args, expected={4 + 9: want.ravel()}, rtol=1e-12, atol=1e-12)


def numba_bins(rng: Rng, n: int, bins: int, grid: int) -> Case:
    values = normal(rng, n)
    places = np.floor((values - F32(-4)) / F32(8 / bins)).astype(I64)
    want = np.bincount(places[(places >= 0) & (places < bins)], minlength=bins)

    def check(outputs: Outputs) -> None:
        """A value at the edge of two bins goes where the compiler's division puts it."""
        assert np.abs(np.asarray(outputs[4 + 7]) - want).sum() <= 1 + n // 10000

    return numba("numba_bins", grid, 128, (values, np.zeros(bins, I32), F32(-4), F32(8 / bins)), check=check)


def numba_julia(rng: Rng, width: int, height: int, most: int) -> Case:
    y, x = np.mgrid[:height, :width]
    z: Array = 3.0 * x / width - 1.5 + 1j * (3.0 * y / height - 1.5)
    rounds = np.zeros(z.shape, I32)
    for _ in range(most):
        going = z.real**2 + z.imag**2 < 4
        z = np.where(going, z * z + (-0.4 + 0.6j), z)
        rounds += going

    def check(outputs: Outputs) -> None:
        """Rounding decides on the set's edge."""
        assert np.mean(np.asarray(outputs[4]) != rounds.ravel()) < 1e-2

    grid = (-(-width // 16), -(-height // 8))
    return numba("numba_julia", grid, (16, 8), (np.zeros((height, width), I32), I32(most)), check=check)


CASES: dict[str, Sized] = {
    "triton_matmul": sized(triton_matmul, {"m": 128, "n": 256, "k": 192}, m=1024, n=1536, k=1024),
    "triton_layer_norm": sized(triton_layer_norm, {"rows": 2, "columns": 400}, rows=600, columns=3200),
    "triton_attention": sized(triton_attention, {"heads": 1, "length": 128}, heads=16, length=512),
    "triton_int4_matmul": sized(triton_int4_matmul, {"n": 64, "k": 512}, n=8192, k=2048),
    "triton_vocabulary_loss": sized(triton_vocabulary_loss, {"rows": 2, "columns": 4208}, rows=200, columns=32000),
    "numba_matmul": sized(numba_matmul, {"m": 20, "n": 40, "k": 24}, m=400, n=500, k=300),
    "numba_stencil": sized(
        numba_stencil, {"width": 70, "height": 20, "grid": (1, 1)}, width=1500, height=1000, grid=(24, 40)
    ),
    "numba_bins": sized(numba_bins, {"n": 1000, "bins": 50, "grid": 2}, n=1000000, bins=1000, grid=264),
    "numba_julia": sized(numba_julia, {"width": 40, "height": 20, "most": 40}, width=512, height=384, most=100),
}
"""Triton's programs take extents that are multiples of 16."""
