"""Figures 1 to 3 and 5 of "Volta: Performance and Programmability" and its links: P100 compared with V100, the parts of V100's SM, and spin locks with many
threads.

Peaks are measured with instructions that do not depend on each other, by one SM's clock; STREAM's triad and copies by the launches' times.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from warpwright.api import GPU
from warpwright.chips import Chip
from warpwright.errors import DeadlockError
from warpwright.multi_gpu import System
from warpwright.studies import all_reduce, volta_demos
from warpwright.studies.study import Cell, Plot, Result, Step, Table, study
from warpwright.studies.volta_demos import PAPER

PEAK_TOLERANCE, STREAM_TOLERANCE, LINK_TOLERANCE, COPY_TOLERANCE = 0.07, 0.03, 0.03, 0.03
STREAM_MIB = 32
"""MiB of each of three arrays."""
REPEATS = (4, 12)
STEPS = 64
"""Steps per repeat."""
THREADS = 512
SOURCE = r"""
#include <cuda_fp16.h>
#define TIMED(NAME, SETUP, STEP, RESULT)                                                 \
    extern "C" __global__ void __launch_bounds__(512)                                     \
    NAME(unsigned *cycles, float *out, int repeats, float one)                            \
    {                                                                                     \
        SETUP                                                                             \
        __syncthreads();                                                                  \
        unsigned begin = clock();                                                         \
        _Pragma("unroll 1") for (int r = 0; r < repeats; r++)                             \
            _Pragma("unroll") for (int j = 0; j < 64; j++) { const int i = j % 8; STEP }  \
        __syncthreads();                                                                  \
        if (threadIdx.x == 0) *cycles = clock() - begin;                                  \
        RESULT                                                                            \
    }
#define SUM(V) float all = 0; _Pragma("unroll") for (int i = 0; i < 8; i++) all += (float)V[i]; out[threadIdx.x] = all;
TIMED(fp32, float v[8]; for (int i = 0; i < 8; i++) v[i] = one * i;, v[i] = v[i] * one + one;, SUM(v))
TIMED(fp64, double v[8]; double d = one; for (int i = 0; i < 8; i++) v[i] = d * i;, v[i] = v[i] * d + d;, SUM(v))
TIMED(halves, half2 v[8]; half2 h = __float2half2_rn(one); for (int i = 0; i < 8; i++) v[i] = h;, v[i] = __hfma2(v[i], h, h);,
      float all = 0; for (int i = 0; i < 8; i++) all += __low2float(v[i]) + __high2float(v[i]); out[threadIdx.x] = all;)
TIMED(integers, int v[8]; int k = (int)one; for (int i = 0; i < 8; i++) v[i] = k * i;, v[i] = __byte_perm(v[i], v[(i + 3) % 8], 0x3614);, SUM(v))
TIMED(both, float v[8]; int w[8]; int k = (int)one; for (int i = 0; i < 8; i++) { v[i] = one * i; w[i] = k * i; },
      v[i] = v[i] * one + one; w[i] = __byte_perm(w[i], w[(i + 3) % 8], 0x3614);, SUM(v) for (int i = 0; i < 8; i++) out[threadIdx.x] += w[i];)
TIMED(special, float v[8]; for (int i = 0; i < 8; i++) v[i] = one * i;, asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(v[i]));, SUM(v))
TIMED(loads, __shared__ float4 s[1024]; s[threadIdx.x] = make_float4(one, one, one, one); float v[8] = {}; unsigned at = (unsigned)__cvta_generic_to_shared(s + threadIdx.x);,
      float a; float b; float c; float d; asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "r"(at)); v[i] += a + b + c + d;, SUM(v))
#if __CUDA_ARCH__ >= 700
TIMED(tensor, float v[8][8] = {}; unsigned a = (unsigned)one; unsigned b = a + 1;,
      asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%8,%9}, {%0,%1,%2,%3,%4,%5,%6,%7};"
          : "+f"(v[i][0]), "+f"(v[i][1]), "+f"(v[i][2]), "+f"(v[i][3]), "+f"(v[i][4]), "+f"(v[i][5]), "+f"(v[i][6]), "+f"(v[i][7]) : "r"(a), "r"(b));,
      float all = 0; for (int i = 0; i < 64; i++) all += v[i / 8][i % 8]; out[threadIdx.x] = all;)
