"""The model's functions, and the few things that they need beyond arrays: raw memory, calls by address, bit counts.

``core`` marks a function of the model.  ``direct.entry`` makes machine code of it straight from its source; ``entry`` has Numba compile it
(``by_numba.py``): for callers of Numba's own (checks, tests) and with checked indices (``WARPWRIGHT_BOUNDSCHECK=1``, without a cache), which is
the second opinion on the other way.  Numba is loaded when one of those is called.  Its cache lies in a folder named by a digest of every file of this
package and of the layouts that it shares with others: Numba itself looks only at the function's own file,
and a constant that changes in another one would leave stale code behind.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from llvmlite import ir

from warpwright.toolchain.cache import default_folder

F = TypeVar("F", bound=Callable[..., Any])
BOUNDSCHECK = os.environ.get("WARPWRIGHT_BOUNDSCHECK", "") not in ("", "0")


@cache
def source_digest(package: Path | None = None) -> str:
    """Digest of these sources, of what they take from others, and of another package's that uses them."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    others = sorted(package.glob("*.py")) if package is not None else []
    taken = [here.parent / name for name in ("chips/chip.py", "engine/abi.py", "isa/bulk.py")]
    for path in [*sorted(here.glob("*.py")), *taken, *others]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def cache_folder(version: str, package: Path | None = None) -> Path:
    """Where a version of Numba keeps compiled code of exactly these sources."""
    return default_folder() / "timing" / f"{version}-{source_digest(package)[:16]}"


class Part:
    """A function of the model: only compiled code calls it."""

    def __init__(self, function: Any, boundscheck: bool) -> None:
        self.py_func = function
        self.boundscheck = boundscheck

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's function."""
        from warpwright.timing import by_numba

        return by_numba.dispatcher(self)

    @cached_property
    def _numba_type_(self) -> Any:
        from warpwright.timing import by_numba

        return by_numba.type_of_part(self)


def core(function: F, *, boundscheck: bool = BOUNDSCHECK) -> F:
    """Mark a function that only other compiled functions call."""
    return cast(F, Part(function, boundscheck))


class NumbaEntry:
    """A function that Python calls, compiled by Numba at its first call."""

    def __init__(self, function: Any, package: Path | None, what: str) -> None:
        self.py_func = function
        self._options = package, what

    @cached_property
    def _compiled(self) -> Any:
        from warpwright.timing import by_numba

        return by_numba.entry(self.py_func, *self._options)

    @property
    def signatures(self) -> Any:
        """What it has been compiled or loaded for."""
        return self._compiled.signatures

    @property
    def stats(self) -> Any:
        """Numba's counts of what came from the disk and what was compiled."""
        return self._compiled.stats

    def __call__(self, *arguments: Any) -> Any:
        return self._compiled(*arguments)


def entry(function: Any, *, package: Path | None = None, what: str = "") -> NumbaEntry:
    """A function that Python calls, cached on disk with everything it is made of.

    Args:
        package: folder of the function, when it is not this one.
        what: named in a line on stderr when it must be compiled; nothing is said without it.
    """
    return NumbaEntry(function, package, what)


class Piece:
    """A piece of LLVM code that the model's functions call: ``definition(builder, *values)`` writes it.

    Its values are int64, or pointers to them; its annotation says the result: None, a Word, an Index (unsigned) or a Pair of words.
    """

    def __init__(self, definition: Callable[..., Any]) -> None:
        self.definition = definition
        self.result: str = definition.__annotations__["return"]

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.definition.__name__} is for compiled code")

    @cached_property
    def _numba_type_(self) -> Any:
        from warpwright.timing import by_numba

        return by_numba.type_of_piece(self)


Word: TypeAlias = Any
Index: TypeAlias = Any
Pair: TypeAlias = tuple[Any, Any]
WORD = ir.IntType(64)


def _declared(builder: Any, kind: ir.FunctionType, name: str) -> ir.Function:
    """A function of LLVM's own, or of the C library."""
    known = builder.module.globals.get(name)
    return known if known is not None else ir.Function(builder.module, kind, name)


@Piece
def u(builder: Any, index: Any) -> Index:
    """An index as unsigned: no wrap-around test for negative values."""
    return index


@Piece
def words(builder: Any, array: Any) -> Word:
    """What entries hand to the model's functions for an array: a bare pointer; the array itself where indices are checked.

    An array's reference count goes up and down, atomically, with every call that it passes: that took half of the model's time.
    Whoever calls the entry keeps the array alive.
    """
    return array


@Piece
def host_address(builder: Any, buffer: Any) -> Word:
    """Host address of the first word of an array, or of what ``words`` gave."""
    return builder.ptrtoint(buffer, WORD)


@Piece
def peek(builder: Any, address: Any) -> Word:
    """The int64 at a host address."""
    return builder.load(builder.inttoptr(address, WORD.as_pointer()))


@Piece
def poke(builder: Any, address: Any, value: Any) -> None:
    """Store an int64 at a host address."""
    builder.store(value, builder.inttoptr(address, WORD.as_pointer()))


@Piece
def call_warp(builder: Any, function: Any, warp: Any) -> Word:
    """``int32 f(WARP *)`` by address; the status as int64."""
    kind = ir.FunctionType(ir.IntType(32), [WORD])
    return builder.sext(builder.call(builder.inttoptr(function, kind.as_pointer()), [warp]), WORD)


def _call_words(builder: Any, function: Any, *arguments: Any) -> Any:
    """A function of words by address; it may take some of them for pointers."""
    callee = builder.inttoptr(function, ir.FunctionType(WORD, [WORD] * len(arguments)).as_pointer())
    return builder.call(callee, arguments)


