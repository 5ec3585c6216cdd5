"""What L1 keeps of stores, by chip: nothing on Pascal, any words from Volta on (bench.micro ``kept``)."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
#if __CUDA_ARCH__ < 700
#define LOAD "ld.global.ca.u32"
#else
#define LOAD "ld.global.u32"
#endif
__device__ unsigned load(const unsigned *p) { unsigned v; asm volatile(LOAD " %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
extern "C" __global__ void again(unsigned *x, int writers, int before) {
    unsigned lane = threadIdx.x, v = 0;
    if (before) v = load(x + lane);
    if (lane < writers) x[lane] = v + lane;
    __syncthreads();
    x[32 + lane] = load(x + lane);
}
"""
SECTORS = 4


def hits(chip: str, writers: int, before: bool) -> int:
    """Sectors of a line that are found in L1 by a load behind a store of ``writers`` words."""
    x = np.zeros(64, np.uint32)
    run = ww.GPU(chip, timing="full", threads=1).compile(SOURCE)["again"][1, 32](x, np.int32(writers), np.int32(before))
    assert np.array_equal(x[32 : 32 + writers], np.arange(writers))
    return int(run.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"])


@pytest.mark.parametrize(
    ("chip", "whole", "part", "sector"),
    [
        ("p100", 0, SECTORS - 1, SECTORS - 1),
        ("v100", SECTORS, SECTORS, SECTORS),
        ("h200", SECTORS, SECTORS, SECTORS),
    ],
)
def test_what_a_load_finds_behind_a_store(chip: str, whole: int, part: int, sector: int) -> None:
    assert hits(chip, 32, before=False) == whole  # the whole line
    assert hits(chip, 3, before=True) == part  # three words of a line that is there
    assert hits(chip, 8, before=True) == sector  # a whole sector of it


@pytest.mark.parametrize("chip", ["v100", "h200"])
def test_sectors_that_are_written_whole_are_kept_and_the_others_fetched(chip: str) -> None:
    assert hits(chip, 16, before=False) == 2
    assert hits(chip, 12, before=False) == 1
