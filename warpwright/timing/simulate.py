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
    (policies_module.SCHEDULER, s.H_SCHEDULER, s.H_BAD_SCHEDULER, "a warp slot that cannot issue"),
    (policies_module.L1_REPLACEMENT, s.H_L1_REPLACEMENT, s.H_BAD_REPLACEMENT, "a way that the set does not have"),
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
    window = int(state.words[s.H_WINDOW])
    return min(window, int(state.words[s.H_CLUSTER_LATENCY])) if geometry.cluster_blocks > 1 else window


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
        s.H_FUNCTION: kernel.address,
        s.H_LAUNCH: context.address,
        s.H_GRID_X: geometry.grid[0],
        s.H_GRID_Y: geometry.grid[1],
        s.H_BLOCKS: geometry.blocks,
        s.H_WINDOW: _window(state, geometry),
        s.H_CLUSTER_BLOCKS: geometry.cluster_blocks,
        s.H_CLUSTER_X: geometry.cluster_shape[0],
        s.H_CLUSTER_Y: geometry.cluster_shape[1],
        s.H_CLUSTERS_X: geometry.clusters[0],
        s.H_CLUSTERS_Y: geometry.clusters[1],
        s.H_BLOCKS_PER_SM: occupancy.blocks_per_sm,
        s.H_WARPS_PER_BLOCK: geometry.warps_per_block,
        s.H_THREADS_PER_BLOCK: geometry.threads_per_block,
        s.H_BLOCK_BASE: space.address("blocks"),
        s.H_BLOCK_STRIDE: BLOCK.size_bytes,
        s.H_WARP_BASE: space.address("warps"),
        s.H_WARP_STRIDE: space.warp_stride,
        s.H_SPILL_OFFSET: space.spill_offset,
        s.H_SPILL_BYTES: min(kernel.spill_bytes, SPILL_HEADER_BYTES),
        s.H_SHARED_BASE: space.address("shared"),
        s.H_SHARED_STRIDE: space.shared_stride,
        s.H_SHARED_BYTES: space.shared_bytes,
        s.H_LOCAL_BASE: space.address("local"),
        s.H_LOCAL_STRIDE: space.local_stride,
        s.H_TRACE_BASE: space.address("trace"),
        s.H_TRACE_STRIDE: space.trace_stride,
        s.H_TRACE_LIMIT: TRACE_LIMIT_WORDS,
        s.H_BLOCK_ROWS: static.blocks_at,
        s.H_USES_RING: int(static.uses_ring),
        s.H_ELSEWHERES: len(space.elsewhere),
        s.H_ELSEWHERE: intrinsics.address_of(space.elsewhere) if len(space.elsewhere) else 0,
    }
    for field, value in values.items():
        state.words[field] = value
    places = first_places(tuple(sm.gpc_sm_counts), sm.dispatch_apart_sm_count, geometry.blocks, occupancy.blocks_per_sm)
    state.words[s.H_FIRST_BLOCKS] = len(places)
    first = state.areas["first_places"]
    state.words[first : first + len(places)] = places


def _warp_fields(state: State, sm: int, slot: int) -> dict[str, int]:
    """What an error message needs of a warp: its WARP structure, its block's index, its state in the model."""
    w = sm + s.OFF_WARPS + slot * s.W_SLOTS
    pointer = int(state.words[w + s.W_POINTER])
    fields = {name: int(_read(pointer + WARP[name])) for name in WARP}
    block = fields["block"]
    for name, key in (("block_x", "index_x"), ("block_y", "index_y"), ("block_z", "index_z")):
        fields[name] = int(_read(block + BLOCK[key]))
    fields["pc"] = int(state.words[w + s.W_PC])
    fields["status"] = int(state.words[w + s.W_STATUS])
    fields["waits_at_barrier"] = (int(state.words[w + s.W_BARRIER]) & ~s.DEFERRED) - 1
    fields["pointer"] = pointer
    return fields


def _read(address: int) -> int:
    """The int64 at a host address, from Python."""
    return ctypes.c_int64.from_address(address).value


