"""What a launch costs beside its work; cold loads at once and in rows; loops that lanes leave one by one; constants by SMs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bench.device import Buffer, ModelModule
from bench.micro.context import Context, Row, row
from bench.micro.paths import ALONE, unread_memory

SMS = 132
MIB = 1 << 20
BODIES = (
    *("begin_exit", "begin_nothing", "begin_store", "begin_load", "begin_copy"),
    *("begin_straight", "begin_jumps", "begin_loop", "begin_turns"),
)
PLACEMENT = Path(__file__).parent.parent / "data" / "h200" / "micro.json"


def start_once(ctx: Context) -> list[Row]:
    """Short kernels by blocks and threads, one launch each, for a profiler that empties the caches and counts cycles.

    Rows: cycles between the kernel's own readings of the clock, the most over blocks; on the model elapsed and active ones too.
    """
    rows: list[Row] = []
    module = ctx.module("start")
    data = ctx.device.alloc(64 * MIB)
    for grid, threads in ((1, 128), (4, 256), (132, 128), (132, 1024), (1056, 256), (2112, 256), (8448, 256)):
        for body in BODIES if grid <= 1056 else ("begin_exit", "begin_store", "begin_load", "begin_copy"):
            out = ctx.device.upload(np.zeros(32 * grid, np.uint64))
            n = 32 if body == "begin_turns" else 64
            n = grid * threads if body == "begin_copy" else n
            module.launch(body, grid, threads, [out, data, np.float32(0.999), np.float32(0.001), np.int32(n)])
            marks = out.read(np.uint64, 32 * grid)
            out.free()
            where = {"grid": grid, "threads": threads}
            if body == "begin_turns":
                turns = marks.reshape(grid, 32)
                for turn in (0, 1, 2, 3, 7, 15, 31):
                    rows.append(row(body, "cycles_to_turn", float(turns[:, turn].max()), "cycles", turn=turn, **where))
            elif body not in ("begin_exit", "begin_store", "begin_copy"):
                marks = marks[: 2 * grid].reshape(grid, 2)
                rows.append(row(body, "cycles_inside", float((marks[:, 1] - marks[:, 0]).max()), "cycles", **where))
            if isinstance(module, ModelModule):
                rows.append(row(body, "elapsed", module.cycles, "cycles", **where))
                rows.append(row(body, "active", module.active_cycles, "cycles", **where))
    data.free()
    return rows


def bursts(ctx: Context) -> list[Row]:
    """Cold loads of all warps at once, and rows with a barrier after each: cycles by threads and bytes."""
    rows: list[Row] = []
    size = (1024 if ctx.model else 8192) * MIB
    data = unread_memory(ctx, size)
    out = ctx.device.alloc(1 << 20)
    place = 0
    module = ctx.module("start")
    quantiles = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "most": 1.0}
    for kernel in ("burst4_1", "burst4_4", "burst8_1", "burst8_2", "burst16_1", "burst16_4"):
        width, count = (int(part) for part in kernel[5:].split("_"))
        for blocks, threads in ((1, 32), (4, 256), (132, 32), (132, 256), (132, 1024), (264, 1024)):
            found = []
            for _ in range(1 if ctx.model else 9):
                module.launch(kernel, blocks, threads, [out, data, np.uint64(place // width), np.uint32(77)])
                place = (place + 64 * MIB) % (size - 64 * MIB)
                found.append(np.quantile(out.read(np.uint32, blocks * threads // 32), list(quantiles.values())))
            values = np.median(found, axis=0)
            for name, value in zip(quantiles, values, strict=True):
                rows.append(row("burst", f"cycles_{name}", float(value), "cycles", bytes=width, count=count,
                                blocks=blocks, threads=threads))  # fmt: skip
    for blocks, threads in ((132, 128), (132, 512), (132, 1024), (264, 1024), (528, 256)):
        spans = []
        for n in (4, 20):
            least = []
            for _ in range(1 if ctx.model else 7):
                args = [out, data, np.uint64(place // 4), np.uint64(blocks * threads), np.int32(n), np.uint32(77)]
                module.launch("rows", blocks, threads, args)
                place = (place + 64 * MIB) % (size - 64 * MIB)
                marks = out.read(np.uint64, 2 * blocks).reshape(blocks, 2)
                least.append(float(np.mean(marks[:, 1] - marks[:, 0])))
            spans.append(float(np.median(least)))
        rows.append(row("rows", "cycles_per_row", (spans[1] - spans[0]) / 16, "cycles", blocks=blocks, threads=threads))
    data.free()
    out.free()
    return rows


def ends_once(ctx: Context) -> list[Row]:
    """Scattered additions and stores as a kernel's last instruction, for a profiler: by footprint and blocks."""
    rows: list[Row] = []
    module = ctx.module("start")
    sums, index = ctx.device.alloc(16 * MIB), ctx.device.alloc(64 * MIB)
    for kernel in ("end_red", "end_load_red", "end_gather_red", "end_store"):
        for kib in (64, 256, 4096):
            for grid in (528, 2112):
                module.launch(kernel, grid, 256, [sums, index, np.uint32(kib * 256 - 1)])
                if isinstance(module, ModelModule):
                    rows.append(row(kernel, "elapsed", module.cycles, "cycles", grid=grid, kib=kib))
    sums.free()
    index.free()
    return rows


