"""The steps of a window of one chip: its length, the part of a GPC, and the work between two windows."""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, give_way, sleep
from warpwright.timing import state as s
from warpwright.timing.clusters import judge_clusters
from warpwright.timing.constant import share_constants
from warpwright.timing.crossbar import SHORT_WINDOWS_FOR_CYCLES
from warpwright.timing.dispatcher import admit, first_blocks, replace_blocks
from warpwright.timing.exchange import depart, take_back
from warpwright.timing.links import share_links
from warpwright.timing.numbered_units import gpc_at, kernel_at
from warpwright.timing.residency import begin_kernel, note_let_go, settle_kernels
from warpwright.timing.sm import approach_sub_cores, approach_warps, run_sm
from warpwright.timing.warming import RUNNING, STOPPED, STUCK, use_range

FINISHED, IDLE, PAUSED = 3, 4, 5
SHORT_WINDOW_CYCLES = 32
LOOKS_BEFORE_GIVING_WAY, LOOKS_BEFORE_SLEEP = 2_000, 20_000
SLEEP_MICROSECONDS = 100


@core
def window_end(m: Any) -> int:
    """The end of the window that begins now."""
    now = m[s.chip.now]
    length = m[s.chip.window]
    if now < m[s.chip.short_until]:
        length = min(SHORT_WINDOW_CYCLES, length)
    arrival = m[s.chip.next_arrival]
    if now < arrival < now + length:
        return arrival
    return now + length


@core
def close_window(m: Any, code: Any, end: int) -> int:
    """Do the work between two windows. Returns RUNNING, FINISHED, STOPPED (Python must handle something), STUCK, IDLE (kernels have ended, and others begin later) or PAUSED (a kernel has ended, or the loop has reached the time at which it is to return)."""
    sms = m[s.chip.sms]
    first = s.SM(m[s.chip.sm_first])
    size = m[s.chip.sm_slots]
    replace_blocks(m, end)
    if m[s.chip.kernel_count] > 1:
        note_let_go(m)
        settle_kernels(m, code, m[s.chip.served] == 0, end)
    if m[s.chip.next_arrival] <= end:
        admit(m, end)
    judge_clusters(m, code, end)
    if m[s.chip.range_count]:
        share_links(m, end)
    if m[s.chip.const_asked]:
        share_constants(m, end - m[s.chip.now])
    following = s.INF
    stopped = m[s.chip.error] != 0
    for i in range(sms):
        sm = s.SM(first + i * size)
        if m[sm.error]:
            stopped = True
        if m[sm.held_up]:
            m[sm.held_up] = 0
            m[s.chip.short_until] = end + SHORT_WINDOWS_FOR_CYCLES
        following = min(following, m[sm.next])
    m[s.chip.now] = end
    if stopped:
        return STOPPED
    if m[s.chip.served] == 0:
        if m[s.chip.done_blocks] >= m[s.chip.blocks]:
            # The launch ends when the dispatcher has processed the end of its last block.
            m[first.finish] = max(m[first.finish], m[s.chip.dispatch_free] >> 8)
            return FINISHED
        idle = following >= s.INF and m[s.chip.on_chip] == 0 and m[s.chip.done_blocks] > 0
        following = min(following, m[s.chip.next_arrival])
        if following >= s.INF:
            return STUCK
        if idle and m[s.chip.kernel_count] > 1 and m[s.chip.dependents] == 0:
            return IDLE
        if m[s.chip.pauses]:
            following = min(following, m[s.chip.pause_at])
        m[s.chip.now] = max(end, following)
        if m[s.chip.next_arrival] <= m[s.chip.now]:
            admit(m, m[s.chip.now])
    if m[s.chip.pauses] and (m[s.chip.now] >= m[s.chip.pause_at] or m[s.chip.ended_kernels] > m[s.chip.known_ended]):
        return PAUSED
    return RUNNING


@core
def begin(m: Any) -> None:
    """Place the first blocks on the chip, after L2 has processed the ranges that copies and fills have used since the previous launch."""
    for number in range(m[s.chip.brought_count]):
        use_range(m, m[s.chip.brought] + number * (8 * s.BR_WORDS))
    m[s.chip.next_arrival] = s.INF
    if m[s.chip.kernel_count] == 1:
        first_blocks(m)
        m[s.chip.now] = m[s.chip.overhead]
    else:
        for number in range(m[s.chip.kernel_count]):
            k = kernel_at(m, number)
            if m[k.needs] == 0:
                begin_kernel(m, k)
        m[s.chip.now] = m[s.chip.next_arrival]
        admit(m, m[s.chip.now])
    m[s.chip.begun] = 1


@core
def run_gpc(m: Any, code: Any, gpc: int, end: int) -> None:
    """A GPC's part of a window: its SMs receive answers and run, and their requests leave."""
    take_back(m, gpc)
    fields = gpc_at(m, gpc)
    first = m[s.chip.sm_first]
    size = m[s.chip.sm_slots]
    last = m[fields.end]
    for i in range(m[fields.first], last):
        if i + 2 < last:
            approach_sub_cores(m, s.SM(first + (i + 2) * size), end)
        if i + 1 < last:
            approach_warps(m, s.SM(first + (i + 1) * size), end)
        run_sm(m, code, s.SM(first + i * size), end)
    depart(m, gpc)


@core
def wait_a_little(turns: int) -> None:
    """Wait between two checks of another thread's progress: at first without a pause, later by yielding the core."""
    if turns > LOOKS_BEFORE_SLEEP:
        sleep(SLEEP_MICROSECONDS)
    elif turns > LOOKS_BEFORE_GIVING_WAY:
        give_way()
