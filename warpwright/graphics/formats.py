"""Surface formats: the bits of each channel in an element, and conversions to and from numbers.

A format is written as its channels from the lowest bit up: ``b8 g8 r8 a8`` is an element of 32 bits whose lowest byte is blue.
Numbers of the formats are those of the registers RT_FORMAT, ZETA_FORMAT, DST_FORMAT and SRC_FORMAT (envytools' rnndb).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled, compiled_part
from warpwright.graphics.pushbuffer import CommandError

NONE, UNORM, SNORM, SINT, UINT, FLOAT, SRGB = range(7)
"""How a channel's bits are interpreted; SRGB is UNORM with red, green and blue encoded as sRGB."""
_KINDS = {"unorm": UNORM, "snorm": SNORM, "sint": SINT, "uint": UINT, "float": FLOAT, "srgb": SRGB}


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel's place in an element: its 32-bit word, the lowest bit there, the number of bits, and the kind."""

    word: int
    shift: int
    bits: int
    kind: int


@dataclass(frozen=True, slots=True)
class Format:
    """A format of colour elements; absent channels are None and are read as 0, 0, 0, 1."""

    number: int
    name: str
    size: int
    """Bytes of an element."""
    channels: tuple[Channel | None, Channel | None, Channel | None, Channel | None]

    @property
    def is_integer(self) -> bool:
        return any(c is not None and c.kind in (SINT, UINT) for c in self.channels)

    @property
    def is_unorm(self) -> bool:
        """Whether every channel is a fraction, so that blending clamps its factors."""
        return all(c is None or c.kind in (UNORM, SRGB) for c in self.channels)

    @property
    def is_snorm(self) -> bool:
        """Whether every channel is a signed fraction."""
        return all(c is None or c.kind == SNORM for c in self.channels)

    def table(self) -> npt.NDArray[np.int64]:
        """The channels as four rows for compiled stages; an absent channel has no bits."""
        rows = [(c.word, c.shift, c.bits, c.kind) if c else (0, 0, 0, NONE) for c in self.channels]
        return np.array(rows, dtype=np.int64)


