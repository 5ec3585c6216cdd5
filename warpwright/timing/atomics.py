"""Atomics at L2: a slice executes the lanes on one word one by one, and remembers the lines of its most recent atomics.

Rates are those of a real H200 (``bench/micro``: ``contended``, ``ordered``, ``uneven``, ``scattered_atomics``).
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, popcount
from warpwright.timing import state as s
from warpwright.timing.coalescer import lanes_on_word, passes_of, words_named
from warpwright.timing.compression import note_change
from warpwright.timing.dram import channel_held, dram_read, hold_channel, read_begun
from warpwright.timing.l2 import (
    COPIED,
    PARTS,
    busy,
    counterpart,
    counters,
    filled,
    find,
    home_of_write,
    is_far,
    past_hold,
    port,
    sectors_in_part,
    touch,
    widen,
    write_port,
)
from warpwright.timing.l2_hazards import FRACTION, atomics_on, note_access, queue_of, take_line, write_turn


@core
def atomic_cost(m: Any, words: int, again: bool) -> int:
    """Bytes of a slice's bandwidth that an atomic on one line takes (bench/micro on H200, ``contended``).

    A sector takes one pass for each lane on its most requested word. Floating-point sums on one word wait for each other, and for those of the previous atomic
    if it was on the same line (``again``): sums on one word 3.47, on four lines in turn 1.92. Compare-and-swap and
    doubles pass a sector more often (``l2_atomic_wide_passes_count``). Sums of floats and halves have a rate of their own in words of a sector, which limits
    V100 (NVIDIA A100 whitepaper, "Atomics Improvements"). Bits of ``kind``: sums that wait for each other, several passes, words of 8 bytes, and 16: halves.
    """
    kind = words >> 48
    total = 0
    chain = 0
    for sector in range(m[s.chip.line_sectors]):
        lanes = lanes_on_word(m, words, sector)
        if lanes:
            if m[s.chip.atomic_combined] > 1:
                lanes = (lanes + m[s.chip.atomic_combined] - 1) // m[s.chip.atomic_combined]
            named = words_named(m, words, sector)
            parts = m[s.chip.atomic_wide_passes] if kind & 2 and named > 1 else 1
            whole = parts > 1 or (named << (3 if kind & 4 else 2)) >= m[s.chip.sector_bytes]
            passed = parts * m[s.chip.atomic_whole if whole else s.chip.atomic_part]
            if kind & 5 == 1:
                every = m[s.chip.atomic_fp16 if kind & 16 else s.chip.atomic_fp32]
                passed = max(passed, every * named // (m[s.chip.sector_bytes] >> 2))
            total += lanes * passed
            if kind & 1:
                turn = m[s.chip.atomic_sum] + (parts - 1) * m[s.chip.atomic_whole]
                chain = max(chain, lanes * turn if again else (lanes - 1) * turn + passed)
    return max(total, chain)


@core
def atomic_turns(m: Any, home: int, words: int, time: int) -> int:
    """Changes between atomics with and without an answer that a request causes at its slice.

    Each kind has its own queue; passes over part of a sector alternate when both queues have some (bench.micro ``uneven``: each pair of
    lanes that meet costs 1.4 to 2 cycles, whichever waits longer; whole sectors cost none).
    """
    lanes = 0
    for sector in range(m[s.chip.line_sectors]):
        if words_named(m, words, sector) << (3 if (words >> 50) & 1 else 2) < m[s.chip.sector_bytes]:
            lanes += lanes_on_word(m, words, sector)
    # By slice and kind: until when its last request waits, and how many lanes do.
    mine = m[s.chip.atomic_last] + 2 * home + ((words >> 51) & 1)
    other = mine ^ 1
    met = min(m[other] & 1023 if m[other] >> 10 > time else 0, lanes)
    m[other] -= met
    before = m[mine] & 1023 if m[mine] >> 10 > time else 0
    m[mine] = (m[mine] & ~1023) | min(before + lanes - met, 1023)
    return met


@core
def atomic_change(m: Any, home: int, line: int, answers: bool) -> int:
    """Bytes of a slice's bandwidth for an atomic on a line that its last atomics did not use (bench.micro ``scattered_atomics``: words at
    random 51 per cycle over the chip, with an answer 40; on lines that stay the same 65)."""
    last = m[s.chip.atomic_lines] + home * m[s.chip.atomic_line_count]
    known = line + 1  # 0: none
    before = known
    for i in range(m[s.chip.atomic_line_count]):
        held = m[last + i]
        m[last + i] = before
        if held == known:
            return 0
        before = held
    return m[s.chip.atomic_change_answer if answers else s.chip.atomic_change]


@core
def cost_on_new_line(m: Any, words: int, sectors: int, cost: int, change: int) -> int:
    """Bytes of a slice's bandwidth for an atomic on a line that its last atomics did not use, which otherwise takes ``cost``.

    Each sector has to be read and written back, and the request takes as long as one of them, unless it is for a single word (bench.machine.atomic_misses ``several``
    on an H200: 1.76 cycles for a word, 2.43 for two to eight words of a sector, 3.64 for two sectors and 6.1 for four, whatever the number of their words).
    """
    least = 0 if words_in_all(m, words) == 1 else (popcount(sectors) + 1) * m[s.chip.atomic_new_line]
    return max(cost + change, least)


@core
def words_in_all(m: Any, words: int) -> int:
    """The number of different words of a line that are accessed."""
    total = 0
    for sector in range(m[s.chip.line_sectors]):
        total += words_named(m, words, sector)
    return total


@core
def drop_copy(m: Any, home: int, line: int) -> None:
    """The other side's copy of a line is gone."""
    copy = find(m, counterpart(m, home), line)
    if copy >= 0:
        m[m[s.chip.l2_tags] + copy] &= ~15


