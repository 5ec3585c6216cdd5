"""Tensor-core sums of products, bit for bit as the silicon computes them.

Every element of D = A x B + C is the result of fused sums, one for each chunk of ``k``:

* products of the operands are exact; a product's exponent is the sum of its operands' exponents (its significand
  is in [0, 4) and is not normalised), a subnormal operand has the exponent of the smallest normal number;
* all products of the chunk and the accumulator are aligned to the largest exponent among those that are not zero
  (at least -133) and cut, towards zero, to a number of fraction bits below it;
* these integers are summed exactly; the sum is cut towards zero to f32, or rounded to nearest even for f16; a zero is
  always positive;
* the result is the accumulator of the next chunk.

Fraction bits and chunk (:class:`Unit`): measured on an H200 (``bench/silicon``) for sm_90: 25 bits, one chunk for the
whole of ``k`` in mma.m16n8k16 and k8, and the same in wgmma; wgmma of e4m3 and e5m2 has 13 bits, and an f32 result keeps 13
bits of its mantissa.  A sparse product sums as many products as a dense one, those of the chosen elements of B.  From the literature: sm_70 has 23 bits and chunks of 4, sm_80 and its kin 24 bits
and chunks of 8 (f16, bf16) or 4 (tf32), sm_89's 8-bit floats 13 bits and chunks of 16 (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor
cores", PeerJ CS 2021; Xie, Wang, Yang and Yang, "MMA-Sim: Bit-accurate reference model of tensor cores and matrix
cores", arXiv 2511.10909).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FORMATS: dict[str, tuple[int, int]] = {
    **{"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "f32": (8, 23)},
    **{"e4m3": (4, 3), "e5m2": (5, 2)},
}
"""Exponent bits and mantissa bits; tf32 is in the upper 19 of 32 bits, e4m3 has no infinity and one NaN."""
WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8}
NOTHING = -(1 << 20)
"""Exponent of a term that is zero: below every other."""
LOWEST = -133
"""Least exponent of an alignment (measured on an H200, taken for the others)."""
NAN = {"f16": 0x7FFF, "f32": 0x7FFFFFFF}


@dataclass(frozen=True)
class Unit:
    """One generation's adder."""

    fraction_bits: int
    """Kept below the largest exponent."""
    chunk_bits: int
    """Operand bits of one row of A that enter one sum: chunk = chunk_bits / bits of an element."""

    def chunk(self, element: str, k: int) -> int:
        """Products in one sum; ``element`` as of :func:`factors`."""
        return min(k, self.chunk_bits // WIDTHS[factors(element)[0]])

    def fraction(self, element: str) -> int:
        """Fraction bits kept below the largest exponent."""
        return SHORT_BITS if element in SHORT else self.fraction_bits


UNITS: dict[int, Unit] = {70: Unit(23, 64), 75: Unit(24, 128), 80: Unit(24, 128), 90: Unit(25, 256)}
"""By architecture; an architecture between two entries has the lower one's."""
SHORT = ("e4m3", "e5m2", "e4m3e5m2", "e5m2e4m3")
SHORT_BITS = 13
"""Fraction bits of 8-bit floats' sums, and mantissa bits of their f32 results (sm_89's QMMA and sm_90's wgmma)."""


def factors(element: str) -> tuple[str, str]:
    """Formats of A and of B: ``e4m3e5m2`` names both, others are the same for both."""
    return (element[:4], element[4:]) if len(element) == 8 else (element, element)


def dropped(element: str, accumulator: str) -> int:
    """Lowest mantissa bits of a result that are always zero."""
    return FORMATS[accumulator][1] - SHORT_BITS if element in SHORT and accumulator == "f32" else 0


def unit(arch: int) -> Unit:
    """The adder of an architecture (70 to 90); raises ``ValueError`` below 70."""
    known = [n for n in UNITS if n <= arch]
    if not known:
        raise ValueError(f"sm_{arch} has no tensor cores; the first is sm_70")
    return UNITS[max(known)]


@dataclass(frozen=True)
class Parts:
    """Numbers taken apart: value = (-1)**negative * significand * 2**(exponent - fraction bits)."""

    negative: Bools
    exponent: Ints
    significand: Ints
    infinite: Bools
    nan: Bools

    @staticmethod
    def of(element: str, bits: npt.NDArray[Any]) -> Parts:
        exponent_bits, mantissa_bits = FORMATS[element]
        word = bits.astype(np.int64)
        if element == "tf32":
            word = word >> 13
        top = (1 << exponent_bits) - 1
        mantissa = word & (1 << mantissa_bits) - 1
        biased = word >> mantissa_bits & top
        normal = biased != 0
        finite_top = element == "e4m3"
        return Parts(
            negative=(word >> exponent_bits + mantissa_bits & 1) != 0,
            exponent=np.where(normal, biased, 1) - (top >> 1),
            significand=np.where(normal, mantissa | 1 << mantissa_bits, mantissa),
            infinite=(biased == top) & (mantissa == 0) & (not finite_top),
            nan=(biased == top) & (mantissa == 7 if finite_top else mantissa != 0),
        )


def aligned(significand: Ints, shift: Ints) -> Ints:
    """significand * 2**shift, cut towards zero (significand >= 0)."""
    left = np.clip(shift, 0, 40)
    right = np.clip(-shift, 0, 63)
    return significand << left >> right


def fused(
    arch_unit: Unit, element: str, accumulator: str, a: Parts, b: Parts, c: npt.NDArray[Any]
) -> npt.NDArray[np.uint32]:
    """One sum: a, b [..., chunk], c [...] as bits; returns bits."""
    fraction = arch_unit.fraction(element)
    first, second = factors(element)
    start = Parts.of(accumulator, c)
    product = a.significand * b.significand
    negative = a.negative ^ b.negative
    exponent = np.where(product == 0, NOTHING, a.exponent + b.exponent)
    exponent_c = np.where(start.significand == 0, NOTHING, start.exponent)
    largest = np.maximum(np.maximum(exponent.max(axis=-1), exponent_c), LOWEST)
    scale = FORMATS[first][1] + FORMATS[second][1]
    terms = aligned(product, fraction - scale + exponent - largest[..., None])
    total = np.where(negative, -terms, terms).sum(axis=-1)
    term_c = aligned(start.significand, fraction - FORMATS[accumulator][1] + exponent_c - largest)
    total = total + np.where(start.negative, -term_c, term_c)
    bits = encode(accumulator, total, largest - fraction)
    bits = bits >> dropped(element, accumulator) << dropped(element, accumulator)

    zero_a, zero_b = a.significand == 0, b.significand == 0
    infinite = (a.infinite | b.infinite) & ~a.nan & ~b.nan
    nan = (a.nan | b.nan | (a.infinite & zero_b) | (b.infinite & zero_a)).any(axis=-1) | start.nan
    plus = (infinite & ~negative).any(axis=-1) | (start.infinite & ~start.negative)
    minus = (infinite & negative).any(axis=-1) | (start.infinite & start.negative)
    exponent_bits, mantissa_bits = FORMATS[accumulator]
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    bits = np.where(plus, infinity, np.where(minus, infinity | 1 << exponent_bits + mantissa_bits, bits))
    return np.where(nan | (plus & minus), NAN[accumulator], bits).astype(np.uint32)


def encode(accumulator: str, total: Ints, exponent: Ints) -> Ints:
    """Bits of total * 2**exponent: cut to f32, rounded to nearest even for f16; a zero is positive."""
    exponent_bits, mantissa_bits = FORMATS[accumulator]
    bias = (1 << exponent_bits - 1) - 1
    size = np.abs(total)
    top = np.frexp(size.astype(np.float64))[1].astype(np.int64) - 1
    # The last place kept: mantissa_bits below the leading bit, but not below the subnormals' place.
    last = np.maximum(top + exponent - mantissa_bits, 1 - bias - mantissa_bits)
    shift = last - exponent
    right, left = np.clip(shift, 0, 62), np.clip(-shift, 0, 40)
    kept = size >> right << left
    if accumulator == "f16":
        rest = size - (size >> right << right)
        half = np.where(right > 0, 1 << np.maximum(right - 1, 0), 1 << 62)
        kept = kept + ((rest > half) | ((rest == half) & (kept & 1 == 1)))
    # Adding the mantissa with its leading bit carries into the exponent by itself.
    bits = (last + bias + mantissa_bits - 1 << mantissa_bits) + kept
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    bits = np.where(size == 0, 0, np.minimum(bits, infinity))
    return np.where((total < 0) & (bits != 0), bits | 1 << exponent_bits + mantissa_bits, bits)


def matrix(
    arch: int, element: str, accumulator: str, a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any]
) -> npt.NDArray[np.uint32]:
    """D = A x B + C.

    ``a`` [..., m, k] and ``b`` [..., k, n] hold the bits of ``element`` (:func:`factors`), ``c`` [..., m, n]
    those of ``accumulator`` (f16 or f32); any unsigned dtype.  Returns uint32 [..., m, n] with the accumulator's bits.
    """
    adder = unit(arch)
    k = a.shape[-1]
    step = adder.chunk(element, k)
    left, right = (Parts.of(form, bits) for form, bits in zip(factors(element), (a, b), strict=True))
    result = np.asarray(c)
    for first in range(0, k, step):
        part = slice(first, first + step)
        rows = Parts(*(value[..., :, None, part] for value in _fields(left)))
        columns = Parts(*(np.swapaxes(value[..., part, :], -1, -2)[..., None, :, :] for value in _fields(right)))
        result = fused(adder, element, accumulator, rows, columns, result)
    return result.astype(np.uint32)


