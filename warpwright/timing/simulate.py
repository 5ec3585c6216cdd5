"""Simulates a launch in time: the entry point of the cycle model (see ``interface.py``).

The compiled main loop runs some windows at a time.  In between, this module reports progress, checks whether to
stop, and handles what compiled code leaves to Python (faults, the interpreter).
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.engine.abi import (
    BLOCK,
    HERE,
    HOST,
    NAMED_BARRIERS,
    SPILL_HEADER_BYTES,
    WARP,
    Status,
    head_words,
    peer_place,
)
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.managed_pages import FIRST_GPU, ON_HOST, PROCESSORS, MigrationCosts
from warpwright.engine.peer_routes import WidthRule
from warpwright.errors import UnsupportedError
from warpwright.native import intrinsics
from warpwright.timing import bounds as bounds_module
from warpwright.timing import buffer_reuse, host_threads, warming, window_steps, windows
from warpwright.timing import metrics as metrics_module
from warpwright.timing import policies as policies_module
from warpwright.timing import state as s
from warpwright.timing.block_sources import (
    TRACE_LIMIT_WORDS,
    Grid,
    Placed,
    Workspace,
    fill_contexts,
    place_programs,
)
from warpwright.timing.instruction_table import StaticProgram
from warpwright.timing.interface import (
    ALONE,
    CancelCallback,
    InterpretCallback,
    Progress,
    ProgressCallback,
    Supervision,
    TimingCancelled,
    TimingError,
    TimingResult,
)
from warpwright.timing.kept_caches import KeptCaches
from warpwright.timing.livelock import Standstill, Watch
from warpwright.timing.policies import Policies
from warpwright.timing.reset import LaunchSizes, empty_l2, initial_state, used_sms
from warpwright.timing.shared_chip import TimedGrid, timed_grid
from warpwright.timing.state import State

REPORT_SECONDS = 0.2
ASLEEP_PS = 10**12
"""How long a launch finds that the driver has slept, at least."""
PART_BYTES = 4096
"""The address of a fault is that of such a part of a page."""
OWN_POLICIES = Policies()
_POLICIES = (
    (policies_module.SCHEDULER, s.chip.scheduler, s.chip.bad_scheduler, "a warp slot that cannot issue"),
    (policies_module.L1_REPLACEMENT, s.chip.l1_replacement, s.chip.bad_replacement, "a way that the set does not have"),
)


def _window(state: State, grids: Sequence[Grid]) -> int:
    """Cycles of a window, which is shorter for clusters: their SMs reach each other sooner than L2."""
    window = int(state.words[s.chip.window])
    clustered = any(grid.context.geometry.cluster_blocks > 1 for grid in grids)
    return min(window, int(state.words[s.chip.cluster_latency])) if clustered else window


def _moved(chip: Chip, memory: DeviceMemory, space: Workspace) -> dict[int, int]:
    """Distance of lines from the addresses by which caches and channels know them (``address_hash.known_as``)."""
    line = chip.l1.l1_line_bytes
    return {
        s.chip.relocated: int(memory.moved_bytes != 0 or any(row[s.EW_MOVED] for row in space.elsewhere)),
        s.chip.own_first: memory.base // line,
        s.chip.own_end: (memory.base + memory.span_bytes) // line,
        s.chip.own_moved: memory.moved_bytes // line,
    }


def _fill_header(state: State, chip: Chip, grids: Sequence[Grid], space: Workspace) -> None:
    lanes = grids[0].program.lanes
    values = {
        s.chip.window: _window(state, grids),
        s.chip.lanes: lanes,
        s.chip.full_wave: (1 << lanes) - 1 if lanes < 64 else -1,
        s.chip.head_words: head_words(lanes),
        s.chip.policies: int(any(grid.context.window is not None or grid.kernel.has_policies for grid in grids)),
        s.chip.blocks: sum(grid.context.geometry.blocks for grid in grids),
        s.chip.cluster_blocks: max(grid.context.geometry.cluster_blocks for grid in grids),
        s.chip.scoreboards: space.address("scoreboards") if space.scoreboard_entries else 0,
        s.chip.scoreboard_entries: space.scoreboard_entries,
        s.chip.local_base: space.address("local"),
        s.chip.local_stride: space.local_stride,
        s.chip.trace_base: space.address("trace"),
        s.chip.trace_stride: space.trace_stride,
        s.chip.trace_limit: TRACE_LIMIT_WORDS,
        s.chip.range_count: len(space.elsewhere),
        s.chip.ranges: intrinsics.address_of(space.elsewhere) if len(space.elsewhere) else 0,
        **_moved(chip, grids[0].context.memory, space),
    }
    for field, value in values.items():
        state.words[field] = value


def dirty_ways_beside(set_aside: int, ways: int) -> int:
    """Maximum number of a set's ways that may hold dirty, non-persisting lines with ``set_aside`` of ``ways`` set aside; the chip's ``l2_dirty_ways`` may be lower.

    An H100 with 0 to 5, 6, 7, 8, 9 and 10 of 16 ways set aside keeps 7, 6, 5, 4, 4 and 3 (``bench.machine.l2_policies counted``,
    ``bench/data/h100/l2_set_aside_counts.json``): all of the rest but a quarter of the set, or half of the rest.
    """
    rest = ways - set_aside
    return max(rest - ways // 4, (rest + 1) // 2, 1)


def _fill_set_aside(state: State, chip: Chip, grids: Sequence[Grid]) -> None:
    """How many ways of a set persisting lines may take, one at least where the chip has a set-aside, and how many lines that are not may be dirty beside them."""
    l2, size = chip.l2, grids[0].context.set_aside_bytes
    ways = -(-size * l2.l2_ways // (l2.l2_kib << 10))
    state.words[s.chip.persisting_ways] = max(ways, 1) if l2.l2_set_aside_max_kib else 0
    if ways:
        state.words[s.chip.l2_dirty_ways] = min(l2.l2_dirty_ways, dirty_ways_beside(ways, l2.l2_ways))
    state.words[s.chip.crowded] = l2.l2_ways - ways < l2.l2_ways // 2


def _fill_compressible(state: State, chip: Chip, memory: DeviceMemory) -> npt.NDArray[np.int64]:
    """The lines that may be compressed: the array that the state refers to."""
    line = chip.l1.l1_line_bytes
    rows = [
        (address // line, (address + size) // line, intrinsics.address_of(table))
        for address, (size, table) in sorted(memory.compressible.items())
    ]
    ranges = np.array(rows, np.int64).reshape(-1, s.CR_WORDS)
    state.words[s.chip.compressible_count] = len(ranges)
    state.words[s.chip.compressible] = intrinsics.address_of(ranges) if len(ranges) else 0
    return ranges


def _fill_routes(state: State, chip: Chip, memory: DeviceMemory) -> None:
    """The ways to other devices' memories: first the chip's own, then the system's in the order of their devices."""
    words = state.words
    own = (s.LK_TO_PEER, s.LK_FROM_PEER)
    named = (s.chip.peer_ask, s.chip.peer_packet, s.chip.peer_sector, s.chip.peer_latency)
    later = (s.chip.peer_write_latency, s.chip.peer_atomic_latency)
    rows = [[*own, *(int(words[field]) for field in (*named, *later)), 0, 0, 0, 0]]
    per_ns = chip.clocks.sm_clock_mhz / 1000
    gangs = 0
    for _, route in sorted(memory.peer_routes.items()):
        gangs = max(gangs, route.gang + 1)
        out = s.LK_FROM_PEER + 1 + 2 * route.gang
        costs = (route.ask_ns, route.packet_ns, route.sector_ns)
        latencies = (route.latency_ns, route.write_latency_ns, route.atomic_latency_ns)
        row = [out, out + 1, *(round(256 * per_ns * ns) for ns in costs), *(round(per_ns * ns) for ns in latencies)]
        errors = round(route.errors_per_million_packets / 1e6 * 2**32), round(256 * per_ns * route.replay_ns)
        rows.append([*row, *errors, int(route.posted_writes), round(256 * per_ns * route.acknowledge_ns)])
        if route.width is not None:
            _fill_widths(state, route.width, (out, out + 1), per_ns)
    first = int(words[s.chip.peer_routes])
    words[first : first + len(rows) * s.PeerRoute.size] = np.array(rows, np.int64).ravel()
    words[s.chip.link_ways] = s.LK_FROM_PEER + 1 + 2 * gangs


