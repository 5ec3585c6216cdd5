"""Packets of several GPUs that meet on a link: those to one GPU share its links, those to different ones do not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import warpwright as ww
from warpwright.native import intrinsics
from warpwright.system import peer_routes

SOURCE = """
extern "C" __global__ void store(int4 *to, int each)
{
    to += blockIdx.x * each;
    for (int i = threadIdx.x; i < each; i += blockDim.x) to[i] = make_int4(i, 1, 2, 3);
}
extern "C" __global__ void load(const int4 *from, int each, int *sum)
{
    int value = 0;
    from += blockIdx.x * each;
#pragma unroll 4
    for (int i = threadIdx.x; i < each; i += blockDim.x) value += __ldcg(from + i).x;
    if (value == -1) *sum = value;
}
"""
BLOCKS, EACH = 132, 1024
SIZE = BLOCKS * EACH * 16
pytestmark = pytest.mark.skipif(intrinsics.BOUNDSCHECK, reason="the loop of several devices has no checked form")


@cache
def cycles(name: str, what: str, pairs: tuple[tuple[int, int], ...]) -> list[int]:
    """Cycles of GPUs that store to, or load from, the memory of others."""
    node = ww.System(name)
    launches, kept = [], []
    for own, other in pairs:
        node.enable_peer_access(own, other)
        kept.append(node.gpus[other].zeros(SIZE // 4, np.int32))
        there = np.uint64(kept[-1].device_address())
        more = (node.gpus[own].zeros(1, np.int32),) if what == "load" else ()
        launches.append((node.gpus[own].compile(SOURCE)[what][BLOCKS, 256], (there, np.int32(EACH), *more)))
    return [run.cycles for run in node.launch(*launches)]


def wire_cycles(name: str, count: int) -> float:
    """Cycles after a launch that a GPU's links need for the bytes of ``count`` kernels, with their packets' heads."""
    node = ww.System(name)
    chip, route = node.gpus[0].chip, peer_routes(node.machine, 1)[0]
    line_ns = route.packet_ns + 4 * route.sector_ns
    return chip.launch.launch_overhead_cycles + count * SIZE / 128 * line_ns * chip.clocks.sm_clock_mhz / 1000


@pytest.mark.ci
@pytest.mark.parametrize("what", ["store", "load"])
def test_two_gpus_share_the_links_of_a_third_over_switches(what: str) -> None:
    """Stores meet on the links to the third GPU, the answers to loads on those from it."""
    (alone,) = cycles("h200x4", what, ((1, 0),))
    apart = cycles("h200x4", what, ((1, 0), (2, 3)))
    together = cycles("h200x4", what, ((1, 0), (2, 0)))
    assert apart == pytest.approx([alone] * 2, rel=0.01)
    assert wire_cycles("h200x4", 2) < max(together) < 1.1 * wire_cycles("h200x4", 2)


def test_links_between_two_gpus_are_their_own() -> None:
    """In a hybrid cube mesh, GPUs 1 and 2 have links of their own to GPU 0."""
    (alone,) = cycles("dgx-1", "store", ((1, 0),))
    assert cycles("dgx-1", "store", ((1, 0), (2, 0)))[0] == alone


@pytest.mark.ci
def test_acknowledgements_take_the_way_of_writes_in_the_other_direction() -> None:
    """Two GPUs that write to each other: each line has 16 bytes to acknowledge the other's after it."""
    (alone,) = cycles("h200x4", "store", ((1, 0),))
    both = cycles("h200x4", "store", ((1, 0), (0, 1)))
    assert alone < wire_cycles("h200x4", 1) * 1.1 < min(both) < wire_cycles("h200x4", 1) * 1.15