def parse(number: int, name: str, layout: str, kind: str) -> Format:
    """A format from its channels' letters and bits, lowest first; ``x`` is padding."""
    at, found = 0, {}
    for part in layout.split():
        letter, bits = part[0], int(part[1:])
        code = _KINDS[kind]
        if code == SRGB and letter == "a":
            code = UNORM
        found[letter] = Channel(at // 32, at % 32, bits, code)
        at += bits
    r, g, b, a = (found.get(letter) for letter in "rgba")
    return Format(number, name, at // 8, (r, g, b, a))


_ROWS = """
C0 RGBA32_FLOAT r32 g32 b32 a32 float
C1 RGBA32_SINT r32 g32 b32 a32 sint
C2 RGBA32_UINT r32 g32 b32 a32 uint
C3 RGBX32_FLOAT r32 g32 b32 x32 float
C4 RGBX32_SINT r32 g32 b32 x32 sint
C5 RGBX32_UINT r32 g32 b32 x32 uint
C6 RGBA16_UNORM r16 g16 b16 a16 unorm
C7 RGBA16_SNORM r16 g16 b16 a16 snorm
C8 RGBA16_SINT r16 g16 b16 a16 sint
C9 RGBA16_UINT r16 g16 b16 a16 uint
CA RGBA16_FLOAT r16 g16 b16 a16 float
CB RG32_FLOAT r32 g32 float
CC RG32_SINT r32 g32 sint
CD RG32_UINT r32 g32 uint
CE RGBX16_FLOAT r16 g16 b16 x16 float
CF BGRA8_UNORM b8 g8 r8 a8 unorm
D0 BGRA8_SRGB b8 g8 r8 a8 srgb
D1 RGB10_A2_UNORM r10 g10 b10 a2 unorm
D2 RGB10_A2_UINT r10 g10 b10 a2 uint
D5 RGBA8_UNORM r8 g8 b8 a8 unorm
D6 RGBA8_SRGB r8 g8 b8 a8 srgb
D7 RGBA8_SNORM r8 g8 b8 a8 snorm
D8 RGBA8_SINT r8 g8 b8 a8 sint
D9 RGBA8_UINT r8 g8 b8 a8 uint
DA RG16_UNORM r16 g16 unorm
DB RG16_SNORM r16 g16 snorm
DC RG16_SINT r16 g16 sint
DD RG16_UINT r16 g16 uint
DE RG16_FLOAT r16 g16 float
DF BGR10_A2_UNORM b10 g10 r10 a2 unorm
E0 R11G11B10_FLOAT r11 g11 b10 float
E3 R32_SINT r32 sint
E4 R32_UINT r32 uint
E5 R32_FLOAT r32 float
E6 BGRX8_UNORM b8 g8 r8 x8 unorm
E7 BGRX8_SRGB b8 g8 r8 x8 srgb
E8 B5G6R5_UNORM b5 g6 r5 unorm
E9 BGR5_A1_UNORM b5 g5 r5 a1 unorm
EA RG8_UNORM r8 g8 unorm
EB RG8_SNORM r8 g8 snorm
EC RG8_SINT r8 g8 sint
ED RG8_UINT r8 g8 uint
EE R16_UNORM r16 unorm
EF R16_SNORM r16 snorm
F0 R16_SINT r16 sint
F1 R16_UINT r16 uint
F2 R16_FLOAT r16 float
F3 R8_UNORM r8 unorm
F4 R8_SNORM r8 snorm
F5 R8_SINT r8 sint
F6 R8_UINT r8 uint
F7 A8_UNORM a8 unorm
F8 BGR5_X1_UNORM b5 g5 r5 x1 unorm
F9 RGBX8_UNORM r8 g8 b8 x8 unorm
FA RGBX8_SRGB r8 g8 b8 x8 srgb
"""


def _colour_formats() -> dict[int, Format]:
    found = {}
    for row in _ROWS.strip().splitlines():
        number, name, *layout, kind = row.split()
        found[int(number, 16)] = parse(int(number, 16), name, " ".join(layout), kind)
    return found


COLOUR_FORMATS = _colour_formats()


@dataclass(frozen=True, slots=True)
class DepthFormat:
    """A format of depth and stencil: bytes of an element, the lowest bit and the number of bits of each (stencil may have none)."""

    number: int
    name: str
    size: int
    depth_shift: int
    depth_bits: int
    is_float: bool
    stencil_word: int
    stencil_shift: int
    stencil_bits: int
    has_coverage: bool = False
    """Whether its highest byte holds coverage samples' bits (``coverage_samples.py``)."""

    def table(self) -> tuple[int, int, int, int, int, int, int]:
        """The format's numbers for compiled stages."""
        return (
            self.size,
            self.depth_shift,
            self.depth_bits,
            int(self.is_float),
            self.stencil_word,
            self.stencil_shift,
            self.stencil_bits,
        )


DEPTH_FORMATS = {
    f.number: f
    for f in (
        DepthFormat(0x0A, "Z32_FLOAT", 4, 0, 32, True, 0, 0, 0),
        DepthFormat(0x13, "Z16_UNORM", 2, 0, 16, False, 0, 0, 0),
        DepthFormat(0x14, "S8_Z24_UNORM", 4, 8, 24, False, 0, 0, 8),
        DepthFormat(0x15, "Z24_X8_UNORM", 4, 0, 24, False, 0, 0, 0),
        DepthFormat(0x16, "Z24_S8_UNORM", 4, 0, 24, False, 0, 24, 8),
        DepthFormat(0x18, "Z24_C8_UNORM", 4, 0, 24, False, 0, 0, 0, True),
        DepthFormat(0x19, "Z32_S8_X24_FLOAT", 8, 0, 32, True, 1, 0, 8),
    )
}


def colour_format(number: int, register: str) -> Format:
    """The format of a number, for the register that holds it.

    Raises:
        CommandError: there is no such format.
    """
    found = COLOUR_FORMATS.get(number)
    if found is None:
        raise CommandError(f"{register} = {number:#x} is not a colour format of the model")
    return found


def depth_format(number: int) -> DepthFormat:
    """The format of a number of ZETA_FORMAT; raises as :func:`colour_format`."""
    found = DEPTH_FORMATS.get(number)
    if found is None:
        raise CommandError(f"ZETA_FORMAT = {number:#x} is not a depth format of the model")
    return found


# --- numbers ------------------------------------------------------------------------------------------
@compiled
def half_bits(bits: int) -> int:
    """The 16-bit float nearest to a 32-bit float, both given as bits; ties to even."""
    sign, rest = bits >> 16 & 0x8000, bits & 0x7FFFFFFF
    if rest >= 0x7F800000:
        return sign | 0x7C00 | (0x200 if rest > 0x7F800000 else 0)
    if rest >= 0x477FF000:
        return sign | 0x7C00
    if rest < 0x33000001:
        return sign
    exponent = rest >> 23
    mantissa = rest & 0x7FFFFF | 0x800000
    shift = 13 if exponent >= 113 else 126 - exponent
    kept = mantissa >> shift
    left, half = mantissa & (1 << shift) - 1, 1 << shift - 1
    if left > half or (left == half and kept & 1):
        kept += 1
    if exponent >= 113:
        kept += exponent - 113 << 10
    return sign | kept


@compiled
def half_value(bits: int) -> float:
    """The value of a 16-bit float given as bits."""
    exponent, mantissa = bits >> 10 & 31, bits & 0x3FF
    if exponent == 31:
        value = np.inf if mantissa == 0 else np.nan
    elif exponent == 0:
        value = mantissa * 2.0**-24
    else:
        value = (mantissa + 1024) * 2.0 ** (exponent - 25)
    return -value if bits & 0x8000 else value


@compiled
def small_float_bits(value: float, mantissa_bits: int) -> int:
    """A number as an unsigned float with 5 exponent bits; rounds towards zero as the 11- and 10-bit formats do, and keeps NaN."""
    if value != value:
        return 31 << mantissa_bits | 1
    if value <= 0:
        return 0
    largest = (2.0 - 2.0**-mantissa_bits) * 32768.0
    if value > largest:
        return 31 << mantissa_bits if value == np.inf else (31 << mantissa_bits) - 1
    exponent = 0
    scaled = value * 2.0**14
    while scaled >= 2.0 and exponent < 30:
        scaled *= 0.5
        exponent += 1
    if scaled >= 1.0:
        return (exponent + 1 << mantissa_bits) + int((scaled - 1.0) * (1 << mantissa_bits))
    return int(scaled * (1 << mantissa_bits))


@compiled
def small_float_value(bits: int, mantissa_bits: int) -> float:
    """The value of an unsigned float with 5 exponent bits."""
    exponent, mantissa = bits >> mantissa_bits, bits & (1 << mantissa_bits) - 1
    if exponent == 31:
        return np.inf if mantissa == 0 else np.nan
    if exponent == 0:
        return mantissa * 2.0 ** (-14 - mantissa_bits)
    return (mantissa + (1 << mantissa_bits)) * 2.0 ** (exponent - 15 - mantissa_bits)


@compiled_part
def channel_value(raw: int, bits: int, kind: int) -> float:
    """The value of a channel's bits, except for integers and 32-bit floats, whose bits are passed through (:func:`channel_word`)."""
    if kind == UNORM:
        return raw / ((1 << bits) - 1)
    if kind == SRGB:
        c = raw / 255.0
        return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
    if kind == SNORM:
        signed = raw - (1 << bits) if raw >> bits - 1 else raw
        return max(-1.0, signed / ((1 << bits - 1) - 1))
    return half_value(raw) if bits == 16 else small_float_value(raw, bits - 5)


@compiled_part
def passes_bits(bits: int, kind: int) -> bool:
    """Whether a channel's bits are passed through unchanged: integers and 32-bit floats."""
    return kind == SINT or kind == UINT or (kind == FLOAT and bits == 32)


@compiled_part
def channel_word(raw: int, bits: int, kind: int) -> int:
    """The 32-bit word for the bits of an integer or a 32-bit float."""
    signed = raw - (1 << bits) if kind == SINT and raw >> bits - 1 else raw
    return signed & 0xFFFFFFFF


@compiled_part
def channel_bits(value: float, word: int, bits: int, kind: int) -> int:
    """The bits of a number in a channel; ``word`` holds the number's own bits. Integers are clamped."""
    if kind == UNORM or kind == SRGB:
        c = 0.0 if not value > 0.0 else min(value, 1.0)
        if kind == SRGB:
            c = c * 12.92 if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055
        return int(c * ((1 << bits) - 1) + 0.5)
    if kind == SNORM:
        c = 0.0 if value != value else max(-1.0, min(value, 1.0))
        top = (1 << bits - 1) - 1
        scaled = c * top
        return int(scaled + 0.5 if scaled >= 0 else scaled - 0.5) & (1 << bits) - 1
    if kind == FLOAT:
        if bits == 16:
            return half_bits(word)
        return small_float_bits(value, bits - 5) if bits < 16 else word
    if kind == UINT:
        return min(word, (1 << bits) - 1) if bits < 32 else word
    signed = word - (1 << 32) if word >> 31 else word
    if bits < 32:
        signed = max(-(1 << bits - 1), min(signed, (1 << bits - 1) - 1))
    return signed & (1 << bits) - 1


@compiled_part
def load_word(memory: npt.NDArray[np.uint8], at: int, size: int) -> int:
    """A little-endian number of ``size`` bytes, at most four of them."""
    raw = 0
    for i in range(min(size, 4)):
        raw |= int(memory[at + i]) << 8 * i
    return raw


@compiled_part
def store_word(memory: npt.NDArray[np.uint8], at: int, size: int, raw: int) -> None:
    """Store the low bytes of a number, at most four of them."""
    for i in range(min(size, 4)):
        memory[at + i] = raw >> 8 * i & 255


@compiled_part
def load_colour(
    memory: npt.NDArray[np.uint8], at: int, size: int, table: npt.NDArray[np.int64], colour: npt.NDArray[np.float32]
) -> None:
    """Read an element's four channels; absent ones are 0, 0, 0, 1."""
    words = colour.view(np.uint32)
    for i in range(4):
        bits, kind = table[i, 2], table[i, 3]
        if bits == 0:
            colour[i] = 1.0 if i == 3 else 0.0
            continue
        raw = load_word(memory, at + 4 * table[i, 0], size - 4 * table[i, 0])
        raw = raw >> table[i, 1] & (1 << bits) - 1
        if passes_bits(bits, kind):
            words[i] = channel_word(raw, bits, kind)
        else:
            colour[i] = channel_value(raw, bits, kind)


@compiled_part
def store_colour(
    memory: npt.NDArray[np.uint8],
    at: int,
    size: int,
    table: npt.NDArray[np.int64],
    colour: npt.NDArray[np.float32],
    mask: int,
) -> None:
    """Write the channels whose bit is set in the mask; the element's other bits are unchanged."""
    words = colour.view(np.uint32)
    for i in range(4):
        bits = table[i, 2]
        if bits and mask >> i & 1:
            where, left = at + 4 * table[i, 0], size - 4 * table[i, 0]
            raw = channel_bits(colour[i], int(words[i]), bits, table[i, 3])
            field = (1 << bits) - 1 << table[i, 1]
            before = load_word(memory, where, left)
            store_word(memory, where, left, before & ~field | raw << table[i, 1] & field)


@compiled
def _decode(
    elements: npt.NDArray[np.uint8], size: int, table: npt.NDArray[np.int64], out: npt.NDArray[np.float32]
) -> None:
    for i in range(out.shape[0]):
        load_colour(elements, i * size, size, table, out[i])


@compiled
def _encode(
    colours: npt.NDArray[np.float32], size: int, table: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]
) -> None:
    for i in range(colours.shape[0]):
        store_colour(out, i * size, size, table, colours[i], 15)


def decode(elements: npt.NDArray[np.uint8], form: Format) -> npt.NDArray[np.float32]:
    """Decode elements, whose last axis is their bytes, to colours; integers are returned as the bits of floats."""
    shape = elements.shape[:-1]
    out = np.empty((int(np.prod(shape)), 4), dtype=np.float32)
    _decode(np.ascontiguousarray(elements).reshape(-1), form.size, form.table(), out)
    return out.reshape(*shape, 4)


def encode(colours: npt.NDArray[np.float32], form: Format) -> npt.NDArray[np.uint8]:
    """Encode colours as elements, with their bytes as the last axis."""
    shape = colours.shape[:-1]
    flat = np.ascontiguousarray(colours, dtype=np.float32).reshape(-1, 4)
    out = np.zeros(len(flat) * form.size, dtype=np.uint8)
    _encode(flat, form.size, form.table(), out)
    return out.reshape(*shape, form.size)
