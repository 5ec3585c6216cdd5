"""The address hash: maps a line to its L2 slice and DRAM channel.

The hash was derived from an H200 (bench.micro ``slices``: latencies of atomics and loads on 8 MiB of lines from every SM distinguish the 94 slices).  A block of
4 KiB is in one partition, whose number is the parity of the chip's ``l2_partition_hash_bits``.  Every other pair of blocks of 128 bytes in a KiB, 512 bytes, is a unit; the slices of a partition
take its units in turn, in an order within aligned blocks of 128 units.  The order itself differs from the card's.

Caches, channels and translations identify a line by an address that is the same in every process (``known_as``), because the host may place device memory and
registered memory anywhere; likewise, a card's physical addresses differ from a program's.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, divide, peek, popcount
from warpwright.timing import state as s


@core
def range_of(m: Any, line: int) -> int:
    """Host address of the record (``EW_``) of the range outside this device's memory that holds a line, or 0."""
    low = 0
    high = m[s.chip.range_count]
    table = m[s.chip.ranges]
    while low < high:
        middle = (low + high) >> 1
        if peek(table + 8 * (s.EW_WORDS * middle + s.EW_FIRST)) <= line:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return 0
    entry = table + 8 * s.EW_WORDS * (low - 1)
    return entry if line < peek(entry + 8 * s.EW_END) else 0


@core
def known_as(m: Any, line: int) -> int:
    """The line number by which caches, channels and translations identify a line: the same in every process."""
    if m[s.chip.relocated] == 0:
        return line
    if m[s.chip.range_count]:
        entry = range_of(m, line)
        if entry:
            return line - peek(entry + 8 * s.EW_MOVED)
    if m[s.chip.own_first] <= line < m[s.chip.own_end]:
        return line - m[s.chip.own_moved]
    return line


@core
def unit_of(m: Any, line: int) -> int:
    """The number of a line's unit in its partition: 512 bytes, every other pair of blocks of 128 bytes of a KiB.

    Each aligned block of 128 units has its own order of units; slices take them in turn (``slice_of``).
    """
    block = known_as(m, line) >> m[s.chip.unit_line_shift]
    kib = block >> 3
    if m[s.chip.partitions] == 2:
        kib = (kib >> 3) << 2 | kib & 3
    unit = kib << 1 | (block >> 1) & 1
    return unit ^ ((((unit >> 7) * s.GOLDEN) >> 40) & 127)


@core
def slice_of(m: Any, line: int) -> int:
    """The home slice, as an H200 spreads its lines (bench.micro ``slices``): 4 KiB are in one partition, whose number is a parity
    of address bits; slices of a partition take its units in turn, so that each has two or three of the 128 units of an aligned 128 KiB.
    """
    half = m[s.chip.half]
    unit = unit_of(m, line)
    home = unit - divide(unit, half) * half
    if (
        m[s.chip.partitions] == 2
        and popcount((known_as(m, line) >> m[s.chip.unit_line_shift] + 5) & m[s.chip.partition_bits]) & 1
    ):
        home += half
    return home


@core
def unit_in_slice(m: Any, line: int) -> int:
    """The number of a line's unit among those of its slice."""
    return divide(unit_of(m, line), m[s.chip.half])


@core
def line_in_slice(m: Any, line: int) -> int:
    """A line's number among those of its slice."""
    shift = m[s.chip.unit_line_shift]
    block = line >> shift
    return (unit_in_slice(m, line) << 2 | (block >> 1) & 2 | block & 1) << shift | line & (1 << shift) - 1


@core
def channel_of(m: Any, piece: int, line: int) -> int:
    """The channel of a line within its slice's channels: its units take them in turn."""
    per_slice = m[s.chip.channels_per_slice]
    if per_slice == 1:
        return piece
    return piece * per_slice + unit_in_slice(m, line) % per_slice


@core
def tag_bank(m: Any, line: int) -> int:
    """The bank of L1's tags that holds a line's tag."""
    line = known_as(m, line)
    return (popcount(line & m[s.chip.tag_bank_bit0]) & 1) | (popcount(line & m[s.chip.tag_bank_bit1]) & 1) << 1


@core
def bank_block(m: Any, line: int) -> int:
    """The number of a line's block of consecutive bytes that are in the same bank of every channel."""
    return known_as(m, line) >> m[s.chip.bank_block_shift]


@core
def bank_of(m: Any, block: int) -> int:
    """The DRAM bank of a block (``bank_block``).

    Loads of 16 KiB at once wait for one refresh or none (bench.micro ``bursts``); of 32 lanes that read from 96 to 256 KiB at once, some lane waits in about three of
    four turns (``cold_walks``).  The order of the banks is not the card's.
    """
    banks = m[s.chip.dram_bank_count]
    turn = divide(block, banks)
    return (5 * block + (((turn * s.GOLDEN) >> 48) & 0xFFFF)) % banks
