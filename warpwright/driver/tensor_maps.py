"""Tensor maps: descriptions of tensors for bulk copies, validated as an H200's driver does (``engine/tensor_map.py``).

The manual asks for maps at multiples of 64 bytes; the driver writes them anywhere, and ``cuda.core`` keeps them at multiples of 16.
"""

from __future__ import annotations

import ctypes
from collections import namedtuple
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


def _extent(call: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Elements of each dimension, and strides in bytes of each dimension except the first."""
    return tuple(cmemory.words64(call.sizes, call.rank)), tuple(cmemory.words64(call.strides, call.rank - 1))


def _write(place: int, kind: int, rank: int, make: Any) -> None:
    """Check the parameters of a map and write it.

    Raises:
        CudaError: a value is invalid; with the reason.
    """
    if kind >= len(ELEMENT_BYTES) or not 1 <= rank <= MAX_RANK:
        raise CudaError(results.INVALID_VALUE)
    made: TensorMap = make()
    try:
        made.check()
    except TensorMapError as error:
        raise CudaError(results.INVALID_VALUE, str(error)) from None
    ctypes.memmove(place, made.encode(), TENSOR_MAP_BYTES)


EncodeTiled = namedtuple(
    "EncodeTiled", "place kind rank address sizes strides box steps interleave swizzle promotion fill"
)
"""Arguments of cuTensorMapEncodeTiled."""


@entry("cuTensorMapEncodeTiled", record=EncodeTiled)
def encode_tiled(call: EncodeTiled) -> None:
    def make() -> TensorMap:
        extent, pitch = _extent(call)
        boxes, step = _words(call.box, call.rank), _words(call.steps, call.rank)
        where = call.address, call.kind, extent, pitch, boxes, step
        return TensorMap(*where, call.interleave, call.swizzle, call.promotion, call.fill)

    _write(call.place, call.kind, call.rank, make)


@entry("cuTensorMapReplaceAddress")
def replace_address(place: int, address: int) -> int | None:
    if address % 16:
        return results.INVALID_VALUE
    cmemory.put64(place, address)
    return None


EncodeIm2col = namedtuple(
    "EncodeIm2col",
    "place kind rank address sizes strides lower upper channels pixels steps interleave swizzle promotion fill",
)
"""Arguments of cuTensorMapEncodeIm2col."""


@entry("cuTensorMapEncodeIm2col", record=EncodeIm2col)
def encode_im2col(call: EncodeIm2col) -> None:
    def make() -> TensorMap:
        extent, pitch = _extent(call)
        corners = [_words(at, max(call.rank - 2, 0), ctypes.c_int32) for at in (call.lower, call.upper)]
        return TensorMap(
            *(call.address, call.kind, extent, pitch, (1,) * call.rank, _words(call.steps, call.rank)),
            *(call.interleave, call.swizzle, call.promotion, call.fill, *corners, call.channels, call.pixels),
        )

    _write(call.place, call.kind, call.rank, make)


@entry("cuTensorMapEncodeIm2colWide")
def encode_im2col_wide(*_: Any) -> int:
    raise UnsupportedError("wide im2col tensor maps belong to chips after sm_90")
