"""Memory of one process in another: handles, pools and physical memory, as CUDA's inter-process calls have them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from tests.driver_library import ENVIRONMENT, IN_ANOTHER_PROCESS, Driver, attached

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
CHILD = (
    IN_ANOTHER_PROCESS
    + """
from warpwright.driver.entry_points import IpcHandle
how, handle, size, file = sys.argv[1], bytes.fromhex(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
if how == "handle":
    place = ctypes.c_uint64()
    assert cuda.library.cuIpcOpenMemHandle_v2(ctypes.byref(place), IpcHandle.from_buffer_copy(handle), 1) == 0
    address = place.value
elif how == "pool":
    pool = cuda.word("cuMemPoolImportFromShareableHandle", file, 1, 0)
    address = cuda.word("cuMemPoolImportPointer", pool, handle)
else:
    memory = cuda.word("cuMemImportFromShareableHandle", file, 1)
    address = cuda.word("cuMemAddressReserve", size, 0, 0, 0)
    cuda("cuMemMap", address, size, 0, memory, 0)
    cuda("cuMemSetAccess", address, size, (ctypes.c_uint32 * 3)(1, 0, 3), 1)
words = (ctypes.c_uint32 * 16)()
cuda("cuMemcpyDtoH_v2", words, address, 64)
print(*words)
cuda("cuMemsetD32_v2", address, 99, 8)
if how == "handle":
    cuda("cuIpcCloseMemHandle", address)
    assert cuda.raw("cuMemsetD32_v2", address, 1, 8) == 1
"""
)


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with attached() as cuda:
        yield cuda


def _other_process(how: str, handle: bytes, size: int, file: int) -> str:
    environment = {**os.environ, **ENVIRONMENT}
    arguments = [sys.executable, "-c", CHILD, how, handle.hex(), str(size), str(file)]
    kept = [file] if file >= 0 else []
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, pass_fds=kept, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.ci
@pytest.mark.parametrize("how", ["handle", pytest.param("pool", marks=pytest.mark.ci), "physical"])
def test_both_processes_see_what_either_writes(driver: Driver, how: str) -> None:
    size, file = 5000, -1
    handle = ctypes.create_string_buffer(64)
    before = driver.word("cuMemAlloc_v2", 100)
    if how == "handle":
        address = driver.word("cuMemAlloc_v2", size)
    elif how == "pool":
        properties = (ctypes.c_uint32 * 22)(1, 1, 1, 0)
        pool = driver.word("cuMemPoolCreate", properties)
        address = driver.word("cuMemAllocFromPoolAsync", size, pool, 0)
        file = driver.word("cuMemPoolExportToShareableHandle", pool, 1, 0, kind=ctypes.c_int)
        driver("cuMemPoolExportPointer", handle, address)
    else:
        size = 2 << 20
        memory = driver.word("cuMemCreate", size, (ctypes.c_uint32 * 8)(1, 1, 1, 0), 0)
        address = driver.word("cuMemAddressReserve", size, 0, 0, 0)
        driver("cuMemMap", address, size, 0, memory, 0)
        driver("cuMemSetAccess", address, size, (ctypes.c_uint32 * 3)(1, 0, 3), 1)
        file = driver.word("cuMemExportToShareableHandle", memory, 1, 0, kind=ctypes.c_int)
    if how == "handle":
        driver("cuIpcGetMemHandle", handle, address)
        place, given = ctypes.c_uint64(), handle.raw
        from warpwright.driver.entry_points import IpcHandle

        opened = driver.library.cuIpcOpenMemHandle_v2(ctypes.byref(place), IpcHandle.from_buffer_copy(given), 1)
        assert opened == 201, "a process does not open its own handle"
    words = np.arange(7, 7 + 16, dtype=np.uint32)
    driver("cuMemsetD8_v2", before, 3, 100)
    driver("cuMemcpyHtoD_v2", address, words.ctypes.data, words.nbytes)
    assert _other_process(how, handle.raw, size, file).split() == [str(w) for w in words]
    driver("cuMemcpyDtoH_v2", words.ctypes.data, address, words.nbytes)
    assert words.tolist() == [99] * 8 + list(range(15, 23))
    if how == "handle":
        driver("cuMemFree_v2", address)
        again = driver.word("cuMemAlloc_v2", size)
        driver("cuMemcpyDtoH_v2", words.ctypes.data, again, words.nbytes)
        assert not words.any(), "memory that was shared is as fresh as any"
        driver("cuMemFree_v2", again)
    if how == "pool":
        driver("cuMemFreeAsync", address, 0)
        driver("cuMemPoolDestroy", pool)
    driver("cuMemFree_v2", before)


def test_events_are_shared_when_they_were_made_for_it(driver: Driver) -> None:
    handle = ctypes.create_string_buffer(64)
    own, shared = driver.word("cuEventCreate", 2), driver.word("cuEventCreate", 6)
    assert driver.raw("cuIpcGetEventHandle", handle, own) == 400
    driver("cuIpcGetEventHandle", handle, shared)
    from warpwright.driver.entry_points import IpcHandle

    place = ctypes.c_uint64()
    assert driver.library.cuIpcOpenEventHandle(ctypes.byref(place), IpcHandle.from_buffer_copy(handle.raw)) == 0
    driver("cuEventSynchronize", place.value)
    driver("cuStreamWaitEvent", 0, place.value, 0)
