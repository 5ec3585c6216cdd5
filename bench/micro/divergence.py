"""Divergence: the order of a warp's groups, who runs together, how lanes that spin let the others go on."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row

LANES = np.arange(32)
MASKS = (0x1, 0xFFFFFFFE, 0x80000000, 0x7FFFFFFF, 0xFFFF, 0xFFFF0000, 0x55555555, 0xAAAAAAAA, 0xFF, 0xFFFFFF00)
STAGES, LOG = 64, 256
WORDS: dict[str, np.ndarray] = {
    "lane%8": LANES % 8, "7-lane%8": 7 - LANES % 8, "lane/4": LANES // 4, "7-lane/4": 7 - LANES // 4,
    "mostly5": np.where(LANES % 9 == 4, LANES % 8, 5), "lane*5%8": LANES * 5 % 8,
}  # fmt: skip
"""A word for each lane."""


def bits(lanes: np.ndarray) -> int:
    """32 booleans as a mask."""
    return int((lanes.astype(np.uint64) << LANES.astype(np.uint64)).sum())


def run(ctx: Context, kernel: str, args: list[object]) -> tuple[np.ndarray, np.ndarray]:
    """Launch one warp twice (the second time with warm code); stamps and mates, both (64 stages, 32 lanes)."""
    for _ in range(2):
        ctx.words.write(np.zeros(16384 + 32 * LOG, np.uint32))
        ctx.module("divergence").launch(kernel, 1, 32, [ctx.words, *args])
    read = ctx.words.read(np.uint32, 4096)
    return read[:2048].reshape(STAGES, 32), read[2048:].reshape(STAGES, 32)


def groups(name: str, stamps: np.ndarray, mates: np.ndarray, **where: object) -> list[Row]:
    """One row for each group that passed a stage, in the order of time."""
    passed = stamps != 0
    if not passed.any():
        return []
    seen = {(int(stamps[s, n]), int(s), int(mates[s, n])) for s, n in zip(*np.nonzero(passed), strict=True)}
    events = sorted(seen)
    origin = events[0][0]
    return [
        row(name, "group_at_stage", clock - origin, "cycles", **where, order=i, stage=stage, lanes=f"{mask:08x}")
        for i, (clock, stage, mask) in enumerate(events)
    ]


def order(ctx: Context) -> list[Row]:
    """Which side of a branch, which leaf, which case runs first; what runs together; whether a waiting side gives way."""
    rows: list[Row] = []
    for mask in MASKS:
        for kernel, args in (("two_sides", (np.int32(8),)), ("one_exits", (np.int32(8),)),
                             ("one_sleeps", (np.uint32(2000), np.int32(8)))):  # fmt: skip
            rows += groups(kernel, *run(ctx, kernel, [np.uint32(mask), *args]), mask=f"{mask:08x}")
    for name, words in WORDS.items():
        for kernel in ("four_leaves", "eight_cases", "early_leave"):
            source = ctx.device.upload(words.astype(np.uint32))
            rows += groups(kernel, *run(ctx, kernel, [source, np.int32(8)]), words=name)
    skips = np.random.default_rng(1).integers(0, 1 << 24, 32) & ~0x7F0000
    source = ctx.device.upload(skips.astype(np.uint32))
    rows += groups("skip_in_loop", *run(ctx, "skip_in_loop", [source, np.int32(8)]), words="random")
    lines = np.zeros((32, 16), np.uint64)
    chain = ctx.device.upload(lines)
    lines[:, 0] = chain.address + 128 * LANES
    chain.write(lines)
    for kernel in ("two_chases", "two_chases_cached"):
        for mask in (0, 0xFFFF, 0xFFFF0000, 0xFFFFFFFF):
            rows += groups(kernel, *run(ctx, kernel, [np.uint32(mask), chain, np.int32(16)]), mask=f"{mask:08x}")
    return rows


def parting() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Turn in which each lane leaves its loop and the place that it leaves for, by name: some by hand, others random.

    Most lanes leave first, so those that have left wait while the others go on.
    """
    by_hand = {
        "112": ((16, 8, 4, 4), (1, 1, 2, 3)), "121": ((16, 8, 4, 4), (1, 2, 1, 3)), "1213": ((16, 8, 4, 2, 2), (1, 2, 1, 3, 2)),
        "12123": ((14, 8, 4, 3, 2, 1), (1, 2, 1, 2, 3, 3)), "11223": ((14, 8, 4, 3, 2, 1), (1, 1, 2, 2, 3, 3)),
        "12323": ((14, 8, 4, 3, 2, 1), (1, 2, 3, 2, 3, 1)), "1112": ((14, 8, 4, 3, 2, 1), (1, 1, 1, 2, 1, 3)),
    }  # fmt: skip
    found = {}
    for name, (sizes, places) in by_hand.items():
        found[name] = np.repeat(np.arange(len(sizes)), sizes), np.repeat(places, sizes)
    rng = np.random.default_rng(5)
    for number in range(24):
        turns = np.minimum(rng.geometric(rng.choice((0.3, 0.5, 0.6)), 32) - 1, 9)
        found[f"random{number}"] = turns, rng.integers(1, 3 + number % 2, 32)
    return found


