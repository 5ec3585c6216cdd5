"""The block scheduler: runs all warps of a block in turn, and several blocks if one only spins.

``run_blocks`` runs blocks of a grid on one host thread until they have ended or something stops them.  A block runs
alone as long as it makes progress; if every runnable warp only yields, further blocks become resident, so that blocks
may wait for each other.  The number of resident blocks doubles each time, so that the turns of a grid whose blocks all
wait for each other grow in proportion to their number.  The blocks of a kernel with a grid barrier all become resident
at the start.  ``admission.py`` makes blocks resident, ``barriers.py`` counts arrivals at barriers,
``livelock.py`` detects runs that never end.
"""

from __future__ import annotations

from warpwright.engine.abi import BACK_EDGES_BEFORE_YIELD, LAUNCH, PASSED_ON, TURNS_AT, Status
from warpwright.engine.jit.admission import admit, admit_cluster, leave
from warpwright.engine.jit.barriers import arrive, arrive_all, is_plain, release, release_cluster
from warpwright.engine.jit.livelock import stands_still
from warpwright.engine.jit.resident_blocks import (
    AT_BARRIER,
    AT_CLUSTER,
    OVER,
    READY,
    STUCK,
    WORKSPACE,
    Block,
    Launch,
    Space,
    Warp,
    set_state,
    slot_block,
    state_of,
)
from warpwright.native.intrinsics import apart, atomic_add, atomic_peek, call_warp, core, peek, poke
from warpwright.native.translate import Translation

CANCELLED = 100
"""Returned when LAUNCH.cancel was set."""
ROUNDS_BEFORE_NEXT_BLOCK = 4
"""Number of turns of all resident blocks without progress before others become resident."""
LONG_TURNS, SHORT_TURN = 16, 8
"""Number of turns after which a block's turns become short, and number of iterations of a spin loop in a short turn: if
many blocks wait, most of them spin in vain."""
ENDED, YIELDED, AT_CLUSTER_BARRIER = -1, -2, -3
"""How a block's turn ends, other than by a status that stops the launch."""
NOT_RUN = -1
"""Replaces the status of a warp that has not run this round."""
NOWHERE, IN_STEP = -1, -2
"""Where the warps of a round are, if not at the barrier of that number: not yet known, or in a loop in which they take
turns."""


@core
def cancelled(launch: Launch) -> bool:
    return atomic_peek(launch + LAUNCH["cancel"]) != 0


@core
def run_warp(function: int, block: Block, n: int, warp: Warp) -> tuple[int, int, bool]:
    """Run a block's ``n``-th warp: returns the status, the warp to which it belongs, and whether the function itself
    continued with that warp."""
    status = call_warp(function, warp)
    if status < PASSED_ON:
        return status, n, False
    last: Warp = block["running"]
    return status - PASSED_ON, last["warp_in_block"], True


@core
def march(space: Space, block: Block) -> tuple[int, int, int, bool, bool, bool]:
    """Run a block's warps as long as all of them reach the same barrier, or the same loop in which they take turns, or
    end.

    In most cases all do, so that arrivals need not be counted.

    Returns the first warp that does something else (the number of warps if none does) and its status; how many warps
    before it have ended, whether any ran, whether any is at a barrier, and whether any has moved.
    """
    count, warps, stride, function = block["warp_count"], block["warps"], space["warp_bytes"], space["warp_function"]
    where = NOWHERE
    ended = 0
    ran = False
    at_barrier = False
    any_exit = False
    n = 0
    status = NOT_RUN
    while n < count:
        warp: Warp = warps + n * stride
        state = state_of(warp)
        if state == READY:
            ran = True
            status, n, passed_on = run_warp(function, block, n, warp)
            warp = warps + n * stride
            at_barrier = at_barrier or status == Status.BARRIER
            together = not passed_on or where < 0
            if passed_on:
                where = IN_STEP
            if together and status == Status.EXIT:
                set_state(warp, OVER)
                ended += 1
                any_exit = True
            elif together and status == Status.STEP and where < 0:
                where = IN_STEP
            elif together and status == Status.BARRIER and joins(block, warp, where):
                where = warp["barrier_id"]
            else:
                break
        elif state == OVER:
            ended += 1
        else:
            break
        n += 1
        status = NOT_RUN
    return n, status, ended, ran, at_barrier, at_barrier or where == IN_STEP or any_exit


@core
def joins(block: Block, warp: Warp, where: int) -> bool:
    """Whether a warp waits for the whole block at the same barrier as the warps before it."""
    return is_plain(block, warp) and (where == NOWHERE or where == warp["barrier_id"])


@apart
def turn(launch: Launch, space: Space, block: Block) -> int:
    """Run one block until it stops.  A round gives every runnable warp a turn."""
    count, warps, stride, function = block["warp_count"], block["warps"], space["warp_bytes"], space["warp_function"]
    while True:
        n, status, ended, ran, at_barrier, moved = march(space, block)
        if n == count and ended < count and not cancelled(launch):
            continue
        arrive_all(launch, space, block, n)
        if n == count:
            return ENDED if ended == count else YIELDED
        while n < count:
            warp: Warp = warps + n * stride
            if status == NOT_RUN:
                state = state_of(warp)
                if state == READY:
                    ran = True
                    status, n, passed_on = run_warp(function, block, n, warp)
                    warp = warps + n * stride
                    moved = moved or passed_on
                elif state == AT_BARRIER:
                    at_barrier = True
                elif state == OVER:
                    ended += 1
            if status != NOT_RUN and status != Status.YIELD and status != Status.SLEEP:
                moved = True
                if status == Status.EXIT:
                    set_state(warp, OVER)
                    ended += 1
                elif status == Status.BARRIER:
                    arrive(launch, space, block, warp)
                    at_barrier = True
                elif status == Status.DEADLOCK:
                    set_state(warp, STUCK)
                elif status != Status.STEP:
                    space["outcome_warp"] = warp
                    return status
            status = NOT_RUN
            n += 1
        if ended == count:
            return ENDED
        freed = at_barrier and release(space, block)
        if cancelled(launch) or (ran and not freed and not moved):
            return YIELDED
        if not freed and not moved:
            return blocked(space, block)


