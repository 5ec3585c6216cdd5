"""A word handed from one warp to another: latency of visibility, polls, fences, locks of many blocks."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row

ROUNDS = 34
"""Rounds of a ping-pong; the clock starts at the third."""


def handoff(ctx: Context) -> list[Row]:
    """Cycles a round and polls a round of ping-pongs; cycles a turn of locks."""
    rows: list[Row] = []
    words = ctx.device.alloc(4096)
    module = ctx.module("handoff")

    def launch(kernel: str, grid: int, block: int, first: int, n: int, pause: int, sides: int) -> np.ndarray:
        for _ in range(1 if ctx.model else 2):
            words.write(np.zeros(1024, np.uint32))
            ctx.words.write(np.zeros(1024, np.uint32))
            args = [ctx.words, words, np.int32(first), np.int32(n), np.int32(pause)]
            module.launch(kernel, grid, block, args)
        return ctx.words.read(np.uint32, 4 * sides).reshape(sides, 4)

    for kernel in ("pingpong_volatile", "pingpong_acquire", "pingpong_atomic", "pingpong_fence"):
        for other in (1, 8, 132):
            for pause in (0, 200):
                found = launch(kernel, 133, 32, other, ROUNDS, pause, 2)
                where = {"same_sm": int(found[0, 2] == found[1, 2]), "other": other, "pause_ns": pause}
                rows.append(row(kernel, "cycles_per_round", found[0, 0] / (ROUNDS - 2), "cycles", **where))
                rows.append(row(kernel, "polls_per_round", found[0, 1] / (ROUNDS - 2), "polls", **where))
    found = launch("pingpong_shared", 1, 64, 0, ROUNDS, 0, 2)
    rows.append(row("pingpong_shared", "cycles_per_round", found[0, 0] / (ROUNDS - 2), "cycles"))
    rows.append(row("pingpong_shared", "polls_per_round", found[0, 1] / (ROUNDS - 2), "polls"))
    for fence in (0, 1):
        for grid in (1, 2, 4, 16, 66, 132):
            found = launch("lock_grid", grid, 32, fence, 16, 0, grid)
            turns = 16 * grid
            rows.append(
                row("lock_grid", "cycles_per_turn", found[:, 0].max() / turns, "cycles", blocks=grid, fence=fence)
            )
            rows.append(
                row("lock_grid", "polls_per_turn", found[:, 1].sum() / turns, "polls", blocks=grid, fence=fence)
            )
        for warps in (1, 2, 4, 8):
            found = launch("lock_block", 1, 32 * warps, fence, 16, 0, warps)
            turns = 16 * warps
            where = {"warps": warps, "fence": fence}
            rows.append(row("lock_block", "cycles_per_turn", found[:, 0].max() / turns, "cycles", **where))
            rows.append(row("lock_block", "polls_per_turn", found[:, 1].sum() / turns, "polls", **where))
    words.free()
    return rows
