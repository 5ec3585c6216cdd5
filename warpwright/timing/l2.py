"""L2 and the crossbar: slices, two partitions, atomics; the serial phase between windows.

Lines are spread over slices by a hash; each slice is the home of its lines and owns the DRAM channels behind them.  On chips with two
partitions an SM asks the slice of its own partition first, which keeps copies of lines whose home is on the
other side and fetches what it lacks over the link (NVIDIA A100 whitepaper, "A100 L2 Cache"; a real H200 shows 60 MB
as two times 30).  Writes and atomics go to the home, which is the point of coherence.

Requests are served in order of (time, SM, number), so results and cycles do not depend on host threads; strong
accesses are executed here, in that order.
"""

from __future__ import annotations

from typing import Any

from warpwright.timing import state as s
from warpwright.timing.coalescer import count_passes, covered, passes_of, wavefronts
from warpwright.timing.dram import dram_read, dram_write
from warpwright.timing.l1 import SPACE_SHARED, atomic_waves, atomic_words, fill_lines, owe, space_of
from warpwright.timing.native import core, lowest_bit, popcount, u
from warpwright.timing.ports import reserve
from warpwright.timing.records import address_of, record_at
from warpwright.timing.warp import mark, run_function, start_block_of, take_block

# A tag: line << TAG_SHIFT | sectors that came beside others << 9 | a copy lies in the other partition << 8 | dirty sectors << 4
# | valid sectors
TAG_SHIFT = 13
_BESIDE = 9
_COPIED = 1 << 8
# A fill: when the last sectors came << 12 | words written of each sector that is known in part, 3 bits a sector
_PARTS = (1 << 12) - 1
WRITE_SLACK_CYCLES = 256
"""How far DRAM's write queue may be behind before L2 takes no more dirty lines."""


@core
def slice_of(m: Any, line: int) -> int:
    """The home slice: every group of as many chunks of neighbouring lines as there are slices visits each once."""
    slices = m[u(s.H_SLICES)]
    chunk = line >> m[u(s.H_CHUNK_SHIFT)]
    group = chunk // slices
    turn = ((group * s.GOLDEN) >> 40) & 0xFFFFFF
    return (chunk - group * slices + turn) % slices


