"""How a chip spreads lines over L2's slices and first blocks over SMs; loads that many warps have on their way at once."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row

SMS = 132
MIB = 1 << 20
PAGE_BLOCKS = 512  # of 4 KiB in a page of 2 MiB
ALONE = 200_000  # bytes of shared memory that let one block live on an SM


def slices(ctx: Context) -> list[Row]:
    """Latencies of 8 MiB of lines from every SM (raw, in `.npz`): which lines share a slice, which partition they lie in."""
    rows: list[Row] = []
    base = ctx.device.alloc(8 * MIB)
    base.zero()
    for name, lines, stride in (("chunk", 16384, 128), ("line", 2048, 32)):
        out = ctx.device.upload(np.zeros(SMS * (lines + 1), np.uint32))
        for kernel in ("load_map", "atom_map"):
            args = [out, base, np.int32(lines), np.uint64(stride), np.int32(5)]
            ctx.module("spread").launch(kernel, SMS, 32, args, ALONE)
            table = out.read(np.uint32, SMS * (lines + 1)).reshape(SMS, lines + 1)
            table = table[np.argsort(table[:, 0])][:, 1:]
            ctx.arrays[f"{kernel}_{name}"] = np.minimum(table, 65535).astype(np.uint16)
        centred = table - np.median(table, axis=1, keepdims=True)
        far = centred.T @ np.sign(centred[:, 0]) > 0  # seen from the SMs that are far from the first line
        blocks = far.reshape(-1, 4096 // (4 * stride))
        rows.append(
            row("slices", "blocks_in_one_partition", float((blocks.min(1) == blocks.max(1)).mean()), "", lines=name)
        )
        number = np.arange(len(blocks))
        parity = sum((number >> bit) & 1 for bit in (0, 1, 3, 5, 7)) & 1  # above them is the page's place in memory
        same = (blocks[:, 0] == parity).reshape(-1, min(len(blocks), PAGE_BLOCKS))
        rows.append(
            row("slices", "blocks_by_parity", float(np.maximum(same.mean(1), 1 - same.mean(1)).mean()), "", lines=name)
        )
        gap = np.abs(table[:, far].mean(1) - table[:, ~far].mean(1))
        rows.append(row("slices", "atomics_further", float(np.median(gap)), "cycles", lines=name))
        out.free()
    base.free()
    return rows


def fill_once(ctx: Context) -> list[Row]:
    """Neighbouring lines written once, for a profiler that counts the slices' sectors: most, fewest and mean."""
    target = ctx.device.alloc(64 * MIB)
    for kib in (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384):
        lines = int(8 * kib)
        ctx.module("spread").launch("fill_lines", -(-lines // 32), 256, [target, np.uint32(lines)])
    target.free()
    return []


def placement_once(ctx: Context) -> list[Row]:
    """The SM of each block of grids that the chip holds (in `.npz`)."""
    rows: list[Row] = []
    out = ctx.device.upload(np.zeros(2 * 4096, np.uint64))
    for grid in (4, 8, 12, 16, 24, 40, 64, 100, 125, 133, 144, 150, 200, 256, 264, 300, 400, 528, 700, 1000):
        ctx.module("spread").launch("stay", grid, 256, [out, np.uint64(20_000)])
        where = out.read(np.uint64, 2 * grid).reshape(grid, 2)[:, 0].astype(np.int64)
        ctx.arrays[f"placement_{grid}"] = where.astype(np.uint8)
        counts = np.bincount(where, minlength=SMS)
        rows.append(row("placement", "sms", float((counts > 0).sum()), "", grid=grid, most=int(counts.max())))
    ctx.module("spread").launch("stay", (20, 20), (16, 16), [out, np.uint64(20_000)], 2048)
    ctx.arrays["placement_20_20"] = out.read(np.uint64, 800).reshape(400, 2)[:, 0].astype(np.uint8)
    out.free()
    return rows


def loaded(ctx: Context) -> list[Row]:
    """Cycles of a turn of loads, each awaited, by warps of all SMs: from DRAM and from L2; slope between two lengths."""
    rows: list[Row] = []
    size = (512 if ctx.model else 2048) * MIB
    data = ctx.device.alloc(size)
    if not ctx.model:
        data.zero()
    other = None if ctx.model else ctx.device.alloc(256 * MIB)
    out = ctx.device.upload(np.zeros(2 * SMS * 64, np.uint64))
    module = ctx.module("spread")
    for kernel in ("loaded4_1", "loaded4_4", "loaded16_1", "loaded16_4"):
        width, count = (int(part) for part in kernel[6:].split("_"))
        for source, ring in (("dram", size), ("l2", 8 * MIB)):
            for warps in (1, 4, 8, 16, 32, 64):
                blocks, threads = SMS * max(warps // 8, 1), 32 * min(warps, 8)
                turn_bytes = blocks * threads * width * count
                few, many = (4, 12) if ctx.model else (16, 48)
                if source == "l2":  # the ring is in L2 behind its first turn
                    few += ring // turn_bytes
                    many += ring // turn_bytes
                if ctx.model and many > 300:
                    continue
                spans = []
                for turns in (few, many):
                    least = np.inf
                    for _ in range(1 if ctx.model else 5):
                        if other is not None:
                            ctx.module("mixture").launch("sweep", 1056, 512, [other, np.uint64(other.nbytes >> 4)])
                        args = [out, data, np.uint32(ring // width - 1), np.int32(turns), np.uint32(77)]
                        module.launch(kernel, blocks, threads, args)
                        marks = out.read(np.uint64, 2 * SMS * warps).reshape(-1, 2).astype(np.int64)
                        least = min(least, float((marks[:, 1] - marks[:, 0]).mean()))
                    spans.append(least)
                per = (spans[1] - spans[0]) / (many - few)
                rows.append(
                    row("loaded", "cycles_a_turn", per, "cycles", source=source, bytes=width, count=count, warps=warps)
                )
                rows.append(row("loaded", "bytes_per_cycle", turn_bytes / per, "B/clk", source=source, bytes=width, count=count,
                                warps=warps))  # fmt: skip
    for buffer in (data, out):
        buffer.free()
    return rows
