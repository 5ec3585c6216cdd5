"""Pipes and latencies: which pipe an instruction uses, for how long, and when its result is available.

One row for each unit that a schedule may name (``isa/schedule.py``): the pipe, the name of its interval and of its latency, looked up in
the chip.  Intervals follow from the lanes in the chip file (CUDA C++ Programming Guide, throughput table), latencies from the chip file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from warpwright.chips.chip import Chip
from warpwright.isa.schedule import Work
from warpwright.timing import state as s


class Timing(NamedTuple):
    """The resources of its sub-core that an instruction uses."""

    pipe: int
    interval_cycles: int
    latency_cycles: int
    """Cycles from issue to the release of its write barrier, for instructions outside the memory path."""
    kind: int
    wavefronts: int = 0
    """Of the load/store unit, for K_MIO; of MATCH.ANY for each different value; of BAR 1 where it does not hold up what follows at once."""
    value_cycles: int = 0
    """MATCH.ANY: for each further different value."""
    passes: int = 1
    """Of wide products: how often it is dispatched and reads its registers."""
    factor_latency_cycles: int = 0
    """Of wide products: least time from the issue of the instruction that produces a factor."""


Row = Callable[[Work, Chip, bool, int], Timing]
GROUP_DEPTH_BYTES, GROUP_ROWS = 32, 64
"""Shape of a warpgroup's product, which the instruction set fixes: every format has 64 rows of A and 32 bytes of each along k (PTX ISA, ``wgmma.mma_async``: shapes
m64nNk8 for TF32, k16 for 16 bits, k32 for 8 bits, k256 for single bits)."""


def timing_of(work: Work, chip: Chip, accesses: bool, lanes: int = 32) -> Timing:
    """Pipe, interval and latency of an instruction's work; ``accesses``: its operations read or write memory."""
    if accesses and work.unit not in OWN_ACCESSES:
        return Timing(s.P_MIO, 1, 0, s.K_COPY if "async_copy" in work.traits else s.K_MEMORY)
    one = ROWS[work.unit](work, chip, accesses, lanes)
    if work.instructions == 1:
        return one
    # One after the other: each holds the pipe, and needs the previous one's result.
    return one._replace(
        interval_cycles=one.interval_cycles * work.instructions, latency_cycles=one.latency_cycles * work.instructions
    )


