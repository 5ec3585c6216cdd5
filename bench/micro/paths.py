"""One path of the memory system at a time: steady bandwidths, cold streams, first touches, misses in flight."""

from __future__ import annotations

import numpy as np

from bench.device import Buffer
from bench.micro.context import Context, Row, row

LINE = 128
CYCLES_PER_NS = 1.98
ALONE = 120 << 10  # bytes of shared memory that let one block of 1024 threads live on an SM


def sweep(ctx: Context, other: Buffer | None) -> None:
    """Leave nothing of what was there in L2 (the model begins every launch with empty caches)."""
    if other is not None:
        ctx.module("mixture").launch("sweep", 1056, 512, [other, np.uint64(other.nbytes >> 4)])


def sweep_twice(ctx: Context) -> None:
    """Have what was written before leave L2: else its lines go to DRAM while others are read."""
    other = ctx.device.alloc(256 << 20)
    for _ in range(2):
        sweep(ctx, other)
    other.free()


def unread_memory(ctx: Context, nbytes: int) -> Buffer:
    """Zeroed memory of which nothing is in L2."""
    data = ctx.device.alloc(nbytes)
    if not ctx.model:
        data.zero()
        sweep_twice(ctx)
    return data


def elapsed(ctx: Context, out: Buffer, blocks: int, words: int = 2) -> float:
    """Cycles from the first block's start to the last one's end, by %globaltimer."""
    stamps = out.read(np.uint64, words * blocks).reshape(blocks, words).astype(np.int64)
    return float(stamps[:, 1].max() - stamps[:, 0].min()) * CYCLES_PER_NS


PATHS: dict[str, tuple[str, bool, bool]] = {
    # kernel, source streams from DRAM, target streams to DRAM
    "read_l2": ("read", False, False),
    "read_dram": ("read", True, False),
    "write_l2": ("write", False, False),
    "write_dram": ("write", False, True),
    "copy_l2_l2": ("copy", False, False),
    "copy_dram_l2": ("copy", True, False),
    "copy_l2_dram": ("copy", False, True),
    "copy_dram_dram": ("copy", True, True),
}


