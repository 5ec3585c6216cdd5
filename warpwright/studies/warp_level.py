"""Synchronisation within a warp and the verification of the method: Tables 1, 4, 6 and 7 of "A Study of Synchronization Methods in Modern GPUs".

The paper's groups are those of CUDA 10.  Its tile is the generic ``thread_group`` of ``tiled_partition(block, size)``, whose ``sync()`` asks the group's type each time:
the warp's barrier for tiles and coalesced groups, the block's for blocks (cooperative_groups.h of CUDA 10).  The kernel here is that, as CUDA 10's NVRTC
writes it.  The paper's programs are compiled for separate linking (their Makefile's ``-dc``), and so are the kernels here: a warp's barrier then calls its routine by an
absolute address, and takes 14 instructions in a tile instead of 11.  Before Volta a warp's barrier is no instruction, but the assembler leaves the fence of the block's barrier outside of the condition: a tile then takes the fence's time
and a coalesced group none, which the paper finds "surprising".
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np

from warpwright.api import GPU
from warpwright.kernel import Kernel
from warpwright.studies.study import Cell, Plot, Result, Step, Table, study
from warpwright.studies.synchronisation import CLOCKS_MHZ, TABLE_5, block_latency, block_rate
from warpwright.studies.timing_methods import by_gpu_clock, inferred, read
from warpwright.toolchain import InputKind, compile_source, link

PAPER = "Zhang et al., A Study of Synchronization Methods in Modern GPUs, 2019"
TOLERANCE = 0.10
SYNCS = 64
"""Barriers of a tile in straight-line code: more than V100's L0 instruction cache holds, like the paper's repeats."""
COALESCED_SYNCS = 512
"""The paper's basic number of repeats: on P100 a barrier is one NOP, which is short compared with the start of 32 warps after the block's barrier."""
SYNCS_OF_TODAY = 8
"""Repeats for CUDA 12's generic group, whose barrier is long."""
PASSES = 3
WARP = 32
# A read of the clock after a block barrier does not wait for the barrier, but a load from shared memory does, so the kernels make the first read depend on such a load.

_TILE = """
.version 6.3
.target sm_60
.address_size 64
.visible .entry tile(.param .u64 clocks, .param .u64 groups, .param .u32 passes)
{{
    .reg .pred %warp, %more, %first;
    .reg .b32 %type, %mask, %begin, %end, %pass, %passes, %thread, %lane;
    .reg .b64 %at, %out, %offset;
    .shared .b32 word;
    ld.param.u64 %out, [clocks];
    ld.param.u64 %at, [groups];
    ld.param.u32 %passes, [passes];
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %offset, %thread, 8;
    add.u64 %at, %at, %offset;
    ld.global.v2.u32 {{%type, %mask}}, [%at];
    mov.u32 %pass, 0;
    st.volatile.shared.u32 [word], %pass;
AGAIN:
    bar.sync 0;
    ld.volatile.shared.u32 %lane, [word];
    setp.eq.u32 %first, %lane, 0;
    @%first mov.u32 %begin, %clock;
    and.b32 %type, %type, 254;
    setp.lt.u32 %warp, %type, 2;
{body}
    mov.u32 %end, %clock;
    add.u32 %pass, %pass, 1;
    setp.lt.u32 %more, %pass, %passes;
    @%more bra AGAIN;
    and.b32 %lane, %thread, 31;
    setp.eq.u32 %first, %lane, 0;
    shr.u32 %thread, %thread, 5;
    mul.wide.u32 %offset, %thread, 4;
    add.u64 %out, %out, %offset;
    @%first st.global.u32 [%out], %begin;
    @%first st.global.u32 [%out+128], %end;
    ret;
}}
"""
_TILE_SYNC = """
    @%warp bra WARP_{i};
    bra.uni BLOCK_{i};
WARP_{i}:
    bar.warp.sync %mask;
    bra.uni NEXT_{i};
BLOCK_{i}:
    bar.sync 0;
NEXT_{i}:"""
GROUPS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define REPEAT(SYNC)                            \\
    __shared__ volatile unsigned word;          \\
    unsigned begin = 0, end = 0;                \\
    word = 0;                                   \\
    _Pragma("unroll 1")                         \\
    for (int pass = 0; pass < passes; pass++) { \\
        __syncthreads();                        \\
        unsigned zero = word;                   \\
        SYNC                                    \\
    }                                           \\
    if (threadIdx.x % 32 == 0) {                \\
        clocks[threadIdx.x / 32] = begin;       \\
        clocks[threadIdx.x / 32 + 32] = end;    \\
    }
