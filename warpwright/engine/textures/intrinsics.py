"""Intrinsics of compiled texture code: memory accesses by host address, bits as floats, and calls of a C function by address.

The compiled code is cached on disk, in a folder named by a digest of every file that it depends on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once
from numba.extending import intrinsic

from warpwright.native.by_numba import PartCompiler
from warpwright.toolchain.cache import default_cache, default_folder

F = TypeVar("F", bound=Callable[..., Any])
PACKAGE = Path(__file__).parents[2]


def part(function: F) -> F:
    """Compile a function that is called only by other compiled functions."""
    compiled = numba.njit(
        function, pipeline_class=PartCompiler, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    return compiled


def c_function(signature: Any, more: tuple[Path, ...] = ()) -> Callable[[F], Any]:
    """Compile to a C function, cached on disk; its address is ``address`` of the result, which the caller must keep alive.

    Compilation takes 15 s of CPU time, so of several processes that need the function at once, only one compiles it.

    Args:
        more: files that it depends on besides this package's.
    """
    sources = [
        *sorted((PACKAGE / "engine" / "textures").glob("*.py")),
        PACKAGE / "engine" / "abi.py",
        PACKAGE / "isa" / "texture_access.py",
        *more,
    ]
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sources:
        digest.update(path.read_bytes())
    name = digest.hexdigest()[:16]
    folder = default_folder() / "textures" / name

    def compile(function: F) -> Any:
        saved = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)
        try:
            with default_cache().alone("textures", name):
                return numba.cfunc(signature, cache=True, error_model="numpy")(function)
        finally:
            numba.config.CACHE_DIR = saved

    return compile


def _reader(bits: int, signed: bool) -> Any:
    @intrinsic
    def read(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(bits)
            value = builder.load(builder.inttoptr(arguments[0], word.as_pointer()), align=1)
            wide = ir.IntType(64)
            return value if bits == 64 else builder.sext(value, wide) if signed else builder.zext(value, wide)

        return types.int64(types.int64), generate

    return read


def _writer(bits: int) -> Any:
    @intrinsic
    def write(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(bits)
            pointer = builder.inttoptr(arguments[0], word.as_pointer())
            builder.store(arguments[1] if bits == 64 else builder.trunc(arguments[1], word), pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return write


read_u8, read_u16, read_u32, read_64 = _reader(8, False), _reader(16, False), _reader(32, False), _reader(64, True)
read_s8, read_s16, read_s32 = _reader(8, True), _reader(16, True), _reader(32, True)
"""Read the integer at a host address, which need not be aligned."""
write_8, write_16, write_32, write_64 = _writer(8), _writer(16), _writer(32), _writer(64)
"""Store the low bits of an integer."""


@intrinsic
def write_double(typing_context: Any, address: Any, value: Any) -> Any:
    """Store a double at a host address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.DoubleType().as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.float64), generate


@intrinsic
def float_of(typing_context: Any, bits: Any) -> Any:
    """The f32 with these bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.trunc(arguments[0], ir.IntType(32)), ir.FloatType())

    return types.float32(types.int64), generate


@intrinsic
def bits_of(typing_context: Any, value: Any) -> Any:
    """The bits of an f32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.bitcast(arguments[0], ir.IntType(32)), ir.IntType(64))

    return types.int64(types.float32), generate


def workspace(words: int) -> Any:
    """Make a function that returns the host address of ``words`` int64 values on its caller's stack."""

    @intrinsic
    def address(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ptrtoint(alloca_once(builder, ir.IntType(64), size=words), ir.IntType(64))

        return types.int64(), generate

    return address


@intrinsic
def call_texture(
    typing_context: Any,
    function: Any,
    warp: Any,
    lanes: Any,
    request: Any,
    values: Any,
    addresses: Any,
    instruction: Any,
) -> Any:
    """Call a function with the signature of ``LAUNCH.texture`` (``engine/abi.py``) by its address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word, ir.IntType(32), word, word, word, word])
        callee = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(callee, [arguments[1], builder.trunc(arguments[2], ir.IntType(32)), *arguments[3:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), generate
