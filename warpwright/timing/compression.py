"""Compute data compression: lines of compressible memory that cross DRAM's bus in a quarter or a half of their size.

A line that is written whole is compressed when it leaves L2, if its contents permit; one that is written in part, or changed by atomics, is stored
uncompressed.  Each line of compressible memory has a word in the host's memory (``DeviceMemory.compressible``) that records how it is stored.

NVIDIA does not publish which contents are compressible.  ``size_of`` follows an H200's results for 42 kinds of contents (``bench.machine.l2_policies compression``):
a line of 128 bytes takes 32 or 64 if one of a few simple codes applies.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, peek, poke, popcount
from warpwright.timing import state as s

STORED = 7
"""Field of a line's word: the number of sectors that it takes in DRAM, or 0 if it is not compressed."""
WHOLE = 8
"""Flag of a line's word: all of the line has been written since it was last changed in part."""
LINE_BYTES, SECTOR_WORDS = 128, 8
HEAD_BYTES, HALF_MASK_BYTES, BYTE_MASK_BYTES = 4, 8, 16
"""A base or a mask of words, a mask of 16-bit halves, a mask of bytes."""


@core
def entry_of(m: Any, line: int) -> int:
    """Host address of a line's word; 0 if the line is not compressible."""
    for i in range(m[s.chip.compressible_count]):
        entry = m[s.chip.compressible] + i * (8 * s.CR_WORDS)
        first = peek(entry + 8 * s.CR_FIRST)
        if first <= line < peek(entry + 8 * s.CR_END):
            return peek(entry + 8 * s.CR_TABLE) + 8 * (line - first)
    return 0


@core
def word_at(address: int) -> int:
    """The unsigned 32-bit word at a host address that is a multiple of four."""
    whole = peek(address & ~7)
    return (whole >> 32 if address & 4 else whole) & 0xFFFFFFFF


@core
def apart(word: int, base: int) -> int:
    """How far a word is from a base, as a signed 32-bit number."""
    return (((word - base) & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


@core
def sector_spread(address: int) -> int:
    """How far apart the words of a sector are at most."""
    base = word_at(address)
    low = 0
    high = 0
    for n in range(SECTOR_WORDS):
        step = apart(word_at(address + 4 * n), base)
        low = min(low, step)
        high = max(high, step)
    return high - low


@core
def size_of(address: int) -> int:
    """Bytes that the contents of a line take: 32, 64 or 128."""
    base = word_at(address)
    words = 0
    halves = 0
    filled = 0
    varying = 0
    low = 0
    high = 0
    for n in range(LINE_BYTES // 4):
        word = word_at(address + 4 * n)
        step = apart(word, base)
        low = min(low, step)
        high = max(high, step)
        varying |= word ^ base
        words += word != 0
        halves += ((word & 0xFFFF) != 0) + ((word >> 16) != 0)
        for shift in range(0, 32, 8):
            filled += ((word >> shift) & 255) != 0
    quarter = LINE_BYTES // 4
    # A base and seven bits per word; a mask and what is not zero, by words or by halves.
    if high - low < 1 << 7 or HEAD_BYTES + 4 * words <= quarter or HALF_MASK_BYTES + 2 * halves <= quarter:
        return quarter
    half = LINE_BYTES // 2
    if HEAD_BYTES + 4 * words <= half or HALF_MASK_BYTES + 2 * halves <= half or BYTE_MASK_BYTES + filled <= half:
        return half
    # Bits that are the same in all words are kept once.
    if HEAD_BYTES + 4 * popcount(varying) <= half:
        return half
    for at in range(0, LINE_BYTES, 4 * SECTOR_WORDS):
        if sector_spread(address + at) >= 1 << 12:
            return LINE_BYTES
    return half


@core
def note_change(m: Any, line: int, whole: bool) -> None:
    """A line is written in L2, all of it or in part."""
    entry = entry_of(m, line)
    if entry:
        poke(entry, peek(entry) | WHOLE if whole else peek(entry) & ~WHOLE)


@core
def sectors_read(m: Any, line: int, count: int) -> int:
    """Sectors that cross DRAM's bus for a number of sectors of a line."""
    entry = entry_of(m, line)
    stored = peek(entry) & STORED if entry else 0
    return stored if stored else count


@core
def sectors_written(m: Any, line: int, count: int) -> int:
    """Sectors that cross DRAM's bus when a number of dirty sectors of a line are written back; also records how DRAM stores the line from now on.

    A line that is no longer compressed has to be read first, and is written as a whole.
    """
    entry = entry_of(m, line)
    if entry == 0:
        return count
    before = peek(entry)
    if before & WHOLE:
        packed = size_of(line << m[s.chip.line_shift]) >> m[s.chip.sector_shift]
        if packed < m[s.chip.line_sectors]:
            poke(entry, packed | WHOLE)
            return packed
        poke(entry, WHOLE)
        return count
    poke(entry, 0)
    return (before & STORED) + m[s.chip.line_sectors] if before & STORED else count
