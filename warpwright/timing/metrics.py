"""Counters of the model under the names of Nsight Compute.

Names and units follow the Nsight Compute metrics reference; a metric that the model has no counter for is absent
rather than guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from warpwright.chips.chip import Chip
from warpwright.chips.occupancy import Occupancy
from warpwright.timing import state as s
from warpwright.timing.state import State


def sm_column(state: State, field: int) -> Any:
    """A scalar field of every SM, shape (sm_count,)."""
    return state.sms()[:, field].copy()


def by_instruction(state: State) -> tuple[Any, Any]:
    """Issues of each instruction, shape (instructions,), and waits before it by reason, (instructions, reasons)."""
    m = state.words
    at, count = int(m[s.chip.stalls]), int(m[s.chip.instructions])
    gpcs = int(m[s.chip.gpcs])
    tables = m[at : at + gpcs * count * len(s.STALLS)].reshape(gpcs, count, len(s.STALLS))
    waited = tables.sum(axis=0)
    issued = waited[:, s.ST_SELECTED].copy()
    waited[:, s.ST_SELECTED] = 0
    return issued, waited


def stalls(issued: Any, waited: Any) -> dict[str, int]:
    """Warp-cycles by reason, of instructions with these issues and waits (:func:`by_instruction`)."""
    return {**dict(zip(s.STALLS, map(int, waited.sum(axis=0)), strict=True)), "selected": int(issued.sum())}


def _percent(part: float, whole: float) -> float:
    return 100.0 * part / whole if whole else 0.0


def sms_by_slice(state: State, chip: Chip) -> Any:
    """The number of SMs that have accessed each slice of L2, shape (slices,)."""
    m, slices = state.words, chip.l2.l2_slice_count
    area = state.areas["touched"]
    turned = m[area : area + slices * int(m[s.chip.touched_words])].reshape(slices, -1)
    return np.unpackbits(turned.view(np.uint8), axis=1).sum(axis=1)


def end_fences(state: State, chip: Chip, whole: Chip | None = None) -> int:
    """Cycles at a launch's end in which its SMs' fences pass the slice that the most SMs have accessed.

    Measured by ``bench.machine.launch_ends --stores --passes``.  ``whole``: as in :func:`launch_lookups`.
    """
    sms = float(sms_by_slice(state, chip).max()) * (1.0 if whole is None else whole.sm.sm_count / chip.sm.sm_count)
    return round(sms * chip.launch.launch_end_fence_cycles)


def launch_lookups(
    state: State, chip: Chip, whole: Chip | None = None, instructions: int | None = None
) -> dict[str, float]:
    """Look-ups in L2 by the launch itself: code and constants by each GPC's cache, and fences at its end.

    Each pair of an SM and a slice that it accessed is one fence, as many cross to the other partition, and each slice has some of its own.
    Sectors under Nsight Compute's names; what crosses between two partitions is looked up in both.  ``whole``: the chip whose part was timed, where
    each SM is assumed to access as many slices.
    """
    m = state.words
    l2, partitions = chip.l2, chip.l2.l2_partition_count
    code_bytes = (instructions or int(m[s.chip.instructions])) * chip.instruction_cache.instruction_bytes
    fetch_bytes = chip.instruction_cache.gpc_icache_fetch_bytes
    once = -(-code_bytes // fetch_bytes) * fetch_bytes / chip.l1.sector_bytes + chip.launch.launch_fetch_sectors_count
    pairs = float(sms_by_slice(state, chip).sum()) * (1.0 if whole is None else whole.sm.sm_count / chip.sm.sm_count)
    chip = whole or chip
    gpcs = len(chip.sm.gpc_sm_counts)
    across = once if partitions == 2 else 0.0
    idle = 1 - pairs / (chip.sm.sm_count * l2.l2_slice_count)
    fences = pairs * partitions + chip.launch.launch_fences_count * l2.l2_slice_count
    idle_fences = chip.launch.launch_idle_fences_count * l2.l2_slice_count * idle
    return {
        "lts__t_sectors_srcunit_gcc_op_read.sum": gpcs * once,
        "lts__t_sectors_srcunit_ltcfabric_op_read.sum": across,
        "lts__t_sectors_op_read.sum": gpcs * once + across,
        "lts__t_sectors_op_membar.sum": fences + idle_fences,
        "lts__t_sectors.sum": gpcs * once + across + fences + idle_fences,
        "lts__t_sectors_lookup_hit.sum": max(gpcs - partitions, 0) * once + across + fences,
    }


def l2_lookups(state: State, chip: Chip, instructions: int | None = None) -> dict[str, float]:
    """Sectors looked up in L2 by source and operation, and those found, under Nsight Compute's names.

    What crosses to the other partition is looked up in both, the launch's own look-ups are in it. Writes are hits; of what is still
    on its way a read is a miss; partly written sectors that L2 completes from DRAM are looked up as writes, and missed.
    """
    m = state.words
    reads, far_reads = float(s.counted(m, s.SliceGroup.read)), float(s.counted(m, s.SliceGroup.far_reads))
    writes, far_writes = float(s.counted(m, s.SliceGroup.written)), float(s.counted(m, s.SliceGroup.far_writes))
    atomics = float(s.counted(m, s.SliceGroup.atomic, s.SliceGroup.far_atomics))
    completed = float(s.counted(m, s.SliceGroup.completed))
    hits = float(s.counted(m, s.SliceGroup.hits, s.SliceGroup.far_hits) - s.counted(m, s.SliceGroup.missed_atomic))
    hits += writes + far_writes + atomics
    own = {
        "lts__t_sectors.sum": reads + far_reads + writes + far_writes + completed + atomics,
        "lts__t_sectors_op_read.sum": reads + far_reads,
        "lts__t_sectors_op_write.sum": writes + far_writes + completed,
        "lts__t_sectors_op_atom.sum": atomics,
        "lts__t_sectors_op_membar.sum": 0.0,
        "lts__t_sectors_srcunit_tex_op_read.sum": reads,
        "lts__t_sectors_srcunit_tex_op_write.sum": writes,
        "lts__t_sectors_srcunit_ltcfabric_op_read.sum": far_reads,
        "lts__t_sectors_srcunit_gcc_op_read.sum": 0.0,
        "lts__t_sectors_lookup_hit.sum": hits,
    }
    launch = launch_lookups(state, chip, instructions=instructions)
    return {name: value + launch.get(name, 0.0) for name, value in own.items()}


def elsewhere(state: State) -> dict[str, float]:
    """Traffic to the host and to other devices; empty if there was none."""
    m = state.words
    counters = {
        "lts__t_sectors_srcunit_tex_aperture_sysmem.sum": s.SliceGroup.host_sectors,
        "pcie__read_bytes.sum": s.SliceGroup.host_read,
        "pcie__write_bytes.sum": s.SliceGroup.host_written,
        "nvlrx__bytes_data_user.sum": s.SliceGroup.peer_read,
        "nvltx__bytes_data_user.sum": s.SliceGroup.peer_written,
        "nvltx__packets_replayed.sum": s.SliceGroup.replays,
    }
    values = {name: float(s.counted(m, field)) for name, field in counters.items()}
    return {**(values if any(values.values()) else {}), **_widths(state), **_migrated(state), **_coherence(state)}


def _widths(state: State) -> dict[str, float]:
    """Links that reduce their width: the share of the time that they did, and their power; empty without any.  Nsight Compute has no such metrics."""
    m = state.words
    if not m[s.chip.widths_change]:
        return {}
    cycles = max(int(m[s.chip.now]), 1)
    first = int(m[s.chip.link_widths])
    rows = m[first : first + s.LINK_WAYS * s.LinkWidth.size].reshape(-1, s.LinkWidth.size)
    rows = rows[rows[:, s.LinkWidth.slowdown] > 0]
    still = rows[:, s.LinkWidth.slow] > 0
    reduced = (rows[:, s.LinkWidth.reduced] + still * (cycles - rows[:, s.LinkWidth.since])) / cycles
    power = 1 - reduced * (1 - rows[:, s.LinkWidth.power] / 256)
    return {
        "nvlink__width_changes.sum": float(rows[:, s.LinkWidth.changes].sum()),
        "nvlink__time_at_reduced_width.avg.pct": 100 * float(reduced.mean()),
        "nvlink__power.avg.pct": 100 * float(power.mean()),
    }


def _coherence(state: State) -> dict[str, float]:
    """Requests to a processor that shares page tables and caches; empty without one.  Nsight Compute has no such metrics."""
    m = state.words
    ats = {
        "ats__translation_requests.sum": s.chip.translation_requests,
        "ats__waiting_requests.sum": s.chip.translation_waits,
    }
    probes = {"probe_filter__lookups.sum": s.chip.probe_checks, "probe_filter__probes.sum": s.chip.probes}
    fields = {**(ats if m[s.chip.translations] else {}), **(probes if m[s.chip.probe_sets] else {})}
    return {name: float(m[field]) for name, field in fields.items()}


def _migrated(state: State) -> dict[str, float]:
    """Faults and pages of managed memory; empty if the launch reaches no memory whose pages move.  Nsight Compute has no such metrics."""
    m = state.words
    fields = {
        "uvm__gpu_page_faults.sum": s.chip.page_faults,
        "uvm__fault_batches.sum": s.chip.page_batches,
        "uvm__pages_migrated.sum": s.chip.pages_migrated,
        "uvm__pages_from_host.sum": s.chip.pages_from_host,
        "uvm__pages_populated.sum": s.chip.pages_populated,
        "uvm__pages_copied.sum": s.chip.pages_copied,
        "uvm__copies_recalled.sum": s.chip.pages_recalled,
        "uvm__pages_mapped.sum": s.chip.pages_mapped,
        "uvm__remote_accesses.sum": s.chip.remote_accesses,
        "uvm__access_counter_migrations.sum": s.chip.counter_moves,
        "uvm__regions_evicted.sum": s.chip.evictions,
        "uvm__pages_evicted.sum": s.chip.pages_evicted,
    }
    return {name: float(m[field]) for name, field in fields.items()} if m[s.chip.pages_move] else {}


def collect(
    state: State,
    chip: Chip,
    occupancy: Occupancy,
    cycles: int,
    reasons: Mapping[str, int],
    instructions: int | None = None,
) -> dict[str, float]:
    """Every metric of a finished launch; ``reasons``: its :func:`stalls`; ``instructions``: of its program, where the machine has other programs too."""
    sums = state.sms()[:, : s.SM.sub_cores].sum(axis=0)

    def total(field: int) -> float:
        return float(sums[field])

    return {
        **_executed(state, chip, total, cycles),
        **_l1(total),
        **_beyond_l1(state, chip, cycles, instructions),
        **_launched(chip, occupancy),
        **_pipes_and_stalls(reasons, total),
    }


Total = Callable[[int], float]
"""The sum of a field over the SMs."""


def _executed(state: State, chip: Chip, total: Total, cycles: int) -> dict[str, float]:
    """Time, instructions and warps."""
    sm = chip.sm
    sub_cores = sm.sm_count * sm.sub_core_count
    active = sm_column(state, s.SM.active)
    active_sum = float(active.sum())
    instructions = total(s.SM.instructions)
    issue_percent = _percent(
        instructions * chip.issue.issue_interval_cycles, chip.issue.issue_per_clk_count * sub_cores * cycles
    )
    lsu_percent = _percent(total(s.SM.lsu_wavefronts), sm.sm_count * cycles)
    active_slots = active_sum * sm.sub_core_count
    return {
        "gpc__cycles_elapsed.max": float(cycles),
        "gpu__time_duration.sum": _seconds(chip, cycles) * 1e9,
        "sm__cycles_active.avg": active_sum / sm.sm_count,
        "sm__cycles_active.max": float(active.max()),
        "sm__inst_executed.sum": instructions,
        "smsp__inst_executed.sum": instructions,
        "smsp__thread_inst_executed.sum": total(s.SM.threads),
        "smsp__inst_executed.avg.per_cycle_active": instructions / active_slots if active_sum else 0.0,
        "sm__inst_executed.avg.per_cycle_elapsed": instructions / (sm.sm_count * cycles) if cycles else 0.0,
        "smsp__warps_active.avg.per_cycle_active": total(s.SM.warp_cycles) / active_slots if active_sum else 0.0,
        "sm__warps_active.avg.pct_of_peak_sustained_active": _percent(
            total(s.SM.warp_cycles), active_sum * sm.max_warps_per_sm
        ),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": max(issue_percent, lsu_percent),
    }


def _seconds(chip: Chip, cycles: int) -> float:
    return cycles / (chip.clocks.sm_clock_mhz * 1e6)


def _l1(total: Total) -> dict[str, float]:
    """L1, shared memory and the load/store unit."""
    load_sectors, load_hits = total(s.SM.load_sectors), total(s.SM.load_hits)
    local_sectors, local_hits = total(s.SM.local_sectors), total(s.SM.local_hits)
    store_sectors, atomic_sectors = total(s.SM.store_sectors), total(s.SM.atomic_sectors)
    waves, ideal = total(s.SM.shared_wavefronts), total(s.SM.shared_ideal)
    return {
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": total(s.SM.global_loads),
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": total(s.SM.global_stores),
        "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum": total(s.SM.local_loads),
        "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum": total(s.SM.local_stores),
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": load_sectors,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": load_hits,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": store_sectors,
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": local_sectors,
        "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum": local_hits,
        "l1tex__t_sector_hit_rate.pct": _percent(
            load_hits + local_hits, load_sectors + local_sectors + store_sectors + atomic_sectors
        ),
        "l1tex__data_pipe_lsu_wavefronts.sum": total(s.SM.lsu_wavefronts),
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": waves,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": waves - ideal,
        "smsp__inst_executed_op_shared_ld.sum": total(s.SM.shared_loads),
        "smsp__inst_executed_op_shared_st.sum": total(s.SM.shared_stores),
    }


def _beyond_l1(state: State, chip: Chip, cycles: int, instructions: int | None) -> dict[str, float]:
    """L2, links and DRAM."""
    m = state.words
    lookups = l2_lookups(state, chip, instructions)
    near = s.counted(m, s.SliceGroup.read, s.SliceGroup.written, s.SliceGroup.atomic)
    l2_sectors = float(near + s.counted(m, s.SliceGroup.far_reads, s.SliceGroup.far_writes, s.SliceGroup.far_atomics))
    sector = float(chip.l1.sector_bytes)
    reads, writes = (sector * s.dram_counted(m, field) for field in (s.Channel.sectors_read, s.Channel.sectors_written))
    dram_bytes_per_clk = chip.dram.dram_gb_per_s * 1000 / chip.clocks.sm_clock_mhz
    l2_bytes_per_clk = chip.l2.l2_slice_count * chip.l2.l2_slice_bytes_per_clk
    seconds = _seconds(chip, cycles)
    return {
        **lookups,
        **elsewhere(state),
        "lts__t_sector_hit_rate.pct": _percent(lookups["lts__t_sectors_lookup_hit.sum"], lookups["lts__t_sectors.sum"]),
        "lts__throughput.avg.pct_of_peak_sustained_elapsed": _percent(l2_sectors * sector, l2_bytes_per_clk * cycles),
        "dram__bytes_read.sum": reads,
        "dram__bytes_write.sum": writes,
        "dram__bytes.sum": reads + writes,
        "dram__bytes.sum.per_second": (reads + writes) / seconds if seconds else 0.0,
        "dram__throughput.avg.pct_of_peak_sustained_elapsed": _percent(reads + writes, dram_bytes_per_clk * cycles),
    }


def _launched(chip: Chip, occupancy: Occupancy) -> dict[str, float]:
    """Occupancy and its limits."""
    return {
        "launch__occupancy_limit_blocks": float(occupancy.block_limits["blocks"]),
        "launch__occupancy_limit_registers": float(occupancy.block_limits["registers"]),
        "launch__occupancy_limit_shared_mem": float(occupancy.block_limits["shared memory"]),
        "launch__occupancy_limit_warps": float(occupancy.block_limits["warps"]),
        "launch__occupancy_limit_barriers": float(occupancy.block_limits["barriers"]),
        "launch__occupancy_per_block_size": occupancy.fraction * 100,
        "launch__sm_count": float(chip.sm.sm_count),
    }


def _pipes_and_stalls(reasons: Mapping[str, int], total: Total) -> dict[str, float]:
    """Instructions of each pipe, and the mean wait of an issued instruction for each reason; none that are 0."""
    result = {}
    for pipe, name in enumerate(s.PIPES):
        issued = total(s.SM.pipe_issues[pipe])
        if pipe != s.P_NONE and issued:
            result[f"smsp__inst_executed_pipe_{name}.sum"] = issued
    issued_total = max(total(s.SM.instructions), 1.0)
    for name, waited in reasons.items():
        if waited:
            result[f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio"] = waited / issued_total
    return result


def shares(metrics: dict[str, float]) -> dict[str, float]:
    """Speed of light: percent of its peak that each unit reached."""
    return {
        "instruction issue and execution pipes": metrics["sm__throughput.avg.pct_of_peak_sustained_elapsed"],
        "L2": metrics["lts__throughput.avg.pct_of_peak_sustained_elapsed"],
        "DRAM": metrics["dram__throughput.avg.pct_of_peak_sustained_elapsed"],
    }


BINDING_SHARE = 0.6
"""A bound binds when it explains this share of the cycles after the launch overhead."""
OVERHEAD_SHARE = 0.6
"""From here on a launch is mostly overhead."""

_REASON_WORDS = {
    "long_scoreboard": "warps wait for global, local or L2 memory",
    "short_scoreboard": "warps wait for shared memory, special functions or other queued results",
    "math_pipe_throttle": "warps wait for a busy math pipe",
    "mio_throttle": "warps wait for the memory instruction queue",
    "lg_throttle": "warps wait for the queue of global accesses",
    "wait": "warps wait for fixed latencies of dependent arithmetic",
    "not_selected": "more warps are ready than a scheduler can issue",
    "barrier": "warps wait for each other at block barriers",
    "no_instruction": "warps wait for instructions to be fetched",
    "imc_miss": "warps wait for constants",
    "branch_resolving": "warps wait for branches",
    "membar": "warps wait for memory fences",
    "sleeping": "warps sleep",
    "dispatch_stall": "warps wait for the dispatch unit",
    "drain": "warps wait for their last stores",
}


def bottleneck(
    cycles: int,
    overhead_cycles: int,
    bounds: dict[str, float],
    reasons: dict[str, int],
    details: Mapping[str, object] = MappingProxyType({}),
) -> str:
    """One sentence: the launch itself, the binding lower bound when time is close to it, or what warps wait for most.

    Every bound holds the launch overhead; shares are of the cycles after it.  ``details`` has, by name of the bound, what the sentence adds about its work.
    """
    if overhead_cycles >= OVERHEAD_SHARE * cycles:
        return f"launch overhead ({100 * overhead_cycles / max(cycles, 1):.0f}% of the time is before the first block runs)"
    name, bound = max(bounds.items(), key=lambda item: item[1])
    bound, cycles = max(bound - overhead_cycles, 0.0), cycles - overhead_cycles
    waiting = {k: v for k, v in reasons.items() if k not in ("selected",)}
    reason, waited = max(waiting.items(), key=lambda item: item[1])
    all_cycles = max(sum(reasons.values()), 1)
    share = f"{100 * bound / max(cycles, 1):.0f}%"
    binds = f"{name} binds: its work alone takes at least {share} of the cycles after launch"
    if cycles and bound / cycles >= BINDING_SHARE:
        return f"{binds}; {details[name]}" if details.get(name) is not None else binds
    if waited == 0:
        return binds
    return (
        f"latency: {_REASON_WORDS.get(reason, reason)} ({100 * waited / all_cycles:.0f}% of warp time); "
        f"the nearest limit is {name} at {share}"
    )


def as_array(values: Any) -> Any:
    """A copy as int64."""
    return np.asarray(values, np.int64).copy()
