"""Stores: partial sectors, strides, joining, local memory; atomics of several kinds on one place."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row
from bench.micro.paths import elapsed

LANES = np.arange(32)


def strided(ctx: Context) -> list[Row]:
    """Cycles of one store instruction of every warp over the chip, by bytes between threads: slope over 2 and 6 stores."""
    rows: list[Row] = []
    base = ctx.device.alloc(512 << 20)
    for kernel, width in (("strided4", 4), ("strided8", 8), ("strided1", 1)):
        for step in (1, 4, 8, 16, 32, 64, 128, 256):
            if step < width:
                continue
            for sms in (1, 132):
                out = ctx.device.upload(np.zeros(2 * sms, np.uint64))
                # Fresh sectors each time, in L2 as long as 132 x 1024 x step x n bytes fit it.
                far = sms * 1024 * step
                low, high = (4, 12) if sms == 1 or step <= 16 else (2, 4)
                if ctx.model and step > 64 and sms > 1:
                    continue
                spans = []
                for n in (low, high):
                    best = np.inf
                    for _ in range(1 if ctx.model else 4):
                        args = [out, base, np.uint64(step), np.uint64(far), np.int32(n)]
                        ctx.module("stores").launch(kernel, sms, 1024, args, 120 << 10)
                        best = min(best, elapsed(ctx, out, sms))
                    spans.append(best)
                per = (spans[1] - spans[0]) / 32 / (high - low)
                rows.append(row(kernel, "cycles_per_warp_store_per_sm", per, "cycles", step=step, sms=sms))
                out.free()
    base.free()
    return rows


REJOIN = [
    (words, between, gap)
    for words, between, gap in (
        *((4, between, 0) for between in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
        *((4, 0, gap) for gap in (50, 100, 200, 400, 800, 1600, 3200)),
        (8, 0, 0),
        (8, 4, 0),
    )
]


def rejoin_once(ctx: Context) -> list[Row]:
    """Stores of a warp to sectors that it stored to before, for a profiler to count the sectors that reach L2."""
    base = ctx.device.alloc(64 << 20)
    for kernel in ("rejoin", "rejoin_weak"):
        for words, between, gap in REJOIN:
            args = [base, np.int32(32), np.int32(words), np.int32(between), np.uint32(gap)]
            ctx.module("stores").launch(kernel, 1, 32, args)
    base.free()
    return []


FILLS = [(warps, apart) for warps in (1, 2, 4, 8, 16, 32) for apart in (0, 1, 4)]


def fills(ctx: Context) -> list[Row]:
    """Four stores that fill sectors one after the other: cycles of the four, by warps and by other stores between."""
    rows: list[Row] = []
    base = ctx.device.alloc(256 << 20)
    for warps, apart in FILLS:
        spans = [
            ctx.span("stores", "fill_words", warps, (base, np.int32(n), np.int32(apart), np.uint64(1 << 20)))
            for n in (8, 24)
        ]
        per = (spans[1] - spans[0]) / 16 / warps
        rows.append(row("fill_words", "cycles_per_four_per_warp", per, "cycles", warps=warps, apart=apart))
    base.free()
    return rows


def fills_once(ctx: Context) -> list[Row]:
    """The same, for a profiler that counts the sectors which reach L2."""
    base = ctx.device.alloc(256 << 20)
    for warps, apart in FILLS:
        args = [ctx.words, base, np.int32(16), np.int32(apart), np.uint64(1 << 20)]
        ctx.module("stores").launch("fill_words", 1, 32 * warps, args)
    args = [ctx.words, base, np.int32(8), np.int32(0), np.uint64(32 << 20)]
    ctx.module("stores").launch("fill_words", 132, 1024, args)
    base.free()
    return []


STRUCTURES = tuple(
    (f"fill_{width}x{count}", width * count, warps, blocks, idle)
    for width, count in ((4, 4), (4, 8), (4, 2), (2, 8), (2, 2), (1, 4), (8, 2), (8, 4))
    for warps, blocks, idle in ((1, 1, 0), (4, 1, 0), (8, 1, 0), (16, 1, 0), (32, 1, 0), (32, 1, 40), (32, 132, 0))
)
"""Kernel, bytes a thread, warps, blocks, idle turns."""


def structures_once(ctx: Context) -> list[Row]:
    """Neighbouring stores of each thread into a structure of its own: cycles; a profiler counts what reaches L2."""
    rows: list[Row] = []
    rounds = 12
    base = ctx.device.alloc(256 << 20)
    for kernel, size, warps, blocks, idle in STRUCTURES:
        args = (base, np.int32(rounds), np.uint64(size * 32 * warps * blocks), np.int32(idle))
        span = ctx.span("stores", kernel, warps, args, blocks=blocks)
        rows.append(row(kernel, "cycles_per_warp_and_round", span / rounds / warps, "cycles", warps=warps, blocks=blocks,
                        idle=idle))  # fmt: skip
    base.free()
    return rows


PACED = tuple(
    (warps, blocks, pace)
    for warps, blocks in ((4, 1), (8, 1), (16, 1), (32, 1), (4, 132), (16, 132), (32, 132), (32, 264))
    for pace in (0, 2, 5, 10, 20, 40)
)
"""Warps, blocks, products before each store."""


def paced_once(ctx: Context) -> list[Row]:
    """Four neighbouring stores of each thread with products before each: cycles; a profiler counts what reaches L2."""
    rows: list[Row] = []
    rounds = 12
    base = ctx.device.alloc(256 << 20)
    for warps, blocks, pace in PACED:
        args = (base, np.int32(rounds), np.uint64(16 * 32 * warps * blocks), np.int32(pace))
        span = ctx.span("stores", "paced_4x4", warps, args, blocks=blocks)
        rows.append(
            row(
                "paced_4x4",
                "cycles_per_warp_and_round",
                span / rounds / warps,
                "cycles",
                warps=warps,
                blocks=blocks,
                pace=pace,
            )
        )
    base.free()
    return rows


def local(ctx: Context) -> list[Row]:
    """Local memory with an index of each lane's own: cycles of a dependent load, of a store, by spread and warps."""
    rows: list[Row] = []
    for kernel in ("local_walk", "local_swap"):
        for spread in (0, 1, 5):
            for warps in (1, 4, 16, 32):
                per = ctx.slope("stores", kernel, warps, (), 16, 48, 4096, after=(np.uint32(spread), np.uint32(1)))
                rows.append(row(kernel, "cycles_per_round", per, "cycles", spread=spread, warps=warps))
    return rows


