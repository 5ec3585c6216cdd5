"""Rows of int64 that describe textures and samplers to the compiled texture unit."""

from __future__ import annotations

_TEXTURE = (
    *("base", "limit", "type", "normalized", "levels", "layers", "layer_bytes"),
    *("format", "element_bytes", "block_log2", "srgb", "integer", "fixed_depth", "layout_3d", "smear"),
    *("type_0", "type_1", "type_2", "type_3", "source_0", "source_1", "source_2", "source_3"),
    *(f"{part}_{channel}" for channel in range(4) for part in ("word", "shift", "bits")),
    *("bytes", "byte_0", "byte_1", "byte_2", "byte_3", "notes", "anisotropy"),
)
_LEVEL = ("width", "height", "depth", "pitch", "height_log2", "depth_log2", "slab", "offset")
_SAMPLER = (
    *("wrap_0", "wrap_1", "wrap_2", "compare", "function", "magnify", "minify", "mip", "bias", "least", "most"),
    *("anisotropy", "seamless", "border_0", "border_1", "border_2", "border_3", "srgb_0", "srgb_1", "srgb_2"),
    *("samples", "filters", "cycles"),
)
COUNTS = ("samples", "filters", "cycles")
"""Counters in a sampler's row: samples of threads, their bilinear filters, and cycles of the texture unit."""
ADDRESSES_PER_CLK, FILTERS_PER_CLK = 4, 8
"""Throughput of a texture unit (seed: "four texture address generators and eight filter units"): four addresses, and two filters for each."""
MOST_LEVELS = 16


def _bytes(names: tuple[str, ...]) -> dict[str, int]:
    return {name: 8 * n for n, name in enumerate(names)}


TEXTURE, LEVEL, SAMPLER = _bytes(_TEXTURE), _bytes(_LEVEL), _bytes(_SAMPLER)
"""Byte offsets of fields: ``limit`` is the number of bytes available from ``base``, and ``slab`` the bytes between blocks along z; ``bias``, ``least`` and
``most`` are levels in 256ths. ``bytes`` is set if all components are bytes of 32-bit elements or constants: ``byte_0`` is the first one's lowest
bit, ``NO_BYTE`` for 0 and ``FULL_BYTE`` for 1."""
NOTE_COUNT, NOTE_BASE, NOTE_SHIFT, NOTE_PLACE, NOTE_WORDS = range(5)
NOTE_LINES_AT = 8
MOST_NOTED = 128
NOTES_AT = NOTE_LINES_AT + MOST_NOTED
"""Words by which a texture unit informs the timing model (at the address ``notes``; 0 if unused): the number of lines that the current quad has touched, the
host address of the first line, log2 of the bytes of a line, the position of the next record, and the words of all records; then the lines, and the ring of
records."""
NO_BYTE, FULL_BYTE = 32, 33
LEVELS_AT = 8 * len(_TEXTURE)
LEVEL_BYTES, SAMPLER_BYTES = 8 * len(_LEVEL), 8 * len(_SAMPLER)
TEXTURE_BYTES = LEVELS_AT + MOST_LEVELS * LEVEL_BYTES
UNITS, SAMPLERS = 256, 32
"""Number of units that instructions can name: the length of a table of row addresses, which are 0 for unbound units."""
ONE_D, TWO_D, THREE_D, CUBE, ONE_D_ARRAY, TWO_D_ARRAY, BUFFER, TWO_D_SINGLE = range(8)
"""Texture types as in headers."""
SNORM, UNORM, SINT, UINT, SNORM_HALF, UNORM_HALF, FLOAT = range(1, 8)
"""Channel types."""
SOURCE_ZERO, SOURCE_RED, SOURCE_ONE_INTEGER, SOURCE_ONE = 0, 2, 6, 7
WRAP, MIRROR, CLAMP_TO_EDGE, BORDER, CLAMP, MIRROR_CLAMP_TO_EDGE, MIRROR_BORDER, MIRROR_CLAMP = range(8)
NEAREST, LINEAR = 1, 2
MIP_NONE, MIP_NEAREST, MIP_LINEAR = 1, 2, 3
PLAIN, SHARED_EXPONENT, DXT1, DXT23, DXT45, DXN1, DXN2 = range(7)
"""Element encodings."""
