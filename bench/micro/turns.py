"""Turns of streams and of walks down rows of DRAM, sub-word stores by rows' distance, L1's tag banks, and one sector read by several SMs of a GPC."""

from __future__ import annotations

import numpy as np

from bench.device import Buffer
from bench.micro.context import Context, Row, row
from bench.micro.paths import sweep

MIB = 1 << 20
NOTED = 64
WORDS = 4 + NOTED
"""Of a block's row in the results of ``turns_*``."""
STREAMS = (
    ("turns_read16", 132, 1024, 128), ("turns_read16", 132, 256, 64), ("turns_read16", 66, 1024, 64), ("turns_read4", 132, 1024, 32),
    ("turns_copy16", 132, 1024, 64), ("turns_copy16", 132, 256, 32), ("turns_copy16", 66, 512, 32), ("turns_copy4", 132, 1024, 32),
)  # fmt: skip
"""Kernel, blocks, threads and MiB of each array."""


def stream_turns(ctx: Context) -> list[Row]:
    """Cycles of each turn of a loop over the grid with one access in flight, over the first warps of all SMs; and when the blocks end.

    ``pages``: whether every SM has read of each page since the caches were emptied.
    """
    rows: list[Row] = []
    source, target = ctx.device.alloc(160 * MIB), ctx.device.alloc(160 * MIB)
    if not ctx.model:
        source.zero()
        target.zero()
    other = None if ctx.model else ctx.device.alloc(512 * MIB)
    for kernel, blocks, threads, mib in STREAMS:
        for pages in (False,) if ctx.model else (False, True):
            for run in range(1 if ctx.model else 3):
                rows += _stream(ctx, kernel, blocks, threads, mib, (source, target, other), pages, run)
    return rows


