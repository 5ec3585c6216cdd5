"""The sections of a chip's record: the machine's units and the meaning of each number.

The unit of every number is in its name; every name is unique over all sections.  ``chip_files.py`` reads them.
"""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

MAX_GPCS = 16
"""The cycle model looks at the requests of so many GPCs at once."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Identity(Section):
    product: str
    architecture: str
    die: str
    compute_capability: str
    """As CUDA writes it: ``8.0``; empty for AMD's chips."""
    generation: Literal["", "evergreen", "cayman"] = ""
    """The encodings of AMD's machine code; empty for NVIDIA's chips."""


class Clocks(Section):
    sm_clock_mhz: int = Field(gt=0)


class Sm(Section):
    """Counts, and limits of what one SM holds."""

    sm_count: int = Field(gt=0)
    gpc_sm_counts: list[int]
    """SMs of each graphics processing cluster."""
    cluster_sm_counts: list[int]
    """SMs among which the blocks of a cluster may be, in the order of the SMs: GPCs, or parts of one; empty without clusters."""
    gpc_l2_partitions: list[int]
    """The partition of L2 that each GPC's SMs ask first."""
    dispatch_apart_sm_count: int = Field(ge=0)
    """SMs of the first GPC that get their blocks apart from its others."""
    dispatch_apart_first_turns_count: int = Field(gt=0)
    """Turns of GPCs before these SMs' second blocks."""
    dispatch_apart_turns_count: int = Field(gt=0)
    """Turns of GPCs between their later ones."""
    tpc_sm_count: int = Field(gt=0)
    """SMs of a texture processing cluster: neighbours in a GPC."""
    sub_core_count: int = Field(gt=0, le=4)
    max_warps_per_sm: int = Field(gt=0, le=64)
    max_blocks_per_sm: int = Field(gt=0, le=32)
    max_threads_per_block: int = Field(gt=0)
    registers_per_sm: int = Field(gt=0)
    max_registers_per_thread: int = Field(gt=0)
    register_allocation_unit_registers: int = Field(gt=0)
    """A warp's registers are rounded up to this."""
    named_barriers_per_sm_count: int = Field(gt=0)


class Issue(Section):
    """One sub-core's front."""

    issue_per_clk_count: Literal[1, 2]
    """Of one warp and scheduler; 2: of instructions that the machine code pairs."""
    issue_interval_cycles: int = Field(gt=0, le=16)
    """Between two instructions of a scheduler."""
    scheduler_is_greedy: bool
    """The warp that issued last goes on as long as it can; a scheduler of at most 16 warps is always greedy."""
    register_bank_count: Literal[2, 4]
    """A register's bank is its number modulo this."""
    operand_window_cycles: int = Field(ge=0)
    operand_release_cycles: int = Field(ge=0)
    """From the issue of a fixed-latency instruction to the release of the counter that guards its operands."""
    branch_latency_cycles: int = Field(ge=0)
    branch_interval_cycles: int = Field(gt=0)
    """Of the branch unit, between two instructions for it: branches, fences, sleeps."""
    convergence_issue_cycles: int = Field(gt=0)
    """From one BSSY, BMOV, BREAK or BSYNC of a sub-core to the next; branches do not wait for them."""
    convergence_interval_cycles: int = Field(gt=0)
    """The same for all sub-cores of an SM together."""
    convergence_latency_cycles: int = Field(ge=0)
    """From a BSYNC to what its warp executes next, whoever arrived."""
    convergence_restored_cycles: int = Field(ge=0)
    """More if the BSYNC's register was saved and restored (BMOV), as around a call."""
    group_switch_cycles: int = Field(ge=0)
    """More if the warp next executes another group of its lanes."""
    warp_sync_latency_cycles: int = Field(ge=0)
    """From a WARPSYNC whose mask is in a register, and whose lanes have all arrived, to what its warp executes next."""
    warp_sync_interval_cycles: int = Field(ge=0)
    """From one such WARPSYNC of an SM to the next instruction for the barrier unit, which also serves the barriers of blocks and indirect branches."""
    yield_latency_cycles: int = Field(ge=0)
    """From a YIELD to what follows, where other lanes of the warp wait and none of them can go on."""
    indirect_branch_latency_cycles: int = Field(ge=0)
    indirect_branch_interval_cycles: int = Field(gt=0)
    """From one indirect branch of an SM to the next instruction for the barrier unit."""
    uniform_interval_cycles: int = Field(gt=0)
    uniform_latency_cycles: int = Field(ge=0)


