"""Texture headers (TIC) and samplers (TSC) of G80: eight words each, read into rows for the texture unit.

Facts: envytools' rnndb (graph/g80_texture.xml, g80_defs.xml).  A header has the address of level 0 and its block size; smaller levels follow, each in blocks no
higher and no deeper than it needs (as Mesa lays them out for this chip).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.errors import UnsupportedError
from warpwright.graphics.texture_fields import (
    BUFFER,
    CUBE,
    DXN1,
    DXN2,
    DXT1,
    DXT23,
    DXT45,
    FULL_BYTE,
    LEVEL,
    LEVEL_BYTES,
    LEVELS_AT,
    MOST_LEVELS,
    NO_BYTE,
    ONE_D,
    ONE_D_ARRAY,
    PLAIN,
    SAMPLER,
    SAMPLER_BYTES,
    SHARED_EXPONENT,
    SINT,
    SOURCE_ONE,
    SOURCE_RED,
    SOURCE_ZERO,
    TEXTURE,
    TEXTURE_BYTES,
    THREE_D,
    TWO_D_ARRAY,
    TWO_D_SINGLE,
    UINT,
    UNORM,
)

Row = npt.NDArray[np.int64]
Channel = tuple[int, int, int]
"""32-bit word, lowest bit, bits; no bits: absent."""
ABSENT: Channel = (0, 0, 0)
GOB_BYTES, GOB_ROWS = 64, 4
ANISOTROPY = (1, 2, 4, 6, 8, 10, 12, 16)
"""Most samples along a footprint, by MAX_ANISOTROPY of a sampler or of a header; the larger one holds (drivers resolve surfaces of 8 samples, which are four texels wide, with
a header of 2:1 and a sampler of 1:1)."""


@dataclass(frozen=True, slots=True)
class TextureFormat:
    """A format of elements, as encoded in COMPONENTS_SIZES."""

    name: str
    element_bytes: int
    channels: tuple[Channel, Channel, Channel, Channel]
    coding: int = PLAIN
    fixed_depth: bool = False
    """Whether the reference of a depth comparison is clamped to [0, 1]."""

    @property
    def block_log2(self) -> int:
        """log2 of the texels along a side of an element."""
        return 2 if self.coding >= DXT1 else 0


def _packed(name: str, size: int, *widths: int) -> TextureFormat:
    """Channels with the given numbers of bits, from the lowest bit on."""
    found, at = [], 0
    for width in widths:
        found.append((at // 32, at % 32, width))
        at += width
    found += [ABSENT] * (4 - len(found))
    return TextureFormat(name, size, (found[0], found[1], found[2], found[3]))


def _coded(name: str, size: int, coding: int) -> TextureFormat:
    return TextureFormat(name, size, (ABSENT, ABSENT, ABSENT, ABSENT), coding)


def _depth(name: str, size: int, red: Channel, green: Channel = ABSENT, fixed: bool = True) -> TextureFormat:
    return TextureFormat(name, size, (red, green, ABSENT, ABSENT), PLAIN, fixed)


FORMATS: dict[int, TextureFormat] = {
    0x01: _packed("R32_G32_B32_A32", 16, 32, 32, 32, 32),
    0x03: _packed("R16_G16_B16_A16", 8, 16, 16, 16, 16),
    0x04: _packed("R32_G32", 8, 32, 32),
    0x05: _packed("R32_B24G8", 8, 32, 8, 24),
    0x07: _packed("X8B8G8R8", 4, 8, 8, 8),
    0x08: _packed("A8B8G8R8", 4, 8, 8, 8, 8),
    0x09: _packed("A2B10G10R10", 4, 10, 10, 10, 2),
    0x0C: _packed("R16_G16", 4, 16, 16),
    0x0D: _packed("G8R24", 4, 24, 8),
    0x0E: _packed("G24R8", 4, 8, 24),
    0x0F: _packed("R32", 4, 32),
    0x12: _packed("A4B4G4R4", 2, 4, 4, 4, 4),
    0x13: _packed("A5B5G5R1", 2, 1, 5, 5, 5),
    0x14: _packed("A1B5G5R5", 2, 5, 5, 5, 1),
    0x15: _packed("B5G6R5", 2, 5, 6, 5),
    0x16: _packed("B6G5R5", 2, 5, 5, 6),
    0x18: _packed("G8R8", 2, 8, 8),
    0x1B: _packed("R16", 2, 16),
    0x1D: _packed("R8", 1, 8),
    0x1E: _packed("G4R4", 1, 4, 4),
    0x20: _coded("E5B9G9R9_SHAREDEXP", 4, SHARED_EXPONENT),
    0x21: _packed("BF10GF11RF11", 4, 11, 11, 10),
    0x24: _coded("DXT1", 8, DXT1),
    0x25: _coded("DXT23", 16, DXT23),
    0x26: _coded("DXT45", 16, DXT45),
    0x27: _coded("DXN1", 8, DXN1),
    0x28: _coded("DXN2", 16, DXN2),
    0x29: _depth("Z24S8", 4, (0, 0, 8), (0, 8, 24)),
    0x2A: _depth("X8Z24", 4, (0, 0, 24)),
    0x2B: _depth("S8Z24", 4, (0, 0, 24), (0, 24, 8)),
    0x2F: _depth("ZF32", 4, (0, 0, 32), fixed=False),
    0x30: _depth("ZF32_X24S8", 8, (0, 0, 32), (1, 0, 8), fixed=False),
    0x3A: _depth("Z16", 2, (0, 0, 16)),
}
"""By COMPONENTS_SIZES; names list channels from the highest bit down, red is the lowest."""


@dataclass(frozen=True, slots=True)
class Level:
    """The location of a texture's level, in elements and bytes."""

    width: int
    height: int
    depth: int
    pitch: int
    height_log2: int
    """Of a block in GOBs; -1: rows of a pitch."""
    depth_log2: int
    slab: int
    offset: int

    @property
    def end(self) -> int:
        """Bytes up to the level's end."""
        return self.offset + self.slab * (-(-self.depth >> self.depth_log2))


