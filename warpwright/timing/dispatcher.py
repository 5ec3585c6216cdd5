"""The block dispatcher: assigns blocks to SMs with room, and their warps to sub-cores.

``placement.py`` places the first blocks, almost all at once; every later block goes where one has ended, a fixed
time after that.  The dispatcher registers ended blocks one after the other (bench/micro on a real H200).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from warpwright.engine.abi import BLOCK, LAUNCH, WARP
from warpwright.native.intrinsics import core, lowest_bit, peek, poke, popcount
from warpwright.timing import state as s
from warpwright.timing.clusters import (
    block_pointer,
    cluster_count,
    first_kernel,
    free_slot,
    introduce,
    leave,
    place_in_grid,
    roomiest_gpc,
    roomiest_sm,
)
from warpwright.timing.numbered_units import sm_at
from warpwright.timing.residency import (
    arrive,
    bring_code,
    count_let_go,
    empty_place,
    empty_slot,
    end_of_block,
    head,
    move_in,
    move_out,
    roomiest,
)
from warpwright.timing.scoreboard import ENTRY_BYTES, clear_entries
from warpwright.timing.warp_slots import warp_at

W_FIELDS = WARP.size_bytes // 8
B_FIELDS = BLOCK.size_bytes // 8
B_SHARED_BASE, B_SHARED_BYTES = BLOCK["shared_base"], BLOCK["shared_bytes"]
B_FIRST_WARP, B_WARP_COUNT = BLOCK["warps"], BLOCK["warp_count"]
F_LAUNCH, F_BLOCK, F_WARP, F_LANES = WARP["launch"], WARP["block"], WARP["warp_in_block"], WARP["lanes"]
F_LOCAL, F_TRACE, F_LIMIT = WARP["local_base"], WARP["trace_base"], WARP["trace_limit"]
F_SM, F_SPILL = WARP["sm_id"], WARP["spill"]
F_INSTRUCTIONS, F_THREAD_INSTRUCTIONS = WARP["instructions"], WARP["thread_instructions"]
L_SMS, L_SM_COUNT = LAUNCH["taking_sms"], LAUNCH["taking_sm_count"]


@core
def sm_number(m: Any, k: s.Kernel, sm: s.SM) -> int:
    """An SM's %smid. The SM may be one of a part of the chip; warps whose SM is not timed get any number."""
    launch = m[k.launch]
    return peek(peek(launch + L_SMS) + 8 * (m[sm.index] % peek(launch + L_SM_COUNT)))


@core
def start_block(m: Any, k: s.Kernel, sm: s.SM, block: int, number: int, time: int, latency: int) -> None:
    """Fill a block slot: BLOCK and WARP structures, warp slots, first instructions ready ``latency`` after ``time``."""
    warps = m[k.warps_per_block]
    # The SM's places for a kernel's blocks are its slots where it runs no other.
    place = block if m[s.chip.kernel_count] == 1 else empty_place(m, sm, k)
    b = sm.blocks[block]
    for i in range(s.BlockSlot.size):
        m[b + i] = 0
    m[b.active] = 1
    m[b.taken] = 1
    m[b.kernel] = k
    m[b.place] = place
    pointer = block_pointer(m, sm, block)
    index = m[sm.index] * m[k.blocks_per_sm] + place
    first_warp = m[k.warp_base] + index * warps * m[k.warp_stride]
    for i in range(B_FIELDS):
        poke(pointer + i * 8, 0)
    number = place_in_grid(m, k, pointer, number)
    poke(pointer + B_SHARED_BASE, m[k.shared_base] + index * m[k.shared_stride])
    poke(pointer + B_SHARED_BYTES, m[k.shared_bytes])
    poke(pointer + B_FIRST_WARP, first_warp)
    poke(pointer + B_WARP_COUNT, warps)
    m[b.number] = number
    m[b.logged] = number
    m[b.live] = warps
    m[b.started] = time
    for i in range(s.MAX_BLOCK_WARPS):
        m[b.warps[i]] = -1
    if m[sm.resident] == 0:
        m[sm.active_from] = time
    m[sm.resident] += 1
    m[sm.blocks_run] += 1
    threads = m[k.threads_per_block]
    age = m[s.chip.age] << s.AGE_BLOCK  # and turns go from the block's last warp to its first
    m[s.chip.age] = (m[s.chip.age] + 1) & s.AGE_BLOCKS
    for i in range(warps):
        warp = NewWarp(
            block, i, pointer, first_warp + i * m[k.warp_stride], threads - m[s.chip.lanes] * i, age + warps - 1 - i
        )
        start_warp(m, k, sm, warp, time + latency)
    if (
        warps % m[s.chip.sub_cores] == 0
    ):  # bench.micro ``first_lines``: the next block's first warp goes to the next sub-core nevertheless
        m[sm.rotate] = (m[sm.rotate] + 1) % m[s.chip.sub_cores]


