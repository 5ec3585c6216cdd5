"""What DRAM takes for reads at random among writes at random, by their ratio and by the size of the memory that is written.

``python -m bench.machine.dram_turns --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

MIB = 1 << 20
THREADS = 1024
LINE_BYTES = 128
KERNELS = ("stores", "sums", "reads")
SIZES_MIB = (32, 64, 128, 256, 1024)
"""Sizes of the memory that is changed."""
READ_MIB = 2048
PERIODS = (0, 64, 32, 16, 8, 4, 2, 1)
"""Changes per read; 0: no reads."""
MODEL_CASES = (
    *(("stores", 1024, period) for period in (0, 32, 8, 2)), *(("sums", 1024, period) for period in (0, 4)),
    ("stores", 64, 0), ("stores", 64, 8), ("sums", 64, 0),
)  # fmt: skip
"""Those of docs/model/timing.md."""


def measure(device: Device, cubin: bytes) -> list[dict[str, float | str]]:
    """Nanoseconds of the whole chip per change (of ``reads``: per round of a pair of lanes), by kernel, MiB that are changed, and changes per read.

    Each is the slope between two numbers of rounds, each with the shortest of several launches.  No two launches change the same sequence of lines.
    """
    module, sm_count = device.load(cubin), int(device.describe()["sm_count"])
    model = device.kind == "model"
    counts = (12, 28) if model else (96, 288)
    changed, read = device.alloc(max(SIZES_MIB) * MIB), device.alloc(READ_MIB * MIB)
    out = device.upload(np.zeros(2 * sm_count, np.uint64))
    seeds = itertools.count(1)

    def shortest(kernel: str, size: int, period: int, count: int) -> float:
        """Cycles of ``count`` rounds: the least of several launches, each with lines of its own."""
        spans = []
        for seed in itertools.islice(seeds, 1 if model else 4):
            last = [np.uint32(mib * MIB // LINE_BYTES - 1) for mib in (size, READ_MIB)]
            drawn = np.uint32(seed * 0x2545F491 & 0xFFFFFFFF)
            arguments = [out, changed, last[0], read, last[1], np.uint32(period), drawn, np.int32(count)]
            module.launch(kernel, sm_count, THREADS, arguments)
            times = out.read(np.uint64, 2 * sm_count).reshape(sm_count, 2)
            spans.append(float(times[:, 1].max() - times[:, 0].min()))
        return min(spans)

    cases = [(kernel, *case) for kernel in KERNELS[:2] for case in itertools.product(SIZES_MIB, PERIODS)]
    cases += [(KERNELS[2], SIZES_MIB[-1], period) for period in PERIODS[1:]]
    rows: list[dict[str, float | str]] = []
    for kernel, size, period in MODEL_CASES if model else cases:
        if model:
            # L2 holds what the case before it has left.
            shortest(kernel, size, period, 10)
        few, many = (shortest(kernel, size, period, count) for count in counts)
        each = (many - few) / ((counts[1] - counts[0]) * sm_count * THREADS // 2)
        rows.append({"kernel": kernel, "mib": size, "period": period, "ns": round(each, 5)})
        print(rows[-1], flush=True)
    for buffer in (changed, read, out):
        buffer.free()
    return rows


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure, caches="kept", threads=THREADS, read_mib=READ_MIB)
