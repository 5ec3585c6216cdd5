"""The block dispatcher: blocks to SMs while they have room, a warp at a time into the sub-cores.

First blocks go where ``placement.py`` says, almost all at once; every later block goes where one has ended, a fixed
time after that.  The dispatcher takes note of ended blocks one after the other (bench/micro on a real H200).
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import BLOCK, LAUNCH, WARP
from warpwright.native.intrinsics import core, lowest_bit, peek, poke, popcount, u
from warpwright.timing import state as s
from warpwright.timing.clusters import (
    block_pointer,
    cluster_count,
    free_slot,
    introduce,
    leave,
    place_in_grid,
    roomiest_gpc,
    roomiest_sm,
)
from warpwright.timing.warp import warp_at

WARP_INTERVAL_CYCLES = 3
"""Between the warps of a block: a second block of 1,024 threads starts 98 cycles after the first (bench/micro on H200)."""
W_FIELDS = WARP.size_bytes // 8
B_FIELDS = BLOCK.size_bytes // 8
B_SHARED_BASE, B_SHARED_BYTES = BLOCK["shared_base"], BLOCK["shared_bytes"]
B_FIRST_WARP, B_WARP_COUNT = BLOCK["warps"], BLOCK["warp_count"]
F_LAUNCH, F_BLOCK, F_WARP, F_LANES = WARP["launch"], WARP["block"], WARP["warp_in_block"], WARP["lanes"]
F_LOCAL, F_TRACE, F_LIMIT = WARP["local_base"], WARP["trace_base"], WARP["trace_limit"]
F_SM, F_SPILL = WARP["sm_id"], WARP["spill"]
L_SMS, L_SM_COUNT = LAUNCH["taking_sms"], LAUNCH["taking_sm_count"]


@core
def sm_number(m: Any, sm: int) -> int:
    """An SM's %smid: it may be one of a part of the chip; warps whose SM is not timed have any."""
    launch = m[u(s.H_LAUNCH)]
    return peek(peek(launch + L_SMS) + 8 * (m[u(sm + s.SM_INDEX)] % peek(launch + L_SM_COUNT)))


@core
def start_block(m: Any, sm: int, block: int, number: int, time: int, latency: int) -> None:
    """Fill a block slot: BLOCK and WARP structures, warp slots, first instructions ready ``latency`` after ``time``."""
    warps = m[u(s.H_WARPS_PER_BLOCK)]
    index = m[u(sm + s.SM_INDEX)] * m[u(s.H_BLOCKS_PER_SM)] + block
    pointer = block_pointer(m, sm, block)
    first_warp = m[u(s.H_WARP_BASE)] + index * warps * m[u(s.H_WARP_STRIDE)]
    for i in range(B_FIELDS):
        poke(pointer + i * 8, 0)
    number = place_in_grid(m, pointer, number)
    poke(pointer + B_SHARED_BASE, m[u(s.H_SHARED_BASE)] + index * m[u(s.H_SHARED_STRIDE)])
    poke(pointer + B_SHARED_BYTES, m[u(s.H_SHARED_BYTES)])
    poke(pointer + B_FIRST_WARP, first_warp)
    poke(pointer + B_WARP_COUNT, warps)
    b = sm + s.OFF_BLOCKS + block * s.B_SLOTS
    for i in range(s.B_SLOTS):
        m[u(b + i)] = 0
    m[u(b + s.B_ACTIVE)] = 1
    m[u(b + s.B_NUMBER)] = number
    m[u(b + s.B_LOGGED)] = number
    m[u(b + s.B_LIVE)] = warps
    m[u(b + s.B_STARTED)] = time
    for i in range(32):
        m[u(b + s.B_WARPS + i)] = -1
    if m[u(sm + s.SM_RESIDENT)] == 0:
        m[u(sm + s.SM_ACTIVE_FROM)] = time
    m[u(sm + s.SM_RESIDENT)] += 1
    m[u(sm + s.SM_BLOCKS_RUN)] += 1
    threads = m[u(s.H_THREADS_PER_BLOCK)]
    age = m[u(s.H_AGE)] << s.AGE_BLOCK  # and turns go from the block's last warp to its first
    m[u(s.H_AGE)] = (m[u(s.H_AGE)] + 1) & s.AGE_BLOCKS
    for i in range(warps):
        start_warp(
            m,
            sm,
            block,
            i,
            pointer,
            first_warp + i * m[u(s.H_WARP_STRIDE)],
            threads - 32 * i,
            time + latency,
            age + warps - 1 - i,
        )
    if (
        warps % m[u(s.H_SUB_CORES)] == 0
    ):  # bench.micro ``first_lines``: the next block's first warp comes to the next sub-core all the same
        m[u(sm + s.SM_ROTATE)] = (m[u(sm + s.SM_ROTATE)] + 1) % m[u(s.H_SUB_CORES)]


