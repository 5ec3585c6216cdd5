"""A request's way between windows: its GPC, the crossbar, L2 and back; a strong access is executed here.

``exchange.py`` says who serves which requests, and in which order.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, host_address, lowest_bit, popcount, prefetch, u
from warpwright.timing import state as s
from warpwright.timing.address_hash import slice_of
from warpwright.timing.bulk import serve_bulk
from warpwright.timing.coalescer import count_passes, sectors_of, wavefronts
from warpwright.timing.l1 import (
    ATOMIC_CREDIT_CYCLES,
    REPLAY_CYCLES,
    SPACE_SHARED,
    STORE_CREDIT_CYCLES,
    atomic_waves,
    atomic_words,
    fill_lines,
    owe,
    remote_lanes,
    space_of,
)
from warpwright.timing.l1_sets import forget_lines
from warpwright.timing.l2 import approach, counterpart, is_far, queue_end
from warpwright.timing.links import atomic_line, longer_away, note_written, read_line, write_line
from warpwright.timing.ports import reserve
from warpwright.timing.read_coalescer import coalescer_entry
from warpwright.timing.records import address_of, record_at
from warpwright.timing.remote import answer_load, on_cluster
from warpwright.timing.stores import WORD_BYTES, store_cost, written_in_l1
from warpwright.timing.tlb import translate
from warpwright.timing.warp import (
    BARRIER,
    SLEEP,
    STRONG,
    acknowledge,
    arrive,
    pause_of,
    run_function,
    take_block,
    turn_back,
)

SHORT_WINDOWS_FOR_CYCLES = 4096
"""How long windows are short after a strong access without an answer: a few answers from L2, behind which the next one may come."""
SHORT_WINDOWS_BEHIND_FENCE_CYCLES = 1024
"""The same behind a fence that asked the slices: a warp's next one may leave when its stores are acknowledged, within a window."""


@core
def note_turn(m: Any, index: int, home: int) -> None:
    """SM ``index`` has turned to a slice."""
    place = u(m[u(s.H_TOUCHED)] + home * m[u(s.H_TOUCHED_WORDS)] + (index >> 6))
    bit = 1 << (index & 63)
    if m[place] & bit == 0:  # hardly ever: slices lie beside each other in the host's memory
        m[place] |= bit


@core
def reach(m: Any, index: int, line: int) -> int:
    """The home of a line that SM ``index`` turns to; it is noted that it did."""
    home = slice_of(m, line)
    note_turn(m, index, home)
    return home


@core
def announce(m: Any, index: int, r: int) -> None:
    """Have the host fetch what a request of SM ``index`` will look at."""
    kind = m[u(r + s.R_KIND)]
    if kind >= s.RQ_STRONG:
        return
    line = m[u(r + s.R_LINE)]
    home = m[u(r + s.R_ANSWER)]
    loads = kind <= s.RQ_LOAD_AROUND
    approach(m, home, line, not loads or is_far(m, m[u(m[u(s.H_PARTITION_OF_SM)] + index)], home))
    if loads and m[u(s.H_COALESCER_LINES)]:
        gpc = m[u(m[u(s.H_GPC_OF_SM)] + index)]
        prefetch(host_address(m) + 8 * coalescer_entry(m, gpc, home, line))


