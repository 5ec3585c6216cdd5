"""Snapshots of the memory before a launch, from which the launch can be repeated."""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.services import existing_heap
from warpwright.engine.tiers import REVERSIBLE
from warpwright.isa.program import Program
from warpwright.quantity_text import byte_count_text

MOST_BYTES = 1 << 30
"""Maximum bytes of global memory in a snapshot; copying them takes about a second."""


def hindrance(program: Program, memory: DeviceMemory, beside: Sequence[DeviceMemory] = ()) -> str:
    """Why a launch of the program cannot be repeated from the same state; empty if it can.

    Args:
        beside: memories of which there are snapshots as well.
    """
    if not REVERSIBLE.issuperset(program.services):
        return "the kernel launches kernels"
    if any(i.opcode.startswith("SU") for i in program.instructions):
        return "the kernel may write surfaces"
    if any(a.mapped and not any(other.holds(a.address) for other in beside) for a in memory):
        return "memory of the host or of another device is mapped, which the kernel may change"
    used = sum(a.size_bytes for a in memory)
    return f"{byte_count_text(used)} of memory would have to be kept" if used > MOST_BYTES else ""


class LaunchSnapshot:
    """A copy of a device's own global memory and of its heap; requires that :func:`hindrance` returns nothing."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._kept = [(a, memory.snapshot(a)) for a in memory if not a.mapped]
        self._heap = existing_heap(memory)
        self._pieces = self._heap.state() if self._heap is not None else None

    def restore(self) -> None:
        """Restore the saved state."""
        for allocation, contents in self._kept:
            if not allocation.freed:
                self._memory.restore(allocation, contents)
        if self._heap is not None and self._pieces is not None:
            self._heap.become(self._pieces)
