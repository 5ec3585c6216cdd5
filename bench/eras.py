"""Speed of simulating the chips of before 2016 beside V100's: warp instructions per second of CPU time, with and without timing.

``python -m bench.eras [--turns 5] [NAME …]`` runs kernels of the corpus (large sizes) that all four chips can, on one host thread, the chips in turns, and
takes each chip's best turn.  The first launch of a kernel compiles it and is not counted.  An instruction of a wavefront of 64 lanes counts as two of a warp.

The exit status is 1 if a chip's geometric mean is below half of V100's.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.kernels import case

CHIPS = ("g80", "gtx480", "hd6970", "v100")
REFERENCE = "v100"
KERNELS = (
    *("stream_triad", "matmul_naive", "matmul_tiled", "transpose_padded", "bank_stride"),
    *("sort_bitonic", "gather", "scan_block_exclusive"),
)
MODES = ("off", "full")
LEAST = 0.5


class Launch:
    """One kernel on one chip, compiled."""

    def __init__(self, chip: str, name: str, mode: str) -> None:
        import warpwright as ww

        self.case = case(name, "large")
        self.gpu = ww.GPU(chip, timing=mode, threads=1)
        self.kernel: Any = self.gpu.compile(self.case.source, options=self.case.options)[self.case.kernel]
        self.best = math.inf
        self.instructions = 0.0
        self.go()
        self.best = math.inf

    def go(self) -> None:
        """Launch it once; keep the least CPU time."""
        arguments = copy.deepcopy(self.case.args)
        before = time.process_time()
        run = self.kernel[self.case.grid, self.case.block, self.case.shared_bytes](*arguments)
        self.best = min(self.best, time.process_time() - before)
        self.instructions = float(run.metrics["smsp__inst_executed.sum"]) * self.gpu.chip.lanes / 32

    @property
    def millions_per_second(self) -> float:
        return self.instructions / self.best / 1e6


def mean(values: Sequence[float]) -> float:
    """The geometric one."""
    return math.exp(sum(map(math.log, values)) / len(values))


def measure(name: str, mode: str, turns: int) -> list[float]:
    """Millions of warp instructions per second of CPU time on each chip."""
    launches = [Launch(chip, name, mode) for chip in CHIPS]
    for _ in range(turns):
        for one in launches:
            one.go()
    return [one.millions_per_second for one in launches]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    slow = []
    for mode in MODES:
        print(f"timing={mode!r}, M warp instructions/s of CPU time")
        print(f"{'kernel':24s}" + "".join(f"{chip:>10s}" for chip in CHIPS))
        table = []
        for name in arguments.names or KERNELS:
            table.append(measure(name, mode, arguments.turns))
            print(f"{name:24s}" + "".join(f"{speed:10.2f}" for speed in table[-1]), flush=True)
        means = [mean(column) for column in zip(*table, strict=True)]
        print(f"{'geometric mean':24s}" + "".join(f"{speed:10.2f}" for speed in means))
        shares = [speed / means[CHIPS.index(REFERENCE)] for speed in means]
        print(f"{'of ' + REFERENCE:24s}" + "".join(f"{share:10.2f}" for share in shares), flush=True)
        slow += [f"{chip} ({mode})" for chip, share in zip(CHIPS, shares, strict=True) if share < LEAST]
    if slow:
        sys.exit(f"below {LEAST:g} of {REFERENCE}: {', '.join(slow)}")


if __name__ == "__main__":
    main()
