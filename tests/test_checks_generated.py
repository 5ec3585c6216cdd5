"""Generated kernels without data races (``generated_kernels.py``) have no finding under any of the checks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, note, seed

import warpwright as ww
from tests.generated_kernels import Kernel, kernels
from tests.test_modes import ARCH, GENERATE, settings
from warpwright.isa.program import Kind
from warpwright.tools.checks.events import _loads_of_atomics


@cache
def gpu(chip: str) -> ww.GPU:
    return ww.GPU(chip, check="all")


def no_finding(chip: str, kernel: Kernel) -> None:
    note(kernel.source)
    note(f"{kernel.blocks} blocks of {kernel.threads} threads on {chip}")
    checked = gpu(chip)
    checked.findings.clear()
    kernel.launch(checked.compile(kernel.source))
    assert not checked.findings, "\n".join(map(str, checked.findings))


@settings(GENERATE, max_examples=4, derandomize=True)
@given(kernels(90, steps=6, waits=False))
def test_a_few_generated_kernels_have_no_finding(kernel: Kernel) -> None:
    no_finding("h200", kernel)


PARTS, PART_KERNELS = 5, 50


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("chip", ARCH)
def test_a_thousand_generated_kernels_have_no_finding(chip: str, part: int) -> None:
    """Each part draws the same kernels in every run, so that a part that failed can be run again by itself."""

    @seed(part)
    @settings(GENERATE, max_examples=PART_KERNELS)
    @given(kernels(ARCH[chip]))
    def no_kernel_has_a_finding(kernel: Kernel) -> None:
        no_finding(chip, kernel)

    no_kernel_has_a_finding()


SAME_REGISTER = """
.version 7.8
.target sm_70
.address_size 64
.visible .entry loads(.param .u64 cells)
{
    .reg .b32 %r<9>;
    .reg .b64 %d<4>;
    .reg .pred %p;
    ld.param.u64 %d1, [cells];
    ld.global.u32 %r1, [%d1];
again:
    mov.u32 %r2, %r1;
    add.u32 %r3, %r2, 1;
    atom.global.cas.b32 %r1, [%d1], %r2, %r3;
    setp.ne.u32 %p, %r1, %r2;
    @%p bra again;
    ret;
}
"""


def test_a_load_is_part_of_an_atomic_only_while_its_register_holds_the_address() -> None:
    """As of a flag that is read through the register in which a lock's address is later."""
    gpu = ww.GPU("v100", timing="off")
    module = gpu.compile(SAME_REGISTER)
    program = module._loaded.load(module._loaded.find("loads")).program  # type: ignore[union-attr, arg-type]
    code = list(program.instructions)
    at = next(n for n, x in enumerate(code) if x.opcode.startswith("ATOM"))
    load = next(n for n, x in enumerate(code) if x.opcode.startswith("LD") and n < at)
    address = next(o for o in code[at].operands if o.kind is Kind.MEMORY).base
    assert address is not None
    assert _loads_of_atomics(program) == {load}
    writes = next(x for x in code if x.opcode in ("MOV", "UMOV", "IMAD"))
    target = replace(writes.operands[0], kind=Kind.REGISTER, index=address.index)
    changed = replace(writes, operands=(target, *writes.operands[1:]), guard=None)
    assert _loads_of_atomics(replace(program, instructions=[*code[: load + 1], changed, *code[load + 1 :]])) == set()
