"""How fast this checkout launches kernels, compared with another one: pairs of processes on one core, which launch in turns.

``python -m bench.version_pairs --against CHECKOUT [--this CHECKOUT] [--gpu h200] [--pairs 5] [--launches 30] [NAME …]`` runs the kernels of ``bench.timing`` (large sizes of the corpus, full
timing) and those of ``bench.engine`` (``engine:triad``, without timing), or those that are named. The two processes of a pair are pinned to one core, and each launches while the
other waits. Prints for each kernel the other checkout's CPU time divided by this one's, of the shortest and of the median launches of all pairs, and the lowest and
highest ratio of the pairs' shortest launches, which shows how much processes vary; and whether the cycles are equal.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.checkouts import HERE
from bench.timing import KERNELS, mean

ENGINE = ("engine:triad", "engine:matmul", "engine:mandelbrot", "engine:tiled")
CHILD = """
import copy, json, os, sys, time
name, gpu, core = sys.argv[1:]
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {int(core)})
import warpwright as ww
if name.startswith("engine:"):
    from bench import engine
    device = ww.GPU("a100", timing="off", threads=1)
    module = device.compile(engine.SOURCE)
    kernel, grid, block, arguments = next(row for row in engine.launches_of(device, engine.FULL) if row[0] == name[7:])
    launcher, fresh = module[kernel][grid, block], lambda: arguments
else:
    from bench.kernel_sets import kernel_set
    case = kernel_set("corpus").case(name)
    module = ww.GPU(gpu, threads=1).compile(case.source, options=case.options)
    launcher, fresh = module[case.kernel][case.grid, case.block, case.shared_bytes], lambda: copy.deepcopy(case.args)
print("ready", flush=True)
for _ in sys.stdin:
    given = fresh()
    began = time.process_time()
    run = launcher(*given)
    seconds = time.process_time() - began
    print(json.dumps([seconds, run.cycles if not name.startswith("engine:") else 0]), flush=True)
"""
"""Launches once for each line that it reads. It runs in either checkout, and uses only what earlier versions also have."""


class Process:
    """A process of a checkout that launches a kernel when it is asked."""

    def __init__(self, checkout: Path, name: str, gpu: str, core: int) -> None:
        # The optimised model: the quick one of a machine's first process is not what is compared.
        environment = {**os.environ, "PYTHONPATH": str(checkout), "WARPWRIGHT_BACKGROUND": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD, name, gpu, str(core)],
            cwd=checkout, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            sys.exit(f"bench.version_pairs: {self._process.args!r} ended with {self._process.wait()}")
        return line

    def launch(self) -> tuple[float, float]:
        """CPU seconds and cycles of one launch."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        seconds, cycles = json.loads(self._line())
        return seconds, cycles

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def pair(checkouts: Sequence[Path], name: str, gpu: str, core: int, launches: int) -> list[dict[str, Any]]:
    """CPU seconds of the launches of each checkout, which take turns, and their cycles; the first launch of each compiles and is left out."""
    processes = [Process(checkout, name, gpu, core) for checkout in checkouts]
    found: list[dict[str, Any]] = [{"seconds": [], "cycles": set()} for _ in checkouts]
    for turn in range(launches + 1):
        for process, one in zip(processes, found, strict=True):
            seconds, cycles = process.launch()
            one["cycles"].add(cycles)
            if turn:
                one["seconds"].append(seconds)
    for process in processes:
        process.end()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True, help="another checkout")
    parser.add_argument("--this", type=Path, default=HERE, help="a checkout in place of this one")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--launches", type=int, default=30)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    checkouts = [options.this.resolve(), options.against.resolve()]
    core = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    print(f"{'kernel':24s} shortest  median  pairs")
    shortest, medians = [], []
    for name in options.names or (*KERNELS["corpus"], *ENGINE):
        pairs = [pair(checkouts, name, options.gpu, core, options.launches) for _ in range(options.pairs)]
        of_each = [min(other["seconds"]) / min(ours["seconds"]) for ours, other in pairs]
        ours, others = ([s for both in pairs for s in both[side]["seconds"]] for side in (0, 1))
        least, median = min(others) / min(ours), statistics.median(others) / statistics.median(ours)
        same = {*pairs[0][0]["cycles"]} == {*pairs[0][1]["cycles"]}
        print(
            f"{name:24s} {least:8.2f} {median:7.2f}  {min(of_each):.2f} to {max(of_each):.2f}{'' if same else '  other cycles'}",
            flush=True,
        )
        if not name.startswith("engine:"):
            shortest.append(least)
            medians.append(median)
    if shortest:
        print(f"{'geometric mean':24s} {mean(shortest):8.2f} {mean(medians):7.2f}")


if __name__ == "__main__":
    main()
