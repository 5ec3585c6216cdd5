"""Makes blocks resident and removes them: initialises a block's structures before its warps run.

The blocks of a cluster become resident together and are removed individually.
"""

from __future__ import annotations

from warpwright.engine.abi import BLOCK, SPILL_HEADER_BYTES, WARP
from warpwright.engine.jit.resident_blocks import Block, Launch, Save, Space, Warp, slot_block
from warpwright.native.intrinsics import apart, clear, clear_line, core, divide, peek, poke

LINE_BYTES = 64


@apart
def clear_lines(at: int, size: int) -> None:
    """Zero a range that begins at a cache line and may end with one.

    The C library's memset uses a string instruction for more than 2 KiB, which is many times slower at some distances
    between a block's areas.
    """
    for line in range(at, at + size, LINE_BYTES):
        clear_line(line)


@core
def place(number: int, width: int, height: int) -> tuple[int, int, int]:
    """x, y and z of the ``number``-th position in a box."""
    rows = divide(number, width)
    planes = divide(rows, height)
    return number - rows * width, rows - planes * height, planes


@core
def admit_warp(launch: Launch, space: Space, block: Block, number: int, n: int) -> None:
    """Fill the structures of a block's ``n``-th warp."""
    warp: Warp = block["warps"] + n * space["warp_bytes"]
    clear(warp, WARP.size_bytes)
    warp["launch"] = launch
    warp["block"] = block
    warp["warp_in_block"] = n
    lanes = launch["lanes"]
    # A mask of 64 lanes has no spare bit.
    warp["lanes"] = (1 << min(space["block_threads"] - n * lanes, lanes) - 1) * 2 - 1
    warp["local_base"] = block + space["local_at"] + n * space["local_bytes"]
    clear_lines(warp["local_base"], space["local_bytes"])
    sms = launch["taking_sm_count"]
    warp["sm_id"] = peek(launch["taking_sms"] + 8 * (number - divide(number, sms) * sms))
    save: Save = block + space["save_at"] + n * space["save_bytes"]
    clear(save, SPILL_HEADER_BYTES)
    save["sites"] = space["sites"]
    warp["spill"] = save
    warp["next"] = warp + space["warp_bytes"] if n + 1 < space["warp_count"] else 0


@apart
def admit(launch: Launch, space: Space, slot: int, number: int) -> None:
    """Make a block resident in a slot, as a cluster of one block."""
    block: Block = slot_block(space, slot)
    x, y, z = place(number, launch["grid_x"], launch["grid_y"])
    block["index_x"] = x
    block["index_y"] = y
    block["index_z"] = z
    block["linear_index"] = number
    block["shared_base"] = block + space["shared_at"]
    block["shared_bytes"] = space["shared_bytes"]
    clear_lines(block["shared_base"], space["shared_bytes"])
    block["warps"] = block + space["warps_at"]
    block["warp_count"] = space["warp_count"]
    clear(block + BLOCK["barriers"], BLOCK["cluster_rank"] - BLOCK["barriers"])
    join_cluster(block, 0, 0, 0, 0, x, y, z)
    poke(block + BLOCK["cluster_blocks"], block)
    for n in range(space["warp_count"]):
        admit_warp(launch, space, block, number, n)


@core
def join_cluster(block: Block, rank: int, rx: int, ry: int, rz: int, x: int, y: int, z: int) -> None:
    """Set a block's position in its cluster, and its cluster's position in the grid."""
    block["cluster_rank"] = rank
    block["cluster_index_x"] = rx
    block["cluster_index_y"] = ry
    block["cluster_index_z"] = rz
    block["cluster_id_x"] = x
    block["cluster_id_y"] = y
    block["cluster_id_z"] = z


@apart
def admit_cluster(launch: Launch, space: Space, order: int, number: int) -> None:
    """Make the blocks of a cluster resident in the slots whose numbers are at ``order``."""
    width, height, count = launch["cluster_x"], launch["cluster_y"], launch["cluster_count"]
    x, y, z = place(number, launch["clusters_x"], launch["clusters_y"])
    for rank in range(count):
        rx, ry, rz = place(rank, width, height)
        row = (z * launch["cluster_z"] + rz) * launch["grid_y"] + y * height + ry
        slot = peek(order + rank * 8)
        admit(launch, space, slot, row * launch["grid_x"] + x * width + rx)
        join_cluster(slot_block(space, slot), rank, rx, ry, rz, x, y, z)
    for rank in range(count):
        table = slot_block(space, peek(order + rank * 8)) + BLOCK["cluster_blocks"]
        for other in range(count):
            poke(table + other * 8, slot_block(space, peek(order + other * 8)))


@apart
def leave(launch: Launch, block: Block) -> None:
    """Remove an ended block from the view of its cluster."""
    for rank in range(launch["cluster_count"]):
        other = peek(block + BLOCK["cluster_blocks"] + rank * 8)
        if other != 0:
            poke(other + BLOCK["cluster_blocks"] + block["cluster_rank"] * 8, 0)
