"""Cases of votes, sorts, histograms, atomics, locks, barriers, memory order and cooperative groups."""

from __future__ import annotations

import numpy as np

from tests.kernels.case import Array, Case, Outputs, Size, launch, pick

I32, F32, F64, U32, U64, I64 = np.int32, np.float32, np.float64, np.uint32, np.uint64, np.int64
LANES = np.arange(32)


def _ballot(votes: Array) -> Array:
    """One 32-bit mask per row of 32 booleans."""
    return (votes.astype(U64) << LANES.astype(U64)).sum(axis=-1).astype(U32)


def warp_votes(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 3, 1000)
    src = rng.integers(-50, 50, grid * 64, dtype=I32)
    src[:32] = np.abs(src[:32]) % 40
    rows = src.reshape(-1, 32)
    want = np.zeros((rows.shape[0], 32, 4), U32)
    want[:, :, 0] = (rows > -40).all(axis=1)[:, None]
    want[:, :, 1] = (rows > 45).any(axis=1)[:, None]
    want[:, :, 2] = _ballot(rows % 2 != 0)[:, None]
    odd = LANES % 2 == 1
    want[:, odd, 3] = _ballot((rows > 0) & odd)[:, None]
    want[:, ~odd, 3] = _ballot((rows < 0) & ~odd)[:, None]
    return launch("votes.cu", "warp_votes", grid, 64, (np.zeros(want.size, U32), src), {0: want.ravel()})


