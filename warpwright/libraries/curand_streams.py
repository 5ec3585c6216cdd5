"""States at which the streams of cuRAND's pseudorandom generators begin, with the skip-ahead of each algorithm.

XORWOW: a stream is 2^67 numbers after the one before; its five words are linear over GF(2), and its sixth is a counter. MRG32k3a: 2^76 numbers, by powers of its two matrices.
Philox: a stream is a counter word of its own.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Bits = NDArray[np.float32]
XORWOW_STREAMS, MRG_STREAMS, MRG_LEGACY_STREAMS, PHILOX_STREAMS = 4096, 81920, 4096, 65536
"""Streams of cuRAND's default orderings, and of MRG32k3a's legacy one."""
_WORD = 0xFFFF_FFFF
_WEYL = 362437
_XORWOW_STREAM, _MRG_STREAM = 67, 76
"""Logarithms of the distance between two streams."""
_M1, _M2 = 4294967087, 4294944443


# --- XORWOW ------------------------------------------------------------------------------------------
def _bits(words: Words) -> Bits:
    """160 bits of each state, a column each."""
    found = (words.T[:, None, :] >> np.arange(32, dtype=np.uint32)[None, :, None]) & 1
    return found.reshape(160, -1).astype(np.float32)


def _words(bits: Bits) -> Words:
    parts = bits.astype(np.uint32).reshape(5, 32, -1) << np.arange(32, dtype=np.uint32)[None, :, None]
    return np.bitwise_or.reduce(parts, axis=1).T.copy()


@cache
def _xorwow_power(logarithm: int) -> Bits:
    """The matrix of 2^logarithm steps."""
    if logarithm:
        half = _xorwow_power(logarithm - 1)
        return (half @ half) % 2
    unit = _words(np.eye(160, dtype=np.float32))
    first, last = unit[:, 0], unit[:, 4]
    t = first ^ (first >> 2)
    stepped = np.column_stack((unit[:, 1:], last ^ (last << 4) ^ t ^ (t << 1)))
    return _bits(stepped.astype(np.uint32))


def _xorwow_advanced(bits: Bits, steps: int) -> Bits:
    for logarithm in range(steps.bit_length()):
        if steps >> logarithm & 1:
            bits = (_xorwow_power(logarithm) @ bits) % 2
    return bits


def xorwow(seed: int, offset: int) -> Words:
    """Six words for each stream once the first ``offset`` numbers are made."""
    low, high = (1099087573 * ((seed & _WORD) ^ 0xAAD26B49)) & _WORD, (2591861531 * ((seed >> 32) ^ 0xF7DCEFDD)) & _WORD
    first = [123456789 + low, 362436069 ^ low, 521288629 + high, 88675123 ^ high, 5783321 + low]
    bits = _bits(np.array([[word & _WORD for word in first]], np.uint32))
    for doubled in range(XORWOW_STREAMS.bit_length() - 1):
        bits = np.hstack((bits, (_xorwow_power(_XORWOW_STREAM + doubled) @ bits) % 2))
    rows, ahead = divmod(offset, XORWOW_STREAMS)
    bits = _xorwow_advanced(bits, rows)
    bits = np.hstack((_xorwow_advanced(bits[:, :ahead], 1), bits[:, ahead:]))
    steps = rows + (np.arange(XORWOW_STREAMS) < ahead)
    counter = (6615241 + low + high + _WEYL * steps.astype(np.uint64)).astype(np.uint64) & np.uint64(_WORD)
    return np.column_stack((_words(bits), counter.astype(np.uint32)))


# --- MRG32k3a ----------------------------------------------------------------------------------------
Matrix = tuple[tuple[int, ...], ...]
_STEPS: tuple[tuple[Matrix, int], ...] = (
    (((0, 1, 0), (0, 0, 1), (_M1 - 810728, 1403580, 0)), _M1),
    (((0, 1, 0), (0, 0, 1), (_M2 - 1370589, 0, 527612)), _M2),
)
"""The two recurrences as matrices, with their moduli."""


def _product(a: Matrix, b: Matrix, modulus: int) -> Matrix:
    return tuple(tuple(sum(a[i][k] * b[k][j] for k in range(3)) % modulus for j in range(3)) for i in range(3))


@cache
def _mrg_power(part: int, logarithm: int) -> Matrix:
    if not logarithm:
        return _STEPS[part][0]
    half = _mrg_power(part, logarithm - 1)
    return _product(half, half, _STEPS[part][1])


def _applied(matrix: Matrix, states: NDArray[np.uint64], modulus: int) -> NDArray[np.uint64]:
    """A matrix times each row; products of two numbers below 2^32 fit 64 bits."""
    m = np.uint64(modulus)
    rows = [sum((np.uint64(f) * states[:, k]) % m for k, f in enumerate(row)) % m for row in matrix]
    return np.column_stack(rows).astype(np.uint64)


def mrg(seed: int, offset: int, streams: int) -> Words:
    """Six words for each stream once the first ``offset`` numbers are made."""
    low, high = (seed & _WORD) ^ 0x5555_5555, (seed >> 32) ^ 0xAAAA_AAAA
    halves = []
    rows, ahead = divmod(offset, streams)
    for part, (first, second) in enumerate(((low, high), (high, low))):
        modulus = _STEPS[part][1]
        begun = (first, second, first) if seed else (1, 1, 1)
        states = np.array([[12345 * word % modulus for word in begun]], np.uint64)
        logarithm = _MRG_STREAM
        while len(states) < streams:
            states = np.vstack((states, _applied(_mrg_power(part, logarithm), states, modulus)))
            logarithm += 1
        states = states[:streams]
        for bit in range(rows.bit_length()):
            if rows >> bit & 1:
                states = _applied(_mrg_power(part, bit), states, modulus)
        states = np.vstack((_applied(_mrg_power(part, 0), states[:ahead], modulus), states[ahead:]))
        halves.append(states)
    return np.hstack(halves).astype(np.uint32)


# --- Philox ------------------------------------------------------------------------------------------
def philox(offset: int) -> NDArray[np.uint64]:
    """The counter of each stream once the first ``offset`` numbers are made."""
    groups = offset // 4
    return np.array(
        [(groups - stream + PHILOX_STREAMS - 1) // PHILOX_STREAMS for stream in range(PHILOX_STREAMS)], np.uint64
    )
