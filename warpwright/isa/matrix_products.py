"""Matrix products that the operation ``mma`` does not cover: 4-bit integers, single bits, saturation, doubles, 8-bit
floats.

A lane's registers of A, B and C hold the fragments of PTX's ``mma`` (section "Matrix fragments"), which the machine
instructions share.
"""

from __future__ import annotations

from warpwright.isa.float8 import half_pair_of
from warpwright.isa.ops import Builder, Value

Words = list[Value]


def fragment_registers(shape: str, bits: int) -> tuple[int, int]:
    """Number of 32-bit registers of A and of B per lane; with a sparse shape, A holds half of its depth."""
    m, rest = shape[1:].split("n")
    n, depth = rest.split("k")
    k, *sparse = depth.split(".")
    return int(m) * int(k) * bits // (2048 if sparse else 1024), int(n) * int(k) * bits // 1024


def with_depth(shape: str, divisor: int) -> str:
    """The same shape with a different depth."""
    front, depth = shape.split("k")
    k, dot, sparse = depth.partition(".")
    return f"{front}k{int(k) // divisor}{dot}{sparse}"


def product(b: Builder, arch: int, how: tuple[str, str, str], x: Words, y: Words, z: Words, chosen: Words) -> Words:
    """The result words of one ``mma`` with the given shape, element types and accumulators; ``chosen`` is the metadata
    of a sparse one."""
    result = b.op("mma", "i32x4", *x, *y, *z, *chosen, attr=(*how, len(x), len(y), len(z), arch))
    return [b.op("extract", "i32", result, attr=n) for n in range(len(z))]


def nibbles(b: Builder, word: Value, odd: bool, signed: bool) -> Value:
    """The four even or odd nibbles of a word, extended to bytes."""
    low = b.and_(b.lshr(word, b.const(4)) if odd else word, b.const(0x0F0F0F0F))
    if not signed:
        return low
    # 0x08 * 0x1E = 0xF0: copies the sign upwards within each byte.
    return b.or_(low, b.mul(b.and_(low, b.const(0x08080808)), b.const(0x1E)))


def saturated_sum(b: Builder, x: Value, y: Value) -> Value:
    total = b.add(x, y)
    overflow = b.and_(b.xor(total, x), b.xor(total, y))
    limit = b.xor(b.ashr(x, b.const(31)), b.const(0x7FFFFFFF))
    return b.select(b.icmp("slt", overflow, b.const(0)), limit, total)


def integers(
    b: Builder,
    arch: int,
    shape: str,
    kinds: tuple[str, str],
    words: tuple[Words, Words, Words],
    saturates: bool,
    chosen: Words,
) -> Words:
    """Products of bytes; 4-bit elements are multiplied as the even ones plus the odd ones, which A and B hold in the
    same positions.

    ``kinds`` are the element types of A and B: s8 u8 s4 u4.  Saturation applies to the sum with C, because the product
    itself cannot overflow.  The metadata of sparse 4-bit elements selects pairs, that is, bytes.
    """
    left, right, addend = words
    first, second = (f"{kind[0]}8" for kind in kinds)
    element = first if first == second else first + second
    total = [b.const(0)] * len(addend) if saturates else addend
    if kinds[0][1] == "4":
        how = (with_depth(shape, 2), element, "s32")
        for odd in (False, True):
            bytes_a = [nibbles(b, w, odd, kinds[0] == "s4") for w in left]
            bytes_b = [nibbles(b, w, odd, kinds[1] == "s4") for w in right]
            total = product(b, arch, how, bytes_a, bytes_b, total, chosen)
    else:
        total = product(b, arch, (shape, element, "s32"), left, right, total, chosen)
    if saturates:
        total = [saturated_sum(b, w, c) for w, c in zip(total, addend, strict=True)]
    return total


def bit_counts(b: Builder, arch: int, shape: str, both: bool, left: Words, right: Words, total: Words) -> Words:
    """Population counts of AND (``both``) or XOR, computed from products of the eight bit planes as bytes of 0 and
    1."""
    how = (with_depth(shape, 8), "u8", "s32")

    def plane(words: Words, bit: int) -> Words:
        return [b.and_(b.lshr(w, b.const(bit)), b.const(0x01010101)) for w in words]

    def inverse(words: Words) -> Words:
        return [b.not_(w) for w in words]

    pairs = [(left, right)] if both else [(left, inverse(right)), (inverse(left), right)]
    for one, other in pairs:
        for bit in range(8):
            total = product(b, arch, how, plane(one, bit), plane(other, bit), total, [])
    return total


