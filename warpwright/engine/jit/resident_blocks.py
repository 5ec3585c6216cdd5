"""The memory of one host thread's resident blocks, as compiled functions access it."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from warpwright.engine.abi import BLOCK, LAUNCH, STATE_AT, WARP, Layout
from warpwright.native.intrinsics import core

WORKSPACE = Layout(
    warp_function=1,
    warp_count=1,
    block_threads=1,
    shared_bytes=1,
    local_bytes=1,  # per warp
    slots=1,  # blocks that may be resident
    slot_bytes=1,
    slot_base=1,  # pointer to the first slot: BLOCK, warps, save areas, shared, local
    warps_at=1,  # offsets in a slot
    warp_bytes=1,
    save_at=1,
    save_bytes=1,
    shared_at=1,
    local_at=1,
    sites=1,  # pointer to this thread's allocation caches
    order=1,  # pointer to the numbers of the slots: resident ones first
    counter=1,  # pointer to the next block's number if threads share a range, or 0
    own_counter=1,  # the next block's number if they do not
    together=1,  # number of blocks that become resident at the start, because all of them meet at a grid barrier
    judged=1,  # 1: a recurring state ends the run (livelock.py)
    lasting=1,  # pointer to the parts of a save area that count for that: offset and size
    lasting_count=1,
    seen=1,  # digests kept of an earlier state: 0 none, 1 the warps', 2 memory's too
    seen_warps=1,
    seen_block=1,  # digest of the first resident block's warps in that state
    seen_memory=1,
    resident=1,  # blocks that were resident when the run ended with STANDSTILL
    outcome_block=1,  # BLOCK that stopped the run
    outcome_warp=1,  # WARP that stopped the run
    blocks_done=1,
    instructions=1,
    thread_instructions=1,
)
"""One per host thread."""

Launch: TypeAlias = Annotated[Any, LAUNCH]
Space: TypeAlias = Annotated[Any, WORKSPACE]
Block: TypeAlias = Annotated[Any, BLOCK]
Warp: TypeAlias = Annotated[Any, WARP]
Save: TypeAlias = Annotated[Any, Layout(sites=1, state=1)]
"""A warp's save area: the caches of its accesses, and its state; the registers after them belong to its function."""

READY, AT_BARRIER, OVER, STUCK, AT_CLUSTER = range(5)
"""A warp's state, as defined by STATE_AT."""
assert Save.__metadata__[0]["state"] == STATE_AT


@core
def slot_block(space: Space, slot: int) -> int:
    """The BLOCK of a slot."""
    return space["slot_base"] + slot * space["slot_bytes"]


@core
def state_of(warp: Warp) -> int:
    """The state of a warp."""
    save: Save = warp["spill"]
    return save["state"]


@core
def set_state(warp: Warp, state: int) -> None:
    save: Save = warp["spill"]
    save["state"] = state


@core
def living(warp: Warp) -> int:
    """Mask of a warp's lanes that have not exited."""
    return warp["lanes"] & ~warp["exited"]
