"""What a fence of device scope costs while another warp of its SM keeps bulk loads in flight, and what it costs the loads.

``python -m bench.machine.fences_among_copies --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

KERNELS = ("nothing", "acq_rel", "sc")
COPIES = ((1024, 1), (1024, 8), (16384, 1), (16384, 4), (49152, 1), (49152, 4))
"""Bytes of a load, and loads in flight."""
FENCES = 32
BYTES_IN_ALL = {"card": 4 << 20, "model": 1 << 20}
"""Loaded by a block: enough that the fences end before the loads."""


def measure(device: Device, cubin: bytes) -> dict[str, list[float]]:
    """Cycles per fence, and the loads' bytes per cycle of an SM, by kernel, bytes of a load, loads in flight and blocks (one of the chip, one per SM); with 0 loads the fences alone."""
    module = device.load(cubin)
    sm_count = int(device.describe()["sm_count"])
    out, data = device.upload(np.zeros(2 * sm_count, np.uint32)), device.alloc(sm_count * 4 * 49152)
    found: dict[str, list[float]] = {}
    for kernel in KERNELS:
        for size, depth in COPIES:
            for blocks in (1, sm_count):
                for count in (0, BYTES_IN_ALL[device.kind] // size):
                    spans = []
                    for _ in range(1 if device.kind == "model" else 5):
                        arguments = [np.int32(size), np.int32(depth), np.int32(count), np.int32(FENCES)]
                        module.launch(kernel, blocks, 64, [out, data, *arguments], size * depth)
                        spans.append(out.read(np.uint32, 2 * blocks).reshape(-1, 2).mean(axis=0))
                    loads, fences = np.median(np.array(spans), axis=0)
                    rate = size * count / loads if count else 0.0
                    found[f"{kernel} {size} {depth} {count} {blocks}"] = [
                        round(float(fences) / FENCES, 1), round(float(rate), 2),
                    ]  # fmt: skip
    return found


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, fences=FENCES)