def pages_once(ctx: Context) -> list[Row]:
    """First loads of pages by one SM and by all, and streams of several lengths, for a profiler that empties the caches before."""
    rows: list[Row] = []
    data, out = ctx.device.alloc(256 * MIB), ctx.device.alloc(1 << 20)
    if not ctx.model:
        data.zero()
    for blocks in (1, 132, 132):
        ctx.module("start").launch("pages", blocks, 32, [out, data, np.int32(16)])
        marks = out.read(np.uint32, 2 * blocks * 16).reshape(blocks, 16, 2)
        for page in (0, 1, 2, 3, 8, 15):
            for place, name in ((0, "first"), (1, "second")):
                value = float(marks[:, page, place].mean())
                rows.append(row("pages", f"cycles_{name}", value, "cycles", blocks=blocks, page=page))
    arrays = [ctx.device.alloc(128 * MIB) for _ in range(3)]
    stamps = ctx.device.alloc(1 << 20)
    paths = ctx.module("paths")
    for kernel in ("each_read16", "each_copy16"):
        for mib in (1, 2, 4, 8, 16, 32, 64, 96):
            n = (mib << 20) // 16
            paths.launch(kernel, n // 256, 256, [stamps, *arrays, np.uint32(n)], 1024)
            if isinstance(paths, ModelModule):
                rows.append(row(kernel, "elapsed", paths.cycles, "cycles", mib=mib))
    for buffer in (data, out, stamps, *arrays):
        buffer.free()
    return rows


def halves_once(ctx: Context) -> list[Row]:
    """Second sectors of pairs that are on their way, for a profiler that counts L2's look-ups."""
    data = ctx.device.alloc(64 * MIB)
    for blocks in (16, 264, 2048):
        for gap in (0, 300, 2000):
            ctx.module("start").launch("halves", blocks, 256, [ctx.words, data, np.int32(gap), np.uint32(77)])
    data.free()
    return []


PAIR_GAPS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 16, 64)
"""Dependent FFMAs between the loads of ``pairs_once``."""


def pairs_once(ctx: Context) -> list[Row]:
    """Sectors of a line that two warps ask for in turn, for a profiler that counts L2's look-ups; rows: cycles between the two loads."""
    rows: list[Row] = []
    data = ctx.device.alloc(64 * MIB)
    for apart in (8, 16):
        for gap in PAIR_GAPS:
            ctx.module("start").launch(f"pairs_{gap}", SMS, 64, [ctx.words, data, np.int32(apart), np.int32(64), np.float32(0.999), np.float32(0.001)])  # fmt: skip
            waits = ctx.words.read(np.uint32, 2 * SMS).reshape(SMS, 2).astype(float).mean(axis=0)
            rows.append(row("pairs", "cycles_between", float(waits[1] - waits[0]), "cycles", apart=apart, gap=gap))
    for width in (1, 2, 4):
        for threads, blocks in ((32, 132), (256, 132), (256, 2112), (256, 16384)):
            ctx.module("start").launch(f"neighbours{width}", blocks, threads, [ctx.words, data, np.uint32(300)])
    data.free()
    return rows


