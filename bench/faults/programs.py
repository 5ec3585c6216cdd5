"""Cases of Python programs: Numba, cuda-python (bindings of the driver) and ``ww.GPU``.  Marks as in ``cases.h``, after ``#``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


# ---- Numba


def numba() -> Any:
    from numba import cuda

    return cuda


@case
def numba_past_the_end() -> None:
    cuda = numba()

    @cuda.jit(lineinfo=True)
    def scale(x):
        i = cuda.grid(1)
        x[i] *= 2  #! numba_past_the_end memcheck

    scale[2, 64](cuda.to_device(np.ones(100, np.float32)))
    cuda.synchronize()


@case
def numba_no_syncthreads() -> None:
    cuda = numba()

    @cuda.jit(lineinfo=True)
    def reverse(x, y):
        s = cuda.shared.array(128, np.int32)
        i = cuda.threadIdx.x
        s[i] = x[i]  # ? numba_no_syncthreads
        y[i] = s[127 - i]  #! numba_no_syncthreads racecheck

    reverse[1, 128](cuda.to_device(np.arange(128, dtype=np.int32)), cuda.to_device(np.zeros(128, np.int32)))
    cuda.synchronize()


@case
def numba_barrier_in_branch() -> None:
    cuda = numba()

    @cuda.jit(lineinfo=True)
    def half(x):
        i = cuda.threadIdx.x
        if i < 16:
            x[i] = 1
            cuda.syncthreads()  #! numba_barrier_in_branch synccheck
        x[i] += 1

    half[1, 32](cuda.to_device(np.zeros(32, np.int32)))
    cuda.synchronize()


@case
def numba_never_written() -> None:
    cuda = numba()

    @cuda.jit(lineinfo=True)
    def add(x, y):
        i = cuda.threadIdx.x
        y[i] = x[i] + 1  #! numba_never_written initcheck

    add[1, 32](cuda.device_array(32, np.float32), cuda.device_array(32, np.float32))
    cuda.synchronize()


@case
def numba_sum_without_atomic() -> None:
    cuda = numba()

    @cuda.jit(lineinfo=True)
    def total(x, y):
        y[0] += x[cuda.grid(1)]  #! numba_sum_without_atomic racecheck

    total[4, 32](cuda.to_device(np.arange(128.0)), cuda.to_device(np.zeros(1)))
    cuda.synchronize()


@case
def numba_tree_sum() -> None:
    cuda = numba()

    @cuda.jit(lineinfo=True)
    def total(x, y):
        s = cuda.shared.array(128, np.float64)
        i = cuda.threadIdx.x
        s[i] = x[cuda.grid(1)]
        cuda.syncthreads()
        step = 64
        while step > 0:
            if i < step:
                s[i] += s[i + step]
            cuda.syncthreads()
            step //= 2
        if i == 0:
            cuda.atomic.add(y, 0, s[0])

    y = cuda.to_device(np.zeros(1))
    total[4, 128](cuda.to_device(np.arange(512.0)), y)
    assert y.copy_to_host()[0] == 511 * 256


@case
def numba_fences() -> None:
    cuda = numba()

    @cuda.jit(lineinfo=True)
    def last(x, part, done, y):
        is_last = cuda.shared.array(1, np.int32)
        if cuda.threadIdx.x == 0:
            part[cuda.blockIdx.x] = x[cuda.blockIdx.x]
            cuda.threadfence()
            is_last[0] = cuda.atomic.add(done, 0, 1) == cuda.gridDim.x - 1
        cuda.syncthreads()
        if is_last[0] != 0 and cuda.threadIdx.x == 0:
            cuda.threadfence()
            total = 0
            for k in range(cuda.gridDim.x):
                total += part[k]
            y[0] = total

    zeros = [cuda.to_device(np.zeros(n, np.int32)) for n in (8, 1, 1)]
    last[8, 32](cuda.to_device(np.arange(8, dtype=np.int32)), *zeros)
    assert zeros[2].copy_to_host()[0] == 28


@case
def numba_random_and_streams() -> None:
    cuda = numba()

    @cuda.jit(lineinfo=True)
    def scale(x, by):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= by

    stream, other = cuda.stream(), cuda.stream()
    x = cuda.to_device(np.ones(100, np.float32), stream=stream)
    scale[1, 128, stream](x, 3)
    ready = cuda.event()
    ready.record(stream)
    ready.wait(other)
    scale[1, 128, other](x, 2)
    other.synchronize()
    assert x.copy_to_host()[99] == 6


# ---- cuda-python: the driver's bindings


def ok(answer: Any) -> Any:
    return answer[1] if len(answer) == 2 else answer[1:]


def bindings() -> Any:
    from cuda.bindings import driver

    driver.cuInit(0)
    ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(0))))
    return driver


@case
def bindings_copy_outside() -> None:
    driver = bindings()
    x = ok(driver.cuMemAlloc(256))
    driver.cuMemcpyHtoD(x, bytes(300), 300)  #! bindings_copy_outside memcheck


@case
def bindings_double_free() -> None:
    driver = bindings()
    x = ok(driver.cuMemAlloc(256))
    driver.cuMemFree(x)
    driver.cuMemFree(x)  #! bindings_double_free memcheck


@case
def bindings_leak() -> None:
    driver = bindings()
    driver.cuMemFree(ok(driver.cuMemAlloc(256)))
    ok(driver.cuMemAlloc(512))  #! bindings_leak leakcheck


@case
def bindings_unmapped() -> None:
    driver = bindings()
    prop = driver.CUmemAllocationProp()
    prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    size = 2 << 20
    handle = ok(driver.cuMemCreate(size, prop, 0))
    where = ok(driver.cuMemAddressReserve(size, 0, 0, 0))
    driver.cuMemMap(where, size, 0, handle, 0)
    access = driver.CUmemAccessDesc()
    access.location = prop.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    driver.cuMemSetAccess(where, size, [access], 1)
    driver.cuMemsetD32(where, 0, 16)
    driver.cuMemUnmap(where, size)
    driver.cuMemsetD32(where, 0, 16)  #! bindings_unmapped memcheck


@case
def bindings_right() -> None:
    driver = bindings()
    x = ok(driver.cuMemAlloc(256))
    driver.cuMemcpyHtoD(x, bytes(256), 256)
    back = bytearray(256)
    driver.cuMemcpyDtoH(back, x, 256)
    driver.cuMemFree(x)


# ---- ww.GPU


@case
def gpu_past_the_end() -> None:
    import warpwright as ww

    gpu = ww.GPU("h200")
    source = """extern "C" __global__ void add(float *x) {
        x[threadIdx.x] += 1;  //! gpu_past_the_end memcheck
    }"""
    gpu.compile(source)["add"][1, 64](gpu.zeros(63, np.float32))


@case
def gpu_never_written() -> None:
    import warpwright as ww

    gpu = ww.GPU("h200")
    source = """extern "C" __global__ void copy(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }"""
    gpu.compile(source)["copy"][1, 64](gpu.empty(64, np.int32), gpu.zeros(64, np.int32))  #! gpu_never_written initcheck


@case
def gpu_right() -> None:
    import warpwright as ww

    gpu = ww.GPU("h200")
    source = """extern "C" __global__ void copy(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }"""
    gpu.compile(source)["copy"][1, 64](gpu.array(np.arange(64, dtype=np.int32)), gpu.empty(64, np.int32))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(*CASES, sep="\n")
    else:
        CASES[sys.argv[1]]()
