"""Inline PTX: integers, carries, floats, halves; matrix instructions in all formats; asynchronous copies and mbarriers."""

from __future__ import annotations

import numpy as np

from tests.kernels.case import Case, Size
from tests.programs.build import F16, F32, I32, U32, U64, long_words, probe, reals, words

N = 64


def ptx_integer(size: Size, rng: np.random.Generator) -> Case:
    return probe("ptx_integer.cu", "ptx_integer", 2, 32, (np.zeros(96 * N, U32), words(rng, N), I32(N)))


def carry_chains(size: Size, rng: np.random.Generator) -> Case:
    a, b = (words(rng, 4 * N, 1).reshape(N, 4) for _ in range(2))

    def number(rows: np.ndarray) -> list[int]:
        return [sum(int(w) << (32 * k) for k, w in enumerate(row)) for row in rows]

    x, y = number(a), number(b)
    xl, yl = [v & (2**64 - 1) for v in x], [v & (2**64 - 1) for v in y]
    wide = [
        [p + q for p, q in zip(x, y, strict=True)],
        [p - q for p, q in zip(x, y, strict=True)],
        [p * q for p, q in zip(xl, yl, strict=True)],
        [p + q + ((3 * p % 2**64 + q) << 64) for p, q in zip(xl, yl, strict=True)],
        [p * q + q + (p << 64) for p, q in zip(xl, yl, strict=True)],
    ]
    want = np.array([[[v >> (32 * k) & 0xFFFFFFFF for k in range(4)] for v in row] for row in wide], U32)
    args = (np.zeros(5 * N * 4, U32), np.concatenate([a.ravel(), b.ravel()]), I32(N))
    return probe("ptx_integer.cu", "carry_chains", 2, 32, args, {0: want.ravel()})


def ptx_wide(size: Size, rng: np.random.Generator) -> Case:
    return probe("ptx_integer.cu", "ptx_wide", 2, 32, (np.zeros(24 * N, U64), long_words(rng, N), I32(N)))


def ptx_float(size: Size, rng: np.random.Generator) -> Case:
    return probe("ptx_float.cu", "ptx_float", 2, 32, (np.zeros(64 * N, F32), reals(rng, N), I32(N)))


def ptx_half(size: Size, rng: np.random.Generator) -> Case:
    src = reals(rng, 2 * N, F16).view(U32)
    return probe("ptx_float.cu", "ptx_half", 2, 32, (np.zeros(16 * N, U32), src, I32(N)))


def ptx_half_ampere(size: Size, rng: np.random.Generator) -> Case:
    args = (np.zeros(24 * N, U32), reals(rng, 2 * N, F16).view(U32), reals(rng, N), I32(N))
    return probe("ptx_half_80.cu", "ptx_half_ampere", 2, 32, args)


def ptx_approximations(size: Size, rng: np.random.Generator) -> Case:
    src = np.clip(reals(rng, N, F32, 1, edges=False) / 8, -3, 3)
    return probe(
        "ptx_half_80.cu", "ptx_approximations", 2, 32, (np.zeros(8 * N, F32), src, I32(N)), rtol=1e-3, atol=1e-5
    )


def _bfloats(rng: np.random.Generator, count: int) -> np.ndarray:
    return (rng.standard_normal(count, F32).view(U32) >> U32(16)).astype(np.uint16)


def wmma_bfloat(size: Size, rng: np.random.Generator) -> Case:
    args = (np.zeros(768, F32), _bfloats(rng, 512), _bfloats(rng, 512), rng.standard_normal(256, F32))
    return probe("wmma_formats.cu", "wmma_bfloat", 1, 32, args, rtol=1e-5, atol=1e-5)


