"""CUDA C++ to PTX and machine code with NVRTC (wheel ``nvidia-cuda-nvrtc-cu12``), through ctypes.

NVRTC compiles for a real architecture in one step and returns both the PTX and the cubin; its machine code equals, byte for byte, what nvcc's assembler
generates from that PTX.

NVRTC comes without C library headers. The few that device code includes out of habit (``<stdint.h>``, ``<stdio.h>``, ``<math.h>``, …) are passed to it as short
texts: their functions are built in, so a header only has to exist or to define the integer types (as libcu++ defines them, because a program may include both).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from warpwright.toolchain.compile_errors import (
    CompileError,
    Diagnostic,
    MissingToolError,
    explain_assembler_log,
    parse_nvrtc_log,
)
from warpwright.toolchain.interruptible import Interruptible
from warpwright.toolchain.wheels import header_folders, load_library
from warpwright.toolchain.within import within_compiler

PACKAGE = "nvidia-cuda-nvrtc-cu12"

_INTEGERS = """#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
typedef int64_t intmax_t;
typedef uint64_t uintmax_t;
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295U
#define UINT64_MAX 18446744073709551615ULL
#define SIZE_MAX UINT64_MAX
"""
_STD_INTEGERS = (
    '#pragma once\n#include "stdint.h"\nnamespace std {\n'
    + "".join(f"using ::{u}int{bits}_t;\n" for bits in (8, 16, 32, 64) for u in ("", "u"))
    + "using ::intptr_t;\nusing ::uintptr_t;\n}\n"
)
_LIMITS = """#pragma once
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MIN (-9223372036854775807L - 1)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL
"""
_FLOAT = """#pragma once
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_MANT_DIG 53
#define DBL_DIG 15
"""
_MATH = """#pragma once
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef HUGE_VALF
#define HUGE_VALF INFINITY
#endif
"""
_EMPTY = "#pragma once\n"

LIBRARY_HEADERS: Mapping[str, str] = {
    "stdint.h": _INTEGERS,
    "inttypes.h": '#pragma once\n#include "stdint.h"\n',
    "cstdint": _STD_INTEGERS,
    "limits.h": _LIMITS,
    "climits": '#pragma once\n#include "limits.h"\n',
    "float.h": _FLOAT,
    "cfloat": '#pragma once\n#include "float.h"\n',
    "math.h": _MATH,
    "cmath": '#pragma once\n#include "math.h"\n',
    **dict.fromkeys(("stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h", "cstring", "stddef.h", "cstddef"), _EMPTY),
    **dict.fromkeys(("assert.h", "cassert", "stdbool.h"), _EMPTY),
}
"""Texts of C library headers for NVRTC, by the name that a program includes."""


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_HOST_CODE_SIGN = re.compile(r'-default-device|identifier "cuda\w+" is undefined|^device-side kernel launch could not')
_HOST_CODE = (
    "only device code is compiled here: keep host code (main, cudaMalloc, <<<...>>>) in a file of its own "
    "or between #ifndef __CUDACC_RTC__ and #endif."
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result of compiling one source with NVRTC."""

    ptx: str
    cubin: bytes
    lowered_names: dict[str, str] = field(default_factory=dict)
    """Mangled name of each name expression: ``{"saxpy<float>": "_Z5saxpyIfEviT_PKS0_PS0_"}``."""
    warnings: tuple[Diagnostic, ...] = ()
    log: str = ""
    folder: str = ""
    """The compiler's working folder, with which it prefixes the source's name in line information."""


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    with contextlib.suppress(MissingToolError):
        # NVRTC opens its builtins by their bare name, which is found only once they are loaded (CUDA 13's wheels have no run path).
        load_library("cuda_nvrtc", "libnvrtc-builtins", PACKAGE, "compiling CUDA C++")
    library = load_library("cuda_nvrtc", "libnvrtc", PACKAGE, "compiling CUDA C++")
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


