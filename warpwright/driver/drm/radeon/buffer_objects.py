"""Buffers of the device: places in one file of the host's memory, which Mesa opens as the render node and maps.

Programs see a buffer at the virtual address that Mesa gives it; the engine sees the bytes where this process has the file mapped.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from warpwright.errors import OutOfMemoryError
from warpwright.graphics.address_map import AddressMap, FreePlaces

PAGE_BYTES = 4096
FILE_BYTES = 1 << 36
"""Room for buffers in the file, which takes no memory before it is written."""
Bytes = npt.NDArray[np.uint8]


@cache
def node_descriptor() -> int:
    """The file of buffers, which is the render node too."""
    descriptor = os.memfd_create("warpwright-radeon")
    os.ftruncate(descriptor, FILE_BYTES)
    return descriptor


@dataclass(slots=True)
class Buffer:
    """An allocation of the driver."""

    handle: int
    offset: int
    """In the file."""
    size: int
    local: bool
    """In local memory, rather than in the host's."""
    address: int = 0
    """Virtual address; 0: it has none yet."""
    tiling: int = 0
    pitch: int = 0
    references: int = 1


class Buffers:
    """The buffers of a device, by handle and by virtual address.

    Args:
        local_bytes: size of local memory.
        host_bytes: what the device can map of the host's.
    """

    def __init__(self, local_bytes: int, host_bytes: int) -> None:
        self._map = mmap.mmap(node_descriptor(), FILE_BYTES, flags=mmap.MAP_SHARED)
        self.bytes: Bytes = np.frombuffer(self._map, dtype=np.uint8)
        self.host_address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.room = {True: local_bytes, False: host_bytes}
        self.used = {True: 0, False: 0}
        self.by_handle: dict[int, Buffer] = {}
        self._free = FreePlaces(0, FILE_BYTES)
        self._by_address: AddressMap[Buffer] = AddressMap()
        self._next_handle = 1

    def allocate(self, size: int, align: int, local: bool) -> Buffer:
        """A new buffer, filled with zeros.

        Raises:
            OutOfMemoryError: no room in that kind of memory.
        """
        size = max(PAGE_BYTES, -(-size // PAGE_BYTES) * PAGE_BYTES)
        align = max(PAGE_BYTES, align)
        if self.used[local] + size > self.room[local]:
            raise OutOfMemoryError(
                f"the device has no {size} free bytes of {'local' if local else 'mapped host'} memory "
                f"({self.room[local] >> 20} MiB in all): use smaller or fewer buffers"
            )
        start = self._free.take(size, align)
        if start is None:
            raise OutOfMemoryError(f"the device has no {size} free addresses: use fewer buffers")
        self.used[local] += size
        made = Buffer(self._next_handle, start, size, local)
        self._next_handle += 1
        self.by_handle[made.handle] = made
        return made

    def release(self, handle: int) -> Buffer | None:
        """Give up one reference; the buffer if it was the last one, whose memory is free then."""
        buffer = self.by_handle[handle]
        buffer.references -= 1
        if buffer.references:
            return None
        self.unplace(buffer)
        del self.by_handle[handle]
        self.used[buffer.local] -= buffer.size
        remove = 9  # MADV_REMOVE: the pages of the file, which are zeros when they are used again
        self._map.madvise(remove, buffer.offset, buffer.size)
        self._free.give(buffer.offset, buffer.size)
        return buffer

    def place(self, buffer: Buffer, address: int) -> None:
        """Give a buffer its virtual address."""
        buffer.address = address
        self._by_address.add(buffer)

    def unplace(self, buffer: Buffer) -> None:
        """Take a buffer's virtual address away, if it has one."""
        if buffer.address:
            self._by_address.remove(buffer)
            buffer.address = 0

    def find(self, address: int) -> Buffer | None:
        """The buffer that holds a virtual address."""
        return self._by_address.find(address)

    def view(self, address: int, size: int, what: str) -> Bytes:
        """The bytes of a range of virtual addresses.

        Raises:
            MemoryFaultError: the range is not within one buffer; the message names ``what`` accessed it.
        """
        buffer = self._by_address.holder(address, size, what)
        at = buffer.offset + address - buffer.address
        return self.bytes[at : at + size]

    def host_pointer(self, address: int, size: int, what: str) -> int:
        """Where this process has a range of virtual addresses; raises as :meth:`view`."""
        return int(self.view(address, size, what).ctypes.data)
