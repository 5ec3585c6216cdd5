"""Compares published figures of P100, V100 and A100 with the model's.

``python -m bench.papers [--gpu p100,v100] [PATTERN …]`` compiles ``bench/kernels/papers.cu`` for each chip, measures on the model what a table
states, with the means that its authors used (a clock around a chain, bytes over time), and prints chip, figure, source, theirs,
ours and the error.  Throughputs come from two lengths of one kernel, so that the launch cancels out.  Latencies that
several authors measured differently are compared with the range of what they published.

Figures of Burtchell and Burtscher ("Characterizing CUDA and OpenMP Synchronization Primitives", IISWC 2024) are from the results that they published with their programs for an A100-PCIe-40GB: those of the slowest
thread, with ``int`` and stride 1 where there is a choice. Their other operations (warp barriers, matches, integer sums) are omitted, because today's compiler generates different code for them.

Not here: warp-level barriers of Zhang et al. (Table 4) and grid barriers (Table 8), whose machine code came from CUDA 10's
cooperative groups and is not what today's compiler makes; binary and 4-bit tensor operations; GEMM through cuBLAS.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import tiles

SOURCE = Path(__file__).parent / "kernels" / "papers.cu"
CHAIN, PER_ROUND = 256, 16
VOLTA, AMPERE, BARRIERS, FACTS, SYNCHRONISATION = (
    "Choquette, Figure 1",
    "A100 whitepaper, Table 4",
    "Zhang, Table 5",
    "published latencies",
    "Burtchell, results",
)


class Bench:
    """The kernels on one simulated chip."""

    def __init__(self, chip: str) -> None:
        import warpwright as ww

        self.gpu = ww.GPU(chip, timing="full")
        self.chip = self.gpu.chip
        self.module = self.gpu.compile(SOURCE.read_text())
        self.clock_mhz = self.chip.clocks.sm_clock_mhz
        self.sms = self.chip.sm.sm_count

    def run(self, kernel: str, grid: Any, block: Any, *arguments: Any) -> Any:
        return self.module[kernel][grid, block](*arguments)

    def clocked(self, kernel: str, block: int, *arguments: Any) -> float:
        """The reading of a kernel's own clock; ``Bench`` among the arguments marks its destination."""
        cycles = np.zeros(1, np.int64)
        self.run(kernel, 1, block, *(cycles if a is Bench else a for a in arguments))
        return float(cycles[0])

    def slope(self, kernel: str, grid: int, block: int, short: int, long: int, *arguments: Any) -> float:
        """Cycles that one more round of a kernel takes."""
        few, many = (self.run(kernel, grid, block, *arguments, rounds).cycles for rounds in (short, long))
        return float(many - few) / (long - short)


def chain(kernel: str, dtype: Any) -> Callable[[Bench], float]:
    def measure(bench: Bench) -> float:
        return bench.clocked(kernel, 32, np.zeros(32, dtype), Bench, dtype(1)) / CHAIN

    return measure


def ring(elements: int, stride_bytes: int, array: Any) -> Any:
    """Fill a device array with addresses: each element names the next, ``stride_bytes`` on."""
    step = stride_bytes // 8
    values = np.zeros(elements * step, np.uint64)
    values[::step] = np.uint64(array.device_address()) + np.roll(np.arange(elements, dtype=np.uint64), -1) * np.uint64(
        stride_bytes
    )
    array.set(values)
    return array


