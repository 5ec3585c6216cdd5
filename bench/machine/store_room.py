"""How many sectors of stores and additions an SM has in flight before it waits, and how many stores are joined in the SM while L2 delays them.

``python -m bench.machine.store_room --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
``--counts`` adds, under ncu on a card, the sectors that the SMs send to L2 for ``spans``.

* ``random``: each access goes to random lines of 512 MiB, of which DRAM completes few per cycle.  The accesses that an SM has issued by a given time, less those that L2 has accepted by then, wait in the SM or on their way to L2.
* ``spans``: threads fill spans of several words one word at a time, so consecutive stores go to the same sectors.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.corpus_card import under_ncu, value
from bench.device import Device, Model, open_device
from bench.machine.card_program import builds, cubin_parser

MIB = 1 << 20
TURNS = 32
BLOCK_WARPS = 32
SHAPES = ("1x1", "1x4", "4x1", "4x4", "8x4", "32x1")
"""Lines of an access and sectors of each."""
KERNELS = (*(f"stores_{shape}" for shape in SHAPES), "adds_1x1", "adds_4x1", "adds_8x4", "adds_32x1")
SIZES_MIB = (8, 512)
PLACES = tuple(range(32, 1025, 32))
"""Numbers of the accesses of an SM, in the order of their issue, whose cycles are stored."""
SPANS = (1, 2, 4, 8)
GAPS = (0, 4, 16)
SPAN_SMS = (1, 16, 66, 132)
SPAN_STORES = 128
"""Stores of each warp."""
HELD_MIB = 32
COUNTS = ("l1tex__m_l1tex2xbar_write_sectors.sum", "lts__t_sectors_op_write.sum")


class Room:
    """Launches of the kernels on one device; keeps the memory and the number of blocks that have begun."""

    def __init__(self, device: Device, cubin: bytes) -> None:
        self.device, self.module = device, device.load(cubin)
        self.sm_count = int(device.describe()["sm_count"])
        self.data = device.alloc((max(SIZES_MIB) + HELD_MIB * 64) * MIB)
        self.words = self.sm_count * BLOCK_WARPS * (TURNS + 3)
        self.out = device.upload(np.zeros(self.words, np.uint32))
        self.arrived = device.upload(np.zeros(32, np.uint32))
        self.begun = self.first = 0
        self.place = max(SIZES_MIB)

    def launch(self, kernel: str, mib: int, *numbers: int) -> np.ndarray:
        """What the warps leave, by SM and warp."""
        self.begun += self.sm_count
        arguments = [self.out, self.arrived, self.data]
        values = (np.uint32(number) for number in (mib * MIB - 1, self.begun, *numbers))
        self.module.launch(kernel, self.sm_count, BLOCK_WARPS * 32, [*arguments, *values])
        return self.out.read(np.uint32, self.words).astype(np.int64)

    def random(self, kernel: str, mib: int, sms: int) -> dict[str, Any]:
        """Cycles after the start of an SM, medians over SMs: when the accesses numbered ``PLACES`` issue, when the last one has issued, and when the last fence ends."""
        self.first += self.sm_count * BLOCK_WARPS * TURNS
        read = self.launch(kernel, mib, sms, self.first)
        times = read.reshape(self.sm_count, BLOCK_WARPS, TURNS + 3)[:sms]
        times = times - times[:, :, :1].min(axis=1, keepdims=True)
        issued = np.median(np.sort(times[:, :, 1 : TURNS + 1].reshape(sms, -1), axis=1), axis=0)
        return {
            "issued": [float(issued[place - 1]) for place in PLACES],
            "last": float(np.median(times[:, :, TURNS + 1].max(axis=1))),
            "fenced": float(np.median(times[:, :, TURNS + 2].max(axis=1))),
            "longest": float(times[:, :, TURNS + 2].max()),
        }

    def spans(self, words: int, sms: int, gap: int, size: int = SIZES_MIB[0], place: int = 0) -> dict[str, Any]:
        """The same for ``spans``: when the SM's last store has issued and when its last fence ends; ``size`` and ``place`` of the memory are in MiB."""
        read = self.launch(f"spans_{words}", size, sms, SPAN_STORES // words if size == SIZES_MIB[0] else 4, gap, place)
        times = read[: self.sm_count * BLOCK_WARPS * 3].reshape(self.sm_count, BLOCK_WARPS, 3)[:sms]
        times = times - times[:, :, :1].min(axis=1, keepdims=True)
        return {
            "last": float(np.median(times[:, :, 1].max(axis=1))),
            "fenced": float(np.median(times[:, :, 2].max(axis=1))),
            "longest": float(times[:, :, 2].max()),
        }

    def held(self, words: int, state: str) -> dict[str, Any]:
        """``spans`` of all SMs on memory that L2 lacks (``fresh``) or has, because it was ``read`` or ``written`` as a whole."""
        self.place += HELD_MIB
        if state != "fresh":
            numbers = (np.uint32(HELD_MIB * MIB), np.uint32(self.place), np.int32(state == "written"))
            self.module.launch("touch", self.sm_count, 1024, [self.out, self.data, *numbers])
        return self.spans(words, self.sm_count, 0, HELD_MIB, self.place)


def span_settings() -> Iterator[tuple[int, int, int]]:
    """Words per span, SMs, products before each store."""
    return itertools.product(SPANS, SPAN_SMS, GAPS)


def measure(device: Device, cubin: bytes, parts: list[str]) -> list[dict[str, Any]]:
    """All settings with their results, each the launch of median ``fenced`` of three (one on the model)."""
    room, rows = Room(device, cubin), list[dict[str, Any]]()
    model = device.kind == "model"
    repeats = 1 if model else 3
    runs = []
    if "random" in parts:
        for kernel, mib, sms in itertools.product(KERNELS, SIZES_MIB, (1, 132)):
            runs.append(({"kernel": kernel, "mib": mib, "sms": sms}, room.random, (kernel, mib, sms)))
    if "spans" in parts:
        for words, sms, gap in span_settings():
            if not model or sms in (1, 132):
                runs.append(
                    ({"kernel": "spans", "words": words, "sms": sms, "gap": gap}, room.spans, (words, sms, gap))
                )
    if "held" in parts:
        for words, state in itertools.product(SPANS, ("fresh", "read", "written")):
            runs.append(({"kernel": "held", "words": words, "state": state}, room.held, (words, state)))
    for about, run, numbers in runs:
        found = sorted((run(*numbers) for _ in range(repeats)), key=lambda one: one["fenced"])
        rows.append({**about, **found[repeats // 2]})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def count(cubin: Path) -> list[dict[str, Any]]:
    """The counters of each setting of ``spans``, under ncu."""
    own = ["bench.machine.store_room", "--cubin", str(cubin), "--launch"]
    measured, text = under_ncu(own, COUNTS)
    rows = [
        {"words": words, "sms": sms, "gap": gap, **{key: value(row, key) for key in COUNTS}}
        for (words, sms, gap), row in zip(span_settings(), measured, strict=False)
    ]
    if len(rows) < len(list(span_settings())):
        print(text[-1500:])
    return rows


def main() -> None:
    parser = cubin_parser(__doc__)
    parser.add_argument("--parts", nargs="*", default=["held", "spans", "random"])
    parser.add_argument("--counts", action="store_true")
    parser.add_argument("--launch", action="store_true", help="launch spans once on a card; this part runs under ncu")
    options = parser.parse_args()
    if builds(Path(__file__), options):
        return
    if options.launch:
        room = Room(open_device("card"), options.cubin.read_bytes())
        for words, sms, gap in span_settings():
            room.spans(words, sms, gap)
        return
    device: Device = Model(options.model) if options.model else open_device("card")
    found = {**device.describe(), "places": PLACES, "rows": measure(device, options.cubin.read_bytes(), options.parts)}
    if options.counts:
        found["counts"] = count(options.cubin)
    if options.out:
        options.out.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