@core
def execute_strong(m: Any, code: Any, sm: int, partition: int, r: int, time: int) -> int:
    """Run a warp's strong access and time it; gives the time of its answer at the slice."""
    w = m[u(r + s.R_WARP)]
    row = m[u(r + s.R_LINE)]
    index = m[u(sm + s.SM_INDEX)]
    if m[u(w + s.W_PENDING)] < 2:  # the warp went elsewhere at an earlier one
        return time
    m[u(w + s.W_PENDING)] -= 2
    if not run_function(m, sm, w, m[u(r + s.R_TIME)]):
        m[u(s.H_ERROR)] = 1
        return time
    if row < 0:
        return time
    number = m[u(r + s.R_FULL)]
    behind = row // s.I_SLOTS + 1
    if m[u(w + s.W_USED)] == 0:
        if m[u(w + s.W_PENDING)]:
            turn_back(m, code, sm, w, number, behind)
        return time
    found = take_block(m, code, w)
    if found != number:
        turn_back(m, code, sm, w, found, 0)
        return time
    mask, base, tabled, step = record_at(m, w)
    if m[u(w + s.W_PENDING)] and (m[u(w + s.W_STATUS)] != STRONG or m[u(w + s.W_POS)] != m[u(w + s.W_USED)]):
        turn_back(m, code, sm, w, number, behind)
    if mask == 0:
        return time
    size = code[u(row + s.I_BYTES)]
    operation = code[u(row + s.I_OP)]
    space = space_of(address_of(base, tabled, step, lowest_bit(mask)))
    if space == SPACE_SHARED:
        changes = operation >= s.OP_ATOMIC
        remote = remote_lanes(m, w, code[u(row + s.I_EXTRA)], base, tabled, step, mask)
        if changes and remote:
            own = mask & ~remote
            if own:
                waves = wavefronts(m, sm, base, tabled, step, own, size, True, False)
                reserve(m, sm + s.OFF_LSU, s.CALENDAR_SHIFT, m[u(s.H_LSU_CAPACITY)], m[u(r + s.R_TIME)], waves - 1)
            passed = on_cluster(m, sm, w, base, tabled, step, remote, size, m[u(r + s.R_TIME)], True)
            acknowledge(m, sm, w, passed)
            return passed + m[u(s.H_REMOTE_ATOMIC)] - m[u(s.H_FROM_L2)]
        waves = wavefronts(m, sm, base, tabled, step, mask, size, changes, not changes)
        m[u(sm + s.SM_SHARED_WAVEFRONTS)] += waves
        reserve(m, sm + s.OFF_LSU, s.CALENDAR_SHIFT, m[u(s.H_LSU_CAPACITY)], m[u(r + s.R_TIME)], waves - 1)
        answer = m[u(r + s.R_TIME)] + m[u(s.H_SHARED_ATOMIC if changes else s.H_SHARED_LATENCY)]
        if remote:
            passed = on_cluster(m, sm, w, base, tabled, step, remote, size, m[u(r + s.R_TIME)], False)
            answer = passed + m[u(s.H_REMOTE_LATENCY)]
        return answer - m[u(s.H_FROM_L2)]  # whose way back is added by who asked
    n = fill_lines(m, sm, w, base, tabled, step, mask, size, space)
    sectors = sectors_of(m, sm, n)
    answer = time
    if operation >= s.OP_ATOMIC:
        count_passes(m, sm, base, tabled, step, mask, n)
        extra = code[u(row + s.I_EXTRA)]
        waves = atomic_waves(m, sm, n, operation, extra & 255)
        m[u(sm + s.SM_GLOBAL_ATOMICS)] += 1
        m[u(sm + s.SM_ATOMIC_SECTORS)] += sectors
        forget_lines(m, sm, n)
        for i in range(n):
            line = m[u(sm + s.OFF_LINES + i)]
            mine = m[u(sm + s.OFF_LINE_SECTORS + i)]
            home = reach(m, index, line)
            done = atomic_line(m, partition, home, line, mine, atomic_words(m, sm, i, extra), time + i)
            answer = max(answer, done)
            if m[u(s.H_ELSEWHERES)]:
                note_written(m, sm, line, done)
                m[u(sm + s.SM_LONGER)] = max(m[u(sm + s.SM_LONGER)], longer_away(m, line, True))
        if operation == s.OP_ATOMIC:
            answer = max(answer, time + waves)
    elif operation == s.OP_LOAD:
        waves = n
        m[u(sm + s.SM_GLOBAL_LOADS)] += 1
        m[u(sm + s.SM_LOAD_SECTORS)] += sectors
        forget_lines(m, sm, n)
        for i in range(n):
            line = m[u(sm + s.OFF_LINES + i)]
            home = reach(m, index, line)
            mine = m[u(sm + s.OFF_LINE_SECTORS + i)]
            left = max(m[u(r + s.R_TIME)] + i, m[u(sm + s.SM_MISS_FREE)])
            m[u(sm + s.SM_MISS_FREE)] = left + 1
            came = read_line(m, -1, partition, home, line, mine, left + m[u(s.H_TO_L2)])
            answer = max(answer, came + (REPLAY_CYCLES - 1) * i)
    else:
        waves = 0
        m[u(sm + s.SM_GLOBAL_STORES)] += 1
        m[u(sm + s.SM_STORE_SECTORS)] += sectors
        for i in range(n):
            line = m[u(sm + s.OFF_LINES + i)]
            mine = m[u(sm + s.OFF_LINE_SECTORS + i)]
            held = m[u(sm + s.OFF_LINE_BYTES + i)]
            done = write_line(m, partition, reach(m, index, line), line, mine, held, time + waves)
            answer = max(answer, done)
            waves += store_cost(m, line, mine, held)
            if m[u(s.H_ELSEWHERES)]:
                note_written(m, sm, line, done)
            words = m[u(sm + s.OFF_LINE_WORDS + i)] if size >= WORD_BYTES else 0
            written_in_l1(m, sm, line, mine, held, words, False, m[u(r + s.R_TIME)], 0)
        acknowledge(m, sm, w, answer)
    if waves > 1:
        reserve(m, sm + s.OFF_LSU, s.CALENDAR_SHIFT, m[u(s.H_LSU_CAPACITY)], m[u(r + s.R_TIME)], waves - 1)
    return answer


