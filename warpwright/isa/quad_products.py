"""Volta's ``mma.m8n8k4``: four products of 8x4 by 4x8, each by eight lanes (4q..4q+3 and 16+4q..).

Chips after sm_75 have no instruction for it; their compiler calls a function of shuffles and multiply-adds.  Its order
of summation, read from machine code for sm_80 and sm_90: for an f32 result, the four products are accumulated by fused
multiply-adds from zero and the addend is added last; an f16 result is the addend, plus products 2 and 3, plus products
0 and 1, in f32, rounded at the end. Layouts: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type".
"""

from __future__ import annotations

from warpwright.isa.ops import Builder, Value

Words = list[Value]
UPPER = 16
"""First lane of the upper four rows (of A) or columns (of B)."""


def element(b: Builder, words: Words, lane: Value, index: Value) -> Value:
    """Half ``index`` (0 to 3, an i32) of the two words of a lane, as f32."""
    low, high = (b.op("shuffle", "i32", word, lane) for word in words)
    word = b.select(b.icmp("ne", b.and_(index, b.const(2)), b.const(0)), high, low)
    bits = b.trunc(b.lshr(word, b.shl(b.and_(index, b.const(1)), b.const(4))), "i16")
    return b.op("fcvt", "f32", b.bitcast(bits, "f16"), attr="rn")


def place(b: Builder, n: int, wide: bool) -> tuple[Value, Value, bool]:
    """(row in a half of four, column in a half of four, whether it is the upper half) of a lane's n-th result.

    ``wide`` selects an f32 result; with an f16 result each lane holds a row.
    """
    lane = b.op("special", "i32", attr="laneid")
    if not wide:
        return b.and_(lane, b.const(3)), b.const(n & 3), n >= 4
    row = b.or_(b.and_(lane, b.const(1)), b.const(n & 2))
    return row, b.or_(b.and_(lane, b.const(2)), b.const(n & 1)), bool(n & 4)


def half_addend(b: Builder, words: Words, n: int) -> Value:
    """The f16 addend of a lane's n-th f32 result, as f32.

    ``words``: the two registers of C that hold the result's half of the columns.
    """
    row, column, _ = place(b, n, True)
    lane = b.op("special", "i32", attr="laneid")
    return element(b, words, b.or_(b.and_(lane, b.const(0x1C)), row), column)


def factors(
    b: Builder, layouts: tuple[str, str], left: Words, right: Words, n: int, wide: bool
) -> list[tuple[Value, Value]]:
    """The four pairs of f32 factors of a lane's n-th result."""
    row, column, upper = place(b, n, wide)
    lane = b.op("special", "i32", attr="laneid")
    own = b.and_(lane, b.const(0x1C))
    other = b.or_(b.and_(lane, b.const(0xC)), b.const(UPPER if upper else 0))
    found = []
    for k in range(4):
        depth = b.const(k)
        across_a, along_a = (row, depth) if layouts[0] == "row" else (depth, row)
        across_b, along_b = (column, depth) if layouts[1] == "col" else (depth, column)
        a = element(b, left, b.or_(own, across_a), along_a)
        found.append((a, element(b, right, b.or_(other, across_b), along_b)))
    return found


def fused(b: Builder, pair: tuple[Value, Value], total: Value) -> Value:
    return b.op("canonical_nan", "f32", b.op("fma", "f32", *pair, total, attr="rn"))


def plus(b: Builder, x: Value, y: Value) -> Value:
    return b.op("canonical_nan", "f32", b.op("fadd", "f32", x, y, attr="rn"))


def by_multiply_adds(
    b: Builder, layouts: tuple[str, str], types: tuple[str, str], left: Words, right: Words, addend: Words
) -> Words:
    """The words of D as the code of chips after sm_75 computes them; ``types`` of D and C: f16 or f32."""
    to, of = types
    results = []
    for n in range(8):
        pairs = factors(b, layouts, left, right, n, to == "f32")
        if to == "f32":
            total = b.const(0, "f32")
            for pair in pairs:
                total = fused(b, pair, total)
            c = b.bitcast(addend[n], "f32") if of == "f32" else half_addend(b, addend[n & 4 and 2 :][:2], n)
            results.append(b.bitcast(plus(b, c, total), "i32"))
            continue
        bits = b.trunc(b.lshr(addend[n // 2], b.const(16)) if n & 1 else addend[n // 2], "i16")
        total = b.op("fcvt", "f32", b.bitcast(bits, "f16"), attr="rn")
        for first in (2, 0):
            product = b.op("canonical_nan", "f32", b.op("fmul", "f32", *pairs[first], attr="rn"))
            total = plus(b, total, fused(b, pairs[first + 1], product))
        half = b.op("canonical_nan", "f16", b.op("fcvt", "f16", total, attr="rn"))
        results.append(b.zext(b.bitcast(half, "i16"), "i32"))
    if to == "f32":
        return results
    return [b.or_(results[n], b.shl(results[n + 1], b.const(16))) for n in range(0, 8, 2)]