def _log2_of_blocks(count: int, limit: int) -> int:
    """log2 of the number of blocks that hold a count, at most ``limit``."""
    return min(limit, max(0, (count - 1).bit_length()))


@dataclass(slots=True)
class TextureHeader:
    """A texture as described by its header."""

    words: tuple[int, ...]
    format: TextureFormat
    type: int
    address: int
    width: int
    height: int
    depth: int
    levels: list[Level]
    layers: int
    layer_bytes: int
    size_bytes: int = 0
    """Bytes from its address to its end."""


def read_header(words: Sequence[int], level_range: bool = False) -> TextureHeader:
    """A texture header.

    Args:
        level_range: whether the last word selects the visible levels, as on chips after G80; on G80 it is a colour key, and all levels are visible.

    Raises:
        UnsupportedError: for a format or type that is not provided, naming it.
    """
    found = FORMATS.get(words[0] & 63)
    if found is None:
        raise UnsupportedError(
            f"texture format {words[0] & 63:#x} is not provided; OpenGL 3.3 needs no format with coverage, of video or of one bit"
        )
    kind = words[2] >> 14 & 15
    if kind > TWO_D_SINGLE:
        raise UnsupportedError(f"texture type {kind} does not exist on G80; it has types 0 to {TWO_D_SINGLE}")
    width, height, depth = max(1, words[4] & 0x3FFFFFFF), words[5] & 0xFFFF or 65536, max(1, words[5] >> 16 & 0xFFF)
    pitch_layout = bool(words[2] >> 18 & 1)
    if kind in (ONE_D, ONE_D_ARRAY, BUFFER):
        height = 1
    layers = depth * 6 if kind == CUBE else depth if kind in (ONE_D_ARRAY, TWO_D_ARRAY) else 1
    depth = depth if kind == THREE_D else 1
    most = 1 if kind in (BUFFER, TWO_D_SINGLE) or pitch_layout else (words[5] >> 28) + 1
    header = TextureHeader(
        tuple(words), found, kind, words[1] | (words[2] & 0xFF) << 32, width, height, depth, [], layers, 0
    )
    if pitch_layout:
        _place_linear(header, words[3] & 0xFFFFF)
    else:
        _place_levels(header, most, words[2] >> 22 & 7, words[2] >> 25 & 7)
    header.size_bytes = header.layer_bytes * (header.layers - 1) + header.levels[-1].end
    if level_range and len(header.levels) > 1:
        last = len(header.levels) - 1
        first, end = min(words[7] & 15, last), max(words[7] & 15, words[7] >> 4 & 15) + 1
        header.levels = header.levels[first:end]
    return header


def _place_linear(header: TextureHeader, pitch: int) -> None:
    pitch = pitch or header.width * header.format.element_bytes
    header.levels.append(Level(header.width, header.height, 1, pitch, -1, 0, pitch * header.height, 0))
    header.layer_bytes = header.levels[0].end


