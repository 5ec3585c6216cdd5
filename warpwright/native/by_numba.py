"""Numba's implementation of the native functions and intrinsics, created when Numba first meets one.

What only translates (``direct.py``) does not import this module: Numba takes half a second to load.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.imputils import impl_ret_borrowed
from numba.core.runtime import rtsys
from numba.core.typing.templates import make_intrinsic_template
from numba.core.typing.typeof import typeof_impl
from numba.np.arrayobj import make_array

from warpwright.messages import report_compiling
from warpwright.native.function_source import source_of
from warpwright.native.intrinsics import BOUNDSCHECK, Part, Piece, cache_folder
from warpwright.native.translate import ArrayOf
from warpwright.native.units import plain


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


class PartCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler with a linked library as its product."""

    def define_pipelines(self) -> Any:
        self.state.library = _LinkedLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


@cache
def dispatcher(part: Part) -> Any:
    """A function that only other compiled functions call.

    Numba would optimise and emit every function once for itself and once for each that calls it: with a hundred of them
    that takes most of half a minute.  Here each is emitted once, as a part of the entry.
    """
    return numba.njit(
        plain(part.py_func, source_of),
        nogil=True,
        boundscheck=part.boundscheck,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        pipeline_class=PartCompiler,
    )


@typeof_impl.register(Part)  # type: ignore[untyped-decorator]
def _type_of_part(part: Part, context: Any) -> Any:
    """What Numba takes a function for."""
    return types.Dispatcher(dispatcher(part))


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
        if found is None:
            report_compiling(self.what)
        return found


def entry(function: Any, sources: tuple[Path, ...], what: str) -> Any:
    """A function that Python calls, cached on disk with everything it is made of."""
    function = plain(function, source_of)
    compiled = numba.njit(function, nogil=True, boundscheck=BOUNDSCHECK, error_model="numpy")
    if BOUNDSCHECK:
        return compiled
    saved = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder(numba.__version__, sources))
    try:
        kept = _KeptCode(function)
    finally:
        numba.config.CACHE_DIR = saved
    kept.what = what
    compiled._cache = kept
    return compiled


def policy(function: Any, arguments: Sequence[ArrayOf | None]) -> Any:
    """A C function of a policy, with its ``address``; to be kept alive.

    Raises:
        NumbaError: it cannot be compiled.
    """
    reads = types.Array(types.int64, 1, "C", readonly=True)
    numbers = types.int64(*(reads if array else types.int64 for array in arguments))
    body = numba.njit(numbers, nogil=True, error_model="numpy")(function)  # becomes a part of the C function, once
    kinds = [types.CPointer(types.int64) if array else types.int64 for array in arguments]
    names = [f"a{i}" for i in range(len(kinds))]
    given = ", ".join(
        f"carray({name}, ({array.words if array.argument is None else names[array.argument]},))" if array else name
        for name, array in zip(names, arguments, strict=True)
    )
    space = {"body": body, "carray": numba.carray}
    exec(f"def entry({', '.join(names)}): return body({given})", space)
    return numba.cfunc(types.int64(*kinds))(space["entry"])


# --- pieces of LLVM code ---------------------------------------------------------------------------

_RESULTS = {"None": types.void, "Word": types.int64, "Index": types.uint64, "Pair": types.UniTuple(types.int64, 2)}


def _words_definition(typing_context: Any, array: Any) -> Any:
    """``pieces.words``: the array itself where indices are checked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return make_array(array)(context, builder, arguments[0]).data

    def same(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return impl_ret_borrowed(context, builder, array, arguments[0])

    return (array(array), same) if BOUNDSCHECK else (types.CPointer(array.dtype)(array), generate)


def _definition(piece: Piece) -> Callable[..., Any]:
    """Numba's definition of a piece: numbers come to it as int64, arrays as pointers."""

    def plain(context: Any, builder: Any, value: ir.Value, kind: Any) -> ir.Value:
        if isinstance(kind, types.Array):
            return make_array(kind)(context, builder, value).data
        return value if isinstance(kind, types.CPointer) else context.cast(builder, value, kind, types.int64)

    def definition(typing_context: Any, *given: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pairs = zip(arguments, signature.args, strict=True)
            result = piece.definition(builder, *(plain(context, builder, value, kind) for value, kind in pairs))
            if result is None:
                return context.get_dummy_value()
            if isinstance(result, tuple):
                return context.make_tuple(builder, signature.return_type, list(result))
            return result

        return _RESULTS[piece.result](*given), generate

    own = list(inspect.signature(piece.definition).parameters.values())
    definition.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("typing_context", inspect.Parameter.POSITIONAL_OR_KEYWORD), *own[1:]]
    )
    definition.__name__ = piece.definition.__name__
    return definition


@typeof_impl.register(Piece)  # type: ignore[untyped-decorator]
def _type_of_piece(piece: Piece, context: Any) -> Any:
    """What Numba takes a piece for."""
    return _piece_type(piece)


@cache
def _piece_type(piece: Piece) -> Any:
    name = piece.definition.__name__
    definition = _words_definition if name == "words" else _definition(piece)
    return types.Function(make_intrinsic_template(piece, definition, name))
