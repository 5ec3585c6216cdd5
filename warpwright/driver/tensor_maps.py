"""Tensor maps: descriptions of tensors for bulk copies, checked as the driver's manual asks.

The 128 bytes are opaque to programs; ours hold the arguments as they were given, for the engine to read.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from warpwright.driver import c, results
from warpwright.driver.calls import entry
from warpwright.errors import UnsupportedError

TENSOR_MAP_BYTES = 128
ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""By CUtensorMapDataType."""
_LAYOUT = struct.Struct("<QBBBBBB2x5I4Q5H5H")
"""Address, type, rank, interleave, swizzle, L2 promotion, fill; sizes less one, strides, box, steps."""


@entry("cuTensorMapEncodeTiled")
def encode_tiled(
    place: int,
    kind: int,
    rank: int,
    address: int,
    sizes: int,
    strides: int,
    box: int,
    steps: int,
    interleave: int,
    swizzle: int,
    promotion: int,
    fill: int,
) -> int | None:
    if kind >= len(ELEMENT_BYTES) or not 1 <= rank <= 5 or place % 64 or address % 16:
        return results.INVALID_VALUE
    extent = c.words64(sizes, rank)
    pitch = c.words64(strides, rank - 1)
    boxes = list((ctypes.c_uint32 * rank).from_address(box))
    step = list((ctypes.c_uint32 * rank).from_address(steps))
    wrong = any(not 1 <= n <= 1 << 32 for n in extent) or any(p % 16 or p >= 1 << 40 for p in pitch)
    wrong |= any(not 1 <= n <= 256 for n in boxes) or any(not 1 <= n <= 8 for n in step)
    wrong |= interleave == 0 and boxes[0] * ELEMENT_BYTES[kind] % 16 != 0
    if wrong:
        return results.INVALID_VALUE

    def five(values: list[int], filler: int) -> list[int]:
        return [*values, *[filler] * (5 - len(values))]

    raw = _LAYOUT.pack(
        *(address, kind, rank, interleave, swizzle, promotion, fill),
        *(n - 1 for n in five(extent, 1)),
        *[*pitch, 0, 0, 0, 0][:4],
        *five(boxes, 1),
        *five(step, 1),
    )
    ctypes.memmove(place, raw.ljust(TENSOR_MAP_BYTES, b"\0"), TENSOR_MAP_BYTES)
    return None


@entry("cuTensorMapReplaceAddress")
def replace_address(place: int, address: int) -> int | None:
    if address % 16:
        return results.INVALID_VALUE
    c.put64(place, address)
    return None


@entry("cuTensorMapEncodeIm2col", "cuTensorMapEncodeIm2colWide")
def encode_im2col(*_: Any) -> int:
    raise UnsupportedError("im2col tensor maps are not modelled; use tiled ones")
