"""Fermi's memory pipeline as "AMD's Cayman GPU Architecture" (Real World Technologies, 2010) compares it with Cayman's, and as a GTX 480 was measured.

A launch is run with two lengths, so that what it takes besides cancels.  The measured card ran at 1,550 MHz with its memory at 950 MHz; the model runs at the
same clocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.api import GPU
from warpwright.kernel import Module
from warpwright.studies.cayman import (
    CAYMAN,
    FETCHES,
    NOT_ANCHORED,
    WAVEFRONT,
    WAVEFRONTS,
    Bench,
    fetch_cycles,
    fetching,
    pairs,
)
from warpwright.studies.study import Cell, Result, Step, Table, study

ARTICLE = "Kanter, AMD's Cayman GPU Architecture, 2010"
MEASURED = "gpumembench, results of a GTX 480 in its README (Konstantinidis, Cotronis, PDP 2016)"
SOURCE = """
#define LOADS 16
#define EACH(COUNT) _Pragma("unroll") for (int k = 0; k < COUNT; k++)
#define REPEAT _Pragma("unroll 1") for (int n = 0; n < repeats; n++)
__device__ int mine() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <int STEPS, int KEPT> __device__ void cached(const int *data, int *out, int repeats)
{
    int all = gridDim.x * blockDim.x, s = 0;
    REPEAT
    {
        for (int begin = 0; begin < LOADS; begin += 8) {
            int v[8];
            EACH(8) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v[k]) : "l"(data + mine() + (begin + k) % STEPS * all));
            EACH(KEPT) s ^= v[k];
        }
    }
    out[mine()] = s;
}
extern "C" __global__ void in_l1(const int *data, int *out, int repeats) { cached<1, 1>(data, out, repeats); }
extern "C" __global__ void in_l1_with_sums(const int *data, int *out, int repeats) { cached<1, 8>(data, out, repeats); }
extern "C" __global__ void in_l2(const int *data, int *out, int repeats) { cached<16, 8>(data, out, repeats); }

extern "C" __global__ void shared(int stride, int *out, int repeats)
{
    __shared__ int words[1024];
    for (int k = threadIdx.x; k < 1024; k += blockDim.x) words[k] = k;
    __syncthreads();
    int s = 0;
    unsigned place = (unsigned)__cvta_generic_to_shared(words) + threadIdx.x % 32 * stride * 4;
    REPEAT
    {
        int v[LOADS];
        EACH(LOADS) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v[k]) : "r"(place));
        s ^= v[0] ^ v[LOADS - 1];
    }
    out[mine()] = s;
}

extern "C" __global__ void stream(const int *data, int *out, int repeats)
{
    int all = gridDim.x * blockDim.x, s = 0, i = mine();
    REPEAT
    {
        int v[8];
        EACH(8) v[k] = data[i + k * all];
        EACH(8) s ^= v[k];
        i += 8 * all;
    }
    out[mine()] = s;
}

extern "C" __global__ void one_word(const int *data, int *out) { out[threadIdx.x] = data[0]; }

extern "C" __global__ void multiply_adds(float *out, int repeats)
{
    float x = threadIdx.x;
    REPEAT { EACH(96) x = fmaf(x, x, x); }
    out[mine()] = x;
}
"""
CARD_CLOCKS = {"sm_clock_mhz": 1550, "dram_gb_per_s": 182.4}
LOADS, REPEATS = 16, (8, 24)
BLOCKS_PER_SM, THREADS, THREADS_IN_L2 = 2, 512, 320
FULL_BLOCKS_PER_SM, FEW_THREADS = 5, 256
STREAM_REPEATS, WORDS_OF_A_TURN = (4, 12), 8
CHAIN, PARALLEL_WARPS = 96, 18
EXACT, MEASURED_TOLERANCE = 0.03, 0.12


class _Card:
    """The kernels on a GTX 480."""

    def __init__(self, **clocks: Any) -> None:
        self.gpu = GPU("gtx480", timing="full", **clocks)
        self.kernels: Module = self.gpu.compile(SOURCE)
        self.sms = self.gpu.chip.sm.sm_count
        self.ghz = self.gpu.chip.clocks.sm_clock_mhz / 1e3

    def words_per_clk(self, name: str, first: object, threads: int = THREADS) -> float:
        """Words that an SM loads per clock."""
        out = np.zeros(self.sms * BLOCKS_PER_SM * threads, np.int32)
        few, many = (self.kernels[name][self.sms * BLOCKS_PER_SM, threads](first, out, n).cycles for n in REPEATS)
        return LOADS * (REPEATS[1] - REPEATS[0]) * out.size / self.sms / (many - few)

    def data(self) -> npt.NDArray[np.int32]:
        """What ``in_l2`` walks over: more than all L1s hold, less than L2."""
        return np.zeros(LOADS * self.sms * BLOCKS_PER_SM * THREADS_IN_L2, np.int32)

    def gb_per_s(self, words_per_clk: float) -> float:
        return 4 * words_per_clk * self.sms * self.ghz

    def stream(self) -> float:
        """GB/s from DRAM, by as many warps as fit."""
        out = np.zeros(self.sms * FULL_BLOCKS_PER_SM * FEW_THREADS, np.int32)
        data = np.zeros(out.size * WORDS_OF_A_TURN * STREAM_REPEATS[1], np.int32)
        grid = self.sms * FULL_BLOCKS_PER_SM
        few, many = (self.kernels["stream"][grid, FEW_THREADS](data, out, n).cycles for n in STREAM_REPEATS)
        return 4 * out.size * WORDS_OF_A_TURN * (STREAM_REPEATS[1] - STREAM_REPEATS[0]) / (many - few) * self.ghz

    def chain(self, warps: int) -> float:
        """Cycles of a step of every warp's chain of multiply-adds, all warps on one SM."""
        out = np.zeros(32 * warps, np.float32)
        few, many = (self.kernels["multiply_adds"][1, out.size](out.copy(), n).cycles for n in REPEATS)
        return (many - few) / (REPEATS[1] - REPEATS[0]) / CHAIN


