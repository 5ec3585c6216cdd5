"""Additions to shared memory that spin, and loops of compare-and-swaps whose lanes leave one by one."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row


def additions(ctx: Context) -> list[Row]:
    """Cycles of a turn in which so many lanes of each warp add to the warp's word of shared memory."""
    rows: list[Row] = []
    for kernel in ("add_float", "add_double"):
        for lanes in (1, 2, 4, 8, 16, 32):
            for warps in (1, 4, 8, 16):
                spans = [
                    ctx.span("spins", kernel, warps, (np.uint32(lanes), np.int32(turns)), 4096) for turns in (4, 12)
                ]
                each = (spans[1] - spans[0]) / 8
                rows.append(row(kernel, "cycles_per_turn", each, "cycles", lanes=lanes, warps=warps))
    return rows


def cas_once(ctx: Context) -> list[Row]:
    """One warp and twelve blocks of two: launches whose executed instructions a profiler counts."""
    rows: list[Row] = []
    words = ctx.device.alloc(1 << 16)
    out = ctx.device.alloc(4096)
    module = ctx.module("spins")

    def keep(kernel: str, **where: object) -> None:
        if module.instructions is not None:
            rows.append(row(kernel, "smsp__inst_executed.sum", module.instructions, "instructions", **where))

    for blocks, threads in ((1, 32), (12, 64)):
        for cells in (1, 4, 8, 32):
            for second in (0, 1):
                words.zero()
                module.launch("cas_once", blocks, threads, [words, np.uint32(cells), np.int32(second)])
                keep("cas_once", blocks=blocks, cells=cells, second=second)
            words.zero()
            module.launch("cas_join_once", blocks, threads, [words, np.uint32(cells), out])
            keep("cas_join_once", blocks=blocks, cells=cells)
    words.free()
    out.free()
    return rows
