"""Cases of control flow, calls, recursion, local arrays, constant memory, device globals and parameter passing."""

from __future__ import annotations

from math import gcd

import numpy as np

from tests.kernels.case import Array, Case, Size, launch, pick

I32, F32, F64, U32, U64, I64 = np.int32, np.float32, np.float64, np.uint32, np.uint64, np.int64


def collatz_steps(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 64, 40_000)
    src = rng.integers(1, pick(size, 200, 50_000), n, dtype=U32)
    value, steps = src.copy(), np.zeros(n, I32)
    while (value != 1).any():
        steps += value != 1
        value = np.where(value == 1, value, np.where(value % 2 == 1, U32(3) * value + U32(1), value // U32(2)))
    return launch("control.cu", "collatz_steps", -(-n // 64), 64, (np.zeros(n, I32), src, I32(n)), {0: steps})


def _wrap(value: int) -> int:
    """An integer as 32-bit two's complement."""
    return (value + 2**31) % 2**32 - 2**31


def _switch(opcode: int, x: int, before: int) -> int:
    unsigned = x % 2**32
    bits = [bit for bit in range(32) if unsigned >> bit & 1]
    match opcode:
        case 0:
            return x + 1
        case 1:
            return x * x - before
        case 2:
            return -x - 1
        case 3:
            return 8 * x - 100
        case 4:
            return x - 100
        case 5:
            return abs(x)
        case 6:
            return len(bits)
        case 7:
            return x ^ 0x5A5A
        case 8:
            # x with its lowest bits removed one after another, summed up.
            return sum(sum(1 << bit for bit in bits[k:]) for k in range(len(bits)))
        case 9:
            return int(np.fmod(x, 13))
        case 10:
            return -1
        case 11:
            return sum(1 << (31 - bit) for bit in bits)
        case _:
            return 0


def switch_table(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 160, 30_000)
    opcodes = rng.integers(-1, 14, n, dtype=I32)
    src = rng.integers(-5000, 5000, n, dtype=I32)
    before = rng.integers(-100, 100, n, dtype=I32)
    rows = zip(opcodes.tolist(), src.tolist(), before.tolist(), strict=True)
    want = np.array([_wrap(_switch(*row)) for row in rows], I32)
    return launch("control.cu", "switch_table", -(-n // 64), 64, (before, opcodes, src, I32(n)), {0: want})


def _one_row(total: int, row: int, width: int, limit: int) -> tuple[int, bool]:
    """The inner loops of ``nested_divergence``: the new total, and whether they left straight for the next row."""
    for column in range(width):
        value = row * column + limit
        if value % 7 == 3:
            continue
        if value > 60:
            break
        if value % 2 == 1:
            total += value
            continue
        while True:
            value -= 3
            if value == limit:
                return total, True
            total ^= value
            if value <= column:
                break
    return total, False


def _nested(limit: int, width: int) -> int:
    if limit < 0:
        return -1
    total = 0
    for row in range(width):
        if (row + limit) % 5 == 0:
            continue
        total, jumped = _one_row(total, row, width, limit)
        if not jumped and total > 500:
            break
        total += row
    return total


def nested_divergence(size: Size, rng: np.random.Generator) -> Case:
    grid, width = pick(size, 1, 66), pick(size, 8, 12)
    src = rng.integers(-3, 50, grid * 64, dtype=I32)
    memo = {limit: _nested(limit, width) for limit in range(-3, 50)}
    want = np.array([memo[limit] for limit in src.tolist()], I32)
    args = (np.zeros_like(src), src, I32(width))
    return launch("control.cu", "nested_divergence", grid, 64, args, {0: want})


def grid_three_dimensions(size: Size, rng: np.random.Generator) -> Case:
    block = (7, 5, 3)
    extent = (17, 11, 7) if size == "small" else (190, 121, 60)
    grid = tuple(-(-e // b) for e, b in zip(extent, block, strict=True))
    z, y, x = np.meshgrid(*(np.arange(e) for e in reversed(extent)), indexing="ij")
    thread = x % 7 + 7 * (y % 5 + 5 * (z % 3))
    number = x // 7 + grid[0] * (y // 5 + grid[1] * (z // 3))
    want = (number * 1000 + thread).astype(I32).ravel()
    args = (np.zeros(want.size, I32), *(I32(e) for e in extent))
    return launch("control.cu", "grid_three_dimensions", grid, block, args, {0: want})


def leaving_lanes(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 75, 40_000)
    lifetime = rng.integers(0, 40, n, dtype=I32)
    thread, seen = np.arange(n, dtype=U32), np.zeros(n, U32)
    for step in range(40):
        added = seen + U32(step if step % 3 == 2 else 0)
        seen = np.where(step < lifetime, added * U32(31) + thread, seen)
    args = (np.zeros(n, U32), lifetime, I32(n))
    return launch("control.cu", "leaving_lanes", -(-n // 64), 64, args, {0: seen})


def mandelbrot(size: Size, rng: np.random.Generator) -> Case:
    width, height, limit = (24, 12, 40) if size == "small" else (384, 256, 120)
    step = F32(3.0 / width)
    x0, y0 = F32(-2.1), F32(-1.1)
    cx = np.broadcast_to(x0 + np.arange(width, dtype=F32) * step, (height, width))
    cy = np.broadcast_to((y0 + np.arange(height, dtype=F32) * step)[:, None], (height, width))
    zx, zy = np.zeros((2, height, width), F32)
    count, alive = np.zeros((height, width), I32), np.ones((height, width), bool)
    for _ in range(limit):
        xx, yy = zx * zx, zy * zy
        alive &= xx + yy <= F32(4)
        if not alive.any():
            break
        zy = np.where(alive, F32(2) * zx * zy + cy, zy)
        zx = np.where(alive, xx - yy + cx, zx)
        count += alive
    args = (np.zeros(count.size, I32), I32(width), I32(height), x0, y0, step, I32(limit))
    grid = (-(-width // 16), -(-height // 8))
    return launch("control.cu", "mandelbrot", grid, (16, 8), args, {0: count.ravel()})


def recursion_fibonacci(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 1, 264)
    src = rng.integers(0, pick(size, 6, 10), grid * 64, dtype=I32)
    numbers = np.array([0, 1, 1, 2, 3, 5, 8, 13, 21, 34], I32)
    return launch("calls.cu", "recursion_fibonacci", grid, 64, (np.zeros_like(src), src), {0: numbers[src]})


def recursion_ackermann(size: Size, rng: np.random.Generator) -> Case:
    """A(0, n) = n + 1 and A(1, n) = n + 2."""
    grid = pick(size, 1, 264)
    src = rng.integers(0, 14, grid * 64, dtype=I32)
    want = src // 2 + 1 + src % 2
    return launch("calls.cu", "recursion_ackermann", grid, 64, (np.zeros_like(src), src), {0: want})


def recursion_quicksort(size: Size, rng: np.random.Generator) -> Case:
    grid, n = pick(size, 1, 66), pick(size, 7, 16)
    src = rng.integers(-99, 99, (grid * 32, n), dtype=I32)
    args = (np.zeros(src.size, I32), src.ravel(), I32(n))
    return launch("calls.cu", "recursion_quicksort", grid, 32, args, {0: np.sort(src, axis=1).ravel()})


def _horner(x: Array, coefficients: Array) -> Array:
    total = np.zeros_like(x)
    for coefficient in coefficients:
        total = total * x + coefficient
    return total


def call_noinline(size: Size, rng: np.random.Generator) -> Case:
    grid, n = pick(size, 2, 1000), 7
    src = rng.uniform(-1, 1, grid * 64).astype(F32)
    coefficients = rng.standard_normal(n, dtype=F32)
    value = _horner(src, coefficients)
    value[1::2] = _horner(value[1::2], coefficients[1:])
    args = (np.zeros_like(src), src, coefficients, I32(n))
    return launch("calls.cu", "call_noinline", grid, 64, args, {0: value})


def call_pointers(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 1, 264)
    which = rng.integers(0, 4, grid * 64, dtype=I32)
    a, b = rng.integers(1, 10_000, (2, grid * 64), dtype=I32)
    divisors = np.array([gcd(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)], I32)
    want = np.choose(which, [a + b, a - b, a * b, divisors])
    args = (np.zeros_like(a), which, a.copy(), b.copy())
    return launch("calls.cu", "call_pointers", grid, 64, args, {0: want})


def local_permutation(size: Size, rng: np.random.Generator) -> Case:
    grid, rounds = pick(size, 1, 132), pick(size, 20, 40)
    seeds = rng.integers(0, 2**32, grid * 64, dtype=U32)
    values = np.tile(np.arange(24, dtype=U32) ** 2, (seeds.size, 1)).astype(U32)
    each, state = np.arange(seeds.size), seeds.copy()
    for _ in range(rounds):
        state = state * U32(1664525) + U32(1013904223)
        a, b = (state >> U32(8)) % U32(24), (state >> U32(16)) % U32(24)
        values[each, a], values[each, b] = values[each, b], values[each, a]
    total = np.zeros(seeds.size, U32)
    for k in range(24):
        total = total * U32(3) + values[:, k]
    args = (np.zeros(seeds.size, I32), seeds, I32(rounds))
    return launch("calls.cu", "local_permutation", grid, 64, args, {0: total.view(I32)})


def constant_filter(size: Size, rng: np.random.Generator) -> Case:
    n = pick(size, 150, 300_000)
    src, taps = rng.standard_normal(n + 8, dtype=F32), rng.standard_normal(8, dtype=F32)
    whole = rng.integers(0, 1_000_000, n, dtype=I32)
    total = np.zeros(n, F32)
    for k in range(8):
        total = total + taps[k] * src[k : k + n]
    digits = whole // 10 ** (np.arange(n) % 6) % 10
    args = (np.zeros(n, F32), np.zeros(n, I32), src, whole, I32(n))
    return launch(
        "calls.cu",
        "constant_filter",
        -(-n // 128),
        128,
        args,
        {0: total, 1: digits.astype(I32)},
        device_globals={"filter_taps": taps},
    )


def device_globals(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 3, 528)
    thread = np.arange(grid * 64)
    table = np.zeros(64, F32)
    table[:4] = 0.5, 1.5, 2.5, 3.5
    tallies = np.array([thread[k::4].sum() for k in range(4)]).astype(I32)
    args = (np.zeros(thread.size, F32), np.zeros(4, I32), np.zeros(1, U64), np.zeros(1, U32))
    want = {
        0: np.tile(table * 2, grid),
        1: tallies,
        2: np.array([0x123456789ABCDEF], U64),
        3: np.array([grid], U32),
    }
    # The counters are zero in the source too; writing them makes a second launch of a loaded module right.
    cleared = {"counters": np.zeros(4, I32)}
    return launch("calls.cu", "device_globals", grid, 64, args, want, device_globals=cleared)


PIXEL = np.dtype([("red", np.uint8), ("green", np.uint8), ("blue", np.uint8)])
BODY = np.dtype(
    [("mass", F64), ("position", F32, 3), ("charge", np.int16), ("colour", PIXEL), ("id", I64)],
    align=True,
)


def struct_parameters(size: Size, rng: np.random.Generator) -> Case:
    grid, scale, flag = pick(size, 2, 1000), 1000, -5
    thread = np.arange(grid * 64)
    body = np.array((2.5, (1.0, -2.0, 3.5), -321, (1, 2, 3), 2**40 + 7), BODY)[()]
    pixel = np.array((9, 8, 250), PIXEL)[()]
    shift = np.array([0.25, 10, 20, 0.75], F32)
    whole = (2**40 + 7) * scale - 321 + 2 * 256 + 250 + flag + thread
    weight = 2.5 * np.array([1.0, -2.0, 3.5])[thread % 3] + np.where(thread % 2 == 1, 0.25, 0.75)
    args = (
        np.zeros(thread.size, I64),
        np.zeros(thread.size),
        body,
        I32(scale),
        pixel,
        np.int8(flag),
        np.void(shift.tobytes()),
    )
    return launch("calls.cu", "struct_parameters", grid, 64, args, {0: whole, 1: weight})


def many_parameters(size: Size, rng: np.random.Generator) -> Case:
    grid = pick(size, 2, 1000)
    p = rng.integers(-1000, 1000, grid * 64, dtype=I32)
    scalars = (np.int8(-7), np.int16(-1234), I32(56789), I64(-(10**6)), F32(3.75), F64(-99.5), np.uint8(250))
    scalars += (np.uint16(65000), U32(123456), U64(77 << 40), I32(-5))
    later = (np.int8(11), I64(4321), F32(0.625), np.int16(-32000), I32(17), F64(1e3), np.int8(-3), I32(100))
    total = -7 - 2 * 1234 + 3 * 56789 - 10**6 + 3 - 99 + 250 + 65000 + 123456 + 77 - 5
    total += 4321 + 5 - 32000 + 17 + 1000 - 300
    args = (np.zeros_like(p), *scalars, p, *later)
    return launch("calls.cu", "many_parameters", grid, 64, args, {0: (total + p * 11).astype(I32)})


CASES = (
    collatz_steps,
    switch_table,
    nested_divergence,
    grid_three_dimensions,
    leaving_lanes,
    mandelbrot,
    recursion_fibonacci,
    recursion_ackermann,
    recursion_quicksort,
    call_noinline,
    call_pointers,
    local_permutation,
    constant_filter,
    device_globals,
    struct_parameters,
    many_parameters,
)
