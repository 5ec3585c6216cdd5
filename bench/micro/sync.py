"""Block barriers of many blocks an SM, chains of arithmetic by several warps a sub-core, chains of atomics, blocks that wait for a word, grid barriers."""

from __future__ import annotations

import numpy as np

from bench.device import Buffer
from bench.micro.compute import STEPS, kernels_of, operands
from bench.micro.context import Context, Row, row
from bench.micro.rivals import sides_of

SMS = 132
MIB = 1 << 20
BAR_KERNELS = ("bars_0", "bars_1", "bars_4", "bars_16", "bars_64", "bars_shared", "bars_count")
CHAINS = (
    *("chain_load", "chain_add", "chain_add_value", "chain_exch", "chain_exch_value", "chain_cas", "chain_cas_value"),
    *("chain_inc", "chain_max", "chain_f32", "chain_red_load", "chain_store_load", "chain_exch_add", "chain_loop"),
    *("chain_load_gpu", "chain_red_load_gpu"),
)
BETWEEN_KERNELS = ("bars_store", "bars_load", "bars_shuffle", "bars_special", "bars_two", "bars_load_unused")
AMONG_KERNELS = tuple(f"bars_among_{at}" for at in ("1_0", "2_0", "4_0", "8_0", "0_2", "0_4", "1_1", "3_1"))
SCOPES = (
    *("scope_weak", "scope_weak_ca", "scope_weak_cg", "scope_weak_cv", "scope_relaxed_cta", "scope_acquire_cta"),
    *("scope_relaxed_gpu", "scope_acquire_gpu", "scope_relaxed_sys", "scope_acquire_sys", "scope_volatile"),
    *("scope_add_cta", "scope_store_load_cta", "scope_relaxed_cluster"),
)
GRIDS = ((1, 32), (1, 256), (1, 1024), (2, 32), (2, 512), (4, 32), (4, 256), (8, 32), (8, 128), (16, 32), (32, 32))
"""Blocks an SM, threads a block."""


def block_bars(ctx: Context) -> list[Row]:
    """Cycles of a step with a block barrier (two: bars_shared), by warps a block and blocks an SM: of each block, which its SM serves in turn, and of the SM."""
    return bar_steps(ctx, BAR_KERNELS, (1, 2, 4, 8, 16, 32))


def bars_between(ctx: Context) -> list[Row]:
    """The same with one other instruction between two barriers, or two barriers of different numbers in turn."""
    return bar_steps(ctx, BETWEEN_KERNELS, (1, 2, 4, 8))


def bars_among(ctx: Context) -> list[Row]:
    """The same with one to eight accesses of each warp to shared memory between two barriers."""
    return bar_steps(ctx, AMONG_KERNELS, (1, 2, 4, 8, 16, 32))


def bars_masked(ctx: Context) -> list[Row]:
    """The same with shared accesses between two barriers that some threads of each block make, or none."""
    rows: list[Row] = []
    for active in (0, 1, 32, 1024):
        for found in bar_steps(ctx, ("bars_masked_0", "bars_masked_1", "bars_masked_2"), (1, 2, 4, 8), active):
            rows.append({**found, "active": active})
    return rows


def bar_steps(ctx: Context, kernels: tuple[str, ...], warps_of_blocks: tuple[int, ...], *more: int) -> list[Row]:
    """Rows of ``block_bars``."""
    rows: list[Row] = []
    module = ctx.module("sync")
    for kernel in kernels:
        for warps in warps_of_blocks:
            for resident in (1, 2, 4, 8, 16, 24, 32):
                if warps * resident > 64:
                    continue
                blocks = SMS * resident
                out = ctx.device.upload(np.zeros(4 * blocks, np.uint64))
                spans = []
                counts = (2, 6) if ctx.model else (32, 96)
                for n in counts:
                    args = [out, np.float32(0.999), np.float32(0.001), np.int32(n), *map(np.uint32, more)]
                    module.launch(kernel, blocks, 32 * warps, args)
                    marks = out.read(np.uint64, 4 * blocks).reshape(blocks, 4).astype(np.int64)
                    whole = [np.ptp(marks[marks[:, 3] == sm][:, (0, 2)]) for sm in np.unique(marks[:, 3])]
                    spans.append((float(np.median(marks[:, 2] - marks[:, 1])), float(np.median(whole)) / 2))
                where = {"warps": warps, "blocks": resident}
                for index, metric in enumerate(("cycles_per_step_of_block", "cycles_per_step_of_sm")):
                    per = (spans[1][index] - spans[0][index]) / (counts[1] - counts[0]) / 8
                    rows.append(row(kernel, metric, per, "cycles", **where))
                out.free()
    return rows


