"""The interpreter's run loop for chips before Volta: one program counter for a warp, and a stack of waiting lanes.

The stack's entries are (kind, instruction index, lanes): ``ssy``, ``brk``, ``cnt`` and ``ret`` say where lanes meet again,
``div`` is a side of a divided branch that waits for its turn.  Lanes run until they reach a SYNC, BRK, CONT or RET (``pop``) or exit;
when none is left to run, the top of the stack runs next.  Of a divided branch the side that takes the jump runs first
(Coon and Lindholm, US patents 7,353,369 and 7,617,384).

A block barrier counts the warp: threads of it that are elsewhere count as arrived (PTX ISA, ``bar``: before sm_70 a
barrier is executed for the warp as if all its threads did).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import FaultKind, Status
from warpwright.engine.interpreter.gather_scatter import mask_bits
from warpwright.engine.interpreter.volta import arrive_at_barrier
from warpwright.engine.interpreter.warp import WarpState

MOST_ENTRIES = 1024
"""Depth of the stack (model: the chip spills its stack to memory that the driver sizes)."""

Mask = npt.NDArray[np.bool_]


def leave(w: WarpState, kind: str, lanes: Mask) -> bool:
    """Take lanes out of every entry above the topmost one of a kind; False when there is none."""
    for entry in reversed(w.entries):
        if entry[0] == kind:
            w.running &= ~lanes
            return True
        entry[2] &= ~lanes
    return False


def resume(w: WarpState) -> bool:
    """Run the top of the stack: the topmost entry that still has lanes; False when the stack is empty."""
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
    kernel = w.launch.kernel
    total = len(kernel.code)
    back_edges = 0
    if not w.started:
        w.started = True
        w.running = ~w.exited
    waiting = w.waiting != -1
    if waiting.any():
        return Status.BARRIER
    w.running &= ~w.exited
    if not w.running.any() and not resume(w):
        return Status.EXIT
    pc = int(w.pcs[w.running][0])
    while True:
        if pc >= total:
            return w.stop(FaultKind.WILD_BRANCH, pc, mask_bits(w.running), Status.FAULT, 8 * pc)
        m = w.running
        c, e, values = w.execute(pc, m)
        if not c.control:
            pc += 1
            continue
        if c.control == "push":
            w.entries.append([c.attr[0], kernel.index_of[c.attr[1]], e.copy()])
            if len(w.entries) > MOST_ENTRIES:
                return w.stop(FaultKind.STACK_OVERFLOW, pc, mask_bits(e), Status.FAULT)
            pc += 1
            continue
        if c.control == "call":
            w.entries.append(["ret", pc + 1, e.copy()])
            if len(w.entries) > MOST_ENTRIES:
                return w.stop(FaultKind.STACK_OVERFLOW, pc, mask_bits(e), Status.FAULT)
            pc = kernel.index_of.get(c.attr, total)
            continue
        if c.control == "branch":
            taken = e if values is None else e & values[0]
            target = kernel.index_of.get(c.attr, total)
            rest = m & ~taken
            if not taken.any():
                pc += 1
                continue
            if rest.any():
                w.entries.append(["div", pc + 1, rest])
                w.running = taken.copy()
            if target <= pc:
                back_edges += 1
                w.jump_back()
                if back_edges >= w.launch.turn_back_edges:
                    w.pcs[w.running] = target
                    return Status.YIELD
            pc = target
            continue
        if c.control == "branch_indirect":
            wild = divide(w, pc, e, values[0])
            if wild is not None:
                return wild
            pc = int(w.pcs[w.running][0])
            continue
        if c.control in ("pop", "exit"):
            lanes = e if values is None else e & values[0]
            if not lanes.any():
                pc += 1
                continue
            if c.control == "exit":
                w.exited |= lanes
                w.running = m & ~lanes
            else:
                w.running = m.copy()
                if not leave(w, c.attr, lanes):
                    return w.stop(FaultKind.WILD_BRANCH, pc, mask_bits(lanes), Status.FAULT, 0)
            if w.running.any():
                pc += 1
                continue
            if not resume(w):
                return Status.EXIT if w.exited.all() else Status.DEADLOCK
            pc = int(w.pcs[w.running][0])
            continue
        if c.control == "trap":
            return w.stop(FaultKind.NONE, pc, mask_bits(e), Status.TRAP)
        if c.control == "barrier" and c.attr == "arrive":
            w.pcs[m] = pc + 1
            w.block.arrived[int(values[0][int(e.argmax())]) & 15] += w.lanes
            pc += 1
            continue
        if c.control in ("barrier", "barrier_red"):
            w.pcs[m] = pc + 1
            first = int(e.argmax())
            numbers, counts = (np.full(w.lanes, values[n][first]) for n in range(2))
            votes = np.zeros(w.lanes, np.bool_) if c.control == "barrier" else values[2] & e
            arrive_at_barrier(w, c, pc, ~w.exited, (numbers, counts, votes))
            return Status.BARRIER
        raise ValueError(f"the reconvergence stack has no operation {c.control!r}")


def divide(w: WarpState, pc: int, e: Mask, addresses: Any) -> Status | None:
    """A branch through a register: the lanes that go to the lowest address run on, at their ``pcs``; the others wait on the stack.

    A status where a lane's address is none of the code's.
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
