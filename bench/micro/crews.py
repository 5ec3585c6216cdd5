"""Several warps or lanes at one unit of an SM: fences, bulk copies, warp reductions, and tries of additions to shared memory."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row


def fence_crews(ctx: Context) -> list[Row]:
    """A round of a barrier and a fence for the device by so many warps, by what they store before it."""
    rows: list[Row] = []
    for kernel in ("fence_none", "fence_idle", "fence_shared", "fence_one", "fence_each"):
        for warps in (1, 2, 4, 8, 12, 16, 20, 24, 28, 32):
            each = ctx.slope("crews", kernel, warps, [ctx.words_beside], 8, 40)
            rows.append(row(kernel, "cycles_each", each, "cycles", warps=warps))
    return rows


def bulk_crews(ctx: Context) -> list[Row]:
    """Bulk loads of several warps and lanes from L2 at once: from the first issue to the end of the wait."""
    rows: list[Row] = []
    for warps, lanes in ((1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (32, 1), (1, 2), (1, 8), (1, 16), (1, 32), (4, 8)):
        for size in (16, 128, 256, 1024):
            for count in (1, 4, 16):
                if warps * lanes * size * count > 65536:
                    continue
                args = [ctx.words_beside, *(np.uint32(v) for v in (lanes, size, count))]
                tries = 1 if ctx.model else 3
                cycles = min(ctx.span("crews", "bulk_crew", warps, args, 65536) for _ in range(tries))
                rows.append(
                    row("bulk_crew", "cycles", cycles, "cycles", warps=warps, lanes=lanes, bytes=size, count=count)
                )
    return rows


def redux(ctx: Context) -> list[Row]:
    """REDUX and the sum behind it: one in a chain, and four apart, by so many warps of the SM."""
    rows: list[Row] = []
    for operation in ("add", "min", "xor"):
        for form in ("_chain", ""):
            for warps in (1, 4, 8, 16, 32):
                each = ctx.slope("crews", f"redux_{operation}{form}", warps, [], 8, 40) / 4
                rows.append(row(f"redux_{operation}{form}", "cycles_each", each, "cycles", warps=warps))
    return rows


def try_plans() -> dict[str, np.ndarray]:
    """Words of the 32 lanes (4096: none)."""
    lanes = np.arange(32)
    plans = {
        "apart": lanes,
        "word": lanes * 0,
        "bank": lanes * 32,
        "bank_pair": lanes % 2 * 32,
        "half_bank": lanes * 16,
    }
    for many in (2, 4, 8, 16):
        plans[f"{many}_banks_apart"] = lanes * many
        plans[f"{many}_words"] = lanes % many
        plans[f"{many}_on_word"] = np.where(lanes < many, 0, 4096)
        plans[f"{many}_on_bank"] = np.where(lanes < many, lanes * 32, 4096)
        plans[f"{many}_on_bank_far"] = np.where(lanes % (32 // many) == 0, lanes * 32, 4096)
    for seed in range(6):
        plans[f"groups_{seed}"] = np.random.default_rng(seed).integers(0, 6, 32) * 4
        plans[f"random_{seed}"] = np.random.default_rng(seed + 10).permutation(256)[:32]
    return plans


def tries(ctx: Context) -> list[Row]:
    """A warp's additions to shared memory by the places of its lanes; each try takes as long as the next."""
    rows: list[Row] = []
    for name, plan in try_plans().items():
        table = ctx.device.upload(plan.astype(np.uint32))
        for kernel in ("tries_float", "tries_double", "tries_wide"):
            for warps in (1, 4):
                each = ctx.slope("crews", kernel, warps, [table], 4, 12)
                rows.append(row(kernel, "cycles_each", each, "cycles", places=name, warps=warps))
        table.free()
    return rows
