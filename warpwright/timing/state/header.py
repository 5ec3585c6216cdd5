"""Chip-wide state: the chip's numbers, offsets of areas, the launch, and what all units share.

Each number of a chip names the field of the chip file that it is copied from; a field in nanoseconds becomes cycles, and one in
cycles becomes the unit that its declaration names.  ``reset.py`` computes the size of each area.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpwright.chips.chip import Chip
from warpwright.chips.sections import COALESCING
from warpwright.native.units import Field, Unit, word, words
from warpwright.timing.dram_rules import BY_NAME
from warpwright.timing.state.common import (
    CALENDAR_SHIFT,
    DRAM_SHIFT,
    MAX_PATTERN,
    MAX_SUB_CORES,
    MAX_WARPS,
    PART_WORD_BITS,
    PASS_WORD_BITS,
    READ_PIECE_SHIFT,
    STEP_ENDS,
)

BLOCK_BYTES = 128
"""Units that the address hash never splits (``address_hash.py``)."""
UNITS_OF_CYCLES = {"cycle": 1, "1/64 cycle": 64, "1/256 cycle": 256}


class Derived(Field):
    """A word whose initial value in every launch comes from the chip, the program or the areas."""

    def __init__(self, unit: str, text: str, value: Callable[[Any], int]) -> None:
        super().__init__(unit, text)
        self.value = value


class OfChip(Derived):
    """A word that follows from the chip file alone, the same in every launch on a chip."""

    def __init__(self, unit: str, text: str, of_chip: Callable[[Chip], int]) -> None:
        super().__init__(unit, text, lambda z: of_chip(z.chip))
        self.of_chip = of_chip


def copied(chip: Chip, path: str, unit: str) -> int:
    """A field of a chip's record in the model's unit: ``path`` is ``section.field``, and ``unit`` the unit of the word."""
    section, name = path.split(".")
    value = getattr(getattr(chip, section), name)
    scale: float = UNITS_OF_CYCLES.get(unit, 1)
    if unit == "slice bytes":
        return round(value * chip.l2.l2_slice_bytes_per_clk)
    if name.endswith("_ns"):
        return round(scale * value * (chip.clocks.sm_clock_mhz / 1000.0))
    return int(value) if scale == 1 else round(scale * value)


def from_chip(path: str, unit: str, text: str) -> OfChip:
    """A word that holds a field of the chip file."""
    return OfChip(unit, text, lambda chip: copied(chip, path, unit))


def derived(value: Callable[[Any], int], unit: str, text: str) -> Derived:
    """A word that follows from the sizes of the chip and the program (``reset.py``)."""
    return Derived(unit, text, value)


def rule(name: str) -> OfChip:
    """A word that holds a row of DRAM's timing rules; of a rule over several commands, one command's share."""
    row = BY_NAME[name]
    scale = UNITS_OF_CYCLES[row.unit]

    def value(chip: Chip) -> int:
        latency_ns = chip.get(row.field) / row.commands
        return round(scale * latency_ns * (chip.clocks.sm_clock_mhz / 1000.0))

    return OfChip(row.unit, str(row), value)


def _tag_bank_bits(z: Any, bit: int) -> int:
    """The bits of a line's number that decide a bit of its tag bank's number; none if the chip has fewer banks."""
    hashed = z.chip.l1.l1_tag_bank_hash_bits
    return int(hashed[bit]) if bit < len(hashed) else 0


def area(name: str, text: str, skip: Callable[[Any], int] | None = None) -> Derived:
    """The first word of an area."""
    return Derived("index", text, lambda z: z.areas[name] + (skip(z) if skip else 0))


def offset(name: str, text: str) -> Derived:
    """Offset, in an SM's region, of a part whose place depends on the chip or the program."""
    return Derived("words", text, lambda z: z.offsets[name])


