"""A warp between two issues: its records, what its next instruction waits for, block barriers and exit.

``prepare`` computes the earliest time at which a warp can issue its next instruction, from the control bits
(stall count, six dependence counters), the instruction and constant caches and the records that tell
which basic block comes next.  If it depends on an event that has not happened (an answer from L2, a strong access that has not been
executed, a barrier), the time is ``INF``; the event marks the warp in ``SM.reconsider``.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import LAUNCH, WARP, Status
from warpwright.native.intrinsics import call_warp, core, lowest_bit, peek, poke, popcount
from warpwright.timing import state as s
from warpwright.timing.constant import constant_ready, indexed_ready
from warpwright.timing.fetch import instruction_ready
from warpwright.timing.l1_sets import approach_record
from warpwright.timing.mio_queue import scheduler_of
from warpwright.timing.ports import reserve
from warpwright.timing.records import lanes_of
from warpwright.timing.requests import new_request
from warpwright.timing.scoreboard import hold_entry, listed_ready
from warpwright.timing.written_rounds import round_leaves, waits_for_stores

EXIT, BARRIER, STRONG, CLOCK = int(Status.EXIT), int(Status.BARRIER), int(Status.STRONG), int(Status.CLOCK)
SLEEP, TRACE_FULL, YIELD = int(Status.SLEEP), int(Status.TRACE_FULL), int(Status.YIELD)
TRACE_USED, WARP_CLOCK, WARP_NS, SLEEP_NS = WARP["trace_used"], WARP["clock"], WARP["globaltimer_ns"], WARP["sleep_ns"]
HOLDS_BACK = WARP["holds_back"]
BAR_ID, BAR_THREADS, BAR_MODE = WARP["barrier_id"], WARP["barrier_threads"], WARP["barrier_mode"]
BAR_LANES, BAR_VOTE, BAR_RESULT = WARP["barrier_lanes"], WARP["barrier_vote"], WARP["barrier_result"]
EXITED, ARRIVED = WARP["exited"], WARP["cluster_arrived"]
FAULT_INSTRUCTION, LAUNCH_OF_WARP, MISCOUNTED = WARP["fault_instruction"], WARP["launch"], LAUNCH["miscounted"]
RETRY_CYCLES = 32
"""Cycles after a yield without a record until the warp is run again."""
CLOCK_WITHIN = 8
"""Number of instructions after a block barrier within which a read of the clock does not wait for the barrier."""
MODE_ARRIVE, MODE_POPC, MODE_AND, MODE_OR, MODE_CLUSTER_ARRIVE = 1, 2, 3, 4, 5


@core
def warp_at(sm: s.SM, slot: int) -> s.Warp:
    """Index of a warp slot's fields."""
    return sm.warps[slot]


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
def acknowledge(m: Any, sm: s.SM, w: s.Warp, time: int) -> None:
    """Record that a write of the warp arrives at ``time``: fences of the warp and of its SM wait for it."""
    m[w.store_time] = max(m[w.store_time], time)
    m[sm.store_time] = max(m[sm.store_time], time)


@core
def mapped_elsewhere(m: Any) -> int:
    """Additional time of any system-scope fence if the host's or another device's memory is mapped."""
    return m[s.chip.fence_mapped] if m[s.chip.range_count] else 0


@core
def beyond_device(m: Any, sm: s.SM, time: int) -> int:
    """Additional time of a system-scope fence over one of device scope, from ``time`` on: the SM's writes to other memory must have arrived
    (``python -m bench.elsewhere``).  Posted writes tell nobody when they have, so that the first fence after them asks, however long ago they left."""
    longer = m[s.chip.fence_system] + mapped_elsewhere(m)
    if m[sm.posted]:
        m[sm.posted] = 0
        longer = max(longer, m[s.chip.fence_peer])
    if m[sm.peer_written] and m[sm.peer_written] + m[s.chip.fence_peer] > time:
        longer = max(longer, m[s.chip.fence_peer])
    if m[sm.host_written] and m[sm.host_written] + m[s.chip.fence_host] > time:
        longer = max(longer, m[s.chip.fence_host])
    return longer


