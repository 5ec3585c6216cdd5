"""Loads that all warps of a launch with cold caches make at once: how long each warp waits, by the amount that they load together.

``python -m bench.machine.first_bursts --build FILE`` makes the cubin (kernels of ``bench/micro/start.cu``), ``--cubin FILE --out FILE`` measures on a card (with
``ncu``, which flushes caches before each launch), and ``--cubin FILE --model h200`` on the model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from bench.corpus_card import under_ncu
from bench.device import open_device
from bench.machine.card_program import builds, cubin_parser

MIB = 1 << 20
KERNELS = ("burst4_1", "burst4_4", "burst8_2", "burst16_1", "burst16_4")
"""Bytes of a load, and how many each thread makes."""
GRIDS = ((12, 256), (132, 32), (132, 256), (132, 1024), (264, 1024), (528, 512), (1056, 256))
REPEATS, MODEL_REPEATS = 3, 1


def run_on(device: Any, cubin: bytes, repeats: int) -> list[dict[str, Any]]:
    """For each launch, the 0th, 10th, 50th, 90th and 100th percentile over warps of the cycles of its loads."""
    module = device.load(cubin)
    data, out = device.alloc(64 * MIB), device.alloc(MIB)
    data.zero()
    rows = []
    for kernel in KERNELS:
        for blocks, threads in GRIDS:
            found = []
            for _ in range(repeats):
                module.launch(kernel, blocks, threads, [out, data, np.uint64(0), np.uint32(77)])
                spans = out.read(np.uint32, blocks * threads // 32)
                found.append([round(float(v)) for v in np.quantile(spans, (0, 0.1, 0.5, 0.9, 1))])
            rows.append({"kernel": kernel, "blocks": blocks, "threads": threads, "cycles": found})
    out.free()
    data.free()
    return rows


def main() -> None:
    parser = cubin_parser(__doc__)
    parser.add_argument(
        "--launch", type=Path, help="launch on a card and store the results in this file; this part runs under ncu"
    )
    options = parser.parse_args()
    if builds(Path(__file__).parents[1] / "micro" / "start.py", options):
        return
    if options.launch:
        options.launch.write_text(json.dumps(run_on(open_device("card"), options.cubin.read_bytes(), REPEATS)))
        return
    if options.model:
        rows = run_on(open_device("model", options.model), options.cubin.read_bytes(), MODEL_REPEATS)
    else:
        left = options.out.with_suffix(".rows")
        own = ["bench.machine.first_bursts", "--cubin", str(options.cubin), "--launch", str(left)]
        _, text = under_ncu(own, ("gpc__cycles_elapsed.max",))
        if not left.exists():
            raise SystemExit(f"the launches failed: {text[-1000:]}")
        rows = json.loads(left.read_text())
        left.unlink()
    for row in rows:
        print(row, flush=True)
    if options.out:
        command = "python -m bench.machine.first_bursts --cubin FILE --out FILE"
        options.out.write_text(json.dumps({"command": command, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
