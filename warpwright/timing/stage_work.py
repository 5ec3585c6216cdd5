"""Work of a pipeline's fixed-function stages as a source of blocks: warps that stages hand to SMs, and the memory traffic of stages.

A grid's blocks all exist when its launch reaches the dispatcher.  Those of a pipeline (vertices, primitives, pixels: blocks of one warp)
arrive one by one, when the preceding stage has produced them, and often for certain SMs.  The dispatcher therefore does not choose them: the pipeline
starts them between two windows (``start_warps``) and finds their ends in the log.  Reads and writes of its stages pass the
memory partitions' channels together with the requests of the SMs (``stage_traffic``).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from warpwright.native import direct
from warpwright.native.intrinsics import core, words
from warpwright.timing import SOURCES
from warpwright.timing import state as s
from warpwright.timing.dispatcher import start_block
from warpwright.timing.dram import dram_read, dram_write
from warpwright.timing.numbered_units import kernel_at, sm_at
from warpwright.timing.residency import empty_slot, move_in

START_KERNEL, START_BLOCK, START_SM, START_TIME = range(4)
START_WORDS = 4
TRAFFIC_TIME, TRAFFIC_SLICE, TRAFFIC_LINE, TRAFFIC_SECTORS, TRAFFIC_WRITES, TRAFFIC_END = range(6)
TRAFFIC_WORDS = 6


@partial(direct.entry, what="the hand-over of graphics work", sources=SOURCES)
def start_warps(state: Any, rows: Any, count: int) -> int:
    """Start blocks, each given by its kernel, its number, its SM's number and its earliest beginning; none begins before the current window."""
    m = words(state)
    given = words(rows)
    for i in range(count):
        row = i * START_WORDS
        k = kernel_at(m, given[row + START_KERNEL])
        sm = sm_at(m, given[row + START_SM])
        time = max(given[row + START_TIME], m[s.chip.now])
        move_in(m, sm, k)
        m[s.chip.on_chip] += 1
        start_block(m, k, sm, empty_slot(m, sm), given[row + START_BLOCK], time, 0)
    return 0


@core
def pass_sectors(m: Any, piece: int, first: int, sectors: int, writes: int, time: int) -> int:
    """Read or write a number of consecutive sectors, line by line; returns when the last one has arrived."""
    shift = 0
    while (1 << shift) < m[s.chip.line_sectors]:
        shift += 1
    end = time
    at = first
    while at < first + sectors:
        line = at >> shift
        last = min(first + sectors, (line + 1) << shift)
        mask = ((1 << (last - at)) - 1) << (at - (line << shift))
        if writes:
            end = max(end, dram_write(m, piece, line, mask, time))
        else:
            end = max(end, dram_read(m, piece, line, mask, time))
        at = last
    return end


@partial(direct.entry, what="the memory traffic of graphics stages", sources=SOURCES)
def stage_traffic(state: Any, rows: Any, count: int) -> int:
    """Pass reads and writes of stages in the order of their rows; each row gets when it has ended."""
    m = words(state)
    given = words(rows)
    for i in range(count):
        row = i * TRAFFIC_WORDS
        given[row + TRAFFIC_END] = pass_sectors(
            m,
            given[row + TRAFFIC_SLICE],
            given[row + TRAFFIC_LINE],
            given[row + TRAFFIC_SECTORS],
            given[row + TRAFFIC_WRITES],
            given[row + TRAFFIC_TIME],
        )
    return 0
