"""Explains launches whose warps run forever: where the warps are, and which blocks have not arrived at a barrier of the whole grid."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from warpwright.engine.execute import block_index
from warpwright.engine.faults import VOLTA, describe_groups, source_line, warp_rows
from warpwright.engine.geometry import Dim3, Geometry
from warpwright.engine.lane_locks import Blame, blame, waits_for_mbarrier
from warpwright.engine.lane_positions import Group, StandingBlock
from warpwright.engine.launch import GRID_BARRIER_AT, LaunchContext
from warpwright.engine.multi_grid import blocks_come
from warpwright.errors import DeadlockError
from warpwright.isa.machine_code import lower
from warpwright.isa.program import Program
from warpwright.isa.services import LAUNCHES
from warpwright.toolchain.demangle import plain_name

IN_VAIN = (
    "they wait for something that never happens: does every path release the lock, and does any thread set the flag?"
)
ALL_GRIDS = (
    "every block of every grid must call multi_grid_group::sync() equally often: is it inside a condition, or after a return, "
    "or does a loop before it wait for something that never happens?"
)
"""For grids of several GPUs that synchronise."""
SHOWN_BLOCKS = 4
"""Blocks that a message names one by one."""


@dataclass(frozen=True, slots=True)
class Among:
    """A launch beside those of other GPUs."""

    lines: Sequence[str]
    """Describe how far the others have come."""
    joined: bool
    """Whether their grids are those of one cooperative launch and can wait for each other (``multi_grid_group``)."""


def standstill_error(
    context: LaunchContext, blocks: Sequence[StandingBlock], waiting_blocks: int, among: Among | None = None
) -> DeadlockError:
    """The exception for warps that run forever: each repeats its states, and memory does not change.

    Args:
        blocks: all resident blocks, at least one.
        waiting_blocks: number of the launch's blocks that have not begun, because there is no room for them; -1 if it is not known.
        among: the launches of other GPUs that run at the same time.
    """
    program = context.program
    blocks = sorted(blocks, key=lambda block: block.index[::-1])
    barrier = _grid_barrier(context, blocks)
    at_cluster = [block for block in blocks if block.at_cluster] if not barrier else []
    # A block whose warps all wait at a barrier is the victim of one whose warps run.
    running = barrier.absent if barrier and barrier.absent else [block for block in blocks if block.polls]
    shown = running[0] if running and (at_cluster or barrier) else blocks[0]
    lines = warp_rows((number, describe_groups(program, groups)) for number, groups in shown.warps)
    others = len(blocks) - 1
    if others:
        many = f"{others:,} more resident blocks, none of which changes anything either"
        lines.append(f"and {many}" if others > 1 else "and 1 more resident block, which changes nothing either")
    if barrier:
        lines += barrier.lines
        advice = [
            f"every block must call grid.sync() equally often: is {_its_calls(program)} inside a condition, or after a return?"
        ]
    else:
        absent = _absent_blocks(context.geometry, blocks, waiting_blocks)
        lines += absent.lines
        if at_cluster:
            lines.append(_cluster_barrier(program, at_cluster))
        joined = among is not None and among.joined
        # Blocks at a cluster's barrier wait for their own cluster, and those of joined grids for all grids.
        by_grid = () if joined or (at_cluster and waiting_blocks <= 0) else absent.advice
        advice = _advice(program, shown.warps, ALL_GRIDS if joined else IN_VAIN, by_grid)
    if among is not None:
        lines += among.lines
    error = DeadlockError(
        f"deadlock in kernel {plain_name(program.name)}, block {shown.index}: warps run, but only repeat themselves, and memory does not change\n  "
        + "\n  ".join([*lines, *advice])
    )
    error.repeats = not barrier
    return error


@dataclass(frozen=True, slots=True)
class _AbsentBlocks:
    """Lines and advice for blocks of the grid that are not resident and so cannot release others."""

    lines: Sequence[str]
    advice: Sequence[str]


def _absent_blocks(geometry: Geometry, blocks: Sequence[StandingBlock], waiting: int) -> _AbsentBlocks:
    if waiting < 0:
        return _AbsentBlocks([], [])
    lines, advice = [], []
    begun = geometry.blocks - waiting
    ended = begun - len(blocks)
    if ended > 0:
        resident = {block.index for block in blocks}
        indices = (block_index(number, geometry.grid) for number in range(begun))
        named = list(islice((index for index in indices if index not in resident), SHOWN_BLOCKS))
        lines.append(f"{_named(named, ended)} {'has' if ended == 1 else 'have'} ended")
        advice.append(
            "If they wait for all blocks of the grid, every block must arrive: does one return before it has, or leave a loop early?"
        )
    if waiting:
        has, them = ("has", "it") if waiting == 1 else ("have", "them")
        lines.append(
            f"{waiting:,} of the grid's {geometry.blocks:,} blocks {has} not begun: the chip has no room for {them} until others end"
        )
        advice = [
            "If they wait for all blocks of the grid, use at most as many as the chip holds at once; a cooperative launch checks this"
        ]
    return _AbsentBlocks(lines, advice)


@dataclass(frozen=True, slots=True)
class _GridBarrier:
    """A barrier of the grid at which blocks wait."""

    lines: Sequence[str]
    absent: Sequence[StandingBlock]
    """Resident blocks that have not reached it."""


def _grid_barrier(context: LaunchContext, blocks: Sequence[StandingBlock]) -> _GridBarrier | None:
    """What a cooperative launch's barrier waits for; None if no block waits at it."""
    geometry, memory = context.geometry, context.memory
    if not context.grid_barrier:
        return None
    word = struct.unpack("<I", memory.view(context.grid_barrier + GRID_BARRIER_AT, 4, read_only=True).tobytes())[0]
    come = blocks_come(word, geometry.blocks)
    polling = [block for block in blocks if block.polls is not None]
    if not 0 < come <= len(polling):
        return None
    first = polling[0].polls
    line = source_line(context.program, first.instruction) if first is not None and first.instruction >= 0 else None
    where = f"grid.sync() at {line.split(': ')[0]}" if line else "grid.sync()"
    lines = []
    resident = {block.index for block in blocks}
    indices = (block_index(number, geometry.grid) for number in range(geometry.blocks))
    left = [index for index in indices if index not in resident]
    absent = [block for block in blocks if block.polls is None] if come == len(polling) else []
    if left:
        # Each barrier so far was completed by all blocks, those that have ended since included.
        has, waits = "has" if len(left) == 1 else "have", "waits" if come == 1 else "wait"
        lines.append(
            f"{_named(left)} {has} ended, with one call of grid.sync() fewer than {come:,} of {geometry.blocks:,} blocks, which {waits} in {where}"
        )
    if len(resident) > come:
        who = _named([block.index for block in absent]) if absent else _counted(len(resident) - come, "resident block")
        verb = "does" if len(resident) - come == 1 else "do"
        have = f"{who} {verb} not come to it" if left else f"{who} {verb} not come to {where}"
        lines.append(have if left else f"{have}, where {come:,} of {geometry.blocks:,} blocks wait")
    return _GridBarrier(lines, absent) if lines else None


