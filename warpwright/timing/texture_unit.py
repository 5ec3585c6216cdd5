"""The texture unit of graphics programs, which the SMs of a cluster share, with its two caches.

Lindholm et al., "NVIDIA Tesla", IEEE Micro 2008: it processes one group of four threads per cycle, with four address generators and eight
filter units, "is deeply pipelined", and "streams hits mixed with misses without stalling".  So quads enter in the order of time, as fast as addresses and
filters allow, and results leave in the same order once their lines have arrived. The first cache belongs to the cluster, the second to the memory partitions;
sizes and latencies are those of the chip file.

A warp's request names a record in the host's memory, which the functional unit has left (``graphics/texture_lanes.py``): the number
of quads, and of each one its cycles, the number of its lines, and these.
"""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core, lowest_bit, peek
from warpwright.timing import state as s
from warpwright.timing.address_hash import slice_of
from warpwright.timing.dependence_counters import hold
from warpwright.timing.dram import dram_read
from warpwright.timing.mio_queue import enter_queue
from warpwright.timing.records import Addresses, address_of
from warpwright.timing.requests import new_load, new_request, wait_for


@core
def sample(
    m: Any, code: Any, sm: s.SM, sc: s.SubCore, w: s.Warp, row: s.Instruction, time: int, addresses: Addresses
) -> int:
    """Issue a texture instruction: a request to the cluster's unit; returns when its operands have been read."""
    start = enter_queue(m, sm, sc, time, 1)
    barrier = code[row.write_barrier]
    load = new_load(m, sm, w, barrier, s.LD_REGISTER)
    record = address_of(addresses.base, addresses.tabled, addresses.step, lowest_bit(addresses.mask))
    wait_for(m, sm, new_request(m, sm, w, s.RQ_TEXTURE, start, record, 0, 0), load)
    if barrier >= 0:
        hold(m, w, barrier, s.INF, 1)
    return start


@core
def find_line(m: Any, first: int, ways: int, line: int) -> int:
    """Place of a line in a set, or -1 - place of the least recently used way."""
    victim = first
    for way in range(ways):
        place = first + way * s.T_WORDS
        if m[place + s.T_LINE] == line + 1:
            return place
        if m[place + s.T_STAMP] < m[victim + s.T_STAMP]:
            victim = place
    return -1 - victim


@core
def put_line(m: Any, place: int, line: int, time: int, come: int) -> None:
    """Assign a way to a line that arrives at ``come``."""
    m[place + s.T_LINE] = line + 1
    m[place + s.T_STAMP] = time
    m[place + s.T_FILL] = come


@core
def second_cache(m: Any, unit: s.TextureUnit, line: int, time: int) -> int:
    """When a line that the first cache lacks at ``time`` arrives in the cluster."""
    memory_line = line >> m[s.chip.texture_line_shift]
    sector = 1 << (line & ((1 << m[s.chip.texture_line_shift]) - 1))
    home = slice_of(m, memory_line)
    ways = m[s.chip.texture_l2_ways]
    sets = m[s.chip.texture_l2_sets]
    mixed = ((line * s.GOLDEN) >> 40) & 0xFFFF
    first = m[s.chip.texture_l2] + (home * sets + (mixed * sets >> 16)) * ways * s.T_WORDS
    there = m[s.chip.texture_l2_latency] - m[s.chip.texture_latency]
    place = find_line(m, first, ways, line)
    if place >= 0:
        m[place + s.T_STAMP] = time
        return max(time + there, m[place + s.T_FILL] + (there >> 1))
    place = -1 - place
    m[unit.l2_misses] += 1
    come = dram_read(m, home, memory_line, sector, time + (there >> 1))
    put_line(m, place, line, time, come)
    return come + there - (there >> 1)


@core
def first_cache(m: Any, unit: s.TextureUnit, line: int, time: int) -> int:
    """When a line that a quad needs at ``time`` is in the cluster."""
    ways = m[s.chip.texture_ways]
    sets = m[s.chip.texture_sets]
    mixed = ((line * s.GOLDEN) >> 40) & 0xFFFF
    first = unit + s.TextureUnit.size + (mixed * sets >> 16) * ways * s.T_WORDS
    place = find_line(m, first, ways, line)
    if place >= 0:
        m[unit.hits] += 1
        m[place + s.T_STAMP] = time
        return max(time, m[place + s.T_FILL])
    place = -1 - place
    m[unit.misses] += 1
    come = second_cache(m, unit, line, time)
    put_line(m, place, line, time, come)
    return come


@core
def serve_texture(m: Any, sm: s.SM, r: s.Request) -> int:
    """Execute a warp's samples; returns when the results are in its registers."""
    gpc = m[m[s.chip.gpc_of_sm] + m[sm.index]]
    unit = s.TextureUnit(m[s.chip.texture_units] + gpc * m[s.chip.texture_unit_words])
    m[unit.requests] += 1
    place = m[r.line]
    quads = peek(place)
    place += 8
    at = max(m[r.time] << 8, m[unit.free])
    out = m[unit.out]
    for _ in range(quads):
        head = peek(place)
        place += 8
        cycles = (head & ((1 << s.Q_LINES_SHIFT) - 1)) * m[s.chip.texture_quad_interval]
        come = at >> 8
        for _ in range(head >> s.Q_LINES_SHIFT):
            come = max(come, first_cache(m, unit, peek(place), at >> 8))
            place += 8
        at += cycles
        m[unit.busy] += cycles
        out = max(out + cycles, max(at, come << 8))
    m[unit.quads] += quads
    m[unit.free] = at
    m[unit.out] = out
    return (out >> 8) + m[s.chip.texture_latency]
