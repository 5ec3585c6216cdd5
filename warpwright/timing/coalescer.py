"""Coalesces lanes' addresses to cache lines, sectors and shared-memory wavefronts.

Lines and their sectors are as long as the chip file says, at most four sectors per line; shared memory has banks of 4 bytes, as many as the chip file says,
and serves as many lanes at once; half as many for 8-byte accesses, and a quarter for 16-byte ones (CUDA C++ Programming Guide, compute capability 5.x and later).
Addresses have the form in ``records.py``: a base, and a stride or a table of distances.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit, peek, popcount
from warpwright.timing import state as s
from warpwright.timing.address_hash import tag_bank
from warpwright.timing.records import Addresses, address_of

LANE_BITS = 7
"""Of ``chip.pass_bits`` for each sector in what ``count_passes`` gives: the most lanes that name one of its words; the others: how many different words are named."""
LANE_COUNT = 127


@core
def line_of(m: Any, address: int) -> int:
    """The number of an address's line."""
    return address >> m[s.chip.line_shift]


@core
def sector_of(m: Any, address: int) -> int:
    """The number of an address's sector in its line."""
    return (address >> m[s.chip.sector_shift]) & (m[s.chip.line_sectors] - 1)


@core
def word_of(m: Any, address: int) -> int:
    """The number of an address's word of four bytes in its line."""
    return (address & (m[s.chip.line_bytes] - 1)) >> 2


@core
def entry_of(m: Any, sm: s.SM, line: int, n: int) -> int:
    """The index of a line (or another unit) among the first ``n`` of the scratch, searched from the end; ``n`` if it is not there."""
    found = n - 1
    while found >= 0 and m[sm.lines[found]] != line:
        found -= 1
    return n if found < 0 else found


@core
def sectors_of(m: Any, sm: s.SM, n: int) -> int:
    """Sectors of the scratch's first ``n`` lines."""
    sectors = 0
    for i in range(n):
        sectors += popcount(m[sm.line_sectors[i]])
    return sectors


@core
def lines_of_wave(m: Any, sm: s.SM, base: int, end: int) -> int:
    """Fill the SM's line scratch for all bytes from ``base`` to ``end``; returns the number of lines."""
    shift = m[s.chip.line_shift]
    sector_shift = m[s.chip.sector_shift]
    sector_bytes = m[s.chip.sector_bytes]
    line = base >> shift
    last = (end - 1) >> shift
    n = 0
    while line <= last:
        low = max(base - (line << shift), 0)
        high = min(end - (line << shift), m[s.chip.line_bytes])
        packed = 0
        for sector in range(4):
            bytes_in = min(high, sector * sector_bytes + sector_bytes) - max(low, sector * sector_bytes)
            if bytes_in > 0:
                packed |= bytes_in << (sector * 16)
        m[sm.lines[n]] = line
        m[sm.line_sectors[n]] = ((2 << ((high - 1) >> sector_shift)) - 1) & ~((1 << (low >> sector_shift)) - 1)
        m[sm.line_bytes[n]] = packed
        m[sm.line_words[n]] = (1 << ((high + 3) >> 2)) - (1 << (low >> 2))
        n += 1
        line += 1
    return n


@core
def lines_affine(m: Any, sm: s.SM, base: int, stride: int, mask: int, size: int) -> int:
    """Fill the SM's line scratch for lanes at base + lane * stride; returns the number of lines."""
    if mask == m[s.chip.full_wave] and stride == size:
        return lines_of_wave(m, sm, base, base + m[s.chip.lanes] * size)
    if stride == 0:
        m[sm.lines] = line_of(m, base)
        m[sm.line_sectors] = 1 << sector_of(m, base)
        m[sm.line_bytes] = size << (16 * sector_of(m, base))
        m[sm.line_words] = words_of(size) << word_of(m, base)
        return 1
    n = 0
    current = -1
    sectors = 0
    packed = 0
    words = 0
    lane_words = words_of(size)
    shift = m[s.chip.line_shift]
    sector_shift = m[s.chip.sector_shift]
    in_line = m[s.chip.line_bytes] - 1
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        address = base + lane * stride
        line = address >> shift
        if line != current:
            if n:
                m[sm.lines[n - 1]] = current
                m[sm.line_sectors[n - 1]] = sectors
                m[sm.line_bytes[n - 1]] = packed
                m[sm.line_words[n - 1]] = words
            n += 1
            current = line
            sectors = 0
            packed = 0
            words = 0
        sector = (address & in_line) >> sector_shift
        sectors |= 1 << sector
        packed += size << (sector * 16)
        words |= lane_words << ((address & in_line) >> 2)
    if n:
        m[sm.lines[n - 1]] = current
        m[sm.line_sectors[n - 1]] = sectors
        m[sm.line_bytes[n - 1]] = packed
        m[sm.line_words[n - 1]] = words
    return n


