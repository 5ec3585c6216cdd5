"""PTX's mbarriers at generic addresses: sm_80 compiles an arrival to ATOM.ARRIVE and a test to a generic load."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry turn(.param .u64 out, .param .u32 which)
{
    .shared .align 8 .b64 gates[4];
    .shared .align 4 .b32 words[96];
    .reg .b64 %rd<12>;
    .reg .b32 %r<12>;
    .reg .pred %p<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [which];
    mov.u64 %rd2, gates;
    cvta.shared.u64 %rd3, %rd2;
    mul.wide.u32 %rd4, %r1, 8;
    add.s64 %rd3, %rd3, %rd4;
    mov.u32 %r2, %tid.x;
    setp.eq.u32 %p1, %r2, 0;
    @%p1 mbarrier.init.b64 [%rd3], 96;
    bar.sync 0;
    mul.lo.u32 %r3, %r2, 4;
    mov.u32 %r4, words;
    add.u32 %r4, %r4, %r3;
    mul.lo.u32 %r5, %r2, 7;
    st.shared.u32 [%r4], %r5;
    mbarrier.arrive.b64 %rd5, [%rd3];
again:
    mbarrier.test_wait.b64 %p2, [%rd3], %rd5;
    @!%p2 bra again;
    add.u32 %r6, %r2, 32;
    rem.u32 %r6, %r6, 96;
    mul.lo.u32 %r6, %r6, 4;
    mov.u32 %r7, words;
    add.u32 %r7, %r7, %r6;
    ld.shared.u32 %r8, [%r7];
    mbarrier.arrive.noComplete.b64 %rd6, [%rd3], 1;
    mbarrier.pending_count.b64 %r9, %rd6;
    mul.wide.u32 %rd7, %r2, 4;
    add.s64 %rd1, %rd1, %rd7;
    st.global.u32 [%rd1], %r8;
    st.global.u32 [%rd1+384], %r9;
    ret;
}
"""
"""Each warp of three reads what the next one wrote, then arrives for the next phase; 96 threads see 96 different counts."""


def turned(gpu: ww.GPU, which: int = 1) -> np.ndarray:
    out = np.zeros(192, np.uint32)
    gpu.compile(PTX)["turn"][1, 96](out, np.uint32(which))
    return out


def is_right(out: np.ndarray) -> bool:
    given = 7 * ((np.arange(96) + 32) % 96)
    return bool((out[:96] == given).all()) and sorted(out[96:].tolist()) == list(range(1, 97))


@pytest.mark.parametrize("timing", ["off", "full"])
@pytest.mark.parametrize("which", [0, 3])
def test_threads_wait_at_a_generic_mbarrier(timing: str, which: int) -> None:
    assert is_right(turned(ww.GPU("a100", timing=timing), which))


@pytest.mark.parametrize("options", [{"engine": "interpreter"}, {"front_end": "ptx"}], ids=["interpreter", "ptx"])
def test_the_other_engine_and_the_other_front_end_agree(options: dict[str, str]) -> None:
    assert is_right(turned(ww.GPU("a100", timing="off", **options)))


def test_a_generic_mbarrier_orders_accesses_for_racecheck() -> None:
    gpu = ww.GPU("a100", timing="off", check="racecheck,synccheck")
    assert is_right(turned(gpu))
    assert not gpu.findings
