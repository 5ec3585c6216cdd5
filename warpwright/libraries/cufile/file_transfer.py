"""One transfer between a file and memory: its bytes, its simulated time, and what it returns.

The bytes are read and written by the host's own file system calls, as in cuFile's compatibility mode.  A transfer takes the time of a copy between page-locked host
memory and the device.  No chip file describes a storage device, so storage takes no time unless ``WARPWRIGHT_STORAGE_GB_PER_S`` names its rate; then the
slower of the two counts.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from typing import ClassVar

from warpwright.driver import copy_order, transfers
from warpwright.driver.copies import Side, check_device, copied, touched_by_driver, written
from warpwright.driver.cuda_error import CudaError, say
from warpwright.driver.driver_state import Device, Stream, state
from warpwright.driver.graphs import Node
from warpwright.driver.memory import device_at, holder, memory_of
from warpwright.engine.allocation import Bytes
from warpwright.environment import gb_per_s, setting

_RATE = "STORAGE_GB_PER_S"
"""The storage's rate in both directions."""
INVALID_VALUE, POINTER_RANGE = 5022, 5014
"""CU_FILE_INVALID_VALUE, CU_FILE_CUDA_POINTER_RANGE_ERROR."""
_NON_BLOCKING = 1
_SYSTEM_ERROR = -1
"""What a read or a write returns if errno has the error."""


@dataclass(eq=False)
class File:
    """A registered file."""

    of_null: ClassVar[int] = INVALID_VALUE
    descriptor: int
    """The program's own."""
    own: int = field(init=False)
    """A descriptor of the same file without O_DIRECT, which takes any size, offset and address."""

    def __post_init__(self) -> None:
        self.own = _buffered(self.descriptor)

    def close(self) -> None:
        os.close(self.own)


def _buffered(descriptor: int) -> int:
    import fcntl

    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    if flags & os.O_DIRECT:
        try:
            return os.open(f"/proc/self/fd/{descriptor}", flags & ~os.O_DIRECT | os.O_CLOEXEC)
        except OSError:
            pass  # The file cannot be opened again; a duplicate of its descriptor still works for aligned transfers.
    return os.dup(descriptor)


def storage_gb_per_s() -> float | None:
    """The storage's rate if the user has set one; otherwise None, with a message that is printed once."""
    rate = setting(_RATE, gb_per_s, None)
    if rate is None and state().timed:
        say(
            f"cuFile: the storage's rate is not known, so a transfer takes the time of the link to the device; WARPWRIGHT_{_RATE} names a rate"
        )
    return rate


def stream_of(address: int) -> Stream:
    """A stream of the device that owns an address, for a transfer that waits for none of the program's streams."""
    device: Device = device_at(address) if holder(address) is not None else state().device
    return Stream(device, _NON_BLOCKING)


@dataclass(eq=False)
class Transfer(Node):
    """A read from a file (``reads``) or a write to it."""

    file: File
    reads: bool
    address: int
    size: int
    offset: int
    result: int = 0
    """Number of bytes transferred, or a negative error."""
    errno: int = 0

    def run(self, stream: Stream) -> None:
        """Transfer the bytes, and take the time of those that were transferred."""
        if self.size < 0 or self.offset < 0 or not self.address:
            self.result = -INVALID_VALUE
            return
        try:
            if holder(self.address) is not None:
                check_device(self.address, self.size)
        except CudaError as error:
            say(f"cuFile: {error}")
            self.result = -POINTER_RANGE
            return
        with touched_by_driver():
            if not self.reads:
                self._note_read(stream)
            try:
                self.result = self._move()
            except OSError as error:
                self.result, self.errno = _SYSTEM_ERROR, error.errno or 0
                return
            if self.reads and self.result and holder(self.address) is not None:
                copy_order.copied(stream, None, self._side, (self.result, 1, 1))
                written(self.address, self.result)
        direction = transfers.TO_DEVICE if self.reads else transfers.FROM_DEVICE
        transfers.with_storage(stream, self.address, self.result, direction, storage_gb_per_s())

    @property
    def _side(self) -> Side:
        return Side(self.address, self.size, 1)

    def _note_read(self, stream: Stream) -> None:
        """Let the checks know that device memory is read for the host."""
        if not copy_order.on_device(self.address):
            return
        copy_order.copied(stream, self._side, Side(0), (self.size, 1, 1))
        unwritten: list[tuple[int, Bytes]] = []
        copied(0, self.address, self.size, unwritten)
        watcher = memory_of(self.address).observer
        if unwritten and watcher is not None:
            watcher.read_by_host(unwritten, self.size)

    def _move(self) -> int:
        """Read or write until all is done or the file ends.

        Returns:
            The bytes that were transferred.
        """
        done = 0
        while done < self.size:
            part = (ctypes.c_char * (self.size - done)).from_address(self.address + done)
            if self.reads:
                now = os.preadv(self.file.own, [part], self.offset + done)
            else:
                now = os.pwritev(self.file.own, [part], self.offset + done)
            if not now:
                break
            done += now
        return done


def set_errno(number: int) -> None:
    """Set errno for the thread that made the call."""
    place = ctypes.CDLL(None).__errno_location
    place.restype = ctypes.POINTER(ctypes.c_int)
    place()[0] = number