def paths(ctx: Context) -> list[Row]:
    """Bytes of one array a cycle over the chip on each path: slope between two lengths; by SMs and element size."""
    rows: list[Row] = []
    big = (256 if ctx.model else 1024) << 20
    source, target = ctx.device.alloc(big), ctx.device.alloc(big)
    other = None if ctx.model else ctx.device.alloc(256 << 20)
    out = ctx.device.upload(np.zeros(4096, np.uint64))
    for name, (kernel, source_streams, target_streams) in PATHS.items():
        for sms in (1, 2, 8, 16, 33, 66, 132):
            for size in (16, 4):
                if size == 4 and sms not in (1, 132):
                    continue
                # Dirty lines leave L2 only when it is full of them: such paths begin beyond its size.
                low = 96 << 20 if target_streams else (16 << 20 if sms > 8 else 2 << 20)
                step = (64 << 20) if sms > 8 and target_streams else (32 << 20) if sms > 8 else (4 << 20)
                if ctx.model and target_streams and sms not in (8, 132):
                    continue
                spans = []
                for nbytes in (low, low + step):
                    near = (8 << 20) if sms > 8 else (1 << 20)  # a ring that stays in L2, larger than the SMs' L1s
                    masks = [np.uint32((big if far else near) // size - 1) for far in (source_streams, target_streams)]
                    best = np.inf
                    for _ in range(1 if ctx.model else 3):
                        sweep(ctx, other)
                        args = [out, source, target, *masks, np.uint32(nbytes // size)]
                        ctx.module("paths").launch(f"{kernel}{size}", sms, 1024, args, ALONE)
                        best = min(best, elapsed(ctx, out, sms))
                    spans.append(best)
                rate = step / (spans[1] - spans[0])
                rows.append(row(name, "bytes_per_cycle", rate, "B/clk", sms=sms, size=size))
    for buffer in (source, target, out):
        buffer.free()
    return rows


def cold(ctx: Context) -> list[Row]:
    """One element a thread on cold arrays: cycles of the whole, and of each block's first load over time."""
    rows: list[Row] = []
    most = 32 << 20
    arrays = [ctx.device.alloc(most) for _ in range(3)]
    other = None if ctx.model else ctx.device.alloc(256 << 20)
    for kernel, size in (("read", 16), ("read", 4), ("copy", 16), ("copy", 4), ("sum", 16), ("sum", 4)):
        for mib in (1, 4, 16, 32):
            n = (mib << 20) // size
            blocks = -(-n // 256)
            out = ctx.device.upload(np.zeros(4 * blocks, np.uint64))
            spans = []
            for _ in range(1 if ctx.model else 3):
                sweep(ctx, other)
                ctx.module("paths").launch(f"each_{kernel}{size}", blocks, 256, [out, *arrays, np.uint32(n)], 1024)
                spans.append(elapsed(ctx, out, blocks, 4))
            rows.append(row(f"each_{kernel}{size}", "cycles", min(spans), "cycles", mib=mib))
            stamps = out.read(np.uint64, 4 * blocks).reshape(blocks, 4).astype(np.int64)
            order = np.argsort(stamps[:, 0], kind="stable")
            first = stamps[order, 2]
            for part, chosen in (
                ("first_wave", first[: min(264, blocks)]),
                ("middle", first[blocks // 3 : blocks * 2 // 3]),
            ):
                for p in (10, 50, 90):
                    rows.append(row(f"each_{kernel}{size}", f"first_load_p{p}", float(np.percentile(chosen, p)),
                                    "cycles", mib=mib, part=part))  # fmt: skip
            ctx.arrays[f"cold_{kernel}{size}_{mib}"] = stamps
            out.free()
    for buffer in arrays:
        buffer.free()
    return rows


def touch(ctx: Context) -> list[Row]:
    """First load of a page, then another line of each page, all from DRAM; one SM, then all at once."""
    rows: list[Row] = []
    count = 24
    for mib, blocks in ((2, 1), (2, 132), (0.0625, 1), (0.0625, 132), (32, 1)):
        first = int(mib * 2**20)
        # Fresh memory: pages that nobody has used since they were mapped.
        fresh = ctx.device.alloc((count + 1) * max(first, 1 << 21))
        out = ctx.device.upload(np.zeros(2 * count * blocks, np.uint32))
        args = [out, fresh, np.uint64(first + LINE), np.uint64(8192), np.int32(count), np.uint64(0)]
        ctx.module("paths").launch("first_touch", blocks, 32, args, 1024)
        steps = out.read(np.uint32, 2 * count * blocks).reshape(blocks, 2, count)
        for index, label in ((0, "first"), (1, "again")):
            for p in (10, 50, 90):
                value = float(np.percentile(steps[:, index, 1:], p))
                rows.append(row("touch", f"{label}_p{p}", value, "cycles", page_mib=mib, blocks=blocks))
        rows.append(row("touch", "very_first", float(np.median(steps[:, 0, 0])), "cycles", page_mib=mib, blocks=blocks))
        ctx.arrays[f"touch_{mib}_{blocks}"] = steps
        out.free()
        fresh.free()
    return rows


def touch_after(ctx: Context) -> list[Row]:
    """Pages that one SM has touched, touched by all others 100 microseconds later: cycles by SM, in 32 MiB steps."""
    rows: list[Row] = []
    count = 8
    for mib in (2, 32, 64):
        fresh = ctx.device.alloc((count + 1) * (mib << 20))
        out = ctx.device.upload(np.zeros(132 * (count + 1), np.uint32))
        args = [out, fresh, np.uint64((mib << 20) + 128 * 128), np.int32(count), np.uint64(100_000), np.uint64(0)]
        ctx.module("paths").launch("touch_after", 132, 32, args, 120 << 10)
        table = out.read(np.uint32, 132 * (count + 1)).reshape(132, count + 1)
        ctx.arrays[f"touch_after_{mib}"] = table
        rows.append(row("touch_after", "first", float(np.median(table[0, 1:])), "cycles", page_mib=mib))
        rows.append(row("touch_after", "others", float(np.median(table[1:, 1:])), "cycles", page_mib=mib))
        out.free()
        fresh.free()
    return rows


def flight(ctx: Context) -> list[Row]:
    """One SM: cycles a load and lines in flight, by warps and loads that a warp has in flight, from L2 and DRAM."""
    rows: list[Row] = []
    base = ctx.device.alloc(256 << 20)
    other = None if ctx.model else ctx.device.alloc(256 << 20)
    for lane_step, lines in ((4, 1), (16, 4), (128, 32)):
        for loads in (1, 2, 4, 8, 16):
            for warps in (1, 4, 16, 32):
                round_step = loads * 4096
                spans = []
                for rounds in (2, 6):
                    # A warp's lines: `loads` x 4 KiB a round, rounds one after the other, all cold.
                    sweep(ctx, other)
                    args = [
                        base,
                        np.uint64(8 * round_step),
                        np.uint64(round_step),
                        np.int32(lane_step),
                        np.int32(rounds),
                    ]
                    spans.append(ctx.span("paths", f"flight_{loads}", warps, args, 8192))
                per = (spans[1] - spans[0]) / 4
                rows.append(row("flight", "cycles_a_round", per, "cycles", lines=lines, loads=loads, warps=warps))
    base.free()
    return rows


def sets(ctx: Context) -> list[Row]:
    """L1's sets: a chase over `count` lines `stride` bytes apart; about 32 cycles when all stay in L1."""
    from bench.micro.memory import host_ring

    rows: list[Row] = []
    module = ctx.module("memory")
    if hasattr(module, "carveout"):
        module.carveout("chase_ca", 0)
    for stride in (128, 256, 512, 1024, 2048, 4096, 16384, 65536):
        for count in (64, 256, 512, 1024):
            if count * stride > 32 << 20:
                continue
            buffer, start = host_ring(ctx, count, stride)
            span = ctx.span("memory", "chase_ca", 1, (np.uint64(start), np.int32(4 * count), np.int32(1024)), threads=1)
            rows.append(row("l1_sets", "cycles_per_load", span / 1024, "cycles", stride=stride, count=count))
            buffer.free()
    return rows


CARVEOUTS_KIB = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)


def capacity(ctx: Context) -> list[Row]:
    """What L1 holds at each carve-out of shared memory: a chase over so many KiB in a random order, and over 16 sectors of other lines."""
    from bench.micro.memory import host_ring

    rows: list[Row] = []
    module = ctx.module("memory")
    asked: list[tuple[int | None, int]] = [(None, shared) for shared in (0, 1024, 7168, 16384, 49152)]
    if hasattr(module, "carveout"):
        asked = [(-(-100 * kib // CARVEOUTS_KIB[-1]), 0) for kib in CARVEOUTS_KIB] + asked
    for percent, shared in asked:
        if hasattr(module, "carveout"):
            module.carveout("chase_ca", -1 if percent is None else percent)
        for kib in (*range(4, 64, 4), *range(64, 256, 8)):
            count = kib * 8
            buffer, start = host_ring(ctx, count, LINE)
            steps = max(256, 2 * count)
            args = (np.uint64(start), np.int32(2 * count), np.int32(steps))
            span = ctx.span("memory", "chase_ca", 1, args, shared_bytes=shared, threads=1)
            where = {"kib": kib, "carveout_percent": percent, "shared": shared}
            rows.append(row("l1_capacity", "cycles_per_load", span / steps, "cycles", **where))
            buffer.free()
    return rows


def banks(ctx: Context) -> list[Row]:
    """L1 hits whose lanes lie in several lines but in different banks: lines or banks, which of them costs a pass."""
    lanes = np.arange(32)
    rows: list[Row] = []
    base = ctx.device.alloc(1 << 20)
    found = {f"diagonal{k}": (lanes % k) * LINE + lanes * 4 for k in (2, 4, 8, 16, 32)}
    found |= {f"blocks{k}": (lanes // (32 // k)) * LINE + lanes * 4 for k in (2, 4, 8, 16, 32)}
    found |= {f"bank_pairs{k}": (lanes % k) * LINE + (lanes // 2) * 4 for k in (2, 4)}
    found |= {f"diagonal8_step{k}": (lanes % 8) * k * LINE + lanes * 4 for k in (2, 3, 4, 8)}
    found |= {f"diagonal4_step{k}": (lanes % 4) * k * LINE + lanes * 4 for k in (2, 3, 4, 8)}
    found["offset4"] = lanes * 4 + 4
    found["random"] = np.random.default_rng(1).integers(0, 1024, 32) * 4
    for name, offsets in found.items():
        buffer = ctx.device.upload(np.append(offsets, 0).astype(np.uint32))
        for kernel in ("ldg32_ca", "stg32"):
            per = ctx.slope("memory", kernel, 16, (base, buffer, np.uint32(0)), 8, 24, 4096)
            rows.append(row(kernel, "cycles_per_access_per_sm", per / (8 * 16), "cycles", pattern=name))
        ctx.module("memory").launch(
            "self_point", 1, 32, [base, ctx.device.upload((offsets // 8 * 8).astype(np.uint32))]
        )
        buffer.free()
    base.free()
    return rows
