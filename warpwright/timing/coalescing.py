"""How a chip joins the lanes' accesses to global memory into transactions: one function for each rule, named in the chip file (``l1.coalescing``).

A policy fills the SM's scratch with transactions: the line, the sectors that the transaction moves, and the bytes and words that lanes access.  It returns the number of
transactions.  It applies to loads and stores of global memory; atomics, copies to shared memory, and local memory, whose layout makes every access whole lines, are
coalesced by ``coalescer.py``.

Sources: CUDA C Programming Guide 3.2, sections G.3.2.1 (compute capability 1.0 and 1.1), G.3.2.2 (1.2 and 1.3) and G.4.2 (2.x); for AMD's Cypress and Cayman
Kanter, "AMD's Cayman GPU Architecture" (Real World Technologies, 2010).
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit, popcount
from warpwright.timing import state as s
from warpwright.timing.coalescer import line_of, lines_kept, sector_of, word_of, words_of
from warpwright.timing.records import Addresses, address_of

WHOLE_WARP, HALF_WARP_IN_ORDER, HALF_WARP_ANY_ORDER, WHOLE_LINES, QUARTER_WAVEFRONT, QUARTER_WAVEFRONT_JOINED = range(6)
"""Numbers of the rules, in the order in which ``chips/sections.py`` names them."""


@core
def transaction(m: Any, sm: s.SM, n: int, line: int, sectors: int) -> int:
    """Add a transaction to the scratch, which has ``n``; returns the new number."""
    m[sm.lines[n]] = line
    m[sm.line_sectors[n]] = sectors
    m[sm.line_bytes[n]] = 0
    m[sm.line_words[n]] = 0
    return n + 1


@core
def name_bytes(m: Any, sm: s.SM, place: int, address: int, size: int) -> None:
    """Count ``size`` bytes that a lane accesses in a transaction."""
    m[sm.line_bytes[place]] += size << (sector_of(m, address) * 16)
    m[sm.line_words[place]] |= words_of(size) << word_of(m, address)


@core
def half_warp_in_order(m: Any, sm: s.SM, addresses: Addresses, size: int) -> int:
    """Compute capability 1.0 and 1.1: a half-warp whose k-th lane names the k-th word of a segment moves the segment; any other moves 32 bytes for each lane.

    Segments have 64 bytes for words of 4, 128 for words of 8, and two of 128 one after the other for words of 16. Inactive lanes do not matter.
    """
    base, tabled, step, mask = addresses
    n = 0
    group = m[s.chip.lanes] >> 1
    for first in range(0, m[s.chip.lanes], group):
        left = (mask >> first) & ((1 << group) - 1)
        if left:
            begins = address_of(base, tabled, step, first + lowest_bit(left)) - lowest_bit(left) * size
            whole = size >= 4 and begins & (min(group * size, 128) - 1) == 0
            rest = left
            while rest and whole:
                lane = lowest_bit(rest)
                rest &= rest - 1
                whole = address_of(base, tabled, step, first + lane) == begins + lane * size
            before = n
            if whole:
                for offset in range(0, group * size, 128):
                    sectors = 15 if size >= 8 else 3 << ((begins >> 5) & 2)
                    n = transaction(m, sm, n, (begins + offset) >> 7, sectors)
            while left:
                lane = lowest_bit(left)
                left &= left - 1
                address = address_of(base, tabled, step, first + lane)
                if whole:
                    name_bytes(m, sm, before + ((address - begins) >> 7), address, size)
                else:
                    n = transaction(m, sm, n, address >> 7, 1 << ((address >> 5) & 3))
                    name_bytes(m, sm, n - 1, address, size)
    return n


@core
def half_warp_any_order(m: Any, sm: s.SM, addresses: Addresses, size: int) -> int:
    """Compute capability 1.2 and 1.3: a half-warp moves each segment that its lanes name once, in any order, and no more of it than the half that they name.

    The lowest remaining lane determines the segment: of 32 bytes for words of one byte, 64 for two, 128 for more.  A transaction of 128 bytes of which one half is
    named becomes one of 64, and one of 64 one of 32.
    """
    base, tabled, step, mask = addresses
    n = 0
    group = m[s.chip.lanes] >> 1
    shift = 5 if size == 1 else (6 if size == 2 else 7)
    for first in range(0, m[s.chip.lanes], group):
        left = (mask >> first) & ((1 << group) - 1)
        while left:
            segment = address_of(base, tabled, step, first + lowest_bit(left)) >> shift
            n = transaction(m, sm, n, (segment << shift) >> 7, 0)
            named = 0
            rest = left
            while rest:
                lane = lowest_bit(rest)
                rest &= rest - 1
                address = address_of(base, tabled, step, first + lane)
                if address >> shift == segment:
                    left &= ~(1 << lane)
                    named |= 1 << ((address >> 5) & 3)
                    name_bytes(m, sm, n - 1, address, size)
            m[sm.line_sectors[n - 1]] = least_transaction(named)
    return n


@core
def least_transaction(named: int) -> int:
    """The sectors of the smallest aligned transaction of 32, 64 or 128 bytes that contains all accessed sectors."""
    return 15 if named & 3 and named & 12 else named


@core
def whole_lines(m: Any, sm: s.SM, addresses: Addresses, size: int) -> int:
    """Compute capability 2.x: a request of a warp, of half a warp for words of 8 bytes and of a quarter for 16, moves each line that it names, whole."""
    base, tabled, step, mask = addresses
    n = 0
    group = m[s.chip.lanes] >> (0 if size <= 4 else (1 if size == 8 else 2))
    for first in range(0, m[s.chip.lanes], group):
        n = lines_named(m, sm, n, Addresses(base, tabled, step, (mask >> first) & ((1 << group) - 1)), first, size)
    return n


@core
def quarter_wavefront(m: Any, sm: s.SM, addresses: Addresses, size: int) -> int:
    """Cypress and Cayman, whose lines have 64 bytes: a quarter of a wavefront moves each line that it names, whole."""
    base, tabled, step, mask = addresses
    n = 0
    group = m[s.chip.lanes] >> 2
    for first in range(0, m[s.chip.lanes], group):
        n = lines_named(m, sm, n, Addresses(base, tabled, step, (mask >> first) & ((1 << group) - 1)), first, size)
    return n


@core
def lines_named(m: Any, sm: s.SM, before: int, addresses: Addresses, first: int, size: int) -> int:
    """Add each line that ``lanes``, counted from lane ``first``, access; returns the number of transactions."""
    base, tabled, step, lanes = addresses
    n = before
    while lanes:
        lane = lowest_bit(lanes)
        lanes &= lanes - 1
        address = address_of(base, tabled, step, first + lane)
        place = before
        while place < n and m[sm.lines[place]] != line_of(m, address):
            place += 1
        if place == n:
            n = transaction(m, sm, n, line_of(m, address), m[s.chip.whole_line])
        name_bytes(m, sm, place, address, size)
    return n


@core
def keep_named(m: Any, sm: s.SM, n: int) -> None:
    """Reduce each transaction to the sectors that lanes access: stores of compute capability 2.x go to L2 in segments of 32 bytes."""
    for place in range(n):
        held = m[sm.line_bytes[place]]
        named = 0
        for sector in range(4):
            if (held >> (16 * sector)) & 0xFFFF:
                named |= 1 << sector
        m[sm.line_sectors[place]] = named


@core
def coalesce(m: Any, sm: s.SM, addresses: Addresses, size: int, store: bool) -> int:
    """Fill the scratch by the chip's rule; returns the number of transactions."""
    rule = m[s.chip.coalescing_rule]
    if rule == WHOLE_WARP:
        return lines_kept(m, sm, addresses, size)
    if rule == HALF_WARP_IN_ORDER:
        return half_warp_in_order(m, sm, addresses, size)
    if rule == HALF_WARP_ANY_ORDER:
        return half_warp_any_order(m, sm, addresses, size)
    if rule == WHOLE_LINES:
        n = whole_lines(m, sm, addresses, size)
        if store:
            keep_named(m, sm, n)
        return n
    return quarter_wavefront(m, sm, addresses, size)


