"""Names that ``context.Context`` takes, and the numbers of the 3D class that they stand for (envytools' rnndb; mostly OpenGL's numbers)."""

from __future__ import annotations

from warpwright.errors import ArgumentError
from warpwright.graphics.formats import COLOUR_FORMATS, DEPTH_FORMATS, DepthFormat, Format

PRIMITIVES = {
    name: number
    for number, name in enumerate(
        (
            *("points", "lines", "line_loop", "line_strip", "triangles", "triangle_strip", "triangle_fan"),
            *("quads", "quad_strip", "polygon"),
        )
    )
}
COMPARISONS = {
    name: 0x200 + number
    for number, name in enumerate(
        ("never", "less", "equal", "less_equal", "greater", "not_equal", "greater_equal", "always")
    )
}
FACTORS = {
    "zero": 0x4000,
    "one": 0x4001,
    "src_colour": 0x4300,
    "one_minus_src_colour": 0x4301,
    "src_alpha": 0x4302,
    "one_minus_src_alpha": 0x4303,
    "dst_alpha": 0x4304,
    "one_minus_dst_alpha": 0x4305,
    "dst_colour": 0x4306,
    "one_minus_dst_colour": 0x4307,
    "src_alpha_saturate": 0x4308,
}
EQUATIONS = {"add": 0x8006, "min": 0x8007, "max": 0x8008, "subtract": 0x800A, "reverse_subtract": 0x800B}
FORMATS: dict[str, Format | DepthFormat] = {
    **{form.name: form for form in COLOUR_FORMATS.values()},
    **{form.name: form for form in DEPTH_FORMATS.values()},
}
ONE, FILL, COUNTERCLOCKWISE, SMOOTH = 0x3F80_0000, 0x1B02, 0x901, 0x1D01
INITIAL: tuple[tuple[str, int], ...] = (
    ("COND_MODE", 1),
    ("REG_MODE", 2),
    ("ZETA_COMP_ENABLE", 1),
    ("RT_COMP_ENABLE", 1),
    ("RASTERIZE_ENABLE", 1),
    ("VIEWPORT_TRANSFORM_EN", 1),
    ("DEPTH_RANGE_FAR", ONE),
    ("COLOR_MASK_COMMON", 1),
    ("COLOR_MASK", 0x1111),
    ("BLEND_SEPARATE_ALPHA", 1),
    ("BLEND_ENABLE_COMMON", 1),
    ("EDGEFLAG", 1),
    ("SHADE_MODEL", SMOOTH),
    ("PROVOKING_VERTEX_LAST", 1),
    ("FRONT_FACE", COUNTERCLOCKWISE),
    ("POLYGON_MODE_FRONT", FILL),
    ("POLYGON_MODE_BACK", FILL),
    ("LINE_WIDTH", ONE),
    ("POINT_SIZE", ONE),
    ("SEMANTIC_COLOR", 0x404),
    ("SEMANTIC_CLIP", 4),
    ("LOCAL_SIZE_LOG", 3),
)
"""State that a context begins with; other registers are 0."""


def number_of(table: dict[str, int], name: str, what: str) -> int:
    """The number of a name.

    Raises:
        ArgumentError: the table has no such name; the message lists those that it has.
    """
    found = table.get(name)
    if found is None:
        raise ArgumentError(f"there is no {what} {name!r}: use {', '.join(table)}")
    return found
