"""Block barriers: the unit that takes arrivals, releases and results, and warps that end."""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import LAUNCH, WARP
from warpwright.native.intrinsics import core, peek, poke, popcount
from warpwright.timing import state as s
from warpwright.timing.mio_queue import scheduler_of
from warpwright.timing.ports import reserve
from warpwright.timing.warp_slots import mark, warp_at

BAR_ID, BAR_THREADS, BAR_MODE = WARP["barrier_id"], WARP["barrier_threads"], WARP["barrier_mode"]
BAR_LANES, BAR_VOTE, BAR_RESULT = WARP["barrier_lanes"], WARP["barrier_vote"], WARP["barrier_result"]
EXITED, ARRIVED = WARP["exited"], WARP["cluster_arrived"]
FAULT_INSTRUCTION, LAUNCH_OF_WARP, MISCOUNTED = WARP["fault_instruction"], WARP["launch"], LAUNCH["miscounted"]
MODE_ARRIVE, MODE_POPC, MODE_AND, MODE_OR, MODE_CLUSTER_ARRIVE = 1, 2, 3, 4, 5


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
