"""Z-cull: a hierarchical depth surface, and the tiles that it rejects.

Lindholm et al.: "The zcull unit maintains a hierarchical z surface, rejecting pixel tiles if they are conservatively known to be occluded by
previously drawn pixels."  Its format is not published (not anchored).  Here, each raster tile keeps bounds on the depths that it may hold: a primitive that covers the whole
tile updates them at once, and the ROPs' depths are read back at the end of a batch of quads.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled, compiled_part
from warpwright.graphics.rop import ALWAYS, GEQUAL, GREATER, LEQUAL, LESS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
NEVER_CULLS, CULLS, CULLS_AND_WRITES, WRITES = range(4)
"""The actions of Z-cull that a depth-test state permits."""
STEP = 2.0**-23
"""Upper bound on the difference between a depth and its stored value."""


class HierarchicalDepth:
    """The least and the greatest depth of each tile of one surface."""

    def __init__(self, across: int, down: int) -> None:
        self.least = np.full((down, across), -np.inf)
        self.greatest = np.full((down, across), np.inf)

    def fill(self, depth: float) -> None:
        """Clear the whole surface."""
        self.least[:] = self.greatest[:] = depth


@compiled_part
def depth_range(plane: Floats, dx: float, dy: float, size: int) -> tuple[float, float]:
    """The least and the greatest value of a plane over a tile, given the distance of the tile's corner from the plane's origin."""
    base = plane[2] + plane[0] * dx + plane[1] * dy
    along, down = plane[0] * size, plane[1] * size
    return base + min(along, 0.0) + min(down, 0.0), base + max(along, 0.0) + max(down, 0.0)


@compiled
def cull_tiles(
    tiles: Integers,
    primitive: Integers,
    whole: npt.NDArray[np.bool_],
    planes: Floats,
    limits: Floats,
    origins: Integers,
    state: tuple[int, int, int],
    hierarchy: tuple[Floats, Floats],
) -> npt.NDArray[np.int64]:
    """Determine which runs of quads are rejected, in order, and update the hierarchy with the others.

    Args:
        tiles: x and y of each run's tile.
        whole: whether the run's quads cover the tile.
        planes, limits, origins: those of the primitives.
        state: the comparison, the actions that it permits, and the pixels along a tile.
    """
    function, what, size = state
    least, greatest = hierarchy
    culled = np.zeros(len(tiles), dtype=np.int64)
    for r in range(len(tiles)):
        t, x, y = primitive[r], tiles[r, 0], tiles[r, 1]
        if y >= least.shape[0] or x >= least.shape[1]:
            continue
        low, high = depth_range(planes[t], x * size - origins[t, 0] / 256.0, y * size - origins[t, 1] / 256.0, size)
        low, high = min(max(low, limits[t, 0]), limits[t, 1]), min(max(high, limits[t, 0]), limits[t, 1])
        if what == CULLS or what == CULLS_AND_WRITES:
            less = function == LESS or function == LEQUAL
            more = function == GREATER or function == GEQUAL
            if (less and low > greatest[y, x] + STEP) or (more and high < least[y, x] - STEP):
                culled[r] = 1
                continue
        if what == CULLS_AND_WRITES or what == WRITES:
            if whole[r] and (function == LESS or function == LEQUAL):
                greatest[y, x] = min(greatest[y, x], high)
            elif function != LESS and function != LEQUAL:
                greatest[y, x] = max(greatest[y, x], high)
            if whole[r] and (function == GREATER or function == GEQUAL):
                least[y, x] = max(least[y, x], low)
            elif function != GREATER and function != GEQUAL:
                least[y, x] = min(least[y, x], low)
            if whole[r] and function == ALWAYS:
                least[y, x], greatest[y, x] = low, high
    return culled
