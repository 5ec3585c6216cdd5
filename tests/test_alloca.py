"""Stack that code takes while it runs (alloca), in a kernel and in a function, as machine code and as PTX."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from tests.forms.run import CHIPS
from warpwright.isa.dynamic_stack import stack_bytes
from warpwright.isa.program import RZ, Instruction, Kind, Operand

PTX = """.version 8.8
.target sm_{arch}
.address_size 64
.func (.reg .b32 %sum) table(.reg .b32 %n, .reg .b32 %x)
{{
    .reg .b64 %p, %q; .reg .b32 %i, %v; .reg .pred %more;
    mul.wide.u32 %q, %n, 4; alloca.u64 %p, %q, 16; cvta.local.u64 %p, %p;
    mov.u32 %i, 0;
fill:
    mul.wide.u32 %q, %i, 4; add.u64 %q, %q, %p; mad.lo.u32 %v, %i, %x, 7; st.u32 [%q], %v;
    add.u32 %i, %i, 1; setp.lt.u32 %more, %i, %n; @%more bra fill;
    mov.u32 %sum, 0; mov.u32 %i, 0;
add:
    mul.wide.u32 %q, %i, 4; add.u64 %q, %q, %p; ld.u32 %v, [%q]; add.u32 %sum, %sum, %v;
    add.u32 %i, %i, 1; setp.lt.u32 %more, %i, %n; @%more bra add;
    ret;
}}
.visible .entry sums(.param .u64 out)
{{
    .reg .b64 %out, %room, %mark; .reg .b32 %t, %n, %total, %i, %v; .reg .pred %more;
    mov.u32 %t, %tid.x; rem.u32 %n, %t, 7; add.u32 %n, %n, 1;
    ld.param.u64 %out, [out]; mad.wide.u32 %out, %t, 4, %out;
    stacksave.u64 %mark; alloca.u64 %room, 32; cvta.local.u64 %room, %room; st.u32 [%room+28], %t;
    mov.u32 %i, 0; mov.u32 %total, 0;
again:
    call (%v), table, (%n, %t); add.u32 %total, %total, %v;
    add.u32 %i, %i, 1; setp.lt.u32 %more, %i, 100; @%more bra again;
    ld.u32 %v, [%room+28]; mad.lo.u32 %total, %v, 1000, %total; stackrestore.u64 %mark;
    st.global.u32 [%out], %total; ret;
}}
"""


@pytest.mark.parametrize(("engine", "front_end"), [("compiled", "sass"), ("interpreter", "sass"), ("compiled", "ptx")])
@pytest.mark.parametrize("arch", [pytest.param(arch, marks=() if arch == 90 else pytest.mark.ci) for arch in CHIPS])
def test_a_hundred_calls_reuse_the_room_that_they_take(arch: int, engine: str, front_end: str) -> None:
    gpu = ww.GPU(CHIPS[arch], timing="off", engine=engine, front_end=front_end)
    sums = np.zeros(64, np.uint32)
    gpu.compile(PTX.format(arch=arch))["sums"][1, 64](sums)
    thread = np.arange(64)
    count = thread % 7 + 1
    np.testing.assert_array_equal(sums, 100 * (count * (count - 1) // 2 * thread + 7 * count) + 1000 * thread)


def lower(by: Operand, address: int = 0) -> Instruction:
    r1 = Operand(Kind.REGISTER, 1)
    return Instruction(address, "IADD3", (), (r1, r1, by, Operand(Kind.REGISTER, RZ)), None)


def test_stack_is_what_the_compiler_states_or_the_default_beyond_it() -> None:
    frame, epilogue = lower(Operand(Kind.IMMEDIATE, value=-32 & 0xFFFFFFFF)), lower(Operand(Kind.IMMEDIATE, value=32))
    callee = lower(Operand(Kind.IMMEDIATE, value=-16 & 0xFFFFFFFF), 64)
    assert stack_bytes([frame, epilogue, callee], [0, 64], 48, 1024) == 48
    assert stack_bytes([frame, callee], [0], 32, 1024) == 1024
    assert stack_bytes([frame], [0], 0, 1024) == 1024
    assert stack_bytes([lower(Operand(Kind.REGISTER, 5, negate=True))], [0], 48, 1024) == 1024
    assert stack_bytes([lower(Operand(Kind.REGISTER, 5))], [0], 4096, 1024) == 4096
