"""cuFile of this package, called as C programs call it: real files, and memory of a simulated device."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.driver_library import ENVIRONMENT, IN_ANOTHER_PROCESS
from tests.library_calls import Array, Device, Library
from warpwright.chips import load_chip

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files"),
]
NOT_OPEN, RANGE, INVALID_FILE, INVALID, TWICE, UNKNOWN = 5001, 5014, 5018, 5022, 5023, 5024
FILE_UNKNOWN, FILE_TWICE, BATCH_FULL = 5027, 5028, 5037
BYTES = np.random.default_rng(1).integers(0, 256, 20_000).astype(np.uint8)


class Files(Library):
    """cuFile's calls return a structure of two numbers, and its transfers a signed number."""

    def raw(self, name: str, *arguments: Any) -> int:
        function = self.library[name]
        function.restype = ctypes.c_uint64
        given = [ctypes.c_uint64(a & (1 << 64) - 1) if isinstance(a, int) else a for a in arguments]
        return int(function(*given))

    def transfer(self, name: str, *arguments: int) -> int:
        result = self.raw(name, *arguments)
        return result - (1 << 64) if result >> 63 else result

    def register(self, descriptor: int) -> int:
        return int(
            self.word("cuFileHandleRegister", ctypes.create_string_buffer(struct.pack("i4xi4xQ", 1, descriptor, 0)))
        )


@pytest.fixture(scope="module")
def files(memory: Device) -> Files:
    return Files("libcufile.so.0")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "data").write_bytes(BYTES.tobytes())
    return tmp_path / "data"


@pytest.fixture
def opened(path: Path, files: Files) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR)
    handle = files.register(descriptor)
    yield handle
    files.library.cuFileHandleDeregister(ctypes.c_uint64(handle))
    os.close(descriptor)


def memory_of(memory: Device, address: int, count: int) -> Array:
    return memory.get(address, np.uint8, (count,))


def test_reads_any_size_and_offset(memory: Device, files: Files, opened: int) -> None:
    at = memory.put(np.zeros(8192, np.uint8))
    assert files.transfer("cuFileRead", opened, at, 1001, 3, 7) == 1001
    expected = np.zeros(8192, np.uint8)
    expected[7:1008] = BYTES[3:1004]
    np.testing.assert_array_equal(memory_of(memory, at, 8192), expected)
    assert files.transfer("cuFileRead", opened, at, 8192, 19_990, 0) == 10
    assert files.transfer("cuFileRead", opened, at, 8, 1 << 30, 0) == 0


def test_writes_what_a_kernel_or_a_fill_stored_before(memory: Device, files: Files, opened: int, path: Path) -> None:
    at = memory.put(np.zeros(5000, np.uint8))
    memory.cuda("cuMemsetD8Async", at, 77, 5000, 0)
    assert files.transfer("cuFileWrite", opened, at, 5000, 18_000, 0) == 5000
    found = np.fromfile(path, np.uint8)
    np.testing.assert_array_equal(found, np.concatenate([BYTES[:18_000], np.full(5000, 77, np.uint8)]))


def test_a_file_of_direct_transfers_takes_odd_sizes(memory: Device, files: Files, path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_DIRECT)
    except OSError:
        pytest.skip("the file system of temporary files has no O_DIRECT")
    handle, at = files.register(descriptor), memory.put(np.zeros(100, np.uint8))
    assert files.transfer("cuFileRead", handle, at, 99, 1, 1) == 99
    np.testing.assert_array_equal(memory_of(memory, at, 100)[1:], BYTES[1:100])
    files.library.cuFileHandleDeregister(ctypes.c_uint64(handle))
    os.close(descriptor)


def test_what_is_wrong_is_refused(memory: Device, files: Files, opened: int, path: Path) -> None:
    at = memory.put(np.zeros(4096, np.uint8))
    assert files.transfer("cuFileRead", 0, at, 10, 0, 0) == -FILE_UNKNOWN
    assert files.transfer("cuFileRead", opened, 0, 10, 0, 0) == -INVALID
    assert files.transfer("cuFileRead", opened, at, 10, -5, 0) == -INVALID
    assert files.transfer("cuFileRead", opened, at, 1 << 30, 0, 0) == -RANGE
    reader = os.open(path, os.O_RDONLY)
    handle = files.register(reader)
    assert files.transfer("cuFileWrite", handle, at, 10, 0, 0) == -1
    place = ctypes.CDLL(None).__errno_location
    place.restype = ctypes.POINTER(ctypes.c_int)
    assert files.transfer("cuFileWrite", handle, at, 10, 0, 0) == -1
    assert place()[0] == errno.EBADF
    description = ctypes.create_string_buffer(struct.pack("i4xi4xQ", 1, reader, 0))
    assert files.raw("cuFileHandleRegister", ctypes.byref(ctypes.c_uint64()), description) == FILE_TWICE
    folder = os.open(path.parent, os.O_RDONLY)
    for descriptor in (folder, 99_999):
        description = ctypes.create_string_buffer(struct.pack("i4xi4xQ", 1, descriptor, 0))
        assert files.raw("cuFileHandleRegister", ctypes.byref(ctypes.c_uint64()), description) == INVALID_FILE
    files.library.cuFileHandleDeregister(ctypes.c_uint64(handle))
    os.close(reader)
    os.close(folder)


