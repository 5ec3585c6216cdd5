"""The few things that compiled code needs beyond arrays: raw memory, calls by address, bit counts; and how Numba compiles the model's functions.

``core`` marks a function of the model.  ``direct.entry`` makes machine code of it straight from its source; here Numba compiles it: for callers of
Numba's own (threads, checks, tests) and with checked indices (``WARPWRIGHT_BOUNDSCHECK=1``, without a cache), which is the second opinion on the
other way.  ``entry`` compiles what Python calls.  The cache lies in a folder named by a digest of every file of this
package and of the layouts that it shares with others: Numba itself looks only at the function's own file,
and a constant that changes in another one would leave stale code behind.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba import types
from numba.core.caching import FunctionCache
from numba.core.cgutils import get_or_insert_function
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.imputils import impl_ret_borrowed
from numba.core.runtime import rtsys
from numba.extending import intrinsic as numba_intrinsic
from numba.np.arrayobj import make_array

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


def cache_folder(package: Path | None = None) -> Path:
    """Where Numba keeps compiled code of exactly these sources."""
    return default_folder() / "timing" / f"{numba.__version__}-{source_digest(package)[:16]}"


class _NoEnvironment:
    """A code generator that keeps no Python environment for a function that Python never calls."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        pass


class _LinkedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that is only ever linked into an entry function: neither optimised nor turned into machine code by itself."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        return _NoEnvironment(self._codegen)


class _PartCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler with a linked library as its product."""

    def define_pipelines(self) -> Any:
        self.state.library = _LinkedLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


def core(function: F, *, boundscheck: bool = BOUNDSCHECK) -> F:
    """Compile a function that only other compiled functions call.

    Numba would optimise and emit every function once for itself and once for each that calls it: with a hundred of them
    that takes most of half a minute.  Here each is emitted once, as a part of the entry.
    """
    compiled = numba.njit(
        function,
        nogil=True,
        boundscheck=boundscheck,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        pipeline_class=_PartCompiler,
    )
    return compiled


class _KeptCode(FunctionCache):  # type: ignore[misc]
    """Numba's cache on disk, read without what only compiling needs, and with a word to the user when it must be filled.

    Numba loads the types and functions of all that it can compile (NumPy's, SciPy's) before it looks into its cache: half of a second, of which machine
    code needs the symbols of Numba's run time only.
    """

    what = ""

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(signature, target_context)
        if found is None and self.what:
            print(f"warpwright: compiling {self.what}, once on this machine …", file=sys.stderr, flush=True)
        return found


def entry(function: F, *, parallel: bool = False, package: Path | None = None, what: str = "") -> Any:
    """Compile a function that Python calls, cached on disk with everything it is made of.

    Args:
        package: folder of the function, when it is not this one.
        what: named in a line on stderr when it must be compiled; nothing is said without it.
    """
    compiled = numba.njit(function, nogil=True, boundscheck=BOUNDSCHECK, error_model="numpy", parallel=parallel)
    if BOUNDSCHECK:
        return compiled
    saved = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder(package))
    try:
        kept = _KeptCode(function)
    finally:
        numba.config.CACHE_DIR = saved
    kept.what = what
    compiled._cache = kept
    return compiled


definitions: dict[Any, Callable[..., Any]] = {}
"""What each of the following pieces becomes in LLVM, by the piece."""


def intrinsic(definition: Callable[..., Any]) -> Any:
    """A piece of LLVM code that the model's functions call: known to Numba and to ``translate``."""
    piece = numba_intrinsic(definition)
    definitions[piece] = definition
    return piece


