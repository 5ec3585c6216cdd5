"""Warps that hand words to each other by spinning, beside an H200's figures (``bench/data/h200/divergence.json``, ``handoff``)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.blocks import address_index
from warpwright.engine.kernels import lowered_of
from warpwright.engine.spin_loops import polls

MICRO = Path(__file__).parents[1] / "bench" / "micro"
ROUNDS, TURNS = 34, 16
NO_POLLS = """
extern "C" __global__ void searches(int *out, const int *in, int n) {
    __shared__ int s[256];
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    int low = 0;
    while (s[low] < n && low < 255) low += 3;
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) s[0] -= 1;
        __syncthreads();
        if (s[0] < 0) break;
    }
    out[threadIdx.x] = low;
}
"""


@cache
def module() -> Any:
    return ww.GPU("h200").compile((MICRO / "handoff.cu").read_text(), options=[f"-I{MICRO}"])


def cycles_of(kernel: str, grid: int, block: int, first: int, n: int) -> float:
    """Cycles of a round or turn as the kernel measured them."""
    out = np.zeros(3 << 10, np.uint32)  # so that the first words lie in the partition of the first SMs
    words = np.zeros(1 << 16, np.uint32)
    module()[kernel][grid, block](out, words, np.int32(first), np.int32(n), np.int32(0))
    taken = out.reshape(-1, 4)[:, 0]
    if kernel.startswith("pingpong"):
        return float(taken[0]) / (n - 2)
    return float(taken.max()) / (n * max(grid, block // 32))


@pytest.mark.parametrize(
    ("kernel", "block", "fence", "card"),
    [
        ("pingpong_shared", 64, 0, 384),
        ("lock_block", 32, 0, 174),
        ("lock_block", 64, 0, 140),
        ("lock_block", 32, 1, 251),
        ("lock_block", 128, 1, 220),
    ],
)
def test_hand_over_through_shared_memory_takes_the_cards_time(kernel: str, block: int, fence: int, card: float) -> None:
    n = ROUNDS if kernel.startswith("pingpong") else TURNS
    assert cycles_of(kernel, 1, block, fence, n) == pytest.approx(card, rel=0.2)


def test_a_warp_behind_a_volatile_store_is_not_held_up() -> None:
    """A lock in global memory: two answers a turn are waited for, 650 cycles where the home is near (card); up to 240 more each where
    it is far.  The store and the unlock need no answer."""
    assert 600 < cycles_of("lock_grid", 1, 32, 0, TURNS) < 650 + 2 * 240 + 130


def test_loops_that_wait_on_shared_memory_are_known() -> None:
    def found(kernel: Any) -> set[str]:
        program = kernel._loaded.program
        return {program.instructions[i].opcode for i in polls(lowered_of(kernel._loaded), address_index(program))}

    assert found(module()["pingpong_shared"]) == {"LDS"}
    assert "ATOMS" in found(module()["lock_block"])
    assert found(module()["lock_grid"]) == set()
    assert found(ww.GPU("h200").compile(NO_POLLS)["searches"]) == set()
