"""What L2 keeps near an SM of a line that is written: ``python -m bench.machine.written [--device model] [--out FILE]``.

Block 0 reads lines, one at a time and past L1, before and after they are written: by itself, or by a block of another SM, whole or one word of
each line, by stores or by sums without an answer.  A read takes about 200 cycles more where the line must come from the other side of L2.
For each kind of write: the median cycles of the four reads, by the side of L2 on which the writer is and on which the line has its home.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import open_device, smi

SOURCE = Path(__file__).with_name("written.cu")
LINES, STRIDE_WORDS = 512, 4096 // 4 + 32
READS = ("first", "again", "after the write", "after it again")


def home_sides(module: Any, device: Any, data: Any) -> dict[int, np.ndarray]:
    """By SM, whether each line's home is on its own side: an atomic takes about 200 cycles less there."""
    out, turn = device.alloc(4 * 132 * (LINES + 1)), device.upload(np.zeros(1, np.uint32))
    module.launch("sides", 132, 32, [data, out, turn, np.int32(LINES), np.int32(STRIDE_WORDS)])
    rows = out.read(np.uint32, 132 * (LINES + 1)).reshape(132, LINES + 1)
    cycles = rows[:, 1:].astype(float)
    middle = (np.percentile(cycles, 10, axis=1) + np.percentile(cycles, 90, axis=1)) / 2
    return {int(row[0]): times < edge for row, times, edge in zip(rows, cycles, middle, strict=True)}


def measure(device: Any, cubin: bytes, writers: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    """By what is written: of all lines whose home is near the reader or far from it, by the writer's side, the median of each read."""
    module = device.load(cubin)
    data = device.alloc(4 * LINES * STRIDE_WORDS)
    sides = home_sides(module, device, data)
    found: dict[str, dict[str, Any]] = {}
    for kind, words, before in (
        (0, 32, 1),
        (0, 32, 0),
        (0, 8, 1),
        (0, 8, 0),
        (0, 1, 1),
        (0, 1, 0),
        (1, 32, 1),
        (1, 1, 1),
    ):
        gathered: dict[str, list[np.ndarray]] = {}
        for writer in writers:
            fresh = device.alloc(256 << 20)  # what was read for a row before has left L2
            fresh.zero()
            fresh.free()
            out, turn = device.upload(np.zeros(4 * LINES, np.uint32)), device.upload(np.zeros(1, np.uint32))
            places = device.upload(np.zeros(2, np.uint32))
            numbers = [np.int32(v) for v in (LINES, STRIDE_WORDS, words, writer, kind, before)]
            module.launch("written", 132, 32, [data, out, turn, *numbers, places])
            cycles = out.read(np.uint32, 4 * LINES).reshape(LINES, 4)
            reader, other = (int(sm) for sm in places.read(np.uint32, 2))
            same = (
                "the reader itself"
                if writer == 0
                else "same side"
                if (sides[reader] == sides[other]).mean() > 0.5
                else "other side"
            )
            for near, text in ((True, "home near"), (False, "home far")):
                gathered.setdefault(f"{same}, {text}", []).append(cycles[sides[reader] == near])
            for buffer in (out, turn, places):
                buffer.free()
        name = f"{('stores', 'sums')[kind]} of {words} words" + ("" if before else ", not read before")
        found[name] = {
            who: dict(zip(READS, np.median(np.concatenate(rows), axis=0).tolist(), strict=True))
            | {"launches": len(rows)}
            for who, rows in sorted(gathered.items())
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("card", "model"), default="card")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--cubins", type=Path, default=Path("build/machine"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = open_device(options.device, options.gpu)
    writers = tuple(range(0, 132, 11)) if options.device == "card" else (0, 1, 2, 16)
    found = measure(device, (options.cubins / "written.cubin").read_bytes(), writers)
    if options.out:
        about = {"card": smi(), "command": "python -m bench.machine.written --out FILE"}
        options.out.write_text(json.dumps({**about, "cycles": found}, indent=1) + "\n")
    for name, rows in found.items():
        print(name)
        for who, reads in rows.items():
            print(f"    {who:30}", *(f"{cycles:8.0f}" for cycles in reads.values()))


if __name__ == "__main__":
    main()
