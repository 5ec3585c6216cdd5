"""Access policies in time: how long L2 keeps a line.

Every line of L2 has a level, stored in its stamp above the time of its last use: streaming (leaves first), normal or
persisting.  A set replaces the line with the smallest stamp, so streaming lines leave before normal ones, and these before persisting
ones.  A set holds only as many persisting lines as ways are set aside: L2 is set aside by sixteenths, and a set
has sixteen ways (NVIDIA A100 whitepaper, "L2 Cache Residency Control").

A real H200 (``bench.machine.l2_policies``) keeps persisting lines at their home only, not the other partition's copies of them; keeps one way for persisting
lines if nothing is set aside; and lets normal lines that are read, but not those that are written, use the unused part of the set-aside.

An access changes the level of its line by the policy that its instruction names (``createpolicy``), by its launch's window of addresses
(``engine/access_policy.py``), or not at all.  A share of addresses is drawn by a hash of the line, so that a line always falls on the
same side.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.access_policy import AccessProperty
from warpwright.native.intrinsics import core
from warpwright.timing import state as s
from warpwright.timing.address_hash import known_as

(UNCHANGED, FIRST, NORMAL, LAST) = range(4)
"""The level that an access requests for its line; a new line for which no level is requested is normal."""
POLICY_OF = {AccessProperty.NORMAL: NORMAL, AccessProperty.STREAMING: FIRST, AccessProperty.PERSISTING: LAST}
LEVEL_SHIFT = 56
(LEVEL_FIRST, LEVEL_NORMAL, LEVEL_LAST) = range(3)
SHARE_BITS = 16
"""A share of addresses is out of 1 << SHARE_BITS."""


def share_of_ratio(hit_ratio: float) -> int:
    """A window's share of lines that get its first property, out of 1 << SHARE_BITS.

    The ratio is rounded down to sixteenths, plus one, at most 16: of 32 MiB with hit ratios of 0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75 and 0.9 an H200 keeps 1, 2, 5, 7, 9, 10, 13 and 15
    sixteenths (bench.machine.l2_policies ``kept``).
    """
    return min(int(16 * hit_ratio) + 1, 16) << (SHARE_BITS - 4)


@core
def draw(m: Any, line: int) -> int:
    """The place of a line's block between 0 and 1 << SHARE_BITS, by a hash of its address."""
    return (((known_as(m, line) >> m[s.chip.policy_block_shift]) * s.GOLDEN) >> 24) & ((1 << SHARE_BITS) - 1)


@core
def in_window(m: Any, k: s.Kernel, line: int) -> int:
    """The level that a launch's window requests for a line."""
    if line < m[k.window_first] or line >= m[k.window_end]:
        return UNCHANGED
    return m[k.window_hit] if draw(m, line) < m[k.window_share] else m[k.window_miss]


@core
def share_of(m: Any, policy: int, line: int) -> bool:
    """Whether a line is in the share to which the first level of an instruction's policy applies (``isa/sass/access_policy.py``)."""
    size = (policy >> 20) & 15
    if (policy >> 27) & 1 == 0:
        return draw(m, line) < (size + 1) << (SHARE_BITS - 4)
    block = (line << m[s.chip.line_shift]) >> (size + 12)
    return ((block - (policy >> 12)) & 127) < (policy >> 5) & 127


@core
def of_instruction(m: Any, policy: int, line: int) -> int:
    """The level that an instruction's policy requests for a line."""
    if share_of(m, policy, line):
        wanted = (policy >> 25) & 3
        return FIRST if wanted == 1 else LAST if wanted == 2 else UNCHANGED
    return FIRST if (policy >> 24) & 1 else UNCHANGED


@core
def policy_of(m: Any, sm: s.SM, w: s.Warp, line: int) -> int:
    """The level that a warp's access requests for a line."""
    if m[w.policy] >> 28:
        return of_instruction(m, m[w.policy], line)
    return in_window(m, s.Kernel(m[sm.blocks[m[w.block]].kernel]), line)


@core
def policies_at(m: Any, sm: s.SM, request: int) -> int:
    """Offset of the level that a request of this window asks for its line."""
    return sm + m[s.chip.policies_at] + request


@core
def level_after(m: Any, stamps: int, way: int, policy: int) -> int:
    """The level of a line after an access that requests ``policy``; ``stamps``: those of the set's ways.

    Where the set has as many persisting lines as are set aside, the one used longest ago becomes a normal one.  Chips without a set-aside, and instances of
    one (MIG), have no persisting lines.
    """
    if m[s.chip.persisting_ways] == 0 and policy == LAST:
        return LEVEL_NORMAL
    level = m[stamps + way] >> LEVEL_SHIFT
    if policy != LAST:
        return policy - 1
    if level == LEVEL_LAST:
        return level
    count = 0
    oldest = s.INF
    victim = way
    for other in range(m[s.chip.l2_ways]):
        stamp = m[stamps + other]
        if stamp >> LEVEL_SHIFT == LEVEL_LAST:
            count += 1
            if stamp < oldest:
                oldest = stamp
                victim = other
    if count >= m[s.chip.persisting_ways]:
        m[stamps + victim] -= 1 << LEVEL_SHIFT
    return LEVEL_LAST