@core
def start_warp(m: Any, sm: int, block: int, i: int, pointer: int, warp: int, threads: int, time: int, age: int) -> None:
    """Put the i-th warp of a block into the sub-core with the most room; ``age`` is its turn among those that can issue."""
    sub_cores = m[u(s.H_SUB_CORES)]
    sub = 0
    most = 0
    for j in range(sub_cores):
        candidate = (m[u(sm + s.SM_ROTATE)] + j) % sub_cores
        room = popcount(m[u(sm + s.OFF_SUB_CORES + candidate * s.SC_SLOTS + s.SC_FREE)])
        if room > most:
            most = room
            sub = candidate
    m[u(sm + s.SM_ROTATE)] = (sub + 1) % sub_cores
    sc = sm + s.OFF_SUB_CORES + sub * s.SC_SLOTS
    slot = lowest_bit(m[u(sc + s.SC_FREE)])
    m[u(sc + s.SC_FREE)] &= ~(1 << slot)
    position = sub * s.MAX_WARPS + slot
    m[u(sm + s.OFF_BLOCKS + block * s.B_SLOTS + s.B_WARPS + i)] = position
    lanes = (1 << min(threads, 32)) - 1
    resident = m[u(sm + s.SM_INDEX)] * s.MAX_SUB_CORES * s.MAX_WARPS + position
    trace = m[u(s.H_TRACE_BASE)] + resident * m[u(s.H_TRACE_STRIDE)]
    for j in range(W_FIELDS):
        poke(warp + j * 8, 0)
    save = warp + m[u(s.H_SPILL_OFFSET)]
    for j in range(0, m[u(s.H_SPILL_BYTES)], 8):
        poke(save + j, 0)
    poke(warp + F_LAUNCH, m[u(s.H_LAUNCH)])
    poke(warp + F_BLOCK, pointer)
    poke(warp + F_WARP, i)
    poke(warp + F_LANES, lanes)
    poke(warp + F_LOCAL, m[u(s.H_LOCAL_BASE)] + resident * m[u(s.H_LOCAL_STRIDE)])
    poke(warp + F_TRACE, trace)
    poke(warp + F_LIMIT, m[u(s.H_TRACE_LIMIT)])
    poke(warp + F_SM, sm_number(m, sm))
    poke(warp + F_SPILL, save)
    w = warp_at(sm, position)
    # Requests of the warp that was here before may still be on their way: they count down what they counted up.
    stores, copies = m[u(w + s.W_STORES)], m[u(w + s.W_ASYNC)]
    for j in range(s.W_SB_UNKNOWN):
        m[u(w + j)] = 0
    for j in range(s.W_SB_LONG, s.W_SLOTS):
        m[u(w + j)] = 0
    m[u(w + s.W_STORES)] = stores
    m[u(w + s.W_ASYNC)] = copies
    start = time + i * WARP_INTERVAL_CYCLES
    m[u(w + s.W_ACTIVE)] = 1
    m[u(w + s.W_TRACE)] = trace
    m[u(w + s.W_STATUS)] = s.STATUS_NONE
    m[u(w + s.W_POINTER)] = warp
    m[u(w + s.W_LAST)] = start - 1
    m[u(w + s.W_BLOCK)] = block
    m[u(w + s.W_SLOT)] = position
    m[u(w + s.W_LINE)] = -1
    m[u(w + s.W_STARTED)] = start
    m[u(w + s.W_EARLIEST)] = start
    m[u(w + s.W_REASON)] = s.ST_NO_INSTRUCTION
    m[u(w + s.W_LOCAL)] = m[u(s.H_LOCAL_PHYSICAL)] + resident * m[u(s.H_LOCAL_STRIDE)]
    m[u(w + s.W_IN_BLOCK)] = i
    m[u(w + s.W_LANES)] = lanes
    m[u(w + s.W_NUMBER)] = -1
    m[u(w + s.W_AGE)] = age
    m[u(sc + s.SC_AGE + slot)] = age
    m[u(sc + s.SC_READY + slot)] = start
    m[u(sc + s.SC_PIPE + slot)] = s.P_NONE
    m[u(sm + s.SM_SUB_NEXT + sub)] = min(m[u(sm + s.SM_SUB_NEXT + sub)], start)
    m[u(sm + s.SM_NEXT)] = min(m[u(sm + s.SM_NEXT)], start)


@core
def timed_block(m: Any, ordinal: int) -> int:
    """The number in the grid of the so-manieth block that is timed: at a random place of its period, so that no row of the grid is preferred."""
    period = m[u(s.H_TIMED_PERIOD)]
    if period == 0:
        return ordinal
    count = m[u(s.H_STRETCH)]
    stretch = ordinal // count
    place = (((ordinal * s.GOLDEN) >> 40) & 0xFFFF) * (period >> 16) >> 16
    begins = stretch * ((count * period >> 16) + m[u(s.H_LEFT_OUT)])
    return begins + ((ordinal - stretch * count) * period >> 16) + place


