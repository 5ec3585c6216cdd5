"""The path of a request between windows: GPC, crossbar, L2 and back; executes strong accesses.

``exchange.py`` determines who serves which requests, and in which order.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, host_address, lowest_bit, peek, popcount, prefetch, u
from warpwright.timing import state as s
from warpwright.timing.access_policy import policies_at, policy_of
from warpwright.timing.address_hash import slice_of
from warpwright.timing.block_barriers import arrive
from warpwright.timing.bulk import serve_bulk
from warpwright.timing.coalescer import count_passes, passes_of, sectors_of, wavefronts
from warpwright.timing.dsmem import answer_load, on_cluster
from warpwright.timing.fence_requests import acknowledge
from warpwright.timing.fences import comes_too_early, fence_waits, near_slice, queues_end
from warpwright.timing.grid_steps import THREADS, note_step, place_of
from warpwright.timing.l1 import (
    SPACE_SHARED,
    atomic_accepted,
    atomic_waves,
    atomic_words,
    complete_by,
    fill_lines,
    owe,
    remote_lanes,
    space_of,
)
from warpwright.timing.l1_sets import forget_lines
from warpwright.timing.l2 import approach, counters, is_far
from warpwright.timing.l2_hazards import queue_of
from warpwright.timing.links import atomic_line, note_written, read_line, strong_way, write_line
from warpwright.timing.numbered_units import sm_at
from warpwright.timing.ports import reserve
from warpwright.timing.read_coalescer import coalescer_entry
from warpwright.timing.records import Addresses, address_of, record_at
from warpwright.timing.stores import WORD_BYTES, Written, store_cost, written_in_l1
from warpwright.timing.texture_unit import serve_texture
from warpwright.timing.tlb import translate
from warpwright.timing.warp import BARRIER, SLEEP, STRONG, pause_of, run_function, take_block, turn_back

SHORT_WINDOWS_FOR_CYCLES = 4096
"""How long windows stay short after a strong access without an answer: the time of a few answers from L2, after which the next one may come."""
SHORT_WINDOWS_BEHIND_FENCE_CYCLES = 1024
"""The same after a fence that went to the slices: a warp's next one may leave when its stores are acknowledged, within a window."""


@core
def note_turn(m: Any, index: int, home: int) -> None:
    """Record that SM ``index`` has sent a request to a slice."""
    place = u(m[s.chip.touched] + home * m[s.chip.touched_words] + (index >> 6))
    bit = 1 << (index & 63)
    if m[place] & bit == 0:  # hardly ever: slices are adjacent in the host's memory
        m[place] |= bit


@core
def reach(m: Any, sm: s.SM, r: s.Request, line: int) -> int:
    """The home of a line of an SM's strong access; also records the use of the slice and the policy that the access requests."""
    home = slice_of(m, line)
    note_turn(m, m[sm.index], home)
    if m[s.chip.policies]:
        m[counters(m, home).policy] = policy_of(m, sm, s.Warp(m[r.warp]), line)
    return home


@core
def note_far_write(m: Any, index: int, home: int, time: int) -> None:
    """Record whether a write of SM ``index`` at ``time`` crosses to the other partition: a fence will then go that far."""
    if is_far(m, m[m[s.chip.partition_of_sm] + index], home):
        m[sm_at(m, index).wrote_far] = time


@core
def announce(m: Any, index: int, r: s.Request) -> None:
    """Prefetch, on the host, the state that a request of SM ``index`` will need."""
    kind = m[r.kind]
    if kind >= s.RQ_STRONG:
        return
    line = m[r.line]
    home = m[r.answer]
    loads = kind <= s.RQ_LOAD_AROUND
    approach(m, home, line, not loads or is_far(m, m[m[s.chip.partition_of_sm] + index], home))
    if loads and m[s.chip.coalescer_lines]:
        gpc = m[m[s.chip.gpc_of_sm] + index]
        prefetch(host_address(m) + 8 * coalescer_entry(m, gpc, home, line))