@apart
def shorten_turn(space: Space, block: Block) -> None:
    """Limit a block that has taken ``LONG_TURNS`` turns to ``SHORT_TURN`` iterations of a spin loop in its next turn."""
    if block["long_turns"] < LONG_TURNS:
        block["long_turns"] += 1
        return
    for n in range(block["warp_count"]):
        warp: Warp = block["warps"] + n * space["warp_bytes"]
        turns = warp["spill"] + TURNS_AT
        poke(turns, peek(turns) & ~0xFFFF_FFFF | BACK_EDGES_BEFORE_YIELD - SHORT_TURN)


@apart
def blocked(space: Space, block: Block) -> int:
    """Why a block without a runnable warp waits."""
    for n in range(block["warp_count"]):
        if state_of(block["warps"] + n * space["warp_bytes"]) == AT_CLUSTER:
            return AT_CLUSTER_BARRIER
    space["outcome_warp"] = block["warps"]
    return Status.DEADLOCK


@apart
def collect(space: Space, block: Block) -> None:
    """Add the counts of an ended block's warps."""
    for n in range(block["warp_count"]):
        warp: Warp = block["warps"] + n * space["warp_bytes"]
        space["instructions"] += warp["instructions"]
        space["thread_instructions"] += warp["thread_instructions"]
    space["blocks_done"] += 1


@core
def stop(space: Space, block: Block, status: int) -> int:
    """Stop the run because of a block."""
    space["outcome_block"] = block
    collect(space, block)
    return status


@apart
def stop_all(space: Space, status: int) -> int:
    """Stop the run for all resident blocks; the first one is reported."""
    block: Block = slot_block(space, peek(space["order"]))
    space["outcome_warp"] = block["warps"]
    return stop(space, block, status)


@core
def admit_next(launch: Launch, space: Space, place: int, end: int) -> bool:
    """Assign the next block or cluster to free slots, the first of which is listed at ``place``; returns False if none
    is left."""
    number = atomic_add(space["counter"], 1)
    if number >= end:
        return False
    if launch["cluster_count"] == 1:
        admit(launch, space, peek(place), number)
    else:
        admit_cluster(launch, space, place, number)
    return True


@core
def admit_others(launch: Launch, space: Space, active: int, end: int) -> tuple[int, bool]:
    """Double the number of resident blocks, as far as there is room and blocks are left.

    Returns the number of resident blocks, and whether there may be blocks that have not begun.
    """
    cluster = launch["cluster_count"]
    wanted = min(max(2 * active, space["together"], cluster), space["slots"])
    left = True
    while left and active + cluster <= wanted:
        left = admit_next(launch, space, space["order"] + active * 8, end)
        active += cluster if left else 0
    return active, left


@core
def run_blocks(launch: Launch, space: Space, first: int, count: int) -> int:
    """Run blocks ``first`` to ``first + count - 1``, or those below the last that a shared counter gives.

    Returns 0 when they have ended, CANCELLED, or the status that stopped them.
    """
    order, cluster, end = space["order"], launch["cluster_count"], first + count
    if space["counter"] == 0:
        space["own_counter"] = first
        space["counter"] = space + WORKSPACE["own_counter"]
    active = 0
    fruitless = 0
    left = True
    while not cancelled(launch):
        if left and (active == 0 or fruitless >= ROUNDS_BEFORE_NEXT_BLOCK) and active + cluster <= space["slots"]:
            fruitless = 0
            active, left = admit_others(launch, space, active, end)
        if active == 0:
            if left:
                continue
            return 0
        fruitful = False
        awake = False
        i = 0
        while i < active:
            slot = peek(order + i * 8)
            block: Block = slot_block(space, slot)
            status = turn(launch, space, block)
            if status >= 0:
                return stop(space, block, status)
            if status == ENDED:
                fruitful = True
                collect(space, block)
                leave(launch, block)
                if left and cluster == 1:
                    left = admit_next(launch, space, order + i * 8, end)
                if left and cluster == 1:
                    if cancelled(launch):
                        space["resident"] = active
                        return CANCELLED
                else:
                    active -= 1
                    poke(order + i * 8, peek(order + active * 8))
                    poke(order + active * 8, slot)
            else:
                awake = awake or status == YIELDED
                shorten_turn(space, block)
                if release_cluster(launch, space, block):
                    awake = True
                    fruitful = True
                i += 1
        fruitless = 0 if fruitful else fruitless + 1
        if not fruitful and not awake:
            return stop_all(space, Status.DEADLOCK)
        if not fruitful and stands_still(launch, space, fruitless, active):
            space["resident"] = active
            return stop_all(space, Status.STANDSTILL)
    space["resident"] = active
    return CANCELLED


def module_text(name: str) -> str:
    """LLVM text of ``int64 name(LAUNCH *, WORKSPACE *, int64 first, int64 count)``, which is ``run_blocks``."""
    function = run_blocks.py_func  # type: ignore[attr-defined]
    return Translation(function, names={function: name}).text
