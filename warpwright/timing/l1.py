"""The path of memory instructions inside an SM: queue, load/store unit, L1 and shared memory.

An instruction waits in its sub-core's queue (five entries, one handed over in four cycles) for the load/store unit that
the four sub-cores share.  There it takes wavefronts: for shared memory as many as its bank conflicts require, for global memory as many as the conflicts of
L1's data or tag banks require (measured on a real H200: ``banks``), and at least one per 128 bytes of its lanes.  L1 is a sectored, write-through, streaming
cache: hits pass misses, a hit on an outstanding miss joins
it, and outstanding misses are not limited by ways (Choquette et al. 2018).  What L1 lacks becomes a request to L2,
answered after the window (``crossbar.py``); ``receive`` then tells the waiting loads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from warpwright.engine.abi import BLOCK, LOCAL_WINDOW, SHARED_RANK_SHIFT, SHARED_WINDOW, WARP
from warpwright.native.intrinsics import core, host_address, lowest_bit, peek, poke, popcount, prefetch
from warpwright.timing import state as s
from warpwright.timing.clusters import slot_of
from warpwright.timing.coalescer import (
    active_groups,
    bank_passes,
    count_passes,
    ideal_wavefronts,
    lanes_together,
    lines_kept,
    lines_local,
    most_on_a_word,
    passes_of,
    sectors_of,
    store_packets,
    tag_passes,
    touched,
    wavefronts,
)
from warpwright.timing.coalescing import WHOLE_WARP, coalesce, transaction_passes
from warpwright.timing.dependence_counters import end_known, hold, push_ring
from warpwright.timing.fence_requests import acknowledge
from warpwright.timing.l1_sets import approach_l1, forget_lines, l1_find, take_place
from warpwright.timing.links import longer_away, note_written, strong_way
from warpwright.timing.mio_queue import arrive_at_mbarrier, enter_queue, enter_with_passes, way_cycles
from warpwright.timing.ports import reserve
from warpwright.timing.records import Addresses, address_of, record_at
from warpwright.timing.requests import new_load, new_request, repeat_request, wait_for
from warpwright.timing.runs import length_of, receive_run
from warpwright.timing.scoreboard import end_of_entry
from warpwright.timing.stores import behind_stores, hold_output, hold_stores, store_lines
from warpwright.timing.texture_unit import sample
from warpwright.timing.warp_slots import mark

WARP_BLOCK, CLUSTER_RANK, CLUSTER_MEMBERS = WARP["block"], BLOCK["cluster_rank"], BLOCK["cluster_blocks"]
SHARED_HIGH = SHARED_WINDOW >> 32
LOCAL_HIGH = LOCAL_WINDOW >> 32
SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL = 0, 1, 2
BY_GPC = 1
"""A load past L1 that passes its GPC's coalescer."""
RECEIVE_AHEAD = 6
"""Answers between prefetching a line's place on the host and filling it."""


@core
def space_of(address: int) -> int:
    """Global, shared or local, by the address's window."""
    high = address >> 32
    if high == SHARED_HIGH:
        return SPACE_SHARED
    return SPACE_LOCAL if high == LOCAL_HIGH else SPACE_GLOBAL


TAG_PASS_QUARTER_CYCLES = 5
"""Quarters of a cycle from a pass over L1's tags to the next."""


@core
def global_passes(m: Any, sm: s.SM, addresses: Addresses, size: int, space: int, n: int) -> tuple[int, int, int]:
    """Passes of a load over tags and data of L1, passes over data alone, and the cycles by which it delays its warp's next load.

    L1's 32 data banks conflict as shared memory's do (bench.micro ``banks``). Passes over data are two cycles apart, passes over tags 1.25
    (``python -m bench.machine.row_loops`` on an H200, one warp, eight loads that hit: 23 cycles each with 12 passes over tags and 2 over data, 42 with 16 over data).
    """
    _, tabled, step, mask = addresses
    least = active_groups(m, mask, lanes_together(m, size))
    if n <= 1 or (not tabled and (step == 0 or (step == size and mask == m[s.chip.full_wave]))):
        return least, least, m[s.chip.replay] * least
    data = least
    if space != SPACE_LOCAL:  # there, consecutive words of the lanes are in different banks
        data = max(data, bank_passes(m, sm, addresses, size, False, False))
    tags = tag_passes(m, sm, n, m[s.chip.l1_tag_banks])
    return max(tags, data), data, max(tags * TAG_PASS_QUARTER_CYCLES >> 2, m[s.chip.replay] * data)


