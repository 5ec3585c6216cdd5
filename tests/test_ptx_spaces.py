"""State spaces in PTX and in its machine code: addresses of parameters and of local memory, lists of targets in inner blocks."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

HEAD = ".version 8.8\n.target sm_90\n.address_size 64\n"
WAYS = [("compiled", "sass"), ("compiled", "ptx"), ("interpreter", "sass"), ("interpreter", "ptx")]


def run(body: str, engine: str, front_end: str, start: np.ndarray) -> np.ndarray:
    """A kernel on %a, this thread's word, that leaves %d there."""
    text = f"""{HEAD}.visible .entry k(.param .u64 p)
{{
.reg .b64 %p, %q; .reg .b32 %t, %a, %d; .reg .pred %g; .local .align 4 .b32 mine[4];
mov.u32 %t, %tid.x; ld.param.u64 %p, [p]; mad.wide.u32 %p, %t, 4, %p; ld.global.u32 %a, [%p];
{body}
st.global.u32 [%p], %d;
}}"""
    gpu = ww.GPU("h200", timing="off", engine=engine, front_end=front_end)
    words = start.copy()
    gpu.compile(text)["k"][1, len(words)](words)
    return words


@pytest.mark.parametrize(("engine", "front_end"), WAYS)
def test_a_generic_address_of_local_memory_is_each_lanes_own(engine: str, front_end: str) -> None:
    body = "cvta.local.u64 %q, mine; st.local.b32 [mine+4], %a; ld.volatile.b32 %d, [%q+4];"
    start = np.arange(64, dtype=np.uint32)
    assert np.array_equal(run(body, engine, front_end, start), start)


@pytest.mark.parametrize(("engine", "front_end"), WAYS)
def test_addresses_of_parameters_lie_in_their_window(engine: str, front_end: str) -> None:
    body = """isspacep.param::entry %g, %p; selp.b32 %d, 1, 0, %g;
cvta.param.u64 %q, p; isspacep.param::entry %g, %q; @%g add.u32 %d, %d, 2;
add.u64 %q, %q, 7; isspacep.param::entry %g, %q; @%g add.u32 %d, %d, 4;
add.u64 %q, %q, 1; isspacep.param::entry %g, %q; @%g add.u32 %d, %d, 8;
isspacep.const %g, %q; @%g add.u32 %d, %d, 16;"""
    assert run(body, engine, front_end, np.zeros(32, np.uint32)).tolist() == [6] * 32


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
def test_inner_blocks_have_lists_of_targets_of_their_own(engine: str) -> None:
    """PTX alone: the assembler itself fails on two such blocks."""
    one = """{ .reg .b32 k; and.b32 k, %%t, 1; places: .branchtargets even, odd; brx.idx k, places;
even: add.u32 %%d, %%d, %d; bra done; odd: add.u32 %%d, %%d, %d; done: }"""
    body = "mov.u32 %d, 0;" + one % (1, 10) + one % (100, 1000)
    assert run(body, engine, "ptx", np.zeros(32, np.uint32)).tolist() == [101, 1010] * 16


@pytest.mark.parametrize(("engine", "front_end"), WAYS)
def test_unsigned_zero_rounded_down_is_positive(engine: str, front_end: str) -> None:
    body = ".reg .f32 f; cvt.rm.f32.u32 f, %a; mov.b32 %d, f;"
    start = np.array([0, 1, 0xFFFFFFFF, 0x01000001] * 8, np.uint32)
    wanted = np.array([0, 0x3F800000, 0x4F7FFFFF, 0x4B800000] * 8, np.uint32)
    assert np.array_equal(run(body, engine, front_end, start), wanted)


@pytest.mark.parametrize(("engine", "front_end"), WAYS)
def test_atomics_of_half_a_word_leave_the_other_half(engine: str, front_end: str) -> None:
    """Every lane adds to, or swaps, one half; the other halves are NaNs with payloads, which additions would change."""
    body = """{ .reg .b16 h, one; .reg .b64 w; .reg .b32 k; and.b32 k, %t, 30; mul.wide.u32 w, k, 4; mul.wide.u32 %q, %t, 4;
sub.u64 %q, %p, %q; add.u64 w, %q, w; bar.warp.sync -1;
and.b32 k, %t, 1; setp.eq.u32 %g, k, 0; mov.b16 one, 0x3C00;
@%g atom.global.add.noftz.f16 h, [w], one; add.u64 w, w, 6;
@!%g atom.global.cas.b16 h, [w], 0x1234, one; bar.warp.sync -1; ld.volatile.global.u32 %d, [%p]; }"""
    start = np.array([0x7C013C00, 0x12347C01] * 16, np.uint32)
    assert run(body, engine, front_end, start).tolist() == [0x7C014000, 0x3C007C01] * 16
