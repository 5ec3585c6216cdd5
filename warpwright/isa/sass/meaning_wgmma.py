"""Warpgroup instructions as the operation ``wgmma``: each of the four warps computes its 16 rows when it executes it.

The machine computes them asynchronously: a program must not read the sums or change the operands before
``WARPGROUP.DEPBAR`` (PTX ISA, "wgmma.wait_group"); otherwise the result is undefined.  Here they complete at once, and
the ordering instructions have no effect.
"""

from __future__ import annotations

from warpwright.isa.matrix_products import saturated_sum
from warpwright.isa.ops import GroupProduct
from warpwright.isa.program import RZ, Instruction, Kind, Operand
from warpwright.isa.sass.meaning import Emitter, is_predicate, is_true, meaning, only, predicate, raw32
from warpwright.isa.sass.meaning_tensor import registers, write
from warpwright.isa.sass.tables_wgmma import GROUP_DESCRIPTOR

INPUTS = ("BF16", "TF32", "E4M3", "E5M2", "S8", "U8")


@meaning("HGMMA", "IGMMA", "BGMMA", "QGMMA")
def group_product(i: Instruction, b: Emitter) -> None:
    shape = next(m for m in i.modifiers if m.startswith("64x"))
    only(i, shape, "SP", "F16", "F32", "SAT", "AND", "POPC", *INPUTS)
    columns = int(shape.split("x")[1])
    sources = [o for o in i.operands if o.kind in (Kind.REGISTER, Kind.UNIFORM_REGISTER, Kind.IMMEDIATE)]
    d, *rest = sources
    if d.index == RZ:
        # The compiler leaves such an instruction where the product is not used.
        return
    shared_a = rest[0].name == GROUP_DESCRIPTOR
    named = rest[0] if shared_a else rest[1]
    negated = ("negA" in named.suffix or rest[0].negate, "negB" in named.suffix)
    transposed = ("tnspA" in named.suffix, "tnspB" in named.suffix)
    c, *metadata = rest[1:] if shared_a else rest[2:]

    inputs = [m.lower() for m in i.modifiers if m in INPUTS] or [{"HGMMA": "f16", "BGMMA": "b1"}.get(i.opcode, "")]
    element = inputs[0] if inputs[0] == inputs[-1] else "".join(inputs)
    accumulator = next((m.lower() for m in i.modifiers if m in ("F16", "F32")), "s32")
    selector = -1
    if metadata:
        selector = metadata[1].value if len(metadata) > 1 else 0
    how = GroupProduct(columns, element, accumulator, b.arch, shared_a, transposed, negated, selector)

    count = columns // 8 * how.tile[5]
    addends = registers(b, c, count)
    for condition in (o for o in i.operands if is_predicate(o) and not is_true(o)):
        kept = predicate(b, condition)
        addends = [b.select(kept, word, b.const(0)) for word in addends]
    start = [b.const(0)] * count if "SAT" in i.modifiers else addends
    plain = Operand(named.kind, named.index)
    args = [b.and_(b.op("special", "i32", attr="warpid"), b.const(3))]
    if not shared_a:
        args += registers(b, Operand(rest[0].kind, rest[0].index), 4)
    # Two register pairs: the descriptors of A and B; the first is unused if A comes from registers.
    args += [raw32(b, plain, n) for n in ((0, 1, 2, 3) if shared_a else (2, 3))]
    args += [raw32(b, metadata[0])] if metadata else []
    result = b.op("wgmma", "words", *args, *start, attr=how)
    total = [b.op("extract", "i32", result, attr=n) for n in range(count)]
    if "SAT" in i.modifiers:
        total = [saturated_sum(b, word, addend) for word, addend in zip(total, addends, strict=True)]
    write(b, d, total)


@meaning("WARPGROUP")
def WARPGROUP(i: Instruction, b: Emitter) -> None:
    only(i, "ARRIVE", "DEPBAR", "LE")
