"""Where diverged lanes meet again: convergence barriers at post-dominators, and programs that they must not stop."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.blocks import basic_blocks
from warpwright.isa.ptx.load import program_from_ptx

HEAD = ".version 8.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n"
REGISTERS = ".reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .b64 %rd<9>;\nmov.u32 %r0, %tid.x;\n"
STORE = "ld.param.u64 %rd0, [out];\nmul.wide.u32 %rd1, %r0, 4;\nadd.s64 %rd0, %rd0, %rd1;\nst.global.u32 [%rd0], %r1;\nret;\n}\n"
ENGINES = ("interpreter", "compiled")


def operations(body: str) -> list[str]:
    """Control operations of a kernel, in order."""
    lowering = program_from_ptx(HEAD + REGISTERS + body + STORE, "k", 80)
    basic_blocks(lowering.program, lowering.lowered)
    kinds = ("bssy", "bsync", "branch", "exit", "warpsync", "yield")
    return [low.ops[-1].name for low in lowering.lowered if low.ops and low.ops[-1].name in kinds]


def run(body: str, engine: str, threads: int = 32) -> list[int]:
    out = np.zeros(threads, np.uint32)
    gpu = ww.GPU("a100", timing="off", engine=engine, front_end="ptx")
    gpu.compile(HEAD + REGISTERS + body + STORE)["k"][1, threads](out)
    return [int(v) for v in out]


IF = "setp.lt.u32 %p1, %r0, 5;\nmov.u32 %r1, 1;\n@%p1 bra THEN;\nadd.u32 %r1, %r1, 1;\nTHEN:\nactivemask.b32 %r1;\n"
LOOP = "mov.u32 %r2, 0;\nHEAD:\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, %r0;\n@%p1 bra HEAD;\nactivemask.b32 %r1;\n"


def test_a_condition_fills_one_barrier() -> None:
    assert operations(IF) == ["bssy", "branch", "bsync", "exit"]


def test_a_loop_fills_its_barrier_on_the_way_in() -> None:
    assert operations(LOOP) == ["bssy", "branch", "bsync", "exit"]


def test_uniform_branches_need_none() -> None:
    assert operations(IF.replace("bra", "bra.uni")) == ["branch", "exit"]


def test_a_spin_loop_yields_instead() -> None:
    spin = "ld.param.u64 %rd2, [out];\nHEAD:\natom.global.cas.b32 %r2, [%rd2], 0, 0;\nsetp.eq.u32 %p1, %r2, 9;\n@%p1 bra HEAD;\n"
    assert operations(spin) == ["yield", "branch", "exit"]


def test_a_loop_beside_a_spin_loop_does_not_yield() -> None:
    """Both lie in one that goes round; only where a back edge's own loop looks at what others write lanes give way."""
    body = """ld.param.u64 %rd2, [out];
    mov.u32 %r4, 0;
ROUND:
    mov.u32 %r2, 0;
COUNT:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r0;
    @%p1 bra COUNT;
WAIT:
    ld.volatile.global.u32 %r3, [%rd2];
    setp.lt.u32 %p2, %r3, %r4;
    @%p2 bra WAIT;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p3, %r4, 3;
    @%p3 bra ROUND;
"""
    assert operations(body) == ["bssy", "branch", "bsync", "yield", "branch", "yield", "branch", "exit"]