@core
def turn(m: Any, time: int, interval: int) -> int:
    """The dispatcher's next turn, at ``time`` or when it has done what came before."""
    fine = max(time << 8, m[u(s.H_DISPATCH_FREE)])
    m[u(s.H_DISPATCH_FREE)] = fine + interval
    return fine >> 8


@core
def send(m: Any, sm: int, block: int, time: int, latency: int) -> None:
    """Start the next block of the grid on an SM at ``time`` or as soon as the SM can; it runs ``latency`` later."""
    number = m[u(s.H_NEXT_BLOCK)]
    m[u(s.H_NEXT_BLOCK)] = number + 1
    start = max(time, m[u(sm + s.SM_BLOCK_FREE)])
    warps = m[u(s.H_WARPS_PER_BLOCK)]
    m[u(sm + s.SM_BLOCK_FREE)] = start + max(m[u(s.H_BLOCK_SM_INTERVAL)], warps * WARP_INTERVAL_CYCLES)
    start_block(m, sm, block, timed_block(m, number), start, latency)
    if m[u(s.H_TIMED_PERIOD)]:
        m[u(sm + s.OFF_BLOCKS + block * s.B_SLOTS + s.B_LOGGED)] = number


@core
def send_clusters(m: Any, time: int, latency: int) -> None:
    """Start clusters from ``time`` on as long as a GPC has room for all blocks of one."""
    count = cluster_count(m)
    scratch = m[u(s.H_GROUP_ORDER)]
    while m[u(s.H_NEXT_BLOCK)] < m[u(s.H_BLOCKS)]:
        gpc = roomiest_gpc(m, count)
        if gpc < 0:
            return
        begin = turn(m, time, m[u(s.H_CLUSTER_INTERVAL)])
        for rank in range(count):
            sm = roomiest_sm(m, gpc)
            block = free_slot(m, sm)
            send(m, sm, block, begin, latency)
            m[u(scratch + rank)] = block_pointer(m, sm, block)
        introduce(m, scratch, count)


@core
def first_blocks(m: Any) -> None:
    """Fill the idle chip."""
    if cluster_count(m) > 1:
        send_clusters(m, m[u(s.H_OVERHEAD)], m[u(s.H_BLOCK_START)])
        return
    for i in range(m[u(s.H_FIRST_BLOCKS)]):
        if m[u(s.H_NEXT_BLOCK)] >= m[u(s.H_BLOCKS)]:
            return
        sm = m[u(s.H_SM_FIRST)] + m[u(m[u(s.H_FIRST_PLACES)] + i)] * m[u(s.H_SM_SLOTS)]
        send(
            m,
            sm,
            m[u(sm + s.SM_RESIDENT)],
            turn(m, m[u(s.H_OVERHEAD)], m[u(s.H_FIRST_INTERVAL)]),
            m[u(s.H_BLOCK_START)],
        )


@core
def replace_blocks(m: Any, end: int) -> None:
    """Give the slots of blocks that ended in this window to the next ones, earliest end first: the dispatcher notes one after the other."""
    sms = m[u(s.H_SMS)]
    first = m[u(s.H_SM_FIRST)]
    size = m[u(s.H_SM_SLOTS)]
    order = m[u(s.H_GROUP_ORDER)]
    count = 0
    for i in range(sms):
        sm = first + i * size
        done = m[u(sm + s.SM_DONE)]
        for j in range(done):
            key = (m[u(sm + s.SM_DONE_FIRST + 2 * j)] << 20) | (i << 8) | m[u(sm + s.SM_DONE_FIRST + 2 * j + 1)]
            place = count
            while place > 0 and m[u(order + place - 1)] > key:
                m[u(order + place)] = m[u(order + place - 1)]
                place -= 1
            m[u(order + place)] = key
            count += 1
        m[u(sm + s.SM_DONE)] = 0
    m[u(s.H_DONE_BLOCKS)] += count
    noted = 0
    for k in range(count):
        key = m[u(order + k)]
        noted = turn(m, key >> 20, m[u(s.H_DISPATCH_INTERVAL)])
        m[u(order + k)] = noted << 20 | key & 0xFFFFF
    if count and cluster_count(m) > 1:
        for k in range(count):
            key = m[u(order + k)]
            leave(m, block_pointer(m, first + ((key >> 8) & 0xFFF) * size, key & 0xFF))
        send_clusters(m, max(noted + m[u(s.H_BLOCK_LATENCY)], end), 0)
        return
    for k in range(count):
        if m[u(s.H_NEXT_BLOCK)] >= m[u(s.H_BLOCKS)]:
            return
        key = m[u(order + k)]
        sm = first + ((key >> 8) & 0xFFF) * size
        send(m, sm, key & 0xFF, max((key >> 20) + m[u(s.H_BLOCK_LATENCY)], end), 0)
