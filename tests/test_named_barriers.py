"""Named barriers at which more warps arrive than they count: as many warps wait in every engine, with and without checks, as on an H200.

``bench/data/h200/named_barriers.json`` has when each warp of a case goes on; its last warps, which release the others, are left out here.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww

SOURCE = """
__device__ void meet(int arrives, int threads, int *passed) {
    if (arrives)
        asm volatile("bar.arrive 1, %0;" ::"r"(threads) : "memory");
    else
        asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
    if (threadIdx.x % 32 == 0)
        passed[threadIdx.x / 32] = 1;
}
extern "C" __global__ void meets(const int *arrives, const int *later, int threads, int *passed) {
    int warp = threadIdx.x / 32;
    if (!later[warp])
        meet(arrives[warp], threads, passed);
    __syncthreads();
    if (later[warp])
        meet(arrives[warp], threads, passed);
}
"""
ROWS = json.loads((Path(__file__).parents[1] / "bench/data/h200/named_barriers.json").read_text())["rows"]
CASES = {name: (threads, warps) for name, threads, warps in ROWS if name != "one waits at 64, then two arrive"}
"""The count and the warps: how each arrives, when, and when it goes on, in microseconds. In the case that is left out, a warp waits for later ones."""
MODES = {
    "full": {"timing": "full"},
    "off": {"timing": "off"},
    "interpreter": {"timing": "off", "engine": "interpreter"},
    "checks": {"check": "all"},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("chip", "mode"),
    [("h200", mode) for mode in MODES] + [pytest.param("p100", mode, marks=pytest.mark.ci) for mode in MODES],
)
def test_as_many_warps_wait_as_on_a_card(chip: str, mode: str, name: str) -> None:
    threads, warps = CASES[name]
    ends = max(after for _, after, _ in warps) or np.inf
    first = [warp for warp in warps if warp[1] < ends]
    arrives, later = (
        np.array(values, np.int32) for values in zip(*((w[0] == "arrive", w[1] > 0) for w in first), strict=True)
    )
    gpu = ww.GPU(chip, **MODES[mode])
    passed = gpu.array(np.zeros(len(first), np.int32))
    kernel = gpu.compile(SOURCE, name="named.cu")["meets"]
    waits = False
    try:
        kernel[1, 32 * len(first)](arrives, later, np.int32(threads), passed)
    except ww.DeadlockError:
        waits = True
    expected = [left < ends for _, _, left in first]
    assert waits == (not all(expected))
    assert int(np.asarray(passed).sum()) == sum(expected)