class NewWarp(NamedTuple):
    """A warp that comes to an SM."""

    block: int
    """Of the SM's."""
    number: int
    """In its block."""
    block_pointer: int
    pointer: int
    """Of the warp's structure; a host address as the block's."""
    threads: int
    """Its own and those after it in the block."""
    age: int
    """Its turn among those that can issue."""


@core
def sub_core_with_room(m: Any, sm: s.SM) -> int:
    """The sub-core with the most free warp slots; among equals, the next in turn."""
    sub_cores = m[s.chip.sub_cores]
    sub = 0
    most = 0
    for j in range(sub_cores):
        candidate = (m[sm.rotate] + j) % sub_cores
        room = popcount(m[sm.sub_cores[candidate].free])
        if room > most:
            most = room
            sub = candidate
    m[sm.rotate] = (sub + 1) % sub_cores
    return sub


@core
def describe_warp(m: Any, k: s.Kernel, sm: s.SM, warp: NewWarp, resident: int, lanes: int) -> None:
    """Fill the structure that the warp's function reads (``engine/abi.py``); ``resident``: its place among the chip's warps."""
    pointer = warp.pointer
    for j in range(W_FIELDS):
        poke(pointer + j * 8, 0)
    save = pointer + m[k.spill_offset]
    for j in range(0, m[k.spill_bytes], 8):
        poke(save + j, 0)
    poke(pointer + F_LAUNCH, m[k.launch])
    poke(pointer + F_BLOCK, warp.block_pointer)
    poke(pointer + F_WARP, warp.number)
    poke(pointer + F_LANES, lanes)
    poke(pointer + F_LOCAL, m[s.chip.local_base] + resident * m[s.chip.local_stride])
    poke(pointer + F_TRACE, m[s.chip.trace_base] + resident * m[s.chip.trace_stride])
    poke(pointer + F_LIMIT, m[s.chip.trace_limit])
    poke(pointer + F_SM, sm_number(m, k, sm))
    poke(pointer + F_SPILL, save)


@core
def start_warp(m: Any, k: s.Kernel, sm: s.SM, warp: NewWarp, time: int) -> None:
    """Put a warp of a block that begins at ``time`` into the sub-core with the most room."""
    sub = sub_core_with_room(m, sm)
    sc = sm.sub_cores[sub]
    slot = lowest_bit(m[sc.free])
    m[sc.free] &= ~(1 << slot)
    position = sub * s.MAX_WARPS + slot
    m[sm.blocks[warp.block].warps[warp.number]] = position
    lanes = (1 << min(warp.threads, m[s.chip.lanes]) - 1) * 2 - 1
    resident = m[sm.index] * s.MAX_SUB_CORES * s.MAX_WARPS + position
    describe_warp(m, k, sm, warp, resident, lanes)
    w = warp_at(sm, position)
    # Requests of the slot's previous warp may still be in flight and will decrement these counters.
    unknown, stores, copies = m[w.sb_unknown], m[w.stores], m[w.async_copies]
    for j in range(s.Warp.size):
        m[w + j] = 0
    m[w.sb_unknown] = unknown
    m[w.stores] = stores
    m[w.async_copies] = copies
    start = time + warp.number * m[s.chip.block_warp_interval]
    m[w.active] = 1
    m[w.trace] = m[s.chip.trace_base] + resident * m[s.chip.trace_stride]
    m[w.status] = s.STATUS_NONE
    m[w.pointer] = warp.pointer
    m[w.function] = m[k.function]
    m[w.block_rows] = m[k.block_rows]
    m[w.last] = start - 1
    m[w.block] = warp.block
    m[w.slot] = position
    m[w.line] = -1
    m[w.started] = start
    m[w.earliest] = start
    m[w.reason] = s.ST_NO_INSTRUCTION
    m[w.local] = m[s.chip.local_physical] + resident * m[s.chip.local_stride]
    if m[s.chip.scoreboard_entries]:
        m[w.scoreboard] = m[s.chip.scoreboards] + resident * m[s.chip.scoreboard_entries] * ENTRY_BYTES
        clear_entries(m, w)
    m[w.in_block] = warp.number
    m[w.lanes] = lanes
    m[w.number] = -1
    m[w.age] = warp.age
    m[sc.age[slot]] = warp.age
    m[sc.ready[slot]] = start
    m[sc.pipe[slot]] = s.P_NONE
    m[sm.sub_next[sub]] = min(m[sm.sub_next[sub]], start)
    m[sm.next] = min(m[sm.next], start)