MIXES = ("add_add", "add_min", "add_and", "min_and", "add_inc", "inc_inc", "inc_dec", "exch_exch", "add_exch", "inc_exch",
         "atom_exch", "add_cas")  # fmt: skip
PLACES: dict[str, tuple[np.ndarray, int, int]] = {
    "lane1_same_word": (LANES * 0, 1, 0),
    "lane1_next_word": (LANES * 0, 1, 4),
    "lane1_next_sector": (LANES * 0, 1, 32),
    "lane1_far": (LANES * 0, 1, 8192),
    "lane32_same_word": (LANES * 0, 0xFFFFFFFF, 0),
    "lane32_next_word": (LANES * 0, 0xFFFFFFFF, 4),
    "linear": (LANES * 4, 0xFFFFFFFF, 0),
}


def mixed(ctx: Context) -> list[Row]:
    """Two kinds of atomics that alternate, 8 warps on every SM: cycles an instruction over the chip."""
    rows: list[Row] = []
    base = ctx.device.alloc(1 << 20)
    for kernel in MIXES:
        for place, (offsets, mask, apart) in PLACES.items():
            table = ctx.device.upload(np.append(offsets, 0).astype(np.uint32))
            seconds = []
            counts = (1, 3) if ctx.model else (2, 10)
            for n in counts:
                args = [ctx.words, base, table, np.uint32(mask), np.uint32(apart), np.int32(n)]
                tries = 1 if ctx.model else 3
                seconds.append(min(ctx.module("mixed").launch(kernel, 132, 256, args) for _ in range(tries)))
            operations = (counts[1] - counts[0]) * 8 * 8 * 132
            cycles = (seconds[1] - seconds[0]) * 1.98e9 / operations
            rows.append(row(kernel, "chip_cycles_per_instruction", cycles, "cycles", place=place))
            table.free()
    base.free()
    return rows


def uneven(ctx: Context) -> list[Row]:
    """`many` plain atomics and one with an answer on one word, each on so many lanes: cycles of the lot over the chip."""
    rows: list[Row] = []
    base = ctx.device.alloc(1 << 20)
    for plain, answers, many in (
        *((1, 1, 1), (32, 1, 1), (1, 32, 1), (32, 32, 1), (8, 8, 1), (32, 8, 1), (8, 32, 1)),
        *((32, 32, 2), (32, 32, 4), (1, 32, 8), (1, 1, 8), (8, 32, 4)),
    ):
        masks = [np.uint32((1 << lanes) - 1) for lanes in (plain, answers)]
        seconds = []
        counts = (4, 8) if ctx.model else (8, 40)
        for n in counts:
            args = [ctx.words, base, *masks, np.int32(many), np.int32(n)]
            tries = 1 if ctx.model else 3
            seconds.append(min(ctx.module("mixed").launch("uneven", 132, 256, args) for _ in range(tries)))
        cycles = (seconds[1] - seconds[0]) * 1.98e9 / ((counts[1] - counts[0]) * 8 * 132)
        rows.append(row("uneven", "chip_cycles_per_round", cycles, "cycles", plain=plain, answers=answers, many=many))
    base.free()
    return rows


def atom_steps(ctx: Context) -> list[Row]:
    """Cycles of one atomic after the other, by line: near and far homes."""
    rows: list[Row] = []
    base = ctx.device.alloc(64 << 20)
    out = ctx.device.upload(np.zeros(8192, np.uint32))
    ctx.module("mixed").launch("atom_steps", 1, 1, [out, base, np.uint64(4224), np.int32(2048)])
    steps = out.read(np.uint32, 2048)
    ctx.arrays["atom_steps"] = steps
    for p in (1, 10, 25, 50, 75, 90, 99):
        rows.append(row("atom_steps", f"p{p}", float(np.percentile(steps, p)), "cycles"))
    rows.append(row("atom_steps", "mean", float(steps.mean()), "cycles"))
    base.free()
    return rows


def streams_once(ctx: Context) -> list[Row]:
    """Cold streams for a profiler that counts cycles, sectors and bytes of DRAM."""
    most = 48 << 20
    arrays = [ctx.device.alloc(most) for _ in range(3)]
    for kernel, size in (("read", 16), ("read", 4), ("copy", 16), ("copy", 4), ("sum", 16), ("sum", 4)):
        for mib in (1, 8, 24, 48):
            n = (mib << 20) // size
            out = ctx.device.upload(np.zeros(4 * -(-n // 256), np.uint64))
            ctx.module("paths").launch(f"each_{kernel}{size}", -(-n // 256), 256, [out, *arrays, np.uint32(n)], 1024)
            out.free()
    for buffer in arrays:
        buffer.free()
    return []
