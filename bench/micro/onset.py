"""How a burst of loads sets in: by the side of L2 on which the lines are at home, and by whether their pages were touched before."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row
from bench.micro.paths import sweep, unread_memory

SMS = 132
MIB = 1 << 20
PAGE = 2 * MIB
PAGES = 8
ALONE = 120 << 10  # bytes of shared memory that let one block live on an SM
MODES = ("near", "far", "either")
TOUCHED = ("unseen", "swept", "by_one", "by_all", "loaded")
"""What was done with the pages, or with the lines that are near, before: ``swept``: 128 other pages since."""
QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "most": 1.0}


def sides_of(latencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From each SM's latency to a line of each page, shape (SMs, pages): the SMs that are far from the first page's, and the pages that are the other way
    round than the first."""
    centred = latencies - np.median(latencies, axis=0)
    alike = np.where(np.sign(centred[:, 0]) @ centred < 0, -1.0, 1.0)
    return (centred @ alike > 0).astype(np.uint32), (alike < 0).astype(np.uint32)


class Sides:
    """Which SMs and pages of a buffer lie on which side of L2, as the kernels want to know it."""

    def __init__(self, ctx: Context, at: int, pages: int) -> None:
        out = ctx.device.upload(np.zeros(SMS * pages, np.uint32))
        ctx.module("onset").launch("onset_sides", SMS, 32, [out, np.uint64(at), np.int32(pages)], ALONE)
        far, flips = sides_of(out.read(np.uint32, SMS * pages).reshape(SMS, pages).astype(float))
        number = np.where(far, np.cumsum(far), np.cumsum(1 - far)).astype(np.uint32) - 1
        self.buffers = [ctx.device.upload(number | far << 16), out]
        mask = np.uint32(sum(int(flip) << page for page, flip in enumerate(flips)))
        self.arguments = [self.buffers[0], mask, np.uint32(int((1 - far).sum()) | int(far.sum()) << 16)]

    def free(self) -> None:
        for buffer in self.buffers:
            buffer.free()


def onset(ctx: Context) -> list[Row]:
    """Four loads of 16 bytes by each of 8 to 32 warps an SM at one moment: cycles until the first, second, ... are there."""
    rows: list[Row] = []
    size = (512 if ctx.model else 8192) * MIB
    data = unread_memory(ctx, size)
    other = None if ctx.model else ctx.device.alloc(256 * MIB)
    module = ctx.module("onset")
    out = ctx.device.upload(np.zeros(SMS * 32 * 4, np.uint32))
    place = 0
    for warps in (8, 32):
        for mode, name in enumerate(MODES):
            for touched in TOUCHED:
                if touched == "unseen" and name != "either":
                    continue
                touch = {"by_one": 1, "by_all": 2}.get(touched, 0)
                found = []
                for _ in range(2 if ctx.model else 9):
                    at = np.uint64(data.address + place)
                    place = (place + PAGES * PAGE) % (size - PAGES * PAGE)
                    sides = Sides(ctx, data.address + place, PAGES)
                    if touched == "unseen":
                        at = np.uint64(data.address + (place + size // 2) % (size - PAGES * PAGE))
                    sweep(ctx, other)
                    args = [out, at, *sides.arguments, np.int32(mode), np.int32(touch), np.int32(touched == "loaded")]
                    module.launch("onset", SMS, 32 * warps, [*args, np.int32(PAGES), np.uint32(0)], ALONE)
                    times = out.read(np.uint32, SMS * warps * 4).reshape(-1, 4)
                    found.append(np.quantile(times, list(QUANTILES.values()), axis=0))
                    sides.free()
                values = np.median(found, axis=0)
                what = {"lines": name, "warps": warps, "touched": touched}
                for q, quantile in enumerate(QUANTILES):
                    for k in (0, 3):
                        rows.append(
                            row("onset", f"cycles_{quantile}", float(values[q, k]), "cycles", loads=k + 1, **what)
                        )
    for buffer in (data, out, other):
        if buffer is not None:
            buffer.free()
    return rows


KINDS = {
    "STORE_LINES": 16, "STORE_HALVES": 16, "STORE_WORDS": 4, "ADD_WORDS": 4, "ADD_LINES": 16, "LOAD_LINES": 16, "LOAD_WORDS": 4,
}  # fmt: skip
"""Sectors of a turn of a warp."""


def crossing(ctx: Context) -> list[Row]:
    """Sectors a cycle over the chip of stores, additions and loads to lines that are near, far or either; of one slice a side; slope between two lengths."""
    rows: list[Row] = []
    pages = 12
    data = ctx.device.alloc(pages * PAGE)
    if not ctx.model:
        data.zero()
    other = None if ctx.model else ctx.device.alloc(256 * MIB)
    out = ctx.device.upload(np.zeros(2 * SMS, np.uint64))
    sides = Sides(ctx, data.address, pages)
    warps = 32
    for kind, sectors in KINDS.items():
        loads = kind.startswith("LOAD")
        for mode, name in enumerate(MODES):
            for source, one in (("l2", 0), ("dram", 0)) if loads else (("l2", 0), ("l2", 1)):
                if one and name == "either":
                    continue
                spans = []
                for turns in (3, 9):
                    taken = []
                    for _ in range(1 if ctx.model else 7):
                        sweep(ctx, other)
                        numbers = [np.int32(v) for v in (mode, turns, loads and source == "l2", one)]
                        args = [out, data, *sides.arguments, *numbers, np.uint32(0)]
                        ctx.module("onset").launch(f"crossing_{kind}", SMS, 32 * warps, args, ALONE)
                        marks = out.read(np.uint64, 2 * SMS).reshape(SMS, 2).astype(np.int64)
                        taken.append(float(np.mean(marks[:, 1] - marks[:, 0])))
                    spans.append(float(np.median(taken)))
                rate = 6 * SMS * warps * sectors / (spans[1] - spans[0])
                where = {"lines": name, "source": source, "slices": "one" if one else "all"}
                rows.append(row(f"crossing_{kind.lower()}", "sectors_per_cycle", rate, "sectors/clk", **where))
    sides.free()
    for buffer in (data, out, other):
        if buffer is not None:
            buffer.free()
    return rows
