"""How many atomics of an SM are in flight while their word is busy, and what waits for those that are not: additions of all SMs to one word beside loads of the same SMs.

``python -m bench.machine.atomics_in_flight --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

KERNELS = ("with_answers", "without")
ADDING = (0, 4, 8, 16, 28)
"""Warps of each SM that add; four more load."""
TURNS = 16


def measure(device: Device, cubin: bytes) -> dict[str, dict[str, list[float]]]:
    """Cycles, medians over SMs, by kernel, adding warps and the loaded word (``hot``: the one that is added to).

    ``loads``: from one load of a warp to its next, the first from the beginning on; the median and the longest over the four warps of an SM.  ``issued``: from the
    beginning to the issue of the k-th of all additions of the SM.  ``answered``: to the k-th answer.
    """
    module, sm_count = device.load(cubin), int(device.describe()["sm_count"])
    out = device.upload(np.zeros(sm_count * 32 * (TURNS + 1), np.uint32))
    words = device.upload(np.zeros(2048 + sm_count * 128, np.uint32))
    found: dict[str, dict[str, list[float]]] = {}
    launches = 0
    for kernel in KERNELS:
        for adding in ADDING:
            for hot in (0, 1):
                each: list[np.ndarray] = []
                for _ in range(1 if device.kind == "model" else 5):
                    launches += 1
                    arguments = [out, words, np.uint32(launches * sm_count), np.int32(adding), np.int32(hot)]
                    module.launch(kernel, sm_count, 1024, arguments)
                    read = out.read(np.uint32, sm_count * 32 * (TURNS + 1)).reshape(sm_count, 32, TURNS + 1)
                    each.append(read[:, : 4 + adding].astype(np.int64))
                times = np.concatenate(each)
                times = times - times[:, :, :1].min(axis=1, keepdims=True)
                loads = np.diff(times[:, :4], axis=2)[:, :, 1:]
                row = {
                    "loads": np.median(np.median(loads, axis=1), axis=0),
                    "longest": np.median(loads.max(axis=1), axis=0),
                }
                if adding:
                    added = times[:, 4:]
                    last = 2 if kernel == "with_answers" else TURNS + 1
                    row["issued"] = np.median(np.sort(added[:, :, 1:last].reshape(len(times), -1), axis=1), axis=0)
                    if kernel == "with_answers":
                        row["answered"] = np.median(np.sort(added[:, :, 2], axis=1), axis=0)
                name = f"{kernel}, {adding}, {'hot' if hot else 'own'}"
                found[name] = {key: [float(value) for value in values] for key, values in row.items()}
    return found


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, adding=ADDING)
