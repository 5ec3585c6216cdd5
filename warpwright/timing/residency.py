"""Selects the launch whose block is next and the SM that has room for it, for several kernels on one chip.

* Blocks of the launch with the highest priority go first, then those of the earliest launch.  No other launch's blocks overtake
  them, even if they would fit: they wait until the earlier launch has placed its last block.
* An SM takes a block that fits into its warp slots, registers, barriers and shared memory.  While it has blocks, it keeps the shared-memory
  configuration from its first block: a block of a launch for which an idle SM would be configured for more waits until the SM is idle.
* Blocks of a client that may be on some SMs only (MPS's share of a process) go to SMs that have one of its blocks, or to others while it is on fewer
  than it may; until then the launches of other clients pass it.
* The block goes to the SM with the most room for its launch; among equals, to the first in the order in which an idle chip is filled.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s
from warpwright.timing.fetch import insert_in_set
from warpwright.timing.l1 import invalidate
from warpwright.timing.numbered_units import kernel_at, sm_at
from warpwright.timing.warp import settle
from warpwright.timing.warp_slots import mark, warp_at

SETTLING_WINDOWS = 2
"""Windows after that of a write: it is served in that window or the next, and its SM gets the answer in the one after."""


@core
def head(m: Any, passed: int) -> s.Kernel:
    """The kernel whose block is next, but for those in the bits of ``passed``; 0 if no kernel that has arrived has any left."""
    best = s.Kernel(0)
    for number in range(m[s.chip.kernel_count]):
        k = kernel_at(m, number)
        if m[k.arrived] == 0 or m[k.next_block] >= m[k.blocks] or (passed >> number) & 1:
            continue
        if (
            best == 0
            or m[k.priority] > m[best.priority]
            or (m[k.priority] == m[best.priority] and m[k.arrived] < m[best.arrived])
        ):
            best = k
    return best


@core
def room_for(m: Any, sm: s.SM, k: s.Kernel) -> int:
    """How many blocks of a kernel an SM has room for."""
    if m[sm.taken] == 0:
        return m[k.blocks_per_sm]
    if m[k.least_setup] > m[sm.setup]:
        return 0
    room = min(m[s.chip.max_blocks] - m[sm.taken], (m[s.chip.max_warps] - m[sm.warps_used]) // m[k.warps_per_block])
    room = min(room, (m[s.chip.registers] - m[sm.registers_used]) // max(m[k.registers], 1))
    room = min(room, (m[s.chip.named_barriers] - m[sm.barriers_used]) // max(m[k.barriers], 1))
    return min(room, (m[sm.setup] - m[sm.shared_used]) // max(m[k.shared_need], 1))


@core
def has_client(m: Any, sm: s.SM, k: s.Kernel) -> bool:
    """Whether an SM has blocks of a kernel's client."""
    if m[sm.taken]:
        for block in range(s.MAX_BLOCKS):
            b = sm.blocks[block]
            if m[b.taken]:
                other = s.Kernel(m[b.kernel])
                if m[other.client] == m[k.client]:
                    return True
    return False


@core
def at_its_share(m: Any, k: s.Kernel) -> bool:
    """Whether a kernel's client is on as many SMs as it may."""
    held = 0
    if m[k.most_sms]:
        for i in range(m[s.chip.sms]):
            if has_client(m, sm_at(m, i), k):
                held += 1
    return m[k.most_sms] > 0 and held >= m[k.most_sms]


@core
def roomiest(m: Any, k: s.Kernel) -> s.SM:
    """The SM that a kernel's next block goes to; 0 if none has room."""
    most = 0
    best = s.SM(0)
    full = at_its_share(m, k)
    for i in range(m[s.chip.sms]):
        sm = sm_at(m, m[m[s.chip.sm_order] + i])
        if full and not has_client(m, sm, k):
            continue
        room = room_for(m, sm, k)
        if room > most:
            most = room
            best = sm
    return best


