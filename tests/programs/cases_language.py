"""C++ language features, calls, recursion and big frames."""

from __future__ import annotations

import numpy as np

from tests.kernels.case import Array, Case, Size
from tests.programs.build import F32, I32, I64, U8, U32, U64, probe

FILE = "language.cu"


def template_vectors(size: Size, rng: np.random.Generator) -> Case:
    n = 50
    src = rng.integers(-100, 100, n, dtype=I32)
    i, k = np.arange(n)[:, None], np.arange(5)
    a = src[(i + k) % n]
    c = a + src[(3 * i + k) % n]
    want = (c * a).sum(axis=1) + c[np.arange(n), np.arange(n) % 5]
    return probe(FILE, "template_vectors", 2, 32, (np.zeros(n, I32), src, I32(n)), {0: want.astype(I32)})


def lambdas_and_variadics(size: Size, rng: np.random.Generator) -> Case:
    n, base = 60, 0x2F
    src = rng.integers(0, 10000, n, dtype=I32)
    y = ((3 * (src ^ base) + 7) % (base + 1)) ^ base
    want = y * 4 + 2 + (np.arange(n) - 3 + 2 + 200)
    args = (np.zeros(n, I32), src, I32(n), I32(base))
    return probe(FILE, "lambdas_and_variadics", 2, 32, args, {0: want.astype(I32)})


def constexpr_table(size: Size, rng: np.random.Generator) -> Case:
    src = rng.integers(0, 256, 64, dtype=U8)
    table = np.arange(16, dtype=U32)
    for _ in range(8):
        table = np.where(table & 1, U32(0xEDB88320) ^ (table >> U32(1)), table >> U32(1)).astype(U32)
    want = table[src & 15] ^ (table[src >> 4] << U32(1))
    return probe(FILE, "constexpr_table", 2, 32, (np.zeros(64, U32), src), {0: want})


def bit_fields(size: Size, rng: np.random.Generator) -> Case:
    n = 40
    packed = rng.integers(0, 2**64, n, dtype=U64) & U64((1 << 60) - 1)
    args = (np.zeros(n, U32), packed, rng.standard_normal(n, F32), I32(n))
    return probe(FILE, "bit_fields", 2, 32, args)


def structs_returned(size: Size, rng: np.random.Generator) -> Case:
    n = 40
    return probe(
        FILE,
        "structs_returned",
        2,
        32,
        (np.zeros(2 * n, F32), np.zeros(n, I32), rng.standard_normal(2 * n, F32), I32(n)),
    )


def virtual_calls(size: Size, rng: np.random.Generator) -> Case:
    n = 48
    src = rng.integers(0, 100, n, dtype=I32)
    i = np.arange(n)
    want = np.zeros(n, I64)
    for k in range(4):
        box, triangle = src * i * (k + 1), src * (i + 1) // 2 * (k + 1) + 1
        want += np.where(src >> k & 1, triangle, box)
    return probe(FILE, "virtual_calls", 2, 32, (np.zeros(n, I32), src, I32(n)), {0: want.astype(I32)})


def function_table(size: Size, rng: np.random.Generator) -> Case:
    n, length = 40, 9
    program = rng.integers(0, 256, length, dtype=U8)

    def recursive(a: int, b: int) -> int:
        return a if b <= 0 else 1 + recursive(a ^ b, b // 3)

    want = np.zeros(n, I64)
    for i in range(n):
        value = i
        for k in range(length):
            step = (int(program[k]) + i) & 3
            value = (value + k + 3, value * (k + 3), value ^ (k + 3), recursive(value, k + 3))[step]
        want[i] = value
    args = (np.zeros(n, I32), program, I32(length), I32(n))
    return probe(FILE, "function_table", 2, 32, args, {0: want.astype(U32).view(I32)})


def byte_code(size: Size, rng: np.random.Generator) -> Case:
    n = 64
    code = np.array([3, 9, 1, 0, 7, 0, 3, 3, 2, 1, 5, 4, 3, 6, 0, 1, 0, 4, 2, 3, 77, 1, 5, 5, 4, 8, 9], U8)
    return probe(FILE, "byte_code", 2, 32, (np.zeros(n, I32), code, I32(len(code)), I32(n)))


def tree_recursion(size: Size, rng: np.random.Generator) -> Case:
    count, n = 60, 24
    nodes = np.full((count, 3), -1, I32)
    nodes[:, 0] = rng.integers(-50, 50, count)
    for child in range(1, count):
        parent = (child - int(rng.integers(1, 3))) // 2
        nodes[parent, 1 + child % 2] = child

    def total(at: int, depth: int) -> int:
        key, left, right = (int(x) for x in nodes[at])
        return (
            key
            + (total(left, depth + 1) if left >= 0 else 0)
            + (2 * total(right, depth + 1) if right >= 0 else 0)
            + depth
        )

    roots = rng.integers(0, count, n).astype(I32)
    want = np.array([total(int(r), 0) for r in roots], I32)
    return probe(FILE, "tree_recursion", 1, 32, (np.zeros(n, I32), nodes.ravel(), roots, I32(n)), {0: want})


def big_frame(size: Size, rng: np.random.Generator) -> Case:
    n = 40
    src = rng.integers(0, 2**32, n, dtype=U32)
    want: Array = np.zeros(32, U32)
    for i in range(32):
        frame = [k * 7 + i for k in range(1200)]
        for k in range(n):
            s = int(src[k])
            frame[s % 1200] ^= (int(src[(k + i) % n]) + frame[((s + i) & 0xFFFFFFFF) % 1200]) & 0xFFFFFFFF
        h = 0
        for value in frame:
            h = (h * 31 + value) & 0xFFFFFFFF
        want[i] = h
    return probe(FILE, "big_frame", 1, 32, (np.zeros(32, U32), src, I32(n)), {0: want})


def ranges_and_enums(size: Size, rng: np.random.Generator) -> Case:
    n = 50
    colours = rng.choice(np.array([1, 2, 4], U8), n)
    return probe(FILE, "ranges_and_enums", 2, 32, (np.zeros(n, I64), colours, I32(n)))


CASES = (
    *(template_vectors, lambdas_and_variadics, constexpr_table, bit_fields, structs_returned, virtual_calls),
    *(function_table, byte_code, tree_recursion, big_frame, ranges_and_enums),
)