def doubles(b: Builder, arch: int, shape: str, left: Words, right: Words, total: Words) -> Words:
    """Products of doubles, in blocks of m8n8k4, whose fragments follow each other in the registers."""
    m, rest = shape[1:].split("n")
    row_blocks, depth_blocks = int(m) // 8, int(rest.split("k")[1]) // 4
    found: Words = []
    for row in range(row_blocks):
        words = total[4 * row : 4 * row + 4]
        for depth in range(depth_blocks):
            at = 2 * (row + row_blocks * depth)
            inputs = (left[at : at + 2], right[2 * depth : 2 * depth + 2])
            words = product(b, arch, ("m8n8k4", "f64", "f64"), *inputs, words, [])
        found += words
    return found


# --- 8-bit floats ---------------------------------------------------------------------------------
def eight_bit_floats(
    b: Builder, arch: int, shape: str, kinds: tuple[str, str], to: str, words: tuple[Words, Words, Words], chosen: Words
) -> Words:
    """Products of 8-bit floats as sm_90's code computes them: two products of halves accumulated from zero, of each
    word's lower and then upper elements; the addend is added last."""
    left, right, addend = words
    how = (with_depth(shape, 2), "f16", to)
    total = [b.const(0)] * len(addend)
    for upper in (False, True):
        a = [half_pair_of(b, word, kinds[0], upper) for word in left]
        if chosen:
            columns = [half_pair_of(b, word, kinds[1]) for word in groups_of_four(b, right, upper)]
            total = product(b, arch, how, a, columns, total, [nibbles_of_metadata(b, chosen[0], upper)])
        else:
            columns = [half_pair_of(b, word, kinds[1], upper) for word in right]
            total = product(b, arch, how, a, columns, total, [])
    return [sum_of(b, to, c, word) for c, word in zip(addend, total, strict=True)]


def sum_of(b: Builder, type: str, x: Value, y: Value) -> Value:
    """The sum of two words: one f32 each, or two f16 each."""
    if type == "f32":
        total = b.op("fadd", "f32", b.bitcast(x, "f32"), b.bitcast(y, "f32"), attr="rn")
        return b.bitcast(b.op("canonical_nan", "f32", total), "i32")
    halves = []
    for at in (0, 16):
        parts = (b.bitcast(b.trunc(b.lshr(w, b.const(at)), "i16"), "f16") for w in (x, y))
        total = b.op("canonical_nan", "f16", b.op("fadd", "f16", *parts, attr="rn"))
        halves.append(b.zext(b.bitcast(total, "i16"), "i32"))
    return b.or_(halves[0], b.shl(halves[1], b.const(16)))


def groups_of_four(b: Builder, right: Words, odd: bool) -> Words:
    """The even or odd groups of four rows of a sparse product's B (m16n8k64), in the lower half of each word.

    The lane of thread t holds groups t, 4 + t and so on; the product of halves needs two lanes to share group 2 * (t //
    2).
    """
    lane = b.op("special", "i32", attr="laneid")
    source = b.or_(b.and_(lane, b.const(~1)), b.const(int(odd)))
    shift = b.shl(b.and_(lane, b.const(1)), b.const(4))
    return [b.lshr(b.op("shuffle", "i32", word, source), shift) for word in right]


def nibbles_of_metadata(b: Builder, word: Value, odd: bool) -> Value:
    """The metadata of those groups in the layout of m16n8k32 of halves, which keeps it in the first two threads
    (``engine/matrix_fragments.py``): row g in the lower half, row g + 8 in the upper half."""
    lane = b.op("special", "i32", attr="laneid")
    source = b.or_(b.and_(lane, b.const(0x1C)), b.shl(b.and_(lane, b.const(1)), b.const(1)))
    packed = b.and_(b.lshr(word, b.const(4)) if odd else word, b.const(0x0F0F0F0F))
    for shift, mask in ((4, 0x00FF00FF), (8, 0x0000FFFF)):
        packed = b.and_(b.or_(packed, b.lshr(packed, b.const(shift))), b.const(mask))
    low, high = (b.op("shuffle", "i32", packed, b.add(source, b.const(n))) for n in (0, 1))
    return b.or_(low, b.shl(high, b.const(16)))


def transposed(b: Builder, word: Value) -> Value:
    """A word of the transposed 8x8 matrix of 16-bit elements whose row r is in lanes 4r to 4r + 3."""
    lane = b.op("special", "i32", attr="laneid")
    row, column = b.lshr(lane, b.const(2)), b.and_(lane, b.const(3))
    odd = b.icmp("ne", b.and_(row, b.const(1)), b.const(0))
    halves = []
    for n in range(2):
        source = b.add(b.shl(column, b.const(3)), b.add(b.lshr(row, b.const(1)), b.const(4 * n)))
        value = b.op("shuffle", "i32", word, source)
        halves.append(b.and_(b.select(odd, b.lshr(value, b.const(16)), value), b.const(0xFFFF)))
    return b.or_(halves[0], b.shl(halves[1], b.const(16)))
