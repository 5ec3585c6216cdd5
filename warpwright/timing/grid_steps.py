"""Steps of a grid: when it passes its barriers.

``grid.sync()`` changes the highest bit of a word of the launch's workspace when the last block has arrived.  The serial phase, which executes strong
accesses in order of time, records the cycle.  ``step_sampling.py`` decides whether the steps repeat.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import TAG_POLICY, WARP, Status
from warpwright.native.intrinsics import core, lowest_bit, peek, shift_right
from warpwright.timing import state as s
from warpwright.timing.numbered_units import sm_at
from warpwright.timing.records import address_of, decode

WARP_SLOTS = s.SM.fields["warps"].count
THREADS, RESUME = WARP["thread_instructions"], WARP["resume"]
STRONG = int(Status.STRONG)


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
    """Thread instructions that the warps on the chip have executed, without polls (``is_poll``)."""
    work = 0
    for i in range(m[s.chip.sms]):
        sm = sm_at(m, i)
        if m[sm.resident]:
            for slot in range(WARP_SLOTS):
                w = sm.warps[slot]
                if m[w.active]:
                    work += peek(m[w.pointer] + THREADS) - m[w.polled]
    return work


@core
def place_of(m: Any, w: s.Warp) -> int:
    """The resume point of a warp's function."""
    return peek(m[w.pointer] + RESUME) & 0xFFFFFFFF


@core
def is_poll(m: Any, w: s.Warp, place: int) -> bool:
    """Whether a warp whose records begin with a strong access that it has just executed has read the barrier's word and is about to read it again.

    Blocks wait at a grid barrier in this way.  The number of these polls depends on time, so they do not count as work of a step.

    Args:
        place: resume point of the access (``place_of``).
    """
    if m[w.status] != STRONG or place_of(m, w) != place or m[w.used] == 0:
        return False
    head = m[s.chip.head_words]
    at = m[w.trace] + head * 8
    if (peek(at) >> 60) & 15 == TAG_POLICY:
        at += 8
    _, mask, base, tabled, step = decode(at, head, m[s.chip.lanes])
    distance = address_of(base, tabled, step, lowest_bit(mask)) - m[s.chip.grid_word] if mask else -1
    return 0 <= distance < 8


@core
def note_step(m: Any, w: s.Warp, time: int, place: int, threads: int) -> None:
    """After a strong access of a warp at cycle ``time``, record whether the grid has passed a barrier, and when the last warp has made its first strong access
    after the previous one.

    Args:
        place: resume point of the access (``place_of``).
        threads: thread instructions that the warp had executed before it.
    """
    if is_poll(m, w, place):
        m[w.polled] += peek(m[w.pointer] + THREADS) - threads
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
