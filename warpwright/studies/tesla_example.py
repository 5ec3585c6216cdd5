"""The addition of two matrices of "NVIDIA Tesla: A Unified Graphics and Computing Architecture" (IEEE Micro, 2008), Figure 8, verbatim.

The figure has two programs and no numbers; the surrounding text states what must hold: each thread computes one sum, the code runs on any number of SMs without
being
compiled again and gives the same results, and threads of a warp that read consecutive words coalesce.
"""

from __future__ import annotations

import numpy as np

from warpwright.api import GPU
from warpwright.run import Run
from warpwright.studies.study import Cell, Plot, Result, Step, Table, study
from warpwright.studies.tesla import PAPER

CHIP = "g80-ultra"
SOURCE = """
extern "C" __global__ void addMatrixG(float *a, float *b, float *c, int N)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    int idx = i + j * N;
    if (i < N && j < N)
        c[idx] = a[idx] + b[idx];
}
"""
N, BLOCK = 256, 16
SIZES = (64, 128, 256, 512)
SM_COUNTS = (2, 4, 8, 16)
WORD_BYTES, ARRAYS = 4, 3


def _add_matrices(gpu: GPU, n: int) -> tuple[Run, float]:
    """The CUDA C program on matrices of n x n; and the largest difference from the serial program's sums."""
    chance = np.random.default_rng(n)
    a, b = (chance.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    c = np.zeros_like(a)
    run = gpu.compile(SOURCE)["addMatrixG"][(n // BLOCK, n // BLOCK), (BLOCK, BLOCK)](a, b, c, n)
    return run, float(np.abs(c - (a + b)).max())


def _with_sms(count: int) -> GPU:
    """The chip with the given number of SMs, two per cluster as on the whole one."""
    clusters = count // 2
    return GPU(CHIP, timing="full", sm_count=count, gpc_sm_counts=[2] * clusters, gpc_l2_partitions=[0] * clusters)


def _of_a_thread(run: Run, n: int) -> Table:
    """Average work of one thread."""
    m, threads = run.metrics, n * n
    reads, writes = m["dram__bytes_read.sum"] / threads, m["dram__bytes_write.sum"] / threads
    loads, stores = (m[f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum"] * 32 / threads for op in ("ld", "st"))
    sectors = m["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] + m["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"]
    return Table(
        f"A thread's work, N = {n}",
        "as said",
        [
            Cell("threads of the grid", "N x N", m["launch__thread_count"], float(threads), 0.0),
            Cell("words read", "of a sum", loads, 2.0, 0.0),
            Cell("words written", "of a sum", stores, 1.0, 0.0),
            Cell("bytes read from DRAM", "of a sum", reads, 2.0 * WORD_BYTES, 0.01),
            Cell("bytes written to DRAM", "of a sum", writes, 1.0 * WORD_BYTES, 0.01),
            Cell("transactions of a half-warp's access", "64 bytes", sectors / 2 / (ARRAYS * threads / 16), 1.0, 0.0),
        ],
    )


@study("tesla-example", f"{PAPER}, Figure 8")
def example(step: Step) -> Result:
    """The figure's program on any number of SMs: sums equal the serial program's, one for each thread."""
    same, sizes = [], []
    gpu = GPU(CHIP, timing="full")
    work: Table | None = None
    for n in SIZES:
        step(f"matrices of {n} x {n}")
        run, worst = _add_matrices(gpu, n)
        same.append(Cell(f"N = {n}", "largest difference", worst, 0.0, 0.0, absolute=True))
        sizes.append((float(n), ARRAYS * WORD_BYTES * n * n / run.seconds / 1e9))
        if n == N:
            work = _of_a_thread(run, n)
    assert work is not None
    times = []
    for count in SM_COUNTS:
        step(f"{count} SMs")
        run, worst = _add_matrices(_with_sms(count), N)
        same.append(Cell(f"{count} SMs, N = {N}", "largest difference", worst, 0.0, 0.0, absolute=True))
        times.append((float(count), run.seconds * 1e6))
    found = Result([Table("Sums of the CUDA C program less those of the serial one", "", same), work])
    found.plots.append(Plot("Time of a 256 x 256 addition", "SMs", "µs", {"model": times}))
    found.plots.append(Plot("Words moved", "N", "GB/s", {"model": sizes, "pins": [(float(n), 103.68) for n in SIZES]}))
    first, last = times[0][1], times[-1][1]
    found.remarks.append(
        f"The figure prints no times. On the model 2 SMs take {first:.1f} µs for 65,536 sums and 16 SMs {last:.1f} µs; at N = {SIZES[-1]}"
        f" the program moves {sizes[-1][1]:.0f} of the 104 GB/s of the pins."
    )
    return found
