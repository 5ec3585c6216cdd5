"""Tensor-core instructions as the ``mma`` operation, and the transposition that goes with them.

``HMMA.16816`` and related instructions are PTX's ``mma.sync`` of the same shape, fragment by fragment.  Volta's
``HMMA.884`` computes one part of PTX's ``mma.m8n8k4`` at a time, by eight lanes each (lanes 4q..4q+3 and 16+4q..): with
an f32 accumulator STEP s gives the PTX results 2s and 2s+1 of every lane (rows + 2 (s & 1), columns + 4 (s >> 1)), with
an f16 accumulator STEP s gives the four columns from 4s.  An f16 addend of an f32 result is rearranged first, because
each of its lanes holds a row.  The operands' ``.ROW`` and ``.COL`` are PTX's layouts. The operation's shape attribute
encodes all of this: ``m8n8k4.row.col.2``.
"""

from __future__ import annotations

from warpwright.isa import matrix_products
from warpwright.isa.matrix_products import fragment_registers, transposed
from warpwright.isa.ops import Value
from warpwright.isa.program import RZ, Instruction, Operand
from warpwright.isa.quad_products import half_addend
from warpwright.isa.sass.meaning import Emitter, is_predicate, meaning, only, raw32, set32, unsupported

SHAPES = {
    **{"1688": "m16n8k8", "16816": "m16n8k16", "1684": "m16n8k4", "16832": "m16n8k32", "8816": "m8n8k16"},
    "16864": "m16n8k64",
}
STEPS = ("STEP0", "STEP1", "STEP2", "STEP3")
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8}


def registers(b: Emitter, o: Operand, count: int) -> list[Value]:
    if o.index == RZ:
        return [b.const(0)] * count
    return [raw32(b, o, n) for n in range(count)]


def metadata(b: Emitter, i: Instruction) -> tuple[str, list[Value]]:
    """The suffix that a sparse instruction adds to its shape, and the register with its metadata."""
    if "SP" not in i.modifiers:
        return "", []
    register, selector = [o for o in i.operands if not is_predicate(o)][4:6]
    return f".sp{selector.value}", [raw32(b, register)]


def emit(b: Emitter, i: Instruction, shape: str, elements: tuple[str, str], accumulator: str, n_c: int) -> None:
    """Emit the operation and the writes of its results."""
    d, x, y, z = [o for o in i.operands if not is_predicate(o)][:4]
    element = elements[0] if elements[0] == elements[1] else "".join(elements)
    sparse, chosen = metadata(b, i)
    shape += sparse
    n_a, n_b = (2, 2) if shape.startswith("m8n8k4.") else fragment_registers(shape, BITS[elements[0]])
    args = registers(b, x, n_a) + registers(b, y, n_b) + registers(b, z, n_c) + chosen
    result = b.op("mma", "i32x4", *args, attr=(shape, element, accumulator, n_a, n_b, n_c, b.arch))
    write(b, d, [b.op("extract", "i32", result, attr=n) for n in range(n_c)])


@meaning("HMMA")
def HMMA(i: Instruction, b: Emitter) -> None:
    only(i, *SHAPES, "884", "SP", *STEPS, "F16", "F32", "BF16", "TF32")
    kinds = [m for m in i.modifiers if m in ("F16", "F32")]
    accumulator = kinds[0].lower()
    element = "bf16" if "BF16" in i.modifiers else "tf32" if "TF32" in i.modifiers else "f16"
    if "884" in i.modifiers:
        layouts = [next((s.lower() for s in ("ROW", "COL") if f".{s}" in o.suffix), "row") for o in i.operands[1:3]]
        step = next(m[4:] for m in i.modifiers if m in STEPS)
        part = f"m8n8k4.{layouts[0]}.{layouts[1]}.{step}"
        if kinds == ["F32", "F16"]:
            mixed(b, i, part, int(step))
        else:
            emit(b, i, part, (element, element), accumulator, 2)
        return
    shape = next((SHAPES[m] for m in i.modifiers if m in SHAPES), None)
    if shape is None:
        raise unsupported("this HMMA shape")
    emit(b, i, shape, (element, element), accumulator, 2 if accumulator == "f16" else 4)


