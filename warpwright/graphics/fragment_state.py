"""The targets that a batch of quads is drawn to, for watches of draws (``timed/tiles.py``)."""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.graphics import rop, targets

Targets = list[tuple[targets.ColourTarget, bool]]
"""The colour targets that are written, and whether their contents are read (for blending, logic operations or masks)."""


@dataclass(slots=True)
class FragmentState:
    """The targets of a batch of quads, and the state with which it is drawn."""

    depth: targets.DepthTarget | None
    depth_state: rop.DepthState
    colours: Targets
    samples: tuple[int, int]
    is_late: bool
    exports_depth: bool
