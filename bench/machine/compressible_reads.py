"""What compressible memory gains by its contents, on the model and on an H200: ``python -m bench.machine.compressible_reads [NAME …]``.

The card's times are those of the part ``compression`` of ``bench.machine.l2_policies`` (``bench/data/h200/l2_policies.json``, 256 MiB).  The model fills memory
with each of the same contents, in memory that may be compressed and in memory that may not, and reads it back: from DRAM, and a part of it from L2.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import numpy as np

import warpwright as ww
from bench.machine.l2_policies import SMALL, contents

RECORD = Path(__file__).parents[1] / "data" / "h200" / "l2_policies.json"
SOURCE = Path(__file__).with_name("l2_policies.cu")
SIZE = 96 << 20
NAMES = (
    "zeros", "constant", "count", "1 bit", "4 bits", "8 bits", "12 bits", "16 bits", "24 bits", "signed 8 bits", "a word a sector",
    "base a line and 8 bits", "bytes of 4 bits", "floats", "sparse floats, half", "sparse floats, 7 of 8", "sparse halves, half",
    "halves 2 of 4", "half the lines random", "half the sectors random", "a random word a line", "random",
)  # fmt: skip
"""Contents that are run where none is named."""
WHAT = ("fill", "read", "read_l2")


def simulated(words: np.ndarray, compress: bool) -> dict[str, float]:
    """Seconds of a fill, of a read from DRAM, and of a pass over what L2 holds."""
    gpu = ww.GPU("h200", caches="kept", unified=True)
    module = gpu.compile(SOURCE.read_text(), options=["-std=c++17"])
    data, sink, table = gpu.zeros(SIZE // 4, np.uint32), gpu.zeros(16, np.uint32), gpu.array(words)
    if compress:
        gpu.memory.compress(data.device_address(), SIZE, gpu.chip.l1.l1_line_bytes)

    def read(size: int, passes: int) -> float:
        return module["read"][528, 512](data, np.uint32(size // 16), np.int32(passes), sink).seconds

    filled = module["fill"][528, 512](data, np.uint32(SIZE // 16), table).seconds
    from_dram = read(SIZE, 1)
    read(SMALL, 1)
    few, many = read(SMALL, 2), read(SMALL, 4)
    return {"fill": filled, "read": from_dram, "read_l2": (many - few) / 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES)
    record = json.loads(RECORD.read_text())["compression"]
    known = contents()
    print(f"{'speed of compressible over plain memory':40s} {'fill':>22s} {'read':>22s} {'read in L2':>22s}")
    for name in parser.parse_args().names:
        ours = [simulated(known[name], compress) for compress in (False, True)]
        cells = []
        for what in WHAT:
            plain, packed = (statistics.median(record[k]["rows"][name][what]) for k in ("plain", "compressible"))
            card, model = plain / packed, ours[0][what] / ours[1][what]
            cells.append(f"{card:8.2f} {model:5.2f} {100 * (model / card - 1):+6.0f}%")
        print(f"{name:40s} {' '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