class Pipes(Section):
    """Width (lanes of one sub-core: a warp takes 32 / lanes cycles) and latency of each execution pipe."""

    alu_lanes: int = Field(ge=0)
    """Integer and logic; 0: they run in the heavy FMA pipe."""
    fma_heavy_lanes: int = Field(gt=0)
    """FP32 and integer multiply-add."""
    wide_multiply_interval_cycles: int = Field(gt=0)
    wide_multiply_passes_count: int = Field(gt=0)
    wide_multiply_pass_cycles: int = Field(ge=0)
    """Between two passes of one; dispatch and stall count end with the last one."""
    wide_factor_latency_cycles: int = Field(ge=0)
    """From the issue of a fixed-latency instruction to that of IMAD.WIDE or IMAD.HI with its result as a factor, whatever the stall counts say."""
    fma_lite_lanes: int = Field(ge=0)
    """FP32 only."""
    fma_lite_in_xu: bool
    """The lite lanes are multipliers of the special-function units: they do FP32 products only, while no special function runs."""
    half_lanes: int = Field(gt=0)
    half_bf16_lanes: int = Field(gt=0)
    """The same for packed BF16."""
    half_fma_halves_count: int = Field(ge=0, le=2)
    """Halves of the FMA pipe that HADD2, HMUL2 and HFMA2 take, so that the half-precision pipe has HFMA2.MMA alone; 0: they run there too."""
    fp64_port_pipes_count: int = Field(ge=1, le=2)
    """Pipes that FP64's instructions are dispatched through one port with: its own, or with HFMA2.MMA's."""
    fp64_lanes: int = Field(gt=0)
    xu_lanes: int = Field(gt=0)
    tensor_fp16_fma_per_clk: int = Field(ge=0)
    """Multiply-adds of one sub-core, FP16 with FP32 sum; 0 on chips without tensor cores."""
    tensor_fp64_fma_per_clk: int = Field(ge=0)
    tensor_fp64_least_cycles: int = Field(ge=0)
    """Between two products of doubles, however small."""
    tensor_sync_extra_cycles: int = Field(ge=0)
    """Of a warp's product (mma.sync) beyond its multiply-adds at the pipe's full rate."""
    tensor_sparse_extra_cycles: int = Field(ge=0)
    """Of a sparse one beyond a dense one of as many multiply-adds."""
    alu_latency_cycles: int = Field(gt=0)
    fma_latency_cycles: int = Field(gt=0)
    half_latency_cycles: int = Field(gt=0)
    fp64_latency_cycles: int = Field(gt=0)
    xu_latency_cycles: int = Field(gt=0)
    xu_wide_source_cycles: int = Field(ge=0)
    """By which a conversion of 64 bits takes longer, and twice by which its result comes later."""
    tensor_latency_cycles: int = Field(gt=0)
    tensor_short_latency_cycles: int = Field(gt=0)
    """Of a product with 16 bytes of A's depth."""
    tensor_fp64_extra_latency_cycles: int = Field(ge=0)
    """From a product's last multiply-add of doubles to its result."""
    tensor_read_cycles: list[int]
    """Cycles after its dispatch in which a tensor product of a warp reads both register banks; empty: as other instructions."""
    tensor_again_cycles: list[int]
    """Those in which it is dispatched again, and no instruction of the ALU or FMA pipes is."""
    tensor_half_cycles: int = Field(ge=0)
    """From one to HFMA2.MMA or an FP64 instruction at the least."""
    group_product_least_cycles: int = Field(ge=0)
    """Between two products of a warpgroup, however few columns."""
    sparse_group_product_least_cycles: int = Field(ge=0)
    """The same for sparse products."""
    group_product_issue_cycles: int = Field(gt=0)
    """Between the issues of a warp's two products of its warpgroup."""
    group_product_tail_cycles: int = Field(ge=0)
    """From the tensor cores' last cycle of a warpgroup's product until a wait for it ends."""
    shuffle_latency_cycles: int = Field(gt=0)
    match_latency_cycles: int = Field(gt=0)
    """MATCH of one value of 32 bits."""
    match_word_cycles: int = Field(ge=0)
    """More for one of 64 bits."""
    match_value_cycles: int = Field(ge=0)
    """MATCH.ANY: for each further different value among the lanes."""
    match_wavefronts_count: int = Field(gt=0)
    """Of the load/store unit, for each word of a value that MATCH compares."""
    redux_latency_cycles: int = Field(gt=0)
    """To the use of the uniform register."""
    redux_wavefronts_count: int = Field(gt=0)
    """Of the load/store unit, for a REDUX."""
    special_register_latency_cycles: int = Field(gt=0)
    special_uniform_latency_cycles: int = Field(gt=0)
    """To a uniform register (S2UR)."""
    special_register_interval_cycles: int = Field(gt=0)
    texture_latency_cycles: int = Field(gt=0)
    """A sample that hits L1, dependent issue."""
    texture_quads_per_clk: int = Field(gt=0, le=8)
    """Groups of four lanes that the SM's texture units sample in a clock; texels by number take half the time."""
    membar_gpu_latency_cycles: int = Field(gt=0)
    """Of a fence for the device where the SM has written nothing since its last one."""
    membar_written_latency_cycles: int = Field(gt=0)
    """Where it has, from the issue, however long ago that was."""
    membar_block_latency_cycles: int = Field(gt=0)
    """Of a fence for the block."""
    membar_block_written_latency_cycles: int = Field(gt=0)
    """Where its warp has stored since its last fence."""
    membar_block_wavefronts_count: int = Field(ge=0)
    """Wavefronts of the load/store unit that it takes, after its warp's accesses in the memory queue; 0: it does not pass the queue, and waits until L2 has acknowledged stores."""
    membar_block_written_wavefronts_count: int = Field(ge=0)
    """Where its warp has stored since its last fence."""
    membar_skipped_latency_cycles: int = Field(gt=0)
    """Of a fence of wider scope whose guard is false for all lanes."""
    membar_skipped_written_latency_cycles: int = Field(gt=0)
    """Where its warp has stored since its last fence."""
    membar_places_count: int = Field(ge=0, le=8)
    """Fences of an SM at once, which go in rounds; 0: no limit is known."""
    membar_place_cycles: int = Field(ge=0)
    """Before the place of one is another's of the round."""
    membar_rounds_apart: bool
    """Whether fences of every scope leave the SM in rounds, each when the previous one is over, even if that waits at the slices; otherwise fences of device scope leave as places become free."""
    membar_round_count: int = Field(ge=0, le=64)
    """Greatest number of an SM's fences that wait at the slices at once; 0: any number."""
    membar_round_interval_cycles: int = Field(ge=0)
    """Between two rounds of an SM's fences after stores; 0: there are no such rounds."""
    membar_round_joins_cycles: int = Field(ge=0)
    """How long after the first fence of such a round has reached L1 others still join it, if their warps' stores have reached L1 by then."""
    membar_group_interval_cycles: int = Field(ge=0)
    """Least time between two groups of fences of system scope that leave an SM, and between two rounds of other fences that wait among polls."""
    membar_group_cycles: int = Field(ge=0)
    """Those that come so soon after the first of a group go with it."""


