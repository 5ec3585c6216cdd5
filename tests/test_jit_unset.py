"""Registers that are read before anything is written to them: their bits are unknown, what is then written is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry flags(.param .u64 out) {
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %a<4>;
    ld.param.u64 %a1, [out];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %a2, %r1, 4, %a1;
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
AGAIN:
    add.u32 %r2, %r1, %r6;
    and.b32 %r2, %r2, 3;
    setp.eq.u32 %p1, %r2, 1;
    and.b32 %r3, %r3, 0xfffffffd;
@%p1 or.b32 %r3, %r3, 2;
    setp.gt.u32 %p3, %r1, 40;
@%p3 bra BEHIND;
    st.global.u32 [%a2], %r1;
BEHIND:
    and.b32 %r4, %r3, 2;
    setp.ne.u32 %p2, %r4, 0;
    selp.u32 %r4, 7, 9, %p2;
    mad.lo.u32 %r5, %r5, 10, %r4;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p3, %r6, 3;
@%p3 bra AGAIN;
    st.global.u32 [%a2], %r5;
    ret;
}
"""


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize("front_end", ["sass", "ptx"])
def test_flags_gathered_in_a_register_that_nothing_cleared(engine: str, front_end: str) -> None:
    gpu: Any = ww.GPU("a100", timing="off", engine=engine, front_end=front_end)
    out = np.zeros(64, np.uint32)
    gpu.compile(PTX)["flags"][1, 64](out)
    digits = [np.where((np.arange(64) + n) % 4 == 1, 7, 9) for n in range(3)]
    np.testing.assert_array_equal(out, 100 * digits[0] + 10 * digits[1] + digits[2])
