"""Which stores leave an SM together, and what copies and loads of each form ask of L2: counted by a profiler."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row

MIB = 1 << 20
ROUNDS = 16
WAITS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
STEPS = tuple(
    (f"{name}_{turns}", stride)
    for name in ("alone", "one", "before", "two", "three", "behind", "behind_one", "behind_three")
    for stride in (8, 16, 32)
    for turns in WAITS
)
"""Kernel and bytes between threads: 2, 4 or 8 lines a store."""
SHAPES = (
    ("1x2", 4),
    ("1x4", 4),
    ("1x8", 8),
    ("2x4", 8),
    ("2x8", 16),
    ("4x2", 8),
    ("4x2", 16),
    ("4x2", 32),
    ("4x4", 16),
    ("4x8", 32),
    ("8x2", 16),
    ("8x4", 32),
)
MASKS = ((1, 0x1), (2, 0x3), (3, 0x7), (4, 0xF), (8, 0xFF), (16, 0xFFFF), (16, 0x11), (16, 0x1111))
"""Warps of the block, those that store."""
TOGETHER = tuple((f"together_{shape}", stride, warps, mask) for shape, stride in SHAPES for warps, mask in MASKS)


def joins_once(ctx: Context) -> list[Row]:
    """Bursts of stores to lines that are stored to again: a profiler counts what leaves; rows: cycles of a warp in a burst."""
    rows: list[Row] = []
    base = ctx.device.alloc(32 * MIB)
    module = ctx.module("joins")
    for kernel, stride in STEPS:
        module.launch(kernel, 1, 32, [ctx.words, base, np.int32(ROUNDS), np.uint32(stride)])
        spent = ctx.words.read(np.uint32, 1)
        rows.append(row(kernel, "cycles_of_a_burst", float(spent[0]) / ROUNDS, "cycles", stride=stride))
    for kernel, stride, warps, mask in TOGETHER:
        module.launch(kernel, 1, 32 * warps, [ctx.words, base, np.int32(ROUNDS), np.uint32(stride), np.uint32(mask)])
        spent = ctx.words.read(np.uint32, warps)
        rows.append(
            row(
                kernel,
                "cycles_of_the_slowest_warp",
                float(spent.max()) / ROUNDS,
                "cycles",
                stride=stride,
                warps=warps,
                mask=mask,
            )
        )
    base.free()
    return rows


def store_times(ctx: Context) -> list[Row]:
    """When stores issue while the unit is behind, and when loads beside them do: clocks before each in the arrays; rows: cycles of a load."""
    rows: list[Row] = []
    base = ctx.device.alloc(32 * MIB)
    base.zero()
    for kernel, stride in (
        ("times_1x4", 4),
        ("times_4x4", 16),
        ("times_4x8", 32),
        ("times_2x8", 16),
        ("times_4x4", 128),
        ("times_4x4", 64),
    ):
        for warps in (1, 4, 8, 16, 32):
            for _ in range(1 if ctx.model else 2):
                ctx.module("joins").launch(
                    kernel, 1, 32 * warps, [ctx.words, base, np.uint32(stride), np.uint32(stride * 32 * warps)]
                )
            count = 3 * int(kernel[-1]) + 1
            name = kernel if stride < 64 else f"{kernel}_by_{stride}"
            ctx.arrays[f"{name}_{warps}"] = ctx.words.read(np.uint32, 32 * warps).reshape(warps, 32)[:, :count]
    for kind, what in ((0, "shared"), (1, "l1")):
        for stride, stores in ((16, 0), (4, 32), (16, 32), (32, 32), (128, 32)):
            args = [ctx.words, base, np.uint32(stride), np.uint32(32 * stride), np.int32(stores), np.int32(kind)]
            for _ in range(1 if ctx.model else 2):
                ctx.module("joins").launch("held_up", 1, 384, args, 2048)
            steps = np.diff(ctx.words.read(np.uint32, 64).astype(np.int64))
            ctx.arrays[f"held_up_{what}_{stride}_{stores}"] = steps
            rows.append(
                row(
                    "held_up",
                    "cycles_of_a_load",
                    float(steps[16:48].mean()),
                    "cycles",
                    what=what,
                    stride=stride,
                    stores=stores,
                )
            )
    base.free()
    return rows


WAVES = ((32, 132), (32, 1056), (128, 132), (128, 528), (128, 1056), (128, 2112), (128, 3125), (256, 1056), (512, 528))
"""Threads of a block, blocks."""


def store_waves(ctx: Context) -> list[Row]:
    """When the warps of a full chip come to four stores behind a load of DRAM: SM, start, arrival and the clock behind each store in the arrays;
    rows: cycles from the first start on an SM to its last store.  The same without clocks (``waves_plain``) for a profiler that counts what leaves."""
    rows: list[Row] = []
    base, others = ctx.device.alloc(8 * MIB), ctx.device.alloc(MIB if ctx.model else 256 * MIB)
    source, out = ctx.device.upload(np.ones(1 << 19, np.float32)), ctx.device.alloc(MIB)
    for threads, blocks in WAVES:
        for _ in range(1 if ctx.model else 2):  # the second one finds code and pages, and its words in DRAM
            others.zero()
            ctx.module("joins").launch("waves_plain", blocks, threads, [out, base, source])
            others.zero()
            ctx.module("joins").launch("waves", blocks, threads, [out, base, source])
        warps = blocks * threads // 32
        found = out.read(np.uint32, 8 * warps).reshape(warps, 8)
        ctx.arrays[f"waves_{threads}_{blocks}"] = found[:, :7]
        spans = []
        for sm in np.unique(found[:, 0]):
            own = found[found[:, 0] == sm].astype(np.int64)
            spans.append(int(own[:, 6].max() - own[:, 1].min()))
        rows.append(
            row(
                "waves",
                "cycles_of_an_sm",
                float(np.mean(spans)),
                "cycles",
                threads=threads,
                blocks=blocks,
                most=max(spans),
            )
        )
    for buffer in (base, others, source, out):
        buffer.free()
    return rows


FORMS = ("cg", "cg64", "cg128", "cg256", "ca", "ca128", "ldg", "ldg64", "ldg128", "ldg256", "ldcg", "nc")
COPIES = (
    # row_lanes, pitch, first byte, rounds, round_step, passes, together, block_step, warp_step, blocks, warps
    (32, 512, 0, 16, 512, 1, 1, 0, 0, 1, 1),
    (32, 512, 0, 16, 512, 2, 1, 0, 0, 1, 1),
    (8, 1024, 0, 8, 4096, 1, 1, 0, 0, 1, 1),
    (8, 1024, 64, 8, 4096, 1, 1, 0, 0, 1, 1),
    (4, 1024, 0, 8, 8192, 1, 1, 0, 0, 1, 1),
    (4, 1024, 0, 16, 64, 1, 1, 0, 0, 1, 1),
    (2, 1024, 0, 8, 16384, 1, 1, 0, 0, 1, 1),
    (1, 128, 0, 8, 4096, 1, 1, 0, 0, 1, 1),
    (32, 512, 0, 16, 512, 1, 1, 0, 0, 1, 4),
    (32, 512, 0, 16, 2048, 1, 1, 32768, 512, 132, 4),
    (32, 512, 0, 16, 2048, 4, 1, 32768, 512, 132, 4),
    (32, 512, 0, 16, 2048, 1, 132, 32768, 512, 132, 4),
    (32, 512, 0, 16, 2048, 4, 132, 32768, 512, 132, 4),
    (8, 1024, 0, 16, 4096, 1, 132, 0, 65536, 132, 4),
    (32, 512, 0, 16, 2048, 4, 12, 32768, 512, 132, 4),
    (4, 1024, 0, 16, 64, 1, 132, 0, 8192, 132, 4),
    (4, 1024, 0, 16, 64, 1, 12, 32768, 8192, 132, 4),
)


def copies_once(ctx: Context) -> list[Row]:
    """Loads and asynchronous copies by form, rows of lanes and sharing blocks: a profiler counts L2's look-ups; rows: cycles."""
    rows: list[Row] = []
    base = ctx.device.alloc(16 * MIB)
    for form in FORMS:
        for lanes, pitch, first, rounds, step, passes, together, block_step, warp_step, blocks, warps in COPIES:
            at = np.uint64(base.address + first)
            numbers = [
                np.uint32(lanes),
                np.uint32(pitch),
                np.int32(rounds),
                np.uint32(step),
                np.int32(passes),
                np.uint32(together),
            ]
            args = (at, *numbers, np.uint32(block_step), np.uint32(warp_step))
            span = ctx.span("copies", f"copies_{form}", warps, args, shared_bytes=16 * 512 * warps, blocks=blocks)
            rows.append(row(f"copies_{form}", "cycles", span, "cycles", lanes=lanes, pitch=pitch, first=first, rounds=rounds, step=step, passes=passes,
                            together=together, block_step=block_step, warp_step=warp_step, blocks=blocks, warps=warps))  # fmt: skip
    base.free()
    return rows


