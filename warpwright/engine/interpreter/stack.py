"""The interpreter's run loop for chips before Volta: one program counter for a warp, and a stack of waiting lanes.

The stack's entries are (kind, instruction index, lanes): ``ssy``, ``brk``, ``cnt`` and ``ret`` are reconvergence
points, ``div`` is a side of a divergent branch that waits for its turn.  Lanes run until they reach a SYNC, BRK, CONT
or RET (``pop``) or exit; when none is left to run, the top of the stack runs next.  After a divergent branch, the taken
side runs first (Coon and Lindholm, US patents 7,353,369 and 7,617,384).

A block barrier counts whole warps: threads that are elsewhere count as arrived (PTX ISA, ``bar``: before sm_70 a
barrier is executed for the warp as if all its threads did).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import FaultKind, Status
from warpwright.engine.interpreter.code import Code
from warpwright.engine.interpreter.gather_scatter import mask_bits
from warpwright.engine.interpreter.volta import arrive_at_barrier
from warpwright.engine.interpreter.warp import WarpState

MOST_ENTRIES = 1024
"""Depth of the stack (assumed: the chip spills its stack to memory that the driver sizes)."""

Mask = npt.NDArray[np.bool_]


def leave(w: WarpState, kind: str, lanes: Mask) -> bool:
    """Remove lanes from every entry above the topmost one of a kind; returns False if there is none."""
    for entry in reversed(w.entries):
        if entry[0] == kind:
            w.running &= ~lanes
            return True
        entry[2] &= ~lanes
    return False


def resume(w: WarpState) -> bool:
    """Run the top of the stack: the topmost entry that still has lanes; returns False if the stack is empty."""
    while w.entries:
        _, index, lanes = w.entries.pop()
        lanes = lanes & ~w.exited
        if lanes.any():
            w.running = lanes
            w.pcs[lanes] = index
            return True
    return False


def run_stacked(w: WarpState) -> Status:
    """Run a warp until it exits, waits at a block barrier, yields to other warps, faults."""
    total = len(w.launch.kernel.code)
    if not w.started:
        w.started = True
        w.running = ~w.exited
    if (w.waiting != -1).any():
        return Status.BARRIER
    w.running &= ~w.exited
    if not w.running.any() and not resume(w):
        return Status.EXIT
    run = _Run(w)
    pc = int(w.pcs[w.running][0])
    while True:
        if pc >= total:
            return w.stop(FaultKind.WILD_BRANCH, pc, mask_bits(w.running), Status.FAULT, 8 * pc)
        lanes = w.running
        c, e, values = w.execute(pc, lanes)
        if not c.control:
            pc += 1
            continue
        step = getattr(run, c.control, None)
        if step is None:
            raise ValueError(f"the reconvergence stack has no operation {c.control!r}")
        after = step(c, pc, e, values)
        if isinstance(after, Status):
            return after
        pc = after


class _Run:
    """Control operations by name: each returns the next instruction, or the status with which the warp stops."""

    def __init__(self, w: WarpState) -> None:
        self.w = w

    def push(self, c: Code, pc: int, e: Mask, values: Any) -> int | Status:
        return self._pushed(c.attr[0], self.w.launch.kernel.index_of[c.attr[1]], pc, e, pc + 1)

    def call(self, c: Code, pc: int, e: Mask, values: Any) -> int | Status:
        kernel = self.w.launch.kernel
        return self._pushed("ret", pc + 1, pc, e, kernel.index_of.get(c.attr, len(kernel.code)))

    def _pushed(self, kind: str, index: int, pc: int, e: Mask, after: int) -> int | Status:
        self.w.entries.append([kind, index, e.copy()])
        if len(self.w.entries) > MOST_ENTRIES:
            return self.w.stop(FaultKind.STACK_OVERFLOW, pc, mask_bits(e), Status.FAULT)
        return after

    def branch(self, c: Code, pc: int, e: Mask, values: Any) -> int | Status:
        w, kernel = self.w, self.w.launch.kernel
        taken = e if values is None else e & values[0]
        target = kernel.index_of.get(c.attr, len(kernel.code))
        rest = w.running & ~taken
        if not taken.any():
            return pc + 1
        if rest.any():
            w.entries.append(["div", pc + 1, rest])
            w.running = taken.copy()
        if target <= pc:
            w.turn_back_edges += 1
            w.jump_back()
            if w.turn_back_edges >= w.launch.turn_back_edges:
                w.pcs[w.running] = target
                return Status.YIELD
        return target

    def branch_indirect(self, c: Code, pc: int, e: Mask, values: Any) -> int | Status:
        wild = divide(self.w, pc, e, values[0])
        return int(self.w.pcs[self.w.running][0]) if wild is None else wild

    def pop(self, c: Code, pc: int, e: Mask, values: Any) -> int | Status:
        w = self.w
        lanes = e if values is None else e & values[0]
        if not lanes.any():
            return pc + 1
        w.running = w.running.copy()
        if not leave(w, c.attr, lanes):
            return w.stop(FaultKind.WILD_BRANCH, pc, mask_bits(lanes), Status.FAULT, 0)
        return self._after_leaving(pc)

    def exit(self, c: Code, pc: int, e: Mask, values: Any) -> int | Status:
        w = self.w
        lanes = e if values is None else e & values[0]
        if not lanes.any():
            return pc + 1
        w.exited |= lanes
        w.running = w.running & ~lanes
        return self._after_leaving(pc)

    def _after_leaving(self, pc: int) -> int | Status:
        """The next instruction of the remaining lanes, or of those on top of the stack."""
        w = self.w
        if w.running.any():
            return pc + 1
        if not resume(w):
            return Status.EXIT if w.exited.all() else Status.DEADLOCK
        return int(w.pcs[w.running][0])

    def trap(self, c: Code, pc: int, e: Mask, values: Any) -> int | Status:
        return self.w.stop(FaultKind.NONE, pc, mask_bits(e), Status.TRAP)

    def barrier(self, c: Code, pc: int, e: Mask, values: Any) -> int | Status:
        w = self.w
        w.pcs[w.running] = pc + 1
        first = int(e.argmax())
        if c.control == "barrier" and c.attr == "arrive":
            w.block.arrive(int(values[0][first]) & 15, w.lanes, int(values[1][first]))
            return pc + 1
        numbers, counts = (np.full(w.lanes, values[n][first]) for n in range(2))
        votes = np.zeros(w.lanes, np.bool_) if c.control == "barrier" else values[2] & e
        arrive_at_barrier(w, c, pc, ~w.exited, (numbers, counts, votes))
        return Status.BARRIER

    barrier_red = barrier


def divide(w: WarpState, pc: int, e: Mask, addresses: Any) -> Status | None:
    """A branch through a register: the lanes with the lowest target continue at their ``pcs``; the others wait on the
    stack.

    Returns a status if a lane's target is not an address of the code.
    """
    kernel = w.launch.kernel
    targets: dict[int, Mask] = {}
    for lane in np.flatnonzero(e):
        offset = (int(addresses[lane]) - kernel.program.code_base) & 0xFFFFFFFFFFFFFFFF
        index = kernel.index_of.get(offset)
        if index is None:
            return w.stop(FaultKind.WILD_BRANCH, pc, 1 << int(lane), Status.FAULT, offset)
        targets.setdefault(index, np.zeros(w.lanes, np.bool_))[lane] = True
    rest = w.running & ~e
    if rest.any():
        w.entries.append(["div", pc + 1, rest])
    *others, (index, lanes) = sorted(targets.items(), reverse=True)
    for other, waiting in others:
        w.entries.append(["div", other, waiting])
    w.running = lanes
    w.pcs[lanes] = index
    return None
