"""Kernels that launch kernels, through the device runtime that the toolkit links into a program."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.child_launches import DeviceLaunches
from warpwright.engine.device_memory import DeviceMemory

RUNTIME = r"""
.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b64 place) __cuda_syscall_cnpv2GetParameterBufferV2 (
    .param .b64 kernel, .param .align 4 .b8 grid[12], .param .align 4 .b8 block[12], .param .b32 shared);
.extern .func (.param .b32 error) __cuda_syscall_cnpv2LaunchDeviceV2 (.param .b64 place, .param .b64 stream);
.visible .entry leaf(.param .u64 out, .param .u32 depth, .param .u32 at)
{
    .reg .u32 %r<6>;
    .reg .u64 %d<4>;
    ld.param.u64 %d1, [out];
    ld.param.u32 %r1, [depth];
    ld.param.u32 %r2, [at];
    mov.u32 %r3, %tid.x;
    add.u32 %r2, %r2, %r3;
    mul.wide.u32 %d2, %r2, 4;
    add.u64 %d1, %d1, %d2;
    ld.global.u32 %r4, [%d1];
    mad.lo.u32 %r4, %r4, 10, %r1;
    st.global.u32 [%d1], %r4;
    ret;
}
.visible .entry tree(.param .u64 out, .param .u32 depth, .param .u32 at)
{
    .reg .pred %p<3>;
    .reg .u32 %r<8>;
    .reg .u64 %d<8>;
    ld.param.u64 %d1, [out];
    ld.param.u32 %r1, [depth];
    ld.param.u32 %r2, [at];
    mov.u32 %r3, %tid.x;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 ret;
    mul.wide.u32 %d2, %r2, 4;
    add.u64 %d3, %d1, %d2;
    ld.global.u32 %r4, [%d3];
    mad.lo.u32 %r4, %r4, 10, 7;
    st.global.u32 [%d3], %r4;
    setp.eq.u32 %p2, %r1, 0;
    mov.u64 %d4, leaf;
    @%p2 bra launch;
    mov.u64 %d4, tree;
launch:
    sub.u32 %r5, %r1, 1;
    mov.u32 %r6, 1;
    mov.u32 %r7, 0;
    {
        .param .b64 kernel;
        .param .align 4 .b8 grid[12];
        .param .align 4 .b8 block[12];
        .param .b32 shared;
        .param .b64 place;
        st.param.b64 [kernel], %d4;
        st.param.b32 [grid], %r6;
        st.param.b32 [grid+4], %r6;
        st.param.b32 [grid+8], %r6;
        st.param.b32 [block], 4;
        st.param.b32 [block+4], %r6;
        st.param.b32 [block+8], %r6;
        st.param.b32 [shared], %r7;
        call.uni (place), __cuda_syscall_cnpv2GetParameterBufferV2, (kernel, grid, block, shared);
        ld.param.b64 %d5, [place];
    }
    st.u64 [%d5], %d1;
    st.u32 [%d5+8], %r5;
    st.u32 [%d5+12], %r2;
    {
        .param .b64 place;
        .param .b64 stream;
        .param .b32 error;
        mov.u64 %d6, 0;
        st.param.b64 [place], %d5;
        st.param.b64 [stream], %d6;
        call.uni (error), __cuda_syscall_cnpv2LaunchDeviceV2, (place, stream);
        ld.param.b32 %r4, [error];
    }
    ret;
}
"""
"""tree launches itself with a depth that is one less, at depth 0 leaf; each appends a digit to its word."""


@pytest.mark.parametrize(("chip", "engine"), [("v100", "interpreter"), ("a100", "compiled"), ("h200", "interpreter")])
def test_kernels_launch_others_and_themselves(chip: str, engine: str) -> None:
    gpu = ww.GPU(chip, timing="off", engine=engine)
    module = gpu.compile(RUNTIME)
    out = np.zeros(8, np.uint32)
    module["tree"][1, 32](out, 2, 1)
    # Three trees at word 1, then the four threads of a leaf whose depth is -1.
    assert out.tolist() == [0, (777 * 10 - 1) & 0xFFFFFFFF, *[0xFFFFFFFF] * 3, 0, 0, 0]


def test_children_take_time_of_their_own() -> None:
    module = ww.GPU("a100").compile(RUNTIME)
    run = module["tree"][1, 32](np.zeros(8, np.uint32), 1, 0)
    assert [child.kernel for child in run.children] == ["tree"]
    assert run.seconds_with_children > run.seconds + run.children[0].seconds


def test_launches_that_no_card_runs_are_refused() -> None:
    memory = DeviceMemory(1 << 26)
    known = {0x100: ("k", 8)}
    launches = DeviceLaunches(memory, lambda address: known[address])
    assert launches.parameters(0x200, (1, 1, 1), (1, 1, 1), 0) == 0
    place = launches.parameters(0x100, (1, 1, 1), (0, 1, 1), 0)
    assert launches.launch(place) == 9
    assert launches.launch(place) == 9, "its parameters are used up"
    assert not launches.children