@core
def stop_as_issued(m: Any, sm: int, w: int) -> None:
    """Carry out the stop at the end of a strong access's block whose instruction issued before the access was executed.

    The instruction (a block barrier, a NANOSLEEP) issues as soon as the access has left for L2; what it does is known only now.
    """
    if m[u(w + s.W_PENDING)] or m[u(w + s.W_POS)] != m[u(w + s.W_USED)] or m[u(w + s.W_PC)] != m[u(w + s.W_END)]:
        return
    issued = m[u(w + s.W_LAST)]
    if m[u(w + s.W_STATUS)] == BARRIER:
        arrive(m, sm, w, issued, False)
    elif m[u(w + s.W_STATUS)] == SLEEP:
        m[u(w + s.W_EARLIEST)] = max(m[u(w + s.W_EARLIEST)], issued + pause_of(m, w))
        m[u(w + s.W_REASON)] = s.ST_SLEEP


@core
def fence_waits(m: Any, index: int, partition: int, time: int) -> int:
    """How much longer a fence takes for what waits at the slices: it goes to each one that its SM has turned to, behind the reads there
    (bench.micro ``crowd``: as long as a look at the slice that a crowd polls, also where only other warps of the SM do)."""
    words = m[u(s.H_TOUCHED_WORDS)]
    first = m[u(s.H_TOUCHED)] + (index >> 6)
    latest = time
    for home in range(m[u(s.H_SLICES)]):
        if (m[u(first + home * words)] >> (index & 63)) & 1:
            latest = max(latest, queue_end(m, home, time))
            if is_far(m, partition, home):
                latest = max(latest, queue_end(m, counterpart(m, home), time))
    return latest - time


@core
def pass_gpc(m: Any, gpc: int, r: int, kind: int) -> None:
    """A request's way from its SM to its slice, through what the SMs of a GPC share; ``R_TIME`` is then when it is there."""
    time = m[u(r + s.R_TIME)] + m[u(s.H_TO_L2)]
    if m[u(s.H_TLB_SETS)]:
        time = translate(m, gpc, m[u(r + s.R_LINE)], time)
    if kind == s.RQ_STORE:
        ports = m[u(s.H_GPC_WRITE_PORTS)] + gpc * s.CALENDAR_SLOTS
        count = popcount(m[u(r + s.R_SECTORS)])
        time = reserve(m, ports, s.CALENDAR_SHIFT, m[u(s.H_GPC_WRITE_CAPACITY)], time, count)
    m[u(r + s.R_TIME)] = time