def warp_match(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 2, 1000)
    narrow = rng.integers(0, 12, grid * 64, dtype=I32)
    narrow[:32] %= 4
    wide = rng.integers(0, 3, grid * 64, dtype=I64) * (2**32 + 1) - 2
    rows, wide_rows = narrow.reshape(-1, 32), wide.reshape(-1, 32)
    want = np.zeros((rows.shape[0], 32, 4), U32)
    want[:, :, 0] = _ballot(rows[:, :, None] == rows[:, None, :])
    want[:, :, 1] = _ballot(wide_rows[:, :, None] == wide_rows[:, None, :])
    same = (rows // 4 == rows[:, :1] // 4).all(axis=1)
    want[:, :, 2] = np.where(same, U32(0xFFFFFFFF), U32(0))[:, None]
    want[:, :, 3] = same[:, None]
    args = (np.zeros(want.size, U32), narrow, wide)
    return launch("votes.cu", "warp_match", grid, 64, args, {0: want.ravel()})


def warp_shuffles(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 3, 1000)
    src = rng.integers(-(2**31), 2**31 - 1, grid * 64, dtype=I32)
    source_lane = rng.integers(0, 32, grid * 64, dtype=I32)
    wide = rng.standard_normal(grid * 64)
    rows, from_rows = src.reshape(-1, 32), source_lane.reshape(-1, 32)
    want = np.zeros((rows.shape[0], 32, 5), I32)
    want[:, :, 0] = np.take_along_axis(rows, from_rows, axis=1)
    want[:, :, 1] = np.take_along_axis(rows, LANES // 8 * 8 + from_rows % 8, axis=1)
    want[:, :, 2] = rows[:, np.where(LANES % 16 >= 3, LANES - 3, LANES)]
    want[:, :, 3] = rows[:, np.where(LANES < 27, LANES + 5, LANES)]
    want[:, :, 4] = rows[:, LANES ^ 9]
    args = (np.zeros(want.size, I32), src, source_lane, wide, np.zeros_like(wide))
    reverse = wide.reshape(-1, 32)[:, ::-1].ravel()
    return launch("votes.cu", "warp_shuffles", grid, 64, args, {0: want.ravel(), 4: reverse})


def sort_bitonic(size: Size, rng: np.random.Generator) -> Case:
    grid, threads = pick(size, 2, 264), pick(size, 64, 256)
    keys = rng.integers(-1000, 1000, (grid, threads), dtype=I32)
    want = np.sort(keys, axis=1).ravel()
    return launch("sorts.cu", "sort_bitonic", grid, threads, (keys.ravel(),), {0: want}, shared_bytes=4 * threads)


def sort_odd_even(size: Size, rng: np.random.Generator) -> Case:
    grid, n = pick(size, 2, 528), pick(size, 45, 101)
    keys = rng.standard_normal((grid, n), dtype=F32)
    want = np.sort(keys, axis=1).ravel()
    return launch("sorts.cu", "sort_odd_even", grid, 64, (keys.ravel(), I32(n)), {0: want})


def _by_digit(keys: Array, shift: int) -> Array:
    order = np.argsort(keys >> U32(shift) & U32(15), axis=1, kind="stable")
    return np.take_along_axis(keys, order, axis=1).ravel()


def sort_radix_split(size: Size, rng: np.random.Generator) -> Case:
    grid, shift = pick(size, 3, 1000), 8
    keys = rng.integers(0, 2**32, (grid, 128), dtype=U32)
    args = (keys.ravel(), I32(shift))
    return launch("sorts.cu", "sort_radix_split", grid, 128, args, {0: _by_digit(keys, shift)})


def sort_radix_match(size: Size, rng: np.random.Generator) -> Case:
    grid, shift = pick(size, 3, 528), 20
    keys = rng.integers(0, 2**32, (grid, 128), dtype=U32)
    args = (np.zeros(keys.size, U32), keys.ravel(), I32(shift))
    return launch("sorts.cu", "sort_radix_match", grid, 128, args, {0: _by_digit(keys, shift)})


def histogram_global(size: Size, rng: np.random.Generator) -> Case:
    n, grid = pick(size, 1500, 1_000_000), pick(size, 3, 528)
    src = rng.integers(0, 256, n, dtype=np.uint8)
    want = np.bincount(src, minlength=256).astype(U32)
    return launch("histograms.cu", "histogram_global", grid, 128, (np.zeros(256, U32), src, I32(n)), {0: want})


def histogram_shared(size: Size, rng: np.random.Generator) -> Case:
    n, grid = pick(size, 2000, 2_000_000), pick(size, 2, 264)
    src = np.clip(rng.normal(128, 20, n), 0, 255).astype(np.uint8)
    want = np.bincount(src, minlength=256).astype(U32)
    return launch("histograms.cu", "histogram_shared", grid, 256, (np.zeros(256, U32), src, I32(n)), {0: want})


def histogram_private(size: Size, rng: np.random.Generator) -> Case:
    n, grid = pick(size, 700, 1_000_000), pick(size, 2, 264)
    src = rng.integers(0, 256, 4 * n, dtype=np.uint8)
    want = np.bincount(src // 4, minlength=64).astype(U32)
    args = (np.zeros(64, U32), src, I32(n))
    return launch("histograms.cu", "histogram_private", grid, 128, args, {0: want}, shared_bytes=4 * 256)


def _integer_cells(src: Array) -> Array:
    """What the first eleven cells hold after every thread applied its value to cells that began at zero (cell 6: all ones)."""
    bits = src.view(U32)
    total = int(src.sum(dtype=I64))
    cells = [total, -total, min(0, int(src.min())), max(0, int(src.max()))]
    cells += [0, int(bits.max()), int(np.bitwise_and.reduce(src | I32(0x0FF0)))]
    cells += [int(np.bitwise_or.reduce(src & I32(0x11110000))), int(np.bitwise_xor.reduce(src))]
    # Increments count 0..100 and wrap; decrements count 77..0 and wrap, the first from 0 to 77.
    cells += [src.size % 101, -src.size % 78]
    return np.array(cells, I64).astype(U32).view(I32)


def atomics_global(size: Size, rng: np.random.Generator) -> Case:
    n, grid = pick(size, 150, 40_000), pick(size, 2, 316)
    src = rng.integers(-(2**31), 2**31 - 1, n, dtype=I32)
    start = np.zeros(12, I32)
    start[6], start[11] = -1, 999
    want = _integer_cells(src)

    def check(outputs: Outputs) -> None:
        np.testing.assert_array_equal(outputs[0][:11], want)
        passed_on = np.append(outputs[1], outputs[0][11])
        np.testing.assert_array_equal(np.sort(passed_on), np.sort(np.append(src, I32(999))))

    args = (start, np.zeros(n, I32), src, I32(n))
    return launch("atomics.cu", "atomics_global", grid, 128, args, check=check)


def atomics_shared(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 2, 528)
    src = rng.integers(-(2**31), 2**31 - 1, (grid, 96), dtype=I32)
    want = np.zeros((grid, 16), I32)
    for row, values in zip(want, src, strict=True):
        row[:11] = _integer_cells(values)
        row[11:15] = 96, 1234, 4321, 96 * 95 // 2
    return launch("atomics.cu", "atomics_shared", grid, 96, (np.zeros(want.size, I32), src.ravel()), {0: want.ravel()})


def atomics_wide(size: Size, rng: np.random.Generator) -> Case:
    n, grid = pick(size, 150, 40_000), pick(size, 2, 316)
    src = rng.integers(0, 2**64, n, dtype=U64)
    start = np.zeros(9, U64)
    start[[1, 3, 8]] = U64(2**64 - 1)
    total = src.sum(dtype=U64)
    want = np.array(
        [
            total,
            src.min(),
            src.max(),
            np.bitwise_and.reduce(src | U64(0xF0F0)),
            np.bitwise_or.reduce(src & U64(0x1111000000001111)),
            np.bitwise_xor.reduce(src),
            total,
            src.max(),
            src.min(),
        ],
        U64,
    )
    signed = src.view(I64)
    args = (start, np.zeros(2, I64), src, I32(n))
    wanted = {0: want, 1: np.array([min(0, signed.min()), max(0, signed.max())], I64)}
    return launch("atomics.cu", "atomics_wide", grid, 128, args, wanted)


def atomics_float(size: Size, rng: np.random.Generator) -> Case:
    """Sums of small integers, so that every order of additions gives the same float."""
    n, grid = pick(size, 150, 40_000), pick(size, 2, 316)
    src = rng.integers(-100, 100, n).astype(F32)
    sums = np.append([src[k::4].sum(dtype=F64) for k in range(4)], src.sum(dtype=F64))
    args = (np.zeros(5, F32), np.zeros(5, F64), src, I32(n))
    return launch("atomics.cu", "atomics_float", grid, 128, args, {0: sums.astype(F32), 1: sums})


def atomics_half(size: Size, rng: np.random.Generator) -> Case:
    """Each half adds up few enough small integers to stay exact (below 2048)."""
    grid = pick(size, 2, 132)
    pairs = rng.integers(-2, 3, (grid * 128, 2)).astype(np.float16)
    folded = pairs.reshape(-1, 32, 2).sum(axis=0, dtype=F64).astype(np.float16)
    low = pairs[:, 0].reshape(-1, 64).sum(axis=0, dtype=F64).astype(np.float16)
    args = (np.zeros(64, np.float16), np.zeros(64, np.float16), pairs.ravel())
    return launch("atomics.cu", "atomics_half", grid, 128, args, {0: folded.ravel(), 1: low})


def atomics_cas_loop(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 1, 12)
    src = rng.integers(0, 2**32, grid * 64, dtype=U32)
    product = np.ones(8, I64)
    for row in (src.astype(I64) % 65520 + 1).reshape(-1, 8):
        product = product * row % 65521
    maximum = np.array([max(F32(0), src.view(I32).astype(F32).max())], F32)
    packed = np.array([(src.size << 32) | int(np.bitwise_xor.reduce(src))], U64)
    args = (np.ones(8, U32), np.zeros(1, F32), np.zeros(1, U64), src)
    want = {0: product.astype(U32), 1: maximum, 2: packed}
    return launch("atomics.cu", "atomics_cas_loop", grid, 64, args, want)


def lock_lanes(size: Size, rng: np.random.Generator) -> Case:
    grid, block = pick(size, 1, 4), pick(size, 32, 64)
    threads = grid * block

    def check(outputs: Outputs) -> None:
        assert outputs[0][0] == threads, f"{outputs[0][0]} of {threads} threads passed through the lock"
        np.testing.assert_array_equal(np.sort(outputs[1]), np.arange(threads))
        assert outputs[2][0] == 0, "the lock is still held"

    args = (np.zeros(1, I32), np.full(threads, -1, I32), np.zeros(1, I32))
    return launch("locks.cu", "lock_lanes", grid, block, args, check=check)


def lock_blocks(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 4, 132)
    src = rng.integers(-1000, 1000, grid * 64, dtype=I32)
    want = np.array([src.sum(), grid], I32)
    args = (np.zeros(2, I32), np.zeros(1, I32), src)
    return launch("locks.cu", "lock_blocks", grid, 64, args, {0: want, 1: np.zeros(1, I32)})


def lock_buckets(size: Size, rng: np.random.Generator) -> Case:
    grid, buckets = pick(size, 1, 32), pick(size, 8, 512)
    threads = 64 * grid
    bucket = rng.integers(0, buckets, threads, dtype=I32)

    def check(outputs: Outputs) -> None:
        found = np.full(threads, -1)
        for b in range(buckets):
            at, steps = int(outputs[0][b]), 0
            while at != -1:
                assert 0 <= at < threads, f"bucket {b}'s list leads to {at}"
                assert steps <= threads, f"bucket {b}'s list goes in a circle"
                found[at] = b
                at, steps = int(outputs[1][at]), steps + 1
        np.testing.assert_array_equal(found, bucket)
        assert not outputs[2].any(), "a lock is still held"

    args = (np.full(buckets, -1, I32), np.full(threads, -1, I32), np.zeros(buckets, I32), bucket)
    return launch("locks.cu", "lock_buckets", grid, 64, args, check=check)


def lock_ticket(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 2, 64)
    holders = grid * 32 // 8
    value = 1.0
    for ticket in range(holders):
        value = value * 0.5 + ticket
    args = (np.zeros(1, U32), np.zeros(1, U32), np.ones(1, F64))
    want = {0: np.array([holders], U32), 1: np.array([holders], U32), 2: np.array([value])}
    return launch("locks.cu", "lock_ticket", grid, 32, args, want)


def barrier_votes(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 3, 1000)
    src = rng.integers(-900, 900, (grid, 128), dtype=I32)
    src[0, 5], src[1, 9] = -1000, 77
    every, some = (src > -1000).all(axis=1), (src == 77).any(axis=1)
    want = (src > 0).sum(axis=1) * 8 + every * 4 + some * 2
    args = (np.zeros(src.size, I32), src.ravel())
    return launch("barriers.cu", "barrier_votes", grid, 128, args, {0: np.repeat(want, 128).astype(I32)})


def barrier_named(size: Size, rng: np.random.Generator) -> Case:
    grid, rounds = pick(size, 2, 528), pick(size, 4, 40)
    src = rng.integers(-1000, 1000, (grid, rounds, 64), dtype=I32)
    want = src[:, :, ::-1] * 2 + np.arange(rounds, dtype=I32)[None, :, None]
    args = (np.zeros(src.size, I32), src.ravel(), I32(rounds))
    return launch("barriers.cu", "barrier_named", grid, 128, args, {0: want.ravel()})


def barrier_pairs(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 2, 1000)
    src = rng.integers(-1000, 1000, grid * 256, dtype=I32)
    thread = np.arange(grid * 256)
    want = src[thread ^ 32] * 10 + thread % 256 // 64
    args = (np.zeros(src.size, I32), src)
    return launch("barriers.cu", "barrier_pairs", grid, 256, args, {0: want.astype(I32)}, shared_bytes=1024)


def volatile_handoff(size: Size, rng: np.random.Generator) -> Case:
    grid, rounds = pick(size, 2, 264), pick(size, 3, 10)
    src = rng.integers(-100, 100, (grid, 32), dtype=I32)
    box = src
    for _ in range(rounds):
        box = (box * 3)[:, ::-1] + 1
    args = (np.zeros(src.size, I32), src.ravel(), I32(rounds))
    return launch("barriers.cu", "volatile_handoff", grid, 64, args, {0: box.astype(I32).ravel()})


def chained_scan(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 5, 132)
    src = rng.integers(0, 2**32, grid * 128, dtype=U32)
    want = np.cumsum(src, dtype=U32)
    zeros = np.zeros(grid, U32)
    args = (np.zeros_like(src), np.zeros(1, U32), zeros.copy(), zeros.copy(), src)
    wanted = {0: want, 1: np.array([grid], U32), 3: want[127::128].copy()}
    return launch("ordering.cu", "chained_scan", grid, 128, args, wanted)


def atom_acquire_release(size: Size, rng: np.random.Generator) -> Case:
    grid, factor = pick(size, 6, 1000), 37
    slots = ((np.arange(grid) + 1) * factor).astype(U32)
    args = (np.zeros(2, U32), np.zeros(grid, U32), np.zeros(1, U32), U32(factor))
    want = {0: np.array([slots.sum(), grid], U32), 1: slots, 2: np.zeros(1, U32)}
    return launch("ordering.cu", "atom_acquire_release", grid, 32, args, want)


def clock_read(size: Size, rng: np.random.Generator) -> Case:
    grid, rounds = pick(size, 2, 264), pick(size, 20, 200)
    value = np.arange(grid * 64, dtype=U32)
    for _ in range(rounds):
        value = value * U32(1664525) + U32(1013904223)

    def check(outputs: Outputs) -> None:
        elapsed = outputs[0].reshape(-1, 2)
        np.testing.assert_array_equal(outputs[1], value.view(I32))
        assert (elapsed[:, 0] > 0).all(), "the 64-bit clock stands still"
        assert (elapsed <= 10_000_000).all(), "the clock advances by more than ten million cycles"
        assert (elapsed[:, 1] > 0).all(), "the 32-bit clock stands still"

    args = (np.zeros(2 * value.size, I64), np.zeros(value.size, I32), I32(rounds))
    return launch("ordering.cu", "clock_read", grid, 64, args, check=check)


def sleep_turns(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 2, 264)
    want = np.tile(5 + np.arange(32), grid).astype(U32)
    args = (np.zeros(32 * grid, U32), np.zeros(grid, U32))
    return launch("ordering.cu", "sleep_turns", grid, 64, args, {0: want, 1: np.full(grid, 5, U32)})


def group_tiles(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 3, 1000)
    src = rng.integers(-100, 100, grid * 64, dtype=I32)
    tiles = src.reshape(-1, 8)
    votes = ((tiles > 0) << np.arange(8)).sum(axis=1)
    want = tiles.sum(axis=1) * 256 + votes + 1_000_000 * (np.arange(tiles.shape[0]) % 8)
    args = (np.zeros_like(src), src)
    return launch("groups.cu", "group_tiles", grid, 64, args, {0: np.repeat(want, 8).astype(I32)})


def group_coalesced(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 4, 2000)
    src = rng.integers(-1000, 1000, grid * 64, dtype=I32)
    kept = np.sort(src[np.fmod(src, 3) == 0])

    def check(outputs: Outputs) -> None:
        assert outputs[1][0] == kept.size, f"{outputs[1][0]} elements kept, {kept.size} expected"
        np.testing.assert_array_equal(np.sort(outputs[0][: kept.size]), kept)
        assert not outputs[0][kept.size :].any(), "something was written past the kept elements"

    args = (np.zeros_like(src), np.zeros(1, I32), src)
    return launch("groups.cu", "group_coalesced", grid, 64, args, check=check)


def group_reduce(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 2, 1000)
    src = rng.integers(-10000, 10000, grid * 64, dtype=I32)
    rows = src.reshape(-1, 32)
    each = np.stack([rows.sum(axis=1), rows.max(axis=1), np.bitwise_xor.reduce(rows, axis=1)], axis=1).astype(I32)
    peaks = np.repeat(src.reshape(-1, 4).min(axis=1), 4).astype(F32)
    args = (np.zeros(3 * src.size, I32), np.zeros(src.size, F32), src)
    want = {0: np.repeat(each, 32, axis=0).ravel(), 1: peaks}
    return launch("groups.cu", "group_reduce", grid, 64, args, want)


CASES = (
    warp_votes,
    warp_match,
    warp_shuffles,
    sort_bitonic,
    sort_odd_even,
    sort_radix_split,
    sort_radix_match,
    histogram_global,
    histogram_shared,
    histogram_private,
    atomics_global,
    atomics_shared,
    atomics_wide,
    atomics_float,
    atomics_half,
    atomics_cas_loop,
    lock_lanes,
    lock_blocks,
    lock_buckets,
    lock_ticket,
    barrier_votes,
    barrier_named,
    barrier_pairs,
    volatile_handoff,
    chained_scan,
    atom_acquire_release,
    clock_read,
    sleep_turns,
    group_tiles,
    group_coalesced,
    group_reduce,
)
