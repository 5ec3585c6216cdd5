"""Thread block clusters in simulated time: blocks of one GPC that start together, and their barrier.

A cluster's blocks start on SMs of the GPC with the most room, each on the SM that has the most room left; a cluster starts only
when all of its blocks fit (NVIDIA H100 whitepaper, "Thread Block Clusters").  Its barrier is evaluated between windows,
because arrivals come from several SMs; waiting warps continue a fixed time after the last arrival.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import BLOCK, WARP
from warpwright.native.intrinsics import core, peek, poke
from warpwright.timing import state as s
from warpwright.timing.numbered_units import sm_at
from warpwright.timing.warp import settle
from warpwright.timing.warp_slots import mark, warp_at

RANK, MEMBERS = BLOCK["cluster_rank"], BLOCK["cluster_blocks"]
INDEX_X, INDEX_Y, INDEX_Z = BLOCK["index_x"], BLOCK["index_y"], BLOCK["index_z"]
IN_X, IN_Y, IN_Z = BLOCK["cluster_index_x"], BLOCK["cluster_index_y"], BLOCK["cluster_index_z"]
ID_X, ID_Y, ID_Z = BLOCK["cluster_id_x"], BLOCK["cluster_id_y"], BLOCK["cluster_id_z"]
LINEAR, FIRST_WARP = BLOCK["linear_index"], BLOCK["warps"]
BLOCK_BYTES = BLOCK.size_bytes
LANES, EXITED, ARRIVED = WARP["lanes"], WARP["exited"], WARP["cluster_arrived"]


@core
def first_kernel(m: Any) -> s.Kernel:
    """The context of the first launch; a launch of clusters runs alone."""
    return s.Kernel(m[s.chip.kernels])


@core
def cluster_count(m: Any) -> int:
    """Blocks of a cluster of the launch."""
    return m[s.chip.cluster_blocks]


@core
def place_in_grid(m: Any, k: s.Kernel, pointer: int, number: int) -> int:
    """Write a BLOCK's place in grid and cluster; ``number`` counts in the order of dispatch. Returns its linear index."""
    count = m[k.cluster_blocks]
    x, y = m[k.cluster_x], m[k.cluster_y]
    z = count // (x * y)
    across, down = m[k.clusters_x], m[k.clusters_y]
    cluster = number // count
    rank = number % count
    id_x, id_y, id_z = cluster % across, cluster // across % down, cluster // (across * down)
    in_x, in_y, in_z = rank % x, rank // x % y, rank // (x * y)
    at_x, at_y, at_z = id_x * x + in_x, id_y * y + in_y, id_z * z + in_z
    linear = (at_z * m[k.grid_y] + at_y) * m[k.grid_x] + at_x
    poke(pointer + INDEX_X, at_x)
    poke(pointer + INDEX_Y, at_y)
    poke(pointer + INDEX_Z, at_z)
    poke(pointer + LINEAR, linear)
    poke(pointer + RANK, rank)
    poke(pointer + IN_X, in_x)
    poke(pointer + IN_Y, in_y)
    poke(pointer + IN_Z, in_z)
    poke(pointer + ID_X, id_x)
    poke(pointer + ID_Y, id_y)
    poke(pointer + ID_Z, id_z)
    poke(pointer + MEMBERS + 8 * rank, pointer)
    return linear


@core
def block_pointer(m: Any, sm: s.SM, block: int) -> int:
    """Host pointer of the BLOCK structure of an occupied block slot."""
    b = sm.blocks[block]
    k = s.Kernel(m[b.kernel])
    return m[k.block_base] + (m[sm.index] * m[k.blocks_per_sm] + m[b.place]) * BLOCK_BYTES


