"""Detects endless loops: every resident warp repeats itself and memory does not change.

Warps run in turn, and each depends only on its own state and on memory.  If the whole state recurs (the warps' saved
state, their blocks' barriers, shared, local and global memory), it will recur forever: a lock that is never released, a
flag that is never set.  Programs that depend on the host are excluded, and those in
which a clock does more than delay a loop; values that only do that do not belong to the state (``clock_uses.py``).

The scheduler compares states after every pass in which no block has ended.  Brent's rule keeps that cheap: the warps'
digest is kept at passes 64, 128, 256 and so on and compared at each one after it; the other blocks' warps are read only
when those of the first match, and memory only when all match.
"""

from __future__ import annotations

from warpwright.engine.abi import BLOCK
from warpwright.engine.jit.resident_blocks import Block, Launch, Space, Warp, slot_block, state_of
from warpwright.native.intrinsics import apart, core, peek, peek_byte, shift_right

FIRST_PASS = 64
"""Number of passes without the end of a block before states are compared."""
PRIME = 0x9E37_79B9_7F4A_7C15
"""An odd multiplier (2**64 divided by the golden ratio): every step of a digest is invertible, so no information is
lost early."""


@core
def mixed(digest: int, value: int) -> int:
    """A digest extended by one word."""
    product = (digest ^ value) * PRIME
    return product ^ shift_right(product, 29)


@apart
def digest_bytes(digest: int, at: int, size: int) -> int:
    """A digest extended by the bytes of a range; four interleaved digests avoid a long dependence chain."""
    whole = size & -32
    a, b, c, d = digest + 1, digest + 2, digest + 3, digest + 4
    for n in range(at, at + whole, 32):
        a = mixed(a, peek(n))
        b = mixed(b, peek(n + 8))
        c = mixed(c, peek(n + 16))
        d = mixed(d, peek(n + 24))
    digest = mixed(mixed(mixed(a, b), c), d)
    for n in range(at + whole, at + size):
        digest = mixed(digest, peek_byte(n))
    return digest


@core
def digest_warps(digest: int, space: Space, block: Block) -> int:
    """Digest of the state of a resident block's warps, and of its barriers."""
    digest = digest_bytes(digest, block, BLOCK.size_bytes)
    for n in range(block["warp_count"]):
        warp: Warp = block["warps"] + n * space["warp_bytes"]
        digest = mixed(digest, warp["resume"])
        digest = mixed(digest, warp["exited"])
        digest = mixed(digest, warp["barrier_lanes"])
        digest = mixed(digest, state_of(warp))
        for part in range(space["lasting_count"]):
            at = space["lasting"] + part * 16
            digest = digest_bytes(digest, warp["spill"] + peek(at), peek(at + 8))
    return digest


@core
def digest_all_warps(space: Space, resident: int) -> int:
    """Digest of the state of all resident blocks' warps."""
    digest = 0
    for n in range(resident):
        digest = digest_warps(digest, space, slot_block(space, peek(space["order"] + n * 8)))
    return digest


@core
def digest_memory(launch: Launch, space: Space, resident: int) -> int:
    """Digest of all memory that warps can write: the resident blocks' shared and local memory, and global memory."""
    digest = 0
    for n in range(resident):
        block = slot_block(space, peek(space["order"] + n * 8))
        digest = digest_bytes(digest, block + space["shared_at"], space["slot_bytes"] - space["shared_at"])
    for n in range(launch["allocation_count"]):
        row = launch["allocations"] + n * 16
        digest = digest_bytes(digest, peek(row) + launch["host_minus_device"], peek(row + 8) - peek(row))
    for n in range(launch["page_count"]):
        page = launch["pages"] + n * 16
        digest = digest_bytes(digest, peek(page) + launch["host_minus_device"], peek(page + 8) - peek(page))
    return digest


@apart
def stands_still(launch: Launch, space: Space, passes: int, resident: int) -> bool:
    """Whether the state after this pass has been seen before."""
    keeps = passes & (passes - 1) == 0
    if space["judged"] == 0 or passes < FIRST_PASS or (space["seen"] == 0 and not keeps):
        return False
    block = digest_warps(0, space, slot_block(space, peek(space["order"])))
    if not keeps and block != space["seen_block"]:
        return False
    warps = digest_all_warps(space, resident)
    if keeps:
        space["seen_block"] = block
        space["seen_warps"] = warps
        space["seen"] = 1
    elif warps == space["seen_warps"]:
        memory = digest_memory(launch, space, resident)
        if space["seen"] == 1:
            space["seen_memory"] = memory
            space["seen"] = 2
        elif memory == space["seen_memory"]:
            return True
        else:
            space["seen"] = 0  # progress is being made; compare again after as many further passes
    return False