@core
def atomics_of_line(m: Any, home: int, line: int) -> s.LineAtomics:
    """What a home remembers of the atomics on a line, which takes the place from now on."""
    entry = atomics_on(m, home, line)
    if m[entry] != line + 1:
        if m[entry.leaves]:
            drop_copy(m, home, m[entry] - 1)
        m[entry] = line + 1
        m[entry.near] = 0
        m[entry.far] = 0
        m[entry.read] = 0
        m[entry.held] = 0
        m[entry.share] = 0
        m[entry.turn] = 0
        m[entry.leaves] = 0
        m[entry.free] = 0
        m[entry.taken] = 0
        m[entry.requests] = 0
    return entry


@core
def note_busiest(m: Any, home: int, line: int, entry: s.LineAtomics, taken: int, passes: int) -> None:
    """Count an atomic of a slice, and keep the line whose atomics took most of its time, without the last one, which may end after the launch."""
    before = m[entry.taken]
    m[entry.taken] = before + taken
    m[entry.requests] += 1
    queue = queue_of(m, home)
    m[queue.atomics_taken] += m[queue.atomics_last]
    m[queue.atomics_last] = taken
    m[queue.atomics_requests] += 1
    m[queue.atomics_passes] += passes
    if before >= m[queue.busiest_taken]:
        m[queue.busiest] = line + 1
        m[queue.busiest_taken] = before
        m[queue.busiest_requests] = m[entry.requests]


@core
def let_go(m: Any, home: int, line: int, place: int, entry: s.LineAtomics, start: int, far: bool) -> int:
    """Make the other side drop its copy of a line that an atomic changes at ``start``; returns until when the line waits for that.

    An atomic from that side passes the copy on its way. One from the home's own side sends a request and waits for the answer, as long as a read takes across and back
    (bench.micro ``beside``: where 66 warps on the other side look, 528 on the home's side add 0.33 times a cycle, otherwise 0.58).
    """
    tag_at = m[s.chip.l2_tags] + place
    if m[tag_at] & COPIED == 0 or (
        start <= m[entry.read] and not far
    ):  # a read that arrived later was served first here
        return start
    m[tag_at] &= ~COPIED
    if far:
        drop_copy(m, home, line)
        m[entry.leaves] = 0
        return start
    copy = find(m, counterpart(m, home), line)
    if copy < 0 or m[m[s.chip.l2_tags] + copy] & 15 == 0:
        return start
    way = m[s.chip.far_latency]
    m[entry.leaves] = start + (way >> 1)
    m[entry.held] = start + way
    return start + way