class Mio(Section):
    """The queue between a sub-core and the units that all four share."""

    mio_queue_entries: int = Field(gt=0, le=16)
    mio_sub_core_interval_cycles: int = Field(gt=0)
    mio_latency_cycles: int = Field(ge=0)
    """From issue to the load/store unit: an idle queue."""
    mio_register_cycles: int = Field(ge=0)
    """For each register of 32 lanes that a sub-core hands over with a memory instruction."""
    lsu_wavefronts_per_clk: float = Field(ge=0.125)
    lsu_replay_cycles: int = Field(ge=0)
    """Between two passes of one instruction over several lines or conflicting words."""
    lsu_wide_pass_cycles: int = Field(ge=0)
    """The same for the passes that a shared load of 8 or 16 bytes per lane takes for its width."""
    lsu_wide_load_cycles: int = Field(ge=0)
    """More that a shared load of 16 bytes a lane takes of the unit if its width needs several passes."""
    lsu_store_cycles: int = Field(ge=0)
    """Of the load/store unit, for a store."""
    shared_release_cycles: int = Field(ge=0)
    """From the start of the load/store unit with a shared or local access to the release of the counter that guards its operands."""
    load_release_cycles: int = Field(ge=0)
    """The same for a load or an atomic of global memory."""
    store_release_cycles: int = Field(ge=0)
    """The same for a store to global memory, apart from its data."""
    store_register_release_cycles: int = Field(ge=0)
    """More for each register of a lane's data."""
    async_copy_release_cycles: int = Field(ge=0)
    """The same for an asynchronous copy (LDGSTS)."""
    async_commit_cycles: int = Field(ge=0)
    """From the issue of LDGDEPBAR to its count's fall where all copies have arrived."""
    lsu_atomic_lane_cycles: float = Field(ge=0)
    """Of the load/store unit, for each lane on a word in a global atomic on one sector of a line."""
    lsu_atomic_sectors_lane_cycles: float = Field(ge=0)
    """The same on several sectors of a line."""
    lsu_atomic_answer_cycles: int = Field(ge=0)
    """The least for each lane on one word, or for each line, where a global atomic gives an answer and more than four lanes or lines are named."""
    lsu_atomic_answer_free_count: int = Field(ge=0)
    """Lanes on one word, or lines, up to which the answer of an atomic takes no more than the atomic itself."""
    inactive_access_cycles: int = Field(ge=0)
    """Of a memory instruction without active lanes, from the load/store unit to its end."""


class InstructionCache(Section):
    instruction_bytes: int = Field(gt=0)
    icache_line_bytes: int = Field(gt=0)
    gpc_icache_fetch_bytes: int = Field(gt=0)
    """What a GPC's cache asks L2 for at once."""
    l0_icache_kib: int = Field(gt=0)
    l0_icache_per_sub_core: bool
    """Whether each sub-core has a first level of its own; otherwise one serves all of the SM's."""
    l1_icache_kib: int = Field(gt=0)
    l1_icache_ways: int = Field(gt=0)
    """Lines of a set of the second level."""
    l1_icache_latency_cycles: int = Field(gt=0)
    icache_prefetch_lines: int = Field(ge=0)
    """Lines that the second level asks L2 for ahead of the first one's misses."""
    icache_chunk_lines: int = Field(gt=0)
    """Lines that the first level asks for at once."""
    launch_prefetch_kib: int = Field(ge=0)
    l1_icache_line_interval_cycles: float = Field(gt=0)
    gpc_icache_line_interval_cycles: float = Field(ge=0)
    """Between lines that the SMs of a GPC get from beyond their first levels."""
    l2_icache_line_interval_cycles: int = Field(gt=0)


class ConstantCache(Section):
    constant_line_bytes: int = Field(gt=0)
    l1_constant_kib: int = Field(gt=0)
    """Of each first level: one for operands and ULDC, one for LDC."""
    l15_constant_latency_cycles: int = Field(gt=0)
    """Of an LDC that the first level misses."""
    ldc_latency_cycles: int = Field(gt=0)
    constant_block_bytes: int = Field(gt=0)
    """What L1.5 asks L2 for at once."""
    immediate_miss_cycles: int = Field(gt=0)
    """Of an operand or ULDC that its first level misses, beyond a hit."""
    indexed_constant_lines: int = Field(gt=0)
    """Lines of a sub-core that ULDCs with a uniform register as index find without a miss."""
    indexed_miss_cycles: int = Field(gt=0)
    """Of such a ULDC in another line, beyond a hit."""
    l15_constant_interval_cycles: int = Field(gt=0)
    """Between two lines that L1.5 hands over."""
    gpc_constant_busy_percent: int = Field(gt=0)
    """Of a window: where a GPC's lines took so much of it, its SMs share the port in equal parts in the next one."""
    gpc_constant_interval_cycles: float = Field(gt=0)
    """Between two lines that the L1.5 caches of a GPC's SMs get or hand over together."""
    gpc_first_constant_interval_cycles: float = Field(gt=0)
    """The same when a launch begins, while all SMs ask for their parameters."""
    l2_constant_latency_cycles: int = Field(gt=0)
    """Of an LDC whose block L1.5 misses."""
    ldc_word_cycles: int = Field(gt=0)
    """Of the SM for each different word of an LDC."""
    ldc_replay_cycles: int = Field(gt=0)
    """Between two different words of one LDC."""
    ldc_in_flight_count: int = Field(gt=0, le=16)
    """LDCs of a sub-core that have issued and wait for their words; the next one issues when the oldest has its word."""


class Shared(Section):
    """The unified data storage seen as shared memory, and the block barrier."""

    l1_kib: int = Field(gt=0)
    """L1 and shared memory together."""
    shared_carveout_kib: list[int]
    shared_max_per_block_kib: int = Field(gt=0)
    shared_reserved_bytes_per_block: int = Field(ge=0)
    shared_allocation_unit_bytes: int = Field(gt=0)
    shared_in_cores: bool
    """Accesses of shared memory are issued through the heavy FMA pipe."""
    shared_conflicts_in_cores: bool
    """They hold that pipe while their banks conflict."""
    shared_bank_count: Literal[16, 32]
    global_share_kib: int = Field(ge=0)
    """Memory of the whole chip with banks as shared memory has them (AMD's global data share); 0: there is none."""
    global_share_latency_cycles: int = Field(ge=0)
    shared_load_latency_cycles: int = Field(gt=0)
    shared_store_latency_cycles: int = Field(gt=0)
    shared_cast_latency_cycles: int = Field(gt=0)
    shared_cast_wide_latency_cycles: int = Field(gt=0)
    shared_atomic_latency_cycles: int = Field(gt=0)
    """By lanes of different banks, as every latency of one pass."""
    shared_cas_latency_cycles: int = Field(gt=0)
    """One pass less: compare-and-swap takes two for each."""
    block_barrier_latency_cycles: int = Field(ge=0)
    block_barrier_warp_interval_cycles: int = Field(ge=0)
    block_barrier_least_cycles: int = Field(ge=0)
    """That a barrier takes of the SM's unit, however few its warps."""
    block_barrier_last_cycles: int = Field(ge=0)
    """That it takes after the last arrival."""
    block_barrier_port_cycles: int = Field(ge=0)
    """That a barrier's release takes of the load/store unit, and one cycle for each warp that a sub-core has in it; 0: none."""
    block_barrier_result_latency_cycles: int = Field(ge=0)
    """Of B2R, which reads what BAR.RED found, after the unit has taken it."""
    block_barrier_queue_entries: int = Field(gt=0, le=8)
    """Arrivals of a sub-core's warps that wait for the unit; further warps issue theirs when one has been taken."""
    block_barrier_issue_cycles: int = Field(ge=0)
    """Between two barrier instructions of a sub-core."""


