"""Speed of the cycle model: warp instructions a second with full timing, and that cycles do not depend on host threads.

``python -m bench.timing [--gpu h200] [NAME …]`` runs ten kernels of the corpus (large sizes), functional execution and
coalescing included, on one host thread, again, and on two; prints the speed of the best run of each and the
geometric mean.  The first launch of a process compiles or loads the model; it is not counted.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys

KERNELS = (
    *("stream_triad", "matmul_naive", "matmul_tiled", "reduce_sum", "transpose_padded"),
    *("bank_stride", "sort_bitonic", "histogram_shared", "gather", "scan_block_exclusive"),
)


def launch(card: str, name: str, threads: int) -> tuple[int, float, float]:
    """Cycles, warp instructions and host seconds of the model for one case."""
    import warpwright as ww
    from tests.kernels import case as corpus_case

    case = corpus_case(name, "large")
    gpu = ww.GPU(card, threads=threads)
    kernel = gpu.compile(case.source, options=case.options)[case.kernel]
    run = kernel[case.grid, case.block, case.shared_bytes](*copy.deepcopy(case.args))
    return run.cycles, float(run.metrics["smsp__inst_executed.sum"]), run.timing.wall_seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    names = arguments.names or KERNELS
    launch(arguments.gpu, names[0], 1)
    print(f"{'kernel':24s} {'cycles':>10s} {'warp instr.':>12s} {'M/s':>8s}  same cycles again, on two threads")
    speeds = []
    steady = True
    for name in names:
        first, instructions, seconds = launch(arguments.gpu, name, 1)
        again, _, seconds_again = launch(arguments.gpu, name, 1)
        threaded, _, _ = launch(arguments.gpu, name, 2)
        speed = instructions / min(seconds, seconds_again) / 1e6
        speeds.append(speed)
        steady = steady and first == again == threaded
        print(
            f"{name:24s} {first:10d} {instructions:12.0f} {speed:8.2f}  {first == again}, {first == threaded}",
            flush=True,
        )
    print(
        f"geometric mean {math.exp(sum(map(math.log, speeds)) / len(speeds)):.2f} M warp instructions/s on one thread"
    )
    if not steady:
        sys.exit("cycles differ between runs")


if __name__ == "__main__":
    main()
