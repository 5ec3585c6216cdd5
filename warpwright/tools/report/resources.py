"""The resources that can limit a launch: advice for each, and the numbers of the chip that relieve it.

A limit is the name of a lower bound (``timing/bounds.py``) or of a stall reason (Nsight Compute's words).  To relieve it
means twice the bandwidth or the lanes, or half the latency; everything else of the chip stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from warpwright.chips import Chip
from warpwright.timing.bounds import ATOMICS

Overrides = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Resource:
    """One thing that a launch can run into."""

    title: str
    """As a sentence's subject: ``DRAM bandwidth``."""
    advice: str
    """What a programmer can do, as the end of ``What would help: …``."""
    change: str = ""
    """The relieved chip in words: ``twice the DRAM bandwidth``; empty when no number of the chip stands for it."""
    overrides: Callable[[Chip], Overrides] | None = None


def _twice(*fields: str) -> Callable[[Chip], Overrides]:
    return lambda chip: {field: 2 * chip.get(field) for field in fields}


def _half(*fields: str) -> Callable[[Chip], Overrides]:
    def overrides(chip: Chip) -> Overrides:
        values = {field: chip.get(field) for field in fields}
        return {field: v / 2 if isinstance(v, float) else max(v // 2, 1) for field, v in values.items()}

    return overrides


def _tensor(chip: Chip) -> Overrides:
    fields = ("tensor_fp16_fma_per_clk", "tensor_fp64_fma_per_clk")
    return {field: 2 * chip.get(field) for field in fields if chip.get(field)}


LAUNCH = Resource(
    "launch overhead",
    "more work for each launch: a larger grid, or one kernel where there are several",
    "half the launch overhead",
    _half("launch_overhead_cycles"),
)
GRID = Resource(
    "a grid too small for the chip",
    "more blocks, so that every SM has some",
)
BALANCE = Resource(
    "unequal load of the SMs",
    "blocks of equal work, or more and shorter ones, so that SMs end together",
)
_FEWER_ATOMICS = (
    "fewer atomics on one word: add the values of a warp or a block first (__reduce_add_sync, warp shuffles, shared memory), or spread them over words "
    "that are added at the end, 1 KiB apart, because nearer words may be in the same slice"
)
WARPS_ATOMICS = Resource(
    "atomics of a warp's lanes on one word, which L2 executes one by one",
    _FEWER_ATOMICS,
    "the lanes of a warp on one word combined into one atomic",
    lambda _: {"l2_atomic_combined_lanes_count": 64},  # the widest wave
)
BOUNDS: Mapping[str, Resource] = {
    "instruction issue": Resource(
        "instruction issue",
        "fewer instructions: wider loads, less address arithmetic, unrolled loops",
    ),
    "ALU pipe": Resource(
        "the integer and logic pipe",
        "fewer comparisons, shifts and logical operations in the inner loop",
        "twice the ALU lanes",
        _twice("alu_lanes"),
    ),
    "half-precision pipe": Resource(
        "the half-precision pipe",
        "tensor cores for the products",
        "twice the half-precision lanes",
        _twice("half_lanes"),
    ),
    "FP64 pipe": Resource(
        "the FP64 pipe", "single precision where it is enough", "twice the FP64 lanes", _twice("fp64_lanes")
    ),
    "XU pipe": Resource(
        "the special-function pipe",
        "fewer divisions, roots, exponentials and conversions; fast approximations where they are enough",
        "twice the special-function lanes",
        _twice("xu_lanes"),
    ),
    "tensor pipe": Resource("the tensor pipe", "a smaller number format", "twice the tensor rate", _tensor),
    "FMA pipe": Resource(
        "the FP32 pipe",
        "fewer multiplications and additions, or tensor cores for products of matrices",
        "twice the FP32 lanes",
        _twice("fma_heavy_lanes", "fma_lite_lanes"),
    ),
    "integer multiply pipe": Resource(
        "the integer multiply pipe",
        "cheaper addresses: pointers that advance instead of products of indices",
        "twice the integer multiply lanes",
        _twice("fma_heavy_lanes"),
    ),
    "L1 and shared memory": Resource(
        "L1 and shared-memory throughput",
        "wider loads, neighbouring threads on neighbouring addresses, no bank conflicts",
        "twice the wavefronts per cycle",
        _twice("lsu_wavefronts_per_clk"),
    ),
    "L1 fill": Resource(
        "the way from L2 into L1",
        "reuse what is in L1 or shared memory: smaller tiles, all bytes of each sector used",
        "twice the fill bandwidth",
        _twice("l1_fill_bytes_per_clk", "gpc_read_bytes_per_clk"),
    ),
    "L2 bandwidth": Resource(
        "L2 bandwidth",
        "more reuse in shared memory and L1, and all bytes of each sector used",
        "twice the L2 bandwidth",
        _twice("l2_slice_bytes_per_clk", "gpc_read_bytes_per_clk", "store_port_bytes_per_clk"),
    ),
    ATOMICS: Resource(
        "the atomic throughput of one L2 slice",
        _FEWER_ATOMICS,
        "atomics of a slice twice as fast, as if they were spread over two slices",
        _half(
            "l2_atomic_sector_cycles",
            "l2_atomic_word_cycles",
            "l2_atomic_float_cycles",
            "l2_atomic_fp32_sector_cycles",
            "l2_atomic_fp16_sector_cycles",
            # Each atomic also takes the slice's read port and the link between the partitions.
            "l2_slice_access_bytes",
            "l2_far_atomic_bytes",
        ),
    ),
    "DRAM bandwidth": Resource(
        "DRAM bandwidth",
        "fewer bytes: smaller types, kernels fused so that results stay on the chip, reuse within L2",
        "twice the DRAM bandwidth",
        _twice("dram_gb_per_s"),
    ),
    "PCI Express": Resource(
        "PCI Express",
        "fewer bytes to and from the host: copy what is used again to the device first, read and write whole lines",
        "PCI Express twice as fast",
        _half(
            "host_ask_ns",
            "host_read_packet_ns",
            "host_read_sector_ns",
            "host_write_packet_ns",
            "host_write_sector_ns",
        ),
    ),
    "NVLink": Resource(
        "NVLink",
        "fewer bytes to and from other devices: copy what is used again first, read and write whole lines",
        "NVLink twice as fast",
        _half("peer_ask_ns", "peer_packet_ns", "peer_sector_ns"),
    ),
    "block launch": Resource(
        "the launch of blocks",
        "fewer and longer blocks: each thread takes several elements",
        "blocks launched twice as fast",
        _half("block_dispatch_interval_cycles", "block_sm_interval_cycles"),
    ),
    "latency of successive blocks": Resource(
        "the gap between a block and its successor",
        "longer blocks: each thread takes several elements",
        "half the gap between blocks",
        _half("block_launch_latency_cycles"),
    ),
}
L1_LATENCY = Resource(
    "the latency of L1",
    "more loads in flight: several independent loads before the first use, or more warps",
    "half the L1 latency",
    _half("l1_hit_latency_cycles"),
)
L2_LATENCY = Resource(
    "the latency of L2",
    "more loads in flight: several independent loads before the first use, or more warps",
    "half the L2 latency",
    _half("l2_hit_latency_cycles", "l2_far_latency_cycles"),
)
DRAM_LATENCY = Resource(
    "the latency of DRAM",
    "more loads in flight: several independent loads before the first use, or more warps",
    "half the DRAM latency",
    lambda chip: {"dram_latency_cycles": max(chip.dram.dram_latency_cycles // 2, chip.l2.l2_hit_latency_cycles)},
)
"""A DRAM access passes L2, so its latency cannot be lower than that of a hit there."""
MEMORY_LATENCY = Resource(
    "the latency of memory",
    "more loads in flight: several independent loads before the first use, or more warps",
    "half the latencies of L1, L2 and DRAM",
    lambda chip: {
        name: value
        for level in (L1_LATENCY, L2_LATENCY, DRAM_LATENCY)
        if level.overrides is not None
        for name, value in level.overrides(chip).items()
    },
)
"""For launches that were not timed with one level relieved and whose loads several levels answer."""
LAST_WAVE = Resource(
    "the last wave of blocks",
    "a grid that fills the chip a whole number of times, or blocks that take several tiles each",
    "as many SMs as take the last wave with the others",
)
"""Its overrides depend on the grid."""
STALLS: Mapping[str, Resource] = {
    "not_selected": BOUNDS["instruction issue"],
    "wait": Resource(
        "the latency of dependent arithmetic",
        "independent work between dependent instructions: several sums at once, or more warps",
        "half the arithmetic latency",
        _half("alu_latency_cycles", "fma_latency_cycles", "half_latency_cycles", "fp64_latency_cycles"),
    ),
    "short_scoreboard": Resource(
        "the latency of shared memory and special functions",
        "independent work after shared loads, shuffles and special functions, or more warps",
        "half the latencies of shared memory and special functions",
        _half(
            "shared_load_latency_cycles",
            "xu_latency_cycles",
            "shuffle_latency_cycles",
            "special_register_latency_cycles",
        ),
    ),
    "math_pipe_throttle": BOUNDS["FMA pipe"],
    "mio_throttle": Resource(
        "the queue of memory instructions",
        "fewer, wider accesses to memory, and arithmetic between them",
        "a queue twice as fast",
        _half("mio_sub_core_interval_cycles"),
    ),
    "lg_throttle": Resource(
        "the queue of global accesses",
        "fewer, wider accesses to global memory",
        "a queue twice as fast",
        _half("mio_sub_core_interval_cycles"),
    ),
    "no_instruction": Resource(
        "instruction fetch",
        "a smaller kernel: less unrolling and inlining",
        "instruction caches twice as fast",
        _half("l1_icache_latency_cycles", "l1_icache_line_interval_cycles", "l2_icache_line_interval_cycles"),
    ),
    "imc_miss": Resource(
        "misses of the constant cache",
        "longer blocks, so that constants and parameters are read once for more work",
        "half the latency of the constant cache",
        _half("l15_constant_latency_cycles"),
    ),
    "barrier": Resource(
        "block barriers",
        "fewer __syncthreads(), evenly loaded warps, or more and smaller blocks on an SM",
        "half the latency of block barriers",
        _half("block_barrier_latency_cycles", "block_barrier_warp_interval_cycles"),
    ),
    "branch_resolving": Resource(
        "branches",
        "unrolled loops and predicated instead of branching code",
        "half the latency of branches",
        _half("branch_latency_cycles"),
    ),
    "membar": Resource(
        "memory fences",
        "fewer fences, or fences for the block only",
        "half the latency of fences",
        _half("membar_gpu_latency_cycles", "membar_block_latency_cycles"),
    ),
    "sleeping": Resource("sleeping warps", "shorter __nanosleep() times"),
    "dispatch_stall": Resource("the dispatch unit", "fewer register-bank conflicts"),
    "drain": Resource("stores on their way at the end", "stores that are spread over the kernel"),
}
MEANINGS: Mapping[str, str] = {
    "selected": "issued an instruction",
    "not_selected": "was ready, another warp went first",
    "wait": "fixed latency of the instruction before",
    "short_scoreboard": "result from shared memory, special functions or another queued unit",
    "long_scoreboard": "data from global or local memory",
    "math_pipe_throttle": "its math pipe was busy",
    "mio_throttle": "the queue of memory instructions was full",
    "lg_throttle": "the queue of global accesses was full",
    "no_instruction": "instruction fetch",
    "imc_miss": "constant cache miss",
    "barrier": "other warps at a block barrier",
    "branch_resolving": "target of a branch",
    "membar": "memory fence",
    "sleeping": "__nanosleep()",
    "dispatch_stall": "dispatch unit",
    "drain": "last stores of the warp",
}
