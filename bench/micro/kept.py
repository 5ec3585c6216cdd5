"""What L1 keeps of stores: scripts of accesses on one line, or on columns of 32 of them, each load timed (112 cycles, of columns 175: L1
had all of it; 290 and more: L2 was asked)."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row

LOAD, STORE, STORE_16, LOAD_16, RED, ATOM, STRONG_STORE, BYTE_STORE, STRONG_LOAD, FENCE, LOAD_NC, STORE_CG, LOAD_CG = (
    range(13)
)
LOADS = (LOAD, LOAD_16, STRONG_LOAD, LOAD_NC, LOAD_CG)
ALL = 0xFFFFFFFF
SECTOR = 0xFF


def step(kind: int, lanes: int = ALL, warp: int = 0, first: int = 0, between: int = 1) -> int:
    """One step of a script: ``lanes`` of a warp, whose words begin at ``first`` and lie ``between`` words apart."""
    return lanes | kind << 32 | warp << 36 | first << 40 | between << 52


SCRIPTS: dict[str, list[int]] = {
    "load, load": [step(LOAD), step(LOAD)],
    "line stored, load": [step(STORE), step(LOAD)],
    "line stored by the other warp, load": [step(STORE, warp=1), step(LOAD)],
    "load, word stored, load, load": [step(LOAD), step(STORE, 1), step(LOAD), step(LOAD)],
    "line stored, word stored, load, load": [step(STORE), step(STORE, 1), step(LOAD), step(LOAD)],
    "line stored, load, word stored, load, load": [step(STORE), step(LOAD), step(STORE, 1), step(LOAD), step(LOAD)],
    "line stored, word stored by the other warp, load": [step(STORE), step(STORE, 1, warp=1), step(LOAD)],
    "line stored, sector stored, load": [step(STORE), step(STORE, SECTOR), step(LOAD)],
    "line stored, two sectors stored, load": [step(STORE), step(STORE, 0xFFFF), step(LOAD)],
    "line stored, even words stored, load": [step(STORE), step(STORE, 0x55555555), step(LOAD)],
    "line stored twice, load": [step(STORE), step(STORE), step(LOAD)],
    "load, line stored, load": [step(LOAD), step(STORE), step(LOAD)],
    "load, sector stored, load of it": [step(LOAD), step(STORE, SECTOR), step(LOAD, SECTOR)],
    "load, sector stored, load of another": [step(LOAD), step(STORE, SECTOR), step(LOAD, SECTOR << 8)],
    "load, word stored, load of another sector": [step(LOAD), step(STORE, 1), step(LOAD, SECTOR << 8)],
    "load, word stored, load of it": [step(LOAD), step(STORE, 1), step(LOAD, 1)],
    "load, word stored, load of its neighbour": [step(LOAD), step(STORE, 1), step(LOAD, 2)],
    "sector stored, load of it": [step(STORE, SECTOR), step(LOAD, SECTOR)],
    "sector stored, load of another": [step(STORE, SECTOR), step(LOAD, SECTOR << 8)],
    "word stored, load of it": [step(STORE, 1), step(LOAD, 1)],
    "word stored, load, word stored, load": [step(STORE, 1), step(LOAD), step(STORE, 2), step(LOAD)],
    "halves stored, load": [step(STORE, 0xFFFF), step(STORE, 0xFFFF0000), step(LOAD)],
    "halves stored by two warps, load": [step(STORE, 0xFFFF), step(STORE, 0xFFFF0000, warp=1), step(LOAD)],
    "sectors stored, load": [*(step(STORE, SECTOR << 8 * k) for k in range(4)), step(LOAD)],
    "even, odd words stored, load": [step(STORE, 0x55555555), step(STORE, 0xAAAAAAAA), step(LOAD)],
    "load, even, odd words stored, load": [step(LOAD), step(STORE, 0x55555555), step(STORE, 0xAAAAAAAA), step(LOAD)],
    "words stored by stride 2 in two lines, load": [step(STORE, between=2), step(STORE, first=1, between=2), step(LOAD)],
    "load, half stored, load of the half": [step(LOAD), step(STORE, 0xFFFF), step(LOAD, 0xFFFF)],
    "load, half stored, load of the other": [step(LOAD), step(STORE, 0xFFFF), step(LOAD, 0xFFFF0000)],
    "16 bytes a lane stored, load": [step(STORE_16, between=4), step(LOAD_16, between=4)],
    "16 bytes by 8 lanes stored, load": [step(STORE_16, SECTOR, between=4), step(LOAD_16, SECTOR, between=4)],
    "line stored, next line's word stored, load": [step(STORE), step(STORE, 1, first=32), step(LOAD)],
    "line stored, 31 words stored, load": [step(STORE), step(STORE, 0x7FFFFFFF), step(LOAD)],
    "load, 31 words stored, load": [step(LOAD), step(STORE, 0x7FFFFFFF), step(LOAD)],
    "load, word added, load, load": [step(LOAD), step(RED, 1), step(LOAD), step(LOAD)],
    "load, word added, load of another sector": [step(LOAD), step(RED, 1), step(LOAD, SECTOR << 8)],
    "load, word added with a result, load, load": [step(LOAD), step(ATOM, 1), step(LOAD), step(LOAD)],
    "line stored, word added, load": [step(STORE), step(RED, 1), step(LOAD)],
    "load, line stored strong, load": [step(LOAD), step(STRONG_STORE), step(LOAD)],
    "load, word stored strong, load": [step(LOAD), step(STRONG_STORE, 1), step(LOAD)],
    "line stored strong, load": [step(STRONG_STORE), step(LOAD)],
    "line stored past L1, load": [step(STORE_CG), step(LOAD)],
    "load, line stored past L1, load": [step(LOAD), step(STORE_CG), step(LOAD)],
    "byte stored, load of it, load of the word": [step(BYTE_STORE, 1), step(LOAD, 1), step(LOAD, 1)],
    "load, byte stored, load": [step(LOAD), step(BYTE_STORE, 1), step(LOAD)],
    "load, bytes stored, load": [step(LOAD), step(BYTE_STORE), step(LOAD)],
    "load, strong load, load": [step(LOAD), step(STRONG_LOAD), step(LOAD)],
    "load past L1, load": [step(LOAD_CG), step(LOAD)],
    "line stored, load past L1, load": [step(STORE), step(LOAD_CG), step(LOAD)],
    "line stored, strong load, load": [step(STORE), step(STRONG_LOAD), step(LOAD)],
    "line stored, load without coherence": [step(STORE), step(LOAD_NC)],
    "line stored, fence, load": [step(STORE), step(FENCE, 1), step(LOAD)],
    "word stored, load of its neighbour, load of it": [step(STORE, 1), step(LOAD, 2), step(LOAD, 1)],
    "word stored, load of another sector, load of it": [step(STORE, 1), step(LOAD, SECTOR << 8), step(LOAD, 1)],
}  # fmt: skip
ROWS = 32
PITCH = 33


def columns(*kinds: int, count: int = 6, lanes: int = ALL, first: int = 0) -> list[int]:
    """Accesses of columns of an array of rows of 33 words, a word in each of 32 lines."""
    return [step(kind, lanes, first=column, between=PITCH) for column in range(first, first + count) for kind in kinds]


STORED_ROWS = [step(STORE, first=PITCH * r) for r in range(ROWS)]
SCRIPTS |= {
    f"words of {n} lines stored, load of them": [*columns(STORE, LOAD, count=1, lanes=(1 << n) - 1)]
    for n in (2, 4, 8, 16, 32)
}
SCRIPTS |= {
    "words of 32 lines stored, load of their neighbours, of them": [*columns(STORE, count=1), *columns(LOAD, count=2)[::-1]],
    "rows stored, columns loaded": [*STORED_ROWS, *columns(LOAD)],
    "rows stored, columns loaded and stored": [*STORED_ROWS, *columns(LOAD, STORE)],
    "rows and what lies between stored, columns loaded and stored": [*STORED_ROWS, *columns(STORE, count=1, first=32), *columns(LOAD, STORE)],
    "rows loaded, columns loaded and stored": [*(step(LOAD, first=PITCH * r) for r in range(ROWS)), *columns(LOAD, STORE)],
    "rows stored by the other warp, columns loaded and stored": [*(s | 1 << 36 for s in STORED_ROWS), *columns(LOAD, STORE)],
    "words of a line stored one by one, load": [*(step(STORE, 1, first=i) for i in range(32)), step(LOAD), step(LOAD)],
    "words of a sector stored one by one, load of it": [*(step(STORE, 1, first=i) for i in range(8)), step(LOAD, SECTOR), step(LOAD, SECTOR)],
    "words of a line stored one by one by the other warp, load": [*(step(STORE, 1, 1, i) for i in range(32)), step(LOAD), step(LOAD)],
    "load, words of a line stored one by one, load": [step(LOAD), *(step(STORE, 1, first=i) for i in range(32)), step(LOAD)],
    "half stored, words of it stored, load of it": [step(STORE, 0xFFFF), step(STORE, 0x5A31), step(LOAD, 0xFFFF)],
    "halves stored by two warps, words of both stored, load of one": [
        step(STORE, 0xFFFF), step(STORE, 0xFFFF0000, 1), step(STORE, 0x5A31), step(STORE, 0x5A310000, 1), step(LOAD, 0xFFFF)],
    "seven words of a sector stored, two of them loaded, stored, loaded": [
        step(STORE, 0x7F), step(LOAD, 6), step(STORE, 6), step(LOAD, 6), step(STORE, 6), step(LOAD, 6)],
    "a line but a word stored, sectors loaded": [
        step(STORE, 0x7FFFFFFF), step(LOAD, 0xFF), step(LOAD, 0xFF00), step(LOAD, 0xFF0000), step(LOAD, 0x7F000000)],
    "a line but a word stored, all others loaded": [step(STORE, 0x7FFFFFFF), step(LOAD, 0x7FFFFFFF), step(LOAD, 0x7FFFFFFF)],
    "31 words from the last of a line on stored, load of them": [step(STORE, 0x7FFFFFFF, first=31), step(LOAD, 0x7FFFFFFF, first=31)],
    "stored across two lines, load of them": [step(STORE, first=5), step(LOAD, first=5), step(STORE, first=5), step(LOAD, first=5)],
}  # fmt: skip
LINES = 32
WORDS_APART = 32 * 33


def kept(ctx: Context) -> list[Row]:
    """Cycles of each load of a script, in the order of its steps; median of 32 lines, with steps at once and 2,000 cycles apart, with
    and without block barriers between them (two warps, one)."""
    rows: list[Row] = []
    base = ctx.device.alloc(1 << 20)
    base.zero()
    for name, script in SCRIPTS.items():
        steps = ctx.device.upload(np.array(script, np.uint64))
        for warps, gap, apart in (
            (2, 0, WORDS_APART),
            (2, 2000, WORDS_APART),
            (1, 0, WORDS_APART),
            (1, 2000, WORDS_APART),
        ):
            if warps == 1 and any(s >> 36 & 1 for s in script):
                continue
            out = ctx.device.upload(np.zeros(8192, np.uint32))
            args = [out, base, np.int32(LINES), steps, np.int32(len(script)), np.uint32(gap), np.uint64(apart)]
            ctx.module("kept").launch("kept_steps", 1, 32 * warps, [*args, np.int32(warps - 1)], 4096)
            cycles = np.median(out.read(np.uint32, LINES * len(script)).reshape(LINES, -1)[1:], axis=0)
            loads = [float(c) for c, s in zip(cycles, script, strict=True) if s >> 32 & 15 in LOADS]
            rows.append(row("kept", "load_cycles", loads[-1], "cycles", script=name, warps=warps, gap=gap, apart=4 * apart,
                            loads=loads))  # fmt: skip
            out.free()
        steps.free()
    for apart in (1024, WORDS_APART):
        for kind, name in ((0, "store, load"), (1, "load, store, load")):
            for lanes in (1, 8, 32):
                for gap in (0, 2000):
                    out = ctx.device.upload(np.zeros(8192, np.uint32))
                    args = [out, base, np.int32(64), np.int32(kind), np.int32(lanes), np.uint32(gap), np.uint64(apart)]
                    ctx.module("kept").launch("kept_plain", 1, 32, args, 1024)
                    cycles = out.read(np.uint32, 64)
                    rows.append(row("kept_plain", "load_cycles", float(np.median(cycles)), "cycles", after=name, lanes=lanes,
                                    gap=gap, apart=4 * apart, all=cycles[:8].tolist()))  # fmt: skip
                    out.free()
    base.free()
    return rows


COLUMNS = [(pitch, lanes, kind) for pitch in (33, 40, 32) for lanes in (1, 8, 32) for kind in (0, 1, 2, 5)] + [
    (33, lanes, 1) for lanes in (2, 4, 16, 24)
]
STREAMS = [(apart, kind, shared) for apart in (100, 128, 64) for kind in (0, 1, 2, 3) for shared in (0, 16384)]
COLUMN_COUNT, STREAM_STEPS = 32, 256


def kept_once(ctx: Context) -> list[Row]:
    """Columns loaded and stored with nothing between, and streams of two-byte words, one launch each (`COLUMNS`, `STREAMS`), for a profiler that counts what
    L1 has."""
    base, other = ctx.device.alloc(1 << 20), ctx.device.alloc(1 << 20)
    base.zero()
    for pitch, lanes, kind in COLUMNS:
        args = [base, other, np.int32(pitch), np.int32(lanes), np.int32(COLUMN_COUNT), np.int32(kind)]
        ctx.module("kept").launch("kept_columns", 1, 32, args)
    for apart, kind, shared in STREAMS:
        args = [base, other, np.int32(apart), np.int32(STREAM_STEPS), np.int32(kind)]
        ctx.module("kept").launch("kept_streams", 1, 128, args, shared)
    base.free()
    other.free()
    return []


PRODUCTS = (0, 1, 2, 3, 4, 6, 8, 12, 16)
PAIRS = {
    "halves of a line": (0xFFFF, 0, 0xFFFF, 16),
    "a sector, three sectors": (SECTOR, 0, 0xFFFFFF, 8),
    "three sectors, a sector": (0xFFFFFF, 8, SECTOR, 0),
    "across lines, sectors apart": (ALL, 8, ALL, 48),
    "across lines, a word apart": (ALL, 1, ALL, 34),
    "across lines, a word apart in the second sector": (ALL, 9, ALL, 42),
    "halves of a sector": (0xF, 0, 0xF, 4),
    "a word, three sectors": (1, 0, 0xFFFFFF, 8),
    "seven words, three sectors": (0x7F, 0, 0xFFFFFF, 8),
    "three sectors, seven words": (0xFFFFFF, 8, 0x7F, 0),
    "a line twice": (ALL, 0, ALL, 0),
    "two lines": (ALL, 0, ALL, 32),
    "a word, the next one": (1, 0, 1, 1),
    "a line but a word, the next line but a word": (0x7FFFFFFF, 0, 0x7FFFFFFF, 32),
}
"""Two stores behind each other: lanes and first word of each."""
COLUMN_PITCHES = (33, 40, 34, 36, 48, 32)


def ends_of_sectors(words: set[int]) -> list[int]:
    """The first and the last of the words in each sector."""
    sectors: dict[int, list[int]] = {}
    for word in sorted(words):
        sectors.setdefault(word // 8, []).append(word)
    return sorted({end for held in sectors.values() for end in (held[0], held[-1])})


def kept_behind(ctx: Context) -> list[Row]:
    """Stores behind each other with 0 to 16 products between, then cycles of a load by one lane for the ends of each stored sector; and the
    cycles of each column of ``kept_columns``, whose code has run before."""
    rows: list[Row] = []
    base, other = ctx.device.alloc(1 << 20), ctx.device.alloc(1 << 20)
    module = ctx.module("kept")

    def found(kernel: str, words: set[int], args: list[object], **where: object) -> None:
        ends = ends_of_sectors(words)
        probes, out = ctx.device.upload(np.array(ends, np.uint32)), ctx.device.upload(np.zeros(8192, np.uint32))
        rounds = 4
        module.launch(
            kernel,
            1,
            32,
            [out, base, np.int32(rounds), np.uint64(WORDS_APART), *args, probes, np.int32(len(ends))],
            4096,
        )
        cycles = out.read(np.uint32, rounds * len(ends)).reshape(rounds, -1)
        rows.append(row(kernel.rpartition("_")[0], "loads_beyond_l1", float((cycles[1:] > 200).sum(axis=1).mean()), "loads", **where,
                        words=ends, cycles=cycles.tolist()))  # fmt: skip
        probes.free()
        out.free()

    for turns in PRODUCTS:
        for name, (mask_a, first_a, mask_b, first_b) in PAIRS.items():
            words = {
                first + i for mask, first in ((mask_a, first_a), (mask_b, first_b)) for i in range(32) if mask >> i & 1
            }
            shape = [np.uint32(mask_a), np.uint32(first_a), np.uint32(mask_b), np.uint32(first_b)]
            found(f"kept_pairs_{turns}", words, shape, stores=name, products=turns)
        for pitch in COLUMN_PITCHES:
            words = {r * pitch + i for r in range(32) for i in range(32)}
            found(f"kept_rows_{turns}", words, [np.int32(pitch)], pitch=pitch, products=turns)
    for pitch in (33, 40, 36):
        for lanes in (8, 16, 20, 24, 28, 32):
            for kind in (0, 1, 2):
                for gap in (0, 2000):
                    out = ctx.device.upload(np.zeros(8192, np.uint32))
                    args = [np.int32(pitch), np.int32(lanes), np.int32(COLUMN_COUNT), np.int32(kind), np.uint32(gap)]
                    module.launch(
                        "kept_column_times",
                        1,
                        32,
                        [out, base, other, np.int32(3), np.uint64(2 * WORDS_APART), *args],
                        4096,
                    )
                    clocks = out.read(np.uint32, 3 * 2 * COLUMN_COUNT).reshape(3, 2, COLUMN_COUNT)
                    cycles = np.diff(clocks, axis=2)
                    rows.append(row("kept_column_times", "cycles_of_a_column", float(cycles[1:, 0].mean()), "cycles", pitch=pitch, lanes=lanes,
                                    kind=kind, gap=gap, cycles=cycles.tolist()))  # fmt: skip
                    out.free()
    base.free()
    other.free()
    return rows


CROWD = [
    (pitch, warps, lanes, kind)
    for pitch in (33, 40, 32)
    for warps in (1, 2, 4, 8, 16, 32)
    for lanes in (8, 32)
    for kind in (0, 1, 2)
]
CROWD_APART = 1440


def kept_crowd_once(ctx: Context) -> list[Row]:
    """Columns loaded and stored by 1 to 32 warps of an SM, each on an array of its own, one launch each (`CROWD`), for a profiler."""
    base, other = ctx.device.alloc(1 << 20), ctx.device.alloc(1 << 20)
    base.zero()
    for pitch, warps, lanes, kind in CROWD:
        shape = [np.int32(n) for n in (CROWD_APART, pitch, lanes, COLUMN_COUNT, kind)]
        ctx.module("kept").launch("kept_crowd", 1, 32 * warps, [base, other, *shape])
    base.free()
    other.free()
    return []


ELIMINATIONS = [
    (pitch, lanes, steps, order, loaded)
    for pitch in (33, 36, 40, 32, 64)
    for lanes in (1, 8, 16, 24, 32)
    for steps in (1, 4, 31)
    for order in (0, 1)
    for loaded in (0, 1, 2)
]


def kept_elimination_once(ctx: Context) -> list[Row]:
    """Rows of an array worked on by a lane each, next words loaded before or behind the store of the one before, one launch each (`ELIMINATIONS`), for a profiler."""
    base = ctx.device.alloc(1 << 20)
    base.zero()
    for shape in ELIMINATIONS:
        ctx.module("kept").launch("kept_elimination", 1, 32, [base, *(np.int32(n) for n in shape)])
    base.free()
    return []


PREPARED = {
    "nothing": (0, 0),
    "word 0 stored": (2, 1),
    "words of two sectors stored": (2, 0x101),
    "words of four sectors stored": (2, 0x1010101),
    "its sector but a word stored": (2, 0xFD),
    "a sector and a word of another stored": (2, 0x100FF),
    "two sectors but a word of each stored": (2, 0xFEFE),
    "its sector loaded": (1, SECTOR),
    "another sector loaded": (1, SECTOR << 16),
}
"""What a warp did to a line before: by ``kept_in_flight``'s number and the lanes that did it."""
ELSEWHERE = 64
IN_FLIGHT = [
    (before, load, store, delay)
    for before in PREPARED
    for load in (1, 9, 17)
    for store, delays in ((2, (40, 250, 3000)), (10, (40, 3000)), (18, (40, 3000)), (ELSEWHERE, (40,)))
    for delay in delays
]
"""What was done to a line; then the words that one lane loads and, so many cycles later, stores."""
PROBED = (0, 1, 2, 3, 8, 9, 10, 16, 17, 18, 19, 24)
"""Words that are loaded when all is quiet, each in a launch of its own."""


def kept_in_flight(ctx: Context) -> list[Row]:
    """Cycles of a load of each of ``PROBED`` of a line that was loaded and, while the load was on its way or later, stored to: median of eight lines."""
    rows: list[Row] = []
    base = ctx.device.alloc(1 << 20)
    base.zero()
    module = ctx.module("kept")
    for before, load, store, delay in IN_FLIGHT:
        kind, lanes = PREPARED[before]
        cycles = []
        for probed in PROBED:
            words = [np.uint32(v) for v in (lanes, load, delay, store, probed)]
            args = [ctx.words, base, np.int32(8), np.uint64(WORDS_APART), np.int32(kind), *words]
            module.launch("kept_in_flight", 1, 32, args, 1024)
            cycles.append(float(np.median(ctx.words.read(np.uint32, 8)[1:])))
        beyond = float(sum(c > 150 for c in cycles))
        where = {"before": before, "load": load, "store": store, "delay": delay, "cycles": cycles}
        rows.append(row("kept_in_flight", "loads_beyond_l1", beyond, "loads", **where))
    base.free()
    return rows
