"""An allocation of device memory, and the interface of what observes the host's accesses to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import HERE

Bytes = npt.NDArray[np.uint8]


@dataclass(slots=True, eq=False)
class Allocation:
    """A range of device memory, and the name that faults use for it."""

    address: int
    """Device address of the first byte."""
    size_bytes: int
    name: str
    """Its description in messages: ``argument 2 'x' of saxpy``, ``array float32[1024]``, ``symbol 'table'``."""
    freed: bool = False
    mapped: bool = False
    """True for host memory, or memory mapped into a reserved range: freeing it returns no device memory."""
    place: int = HERE
    """``HERE``, ``HOST``, ``MIGRATES``, ``PEER`` or ``peer_place`` of a device; affects only timing."""
    moved_bytes: int = 0
    """Its address minus the one by which caches and channels know it, which is the same in every process."""
    by_host: bool = False
    """True for ordinary memory of the process, whose addresses the host's page tables translate."""
    reserved_bytes: int = 0
    """Bytes of device addresses that it takes, if more than its size: whole pages that migrate."""
    in_pages: bool = False
    """Whether it is in the program's pages (``DeviceMemory.pages``)."""

    @property
    def end(self) -> int:
        """Device address one past the last byte."""
        return self.address + self.size_bytes


class Observer(Protocol):
    """Interface for observers of host accesses to device memory."""

    def allocated(self, allocation: Allocation, undefined: bool) -> None:
        """An allocation was made; if ``undefined``, its contents are undefined until they are written."""

    def freed(self, allocation: Allocation) -> None:
        """An allocation was freed."""

    def filled(self, address: int, size_bytes: int, contents: Bytes | None = None) -> None:
        """The host wrote bytes, or got a writable view; ``contents``: what :meth:`contents` returned for the copied
        bytes."""

    def contents(self, address: int, size_bytes: int) -> Bytes | None:
        """255 for each byte that was written, 0 for others; None if all were written."""

    def read_by_host(self, rows: Sequence[tuple[int, Bytes]], size_bytes: int) -> None:
        """Bytes are copied to the host, not all of which were written: address and :meth:`contents` of such rows."""

    def emptied(self, address: int, size_bytes: int) -> None:
        """Bytes become undefined again until they are written."""
