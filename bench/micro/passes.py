"""Passes of memory instructions: by sub-core, of wide shared loads by their lanes' words; MATCH and constants by one word a warp.

``sub_core_passes``: the same accesses by warps of one sub-core, of two and of four.  ``wide_words``: LDS.64 and LDS.128 whose lanes share words in
every way that tells how halves and quarters of a warp are joined.  ``matches``: MATCH by different values.  ``single_walks``: walks through constants
in which all lanes of a warp read one word, by SMs.  ``loads_beside``: shared loads and FFMAs in turn.  ``load_bursts``: several shared loads at once.  ``loads_in_turn``: of two patterns.  ``product_steps``: turns over the tiles of a
product.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from bench.micro.context import Context, Row, row
from bench.micro.memory import LANES, conflict, table
from bench.micro.start import sm_sets, walks

TAKING_PART = {"1": 0x1, "2 of one": 0x11, "4 of one": 0x1111, "2": 0x3, "4": 0xF, "8 of two": 0x3333, "16": 0xFFFF}
"""Warps of a block of 16 by the sub-cores that they are on (warp number modulo 4)."""


def sub_core_passes(ctx: Context) -> list[Row]:
    """Cycles per access over the SM, by the warps that make them."""
    rows: list[Row] = []
    base = ctx.device.alloc(1 << 20)
    ways = {f"way{k}": conflict(k, 4) for k in (2, 4, 8, 32)}
    lines = {f"lines{k}": LANES % k * 128 + LANES // k * 4 for k in (4, 8, 32)}
    for kernel, width in {"lds32": 4, "lds64": 8, "lds128": 16, "sts32": 4, "sts64": 8, "sts128": 16, "atoms": 4, "ldg32": 4, "ldg64": 8,
                          "ldg128": 16}.items():  # fmt: skip
        patterns = {"linear": LANES * width}
        if width > 4 and kernel.startswith("ld"):
            patterns["one"] = LANES * 0
        if width == 4:
            patterns |= lines if kernel == "ldg32" else ways
        for name, offsets in patterns.items():
            buffer = table(ctx, offsets)
            for warps, mask in TAKING_PART.items():
                per = ctx.slope("passes", f"part_{kernel}", 16, (base, buffer, np.uint32(mask)), 8, 24, 40960)
                rows.append(
                    row(
                        kernel,
                        "cycles_per_access_per_sm",
                        per / 16 / mask.bit_count(),
                        "cycles",
                        warps=warps,
                        pattern=name,
                    )
                )
            buffer.free()
    base.free()
    return rows


def wide_patterns(width: int) -> dict[str, np.ndarray]:
    """Byte offsets of 32 lanes' words of 8 or 16 bytes."""
    lanes, row_lanes = LANES, 128 // width  # lanes whose words fill the 32 banks
    found = {f"by{k}": lanes // k * width for k in (2, 4, 8, 16)} | {f"of{k}": lanes % k * width for k in (2, 4, 8, 16)}
    half, within = lanes // 16, lanes % 16
    found["halves_apart2"] = within % (row_lanes // 2) * width + within // (row_lanes // 2) * 128 + half * 64
    found["one_and_row"] = np.where(half == 0, 0, within % row_lanes * width)
    found["one_and_next_row"] = np.where(half == 0, 0, 128 + within % row_lanes * width)
    found["two_words"] = half * width
    found["two_rows"] = half * 128
    found["four_rows"] = lanes // 8 * 256
    found["four_words"] = lanes // 8 * width
    quarter = lanes // 8
    found["quarters_apart"] = quarter % 2 * 64 + lanes % (64 // width) * width
    found["quarters_02"] = np.where(quarter % 2 == 0, 0, 128) + lanes % row_lanes * width % 128
    found["odd_lanes_next_row"] = lanes % 2 * 128 + lanes // 2 % row_lanes * width
    rng = np.random.default_rng(5)
    for n in range(6):
        found[f"random{n}"] = rng.integers(0, 1024 // width, 32) * width
    for n in range(6):
        found[f"random_of8_{n}"] = rng.choice(rng.integers(0, 1024 // width, 8), 32) * width
    for n in range(4):
        found[f"random_halves{n}"] = np.tile(rng.permutation(1024 // width)[:16], 2) * width
    for n in range(4):
        found[f"random_pairs{n}"] = np.repeat(rng.permutation(1024 // width)[:16], 2) * width
    for n in range(3):
        found[f"shuffled{n}"] = rng.permutation(32) * width
    return found


def wide_words(ctx: Context) -> list[Row]:
    """Cycles per access of 16 warps."""
    rows: list[Row] = []
    for kernel, width in (("lds64", 8), ("lds128", 16)):
        for name, offsets in wide_patterns(width).items():
            buffer = table(ctx, offsets)
            per = ctx.slope("shared", kernel, 16, (buffer,), 8, 24, 40960) / 256
            rows.append(row(kernel, "cycles_per_access_per_sm", per, "cycles", pattern=name))
            buffer.free()
    return rows


def loads_beside(ctx: Context) -> list[Row]:
    """Cycles of a shared load and so many FFMAs behind it, by sub-core."""
    rows: list[Row] = []
    one = np.float32(1)
    for bits in (32, 64, 128):
        lanes_of_row = LANES % 16 * (bits // 8)
        for name, offsets in {"linear": LANES * (bits // 8), "one": LANES * 0, "of16": lanes_of_row}.items():
            buffer = table(ctx, offsets)
            for fmas in (0, 2, 4, 8, 16, 32):
                for warps in (1, 4, 8, 16):
                    per = ctx.slope("passes", f"beside_{bits}_{fmas}", warps, (buffer, one, one), 8, 24, 40960) / 8
                    where = {"pattern": name, "fmas": fmas, "warps": warps}
                    rows.append(row(f"lds{bits}", "cycles_each", per / -(-warps // 4), "cycles", **where))
            buffer.free()
    return rows


def load_bursts(ctx: Context) -> list[Row]:
    """Cycles of a turn of so many shared loads, or hits in L1, at once, each turn behind the words of the one before."""
    rows: list[Row] = []
    base = ctx.device.upload(np.zeros(1 << 16, np.uint8))
    for bits in (32, 64, 128):
        size = bits // 8
        patterns = {
            "linear": LANES * size,
            "one": LANES * 0,
            "of16": LANES % 16 * size,
            "two_words": LANES // 16 * size,
        }
        for name, offsets in patterns.items():
            buffer = table(ctx, offsets)
            for unit, loads, warps in product(("lds", "ldg"), (1, 2, 4, 8), (1, 2, 4, 8, 16)):
                per = ctx.slope("passes", f"burst_{unit}{bits}_{loads}", warps, (base, buffer), 8, 24, 40960)
                where = {"pattern": name, "loads": loads, "warps": warps}
                rows.append(row(f"{unit}{bits}", "cycles_per_turn", per, "cycles", **where))
            buffer.free()
    base.free()
    return rows


def loads_in_turn(ctx: Context) -> list[Row]:
    """Cycles of a turn of LDS.128 of two patterns, one after the other, as the tiles of a product are read."""
    rows: list[Row] = []
    tables = {"of16": table(ctx, LANES % 16 * 16), "two_words": table(ctx, LANES // 16 * 16), "linear": table(ctx, LANES * 16),
              "one": table(ctx, LANES * 0)}  # fmt: skip
    pairs = (("of16", "two_words"), ("linear", "one"), ("of16", "of16"), ("two_words", "two_words"))
    for (x, y), loads, warps in product(pairs, (2, 4, 8), (1, 4, 8, 16)):
        args = (tables[x], tables[y])
        per = ctx.slope("passes", f"two_tables_{loads}", warps, args, 8, 24, 40960)
        rows.append(row(f"{x} {y}", "cycles_per_turn", per, "cycles", loads=loads, warps=warps))
    for buffer in tables.values():
        buffer.free()
    return rows


def product_steps(ctx: Context) -> list[Row]:
    """Cycles of a turn over tiles in shared memory, 1, 16 or 64 elements of the product for a thread."""
    rows: list[Row] = []
    for side in (1, 4, 8):
        for way, what in enumerate(("tiles", "barrier", "stores")):
            for warps in (8, 16, 32) if side == 1 else (1, 4, 8):
                per = ctx.slope("passes", f"product_{side}_{way}", warps, (np.float32(0),), 8, 24, 40960)
                rows.append(row(f"product_{side}", "cycles_per_turn", per, "cycles", turn=what, warps=warps))
    return rows


def matches(ctx: Context) -> list[Row]:
    """A chain of MATCH and LOP, and independent ones by 1, 4 and 16 warps, by different values among the lanes."""
    rows: list[Row] = []
    for kernel in ("match_any32", "match_any64", "match_all32"):
        for values in (1, 2, 4, 8, 16, 32):
            buffer = table(ctx, LANES % values)
            for warps, chain in ((1, 1), (1, 0), (4, 0), (16, 0)):
                args = (buffer, np.uint32(0))
                per = ctx.slope("passes", kernel, warps, args, 16, 48, after=(np.int32(chain),)) / 8 / warps
                where = {"values": values, "warps": warps, "chain": chain}
                rows.append(row(kernel, "cycles_per_match_per_sm", per, "cycles", **where))
            buffer.free()
    return rows


def single_walks(ctx: Context) -> list[Row]:
    """Cycles of a step of each SM where all lanes of a warp read one word: 256 or 64 lines of constants, by warps and SMs."""
    rows: list[Row] = []
    rng = np.random.default_rng(3)
    module = ctx.module("start")
    for words in (4096, 1024):
        order = rng.permutation(words)
        walked = np.zeros(4096, np.uint32)
        walked[order] = np.roll(order, -1) * 4
        module.write_symbol("walked", walked)
        for warps in (2, 8, 32):
            start = ctx.device.upload((np.repeat(rng.choice(words, warps, replace=False), 32) * 4).astype(np.uint32))
            for name, sms in sm_sets(ctx).items():
                spans = walks(ctx, start, warps, sms, (32, 96) if ctx.model else (256, 768))
                steps = (64 if ctx.model else 512) * warps
                per = float(np.mean(spans[1]) - np.mean(spans[0])) / steps
                rows.append(
                    row(
                        "single_walk",
                        "cycles_per_word",
                        per,
                        "cycles",
                        set=name,
                        sms=len(sms),
                        warps=warps,
                        words=words,
                    )
                )
    return rows