def _stream(
    ctx: Context, kernel: str, blocks: int, threads: int, mib: int, arrays: tuple[Buffer, Buffer, Buffer | None],
    pages: bool, run: int,
) -> list[Row]:  # fmt: skip
    """One run of ``stream_turns``."""
    source, target, other = arrays
    out = ctx.device.upload(np.zeros(blocks * WORDS, np.uint32))
    sweep(ctx, other)
    if pages:
        for array in (source, target):
            ctx.module("turns").launch(
                "touch_pages", 1056, 32, [ctx.words, array, np.uint64(mib * MIB), np.uint64(2 * MIB)]
            )
    width = 16 if kernel.endswith("16") else 4
    ctx.module("turns").launch(kernel, blocks, threads, [out, target, source, np.uint32(mib * MIB // width)])
    marks = out.read(np.uint32, blocks * WORDS).reshape(blocks, WORDS).astype(np.int64)
    out.free()
    turns = marks[:, 4 : 4 + min(int(marks[:, 3].min()), NOTED)]
    where = {"blocks": blocks, "threads": threads, "mib": mib, "pages": pages, "run": run}
    ends = (marks[:, 2] - marks[:, 1].min()) * 1.98
    sums = turns.sum(axis=1)
    ctx.arrays[f"{kernel}_{blocks}x{threads}_{int(pages)}_{run}"] = marks.astype(np.uint32)
    return [
        row(kernel, "cycles_a_turn", float(turns[:, 1:].mean()), "cycles", **where),
        row(kernel, "cycles_a_turn_p99", float(np.percentile(turns[:, 1:], 99)), "cycles", **where),
        row(kernel, "cycles_a_turn_slowest_sm", float(sums.max() / turns.shape[1]), "cycles", **where),
        row(kernel, "first_turn", float(np.median(turns[:, 0])), "cycles", **where),
        row(kernel, "first_end", float(ends.min()), "cycles", **where),
        row(kernel, "median_end", float(np.median(ends)), "cycles", **where),
        row(kernel, "last_end", float(ends.max()), "cycles", **where),
    ]


COLD = {"cold_walk_1": 1, "cold_walk_4": 4, "cold_walk_8": 8}


def cold_walks(ctx: Context) -> list[Row]:
    """Cycles of a turn of loads by lanes that each walk a row of DRAM, by whether it begins 64 bytes (``pair``), 32 (``sector``) or none."""
    rows: list[Row] = []
    data = ctx.device.alloc(64 * MIB)
    if not ctx.model:
        data.zero()
    other = None if ctx.model else ctx.device.alloc(256 * MIB)
    for kernel, count in COLD.items():
        for warps in (1, 2, 8, 32):
            for pitch in (3072, 3200, 4096, 4352, 6144, 8064, 8192, 16384):
                turns = 768 // count // 4
                found = []
                for _ in range(1 if ctx.model else 5):
                    sweep(ctx, other)
                    ctx.module("turns").launch(
                        kernel, 1, 32 * warps, [ctx.words, data, np.uint64(pitch), np.int32(turns)]
                    )
                    found.append(ctx.words.read(np.uint32, turns).astype(np.int64))
                spent = np.median(np.array(found), axis=0)
                at = np.arange(turns) * 4 * count
                kinds = {"pair": at % 64 == 0, "sector": at % 64 == 32, "none": at % 32 != 0}
                for kind, chosen in kinds.items():
                    chosen &= np.arange(turns) > 0
                    if chosen.any():
                        where = {"warps": warps, "pitch": pitch, "begins": kind}
                        rows.append(row(kernel, "cycles_a_turn", float(spent[chosen].mean()), "cycles", **where))
    data.free()
    return rows


def narrow_stores(ctx: Context) -> list[Row]:
    """Cycles of a store of 32 lines by bytes a lane and distance of the lines (in lines, and some that are none)."""
    rows: list[Row] = []
    data = ctx.device.alloc(32 * MIB)
    pitches = [128 * k for k in (4, 8, 12, *range(16, 41), 48, 56, 60, 62, 63, 64)] + [3000, 4000, 4100, 8000]
    for kernel, width in (("narrow_1", 1), ("narrow_2", 2), ("narrow_4", 4)):
        for warps in (1, 4, 16):
            for pitch in pitches if not ctx.model else (3072, 3200, 4096, 4100):
                least = []
                for turns in (8, 24):
                    args = (data, np.uint64(pitch), np.int32(width), np.int32(turns))
                    least.append(min(ctx.span("turns", kernel, warps, args) for _ in range(1 if ctx.model else 3)))
                per = (least[1] - least[0]) / 16 / 4 / warps
                rows.append(row(kernel, "cycles_a_store", per, "cycles", warps=warps, pitch=pitch))
    data.free()
    return rows


def tag_banks(ctx: Context) -> list[Row]:
    """Cycles of a load by lanes on two or three lines that differ in a bit or two of their numbers, which L1 has: two more where they share a tag bank."""
    rows: list[Row] = []
    data = ctx.device.alloc(64 * MIB)
    if not ctx.model:
        data.zero()

    def measure(distances: list[int], **where: object) -> None:
        at = ctx.device.upload(
            np.array([128 * d + 4 * k for k, d in enumerate([0, *distances])] + [0] * 31, np.uint32)[:32]
        )
        marks = ctx.cycles("turns", "lanes_at", 1, [data, at, np.int32(1 + len(distances))])
        at.free()
        rows.append(row("lanes_at", "cycles_a_load", float((marks[0, 0, 1] - marks[0, 0, 0]) / 32), "cycles", **where))

    bits = range(18)
    for one in bits:
        measure([1 << one], bits=str(one))
        for other in range(one):
            measure([1 << one, 1 << other], bits=f"{one},{other}")
            measure([1 << one | 1 << other], bits=f"{one}+{other}")
    data.free()
    return rows


def together_once(ctx: Context) -> list[Row]:
    """SMs of a GPC that read the same places, for a profiler that empties the caches: mean cycles of their loads; the profiler has the sectors L2 looks up."""
    rows: list[Row] = []
    count, clusters = 16, 16
    data = ctx.device.alloc(256 * MIB)
    if not ctx.model:
        data.zero()
    for warm in (1, 0):
        for lane_step in (0, 4, 256):
            for same, skew in (
                (1, 0),
                *((2, k) for k in (0, 16, 64, 128, 192, 256, 320, 512)),
                *((8, k) for k in (0, 2, 8, 24, 64)),
                (4, 0),
                (4, 64),
            ):
                blocks = 8 * clusters
                numbers = (count, same, skew, lane_step, 3000, warm)
                out = ctx.device.upload(np.zeros(2 * blocks, np.uint32))
                ctx.module("turns").launch("together", blocks, 512, [out, data, *(np.int32(v) for v in numbers)], 0, 8)
                marks = out.read(np.uint32, 2 * blocks).reshape(blocks, 2)
                out.free()
                where = {
                    "warm": bool(warm),
                    "lane_step": lane_step,
                    "same": same,
                    "skew": skew,
                    "sms": len(set(marks[:, 0].tolist())),
                }
                rows.append(row("together", "cycles_a_load", float(marks[:, 1].mean() / count), "cycles", **where))
    data.free()
    return rows


def crowd_once(ctx: Context) -> list[Row]:
    """SMs of a GPC that read the same sectors from DRAM, by warps, words of the sectors and loads' kind, for a profiler that empties the caches."""
    rows: list[Row] = []
    count, clusters = 4, 16
    data = ctx.device.alloc(512 * MIB)
    if not ctx.model:
        data.zero()

    def measure(
        warps: int, same: int, apart: int = 1, word: int = 0, other: int = 0, skew: int = 0, cached: int = 0
    ) -> None:
        blocks = 8 * clusters
        numbers = (count, same, apart, word, other, skew, cached)
        out = ctx.device.upload(np.zeros(2 * blocks, np.uint32))
        args = [out, data, *(np.int32(v) for v in numbers)]
        ctx.module("turns").launch("together_crowd", blocks, 32 * warps, args, 0, 8)
        marks = out.read(np.uint32, 2 * blocks).reshape(blocks, 2)
        out.free()
        names = ("count", "same", "apart", "word", "other", "skew", "cached")
        where = {"warps": warps, **dict(zip(names, numbers, strict=True))}
        rows.append(row("together_crowd", "cycles_a_load", float(marks[:, 1].mean() / count), "cycles", **where))

    for warps in (1, 2, 4, 8, 16):
        for same in (1, 2, 4):
            measure(warps, same)
    for warps in (1, 8):
        for same in (2, 4, 8):
            measure(warps, same, cached=1)
            measure(warps, same, word=4, cached=1)
            measure(warps, same, other=1)
            measure(warps, same, apart=2)
            measure(warps, same, skew=40)
            measure(warps, same, word=4, skew=40, cached=1)
    data.free()
    return rows


def store_beside(ctx: Context) -> list[Row]:
    """Cycles of a load that L1 has and a store in turn, by the load's lanes' distance and the store's lines and their distance."""
    rows: list[Row] = []
    data = ctx.device.alloc(96 * MIB)
    if not ctx.model:
        data.zero()
    for warps in (8, 16):
        for spread in (4, 8, 16, 32, 64, 128):
            for pitch, step in ((4, 2 * MIB), (128, 4), (4100, 4), (4096, 4), (3200, 4)):
                for active in (32, 8):
                    if pitch == 4 and active < 32:
                        continue
                    least = []
                    for turns in (2, 8) if pitch == 4 else (8, 24):
                        where = (np.int32(spread), np.uint64(pitch), np.int32(active), np.int32(step), np.int32(turns))
                        spans = [
                            ctx.span("turns", "store_beside", warps, (data, *where))
                            for _ in range(1 if ctx.model else 3)
                        ]
                        least.append(min(spans))
                    per = (least[1] - least[0]) / (6 if pitch == 4 else 16) / 4 / warps
                    which = {"warps": warps, "spread": spread, "pitch": pitch, "active": active}
                    rows.append(row("store_beside", "cycles_a_pair", per, "cycles", **which))
    data.free()
    return rows


def walks_in_time(ctx: Context) -> list[Row]:
    """When each warp of a block ends each turn of a walk down rows of its lanes' own, which L2 has (``warm``) or nothing; the array is by warp and turn."""
    rows: list[Row] = []
    data = ctx.device.alloc(64 * MIB)
    if not ctx.model:
        data.zero()
    other = None if ctx.model else ctx.device.alloc(256 * MIB)
    for kernel, loads in (("walk_all_1", 1), ("walk_all_4", 4), ("walk_all_8", 8)):
        for warps in (1, 2, 3, 4, 5, 8, 16, 32):
            for pitch in (3000, 3072, 3200, 4000, 4100, 8000, 8192):
                for warm in (1, 0):
                    turns = 64 // loads * 2
                    out = ctx.device.upload(np.zeros(warps * turns, np.uint32))
                    sweep(ctx, other)
                    args = [out, data, np.uint64(pitch), np.int32(turns), np.int32(warm)]
                    ctx.module("turns").launch(kernel, 1, 32 * warps, args)
                    ends = out.read(np.uint32, warps * turns).reshape(warps, turns)
                    out.free()
                    ctx.arrays[f"{kernel}_{warps}_{pitch}_{warm}"] = ends
                    where = {"warps": warps, "pitch": pitch, "warm": bool(warm), "turns": turns}
                    for name, value in (("first_end", ends[:, -1].min()), ("last_end", ends[:, -1].max())):
                        rows.append(row(kernel, name, float(value), "cycles", **where))
    data.free()
    return rows