@core
def ask_in_round(m: Any, sm: s.SM, w: s.Warp, latency: int, time: int) -> None:
    """Send a fence of an SM that has stored, together with its round, once the round may leave (``written_rounds.py``)."""
    if waits_for_stores(m, sm, w):
        new_request(m, sm, w, s.RQ_FENCE, time, latency, 0, s.FENCE_NOT_YET)
        return
    leaves = round_leaves(m, sm, w, max(m[w.store_time], m[sm.store_time]))
    m[w.written_round] = 0
    leaves = max(leaves, m[w.last])
    late = max(m[s.chip.now] - leaves, 0)
    new_request(m, sm, w, s.RQ_FENCE, leaves + late, latency - late, 0, s.FENCE_IN_ROUND)


@core
def ask_system_fence(m: Any, sm: s.SM, w: s.Warp, latency: int, acked: int, idle: bool) -> None:
    """Send a fence of system scope with its group. ``latency`` is that of a fence whose warp has written nothing (``idle``); the SM's writes were acknowledged at ``acked``.

    One group of an SM is on its way at a time, whether anything was written or not.  The first fence waits ``fence_system_joins`` for up to ``fence_system_first`` in all, and those that arrive while their group is on its way leave when it is back
    (``python -m bench.machine.system_fences`` on an H200: one to eight warps' fences take 1,177 cycles, and of those of 9, 16 and 64 warps at once, the last takes 2,004, 2,013 and 2,327; a fence 210 cycles after the
    first is over when it is, one 240 cycles after it 827 cycles later).  On V100 a group is assumed to have one of each sub-core, which an H200 does not have (Zhang et al.'s Table 9: a
    barrier of two GPUs' grids with 64 warps on each SM takes at least 16 µs more than with one, of which the grid's two barriers are 4).
    """
    issued = m[w.last]
    turn = m[sm.fence_turn]
    joins = m[s.chip.fence_system_joins]
    m[sm.fence_group] += 1
    full = 0 < m[sm.fence_most] < m[sm.fence_group]
    if full or issued > turn:
        back = turn + max(m[sm.fence_gap], m[s.chip.fence_turn])
        waits = issued <= back
        turn = back if waits else issued + joins
        m[sm.fence_most] = m[s.chip.fence_system_group if waits else s.chip.fence_system_first]
        m[sm.fence_group] = 1
        m[sm.fence_turn] = turn
        m[sm.fence_gap] = 0
    begins = turn - joins
    longer = beyond_device(m, sm, max(turn, acked))
    m[sm.fence_gap] = max(m[sm.fence_gap], longer + m[s.chip.fence_system_gap])
    over = begins + latency + mapped_elsewhere(m)
    if not idle:
        over = max(over, max(begins, acked) + m[s.chip.fence_latency] + longer)
    leaves = max(turn, m[s.chip.now])
    new_request(m, sm, w, s.RQ_FENCE, leaves, max(over - leaves, 0), 0, s.FENCE_AFTER_LOADS)


@core
def ask_fence(m: Any, sm: s.SM, w: s.Warp, fence: int) -> None:
    """Send a fence whose warp's writes are acknowledged to the slices: with its round or group if the SM has stored, otherwise at once."""
    m[w.fence] = s.FENCE_ASKED
    time = max(max(m[w.store_time], m[sm.store_time]), max(m[w.last], m[s.chip.now]))
    turn = m[sm.fence_turn]
    idle = m[w.store_time] <= m[w.fenced]
    m[w.fenced] = time
    if m[w.written_round] and fence & s.FENCE_SYSTEM == 0:
        ask_in_round(m, sm, w, fence & (s.FENCE_AT_L2 - 1), time)
        return
    if idle and fence & s.FENCE_SYSTEM == 0:
        # Nothing was written since the warp's last fence: no group takes it (fence_gl: 16 warps 290 cycles, one 280; cluster_barrier).
        new_request(m, sm, w, s.RQ_FENCE, time, fence & (s.FENCE_AT_L2 - 1), 0, s.FENCE_IN_TURN)
        return
    if fence & s.FENCE_SYSTEM:
        ask_system_fence(m, sm, w, fence & (s.FENCE_AT_L2 - 1), time, idle)
        return
    m[sm.fence_group] += 1
    full = 0 < m[s.chip.fence_places] < m[sm.fence_group]
    if full or time > turn + m[s.chip.fence_together]:
        m[sm.fence_group] = 1
        turn = max(time, turn + max(m[sm.fence_gap], m[s.chip.fence_turn]))
        m[sm.fence_turn] = turn
        m[sm.fence_gap] = 0
    new_request(m, sm, w, s.RQ_FENCE, max(time, turn), fence & (s.FENCE_AT_L2 - 1), 0, s.FENCE_IN_TURN)


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
def unknown_ends(m: Any, w: s.Warp, barrier: int) -> int:
    """The number of a dependence barrier's operations whose end is not known."""
    return (m[w.sb_unknown] >> s.UNKNOWN_BITS * barrier) & ((1 << s.UNKNOWN_BITS) - 1)


