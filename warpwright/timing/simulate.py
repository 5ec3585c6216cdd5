"""A launch in simulated time: the entry of the cycle model (``interface.py`` says what goes in and out).

The compiled main loop runs some windows at a time; between them this module reports progress, looks whether it should
stop, and handles what compiled code leaves to Python (faults, the interpreter).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from warpwright.chips.chip import Chip
from warpwright.chips.occupancy import Occupancy
from warpwright.chips.sections import Sm
from warpwright.engine.abi import BLOCK, SPILL_HEADER_BYTES, WARP, Status
from warpwright.engine.blocks import BasicBlock
from warpwright.engine.launch import Geometry, LaunchContext, launch_occupancy, reachable_shared_bytes
from warpwright.errors import UnsupportedError
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Program
from warpwright.native import intrinsics
from warpwright.timing import bounds as bounds_module
from warpwright.timing import buffers, host_threads, warming, windows
from warpwright.timing import metrics as metrics_module
from warpwright.timing import policies as policies_module
from warpwright.timing import state as s
from warpwright.timing.instruction_table import StaticProgram, encode
from warpwright.timing.interface import (
    CancelCallback,
    InterpretCallback,
    Progress,
    ProgressCallback,
    TimingCancelled,
    TimingError,
    TimingResult,
    TracedKernel,
)
from warpwright.timing.kept_caches import KeptCaches
from warpwright.timing.livelock import Watch
from warpwright.timing.placement import first_places
from warpwright.timing.policies import Policies
from warpwright.timing.reset import empty_l2, initial_state, used_sms
from warpwright.timing.state import State

TRACE_LIMIT_WORDS = 64
"""A warp runs ahead until its records fill this, then is asked again: records of all warps are to stay in the host's caches."""
REPORT_SECONDS = 0.2
OWN_POLICIES = Policies()
_POLICIES = (
    (policies_module.SCHEDULER, s.chip.scheduler, s.chip.bad_scheduler, "a warp slot that cannot issue"),
    (policies_module.L1_REPLACEMENT, s.chip.l1_replacement, s.chip.bad_replacement, "a way that the set does not have"),
)