@core
def pattern_of(base: int, tabled: bool, mask: int, size: int) -> int:
    """A number that is never 0 for all that determines, in addition to its step, how an access falls on lines and banks."""
    return mask | (base & 127) << 32 | size << 39 | (1 if tabled else 0) << 44 | 1 << 46


@core
def place_of_pattern(step: int, known: int, places: int) -> int:
    """The first of the two places that a pattern may have."""
    return (((step ^ known * s.GOLDEN) * s.GOLDEN) >> 40) & (places - 2)


@core
def lines_again(m: Any, sm: s.SM, kept: int, first: int) -> int:
    """Fill the scratch with the lines of a stored pattern, beginning with line ``first``."""
    n = m[kept + 2]
    for i in range(n):
        place = kept + s.PATTERN_HEAD + 4 * i
        m[sm.lines[i]] = first + m[place]
        m[sm.line_sectors[i]] = m[place + 1]
        m[sm.line_bytes[i]] = m[place + 2]
        m[sm.line_words[i]] = m[place + 3]
    return n


@core
def lines_kept(m: Any, sm: s.SM, addresses: Addresses, size: int) -> int:
    """Like ``lines_affine`` and ``lines_table``, for a stored pattern of lanes, whose lines have known distances from its first one.

    Patterns of few lines are stored for each group of SMs, as in ``bank_passes``; a third pattern replaces the older of two.
    """
    base, tabled, step, mask = addresses
    if tabled and base == 0:  # addresses in the record itself
        if mask == m[s.chip.full_wave] and is_one_stretch(step, m[s.chip.lanes], size):
            first = peek(step)
            return lines_of_wave(m, sm, first, first + m[s.chip.lanes] * size)
        return lines_table(m, sm, base, step, mask, size)
    if m[s.chip.lanes] > 32 and tabled:  # such a mask leaves no room for the rest of the key
        return lines_table(m, sm, base, step, mask, size)
    if not tabled and (step == 0 or m[s.chip.lanes] > 32 or (step == size and mask == m[s.chip.full_wave])):
        return lines_affine(m, sm, base, step, mask, size)
    known = pattern_of(base, tabled, mask, size)
    kept = m[sm.patterns] + place_of_pattern(step, known, s.PATTERNS_KEPT) * s.PATTERN_SLOTS
    if m[kept] == step and m[kept + 1] == known:
        return lines_again(m, sm, kept, line_of(m, base))
    other = kept + s.PATTERN_SLOTS
    if m[other] == step and m[other + 1] == known:
        return lines_again(m, sm, other, line_of(m, base))
    n = lines_table(m, sm, base, step, mask, size) if tabled else lines_affine(m, sm, base, step, mask, size)
    if n > s.PATTERN_LINES:
        return n
    older = m[kept + s.PATTERN_OLDER]
    m[kept + s.PATTERN_OLDER] = s.PATTERN_SLOTS - older
    kept += older
    m[kept] = step
    m[kept + 1] = known
    m[kept + 2] = n
    for i in range(n):
        place = kept + s.PATTERN_HEAD + 4 * i
        m[place] = m[sm.lines[i]] - line_of(m, base)
        m[place + 1] = m[sm.line_sectors[i]]
        m[place + 2] = m[sm.line_bytes[i]]
        m[place + 3] = m[sm.line_words[i]]
    return n


@core
def words_of(size: int) -> int:
    """The words that a lane's ``size`` bytes touch, as a mask."""
    return (1 << max(size >> 2, 1)) - 1


@core
def covered(m: Any, packed: int) -> int:
    """Sectors of which every byte was accessed, from four 16-bit byte counts."""
    full = 0
    sector_bytes = m[s.chip.sector_bytes]
    for sector in range(4):
        if (packed >> (sector * 16)) & 0xFFFF >= sector_bytes:
            full |= 1 << sector
    return full


@core
def touched(m: Any, words: int) -> int:
    """The sectors in which words of a line are."""
    sectors = 0
    sector_words = m[s.chip.sector_bytes] >> 2
    for sector in range(m[s.chip.line_sectors]):
        if (words >> (sector_words * sector)) & ((1 << sector_words) - 1):
            sectors |= 1 << sector
    return sectors


