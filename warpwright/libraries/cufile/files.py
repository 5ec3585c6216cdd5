"""cuFile's driver, registered files and buffers, and reads and writes: at once, in a stream's order, and in batches.

A call returns CUfileError_t, two numbers in one word: an error of cuFile, and above it one of the driver (``_word``).  Reads and writes return bytes or a negative error.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from warpwright.driver import cmemory
from warpwright.driver.cuda_error import CudaError, say
from warpwright.driver.driver_state import Stream, state
from warpwright.driver.graphs import Node, submit
from warpwright.driver.memory import holder
from warpwright.driver.pending import queue
from warpwright.libraries.calls import entry
from warpwright.libraries.cufile.file_transfer import INVALID_VALUE, File, Transfer, set_errno, stream_of

NOT_OPEN, INVALID_FILE, CUDA_ERROR = 5001, 5018, 5011
"""CU_FILE_DRIVER_NOT_INITIALIZED, _INVALID_FILE_TYPE, _CUDA_DRIVER_ERROR."""
BUFFER_REGISTERED, BUFFER_NOT_REGISTERED = 5023, 5024
"""CU_FILE_MEMORY_ALREADY_REGISTERED, _NOT_REGISTERED."""
FILE_NOT_REGISTERED, FILE_REGISTERED = 5027, 5028
"""CU_FILE_HANDLE_NOT_REGISTERED, _ALREADY_REGISTERED."""
BATCH_FULL = 5037
"""CU_FILE_BATCH_FULL."""
_CAPTURING = 900
"""CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED."""
_DESCRIPTOR, _OF_LINUX = "i4xi", 1
"""The beginning of CUfileDescr_t: kind, file descriptor; CU_FILE_HANDLE_TYPE_OPAQUE_FD."""
_REQUEST, _REQUEST_BYTES = "i4xQqqQQi4xQ", 64
"""CUfileIOParams_t: mode, buffer, offset in the file, offset in the buffer, size, file, operation, cookie."""
_EVENT = "QI4xq"
"""CUfileIOEvents_t: cookie, status, result."""
_INVALID, _COMPLETE, _FAILED = 0x4, 0x10, 0x40
"""CUfileStatus_t."""
Kind = TypeVar("Kind")


@dataclass
class FileDriver:
    """cuFile's driver in this process, and what is registered with it."""

    opened: int = 0
    """Number of calls of cuFileDriverOpen less that of cuFileDriverClose."""
    files: dict[int, int] = field(default_factory=dict)
    """Handles by file descriptor."""
    buffers: dict[int, int] = field(default_factory=dict)
    """Sizes by address."""


file_driver = FileDriver()


@dataclass(eq=False)
class Batch:
    """Requests that have ended and whose events the program has not fetched."""

    of_null: ClassVar[int] = INVALID_VALUE
    most: int
    """Requests that it holds at most."""
    ended: list[tuple[int, int, int]] = field(default_factory=list)
    """Cookie, status and result."""


def _word(error: int, of_driver: int = 0) -> int:
    return error | of_driver << 32


def _find(kind: type[Kind], number: int) -> Kind | None:
    found = state().handles.find(number)
    return found if isinstance(found, kind) else None


# --- the driver -------------------------------------------------------------------------------------
@entry("cuFileDriverOpen")
def open_driver() -> None:
    file_driver.opened += 1


@entry("cuFileDriverClose", "cuFileDriverClose_v2")
def close_driver() -> int | None:
    if not file_driver.opened:
        return _word(NOT_OPEN)
    file_driver.opened -= 1
    if not file_driver.opened:
        for handle in list(file_driver.files.values()):
            deregister_file(handle)
        file_driver.buffers.clear()
    return None


@entry("cuFileUseCount")
def use_count() -> int:
    return file_driver.opened


# --- files and buffers ------------------------------------------------------------------------------
@entry("cuFileHandleRegister")
def register_file(place: int, description: int) -> int | None:
    """Register a file; opens cuFile's driver if the program has not."""
    if not (place and description):
        return _word(INVALID_VALUE)
    kind, descriptor = cmemory.read(_DESCRIPTOR, description)
    if kind != _OF_LINUX:
        say("cuFileHandleRegister: only file descriptors of Linux are provided, not file systems of the program's own")
        return _word(INVALID_VALUE)
    if descriptor in file_driver.files:
        return _word(FILE_REGISTERED)
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        made = File(descriptor) if regular else None
    except OSError:
        made = None
    if made is None:
        return _word(INVALID_FILE)
    file_driver.opened = file_driver.opened or 1
    file_driver.files[descriptor] = handle = state().handles.add(made)
    cmemory.put64(place, handle)
    return None


@entry("cuFileHandleDeregister")
def deregister_file(handle: int) -> None:
    file = _find(File, handle)
    if file is not None:
        queue.drain()
        file_driver.files.pop(file.descriptor, None)
        state().handles.drop(handle)
        file.close()


@entry("cuFileBufRegister")
def register_buffer(address: int, size: int, flags: int) -> int | None:
    found = holder(address) if address else None
    if not (address and size) or (found is not None and address + size > found.end):
        return _word(INVALID_VALUE)
    if address in file_driver.buffers:
        return _word(BUFFER_REGISTERED)
    file_driver.buffers[address] = size
    return None


@entry("cuFileBufDeregister")
def deregister_buffer(address: int) -> int | None:
    return None if file_driver.buffers.pop(address, None) else _word(BUFFER_NOT_REGISTERED)