def _fields(parts: Parts) -> tuple[Any, ...]:
    return parts.negative, parts.exponent, parts.significand, parts.infinite, parts.nan


# --- the same sums in f64 -------------------------------------------------------------------------
def limits(form: str) -> tuple[float, float]:
    """Powers of two of a format's smallest normal number and of its infinity."""
    bias = (1 << FORMATS[form][0] - 1) - 1
    return 2.0 ** (1 - bias), 2.0 ** (bias + 1)


def powers(form: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """2**exponent of each number; subnormal numbers have the smallest normal number's, zeros give 0."""
    smallest, largest = limits(form)
    power = (values.view(np.uint64) & np.uint64(0x7FF << 52)).view(np.float64)
    return np.where(values == 0.0, 0.0, np.clip(power, smallest, largest))


def settle(accumulator: str, values: npt.NDArray[np.float64], zero_bits: int = 0) -> npt.NDArray[np.float64]:
    """Cut to f32 (without its lowest ``zero_bits``) or round to f16, as f64; zeros become positive."""
    smallest, largest = limits(accumulator)
    size = np.abs(values)
    if accumulator == "f16":
        power = np.maximum((values.view(np.uint64) & np.uint64(0x7FF << 52)).view(np.float64), smallest)
        shift = power * (1.5 * 2.0**42)  # its last place is f16's
        rounded = (values + shift) - shift
        rounded = np.where(np.abs(rounded) >= largest, np.copysign(np.inf, values), rounded)
        return np.where(size == np.inf, values, rounded) + 0.0
    exact = (values.view(np.uint64) & np.uint64(0xFFFFFFFFE0000000)).view(np.float64)
    short = exact.astype(np.float32)
    away = (np.abs(short.astype(np.float64)) > size) & (size < 1.0)
    bits = np.where(away, short.view(np.uint32) - np.uint32(1), short.view(np.uint32))
    bits = bits >> np.uint32(zero_bits) << np.uint32(zero_bits)
    cut: npt.NDArray[np.float64] = bits.view(np.float32).astype(np.float64) + 0.0
    return cut


def sum_of_products(
    arch: int,
    element: str,
    accumulator: str,
    a: npt.NDArray[np.float64],
    b: npt.NDArray[np.float64],
    c: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """:func:`matrix` on values: a, b [..., k] (broadcast), c [...]; the results are numbers of the accumulator's format.

    Every step is exact in f64 but for the cuts: the compiled engine takes the same ones.
    """
    adder = unit(arch)
    k = a.shape[-1]
    step = adder.chunk(element, k)
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    first_form, second_form = factors(element)
    power_a, power_b = powers(first_form, a), powers(second_form, b)
    fraction, zero_bits = adder.fraction(element), dropped(element, accumulator)
    with np.errstate(all="ignore"):
        for first in range(0, k, step):
            part = slice(first, first + step)
            largest = (power_a[..., part] * power_b[..., part]).max(axis=-1)
            largest = np.maximum(np.maximum(largest, powers(accumulator, c)), 2.0**LOWEST)
            scale = 2.0**fraction / largest
            terms = np.trunc(a[..., part] * b[..., part] * scale[..., None])
            total = np.trunc(c * scale) + terms.sum(axis=-1)
            c = settle(accumulator, total * (largest * 2.0**-fraction), zero_bits)
    return c
