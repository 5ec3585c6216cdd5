"""Grid, block and cluster of a launch, and whether a chip can run them."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from math import prod
from typing import Any

from warpwright.chips import Chip, Occupancy, OccupancyError, occupancy
from warpwright.engine.abi import MAX_CLUSTER
from warpwright.errors import LaunchError
from warpwright.isa.ops import FIRST_CLUSTERS
from warpwright.isa.program import Program

Dim3 = tuple[int, int, int]
MAX_BLOCK: Dim3 = (1024, 1024, 64)
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
"""CUDA C++ Programming Guide, table of technical specifications per compute capability (6.0 to 9.0 agree)."""
FIRST_MAX_BLOCK: Dim3 = (512, 512, 64)
FIRST_MAX_GRID: Dim3 = (65535, 65535, 1)
"""CUDA Programming Guide 1.1, appendix A.1, for compute capability 1.x."""
FERMI_MAX_GRID: Dim3 = (65535, 65535, 65535)
"""CUDA C Programming Guide 3.2, appendix F, for compute capability 2.x."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Shape of a launch."""

    grid: Dim3
    block: Dim3
    dynamic_shared_bytes: int = 0
    reserved_shared_bytes: int = 0
    """Bytes at the start of shared memory that the system keeps and the kernel's static size includes (sm_90: 1,024)."""
    cluster: Dim3 | None = None
    """Blocks of a cluster, if the launch or the kernel specifies them."""
    lanes: int = 32
    """Threads of a warp (``Program.lanes``)."""

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def cluster_shape(self) -> Dim3:
        """Blocks of a cluster by axis; (1, 1, 1) without clusters."""
        return self.cluster or (1, 1, 1)

    @property
    def clusters(self) -> Dim3:
        """Clusters of the grid by axis."""
        (x, y, z), (a, b, c) = self.grid, self.cluster_shape
        return x // a, y // b, z // c

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster."""
        return 1 if self.cluster is None else prod(self.cluster)

    def clustered_block(self, number: int) -> int:
        """Linear index in the grid of block ``number`` in dispatch order: cluster by cluster, by rank within each."""
        if self.cluster is None:
            return number
        cluster, rank = divmod(number, self.cluster_blocks)
        index, following = 0, 1
        for size, of_cluster in zip(self.grid, self.cluster, strict=True):
            cluster, high = divmod(cluster, size // of_cluster)
            rank, low = divmod(rank, of_cluster)
            index += (high * of_cluster + low) * following
            following *= size
        return index

    @property
    def threads_per_block(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps_per_block(self) -> int:
        return -(-self.threads_per_block // self.lanes)


def as_dim3(value: Any, what: str) -> Dim3:
    """A positive int, or one to three of them, as (x, y, z).

    Raises:
        LaunchError: for any other value, naming ``what`` ("grid" or "block").
    """
    parts = value if isinstance(value, tuple | list) else (value,)
    try:
        numbers = [operator.index(p) for p in parts]
    except TypeError:
        numbers = []
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise LaunchError(f"{what} is one to three positive integers, not {value!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def launch_shared_bytes(program: Program, geometry: Geometry) -> int:
    """Shared memory of a block, static and dynamic, without the system's part."""
    return program.shared_static_bytes - geometry.reserved_shared_bytes + geometry.dynamic_shared_bytes


def launch_occupancy(program: Program, geometry: Geometry, chip: Chip) -> Occupancy:
    """Number of this launch's blocks that fit one SM at once, and the limiting resource."""
    shared = launch_shared_bytes(program, geometry)
    clustered = geometry.cluster is not None
    return occupancy(
        *(chip, geometry.threads_per_block, program.registers, shared, max(program.barriers, 1), clustered),
        lanes=program.lanes,
    )


def most_extents(arch: int) -> tuple[Dim3, Dim3]:
    """The largest extents of a block and of a grid; AMD's chips use Fermi's (Direct3D 11)."""
    if 10 <= arch < 20:
        return FIRST_MAX_BLOCK, FIRST_MAX_GRID
    return MAX_BLOCK, MAX_GRID if arch >= 30 else FERMI_MAX_GRID