@intrinsic
def u(typing_context: Any, index: Any) -> Any:
    """An index as unsigned: no wrap-around test for negative values."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.cast(builder, arguments[0], signature.args[0], types.uint64)

    return types.uint64(index), generate


@intrinsic
def words(typing_context: Any, array: Any) -> Any:
    """What entries hand to the model's functions for an array: a bare pointer; the array itself where indices are checked.

    An array's reference count goes up and down, atomically, with every call that it passes: that took half of the model's time.
    Whoever calls the entry keeps the array alive.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return make_array(array)(context, builder, arguments[0]).data

    def same(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return impl_ret_borrowed(context, builder, array, arguments[0])

    return (array(array), same) if BOUNDSCHECK else (types.CPointer(array.dtype)(array), generate)


@intrinsic
def host_address(typing_context: Any, buffer: Any) -> Any:
    """Host address of the first word of an array, or of what ``words`` gave."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        is_array = isinstance(buffer, types.Array)
        pointer = make_array(buffer)(context, builder, arguments[0]).data if is_array else arguments[0]
        return builder.ptrtoint(pointer, ir.IntType(64))

    return types.int64(buffer), generate


@intrinsic
def peek(typing_context: Any, address: Any) -> Any:
    """The int64 at a host address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load(pointer)

    return types.int64(types.int64), generate


@intrinsic
def poke(typing_context: Any, address: Any, value: Any) -> Any:
    """Store an int64 at a host address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store(arguments[1], pointer)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def call_warp(typing_context: Any, function: Any, warp: Any) -> Any:
    """``int32 f(WARP *)`` by address; the status as int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(64)])
        callee = builder.inttoptr(arguments[0], kind.as_pointer())
        return builder.sext(builder.call(callee, [arguments[1]]), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def call_policy(typing_context: Any, function: Any, ready: Any, last: Any, ages: Any) -> Any:
    """A warp scheduler (``policies.py``) by address: ``int64 f(int64 ready, int64 last, int64 *ages)``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        callee = builder.inttoptr(arguments[0], ir.FunctionType(word, [word, word, word]).as_pointer())
        return builder.call(callee, arguments[1:])

    return types.int64(types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def call_turn(
    typing_context: Any, function: Any, state: Any, program: Any, phase: Any, index: Any, end: Any, scheduler: Any
) -> Any:
    """``windows.turn`` by address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        callee = builder.inttoptr(arguments[0], ir.FunctionType(word, [word] * 6).as_pointer())
        words = [context.cast(builder, a, kind, types.int64) for a, kind in zip(arguments, signature.args, strict=True)]
        return builder.call(callee, words[1:])

    given = (function, state, program, phase, index, end, scheduler)
    return types.int64(*given), generate


HOST_LINE_BYTES = 64
WAYS = 16
"""Ways of a set that ``find_way`` and ``oldest_way`` look at."""


def _load_vector(builder: Any, address: Any, lanes: int) -> Any:
    vector = ir.VectorType(ir.IntType(64), lanes)
    return builder.load(builder.inttoptr(address, vector.as_pointer()), align=8)


def _spread(builder: Any, value: Any, lanes: int) -> Any:
    """One value in every element."""
    vector = ir.VectorType(ir.IntType(64), lanes)
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), zeros)


def _first_true(builder: Any, flags: Any, lanes: int) -> Any:
    """Number of the first set element, ``lanes`` when there is none."""
    mask = builder.zext(builder.bitcast(flags, ir.IntType(lanes)), ir.IntType(64))
    return builder.cttz(builder.or_(mask, ir.IntType(64)(1 << lanes)), ir.Constant(ir.IntType(1), 1))


