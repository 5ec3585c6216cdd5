"""Surface loads, stores and reductions in NumPy.

Unformatted accesses transfer bytes unchanged, and x counts bytes. Formatted stores (``sust.p``) take one word per channel and convert it: halves are truncated
and integers clamped, as on an H200. Reductions operate on integers; a formatted one operates on whole elements of the surface's format.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine import numerics
from warpwright.engine.textures.table import FLOAT, SIGNED, Level
from warpwright.isa.texture_access import (
    CLAMP,
    LOAD,
    REDUCE,
    REDUCE_FORMATTED,
    REDUCTIONS,
    STORE_FORMATTED,
    TRAP,
    TextureAccess,
)

Array = npt.NDArray[Any]
COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    **{"ADD": np.add, "MIN": np.minimum, "MAX": np.maximum, "AND": np.bitwise_and, "OR": np.bitwise_or},
}
ONE_REDUCTION = threading.Lock()
"""Held during a read-modify-write."""


@dataclass
class Outcome:
    """The outcome for some lanes: loaded words (4, lanes), addresses (0 if nothing is accessed), the lanes that trap, and their places (bytes, y, z)."""

    words: Array
    first: Array
    outside: Array
    places: tuple[Array, Array, Array]

    def place(self, lane: int) -> int:
        """Unpack a lane's coordinates, 21 bits each."""
        return sum((int(p[lane]) & 0x1FFFFF) << 21 * n for n, p in enumerate(self.places))


def access_surface(
    row: dict[str, Any],
    memory: npt.NDArray[np.uint8],
    base: int,
    access: TextureAccess,
    words: Sequence[Array],
    mask: Array,
) -> Outcome:
    """Carry out the access for the lanes of ``mask``; nothing is stored if one of them traps."""
    level: Level = row["level"][0]
    element = row["channel_bytes"] * row["channels"]
    size = element if access.request == STORE_FORMATTED else access.size
    rest = [w.view(np.int32).astype(np.int64) for w in words]
    z = rest.pop(0) if access.layered else np.zeros(32, np.int64)
    x, *others = rest[: access.axes]
    data = rest[access.axes :]
    y = others[0] if others else np.zeros(32, np.int64)
    if access.shape == "3D":
        z = others[1]
    x = x * element if access.formatted else x
    limits = (level.width * element - size, level.height - 1, level.depth - 1)
    outside = np.zeros(32, np.bool_)
    for number, limit in zip((x, y, z), limits, strict=True):
        outside |= (number < 0) | (number > limit)
    places = (x, y, z)
    if access.outside == CLAMP:
        x, y, z = (np.clip(n, 0, limit) for n, limit in zip((x, y, z), limits, strict=True))
        x = x // size * size
        outside[:] = False
    active = mask & ~outside
    first = np.where(active, level.address + z * level.slice_bytes + y * level.row_bytes + x, 0)
    result = np.zeros((4, 32), np.uint32)
    trapped = outside & mask if access.outside == TRAP else np.zeros(32, np.bool_)
    lanes = np.flatnonzero(active)
    if trapped.any() or not len(lanes):
        return Outcome(result, first, trapped, places)
    at = (first - base)[lanes, None] + np.arange(size)
    if access.request == LOAD:
        raw = np.zeros((len(lanes), 16), np.uint8)
        raw[:, :size] = memory[at]
        result[:, lanes] = raw.view(np.uint32).T
        return Outcome(result, first, trapped, places)
    if access.request in (REDUCE, REDUCE_FORMATTED):
        signed = row["kind"] == SIGNED if access.formatted else access.signed
        words = [d[lanes].astype(np.uint32) for d in data[: size // 4]]
        reduce(memory, at, np.stack(words, 1).view(f"{'i' if signed else 'u'}{size}")[:, 0], access.reduction)
        return Outcome(result, first, trapped, places)
    if access.request == STORE_FORMATTED:
        raw = converted(row, [d[lanes] for d in data])
    else:
        count = max(size // 4, 1)
        raw = np.stack([d[lanes].astype(np.uint32) for d in data[:count]], 1).view(np.uint8)
    memory[at] = raw[:, :size]
    return Outcome(result, first, trapped, places)


def reduce(memory: npt.NDArray[np.uint8], at: Array, values: Array, reduction: int) -> None:
    """Combine the numbers in memory, whose bytes are ``at`` [lane, byte], with each lane's value."""
    combine = COMBINE[REDUCTIONS[reduction]]
    with ONE_REDUCTION:
        for place, value in zip(at, values[:, None], strict=True):
            memory[place] = combine(memory[place].view(values.dtype), value).view(np.uint8)


def converted(row: dict[str, Any], data: Sequence[Array]) -> npt.NDArray[np.uint8]:
    """Elements of a formatted store, shape (lanes, bytes)."""
    size, kind = row["channel_bytes"], row["kind"]
    channels = []
    for n in range(row["channels"]):
        word = (data[n] if n < len(data) else np.zeros_like(data[0])).astype(np.uint32)
        if kind == FLOAT:
            value = word.view(np.float32)
            # Every NaN becomes the NaN that the SM's conversions to half produce.
            half = np.where(np.isnan(value), np.uint16(0x7FFF), numerics.fcvt("f32", "f16", word, "rz"))
            channels.append(value if size == 4 else half.view(np.float16))
        elif kind == SIGNED:
            limit = 1 << 8 * size - 1
            channels.append(np.clip(word.view(np.int32).astype(np.int64), -limit, limit - 1).astype(f"i{size}"))
        else:
            channels.append(np.minimum(word.astype(np.int64), (1 << 8 * size) - 1).astype(f"u{size}"))
    return np.ascontiguousarray(np.stack(channels, 1)).view(np.uint8)
