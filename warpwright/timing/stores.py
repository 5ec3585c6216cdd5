"""Stores inside an SM: from the load/store unit through a queue into the store buffer, where they join, and out to L2.

The load/store unit takes stores of the four sub-cores in turn, two cycles each, and places them in a queue, with the loads after them.  From there they go to the store
buffer, which holds lines: a store to a line that is still there joins it.  Lines leave in the order of their arrival, to an output that
takes a cycle per sector, one more for a line that is written in part (bench.micro ``access``, ``strided``, ``joins_once``,
``store_times``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from warpwright.engine.abi import HERE
from warpwright.native.intrinsics import core, lowest_bit, popcount
from warpwright.timing import state as s
from warpwright.timing.coalescer import covered, tag_passes, touched, words_in
from warpwright.timing.l1_sets import approach_l1, l1_find, take_place
from warpwright.timing.links import place_of
from warpwright.timing.mio_queue import enter_queue
from warpwright.timing.requests import new_request

WORD_BYTES = 4
PENDING = 15 << 4
"""Field of a line's tag: the sectors in flight."""


@core
def count_store(m: Any, sm: s.SM, w: s.Warp, local: bool) -> None:
    """Count a store that passes L1; the warp's next fence of block scope follows it."""
    m[sm + (s.SM.local_stores if local else s.SM.global_stores)] += 1
    m[w.wrote] = 1


@core
def note_way(m: Any, sm: s.SM, w: s.Warp, about: s.StoreBuffer, stored: int, local: bool) -> None:
    """Record for fences the cycle ``stored`` at which a store was in L1, and the cycle at which its lines are out."""
    m[w.stored] = stored
    if not local:
        m[about.last_shared] = m[about.last]
    m[w.drained] = max(m[w.drained], m[about.last])
    m[sm.finish] = max(m[sm.finish], m[about.last])


