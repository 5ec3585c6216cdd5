"""The heap of device ``malloc`` under memcheck: only allocated pieces are accessible.

A launch's accesses are checked against the table of allocations; here the heap is in it piece by piece, as it is after each call.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.launch import LaunchContext
from warpwright.engine.services import DeviceHeap, HeapCall, existing_heap
from warpwright.tools.checks.findings import Finding, Place, place

Report = Callable[[str, HeapCall, str], None]
"""Reports a finding: (title, caller, detail)."""


class GuardedHeap:
    """The heap during one launch.

    Args:
        report: called for invalid frees.
    """

    def __init__(self, context: LaunchContext, heap: DeviceHeap, report: Report) -> None:
        self._context, self._heap, self._report = context, heap, report
        table = context.memory.table()
        at = int(np.searchsorted(table[:, 0], heap.allocation.address))
        self._before, self._behind = table[:at], table[at + 1 :]
        self.heap_changed()

    def heap_changed(self) -> None:
        """``malloc`` or ``free`` was called."""
        self._context.show_allocations(np.concatenate([self._before, self._heap.table(), self._behind]))

    def bad_free(self, address: int, freed: bool, by: HeapCall) -> None:
        """A thread frees an address that is not an allocation of the heap; ``freed``: it was one before."""
        what = "Device-side double free" if freed else "Invalid pointer to device-side free"
        why = f"Address {address:#x}: " + (
            "free was called with it before" if freed else "free takes what malloc of a kernel returned"
        )
        self._report(f"Malloc/Free error encountered: {what}", by, why)


def guard(context: LaunchContext, report: Report) -> None:
    """Restrict a launch to the allocated pieces of the heap, if there is one, and require that strings of ``printf`` are in memory."""

    def bad_string(address: int, by: HeapCall) -> None:
        title = "Invalid pointer to a string of device-side printf"
        report(title, by, f"Address {address:#x}: {'a null pointer' if address == 0 else 'it is in no memory'}")

    if context.services is not None:
        context.services.bad_string = bad_string
    heap = existing_heap(context.memory)
    if heap is not None:
        guarded = GuardedHeap(context, heap, report)
        if context.services is not None:
            context.services.guard = guarded


def caller(by: HeapCall) -> Place:
    """The place from which ``malloc`` or ``free`` was called."""
    code = by.program.instructions
    index = next((i for i, x in enumerate(code) if x.address == by.instruction), 0)
    if code[index].line is None:
        # Follows a call through a register: machine code that calls a function several times keeps its address.
        through_register = (
            i for i, x in enumerate(code) if x.opcode in ("CALL", "JMX") and "SERVICE" not in x.modifiers and x.line
        )
        index = next(through_register, index)
    return place(by.program, index, "", by.block, by.thread)


def leaks(memory: DeviceMemory) -> list[Finding]:
    """Device allocations that were never freed: one finding per place, with the number of occurrences."""
    heap = existing_heap(memory)
    found: dict[tuple[str, int], Finding] = {}
    for address, piece in heap.pieces().items() if heap is not None else ():
        key = piece.by.program.name, piece.by.instruction
        if key in found:
            found[key].count += 1
            continue
        title = f"Leaked {piece.size_bytes:,} bytes at {address:#x} on the device heap"
        found[key] = Finding("leakcheck", "error", title, (caller(piece.by),), (), 1, address)
    return list(found.values())
