"""perfcheck: the traffic of each memory instruction compared with the minimum for its bytes; compiled to machine code (``native``)."""

from __future__ import annotations

from typing import Any, NamedTuple

from warpwright.native.intrinsics import core, lowest_bit, popcount
from warpwright.timing.records import Addresses, address_of
from warpwright.tools.checks.shadow import (
    COUNTERS,
    N_IDEAL_SECTORS,
    N_IDEAL_WAVES,
    N_REQUESTS,
    N_SECTORS,
    N_WAVES,
    SECTOR_SHIFT,
)

SCRATCH_WORDS = 160
BANKS = 32
BANKS_AT = SCRATCH_WORDS - BANKS
"""Words of each bank, in the scratch array."""


class Traffic(NamedTuple):
    """Counters of each instruction (``shadow.COUNTERS``) and a scratch array."""

    counters: Any
    scratch: Any


@core
def count_sectors(traffic: Traffic, instruction: int, addresses: Addresses, size: int) -> None:
    """Count the sectors of a global access, and the minimum for its bytes."""
    counters, scratch = traffic
    base, tabled, step, mask = addresses
    n = 0
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        first = address_of(base, tabled, step, lane) >> SECTOR_SHIFT
        last = (address_of(base, tabled, step, lane) + size - 1) >> SECTOR_SHIFT
        for sector in range(first, last + 1):
            seen = False
            for i in range(n):
                if scratch[i] == sector:
                    seen = True
                    break
            if not seen and n < BANKS_AT:
                scratch[n] = sector
                n += 1
    counters[instruction * COUNTERS + N_REQUESTS] += 1
    counters[instruction * COUNTERS + N_SECTORS] += n
    distinct = min(popcount(mask) * size, n << SECTOR_SHIFT)
    counters[instruction * COUNTERS + N_IDEAL_SECTORS] += (distinct + (1 << SECTOR_SHIFT) - 1) >> SECTOR_SHIFT


@core
def group_wavefronts(traffic: Traffic, addresses: Addresses, size: int, start: int, lanes: int) -> int:
    """Wavefronts of a group of ``lanes``, from lane ``start`` on, that are served together: the largest number of different words in a bank."""
    scratch = traffic.scratch
    n = 0
    worst = 1
    for bank in range(BANKS):
        scratch[BANKS_AT + bank] = 0
    left = lanes
    while left:
        lane = start + lowest_bit(left)
        left &= left - 1
        for j in range(max(size >> 2, 1)):
            word = (address_of(addresses.base, addresses.tabled, addresses.step, lane) >> 2) + j
            seen = False
            for i in range(n):
                if scratch[i] == word:
                    seen = True
                    break
            if not seen and n < BANKS_AT:
                scratch[n] = word
                n += 1
                scratch[BANKS_AT + (word & (BANKS - 1))] += 1
                worst = max(worst, scratch[BANKS_AT + (word & (BANKS - 1))])
    return worst


@core
def count_wavefronts(traffic: Traffic, instruction: int, addresses: Addresses, size: int, lanes: int) -> None:
    """Count the wavefronts of a wave's access to shared memory, and the minimum for its bytes."""
    counters = traffic.counters
    together = BANKS if size <= 4 else (BANKS >> 1 if size == 8 else BANKS >> 2)
    groups = 0
    total = 0
    for start in range(0, lanes, together):
        active = (addresses.mask >> start) & ((1 << together) - 1)
        if active:
            groups += 1
            total += group_wavefronts(traffic, addresses, size, start, active)
    counters[instruction * COUNTERS + N_REQUESTS] += 1
    counters[instruction * COUNTERS + N_WAVES] += total
    counters[instruction * COUNTERS + N_IDEAL_WAVES] += groups
