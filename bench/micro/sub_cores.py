"""Who of an SM gets code when, and in which order the warps of a sub-core issue."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row

SMS = 132
FIRST = 8 * 4096
"""Bytes of ``out`` before the results."""
LINE_MARKS = 24
P, Q = np.float32(0.999), np.float32(0.001)
TURNS = {
    "one_by_one": (1 << 0, 1 << 4, 1 << 1, 1 << 2 | 1 << 3, 0b1111, 0b1111),
    "together": (0b1111, 0b1111, 0b11110000),
    "one_sub_core": (1 << 0 | 1 << 4 | 1 << 8, 1 << 0 | 1 << 4 | 1 << 8, 1 << 1),
    "two": (0b11, 0b11, 0b1100),
}
"""Warps that run the code in each phase, of nine."""


def first_lines_once(ctx: Context) -> list[Row]:
    """When each of a launch's first 24 lines of code is there, by warps and SMs, for a profiler that empties the caches before."""
    rows: list[Row] = []
    out = ctx.device.alloc(4 << 20)
    for blocks, threads in (
        (1, 32),
        (1, 128),
        (1, 256),
        (8, 128),
        (33, 128),
        (66, 128),
        (132, 32),
        (132, 64),
        (132, 128),
        (132, 256),
        (1056, 128),
    ):
        for again in range(1 if ctx.model else 3):
            ctx.module("sub_cores").launch("first_lines", blocks, threads, [out, P, Q])
            warps = blocks * threads // 32
            found = out.read(np.uint32, (LINE_MARKS + 1) * warps, FIRST).reshape(warps, LINE_MARKS + 1)
            ctx.arrays[f"first_lines_{blocks}_{threads}_{again}"] = found
            start = found[:, :LINE_MARKS].astype(np.int64).reshape(blocks, -1, LINE_MARKS)
            since = start - start[:, :, :1].min(axis=1, keepdims=True)
            for line in (0, 1, 2, 4, 8, 16, 23):
                for name, value in (
                    ("first", since[:, :, line].min(axis=1).mean()),
                    ("last", since[:, :, line].max(axis=1).mean()),
                ):
                    rows.append(row("first_lines", f"cycles_{name}", float(value), "cycles", blocks=blocks, threads=threads, line=line, again=again))  # fmt: skip
    out.free()
    return rows


def code_turns(ctx: Context) -> list[Row]:
    """48 lines of straight code by some warps of nine in turn: cycles of each, in a launch's first code and behind 96 KiB."""
    rows: list[Row] = []
    out = ctx.device.alloc(16 << 20)
    for kernel in ("code_turns", "code_turns_far"):
        for name, masks in TURNS.items():
            who = ctx.device.upload(np.array(masks, np.uint32))
            for blocks in (1, SMS):
                for _ in range(1 if ctx.model else 3):
                    ctx.module("sub_cores").launch(kernel, blocks, 288, [out, who, np.int32(len(masks)), P, Q])
                found = out.read(np.uint32, blocks * len(masks) * 9 * LINE_MARKS, FIRST).astype(np.int64)
                found = found.reshape(blocks, len(masks), 9, LINE_MARKS)
                for phase, mask in enumerate(masks):
                    taking = [warp for warp in range(9) if mask >> warp & 1]
                    begin = found[:, phase, taking, 0].min(axis=1)
                    for warp in taking:
                        marks = found[:, phase, warp] - begin[:, None]
                        for mark in (0, 8, 23):
                            rows.append(row(kernel, "cycles", float(np.median(marks[:, mark])), "cycles", turns=name, blocks=blocks,
                                            phase=phase, warp=warp, lines=2 * mark))  # fmt: skip
            who.free()
    out.free()
    return rows


def code_by_sm(ctx: Context) -> list[Row]:
    """The same code by one warp of each SM, some SMs 30,000 cycles behind the others: cycles of 46 lines."""
    rows: list[Row] = []
    out = ctx.device.alloc(1 << 20)
    sms = np.arange(SMS)
    late = {
        "none": sms < 0, "second_of_tpc": sms % 2 == 1, "all_but_one": sms != 0, "all_but_one_tpc": sms > 1, "all_but_16": sms >= 16,
        "every_second_tpc": sms // 2 % 2 == 1,
    }  # fmt: skip
    for kernel in ("code_by_sm", "code_by_sm_far"):
        for name, which in late.items():
            delay = ctx.device.upload(np.where(which, 30_000, 0).astype(np.uint32))
            for _ in range(1 if ctx.model else 3):
                ctx.module("sub_cores").launch(kernel, SMS, 32, [out, delay, P, Q], 200 * 1024)
            found = out.read(np.uint32, SMS * LINE_MARKS, FIRST).reshape(SMS, LINE_MARKS)
            ctx.arrays[f"{kernel}_{name}"] = found
            for part, chosen in (("early", ~which), ("late", which)):
                if chosen.any():
                    for mark in (8, 23):
                        rows.append(
                            row(
                                kernel,
                                "cycles",
                                float(np.median(found[chosen, mark])),
                                "cycles",
                                late=name,
                                part=part,
                                lines=2 * mark,
                            )
                        )
            delay.free()
    out.free()
    return rows


def race(ctx: Context) -> list[Row]:
    """Loops of several blocks' warps at once: when the warps of each block of an SM, by its turn, have done half of them and all."""
    rows: list[Row] = []
    out = ctx.device.alloc(4 << 20)
    for kernel, turns in (("race_wide", 24), ("race_chain", 24), ("race_multiply", 12)):
        for name, blocks, threads, shared in (
            ("one_block", SMS, 512, 0), ("two_blocks", 2 * SMS, 256, 90 * 1024), ("four_blocks", 4 * SMS, 128, 48 * 1024),
            ("eight_blocks", 8 * SMS, 128, 24 * 1024), ("two_waves", 8 * SMS, 128, 48 * 1024), ("one_more", 4 * SMS + 40, 256, 48 * 1024),
        ):  # fmt: skip
            args = [out, np.int32(turns), P, Q, np.uint32(3), np.uint32(5)]
            for _ in range(1 if ctx.model else 2):
                ctx.module("sub_cores").launch(kernel, blocks, threads, args, shared)
            warps = blocks * threads // 32
            found = out.read(np.uint32, 10 * warps, FIRST).reshape(blocks, threads // 32, 10)
            ctx.arrays[f"{kernel}_{name}"] = found
            ends: dict[int, list[np.ndarray]] = {}
            for sm in range(SMS):
                mine = found[found[:, 0, 9] == sm][:, :, :9].astype(np.int64)
                begin = mine[:, :, 0].min()
                for turn, block in enumerate(np.argsort(mine[:, :, 0].min(axis=1), kind="stable")):
                    ends.setdefault(turn, []).append(mine[block] - begin)
            for turn, kept in ends.items():
                stack = np.array(kept)
                for metric, values in (("start", stack[:, :, 0]), ("half", stack[:, :, 4]), ("end", stack[:, :, 8])):
                    rows.append(
                        row(
                            kernel,
                            f"cycles_{metric}",
                            float(np.median(values)),
                            "cycles",
                            blocks=name,
                            turn=turn,
                            count=len(kept),
                        )
                    )
    out.free()
    return rows