extern "C" __global__ void coalesced(unsigned *clocks, unsigned size, int passes)
{
    REPEAT(if (threadIdx.x % 32 < size) {
        unsigned mask = __activemask();
        if (zero == 0)
            begin = clock();
        _Pragma("unroll") for (int i = 0; i < 512; i++) __syncwarp(mask);
        end = clock();
    })
}
extern "C" __global__ void tile_of_today(unsigned *clocks, unsigned size, int passes)
{
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(cg::this_thread_block());
    REPEAT({
        if (zero == 0)
            begin = clock();
        _Pragma("unroll") for (int i = 0; i < 64; i++) tile.sync();
        end = clock();
    })
}
extern "C" __global__ void group_of_today(unsigned *clocks, unsigned size, int passes)
{
    cg::thread_group tile = cg::tiled_partition(cg::this_thread_block(), size);
    REPEAT({
        if (zero == 0)
            begin = clock();
        _Pragma("unroll") for (int i = 0; i < 8; i++) tile.sync();
        end = clock();
    })
}
"""
_ADDS = """
.version 6.3
.target sm_60
.address_size 64
.visible .entry adds(.param .u64 out, .param .u32 few_passes, .param .u32 many_passes, .param .f32 p, .param .f32 q)
{{
    .reg .pred %again;
    .reg .f32 %p, %q;
    .reg .b32 %begin, %few, %many, %pass, %few_passes, %many_passes;
    .reg .b64 %out;
    ld.param.u64 %out, [out];
    ld.param.u32 %few_passes, [few_passes];
    ld.param.u32 %many_passes, [many_passes];
    ld.param.f32 %p, [p];
    ld.param.f32 %q, [q];
    mov.u32 %pass, 0;
    mov.u32 %many, 0;
AGAIN:
    mov.u32 %begin, %clock;
{few}
    mov.u32 %few, %clock;
    sub.u32 %few, %few, %begin;
    setp.ge.u32 %again, %pass, %many_passes;
    @%again bra NEXT;
    mov.u32 %begin, %clock;
{many}
    mov.u32 %many, %clock;
    sub.u32 %many, %many, %begin;
NEXT:
    add.u32 %pass, %pass, 1;
    setp.lt.u32 %again, %pass, %few_passes;
    @%again bra AGAIN;
    st.global.u32 [%out], %few;
    st.global.u32 [%out+4], %many;
    st.global.f32 [%out+8], %p;
    ret;
}}
"""
"""The two kernels of formula 1 as one kernel that runs them in turns; ``few_passes`` and ``many_passes`` count the passes of each."""

# Repeat difference: latency of an addition inferred by the host's clock, tested by the GPU's.
TABLE_1 = {
    2056: (4.045, 4.025), 5120: (4.034, 4.025), 7680: (5.278, 5.067), 10240: (7.259, 6.952), 20480: (7.080, 6.950),
    25600: (7.066, 6.958), 40960: (7.014, 6.954), 51200: (7.005, 6.958),
}  # fmt: skip
FEWEST_ADDS, FEWEST_CYCLES = 512, 4.150
# Latency in cycles, and warp-barriers per cycle of an SM (the table divides a tile's by its size: here of whole warps).
TABLE_4 = {
    "v100": {"tile": (54, 8.353 / 32), "coalesced, 1 to 31": (108, 0.166), "coalesced, 32": (14, 0.769)},
    "p100": {"tile": (198, 2.89 / 32), "coalesced, 1 to 31": (1, 1.882), "coalesced, 32": (1, 1.882)},
}


def tile_source() -> str:
    """PTX of a tile's barriers."""
    return _TILE.format(body="".join(_TILE_SYNC.format(i=i) for i in range(SYNCS)))