Coalescing = Literal[
    "whole_warp",
    "half_warp_in_order",
    "half_warp_any_order",
    "whole_lines",
    "quarter_wavefront",
    "quarter_wavefront_joined",
]
"""Rules by which lanes' accesses to global memory become transactions; ``timing/coalescing.py`` has a function for each."""
COALESCING: tuple[str, ...] = get_args(Coalescing)


class L1(Section):
    """The unified data storage seen as a cache."""

    l1_line_bytes: Literal[32, 64, 128]
    """Of a line of L1 and of L2."""
    sector_bytes: Literal[32, 64, 128]
    """What a line is filled and written by; as long as the line: without sectors."""
    coalescing: Coalescing
    """How a warp's accesses to global memory are joined."""
    texture_addresses_per_clk: int = Field(gt=0)
    """Addresses that a SIMD's texture units look up in a cycle (rules by quarter-wavefronts)."""
    l1_ways: int = Field(gt=0)
    l1_drawn_ways: int = Field(ge=0, le=4)
    """Of a full set, the ways that are drawn; the least recently used of them is replaced.  0: of all ways."""
    l1_reserved_kib: int = Field(ge=0)
    """Of what the carve-out leaves, what holds no lines."""
    l1_hit_latency_cycles: int = Field(gt=0)
    l1_tag_lines_per_clk: int = Field(gt=0)
    """Lines of different tag banks that the tag stage takes in a cycle."""
    l1_tag_bank_hash_bits: list[int]
    """For each bit of a tag bank's number, the bits of a line's number whose parity it is; at most two."""
    l1_data_bytes_per_clk: int = Field(gt=0)
    l1_fill_bytes_per_clk: int = Field(gt=0)
    l1_join_cycles: int = Field(ge=0)
    """A miss joins the request of an earlier one in the same line that is no older."""
    l1_store_array_cycles: float = Field(ge=0, le=1)
    """Of L1's array, which loads make their passes on, for each cycle of the store buffer's output, where a store's lines fill the tag banks evenly."""
    l1_narrow_store_pass_cycles: float = Field(ge=0)
    """Of the array for a pass over L1's tags, by a store of parts of words most of whose lanes name one bank."""
    l1_write_bytes_per_clk: int = Field(gt=0)
    store_buffer_lines_per_clk: int = Field(gt=0)
    """Lines of a store that come into the store buffer."""
    store_queue_entries: int = Field(gt=0)
    """Accesses that wait between the load/store unit and the store buffer."""
    store_buffer_lines: int = Field(gt=0)
    """Lines that the store buffer holds; one of which bytes are written, not words, takes two places."""
    store_output_lines: int = Field(gt=0)
    """Lines that have left the buffer and wait for the output."""
    store_join_cycles: int = Field(ge=0)
    """For which a later store can join a line, once another store has come."""
    store_join_alone_cycles: int = Field(ge=0)
    """The same while none has come."""
    store_join_line_cycles: int = Field(ge=0)
    """Longer for each line of a store beyond four."""
    store_join_free_lines: int = Field(ge=0)
    """Lines of a store that stay in the buffer no longer than one line."""
    store_sent_cycles: int = Field(ge=0)
    """From the end of a line's last sector in the output until a store to the line finds it sent."""
    store_lag_cycles: int = Field(ge=0)
    """How late the acknowledgement of an SM's writes may be before it sends no more: what its write buffers cover."""
    atomics_in_flight_count: int = Field(gt=0)
    """Atomics of an SM, one for each line of an instruction, that wait for L2's answer at once; the next one leaves when the oldest has its answer."""
    l1_sees_writes: bool
    """Whether a store changes what L1 holds of its line; the caches of a read path that stores do not take keep what they have."""
    l1_keeps_writes: bool
    """The least that L1 keeps of a store: whole lines (what is written in part is dropped), any bytes (sectors that were valid stay so),
    or nothing (0: what is written is dropped)."""


class Crossbar(Section):
    gpc_read_bytes_per_clk: int = Field(gt=0)
    gpc_store_port_count: int = Field(gt=0)
    """Store ports of a GPC; its TPCs are assigned to them in turn."""
    store_port_bytes_per_clk: int = Field(gt=0)
    """Bandwidth of each store port. If a GPC has several, a line takes as many bytes as of an SM's output: one sector more if it is partly written."""
    gpc_tlb_page_count: int = Field(ge=0)
    """Pages whose translation a GPC has at hand; 0: all."""
    gpc_tlb_ways: int = Field(gt=0)
    gpc_tlb_hit_cycles: float = Field(ge=0)
    """What a request takes of its GPC's translation while others miss."""
    gpc_tlb_miss_cycles: float = Field(ge=0)
    gpc_tlb_latency_cycles: int = Field(ge=0)
    """That a missed translation is late."""
    gpc_tlb_quiet_cycles: int = Field(ge=0)
    """After a miss, until hits wait for nothing."""
    page_kib: int = Field(gt=0)
    gpc_coalescer_lines: int = Field(ge=0)
    """Lines on their way that a GPC's read coalescer knows, so that its SMs do not ask L2 twice; a power of two, 0: it has none."""
    gpc_coalescing_cycles: int = Field(ge=0)
    """For so long at least a request can be joined by others, and until it is answered."""
    gpc_coalescer_requests_count: int = Field(gt=0)
    """SMs that one request is made for, at most."""


