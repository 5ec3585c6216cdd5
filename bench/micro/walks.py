"""Lanes that walk rows of their own, misses of one SM by lines and sectors, streams of few SMs, steps of small grids, straight-line code."""

from __future__ import annotations

import numpy as np

from bench.device import ModelModule
from bench.micro.context import Context, Row, row
from bench.micro.paths import sweep

MIB = 1 << 20
WALKS = {"walk_1": 1, "walk_4": 4, "walk_8": 8, "walk_short_4": 4, "walk_cg_1": 1, "walk_cg_4": 4}
"""Loads of a turn."""


PITCHES = (1024, 3200, 4096, 4100, 16384)


def row_walks(ctx: Context) -> list[Row]:
    """Cycles of a turn of loads by lanes that each walk a row: one SM, lines that are in L2; by step, pitch, warps and loads in flight."""
    rows: list[Row] = []
    data = ctx.device.alloc(16 * MIB)
    for kernel, count in WALKS.items():
        for warps in (1, 2, 4, 8, 16, 32):
            for pitch in PITCHES if warps > 1 else (*PITCHES, 3072, 8192, 65536):
                for step in (2,) if "short" in kernel else (4, 32, 128):
                    least = []
                    for turns in (8, 24):
                        if pitch * warps * 32 > 16 * MIB or step * count * turns > pitch:
                            break
                        args = (data, np.uint64(pitch), np.int32(step), np.int32(turns))
                        least.append(min(ctx.span("walks", kernel, warps, args) for _ in range(1 if ctx.model else 3)))
                    if len(least) == 2:
                        per = (least[1] - least[0]) / 16
                        rows.append(row(kernel, "cycles_a_turn", per, "cycles", warps=warps, pitch=pitch, step=step))
    data.free()
    return rows


COPIES = {"copy_walk_1": 4, "copy_walk_4": 4, "copy_walk_short_1": 2, "copy_walk_short_4": 2}
ODD_PITCHES = (3000, 3200, 4000, 4096, 4100, 6000, 8000)


def copy_walks(ctx: Context) -> list[Row]:
    """The same of as many loads and stores, word after word, to rows elsewhere or in place; of loads and of stores alone at the same pitches, loads also of one
    place (``step`` 0: all found in L1)."""
    rows: list[Row] = []
    half = 16 * MIB
    data = ctx.device.alloc(2 * half)
    many = (2, 16) if ctx.model else (1, 2, 4, 8, 16, 32)

    def measure(kernel: str, warps: int, pitch: int, step: int, *more: np.uint64, **where: object) -> None:
        least = []
        for turns in (16, 48):
            args = (data, np.uint64(pitch), np.int32(step), np.int32(turns), *more)
            least.append(min(ctx.span("walks", kernel, warps, args) for _ in range(1 if ctx.model else 3)))
        per = (least[1] - least[0]) / 32
        rows.append(row(kernel, "cycles_a_turn", per, "cycles", warps=warps, pitch=pitch, step=step, **where))

    for pitch in ODD_PITCHES:
        for warps in many:
            for kernel, width in COPIES.items():
                for other in (half, 0):
                    measure(kernel, warps, pitch, width, np.uint64(other), in_place=other == 0)
            for kernel, steps in (("walk_1", (0, 4)), ("walk_4", (0, 4)), ("walk_short_4", (0, 2))):
                for step in steps:
                    measure(kernel, warps, pitch, step)
            for kernel, width in (("store_walk", 4), ("store_walk_short", 2)):
                measure(kernel, warps, pitch, width)
    data.free()
    return rows


def store_walks(ctx: Context) -> list[Row]:
    """The same of four stores a turn."""
    rows: list[Row] = []
    data = ctx.device.alloc(16 * MIB)
    for kernel, width in (("store_walk", 4), ("store_walk_short", 2)):
        for warps in (1, 4, 16, 32):
            for pitch in (3200, 4096):
                for step in (width, 32):
                    least = []
                    for turns in (8, 24):
                        args = (data, np.uint64(pitch), np.int32(step), np.int32(turns))
                        least.append(min(ctx.span("walks", kernel, warps, args) for _ in range(1 if ctx.model else 3)))
                    per = (least[1] - least[0]) / 16
                    rows.append(row(kernel, "cycles_a_turn", per, "cycles", warps=warps, pitch=pitch, step=step))
    data.free()
    return rows