@core
def find(m: Any, piece: int, line: int) -> int:
    """Place of a line in a slice, or -1 - place of the way to replace."""
    ways = m[u(s.H_L2_WAYS)]
    shift = m[u(s.H_CHUNK_SHIFT)]
    mine = ((line >> shift) // m[u(s.H_SLICES)] << shift) + (line & ((1 << shift) - 1))
    mixed = ((mine * s.GOLDEN) >> 44) & 0xFFFFF
    first = piece * m[u(s.H_L2_SLICE_WAYS)] + ((mixed * m[u(s.H_L2_SETS)]) >> 20) * ways
    tags = m[u(s.H_L2_TAGS)] + first
    for way in range(ways):
        if m[u(tags + way)] >> TAG_SHIFT == line:
            return first + way
    stamps = m[u(s.H_L2_STAMPS)] + first
    victim = 0
    oldest = s.INF
    for way in range(ways):
        if m[u(stamps + way)] < oldest:
            oldest = m[u(stamps + way)]
            victim = way
    return -1 - (first + victim)


@core
def filled(m: Any, place: int, time: int) -> None:
    """Sectors of a line come at ``time``."""
    at = m[u(s.H_L2_FILLS)] + place
    if time > m[u(at)] >> 12:
        m[u(at)] = time << 12 | (m[u(at)] & _PARTS)


@core
def sectors_in_part(parts: int) -> int:
    """Mask of the sectors of which only some words are known."""
    mask = 0
    for sector in range(4):
        if (parts >> (3 * sector)) & 7:
            mask |= 1 << sector
    return mask


@core
def complete(m: Any, piece: int, place: int, time: int) -> int:
    """Read the rest of a line's partly written sectors from DRAM and write them back; gives the sectors.

    The error code of a sector needs all of it (a real H200 counts such look-ups as ``lts__t_sectors_data_ecc``).
    """
    fill_at = m[u(s.H_L2_FILLS)] + place
    tag_at = m[u(s.H_L2_TAGS)] + place
    sectors = sectors_in_part(m[u(fill_at)] & _PARTS) & (m[u(tag_at)] >> 4)
    m[u(fill_at)] &= ~_PARTS
    if sectors:
        line = m[u(tag_at)] >> TAG_SHIFT
        come = dram_read(m, piece, line, sectors, time)
        dram_write(m, piece, line, sectors, come)
        m[u(s.H_L2_COMPLETED)] += popcount(sectors)
        m[u(tag_at)] &= ~(sectors << 4)
    return sectors


@core
def write_in_part(m: Any, piece: int, place: int, sectors: int, held: int, time: int) -> None:
    """Note which sectors of a line a write leaves known in part; ``held`` has the bytes written of each sector.

    Only some ways of a set may hold such lines: the one used longest ago is completed for another (bench.micro
    ``scattered_once`` and ``strided4`` under a profiler: about 61,000 lines of H200's L2, an eighth of it).
    """
    fill_at = m[u(s.H_L2_FILLS)] + place
    before = m[u(fill_at)] & _PARTS
    valid = m[u(m[u(s.H_L2_TAGS)] + place)] & 15
    parts = before
    for sector in range(4):
        if (sectors >> sector) & 1 == 0:
            continue
        words = (parts >> (3 * sector)) & 7
        if words == 0 and (valid >> sector) & 1:
            continue
        words += max(((held >> (16 * sector)) & 0xFFFF) >> 2, 1)
        parts &= ~(7 << (3 * sector))
        if words < 8:
            parts |= words << (3 * sector)
    m[u(fill_at)] = (m[u(fill_at)] & ~_PARTS) | parts
    if before or not parts:
        return
    ways = m[u(s.H_L2_WAYS)]
    first = place - place % ways
    count = 0
    oldest = s.INF
    victim = place
    for way in range(first, first + ways):
        if m[u(m[u(s.H_L2_FILLS)] + way)] & _PARTS:
            count += 1
            if way != place and m[u(m[u(s.H_L2_STAMPS)] + way)] < oldest:
                oldest = m[u(m[u(s.H_L2_STAMPS)] + way)]
                victim = way
    if count > m[u(s.H_L2_PARTIAL_WAYS)]:
        complete(m, piece, victim, time)


@core
def install(m: Any, piece: int, line: int, place: int, time: int) -> int:
    """Replace a way; dirty sectors go to DRAM.  Gives when a write that needs the way can be taken."""
    place = -1 - place
    if m[u(m[u(s.H_L2_FILLS)] + place)] & _PARTS:
        complete(m, piece, place, time)
    tag = m[u(m[u(s.H_L2_TAGS)] + place)]
    dirty = (tag >> 4) & 15
    m[u(m[u(s.H_L2_TAGS)] + place)] = line << TAG_SHIFT
    m[u(m[u(s.H_L2_FILLS)] + place)] = 0
    if dirty:
        return max(time, dram_write(m, piece, tag >> TAG_SHIFT, dirty, time) - WRITE_SLACK_CYCLES)
    return time


@core
def port(m: Any, piece: int, time: int, sectors: int) -> int:
    """Take a slice's read port for so many sectors; fewer than it is wide take as long (bench.micro ``mixture``: words gathered from L2,
    78 to 80 a cycle over the chip, one a clock of each slice)."""
    calendar = m[u(s.H_SLICE_PORTS)] + piece * s.CALENDAR_SLOTS
    units = max(32 * sectors, m[u(s.H_L2_ACCESS)])
    return reserve(m, calendar, s.CALENDAR_SHIFT, m[u(s.H_SLICE_CAPACITY)], time, units)


@core
def held(m: Any, piece: int, line: int, time: int) -> int:
    """Place of a line in a slice, which takes one for it when it has none."""
    place = find(m, piece, line)
    if place < 0:
        install(m, piece, line, place, time)
        place = -1 - place
    return place


@core
def write_port(m: Any, piece: int, time: int, units: int) -> int:
    """Take bytes of a slice's write port: fills, writes and atomics; reads pass beside it (bench.micro ``paths``: a copy within L2 is
    nearly as fast as a write, a copy from DRAM half as fast)."""
    calendar = m[u(s.H_SLICE_WRITE_PORTS)] + piece * s.CALENDAR_SLOTS
    return reserve(m, calendar, s.CALENDAR_SHIFT, m[u(s.H_SLICE_CAPACITY)], time, units)


@core
def widen(m: Any, sectors: int) -> int:
    """What a miss fetches: pairs or all of the line."""
    fetch = m[u(s.H_L2_FETCH)]
    if fetch == 2:
        return sectors | ((sectors & 5) << 1) | ((sectors & 10) >> 1)
    return 15 if fetch == 4 else sectors


@core
def found(m: Any, place: int, sectors: int, time: int) -> int:
    """How many of a line's sectors a read finds.

    What a read before asked for is found though it may still be on its way; what comes beside it only when it is there (bench.micro
    ``scattered_once`` and ``each_read4``: bytes of neighbouring lanes, whose second sector of a pair is mostly a miss).
    """
    tag_at = m[u(s.H_L2_TAGS)] + place
    here = sectors & m[u(tag_at)]
    beside = here & (m[u(tag_at)] >> _BESIDE)
    if beside:
        m[u(tag_at)] &= ~(beside << _BESIDE)
        if m[u(m[u(s.H_L2_FILLS)] + place)] >> 12 > time:
            here &= ~beside
    return popcount(here)


@core
def home_read(m: Any, home: int, line: int, sectors: int, start: int, far: bool) -> int:
    """When the home slice has the sectors; ``start``: when its port took the request."""
    place = held(m, home, line, start)
    tag_at = m[u(s.H_L2_TAGS)] + place
    tag = m[u(tag_at)]
    missing = sectors & ~tag & 15
    ready = start
    hits = 0
    if sectors & tag:
        ready = max(ready, m[u(m[u(s.H_L2_FILLS)] + place)] >> 12)
        hits = found(m, place, sectors, start)
        tag = m[u(tag_at)]
    if missing:
        fetch = widen(m, missing) & ~tag & 15
        come = dram_read(m, home, line, fetch, start)
        come = write_port(m, home, come, popcount(fetch) * m[u(s.H_L2_FILL)])
        filled(m, place, come)
        ready = max(ready, come)
        tag |= fetch | (fetch & ~missing) << _BESIDE
    if not far:
        m[u(s.H_L2_HITS_READ)] += hits
    else:
        m[u(s.H_L2_FAR_HITS)] += hits
        tag |= _COPIED
    m[u(tag_at)] = tag
    m[u(m[u(s.H_L2_STAMPS)] + place)] = start
    return ready


@core
def read(m: Any, partition: int, home: int, line: int, sectors: int, time: int) -> int:
    """When a slice of the SM's partition can answer a load that reaches it at ``time``.

    What it lacks of another partition's line it fetches as DRAM would be asked: in pairs (bench.micro ``scattered_once``: two
    look-ups across for each missed sector of 32 bytes).
    """
    count = popcount(sectors)
    m[u(s.H_L2_SECTORS_READ)] += count
    half = m[u(s.H_SLICES)] >> 1
    if not is_far(m, partition, home):
        return home_read(m, home, line, sectors, port(m, home, time, count), False)
    near = home - half if home >= half else home + half
    start = port(m, near, time, count)
    place = held(m, near, line, start)
    tag_at = m[u(s.H_L2_TAGS)] + place
    tag = m[u(tag_at)]
    missing = sectors & ~tag & 15
    ready = start
    if sectors & tag:
        ready = max(ready, m[u(m[u(s.H_L2_FILLS)] + place)] >> 12)
        m[u(s.H_L2_HITS_READ)] += found(m, place, sectors, start)
        tag = m[u(tag_at)]
    if missing:
        far = m[u(s.H_FAR_LATENCY)]
        missing = widen(m, missing) & ~tag & 15
        moved = popcount(missing)
        m[u(s.H_L2_FAR_READS)] += moved
        link = m[u(s.H_FAR_PORTS)] + (1 - partition) * s.CALENDAR_SLOTS
        over = reserve(m, link, s.CALENDAR_SHIFT, m[u(s.H_FAR_CAPACITY)], start + (far >> 1), moved)
        come = home_read(m, home, line, missing, port(m, home, over, moved), True) + far - (far >> 1)
        come = write_port(m, near, come, moved * m[u(s.H_L2_FILL)])
        filled(m, place, come)
        ready = max(ready, come)
        m[u(tag_at)] = tag | missing
    m[u(m[u(s.H_L2_STAMPS)] + place)] = start
    return ready


@core
def home_of_write(m: Any, partition: int, home: int, time: int) -> int:
    """When a write or atomic reaches its home."""
    if is_far(m, partition, home):
        link = m[u(s.H_FAR_PORTS)] + partition * s.CALENDAR_SLOTS
        far = m[u(s.H_FAR_LATENCY)] >> 1
        return reserve(m, link, s.CALENDAR_SHIFT, m[u(s.H_FAR_CAPACITY)], time + far, 1)
    return time


@core
def reserve_mirror(m: Any, home: int, line: int, start: int) -> None:
    """A line that is written takes room in the other partition too (bench.micro ``streams_once``: dirty lines begin to leave when those
    written, twice, and those read, one and a half times, fill L2)."""
    half = m[u(s.H_SLICES)] >> 1
    mirror = home - half if home >= half else home + half
    place = find(m, mirror, line)
    if place < 0:
        install(m, mirror, line, place, start)
        m[u(m[u(s.H_L2_STAMPS)] - 1 - place)] = start


@core
def touch(m: Any, home: int, line: int, sectors: int, start: int) -> int:
    """A place for a line that is written at its home: place << 40 | when the home can take it; copies elsewhere are gone."""
    place = find(m, home, line)
    ready = start
    if place < 0:
        ready = install(m, home, line, place, start)
        place = -1 - place
        if m[u(s.H_PARTITIONS)] == 2:
            reserve_mirror(m, home, line, start)
    if m[u(m[u(s.H_L2_TAGS)] + place)] & _COPIED:
        half = m[u(s.H_SLICES)] >> 1
        copy = find(m, home - half if home >= half else home + half, line)
        if copy >= 0:
            m[u(m[u(s.H_L2_TAGS)] + copy)] &= ~(sectors & 15)
    m[u(m[u(s.H_L2_STAMPS)] + place)] = start
    return place << 40 | ready


@core
def write(m: Any, partition: int, home: int, line: int, sectors: int, held: int, time: int) -> int:
    """When the home has taken a write that reaches the SM's partition at ``time``: a share of its write port for the request, for each
    whole and for each partial sector (bench.micro ``strided``: 4, 2, 1 partial sectors a request 51, 44, 33 a cycle over
    the chip; ``paths``: 79 whole ones).  ``held``: bytes of each sector, 16 bits each.
    """
    count = popcount(sectors)
    m[u(s.H_L2_SECTORS_WRITE)] += count
    full = popcount(sectors & covered(held))
    if is_far(m, partition, home):
        m[u(s.H_L2_FAR_WRITES)] += count
    units = m[u(s.H_L2_WRITE_REQUEST)] + full * m[u(s.H_L2_WRITE_WHOLE)] + (count - full) * m[u(s.H_L2_WRITE_PART)]
    start = write_port(m, home, home_of_write(m, partition, home, time), units)
    touched = touch(m, home, line, sectors, start)
    place = touched >> 40
    if full < count or m[u(m[u(s.H_L2_FILLS)] + place)] & _PARTS:
        write_in_part(m, home, place, sectors, held, start)
    m[u(m[u(s.H_L2_TAGS)] + place)] |= sectors | (sectors << 4)
    return touched & ((1 << 40) - 1)


@core
def is_far(m: Any, partition: int, home: int) -> bool:
    """A slice lies in the other partition."""
    return bool(m[u(s.H_PARTITIONS)] == 2 and (home >= m[u(s.H_SLICES)] >> 1) != (partition == 1))


@core
def atomic_cost(m: Any, words: int) -> int:
    """Bytes of a slice's bandwidth that an atomic on one line takes (bench/micro on H200, ``contended``).

    A sector is passed once for each lane on its most wanted word; floating-point sums on one word wait for each other, and
    compare-and-swap and doubles handle half a sector a pass.
    """
    kind = words >> 48
    total = 0
    chain = 0
    for sector in range(4):
        held = words >> (10 * sector)
        lanes = held & 63
        if lanes:
            named = (held >> 6) & 15
            parts = 2 if kind & 2 and named > 1 else 1
            whole = parts == 2 or (named << (3 if kind & 4 else 2)) >= 32
            total += lanes * parts * m[u(s.H_ATOMIC_WHOLE if whole else s.H_ATOMIC_PART)]
            if kind & 1:
                chain = max(chain, lanes * (m[u(s.H_ATOMIC_SUM)] + (parts - 1) * m[u(s.H_ATOMIC_WHOLE)]))
    return max(total, chain)


@core
def atomic_turns(m: Any, home: int, words: int, time: int) -> int:
    """Turns between atomics with and without an answer that a request causes at its slice.

    The two come from queues of their own; passes that name part of a sector go by turns when both wait (bench.micro ``uneven``: each pair of
    lanes that meet costs 1.4 to 2 cycles, whichever waits longer; whole sectors cost none).
    """
    lanes = 0
    for sector in range(4):
        held = words >> (10 * sector)
        if ((held >> 6) & 15) << (3 if (words >> 50) & 1 else 2) < 32:
            lanes += held & 63
    # By slice and kind: until when its last request waits, and how many lanes do.
    mine = m[u(s.H_ATOMIC_LAST)] + 2 * home + ((words >> 51) & 1)
    other = mine ^ 1
    met = min(m[u(other)] & 1023 if m[u(other)] >> 10 > time else 0, lanes)
    m[u(other)] -= met
    before = m[u(mine)] & 1023 if m[u(mine)] >> 10 > time else 0
    m[u(mine)] = (m[u(mine)] & ~1023) | min(before + lanes - met, 1023)
    return met


@core
def atomic_change(m: Any, home: int, line: int, answers: bool) -> int:
    """Bytes of a slice's bandwidth for an atomic on a line that its last atomics did not use (bench.micro ``scattered_atomics``: words at
    random 51 a cycle over the chip, with an answer 40; on lines that stay the same 65)."""
    last = m[u(s.H_ATOMIC_LINES)] + home * s.ATOMIC_LINES
    known = line + 1  # 0: none
    before = known
    for i in range(s.ATOMIC_LINES):
        held = m[u(last + i)]
        m[u(last + i)] = before
        if held == known:
            return 0
        before = held
    return m[u(s.H_ATOMIC_CHANGE_ANSWER if answers else s.H_ATOMIC_CHANGE)]


@core
def atomic(m: Any, partition: int, home: int, line: int, sectors: int, words: int, time: int) -> int:
    """When the home has done an atomic on sectors of a line (``words``: see ``atomic_words``)."""
    passes = passes_of(words)
    m[u(s.H_L2_SECTORS_ATOMIC)] += passes
    back = 0
    far = is_far(m, partition, home)
    if far:
        back = m[u(s.H_FAR_LATENCY)] - (m[u(s.H_FAR_LATENCY)] >> 1)
        m[u(s.H_L2_FAR_ATOMICS)] += passes
    arrives = home_of_write(m, partition, home, time)
    units = atomic_cost(m, words) + atomic_turns(m, home, words, arrives) * m[u(s.H_ATOMIC_TURN)]
    units += atomic_change(m, home, line, bool((words >> 51) & 1))
    # An atomic reads and writes: it takes both ports (bench.micro ``scattered_atomics``, load_red).
    arrives = port(m, home, arrives, units >> 5)
    start = write_port(m, home, arrives, units)
    done = start + (units << s.CALENDAR_SHIFT) // m[u(s.H_SLICE_CAPACITY)]
    mine = m[u(s.H_ATOMIC_LAST)] + 2 * home + ((words >> 51) & 1)
    m[u(mine)] = max(done, m[u(mine)] >> 10) << 10 | (m[u(mine)] & 1023)
    touched = touch(m, home, line, sectors, start)
    place = touched >> 40
    ready = touched & ((1 << 40) - 1)
    tag_at = m[u(s.H_L2_TAGS)] + place
    tag = m[u(tag_at)]
    # An atomic needs the old content, all of it.
    missing = sectors & (~tag | sectors_in_part(m[u(m[u(s.H_L2_FILLS)] + place)] & _PARTS)) & 15
    if missing:
        m[u(s.H_L2_MISSED_ATOMIC)] += popcount(missing)
        m[u(m[u(s.H_L2_FILLS)] + place)] &= ~_PARTS
        # bench.micro ``scattered_once``: of atomics on cold sectors half bring 64 bytes
        fetch = (widen(m, missing) & ~tag & 15) | missing if far else missing
        come = dram_read(m, home, line, fetch, start)
        filled(m, place, come)
        ready = max(ready, come)
        tag |= fetch
    m[u(tag_at)] = tag | sectors | (sectors << 4)
    return max(ready + done - start, done) + m[u(s.H_ATOMIC_LATENCY)] + back


@core
def reach(m: Any, index: int, line: int) -> int:
    """The home of a line that SM ``index`` turns to; it is noted that it did."""
    home = slice_of(m, line)
    m[u(m[u(s.H_TOUCHED)] + index * m[u(s.H_TOUCHED_WORDS)] + (home >> 6))] |= 1 << (home & 63)
    return home


@core
def execute_strong(m: Any, code: Any, sm: int, partition: int, r: int, time: int) -> int:
    """Run a warp's strong access and time it; gives the time of its answer at the slice."""
    w = m[u(r + s.R_WARP)]
    row = m[u(r + s.R_LINE)]
    index = m[u(sm + s.SM_INDEX)]
    m[u(w + s.W_PENDING)] = 0
    m[u(s.H_STRONG_CALLS)] += 1
    if not run_function(m, sm, w, m[u(r + s.R_TIME)]):
        m[u(s.H_ERROR)] = 1
        return time
    if row < 0 or m[u(w + s.W_USED)] == 0:
        return time
    number = take_block(m, code, w)
    if number != m[u(w + s.W_NUMBER)]:
        m[u(sm + s.SM_FORETOLD_WRONG)] += 1
        start_block_of(m, code, w, number)
        return time
    mask, base, tabled, step = record_at(m, w)
    if mask == 0:
        return time
    size = code[u(row + s.I_BYTES)]
    operation = code[u(row + s.I_OP)]
    space = space_of(address_of(base, tabled, step, lowest_bit(mask)))
    if space == SPACE_SHARED:
        waves = wavefronts(m, sm, base, tabled, step, mask, size, operation >= s.OP_ATOMIC)
        m[u(sm + s.SM_SHARED_WAVEFRONTS)] += waves
        reserve(m, sm + s.OFF_LSU, s.CALENDAR_SHIFT, m[u(s.H_LSU_CAPACITY)], m[u(r + s.R_TIME)], waves - 1)
        return time
    n = fill_lines(m, sm, w, base, tabled, step, mask, size, space)
    sectors = 0
    for i in range(n):
        sectors += popcount(m[u(sm + s.OFF_LINE_SECTORS + i)])
    answer = time
    if operation >= s.OP_ATOMIC:
        count_passes(m, sm, base, tabled, step, mask, n)
        extra = code[u(row + s.I_EXTRA)]
        waves = atomic_waves(m, sm, n, operation, extra & 255)
        m[u(sm + s.SM_GLOBAL_ATOMICS)] += 1
        m[u(sm + s.SM_ATOMIC_SECTORS)] += sectors
        for i in range(n):
            line = m[u(sm + s.OFF_LINES + i)]
            mine = m[u(sm + s.OFF_LINE_SECTORS + i)]
            home = reach(m, index, line)
            answer = max(answer, atomic(m, partition, home, line, mine, atomic_words(m, sm, i, extra), time + i))
        if operation == s.OP_ATOMIC:
            answer = max(answer, time + waves)
    elif operation == s.OP_LOAD:
        waves = n
        m[u(sm + s.SM_GLOBAL_LOADS)] += 1
        m[u(sm + s.SM_LOAD_SECTORS)] += sectors
        for i in range(n):
            line = m[u(sm + s.OFF_LINES + i)]
            home = reach(m, index, line)
            answer = max(answer, read(m, partition, home, line, m[u(sm + s.OFF_LINE_SECTORS + i)], time + i))
    else:
        waves = sectors
        m[u(sm + s.SM_GLOBAL_STORES)] += 1
        m[u(sm + s.SM_STORE_SECTORS)] += sectors
        for i in range(n):
            line = m[u(sm + s.OFF_LINES + i)]
            mine = m[u(sm + s.OFF_LINE_SECTORS + i)]
            held = m[u(sm + s.OFF_LINE_BYTES + i)]
            answer = max(answer, write(m, partition, reach(m, index, line), line, mine, held, time + i))
        m[u(w + s.W_STORE_TIME)] = max(m[u(w + s.W_STORE_TIME)], answer)
    if waves > 1:
        reserve(m, sm + s.OFF_LSU, s.CALENDAR_SHIFT, m[u(s.H_LSU_CAPACITY)], m[u(r + s.R_TIME)], waves - 1)
    return answer


@core
def coalesced_read(m: Any, gpc: int, partition: int, index: int, line: int, sectors: int, time: int) -> int:
    """A load by way of its GPC's request coalescer: what another SM of the GPC has just asked for in the same way is not asked for again.

    Nsight Compute has this unit as ``lrc__``; the answer passes the GPC's port for each SM.
    """
    lines = m[u(s.H_COALESCER_LINES)]
    entry = m[u(s.H_COALESCER)] + (gpc * lines + (((line * s.GOLDEN) >> 40) & (lines - 1))) * 4
    if m[u(entry)] == line << 4 | sectors and m[u(entry + 1)] > time:
        m[u(s.H_COALESCED)] += popcount(sectors)
        return m[u(entry + 2)]
    ready = read(m, partition, reach(m, index, line), line, sectors, time)
    m[u(entry)] = line << 4 | sectors
    m[u(entry + 1)] = min(ready, time + m[u(s.H_COALESCING)])
    m[u(entry + 2)] = ready
    return ready


@core
def serve(m: Any, code: Any, sm: int, r: int) -> None:
    """One request: way to the slice, slice, way back."""
    index = m[u(sm + s.SM_INDEX)]
    gpc = m[u(m[u(s.H_GPC_OF_SM)] + index)]
    partition = m[u(m[u(s.H_PARTITION_OF_SM)] + index)]
    kind = m[u(r + s.R_KIND)]
    time = m[u(r + s.R_TIME)] + m[u(s.H_TO_L2)]
    if kind == s.RQ_STRONG:
        answer = execute_strong(m, code, sm, partition, r, time)
        w = m[u(r + s.R_WARP)]
        row = m[u(r + s.R_LINE)]
        if row >= 0 and code[u(row + s.I_OP)] == s.OP_STORE:
            m[u(w + s.W_STORES)] -= 1
        if row >= 0 and code[u(row + s.I_OP)] >= s.OP_ATOMIC:
            owe(m, sm, answer)
        m[u(r + s.R_ANSWER)] = answer + m[u(s.H_FROM_L2)]
        return
    line = m[u(r + s.R_LINE)]
    if kind == s.RQ_CONSTANT:  # it tells when its SM has the block: others find it in L2
        arrived = m[u(s.H_CONST_ARRIVED)] + line
        m[u(arrived)] = min(m[u(arrived)], m[u(r + s.R_ANSWER)])
        return
    sectors = m[u(r + s.R_SECTORS)]
    count = popcount(sectors)
    if kind == s.RQ_STORE:
        home = reach(m, index, line)
        ports = m[u(s.H_GPC_WRITE_PORTS)] + gpc * s.CALENDAR_SLOTS
        time = reserve(m, ports, s.CALENDAR_SHIFT, m[u(s.H_GPC_WRITE_CAPACITY)], time, count)
        m[u(r + s.R_ANSWER)] = write(m, partition, home, line, sectors, m[u(r + s.R_FULL)], time)
        return
    if kind == s.RQ_ATOMIC:
        home = reach(m, index, line)
        m[u(r + s.R_ANSWER)] = atomic(m, partition, home, line, sectors, m[u(r + s.R_FULL)], time) + m[u(s.H_FROM_L2)]
        return
    if m[u(s.H_COALESCER_LINES)]:
        ready = coalesced_read(m, gpc, partition, index, line, sectors, time)
    else:
        ready = read(m, partition, reach(m, index, line), line, sectors, time)
    ports = m[u(s.H_GPC_PORTS)] + gpc * s.CALENDAR_SLOTS
    ready = reserve(m, ports, s.CALENDAR_SHIFT, m[u(s.H_GPC_CAPACITY)], ready, count)
    m[u(r + s.R_ANSWER)] = ready + m[u(s.H_FROM_L2)]


@core
def serial_phase(m: Any, code: Any, begin: int) -> int:
    """Serve every request of the window that began at ``begin``, in order of (time, SM, number); gives how many."""
    buckets = m[u(s.H_BUCKETS)]
    order = m[u(s.H_ORDER)]
    sms = m[u(s.H_SMS)]
    first = m[u(s.H_SM_FIRST)]
    size = m[u(s.H_SM_SLOTS)]
    requests = m[u(s.H_OFF_REQUESTS)]
    total = 0
    for i in range(sms):
        total += m[u(first + i * size + s.SM_REQUESTS)]
    if total == 0:
        return 0
    for i in range(s.BUCKETS + 1):
        m[u(buckets + i)] = 0
    for i in range(sms):
        sm = first + i * size
        for j in range(m[u(sm + s.SM_REQUESTS)]):
            late = min(m[u(sm + requests + j * s.R_SLOTS + s.R_TIME)] - begin, s.BUCKETS - 1)
            m[u(buckets + late + 1)] += 1
    for i in range(s.BUCKETS):
        m[u(buckets + i + 1)] += m[u(buckets + i)]
    for i in range(sms):
        sm = first + i * size
        for j in range(m[u(sm + s.SM_REQUESTS)]):
            r = sm + requests + j * s.R_SLOTS
            late = min(m[u(r + s.R_TIME)] - begin, s.BUCKETS - 1)
            place = m[u(buckets + late)]
            m[u(buckets + late)] = place + 1
            m[u(order + place)] = r << 12 | i
    for i in range(total):
        entry = m[u(order + i)]
        serve(m, code, first + (entry & 0xFFF) * size, entry >> 12)
        if m[u(s.H_ERROR)]:
            mark(m, first + (entry & 0xFFF) * size, m[u((entry >> 12) + s.R_WARP)])
    return total
