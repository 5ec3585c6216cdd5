"""The A100 whitepaper's statements on atomics and compute data compression, on simulated V100 and A100.

The paper names factors and no programs.  Atomics: every thread adds to its own word in L2, and warps to neighbouring words, so that L2's units limit the rate.
V100's rates of float and half sums in its chip file are derived from these factors, so the cells show whether anything else limits the additions.
Compression: memory is filled with contents that compress to a quarter, to a half or not at all, and read back.
"""

from __future__ import annotations

import numpy as np

from warpwright.api import GPU
from warpwright.arrays import DeviceArray
from warpwright.kernel import Module
from warpwright.run import Run
from warpwright.studies.study import Cell, Result, Step, Table, study

PAPER = "NVIDIA A100 Tensor Core GPU Architecture"
SOURCE = """
extern "C" __global__ void add_float(float *at, int repeats)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < repeats; r++) atomicAdd(at + i, 1.0f);
}
extern "C" __global__ void add_half2(unsigned *words, int repeats)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < repeats; r++) asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(words + i), "r"(0x3c003c00) : "memory");
}
extern "C" __global__ void fill(unsigned *out, unsigned words, const unsigned *from)
{
    uint4 *to = reinterpret_cast<uint4 *>(out);
    const uint4 *table = reinterpret_cast<const uint4 *>(from);
    unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) to[i] = table[i & 2047];
}
extern "C" __global__ void read(const unsigned *data, unsigned words, unsigned *sink)
{
    const uint4 *from = reinterpret_cast<const uint4 *>(data);
    unsigned step = gridDim.x * blockDim.x, sum = 0;
#pragma unroll 8
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) {
        uint4 v = __ldcg(from + i);
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x9e3779b9u) *sink = sum;
}
"""
THREADS, BLOCKS_PER_SM = 256, 4
REPEATS = (16, 64)
"""Additions per thread of two launches; the first dozen fill queues, and go faster than those after them."""
ATOMIC_TOLERANCE = 0.25
FACTORS = {"add_half2": ("FP16", 11.0), "add_float": ("FP32", 2.7)}
DTYPES = {"add_half2": np.uint32, "add_float": np.float32}
COMPRESSIBLE_MIB, IN_L2_MIB, TABLE_WORDS = 64, 8, 8192
TRAFFIC_TOLERANCE, BANDWIDTH_TOLERANCE = 0.05, 0.25


def adds_per_second(gpu: GPU, kernel: str) -> float:
    """Threads' atomic additions per second of the whole chip."""
    module = gpu.compile(SOURCE)
    blocks = BLOCKS_PER_SM * gpu.chip.sm.sm_count
    at = gpu.zeros(blocks * THREADS, DTYPES[kernel])
    few, many = (module[kernel][blocks, THREADS](at, np.int32(repeats)).seconds for repeats in REPEATS)
    return blocks * THREADS * (REPEATS[1] - REPEATS[0]) / (many - few)


@study("a100-atomics", f"{PAPER}, Atomics Improvements")
def atomics(step: Step) -> Result:
    """Atomic additions in global memory, FP16 and FP32, of A100 over V100."""
    cells, rates = [], []
    for kernel, (name, paper) in FACTORS.items():
        found = {}
        for chip in ("v100", "a100"):
            step(f"{name}, {chip}")
            found[chip] = adds_per_second(GPU(chip, timing="full"), kernel)
            rates.append(f"{chip} {name}: {1e-9 * found[chip]:.0f} billion additions per second")
        cells.append(Cell(f"{name} atomics", "A100 over V100", found["a100"] / found["v100"], paper, ATOMIC_TOLERANCE))
    return Result([Table("Atomics in global memory", "times", cells)], [*rates, "An FP16 addition is of two halves."])


class _Memory:
    """Memory of an A100 that may be compressed, or not."""

    def __init__(self, compressible: bool) -> None:
        self.gpu = GPU("a100", timing="full", caches="kept", unified=True)
        self.module: Module = self.gpu.compile(SOURCE)
        self.size = COMPRESSIBLE_MIB << 20
        self.data, self.other = (self.gpu.zeros(self.size // 4, np.uint32) for _ in range(2))
        self.table, self.sink = self.gpu.zeros(TABLE_WORDS, np.uint32), self.gpu.zeros(1, np.uint32)
        if compressible:
            self.gpu.memory.compress(self.data.device_address(), self.size, self.gpu.chip.l1.l1_line_bytes)

    def _read(self, array: DeviceArray, size: int) -> Run:
        return self.module["read"][432, 512](array, np.uint32(size // 16), self.sink)

    def measure(self, words: np.ndarray) -> tuple[float, float, float]:
        """DRAM's bytes and the seconds of a read from DRAM, and the seconds of one from L2."""
        self.table.numpy()[:] = words
        self.module["fill"][432, 512](self.data, np.uint32(self.size // 16), self.table)
        self._read(self.other, self.size)
        cold = self._read(self.data, self.size)
        self._read(self.data, IN_L2_MIB << 20)
        warm = self._read(self.data, IN_L2_MIB << 20)
        return cold.metrics["dram__bytes_read.sum"], cold.seconds, warm.seconds


@study("a100-compression", f"{PAPER}, Compute Data Compression")
def compression(step: Step) -> Result:
    """Gain from compressible memory by its contents: DRAM traffic and bandwidth, and L2 bandwidth."""
    rng = np.random.default_rng(17)
    words = rng.integers(0, 1 << 32, TABLE_WORDS, dtype=np.uint32)
    contents = {"zeros": (np.zeros_like(words), 4.0), "8 bits per word": (words & 255, 2.0), "random": (words, 1.0)}
    plain, packed = _Memory(False), _Memory(True)
    traffic, speeds = [], []
    for name, (table, paper) in contents.items():
        step(name)
        before, after = plain.measure(table), packed.measure(table)
        ratios = [one / other for one, other in zip(before, after, strict=True)]
        traffic.append(Cell(name, "DRAM traffic saved", ratios[0], paper, TRAFFIC_TOLERANCE))
        speeds.append(Cell(name, "DRAM read bandwidth", ratios[1], paper, BANDWIDTH_TOLERANCE))
        speeds.append(Cell(name, "L2 read bandwidth", ratios[2], paper, BANDWIDTH_TOLERANCE))
    remarks = [
        "The paper says up to 4 times for DRAM and for L2's reads, and up to 2 times for L2's capacity, which is not modelled.",
        "A real H200's reads gain at most 1.4 times from DRAM, where the way from L2 to the SMs limits them, and nothing from L2.",
    ]
    return Result([Table("Traffic", "times", traffic), Table("Bandwidth", "times", speeds)], remarks)
