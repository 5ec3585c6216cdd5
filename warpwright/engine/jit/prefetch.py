"""Prefetches in loops that access memory with long strides.

In a grid-stride loop, a warp reads one row of an array per iteration, and the next one is a grid's width away: in
another page, which the host's prefetchers do not follow.  The warp would wait for the host's memory in each iteration.
A short loop therefore records the addresses of its loads in the previous iteration, and prefetches the data of a later
one.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.engine.jit.addressing import Place
from warpwright.engine.jit.checks import site_pointer
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.isa.ops import Access

TURNS_SHIFT = 3
"""2**this iterations of a few nanoseconds take as long as an access to the host's memory."""
MOST_LOADS = 4
"""Loops with more loads per iteration have enough of them outstanding."""
PAGE_BYTES = 4096
"""Shorter steps are left to the host's prefetchers."""
LINE_BYTES = 64
MOST_LINES = 2
"""For longer rows, the host's own prefetchers fetch the rest."""


def fetch_ahead(w: FunctionWriter, place: Place, hosts: Sequence[str], extent: int) -> None:
    """Prefetch the data that a load reads in a later iteration of its loop.

    Args:
        hosts: pointers to the pieces of ``extent`` bytes that it reads now; all have the same distance to their
        positions in the next iteration.
    """
    if w.trace or not place.wide or not _is_short_loop(w):
        return
    kept = site_pointer(w, w.add_site())
    now = w.op(f"ptrtoint ptr {hosts[0]} to i64")
    step = w.op(f"sub i64 {now}, {w.op(f'load i64, ptr {kept}')}")
    w.emit(f"store i64 {now}, ptr {kept}")
    size = w.op(f"add i64 {step}, {PAGE_BYTES}")
    fetches, goes_on = w.new_label("fetches"), w.new_label("goes_on")
    w.emit(f"br i1 {w.op(f'icmp ugt i64 {size}, {2 * PAGE_BYTES}')}, label %{fetches}, label %{goes_on}")
    w.label(fetches)
    far = w.op(f"shl i64 {step}, {TURNS_SHIFT}")
    w.declared["llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    for host in hosts:
        for line in range(0, min(extent, MOST_LINES * LINE_BYTES), LINE_BYTES):
            there = w.op(f"getelementptr i8, ptr {w.field(host, line)}, i64 {far}")
            w.emit(f"call void @llvm.prefetch.p0(ptr {there}, i32 0, i32 3, i32 1)")
    w.emit(f"br label %{goes_on}")
    w.label(goes_on)


def _is_short_loop(w: FunctionWriter) -> bool:
    """Whether the current basic block is itself a loop with few loads of global memory."""
    block = w.blocks[w.block]
    if block.number not in block.successors:
        return False
    operations = (op for low in w.lowered[block.first : block.first + block.count] for op in low.ops)
    accesses: list[Access] = [op.attr for op in operations if op.name == "load"]
    return sum(access.space in ("global", "generic") for access in accesses) <= MOST_LOADS
