"""Digests of warps' states, in machine code: a state has hundreds of words, and a launch that is watched has thousands of warps."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.native import direct
from warpwright.native.intrinsics import shift_right


@partial(direct.entry, what="")
def digest_rows(memory: Any, rows: Any, places: Any, factors: Any, digests: Any, count: int, words: int) -> int:
    """Sum up the mixed words of each state, which are at ``rows[i] + places[n]`` in ``memory``."""
    for i in range(count):
        first = rows[i]
        total = 0
        for n in range(words):
            word = memory[first + places[n]]
            word = (word ^ shift_right(word, 32)) * factors[n]
            total += word ^ shift_right(word, 29)
        digests[i] = total
    return 0


def digests_of(
    memory: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], places: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Digests of states, shape (states,).

    Args:
        memory: contiguous words.
        rows: index of each state's first word in ``memory``.
        places: a state's words, counted from its first.
    """
    digests = np.zeros(len(rows), np.int64)
    digest_rows(
        memory, np.ascontiguousarray(rows), places, factors_of(len(places)), digests, len(rows), len(places)
    )  # fmt: skip
    return digests


@cache
def factors_of(count: int) -> npt.NDArray[np.int64]:
    """Odd multipliers, one for each word of a state."""
    return np.random.Generator(np.random.PCG64(count)).integers(0, 1 << 64, count, np.uint64).view(np.int64) | 1
