"""The valid range of each number of a chip, and the conditions that relate several of them.

Every limit is one of the cycle model's or of the machine code's; the remark beside it says which.  ``chip_files.py`` checks them before
anything runs, so that a chip that loads can be simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warpwright.chips.sections import MAX_GPCS

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from warpwright.chips.chip import Chip

CAPABILITIES = (
    "1.0",
    "1.1",
    "1.2",
    "1.3",
    "2.0",
    "6.0",
    "6.1",
    "6.2",
    "7.0",
    "7.2",
    "7.5",
    "8.0",
    "8.6",
    "8.7",
    "8.9",
    "9.0",
)
"""Compute capabilities whose machine code there are tables for, and 2.0, of which PTX is executed."""
WARP_SLOTS_PER_SUB_CORE = 16
"""The cycle model names a warp slot by its sub-core and four bits."""
MOST_SLOT_GROUPS = 4
"""Groups of so many slots of an SM."""
MOST_L2_LINES = (1 << 23) // 3
"""The cycle model packs the place of a line, of three words, in 23 bits."""
MOST_LOSS = 0.05
"""Of L2, where its slices do not divide it: a slice has whole sets."""
LEAST_STEP = 0.01
"""Of times that may not be zero; the model counts in 1/256 cycle."""
MOST_BIT = 62
"""Cycles of tensor products are bits of a word."""
MOST_HASH_BITS = 30
"""Of a block's number that an address hash may use."""
MOST_TAG_BANK_BITS = 2
"""Of a tag bank's number: the model has up to four banks."""
OPEN_CAPACITY = 65536

