"""Steps between grid barriers, sampled against full timing: ``python -m bench.sampled_steps [--gpu v100] [--quick]``.

Cooperative kernels on grids of several shapes: cycles of the launch in full and sampled, the actual and the expected error, the error of the cycles that the
kernel measures with its own clock, the number of timed steps, and CPU seconds in full and sampled.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

import warpwright as ww

SOURCE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void barriers(float *x, float *y, unsigned *cycles, int steps) {
    cg::grid_group grid = cg::this_grid();
    unsigned begin = clock();
    for (int step = 0; step < steps; step++) grid.sync();
    cycles[blockIdx.x] = clock() - begin;
}
extern "C" __global__ void heat(float *x, float *y, unsigned *cycles, int steps) {
    // Each step reads what neighbouring blocks have written in the last one.
    cg::grid_group grid = cg::this_grid();
    int n = gridDim.x * blockDim.x, i = grid.thread_rank();
    unsigned begin = clock();
    for (int step = 0; step < steps; step++) {
        y[i] = 0.25f * x[i ? i - 1 : 0] + 0.5f * x[i] + 0.25f * x[i + 1 < n ? i + 1 : i];
        grid.sync();
        float *z = x; x = y; y = z;
    }
    cycles[blockIdx.x] = clock() - begin;
}
extern "C" __global__ void two_phases(float *x, float *y, unsigned *cycles, int steps) {
    // Every second step is longer.
    cg::grid_group grid = cg::this_grid();
    int n = gridDim.x * blockDim.x, i = grid.thread_rank();
    unsigned begin = clock();
    for (int step = 0; step < steps; step += 2) {
        float a = x[i];
        for (int k = 0; k < 200; k++) a = a * 0.999f + 0.001f;
        y[i] = a;
        grid.sync();
        x[i] = y[n - 1 - i];
        grid.sync();
    }
    cycles[blockIdx.x] = clock() - begin;
}
extern "C" __global__ void longer_later(float *x, float *y, unsigned *cycles, int steps) {
    // Steps in the second half do twice the work.
    cg::grid_group grid = cg::this_grid();
    int i = grid.thread_rank();
    unsigned begin = clock();
    for (int step = 0; step < steps; step++) {
        float a = x[i];
        for (int k = 0; k < (step < steps / 2 ? 200 : 400); k++) a = a * 0.999f + 0.001f;
        x[i] = a;
        grid.sync();
    }
    cycles[blockIdx.x] = clock() - begin;
}
"""


class Shape(NamedTuple):
    kernel: str
    blocks_per_sm: int
    threads: int
    steps: int


SHAPES = [
    Shape(kernel, blocks, threads, steps)
    for kernel in ("barriers", "heat", "two_phases", "longer_later")
    for blocks, threads, steps in ((1, 32, 64), (1, 32, 160), (1, 1024, 80), (2, 256, 128), (8, 64, 96), (16, 32, 80))
]
QUICK = [shape for shape in SHAPES if shape.blocks_per_sm * shape.threads <= 512]


def launch(card: str, shape: Shape, timing: str) -> tuple[ww.Run, float, float]:
    """A launch, the mean of the cycles that its blocks measure themselves, and the sum of its results."""
    gpu = ww.GPU(card, timing=timing, threads=1)
    blocks = shape.blocks_per_sm * gpu.chip.sm.sm_count
    x = gpu.array((np.arange(blocks * shape.threads) % 97).astype(np.float32))
    y, cycles = gpu.zeros(blocks * shape.threads), gpu.zeros(blocks, dtype=np.uint32)
    run = gpu.compile(SOURCE)[shape.kernel][blocks, shape.threads](x, y, cycles, shape.steps)
    return run, float(cycles.numpy().mean()), float(x.numpy().sum() + y.numpy().sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="v100")
    parser.add_argument("--quick", action="store_true", help="only grids of at most 512 threads per SM")
    given = parser.parse_args()
    print("kernel         grid x threads  steps     full  sampled  error  expected  clock   timed  CPU s")
    errors = []
    for shape in QUICK if given.quick else SHAPES:
        full, clock, values = launch(given.gpu, shape, "full")
        some, its_clock, its_values = launch(given.gpu, shape, "sampled")
        if values != its_values:
            raise SystemExit(f"{shape}: the results differ")
        at = f"{shape.kernel:13s} {shape.blocks_per_sm:3d}/SM x {shape.threads:5d} {shape.steps:6d}"
        if some.sampling is None:
            print(f"{at} {full.cycles:8,} was timed in full")
            continue
        error, expected = some.cycles / full.cycles - 1, some.sampling.expected_error
        errors.append(abs(error))
        print(
            f"{at} {full.cycles:8,} {some.cycles:8,} {100 * error:+5.1f}% {100 * expected:7.1f}% "
            f"{100 * (its_clock / clock - 1):+5.1f}% {some.sampling.timed_steps:6d} "
            f"{full.timing.cpu_seconds:5.2f}, {some.timing.cpu_seconds:4.2f}",  # type: ignore[union-attr]
            flush=True,
        )
    if errors:
        print(f"{len(errors)} sampled: mean error {100 * np.mean(errors):.1f}%, worst {100 * max(errors):.1f}%")


if __name__ == "__main__":
    main()
