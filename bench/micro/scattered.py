"""Accesses at random places by every SM, by footprint, size and kind; contended compare-and-swap and ticket locks."""

from __future__ import annotations

import numpy as np

from bench.device import Buffer
from bench.micro.context import Context, Row, row
from bench.micro.paths import ALONE, elapsed

SMS = 132
THREADS = 1024
PAGE = 2 << 20
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


SEEDS = iter(range(1, 1 << 30))


def rate(
    ctx: Context, kernel: str, base: Buffer | np.uint64, chunks: int, chunk: int, width: int, counts: tuple[int, int],
    sms: int = SMS, pages: int = 1,
) -> float:  # fmt: skip
    """Chunks a cycle over `sms` SMs: slope between two numbers of accesses a thread, the least of three of each.

    With `pages` the chunks lie in so many pages of 2 MiB. No two launches take the same places.
    """
    share = max(chunk // width, 1).bit_length() - 1 if width == 16 else 0
    args = [np.uint32(chunks - 1), np.uint64(chunk), np.uint32(share), np.uint32(width), np.uint32(pages - 1),
            np.uint32(pages.bit_length() - 1), np.uint64(PAGE)]  # fmt: skip
    out = ctx.device.upload(np.zeros(2 * sms, np.uint64))
    found = []
    for n in counts:
        best = np.inf
        for _ in range(1 if ctx.model else 3):
            seed = np.uint32(next(SEEDS) * 0x2545F491 & 0xFFFFFFFF)
            ctx.module("scattered").launch(kernel, sms, THREADS, [out, base, *args, seed, np.int32(n)], ALONE)
            best = min(best, elapsed(ctx, out, sms))
        found.append(best)
    out.free()
    return (counts[1] - counts[0]) * (sms * THREADS >> share) / (found[1] - found[0])


SIZES = {"card": (4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB, 512 * MIB, 2 * GIB, 8 * GIB, 32 * GIB),
         "model": (4 * MIB, 128 * MIB)}  # fmt: skip


def scattered(ctx: Context) -> list[Row]:
    """Random reads and writes: chunks a cycle by chunk size and footprint."""
    rows: list[Row] = []
    sizes = SIZES[ctx.device.kind]
    base = ctx.device.alloc(max(sizes))
    counts = (2, 4) if ctx.model else (8, 24)
    for kernel, chunk, width in (
        *(
            ("gather4", 32, 4),
            ("gather16", 64, 16),
            ("gather16", 128, 16),
            ("gather16", 256, 16),
            ("gather16", 512, 16),
        ),
        *(("scatter4", 32, 4), ("scatter16", 32, 16), ("scatter16", 128, 16)),
    ):
        for size in sizes:
            if chunk > 32 and size not in (4 * MIB, 128 * MIB, 8 * GIB):
                continue
            for sms in (SMS,) if size != 8 * GIB else (8, 33, 66, SMS):
                value = rate(ctx, kernel, base, size // chunk, chunk, width, counts, sms)
                rows.append(row(kernel, "chunks_per_cycle", value, "1/clk", chunk=chunk, mib=size / MIB, sms=sms))
    base.free()
    return rows


def scattered_pages(ctx: Context) -> list[Row]:
    """Random reads of 65536 lines that stay in L2, spread over few or many pages of 2 MiB: sectors a cycle."""
    rows: list[Row] = []
    pages = (16, 256) if ctx.model else (4, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)
    base = ctx.device.alloc(max(pages) * PAGE)
    for sms in (132,) if ctx.model else (1, 2, 16, 132):
        for number in pages:
            counts = (2, 4) if ctx.model else (8, 24)
            value = rate(ctx, "gather4", base, 1 << 16, 128, 4, counts, sms, number)
            rows.append(row("gather_pages", "sectors_per_cycle", value, "1/clk", pages=number, sms=sms))
    base.free()
    return rows


def scattered_atomics(ctx: Context) -> list[Row]:
    """Atomics on random words: lanes a cycle over the chip by kind and footprint."""
    rows: list[Row] = []
    sizes = (
        (64 * KIB, 512 * KIB, 4 * MIB) if ctx.model else (16 * KIB, 64 * KIB, 512 * KIB, 4 * MIB, 32 * MIB, 256 * MIB)
    )
    base = ctx.device.alloc(max(sizes) + 8192)
    counts = (2, 4) if ctx.model else (8, 24)
    for kernel in ("red_add", "red_f32", "red_f64", "atom_add", "atom_cas", "load_red"):
        width = 8 if kernel == "red_f64" else 4
        for size in sizes:
            base.zero()
            value = rate(ctx, kernel, base, size // width, width, width, counts)
            rows.append(row(kernel, "lanes_per_cycle", value, "1/clk", kib=size / KIB))
    base.free()
    return rows


KINDS = {
    "red_add": 4, "red_f32": 4, "red_f64": 8, "red_f16": 2, "red_f16x2": 4, "red_bf16x2": 4, "red_v4_f32": 16, "red_v4_f16x2": 16,
    "atom_add": 4, "atom_f32": 4, "atom_f16x2": 4,
}  # fmt: skip
"""Bytes of a lane by kind of atomic."""


def atomic_kinds(ctx: Context) -> list[Row]:
    """Atomics by kind: lanes a cycle over the chip on random words, and on random lines of which a warp's lanes take a word each."""
    rows: list[Row] = []
    sizes = (4 * MIB,) if ctx.model else (4 * MIB, 16 * MIB, 256 * MIB)
    base = ctx.device.alloc(max(sizes) + 8192)
    out = ctx.device.upload(np.zeros(2 * SMS, np.uint64))
    counts = (2, 4) if ctx.model else (8, 24)
    for kernel, width in KINDS.items():
        for size in sizes:
            for lanes in (1, 8, 32):
                base.zero()
                chunk = lanes * width
                args = [np.uint32(size // chunk - 1), np.uint64(chunk), np.uint32(lanes.bit_length() - 1), np.uint32(width),
                        np.uint32(0), np.uint32(0), np.uint64(PAGE)]  # fmt: skip
                found = []
                for n in counts:
                    best = np.inf
                    for _ in range(1 if ctx.model else 3):
                        seed = np.uint32(next(SEEDS) * 0x2545F491 & 0xFFFFFFFF)
                        own = [out, base, *args, seed, np.int32(n)]
                        ctx.module("scattered").launch(kernel, SMS, THREADS, own, ALONE)
                        best = min(best, elapsed(ctx, out, SMS))
                    found.append(best)
                value = (counts[1] - counts[0]) * SMS * THREADS / (found[1] - found[0])
                rows.append(row(kernel, "lanes_per_cycle", value, "1/clk", mib=size / MIB, lanes=lanes))
    for buffer in (base, out):
        buffer.free()
    return rows


def footprints(ctx: Context) -> list[Row]:
    """Additions on random words of small footprints: lanes a cycle over the chip, which the slice with most lines of them limits, by where they
    begin; where the driver places small arrays."""
    rows: list[Row] = []
    base = ctx.device.alloc(4 * MIB)
    for kib in (16, 32, 64, 128, 256, 512):
        for number in range(1 if ctx.model else 8):
            at = base if ctx.model else np.uint64(base.address + number * max(kib, 64) * KIB)
            value = rate(ctx, "red_f32", at, kib * 256, 4, 4, (2, 4) if ctx.model else (8, 24))
            rows.append(row("red_f32", "lanes_per_cycle", value, "1/clk", kib=kib, from_kib=number * max(kib, 64)))
    base.free()
    sizes = (72, 16, 512, 513, 1024, 4096, 65536, 16, MIB, 16, MIB + 1, 16, 3 * MIB)
    made = [ctx.device.alloc(size) for size in sizes]
    if not ctx.model:
        for size, buffer in zip(sizes, made, strict=True):
            rows.append(row("place", "bytes_into_2_mib", buffer.address % (2 * MIB), "bytes", size=size))
    for buffer in made:
        buffer.free()
    return rows


def columns(ctx: Context) -> list[Row]:
    """Stores of 32 lines a warp, neighbouring words by neighbouring warps: cycles a warp store over an SM's share."""
    rows: list[Row] = []
    base = ctx.device.alloc(SMS * 32 * 16512)
    out = ctx.device.upload(np.zeros(2 * SMS, np.uint64))
    for high in (1, 2, 8, 32):
        for pitch in (4096, 4224, 16384):
            found = []
            counts = (8, 16) if ctx.model or high == 32 else (16, 64)
            for tiles in counts:
                best = np.inf
                for _ in range(1 if ctx.model else 3):
                    args = [out, base, np.uint64(pitch), np.int32(tiles)]
                    ctx.module("scattered").launch("columns", SMS, (32, high), args, 0)
                    best = min(best, elapsed(ctx, out, SMS))
                found.append(best)
            per = (found[1] - found[0]) / ((counts[1] - counts[0]) * high)
            rows.append(row("columns", "cycles_per_warp_store_per_sm", per, "cycles", high=high, pitch=pitch))
    base.free()
    out.free()
    return rows


def turns(ctx: Context) -> list[Row]:
    """Contended compare-and-swap loops and ticket locks: cycles a success."""
    rows: list[Row] = []
    base = ctx.device.alloc(1 << 20)
    for kernel in ("cas_turns", "cas_turns64"):
        for blocks, lanes, cells in ((1, 1, 1), (12, 1, 1), (132, 1, 1), (12, 32, 1), (12, 32, 8), (132, 32, 32)):
            base.zero()
            out = ctx.device.upload(np.zeros(4 * blocks, np.uint64))
            many = 8 if lanes == 1 else 1
            ctx.module("scattered").launch(
                kernel, blocks, 64, [out, base, np.uint32(cells), np.uint32(lanes), np.int32(many)]
            )
            done = blocks * 2 * lanes * many
            polls = out.read(np.uint64, 4 * blocks).reshape(blocks, 4)[:, 2].astype(float)
            where = {"blocks": blocks, "lanes": lanes, "cells": cells}
            rows.append(row(kernel, "cycles_per_success", elapsed(ctx, out, blocks, 4) / done, "cycles", **where))
            rows.append(row(kernel, "first_thread_tries", float(polls.mean()) / many, "", **where))
            out.free()
    for fence in (0, 1):
        for blocks, lanes in ((1, 1), (2, 1), (16, 1), (64, 1), (1, 4), (64, 4)):
            base.zero()
            out = ctx.device.upload(np.zeros(2 * blocks, np.uint64))
            many = 16 if lanes == 1 else 2
            args = [out, base, np.int32(fence), np.uint32(lanes), np.int32(many)]
            ctx.module("scattered").launch("tickets", blocks, 32, args)
            per = elapsed(ctx, out, blocks) / (blocks * lanes * many)
            rows.append(row("tickets", "cycles_per_turn", per, "cycles", blocks=blocks, lanes=lanes, fence=fence))
            out.free()
    base.free()
    return rows


def scattered_once(ctx: Context) -> list[Row]:
    """One launch of each kind of traffic, for a profiler that counts what L2 looks up and finds."""
    base = ctx.device.alloc(128 * MIB)
    out = ctx.device.upload(np.zeros(1 << 16, np.uint64))
    paths, module = ctx.module("paths"), ctx.module("scattered")
    arrays = [ctx.device.alloc(16 * MIB) for _ in range(3)]
    for kernel, size in (("read", 16), ("read", 4), ("copy", 16)):
        for kib in (4, 64, 1024, 8192) if kernel == "read" and size == 16 else (8192,):
            n = (kib << 10) // size
            paths.launch(f"each_{kernel}{size}", -(-n // 256), 256, [out, *arrays, np.uint32(n)], 1024)
    for kernel, size, n in (
        *(("gather4", 128 * MIB, 0), ("gather4", 128 * MIB, 1), ("gather4", 4 * MIB, 1), ("gather4", 4 * MIB, 8)),
        *(("scatter4", 128 * MIB, 1), ("scatter4", 4 * MIB, 8), ("red_add", 4 * MIB, 4), ("red_add", 128 * MIB, 1)),
        *(("red_f32", 64 * KIB, 4), ("atom_cas", 4 * MIB, 4), ("atom_add", 128 * MIB, 1)),
    ):
        args = [np.uint32(size // 32 - 1), np.uint64(32), np.uint32(0), np.uint32(4), np.uint32(0), np.uint32(0),
                np.uint64(0), np.uint32(1)]  # fmt: skip
        module.launch(kernel, SMS, THREADS, [out, base, *args, np.int32(n)], ALONE)
    for step in (4, 8, 16, 32):
        args = [out, base, np.uint64(step), np.uint64(SMS * THREADS * step), np.int32(4)]
        ctx.module("stores").launch("strided4", SMS, THREADS, args, ALONE)
    for buffer in (*arrays, base, out):
        buffer.free()
    return []
