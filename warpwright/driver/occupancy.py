"""Occupancy: how many blocks an SM holds, and the block size that fills it best."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from warpwright.chips import OccupancyError, occupancy
from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.driver.functions import NON_PORTABLE, PORTABLE_CLUSTER, Function, function
from warpwright.engine.abi import MAX_CLUSTER
from warpwright.engine.geometry import clusters_at_once
from warpwright.isa.ops import FIRST_CLUSTERS

if TYPE_CHECKING:
    from warpwright.driver.launches import Launch


_FLAGS = 1
"""CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE."""


def active_blocks(target: Function, threads: int, shared: int, clustered: bool = False) -> int:
    """Number of blocks that one SM holds at once, ``clustered`` for blocks of clusters; 0 if none fits, or the dynamic
    shared memory exceeds its limit."""
    if shared > target.dynamic_shared_limit:
        return 0
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
    if threads <= 0 or flags & ~_FLAGS:
        return results.INVALID_VALUE
    cmemory.put32(place, active_blocks(function(handle), threads, shared))
    return None


def potential(target: Function, shared_of: Callable[[int], int], limit: int) -> tuple[int, int]:
    """(grid that fills the chip, threads per block) with the most resident threads; larger blocks win ties."""
    most = target.max_threads()
    limit = min(limit, most) if limit > 0 else most
    best, best_threads, best_blocks = 0, 0, 0
    for threads in range(limit, 0, -32) if limit % 32 == 0 else [limit, *range(limit // 32 * 32, 0, -32)]:
        blocks = active_blocks(target, threads, shared_of(threads))
        if blocks * threads > best:
            best, best_threads, best_blocks = blocks * threads, threads, blocks
    return best_blocks * state().gpu.chip.sm.sm_count, best_threads


@entry("cuOccupancyMaxPotentialBlockSize")
def max_potential(grid: int, block: int, handle: int, shared_function: int, shared: int, limit: int) -> None:
    if limit < 0:
        raise CudaError(results.INVALID_VALUE)

    def shared_of(threads: int) -> int:
        if not shared_function:
            return shared
        return int(ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(shared_function)(threads))

    blocks, threads = potential(function(handle), shared_of, limit)
    cmemory.put32(grid, blocks)
    cmemory.put32(block, threads)


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
    # Without each block's reserved part, as on an H200's driver; a launch has 1 KiB less.
    unit = chip.shared.shared_allocation_unit_bytes
    per_block = (chip.shared.shared_carveout_kib[-1] << 10) // blocks // unit * unit
    cmemory.put64(place, min(per_block - target.static_shared_bytes, target.dynamic_shared_limit))


def _launch_of(configuration: int, handle: int) -> Launch:
    """The contents of a CUlaunchConfig, without arguments.

    Raises:
        CudaError: for an invalid configuration.
    """
    from warpwright.driver.launches import Launch, check, with_attributes

    gx, gy, gz, bx, by, bz, shared, _, attributes, count = cmemory.read("7IQQI", configuration)
    made = Launch(function(handle), (gx, gy, gz), (bx, by, bz), shared, b"")
    if count:
        made = with_attributes(made, attributes, count)
    check(made)
    return made


def active_clusters(launch: Launch) -> int:
    """Clusters of a launch that run at the same time; 0 if neither the launch nor its kernel specifies a cluster size."""
    shape = launch.cluster or launch.function.cluster
    if not shape:
        return 0
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
    cmemory.put32(place, active_clusters(_launch_of(configuration, handle)))


@entry("cuOccupancyMaxPotentialClusterSize")
def max_potential_cluster(place: int, handle: int, configuration: int) -> None:
    cmemory.put32(place, largest_cluster(_launch_of(configuration, handle)))
