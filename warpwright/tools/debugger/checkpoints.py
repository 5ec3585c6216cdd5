"""Checkpoints of a launch in the debugger: the state of its warps and its memory, from which it runs again, the same way."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.interpreted_launch import InterpretedExecution
from warpwright.engine.tiers import REVERSIBLE
from warpwright.isa.program import Program
from warpwright.quantity_text import byte_count_text

INTERVAL_SECONDS = 0.5
"""Host time of a launch between two checkpoints: what a step back takes at most to run again."""
MOST_BYTES = 1 << 30
"""Of all checkpoints together; beyond, every second one is given up, the first one never."""


def hindrance(program: Program, memory: DeviceMemory) -> str:
    """Why a launch cannot go back, or nothing."""
    if not REVERSIBLE.issuperset(program.services):
        return "the kernel launches kernels"
    if any(i.opcode.startswith("SU") for i in program.instructions):
        return "the kernel may write surfaces"
    used = sum(a.size_bytes for a in memory)
    return (
        f"{byte_count_text(used)} of memory would have to be kept, more than {byte_count_text(MOST_BYTES)}"
        if used > MOST_BYTES
        else ""
    )


@dataclass(slots=True)
class Checkpoint:
    """The launch at one instruction."""

    clock: int
    """Warp-instructions executed before it."""
    warps: tuple[Any, ...]
    contents: list[tuple[Allocation, npt.NDArray[np.uint8]]]
    services: Any
    own_bytes: int
    """Contents that no earlier checkpoint has."""


class Checkpoints:
    """All checkpoints of a launch, in its order."""

    def __init__(self, execution: InterpretedExecution) -> None:
        self._execution = execution
        self._kept: list[Checkpoint] = []
        self._taken = 0.0
        self.begun_late = False
        """The first one is not of the launch's beginning."""
        self.hindrance = hindrance(execution.context.program, execution.context.memory)

    def begin_here(self) -> None:
        """Give up all that were taken, and take one of the state now."""
        self._kept.clear()
        self.begun_late = True
        self.take()

    def due(self) -> bool:
        """Whether it is time for another."""
        return not self.hindrance and time.monotonic() - self._taken > INTERVAL_SECONDS

    def clocks(self) -> list[int]:
        """When they were taken."""
        return [c.clock for c in self._kept]

    def take(self) -> None:
        """Take one now, unless there is one already."""
        execution, clock = self._execution, self._execution.launch.clock
        if self.hindrance or any(c.clock == clock for c in self._kept):
            self._taken = time.monotonic()
            return
        before = {a: data for c in self._kept[-1:] for a, data in c.contents}
        contents, own = [], 0
        for allocation in execution.context.memory:
            now = execution.context.memory.view(allocation.address, allocation.size_bytes, read_only=True)
            known = before.get(allocation)
            if known is None or not np.array_equal(known, now):
                known = now.copy()
                own += len(known)
            contents.append((allocation, known))
        services = execution.context.services.state() if execution.context.services is not None else None
        self._kept.append(Checkpoint(clock, execution.state(), contents, services, own))
        self._kept.sort(key=lambda c: c.clock)
        if sum(c.own_bytes for c in self._kept) > MOST_BYTES:
            self._kept = [self._kept[0], *self._kept[1::2]]
        self._taken = time.monotonic()

    def restore(self, clock: int) -> int:
        """Make the launch again as it was at the last checkpoint not after ``clock``; returns when that was."""
        found = [c for c in self._kept if c.clock <= clock][-1]
        memory = self._execution.context.memory
        for allocation, contents in found.contents:
            memory.restore(allocation, contents)
        if found.services is not None:
            self._execution.context.services.become(found.services)
        self._execution.become(found.warps)
        self._taken = time.monotonic()
        return found.clock
