"""The drop-in driver as a C program sees it, through ctypes: for the tests of its entry points."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

VECTOR_ADD = """
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 scale = 3;
.visible .entry add(.param .u64 a, .param .u64 b, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .u32 %r<8>;
    .reg .u64 %d<6>;
    ld.param.u64 %d1, [a];
    ld.param.u64 %d2, [b];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mad.lo.u32 %r2, %r3, %r4, %r2;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 ret;
    mul.wide.u32 %d3, %r2, 4;
    add.u64 %d1, %d1, %d3;
    add.u64 %d2, %d2, %d3;
    ld.global.u32 %r5, [%d1];
    ld.global.u32 %r6, [%d2];
    ld.global.u32 %r7, [scale];
    mad.lo.u32 %r5, %r6, %r7, %r5;
    st.global.u32 [%d1], %r5;
    ret;
}
"""
"""a[i] += scale * b[i]."""


class Driver:
    """Calls by name; every call is checked, and what it stores is returned."""

    def __init__(self, soname: str = "libcuda.so.1") -> None:
        self.library = ctypes.CDLL(soname)

    def raw(self, name: str, *arguments: Any) -> int:
        """The result code of a call: ints are 64-bit words, floats stay."""
        given = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
        return int(self.library[name](*given))

    def __call__(self, name: str, *arguments: Any) -> None:
        code = self.raw(name, *arguments)
        assert code == 0, f"{name} returned {code}"

    def word(self, name: str, *arguments: Any, kind: Any = ctypes.c_uint64) -> Any:
        """What a call stores at the address in its first argument."""
        place = kind()
        self(name, ctypes.byref(place), *arguments)
        return place.value

    def microseconds(self, call: Callable[[], None]) -> float:
        """Simulated time between events before and after what a function submits to the default stream."""
        events = [self.word("cuEventCreate", 0) for _ in range(2)]
        self("cuEventRecord", events[0], 0)
        call()
        self("cuEventRecord", events[1], 0)
        self("cuEventSynchronize", events[1])
        return float(self.word("cuEventElapsedTime", *events, kind=ctypes.c_float)) * 1e3

    def launch(
        self, function: int, grid: int, block: int, *values: Any, shared: int = 0, stream: int = 0, expect: int = 0
    ) -> None:
        """cuLaunchKernel with ctypes values."""
        pointers = (ctypes.c_void_p * max(len(values), 1))(*(ctypes.addressof(v) for v in values))
        code = self.raw("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, shared, stream, pointers, 0)
        assert code == expect, f"cuLaunchKernel returned {code}"


ENVIRONMENT = {"WARPWRIGHT_GPU": "a100", "WARPWRIGHT_TIMING": "off"}


@contextmanager
def attached() -> Iterator[Driver]:
    """The driver of an A100 in this process, its first context current; the context is reset at the end."""
    with mock.patch.dict(os.environ, ENVIRONMENT):
        from warpwright.driver import attach
        from warpwright.libraries import provide

        provide()
        attach.preload()
        cuda = Driver()
        cuda("cuInit", 0)
        cuda("cuCtxSetCurrent", cuda.word("cuDevicePrimaryCtxRetain", 0))
        yield cuda
        cuda("cuDevicePrimaryCtxReset_v2", 0)


IN_ANOTHER_PROCESS = f"""
import ctypes
import sys
sys.path.insert(0, {os.fspath(Path(__file__).parents[1])!r})
from tests.driver_library import VECTOR_ADD, Driver
from warpwright.driver import attach
from warpwright.libraries import provide
provide()
attach.preload()
cuda = Driver()
cuda("cuInit", 0)
cuda("cuCtxSetCurrent", cuda.word("cuDevicePrimaryCtxRetain", 0))
"""
"""The beginning of a program that does the same in a separate process, whose environment has ``ENVIRONMENT``."""


RUNTIME_CALLS = f"""
import ctypes, struct, sys
sys.path.insert(0, {os.fspath(Path(__file__).parents[1])!r})
from tests.driver_library import VECTOR_ADD
from warpwright.driver import attach
from warpwright.libraries import provide
provide()
attach.preload()
version = int(sys.argv[1])
runtime = ctypes.CDLL(f"libcudart.so.{{version}}")

def call(name, *arguments):
    return runtime[name](*(ctypes.c_uint64(a & (1 << 64) - 1) if isinstance(a, int) else a for a in arguments))

def made(name, *arguments):
    place = ctypes.c_uint64()
    assert call(name, ctypes.byref(place), *arguments) == 0, name
    return place.value
"""
"""The beginning of a program that calls the runtime of the version (12 or 13) that it is given."""
