"""The memory of a graphics device: one address space of buffers, in one array of the host.

A buffer's device address is its offset in the array plus ``FIRST_ADDRESS``, so that a stage only subtracts a constant to access memory.  Local memory comes
first, then the part of the host's memory that the device
maps.  Accesses outside buffers fault.
"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpwright.errors import OutOfMemoryError
from warpwright.graphics.address_map import AddressMap, FreePlaces

FIRST_ADDRESS = 0x2000_0000
"""Device address of the first byte; the driver keeps the lowest addresses free, so that 0 is never allocated."""
PAGE_BYTES = 4096


@dataclass(slots=True)
class Buffer:
    """An allocation: ``address`` and ``size`` in bytes of device memory, and the properties that the driver requested."""

    handle: int
    address: int
    size: int
    local: bool
    """Whether it is in local memory rather than in the host's."""
    storage_type: int = 0
    """0 for a linear buffer, otherwise the driver's tiling type."""
    tile_mode: int = 0
    references: int = field(default=1)


class VideoMemory:
    """Local memory and mapped host memory of a device.

    Args:
        local_bytes: size of local memory.
        host_bytes: size of the mapped host memory.
    """

    def __init__(self, local_bytes: int, host_bytes: int) -> None:
        size = local_bytes + host_bytes
        self.local_bytes, self.host_bytes = local_bytes, host_bytes
        no_reserve = 0x4000
        self._map = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self.host_address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._regions = (FreePlaces(local_bytes, host_bytes), FreePlaces(0, local_bytes))
        self.buffers: dict[int, Buffer] = {}
        self._by_address: AddressMap[Buffer] = AddressMap()
        self._next_handle = 1

    def allocate(self, size: int, align: int, local: bool, storage_type: int = 0, tile_mode: int = 0) -> Buffer:
        """Allocate a buffer filled with zeros.

        Raises:
            OutOfMemoryError: there is no room in that kind of memory.
        """
        size = max(PAGE_BYTES, -(-size // PAGE_BYTES) * PAGE_BYTES)
        align = max(align, PAGE_BYTES)
        place = self._regions[local].take(size, align)
        if place is None:
            kind, total = ("local", self.local_bytes) if local else ("mapped host", self.host_bytes)
            raise OutOfMemoryError(
                f"the graphics device has no {size} free bytes of {kind} memory ({total >> 20} MiB in all): use smaller or fewer buffers"
            )
        buffer = Buffer(self._next_handle, FIRST_ADDRESS + place, size, local, storage_type, tile_mode)
        self._next_handle += 1
        self._add(buffer)
        return buffer

    def _add(self, buffer: Buffer) -> None:
        place = buffer.address - FIRST_ADDRESS
        self.bytes[place : place + buffer.size] = 0
        self.buffers[buffer.handle] = buffer
        self._by_address.add(buffer)

    def place_buffer(self, buffer: Buffer) -> None:
        """Allocate a buffer filled with zeros at a given address.

        Raises:
            OutOfMemoryError: the address range is not free or is outside memory.
        """
        place = buffer.address - FIRST_ADDRESS
        if buffer.handle in self.buffers or not self._regions[buffer.local].take_at(place, buffer.size):
            raise OutOfMemoryError(
                f"buffer {buffer.handle} cannot be at {buffer.address:#x}: {buffer.size} bytes are not free there"
            )
        self._next_handle = max(self._next_handle, buffer.handle + 1)
        self._add(buffer)

    def free(self, buffer: Buffer) -> None:
        """Free a buffer's memory."""
        del self.buffers[buffer.handle]
        self._by_address.remove(buffer)
        self._regions[buffer.local].give(buffer.address - FIRST_ADDRESS, buffer.size)

    def find(self, address: int) -> Buffer | None:
        """The buffer that holds an address."""
        return self._by_address.find(address)

    def place(self, address: int, size: int, what: str) -> int:
        """The offset in :attr:`bytes` of a range of device addresses.

        Raises:
            MemoryFaultError: the range is not within one buffer; the message names ``what`` accessed it.
        """
        self._by_address.holder(address, size, what)
        return address - FIRST_ADDRESS

    def view(self, address: int, size: int, what: str) -> npt.NDArray[np.uint8]:
        """The bytes of a range of device addresses; raises as :meth:`place`."""
        at = self.place(address, size, what)
        return self.bytes[at : at + size]

    def texture_room(self, address: int, what: str) -> tuple[int, int]:
        """The host address of a device address, and the number of bytes from there to the end of its buffer; raises as :meth:`place`."""
        buffer = self._by_address.holder(address, 1, what)
        return self.host_address + address - FIRST_ADDRESS, buffer.address + buffer.size - address

    def words(self, address: int, count: int, what: str) -> npt.NDArray[np.uint32]:
        """A range of ``count`` 32-bit words; the address is a multiple of four."""
        return self.view(address, 4 * count, what).view(np.uint32)
