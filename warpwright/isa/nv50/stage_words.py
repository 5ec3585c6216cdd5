"""Where vertex, geometry and pixel programs find their inputs and leave their results.

The graphics pipeline keeps attributes as rows of 32-bit words, one word for each thread, so that a warp's words of one attribute lie
side by side; the hardware keeps them likewise in the multiprocessor's memory (seed: Lindholm et al., "Streaming multiprocessor").
:class:`StageInterface` is what the lowering knows of a program, ``PARAMETERS`` what each run tells it.

Geometry programs address the vertices in ``p[]`` by a vertex's base, which ``a[]`` holds, plus an offset times ``$vstride``.  The numbers
here are the model's own: a base counts 16 for each vertex and ``$vstride`` is the number of vertices.  Word 6 of ``a[]`` is the
primitive's number (Mesa reads it at 0x18).
"""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.isa.nv50.fields import Context

STAGES = {"vertex": "vp", "geometry": "gp", "pixel": "fp"}
"""Names of the stages, and of their encodings as ``envydis`` has them."""
PARAMETERS_AT = 0x160
"""Where the engine's constant bank 0 holds the words of ``PARAMETERS``."""
PARAMETERS = {
    name: PARAMETERS_AT + 4 * n
    for n, name in enumerate(
        (
            *("threads", "inputs", "input_row_bytes", "input_slots", "outputs", "output_row_bytes", "vertices"),
            *("planes", "plane_row_bytes", "facing", "most_vertices", "cuts", "local"),
        )
    )
}
"""Lower words of addresses, sizes and counts."""
PARAMETER_BYTES = 4 * len(PARAMETERS)

INDEX, KILLED, EMITTED, OUTPUT = 136, 137, 138, 139
"""Registers beyond the program's own: four times the thread's number; whether its pixel was discarded; vertices emitted; where the
current vertex's outputs are."""
PLANE, POSITION, CENTROID = 140, (141, 142), (143, 144)
"""Pixel programs: where the primitive's planes are, the sample's distance from their origin, and the centroid's."""
PIXEL_ROWS = ("primitive", "x", "y", "centroid_x", "centroid_y")
"""Rows of a pixel program's inputs; the last two only where it reads a centroid."""
NOBODY = 0xFFFFFFFF
"""The primitive of a thread that has no pixel, in a warp that is not full."""
FACING_AT = 0x3FC
"""Where pixel programs read whether they are of a front face, as all ones or 0."""
PRIMITIVE_ID_AT, VERTEX_BASE = 0x18, 16
FIRST_BANK, BANKS, SPACE_BYTES = 1, 7, 1 << 16
"""Banks of the engine for the constant spaces that a program reads; more spaces than banks follow each other in one."""


@dataclass(frozen=True, slots=True)
class StageInterface:
    """What the lowering of a graphics program depends on beside its code."""

    stage: str
    """vp, gp or fp."""
    spaces: tuple[int, ...]
    """Constant spaces that the program reads."""
    output_slots: int
    """Words of a vertex, or registers that a pixel program returns."""
    centroid: bool = False

    @property
    def context(self) -> Context:
        return Context(self.stage)

    def bank_of(self, space: int) -> tuple[int, int]:
        """The engine's bank of a constant space, and at which byte of it the space begins."""
        place = self.spaces.index(space)
        return FIRST_BANK + place % BANKS, place // BANKS * SPACE_BYTES
