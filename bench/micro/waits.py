"""Waits for an mbarrier, atomics on other blocks' shared memory, starts of clusters, constants by a uniform index."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row


def waits(ctx: Context) -> list[Row]:
    """How long a look holds a warp back in vain, and how soon one goes on when the phase ends."""
    rows: list[Row] = []
    module = ctx.module("waits")
    for way, times in ((0, (0,)), (1, (0,)), (2, (0, 100, 1000, 20000))):
        for nanoseconds in times:
            module.launch("look_in_vain", 1, 32, [ctx.words, np.uint32(way), np.uint32(nanoseconds)])
            spans = ctx.words.read(np.uint32, 8)
            name = ("try_wait", "test_wait", "try_wait_for")[way]
            each = [int(v) for v in spans]
            rows.append(
                row("look_in_vain", name, float(np.median(spans)), "cycles", nanoseconds=nanoseconds, each=each)
            )
    for tests in (0, 1):
        for late in (100, 500, 2000, 20000):
            for warps in (2, 5, 9):
                module.launch("wake", 1, warps * 32, [ctx.words, np.uint32(late), np.uint32(tests)])
                words = ctx.words.read(np.uint32, 4 + 256)
                after, looks = [], []
                for turn in range(1, 4):
                    there = words[4 + turn * 64 : 4 + turn * 64 + 2 * warps].reshape(-1, 2)[1:]
                    after += (there[:, 0] - words[turn]).astype(np.int32).tolist()
                    looks += there[:, 1].tolist()
                rows.append(
                    row(
                        "wake", "test_wait" if tests else "try_wait", float(np.median(after)), "cycles",
                        late=late, warps=warps, least=min(after), most=max(after), looks=float(np.mean(looks)),
                    )
                )  # fmt: skip
    return rows


def remote_adds(ctx: Context) -> list[Row]:
    """Cycles of a warp's addition to another block's shared memory, by pattern, warps and blocks of the cluster."""
    rows: list[Row] = []
    module = ctx.module("waits")
    for size, blocks, to_one in ((2, 1, 0), (2, 2, 0), (4, 4, 0), (4, 4, 1), (8, 8, 0), (8, 8, 1)):
        for pattern in (0, 1, 2, 32):
            for threads in (32, 256):
                spans = []
                for rounds in (2, 10):
                    args = [np.uint32(v) for v in (1, blocks, rounds, pattern, to_one)]
                    found = []
                    for _ in range(1 if ctx.model else 3):
                        module.launch("remote_adds", size, threads, [ctx.words, *args], 0, size)
                        found.append(int(ctx.words.read(np.uint32, size).max()))
                    spans.append(min(found))
                each = (spans[1] - spans[0]) / 64 / (threads // 32)
                where = {"size": size, "blocks": blocks, "pattern": pattern, "threads": threads, "to_one": to_one}
                rows.append(row("remote_adds", "cycles_per_warp_access", each, "cycles", **where))
    return rows


def cluster_starts(ctx: Context) -> list[Row]:
    """Time from the first block's start to the last one's, blocks that only read the clock."""
    rows: list[Row] = []
    module = ctx.module("launch")
    for grid in (1584, 12672):
        for threads in (32, 256, 1024):
            for size in (1, 2, 4, 8, 16):
                if ctx.model and size == 16:
                    continue
                out = ctx.device.upload(np.zeros(5 * grid, np.uint64))
                for _ in range(2):
                    module.launch("stamp", grid, threads, [out, np.uint64(0)], 0, size)
                stamps = out.read(np.uint64, 5 * grid).reshape(grid, 5).astype(np.int64)
                out.free()
                where = {"grid": grid, "threads": threads, "size": size}
                span = float(stamps[:, 4].max() - stamps[:, 3].min())
                rows.append(row("cluster_starts", "span_ns", span, "ns", **where))
                rows.append(row("cluster_starts", "ns_each", span / grid * size, "ns", **where))
    return rows


def uniform_constants(ctx: Context) -> list[Row]:
    """Cycles of a loop's turn that reads one or four constants at a uniform index."""
    rows: list[Row] = []
    lines = [(1, 1, 16 * k) for k in (*range(1, 13), 16, 24, 32, 40, 64)]
    walks = [(step, wide, n) for step, wide in ((0, 1), (4, 1), (16, 1), (0, 4), (4, 4), (16, 4)) for n in (32, 256)]
    for step, wide, count in lines + walks:
        for warps, stagger in ((1, 0), (2, 0), (8, 0), (2, 40), (2, 500), (4, 500), (8, 40), (8, 500)):
            args = (np.int32(count), np.uint32(stagger))
            marks = ctx.cycles("waits", f"uniform_{step}_{wide}", warps, args)[0]
            span = float((marks[:, 1] - marks[:, 0]).mean())  # of each warp by itself
            where = {"step": step, "wide": wide, "warps": warps, "count": count, "stagger": stagger}
            rows.append(row("uniform_constants", "cycles_each", span / count, "cycles", **where))
    return rows


def mbarrier_flow(ctx: Context) -> list[Row]:
    """Cycles from the first warp's arrival at an mbarrier to the steps of a phase, by warps and by lanes that arrive."""
    rows: list[Row] = []
    module = ctx.module("waits")
    ways = ("arrive_expect_complete", "arrive", "arrive_remote")
    steps = ("arrived", "arrived_last", "woken_first", "woken_last", "together")
    for warps in (1, 2, 4, 8):
        for lanes in (1, 32):
            for way, name in enumerate(ways):
                turns = []
                for _ in range(1 if ctx.model else 3):
                    module.launch("mbarrier_flow", 1, warps * 32, [ctx.words, np.int32(lanes), np.int32(way)])
                    words = ctx.words.read(np.uint32, 6 * 256).reshape(6, 32, 8)[3:, :warps, :5].astype(np.int64)
                    words -= words[:, :, :1].min(axis=1, keepdims=True)
                    turns += [
                        (float(np.median(w[:, 1])), w[:, 2].max(), w[:, 3].min(), w[:, 3].max(), w[:, 4].max())
                        for w in words
                    ]
                for step, value in zip(steps, np.median(np.array(turns), axis=0), strict=True):
                    rows.append(row("mbarrier_flow", step, float(value), "cycles", way=name, warps=warps, lanes=lanes))
    return rows