@cache
def _kernels(chip: str) -> dict[str, Kernel]:
    gpu = GPU(chip, timing="full")
    arch = str(gpu.chip.arch)
    tile = link([(InputKind.PTX, tile_source().encode(), "tile.ptx")], arch)
    found: dict[str, Kernel] = {"tile": gpu.compile(tile.cubin)["tile"]}
    groups = compile_source(GROUPS, arch, options=["-rdc=true"])
    module = gpu.compile(link([(InputKind.CUBIN, groups.cubin, "groups.cubin")], arch).cubin)
    for name in ("coalesced", "tile_of_today", "group_of_today"):
        found[name] = module[name]
    return found


@cache
def warp_barrier(chip: str, kind: str, size: int, threads: int) -> tuple[float, float]:
    """Latency in cycles and rate in warp-barriers per cycle, of one block on one SM."""
    clocks = np.zeros(2 * WARP, np.uint32)
    kernel = _kernels(chip)[kind]
    if kind == "tile":
        lanes = np.arange(threads) % WARP
        mask = np.full(threads, 0xFFFFFFFF, np.uint64) if size == WARP else (1 << size) - 1 << (lanes & ~(size - 1))
        groups = np.stack([np.zeros(threads, np.uint32), np.asarray(mask, np.uint64).astype(np.uint32)], 1)
        kernel[1, threads](clocks, np.ascontiguousarray(groups), np.uint32(PASSES))
    else:
        kernel[1, threads](clocks, np.uint32(size), np.int32(PASSES))
    warps = threads // WARP
    count = {"group_of_today": SYNCS_OF_TODAY, "coalesced": COALESCED_SYNCS}.get(kind, SYNCS)
    return by_gpu_clock(clocks[:warps].tolist(), clocks[WARP : WARP + warps].tolist(), count)


def _levels(chip: str) -> dict[str, tuple[float, float]]:
    """Latency of one warp and rate of 32, by the rows of Table 4; of several sizes the median."""
    found = {}
    for row, kind, sizes in (
        ("tile", "tile", (1, 8, 32)),
        ("coalesced, 1 to 31", "coalesced", (1, 16, 31)),
        ("coalesced, 32", "coalesced", (32,)),
    ):
        latencies = [warp_barrier(chip, kind, size, WARP)[0] for size in sizes]
        rates = [warp_barrier(chip, kind, size, 1024)[1] for size in sizes]
        found[row] = float(np.median(latencies)), float(np.median(rates))
    return found


@study("sync-table1", f"{PAPER}, Table 1")
def float_additions(step: Step) -> Result:
    """Latency of a float addition on V100 by both methods, in straight-line code of 512 to 51,712 additions."""
    gpu = GPU("v100", timing="full")
    gpu.repeats = None
    inferred_by: dict[int, float] = {}
    tested: dict[int, float] = {}
    for more in TABLE_1:
        step(f"{FEWEST_ADDS} and {FEWEST_ADDS + more} additions")
        add = "    add.f32 %p, %p, %q;\n"
        kernel = gpu.compile(_ADDS.format(few=add * FEWEST_ADDS, many=add * (FEWEST_ADDS + more)))["adds"]
        cycles = []
        for passes in ((2, 2), (3, 2), (3, 3)):
            out = np.zeros(3, np.uint32)
            cycles.append(kernel[1, 32](out, *(np.uint32(n) for n in passes), np.float32(1), np.float32(2)).cycles)
        few, many = (read([after - before]) for before, after in pairwise(cycles))
        inferred_by[more] = inferred(few, many, more).mean
        tested[FEWEST_ADDS + more] = int(out[1]) / (FEWEST_ADDS + more)
        tested.setdefault(FEWEST_ADDS, int(out[0]) / FEWEST_ADDS)
    cells = [Cell("0", "GPU's clock", tested[FEWEST_ADDS], FEWEST_CYCLES, TOLERANCE)]
    for more, (by_host, by_gpu) in TABLE_1.items():
        cells.append(Cell(f"{more}", "launches", inferred_by[more], by_host, TOLERANCE))
        cells.append(Cell(f"{more}", "GPU's clock", tested[FEWEST_ADDS + more], by_gpu, TOLERANCE))
    found = Result([Table("Latency of an addition, by the difference in repeats", "cycles", cells)])
    found.plots.append(
        Plot(
            "Latency of an addition",
            "additions",
            "cycles",
            {
                "model": [(float(count), value) for count, value in sorted(tested.items())],
                "paper": [(float(FEWEST_ADDS + more), row[1]) for more, row in TABLE_1.items()],
            },
        )
    )
    found.remarks.append(
        "The paper measures 20 times, so that the code of both kernels of formula 1 is in the caches; here both are parts of one kernel, which runs them twice in turns before it times them."
        " Launches' times have no deviation on the model."
    )
    return found


