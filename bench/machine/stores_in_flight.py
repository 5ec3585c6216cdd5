"""How far the stores and additions of an SM run ahead of L2: when each one issues, and when a fence after the last finds all of them done.

``python -m bench.machine.stores_in_flight --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

MIB = 1 << 20
TURNS = 16
BLOCK_WARPS = 32
KERNELS = ("words", "fours", "strided", "scattered", "lonely", "adds", "adds_scattered", "adds_lonely")
SIZES_MIB = (8, 512)
"""A size that L2 holds after a first pass, and one that it does not."""
SMS = (1, 2, 16, 66, 132)
WARPS = (1, 4, 32)
ROUNDS = (1, 8)
PLACES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512)
"""Of which accesses of an SM, in the order of their issue, the cycles are stored."""
REPEATS = 3


class Setting(NamedTuple):
    """One launch: ``warps`` warps on each of ``sms`` SMs make ``rounds`` times ``TURNS`` accesses."""

    kernel: str
    mib: int
    sms: int
    warps: int
    rounds: int


def settings(model: bool) -> Iterator[Setting]:
    """All launches, in order; few on the model, which takes seconds for the longest ones."""
    if model:
        yield from itertools.starmap(Setting, itertools.product(KERNELS, SIZES_MIB[:1], (1, 132), (32,), (1,)))
        return
    yield from itertools.starmap(Setting, itertools.product(KERNELS, SIZES_MIB, SMS, WARPS, ROUNDS))


def shown(times: np.ndarray, rounds: int) -> dict[str, float | list[float]]:
    """Cycles from the SM's beginning, medians over SMs.  ``times``: by SM, warp and word of the kernels' output.

    ``issued``: at which the accesses of the last round at the numbers ``PLACES`` issue; ``last``: at which the SM's last one has issued; ``fenced``: at which its last
    fence ends, ``longest``: the same on the slowest SM; ``first_warp``: between the accesses of the SM's first warp.
    """
    begin = times[:, :, :1].min(axis=1, keepdims=True)
    times = times - begin
    issued = np.median(np.sort(times[:, :, 1 : TURNS + 1].reshape(len(times), -1), axis=1), axis=0)
    ended = times[:, :, TURNS + 2].max(axis=1)
    return {
        "issued": [float(issued[place - 1]) for place in PLACES if place <= len(issued)],
        "last": float(np.median(times[:, :, TURNS + 1].max(axis=1))),
        "fenced": float(np.median(ended)),
        "longest": float(ended.max()),
        "first_warp": [float(value) for value in np.median(np.diff(times[:, 0, 1 : TURNS + 2], axis=1), axis=0)],
    }


def measure(device: Device, cubin: bytes) -> list[dict[str, object]]:
    """The settings and what ``shown`` has of each, of the median launch by ``fenced``."""
    module, sm_count = device.load(cubin), int(device.describe()["sm_count"])
    model = device.kind == "model"
    data = device.alloc(max(SIZES_MIB) * MIB)
    words = sm_count * BLOCK_WARPS * (TURNS + 3)
    out, arrived = device.upload(np.zeros(words, np.uint32)), device.upload(np.zeros(32, np.uint32))
    rows: list[dict[str, object]] = []
    launches = first = 0
    for setting in settings(model):
        found = []
        for _ in range(1 if model else REPEATS):
            launches += 1
            if setting.mib == SIZES_MIB[0]:
                module.launch("sweep", sm_count, 1024, [out, data, np.uint32(setting.mib * MIB // 16)])
            numbers = [setting.mib * MIB - 1, launches * sm_count, setting.sms, setting.warps, setting.rounds, first]
            first += setting.rounds
            arguments = [out, arrived, data, *(np.uint32(number) for number in numbers)]
            module.launch(setting.kernel, sm_count, BLOCK_WARPS * 32, arguments)
            read = out.read(np.uint32, words).reshape(sm_count, BLOCK_WARPS, TURNS + 3).astype(np.int64)
            found.append(shown(read[: setting.sms, : setting.warps], setting.rounds))
        chosen = sorted(found, key=lambda one: float(str(one["fenced"])))[len(found) // 2]
        rows.append({**setting._asdict(), **chosen})
        print(rows[-1], flush=True)
    for buffer in (data, out, arrived):
        buffer.free()
    return rows


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, turns=TURNS, places=PLACES)
