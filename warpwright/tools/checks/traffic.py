"""perfcheck: the traffic of each memory instruction, compared with the least that its bytes need; machine code (``native``)."""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit, popcount
from warpwright.timing.records import address_of
from warpwright.tools.checks.shadow import COUNTERS, N_IDEAL_SECTORS, N_IDEAL_WAVES, N_REQUESTS, N_SECTORS, N_WAVES

SCRATCH_WORDS = 160
BANKS = 32
BANKS_AT = SCRATCH_WORDS - BANKS
"""In the scratch: words of each bank."""


@core
def count_traffic(
    counters: Any,
    instruction: int,
    base: int,
    tabled: bool,
    step: int,
    mask: int,
    size: int,
    shared: bool,
    scratch: Any,
    lanes: int,
) -> None:
    """Sectors of a global access and wavefronts of a shared one, beside the fewest that its bytes need."""
    n = 0
    worst = 1
    left = mask
    if not shared:
        while left:
            lane = lowest_bit(left)
            left &= left - 1
            first = address_of(base, tabled, step, lane) >> 5
            last = (address_of(base, tabled, step, lane) + size - 1) >> 5
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
        distinct = min(popcount(mask) * size, n * 32)
        counters[instruction * COUNTERS + N_IDEAL_SECTORS] += (distinct + 31) >> 5
        return
    lanes_per_group = 32 if size <= 4 else (16 if size == 8 else 8)
    groups = 0
    total = 0
    for start in range(0, lanes, lanes_per_group):
        left = (mask >> start) & ((1 << lanes_per_group) - 1)
        if left == 0:
            continue
        groups += 1
        n = 0
        worst = 1
        for bank in range(BANKS):
            scratch[BANKS_AT + bank] = 0
        while left:
            lane = start + lowest_bit(left)
            left &= left - 1
            for j in range(max(size >> 2, 1)):
                word = (address_of(base, tabled, step, lane) >> 2) + j
                seen = False
                for i in range(n):
                    if scratch[i] == word:
                        seen = True
                        break
                if not seen and n < 96:
                    scratch[n] = word
                    n += 1
                    scratch[BANKS_AT + (word & (BANKS - 1))] += 1
                    worst = max(worst, scratch[BANKS_AT + (word & (BANKS - 1))])
        total += worst
    counters[instruction * COUNTERS + N_REQUESTS] += 1
    counters[instruction * COUNTERS + N_WAVES] += total
    counters[instruction * COUNTERS + N_IDEAL_WAVES] += groups