def _fill_widths(state: State, rule: WidthRule, ways: Sequence[int], per_ns: float) -> None:
    """The two directions of a gang that reduces its width: a launch finds them reduced, as nothing came over them before."""
    words = state.words
    words[s.chip.widths_change] = 1
    for way in ways:
        width = s.LinkWidth(int(words[s.chip.link_widths]) + way * s.LinkWidth.size)
        words[width.slow] = words[width.slowdown] = round(256 * rule.slowdown)
        shares = {width.reduce_below: rule.reduce_below, width.widen_above: rule.widen_above, width.power: rule.power}
        for field, share in shares.items():
            words[field] = round(256 * share)
        words[width.window], words[width.change] = round(per_ns * rule.window_ns), round(per_ns * rule.change_ns)


def _fill_migration(state: State, chip: Chip, memory: DeviceMemory) -> None:
    """How pages of managed memory come to the device, if the launch can reach any."""
    migration, managed = memory.migration, memory.managed
    if migration is None or managed is None or not managed.tables:
        return
    managed.begin_launch()
    costs, words = migration.costs, state.words
    pages_of = {"prefetch": costs.prefetch_region_kib, "counter": costs.access_counter_kib}
    values = {
        s.chip.pages_move: 1,
        s.chip.own_processor: migration.processor,
        s.chip.cycle_ps: round(256e6 / chip.clocks.sm_clock_mhz),
        s.chip.page_line_shift: (managed.page_bytes // chip.l1.l1_line_bytes).bit_length() - 1,
        s.chip.fault_batch_count: costs.fault_batch_count,
        s.chip.prefetch_percent: round(costs.prefetch_percent),
        s.chip.prefetch_pages: pages_of["prefetch"] // costs.page_kib,
        s.chip.counter_threshold: costs.access_counter_threshold if migration.counts_accesses else 0,
        s.chip.counter_pages: pages_of["counter"] // costs.page_kib,
        s.chip.counter_service: round(costs.access_counter_us * 1e6),
    }
    for field, value in {**values, **_driver_times(costs)}.items():
        words[field] = value
    # Launches find the driver asleep.
    words[s.chip.driver_free] = -(ASLEEP_PS + words[s.chip.deep_sleep_after])
    part_lines = max(PART_BYTES // chip.l1.l1_line_bytes, (1 << int(words[s.chip.page_line_shift])) >> 6, 1)
    words[s.chip.fault_entry_shift] = part_lines.bit_length() - 1
    words[s.chip.room] = intrinsics.address_of(managed.room)
    words[s.chip.services] = intrinsics.address_of(managed.services)
    first = int(words[s.chip.processors])
    for number in range(PROCESSORS):
        row = s.Processor(first + number * s.Processor.size)
        reached = migration.maps[number] if number < len(migration.maps) else False
        place = HERE if number == migration.processor else HOST if number == ON_HOST else peer_place(number - FIRST_GPU)
        words[row.place] = memory.reached_as(place) if reached and place != HERE else HERE if place == HERE else -1
        rate = migration.copy_gb_per_s[number] if number < len(migration.copy_gb_per_s) else 0.0
        words[row.copy] = round(managed.page_bytes / rate * 1e3) if rate else 0


def _driver_times(costs: MigrationCosts) -> dict[int, int]:
    """The driver's times for faults and evictions, in ps."""
    microseconds = {
        s.chip.fault_latency: costs.fault_latency_us,
        s.chip.sleep_after: costs.sleep_after_us,
        s.chip.wake: costs.wake_us,
        s.chip.deep_sleep_after: costs.deep_sleep_after_us,
        s.chip.deep_wake: costs.deep_wake_us,
        s.chip.fault_batch: costs.fault_batch_us,
        s.chip.fault_region: costs.fault_region_us,
        s.chip.host_region: costs.host_region_us,
        s.chip.fault_page: costs.fault_page_us,
        s.chip.fault_entry: costs.fault_entry_us,
        s.chip.populate_page: costs.populate_page_us,
        s.chip.populate_entry: costs.populate_entry_us,
        s.chip.evict_region: costs.evict_region_us,
        s.chip.evict_new_page: costs.evict_new_page_us,
    }
    return {field: round(value * 1e6) for field, value in microseconds.items()}


def _fill_coherence(state: State, chip: Chip, memory: DeviceMemory) -> None:
    """Translations and probes of a processor that shares page tables and caches with the device."""
    words, per_ns = state.words, chip.clocks.sm_clock_mhz / 1000
    known, probes = memory.translations, memory.probe_filter
    if known is not None:
        known.words[:, 1] = 0  # what was on its way has come
        words[s.chip.translations] = len(known.words)
        words[s.chip.translation_table] = intrinsics.address_of(known.words)
        words[s.chip.translation_shift] = ((known.costs.page_kib << 10) // chip.l1.l1_line_bytes).bit_length() - 1
        words[s.chip.translation_group] = known.costs.pages_per_answer
        words[s.chip.translation_latency] = round(known.costs.request_ns * per_ns)
    if probes is not None:
        words[s.chip.probe_sets], words[s.chip.probe_ways] = probes.lines.shape
        words[s.chip.probe_table] = intrinsics.address_of(probes.lines)
        words[s.chip.probe_latency] = round(probes.costs.probe_ns * per_ns)


def _warp_fields(state: State, sm: int, slot: int) -> dict[str, int]:
    """A warp's properties for an error message: its WARP structure, its block's index, its state in the model."""
    w = s.SM(sm).warps[slot]
    pointer = int(state.words[s.Warp(w).pointer])
    fields = {name: int(_read(pointer + WARP[name])) for name in WARP}
    block = fields["block"]
    for name, key in (("block_x", "index_x"), ("block_y", "index_y"), ("block_z", "index_z")):
        fields[name] = int(_read(block + BLOCK[key]))
    fields["pc"] = int(state.words[s.Warp(w).pc])
    fields["active_lanes"] = int(state.words[s.Warp(w).mask])
    fields["status"] = int(state.words[s.Warp(w).status])
    fields["waits_at_barrier"] = (int(state.words[s.Warp(w).barrier]) & ~s.DEFERRED) - 1
    slot_of_block = s.SM(sm).blocks[int(state.words[s.Warp(w).block])]
    for number in range(NAMED_BARRIERS):
        fields[f"arrived_{number}"] = int(state.words[slot_of_block.arrived[number]])
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
    """Check that policies made valid choices."""
    for kind, _, bad, what in _POLICIES:
        if launch.state.words[bad]:
            policy = getattr(launch.policies, kind.parameter)
            raise UnsupportedError(f"{kind.parameter}: {getattr(policy, '__name__', policy)!r} chose {what}")


def deadlock(state: State, repeats: bool = False) -> TimingError:
    """The error of a launch in which no warp can continue, or all only repeat themselves."""
    m = state.words
    warps = [_warp_fields(state, sm, slot) for sm, slot in state.active_warps()]
    waiting = sum(w["waits_at_barrier"] >= 0 for w in warps)
    what = "only repeat themselves" if repeats else "cannot go on"
    return TimingError(
        f"deadlock at cycle {int(m[s.chip.now]):,}: {len(warps)} warps {what}, {waiting} of them wait at a block barrier",
        Status.STANDSTILL if repeats else Status.DEADLOCK,
        warps,
        _waiting_blocks(state, len({warp["block"] for warp in warps})),
    )


def _waiting_blocks(state: State, resident: int) -> int:
    """Blocks of the machine's only launch that have not begun; -1 if it has several, of which some may wait for others."""
    m = state.words
    return int(m[s.chip.blocks] - m[s.chip.done_blocks]) - resident if m[s.chip.kernel_count] == 1 else -1


def is_model_loaded() -> bool:
    """Whether the cycle model's machine code is in this process; otherwise the next run loads it, compiles it or waits for it."""
    return bool(windows.run_windows.signatures)


@dataclass(slots=True)
class Prepared:
    """One or several launches on the simulated chip before its first cycle."""

    chip: Chip
    grids: Sequence[Grid]
    placed: Sequence[Placed]
    static: StaticProgram
    state: State
    policies: Policies
    space: Workspace
    """Kept alive: the state holds addresses in it."""
    watch: Watch | None
    """Inspects its warps, to end a launch that never ends; None if a clock or the host may end it."""
    kept: KeptCaches | None
    """Where its caches are kept; None: they are not."""
    standstill: Standstill
    """Judges it, if it runs alone."""

    def helpers(self, threads: int, progress: ProgressCallback | None) -> AbstractContextManager[None]:
        """Host threads that help to ``advance`` the launch; a grid that stays on one GPC is faster on one."""
        blocks = int(self.state.words[s.chip.blocks])
        if progress is not None and not is_model_loaded():
            progress(Progress("model", blocks=blocks))
        alone = blocks <= self.chip.sm.gpc_sm_counts[0]
        return host_threads.helpers(self.state, self.static.rows, 1 if alone else threads)

    def close(self) -> None:
        """Leave the memory, and the caches where they are kept, to the next launch."""
        memory = self.grids[0].context.memory
        if memory.pages_move and memory.managed is not None:
            memory.managed.forget_touches()
        if self.kept is not None:
            self.kept.leave(self.state)
        else:
            buffer_reuse.give_back("state", self.state.words, empty_l2(self.state))
        for kind, words in self.space.arrays.items():
            buffer_reuse.give_back(kind, words)


def prepare(
    chip: Chip, grids: Sequence[Grid], policies: Policies, *, spare: bool = False, kept: KeptCaches | None = None
) -> Prepared:
    """Tables, state and memory of launches; ``spare``: with room for an SM more, on which blocks run without time; ``kept``: what the device's caches
    hold, which are cold without."""
    static, placed = place_programs(grids, chip)
    geometries = [grid.context.geometry for grid in grids]
    clustered = any(geometry.cluster_blocks > 1 for geometry in geometries)
    sizes = LaunchSizes(
        max(one.occupancy.l1_kib for one in placed),
        static.code_lines,
        static.const_lines,
        static.instructions,
        sum(geometry.blocks for geometry in geometries),
        static.parameter_lines,
        clustered,
        [(one.first_constant, one.static.parameter_lines) for one in placed[1:]],
    )
    state = initial_state(chip, sizes, kept)
    anywhere = clustered or len(grids) > 1
    sms = used_sms(chip, 0 if anywhere else geometries[0].blocks)
    space = Workspace(chip, grids, placed, chip.sm.sm_count + 1 if spare else sms.stop, spare)
    _fill_header(state, chip, grids, space)
    _fill_set_aside(state, chip, grids)
    space.compressible = _fill_compressible(state, chip, grids[0].context.memory)
    _fill_routes(state, chip, grids[0].context.memory)
    _fill_migration(state, chip, grids[0].context.memory)
    _fill_coherence(state, chip, grids[0].context.memory)
    fill_contexts(state, chip, grids, placed, space)
    if spare:
        state.words[s.chip.warm_queue] = space.address("stores")
    for kind, address, _, _ in _POLICIES:
        state.words[address] = policies_module.address_of(kind, getattr(policies, kind.parameter))
    watch = watch_of(grids, space) if all(grid.kernel.judged for grid in grids) else None
    return Prepared(chip, grids, placed, static, state, policies, space, watch, kept, Standstill([watch], [state]))


def watch_of(grids: Sequence[Grid], space: Workspace) -> Watch:
    """The object that inspects the warps of a machine."""
    held = (space.arrays["shared"], space.arrays["local"])
    saved = {
        grid.kernel.address: [
            (part.spill_offset + at, size)
            for at, size in grid.kernel.saved_positions.lasting(SPILL_HEADER_BYTES, grid.kernel.spill_bytes)
        ]
        for grid, part in zip(grids, space.parts, strict=True)
    }
    return Watch(grids[0].context, space.arrays["warps"], saved, held)


def simulate(
    chip: Chip,
    grid: Grid,
    host: Supervision = ALONE,
    *,
    policies: Policies = OWN_POLICIES,
    kept: KeptCaches | None = None,
) -> TimingResult:
    """Run a launch in simulated time, functionally and cycle by cycle, with cold caches or those that the device's last launch has left (``kept``).

    Raises:
        TimingError: a warp faulted, trapped, or no warp can continue or ever will end.
        TimingCancelled: ``cancel`` returned true.
    """
    return finish(prepare(chip, [grid], policies, kept=kept), host)


SAVER_WINDOWS = 4
"""Windows between two calls of a saver."""


def finish(launch: Prepared, host: Supervision) -> TimingResult:
    """Run a machine with one launch from its present state to its end.

    Raises:
        TimingError, TimingCancelled: as ``simulate``.
    """
    began, worked = time.perf_counter(), time.thread_time()
    calls = host.progress, host.cancel, host.interpret
    if host.reads is not None:
        host.reads.attach(launch.state)
    with launch.helpers(host.threads, host.progress):
        if host.saver is None:
            advance(launch, *calls)
        else:
            host.saver(launch, lambda: advance(launch, *calls, windows_at_once=SAVER_WINDOWS))
    result = result_at_end(launch)
    launch.close()
    result.wall_seconds, result.cpu_seconds = time.perf_counter() - began, time.thread_time() - worked
    return result


def result_at_end(launch: Prepared) -> TimingResult:
    """The result of a machine with one launch, which has ended."""
    cycles = int(metrics_module.sm_column(launch.state, s.SM.finish).max())
    cycles += metrics_module.end_fences(launch.state, launch.chip)
    return result_of(launch, cycles, launch.grids[0].context.geometry.blocks)


def simulate_together(
    chip: Chip,
    grids: Sequence[Grid],
    host: Supervision = ALONE,
    *,
    policies: Policies = OWN_POLICIES,
    kept: KeptCaches | None = None,
) -> list[TimedGrid | None]:
    """Run several launches on one chip, whose SMs, L2 and DRAM they share, in the order that ``Grid.after`` and priorities leave open.

    The machine ends when nothing is left on the chip; the result of a launch that would begin later is None.

    Raises:
        UnsupportedError: too many launches, or one with clusters among several.
        TimingError: as ``simulate``; ``TimingError.grid`` is the place of the launch that it is about.
        TimingCancelled: ``cancel`` returned true.
    """
    if len(grids) > s.MAX_KERNELS:
        raise UnsupportedError(f"{len(grids)} launches on one chip at once: at most {s.MAX_KERNELS}; submit fewer")
    if len(grids) > 1 and any(grid.context.geometry.cluster_blocks > 1 for grid in grids):
        raise UnsupportedError("launches of clusters share the chip with no other; submit them alone")
    if len(grids) == 1:
        return [_alone(grids[0], simulate(chip, grids[0], host, policies=policies, kept=kept))]
    began, worked = time.perf_counter(), time.thread_time()
    launch = prepare(chip, grids, policies, kept=kept)
    with launch.helpers(host.threads, host.progress):
        advance(launch, host.progress, host.cancel)
    m = launch.state.words
    kernels = [launch.state.kernel(number) for number in range(len(grids))]
    ran = [number for number, k in enumerate(kernels) if m[k.done_blocks] == m[k.blocks]]
    found: list[TimedGrid | None] = [None] * len(grids)
    for number in ran:
        one = launch.placed[number]
        grid = found[number] = timed_grid(launch.state, chip, number, one.first_pc, one.static.instructions)
        if len(ran) == 1:
            # The machine's counters are its own.
            grid.result = result_of(launch, grid.result.cycles, grids[number].context.geometry.blocks, number)
    launch.close()
    wall, cpu = time.perf_counter() - began, time.thread_time() - worked
    for timed in found:
        if timed is not None:
            timed.result.wall_seconds, timed.result.cpu_seconds = wall / len(ran), cpu / len(ran)
    return found


def _alone(grid: Grid, result: TimingResult) -> TimedGrid:
    """A launch that shares the chip with no other."""
    metrics = result.metrics
    executed, lanes = metrics["smsp__inst_executed.sum"], metrics["smsp__thread_inst_executed.sum"]
    begin = grid.earliest_cycle + grid.gap_cycles
    return TimedGrid(begin, begin + result.cycles, result, int(executed), int(lanes))


def advance(
    launch: Prepared,
    progress: ProgressCallback | None = None,
    cancel: CancelCallback | None = None,
    interpret: InterpretCallback | None = None,
    *,
    windows_at_once: int = 0,
) -> bool:
    """Run the windows of a launch until its last block has ended, or a limited number of them; returns whether blocks are left.

    Several launches run until none of them has a block on the chip.
    """
    state, static = launch.state, launch.static
    m = state.words
    limit = windows_at_once or 16
    while True:
        began = time.perf_counter()
        outcome = int(windows.run_windows(m, static.rows, limit))
        spent = time.perf_counter() - began
        judge(launch, outcome, interpret)
        if outcome in (window_steps.FINISHED, window_steps.IDLE):
            return False
        if cancel is not None and cancel():
            resident = [_warp_fields(state, sm, slot) for sm, slot in state.active_warps()]
            raise TimingCancelled(f"cancelled at cycle {int(m[s.chip.now]):,}", warps=resident)
        if launch.standstill.reached():
            raise deadlock(state, repeats=True)
        if progress is not None:
            instructions = int(metrics_module.sm_column(state, s.SM.instructions).sum())
            done, total = int(m[s.chip.done_blocks]), int(m[s.chip.blocks])
            progress(Progress("running", int(m[s.chip.now]), done, total, instructions))
        if windows_at_once:
            return True
        limit = int(min(max(limit * REPORT_SECONDS / max(spent, 1e-4), 1), limit * 8, 1 << 20))


def run_until(launch: Prepared, cycle: int, cancel: CancelCallback | None, seconds: float) -> int:
    """Run windows up to a cycle, to the end of a launch, or for a host time in seconds; returns what stopped them (``windows.py``)."""
    m = launch.state.words
    m[s.chip.pauses], m[s.chip.pause_at] = 1, cycle
    began, limit = time.perf_counter(), 16
    while True:
        outcome = int(windows.run_windows(m, launch.static.rows, limit))
        spent = time.perf_counter() - began
        if outcome == warming.STUCK:
            return outcome
        judge(launch, outcome, None)
        if outcome not in (warming.RUNNING, warming.STOPPED):
            return outcome
        if cancel is not None and cancel():
            raise TimingCancelled(f"cancelled at cycle {int(m[s.chip.now]):,}")
        if spent >= seconds:
            return warming.RUNNING
        limit = min(2 * limit, 4096)


def run_untimed(launch: Prepared) -> None:
    """Run the remaining untimed blocks of a stretch; takes no simulated time."""
    judge(launch, int(windows.run_windows(launch.state.words, launch.static.rows, 0)), None)


def judge(launch: Prepared, outcome: int, interpret: InterpretCallback | None = None) -> None:
    """Handle what the compiled main loop left to Python."""
    _judge_policies(launch)
    if outcome == warming.STUCK:
        raise deadlock(launch.state)
    if outcome == warming.STOPPED:
        handle_stop(launch.state, interpret)


def result_of(launch: Prepared, cycles: int, blocks: int, number: int = 0) -> TimingResult:
    """The counters of ``blocks`` blocks that took ``cycles``, for the only one of the machine's launches that ran."""
    state, chip, placed = launch.state, launch.chip, launch.placed[number]
    m, occupancy = state.words, placed.occupancy
    issued, waited = metrics_module.by_instruction(state)
    reasons = metrics_module.stalls(issued, waited)
    values = metrics_module.collect(state, chip, occupancy, cycles, reasons, placed.static.instructions)
    memory = launch.grids[number].context.memory
    busiest = bounds_module.busiest_slice(state, memory.host_minus_device)
    bounds = bounds_module.lower_bounds(state, chip, blocks, occupancy.blocks_per_sm, busiest)
    own = slice(placed.first_pc, placed.first_pc + placed.static.instructions)
    issues, waits = issued[own], waited[own]
    k = state.kernel(number)
    log, logged = int(m[k.block_log]), int(m[k.logged_blocks])

    return TimingResult(
        cycles=cycles,
        seconds=cycles / (chip.clocks.sm_clock_mhz * 1e6),
        metrics=values,
        bottleneck=metrics_module.bottleneck(
            cycles, min(chip.launch.launch_overhead_cycles, cycles), bounds, reasons, {bounds_module.ATOMICS: busiest}
        ),
        bounds=bounds,
        busiest_slice=busiest,
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