def _lanes(lanes: int, of_pipe: int) -> int:
    """Cycles that a wave holds a pipe."""
    return -(-lanes // of_pipe)


# --- arithmetic -------------------------------------------------------------------------------------------------------
def _alu(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    pipes = chip.pipes
    times = 2 if "half_rate" in work.traits else 1
    if pipes.alu_lanes == 0:  # one kind of core for integers and FP32
        return Timing(s.P_FMA_HEAVY, _lanes(lanes, pipes.fma_heavy_lanes) * times, pipes.alu_latency_cycles, s.K_FIXED)
    return Timing(s.P_ALU, _lanes(lanes, pipes.alu_lanes) * times, pipes.alu_latency_cycles, s.K_FIXED)


def _fma(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    """Sums and products of FP32; multipliers of the special-function units take products alone."""
    pipe = s.P_FMA_HEAVY if chip.pipes.fma_lite_in_xu and "product" not in work.traits else s.P_FMA
    return Timing(pipe, _lanes(lanes, chip.pipes.fma_heavy_lanes), chip.pipes.fma_latency_cycles, s.K_FIXED)


def _fma_heavy(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    pipes = chip.pipes
    if "wide" not in work.traits:
        interval = _lanes(lanes, pipes.fma_heavy_lanes) * (2 if "half_rate" in work.traits else 1)
        return Timing(s.P_FMA_HEAVY, interval, pipes.fma_latency_cycles, s.K_FIXED)
    return Timing(
        s.P_FMA_HEAVY,
        pipes.wide_multiply_interval_cycles,
        pipes.fma_latency_cycles + 1,
        s.K_FIXED,
        passes=pipes.wide_multiply_passes_count,
        factor_latency_cycles=pipes.wide_factor_latency_cycles,
    )


def _half(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    pipes = chip.pipes
    if pipes.half_fma_halves_count and "tensor_path" not in work.traits:
        both = pipes.half_fma_halves_count == 2
        interval = _lanes(lanes, pipes.fma_heavy_lanes)
        return Timing(s.P_FMA_PAIR if both else s.P_FMA_HEAVY, interval, pipes.half_latency_cycles, s.K_FIXED)
    width = pipes.half_bf16_lanes if "bf16" in work.traits else pipes.half_lanes
    return Timing(s.P_HALF, _lanes(lanes, width), pipes.half_latency_cycles, s.K_FIXED)


def _fp64(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    return Timing(s.P_FP64, _lanes(lanes, chip.pipes.fp64_lanes), chip.pipes.fp64_latency_cycles, s.K_FIXED)


def _xu(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    """Special functions and conversions; those that read 64 bits per lane take longer."""
    pipes = chip.pipes
    longer = pipes.xu_wide_source_cycles if "wide_source" in work.traits else 0
    return Timing(s.P_XU, _lanes(lanes, pipes.xu_lanes) + longer, pipes.xu_latency_cycles + 2 * longer, s.K_FIXED)


def _interpolation(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    """The special-function units at the planes of attributes."""
    pipes = chip.pipes
    samples = pipes.xu_lanes * chip.texture.sfu_interpolations_per_clk
    return Timing(s.P_XU, _lanes(lanes, max(samples, 1)), pipes.xu_latency_cycles, s.K_FIXED)


def _tensor(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    """A warp's product (mma.sync).  Narrower elements are multiplied at a proportionally higher rate.

    Measured on an H200 (``bench.micro tensor``): products of 16 and 32 bytes of depth issue every 4 and 6 cycles and end after 16 and 24,
    sparse ones every 6 and 8; DMMA has its own rate, at which its result comes 18 cycles after its last multiply-add.
    """
    pipes, amount = chip.pipes, work.amount
    if "fp64" in work.traits:
        passes = -(-amount // max(pipes.tensor_fp64_fma_per_clk, 1))
        latency = passes + pipes.tensor_fp64_extra_latency_cycles
        return Timing(s.P_TENSOR, max(passes, pipes.tensor_fp64_least_cycles), latency, s.K_FIXED)
    bits = next((int(trait[4:]) for trait in work.traits if trait.startswith("bits")), 16)
    interval = -(-amount * bits // (16 * max(pipes.tensor_fp16_fma_per_clk, 1))) + pipes.tensor_sync_extra_cycles
    interval += pipes.tensor_sparse_extra_cycles if "sparse" in work.traits else 0
    latency = pipes.tensor_short_latency_cycles if "short" in work.traits else pipes.tensor_latency_cycles
    return Timing(s.P_TENSOR, max(interval, 1), latency, s.K_FIXED)


def _group_product(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    """A warpgroup's product: the pipe's own rate, or shared memory's, which feeds all four sub-cores once.

    Measured on an H200 for all formats: 64 x N x 32 bytes take N / 2 cycles or, where operands are more, 16 for A and N / 4
    for B (N / 2 for a sparse product, which reads twice as deep).
    """
    pipes, columns = chip.pipes, work.amount
    sparse = "sparse" in work.traits
    halves = GROUP_DEPTH_BYTES // 2
    products = -(-16 * columns * halves // max(pipes.tensor_fp16_fma_per_clk, 1))
    shared_bytes = columns * GROUP_DEPTH_BYTES * (2 if sparse else 1)
    shared_bytes += 0 if "first_in_registers" in work.traits else GROUP_ROWS * GROUP_DEPTH_BYTES
    fed = -(-shared_bytes // chip.l1.l1_data_bytes_per_clk)
    least = pipes.sparse_group_product_least_cycles if sparse else pipes.group_product_least_cycles
    return Timing(
        s.P_TENSOR,
        max(products, fed, least),
        pipes.tensor_latency_cycles,
        s.K_GROUP,
        int("ends_group" in work.traits),
    )


def _products_done(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    """A wait that leaves so many groups of a warpgroup's products open."""
    return Timing(s.P_NONE, 1, chip.pipes.tensor_latency_cycles, s.K_GROUP_WAIT, work.amount)


def _uniform(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    issue = chip.issue
    return Timing(s.P_UNIFORM, issue.uniform_interval_cycles, issue.uniform_latency_cycles, s.K_FIXED)


def _uniform_move(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    """Two cycles per pair of them, or of one and a UIADD3 (bench.micro ``issue_pairs``); it does not use the uniform unit."""
    return Timing(s.P_NONE, 1, chip.issue.uniform_latency_cycles, s.K_FIXED)


def _to_uniform(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    return _alu(work, chip, accesses, lanes)._replace(latency_cycles=chip.issue.uniform_latency_cycles)


def _none(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    return Timing(s.P_NONE, 1, 1, s.K_FIXED)


# --- control ----------------------------------------------------------------------------------------------------------
def _branch(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    return Timing(s.P_BRANCH, chip.issue.branch_interval_cycles, chip.issue.branch_latency_cycles, s.K_BRANCH)


def _indirect_branch(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    """Passes the SM's barrier unit, as BAR and WARPSYNC do, and does not hold up other branches (``bench.machine.warp_barrier_words``)."""
    issue = chip.issue
    port = chip.shared.block_barrier_issue_cycles
    return Timing(
        s.P_ADU, port, issue.indirect_branch_latency_cycles, s.K_BRANCH, issue.indirect_branch_interval_cycles
    )


def _convergence(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    issue = chip.issue
    port = issue.convergence_issue_cycles
    return Timing(s.P_CONVERGENCE, port, issue.branch_latency_cycles, s.K_BRANCH, issue.convergence_interval_cycles)


def _join(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    issue = chip.issue
    port = issue.convergence_issue_cycles
    return Timing(s.P_CONVERGENCE, port, issue.convergence_latency_cycles, s.K_JOIN, issue.convergence_interval_cycles)


def _warp_sync(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    issue = chip.issue
    port = chip.shared.block_barrier_issue_cycles
    return Timing(s.P_ADU, port, issue.warp_sync_latency_cycles, s.K_JOIN, issue.warp_sync_interval_cycles)


def _yield(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    return Timing(s.P_BRANCH, chip.issue.branch_interval_cycles, chip.issue.branch_latency_cycles, s.K_YIELD)


def _on_branch_unit(kind: int) -> Row:
    """Instructions that use the branch unit and are timed elsewhere."""
    return lambda work, chip, accesses, lanes: Timing(s.P_BRANCH, chip.issue.branch_interval_cycles, 0, kind)


def _block_barrier(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    cycles = chip.shared.block_barrier_issue_cycles
    return Timing(s.P_ADU, cycles, 0, s.K_BARRIER, int("deferred" in work.traits))


def _barrier_result(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    """Requests a reduction's result from the barrier unit."""
    shared = chip.shared
    return Timing(s.P_ADU, shared.block_barrier_issue_cycles, shared.block_barrier_result_latency_cycles, s.K_BARRIER)


def _fence(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    pipes = chip.pipes
    kind = s.K_GUARDED_FENCE if accesses else s.K_MEMBAR
    latency = pipes.membar_gpu_latency_cycles
    if "block" in work.traits:
        latency = pipes.membar_block_latency_cycles
        if waves := pipes.membar_block_wavefronts_count:
            return Timing(s.P_MIO, 1, latency - chip.mio.mio_latency_cycles, kind, waves)
    elif "system" in work.traits:
        latency = max(latency, round(chip.links.system_fence_least_ns * chip.clocks.sm_clock_mhz / 1000))
    return Timing(s.P_BRANCH, chip.issue.branch_interval_cycles, latency, kind)


# --- the memory queue -------------------------------------------------------------------------------------------------
def _shuffle(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    return Timing(s.P_MIO, 1, chip.pipes.shuffle_latency_cycles - chip.mio.mio_latency_cycles, s.K_MIO, 1)


def _reduction(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    latency = chip.pipes.redux_latency_cycles - chip.mio.mio_latency_cycles
    return Timing(s.P_MIO, 1, latency, s.K_COMBINE, chip.pipes.redux_wavefronts_count)


def _match(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    """MATCH.ANY processes the lanes' different values one after the other, MATCH.ALL a single one."""
    pipes = chip.pipes
    words = 2 if "wide" in work.traits else 1
    latency = pipes.match_latency_cycles + pipes.match_word_cycles * (words - 1) - chip.mio.mio_latency_cycles
    if "any" not in work.traits:
        return Timing(s.P_MIO, 1, latency, s.K_COMBINE, pipes.match_wavefronts_count * words)
    further = pipes.match_value_cycles + pipes.match_wavefronts_count * (words - 1)
    return Timing(s.P_MIO, 1, latency, s.K_MATCH, pipes.match_wavefronts_count * words, value_cycles=further)


def _special(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    pipes = chip.pipes
    uniform = "uniform" in work.traits
    latency = pipes.special_uniform_latency_cycles if uniform else pipes.special_register_latency_cycles
    return Timing(s.P_XU, pipes.special_register_interval_cycles, latency, s.K_FIXED)


def _constant(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    latency = chip.constant_cache.ldc_latency_cycles - chip.mio.mio_latency_cycles
    return Timing(s.P_MIO, 1, latency, s.K_LOOKUP if accesses else s.K_CONSTANT)


def _uniform_constant(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    if accesses:  # does not hold up the uniform pipe (uniform_constants)
        return Timing(s.P_MIO, 1, chip.issue.uniform_latency_cycles, s.K_INDEXED)
    return _uniform(work, chip, accesses, lanes)


def _texture(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    """The record's fetch waits for the texture units; this is the additional time of a sample over an L1 hit, and the units' time."""
    pipes = chip.pipes
    if chip.texture.texture_unit_l1_kib:  # shared by SMs: the serial phase serves them (texture_unit.py)
        return Timing(s.P_MIO, 1, 1, s.K_MEMORY)
    interval = lanes // 4 // pipes.texture_quads_per_clk // (2 if "fetch" in work.traits else 1)
    longer = max(pipes.texture_latency_cycles - chip.l1.l1_hit_latency_cycles, 0)
    return Timing(s.P_MIO, 1, longer | max(interval, 1) << s.TEXTURE_INTERVAL_SHIFT, s.K_MEMORY)


def _mbarrier(work: Work, chip: Chip, accesses: bool, lanes: int) -> Timing:
    if not accesses:  # a look, which leaves no record
        return Timing(s.P_MIO, 1, chip.cluster.mbarrier_look_latency_cycles, s.K_MIO, 1)
    return Timing(s.P_MIO, 1, chip.cluster.mbarrier_arrive_latency_cycles, s.K_MEMORY)


OWN_ACCESSES = ("constant", "uniform_constant", "texture", "mbarrier", "match", "fence")
"""Units whose accesses have rows of their own."""
ROWS: dict[str, Row] = {
    "alu": _alu,
    "fma": _fma,
    "fma_heavy": _fma_heavy,
    "half": _half,
    "fp64": _fp64,
    "xu": _xu,
    "interpolation": _interpolation,
    "tensor": _tensor,
    "group_product": _group_product,
    "products_done": _products_done,
    "uniform": _uniform,
    "uniform_move": _uniform_move,
    "to_uniform": _to_uniform,
    "branch": _branch,
    "indirect_branch": _indirect_branch,
    "convergence": _convergence,
    "join": _join,
    "warp_sync": _warp_sync,
    "yield": _yield,
    "none": _none,
    "shuffle": _shuffle,
    "reduction": _reduction,
    "match": _match,
    "special": _special,
    "constant": _constant,
    "uniform_constant": _uniform_constant,
    "texture": _texture,
    "mbarrier": _mbarrier,
    "memory": _alu,  # without an access: one whose guard is !PT, which takes an issue slot and reads its operands (assumed)
    "invalidate": _on_branch_unit(s.K_INVALIDATE),
    "cache_hint": _on_branch_unit(s.K_FIXED),
    "exit": _on_branch_unit(s.K_EXIT),
    "block_barrier": _block_barrier,
    "barrier_result": _barrier_result,
    "cluster_barrier": _on_branch_unit(s.K_BARRIER),
    "copies_done": _on_branch_unit(s.K_COPY_DONE),
    "counter_wait": _on_branch_unit(s.K_DEPBAR),
    "fence": _fence,
    "sleep": _on_branch_unit(s.K_SLEEP),
    "launch_dependents": _on_branch_unit(s.K_LET_GO),
    "grid_wait": _on_branch_unit(s.K_GRID_WAIT),
}
