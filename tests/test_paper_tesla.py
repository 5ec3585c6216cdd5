"""The numbers of "NVIDIA Tesla: A Unified Graphics and Computing Architecture" (IEEE Micro, 2008) on computing, each measured on the model.

Rates of the scheduler, the processors, the special-function units, shared memory and the barrier are in ``test_g80_timing.py``, the multiply-add's truncation and
flushed subnormals in ``test_nv50.py``, Table 1, peaks, bandwidth and Figure 8 in the studies ``tesla-…``.  Left out: what the article says of graphics, textures among it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.g80_kernels import each
from tests.test_g80_timing import BOTH, by_eight
from warpwright.chips import load_chip
from warpwright.errors import LaunchError, UnsupportedError
from warpwright.native.direct import entry
from warpwright.native.intrinsics import words
from warpwright.timing import SOURCES
from warpwright.timing.address_hash import slice_of
from warpwright.timing.reset import LaunchSizes, initial_state
from warpwright.timing.state import LoggedBlock

ULTRA = "g80-ultra"
SPIN = """
extern "C" __global__ void spin(int *out)
{
    int x = threadIdx.x;
    for (int i = 0; i < 300; i++) x = x * 3 + 1;
    out[threadIdx.x] = x;
}
extern "C" __global__ void where(int *out)
{
    unsigned sm;
    asm("mov.u32 %0, %smid;" : "=r"(sm));
    out[blockIdx.x] = sm;
}
extern "C" __global__ void shared(int *out, int n)
{
    extern __shared__ int s[];
    s[threadIdx.x] = n;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 1];
}
"""


@partial(entry, what="", sources=SOURCES)
def home_of(state: Any, line: int) -> int:
    """The partition that has a line."""
    return slice_of(words(state), line)


@pytest.mark.parametrize(("threads", "blocks"), [(32, 8), (64, 8), (96, 8), (128, 6), (256, 3), (384, 2)])
def test_an_sm_executes_768_threads_in_24_warps_and_eight_blocks(threads: int, blocks: int) -> None:
    one = ww.GPU(ULTRA, timing="full", sm_count=1, gpc_sm_counts=[1], gpc_l2_partitions=[0])
    run = one.compile(SPIN)["spin"][12, threads](np.zeros(threads, np.int32))
    assert run.timing is not None
    starts, ends = run.timing.blocks[:, LoggedBlock.start], run.timing.blocks[:, LoggedBlock.end]
    assert int((starts < ends.min()).sum()) == blocks


def test_sixteen_sms_of_eight_clusters_hold_12288_threads() -> None:
    chip = load_chip(ULTRA)
    assert chip.sm.gpc_sm_counts == [2] * 8
    out = np.zeros(64, np.int32)
    ww.GPU(ULTRA, timing="full").compile(SPIN)["where"][64, 32](out)
    assert set(out.tolist()) == set(range(16))
    assert 16 * chip.sm.max_warps_per_sm * 32 == 12288


def test_a_block_has_one_to_512_threads_and_16_kib_of_shared_memory() -> None:
    module = ww.GPU(ULTRA, timing="off").compile(SPIN)
    for threads in (1, 512):
        module["spin"][1, threads](np.zeros(512, np.int32))
    with pytest.raises(LaunchError, match="513"):
        module["spin"][1, 513](np.zeros(513, np.int32))
    module["shared"][1, 32, (16 << 10) - 64](np.zeros(32, np.int32), 1)
    with pytest.raises(LaunchError, match="16,384"):
        module["shared"][1, 32, (16 << 10) + 4](np.zeros(32, np.int32), 1)


def test_an_sm_does_36_gflops_at_1500_mhz() -> None:
    """Eight multiply-adds and eight products of the special-function units a cycle."""
    mhz = load_chip(ULTRA).clocks.sm_clock_mhz
    flops = 4 * 32 * 3 / by_eight(BOTH) * mhz / 1e3
    # The difference of two runs is exact to about one of its 512 cycles.
    assert 0.97 * 36 <= flops <= 1.005 * 36
    assert 0.97 * 576 <= 16 * flops <= 1.005 * 576


def test_a_barrier_is_a_single_instruction() -> None:
    counts = [
        ww.GPU("g80", timing="off")
        .compile(f'extern "C" __global__ void k() {{ {barriers} }}')["k"][1, 32]()
        .instructions
        for barriers in ("__syncthreads();", "__syncthreads(); __syncthreads();")
    ]
    assert counts[1] - counts[0] == 1
    assert each("bar.sync 0;\n", 4) == pytest.approx(20, abs=1)


def test_six_partitions_of_64_pins_have_a_sixth_of_the_addresses_each() -> None:
    chip = load_chip(ULTRA)
    assert chip.l2.l2_slice_count == chip.dram.dram_channel_count == 6
    state = initial_state(chip, LaunchSizes(100, 1, 1, 1)).words
    homes = np.bincount([int(home_of(state, line)) for line in range(6 * 1024)], minlength=6)
    assert len(homes) == 6
    assert homes.max() - homes.min() <= 16
    # 384 pins at both edges of 1.08 GHz; a partition at 1 GHz about 16 GB/s.
    assert chip.dram.dram_gb_per_s == pytest.approx(384 / 8 * 2 * 1.08)
    assert chip.dram.dram_gb_per_s / 1.08 / 6 == pytest.approx(16)
    assert chip.dram.dram_kib == 768 << 10


ATOMICS = {
    "atomicAdd(x, 3u)": 13,
    "atomicMin(x, 3u)": 3,
    "atomicMax(x, 30u)": 30,
    "atomicAnd(x, 6u)": 2,
    "atomicOr(x, 5u)": 15,
    "atomicXor(x, 3u)": 9,
    "atomicExch(x, 7u)": 7,
    "atomicCAS(x, 10u, 8u)": 8,
}


@pytest.mark.parametrize("operation", ATOMICS)
def test_the_latest_chips_have_atomics(operation: str) -> None:
    """Integer add, minimum, maximum, logic, swap and compare-and-swap: compute capability 1.1, not the article's GeForce 8800."""
    source = f'extern "C" __global__ void k(unsigned *x) {{ {operation}; }}'
    x = np.array([10], np.uint32)
    latest = load_chip("g80", compute_capability="1.1")
    ww.GPU(latest, timing="off").compile(source)["k"][1, 1](x)
    assert x[0] == ATOMICS[operation]
    with pytest.raises(UnsupportedError, match=r"atomics on global memory need compute capability 1\.1"):
        ww.GPU("g80", timing="off").compile(source)["k"][1, 1](x)