class _Workspace:
    """Structures and memory of every block that can be resident, at fixed places."""

    def __init__(
        self,
        kernel: TracedKernel,
        context: LaunchContext,
        occupancy: Occupancy,
        sms: int,
        spare: bool,
    ) -> None:
        geometry = context.geometry
        program = context.program
        slots = sms * occupancy.blocks_per_sm
        warps = geometry.warps_per_block
        resident = sms * s.MAX_SUB_CORES * s.MAX_WARPS
        self.spill_offset = (WARP.size_bytes + 63) // 64 * 64
        self.warp_stride = self.spill_offset + (kernel.spill_bytes + 63) // 64 * 64 + 64
        self.shared_bytes = reachable_shared_bytes(program, geometry)
        self.shared_stride = (self.shared_bytes + 127) // 128 * 128 + 128
        self.local_stride = (context["local_bytes_per_thread"] * 32 + 127) // 128 * 128
        self.trace_stride = (TRACE_LIMIT_WORDS + kernel.trace_words) * 8 // 64 * 64 + 192
        self.arrays = {
            "blocks": buffers.take_zeros("blocks", slots * BLOCK.size_bytes // 8),
            "warps": buffers.take_zeros("warps", slots * warps * self.warp_stride // 8),
            "shared": buffers.take_zeros("shared", slots * self.shared_stride // 8 + 8),
            "local": buffers.take_zeros("local", resident * self.local_stride // 8 + 8),
            "trace": buffers.take("trace", resident * self.trace_stride // 8)[0],
        }
        ranges = context.memory.elsewhere()
        self.elsewhere = np.array([(a >> 7, (b + 127) >> 7, place) for a, b, place in ranges.tolist()], np.int64)
        """Ranges of lines that lie elsewhere (``EW_``), by line."""
        if spare:
            self.arrays["stores"] = buffers.take("stores", s.WARM_QUEUE_ENTRIES * s.WQ_WORDS)[0]

    def address(self, kind: str) -> int:
        """Where an array begins: at a cache line."""
        return intrinsics.address_of(self.arrays[kind])


def _window(state: State, geometry: Geometry) -> int:
    """Cycles of a window: the SMs of a cluster hear of each other sooner than of L2."""
    window = int(state.words[s.chip.window])
    return min(window, int(state.words[s.chip.cluster_latency])) if geometry.cluster_blocks > 1 else window


def _fill_header(
    state: State,
    sm: Sm,
    static: StaticProgram,
    kernel: TracedKernel,
    context: LaunchContext,
    occupancy: Occupancy,
    space: _Workspace,
) -> None:
    geometry = context.geometry
    values = {
        s.chip.function: kernel.address,
        s.chip.launch: context.address,
        s.chip.grid_x: geometry.grid[0],
        s.chip.grid_y: geometry.grid[1],
        s.chip.blocks: geometry.blocks,
        s.chip.window: _window(state, geometry),
        s.chip.cluster_blocks: geometry.cluster_blocks,
        s.chip.cluster_x: geometry.cluster_shape[0],
        s.chip.cluster_y: geometry.cluster_shape[1],
        s.chip.clusters_x: geometry.clusters[0],
        s.chip.clusters_y: geometry.clusters[1],
        s.chip.blocks_per_sm: occupancy.blocks_per_sm,
        s.chip.warps_per_block: geometry.warps_per_block,
        s.chip.threads_per_block: geometry.threads_per_block,
        s.chip.block_base: space.address("blocks"),
        s.chip.block_stride: BLOCK.size_bytes,
        s.chip.warp_base: space.address("warps"),
        s.chip.warp_stride: space.warp_stride,
        s.chip.spill_offset: space.spill_offset,
        s.chip.spill_bytes: min(kernel.spill_bytes, SPILL_HEADER_BYTES),
        s.chip.shared_base: space.address("shared"),
        s.chip.shared_stride: space.shared_stride,
        s.chip.shared_bytes: space.shared_bytes,
        s.chip.local_base: space.address("local"),
        s.chip.local_stride: space.local_stride,
        s.chip.trace_base: space.address("trace"),
        s.chip.trace_stride: space.trace_stride,
        s.chip.trace_limit: TRACE_LIMIT_WORDS,
        s.chip.block_rows: static.blocks_at,
        s.chip.uses_ring: int(static.uses_ring),
        s.chip.range_count: len(space.elsewhere),
        s.chip.ranges: intrinsics.address_of(space.elsewhere) if len(space.elsewhere) else 0,
    }
    for field, value in values.items():
        state.words[field] = value
    places = first_places(tuple(sm.gpc_sm_counts), sm.dispatch_apart_sm_count, geometry.blocks, occupancy.blocks_per_sm)
    state.words[s.chip.first_blocks] = len(places)
    first = state.areas["first_places"]
    state.words[first : first + len(places)] = places


def _warp_fields(state: State, sm: int, slot: int) -> dict[str, int]:
    """What an error message needs of a warp: its WARP structure, its block's index, its state in the model."""
    w = s.SM(sm).warps[slot]
    pointer = int(state.words[s.Warp(w).pointer])
    fields = {name: int(_read(pointer + WARP[name])) for name in WARP}
    block = fields["block"]
    for name, key in (("block_x", "index_x"), ("block_y", "index_y"), ("block_z", "index_z")):
        fields[name] = int(_read(block + BLOCK[key]))
    fields["pc"] = int(state.words[s.Warp(w).pc])
    fields["status"] = int(state.words[s.Warp(w).status])
    fields["waits_at_barrier"] = (int(state.words[s.Warp(w).barrier]) & ~s.DEFERRED) - 1
    fields["pointer"] = pointer
    return fields


def _read(address: int) -> int:
    """The int64 at a host address, from Python."""
    return ctypes.c_int64.from_address(address).value


def _stopped_warps(state: State) -> list[tuple[int, int]]:
    """(SM region, warp slot) of every warp that stopped for Python."""
    found = []
    spare = [int(state.words[s.chip.warm_sm])] if state.words[s.chip.warm_sm] else []
    for sm in [*map(state.sm, range(int(state.words[s.chip.sms]))), *spare]:
        if state.words[s.SM(sm).error]:
            found.append((sm, int(state.words[s.SM(sm).error]) - 1))
    return found


def handle_stop(state: State, interpret: InterpretCallback | None) -> None:
    """Interpret what compiled code left over, or raise.

    Raises:
        TimingError: a fault, trap or deadlock within a warp.
    """
    m = state.words
    for sm, slot in _stopped_warps(state):
        w = s.SM(sm).warps[slot]
        status = int(m[s.Warp(w).status])
        pointer = int(m[s.Warp(w).pointer])
        while status == Status.INTERPRET and interpret is not None:
            status = int(interpret(pointer))
        m[s.Warp(w).status] = status
        m[s.Warp(w).used] = _read(pointer + WARP["trace_used"])
        if status in (Status.FAULT, Status.TRAP, Status.DEADLOCK, Status.INTERPRET) or status not in list(Status):
            name = Status(status).name if status in list(Status) else str(status)
            raise TimingError(
                f"a warp stopped with {name} at cycle {int(m[s.chip.now]):,}",
                Status(status) if status in list(Status) else None,
                [_warp_fields(state, sm, slot)],
            )
        m[s.SM(sm).error] = 0
        _wake(state, sm, slot)
    m[s.chip.error] = 0


def _wake(state: State, sm: int, slot: int) -> None:
    m = state.words
    now = int(m[s.chip.now])
    sc = s.SM(sm).sub_cores[slot >> 4]
    m[s.SubCore(sc).ready[slot & 15]] = now
    m[s.SubCore(sc).pipe[slot & 15]] = s.P_NONE
    for following in (s.SM(sm).sub_next[slot >> 4], s.SM(sm).next):
        m[following] = min(int(m[following]), now)


def _judge_policies(launch: Prepared) -> None:
    """Look whether policies kept to what they may choose."""
    for kind, _, bad, what in _POLICIES:
        if launch.state.words[bad]:
            policy = getattr(launch.policies, kind.parameter)
            raise UnsupportedError(f"{kind.parameter}: {getattr(policy, '__name__', policy)!r} chose {what}")


def deadlock(state: State, repeats: bool = False) -> TimingError:
    """The error of a launch in which no warp can go on, or in which all only repeat themselves."""
    m = state.words
    warps = [_warp_fields(state, sm, slot) for sm, slot in state.active_warps()]
    waiting = sum(w["waits_at_barrier"] >= 0 for w in warps)
    what = "only repeat themselves" if repeats else "cannot go on"
    return TimingError(
        f"deadlock at cycle {int(m[s.chip.now]):,}: {len(warps)} warps {what}, {waiting} of them wait at a block barrier",
        Status.STANDSTILL if repeats else Status.DEADLOCK,
        warps,
    )


@dataclass(slots=True)
class Prepared:
    """A launch on the simulated chip before its first cycle."""

    chip: Chip
    occupancy: Occupancy
    static: StaticProgram
    state: State
    policies: Policies
    space: _Workspace
    """Kept alive: the state holds addresses in it."""
    watch: Watch | None
    """Ends a launch that goes on for ever; None where a clock or the host may end it."""
    kept: KeptCaches | None
    """Where its caches stay; None: nowhere."""

    def helpers(self, threads: int, progress: ProgressCallback | None) -> AbstractContextManager[None]:
        """Host threads that help to ``advance`` the launch; a grid that stays on one GPC is faster on one."""
        blocks = int(self.state.words[s.chip.blocks])
        if progress is not None and not windows.run_windows.signatures:
            progress(Progress("compiling", blocks=blocks))
        alone = blocks <= self.chip.sm.gpc_sm_counts[0]
        return host_threads.helpers(self.state, self.static.rows, 1 if alone else threads)

    def close(self) -> None:
        """Leave the memory, and the caches where they are kept, to the next launch."""
        if self.kept is not None:
            self.kept.leave(self.state)
        else:
            buffers.give_back("state", self.state.words, empty_l2(self.state))
        for kind, words in self.space.arrays.items():
            buffers.give_back(kind, words)


def prepare(
    chip: Chip,
    program: Program,
    lowered: Sequence[Lowered],
    kernel: TracedKernel,
    context: LaunchContext,
    policies: Policies,
    blocks: Sequence[BasicBlock] | None = None,
    *,
    spare: bool = False,
    kept: KeptCaches | None = None,
) -> Prepared:
    """Tables, state and memory of a launch; ``spare``: with room for an SM more, on which blocks run without time; ``kept``: what the device's caches
    hold, which are cold without."""
    occupancy = launch_occupancy(program, context.geometry, chip)
    table = kernel.blocks if blocks is None else blocks
    static = encode(program, lowered, table, chip)
    clustered = context.geometry.cluster_blocks > 1
    state = initial_state(
        chip,
        occupancy.l1_kib,
        static.code_lines,
        static.const_lines,
        static.instructions,
        context.geometry.blocks,
        static.parameter_lines,
        clustered,
        kept,
    )
    sms = used_sms(chip, 0 if clustered else context.geometry.blocks)
    space = _Workspace(kernel, context, occupancy, chip.sm.sm_count + 1 if spare else sms.stop, spare)
    _fill_header(state, chip.sm, static, kernel, context, occupancy, space)
    if spare:
        state.words[s.chip.warm_queue] = space.address("stores")
    for kind, address, _, _ in _POLICIES:
        state.words[address] = policies_module.address_of(kind, getattr(policies, kind.parameter))
    watch = None
    if kernel.judged:
        held = (space.arrays["shared"], space.arrays["local"])
        watch = Watch(context, space.spill_offset, kernel.spill_bytes, held)
    return Prepared(chip, occupancy, static, state, policies, space, watch, kept)


def simulate(
    chip: Chip,
    program: Program,
    lowered: Sequence[Lowered],
    kernel: TracedKernel,
    context: LaunchContext,
    *,
    threads: int = 1,
    progress: ProgressCallback | None = None,
    cancel: CancelCallback | None = None,
    interpret: InterpretCallback | None = None,
    policies: Policies = OWN_POLICIES,
    blocks: Sequence[BasicBlock] | None = None,
    kept: KeptCaches | None = None,
) -> TimingResult:
    """Run a launch in simulated time, functionally and cycle by cycle, with cold caches or those that the device's last launch has left (``kept``).

    Raises:
        TimingError: a warp faulted, trapped, or no warp can go on or ever will end.
        TimingCancelled: ``cancel`` said so.
    """
    began, worked = time.perf_counter(), time.thread_time()
    launch = prepare(chip, program, lowered, kernel, context, policies, blocks, kept=kept)
    with launch.helpers(threads, progress):
        advance(launch, progress, cancel, interpret)
    cycles = int(metrics_module.sm_column(launch.state, s.SM.finish).max())
    result = result_of(launch, cycles, context.geometry.blocks)
    launch.close()
    result.wall_seconds, result.cpu_seconds = time.perf_counter() - began, time.thread_time() - worked
    return result


def advance(
    launch: Prepared,
    progress: ProgressCallback | None = None,
    cancel: CancelCallback | None = None,
    interpret: InterpretCallback | None = None,
    *,
    windows_at_once: int = 0,
) -> bool:
    """Run the windows of a launch until its last block has ended, or only so many; whether blocks are left."""
    state, static = launch.state, launch.static
    m = state.words
    limit = windows_at_once or 16
    while True:
        began = time.perf_counter()
        outcome = int(windows.run_windows(m, static.rows, limit))
        spent = time.perf_counter() - began
        _judge(launch, outcome, interpret)
        if outcome == windows.FINISHED:
            return False
        if cancel is not None and cancel():
            raise TimingCancelled(f"cancelled at cycle {int(m[s.chip.now]):,}")
        if launch.watch is not None and launch.watch.never_ends(state):
            raise deadlock(state, repeats=True)
        if progress is not None:
            instructions = int(metrics_module.sm_column(state, s.SM.instructions).sum())
            done, total = int(m[s.chip.done_blocks]), int(m[s.chip.blocks])
            progress(Progress("running", int(m[s.chip.now]), done, total, instructions))
        if windows_at_once:
            return True
        limit = int(min(max(limit * REPORT_SECONDS / max(spent, 1e-4), 1), limit * 8, 1 << 20))


def run_untimed(launch: Prepared) -> None:
    """Run what is left of a stretch's blocks without time, in no time."""
    _judge(launch, int(windows.run_windows(launch.state.words, launch.static.rows, 0)), None)


def _judge(launch: Prepared, outcome: int, interpret: InterpretCallback | None) -> None:
    """Look after what the compiled main loop left to Python."""
    _judge_policies(launch)
    if outcome == warming.STUCK:
        raise deadlock(launch.state)
    if outcome == warming.STOPPED:
        handle_stop(launch.state, interpret)


def result_of(launch: Prepared, cycles: int, blocks: int) -> TimingResult:
    """What was counted while ``blocks`` blocks took ``cycles``."""
    state, chip, occupancy = launch.state, launch.chip, launch.occupancy
    m = state.words
    values = metrics_module.collect(state, chip, occupancy, cycles)
    bounds = bounds_module.lower_bounds(state, chip, blocks, occupancy.blocks_per_sm)
    reasons = metrics_module.stalls(state)
    issues, waits = metrics_module.by_instruction(state)
    log, logged = int(m[s.chip.block_log]), int(m[s.chip.logged_blocks])

    return TimingResult(
        cycles=cycles,
        seconds=cycles / (chip.clocks.sm_clock_mhz * 1e6),
        metrics=values,
        bottleneck=metrics_module.bottleneck(cycles, min(chip.launch.launch_overhead_cycles, cycles), bounds, reasons),
        bounds=bounds,
        stalls=reasons,
        sm={
            "active_cycles": metrics_module.sm_column(state, s.SM.active),
            "instructions": metrics_module.sm_column(state, s.SM.instructions),
            "blocks": metrics_module.sm_column(state, s.SM.blocks_run),
        },
        instruction_issues=issues,
        instruction_stall_cycles=waits.sum(axis=1),
        instruction_stalls=waits,
        blocks=m[log : log + logged * s.LoggedBlock.size].reshape(logged, s.LoggedBlock.size).copy(),
    )