def wmma_bytes(size: Size, rng: np.random.Generator) -> Case:
    a, b = (rng.integers(-128, 128, 512, dtype=np.int8) for _ in range(2))
    c = rng.integers(-(10**6), 10**6, 256, dtype=I32)
    wide_a, wide_b = a.astype(I32), b.astype(I32)
    first = wide_a[:256].reshape(16, 16) @ wide_b[:256].reshape(16, 16).T + c.reshape(16, 16)
    second = wide_a.reshape(32, 16) @ np.lib.stride_tricks.as_strided(wide_b, (16, 8), (64, 4)) + c.reshape(32, 8)
    raw_a, raw_b = a.view(np.uint8).astype(I32), b.view(np.uint8).astype(I32)
    third = np.lib.stride_tricks.as_strided(raw_a, (8, 16), (4, 64)) @ raw_b.reshape(16, 32) + c.reshape(8, 32)
    want = np.concatenate([first.ravel(), second.ravel(), third.ravel()]).astype(I32)
    return probe("wmma_formats.cu", "wmma_bytes", 1, 32, (np.zeros(768, I32), a, b, c), {0: want})


def wmma_double(size: Size, rng: np.random.Generator) -> Case:
    a, b, c = rng.standard_normal(32), rng.standard_normal(32), rng.standard_normal(64)
    first = a.reshape(8, 4) @ b.reshape(8, 4).T + c.reshape(8, 8)
    second = a.reshape(4, 8).T @ b.reshape(4, 8) + c.reshape(8, 8)
    want = np.concatenate([first.ravel(), second.ravel()])
    return probe("wmma_formats.cu", "wmma_double", 1, 32, (np.zeros(128), a, b, c), {0: want}, rtol=1e-14, atol=1e-14)


def wmma_tf32(size: Size, rng: np.random.Generator) -> Case:
    args = (
        np.zeros(256, F32),
        rng.standard_normal(128, F32),
        rng.standard_normal(128, F32),
        rng.standard_normal(256, F32),
    )
    return probe("wmma_formats.cu", "wmma_tf32", 1, 32, args, rtol=1e-5, atol=1e-5)


def _bits(rows: np.ndarray) -> np.ndarray:
    return np.unpackbits(rows.view(np.uint8), bitorder="little").reshape(8, 128).astype(I32)


def wmma_bits(size: Size, rng: np.random.Generator) -> Case:
    a, b = (rng.integers(0, 2**32, 32, dtype=U32) for _ in range(2))
    c = rng.integers(-50, 50, 64, dtype=I32)
    x, y = _bits(a), _bits(b)
    first = (x[:, None] ^ y[None]).sum(axis=2) + c.reshape(8, 8)
    second = (x[:, None] & y[None]).sum(axis=2) + first
    want = np.concatenate([first.ravel(), second.ravel()]).astype(I32)
    return probe("wmma_formats.cu", "wmma_bits", 1, 32, (np.zeros(128, I32), a, b, c), {0: want})


def _nibbles(rows: np.ndarray, signed: bool) -> np.ndarray:
    low = (rows[:, None] >> (np.arange(8, dtype=U32) * U32(4))) & U32(15)
    values = low.reshape(8, 32).astype(I32)
    return np.where(values > 7, values - 16, values) if signed else values


def wmma_nibbles(size: Size, rng: np.random.Generator) -> Case:
    a, b = (rng.integers(0, 2**32, 32, dtype=U32) for _ in range(2))
    c = rng.integers(-50, 50, 64, dtype=I32)
    first = _nibbles(a, True) @ _nibbles(b, True).T + c.reshape(8, 8)
    second = _nibbles(a, False) @ _nibbles(b, False).T + first
    want = np.concatenate([first.ravel(), second.ravel()]).astype(I32)
    return probe("wmma_nibbles.cu", "wmma_nibbles", 1, 32, (np.zeros(128, I32), a, b, c), {0: want})


