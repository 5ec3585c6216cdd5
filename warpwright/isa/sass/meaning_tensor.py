"""Tensor-core instructions as the ``mma`` operation, and the transposition that goes with them.

``HMMA.16816`` and its kin are PTX's ``mma.sync`` of the same shape, fragment for fragment.  Volta's ``HMMA.884``
computes one part of PTX's ``mma.m8n8k4`` at a time, by eight lanes each (lanes 4q..4q+3 and 16+4q..): with an f32
accumulator STEP s gives the PTX results 2s and 2s+1 of every lane (rows + 2 (s & 1), columns + 4 (s >> 1)), with an f16
accumulator STEP s gives the four columns from 4s.  The operands' ``.ROW`` and ``.COL`` are PTX's layouts.
The shape in the operation's attribute names all of it: ``m8n8k4.row.col.2``.
"""

from __future__ import annotations

from warpwright.isa.ops import Value
from warpwright.isa.program import RZ, Instruction, Operand
from warpwright.isa.sass.meaning import Emitter, is_predicate, meaning, only, raw32, set32, unsupported

SHAPES = {
    **{"1688": "m16n8k8", "16816": "m16n8k16", "1684": "m16n8k4", "16832": "m16n8k32", "8816": "m8n8k16"},
    "16864": "m16n8k64",
}
STEPS = ("STEP0", "STEP1", "STEP2", "STEP3")
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "f64": 64}


def registers(b: Emitter, o: Operand, count: int) -> list[Value]:
    if o.index == RZ:
        return [b.const(0)] * count
    return [raw32(b, o, n) for n in range(count)]


def fragment_registers(shape: str, bits: int) -> tuple[int, int]:
    """32-bit registers of A and of B for one lane; of a sparse shape, A holds half of its depth."""
    m, rest = shape[1:].split("n")
    n, depth = rest.split("k")
    k, *sparse = depth.split(".")
    return int(m) * int(k) * bits // (2048 if sparse else 1024), int(n) * int(k) * bits // 1024


def metadata(b: Emitter, i: Instruction) -> tuple[str, list[Value]]:
    """What a sparse instruction adds to its shape, and the register with its metadata."""
    if "SP" not in i.modifiers:
        return "", []
    register, selector = [o for o in i.operands if not is_predicate(o)][4:6]
    return f".sp{selector.value}", [raw32(b, register)]


def emit(b: Emitter, i: Instruction, shape: str, elements: tuple[str, str], accumulator: str, n_c: int) -> None:
    """The operation and the writes of its result."""
    d, x, y, z = [o for o in i.operands if not is_predicate(o)][:4]
    element = elements[0] if elements[0] == elements[1] else "".join(elements)
    sparse, chosen = metadata(b, i)
    shape += sparse
    n_a, n_b = (2, 2) if shape.startswith("m8n8k4.") else fragment_registers(shape, BITS[elements[0]])
    args = registers(b, x, n_a) + registers(b, y, n_b) + registers(b, z, n_c) + chosen
    result = b.op("mma", "i32x4", *args, attr=(shape, element, accumulator, n_a, n_b, n_c, b.arch))
    for n in range(n_c):
        set32(b, Operand(d.kind, d.index + n), b.op("extract", "i32", result, attr=n))


@meaning("HMMA")
def HMMA(i: Instruction, b: Emitter) -> None:
    only(i, *SHAPES, "884", "SP", *STEPS, "F16", "F32", "BF16", "TF32")
    kinds = [m for m in i.modifiers if m in ("F16", "F32")]
    accumulator = kinds[0].lower()
    element = "bf16" if "BF16" in i.modifiers else "tf32" if "TF32" in i.modifiers else "f16"
    if "884" in i.modifiers:
        if len(kinds) > 1 and kinds[0] != kinds[1]:
            raise unsupported("HMMA.884 with accumulators of two formats")
        layouts = [next((s.lower() for s in ("ROW", "COL") if f".{s}" in o.suffix), "row") for o in i.operands[1:3]]
        step = next(m[4:] for m in i.modifiers if m in STEPS)
        emit(b, i, f"m8n8k4.{layouts[0]}.{layouts[1]}.{step}", (element, element), accumulator, 2)
        return
    shape = next((SHAPES[m] for m in i.modifiers if m in SHAPES), None)
    if shape is None:
        raise unsupported("this HMMA shape")
    emit(b, i, shape, (element, element), accumulator, 2 if accumulator == "f16" else 4)


