"""Speed of the cycle model: warp instructions a second with full timing, on one host thread and on two, with the same cycles.

``python -m bench.timing [--gpu h200] [--set corpus|validation] [NAME …]`` runs ten kernels of the corpus (large sizes), or fourteen
of the validation set, functional execution and coalescing included, three times on one host thread and three times on two, in
turns; prints the speed of the best run on one, how much faster the best on two was, and the geometric means.
The first launches of a process compile or load the model; they are not counted.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
from collections.abc import Sequence

from bench.kernel_sets import kernel_set
from warpwright.timing import compile_ahead

KERNELS = {
    "corpus": (
        *("stream_triad", "matmul_naive", "matmul_tiled", "reduce_sum", "transpose_padded"),
        *("bank_stride", "sort_bitonic", "histogram_shared", "gather", "scan_block_exclusive"),
    ),
    "validation": (
        *("chase_l2", "copy_vector_stride", "gather_dram", "scatter_permuted", "triad_double", "fill_48m", "spmv_ell"),
        *("sgemm_naive", "rms_norm_half", "add_bytes", "jacobi_rows", "relax_edges", "bin_particles", "nearest_four"),
    ),
}
TURNS = 3


def launch(card: str, which: str, name: str, threads: int) -> tuple[int, float, float]:
    """Cycles, warp instructions and host seconds of the model for one case."""
    import warpwright as ww

    case = kernel_set(which).case(name)
    gpu = ww.GPU(card, threads=threads)
    kernel = gpu.compile(case.source, options=case.options)[case.kernel]
    run = kernel[case.grid, case.block, case.shared_bytes](*copy.deepcopy(case.args))
    return run.cycles, float(run.metrics["smsp__inst_executed.sum"]), run.timing.wall_seconds


def mean(values: Sequence[float]) -> float:
    """The geometric one."""
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--set", default="corpus", dest="which", choices=KERNELS)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    names = arguments.names or KERNELS[arguments.which]
    compile_ahead.main()  # the optimised model, not the quick one of a machine's first process
    for threads in (1, 2):
        launch(arguments.gpu, arguments.which, names[0], threads)
    print(f"{'kernel':24s} {'cycles':>10s} {'warp instr.':>12s} {'M/s':>8s}  two threads  same cycles")
    speeds, gains = [], []
    steady = True
    for name in names:
        cycles = set()
        best = {1: math.inf, 2: math.inf}
        for _ in range(TURNS):
            for threads, shortest in best.items():
                found, instructions, seconds = launch(arguments.gpu, arguments.which, name, threads)
                cycles.add(found)
                best[threads] = min(shortest, seconds)
        speeds.append(instructions / best[1] / 1e6)
        gains.append(best[1] / best[2])
        steady = steady and len(cycles) == 1
        print(
            f"{name:24s} {min(cycles):10d} {instructions:12.0f} {speeds[-1]:8.2f} {gains[-1]:10.2f} x  {len(cycles) == 1}",
            flush=True,
        )
    print(f"geometric mean {mean(speeds):.2f} M warp instructions/s on one thread, {mean(gains):.2f} times that on two")
    if not steady:
        sys.exit("cycles differ between runs")


if __name__ == "__main__":
    main()
