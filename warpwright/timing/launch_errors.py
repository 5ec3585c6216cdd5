"""Turns the timing model's stops into the errors that the functional engine raises."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from warpwright.engine.abi import NAMED_BARRIERS, Status
from warpwright.engine.constant_bank0 import shared_bytes
from warpwright.engine.faults import (
    Stop,
    WaitingWarp,
    deadlock_error,
    fault_error,
    positions,
    trap_error,
    wrap_error,
)
from warpwright.engine.geometry import Dim3
from warpwright.engine.kernels import Traced
from warpwright.engine.lane_positions import Group, StandingBlock
from warpwright.engine.launch import LaunchContext
from warpwright.engine.standstill import Among, standstill_error
from warpwright.errors import DeadlockError, ExecutionError
from warpwright.timing.interface import TimingCancelled, TimingError
from warpwright.timing.state import AT_CLUSTER, AT_PRODUCT


def explain(error: TimingError, context: LaunchContext, kernel: Traced, among: Among | None = None) -> Exception:
    """The timing model's stop as the error that the functional engine would raise.

    Args:
        among: the launches of other GPUs that ran at the same time.
    """
    found = _explained(error, context, kernel, among)
    if among is not None and error.status != Status.STANDSTILL and isinstance(found, ExecutionError):
        found.args = ("\n  ".join([str(found), *among.lines]),)
    return found


def _explained(error: TimingError, context: LaunchContext, kernel: Traced, among: Among | None) -> Exception:
    program, geometry = context.program, context.geometry
    if not error.warps:
        return error
    warp = error.warps[0]
    block = warp["block_x"], warp["block_y"], warp["block_z"]
    if error.status == Status.DEADLOCK:
        same = [w for w in error.warps if (w["block_x"], w["block_y"], w["block_z"]) == block]
        arrived = [warp[f"arrived_{number}"] for number in range(NAMED_BARRIERS)]
        return deadlock_error(program, block, _waiting(context, same), arrived)
    if error.status == Status.STANDSTILL:
        return _endless(context, error, kernel, among)
    stop = Stop(
        block=block,
        warp_in_block=warp["warp_in_block"],
        lanes=warp["fault_lanes"] & (1 << program.lanes) - 1,
        instruction=warp["fault_instruction"],
        kind=warp["fault_kind"],
        address=warp["fault_address"] & 0xFFFF_FFFF_FFFF_FFFF,
        bytes=warp["fault_bytes"],
    )
    if error.status == Status.INTERPRET:
        return wrap_error(program, geometry, stop)
    if error.status == Status.TRAP:
        return trap_error(program, geometry, stop)
    if error.status == Status.FAULT:
        return fault_error(program, geometry, context.memory, stop, shared_bytes(program, geometry))
    return error


def positions_at(stop: TimingCancelled, context: LaunchContext) -> str:
    """Where the warps of the first resident block were when the host stopped the launch."""
    if not stop.warps:
        return ""
    program = context.program
    blocks = [(w["block_x"], w["block_y"], w["block_z"]) for w in stop.warps]
    first = min(blocks, key=lambda block: block[::-1])
    full = (1 << program.lanes) - 1
    found_at: dict[int, list[Group]] = {n: [] for n in range(context.geometry.warps_per_block)}
    for w, block in zip(stop.warps, blocks, strict=True):
        if block != first:
            continue
        if w["waits_at_barrier"] >= 0:
            found = Group(_barrier_of(w), w["fault_instruction"], w["barrier_lanes"] & full)
        else:
            found = Group("runs", program.instructions[w["pc"]].address, w["active_lanes"] & full)
        found_at[w["warp_in_block"]] = [found]
    return positions(program, first, list(found_at.items()), len(set(blocks)))


def _endless(context: LaunchContext, error: TimingError, kernel: Traced, among: Among | None) -> DeadlockError:
    """The instructions that the warps of a launch that never ends repeat."""
    full = (1 << context.program.lanes) - 1
    found_at: dict[Dim3, dict[int, list[Group]]] = {}
    for w in error.warps:
        block = w["block_x"], w["block_y"], w["block_z"]
        if w["waits_at_barrier"] >= 0:
            found = [Group(_barrier_of(w), w["fault_instruction"], w["barrier_lanes"] & full)]
        else:
            save = np.frombuffer(ctypes.string_at(w["spill"], kernel.spill_bytes), np.uint8)
            found = kernel.saved_positions.groups(save, w["resume"], w["lanes"], w["exited"])
        if block not in found_at:
            found_at[block] = {n: [] for n in range(context.geometry.warps_per_block)}
        found_at[block][w["warp_in_block"]] = found
    standing = [StandingBlock(block, list(warps.items())) for block, warps in found_at.items()]
    return standstill_error(context, standing, error.waiting_blocks, among)


def _barrier_of(warp: Mapping[str, int]) -> str:
    """The kind of the group of a warp that waits at a barrier."""
    return "cluster" if warp["waits_at_barrier"] == AT_CLUSTER - 1 else "barrier"


def _waiting(context: LaunchContext, stopped: Sequence[Mapping[str, int]]) -> list[WaitingWarp]:
    """The warps of a deadlocked block; those that the model no longer holds have exited."""
    by_number = {w["warp_in_block"]: w for w in stopped}
    found = []
    for number in range(context.geometry.warps_per_block):
        warp = by_number.get(number)
        if warp is None:
            found.append(WaitingWarp(number, "exited"))
            continue
        at_product = warp["waits_at_barrier"] == AT_PRODUCT - 1
        at_barrier = warp["waits_at_barrier"] >= 0 and not at_product
        at_cluster = warp["waits_at_barrier"] == AT_CLUSTER - 1
        found.append(
            WaitingWarp(
                number,
                "cluster" if at_cluster else "barrier" if at_barrier else "converge",
                warp["waits_at_barrier"] if at_barrier else 0,
                warp["barrier_threads"],
                warp["fault_instruction"] or -1,
                warp["barrier_lanes" if at_barrier else "fault_lanes"] & (1 << context.program.lanes) - 1,
            )
        )
    return found
