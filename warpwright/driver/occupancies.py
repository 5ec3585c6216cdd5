"""Occupancy: how many blocks an SM holds, and the block size that fills it best."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from warpwright.chips import OccupancyError, occupancy
from warpwright.driver import c, results
from warpwright.driver.calls import CudaError, entry
from warpwright.driver.functions import NON_PORTABLE, PORTABLE_CLUSTER, Function, function
from warpwright.driver.state import state
from warpwright.engine.abi import MAX_CLUSTER
from warpwright.engine.launch import clusters_at_once
from warpwright.isa.ops import FIRST_CLUSTERS

if TYPE_CHECKING:
    from warpwright.driver.launches import Launch


def active_blocks(target: Function, threads: int, shared: int, clustered: bool = False) -> int:
    """Blocks that one SM holds at once, ``clustered`` those of clusters; 0 when not one fits."""
    try:
        record = target.record
        found = occupancy(
            state().gpu.chip,
            threads,
            record.registers,
            target.static_shared_bytes + shared,
            max(record.barriers, 1),
            clustered,
        )
    except OccupancyError:
        return 0
    return found.blocks_per_sm


@entry("cuOccupancyMaxActiveBlocksPerMultiprocessor")
def max_active(place: int, handle: int, threads: int, shared: int) -> int | None:
    return max_active_with_flags(place, handle, threads, shared, 0)


@entry("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
def max_active_with_flags(place: int, handle: int, threads: int, shared: int, flags: int) -> int | None:
    if threads <= 0:
        return results.INVALID_VALUE
    c.put32(place, active_blocks(function(handle), threads, shared))
    return None


def potential(target: Function, shared_of: Callable[[int], int], limit: int) -> tuple[int, int]:
    """(grid that fills the chip, threads of a block) with the most resident threads; larger blocks win a draw."""
    most = target.max_threads()
    limit = min(limit, most) if limit > 0 else most
    best, best_threads, best_blocks = -1, 0, 0
    for threads in range(limit, 0, -32) if limit % 32 == 0 else [limit, *range(limit // 32 * 32, 0, -32)]:
        blocks = active_blocks(target, threads, shared_of(threads))
        if blocks * threads > best:
            best, best_threads, best_blocks = blocks * threads, threads, blocks
    return best_blocks * state().gpu.chip.sm.sm_count, best_threads


@entry("cuOccupancyMaxPotentialBlockSize")
def max_potential(grid: int, block: int, handle: int, shared_function: int, shared: int, limit: int) -> None:
    def shared_of(threads: int) -> int:
        if not shared_function:
            return shared
        return int(ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(shared_function)(threads))

    blocks, threads = potential(function(handle), shared_of, limit)
    c.put32(grid, blocks)
    c.put32(block, threads)


@entry("cuOccupancyMaxPotentialBlockSizeWithFlags")
def max_potential_with_flags(
    grid: int, block: int, handle: int, shared_function: int, shared: int, limit: int, flags: int
) -> None:
    max_potential(grid, block, handle, shared_function, shared, limit)


@entry("cuOccupancyAvailableDynamicSMemPerBlock")
def available_shared(place: int, handle: int, blocks: int, threads: int) -> None:
    chip = state().gpu.chip
    target = function(handle)
    if blocks <= 0 or active_blocks(target, threads, 0) < blocks:
        raise CudaError(results.INVALID_VALUE)
    unit = chip.shared.shared_allocation_unit_bytes
    per_block = (chip.shared.shared_carveout_kib[-1] << 10) // blocks // unit * unit
    room = per_block - chip.shared.shared_reserved_bytes_per_block - target.static_shared_bytes
    c.put64(place, min(room, (chip.shared.shared_max_per_block_kib << 10) - target.static_shared_bytes))


def _launch_of(configuration: int, handle: int) -> Launch:
    """What a CUlaunchConfig asks for, without arguments."""
    from warpwright.driver.launches import Launch, with_attributes

    gx, gy, gz, bx, by, bz, shared, _, attributes, count = c.read("7IQQI", configuration)
    made = Launch(function(handle), (gx, gy, gz), (bx, by, bz), shared, b"")
    return with_attributes(made, attributes, count) if count else made


def active_clusters(launch: Launch) -> int:
    """Clusters of a launch that run at the same time.

    Raises:
        CudaError: when neither the launch nor its kernel says how large a cluster is.
    """
    shape = launch.cluster or launch.function.cluster
    if not shape:
        raise CudaError(results.INVALID_VALUE)
    resident = active_blocks(launch.function, prod(launch.block), launch.shared, clustered=True)
    return clusters_at_once(prod(shape), resident, state().gpu.chip) if resident else 0


def largest_cluster(launch: Launch) -> int:
    """Blocks of the largest cluster that a launch could have; 0 on a chip without clusters."""
    chip = state().gpu.chip
    resident = active_blocks(launch.function, prod(launch.block), launch.shared, clustered=True)
    most = MAX_CLUSTER if launch.function.attribute(NON_PORTABLE) else PORTABLE_CLUSTER
    while most > 1 and not (resident and clusters_at_once(most, resident, chip)):
        most //= 2
    return most if chip.arch >= FIRST_CLUSTERS else 0


@entry("cuOccupancyMaxActiveClusters")
def max_active_clusters(place: int, handle: int, configuration: int) -> None:
    c.put32(place, active_clusters(_launch_of(configuration, handle)))


@entry("cuOccupancyMaxPotentialClusterSize")
def max_potential_cluster(place: int, handle: int, configuration: int) -> None:
    c.put32(place, largest_cluster(_launch_of(configuration, handle)))
