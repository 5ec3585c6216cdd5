"""What fences cost: after stores of the same and of other warps, beside polls and additions of other warps, and as parts of a grid barrier.

``python -m bench.machine.fences_among_polls --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model, which has fewer rows.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Device, Module
from bench.machine.card_program import measure_cubin

KINDS = (
    "NOTHING", "THREADFENCE", "ACQ_REL", "SYSTEM", "BLOCK", "RELEASE", "ACQUIRE", "STORED_THREADFENCE", "STORE", "LOAD", "STORED_RELEASE",
)  # fmt: skip
FENCING = (1, 4, 8, 16)
POLLING = (0, 1, 4, 8, 16)
SHAPES = ((1, 32), (4, 32), (8, 32), (16, 32), (32, 32), (32, 64), (16, 128), (8, 256), (4, 512), (2, 1024))
"""Blocks of each SM and threads of each block."""
PARTS = ("nn", "ln", "an", "nl", "ll", "nnw", "lnw", "nlw", "llw", "nnf", "nlf", "anf", "alf", "llf")
"""Fences before and after: of no thread, of the block's first thread, of all threads; ``w``: the first poll waits for the addition's answer; ``f``: after stores to the stack."""
REPEATS = 9
SPANS = {"card": 65536, "model": 16384}
"""Cycles."""


class Crowds:
    """Launches of the kernels ``crowd_KIND``."""

    def __init__(self, device: Device, module: Module) -> None:
        self.device, self.module, self.sm_count = device, module, int(device.describe()["sm_count"])
        self.out = device.upload(np.zeros(self.sm_count * 32 * 4, np.uint32))
        self.words = device.upload(np.zeros(4096 + self.sm_count * 32 * 64, np.uint32))
        self.launched_blocks = 0
        self.span = SPANS[device.kind]

    def row(self, kind: str, blocks: int, polling: int, fencing: int, adding: int, hot: int, apart: int) -> list[float]:
        """Of polls, fences and additions: how many there were, per 1,000 cycles of the chip, their mean and the longest (cycles)."""
        each = []
        for _ in range(1 if self.device.kind == "model" else 3):
            self.launched_blocks += blocks
            numbers = [np.int32(v) for v in (polling, fencing, adding, hot, apart)]
            arguments = [self.out, self.words, np.uint32(self.launched_blocks), *numbers, np.uint32(self.span)]
            self.module.launch(f"crowd_{kind}", blocks, 1024, arguments)
            read = self.out.read(np.uint32, blocks * 32 * 4).reshape(-1, 4).astype(np.int64)
            found: list[float] = []
            for role in (1, 2, 3):
                mine = read[read[:, 0] == role]
                count = int(mine[:, 1].sum())
                found += [count * 1000 / self.span, mine[:, 2].sum() / max(count, 1), float(mine[:, 3].max(initial=0))]
            each.append(found)
        return [round(float(value), 2) for value in np.median(np.array(each), axis=0)]


def crowds(device: Device, module: Module) -> dict[str, list[float]]:
    """Rows of ``Crowds.row``, named by kind, blocks, polling, fencing and adding warps of a block, whether all access one word, whether blocks either fence or poll."""
    run = Crowds(device, module)
    chip = run.sm_count
    cases = list(itertools.product(KINDS, (1, chip), POLLING, FENCING, (0,), (0, 1), (0,)))
    cases += list(itertools.product(KINDS, (chip,), (4, 8, 16), FENCING, (1, 4), (1,), (0, 1)))
    if device.kind == "model":
        kinds = ("NOTHING", "THREADFENCE", "RELEASE", "STORED_THREADFENCE")
        cases = [c for c in cases if c[0] in kinds and c[1] == chip and c[2] in (8, 16) and c[3] in (1, 8) and c[5]]
    cases = [c for c in cases if c[2] + c[3] + c[4] <= 32]
    return {" ".join(map(str, case)): run.row(*case) for case in cases}


def parts(device: Device, module: Module) -> dict[str, dict[str, Any]]:
    """Cycles of a grid barrier's parts, by fences and ``SHAPES``.

    ``means``: over blocks and barriers, to the block barrier, from it to the fence's end (both with the clock's own cycles), the addition, the polls, the second fence; the number of polls.
    ``sorted``: of the last barrier of one SM, each block's times of the ends of these parts.
    """
    chip = int(device.describe()["sm_count"])
    found = {}
    for kind in PARTS:
        for blocks, threads in SHAPES:
            words = device.upload(np.zeros(64, np.uint32))
            out = device.upload(np.zeros(chip * blocks * 13, np.uint32))
            for _ in range(1 if device.kind == "model" else 2):
                words.write(np.zeros(64, np.uint32))
                module.launch(f"parts_{kind}", chip * blocks, threads, [out, words, np.int32(REPEATS)])
            read = out.read(np.uint32, chip * blocks * 13).reshape(-1, 13).astype(np.int64)
            mine = read[read[:, 0] == read[0, 0], 7:]
            found[f"{kind} {blocks}x{threads}"] = {
                "means": [round(float(v), 1) for v in read[:, 1:7].mean(axis=0) / (REPEATS - 1)],
                "sorted": (mine - mine.min()).tolist(),
            }
            words.free()
            out.free()
    return found


def rounds(device: Device, module: Module) -> dict[str, float]:
    """Cycles of a round of stores, fences and a block barrier on an SM, by the stores (``l`` stack, ``g`` global, number of lines), blocks of the grid, warps of a block, how many store, which fence."""
    chip = int(device.describe()["sm_count"])
    out = device.upload(np.zeros(4 * 64 * chip, np.uint32))
    words = device.upload(np.zeros(4096 + 256 * 64 * chip, np.uint32))
    found = {}
    model = device.kind == "model"
    for stores in ("l4", "g4") if model else ("l1", "l2", "l4", "l8", "g1", "g4", "g8"):
        for blocks in (1, 2 * chip) if model else (1, chip // 4, chip // 2, chip, 2 * chip):
            for warps in (1, 8, 16, 32):
                for storing, first in {
                    (warps, 0),
                    (0, 0),
                    (warps, warps),
                    (warps, warps - 1),
                    (1, 0),
                    (warps // 2, warps // 2),
                }:
                    spans = []
                    for repeats in (4, 36):
                        each = []
                        for _ in range(1 if model else 3):
                            module.launch(
                                f"rounds_{stores}",
                                blocks,
                                32 * warps,
                                [out, words, np.int32(repeats), np.int32(storing), np.int32(first)],
                            )
                            read = out.read(np.uint32, 4 * blocks * warps).reshape(-1, 4).astype(np.int64)
                            mine = read[read[:, 2] == read[0, 2]]
                            each.append(float(mine[:, 1].max() - mine[:, 0].min()))
                        spans.append(float(np.median(each)))
                    found[f"{stores} {blocks} {warps} {storing} {first}"] = round((spans[1] - spans[0]) / 32, 1)
    return found


def measure(device: Device, cubin: bytes) -> dict[str, Any]:
    """Return the results of ``rounds``, ``parts`` and ``crowds``."""
    module = device.load(cubin)
    return {"rounds": rounds(device, module), "parts": parts(device, module), "crowds": crowds(device, module)}


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, shapes=SHAPES, span_cycles=SPANS)