@core
def words_in(m: Any, sectors: int) -> int:
    """The words of a line's sectors."""
    words = 0
    sector_words = m[s.chip.sector_bytes] >> 2
    for sector in range(m[s.chip.line_sectors]):
        if (sectors >> sector) & 1:
            words |= ((1 << sector_words) - 1) << (sector_words * sector)
    return words


@core
def is_one_stretch(table: int, lanes: int, size: int) -> bool:
    """Whether ``lanes`` lanes, whose addresses are in a table, access ``size`` bytes each, side by side and aligned."""
    first = peek(table)
    if first & (size - 1):
        return False
    lane = 1
    while lane < lanes and peek(table + lane * 8) == first + lane * size:
        lane += 1
    return lane == lanes


@core
def lines_table(m: Any, sm: s.SM, base: int, table: int, mask: int, size: int) -> int:
    """Like ``lines_affine``, for lanes at base + a distance from a table."""
    n = 0
    current = -1
    found = 0
    sectors = 0
    packed = 0
    words = 0
    lane_words = words_of(size)
    shift = m[s.chip.line_shift]
    sector_shift = m[s.chip.sector_shift]
    in_line = m[s.chip.line_bytes] - 1
    last_sector = m[s.chip.line_sectors] - 1
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        address = base + peek(table + lane * 8)
        line = address >> shift
        if line != current:
            if n:
                m[sm.line_sectors[found]] = sectors
                m[sm.line_bytes[found]] = packed
                m[sm.line_words[found]] = words
            current = line
            found = entry_of(m, sm, line, n)
            if found == n:
                n += 1
                m[sm.lines[found]] = line
                sectors = 0
                packed = 0
                words = 0
            else:
                sectors = m[sm.line_sectors[found]]
                packed = m[sm.line_bytes[found]]
                words = m[sm.line_words[found]]
        sector = (address >> sector_shift) & last_sector
        sectors |= 1 << sector
        packed += size << (sector * 16)
        words |= lane_words << ((address & in_line) >> 2)
    if n:
        m[sm.line_sectors[found]] = sectors
        m[sm.line_bytes[found]] = packed
        m[sm.line_words[found]] = words
    return n


@core
def count_passes(m: Any, sm: s.SM, addresses: Addresses, n: int) -> None:
    """How an atomic on ``n`` lines falls on their sectors, into the scratch of covered sectors.

    ``chip.pass_bits`` for each sector.
    """
    base, tabled, step, mask = addresses
    bits = m[s.chip.pass_bits]
    most_words = (1 << (bits - LANE_BITS)) - 1
    for i in range(n):
        m[sm.line_bytes[i]] = 0
    if not tabled and step == 0:
        m[sm.line_bytes] = (popcount(mask) | 1 << LANE_BITS) << (bits * sector_of(m, base))
        return
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        address = address_of(base, tabled, step, lane)
        same = 1
        if tabled:
            before = mask & ((1 << lane) - 1)
            while before:
                if base + peek(step + lowest_bit(before) * 8) == address:
                    same += 1
                before &= before - 1
        line = line_of(m, address)
        i = 0
        while i < n - 1 and m[sm.lines[i]] != line:
            i += 1
        shift = bits * sector_of(m, address)
        held = m[sm.line_bytes[i]]
        most = (held >> shift) & LANE_COUNT
        words = ((held >> (shift + LANE_BITS)) & most_words) + (1 if same == 1 else 0)
        merged = (max(most, same) | min(words, most_words) << LANE_BITS) << shift
        m[sm.line_bytes[i]] = (held & ~(((1 << bits) - 1) << shift)) | merged


@core
def lanes_on_word(m: Any, packed: int, sector: int) -> int:
    """The most lanes on one word of a sector, from ``count_passes``."""
    return (packed >> (m[s.chip.pass_bits] * sector)) & LANE_COUNT


@core
def words_named(m: Any, packed: int, sector: int) -> int:
    """The number of different words of a sector that are accessed, from ``count_passes``."""
    bits = m[s.chip.pass_bits]
    return (packed >> (bits * sector + LANE_BITS)) & ((1 << (bits - LANE_BITS)) - 1)


@core
def most_on_a_word(m: Any, packed: int) -> int:
    """The most lanes on one word of a line, from ``count_passes``."""
    most = 0
    for sector in range(m[s.chip.line_sectors]):
        most = max(most, lanes_on_word(m, packed, sector))
    return most


