"""Barriers of a block and of a cluster without timing: counts arrivals and releases warps.

Barriers count threads: a barrier of the whole block expects all live threads, and is judged after each round of the warps; for one with an explicit count, a warp
whose live lanes have all arrived counts as a full warp (PTX ISA, ``barrier``), and the arrival that completes the count releases the warps that wait by then, so that a
further warp waits for the next phase (bench.machine.named_barriers).  A cluster's barrier is complete when
every live lane of its blocks has arrived (PTX ISA, ``barrier.cluster``).
"""

from __future__ import annotations

from warpwright.engine.abi import BARRIER_MODES, BLOCK, NAMED_BARRIERS
from warpwright.engine.jit.resident_blocks import (
    AT_BARRIER,
    AT_CLUSTER,
    READY,
    Block,
    Launch,
    Space,
    Warp,
    living,
    set_state,
    state_of,
)
from warpwright.native.intrinsics import apart, core, lowest_bit, peek, poke, popcount

SYNC, ARRIVE, POPC, AND, OR, CLUSTER_ARRIVE, CLUSTER_WAIT = range(len(BARRIER_MODES))


@apart
def arrive(launch: Launch, space: Space, block: Block, warp: Warp) -> None:
    """Count the arrival of a warp at a barrier."""
    mode, lanes = warp["barrier_mode"], warp["barrier_lanes"]
    if mode == CLUSTER_ARRIVE:
        warp["cluster_arrived"] |= lanes
        set_state(warp, READY)
    elif mode == CLUSTER_WAIT:
        # A warp whose arrival has been revoked is already past the barrier.
        set_state(warp, AT_CLUSTER if lanes & warp["cluster_arrived"] else READY)
    else:
        barrier = warp["barrier_id"] & NAMED_BARRIERS - 1
        at = barrier * 8
        if warp["barrier_threads"] & 31 != 0:
            launch["miscounted"] = warp["fault_instruction"] << 16 | (warp["barrier_threads"] & 0x7FFF) << 1
        whole_warp = warp["barrier_threads"] != 0 and living(warp) & ~lanes == 0
        arrived = block + BLOCK["barriers"] + at
        poke(arrived, peek(arrived) + (launch["lanes"] if whole_warp else popcount(lanes)))
        if mode >= POPC:
            vote = warp["barrier_vote"] & lanes
            votes = block + BLOCK["votes"] + at
            poke(votes, peek(votes) + popcount(vote ^ lanes if mode == AND else vote))
        set_state(warp, READY if mode == ARRIVE else AT_BARRIER)
        if warp["barrier_threads"] != 0 and peek(arrived) >= warp["barrier_threads"]:
            wake(space, block, barrier)


@apart
def arrive_all(launch: Launch, space: Space, block: Block, number: int) -> None:
    """Count the arrivals of a block's first warps that have reached a barrier without being counted."""
    for n in range(number):
        warp: Warp = block["warps"] + n * space["warp_bytes"]
        # Of the warps that have run in this round, those in the middle of a loop (STEP) have no lanes there.
        if state_of(warp) == READY and warp["barrier_lanes"] != 0:
            arrive(launch, space, block, warp)


@core
def is_plain(block: Block, warp: Warp) -> bool:
    """Whether a warp at a barrier waits, with all of its lanes, for the whole block, and no other warp has arrived
    before."""
    if warp["barrier_mode"] != SYNC or warp["barrier_threads"] != 0:
        return False
    arrived = peek(block + BLOCK["barriers"] + (warp["barrier_id"] & NAMED_BARRIERS - 1) * 8)
    return living(warp) == warp["barrier_lanes"] and arrived == 0


@core
def waits_at(warp: Warp, barrier: int) -> bool:
    return state_of(warp) == AT_BARRIER and warp["barrier_id"] & NAMED_BARRIERS - 1 == barrier


@apart
def release(space: Space, block: Block) -> bool:
    """Release every complete barrier; returns whether there was one."""
    warps, stride, count = block["warps"], space["warp_bytes"], block["warp_count"]
    threads = 0
    waited_at = 0
    for n in range(count):
        warp: Warp = warps + n * stride
        threads += popcount(living(warp))
        if state_of(warp) == AT_BARRIER:
            waited_at |= 1 << (warp["barrier_id"] & NAMED_BARRIERS - 1)
    some = False
    while waited_at != 0:
        barrier = lowest_bit(waited_at)
        waited_at &= waited_at - 1
        expected = 0
        for n in range(count):
            waiting: Warp = warps + n * stride
            if waits_at(waiting, barrier):
                expected = max(expected, waiting["barrier_threads"])
        if peek(block + BLOCK["barriers"] + barrier * 8) >= (expected if expected != 0 else threads):
            wake(space, block, barrier)
            some = True
    return some


@apart
def wake(space: Space, block: Block, barrier: int) -> None:
    """Let the warps that wait at a barrier continue, with the result of its votes."""
    votes = peek(block + BLOCK["votes"] + barrier * 8)
    poke(block + BLOCK["barriers"] + barrier * 8, 0)
    poke(block + BLOCK["votes"] + barrier * 8, 0)
    for n in range(block["warp_count"]):
        warp: Warp = block["warps"] + n * space["warp_bytes"]
        if waits_at(warp, barrier):
            set_state(warp, READY)
            mode = warp["barrier_mode"]
            if mode == POPC:
                warp["barrier_result"] = votes
            elif mode == AND:  # votes against were counted
                warp["barrier_result"] = votes == 0
            elif mode == OR:
                warp["barrier_result"] = votes != 0


@apart
def release_cluster(launch: Launch, space: Space, block: Block) -> bool:
    """Release a block's cluster from its barrier once every live lane has arrived; returns whether it was released."""
    some = False
    for rank in range(launch["cluster_count"]):
        member: Block = peek(block + BLOCK["cluster_blocks"] + rank * 8)
        if member != 0:
            for n in range(space["warp_count"]):
                warp: Warp = member["warps"] + n * space["warp_bytes"]
                if living(warp) & ~warp["cluster_arrived"]:
                    return False
                some = some or warp["cluster_arrived"] != 0
    if some:
        for rank in range(launch["cluster_count"]):
            woken: Block = peek(block + BLOCK["cluster_blocks"] + rank * 8)
            if woken != 0:
                wake_cluster(space, woken)
    return some


@core
def wake_cluster(space: Space, block: Block) -> None:
    """Let a block's warps continue after its cluster's barrier."""
    for n in range(space["warp_count"]):
        warp: Warp = block["warps"] + n * space["warp_bytes"]
        warp["cluster_arrived"] = 0
        if state_of(warp) == AT_CLUSTER:
            set_state(warp, READY)
