"""A warp between two issues: its records, what its next instruction waits for, block barriers and its end.

``prepare`` computes the earliest time at which a warp can issue its next instruction, from the control bits
(stall count, six dependence counters), the instruction and constant caches and the records that tell
which basic block comes next.  What is not known yet (an answer from L2, a strong access that has not been
executed, a barrier) leaves the warp at ``INF``; whoever learns it marks the warp in ``SM_RECONSIDER``.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import WARP, Status
from warpwright.native.intrinsics import call_warp, core, lowest_bit, peek, poke, popcount, u
from warpwright.timing import state as s
from warpwright.timing.constant import constant_ready, indexed_ready
from warpwright.timing.fetch import instruction_ready
from warpwright.timing.l1_sets import approach_record
from warpwright.timing.requests import new_request

EXIT, BARRIER, STRONG, CLOCK = int(Status.EXIT), int(Status.BARRIER), int(Status.STRONG), int(Status.CLOCK)
SLEEP, TRACE_FULL, YIELD = int(Status.SLEEP), int(Status.TRACE_FULL), int(Status.YIELD)
TRACE_USED, WARP_CLOCK, WARP_NS, SLEEP_NS = WARP["trace_used"], WARP["clock"], WARP["globaltimer_ns"], WARP["sleep_ns"]
HOLDS_BACK = WARP["holds_back"]
BAR_ID, BAR_THREADS, BAR_MODE = WARP["barrier_id"], WARP["barrier_threads"], WARP["barrier_mode"]
BAR_LANES, BAR_VOTE, BAR_RESULT = WARP["barrier_lanes"], WARP["barrier_vote"], WARP["barrier_result"]
EXITED, ARRIVED = WARP["exited"], WARP["cluster_arrived"]
RETRY_CYCLES = 32
"""After a yield without a record: when the warp is asked again."""
MODE_ARRIVE, MODE_POPC, MODE_AND, MODE_OR, MODE_CLUSTER_ARRIVE = 1, 2, 3, 4, 5


@core
def warp_at(sm: int, slot: int) -> int:
    """Index of a warp slot's fields."""
    return sm + s.OFF_WARPS + slot * s.W_SLOTS