def small_bars(ctx: Context) -> list[Row]:
    """Barriers of as many blocks as an SM holds: cycles of the SM for each."""
    rows: list[Row] = []
    for threads in (32, 64, 128, 256, 512, 1024):
        resident = min(2048 // threads, 32)
        blocks = SMS * resident
        out = ctx.device.upload(np.zeros(2 * blocks, np.uint64))
        spans = []
        for n in (16, 48) if ctx.model else (64, 192):
            ctx.module("start").launch("small_bars", blocks, threads, [out, np.int32(n)])
            marks = out.read(np.uint64, 2 * blocks).reshape(blocks, 2).astype(np.int64)
            spans.append((n, float(np.median(marks[:, 1] - marks[:, 0]))))
        per = (spans[1][1] - spans[0][1]) / (spans[1][0] - spans[0][0]) / 16 / resident
        rows.append(row("small_bars", "cycles_per_barrier", per, "cycles", threads=threads, blocks=resident))
        out.free()
    return rows


def exits(ctx: Context) -> list[Row]:
    """A loop that lanes leave together, in two or in 32 groups: cycles in all."""
    rows: list[Row] = []
    lanes = np.arange(32)
    tables = {
        "together_64": np.full(32, 64), "together_128": np.full(32, 128), "one_late": np.where(lanes == 5, 128, 64),
        "one_early": np.where(lanes == 5, 64, 128), "halves": np.where(lanes < 16, 64, 128),
        "four": 64 + 16 * (lanes % 4), "each": 64 + 2 * lanes, "each_back": 126 - 2 * lanes, "mixed": 64 + 2 * (lanes * 13 % 32),
    }  # fmt: skip
    for kernel in ("exits", "escapes"):
        for name, turns in tables.items():
            source = ctx.device.upload(turns.astype(np.uint32))
            a = np.float32(1.0) if kernel == "escapes" else np.float32(0.999)
            for warps in (1, 4, 16):
                marks = ctx.cycles("start", kernel, warps, [source, a, np.float32(0.001)])[0].astype(np.int64)
                cycles = float(marks[:, 1].max() - marks[:, 0].min())
                rows.append(row(kernel, "cycles", cycles, "cycles", turns=name, warps=warps))
    return rows


def sm_sets(ctx: Context) -> dict[str, list[int]]:
    """SMs by name of a set: of one TPC, of one GPC, one of each."""
    if ctx.model:
        from warpwright.chips import load_chip

        counts = load_chip("h200").sm.gpc_sm_counts
        firsts = np.cumsum([0, *counts[:-1]])
        gpcs = [list(range(f, f + c)) for f, c in zip(firsts, counts, strict=True)]
    else:
        recorded = json.loads(PLACEMENT.read_text())["results"]["placement"]
        gpcs = [g for g in next(r for r in recorded if r["cluster"] == 8)["groups"] if len(g) >= 16]
    gpc = gpcs[1]
    return {
        "one": gpc[:1], "one_tpc": gpc[:2], "two_tpcs": [gpc[0], gpc[2]], "four_of_gpc": gpc[:8:2], "half_gpc": gpc[:16:2],
        "half_gpc_in_tpcs": gpc[:8], "gpc": gpc[:16], "one_a_gpc": [g[0] for g in gpcs], "two_a_gpc": [s for g in gpcs for s in g[:2]],
        "one_a_tpc": list(range(0, SMS, 2)), "four_gpcs": [s for g in gpcs[:4] for s in g], "all": list(range(SMS)),
    }  # fmt: skip


def walks(ctx: Context, start: Buffer, warps: int, sms: list[int], counts: tuple[int, int]) -> list[np.ndarray]:
    """Cycles of walks of so many steps through ``walked`` by the warps of some SMs, from each thread's ``start``: of each SM, the shortest first."""
    out = ctx.device.upload(np.zeros(2 * SMS, np.uint64))
    part = np.zeros(256, np.uint32)
    part[sms] = 1
    takes = ctx.device.upload(part)
    spans = []
    for n in counts:
        ctx.module("start").launch("walk_on", SMS, 32 * warps, [out, start, takes, np.int32(n)], ALONE)
        marks = out.read(np.uint64, 2 * SMS).reshape(SMS, 2).astype(np.int64)
        spans.append(np.sort((marks[:, 1] - marks[:, 0])[marks[:, 1] > 0]))
    out.free()
    takes.free()
    return spans


def walks_by_sm(ctx: Context) -> list[Row]:
    """Walks through constants beyond the first level (8 warps, 32 words each) by the SMs that take part: cycles a missed line and SM."""
    rows: list[Row] = []
    rng = np.random.default_rng(3)
    module = ctx.module("start")
    words = 4096
    order = rng.permutation(words)
    table = np.zeros(words, np.uint32)
    table[order] = np.roll(order, -1) * 4
    module.write_symbol("walked", table)
    for warps in (2, 8):
        start = ctx.device.upload((rng.choice(words, 32 * warps, replace=False) * 4).astype(np.uint32))
        for name, sms in sm_sets(ctx).items():
            spans = walks(ctx, start, warps, sms, (8, 24) if ctx.model else (32, 96))
            steps = 16 if ctx.model else 64
            lines = 32 * warps * 7 / 8
            for metric, value in (
                ("cycles_per_line", float(np.mean(spans[1]) - np.mean(spans[0])) / steps / lines),
                ("cycles_per_line_most", float(spans[1][-1] - spans[0][-1]) / steps / lines),
            ):
                rows.append(row("walk_on", metric, value, "cycles", set=name, sms=len(sms), warps=warps))
    return rows
