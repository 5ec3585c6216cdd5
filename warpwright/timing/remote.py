"""Atomics on the shared memory of a cluster's blocks: packets through one port of each SM.

Measured on an H200 (``bench.micro remote_adds``): lanes that name different words of a sector share a packet, further lanes on a
word take one each, whatever the banks.  An SM's port sends a packet in 1.87 cycles and takes one in 1.5, one or the other.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import BLOCK, WARP
from warpwright.native.pieces import core, lowest_bit, peek, u
from warpwright.timing import state as s
from warpwright.timing.clusters import slot_of
from warpwright.timing.coalescer import count_passes, passes_of
from warpwright.timing.l1 import SPACE_SHARED, fill_lines, rank_of
from warpwright.timing.records import address_of

WARP_BLOCK, MEMBERS = WARP["block"], BLOCK["cluster_blocks"]


@core
def pass_port(m: Any, sm: int, time: int, work: int) -> int:
    """When an SM's port has done ``work`` (1/256 cycle) that it is given at ``time``."""
    done = max(time << 8, m[u(sm + s.SM_REMOTE_PORT)]) + work
    m[u(sm + s.SM_REMOTE_PORT)] = done
    return (done + 255) >> 8


@core
def atomic_on_cluster(
    m: Any, sm: int, w: int, base: int, tabled: bool, step: int, mask: int, size: int, time: int
) -> int:
    """When an atomic of a warp on other blocks of its cluster has passed all ports."""
    block = peek(m[u(w + s.W_POINTER)] + WARP_BLOCK)
    end = time
    while mask:
        rank = rank_of(address_of(base, tabled, step, lowest_bit(mask)))
        lanes = 0
        rest = mask
        while rest:
            lane = lowest_bit(rest)
            rest &= rest - 1
            if rank_of(address_of(base, tabled, step, lane)) == rank:
                lanes |= 1 << lane
        mask &= ~lanes
        lines = fill_lines(m, sm, w, base, tabled, step, lanes, size, SPACE_SHARED)
        count_passes(m, sm, base, tabled, step, lanes, lines)
        packets = 0
        for i in range(lines):
            packets += passes_of(m[u(sm + s.OFF_LINE_BYTES + i)])
        end = max(end, pass_port(m, sm, time, packets * m[u(s.H_REMOTE_SEND)]))
        target = slot_of(m, peek(block + MEMBERS + 8 * rank))[0]
        end = max(end, pass_port(m, target, time, packets * m[u(s.H_REMOTE_TAKE)]))
    return end
