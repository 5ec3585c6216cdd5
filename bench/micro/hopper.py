"""Hopper's machinery: cluster barriers, distributed shared memory, mbarriers, bulk copies and their waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.device import Buffer
from bench.micro.context import Context, Row, row

TRIES = 3
TO_L2 = (16, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)


def measured(
    ctx: Context, kernel: str, blocks: int, threads: int, args: Sequence[Any], words: int, shared_bytes: int = 0, cluster: int = 1
) -> np.ndarray:  # fmt: skip
    """The least of each word that the kernel writes, over some launches."""
    found = []
    for _ in range(1 if ctx.model else TRIES):
        ctx.module("hopper").launch(kernel, blocks, threads, [ctx.words, *args], shared_bytes, cluster)
        found.append(ctx.words.read(np.uint32, words))
    return np.min(found, axis=0).astype(np.int64)


def clusters(ctx: Context) -> list[Row]:
    """Rounds of the cluster's barrier with and without fences, and who waits how long when one block is late."""
    rows: list[Row] = []
    sizes = (1, 2, 4, 8) if ctx.model else (1, 2, 4, 8, 16)
    for kernel in ("cluster_barrier", "cluster_barrier_relaxed"):
        for size in sizes:
            if size == 1 and kernel.endswith("relaxed"):
                continue
            for threads in (32, 256, 1024):
                cycles = measured(ctx, kernel, size, threads, [], size, cluster=size).max() / 64
                rows.append(row(kernel, "cycles_each", float(cycles), "cycles", blocks=size, threads=threads))
    for size in sizes[1:]:
        for late in (0, 200, 1000):
            for threads in (32, 1024):
                spans = measured(ctx, "cluster_late", size, threads, [np.uint32(late)], 3 * size, cluster=size).reshape(
                    -1, 3
                )
                for who, part in (("late", spans[0]), ("others", spans[1:].max(0))):
                    for what, value in zip(("before", "arrive", "wait"), part, strict=True):
                        rows.append(
                            row(
                                "cluster_late",
                                f"{what}_of_{who}",
                                int(value),
                                "cycles",
                                blocks=size,
                                threads=threads,
                                late=late,
                            )
                        )
    return rows