@core
def empty_slot(m: Any, sm: s.SM) -> int:
    """A free block slot of an SM."""
    block = 0
    while m[sm.blocks[block].taken]:
        block += 1
    return block


@core
def empty_place(m: Any, sm: s.SM, k: s.Kernel) -> int:
    """A place among those that an SM has for blocks of a kernel."""
    used = 0
    for block in range(s.MAX_BLOCKS):
        b = sm.blocks[block]
        if m[b.taken] and m[b.kernel] == k:
            used |= 1 << m[b.place]
    place = 0
    while (used >> place) & 1:
        place += 1
    return place


@core
def move_in(m: Any, sm: s.SM, k: s.Kernel) -> None:
    """Reserve an SM's resources for a block of a kernel; L1 keeps nothing of before a kernel's first block there, nor through a new set-up."""
    if m[sm.taken] == 0:
        if m[sm.l1_sets] != m[k.l1_sets]:
            invalidate(m, sm)
        m[sm.setup] = m[k.setup]
        m[sm.l1_sets] = m[k.l1_sets]
    if m[k.arrived] > m[sm.newest]:
        if m[sm.newest]:
            invalidate(m, sm)
        m[sm.newest] = m[k.arrived]
    place = k.ran_on[m[sm.index] >> 6]
    m[place] |= 1 << (m[sm.index] & 63)
    m[sm.taken] += 1
    m[sm.warps_used] += m[k.warps_per_block]
    m[sm.registers_used] += m[k.registers]
    m[sm.shared_used] += m[k.shared_need]
    m[sm.barriers_used] += m[k.barriers]


@core
def move_out(m: Any, sm: s.SM, k: s.Kernel) -> None:
    """Release the resources of an SM that an ended block of a kernel held."""
    m[sm.taken] -= 1
    m[sm.warps_used] -= m[k.warps_per_block]
    m[sm.registers_used] -= m[k.registers]
    m[sm.shared_used] -= m[k.shared_need]
    m[sm.barriers_used] -= m[k.barriers]


@core
def bring_code(m: Any, k: s.Kernel, time: int) -> None:
    """A launch brings its first code to every SM's second level."""
    capacity = m[s.chip.l1i_lines]
    for i in range(m[s.chip.sms]):
        cache = sm_at(m, i) + m[s.chip.l1i_at]
        for line in range(m[k.code_first], m[k.code_first] + m[k.code_lines]):
            if m[cache + 2 + capacity + line] >= s.INF:
                insert_in_set(m, cache, line, time)


@core
def end_of_block(m: Any, k: s.Kernel, time: int) -> None:
    """The dispatcher has processed the end of a kernel's block at ``time``."""
    m[k.done_blocks] += 1
    m[k.finish] = max(m[k.finish], time)
    if m[k.done_blocks] == m[k.blocks]:
        m[k.settles] = SETTLING_WINDOWS


@core
def count_let_go(m: Any, k: s.Kernel, time: int) -> None:
    """A block of a kernel has let its dependents begin, or has ended, at ``time``: after the last one they begin, those that may."""
    m[k.let_go_blocks] += 1
    m[k.let_go] = max(m[k.let_go], time)
    if m[k.let_go_blocks] < m[k.blocks]:
        return
    bit = 1 << m[k.number]
    for number in range(m[s.chip.kernel_count]):
        other = kernel_at(m, number)
        if m[other.early] & m[other.needs] & bit:
            m[other.needs] &= ~bit
            begins = m[k.let_go] + m[s.chip.dependent_start] - m[s.chip.block_start] - m[s.chip.overhead]
            m[other.waited] = max(m[other.waited], begins)
            if m[other.needs] == 0:
                m[s.chip.dependents] += 1
                begin_kernel(m, other)


