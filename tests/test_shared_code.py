"""Functions whose address is taken: one kernel stores it, another calls it; and calls of services through registers."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.blocks import indirect_targets
from warpwright.isa.sass.lower import lower

VIRTUAL = r"""
struct Shape { virtual __device__ int area(int x) const = 0; virtual __device__ ~Shape() {} };
struct Square : Shape { int side; __device__ Square(int s) : side(s) {} __device__ int area(int x) const { return side * side + x; } };
struct Line : Shape { int length; __device__ Line(int n) : length(n) {} __device__ int area(int x) const { return -length * x; } };
extern "C" __global__ void make(Shape **shapes, int n) {
    int i = threadIdx.x;
    if (i < n) shapes[i] = i % 3 ? (Shape *)new Square(i) : (Shape *)new Line(i);
}
extern "C" __global__ void use(Shape **shapes, int *result, int n) {
    int i = threadIdx.x;
    if (i < n) result[i] = shapes[n - 1 - i]->area(i);
}
extern "C" __global__ void end(Shape **shapes, int n) {
    if (threadIdx.x < n) delete shapes[threadIdx.x];
}
"""


@pytest.mark.parametrize("chip", [*(pytest.param(chip, marks=pytest.mark.ci) for chip in ("v100", "a100")), "h200"])
def test_objects_of_one_kernel_are_used_by_another(chip: str) -> None:
    gpu = ww.GPU(chip, timing="off")
    module = gpu.compile(VIRTUAL)
    n = 37
    shapes = gpu.array(np.zeros(n, np.uint64))
    result = np.zeros(n, np.int32)
    module["make"][1, 64](shapes, n)
    module["use"][1, 64](shapes, result, n)
    module["end"][1, 64](shapes, n)
    i = np.arange(n)
    owner = n - 1 - i
    assert np.array_equal(result, np.where(owner % 3 != 0, owner * owner + i, -owner * i))


def test_a_call_through_a_register_reaches_functions_whose_address_is_taken_and_they_return_behind_it() -> None:
    module = ww.GPU("a100", timing="off").compile(VIRTUAL)
    program = module._loaded.load(module._loaded.find("use")).program
    targets = indirect_targets(program, lower(program))
    index_of = {i.address: n for n, i in enumerate(program.instructions)}
    calls = [n for n, i in enumerate(program.instructions) if i.opcode == "CALL" and n in targets]
    assert calls
    functions = {index_of[a] for a in program.functions}
    virtual = [call for call in calls if program.instructions[call].modifiers[-2:-1] != ("SERVICE",)]
    for call in virtual:
        assert set(targets[call]) <= functions
        assert len(targets[call]) == 8
    for call in set(calls) - set(virtual):
        assert targets[call] == (call + 1,)
    returns = {t for n, found in targets.items() if program.instructions[n].opcode == "RET" for t in found}
    assert returns <= {n + 1 for n, i in enumerate(program.instructions) if i.opcode == "CALL"}
