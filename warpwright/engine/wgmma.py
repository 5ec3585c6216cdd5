"""Matrix products of a warpgroup: the layout of operands in shared memory, and the part that one of the four warps computes.

A descriptor of 64 bits (PTX ISA, "Matrix descriptor format"): bits 0-13 start, 16-29 leading and 32-45 stride offset, each in
units of 16 bytes, 49-51 base offset, 62-63 swizzle (none, 128, 64, 32 bytes).  Elements are in rows of 8 by 16 bytes ("core
matrices") or of 8 by the swizzle's bytes; rows follow each other at their width.  Along k (operands not transposed)
the stride leads from eight rows to the next, and the leading offset from a row's bytes to what follows along k.
Transposed, a row runs along m or n: with a swizzle the leading offset leads to the next row's width and the stride to
the next eight rows, without one they change places.  The swizzle then takes bits 4-6 of an address xor its bits 7-9
less the base offset.  All found on an H200 (``bench/silicon/check_wgmma.py``, data/wgmma_map.npz: the place of every element
for 425 descriptors).  The sums are those of ``mma`` (``silicon_mma``), 8 columns at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine import numerics
from warpwright.isa.ops import GroupProduct

Words = npt.NDArray[Any]
Read = Callable[[Words, int], Words]
"""Addresses [32] and bytes of each (2 or 4) to what shared memory holds there."""
LANES = np.arange(32, dtype=np.uint32)
GROUP, THREAD = LANES // 4, LANES % 4


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Offsets in bytes."""

    start: int
    leading: int
    stride: int
    base: int
    """In rows of 128 bytes."""
    row: int
    """Bytes of a row: 16 without a swizzle."""

    @staticmethod
    def of(low: int, high: int) -> Descriptor:
        mode = high >> 30
        return Descriptor(
            (low & 0x3FFF) << 4, (low >> 16 & 0x3FFF) << 4, (high & 0x3FFF) << 4, high >> 17 & 7, 16 << (-mode & 3)
        )

    def places(self, index: npt.NDArray[Any], k_byte: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Addresses of an operand whose elements follow each other along k: by row or column, and byte along k."""
        along = k_byte // self.row * self.leading + k_byte % self.row
        return self._swizzled(index % 8 * self.row + index // 8 * self.stride + along)

    def transposed_places(self, index: npt.NDArray[Any], k: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Addresses of 16-bit elements that follow each other along m or n."""
        across, down = (self.stride, self.leading) if self.row == 16 else (self.leading, self.stride)
        byte = 2 * index
        return self._swizzled(byte % self.row + byte // self.row * across + k % 8 * self.row + k // 8 * down)

    def _swizzled(self, offset: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        at = offset.astype(np.int64) + self.start
        return at ^ ((at >> 7) - self.base & self.row // 16 - 1) << 4


def word_of(descriptor: Descriptor, transposed: bool, index: Words, register: int, read: Read) -> Words:
    """A register of a fragment: lane 4g + t holds four bytes from byte 4t + 16 * register along k."""
    wide = index.astype(np.int64)
    if not transposed:
        return read(descriptor.places(wide, (4 * THREAD + 16 * register).astype(np.int64)).astype(np.uint32), 4)
    halves = [
        read(
            descriptor.transposed_places(wide, (2 * THREAD + 8 * register + part).astype(np.int64)).astype(np.uint32), 2
        )
        for part in range(2)
    ]
    return halves[0].astype(np.uint32) | halves[1].astype(np.uint32) << np.uint32(16)


def product(how: GroupProduct, arguments: Sequence[Words], read: Read) -> list[Words]:
    """The words of D of one warp; ``arguments`` as the operation ``wgmma`` has them."""
    n_a, n_b, n_c = how.tile[3:6]
    warp, rest = int(arguments[0][0]) & 3, list(arguments[1:])
    if how.shared_a:
        a_from = Descriptor.of(int(rest[0][0]), int(rest[1][0]))
        rest = rest[2:]
        rows = (GROUP + 16 * warp, GROUP + 16 * warp + 8)
        left = [word_of(a_from, how.transposed[0], rows[n % 2], n // 2, read) for n in range(n_a)]
    else:
        left, rest = rest[:n_a], rest[n_a:]
    b_from = Descriptor.of(int(rest[0][0]), int(rest[1][0]))
    metadata, sums = ([rest[2]], rest[3:]) if how.selector >= 0 else ([], rest[2:])
    sign = np.uint32(how.sign_bits)
    if how.negated[0]:
        left = [word ^ sign for word in left]
    results: list[Words] = []
    for first in range(0, how.n, 8):
        right = [word_of(b_from, how.transposed[1], GROUP + first, n, read) for n in range(n_b)]
        if how.negated[1]:
            right = [word ^ sign for word in right]
        c = sums[len(results) : len(results) + n_c]
        results += numerics.mma(how.tile, [*left, *right, *c, *metadata])
    return results