def copy_plans() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Bytes that the lanes copy from and to, of 512 and 1,024: rows of a tile whose 16-byte parts change places, and the like."""
    lanes = np.arange(32)
    plans = {f"exclusive_{by}": (lanes * 16, (lanes ^ by) * 16) for by in (0, 1, 2, 3, 4, 7)}
    plans["rows_exclusive"] = lanes * 16, (lanes ^ lanes // 8) * 16
    plans["behind_16"] = lanes * 16, lanes * 16 + 16
    plans["behind_32"] = lanes * 16, lanes * 16 + 32
    plans["odd_lines_behind_16"] = lanes * 16, lanes * 16 + lanes // 8 % 2 * 16 + lanes // 8 * 16
    plans["halves_apart"] = lanes * 16, lanes % 2 * 512 + lanes // 2 * 16
    plans["one_half"] = lanes // 2 * 32, lanes * 16
    plans["other_half"] = lanes // 2 * 32 + 16, lanes * 16
    return plans


def planned_copies_once(ctx: Context) -> list[Row]:
    """Copies past L1 by where in shared memory their 16 bytes go: a profiler counts what L2 is asked for."""
    rows: list[Row] = []
    base = ctx.device.alloc(MIB)
    for name, plan in copy_plans().items():
        table = ctx.device.upload(np.concatenate(plan).astype(np.uint32))
        span = ctx.span("copies", "copies_planned", 1, (base, table), shared_bytes=32768)
        rows.append(row("copies_planned", "cycles", span, "cycles", places=name))
        table.free()
    base.free()
    return rows