def miss_rate(ctx: Context) -> list[Row]:
    """Cycles of a round of loads past L1 by one SM, all in flight and then awaited, by lines of a load and sectors of a line; from L2 and from DRAM."""
    rows: list[Row] = []
    size = 64 * MIB
    data = ctx.device.alloc(size)
    if not ctx.model:
        data.zero()
    other = None if ctx.model else ctx.device.alloc(256 * MIB)
    for source in ("l2", "dram"):
        for count in (1, 4, 8):
            for warps in (1, 4, 32) if ctx.model else (1, 2, 4, 8, 16, 32):
                for lanes, step in ((4, 128), (1, 128), (1, 256), (1, 4096), (2, 128), (1, 32)):
                    load_bytes = 32 * step // lanes if step <= 256 else 32
                    apart = 32 * step if step > 256 else count * load_bytes * 16
                    if apart * warps > size or (step > 256 and count * 12 * 32 > step):
                        continue
                    spans = []
                    for rounds in (2, 6):
                        found = []
                        for _ in range(1 if ctx.model else 7):
                            sweep(ctx, other)
                            numbers = (load_bytes, lanes, step, rounds, source == "l2")
                            args = (data, np.uint64(apart), *(np.int32(v) for v in numbers))
                            found.append(ctx.span("walks", f"burst_{count}", warps, args))
                        spans.append(float(np.median(found)))
                    per = (spans[1] - spans[0]) / 4
                    where = {
                        "source": source,
                        "loads": count,
                        "warps": warps,
                        "sectors_a_line": lanes,
                        "line_step": step,
                    }
                    rows.append(row("burst", "cycles_a_round", per, "cycles", **where))
                    requests = count * warps * (32 // lanes if step > 32 else 8)
                    rows.append(row("burst", "cycles_a_request", per / requests, "cycles", **where))
    data.free()
    return rows


STREAMS = ("read4_1", "read4_4", "read16_1", "read16_4", "copy4_1", "copy4_4", "copy16_1", "copy16_4", "fill4_4")


def few_sms(ctx: Context) -> list[Row]:
    """Bytes a cycle that streams of DRAM move (each byte read or written counts), by SMs, threads, width and accesses in flight."""
    rows: list[Row] = []
    size = 64 * MIB
    slack = 32 * MIB  # turns that begin within an array and end behind it
    source, target = ctx.device.alloc(size + slack), ctx.device.alloc(size + slack)
    if not ctx.model:
        source.zero()
    other = None if ctx.model else ctx.device.alloc(256 * MIB)
    for kernel in STREAMS:
        width, moved = (16 if "16" in kernel else 4), (2 if "copy" in kernel else 1)
        for blocks in (1, 16, 66, 132) if ctx.model else (1, 4, 16, 33, 66, 99, 132):
            for threads in (512,) if ctx.model else (128, 512, 1024):
                length = min(size, max(blocks * threads * width * 64, 2 * MIB))
                spans = []
                for _ in range(1 if ctx.model else 5):
                    sweep(ctx, other)
                    out = ctx.device.upload(np.zeros(2 * blocks, np.uint64))
                    args = [out, target, source, np.uint32(length // width)]
                    ctx.module("walks").launch(kernel, blocks, threads, args)
                    marks = out.read(np.uint64, 2 * blocks).reshape(blocks, 2).astype(np.int64)
                    out.free()
                    spans.append(float(marks[:, 1].max() - marks[:, 0].min()))
                rate = moved * length / (float(np.median(spans)) * 1.98)
                where = {"blocks": blocks, "threads": threads, "mib": length / MIB}
                rows.append(row(kernel, "bytes_per_cycle", rate, "B/clk", **where))
    for buffer in (source, target):
        buffer.free()
    return rows


def steps_once(ctx: Context) -> list[Row]:
    """Small elementwise grids, for a profiler that empties the caches: cycles of the steps of each block on its SM."""
    rows: list[Row] = []
    module = ctx.module("walks")
    source, target = ctx.device.alloc(4 * MIB), ctx.device.alloc(4 * MIB)
    for grid, threads in ((12, 256), (64, 256), (132, 256), (264, 256), (400, 256), (400, 512), (132, 1024)):
        out = ctx.device.upload(np.zeros(4 * grid, np.uint64))
        n = grid * threads
        module.launch("steps_each", grid, threads, [out, target, source, np.float32(1.5), np.int32(n)])
        marks = out.read(np.uint64, 4 * grid).reshape(grid, 4).astype(np.int64)
        out.free()
        where = {"grid": grid, "threads": threads}
        for k, name in ((1, "parameters"), (2, "load"), (3, "end")):
            spans = marks[:, k] - marks[:, 0]
            rows.append(row("steps_each", f"cycles_to_{name}_median", float(np.median(spans)), "cycles", **where))
            rows.append(row("steps_each", f"cycles_to_{name}_most", float(spans.max()), "cycles", **where))
        if isinstance(module, ModelModule):
            rows.append(row("steps_each", "elapsed", module.cycles, "cycles", **where))
    return rows


def straight_once(ctx: Context) -> list[Row]:
    """Straight-line code of 64 to 512 KiB run once, for a profiler that empties the caches: cycles of each 16 KiB."""
    rows: list[Row] = []
    module = ctx.module("walks")
    for kib in (64, 256, 512):
        for blocks, threads in ((1, 32), (1, 256), (2, 128), (132, 128)):
            out = ctx.device.upload(np.zeros(64 * blocks * threads // 32 + 64, np.uint32))
            module.launch(f"straight_{kib}", blocks, threads, [out, np.float32(0.999), np.float32(0.001)])
            marks = (
                out.read(np.uint32, 64 * blocks * threads // 32).reshape(-1, 64)[:, : kib // 16 + 1].astype(np.int64)
            )
            out.free()
            spans = np.diff(marks, axis=1)
            for piece in range(kib // 16):
                where = {"kib": kib, "blocks": blocks, "threads": threads, "from_kib": 16 * piece}
                rows.append(row("straight", "cycles_16_kib", float(np.median(spans[:, piece])), "cycles", **where))
    return rows