def _its_calls(program: Program) -> str:
    """The calls of ``grid.sync()`` for a question: ``it``, or ``one of its calls at coop.cu:7, coop.cu:9`` if the kernel has several.

    A call is a line with a block barrier and an atomic of device scope, as no other line of usual kernels.
    """
    lines: dict[tuple[str, int], set[str]] = {}
    for instruction in program.instructions:
        if instruction.line is not None and instruction.opcode.startswith(("BAR", "ATOM", "RED")):
            kind = "BAR" if instruction.opcode.startswith("BAR") else "ATOM"
            lines.setdefault(instruction.line, set()).add(kind)
    calls = sorted(program.origin(*line) for line, kinds in lines.items() if len(kinds) > 1)
    return "it" if len(calls) < 2 else f"one of its calls at {', '.join(f'{name}:{number}' for name, number in calls)}"


def _cluster_barrier(program: Program, blocks: Sequence[StandingBlock]) -> str:
    """Which blocks wait at their cluster's barrier, and where."""
    first = blocks[0].at_cluster
    line = source_line(program, first.instruction) if first is not None and first.instruction >= 0 else None
    names = [block.index for block in blocks]
    where = f" at {line}" if line else ""
    return f"{_named(names)} {'waits' if len(names) == 1 else 'wait'} at {'its' if len(names) == 1 else 'their'} cluster's barrier{where}, at which every thread of the cluster must arrive"


def _named(indices: Sequence[Dim3], count: int = 0) -> str:
    """``block (3, 0, 0)``; ``blocks (0, 0, 0), (1, 0, 0) and 3 more``.

    Args:
        count: number of blocks in all, if ``indices`` holds only the first ones.
    """
    if len(indices) == 1:
        return f"block {indices[0]}"
    names = [str(index) for index in indices[:SHOWN_BLOCKS]]
    more = max(count, len(indices)) - len(names)
    last = f"{more:,} more" if more else names.pop()
    return f"blocks {', '.join(names)} and {last}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number > 1 else ''}"


def _advice(
    program: Program, warps: Sequence[tuple[int, Sequence[Group]]], in_vain: str, by_grid: Sequence[str]
) -> list[str]:
    """What to do about warps that run forever.

    Args:
        in_vain: the advice if nothing more is known.
        by_grid: the advice for blocks that wait for others of their grid.
    """
    lowered = lower(program)
    holds = blame(program, lowered, warps) if program.arch < VOLTA else Blame.NO
    if holds is Blame.YES or (holds and not by_grid):
        return [
            f"lanes of a warp do not go on independently on {program.architecture}: those that wait are on the",
            "reconvergence stack until the running ones leave the loop, so they can neither release the lock nor set the",
            "flag that these wait for; a real chip hangs here too. Do the work and the release inside the loop, or let",
            "one lane do it for its warp",
        ]
    if LAUNCHES in program.services:
        return [
            "kernels that a kernel launches begin only after it has ended, so it cannot wait for them",
            *by_grid,
        ]
    running = [group for _, groups in warps for group in groups if group.what == "runs"]
    if any(waits_for_mbarrier(program, lowered, group.instruction) for group in running[:SHOWN_BLOCKS]):
        return [
            "the phase of an mbarrier is never completed: do as many threads arrive as its init expects, and as many bytes as expect_tx announces?",
            *by_grid,
        ]
    return [in_vain, *by_grid]
