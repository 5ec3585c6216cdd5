"""Kernels that a kernel launches: recorded during the parent launch and run after it.

Since CUDA 12 a kernel cannot wait for kernels that it launches (CUDA C++ Programming Guide, "CUDA Dynamic
Parallelism"), and its own launch ends only when they have ended.  They therefore run after it, in launch order, each
followed by its own child launches, and see all the parent's writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.geometry import Dim3

PENDING_LAUNCHES = 2048
"""The default of cudaLimitDevRuntimePendingLaunchCount."""
PARAMETER_BYTES = 4 << 20
_ALIGNMENT_BYTES = 64
_FIRST_STREAM = 0x100
INVALID_CONFIGURATION = 9


@dataclass(frozen=True, slots=True)
class Child:
    """A launch requested by a kernel."""

    symbol: str
    grid: Dim3
    block: Dim3
    shared: int
    parameters: bytes


class DeviceLaunches:
    """Launches of one running kernel.

    Args:
        find: returns symbol and parameter size of the kernel at a code address; raises KeyError for any other address.
    """

    def __init__(self, memory: DeviceMemory, find: Callable[[int], tuple[str, int]]) -> None:
        self.memory = memory
        self.place: Allocation = memory.allocate(PARAMETER_BYTES, "parameters of launches from kernels")
        self.children: list[Child] = []
        self._find = find
        self._free = self.place.address
        self._asked: dict[int, tuple[str, int, Dim3, Dim3, int]] = {}
        self._streams = 0
        self.last_error = 0
        """The last error that the kernel set (``cudaSetLastError``)."""

    def parameters(self, kernel: int, grid: Dim3, block: Dim3, shared: int) -> int:
        """Address for a kernel's parameters; 0 if there is no such kernel or no room."""
        try:
            symbol, size = self._find(kernel)
        except KeyError:
            return 0
        room = -(-max(size, 1) // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        if self._free + room > self.place.end or len(self.children) >= PENDING_LAUNCHES:
            return 0
        address = self._free
        self._free += room
        self._asked[address] = (symbol, size, grid, block, shared)
        return address

    def launch(self, address: int) -> int:
        """Record a launch whose parameters are in place; returns 0 or the error's number."""
        asked = self._asked.pop(address, None)
        if asked is None or 0 in asked[2] or 0 in asked[3]:
            return INVALID_CONFIGURATION
        symbol, size, grid, block, shared = asked
        contents = self.memory.view(address, size, read_only=True).tobytes()
        self.children.append(Child(symbol, grid, block, shared, contents))
        return 0

    def new_stream(self) -> int:
        """A new handle; launches of all streams run in order."""
        self._streams += 1
        return _FIRST_STREAM + self._streams

    def release(self) -> None:
        """Free the parameters' memory."""
        self.memory.free(self.place)