#endif
extern "C" __global__ void triad(double *a, const double *b, const double *c, double s, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = b[i] + s * c[i];
}
extern "C" __global__ void sections(int *mutex, volatile int *count, int lanes, int turns)
{
    if (threadIdx.x % 32 < lanes)
        for (int i = 0; i < turns; i++) {
            while (atomicCAS(mutex, 0, 1) == 1)
                ;
            *count = *count + 1;
            __threadfence();
            *(volatile int *)mutex = 0;
        }
}
"""
# Teraflops of the article's Figure 1: single, double, half of P100 (inference); of V100's tensor cores.
PEAKS: dict[str, dict[str, float]] = {
    "v100": {"fp32": 15, "fp64": 7.5, "tensor": 120},
    "p100": {"fp32": 10, "fp64": 5, "halves": 21},
}
FLOPS = {"fp32": 2, "fp64": 2, "halves": 4, "tensor": 2 * 16 * 16 * 4 / 32}
"""Floating-point operations per operation of a thread."""
STREAM = {"v100": 855, "p100": 557}
L2_MIB = {"v100": 6, "p100": 4}
# Operations of V100's SM per clock: the article's figures for its four sub-cores.
PARTS = {"fp32": 64, "integers": 64, "fp64": 32, "special": 16, "tensor": 512 / (16 * 16 * 4 / 32), "both": 128}
PART_TEXTS = {
    "fp32": "FP32 multiply-adds", "integers": "integer operations",
    "fp64": "FP64 multiply-adds", "special": "special functions", "tensor": "tensor steps of 16 x 16 x 4 by threads",
    "both": "FP32 and integer operations together",
}  # fmt: skip


@cache
def _chip(name: str) -> Chip:
    return GPU(name, timing="off").chip


@cache
def per_clock(name: str, kernel: str) -> float:
    """Threads' operations of one SM per clock."""
    gpu = GPU(name, timing="full")
    module = gpu.compile(SOURCE)
    read = []
    for repeats in REPEATS:
        cycles, out = np.zeros(1, np.uint32), np.zeros(THREADS, np.float32)
        module[kernel][1, THREADS](cycles, out, np.int32(repeats), np.float32(1))
        read.append(int(cycles[0]))
    return THREADS * STEPS * (REPEATS[1] - REPEATS[0]) / (read[1] - read[0])


def tflops(name: str, kernel: str) -> float:
    """Rate of the whole chip at its clock."""
    chip = _chip(name)
    return per_clock(name, kernel) * FLOPS[kernel] * chip.sm.sm_count * chip.clocks.sm_clock_mhz * 1e-6


