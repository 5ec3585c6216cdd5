"""Single-error-correcting, double-error-detecting codes: Hsiao's, whose columns all have an odd number of ones.

A single flipped bit gives the syndrome of its column, an odd number of ones; two flipped bits give an even number, which no column has.  So every
single error is corrected and every double one detected (M. Y. Hsiao, "A Class of Optimal Minimum Odd-weight-column SEC-DED Codes", IBM Journal of
Research and Development 14, 1970).  Three and more flips may look like a single one: the decoder then changes a fourth bit, as hardware does.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from itertools import combinations
from typing import NamedTuple


class Verdict(Enum):
    """What a decoder finds."""

    CLEAN = "clean"
    CORRECTED = "corrected"
    UNCORRECTABLE = "uncorrectable"


class Decoded(NamedTuple):
    """A decoder's answer."""

    verdict: Verdict
    data: int
    """The data bits, corrected where the verdict says so."""


class Secded:
    """A code of ``data_bits`` and ``check_bits``; bit ``data_bits + n`` of a codeword is check bit n.

    Raises:
        ValueError: so few check bits cannot protect the data.
    """

    def __init__(self, data_bits: int, check_bits: int) -> None:
        self.data_bits, self.check_bits = data_bits, check_bits
        weights = (w for w in range(3, check_bits + 1, 2))
        columns = [sum(1 << bit for bit in ones) for w in weights for ones in combinations(range(check_bits), w)]
        if len(columns) < data_bits:
            raise ValueError(f"{check_bits} check bits protect {len(columns)} data bits, not {data_bits}")
        self.columns = (*columns[:data_bits], *(1 << bit for bit in range(check_bits)))
        """The syndrome of each bit of a codeword."""
        self._bit_of = {column: bit for bit, column in enumerate(self.columns)}

    @property
    def bits(self) -> int:
        """Of a codeword."""
        return self.data_bits + self.check_bits

    def syndrome(self, codeword: int) -> int:
        """Zero for a codeword without errors."""
        found = 0
        while codeword:
            low = codeword & -codeword
            found ^= self.columns[low.bit_length() - 1]
            codeword ^= low
        return found

    def encode(self, data: int) -> int:
        """The codeword of some data."""
        return data | self.syndrome(data) << self.data_bits

    def decode(self, codeword: int) -> Decoded:
        """Data of a codeword that may have errors."""
        syndrome = self.syndrome(codeword)
        mask = (1 << self.data_bits) - 1
        if not syndrome:
            return Decoded(Verdict.CLEAN, codeword & mask)
        bit = self._bit_of.get(syndrome)
        if bit is None:
            return Decoded(Verdict.UNCORRECTABLE, codeword & mask)
        return Decoded(Verdict.CORRECTED, (codeword ^ 1 << bit) & mask)


@cache
def code_of(data_bits: int) -> Secded:
    """The code of a word: (72, 64) of DRAM and L2, (39, 32) of registers and shared memory."""
    return Secded(data_bits, {64: 8, 32: 7}[data_bits])
