"""Textures and surfaces for compiled kernels, in Numba; results equal those of ``sampling.py`` and ``surfaces.py`` bit for bit.

A compiled warp calls :data:`serve`, which handles each lane with ``lane_textures.py`` or ``lane_surfaces.py``. Rare accesses (cubes, queries, reductions) and
faulty ones are passed on to Python (``LAUNCH.texture_slow_path``), which either carries them out or reports the error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from warpwright.engine.abi import LAUNCH, WARP
from warpwright.engine.textures.access_words import (
    AT_OUTSIDE,
    AT_SHAPE,
    LOAD,
    QUERY,
    REDUCE,
    SHAPE_AXES,
    SHAPE_CUBE,
    SHAPE_LAYERED,
    SLOPES,
    TRAP,
)
from warpwright.engine.textures.intrinsics import c_function, call_texture, part, read_64, read_u32, write_64
from warpwright.engine.textures.lane_surfaces import access_surface, is_outside, limits_of, place_of
from warpwright.engine.textures.lane_textures import fetch
from warpwright.engine.textures.positions import level_of_slopes
from warpwright.engine.textures.table import INDEX_BITS, SURFACE, TEXTURE
from warpwright.engine.textures.table_fields import AXES, CUBE, HANDLE, PURPOSE, ROW_BYTES
from warpwright.engine.textures.texels import put_nothing
from warpwright.engine.textures.vector_samples import is_plain_sample, sample_warp

WARP_LAUNCH = WARP["launch"]
ROWS, ROW_COUNT, SLOW_PATH = LAUNCH["textures"], LAUNCH["texture_count"], LAUNCH["texture_slow_path"]
HOST_MINUS_DEVICE = LAUNCH["host_minus_device"]
INDEX = (1 << INDEX_BITS) - 1


@part
def row_of(rows: int, count: int, handle: int, purpose: int) -> int:
    """Address of a live object's row, or 0 if there is none."""
    index = handle & INDEX
    row = rows + ROW_BYTES * index
    if 0 < index < count and read_64(row + HANDLE) == handle and read_64(row + PURPOSE) == purpose:
        return row
    return np.int64(0)


@part
def is_common(row: int, request: int, words: int) -> bool:
    """Whether compiled code can carry out one lane's access: it is neither rare nor faulty."""
    shape, what = request >> AT_SHAPE & 7, request & 15
    if what >= REDUCE:
        return False
    if what >= LOAD:
        x, y, z, _ = place_of(row, request, words)
        _, most_x, most_y, most_z = limits_of(row, request)
        trapped = request >> AT_OUTSIDE & 3 == TRAP and is_outside(x, y, z, most_x, most_y, most_z)
        return most_x >= 0 and shape != SHAPE_CUBE and not trapped
    if what == QUERY or read_64(row + CUBE) or SHAPE_AXES[shape] != read_64(row + AXES):
        return False
    if what == SLOPES:
        slopes = words + 128 * ((2 if shape >= SHAPE_LAYERED else 1) + SHAPE_AXES[shape])
        return not math.isnan(level_of_slopes(row, slopes, SHAPE_AXES[shape]))
    return True


@part
def serve_lanes(launch: int, lanes: int, request: int, values: int, addresses: int) -> bool:
    """Carry out a warp's accesses; returns False if Python must do it, in which case nothing has been stored and no word changed."""
    rows, count, to_host = read_64(launch + ROWS), read_64(launch + ROW_COUNT), read_64(launch + HOST_MINUS_DEVICE)
    what = request & 15
    on_surface = what >= LOAD
    purpose = SURFACE if on_surface else TEXTURE
    every_lane = on_surface or what == SLOPES
    known, row, objects = np.int64(-1), np.int64(0), 0
    for lane in range(32):
        words = values + 4 * lane
        # For most accesses the handle alone determines their kind.
        if lanes >> lane & 1 and (every_lane or read_u32(words) != known):
            known = read_u32(words)
            row = row_of(rows, count, known, purpose)
            objects += 1
            if row == 0 or not is_common(row, request, words):
                return False
    if objects == 1 and is_plain_sample(row, request):
        sample_warp(row, lanes, values, addresses, to_host)
        return True
    for lane in range(32):
        words = values + 4 * lane
        first = np.int64(0)
        if lanes >> lane & 1:
            if read_u32(words) != known:
                known = read_u32(words)
                row = row_of(rows, count, known, purpose)
            if on_surface:
                first = access_surface(row, request, words, to_host)
            else:
                first = fetch(row, request, words, to_host)
        else:
            put_nothing(words)
        write_64(addresses + 8 * lane, first)
    return True


@c_function(types.void(types.int64, types.uint32, types.int64, types.int64, types.int64, types.int64))
def serve(warp: Any, lanes: Any, request: Any, values: Any, addresses: Any, instruction: Any) -> None:
    """``LAUNCH.texture`` (``engine/abi.py``)."""
    launch = read_64(warp + WARP_LAUNCH)
    if not serve_lanes(launch, np.int64(lanes), request, values, addresses):
        call_texture(read_64(launch + SLOW_PATH), warp, np.int64(lanes), request, values, addresses, instruction)
