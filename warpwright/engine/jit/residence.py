"""Where one host thread keeps the blocks that it runs, and LLVM text of the accesses to it."""

from __future__ import annotations

from warpwright.engine.abi import Layout

WORKSPACE = Layout(
    warp_function=1,
    warp_count=1,
    block_threads=1,
    shared_bytes=1,
    local_bytes=1,  # per warp
    slots=1,  # blocks that may be resident
    slot_bytes=1,
    slot_base=1,  # pointer to the first slot: BLOCK, warps, save areas, shared, local
    warps_at=1,  # offsets within a slot
    warp_bytes=1,
    save_at=1,
    save_bytes=1,
    shared_at=1,
    local_at=1,
    sites=1,  # pointer to this thread's allocation caches
    order=1,  # pointer to slots' numbers: resident ones first
    counter=1,  # pointer to the next block's number when threads share a range, or 0
    judged=1,  # 1: a state that comes back ends the run (standstill.py)
    seen=1,  # what is kept of an earlier state: 0 nothing, 1 the warps' digest, 2 memory's too
    seen_warps=1,
    seen_memory=1,
    resident=1,  # blocks that were resident when the run ended with STANDSTILL
    outcome_block=1,  # BLOCK of what stopped the run
    outcome_warp=1,  # WARP of what stopped the run
    blocks_done=1,
    instructions=1,
    thread_instructions=1,
)
"""One for each host thread."""

FIELDS = """
declare i32 @llvm.ctpop.i32(i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @ww_get(ptr %base, i64 %offset) alwaysinline {
  %p = getelementptr i8, ptr %base, i64 %offset
  %v = load i64, ptr %p
  ret i64 %v
}
define internal void @ww_put(ptr %base, i64 %offset, i64 %v) alwaysinline {
  %p = getelementptr i8, ptr %base, i64 %offset
  store i64 %v, ptr %p
  ret void
}
"""
"""Words of a structure by their byte offset."""
