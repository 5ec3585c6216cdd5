"""The fixed-function stages in simulated time: each passes on its items in order and at its rate, as soon as they arrive and the next stage has room.

Rates come from the chip file. A stage works up to the end of a window with the results known by then; answers from SMs and memory reach it after the window.
Every function takes the batch, the rates, the state of the stages, the window's end and the window's traffic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpwright.graphics.compiled import compiled, compiled_part
from warpwright.graphics.timed.work import (
    COARSE,
    DEPTH,
    DISTRIBUTION,
    FINE,
    FRONT,
    GEOMETRY,
    INPUT,
    N_COLOUR,
    N_CULLED,
    N_DEPTH,
    N_QUADS,
    N_SHADED,
    N_TILES,
    PIXEL,
    ROP,
    SETUP,
    UNKNOWN,
    VERTEX,
    ZCULL,
    Pipe,
    Rates,
    Work,
)

PRIMITIVE_QUEUE = 64
"""Capacity in primitives of the queue between setup and rasterisation (not anchored)."""
ROP_AHEAD_CYCLES = 1000.0
"""How far a ROP may run ahead of its memory requests (not anchored)."""
FETCH, TEST, COLOUR = range(3)
"""Purposes of traffic: a vertex warp's attributes, a run's depths, a run's colours."""
ROOM = 1 << 16
ROOM_NEEDED = 512


class Traffic(NamedTuple):
    """Reads and writes of a window, in the form that ``timing/stage_work.py`` takes, and their purposes."""

    rows: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int64]
    items: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]
    """Number of rows, as an array of one word."""


def new_traffic() -> Traffic:
    return Traffic(
        np.zeros((ROOM, 6), np.int64), np.zeros(ROOM, np.int64), np.zeros(ROOM, np.int64), np.zeros(1, np.int64)
    )


@compiled
def ask(
    traffic: Traffic, time: float, partition: int, sector: int, sectors: int, writes: int, kind: int, item: int
) -> None:
    """Add a row of traffic."""
    n = traffic.used[0]
    row = traffic.rows[n]
    row[0], row[1], row[2], row[3], row[4], row[5] = int(time), partition, sector, sectors, writes, 0
    traffic.kinds[n], traffic.items[n] = kind, item
    traffic.used[0] = n + 1


@compiled
def passed(pipe: Pipe, draw: int, stage: int, begin: float, end: float) -> None:
    """Record that a stage has worked for a draw."""
    pipe.first[draw, stage] = min(pipe.first[draw, stage], begin)
    pipe.last[draw, stage] = max(pipe.last[draw, stage], end)
    pipe.busy[draw, stage] += end - begin


@compiled_part
def input_stage(work: Work, rates: Rates, pipe: Pipe, until: float, traffic: Traffic) -> None:
    """Command fetch and the input assembler: forms warps of vertices and requests their attributes."""
    warps = work.vertex_warps
    while pipe.next[INPUT] < len(warps) and traffic.used[0] < ROOM - ROOM_NEEDED:
        i = pipe.next[INPUT]
        draw, cluster = warps[i].draw, warps[i].cluster
        while pipe.next[FRONT] <= draw:
            at = pipe.next[FRONT]
            begin = pipe.free[FRONT]
            pipe.free[FRONT] = begin + work.draws[at].words * rates.word
            passed(pipe, at, FRONT, begin, pipe.free[FRONT])
            pipe.next[FRONT] = at + 1
        begin = max(pipe.free[INPUT], pipe.last[draw, FRONT] + rates.latency)
        if begin >= until:
            return
        if pipe.out[cluster] >= rates.vertex_buffer:
            pipe.stopped[INPUT] = begin
            return
        pipe.stopped[INPUT] = UNKNOWN
        pipe.out[cluster] += 1
        end = begin + warps[i].core_cycles * rates.core
        pipe.free[INPUT] = end
        passed(pipe, draw, INPUT, begin, end)
        pipe.next[INPUT] = i + 1
        first, count = warps[i].first_line, warps[i].lines
        warps[i].ready = end + rates.latency
        for n in range(first, first + count):
            sector = work.vertex_lines[n]
            ask(traffic, begin, (sector >> 4) % rates.partitions, sector, 1, 0, FETCH, i)


