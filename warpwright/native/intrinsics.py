"""Markers of native functions, and their intrinsics beyond arrays: raw memory, calls by address, bit counts.

``core`` marks a function that others call.  ``direct.entry`` makes machine code of it straight from its source; ``numba_entry.py`` has Numba compile it
(``by_numba.py``): for the checks, for tests and with checked indices (``WARPWRIGHT_BOUNDSCHECK=1``, without a cache), which is
the second opinion on the other way.  Numba is loaded when one of those is called.  Its cache is in a folder named by a digest of all
sources: Numba itself looks only at the function's own file, and a constant that changes in another one would leave stale code behind.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import llvmlite.binding as llvm
from llvmlite import ir

from warpwright.toolchain.cache import default_folder

F = TypeVar("F", bound=Callable[..., Any])
BOUNDSCHECK = os.environ.get("WARPWRIGHT_BOUNDSCHECK", "") not in ("", "0")


@cache
def source_digest(sources: tuple[Path, ...] = ()) -> str:
    """Digest of this package's files and of others: files, or folders of them."""
    digest = hashlib.sha256()
    for place in (Path(__file__).parent, *sources):
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def cache_folder(version: str, sources: tuple[Path, ...] = ()) -> Path:
    """Where a version of Numba keeps compiled code of exactly these sources."""
    return default_folder() / "numba" / f"{version}-{source_digest(sources)[:16]}"


class Part:
    """A function that only compiled code calls."""

    def __init__(self, function: Any, boundscheck: bool) -> None:
        self.py_func = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.boundscheck = boundscheck


def core(function: F, *, boundscheck: bool = BOUNDSCHECK) -> F:
    """Mark a function that only other compiled functions call."""
    return cast(F, Part(function, boundscheck))


def apart(function: F) -> F:
    """As ``core``, and never a part of its callers: a loop around rare work keeps its variables in registers."""
    function.apart = True  # type: ignore[attr-defined]
    return core(function)


class Piece:
    """A piece of LLVM code that functions call: ``definition(builder, *values)`` writes it.

    Its values are int64, or pointers to them; its annotation says the result: None, a Word, an Index (unsigned) or a Pair of words.
    """

    def __init__(self, definition: Callable[..., Any]) -> None:
        self.definition = definition
        self.result: str = definition.__annotations__["return"]

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.definition.__name__} is for compiled code")


Word: TypeAlias = Any
Index: TypeAlias = Any
Pair: TypeAlias = tuple[Any, Any]
WORD = ir.IntType(64)


@cache
def has_feature(name: str) -> bool:
    """Whether the processor for which code is made has what LLVM calls so."""
    return bool(llvm.get_host_cpu_features().get(name, False))


def declared(builder: Any, kind: ir.FunctionType, name: str) -> ir.Function:
    """A function of LLVM's own, or of the C library."""
    known = builder.module.globals.get(name)
    return known if known is not None else ir.Function(builder.module, kind, name)


def spread(builder: Any, value: Any, lanes: int) -> Any:
    """A vector with one value in every element."""
    vector = ir.VectorType(value.type, lanes)
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), zeros)


@Piece
def u(builder: Any, index: Any) -> Index:
    """An index as unsigned: no wrap-around test for negative values."""
    return index


@Piece
def words(builder: Any, array: Any) -> Word:
    """What entries hand to other functions for an array: a bare pointer; the array itself where indices are checked.

    An array's reference count goes up and down, atomically, with every call that it passes: that took half of the model's time.
    Whoever calls the entry keeps the array alive.
    """
    return array


@Piece
def host_address(builder: Any, buffer: Any) -> Word:
    """Host address of the first word of an array, or of what ``words`` gave."""
    return builder.ptrtoint(buffer, WORD)


@Piece
def words_at(builder: Any, address: Any) -> Word:
    """The words at a host address, as ``words`` gives those of an array."""
    return builder.inttoptr(address, WORD.as_pointer())


@Piece
def peek(builder: Any, address: Any) -> Word:
    """The int64 at a host address."""
    return builder.load(builder.inttoptr(address, WORD.as_pointer()))


@Piece
def peek_byte(builder: Any, address: Any) -> Word:
    """The byte at a host address."""
    byte = ir.IntType(8)
    return builder.zext(builder.load(builder.inttoptr(address, byte.as_pointer())), WORD)


@Piece
def poke(builder: Any, address: Any, value: Any) -> None:
    """Store an int64 at a host address."""
    builder.store(value, builder.inttoptr(address, WORD.as_pointer()))


