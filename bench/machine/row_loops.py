"""Loops over rows by a few warps of one SM, each lane in its own row: cycles per load, by the place of its lines, the distance between rows, and the numbers of warps and of loads in flight.

``python -m bench.machine.row_loops --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
``--profile`` instead counts with ``ncu``, on a card, L1's work for some of these loops.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.corpus_card import under_ncu, value
from bench.device import Buffer, Device, Model, open_device
from bench.machine.card_program import builds, cubin_parser

MIB = 1 << 20
COUNTS = (1, 4, 8)
"""Loads per turn, all in flight."""
WARPS = (1, 2, 4, 8, 16, 32)
PITCHES = (128, 3000, 3072, 4000, 4096, 4100, 6000, 8000)
ROW_BYTES = 1024
SECTOR_MASK = 31
PLACES = ("l1", "l2", "dram")
SWEPT_MIB = 256
REPEATS = 3
PROFILED = {"counts": (1, 4), "warps": (8, 32), "pitches": (3072, 4000, 4096, 4100, 8000)}
METRICS = (
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__lsu_writeback_active.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum",
)


def turns_of(pitch: int, count: int) -> int:
    """Turns of ``count`` loads of 4 bytes along a row."""
    return min(ROW_BYTES, max(pitch // 32 * 32, 128)) // 4 // count


def measure(
    device: Device, cubin: bytes, chosen: dict[str, Sequence[int]] | None = None, repeats: int = REPEATS
) -> list[dict[str, Any]]:
    """Cycles per load until the first and the last warp end (medians), by place (``l1``, ``l2``, ``dram``), loads per turn, pitch in bytes and warps.

    Args:
        chosen: ``counts``, ``pitches`` and ``warps`` if not all.
        repeats: launches of each on a card.
    """
    module = device.load(cubin)
    out = device.upload(np.zeros(2 * 4096, np.uint32))
    data = device.alloc(32 * MIB)
    data.zero()
    other: Buffer | None = None if device.kind == "model" else device.alloc(SWEPT_MIB * MIB)
    if other is not None:
        other.zero()
    some = chosen or {}
    rows = []
    for count in some.get("counts", COUNTS):
        for pitch in some.get("pitches", PITCHES):
            for warps in some.get("warps", WARPS):
                for place in PLACES:
                    turns = turns_of(pitch, count)
                    mask = SECTOR_MASK if place == "l1" else 0xFFFFFFFF
                    arguments = [out, data, np.uint64(pitch), np.uint32(mask), np.int32(turns)]
                    found = []
                    for _ in range(1 if device.kind == "model" else repeats):
                        if other is not None:
                            module.launch("sweep", 1056, 512, [out, other, np.uint64(other.nbytes // 16)])
                        module.launch(f"row_loop_{count}", 1, 32 * warps, [*arguments, np.int32(place != "dram")])
                        spans = out.read(np.uint32, 2 * warps).reshape(-1, 2).astype(np.int64)
                        found.append([(spans[:, 1].min() - spans[:, 0].min()), spans[:, 1].max() - spans[:, 0].min()])
                    first, last = np.median(found, axis=0) / turns / count
                    row = {"place": place, "count": count, "pitch": pitch, "warps": warps}
                    rows.append({**row, "first": round(float(first), 2), "last": round(float(last), 2)})
    return rows


def profile(cubin: Path) -> list[dict[str, Any]]:
    """``METRICS`` per load for some of the loops, in the order in which ``measure`` launches them, including the loads that first bring rows to L2."""
    own = ["bench.machine.row_loops", "--cubin", str(cubin), "--profiled"]
    found_rows, text = under_ncu(own, METRICS, ("--kernel-name", "regex:row_loop"))
    launches = iter(found_rows)
    rows = []
    for count in PROFILED["counts"]:
        for pitch in PROFILED["pitches"]:
            for warps in PROFILED["warps"]:
                for place in PLACES:
                    row = next(launches, None)
                    if row is None:
                        raise SystemExit(f"the launches failed: {text[-1000:]}")
                    loads = turns_of(pitch, count) * count * warps
                    found = {metric: round(float(value(row, metric)) / loads, 2) for metric in METRICS}
                    rows.append({"place": place, "count": count, "pitch": pitch, "warps": warps, **found})
    return rows


def main() -> None:
    parser = cubin_parser(__doc__)
    parser.add_argument("--profile", action="store_true", help="count under ncu")
    parser.add_argument("--profiled", action="store_true", help="only launch what is counted; this part runs under ncu")
    options = parser.parse_args()
    if builds(Path(__file__), options):
        return
    device: Device = Model(options.model) if options.model else open_device("card")
    if options.profiled:
        measure(device, options.cubin.read_bytes(), PROFILED, 1)
        return
    rows = profile(options.cubin) if options.profile else measure(device, options.cubin.read_bytes())
    for row in rows:
        print(row, flush=True)
    if options.out:
        options.out.write_text(json.dumps({**device.describe(), "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
