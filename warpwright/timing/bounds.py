"""Closed-form lower bounds of a launch's cycles: the least time of each unit for the counted work.

Simulated time may never fall below any of them; a test proves it for synthetic and random kernels.
"""

from __future__ import annotations

from warpwright.chips.chip import Chip
from warpwright.timing import state as s
from warpwright.timing.interface import BusiestSlice
from warpwright.timing.l2_hazards import FRACTION
from warpwright.timing.metrics import sm_column
from warpwright.timing.state import State


def _links(state: State) -> dict[str, float]:
    """Bounds of the links to the host and to other devices. A write is acknowledged when it begins to leave, so the last writes of each group of slices do not count."""
    m = state.words
    use = int(m[s.chip.link_use])
    taken = m[use : use + s.LINK_WAYS * s.SLICE_GROUPS].reshape(s.LINK_WAYS, s.SLICE_GROUPS).sum(axis=1)
    routes = int(m[s.chip.peer_routes])
    fields = m[routes : routes + s.MAX_PEER_ROUTES * s.PeerRoute.size].reshape(-1, s.PeerRoute.size)
    ways = (
        ("PCI Express", taken[: s.LK_TO_PEER].max(), m[s.chip.host_write]),
        ("NVLink", taken[s.LK_TO_PEER :].max(), fields[:, s.PeerRoute.sector].max()),
    )
    return {
        name: max((int(busiest) - 6 * s.SLICE_GROUPS * int(packet)) / 256, 0.0)
        for name, busiest, packet in ways
        if busiest
    }


ATOMICS = "atomic throughput of one L2 slice"
LEAST_UNEVEN = 2
"""Minimum ratio of the time of a slice's atomics to the mean over all slices at which the slice is named as a limit."""


def busiest_slice(state: State, host_minus_device: int) -> BusiestSlice | None:
    """The slice whose atomics took the most time; None if atomics are spread over all slices, or if it executed fewer than two.

    Args:
        state: after the launch.
        host_minus_device: what the state's addresses exceed device addresses by.
    """
    m = state.words
    first, count = int(m[s.chip.slice_queues]), int(m[s.chip.slices])
    queues = m[first : first + count * s.SliceQueue.size].reshape(count, s.SliceQueue.size)
    number = int(queues[:, s.SliceQueue.atomics_taken].argmax())
    taken, requests, passes, line, line_requests = (
        int(queues[number, field])
        for field in (
            s.SliceQueue.atomics_taken,
            s.SliceQueue.atomics_requests,
            s.SliceQueue.atomics_passes,
            s.SliceQueue.busiest,
            s.SliceQueue.busiest_requests,
        )
    )
    mean = float(queues[:, s.SliceQueue.atomics_taken].mean())
    if not taken or taken < min(LEAST_UNEVEN, count) * mean:
        return None
    line_bytes = int(m[s.chip.line_bytes])
    address = (line - 1) * line_bytes - host_minus_device
    return BusiestSlice(number, requests, passes, taken / (1 << FRACTION), address, line_bytes, line_requests)


def _busiest(state: State, field: int) -> float:
    """The largest value of an SM's counter."""
    return float(sm_column(state, field).max())