@Piece
def clear(builder: Any, address: Any, size: Any) -> None:
    """Zero so many bytes at a host address."""
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), ir.IntType(8), WORD, ir.IntType(1)])
    function = declared(builder, kind, "llvm.memset.p0.i64")
    place = builder.inttoptr(address, ir.IntType(8).as_pointer())
    builder.call(function, [place, ir.IntType(8)(0), size, ir.IntType(1)(0)])


@Piece
def clear_line(builder: Any, address: Any) -> None:
    """Zero the 64 bytes of a line of the host's caches; LLVM makes no call to the C library of a loop of these."""
    line = ir.VectorType(ir.IntType(32), 16)
    store = builder.store(ir.Constant(line, [0] * 16), builder.inttoptr(address, line.as_pointer()), align=64)
    store.volatile = True


@Piece
def call_warp(builder: Any, function: Any, warp: Any) -> Word:
    """``int32 f(WARP *)`` by address; the status as int64."""
    kind = ir.FunctionType(ir.IntType(32), [WORD])
    return builder.sext(builder.call(builder.inttoptr(function, kind.as_pointer()), [warp]), WORD)


@Piece
def atomic_add(builder: Any, address: Any, value: Any) -> Word:
    """Add to the int64 at a host address as one step for all host threads; what was there before."""
    return builder.atomic_rmw("add", builder.inttoptr(address, WORD.as_pointer()), value, "acq_rel")


@Piece
def atomic_peek(builder: Any, address: Any) -> Word:
    """The int64 at a host address, and with it all that its writer wrote before."""
    return builder.load_atomic(builder.inttoptr(address, WORD.as_pointer()), "acquire", 8)


@Piece
def atomic_poke(builder: Any, address: Any, value: Any) -> None:
    """Store an int64 at a host address for threads that ``atomic_peek`` there."""
    builder.store_atomic(value, builder.inttoptr(address, WORD.as_pointer()), "release", 8)


@Piece
def give_way(builder: Any) -> None:
    """Let another thread of the host have the core."""
    builder.call(declared(builder, ir.FunctionType(ir.IntType(32), []), "sched_yield"), [])


@Piece
def sleep(builder: Any, microseconds: Any) -> None:
    """Pause the thread for a constant number of microseconds.  Calls ``pselect`` without files, because the simulated clock counts the usual calls for sleeping as the program's (``driver/clock_library.py``)."""
    number, place = ir.IntType(32), ir.IntType(8).as_pointer()
    name = f"pause_of_{microseconds.constant}_us"
    duration = builder.module.globals.get(name)
    if duration is None:  # a timespec: seconds, nanoseconds
        duration = ir.GlobalVariable(builder.module, ir.ArrayType(WORD, 2), name)
        duration.initializer = duration.value_type([WORD(0), WORD(1000 * microseconds.constant)])
        duration.global_constant, duration.linkage = True, "internal"
    pause = declared(builder, ir.FunctionType(number, [number, *[place] * 5]), "pselect")
    none = ir.Constant(place, None)
    builder.call(pause, [number(0), none, none, none, builder.bitcast(duration, place), none])


HOST_LINE_BYTES = 64


@Piece
def prefetch(builder: Any, address: Any) -> None:
    """Have the line of the host's memory at an address come near; any address is allowed."""
    word, place = ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [place, word, word, word])
    function = declared(builder, kind, "llvm.prefetch.p0")
    builder.call(function, [builder.inttoptr(address, place), word(0), word(3), word(1)])


@Piece
def divide(builder: Any, value: Any, by: Any) -> Word:
    """Quotient of two numbers that are not negative, the second not 0: without the tests that Python's ``//`` needs."""
    return builder.udiv(value, by)


@Piece
def divide_small(builder: Any, value: Any, by: Any) -> Word:
    """As ``divide`` for numbers below 2**32, which processors divide faster."""
    short = ir.IntType(32)
    return builder.zext(builder.udiv(builder.trunc(value, short), builder.trunc(by, short)), WORD)


@Piece
def shift_right(builder: Any, value: Any, by: Any) -> Word:
    """A number shifted right as an unsigned one; Python's ``>>`` keeps the sign."""
    return builder.lshr(value, by)


@Piece
def lowest_bit(builder: Any, value: Any) -> Word:
    """Position of the lowest set bit (64 when there is none)."""
    return builder.cttz(value, ir.Constant(ir.IntType(1), 0))


@Piece
def popcount(builder: Any, value: Any) -> Word:
    """Number of set bits."""
    return builder.ctpop(value)


def address_of(array: Any) -> int:
    """Host address of a NumPy array's first byte."""
    return int(array.ctypes.data)