@core
def serve_at_slice(m: Any, index: int, r: int) -> None:
    """Serve a request of SM ``index`` that has passed its GPC, at its home (in ``R_ANSWER``) and its counterpart; ``R_ANSWER`` is then
    when the slice is done."""
    home = m[u(r + s.R_ANSWER)]
    line = m[u(r + s.R_LINE)]
    time = m[u(r + s.R_TIME)]
    sectors = m[u(r + s.R_SECTORS)]
    kind = m[u(r + s.R_KIND)]
    partition = m[u(m[u(s.H_PARTITION_OF_SM)] + index)]
    note_turn(m, index, home)
    if kind == s.RQ_STORE:
        answer = write_line(m, partition, home, line, sectors, m[u(r + s.R_FULL)], time)
    elif kind == s.RQ_ATOMIC:
        answer = atomic_line(m, partition, home, line, sectors, m[u(r + s.R_FULL)], time)
    else:
        gpc = m[u(m[u(s.H_GPC_OF_SM)] + index)]
        answer = read_line(m, gpc, partition, home, line, sectors, time)
    m[u(r + s.R_ANSWER)] = answer


@core
def back_to_gpc(m: Any, gpc: int, r: int) -> None:
    """An answer's way from its slice to its SM."""
    kind = m[u(r + s.R_KIND)]
    if kind == s.RQ_STORE:
        return
    answer = m[u(r + s.R_ANSWER)]
    if kind != s.RQ_ATOMIC:
        ports = m[u(s.H_GPC_PORTS)] + gpc * s.CALENDAR_SLOTS
        count = popcount(m[u(r + s.R_SECTORS)])
        answer = reserve(m, ports, s.CALENDAR_SHIFT, m[u(s.H_GPC_CAPACITY)], answer, count)
    m[u(r + s.R_ANSWER)] = answer + m[u(s.H_FROM_L2)]


@core
def serve_in_order(m: Any, code: Any, sm: int, r: int) -> None:
    """Serve a request that must take its turn among those of all SMs: a strong access, a bulk copy, a block of constants."""
    index = m[u(sm + s.SM_INDEX)]
    partition = m[u(m[u(s.H_PARTITION_OF_SM)] + index)]
    kind = m[u(r + s.R_KIND)]
    if kind == s.RQ_BULK:
        m[u(r + s.R_ANSWER)] = serve_bulk(m, sm, r, partition, m[u(m[u(s.H_GPC_OF_SM)] + index)])
        return
    if kind == s.RQ_CONSTANT:  # it tells when its SM has the block: others find it in L2
        arrived = m[u(s.H_CONST_ARRIVED)] + m[u(r + s.R_LINE)]
        m[u(arrived)] = min(m[u(arrived)], m[u(r + s.R_ANSWER)])
        return
    if kind == s.RQ_REMOTE:
        answer_load(m, sm, r)
        return
    if kind == s.RQ_FENCE:
        waits = fence_waits(m, index, partition, m[u(r + s.R_TIME)] + m[u(s.H_TO_L2)])
        m[u(r + s.R_ANSWER)] = m[u(r + s.R_TIME)] + m[u(r + s.R_LINE)] + waits
        m[u(s.H_SHORT_UNTIL)] = max(m[u(s.H_SHORT_UNTIL)], m[u(r + s.R_TIME)] + SHORT_WINDOWS_BEHIND_FENCE_CYCLES)
        return
    m[u(sm + s.SM_LONGER)] = 0
    answer = execute_strong(m, code, sm, partition, r, m[u(r + s.R_TIME)] + m[u(s.H_TO_L2)])
    w = m[u(r + s.R_WARP)]
    stop_as_issued(m, sm, w)
    row = m[u(r + s.R_LINE)]
    if row < 0 or code[u(row + s.I_OP)] == s.OP_STORE or code[u(row + s.I_OP)] == s.OP_REDUCE:
        m[u(s.H_SHORT_UNTIL)] = max(m[u(s.H_SHORT_UNTIL)], m[u(r + s.R_TIME)] + SHORT_WINDOWS_FOR_CYCLES)
    if row >= 0 and code[u(row + s.I_OP)] == s.OP_STORE:
        m[u(w + s.W_STORES)] -= 1
        owe(m, sm, answer, STORE_CREDIT_CYCLES + m[u(sm + s.SM_LONGER)])
    if row >= 0 and code[u(row + s.I_OP)] >= s.OP_ATOMIC:
        owe(m, sm, answer, ATOMIC_CREDIT_CYCLES + m[u(sm + s.SM_LONGER)])
    m[u(r + s.R_ANSWER)] = answer + m[u(s.H_FROM_L2)]
