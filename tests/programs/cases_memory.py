"""Atomics of every kind, generic pointers, cache operators, structures, address spaces, local arrays."""

from __future__ import annotations

import numpy as np

from tests.kernels.case import Case, Size
from tests.programs.build import F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, probe


def atomic_operations(size: Size, rng: np.random.Generator) -> Case:
    n = 90
    u, wide = np.zeros(16 + n, U32), np.zeros(9 + n, U64)
    u[[2, 4, 8]] = 1000, 0xFFFFFFFF, 0xFFFFFFFF
    wide[[3, 5]] = 2**64 - 1
    return probe("atomics_more.cu", "atomic_operations", 2, 48, (u, wide, np.zeros(n, U32), I32(n)))


def atomic_shared(size: Size, rng: np.random.Generator) -> Case:
    return probe("atomics_more.cu", "atomic_shared", 1, 64, (np.zeros(16, U32), np.zeros(8, U64), I32(64)))


def generic_pointers(size: Size, rng: np.random.Generator) -> Case:
    values = np.zeros(256, I32)
    values[:64] = np.arange(64) * 1000
    return probe("atomics_more.cu", "generic_pointers", 1, 64, (np.zeros(72, U32), values, I32(64)))


def ptx_atomics(size: Size, rng: np.random.Generator) -> Case:
    u = np.zeros(32 + 64, U32)
    u[[2, 6]] = 100, 0xFFFFFFFF
    return probe("atomics_more.cu", "ptx_atomics", 2, 32, (u, np.zeros(8 + 64, U64), np.zeros(64, U32)))


def structures(size: Size, rng: np.random.Generator) -> Case:
    n = 40
    wide = np.zeros(2 * n, np.dtype([("a", "f8"), ("b", "i4"), ("c", "i2"), ("d", "i1"), ("e", "i1")]))
    wide["a"][:n] = rng.standard_normal(n)
    wide["b"][:n] = rng.integers(-(2**31), 2**31, n)
    wide["c"][:n] = rng.integers(-(2**15), 2**15, n)
    wide["d"][:n] = rng.integers(-128, 128, n)
    odd = np.zeros(n, np.dtype([("tag", "i1"), ("value", "i4"), ("real", "f8"), ("tail", "i2")]))
    odd["value"], odd["real"] = rng.integers(-1000, 1000, n), rng.integers(0, 60, n)
    pairs = rng.integers(0, 100, 2 * n).astype(F64)
    return probe("memory_more.cu", "structures", 2, 32, (wide.view(U64), odd.view(U8), pairs, I32(n)))


def constants(size: Size, rng: np.random.Generator) -> Case:
    n = 50
    table, src = rng.integers(0, 1000, 64, dtype=I32), rng.integers(-500, 500, n, dtype=I32)
    i = np.arange(n)
    want = 1.5 * src + (i % 3 + 1) + 0.25 + (0x5A & src) + table[src & 63] + table[i & 63]
    args = (np.zeros(n + 1), src, I32(n))
    return probe("memory_more.cu", "constants", 2, 32, args, {0: np.append(want, 1.0)}, device_globals={"table": table})


def cache_operators(size: Size, rng: np.random.Generator) -> Case:
    n = 40
    src = rng.integers(0, 2**32, n, dtype=U32)
    parts = src.view(U8).reshape(n, 4)
    want = np.tile(src, (32, 1))
    want[12] = parts[:, 1]
    want[13] = parts[:, 2:].copy().view(I16).ravel().astype(I32).view(U32)
    want[14] = parts[:, 3].view(I8).astype(I32).view(U32)
    want[16] = parts[:, :2].copy().view(U16).ravel()
    low = want[16].copy()
    for k in range(8):
        want[17 + k] = low + U32(k)
    want[25] = src * U32(6)
    want[26:30] = low
    want[30:] = 0
    return probe("memory_more.cu", "cache_operators", 2, 32, (np.zeros(32 * n, U32), src, I32(n)), {0: want.ravel()})


def vector_types(size: Size, rng: np.random.Generator) -> Case:
    n = 40
    args = (
        np.zeros(4 * n, U32),
        *(rng.integers(0, 256, 4 * n, dtype=U8), rng.integers(-(2**15), 2**15, 2 * n).astype(I16)),
        *(rng.integers(0, 100, 3 * n).astype(F32), rng.integers(-(2**62), 2**62, 2 * n, dtype=I64)),
        *(rng.integers(0, 2**16, 4 * n).astype(U16), rng.integers(-128, 128, 3 * n).astype(I8), I32(n)),
    )
    return probe("memory_more.cu", "vector_types", 2, 32, args)


def mixed_shared(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 1000, 32, dtype=I32)
    return probe(
        "memory_more.cu", "mixed_shared", 1, 32, (np.zeros(64), src, I32(32)), shared_bytes=8 * 32 + 16 * 32 + 3 * 32
    )


def local_arrays(size: Size, rng: np.random.Generator) -> Case:
    n = 32
    return probe(
        "memory_more.cu", "local_arrays", 1, 32, (np.zeros(n, I32), rng.integers(0, 200, n, dtype=I32), I32(n))
    )


def spaces(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 50, 96, dtype=I32)
    return probe("memory_more.cu", "spaces", 1, 96, (np.zeros(96, U32), src))


CASES = (
    *(atomic_operations, atomic_shared, generic_pointers, ptx_atomics, structures, constants, cache_operators),
    *(vector_types, mixed_shared, local_arrays, spaces),
)
