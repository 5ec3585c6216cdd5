"""Tensor-core instructions: HMMA, IMMA, DMMA as the ``mma`` operation."""

from __future__ import annotations

from warpwright.isa.program import RZ, Instruction, Operand
from warpwright.isa.sass.meaning import Emitter, meaning, only, raw32, set32, unsupported

SHAPES = {"1688": ("m16n8k8", 2, 1), "16816": ("m16n8k16", 4, 2), "1684": ("m16n8k4", 2, 1)}
"""Printed shape: PTX shape, registers of A and of B for 16-bit elements."""


def registers(b: Emitter, o: Operand, count: int) -> list[int]:
    if o.index == RZ:
        return [b.const(0)] * count
    return [raw32(b, o, n) for n in range(count)]


@meaning("HMMA")
def HMMA(i: Instruction, b: Emitter) -> None:
    only(i, *SHAPES, "F16", "F32", "BF16", "TF32")
    shape_name = next((m for m in i.modifiers if m in SHAPES), None)
    if shape_name is None:
        raise unsupported("this HMMA shape")
    shape, n_a, n_b = SHAPES[shape_name]
    accumulator = "f16" if i.modifiers[1] == "F16" else "f32"
    element = "bf16" if "BF16" in i.modifiers else "tf32" if "TF32" in i.modifiers else "f16"
    if element == "tf32" and shape_name == "1688":
        n_a, n_b = 4, 2
    n_c = 2 if accumulator == "f16" else 4
    d, x, y, z = i.operands[:4]
    args = registers(b, x, n_a) + registers(b, y, n_b) + registers(b, z, n_c)
    result = b.op("mma", "i32x4", *args, attr=(shape, element, accumulator, n_a, n_b, n_c))
    for n in range(n_c):
        set32(b, Operand(d.kind, d.index + n), b.op("extract", "i32", result, attr=n))