def _place_levels(header: TextureHeader, most: int, height_log2: int, depth_log2: int) -> None:
    width, height, depth, at = header.width, header.height, header.depth, 0
    shift = header.format.block_log2
    for _ in range(min(most, MOST_LEVELS)):
        across, down = -(-width >> shift), -(-height >> shift)
        high = _log2_of_blocks(-(-down // GOB_ROWS), height_log2)
        deep = _log2_of_blocks(depth, depth_log2)
        pitch = -(-across * header.format.element_bytes // GOB_BYTES) * GOB_BYTES
        rows = GOB_ROWS << high
        slab = pitch * (-(-down // rows) * rows) << deep
        level = Level(width, height, depth, pitch, high, deep, slab, at)
        header.levels.append(level)
        at = level.end
        width, height, depth = max(1, width >> 1), max(1, height >> 1), max(1, depth >> 1)
    block = GOB_BYTES * GOB_ROWS << header.levels[0].height_log2 << header.levels[0].depth_log2
    header.layer_bytes = -(-at // block) * block if header.layers > 1 else at


def texture_row(header: TextureHeader, base: int, limit: int) -> Row:
    """The row of a texture at a host address with a given number of bytes after it."""
    words, form = header.words, header.format
    row = np.zeros(TEXTURE_BYTES // 8, np.int64)
    types = [words[0] >> shift & 7 for shift in (6, 9, 12, 15)]
    sources = [words[0] >> shift & 7 for shift in (18, 21, 24, 27)]
    values = {
        "base": base,
        "limit": limit,
        "type": header.type,
        "normalized": words[2] >> 31,
        "levels": len(header.levels),
        "layers": header.layers,
        "layer_bytes": header.layer_bytes,
        "format": form.coding,
        "element_bytes": form.element_bytes,
        "block_log2": form.block_log2,
        "srgb": words[2] >> 10 & 1,
        "integer": int(_is_integer(form, types, sources)),
        "fixed_depth": form.fixed_depth,
        "layout_3d": header.type == THREE_D,
        "smear": words[4] >> 30 & 1,
        "anisotropy": ANISOTROPY[words[6] >> 27 & 7],
        **{f"type_{n}": t for n, t in enumerate(types)},
        **{f"source_{n}": s for n, s in enumerate(sources)},
    }
    for n, (word, shift, bits) in enumerate(form.channels):
        values.update({f"word_{n}": word, f"shift_{n}": shift, f"bits_{n}": bits})
    values.update(_as_bytes(form, types, sources, bool(values["srgb"])))
    for name, value in values.items():
        row[TEXTURE[name] // 8] = value
    for n, level in enumerate(header.levels):
        first = (LEVELS_AT + n * LEVEL_BYTES) // 8
        for name in LEVEL:
            row[first + LEVEL[name] // 8] = getattr(level, name)
    return row


def _as_bytes(form: TextureFormat, types: Sequence[int], sources: Sequence[int], srgb: bool) -> dict[str, int]:
    """The fields ``bytes`` and ``byte_0`` to ``byte_3``."""
    if form.coding != PLAIN or form.element_bytes != 4 or srgb:
        return {}
    found = {"bytes": 1}
    for n, source in enumerate(sources):
        channel = source - SOURCE_RED
        if source in (SOURCE_ZERO, SOURCE_ONE):
            found[f"byte_{n}"] = NO_BYTE if source == SOURCE_ZERO else FULL_BYTE
        elif 0 <= channel < 4 and form.channels[channel][2] == 8 and types[channel] == UNORM:
            found[f"byte_{n}"] = form.channels[channel][1]
        else:
            return {}
    return found


def _is_integer(form: TextureFormat, types: Sequence[int], sources: Sequence[int]) -> bool:
    """Whether the channels that are read are integers."""
    read = [types[s - 2] for s in sources if 2 <= s <= 5] or types[:1]
    return form.coding == PLAIN and read[0] in (SINT, UINT)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def sampler_row(words: Sequence[int], seamless: bool) -> Row:
    """The row of a sampler."""
    row = np.zeros(SAMPLER_BYTES // 8, np.int64)
    values = {
        **{f"wrap_{n}": words[0] >> 3 * n & 7 for n in range(3)},
        "compare": words[0] >> 9 & 1,
        "function": words[0] >> 10 & 7,
        "anisotropy": ANISOTROPY[words[0] >> 20 & 7],
        "magnify": words[1] & 3,
        "minify": words[1] >> 4 & 3,
        "mip": words[1] >> 6 & 3,
        "bias": _signed(words[1] >> 12 & 0x1FFF, 13),
        "least": words[2] & 0xFFF,
        "most": words[2] >> 12 & 0xFFF,
        "seamless": int(seamless),
        **{f"border_{n}": words[4 + n] for n in range(4)},
        "srgb_0": words[2] >> 24 & 0xFF,
        "srgb_1": words[3] >> 12 & 0xFF,
        "srgb_2": words[3] >> 20 & 0xFF,
    }
    for name, value in values.items():
        row[SAMPLER[name] // 8] = value
    return row
