"""The first loads of a launch with cold caches: how long each warp of a chip waits for lines that no cache has, of pages that it has accessed and of others.

``python -m bench.machine.first_loads --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card (with ``ncu``, which flushes caches before each
launch), and ``--cubin FILE --model h200`` on the model.  With ``--starts``, it measures instead when the warps of each SM execute their first instructions and issue their
first loads, which wait for constants.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.corpus_card import under_ncu, value
from bench.device import open_device
from bench.machine.card_program import builds, cubin_parser

Settings = Sequence[tuple[int, int, int]]
MIB = 1 << 20
LOADS = 6
METRICS = ("gpc__cycles_elapsed.max", "sm__cycles_active.max", "sm__cycles_active.avg")
SETTINGS = tuple(
    (grid, threads, step) for step in (MIB, 8 * MIB) for grid, threads in ((1, 32), (12, 256), (132, 32), (132, 256), (132, 1024), (528, 512))
)  # fmt: skip
"""Blocks, threads per block, bytes from one line of a warp to its next."""
STARTS = tuple(
    (grid, threads, MIB) for grid, threads in ((4, 256), (12, 1024), (132, 32), (132, 128), (132, 256), (132, 1024), (264, 1024), (528, 512), (1056, 256), (2112, 64))
)  # fmt: skip
REPEATS, MODEL_REPEATS = 5, 1


def run_on(device: Any, cubin: bytes, repeats: int, settings: Settings = SETTINGS) -> list[dict[str, Any]]:
    """Launch everything; for each launch, by warp, the SM, the cycles of the first instruction to the first load and those of each load."""
    module = device.load(cubin)
    data = device.alloc(LOADS * 8 * MIB)
    data.zero()
    rows = []
    for grid, threads, step in settings:
        warps = grid * threads // 32
        out = device.upload(np.zeros(warps * (LOADS + 3), np.uint32))
        for _ in range(repeats):
            module.launch("first_loads", grid, threads, [out, data, np.uint32(step)])
            read = out.read(np.uint32, warps * (LOADS + 3)).reshape(warps, LOADS + 3).astype(np.int64)
            rows.append({"grid": grid, "threads": threads, "step": step, "times": read})
        out.free()
    data.free()
    return rows


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Percentiles over warps of the cycles of each load, and for the first one of each SM's first warp, by SM."""
    times = row.pop("times")
    spans = np.diff(times[:, 1:], axis=1)
    percentiles = np.percentile(spans, (0, 10, 50, 90, 100), axis=0)
    begins = np.full(int(times[:, 0].max()) + 1, 1 << 40)
    ends = np.zeros(len(begins), np.int64)
    np.minimum.at(begins, times[:, 0], times[:, 1])
    first, last = begins.copy(), ends.copy()
    np.maximum.at(last, times[:, 0], times[:, 3])
    np.maximum.at(ends, times[:, 0], times[:, -1])
    used = np.flatnonzero(ends)
    return {
        **row,
        "spans": [[round(float(v)) for v in one] for one in percentiles.T],
        "sms": [int(sm) for sm in used],
        "first": [int(v) for v in (last - first)[used]],
        "all": [int(v) for v in (ends - begins)[used]],
    }


def started(row: dict[str, Any]) -> dict[str, Any]:
    """Mean over SMs of the cycles, from the first instruction on the SM, at which its warps, in order, execute their first instructions, issue their first loads and have their data."""
    times = row.pop("times")
    per_sm = [times[times[:, 0] == sm, 1:4] - times[times[:, 0] == sm, 1].min() for sm in np.unique(times[:, 0])]
    warps = min(len(one) for one in per_sm)
    means = np.mean([np.sort(one, axis=0)[:warps] for one in per_sm], axis=0).round().astype(int)
    return {**row, **{name: means[:, n].tolist() for n, name in enumerate(("begin", "issue", "arrive"))}}


def main() -> None:
    parser = cubin_parser(__doc__)
    parser.add_argument("--starts", action="store_true")
    parser.add_argument(
        "--launch", type=Path, help="launch on a card and store what the warps leave; this part runs under ncu"
    )
    options = parser.parse_args()
    if builds(Path(__file__), options):
        return
    see, settings = (started, STARTS) if options.starts else (shown, SETTINGS)
    if options.launch:
        rows = [see(row) for row in run_on(open_device("card"), options.cubin.read_bytes(), REPEATS, settings)]
        options.launch.write_text(json.dumps(rows))
        return
    if options.model:
        rows = [
            see(row)
            for row in run_on(open_device("model", options.model), options.cubin.read_bytes(), MODEL_REPEATS, settings)
        ]
    else:
        left = options.out.with_suffix(".rows")
        measured, text = under_ncu(
            ["bench.machine.first_loads", "--cubin", str(options.cubin), "--launch", str(left)]
            + ["--starts"] * options.starts,
            METRICS,
        )
        rows = json.loads(left.read_text())
        left.unlink()
        if len(measured) != len(rows):
            raise SystemExit(f"{len(measured)} launches were profiled instead of {len(rows)}: {text[-1000:]}")
        rows = [
            {**row, **{name: float(value(one, name)) for name in METRICS}}
            for row, one in zip(rows, measured, strict=True)
        ]
    for row in rows:
        print({key: v for key, v in row.items() if key not in ("sms", "first", "all")}, flush=True)
    command = f"python -m bench.machine.first_loads{' --starts' * options.starts} --cubin FILE --out FILE"
    if options.out:
        options.out.write_text(json.dumps({"command": command, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