def part(ctx: Context) -> list[Row]:
    """Groups that leave a loop for two or three places: who runs together there, and when."""
    rows: list[Row] = []
    for name, tables in parting().items():
        words, places = (ctx.device.upload(t.astype(np.uint32)) for t in tables)
        rows += groups("leave_apart", *run(ctx, "leave_apart", [words, places, np.int32(10)]), words=name)
    return rows


def polls(ctx: Context, name: str, **where: object) -> list[Row]:
    """Polls of each lane, and the order in which groups polled: (clock, lanes) sorted by clock."""
    counts = ctx.words.read(np.uint32, 32, 4 * (64 * 32 + 2048))
    log = ctx.words.read(np.uint32, 32 * LOG, 4 * 8192).reshape(LOG, 32)
    stamps = ctx.words.read(np.uint32, 2048).reshape(STAGES, 32)
    key = name + "".join(f"_{v}" for v in where.values())
    ctx.arrays[f"polls_{key}"] = log[: int(min(counts.max() + 1, LOG))]
    ctx.arrays[f"stamps_{key}"] = stamps[:3]
    rows = [row(name, "polls_of_lane", float(n), "polls", **where, lane=i) for i, n in enumerate(counts)]
    found: dict[int, int] = {}
    for turn, lane in zip(*np.nonzero(log), strict=True):
        at = int(log[turn, lane])
        found[at] = found.get(at, 0) | 1 << int(lane)
    events = sorted(found.items())[:40]
    rows += [
        row(name, "poll", at - events[0][0], "cycles", **where, order=i, lanes=f"{lanes:08x}")
        for i, (at, lanes) in enumerate(events)
    ]
    return rows


def spin(ctx: Context) -> list[Row]:
    """Lanes of one warp that wait for each other: the order and number of their polls."""
    rows: list[Row] = []
    patterns = {
        "lane": LANES, "31-lane": 31 - LANES, "lane/8": LANES // 8, "3-lane/8": 3 - LANES // 8, "lane%2": LANES % 2,
    }  # fmt: skip
    cell = ctx.device.alloc(4096)
    for name, words in patterns.items():
        source = ctx.device.upload(words.astype(np.uint32))
        for kernel in ("turns_global", "turns_shared"):
            cell.write(np.zeros(1024, np.uint32))
            for _ in range(2):
                ctx.words.write(np.zeros(16384 + 32 * LOG, np.uint32))
                cell.write(np.zeros(1024, np.uint32))
                more = [cell] if kernel == "turns_global" else []
                ctx.module("divergence").launch(kernel, 1, 32, [ctx.words, source, *more, np.int32(LOG)])
            rows += polls(ctx, kernel, words=name)
    for kernel in ("lock_turns", "lock_inside"):
        for mask in (0xFFFFFFFF, 0xF, 0xF0000000, 0x88888888):
            for _ in range(2):
                ctx.words.write(np.zeros(16384 + 32 * LOG, np.uint32))
                cell.write(np.zeros(1024, np.uint32))
                ctx.module("divergence").launch(kernel, 1, 32, [ctx.words, np.uint32(mask), cell, np.int32(LOG)])
            rows += polls(ctx, kernel, mask=f"{mask:08x}")
    cell.free()
    return rows


