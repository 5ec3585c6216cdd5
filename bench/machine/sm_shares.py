"""How the SMs of a chip share L2 and DRAM when all of them load or store at once: the cycles of each block, by its SM.

``python -m bench.machine.sm_shares --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

MIB = 1 << 20
THREADS = 256
KERNELS = (
    *("read4_1", "read4_4", "read16_1", "read16_4", "write4", "write16", "write_stride", "gather", "gather4"),
    *("scatter", "copy4"),
)
SIZES_MIB = (8, 1024)
"""A size that L2 holds after a first pass, and one that it does not."""
BLOCKS_PER_SM = (1, 2, 4, 8)
TURNS, MODEL_TURNS = 96, 24
SWEPT_MIB = 256
REPEATS = 3


def measure(device: Device, cubin: bytes) -> list[dict[str, float | str | list[float]]]:
    """Cycles per turn when all SMs run blocks of 256 threads, by kernel, MiB and blocks per SM.

    ``mean`` and ``longest`` are over all blocks, ``by_sm`` is the mean of each SM's blocks, by SM number; all are from the median launch.
    """
    module, sm_count = device.load(cubin), int(device.describe()["sm_count"])
    model = device.kind == "model"
    turns, repeats = (MODEL_TURNS, 1) if model else (TURNS, REPEATS)
    data, other = device.alloc(max(SIZES_MIB) * MIB), device.alloc(max(SIZES_MIB) * MIB)
    out = device.upload(np.zeros(3 * sm_count * max(BLOCKS_PER_SM), np.uint64))
    rows: list[dict[str, float | str | list[float]]] = []
    for kernel, size, blocks in itertools.product(KERNELS, SIZES_MIB, BLOCKS_PER_SM):
        found = []
        for repeat in range(repeats):
            if size == SIZES_MIB[0]:  # brings the memory into L2
                warm = [out, data, other, np.uint32(size * MIB - 1), np.int32(size * MIB // (16 * 132 * 2048) + 1)]
                module.launch("read16_1", sm_count * 8, THREADS, [*warm, np.uint32(0)])
            else:
                sweep = [
                    out,
                    other,
                    data,
                    np.uint32(SWEPT_MIB * MIB - 1),
                    np.int32(SWEPT_MIB * MIB // (16 * 132 * 2048)),
                ]
                if not model:
                    module.launch("read16_1", sm_count * 8, THREADS, [*sweep, np.uint32(0)])
            start = np.uint32((repeat * 77 + 5) * 4096)
            arguments = [out, data, other, np.uint32(size * MIB - 1), np.int32(turns), start]
            module.launch(kernel, sm_count * blocks, THREADS, arguments)
            marks = out.read(np.uint64, 3 * sm_count * blocks).reshape(-1, 3).astype(np.int64)
            cycles = (marks[:, 2] - marks[:, 1]) / turns
            sums, counts = np.bincount(marks[:, 0], cycles, sm_count), np.bincount(marks[:, 0], minlength=sm_count)
            found.append((float(cycles.mean()), float(cycles.max()), sums / np.maximum(counts, 1)))
        mean, longest, by_sm = sorted(found, key=lambda one: one[0])[repeats // 2]
        rows.append({
            "kernel": kernel, "mib": size, "blocks_per_sm": blocks, "mean": round(mean, 1), "longest": round(longest, 1),
            "by_sm": [round(float(value), 1) for value in by_sm],
        })  # fmt: skip
        print({key: value for key, value in rows[-1].items() if key != "by_sm"}, flush=True)
    for buffer in (data, other, out):
        buffer.free()
    return rows


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, threads=THREADS, turns=TURNS)
