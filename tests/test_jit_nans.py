"""NaNs that wait: sums in a loop keep any NaN, what is stored is CUDA's canonical one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.blocks import basic_blocks
from warpwright.engine.jit.canonical_nans import late_nans
from warpwright.engine.jit.live_ranges import find_webs
from warpwright.engine.jit.pair_fusion import widen
from warpwright.isa.sass.lower import lower

SOURCE = """
extern "C" __global__ void orbit(int limit, const float *c, float *zs) {
    int i = threadIdx.x;
    float cx = c[i], cy = c[i + 32], zx = 0, zy = 0;
    int k = 0;
    while (k < limit && !(zx * zx + zy * zy >= 4.0f)) {
        float t = zx * zx - zy * zy + cx;
        zy = 2 * zx * zy + cy;
        zx = t;
        k++;
    }
    zs[i] = zx;
    zs[i + 32] = zy;
}
"""


def test_registers_cleared_two_at_a_time_may_keep_nans() -> None:
    program = ww.GPU("a100", timing="off").compile(SOURCE)["orbit"]._loaded.program
    lowered = lower(program)
    cleared = [n for n, i in enumerate(program.instructions) if i.opcode == "CS2R"]
    assert cleared
    blocks = basic_blocks(program, lowered)
    lowered = widen(blocks, lowered)
    webs = find_webs(blocks, lowered)
    skipped = {index for index, _ in late_nans(lowered, webs).skip}
    for index in cleared:
        own = {webs.references[index, 1].low, webs.references[index, 1].high}
        writers = {
            i
            for (i, p), reference in webs.references.items()
            if p >= 0 and lowered[i].ops[p].name == "set_reg" and reference.low in own
        }
        assert writers & skipped, (index, writers)


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
def test_what_is_stored_is_canonical(engine: str) -> None:
    gpu: Any = ww.GPU("a100", timing="off", engine=engine)
    odd = np.array([0x7FC12345, 0xFFABCDEF, 0x7F800001, 0xFFC00000], np.uint32).view(np.float32)
    c = np.linspace(-2, 1, 64, dtype=np.float32)
    c[3:64:9] = np.resize(odd, len(c[3:64:9]))
    zs = np.zeros(64, np.float32)
    gpu.compile(SOURCE)["orbit"][1, 32](20, c, zs)
    bits = zs.view(np.uint32)
    nan = np.isnan(zs)
    assert nan.any()
    assert np.all(bits[nan] == 0x7FFFFFFF)
