"""Warps that want one word: what an attempt takes beside others, which fail; what plain loads see of words written elsewhere."""

from __future__ import annotations

import numpy as np

from bench.device import Buffer
from bench.micro.context import Context, Row, row

KINDS = ("look_volatile", "look_acquire", "look_cas", "look_cas_done", "look_add", "look_exchange")
CROWDS = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (4, 1), (16, 1), (66, 1), (132, 1), (132, 4))
"""Blocks, each on an SM of its own, and warps of each."""
ACTIONS = (
    *("none", "cas_word", "cas_sector", "cas_line", "store_sector", "store_line", "volatile_word", "fence", "acquire"),
    *("red_line", "volatile_store_sector", "relaxed_sector"),
)
MIB = 1 << 20
KEPT, TRACE_WORDS = 64, 200


def looks(ctx: Context) -> list[Row]:
    """Cycles of an access of one lane, by kind, by how many warps make it at once and how far their words are apart."""
    rows: list[Row] = []
    base = ctx.device.alloc(2 * MIB)
    module = ctx.module("rivals")
    for kind in KINDS:
        for apart in (0, 32, 128):
            for blocks, warps in CROWDS:
                if (apart and (blocks, warps) in ((1, 4), (4, 1), (66, 1))) or (
                    ctx.model and (blocks, warps) == (132, 4)
                ):
                    continue
                found = []
                for _ in range(1 if ctx.model else 3):
                    base.zero()
                    module.launch(kind, blocks, 32 * warps, [ctx.words, base, np.uint32(apart), np.int32(24)])
                    found.append(ctx.words.read(np.uint32, 4 * blocks * warps).reshape(-1, 4).astype(float))
                each = sorted(found, key=lambda f: f[:, 0].mean())[len(found) // 2]
                where = {
                    "apart": apart,
                    "blocks": blocks,
                    "warps": warps,
                    "least": each[:, 1].min(),
                    "most": each[:, 2].max(),
                }
                rows.append(row(kind, "cycles_per_access", each[:, 0].mean() / 24, "cycles", **where))
    base.free()
    return rows


def rivals(ctx: Context) -> list[Row]:
    """Compare-and-swap loops on one word: cycles of a success and of an attempt, attempts a success."""
    rows: list[Row] = []
    base = ctx.device.alloc(2 * MIB)
    module = ctx.module("rivals")
    for fresh in (0, 1):
        for blocks, warps in ((1, 1), (1, 2), (1, 4), (1, 8), (2, 1), (4, 1), (12, 1), (12, 2), (132, 1), (132, 2)):
            turns = 8
            base.zero()
            module.launch("rivals", blocks, 32 * warps, [ctx.words, base, np.int32(turns), np.int32(fresh)])
            found = ctx.words.read(np.uint32, TRACE_WORDS * blocks * warps).reshape(-1, TRACE_WORDS)
            where = {"blocks": blocks, "warps": warps, "fresh": fresh}
            done = turns * blocks * warps
            rows.append(row("rivals", "cycles_per_success", float(found[:, 1].max()) / done, "cycles", **where))
            rows.append(row("rivals", "attempts_per_success", float(found[:, 0].sum()) / done, "", **where))
            took = [
                (w[9 : 8 + 3 * int(min(w[0], KEPT)) : 3] - w[8 : 8 + 3 * int(min(w[0], KEPT)) : 3]).astype(np.int32)
                for w in found
            ]
            rows.append(row("rivals", "cycles_per_attempt", float(np.concatenate(took).mean()), "cycles", **where))
    base.free()
    return rows


def stale(ctx: Context) -> list[Row]:
    """What a plain load sees of a word that another SM has changed since, behind several actions of its own SM: 0 the old value, 9 the new."""
    rows: list[Row] = []
    words = ctx.device.alloc(MIB)
    for action, name in enumerate(ACTIONS):
        words.zero()
        ctx.module("rivals").launch("stale", 2, 32, [ctx.words, words, np.int32(action)])
        found = [int(v) for v in ctx.words.read(np.uint32, 7)]
        where = {"action": name, "cycles": found[3], "again": found[2], "again_cycles": found[4], "strong": found[5]}
        rows.append(row("stale", "value", found[1], "", **where))
    words.free()
    return rows


WRITES = ("volatile", "weak", "sector", "half_sector", "red", "cas")


def sides_of(ctx: Context, base: Buffer) -> np.ndarray:
    """For each SM's number 1 when the word is homed on the other side: an addition there takes more than 450 cycles."""
    sides = np.zeros(256, np.uint32)
    base.zero()
    ctx.module("rivals").launch("look_add", 132, 32, [ctx.words, base, np.uint32(0), np.int32(24)])
    for _, least, _, sm in ctx.words.read(np.uint32, 4 * 132).reshape(-1, 4):
        sides[sm] = least > 450
    return sides


def crossfire(ctx: Context) -> list[Row]:
    """A word that 528 warps load while 132 write to its line or another: cycles of a load and loads a cycle by side, by how often and what is written."""
    rows: list[Row] = []
    base = ctx.device.alloc(2 * MIB)
    module = ctx.module("rivals")
    sides = sides_of(ctx, base)
    table = ctx.device.upload(sides)
    span = 40000
    cases = [(kind, apart, 3, 3, gap) for kind in range(6) for apart in (0, 32, 128) for gap in (100, 500, 2000)]
    cases += [
        (kind, 0, load, write, gap)
        for kind in (0, 5)
        for load in (1, 2)
        for write in (1, 2)
        for gap in (100, 500, 2000)
    ]
    cases += [(0, 0, 3, 0, 2000), (0, 0, 0, 3, 20), (1, 0, 0, 3, 20)]
    if ctx.model:
        cases = [c for c in cases if c[1] != 32 and c[4] != 100 and c[0] != 3]
    for kind, apart, load, write, gap in cases:
        base.zero()
        args = [ctx.words, base, table, *(np.uint32(v) for v in (4, load, write, kind, apart, gap, span))]
        module.launch("crossfire", 132, 5 * 32, args)
        each = ctx.words.read(np.uint32, 4 * 132 * 5).reshape(-1, 4).astype(float)
        where = {"write": WRITES[kind], "apart": apart, "load_sides": load, "write_sides": write, "gap": gap}
        where["writes_per_cycle"] = round(each[each[:, 3] == 0, 1].sum() / span, 4)
        for side, name in enumerate(("near", "far")):
            found = each[(each[:, 3] == 1) & (each[:, 2] == side) & (each[:, 1] > 0)]
            if len(found):
                where["loads_per_cycle"] = round(float((found[:, 1] / found[:, 0]).sum()), 4)
                cycles = found[:, 0].sum() / found[:, 1].sum()
                rows.append(row("crossfire", f"cycles_per_load_{name}", cycles, "cycles", **where))
        if not load:
            rows.append(row("crossfire", "writes_per_cycle", where["writes_per_cycle"], "1/cycle", **where))
    base.free()
    table.free()
    return rows


def yields(ctx: Context) -> list[Row]:
    """Cycles of a turn of a loop that YIELDs, and of one that does not, by what the other lanes of the warp do."""
    rows: list[Row] = []
    module = ctx.module("rivals")
    for others in ("alone", "joined", "barrier", "ended", "spinning"):
        for kind in ("yields", "stays"):
            spans = []
            for n in (16, 48):
                for _ in range(1 if ctx.model else 2):
                    module.launch(f"{kind}_{others}", 1, 32, [ctx.words, np.int32(n)])
                spans.append(int(ctx.words.read(np.uint32, 1)[0]))
            rows.append(row(kind, "cycles_per_turn", (spans[1] - spans[0]) / 32, "cycles", others=others))
    return rows
