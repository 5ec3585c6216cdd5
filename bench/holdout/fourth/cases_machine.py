"""The chip's own features, and numbers: pipelines, bulk copies, clusters, warpgroups, recursion; hashes, big numbers, random ones."""

from __future__ import annotations

import hashlib
from math import isqrt

import ml_dtypes
import numpy as np
from scipy.spatial import cKDTree

from bench.holdout.cases_hopper import cores
from bench.holdout.fourth.case import Array, Case, Outputs, Rng, Sized, launch, normal, sized

I32, F16, F32, F64, U8, U16, U32, U64 = (
    *(np.int32, np.float16, np.float32, np.float64),
    *(np.uint8, np.uint16, np.uint32, np.uint64),
)
BF16 = ml_dtypes.bfloat16


def hgemm_four_stages(rng: Rng, m: int, n: int, depth: int) -> Case:
    a, b = normal(rng, (m, depth), F16), normal(rng, (n, depth), F16)
    want = (a.astype(F32) @ b.astype(F32).T).astype(F16)
    args = (np.zeros(m * n, F16), a.ravel(), b.ravel(), I32(n), I32(depth))
    return launch(
        "machine", "hgemm_four_stages", (n // 128, m // 128), 256, args, {0: want.ravel()},
        rtol=1e-2, atol=0.1, shared_bytes=4 * 20480,
    )  # fmt: skip


def bulk_ring_filter(rng: Rng, tiles: int, grid: int) -> Case:
    src, taps = normal(rng, tiles * 2048 + 16), normal(rng, 17)
    want = np.correlate(src.astype(F64), taps.astype(F64), "valid")
    args = (np.zeros(tiles * 2048, F32), src, taps, I32(tiles))
    return launch("machine", "bulk_ring_filter", grid, 256, args, {0: want.astype(F32)}, rtol=1e-3, atol=1e-3)


def cluster_all_to_all(rng: Rng, clusters: int) -> Case:
    src = rng.integers(0, 1 << 32, (clusters, 8 * 2048), dtype=U32)
    sizes = np.stack([np.bincount(keys >> U32(29), minlength=8) for keys in src])

    def check(outputs: Outputs) -> None:
        """A block receives its elements in any order."""
        got = np.asarray(outputs[0]).reshape(clusters, 8, 3072)
        for c, r in np.ndindex(clusters, 8):
            want = np.sort(src[c][src[c] >> U32(29) == r])
            np.testing.assert_array_equal(np.sort(got[c, r, : sizes[c, r]]), want)

    args = (np.zeros(clusters * 8 * 3072, U32), np.zeros(clusters * 8, I32), src.ravel())
    expected = {1: sizes.astype(I32).ravel()}
    return launch("machine", "cluster_all_to_all", clusters * 8, 256, args, expected, check=check)


def cluster_table(rng: Rng, clusters: int, each: int) -> Case:
    table = rng.integers(0, 1 << 32, 32768, dtype=U32)
    index = rng.integers(0, 1 << 32, clusters * 4 * each, dtype=U32)
    at, want = index, np.zeros(index.size, U32)
    for _ in range(4):
        at = table[at & U32(32767)]
        want += at
    args = (np.zeros(index.size, U32), table, index, I32(each))
    return launch("machine", "cluster_table", clusters * 4, 512, args, {0: want})


def wgmma_bf16(rng: Rng, m: int, n: int, depth: int) -> Case:
    a, b = normal(rng, (m, depth), BF16), normal(rng, (n, depth), BF16)
    want = a.astype(F32) @ b.astype(F32).T
    args = (np.zeros(m * n, F32), cores(a.view(U16)), cores(b.view(U16)), I32(n), I32(depth))
    return launch(
        "machine", "wgmma_bf16", (n // 128, m // 128), 288, args, {0: want.ravel()},
        rtol=1e-3, atol=2e-2, shared_bytes=3 * 32768,
    )  # fmt: skip


def merge_sort_block(rng: Rng, tiles: int) -> Case:
    keys = rng.integers(0, 1 << 32, (tiles, 2048), dtype=U32)
    return launch("machine", "merge_sort_block", tiles, 256, (keys.ravel(),), {0: np.sort(keys, axis=1).ravel()})


def half2_wave(rng: Rng, width: int, rows: int) -> Case:
    now, before = normal(rng, (rows, width), F16), normal(rng, (rows, width), F16)
    x = np.pad(now.astype(F32), 1)
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]
    want = 2 * now.astype(F32) - before + F32(0.25) * around
    args = (np.zeros(now.size, F16), now.ravel(), before.ravel(), I32(width // 2), I32(rows), F32(0.25))
    grid = (-(-width // 64), -(-rows // 8))
    expected = {0: want.astype(F16).ravel()}
    return launch("machine", "half2_wave", grid, 256, args, expected, rtol=1e-2, atol=2e-2)


def life_bitboard(rng: Rng, words: int, rows: int) -> Case:
    src = rng.integers(0, 1 << 32, (rows, words), dtype=U32) & rng.integers(0, 1 << 32, (rows, words), dtype=U32)
    cells = np.unpackbits(src.view(U8), axis=1, bitorder="little")
    around = sum(np.roll(cells, (y, x), (0, 1)) for y in (-1, 0, 1) for x in (-1, 0, 1) if x or y)
    alive = (around == 3) | (around == 2) & (cells == 1)
    want = np.packbits(alive, axis=1, bitorder="little").view(U32)
    args = (np.zeros(src.size, U32), src.ravel(), I32(words), I32(rows))
    return launch("machine", "life_bitboard", (-(-words // 64), rows), 64, args, {0: want.ravel()})


def balanced(points: Array) -> Array:
    """A k-d tree of 2^k - 1 points in heap order."""
    tree = np.zeros_like(points)

    def build(rows: Array, at: int, axis: int) -> None:
        if rows.size:
            rows = rows[np.argsort(points[rows, axis], kind="stable")]
            middle = rows.size // 2
            tree[at] = points[rows[middle]]
            build(rows[:middle], 2 * at + 1, (axis + 1) % 3)
            build(rows[middle + 1 :], 2 * at + 2, (axis + 1) % 3)

    build(np.arange(len(points)), 0, 0)
    return tree


def kd_recursive(rng: Rng, levels: int, n: int) -> Case:
    points, goals = np.zeros(((1 << levels) - 1, 4), F32), np.zeros((n, 4), F32)
    points[:, :3], goals[:, :3] = rng.random((len(points), 3)), rng.random((n, 3))
    tree = balanced(points)
    far, want = cKDTree(tree[:, :3].astype(F64)).query(goals[:, :3].astype(F64))

    def check(outputs: Outputs) -> None:
        """Of points that are equally far up to rounding, either may win."""
        got = tree[np.asarray(outputs[0]), :3].astype(F64)
        np.testing.assert_allclose(np.sqrt(((got - goals[:, :3]) ** 2).sum(axis=1)), far, rtol=1e-4, atol=1e-5)
        assert np.mean(np.asarray(outputs[0]) != want) < 1e-2

    args = (np.zeros(n, I32), tree.ravel(), goals.ravel(), I32(len(tree)), I32(n))
    return launch("machine", "kd_recursive", -(-n // 128), 128, args, check=check)


def primes(count: int) -> list[int]:
    found: list[int] = []
    k = 2
    while len(found) < count:
        if all(k % p for p in found):
            found.append(k)
        k += 1
    return found


def cube_root(x: int) -> int:
    """The largest integer whose cube is at most x."""
    low, high = 0, 1 << (x.bit_length() // 3 + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**3 <= x else (low, middle - 1)
    return low


def sha512_blocks(rng: Rng, n: int) -> Case:
    data = rng.integers(0, 256, (n, 100), dtype=U8)
    padded = np.zeros((n, 128), U8)
    padded[:, :100], padded[:, 100] = data, 0x80
    padded[:, 126:] = np.frombuffer((800).to_bytes(2, "big"), U8)
    digests = np.frombuffer(b"".join(hashlib.sha512(row.tobytes()).digest() for row in data), ">u8").astype(U64)
    words = padded.view(">u8").astype(U64)
    constants = np.array([cube_root(p << 192) & (1 << 64) - 1 for p in primes(80)], U64)
    args = (np.zeros(n * 8, U64), np.ascontiguousarray(words.T).ravel(), I32(n))
    expected = {0: digests.reshape(n, 8).T.ravel()}
    return launch(
        "ciphers", "sha512_blocks", -(-n // 128), 128, args, expected, device_globals={"rounds512": constants}
    )


def whole(rows: Array) -> list[int]:
    """Rows of little-endian words as integers."""
    return [int.from_bytes(row.tobytes(), "little") for row in np.ascontiguousarray(rows)]


def words_of(numbers: list[int], count: int) -> Array:
    """Integers as rows of little-endian words of 32 bits."""
    return np.frombuffer(b"".join(x.to_bytes(4 * count, "little") for x in numbers), U32).reshape(-1, count)


def poly1305_tags(rng: Rng, n: int, blocks: int) -> Case:
    messages, keys = rng.integers(0, 1 << 32, (blocks, n, 4), dtype=U32), rng.integers(0, 1 << 32, (n, 2, 4), dtype=U32)
    prime, clamp, tags = (1 << 130) - 5, 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF, []
    numbers = [whole(m) for m in messages]
    for i, (r, s) in enumerate(zip(whole(keys[:, 0]), whole(keys[:, 1]), strict=True)):
        h = 0
        for b in range(blocks):
            h = (h + numbers[b][i] + (1 << 128)) * (r & clamp) % prime
        tags.append((h + s) & (1 << 128) - 1)
    args = (np.zeros(n * 4, U32), messages.ravel(), keys.ravel(), I32(n), I32(blocks))
    return launch("ciphers", "poly1305_tags", -(-n // 128), 128, args, {0: words_of(tags, 4).ravel()})


def bignum_mul_1024(rng: Rng, n: int) -> Case:
    a, b = rng.integers(0, 1 << 32, (2, n, 32), dtype=U32)
    want = words_of([x * y for x, y in zip(whole(a), whole(b), strict=True)], 64)
    args = (np.zeros(n * 64, U32), a.T.ravel(), b.T.ravel(), I32(n))
    return launch("ciphers", "bignum_mul_1024", -(-n // 64), 64, args, {0: want.T.ravel()})


def secp256k1_double(rng: Rng, n: int, times: int) -> Case:
    prime = (1 << 256) - (1 << 32) - 977
    x, y, z = ([v % prime for v in whole(rng.integers(0, 1 << 32, (n, 8), dtype=U32))] for _ in range(3))
    given = np.concatenate([words_of(v, 8) for v in (x, y, z)], axis=1).T
    for i in range(n):
        for _ in range(times):
            a, b = x[i] * x[i] % prime, y[i] * y[i] % prime
            c = b * b % prime
            d, e = 2 * ((x[i] + b) ** 2 - a - c) % prime, 3 * a
            z[i] = 2 * y[i] * z[i] % prime
            x[i] = (e * e - 2 * d) % prime
            y[i] = (e * (d - x[i]) - 8 * c) % prime
    want = np.concatenate([words_of(v, 8) for v in (x, y, z)], axis=1).T
    args = (np.zeros(n * 24, U32), given.ravel(), I32(n), I32(times))
    return launch("ciphers", "secp256k1_double", -(-n // 128), 128, args, {0: want.ravel()})


def miller_rabin(rng: Rng, n: int) -> Case:
    numbers = rng.integers(10**6, 10**9, n, dtype=U64) | U64(1)
    sieve = np.ones(isqrt(10**9) + 2, bool)
    for k in range(2, isqrt(sieve.size) + 1):
        sieve[k * k :: k] = False
    prime = np.ones(n, bool)
    for p in np.flatnonzero(sieve)[2:]:
        prime &= numbers % U64(p) != 0
    args = (np.zeros(n, U8), numbers, I32(n))
    return launch("ciphers", "miller_rabin", -(-n // 128), 128, args, {0: prime.astype(U8)})


def memory_hard(rng: Rng, n: int, rounds: int) -> Case:
    i = np.arange(n, dtype=U32)
    s = [i, i * U32(0x9E3779B9), ~i, i ^ U32(0x5BD1E995)]

    def turned(x: Array, k: int) -> Array:
        return x << U32(k) | x >> U32(32 - k)

    def quarter(s: list[Array]) -> list[Array]:
        x, y, z, w = s
        for first, second in ((16, 12), (8, 7)):
            x = x + y
            w = turned(w ^ x, first)
            z = z + w
            y = turned(y ^ z, second)
        return [x, y, z, w]

    scratch = np.zeros((n, 64, 4), U32)
    for k in range(64):
        s = quarter(s)
        scratch[:, k] = np.stack(s, axis=1)
    for _ in range(rounds):
        at = s[0] & U32(63)
        s = quarter([a ^ b for a, b in zip(s, scratch[i, at].T, strict=True)])
        scratch[i, at] = np.stack(s, axis=1)
    args = (np.zeros(n, U32), np.zeros(scratch.size, U32), I32(n), I32(rounds))
    expected = {0: s[0] ^ s[1] ^ s[2] ^ s[3], 1: scratch.ravel()}
    return launch("ciphers", "memory_hard", -(-n // 64), 64, args, expected)


def xorwow_normals(rng: Rng, threads: int, each: int) -> Case:
    state = rng.integers(1, 1 << 32, (6, threads), dtype=U32)
    v, want = list(state.copy()), np.zeros((each, threads, 2))

    def draw() -> Array:
        t = v[0] ^ v[0] >> U32(2)
        v[:4] = v[1:5]
        v[4] = v[4] ^ v[4] << U32(4) ^ t ^ t << U32(1)
        v[5] = v[5] + U32(362437)
        return v[4] + v[5]

    for k in range(each):
        u = draw().astype(F32) * F32(2.3283064e-10) + F32(1.1641532e-10)
        w = (draw().astype(F32) * F32(2.3283064e-10)).astype(F64) * 2 * np.pi
        r = np.sqrt(-2 * np.log(np.minimum(u.astype(F64), 1)))
        want[k] = np.stack([r * np.sin(w), r * np.cos(w)], axis=1)
    args = (np.zeros(want.size, F32), state.ravel(), I32(threads), I32(each))
    expected = {0: want.astype(F32).ravel(), 1: np.concatenate(v)}
    return launch("ciphers", "xorwow_normals", -(-threads // 256), 256, args, expected, rtol=2e-3, atol=2e-3)


CASES: dict[str, Sized] = {
    "hgemm_four_stages": sized(hgemm_four_stages, {"m": 128, "n": 256, "depth": 160}, m=1024, n=1664, depth=1024),
    "bulk_ring_filter": sized(bulk_ring_filter, {"tiles": 9, "grid": 2}, tiles=2000, grid=264),
    "cluster_all_to_all": sized(cluster_all_to_all, {"clusters": 1}, clusters=60),
    "cluster_table": sized(cluster_table, {"clusters": 1, "each": 600}, clusters=40, each=4096),
    "wgmma_bf16": sized(wgmma_bf16, {"m": 128, "n": 128, "depth": 320}, m=1024, n=2048, depth=1024),
    "merge_sort_block": sized(merge_sort_block, {"tiles": 2}, tiles=600),
    "half2_wave": sized(half2_wave, {"width": 100, "rows": 20}, width=2048, rows=1536),
    "life_bitboard": sized(life_bitboard, {"words": 5, "rows": 20}, words=256, rows=4096),
    "kd_recursive": sized(kd_recursive, {"levels": 7, "n": 200}, levels=13, n=6000),
    "merge_sort_one_block": sized(merge_sort_block, {"tiles": 1}, tiles=1),
    "sha512_blocks": sized(sha512_blocks, {"n": 140}, n=50000),
    "poly1305_tags": sized(poly1305_tags, {"n": 140, "blocks": 3}, n=20000, blocks=16),
    "bignum_mul_1024": sized(bignum_mul_1024, {"n": 70}, n=12000),
    "secp256k1_double": sized(secp256k1_double, {"n": 130, "times": 2}, n=8448, times=8),
    "secp256k1_double_one_block": sized(secp256k1_double, {"n": 70, "times": 2}, n=128, times=10),
    "miller_rabin": sized(miller_rabin, {"n": 200}, n=3000),
    "memory_hard": sized(memory_hard, {"n": 130, "rounds": 10}, n=16000, rounds=64),
    "xorwow_normals": sized(xorwow_normals, {"threads": 300, "each": 3}, threads=67584, each=10),
}  # fmt: skip
