"""Tensor maps (CUtensorMap): the 128 bytes that describe a tensor in global memory and the box that one copy moves.

The encoding is the driver's own on an H200, read off maps that differ in one argument each (``tests/data/tensor_maps.json``)
and off the machine code that ptxas makes of ``tensormap.replace``: address; flags (im2col, rank, type, interleave, swizzle, fill,
tf32, promotion into L2); strides in units of 16 bytes (36 bits); sizes less one; steps less one (3 bits each); box sizes less
one (a byte each), or of im2col channels less one, the corners of the pixel box (16, 8 or 5 bits each by rank) and pixels
less one; bytes of the box; what the swizzle repeats after.
Constraints: CUDA Driver API, ``cuTensorMapEncodeTiled`` and ``cuTensorMapEncodeIm2col``; where it says less or more than the driver does, an
H200's answers to 8,000 random maps (``bench/driver_answers.py``).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from warpwright.errors import ArgumentError

TENSOR_MAP_BYTES = 128
ALIGNMENT_BYTES = 64
MAX_RANK = 5
ELEMENT_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz")
"""By CUtensorMapDataType."""
ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
FILLS = ("zeros", "nan")
FIRST_FLOAT_TYPE = 6
MOST_BOX_BYTES = 227 << 10
"""What a copy may move: a block's shared memory.  An H200's driver takes boxes of 215,040 bytes and none of 236,544 (``bench/driver_answers.py``)."""
_IM2COL_AT, _RANK_AT, _TYPE_AT, _INTERLEAVE_AT, _SWIZZLE_AT, _FILL_AT, _TF32_AT, _PROMOTION_AT = (
    0,
    4,
    7,
    11,
    13,
    15,
    16,
    17,
)
_STRIDES, _HIGH, _SIZES, _STEPS, _BOX, _CORNERS, _PIXELS, _BYTES, _PERIOD = (
    0x0C,
    0x1C,
    0x20,
    0x34,
    0x37,
    0x38,
    0x3C,
    0x40,
    0x48,
)
_HARDWARE_TYPES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 7, 8)
"""By CUtensorMapDataType: the field's value; tf32 is f32 with a flag."""
_CORNER_BITS = {3: 16, 4: 8, 5: 5}


