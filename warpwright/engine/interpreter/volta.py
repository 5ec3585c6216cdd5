"""The interpreter's run loop for Volta and later: groups of lanes, each with its own program counter."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import FaultKind, Status
from warpwright.engine.interpreter.code import Code
from warpwright.engine.interpreter.convergence import AT_BARRIER, AT_CLUSTER, AT_WARPSYNC, lane_mask
from warpwright.engine.interpreter.gather_scatter import mask_bits
from warpwright.engine.interpreter.warp import WarpState

Array = npt.NDArray[Any]


def run_groups(w: WarpState) -> Status:
    """Run a warp until it exits, waits at a barrier, yields to other warps or deadlocks."""
    kernel = w.launch.kernel
    total = len(kernel.code)
    turn = w.launch.turn_back_edges
    while True:
        chosen = w.choose()
        if chosen is None:
            if ((w.waiting == AT_BARRIER) | (w.waiting == AT_CLUSTER)).any():
                return Status.BARRIER
            return Status.EXIT if w.exited.all() else Status.DEADLOCK
        pc, m = chosen
        lanes = int(m.sum())
        while True:
            if pc >= total:
                return w.stop(FaultKind.WILD_BRANCH, pc, mask_bits(m), Status.FAULT, 16 * pc)
            if pc in kernel.gives_way and w.gave_way_at != pc:
                w.gave_way_at = pc
                w.going = pc, m
                return Status.YIELD
            w.gave_way_at = -1
            c, e, values = w.execute(pc, m)
            if not c.control:
                pc += 1
                continue
            if c.control == "branch":
                taken = e if values is None else e & values[0]
                target = kernel.index_of.get(c.attr, total)
                count = int(taken.sum())
                if count == 0:
                    pc += 1
                    continue
                rest = m & ~taken
                if count < lanes:
                    # The smaller part continues; of equal parts, the one that falls through.
                    if count < lanes - count:
                        w.push(pc + 1, rest)
                    else:
                        w.push(target, taken)
                        m, lanes = rest, lanes - count
                        pc += 1
                        continue
                    m, lanes = taken, count
                if target <= pc:
                    w.turn_back_edges += 1
                    w.jump_back()
                    if w.turn_back_edges >= turn:
                        w.going = target, m
                        return Status.YIELD
                pc = target
                continue
            if c.control in ("bssy", "break"):
                change_masks(w, c, e, values)
                pc += 1
                continue
            status = end_group(w, c, pc, m, e, values)
            if status is not None:
                return status
            break


def change_masks(w: WarpState, c: Code, e: Array, values: Any) -> None:
    if c.control == "bssy":
        w.barriers[c.attr[0]][e] = mask_bits(e)
        return
    e = e if values is None else e & values[0]
    kind = w.barriers.dtype.type
    leaving = kind(~mask_bits(e) & (1 << w.lanes) - 1)
    members = kind(np.bitwise_or.reduce(w.barriers[c.attr][e]))
    w.barriers[c.attr][lane_mask(int(members), w.lanes)] &= leaving
    w.let_go()


def end_group(w: WarpState, c: Code, pc: int, m: Array, e: Array, values: Any) -> Status | None:
    """All control operations except direct branches and masks: the group ends here, and its successors are pushed."""
    w.pcs[m] = pc + 1
    if c.control == "branch_indirect":
        return branch_indirect(w, pc, m, e, values[0])
    if c.control == "exit":
        leave(w, pc, m, e if values is None else e & values[0])
        return None
    if c.control == "trap":
        return w.stop(FaultKind.NONE, pc, mask_bits(e), Status.TRAP)
    if c.control in ("yield", "nanosleep"):
        others = w.give_way(pc + 1, m, c.control == "yield")
        return Status.YIELD if c.control == "nanosleep" and not others else None
    past = m & ~e
    if past.any():
        w.push(pc + 1, past)
    if c.control == "bsync":
        wait_for_group(w, pc, e, w.barriers[c.attr], c.attr)
    elif c.control == "warpsync":
        wait_for_lanes(w, c, pc, e, values[0])
    else:
        arrive_at_barrier(w, c, pc, e, values)
    return None


def branch_indirect(w: WarpState, pc: int, m: Array, e: Array, addresses: Array) -> Status | None:
    """The lanes with the lowest lane's target branch; the others execute the instruction again.  The smaller part goes first."""
    kernel = w.launch.kernel
    target = addresses[int(e.argmax())]
    here = e & (addresses == target)
    rest = m & ~here
    offset = (int(target) - kernel.program.code_base) & 0xFFFFFFFFFFFFFFFF
    index = kernel.index_of.get(offset)
    if index is None:
        return w.stop(FaultKind.WILD_BRANCH, pc, mask_bits(here), Status.FAULT, offset)
    if rest.any() and rest.sum() < here.sum():
        w.push(index, here)
        w.going = pc, rest
        return None
    if rest.any():
        w.push(pc, rest)
    w.going = index, here
    return None


def leave(w: WarpState, pc: int, m: Array, gone: Array) -> None:
    """Lanes of a group exit; the others continue."""
    w.exited |= gone
    w.let_go()
    rest = m & ~gone
    if rest.any():
        w.going = pc + 1, rest


def wait_for_lanes(w: WarpState, c: Code, pc: int, e: Array, masks: Array) -> None:
    """WARPSYNC: wait for the lanes of a mask. The exclusive form is executed by the lanes of the first lane's mask, and again by the others."""
    if c.attr == "exclusive":
        first = int(e.argmax())
        own = lane_mask(int(masks[first]), w.lanes)
        own[first] = True
        if (e & ~own).any():
            w.push(pc, e & ~own)
        e = e & own
    w.sync_masks[e] = masks[e]
    wait_for_group(w, pc, e, w.sync_masks, AT_WARPSYNC)


def wait_for_group(w: WarpState, pc: int, e: Array, masks: Array, kind: int) -> None:
    """Lanes wait for the lanes of their masks; a lane that its own mask does not contain continues alone."""
    alone = e & (masks & (masks.dtype.type(1) << np.arange(w.lanes, dtype=masks.dtype)) == 0)
    if alone.any():
        w.going = pc + 1, alone
    waits = e & ~alone
    w.waiting[waits] = kind
    w.pcs[waits] = pc
    w.release(waits)


def arrive_at_barrier(w: WarpState, c: Code, pc: int, e: Array, values: Any) -> None:
    if c.control == "barrier" and c.attr == "arrive":
        first = int(e.argmax())
        number = int(values[0][first]) & 15
        whole = bool((e | w.exited).all())
        w.block.arrive(number, w.lanes if whole else int(e.sum()), int(values[1][first]))
        w.going = pc + 1, e
        return
    if c.control == "barrier" and c.attr.startswith("cluster"):
        arrives = c.attr == "cluster_arrive"
        passes = e if arrives else e & ~w.cluster_arrived
        w.cluster_arrived |= e if arrives else False
        waits = e & ~passes
        w.waiting[waits] = AT_CLUSTER
        w.pcs[waits] = pc
        if passes.any():
            w.going = pc + 1, passes
        return
    w.waiting[e] = AT_BARRIER
    w.pcs[e] = pc
    w.barrier_id[e] = values[0][e] & 15
    w.barrier_threads[e] = values[1][e]
    w.barrier_mode = c.attr if c.control == "barrier_red" else ""
    if c.control == "barrier_red":
        w.barrier_vote[e] = values[2][e]