def test_buffers(memory: Device, files: Files) -> None:
    at = memory.put(np.zeros(4096, np.uint8))
    files("cuFileBufRegister", at, 4096, 0)
    assert files.raw("cuFileBufRegister", at, 4096, 0) == TWICE
    assert files.raw("cuFileBufRegister", 0, 4096, 0) == INVALID
    assert files.raw("cuFileBufDeregister", at + 256) == UNKNOWN
    files("cuFileBufDeregister", at)


def test_in_a_stream_sizes_are_read_when_it_is_the_transfers_turn(memory: Device, files: Files, opened: int) -> None:
    stream = memory.cuda.word("cuStreamCreate", 0)
    files("cuFileStreamRegister", stream, 0)
    at = memory.put(np.zeros(4096, np.uint8))
    words = (ctypes.c_int64 * 4)(100, 50, 8, -7)
    places = [ctypes.addressof(words) + 8 * n for n in range(4)]
    files("cuFileReadAsync", opened, at, *places, stream)
    memory.cuda("cuStreamSynchronize", stream)
    assert words[3] == 100
    np.testing.assert_array_equal(memory_of(memory, at, 108)[8:], BYTES[50:150])
    assert files.raw("cuFileReadAsync", opened, at, 0, *places[1:], stream) == INVALID
    files("cuFileStreamDeregister", stream)


def test_batches(memory: Device, files: Files, opened: int) -> None:
    at = memory.put(np.zeros(16_384, np.uint8))
    batch = files.word("cuFileBatchIOSetUp", 4)
    requests = [(1, at, 4096 * n, 4096 * n, 1000 + n, opened, 0, 70 + n) for n in range(3)]
    raw = ctypes.create_string_buffer(b"".join(struct.pack("i4xQqqQQi4xQ", *one) for one in requests))
    files("cuFileBatchIOSubmit", batch, 3, raw, 0)
    assert files.raw("cuFileBatchIOSubmit", batch, 2, raw, 0) == BATCH_FULL
    count, events = ctypes.c_uint32(8), ctypes.create_string_buffer(24 * 8)
    files("cuFileBatchIOGetStatus", batch, 3, ctypes.byref(count), events, 0)
    found = [struct.unpack_from("QI4xq", events, 24 * n) for n in range(count.value)]
    assert found == [(70, 0x10, 1000), (71, 0x10, 1001), (72, 0x10, 1002)]
    np.testing.assert_array_equal(memory_of(memory, at, 16_384)[8192:9194], BYTES[8192:9194])
    count.value = 8
    files("cuFileBatchIOGetStatus", batch, 0, ctypes.byref(count), events, 0)
    assert count.value == 0
    files.library.cuFileBatchIODestroy(ctypes.c_uint64(batch))
    assert files.raw("cuFileBatchIOSubmit", batch, 1, raw, 0) == INVALID


def test_sessions_and_parameters(files: Files) -> None:
    before = files.raw("cuFileUseCount")
    files("cuFileDriverOpen")
    assert files.raw("cuFileUseCount") == before + 1
    room = ctypes.create_string_buffer(56)
    files("cuFileDriverSetMaxDirectIOSize", 1024)
    files("cuFileDriverGetProperties", room)
    assert struct.unpack("IIQQII6I", room.raw)[3] == 1024
    for _ in range(before + 1):
        files("cuFileDriverClose_v2")
    assert files.raw("cuFileDriverClose_v2") == NOT_OPEN
    files("cuFileSetParameterSizeT", 9, 64)
    value = ctypes.c_size_t()
    files("cuFileGetParameterSizeT", 9, ctypes.byref(value))
    assert value.value == 64


TIMED = f"""{IN_ANOTHER_PROCESS}
import os, struct
from tests.library_calls import Device
from tests.test_libraries_cufile import Files
files, memory = Files("libcufile.so.0"), Device(cuda)
handle, place = files.register(os.open(sys.argv[1], os.O_RDONLY)), cuda.word("cuMemAlloc_v2", 1 << 20)
cuda("cuMemsetD8Async", place, 0, 1 << 20, 0)
cuda("cuCtxSynchronize")
words = (ctypes.c_int64 * 4)(1 << 20, 0, 0, 0)
where = [ctypes.addressof(words) + 8 * n for n in range(4)]
print(cuda.microseconds(lambda: files.transfer("cuFileRead", handle, place, 1 << 20, 0, 0)))
print(cuda.microseconds(lambda: files("cuFileReadAsync", handle, place, *where, 0)))
"""


def test_a_transfer_takes_the_time_of_the_link_or_of_the_storage(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(1 << 20))
    found = []
    for rate in ("", "0.5"):
        environment = {**os.environ, **ENVIRONMENT, "WARPWRIGHT_TIMING": "full", "WARPWRIGHT_STORAGE_GB_PER_S": rate}
        command = [sys.executable, "-c", TIMED, str(tmp_path / "data")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
        assert ("the storage's rate is not known" in done.stderr) is (not rate)
        found.append([float(line) for line in done.stdout.split()])
    transfer = load_chip("a100").transfer
    link = transfer.host_copy_latency_us + (1 << 20) / transfer.host_copy_gb_per_s / 1e3
    assert found[0] == pytest.approx([link, link], abs=12)
    assert found[1] == pytest.approx([(1 << 20) / 500] * 2, abs=12)
