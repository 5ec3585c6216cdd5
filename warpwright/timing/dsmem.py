"""Distributed shared memory: loads and atomics on other blocks of the cluster, as packets through one port per SM.

Measured on an H200.  Atomics (``bench.micro remote_adds``): lanes on different words of a sector share a packet; further lanes on one word take a packet each,
whatever the banks.  An SM's port sends a packet in 1.87 cycles or receives one in 1.5, not both at once; a GPC passes 2.6 per cycle over each of two paths
(``remote_channels``).
Loads (``bench.micro remote_places``): the same port sends a request for a line in 1.5 cycles, and a sector of the answer in 1.5.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit, popcount
from warpwright.timing import state as s
from warpwright.timing.coalescer import count_passes, passes_of
from warpwright.timing.l1 import SPACE_SHARED, fill_lines, lanes_of_rank, load_packets, rank_of, sm_of_rank
from warpwright.timing.records import Addresses, address_of


@core
def pass_port(m: Any, sm: s.SM, time: int, work: int) -> int:
    """When an SM's port has finished ``work`` (1/256 cycle) that arrives at ``time``."""
    done = max(time << 8, m[sm.remote_port]) + work
    m[sm.remote_port] = done
    return (done + 255) >> 8


@core
def pass_load(m: Any, sm: s.SM, target: s.SM, packets: int, time: int) -> int:
    """When a load has passed the ports of its SM and of the SM that it reads; ``packets``: lines, and sectors shifted."""
    asked = pass_port(m, sm, time, (packets & s.REMOTE_LINES_MASK) * m[s.chip.remote_ask])
    return max(asked, pass_port(m, target, time, (packets >> s.REMOTE_SECTORS_SHIFT) * m[s.chip.remote_take]))


@core
def answer_load(m: Any, sm: s.SM, r: s.Request) -> None:
    """Serve a load's request to another block."""
    passed = pass_load(m, sm, s.SM(m[r.line]), m[r.sectors], m[r.time])
    m[r.answer] = passed + m[s.chip.remote_latency]


@core
def pass_way(m: Any, sm: s.SM, line: int, time: int, packets: int) -> int:
    """When atomics' packets for a line of shared memory have passed between the SMs of their GPC, over one of two paths, which the line's address selects."""
    if m[s.chip.remote_way] == 0:
        return time
    g = s.Gpc(m[s.chip.gpc_fields] + m[m[s.chip.gpc_of_sm] + m[sm.index]] * s.Gpc.size)
    way = g.cluster_ways[popcount(line & m[s.chip.remote_way_lines]) & 1]
    done = max(time << 8, m[way]) + packets * m[s.chip.remote_way]
    m[way] = done
    return (done + 255) >> 8


@core
def on_cluster(m: Any, sm: s.SM, w: s.Warp, addresses: Addresses, size: int, time: int, changes: bool) -> int:
    """When a warp's load or atomic to other blocks of its cluster has passed all ports."""
    base, tabled, step, mask = addresses
    end = time
    while mask:
        rank = rank_of(address_of(base, tabled, step, lowest_bit(mask)))
        lanes = lanes_of_rank(Addresses(base, tabled, step, mask), rank)
        mask &= ~lanes
        target = sm_of_rank(m, w, rank)
        if not changes:
            packets = load_packets(m, sm, w, Addresses(base, tabled, step, lanes), size)
            end = max(end, pass_load(m, sm, target, packets, time))
            continue
        lines = fill_lines(m, sm, w, Addresses(base, tabled, step, lanes), size, SPACE_SHARED)
        count_passes(m, sm, Addresses(base, tabled, step, lanes), lines)
        packets = 0
        for i in range(lines):
            passes = passes_of(m, m[sm.line_bytes[i]])
            end = max(end, pass_way(m, sm, m[sm.lines[i]], time, passes))
            packets += passes
        end = max(end, pass_port(m, sm, time, packets * m[s.chip.remote_send]))
        end = max(end, pass_port(m, target, time, packets * m[s.chip.remote_take]))
    return end
