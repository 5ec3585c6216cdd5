"""The attribute of the operation ``texture`` of NV50 programs.

Its arguments are the coordinates in the order of the instruction's registers: x, y, z, array index, reference value,
bias or level, restricted to those that its texture and sampler need.
"""

from __future__ import annotations

from typing import NamedTuple

AUTO, BIAS, LEVEL, FETCH, SIZE, SAMPLES = range(6)
"""Where the level of detail comes from: the quad's derivatives, derivatives plus a bias, an argument; also a texel by
integer coordinates, the texture's size, a CSAA sample."""
KINDS = ("texauto", "texbias", "texlod", "texfetch", "texsize", "texcsaa")
FIELDS = (
    ("kind", 3),
    ("unit", 8),
    ("sampler", 5),
    ("arguments", 3),
    ("cube", 1),
    ("derivatives", 1),
    ("x", 4),
    ("y", 4),
    ("z", 4),
)
AT = {name: sum(bits for _, bits in FIELDS[:n]) for n, (name, _) in enumerate(FIELDS)}
"""First bit of each field in :meth:`TextureRequest.word`."""


class TextureRequest(NamedTuple):
    """Attribute of ``texture``; the first fields are those that observers read of any access."""

    space: str = "global"
    bytes: int = 4
    strong: bool = False
    cache: str = "TEXTURE"
    operation: str = ""
    kind: int = AUTO
    unit: int = 0
    sampler: int = 0
    arguments: int = 2
    """Number of coordinates."""
    cube: bool = False
    derivatives: bool = False
    """Whether the level is computed from the coordinates of the quad's four threads; otherwise they count as equal."""
    x: int = 0
    y: int = 0
    z: int = 0
    """Offsets in texels."""

    @property
    def writes(self) -> bool:
        return False

    @property
    def on_surface(self) -> bool:
        return False

    def word(self) -> int:
        """All fields that the texture unit depends on, encoded in one word."""
        values = self._asdict()
        word = shift = 0
        for name, bits in FIELDS:
            word |= (int(values[name]) & ((1 << bits) - 1)) << shift
            shift += bits
        return word

    @classmethod
    def of_word(cls, word: int) -> TextureRequest:
        """Decode what :meth:`word` returned."""
        values: dict[str, int] = {}
        for name, bits in FIELDS:
            values[name] = word & ((1 << bits) - 1)
            word >>= bits
        for axis in "xyz":
            values[axis] = (values[axis] ^ 8) - 8
        return cls(
            kind=values["kind"],
            unit=values["unit"],
            sampler=values["sampler"],
            arguments=values["arguments"],
            cube=bool(values["cube"]),
            derivatives=bool(values["derivatives"]),
            x=values["x"],
            y=values["y"],
            z=values["z"],
        )