_BY_UNIT: tuple[tuple[str, float], ...] = (
    ("_cycles", 10_000),
    ("_ns", 100_000),
    ("_us", 1_000_000),
    ("_gb_per_s", 1_000_000),
    ("_per_clk", OPEN_CAPACITY),
    ("_percent", 10_000),
    ("_lanes", 128),
)
"""The most that a field of a unit may be: beyond it a number is a slip of the pen."""
_RANGES: dict[str, tuple[float | None, float]] = {
    "sm_clock_mhz": (100, 10_000),
    "sm_count": (None, 512),
    "dispatch_apart_sm_count": (None, 512),
    "dispatch_apart_first_turns_count": (None, 1024),
    "dispatch_apart_turns_count": (None, 1024),
    "tpc_sm_count": (None, 512),
    "max_threads_per_block": (32, 1024),  # CUDA C++ Programming Guide, for every compute capability
    "registers_per_sm": (1024, 1 << 20),
    "max_registers_per_thread": (16, 255),  # machine code names a register in eight bits, of which 255 is RZ
    "register_allocation_unit_registers": (None, 65536),
    "named_barriers_per_sm_count": (None, 1024),
    "register_bank_count": (2, 4),
    "wide_multiply_passes_count": (None, 8),
    "launch_overhead_cycles": (None, 10_000_000),
    "mbarrier_wait_limit_cycles": (None, 10_000_000),
    "lsu_wavefronts_per_clk": (None, 64),
    "redux_wavefronts_count": (None, 64),
    "match_wavefronts_count": (None, 64),
    "membar_block_wavefronts_count": (None, 64),
    "membar_block_written_wavefronts_count": (None, 64),
    "lsu_atomic_lane_cycles": (None, 64),
    "lsu_atomic_sectors_lane_cycles": (None, 64),
    "store_queue_entries": (None, 64),
    "atomics_in_flight_count": (None, 1024),
    "store_buffer_lines": (2, 1024),  # a line that is written in part takes two places
    "store_output_lines": (None, 16),
    "store_buffer_lines_per_clk": (None, 32),
    "l2_atomic_lines": (None, 64),
    "l2_atomic_combined_lanes_count": (None, 64),
    "l2_atomic_wide_passes_count": (None, 32),
    "dram_bank_block_bytes": (128, 1 << 20),
    "dram_bank_group_count": (None, 64),
    "texture_addresses_per_clk": (None, 64),
    "gpc_icache_fetch_bytes": (32, 4096),
    "dram_postponed_refreshes_count": (None, 64),
    "launch_fetch_sectors_count": (None, 1 << 20),
    "launch_fences_count": (None, 1 << 20),
    "launch_idle_fences_count": (None, 1 << 20),
    "launch_end_overlap_cycles": (None, 1 << 20),
    "launch_end_fence_cycles": (None, 1 << 20),
    "peer_half_sector_bytes": (None, 128),
    "instruction_bytes": (8, 16),
    "icache_line_bytes": (32, 1024),
    "l0_icache_kib": (None, 1024),
    "l1_icache_kib": (None, 4096),
    "l1_icache_ways": (None, 1024),
    "icache_prefetch_lines": (None, 1024),
    "icache_chunk_lines": (None, 32),
    "launch_prefetch_kib": (None, 4096),
    "constant_line_bytes": (16, 256),
    "l1_constant_kib": (None, 64),
    "constant_block_bytes": (16, 4096),
    "indexed_constant_lines": (None, 64),
    "l1_kib": (8, 1024),
    "shared_max_per_block_kib": (None, 1024),
    "global_share_kib": (None, 1024),
    "shared_reserved_bytes_per_block": (None, 65536),
    "shared_allocation_unit_bytes": (None, 65536),
    "l1_ways": (None, 128),
    "l1_reserved_kib": (None, 512),
    "l1_tag_lines_per_clk": (None, 32),
    "l2_partition_hash_bits": (None, (1 << MOST_HASH_BITS) - 1),
    "l1_data_bytes_per_clk": (32, OPEN_CAPACITY),  # a sector at least
    "l1_fill_bytes_per_clk": (4, OPEN_CAPACITY),  # a sector in a bucket of eight cycles
    "l1_write_bytes_per_clk": (None, OPEN_CAPACITY),
    "gpc_read_bytes_per_clk": (4, OPEN_CAPACITY),
    "gpc_store_port_count": (None, 1024),  # no GPC has more SMs
    "store_port_bytes_per_clk": (4, OPEN_CAPACITY),
    "gpc_tlb_page_count": (None, 65536),
    "gpc_tlb_ways": (None, 65536),
    "page_kib": (4, 1 << 21),
    "gpc_coalescer_lines": (None, 65536),
    "gpc_coalescer_requests_count": (None, 1024),  # no GPC has more SMs
    "l1_drawn_ways": (None, 4),
    "l2_write_history_count": (None, 4096),
    "l2_queued_history_count": (None, 4096),
    "l2_written_least_percent": (0.01, 100),
    "l2_policy_hash_block_bytes": (64, 1 << 20),
    "lsu_atomic_answer_free_count": (None, 64),
    "store_join_free_lines": (None, 64),
    "l2_set_aside_max_kib": (None, 1 << 20),
    "l2_set_aside_default_kib": (None, 1 << 20),
    "l2_kib": (None, MOST_L2_LINES * 128 // 1024),
    "l2_slice_count": (None, 512),
    "l2_ways": (None, 64),
    "l2_partial_ways": (None, 64),
    "l2_dirty_ways": (None, 64),
    "l2_slice_access_bytes": (None, 4096),
    "l2_far_masked_bytes": (None, 4096),
    "l2_far_atomic_bytes": (None, 4096),
    "l2_hit_latency_cycles": (
        None,
        1024,
    ),  # an SM runs ahead of L2 for so long, and requests are sorted by 1,024 cycles
    "tensor_fp16_fma_per_clk": (None, OPEN_CAPACITY),
    "dram_kib": (1 << 10, 1 << 30),  # a device has 1 TiB of addresses
    "dram_gb_per_s": (1, 1_000_000),
    "dram_channel_count": (None, 1024),
    "dram_burst_bytes": (None, 4096),
    "dram_row_bytes": (None, 1 << 20),
    "dram_bank_count": (None, 256),
    "dram_refresh_interval_ns": (100, 1_000_000),
    "dram_bank_refresh_interval_ns": (100, 1_000_000),
    "dram_write_batch_bursts": (None, 4096),
    "dram_write_batch_requests_count": (None, 4096),
    "dram_write_batch_rows_count": (None, 4096),
    "max_cluster_blocks_per_sm": (None, 32),
    "texture_unit_l1_kib": (None, 1024),
    "texture_unit_l1_ways": (None, 64),
    "texture_unit_line_bytes": (None, 128),
    "texture_unit_l2_kib": (None, 65536),
    "texture_unit_l2_ways": (None, 64),
    "core_clock_mhz": (None, 10_000),
    "vertex_cache_vertices_count": (None, 4096),
    "vertex_fetch_lines_count": (None, 4096),
    "vertex_buffer_warps_count": (None, 4096),
    "raster_tile_pixels_count": (None, 64),
    "pixel_queue_warps_count": (None, 4096),
    "rop_tile_pixels_count": (None, 64),
    "rop_cache_tiles_count": (None, 4096),
    "compression_ratio_count": (None, 64),
}
"""Least and most by field; None: what ``sections.py`` has."""


def field_range(name: str, info: FieldInfo) -> tuple[float, float] | None:
    """The least and the most that a number may be; None for a field that is no number."""
    kind = info.annotation
    if kind not in (int, float):
        return None
    least: float = -math.inf
    most = next((most for unit, most in _BY_UNIT if name.endswith(unit)), math.inf)
    for rule in info.metadata:
        # pydantic keeps each bound in an object of its own.
        if hasattr(rule, "ge"):
            least = float(rule.ge)
        elif hasattr(rule, "gt"):
            least = float(rule.gt) + (1 if kind is int else LEAST_STEP)
        elif hasattr(rule, "le"):
            most = float(rule.le)
    lower, upper = _RANGES.get(name, (None, most))
    return (least if lower is None else lower), min(upper, most) if name not in _RANGES else upper


def range_text(limits: tuple[float, float]) -> str:
    """``1 to 4``."""
    least, most = (f"{int(n):,}" if n == int(n) else f"{n:g}" for n in limits)
    return f"{least} to {most}"


def problems(chip: Chip) -> Iterator[str]:
    """What is wrong with fields that are right each for itself: one sentence each, with the fields' names and values."""
    for check in (
        _sms,
        _warps,
        _capability,
        _latencies,
        _shared,
        _caches,
        _l2,
        _dram,
        _powers,
        _texture,
        _graphics,
        _engines,
    ):
        yield from check(chip)


def _sms(chip: Chip) -> Iterator[str]:
    sm, partitions = chip.sm, chip.l2.l2_partition_count
    counts = sm.gpc_sm_counts
    if not 1 <= len(counts) <= MAX_GPCS:
        yield f"gpc_sm_counts names {len(counts)} GPCs: the model has 1 to {MAX_GPCS}"
        return
    if min(counts) < 0 or sum(counts) != sm.sm_count:
        yield f"gpc_sm_counts add up to {sum(counts)} SMs, but sm_count is {sm.sm_count}"
    if sm.cluster_sm_counts and (min(sm.cluster_sm_counts) < 0 or sum(sm.cluster_sm_counts) != sm.sm_count):
        yield f"cluster_sm_counts add up to {sum(sm.cluster_sm_counts)} SMs, but sm_count is {sm.sm_count}"
    if sm.dispatch_apart_sm_count > counts[0]:
        yield f"dispatch_apart_sm_count = {sm.dispatch_apart_sm_count} is more than the {counts[0]} SMs of the first GPC"
    if any(not 0 <= side < partitions for side in sm.gpc_l2_partitions):
        yield f"gpc_l2_partitions = {sm.gpc_l2_partitions} must be 0 to {partitions - 1}: l2_partition_count is {partitions}"


def _warps(chip: Chip) -> Iterator[str]:
    sm = chip.sm
    room = WARP_SLOTS_PER_SUB_CORE * sm.sub_core_count * (MOST_SLOT_GROUPS // sm.sub_core_count)
    if sm.max_warps_per_sm > room or sm.max_warps_per_sm % sm.sub_core_count:
        yield (
            f"max_warps_per_sm = {sm.max_warps_per_sm} must be a multiple of sub_core_count = {sm.sub_core_count} and at most "
            f"{room}: a sub-core has {WARP_SLOTS_PER_SUB_CORE} warp slots"
        )
    lanes = chip.lanes
    if sm.max_threads_per_block > lanes * sm.max_warps_per_sm or sm.max_threads_per_block % lanes:
        yield (
            f"max_threads_per_block = {sm.max_threads_per_block:,} must be a multiple of {lanes} and at most "
            f"{lanes * sm.max_warps_per_sm:,}, the threads of max_warps_per_sm = {sm.max_warps_per_sm} warps"
        )


def _capability(chip: Chip) -> Iterator[str]:
    told = chip.identity.compute_capability
    if chip.identity.generation:
        if told:
            yield f"compute_capability = {told!r} must be empty for AMD's chips, which have a generation"
        return
    if told not in CAPABILITIES:
        yield f"compute_capability = {told!r} must be one of {', '.join(CAPABILITIES)}"
        return
    size = 8 if told[0] in "126" else 16
    if chip.instruction_cache.instruction_bytes != size:
        yield (
            f"instruction_bytes = {chip.instruction_cache.instruction_bytes} must be {size}, the size of an instruction of "
            f"compute_capability = {told!r}"
        )
    clusters = bool(chip.sm.cluster_sm_counts)
    if clusters != (told == "9.0") or clusters != bool(chip.cluster.max_cluster_blocks_per_sm):
        yield (
            f"cluster_sm_counts and max_cluster_blocks_per_sm must {'not ' * (told != '9.0')}be given: chips of "
            f"compute_capability = {told!r} have {'' if told == '9.0' else 'no '}thread block clusters"
        )


def _latencies(chip: Chip) -> Iterator[str]:
    """A whole latency is at least that of its part, which the model takes away from it."""
    dram = chip.dram.dram_refresh_ns, chip.dram.dram_refresh_interval_ns
    bank = chip.dram.dram_bank_refresh_ns, chip.dram.dram_bank_refresh_interval_ns
    if dram[0] >= dram[1]:
        yield f"dram_refresh_ns = {dram[0]:g} must be below dram_refresh_interval_ns = {dram[1]:g}"
    if bank[0] >= bank[1]:
        yield f"dram_bank_refresh_ns = {bank[0]:g} must be below dram_bank_refresh_interval_ns = {bank[1]:g}"
    beyond_queue = (
        *("shared_load_latency_cycles", "shared_store_latency_cycles", "shared_atomic_latency_cycles"),
        *("shared_cas_latency_cycles", "shared_cast_latency_cycles", "shared_cast_wide_latency_cycles"),
        *("l1_hit_latency_cycles", "ldc_latency_cycles", "match_latency_cycles", "shuffle_latency_cycles"),
        *("redux_latency_cycles", "special_register_latency_cycles", "special_uniform_latency_cycles"),
    )
    pairs = (
        *((name, "mio_latency_cycles", 1) for name in beyond_queue),
        ("l2_hit_latency_cycles", "mio_latency_cycles", 8),
        ("dram_latency_cycles", "l2_hit_latency_cycles", 0),
        ("l15_constant_latency_cycles", "ldc_latency_cycles", 0),
        ("l2_constant_latency_cycles", "l15_constant_latency_cycles", 0),
    )
    for whole, part, more in pairs:
        if chip.get(whole) < chip.get(part) + more:
            yield f"{whole} = {chip.get(whole)} must be at least {chip.get(part) + more}: {part} is {chip.get(part)}"


def _texture(chip: Chip) -> Iterator[str]:
    """Texture units are given whole or not at all: sets of lines that a line of memory holds."""
    unit = chip.texture
    if not unit.texture_unit_l1_kib:
        return
    line = unit.texture_unit_line_bytes
    if line < 16 or line & (line - 1) or line > chip.l1.l1_line_bytes or chip.l1.l1_line_bytes // line > 4:
        yield (
            f"texture_unit_line_bytes = {line} must be a power of two, at most l1_line_bytes = {chip.l1.l1_line_bytes} and at least a "
            "quarter of it"
        )
        return
    slices = chip.l2.l2_slice_count
    for kib, ways, parts in (
        ("texture_unit_l1_kib", "texture_unit_l1_ways", 1),
        ("texture_unit_l2_kib", "texture_unit_l2_ways", slices),
    ):
        if not chip.get(ways) or chip.get(kib) * 1024 // line < chip.get(ways) * parts:
            yield f"{kib} = {chip.get(kib)} must hold a set of {ways} = {chip.get(ways)} lines in each of its {parts} parts"
    if unit.texture_unit_l2_latency_cycles < unit.texture_unit_hit_latency_cycles:
        yield (
            f"texture_unit_l2_latency_cycles = {unit.texture_unit_l2_latency_cycles} must be at least "
            f"texture_unit_hit_latency_cycles = {unit.texture_unit_hit_latency_cycles}"
        )


def _graphics(chip: Chip) -> Iterator[str]:
    """Stages of the graphics pipeline are given whole or not at all."""
    stages = chip.graphics
    if not stages.core_clock_mhz:
        return
    for name in type(stages).model_fields:
        if not chip.get(name):
            yield f"{name} = {chip.get(name)} must be above 0 where core_clock_mhz is given"
            return
    tile, part = stages.raster_tile_pixels_count, stages.rop_tile_pixels_count
    if tile & (tile - 1) or part & (part - 1) or not 4 <= part <= tile:
        yield (
            f"raster_tile_pixels_count = {tile} and rop_tile_pixels_count = {part} must be powers of two, the second at least 4 and at "
            "most the first"
        )


def _shared(chip: Chip) -> Iterator[str]:
    steps, l1_kib = chip.shared.shared_carveout_kib, chip.shared.l1_kib
    if not steps or steps[0] < 0 or steps != sorted(set(steps)) or steps[-1] > l1_kib:
        yield f"shared_carveout_kib must rise and stay within l1_kib = {l1_kib}, not {steps}"
        return
    most, reserved = chip.shared.shared_max_per_block_kib, chip.shared.shared_reserved_bytes_per_block
    if most * 1024 + reserved > steps[-1] * 1024:
        yield (
            f"shared_max_per_block_kib = {most} with shared_reserved_bytes_per_block = {reserved:,} must fit the largest of "
            f"shared_carveout_kib, {steps[-1]}"
        )


def _caches(chip: Chip) -> Iterator[str]:
    code, constants = chip.instruction_cache, chip.constant_cache
    lines = code.l0_icache_kib * 1024 // code.icache_line_bytes
    if code.icache_chunk_lines > lines:
        yield f"icache_chunk_lines = {code.icache_chunk_lines} must be at most {lines}, the lines of l0_icache_kib"
    lines = code.l1_icache_kib * 1024 // code.icache_line_bytes
    if code.l1_icache_ways > lines:
        yield f"l1_icache_ways = {code.l1_icache_ways} must be at most {lines}, the lines of l1_icache_kib"
    if constants.constant_block_bytes % constants.constant_line_bytes:
        yield (
            f"constant_block_bytes = {constants.constant_block_bytes} must be a multiple of constant_line_bytes = "
            f"{constants.constant_line_bytes}"
        )
    yield from _lines(chip)
    if chip.l1.l1_reserved_kib >= chip.shared.l1_kib:
        yield f"l1_reserved_kib = {chip.l1.l1_reserved_kib} must be below l1_kib = {chip.shared.l1_kib}"
    for name in ("tensor_read_cycles", "tensor_again_cycles"):
        cycles = chip.get(name)
        if cycles != sorted(set(cycles)) or any(not 0 <= cycle <= MOST_BIT for cycle in cycles):
            yield f"{name} = {cycles} must rise from 0 or more to at most {MOST_BIT}"


def _lines(chip: Chip) -> Iterator[str]:
    line, sector = chip.l1.l1_line_bytes, chip.l1.sector_bytes
    if sector > line:
        yield f"sector_bytes = {sector} must be at most l1_line_bytes = {line}"
    if chip.l1.coalescing.startswith("half_warp") and (line, sector) != (128, 32):
        yield (
            f"l1_line_bytes = {line} and sector_bytes = {sector} must be 128 and 32 for coalescing = {chip.l1.coalescing!r}, "
            "which moves segments of 32, 64 and 128 bytes"
        )
    asynchronous = chip.identity.compute_capability[:1] in ("8", "9")
    if asynchronous and sector != 32:
        yield f"sector_bytes = {sector} must be 32 on chips with asynchronous copies, which move halves of sectors"
    if chip.l1.l1_data_bytes_per_clk < sector:
        yield f"l1_data_bytes_per_clk = {chip.l1.l1_data_bytes_per_clk} must be at least sector_bytes = {sector}"
    hashed = chip.l1.l1_tag_bank_hash_bits
    if len(hashed) > MOST_TAG_BANK_BITS or any(not 0 < bits < 1 << MOST_HASH_BITS for bits in hashed):
        yield (
            f"l1_tag_bank_hash_bits = {hashed} must be at most {MOST_TAG_BANK_BITS} numbers, one for each bit of a bank's number, "
            f"each with 1 to {MOST_HASH_BITS} bits of a line's number"
        )
    for name in ("l1_fill_bytes_per_clk", "gpc_read_bytes_per_clk", "store_port_bytes_per_clk"):
        if chip.get(name) * 8 < sector:
            yield f"{name} = {chip.get(name)} must be at least {sector // 8}, an eighth of sector_bytes = {sector}"


def _l2(chip: Chip) -> Iterator[str]:
    l2 = chip.l2
    if l2.l2_slice_count % l2.l2_partition_count:
        yield (
            f"l2_slice_count = {l2.l2_slice_count} must be a multiple of l2_partition_count = {l2.l2_partition_count}"
        )
    lines = l2.l2_kib * 1024 / chip.l1.l1_line_bytes
    sets, set_lines = int(lines / l2.l2_slice_count / l2.l2_ways), l2.l2_slice_count * l2.l2_ways
    even = lines % l2.l2_slice_count == 0
    if not sets or (lines % set_lines if even else lines - sets * set_lines > MOST_LOSS * lines):
        yield (
            f"l2_kib = {l2.l2_kib:,} must be whole sets: l2_slice_count = {l2.l2_slice_count} slices with sets of l2_ways = "
            f"{l2.l2_ways} lines of {chip.l1.l1_line_bytes} bytes, which are {set_lines * chip.l1.l1_line_bytes / 1024:g} KiB or a multiple of it"
        )
    if lines > MOST_L2_LINES:
        yield f"l2_kib = {l2.l2_kib:,} must be at most {MOST_L2_LINES:,} lines of l1_line_bytes = {chip.l1.l1_line_bytes}"
    pages, ways = chip.crossbar.gpc_tlb_page_count, chip.crossbar.gpc_tlb_ways
    if pages % ways:
        yield f"gpc_tlb_page_count = {pages:,} must be a multiple of gpc_tlb_ways = {ways}"
    if l2.l2_partial_ways > l2.l2_ways:
        yield f"l2_partial_ways = {l2.l2_partial_ways} must be at most l2_ways = {l2.l2_ways}"
    half = l2.l2_slice_count // l2.l2_partition_count
    if l2.l2_far_bytes_per_clk << 5 < half:
        yield (
            f"l2_far_bytes_per_clk = {l2.l2_far_bytes_per_clk} must be at least {-(-half // 32)}: each of {half} slices has a "
            "part of it"
        )


def _dram(chip: Chip) -> Iterator[str]:
    banks = max(chip.dram.dram_channel_count // chip.l2.l2_slice_count, 1) * chip.l2.l2_slice_count
    if banks * chip.dram.dram_bank_count > 1 << 17:
        yield (
            f"dram_channel_count = {chip.dram.dram_channel_count} and dram_bank_count = {chip.dram.dram_bank_count} are "
            f"{banks * chip.dram.dram_bank_count:,} banks: the model has at most {1 << 17:,}"
        )


def _powers(chip: Chip) -> Iterator[str]:
    names = (
        *("register_bank_count", "instruction_bytes", "icache_line_bytes", "constant_line_bytes", "page_kib"),
        *("gpc_coalescer_lines", "l2_fetch_bytes", "l2_write_history_count", "l2_queued_history_count"),
        "l2_policy_hash_block_bytes",
    )
    for name in names:
        value = chip.get(name)
        if value & (value - 1):
            near = 1 << (value.bit_length() - 1)
            zero = " or 0" * (name == "gpc_coalescer_lines")
            yield f"{name} = {value:,} must be a power of two{zero}: {near:,} or {2 * near:,}"


def _engines(chip: Chip) -> Iterator[str]:
    """An engine's rates are given where it has units; smaller chroma takes no more time."""
    engines = chip.engines
    rates = (engines.nvjpg_420_pixels_per_clk, engines.nvjpg_444_pixels_per_clk)
    if engines.nvjpg_core_count and not rates[0] >= rates[1] > 0:
        yield (
            f"nvjpg_420_pixels_per_clk = {rates[0]} must be at least nvjpg_444_pixels_per_clk = {rates[1]}, and both above 0, "
            f"where nvjpg_core_count = {engines.nvjpg_core_count}"
        )
    # A pixel of 4:2:0 has half a sample of chroma, one of 4:4:4 two: what a pixel without chroma takes follows from both.
    elif engines.nvjpg_core_count and 4 * rates[1] <= rates[0]:
        yield (
            f"nvjpg_420_pixels_per_clk = {rates[0]} must be less than four times nvjpg_444_pixels_per_clk = {rates[1]}: "
            "otherwise luma alone would take no time"
        )
    for name in ("nvdec_h264_pixels_per_clk", "nvdec_hevc_pixels_per_clk", "nvdec_vp9_pixels_per_clk"):
        if engines.nvdec_count and not getattr(engines, name) > 0:
            yield f"{name} = {getattr(engines, name)} must be above 0 where nvdec_count = {engines.nvdec_count}"
    flow = (engines.ofa_fast_pixels_per_clk, engines.ofa_medium_pixels_per_clk, engines.ofa_slow_pixels_per_clk)
    if engines.ofa_count and not flow[0] >= flow[1] >= flow[2] > 0:
        yield f"ofa_fast, ofa_medium and ofa_slow_pixels_per_clk = {flow} must be above 0 and not increase where ofa_count = {engines.ofa_count}"
