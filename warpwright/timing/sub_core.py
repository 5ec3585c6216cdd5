"""A sub-core: its warp scheduler, dispatch ports, register banks and pipes.

Each cycle the scheduler picks one of the warps whose next instruction can issue (``policies.py``; default greedy, then
oldest).  An instruction holds its pipe for 32 / lanes cycles, reads its registers through two banks (four on P100) of one
port each within a fixed window (Huerta et al., MICRO'25, sections 4 and 5; bench/micro: one 32-lane read per bank and cycle, averaged over adjacent
instructions), and counts on the dependence counters that its control bits name.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import apart, core, lowest_bit, poke, popcount
from warpwright.timing import state as s
from warpwright.timing.block_barriers import arrive, take_barrier_unit
from warpwright.timing.bulk import has_room, start_bulk, tell_until
from warpwright.timing.constant import load_constant
from warpwright.timing.dependence_counters import hold, hold_both
from warpwright.timing.intrinsics import call_scheduler, scan_slots
from warpwright.timing.l1 import access, atomics_are_stuck, atomics_free, commit_copies, invalidate_shared_lines
from warpwright.timing.ldgsts import copy
from warpwright.timing.match_any import match
from warpwright.timing.mio_queue import enter_barrier_unit, enter_queue, look_at_mbarrier
from warpwright.timing.policies import greedy_then_oldest
from warpwright.timing.records import record_at
from warpwright.timing.requests import new_load, new_request, wait_for
from warpwright.timing.warp import (
    BARRIER,
    CLOCK,
    HOLDS_BACK,
    SLEEP,
    await_grids,
    executes_grid_control,
    let_go,
    pause_of,
    prepare,
    run_function,
    settle,
    start_block_of,
    take_block,
)
from warpwright.timing.warp_slots import mark, warp_at
from warpwright.timing.written_rounds import join_round

BANKS_2_AND_3 = 0xFF00
"""Mask of an instruction's reads of the banks that only chips with four banks have."""
GROUP_WARPS = 4
"""Warps of a warpgroup (PTX ISA, ``wgmma``)."""
LOOK_AGAIN_CYCLES = 4
"""Resolution of the end of a try_wait's phase."""


@core
def device_fence(m: Any, sm: s.SM, time: int) -> int:
    """Minimum cycles of a device-scope fence issued at ``time``: more if the SM has written since its last completed one.

    bench.micro ``fence_crews``: a store by one lane makes a round of any number of warps' fences 126 cycles longer; ``handoff``: a lock's two fences, after a
    compare-and-swap and a store, take 789 cycles, one without earlier stores 280 including the following instructions.
    """
    if time >= m[sm.full_fence_done]:
        m[sm.clean] = m[sm.full_fence]
    ordered = max(m[sm.clean], m[sm.written_open]) if m[s.chip.fence_interval] else m[sm.clean]
    if m[sm.wrote] <= ordered:  # ordered by a round of fences that is over or has begun (written_rounds.py)
        return m[s.chip.fence_latency]
    if time >= m[sm.full_fence_done]:
        m[sm.full_fence] = time
        m[sm.full_fence_done] = time + m[s.chip.fence_written]
    return m[s.chip.fence_written]