def remote(ctx: Context) -> list[Row]:
    """Another block's shared memory: chains of loads and atomics, and what many warps move."""
    rows: list[Row] = []
    size = 8
    for kernel in ("remote_chain", "atomic_chain", "cas_chain"):
        for rank in (0, 1, 4, 7):
            args = [np.uint32(rank), *([np.uint32(0)] if kernel != "remote_chain" else [])]
            cycles = measured(ctx, kernel, size, 64, args, 1, cluster=size)[0] / 64
            rows.append(row(kernel, "cycles_each", float(cycles), "cycles", rank=rank))
    for kernel in ("remote_read4", "remote_read16", "remote_write4", "remote_write16"):
        wide = 16 if kernel.endswith("16") else 4
        for blocks, size in ((1, 2), (2, 2), (4, 4), (8, 8)):
            for threads in (32, 256, 1024):
                spans = [
                    measured(
                        ctx,
                        kernel,
                        size,
                        threads,
                        [np.uint32(v) for v in (1, blocks, n)],
                        size,
                        1024 * wide * 8 + 128,
                        size,
                    ).max()
                    for n in (2, 6)
                ]
                each = float(spans[1] - spans[0]) / 4 / 8 / (threads // 32)
                rows.append(
                    row(kernel, "cycles_per_warp_access", each, "cycles", blocks=blocks, size=size, threads=threads)
                )
    return rows


def remote_plans() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Byte offsets of the lanes' words (-1: the lane does nothing), and by how many ranks their blocks lie away."""
    lanes = np.arange(32)
    scattered = np.random.default_rng(7).integers(0, 512, 32)
    one, rows = np.ones(32, int), {}
    rows["line"] = lanes, one
    rows["own_line"] = lanes, one * 0
    rows["one_word"] = lanes * 0, one
    for lanes_a_word in (2, 8):
        rows[f"{lanes_a_word}_a_word"] = lanes // lanes_a_word, one
    for apart in (2, 4, 8, 32, 33):
        rows[f"{apart}_words_apart"] = lanes * apart, one
    for some in (1, 2, 4, 8, 16):
        rows[f"{some}_lanes"] = np.where(lanes < some, lanes * 33, -1), one
    rows["scattered"] = scattered, one
    rows["own_scattered"] = scattered, one * 0
    for ranks in (2, 4):
        rows[f"line_{ranks}_ranks"] = lanes, 1 + lanes % ranks
        rows[f"halves_{ranks}_ranks"] = lanes, 1 + lanes * ranks // 32
        rows[f"scattered_{ranks}_ranks"] = scattered, 1 + np.random.default_rng(8).integers(0, ranks, 32)
    for to in (0, 1):
        rows[f"line_to_{to}"] = lanes, one * (256 + to)
        rows[f"scattered_to_{to}"] = scattered, one * (256 + to)
    return {name: (np.where(words < 0, -1, words * 4), ranks) for name, (words, ranks) in rows.items()}


def remote_places(ctx: Context) -> list[Row]:
    """A warp's access to another block's shared memory by the places of its lanes, every block of four doing the same."""
    rows: list[Row] = []
    for name, plan in remote_plans().items():
        table = ctx.device.upload(np.concatenate(plan).astype(np.int32).view(np.uint32))
        for kernel in ("load", "store", "red", "atom", "generic", "generic_load", "generic_store", "load16"):
            for threads in (32, 512):
                spans = [
                    measured(ctx, f"remote_places_{kernel}", 4, threads, [table, np.uint32(n)], 4, 49152, 4).max()
                    for n in (2, 6)
                ]
                each = float(spans[1] - spans[0]) / 32 / (threads // 32)
                rows.append(
                    row(
                        f"remote_places_{kernel}",
                        "cycles_per_warp_access",
                        each,
                        "cycles",
                        places=name,
                        threads=threads,
                    )
                )
    return rows


def remote_crowd(ctx: Context) -> list[Row]:
    """The same with one cluster, and with so many that each SM has 1, 2, 4 blocks: lanes at words of ranks at random, or at one counter of each rank."""
    rows: list[Row] = []
    lanes, rng = np.arange(32), np.random.default_rng(9)
    places = {"scattered": rng.integers(0, 512, 32), "counters": lanes * 0, "lines": lanes}
    for size in (4, 8):
        for name, words in places.items():
            ranks = rng.integers(0, size, 32)
            table = ctx.device.upload(np.concatenate([words * 4, ranks]).astype(np.uint32))
            for kernel in ("load", "store", "red", "atom", "generic_store"):
                for blocks in (size, 120, 240, 480):
                    spans = [
                        measured(
                            ctx, f"remote_places_{kernel}", blocks, 256, [table, np.uint32(n)], blocks, 49152, size
                        ).max()
                        for n in (2, 6)
                    ]
                    each = float(spans[1] - spans[0]) / 32 / 8 / max(blocks // 120, 1)
                    rows.append(
                        row(
                            "remote_crowd",
                            "cycles_per_warp_access",
                            each,
                            "cycles",
                            kernel=kernel,
                            size=size,
                            places=name,
                            blocks=blocks,
                        )
                    )
    return rows


def remote_random(ctx: Context) -> list[Row]:
    """Accesses of 8 warps whose lanes draw block and place anew each time, by one cluster and by all of the chip."""
    rows: list[Row] = []
    for size in (2, 4, 8):
        for kernel, places in (
            *(("load", 1024), ("store", 1024), ("red", 1024), ("atom", 1024)),
            *(("red", 1), ("red", 16), ("atom", 1), ("atom", 16), ("both", 1)),
        ):
            for blocks in (size, 120, 480):
                kernel_name = f"remote_random_{kernel}"
                spans = [
                    measured(
                        ctx,
                        kernel_name,
                        blocks,
                        256,
                        [np.uint32(places), np.uint32(4), np.uint32(n)],
                        blocks,
                        49152,
                        size,
                    ).mean()
                    for n in (2, 6)
                ]
                each = float(spans[1] - spans[0]) / 32 / 8 / max(blocks // 120, 1)
                where = {"size": size, "places": places, "blocks": blocks}
                rows.append(row(kernel_name, "cycles_per_warp_access", each, "cycles", **where))
    return rows


def remote_channels(ctx: Context) -> list[Row]:
    """Additions by all of the chip to some words of each block, so many bytes apart: which places pass beside each other."""
    rows: list[Row] = []
    for places, distances in (
        (2, 4 << np.arange(14)),
        (4, 32 << np.arange(9)),
        (16, 32 << np.arange(7)),
        (64, 32 << np.arange(5)),
    ):
        for apart in map(int, distances):
            args = [[np.uint32(v) for v in (places, apart, n)] for n in (2, 6)]
            spans = [measured(ctx, "remote_random_red", 120, 256, a, 120, 49152, 8).mean() for a in args]
            each = float(spans[1] - spans[0]) / 32 / 8
            rows.append(row("remote_random_red", "cycles_per_warp_access", each, "cycles", places=places, apart=apart))
    return rows


def cluster_waves(ctx: Context) -> list[Row]:
    """Blocks of clusters of several sizes that only wait, more than the chip holds: how long an SM is busy, and when the next ones start."""
    rows: list[Row] = []
    spin = 4000
    out = ctx.device.alloc(8 * 5 * 4096)
    for threads, blocks in ((256, 1600), (1024, 528), (128, 4000)):
        for cluster in (1, 2, 4, 8):
            ctx.module("launch").launch("stamp", blocks, threads, [out, np.uint64(spin)], 0, cluster)
            stamps = out.read(np.uint64, 5 * blocks).reshape(-1, 5).astype(np.int64)
            spans, gaps, starts = [], [], []
            for sm in np.unique(stamps[:, 0]):
                begin, end = np.sort(stamps[stamps[:, 0] == sm, 1]), np.sort(stamps[stamps[:, 0] == sm, 2])
                first = int(np.searchsorted(begin, end[0]))  # blocks that began before one had ended
                spans.append(end[-1] - begin[0])
                starts.append(begin[first - 1] - begin[0])
                gaps += [b - e for b, e in zip(begin[first:], end, strict=False)]
            where = {"cluster": cluster, "threads": threads}
            rows.append(row("cluster_waves", "sm_span_mean", float(np.mean(spans)), "cycles", **where))
            rows.append(row("cluster_waves", "sm_span_most", float(np.max(spans)), "cycles", **where))
            rows.append(row("cluster_waves", "first_starts_median", float(np.median(starts)), "cycles", **where))
            rows.append(row("cluster_waves", "sms_used", float(len(spans)), "", **where))
            for p in (10, 50, 90):
                rows.append(
                    row(
                        "cluster_waves",
                        f"end_to_start_p{p}",
                        float(np.percentile(gaps, p)) if gaps else 0.0,
                        "cycles",
                        **where,
                    )
                )
    return rows


def mbarriers(ctx: Context) -> list[Row]:
    """Arrivals and looks one behind the other, and two warps that hand over."""
    rows: list[Row] = []
    steps = measured(ctx, "mbarrier_steps", 1, 32, [np.uint32(0)], 4)
    for what, cycles in zip(("arrive_chain", "try_wait_chain", "test_wait_chain", "arrive_stream"), steps, strict=True):
        rows.append(row("mbarrier_steps", what, float(cycles) / 16, "cycles"))
    rows.append(
        row("local_barrier", "arrive_and_wait", float(measured(ctx, "local_barrier", 1, 32, [], 1)[0]) / 64, "cycles")
    )
    for blocks in (1, 2):
        cycles = measured(ctx, "mbarrier_turns", blocks, 64, [], 1, cluster=blocks)[0] / 64
        rows.append(row("mbarrier_turns", "round_trip", float(cycles), "cycles", blocks=blocks))
    return rows


def bulk_copies(ctx: Context) -> list[Row]:
    """Bulk loads, stores and copies between blocks: issue and completion by size and number; streams."""
    rows: list[Row] = []
    memory = ctx.device.alloc(256 << 20)

    def note(kernel: str, bytes_: int, count: int, cluster: int = 1, given: Buffer | None = memory) -> None:
        args = [*([given] if given is not None else []), np.uint32(bytes_), np.uint32(count)]
        spans = measured(ctx, kernel, cluster, 32, args, 16, bytes_ * count + 2048, cluster).reshape(-1, 2)
        for what, column in (("issue", spans[:, 0]), ("whole", spans[:, 1])):
            rows.append(
                row(kernel, what, int(np.median(column[2:])), "cycles", bytes=bytes_, count=count, first=int(column[0]))
            )

    many = [(b, n) for b in (16, 1024, 4096) for n in (2, 4, 8, 16, 32) if b * n <= 131072]
    for size in TO_L2:
        note("bulk_latency", size, 1)
        for kernel in ("store_read", "store_done", "reduce_read", "reduce_done"):
            note(kernel, size, 1)
    for size, count in many:
        note("bulk_latency", size, count)
        for kernel in ("store_read", "store_done"):
            note(kernel, size, count)
    for kernel in ("bulk_stream", "store_stream"):
        for size in (1024, 4096, 16384):
            for blocks in (1, 4, 16, 66, 132):
                if ctx.model and blocks > 4:
                    continue
                spans = [
                    measured(
                        ctx, kernel, blocks, 32, [memory, np.uint32(size), np.uint32(n)], blocks, 4 * size + 2048
                    ).max()
                    for n in (16, 48)
                ]
                rate = size * 32 / float(spans[1] - spans[0])
                rows.append(row(kernel, "bytes_per_cycle_per_sm", rate, "bytes", bytes=size, blocks=blocks))
    for size in (1024, 8192, 32768):
        for blocks, mask in ((2, 1), (2, 2), (2, 3), (4, 15), (8, 255)):
            spans = measured(
                ctx,
                "multicast",
                blocks,
                32,
                [memory, np.uint32(size), np.uint32(mask)],
                8 * blocks,
                size + 2048,
                blocks,
            ).reshape(blocks, 8)
            told = [r for r in range(blocks) if mask >> r & 1]
            for who, column in (("own", [0]), ("others", told[-1:])):
                if set(column) <= set(told):
                    value = int(np.median(spans[column][:, 2:]))
                    rows.append(row("multicast", f"whole_{who}", value, "cycles", bytes=size, blocks=blocks, mask=mask))
    for size, count in ((16, 1), (1024, 1), (4096, 1), (16384, 1), (65536, 1), (1024, 2), (1024, 8), (1024, 32)):
        note("within_turns", size, count, 2, None)
    memory.free()
    return rows
