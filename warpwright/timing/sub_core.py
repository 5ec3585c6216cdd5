"""A sub-core: its warp scheduler, dispatch ports, register banks and pipes.

Each cycle the scheduler picks one of the warps whose next instruction can issue (``policies.py``; default greedy, then
oldest).  An instruction holds its pipe for 32 / lanes cycles, reads its registers through two banks (four on P100) of one
port each within a fixed window (Huerta et al., MICRO'25, sections 4 and 5; bench/micro: one 32-lane
read a bank and cycle, averaged over neighbours), and counts on the dependence counters that its control bits name.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit, poke, popcount, u
from warpwright.timing import state as s
from warpwright.timing.bulk import has_room, start_bulk, tell_until
from warpwright.timing.constant import load_constant
from warpwright.timing.intrinsics import call_scheduler, oldest, scan_slots
from warpwright.timing.l1 import access, commit_copies, invalidate
from warpwright.timing.ldgsts import copy
from warpwright.timing.match_any import match
from warpwright.timing.mio_queue import enter_queue
from warpwright.timing.records import record_at
from warpwright.timing.requests import new_load, new_request, wait_for
from warpwright.timing.warp import (
    BARRIER,
    CLOCK,
    HOLDS_BACK,
    SLEEP,
    arrive,
    hold,
    hold_both,
    pause_of,
    prepare,
    run_function,
    settle,
    start_block_of,
    take_barrier_unit,
    take_block,
    warp_at,
)

OPERANDS_READ_CYCLES = 4
"""Issue to the release of a read barrier for what does not go through the queue."""
BANKS_2_AND_3 = 0xFF00
"""Of an instruction's reads: those of the banks that only chips with four of them have."""
LOOK_AGAIN_CYCLES = 4
"""How closely the end of a try_wait's phase is told."""


@core
def device_fence(m: Any, sm: int, time: int) -> int:
    """What a fence for the device issued at ``time`` takes at least: more where the SM has written since its last one that is over.

    bench.micro ``fence_crews``: a store by one lane makes a round of any number of warps' fences 126 cycles longer; ``handoff``: a lock's two fences, behind a
    compare-and-swap and a store, take 789 cycles, one behind nothing 280 with what follows it.
    """
    if time >= m[u(sm + s.SM_FULL_FENCE_DONE)]:
        m[u(sm + s.SM_CLEAN)] = m[u(sm + s.SM_FULL_FENCE)]
    if m[u(sm + s.SM_WROTE)] <= m[u(sm + s.SM_CLEAN)]:
        return m[u(s.H_FENCE_LATENCY)]
    if time >= m[u(sm + s.SM_FULL_FENCE_DONE)]:
        m[u(sm + s.SM_FULL_FENCE)] = time
        m[u(sm + s.SM_FULL_FENCE_DONE)] = time + m[u(s.H_FENCE_WRITTEN)]
    return m[u(s.H_FENCE_WRITTEN)]


