"""Kernels beside draws on G80: the SMs of "NVIDIA Tesla: A Unified Graphics and Computing Architecture" (IEEE Micro, 2008) run both at once.

The paper states that vertex, geometry, pixel and compute work run concurrently and that the SM controllers balance them; it has no measurements.  The cells compare
with what follows from the machine: work for different units overlaps, so that both take the time of the longer one, and work for the same units adds up.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from warpwright.api import GPU
from warpwright.frame_launches import SharedFrame, replay_beside
from warpwright.graphics.timed.sm_controllers import BALANCES
from warpwright.studies.study import Cell, Result, Step, Table, study
from warpwright.studies.tesla import PAPER
from warpwright.studies.tesla_graphics import CHIP, NOT_ANCHORED, frame
from warpwright.studies.tesla_pictures import RECORDINGS

BLOCKS, THREADS, STEPS = 512, 128, 60
SOURCE = """
extern "C" __global__ void filter(float *x, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = x[i], b = 1.0f;
    for (int n = 0; n < steps; n++) {
        a = a * 0.5f + b;
        b = b * 0.5f + a;
    }
    x[i] = a + b;
}
"""


@lru_cache(maxsize=1)
def alone() -> tuple[int, np.ndarray]:
    """Cycles and results of the kernel on the idle chip."""
    gpu = GPU(CHIP, timing="full")
    values = np.ones(BLOCKS * THREADS, np.float32)
    run = gpu.compile(SOURCE)["filter"][BLOCKS, THREADS](values, STEPS)
    return run.cycles, values


@lru_cache(maxsize=16)
def both(scene: str, balance: str = "dynamic") -> tuple[SharedFrame, int]:
    """A scene and the kernel, which begin together; number of wrong results."""
    gpu = GPU(CHIP, timing="full")
    values = np.ones(BLOCKS * THREADS, np.float32)
    launcher = gpu.compile(SOURCE)["filter"][BLOCKS, THREADS]
    shared = replay_beside(
        RECORDINGS / f"{scene}.wwcs", (launcher, (values, STEPS)), balance=balance, times_copies=False
    )
    return shared, int((values != alone()[1]).sum()) + (0 if shared.is_same else 1)


@study("tesla-compute", f"{PAPER}, concurrent vertex, pixel and compute work")
def compute(step: Step) -> Result:
    """A kernel beside draws that need other units, and beside draws that need the same ones."""
    step("the kernel alone")
    kernel, _ = alone()
    times, wrong, shares, remarks = [], [], [], []
    for scene, what, adds_up in (("depth_only", "depth tests", False), ("large_triangles", "pixel programs", True)):
        step(f"kernel and {what}")
        draws = frame(scene).cycles
        shared, differ = both(scene)
        name, expected = ("sum", draws + kernel) if adds_up else ("longer", max(draws, kernel))
        times.append(Cell(f"kernel and {what}", f"time / {name} of the two", shared.frame.cycles / expected, 1.0, 0.15))
        wrong.append(Cell(f"kernel and {what}", "values", differ, 0.0, 0.0, absolute=True))
        shares += [Cell(what, kind, 100 * share, 100 * share, 0.01) for kind, share in shared.frame.shares().items()]
        remarks.append(
            f"{what}: {draws:,.0f} cycles alone, the kernel {kernel:,}, both {shared.frame.cycles:,.0f}; limited alone by {frame(scene).bottleneck}."
        )
    for name in BALANCES:
        step(f"policy {name}")
        shared, _ = both("large_triangles", name)
        remarks.append(
            f"Pixel programs under {name}: the kernel ends at {shared.frame.kernels[0].end:,.0f}, the draws at {max(d.end for d in shared.frame.draws):,.0f} cycles."
        )
    result = Result(
        [
            Table("Time of a kernel and draws together", "ratio", times),
            Table("Results and memory that differ", "values", wrong),
        ],
        remarks,
    )
    result.maps = [Table("Warp time by kind", "%", shares)]
    result.remarks.append(
        "Kernels start blocks on at most three quarters of a cluster's warp slots while draws are left (model): a block stays until its end, and what comes next would wait for it."
    )
    result.remarks.append(NOT_ANCHORED)
    return result
