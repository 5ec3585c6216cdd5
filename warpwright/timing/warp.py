"""A warp between two issues: its records, and what its next instruction waits for.

``prepare`` computes the earliest time at which a warp can issue its next instruction, from the control bits
(stall count, six dependence counters), the instruction and constant caches and the records that tell
which basic block comes next.  If it depends on an event that has not happened (an answer from L2, a strong access that has not been
executed, a barrier), the time is ``INF``; the event marks the warp in ``SM.reconsider``.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import WARP, Status
from warpwright.native.intrinsics import call_warp, core, lowest_bit, peek, poke
from warpwright.timing import state as s
from warpwright.timing.block_barriers import EXITED, end_warp
from warpwright.timing.constant import constant_ready, indexed_ready
from warpwright.timing.dependence_counters import barriers_ready, counter_ready
from warpwright.timing.fence_requests import ask_fence
from warpwright.timing.fetch import instruction_ready
from warpwright.timing.l1_sets import approach_record
from warpwright.timing.records import lanes_of
from warpwright.timing.requests import new_request
from warpwright.timing.scoreboard import listed_ready
from warpwright.timing.warp_slots import warp_at

EXIT, BARRIER, STRONG, CLOCK = int(Status.EXIT), int(Status.BARRIER), int(Status.STRONG), int(Status.CLOCK)
SLEEP, TRACE_FULL, YIELD = int(Status.SLEEP), int(Status.TRACE_FULL), int(Status.YIELD)
TRACE_USED, WARP_CLOCK, WARP_NS, SLEEP_NS = WARP["trace_used"], WARP["clock"], WARP["globaltimer_ns"], WARP["sleep_ns"]
HOLDS_BACK = WARP["holds_back"]
RETRY_CYCLES = 32
"""Cycles after a yield without a record until the warp is run again."""
CLOCK_WITHIN = 8
"""Number of instructions after a block barrier within which a read of the clock does not wait for the barrier."""


@core
def run_function(m: Any, sm: s.SM, w: s.Warp, time: int) -> bool:
    """Call the warp's function for more records; False if Python must handle its status."""
    pointer = m[w.pointer]
    poke(pointer + TRACE_USED, 0)
    clock = time + m[s.chip.clock_ahead]
    poke(pointer + WARP_CLOCK, clock)
    poke(pointer + WARP_NS, clock * 1000000 // m[s.chip.clock_khz])
    status = call_warp(m[w.function], pointer)
    m[w.pos] = 0
    m[w.used] = peek(pointer + TRACE_USED)
    m[w.status] = status
    m[sm.ran] += 1
    known = (
        (1 << EXIT) | (1 << BARRIER) | (1 << STRONG) | (1 << CLOCK) | (1 << SLEEP) | (1 << TRACE_FULL) | (1 << YIELD)
    )
    if (known >> status) & 1:
        return True
    m[sm.error] = m[w.slot] + 1
    return False


@core
def refill(m: Any, sm: s.SM, w: s.Warp, time: int) -> bool:
    """Get more records if the warp may run now; False while it must wait."""
    status = m[w.status]
    if status == EXIT or status == BARRIER or status == STRONG:
        return False
    return run_function(m, sm, w, time)


@core
def start_block_of(m: Any, code: Any, w: s.Warp, number: int) -> None:
    row = s.BasicBlock(m[w.block_rows] + number * s.BasicBlock.size)
    m[w.number] = number
    m[w.pc] = code[row.first]
    m[w.end] = code[row.end]


@core
def take_block(m: Any, code: Any, w: s.Warp) -> int:
    """Consume the next block record; returns the block's number."""
    position = m[w.pos]
    place = m[w.trace] + position * 8
    head = m[s.chip.head_words]
    m[w.pos] = position + head
    m[w.mask] = lanes_of(place, head)
    return (peek(place) >> 32) & 0xFFFFFFF


@core
def next_block(m: Any, code: Any, sm: s.SM, w: s.Warp, time: int) -> bool:
    """Continue with the warp's next basic block; False if it has ended or must wait."""
    if m[w.pos] == m[w.used]:
        if m[w.pending] != 0:
            if run_ahead(m, code, w):
                return True
            m[sm.held_up] = 1
            return False
        status = m[w.status]
        if status == EXIT:
            end_warp(m, sm, w, time)
            return False
        if status == STRONG or status == CLOCK:
            number = m[w.number]
            foretold = 0
            if number >= 0:
                row = m[w.block_rows] + number * s.BasicBlock.size
                foretold = code[row + (s.BasicBlock.strong if status == STRONG else s.BasicBlock.clock)]
            if foretold >= 0:
                m[w.pending] = 1
                start_block_of(m, code, w, foretold)
                return True
            if status == STRONG:
                ask_serial(m, sm, w, time)
                return False
        if not refill(m, sm, w, time):
            return False
        if m[w.used] == 0:
            if m[w.status] == EXIT:
                end_warp(m, sm, w, time)
                return False
            set_ready(m, sm, w, time + RETRY_CYCLES, s.P_NONE)
            return False
    start_block_of(m, code, w, take_block(m, code, w))
    return True


@core
def run_ahead(m: Any, code: Any, w: s.Warp) -> bool:
    """Continue to the next strong access while earlier ones of the warp are in flight (bench.micro ``strong``), if the program determines which it is."""
    number = m[w.number]
    if number < 0:
        return False
    sure = code[s.BasicBlock(m[w.block_rows] + number * s.BasicBlock.size).sure]
    if sure < 0:
        return False
    m[w.pending] |= 1
    start_block_of(m, code, w, sure)
    return True


@core
def turn_back(m: Any, code: Any, sm: s.SM, w: s.Warp, number: int, pc: int) -> None:
    """Correct a wrong prediction of a warp's path: it continues in block ``number``, at ``pc``; instructions that it ran ahead are discarded."""
    m[sm.foretold_wrong] += 1
    m[w.pending] = 0
    start_block_of(m, code, w, number)
    m[w.pc] = max(m[w.pc], pc)
    slot = m[w.slot]
    m[sm.sub_cores[slot >> 4].ready[slot & 15]] = s.INF


@core
def ask_serial(m: Any, sm: s.SM, w: s.Warp, time: int) -> None:
    """Let the serial phase execute a stopped warp although its next block is not known."""
    m[w.pending] += 2
    new_request(m, sm, w, s.RQ_STRONG, time, -1, 0, 0)


@core
def set_ready(m: Any, sm: s.SM, w: s.Warp, time: int, pipe: int) -> None:
    """Set the time at which the warp can issue in its sub-core."""
    slot = m[w.slot]
    sc = sm.sub_cores[slot >> 4]
    m[sc.ready[slot & 15]] = time
    m[sc.age[slot & 15]] = m[w.age] + ((time & s.AGE_TIMES) << s.AGE_READY)
    m[sc.pipe[slot & 15]] = pipe
    following = sm.sub_next[slot >> 4]
    if time < m[following]:
        m[following] = time
        if time < m[sm.next]:
            m[sm.next] = time


@core
def waits_at_barrier(m: Any, code: Any, w: s.Warp) -> bool:
    """Whether the warp's next instruction waits for a block barrier or a cluster's."""
    waits_at = m[w.barrier]
    return waits_at != 0 and (
        waits_at & s.DEFERRED == 0
        or m[w.pc] == m[w.end]
        or code[s.Instruction(m[w.pc] * s.Instruction.size).kind] != s.K_FIXED
    )


@core
def clock_read(m: Any, code: Any, w: s.Warp, time: int) -> int:
    """The cycle at which a warp that waits at a block barrier reads the clock after it, or 0: such a read does not wait for the barrier (``bar_defer``)."""
    for i in range(CLOCK_WITHIN):
        row = s.Instruction((m[w.pc] + i) * s.Instruction.size)
        kind = code[row.kind]
        if kind == s.K_CLOCK:
            return time
        if kind != s.K_FIXED:
            return 0
        time += code[row.stall]
    return 0


@core
def branch_end(m: Any, code: Any, w: s.Warp, pc: int, lanes: int) -> int:
    """When the warp that was at ``pc`` with these lanes can continue in the basic block that it has reached."""
    before = s.Instruction((pc - 1) * s.Instruction.size)
    came = code[before.kind] if pc > 0 else s.K_FIXED
    joins = came == s.K_JOIN
    if came == s.K_YIELD and m[w.pc] == pc:
        live = m[w.lanes] & ~peek(m[w.pointer] + EXITED)
        return m[w.last] + m[s.chip.yield_latency] if lanes != live else 0  # it found no other group
    if m[w.pc] == pc and not joins:
        return 0
    branches = joins or came == s.K_BRANCH or came == s.K_YIELD
    taken = m[w.last] + (code[before.latency] if branches else m[s.chip.branch_latency])
    if joins and m[w.mask] & lanes == 0:  # another group of lanes continues
        taken += m[s.chip.group_switch]
    elif joins and m[w.restored] & code[before.op]:
        taken += m[s.chip.restored_join]
    return taken


@core
def operands_ready(
    m: Any, code: Any, w: s.Warp, row: s.Instruction, earliest: int, reason: int
) -> tuple[int, int, bool]:
    """When all conditions of an instruction hold, the reason for the wait, and whether that time is known yet."""
    waits = code[row.wait]
    known = True
    if waits >= 0:
        earliest, reason, known = barriers_ready(m, w, waits, earliest, reason)
    else:
        over = listed_ready(m, code, w, row - waits)
        if over >= s.INF:
            return earliest, s.ST_LONG, False
        if over >> 1 > earliest:
            earliest = over >> 1
            reason = s.ST_LONG if over & 1 else s.ST_SHORT
    kind = code[row.kind]
    if s.K_DEPBAR <= kind <= s.K_GROUP_WAIT and known:
        if kind == s.K_GROUP_WAIT:
            over = products_over(m, w, code[row.extra])
            if over > earliest:
                return over, s.ST_MATH, True
            return earliest, reason, True
        over = counter_ready(m, w, code[row.op], code[row.extra])
        if over >= s.INF:
            return earliest, s.ST_LONG, False
        if over > earliest:
            return over, s.ST_LONG, True
    return earliest, reason, known


@core
def products_over(m: Any, w: s.Warp, left: int) -> int:
    """When no more than ``left`` groups of the warpgroup's products are incomplete."""
    if left == 0:
        return m[w.product_end]
    place = m[w.groups] - 1 - left
    return m[w.group_end[place & (s.GROUP_RING - 1)]] if place >= 0 and left < s.GROUP_RING else 0


@core
def fetched(m: Any, code: Any, sm: s.SM, w: s.Warp, row: s.Instruction, earliest: int, reason: int) -> tuple[int, int]:
    """When an instruction that could issue at ``earliest`` has been fetched, with its constant operand, and the reason for the wait."""
    line = code[row.line]
    if line != m[w.line]:
        m[w.line] = line
        come = instruction_ready(m, sm, m[w.slot], line, earliest)
        if come > earliest:
            earliest = come
            reason = s.ST_NO_INSTRUCTION
    constant = code[row.constant]
    indexed = code[row.kind] == s.K_INDEXED
    if constant >= 0 or indexed:
        if indexed:
            come = indexed_ready(m, code, sm, w, row, earliest)
        else:
            come = constant_ready(m, sm, m[w.slot], constant, earliest)
        if come > earliest:
            return come, s.ST_CONSTANT
    return earliest, reason


@core
def fence_passed(m: Any, sm: s.SM, w: s.Warp) -> int:
    """When the warp can continue after its fence, if there is one; INF while that is not known."""
    fence = m[w.fence]
    if fence == 0:
        return 0
    if m[w.stores] or fence == s.FENCE_ASKED:
        return s.INF
    if fence & s.FENCE_AT_L2:
        ask_fence(m, sm, w, fence)
        return s.INF
    m[w.fence] = 0
    return m[w.store_time] + fence


@core
def come_to_next(m: Any, code: Any, sm: s.SM, w: s.Warp, earliest: int, reason: int) -> tuple[int, int, bool]:
    """Pass block barrier, fence and the end of the basic block; returns the time, the reason for the wait, and whether that time is known yet."""
    if waits_at_barrier(m, code, w):
        if m[w.barrier] & s.DEFERRED and m[w.early_clock] == 0:
            m[w.early_clock] = clock_read(m, code, w, earliest)
        return earliest, reason, False
    passed = fence_passed(m, sm, w)
    if passed >= s.INF:
        return earliest, reason, False
    if passed > earliest:
        earliest = passed
        reason = s.ST_MEMBAR
    pc = m[w.pc]
    if pc == m[w.end]:
        lanes = m[w.mask]
        if not next_block(m, code, sm, w, earliest):
            return earliest, reason, False
        taken = branch_end(m, code, w, pc, lanes)
        if taken > earliest:
            return taken, s.ST_BRANCH, True
    return earliest, reason, True


@core
def prepare(m: Any, code: Any, sm: s.SM, w: s.Warp, earliest: int, reason: int) -> None:
    """Compute when the warp can issue its next instruction."""
    m[w.earliest] = earliest
    m[w.reason] = reason
    slot = m[w.slot]
    ready = sm.sub_cores[slot >> 4].ready[slot & 15]
    m[ready] = s.INF
    if m[w.barrier] | m[w.fence] or m[w.pc] == m[w.end]:
        earliest, reason, known = come_to_next(m, code, sm, w, earliest, reason)
        if not known:
            return
    row = s.Instruction(m[w.pc] * s.Instruction.size)
    kind = code[row.kind]
    if kind != s.K_FIXED:
        if m[w.release] > earliest and kind != s.K_CLOCK:
            earliest = m[w.release]
            reason = s.ST_BARRIER
        if s.K_MEMORY <= kind <= s.K_LOOKUP and m[w.pos] == m[w.used]:
            pending = m[w.pending]
            if pending & 1 == 0 and (pending != 0 or not refill(m, sm, w, earliest)):
                m[sm.held_up] |= pending
                m[w.earliest] = earliest
                m[w.reason] = reason
                return
    earliest, reason, known = operands_ready(m, code, w, row, earliest, reason)
    if not known:
        m[w.earliest] = earliest
        m[w.reason] = reason
        return
    earliest, reason = fetched(m, code, sm, w, row, earliest, reason)
    m[w.earliest] = earliest
    m[w.reason] = reason
    set_ready(m, sm, w, earliest, code[row.pipe])
    if kind == s.K_MEMORY and m[w.pos] != m[w.used]:
        approach_record(m, sm, w)


@core
def settle(m: Any, code: Any, sm: s.SM, time: int) -> None:
    """Prepare every marked warp, for cycles from ``time`` on."""
    while m[sm.reconsider]:
        slot = lowest_bit(m[sm.reconsider])
        m[sm.reconsider] &= ~(1 << slot)
        w = warp_at(sm, slot)
        sc = sm.sub_cores[slot >> 4]
        if m[w.active] and m[sc.ready[slot & 15]] >= s.INF:
            prepare(m, code, sm, w, max(m[w.earliest], time), m[w.reason])


@core
def pause_of(m: Any, w: s.Warp) -> int:
    """Cycles of the NANOSLEEP at which the warp stopped."""
    return peek(m[w.pointer] + SLEEP_NS) * m[s.chip.clock_khz] // 1000000


@core
def executes_grid_control(m: Any, w: s.Warp) -> bool:
    """Whether any lane of the warp executes the griddepcontrol at which it has stopped."""
    return m[w.status] == SLEEP and m[w.pos] == m[w.used] and peek(m[w.pointer] + SLEEP_NS) != 0


@core
def let_go(m: Any, sm: s.SM, w: s.Warp, time: int) -> None:
    """Record, once, that the warp's block lets dependent grids begin."""
    b = sm.blocks[m[w.block]]
    if m[b.let_go] == 0:
        m[b.let_go] = time
        m[sm.let_go] += 1


@core
def await_grids(m: Any, sm: s.SM, w: s.Warp) -> int:
    """When the grids before the warp's own have ended; the warp waits while that is not known (``residency.end_kernel``)."""
    k = s.Kernel(m[sm.blocks[m[w.block]].kernel])
    if m[k.awaits]:
        m[w.barrier] = s.AT_GRID
    return m[k.released]