def warp_chains(ctx: Context) -> list[Row]:
    """Cycles of a dependent step of every kind of arithmetic by 1 to 8 warps of each sub-core."""
    source = ctx.device.upload(operands())
    rows: list[Row] = []
    for kernel in kernels_of(ctx, "alu"):
        name, _, kind = kernel.rpartition("_")
        if kind != "dep" or kernel == "uniform_dep":
            continue
        for warps in (1, 4, 8, 12, 16, 20, 24, 28, 32):
            per = ctx.slope("alu", kernel, warps, (source, np.uint32(0)), *((4, 12) if ctx.model else (16, 48)))
            rows.append(row(name, "dependent_cycles_per_step", per / STEPS, "cycles", warps=warps))
    return rows


def atomic_chains(ctx: Context) -> list[Row]:
    """Cycles of an atomic that needs the answer of the one before: the least, the median and the longest of 32 pages, by lanes and by who else does so."""
    rows: list[Row] = []
    base = ctx.device.alloc(4 * MIB)
    module = ctx.module("sync")
    shapes = {
        "one_lane": (1, 0),
        "same_word": (0xFFFFFFFF, 0),
        "line": (0xFFFFFFFF, 4),
        "four": (15, 0),
        "half": (0xFFFF, 0),
    }
    for kernel in CHAINS:
        for shape, (mask, lane_apart) in shapes.items():
            crowds = ((1, 1), (1, 4), (1, 16), (4, 1), (16, 1), (132, 1), (132, 4), (132, 16), (264, 32))
            for blocks, warps in crowds[:1] if shape in ("four", "half") else crowds:
                if (
                    blocks * warps > 132
                    and (ctx.model or shape == "same_word")
                    and blocks * warps * n_lanes(mask) > 17000
                ):
                    continue
                for apart in (0, 128) if blocks * warps in (16, 132) else (0,):
                    pages = range(0, 128, 4 if not ctx.model else 16) if blocks == 1 else range(0, 128, 32)
                    found = []
                    for page in pages:
                        spans = []
                        for n in (2, 6):
                            base.zero()
                            at = np.uint64(base.address + 4096 * page)
                            args = [
                                ctx.words,
                                at,
                                np.uint32(mask),
                                np.uint32(apart),
                                np.uint32(lane_apart),
                                np.int32(n),
                            ]
                            module.launch(kernel, blocks, 32 * warps, args)
                            marks = ctx.words.read(np.uint32, 2 * blocks * warps).reshape(-1, 2)
                            spans.append(float(marks[:, 0].mean()))
                        found.append((spans[1] - spans[0]) / 32)
                    where = {"shape": shape, "blocks": blocks, "warps": warps, "apart": apart}
                    for metric, value in (
                        ("least", min(found)),
                        ("median", float(np.median(found))),
                        ("most", max(found)),
                    ):
                        rows.append(row(kernel, f"{metric}_cycles", value, "cycles", **where))
    base.free()
    return rows


def n_lanes(mask: int) -> int:
    """How many lanes a mask names."""
    return mask.bit_count()


def scopes(ctx: Context) -> list[Row]:
    """Cycles of a load that needs the answer of the one before, by order and scope: where L1 has the word, or L2."""
    rows: list[Row] = []
    base = ctx.device.alloc(2 * MIB)
    module = ctx.module("sync")
    for kernel in SCOPES:
        for warps in (1, 16):
            spans = []
            for n in (4, 12):
                base.zero()
                module.launch(
                    kernel, 1, 32 * warps, [ctx.words, base, np.uint32(1), np.uint32(0), np.uint32(0), np.int32(n)]
                )
                spans.append(float(ctx.words.read(np.uint32, 2 * warps).reshape(-1, 2)[:, 0].mean()))
            rows.append(row(kernel, "cycles_per_access", (spans[1] - spans[0]) / 64, "cycles", warps=warps))
    base.free()
    return rows