@compiled_part
def geometry_stage(work: Work, rates: Rates, pipe: Pipe) -> None:
    """The geometry controllers: warps of primitives recirculate once their vertices have been transformed."""
    warps = work.geometry_warps
    while pipe.next[GEOMETRY] < len(warps):
        i = pipe.next[GEOMETRY]
        after = warps[i].after
        ready = pipe.free[VERTEX]
        while pipe.next[VERTEX] <= after:
            end = work.vertex_warps[pipe.next[VERTEX]].end
            if end == UNKNOWN:
                return
            ready = max(ready, end)
            pipe.free[VERTEX] = ready
            pipe.out[work.vertex_warps[pipe.next[VERTEX]].cluster] -= 1
            pipe.next[VERTEX] += 1
        warps[i].ready = ready + rates.latency
        pipe.next[GEOMETRY] = i + 1


@compiled_part
def made_ready(work: Work, pipe: Pipe, p: int) -> float:
    """The time at which a primitive has passed its programs; primitives leave in order."""
    g = work.primitives[p].geometry_warp
    if g >= 0:
        return work.geometry_warps[g].end
    needed = work.primitives[p].vertex_warp
    while pipe.next[VERTEX] <= needed:
        end = work.vertex_warps[pipe.next[VERTEX]].end
        if end == UNKNOWN:
            return UNKNOWN
        pipe.free[VERTEX] = max(pipe.free[VERTEX], end)
        pipe.out[work.vertex_warps[pipe.next[VERTEX]].cluster] -= 1
        pipe.next[VERTEX] += 1
    return pipe.free[VERTEX]


@compiled_part
def setup_stage(work: Work, rates: Rates, pipe: Pipe, until: float) -> None:
    """Viewport transform, clip and cull, and the plane equations of the remaining primitives."""
    primitives, runs = work.primitives, work.runs
    while pipe.next[SETUP] < len(primitives):
        p = pipe.next[SETUP]
        at_raster = runs[pipe.next[COARSE]].primitive if pipe.next[COARSE] < len(runs) else p
        if p - at_raster > PRIMITIVE_QUEUE:
            return
        come = made_ready(work, pipe, p)
        if come == UNKNOWN:
            return
        begin = max(pipe.free[SETUP], come + rates.latency)
        if begin >= until:
            return
        end = begin + max(rates.clip, rates.setup * primitives[p].made)
        pipe.free[SETUP] = end
        primitives[p].done = end + rates.latency
        passed(pipe, primitives[p].draw, SETUP, begin, end)
        pipe.next[SETUP] = p + 1


@compiled_part
def test_run(work: Work, rates: Rates, pipe: Pipe, r: int, time: float, traffic: Traffic) -> None:
    """Early depth at the ROP of the tile's partition."""
    runs = work.runs
    partition, draw = runs[r].partition, runs[r].draw
    begin = max(pipe.rop_free[0, partition], time)
    end = begin + runs[r].quads * rates.depth_quad
    pipe.rop_free[0, partition] = end
    passed(pipe, draw, DEPTH, begin, end)
    runs[r].tested = end + rates.latency
    sector = runs[r].sector
    if runs[r].depth_reads:
        ask(traffic, begin, partition, sector, runs[r].depth_reads, 0, TEST, r)
    if runs[r].depth_writes:
        ask(traffic, begin, partition, sector, runs[r].depth_writes, 1, TEST, r)
    pipe.counts[draw, N_DEPTH] += runs[r].depth_reads + runs[r].depth_writes


@compiled_part
def clear_run(work: Work, rates: Rates, pipe: Pipe, r: int, time: float, traffic: Traffic) -> None:
    """A tile of a clear, of which only the compression state changes."""
    runs = work.runs
    partition, draw = runs[r].partition, runs[r].draw
    begin = max(pipe.rop_free[1, partition], time)
    end = begin + rates.core
    pipe.rop_free[1, partition] = end
    passed(pipe, draw, ROP, begin, end)
    runs[r].tested = end
    if runs[r].colour_writes:
        ask(traffic, begin, partition, runs[r].sector, runs[r].colour_writes, 1, COLOUR, r)
    pipe.counts[draw, N_COLOUR] += runs[r].colour_writes


