"""Fused 64-bit pairs do what the two instructions did, and are refused where something stands in the way."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.test_meaning import LANES, high, lanes, low, new_warp, program_of, property_of, wides
from warpwright.engine.interpreter import Kernel, WarpState
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Program
from warpwright.isa.sass.lower import fuse_pairs, lower

PAIRS = {
    "add": ["IADD3 R8, P0, R2, R4, RZ", "IADD3.X R9, R3, R5, RZ, P0, !PT"],
    "add to itself": ["IADD3 R2, P0, R2, R4, RZ", "IADD3.X R3, R3, R5, RZ, P0, !PT"],
    "add, addends crossed": ["IADD3 R8, P0, R2, R4, RZ", "IADD3.X R9, R5, R3, RZ, P0, !PT"],
    "add with IMAD.X": ["IADD3 R8, P0, R2, R4, RZ", "IMAD.X R9, R3, 0x1, R5, P0"],
    "increment": ["IADD3 R8, P0, R2, 0x10, RZ", "IMAD.X R9, RZ, RZ, R3, P0"],
    "decrement": ["IADD3 R8, P0, R2, -0x10, RZ", "IADD3.X R9, R3, -0x1, RZ, P0, !PT"],
    "subtract": ["IADD3 R8, P0, R2, -R4, RZ", "IADD3.X R9, R3, ~R5, RZ, P0, !PT"],
    "negate": ["IADD3 R8, P0, RZ, -R4, RZ", "IADD3.X R9, RZ, ~R5, RZ, P0, !PT"],
    "unpaired destination": ["IADD3 R8, P0, R2, R4, RZ", "IADD3.X R1, R3, R5, RZ, P0, !PT"],
    "scaled": ["LEA R8, P0, R2, R4, 0x3", "LEA.HI.X R9, R2, R5, R3, 0x3, P0"],
    "scaled index": ["LEA R8, P0, R2, R4, 0x2", "LEA.HI.X.SX32 R9, R2, R5, 0x2, P0"],
    "index": ["IADD3 R8, P0, R2, R4, RZ", "LEA.HI.X.SX32 R9, R2, R5, 0x1, P0"],
    "left shift": ["SHF.L.U32 R8, R2, 0x5, RZ", "SHF.L.U64.HI R9, R2, 0x5, R3"],
    "left shift, upper first": ["SHF.L.U64.HI R9, R2, 0x5, R3", "IMAD.SHL.U32 R8, R2, 0x20, RZ"],
    "right shift": ["SHF.R.U64 R8, R2, 0x7, R3", "SHF.R.U32.HI R9, RZ, 0x7, R3"],
    "arithmetic right shift": ["SHF.R.U64 R8, R2, 0x7, R3", "SHF.R.S32.HI R9, RZ, 0x7, R3"],
    "less": ["ISETP.LT.U32.AND P0, PT, R2, R4, PT", "ISETP.LT.AND.EX P0, P1, R3, R5, PT, P0"],
    "not equal": ["ISETP.NE.U32.AND P0, PT, R2, R4, PT", "ISETP.NE.AND.EX P1, PT, R3, R5, PT, P0"],
    "extended, then added": [
        "SHF.R.S32.HI R7, RZ, 0x1f, R2",
        "IADD3 R8, P0, R2, R4, RZ",
        "IADD3.X R9, R7, R5, RZ, P0, !PT",
    ],
    "guarded": ["@P3 IADD3 R8, P0, R2, R4, RZ", "@P3 IADD3.X R9, R3, R5, RZ, P0, !PT"],
    "apart": ["IADD3 R8, P0, R2, R4, RZ", "MOV R1, R3", "IADD3.X R9, R3, R5, RZ, P0, !PT"],
    "lower result used between": ["IADD3 R8, P0, R2, R4, RZ", "MOV R1, R8", "IADD3.X R9, R3, R5, RZ, P0, !PT"],
    "lower source written between": ["IADD3 R8, P0, R2, R4, RZ", "MOV R2, R1", "IADD3.X R9, R3, R5, RZ, P0, !PT"],
}
REFUSED = {
    "carry overwritten": [
        "IADD3 R8, P0, R2, R4, RZ",
        "ISETP.GT.AND P0, PT, R1, R2, PT",
        "IADD3.X R9, R3, R5, RZ, P0, !PT",
    ],
    "both sides in the way": [
        "IADD3 R8, P0, R2, R4, RZ",
        "MOV R1, R8",
        "MOV R3, R8",
        "IADD3.X R9, R3, R5, RZ, P0, !PT",
    ],
    "upper half reads the lower result": ["IADD3 R8, P0, R2, R4, RZ", "IADD3.X R9, R8, R5, RZ, P0, !PT"],
    "other guard": ["@P3 IADD3 R8, P0, R2, R4, RZ", "IADD3.X R9, R3, R5, RZ, P0, !PT"],
    "three addends": ["IADD3 R8, P0, R2, R4, R6", "IADD3.X R9, R3, R5, R7, P0, !PT"],
    "another amount": ["SHF.L.U32 R8, R2, 0x5, RZ", "SHF.L.U64.HI R9, R2, 0x6, R3"],
    "another relation": ["ISETP.LE.U32.AND P0, PT, R2, R4, PT", "ISETP.LT.AND.EX P0, PT, R3, R5, PT, P0"],
}


def run(program: Program, lowered: list[Lowered], start: WarpState) -> WarpState:
    kernel = Kernel(program, lowered)
    warp = new_warp(kernel)
    warp.regs[:], warp.preds[:] = start.regs, start.preds
    with np.errstate(all="ignore"):
        for index in range(len(kernel.code) - 1):
            code = kernel.code_at(index)
            mask = np.ones(LANES, np.bool_) if code.guard is None else warp.preds[code.guard[1]].copy()
            if code.run is not None and mask.any():
                code.run(warp, mask, code.values)
    return warp


def compare(lines: list[str], a: list[int], b: list[int], other: list[int]) -> None:
    program = program_of(lines)
    lowered = lower(program)
    start = new_warp(Kernel(program, lowered))
    for number, values in ((1, other), (2, low(a)), (3, high(a)), (4, low(b)), (5, high(b)), (6, other), (7, other)):
        start.regs[number] = values
    start.preds[3] = np.arange(LANES) % 3 == 0
    plain, fused = run(program, lowered, start), run(program, fuse_pairs(lowered, program), start)
    np.testing.assert_array_equal(plain.regs, fused.regs)
    np.testing.assert_array_equal(plain.preds, fused.preds)


@pytest.mark.parametrize("name", PAIRS)
def test_pair_is_found(name: str) -> None:
    program = program_of(PAIRS[name])
    lowered = lower(program)
    fused = fuse_pairs(lowered, program)
    assert any(op.type == "i64" and op.name != "const" for one in fused for op in one.ops)
    if "ISETP" not in PAIRS[name][0]:
        assert sum(not one.ops for one in fused) == 1


@pytest.mark.parametrize("name", REFUSED)
def test_pair_is_refused(name: str) -> None:
    program = program_of(REFUSED[name])
    lowered = lower(program)
    assert fuse_pairs(lowered, program) == lowered


@pytest.mark.ci
@pytest.mark.parametrize("name", [*PAIRS, *REFUSED])
@property_of(a=wides, b=wides, other=lanes)
def test_fused_is_unfused(name: str, a: list[int], b: list[int], other: list[int]) -> None:
    compare({**PAIRS, **REFUSED}[name], a, b, other)


register = st.integers(1, 9).map(lambda n: f"R{n}")
fillers = st.one_of(
    st.builds("MOV {}, {}".format, register, register),
    st.builds("IADD3 {}, P0, {}, {}, RZ".format, register, register, register),
    st.builds("ISETP.GT.AND P0, PT, {}, {}, PT".format, register, register),
    st.builds("IADD3.X {}, {}, {}, RZ, P0, !PT".format, register, register, register),
    st.builds("LEA {}, P0, {}, {}, 0x2".format, register, register, register),
    st.builds("LEA.HI.X {}, {}, {}, {}, 0x2, P0".format, register, register, register, register),
    st.builds("SHF.L.U32 {}, {}, 0x3, RZ".format, register, register),
    st.builds("SHF.R.S32.HI {}, RZ, 0x1f, {}".format, register, register),
    st.builds("SHF.L.U64.HI {}, {}, 0x3, {}".format, register, register, register),
    st.builds("ISETP.LT.U32.AND P0, PT, {}, {}, PT".format, register, register),
    st.builds("ISETP.LT.AND.EX P0, PT, {}, {}, PT, P0".format, register, register),
)


@property_of(st.lists(fillers, min_size=2, max_size=12), wides, wides, lanes)
def test_any_straight_code_keeps_its_results(lines: list[str], a: list[int], b: list[int], other: list[int]) -> None:
    compare(lines, a, b, other)


@pytest.mark.ci
@pytest.mark.parametrize(
    "between", [[], ["MOV R2, R1"], ["MOV R7, R1"], ["@P3 MOV R2, R1"], ["IADD3 R2, P1, R2, R1, RZ"]]
)
@property_of(a=wides, b=wides, other=lanes)
def test_a_sign_counts_until_it_or_its_source_is_written(
    between: list[str], a: list[int], b: list[int], other: list[int]
) -> None:
    lines = ["SHF.R.S32.HI R7, RZ, 0x1f, R2", *between, "IADD3 R8, P0, R2, R4, RZ", "IADD3.X R9, R7, R5, RZ, P0, !PT"]
    compare(lines, a, b, other)
    lowered = lower(program_of(lines))
    extended = any(op.name == "sext" for one in fuse_pairs(lowered, program_of(lines)) for op in one.ops)
    assert extended == (not between)


def test_a_branch_target_between_separates() -> None:
    lines = ["IADD3 R8, P0, R2, R4, RZ", "MOV R1, R3", "IADD3.X R9, R3, R5, RZ, P0, !PT", "@P3 BRA 0x10"]
    program = program_of(lines)
    lowered = lower(program)
    assert fuse_pairs(lowered, program) == lowered