@core
def passes_of(m: Any, packed: int) -> int:
    """Sum over a line's sectors of the most lanes on one word."""
    total = 0
    for sector in range(m[s.chip.line_sectors]):
        total += lanes_on_word(m, packed, sector)
    return total


@core
def store_packets(m: Any, sm: s.SM, addresses: Addresses, size: int) -> int:
    """Packets in which a store goes to another SM: a whole sector, or 16 bytes of which some are written (bench.micro ``remote_places``)."""
    base, tabled, step, mask = addresses
    n = 0
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        unit = address_of(base, tabled, step, lane) >> 4
        found = entry_of(m, sm, unit, n)
        if found == n:
            n += 1
            m[sm.lines[found]] = unit
            m[sm.line_bytes[found]] = 0
        m[sm.line_bytes[found]] += size
    packets = n
    for i in range(n):
        for j in range(n):
            if m[sm.lines[i]] & 1 == 0 and m[sm.lines[j]] == m[sm.lines[i]] + 1:
                packets -= m[sm.line_bytes[i]] >= 16 and m[sm.line_bytes[j]] >= 16
    return packets


@core
def lines_local(m: Any, sm: s.SM, physical: int, addresses: Addresses, size: int) -> int:
    """Lines of local memory: word w of lane l is at physical + (w * lanes + l) * 4, so equal offsets share a line."""
    base, tabled, step, mask = addresses
    n = 0
    words = max(size >> 2, 1)
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        offset = address_of(base, tabled, step, lane) & 0xFFFFFF
        for j in range(words):
            address = physical + (((offset >> 2) + j) * m[s.chip.lanes] + lane) * 4
            line = line_of(m, address)
            found = entry_of(m, sm, line, n)
            if found == n:
                n += 1
                m[sm.lines[found]] = line
                m[sm.line_sectors[found]] = 0
                m[sm.line_bytes[found]] = 0
            sector = sector_of(m, address)
            m[sm.line_sectors[found]] |= 1 << sector
            m[sm.line_bytes[found]] += min(size, 4) << (sector * 16)
    return n