@core
def note_let_go(m: Any) -> None:
    """Between two windows: blocks that have let dependent grids begin."""
    for i in range(m[s.chip.sms]):
        sm = sm_at(m, i)
        if m[sm.let_go] == 0:
            continue
        m[sm.let_go] = 0
        for block in range(s.MAX_BLOCKS):
            b = sm.blocks[block]
            if m[b.taken] and m[b.let_go] and m[b.counted] == 0:
                m[b.counted] = 1
                count_let_go(m, s.Kernel(m[b.kernel]), m[b.let_go])


@core
def release_waiting(m: Any, code: Any, k: s.Kernel, end: int) -> None:
    """Let the warps of a kernel continue that wait for preceding grids."""
    for i in range(m[s.chip.sms]):
        sm = sm_at(m, i)
        for block in range(s.MAX_BLOCKS):
            b = sm.blocks[block]
            if m[b.active] == 0 or m[b.kernel] != k:
                continue
            for j in range(m[k.warps_per_block]):
                slot = m[b.warps[j]]
                if slot >= 0:
                    w = warp_at(sm, slot)
                    if m[w.barrier] == s.AT_GRID:
                        m[w.barrier] = 0
                        m[w.earliest] = m[k.released]
                        m[w.reason] = s.ST_SLEEP
                        mark(m, sm, w)
        settle(m, code, sm, end)


@core
def settle_kernels(m: Any, code: Any, idle: bool, end: int) -> None:
    """Launches whose blocks have ended end when what these wrote is done, which is known some windows later, or when nothing is in flight."""
    for number in range(m[s.chip.kernel_count]):
        k = kernel_at(m, number)
        if m[k.settles] == 0:
            continue
        m[k.settles] = 0 if idle else m[k.settles] - 1
        if m[k.settles] == 0:
            for index in range(m[s.chip.sms]):
                if (m[k.ran_on[index >> 6]] >> (index & 63)) & 1:
                    sm = sm_at(m, index)
                    m[k.finish] = max(m[k.finish], m[sm.written] - m[s.chip.end_overlap])
            end_kernel(m, code, k, end)


@core
def end_kernel(m: Any, code: Any, k: s.Kernel, end: int) -> None:
    """A launch has ended: launches that wait only for it begin or continue."""
    m[s.chip.ended_kernels] += 1
    bit = 1 << m[k.number]
    for number in range(m[s.chip.kernel_count]):
        other = kernel_at(m, number)
        if m[other.needs] & bit:
            m[other.needs] &= ~bit
            delay = other.delays[m[k.number]]
            m[other.waited] = max(m[other.waited], m[k.finish] + m[delay])
            if m[other.needs] == 0:
                begin_kernel(m, other)
        if m[other.awaits] & bit:
            m[other.awaits] &= ~bit
            m[other.released] = max(m[other.released], m[k.finish] + m[s.chip.dependent_release])
            if m[other.awaits] == 0:
                release_waiting(m, code, other, end)


@core
def begin_kernel(m: Any, k: s.Kernel) -> None:
    """Nothing holds a launch back any more: it is known when its blocks come to the dispatcher."""
    m[k.begins] = m[k.waited] + m[k.gap]
    m[s.chip.next_arrival] = min(m[s.chip.next_arrival], m[k.begins] + m[s.chip.overhead])


@core
def arrive(m: Any, until: int) -> s.Kernel:
    """The next launch that has reached the dispatcher by ``until``; 0 if there is none."""
    first = s.Kernel(0)
    following = s.INF
    for number in range(m[s.chip.kernel_count]):
        k = kernel_at(m, number)
        if m[k.arrived] or m[k.needs]:
            continue
        time = m[k.begins] + m[s.chip.overhead]
        if time <= until and (first == 0 or m[k.begins] < m[first.begins]):
            if first:
                following = min(following, m[first.begins] + m[s.chip.overhead])
            first = k
        else:
            following = min(following, time)
    m[s.chip.next_arrival] = following
    if first:
        m[s.chip.arrivals] += 1
        m[first.arrived] = m[s.chip.arrivals]
        if m[first.early]:
            m[s.chip.dependents] = max(m[s.chip.dependents] - 1, 0)
    return first
