"""Sampled against full timing: ``python -m bench.sampled [--gpu h200] [--further] [NAME …]``.

Kernels of the validation set on grids of more than ten thousand blocks, timed in full and sampled: cycles of both, the actual and the expected error, the
factor by which fewer instructions were timed, and the host's time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.validation import cases_dense, cases_irregular, cases_mechanisms, cases_memory, cases_numeric
from bench.validation.case import Builder, Case

CASES: dict[str, Builder] = {
    "copy_word": partial(cases_memory.copy_word, n=6_000_000),
    "triad_double": partial(cases_memory.triad_double, n=6_000_000),
    "gather_index": partial(cases_memory.gather_index, n=2_000_000, pool=1 << 22),
    "heat_direct": partial(cases_memory.heat_direct, nx=4096, ny=1600),
    "transpose_shared": partial(cases_memory.transpose, kernel="transpose_shared", width=4096, height=3072),
    "gemm_batch": partial(cases_dense.gemm_batch, count=15_000),
    "softmax_block": partial(cases_dense.softmax_block, rows=11_000, columns=512),
    "philox_fill": partial(cases_numeric.philox_fill, n=4_000_000),
    "option_prices": partial(cases_numeric.option_prices, n=1_600_000),
    "fft_shared": partial(cases_numeric.fft_shared, rows=16_000),
    "mandelbrot_set": partial(cases_numeric.mandelbrot_set, width=2048, height=1408, most=48),
    "walsh_rows": partial(cases_numeric.walsh_rows, rows=10_500),
    "spmv_groups": partial(cases_irregular.spmv, kernel="spmv_groups", rows=200_000, mean=16, heavy=False),
    "table_lookup": partial(cases_irregular.table_lookup, n=2_000_000, bits=18),
    "uneven_loops": partial(cases_mechanisms.uneven_loops, n=4_000_000, most=32),
    "tiny_blocks": partial(cases_mechanisms.tiny_blocks, grid=60_000),
}
FURTHER: dict[str, Builder] = {
    "adam_step": partial(cases_memory.adam_step, n=2_600_000),
    "scatter_index": partial(cases_memory.scatter_index, n=2_600_000),
    "sobel_bytes": partial(cases_memory.sobel_bytes, width=2560, height=1024),
    "heat_tiled": partial(cases_memory.heat_tiled, nx=1760, ny=1536),
    "rms_norm_half": partial(cases_dense.rms_norm_half, rows=10_400, columns=512),
    "histogram_wide": partial(cases_numeric.histogram_wide, n=2_600_000, bits=16),
    "search_sorted": partial(cases_numeric.search_sorted, n=1 << 16, count=2_600_000),
    "julia_double": partial(cases_numeric.julia_double, width=1792, height=1536, most=32),
}
"""Nothing was looked at for these while sampling was made."""


def launch(card: str, case: Case, timing: str) -> object:
    """One verified run."""
    import warpwright as ww

    module = ww.GPU(card, timing=timing, threads=1).compile(case.source, options=case.options)
    run, outputs = case.run(module)
    case.verify(outputs)
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--further", action="store_true", help="eight kernels that sampling was not made with")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    run: Callable[..., Any] = partial(launch, given.gpu)
    print(
        f"{'kernel':18s} {'blocks':>8s} {'full':>10s} {'sampled':>10s} {'error':>7s} {'expected':>8s} {'fewer':>6s}"
        f" {'part':>5s} {'sections':>8s} {'CPU s':>12s}"
    )
    errors, fewer = [], []
    every = CASES | FURTHER
    for name in given.names or (FURTHER if given.further else CASES):
        case = every[name](np.random.default_rng(1))
        full, some = run(case, "full"), run(case, "sampled")
        sampling = some.sampling
        if sampling is None:
            print(f"{name:18s} was timed in full")
            continue
        error = some.cycles / full.cycles - 1
        errors.append(abs(error))
        fewer.append(sampling.instructions / sampling.timed_instructions)
        print(
            f"{name:18s} {sampling.blocks:8,} {full.cycles:10,} {some.cycles:10,} {100 * error:+6.1f}%"
            f" {100 * sampling.expected_error:7.1f}% {fewer[-1]:5.1f}x {sampling.share:5.2f} {sampling.sections:8d}"
            f" {full.timing.cpu_seconds:5.1f}, {some.timing.cpu_seconds:4.1f}",
            flush=True,
        )
    if errors:
        print(
            f"mean error {100 * np.mean(errors):.1f}%, worst {100 * max(errors):.1f}%; {min(fewer):.0f}x to {max(fewer):.0f}x fewer"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