@core
def run_function(m: Any, sm: int, w: int, time: int) -> bool:
    """Call the warp's function for more records; False when Python must handle what it returned."""
    pointer = m[u(w + s.W_POINTER)]
    poke(pointer + TRACE_USED, 0)
    poke(pointer + WARP_CLOCK, time)
    poke(pointer + WARP_NS, time * 1000000 // m[u(s.H_CLOCK_KHZ)])
    status = call_warp(m[u(s.H_FUNCTION)], pointer)
    m[u(w + s.W_POS)] = 0
    m[u(w + s.W_USED)] = peek(pointer + TRACE_USED)
    m[u(w + s.W_STATUS)] = status
    m[u(sm + s.SM_RAN)] += 1
    known = (
        (1 << EXIT) | (1 << BARRIER) | (1 << STRONG) | (1 << CLOCK) | (1 << SLEEP) | (1 << TRACE_FULL) | (1 << YIELD)
    )
    if (known >> status) & 1:
        return True
    m[u(sm + s.SM_ERROR)] = m[u(w + s.W_SLOT)] + 1
    return False


@core
def refill(m: Any, sm: int, w: int, time: int) -> bool:
    """More records, when the warp may run now; False while it must wait."""
    status = m[u(w + s.W_STATUS)]
    if status == EXIT or status == BARRIER or status == STRONG:
        return False
    return run_function(m, sm, w, time)


@core
def start_block_of(m: Any, code: Any, w: int, number: int) -> None:
    row = m[u(s.H_BLOCK_ROWS)] + number * s.BL_SLOTS
    m[u(w + s.W_NUMBER)] = number
    m[u(w + s.W_PC)] = code[u(row + s.BL_FIRST)]
    m[u(w + s.W_END)] = code[u(row + s.BL_END)]


@core
def take_block(m: Any, code: Any, w: int) -> int:
    """Consume the block record that is next; gives the block's number."""
    position = m[u(w + s.W_POS)]
    word = peek(m[u(w + s.W_TRACE)] + position * 8)
    m[u(w + s.W_POS)] = position + 1
    m[u(w + s.W_MASK)] = word & 0xFFFFFFFF
    return (word >> 32) & 0xFFFFFFF


@core
def next_block(m: Any, code: Any, sm: int, w: int, time: int) -> bool:
    """Go on to the warp's next basic block; False when it has ended or must wait."""
    if m[u(w + s.W_POS)] == m[u(w + s.W_USED)]:
        if m[u(w + s.W_PENDING)] != 0:
            return run_ahead(m, code, w)
        status = m[u(w + s.W_STATUS)]
        if status == EXIT:
            end_warp(m, sm, w, time)
            return False
        if status == STRONG or status == CLOCK:
            number = m[u(w + s.W_NUMBER)]
            foretold = 0
            if number >= 0:
                row = m[u(s.H_BLOCK_ROWS)] + number * s.BL_SLOTS
                foretold = code[u(row + (s.BL_STRONG if status == STRONG else s.BL_CLOCK))]
            if foretold >= 0:
                m[u(w + s.W_PENDING)] = 1
                start_block_of(m, code, w, foretold)
                return True
            if status == STRONG:
                ask_serial(m, sm, w, time)
                return False
        if not refill(m, sm, w, time):
            return False
        if m[u(w + s.W_USED)] == 0:
            if m[u(w + s.W_STATUS)] == EXIT:
                end_warp(m, sm, w, time)
                return False
            set_ready(m, sm, w, time + RETRY_CYCLES, s.P_NONE)
            return False
    start_block_of(m, code, w, take_block(m, code, w))
    return True


@core
def run_ahead(m: Any, code: Any, w: int) -> bool:
    """Go on to the next strong access while earlier ones of the warp are on their way (bench.micro ``strong``), where the program leaves
    no doubt which it is."""
    number = m[u(w + s.W_NUMBER)]
    if number < 0:
        return False
    sure = code[u(m[u(s.H_BLOCK_ROWS)] + number * s.BL_SLOTS + s.BL_SURE)]
    if sure < 0:
        return False
    m[u(w + s.W_PENDING)] |= 1
    start_block_of(m, code, w, sure)
    return True


@core
def turn_back(m: Any, code: Any, sm: int, w: int, number: int, pc: int) -> None:
    """A warp is not where it was thought to be: it goes on in block ``number``, at ``pc``; what it ran ahead is not executed."""
    m[u(sm + s.SM_FORETOLD_WRONG)] += 1
    m[u(w + s.W_PENDING)] = 0
    start_block_of(m, code, w, number)
    m[u(w + s.W_PC)] = max(m[u(w + s.W_PC)], pc)
    slot = m[u(w + s.W_SLOT)]
    m[u(sm + s.OFF_SUB_CORES + (slot >> 4) * s.SC_SLOTS + s.SC_READY + (slot & 15))] = s.INF


@core
def ask_serial(m: Any, sm: int, w: int, time: int) -> None:
    """Have a stopped warp executed in the serial phase although nobody knows where it goes on."""
    m[u(w + s.W_PENDING)] += 2
    new_request(m, sm, w, s.RQ_STRONG, time, -1, 0, 0)


@core
def acknowledge(m: Any, sm: int, w: int, time: int) -> None:
    """A write of the warp is known to have arrived at ``time``: fences of the warp, and of its SM, wait for it."""
    m[u(w + s.W_STORE_TIME)] = max(m[u(w + s.W_STORE_TIME)], time)
    m[u(sm + s.SM_STORE_TIME)] = max(m[u(sm + s.SM_STORE_TIME)], time)


@core
def mapped_elsewhere(m: Any) -> int:
    """How much longer any fence for the system takes where the host's or another device's memory is mapped."""
    return m[u(s.H_FENCE_MAPPED)] if m[u(s.H_ELSEWHERES)] else 0


@core
def beyond_device(m: Any, sm: int, time: int) -> int:
    """How much longer a fence for the system takes than one for the device, from ``time`` on: what the SM wrote elsewhere must have arrived
    (``python -m bench.elsewhere``)."""
    longer = m[u(s.H_FENCE_SYSTEM)] + mapped_elsewhere(m)
    if m[u(sm + s.SM_PEER_WRITTEN)] and m[u(sm + s.SM_PEER_WRITTEN)] + m[u(s.H_FENCE_PEER)] > time:
        longer = max(longer, m[u(s.H_FENCE_PEER)])
    if m[u(sm + s.SM_HOST_WRITTEN)] and m[u(sm + s.SM_HOST_WRITTEN)] + m[u(s.H_FENCE_HOST)] > time:
        longer = max(longer, m[u(s.H_FENCE_HOST)])
    return longer


@core
def ask_fence(m: Any, sm: int, w: int, fence: int) -> None:
    """Send a fence whose warp's writes are acknowledged to the slices, in groups: those that come soon after a group's first go with it (bench.micro
    ``fence_crews``: 418 cycles by one warp, 459 by two, 469 by four, 975 by 16), as many as there are sub-cores; those that come while it is on its way go with the next ones
    (``strong``: a store and a fence 480 cycles by one warp, 570 by four, 740 to 760 by 16).

    A group of fences for the system leaves when the one before is on its way back from beyond the device, whether anything was written or not (``fences``,
    ``python -m bench.elsewhere``: 16 warps take 1.5 to 2 times as long as one).
    """
    m[u(w + s.W_FENCE)] = s.FENCE_ASKED
    time = max(max(m[u(w + s.W_STORE_TIME)], m[u(sm + s.SM_STORE_TIME)]), max(m[u(w + s.W_LAST)], m[u(s.H_NOW)]))
    turn = m[u(sm + s.SM_FENCE_TURN)]
    idle = m[u(w + s.W_STORE_TIME)] <= m[u(w + s.W_FENCED)]
    m[u(w + s.W_FENCED)] = time
    if idle and fence & s.FENCE_SYSTEM == 0:
        # Nothing was written since the warp's last fence: no group takes it (fence_gl: 16 warps 290 cycles, one 280; cluster_barrier).
        new_request(m, sm, w, s.RQ_FENCE, time, fence & (s.FENCE_AT_L2 - 1), 0, 0)
        return
    m[u(sm + s.SM_FENCE_GROUP)] += 1
    full = 0 < m[u(s.H_FENCE_PLACES)] < m[u(sm + s.SM_FENCE_GROUP)] and fence & s.FENCE_SYSTEM == 0
    if full or time > turn + m[u(s.H_FENCE_TOGETHER)]:
        m[u(sm + s.SM_FENCE_GROUP)] = 1
        turn = max(time, turn + max(m[u(sm + s.SM_FENCE_GAP)], m[u(s.H_FENCE_TURN)]))
        m[u(sm + s.SM_FENCE_TURN)] = turn
        m[u(sm + s.SM_FENCE_GAP)] = 0
    latency = fence & (s.FENCE_AT_L2 - 1)
    if fence & s.FENCE_SYSTEM:
        longer = beyond_device(m, sm, turn)
        latency = latency + mapped_elsewhere(m) if idle else m[u(s.H_FENCE_LATENCY)] + longer
        m[u(sm + s.SM_FENCE_GAP)] = max(m[u(sm + s.SM_FENCE_GAP)], longer + m[u(s.H_FENCE_SYSTEM_GAP)])
    new_request(m, sm, w, s.RQ_FENCE, max(time, turn), latency, 0, 0)


@core
def set_ready(m: Any, sm: int, w: int, time: int, pipe: int) -> None:
    """Tell the sub-core when the warp can issue."""
    slot = m[u(w + s.W_SLOT)]
    sc = sm + s.OFF_SUB_CORES + (slot >> 4) * s.SC_SLOTS
    m[u(sc + s.SC_READY + (slot & 15))] = time
    m[u(sc + s.SC_AGE + (slot & 15))] = m[u(w + s.W_AGE)] + ((time & s.AGE_TIMES) << s.AGE_READY)
    m[u(sc + s.SC_PIPE + (slot & 15))] = pipe
    following = sm + s.SM_SUB_NEXT + (slot >> 4)
    if time < m[u(following)]:
        m[u(following)] = time
        if time < m[u(sm + s.SM_NEXT)]:
            m[u(sm + s.SM_NEXT)] = time


@core
def prepare(m: Any, code: Any, sm: int, w: int, earliest: int, reason: int) -> None:
    """Find out when the warp can issue its next instruction."""
    m[u(w + s.W_EARLIEST)] = earliest
    m[u(w + s.W_REASON)] = reason
    slot = m[u(w + s.W_SLOT)]
    sc = sm + s.OFF_SUB_CORES + (slot >> 4) * s.SC_SLOTS
    m[u(sc + s.SC_READY + (slot & 15))] = s.INF
    waits_at = m[u(w + s.W_BARRIER)]
    if waits_at != 0 and (
        waits_at & s.DEFERRED == 0
        or m[u(w + s.W_PC)] == m[u(w + s.W_END)]
        or code[u(m[u(w + s.W_PC)] * s.I_SLOTS + s.I_KIND)] != s.K_FIXED
    ):
        return
    fence = m[u(w + s.W_FENCE)]
    if fence:
        if m[u(w + s.W_STORES)] or fence == s.FENCE_ASKED:
            return
        if fence & s.FENCE_AT_L2:
            ask_fence(m, sm, w, fence)
            return
        m[u(w + s.W_FENCE)] = 0
        written = m[u(w + s.W_STORE_TIME)] + fence
        if written > earliest:
            earliest = written
            reason = s.ST_MEMBAR
    pc = m[u(w + s.W_PC)]
    if pc == m[u(w + s.W_END)]:
        lanes = m[u(w + s.W_MASK)]
        if not next_block(m, code, sm, w, earliest):
            return
        before = (pc - 1) * s.I_SLOTS
        came = code[u(before + s.I_KIND)] if pc > 0 else s.K_FIXED
        joins = came == s.K_JOIN
        if came == s.K_YIELD and m[u(w + s.W_PC)] == pc:
            live = m[u(w + s.W_LANES)] & ~peek(m[u(w + s.W_POINTER)] + EXITED) & 0xFFFFFFFF
            if lanes != live and m[u(w + s.W_LAST)] + m[u(s.H_YIELD)] > earliest:  # it looked for others in vain
                earliest = m[u(w + s.W_LAST)] + m[u(s.H_YIELD)]
                reason = s.ST_BRANCH
        elif m[u(w + s.W_PC)] != pc or joins:
            branches = joins or came == s.K_BRANCH or came == s.K_YIELD
            taken = m[u(w + s.W_LAST)] + (code[u(before + s.I_LATENCY)] if branches else m[u(s.H_BRANCH_LATENCY)])
            if joins and m[u(w + s.W_MASK)] & lanes == 0:  # another group of lanes goes on
                taken += m[u(s.H_GROUP_SWITCH)]
            if taken > earliest:
                earliest = taken
                reason = s.ST_BRANCH
        pc = m[u(w + s.W_PC)]
    row = pc * s.I_SLOTS
    kind = code[u(row + s.I_KIND)]
    if kind != s.K_FIXED and m[u(w + s.W_RELEASE)] > earliest:
        earliest = m[u(w + s.W_RELEASE)]
        reason = s.ST_BARRIER
    if s.K_MEMORY <= kind <= s.K_LOOKUP and m[u(w + s.W_POS)] == m[u(w + s.W_USED)]:
        pending = m[u(w + s.W_PENDING)]
        if pending & 1 == 0 and (pending != 0 or not refill(m, sm, w, earliest)):
            m[u(w + s.W_EARLIEST)] = earliest
            m[u(w + s.W_REASON)] = reason
            return
    waits = code[u(row + s.I_WAIT)]
    while waits:
        barrier = lowest_bit(waits)
        waits &= waits - 1
        if m[u(w + s.W_SB_UNKNOWN + barrier)]:
            m[u(w + s.W_EARLIEST)] = earliest
            m[u(w + s.W_REASON)] = s.ST_LONG
            return
        over = m[u(w + s.W_SB_TIME + barrier)]
        if over > earliest:
            earliest = over
            reason = s.ST_LONG if m[u(w + s.W_SB_LONG + barrier)] else s.ST_SHORT
    if kind == s.K_DEPBAR:
        over = counter_ready(m, w, code[u(row + s.I_OP)], code[u(row + s.I_EXTRA)])
        if over >= s.INF:
            m[u(w + s.W_EARLIEST)] = earliest
            m[u(w + s.W_REASON)] = s.ST_LONG
            return
        if over > earliest:
            earliest = over
            reason = s.ST_LONG
    line = code[u(row + s.I_LINE)]
    if line != m[u(w + s.W_LINE)]:
        m[u(w + s.W_LINE)] = line
        fetched = instruction_ready(m, sm, line, earliest)
        if fetched > earliest:
            earliest = fetched
            reason = s.ST_NO_INSTRUCTION
    constant = code[u(row + s.I_CONST)]
    if constant >= 0 or kind == s.K_INDEXED:
        if kind == s.K_INDEXED:
            fetched = indexed_ready(m, code, sm, w, row, earliest)
        else:
            fetched = constant_ready(m, sm, m[u(w + s.W_SLOT)], constant, earliest)
        if fetched > earliest:
            earliest = fetched
            reason = s.ST_CONSTANT
    m[u(w + s.W_EARLIEST)] = earliest
    m[u(w + s.W_REASON)] = reason
    set_ready(m, sm, w, earliest, code[u(row + s.I_PIPE)])
    if kind == s.K_MEMORY and m[u(w + s.W_POS)] != m[u(w + s.W_USED)]:
        approach_record(m, sm, w)


@core
def counter_ready(m: Any, w: int, barrier: int, allowed: int) -> int:
    """When a dependence counter is at or below ``allowed``: its operations end in order."""
    if barrier < 0:
        return 0
    if allowed == 0:
        return s.INF if m[u(w + s.W_SB_UNKNOWN + barrier)] else m[u(w + s.W_SB_TIME + barrier)]
    count = m[u(w + s.W_RING_COUNT + barrier)]
    needed = count - allowed  # that many, counted from the first, must be over
    if needed <= 0:
        return 0
    ring = w + s.W_RING + barrier * s.RING
    first = max(count - s.RING, 0)
    over = 0
    for i in range(first, needed):
        over = max(over, m[u(ring + (i & (s.RING - 1)))])
    return over


@core
def hold(m: Any, w: int, barrier: int, time: int, long: int) -> None:
    """Count an operation on a dependence counter; ``time`` is its end, INF when unknown."""
    if time >= s.INF:
        m[u(w + s.W_SB_UNKNOWN + barrier)] += 1
    elif time > m[u(w + s.W_SB_TIME + barrier)]:
        m[u(w + s.W_SB_TIME + barrier)] = time
    m[u(w + s.W_SB_LONG + barrier)] = long


@core
def hold_both(m: Any, code: Any, w: int, row: int, done: int, read: int) -> None:
    """Count an instruction on its barriers: of its results until ``done``, of its operands until ``read``."""
    barrier = code[u(row + s.I_WRITE_BARRIER)]
    if barrier >= 0:
        hold(m, w, barrier, done, 0)
    barrier = code[u(row + s.I_READ_BARRIER)]
    if barrier >= 0:
        hold(m, w, barrier, read, 0)


@core
def push_ring(m: Any, w: int, barrier: int, time: int) -> int:
    """Remember an operation for DEPBAR.LE with a count; gives its place."""
    count = m[u(w + s.W_RING_COUNT + barrier)]
    m[u(w + s.W_RING_COUNT + barrier)] = count + 1
    place = w + s.W_RING + barrier * s.RING + (count & (s.RING - 1))
    m[u(place)] = time
    return place


@core
def mark(m: Any, sm: int, w: int) -> None:
    """Have ``settle`` look at the warp again."""
    m[u(sm + s.SM_RECONSIDER)] |= 1 << m[u(w + s.W_SLOT)]


@core
def settle(m: Any, code: Any, sm: int, time: int) -> None:
    """Prepare every warp of which something became known, for cycles from ``time`` on."""
    while m[u(sm + s.SM_RECONSIDER)]:
        slot = lowest_bit(m[u(sm + s.SM_RECONSIDER)])
        m[u(sm + s.SM_RECONSIDER)] &= ~(1 << slot)
        w = warp_at(sm, slot)
        sc = sm + s.OFF_SUB_CORES + (slot >> 4) * s.SC_SLOTS
        if m[u(w + s.W_ACTIVE)] and m[u(sc + s.SC_READY + (slot & 15))] >= s.INF:
            prepare(m, code, sm, w, max(m[u(w + s.W_EARLIEST)], time), m[u(w + s.W_REASON)])


@core
def pause_of(m: Any, w: int) -> int:
    """Cycles for which the NANOSLEEP at which the warp stopped holds it."""
    return peek(m[u(w + s.W_POINTER)] + SLEEP_NS) * m[u(s.H_CLOCK_KHZ)] // 1000000


@core
def take_barrier_unit(m: Any, sm: int, w: int, time: int) -> int:
    """When the barriers' unit has taken an arrival, or a question for a result, that waits in its sub-core's queue from ``time`` on.

    Warps that find the queue full issue when an entry is free, those of the block that began first before others, so that the blocks of a full SM pass their
    barriers one after the other rather than in turns (bench.micro ``block_bars``: 32 blocks of two warps a step in 46 cycles each, the SM's
    in 135).
    """
    taken = max(time, m[u(sm + s.SM_BARRIER_FREE)]) + m[u(s.H_BARRIER_INTERVAL)]
    m[u(sm + s.SM_BARRIER_FREE)] = taken
    sc = sm + s.OFF_SUB_CORES + (m[u(w + s.W_SLOT)] >> 4) * s.SC_SLOTS
    head = m[u(sc + s.SC_BARRIER_HEAD)]
    m[u(sc + s.SC_BARRIER_QUEUE + head)] = taken
    head = head + 1 if head + 1 < m[u(s.H_BARRIER_ENTRIES)] else 0
    m[u(sc + s.SC_BARRIER_HEAD)] = head
    pipe = sc + s.SC_PIPE_FREE + s.P_ADU
    m[u(pipe)] = max(m[u(pipe)], m[u(sc + s.SC_BARRIER_QUEUE + head)])
    return taken


@core
def arrive(m: Any, sm: int, w: int, time: int, deferred: bool) -> None:
    """The warp's stop at a block barrier, issued at ``time``; ``deferred``: what needs nothing that the barrier orders may issue while it waits."""
    pointer = m[u(w + s.W_POINTER)]
    number = peek(pointer + BAR_ID) & 15
    mode = peek(pointer + BAR_MODE)
    if mode >= MODE_CLUSTER_ARRIVE:
        arrive_at_cluster(m, sm, w, mode, time)
        return
    lanes = peek(pointer + BAR_LANES) & 0xFFFFFFFF
    b = sm + s.OFF_BLOCKS + m[u(w + s.W_BLOCK)] * s.B_SLOTS
    at = take_barrier_unit(m, sm, w, time)
    if m[u(b + s.B_ARRIVED + number)] == 0:
        m[u(b + s.B_VOTES + number)] = -1 if mode == MODE_AND else 0
    m[u(b + s.B_ARRIVED + number)] += popcount(lanes)
    m[u(b + s.B_EXPECTED + number)] = peek(pointer + BAR_THREADS)
    vote = peek(pointer + BAR_VOTE) & lanes
    if mode == MODE_POPC:
        m[u(b + s.B_VOTES + number)] += popcount(vote)
    elif mode == MODE_AND and vote != lanes:
        m[u(b + s.B_VOTES + number)] = 0
    elif mode == MODE_OR and vote != 0:
        m[u(b + s.B_VOTES + number)] = -1
    if mode == MODE_ARRIVE:
        m[u(w + s.W_STATUS)] = s.STATUS_RELEASED
    else:
        m[u(w + s.W_BARRIER)] = number + 1 + (s.DEFERRED if deferred else 0)
    complete(m, sm, b, number, at)


@core
def arrive_at_cluster(m: Any, sm: int, w: int, mode: int, time: int) -> None:
    """The warp's arrival at the cluster's barrier, or its wait, issued at ``time``."""
    pointer = m[u(w + s.W_POINTER)]
    lanes = peek(pointer + BAR_LANES)
    m[u(s.H_CLUSTER_EVENTS)] = 1
    if mode == MODE_CLUSTER_ARRIVE:
        poke(pointer + ARRIVED, peek(pointer + ARRIVED) | lanes)
        b = sm + s.OFF_BLOCKS + m[u(w + s.W_BLOCK)] * s.B_SLOTS
        at = max(time, m[u(sm + s.SM_BARRIER_FREE)]) + m[u(s.H_BARRIER_INTERVAL)]
        m[u(sm + s.SM_BARRIER_FREE)] = at
        m[u(b + s.B_CLUSTER_TIME)] = max(m[u(b + s.B_CLUSTER_TIME)], at)
        m[u(w + s.W_STATUS)] = s.STATUS_RELEASED
    elif peek(pointer + ARRIVED) & lanes:
        m[u(w + s.W_BARRIER)] = s.AT_CLUSTER
    else:  # the barrier was judged complete since the warp arrived, and lets it go on from then on
        m[u(w + s.W_STATUS)] = s.STATUS_RELEASED
        b = sm + s.OFF_BLOCKS + m[u(w + s.W_BLOCK)] * s.B_SLOTS
        m[u(w + s.W_EARLIEST)] = m[u(b + s.B_CLUSTER_RELEASE)]
        mark(m, sm, w)


@core
def complete(m: Any, sm: int, b: int, number: int, time: int) -> None:
    """Release a barrier's warps when everyone who must has arrived."""
    arrived = m[u(b + s.B_ARRIVED + number)]
    if arrived == 0:
        return
    expected = m[u(b + s.B_EXPECTED + number)]
    warps = m[u(s.H_WARPS_PER_BLOCK)]
    if expected == 0:
        for i in range(warps):
            slot = m[u(b + s.B_WARPS + i)]
            if slot >= 0:
                w = warp_at(sm, slot)
                live = m[u(w + s.W_LANES)] & ~peek(m[u(w + s.W_POINTER)] + EXITED)
                expected += popcount(live & 0xFFFFFFFF)
    if arrived < expected:
        return
    m[u(b + s.B_ARRIVED + number)] = 0
    m[u(sm + s.SM_BARRIERS)] += 1
    taken = (arrived + 31) // 32 * m[u(s.H_BARRIER_INTERVAL)]
    m[u(sm + s.SM_BARRIER_FREE)] += max(m[u(s.H_BARRIER_LEAST)] - taken, m[u(s.H_BARRIER_LAST)])
    release = time + m[u(s.H_BARRIER_LATENCY)]
    for i in range(warps):
        slot = m[u(b + s.B_WARPS + i)]
        if slot >= 0:
            w = warp_at(sm, slot)
            waits_at = m[u(w + s.W_BARRIER)]
            if waits_at & ~s.DEFERRED == number + 1:
                m[u(w + s.W_BARRIER)] = 0
                m[u(w + s.W_STATUS)] = s.STATUS_RELEASED
                poke(m[u(w + s.W_POINTER)] + BAR_RESULT, m[u(b + s.B_VOTES + number)])
                m[u(w + s.W_RELEASE)] = release
                if waits_at & s.DEFERRED == 0:
                    m[u(w + s.W_EARLIEST)] = release
                m[u(w + s.W_REASON)] = s.ST_BARRIER
                mark(m, sm, w)


@core
def end_warp(m: Any, sm: int, w: int, time: int) -> None:
    """The warp's last instruction has issued; its block may end with it, once what its warps wrote has left the SM.

    Nsight Compute calls that wait ``drain``: scattered atomics at a warp's end hold its place for hundreds of cycles.
    """
    slot = m[u(w + s.W_SLOT)]
    drained = max(m[u(w + s.W_DRAINED)], time)
    if drained > time:
        m[u(m[u(sm + s.SM_STALLS)] + (m[u(w + s.W_PC)] - 1) * s.STALL_COUNT + s.ST_DRAIN)] += drained - time
    ended, time = time, drained
    sc = sm + s.OFF_SUB_CORES + (slot >> 4) * s.SC_SLOTS
    m[u(w + s.W_ACTIVE)] = 0
    m[u(sc + s.SC_READY + (slot & 15))] = s.INF
    m[u(sc + s.SC_FREE)] |= 1 << (slot & 15)
    if m[u(sc + s.SC_LAST)] == slot & 15:
        m[u(sc + s.SC_LAST)] = -1
    m[u(sm + s.SM_WARP_CYCLES)] += time - m[u(w + s.W_STARTED)]
    m[u(sm + s.SM_FINISH)] = max(m[u(sm + s.SM_FINISH)], time)
    block = m[u(w + s.W_BLOCK)]
    b = sm + s.OFF_BLOCKS + block * s.B_SLOTS
    m[u(b + s.B_DRAINED)] = max(m[u(b + s.B_DRAINED)], time)
    m[u(b + s.B_WARPS + m[u(w + s.W_IN_BLOCK)])] = -1
    m[u(b + s.B_LIVE)] -= 1
    if m[u(b + s.B_LIVE)] > 0:
        for number in range(16):
            complete(m, sm, b, number, ended)
        return
    time = m[u(b + s.B_DRAINED)]
    m[u(b + s.B_ACTIVE)] = 0
    logged = m[u(b + s.B_LOGGED)]
    if logged < m[u(s.H_LOGGED_BLOCKS)]:
        entry = m[u(s.H_BLOCK_LOG)] + logged * s.LOG_SLOTS
        m[u(entry + s.G_SM)] = m[u(sm + s.SM_INDEX)]
        m[u(entry + s.G_START)] = m[u(b + s.B_STARTED)]
        m[u(entry + s.G_END)] = time
    done = m[u(sm + s.SM_DONE)]
    m[u(sm + s.SM_DONE_FIRST + 2 * done)] = time
    m[u(sm + s.SM_DONE_FIRST + 2 * done + 1)] = block
    m[u(sm + s.SM_DONE)] = done + 1
    m[u(sm + s.SM_RESIDENT)] -= 1
    if m[u(sm + s.SM_RESIDENT)] == 0:
        m[u(sm + s.SM_ACTIVE)] += time - m[u(sm + s.SM_ACTIVE_FROM)]
        m[u(sm + s.SM_ACTIVE_FROM)] = -1