@study("sync-table4", f"{PAPER}, Table 4")
def warp_barriers(step: Step) -> Result:
    """Latency and rate of tile and coalesced-group barriers on V100 and P100."""
    found = Result()
    latency, rate = [], []
    for chip, rows in TABLE_4.items():
        step(chip)
        ours = _levels(chip)
        for row, (cycles, per_cycle) in rows.items():
            absolute = cycles == 1
            latency.append(Cell(row, chip, ours[row][0], cycles, 1.0 if absolute else TOLERANCE, absolute))
            rate.append(Cell(row, chip, ours[row][1], per_cycle, TOLERANCE))
        today = ", ".join(
            f"{name} {warp_barrier(chip, kind, 32, WARP)[0]:.1f}"
            for name, kind in (("thread_block_tile<32>", "tile_of_today"), ("thread_group of 32", "group_of_today"))
        )
        found.remarks.append(f"CUDA 12's groups on {chip}, cycles: {today}.")
    found.tables.append(Table("Latency of a warp's barrier (CUDA 10's groups)", "cycles", latency))
    found.tables.append(Table("Rate of 32 warps (CUDA 10's groups)", "warp-barriers per cycle of an SM", rate))
    found.remarks.append(
        "The tile is CUDA 10's generic group, which asks its type in each barrier; the assembler is CUDA 12's. The paper prints 1 cycle on P100 without digits: within 1 cycle."
    )
    return found


@study("sync-table6", f"{PAPER}, Table 6")
def latencies(step: Step) -> Result:
    """Latencies of warp and block barriers in one GPU, summarised."""
    cells = []
    for chip, rows in TABLE_4.items():
        step(chip)
        ours = _levels(chip)
        for row, (cycles, _) in rows.items():
            absolute = cycles == 1
            cells.append(Cell(row, chip, ours[row][0], cycles, 1.0 if absolute else TOLERANCE, absolute))
        for threads in (32, 256, 1024):
            step(f"{chip}, {threads} threads")
            paper = TABLE_5[chip][threads][0]
            cells.append(Cell(f"block of {threads}", chip, block_latency(chip, threads), paper, TOLERANCE))
    return Result([Table("Latency", "cycles", cells)])


@study("sync-table7", f"{PAPER}, Table 7")
def rates(step: Step) -> Result:
    """Rates of warp and block barriers in one GPU, summarised."""
    warps, blocks = [], []
    for chip, rows in TABLE_4.items():
        step(chip)
        ours = _levels(chip)
        for row, (_, per_cycle) in rows.items():
            warps.append(Cell(row, chip, ours[row][1], per_cycle, TOLERANCE))
        for threads in (32, 64, 128, 256, 512, 1024):
            step(f"{chip}, {threads} threads")
            paper = TABLE_5[chip][threads][1] * threads / WARP / 1e3
            ours_per_ns = block_rate(chip, threads) * threads / WARP / 1e3
            blocks.append(Cell(f"blocks of {threads}", chip, ours_per_ns, paper, TOLERANCE))
    found = Result(
        [
            Table("Warp level", "warp-barriers per cycle of an SM", warps),
            Table("Block level", "warp-barriers per ns of an SM", blocks),
        ]
    )
    found.remarks.append(
        "The paper's Table 7 has a tile's rates of V100 and P100 in V100's column of coalesced groups (0.090 and 2.89); the rates compared here are Table 4's."
    )
    return found


def nanoseconds(chip: str) -> dict[str, float]:
    """Latency of the barriers within a warp."""
    return {row: 1e3 * cycles / CLOCKS_MHZ[chip] for row, (cycles, _) in _levels(chip).items()}
