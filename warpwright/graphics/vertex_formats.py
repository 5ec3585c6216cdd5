"""Formats of vertex attributes: converts elements in memory to four 32-bit input words of a vertex program.

Bits 19 to 24 of VERTEX_ARRAY_ATTRIB encode the channel sizes, and bits 25 to 27 the channel type (envytools' rnndb).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled
from warpwright.graphics.formats import FLOAT as FLOAT_KIND
from warpwright.graphics.formats import SNORM as SNORM_KIND
from warpwright.graphics.formats import UNORM as UNORM_KIND
from warpwright.graphics.formats import channel_value, load_word
from warpwright.graphics.pushbuffer import CommandError

SNORM, UNORM, SINT, UINT, USCALED, SSCALED, FLOAT = 1, 2, 3, 4, 5, 6, 7
CHANNELS: dict[int, tuple[int, ...]] = {
    0x01: (32, 32, 32, 32),
    0x02: (32, 32, 32),
    0x03: (16, 16, 16, 16),
    0x04: (32, 32),
    0x05: (16, 16, 16),
    0x0A: (8, 8, 8, 8),
    0x0F: (16, 16),
    0x12: (32,),
    0x13: (8, 8, 8),
    0x18: (8, 8),
    0x1B: (16,),
    0x1D: (8,),
    0x30: (10, 10, 10, 2),
    0x31: (11, 11, 10),
}
"""Bits of each channel, lowest first, by the code of the sizes."""
_BGRA = 1 << 31


def channels(word: int, attribute: int) -> tuple[int, ...]:
    """Bits of the channels of a VERTEX_ARRAY_ATTRIB.

    Raises:
        CommandError: the sizes are unknown.
    """
    found = CHANNELS.get(word >> 19 & 0x3F)
    if found is None:
        raise CommandError(f"VERTEX_ARRAY_ATTRIB[{attribute}] = {word:#x}: no vertex format has these sizes")
    return found


def size_of(word: int, attribute: int) -> int:
    """Bytes of an element."""
    return sum(channels(word, attribute)) // 8


@compiled
def _convert(
    memory: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    kind: int,
    out: npt.NDArray[np.uint32],
) -> None:
    """Convert elements; ``places`` holds, for each channel, the byte offset in the element, the lowest bit, the number of bits, and the output channel."""
    result = np.zeros(1, dtype=np.float32)
    bits_of_result = result.view(np.uint32)
    for i in range(len(offsets)):
        if offsets[i] < 0:
            continue
        for c in range(places.shape[0]):
            byte, shift, bits, to = places[c, 0], places[c, 1], places[c, 2], places[c, 3]
            raw = load_word(memory, offsets[i] + byte, (shift + bits + 7) // 8)
            raw = raw >> shift & (1 << bits) - 1
            signed = raw - (1 << bits) if raw >> bits - 1 else raw
            if kind == 3 or kind == 4:
                out[i, to] = (signed if kind == 3 else raw) & 0xFFFFFFFF
                continue
            if kind == 5:
                result[0] = raw
            elif kind == 6:
                result[0] = signed
            elif kind == 1:
                result[0] = channel_value(raw, bits, SNORM_KIND)
            elif kind == 2:
                result[0] = channel_value(raw, bits, UNORM_KIND)
            elif bits == 32:
                out[i, to] = raw
                continue
            else:
                result[0] = channel_value(raw, bits, FLOAT_KIND)
            out[i, to] = bits_of_result[0]


def fetch(
    memory: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], word: int, attribute: int
) -> npt.NDArray[np.uint32]:
    """The elements at memory offsets as words (elements, 4); a negative offset gives zeros, and missing channels are 0, 0, 0, 1."""
    sizes, kind = channels(word, attribute), word >> 25 & 7
    order = (2, 1, 0, 3) if word & _BGRA else (0, 1, 2, 3)
    rows, at = [], 0
    for number, bits in enumerate(sizes):
        # A packed element is one word; in other formats each channel has separate bytes.
        packed = bits not in (8, 16, 32)
        packed = packed or bool({10, 11} & set(sizes))
        rows.append((0 if packed else at // 8, at if packed else 0, bits, order[number]))
        at += bits
    one = 1 if kind in (SINT, UINT) else 0x3F800000
    out = np.zeros((len(offsets), 4), dtype=np.uint32)
    out[:, 3] = np.where(offsets >= 0, one, 0)
    _convert(memory, offsets, np.array(rows, dtype=np.int64), kind, out)
    return out