@core
def timed_block(m: Any, ordinal: int) -> int:
    """The number in the grid of the n-th timed block: at a random place in its period, so that no row of the grid is preferred."""
    period = m[s.chip.timed_period]
    if period == 0:
        return ordinal
    count = m[s.chip.stretch]
    stretch = ordinal // count
    place = (((ordinal * s.GOLDEN) >> 40) & 0xFFFF) * (period >> 16) >> 16
    begins = stretch * ((count * period >> 16) + m[s.chip.left_out])
    return begins + ((ordinal - stretch * count) * period >> 16) + place


@core
def turn(m: Any, time: int, interval: int) -> int:
    """The dispatcher's next turn: at ``time``, or when it has finished earlier work."""
    fine = max(time << 8, m[s.chip.dispatch_free])
    m[s.chip.dispatch_free] = fine + interval
    return fine >> 8


@core
def send(m: Any, k: s.Kernel, sm: s.SM, block: int, time: int, latency: int) -> None:
    """Start the next block of a grid on an SM at ``time``, or as soon as the SM can; its warps run ``latency`` later."""
    number = m[k.next_block]
    m[k.next_block] = number + 1
    start = max(time, m[sm.block_free])
    warps = m[k.warps_per_block]
    m[sm.block_free] = start + max(m[s.chip.block_sm_interval], warps * m[s.chip.block_warp_interval])
    if m[s.chip.kernel_count] > 1:
        move_in(m, sm, k)
        m[s.chip.on_chip] += 1
    start_block(m, k, sm, block, timed_block(m, number), start, latency)
    if m[s.chip.timed_period]:
        m[sm.blocks[block].logged] = number


@core
def send_clusters(m: Any, time: int, latency: int) -> None:
    """Start clusters from ``time`` on as long as a GPC has room for all blocks of one."""
    count = cluster_count(m)
    k = first_kernel(m)
    scratch = m[s.chip.group_order]
    while m[k.next_block] < m[k.blocks]:
        gpc = roomiest_gpc(m, count)
        if gpc < 0:
            return
        begin = turn(m, time, m[s.chip.cluster_interval])
        for rank in range(count):
            sm = roomiest_sm(m, gpc)
            block = free_slot(m, sm)
            send(m, k, sm, block, begin, latency)
            m[scratch + rank] = block_pointer(m, sm, block)
        introduce(m, scratch, count)


@core
def fill_idle_chip(m: Any, k: s.Kernel, time: int) -> None:
    """Send a kernel's first blocks to the chip, which has no blocks of it, from ``time`` on."""
    for i in range(m[k.first_blocks]):
        if m[k.next_block] >= m[k.blocks]:
            return
        sm = sm_at(m, m[m[k.first_places] + i])
        send(m, k, sm, m[sm.resident], turn(m, time, m[s.chip.first_interval]), m[s.chip.block_start])


@core
def fill_room(m: Any, time: int, interval: int, latency: int) -> None:
    """Send blocks from ``time`` on as long as the kernel whose turn it is finds room for one."""
    passed = 0
    while True:
        k = head(m, passed)
        if k == 0:
            return
        sm = roomiest(m, k)
        if sm == 0:
            if m[k.most_sms] == 0:
                return
            passed |= 1 << m[k.number]
            continue
        send(m, k, sm, empty_slot(m, sm), turn(m, time, interval) if interval else time, latency)