def _stopped_warps(state: State) -> list[tuple[int, int]]:
    """(SM region, warp slot) of every warp that stopped for Python."""
    found = []
    spare = [int(state.words[s.H_WARM_SM])] if state.words[s.H_WARM_SM] else []
    for sm in [*map(state.sm, range(int(state.words[s.H_SMS]))), *spare]:
        if state.words[sm + s.SM_ERROR]:
            found.append((sm, int(state.words[sm + s.SM_ERROR]) - 1))
    return found


def handle_stop(state: State, interpret: InterpretCallback | None) -> None:
    """Interpret what compiled code left over, or raise.

    Raises:
        TimingError: a fault, trap or deadlock within a warp.
    """
    m = state.words
    for sm, slot in _stopped_warps(state):
        w = sm + s.OFF_WARPS + slot * s.W_SLOTS
        status = int(m[w + s.W_STATUS])
        pointer = int(m[w + s.W_POINTER])
        while status == Status.INTERPRET and interpret is not None:
            status = int(interpret(pointer))
        m[w + s.W_STATUS] = status
        m[w + s.W_USED] = _read(pointer + WARP["trace_used"])
        if status in (Status.FAULT, Status.TRAP, Status.DEADLOCK, Status.INTERPRET) or status not in list(Status):
            name = Status(status).name if status in list(Status) else str(status)
            raise TimingError(
                f"a warp stopped with {name} at cycle {int(m[s.H_NOW]):,}",
                Status(status) if status in list(Status) else None,
                [_warp_fields(state, sm, slot)],
            )
        m[sm + s.SM_ERROR] = 0
        _wake(state, sm, slot)
    m[s.H_ERROR] = 0


def _wake(state: State, sm: int, slot: int) -> None:
    m = state.words
    now = int(m[s.H_NOW])
    sc = sm + s.OFF_SUB_CORES + (slot >> 4) * s.SC_SLOTS
    m[sc + s.SC_READY + (slot & 15)] = now
    m[sc + s.SC_PIPE + (slot & 15)] = s.P_NONE
    for following in (sm + s.SM_SUB_NEXT + (slot >> 4), sm + s.SM_NEXT):
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
        f"deadlock at cycle {int(m[s.H_NOW]):,}: {len(warps)} warps {what}, {waiting} of them wait at a block barrier",
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
        blocks = int(self.state.words[s.H_BLOCKS])
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
        state.words[s.H_WARM_QUEUE] = space.address("stores")
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
    cycles = int(metrics_module.sm_column(launch.state, s.SM_FINISH).max())
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
            raise TimingCancelled(f"cancelled at cycle {int(m[s.H_NOW]):,}")
        if launch.watch is not None and launch.watch.never_ends(state):
            raise deadlock(state, repeats=True)
        if progress is not None:
            instructions = int(metrics_module.sm_column(state, s.SM_INSTRUCTIONS).sum())
            done, total = int(m[s.H_DONE_BLOCKS]), int(m[s.H_BLOCKS])
            progress(Progress("running", int(m[s.H_NOW]), done, total, instructions))
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
    log, logged = int(m[s.H_BLOCK_LOG]), int(m[s.H_LOGGED_BLOCKS])

    return TimingResult(
        cycles=cycles,
        seconds=cycles / (chip.clocks.sm_clock_mhz * 1e6),
        metrics=values,
        bottleneck=metrics_module.bottleneck(cycles, min(chip.launch.launch_overhead_cycles, cycles), bounds, reasons),
        bounds=bounds,
        stalls=reasons,
        sm={
            "active_cycles": metrics_module.sm_column(state, s.SM_ACTIVE),
            "instructions": metrics_module.sm_column(state, s.SM_INSTRUCTIONS),
            "blocks": metrics_module.sm_column(state, s.SM_BLOCKS_RUN),
        },
        instruction_issues=issues,
        instruction_stall_cycles=waits.sum(axis=1),
        instruction_stalls=waits,
        blocks=m[log : log + logged * s.LOG_SLOTS].reshape(logged, s.LOG_SLOTS).copy(),
    )
