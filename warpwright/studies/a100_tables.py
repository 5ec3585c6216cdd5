"""Tables 1, 4 and 5 of the A100 whitepaper: rates, bandwidth and limits of P100, V100 and A100, measured by programs.

Rates are measured as for Table 3.  The number of SMs and the limits of an SM come from programs that log where and when each block runs; figures that only a
data sheet can give (transistors, dies, watts, units without a rate) are left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from warpwright.api import GPU
from warpwright.studies.a100_memory import SOURCE as MEMORY_SOURCE
from warpwright.studies.a100_speedups import Scalar
from warpwright.studies.a100_tensor_cores import FORMATS, PAPER, Format, loop_of, rates
from warpwright.studies.study import Cell, Result, Step, Table, study

TOLERANCE = 0.05
BANDWIDTH_TOLERANCE = 0.10
"""The table's bandwidth is that of the pins; reads lose the time of DRAM refresh and row changes."""
MULTIPLY_ADD = {
    "FP16": (1, 4, 'asm volatile("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(s[0]) : "r"(a[1]), "r"(b[1]));'),
    "BF16": (1, 4, 'asm volatile("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(s[0]) : "r"(a[1]), "r"(b[1]));'),
    "FP32": (1, 2, 'asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+r"(s[0]) : "r"(a[1]), "r"(b[1]));'),
    "FP64": (
        2,
        2,
        'asm volatile("fma.rn.f64 %0, %1, %1, %0;" : "+d"(reinterpret_cast<double *>(s)[0]) : "d"(__hiloint2double(a[1], b[1])));',
    ),
    "INT32": (1, 2, 'asm volatile("mad.lo.s32 %0, %1, %2, %0;" : "+r"(s[0]) : "r"(a[1]), "r"(b[1]));'),
}
"""By format: registers of an accumulator, operations per thread, the instruction."""
PEAKS = {
    # Table 4: TFLOPS or TOPS of P100, V100 and A100
    "FP16": (21.2, 31.4, 78.0),
    "BF16": (None, None, 39.0),
    "FP32": (10.6, 15.7, 19.5),
    "FP64": (5.3, 7.8, 9.7),
    "INT32": (None, 15.7, 19.5),
}
CHIPS = ("p100", "v100", "a100")
SMS = (56, 80, 108)
BANDWIDTHS = (720.0, 900.0, 1555.0)
READ_MIB = (64, 192)


def _scalar(name: str, chip: str, peak: float) -> Scalar:
    registers, operations, text = MULTIPLY_ADD[name]
    row, registers_of_each = f"{chip.upper()}, {name}", (1, 1, registers)
    return Scalar(row, chip, "", registers_of_each, 32 * operations, peak, loop=loop_of(name), text=text)


def _tensor(chip: str) -> list[Format]:
    """The tensor cores' formats of a chip that Table 4 lists."""
    kinds = [kind for kind in FORMATS if kind.chip == chip and kind.instruction and "binary" not in kind.row]
    return [replace(kind, row=f"{kind.row} Tensor") for kind in kinds]


def _cells(kinds: list[Format], step: Step, by_chip: bool) -> list[Cell]:
    cells = []
    for kind, ours in rates(kinds, step).items():
        chip, name = kind.row.split(", ", 1)
        row = f"{name}{', sparse' if kind.sparse else ''}"
        cells.append(Cell(row, chip if by_chip else "rate", ours, kind.tops, TOLERANCE))
    return cells


@study("a100-table1", f"{PAPER}, Table 1")
def table_1(step: Step) -> Result:
    """Peak rates of A100 by format, ordinary pipes and tensor cores, dense and sparse."""
    kinds: list[Format] = [_scalar(name, "a100", peaks[2]) for name, peaks in PEAKS.items() if name != "INT32"]
    kinds += [kind for kind in _tensor("a100") if "FP16 to FP16" not in kind.row]
    return Result([Table("Peak rates", "TFLOPS, TOPS", _cells(kinds, step, False))])


def _gigabytes_per_second(chip: str) -> float:
    """Bandwidth of reads that miss L2, from two lengths, so that the launch cancels."""
    gpu = GPU(chip, timing="full")
    kernel = gpu.compile(MEMORY_SOURCE)["read"]
    data, sink = gpu.zeros(READ_MIB[1] << 18, np.uint32), gpu.zeros(1, np.uint32)
    blocks = 4 * gpu.chip.sm.sm_count
    few, many = (kernel[blocks, 512](data, np.uint32(mib << 16), sink).seconds for mib in READ_MIB)
    return ((READ_MIB[1] - READ_MIB[0]) << 20) / (many - few) / 1e9