@core
def slot_of(m: Any, pointer: int) -> tuple[s.SM, s.BlockSlot]:
    """The SM region and the block slot's fields of a BLOCK structure, in a launch of clusters."""
    k = first_kernel(m)
    index = (pointer - m[k.block_base]) // BLOCK_BYTES
    sm = sm_at(m, index // m[k.blocks_per_sm])
    return sm, sm.blocks[index % m[k.blocks_per_sm]]


@core
def room(m: Any, sm: s.SM) -> int:
    """Free block slots of an SM."""
    return m[first_kernel(m).blocks_per_sm] - m[sm.resident]


@core
def roomiest_gpc(m: Any, count: int) -> int:
    """The GPC that has the most free block slots, at least ``count``; -1 when none has."""
    gpc_of = m[s.chip.gpc_of_sm]
    most = count - 1
    best = -1
    for gpc in range(m[s.chip.gpcs]):
        free = 0
        for i in range(m[s.chip.sms]):
            if m[gpc_of + i] == gpc:
                free += room(m, sm_at(m, i))
        if free > most:
            most = free
            best = gpc
    return best


@core
def roomiest_sm(m: Any, gpc: int) -> s.SM:
    """The SM of a GPC with the most free block slots; among equals, the first in the dispatcher's order."""
    most = 0
    best = s.SM(-1)
    for index in range(m[s.chip.sms]):
        sm = sm_at(m, index)
        free = room(m, sm)
        if m[m[s.chip.gpc_of_sm] + index] == gpc and free > most:
            most = free
            best = sm
    return best


@core
def free_slot(m: Any, sm: s.SM) -> int:
    """A free block slot of an SM."""
    block = 0
    while m[sm.blocks[block].active]:
        block += 1
    return block


@core
def introduce(m: Any, pointers: int, count: int) -> None:
    """Connect the blocks of a new cluster, whose pointers are in scratch, with each other."""
    for i in range(count):
        for j in range(count):
            poke(m[pointers + i] + MEMBERS + 8 * j, m[pointers + j])


@core
def leave(m: Any, pointer: int) -> None:
    """A block has ended: the others of its cluster no longer reach it."""
    rank = peek(pointer + RANK)
    for i in range(cluster_count(m)):
        other = peek(pointer + MEMBERS + 8 * i)
        if other:
            poke(other + MEMBERS + 8 * rank, 0)


@core
def everybody_arrived(m: Any, pointer: int) -> bool:
    """Whether every living lane of a block's cluster has arrived, and there is at least one."""
    k = first_kernel(m)
    warps = m[k.warps_per_block]
    some = 0
    for i in range(cluster_count(m)):
        member = peek(pointer + MEMBERS + 8 * i)
        if member:
            first = peek(member + FIRST_WARP)
            for j in range(warps):
                warp = first + j * m[k.warp_stride]
                arrived = peek(warp + ARRIVED)
                some |= arrived
                if peek(warp + LANES) & ~peek(warp + EXITED) & ~arrived:
                    return False
    return some != 0


@core
def release_cluster(m: Any, code: Any, pointer: int, end: int) -> None:
    """Let the warps of a cluster continue after its barrier."""
    k = first_kernel(m)
    warps = m[k.warps_per_block]
    last = 0
    for i in range(cluster_count(m)):
        member = peek(pointer + MEMBERS + 8 * i)
        if member:
            _, b = slot_of(m, member)
            last = max(last, m[b.cluster_time])
    release = last + m[s.chip.cluster_latency]
    for i in range(cluster_count(m)):
        member = peek(pointer + MEMBERS + 8 * i)
        if member == 0:
            continue
        sm, b = slot_of(m, member)
        m[b.cluster_release] = release
        first = peek(member + FIRST_WARP)
        for j in range(warps):
            poke(first + j * m[k.warp_stride] + ARRIVED, 0)
            slot = m[b.warps[j]]
            if slot >= 0:
                w = warp_at(sm, slot)
                if m[w.barrier] == s.AT_CLUSTER:
                    m[w.barrier] = 0
                    m[w.status] = s.STATUS_RELEASED
                    m[w.earliest] = release
                    m[w.reason] = s.ST_BARRIER
                    mark(m, sm, w)
        settle(m, code, sm, end)


@core
def judge_clusters(m: Any, code: Any, end: int) -> None:
    """Between two windows: release every cluster whose barrier is complete."""
    if m[s.chip.cluster_events] == 0:
        return
    m[s.chip.cluster_events] = 0
    k = first_kernel(m)
    for i in range(m[s.chip.sms]):
        sm = sm_at(m, i)
        if m[sm.resident] == 0:
            continue  # it holds values of an earlier launch
        for block in range(m[k.blocks_per_sm]):
            if m[sm.blocks[block].active] == 0:
                continue
            pointer = block_pointer(m, sm, block)
            leader = 0
            while peek(pointer + MEMBERS + 8 * leader) == 0:
                leader += 1
            if peek(pointer + RANK) == leader and everybody_arrived(m, pointer):
                release_cluster(m, code, pointer, end)
            warps = m[k.warps_per_block]
            for j in range(warps):
                if peek(peek(pointer + FIRST_WARP) + j * m[k.warp_stride] + ARRIVED):
                    m[s.chip.cluster_events] = 1