@cache
def stream_gb_per_s(name: str) -> float:
    """STREAM's triad of doubles, 24 bytes for each element."""
    gpu = GPU(name, timing="full")
    gpu.repeats = None
    count = (STREAM_MIB << 20) // 8
    a, b, c = (gpu.zeros(count, np.float64) for _ in range(3))
    run = gpu.compile(SOURCE)["triad"][count // 256, 256](a, b, c, np.float64(3), np.int32(count))
    return 24e-9 * count / run.seconds


@study("volta-fig1", f"{PAPER}, Figure 1")
def performance(step: Step) -> Result:
    """Peaks, STREAM, NVLink and L2 of P100 and V100."""
    found, rates, widths, sizes = Result(), [], [], []
    for chip, rows in PEAKS.items():
        for kernel, paper in rows.items():
            step(f"{chip}, {kernel}")
            rates.append(Cell(kernel, chip, tflops(chip, kernel), paper, PEAK_TOLERANCE))
        step(f"{chip}, STREAM")
        widths.append(Cell("STREAM triad", chip, stream_gb_per_s(chip), STREAM[chip], STREAM_TOLERANCE))
        sizes.append(Cell("L2", chip, _chip(chip).l2.l2_kib / 1024, L2_MIB[chip], 0.0))
    for system, chip, paper in (("dgx-1", "v100", 309), ("p100x2-nvlink", "p100", 160)):
        widths.append(Cell("NVLink, both directions", chip, wire_gb_per_s(system), paper, LINK_TOLERANCE))
    found.tables += [
        Table("Peaks", "Tflops", rates), Table("Bandwidth", "GB/s", widths), Table("Caches", "MiB", sizes)
    ]  # fmt: skip
    found.remarks.append(
        "The article's table has 300 GB/s for V100's NVLinks, its text 309, which six links of 2 x 25.78 GB/s have."
    )
    found.remarks.append(
        "P100's STREAM is no test of the model: how long its memory controller gathers writes was set by it (chip file)."
    )
    return found


def wire_gb_per_s(system: str) -> float:
    """Both directions of all NVLinks of a machine's first GPU."""
    machine = System(system, timing="off").machine
    links = [cable for cable in machine.cables_of["gpu0"] if cable.link.protocol == "nvlink"]
    return 2 * sum(cable.count * cable.link.lane_count * cable.link.lane_gbit_per_s / 8 for cable in links)


@study("volta-fig2", f"{PAPER}, Figures 2 and 3")
def parts_of_the_sm(step: Step) -> Result:
    """What V100's SM and its sub-cores do per clock."""
    cells = []
    for kernel, paper in PARTS.items():
        step(kernel)
        factor = 2 if kernel == "both" else 1
        cells.append(Cell(PART_TEXTS[kernel], "", factor * per_clock("v100", kernel), paper, PEAK_TOLERANCE))
    step("shared memory")
    cells.append(Cell("bytes of shared memory", "", 16 * per_clock("v100", "loads"), 128, PEAK_TOLERANCE))
    chip = _chip("v100")
    facts = [
        Cell("sub-cores", "", chip.sm.sub_core_count, 4, 0, True),
        Cell("L1 and shared memory, KB", "", chip.shared.l1_kib, 128, 0, True),
        Cell("most shared memory, KB", "", max(chip.shared.shared_carveout_kib), 96, 0, True),
    ]
    return Result([Table("Per SM and clock", "operations of threads", cells), Table("Sizes", "", facts)])


def lock(blocks: int, warps: int, lanes: int, turns: int) -> tuple[int, float]:
    """Critical sections that ran on V100, and their number per microsecond."""
    gpu = GPU("v100", timing="full")
    mutex, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run = gpu.compile(SOURCE)["sections"][blocks, 32 * warps](mutex, count, np.int32(lanes), np.int32(turns))
    return int(count[0]), int(count[0]) / (run.seconds * 1e6)


def sections_on_pascal(threads: int) -> int:
    """Critical sections of demo A in four blocks with the given number of threads on P100; 0 if it never ends."""
    module = GPU("p100", timing="full").compile(volta_demos.SOURCE)
    mutex, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    try:
        module["demo_a"][4, threads](mutex, count)
    except DeadlockError:
        return 0
    return int(count[0])


@study("volta-fig5", f"{PAPER}, Figure 5")
def contended_lock(step: Step) -> Result:
    """A spin lock of 1 to 2,560 threads on V100, and of one and two lanes of a warp on P100."""
    cells, points = [], []
    for blocks, warps, lanes in ((1, 1, 1), (1, 1, 2), (1, 1, 8), (1, 1, 32), (1, 4, 32), (4, 4, 32), (20, 4, 32)):
        threads = blocks * warps * lanes
        turns = max(1, 64 // threads)
        step(f"v100, {threads} threads")
        ran, rate = lock(blocks, warps, lanes, turns)
        cells.append(Cell(f"{threads} threads", "v100", ran, threads * turns, 0.0, True))
        points.append((float(threads), rate))
    for threads, sections in ((1, 4), (2, 0)):
        step(f"p100, {threads} threads of a warp")
        cells.append(Cell(f"4 blocks of {threads}", "p100", sections_on_pascal(threads), sections, 0.0, True))
    found = Result([Table("Critical sections", "count", cells)])
    found.plots.append(Plot("V100: a spin lock by its threads", "threads", "sections per µs", {"model": points}))
    rates = ", ".join(f"{threads:.0f}: {rate:.3g}" for threads, rate in points)
    found.remarks.append(f"Sections per µs by threads: {rates}.")
    found.remarks.append(
        "The figure's axes and values are not in the text: what is compared is that the lock works over the whole range, and that P100 lives as long as a warp has one thread in it."
    )
    return found


# GB/s of copies on cards: docs/model/links.md.
COPIES = {
    ("p100x2-nvlink", 4): 4 * 18.31, ("dgx-1", 2): 2 * 23.95, ("h200x2", 18): 395.0,
}  # fmt: skip


@study("links", "published and measured copies over NVLink")
def copies_over_links(step: Step) -> Result:
    """Copies between neighbours of each machine, and what kernels store over the same links."""
    found, copies, stores = Result(), [], []
    for (system, count), card in COPIES.items():
        step(system)
        node = System(system, timing="off")
        routes = (node.route(0, other) for other in range(1, len(node.gpus)))
        way = next(one for one in routes if one is not None and one.link_count == count)
        copies.append(Cell(f"{system}, {count} links", "copy", way.copy_gb_per_s, card, COPY_TOLERANCE))
    for system in ("p100x2-nvlink", "dgx-1", "h200x2"):
        step(f"{system}, kernels")
        one = all_reduce.all_reduce(system, "ring")
        assert one is not None
        stores.append(
            Cell(system, "ring all-reduce to its bound", one.bound_seconds / one.seconds, 1.0, all_reduce.TOLERANCE)
        )
    found.tables += [Table("Copies", "GB/s", copies), Table("Kernels' stores", "part of the links' rate", stores)]
    return found