def product(
    b: Emitter, shape: str, element: str, x: list[Value], y: list[Value], z: list[Value], chosen: list[Value]
) -> list[Value]:
    """One integer ``mma`` of bytes: the words of its result; ``chosen``: a sparse one's metadata."""
    result = b.op("mma", "i32x4", *x, *y, *z, *chosen, attr=(shape, element, "s32", len(x), len(y), len(z), b.arch))
    return [b.op("extract", "i32", result, attr=n) for n in range(len(z))]


def nibbles(b: Emitter, word: Value, odd: bool, signed: bool) -> Value:
    """The four even or odd nibbles of a word as bytes."""
    low = b.and_(b.lshr(word, b.const(4)) if odd else word, b.const(0x0F0F0F0F))
    if not signed:
        return low
    # 0x08 * 0x1E = 0xF0: the sign copied upwards within each byte.
    return b.or_(low, b.mul(b.and_(low, b.const(0x08080808)), b.const(0x1E)))


def saturated_sum(b: Emitter, x: Value, y: Value) -> Value:
    total = b.add(x, y)
    overflow = b.and_(b.xor(total, x), b.xor(total, y))
    limit = b.xor(b.ashr(x, b.const(31)), b.const(0x7FFFFFFF))
    return b.select(b.icmp("slt", overflow, b.const(0)), limit, total)


NIBBLE_SHAPES = {"8832": "m8n8k16", "16832": "m16n8k16", "16864": "m16n8k32", "168128": "m16n8k64"}
"""Four-bit shapes by the byte shape of as many registers."""
BIT_SHAPES = {"88128": "m8n8k16", "168128": "m16n8k16", "168256": "m16n8k32"}


@meaning("IMMA")
def IMMA(i: Instruction, b: Emitter) -> None:
    """Products of bytes; of nibbles as the even ones plus the odd ones, which A and B hold in the same places.

    SAT saturates the sum with C: the product itself cannot overflow.  The metadata of sparse nibbles chooses pairs: bytes.
    """
    only(i, *SHAPES, *NIBBLE_SHAPES, "SP", "S8", "U8", "S4", "U4", "SAT")
    kinds = [m.lower() for m in i.modifiers if m in ("S8", "U8", "S4", "U4")]
    kinds += [s[1:].lower() for o in i.operands for s in (o.suffix,) if s in (".S8", ".U8")]
    small = kinds[0][1] == "4"
    shapes = NIBBLE_SHAPES if small else SHAPES
    shape = next((shapes[m] for m in i.modifiers if m in shapes), None)
    if shape is None:
        raise unsupported("this IMMA shape")
    d, x, y, z = [o for o in i.operands if not is_predicate(o)][:4]
    sparse, chosen = metadata(b, i)
    shape += sparse
    n_a, n_b = fragment_registers(shape, 8)
    n_c = 4 if shape.startswith("m16") else 2
    left, right, addend = registers(b, x, n_a), registers(b, y, n_b), registers(b, z, n_c)
    element = f"{kinds[0][0]}8" if kinds[0] == kinds[-1] else f"{kinds[0][0]}8{kinds[-1][0]}8"
    total = [b.const(0)] * n_c if "SAT" in i.modifiers else addend
    if small:
        for odd in (False, True):
            bytes_a = [nibbles(b, w, odd, kinds[0] == "s4") for w in left]
            bytes_b = [nibbles(b, w, odd, kinds[-1] == "s4") for w in right]
            total = product(b, shape, element, bytes_a, bytes_b, total, chosen)
    else:
        total = product(b, shape, element, left, right, total, chosen)
    if "SAT" in i.modifiers:
        total = [saturated_sum(b, w, c) for w, c in zip(total, addend, strict=True)]
    for n, word in enumerate(total):
        set32(b, Operand(d.kind, d.index + n), word)