@core
def end_known(m: Any, w: s.Warp, barrier: int, time: int) -> None:
    """Record that one of them ends at ``time``."""
    m[w.sb_unknown] -= 1 << s.UNKNOWN_BITS * barrier
    m[w.sb_time[barrier]] = max(m[w.sb_time[barrier]], time)


@core
def barriers_ready(m: Any, w: s.Warp, waits: int, earliest: int, reason: int) -> tuple[int, int, bool]:
    """When the dependence barriers ``waits`` are over, the reason for the wait, and whether that time is known yet."""
    while waits:
        barrier = lowest_bit(waits)
        waits &= waits - 1
        if unknown_ends(m, w, barrier):
            return earliest, s.ST_LONG, False
        over = m[w.sb_time[barrier]]
        kind = s.ST_LONG if (m[w.sb_long] >> barrier) & 1 else s.ST_SHORT
        reason = kind if over > earliest else reason
        earliest = max(earliest, over)
    return earliest, reason, True


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
def counter_ready(m: Any, w: s.Warp, barrier: int, allowed: int) -> int:
    """When a dependence counter is at or below ``allowed``: its operations end in order."""
    if barrier < 0:
        return 0
    if allowed == 0:
        return s.INF if unknown_ends(m, w, barrier) else m[w.sb_time[barrier]]
    count = m[w.ring_count[barrier]]
    needed = count - allowed  # this many, counted from the first, must be over
    if needed <= 0:
        return 0
    ring = w.ring[barrier * s.RING]
    first = max(count - s.RING, 0)
    over = 0
    for i in range(first, needed):
        over = max(over, m[ring + (i & (s.RING - 1))])
    return over


@core
def hold(m: Any, w: s.Warp, barrier: int, time: int, long: int) -> None:
    """Count an operation on a dependence counter; ``time`` is its end, INF when unknown."""
    if barrier >= s.DEPENDENCE_BARRIERS:
        hold_entry(m, w, barrier, time, long)
        return
    if time >= s.INF:
        m[w.sb_unknown] += 1 << s.UNKNOWN_BITS * barrier
    elif time > m[w.sb_time[barrier]]:
        m[w.sb_time[barrier]] = time
    m[w.sb_long] = m[w.sb_long] & ~(1 << barrier) | long << barrier


@core
def hold_both(m: Any, code: Any, w: s.Warp, row: s.Instruction, done: int, read: int) -> None:
    """Count an instruction on its dependence barriers: its results until ``done``, its operands until ``read``."""
    barrier = code[row.write_barrier]
    if barrier >= 0:
        hold(m, w, barrier, done, 0)
    barrier = code[row.read_barrier]
    if barrier >= 0:
        hold(m, w, barrier, read, 0)


@core
def push_ring(m: Any, w: s.Warp, barrier: int, time: int) -> int:
    """Record an operation for DEPBAR.LE with a count; returns its place."""
    count = m[w.ring_count[barrier]]
    m[w.ring_count[barrier]] = count + 1
    place = w.ring[barrier * s.RING + (count & (s.RING - 1))]
    m[place] = time
    return place


@core
def mark(m: Any, sm: s.SM, w: s.Warp) -> None:
    """Mark the warp for ``settle``."""
    m[sm.reconsider] |= 1 << m[w.slot]


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


@core
def take_barrier_unit(m: Any, sm: s.SM, w: s.Warp, time: int) -> int:
    """When the barrier unit has accepted an arrival, or a read of a result, that waits in its sub-core's queue from ``time`` on.

    Warps that find the queue full issue when an entry is free, warps of the oldest block first, so that the blocks of a full SM pass their barriers one after
    the other rather than in turns (bench.micro ``block_bars``: with 32 blocks of two warps, a block's step takes 46 cycles, and all blocks' steps 135).
    """
    taken = max(time, m[sm.barrier_free]) + m[s.chip.barrier_interval]
    m[sm.barrier_free] = taken
    sc = sm.sub_cores[scheduler_of(m, m[w.slot])]
    head = m[sc.barrier_head]
    m[sc.barrier_queue[head]] = taken
    head = head + 1 if head + 1 < m[s.chip.barrier_entries] else 0
    m[sc.barrier_head] = head
    pipe = sc.pipe_free[s.P_ADU]
    m[pipe] = max(m[pipe], m[sc.barrier_queue[head]])
    return taken