class L2(Section):
    l2_keeps_data: bool
    """Whether loads find what earlier accesses brought; otherwise each load and store of data goes to DRAM, and the slices are memory partitions."""
    l2_kib: int = Field(gt=0)
    l2_slice_count: int = Field(gt=0)
    l2_partition_count: int = Field(gt=0, le=2)
    l2_partition_hash_bits: int = Field(gt=0)
    """Bits of the number of a block of 4 KiB whose parity is its partition."""
    l2_ways: int = Field(gt=0)
    l2_set_aside_max_kib: int = Field(ge=0)
    """The most of L2 that may be set aside for persisting lines; 0: the chip has no residency control."""
    l2_compresses: bool
    """Whether memory may be compressible: ``CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED``."""
    l2_set_aside_default_kib: int = Field(ge=0)
    """What is set aside as long as nobody asks for more or less."""
    l2_policy_hash_block_bytes: int = Field(gt=0)
    """Consecutive bytes that get the same policy where an access policy holds for a share of addresses; a power of two."""
    l2_partial_ways: int = Field(gt=0)
    """Of a set, how many ways may hold lines with partly written sectors before one is completed from DRAM."""
    l2_dirty_ways: int = Field(gt=0)
    """Of a set, how many ways may hold dirty lines before one is written back; no limit where a set has no more ways."""
    l2_streaming_near_percent: int = Field(ge=0, le=100)
    """Share of the streaming lines last changed from the home's side that are evicted first once the limit of dirty lines has made L2 write them back."""
    l2_streaming_far_percent: int = Field(ge=0, le=100)
    """The same for lines last changed from the other side."""
    l2_write_back_lag_cycles: int = Field(ge=0)
    """How late DRAM's write queue may be before L2 takes no more dirty lines."""
    l2_slice_bytes_per_clk: int = Field(gt=0)
    l2_slice_access_bytes: int = Field(gt=0)
    """What the smallest read takes of a slice's port."""
    l2_fetch_bytes: int = Field(ge=32, le=128)
    """What a miss of one sector fetches."""
    l2_hit_latency_cycles: int = Field(gt=0)
    """A load's issue to its use, the SM's own partition."""
    l2_far_latency_cycles: int = Field(ge=0)
    """What the other partition adds."""
    l2_far_bytes_per_clk: int = Field(gt=0)
    l2_far_masked_bytes: int = Field(gt=0)
    l2_far_atomic_bytes: int = Field(gt=0)
    l2_atomic_latency_cycles: int = Field(ge=0)
    """What an atomic's answer takes longer than a load's."""
    l2_atomic_sector_cycles: float = Field(gt=0)
    """Of one slice, for a pass over a sector of which every word is named."""
    l2_atomic_word_cycles: float = Field(gt=0)
    """Of one slice, for a pass over a sector of which some words are named: as many passes as lanes on one word."""
    l2_atomic_combined_lanes_count: int = Field(gt=0)
    """Lanes of a warp on one word that a pass serves at once; more than one on no known chip."""
    l2_atomic_float_cycles: float = Field(gt=0)
    """Between floating-point sums on one word."""
    l2_atomic_fp32_sector_cycles: float = Field(gt=0)
    """Of one slice, for float sums on every word of a sector; on fewer words their share, but at least an integer's pass."""
    l2_atomic_fp16_sector_cycles: float = Field(gt=0)
    """The same for sums of two halves a word."""
    l2_write_back_sector_cycles: float = Field(ge=0)
    """Of a slice's read port, for a sector that is written back to DRAM."""
    l2_crowded_write_back_cycles: float = Field(ge=0)
    """Cycles of a slice per line written back because of ``l2_dirty_ways``, where that limit is half of the ways that are not set aside."""
    l2_atomic_change_cycles: float = Field(ge=0)
    """Of a slice, for an atomic on another line than its last ones."""
    l2_atomic_new_line_cycles: float = Field(ge=0)
    """Least time of a slice for an atomic on several words of such a line; the same time again for each sector."""
    l2_atomic_answer_change_cycles: float = Field(ge=0)
    """The same for one with an answer."""
    l2_atomic_turn_cycles: float = Field(ge=0)
    """For each lane, when a slice turns between atomics with and without an answer."""
    l2_atomic_lines: int = Field(gt=0)
    """Lines that a slice's atomics have at hand."""
    l2_atomic_wide_passes_count: int = Field(gt=0)
    """Passes over a sector by compare-and-swap, and by sums of doubles, that name several of its words."""
    l2_read_after_write_cycles: int = Field(ge=0)
    """Of a slice, between a write to a line and a read of the same line; everything after that read waits."""
    l2_read_among_writes_cycles: float = Field(ge=0)
    """Of a slice, for each read of a line that is being written, beside what it waits for the writes."""
    l2_write_history_count: int = Field(gt=0)
    """Accesses of a line that its share of writes looks back on, each with a weight that falls by this part; a power of two."""
    l2_queued_history_count: int = Field(gt=0)
    """The same for a line's share of atomics while a queue of accesses, in which those of many SMs are mixed, waits for it; a power of two."""
    l2_queued_history_cycles: int = Field(ge=0)
    """Least time for which such a queue occupies the line."""
    l2_written_least_percent: float = Field(ge=0.01, le=100)
    """Share of writes among a line's last accesses below which it no longer counts as written."""
    l2_other_side_cycles: int = Field(ge=0)
    """Of a line's home, between a write that came over the link and what its own SMs ask of the line, or the other way round."""
    l2_single_look_cycles: int = Field(ge=0)
    """After an atomic on a line, for which strong loads of the device's scope are answered one by one, and not two at a time."""
    l2_read_after_atomic_cycles: float = Field(ge=0)
    """Of the atomics' turn on a line, beyond an access's own, for a read that comes directly after one of them while more wait."""
    l2_hidden_atomics_percent: float = Field(ge=0, le=100)
    """Of a line's accesses, so many atomics that reads among them take no longer."""
    l2_read_after_atomics_most_cycles: float = Field(ge=0)
    """Of the atomics' turn on a line, beyond an access's own, the most that a read takes however many of the line's accesses are atomics."""
    l2_atomic_line_read_cycles: float = Field(ge=0)
    """Of the atomics' turn on a line, at least, for a read of a line that atomics change, whether or not any of them wait."""
    l2_write_request_cycles: float = Field(ge=0)
    """Of a slice's write port, for each write; and for each of its sectors, whole or partial."""
    l2_write_sector_cycles: float = Field(gt=0)
    l2_write_partial_cycles: float = Field(gt=0)
    l2_fill_sector_cycles: float = Field(ge=0)
    """Of a slice's write port, for a sector that comes from DRAM or from the other partition."""


