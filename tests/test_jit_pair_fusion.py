"""Sums of 64 bits put together from halves: registers end up as the halves would have left them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww
from warpwright.engine.blocks import BasicBlock, basic_blocks
from warpwright.engine.jit.flow import make_flow
from warpwright.engine.jit.live_ranges import find_webs
from warpwright.engine.jit.pair_fusion import widen
from warpwright.engine.jit.shape_inference import Setting, analyse
from warpwright.engine.jit.shapes import SCALAR_KIND
from warpwright.isa.ops import Builder, Lowered
from warpwright.isa.sass.lower import lower

WORD = (1 << 32) - 1
REGISTERS = 6


# --- what operations mean, for one lane -----------------------------------------------------------
class Lane:
    def __init__(self, words: Sequence[int], predicates: Sequence[int], uniform: Sequence[int]) -> None:
        self.words, self.predicates, self.uniform = list(words), list(predicates), list(uniform)

    def run(self, program: Sequence[Lowered]) -> None:
        for low in program:
            if low.guard is not None and bool(self.predicates[low.guard[1]]) == low.guard[2]:
                continue
            values: list[int] = []
            for op in low.ops:
                values.append(self.value(op, [values[a] for a in op.args], [low.ops[a].type for a in op.args]))

    def value(self, op: Any, args: list[int], types: list[str]) -> int:
        mask = {"i1": 1, "i32": WORD, "i64": (1 << 64) - 1}.get(op.type, 0)
        signed = [a - (1 << 32) if a >> 31 and t == "i32" else a for a, t in zip(args, types, strict=True)]
        pure: dict[str, Callable[[], int]] = {
            "const": lambda: op.attr,
            "add": lambda: args[0] + args[1],
            "mul": lambda: args[0] * args[1],
            "or": lambda: args[0] | args[1],
            "shl": lambda: args[0] << args[1],
            "lshr": lambda: args[0] >> args[1],
            "ashr": lambda: signed[0] >> args[1],
            "icmp": lambda: int(args[0] < args[1]),
            "zext": lambda: args[0],
            "sext": lambda: signed[0],
            "pack64": lambda: args[0] | args[1] << 32,
            "load_const": lambda: (
                (0x0123456789ABCDEF * (args[0] + 1)) if op.type == "i32" else self._wide_const(args[0])
            ),
            "get_reg": lambda: self.words[op.attr],
            "get_reg64": lambda: self.words[op.attr] | self.words[op.attr + 1] << 32,
            "get_ureg": lambda: self.uniform[op.attr],
            "get_pred": lambda: self.predicates[op.attr],
        }
        if op.name in pure:
            return pure[op.name]() & mask
        if op.name == "set_reg":
            self.words[op.attr] = args[0]
        elif op.name == "set_reg64":
            self.words[op.attr : op.attr + 2] = [args[0] & WORD, args[0] >> 32]
        elif op.name == "set_ureg":
            self.uniform[op.attr] = args[0]
        else:
            assert op.name == "set_pred"
            self.predicates[op.attr] = args[0]
        return 0

    @staticmethod
    def _wide_const(offset: int) -> int:
        return (0x0123456789ABCDEF * (offset + 1) & WORD) | (0x0123456789ABCDEF * (offset + 5) & WORD) << 32


# --- instructions as the front ends write them ----------------------------------------------------
@st.composite
def instruction(draw: st.DrawFn) -> Lowered:
    """One instruction of those that make addresses, with few registers so that they often meet."""
    b = Builder()
    register = st.integers(0, REGISTERS - 1)
    target, predicate = draw(register), draw(st.integers(0, 1))

    def word() -> int:
        kind = draw(st.sampled_from(["reg", "reg", "reg", "const", "bank", "ureg"]))
        if kind == "reg":
            return b.op("get_reg", "i32", attr=draw(register))
        if kind == "ureg":
            return b.op("get_ureg", "i32", attr=draw(st.integers(0, 1)))
        if kind == "const":
            return b.op("const", "i32", attr=draw(st.sampled_from([0, 0, 1, 4, WORD, 0x80000000])))
        return b.op("load_const", "i32", b.op("const", "i32", attr=draw(st.sampled_from([8, 12, 16]))), attr=(0, 4))

    name = draw(st.sampled_from(["low", "low", "high", "high", "lea", "lea_high", "mov", "sign", "ureg", "use"]))
    if name in ("low", "lea"):
        first = word()
        if name == "lea":
            first = b.op("shl", "i32", first, b.op("const", "i32", attr=2))
        total = b.op("add", "i32", first, word())
        b.op("set_pred", "void", b.op("icmp", "i1", total, first, attr="ult"), attr=predicate)
        b.op("set_reg", "void", total, attr=target)
    elif name in ("high", "lea_high"):
        if name == "high":
            first = word()
        else:
            spilt = b.op("lshr", "i32", word(), b.op("const", "i32", attr=30))
            first = b.op("or", "i32", spilt, b.op("shl", "i32", word(), b.op("const", "i32", attr=2)))
        total = b.op("add", "i32", first, word()) if draw(st.booleans()) else first
        carry = b.op("zext", "i32", b.op("get_pred", "i1", attr=predicate))
        b.op("set_reg", "void", b.op("add", "i32", total, carry), attr=target)
    elif name == "mov":
        b.op("set_reg", "void", word(), attr=target)
    elif name == "sign":
        value = b.op("get_reg", "i32", attr=draw(register))
        b.op("set_reg", "void", b.op("ashr", "i32", value, b.op("const", "i32", attr=31)), attr=target)
    elif name == "ureg":
        b.op("set_ureg", "void", b.op("const", "i32", attr=draw(st.integers(0, WORD))), attr=draw(st.integers(0, 1)))
    else:
        pair = b.op("get_reg64", "i64", attr=target & ~1)
        b.op("set_reg64", "void", b.op("add", "i64", pair, b.op("const", "i64", attr=4)), attr=draw(register) & ~1)
    guard = draw(st.sampled_from([None, None, None, ("pred", 0, False), ("pred", 0, True)]))
    return Lowered(b.ops, guard)


def pair_of(low: int, target: int, source: int, step: int, between: list[Lowered]) -> list[Lowered]:
    """A pointer moved on by a constant, with other instructions between the halves."""
    first, second = Builder(), Builder()
    old = first.op("get_reg", "i32", attr=source)
    total = first.op("add", "i32", old, first.op("const", "i32", attr=step & WORD))
    first.op("set_pred", "void", first.op("icmp", "i1", total, old, attr="ult"), attr=low)
    first.op("set_reg", "void", total, attr=target)
    upper = second.op("get_reg", "i32", attr=source + 1)
    if step < 0:
        upper = second.op("add", "i32", upper, second.op("const", "i32", attr=WORD))
    carry = second.op("zext", "i32", second.op("get_pred", "i1", attr=low))
    second.op("set_reg", "void", second.op("add", "i32", upper, carry), attr=target + 1)
    return [Lowered(first.ops), *between, Lowered(second.ops)]


def same(program: list[Lowered], words: list[int]) -> list[Lowered]:
    """Run both forms from one state; returns the new one."""
    wide = widen([BasicBlock(0, 0, len(program), (), ())], program)
    lanes = []
    for form in (program, wide):
        lane = Lane(words, [0, 1], [7, WORD])
        lane.run(form)
        lanes.append(lane)
    assert lanes[0].words == lanes[1].words
    return wide


@pytest.mark.ci
@settings(max_examples=400, deadline=None)
@given(
    program=st.lists(instruction(), min_size=2, max_size=12),
    words=st.lists(st.one_of(st.integers(0, WORD), st.sampled_from([WORD, 0, WORD - 3])), min_size=6, max_size=6),
)
def test_any_instructions_leave_the_same_registers(program: list[Lowered], words: list[int]) -> None:
    same(program, words)


@pytest.mark.ci
@settings(max_examples=300, deadline=None)
@given(
    between=st.lists(instruction(), max_size=3),
    before=st.lists(instruction(), max_size=2),
    target=st.sampled_from([0, 2, 4]),
    source=st.sampled_from([0, 2, 4]),
    step=st.sampled_from([4, 0x100, -16]),
    words=st.lists(st.one_of(st.integers(0, WORD), st.sampled_from([WORD, 0, WORD - 3])), min_size=6, max_size=6),
)
def test_a_moving_pointer(
    between: list[Lowered], before: list[Lowered], target: int, source: int, step: int, words: list[int]
) -> None:
    program = [*before, *pair_of(1, target, source, step, between)]
    wide = same(program, words)
    if not between:
        assert [op.name for op in wide[-1].ops][-1] == "set_reg64"
        assert all(op.name != "set_reg" for low in wide[len(before) :] for op in low.ops)


SOURCE = """
extern "C" __global__ void walk(int n, int step, const float *x, float *y) {
    const float *p = x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k++) { sum += *p; p += 32; }
    if (step) y += step;
    y[threadIdx.x] = sum;
}
"""


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_a_pointer_that_moves_in_a_loop_keeps_its_pattern(chip: str) -> None:
    gpu = ww.GPU(chip, timing="off")
    kernel = gpu.compile(SOURCE)["walk"]
    program = kernel._loaded.program
    lowered = lower(program)
    blocks = basic_blocks(program, lowered)
    wide = widen(blocks, lowered)
    webs = find_webs(blocks, wide)
    flow = make_flow(program, blocks, wide, webs)
    values = analyse(blocks, wide, webs, flow, Setting(block_shape=(32, 1, 1))).values
    shapes = [
        values[index][op.args[0]] for index, low in enumerate(wide) for op in low.ops if op.name in ("load", "store")
    ]
    assert len(shapes) > 2
    assert all(shape.kind == SCALAR_KIND for shape in shapes)
    x = np.arange(32 * 40, dtype=np.float32)
    y = np.zeros(40, dtype=np.float32)
    kernel[1, 32](40, 8, x, y)
    assert np.array_equal(y[8:], x.reshape(40, 32).sum(axis=0))
    with pytest.raises(ww.WarpwrightError, match="thread"):
        kernel[1, 32](41, 0, x, y)