@intrinsic
def scan_slots(typing_context: Any, times: Any, ports: Any, free: Any, now: Any) -> Any:
    """(mask of the slots that can go now, when the next other one can) of sixteen slots.

    A slot can go at its own time, or when its port is free, whichever is later: ``times`` and ``ports`` are host addresses of 16 int64
    each, ``free`` that of the ports' times.  Vectors of LLVM's, which every processor has in its own width.
    """
    word, lanes = ir.IntType(64), 16
    vector = ir.VectorType(word, lanes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def load(address: Any) -> Any:
            return _load_vector(builder, address, lanes)

        def spread(value: Any) -> Any:
            return _spread(builder, value, lanes)

        at_times, at_ports, at_free, time = arguments
        eight = ir.Constant(vector, [8] * lanes)
        places = builder.add(spread(at_free), builder.mul(load(at_ports), eight))
        pointers = builder.inttoptr(places, ir.VectorType(ir.PointerType(), lanes))
        flags = ir.VectorType(ir.IntType(1), lanes)
        gather = get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [pointers.type, ir.IntType(32), flags, vector]),
            "llvm.masked.gather.v16i64.v16p0",
        )
        everyone = ir.Constant(flags, [1] * lanes)
        opened = builder.call(gather, [pointers, ir.IntType(32)(8), everyone, ir.Constant(vector, ir.Undefined)])
        own = load(at_times)
        at = builder.select(builder.icmp_signed(">", own, opened), own, opened)
        ready = builder.icmp_signed("<=", at, spread(time))
        never = ir.Constant(vector, [1 << 60] * lanes)
        later = builder.select(ready, never, at)
        least = get_or_insert_function(
            builder.module, ir.FunctionType(word, [vector]), "llvm.vector.reduce.smin.v16i64"
        )
        mask = builder.zext(builder.bitcast(ready, ir.IntType(lanes)), word)
        return context.make_tuple(builder, signature.return_type, [mask, builder.call(least, [later])])

    pair = types.UniTuple(types.int64, 2)
    return pair(types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def find_way(typing_context: Any, tags: Any, line: Any, shift: Any) -> Any:
    """The first of 16 int64 at a host address that is ``line`` when shifted right; 16 when none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, wanted, bits = arguments
        held = builder.ashr(_load_vector(builder, address, WAYS), _spread(builder, bits, WAYS))
        return _first_true(builder, builder.icmp_signed("==", held, _spread(builder, wanted, WAYS)), WAYS)

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def oldest_way(typing_context: Any, stamps: Any) -> Any:
    """The first of the smallest of 16 int64 at a host address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        held = _load_vector(builder, arguments[0], WAYS)
        kind = ir.FunctionType(ir.IntType(64), [held.type])
        least = builder.call(get_or_insert_function(builder.module, kind, "llvm.vector.reduce.smin.v16i64"), [held])
        return _first_true(builder, builder.icmp_signed("==", held, _spread(builder, least, WAYS)), WAYS)

    return types.int64(types.int64), generate


@intrinsic
def youngest(typing_context: Any, ready: Any, ages: Any) -> Any:
    """The slot of the largest of 16 int64 at a host address, among those whose bit is set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits, address = arguments
        held = _load_vector(builder, address, WAYS)
        able = builder.bitcast(builder.trunc(bits, ir.IntType(WAYS)), ir.VectorType(ir.IntType(1), WAYS))
        never = ir.Constant(held.type, [-1] * WAYS)
        ages = builder.select(able, held, never)
        kind = ir.FunctionType(ir.IntType(64), [held.type])
        most = builder.call(get_or_insert_function(builder.module, kind, "llvm.vector.reduce.smax.v16i64"), [ages])
        return _first_true(builder, builder.icmp_signed("==", ages, _spread(builder, most, WAYS)), WAYS)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Have the line of the host's memory at an address come near; any address is allowed."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, place = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [place, word, word, word])
        function = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [builder.inttoptr(arguments[0], place), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def divide(typing_context: Any, value: Any, by: Any) -> Any:
    """Quotient of two numbers that are not negative, the second not 0: without the tests that Python's ``//`` needs."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.udiv(*arguments)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def divide_small(typing_context: Any, value: Any, by: Any) -> Any:
    """As ``divide`` for numbers below 2**32, which processors divide faster."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        short = ir.IntType(32)
        value, by = (builder.trunc(argument, short) for argument in arguments)
        return builder.zext(builder.udiv(value, by), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def lowest_bit(typing_context: Any, value: Any) -> Any:
    """Position of the lowest set bit (64 when there is none)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@intrinsic
def popcount(typing_context: Any, value: Any) -> Any:
    """Number of set bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


def address_of(array: Any) -> int:
    """Host address of a NumPy array's first byte."""
    return int(array.ctypes.data)
