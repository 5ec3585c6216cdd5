"""Values for operands: the edges of every type crossed with each other, then random ones.

All values come from generators seeded with the form's name, so a form has the same values everywhere and always.
"""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np

from tests.forms.form import COUNT, SCRATCH_BYTES, WIDTHS, Form

FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "tf32": (8, 23)}
"""Bits of exponent and fraction."""


@cache
def float_edges(type: str) -> tuple[int, ...]:
    """Zeros, subnormals, powers, halves for rounding, limits, infinities, quiet and signalling NaNs with payload."""
    exponent, fraction = FLOATS[type]
    bias, top = (1 << exponent - 1) - 1, (1 << exponent) - 1
    one = bias << fraction
    infinity = top << fraction
    positive = [
        *(0, 1, 2, (1 << fraction) - 1, 1 << fraction - 1),
        *(1 << fraction, (1 << fraction) + 1, (2 << fraction) - 1),
        *(one, one + 1, one - 1, one + (1 << fraction - 1), (bias - 1) << fraction, (bias + 1) << fraction),
        one + (bias // 2 << fraction) + 3,
        one - (bias // 2 << fraction) + 5,
        *(infinity - 1, infinity - (1 << fraction), infinity),
        *(
            infinity + 1,
            infinity + (1 << fraction - 1),
            infinity + (1 << fraction - 1) + 5,
            infinity + (1 << fraction) - 1,
        ),
    ]
    sign = 1 << exponent + fraction
    return tuple(v | s for v in positive for s in (0, sign))


@cache
def integer_edges(bits: int) -> tuple[int, ...]:
    whole = (1 << bits) - 1
    small = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x12345678)
    edges = [v & whole for v in small] + [~v & whole for v in small[:12]]
    edges += [
        1 << bits - 1,
        (1 << bits - 1) - 1,
        (1 << bits - 1) + 1,
        0x5555555555555555 & whole,
        0xAAAAAAAAAAAAAAAA & whole,
    ]
    return tuple(dict.fromkeys(edges))


@cache
def edges(type: str) -> tuple[int, ...]:
    if type in FLOATS:
        return float_edges(type)
    if type in ("f16x2", "bf16x2"):
        halves = float_edges(type[:-2])
        turned = halves[7:] + halves[:7]
        return tuple(low | high << 16 for low, high in zip(halves, turned, strict=True))
    return integer_edges(max(2, WIDTHS[type]))


def random_floats(rng: np.random.Generator, type: str, count: int) -> np.ndarray:
    """Half of them any bits, half of moderate exponents, so that sums and products do not only overflow."""
    exponent, fraction = FLOATS[type]
    width = 1 + exponent + fraction
    bits = rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False) & np.uint64((1 << width) - 1)
    bias = (1 << exponent - 1) - 1
    spread = min(24, bias // 2)
    near = rng.integers(bias - spread, bias + spread, count, dtype=np.uint64)
    tamed = bits & np.uint64(~(((1 << exponent) - 1) << fraction) & (1 << width) - 1) | near << np.uint64(fraction)
    return np.where(np.arange(count) % 2 == 0, bits, tamed)


def random_values(rng: np.random.Generator, type: str, count: int) -> np.ndarray:
    if type in FLOATS:
        return random_floats(rng, type, count)
    if type in ("f16x2", "bf16x2"):
        return random_floats(rng, type[:-2], count) | random_floats(rng, type[:-2], count) << np.uint64(16)
    width = max(1, WIDTHS[type])
    bits = rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False)
    # Small numbers too: a shift amount or a divisor is seldom random bits.
    shift = rng.integers(0, width, count, dtype=np.uint64)
    bits &= np.uint64((1 << width) - 1)
    return np.where(np.arange(count) % 3 == 0, bits >> shift, bits)


def generator(form: Form) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(f"{form.section} {form.name} {form.row.signature}".encode()))


def kind_values(rng: np.random.Generator, kind: str, type: str) -> np.ndarray:
    """Values of a named kind: ``tame`` floats near one, ``metadata`` of sparse matrices, ``a..b`` integers of a range, ``=x`` one value."""
    if kind == "tame":
        if type in FLOATS:
            values = np.concatenate([random_floats(rng, type, 2 * COUNT)[1::2]])
        else:
            inner = type[:-2]
            values = random_floats(rng, inner, 2 * COUNT)[1::2] | random_floats(rng, inner, 2 * COUNT)[
                1::2
            ] << np.uint64(16)
        return values
    if kind.startswith("metadata"):
        # Pairs of positions, the lower first: nonzero elements of four (or one of two, for tf32).
        pairs = np.array([0x4, 0xE] if kind == "metadata1" else [0x4, 0x8, 0x9, 0xC, 0xD, 0xE], np.uint64)
        picks = pairs[rng.integers(0, len(pairs), (8, COUNT))]
        return sum((picks[n] << np.uint64(4 * n) for n in range(8)), np.zeros(COUNT, np.uint64))
    if kind.startswith("="):
        return np.full(COUNT, int(kind[1:], 0), np.uint64)
    low, high = kind.split("..")
    return rng.integers(int(low, 0), int(high, 0) + 1, COUNT, dtype=np.int64).astype(np.uint64)


def inputs(form: Form) -> tuple[np.ndarray, tuple[int, ...]]:
    """(operands as an array of slots [operand, thread], values of literals and parameters)."""
    rng = generator(form)
    count = len(form.operands)
    table = np.zeros((max(1, count), COUNT), np.uint64)
    kinds = form.row.values + ("",) * (count - len(form.row.values))
    for n, (type, kind) in enumerate(zip(form.operands, kinds, strict=False)):
        if kind:
            table[n] = kind_values(rng, kind, type)
            continue
        known = np.array(edges(type), dtype=np.uint64)
        randoms = random_values(rng, type, COUNT)
        if count == 1:
            filled = min(COUNT, len(known))
            randoms[:filled] = known[:filled]
        else:
            # Three quarters of the threads take edges, in an order of their own for each operand.
            part = COUNT * 3 // 4
            randoms[:part] = known[rng.integers(0, len(known), part)]
        table[n] = randoms
    fixed = []
    for n, type in enumerate(form.operands):
        # Which of two NaNs an f64 result keeps depends on how the compiler orders operands, so it gets one at most.
        fine = np.array([e for e in edges(type) if type != "f64" or e & (1 << 63) - 1 <= 0x7FF << 52], np.uint64)
        choices = table[n][rng.integers(0, COUNT, 8)] if kinds[n] else fine
        value = int(choices[int(rng.integers(0, len(choices)))])
        fixed.append(value & (1 << WIDTHS[type]) - 1)
    return table, tuple(fixed)


def scratch_memory() -> np.ndarray:
    """What the scratch memory holds before a launch."""
    return np.random.default_rng(7).integers(0, 256, COUNT * SCRATCH_BYTES, dtype=np.uint8)