def beside(ctx: Context) -> list[Row]:
    """Cycles of a look at a word and of a change of it, and how many of each in a cycle over the chip, by the sides of both, how many change it and how often."""
    few = ((1, 8), (8, 1))  # warps of each SM that look and that change
    rows: list[Row] = []
    for kernel in ("beside_volatile", "beside_acquire", "beside_relaxed"):
        cases = [(8, 0, look, 0, 0, 0) for look in (1, 2, 3)]
        for lookers, changers in few:
            cases += [(lookers, changers, look, change, 0, 0) for look in (1, 2, 3) for change in (1, 2, 3)]
        cases += [(8, 1, look, change, 0, 2000) for look in (1, 2) for change in (1, 2)]
        cases += [(8, 1, look, change, 1, gap) for look in (1, 2, 3) for change in (1, 2) for gap in (2000, 500)]
        cases = [
            c
            for c in cases
            if not ctx.model or (kernel == "beside_volatile" or (kernel == "beside_acquire" and not c[1]))
        ]
        rows += side_by_side(ctx, kernel, cases)
    return rows


def looks_among(ctx: Context) -> list[Row]:
    """The same by how many of each SM's warps look and how many add, both all the time."""
    cases = [(0, 8, side, side, 0, 0) for side in (1, 2, 3)]
    cases += [(*mix, side, side, 0, 0) for side in (1, 2, 3) for mix in ((2, 8), (4, 8), (8, 8), (8, 4), (8, 2))]
    cases += [(8, 8, 1, 2, 0, 0), (8, 8, 2, 1, 0, 0)]
    return side_by_side(ctx, "beside_volatile", cases)


def side_by_side(ctx: Context, kernel: str, cases: list[tuple[int, int, int, int, int, int]]) -> list[Row]:
    """Rows of ``beside``: of warps that look, warps that change, the sides of both, 1 for stores, cycles between two changes."""
    rows: list[Row] = []
    base = ctx.device.alloc(2 * MIB)
    table = ctx.device.upload(sides_of(ctx, base))
    span = 16000 if ctx.model else 40000
    for lookers, changers, look, change, kind, gap in cases:
        base.zero()
        args = [np.uint32(v) for v in (lookers, look, change, kind, gap, span)]
        warps = lookers + changers
        ctx.module("sync").launch(kernel, SMS, 32 * warps, [ctx.words, base, table, *args])
        found = ctx.words.read(np.uint32, 4 * SMS * warps).reshape(-1, 4).astype(float)
        where = {
            "lookers": lookers,
            "changers": changers,
            "look_sides": look,
            "change_sides": change,
            "stores": kind,
            "gap": gap,
        }
        for role, name in ((1, "look"), (2, "change")):
            for side, place in enumerate(("near", "far")):
                mine = found[(found[:, 3] == role) & (found[:, 2] == side) & (found[:, 1] > 0)]
                if len(mine):
                    each = float(mine[:, 0].sum() / mine[:, 1].sum())
                    rate = float(mine[:, 1].sum()) / span
                    rows.append(
                        row(kernel, f"{name}_{place}_cycles", each, "cycles", per_cycle=round(rate, 4), **where)
                    )
    base.free()
    table.free()
    return rows


def fence_sides(ctx: Context) -> list[Row]:
    """Cycles of a fence and of the change of a word before it, by the side of the word's home on which the SM is and how many SMs do so."""
    rows: list[Row] = []
    base = ctx.device.alloc(2 * MIB)
    table = ctx.device.upload(sides_of(ctx, base))
    n = 6 if ctx.model else 24
    for change in range(5):
        for fence in (0, 1):
            if (change, fence) == (3, 1):
                continue
            for apart, active in ((0, 1), (0, 4), (0, SMS), (4096, SMS), (32, SMS)):
                base.zero()
                args = [np.uint32(3), np.uint32(apart), np.uint32(active), np.int32(n)]
                ctx.module("sync").launch(f"fence_after_{change}_{fence}", SMS, 32, [ctx.words, base, table, *args])
                found = ctx.words.read(np.uint32, 4 * SMS).reshape(-1, 4).astype(float)
                for side, place in enumerate(("near", "far")):
                    mine = found[(found[:, 3] == 1) & (found[:, 2] == side)]
                    where = {"change": change, "fence": fence, "apart": apart, "active": active, "side": place}
                    if len(mine):
                        for index, metric in enumerate(("change_cycles", "fence_cycles")):
                            each = mine[:, index] / n
                            rows.append(
                                row(
                                    "fence_after",
                                    metric,
                                    float(each.mean()),
                                    "cycles",
                                    least=each.min(),
                                    most=each.max(),
                                    **where,
                                )
                            )
    base.free()
    table.free()
    return rows