def check_geometry(program: Program, geometry: Geometry, chip: Chip, kernel: str) -> Occupancy:
    """Refuse a launch that the chip cannot run; otherwise return its occupancy.

    Raises:
        LaunchError: names the exceeded quantity, the chip's limit and what to do.
    """
    threads, most_threads = geometry.threads_per_block, chip.sm.max_threads_per_block
    allowed = min(most_threads, program.max_threads_per_block or most_threads)
    if threads > most_threads:
        raise LaunchError(
            f"{kernel}: a block of {threads:,} threads {geometry.block}: {chip.name} runs at most "
            f"{most_threads:,} threads in a block; use smaller blocks and more of them"
        )
    if threads > allowed:
        raise LaunchError(
            f"{kernel}: a block of {threads:,} threads {geometry.block}: the kernel was compiled for at most {allowed:,} "
            "(__launch_bounds__ or .maxntid); use smaller blocks and more of them"
        )
    most_block, most_grid = most_extents(chip.arch)
    for what, sizes, limits in (("block", geometry.block, most_block), ("grid", geometry.grid, most_grid)):
        for axis, size, most in zip("xyz", sizes, limits, strict=True):
            if size > most:
                raise LaunchError(f"{kernel}: {what}.{axis} is {size:,}: {chip.name} allows at most {most:,}")
    if geometry.dynamic_shared_bytes < 0:
        raise LaunchError(f"{kernel}: {geometry.dynamic_shared_bytes} bytes of dynamic shared memory were asked for")
    static = program.shared_static_bytes - geometry.reserved_shared_bytes
    needed = static + geometry.dynamic_shared_bytes
    most_shared = chip.shared.shared_max_per_block_kib * 1024
    if needed > most_shared:
        raise LaunchError(
            f"{kernel}: a block needs {needed:,} bytes of shared memory ({static:,} static, "
            f"{geometry.dynamic_shared_bytes:,} dynamic): {chip.name} gives a block at most {most_shared:,}"
        )
    try:
        resident = launch_occupancy(program, geometry, chip)
    except OccupancyError as reason:
        raise LaunchError(f"{kernel}: {reason}; use smaller blocks or __launch_bounds__") from None
    if geometry.cluster is not None:
        check_cluster(geometry, resident, chip, kernel)
    return resident


def clusters_at_once(cluster_blocks: int, blocks_per_sm: int, chip: Chip) -> int:
    """Number of clusters that the chip holds at once: all blocks of a cluster are in the same GPC."""
    return sum(sms * blocks_per_sm // cluster_blocks for sms in chip.sm.cluster_sm_counts if sms >= cluster_blocks)


def check_cluster(geometry: Geometry, resident: Occupancy, chip: Chip, kernel: str) -> None:
    """Refuse clusters that the chip could not launch.

    Raises:
        LaunchError: names the exceeded quantity, the chip's limit and what to do.
    """
    shape = " x ".join(str(blocks) for blocks in geometry.cluster_shape)
    if chip.arch < FIRST_CLUSTERS:
        raise LaunchError(
            f"{kernel}: {chip.name} has no thread block clusters (sm_{FIRST_CLUSTERS} and later do, such as h200), and the "
            f"launch asks for clusters of {shape} blocks"
        )
    if geometry.cluster_blocks > MAX_CLUSTER:
        raise LaunchError(
            f"{kernel}: clusters of {shape} are {geometry.cluster_blocks} blocks: {chip.name} runs at most {MAX_CLUSTER} "
            "in a cluster"
        )
    for axis, size, blocks in zip("xyz", geometry.grid, geometry.cluster_shape, strict=True):
        if size % blocks:
            raise LaunchError(
                f"{kernel}: grid.{axis} is {size:,}, which clusters of {shape} blocks do not divide: it must be a multiple "
                f"of {blocks}"
            )
    if not clusters_at_once(geometry.cluster_blocks, resident.blocks_per_sm, chip):
        raise LaunchError(
            f"{kernel}: clusters of {geometry.cluster_blocks} blocks do not fit a GPC of {chip.name}, which has "
            f"{max(chip.sm.cluster_sm_counts)} SMs with room for {resident.blocks_per_sm} of these blocks each; use smaller "
            "clusters or blocks with less shared memory"
        )


def check_cooperative(geometry: Geometry, resident: Occupancy, chip: Chip, kernel: str) -> None:
    """Refuse a grid whose blocks cannot all be resident, if the kernel synchronises the whole grid."""
    at_once = resident.blocks_per_sm * chip.sm.sm_count
    if geometry.blocks > at_once:
        raise LaunchError(
            f"{kernel} synchronises its whole grid, so all of its {geometry.blocks:,} blocks must run at once: "
            f"{chip.name} with {chip.sm.sm_count} SMs holds {at_once:,} of them; use fewer blocks"
        )
