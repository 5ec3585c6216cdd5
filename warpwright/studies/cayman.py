"""Cayman's and Cypress' memory pipeline as "AMD's Cayman GPU Architecture" (Real World Technologies, 2010) describes it.

The kernels are written in assembly, so that their clauses are exact. Each launch is run at two lengths, so that its overhead cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpwright.api import GPU
from warpwright.run import Run
from warpwright.studies.study import Cell, Result, Step, Table, study

ARTICLE = "Kanter, AMD's Cayman GPU Architecture, 2010, SIMD Memory Pipeline"
CYPRESS, CAYMAN = "hd5870", "hd6970"
CHIPS = {CYPRESS: "Cypress", CAYMAN: "Cayman"}
WAVEFRONT, WAVEFRONTS = 64, 16
"""Threads of a wavefront, and wavefronts of a block that keeps a SIMD busy."""
SHARED_BYTES = 16384
HEAD = f".kernel k(u64 out, u64 data)\n.shared {SHARED_BYTES}\n.registers 12\n"
Body = Callable[[int], str]
NOT_ANCHORED = "Not anchored, since nothing was published to calibrate on: the latencies of local data share, texture cache, L2 and DRAM, the time of control-flow words."


class Bench:
    """Kernels with the given number of steps on a chip."""

    def __init__(self, chip: str, **changes: Any) -> None:
        self.gpu = GPU(chip, timing="full", **changes)
        self.out = np.zeros(4096, np.int32)
        self.data = np.zeros(1 << 16, np.int32)

    def run(self, text: str, blocks: int = 1, threads: int = WAVEFRONT) -> Run:
        return self.gpu.compile(HEAD + text)["k"][blocks, threads](self.out, self.data)

    def cycles(self, body: Body, wavefronts: int = 1, lengths: tuple[int, int] = (16, 48)) -> float:
        """Cycles of one step of a wavefront on a SIMD with the given number of wavefronts."""
        few, many = (self.run(body(n), threads=WAVEFRONT * wavefronts).cycles for n in lengths)
        return (many - few) / (lengths[1] - lengths[0]) / wavefronts


# --- kernels ---------------------------------------------------------------------------------------------------------
def bundles(count: int) -> str:
    return "alu\n" + "  ADD_INT T2.x, T2.x, 1\n" * count


def conflicting(stride: int) -> Body:
    """Loads of local data share by lanes ``stride`` words apart; 0: all of one word."""

    def body(count: int) -> str:
        place = f"alu\n  MUL_UINT24 T3.x, T0.x, {4 * stride}\n  AND_INT T3.x, T3.x, {SHARED_BYTES - 1}\n"
        return place + "  LDS_READ_RET T3.x\n  MOV T2.x, OQAP\n" * count

    return body


def pairs(count: int) -> str:
    """Bundles that each load two values and take those of the bundle before."""
    place = "alu\n  LSHL_INT T3.x, T0.x, 2\n  AND_INT T3.x, T3.x, 255\n  ADD_INT T3.y, T3.x, 256\n"
    take = "MOV T4.y, OQAP; MOV T4.z, OQBP"
    return f"{place}  LDS_READ2_RET T3.x, T3.y\n" + f"  LDS_READ2_RET T3.x, T3.y; {take}\n" * count + f"  {take}\n"


def shared_atomics(lanes_on_a_word: int) -> Body:
    def body(count: int) -> str:
        place = f"alu\n  LSHR_INT T3.x, T0.x, {lanes_on_a_word.bit_length() - 1}\n  LSHL_INT T3.x, T3.x, 2\n"
        return place + "  LDS_ADD_RET T3.x, 1\n  MOV T2.x, OQAP\n" * count

    return body


def share(operation: str, stride: int) -> Body:
    """Accesses to global data share, each in a separate clause, which begins when the previous one has ended."""

    def body(count: int) -> str:
        place = f"alu\n  MUL_UINT24 T3.x, T0.x, {4 * stride}\n  MOV T3.y, 1\n"
        return place + f"share\n  {operation} T4.x, T3.xy\n" * count

    return body


FETCHES = 8


def fetching(words: int) -> Body:
    """Clauses of fetches of the given number of words per lane, at consecutive addresses."""

    def body(count: int) -> str:
        place = f"alu\n  MUL_UINT24 T3.x, T0.x, {4 * words}\n  ADD_INT T3.x, PV.x, KC0[2].w\n"
        return place + ("fetch\n" + f"  VFETCH T4.{'xyzw'[:words]}, T3.x\n" * FETCHES) * count

    return body


def fetch_cycles(bench: Bench, words: int) -> float:
    return bench.cycles(fetching(words), 8, (4, 12)) / FETCHES


# --- studies ---------------------------------------------------------------------------------------------------------
def moving(chip: str) -> Body:
    """Words that a wavefront brings from memory into local data share: by a fetch and a bundle on Cypress, by a fetch alone on Cayman."""

    def body(count: int) -> str:
        place = "alu\n  LSHL_INT T3.x, T0.x, 2\n  MOV T3.y, PV.x\n  ADD_INT T3.x, T3.y, KC0[2].w\n"
        two_steps = "fetch\n  VFETCH T4.x, T3.x\nalu\n  LDS_WRITE T3.y, T4.x\n"
        return place + (two_steps if chip == CYPRESS else "fetch\n  VFETCH LDS.x, T3.xy\n") * count

    return body


def instructions_moved(bench: Bench, chip: str) -> float:
    """Fetches and bundles for a word of each lane."""
    few, many = (bench.run(moving(chip)(n)).metrics["smsp__inst_executed.sum"] for n in (8, 24))
    return (many - few) / 16


EXACT, CLOSE = 0.0, 0.02


@study("cayman-lds", ARTICLE)
def local_data_share(step: Step) -> Result:
    """Local data share: bytes per cycle, conflicts of degree N, broadcast, two values per bundle, atomics in the banks."""
    cells = []
    for chip, name in CHIPS.items():
        step(name)
        bench = Bench(chip)
        words = 2 * WAVEFRONT / bench.cycles(pairs, WAVEFRONTS)
        cells.append(Cell("bandwidth", name, 4 * words, 128.0, CLOSE))
        free = 2  # cycles of 64 lanes on 32 banks
        for degree in (8, 16, 32):
            took = bench.cycles(conflicting(degree), WAVEFRONTS)
            cells.append(Cell(f"{degree} accesses to a bank", name, took / free, float(degree), CLOSE))
        one_word = bench.run(conflicting(0)(8)).metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"] / 8
        cells.append(Cell("one word for all lanes", name, one_word, 1.0, EXACT))
        alone, own = (bench.run(shared_atomics(n)(8)) for n in (1, 32))
        passes = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
        ratio = own.metrics[passes] / alone.metrics[passes]
        cells.append(Cell("atomics of 32 lanes on a word", name, ratio, 32.0, EXACT))
        moves = 2.0 if chip == CYPRESS else 1.0
        cells.append(Cell("instructions to bring a word in", name, instructions_moved(bench, chip), moves, EXACT))
        cells.append(Cell("bundle, one wavefront", name, bench.cycles(bundles), 8.0, EXACT))
        cells.append(Cell("bundle, two wavefronts in turn", name, bench.cycles(bundles, 2), 4.0, EXACT))
    found = Result([Table("Local data share", "bytes per cycle, or cycles of the banks", cells)])
    found.remarks.append(NOT_ANCHORED)
    return found


@study("cayman-gds", ARTICLE)
def global_data_share(step: Step) -> Result:
    """Global data share: 25 cycles, 32 banks, atomics and the counters of append and consume buffers."""
    cells = []
    for chip, name in CHIPS.items():
        step(name)
        bench = Bench(chip)
        cells.append(Cell("latency", name, bench.cycles(share("GDS_READ_RET", 0)), 25.0, EXACT))
        eight, sixteen = (bench.cycles(share("GDS_READ_RET", stride), 1) for stride in (8, 16))
        cells.append(Cell("16 accesses to a bank, longer than 8", name, sixteen - eight, 16.0, CLOSE))
        cells.append(Cell("counted by all threads of a grid", name, appended(bench), 512.0, EXACT))
        cells.append(Cell("size", name, float(bench.gpu.chip.shared.global_share_kib), 64.0, EXACT))
    result = Result([Table("Global data share", "cycles, or as said", cells)])
    result.remarks.append(NOT_ANCHORED)
    result.remarks.append(
        "Each SIMD has the banks for itself in the model: what SIMDs that access them at once take longer is not modelled."
    )
    return result


def appended(bench: Bench) -> float:
    """Different places that the threads of eight blocks get from one counter."""
    text = (
        "alu\n  MOV T4.x, 16\n  MOV T4.y, 1\nshare\n  GDS_ADD_RET T5.x, T4.xy\nalu\n  LSHL_INT T3.x, T5.x, 2\n"
        "  ADD_INT T3.x, PV.x, KC0[2].y\n  LSHR_INT T3.x, PV.x, 2\n  MOV T5.x, 1\nstore T5.x, T3.x\n"
    )
    bench.run(text, blocks=8)
    return float(bench.out.sum())


@study("cayman-coalescing", ARTICLE)
def coalescing(step: Step) -> Result:
    """Cycles of a memory wavefront by what each lane loads, and the lines that it looks up."""
    cells = []
    expected = {CYPRESS: {1: 16.0, 2: 16.0, 4: 16.0}, CAYMAN: {1: 4.0, 2: 8.0, 4: 16.0}}
    for chip, name in CHIPS.items():
        step(name)
        bench = Bench(chip)
        for words, cycles in expected[chip].items():
            cells.append(Cell(f"{32 * words} bits per lane", name, fetch_cycles(bench, words), cycles, CLOSE))
        run = bench.run(fetching(1)(1))
        lines = run.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] / FETCHES
        cells.append(Cell("lines of 64 bytes, 32 bits per lane", name, lines, 4.0, EXACT))
    found = Result([Table("A wavefront's load", "cycles, or lines", cells)])
    found.remarks.append(NOT_ANCHORED)
    found.remarks.append(
        "The article gives 16 cycles for scalars on Cypress, 4 on Cayman for 32 bits and 8 for 64. Lanes of 128 bits send 64 addresses, four per cycle, on both."
    )
    return found


@study("cayman-texture-bandwidth", ARTICLE)
def texture_bandwidth(step: Step) -> Result:
    """Aggregate bandwidth of the L1 texture caches, what fits them, and what writes change there."""
    cells = []
    for chip, name in CHIPS.items():
        step(name)
        bench = Bench(chip)
        made = bench.gpu.chip
        per_clk = 16 * WAVEFRONT / fetch_cycles(bench, 4)
        aggregate = per_clk * made.sm.sm_count * made.clocks.sm_clock_mhz / 1e6
        cells.append(Cell("aggregate", name, aggregate, {CYPRESS: 1.09, CAYMAN: 1.35}[chip], CLOSE))
        step(f"{name}: what fits")
        for kib, share_of_hits in ((8, 1.0), (16, 0.0)):
            cells.append(
                Cell(f"hits in a second walk over {kib} KB", name, second_walk(bench, kib), share_of_hits, 0.0, True)
            )
        cells.append(Cell("hits after a store to the line", name, after_store(bench), 1.0, EXACT))
    found = Result([Table("L1 texture cache", "TB/s, or share of lines", cells)])
    found.remarks.append(NOT_ANCHORED)
    found.remarks.append(
        "The article says 1.3 TB/s for Cayman and just over 1 TB/s for Cypress: 64 bytes per cycle of 24 SIMDs at 880 MHz and of 20 at 850 MHz."
    )
    found.remarks.append(
        "A load after a store to its line hits: the read path does not see writes. Its value is the new one all the same; the model's memory is one."
    )
    return found


LOADS, HITS = (
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
)


def walk(kib: int, times: int) -> str:
    """A wavefront reads so many KB in order, so often."""
    text = "alu\n  LSHL_INT T3.x, T0.x, 4\n  ADD_INT T3.x, PV.x, KC0[2].w\n"
    return text + "".join(f"fetch\n  VFETCH T4.xyzw, T3.x, {1024 * n}\n" for n in range(kib)) * times


def second_walk(bench: Bench, kib: int) -> float:
    once, twice = (bench.run(walk(kib, times)).metrics for times in (1, 2))
    return (twice[HITS] - once[HITS]) / (twice[LOADS] - once[LOADS])


def after_store(bench: Bench) -> float:
    """The share of hits of a load that follows a load and a store of the same lines."""
    place = "alu\n  LSHL_INT T3.x, T0.x, 2\n  ADD_INT T3.x, PV.x, KC0[2].w\n  LSHR_INT T5.x, T3.x, 2\n"
    load = "fetch\n  VFETCH T4.x, T3.x\n"
    before = bench.run(place + load).metrics
    after = bench.run(place + load + "store T0.x, T5.x\n" + load).metrics
    return (after[HITS] - before[HITS]) / (after[LOADS] - before[LOADS])