@core
def arrive(m: Any, sm: s.SM, w: s.Warp, time: int, deferred: bool) -> None:
    """Stop the warp at a block barrier issued at ``time``; ``deferred``: instructions that do not depend on the barrier's order may issue while it waits."""
    mode = peek(m[w.pointer] + BAR_MODE)
    if mode >= MODE_CLUSTER_ARRIVE:
        arrive_at_cluster(m, sm, w, mode, time)
        return
    at = count_arrival(m, sm, w, time, deferred)
    complete(m, sm, sm.blocks[m[w.block]], peek(m[w.pointer] + BAR_ID) & 15, at)


@core
def note_miscount(pointer: int, threads: int, differs: bool) -> None:
    """Note that a warp has named an invalid number of threads at a barrier; the launch reports it at its end."""
    instruction = peek(pointer + FAULT_INSTRUCTION)
    poke(
        peek(pointer + LAUNCH_OF_WARP) + MISCOUNTED,
        instruction << 16 | (threads & 0x7FFF) << 1 | (1 if differs else 0),
    )


@core
def count_arrival(m: Any, sm: s.SM, w: s.Warp, time: int, deferred: bool) -> int:
    """Count the warp's arrival at its block's barrier; returns the cycle at which the barrier unit has accepted it."""
    pointer = m[w.pointer]
    number = peek(pointer + BAR_ID) & 15
    mode = peek(pointer + BAR_MODE)
    lanes = peek(pointer + BAR_LANES)
    b = sm.blocks[m[w.block]]
    at = take_barrier_unit(m, sm, w, time)
    threads = peek(pointer + BAR_THREADS)
    differs = (
        m[b.arrived[number]] != 0 and threads != 0 and m[b.expected[number]] != 0 and m[b.expected[number]] != threads
    )
    if differs or threads & 31:
        note_miscount(pointer, threads, differs)
    if m[b.arrived[number]] == 0:
        m[b.votes[number]] = -1 if mode == MODE_AND else 0
    m[b.arrived[number]] += popcount(lanes)
    m[b.expected[number]] = threads
    vote = peek(pointer + BAR_VOTE) & lanes
    if mode == MODE_POPC:
        m[b.votes[number]] += popcount(vote)
    elif mode == MODE_AND and vote != lanes:
        m[b.votes[number]] = 0
    elif mode == MODE_OR and vote != 0:
        m[b.votes[number]] = -1
    if mode == MODE_ARRIVE:
        m[w.status] = s.STATUS_RELEASED
    else:
        m[w.barrier] = number + 1 + (s.DEFERRED if deferred else 0)
    return at


@core
def arrive_at_cluster(m: Any, sm: s.SM, w: s.Warp, mode: int, time: int) -> None:
    """Record the warp's arrival at the cluster's barrier, or its wait, issued at ``time``."""
    pointer = m[w.pointer]
    lanes = peek(pointer + BAR_LANES)
    m[s.chip.cluster_events] = 1
    if mode == MODE_CLUSTER_ARRIVE:
        poke(pointer + ARRIVED, peek(pointer + ARRIVED) | lanes)
        b = sm.blocks[m[w.block]]
        at = max(time, m[sm.barrier_free]) + m[s.chip.barrier_interval]
        m[sm.barrier_free] = at
        m[b.cluster_time] = max(m[b.cluster_time], at)
        m[w.status] = s.STATUS_RELEASED
    elif peek(pointer + ARRIVED) & lanes:
        m[w.barrier] = s.AT_CLUSTER
    else:  # the barrier was judged complete since the warp arrived, and lets it continue from then on
        m[w.status] = s.STATUS_RELEASED
        b = sm.blocks[m[w.block]]
        m[w.earliest] = m[b.cluster_release]
        mark(m, sm, w)