@core
def addresses_joined(addresses: Addresses, first: int) -> int:
    """The number of different pieces of 16 bytes that ``lanes`` of a quarter-wavefront access: Cayman joins neighbours to one address."""
    base, tabled, step, lanes = addresses
    count = 0
    while lanes:
        unit = address_of(base, tabled, step, first + lowest_bit(lanes)) >> 4
        lanes &= lanes - 1
        count += 1
        rest = lanes
        while rest:
            if address_of(base, tabled, step, first + lowest_bit(rest)) >> 4 == unit:
                lanes &= ~(1 << lowest_bit(rest))
            rest &= rest - 1
    return count


@core
def address_cycles(m: Any, addresses: Addresses, filtered: int) -> int:
    """Cycles in which a memory wavefront sends its addresses, several per cycle: one for each lane (Cypress, and each mean of a filter), or for each
    16 bytes (Cayman)."""
    base, tabled, step, mask = addresses
    cycles = 0
    group = m[s.chip.lanes] >> 2
    for first in range(0, m[s.chip.lanes], group):
        lanes = (mask >> first) & ((1 << group) - 1)
        sent = popcount(lanes)
        if m[s.chip.coalescing_rule] == QUARTER_WAVEFRONT_JOINED and filtered == 0:
            sent = addresses_joined(Addresses(base, tabled, step, lanes), first)
        cycles += (sent + m[s.chip.texture_addresses] - 1) // m[s.chip.texture_addresses]
    return cycles


@core
def transaction_passes(m: Any, addresses: Addresses, n: int, filtered: int) -> int:
    """Passes of a load of ``n`` transactions under a rule other than a whole warp's: one per transaction, or as many as its addresses take."""
    if m[s.chip.coalescing_rule] >= QUARTER_WAVEFRONT:
        return address_cycles(m, addresses, filtered)
    return n
