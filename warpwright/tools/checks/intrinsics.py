"""LLVM intrinsics of the checks in addition to ``native/intrinsics.py``, and the compilation of their code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llvmlite import ir

from warpwright.native.direct import Entry
from warpwright.native.intrinsics import WORD, Piece, Word
from warpwright.timing import SOURCES


def entry(function: Any, *, what: str) -> Any:
    """A function of the checks that Python calls with host pointers; indices are not checked, because it creates its arrays from pointers itself."""
    return Entry(function, what, (*SOURCES, Path(__file__).parent))


@Piece
def array_at(builder: Any, address: Any) -> Word:
    """The array of int64 at a host address."""
    return builder.inttoptr(address, WORD.as_pointer())


@Piece
def highest_bit(builder: Any, value: Any) -> Word:
    """Position of the highest set bit; the value is not 0."""
    return builder.sub(WORD(63), builder.ctlz(value, ir.Constant(ir.IntType(1), 1)))
