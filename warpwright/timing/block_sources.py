"""Sources of blocks: the launches that one simulated chip runs, each with its context.

A `Grid` is one launch.  A machine takes one or several: those of several streams or branches of a graph, which share its SMs, L2 and DRAM.
Each has its own context in the machine's state (``state/launch_contexts.py``): its warp function, its rows in the table of
instructions, its parameters, the memory of its blocks and warps, and the resources of a block.  Blocks and warps refer to their context.
The dispatcher asks only which launch's block is next and where there is room for it (``residency.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpwright.chips.chip import Chip
from warpwright.chips.occupancy import Occupancy, block_needs
from warpwright.engine.abi import BLOCK, SPILL_HEADER_BYTES, WARP
from warpwright.engine.blocks import BasicBlock
from warpwright.engine.constant_bank0 import reachable_shared_bytes
from warpwright.engine.geometry import launch_occupancy, launch_shared_bytes
from warpwright.engine.launch import LaunchContext
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Program
from warpwright.native import intrinsics
from warpwright.timing import buffer_reuse
from warpwright.timing import state as s
from warpwright.timing.access_policy import POLICY_OF, share_of_ratio
from warpwright.timing.instruction_table import StaticProgram, encode
from warpwright.timing.interface import TracedKernel
from warpwright.timing.placement import dispatch_of, first_places
from warpwright.timing.reset import l1_sets
from warpwright.timing.scoreboard import ENTRY_BYTES
from warpwright.timing.state import State

TRACE_LIMIT_WORDS = 64
"""A warp runs ahead until its records fill this many words, so that the records of all warps stay in the host's caches."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch as a source of blocks."""

    program: Program
    lowered: Sequence[Lowered]
    kernel: TracedKernel
    context: LaunchContext
    priority: int = 0
    """Blocks of launches with higher priority go first."""
    after: tuple[int, ...] = ()
    """Indices of the machine's launches that must have ended before this one begins."""
    gap_cycles: int = 0
    """From the end of the last of those to this launch's beginning; without any, from the machine's first cycle."""
    delays_cycles: tuple[int, ...] = ()
    """Additional delays from the end of each of ``after``, before the gap."""
    earliest_cycle: int = 0
    """Time before which it does not begin, not counting the gap."""
    early: tuple[int, ...] = ()
    """Those of ``after`` whose ends it need not wait for: it waits only until their blocks have let dependents begin."""
    held: bool = False
    """Whether it also waits for the host (``stopping.py``)."""
    client: int = 0
    """Number of the process that it belongs to, among those that share the chip."""
    most_sms: int = 0
    """SMs that the client's blocks may be on at once; 0: all."""
    blocks: Sequence[BasicBlock] | None = None
    """By the number that records carry; by default the kernel's own."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A launch's part of the machine's tables."""

    static: StaticProgram
    occupancy: Occupancy
    first_pc: int
    blocks_at: int
    first_line: int
    first_constant: int


_tables: dict[tuple[int, ...], tuple[tuple[Any, ...], StaticProgram]] = {}
"""Tables of instructions by the identity of what they are made of, which is kept alive."""
KEPT_TABLES = 64


def table_of(grid: Grid, chip: Chip) -> StaticProgram:
    """A launch's table of instructions, made once for a kernel and a chip: most programs launch a kernel many times."""
    named = grid.program, grid.lowered, grid.kernel.blocks if grid.blocks is None else grid.blocks, chip
    key = tuple(map(id, named))
    known = _tables.get(key)
    if known is not None:
        return known[1]
    table = encode(*named)
    table.rows.setflags(write=False)
    while len(_tables) >= KEPT_TABLES:
        _tables.pop(next(iter(_tables)), None)
    _tables[key] = named, table
    return table


