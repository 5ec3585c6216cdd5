"""Which fences of an SM share a round: warps that store some lines and fence at given times.

``python -m bench.machine.fence_rounds --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model, which has fewer rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

NOTHING, THREADFENCE, ACQ_REL, SYSTEM, POLL, ADD = range(6)
Row = tuple[int, int, int, int, int, int, int]
"""What a warp does: when it begins (cycles), number of lines that it stores to, whether they are on its stack, how it fences, the first of its global lines, the block barrier of the warps that begin together, and the number of these."""
BEGIN_CYCLES = 400
PERIOD_CYCLES = 8192
LINES_PER_WARP = 32
SHAPES = (
    (1, 32),
    (1, 1024),
    (2, 1024),
    (4, 32),
    (4, 256),
    (4, 512),
    (8, 32),
    (8, 128),
    (8, 256),
    (16, 128),
    (32, 32),
    (32, 64),
)
"""Blocks of each SM and threads of each block."""
LAGS = tuple(range(0, 1400, 40))


class Script:
    """Launches of a table of warps."""

    def __init__(self, device: Device, cubin: bytes) -> None:
        self.device, self.module, self.sm_count = device, device.load(cubin), int(device.describe()["sm_count"])
        self.turns = 2 if device.kind == "model" else 12
        self.words = device.upload(np.zeros(4096 + self.sm_count * 64 * LINES_PER_WARP * 32, np.uint32))
        self.out = device.upload(np.zeros(self.sm_count * 64 * self.turns * 4, np.uint32))
        self.arrived = 0

    def run(self, rows: Sequence[Row], blocks: int, per_sm: int = 1) -> list[list[int]]:
        """Median times of each warp of one SM, in cycles from the beginning of a turn: when it begins, after its stores, and after its fence (for polling warps the number of polls instead)."""
        table = self.device.upload(np.array(rows, np.int32))
        self.arrived += blocks
        shift = PERIOD_CYCLES.bit_length() - 1 if per_sm > 1 else 0
        arguments = [np.uint32(self.arrived), np.int32(self.turns), np.uint32(PERIOD_CYCLES), np.int32(shift)]
        self.module.launch("scripted", blocks, 32 * len(rows), [self.out, self.words, table, *arguments])
        found = self.out.read(np.uint32, blocks * len(rows) * self.turns * 4).reshape(-1, self.turns, 4)
        table.free()
        mine = found[found[:, 0, 3] == found[0, 0, 3]].astype(np.int32).astype(np.int64)
        return np.median(mine[:, 1:, :3], axis=1).astype(int).tolist()


def ends(times: Sequence[Sequence[int]]) -> list[int]:
    """Cycles from the first of these warps' beginning until each fence is over, in order."""
    first = min(row[0] for row in times)
    return sorted(row[2] - first for row in times)


def crowds(script: Script) -> dict[str, list[int]]:
    """``ends`` of warps that store at once, of which all or one fence: by the fence, stack or global lines, their number, warps of a block, how many fence, blocks of each SM, blocks of the grid."""
    chip = script.sm_count
    found = {}
    cases = [
        *itertools.product((THREADFENCE,), (0, 1), (0, 1, 2, 4, 8), (1, 2, 4, 8, 12, 16, 24, 32), (1,), (1, chip)),
        *itertools.product((THREADFENCE,), (0, 1), (0, 1, 2, 4), (4, 8, 16, 32), (2,), (2 * chip,)),
        *itertools.product((ACQ_REL, SYSTEM, NOTHING), (0, 1), (0, 1, 4), (1, 8, 32), (1,), (1, chip)),
    ]
    if script.device.kind == "model":
        cases = [c for c in cases if c[0] == THREADFENCE and c[2] in (1, 4) and c[3] in (1, 8, 32)]
    for kind, stack, lines, warps, per_sm, blocks in cases:
        for fencing in {1, warps} if kind == THREADFENCE and lines else {warps}:
            kinds = [kind] * fencing + [NOTHING] * (warps - fencing)
            rows = [(BEGIN_CYCLES, lines, stack, each, 0, 1, warps) for each in kinds]
            name = f"{kind} {stack} {lines} {warps} {fencing} {per_sm} {blocks}"
            found[name] = ends(script.run(rows, blocks, per_sm))
    return found


