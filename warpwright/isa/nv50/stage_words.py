"""Where vertex, geometry and pixel programs read inputs and write results.

The graphics pipeline keeps attributes as rows of 32-bit words, one word per thread, so that a warp's words of one
attribute are adjacent, as in the hardware's multiprocessor memory (seed: Lindholm et al., "Streaming multiprocessor").
:class:`StageInterface` is what lowering knows about a program; ``PARAMETERS`` are the words that each run supplies.

Geometry programs address vertices in ``p[]`` by a vertex's base, read from ``a[]``, plus an offset times ``$vstride``.
The values are the model's own: a base counts 16 for each vertex, and ``$vstride`` is the number of vertices.  Word 6 of
``a[]`` is the primitive's number (Mesa reads it at 0x18).
"""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.isa.nv50.fields import Context

STAGES = {"vertex": "vp", "geometry": "gp", "pixel": "fp"}
"""Names of the stages, and of their encodings in ``envydis``."""
PARAMETERS_AT = 0x160
"""Offset of the words of ``PARAMETERS`` in the engine's constant bank 0."""
PARAMETERS = {
    name: PARAMETERS_AT + 4 * n
    for n, name in enumerate(
        (
            *("threads", "inputs", "input_row_bytes", "input_slots", "outputs", "output_row_bytes", "vertices"),
            *("planes", "plane_row_bytes", "facing", "most_vertices", "cuts", "local"),
        )
    )
}
"""Lower words of addresses; sizes and counts."""
PARAMETER_BYTES = 4 * len(PARAMETERS)

INDEX, KILLED, EMITTED, OUTPUT = 136, 137, 138, 139
"""Registers beyond the program's own: four times the thread's number; whether its pixel was discarded; number of
vertices emitted; address of the current vertex's outputs."""
PLANE, POSITION, CENTROID = 140, (141, 142), (143, 144)
"""For pixel programs: address of the primitive's planes, and the distance of the sample and of the centroid from their
origin."""
PIXEL_ROWS = ("primitive", "x", "y", "centroid_x", "centroid_y")
"""Rows of a pixel program's inputs; the last two exist only if it reads a centroid."""
NOBODY = 0xFFFFFFFF
"""The primitive of a thread without a pixel, in a partly filled warp."""
FACING_AT = 0x3FC
"""Where pixel programs read whether the face is a front face, as all ones or 0."""
PRIMITIVE_ID_AT, VERTEX_BASE = 0x18, 16
FIRST_BANK, BANKS, SPACE_BYTES = 1, 7, 1 << 16
"""The engine's banks for the constant spaces that a program reads; if there are more spaces than banks, several share
one bank."""


@dataclass(frozen=True, slots=True)
class StageInterface:
    """What the lowering of a graphics program depends on besides its code."""

    stage: str
    """vp, gp or fp."""
    spaces: tuple[int, ...]
    """Constant spaces that the program reads."""
    output_slots: int
    """Words per vertex, or registers that a pixel program returns."""
    centroid: bool = False

    @property
    def context(self) -> Context:
        return Context(self.stage)

    def bank_of(self, space: int) -> tuple[int, int]:
        """The engine's bank of a constant space, and the space's byte offset in it."""
        place = self.spaces.index(space)
        return FIRST_BANK + place % BANKS, place // BANKS * SPACE_BYTES