@core
def strong_record(m: Any, code: Any, sm: s.SM, w: s.Warp, r: s.Request) -> bool:
    """Run a warp's function up to its next stop for a strong access; returns whether it has left that access's record."""
    row = s.Instruction(m[r.line])
    if m[w.pending] < 2:  # the warp took another path at an earlier one
        return False
    m[w.pending] -= 2
    place, threads = place_of(m, w), peek(m[w.pointer] + THREADS)
    if not run_function(m, sm, w, m[r.time]):
        m[s.chip.error] = 1
        return False
    if m[s.chip.grid_barrier]:
        note_step(m, w, m[r.time], place, threads)
    if row < 0:
        return False
    number = m[r.full]
    if m[w.used] == 0:
        if m[w.pending]:
            turn_back(m, code, sm, w, number, row // s.Instruction.size + 1)
        return False
    found = take_block(m, code, w)
    if found != number:
        turn_back(m, code, sm, w, found, 0)
        return False
    return True


@core
def execute_strong_shared(m: Any, code: Any, sm: s.SM, w: s.Warp, r: s.Request, addresses: Addresses) -> int:
    """Time a strong access to shared memory; returns the time of its answer less the way back from a slice, which the caller adds."""
    row = s.Instruction(m[r.line])
    base, tabled, step, mask = addresses
    size = code[row.access_bytes]
    changes = code[row.op] >= s.OP_ATOMIC
    each = changes and code[row.extra] & s.COUNTS_LANES == 0
    remote = remote_lanes(m, w, code[row.extra], addresses)
    if changes and remote:
        own = mask & ~remote
        if own:
            waves = wavefronts(m, sm, Addresses(base, tabled, step, own), size, each, False)
            reserve(m, sm.lsu_calendar, s.CALENDAR_SHIFT, m[s.chip.lsu_capacity], m[r.time], waves - 1)
        passed = on_cluster(m, sm, w, Addresses(base, tabled, step, remote), size, m[r.time], True)
        acknowledge(m, sm, w, passed)
        return passed + m[s.chip.remote_atomic] - m[s.chip.from_l2]
    waves = wavefronts(m, sm, addresses, size, each, not changes)
    m[sm.shared_wavefronts] += waves
    reserve(m, sm.lsu_calendar, s.CALENDAR_SHIFT, m[s.chip.lsu_capacity], m[r.time], waves - 1)
    answer = m[r.time] + m[s.chip.shared_atomic if changes else s.chip.shared_latency]
    if remote:
        passed = on_cluster(m, sm, w, Addresses(base, tabled, step, remote), size, m[r.time], False)
        answer = passed + m[s.chip.remote_latency]
    return answer - m[s.chip.from_l2]


@core
def strong_atomic(
    m: Any, sm: s.SM, partition: int, r: s.Request, operation: int, extra: int, time: int, n: int
) -> tuple[int, int]:
    """Execute an atomic at L2 on the ``n`` lines in the scratch, which arrive from ``time`` on; returns the time of its answer and the load/store unit's cycles."""
    index = m[sm.index]
    answer = time
    waves = atomic_waves(m, sm, n, operation, extra & 255)
    m[sm.global_atomics] += 1
    m[sm.atomic_sectors] += sectors_of(m, sm, n)
    forget_lines(m, sm, n)
    for i in range(n):
        line = m[sm.lines[i]]
        home = reach(m, sm, r, line)
        note_far_write(m, index, home, m[r.time])
        done = atomic_line(m, partition, home, line, m[sm.line_sectors[i]], atomic_words(m, sm, i, extra), time + i)
        answer = max(answer, done)
        if m[s.chip.range_count]:
            note_written(m, sm, line, done)
        atomic_accepted(m, sm, line, m[queue_of(m, home).accepted], passes_of(m, m[sm.line_bytes[i]]))
    if operation == s.OP_ATOMIC:
        answer = max(answer, time + waves)
    return answer, waves


@core
def strong_load(m: Any, sm: s.SM, partition: int, r: s.Request, way: int, time: int, n: int) -> int:
    """Read the ``n`` lines in the scratch at L2; returns when the last one has arrived."""
    answer = time
    m[sm.global_loads] += 1
    m[sm.load_sectors] += sectors_of(m, sm, n)
    forget_lines(m, sm, n)
    # Answers share their GPC's port with those of other loads.
    ports = m[s.chip.gpc_ports] + m[m[s.chip.gpc_of_sm] + m[sm.index]] * s.CALENDAR_SLOTS
    for i in range(n):
        line = m[sm.lines[i]]
        home = reach(m, sm, r, line)
        left = max(m[r.time] + i, m[sm.miss_free])
        m[sm.miss_free] = left + 1
        sectors = m[sm.line_sectors[i]]
        m[queue_of(m, near_slice(m, partition, home)).polled] = line + 1
        came = read_line(m, way, partition, home, line, sectors, left + m[s.chip.to_l2])
        came = reserve(m, ports, s.CALENDAR_SHIFT, m[s.chip.gpc_capacity], came, popcount(sectors))
        answer = max(answer, came + (m[s.chip.replay] - 1) * i)
    return answer


@core
def strong_store(m: Any, sm: s.SM, partition: int, r: s.Request, size: int, time: int, n: int) -> tuple[int, int]:
    """Write the ``n`` lines in the scratch at L2; returns the time of the acknowledgement and the load/store unit's cycles."""
    index = m[sm.index]
    answer = time
    waves = 0
    m[sm.global_stores] += 1
    m[sm.store_sectors] += sectors_of(m, sm, n)
    for i in range(n):
        line = m[sm.lines[i]]
        mine = m[sm.line_sectors[i]]
        held = m[sm.line_bytes[i]]
        home = reach(m, sm, r, line)
        note_far_write(m, index, home, m[r.time])
        done = write_line(m, partition, home, line, mine, held, time + waves)
        answer = max(answer, done)
        waves += store_cost(m, line, mine, held)
        if m[s.chip.range_count]:
            note_written(m, sm, line, done)
        words = m[sm.line_words[i]] if size >= WORD_BYTES else 0
        written_in_l1(m, sm, Written(line, mine, held, words, False, 0), m[r.time])
    return answer, waves


@core
def execute_strong(m: Any, code: Any, sm: s.SM, partition: int, r: s.Request, time: int) -> int:
    """Run a warp's strong access and time it; returns the time of its answer at the slice."""
    w = s.Warp(m[r.warp])
    row = s.Instruction(m[r.line])
    if not strong_record(m, code, sm, w, r):
        return time
    addresses = record_at(m, w)
    if m[w.pending] and (m[w.status] != STRONG or m[w.pos] != m[w.used]):
        turn_back(m, code, sm, w, m[r.full], row // s.Instruction.size + 1)
    if addresses.mask == 0:
        return time
    size = code[row.access_bytes]
    operation = code[row.op]
    first = address_of(addresses.base, addresses.tabled, addresses.step, lowest_bit(addresses.mask))
    space = space_of(first)
    if space == SPACE_SHARED:
        return execute_strong_shared(m, code, sm, w, r, addresses)
    n = fill_lines(m, sm, w, addresses, size, space)
    if operation >= s.OP_ATOMIC:
        count_passes(m, sm, addresses, n)
        answer, waves = strong_atomic(m, sm, partition, r, operation, code[row.extra], time, n)
        m[w.store_time] = max(m[w.store_time], answer)
    elif operation == s.OP_LOAD:
        way = strong_way(code[row.strong])
        waves = n
        answer = strong_load(m, sm, partition, r, way, time, n)
    else:
        answer, waves = strong_store(m, sm, partition, r, size, time, n)
        acknowledge(m, sm, w, answer)
    if waves > 1:
        reserve(m, sm.lsu_calendar, s.CALENDAR_SHIFT, m[s.chip.lsu_capacity], m[r.time], waves - 1)
    return answer


@core
def stop_as_issued(m: Any, sm: s.SM, w: s.Warp) -> None:
    """Execute the stop at the end of a strong access's basic block, whose instruction issued before the access was executed.

    The instruction (a block barrier, a NANOSLEEP) issues as soon as the access has left for L2; its effect is known only now.
    """
    if m[w.pending] or m[w.pos] != m[w.used] or m[w.pc] != m[w.end]:
        return
    issued = m[w.last]
    if m[w.status] == BARRIER:
        arrive(m, sm, w, issued, False)
    elif m[w.status] == SLEEP:
        m[w.earliest] = max(m[w.earliest], issued + pause_of(m, w))
        m[w.reason] = s.ST_SLEEP


@core
def pass_gpc(m: Any, gpc: int, index: int, r: s.Request, kind: int) -> None:
    """Move a request of SM ``index`` to its slice, through the units that the SMs of a GPC share; ``Request.time`` is then its arrival.

    A store passes the port of its SM's group, where a line takes as many bytes as of an SM's output (bench.machine.group_shares on an H200: with stores of whole lines, of a
    word per 16 bytes, of a word per sector and of random words, six SMs reach 4.6 to 5.0 times the rate of one).
    """
    time = m[r.time] + m[s.chip.to_l2]
    if m[s.chip.tlb_sets]:
        time = translate(m, gpc, m[r.line], time)
    if kind == s.RQ_STORE:
        port = m[m[s.chip.store_port_of_sm] + index]
        units = (
            store_cost(m, m[r.line], m[r.sectors], m[r.full])
            if m[s.chip.store_port_count] > 1
            else popcount(m[r.sectors])
        )
        time = reserve(m, port, s.CALENDAR_SHIFT, m[s.chip.store_port_capacity], time, units)
    m[r.time] = time


@core
def serve_at_slice(m: Any, index: int, r: s.Request) -> None:
    """Serve a request of SM ``index`` that has passed its GPC, at its home (in ``Request.answer``) and its counterpart; ``Request.answer`` is then
    when the slice is done."""
    home = m[r.answer]
    line = m[r.line]
    time = m[r.time]
    sectors = m[r.sectors]
    kind = m[r.kind]
    partition = m[m[s.chip.partition_of_sm] + index]
    note_turn(m, index, home)
    if m[s.chip.policies]:
        sm = sm_at(m, index)
        number = (r - sm - m[s.chip.requests_at]) // s.Request.size
        m[counters(m, home).policy] = m[policies_at(m, sm, number)]
    if kind == s.RQ_STORE:
        answer = write_line(m, partition, home, line, sectors, m[r.full], time)
    elif kind == s.RQ_ATOMIC:
        answer = atomic_line(m, partition, home, line, sectors, m[r.full], time)
        m[r.sectors] = passes_of(m, m[r.full])
        m[r.full] = m[queue_of(m, home).accepted]
    else:
        gpc = m[m[s.chip.gpc_of_sm] + index]
        if kind == s.RQ_LOAD_AROUND and m[r.full] < 0:
            gpc = m[r.full]
        answer = read_line(m, gpc, partition, home, line, sectors, time)
    m[r.answer] = answer


@core
def back_to_gpc(m: Any, gpc: int, r: s.Request) -> None:
    """Move an answer from its slice to its SM."""
    kind = m[r.kind]
    if kind == s.RQ_STORE:
        return
    answer = m[r.answer]
    if kind != s.RQ_ATOMIC:
        ports = m[s.chip.gpc_ports] + gpc * s.CALENDAR_SLOTS
        count = popcount(m[r.sectors])
        answer = reserve(m, ports, s.CALENDAR_SHIFT, m[s.chip.gpc_capacity], answer, count)
    m[r.answer] = answer + m[s.chip.from_l2]


@core
def serve_in_order(m: Any, code: Any, sm: s.SM, r: s.Request) -> None:
    """Serve a request that must take its turn among those of all SMs: a strong access, a bulk copy, a block of constants."""
    index = m[sm.index]
    partition = m[m[s.chip.partition_of_sm] + index]
    kind = m[r.kind]
    if kind == s.RQ_BULK:
        m[r.answer] = serve_bulk(m, sm, r)
        return
    if kind == s.RQ_CONSTANT:  # the answer is when its SM has the block; others find it in L2
        arrived = m[s.chip.const_arrived] + m[r.line]
        m[arrived] = min(m[arrived], m[r.answer])
        return
    if kind == s.RQ_TEXTURE:
        m[r.answer] = serve_texture(m, sm, r)
        return
    if kind == s.RQ_REMOTE:
        answer_load(m, sm, r)
        return
    if kind == s.RQ_FENCE:
        m[s.chip.short_until] = max(m[s.chip.short_until], m[r.time] + SHORT_WINDOWS_BEHIND_FENCE_CYCLES)
        if m[r.full] == s.FENCE_AFTER_LOADS:
            waits = queues_end(m, sm, partition, m[r.time] + m[s.chip.to_l2]) - m[s.chip.to_l2] - m[r.time]
        elif m[r.full] == s.FENCE_NOT_YET or comes_too_early(m, sm, m[r.time]):
            m[r.answer] = s.INF
            return
        else:
            waits = fence_waits(m, sm, partition, m[r.time])
        m[r.answer] = m[r.time] + m[r.line] + waits
        if m[sm.wrote_far] > m[sm.clean] and m[r.full] != s.FENCE_IN_ROUND:  # as far as the writes went
            m[r.answer] = max(m[r.answer], m[s.Warp(m[r.warp]).last] + m[s.chip.fence_written] + m[s.chip.far_latency])
        return
    served = m[sm.atomics_served]
    answer = execute_strong(m, code, sm, partition, r, m[r.time] + m[s.chip.to_l2])
    w = s.Warp(m[r.warp])
    stop_as_issued(m, sm, w)
    row = s.Instruction(m[r.line])
    if row < 0 or code[row.op] == s.OP_STORE or code[row.op] == s.OP_REDUCE:
        m[s.chip.short_until] = max(m[s.chip.short_until], m[r.time] + SHORT_WINDOWS_FOR_CYCLES)
    if row >= 0 and code[row.op] == s.OP_STORE:
        m[w.stores] -= 1
        m[sm.stores_known] += 1
        owe(m, sm, answer, m[s.chip.store_lag])
    if row >= 0 and code[row.op] >= s.OP_ATOMIC:
        m[sm.atomics_sent] += m[sm.atomics_served] - served - 1
        complete_by(m, sm, answer)
    m[r.answer] = answer + m[s.chip.from_l2]