@core
def fence_done(m: Any, sm: s.SM, time: int, latency: int, at_l2: bool) -> int:
    """When a fence issued at ``time`` is complete. If an SM has few places for fences, they are processed in rounds, in which a place becomes free after a fixed time.

    On an H200 this holds for fences of device scope, and the next round begins when the places are free (bench.micro ``fence_crews``).  On P100 it holds for
    all fences; a round consists of the fences that wait when the previous one is over and those that arrive before its first places are free again (Zhang et al.'s
    Table 5 and Figure 6: the time of a barrier with its fence depends only on the number of the SM's warps, however they are split into blocks, so the fences
    of one block do not overlap the barriers of another).
    """
    places = m[s.chip.fence_places]
    apart = m[s.chip.fence_rounds_apart]
    if places == 0 or not (apart or at_l2):
        return time + latency
    turn = m[s.chip.fence_place_time]
    count = m[sm.fences]
    if count == 0 or time >= m[sm.fence_round] + (turn if apart else -(-count // places) * turn):
        m[sm.fence_round] = max(time, m[sm.fence_end]) if apart else time
        count = 0
    begins = max(time, m[sm.fence_round] + count // places * turn)
    m[sm.fences] = count + 1
    m[sm.fence_end] = max(m[sm.fence_end], begins + latency)
    return begins + latency


@core
def occupy(m: Any, sc: s.SubCore, pipe: int, interval: int, time: int) -> None:
    """Hold the instruction's pipe; FP32 takes the lite half when that is free, HADD2 both halves, and HFMA2.MMA may share FP64's path.

    The lite half may be the special-function units' multipliers (Lindholm et al., "NVIDIA Tesla", IEEE Micro 2008): then one of the two works.
    """
    free = sc.pipe_free
    if pipe == s.P_FMA or pipe == s.P_FMA_HEAVY or pipe == s.P_FMA_PAIR:
        lite = m[free + s.P_FMA_LITE]
        heavy = m[free + s.P_FMA_HEAVY]
        if pipe == s.P_FMA and lite <= time:
            lite = time + interval
            m[free + s.P_FMA_LITE] = lite
            if m[s.chip.lite_in_xu]:
                m[free + s.P_XU] = lite
        else:
            heavy = time + interval
            m[free + s.P_FMA_HEAVY] = heavy
            if pipe == s.P_FMA_PAIR:
                lite = heavy
                m[free + s.P_FMA_LITE] = lite
        m[free + s.P_FMA] = min(lite, heavy)
        m[free + s.P_FMA_PAIR] = max(lite, heavy)
    elif (pipe == s.P_HALF or pipe == s.P_FP64) and m[s.chip.half_with_fp64]:
        m[free + s.P_HALF] = time + interval
        m[free + s.P_FP64] = time + interval
    elif pipe == s.P_XU and m[s.chip.lite_in_xu]:
        m[free + s.P_XU] = time + interval
        m[free + s.P_FMA_LITE] = time + interval
        m[free + s.P_FMA] = min(m[free + s.P_FMA_HEAVY], time + interval)
    elif pipe != s.P_NONE and pipe != s.P_MIO:
        m[free + pipe] = time + interval


@core
def read_bank(m: Any, sc: s.SubCore, bank: int, count: int, time: int) -> int:
    """When a register bank has been read a number of times from ``time`` on, in cycles that the last tensor product leaves free."""
    at = max(m[sc + bank], time)
    since = m[sc.product]
    busy = m[sc.product_reads]
    while count:
        if (busy >> min(at - since, 63)) & 1 == 0:
            count -= 1
        at += 1
    m[sc + bank] = at
    return at


@core
def dispatch_product(m: Any, sc: s.SubCore, reads: int, time: int) -> int:
    """A tensor product of a warp: it reads in fixed cycles after its dispatch, fewer in later ones; returns when it is dispatched."""
    start = max(time, max(m[sc.bank0], m[sc.bank1]) - 1)
    busy = m[s.chip.product_reads]
    while popcount(busy) > max(reads & 15, (reads >> 4) & 15):
        busy &= busy - 1
    m[sc.product] = start
    m[sc.product_reads] = busy
    m[sc.product_end] = start + m[s.chip.product_end]
    free = sc.pipe_free
    m[free + s.P_HALF] = max(m[free + s.P_HALF], start + m[s.chip.product_half])
    m[free + s.P_FP64] = max(m[free + s.P_FP64], start + m[s.chip.product_half])
    return start


@core
def dispatch_behind_product(m: Any, sc: s.SubCore, pipe: int, reads: int, time: int) -> int:
    """When an instruction is dispatched that issues while a tensor product still reads or is dispatched again."""
    bank0 = read_bank(m, sc, s.SubCore.bank0, reads & 15, time)
    bank1 = read_bank(m, sc, s.SubCore.bank1, (reads >> 4) & 15, time)
    if pipe == s.P_XU or pipe == s.P_MIO:  # they read later
        return time
    start = max(time, max(bank0, bank1) - m[s.chip.window_operands])
    if pipe == s.P_ALU or pipe == s.P_FMA or pipe == s.P_FMA_HEAVY or pipe == s.P_FMA_PAIR:
        while (m[s.chip.product_again] >> min(start - m[sc.product], 63)) & 1:
            start += 1
    return start


@core
def dispatch(m: Any, sc: s.SubCore, pipe: int, reads: int, time: int) -> int:
    """When an instruction that issues at ``time`` has its operands within its window, and is dispatched."""
    if reads & s.PRODUCT:
        return dispatch_product(m, sc, reads, time)
    if time < m[sc.product_end]:
        return dispatch_behind_product(m, sc, pipe, reads, time)
    bank0 = max(m[sc.bank0], time) + (reads & 15)
    bank1 = max(m[sc.bank1], time) + ((reads >> 4) & 15)
    m[sc.bank0] = bank0
    m[sc.bank1] = bank1
    last = max(bank0, bank1)
    if reads & BANKS_2_AND_3:
        bank2 = max(m[sc.bank2], time) + ((reads >> 8) & 15)
        bank3 = max(m[sc.bank3], time) + ((reads >> 12) & 15)
        m[sc.bank2] = bank2
        m[sc.bank3] = bank3
        last = max(last, bank2, bank3)
    return max(last - m[s.chip.window_operands], time)


@core
def strong(m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int) -> None:
    """Issue a strong access that has not been executed; the serial phase executes it, in order of time over the chip."""
    free = 0
    if code[row.op] != s.OP_LOAD:
        m[sm.wrote] = time
        free = m[sm.store_free]
    if code[row.op] >= s.OP_ATOMIC:
        free = max(free, atomics_free(m, sm, 0))
        m[sm.atomics_sent] += 1
    start = enter_queue(m, sm, sc, max(time, free), 1)
    m[w.pending] += 1  # one more, and none is predicted
    barrier = code[row.write_barrier]
    load = new_load(m, sm, w, barrier, s.LD_REGISTER)
    request = new_request(m, sm, w, s.RQ_STRONG, start, row, 0, m[w.number])
    wait_for(m, sm, request, load)
    if barrier >= 0:
        hold(m, w, barrier, s.INF, 1)
    read_barrier = code[row.read_barrier]
    if read_barrier >= 0:
        hold(m, w, read_barrier, start + m[s.chip.load_release], 0)
    if code[row.op] == s.OP_STORE:
        m[w.stores] += 1
        m[sm.stores_sent] += 1


@core
def execute_now(m: Any, code: Any, sm: s.SM, w: s.Warp, kind: int, time: int) -> bool:
    """Execute instructions whose effect depends on the cycle of issue (clock reads, polls of shared memory); False if the warp turns out to be at another instruction."""
    m[w.pending] = 0
    if m[sm.tells]:
        tell_until(m, sm, time)
    if kind == s.K_AWAIT:
        if m[w.look] == 0:
            m[w.look] = time
        waits = time < m[w.look] + m[s.chip.wait_limit]
        poke(m[w.pointer] + HOLDS_BACK, 1 if waits else 0)
    early = m[w.early_clock] if kind == s.K_CLOCK else 0
    m[w.early_clock] = 0
    if not run_function(m, sm, w, early if early else time):
        return False
    if m[w.used] == 0:
        m[w.pending] = 1 if m[w.look] else 0
        return False
    m[w.look] = 0
    number = take_block(m, code, w)
    if number != m[w.number]:
        m[sm.foretold_wrong] += 1
        start_block_of(m, code, w, number)
        return False
    return True


@core
def account(m: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, pc: int, pipe: int, time: int) -> None:
    """Attribute the cycles since the warp's last issue to the reason for which it waited."""
    ready = m[w.earliest]
    last = m[w.last] + 1
    stalls = m[sm.stalls] + pc * s.STALL_COUNT
    known = max(ready - last, 0)
    rest = max(time - last - known, 0)  # -1 of the second of a pair, which issues in the same cycle
    pipe_wait = min(max(m[sc.pipe_free[pipe]] - ready, 0), rest)
    # Most are 0, in an order that the host cannot predict: adding them all costs less than testing.
    m[stalls + s.ST_SELECTED] += 1
    m[stalls + m[w.reason]] += known
    m[stalls + (s.ST_MIO if pipe == s.P_MIO else s.ST_MATH)] += pipe_wait
    m[stalls + s.ST_NOT_SELECTED] += rest - pipe_wait


@core
def warp_of_group(m: Any, sm: s.SM, w: s.Warp, number: int) -> s.Warp:
    """The ``number``-th warp of the warp's group; the warp itself in the place of one that has ended."""
    slot = m[sm.blocks[m[w.block]].warps[m[w.in_block] - m[w.in_block] % GROUP_WARPS + number]]
    return warp_at(sm, slot) if slot >= 0 else w


@core
def group_is_there(m: Any, code: Any, sm: s.SM, w: s.Warp, row: s.Instruction, time: int) -> bool:
    """Whether all warps of the warp's group have come to its next product, which is then given to the tensor cores.

    The tensor cores of the four sub-cores multiply a group's rows together, since shared memory feeds them once: on an H200, a warp that is late before a
    product holds up the products of the others, and one that is late at a fence, a commit or a wait holds up nobody.  Products are queued: four of 128 columns
    issue in 49 cycles and take 256 (``bench.silicon.check_wgmma``, part ``skew``).
    """
    number = m[w.products] + 1
    m[w.at_product] = number
    for i in range(GROUP_WARPS):
        if m[warp_of_group(m, sm, w, i).at_product] < number:
            return False
    if m[w.begun_products] < number:
        m[sm.group_free] = max(time, m[sm.group_free]) + code[row.op]
        end = m[sm.group_free] + m[s.chip.group_tail]
        for i in range(GROUP_WARPS):
            begin_product(m, sm, warp_of_group(m, sm, w, i), number, end, code[row.extra], time)
    m[w.products] = number
    return True


@core
def begin_product(m: Any, sm: s.SM, w: s.Warp, number: int, end: int, ends_group: int, time: int) -> None:
    """Record when a product of the warp's group is complete, and let the warp go on if it waits for the others."""
    if m[w.begun_products] == number:
        return
    m[w.begun_products] = number
    m[w.product_end] = end
    if ends_group:
        m[w.group_end[m[w.groups] & (s.GROUP_RING - 1)]] = end
        m[w.groups] += 1
    if m[w.barrier] == s.AT_PRODUCT:
        m[w.barrier] = 0
        m[w.earliest] = time
        mark(m, sm, w)


@core
def must_wait(m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int, end: int) -> bool:
    """Whether the chosen instruction cannot issue after all, because its unit has no room in this window, or because something must be executed first."""
    kind = code[row.kind]
    if kind == s.K_GROUP and not group_is_there(m, code, sm, w, row, time):
        m[w.barrier] = s.AT_PRODUCT
        prepare(m, code, sm, w, time, s.ST_MATH)
        return True
    if kind == s.K_BULK and not has_room(m, sm):
        m[sc.pipe_free[s.P_MIO]] = end
        return True
    if s.K_MEMORY <= kind <= s.K_LOOKUP and (
        m[sm.requests] + m[sm.repeated] > s.MAX_REQUESTS - s.LINE_COUNT or m[sm.loads] > s.MAX_LOADS - 8
    ):
        m[sc.pipe_free[s.P_MIO]] = end
        return True
    if kind == s.K_MEMORY and code[row.op] >= s.OP_ATOMIC and atomics_are_stuck(m, sm, time):
        m[sc.pipe_free[s.P_MIO]] = end
        return True
    if (
        m[w.pending] == 1
        and (kind == s.K_CLOCK or kind == s.K_AWAIT or kind == s.K_MEMORY)
        and m[w.status] == CLOCK
        and not execute_now(m, code, sm, w, kind, time)
    ):
        if m[sm.error] == 0 and m[w.look]:
            prepare(m, code, sm, w, time + LOOK_AGAIN_CYCLES, s.ST_BARRIER)
        elif m[sm.error] == 0:
            prepare(m, code, sm, w, time, m[w.reason])
        return True
    return False


@core
def start(m: Any, code: Any, sc: s.SubCore, row: s.Instruction, slot: int, time: int) -> None:
    """Read an instruction's operands and take its pipe."""
    pipe = code[row.pipe]
    reads = code[row.reads]
    passes = (reads >> 32) & 255
    if m[sc.last_reuse] == slot:
        reads = (reads & s.PRODUCT) | ((reads >> 16) & 0xFFFF)
    dispatched = dispatch(m, sc, pipe, reads, time)
    m[sc.issue_free] = max(dispatched, time + passes) + m[s.chip.issue_interval]
    m[sc.last_reuse] = slot
    occupy(m, sc, pipe, code[row.interval], dispatched if time < m[sc.product_end] else time)


@core
def pass_shared_unit(m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int) -> None:
    """Pass a unit that the sub-cores of an SM share: that of barriers and indirect branches, or that of the convergence barriers' registers.

    The sub-core's next instruction for it issues once it has accepted this one.
    """
    pipe = code[row.pipe]
    unit = sm.barrier_free if pipe == s.P_ADU else sm.convergence_free
    taken = max(time, m[unit]) + code[row.extra]
    m[unit] = taken
    free = sc.pipe_free[pipe]
    m[free] = max(m[free], taken)
    if pipe == s.P_CONVERGENCE and code[row.kind] == s.K_BRANCH:
        register = code[row.op]
        m[w.restored] = m[w.restored] | register if register >= 0 else m[w.restored] & ~-register


@core
def execute(m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int) -> None:
    """Execute an instruction in its unit, and set the counters that guard its results and operands."""
    kind = code[row.kind]
    if kind == s.K_MEMORY:
        if m[w.pending] & 1:
            strong(m, code, sm, sc, w, row, time)
        else:
            access(m, code, sm, sc, w, row, time)
    elif kind == s.K_MIO:
        begin = enter_queue(m, sm, sc, time, code[row.extra])
        hold_both(m, code, w, row, begin + code[row.latency], begin + 1)
    elif kind == s.K_COMBINE:
        begin = enter_barrier_unit(m, sm, sc, time, code[row.extra])
        hold_both(m, code, w, row, begin + code[row.latency], begin + 1)
    elif kind == s.K_MATCH:
        match(m, code, sm, sc, w, row, time)
    elif kind == s.K_INDEXED:
        record_at(m, w)
    elif kind == s.K_CONSTANT or kind == s.K_LOOKUP:
        done = load_constant(m, code, sm, sc, w, row, time, kind == s.K_LOOKUP)
        hold_both(m, code, w, row, done, done)
    elif kind == s.K_COPY:
        copy(m, code, sm, sc, w, row, time)
    elif kind == s.K_BULK:
        start_bulk(m, code, sm, sc, w, row, time)
    elif kind == s.K_COPY_DONE:
        commit_copies(m, w, max(code[row.write_barrier], code[row.read_barrier]), time + m[s.chip.async_commit])
    elif kind == s.K_INVALIDATE:
        invalidate_shared_lines(m, sm)
    elif kind == s.K_LET_GO and executes_grid_control(m, w):
        let_go(m, sm, w, time)


@core
def meet(m: Any, code: Any, sm: s.SM, w: s.Warp, row: s.Instruction, time: int) -> None:
    """Issue a block-barrier instruction: a read of a result (B2R), after which the warp's records may end, or an arrival."""
    if code[row.latency]:
        taken = take_barrier_unit(m, sm, w, time)
        hold_both(m, code, w, row, taken + code[row.latency], taken)
    elif m[w.status] == BARRIER and m[w.pos] == m[w.used]:
        arrive(m, sm, w, time, code[row.extra] != 0)
    elif code[row.pipe] == s.P_ADU:  # its guard is false
        take_barrier_unit(m, sm, w, time)


@core
def lanes_fence(m: Any, code: Any, w: s.Warp, row: s.Instruction) -> bool:
    """Whether any lane executes a fence: one with a guard has a record of its lanes."""
    if code[row.kind] == s.K_MEMBAR:
        return True
    addresses = record_at(m, w)
    return addresses.mask != 0


@core
def queued_fence(
    m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int, executes: bool
) -> int:
    """Pass a fence of block scope through the memory queue, after its warp's accesses; returns when the warp can continue, unless a counter holds it. A fence that
    no lane ``executes`` is a single wavefront.

    It waits for no acknowledgement: L1 has what the block has stored (``python -m bench.machine.guarded_fences``: a store and a fence take one warp 20 cycles).
    """
    waves = m[s.chip.block_fence_written] if m[w.wrote] else code[row.extra]
    longer = m[s.chip.block_fence_longer] if m[w.wrote] else 0
    if executes:
        m[w.wrote] = 0
    else:
        waves = 1
    done = enter_queue(m, sm, sc, time, waves) + code[row.latency] + longer
    if code[row.read_barrier] < 0:
        return done
    hold(m, w, code[row.read_barrier], done, 0)
    return time


@core
def fence(m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int) -> int:
    """Issue a fence (MEMBAR); returns when it is complete within the SM; the warp may also wait for L2."""
    executes = lanes_fence(m, code, w, row)
    if code[row.pipe] == s.P_MIO:
        return queued_fence(m, code, sm, sc, w, row, time, executes)
    if not executes:
        return time + m[s.chip.fence_skipped_written if m[w.wrote] else s.chip.fence_skipped]
    latency = code[row.latency]
    at_l2 = code[row.strong] != 0
    if at_l2:
        if code[row.strong] & s.FENCE_SYSTEM:  # one that comes late leaves its SM with others (warp.ask_system_fence)
            latency -= m[s.chip.fence_system_joins]
        latency = max(latency, device_fence(m, sm, time))
    elif m[w.wrote]:
        latency += m[s.chip.block_fence_longer]
    m[w.wrote] = 0
    if at_l2 and code[row.strong] & s.FENCE_SYSTEM == 0:
        m[w.written_round] = 0
        if m[s.chip.fence_interval] and m[sm.wrote] > m[sm.clean]:
            join_round(m, sm, sc, w, time)
    done = fence_done(m, sm, time, latency, at_l2)
    if code[row.strong] or m[w.stores] or m[w.store_time] > time:
        m[w.fence] = code[row.latency] | code[row.strong]
    return done


@core
def pause_after(
    m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int, earliest: int
) -> tuple[int, int]:
    """When the warp continues after an instruction that may make it wait, other than a block barrier, and the reason."""
    kind = code[row.kind]
    if kind == s.K_MEMBAR:
        return max(earliest, fence(m, code, sm, sc, w, row, time)), s.ST_MEMBAR
    if kind == s.K_SLEEP and m[w.status] == SLEEP and m[w.pos] == m[w.used]:
        return max(earliest, time + pause_of(m, w)), s.ST_SLEEP
    if kind == s.K_GRID_WAIT and executes_grid_control(m, w):
        return max(earliest, await_grids(m, sm, w)), s.ST_SLEEP
    return earliest, s.ST_WAIT


@core
def issue(m: Any, code: Any, sm: s.SM, sc: s.SubCore, sub: int, slot: int, time: int, end: int) -> bool:
    """Issue the slot's next instruction at ``time``; False if it turns out that it cannot. ``slot`` is numbered across the groups of one scheduler."""
    w = warp_at(sm, sub * s.MAX_WARPS + slot)
    pc = m[w.pc]
    if pc == m[w.end]:  # it requested another attempt
        prepare(m, code, sm, w, time, m[w.reason])
        return False
    row = s.Instruction(pc * s.Instruction.size)
    kind = code[row.kind]
    if kind != s.K_FIXED and must_wait(m, code, sm, sc, w, row, time, end):
        return False
    pipe = code[row.pipe]
    account(m, sm, sc, w, pc, pipe, time)
    m[sm.instructions] += 1
    m[sm.threads] += popcount(m[w.mask])
    m[sm.pipe_issues[pipe]] += 1
    start(m, code, sc, row, slot, time)
    if pipe >= s.P_ADU and kind != s.K_BARRIER:
        pass_shared_unit(m, code, sm, sc, w, row, time)
    stall = code[row.stall]
    earliest = time + stall
    reason = s.ST_WAIT
    m[sc.last] = -1 if code[row.yields] else slot
    m[w.last] = time
    m[w.pc] = pc + 1
    if kind <= s.K_AWAIT:
        if code[row.write_barrier] & code[row.read_barrier] >= 0:  # it has one of them
            begin = look_at_mbarrier(m, sm, time) if code[row.extra] & s.MBARRIER else time
            hold_both(m, code, w, row, begin + code[row.latency], begin + m[s.chip.operand_release])
    elif kind == s.K_GUARDED_FENCE:
        earliest = max(earliest, fence(m, code, sm, sc, w, row, time))
        reason = s.ST_MEMBAR
    elif kind < s.K_BARRIER:
        execute(m, code, sm, sc, w, row, time)
    elif kind == s.K_BARRIER:
        meet(m, code, sm, w, row, time)
        if m[w.barrier]:
            prepare(m, code, sm, w, earliest, s.ST_BARRIER)
            settle(m, code, sm, time)
            return True
        if m[sm.reconsider]:
            m[sm.reconsider] &= ~(1 << m[w.slot])
            if code[row.extra] == 0:
                earliest = max(earliest, m[w.earliest])
            reason = s.ST_BARRIER
    else:
        earliest, reason = pause_after(m, code, sm, sc, w, row, time, earliest)
    prepare(m, code, sm, w, earliest, reason)
    if m[sm.reconsider]:
        settle(m, code, sm, time)
    if stall == 0:
        m[sc.paired] = 1
    return True


@core
def other_policy(m: Any, ready: int, last: int, ages: int) -> int:
    """The choice of the launch's scheduler; an invalid choice is recorded and ends the launch."""
    chosen = call_scheduler(m[s.chip.scheduler], ready, last, ages)
    if 0 <= chosen < s.MAX_WARPS and (ready >> chosen) & 1:
        return chosen
    m[s.chip.bad_scheduler] = 1
    return lowest_bit(ready)


@core
def choose(m: Any, ready: int, last: int, host: int) -> int:
    """The slot that issues next among those that can; ``host``: the host's address of their group's fields."""
    if ready & (ready - 1) == 0:
        return lowest_bit(ready)
    if m[s.chip.scheduler] == 0:
        return greedy_then_oldest(ready, last, host + 8 * s.SubCore.age)
    return other_policy(m, ready, last, host + 8 * s.SubCore.age)


@core
def scan_group(m: Any, sm: s.SM, sc: s.SubCore, group: int, time: int, host: int) -> int:
    """The slots of a group that can issue at ``time``; also records the time of the next check. ``sc`` has its pipes; ``host``: the address of the state."""
    fields = host + 8 * sm.sub_cores[group]
    ready, following = scan_slots(
        fields + 8 * s.SubCore.ready, fields + 8 * s.SubCore.pipe, host + 8 * sc.pipe_free, time
    )
    m[sm.sub_next[group]] = following
    return ready


@core
def candidate(m: Any, sm: s.SM, scheduler: int, group: int, time: int, host: int) -> int:
    """The position among a scheduler's slots of the warp of a group that would issue at ``time``; -1 if none can."""
    sc = sm.sub_cores[scheduler]
    ready = scan_group(m, sm, sc, group, time, host)
    if ready == 0:
        return -1
    if ready & (ready - 1):
        m[sm.sub_next[group]] = time
    last = m[sc.last]
    goes_on = m[s.chip.greedy] != 0 or m[s.chip.scheduler] != 0
    mine = goes_on and last >> 4 == group - scheduler
    return (group - scheduler) * s.MAX_WARPS + choose(
        m, ready, last & 15 if mine else -1, host + 8 * sm.sub_cores[group]
    )


@apart
def choose_among_groups(m: Any, sm: s.SM, scheduler: int, time: int, host: int) -> int:
    """The position of the warp that issues at ``time`` of a scheduler whose warps have several groups of slots, -1 when none can: the first group's fields
    hold its pipes and queues.

    The policy chooses in each group, and of its choices the oldest warp issues; if the chip's scheduler is greedy, the warp that issued last continues while it can.
    """
    best = -1
    turn = 0
    greedy = m[s.chip.greedy] != 0
    last = m[sm.sub_cores[scheduler].last]
    for i in range(m[s.chip.scheduler_groups]):
        group = scheduler + i * m[s.chip.shared_schedulers]
        position = candidate(m, sm, scheduler, group, time, host)
        if position >= 0:
            age = m[sm.sub_cores[group].age[position & 15]]
            if greedy and position == last:
                age = -1
            if best < 0 or age < turn:
                if best >= 0:
                    m[sm.sub_next[scheduler + (best >> 4)]] = time
                best = position
                turn = age
            else:
                m[sm.sub_next[group]] = time
    return best


@apart
def rest_groups(m: Any, sm: s.SM, scheduler: int, groups: int, free: int) -> None:
    """Skip all groups of a scheduler's slots until ``free``."""
    for i in range(m[s.chip.scheduler_groups]):
        following = sm.sub_next[scheduler + i * groups]
        m[following] = max(m[following], free)


@core
def has_second(m: Any, sm: s.SM, sub: int, slot: int, time: int) -> bool:
    """Whether the next instruction of the warp is paired with the one that has just issued and can issue too."""
    sc = sm.sub_cores[sub]
    if m[sc.paired] == 0:
        return False
    group = sm.sub_cores[sub + (slot >> 4)]
    if m[group.ready[slot & 15]] <= time and m[sc.pipe_free[m[group.pipe[slot & 15]]]] <= time:
        return True
    m[sc.paired] = 0
    return False


@core
def step(m: Any, code: Any, sm: s.SM, sub: int, groups: int, time: int, end: int, host: int) -> bool:
    """One attempt of a sub-core to issue an instruction at ``time``; True if it should try again at the same time.

    With ``groups`` it is a scheduler of so many whose warps have several groups of slots.  ``host``: the host's address of the state.
    """
    sc = sm.sub_cores[sub]
    second = m[sc.paired] != 0
    several = 0
    if second:
        slot = m[sc.last_reuse]
        m[sc.paired] = 0
    elif m[sc.issue_free] > time:
        if groups:
            rest_groups(m, sm, sub, groups, m[sc.issue_free])
        else:
            m[sm.sub_next[sub]] = m[sc.issue_free]
        return False
    elif groups:
        slot = choose_among_groups(m, sm, sub, time, host)
        if slot < 0:
            return False
    else:
        ready = scan_group(m, sm, sc, sub, time, host)
        if ready == 0:
            return False
        several = ready & (ready - 1)
        slot = choose(m, ready, m[sc.last], host + 8 * sc)
    if issue(m, code, sm, sc, sub, slot, time, end):
        if not second and has_second(m, sm, sub, slot, time):
            m[sm.sub_next[sub]] = time
            return True
    elif not second:
        if m[sm.error] == 0:
            m[sm.sub_next[sub]] = time
            return True
        m[sm.sub_cores[sub + (slot >> 4)].ready[slot & 15]] = s.INF
        return False
    if groups:
        rest_groups(m, sm, sub, groups, m[sc.issue_free])
        return False
    # Branches, which the host predicts, so that the following code need not wait for these values.
    if several or m[sm.sub_next[sub]] < m[sc.issue_free]:
        m[sm.sub_next[sub]] = m[sc.issue_free]
    return False