def _issue_and_pipes(state: State, chip: Chip) -> dict[str, float]:
    """Bounds by issue and by each pipe."""
    pipes, sub_cores, wave = chip.pipes, chip.sm.sub_core_count, int(state.words[s.chip.lanes])
    intervals = {
        ("ALU", s.P_ALU): wave / (pipes.alu_lanes or pipes.fma_heavy_lanes),
        ("half-precision", s.P_HALF): wave / pipes.half_lanes,
        ("FP64", s.P_FP64): wave / pipes.fp64_lanes,
        ("XU", s.P_XU): wave / max(pipes.xu_lanes, wave // pipes.special_register_interval_cycles),
    }
    slots = sub_cores * chip.issue.issue_per_clk_count
    bounds = {"instruction issue": _busiest(state, s.SM.instructions) * chip.issue.issue_interval_cycles / slots}
    for (name, pipe), interval in intervals.items():
        bounds[f"{name} pipe"] = _busiest(state, s.SM.pipe_issues[pipe]) * interval / sub_cores
    fma = sm_column(state, s.SM.pipe_issues[s.P_FMA]) + sm_column(state, s.SM.pipe_issues[s.P_FMA_HEAVY])
    lanes = pipes.fma_heavy_lanes + pipes.fma_lite_lanes
    both = sm_column(state, s.SM.pipe_issues[s.P_FMA_PAIR])
    fma = fma + both * (lanes / pipes.fma_heavy_lanes)
    bounds["FMA pipe"] = float(fma.max()) * wave / lanes / sub_cores
    heavy = float((sm_column(state, s.SM.pipe_issues[s.P_FMA_HEAVY]) + both).max())
    heavy *= wave / pipes.fma_heavy_lanes / sub_cores
    if pipes.alu_lanes:
        bounds["integer multiply pipe"] = heavy
    else:  # one kind of core for all arithmetic
        bounds["FMA pipe"] = max(bounds["FMA pipe"], heavy)
    return bounds


BUCKET_CYCLES, DRAM_BUCKET_CYCLES = float(1 << s.CALENDAR_SHIFT), float(1 << s.DRAM_SHIFT)
"""Calendars of shared units hand out whole buckets: a bucket's worth of slack belongs to the bound."""


def _memory(state: State, chip: Chip) -> dict[str, float]:
    """Bounds by L1, L2 and DRAM."""
    m, sector_bytes = state.words, chip.l1.sector_bytes
    l1 = _busiest(state, s.SM.lsu_wavefronts) / chip.mio.lsu_wavefronts_per_clk
    fill = _busiest(state, s.SM.fill_sectors) * sector_bytes / chip.l1.l1_fill_bytes_per_clk
    l2_sectors = float(s.counted(m, s.SliceGroup.read, s.SliceGroup.written, s.SliceGroup.atomic))
    l2 = l2_sectors * sector_bytes / (chip.l2.l2_slice_count * chip.l2.l2_slice_bytes_per_clk)
    # Writes still queued at the end have not used the bus.
    queued = float(s.dram_counted(m, s.Channel.writes))
    dram_sectors = float(s.dram_counted(m, s.Channel.sectors_read, s.Channel.sectors_written)) - queued
    dram_bytes_per_clk = chip.dram.dram_gb_per_s * 1000 / chip.clocks.sm_clock_mhz
    last_batches = float(_write_batch_bytes(chip) * _channels(state)) / dram_bytes_per_clk
    dram = dram_sectors * sector_bytes / dram_bytes_per_clk - DRAM_BUCKET_CYCLES - last_batches
    return {
        "L1 and shared memory": max(l1 - BUCKET_CYCLES, 0.0),
        "L1 fill": max(fill - BUCKET_CYCLES, 0.0),
        "L2 bandwidth": max(l2 - BUCKET_CYCLES, 0.0),
        "DRAM bandwidth": max(dram, 0.0),
    }


def lower_bounds(
    state: State, chip: Chip, blocks: int, blocks_per_sm: int, atomics: BusiestSlice | None
) -> dict[str, float]:
    """Cycles by unit.  The busiest SM counts where work is an SM's own; whole-chip units divide what is common.

    Args:
        atomics: what :func:`busiest_slice` returns.
    """
    overhead = float(chip.launch.launch_overhead_cycles)
    bounds = _issue_and_pipes(state, chip) | _memory(state, chip) | _links(state)
    if atomics is not None:
        bounds[ATOMICS] = max(atomics.cycles - BUCKET_CYCLES, 0.0)
    rounds = -(-blocks // (chip.sm.sm_count * blocks_per_sm))
    bounds["block launch"] = blocks * chip.launch.block_dispatch_interval_cycles
    bounds["latency of successive blocks"] = float((rounds - 1) * chip.launch.block_launch_latency_cycles)
    return {name: overhead + value for name, value in bounds.items()}


def _write_batch_bytes(chip: Chip) -> int:
    """The largest batch of writes of a channel."""
    requests = chip.dram.dram_write_batch_requests_count
    if requests:
        return requests * chip.l1.l1_line_bytes
    return chip.dram.dram_write_batch_bursts * chip.l1.sector_bytes


def _channels(state: State) -> int:
    return int(state.words[s.chip.channels_per_slice] * state.words[s.chip.slices])
