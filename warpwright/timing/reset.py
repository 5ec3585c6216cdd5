"""The state of an idle chip: the size of each area and its initial contents.

The header's numbers and what units begin with come from their declarations (``state/``).  Caches are cold, but for those that a device keeps between its
launches (``kept_caches.py``).  Memory is reused from the previous launch (``buffer_reuse.py``); only the part that this launch can reach is cleared, so that a launch of few blocks costs no more than its SMs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.engine.managed_pages import PROCESSORS
from warpwright.timing import buffer_reuse
from warpwright.timing import state as s
from warpwright.timing.kept_caches import KeptCaches
from warpwright.timing.placement import dispatch_of, first_places


@dataclass(frozen=True, slots=True)
class LaunchSizes:
    """The sizes that the state of a chip must have room for, and its launches' properties."""

    l1_kib: int
    """Size of L1 that the shared-memory carve-out leaves."""
    code_lines: int
    const_lines: int
    instructions: int
    blocks: int = 0
    """Of the grid; 0 when they come later."""
    parameter_lines: int = 0
    """The first constant lines, which the launch brings to L1.5."""
    clustered: bool = False
    """Blocks go to any SM."""
    others: Sequence[tuple[int, int]] = ()
    """Of further launches on the chip the first constant line, and how many lines of parameters follow."""


