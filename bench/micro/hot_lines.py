"""Lines that all warps read and write at once: by how many lines, lanes and warps there are, and how often and with what they write."""

from __future__ import annotations

from itertools import product

import numpy as np

from bench.micro.context import Context, Row, row
from bench.micro.rivals import sides_of

KINDS = ("strong_volatile", "weak_weak", "strong_add", "strong_swap", "weak_swap")
MIB = 1 << 20
SMS = 132


def cases(model: bool) -> list[tuple[str, int, int, int, int, int]]:
    """Kernel, warps of each SM, lanes, lines, writes of 256 rounds, rest between rounds."""
    found = [
        (kind, warps, lanes, lines, writing, 0)
        for kind, (warps, lanes), lines, writing in product(
            KINDS[:2], ((1, 1), (8, 1), (8, 32)), (1, 4, 32, 512), (0, 8, 64)
        )
    ]
    found += [(kind, 8, 1, lines, writing, 0) for kind in KINDS[2:] for lines in (1, 32) for writing in (8, 64)]
    found += [(kind, 24, 32, lines, writing, 0) for kind in KINDS[:2] for lines in (4, 512) for writing in (8, 64)]
    found += [(KINDS[0], 8, 1, lines, 64, rest) for lines in (1, 4) for rest in (2000, 8000)]
    return [c for c in found if not model or (c[1] <= 8 and c[2] == 1)]


def hot_lines(ctx: Context) -> list[Row]:
    """Cycles of a round of a load, of which some are followed by a write, and writes a cycle over the chip."""
    rows: list[Row] = []
    base = ctx.device.alloc(2 * MIB)
    module = ctx.module("hot_lines")
    span = 30_000 if ctx.model else 100_000
    for kind, warps, lanes, lines, writing, rest in cases(ctx.model):
        base.zero()
        args = [np.uint32(v) for v in (lanes, lines, writing, rest, span)]
        module.launch(f"hot_{kind}", SMS, 32 * warps, [ctx.words, base, *args])
        found = ctx.words.read(np.uint32, 4 * SMS * warps).reshape(-1, 4).astype(float)
        where = {"warps": warps, "lanes": lanes, "lines": lines, "writing": writing, "rest": rest}
        where["writes_per_cycle"] = round(float((found[:, 2] / found[:, 0]).sum()), 4)
        where["rounds_per_cycle"] = round(float((found[:, 1] / found[:, 0]).sum()), 4)
        rows.append(row(kind, "cycles_per_round", found[:, 0].sum() / found[:, 1].sum(), "cycles", **where))
    base.free()
    return rows


ONCE = [
    (kind, warps, lanes, lines, writing)
    for kind in KINDS[:2]
    for warps, lanes in ((8, 1), (8, 32))
    for lines in (1, 4, 32)
    for writing in (8, 64)
]
"""Cases of ``hot_lines_once``: kernel, warps of each SM, lanes, lines, writes of 256 rounds."""


def hot_lines_once(ctx: Context) -> list[Row]:
    """The loads and stores of ``ONCE``, one launch each, for a profiler that counts what L1 has and what L2 is asked for."""
    base = ctx.device.alloc(2 * MIB)
    for kind, warps, lanes, lines, writing in ONCE:
        base.zero()
        args = [ctx.words, base, *(np.uint32(v) for v in (lanes, lines, writing, 0, 100_000))]
        ctx.module("hot_lines").launch(f"hot_{kind}", SMS, 32 * warps, args)
    base.free()
    return []


def hot_sides(ctx: Context) -> list[Row]:
    """Loads and stores a cycle of each side's SMs to one line and four, by which sides load and store, and how often."""
    rows: list[Row] = []
    base = ctx.device.alloc(2 * MIB)
    table = ctx.device.upload(sides_of(ctx, base))
    span, warps = 100_000, 8
    for lines, loading, storing, writing in product((1, 4), (1, 2, 3), (0, 1, 2, 3), (8, 64)):
        base.zero()
        args = [ctx.words, base, table, *(np.uint32(v) for v in (loading, storing, lines, writing, span))]
        ctx.module("hot_lines").launch("hot_sides", SMS, 32 * warps, args)
        found = ctx.words.read(np.uint32, 4 * SMS * warps).reshape(-1, 4).astype(float)
        for side, name in enumerate(("near", "far")):
            mine = found[(found[:, 3] == side) & (found[:, 0] > 0)]
            where = {"side": name, "lines": lines, "loading": loading, "storing": storing, "writing": writing}
            where["stores_per_cycle"] = round(float(mine[:, 2].sum() / span), 4)
            rows.append(row("hot_sides", "loads_per_cycle", float(mine[:, 1].sum() / span), "loads", **where))
    base.free()
    return rows
