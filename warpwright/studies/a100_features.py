"""Figures 31, 33 and 35 of the A100 whitepaper and its grid barriers: asynchronous copies, asynchronous barriers, warp reductions.

The figures have no numbers. Their cells compare what the drawings show and what follows from a program's own lengths: which instructions move data, what a
second copy finds in L1, and how long a barrier's wait is if work is done between arrival and wait.
"""

from __future__ import annotations

import numpy as np

from warpwright.api import GPU
from warpwright.arrays import DeviceArray
from warpwright.run import Run
from warpwright.studies.a100_tensor_cores import PAPER
from warpwright.studies.study import Cell, Result, Step, Table, study
from warpwright.studies.synchronisation import grid_cycles

COPIES = """
#define TILE(n, code) for (int n = 0; n < 8; n++) { code; }
#define PLACE(n) (n * 256 + threadIdx.x)
#define ASYNC(kind, n) asm volatile("cp.async." kind ".shared.global [%0], [%1], 16;" \\
    :: "r"((unsigned)__cvta_generic_to_shared(tile + PLACE(n))), "l"(from + PLACE(n)) : "memory")
#define BEGIN(name) extern "C" __global__ void name(const uint4 *from, uint4 *to, int repeats) { \\
    __shared__ uint4 tile[2048]; \\
    from += 2048 * blockIdx.x; \\
    unsigned sum = 0; \\
    _Pragma("unroll 1") \\
    for (int r = 0; r < repeats; r++) {
#define END __syncthreads(); sum += tile[(threadIdx.x * 7 + r) & 2047].x; __syncthreads(); } \\
    if (sum == 0x9e3779b9u) to[threadIdx.x].x = sum; }
#define ARRIVED asm volatile("cp.async.wait_all;" ::: "memory");

BEGIN(through_registers)
    uint4 v[8];
#pragma unroll
    TILE(n, v[n] = from[PLACE(n)])
#pragma unroll
    TILE(n, tile[PLACE(n)] = v[n])
END
#if __CUDA_ARCH__ >= 800
BEGIN(bypass)
#pragma unroll
    TILE(n, ASYNC("cg", n))
    ARRIVED
END
BEGIN(access)
#pragma unroll
    TILE(n, ASYNC("ca", n))
    ARRIVED
END
#endif
"""
MOVES = ("LDG", "STS", "LDGSTS")
BLOCKS_PER_SM, THREADS, TILE_BYTES = 1, 256, 32768
HIT_TOLERANCE_POINTS = 1.0


def _copy(gpu: GPU, name: str, repeats: int, data: DeviceArray) -> Run:
    kernel = gpu.compile(COPIES)[name]
    return kernel[BLOCKS_PER_SM * gpu.chip.sm.sm_count, THREADS](data, data, np.int32(repeats))


def _l1_hits(gpu: GPU, name: str, data: DeviceArray) -> float:
    """Percentage of a second copy's sectors that L1 has: what two copies ask L2 for, less what one does."""
    read = "lts__t_sectors_srcunit_tex_op_read.sum"
    once, twice = (_copy(gpu, name, repeats, data).metrics[read] for repeats in (1, 2))
    return 100 * (1 - (twice - once) / once)