@core
def admit(m: Any, end: int) -> None:
    """Take launches that have reached the dispatcher by ``end``, the end of a window, and place blocks while there is room."""
    while True:
        k = arrive(m, end)
        if k == 0:
            return
        time = max(m[k.begins] + m[s.chip.overhead], end)
        if m[k.arrived] > 1:
            bring_code(m, k, time)
        if m[s.chip.on_chip] == 0 and head(m, 0) == k:
            fill_idle_chip(m, k, time)
        fill_room(m, time, m[s.chip.first_interval], m[s.chip.block_start])


@core
def first_blocks(m: Any) -> None:
    """Fill the idle chip."""
    if cluster_count(m) > 1:
        send_clusters(m, m[s.chip.overhead], m[s.chip.block_start])
        return
    fill_idle_chip(m, first_kernel(m), m[s.chip.overhead])


@core
def sort_ended(m: Any) -> int:
    """Sort the blocks that ended in this window by time, SM and slot into the dispatcher's scratch; returns their number."""
    first = m[s.chip.sm_first]
    size = m[s.chip.sm_slots]
    order = m[s.chip.group_order]
    count = 0
    for i in range(m[s.chip.sms]):
        sm = s.SM(first + i * size)
        done = m[sm.done]
        for j in range(done):
            key = (m[sm.ended[j].time] << 20) | (i << 8) | m[sm.ended[j].slot]
            place = count
            while place > 0 and m[order + place - 1] > key:
                m[order + place] = m[order + place - 1]
                place -= 1
            m[order + place] = key
            count += 1
        m[sm.done] = 0
    return count


@core
def ended_on(m: Any, key: int) -> s.SM:
    """The SM of an ended block in the dispatcher's scratch."""
    return sm_at(m, (key >> 8) & 0xFFF)


@core
def replace_blocks(m: Any, end: int) -> None:
    """Give the slots of blocks that ended in this window to the next blocks, earliest end first; the dispatcher processes one end at a time."""
    order = m[s.chip.group_order]
    count = sort_ended(m)
    m[s.chip.done_blocks] += count
    noted = 0
    for i in range(count):
        key = m[order + i]
        noted = turn(m, key >> 20, m[s.chip.dispatch_interval])
        m[order + i] = noted << 20 | key & 0xFFFFF
    if m[s.chip.kernel_count] > 1:
        share_room(m, count, end)
        return
    if count and cluster_count(m) > 1:
        for i in range(count):
            key = m[order + i]
            leave(m, block_pointer(m, ended_on(m, key), key & 0xFF))
        send_clusters(m, max(noted + m[s.chip.block_latency], end), 0)
        return
    k = first_kernel(m)
    for i in range(count):
        if m[k.next_block] >= m[k.blocks]:
            return
        key = m[order + i]
        send(m, k, ended_on(m, key), key & 0xFF, max((key >> 20) + m[s.chip.block_latency], end), 0)


@core
def share_room(m: Any, count: int, end: int) -> None:
    """Free the room of each of ``count`` ended blocks, and give it to the blocks whose turn it is; for several kernels."""
    order = m[s.chip.group_order]
    for i in range(count):
        key = m[order + i]
        sm = ended_on(m, key)
        b = sm.blocks[key & 0xFF]
        k = s.Kernel(m[b.kernel])
        count_instructions(m, k, block_pointer(m, sm, key & 0xFF))
        if m[b.counted] == 0:
            count_let_go(m, k, key >> 20)
        m[b.taken] = 0
        m[s.chip.on_chip] -= 1
        move_out(m, sm, k)
        end_of_block(m, k, key >> 20)
        fill_room(m, max((key >> 20) + m[s.chip.block_latency], end), 0, 0)


@core
def count_instructions(m: Any, k: s.Kernel, pointer: int) -> None:
    """Add up what the warps of an ended block have executed."""
    first = peek(pointer + B_FIRST_WARP)
    for i in range(m[k.warps_per_block]):
        m[k.instructions] += peek(first + i * m[k.warp_stride] + F_INSTRUCTIONS)
        m[k.thread_instructions] += peek(first + i * m[k.warp_stride] + F_THREAD_INSTRUCTIONS)