class Dram(Section):
    dram_kib: int = Field(gt=0)
    dram_gb_per_s: float = Field(gt=0)
    dram_channel_count: int = Field(gt=0)
    dram_latency_cycles: int = Field(gt=0)
    """A load's issue to its use, row closed, channel of the SM's own partition."""
    dram_burst_bytes: int = Field(gt=0)
    dram_row_bytes: int = Field(gt=0)
    dram_bank_count: int = Field(gt=0)
    dram_bank_block_bytes: int = Field(gt=0)
    """Consecutive bytes that are in the same bank of every channel; a power of two."""
    dram_row_cycle_ns: float = Field(gt=0)
    dram_row_miss_ns: float = Field(gt=0)
    dram_refresh_interval_ns: float = Field(gt=0)
    dram_refresh_ns: float = Field(ge=0)
    dram_bank_refresh_interval_ns: float = Field(gt=0)
    """Between refreshes of one bank, each of which closes it for the time below while the other banks work."""
    dram_bank_refresh_ns: float = Field(ge=0)
    dram_postponed_refreshes_count: int = Field(ge=0)
    """Refreshes of single banks that a controller puts off while a channel's first requests wait."""
    dram_bank_group_count: int = Field(gt=0)
    """Groups of a channel's banks; consecutive banks are in different ones."""
    dram_group_column_ns: float = Field(ge=0)
    """Between two bursts of banks of a group (tCCD_L); 0: no limit beyond the bus."""
    dram_group_activate_ns: float = Field(ge=0)
    """Between two rows that banks of a group open (tRRD_L); 0: no limit."""
    dram_activate_interval_ns: float = Field(ge=0)
    """Between two rows that a channel opens, whatever its bus does (tRRD_S); 0: no limit."""
    dram_four_activates_read_ns: float = Field(ge=0)
    """In which a channel opens four rows for reads (tFAW); 0: no limit."""
    dram_four_activates_write_ns: float = Field(ge=0)
    """In which it opens four rows for writes."""
    dram_read_to_write_ns: float = Field(ge=0)
    """From the data of reads to that of writes (tRTW)."""
    dram_write_to_read_ns: float = Field(ge=0)
    """From the data of writes to that of reads (tWTR and the reads' latency)."""
    dram_write_batch_bursts: int = Field(gt=0)
    """Bursts of writes that a channel gathers before it turns its bus around for them."""
    dram_write_batch_requests_count: int = Field(ge=0)
    """Requests that it gathers where its queue has a place for each request, however many bursts it writes; 0: bursts are counted."""
    dram_write_batch_rows_count: int = Field(ge=0)
    """Rows that a batch opens at most; all queued writes to a row leave together, and the queue's places are counted in requests. 0: the whole queue leaves in order of arrival."""


class Cluster(Section):
    """Thread block clusters; all zero on chips without them."""

    max_cluster_blocks_per_sm: int = Field(ge=0)
    """Blocks of clusters that an SM holds."""
    cluster_barrier_latency_cycles: int = Field(ge=0)
    """From the last arrival to the first instruction after the wait."""
    mbarrier_wait_limit_cycles: int = Field(ge=0)
    """The longest that a try_wait holds its warp back."""
    distributed_shared_latency_cycles: int = Field(ge=0)
    """Of a load from the shared memory of another SM."""
    distributed_shared_atomic_latency_cycles: int = Field(ge=0)
    distributed_shared_packet_send_cycles: float = Field(ge=0)
    distributed_shared_packet_take_cycles: float = Field(ge=0)
    """Of an SM's port for a packet of atomics, different words of one sector; it answers loads with a sector in as long as it takes one."""
    distributed_shared_way_packet_cycles: float = Field(ge=0)
    """Of one of a GPC's two ways between its SMs for a packet of atomics."""
    distributed_shared_way_selector_bits: int = Field(ge=0, le=(1 << 18) - 1)
    """Bits of a shared address whose parity is the packet's way; none of those within a line."""
    distributed_shared_line_request_cycles: float = Field(ge=0)
    """Of the port for a load's request for a line."""
    distributed_shared_store_bytes_per_clk: int = Field(ge=0)
    """That an SM sends to others, by stores or bulk copies: in packets of a whole sector, or of 16 bytes of which some are written."""
    mbarrier_arrive_latency_cycles: int = Field(ge=0)
    """Of an arrival whose state is asked for, after the memory queue."""
    mbarrier_look_latency_cycles: int = Field(ge=0)
    """Of a look at a phase that is over, after the memory queue."""
    mbarrier_arrive_interval_cycles: int = Field(ge=0)
    """Between two warps' arrivals at mbarriers of an SM."""
    mbarrier_look_interval_cycles: int = Field(ge=0)
    """Between two warps' looks at phases."""
    bulk_copy_interval_cycles: int = Field(ge=0)
    """Between two bulk copies of an SM."""
    bulk_copy_bytes_per_clk: int = Field(ge=0)
    """That an SM's bulk copies move."""
    bulk_copy_latency_cycles: int = Field(ge=0)
    """Of the engine for a bulk load, beyond the way to L2 and back after L1."""
    bulk_store_latency_cycles: int = Field(ge=0)
    """From its issue to the first bytes read from shared memory."""
    bulk_store_interval_cycles: int = Field(ge=0)
    """Between two bulk stores of an SM, however few bytes they move."""
    bulk_store_entries: int = Field(ge=0, le=8)
    """Bulk stores that an SM takes before the first of them has been read."""
    bulk_store_bytes_per_clk: int = Field(ge=0)
    """That a bulk store reads from shared memory."""


