"""Steps of a grid: when it passes its barriers.

``grid.sync()`` changes the highest bit of a word of the launch's workspace when the last block has arrived.  The serial phase, which executes strong
accesses in order of time, records the cycle.  ``step_sampling.py`` decides whether the steps repeat.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import WARP
from warpwright.native.intrinsics import core, peek, shift_right
from warpwright.timing import state as s

WARP_SLOTS = s.SM.fields["warps"].count
THREADS = WARP["thread_instructions"]


@core
def is_passed(m: Any) -> bool:
    """Whether the grid has passed another barrier since the last call that found one."""
    bit = shift_right(peek(m[s.chip.grid_barrier]), 63)
    if bit == m[s.chip.grid_bit]:
        return False
    m[s.chip.grid_bit] = bit
    return True


@core
def work_of_grid(m: Any) -> int:
    """Thread instructions that the warps on the chip have executed.  Polls hardly count, because only one lane polls for its block."""
    work = 0
    for i in range(m[s.chip.sms]):
        sm = s.SM(m[s.chip.sm_first] + i * m[s.chip.sm_slots])
        if m[sm.resident]:
            for slot in range(WARP_SLOTS):
                w = sm.warps[slot]
                if m[w.active]:
                    work += peek(m[w.pointer] + THREADS)
    return work


@core
def note_step(m: Any, w: s.Warp, time: int) -> None:
    """After a strong access of a warp at cycle ``time``, record whether the grid has passed a barrier, and when the last warp has made its first strong access
    after the previous one."""
    steps = m[s.chip.grid_steps]
    if m[w.step] != steps:
        m[w.step] = steps
        m[s.chip.step_left] = max(m[s.chip.step_left], time)
    if is_passed(m):
        if steps:
            m[s.chip.step_leaves[steps & (s.STEP_ENDS - 1)]] = (
                m[s.chip.step_left] - m[s.chip.step_ends[(steps - 1) & (s.STEP_ENDS - 1)]]
            )
        m[w.step] = steps + 1
        m[s.chip.step_left] = time
        m[s.chip.step_ends[steps & (s.STEP_ENDS - 1)]] = time
        m[s.chip.step_work[steps & (s.STEP_ENDS - 1)]] = work_of_grid(m)
        m[s.chip.grid_steps] = steps + 1
