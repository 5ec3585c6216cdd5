"""Atomics on the shared memory of a cluster's blocks: packets through one port of each SM.

Measured on an H200 (``bench.micro remote_adds``): lanes that name different words of a sector share a packet, further lanes on a
word take one each, whatever the banks.  An SM's port sends a packet in 1.87 cycles and takes one in 1.5, one or the other.
"""

from __future__ import annotations

from typing import Any

from warpwright.engine.abi import BLOCK, WARP
from warpwright.isa.ops import SHARED_RANK_SHIFT
from warpwright.native.pieces import core, lowest_bit, peek, u
from warpwright.timing import state as s
from warpwright.timing.clusters import slot_of
from warpwright.timing.records import address_of

WARP_BLOCK, MEMBERS = WARP["block"], BLOCK["cluster_blocks"]
SECTOR_SHIFT = 5


@core
def packets_of(m: Any, sm: int, base: int, tabled: bool, step: int, lanes: int) -> int:
    """How many packets carry an atomic of so many lanes on one block."""
    turns = m[u(sm + s.SM_BANKS)]  # scratch: the how-manieth lane on its word each lane is
    count = 0
    seen = 0
    while lanes:
        lane = lowest_bit(lanes)
        lanes &= lanes - 1
        address = address_of(base, tabled, step, lane)
        turn = 1
        most = 0
        before = seen
        while before:
            other = lowest_bit(before)
            before &= before - 1
            there = address_of(base, tabled, step, other)
            if there == address:
                turn += 1
            if there >> SECTOR_SHIFT == address >> SECTOR_SHIFT:
                most = max(most, m[u(turns + other)])
        m[u(turns + lane)] = turn
        if turn > most:
            count += 1
        seen |= 1 << lane
    return count


@core
def pass_port(m: Any, sm: int, time: int, work: int) -> int:
    """When an SM's port has done ``work`` (1/256 cycle) that it is given at ``time``."""
    done = max(time << 8, m[u(sm + s.SM_REMOTE_PORT)]) + work
    m[u(sm + s.SM_REMOTE_PORT)] = done
    return (done + 255) >> 8


@core
def atomic_on_cluster(m: Any, sm: int, w: int, base: int, tabled: bool, step: int, mask: int, time: int) -> int:
    """When an atomic of a warp on other blocks of its cluster has passed all ports."""
    block = peek(m[u(w + s.W_POINTER)] + WARP_BLOCK)
    end = time
    while mask:
        rank = (address_of(base, tabled, step, lowest_bit(mask)) >> SHARED_RANK_SHIFT) & 255
        lanes = 0
        rest = mask
        while rest:
            lane = lowest_bit(rest)
            rest &= rest - 1
            if (address_of(base, tabled, step, lane) >> SHARED_RANK_SHIFT) & 255 == rank:
                lanes |= 1 << lane
        mask &= ~lanes
        packets = packets_of(m, sm, base, tabled, step, lanes)
        end = max(end, pass_port(m, sm, time, packets * m[u(s.H_REMOTE_SEND)]))
        target = slot_of(m, peek(block + MEMBERS + 8 * rank))[0]
        end = max(end, pass_port(m, target, time, packets * m[u(s.H_REMOTE_TAKE)]))
    return end
