"""The state of a chip that is idle: how large each area is, what its header says, what its SMs hold.

Caches are cold, but for those that a device keeps between its launches (``kept_caches.py``).  Memory comes from the launch before (``buffers.py``); only
what this launch can reach is cleared, so that a launch of few blocks costs no more than its SMs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.timing import buffers
from warpwright.timing import state as s
from warpwright.timing.address_hash import UNIT_BYTES
from warpwright.timing.kept_caches import KeptCaches
from warpwright.timing.placement import first_places


def _log2(value: int) -> int:
    return value.bit_length() - 1


class _Sizes:
    """What depends on the chip or the program: capacities, and where areas and parts of an SM's region begin."""

    def __init__(
        self, chip: Chip, l1_kib: int, code_lines: int, const_lines: int, instructions: int, blocks: int
    ) -> None:
        sm, l2, dram = chip.sm, chip.l2, chip.dram
        instruction, constants = chip.instruction_cache, chip.constant_cache
        self.code_lines, self.const_lines, self.instructions, self.blocks = (
            code_lines,
            const_lines,
            instructions,
            blocks,
        )
        self.ways = chip.l1.l1_ways
        self.sets = max((l1_kib - chip.l1.l1_reserved_kib) * 1024 // chip.l1.l1_line_bytes // self.ways, 1)
        self.l0_lines = instruction.l0_icache_kib * 1024 // instruction.icache_line_bytes
        self.l1i_lines = instruction.l1_icache_kib * 1024 // instruction.icache_line_bytes
        self.indexed_constants = constants.indexed_constant_lines
        self.l1_constants = constants.l1_constant_kib * 1024 // constants.constant_line_bytes
        self.block_lines = constants.constant_block_bytes // constants.constant_line_bytes
        self.const_blocks = const_lines // self.block_lines + 1
        self.channels_per_slice = max(dram.dram_channel_count // l2.l2_slice_count, 1)
        self.channels = self.channels_per_slice * l2.l2_slice_count
        self.l2_sets = max(l2.l2_kib * 1024 // l2.l2_slice_count // chip.l1.l1_line_bytes // l2.l2_ways, 1)
        self.l2_set_words = s.L2_WAY_WORDS * l2.l2_ways
        self.gpcs = len(sm.gpc_sm_counts)
        self.tlb_slots = 8 + 2 * chip.crossbar.gpc_tlb_page_count
        lines = chip.crossbar.gpc_coalescer_lines
        self.coalescer_lines = max(lines // s.SLICE_GROUPS, 1) if lines else 0
        # Each group of slices has its part of the link between the partitions.
        self.half = l2.l2_slice_count // l2.l2_partition_count
        self.offsets: dict[int, int] = {}
        position = s.SM_FIXED
        for name, size in (
            (s.H_OFF_REQUESTS, s.MAX_REQUESTS * s.R_SLOTS),
            (s.H_OFF_WAITERS, s.MAX_WAITERS * s.X_SLOTS),
            (s.H_OFF_LOADS, s.MAX_LOADS * s.L_SLOTS),
            (s.H_OFF_CONST, 2 + self.l1_constants + const_lines),
            (s.H_OFF_IMMEDIATE, s.MAX_SUB_CORES * (2 + self.l1_constants + const_lines)),
            (s.H_OFF_INDEXED, s.MAX_SUB_CORES * (2 + self.indexed_constants + const_lines)),
            (s.H_OFF_CONST_BLOCKS, self.const_blocks),
            (s.H_OFF_L0, 2 + self.l0_lines + code_lines),
            (s.H_OFF_L1I, 2 + self.l1i_lines + code_lines),
            (s.H_OFF_L1, self.sets * self.ways * s.C_SLOTS),
            (s.H_OFF_JOIN, s.J_SLOTS * s.JOIN_LINES + s.JB_SLOTS),
        ):
            position = (position + 7) // 8 * 8
            self.offsets[name] = position
            position += size
        self.sm_slots = (position + 63) // 64 * 64 + 8  # a line more, so that regions do not share cache sets
        self.areas: dict[str, int] = {}
        position = (s.H_SLOTS + 63) // 64 * 64
        for area, size in (
            # At the same place whatever the program and however many SMs take part: it may be kept.
            ("l2", l2.l2_slice_count * self.l2_sets * self.l2_set_words),
            ("gpc_of_sm", sm.sm_count),
            ("partition_of_sm", sm.sm_count),
            ("first_places", sm.sm_count * sm.max_blocks_per_sm),
            ("sms", (sm.sm_count + 1) * self.sm_slots),
            ("order", sm.sm_count * s.MAX_REQUESTS),
            ("group_order", sm.sm_count * s.MAX_REQUESTS * s.SLICE_GROUPS),
            ("gpc_fields", self.gpcs * s.GP_SLOTS),
            ("gpc_turns", self.gpcs),
            ("links", s.LINK_WAYS * s.SLICE_GROUPS),
            ("held_up", self.half),
            ("atomics_elsewhere", s.SLICE_GROUPS * s.LINES_OF_ATOMICS * 2),
            ("queues", (s.SLICE_GROUPS + 1) * s.Q_SLOTS),
            ("gpc_ports", self.gpcs * s.CALENDAR_SLOTS),
            ("gpc_write_ports", self.gpcs * s.CALENDAR_SLOTS),
            ("gpc_fetch_ports", self.gpcs * s.CALENDAR_SLOTS),
            ("slice_ports", l2.l2_slice_count * s.CALENDAR_SLOTS),
            ("slice_write_ports", l2.l2_slice_count * s.CALENDAR_SLOTS),
            ("atomic_last", l2.l2_slice_count * 2),
            ("atomic_lines", l2.l2_slice_count * s.ATOMIC_LINES),
            ("slice_queues", l2.l2_slice_count * s.SQ_SLOTS),
            ("tlb", self.gpcs * self.tlb_slots),
            ("tlb_ports", self.gpcs * s.CALENDAR_SLOTS),
            ("coalescer", self.gpcs * s.SLICE_GROUPS * self.coalescer_lines * 4),
            ("touched", l2.l2_slice_count * -(-sm.sm_count // 64)),
            ("far_ports", 2 * self.half * s.CALENDAR_SLOTS),
            ("dram_ports", self.channels * s.CALENDAR_SLOTS),
            ("dram_state", self.channels * s.D_SLOTS),
            ("dram_banks", self.channels * dram.dram_bank_count * 2),
            ("buckets", self.gpcs * s.BUCKET_SLOTS),
            ("stalls", self.gpcs * instructions * len(s.STALLS)),
            ("passes", self.gpcs * s.PASSES_KEPT * s.PASSES_SLOTS),
            ("patterns", self.gpcs * s.PATTERNS_KEPT * s.PATTERN_SLOTS),
            ("const_arrived", self.const_blocks),
            ("code_arrived", self.gpcs * code_lines),
            ("block_log", min(blocks, s.MAX_LOGGED_BLOCKS) * s.LOG_SLOTS),
            ("banks", self.gpcs * s.BANK_SLOTS),
            ("l2_installs", s.SLICE_GROUPS * s.L2_INSTALLS),
            ("slice_groups", s.SLICE_GROUPS * s.SG_SLOTS),
            ("crew", s.CR_SLOTS),
        ):
            self.areas[area] = position
            position += (size + 63) // 64 * 64
        self.words = position


def initial_state(
    chip: Chip,
    l1_kib: int,
    code_lines: int,
    const_lines: int,
    instructions: int,
    blocks: int = 0,
    parameter_lines: int = 0,
    clustered: bool = False,
    kept: KeptCaches | None = None,
) -> s.State:
    """Allocate and fill the state of a chip that is idle, with cold caches or those that its last launch has left.

    ``l1_kib``: what the carve-out leaves to the cache; ``code_lines``, ``const_lines``: of the program; ``blocks``: of the grid, 0 when
    they come later; ``parameter_lines``: the first constant lines, which the launch brings to L1.5; ``clustered``: blocks go to any SM;
    ``kept``: what the device's caches hold.
    """
    sizes = _Sizes(chip, l1_kib, code_lines, const_lines, instructions, blocks)
    l2 = range(sizes.areas["l2"], sizes.areas["gpc_of_sm"])
    m, zeros = buffers.take("state", sizes.words) if kept is None else (kept.take(sizes.words, l2), l2)
    state = s.State(m, sizes.areas)
    used = used_sms(chip, 0 if clustered else blocks)
    if not buffers.all_zero(zeros, sizes.words):
        _clear(state, sizes, chip.sm.sm_count, used, zeros)
    numbers = {**_sm_numbers(chip, sizes), **_chip_numbers(chip, sizes), **_elsewhere_numbers(chip, sizes)}
    for key, value in {**numbers, **sizes.offsets}.items():
        m[key] = value
    _clusters(state, chip)
    _idle_sms(state, sizes, used, chip.pipes.fma_lite_lanes > 0)
    _share_parameters(state, chip, blocks)
    _empty_constants(state, sizes, used, parameter_lines)
    instruction = chip.instruction_cache
    prefetched = instruction.launch_prefetch_kib * 1024 // instruction.icache_line_bytes
    _prefetch_code(state.sms(), used, sizes, min(prefetched, code_lines))
    arrived, banks = sizes.areas["const_arrived"], sizes.areas["dram_banks"]
    m[arrived : arrived + sizes.const_blocks] = s.INF
    _cold_code(state, sizes, prefetched if kept is None else code_lines)
    m[sizes.areas["crew"] + s.CR_TICKET] = s.TICKET_PIECE  # none is open
    m[banks : banks + sizes.channels * chip.dram.dram_bank_count * 2 : 2] = -1
    if kept is not None:
        kept.restore(state)
    return state


def used_sms(chip: Chip, blocks: int) -> slice:
    """SMs among which are all that get blocks of a grid of so many (0: any number)."""
    sm = chip.sm
    if not 0 < blocks < sm.sm_count:
        return slice(0, sm.sm_count)
    return slice(0, int(first_places(tuple(sm.gpc_sm_counts), sm.dispatch_apart_sm_count, blocks, 1).max()) + 1)


def _clear(state: s.State, sizes: _Sizes, count: int, used: slice, zeros: range) -> None:
    """Make what a launch before has left as it was when it was fresh; other SMs keep all but their counters, and L2 what ``zeros`` covers."""
    m, areas = state.words, state.areas
    sms = m[areas["sms"] : areas["order"]][: count * sizes.sm_slots].reshape(count, sizes.sm_slots)
    # The requests of a window, their order and what belongs to them are written before they are read.
    sms[used, : sizes.offsets[s.H_OFF_REQUESTS]] = 0
    sms[used, sizes.offsets[s.H_OFF_CONST] :] = 0
    sms[used.stop :, : s.SM_SCALARS] = 0
    m[: areas["l2"]] = 0
    if zeros != range(areas["l2"], areas["gpc_of_sm"]):
        m[areas["l2"] : areas["gpc_of_sm"]] = 0
    m[areas["gpc_of_sm"] : areas["sms"]] = 0
    m[areas["gpc_fields"] :] = 0


def empty_l2(state: s.State) -> range:
    """Empty L2 of the few lines that a launch has brought; the words that are zero then, none where it has brought many."""
    m, areas = state.words, state.areas
    for group in range(s.SLICE_GROUPS):
        count = int(m[areas["slice_groups"] + group * s.SG_SLOTS + s.SG_INSTALLED])
        if count > s.L2_INSTALLS:
            return range(0)
        first = areas["l2_installs"] + group * s.L2_INSTALLS
        for area in (s.H_L2_TAGS, s.H_L2_STAMPS, s.H_L2_FILLS):
            m[int(m[area]) + m[first : first + count]] = 0
    return range(areas["l2"], areas["gpc_of_sm"])


def _sm_numbers(chip: Chip, sizes: _Sizes) -> dict[int, int]:
    """The header's fields about SMs, what they share and the launch."""
    sm, l2, constants = chip.sm, chip.l2, chip.constant_cache
    bucket = 1 << s.CALENDAR_SHIFT
    there = l2.l2_hit_latency_cycles - chip.mio.mio_latency_cycles
    cold = chip.dram.dram_latency_cycles + l2.l2_far_latency_cycles // 2  # the mean over both partitions
    return {
        s.H_SMS: sm.sm_count,
        s.H_SUB_CORES: sm.sub_core_count,
        s.H_SM_FIRST: sizes.areas["sms"],
        s.H_SM_SLOTS: sizes.sm_slots,
        s.H_WINDOW: there - 2,
        s.H_CLOCK_KHZ: chip.clocks.sm_clock_mhz * 1000,
        s.H_FIRST_INTERVAL: round(256 * chip.launch.block_first_interval_cycles),
        s.H_CLUSTER_INTERVAL: round(256 * chip.launch.cluster_first_interval_cycles),
        s.H_DISPATCH_INTERVAL: round(256 * chip.launch.block_dispatch_interval_cycles),
        s.H_BLOCK_SM_INTERVAL: chip.launch.block_sm_interval_cycles,
        s.H_BLOCK_LATENCY: chip.launch.block_launch_latency_cycles,
        s.H_BLOCK_START: chip.launch.block_start_latency_cycles,
        s.H_OVERHEAD: chip.launch.launch_overhead_cycles,
        s.H_WINDOW_OPERANDS: chip.issue.operand_window_cycles,
        s.H_HALF_WITH_FP64: int(chip.pipes.fp64_port_pipes_count > 1),
        s.H_BRANCH_LATENCY: chip.issue.branch_latency_cycles,
        s.H_YIELD: chip.issue.yield_latency_cycles,
        s.H_GROUP_SWITCH: chip.issue.group_switch_cycles,
        s.H_MIO_ENTRIES: chip.mio.mio_queue_entries,
        s.H_MIO_INTERVAL: chip.mio.mio_sub_core_interval_cycles,
        s.H_MIO_LATENCY: chip.mio.mio_latency_cycles,
        s.H_L0_LINES: sizes.l0_lines,
        s.H_L1I_LINES: sizes.l1i_lines,
        s.H_L1I_LATENCY: chip.instruction_cache.l1_icache_latency_cycles,
        s.H_L2I_LATENCY: l2.l2_hit_latency_cycles,
        s.H_L2I_INTERVAL: chip.instruction_cache.l2_icache_line_interval_cycles,
        s.H_L2I_COLD_LATENCY: cold,
        s.H_L2I_COLD_INTERVAL: chip.instruction_cache.l2_icache_line_interval_cycles * cold // l2.l2_hit_latency_cycles,
        s.H_CODE_ARRIVED: sizes.areas["code_arrived"],
        s.H_PREFETCH: chip.instruction_cache.icache_prefetch_lines,
        s.H_CHUNK_LINES: chip.instruction_cache.icache_chunk_lines,
        s.H_CHUNK_INTERVAL: round(
            chip.instruction_cache.icache_chunk_lines * chip.instruction_cache.l1_icache_line_interval_cycles
        ),
        s.H_CODE_LINES: sizes.code_lines,
        s.H_CONST_LINES: sizes.l1_constants,
        s.H_CONST_LINE_BYTES: constants.constant_line_bytes,
        s.H_CONST_BLOCK_LINES: sizes.block_lines,
        s.H_CONST_MISS: constants.l15_constant_latency_cycles - constants.ldc_latency_cycles,
        s.H_IMMEDIATE_MISS: constants.immediate_miss_cycles,
        s.H_AWAIT: chip.cluster.mbarrier_wait_limit_cycles,
        s.H_REMOTE_SEND: round(256 * chip.cluster.distributed_shared_packet_send_cycles),
        s.H_REMOTE_TAKE: round(256 * chip.cluster.distributed_shared_packet_take_cycles),
        s.H_REMOTE_ASK: round(256 * chip.cluster.distributed_shared_line_request_cycles),
        s.H_INDEXED_LINES: sizes.indexed_constants,
        s.H_INDEXED_SIZE: 2 + sizes.indexed_constants + sizes.const_lines,
        s.H_IMMEDIATE_SIZE: 2 + sizes.l1_constants + sizes.const_lines,
        s.H_INDEXED_MISS: constants.indexed_miss_cycles,
        s.H_CONST_L2: constants.l2_constant_latency_cycles - constants.l15_constant_latency_cycles,
        s.H_CONST_INTERVAL: constants.l15_constant_interval_cycles,
        s.H_CONST_GPC_INTERVAL: round(256 * constants.gpc_constant_interval_cycles),
        s.H_CONST_WORD: constants.ldc_word_cycles,
        s.H_CONST_REPLAY: constants.ldc_replay_cycles,
        s.H_CONST_ARRIVED: sizes.areas["const_arrived"],
        s.H_BULK_INTERVAL: chip.cluster.bulk_copy_interval_cycles,
        s.H_BULK_BYTES: max(chip.cluster.bulk_copy_bytes_per_clk, 1),
        s.H_BULK_EXTRA: chip.cluster.bulk_copy_extra_cycles,
        s.H_BULK_STORE: chip.cluster.bulk_store_latency_cycles,
        s.H_BULK_STORE_BYTES: max(chip.cluster.bulk_store_bytes_per_clk, 1),
        s.H_BULK_STORE_INTERVAL: chip.cluster.bulk_store_interval_cycles,
        s.H_BULK_STORE_ENTRIES: chip.cluster.bulk_store_entries,
        s.H_REMOTE_ATOMIC: chip.cluster.distributed_shared_atomic_latency_cycles,
        s.H_REMOTE_STORE_BYTES: max(chip.cluster.distributed_shared_store_bytes_per_clk, 1),
        s.H_CLUSTER_LATENCY: chip.cluster.cluster_barrier_latency_cycles,
        s.H_REMOTE_LATENCY: chip.cluster.distributed_shared_latency_cycles,
        s.H_BARRIER_LATENCY: chip.shared.block_barrier_latency_cycles,
        s.H_BARRIER_INTERVAL: chip.shared.block_barrier_warp_interval_cycles,
        s.H_BARRIER_LEAST: chip.shared.block_barrier_least_cycles,
        s.H_BARRIER_ENTRIES: chip.shared.block_barrier_queue_entries,
        s.H_BARRIER_LAST: chip.shared.block_barrier_last_cycles,
        s.H_FENCE_PLACES: chip.pipes.membar_places_count,
        s.H_FENCE_PLACE_TIME: chip.pipes.membar_place_cycles,
        s.H_FENCE_SHARED: chip.pipes.membar_block_written_latency_cycles,
        s.H_FENCE_WRITTEN: chip.pipes.membar_written_latency_cycles,
        s.H_FENCE_TOGETHER: chip.pipes.membar_group_cycles,
        s.H_FENCE_ROUNDS_APART: int(chip.pipes.membar_rounds_apart),
        s.H_FENCE_TURN: chip.pipes.membar_group_interval_cycles,
        s.H_LSU_CAPACITY: chip.mio.lsu_wavefronts_per_clk * bucket,
        s.H_PRODUCT_READS: sum(1 << cycle for cycle in chip.pipes.tensor_read_cycles),
        s.H_PRODUCT_AGAIN: sum(1 << cycle for cycle in chip.pipes.tensor_again_cycles),
        s.H_PRODUCT_END: max((*chip.pipes.tensor_read_cycles, *chip.pipes.tensor_again_cycles), default=-1) + 1,
        s.H_PRODUCT_HALF: chip.pipes.tensor_half_cycles,
        s.H_SHARED_LATENCY: chip.shared.shared_load_latency_cycles - chip.mio.mio_latency_cycles,
        s.H_SHARED_STORE_LATENCY: chip.shared.shared_store_latency_cycles - chip.mio.mio_latency_cycles,
        s.H_SHARED_ATOMIC: chip.shared.shared_atomic_latency_cycles - chip.mio.mio_latency_cycles,
        s.H_L1_SETS: sizes.sets,
        s.H_L1_WAYS: sizes.ways,
        s.H_L1_LATENCY: chip.l1.l1_hit_latency_cycles - chip.mio.mio_latency_cycles,
        s.H_L1_TAG_BANKS: chip.l1.l1_tag_lines_per_clk,
        s.H_L1_DATA_SECTORS: chip.l1.l1_data_bytes_per_clk // chip.l1.sector_bytes,
        s.H_L1_KEEPS_WRITES: chip.l1.l1_keeps_writes,
        s.H_L1_WRITE_BYTES: chip.l1.l1_write_bytes_per_clk,
        s.H_L1_JOIN: chip.l1.l1_join_cycles,
        s.H_FILL_CAPACITY: chip.l1.l1_fill_bytes_per_clk * bucket // chip.l1.sector_bytes,
    }


def _chip_numbers(chip: Chip, sizes: _Sizes) -> dict[int, int]:
    """The header's fields about what lies behind the SMs."""
    l2, dram = chip.l2, chip.dram
    cycles_per_ns = chip.clocks.sm_clock_mhz / 1000.0
    bytes_per_clk = dram.dram_gb_per_s * 1000.0 / chip.clocks.sm_clock_mhz
    # DRAM that is hardly slower than L2 has no time for more.
    row_miss = min(round(dram.dram_row_miss_ns * cycles_per_ns), dram.dram_latency_cycles - l2.l2_hit_latency_cycles)
    to_l2 = (l2.l2_hit_latency_cycles - chip.mio.mio_latency_cycles) // 2
    from_l2 = l2.l2_hit_latency_cycles - chip.mio.mio_latency_cycles - to_l2
    bucket = 1 << s.CALENDAR_SHIFT
    return {
        s.H_LOCAL_PHYSICAL: 1 << 50,
        s.H_GPC_OF_SM: sizes.areas["gpc_of_sm"],
        s.H_PARTITION_OF_SM: sizes.areas["partition_of_sm"],
        s.H_FIRST_PLACES: sizes.areas["first_places"],
        s.H_GPCS: sizes.gpcs,
        s.H_GPC_PORTS: sizes.areas["gpc_ports"],
        s.H_GPC_CAPACITY: chip.crossbar.gpc_read_bytes_per_clk * bucket // chip.l1.sector_bytes,
        s.H_GPC_WRITE_PORTS: sizes.areas["gpc_write_ports"],
        s.H_GPC_WRITE_CAPACITY: chip.crossbar.gpc_write_bytes_per_clk * bucket // chip.l1.sector_bytes,
        s.H_GPC_FETCH_PORTS: sizes.areas["gpc_fetch_ports"],
        s.H_GPC_FETCH_INTERVAL: round(256 * chip.instruction_cache.gpc_icache_line_interval_cycles),
        s.H_TO_L2: to_l2,
        s.H_FROM_L2: from_l2,
        s.H_SLICES: l2.l2_slice_count,
        s.H_PARTITIONS: l2.l2_partition_count,
        s.H_SLICE_PORTS: sizes.areas["slice_ports"],
        s.H_SLICE_WRITE_PORTS: sizes.areas["slice_write_ports"],
        s.H_SLICE_CAPACITY: l2.l2_slice_bytes_per_clk * bucket,
        s.H_L2_SETS: sizes.l2_sets,
        s.H_L2_WAYS: l2.l2_ways,
        s.H_L2_TAGS: sizes.areas["l2"],
        s.H_L2_STAMPS: sizes.areas["l2"] + l2.l2_ways,
        s.H_L2_FILLS: sizes.areas["l2"] + 2 * l2.l2_ways,
        s.H_L2_SLICE_WORDS: sizes.l2_sets * sizes.l2_set_words,
        s.H_L2_FETCH: l2.l2_fetch_bytes // chip.l1.sector_bytes,
        s.H_L2_ACCESS: l2.l2_slice_access_bytes,
        s.H_L2_PARTIAL_WAYS: l2.l2_partial_ways,
        s.H_L2_DIRTY_WAYS: l2.l2_dirty_ways,
        s.H_COALESCER_LINES: sizes.coalescer_lines,
        s.H_TLB: sizes.areas["tlb"],
        s.H_TLB_SLOTS: sizes.tlb_slots,
        s.H_TLB_SETS: chip.crossbar.gpc_tlb_page_count // 16,
        s.H_TLB_PORTS: sizes.areas["tlb_ports"],
        s.H_TLB_HIT: round(64 * chip.crossbar.gpc_tlb_hit_cycles),
        s.H_TLB_MISS: round(64 * chip.crossbar.gpc_tlb_miss_cycles),
        s.H_TLB_LATENCY: chip.crossbar.gpc_tlb_latency_cycles,
        s.H_PAGE_SHIFT: _log2(chip.crossbar.page_kib * 1024 // chip.l1.l1_line_bytes),
        s.H_COALESCING: l2.l2_hit_latency_cycles,
        s.H_COALESCER: sizes.areas["coalescer"],
        s.H_TOUCHED: sizes.areas["touched"],
        s.H_TOUCHED_WORDS: -(-chip.sm.sm_count // 64),
        s.H_L2_FILL: round(l2.l2_fill_sector_cycles * l2.l2_slice_bytes_per_clk),
        s.H_L2_WRITE_REQUEST: round(l2.l2_write_request_cycles * l2.l2_slice_bytes_per_clk),
        s.H_L2_WRITE_WHOLE: round(l2.l2_write_sector_cycles * l2.l2_slice_bytes_per_clk),
        s.H_L2_WRITE_PART: round(l2.l2_write_partial_cycles * l2.l2_slice_bytes_per_clk),
        s.H_FAR_LATENCY: l2.l2_far_latency_cycles,
        s.H_FAR_PORTS: sizes.areas["far_ports"],
        s.H_FAR_CAPACITY: (l2.l2_far_bytes_per_clk << s.DRAM_SHIFT) // sizes.half,
        s.H_FAR_MASKED: l2.l2_far_masked_bytes,
        s.H_FAR_ATOMIC: l2.l2_far_atomic_bytes,
        s.H_ATOMIC_LATENCY: l2.l2_atomic_latency_cycles,
        s.H_ATOMIC_WHOLE: round(l2.l2_atomic_sector_cycles * l2.l2_slice_bytes_per_clk),
        s.H_ATOMIC_PART: round(l2.l2_atomic_word_cycles * l2.l2_slice_bytes_per_clk),
        s.H_ATOMIC_SUM: round(l2.l2_atomic_float_cycles * l2.l2_slice_bytes_per_clk),
        s.H_ATOMIC_TURN: round(l2.l2_atomic_turn_cycles * l2.l2_slice_bytes_per_clk),
        s.H_ATOMIC_CHANGE: round(l2.l2_atomic_change_cycles * l2.l2_slice_bytes_per_clk),
        s.H_ATOMIC_CHANGE_ANSWER: round(l2.l2_atomic_answer_change_cycles * l2.l2_slice_bytes_per_clk),
        s.H_ATOMIC_LINES: sizes.areas["atomic_lines"],
        s.H_SLICE_QUEUES: sizes.areas["slice_queues"],
        s.H_READ_AFTER_WRITE: l2.l2_read_after_write_cycles,
        s.H_OTHER_SIDE: l2.l2_other_side_cycles,
        s.H_READ_AFTER_ATOMIC: l2.l2_read_after_atomic_cycles,
        s.H_ATOMIC_LAST: sizes.areas["atomic_last"],
        s.H_CHANNELS_PER_SLICE: sizes.channels_per_slice,
        s.H_DRAM_PORTS: sizes.areas["dram_ports"],
        s.H_DRAM_STATE: sizes.areas["dram_state"],
        s.H_DRAM_BANKS: sizes.areas["dram_banks"],
        s.H_DRAM_BANK_COUNT: dram.dram_bank_count,
        s.H_DRAM_LATENCY: dram.dram_latency_cycles - l2.l2_hit_latency_cycles - row_miss,
        s.H_DRAM_ROW_MISS: row_miss,
        s.H_DRAM_ROW_CYCLE: round(dram.dram_row_cycle_ns * cycles_per_ns),
        s.H_DRAM_ROW_UNITS: max(dram.dram_row_bytes // UNIT_BYTES, 1),
        s.H_DRAM_SECTOR: round(256 * chip.l1.sector_bytes * sizes.channels / bytes_per_clk),
        s.H_DRAM_ACTIVATE_READ: round(256 * dram.dram_activate_read_ns * cycles_per_ns),
        s.H_DRAM_ACTIVATE_WRITE: round(256 * dram.dram_activate_write_ns * cycles_per_ns),
        s.H_DRAM_TURNAROUND: round(256 * dram.dram_turnaround_ns * cycles_per_ns),
        s.H_DRAM_REFRESH_INTERVAL: round(dram.dram_refresh_interval_ns * cycles_per_ns),
        s.H_DRAM_REFRESH: round(256 * dram.dram_refresh_ns * cycles_per_ns),
        s.H_DRAM_BATCH: dram.dram_write_batch_bursts,
        s.H_BANK_REFRESH_INTERVAL: round(dram.dram_bank_refresh_interval_ns * cycles_per_ns),
        s.H_BANK_REFRESH: round(dram.dram_bank_refresh_ns * cycles_per_ns),
        s.H_BUCKETS: sizes.areas["buckets"],
        s.H_ORDER: sizes.areas["order"],
        s.H_GROUP_ORDER: sizes.areas["group_order"],
        s.H_QUEUES: sizes.areas["queues"],
        s.H_GPC_FIELDS: sizes.areas["gpc_fields"],
        s.H_GPC_TURNS: sizes.areas["gpc_turns"],
        s.H_INSTRUCTIONS: sizes.instructions,
        s.H_STALLS: sizes.areas["stalls"],
        s.H_BLOCK_LOG: sizes.areas["block_log"],
        s.H_LOGGED_BLOCKS: min(sizes.blocks, s.MAX_LOGGED_BLOCKS),
        s.H_SLICE_GROUPS: sizes.areas["slice_groups"],
        s.H_HALF: sizes.half,
        s.H_CREW: sizes.areas["crew"],
        s.H_L2_INSTALLS: sizes.areas["l2_installs"],
    }


def _elsewhere_numbers(chip: Chip, sizes: _Sizes) -> dict[int, int]:
    """The header's fields about the host's memory and other devices'."""
    elsewhere = chip.elsewhere
    cycles_per_ns = chip.clocks.sm_clock_mhz / 1000.0
    latencies = {
        s.H_HOST_LATENCY: elsewhere.host_latency_ns,
        s.H_HOST_WRITE_LATENCY: elsewhere.host_write_latency_ns,
        s.H_HOST_ATOMIC_LATENCY: elsewhere.host_atomic_latency_ns,
        s.H_PEER_LATENCY: elsewhere.peer_latency_ns,
        s.H_PEER_WRITE_LATENCY: elsewhere.peer_write_latency_ns,
        s.H_PEER_ATOMIC_LATENCY: elsewhere.peer_atomic_latency_ns,
        s.H_FENCE_SYSTEM: elsewhere.system_fence_ns,
        s.H_FENCE_HOST: elsewhere.host_fence_ns,
        s.H_FENCE_PEER: elsewhere.peer_fence_ns,
        s.H_FENCE_MAPPED: elsewhere.mapped_fence_ns,
        s.H_FENCE_SYSTEM_GAP: elsewhere.system_fence_gap_ns,
    }
    times = {
        s.H_HOST_ASK: elsewhere.host_ask_ns,
        s.H_HOST_READ: elsewhere.host_read_packet_ns,
        s.H_HOST_READ_SECTOR: elsewhere.host_read_sector_ns,
        s.H_HOST_WRITE: elsewhere.host_write_packet_ns,
        s.H_HOST_WRITE_SECTOR: elsewhere.host_write_sector_ns,
        s.H_HOST_ATOMIC_TURN: elsewhere.host_atomic_turn_ns,
        s.H_PEER_ASK: elsewhere.peer_ask_ns,
        s.H_PEER_PACKET: elsewhere.peer_packet_ns,
        s.H_PEER_SECTOR: elsewhere.peer_sector_ns,
        s.H_PEER_ATOMIC_TURN: elsewhere.peer_atomic_turn_ns,
    }
    return {
        **{field: round(value * cycles_per_ns) for field, value in latencies.items()},
        **{field: round(256 * value * cycles_per_ns) for field, value in times.items()},
        s.H_LINKS: sizes.areas["links"],
        s.H_HELD_UP: sizes.areas["held_up"],
        s.H_ATOMICS_ELSEWHERE: sizes.areas["atomics_elsewhere"],
        s.H_FENCE_LATENCY: chip.pipes.membar_gpu_latency_cycles,
    }


def _clusters(state: s.State, chip: Chip) -> None:
    """GPC and L2 partition of each SM."""
    m, areas = state.words, state.areas
    counts = chip.sm.gpc_sm_counts
    partitions = chip.sm.gpc_l2_partitions
    if len(partitions) != len(counts):  # part of a chip: each partition has its GPCs
        partitions = [gpc * chip.l2.l2_partition_count // len(counts) for gpc in range(len(counts))]
    first = 0
    for gpc, count in enumerate(counts):
        m[areas["gpc_of_sm"] + first : areas["gpc_of_sm"] + first + count] = gpc
        fields = areas["gpc_fields"] + gpc * s.GP_SLOTS
        m[fields + s.GP_FIRST], m[fields + s.GP_END] = first, first + count
        m[areas["partition_of_sm"] + first : areas["partition_of_sm"] + first + count] = partitions[gpc]
        first += count
    # Threads take neighbours of this order: a grid that fills the first GPCs only is shared too.
    turns = sorted(range(len(counts)), key=lambda gpc: f"{gpc:04b}"[::-1])
    m[areas["gpc_turns"] : areas["gpc_turns"] + len(counts)] = turns


def _prefetch_code(sms: npt.NDArray[np.int64], used: slice, sizes: _Sizes, lines: int) -> None:
    """The first lines of a kernel's code lie in the second level when its first block starts: the launch brings them."""
    cache, capacity = sizes.offsets[s.H_OFF_L1I], sizes.l1i_lines
    held = min(lines, capacity)
    sms[used, cache] = held % capacity
    sms[used, cache + 2 : cache + 2 + held] = np.arange(held)
    sms[used, cache + 2 + capacity : cache + 2 + capacity + held] = 0


def _cold_code(state: s.State, sizes: _Sizes, prefetched: int) -> None:
    """Of a kernel's code L2 has what the launch has brought; where caches are kept, all of it."""
    first = state.areas["code_arrived"]
    lines = state.words[first : first + sizes.gpcs * sizes.code_lines].reshape(sizes.gpcs, sizes.code_lines)
    lines[:, :prefetched] = 0
    lines[:, prefetched:] = s.INF


def _idle_sms(state: s.State, sizes: _Sizes, used: slice, has_lite: bool) -> None:
    """Every SM's counters and what it shares with its GPC; of those that get blocks sub-cores, warp slots and instruction caches."""
    sms, areas = state.sms(), state.areas
    index = np.arange(len(sms))
    gpcs = state.words[areas["gpc_of_sm"] : areas["gpc_of_sm"] + len(sms)]
    sms[:, s.SM_INDEX] = index
    sms[:, s.SM_STALLS] = areas["stalls"] + gpcs * sizes.instructions * len(s.STALLS)
    sms[:, s.SM_BANKS] = areas["banks"] + gpcs * s.BANK_SLOTS
    sms[:, s.SM_PASSES] = areas["passes"] + gpcs * s.PASSES_KEPT * s.PASSES_SLOTS
    sms[:, s.SM_PATTERNS] = areas["patterns"] + gpcs * s.PATTERNS_KEPT * s.PATTERN_SLOTS
    sms[:, s.SM_NEXT] = s.INF
    sms[:, s.SM_ACTIVE_FROM] = -1
    sms = sms[used]
    sms[:, s.SM_SUB_NEXT : s.SM_SUB_NEXT + s.MAX_SUB_CORES] = s.INF
    for sub in range(int(state.words[s.H_SUB_CORES])):
        sc = s.OFF_SUB_CORES + sub * s.SC_SLOTS
        sms[:, sc + s.SC_LAST] = -1
        sms[:, sc + s.SC_LAST_REUSE] = -1
        sms[:, sc + s.SC_FREE] = (1 << s.MAX_WARPS) - 1
        sms[:, sc + s.SC_READY : sc + s.SC_READY + s.MAX_WARPS] = s.INF
        sms[:, sc + s.SC_PIPE_FREE + s.P_FMA_LITE] = 0 if has_lite else s.INF
    warps = s.MAX_SUB_CORES * s.MAX_WARPS
    sms[:, s.OFF_WARPS + s.W_SLOT : s.OFF_WARPS + warps * s.W_SLOTS : s.W_SLOTS] = np.arange(warps)
    for offset, capacity in ((s.H_OFF_L0, sizes.l0_lines), (s.H_OFF_L1I, sizes.l1i_lines)):
        lines = sizes.offsets[offset] + 2
        sms[:, lines : lines + capacity] = -1
        sms[:, lines + capacity : lines + capacity + sizes.code_lines] = s.INF


def _share_parameters(state: s.State, chip: Chip, blocks: int) -> None:
    """All SMs with a first block ask for their parameters at once: each has its part of its GPC's port (``constant.share_constants``)."""
    sms, sm = state.sms(), chip.sm
    gpcs = state.words[state.areas["gpc_of_sm"] : state.areas["gpc_of_sm"] + len(sms)]
    asking = np.arange(len(sms))
    if 0 < blocks < sm.sm_count:
        asking = np.unique(first_places(tuple(sm.gpc_sm_counts), sm.dispatch_apart_sm_count, blocks, 1))
    count = np.bincount(gpcs[asking], minlength=len(sm.gpc_sm_counts))[gpcs]
    part = np.maximum((count * state.words[s.H_CONST_GPC_INTERVAL] + 128) >> 8, 1)
    sms[:, s.SM_CONST_INTERVAL] = np.maximum(state.words[s.H_CONST_INTERVAL], part)
    sms[:, s.SM_OPERAND_INTERVAL] = part


def _empty_constants(state: s.State, sizes: _Sizes, used: slice, parameter_lines: int) -> None:
    """No constant is in an SM but the parameters, in L1.5."""
    sms = state.sms()[used]
    caches = [(sizes.offsets[s.H_OFF_CONST], sizes.l1_constants)]
    size = 2 + sizes.l1_constants + sizes.const_lines
    caches += [(sizes.offsets[s.H_OFF_IMMEDIATE] + sub * size, sizes.l1_constants) for sub in range(s.MAX_SUB_CORES)]
    few, size = sizes.indexed_constants, 2 + sizes.indexed_constants + sizes.const_lines
    caches += [(sizes.offsets[s.H_OFF_INDEXED] + sub * size, few) for sub in range(s.MAX_SUB_CORES)]
    for cache, capacity in caches:
        lines = cache + 2
        sms[:, lines : lines + capacity] = -1
        sms[:, lines + capacity : lines + capacity + sizes.const_lines] = s.INF
    blocks = sizes.offsets[s.H_OFF_CONST_BLOCKS]
    sms[:, blocks + parameter_lines // sizes.block_lines : blocks + sizes.const_blocks] = s.INF
