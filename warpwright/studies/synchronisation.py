"""Barriers of a block and of a grid as "A Study of Synchronization Methods in Modern GPUs" measures them.

The paper reads the GPU's clock around repeated barriers in one block for the latency (section IX-B, after Wong), and takes the best of several numbers of blocks
for the throughput. Here a launch is run with two numbers of repeats, so that what a launch takes besides cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

import numpy as np

from warpwright.api import GPU
from warpwright.kernel import Kernel, Module
from warpwright.studies.study import Cell, Result, Step, Table, study
from warpwright.toolchain import InputKind, compile_source, link

PAPER = "Zhang et al., A Study of Synchronization Methods in Modern GPUs, 2019"
CLOCKS_MHZ = {"v100": 1312, "p100": 1189}
"""Clocks of the paper's cards (its Table 3)."""
SOURCE = """
extern "C" __global__ void block_barriers(unsigned *cycles, int repeats)
{
    __syncthreads();
    unsigned begin = clock();
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
#pragma unroll
        for (int k = 0; k < 16; k++)
            __syncthreads();
    }
    unsigned end = clock();
    if (threadIdx.x == 0)
        cycles[blockIdx.x] = end - begin;
}

// The barrier that cooperative groups have in a header since CUDA 11: the first block adds what the others lack to the highest bit.
extern "C" __global__ void grid_barriers(unsigned *word, int repeats)
{
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned mine = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
            __threadfence();
            unsigned before = atomicAdd(word, mine);
            while (((before ^ *(volatile unsigned *)word) & 0x80000000u) == 0) {}
            __threadfence();
        }
        __syncthreads();
    }
}
"""
ROUTINE = """
typedef unsigned long long Handle;
extern "C" __device__ Handle __cuda_syscall_CGS_get_intrinsic_handle(unsigned scope);
extern "C" __device__ unsigned __cuda_syscall_CGS_sync(Handle handle, unsigned flags);
template <int SCOPE> __device__ __forceinline__ void barriers(int repeats)
{
    Handle all = __cuda_syscall_CGS_get_intrinsic_handle(SCOPE);
#pragma unroll 1
    for (int i = 0; i < repeats; i++)
        __cuda_syscall_CGS_sync(all, 0);
}
extern "C" __global__ void grid(unsigned *, int repeats) { barriers<1>(repeats); }
extern "C" __global__ void grids(int repeats) { barriers<2>(repeats); }
"""
"""CUDA 10's barriers of a grid and of several grids: both call the driver's routine."""
REGISTERS = 32
"""With which 64 warps fit an SM."""
REPEATS = (2, 6)
BARRIERS_PER_REPEAT = 16
THREADS_PER_SM = 2048

# Threads of a block: latency in cycles, throughput in barriers per microsecond of one SM.
TABLE_5: Mapping[str, Mapping[int, tuple[float, float]]] = {
    "v100": {
        32: (22, 219.296), 64: (24, 200.602), 128: (28, 143.136), 256: (36, 81.241), 512: (52, 40.812), 1024: (84, 19.469),
    },
    "p100": {
        32: (220, 87.329), 64: (220, 51.67), 128: (224, 27.674), 256: (235, 13.731), 512: (317, 6.598), 1024: (428, 3.130),
    },
}  # fmt: skip
# Blocks of an SM: microseconds with 32, 64 … 1,024 threads per block.
FIGURE_8: Mapping[str, Mapping[int, tuple[float, ...]]] = {
    "v100": {
        1: (1.43, 1.44, 1.46, 1.50, 1.72, 2.20), 2: (1.84, 1.85, 1.90, 1.99, 2.49, 3.49), 4: (2.85, 2.89, 3.07, 3.52, 4.54),
        8: (5.06, 5.25, 5.70, 6.65), 16: (9.21, 9.49, 10.39), 32: (21.06, 24.78),
    },
    "p100": {
        1: (1.76, 1.76, 1.78, 1.82, 1.90, 2.254), 2: (2.05, 2.07, 2.08, 2.21, 2.65, 3.493), 4: (3.42, 3.46, 3.57, 4.01, 4.85),
        8: (6.43, 6.51, 7.03, 8.48), 16: (13.23, 14.75, 16.63), 32: (35.13, 31.34),
    },
}  # fmt: skip
BLOCK_TOLERANCE, GRID_TOLERANCE = 0.10, 0.25


def _cycles_per_barrier(kernel: Kernel, blocks: int, threads: int, each: int) -> float:
    """Cycles of a launch that one more barrier costs."""
    gpu_word = np.zeros(max(blocks, 1), np.uint32)
    few, many = (kernel[blocks, threads](gpu_word.copy(), repeats).cycles for repeats in REPEATS)
    return (many - few) / ((REPEATS[1] - REPEATS[0]) * each)