@study("a100-fig31", f"{PAPER}, Figures 31 and 32")
def figure_31(step: Step) -> Result:
    """Copies to shared memory through registers and asynchronous: instructions, L1, time."""
    gpu = GPU("a100", timing="full")
    sms = BLOCKS_PER_SM * gpu.chip.sm.sm_count
    data = gpu.zeros(sms * TILE_BYTES // 4, np.uint32)
    module = gpu.compile(COPIES)
    paper = {"through_registers": (8, 8, 0), "bypass": (0, 0, 8), "access": (0, 0, 8)}
    counts, hits, cycles = [], [], {}
    for name, expected in paper.items():
        step(name)
        opcodes = [i.opcode for i in module[name]._loaded.program.instructions]
        counts += [
            Cell(name, move, opcodes.count(move), number, 0.0, True)
            for move, number in zip(MOVES, expected, strict=True)
        ]
        found = _l1_hits(gpu, name, data)
        hits.append(Cell(name, "L1 hits", found, 0.0 if name == "bypass" else 100.0, HIT_TOLERANCE_POINTS, True))
        few, many = (_copy(gpu, name, repeats, data).cycles for repeats in (4, 12))
        cycles[name] = (many - few) / 8
    registers = {name: module[name].registers for name in paper}
    remarks = ["The figure prints no numbers: the cells are its arrows, for eight copies of 16 bytes per thread."]
    remarks += [
        f"{name}: {registers[name]} registers per thread, {cycles[name]:.0f} cycles per tile of 32 KiB and its barriers."
        for name in paper
    ]
    return Result([Table("Instructions that move data", "", counts), Table("A second copy", "%", hits)], remarks)


BARRIERS = """
__device__ void work(int cycles) { long long begin = clock64(); while (clock64() - begin < cycles) ; }
// Each step: half of the warps works long before the barrier, the other half has long work that does not depend on it; they take turns.
// A read of the clock after __syncthreads does not wait for the barrier, but a load from shared memory does.
extern "C" __global__ void together(int repeats, int brief, int lengthy)
{
    __shared__ volatile unsigned zero;
    zero = 0;
    for (int r = 0; r < repeats; r++) {
        bool first = (threadIdx.x < blockDim.x / 2) == (r & 1);
        work(first ? lengthy : brief);
        __syncthreads();
        if (zero == 0)
            work(first ? brief : lengthy);
    }
}
extern "C" __global__ void split(int repeats, int brief, int lengthy)
{
    __shared__ unsigned long long barrier;
    unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at), "r"(blockDim.x) : "memory");
    __syncthreads();
    for (int r = 0; r < repeats; r++) {
        bool first = (threadIdx.x < blockDim.x / 2) == (r & 1);
        unsigned long long token;
        work(first ? lengthy : brief);
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(at) : "memory");
        work(first ? brief : lengthy);
        unsigned over = 0;
        while (!over)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(over) : "r"(at), "l"(token) : "memory");
    }
}
"""
BRIEF_CYCLES, LENGTHY_CYCLES = 500, 4000
STEPS = (4, 12)
BARRIER_TOLERANCE = 0.10


@study("a100-fig33", f"{PAPER}, Figure 33")
def figure_33(step: Step) -> Result:
    """A barrier of one stage, and one whose arrival and wait have independent work between them."""
    gpu = GPU("a100", timing="full")
    module = gpu.compile(BARRIERS)
    found = {}
    for name in ("together", "split"):
        step(name)
        arguments = (np.int32(BRIEF_CYCLES), np.int32(LENGTHY_CYCLES))
        few, many = (module[name][1, 256](np.int32(steps), *arguments).cycles for steps in STEPS)
        found[name] = (many - few) / (STEPS[1] - STEPS[0])
    expected = {"together": 2 * LENGTHY_CYCLES, "split": BRIEF_CYCLES + LENGTHY_CYCLES}
    cells = [
        Cell(row, "cycles of a step", found[name], expected[name], BARRIER_TOLERANCE)
        for row, name in (("single-stage barrier", "together"), ("asynchronous barrier", "split"))
    ]
    return Result(
        [Table("Half of the warps is late, the other has independent work", "cycles", cells)],
        [
            "The figure prints no numbers: a single-stage barrier adds both halves' long work, an asynchronous one overlaps them.",
            f"The asynchronous barrier is {found['together'] / found['split']:.2f} times as fast.",
        ],
    )


REDUCTION = """
extern "C" __global__ void shuffles(int *io, int times)
{
    const int repeats = ONCE ? 1 : times;
    int value = io[threadIdx.x];
#pragma unroll 1
    for (int r = 0; r < repeats; r++) {
        value += __shfl_xor_sync(0xFFFFFFFF, value, 1);
        value += __shfl_xor_sync(0xFFFFFFFF, value, 2);
        value += __shfl_xor_sync(0xFFFFFFFF, value, 4);
        value += __shfl_xor_sync(0xFFFFFFFF, value, 8);
        value += __shfl_xor_sync(0xFFFFFFFF, value, 16);
    }
    io[threadIdx.x] = value;
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void one_step(int *io, int times)
{
    const int repeats = ONCE ? 1 : times;
    int value = io[threadIdx.x];
#pragma unroll 1
    for (int r = 0; r < repeats; r++) value = __reduce_add_sync(0xFFFFFFFF, value);
    io[threadIdx.x] = value;
}
#endif
"""
REDUCTIONS = (16, 80)


@study("a100-fig35", f"{PAPER}, Figure 35")
def figure_35(step: Step) -> Result:
    """Reductions of a warp: five steps of shuffles before A100, a single one on it."""
    steps, sums, remarks = [], [], []
    start = np.arange(1, 33, dtype=np.int32)
    for chip, name, exchange, paper in (
        ("v100", "shuffles", "SHFL", 5),
        ("a100", "shuffles", "SHFL", 5),
        ("a100", "one_step", "REDUX", 1),
    ):
        step(f"{chip}, {name}")
        gpu = GPU(chip, timing="full")
        single, kernel = (gpu.compile(REDUCTION, defines={"ONCE": only})[name] for only in (1, 0))
        once = start.copy()
        single[1, 32](once, np.int32(1))
        sums.append(Cell(f"{chip}, {name}", "sum", int(once[7]), int(start.sum()), 0.0))
        # V100's code begins with a shuffle of the compiler's own, which exchanges nothing with a neighbour.
        exchanges = [
            i for i in single._loaded.program.instructions if i.opcode == exchange and "IDX" not in i.modifiers
        ]
        steps.append(Cell(f"{chip}, {name}", "exchanges", len(exchanges), paper, 0.0))
        few, many = (kernel[1, 32](start.copy(), np.int32(n)).cycles for n in REDUCTIONS)
        remarks.append(f"{chip}, {name}: {(many - few) / (REDUCTIONS[1] - REDUCTIONS[0]):.1f} cycles per reduction.")
    return Result([Table("Steps", "", steps), Table("Sum of 1 to 32", "", sums)], remarks)


GRIDS = tuple((blocks, threads) for blocks in (1, 2, 4) for threads in (32, 128, 512))
"""Blocks per SM and threads per block."""
REDUCTION_PERCENT, REDUCTION_TOLERANCE_POINTS = 30.0, 10.0


@study("a100-grid-barrier", f"{PAPER}, Cooperative Groups")
def grid_barrier(step: Step) -> Result:
    """Barriers of a grid on A100: CUDA 11's, which needs no separate compilation, and the driver's routine that CUDA 10 calls."""
    saved, remarks = [], []
    for blocks, threads in GRIDS:
        step(f"{blocks} blocks of {threads} threads on each SM")
        before, after = (grid_cycles("a100", blocks, threads, header=header) for header in (False, True))
        saved.append(100 * (1 - after / before))
        remarks.append(
            f"{blocks} blocks of {threads} threads on each SM: {before:.0f} and {after:.0f} cycles, {-saved[-1]:+.0f} %."
        )
    cell = Cell("CUDA 11's barrier", "most time saved", max(saved), REDUCTION_PERCENT, REDUCTION_TOLERANCE_POINTS, True)
    return Result([Table("Grid barriers", "%", [cell])], remarks)
