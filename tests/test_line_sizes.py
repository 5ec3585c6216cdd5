"""Lines of 32, 64 and 128 bytes with sectors of 32, 64 and 128: what moves, and that results do not change."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.errors import WarpwrightError

SIZES = [(32, 32), (64, 32), (64, 64), (128, 32), (128, 64), (128, 128)]
"""Bytes of a line and of a sector."""

SOURCE = """
extern "C" __global__ void scattered(const int *from, int *to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[i * 64];
}
extern "C" __global__ void copy(const int *from, int *to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = from[i];
}
extern "C" __global__ void mixed(const int *from, int *to, int *counts, unsigned char *bytes) {
    __shared__ int part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
    int own[8];
    for (int j = 0; j < 8; j++) own[(t + j) & 7] = from[(i * 7 + j * 33) & 2047];
    part[t] = own[t & 7] + own[(t * 3) & 7];
    __syncthreads();
    atomicAdd(&counts[part[t] & 63], 1);
    atomicAdd(&counts[64], own[1]);
    to[i] = part[255 - t];
    to[(i * 5) & 2047] = atomicMax(&counts[65 + (t & 3)], part[t]);
    bytes[i * 3] = part[t];
    __syncthreads();
    to[2048 + i] = bytes[i * 3] + from[i] + to[i];
}
"""


def gpu_of(line: int, sector: int) -> ww.GPU:
    return ww.GPU(load_chip("v100", l1_line_bytes=line, sector_bytes=sector))


@pytest.mark.parametrize(("line", "sector"), SIZES)
def test_a_word_alone_brings_what_a_miss_fetches(line: int, sector: int) -> None:
    """On V100 a miss fetches a sector."""
    gpu = gpu_of(line, sector)
    blocks, threads = 16, 64
    words = blocks * threads
    source, target = np.zeros(words * 64, np.int32), np.zeros(words, np.int32)
    run = gpu.compile(SOURCE)["scattered"][blocks, threads](source, target)
    assert run.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == words
    read = run.metrics["dram__bytes_read.sum"]
    assert words * sector <= read <= words * sector + 4 * words


@pytest.mark.parametrize(("line", "sector"), SIZES)
def test_neighbouring_words_are_requests_of_a_line(line: int, sector: int) -> None:
    gpu = gpu_of(line, sector)
    source, target = np.arange(4096, dtype=np.int32), np.zeros(4096, np.int32)
    run = gpu.compile(SOURCE)["copy"][16, 256](source, target)
    np.testing.assert_array_equal(target, source)
    assert run.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 4096 * 4 // sector
    assert run.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 4096 * 4 // sector


def mixed(gpu: ww.GPU) -> tuple[list[np.ndarray], ww.Run]:
    rng = np.random.default_rng(5)
    source = rng.integers(0, 1 << 20, 4096).astype(np.int32)
    target, counts, raw = np.zeros(4096, np.int32), np.zeros(128, np.int32), np.zeros(3 * 2048, np.uint8)
    run = gpu.compile(SOURCE)["mixed"][8, 256](source, target, counts, raw)
    return [counts[:65], raw], run


def test_results_do_not_depend_on_lines_and_cycles_do() -> None:
    expected, _ = mixed(ww.GPU("v100", timing="off"))
    cycles = set()
    for line, sector in SIZES:
        found, run = mixed(gpu_of(line, sector))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        cycles.add(run.cycles)
    assert len(cycles) >= len(SIZES) - 1  # two may coincide


def test_whole_lines_without_sectors() -> None:
    """As Fermi's L1: a word brings its line of 128 bytes; as without sectors, nothing less."""
    chip = load_chip("v100", l1_line_bytes=128, sector_bytes=128, coalescing="whole_lines")
    source, target = np.zeros(1024 * 64, np.int32), np.zeros(1024, np.int32)
    run = ww.GPU(chip).compile(SOURCE)["scattered"][16, 64](source, target)
    assert run.metrics["dram__bytes_read.sum"] >= 1024 * 128


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"l1_line_bytes": 64, "sector_bytes": 128}, "sector_bytes = 128 must be at most l1_line_bytes = 64"),
        (
            {"l1_line_bytes": 64, "coalescing": "half_warp_in_order"},
            "must be 128 and 32 for coalescing = 'half_warp_in_order'",
        ),
        (
            {"sector_bytes": 128, "l1_data_bytes_per_clk": 64},
            "l1_data_bytes_per_clk = 64 must be at least sector_bytes = 128",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(WarpwrightError, match=says):
        load_chip("v100", **changes)