def bar_slopes(ctx: Context) -> list[Row]:
    """Cycles of further turns of the kernels of ``sync_cases`` in which barriers take most, without what a launch begins with."""
    rows: list[Row] = []
    data = ctx.device.alloc(4 * MIB)
    for kernel, blocks, threads, n in CASES:
        if kernel not in ("tree_sum", "relax_rod", "scan_block", "any_left"):
            continue
        low, high = (cycles_of_case(ctx, data, (kernel, blocks, threads, k), 0) for k in (n, 3 * n))
        where = {"blocks": blocks, "threads": threads}
        rows.append(row(kernel, "cycles_per_turn", (high - low) / (2 * n), "cycles", **where))
        rows.append(row(kernel, "cycles_before", low - (high - low) / 2, "cycles", **where))
    data.free()
    return rows


def crowded_looks(ctx: Context) -> list[Row]:
    """Cycles of an access of one lane of each warp to one word, by more warps than `looks` has."""
    rows: list[Row] = []
    base = ctx.device.alloc(2 * MIB)
    module = ctx.module("rivals")
    for kind in ("look_volatile", "look_acquire", "look_add", "look_cas_done"):
        for blocks, warps in (
            (132, 1),
            (132, 2),
            (132, 4),
            (132, 8),
            (132, 16),
            (132, 32),
            (264, 32),
            (528, 1),
            (2112, 1),
            (4224, 1),
        ):
            if ctx.model and blocks * warps > 2112:
                continue
            each, n = [], 24
            for _ in range(1 if ctx.model else 3):
                base.zero()
                module.launch(kind, blocks, 32 * warps, [ctx.words, base, np.uint32(0), np.int32(n)])
                each.append(ctx.words.read(np.uint32, 4 * blocks * warps).reshape(-1, 4)[:, 0].mean() / n)
            rows.append(row(kind, "cycles_per_access", float(np.median(each)), "cycles", blocks=blocks, warps=warps))
    base.free()
    return rows


def wakes(ctx: Context) -> list[Row]:
    """Cycles from a change of a word that one thread of each block waits for to the answer of one of them, and back, by blocks."""
    rows: list[Row] = []
    base = ctx.device.alloc(2 * MIB)
    module = ctx.module("sync")
    for kernel in ("wake_volatile", "wake_acquire"):
        for atomically in (0, 1):
            for blocks in (2, 17, 67, 133, 265, 529, 1057, 2113, 4224):
                if ctx.model and blocks > 2200:
                    continue
                n = 10 if ctx.model else 34
                each, looks = [], []
                for page in range(1 if ctx.model else 4):
                    base.zero()
                    at = np.uint64(base.address + 4096 * 5 * page)
                    module.launch(kernel, blocks, 32, [ctx.words, at, np.int32(n), np.int32(atomically)])
                    words = ctx.words.read(np.uint32, 8 + blocks)
                    each.append(float(words[0]) / (n - 2))
                    looks.append(float(words[9:].mean()) / n)
                where = {"blocks": blocks, "atomically": atomically}
                rows.append(row(kernel, "cycles_per_turn", float(np.median(each)), "cycles", least=min(each), most=max(each),
                                looks=round(float(np.median(looks)), 2), **where))  # fmt: skip
    base.free()
    return rows


def grid_bars(ctx: Context) -> list[Row]:
    """Cycles of a grid barrier of each protocol, to the answer of its addition and of its wait, and looks, by blocks an SM and threads of each."""
    rows: list[Row] = []
    base = ctx.device.alloc(2 * MIB)
    module = ctx.module("sync")
    for kind in range(9):
        for per_sm, threads in GRIDS:
            if threads > 32 and kind not in (0, 1):
                continue
            blocks, found = SMS * per_sm, []
            n = 3 if ctx.model else 16
            for page in range(1 if ctx.model else 4):
                base.zero()
                module.launch(
                    f"grid_bars_{kind}",
                    blocks,
                    threads,
                    [ctx.words, np.uint64(base.address + 20480 * page), np.int32(n)],
                )
                found.append(ctx.words.read(np.uint32, 8 * blocks).reshape(blocks, 8).astype(float))
            all_blocks = np.stack(found)
            where = {"kind": kind, "blocks": per_sm, "threads": threads}
            for index, metric in enumerate(
                ("cycles_per_barrier", "looks_per_barrier", "cycles_adding", "cycles_waiting")
            ):
                each = all_blocks[:, :, index].mean(axis=1) / n
                rows.append(
                    row(
                        "grid_bars",
                        metric,
                        float(np.median(each)),
                        "cycles",
                        least=each.min(),
                        most=each.max(),
                        **where,
                    )
                )
    base.free()
    return rows