def _fragments(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = (rng.integers(0, 2**32, count, dtype=U32) for count in (128, 64))
    return a, b, rng.integers(-(10**6), 10**6, 128, dtype=I32)


def mma_integers(size: Size, rng: np.random.Generator) -> Case:
    return probe("mma_formats.cu", "mma_integers", 1, 32, (np.zeros(768, I32), *_fragments(rng)))


def mma_bits(size: Size, rng: np.random.Generator) -> Case:
    return probe("mma_formats.cu", "mma_bits", 1, 32, (np.zeros(384, I32), *_fragments(rng)))


def mma_nibbles(size: Size, rng: np.random.Generator) -> Case:
    return probe("mma_formats.cu", "mma_nibbles", 1, 32, (np.zeros(384, I32), *_fragments(rng)))


def mma_floats(size: Size, rng: np.random.Generator) -> Case:
    args = (
        np.zeros(256, F32),
        _bfloats(rng, 256).view(U32),
        _bfloats(rng, 128).view(U32),
        rng.standard_normal(128, F32),
    )
    return probe("mma_formats.cu", "mma_floats", 1, 32, args, rtol=1e-5, atol=1e-5)


def mma_tf32(size: Size, rng: np.random.Generator) -> Case:
    a, b = rng.standard_normal(128, F32).view(U32), rng.standard_normal(64, F32).view(U32)
    return probe(
        "mma_formats.cu",
        "mma_tf32",
        1,
        32,
        (np.zeros(256, F32), a, b, rng.standard_normal(128, F32)),
        rtol=1e-5,
        atol=1e-5,
    )


def mma_halves(size: Size, rng: np.random.Generator) -> Case:
    a, b = rng.standard_normal(256).astype(F16).view(U32), rng.standard_normal(128).astype(F16).view(U32)
    return probe(
        "mma_formats.cu",
        "mma_halves",
        1,
        32,
        (np.zeros(384, F32), a, b, rng.standard_normal(128, F32)),
        rtol=4e-3,
        atol=1e-5,
    )


def mma_double(size: Size, rng: np.random.Generator) -> Case:
    a, b, c = rng.standard_normal(32), rng.standard_normal(32), rng.standard_normal(64)
    return probe("mma_formats.cu", "mma_double", 1, 32, (np.zeros(64), a, b, c), rtol=1e-14, atol=1e-14)


def mma_double_large(size: Size, rng: np.random.Generator) -> Case:
    a, b, c = rng.standard_normal(256), rng.standard_normal(128), rng.standard_normal(128)
    return probe("mma_hopper.cu", "mma_double_large", 1, 32, (np.zeros(384), a, b, c), rtol=1e-14, atol=1e-14)


def elect_one(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 100, 32, dtype=U32)
    want = np.zeros(64, U32)
    want[0] = 1
    odd = np.flatnonzero(src & 1)
    want[32 + odd] = 100 + 2 * odd[0]
    want[32 + odd[0]] += 1
    return probe("mma_hopper.cu", "elect_one", 1, 32, (np.zeros(64, U32), src), {0: want})


def transaction_barrier(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 1000, 64, dtype=U32)
    want = np.concatenate([src[::-1] * 3, src * 3, np.zeros(64, U32)]).astype(U32)
    return probe("mma_hopper.cu", "transaction_barrier", 1, 64, (np.zeros(192, U32), src), {0: want})


def mbarrier_basics(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 1000, 64, dtype=U32)
    want = np.concatenate([src[np.arange(64) ^ 33] + 5, np.ones(64, U32)]).astype(U32)
    return probe("async_more.cu", "mbarrier_basics", 1, 64, (np.zeros(128, U32), src), {0: want})


def copy_sizes(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 1000, 128, dtype=U32)
    t = np.arange(32)
    second = src[2 * t] + 3 * np.where(t & 1, src[2 * t + 1], 0)
    want = np.concatenate([src[31 - t], second, src[4 * t] + src[(4 * t + 7) & 127]]).astype(U32)
    return probe("async_more.cu", "copy_sizes", 1, 32, (np.zeros(96, U32), src), {0: want})


def copy_arrival(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 1000, 64, dtype=U32)
    return probe("async_more.cu", "copy_arrival", 1, 64, (np.zeros(64, U32), src), {0: (src[::-1] * 2).astype(U32)})


CASES = (
    *(ptx_integer, carry_chains, ptx_wide, ptx_float, ptx_half, ptx_half_ampere, ptx_approximations),
    *(wmma_bfloat, wmma_bytes, wmma_double, wmma_tf32, wmma_bits, wmma_nibbles),
    *(mma_integers, mma_bits, mma_nibbles, mma_floats, mma_tf32, mma_halves, mma_double, mma_double_large),
    *(elect_one, transaction_barrier, mbarrier_basics, copy_sizes, copy_arrival),
)
