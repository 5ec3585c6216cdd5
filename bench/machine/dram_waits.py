"""How long loads wait for DRAM: single loads with few in flight, which show refreshes, and long streams by all SMs, which show drift over time and between SMs.

``python -m bench.machine.dram_waits --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Buffer, Device
from bench.machine.card_program import measure_cubin

MIB = 1 << 20
DATA_MIB, OTHER_MIB = 2048, 256
LINE_BYTES, PIECE_BYTES = 128, 512
LINES = DATA_MIB * MIB // LINE_BYTES
BLOCK_LINES = 128
"""Lines per 16 KiB, which are in one bank of every channel in the model."""
ANY = LINES - 1
BANK = ANY & ~(15 * BLOCK_LINES)
"""Lines whose blocks of 16 KiB are a multiple of 16 apart."""
PATTERNS = {
    "any line": (ANY, 0, 1), "bank 0": (BANK, 0, 1), "bank 5": (BANK, 5 * BLOCK_LINES, 1), "same 256 KiB offset": (ANY & ~(16 * BLOCK_LINES - 1), 77, 1),
    "4 lanes, any line": (ANY, 0, 4), "4 lanes, bank 0": (BANK, 0, 4), "32 lanes, any line": (ANY, 0, 32), "32 lanes, bank 0": (BANK, 0, 32),
}  # fmt: skip
"""Random bits of a line's number, its other bits, and the number of lanes that load."""
LOADS, MODEL_LOADS = 32768, 1024
CHECKS = 32
ORDERS = ("in order", "random pieces", "random chunks", "own regions")
"""Where the warps of a stream load. A chunk is what a block loads at once."""
STREAMS = tuple((blocks, threads, order) for blocks, threads in ((264, 1024), (132, 1024), (132, 512), (132, 256), (66, 1024)) for order in range(4))  # fmt: skip
"""Blocks, threads, order."""
EVERY, MODEL_EVERY = (2, 2, 30, 30), (2,)
"""Iterations between two readings of the clock."""


def _empty(device: Device, module: Any, out: Buffer, other: Buffer) -> None:
    """Let L2 hold other memory (the model's launches begin with empty caches)."""
    if device.kind == "card":
        for _ in range(2):
            module.launch("sweep", 1056, 512, [out, other, np.uint32(other.nbytes // 16)])


def single(device: Device, module: Any, data: Buffer, other: Buffer, count: int) -> list[dict[str, Any]]:
    """Successive loads, by the places of their lines: percentiles and mean of their cycles."""
    rows: list[dict[str, Any]] = []
    out = device.upload(np.zeros(2 * count + 6, np.uint32))
    for number, (name, (keep, value, lanes)) in enumerate(PATTERNS.items()):
        _empty(device, module, out, other)
        arguments = [out, data, np.uint32(keep), np.uint32(value), np.uint32(lanes), np.uint32(count), np.uint32(number * count * 32 + 1)]  # fmt: skip
        module.launch("loads", 1, 32, arguments)
        words = out.read(np.uint32, 2 * count + 6)
        cycles = words[1 : 2 * count : 2]
        ends = words[2 * count :].astype(np.int64)
        spent_ns = (ends[3] - ends[0]) + ((ends[4] - ends[1]) << 32)
        row = {"part": "loads", "name": name, "lanes": lanes, "ghz": round(float((ends[5] - ends[2]) % (1 << 32) / max(spent_ns, 1)), 5)}  # fmt: skip
        row["cycles"] = {str(p): round(float(np.percentile(cycles, p)), 1) for p in (1, 10, 25, 50, 75, 90, 99)}
        row["mean"] = round(float(cycles.mean()), 1)
        print(row, flush=True)
        rows.append(row)
    out.free()
    return rows


def streams(device: Device, module: Any, data: Buffer, other: Buffer, lengths: tuple[int, ...]) -> list[dict[str, Any]]:
    """Long streams: cycles per iteration between readings of the clock, mean over warps and slowest SM; and each SM's mean over all of them."""
    rows: list[dict[str, Any]] = []
    for blocks, threads, order in STREAMS:
        warps = blocks * threads // 32
        out = device.upload(np.zeros(warps * (CHECKS + 2), np.uint32))
        for every in lengths:
            _empty(device, module, out, other)
            arguments = [out, data, np.uint32(DATA_MIB * MIB // PIECE_BYTES - 1), np.uint32(every), np.uint32(order), np.uint32(every)]  # fmt: skip
            module.launch("stream", blocks, threads, arguments)
            words = out.read(np.uint32, warps * (CHECKS + 2)).reshape(warps, CHECKS + 2)
            spans = np.diff(words[:, 1:], axis=1).astype(np.int64) / every
            sms = np.unique(words[:, 0])
            by_sm = np.array([spans[words[:, 0] == sm].mean(axis=0) for sm in sms])
            row = {"part": "streams", "blocks": blocks, "threads": threads, "order": ORDERS[order], "every": every}
            row["mean"] = [round(float(v)) for v in spans.mean(axis=0)]
            row["slowest_sm"] = [round(float(v)) for v in by_sm.max(axis=0)]
            row["sms"] = [[int(sm), round(float(v), 1)] for sm, v in zip(sms, by_sm[:, 1:].mean(axis=1), strict=True)]
            row["bytes_per_cycle"] = round(warps * PIECE_BYTES / float(spans[:, 1:].mean()), 1)
            print({key: item for key, item in row.items() if key != "sms"}, flush=True)
            rows.append(row)
        out.free()
    return rows


def measure(device: Device, cubin: bytes) -> list[dict[str, Any]]:
    """Both parts."""
    module = device.load(cubin)
    model = device.kind == "model"
    data, other = device.alloc(DATA_MIB * MIB), device.alloc(OTHER_MIB * MIB)
    if not model:
        for buffer in (data, other):
            buffer.zero()  # type: ignore[attr-defined]
    found = streams(device, module, data, other, MODEL_EVERY if model else EVERY)
    found += single(device, module, data, other, MODEL_LOADS if model else LOADS)
    for buffer in (data, other):
        buffer.free()
    return found


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure)