@compiled_part
def raster_run(work: Work, rates: Rates, pipe: Pipe, r: int, begin: float, traffic: Traffic) -> None:
    """Pass a tile through coarse raster, Z-cull, fine raster and early depth; each stage blocks the preceding ones while it is busy."""
    runs = work.runs
    draw = runs[r].draw
    end = begin + rates.coarse
    pipe.free[COARSE] = end
    passed(pipe, draw, COARSE, begin, end)
    pipe.counts[draw, N_TILES] += 1
    begin = max(pipe.free[ZCULL], end)
    end = begin + rates.zcull
    pipe.free[ZCULL] = end
    pipe.free[COARSE] = max(pipe.free[COARSE], begin)
    passed(pipe, draw, ZCULL, begin, end)
    if runs[r].culled:
        pipe.counts[draw, N_CULLED] += 1
        runs[r].tested = end
        return
    begin = max(pipe.free[FINE], end)
    end = begin + max(rates.core, runs[r].quads * rates.fine_quad)
    pipe.free[FINE] = end
    pipe.free[ZCULL] = max(pipe.free[ZCULL], begin)
    passed(pipe, draw, FINE, begin, end)
    pipe.counts[draw, N_QUADS] += runs[r].quads
    if runs[r].early:
        test_run(work, rates, pipe, r, end + rates.latency, traffic)
        pipe.free[FINE] = max(pipe.free[FINE], pipe.rop_free[0, runs[r].partition] - ROP_AHEAD_CYCLES)
    else:
        runs[r].tested = end + rates.latency


@compiled_part
def raster_stage(work: Work, rates: Rates, pipe: Pipe, until: float, traffic: Traffic) -> None:
    """Coarse raster, Z-cull, fine raster, and early depth, tile by tile."""
    runs = work.runs
    while pipe.next[COARSE] < len(runs) and traffic.used[0] < ROOM - ROOM_NEEDED:
        r = pipe.next[COARSE]
        cluster = runs[r].cluster
        p = runs[r].primitive
        if p >= pipe.next[SETUP]:
            return
        come = work.primitives[p].done
        begin = max(pipe.free[COARSE], come)
        if begin >= until:
            return
        if runs[r].shaded and pipe.queued[cluster] >= rates.pixel_queue:
            pipe.stopped[COARSE] = begin
            return
        pipe.stopped[COARSE] = UNKNOWN
        pipe.next[COARSE] = r + 1
        runs[r].tested = UNKNOWN
        if runs[r].cleared:
            pipe.free[COARSE] = begin + rates.core / rates.partitions
            clear_run(work, rates, pipe, r, begin, traffic)
            continue
        raster_run(work, rates, pipe, r, begin, traffic)


@compiled
def distribution_stage(work: Work, rates: Rates, pipe: Pipe, until: float) -> None:
    """The remaining quads go to their tile's cluster, where they are packed into warps."""
    runs, warps = work.runs, work.pixel_warps
    while pipe.next[DISTRIBUTION] < pipe.next[COARSE]:
        r = pipe.next[DISTRIBUTION]
        if runs[r].tested >= until:
            return
        draw, cluster = runs[r].draw, runs[r].cluster
        end = runs[r].tested
        if runs[r].alive and runs[r].shaded:
            begin = max(pipe.cluster_free[0, cluster], end)
            end = begin + runs[r].alive * rates.distributed_quad
            pipe.cluster_free[0, cluster] = end
            passed(pipe, draw, DISTRIBUTION, begin, end)
            pipe.counts[draw, N_SHADED] += runs[r].alive
        runs[r].distributed = end
        pipe.next[DISTRIBUTION] = r + 1
        while pipe.next[PIXEL] < len(warps) and warps[pipe.next[PIXEL]].run <= r:
            w = pipe.next[PIXEL]
            warps[w].ready = max(end, pipe.cluster_free[0, warps[w].cluster]) + rates.latency
            pipe.queued[warps[w].cluster] += 1
            pipe.next[PIXEL] = w + 1


