"""What a fence costs that visits slices which other SMs poll: one warp loads, stores and fences, and the warps of the other SMs poll a word.

``python -m bench.machine.fence_visits --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model, which has fewer rows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

ELSEWHERE = (256 << 10) + 32
PLACES = {"nothing": -1, "word": 0, "sector": 32, "line": 160, "elsewhere": ELSEWHERE}
"""Bytes from the polled word."""
POLLING = (0, 1, 2, 4, 8, 16, 32)
"""Warps of each other SM."""
MEASURED = (0, 1, 2, 40)
"""Blocks of which one is measured: their SMs are on both sides of L2."""
TURNS = 24
PAUSES = (0, 2000)


def row(device: Device, visits: object, polling: int, measured: int, load: int, store: int, pause: int) -> list[float]:
    """Cycles of a load and of a fence of the measured warp, of a poll of the others; the measured SM."""
    sm_count = int(device.describe()["sm_count"])
    out, words = device.upload(np.zeros(4 + 2 * 32 * sm_count, np.uint32)), device.upload(np.zeros(1 << 18, np.uint32))
    each = []
    for _ in range(1 if device.kind == "model" else 3):
        words.write(np.zeros(1 << 18, np.uint32))
        out.write(np.zeros(4 + 2 * 32 * sm_count, np.uint32))
        numbers = [np.int32(v) for v in (measured, load, store, pause, TURNS)]
        blocks = sm_count if polling else 1
        visits.launch("visits", blocks, 32 * max(polling, 1), [out, words, *numbers])  # type: ignore[attr-defined]
        found = out.read(np.uint32, 4 + 2 * 32 * sm_count).astype(np.int64)
        looks = found[4:].reshape(-1, 2).sum(axis=0)
        each.append([found[0], found[1], looks[0] / max(looks[1], 1), found[2]])
    out.free()
    words.free()
    return [round(float(value), 1) for value in np.median(np.array(each, float), axis=0)]


def measure(device: Device, cubin: bytes) -> dict[str, list[float]]:
    """Rows by the polling warps of an SM, the measured block, the place of its load, of its store, and the pause before its fence."""
    module = device.load(cubin)
    model = device.kind == "model"
    found = {}
    for polling in (0, 1, 8, 32) if model else POLLING:
        for measured in (0,) if polling == 0 else MEASURED[:2] if model else MEASURED:
            for loads, stores in (
                *(("nothing", "nothing"), ("word", "nothing"), ("line", "nothing"), ("elsewhere", "nothing")),
                *(("line", "line"), ("sector", "sector"), ("elsewhere", "elsewhere"), ("line", "elsewhere")),
                *(("nothing", "line"), ("nothing", "elsewhere")),
            ):
                for pause in PAUSES:
                    name = f"{polling} {measured} {loads} {stores} {pause}"
                    found[name] = row(device, module, polling, measured, PLACES[loads], PLACES[stores], pause)
                    print(name, found[name], flush=True)
    return found


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure)
