"""What the watches of launches on several devices share if their grids are checked together.

The grids have the same machine code, grid and block. Their blocks are numbered consecutively, so that clocks and cells of global memory (which has the same addresses on every device)
distinguish the blocks of all grids, and a race between two devices is found like one between two blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from warpwright.engine.allocation import Allocation
from warpwright.tools.checks.global_shadow import Shadows


class UsesCells(Protocol):
    """The watch of one grid."""

    def use_cells(self, allocation: Allocation) -> None:
        """Use the cells that another grid's watch has created for an allocation."""


@dataclass(slots=True)
class Joined:
    """What the watches of grids that run at once share."""

    grids: int
    blocks: int
    """Of each grid."""
    written: dict[int, npt.NDArray[np.uint8]]
    """Maps of the written bytes of all devices' allocations, by address (``checker.py``)."""
    origins: dict[int, str]
    """Lines of the host's program that made the allocations of all devices, by address."""
    shadows: Shadows = field(default_factory=Shadows)
    locations: dict[int, Any] = field(default_factory=dict)
    """Releases at words of global memory."""
    watches: list[UsesCells] = field(default_factory=list)
    """Of the grids so far, in the order in which their blocks are numbered."""

    def share_cells(self, allocation: Allocation) -> None:
        """Make all watches use the cells that one of them has created for an allocation."""
        for watch in self.watches:
            watch.use_cells(allocation)