@compiled
def rop_warp(work: Work, rates: Rates, pipe: Pipe, w: int, traffic: Traffic) -> None:
    """Write the colours, and the late depths, of a warp that has ended; the warps of a cluster leave in the order in which they end."""
    warps, runs = work.pixel_warps, work.runs
    cluster, draw = warps[w].cluster, warps[w].draw
    time = max(pipe.cluster_free[1, cluster], warps[w].end + rates.latency)
    for n in range(warps[w].first_part, warps[w].first_part + warps[w].parts):
        part = work.parts[n]
        r, partition = part.run, runs[part.run].partition
        if part.tested:
            begin = max(pipe.rop_free[0, partition], time)
            pipe.rop_free[0, partition] = begin + part.tested * rates.depth_quad
            passed(pipe, draw, DEPTH, begin, pipe.rop_free[0, partition])
        begin = max(pipe.rop_free[1, partition], time)
        end = begin + part.quads * rates.rop_quad
        pipe.rop_free[1, partition] = end
        passed(pipe, draw, ROP, begin, end)
        if runs[r].paid == 0:
            runs[r].paid = 1
            late = 0 if runs[r].early else 1
            reads = runs[r].colour_reads + late * runs[r].depth_reads
            writes = runs[r].colour_writes + late * runs[r].depth_writes
            if reads:
                ask(traffic, begin, partition, runs[r].sector, reads, 0, COLOUR, r)
            if writes:
                ask(traffic, begin, partition, runs[r].sector, writes, 1, COLOUR, r)
            pipe.counts[draw, N_COLOUR] += runs[r].colour_reads + runs[r].colour_writes
            pipe.counts[draw, N_DEPTH] += late * (runs[r].depth_reads + runs[r].depth_writes)
        # A ROP that is far behind delays the cluster's results.
        time = max(time, pipe.rop_free[1, partition] - ROP_AHEAD_CYCLES)
    pipe.cluster_free[1, cluster] = time


@compiled
def answers(work: Work, rates: Rates, pipe: Pipe, traffic: Traffic) -> None:
    """Process the answers of memory."""
    runs = work.runs
    for n in range(traffic.used[0]):
        item, end = traffic.items[n], float(traffic.rows[n, 5])
        kind, writes = traffic.kinds[n], traffic.rows[n, 4]
        if kind == FETCH:
            work.vertex_warps[item].ready = max(work.vertex_warps[item].ready, end + rates.latency)
            continue
        side = 0 if kind == TEST else 1
        partition = runs[item].partition
        pipe.rop_free[side, partition] = max(pipe.rop_free[side, partition], end - ROP_AHEAD_CYCLES)
        if kind == TEST and not writes:
            runs[item].tested = max(runs[item].tested, end + rates.latency)
        draw = runs[item].draw
        pipe.last[draw, ROP] = max(pipe.last[draw, ROP], end)
    traffic.used[0] = 0


@compiled
def before_window(work: Work, rates: Rates, pipe: Pipe, until: float, traffic: Traffic) -> None:
    """Run all stages up to early depth, with the results known when a window begins."""
    input_stage(work, rates, pipe, until, traffic)
    geometry_stage(work, rates, pipe)
    setup_stage(work, rates, pipe, until)
    raster_stage(work, rates, pipe, until, traffic)


@compiled
def end_window(pipe: Pipe, until: float) -> None:
    """Stages that could not pass on their items wait until the next window, because there is no room before it."""
    for stage in range(len(pipe.stopped)):
        if pipe.stopped[stage] < until:
            pipe.waits[stage] += until - pipe.stopped[stage]
            pipe.free[stage] = max(pipe.free[stage], until)
        pipe.stopped[stage] = UNKNOWN


@compiled
def next_event(work: Work, rates: Rates, pipe: Pipe) -> float:
    """The earliest time at which a stage has known work; INF if none has."""
    soonest = UNKNOWN
    if pipe.next[INPUT] < len(work.vertex_warps):
        w = work.vertex_warps[pipe.next[INPUT]]
        if pipe.out[w.cluster] < rates.vertex_buffer:
            soonest = min(soonest, pipe.free[INPUT])
    if pipe.next[SETUP] < len(work.primitives):
        come = made_ready(work, pipe, pipe.next[SETUP])
        if come != UNKNOWN:
            soonest = min(soonest, max(pipe.free[SETUP], come + rates.latency))
    if pipe.next[COARSE] < len(work.runs) and work.runs[pipe.next[COARSE]].primitive < pipe.next[SETUP]:
        soonest = min(soonest, max(pipe.free[COARSE], work.primitives[work.runs[pipe.next[COARSE]].primitive].done))
    if pipe.next[DISTRIBUTION] < pipe.next[COARSE]:
        soonest = min(soonest, work.runs[pipe.next[DISTRIBUTION]].tested)
    return soonest