@core
def pass_release(m: Any, sm: s.SM, warps: int, unit: int, time: int) -> None:
    """Occupy the load/store unit for a barrier's release, for at most the ``unit`` cycles for which the barrier unit is busy with it.

    Shared accesses wait for it: beside loads of each warp, 32 blocks of two warps take 3.9 cycles of the SM per barrier in addition to the loads' own
    (bench.micro ``bars_among``).
    """
    cycles = min(m[s.chip.barrier_port] + (warps + m[s.chip.sub_cores] - 1) // m[s.chip.sub_cores], unit)
    reserve(m, sm.lsu_calendar, s.CALENDAR_SHIFT, m[s.chip.lsu_capacity], time, cycles)


@core
def complete(m: Any, sm: s.SM, b: s.BlockSlot, number: int, time: int) -> None:
    """Release a barrier's warps once all expected threads have arrived."""
    arrived = m[b.arrived[number]]
    if arrived == 0:
        return
    expected = m[b.expected[number]]
    warps = m[s.Kernel(m[b.kernel]).warps_per_block]
    if expected == 0:
        for i in range(warps):
            slot = m[b.warps[i]]
            if slot >= 0:
                w = warp_at(sm, slot)
                live = m[w.lanes] & ~peek(m[w.pointer] + EXITED)
                expected += popcount(live)
    if arrived < expected:
        return
    m[b.arrived[number]] = 0
    m[sm.barriers] += 1
    came = (arrived + m[s.chip.lanes] - 1) // m[s.chip.lanes]
    taken = came * m[s.chip.barrier_interval]
    m[sm.barrier_free] += max(m[s.chip.barrier_least] - taken, m[s.chip.barrier_last])
    if m[s.chip.barrier_port]:
        pass_release(m, sm, came, max(taken, m[s.chip.barrier_least]), time)
    release = time + m[s.chip.barrier_latency]
    for i in range(warps):
        slot = m[b.warps[i]]
        if slot >= 0:
            w = warp_at(sm, slot)
            waits_at = m[w.barrier]
            if waits_at & ~s.DEFERRED == number + 1:
                m[w.barrier] = 0
                m[w.status] = s.STATUS_RELEASED
                poke(m[w.pointer] + BAR_RESULT, m[b.votes[number]])
                m[w.release] = release
                if waits_at & s.DEFERRED == 0:
                    m[w.earliest] = release
                m[w.reason] = s.ST_BARRIER
                mark(m, sm, w)


@core
def end_warp(m: Any, sm: s.SM, w: s.Warp, time: int) -> None:
    """End the warp, whose last instruction has issued; its block may end as well, once its warps' writes have left the SM.

    Nsight Compute calls that wait ``drain``: scattered atomics at a warp's end hold its place for hundreds of cycles.
    """
    slot = m[w.slot]
    drained = max(m[w.drained], time)
    if drained > time:
        m[m[sm.stalls] + (m[w.pc] - 1) * s.STALL_COUNT + s.ST_DRAIN] += drained - time
    ended, time = time, drained
    sc = sm.sub_cores[slot >> 4]
    m[w.active] = 0
    m[sc.ready[slot & 15]] = s.INF
    m[sc.free] |= 1 << (slot & 15)
    first = scheduler_of(m, slot)
    scheduler = sm.sub_cores[first]
    if m[scheduler.last] == slot - first * s.MAX_WARPS:
        m[scheduler.last] = -1
    m[sm.warp_cycles] += time - m[w.started]
    m[sm.finish] = max(m[sm.finish], time)
    block = m[w.block]
    b = sm.blocks[block]
    m[b.drained] = max(m[b.drained], time)
    m[b.warps[m[w.in_block]]] = -1
    m[b.live] -= 1
    if m[b.live] > 0:
        for number in range(s.NAMED_BARRIERS):
            complete(m, sm, b, number, ended)
        return
    time = m[b.drained]
    m[b.active] = 0
    logged = m[b.logged]
    k = s.Kernel(m[b.kernel])
    if logged < m[k.logged_blocks]:
        entry = s.LoggedBlock(m[k.block_log] + logged * s.LoggedBlock.size)
        m[entry.sm] = m[sm.index]
        m[entry.start] = m[b.started]
        m[entry.end] = time
    done = m[sm.done]
    m[sm.ended[done].time] = time
    m[sm.ended[done].slot] = block
    m[sm.done] = done + 1
    m[sm.resident] -= 1
    if m[sm.resident] == 0:
        m[sm.active] += time - m[sm.active_from]
        m[sm.active_from] = -1
