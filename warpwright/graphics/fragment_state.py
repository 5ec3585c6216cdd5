"""What a batch of quads is drawn to, for those who watch draws (``timed/tiles.py``)."""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.graphics import rop, targets

Targets = list[tuple[targets.ColourTarget, bool]]
"""Colour targets that are written, and whether what they hold is read (blending, logic operations, masks)."""


@dataclass(slots=True)
class FragmentState:
    """The targets of a batch of quads, and the state with which it is drawn."""

    depth: targets.DepthTarget | None
    depth_state: rop.DepthState
    colours: Targets
    samples: tuple[int, int]
    is_late: bool
    exports_depth: bool