def _article(card: _Card) -> Table:
    """The statements on Fermi in the article's last paragraph."""
    conflicts = [card.words_per_clk("shared", stride) for stride in (1, 2, 8)]
    one = card.kernels["one_word"][1, 32](np.zeros(32, np.int32), np.zeros(32, np.int32))
    line = 32 * one.metrics["lts__t_sectors_srcunit_tex_op_read.sum"]
    return Table(
        "Article",
        "bytes per clock of an SM, or as said",
        [
            Cell("L1", "effective bytes per clock", 4 * card.words_per_clk("in_l1", card.data()), 64.0, EXACT),
            Cell("shared memory", "effective bytes per clock", 4 * conflicts[0], 64.0, EXACT),
            Cell("two lanes on a bank", "times as long", conflicts[0] / conflicts[1], 2.0, EXACT),
            Cell("eight lanes on a bank", "times as long", conflicts[0] / conflicts[2], 8.0, EXACT),
            Cell("L1 line of one word's load", "bytes from L2", line, 128.0, 0.0),
        ],
    )


def _beside(card: _Card) -> Table:
    """The same measurements on a SIMD of Cayman."""
    bench = Bench(CAYMAN)
    line = card.kernels["one_word"][1, 32](np.zeros(32, np.int32), np.zeros(32, np.int32))
    lines = bench.run(fetching(1)(1)).metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] / FETCHES
    local, l1 = "explicit memory, bytes per clock", "L1, bytes per clock"
    return Table(
        "Fermi's SM beside Cayman's SIMD",
        "bytes",
        [
            Cell(local, "Fermi", 4 * card.words_per_clk("shared", 1), 64.0, EXACT),
            Cell(local, "Cayman", 8 * WAVEFRONT / bench.cycles(pairs, WAVEFRONTS), 128.0, EXACT),
            Cell(l1, "Fermi", 4 * card.words_per_clk("in_l1", card.data()), 64.0, EXACT),
            Cell(l1, "Cayman", 16 * WAVEFRONT / fetch_cycles(bench, 4), 64.0, EXACT),
            Cell("line of L1", "Fermi", 32 * line.metrics["lts__t_sectors_srcunit_tex_op_read.sum"], 128.0, 0.0),
            Cell("line of L1", "Cayman", 4 * WAVEFRONT / lines, 64.0, 0.0),
        ],
    )


def _measured(card: _Card) -> Table:
    """The card's figures that gpumembench's README has."""
    l1 = card.words_per_clk("in_l1_with_sums", card.data())
    return Table(
        "GTX 480 at 1,550 MHz",
        "GB/s",
        [
            Cell("L1, words of 4 bytes", "GB/s", card.gb_per_s(l1), 1380.11, MEASURED_TOLERANCE),
            Cell(
                "shared memory, words of 4 bytes", "GB/s", card.gb_per_s(card.words_per_clk("shared", 1)), 1482.81, 0.05
            ),
            Cell(
                "L2",
                "GB/s",
                card.gb_per_s(card.words_per_clk("in_l2", card.data(), THREADS_IN_L2)),
                270.332,
                MEASURED_TOLERANCE,
            ),
            Cell("DRAM", "GB/s", card.stream(), 163.2, MEASURED_TOLERANCE),
        ],
    )


@study("cayman-vs-fermi", f"{ARTICLE}; {MEASURED}")
def cayman_vs_fermi(step: Step) -> Result:
    """Fermi's L1, shared memory, L2 and DRAM compared with the article, Cayman's SIMD and a card's figures."""
    step("the article's numbers")
    fermi = _Card()
    found = Result([_article(fermi)])
    step("Cayman")
    found.tables.append(_beside(fermi))
    step("a card's numbers")
    card = _Card(**CARD_CLOCKS)
    found.tables.append(_measured(card))
    step("arithmetic")
    latency, busy = card.chain(1), card.chain(PARALLEL_WARPS)
    found.tables.append(
        Table(
            "Latency of arithmetic (Volkov, GTC 2010)",
            "cycles",
            [
                Cell("a warp alone", "cycles", latency, 18.0, EXACT),
                Cell("576 threads, which fill the SM", "cycles", busy, 18.0, 0.05),
            ],
        )
    )
    found.remarks.append(NOT_ANCHORED)
    found.remarks.append(
        "Code is PTX, timed by a scoreboard. The README's L2 figure is the row of 645,120 bytes and its DRAM figure that of 1,843,200, between 151 and 167 GB/s."
    )
    return found
