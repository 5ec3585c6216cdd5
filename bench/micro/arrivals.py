"""When loads that come together from DRAM are there, and what the first steps of a launch take while everything is cold."""

from __future__ import annotations

import numpy as np

from bench.device import ModelModule
from bench.micro.context import Context, Row, row
from bench.micro.paths import unread_memory

SMS = 132
MIB = 1 << 20
GAPS = (0, 20, 40, 60, 80, 100, 120, 150, 200, 300, 500, 900)
PLACES = {"next_line": 32, "second_pair": 128, "next_unit": 64, "next_kib": 256}
"""Words between the two lines of ``row_gap``; lines 0, 1, 4 and 5 of a KiB lie on one slice."""
QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "most": 1.0}


def row_gap(ctx: Context) -> list[Row]:
    """Two lines of DRAM, the second a gap later: cycles of the second by its place, over places all over memory."""
    rows: list[Row] = []
    turns = 64 if ctx.model else 512
    data = ctx.device.alloc(turns * MIB)
    if not ctx.model:
        data.zero()
    out = ctx.device.alloc(1 << 20)
    part = 0
    for place, apart in PLACES.items():
        for gap in GAPS:
            args = [
                out,
                np.uint64(data.address + part),
                np.uint64(MIB // 4),
                np.int32(turns),
                np.uint32(apart),
                np.int32(gap),
            ]
            ctx.module("arrivals").launch("row_gap", 1, 32, args)
            part += 20 * 1024
            found = out.read(np.uint32, 4 * turns).reshape(turns, 4).astype(float)
            ctx.arrays[f"row_gap_{place}_{gap}"] = found.astype(np.uint32)
            rows.append(row("row_gap", "cycles_between", float(np.median(found[:, 0])), "cycles", place=place, gap=gap))
            for name, q in QUANTILES.items():
                rows.append(
                    row("row_gap", f"cycles_{name}", float(np.quantile(found[:, 1], q)), "cycles", place=place, gap=gap)
                )
    data.free()
    out.free()
    return rows


def lines_at_once(ctx: Context) -> list[Row]:
    """The same lines of DRAM by wide and by narrow loads, neighbouring or in rows: each warp's cycles."""
    rows: list[Row] = []
    size = (256 if ctx.model else 8192) * MIB
    data = unread_memory(ctx, size)
    out = ctx.device.alloc(1 << 20)
    module = ctx.module("arrivals")
    place = 0
    for kernel in ("lines_wide_near", "lines_narrow_near", "lines_wide_rows", "lines_narrow_rows", "lines_narrow_one"):
        for blocks, threads in (
            (1, 256),
            (132, 32),
            (132, 128),
            (132, 256),
            (132, 512),
            (132, 1024),
            (264, 1024),
            (1056, 256),
        ):
            found, again = [], []
            for _ in range(2 if ctx.model else 15):
                for kept in (found, again):
                    module.launch(kernel, blocks, threads, [out, data, np.uint64(place)])
                    kept.append(np.quantile(out.read(np.uint32, blocks * threads // 32), list(QUANTILES.values())))
                place = (place + 16 * MIB) % (size - 64 * MIB)
            for source, kept in (("dram", found), ("l2", again)):
                for name, value in zip(QUANTILES, np.median(kept, axis=0), strict=True):
                    rows.append(
                        row(
                            kernel,
                            f"cycles_{name}",
                            float(value),
                            "cycles",
                            source=source,
                            blocks=blocks,
                            threads=threads,
                        )
                    )
    data.free()
    out.free()
    return rows


def first_steps_once(ctx: Context) -> list[Row]:
    """The first steps of a launch, cycles after its start by warp, for a profiler that empties the caches before."""
    rows: list[Row] = []
    module = ctx.module("arrivals")
    arrays = [ctx.device.alloc(4 * MIB) for _ in range(3)]
    out = ctx.device.alloc(2 * MIB)
    for blocks, threads in ((1, 32), (132, 32), (132, 256), (1056, 256)):
        for shared in (0, 1024, 40 * 1024) if threads * blocks <= 132 * 256 else (0, 1024):
            for again in range(1 if ctx.model else 3):
                module.launch("first_steps", blocks, threads, [out, *arrays, np.uint32(77)], shared)
                warps = blocks * threads // 32
                found = out.read(np.uint32, 8 * warps, 8 * 4096).reshape(warps, 8).astype(float)
                ctx.arrays[f"first_steps_{blocks}_{threads}_{shared}_{again}"] = found.astype(np.uint32)
                for step in range(1, 8):
                    for name, value in (("mean", found[:, step].mean()), ("most", found[:, step].max())):
                        rows.append(row("first_steps", f"cycles_{name}", float(value), "cycles", blocks=blocks, threads=threads,
                                        shared=shared, step=step, again=again))  # fmt: skip
                if isinstance(module, ModelModule):
                    rows.append(
                        row(
                            "first_steps",
                            "elapsed",
                            module.cycles,
                            "cycles",
                            blocks=blocks,
                            threads=threads,
                            shared=shared,
                        )
                    )
                    rows.append(
                        row(
                            "first_steps",
                            "active",
                            module.active_cycles,
                            "cycles",
                            blocks=blocks,
                            threads=threads,
                            shared=shared,
                        )
                    )
    for blocks, threads in ((1, 32), (1, 256), (132, 32), (132, 256), (132, 1024)):
        for again in range(1 if ctx.model else 3):
            module.launch("first_code", blocks, threads, [out, np.float32(0.999), np.float32(0.001)])
            warps = blocks * threads // 32
            found = out.read(np.uint32, 16 * warps, 8 * 4096).reshape(warps, 16).astype(float)
            ctx.arrays[f"first_code_{blocks}_{threads}_{again}"] = found.astype(np.uint32)
            for step in (0, 1, 2, 3, 7, 15):
                for name, value in (("mean", found[:, step].mean()), ("most", found[:, step].max())):
                    rows.append(row("first_code", f"cycles_{name}", float(value), "cycles", blocks=blocks, threads=threads, step=step, again=again))  # fmt: skip
    for buffer in (*arrays, out):
        buffer.free()
    return rows
