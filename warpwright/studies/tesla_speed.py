"""G80's peaks as "NVIDIA Tesla: A Unified Graphics and Computing Architecture" (IEEE Micro, 2008) states them, and what coalescing is worth on it.

A launch is run with two lengths, so that what it takes besides cancels.
"""

from __future__ import annotations

import numpy as np

from warpwright.api import GPU
from warpwright.kernel import Kernel
from warpwright.run import Run
from warpwright.studies.study import Cell, Result, Step, Table, study
from warpwright.studies.tesla import PAPER
from warpwright.timing.state import LoggedBlock

ULTRA, GTX = "g80-ultra", "g80"
GUIDE = "NVIDIA CUDA C Programming Guide 3.2, section G.3.2"
TUTORIAL = "NVIDIA CUDA tutorial, 2008, timing results of coalescing"
PEAK_SOURCE = """
#define FOUR(STEP) STEP(0) STEP(1) STEP(2) STEP(3)
#define MAD(N) x##N = fmaf(x##N, x##N, x##N);
#define BOTH(N) MAD(N) y##N *= y##N;
#define ROOT(N) asm volatile("rcp.approx.ftz.f32 %0, %0;" : "+f"(y##N));
#define DECLARE(N) float x##N = threadIdx.x + N, y##N = x##N;
#define KEEP(N) s += x##N + y##N;
#define LOOP(NAME, STEP)                                                                  \\
    extern "C" __global__ void NAME(float *out, int repeats)                              \\
    {                                                                                     \\
        FOUR(DECLARE)                                                                     \\
        _Pragma("unroll 1") for (int i = 0; i < repeats; i++)                             \\
        {                                                                                 \\
            _Pragma("unroll") for (int k = 0; k < 32; k++) { FOUR(STEP) }                 \\
        }                                                                                 \\
        float s = 0;                                                                      \\
        FOUR(KEEP)                                                                        \\
        out[blockIdx.x * blockDim.x + threadIdx.x] = s;                                   \\
    }
LOOP(multiply_adds, MAD)
LOOP(multiply_adds_and_products, BOTH)
LOOP(reciprocals, ROOT)

extern "C" __global__ void few_registers(float *out, int repeats)
{
    float x = threadIdx.x;
    for (int i = 0; i < repeats; i++) x = fmaf(x, x, x);
    out[threadIdx.x] = x;
}

extern "C" __global__ void read(float *x, float *out, int repeats)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    float s = 0;
#pragma unroll 1
    for (int n = 0; n < repeats; n++) {
        s += x[i] + x[i + all] + x[i + 2 * all] + x[i + 3 * all];
        i += 4 * all;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
"""
STEPS_PER_REPEAT = 4 * 32
BLOCKS_PER_SM, THREADS = 3, 256
PEAK_TOLERANCE, BANDWIDTH_TOLERANCE = 0.03, 0.20

COALESCING_SOURCE = """
__device__ int mine() { return blockIdx.x * blockDim.x + threadIdx.x; }
extern "C" __global__ void coalesced(float *a) { a[mine()] += 1.0f; }
extern "C" __global__ void some_threads(float *a) { if ((threadIdx.x & 7) != 0) a[mine()] += 1.0f; }
extern "C" __global__ void permuted(float *a) { a[mine() ^ 1] += 1.0f; }
extern "C" __global__ void misaligned(float *a) { a[mine() + 1] += 1.0f; }
extern "C" __global__ void strided(float *a) { a[2 * mine()] += 1.0f; }
extern "C" __global__ void three_floats(float *a)
{
    float *p = a + 3 * mine();
    float x = p[0], y = p[1], z = p[2];
    p[0] = x + 1.0f;
    p[1] = y + 1.0f;
    p[2] = z + 1.0f;
}
"""
FLOATS = 3 << 20
# Kernel, microseconds in the tutorial, floats per thread.
TIMES = (
    ("coalesced", 356.0, 1),
    ("some_threads", 357.0, 1),
    ("permuted", 3494.0, 1),
    ("misaligned", 3494.0, 1),
    ("three_floats", 3302.0, 3),
)
# Kernel: bytes of the transactions of a half-warp's load by compute capability.
TRANSACTIONS = (
    ("coalesced", {"1.0": 64, "1.3": 64}),
    ("permuted", {"1.0": 512, "1.3": 64}),
    ("misaligned", {"1.0": 512, "1.3": 112}),
    ("strided", {"1.0": 512, "1.3": 128}),
)
RULES = {"1.0": "half_warp_in_order", "1.3": "half_warp_any_order"}
TIME_TOLERANCE = 0.10


def _difference(runs: list[Run], metric: str = "") -> float:
    """Difference between a longer and a shorter launch, in cycles or a metric."""
    few, many = (run.metrics[metric] if metric else float(run.cycles) for run in runs)
    return many - few


def _steps_per_clk(kernel: Kernel, sms: int, blocks: int = BLOCKS_PER_SM) -> float:
    """Thread operations per cycle of the chip."""
    out = np.zeros(sms * blocks * THREADS, np.float32)
    repeats = (2, 6)
    runs = [kernel[sms * blocks, THREADS](out.copy(), n) for n in repeats]
    return STEPS_PER_REPEAT * (repeats[1] - repeats[0]) * out.size / _difference(runs)


