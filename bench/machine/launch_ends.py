"""The time that a launch takes beyond that in which its SMs are active, by what its blocks do, for how long, and on how many SMs.

``python -m bench.machine.launch_ends --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card (with ``ncu``, which flushes caches before each
launch), and ``--cubin FILE --model h200`` on the model.  With ``--stores``, it measures blocks that wait and store only at their ends, or only early;
with ``--passes``, it profiles the metrics of the kernels' recordings, for which the profiler makes several passes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from bench.corpus_card import METRICS as RECORDED
from bench.corpus_card import under_ncu, value
from bench.device import open_device
from bench.machine.card_program import builds, cubin_parser

KINDS = ("waits", "computes", "reads", "reads cold", "stores")
METRICS = (
    *("gpc__cycles_elapsed.max", "gpc__cycles_elapsed.min", "sm__cycles_active.max", "sm__cycles_active.min", "sm__cycles_active.avg"),
    *("sm__cycles_elapsed.max", "sm__cycles_elapsed.min", "gpu__time_duration.sum"),
)  # fmt: skip
LINES = {"reads cold": 1 << 20}
SETTINGS = tuple(
    (kind, grid, threads, cycles, writes)
    for kind in KINDS
    for grid, threads in ((1, 256), (12, 256), (132, 256), (528, 512))
    for cycles in (500, 4000, 8000, 16000, 64000)
    for writes in ((False, True) if cycles == 8000 else (True,))
)
STORES = tuple(
    (grid, cycles, early, last)
    for grid in (1, 132)
    for cycles in (2000, 16000, 64000)
    for early, last in ((0, 0), (0, 1), (0, 16), (0, 256), *(((cycles - 10000, 0), (cycles - 10000, 1)) if cycles > 10000 else ()))
)  # fmt: skip
"""Blocks of 256 threads, the cycles that they take, the first cycles in which they store, and the threads of a block that store at the end."""
REPEATS, MODEL_REPEATS = 2, 1
STORE_REPEATS = 4


def run_on(device: Any, cubin: bytes, repeats: int) -> list[dict[str, Any]]:
    """Make all launches; for each, the nanoseconds from the beginning of the first block to that of the last one, to the first end and to the last end, and the least, median and greatest time of a block."""
    module = device.load(cubin)
    data = device.alloc(128 << 20)
    data.zero()
    out = device.alloc(528 * 32)
    rows = []
    for kind, grid, threads, cycles, writes in SETTINGS:
        lines = LINES.get(kind, 1 << 15)
        for _ in range(repeats):
            place = out if writes else np.uint64(0)
            module.launch("launch_ends", grid, threads, [place, data, np.uint32(lines), np.uint32(cycles), np.uint32(KINDS.index(kind))])  # fmt: skip
            row = {"kind": kind, "grid": grid, "threads": threads, "cycles": cycles, "writes": writes}
            if writes:
                words = out.read(np.uint32, grid * 8).reshape(grid, 8)
                ns = words[:, 4:].copy().view(np.uint64).astype(np.int64)
                spans = (words[:, 2] - words[:, 1]).astype(np.int64)
                row["ns"] = [int(v) for v in (np.ptp(ns[:, 0]), ns[:, 1].min() - ns[:, 0].min(), ns[:, 1].max() - ns[:, 0].min())]  # fmt: skip
                row["block_cycles"] = [int(v) for v in np.percentile(spans, (0, 50, 100))]
                row["block_ns"] = [int(v) for v in np.percentile(ns[:, 1] - ns[:, 0], (0, 50, 100))]
            rows.append(row)
    out.free()
    data.free()
    return rows


def run_stores(device: Any, cubin: bytes, repeats: int) -> list[dict[str, Any]]:
    """Run all launches of ``STORES``."""
    module = device.load(cubin)
    data = device.alloc(128 << 20)
    data.zero()
    rows = []
    for grid, cycles, early, last in STORES:
        for _ in range(repeats):
            arguments = [data, *(np.uint32(v) for v in (1 << 15, cycles, early, last))]
            module.launch("last_stores", grid, 256, arguments)
            rows.append({"grid": grid, "cycles": cycles, "early": early, "last": last})
    data.free()
    return rows


def main() -> None:
    parser = cubin_parser(__doc__)
    parser.add_argument("--launch", type=Path, help="launch on a card and store the results in this file; this part runs under ncu")  # fmt: skip
    parser.add_argument("--stores", action="store_true", help="stores at the end or early instead of the kinds of work")
    parser.add_argument("--passes", action="store_true", help="profile in several passes, as bench.corpus_card does")
    options = parser.parse_args()
    metrics = tuple(dict.fromkeys(METRICS + RECORDED)) if options.passes else METRICS
    run, repeats = (run_stores, STORE_REPEATS) if options.stores else (run_on, REPEATS)
    more = ["--stores"] if options.stores else []
    shown = [*more, "--passes"] if options.passes else more
    if builds(Path(__file__), options):
        return
    if options.launch:
        rows = run(open_device("card"), options.cubin.read_bytes(), repeats)
        options.launch.write_text(json.dumps(rows))
        return
    if options.model:
        rows = run(open_device("model", options.model), options.cubin.read_bytes(), MODEL_REPEATS)
    else:
        left = options.out.with_suffix(".rows")
        measured, text = under_ncu(["bench.machine.launch_ends", "--cubin", str(options.cubin), "--launch", str(left), *more], metrics)  # fmt: skip
        if not left.exists():
            raise SystemExit(f"the launches failed: {text[-3000:]}")
        rows = json.loads(left.read_text())
        left.unlink()
        if len(measured) != len(rows):
            raise SystemExit(f"{len(measured)} launches were profiled instead of {len(rows)}: {text[-1000:]}")
        rows = [{**row, **{name: float(value(one, name)) for name in metrics if value(one, name)}} for row, one in zip(rows, measured, strict=True)]  # fmt: skip
    command = " ".join(["python -m bench.machine.launch_ends", *shown, "--cubin FILE --out FILE"])
    for row in rows:
        print(row, flush=True)
    if options.out:
        options.out.write_text(json.dumps({"command": command, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