class Launch(Section):
    launch_overhead_cycles: int = Field(ge=0)
    launch_fetch_sectors_count: int = Field(ge=0)
    """Sectors of constants and code beyond a kernel's own that each GPC's cache fetches for a launch."""
    launch_fences_count: int = Field(ge=0)
    """Look-ups of each slice of L2 by fences at a launch's end, beyond those of the SMs that accessed it."""
    launch_idle_fences_count: float = Field(ge=0)
    """The same in a launch whose SMs accessed no slice; these look-ups are neither hits nor misses."""
    launch_end_overlap_cycles: int = Field(ge=0)
    """Time after a launch's last block in which its last writes complete at no cost, because the end of the launch takes as long anyway."""
    launch_end_fence_cycles: float = Field(ge=0)
    """Added to a launch's end for each SM that has accessed the L2 slice with the most such SMs."""
    block_first_interval_cycles: float = Field(gt=0)
    """Between two of the blocks that fill an idle chip."""
    cluster_first_interval_cycles: float = Field(ge=0)
    """The same for clusters."""
    block_dispatch_interval_cycles: float = Field(gt=0)
    """Between two blocks that end: the dispatcher notes one after the other."""
    block_sm_interval_cycles: int = Field(gt=0)
    block_warp_interval_cycles: int = Field(ge=0)
    """Between the starts of a block's warps."""
    block_launch_latency_cycles: int = Field(ge=0)
    block_start_latency_cycles: int = Field(ge=0)
    """From the start of a block on an SM that holds none of the launch to its first instruction."""
    dependent_start_cycles: int = Field(ge=0)
    """From the last block of a kernel that lets its dependents begin to the first instruction of theirs; zero where there is no such launch."""
    dependent_release_cycles: int = Field(ge=0)
    """From the end of a kernel to that of its dependents' wait for it."""
    launch_call_us: float = Field(ge=0)
    """Of the host's call that launches a kernel, where its clock is simulated."""
    launch_latency_us: float = Field(ge=0)
    """From that call's end to the beginning of the kernel's launch overhead on a device that is idle."""
    synchronize_call_us: float = Field(ge=0)
    """Least of a host's call that waits."""
    event_record_us: float = Field(ge=0)
    """Of an event that keeps time, in its stream."""
    stream_launch_lead_us: float = Field(ge=0)
    """From the beginning of a kernel's launch overhead to the end of a kernel that precedes it in its stream."""
    graph_launch_overhead_us: float = Field(ge=0)
    """Of a graph's kernel that another node of the graph precedes, in the place of launch_overhead_cycles."""
    graph_branch_interval_us: float = Field(ge=0)
    """Between the starts of two kernels of a graph that become ready together."""
    graph_root_interval_us: float = Field(ge=0)
    """The same for kernels that no node precedes."""
    event_wait_us: float = Field(ge=0)
    """Of a stream's wait for another stream's event, once the event has been recorded."""
    event_poll_us: float = Field(ge=0)
    """Until the device sees that an event for which a queue waits has been recorded, for each other queue that waits."""
    event_release_us: float = Field(ge=0)
    """Between the starts of two queues that wait for the same event."""
    event_call_us: float = Field(ge=0)
    """Of the host's call that records an event, or lets a stream wait for one, where its clock is simulated."""
    graph_call_us: float = Field(ge=0)
    """The same for a call that launches a graph."""
    graph_call_node_us: float = Field(ge=0)
    """Of that call for each node."""
    time_slice_us: float = Field(gt=0)
    """That a process has the chip while others wait for it, without MPS."""
    context_switch_us: float = Field(ge=0)
    """From the end of one process's slice to the beginning of the next one's, where both have little state."""
    context_warp_us: float = Field(ge=0)
    """Of the save or of the restore, for each warp of the SM that has the most, beside what its registers and shared memory take of DRAM's bandwidth."""


class Transfer(Section):
    """Copies and fills that the driver makes; gigabytes are 10^9 bytes."""

    host_copy_gb_per_s: float = Field(gt=0)
    """Between page-locked host memory and the device, each direction."""
    host_copy_latency_us: float = Field(ge=0)
    """Of a copy to or from the host, or to another device, before its first byte and after its last."""
    pageable_copy_gb_per_s: float = Field(gt=0)
    """The same for ordinary host memory, which the host copies once more."""
    peer_copy_gb_per_s: float = Field(gt=0)
    """To another device."""
    device_copy_gb_per_s: float = Field(gt=0)
    """Within the device: bytes copied, each read and written."""
    device_copy_latency_us: float = Field(ge=0)
    """Of such a copy, before its first byte."""
    device_copy_l2_gb_per_s: float = Field(gt=0)
    """The same as device_copy_gb_per_s where L2 can hold both what is read and what is written."""
    fill_gb_per_s: float = Field(gt=0)
    fill_latency_us: float = Field(ge=0)


class Links(Section):
    """What kernels' accesses to page-locked host memory (PCI Express) and to another device's memory (NVLink) take.

    Latencies are those beyond an L2 hit.  A packet takes its way for a time of its own and for each sector of the line that it carries.
    """

    host_latency_ns: float = Field(ge=0)
    """Of a load."""
    host_ask_ns: float = Field(ge=0)
    """Of the way to the host, for a request to read."""
    host_read_packet_ns: float = Field(gt=0)
    """Of the way from the host, for the answer."""
    host_read_sector_ns: float = Field(ge=0)
    host_write_packet_ns: float = Field(gt=0)
    """Of the way to the host: a run of whole sectors, or the bytes of one that is written in part."""
    host_write_sector_ns: float = Field(ge=0)
    host_write_lag_cycles: int = Field(ge=0)
    """How late the way to the host may be before a slice takes nothing more."""
    host_write_latency_ns: float = Field(ge=0)
    """Until a write is acknowledged, which it is when it goes out."""
    host_atomic_latency_ns: float = Field(ge=0)
    host_atomic_turn_ns: float = Field(ge=0)
    """Between atomics on one line: L2 reads it from the host for each."""
    peer_latency_ns: float = Field(ge=0)
    peer_ask_ns: float = Field(ge=0)
    """Of the way to the device, for a request to read."""
    peer_packet_ns: float = Field(gt=0)
    peer_sector_ns: float = Field(gt=0)
    peer_half_sector_bytes: int = Field(ge=0)
    """A write to another device that carries no more is half a sector long."""
    peer_write_latency_ns: float = Field(ge=0)
    peer_atomic_latency_ns: float = Field(ge=0)
    peer_atomic_turn_ns: float = Field(ge=0)
    """Between atomics on one word."""
    system_fence_ns: float = Field(ge=0)
    """Of a fence for the system after one for the device, when nothing that the SM wrote elsewhere is in flight."""
    system_fence_least_ns: float = Field(ge=0)
    """Of a fence for the system, from its issue."""
    mapped_fence_ns: float = Field(ge=0)
    """How much longer a fence for the system takes where the host's or another device's memory is mapped."""
    system_fence_gap_ns: float = Field(ge=0)
    """Between an SM's groups of fences for the system, beyond what they take longer than those for the device."""
    system_fence_joins_ns: float = Field(ge=0)
    """From the arrival of a fence for the system, if no others are on their way, until it leaves; others that arrive by then leave with it."""
    system_fence_first_count: int = Field(ge=0, le=64)
    """Fences for the system that leave an SM together if no others are on their way; 0: any number."""
    system_fence_group_count: int = Field(ge=0, le=64)
    """Fences for the system that leave together when others have returned; 0: all that wait."""
    host_fence_ns: float = Field(ge=0)
    """The same as ``system_fence_ns`` after writes to the host."""
    peer_fence_ns: float = Field(ge=0)
    """Behind writes to another device."""


