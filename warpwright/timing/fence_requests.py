"""What a fence waits for before it leaves its SM: acknowledgements of stores, rounds and other fences."""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s
from warpwright.timing.requests import new_request
from warpwright.timing.written_rounds import round_leaves, waits_for_stores


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