@core
def wavefronts(m: Any, sm: s.SM, addresses: Addresses, size: int, distinct: bool, packs: bool) -> int:
    """Wavefronts of a shared-memory access: for each group of lanes, the most different words that one bank holds.

    ``distinct``: atomics, where equal words conflict as well.  ``packs``: loads, whose groups are twice as large where lanes have the same
    addresses in pairs (``pairwise``).
    """
    base, tabled, step, mask = addresses
    if not tabled and not distinct:
        if step == 0:
            return active_groups(m, mask, lanes_together(m, size) * 2 if packs else lanes_together(m, size))
        if step == size and mask == m[s.chip.full_wave] and (base & (size - 1)) == 0:
            return max(m[s.chip.lanes] * size // (4 * m[s.chip.banks]), 1)
    return max(bank_passes(m, sm, addresses, size, distinct, packs), 1)


@core
def lanes_together(m: Any, size: int) -> int:
    """Lanes whose words the data stage transfers at once: one for each bank, half as many for 8 bytes per lane, a quarter for 16."""
    banks = m[s.chip.banks]
    return banks if size <= 4 else (banks >> 1 if size == 8 else banks >> 2)


@core
def active_groups(m: Any, mask: int, lanes: int) -> int:
    """The number of groups of neighbouring lanes that have an active lane."""
    if lanes >= m[s.chip.lanes]:
        return 1
    count = 0
    for first in range(0, m[s.chip.lanes], lanes):
        if (mask >> first) & ((1 << lanes) - 1):
            count += 1
    return count


@core
def pairwise(addresses: Addresses, apart: int) -> bool:
    """Whether all active lanes have the address of the lane whose number differs by ``apart``, where that is active.

    NVIDIA says for Volta and Turing (developer forum, "Unexpected shared memory bank conflict") that loads by pairs of lanes 1 or 2 apart return two
    registers per cycle; an H200 takes 1 and 2 cycles for LDS.64 and LDS.128 of pairs, 2 and 4 of other lanes (bench.micro ``shared``).
    """
    base, tabled, step, mask = addresses
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        other = lane ^ apart
        if (mask >> other) & 1 and address_of(base, tabled, step, lane) != address_of(base, tabled, step, other):
            return False
    return True


@core
def bank_passes(m: Any, sm: s.SM, addresses: Addresses, size: int, distinct: bool, packs: bool) -> int:
    """Sum over the groups of lanes (``lanes_together``) of the most different words in one bank.

    The same lanes at the same distances recur, so counts are stored for each group of SMs. A count depends only on the pattern and on the base's bank, and a
    pattern's table is a part of the compiled kernel.
    """
    base, tabled, step, mask = addresses
    if (tabled and base == 0) or m[s.chip.lanes] > 32:  # addresses in the record itself, or a mask that fills the word
        return count_bank_passes(m, sm, addresses, size, distinct, packs)
    known = pattern_of(base, tabled, mask, size) | (1 if distinct else 0) << 45 | (1 if packs else 0) << 47
    kept = m[sm.passes] + place_of_pattern(step, known, s.PASSES_KEPT) * s.PASSES_SLOTS
    other = kept + s.PASSES_SLOTS
    if m[kept] == step and m[kept + 1] == known:
        return m[kept + 2]
    if m[other] == step and m[other + 1] == known:
        return m[other + 2]
    passes = count_bank_passes(m, sm, addresses, size, distinct, packs)
    for i in range(3):
        m[other + i] = m[kept + i]
    m[kept] = step
    m[kept + 1] = known
    m[kept + 2] = passes
    return passes


@core
def count_bank_passes(m: Any, sm: s.SM, addresses: Addresses, size: int, distinct: bool, packs: bool) -> int:
    """``bank_passes``, counted."""
    base, tabled, step, mask = addresses
    lanes_per_group = lanes_together(m, size)
    if packs and lanes_per_group < m[s.chip.banks] and (pairwise(addresses, 1) or pairwise(addresses, 2)):
        lanes_per_group *= 2
    words = max(size >> 2, 1)
    total = 0
    first = 0
    banks = m[sm.banks]
    turn = m[banks + s.BANK_TURN]
    while first < m[s.chip.lanes]:
        left = (mask >> first) & ((1 << lanes_per_group) - 1)
        if left:
            # Counts carry the number of their group, so that none must be cleared.
            turn += 1
            worst = 1
            while left:
                lane = first + lowest_bit(left)
                left &= left - 1
                address = address_of(base, tabled, step, lane)
                for j in range(words):
                    word = (address >> 2) + j
                    bank = word & (m[s.chip.banks] - 1)
                    entry = m[banks + bank]
                    held = entry & 255 if entry >> 8 == turn else 0
                    start = banks + s.BANK_WORDS + bank * s.BANK_ROOM
                    seen = False
                    if not distinct:
                        for i in range(held):
                            if m[start + i] == word:
                                seen = True
                                break
                    if not seen and held < s.BANK_ROOM:
                        m[start + held] = word
                        m[banks + bank] = turn << 8 | held + 1
                        worst = max(worst, held + 1)
            total += worst
        first += lanes_per_group
    m[banks + s.BANK_TURN] = turn
    return total


@core
def different(m: Any, sm: s.SM, addresses: Addresses, bits: int) -> int:
    """Put the lanes' different addresses, masked by ``bits``, into the scratch, in the order of lanes; returns their number."""
    base, tabled, step, mask = addresses
    count = 0
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        offset = address_of(base, tabled, step, lane) & bits
        known = 0
        while known < count and m[m[sm.banks] + known] != offset:
            known += 1
        if known == count:
            m[m[sm.banks] + count] = offset
            count += 1
        if not tabled and step == 0:
            break
    return count


@core
def tag_passes(m: Any, sm: s.SM, n: int, banks: int) -> int:
    """Passes of L1's tag stage over ``n`` lines: the most lines in one of its banks.

    With four banks (``address_hash.tag_bank``) lines 0, 1, 2, 3, or 0, 2, 4, 6, or 0, 8, 16, 24 take one pass, 0, 3, 6, 9 take
    three, and eight lines three apart five (bench.micro ``banks`` on H200).  More than four banks are not distinguished.
    """
    if banks == 1 or n <= 1:
        return n
    counts = 0
    worst = 0
    for i in range(n):
        line = m[sm.lines[i]]
        shift = 8 * (tag_bank(m, line) & (banks - 1))
        counts += 1 << shift
        worst = max(worst, (counts >> shift) & 255)
    return worst


@core
def ideal_wavefronts(m: Any, mask: int, size: int) -> int:
    """Wavefronts that a number of bytes needs without conflicts: each has a word of every bank."""
    shift = 7 if m[s.chip.banks] == 32 else 6
    return max((popcount(mask) * size + (1 << shift) - 1) >> shift, 1)