@core
def load_passes(
    m: Any, code: Any, sm: s.SM, row: s.Instruction, addresses: Addresses, n: int, space: int, ruled: bool
) -> tuple[int, int, int]:
    """Like ``global_passes``, under the chip's rules for the instruction's unit and space.

    Args:
        n: lines of the load, which are in the SM's scratch.
        ruled: what ``by_rule`` returns for it.
    """
    texture = code[row.latency]
    narrow = m[s.chip.l1_data_sectors] < m[s.chip.line_sectors]
    if ruled:
        passes = transaction_passes(m, addresses, n, code[row.extra] & s.FILTERED)
    elif texture:
        passes = 1
    else:
        passes, data, takes = global_passes(m, sm, addresses, code[row.access_bytes], space, n)
        if not narrow:
            return passes, data, takes
    if narrow:
        passes = max(passes, narrow_passes(m, sm, n))
    return passes, passes, m[s.chip.replay] * passes


@core
def narrow_passes(m: Any, sm: s.SM, n: int) -> int:
    """Passes of an L1 that transfers less than a line per pass, for the sectors in the scratch."""
    return -(-sectors_of(m, sm, n) // m[s.chip.l1_data_sectors])


@core
def atomic_waves(m: Any, sm: s.SM, n: int, operation: int, factor: int) -> int:
    """Cycles of the load/store unit for a global atomic on ``n`` lines (bench/micro on H200).

    Each lane on a word takes a fixed time, and more on a line of several sectors; an atomic with an answer takes a minimum time for each lane on one word or
    for each line. Compare-and-swap doubles the time of lanes with different words.
    """
    units = 0
    worst = 0
    for i in range(n):
        packed = m[sm.line_bytes[i]]
        several = popcount(m[sm.line_sectors[i]]) > 1
        units += passes_of(m, packed) * m[s.chip.atomic_lane_sectors if several else s.chip.atomic_lane]
        worst = max(worst, most_on_a_word(m, packed))
    waves = (units + 255) >> 8
    if worst == 1:
        waves *= factor
    if operation == s.OP_ATOMIC:
        most = max(worst, n)
        waves = max(waves, m[s.chip.atomic_answer] * (most if most > m[s.chip.atomic_answer_free] else 0))
    return waves


@core
def fill_lines(m: Any, sm: s.SM, w: s.Warp, addresses: Addresses, size: int, space: int) -> int:
    """Coalesce into the SM's scratch; returns the number of lines."""
    if space == SPACE_LOCAL:
        return lines_local(m, sm, m[w.local], addresses, size)
    return lines_kept(m, sm, addresses, size)


@core
def by_rule(m: Any, space: int, operation: int, texture: int) -> bool:
    """Whether the chip coalesces an access by its own rule (``coalescing.py``) instead of by lines of the whole warp."""
    return (
        m[s.chip.coalescing_rule] != WHOLE_WARP
        and space == SPACE_GLOBAL
        and (operation == s.OP_LOAD or operation == s.OP_STORE)
        and texture == 0
    )


@core
def load_line(m: Any, sm: s.SM, w: s.Warp, line: int, sectors: int, words: int, time: int, load: int) -> int:
    """Look up ``words`` of one line in L1 at ``time``; returns when hits are available. ``load`` (its number) waits for the rest.

    One miss leaves per cycle, and the look-ups after it wait (bench.micro ``row_walks``, ``miss_rate``: 32 lines of one or two sectors, eight whole lines, all at
    1.0 to 1.07 cycles per line).  A miss on a sector of which L1 has only stored words drops the rest of the line (``kept_in_flight``).  Misses of a line a
    few cycles apart leave as one request (bench.micro ``pairs_once``), so that L2 looks up both sectors of a pair at once.
    """
    place = l1_find(m, sm, line, time)
    ways = m[s.chip.l1_ways]
    if place < 0:
        place = -1 - place
        take_place(m, place, line, time)
    m[place + ways * s.C_STAMP] = time
    tag = m[place]
    hit = sectors & tag
    joined = sectors & (tag >> 4) & ~tag & 15
    missing = sectors & ~(tag | (tag >> 4)) & 15
    dropped = 0
    stored = m[place + ways * s.C_WORDS]
    if missing and stored:
        own = missing & ~touched(m, words & ~stored)
        hit |= own
        missing ^= own
        dropped = missing & touched(m, stored)
    ready = 0
    if hit:
        ready = max(time + m[s.chip.l1_latency], m[place + ways * s.C_FILL])
        m[sm.load_hits] += popcount(hit)
    if joined:
        wait_for(m, sm, m[place + ways * s.C_REQUEST], load)
        m[sm.load_hits] += popcount(joined)
    if dropped:
        tag = line << 8
        m[place + ways * s.C_WORDS] = 0
    if missing:
        m[place] = tag | (missing << 4)
        request = m[place + ways * s.C_REQUEST]
        r = s.Request(sm + m[s.chip.requests_at] + request * s.Request.size)
        if (tag >> 4) & 15 and time - m[r.time] < m[s.chip.l1_join]:
            m[r.sectors] |= missing
        else:
            request = new_request(m, sm, w, s.RQ_LOAD, time, line, missing, place)
            m[place + ways * s.C_REQUEST] = request
            m[sm.miss_free] = time + 1
            joined = 0
        if joined == 0:
            wait_for(m, sm, request, load)
    return ready


@core
def access(m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int) -> None:
    """Issue a memory instruction whose record is available.

    An instruction without active lanes also takes the load/store unit (bench.micro ``bars_masked``: barriers of two warps with two shared loads and a store of
    each between them take
    9.75 cycles of the SM, whether all lanes do them or none).
    """
    addresses = record_at(m, w)
    base, tabled, step, mask = addresses
    write_barrier = code[row.write_barrier]
    read_barrier = code[row.read_barrier]
    if mask == 0:
        done = enter_queue(m, sm, sc, time, 1) + m[s.chip.inactive_access]
        if write_barrier >= 0:
            hold(m, w, write_barrier, done, 0)
        if read_barrier >= 0:
            hold(m, w, read_barrier, done, 0)
        return
    if code[row.extra] & s.SAMPLES:
        start = sample(m, code, sm, sc, w, row, time, addresses)
        if read_barrier >= 0:
            hold(m, w, read_barrier, start + m[s.chip.load_release], 0)
        return
    size = code[row.access_bytes]
    operation = code[row.op]
    space = space_of(address_of(base, tabled, step, lowest_bit(mask)))
    if space == SPACE_SHARED or code[row.extra] & s.GLOBAL_SHARE:
        start = shared_access(m, code, sm, sc, w, row, time, addresses)
    else:
        texture = code[row.latency]
        ruled = by_rule(m, space, operation, texture)
        if ruled:
            n = coalesce(m, sm, addresses, size, operation == s.OP_STORE)
        else:
            n = fill_lines(m, sm, w, addresses, size, space)
        if operation == s.OP_LOAD:
            passes, data, takes = load_passes(m, code, sm, row, addresses, n, space, ruled)
            interval = way_cycles(m, code[row.reads], max(size >> 2, 1))
            start = enter_with_passes(m, sm, sc, w, time, passes, interval, takes)
            looked = behind_stores(m, sm, start)
            if texture:
                looked = max(looked, m[sm.texture_free])
                m[sm.texture_free] = looked + (texture >> s.TEXTURE_INTERVAL_SHIFT)
                looked += texture & ((1 << s.TEXTURE_INTERVAL_SHIFT) - 1)
            hold_stores(m, sm, looked, passes)
            load_lines(m, code, sm, w, row, LookUp(looked, passes, data, takes, n, s.LD_REGISTER, space))
        elif operation == s.OP_STORE:
            m[sm.wrote] = time
            start = store_lines(m, sm, sc, w, time, n, size, space == SPACE_LOCAL)
        else:
            m[sm.wrote] = time
            count_passes(m, sm, addresses, n)
            start = atomic_lines(m, code, sm, sc, w, row, time, n)
    if read_barrier >= 0:
        hold(m, w, read_barrier, start + read_cycles(m, space, operation, size), 0)


@core
def read_cycles(m: Any, space: int, operation: int, size: int) -> int:
    """From the load/store unit's start with an instruction to the release of its source registers."""
    if space != SPACE_GLOBAL:
        return m[s.chip.shared_release]
    if operation != s.OP_STORE:
        return m[s.chip.load_release]
    return m[s.chip.store_release] + m[s.chip.store_register_release] * max(size >> 2, 1)


@core
def remote_lanes(m: Any, w: s.Warp, extra: int, addresses: Addresses) -> int:
    """The lanes whose addresses in the shared window name other blocks of the warp's cluster; ``extra``: the instruction's."""
    base, tabled, step, mask = addresses
    if m[s.chip.cluster_blocks] == 1 or extra & s.OWN_SHARED:
        return 0
    own = peek(peek(m[w.pointer] + WARP_BLOCK) + CLUSTER_RANK)
    if not tabled and step == 0:
        return 0 if rank_of(base) == own else mask
    found = 0
    left = mask
    while left:
        lane = lowest_bit(left)
        left &= left - 1
        if rank_of(address_of(base, tabled, step, lane)) != own:
            found |= 1 << lane
    return found


@core
def rank_of(address: int) -> int:
    """The block of the cluster that an address in the shared window names."""
    return (address >> SHARED_RANK_SHIFT) & 255


@core
def lanes_of_rank(addresses: Addresses, rank: int) -> int:
    """The lanes of ``mask`` whose addresses name one block of the cluster."""
    base, tabled, step, mask = addresses
    found = 0
    while mask:
        lane = lowest_bit(mask)
        mask &= mask - 1
        if rank_of(address_of(base, tabled, step, lane)) == rank:
            found |= 1 << lane
    return found


@core
def sm_of_rank(m: Any, w: s.Warp, rank: int) -> s.SM:
    """The SM of a block of the warp's cluster."""
    block = peek(m[w.pointer] + WARP_BLOCK)
    return s.SM(slot_of(m, peek(block + CLUSTER_MEMBERS + 8 * rank))[0])


@core
def load_packets(m: Any, sm: s.SM, w: s.Warp, addresses: Addresses, size: int) -> int:
    """What a load of these lanes requests from one other block: lines, and sectors shifted."""
    lines = fill_lines(m, sm, w, addresses, size, SPACE_SHARED)
    return lines | sectors_of(m, sm, lines) << s.REMOTE_SECTORS_SHIFT


@core
def ask_cluster(m: Any, sm: s.SM, w: s.Warp, addresses: Addresses, size: int, time: int, load: int) -> None:
    """Make a load wait for its lanes' reads from other blocks of the cluster: a request for each block, with its lines and sectors."""
    base, tabled, step, mask = addresses
    while mask:
        rank = rank_of(address_of(base, tabled, step, lowest_bit(mask)))
        lanes = lanes_of_rank(Addresses(base, tabled, step, mask), rank)
        mask &= ~lanes
        packets = load_packets(m, sm, w, Addresses(base, tabled, step, lanes), size)
        target = sm_of_rank(m, w, rank)
        wait_for(m, sm, new_request(m, sm, w, s.RQ_REMOTE, time, target, packets, 0), load)


@core
def send(m: Any, sm: s.SM, time: int, size: int) -> int:
    """When a store to another block's shared memory can begin, given the bytes per cycle that an SM sends."""
    begin = max(time, m[sm.remote_free])
    m[sm.remote_free] = begin + size // m[s.chip.remote_store_bytes]
    return begin


@core
def hold_cores(m: Any, sc: s.SubCore, until: int) -> None:
    """Keep the heavy FMA pipe busy with an access that passes through it."""
    heavy = max(m[sc.pipe_free[s.P_FMA_HEAVY]], until)
    m[sc.pipe_free[s.P_FMA_HEAVY]] = heavy
    m[sc.pipe_free[s.P_FMA]] = min(m[sc.pipe_free[s.P_FMA_LITE]], heavy)


@core
def count_shared(m: Any, code: Any, sm: s.SM, w: s.Warp, row: s.Instruction, remote: int) -> int:
    """Count a shared access; returns its latency after the queue. ``remote``: its lanes that access other blocks of the cluster."""
    operation = code[row.op]
    if operation == s.OP_LOAD:
        m[sm.shared_loads] += 1
        return m[s.chip.shared_latency]
    m[w.wrote] = 1
    if operation == s.OP_STORE:
        m[sm.shared_stores] += 1
        return m[s.chip.shared_store_latency]
    m[sm.shared_loads] += 1
    if remote:
        return m[s.chip.remote_atomic]
    latency = code[row.latency]
    return latency if latency else m[s.chip.shared_atomic]


@core
def shared_passes(m: Any, code: Any, sm: s.SM, row: s.Instruction, addresses: Addresses) -> tuple[int, int]:
    """Wavefronts of a shared access, and how many its bytes would need without conflicts."""
    operation = code[row.op]
    size = code[row.access_bytes]
    atomic = operation >= s.OP_ATOMIC
    extra = code[row.extra]
    if extra & s.ONE_PASS:
        waves = size >> 2
    else:
        each = atomic and extra & s.COUNTS_LANES == 0
        packs = operation == s.OP_LOAD and extra & s.MATRIX_ROWS == 0
        waves = wavefronts(m, sm, addresses, size, each, packs)
    ideal = ideal_wavefronts(m, addresses.mask, size)
    if not atomic:
        ideal *= extra & 255
    return waves * (extra & 255), ideal


@core
def shared_access(
    m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int, addresses: Addresses
) -> int:
    """Time a shared load, store or atomic; returns its start in the load/store unit."""
    base, tabled, step, _ = addresses
    operation = code[row.op]
    size = code[row.access_bytes]
    extra = code[row.extra]
    waves, ideal = shared_passes(m, code, sm, row, addresses)
    remote = remote_lanes(m, w, extra, addresses)
    if remote and operation == s.OP_STORE:
        packets = store_packets(m, sm, Addresses(base, tabled, step, remote), size)
        time = send(m, sm, time, packets << m[s.chip.sector_shift])
    wide = min(waves, ideal) if operation == s.OP_LOAD and extra & s.MATRIX_ROWS == 0 else 1
    takes = m[s.chip.replay] * waves + (m[s.chip.wide_load] if wide > 1 and size == 16 else 0)
    interval = way_cycles(m, code[row.reads], 0 if operation == s.OP_STORE else max(size >> 2, 1))
    start = enter_with_passes(m, sm, sc, w, time, waves, interval, takes)
    if extra & s.MBARRIER and remote == 0:
        start = arrive_at_mbarrier(m, sm, start)
        m[sc.mio_free] = max(m[sc.mio_free], start)
    if m[s.chip.shared_in_cores]:
        hold_cores(m, sc, max(time + takes, m[sc.pipe_free[s.P_MIO]]))
    m[sm.shared_wavefronts] += waves
    m[sm.shared_ideal] += min(ideal, waves)  # fewer are needed where lanes read the same words
    latency = count_shared(m, code, sm, w, row, remote)
    if code[row.extra] & s.GLOBAL_SHARE:
        latency = code[row.latency]
    barrier = code[row.write_barrier]
    done = start + latency + m[s.chip.wide_pass] * (wide - 1) + m[s.chip.replay] * (waves - wide)
    if remote and operation == s.OP_LOAD:
        load = new_load(m, sm, w, barrier, s.LD_REGISTER)
        m[s.PendingLoad(sm + m[s.chip.loads_at] + load * s.PendingLoad.size).time] = done
        ask_cluster(m, sm, w, Addresses(base, tabled, step, remote), size, start, load)
        if barrier >= 0:
            hold(m, w, barrier, s.INF, 1)
    elif barrier >= 0:
        hold(m, w, barrier, done, 0)
    return start


class LookUp(NamedTuple):
    """How a load looks up the ``lines`` in the scratch in L1: from ``start`` on, in a number of passes."""

    start: int
    passes: int
    data: int
    """Passes over data alone, if its lines arrive together."""
    takes: int
    """Cycles of its passes for its own warp."""
    lines: int
    kind: int
    """``LD_REGISTER`` or ``LD_ASYNC``."""
    space: int


@core
def look_up_lines(m: Any, sm: s.SM, w: s.Warp, look: LookUp, load: int, way: int) -> int:
    """Look up every line, or request it from L2, bypassing L1 (``way``: 0 for L1, ``BY_GPC``, or ``links.strong_way``); returns when hits are available, 0 if there are none."""
    n = look.lines
    begin = max(look.start, m[sm.miss_free])
    hits = m[sm.load_hits]
    requests = m[sm.requests] + m[sm.repeated]
    ready = 0
    asked = 0
    last = -1
    left_at = 0
    begun = 0
    for i in range(n):
        line = m[sm.lines[i]]
        sectors = m[sm.line_sectors[i]]
        asked += popcount(sectors)
        at = max(begin + i * look.passes // n, m[sm.miss_free])
        if way:
            again = last >= 0 and at == left_at + 1 and i - begun < s.MAX_RUN
            if again and line == m[sm.lines[i - 1]] and sectors == m[sm.line_sectors[i - 1]]:
                repeat_request(m, sm, last, load)
            else:
                begun = i
                request = new_request(m, sm, w, s.RQ_LOAD_AROUND, at, line, sectors, way)
                wait_for(m, sm, request, load)
                last = request if m[s.chip.keeps_runs] else -1
            left_at = at
            m[sm.miss_free] = at + 1
        else:
            words = m[sm.line_words[i]]
            ready = max(ready, load_line(m, sm, w, line, sectors, words, at, load))
    made = m[sm.requests] + m[sm.repeated] - requests
    if made:
        hold_output(m, sm, look.start, made)
    if look.space == SPACE_LOCAL:
        m[sm.local_sectors] += asked
        m[sm.local_hits] += m[sm.load_hits] - hits
        m[sm.load_hits] = hits
    else:
        m[sm.load_sectors] += asked
    return ready


@core
def note_read(m: Any, sm: s.SM, n: int) -> None:
    """Note that a load reads the ``n`` lines in the scratch (``read_pieces.py``)."""
    for i in range(n):
        piece = (m[sm.lines[i]] >> m[s.chip.read_shift]) - m[s.chip.read_first]
        if piece < 0 or piece > m[s.chip.read_count]:
            piece = m[s.chip.read_count]
        poke(m[s.chip.read_pieces] + 8 * piece, 1)


@core
def passes_apart(look: LookUp, waits: int) -> int:
    """Passes over data of a load that waits for ``waits`` of its lines, which arrive at different times: half of the additional passes that one pass per line would take.

    Nsight Compute's ``l1tex__data_pipe_lsu_wavefronts`` for loads of ``python -m bench.machine.row_loops`` on H200, half of which wait, with 8 and 32 warps: for rows 8,000 bytes apart, 16 passes
    if a load hits, 22.6 and 25.4 if it waits; for rows 4,000 bytes apart, 8 passes, and 18.4 and 22.6.
    """
    return look.data + waits * (look.lines - look.data) // (2 * look.lines)


@core
def load_lines(m: Any, code: Any, sm: s.SM, w: s.Warp, row: s.Instruction, look: LookUp) -> None:
    """Look up every line of a load and arrange for its end."""
    if m[s.chip.read_pieces] and look.space != SPACE_LOCAL:
        note_read(m, sm, look.lines)
    way = BY_GPC if code[row.extra] & 256 else 0
    if code[row.strong]:
        way = strong_way(code[row.strong])
    barrier = code[row.write_barrier]
    m[sm + (s.SM.local_loads if look.space == SPACE_LOCAL else s.SM.global_loads)] += 1
    m[sm.tag_lines] += look.lines
    load = new_load(m, sm, w, barrier, look.kind)
    base = s.PendingLoad(sm + m[s.chip.loads_at] + load * s.PendingLoad.size)
    begin = max(look.start, m[sm.miss_free])
    if look.lines > 2 and not way:
        approach_l1(m, sm, look.lines)
    if code[row.strong]:
        forget_lines(m, sm, look.lines)
    ready = look_up_lines(m, sm, w, look, load, way)
    if begin > look.start:  # look-ups lag: each load makes its passes after the previous one's
        m[sm.miss_free] = max(m[sm.miss_free], begin + look.passes)
    if ready:
        found = begin + m[s.chip.l1_latency] + look.takes - m[s.chip.replay]
        if ready > found and m[base.left] == 0:  # lines in flight whose arrival is known
            ready = passed_back(m, sm, ready, look.passes)
        ready = max(ready, found)
    if m[base.left] == 0:
        m[sm.loads] = load  # everything is known: the entry is free again
        if look.kind == s.LD_ASYNC:
            m[w.async_time] = max(m[w.async_time], ready)
        if barrier >= 0:
            hold(m, w, barrier, ready, 1)
        return
    m[base.time] = ready
    m[base.passes] = look.passes
    if look.kind == s.LD_REGISTER:
        m[base.more] = max(passes_apart(look, m[base.left]) - look.passes, 0)
    if ready == 0:  # passes over lines from L2 are made as they arrive
        m[w.passes_end] -= look.takes - look.passes
    if look.kind == s.LD_ASYNC:
        m[w.async_copies] += 1
    if barrier >= 0:
        hold(m, w, barrier, s.INF, 1)


@core
def atomic_words(m: Any, sm: s.SM, i: int, extra: int) -> int:
    """What L2 needs to know about an atomic on the i-th line: lanes and words of its sectors, and the kind of operation."""
    return m[sm.line_bytes[i]] | (extra >> 9) << 48


@core
def atomic_lines(m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int, n: int) -> int:
    """An atomic whose record came without a stop: it was executed already, and is timed like any other."""
    sectors = sectors_of(m, sm, n)
    operation = code[row.op]
    extra = code[row.extra]
    waves = atomic_waves(m, sm, n, operation, extra & 255)
    passes = 0
    for i in range(n):
        passes += passes_of(m, m[sm.line_bytes[i]])
    free = max(atomics_free(m, sm, 0), atomics_free(m, sm, passes - 1) - waves)
    start = enter_queue(m, sm, sc, max(time, m[sm.store_free], free), waves)
    m[sm.atomics_sent] += passes
    m[w.drained] = max(m[w.drained], start + waves)
    barrier = code[row.write_barrier]
    load = new_load(m, sm, w, barrier, s.LD_REGISTER)
    m[sm.global_atomics] += 1
    m[sm.atomic_sectors] += sectors
    forget_lines(m, sm, n)
    for i in range(n):
        line = m[sm.lines[i]]
        mask = m[sm.line_sectors[i]]
        wait_for(m, sm, new_request(m, sm, w, s.RQ_ATOMIC, start + i, line, mask, atomic_words(m, sm, i, extra)), load)
    if barrier >= 0:
        hold(m, w, barrier, s.INF, 1)
    return start


@core
def passed_back(m: Any, sm: s.SM, time: int, passes: int) -> int:
    """When a load whose last line arrives at ``time`` has made its passes.

    Loads that wait for the same lines make their passes one after the other, one per cycle (bench.micro ``row_walks``: loads of 32 passes by one warp, of
    which L2 has the
    first one's lines, 392, 491 and 618 cycles for one, four and eight).
    """
    if passes <= 1:
        return time
    first = reserve(m, sm.return_calendar, s.CALENDAR_SHIFT, m[s.chip.lsu_capacity], time - passes, passes)
    return max(time, first + passes)


@core
def finish_load(m: Any, sm: s.SM, load: int) -> None:
    """Every answer to a load is known."""
    base = s.PendingLoad(sm + m[s.chip.loads_at] + load * s.PendingLoad.size)
    w = s.Warp(m[base.warp])
    time = passed_back(m, sm, m[base.time], m[base.passes])
    more = m[base.more]
    if more:
        reserve(m, sm.lsu_calendar, s.CALENDAR_SHIFT, m[s.chip.lsu_capacity], m[base.time] - more, more)
    barrier = m[base.barrier]
    if m[base.kind] == s.LD_ASYNC:
        m[w.async_copies] -= 1
        m[w.async_time] = max(m[w.async_time], time)
        if m[w.async_copies] == 0:
            release_copies(m, w)
    if barrier >= s.DEPENDENCE_BARRIERS:
        end_of_entry(m, w, barrier, time)
    elif barrier >= 0:
        end_known(m, w, barrier, time)
    mark(m, sm, w)


@core
def release_copies(m: Any, w: s.Warp) -> None:
    """Groups of asynchronous copies (LDGDEPBAR) that waited for answers: their end is known now."""
    time = m[w.async_time]
    for barrier in range(s.DEPENDENCE_BARRIERS):
        count = m[w.ring_count[barrier]]
        for i in range(max(count - s.RING, 0), count):
            place = w.ring[barrier * s.RING + (i & (s.RING - 1))]
            if m[place] >= s.INF:
                m[place] = time
                end_known(m, w, barrier, time)


@core
def commit_copies(m: Any, w: s.Warp, barrier: int, time: int) -> None:
    """LDGDEPBAR: the counter falls when every copy so far has arrived."""
    if barrier < 0:
        return
    end = s.INF if m[w.async_copies] else max(time, m[w.async_time])
    hold(m, w, barrier, end, 1)
    push_ring(m, w, barrier, end)


@core
def complete_by(m: Any, sm: s.SM, answer: int) -> None:
    """A write or an atomic of the SM is complete at ``answer``; the launch ends at most its overlap before that."""
    m[sm.finish] = max(m[sm.finish], answer - m[s.chip.end_overlap])
    m[sm.written] = max(m[sm.written], answer)


@core
def owe(m: Any, sm: s.SM, answer: int, lag: int) -> None:
    """A write of the SM is complete at ``answer``; an SM whose writes lag that far sends no more."""
    complete_by(m, sm, answer)
    m[sm.store_free] = max(m[sm.store_free], answer - lag)


@core
def atomics_free(m: Any, sm: s.SM, more: int) -> int:
    """When the SM has a place for a pass of an atomic after ``more`` others: L2 has accepted the one that many places before it (bench.machine.atomics_in_flight)."""
    return m[sm.atomics_left[(m[sm.atomics_sent] + more) % m[s.chip.atomics_in_flight]]]


@core
def atomics_are_stuck(m: Any, sm: s.SM, time: int) -> bool:
    """Whether no place is known to become free for the SM's next atomic: as many as it has places are not served yet, and those before them wait for L2."""
    unserved = m[sm.atomics_sent] - m[sm.atomics_served]
    return (
        unserved >= m[s.chip.atomics_in_flight]
        and m[sm.atomics_left[(m[sm.atomics_served] - 1) % m[s.chip.atomics_in_flight]]] > time
    )


@core
def atomic_accepted(m: Any, sm: s.SM, line: int, time: int, passes: int) -> None:
    """Record that L2 accepts an atomic of the SM, on one line in a number of ``passes``, at ``time`` (cycles): it held its places until then, less the latency to L2. Atomics on memory
    elsewhere wait there and hold no places of the SM."""
    elsewhere = m[s.chip.range_count] and longer_away(m, line, True)
    for _ in range(passes):
        m[sm.atomics_left[m[sm.atomics_served] % m[s.chip.atomics_in_flight]]] = (
            0 if elsewhere else time - m[s.chip.to_l2]
        )
        m[sm.atomics_served] += 1


@core
def receive_store(m: Any, sm: s.SM, r: s.Request, answer: int) -> None:
    """A store is acknowledged."""
    w = s.Warp(m[r.warp])
    m[w.stores] -= 1
    m[sm.stores_known] += 1
    acknowledge(m, sm, w, answer)
    lag = m[s.chip.store_lag]
    if m[s.chip.range_count]:
        note_written(m, sm, m[r.line], answer)
        lag += longer_away(m, m[r.line], False)
    owe(m, sm, answer, lag)
    if m[w.fence] and m[w.stores] == 0:
        mark(m, sm, w)


@core
def fill(m: Any, sm: s.SM, r: s.Request, answer: int) -> None:
    """The sectors of a request arrive in L1."""
    line = m[r.line]
    sectors = m[r.sectors]
    place = m[r.full]
    if m[place] >> 8 != line:  # it has been replaced since
        place = l1_find(m, sm, line, answer)
    if place >= 0:
        tag = m[place]
        come = (tag >> 4) & sectors
        m[place] = (tag & ~(come << 4)) | come
        filled = place + m[s.chip.l1_ways] * s.C_FILL
        m[filled] = max(m[filled], answer)


@core
def receive_answer(m: Any, sm: s.SM, r: s.Request, answer: int) -> int:
    """Handle an answer other than a store's; returns when the loads that wait for it can use it."""
    kind = m[r.kind]
    if kind == s.RQ_LOAD or kind == s.RQ_LOAD_AROUND:
        passed = popcount(m[r.sectors])
        m[sm.fill_sectors] += passed
        answer = reserve(m, sm.fill_calendar, s.CALENDAR_SHIFT, m[s.chip.fill_capacity], answer, passed)
        if kind == s.RQ_LOAD:
            fill(m, sm, r, answer)
    elif kind == s.RQ_ATOMIC:
        if m[s.chip.range_count]:
            note_written(m, sm, m[r.line], answer)
        atomic_accepted(m, sm, m[r.line], m[r.full], m[r.sectors])
        complete_by(m, sm, answer)
    elif kind == s.RQ_FENCE:
        w = s.Warp(m[r.warp])
        if answer >= s.INF:  # it has not left: it comes again
            m[w.fence] = max(m[r.line], 1) | s.FENCE_AT_L2
        else:
            m[w.fence] = 0
            m[w.earliest] = max(m[w.earliest], answer)
        mark(m, sm, w)
    elif kind == s.RQ_STRONG:
        mark(m, sm, s.Warp(m[r.warp]))
    return answer


@core
def tell_loads(m: Any, sm: s.SM, r: s.Request, answer: int, count: int) -> None:
    """Tell the loads that wait for a request, or for the ``count`` of a run."""
    loads = sm + m[s.chip.loads_at]
    passed = m[r.kind] <= s.RQ_LOAD_AROUND
    x = m[r.waiters]
    while x >= 0:
        base = s.Waiter(sm + m[s.chip.waiters_at] + x * s.Waiter.size)
        number = m[base.load] & s.WAITER_LOAD_MASK
        load = s.PendingLoad(loads + number * s.PendingLoad.size)
        came = answer
        if passed:
            came += (m[s.chip.replay] - 1) * (m[base.load] >> s.WAITER_BEHIND_SHIFT)
        m[load.time] = max(m[load.time], came)
        m[load.left] -= count
        if m[load.left] == 0:
            finish_load(m, sm, number)
        x = m[base.next]


@core
def receive(m: Any, sm: s.SM) -> None:
    """Pass the answers of the last window to lines, loads and fences."""
    requests = sm + m[s.chip.requests_at]
    host = host_address(m)
    fill_at = 8 * m[s.chip.l1_ways] * s.C_FILL
    for index in range(m[sm.requests]):
        r = s.Request(requests + index * s.Request.size)
        coming = s.Request(r + RECEIVE_AHEAD * s.Request.size)
        if m[coming.kind] == s.RQ_LOAD:
            place = host + 8 * m[coming.full]
            prefetch(place)
            prefetch(place + fill_at)
        if m[r.kind] == s.RQ_STORE:
            receive_store(m, sm, r, m[r.answer])
            continue
        count = length_of(m, sm, index)
        answer = receive_answer(m, sm, r, m[r.answer]) if count == 1 else receive_run(m, sm, r, count)
        tell_loads(m, sm, r, answer, count)
    m[sm.requests] = 0
    m[sm.repeated] = 0
    m[sm.bulks] = 0
    m[sm.waiters] = 0
    m[sm.loads] = 0


@core
def invalidate(m: Any, sm: s.SM) -> None:
    """L1 forgets what it holds (outstanding misses still answer their loads)."""
    forget_below(m, sm, s.INF)


@core
def invalidate_shared_lines(m: Any, sm: s.SM) -> None:
    """CCTL.IVALL: L1 forgets what it holds, except warps' local memory, which nobody else writes.

    (bench.machine.stack_fences on H200: a load of the stack takes 53 to 66 cycles, including two reads of the clock, with and without a fence or an acquire before it.)
    """
    forget_below(m, sm, m[s.chip.local_physical] >> m[s.chip.line_shift])


@core
def forget_below(m: Any, sm: s.SM, kept: int) -> None:
    """L1 forgets all lines whose number is below ``kept``."""
    first = sm + m[s.chip.l1_at]
    ways = m[s.chip.l1_ways]
    for at in range(first, first + m[sm.l1_sets] * ways * s.C_SLOTS, ways * s.C_SLOTS):
        for place in range(at, at + ways):
            if m[place] >> 8 < kept:
                m[place] = m[place] & ~15
                m[place + ways * s.C_WORDS] = 0
