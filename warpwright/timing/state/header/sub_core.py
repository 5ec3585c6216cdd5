"""Issue, pipes, the MIO queue and block barriers."""

from __future__ import annotations

from warpwright.native.units import Unit, word
from warpwright.timing.state.header.declarations import derived, from_chip


class SubCoreWords(Unit):
    """Issue of sub-cores, rates of their pipes and of the MIO queue, and the block barrier unit."""

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
    restored_join = from_chip(
        "issue.convergence_restored_cycles", "cycle", "more for a BSYNC of a register that BMOV has restored"
    )
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
    scheduler = word("host address", "the launch's warp scheduler; 0: the model's own")
    bad_scheduler = word("", "it chose a slot that could not issue")
    barrier_entries = from_chip(
        "shared.block_barrier_queue_entries", "arrivals", "of a sub-core's queue to the unit of block barriers"
    )
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