def release(ctx: Context) -> list[Row]:
    """Lanes that wait at BSYNC for lanes that spin: polls before they go on (`leave` lanes leave the loop at once)."""
    rows: list[Row] = []
    flags, counts, clocks = (ctx.device.alloc(4096) for _ in range(3))
    module = ctx.module("release")

    def keep(kernel: str, leave: int) -> None:
        found = counts.read(np.uint32, 32)
        cycles = clocks.read(np.uint64, 32)
        for lane in range(32):
            rows.append(row(kernel, "polls", float(found[lane]), "polls", leave=leave, lane=lane))
        rows.append(row(kernel, "longest", float(cycles.max()), "cycles", leave=leave))

    begin = np.zeros(1024, np.uint32)
    begin[64] = 1
    for leave in (1, 8, 16, 31):
        for kernel in ("release_load", "release_atomic", "release_shared"):
            flags.write(begin)
            module.launch(kernel, 1, 32, [flags, counts, clocks, np.int32(leave)])
            keep(kernel, leave)
    flags.write(np.zeros(1024, np.uint32))
    module.launch("release_lock", 1, 32, [flags, counts, clocks, np.int32(0)])
    keep("release_lock", 0)
    for buffer in (flags, counts, clocks):
        buffer.free()
    return rows


def counted_cases() -> list[tuple[str, np.ndarray | np.generic]]:
    """Kernel and second argument of each launch of ``counted_once``."""
    cases: list[tuple[str, np.ndarray | np.generic]] = []
    for mask in (0, 1, 0xFFFF, 0xFFFFFFFE):
        cases += [(kernel, np.uint32(mask)) for kernel in ("count_join", "count_warpsync", "count_returns")]
    cases += [("count_tiles", np.uint32(width)) for width in (4, 8, 16, 32)]
    for words in (LANES * 0, LANES % 2, LANES % 3, LANES % 8, LANES // 4):
        cases += [("count_table", words.astype(np.uint32)), ("count_calls", words.astype(np.uint32))]
    return cases


LEAVES = (
    *((32,), (16, 16), (31, 1), (1, 31), (16, 8, 8), (8, 16, 8), (24, 4, 4), (8, 8, 16), (2, 28, 2), (28, 1, 1, 1, 1)),
    *((20, 6, 3, 2, 1), (8, 8, 8, 8), (4,) * 8, (1,) * 32, (17, 15), (21, 7, 3, 1), (0, 16, 0, 16), (0, 21, 7, 4)),
)
"""How many lanes leave in the first turn, the second, …"""


def leaves_once(ctx: Context) -> list[Row]:
    """As ``counted_once``: loops that lanes leave in so many groups."""
    rows = []
    for sizes in LEAVES:
        words = ctx.device.upload(np.repeat(np.arange(len(sizes)), sizes).astype(np.uint32))
        ctx.module("divergence").launch("count_leaves", 1, 32, [ctx.words, words, np.int32(100)])
        made = ctx.module("divergence").instructions
        if made is not None:
            rows.append(
                row("count_leaves", "smsp__inst_executed.sum", made, "instructions", leave="-".join(map(str, sizes)))
            )
    return rows


def mixed_classes() -> list[np.ndarray]:
    """A class for each lane, of four or five, in many shares."""
    rng = np.random.default_rng(9)
    found = []
    for number in range(48):
        shares = rng.dirichlet(np.full(4 + number % 2, 0.7))
        found.append(rng.choice(len(shares), 32, p=shares).astype(np.uint32))
    return found


def lets_go_once(ctx: Context) -> list[Row]:
    """As ``counted_once``: lanes that wait at a join while the last ones that they wait for leave by BREAK or EXIT."""
    rows = []
    for kernel in ("count_break", "count_exit"):
        for number, words in enumerate(mixed_classes()):
            ctx.module("divergence").launch(kernel, 1, 32, [ctx.words, ctx.device.upload(words)])
            made = ctx.module("divergence").instructions
            if made is not None:
                rows.append(row(kernel, "smsp__inst_executed.sum", made, "instructions", launch=number))
    return rows


def counted_once(ctx: Context) -> list[Row]:
    """Loops whose executed instructions a profiler counts (smsp__inst_executed.sum); 100 turns each, one warp."""
    rows = []
    for number, (kernel, value) in enumerate(counted_cases()):
        argument = ctx.device.upload(value) if isinstance(value, np.ndarray) else value
        ctx.module("divergence").launch(kernel, 1, 32, [ctx.words, argument, np.int32(100)])
        made = ctx.module("divergence").instructions
        if made is not None:
            rows.append(row(kernel, "smsp__inst_executed.sum", made, "instructions", launch=number))
    return rows