@meaning("QMMA")
def QMMA(i: Instruction, b: Emitter) -> None:
    """Products of 8-bit floats on sm_89: the modifiers name shape, accumulator, element of A, element of B."""
    only(i, *SHAPES, "SP", "F16", "F32", "E4M3", "E5M2")
    first, second = (m.lower() for m in i.modifiers if m in ("E4M3", "E5M2"))
    shape = next(SHAPES[m] for m in i.modifiers if m in SHAPES)
    half = "F16" in i.modifiers
    emit(b, i, shape, (first, second), "f16" if half else "f32", 2 if half else 4)


def mixed(b: Emitter, i: Instruction, shape: str, step: int) -> None:
    """HMMA.884.F32.F16: an f32 result with an f16 addend, whose registers hold the half of the columns to which the
    step belongs."""
    d, x, y, z = [o for o in i.operands if not is_predicate(o)][:4]
    words = registers(b, z, 2)
    addend = [b.bitcast(half_addend(b, words, 2 * step + n), "i32") for n in range(2)]
    write(
        b,
        d,
        matrix_products.product(b, b.arch, (shape, "f16", "f32"), registers(b, x, 2), registers(b, y, 2), addend, []),
    )


NIBBLE_SHAPES = {"8832": "m8n8k32", "16832": "m16n8k32", "16864": "m16n8k64", "168128": "m16n8k128"}
BIT_SHAPES = {"88128": "m8n8k128", "168128": "m16n8k128", "168256": "m16n8k256"}


def operands(
    i: Instruction, b: Emitter, shape: str, bits: int, n_c: int
) -> tuple[Operand, list[Value], list[Value], list[Value]]:
    """D, and the words of A, B and C."""
    d, x, y, z = [o for o in i.operands if not is_predicate(o)][:4]
    n_a, n_b = fragment_registers(shape, bits)
    return d, registers(b, x, n_a), registers(b, y, n_b), registers(b, z, n_c)


def write(b: Emitter, d: Operand, words: list[Value]) -> None:
    for n, word in enumerate(words):
        set32(b, Operand(d.kind, d.index + n), word)


@meaning("IMMA")
def IMMA(i: Instruction, b: Emitter) -> None:
    only(i, *SHAPES, *NIBBLE_SHAPES, "SP", "S8", "U8", "S4", "U4", "SAT")
    kinds = [m.lower() for m in i.modifiers if m in ("S8", "U8", "S4", "U4")]
    kinds += [s[1:].lower() for o in i.operands for s in (o.suffix,) if s in (".S8", ".U8")]
    bits = int(kinds[0][1])
    shapes = NIBBLE_SHAPES if bits == 4 else SHAPES
    shape = next((shapes[m] for m in i.modifiers if m in shapes), None)
    if shape is None:
        raise unsupported("this IMMA shape")
    sparse, chosen = metadata(b, i)
    shape += sparse
    d, *words = operands(i, b, shape, bits, 4 if shape.startswith("m16") else 2)
    left, right, addend = words
    total = matrix_products.integers(
        b, b.arch, shape, (kinds[0], kinds[-1]), (left, right, addend), "SAT" in i.modifiers, chosen
    )
    write(b, d, total)


@meaning("BMMA")
def BMMA(i: Instruction, b: Emitter) -> None:
    only(i, *BIT_SHAPES, "XOR", "AND", "POPC")
    shape = next(BIT_SHAPES[m] for m in i.modifiers if m in BIT_SHAPES)
    d, left, right, total = operands(i, b, shape, 1, 4 if shape.startswith("m16") else 2)
    write(b, d, matrix_products.bit_counts(b, b.arch, shape, "AND" in i.modifiers, left, right, total))


DOUBLE_SHAPES = {"884": "m8n8k4", **{f"{m}x8x{k}": f"m{m}n8k{k}" for m, k in ((8, 4), (16, 4), (16, 8), (16, 16))}}


@meaning("DMMA")
def DMMA(i: Instruction, b: Emitter) -> None:
    only(i, *DOUBLE_SHAPES)
    shape = next(DOUBLE_SHAPES[m] for m in i.modifiers if m in DOUBLE_SHAPES)
    d, left, right, total = operands(i, b, shape, 64, 8 if shape.startswith("m16") else 4)
    write(b, d, matrix_products.doubles(b, b.arch, shape, left, right, total))


@meaning("MOVM")
def MOVM(i: Instruction, b: Emitter) -> None:
    """Transpose an 8x8 matrix of 16-bit elements whose row r is in lanes 4r..4r+3."""
    only(i, "16", "MT88")
    if "MT88" not in i.modifiers:
        raise unsupported("MOVM other than MT88")
    word = raw32(b, i.operands[1])
    set32(b, i.operands[0], transposed(b, word))
