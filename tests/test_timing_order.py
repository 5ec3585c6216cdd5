"""In which order warps of a sub-core issue, and which sub-core gets them: what blocks of an H200's SM show (bench.micro ``race``, ``first_lines``)."""

import numpy as np

import warpwright as ww

RACE = r"""
extern "C" __global__ void race(unsigned long long *ends, int turns, int working) {
    unsigned a = threadIdx.x, b = 1, c = 2, d = 3, warp = threadIdx.x / 32;
    int mine = (int)warp < working ? turns : 0;
#pragma unroll 1
    for (int i = 0; i < mine; i++)
        asm volatile("mad.lo.u32 %0, %0, 3, 5; mad.lo.u32 %1, %1, 3, 5; mad.lo.u32 %2, %2, 3, 5; mad.lo.u32 %3, %3, 3, 5;"
                     : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    unsigned long long end;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(end) :: "memory");
    if (threadIdx.x % 32 == 0) ends[blockIdx.x * (blockDim.x / 32) + warp] = end;
    if (a + b + c + d == 77) ends[0] = 0;
}
"""


def ends(blocks: int, threads: int, working: int = 32) -> np.ndarray:
    """The clock at each warp's end on a chip of one SM, shape (blocks, warps); the first ``working`` warps of a block run a loop."""
    out = np.zeros(blocks * threads // 32, np.uint64)
    ww.GPU("h200", sm_count=1).compile(RACE)["race"][blocks, threads](out, np.int32(400), np.int32(working))
    return out.reshape(blocks, -1).astype(np.int64)


def test_the_block_that_began_first_goes_first_and_its_warps_share() -> None:
    """Of a block's warps the one that has been ready longest issues (bench.micro ``warp_chains``), so that they end together."""
    found = ends(4, 512)
    assert (found[:-1].max(axis=1) < found[1:].min(axis=1)).all()
    assert (found.max(axis=1) - found.min(axis=1) < 200).all()  # of 16,000


def test_a_block_that_comes_later_waits_for_those_before_it() -> None:
    found = ends(5, 512)
    assert found[4].min() > found[3].max()


def test_each_block_of_whole_turns_begins_at_the_next_sub_core() -> None:
    alone = ends(1, 128, working=1)[0, 0]
    four = ends(4, 128, working=1)[:, 0].max()
    assert four < 1.3 * alone
