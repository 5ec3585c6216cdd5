"""Strong accesses in a row, words that a crowd polls, stores that meet on few sectors, strong loads at random."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row

KINDS = (
    *("ld_weak", "ld_cg", "ld_volatile", "ld_relaxed", "ld_acquire", "atom_add", "atom_cas", "atom_acquire"),
    *("red_add", "st_weak", "st_volatile", "st_release", "st_fence"),
)
SMS = 132
KIB, MIB = 1 << 10, 1 << 20
ROUNDS = 18
"""Of a hand-over; the clock starts at the third."""


def strong(ctx: Context) -> list[Row]:
    """Cycles of a round of 1, 2, 4, 8 accesses that do not wait for each other, by kind, lanes' places and warps of one SM."""
    rows: list[Row] = []
    base = ctx.device.alloc(4 * MIB)
    base.zero()
    places = {"word": 0, "line": 4} if ctx.model else {"word": 0, "line": 4, "lines": 128}
    for kind in KINDS:
        for place, lane_step in places.items():
            for count in (1, 2, 4, 8):
                for warps in (1,) if ctx.model else (1, 4, 16):
                    args = [base, np.uint32(lane_step), np.uint32(64 * KIB), np.uint32(4 * KIB), np.uint32(0)]
                    cycles = ctx.slope("strong", f"{kind}_{count}", warps, args, 4, 20)
                    rows.append(row(kind, "cycles_per_round", cycles, "cycles", place=place, count=count, warps=warps))
    base.free()
    return rows


def crowd(ctx: Context) -> list[Row]:
    """Cycles of a hand-over between two blocks, and of a look, while other warps poll words of the same line, of its neighbour or elsewhere."""
    rows: list[Row] = []
    memory = ctx.device.alloc(MIB)
    module = ctx.module("strong")
    near = np.random.default_rng(1).integers(0, 600, 32)
    offsets = {
        "one": (np.zeros(32), 1),
        "line": (np.arange(32) + (np.arange(32) % 8 == 0), 32),
        "near": (near + (near % 8 == 0), 20),
        "lines": (np.arange(32) * 32, 32),
    }
    """Words that a warp polls, in words, none of them one that is handed over; lanes that do."""
    crowds = ((0, 0), (130, 1), (130, 8)) if ctx.model else ((0, 0), (16, 1), (130, 1), (130, 8), (130, 32), (260, 32))
    for pattern in ("one", "near") if ctx.model else offsets:
        table = ctx.device.upload((offsets[pattern][0] * 4).astype(np.uint32))
        for blocks, warps in crowds:
            for place, at in (("line", 32), ("next_line", 160), ("apart", 256 * KIB + 32)):
                for fence, kind in (
                    ((0, 0), (1, 0)) if ctx.model or (blocks, warps) != (130, 8) else ((0, 0), (1, 0), (0, 1), (0, 2))
                ):
                    found = []
                    for _ in range(1 if ctx.model else 3):
                        memory.zero()
                        args = [
                            ctx.words,
                            memory,
                            np.uint32(at),
                            table,
                            np.uint32(offsets[pattern][1]),
                            np.int32(ROUNDS),
                        ]
                        module.launch("crowd", 2 + blocks, max(warps, 1) * 32, [*args, np.int32(fence), np.int32(kind)])
                        found.append(ctx.words.read(np.uint32, 8 + 4 * max(blocks * warps, 1)))
                    words = sorted(found, key=lambda w: int(w[0]))[len(found) // 2]
                    where = {
                        "pattern": pattern,
                        "place": place,
                        "blocks": blocks,
                        "warps": warps,
                        "fence": fence,
                        "kind": kind,
                    }
                    polls = round(float(words[1]) / (ROUNDS - 2), 2)
                    rows.append(
                        row("crowd", "cycles_per_round", words[0] / (ROUNDS - 2), "cycles", polls=polls, **where)
                    )
                    if blocks:
                        each = words[8:].reshape(-1, 4).astype(float)
                        rows.append(
                            row("crowd", "cycles_per_look", each[:, 0].sum() / each[:, 1].sum(), "cycles", **where)
                        )
        table.free()
    memory.free()
    return rows


def meetings(ctx: Context) -> list[Row]:
    """Cycles over the chip of a warp's store (or addition) of a word in each of 32 lines, by how many lines and sectors all warps share."""
    rows: list[Row] = []
    base = ctx.device.alloc(4 * MIB)
    base.zero()
    module = ctx.module("strong")
    shapes = [
        (lines, sectors, own)
        for lines in (32, 64, 128, 512, 2048, 8192)
        for sectors, own in ((1, 0), (2, 0), (4, 0), (4, 1))
    ]
    for width in (4, 5) if ctx.model else (4, 5, 16, 32):
        for lines, sectors, own in (
            shapes if not ctx.model else [x for x in shapes if x[0] in (32, 512, 8192) and x[2] == 0 and x[1] != 2]
        ):
            for sms in (SMS,):
                least = []
                for n in (1, 3) if ctx.model else (4, 20):
                    spans = []
                    for _ in range(1 if ctx.model else 3):
                        args = [ctx.words, base, *(np.uint32(v) for v in (lines, sectors, own, width)), np.int32(n)]
                        spans.append(module.launch("store_lines", sms, 256, args))
                    least.append(min(spans))
                cycles = (least[1] - least[0]) * 1.98e9 / ((2 if ctx.model else 16) * 8 * 8 * sms)
                where = {"width": width, "lines": lines, "sectors": sectors, "own": own}
                rows.append(row("store_lines", "chip_cycles_per_warp_store", cycles, "cycles", **where))
    base.free()
    return rows


def gathers(ctx: Context) -> list[Row]:
    """Cycles of a warp's four loads of 32 random sectors each, awaited: strong and weak, by footprint, warps and SMs."""
    rows: list[Row] = []
    base = ctx.device.alloc(4 * MIB)
    base.zero()
    for kernel in ("gather_weak", "gather_volatile", "gather_cg"):
        for kib in (64, 512, 4096):
            for blocks, warps in ((1, 1), (1, 8), (1, 32), (132, 8), (132, 32)):
                if ctx.model and blocks > 1 and warps > 8:
                    continue
                spans = []
                for n in (2, 6) if ctx.model else (4, 20):
                    found = []
                    for _ in range(1 if ctx.model else 3):
                        args = [base, np.uint32(kib * 32 - 1), np.int32(n)]
                        marks = ctx.cycles("strong", kernel, warps, args, 0, blocks)
                        found.append(float(np.median((marks[:, :, 1] - marks[:, :, 0]).max(axis=1))))
                    spans.append(min(found))
                cycles = (spans[1] - spans[0]) / (4 if ctx.model else 16)
                rows.append(row(kernel, "cycles_per_round", cycles, "cycles", kib=kib, blocks=blocks, warps=warps))
    base.free()
    return rows