class Texture(Section):
    """The texture unit that the SMs of a cluster share for graphics programs; zero on chips whose graphics pipeline is not modelled."""

    texture_unit_l1_kib: int = Field(default=0, ge=0)
    """Of a cluster's first cache; 0: the chip has no such unit."""
    texture_unit_l1_ways: int = Field(default=0, ge=0)
    texture_unit_line_bytes: int = Field(default=0, ge=0)
    """Of both caches."""
    texture_unit_l2_kib: int = Field(default=0, ge=0)
    """Of the second cache, all partitions together."""
    texture_unit_l2_ways: int = Field(default=0, ge=0)
    texture_unit_hit_latency_cycles: int = Field(default=0, ge=0)
    """From the issue of a texture instruction to its result where the first cache has all texels."""
    texture_unit_l2_latency_cycles: int = Field(default=0, ge=0)
    """The same where the second one has them."""
    sfu_interpolations_per_clk: int = Field(default=0, ge=0)
    """Samples of an attribute's plane that a special-function unit gives per cycle."""


class Graphics(Section):
    """Fixed-function stages of the graphics pipeline; zero on chips where it is not modelled.  Rates are per cycle of the core clock."""

    core_clock_mhz: int = Field(default=0, ge=0)
    front_end_words_per_clk: float = Field(default=0.0, ge=0)
    """Words of command streams."""
    input_primitives_per_clk: float = Field(default=0.0, ge=0)
    """That the input assembler collects."""
    input_scalars_per_clk: float = Field(default=0.0, ge=0)
    """Scalar attributes that it fetches."""
    vertex_cache_vertices_count: int = Field(default=0, ge=0)
    """Transformed vertices that later primitives find by their index; the first in leaves first."""
    vertex_fetch_lines_count: int = Field(default=0, ge=0)
    """Lines of vertex arrays that the input assembler keeps."""
    vertex_buffer_warps_count: int = Field(default=0, ge=0)
    """Warps of vertices of a cluster that are on their way from the input assembler to setup."""
    clip_primitives_per_clk: float = Field(default=0.0, ge=0)
    setup_primitives_per_clk: float = Field(default=0.0, ge=0)
    raster_tile_pixels_count: int = Field(default=0, ge=0)
    """Along a side of a tile of coarse rasterisation, which is one of the hierarchical depth too."""
    coarse_raster_tiles_per_clk: float = Field(default=0.0, ge=0)
    zcull_pixels_per_clk: float = Field(default=0.0, ge=0)
    fine_raster_pixels_per_clk: float = Field(default=0.0, ge=0)
    distribution_quads_per_clk: float = Field(default=0.0, ge=0)
    """That each cluster receives."""
    pixel_queue_warps_count: int = Field(default=0, ge=0)
    """Warps of pixels that wait at a cluster before the raster stops."""
    rop_pixels_per_clk: float = Field(default=0.0, ge=0)
    """Of a partition's ROP, for colours."""
    rop_depth_pixels_per_clk: float = Field(default=0.0, ge=0)
    """The same for depth and stencil alone."""
    rop_tile_pixels_count: int = Field(default=0, ge=0)
    """Along a side of a tile of compression and of a ROP's cache."""
    rop_cache_tiles_count: int = Field(default=0, ge=0)
    """Tiles of colours, and as many of depth, that a ROP keeps."""
    compression_ratio_count: int = Field(default=0, ge=0)
    """The most by which colour and depth are compressed."""
    fixed_stage_latency_cycles: int = Field(default=0, ge=0)
    """Of the way through each fixed-function stage, in cycles of the core clock."""
    frame_link_gb_per_s: float = Field(default=0.0, ge=0)
    """Of the link on which chips that draw together send finished pixels to the one with the display."""


class Engines(Section):
    """Fixed-function engines beside the SMs; zero on chips where they are not modelled.  Rates are per cycle of the SM clock."""

    nvjpg_core_count: int = Field(default=0, ge=0, le=64)
    """JPEG decoders, which work on the images of one batch."""
    nvjpg_420_pixels_per_clk: float = Field(default=0.0, ge=0)
    """Of one core, for images whose chroma has half the width and half the height."""
    nvjpg_444_pixels_per_clk: float = Field(default=0.0, ge=0)
    """The same with chroma of full size."""
    nvjpg_image_us: float = Field(default=0.0, ge=0)
    """Of one image, beside its pixels."""
    nvdec_count: int = Field(default=0, ge=0, le=64)
    """Video decoders, which each decode one frame at a time."""
    nvdec_h264_pixels_per_clk: float = Field(default=0.0, ge=0)
    """Of one decoder."""
    nvdec_h264_frame_us: float = Field(default=0.0, ge=0)
    """Of one frame, beside its pixels."""
    nvdec_hevc_pixels_per_clk: float = Field(default=0.0, ge=0)
    nvdec_hevc_frame_us: float = Field(default=0.0, ge=0)
    nvdec_vp9_pixels_per_clk: float = Field(default=0.0, ge=0)
    nvdec_vp9_frame_us: float = Field(default=0.0, ge=0)
    nvdec_hevc_444_bits: int = Field(default=0, ge=0, le=16)
    """The most of a sample of HEVC with chroma of full size; 0: it may not have it."""
    ofa_count: int = Field(default=0, ge=0, le=1)
    """Optical flow accelerators."""
    ofa_fast_pixels_per_clk: float = Field(default=0.0, ge=0)
    """With the fastest of three presets."""
    ofa_medium_pixels_per_clk: float = Field(default=0.0, ge=0)
    ofa_slow_pixels_per_clk: float = Field(default=0.0, ge=0)