class _Sizes:
    """Values that depend on the chip or the program: capacities, and the beginnings of areas and of parts of an SM's region."""

    def __init__(self, chip: Chip, launch: LaunchSizes, blocks: int) -> None:
        self.chip, self.constants = chip, chip.constant_cache
        self.code_lines, self.const_lines = launch.code_lines, launch.const_lines
        self.instructions, self.kernels = launch.instructions, 1 + len(launch.others)
        self._times()
        self._capacities(launch.l1_kib)
        self.offsets: dict[str, int] = {}
        self._place_in_sm()
        self.areas: dict[str, int] = {}
        self._place_areas(blocks)

    def _times(self) -> None:
        """Times and rates that follow from several numbers of the chip."""
        chip, l2, dram = self.chip, self.chip.l2, self.chip.dram
        self.there = l2.l2_hit_latency_cycles - chip.mio.mio_latency_cycles
        beyond_l1 = max(l2.l2_hit_latency_cycles - chip.l1.l1_hit_latency_cycles, 0)
        self.bulk_there = beyond_l1 + chip.cluster.bulk_copy_latency_cycles
        # The mean over both partitions.
        self.cold_code_latency = dram.dram_latency_cycles + l2.l2_far_latency_cycles // 2
        self.dram_bytes_per_clk = dram.dram_gb_per_s * 1000.0 / chip.clocks.sm_clock_mhz
        row_miss = round(dram.dram_row_miss_ns * (chip.clocks.sm_clock_mhz / 1000.0))
        # If DRAM is hardly slower than L2, there is no time for more.
        self.row_miss = min(row_miss, dram.dram_latency_cycles - l2.l2_hit_latency_cycles)

    def _capacities(self, l1_kib: int) -> None:
        """Lines, sets and slots of each unit."""
        chip, l2, dram = self.chip, self.chip.l2, self.chip.dram
        instruction, constants = chip.instruction_cache, self.constants
        self.ways = chip.l1.l1_ways
        self.line_sectors = chip.l1.l1_line_bytes // chip.l1.sector_bytes
        self.sets = l1_sets(chip, l1_kib)
        self.l0_lines = instruction.l0_icache_kib * 1024 // instruction.icache_line_bytes
        self.l0_size = 2 + self.l0_lines + self.code_lines
        self.l0_count = chip.sm.sub_core_count if instruction.l0_icache_per_sub_core else 1
        self.l1i_lines = instruction.l1_icache_kib * 1024 // instruction.icache_line_bytes
        self.indexed_constants = constants.indexed_constant_lines
        self.l1_constants = constants.l1_constant_kib * 1024 // constants.constant_line_bytes
        self.indexed_size = 2 + self.indexed_constants + self.const_lines
        self.immediate_size = 2 + self.l1_constants + self.const_lines
        self.block_lines = constants.constant_block_bytes // constants.constant_line_bytes
        self.const_blocks = self.const_lines // self.block_lines + 1
        self.channels_per_slice = max(dram.dram_channel_count // l2.l2_slice_count, 1)
        self.channels = self.channels_per_slice * l2.l2_slice_count
        self.row_blocks = max(self.channels * dram.dram_row_bytes // dram.dram_bank_block_bytes, 1)
        self.l2_sets = max(l2.l2_kib * 1024 // l2.l2_slice_count // chip.l1.l1_line_bytes // l2.l2_ways, 1)
        self.l2_set_words = s.L2_WAY_WORDS * l2.l2_ways
        self.gpcs = len(chip.sm.gpc_sm_counts)
        self._texture_caches()
        self.tlb_slots = 8 + 2 * chip.crossbar.gpc_tlb_page_count
        lines = chip.crossbar.gpc_coalescer_lines
        self.coalescer_lines = max(lines // s.SLICE_GROUPS, 1) if lines else 0
        # Each group of slices has its part of the link between the partitions.
        self.half = l2.l2_slice_count // l2.l2_partition_count

    def _texture_caches(self) -> None:
        """Sets of the caches of texture units that clusters share, none without."""
        texture, slices = self.chip.texture, self.chip.l2.l2_slice_count
        line = max(texture.texture_unit_line_bytes, 1)
        self.texture_sets = texture.texture_unit_l1_kib * 1024 // line // max(texture.texture_unit_l1_ways, 1)
        self.texture_l2_sets = (
            texture.texture_unit_l2_kib * 1024 // line // max(texture.texture_unit_l2_ways, 1) // slices
        )
        ways = self.texture_sets * texture.texture_unit_l1_ways
        self.texture_unit_words = s.TextureUnit.size + ways * s.T_WORDS if ways else 0
        self.texture_line_shift = max(self.chip.l1.l1_line_bytes // line, 1).bit_length() - 1
        core_mhz = self.chip.graphics.core_clock_mhz
        self.texture_quad_interval = round(256 * self.chip.clocks.sm_clock_mhz / core_mhz) if core_mhz else 0

    def _place_in_sm(self) -> None:
        """Offsets of an SM's parts whose size depends on the chip or the program."""
        position = s.SM.size
        for name, size in (
            ("requests", s.MAX_REQUESTS * s.Request.size),
            ("policies", s.MAX_REQUESTS),
            ("runs", s.MAX_REQUESTS),
            ("answers", s.MAX_REQUESTS),
            ("waiters", s.MAX_WAITERS * s.Waiter.size),
            ("loads", s.MAX_LOADS * s.PendingLoad.size),
            ("const", 2 + self.l1_constants + self.const_lines),
            ("immediate", s.MAX_SUB_CORES * self.immediate_size),
            ("indexed", s.MAX_SUB_CORES * self.indexed_size),
            ("const_blocks", self.const_blocks),
            ("l0", self.l0_count * self.l0_size),
            ("l1i", 2 + self.l1i_lines + self.code_lines),
            ("l1", self.sets * self.ways * s.C_SLOTS),
            ("join", s.StoreBuffer.size + s.StoreLine.size * self.chip.l1.store_buffer_lines),
        ):
            position = (position + 7) // 8 * 8
            self.offsets[name] = position
            position += size
        self.sm_slots = (position + 63) // 64 * 64 + 8  # a line more, so that regions do not share cache sets

    def _areas_of_links(self) -> tuple[tuple[str, int], ...]:
        """Names and sizes of the areas for memory elsewhere."""
        return (
            ("links", s.LINK_WAYS * s.SLICE_GROUPS),
            ("link_use", s.LINK_WAYS * s.SLICE_GROUPS),
            ("link_window", s.LINK_WAYS * s.SLICE_GROUPS),
            ("link_later", s.LINK_WAYS * s.SLICE_GROUPS),
            ("link_widths", s.LINK_WAYS * s.LinkWidth.size),
            ("peer_routes", s.MAX_PEER_ROUTES * s.PeerRoute.size),
            ("processors", PROCESSORS * s.Processor.size),
            ("held_up", self.half),
            ("atomics_elsewhere", s.SLICE_GROUPS * s.LINES_OF_ATOMICS * 2),
        )

    def _groups(self, limit: str) -> int:
        """Bank groups of all channels, none if nothing limits them."""
        return self.channels * self.chip.dram.dram_bank_group_count if self.chip.get(limit) else 0

    @property
    def queued_writes(self) -> int:
        """Places for the writes of all channels whose rows decide what leaves together."""
        dram = self.chip.dram
        queue = dram.dram_write_batch_requests_count or dram.dram_write_batch_bursts
        return self.channels * queue * s.WAITING_WRITES if dram.dram_write_batch_rows_count else 0

    def _areas_of_dram(self) -> tuple[tuple[str, int], ...]:
        """What is known of channels, bank groups and banks, apart from queued writes."""
        return (
            ("dram_ports", self.channels * s.CALENDAR_SLOTS),
            ("dram_openings", self.channels * s.CALENDAR_SLOTS),
            ("dram_group_openings", self._groups("dram_group_activate_ns") * s.CALENDAR_SLOTS),
            ("dram_group_columns", self._groups("dram_group_column_ns") * s.CALENDAR_SLOTS),
            ("dram_state", self.channels * s.Channel.size),
            ("dram_banks", self.channels * self.chip.dram.dram_bank_count * 2),
        )

    def _place_areas(self, blocks: int) -> None:
        """Where each area of the state begins; ``blocks`` are logged."""
        sm, l2, texture = self.chip.sm, self.chip.l2, self.chip.texture
        position = (s.Header.size + 63) // 64 * 64
        for area, size in (
            # At the same place whatever the program and however many SMs take part: it may be kept.
            ("l2", l2.l2_slice_count * self.l2_sets * self.l2_set_words),
            ("gpc_of_sm", sm.sm_count),
            ("partition_of_sm", sm.sm_count),
            ("store_port_of_sm", sm.sm_count),
            ("first_places", self.kernels * sm.sm_count * sm.max_blocks_per_sm),
            ("sm_order", sm.sm_count),
            ("kernels", self.kernels * s.Kernel.size),
            ("sms", (sm.sm_count + 1) * self.sm_slots),
            ("order", sm.sm_count * s.MAX_REQUESTS),
            ("group_order", sm.sm_count * s.MAX_REQUESTS * s.SLICE_GROUPS),
            ("dram_queues", self.queued_writes * s.QueuedWrite.size),
            ("gpc_fields", self.gpcs * s.Gpc.size),
            ("gpc_turns", self.gpcs),
            *self._areas_of_links(),
            ("queues", (s.SLICE_GROUPS + 1) * s.RequestQueue.size),
            ("gpc_ports", self.gpcs * s.CALENDAR_SLOTS),
            ("store_ports", self.gpcs * self.chip.crossbar.gpc_store_port_count * s.CALENDAR_SLOTS),
            ("gpc_fetch_ports", self.gpcs * s.CALENDAR_SLOTS),
            ("slice_ports", l2.l2_slice_count * s.CALENDAR_SLOTS),
            ("slice_write_ports", l2.l2_slice_count * s.CALENDAR_SLOTS),
            ("atomic_last", l2.l2_slice_count * 2),
            ("atomic_lines", l2.l2_slice_count * l2.l2_atomic_lines),
            ("slice_queues", l2.l2_slice_count * s.SliceQueue.size),
            ("tlb", self.gpcs * self.tlb_slots),
            ("tlb_ports", self.gpcs * s.CALENDAR_SLOTS),
            ("coalescer", self.gpcs * s.SLICE_GROUPS * self.coalescer_lines * 4),
            ("touched", l2.l2_slice_count * -(-sm.sm_count // 64)),
            ("far_ports", 2 * self.half * s.CALENDAR_SLOTS),
            *self._areas_of_dram(),
            ("texture_units", self.gpcs * self.texture_unit_words),
            ("texture_l2", l2.l2_slice_count * self.texture_l2_sets * texture.texture_unit_l2_ways * s.T_WORDS),
            ("buckets", self.gpcs * s.BUCKET_SLOTS),
            ("stalls", self.gpcs * self.instructions * len(s.STALLS)),
            ("passes", self.gpcs * s.PASSES_KEPT * s.PASSES_SLOTS),
            ("patterns", self.gpcs * s.PATTERNS_KEPT * s.PATTERN_SLOTS),
            ("const_arrived", self.const_blocks),
            ("code_arrived", self.gpcs * self.code_lines),
            ("block_log", blocks * s.LoggedBlock.size),
            ("banks", self.gpcs * s.BANK_SLOTS),
            ("l2_installs", s.SLICE_GROUPS * s.L2_INSTALLS),
            ("slice_groups", s.SLICE_GROUPS * s.SliceGroup.size),
            ("thread_phase", s.PHASE_SLOTS),
        ):
            self.areas[area] = position
            position += (size + 63) // 64 * 64
        self.words = position
        if position >> s.PLACE_BITS:
            raise ValueError(
                f"the state of {self.chip.identity.product} has {position:,} words, and a request's place has {s.PLACE_BITS} bits: "
                "give the chip fewer SMs or a smaller L2"
            )


_DERIVED = [field for field in s.Header.fields.values() if isinstance(field, s.Derived)]
_OF_SIZES = [(n, field) for n, field in enumerate(_DERIVED) if not isinstance(field, s.OfChip)]
_PLACES = np.array([field.offset for field in _DERIVED])
"""Offsets of the header's words that follow from the chip or the sizes."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The sizes for a launch, and the header's words that follow from them and from the chip file."""

    chip: Chip
    launch: LaunchSizes
    sizes: _Sizes
    contents: npt.NDArray[np.int64]
    """Values of the words at ``_PLACES``."""


_last_layout: _Layout | None = None


def _layout(chip: Chip, launch: LaunchSizes) -> _Layout:
    """The layout of a launch's state; kept for the next launch of the same sizes on the same chip."""
    global _last_layout
    known = _last_layout
    if known is not None and known.chip is chip and known.launch == launch:
        return known
    sizes = _Sizes(chip, launch, min(launch.blocks, (1 + len(launch.others)) * s.MAX_LOGGED_BLOCKS))
    if known is not None and known.chip is chip:
        contents = known.contents.copy()
    else:
        contents = np.array([field.of_chip(chip) if isinstance(field, s.OfChip) else 0 for field in _DERIVED], np.int64)
    for place, field in _OF_SIZES:
        contents[place] = field.value(sizes)
    found = _last_layout = _Layout(chip, launch, sizes, contents)
    return found  # another thread may have replaced the one that is kept


def initial_state(chip: Chip, launch: LaunchSizes, kept: KeptCaches | None = None) -> s.State:
    """Allocate and fill the state of a chip that is idle, with cold caches or those that its last launch has left (``kept``)."""
    blocks, code_lines, others = launch.blocks, launch.code_lines, launch.others
    layout = _layout(chip, launch)
    sizes = layout.sizes
    if others:
        blocks = 0  # they may go to any SM
    l2 = range(sizes.areas["l2"], sizes.areas["gpc_of_sm"])
    m, zeros = buffer_reuse.take("state", sizes.words) if kept is None else (kept.take(sizes.words, l2), l2)
    state = s.State(m, sizes.areas)
    used = used_sms(chip, 0 if launch.clustered else blocks)
    if not buffer_reuse.all_zero(zeros, sizes.words):
        _clear(state, sizes, chip.sm.sm_count, used, zeros)
    m[_PLACES] = layout.contents
    _clusters(state, chip)
    _idle_sms(state, sizes, used, chip.pipes.fma_lite_lanes > 0)
    _share_parameters(state, chip, blocks)
    _empty_constants(state, sizes, used, [(0, launch.parameter_lines), *others])
    instruction = chip.instruction_cache
    prefetched = instruction.launch_prefetch_kib * 1024 // instruction.icache_line_bytes
    _prefetch_code(state.sms(), used, sizes, min(prefetched, code_lines))
    order = sizes.areas["sm_order"]
    m[order : order + chip.sm.sm_count] = first_places(dispatch_of(chip), chip.sm.sm_count, 1)
    arrived, banks = sizes.areas["const_arrived"], sizes.areas["dram_banks"]
    m[arrived : arrived + sizes.const_blocks] = s.INF
    _cold_code(state, sizes, prefetched if kept is None else code_lines)
    m[sizes.areas["thread_phase"] + s.PHASE_TICKET] = s.TICKET_PIECE  # none is open
    m[banks : banks + sizes.channels * chip.dram.dram_bank_count * 2 : 2] = -1
    if kept is not None:
        kept.restore(state)
    return state


def l1_sets(chip: Chip, l1_kib: int) -> int:
    """Sets of an L1 of so many KiB, the reserved ones included."""
    return max((l1_kib - chip.l1.l1_reserved_kib) * 1024 // chip.l1.l1_line_bytes // chip.l1.l1_ways, 1)


def used_sms(chip: Chip, blocks: int) -> slice:
    """SMs among which are all that get blocks of a grid of so many (0: any number)."""
    sm = chip.sm
    if not 0 < blocks < sm.sm_count:
        return slice(0, sm.sm_count)
    return slice(0, int(first_places(dispatch_of(chip), blocks, 1).max()) + 1)


def _clear(state: s.State, sizes: _Sizes, count: int, used: slice, zeros: range) -> None:
    """Restore the initial state of the areas that the previous launch used; other SMs keep all but their counters, and L2 what ``zeros`` covers."""
    m, areas = state.words, state.areas
    sms = m[areas["sms"] : areas["order"]][: count * sizes.sm_slots].reshape(count, sizes.sm_slots)
    # The requests of a window, their order and what belongs to them are written before they are read, as are DRAM's queued writes.
    sms[used, : sizes.offsets["requests"]] = 0
    sms[used, sizes.offsets["const"] :] = 0
    sms[used.stop :, : s.SM.sub_cores] = 0
    m[: areas["l2"]] = 0
    if zeros != range(areas["l2"], areas["gpc_of_sm"]):
        m[areas["l2"] : areas["gpc_of_sm"]] = 0
    m[areas["gpc_of_sm"] : areas["sms"]] = 0
    m[areas["gpc_fields"] :] = 0


def empty_l2(state: s.State) -> range:
    """Empty L2 of the few lines that a launch has brought; the words that are zero then, none where it has brought many."""
    m, areas = state.words, state.areas
    for group in range(s.SLICE_GROUPS):
        count = int(m[areas["slice_groups"] + group * s.SliceGroup.size + s.SliceGroup.installed])
        if count > s.L2_INSTALLS:
            return range(0)
        first = areas["l2_installs"] + group * s.L2_INSTALLS
        for area in (s.chip.l2_tags, s.chip.l2_stamps, s.chip.l2_fills):
            m[int(m[area]) + m[first : first + count]] = 0
    return range(areas["l2"], areas["gpc_of_sm"])


def store_ports(chip: Chip) -> list[int]:
    """The number of each SM's store port: a GPC's TPCs are assigned to its ports in turn."""
    ports, tpc = chip.crossbar.gpc_store_port_count, chip.sm.tpc_sm_count
    return [gpc * ports + sm // tpc % ports for gpc, count in enumerate(chip.sm.gpc_sm_counts) for sm in range(count)]


def _clusters(state: s.State, chip: Chip) -> None:
    """GPC, L2 partition and store port of each SM."""
    m, areas = state.words, state.areas
    counts = chip.sm.gpc_sm_counts
    partitions = chip.sm.gpc_l2_partitions
    if len(partitions) != len(counts):  # part of a chip: each partition has its GPCs
        partitions = [gpc * chip.l2.l2_partition_count // len(counts) for gpc in range(len(counts))]
    first = 0
    for gpc, count in enumerate(counts):
        m[areas["gpc_of_sm"] + first : areas["gpc_of_sm"] + first + count] = gpc
        fields = s.Gpc(areas["gpc_fields"] + gpc * s.Gpc.size)
        m[fields.first], m[fields.end] = first, first + count
        m[areas["partition_of_sm"] + first : areas["partition_of_sm"] + first + count] = partitions[gpc]
        first += count
    ports = areas["store_ports"] + s.CALENDAR_SLOTS * np.array(store_ports(chip))
    m[areas["store_port_of_sm"] : areas["store_port_of_sm"] + len(ports)] = ports
    # Threads take neighbours of this order: a grid that fills the first GPCs only is shared too.
    turns = sorted(range(len(counts)), key=lambda gpc: f"{gpc:04b}"[::-1])
    m[areas["gpc_turns"] : areas["gpc_turns"] + len(counts)] = turns


def _prefetch_code(sms: npt.NDArray[np.int64], used: slice, sizes: _Sizes, lines: int) -> None:
    """The first lines of a kernel's code are in the second level when its first block starts: the launch brings them."""
    cache, capacity = sizes.offsets["l1i"], sizes.l1i_lines
    ways = sizes.chip.instruction_cache.l1_icache_ways
    sets = capacity // ways
    held = np.arange(min(lines, sets * ways))
    newer = (len(held) - 1 - held) // sets  # later lines of the same set
    sms[used, cache + 2 + held % sets * ways + newer] = held
    sms[used, cache + 2 + capacity : cache + 2 + capacity + len(held)] = 0


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
    sms[:, s.SM.index] = index
    sms[:, s.SM.stalls] = areas["stalls"] + gpcs * sizes.instructions * len(s.STALLS)
    sms[:, s.SM.l1_sets] = sizes.sets
    sms[:, s.SM.banks] = areas["banks"] + gpcs * s.BANK_SLOTS
    sms[:, s.SM.passes] = areas["passes"] + gpcs * s.PASSES_KEPT * s.PASSES_SLOTS
    sms[:, s.SM.patterns] = areas["patterns"] + gpcs * s.PATTERNS_KEPT * s.PATTERN_SLOTS
    for name in ("next", "active_from"):
        sms[:, s.SM.fields[name].offset] = s.SM.fields[name].reset
    places, values = _initial_words()
    sms[used, places] = values
    sms = sms[used]
    for sub in range(int(state.words[s.chip.sub_cores])):
        sms[:, s.SM.sub_cores[sub].pipe_free[s.P_FMA_LITE]] = 0 if has_lite else s.INF
    warps = s.SM.fields["warps"].count
    first = s.SM.warps + s.Warp.slot
    sms[:, first : first + warps * s.Warp.size : s.Warp.size] = np.arange(warps)
    l0 = [(sizes.offsets["l0"] + number * sizes.l0_size, sizes.l0_lines) for number in range(sizes.l0_count)]
    for place, capacity in (*l0, (sizes.offsets["l1i"], sizes.l1i_lines)):
        lines = place + 2
        sms[:, lines : lines + capacity] = -1
        sms[:, lines + capacity : lines + capacity + sizes.code_lines] = s.INF


@functools.cache
def _initial_words() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Places and contents of the words of an SM's region that do not begin with 0; computed once, because its units have thousands of fields."""
    rows = [(place + n, value) for place, count, value in s.SM.resets() for n in range(count)]
    return np.array([place for place, _ in rows]), np.array([value for _, value in rows])


def _share_parameters(state: s.State, chip: Chip, blocks: int) -> None:
    """All SMs with a first block ask for their parameters at once: each has its part of its GPC's port (``constant.share_constants``)."""
    sms, sm = state.sms(), chip.sm
    gpcs = state.words[state.areas["gpc_of_sm"] : state.areas["gpc_of_sm"] + len(sms)]
    asking = np.arange(len(sms))
    if 0 < blocks < sm.sm_count:
        asking = np.unique(first_places(dispatch_of(chip), blocks, 1))
    count = np.bincount(gpcs[asking], minlength=len(sm.gpc_sm_counts))[gpcs]
    part = np.maximum((count * state.words[s.chip.const_first_gpc_interval] + 128) >> 8, 1)
    sms[:, s.SM.const_interval] = np.maximum(state.words[s.chip.const_interval], part)
    sms[:, s.SM.operand_interval] = part


def _empty_constants(state: s.State, sizes: _Sizes, used: slice, parameters: Sequence[tuple[int, int]]) -> None:
    """No constant is in an SM but the parameters, in L1.5: of each launch their first line and how many follow."""
    sms = state.sms()[used]
    caches = [(sizes.offsets["const"], sizes.l1_constants)]
    size = 2 + sizes.l1_constants + sizes.const_lines
    caches += [(sizes.offsets["immediate"] + sub * size, sizes.l1_constants) for sub in range(s.MAX_SUB_CORES)]
    few, size = sizes.indexed_constants, 2 + sizes.indexed_constants + sizes.const_lines
    caches += [(sizes.offsets["indexed"] + sub * size, few) for sub in range(s.MAX_SUB_CORES)]
    for cache, capacity in caches:
        lines = cache + 2
        sms[:, lines : lines + capacity] = -1
        sms[:, lines + capacity : lines + capacity + sizes.const_lines] = s.INF
    blocks = sizes.offsets["const_blocks"]
    there = sms[:, blocks : blocks + sizes.const_blocks]
    there[...] = s.INF
    for first, count in parameters:
        there[:, first // sizes.block_lines : (first + count) // sizes.block_lines] = 0
