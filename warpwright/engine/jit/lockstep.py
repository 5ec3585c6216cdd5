"""Lockstep: the warps of a block take turns in a loop whose rows exceed the host's cache.

A warp that reads a column of blocks in a matrix touches one or two cache lines of each row.  Rows a multiple of 2 KiB apart,
as those of many matrices are, fall into four sets of a first-level cache whose ways are 4 KiB long.  A few rows fill
these sets, and the processor keeps missing (``bench/pitch.py``: twice the time).  The other warps of the block mostly
read the same lines.  A warp therefore yields after each iteration of such a loop, so that its lines serve all warps
before they are evicted.

A warp yields to the next one of its block without the scheduler if that one waits at the same place: the function
starts again for it, and tells the scheduler to which warp its status belongs.  With tracing, the timing model decides
which warp runs.
"""

from __future__ import annotations

from warpwright.engine.abi import BLOCK, PASSED_ON, STATE_AT, WARP, Status
from warpwright.engine.jit.function_writer import FunctionWriter

ROWS_IN_AN_ITERATION = 8
"""With fewer rows between its turns, a warp would lose more time than it gains."""
FEW_SETS_BYTES = 2048
"""Rows at multiples of this distance begin at one or two positions in a page, and so map to few sets of a first-level
cache."""


def long_stride(w: FunctionWriter, n: int) -> str:
    """The distance between rows that a block reads in each iteration of a loop (an LLVM value), or empty."""
    if w.trace or w.setting.threads <= w.lanes:
        return ""
    groups = [g for g in w.open_groups.values() if g.block == n and g.stride]
    longest = max(groups, key=lambda g: g.most - g.least, default=None)
    if longest is None or longest.most - longest.least + 1 < ROWS_IN_AN_ITERATION:
        return ""
    return longest.stride


def give_way(w: FunctionWriter, stride: str, save_label: str, again: str) -> None:
    """The end of an iteration: stop if rows map to few sets, else continue."""
    distance = w.op(f"and i64 {stride}, {FEW_SETS_BYTES - 1}")
    gives = w.new_label("gives_way")
    w.emit(f"br i1 {w.op(f'icmp eq i64 {distance}, 0')}, label %{gives}, label {again}")
    w.label(gives)
    w.emit(f"store i32 {int(Status.STEP)}, ptr %status")
    w.emit(f"br label {save_label}")


def begin(w: FunctionWriter) -> None:
    """The start of the function for another warp."""
    w.emit("br label %begin")
    w.label("begin")
    w.emit("%warp = phi ptr [ %given, %entry ], [ %next_warp, %pass_on ]")
    w.emit(f"%passed_on = phi i32 [ 0, %entry ], [ {PASSED_ON}, %pass_on ]")


def pass_on(w: FunctionWriter, status: str) -> None:
    """The end of the function: continue with the block's next warp if it has stopped at the same place."""
    w.emit(f"br i1 {w.op(f'icmp eq i32 {status}, {int(Status.STEP)}')}, label %step, label %stop")
    w.label("step")
    w.emit(f"%next_warp = load ptr, ptr {w.field('%warp', WARP['next'])}")
    w.emit("br i1 " + w.op("icmp eq ptr %next_warp, null") + ", label %stop, label %compare_next")
    w.label("compare_next")
    here, there = (w.load_field(warp, WARP["resume"]) for warp in ("%warp", "%next_warp"))
    state = w.load_field(w.load_field("%next_warp", WARP["spill"], "ptr"), STATE_AT)
    different = w.op(f"or i64 {state}, {w.op(f'xor i64 {here}, {there}')}")
    w.emit(f"br i1 {w.op(f'icmp eq i64 {different}, 0')}, label %pass_on, label %stop")
    w.label("pass_on")
    w.store_field("%block", BLOCK["running"], "%next_warp", "ptr")
    w.emit("br label %begin")
    w.label("stop")