CASES = (
    *(("tree_sum", SMS * 32, 64, 4), ("tree_sum", SMS * 16, 128, 4), ("tree_sum", SMS * 2, 1024, 3)),
    *(("relax_rod", SMS * 32, 32, 12), ("relax_rod", SMS * 32, 64, 12), ("relax_rod", SMS * 10, 192, 12)),
    *(("scan_block", SMS * 16, 128, 3), ("scan_block", SMS * 24, 64, 3), ("any_left", SMS * 32, 64, 24)),
    *(("any_left", SMS * 8, 256, 24), ("bodies", SMS, 512, 64), ("bodies", SMS, 1024, 48), ("bodies", SMS, 384, 64)),
    *(("logistic", SMS, 512, 48), ("logistic", SMS, 640, 48), ("phases", SMS, 512, 48), ("phases", SMS, 256, 48)),
    *(("widen", SMS, 512, 48), ("widen", SMS, 1024, 32), ("round_trip", SMS, 512, 48), ("round_trip", SMS, 768, 48)),
    *(
        ("bit_counts", SMS, 512, 48),
        ("bit_counts", SMS, 1024, 32),
        ("compact", SMS, 512, 48),
        ("compact", SMS, 1024, 48),
    ),
    *(("until_all", SMS, 512, 48), ("until_all", SMS, 256, 48), ("mixing", SMS, 1024, 48), ("mixing", SMS, 512, 48)),
    *(("sums_of_three", SMS, 1024, 48), ("sums_of_three", SMS, 256, 48)),
    *(("tickets", 1, 32, 24), ("tickets", SMS, 32, 12), ("tickets", SMS * 8, 32, 6), ("work_queue", SMS, 128, 1000)),
    *(("work_queue", SMS * 8, 64, 3000), ("largest", SMS, 64, 6), ("largest", 1, 256, 12), ("swap_loop", 12, 32, 6)),
    *(("swap_loop", SMS, 32, 2), ("pass_on", 2, 32, 12), ("pass_on", 24, 32, 3), ("pass_on", SMS, 32, 1)),
    *(("ticket_lock", 8, 32, 4), ("ticket_lock", 64, 32, 1)),
    *(("grid_counter", SMS, 64, 4), ("grid_counter", SMS * 4, 128, 3), ("grid_counter", SMS * 12, 64, 2)),
    *(("grid_sense", SMS, 256, 4), ("grid_sense", SMS * 6, 64, 3), ("grid_sense", SMS * 16, 32, 2)),
    *(
        ("grid_tree", SMS, 128, 4),
        ("grid_tree", SMS * 8, 64, 2),
        ("grid_master", SMS, 256, 4),
        ("grid_master", SMS * 4, 128, 3),
    ),
    *(("grid_steps", SMS, 512, 4), ("grid_steps", SMS * 3, 128, 3), ("grid_steps", SMS * 10, 96, 2)),
    *(("look_back", SMS * 2, 64, 1), ("look_back", SMS * 4, 96, 1)),
)
"""Kernel, blocks, threads, repetitions."""


def cycles_of_case(ctx: Context, data: Buffer, case: tuple[str, int, int, int], page: int) -> float:
    """Cycles of an SM from the start of the first of two passes of its blocks to the end of the last second one, the longest over SMs; where each SM has one
    block, of the second pass."""
    kernel, blocks, threads, n = case
    data.zero()
    address = np.uint64(data.address + 4096 * 5 * page)
    ctx.module("sync_cases").launch(kernel, blocks, threads, [ctx.words, address, np.int32(n)])
    marks = ctx.words.read(np.uint32, 4 * blocks).reshape(blocks, 4)
    if blocks <= SMS:
        return float((marks[:, 2] - marks[:, 1]).max())
    origin = marks[0, 0]  # SMs' clocks are not far apart, and wrap
    starts, ends = ((marks[:, k] - origin).astype(np.int32) for k in (0, 2))
    return float(max(ends[on].max() - starts[on].min() for on in (marks[:, 3] == sm for sm in np.unique(marks[:, 3]))))


def sync_cases(ctx: Context) -> list[Row]:
    """Cycles of small kernels that barriers, special functions, votes, atomics and waits for other blocks make slow; nothing is calibrated with them."""
    rows: list[Row] = []
    data = ctx.device.alloc(4 * MIB)
    for case in CASES:
        pages = 32 if case[1] <= 24 else 1 if ctx.model else 9
        found = [cycles_of_case(ctx, data, case, page) for page in range(pages)]
        where = dict(zip(("blocks", "threads", "n"), case[1:], strict=True))
        value = float(np.mean(found))
        rows.append(row(case[0], "cycles", value, "cycles", least=min(found), most=max(found), **where))
    data.free()
    return rows