def scheduler_groups(chip: Chip) -> int:
    """Groups of ``MAX_WARPS`` slots that the warps of one scheduler need."""
    return -(-chip.sm.max_warps_per_sm // (chip.sm.sub_core_count * MAX_WARPS))


class Header(Unit):
    """The first words of the state: the chip's numbers, where areas begin, the launch."""

    sms = from_chip("sm.sm_count", "SMs", "of the chip")
    sub_cores = derived(
        lambda z: z.chip.sm.sub_core_count * scheduler_groups(z.chip),
        "groups of slots",
        "of an SM: its sub-cores, or parts of them",
    )
    scheduler_groups = derived(lambda z: scheduler_groups(z.chip), "groups of slots", "that have one scheduler")
    shared_schedulers = derived(
        lambda z: z.chip.sm.sub_core_count if scheduler_groups(z.chip) > 1 else 0,
        "schedulers",
        "of which the n-th has the groups n, n + count, n + 2 count and so on; 0: each group has its own",
    )
    scheduler_mask = derived(
        lambda z: z.chip.sm.sub_core_count - 1 if scheduler_groups(z.chip) > 1 else MAX_SUB_CORES - 1,
        "bits",
        "of a group's number that are its scheduler's",
    )
    greedy = from_chip(
        "issue.scheduler_is_greedy",
        "",
        "a scheduler with several groups goes on with its last warp while that can issue",
    )
    sm_first = area("sms", "the first SM's region")
    sm_slots = derived(lambda z: z.sm_slots, "words", "size of an SM's region")
    window = derived(
        lambda z: z.there - 2, "cycle", "length of a window: below the shortest way from an SM to L2 and back"
    )
    now = word("cycle", "start of the window")
    error = word("", "an SM or the serial phase met something that Python must handle")
    clock_khz = derived(lambda z: z.chip.clocks.sm_clock_mhz * 1000, "kHz", "the SMs' clock")
    clock_ahead = word(
        "cycles",
        "by which the clocks that kernels read are ahead of this machine's, which stands still while graphs run that a kernel waits for",
    )
    # launches
    kernels = area("kernels", "the launches that it runs (Kernel)")
    kernel_count = derived(lambda z: z.kernels, "kernels", "that it runs")
    arrivals = word("kernels", "that have come to the dispatcher")
    on_chip = word("blocks", "of several kernels that are on the chip, or whose end has not come to the dispatcher")
    next_arrival = word("cycle", "when the next one comes; INF: none, or it is not known when")
    dependents = word("kernels", "whose launch is under way since kernels before them let them begin")
    pauses = word("", "the main loop returns where a launch has ended, and at a time")
    pause_at = word("cycle", "that time")
    ended_kernels = word("kernels", "of several that have ended")
    known_ended = word("kernels", "of those that Python knows of")
    blocks = word("blocks", "of all grids")
    lanes = word("lanes", "of a wave, the same of all launches: one chip has one instruction set")
    full_wave = word("bits", "mask of a wave that has all its lanes")
    head_words = word(
        "words", "of a trace record before what it is about: with more than 32 lanes these have one of their own"
    )
    done_blocks = word("blocks", "that have ended")
    local_base = word("host address", "local memory of the first warp slot")
    scoreboards = word("host address", "entries of the warps' scoreboards")
    scoreboard_entries = word("entries", "of a warp's scoreboard; 0: code whose control bits say what it waits for")
    local_stride = word("bytes", "from one warp's local memory to the next")
    trace_base = word("host address", "records of the first warp slot")
    trace_stride = word("bytes", "from one warp's records to the next")
    trace_limit = word("words", "of records that a warp has room for")
    cluster_blocks = word("blocks", "of the largest cluster")
    sm_order = area("sm_order", "the SMs in the order in which an idle chip is filled")
    max_blocks = from_chip("sm.max_blocks_per_sm", "blocks", "that an SM holds, whatever they need")
    max_warps = from_chip("sm.max_warps_per_sm", "warps", "that an SM holds")
    registers = from_chip("sm.registers_per_sm", "registers", "of an SM")
    named_barriers = from_chip("sm.named_barriers_per_sm_count", "barriers", "of an SM")
    age = word("", "turn of the next block")
    dispatch_free = word(
        "1/256 cycle", "when the dispatcher has sent the first blocks so far, or taken note of those that ended"
    )
    first_interval = from_chip(
        "launch.block_first_interval_cycles", "1/256 cycle", "between the first blocks that the dispatcher sends"
    )
    cluster_interval = from_chip("launch.cluster_first_interval_cycles", "1/256 cycle", "between the first clusters")
    dispatch_interval = from_chip(
        "launch.block_dispatch_interval_cycles", "1/256 cycle", "between two blocks that end and are replaced"
    )
    block_sm_interval = from_chip("launch.block_sm_interval_cycles", "cycle", "between two blocks that start on an SM")
    block_warp_interval = from_chip(
        "launch.block_warp_interval_cycles", "cycle", "between the starts of a block's warps"
    )
    block_latency = from_chip(
        "launch.block_launch_latency_cycles", "cycle", "from a block's end to the next one's start"
    )
    block_start = from_chip(
        "launch.block_start_latency_cycles", "cycle", "from a first block's start to its first instruction"
    )
    overhead = from_chip(
        "launch.launch_overhead_cycles", "cycle", "of a launch, before its first block and after its last"
    )
    dependent_start = from_chip(
        "launch.dependent_start_cycles", "cycle", "from a launch that lets its dependents begin to the start of theirs"
    )
    dependent_release = from_chip(
        "launch.dependent_release_cycles", "cycle", "from a launch's end to that of its dependents' wait"
    )
    # sub-core
    banks = from_chip("shared.shared_bank_count", "banks", "of shared memory, and lanes that it serves at once")
    issue_interval = from_chip("issue.issue_interval_cycles", "cycle", "between two instructions of a scheduler")
    lite_in_xu = from_chip("pipes.fma_lite_in_xu", "", "the lite FMA lanes are the special-function units' multipliers")
    shared_in_cores = from_chip(
        "shared.shared_conflicts_in_cores", "", "shared accesses hold the heavy FMA pipe while their banks conflict"
    )
    window_operands = from_chip("issue.operand_window_cycles", "cycle", "in which an instruction reads its registers")
    operand_release = from_chip(
        "issue.operand_release_cycles", "cycle", "from issue until a fixed-latency instruction's operands are free"
    )
    half_with_fp64 = derived(
        lambda z: int(z.chip.pipes.fp64_port_pipes_count > 1),
        "",
        "HFMA2.MMA and FP64 are dispatched one after the other",
    )
    branch_latency = from_chip("issue.branch_latency_cycles", "cycle", "from a taken branch to the next instruction")
    yield_latency = from_chip(
        "issue.yield_latency_cycles",
        "cycle",
        "from a YIELD after which no other lanes of the warp can go on to the next instruction",
    )
    group_switch = from_chip(
        "issue.group_switch_cycles", "cycle", "more for a BSYNC after which another group of lanes goes on"
    )
    mio_entries = from_chip("mio.mio_queue_entries", "instructions", "capacity of a sub-core's MIO queue")
    mio_interval = from_chip(
        "mio.mio_sub_core_interval_cycles", "cycle", "between two instructions that leave the queue"
    )
    mio_latency = from_chip("mio.mio_latency_cycles", "cycle", "from issue to the unit that the queue leads to")
    mio_register = from_chip("mio.mio_register_cycles", "cycle", "for a register that a memory instruction hands over")
    shared_release = from_chip(
        "mio.shared_release_cycles", "cycle", "from the unit's start to free operands: shared, local"
    )
    load_release = from_chip("mio.load_release_cycles", "cycle", "the same for global loads and atomics")
    store_release = from_chip("mio.store_release_cycles", "cycle", "the same for global stores")
    store_register_release = from_chip("mio.store_register_release_cycles", "cycle", "more for each register of data")
    copy_release = from_chip("mio.async_copy_release_cycles", "cycle", "the same for asynchronous copies")
    async_commit = from_chip("mio.async_commit_cycles", "cycle", "from an LDGDEPBAR to its count's fall, at least")
    replay = from_chip("mio.lsu_replay_cycles", "cycle", "between two passes of one instruction")
    wide_load = from_chip(
        "mio.lsu_wide_load_cycles", "cycle", "more for a shared load of 16 bytes a lane in several passes"
    )
    wide_pass = from_chip("mio.lsu_wide_pass_cycles", "cycle", "between passes for a shared load's width")
    store_cycles = from_chip("mio.lsu_store_cycles", "cycle", "of the load/store unit for a store")
    atomic_lane = from_chip(
        "mio.lsu_atomic_lane_cycles", "1/256 cycle", "for a lane of an atomic on one sector of a line"
    )
    atomic_lane_sectors = from_chip(
        "mio.lsu_atomic_sectors_lane_cycles", "1/256 cycle", "for a lane of one on several sectors"
    )
    atomic_answer_free = from_chip(
        "mio.lsu_atomic_answer_free_count", "lanes or lines", "up to which an answer takes nothing"
    )
    atomic_answer = from_chip("mio.lsu_atomic_answer_cycles", "cycle", "for a lane or line of an atomic with an answer")
    inactive_access = from_chip("mio.inactive_access_cycles", "cycle", "of a memory instruction without active lanes")
    l0_lines = derived(lambda z: z.l0_lines, "lines", "capacity of the L0 instruction cache")
    l0_stride = derived(
        lambda z: z.l0_size if z.l0_count > 1 else 0,
        "words",
        "between sub-cores' L0 instruction caches, 0: they share one",
    )
    l1i_lines = derived(lambda z: z.l1i_lines, "lines", "capacity of the L1 instruction cache")
    l1i_ways = from_chip("instruction_cache.l1_icache_ways", "ways", "of each set of the L1 instruction cache")
    l1i_latency = from_chip("instruction_cache.l1_icache_latency_cycles", "cycle", "from an L0 miss to a line of L1")
    l2i_latency = from_chip("l2.l2_hit_latency_cycles", "cycle", "from a miss of the first levels to a line of L2")
    l2i_interval = from_chip(
        "instruction_cache.l2_icache_line_interval_cycles", "cycle", "between two lines that L2 gives to an SM"
    )
    prefetch = from_chip("instruction_cache.icache_prefetch_lines", "lines", "that L1.5 asks L2 for ahead")
    chunk_lines = from_chip("instruction_cache.icache_chunk_lines", "lines", "that the first level asks for at once")
    chunk_interval = derived(
        lambda z: round(
            z.chip.instruction_cache.icache_chunk_lines * z.chip.instruction_cache.l1_icache_line_interval_cycles
        ),
        "cycle",
        "between two such requests of an SM",
    )
    code_lines = derived(lambda z: z.code_lines, "lines", "of the program's code")
    const_lines = derived(lambda z: z.l1_constants, "lines", "capacity of a first level of constants")
    const_line_bytes = from_chip("constant_cache.constant_line_bytes", "bytes", "of a line of constants")
    const_block_lines = derived(lambda z: z.block_lines, "lines", "that L1.5 asks for at once")
    const_miss = derived(
        lambda z: z.constants.l15_constant_latency_cycles - z.constants.ldc_latency_cycles,
        "cycle",
        "that an LDC from L1.5 takes beyond a hit",
    )
    immediate_miss = from_chip("constant_cache.immediate_miss_cycles", "cycle", "for an operand from L1.5")
    wait_limit = from_chip("cluster.mbarrier_wait_limit_cycles", "cycle", "the longest that a try_wait is held back")
    arrive_interval = from_chip("cluster.mbarrier_arrive_interval_cycles", "cycle", "between two arrivals at mbarriers")
    look_interval = from_chip("cluster.mbarrier_look_interval_cycles", "cycle", "between two looks at their phases")
    remote_send = from_chip(
        "cluster.distributed_shared_packet_send_cycles", "1/256 cycle", "to send a packet of a cluster's atomics"
    )
    remote_take = from_chip("cluster.distributed_shared_packet_take_cycles", "1/256 cycle", "to take one")
    remote_way = from_chip(
        "cluster.distributed_shared_way_packet_cycles", "1/256 cycle", "of one of a GPC's ways for a packet of atomics"
    )
    remote_way_lines = derived(
        lambda z: z.chip.cluster.distributed_shared_way_selector_bits // z.chip.l1.l1_line_bytes,
        "mask",
        "of a line's number in shared memory whose parity chooses the way",
    )
    remote_ask = from_chip(
        "cluster.distributed_shared_line_request_cycles", "1/256 cycle", "of a load's request for a line"
    )
    indexed_lines = derived(
        lambda z: z.indexed_constants, "lines", "of a sub-core that ULDCs with an index find without a miss"
    )
    indexed_size = derived(lambda z: z.indexed_size, "words", "of a cache for ULDCs with an index")
    immediate_size = derived(lambda z: z.immediate_size, "words", "of a cache for operands")
    indexed_miss = from_chip("constant_cache.indexed_miss_cycles", "cycle", "for a ULDC with an index from L1.5")
    const_l2 = derived(
        lambda z: z.constants.l2_constant_latency_cycles - z.constants.l15_constant_latency_cycles,
        "cycle",
        "that a constant from L2 takes beyond one of L1.5",
    )
    const_interval = from_chip("constant_cache.l15_constant_interval_cycles", "cycle", "between two lines of L1.5")
    const_busy = from_chip(
        "constant_cache.gpc_constant_busy_percent", "percent", "of a window in which a GPC's port was busy"
    )
    const_gpc_interval = from_chip(
        "constant_cache.gpc_constant_interval_cycles", "1/256 cycle", "between two lines for a GPC's SMs"
    )
    const_first_gpc_interval = from_chip(
        "constant_cache.gpc_first_constant_interval_cycles", "1/256 cycle", "the same when a launch begins"
    )
    const_flights = from_chip(
        "constant_cache.ldc_in_flight_count", "instructions", "LDCs of a sub-core that wait for words"
    )
    const_asked = word("", "some SM has asked L1.5 in this window")
    const_word = from_chip("constant_cache.ldc_word_cycles", "cycle", "of the SM for a different word")
    const_replay = from_chip("constant_cache.ldc_replay_cycles", "cycle", "more for an LDC with several words")
    const_arrived = area("const_arrived", "when the first SM got each block of constants")
    barrier_latency = from_chip(
        "shared.block_barrier_latency_cycles",
        "cycle",
        "from the last arrival at a block barrier to the next instruction",
    )
    barrier_interval = from_chip("shared.block_barrier_warp_interval_cycles", "cycle", "of the barrier unit for a warp")
    barrier_least = from_chip(
        "shared.block_barrier_least_cycles", "cycle", "of the unit, for a barrier however few its warps"
    )
    barrier_last = from_chip("shared.block_barrier_last_cycles", "cycle", "of the unit after the last arrival")
    barrier_port = from_chip(
        "shared.block_barrier_port_cycles", "cycle", "of the load/store unit for the release of a barrier"
    )
    fence_places = from_chip("pipes.membar_places_count", "fences", "of an SM's round at once; 0: any number")
    fence_place_time = from_chip("pipes.membar_place_cycles", "cycle", "before the place of one fence is another's")
    fence_turn = from_chip(
        "pipes.membar_group_interval_cycles", "cycle", "between two groups of an SM's fences that leave for L2"
    )
    # L1 and shared memory
    lsu_capacity = derived(
        lambda z: int(z.chip.mio.lsu_wavefronts_per_clk * (1 << CALENDAR_SHIFT)), "wavefronts", "of a calendar bucket"
    )
    shared_latency = derived(
        lambda z: z.chip.shared.shared_load_latency_cycles - z.chip.mio.mio_latency_cycles,
        "cycle",
        "of a shared load after the queue",
    )
    shared_store_latency = derived(
        lambda z: z.chip.shared.shared_store_latency_cycles - z.chip.mio.mio_latency_cycles,
        "cycle",
        "of a shared store after the queue",
    )
    shared_atomic = derived(
        lambda z: z.chip.shared.shared_atomic_latency_cycles - z.chip.mio.mio_latency_cycles,
        "cycle",
        "of a shared atomic after the queue",
    )
    tag_bank_bit0 = derived(
        lambda z: _tag_bank_bits(z, 0), "bits", "of a line's number whose parity is bit 0 of its tag bank"
    )
    tag_bank_bit1 = derived(
        lambda z: _tag_bank_bits(z, 1), "bits", "of a line's number whose parity is bit 1 of its tag bank"
    )
    line_shift = derived(lambda z: z.chip.l1.l1_line_bytes.bit_length() - 1, "bits", "of an address within its line")
    line_bytes = from_chip("l1.l1_line_bytes", "bytes", "of a line of L1 and of L2")
    sector_shift = derived(lambda z: z.chip.l1.sector_bytes.bit_length() - 1, "bits", "of an address within its sector")
    sector_bytes = from_chip("l1.sector_bytes", "bytes", "of a sector")
    unit_line_shift = derived(
        lambda z: (BLOCK_BYTES // z.chip.l1.l1_line_bytes).bit_length() - 1,
        "bits",
        "of a line's number within a block of the address hash",
    )
    line_sectors = derived(lambda z: z.line_sectors, "sectors", "of a line")
    whole_line = derived(lambda z: (1 << z.line_sectors) - 1, "bits", "mask of all sectors of a line")
    pass_bits = derived(
        lambda z: PASS_WORD_BITS // z.line_sectors, "bits", "of each sector in what ``coalescer.count_passes`` gives"
    )
    part_bits = derived(
        lambda z: PART_WORD_BITS // z.line_sectors, "bits", "of each sector in what L2 knows of lines written in part"
    )
    l1_sets = derived(lambda z: z.sets, "sets", "of L1")
    l1_ways = derived(lambda z: z.ways, "ways", "of a set of L1")
    l1_latency = derived(
        lambda z: z.chip.l1.l1_hit_latency_cycles - z.chip.mio.mio_latency_cycles,
        "cycle",
        "of an L1 hit after the queue",
    )
    l1_data_sectors = derived(
        lambda z: max(
            int(z.chip.l1.l1_data_bytes_per_clk / min(z.chip.mio.lsu_wavefronts_per_clk, 1)) // z.chip.l1.sector_bytes,
            1,
        ),
        "sectors",
        "that L1 hands over in a pass, of which there may be less than one per cycle",
    )
    coalescing_rule = derived(
        lambda z: COALESCING.index(z.chip.l1.coalescing), "", "rule by which lanes' accesses are joined (coalescing.py)"
    )
    keeps_runs = derived(
        lambda z: int(z.chip.l1.coalescing == "half_warp_in_order" and z.chip.crossbar.gpc_tlb_page_count == 0),
        "",
        "loads make runs of equal requests (runs.py)",
    )
    texture_addresses = from_chip("l1.texture_addresses_per_clk", "addresses", "that texture units look up in a cycle")
    l1_tag_banks = from_chip(
        "l1.l1_tag_lines_per_clk", "lines", "of different banks that the tag stage takes per cycle"
    )
    l1_drawn_ways = from_chip("l1.l1_drawn_ways", "ways", "of which the least recently used is replaced; 0: of all")
    store_lines = from_chip("l1.store_buffer_lines_per_clk", "lines", "of a store that come into the store buffer")
    store_queue = from_chip("l1.store_queue_entries", "accesses", "that wait for the store buffer")
    buffer_lines = from_chip("l1.store_buffer_lines", "lines", "that the store buffer holds")
    output_lines = from_chip("l1.store_output_lines", "lines", "that wait for the store buffer's output")
    store_join = from_chip("l1.store_join_cycles", "cycle", "for which a line of the store buffer can be joined")
    store_join_alone = from_chip("l1.store_join_alone_cycles", "cycle", "the same while no other store has come")
    store_join_line = from_chip("l1.store_join_line_cycles", "cycle", "longer for each line beyond the free ones")
    store_join_free = from_chip("l1.store_join_free_lines", "lines", "of a store that stay no longer than one")
    store_share = derived(
        lambda z: round(64 * z.chip.l1.l1_store_array_cycles),
        "1/64 cycle",
        "of L1's array for each cycle of a store's output, where its lines fill the tag banks evenly",
    )
    narrow_pass = from_chip(
        "l1.l1_narrow_store_pass_cycles",
        "1/64 cycle",
        "of L1's array for a pass over tags of a store of parts of words to one bank",
    )
    store_sent = from_chip("l1.store_sent_cycles", "cycle", "after a line's output until it is found sent")
    store_lag = from_chip("l1.store_lag_cycles", "cycle", "that acknowledgements may be late")
    atomics_in_flight = from_chip("l1.atomics_in_flight_count", "atomics", "of an SM that L2 has not accepted")
    l1_sees_writes = from_chip("l1.l1_sees_writes", "", "stores change what L1 holds")
    l1_keeps_writes = from_chip("l1.l1_keeps_writes", "", "stores leave their words in L1")
    l1_write_bytes = from_chip("l1.l1_write_bytes_per_clk", "bytes", "that the store buffer's output sends per cycle")
    l1_join = from_chip("l1.l1_join_cycles", "cycle", "within which misses of a line leave as one request")
    fill_capacity = derived(
        lambda z: (z.chip.l1.l1_fill_bytes_per_clk << CALENDAR_SHIFT) // z.chip.l1.sector_bytes,
        "sectors",
        "of a calendar bucket",
    )
    local_physical = derived(lambda z: 1 << 50, "address", "where local memory lies for caches")
    # crossbar, L2, DRAM
    gpc_of_sm = area("gpc_of_sm", "the GPC of each SM")
    partition_of_sm = area("partition_of_sm", "the L2 partition of each SM")
    gpcs = derived(lambda z: z.gpcs, "GPCs", "of the chip")
    gpc_ports = area("gpc_ports", "calendars of the GPCs' ports from L2")
    gpc_capacity = derived(
        lambda z: (z.chip.crossbar.gpc_read_bytes_per_clk << CALENDAR_SHIFT) // z.chip.l1.sector_bytes,
        "sectors",
        "of a calendar bucket",
    )
    gpc_fetch_ports = area("gpc_fetch_ports", "calendars of the GPCs' instruction lines")
    gpc_fetch_interval = from_chip(
        "instruction_cache.gpc_icache_line_interval_cycles", "1/256 cycle", "between two instruction lines of a GPC"
    )
    gpc_write_ports = area("gpc_write_ports", "calendars of the GPCs' ports to L2")
    gpc_write_capacity = derived(
        lambda z: (z.chip.crossbar.gpc_write_bytes_per_clk << CALENDAR_SHIFT) // z.chip.l1.sector_bytes,
        "sectors",
        "of a calendar bucket",
    )
    # texture units of clusters (texture_unit.py)
    texture_units = area("texture_units", "the clusters' texture units (TextureUnit), each followed by its cache")
    texture_unit_words = derived(lambda z: z.texture_unit_words, "words", "of a unit with its cache")
    texture_ways = from_chip("texture.texture_unit_l1_ways", "lines", "of a set of the first cache")
    texture_sets = derived(lambda z: z.texture_sets, "sets", "of the first cache")
    texture_l2 = area("texture_l2", "the second cache's part of each slice")
    texture_l2_ways = from_chip("texture.texture_unit_l2_ways", "lines", "of a set of the second cache")
    texture_l2_sets = derived(lambda z: z.texture_l2_sets, "sets", "of a slice's part of it")
    texture_line_shift = derived(
        lambda z: z.texture_line_shift, "bits", "of a texture line's number within a line of memory"
    )
    texture_quad_interval = derived(lambda z: z.texture_quad_interval, "1/256 cycle", "of a cycle of the texture unit")
    texture_latency = derived(
        lambda z: max(z.chip.texture.texture_unit_hit_latency_cycles - z.chip.mio.mio_latency_cycles, 0),
        "cycle",
        "of the unit where the first cache has all, from the memory queue on",
    )
    texture_l2_latency = derived(
        lambda z: max(z.chip.texture.texture_unit_l2_latency_cycles - z.chip.mio.mio_latency_cycles, 0),
        "cycle",
        "the same where the second one has",
    )
    to_l2 = derived(lambda z: z.there // 2, "cycle", "from the load/store unit to a slice")
    from_l2 = derived(lambda z: z.there - z.there // 2, "cycle", "from a slice to the SM")
    slices = from_chip("l2.l2_slice_count", "slices", "of L2")
    partitions = from_chip("l2.l2_partition_count", "partitions", "of L2")
    policy_block_shift = derived(
        lambda z: max(z.chip.l2.l2_policy_hash_block_bytes // z.chip.l1.l1_line_bytes, 1).bit_length() - 1,
        "bits",
        "of a line's number within a block that gets one policy",
    )
    least_written = derived(
        lambda z: round(z.chip.l2.l2_written_least_percent / 100 * 65536),
        "1/65536",
        "share of writes among a line's accesses from which on it counts as written",
    )
    partition_bits = from_chip(
        "l2.l2_partition_hash_bits", "bits", "of the number of a 4 KiB block whose parity is its partition"
    )
    slice_ports = area("slice_ports", "calendars of the slices' reads")
    slice_write_ports = area("slice_write_ports", "calendars of the slices' fills, writes and atomics")
    slice_capacity = derived(
        lambda z: z.chip.l2.l2_slice_bytes_per_clk << CALENDAR_SHIFT, "bytes", "of a calendar bucket"
    )
    l2_keeps = from_chip("l2.l2_keeps_data", "", "loads find what earlier accesses brought")
    l2_sets = derived(lambda z: z.l2_sets, "sets", "of a slice")
    l2_ways = from_chip("l2.l2_ways", "ways", "of a set of L2")
    l2_tags = area("l2", "L2, set after set: the tags of its ways, their stamps, their fills")
    l2_stamps = area("l2", "the stamps of the first set", lambda z: z.chip.l2.l2_ways)
    l2_fills = area("l2", "the fills of the first set", lambda z: 2 * z.chip.l2.l2_ways)
    l2_slice_words = derived(lambda z: z.l2_sets * z.l2_set_words, "words", "of a slice's sets")
    l2_fetch = derived(lambda z: z.chip.l2.l2_fetch_bytes // z.chip.l1.sector_bytes, "sectors", "of a fetch from DRAM")
    l2_access = from_chip("l2.l2_slice_access_bytes", "bytes", "of the read port that an access takes at least")
    l2_fill = from_chip(
        "l2.l2_fill_sector_cycles",
        "slice bytes",
        "of the write port for a sector that comes from DRAM or the other partition",
    )
    l2_write_request = from_chip("l2.l2_write_request_cycles", "slice bytes", "of the write port for a write")
    l2_write_whole = from_chip("l2.l2_write_sector_cycles", "slice bytes", "for each of its whole sectors")
    l2_write_part = from_chip("l2.l2_write_partial_cycles", "slice bytes", "for each of its partial sectors")
    far_latency = from_chip("l2.l2_far_latency_cycles", "cycle", "more for a line of the other partition")
    far_ports = area("far_ports", "calendars of the link between the partitions, by slice and direction")
    far_capacity = derived(
        lambda z: (z.chip.l2.l2_far_bytes_per_clk << DRAM_SHIFT) // z.half, "bytes", "of a calendar bucket of the link"
    )
    far_masked = from_chip("l2.l2_far_masked_bytes", "bytes", "of the link for a masked write's mask")
    far_atomic = from_chip("l2.l2_far_atomic_bytes", "bytes", "of the link for an atomic")
    atomic_latency = from_chip("l2.l2_atomic_latency_cycles", "cycle", "of an atomic beyond a load")
    atomic_whole = from_chip("l2.l2_atomic_sector_cycles", "slice bytes", "of a pass over a whole sector")
    atomic_part = from_chip("l2.l2_atomic_word_cycles", "slice bytes", "of a pass over part of one")
    atomic_sum = from_chip("l2.l2_atomic_float_cycles", "slice bytes", "between floating-point sums on one word")
    atomic_fp32 = from_chip("l2.l2_atomic_fp32_sector_cycles", "slice bytes", "of float sums on every word of a sector")
    atomic_fp16 = from_chip("l2.l2_atomic_fp16_sector_cycles", "slice bytes", "of sums of two halves on every word")
    atomic_combined = from_chip(
        "l2.l2_atomic_combined_lanes_count", "lanes", "on one word that an atomic's pass serves at once"
    )
    atomic_turn = from_chip(
        "l2.l2_atomic_turn_cycles", "slice bytes", "from an atomic without an answer to one with an answer, or back"
    )
    atomic_last = area("atomic_last", "what each slice's atomic unit was asked last")
    channels_per_slice = derived(lambda z: z.channels_per_slice, "channels", "of DRAM for a slice")
    dram_ports = area("dram_ports", "calendars of the channels' data buses")
    dram_openings = area("dram_openings", "calendars of the rows that the channels open")
    dram_state = area("dram_state", "the channels (Channel)")
    dram_queues = area("dram_queues", "the channels' queued writes (QueuedWrite)")
    dram_banks = area("dram_banks", "open row and ready time of each bank")
    dram_bank_count = from_chip("dram.dram_bank_count", "banks", "of a channel")
    dram_latency = derived(
        lambda z: z.chip.dram.dram_latency_cycles - z.chip.l2.l2_hit_latency_cycles - z.row_miss,
        "cycle",
        "beyond an L2 hit, row open",
    )
    dram_row_miss = derived(lambda z: z.row_miss, BY_NAME["tRCD"].unit, str(BY_NAME["tRCD"]))
    dram_row_cycle = rule("tRC")
    dram_row_blocks = derived(lambda z: z.row_blocks, "blocks of a bank", "of a row, over all channels")
    bank_block_shift = derived(
        lambda z: (z.chip.dram.dram_bank_block_bytes // z.chip.l1.l1_line_bytes).bit_length() - 1,
        "bits",
        "of a line's number within a block that is in one bank of every channel",
    )
    dram_sector = derived(
        lambda z: round(256 * z.chip.l1.sector_bytes * z.channels / z.dram_bytes_per_clk),
        "1/256 cycle",
        "of a channel's bus for a sector",
    )
    dram_read_to_write = rule("tRTW")
    dram_write_to_read = rule("tWTR")
    dram_activate_interval = rule("tRRD_S")
    dram_group_activate = rule("tRRD_L")
    dram_group_column = derived(
        lambda z: round(
            copied(z.chip, "dram.dram_group_column_ns", "1/256 cycle")
            * z.chip.l1.sector_bytes
            / z.chip.dram.dram_burst_bytes
        ),
        "1/256 cycle",
        f"{BY_NAME['tCCD_L']}, for a sector",
    )
    dram_groups = from_chip("dram.dram_bank_group_count", "bank groups", "of a channel")
    dram_group_openings = area("dram_group_openings", "calendars of the rows that bank groups open")
    dram_group_columns = area("dram_group_columns", "calendars of the bank groups' bursts")
    dram_refresh_interval = from_chip("dram.dram_refresh_interval_ns", "cycle", "between refreshes of a channel")
    dram_refresh = rule("tRFC")
    postponed_refreshes = from_chip(
        "dram.dram_postponed_refreshes_count", "", "of single banks while first requests wait"
    )
    write_back_lag = from_chip("l2.l2_write_back_lag_cycles", "cycle", "that DRAM's write queue may be late")
    dram_batch = derived(
        lambda z: z.chip.dram.dram_write_batch_requests_count or z.chip.dram.dram_write_batch_bursts,
        "bursts or requests",
        "of writes that a channel gathers",
    )
    dram_batch_requests = from_chip(
        "dram.dram_write_batch_requests_count", "requests", "of writes that a channel gathers; 0: bursts count"
    )
    dram_batch_rows = from_chip(
        "dram.dram_write_batch_rows_count", "rows", "that a batch of writes opens at most; 0: a whole queue leaves"
    )
    bank_refresh_interval = from_chip("dram.dram_bank_refresh_interval_ns", "cycle", "between refreshes of one bank")
    bank_refresh = rule("tRFCsb")
    # requests between SMs and L2 (exchange.py)
    buckets = area("buckets", "a counting sort of each GPC")
    order = area("order", "the requests of each GPC in the order of their service")
    group_order = area("group_order", "the same by group of slices; scratch of the dispatcher")
    queues = area("queues", "the queues (RequestQueue) of each group of slices, and of all together")
    gpc_fields = area("gpc_fields", "the GPCs (Gpc)")
    gpc_turns = area("gpc_turns", "GPCs in the order in which host threads share them")
    served = word("requests", "of the last window")
    # parts of an SM's region without a fixed place
    requests_at = offset("requests", "requests (Request)")
    policies_at = offset("policies", "what each request asks for its line (access_policy.py), where ``policies``")
    runs_at = offset(
        "runs",
        "how many requests each one stands for and, shifted, their place in ``answers`` (runs.py), where ``keeps_runs``",
    )
    answers_at = offset("answers", "when the answers to the requests of runs are there")
    waiters_at = offset("waiters", "waiters (Waiter)")
    loads_at = offset("loads", "loads in flight (PendingLoad)")
    const_at = offset("const", "LDC's first level")
    immediate_at = offset("immediate", "operands' first level, by sub-core")
    indexed_at = offset("indexed", "that of ULDCs with an index, by sub-core")
    const_blocks_at = offset("const_blocks", "L1.5's blocks of constants")
    l0_at = offset("l0", "L0 instruction cache")
    l1i_at = offset("l1i", "L1 instruction cache")
    l1_at = offset("l1", "L1's lines (CacheLine)")
    join_at = offset("join", "the store buffer: its lines (StoreLine), and the rest of it (StoreBuffer)")
    instructions = derived(lambda z: z.instructions, "instructions", "of the program")
    stalls = area("stalls", 'of each GPC, cycles by instruction and reason; issues in the place of "selected"')
    begun = word("", "the first blocks of this stretch of the grid are on the chip")
    warm_instructions = word("instructions", "executed without time (warming.py)")
    warm_threads = word("threads", "that executed them")
    slice_groups = area("slice_groups", "the groups of slices (SliceGroup)")
    policies = word("", "some access may ask L2 to keep its line longer or shorter (access_policy.py)")
    compressible = word("host address", "ranges of compressible lines, CR_WORDS words each (compression.py)")
    compressible_count = word("ranges", "of those lines")
    serving = word("index", "the context of the kernel whose bulk copy is served")
    persisting_ways = word("ways", "of a set of L2 that are set aside for persisting lines")
    half = derived(lambda z: z.half, "slices", "of a partition")
    tlb = area("tlb", "the GPCs' TLBs (tlb.py)")
    tlb_slots = derived(lambda z: z.tlb_slots, "words", "of a TLB")
    tlb_ways = from_chip("crossbar.gpc_tlb_ways", "ways", "of a TLB's set")
    tlb_sets = derived(
        lambda z: z.chip.crossbar.gpc_tlb_page_count // z.chip.crossbar.gpc_tlb_ways,
        "sets",
        "of a TLB; 0: every page is at hand",
    )
    tlb_ports = area("tlb_ports", "a calendar of each GPC's TLB")
    tlb_hit = from_chip("crossbar.gpc_tlb_hit_cycles", "1/64 cycle", "of the TLB for a page at hand")
    tlb_miss = from_chip("crossbar.gpc_tlb_miss_cycles", "1/64 cycle", "for another page")
    tlb_latency = from_chip("crossbar.gpc_tlb_latency_cycles", "cycle", "until another page is at hand")
    tlb_quiet = from_chip("crossbar.gpc_tlb_quiet_cycles", "cycle", "after a miss until hits wait for nothing")
    page_shift = derived(
        lambda z: (z.chip.crossbar.page_kib * 1024 // z.chip.l1.l1_line_bytes).bit_length() - 1,
        "bits",
        "from a line to its page",
    )
    coalescing = from_chip("crossbar.gpc_coalescing_cycles", "cycle", "for which a request that L2 finds can be joined")
    coalescer_joins = derived(
        lambda z: max(z.chip.crossbar.gpc_coalescer_requests_count - 1, 0), "requests", "that can join another one"
    )
    coalescer_lines = derived(
        lambda z: z.coalescer_lines,
        "lines",
        "of a GPC's coalescer for each group of slices, a power of two; 0: there is none",
    )
    coalescer = area(
        "coalescer",
        "by GPC and group of slices, requests: line << 4 | sectors, until when others join, when it is answered, how many still",
    )
    touched = area("touched", "which SMs have turned to each slice, a bit each")
    touched_words = derived(lambda z: -(-z.chip.sm.sm_count // 64), "words", "of a slice in that area")
    l2_partial_ways = from_chip("l2.l2_partial_ways", "ways", "of a set that may hold partly written lines")
    dram_activate_read = rule("tFAW of reads")
    dram_activate_write = rule("tFAW of writes")
    write_back_sector = from_chip("l2.l2_write_back_sector_cycles", "slice bytes", "for a sector that is written back")
    crowded_write_back = from_chip(
        "l2.l2_crowded_write_back_cycles",
        "slice bytes",
        "for a line written back where sets are crowded",
    )
    crowded = word("", "1: more than half of a set's ways are set aside, so dirty lines may take half of the rest")
    atomic_change = from_chip(
        "l2.l2_atomic_change_cycles", "slice bytes", "for an atomic on a line that is none of the slice's last ones"
    )
    atomic_new_line = from_chip(
        "l2.l2_atomic_new_line_cycles", "slice bytes", "at least for an atomic on such a line and each of its sectors"
    )
    atomic_change_answer = from_chip(
        "l2.l2_atomic_answer_change_cycles", "slice bytes", "the same for one with an answer"
    )
    atomic_lines = area("atomic_lines", "by slice, the lines of its last atomics")
    atomic_line_count = from_chip("l2.l2_atomic_lines", "lines", "that a slice's atomics have at hand")
    atomic_wide_passes = from_chip(
        "l2.l2_atomic_wide_passes_count", "passes", "over a sector by compare-and-swap or doubles"
    )
    write_history_shift = derived(
        lambda z: z.chip.l2.l2_write_history_count.bit_length() - 1,
        "",
        "of the accesses that a line's share of writes looks back on",
    )
    queued_history_shift = derived(
        lambda z: z.chip.l2.l2_queued_history_count.bit_length() - 1,
        "",
        "log2 of the accesses over which a line's share of atomics is taken while a queue waits for it",
    )
    queued_history_from = from_chip("l2.l2_queued_history_cycles", "cycle", "that such a queue takes at least")
    slice_queues = area("slice_queues", "the slices' queues (SliceQueue)")
    read_after_write = from_chip(
        "l2.l2_read_after_write_cycles", "cycle", "of a slice between a write to a line and a read of it"
    )
    read_among_writes = from_chip(
        "l2.l2_read_among_writes_cycles", "1/256 cycle", "of a slice for each read of a line that is being written"
    )
    other_side = from_chip(
        "l2.l2_other_side_cycles", "cycle", "the same between what comes from its own SMs and what comes over the link"
    )
    read_after_atomic = from_chip(
        "l2.l2_read_after_atomic_cycles",
        "slice bytes",
        "of the write port, beyond an access's own, for a read that comes directly after an atomic on its line",
    )
    read_after_atomics_most = from_chip(
        "l2.l2_read_after_atomics_most_cycles",
        "slice bytes",
        "of the write port, beyond an access's own, the most for a read among atomics on its line",
    )
    atomic_line_read = from_chip(
        "l2.l2_atomic_line_read_cycles",
        "slice bytes",
        "of the write port, at least, for a read of a line that atomics change",
    )
    hidden_share = derived(
        lambda z: round(z.chip.l2.l2_hidden_atomics_percent * 65536 / 100),
        "",
        "of atomics among a line's accesses that reads hide, of 256, with a fraction",
    )
    single_looks = from_chip(
        "l2.l2_single_look_cycles",
        "cycle",
        "after an atomic in which strong loads of the device's scope on its line are answered one by one",
    )
    short_until = word("cycle", "windows are short until then: strong accesses without an answer come")
    cluster_events = word("", "somebody has arrived at a cluster's barrier that is not complete")
    cluster_latency = from_chip(
        "cluster.cluster_barrier_latency_cycles", "cycle", "from the last arrival to the first who goes on"
    )
    remote_latency = from_chip(
        "cluster.distributed_shared_latency_cycles", "cycle", "of a load from another block's shared memory"
    )
    bulk_interval = from_chip("cluster.bulk_copy_interval_cycles", "cycle", "between two bulk copies of an SM")
    bulk_bytes = derived(
        lambda z: max(z.chip.cluster.bulk_copy_bytes_per_clk, 1), "bytes", "that an SM's bulk copies move per cycle"
    )
    bulk_to_l2 = derived(lambda z: z.bulk_there // 2, "cycle", "from the bulk engine to a slice")
    bulk_from_l2 = derived(lambda z: z.bulk_there - z.bulk_there // 2, "cycle", "from a slice to shared memory")
    bulk_store = from_chip("cluster.bulk_store_latency_cycles", "cycle", "until a bulk store has read its first bytes")
    bulk_store_bytes = derived(
        lambda z: max(z.chip.cluster.bulk_store_bytes_per_clk, 1), "bytes", "that a bulk store reads per cycle"
    )
    thread_phase = area("thread_phase", "what host threads share (HostThreads)")
    l2_installs = area("l2_installs", "by group of slices, places of the first lines that L2 took in")
    bulk_store_interval = from_chip("cluster.bulk_store_interval_cycles", "cycle", "between two bulk stores of an SM")
    bulk_store_entries = from_chip(
        "cluster.bulk_store_entries", "stores", "that an SM takes before the first has been read"
    )
    remote_atomic = from_chip(
        "cluster.distributed_shared_atomic_latency_cycles", "cycle", "of an atomic on another block's shared memory"
    )
    remote_store_bytes = derived(
        lambda z: max(z.chip.cluster.distributed_shared_store_bytes_per_clk, 1),
        "bytes",
        "that an SM sends to others per cycle",
    )
    scheduler = word("host address", "the launch's warp scheduler; 0: the model's own")
    l1_replacement = word("host address", "the launch's replacement of L1; 0: the model's own")
    bad_scheduler = word("", "it chose a slot that could not issue")
    timed_period = word("1/65536 block", "of a sampled launch: one block of so many is timed; 0: all are")
    stretch = word("blocks", "timed in a row, after which blocks are left out in time")
    left_out = word("blocks", "that are left out then")
    warm_sm = word("index", "region of the SM on which blocks without time run; 0: there are none")
    warm_next = word("", "number of the next block without time")
    warm_stop = word("", "one past the last of this stretch")
    warm_ratio = word("1/65536", "blocks without time for each that is timed")
    warm_own = word("instructions", "that timed blocks had executed in the window before")
    warm_work = word("instructions", "that blocks without time have executed beside them")
    warm_along = word("", "they run beside timed ones: what they ask for takes L2's and DRAM's time")
    warm_random = word("", "the last of the numbers that spread their accesses over a window")
    warm_loaded = word("1/65536", "of the sectors that timed blocks load, which L2 is asked for")
    warm_stored = word("1/65536", "the same of stores")
    warm_loads = word("1/65536 sector", "that the loads so far are short of that share")
    warm_stores = word("1/65536 sector", "the same of stores")
    warm_queue = word("host address", "stores that have not come to L2 yet (QueuedStore)")
    warm_queued = word("stores", "put there so far")
    warm_sent = word("stores", "that have left")
    warm_written = word("sectors", "of them")
    warm_moment = word("cycle", "when the last instruction that stores comes to L2")
    warm_to_write = word("stores", "that shall have left")
    warm_free = word("instructions", "of warm_instructions, those of blocks that were left out")
    # steps of a grid between its barriers (grid_steps.py)
    grid_barrier = word(
        "host address",
        "of the 8 bytes whose highest bit changes when the grid passes a barrier; 0: steps are not followed",
    )
    grid_bit = word("", "its value after the last barrier")
    grid_steps = word("steps", "that have ended")
    step_ends = words(STEP_ENDS, "cycle", "when the last of them ended")
    step_left = word("cycle", "when the last warp so far has made its first strong access of the present step")
    step_leaves = words(
        STEP_ENDS,
        "cycles",
        "from the end of the step before each of them until the last warp's first strong access in it",
    )
    step_work = words(STEP_ENDS, "instructions", "of threads that the grid had executed when each of them ended")
    pattern_steps = word("steps", "after which they repeat")
    pattern_cycles = words(MAX_PATTERN, "cycles", "of each of these steps")
    pattern_work = words(MAX_PATTERN, "instructions", "of threads in each of them")
    pattern_leaves = word("cycles", "of a step until the last block has left the barrier before it, on average")
    rest_begun = word("", "the rest of the launch runs untimed")
    rest_clock = word("cycle", "that untimed warps read from the clock")
    rest_lead = word("cycles", "of the first untimed step that had been timed")
    rest_steps = word("steps", "that have run untimed")
    rest_work = word("instructions", "of threads in the present one")
    rest_corrected = word("cycles", "by which untimed steps are longer or shorter than the pattern, in all")
    bad_replacement = word("", "it chose a way that no set has")
    # memory elsewhere (links.py)
    ranges = word("host address", "ranges of lines elsewhere (Range), by line")
    range_count = word("ranges", "of lines elsewhere")
    relocated = word("", "some lines are not where they are in other processes")
    own_first = word("line", "of this device's memory")
    own_end = word("line", "one past its last")
    own_moved = word("lines", "from where caches take its memory to be")
    links = area("links", "by way (LK_) and group of slices, when it is free, in 1/256 cycle")
    link_use = area("link_use", "by way and group of slices, what packets took, in 1/256 cycle")
    link_ways = word("ways", "that there are")
    link_window = area(
        "link_window", "by way and group of slices, what packets take in this window of activity, in 1/256 cycle"
    )
    link_later = area("link_later", "the same of those that leave later")
    link_widths = area("link_widths", "by way, its width (LinkWidth)")
    widths_change = word("", "some links reduce their width")
    peer_routes = area("peer_routes", "ways to other devices' memories (PeerRoute)")
    held_up = area("held_up", "by slice of a partition, until when what waits for the host holds it up")
    atomics_elsewhere = area(
        "atomics_elsewhere", "by group of slices, lines and when their last atomics are done, in 1/256 cycle"
    )
    host_latency = from_chip("links.host_latency_ns", "cycle", "of a load from the host")
    host_ask = from_chip("links.host_ask_ns", "1/256 cycle", "of the link for a request")
    host_read = from_chip("links.host_read_packet_ns", "1/256 cycle", "for the head of an answer")
    host_read_sector = from_chip("links.host_read_sector_ns", "1/256 cycle", "for each of its sectors")
    host_write = from_chip("links.host_write_packet_ns", "1/256 cycle", "for the head of a write")
    host_write_sector = from_chip("links.host_write_sector_ns", "1/256 cycle", "for each of its sectors")
    host_write_lag = from_chip("links.host_write_lag_cycles", "cycle", "that the link to the host may be late")
    host_write_latency = from_chip("links.host_write_latency_ns", "cycle", "until a write is acknowledged")
    host_atomic_latency = from_chip("links.host_atomic_latency_ns", "cycle", "of an atomic on the host's memory")
    host_atomic_turn = from_chip("links.host_atomic_turn_ns", "1/256 cycle", "between atomics on one line")
    peer_latency = from_chip("links.peer_latency_ns", "cycle", "of a load from another device")
    peer_ask = from_chip("links.peer_ask_ns", "1/256 cycle", "of the link for a request")
    peer_packet = from_chip("links.peer_packet_ns", "1/256 cycle", "for a packet's head")
    peer_sector = from_chip("links.peer_sector_ns", "1/256 cycle", "for each of its sectors")
    peer_half_sector = from_chip("links.peer_half_sector_bytes", "bytes", "of a write that is half a sector long")
    peer_write_latency = from_chip("links.peer_write_latency_ns", "cycle", "until a write is acknowledged")
    peer_atomic_latency = from_chip("links.peer_atomic_latency_ns", "cycle", "of an atomic on another device's memory")
    peer_atomic_turn = from_chip("links.peer_atomic_turn_ns", "1/256 cycle", "between atomics on one line")
    # page migration (page_migration.py)
    pages_move = word("", "managed memory has pages that move: one thread serves all requests in order")
    own_processor = word("", "the device's number among the processors of its machine")
    processors = area("processors", "by number (Processor)")
    cycle_ps = word("1/256 ps", "of a cycle")
    page_line_shift = word("bits", "of a line's number within its page")
    fault_latency = word("ps", "until a driver that is awake has fetched a fault")
    sleep_after = word("ps", "after the last batch, when the driver goes to sleep")
    wake = word("ps", "in addition, if it sleeps")
    deep_sleep_after = word("ps", "after the last batch, when it sleeps deeply")
    deep_wake = word("ps", "in addition, if it sleeps deeply")
    fault_batch = word("ps", "of the driver for a batch of faults, in addition to what follows")
    fault_region = word("ps", "for each region that a batch has faults in")
    host_region = word("ps", "in addition, if its pages are the host's")
    fault_page = word("ps", "for each stretch of pages that a fault moves, in addition to their copy")
    fault_entry = word("ps", "for each part of a page that faulted")
    fault_entry_shift = word("bits", "of a line's number within such a part")
    populate_page = word("ps", "for each page that nobody has touched")
    populate_entry = word("ps", "for each part of such a page that faulted")
    evict_region = word("ps", "for a region that leaves the device, in addition to the copies of its pages")
    evict_new_page = word("ps", "for each of them that the host has no memory for yet")
    room = word("host address", "pages that each processor can take in")
    services = word("host address", "services of regions so far")
    fault_batch_count = word("faults", "of a batch at most")
    prefetch_percent = word("percent", "of a region that moves as a whole, more than which is on the device")
    prefetch_pages = word("pages", "of the largest such region")
    counter_threshold = word("accesses", "to a remote region after which it moves; 0: never")
    counter_pages = word("pages", "of a region that has an access counter")
    counter_service = word("ps", "until such a region begins to move")
    driver_free = word("ps", "when the driver has done what it was given")
    batch_begins = word("ps", "when it fetches the batch that is being filled", reset=-1)
    batch_faults = word("faults", "of that batch")
    page_faults = word("faults", "of pages that the driver served")
    page_batches = word("batches", "of them")
    pages_migrated = word("pages", "that moved here")
    pages_from_host = word("pages", "of them and of copies, that came from the host")
    pages_populated = word("pages", "that nobody had touched before")
    pages_copied = word("pages", "that are mostly read and got a copy here")
    pages_recalled = word("pages", "whose copies ended because of a write")
    pages_mapped = word("pages", "mapped where they are")
    remote_accesses = word("requests", "to pages mapped elsewhere")
    counter_moves = word("regions", "that moved because of their access counters")
    evictions = word("regions", "that left the device because it was full")
    pages_evicted = word("pages", "of them")
    # coherence with the host over NVLink (coherent_host.py)
    translations = word("pages", "of the host that the device keeps translations of; 0: it asks for none")
    translation_table = word("host address", "of them, TR_WORDS words each")
    translation_shift = word("bits", "of a line's number within such a page")
    translation_group = word("pages", "that one answer translates")
    translation_latency = word("cycle", "until the host answers a request for a translation")
    translation_requests = word("requests", "for translations")
    translation_waits = word("requests", "of SMs that waited for one")
    probe_sets = word("sets", "of the probe filter; 0: the host caches nothing of the device's memory")
    probe_ways = word("lines", "of a set")
    probe_table = word("host address", "of the filter's lines, plus one each; 0: free")
    probe_latency = word("cycle", "until the host has given a line back")
    probe_checks = word("requests", "that were looked up in the filter")
    probes = word("requests", "whose lines the host had")
    unordered = word("", "what comes to L2 now comes in no order of time: lines order nothing (l2_hazards.py)")
    barrier_entries = from_chip(
        "shared.block_barrier_queue_entries", "arrivals", "of a sub-core's queue to the unit of block barriers"
    )
    fence_latency = from_chip("pipes.membar_gpu_latency_cycles", "cycle", "of a fence for the device")
    fence_system = from_chip("links.system_fence_ns", "cycle", "more for one for the system")
    fence_host = from_chip("links.host_fence_ns", "cycle", "more after writes to the host")
    fence_peer = from_chip("links.peer_fence_ns", "cycle", "more after writes to another device")
    product_reads = derived(
        lambda z: sum(1 << cycle for cycle in z.chip.pipes.tensor_read_cycles),
        "bits",
        "cycles in which a tensor product reads its registers; 0: as other instructions do",
    )
    product_again = derived(
        lambda z: sum(1 << cycle for cycle in z.chip.pipes.tensor_again_cycles),
        "bits",
        "cycles in which it is dispatched again",
    )
    product_end = derived(
        lambda z: max((*z.chip.pipes.tensor_read_cycles, *z.chip.pipes.tensor_again_cycles), default=-1) + 1,
        "cycle",
        "for which either goes on",
    )
    product_half = from_chip("pipes.tensor_half_cycles", "cycle", "from a tensor product to HFMA2.MMA or FP64")
    group_tail = from_chip(
        "pipes.group_product_tail_cycles", "cycle", "from a warpgroup's product to the end of a wait for it"
    )
    fence_skipped = from_chip(
        "pipes.membar_skipped_latency_cycles", "cycle", "of a fence beyond the block that no lane executes"
    )
    fence_skipped_written = from_chip(
        "pipes.membar_skipped_written_latency_cycles", "cycle", "of such a fence after the warp has stored"
    )
    block_fence_longer = derived(
        lambda z: z.chip.pipes.membar_block_written_latency_cycles - z.chip.pipes.membar_block_latency_cycles,
        "cycle",
        "by which a fence for the block takes longer after the warp has stored",
    )
    block_fence_written = from_chip(
        "pipes.membar_block_written_wavefronts_count",
        "wavefronts",
        "of a fence for the block after the warp has stored",
    )
    fence_written = from_chip(
        "pipes.membar_written_latency_cycles", "cycle", "of a fence for the device after the SM has written"
    )
    fence_mapped = from_chip("links.mapped_fence_ns", "cycle", "longer, where memory elsewhere is mapped")
    fence_system_gap = from_chip(
        "links.system_fence_gap_ns",
        "cycle",
        "between groups of fences for the system, beyond what they take longer",
    )
    fence_system_joins = from_chip(
        "links.system_fence_joins_ns", "cycle", "for which a fence for the system waits for others that leave with it"
    )
    fence_system_first = from_chip(
        "links.system_fence_first_count",
        "fences",
        "for the system that leave an SM together if none are on their way; 0: any number",
    )
    fence_system_group = from_chip(
        "links.system_fence_group_count",
        "fences",
        "for the system that leave together after others have returned; 0: any number",
    )
    fence_together = from_chip(
        "pipes.membar_group_cycles", "cycle", "after the first of an SM's group of fences in which others join it"
    )
    epoch = word("cycle", "of the device's own clock before this launch: L2 keeps times by that clock")
    brought = word(
        "host address", "ranges of lines that copies and fills have used since the launch before, BR_WORDS words each"
    )
    brought_count = word("ranges", "of those lines")
    read_pieces = word(
        "host address", "a word for each piece of memory that loads have read, and one for all others; 0: nobody asks"
    )
    read_first = word("piece", "of memory that has the first of those words")
    read_count = word("pieces", "of memory that have words of their own")
    read_shift = derived(
        lambda z: READ_PIECE_SHIFT - (z.chip.l1.l1_line_bytes.bit_length() - 1),
        "bits",
        "of a line's number within its piece",
    )
    fence_interval = from_chip(
        "pipes.membar_round_interval_cycles", "cycle", "between two rounds of an SM's fences after stores"
    )
    fence_joins = from_chip(
        "pipes.membar_round_joins_cycles",
        "cycle",
        "after a round's first fence, by which the stores of other warps must be in L1 for their fences to join it",
    )
    fences_at_slices = from_chip(
        "pipes.membar_round_count", "fences", "of an SM that wait at the slices at once; 0: any number"
    )
    fence_rounds_apart = from_chip(
        "pipes.membar_rounds_apart", "", "a round of an SM's fences begins only when the one before is over"
    )
    l2_dirty_ways = from_chip("l2.l2_dirty_ways", "ways", "of a set that may hold dirty lines")
    l2_streaming_near = from_chip(
        "l2.l2_streaming_near_percent", "percent", "of written streaming lines leave first, changed by the home's side"
    )
    l2_streaming_far = from_chip(
        "l2.l2_streaming_far_percent", "percent", "of written streaming lines leave first, changed by the other side"
    )
    l2i_cold_latency = derived(
        lambda z: z.cold_code_latency, "cycle", "to a line of code that no SM of the GPC has asked for: DRAM's"
    )
    l2i_cold_interval = derived(
        lambda z: (
            z.chip.instruction_cache.l2_icache_line_interval_cycles
            * z.cold_code_latency
            // z.chip.l2.l2_hit_latency_cycles
        ),
        "cycle",
        "between two such lines for an SM",
    )
    code_arrived = area("code_arrived", "by GPC, when each line of code is in L2")


chip = Header(0)
"""The header of the state, whose first word is the array's first."""