def test_a_way_that_gathers_the_warp_needs_none() -> None:
    shuffle = LOOP.replace("add.u32 %r2, %r2, 1;", "shfl.sync.idx.b32 %r3, %r2, 0, 31, -1; add.u32 %r2, %r2, 1;")
    assert operations(shuffle) == ["warpsync", "branch", "exit"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("body", [IF, LOOP])
def test_lanes_meet_again(body: str, engine: str) -> None:
    assert run(body, engine) == [0xFFFFFFFF] * 32


@pytest.mark.parametrize("engine", ENGINES)
def test_nested_loops_with_breaks(engine: str) -> None:
    """Two loops with one header each, a break out of both and a continue; every lane takes its own way."""
    body = """mov.u32 %r1, 0; mov.u32 %r2, 0;
OUTER:
    mov.u32 %r3, 0;
INNER:
    add.u32 %r1, %r1, 1;
    and.b32 %r4, %r1, 3;
    setp.eq.u32 %p1, %r4, 2;
    @%p1 bra NEXT;
    mad.lo.u32 %r5, %r2, 7, %r3;
    setp.gt.u32 %p2, %r5, %r0;
    @%p2 bra DONE;
    add.u32 %r1, %r1, 2;
NEXT:
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p3, %r3, 5;
    @%p3 bra INNER;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p4, %r2, 6;
    @%p4 bra OUTER;
DONE:
    activemask.b32 %r6;
    popc.b32 %r6, %r6;
    shl.b32 %r6, %r6, 16;
    or.b32 %r1, %r1, %r6;
"""

    def lane(t: int) -> int:
        count = 0
        for outer in range(6):
            for inner in range(5):
                count += 1
                if count & 3 != 2:
                    if outer * 7 + inner > t:
                        return count
                    count += 2
        return count

    assert run(body, engine) == [lane(t) | 32 << 16 for t in range(32)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_switch(engine: str) -> None:
    body = """and.b32 %r2, %r0, 3;
list: .branchtargets A, B, C, D;
brx.idx %r2, list;
A: mov.u32 %r1, 10; bra JOIN;
B: mov.u32 %r1, 11; bra JOIN;
C: mov.u32 %r1, 12; bra JOIN;
D: mov.u32 %r1, 13;
JOIN:
    activemask.b32 %r3; popc.b32 %r3, %r3; mad.lo.u32 %r1, %r3, 100, %r1;
"""
    assert run(body, engine) == [3210 + t % 4 for t in range(32)]


@pytest.mark.parametrize("engine", ENGINES)
def test_recursion_keeps_each_call_apart(engine: str) -> None:
    """A divergent recursion: registers and barriers that live behind a call are saved."""
    source = (
        """.version 8.8
.target sm_80
.address_size 64
.func (.reg .u32 result) fib(.reg .u32 n)
{
    .reg .pred %p; .reg .u32 %a; .reg .u32 %b; .reg .u32 %m;
    mov.u32 result, n;
    setp.lt.u32 %p, n, 2;
    @%p ret;
    sub.u32 %m, n, 1;
    call (%a), fib, (%m);
    sub.u32 %m, n, 2;
    call (%b), fib, (%m);
    add.u32 result, %a, %b;
    ret;
}
.visible .entry k(.param .u64 out)
{
"""
        + REGISTERS
        + "and.b32 %r2, %r0, 7;\ncall (%r1), fib, (%r2);\n"
        + STORE
    )
    out = np.zeros(32, np.uint32)
    gpu = ww.GPU("a100", timing="off", engine=engine, front_end="ptx")
    gpu.compile(source)["k"][1, 32](out)
    assert out.tolist() == [(0, 1, 1, 2, 3, 5, 8, 13)[t % 8] for t in range(32)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_kernel_may_end_with_a_trap(engine: str) -> None:
    gpu = ww.GPU("a100", timing="off", engine=engine, front_end="ptx")
    module = gpu.compile(".version 8.8\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\ntrap;\n}\n")
    with pytest.raises(ww.TrapError, match="trap"):
        module["k"][1, 32]()


def test_the_address_of_a_function_that_nobody_calls() -> None:
    head, _, rest = HEAD.partition(".visible")
    functions = "".join(
        f".func (.reg .b32 %d) {name}(.reg .b32 %a)\n{{\nadd.u32 %d, %a, 1;\nret;\n}}\n" for name in "fg"
    )
    body = "mov.u64 %rd3, f;\nmov.u64 %rd4, g;\nsub.u64 %rd5, %rd4, %rd3;\ncvt.u32.u64 %r1, %rd5;\n"
    found = []
    for engine in ENGINES:
        out = np.zeros(32, np.uint32)
        gpu = ww.GPU("a100", timing="off", engine=engine, front_end="ptx")
        gpu.compile(head + functions + ".visible" + rest + REGISTERS + body + STORE)["k"][1, 32](out)
        found.append(out.tolist())
    assert found[0] == found[1] == [found[0][0]] * 32
    assert found[0][0] > 0
