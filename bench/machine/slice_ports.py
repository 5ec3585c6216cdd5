"""Stores and additions of some warps beside loads of others: what the slices of L2 do at the same time and what one after the other.

``python -m bench.machine.slice_ports --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from bench.device import Device
from bench.machine.card_program import measure_cubin

MIB = 1 << 20
KERNELS = ("words", "scattered", "adds_scattered")
WRITTEN_MIB = 4
READ_MIB = (8, 512)
"""What L2 holds after a first pass, and what comes from DRAM."""
WRITES = {"words": 8, "scattered": 2, "adds_scattered": 2}
READS = (0, 8, 16, 32, 64)
"""Rounds of loads beside these rounds of writes, and alone."""
MODEL_READS = (0, 16)
REPEATS = 3
BLOCK_WARPS = 32


def writers(sm_count: int, apart: int) -> np.ndarray:
    """By block and warp, whether it writes: the first half of each block's warps or, with ``apart``, all of even blocks."""
    block, warp = np.indices((sm_count, BLOCK_WARPS))
    return np.asarray(block % 2 == 0 if apart else warp < BLOCK_WARPS // 2)


def measure(device: Device, cubin: bytes) -> list[dict[str, float | str]]:
    """Cycles until the writes of all SMs are done (``writes``) and until their loads are (``reads``), 0 where there are none; medians of the launches."""
    module, sm_count = device.load(cubin), int(device.describe()["sm_count"])
    model = device.kind == "model"
    data, other = device.alloc(WRITTEN_MIB * MIB), device.alloc(max(READ_MIB) * MIB)
    out, arrived = device.upload(np.zeros(sm_count * 96, np.uint32)), device.upload(np.zeros(32, np.uint32))
    rows: list[dict[str, float | str]] = []
    launches = first = 0
    for kernel, mib, apart, reads, writing in itertools.product(
        KERNELS, READ_MIB, (0, 1), MODEL_READS if model else READS, (1, 0)
    ):
        writes = WRITES[kernel] * writing
        if writes + reads == 0 or (not writing and kernel != KERNELS[0]):
            continue
        found = []
        for _ in range(1 if model else REPEATS):
            launches += 1
            arguments = [out, arrived, data, np.uint32(WRITTEN_MIB * MIB - 1), other, np.uint32(mib * MIB - 1)]
            module.launch(
                kernel,
                sm_count,
                1024,
                [
                    *arguments,
                    np.uint32(launches * sm_count),
                    np.int32(writes),
                    np.int32(reads),
                    np.int32(apart),
                    np.uint32(first),
                ],
            )
            first += 64
            times = out.read(np.uint32, sm_count * 96).reshape(sm_count, 32, 3).astype(np.int64)
            written = (times[:, :, 2] - times[:, :, 0])[writers(sm_count, apart)]
            read = (times[:, :, 1] - times[:, :, 0])[~writers(sm_count, apart)]
            found.append((float(written.max()) * (writes > 0), float(read.max()) * (reads > 0)))
        writes_done, reads_done = np.median(found, axis=0)
        rows.append({
            "kernel": kernel, "mib": mib, "apart": apart, "rounds_written": writes, "rounds_read": reads,
            "writes": float(writes_done), "reads": float(reads_done),
        })  # fmt: skip
        print(rows[-1], flush=True)
    for buffer in (data, other, out, arrived):
        buffer.free()
    return rows


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure)
