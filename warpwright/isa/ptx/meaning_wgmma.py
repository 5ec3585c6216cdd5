"""Warpgroup products (PTX ISA, "Asynchronous warpgroup level matrix instructions"): wgmma.

Each warp computes its 16 rows when it executes the instruction, as in the machine code's front end, so the ordering
instructions (fence, commit_group, wait_group) have no effect.
"""

from __future__ import annotations

from warpwright.isa.matrix_products import saturated_sum
from warpwright.isa.ops import GroupProduct, Value
from warpwright.isa.ptx.meaning import Emitter, meaning, only
from warpwright.isa.ptx.meaning_tensor import NARROW, element_types, extents, number, registers, shape_of, write
from warpwright.isa.ptx.meaning_warp import gather
from warpwright.isa.ptx.syntax import Instruction, Vector


@meaning("wgmma")
def wgmma(i: Instruction, b: Emitter) -> None:
    if "mma_async" not in i.modifiers:
        only(i, "fence", "commit_group", "wait_group", "sync", "aligned")
        return
    shape = shape_of(i)
    only(i, "mma_async", "sp", "sync", "aligned", "satfinite", "and", "popc", shape, *NARROW)
    to, first, second = element_types(i)
    gather(b, None)
    sparse = "sp" in i.modifiers
    d, x, y, *rest = i.operands
    shared_a = not isinstance(x, Vector)
    selector = number(rest.pop(1)) if sparse else -1
    metadata = [b.source(rest.pop(0), "b32")] if sparse else []
    keeps = b.source(rest.pop(0), "pred")
    numbers = [number(o) for o in rest]
    signs, trans = numbers[:2], numbers[2:]
    if not shared_a and trans:
        trans = [0, *trans]
    element = first if first == second else first + second
    how = GroupProduct(
        extents(shape)[1],
        element,
        to,
        b.arch,
        shared_a,
        (bool(trans and trans[0]), bool(trans and trans[1])),
        (bool(signs and signs[0] < 0), bool(signs and signs[1] < 0)),
        selector,
    )
    addends = [b.select(keeps, word, b.const(0)) for word in registers(b, d)]
    saturates = "satfinite" in i.modifiers
    args: list[Value] = [b.and_(b.op("special", "i32", attr="warpid"), b.const(3))]
    args += b.high_low(b.source(x, "b64")) if shared_a else registers(b, x)
    args += b.high_low(b.source(y, "b64"))
    start = [b.const(0)] * len(addends) if saturates else addends
    result = b.op("wgmma", "words", *args, *metadata, *start, attr=how)
    total = [b.op("extract", "i32", result, attr=n) for n in range(len(addends))]
    if saturates:
        total = [saturated_sum(b, word, addend) for word, addend in zip(total, addends, strict=True)]
    write(b, d, total)
