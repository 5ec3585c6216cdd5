"""Address map of a device: the free ranges of its memory, and the buffer at each address."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Generic, Protocol, TypeVar

from warpwright.errors import FaultingAccess, MemoryFaultError


class Placed(Protocol):
    """An entry of an address map: a range of device addresses in bytes."""

    address: int
    size: int


AnyBuffer = TypeVar("AnyBuffer", bound=Placed)


class FreePlaces:
    """Free ranges as (offset, size), in order; allocation is first-fit."""

    def __init__(self, start: int, size: int) -> None:
        self.free: list[tuple[int, int]] = [(start, size)]

    def take(self, size: int, align: int) -> int | None:
        """Allocate a range of that size; None if there is none."""
        for i, (at, room) in enumerate(self.free):
            start = -(-at // align) * align
            if start + size <= at + room:
                self._cut(i, start, size)
                return start
        return None

    def take_at(self, start: int, size: int) -> bool:
        """Allocate a given range if it is free."""
        for i, (at, room) in enumerate(self.free):
            if size > 0 and at <= start and start + size <= at + room:
                self._cut(i, start, size)
                return True
        return False

    def _cut(self, i: int, start: int, size: int) -> None:
        at, room = self.free[i]
        rest = [(at, start - at), (start + size, at + room - start - size)]
        self.free[i : i + 1] = [piece for piece in rest if piece[1]]

    def give(self, start: int, size: int) -> None:
        """Free a range; it is merged with its free neighbours."""
        insort(self.free, (start, size))
        merged: list[tuple[int, int]] = []
        for at, room in self.free:
            if merged and merged[-1][0] + merged[-1][1] == at:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((at, room))
        self.free = merged


class AddressMap(Generic[AnyBuffer]):
    """Buffers by their addresses; no two overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._by_start: dict[int, AnyBuffer] = {}

    def add(self, buffer: AnyBuffer) -> None:
        """Add a buffer, which already has its address."""
        insort(self._starts, buffer.address)
        self._by_start[buffer.address] = buffer

    def remove(self, buffer: AnyBuffer) -> None:
        """Remove a buffer."""
        self._starts.remove(buffer.address)
        del self._by_start[buffer.address]

    def find(self, address: int) -> AnyBuffer | None:
        """The buffer that holds an address."""
        i = bisect_right(self._starts, address)
        if not i:
            return None
        buffer = self._by_start[self._starts[i - 1]]
        return buffer if address < buffer.address + buffer.size else None

    def holder(self, address: int, size: int, what: str) -> AnyBuffer:
        """The buffer that holds a range of addresses.

        Raises:
            MemoryFaultError: the range is not within one buffer; the message names ``what`` accessed it.
        """
        buffer = self.find(address)
        if buffer is not None and address + size <= buffer.address + buffer.size:
            return buffer
        near = (
            f"the buffer there has {buffer.size} bytes from {buffer.address:#x}"
            if buffer
            else "there is no buffer there"
        )
        raise MemoryFaultError(
            f"GPU fault: {what} accesses {size} bytes at {address:#x}: {near}",
            FaultingAccess(address=address, bytes=size, reason=near),
        )
