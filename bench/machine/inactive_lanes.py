"""What a shuffle gives if its source lane does not execute it: zero, on an H200.

CUDA leaves this undefined.  Programs do it all the same, such as reductions by ``__shfl_down_sync`` with a full mask in a loop that some lanes have left.

``python -m bench.machine.inactive_lanes --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` runs it on a card.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

STEPS = (2, 4, 32)


def measure(device: Device, cubin: bytes) -> dict[str, list[int]]:
    """By the distance between executing lanes: the first shuffle's 32 results, the second's, and the values of the lanes."""
    module = device.load(cubin)
    given = device.upload(np.arange(128, dtype=np.int32) * 7 + 5)
    found = {}
    for step in STEPS:
        out = device.upload(np.zeros(96, np.int32))
        module.launch("inactive", 1, 32, [out, given, np.int32(step)])
        found[str(step)] = out.read(np.int32, 96).tolist()
        out.free()
    return found


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure)
