"""Loops of PTX on one SM of G80, and what a trip of theirs takes."""

from __future__ import annotations

from functools import cache

import numpy as np

import warpwright as ww
from warpwright.run import Run

TEXT = """.version 7.0
.target sm_50
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 trips)
{
    .reg .pred %p<4>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %rd<20>;
    .shared .align 16 .b8 there[8192];
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [trips];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r2, %tid.x;
    cvt.rn.f32.u32 %f0, %r2;
    SETUP
LOOP:
    BODY
    sub.s32 %r1, %r1, 1;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra LOOP;
    LAST
    cvt.rn.f32.u32 %f30, %r3;
    add.f32 %f0, %f0, %f30;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd1, %rd1, %rd2;
    st.global.f32 [%rd1], %f0;
    ret;
}
"""
ONE_SM = {"sm_count": 1, "gpc_sm_counts": [1], "gpc_l2_partitions": [0], "registers_per_sm": 65536}


@cache
def gpu(chip: str = "g80") -> ww.GPU:
    """One SM of a chip, with registers for any number of warps."""
    return ww.GPU(chip, timing="full", **ONE_SM)


def launch(body: str, setup: str, trips: int, warps: int, last: str = "", chip: str = "g80") -> Run:
    """One block that goes through a loop; ``setup`` and ``last`` come before and after it."""
    text = TEXT.replace("SETUP", setup).replace("BODY", body).replace("LAST", last)
    blocks, threads = (1, 32 * warps) if warps <= 16 else (2, 16 * warps)
    return gpu(chip).compile(text)["k"][blocks, threads](np.zeros(4096, np.uint32), trips)


def trip(body: str, setup: str = "mov.u32 %r3, 0;", warps: int = 1, last: str = "", chip: str = "g80") -> float:
    """Cycles of a trip."""
    few, many = (launch(body, setup, trips, warps, last, chip).cycles for trips in (8, 24))
    return (many - few) / 16


def each(one: str, count: int = 8, setup: str = "mov.u32 %r3, 0;", warps: int = 1, last: str = "") -> float:
    """Cycles of a repeated piece of a loop, without the loop's own."""
    longer, shorter = (trip(one * n, setup, warps, last) for n in (2 * count, count))
    return (longer - shorter) / count
