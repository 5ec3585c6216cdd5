"""Cases of integer arithmetic, bit manipulation and hashing; all are exact."""

from __future__ import annotations

import zlib

import numpy as np

from tests.kernels.case import Array, Case, Size, launch, pick

I16, I32, U32, U64, I64 = np.int16, np.int32, np.uint32, np.uint64, np.int64


def _divide(a: Array, b: Array) -> tuple[Array, Array]:
    """C's quotient and remainder: toward zero, and with the dividend's sign."""
    rest = np.fmod(a, b)
    return (a - rest) // b, rest


def _mixed(rng: np.random.Generator, n: int, bits: int) -> Array:
    """Unsigned values of every magnitude up to ``bits`` bits."""
    values = rng.integers(0, 2**bits, n, dtype=U64)
    return values >> rng.integers(0, bits - 1, n, dtype=U64)


def _signed(values: Array, rng: np.random.Generator, dtype: type) -> Array:
    negative = rng.integers(0, 2, values.size, dtype=bool)
    halved = (values >> U64(1)).astype(dtype)
    return np.where(negative, -halved, halved).astype(dtype)


def integer_divide(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 128, 100_000)
    a, b = (_signed(_mixed(rng, n, 32), rng, I32) for _ in range(2))
    b[b == 0] = 3
    a[:2] = -(2**31), 2**31 - 1
    b[:2] = 10, -(2**31)
    wide_a, wide_b = a.astype(I64), b.astype(I64)
    plain_a, plain_b = a.view(U32), b.view(U32)
    signed = [*_divide(wide_a, wide_b), _divide(wide_a, np.full(n, 7, I64))[0], np.fmod(wide_a, 1000)]
    unsigned = [plain_a // plain_b, plain_a % plain_b, plain_a // U32(7), plain_a % U32(10)]
    args = (np.zeros(4 * n, I32), np.zeros(4 * n, U32), a, b, I32(n))
    want = {0: np.stack(signed, axis=1).astype(I32).ravel(), 1: np.stack(unsigned, axis=1).ravel()}
    return launch("integer.cu", "integer_divide", -(-n // 64), 64, args, want)


def integer_divide_wide(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 64, 50_000)
    a, b = (_signed(_mixed(rng, n, 64), rng, I64) for _ in range(2))
    b[b == 0] = 3
    b[1::8] = 2**40 + 12345
    plain_a, plain_b = a.view(U64), b.view(U64)
    args = (np.zeros(2 * n, I64), np.zeros(2 * n, U64), a, b, I32(n))
    want = {
        0: np.stack(_divide(a, b), axis=1).ravel(),
        1: np.stack([plain_a // plain_b, plain_a % plain_b], axis=1).ravel(),
    }
    return launch("integer.cu", "integer_divide_wide", -(-n // 64), 64, args, want)


def integer_wide(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 128, 100_000)
    a, b = (rng.integers(0, 2**64, n, dtype=U64) for _ in range(2))
    b[::11] = a[::11]
    shift = b & U64(63)
    x, y = a.view(I64), b.view(I64)
    compared = (a < b) * U64(1) + (x < y) * U64(2) + (a == b) * U64(4)
    columns = [a + b, a - b, a * b, a << shift, a >> shift, (x >> shift.astype(I64)).view(U64)]
    columns += [(a & b) ^ (a | ~b), compared, np.abs(x).view(U64), np.minimum(x, y).view(U64) ^ np.maximum(a, b)]
    args = (np.zeros(10 * n, U64), a, b, I32(n))
    return launch("integer.cu", "integer_wide", -(-n // 64), 64, args, {0: np.stack(columns, axis=1).ravel()})


def _high64(a: Array, b: Array) -> Array:
    """The upper 64 bits of the products, by Python's own integers."""
    return np.array([(int(x) * int(y) >> 64) & (2**64 - 1) for x, y in zip(a, b, strict=True)], U64)


def integer_high(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 128, 50_000)
    a, b = (rng.integers(0, 2**32, n, dtype=U32) for _ in range(2))
    c, d = (rng.integers(0, 2**64, n, dtype=U64) for _ in range(2))
    product = a.astype(U64) * b
    signed_a, signed_b = a.view(I32).astype(I64), b.view(I32).astype(I64)
    narrow = [
        product >> U64(32),
        (signed_a * signed_b >> 32).view(U64),
        (a & U32(0xFFFFFF)).astype(U64) * (b & U32(0xFFFFFF)),
        (signed_a + signed_b >> 1).view(U64),
        (np.abs(a.astype(I64) - b.astype(I64)) + 7).view(U64),
    ]
    wide = [_high64(c, d), _high64(c.view(I64), d.view(I64)), product + c, (signed_a * signed_b).view(U64) - d]
    args = (np.zeros(5 * n, U32), np.zeros(4 * n, U64), a, b, c, d, I32(n))
    want = {0: np.stack(narrow, axis=1).astype(U32).ravel(), 1: np.stack(wide, axis=1).ravel()}
    return launch("integer.cu", "integer_high", -(-n // 64), 64, args, want)


def _bits(values: Array) -> Array:
    """One row of booleans per value, lowest bit first."""
    width = 8 * values.itemsize
    return np.unpackbits(values.view(np.uint8), bitorder="little").reshape(-1, width).astype(bool)


def _from_bits(bits: Array) -> Array:
    return np.packbits(bits, axis=1, bitorder="little").view(U32).ravel()


def integer_bits(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 128, 50_000)
    a, wide = _mixed(rng, n, 32).astype(U32), _mixed(rng, n, 64)
    a[:3], wide[:3] = (0, 2**31, 2**32 - 1), (0, 2**63, 2**64 - 1)
    columns = []
    for bits in (_bits(a), _bits(wide)):
        some, width = bits.any(axis=1), bits.shape[1]
        columns.append(bits.sum(axis=1))
        columns.append(np.where(some, bits[:, ::-1].argmax(axis=1), width))
        columns.append(np.where(some, bits.argmax(axis=1) + 1, 0))
        columns.append(_from_bits(bits[:, :32][:, ::-1]).view(I32))
    low = wide.astype(U32)
    columns.append((a >> U32(5) & U32(0x7FF)).astype(I64) + ((a << U32(9)).view(I32) >> 21))
    columns.append(((a & U32(0x00FF00FF)) | ((~a & U32(0xFF000000)) ^ low)).view(I32))
    args = (np.zeros(10 * n, I32), a, wide, I32(n))
    return launch("integer.cu", "integer_bits", -(-n // 64), 64, args, {0: np.stack(columns, 1).astype(I32).ravel()})


def integer_bytes(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 128, 100_000)
    a, b, c = (rng.integers(0, 2**32, n, dtype=U32) for _ in range(3))
    pair = a.astype(U64) | b.astype(U64) << U64(32)
    pool = pair.view(np.uint8).reshape(-1, 8)
    chosen = (c[:, None] >> np.array([0, 4, 8, 12], U32) & U32(7)).astype(I64)
    permuted = np.take_along_axis(pool, chosen, axis=1).copy().view(U32).ravel()
    wrapped, clamped = (c & U32(31)).astype(U64), np.minimum(c & U32(63), 32).astype(U64)
    x, y = pool[:, :4], pool[:, 4:]
    signed_dot = (x.view(np.int8).astype(I64) * y.view(np.int8)).sum(axis=1) + c.view(I32)
    dot = (x.astype(U64) * y).sum(axis=1, dtype=U64) + c
    bytewise = (x + y).copy().view(U32).ravel()
    columns = [
        permuted,
        a.byteswap(),
        pair << wrapped >> U64(32),
        pair >> wrapped,
        pair << clamped >> U64(32),
        pair >> clamped,
        signed_dot.view(U64),
        dot + bytewise,
    ]
    want = np.stack([column.astype(U32) for column in columns], axis=1).ravel()
    args = (np.zeros(8 * n, U32), a, b, c, I32(n))
    return launch("integer.cu", "integer_bytes", -(-n // 64), 64, args, {0: want})


def integer_narrow(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 200, 200_000)
    a = rng.integers(-32768, 32768, n).astype(I16)
    b = rng.integers(-128, 128, n).astype(np.int8)
    x, y = a.astype(I64), b.astype(I64)
    quotient = _divide(x, np.where(y < 0, 1, y + 1))[0]
    args = (np.zeros(n, I16), np.zeros(n, np.int8), np.zeros(n, np.uint8), a, b, I32(n))
    want = {
        0: (x * 3 + y).astype(I16),
        1: (x >> 3).astype(np.int8),
        2: np.where(y < 0, -y, quotient).astype(np.uint8),
    }
    return launch("integer.cu", "integer_narrow", -(-n // 128), 128, args, want)


def _rotate(x: Array, by: int) -> Array:
    return x << U32(by) | x >> U32(32 - by)


def hash_murmur3(size: Size, rng: np.random.Generator) -> Case:
    n, words, seed = pick(size, 128, 100_000), 5, U32(0x9747B28C)
    n -= n % 64
    keys = rng.integers(0, 2**32, (n, words), dtype=U32)
    h = np.full(n, seed, U32)
    for k in keys.T:
        h = _rotate(h ^ _rotate(k * U32(0xCC9E2D51), 15) * U32(0x1B873593), 13) * U32(5) + U32(0xE6546B64)
    h ^= U32(words * 4)
    h = (h ^ h >> U32(16)) * U32(0x85EBCA6B)
    h = (h ^ h >> U32(13)) * U32(0xC2B2AE35)
    args = (np.zeros(n, U32), keys.ravel(), I32(words), seed)
    return launch("hashes.cu", "hash_murmur3", n // 64, 64, args, {0: h ^ h >> U32(16)})


def hash_xxhash32(size: Size, rng: np.random.Generator) -> Case:
    n, seed = pick(size, 256, 256_000), 0x12345
    p1, p2, p3 = 2654435761, 2246822519, 3266489917
    keys = rng.integers(0, 2**32, (n, 4), dtype=U32)
    h = np.full(n, 16, U32)
    starts = (seed + p1 + p2, seed + p2, seed, seed - p1)
    for key, start, turn in zip(keys.T, starts, (1, 7, 12, 18), strict=True):
        h += _rotate(_rotate(U32(start % 2**32) + key * U32(p2), 13) * U32(p1), turn)
    h = (h ^ h >> U32(15)) * U32(p2)
    h = (h ^ h >> U32(13)) * U32(p3)
    args = (np.zeros(n, U32), keys.ravel(), U32(seed))
    return launch("hashes.cu", "hash_xxhash32", n // 128, 128, args, {0: h ^ h >> U32(16)})


def hash_crc32(size: Size, rng: np.random.Generator) -> Case:
    n, length = pick(size, 128, 32_768), pick(size, 13, 29)
    messages = rng.integers(0, 256, (n, length), dtype=np.uint8)
    want = np.array([zlib.crc32(row.tobytes()) for row in messages], U32)
    args = (np.zeros(n, U32), messages.ravel(), I32(length))
    return launch("hashes.cu", "hash_crc32", n // 64, 64, args, {0: want})


def hash_fnv64(size: Size, rng: np.random.Generator) -> Case:
    n, pitch = pick(size, 128, 64_000), 32
    messages = rng.integers(0, 256, (n, pitch), dtype=np.uint8)
    lengths = rng.integers(0, pitch + 1, n, dtype=I32)
    h = np.full(n, 14695981039346656037, U64)
    for k in range(pitch):
        h = np.where(k < lengths, (h ^ messages[:, k].astype(U64)) * U64(1099511628211), h)
    args = (np.zeros(n, U64), messages.ravel(), lengths, I32(pitch))
    return launch("hashes.cu", "hash_fnv64", n // 64, 64, args, {0: h})


CASES = (
    integer_divide,
    integer_divide_wide,
    integer_wide,
    integer_high,
    integer_bits,
    integer_bytes,
    integer_narrow,
    hash_murmur3,
    hash_xxhash32,
    hash_crc32,
    hash_fnv64,
)
