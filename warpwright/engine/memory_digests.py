"""Digests of memory: detect changes several times as fast as a cryptographic digest.

32 words at a time are mixed into a state of 32 words: ``s = (s ^ word) * odd; s ^= s >> 29``. Each step is invertible, so contents that differ in one word
never have the same digest; those that differ in several have the same digest with a probability of 2**-64.
"""

from __future__ import annotations

import hashlib
from types import FunctionType
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from warpwright.native.direct import Entry, bare
from warpwright.native.intrinsics import WORD, Piece

ROW_WORDS = 32
ROW_BYTES = 8 * ROW_WORDS
ODD = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio."""


@Piece
def mix(builder: Any, state: Any, row: Any) -> None:
    """Mix 32 words at a host address into those at another."""
    kind = ir.VectorType(WORD, ROW_WORDS)
    place = builder.inttoptr(state, ir.PointerType())
    words = builder.load(builder.inttoptr(row, ir.PointerType()), align=1, typ=kind)
    mixed = builder.mul(
        builder.xor(builder.load(place, align=8, typ=kind), words), ir.Constant(kind, [ODD] * ROW_WORDS)
    )
    builder.store(builder.xor(mixed, builder.lshr(mixed, ir.Constant(kind, [29] * ROW_WORDS))), place, align=8)


def _mix_rows(given: Any) -> int:
    """Mix rows of 32 words; ``given`` holds the host addresses of the state and of the first row, and the number of rows."""
    state, row = given[0], given[1]
    for n in range(given[2]):
        mix(state, row + n * ROW_BYTES)
    return 0


mix_rows = Entry(cast(FunctionType, _mix_rows), "the digests of memory")
"""Its argument is a host address, so indices are never checked."""


def digest(memory: npt.NDArray[np.uint8]) -> bytes:
    """A digest of 16 bytes."""
    rows = len(memory) // ROW_BYTES
    state = np.arange(ROW_WORDS, dtype=np.int64)
    given = np.array([state.ctypes.data, memory.ctypes.data, rows], np.int64)
    bare(mix_rows)(given.ctypes.data)
    rest = memory[rows * ROW_BYTES :].tobytes()
    return hashlib.blake2b(state.tobytes() + rest, digest_size=16).digest()
