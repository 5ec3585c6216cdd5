"""Atomics that meet at L2: what a word, a sector, a line and a slice can take, from one SM and from all."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row

LANES = np.arange(32)
KERNELS = (
    *("red_add", "red_min", "red_inc", "red_f32", "red_f64", "red_f16x2", "red_u64"),
    *("atom_add", "atom_exch", "atom_cas", "atom_f16x2", "atom_cas64", "store"),
)
PATTERNS: dict[str, tuple[np.ndarray, int]] = {
    "lane1": (LANES * 0, 1),
    "lane2_same": (LANES * 0, 3),
    "lane4_same": (LANES * 0, 15),
    "lane32_same": (LANES * 0, 0xFFFFFFFF),
    "lane2_words": (LANES * 8, 3),
    "lane4_words": (LANES * 8, 15),
    "lane4_sectors": (LANES % 4 * 32, 15),
    "lane32_sectors": (LANES % 4 * 32, 0xFFFFFFFF),
    "lane32_4words": (LANES % 4 * 8, 0xFFFFFFFF),
    "linear": (LANES * 4, 0xFFFFFFFF),
    "scattered4": (LANES * 40 % 128, 0x01010101),
    "lane8_lines": (LANES * 128, 0xFF),
    "lane32_lines": (LANES * 128, 0xFFFFFFFF),
    "random1k": (np.random.default_rng(1).integers(0, 128, 32) * 8, 0xFFFFFFFF),
}
"""Byte offset of each lane (all fit 8-byte words), and which lanes take part."""
ORDERS: dict[str, tuple[np.ndarray, int]] = {
    "by_turns_4words": (LANES % 4 * 8, 0xFFFFFFFF),
    "in_runs_4words": (LANES // 8 * 8, 0xFFFFFFFF),
    "in_runs_2words": (LANES // 16 * 8, 0xFFFFFFFF),
    "in_pairs": (LANES // 2 * 8 % 32, 0xFFFFFFFF),
    "in_runs_4sectors": (LANES // 8 * 32, 0xFFFFFFFF),
    "in_runs_4lines": (LANES // 8 * 128, 0xFFFFFFFF),
    "in_runs_8words_2sectors": (LANES // 4 * 8, 0xFFFFFFFF),
}
"""Which lanes share a word: neighbours, or lanes some apart."""
STEPS = {"one_place": (0, 0), "next_word": (8, 0), "next_sector": (32, 0), "next_line": (128, 0), "8_pages": (4096, 0)}
"""Bytes between the eight operations of an iteration; and between warps."""


def contended(ctx: Context) -> list[Row]:
    """Cycles a warp instruction over the whole chip (8 warps an SM) and from a single SM."""
    rows: list[Row] = []
    base = ctx.device.alloc(64 << 20)
    for kernel in KERNELS:
        for pattern, (offsets, mask) in PATTERNS.items():
            if pattern == "linear" and "64" in kernel:
                offsets = offsets * 2
            few = kernel not in ("red_add", "atom_add")
            table = ctx.device.upload(np.append(offsets, 0).astype(np.uint32))
            for name, (step, warp_step) in STEPS.items():
                if few and name in ("next_word", "next_line", "next_sector"):
                    continue
                for sms in (1, 132):
                    if sms == 1 and (few or ctx.model):
                        continue
                    seconds = []
                    counts = (1, 3) if ctx.model else (2, 10) if sms > 1 else (2, 66)
                    for n in counts:
                        args = [
                            ctx.words,
                            base,
                            table,
                            np.uint32(mask),
                            np.uint32(step),
                            np.uint32(warp_step),
                            np.int32(n),
                        ]
                        tries = 3 if not ctx.model else 1
                        module = ctx.module("atomic")
                        seconds.append(min(module.launch(kernel, sms, 256, args) for _ in range(tries)))
                    operations = (counts[1] - counts[0]) * 8 * 8 * sms
                    cycles = (seconds[1] - seconds[0]) * 1.98e9 / operations
                    rows.append(row(kernel, "chip_cycles_per_warp_instruction", cycles, "cycles", pattern=pattern,
                                    step=name, sms=sms))  # fmt: skip
            table.free()
    base.free()
    return rows


def hot_words(ctx: Context) -> list[Row]:
    """Chip cycles a warp instruction where some lanes of every warp add to a few words that all share, the others to words at random of 1 MiB."""
    rows: list[Row] = []
    base, rng, threads = ctx.device.alloc(1 << 20), np.random.default_rng(5), 132 * 256
    for words, lanes in (
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 4),
        (1, 8),
        (1, 16),
        (1, 32),
        (4, 4),
        (4, 8),
        (32, 8),
        (1024, 32),
        (0, 0),
    ):
        places = rng.integers(0, 1 << 18, (8, threads // 32, 32))
        if words:
            hot = rng.permuted(np.broadcast_to(lanes > LANES, places.shape), axis=2)
            places = np.where(hot, rng.integers(0, words, (8, threads // 32, 1)) * 4099 % (1 << 18), places)
        else:  # as many words share as a text's words do
            places = rng.zipf(1.3, places.shape) * 7919 % (1 << 18)
        table = ctx.device.upload((places.ravel() * 4).astype(np.uint32))
        seconds = []
        for n in (1, 3):
            tries = 3 if not ctx.model else 1
            args = [ctx.words, base, table, np.int32(n)]
            seconds.append(min(ctx.module("atomic").launch("red_table", 132, 256, args) for _ in range(tries)))
        cycles = (seconds[1] - seconds[0]) * 1.98e9 / (2 * 8 * threads // 32)
        rows.append(row("hot_words", "chip_cycles_per_warp_instruction", cycles, "cycles", words=words, lanes=lanes))
        table.free()
    base.free()
    return rows


def ordered(ctx: Context) -> list[Row]:
    """As `contended` on one place, by the order in which lanes name the words of a sector."""
    rows: list[Row] = []
    base = ctx.device.alloc(1 << 20)
    for kernel in ("red_add", "red_f32", "red_f64", "atom_add", "atom_cas"):
        for pattern, (offsets, mask) in ORDERS.items():
            table = ctx.device.upload(np.append(offsets, 0).astype(np.uint32))
            seconds = []
            counts = (1, 3) if ctx.model else (2, 10)
            for n in counts:
                args = [ctx.words, base, table, np.uint32(mask), np.uint32(0), np.uint32(0), np.int32(n)]
                tries = 1 if ctx.model else 3
                seconds.append(min(ctx.module("atomic").launch(kernel, 132, 256, args) for _ in range(tries)))
            cycles = (seconds[1] - seconds[0]) * 1.98e9 / ((counts[1] - counts[0]) * 8 * 8 * 132)
            rows.append(row(kernel, "chip_cycles_per_warp_instruction", cycles, "cycles", pattern=pattern))
            table.free()
    base.free()
    return rows
