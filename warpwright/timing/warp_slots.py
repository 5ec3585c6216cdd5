"""Warp slots of an SM by number, and the mark of a slot whose warp has to be prepared again."""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s


@core
def warp_at(sm: s.SM, slot: int) -> s.Warp:
    """Index of a warp slot's fields."""
    return sm.warps[slot]


@core
def mark(m: Any, sm: s.SM, w: s.Warp) -> None:
    """Mark the warp for ``settle``."""
    m[sm.reconsider] |= 1 << m[w.slot]
