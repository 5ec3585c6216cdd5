"""Measures the cost of swapping a policy: ``python -m bench.swap``.

In one new process, it times the first timed launch, then each swap's first launch and one with the model's own policies (the least of five), in wall-clock and
CPU time. It also reports whether Numba was loaded.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

SOURCE = r"""
extern "C" __global__ void mix(int n, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    for (int k = 0; k < n; k++)
        v = v * 1.0001f + x[(i + 37 * k) & 0x3ff];
    y[i] = v;
}
"""


def oldest_first(ready, last, ages):
    best = -1
    for slot in range(len(ages)):
        if (ready >> slot) & 1 and (best < 0 or ages[slot] < ages[best]):
            best = slot
    return best


def most_recent(used, filled, ways, time):
    newest = 0
    for way in range(1, ways):
        if used[way] > used[newest]:
            newest = way
    return newest


def by_fractions(ready, last, ages):
    best, least = -1, 1e30
    for slot in range(16):
        if (ready >> slot) & 1 and ages[slot] / 2 < least:
            best, least = slot, ages[slot] / 2
    return best


def launch(**options: Any) -> tuple[float, float]:
    """Wall-clock and CPU seconds from a new GPU to the end of a launch of two blocks."""
    import warpwright as ww

    began, worked = time.perf_counter(), time.process_time()
    kernel = ww.GPU("h200", **options).compile(SOURCE)["mix"]
    kernel[2, 256](8, np.ones(1024, np.float32), np.ones(512, np.float32))
    return time.perf_counter() - began, time.process_time() - worked


def main() -> None:
    print(f"{'launch':44s} {'wall s':>7s} {'CPU s':>7s}  Numba loaded")

    def say(name: str, seconds: tuple[float, float]) -> None:
        print(f"{name:44s} {seconds[0]:7.3f} {seconds[1]:7.3f}  {'numba' in sys.modules}")

    say("the process's first", launch())
    say("the model's own policies", min(launch() for _ in range(5)))
    say("another scheduler", launch(scheduler=oldest_first))
    say("another replacement", launch(l1_replacement=most_recent))
    say("a scheduler by name", launch(scheduler="loose_round_robin"))
    say("a scheduler of more of Python, by Numba", launch(scheduler=by_fractions))


if __name__ == "__main__":
    main()
