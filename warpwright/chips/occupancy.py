"""Theoretical occupancy: how many blocks of a kernel one SM holds, and which resource limits them.

Rules: CUDA C++ Programming Guide, compute capabilities: registers are allocated per warp in
units, warps in units, shared memory in units plus what the system reserves for each block; the
shared-memory carve-out is the smallest step that holds what the other limits allow.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.chips.chip import Chip
from warpwright.errors import WarpwrightError


class OccupancyError(WarpwrightError, ValueError):
    """A block that no SM of the chip can hold."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident blocks of one SM and what bounds them."""

    blocks_per_sm: int
    warps_per_block: int
    limiter: str
    """warps | blocks | registers | shared memory | barriers | clusters."""
    block_limits: dict[str, int]
    """Blocks that each resource alone would allow."""
    shared_kib: int
    """The carve-out: shared memory of the SM; the rest of ``l1_kib`` is cache."""
    l1_kib: int
    fraction: float
    """Resident warps over warp slots."""


@dataclass(frozen=True, slots=True)
class BlockNeeds:
    """What a block takes of an SM, and how an SM is set up for it."""

    registers: int
    barriers: int
    shared_bytes: int
    """In whole units, the system's part included."""
    setup_bytes: int
    """Shared memory that an idle SM is set up for: one step more than all resident blocks need exactly (``bench.machine.residency``)."""


def block_needs(chip: Chip, resident: Occupancy, shared_bytes: int) -> BlockNeeds:
    """What a block of a launch takes of an SM; ``shared_bytes``: static and dynamic."""
    sm, shared = chip.sm, chip.shared
    per_block = _up(shared_bytes + shared.shared_reserved_bytes_per_block, shared.shared_allocation_unit_bytes)
    steps = [step * 1024 for step in shared.shared_carveout_kib]
    setup = next((step for step in steps if step > resident.blocks_per_sm * per_block), steps[-1])
    # A part of the SM that lets in as many blocks as the resource alone would.
    registers = sm.registers_per_sm // max(resident.block_limits["registers"], 1)
    barriers = sm.named_barriers_per_sm_count // max(resident.block_limits["barriers"], 1)
    return BlockNeeds(registers, barriers, per_block, setup)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _too_few(chip: Chip, limits: dict[str, int]) -> str:
    """What an SM has of the resource that it has too little of."""
    lacking = next(name for name, limit in limits.items() if limit == 0)
    return {
        "warps": f"an SM has {chip.sm.max_warps_per_sm} warp slots",
        "registers": f"an SM has {chip.sm.registers_per_sm:,} registers",
        "shared memory": f"an SM has {chip.shared.shared_carveout_kib[-1]} KiB of shared memory, the system's part included",
        "barriers": f"an SM has {chip.sm.named_barriers_per_sm_count} barriers",
    }.get(lacking, f"an SM has no {lacking}")


def occupancy(
    chip: Chip,
    threads_per_block: int,
    registers_per_thread: int,
    shared_bytes: int = 0,
    barriers: int = 1,
    clustered: bool = False,
    lanes: int = 32,
) -> Occupancy:
    """Blocks per SM for a block of so many threads, registers (as the compiler allocated) and shared bytes (static + dynamic).

    ``clustered``: the launch or the kernel names a cluster's shape; ``lanes``: threads of a warp.

    Raises:
        OccupancyError: too many threads, registers or shared bytes for one block on this chip.
    """
    sm, shared = chip.sm, chip.shared
    if not 0 < threads_per_block <= sm.max_threads_per_block:
        raise OccupancyError(
            f"a block of {threads_per_block:,} threads does not fit {chip.name}: a block has 1 to {sm.max_threads_per_block:,} threads"
        )
    if shared_bytes > shared.shared_max_per_block_kib * 1024:
        raise OccupancyError(
            f"{shared_bytes:,} bytes of shared memory do not fit {chip.name}: a block has at most "
            f"{shared.shared_max_per_block_kib * 1024:,} bytes"
        )
    if registers_per_thread > sm.max_registers_per_thread:
        raise OccupancyError(
            f"{registers_per_thread} registers per thread do not fit {chip.name}: a thread has at most {sm.max_registers_per_thread}"
        )
    warps = -(-threads_per_block // lanes)
    per_warp = _up(max(registers_per_thread, 1) * lanes, sm.register_allocation_unit_registers)
    # A sub-core owns its share of the register file, so warps are counted for each sub-core; a block's go wherever there is room.
    warps_by_registers = sm.registers_per_sm // sm.sub_core_count // per_warp * sm.sub_core_count
    reserved = shared.shared_reserved_bytes_per_block
    per_block = _up(shared_bytes + reserved, shared.shared_allocation_unit_bytes)
    largest = shared.shared_carveout_kib[-1] * 1024
    limits = {
        "warps": sm.max_warps_per_sm // warps,
        "blocks": sm.max_blocks_per_sm,
        "registers": warps_by_registers // warps,
        "shared memory": largest // per_block if per_block else sm.max_blocks_per_sm,
        "barriers": sm.named_barriers_per_sm_count // max(barriers, 1),
    }
    if clustered and chip.cluster.max_cluster_blocks_per_sm:
        limits["clusters"] = chip.cluster.max_cluster_blocks_per_sm
    blocks = min(limits.values())
    if blocks == 0:
        raise OccupancyError(
            f"a block of {threads_per_block:,} threads with {registers_per_thread} registers each does not fit {chip.name}: "
            + _too_few(chip, limits)
        )
    limiter = next(name for name, limit in limits.items() if limit == blocks)
    carveout = next(
        step for step in shared.shared_carveout_kib if step * 1024 >= blocks * per_block or step == largest // 1024
    )
    return Occupancy(
        blocks, warps, limiter, limits, carveout, shared.l1_kib - carveout, blocks * warps / sm.max_warps_per_sm
    )