PLACES = """
extern "C" __global__ void places(unsigned *log, int cycles)
{
    extern __shared__ unsigned used[];
    if (threadIdx.x == 0) {
        unsigned sm;
        unsigned long long begin, now;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        asm volatile("mov.u64 %0, %%clock64;" : "=l"(begin));
        if (cycles < 0) used[0] = sm;
        do {
            // A load, so that the warps that wait leave the scheduler to those that begin.
            unsigned word = *(volatile unsigned *)(log + 3 * blockIdx.x);
            asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) : "r"(word));
        } while (now - begin < cycles);
        log[3 * blockIdx.x] = sm;
        log[3 * blockIdx.x + 1] = (unsigned)begin;
        log[3 * blockIdx.x + 2] = (unsigned)now;
    }
}
"""
SPIN_CYCLES = 60000
"""Longer than the dispatcher takes to fill the chip."""


def blocks_at_once(gpu: GPU, threads: int, shared_bytes: int = 0) -> tuple[int, int]:
    """Most blocks that one SM runs at a time, and the number of SMs, of a grid with more blocks than fit."""
    kernel = gpu.compile(PLACES)["places"]
    sms = gpu.chip.sm.sm_count
    blocks = sms * (gpu.chip.sm.max_blocks_per_sm + 4)
    log = np.zeros((blocks, 3), np.uint32)
    kernel[blocks, threads, shared_bytes](log, np.int32(SPIN_CYCLES))
    most = 0
    for sm in np.unique(log[:, 0]):
        begin, end = log[log[:, 0] == sm][:, 1:].T
        most = max(most, max(int(((begin <= now) & (end > now)).sum()) for now in begin))
    return most, len(np.unique(log[:, 0]))


@study("a100-table4", f"{PAPER}, Table 4")
def table_4(step: Step) -> Result:
    """P100, V100 and A100: rates by format, SMs and DRAM's bandwidth."""
    kinds: list[Format] = []
    for n, chip in enumerate(CHIPS):
        kinds += [_scalar(name, chip, peak) for name, peaks in PEAKS.items() if (peak := peaks[n]) is not None]
        kinds += _tensor(chip) if chip != "p100" else []
    cells = _cells(kinds, step, True)
    bandwidth, sms = [], []
    for chip, paper, count in zip(CHIPS, BANDWIDTHS, SMS, strict=True):
        step(f"{chip}, DRAM and SMs")
        bandwidth.append(
            Cell("memory bandwidth", chip.upper(), _gigabytes_per_second(chip), paper, BANDWIDTH_TOLERANCE)
        )
        sms.append(Cell("SMs", chip.upper(), blocks_at_once(GPU(chip, timing="full"), 1024)[1], count, 0.0))
    return Result(
        [Table("Rates", "TFLOPS, TOPS", cells), Table("Reads of DRAM", "GB/s", bandwidth), Table("SMs", "", sms)],
        [
            "Sizes of memory and caches, transistors, dies and watts are not rates: `warpwright chips NAME` lists the former."
        ],
    )


SHARED_KIB = {"p100": (32, 64), "v100": (48, 96), "a100": (81, 164)}
"""Shared memory with which two blocks fill an SM, and the table's size; A100 reserves one KiB per block."""


@study("a100-table5", f"{PAPER}, Table 5")
def table_5(step: Step) -> Result:
    """Compute capabilities 6.0, 7.0 and 8.0: what an SM holds at once."""
    cells = []
    for chip in CHIPS:
        step(chip)
        gpu, column = GPU(chip, timing="full"), chip.upper()
        cells.append(Cell("thread blocks per SM", column, blocks_at_once(gpu, 32)[0], 32, 0.0))
        cells.append(Cell("warps per SM", column, 4 * blocks_at_once(gpu, 128)[0], 64, 0.0))
        cells.append(Cell("threads per SM", column, 1024 * blocks_at_once(gpu, 1024)[0], 2048, 0.0))
        kib, paper = SHARED_KIB[chip]
        own = gpu.chip.shared.shared_reserved_bytes_per_block >> 10
        held = blocks_at_once(gpu, 32, kib << 10)[0] * (kib + own)
        cells.append(Cell("KiB of shared memory per SM", column, held, paper, 0.0))
    return Result([Table("What an SM holds", "", cells)])