@core
def store_lines(m: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, time: int, n: int, size: int, local: bool) -> int:
    """Write through the ``n`` lines in the SM's scratch, ``size`` bytes per lane; returns the start in the load/store unit."""
    count_store(m, sm, w, local)
    buffer = sm + m[s.chip.join_at]
    about = s.StoreBuffer(buffer + m[s.chip.buffer_lines] * s.StoreLine.size)
    time = max(time, m[sm.store_free])
    number = m[about.stores]
    m[about.stores] = number + 1
    takes = m[about.takes]
    m[about.takes] = takes + 1
    taken = about.taken[takes % m[s.chip.store_queue]]
    # The store and all after it wait in the unit until the store that many places before it has left the queue.
    arrives = max(time + m[s.chip.mio_latency], m[sc.mio_free])
    waits = max(m[taken] - max(arrives, m[about.held]), 0)
    m[about.held] = max(m[about.held], m[taken])
    start = enter_queue(m, sm, sc, time, waits + max(m[s.chip.store_cycles], n // m[s.chip.l1_tag_banks]))
    at = max(max(start, m[about.held]), m[about.free])
    m[taken] = at
    begins = at
    # A line in which bytes are written, not words, takes two places.
    room = 1 if local or size >= WORD_BYTES else 2
    end = at + -(-n // m[s.chip.store_lines])
    before = max(end, m[about.last])
    stays = m[s.chip.store_join_line] * max(n - m[s.chip.store_join_free], 0)
    if n > 2:
        approach_l1(m, sm, n)
    for i in range(n):
        line = m[sm.lines[i]]
        sectors = m[sm.line_sectors[i]]
        held = m[sm.line_bytes[i]]
        if not local:
            m[sm.store_sectors] += popcount(sectors)
        words = m[sm.line_words[i]] if size >= WORD_BYTES else 0
        let_go(m, buffer, about, number, at)
        out = 0 if local else going_out(m, about, line, at)
        fresh = written_in_l1(m, sm, Written(line, sectors, held, words, local, out), at)
        entry = joinable(m, buffer, about, line)
        had = m[entry.sectors] if entry >= 0 else 0
        if entry >= 0 and join_store(m, sm, about, entry, sectors, held):
            if not local:
                m[sm.store_joined] += popcount(sectors & had)
            m[entry.touched] = end + stays
            m[entry.store] = number
            m[entry.fresh] |= fresh
            continue
        while m[about.room] + room > m[s.chip.buffer_lines]:
            at = max(at, send_first(m, buffer, about, at))
            end = max(end, at + 1)
        cycles = store_cost(m, line, sectors, held)
        last = max(m[about.last], end) + cycles
        request = new_request(m, sm, w, s.RQ_STORE, last, line, sectors, held)
        add_line(m, buffer, about, BufferedLine(number, line, sectors, room, end + stays, fresh, cycles, request), last)
        m[w.stores] += 1
        m[sm.stores_sent] += 1
    m[about.free] = max(end, at)
    if m[about.last] > before:
        pass_array(m, sm, about, begins, n, size, m[about.last] - before)
    note_way(m, sm, w, about, max(start, at) if local else start, local)
    m[sm.tag_lines] += n
    return start


@core
def behind_stores(m: Any, sm: s.SM, start: int) -> int:
    """When a load that the load/store unit accepted at ``start`` looks up L1: after the stores in the same queue that still wait for the buffer.

    On an H200 a load of L1 waits for 24 to 26 stores when the buffer is full, whatever their lines; one of shared memory for eight (bench.micro
    ``store_times``, ``held_up``).
    """
    about = s.StoreBuffer(sm + m[s.chip.join_at] + m[s.chip.buffer_lines] * s.StoreLine.size)
    free = m[about.free]
    if free <= start:
        return start
    number = m[about.takes]
    m[about.takes] = number + 1
    m[about.taken[number % m[s.chip.store_queue]]] = free
    return free


@core
def hold_stores(m: Any, sm: s.SM, start: int, passes: int) -> None:
    """L1's array makes the passes of a load: the lines of later stores wait for it.

    On an H200 (bench.micro ``copy_walks``) 64 cycles of a store of 32 lines become 70 to 75 with a load of 12 passes, where the store has 11 to 12 over tags, 75 to 84
    with one of 32 where it has 8, and 91 to 95 where it has 10.
    """
    about = s.StoreBuffer(sm + m[s.chip.join_at] + m[s.chip.buffer_lines] * s.StoreLine.size)
    if m[about.last] > start:
        m[about.array] = max(m[about.array], start) + passes


@core
def hold_output(m: Any, sm: s.SM, start: int, lines: int) -> None:
    """A load requests a number of lines that L1 lacks: the store buffer's output waits one cycle for each that arrives.

    One SM copies a line in 5.2 cycles, of which its store is 4 (bench.micro ``few_sms``); rows 4,100 bytes apart take 68 to 71 cycles of a store that alone takes 64
    (``copy_walks``: one load in eight brings 32 lines).  They are counted when they are requested, which is the same in a steady stream.
    """
    about = s.StoreBuffer(sm + m[s.chip.join_at] + m[s.chip.buffer_lines] * s.StoreLine.size)
    if m[about.last] > start:
        put_off(m, about, start, lines)


@core
def put_off(m: Any, about: s.StoreBuffer, start: int, cycles: int) -> None:
    """Delay the output by a number of cycles if it is busy at ``start``."""
    m[about.last] += cycles
    latest = about.output[(m[about.sent] + m[s.chip.output_lines] - 1) % m[s.chip.output_lines]]
    if m[latest] > start:
        m[latest] += cycles


@core
def pass_array(m: Any, sm: s.SM, about: s.StoreBuffer, start: int, n: int, size: int, output: int) -> None:
    """A store of the ``n`` lines in the scratch, which takes ``output`` cycles of the store buffer's output, passes L1's array: for a part of that time, longer as its
    lines share tag banks.

    This never makes stores of words slower than the rate at which their lines leave (bench.micro ``copy_walks``, ``store_beside``).  Where parts of words are
    written, these are read
    first: the array is taken as long as the output, and longer where more than half of the lanes name one bank (``narrow_stores``).
    """
    banks = m[s.chip.l1_tag_banks]
    passes = tag_passes(m, sm, n, banks)
    takes = min((output * passes * m[s.chip.store_share] >> 6) // ((n + banks - 1) // banks), output)
    if size < WORD_BYTES and parts_of_words(m, sm, n):
        takes = output
        if n > 2 and 2 * most_on_a_bank(m, sm, n) > n:
            takes = max(takes, passes * m[s.chip.narrow_pass] >> 6)
    m[about.array] = max(m[about.array], start) + takes
    if m[about.array] > m[about.last]:
        put_off(m, about, start, m[about.array] - m[about.last])


@core
def parts_of_words(m: Any, sm: s.SM, n: int) -> bool:
    """Whether the lines in the scratch have words that are written in part."""
    for i in range(n):
        held = m[sm.line_bytes[i]]
        written = (held & 0xFFFF) + (held >> 16 & 0xFFFF) + (held >> 32 & 0xFFFF) + (held >> 48 & 0xFFFF)
        if written < WORD_BYTES * popcount(m[sm.line_words[i]]):
            return True
    return False


@core
def most_on_a_bank(m: Any, sm: s.SM, n: int) -> int:
    """The largest number of lines in the scratch that are accessed in one bank."""
    once = 0
    for i in range(n):
        once |= m[sm.line_words[i]]
    worst = 0
    while once:
        bank = lowest_bit(once)
        once &= once - 1
        count = 0
        for i in range(n):
            count += (m[sm.line_words[i]] >> bank) & 1
        worst = max(worst, count)
    return worst


@core
def joinable(m: Any, buffer: int, about: s.StoreBuffer, line: int) -> s.StoreLine:
    """The place of a line in the store buffer; -1 if it is not there or if stores never join."""
    if m[s.chip.store_join] == 0:
        return s.StoreLine(-1)
    first = m[about.first]
    for i in range(m[about.count]):
        place = first + i
        entry = s.StoreLine(
            buffer + (place - m[s.chip.buffer_lines] if place >= m[s.chip.buffer_lines] else place) * s.StoreLine.size
        )
        if m[entry.line] == line:
            return entry
    return s.StoreLine(-1)


@core
def leaves(m: Any, about: s.StoreBuffer, since: int) -> int:
    """When the buffer's first line, which may leave from ``since`` on, can go to the output: one per cycle while the output has room."""
    oldest = m[about.output[m[about.sent] % m[s.chip.output_lines]]]
    return max(max(since, oldest), m[about.went] + 1)


@core
def send_first(m: Any, buffer: int, about: s.StoreBuffer, since: int) -> int:
    """Send the buffer's first line, which may leave from ``since`` on, to the output; returns when."""
    entry = s.StoreLine(buffer + m[about.first] * s.StoreLine.size)
    goes = leaves(m, about, since)
    sent = m[about.sent]
    before = m[about.output[(sent + m[s.chip.output_lines] - 1) % m[s.chip.output_lines]]]
    place = sent % m[s.chip.output_lines]
    begins = max(goes, before)
    m[about.output[place]] = begins + m[entry.cycles]
    m[about.out_until[place]] = begins + popcount(m[entry.sectors]) + m[s.chip.store_sent]
    m[about.out_lines[place]] = m[entry.line]
    m[about.out_fresh[place]] = m[entry.fresh]
    m[about.sent] = sent + 1
    m[about.went] = goes
    m[about.first] = (m[about.first] + 1) % m[s.chip.buffer_lines]
    m[about.count] -= 1
    m[about.room] -= m[entry.room]
    return goes


@core
def let_go(m: Any, buffer: int, about: s.StoreBuffer, number: int, time: int) -> None:
    """Lines that have left when store ``number`` arrives."""
    while m[about.count]:
        entry = s.StoreLine(buffer + m[about.first] * s.StoreLine.size)
        since = m[entry.touched] + m[s.chip.store_join_alone if m[entry.store] >= number - 1 else s.chip.store_join]
        if leaves(m, about, since) > time:
            return
        send_first(m, buffer, about, since)


@core
def going_out(m: Any, about: s.StoreBuffer, line: int, time: int) -> int:
    """If a line is in the output at ``time``: its sectors that L1 has only from earlier stores; otherwise 0."""
    last = (m[about.sent] + m[s.chip.output_lines] - 1) % m[s.chip.output_lines]
    if m[about.out_until[last]] <= time:
        return 0
    for place in range(m[s.chip.output_lines]):
        if m[about.out_lines[place]] == line and m[about.out_until[place]] > time:
            return m[about.out_fresh[place]]
    return 0


@core
def store_cost(m: Any, line: int, sectors: int, held: int) -> int:
    """Cycles of the output for a line: a sector per cycle on H200, one more when part of a sector is written or it is elsewhere (``python -m
    bench.elsewhere``: whole lines 5 cycles instead of 4), at least two."""
    sector = max(m[s.chip.sector_bytes] // m[s.chip.l1_write_bytes], 1)
    cost = popcount(sectors) * sector
    if popcount(covered(m, held)) < popcount(sectors) or place_of(m, line) != HERE:
        cost += sector
    return max(cost, 2 * sector)


class BufferedLine(NamedTuple):
    """A line that enters the store buffer."""

    store: int
    """The number of the store that brings it."""
    line: int
    sectors: int
    room: int
    """Places that it takes."""
    touched: int
    """When it can no longer be joined, apart from the chip's delays."""
    fresh: int
    """Sectors that L1 has only from this store."""
    cycles: int
    """Cycles of the output."""
    request: int


@core
def add_line(m: Any, buffer: int, about: s.StoreBuffer, one: BufferedLine, last: int) -> None:
    """Put a line after the others, which has left at ``last``: lines leave in order, so it is known when it will go, and its request is made at once."""
    entry = s.StoreLine(buffer + (m[about.first] + m[about.count]) % m[s.chip.buffer_lines] * s.StoreLine.size)
    m[about.count] += 1
    m[about.room] += one.room
    m[about.last] = last
    m[entry.line] = one.line
    m[entry.sectors] = one.sectors
    m[entry.touched] = one.touched
    m[entry.store] = one.store
    m[entry.cycles] = one.cycles
    m[entry.room] = one.room
    m[entry.fresh] = one.fresh
    m[entry.window] = m[s.chip.now]
    m[entry.request] = one.request


class Written(NamedTuple):
    """The part of a store that goes to one line."""

    line: int
    sectors: int
    held: int
    """Bytes of each sector, 16 bits each."""
    words: int
    """Sectors that are written completely."""
    local: bool
    out: int
    """The sectors that L1 has from an earlier store to the line that is in the output."""


@core
def written_in_l1(m: Any, sm: s.SM, what: Written, time: int) -> int:
    """Update L1 after a store (bench.micro ``kept`` on H200).

    Loads hit if they need only the stored bytes; a sector that L1 held is kept. But while sectors of the line are in flight, a store leaves only its own
    bytes: arriving data serves the waiting loads and is not kept, and L1 drops the rest of the line, whether loaded or stored (``kept_in_flight``).

    Of sectors that L1 has from an earlier store to the line which is in the output just now (``what.out``) it loses all, and all that is written
    with them where that reaches beyond them and shares a sector that it does not fill (``kept_behind``). Returns the sectors that L1 lacked.

    Local memory belongs to the thread, so its stores are kept, however few bytes they have (of 158,000 sectors that recursive code on an
    H200 reads back by few lanes L2 sees none).
    """
    line, sectors, held, words, local, out = what
    if not local and m[s.chip.l1_sees_writes] == 0:
        return 0
    place = l1_find(m, sm, line, time)
    ways = m[s.chip.l1_ways]
    if not local and m[s.chip.l1_keeps_writes] == 0:
        if place >= 0:
            m[place] &= ~sectors
        return 0
    whole = sectors if local else covered(m, held)
    if place < 0:
        place = -1 - place
        take_place(m, place, line, time)
    elif whole == m[s.chip.whole_line]:
        m[place + ways * s.C_FILL] = time
    m[place + ways * s.C_STAMP] = time
    tag = m[place]
    if tag & PENDING or m[place + ways * s.C_FILL] > time:
        tag &= ~(PENDING | 15)
        m[place + ways * s.C_WORDS] = 0
    if out:
        lost = out | sectors if out & sectors & ~whole else out
        tag &= ~lost
        m[place + ways * s.C_WORDS] &= ~words_in(m, lost)
        if lost != out:
            m[place] = tag
            return sectors
    part = sectors & ~(whole | tag)
    if part:
        stored = m[place + ways * s.C_WORDS] | words
        m[place + ways * s.C_WORDS] = stored
        whole |= part & ~touched(m, ~stored)
    m[place] = tag | whole
    return sectors & ~tag


@core
def join_store(m: Any, sm: s.SM, about: s.StoreBuffer, entry: s.StoreLine, sectors: int, held: int) -> bool:
    """Add bytes to a line of the store buffer; False if its request went to L2 in an earlier window and lacks the sectors."""
    if m[entry.window] != m[s.chip.now]:
        return sectors & ~m[entry.sectors] == 0
    r = s.Request(sm + m[s.chip.requests_at] + m[entry.request] * s.Request.size)
    m[entry.sectors] |= sectors
    m[r.sectors] = m[entry.sectors]
    before = m[r.full]
    together = 0
    for sector in range(4):
        shift = 16 * sector
        together |= min(((before >> shift) & 0xFFFF) + ((held >> shift) & 0xFFFF), m[s.chip.sector_bytes]) << shift
    m[r.full] = together
    cycles = store_cost(m, m[entry.line], m[entry.sectors], together)
    m[about.last] += max(cycles - m[entry.cycles], 0)
    m[entry.cycles] = cycles
    return True
