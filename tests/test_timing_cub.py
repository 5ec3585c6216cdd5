"""CUB's algorithms that look back at what other blocks have left, with full timing."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SWEEP = """
#include <cuda/std/cstdint>
#include <cuda/std/type_traits>
namespace std {
using namespace cuda::std;
}
#include <cub/block/block_load.cuh>
#include <cub/agent/agent_radix_sort_onesweep.cuh>
using Policy = cub::AgentRadixSortOnesweepPolicy<256, 8, unsigned, 1, cub::RADIX_RANK_MATCH_EARLY_COUNTS_ANY,
                                                 cub::BLOCK_SCAN_WARP_SCANS, cub::RADIX_SORT_STORE_DIRECT, 8>;
using Agent = cub::detail::radix_sort::AgentRadixSortOnesweep<Policy, false, unsigned, cub::NullType, unsigned, int>;
extern "C" __global__ void __launch_bounds__(256)
sweep(int *lookback, int *counter, unsigned *bins_out, const unsigned *bins, unsigned *out, const unsigned *in, int n, int bit) {
    __shared__ Agent::TempStorage storage;
    Agent(storage, lookback, counter, bins_out, bins, out, in, nullptr, nullptr, n, bit, 8).Process();
}
"""
TILE = 256 * 8


@pytest.mark.ci
@pytest.mark.parametrize(
    "chip", ["h200", pytest.param("a100", marks=pytest.mark.slow), pytest.param("v100", marks=pytest.mark.slow)]
)
def test_radix_sort_by_look_back_sorts(chip: str) -> None:
    """Each block stores its counts with volatile stores, right before a barrier, and adds those of the blocks before it."""
    kernel = ww.GPU(chip, timing="full").compile(SWEEP)["sweep"]
    keys = np.random.default_rng(8).integers(0, 1 << 32, 7 * TILE + 333, np.uint32)
    wanted, blocks = np.sort(keys), -(-len(keys) // TILE)
    for bit in (0, 8, 16, 24):
        counts = np.bincount(keys >> np.uint32(bit) & np.uint32(255), minlength=256)
        bins = np.append(0, counts.cumsum()[:-1]).astype(np.uint32)
        sorted_keys = np.zeros_like(keys)
        look_back, counter = np.zeros(256 * blocks, np.int32), np.zeros(1, np.int32)
        kernel[blocks, 256](
            look_back, counter, bins.copy(), bins, sorted_keys, keys, np.int32(len(keys)), np.int32(bit)
        )
        keys = sorted_keys
    assert np.array_equal(keys, wanted)
