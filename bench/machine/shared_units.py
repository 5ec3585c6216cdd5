"""Which units the sub-cores of an SM share: times pairs of shuffles, shared loads, matches, reductions, votes and block barriers whose guard is false, with 1 to 32 warps.

The compiler merges some of the steps; ``instructions`` in ``bench/data/h200/shared_units.json`` counts those that remain in each kernel (nvdisasm).

``python -m bench.machine.shared_units --build CUBIN``; ``--cubin CUBIN --out FILE`` measures a card, with ``--model h200`` the model.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

OPERATIONS = ("match", "redux", "shfl", "lds", "vote", "bar")
KERNELS = [f"{one}_{other}" for one, other in product(OPERATIONS, ("alone", "twice", *OPERATIONS))]
KERNELS += ["match_redux_bar", "match_redux_shfl"]
STEPS, PASSES, TURNS = 32, 3, 5
WARPS = (1, 4, 8, 32)
MASKS = {1: 0, 4: 3, 32: 31}
"""Number of different values in a warp, and the mask of the thread's number that produces them."""


def measure(device: Device, cubin: bytes) -> dict[str, float]:
    """Cycles per step of all warps, from the first warp's first clock to the last warp's second, by kernel, different values and warps."""
    module = device.load(cubin)
    clocks = device.upload(np.zeros(64, np.uint32))
    found = {}
    for kernel in KERNELS:
        for values, mask in MASKS.items():
            if values > 1 and "match" not in kernel:
                continue
            for warps in WARPS:
                spans = []
                for _ in range(1 if device.kind == "model" else TURNS):
                    module.launch(kernel, 1, 32 * warps, [clocks, np.uint32(mask), np.int32(PASSES)])
                    read = clocks.read(np.uint32, 64).astype(np.int64)
                    spans.append(float(read[32 : 32 + warps].max() - read[:warps].min()))
                found[f"{kernel}, {values} values, {warps} warps"] = float(np.median(spans)) / STEPS
        shown = (f"{value:7.2f}" for name, value in found.items() if name.startswith(f"{kernel},"))
        print(f"{kernel:18}", *shown, flush=True)
    return found


if __name__ == "__main__":
    measure_cubin(
        Path(__file__), __doc__, measure,
        command="python -m bench.machine.shared_units --cubin CUBIN --out FILE",
    )  # fmt: skip
