"""CUPTI's activity records of this package, as a profiler asks for them."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.driver_library import VECTOR_ADD
from tests.library_calls import Device, Library

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files"),
]
COPY, FILL, DRIVER, CONCURRENT, LINK, NOT_SUPPORTED, END, EMPTY = 1, 2, 4, 10, 39, 27, 12, 18
CUSTOM = 2
"""A kind of the program's own numbers."""


@dataclass
class Profiler:
    """Buffers of a program, and the records that came back in them."""

    cupti: Library
    size: int = 1 << 16
    held: list[ctypes.Array[ctypes.c_char]] = field(default_factory=list)
    records: list[tuple[int, bytes]] = field(default_factory=list)
    filled: int = 0

    def __post_init__(self) -> None:
        pointer = ctypes.POINTER(ctypes.c_size_t)
        self._requested = ctypes.CFUNCTYPE(None, pointer, pointer, pointer)(self._give)
        kinds = (ctypes.c_uint64, ctypes.c_uint32, *[ctypes.c_size_t] * 3)
        self._completed = ctypes.CFUNCTYPE(None, *kinds)(self._take)
        functions = (ctypes.cast(one, ctypes.c_void_p).value or 0 for one in (self._requested, self._completed))
        self.cupti("cuptiActivityRegisterCallbacks", *functions)

    def _give(self, place: ctypes._Pointer, size: ctypes._Pointer, most: ctypes._Pointer) -> None:  # type: ignore[type-arg]
        self.held.append(ctypes.create_string_buffer(self.size))
        place[0], size[0], most[0] = ctypes.addressof(self.held[-1]), self.size, 0

    def _take(self, context: int, stream: int, buffer: int, size: int, valid: int) -> None:
        record, last = ctypes.c_uint64(), 0
        self.filled += 1
        while not (status := self.cupti.raw("cuptiActivityGetNextRecord", buffer, valid, ctypes.byref(record))):
            if last:
                self._keep(last, record.value)
            last = record.value
        assert status == END
        if last:
            self._keep(last, buffer + valid)

    def _keep(self, begin: int, end: int) -> None:
        raw = ctypes.string_at(begin, end - begin)
        self.records.append((struct.unpack_from("<I", raw)[0], raw))

    def of(self, kind: int) -> list[bytes]:
        return [raw for one, raw in self.records if one == kind]


@pytest.fixture
def profiler(memory: Device) -> Iterator[Profiler]:
    made = Profiler(Library("libcupti.so.13"))
    for kind in (COPY, FILL, DRIVER, CONCURRENT, LINK):
        made.cupti("cuptiActivityEnable", kind)
    yield made
    for kind in (COPY, FILL, DRIVER, CONCURRENT, LINK):
        made.cupti("cuptiActivityDisable", kind)
    made.cupti("cuptiActivityFlushAll", 0)


def add(memory: Device, stream: int = 0, count: int = 100) -> None:
    cuda = memory.cuda
    image = ctypes.create_string_buffer(VECTOR_ADD.encode())
    function = cuda.word(
        "cuModuleGetFunction", cuda.word("cuModuleLoadData", image), ctypes.create_string_buffer(b"add")
    )
    a, b = (memory.put(np.arange(count, dtype=np.int32)) for _ in range(2))
    values = (ctypes.c_uint64(a), ctypes.c_uint64(b), ctypes.c_uint32(count))
    cuda.launch(function, -(-count // 32), 32, *values, stream=stream)


def test_a_kernel_belongs_to_its_call_and_the_call_to_the_programs_number(memory: Device, profiler: Profiler) -> None:
    profiler.cupti("cuptiActivityPushExternalCorrelationId", CUSTOM, 4711)
    stream = memory.cuda.word("cuStreamCreate", 0)
    add(memory, stream)
    number = ctypes.c_uint64()
    profiler.cupti("cuptiActivityPopExternalCorrelationId", CUSTOM, ctypes.byref(number))
    assert number.value == 4711
    assert profiler.cupti.raw("cuptiActivityPopExternalCorrelationId", CUSTOM, 0) == EMPTY
    memory.cuda("cuStreamSynchronize", stream)
    profiler.cupti("cuptiActivityFlushAll", 1)
    (kernel,) = profiler.of(CONCURRENT)
    assert struct.unpack_from("<6i", kernel, 52) == (4, 1, 1, 32, 1, 1)
    correlation, name = struct.unpack_from("<I", kernel, 92)[0], struct.unpack_from("<Q", kernel, 104)[0]
    assert ctypes.string_at(name) == b"add"
    assert struct.unpack_from("<I", kernel, 48)[0] != 7
    calls = [struct.unpack("<IIQQIIII", raw) for raw in profiler.of(DRIVER)]
    (launch,) = [call for call in calls if call[6] == correlation]
    begin, end = struct.unpack_from("<2Q", kernel, 16)
    assert launch[1] == 307
    assert launch[2] <= begin <= end
    links = [struct.unpack("<IIQII", raw) for raw in profiler.of(LINK)]
    assert (LINK, CUSTOM, 4711, correlation, 0) in links
    assert all(call[7] == 0 for call in calls)


def test_copies_and_fills(memory: Device, profiler: Profiler) -> None:
    array = np.arange(1000, dtype=np.int32)
    a, b = (memory.put(array) for _ in range(2))
    memory.cuda("cuMemcpyHtoD_v2", a, array.ctypes.data, array.nbytes)
    memory.cuda("cuMemcpyDtoDAsync_v2", b, a, 400, 0)
    memory.cuda("cuMemsetD32Async", a, 5, 50, 0)
    memory.cuda("cuCtxSynchronize")
    profiler.cupti("cuptiActivityFlushAll", 0)
    copies = [struct.unpack_from("<I4BQ", raw) for raw in profiler.of(COPY)]
    assert [(copy[1:4], copy[5]) for copy in copies] == [((1, 1, 3), 4000), ((8, 3, 3), 400)]
    (fill,) = profiler.of(FILL)
    assert struct.unpack_from("<IIQ", fill) == (FILL, 5, 200)


def test_records_fill_as_many_buffers_as_they_need(memory: Device, profiler: Profiler) -> None:
    profiler.size = 500
    for _ in range(5):
        add(memory)
    profiler.cupti("cuptiActivityFlushAll", 1)
    assert len(profiler.of(CONCURRENT)) == 5
    assert profiler.filled >= 4


def test_nothing_is_recorded_after_the_end_and_calls_can_be_left_out(memory: Device, profiler: Profiler) -> None:
    profiler.cupti("cuptiActivityEnableDriverApi", 307, 0)
    add(memory)
    for kind in (COPY, FILL, DRIVER, CONCURRENT, LINK):
        profiler.cupti("cuptiActivityDisable", kind)
    add(memory)
    profiler.cupti("cuptiActivityFlushAll", 1)
    assert len(profiler.of(CONCURRENT)) == 1
    assert 307 not in [struct.unpack_from("<II", raw)[1] for raw in profiler.of(DRIVER)]
    profiler.cupti("cuptiActivityEnableDriverApi", 307, 1)


def test_what_is_not_provided_is_refused(memory: Device, profiler: Profiler) -> None:
    assert profiler.cupti.raw("cuptiActivityEnable", 30) == NOT_SUPPORTED
    subscriber = profiler.cupti.word("cuptiSubscribe", 1, 0)
    assert profiler.cupti.raw("cuptiEnableDomain", 1, subscriber, 2) == NOT_SUPPORTED
    profiler.cupti("cuptiEnableDomain", 1, subscriber, 3)
    profiler.cupti("cuptiUnsubscribe", subscriber)