@core
def wait_for_batch(m: Any, home: int, line: int, time: int) -> int:
    """When an atomic that needs DRAM goes on (``hold_channel``).  Until then its slice loses the channel's share of both ports.

    (bench.machine.atomic_misses on an H200, ``dirty``: where one in 8 and one in 4 additions miss, each batch costs 264 ns of its channel's additions, about the length of the batch, although
    additions to the slice's other channel are waiting.)
    """
    held = channel_held(m, home, line)
    ends = hold_channel(m, home, line, time)
    channels = m[s.chip.channels_per_slice]
    if ends > time:
        waits = queue_of(m, home).waits
        m[waits] = max(m[waits], ends)
        at = max(time, held)
        while at < ends and channels > 1:
            most = min(1 << s.CALENDAR_SHIFT, ends - at)
            busy(m, home, at, (m[s.chip.slice_capacity] // channels * most) >> s.CALENDAR_SHIFT)
            at += most
    return ends


@core
def atomic(m: Any, partition: int, home: int, line: int, sectors: int, words: int, time: int) -> int:
    """When the home has executed an atomic on sectors of a line (``words``: see ``atomic_words``)."""
    passes = passes_of(m, words)
    counts = counters(m, home)
    m[counts.atomic] += passes
    back = 0
    far = is_far(m, partition, home)
    if far:
        back = m[s.chip.far_latency] - (m[s.chip.far_latency] >> 1)
        m[counts.far_atomics] += passes
    side = counterpart(m, home) if far else home
    taken = write_turn(m, side, line, time, 0)
    arrives = home_of_write(m, partition, home, taken, popcount(sectors) * m[s.chip.far_atomic])
    entry = atomics_of_line(m, home, line)
    arrives = past_hold(m, home, line, max(arrives, m[entry.held]))
    again = m[m[s.chip.atomic_lines] + home * m[s.chip.atomic_line_count]] == line + 1
    units = atomic_cost(m, words, again)
    change = atomic_change(m, home, line, bool((words >> 51) & 1))
    if change:
        units = cost_on_new_line(m, words, sectors, units, change)
    units += atomic_turns(m, home, words, arrives) * m[s.chip.atomic_turn]
    # An atomic reads and writes: it takes both ports (bench.micro ``scattered_atomics``, load_red).
    arrives = port(m, home, arrives, units >> m[s.chip.sector_shift])
    start = max(write_port(m, home, arrives, units), m[entry.free] >> FRACTION)
    if not far:
        # Atomics on the same line follow each other, and wait together while the other side has a copy of the line (``lent_and_back``).
        start = max(start, m[entry.near])
    done = start + (units << s.CALENDAR_SHIFT) // m[s.chip.slice_capacity]
    turn = take_line(m, entry, start << FRACTION, units)
    note_busiest(m, home, line, entry, m[entry.free] - turn, passes)
    mine = m[s.chip.atomic_last] + 2 * home + ((words >> 51) & 1)
    m[mine] = max(done, m[mine] >> 10) << 10 | (m[mine] & 1023)
    touched = touch(m, home, line, start, far, -1)
    place = touched >> 40
    if m[s.chip.compressible_count]:
        note_change(m, line, False)
    done = max(done, let_go(m, home, line, place, entry, start, far))
    last = entry.far if far else entry.near
    m[last] = max(m[last], done)
    note_access(m, entry, True, arrives)
    ready = touched & ((1 << 40) - 1)
    accepted = max(start, ready)
    tag_at = m[s.chip.l2_tags] + place
    tag = m[tag_at]
    # An atomic needs all of the old content.
    missing = sectors & (~tag | sectors_in_part(m, m[m[s.chip.l2_fills] + place] & PARTS)) & 15
    if missing:
        m[counts.missed_atomic] += popcount(missing)
        m[m[s.chip.l2_fills] + place] &= ~PARTS
        # bench.machine.atomic_misses ``sides``: those of the home's side fetch 64 bytes
        fetch = missing if far else (widen(m, line, missing) & ~tag & 15) | missing
        come = dram_read(m, home, line, fetch, wait_for_batch(m, home, line, start))
        accepted = max(accepted, read_begun(m, home, line))
        filled(m, place, come)
        ready = max(ready, come)
        tag |= fetch
    m[tag_at] = tag | sectors | (sectors << 4)
    m[queue_of(m, home).accepted] = accepted - (m[s.chip.far_latency] >> 1 if far else 0)
    return max(ready + done - start, done) + m[s.chip.atomic_latency] + back