@core
def fence_done(m: Any, sm: int, time: int, latency: int, at_l2: bool) -> int:
    """When a fence issued at ``time`` is done; where an SM has places for a few, fences go in rounds, in which a place is another's after a fixed time.

    On an H200 those for the device do, and the next round begins when the places are free (bench.micro ``fence_crews``).  On P100 all do, and a round takes the
    fences that wait when the one before is over, and those that come before its first places are free again (seed 002's Table 5 and
    Figure 6: what a barrier with its fence takes follows from the warps of the SM alone, however they are split into blocks: the fences of one
    block do not go beside the barriers of another).
    """
    places = m[u(s.H_FENCE_PLACES)]
    apart = m[u(s.H_FENCE_ROUNDS_APART)]
    if places == 0 or not (apart or at_l2):
        return time + latency
    turn = m[u(s.H_FENCE_PLACE_TIME)]
    count = m[u(sm + s.SM_FENCES)]
    if count == 0 or time >= m[u(sm + s.SM_FENCE_ROUND)] + (turn if apart else -(-count // places) * turn):
        m[u(sm + s.SM_FENCE_ROUND)] = max(time, m[u(sm + s.SM_FENCE_END)]) if apart else time
        count = 0
    begins = max(time, m[u(sm + s.SM_FENCE_ROUND)] + count // places * turn)
    m[u(sm + s.SM_FENCES)] = count + 1
    m[u(sm + s.SM_FENCE_END)] = max(m[u(sm + s.SM_FENCE_END)], begins + latency)
    return begins + latency


@core
def occupy(m: Any, sc: int, pipe: int, interval: int, time: int) -> None:
    """Hold the instruction's pipe; FP32 takes the lite half when that is free, HADD2 both halves, and HFMA2.MMA may share FP64's way."""
    free = sc + s.SC_PIPE_FREE
    if pipe == s.P_FMA or pipe == s.P_FMA_HEAVY or pipe == s.P_FMA_PAIR:
        lite = m[u(free + s.P_FMA_LITE)]
        heavy = m[u(free + s.P_FMA_HEAVY)]
        if pipe == s.P_FMA and lite <= time:
            lite = time + interval
            m[u(free + s.P_FMA_LITE)] = lite
        else:
            heavy = time + interval
            m[u(free + s.P_FMA_HEAVY)] = heavy
            if pipe == s.P_FMA_PAIR:
                lite = heavy
                m[u(free + s.P_FMA_LITE)] = lite
        m[u(free + s.P_FMA)] = min(lite, heavy)
        m[u(free + s.P_FMA_PAIR)] = max(lite, heavy)
    elif (pipe == s.P_HALF or pipe == s.P_FP64) and m[u(s.H_HALF_WITH_FP64)]:
        m[u(free + s.P_HALF)] = time + interval
        m[u(free + s.P_FP64)] = time + interval
    elif pipe != s.P_NONE and pipe != s.P_MIO:
        m[u(free + pipe)] = time + interval


@core
def read_bank(m: Any, sc: int, bank: int, count: int, time: int) -> int:
    """When a register bank has been read so many times from ``time`` on, in cycles that the last tensor product leaves free."""
    at = max(m[u(sc + bank)], time)
    since = m[u(sc + s.SC_PRODUCT)]
    busy = m[u(sc + s.SC_PRODUCT_READS)]
    while count:
        if (busy >> min(at - since, 63)) & 1 == 0:
            count -= 1
        at += 1
    m[u(sc + bank)] = at
    return at


@core
def dispatch_product(m: Any, sc: int, reads: int, time: int) -> int:
    """A tensor product of a warp: it reads in fixed cycles behind its dispatch, the fewer the later; gives when it is dispatched."""
    start = max(time, max(m[u(sc + s.SC_BANK0)], m[u(sc + s.SC_BANK1)]) - 1)
    busy = m[u(s.H_PRODUCT_READS)]
    while popcount(busy) > max(reads & 15, (reads >> 4) & 15):
        busy &= busy - 1
    m[u(sc + s.SC_PRODUCT)] = start
    m[u(sc + s.SC_PRODUCT_READS)] = busy
    m[u(sc + s.SC_PRODUCT_END)] = start + m[u(s.H_PRODUCT_END)]
    free = sc + s.SC_PIPE_FREE
    m[u(free + s.P_HALF)] = max(m[u(free + s.P_HALF)], start + m[u(s.H_PRODUCT_HALF)])
    m[u(free + s.P_FP64)] = max(m[u(free + s.P_FP64)], start + m[u(s.H_PRODUCT_HALF)])
    return start


@core
def dispatch_behind_product(m: Any, sc: int, pipe: int, reads: int, time: int) -> int:
    """When an instruction is dispatched that issues while a tensor product still reads or is dispatched again."""
    bank0 = read_bank(m, sc, s.SC_BANK0, reads & 15, time)
    bank1 = read_bank(m, sc, s.SC_BANK1, (reads >> 4) & 15, time)
    if pipe == s.P_XU or pipe == s.P_MIO:  # they read later
        return time
    start = max(time, max(bank0, bank1) - m[u(s.H_WINDOW_OPERANDS)])
    if pipe == s.P_ALU or pipe == s.P_FMA or pipe == s.P_FMA_HEAVY or pipe == s.P_FMA_PAIR:
        while (m[u(s.H_PRODUCT_AGAIN)] >> min(start - m[u(sc + s.SC_PRODUCT)], 63)) & 1:
            start += 1
    return start


@core
def dispatch(m: Any, sc: int, pipe: int, reads: int, time: int) -> int:
    """When an instruction that issues at ``time`` has its operands within its window, and is dispatched."""
    if reads & s.PRODUCT:
        return dispatch_product(m, sc, reads, time)
    if time < m[u(sc + s.SC_PRODUCT_END)]:
        return dispatch_behind_product(m, sc, pipe, reads, time)
    bank0 = max(m[u(sc + s.SC_BANK0)], time) + (reads & 15)
    bank1 = max(m[u(sc + s.SC_BANK1)], time) + ((reads >> 4) & 15)
    m[u(sc + s.SC_BANK0)] = bank0
    m[u(sc + s.SC_BANK1)] = bank1
    last = max(bank0, bank1)
    if reads & BANKS_2_AND_3:
        bank2 = max(m[u(sc + s.SC_BANK2)], time) + ((reads >> 8) & 15)
        bank3 = max(m[u(sc + s.SC_BANK3)], time) + ((reads >> 12) & 15)
        m[u(sc + s.SC_BANK2)] = bank2
        m[u(sc + s.SC_BANK3)] = bank3
        last = max(last, bank2, bank3)
    return max(last - m[u(s.H_WINDOW_OPERANDS)], time)


@core
def strong(m: Any, code: Any, sm: int, sc: int, w: int, row: int, time: int) -> None:
    """Issue a strong access that has not been executed: the serial phase does it, in order of time over the chip."""
    free = 0
    if code[u(row + s.I_OP)] != s.OP_LOAD:
        m[u(sm + s.SM_WROTE)] = time
        free = m[u(sm + s.SM_STORE_FREE)]
    start = enter_queue(m, sm, sc, max(time, free), 1)
    m[u(w + s.W_PENDING)] += 1  # one more, and none is foretold
    barrier = code[u(row + s.I_WRITE_BARRIER)]
    load = new_load(m, sm, w, barrier, s.LD_REGISTER)
    request = new_request(m, sm, w, s.RQ_STRONG, start, row, 0, m[u(w + s.W_NUMBER)])
    wait_for(m, sm, request, load)
    if barrier >= 0:
        hold(m, w, barrier, s.INF, 1)
    read_barrier = code[u(row + s.I_READ_BARRIER)]
    if read_barrier >= 0:
        hold(m, w, read_barrier, start + 3, 0)
    if code[u(row + s.I_OP)] == s.OP_STORE:
        m[u(w + s.W_STORES)] += 1


@core
def execute_now(m: Any, code: Any, sm: int, w: int, kind: int, time: int) -> bool:
    """Execute what must see or be seen at the cycle of its issue (clock reads, polls of shared memory); False when the warp turns out
    to be elsewhere."""
    m[u(w + s.W_PENDING)] = 0
    if m[u(sm + s.SM_TELLS)]:
        tell_until(m, sm, time)
    if kind == s.K_AWAIT:
        if m[u(w + s.W_LOOK)] == 0:
            m[u(w + s.W_LOOK)] = time
        waits = time < m[u(w + s.W_LOOK)] + m[u(s.H_AWAIT)]
        poke(m[u(w + s.W_POINTER)] + HOLDS_BACK, 1 if waits else 0)
    if not run_function(m, sm, w, time):
        return False
    if m[u(w + s.W_USED)] == 0:
        m[u(w + s.W_PENDING)] = 1 if m[u(w + s.W_LOOK)] else 0
        return False
    m[u(w + s.W_LOOK)] = 0
    number = take_block(m, code, w)
    if number != m[u(w + s.W_NUMBER)]:
        m[u(sm + s.SM_FORETOLD_WRONG)] += 1
        start_block_of(m, code, w, number)
        return False
    return True


@core
def account(m: Any, sm: int, sc: int, w: int, pc: int, ready: int, pipe: int, time: int) -> None:
    """Book the cycles since the warp's last issue on what it waited for."""
    last = m[u(w + s.W_LAST)] + 1
    stalls = m[u(sm + s.SM_STALLS)] + pc * s.STALL_COUNT
    known = max(ready - last, 0)
    rest = time - last - known
    pipe_wait = min(max(m[u(sc + s.SC_PIPE_FREE + pipe)] - ready, 0), rest)
    # Most are 0, in no order that the host could foretell: to add them all costs less than to ask.
    m[u(stalls + s.ST_SELECTED)] += 1
    m[u(stalls + m[u(w + s.W_REASON)])] += known
    m[u(stalls + (s.ST_MIO if pipe == s.P_MIO else s.ST_MATH))] += pipe_wait
    m[u(stalls + s.ST_NOT_SELECTED)] += rest - pipe_wait


@core
def issue(m: Any, code: Any, sm: int, sc: int, sub: int, slot: int, time: int, end: int) -> bool:
    """Issue the slot's next instruction at ``time``; False when it turns out that it can't."""
    w = warp_at(sm, sub * s.MAX_WARPS + slot)
    pc = m[u(w + s.W_PC)]
    if pc == m[u(w + s.W_END)]:  # it asked to be asked again
        prepare(m, code, sm, w, time, m[u(w + s.W_REASON)])
        return False
    row = pc * s.I_SLOTS
    kind = code[u(row + s.I_KIND)]
    if kind == s.K_BULK and not has_room(m, sm):
        m[u(sc + s.SC_PIPE_FREE + s.P_MIO)] = end
        return False
    if s.K_MEMORY <= kind <= s.K_LOOKUP and (
        m[u(sm + s.SM_REQUESTS)] > s.MAX_REQUESTS - s.LINE_COUNT or m[u(sm + s.SM_LOADS)] > s.MAX_LOADS - 8
    ):
        m[u(sc + s.SC_PIPE_FREE + s.P_MIO)] = end
        return False
    if (
        m[u(w + s.W_PENDING)] == 1
        and (kind == s.K_CLOCK or kind == s.K_AWAIT or kind == s.K_MEMORY)
        and m[u(w + s.W_STATUS)] == CLOCK
        and not execute_now(m, code, sm, w, kind, time)
    ):
        if m[u(sm + s.SM_ERROR)] == 0 and m[u(w + s.W_LOOK)]:
            prepare(m, code, sm, w, time + LOOK_AGAIN_CYCLES, s.ST_BARRIER)
        elif m[u(sm + s.SM_ERROR)] == 0:
            prepare(m, code, sm, w, time, m[u(w + s.W_REASON)])
        return False
    pipe = code[u(row + s.I_PIPE)]
    account(m, sm, sc, w, pc, m[u(sc + s.SC_READY + slot)], pipe, time)
    m[u(sm + s.SM_INSTRUCTIONS)] += 1
    m[u(sm + s.SM_THREADS)] += popcount(m[u(w + s.W_MASK)])
    m[u(sm + s.SM_PIPE_FIRST + pipe)] += 1
    # operands
    reads = code[u(row + s.I_READS)]
    passes = (reads >> 32) & 255
    if m[u(sc + s.SC_LAST_REUSE)] == slot:
        reads = (reads & s.PRODUCT) | ((reads >> 16) & 0xFFFF)
    dispatched = dispatch(m, sc, pipe, reads, time)
    m[u(sc + s.SC_ISSUE_FREE)] = max(dispatched, time + passes) + 1
    m[u(sc + s.SC_LAST_REUSE)] = slot
    occupy(m, sc, pipe, code[u(row + s.I_INTERVAL)], dispatched if time < m[u(sc + s.SC_PRODUCT_END)] else time)
    # control bits
    stall = code[u(row + s.I_STALL)]
    earliest = time + stall
    reason = s.ST_WAIT
    m[u(sc + s.SC_LAST)] = -1 if code[u(row + s.I_YIELD)] else slot
    m[u(w + s.W_LAST)] = time
    m[u(w + s.W_PC)] = pc + 1
    if kind == s.K_MEMORY:
        if m[u(w + s.W_PENDING)] & 1:
            strong(m, code, sm, sc, w, row, time)
        else:
            access(m, code, sm, sc, w, row, time)
    elif (
        kind == s.K_FIXED
        or kind == s.K_BRANCH
        or kind == s.K_JOIN
        or kind == s.K_YIELD
        or kind == s.K_EXIT
        or kind == s.K_CLOCK
        or kind == s.K_AWAIT
    ):
        hold_both(m, code, w, row, time + code[u(row + s.I_LATENCY)], time + OPERANDS_READ_CYCLES)
    elif kind == s.K_MIO:
        start = enter_queue(m, sm, sc, time, code[u(row + s.I_EXTRA)])
        hold_both(m, code, w, row, start + code[u(row + s.I_LATENCY)], start + 1)
    elif kind == s.K_MATCH:
        match(m, code, sm, sc, w, row, time)
    elif kind == s.K_INDEXED:
        record_at(m, w)
    elif kind == s.K_CONSTANT or kind == s.K_LOOKUP:
        done = load_constant(m, code, sm, sc, w, row, time, kind == s.K_LOOKUP)
        hold_both(m, code, w, row, done, done)
    elif kind == s.K_BARRIER:
        if code[u(row + s.I_LATENCY)]:  # B2R; the warp's records may end at the barrier after it
            taken = take_barrier_unit(m, sm, w, time)
            hold_both(m, code, w, row, taken + code[u(row + s.I_LATENCY)], taken)
        elif m[u(w + s.W_STATUS)] == BARRIER and m[u(w + s.W_POS)] == m[u(w + s.W_USED)]:
            arrive(m, sm, w, time, code[u(row + s.I_EXTRA)] != 0)
        if m[u(w + s.W_BARRIER)]:
            prepare(m, code, sm, w, earliest, s.ST_BARRIER)
            settle(m, code, sm, time)
            return True
        if m[u(sm + s.SM_RECONSIDER)]:
            m[u(sm + s.SM_RECONSIDER)] &= ~(1 << m[u(w + s.W_SLOT)])
            if code[u(row + s.I_EXTRA)] == 0:
                earliest = max(earliest, m[u(w + s.W_EARLIEST)])
            reason = s.ST_BARRIER
    elif kind == s.K_COPY:
        copy(m, code, sm, sc, w, row, time)
    elif kind == s.K_BULK:
        start_bulk(m, code, sm, sc, w, row, time)
    elif kind == s.K_COPY_DONE:
        commit_copies(m, w, max(code[u(row + s.I_WRITE_BARRIER)], code[u(row + s.I_READ_BARRIER)]), time + 2)
    elif kind == s.K_MEMBAR:
        latency = code[u(row + s.I_LATENCY)]
        at_l2 = code[u(row + s.I_STRONG)] != 0
        if at_l2:
            latency = max(latency, device_fence(m, sm, time))
        elif m[u(w + s.W_WROTE_SHARED)]:
            latency = m[u(s.H_FENCE_SHARED)]
        m[u(w + s.W_WROTE_SHARED)] = 0
        earliest = max(earliest, fence_done(m, sm, time, latency, at_l2))
        reason = s.ST_MEMBAR
        if code[u(row + s.I_STRONG)] or m[u(w + s.W_STORES)] or m[u(w + s.W_STORE_TIME)] > time:
            m[u(w + s.W_FENCE)] = code[u(row + s.I_LATENCY)] | code[u(row + s.I_STRONG)]
    elif kind == s.K_INVALIDATE:
        invalidate(m, sm)
    elif kind == s.K_SLEEP and m[u(w + s.W_STATUS)] == SLEEP and m[u(w + s.W_POS)] == m[u(w + s.W_USED)]:
        earliest = max(earliest, time + pause_of(m, w))
        reason = s.ST_SLEEP
    prepare(m, code, sm, w, earliest, reason)
    if m[u(sm + s.SM_RECONSIDER)]:
        settle(m, code, sm, time)
    return True


@core
def default_policy(ready: int, last: int, ages: int) -> int:
    """``policies.greedy_then_oldest`` as a part of the model; other schedulers are called by address."""
    if last >= 0 and (ready >> last) & 1:
        return last
    return oldest(ready, ages)


@core
def other_policy(m: Any, ready: int, last: int, ages: int) -> int:
    """What the launch's scheduler says; a slot that cannot issue is noted, and the launch will end."""
    chosen = call_scheduler(m[u(s.H_SCHEDULER)], ready, last, ages)
    if 0 <= chosen < s.MAX_WARPS and (ready >> chosen) & 1:
        return chosen
    m[u(s.H_BAD_SCHEDULER)] = 1
    return lowest_bit(ready)


@core
def step(m: Any, code: Any, sm: int, sc: int, sub: int, time: int, end: int, host: int) -> None:
    """One cycle of a sub-core that may have something to do; ``host``: the host's address of its fields."""
    free = m[u(sc + s.SC_ISSUE_FREE)]
    if free > time:
        m[u(sm + s.SM_SUB_NEXT + sub)] = free
        return
    while True:
        ready, following = scan_slots(host + 8 * s.SC_READY, host + 8 * s.SC_PIPE, host + 8 * s.SC_PIPE_FREE, time)
        m[u(sm + s.SM_SUB_NEXT + sub)] = following
        if ready == 0:
            return
        last = m[u(sc + s.SC_LAST)]
        several = ready & (ready - 1)
        if several == 0:
            chosen = lowest_bit(ready)
        elif m[u(s.H_SCHEDULER)] == 0:
            chosen = default_policy(ready, last, host + 8 * s.SC_AGE)
        else:
            chosen = other_policy(m, ready, last, host + 8 * s.SC_AGE)
        if issue(m, code, sm, sc, sub, chosen, time, end):
            free = m[u(sc + s.SC_ISSUE_FREE)]
            if several or m[u(sm + s.SM_SUB_NEXT + sub)] < free:
                m[u(sm + s.SM_SUB_NEXT + sub)] = free
            return
        if m[u(sm + s.SM_ERROR)]:
            m[u(sc + s.SC_READY + chosen)] = s.INF
            return