def place_programs(grids: Sequence[Grid], chip: Chip) -> tuple[StaticProgram, list[Placed]]:
    """One table of all launches' instructions and basic blocks, and the index at which each launch's begin.

    Launches of one program share its lines of code but have their own constants.
    """
    tables = [table_of(grid, chip) for grid in grids]
    held = [launch_occupancy(g.program, g.context.geometry, chip) for g in grids]
    if len(grids) == 1:
        return tables[0], [Placed(tables[0], held[0], 0, tables[0].blocks_at, 0, 0)]
    placed: list[Placed] = []
    rows: list[np.ndarray] = []
    lines: dict[int, int] = {}
    chunk, ahead = chip.instruction_cache.icache_chunk_lines, chip.instruction_cache.icache_prefetch_lines
    pc = line = constant = 0
    for grid, table, occupancy in zip(grids, tables, held, strict=True):
        size = s.Instruction.size
        moved = np.zeros(-(-len(table.rows) // size) * size, np.int64)
        moved[: len(table.rows)] = table.rows
        if id(grid.program) not in lines:
            lines[id(grid.program)] = line
            line += -(-(table.code_lines + ahead) // chunk) * chunk
        one = Placed(table, occupancy, pc, pc * size + table.blocks_at, lines[id(grid.program)], constant)
        _move(moved, one)
        placed.append(one)
        rows.append(moved)
        pc += len(moved) // size
        constant += table.const_lines
    entries = max(table.scoreboard_entries for table in tables)
    parameters = placed[0].static.parameter_lines
    return StaticProgram(np.concatenate(rows), 0, 0, line, constant, pc, parameters, entries), placed


def _move(rows: np.ndarray, one: Placed) -> None:
    """Make a launch's rows refer to its indices in the machine's tables."""
    count = one.static.instructions
    own = rows[: count * s.Instruction.size].reshape(count, s.Instruction.size)
    own[:, s.Instruction.line] += one.first_line
    own[own[:, s.Instruction.constant] >= 0, s.Instruction.constant] += one.first_constant
    loads = np.isin(own[:, s.Instruction.kind], (s.K_CONSTANT, s.K_INDEXED, s.K_LOOKUP))
    own[loads, s.Instruction.op] += one.first_constant
    blocks = rows[one.static.blocks_at :]
    blocks = blocks[: one.static.blocks * s.BasicBlock.size].reshape(-1, s.BasicBlock.size)
    blocks[:, [s.BasicBlock.first, s.BasicBlock.end]] += one.first_pc


class Workspace:
    """Structures and memory of every block that can be resident, at fixed places."""

    def __init__(self, chip: Chip, grids: Sequence[Grid], placed: Sequence[Placed], sms: int, spare: bool) -> None:
        resident = sms * s.MAX_SUB_CORES * s.MAX_WARPS
        self.parts = [_Part(grid, one.occupancy, sms) for grid, one in zip(grids, placed, strict=True)]
        local = max(grid.context["local_bytes_per_thread"] for grid in grids)
        self.local_stride = (local * grids[0].program.lanes + 127) // 128 * 128
        self.trace_stride = (TRACE_LIMIT_WORDS + max(grid.kernel.trace_words for grid in grids)) * 8 // 64 * 64 + 192
        self.arrays = {
            "blocks": buffer_reuse.take_zeros("blocks", sum(part.block_words for part in self.parts)),
            "warps": buffer_reuse.take_zeros("warps", sum(part.warp_words for part in self.parts)),
            "shared": buffer_reuse.take_zeros("shared", sum(part.shared_words for part in self.parts)),
            "local": buffer_reuse.take_zeros("local", resident * self.local_stride // 8 + 8),
            "trace": buffer_reuse.take("trace", resident * self.trace_stride // 8)[0],
        }
        self.scoreboard_entries = max(one.static.scoreboard_entries for one in placed)
        if self.scoreboard_entries:
            words = resident * self.scoreboard_entries * ENTRY_BYTES // 8
            self.arrays["scoreboards"] = buffer_reuse.take_zeros("scoreboards", words)
        blocks, warps, shared = (self.address(kind) for kind in ("blocks", "warps", "shared"))
        for part in self.parts:
            part.blocks, part.warps, part.shared = blocks, warps, shared
            blocks += 8 * part.block_words
            warps += 8 * part.warp_words
            shared += 8 * part.shared_words
        ranges = grids[0].context.memory.elsewhere()
        line = chip.l1.l1_line_bytes
        rows = [
            (a // line, -(-b // line), place, moved // line, table) for a, b, place, moved, table in ranges.tolist()
        ]
        self.elsewhere = np.array(rows, np.int64)
        """Ranges of lines outside this device's memory (``EW_``), by line."""
        self.compressible = np.zeros((0, s.CR_WORDS), np.int64)
        """Ranges of lines that may be compressed."""
        if spare:
            self.arrays["stores"] = buffer_reuse.take("stores", s.WARM_QUEUE_ENTRIES * s.WQ_WORDS)[0]

    def address(self, kind: str) -> int:
        """Where an array begins: at a cache line."""
        return intrinsics.address_of(self.arrays[kind])


class _Part:
    """One launch's part of the workspace."""

    blocks = warps = shared = 0
    """Host addresses."""

    def __init__(self, grid: Grid, occupancy: Occupancy, sms: int) -> None:
        geometry = grid.context.geometry
        slots = sms * occupancy.blocks_per_sm
        self.spill_offset = (WARP.size_bytes + 63) // 64 * 64
        self.warp_stride = self.spill_offset + (grid.kernel.spill_bytes + 63) // 64 * 64 + 64
        self.shared_bytes = reachable_shared_bytes(grid.program, geometry)
        self.shared_stride = (self.shared_bytes + 127) // 128 * 128 + 128
        self.block_words = slots * BLOCK.size_bytes // 8
        self.warp_words = slots * geometry.warps_per_block * self.warp_stride // 8
        self.shared_words = slots * self.shared_stride // 8 + 8


def fill_contexts(state: State, chip: Chip, grids: Sequence[Grid], placed: Sequence[Placed], space: Workspace) -> None:
    """Write each launch's context into the machine's state."""
    for number, (grid, one) in enumerate(zip(grids, placed, strict=True)):
        geometry, part, resident = grid.context.geometry, space.parts[number], one.occupancy
        k = state.kernel(number)
        values = {
            k.number: number,
            k.function: grid.kernel.address,
            k.block_rows: one.blocks_at,
            k.launch: grid.context.address,
            k.blocks: geometry.blocks,
            k.grid_x: geometry.grid[0],
            k.grid_y: geometry.grid[1],
            k.cluster_blocks: geometry.cluster_blocks,
            k.cluster_x: geometry.cluster_shape[0],
            k.cluster_y: geometry.cluster_shape[1],
            k.clusters_x: geometry.clusters[0],
            k.clusters_y: geometry.clusters[1],
            k.blocks_per_sm: resident.blocks_per_sm,
            k.warps_per_block: geometry.warps_per_block,
            k.threads_per_block: geometry.threads_per_block,
            k.block_base: part.blocks,
            k.warp_base: part.warps,
            k.warp_stride: part.warp_stride,
            k.spill_offset: part.spill_offset,
            k.spill_bytes: min(grid.kernel.spill_bytes, SPILL_HEADER_BYTES),
            k.shared_base: part.shared,
            k.shared_stride: part.shared_stride,
            k.shared_bytes: part.shared_bytes,
            **_window(grid, chip, k),
            k.priority: grid.priority,
            k.client: grid.client,
            k.most_sms: grid.most_sms,
            k.needs: sum(1 << other for other in grid.after) | (s.HOST_BIT if grid.held else 0),
            k.early: sum(1 << other for other in grid.early),
            k.awaits: sum(1 << other for other in grid.early),
            k.gap: grid.gap_cycles,
            k.waited: grid.earliest_cycle,
            **{k.delays[other]: delay for other, delay in zip(grid.after, grid.delays_cycles, strict=False)},
        }
        for field, value in values.items():
            state.words[field] = value
        _fill_needs(state, chip, grid, one, k)
    _fill_first_places(state, chip, grids, placed)


def _window(grid: Grid, chip: Chip, k: s.Kernel) -> dict[int, int]:
    """A launch's access-policy window, by line; none without one."""
    window = grid.context.window
    if window is None:
        return {}
    line = chip.l1.l1_line_bytes
    return {
        k.window_first: window.address // line,
        k.window_end: -(-(window.address + window.size_bytes) // line),
        k.window_share: share_of_ratio(window.hit_ratio),
        k.window_hit: POLICY_OF[window.hit],
        k.window_miss: POLICY_OF[window.miss],
    }


def _fill_needs(state: State, chip: Chip, grid: Grid, one: Placed, k: s.Kernel) -> None:
    """The SM's resources that a block needs, and the launch's own fields there."""
    shared = launch_shared_bytes(grid.program, grid.context.geometry)
    needs = block_needs(chip, one.occupancy, shared)
    instruction = chip.instruction_cache
    brought = instruction.launch_prefetch_kib * 1024 // instruction.icache_line_bytes
    values = {
        k.registers: needs.registers,
        k.barriers: needs.barriers,
        k.shared_need: needs.shared_bytes,
        k.least_setup: needs.shared_bytes * one.occupancy.blocks_per_sm,
        k.setup: needs.setup_bytes,
        k.l1_sets: l1_sets(chip, one.occupancy.l1_kib),
        k.code_first: one.first_line,
        k.code_lines: min(brought, one.static.code_lines),
    }
    for field, value in values.items():
        state.words[field] = value


def _fill_first_places(state: State, chip: Chip, grids: Sequence[Grid], placed: Sequence[Placed]) -> None:
    """Where each launch's first blocks go on an idle chip, and the address of its log."""
    sm, log = chip.sm, state.areas["block_log"]
    for number, (grid, one) in enumerate(zip(grids, placed, strict=True)):
        k = state.kernel(number)
        blocks = grid.context.geometry.blocks
        most = sm.sm_count * one.occupancy.blocks_per_sm if grid.most_sms else blocks
        places = first_places(dispatch_of(chip), most, one.occupancy.blocks_per_sm)
        if grid.most_sms:
            # Every SM gets one block before any gets a second, so that the first places name the SMs in their order.
            places = places[np.isin(places, places[: grid.most_sms])][:blocks]
        first = state.areas["first_places"] + number * sm.sm_count * sm.max_blocks_per_sm
        state.words[first : first + len(places)] = places
        state.words[k.first_places], state.words[k.first_blocks] = first, len(places)
        state.words[k.block_log], state.words[k.logged_blocks] = log, min(blocks, s.MAX_LOGGED_BLOCKS)
        log += min(blocks, s.MAX_LOGGED_BLOCKS) * s.LoggedBlock.size