# --- at once ----------------------------------------------------------------------------------------
def _at_once(reads: bool) -> Callable[[int, int, int, int, int], int]:
    def call(handle: int, buffer: int, size: int, offset: int, offset_in_buffer: int) -> int:
        """Bytes, -1 with errno, or a negative error."""
        file = _find(File, handle)
        if file is None:
            return -FILE_NOT_REGISTERED
        made = Transfer(file, reads, buffer and buffer + _signed(offset_in_buffer), _signed(size), _signed(offset))
        return _run(made)

    return call


def _run(transfer: Transfer) -> int:
    """Run a transfer that waits for none of the program's streams; the host waits for it."""
    queue.drain()
    stream = stream_of(transfer.address)
    transfer.run(stream)
    state().host_waits(stream.ps)
    if transfer.errno:
        set_errno(transfer.errno)
    return transfer.result


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


entry("cuFileRead")(_at_once(True))
entry("cuFileWrite")(_at_once(False))


# --- in a stream's order ----------------------------------------------------------------------------
@dataclass(eq=False)
class Deferred(Node):
    """A transfer whose size and offsets are read, and whose result is stored, when its turn in the stream comes."""

    file: File
    reads: bool
    buffer: int
    places: tuple[int, int, int]
    """Addresses of the size, the offset in the file and the offset in the buffer."""
    result: int
    """Address of the result."""

    def run(self, stream: Stream) -> None:
        size, offset, offset_in_buffer = (_signed(cmemory.get64(place)) for place in self.places)
        transfer = Transfer(self.file, self.reads, self.buffer + offset_in_buffer, size, offset)
        transfer.run(stream)
        cmemory.put64(self.result, transfer.result & (1 << 64) - 1)


def _in_order(reads: bool) -> Callable[..., int | None]:
    def call(
        handle: int, buffer: int, size: int, offset: int, offset_in_buffer: int, result: int, stream: int
    ) -> int | None:
        file = _find(File, handle)
        if file is None:
            return _word(FILE_NOT_REGISTERED)
        if not all((buffer, size, offset, offset_in_buffer, result)):
            return _word(INVALID_VALUE)
        try:
            found = state().stream(stream)
        except CudaError as error:
            return _word(CUDA_ERROR, error.code)
        if found.capture is not None:
            return _word(CUDA_ERROR, _CAPTURING)
        submit(found, Deferred(file, reads, buffer, (size, offset, offset_in_buffer), result))
        return None

    return call


entry("cuFileReadAsync")(_in_order(True))
entry("cuFileWriteAsync")(_in_order(False))


@entry("cuFileStreamRegister")
def register_stream(stream: int, flags: int) -> int | None:
    return _stream_error(stream)


@entry("cuFileStreamDeregister")
def deregister_stream(stream: int) -> int | None:
    return _stream_error(stream)


def _stream_error(stream: int) -> int | None:
    try:
        state().stream(stream)
    except CudaError as error:
        return _word(CUDA_ERROR, error.code)
    return None


# --- batches ----------------------------------------------------------------------------------------
@entry("cuFileBatchIOSetUp")
def set_up_batch(place: int, most: int) -> int | None:
    if not (place and most):
        return _word(INVALID_VALUE)
    cmemory.put64(place, state().handles.add(Batch(most)))
    return None


@entry("cuFileBatchIOSubmit")
def submit_batch(handle: int, count: int, requests: int, flags: int) -> int | None:
    """Execute each request at once; its event is kept until the program fetches it."""
    batch = _find(Batch, handle)
    if batch is None or not (count and requests):
        return _word(INVALID_VALUE)
    if len(batch.ended) + count > batch.most:
        return _word(BATCH_FULL)
    for number in range(count):
        batch.ended.append(_answer(*cmemory.read(_REQUEST, requests + _REQUEST_BYTES * number)))
    return None


def _answer(*request: Any) -> tuple[int, int, int]:
    mode, buffer, offset, offset_in_buffer, size, handle, operation, cookie = request
    file = _find(File, handle)
    if file is None or mode != 1 or operation not in (0, 1):
        return cookie, _INVALID, -INVALID_VALUE
    result = _run(Transfer(file, operation == 0, buffer and buffer + offset_in_buffer, _signed(size), offset))
    return cookie, _COMPLETE if result >= 0 else _FAILED, result


@entry("cuFileBatchIOGetStatus")
def batch_status(handle: int, least: int, count: int, events: int, timeout: int) -> int | None:
    batch = _find(Batch, handle)
    if batch is None or not (count and events):
        return _word(INVALID_VALUE)
    most = cmemory.get32(count)
    if least > most:
        return _word(INVALID_VALUE)
    given, batch.ended = batch.ended[:most], batch.ended[most:]
    size = struct.calcsize(_EVENT)
    for number, event in enumerate(given):
        cmemory.write(_EVENT, events + size * number, *event)
    cmemory.put32(count, len(given))
    return None


@entry("cuFileBatchIOCancel")
def cancel_batch(handle: int) -> int | None:
    """Nothing is left to cancel: requests end when they are submitted."""
    return None if _find(Batch, handle) is not None else _word(INVALID_VALUE)


@entry("cuFileBatchIODestroy")
def destroy_batch(handle: int) -> None:
    if _find(Batch, handle) is not None:
        state().handles.drop(handle)