@meaning("BMMA")
def BMMA(i: Instruction, b: Emitter) -> None:
    """Population counts of bits' conjunction or difference: products of the eight bit planes as bytes 0 and 1."""
    only(i, *BIT_SHAPES, "XOR", "AND", "POPC")
    shape = next(BIT_SHAPES[m] for m in i.modifiers if m in BIT_SHAPES)
    d, x, y, z = [o for o in i.operands if not is_predicate(o)][:4]
    n_a, n_b = fragment_registers(shape, 8)
    left, right = registers(b, x, n_a), registers(b, y, n_b)
    total = registers(b, z, 4 if shape.startswith("m16") else 2)

    def plane(words: list[Value], bit: int) -> list[Value]:
        return [b.and_(b.lshr(w, b.const(bit)), b.const(0x01010101)) for w in words]

    def inverse(words: list[Value]) -> list[Value]:
        return [b.not_(w) for w in words]

    pairs = [(left, right)] if "AND" in i.modifiers else [(left, inverse(right)), (inverse(left), right)]
    for one, other in pairs:
        for bit in range(8):
            total = product(b, shape, "u8", plane(one, bit), plane(other, bit), total, [])
    for n, word in enumerate(total):
        set32(b, Operand(d.kind, d.index + n), word)


DOUBLE_SHAPES = {"884": (1, 1), "8x8x4": (1, 1), "16x8x4": (2, 1), "16x8x8": (2, 2), "16x8x16": (2, 4)}
"""How many blocks of 8 rows and of 4 in depth a product of doubles has."""


@meaning("DMMA")
def DMMA(i: Instruction, b: Emitter) -> None:
    """Products of doubles, block by block of m8n8k4, whose fragments they hold one behind the other."""
    only(i, *DOUBLE_SHAPES)
    row_blocks, depth_blocks = next(DOUBLE_SHAPES[m] for m in i.modifiers if m in DOUBLE_SHAPES)
    d, x, y, z = [o for o in i.operands if not is_predicate(o)][:4]
    left, right = registers(b, x, 2 * row_blocks * depth_blocks), registers(b, y, 2 * depth_blocks)
    total = registers(b, z, 4 * row_blocks)
    for row in range(row_blocks):
        words = total[4 * row : 4 * row + 4]
        for depth in range(depth_blocks):
            at = 2 * (row + row_blocks * depth)
            args = (*left[at : at + 2], *right[2 * depth : 2 * depth + 2], *words)
            result = b.op("mma", "i32x4", *args, attr=("m8n8k4", "f64", "f64", 2, 2, 4, b.arch))
            words = [b.op("extract", "i32", result, attr=n) for n in range(4)]
        total[4 * row : 4 * row + 4] = words
    for n, word in enumerate(total):
        set32(b, Operand(d.kind, d.index + n), word)


@meaning("MOVM")
def MOVM(i: Instruction, b: Emitter) -> None:
    """Transpose an 8x8 matrix of 16-bit elements whose row r lies in lanes 4r..4r+3."""
    only(i, "16", "MT88")
    if "MT88" not in i.modifiers:
        raise unsupported("MOVM other than MT88")
    word = raw32(b, i.operands[1])
    lane = b.op("special", "i32", attr="laneid")
    row, column = b.lshr(lane, b.const(2)), b.and_(lane, b.const(3))
    odd = b.icmp("ne", b.and_(row, b.const(1)), b.const(0))
    halves = []
    for n in range(2):
        source = b.add(b.shl(column, b.const(3)), b.add(b.lshr(row, b.const(1)), b.const(4 * n)))
        value = b.op("shuffle", "i32", word, source)
        halves.append(b.and_(b.select(odd, b.lshr(value, b.const(16)), value), b.const(0xFFFF)))
    set32(b, i.operands[0], b.or_(halves[0], b.shl(halves[1], b.const(16))))