@lru_cache(maxsize=1)
def version() -> tuple[int, int]:
    """Version (major, minor) of the installed NVRTC."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def _buffer(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    library = _library()
    if getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) or size.value <= 1:
        return b""
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw


def _lowered(program: ctypes.c_void_p, expressions: Sequence[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for expression in expressions:
        name = ctypes.c_char_p()
        if _library().nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(name)) == 0 and name.value:
            names[expression] = name.value.decode()
    return names


def _defaults(options: Sequence[str]) -> list[str]:
    """Options that apply unless overridden, as in nvcc."""
    given = []
    if not any("default-device" in o or "default-execution-space" in o for o in options):
        # These concern constexpr functions, lambdas and declarations (cuda.h) without __host__ or __device__.
        given.append("-default-device")
    if not any("device-int128" in o for o in options):
        given.append("--device-int128")
    if not any(o.startswith(("-std", "--std")) for o in options):
        given.append("-std=c++17")
    return given


def compile_cuda(
    source: str,
    arch: str,
    *,
    options: Sequence[str] = (),
    defines: Mapping[str, str | int | None] | None = None,
    include_folders: Sequence[str | Path] = (),
    name_expressions: Sequence[str] = (),
    name: str = "kernel.cu",
    line_info: bool = True,
) -> Compiled:
    """Compile CUDA C++ for ``sm_<arch>`` (``"80"``, ``"90a"``).

    ``name`` is what messages and line information call the source.  ``name_expressions`` are C++ names of
    kernels (``"saxpy<float>"``): each is instantiated and its mangled name returned.  The folders of the
    installed header wheels are searched after ``include_folders``.

    Ctrl-C and time limits interrupt it.

    Raises :class:`CompileError` with each message, its line and a ^ under the column, and
    :class:`MissingToolError` without the wheel.
    """
    given = [f"--gpu-architecture=sm_{arch}", *(["-lineinfo"] if line_info else [])]
    given += [f"-D{k}" if v is None else f"-D{k}={v}" for k, v in (defines or {}).items()]
    given += options
    given += [f"-I{folder}" for folder in (*include_folders, *header_folders())]
    given += _defaults(options)
    return Interruptible(lambda gives_up: _compile(source, arch, name, given, name_expressions, gives_up)).run()


def _compile(
    source: str,
    arch: str,
    name: str,
    options: Sequence[str],
    name_expressions: Sequence[str],
    gives_up: Callable[[], bool],
) -> Compiled:
    """The same with all options; ``gives_up``: called by the compiler now and then; it stops if this returns True."""
    library = _library()
    headers = [text.encode() for text in LIBRARY_HEADERS.values()]
    header_names = [n.encode() for n in LIBRARY_HEADERS]
    program = ctypes.c_void_p()
    result = library.nvrtcCreateProgram(
        ctypes.byref(program),
        source.encode(),
        name.encode(),
        len(headers),
        (ctypes.c_char_p * len(headers))(*headers),
        (ctypes.c_char_p * len(headers))(*header_names),
    )
    if result:
        raise CompileError(f"{name} was not compiled: {_library().nvrtcGetErrorString(result).decode()}", (), "")
    try:
        for expression in name_expressions:
            library.nvrtcAddNameExpression(program, expression.encode())
        # The compiler calls it, so it must live as long as the compilation.
        asks = _CALLBACK(lambda program, payload: int(gives_up()))
        if hasattr(library, "nvrtcSetFlowCallback"):  # from 12.8 on
            library.nvrtcSetFlowCallback(program, asks, None)
        encoded = [o.encode() for o in options]
        with within_compiler():
            result = library.nvrtcCompileProgram(program, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded))
        log = _buffer(program, "ProgramLog").decode(errors="replace").rstrip("\0")
        # A warning that the architecture is old does not concern the program.
        diagnostics = [d for d in parse_nvrtc_log(log) if not d.message.startswith("Architectures prior to")]
        ptx = _buffer(program, "PTX").decode(errors="replace").rstrip("\0")
        if result:
            diagnostics += explain_assembler_log(log, ptx, source, name)
            errors = [d for d in diagnostics if d.severity != "warning"] or diagnostics
            if any(_HOST_CODE_SIGN.search(d.message) for d in errors):
                errors.append(Diagnostic("note", _HOST_CODE))
            raise CompileError(f"{name} does not compile for sm_{arch}:", errors, log)
        cubin, lowered = _buffer(program, "CUBIN"), _lowered(program, name_expressions)
        return Compiled(ptx, cubin, lowered, tuple(diagnostics), log, os.getcwd())
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