def _read_gb_per_s(kernel: Kernel, chip_mhz: int) -> float:
    """Bytes that a stream of loads brings from DRAM."""
    blocks, repeats = 96, (8, 24)
    x = np.zeros(blocks * THREADS * 4 * repeats[1], np.float32)
    out = np.zeros(blocks * THREADS, np.float32)
    runs = [kernel[blocks, THREADS](x, out, n) for n in repeats]
    return _difference(runs, "dram__bytes_read.sum") / _difference(runs) * chip_mhz / 1e3


def _threads_at_once(kernel: Kernel, sms: int) -> float:
    """Threads of the blocks that have started when the first one ends, of more blocks than there is room for."""
    blocks = 5 * sms
    run = kernel[blocks, THREADS](np.zeros(THREADS, np.float32), 1000)
    assert run.timing is not None
    starts, ends = run.timing.blocks[:, LoggedBlock.start], run.timing.blocks[:, LoggedBlock.end]
    return float(THREADS * (starts < ends.min()).sum())


@study("tesla-peaks", f"{PAPER}, GeForce 8800 Ultra")
def peaks(step: Step) -> Result:
    """Peak arithmetic, special functions, threads and memory bandwidth."""
    gpu = GPU(ULTRA, timing="full")
    module, chip = gpu.compile(PEAK_SOURCE), gpu.chip
    sms, mhz = chip.sm.sm_count, chip.clocks.sm_clock_mhz
    step("multiply-adds and products")
    adds = _steps_per_clk(module["multiply_adds"], sms)
    both = _steps_per_clk(module["multiply_adds_and_products"], sms)
    step("special functions")
    roots = _steps_per_clk(module["reciprocals"], sms)
    step("bandwidth")
    read = _read_gb_per_s(module["read"], mhz)
    arithmetic = [
        Cell("multiply-adds and products", "Gflops", 3 * both * mhz / 1e3, 576.0, PEAK_TOLERANCE),
        Cell("multiply-adds and products, one SM", "Gflops", 3 * both * mhz / 1e3 / sms, 36.0, PEAK_TOLERANCE),
        Cell("multiply-adds alone", "Gflops", 2 * adds * mhz / 1e3, 384.0, PEAK_TOLERANCE),
    ]
    rates = [
        Cell("a warp's multiply-add", "cycles of an SM", 32 * sms / adds, 4.0, PEAK_TOLERANCE),
        Cell("a warp's special function", "cycles of an SM", 32 * sms / roots, 16.0, PEAK_TOLERANCE),
    ]
    step("threads")
    threads = _threads_at_once(module["few_registers"], sms)
    found = Result([Table("Peak arithmetic", "Gflops", arithmetic), Table("Execution of a warp", "cycles", rates)])
    found.tables.append(Table("Threads on the chip", "threads", [Cell("resident", "threads", threads, 12288.0, 0.0)]))
    found.tables.append(
        Table("Memory bandwidth", "GB/s", [Cell("reads in a stream", "GB/s", read, 104.0, BANDWIDTH_TOLERANCE)])
    )
    found.remarks.append(
        "384 Gflops follow from eight multiply-add units at 1.5 GHz. 104 GB/s is the pins' rate, of which a stream reaches a part: 71 of 86 GB/s in"
        " tesla-coalescing's tutorial."
    )
    return found


@study("tesla-coalescing", f"{TUTORIAL}; {GUIDE}")
def coalescing(step: Step) -> Result:
    """Time and transactions of words that half-warps read, increment and write, in order and not."""
    gpu = GPU(GTX, timing="full")
    module = gpu.compile(COALESCING_SOURCE)
    times = []
    for name, paper, floats in TIMES:
        step(name)
        run = module[name][FLOATS // floats // THREADS, THREADS](np.zeros(FLOATS + 16, np.float32))
        times.append(Cell(name.replace("_", " "), "µs", run.seconds * 1e6, paper, TIME_TOLERANCE))
    moved = []
    for capability, rule in RULES.items():
        step(f"transactions of compute capability {capability}")
        kernels = GPU(GTX, timing="full", compute_capability=capability, coalescing=rule).compile(COALESCING_SOURCE)
        half_warps = 64
        for name, bytes_by_rule in TRANSACTIONS:
            run = kernels[name][half_warps // 4, 64](np.zeros(64 * 64 + 16, np.float32))
            sectors = run.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
            moved.append(Cell(name, capability, 32 * sectors / half_warps, bytes_by_rule[capability], 0.0))
    found = Result([Table("3 Mi floats", "µs", times), Table("Transactions of a half-warp's load", "bytes", moved)])
    found.remarks.append(
        "The tutorial does not name its card; 356 µs are 71 GB/s, 82 % of a GeForce 8800 GTX. Words that are not coalesced are as many transactions of 32 bytes as"
        " the guide says, which move 58 GB/s in the tutorial's time, as if each of six partitions took 1.9 cycles of the 8800 GTX's 575 MHz core clock for a transaction; in the model"
        " they take only the time of DRAM, because no source gives such a limit."
    )
    return found
