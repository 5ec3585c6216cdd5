"""The attribute of the operations ``texture`` and ``surface``, which describes a texture or surface instruction.

Arguments of ``texture`` are words, in this order: the object's handle, the layer (of layered shapes), one coordinate for each
axis, then level or bias, or slopes (x by x, x by y, y by x, …), packed offsets, and the value to compare with.  Of ``surface``: the handle, layer,
coordinates (x in bytes, or in elements when formatted), then the words to store or to reduce with.
"""

from __future__ import annotations

from typing import NamedTuple

SAMPLE, FETCH, GATHER, SLOPES, QUERY, LOAD, STORE, STORE_FORMATTED, REDUCE, REDUCE_FORMATTED = range(10)
"""Operations: a filtered sample, a texel by integer coordinates, one component of four texels, a sample with explicit
slopes, a texture query; surface loads, stores and reductions."""
REDUCTIONS = ("ADD", "MIN", "MAX", "AND", "OR")
IMPLICIT, ZERO, EXPLICIT = range(3)
"""Where a sample's level of detail comes from."""
IGNORE, CLAMP, TRAP = range(3)
"""Out-of-range surface accesses: ignored (loads return 0), clamped to the nearest element, or an error."""
SHAPES = ("1D", "2D", "3D", "CUBE", "ARRAY_1D", "ARRAY_2D", "ARRAY_CUBE")
AXES = {"1D": 1, "2D": 2, "3D": 3, "CUBE": 3, "ARRAY_1D": 1, "ARRAY_2D": 2, "ARRAY_CUBE": 3}
FIELDS = {
    "request": 4,
    "shape": 3,
    "level": 2,
    "component": 2,
    "outside": 2,
    "size": 5,
    "offsets": 1,
    "reduction": 3,
    "signed": 1,
}
"""Number of bits of each field in :meth:`TextureAccess.word`, lowest first."""


class TextureAccess(NamedTuple):
    """Attribute of ``texture`` and ``surface``; the first fields are those that observers read of any access."""

    space: str = "global"
    bytes: int = 4
    strong: bool = False
    cache: str = "TEXTURE"
    operation: str = ""
    request: int = SAMPLE
    shape: str = "2D"
    level: int = IMPLICIT
    component: int = 0
    """Component of a gather: 0 to 3."""
    outside: int = IGNORE
    size: int = 0
    """For surfaces: bytes per lane."""
    offsets: bool = False
    """Whether an argument holds texel offsets, four signed bits per axis."""
    reduction: int = 0
    """One of REDUCTIONS."""
    signed: bool = False
    """Type of an unformatted reduction; a formatted one uses the surface's format."""

    @property
    def layered(self) -> bool:
        return self.shape.startswith("ARRAY")

    @property
    def on_surface(self) -> bool:
        return self.request >= LOAD

    @property
    def writes(self) -> bool:
        return self.request >= STORE

    @property
    def formatted(self) -> bool:
        return self.request in (STORE_FORMATTED, REDUCE_FORMATTED)

    @property
    def axes(self) -> int:
        """Number of coordinates, without the layer."""
        return AXES[self.shape]

    def word(self) -> int:
        """All fields that the texture unit depends on, encoded in one word."""
        values = {**self._asdict(), "shape": SHAPES.index(self.shape)}
        word = shift = 0
        for name, bits in FIELDS.items():
            word |= int(values[name]) << shift
            shift += bits
        return word

    @classmethod
    def of_word(cls, word: int) -> TextureAccess:
        """The access that :meth:`word` encoded, without fields that do not affect the work."""
        values: dict[str, int] = {}
        for name, bits in FIELDS.items():
            values[name] = word & ((1 << bits) - 1)
            word >>= bits
        return cls(
            request=values["request"],
            shape=SHAPES[values["shape"]],
            level=values["level"],
            component=values["component"],
            outside=values["outside"],
            size=values["size"],
            offsets=bool(values["offsets"]),
            reduction=values["reduction"],
            signed=bool(values["signed"]),
        )
