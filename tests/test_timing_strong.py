"""Strong accesses of one warp in a row, beside an H200's figures (``bench/data/h200/strong.json``)."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from tests.timing_synthetic import Synthetic, affine, device, run
from warpwright.isa.ops import Access

LOOK = Access("global", 4, strong=True)
ADD = Access("global", 4, True, "add", "u32")


def in_a_row(count: int, access: Access, kind: str, waits: bool) -> int:
    """Cycles of a warp that makes ``count`` strong accesses, each to a line of its own; ``waits``: each for the one before."""
    kernel = Synthetic()
    for i in range(count):
        kernel.add(
            "LDG" if kind == "load" else "ATOMG",
            writes=[2 + i],
            reads=[30],
            access=access,
            kind=kind,
            write_barrier=0,
            wait=[0] if waits and i else [],
            stall=2,
        )
    kernel.add("MOV", writes=[1], reads=[2], wait=[0], stall=5).exit()
    visits = [(i, [affine(device(4096 * (i + 1)))]) for i in range(count)]

    def trace(_block: int, _warp: int) -> list[tuple[int, list[list[int]]]]:
        return visits

    return run(kernel, trace, stopping=True).cycles


@pytest.mark.parametrize(("access", "kind"), [(LOOK, "load"), (ADD, "atomic")])
def test_strong_accesses_that_do_not_wait_for_each_other_overlap(access: Access, kind: str) -> None:
    two, eight = in_a_row(2, access, kind, False), in_a_row(8, access, kind, False)
    assert eight - two < 60  # they leave a few cycles apart; one after the other they would take 6 x 280
    assert in_a_row(8, access, kind, True) - in_a_row(2, access, kind, True) > 6 * 270


SOURCE = """
extern "C" __global__ void turns(unsigned *out, unsigned *words, int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; i++) {
        unsigned a = *(volatile unsigned *)(words), b = atomicAdd(words + 64, 1u), c = *(volatile unsigned *)(words + 128);
        if (b & 1) sum += *(volatile unsigned *)(words + 192) + atomicExch(words + 256, b);
        sum += a + b * 3 + c;
    }
    out[threadIdx.x + blockIdx.x * blockDim.x] = sum;
}
"""


@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (1, 32)])
def test_what_strong_accesses_bring_stays_as_it_is_in_order(blocks: int, threads: int) -> None:
    """Warps that run ahead take their words in program order: as the functional engine, which runs one warp after the other."""
    found = []
    for timing in ("off", "full"):
        kernel = ww.GPU("h200", timing=timing).compile(SOURCE)["turns"]
        out, words = np.zeros(blocks * threads, np.uint32), np.arange(1 << 10, dtype=np.uint32)
        kernel[blocks, threads](out, words, np.int32(9))
        found.append((np.sort(out), words))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1])