def chase(kernel: str, elements: int, stride_bytes: int, warm: int, steps: int) -> Callable[[Bench], float]:
    def measure(bench: Bench) -> float:
        array = ring(elements, stride_bytes, bench.gpu.empty(elements * stride_bytes // 8, np.uint64))
        cycles = bench.clocked(kernel, 1, np.uint64(array.device_address()), warm, steps, Bench, np.zeros(1, np.uint64))
        return cycles / steps

    return measure


def shared_chase(bench: Bench) -> float:
    return bench.clocked("chase_shared", 1, 512, Bench, np.zeros(1, np.int32)) / 512


def barrier_latency(threads: int) -> Callable[[Bench], float]:
    def measure(bench: Bench) -> float:
        return bench.clocked("block_sync", threads, Bench, 8) / 256

    return measure


def barrier_rate(threads: int, clock_mhz: float) -> Callable[[Bench], float]:
    """Barriers of one SM in a microsecond at the authors' clock: as theirs, the best of several numbers of blocks."""

    def measure(bench: Bench) -> float:
        most = min(2048 // threads, 32)
        rates = []
        for blocks in {most, 3 * most // 4, most // 2}:
            cycles = bench.slope("block_sync", blocks * bench.sms, threads, 4, 12, np.zeros(1, np.int64)) / 32
            rates.append(blocks / cycles * clock_mhz)
        return max(rates)

    return measure


def tera(kernel: str, dtype: Any, operations: float, x: Any = 1) -> Callable[[Bench], float]:
    """10^12 operations per second, given the operations of a thread (or a 32nd of a warp) per round."""

    def measure(bench: Bench) -> float:
        grid, block = 4 * bench.sms, 256
        cycles = bench.slope(kernel, grid, block, 6, 18, np.zeros(block, dtype), dtype(x))
        return operations * grid * block / cycles * bench.clock_mhz * 1e6 / 1e12

    return measure


def tensor(kernel: str, dtype: Any, m: int, n: int, k: int, instructions: float = 16) -> Callable[[Bench], float]:
    def measure(bench: Bench) -> float:
        grid, block = 4 * bench.sms, 256
        argument = np.float64(1) if dtype is np.float64 else np.uint32(0)
        cycles = bench.slope(kernel, grid, block, 4, 12, np.zeros(block, dtype), argument)
        operations = 2.0 * m * n * k * instructions * grid * block / 32
        return operations / cycles * bench.clock_mhz * 1e6 / 1e12

    return measure


def stream_triad(bench: Bench) -> float:
    """GB/s of a = b + s c over arrays that L2 does not hold, launch included."""
    n = 3 << 20
    arrays = [bench.gpu.empty(2 * n, np.float64) for _ in range(3)]
    run = bench.run("triad", n // 256, 256, *arrays, np.float64(3), n)
    return 3 * 16 * n / run.seconds / 1e9


def l2_bytes(bench: Bench) -> float:
    """Bytes a cycle that all SMs read from L2 once it holds the data."""
    words = bench.chip.l2.l2_kib * 1024 // 4 // 16
    data = bench.gpu.empty(4 * words, np.uint32)
    grid, block = 2 * bench.sms, 512
    taken = []
    for rounds in (10, 30):
        cycles = np.zeros(grid, np.int64)
        bench.run("rate_l2", grid, block, data, np.zeros(4 * block, np.uint32), words, cycles, rounds)
        taken.append(cycles)
    # Each SM's own rate: those of a partition with fewer SMs are done before the others.
    return float((20 * 8 * 16 * block / (taken[1] - taken[0])).sum())


def l1_bytes(bench: Bench) -> float:
    """Bytes a cycle that an SM reads from L1."""
    data = bench.gpu.zeros(2048, np.uint32)
    cycles = bench.slope("rate_l1", bench.sms, 512, 8, 24, data, np.zeros(4 * 512, np.uint32))
    return 8 * 16 * 512 / cycles


def slowdown(bench: Bench) -> float:
    """Percent that programs take longer, on the average, with what they share in L1 (``bench.tiles`` lists them)."""
    return 100 * (float(np.mean([both.slowdown for both in tiles.pairs(bench.gpu)])) - 1)


def one_more(kernels: tuple[str, str], blocks: int, threads: int, rounds: int = 4) -> Callable[[Bench], float]:
    """Cycles of one more operation in the slowest thread: the second kernel's minus the first's."""

    def measure(bench: Bench) -> float:
        taken = []
        for kernel in kernels:
            cycles, data = np.zeros(blocks * threads, np.int64), np.zeros((2, blocks * threads), np.int32)
            bench.run(kernel, blocks, threads, cycles, data[0], data[1], rounds)
            taken.append(int(cycles.max()))
        return (taken[1] - taken[0]) / (PER_ROUND * rounds)

    return measure


@dataclass(frozen=True)
class Figure:
    """One published number (or the range of several authors') and how the model's is found."""

    chip: str
    name: str
    source: str
    theirs: tuple[float, ...]
    measure: Callable[[Bench], float]

    def error(self, ours: float) -> float:
        """Signed relative distance from the number, or from the nearer end of the range; 0 inside."""
        low, high = min(self.theirs), max(self.theirs)
        return ours / low - 1 if ours < low else ours / high - 1 if ours > high else 0.0


L1, L2, DRAM = chase("chase", 16, 128, 32, 128), chase("chase_l2", 64, 256, 64, 64), chase("chase", 64, 8192, 0, 64)
FP32, FP64, INT32 = (
    tera("rate_ffma", np.float32, 128),
    tera("rate_dfma", np.float64, 128),
    tera("rate_imad", np.int32, 128),
)
FP16 = tera("rate_hfma2", np.uint32, 256)


def _figures() -> Iterator[Figure]:
    for chip, add, clock, latencies, rates in (
        ("v100", 4, 1312, (22, 24, 28, 36, 52, 84), (219.296, 200.602, 143.136, 81.241, 40.812, 19.469)),
        ("p100", 6, 1189, (220, 220, 224, 235, 317, 428), (87.329, 51.67, 27.674, 13.731, 6.598, 3.130)),
    ):
        yield Figure(chip, "dependent float add, cycles", "Zhang, section 3.3", (add,), chain("chain_fadd", np.float32))
        for threads, latency, rate in zip((32, 64, 128, 256, 512, 1024), latencies, rates, strict=True):
            name = f"block barrier of {threads} threads"
            yield Figure(chip, f"{name}, cycles", BARRIERS, (latency,), barrier_latency(threads))
            yield Figure(chip, f"{name}, 1/us an SM", BARRIERS, (rate,), barrier_rate(threads, clock))
    yield Figure("p100", "STREAM triad, GB/s", VOLTA, (557,), stream_triad)
    yield Figure("v100", "STREAM triad, GB/s", VOLTA, (855,), stream_triad)
    yield Figure("v100", "L1 reads, bytes per cycle and SM", "Choquette, on L1", (128,), l1_bytes)
    yield Figure("p100", "L1 reads, bytes per cycle and SM", "Choquette, on L1", (32,), l1_bytes)
    yield Figure("v100", "tiles in L1, percent slower", "Choquette, Figure 4", (7,), slowdown)
    yield Figure("p100", "tiles in L1, percent slower", "Choquette, Figure 4", (30,), slowdown)
    for chip, half, single, double, integer in (
        ("p100", 21.2, 10.6, 5.3, None),
        ("v100", 31.4, 15.7, 7.8, 15.7),
        ("a100", 78.0, 19.5, 9.7, 19.5),
    ):
        yield Figure(chip, "FP16, TFLOPS", AMPERE, (half,), FP16)
        yield Figure(chip, "FP32, TFLOPS", AMPERE, (single,), FP32)
        yield Figure(chip, "FP64, TFLOPS", AMPERE, (double,), FP64)
        if integer:
            yield Figure(chip, "INT32 multiply-add, TOPS", AMPERE, (integer,), INT32)
    # An m8n8k4 instruction of V100 multiplies four such tiles, one for each eight lanes.
    yield Figure("v100", "tensor FP16, TFLOPS", AMPERE, (125,), tensor("rate_mma_f16", np.float32, 8, 8, 4, 64))
    for kernel, name, peak, shape in (
        ("rate_mma_f16", "FP16", 312.0, (16, 8, 16)),
        ("rate_mma_bf16", "BF16", 312.0, (16, 8, 16)),
        ("rate_mma_tf32", "TF32", 156.0, (16, 8, 8)),
        ("rate_mma_s8", "INT8", 624.0, (16, 8, 32)),
        ("rate_mma_f64", "FP64", 19.5, (8, 8, 4)),
    ):
        dtype = {"INT8": np.int32, "FP64": np.float64}.get(name, np.float32)
        yield Figure("a100", f"tensor {name}, TFLOPS", AMPERE, (peak,), tensor(kernel, dtype, *shape))
    yield Figure("v100", "L2 reads, bytes per cycle", "A100 whitepaper, on L2", (2048,), l2_bytes)
    yield Figure("a100", "L2 reads, bytes per cycle", "A100 whitepaper, on L2", (5120,), l2_bytes)
    for chip, l1, shared, l2, dram in (
        ("p100", (80, 81), (25,), (238, 252), (486,)),
        ("v100", (28, 36), (19, 33), (193, 221), (302, 460)),
        ("a100", (33, 37.9), (23, 29), (200, 261.5), (290, 640)),
    ):
        yield Figure(chip, "L1 hit, cycles", FACTS, l1, L1)
        yield Figure(chip, "shared load, cycles", FACTS, shared, shared_chase)
        yield Figure(chip, "L2 hit, cycles", FACTS, l2, L2)
        yield Figure(chip, "DRAM, cycles", FACTS, dram, DRAM)
    yield Figure(
        "v100", "dependent integer multiply-add, cycles", "published latencies", (4,), chain("chain_imad", np.int32)
    )
    yield Figure(
        "a100", "dependent double multiply-add, cycles", "published latencies", (5, 10), chain("chain_dfma", np.float64)
    )
    yield Figure("p100", "dependent double multiply-add, cycles", FACTS, (8,), chain("chain_dfma", np.float64))
    for kernel, name, by_threads in (
        ("sync_block", "block barrier", {32: 23, 64: 25, 128: 29, 256: 37, 512: 53, 1024: 85}),
        ("shuffle", "shuffle", {32: 25, 512: 25, 1024: 31}),
        ("shuffle_wide", "shuffle of 64 bits", {32: 25, 512: 32, 1024: 64}),
        ("vote_any", "vote", {32: 6, 512: 8, 1024: 16}),
        ("add_wide", "64-bit sum of one word", {32: 41.7, 256: 336.4, 1024: 1336.9}),
        ("add_float", "float sum of one word", {32: 100.1, 256: 802.1, 1024: 3208.5}),
    ):
        for threads, cycles in by_threads.items():
            kernels = f"{kernel}_1", f"{kernel}_2"
            yield Figure(
                "a100",
                f"{name} of {threads} threads, cycles",
                SYNCHRONISATION,
                (cycles,),
                one_more(kernels, 1, threads),
            )
    for threads, cycles in {512: 64, 1024: 143.9}.items():
        kernels = "sync_block_1", "sync_block_2"
        name = f"barrier of two blocks of {threads} threads an SM, cycles"
        yield Figure("a100", name, SYNCHRONISATION, (cycles,), one_more(kernels, 216, threads))
    for scope, by_shape in (
        ("device", {(1, 32): 773, (1, 256): 790, (1, 1024): 623, (108, 32): 872}),
        (
            "system",
            {
                (1, 32): 3149,
                (1, 256): 3154,
                (1, 1024): 4294,
                (108, 32): 3580,
                (108, 256): 7273,
                (108, 1024): 7563,
                (216, 1024): 6451,
            },
        ),
    ):
        for (blocks, threads), cycles in by_shape.items():
            kernels = "fence_none", f"fence_{scope}"
            name = f"{scope} fence, {blocks} × {threads}, cycles"
            yield Figure("a100", name, SYNCHRONISATION, (cycles,), one_more(kernels, blocks, threads))


FIGURES = tuple(_figures())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="p100,v100,a100", help="chips, with commas between them")
    parser.add_argument("patterns", nargs="*", help="only figures whose name holds one of these")
    given = parser.parse_args()
    print(f"{'chip':5s} {'figure':40s} {'source':22s} {'theirs':>13s} {'ours':>9s} {'error':>7s}")
    within = total = 0
    for chip in given.gpu.split(","):
        bench = Bench(chip)
        for figure in FIGURES:
            if figure.chip != chip or not any(re.search(pattern, figure.name) for pattern in given.patterns or [""]):
                continue
            ours = figure.measure(bench)
            error = figure.error(ours)
            theirs = "-".join(f"{value:g}" for value in figure.theirs)
            print(
                f"{chip:5s} {figure.name:40s} {figure.source:22s} {theirs:>13s} {ours:9.4g} {100 * error:+6.1f}%",
                flush=True,
            )
            total += 1
            within += abs(error) <= 0.1
    print(f"{within} of {total} within 10%")


if __name__ == "__main__":
    main()
