"""How long a poll after a store and a hand-over between two SMs take while the warps of the other SMs poll a word of the same slice.

The two SMs of a TPC share their path to L2: if one warp of each polls, their polls wait less than those of a TPC of which one SM polls with all its warps.

``python -m bench.machine.polled_hand_overs --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model, which has fewer rows.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Device, Module
from bench.machine.card_program import measure_cubin

PLACES = {"nothing": -1, "line": 160, "sector": 32, "elsewhere": (256 << 10) + 32}
"""Bytes from the polled word."""
STORED_AND_LOADED = [
    pair.split() for pair in ("nothing line", "line line", "elsewhere line", "line elsewhere", "sector sector")
]
POLLING = (0, 1, 4, 8, 16, 32)
"""Warps of each other SM."""
PARTNERS = (1, 2, 40)
"""Partners of block 0: on the other SM of its TPC, in another TPC of its GPC, on the other side of L2."""
POLLS, LOGGED, TURNS = 8, 512, 16
FENCE, IN_VAIN, FOUND = 1, 2, 3
LAST_EVENTS = 40


def summary(events: Sequence[int]) -> list[float | None]:
    """Medians of a side's polls after a failed poll, of its other polls, and of its fences (cycles); number of failed polls per successful one."""
    kinds = [event & 3 for event in events]
    after: dict[bool, list[int]] = {True: [], False: []}
    for before, event in itertools.pairwise(events):
        if event & 3 != FENCE:
            after[before & 3 == IN_VAIN].append(event >> 2)
    fences = [event >> 2 for event in events if event & 3 == FENCE]
    medians = [statistics.median(part) if part else None for part in (after[True], after[False], fences)]
    return [*medians, round(kinds.count(IN_VAIN) / max(kinds.count(FOUND), 1), 2)]


class Runs:
    """Launches beside a number of polling warps of each SM."""

    def __init__(self, device: Device, module: Module) -> None:
        self.device, self.module, self.sm_count = device, module, int(device.describe()["sm_count"])
        self.size = 2 * LOGGED + 2 * 32 * self.sm_count
        self.out, self.words = (
            device.upload(np.zeros(self.size, np.uint32)),
            device.upload(np.zeros(1 << 18, np.uint32)),
        )

    def launch(self, kernel: str, polling: int, blocks_alone: int, numbers: tuple[int, ...]) -> tuple[Any, float]:
        """Return what the measured blocks have written, and the mean cycles per poll of the others."""
        self.words.write(np.zeros(1 << 18, np.uint32))
        self.out.write(np.zeros(self.size, np.uint32))
        blocks = self.sm_count if polling else blocks_alone
        self.module.launch(kernel, blocks, 32 * max(polling, 1), [self.out, self.words, *map(np.int32, numbers)])
        found = self.out.read(np.uint32, self.size).astype(np.int64)
        looks = found[2 * LOGGED :].reshape(-1, 2).sum(axis=0)
        return found, round(float(looks[0] / max(looks[1], 1)), 1)

    def after_store(self, polling: int, measured: int, stored: str, loaded: str) -> dict[str, Any]:
        """Mean cycles of each of the polls after a store."""
        numbers = (measured, PLACES[stored], PLACES[loaded], TURNS)
        found, look = self.launch("after_store", polling, measured + 1, numbers)
        return {"polls": (found[:POLLS] / TURNS).round(1).tolist(), "sm": int(found[POLLS]), "crowd": look}

    def hand_over(self, polling: int, partner: int, place: str, fence: int) -> dict[str, Any]:
        """Cycles of a round; for both sides over the last events, the :func:`summary`."""
        found, look = self.launch("hand_over", polling, partner + 1, (partner, PLACES[place], fence, TURNS))
        sides = [[int(v) for v in found[at : at + LOGGED - 1] if v] for at in (0, LOGGED)]
        sms = [int(found[LOGGED - 1]), int(found[2 * LOGGED - 1])]
        span = sum(event >> 2 for event in sides[0])
        return {
            "round": round(span / TURNS, 1),
            "sides": [summary(side[-LAST_EVENTS:]) for side in sides],
            "sms": sms,
            "crowd": look,
        }


def measure(device: Device, cubin: bytes) -> dict[str, Any]:
    """Rows by the kernel and its settings."""
    runs = Runs(device, device.load(cubin))
    model = device.kind == "model"
    found: dict[str, Any] = {}
    for polling in (0, 8, 32) if model else POLLING:
        for measured in (0,) if model else (0, 2, 40):
            for stored, loaded in STORED_AND_LOADED:
                name = f"after_store {polling} {measured} {stored} {loaded}"
                found[name] = runs.after_store(polling, measured, stored, loaded)
        for partner, place, fence in itertools.product(PARTNERS, ("line", "sector", "elsewhere"), (0, 1)):
            if not model or (partner != 2 and place == "line"):
                name = f"hand_over {polling} {partner} {place} {fence}"
                found[name] = runs.hand_over(polling, partner, place, fence)
    for name, row in found.items():
        print(name, row, flush=True)
    return found


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure)