@Piece
def call_scheduler(builder: Any, function: Any, ready: Any, last: Any, ages: Any) -> Word:
    """A warp scheduler (``policies.py``) by address: ``int64 f(int64 ready, int64 last, int64 *ages)``."""
    return _call_words(builder, function, ready, last, ages)


@Piece
def call_replacement(builder: Any, function: Any, used: Any, filled: Any, ways: Any, time: Any) -> Word:
    """A replacement policy (``policies.py``) by address: ``int64 f(int64 *used, int64 *filled, int64 ways, int64 time)``."""
    return _call_words(builder, function, used, filled, ways, time)


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
    builder.call(_declared(builder, ir.FunctionType(ir.IntType(32), []), "sched_yield"), [])


@Piece
def sleep(builder: Any, microseconds: Any) -> None:
    """Give the core away for a while."""
    short = ir.IntType(32)
    builder.call(_declared(builder, ir.FunctionType(short, [short]), "usleep"), [builder.trunc(microseconds, short)])


HOST_LINE_BYTES = 64
WAYS = 16
"""Ways of a set that ``find_way`` and ``oldest_way`` look at."""


def _load_vector(builder: Any, address: Any, lanes: int) -> Any:
    vector = ir.VectorType(WORD, lanes)
    return builder.load(builder.inttoptr(address, vector.as_pointer()), align=8)


def _spread(builder: Any, value: Any, lanes: int) -> Any:
    """One value in every element."""
    vector = ir.VectorType(WORD, lanes)
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), zeros)


def _first_true(builder: Any, flags: Any, lanes: int) -> Any:
    """Number of the first set element, ``lanes`` when there is none."""
    mask = builder.zext(builder.bitcast(flags, ir.IntType(lanes)), WORD)
    return builder.cttz(builder.or_(mask, WORD(1 << lanes)), ir.Constant(ir.IntType(1), 1))


def _extreme(builder: Any, vector: Any, which: str) -> Any:
    """The smallest (``smin``) or largest (``smax``) of 16 words."""
    kind = ir.FunctionType(WORD, [vector.type])
    return builder.call(_declared(builder, kind, f"llvm.vector.reduce.{which}.v16i64"), [vector])


@Piece
def scan_slots(builder: Any, times: Any, ports: Any, free: Any, now: Any) -> Pair:
    """(mask of the slots that can go now, when the next other one can) of sixteen slots.

    A slot can go at its own time, or when its port is free, whichever is later: ``times`` and ``ports`` are host addresses of 16 int64
    each, ``free`` that of the ports' times.  Vectors of LLVM's, which every processor has in its own width.
    """
    lanes = 16
    vector = ir.VectorType(WORD, lanes)
    eight = ir.Constant(vector, [8] * lanes)
    places = builder.add(_spread(builder, free, lanes), builder.mul(_load_vector(builder, ports, lanes), eight))
    pointers = builder.inttoptr(places, ir.VectorType(ir.PointerType(), lanes))
    flags = ir.VectorType(ir.IntType(1), lanes)
    kind = ir.FunctionType(vector, [pointers.type, ir.IntType(32), flags, vector])
    gather = _declared(builder, kind, "llvm.masked.gather.v16i64.v16p0")
    everyone = ir.Constant(flags, [1] * lanes)
    opened = builder.call(gather, [pointers, ir.IntType(32)(8), everyone, ir.Constant(vector, ir.Undefined)])
    own = _load_vector(builder, times, lanes)
    at = builder.select(builder.icmp_signed(">", own, opened), own, opened)
    ready = builder.icmp_signed("<=", at, _spread(builder, now, lanes))
    later = builder.select(ready, ir.Constant(vector, [1 << 60] * lanes), at)
    mask = builder.zext(builder.bitcast(ready, ir.IntType(lanes)), WORD)
    return mask, _extreme(builder, later, "smin")


@Piece
def find_way(builder: Any, tags: Any, line: Any, shift: Any) -> Word:
    """The first of 16 int64 at a host address that is ``line`` when shifted right; 16 when none is."""
    held = builder.ashr(_load_vector(builder, tags, WAYS), _spread(builder, shift, WAYS))
    return _first_true(builder, builder.icmp_signed("==", held, _spread(builder, line, WAYS)), WAYS)


@Piece
def oldest_way(builder: Any, stamps: Any) -> Word:
    """The first of the smallest of 16 int64 at a host address."""
    held = _load_vector(builder, stamps, WAYS)
    least = _extreme(builder, held, "smin")
    return _first_true(builder, builder.icmp_signed("==", held, _spread(builder, least, WAYS)), WAYS)


@Piece
def youngest(builder: Any, ready: Any, ages: Any) -> Word:
    """The slot of the largest of 16 int64 at a host address, among those whose bit is set."""
    held = _load_vector(builder, ages, WAYS)
    able = builder.bitcast(builder.trunc(ready, ir.IntType(WAYS)), ir.VectorType(ir.IntType(1), WAYS))
    those = builder.select(able, held, ir.Constant(held.type, [-1] * WAYS))
    most = _extreme(builder, those, "smax")
    return _first_true(builder, builder.icmp_signed("==", those, _spread(builder, most, WAYS)), WAYS)


@Piece
def prefetch(builder: Any, address: Any) -> None:
    """Have the line of the host's memory at an address come near; any address is allowed."""
    word, place = ir.IntType(32), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [place, word, word, word])
    function = _declared(builder, kind, "llvm.prefetch.p0")
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