def _latency(kernel: Kernel, threads: int) -> float:
    """Cycles of a barrier by the GPU's clock, in one block."""
    read = []
    for repeats in REPEATS:
        cycles = np.zeros(1, np.uint32)
        kernel[1, threads](cycles, repeats)
        read.append(int(cycles[0]))
    return (read[1] - read[0]) / ((REPEATS[1] - REPEATS[0]) * BARRIERS_PER_REPEAT)


@cache
def _module(chip: str) -> Module:
    return GPU(chip, timing="full").compile(SOURCE)


@cache
def routine_code(arch: str) -> bytes:
    """The kernels of ``ROUTINE``, linked."""
    compiled = compile_source(ROUTINE, arch, options=["-rdc=true", f"-maxrregcount={REGISTERS}"])
    return link([(InputKind.CUBIN, compiled.cubin, "barriers.cubin")], arch).cubin


@cache
def _routine(chip: str) -> Kernel:
    gpu = GPU(chip, timing="full")
    return gpu.compile(routine_code(str(gpu.chip.arch)))["grid"]


@cache
def block_latency(chip: str, threads: int) -> float:
    """Cycles of a block's barrier by the GPU's clock, in one block."""
    return _latency(_module(chip)["block_barriers"], threads)


@cache
def block_cycles(chip: str, blocks_per_sm: int, threads: int) -> float:
    """Cycles that one more barrier of every block takes."""
    sm_count = _module(chip).gpu.chip.sm.sm_count
    return _cycles_per_barrier(_module(chip)["block_barriers"], blocks_per_sm * sm_count, threads, BARRIERS_PER_REPEAT)


def block_rate(chip: str, threads: int) -> float:
    """Barriers per microsecond of one SM, the best of several numbers of blocks."""
    counts = [blocks for blocks in (1, 2, 4, 8, 16, 32) if blocks * threads <= THREADS_PER_SM]
    return max(blocks * CLOCKS_MHZ[chip] / block_cycles(chip, blocks, threads) for blocks in counts)


@cache
def grid_cycles(chip: str, blocks_per_sm: int, threads: int, header: bool = False) -> float:
    """Cycles of a grid barrier; a single block if ``blocks_per_sm`` is 0.

    Args:
        header: use the barrier that CUDA has had in a header since version 11, instead of the driver's routine.
    """
    kernel = _module(chip)["grid_barriers"] if header else _routine(chip)
    blocks = blocks_per_sm * kernel.gpu.chip.sm.sm_count or 1
    return _cycles_per_barrier(kernel, blocks, threads, 1)


def grid_latency_us(chip: str, blocks_per_sm: int, threads: int, header: bool = False) -> float:
    """Microseconds of a grid's barrier at the papers' clock (see ``grid_cycles``)."""
    return grid_cycles(chip, blocks_per_sm, threads, header) / CLOCKS_MHZ[chip]


@study("sync-table5", f"{PAPER}, Table 5")
def block_barriers(step: Step) -> Result:
    """Latency and throughput of block barriers on V100 and P100."""
    found = Result()
    latency, throughput = [], []
    for chip, rows in TABLE_5.items():
        for threads, (paper_cycles, paper_rate) in rows.items():
            step(f"{chip}, {threads} threads per block")
            row = f"{threads} threads"
            latency.append(Cell(row, chip, block_latency(chip, threads), paper_cycles, BLOCK_TOLERANCE))
            throughput.append(Cell(row, chip, block_rate(chip, threads), paper_rate, BLOCK_TOLERANCE))
    found.tables.append(Table("Latency of a block barrier", "cycles", latency))
    found.tables.append(Table("Block barriers of one SM, best of 1 to 32 blocks", "per µs", throughput))
    return found


@study("sync-figure8", f"{PAPER}, Figure 8")
def grid_barriers(step: Step) -> Result:
    """Grid barriers by blocks of an SM and threads of a block on V100 and P100."""
    found = Result()
    for chip, rows in FIGURE_8.items():
        cells: list[Cell] = []
        later: list[Cell] = []
        for blocks, papers in rows.items():
            for power, paper in enumerate(papers):
                threads = 32 << power
                step(f"{chip}, {blocks} blocks of {threads} threads on each SM")
                ours = grid_latency_us(chip, blocks, threads)
                of_header = grid_latency_us(chip, blocks, threads, header=True)
                later.append(Cell(f"{blocks} × SMs", f"{threads}", of_header, of_header, math.inf))
                cells.append(Cell(f"{blocks} × SMs", f"{threads}", ours, paper, GRID_TOLERANCE))
        found.tables.append(
            Table(f"Grid barrier on {chip}: blocks of an SM, threads of a block", "µs", cells, heat_map=True)
        )
        found.maps.append(
            Table(
                f"{chip}, barrier of CUDA 11 and later: blocks of an SM, threads of a block", "µs", later, heat_map=True
            )
        )
    found.remarks.append(
        "The paper's barrier is CUDA 10's: a call of the driver's routine, which is ours here. The maps of the barrier that later versions have in a header are beside it."
    )
    return found