class TensorMapError(ValueError):
    """A tensor that no map can describe."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A decoded tensor map.  Lists begin with the innermost dimension."""

    address: int
    type: int
    """Index in ``ELEMENT_TYPES``."""
    sizes: tuple[int, ...]
    """Elements by dimension."""
    strides: tuple[int, ...]
    """Bytes between neighbours along each dimension but the innermost."""
    box: tuple[int, ...]
    """Elements of the box by dimension (tiles)."""
    steps: tuple[int, ...]
    """Elements between two that are copied."""
    interleave: int = 0
    swizzle: int = 0
    promotion: int = 0
    fill: int = 0
    lower: tuple[int, ...] | None = None
    """im2col: lower corner of the box of pixels, by dimension from the second innermost on, the outermost left out."""
    upper: tuple[int, ...] = ()
    """Its upper corner, from the tensor's end."""
    channels: int = 0
    """im2col: elements of a pixel that are copied."""
    pixels: int = 0
    """im2col: pixels that are copied."""

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.type]

    def check(self) -> None:
        """Refuse what the driver refuses.

        Raises:
            TensorMapError: names the value and what it must be.
        """
        rank = self.rank

        def need(holds: bool, what: str) -> None:
            if not holds:
                raise TensorMapError(what)

        need(1 <= rank <= MAX_RANK, f"a tensor map has one to five dimensions, not {rank}")
        need(self.address % 16 == 0, f"the tensor's address {self.address:#x} is not a multiple of 16 bytes")
        need(len(self.strides) == rank - 1, f"{rank} dimensions have {rank - 1} strides, not {len(self.strides)}")
        need(len(self.steps) == rank, f"{rank} dimensions have {rank} element strides, not {len(self.steps)}")
        for size in self.sizes:
            need(1 <= size <= 1 << 32, f"a dimension of {size:,} elements: it must be 1 to 2**32")
        for stride in self.strides:
            need(
                stride % 16 == 0 and 0 <= stride < 1 << 40,
                f"a stride of {stride:,} bytes: it must be a multiple of 16 below 2**40",
            )
        for step in self.steps:
            need(1 <= step <= 8, f"an element stride of {step}: it must be 1 to 8")
        for name, value, most in (
            *(("interleave", self.interleave, 2), ("swizzle", self.swizzle, 3), ("promotion", self.promotion, 3)),
            ("fill", self.fill, 1),
        ):
            need(0 <= value <= most, f"{name} {value}: it must be 0 to {most}")
        need(
            not self.fill or self.type >= FIRST_FLOAT_TYPE, f"NaN fills no elements of type {ELEMENT_TYPES[self.type]}"
        )
        span = 16 << self.swizzle
        if self.interleave:
            unit = self.unit_bytes
            need(rank >= 3, f"an interleaved tensor has three to five dimensions, not {rank}")
            need(self.address % unit == 0, f"the tensor's address {self.address:#x} is not a multiple of {unit} bytes")
            for stride in self.strides:
                need(stride % unit == 0, f"a stride of {stride:,} bytes: it must be a multiple of {unit}")
        if self.lower is None:
            need(len(self.box) == rank, f"{rank} dimensions have {rank} box sizes, not {len(self.box)}")
            for size in self.box:
                need(1 <= size <= 256, f"a box of {size} elements along a dimension: it must be 1 to 256")
            inner = self.box[0] * self.element_bytes
        else:
            need(rank >= 3, f"im2col needs three to five dimensions, not {rank}")
            need(1 <= self.channels <= 256, f"{self.channels} channels of a pixel: they must be 1 to 256")
            need(1 <= self.pixels <= 1024, f"{self.pixels} pixels of a column: they must be 1 to 1,024")
            self._check_corners(need)
            inner = self.channels * self.element_bytes
        need(
            self.box_bytes <= MOST_BOX_BYTES,
            f"a box of {self.box_bytes:,} bytes: no more than {MOST_BOX_BYTES:,} can be",
        )
        need(inner % 16 == 0, f"the box's inner dimension has {inner} bytes: they must be a multiple of 16")
        need(
            not self.swizzle or self.interleave > 0 or inner <= span,
            f"the box's inner dimension has {inner} bytes, more than the swizzle's {span}",
        )

    def _check_corners(self, need: Callable[[bool, str], None]) -> None:
        """The corners of im2col's pixel box: each in its field, and some pixel between them."""
        assert self.lower is not None
        width = _CORNER_BITS[self.rank]
        least, most = -(1 << width - 1), (1 << width - 1) - 1
        for corner in (*self.lower, *self.upper):
            need(
                least <= corner <= most,
                f"a corner at {corner:,}: with {self.rank} dimensions it must be {least} to {most}",
            )
        pixels = self.sizes[0 if self.interleave else 1 :]
        for size, low, high in zip(pixels, self.lower, self.upper, strict=False):
            need(size + high - low > 0, f"there is no pixel between the corners {low} and {high} of {size:,}")

    @property
    def box_bytes(self) -> int:
        """Bytes that the map says a copy moves: of boxes without what steps leave, cut off."""
        if self.lower is not None:
            return self.channels * self.pixels * self.element_bytes
        return prod(b // s for b, s in zip(self.box, self.steps, strict=True)) * self.element_bytes

    @property
    def unit_bytes(self) -> int:
        """Bytes of channels that are together in an interleaved tensor."""
        return 16 * self.interleave

    def unfolded(self) -> TensorMap:
        """The map that moves the same bytes without interleaving, with one dimension more: the bytes of a unit.

        The dimensions of an interleaved map are width, height and depth (as far as it has them) in units, slices of
        channels, images.  A copy moves one slice, whatever box or number of channels the map gives (an H200, all of 1,000
        random maps: ``bench/silicon/interleaved.py``).
        """
        box, steps, slices = list(self.box), list(self.steps), self.rank - 2
        box[slices] = steps[slices] = 1
        unit = self.unit_bytes
        return replace(
            self,
            type=0,
            sizes=(unit, *self.sizes),
            strides=(unit, *self.strides),
            box=(unit, *box),
            steps=(1, *steps),
            interleave=0,
            channels=unit,
        )

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that a copy moves, by dimension: of a box, or channels and pixels."""
        if self.lower is not None:
            return self.channels, self.pixels
        return self.box[0], *(-(-b // s) for b, s in zip(self.box[1:], self.steps[1:], strict=True))

    def encode(self) -> bytes:
        """The 128 bytes."""
        rank = self.rank
        raw = bytearray(TENSOR_MAP_BYTES)
        flags = int(self.lower is not None) << _IM2COL_AT | rank - 1 << _RANK_AT
        flags |= _HARDWARE_TYPES[self.type] << _TYPE_AT | int(self.type >= 11) << _TF32_AT
        flags |= self.interleave << _INTERLEAVE_AT | self.swizzle << _SWIZZLE_AT
        flags |= self.fill << _FILL_AT | self.promotion << _PROMOTION_AT
        struct.pack_into("<QI", raw, 0, self.address, flags)
        high = 0
        for n, stride in enumerate(self.strides):
            struct.pack_into("<I", raw, _STRIDES + 4 * n, stride >> 4 & 0xFFFF_FFFF)
            high |= (stride >> 36) << 4 * n
        struct.pack_into("<I", raw, _HIGH, high)
        for n, size in enumerate(self.sizes):
            struct.pack_into("<I", raw, _SIZES + 4 * n, size - 1)
        struct.pack_into("<H", raw, _STEPS, sum(step - 1 << 3 * n for n, step in enumerate(self.steps)))
        if self.lower is None:
            for n, size in enumerate(self.box):
                raw[_BOX + n] = size - 1
        else:
            raw[_BOX] = self.channels - 1
            width = _CORNER_BITS[rank]
            for half, corners in enumerate((self.lower, self.upper)):
                packed = sum((c & (1 << width) - 1) << width * n for n, c in enumerate(corners))
                struct.pack_into("<H", raw, _CORNERS + 2 * half, packed)
            struct.pack_into("<I", raw, _PIXELS, self.pixels - 1)
        struct.pack_into("<I", raw, _BYTES, self.box_bytes)
        struct.pack_into("<I", raw, _PERIOD, 128 << self.swizzle if self.swizzle else 16)
        return bytes(raw)


def decode(raw: bytes) -> TensorMap:
    """The tensor map that 128 bytes describe."""
    address, flags = struct.unpack_from("<QI", raw, 0)
    rank = (flags >> _RANK_AT & 7) + 1
    high = struct.unpack_from("<I", raw, _HIGH)[0]
    low = struct.unpack_from("<4I", raw, _STRIDES)
    steps = struct.unpack_from("<H", raw, _STEPS)[0]
    kind = _HARDWARE_TYPES.index(flags >> _TYPE_AT & 15)
    if flags >> _TF32_AT & 1:
        kind = {7: 11, 10: 12}.get(kind, kind)
    lower: tuple[int, ...] | None = None
    upper: tuple[int, ...] = ()
    channels = pixels = 0
    if flags >> _IM2COL_AT & 1:
        width = _CORNER_BITS[rank]

        def corners(at: int) -> tuple[int, ...]:
            packed = struct.unpack_from("<H", raw, at)[0]
            found = (packed >> width * n & (1 << width) - 1 for n in range(rank - 2))
            return tuple(c - (1 << width) if c >> width - 1 else c for c in found)

        lower, upper = corners(_CORNERS), corners(_CORNERS + 2)
        channels, pixels = raw[_BOX] + 1, struct.unpack_from("<I", raw, _PIXELS)[0] + 1
    return TensorMap(
        address=address,
        type=kind,
        sizes=tuple(n + 1 for n in struct.unpack_from(f"<{rank}I", raw, _SIZES)),
        strides=tuple((low[n] | (high >> 4 * n & 15) << 32) << 4 for n in range(rank - 1)),
        box=tuple(raw[_BOX + n] + 1 for n in range(rank)) if lower is None else (1,) * rank,
        steps=tuple((steps >> 3 * n & 7) + 1 for n in range(rank)),
        interleave=flags >> _INTERLEAVE_AT & 3,
        swizzle=flags >> _SWIZZLE_AT & 3,
        promotion=flags >> _PROMOTION_AT & 3,
        fill=flags >> _FILL_AT & 1,
        lower=lower,
        upper=upper,
        channels=channels,
        pixels=pixels,
    )


_DTYPES = {
    **{"uint8": 0, "int8": 0, "bool": 0, "uint16": 1, "int16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5},
    **{"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9, "float8_e4m3fn": 0, "float8_e5m2": 0},
}


def describe(
    address: int,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    box: Sequence[int],
    swizzle_bytes: int,
    steps: Sequence[int] | None,
    fill: str,
) -> bytes:
    """The map of a C-contiguous array; shapes in the array's order.

    Raises:
        ArgumentError: names the invalid value.
    """
    if dtype.name not in _DTYPES:
        raise ArgumentError(f"a tensor map has no elements of type {dtype}")
    if swizzle_bytes not in (0, 32, 64, 128) or fill not in FILLS:
        raise ArgumentError(
            f"swizzle={swizzle_bytes!r} and fill={fill!r}: they are 0, 32, 64 or 128, and one of {FILLS}"
        )
    sizes = tuple(int(n) for n in reversed(shape))
    strides = tuple(int(dtype.itemsize * np.prod(sizes[: n + 1], dtype=np.int64)) for n in range(len(sizes) - 1))
    made = TensorMap(
        address,
        _DTYPES[dtype.name],
        sizes,
        strides,
        tuple(int(n) for n in reversed(box)),
        tuple(int(n) for n in reversed(steps)) if steps is not None else (1,) * len(sizes),
        swizzle=(0, 32, 64, 128).index(swizzle_bytes),
        fill=FILLS.index(fill),
    )
    try:
        made.check()
    except TensorMapError as error:
        raise ArgumentError(str(error)) from None
    return made.encode()
