"""Tensor maps: descriptions of tensors for bulk copies, validated as an H200's driver does (``engine/tensor_map.py``).

The manual asks for maps at multiples of 64 bytes; the driver writes them anywhere, and ``cuda.core`` keeps them at multiples of 16.
"""

from __future__ import annotations

import ctypes
from typing import Any

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.engine.tensor_map import (
    ELEMENT_BYTES,
    MAX_RANK,
    TENSOR_MAP_BYTES,
    TensorMap,
    TensorMapError,
)
from warpwright.errors import UnsupportedError


def _words(place: int, count: int, type: Any = ctypes.c_uint32) -> tuple[int, ...]:
    return tuple((type * count).from_address(place))


def _write(place: int, kind: int, rank: int, make: Any) -> None:
    """Check what makes a map and write it.

    Raises:
        CudaError: invalid value, with the reason.
    """
    if kind >= len(ELEMENT_BYTES) or not 1 <= rank <= MAX_RANK:
        raise CudaError(results.INVALID_VALUE)
    made: TensorMap = make()
    try:
        made.check()
    except TensorMapError as error:
        raise CudaError(results.INVALID_VALUE, str(error)) from None
    ctypes.memmove(place, made.encode(), TENSOR_MAP_BYTES)


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
) -> None:
    def make() -> TensorMap:
        extent, pitch = tuple(cmemory.words64(sizes, rank)), tuple(cmemory.words64(strides, rank - 1))
        boxes, step = _words(box, rank), _words(steps, rank)
        return TensorMap(address, kind, extent, pitch, boxes, step, interleave, swizzle, promotion, fill)

    _write(place, kind, rank, make)


@entry("cuTensorMapReplaceAddress")
def replace_address(place: int, address: int) -> int | None:
    if address % 16:
        return results.INVALID_VALUE
    cmemory.put64(place, address)
    return None


@entry("cuTensorMapEncodeIm2col")
def encode_im2col(
    place: int,
    kind: int,
    rank: int,
    address: int,
    sizes: int,
    strides: int,
    lower: int,
    upper: int,
    channels: int,
    pixels: int,
    steps: int,
    interleave: int,
    swizzle: int,
    promotion: int,
    fill: int,
) -> None:
    def make() -> TensorMap:
        extent, pitch = tuple(cmemory.words64(sizes, rank)), tuple(cmemory.words64(strides, rank - 1))
        corners = [_words(at, max(rank - 2, 0), ctypes.c_int32) for at in (lower, upper)]
        return TensorMap(
            *(address, kind, extent, pitch, (1,) * rank, _words(steps, rank), interleave, swizzle, promotion, fill),
            *(corners[0], corners[1], channels, pixels),
        )

    _write(place, kind, rank, make)


@entry("cuTensorMapEncodeIm2colWide")
def encode_im2col_wide(*_: Any) -> int:
    raise UnsupportedError("wide im2col tensor maps belong to chips after sm_90")