ROLES = {
    "store, fence": (1, THREADFENCE),
    "fence": (0, THREADFENCE),
    "4 stores, fence": (4, THREADFENCE),
    "store": (1, NOTHING),
    "8 stores": (8, NOTHING),
}


def pairs(script: Script) -> dict[str, list[list[int]]]:
    """Four warps of one SM begin together, and four others ``LAGS`` cycles later, by the roles of both. Per lag, the cycles at which the others begin, the first four are done, and the others are done."""
    found = {}
    for (early, one), (late, other) in itertools.product(ROLES.items(), ROLES.items()):
        if one[1] == other[1] == NOTHING:
            continue
        found[f"{early}; {late}"] = each = []
        for lag in LAGS[::6] if script.device.kind == "model" else LAGS:
            first = [(BEGIN_CYCLES, one[0], 0, one[1], 1, 1, 4)] * 4
            second = [(BEGIN_CYCLES + lag, other[0], 0, other[1], 1, 2, 4)] * 4
            times = script.run(first + second, 1)
            begins = times[0][0]
            each.append(
                [times[4][0] - begins, *(max(row[2] for row in part) - begins for part in (times[:4], times[4:]))]
            )
    return found


def staggered(script: Script) -> dict[str, list[list[int]]]:
    """Each warp stores and fences some cycles after the previous one: cycles at which each begins and is done, by lines, cycles between two warps, and warps."""
    found = {}
    for lines, apart, warps in itertools.product((0, 1, 4), (10, 30, 60, 120), (8, 16, 32)):
        if script.device.kind == "card" or (apart == 30 and warps == 16):
            rows = [(BEGIN_CYCLES + apart * warp, lines, 0, THREADFENCE, 0, 1 + warp % 15, 1) for warp in range(warps)]
            times = script.run(rows, 1)
            found[f"{lines} {apart} {warps}"] = [[row[0] - BEGIN_CYCLES, row[2] - BEGIN_CYCLES] for row in times]
    return found


def among_polls(script: Script) -> dict[str, list[int]]:
    """Cycles of fences that begin while eight other warps of each SM poll a word and one or none adds to it, by stack lines, fencing warps and adding warps."""
    found = {}
    for lines, fencing, adding in itertools.product((0, 1, 4), (1, 4, 8, 16), (0, 1)):
        if script.device.kind == "model" and (lines, fencing) not in ((0, 8), (4, 8)):
            continue
        rows = [(0, 0, 0, POLL, 0, 1, 1)] * 8 + [(BEGIN_CYCLES, 0, 0, ADD, 0, 2, 1)] * adding
        rows += [(2 * BEGIN_CYCLES, lines, 1, THREADFENCE, 0, 3, fencing)] * fencing
        found[f"{lines} {fencing} {adding}"] = ends(script.run(rows, script.sm_count)[8 + adding :])
    return found


def barriers(device: Device, cubin: bytes) -> dict[str, list[float]]:
    """Parts of a grid barrier by kernel and ``SHAPES``: mean cycles until a warp's fence is over, until a block has met, and from then until it sees that the grid has; a block's polls; and cycles of the whole barrier."""
    module, chip = device.load(cubin), int(device.describe()["sm_count"])
    out, found = device.upload(np.zeros(chip * 64 * 5, np.uint32)), {}
    repeats = 4 if device.kind == "model" else 12
    for kernel in ("barriers_alone", "barriers_after_stores"):
        for blocks, threads in SHAPES:
            word = device.upload(np.zeros(32, np.uint32))
            module.launch(kernel, chip * blocks, threads, [out, word, np.int32(repeats)])
            read = out.read(np.uint32, chip * blocks * threads // 32 * 5).reshape(-1, threads // 32, 5)
            firsts = read[:, 0].mean(axis=0) / (repeats - 1)
            means = (read[:, :, 0].mean() / (repeats - 1), *firsts[1:])
            found[f"{kernel} {blocks}x{threads}"] = [round(float(value), 2) for value in means]
            word.free()
    return found


def measure(device: Device, cubin: bytes) -> dict[str, object]:
    """Results of the functions above. Each turn stores its results, so the SM has always stored before the next turn begins."""
    script = Script(device, cubin)
    return {
        "crowds": crowds(script),
        "pairs": pairs(script),
        "staggered": staggered(script),
        "among polls": among_polls(script),
        "barriers": barriers(device, cubin),
    }


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, begin_cycles=BEGIN_CYCLES, lags=LAGS)
