"""The block scheduler: all warps of a block in turn, barriers, and several blocks when one only spins.

``ww_run_blocks(launch, workspace, first, count)`` runs blocks of a grid on one host thread until they have
ended or something stops them.  A block runs alone as long as it makes progress; when every warp that can run only
yields, further blocks become resident beside it, so that blocks may wait for each other.
Barriers count threads: a barrier of the whole block expects all living threads; one with an explicit count takes a
warp of which all living lanes arrived as 32 (PTX ISA, ``barrier``).
The blocks of a cluster become resident together and leave one by one.  A cluster's barrier is complete when every living
lane of its blocks has arrived (PTX ISA, ``barrier.cluster``).
"""

from __future__ import annotations

from warpwright.engine.abi import (
    BARRIER_MODES,
    BLOCK,
    LAUNCH,
    SPILL_HEADER_BYTES,
    STATE_AT,
    WARP,
    Layout,
    Status,
)
from warpwright.engine.jit.standstill import standstill_text

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

CANCELLED = 100
"""Returned when LAUNCH.cancel was set."""
ROUNDS_BEFORE_NEXT_BLOCK = 4
"""Fruitless turns of all resident blocks before another becomes resident."""
CLUSTER_ARRIVE, CLUSTER_WAIT = BARRIER_MODES.index("cluster_arrive"), BARRIER_MODES.index("cluster_wait")


def _slot(name: str) -> str:
    return f"getelementptr i8, ptr %w, i64 {WORKSPACE[name]}"


RUN_BLOCKS = f"""
declare i32 @llvm.ctpop.i32(i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @ww_get(ptr %base, i64 %offset) alwaysinline {{
  %p = getelementptr i8, ptr %base, i64 %offset
  %v = load i64, ptr %p
  ret i64 %v
}}
define internal void @ww_put(ptr %base, i64 %offset, i64 %v) alwaysinline {{
  %p = getelementptr i8, ptr %base, i64 %offset
  store i64 %v, ptr %p
  ret void
}}

{standstill_text(WORKSPACE, STATE_AT)}
; Zero a range that begins at a cache line and may end with one.  The C library's memset takes a string instruction for
; more than 2 KiB, which at some distances between a block's areas takes many times as long.
define internal void @ww_zero(ptr %to, i64 %bytes) noinline {{
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %line ]
  %more = icmp ult i64 %n, %bytes
  br i1 %more, label %line, label %end
line:
  %p = getelementptr i8, ptr %to, i64 %n
  store volatile <16 x i32> zeroinitializer, ptr %p, align 64
  %n1 = add i64 %n, 64
  br label %next
end:
  ret void
}}

; Make a block resident in a slot.
define internal void @ww_admit(ptr %l, ptr %w, i64 %slot, i64 %number) noinline {{
  %slot_bytes = call i64 @ww_get(ptr %w, i64 {WORKSPACE["slot_bytes"]})
  %base_i = call i64 @ww_get(ptr %w, i64 {WORKSPACE["slot_base"]})
  %far = mul i64 %slot, %slot_bytes
  %at = add i64 %base_i, %far
  %block = inttoptr i64 %at to ptr
  %gx = call i64 @ww_get(ptr %l, i64 {LAUNCH["grid_x"]})
  %gy = call i64 @ww_get(ptr %l, i64 {LAUNCH["grid_y"]})
  %x = urem i64 %number, %gx
  %yz = udiv i64 %number, %gx
  %y = urem i64 %yz, %gy
  %z = udiv i64 %yz, %gy
  call void @ww_put(ptr %block, i64 {BLOCK["index_x"]}, i64 %x)
  call void @ww_put(ptr %block, i64 {BLOCK["index_y"]}, i64 %y)
  call void @ww_put(ptr %block, i64 {BLOCK["index_z"]}, i64 %z)
  call void @ww_put(ptr %block, i64 {BLOCK["linear_index"]}, i64 %number)
  %shared_at = call i64 @ww_get(ptr %w, i64 {WORKSPACE["shared_at"]})
  %shared_i = add i64 %at, %shared_at
  call void @ww_put(ptr %block, i64 {BLOCK["shared_base"]}, i64 %shared_i)
  %shared_bytes = call i64 @ww_get(ptr %w, i64 {WORKSPACE["shared_bytes"]})
  call void @ww_put(ptr %block, i64 {BLOCK["shared_bytes"]}, i64 %shared_bytes)
  %shared = inttoptr i64 %shared_i to ptr
  call void @ww_zero(ptr %shared, i64 %shared_bytes)
  %warps_at = call i64 @ww_get(ptr %w, i64 {WORKSPACE["warps_at"]})
  %warps_i = add i64 %at, %warps_at
  call void @ww_put(ptr %block, i64 {BLOCK["warps"]}, i64 %warps_i)
  %warp_count = call i64 @ww_get(ptr %w, i64 {WORKSPACE["warp_count"]})
  call void @ww_put(ptr %block, i64 {BLOCK["warp_count"]}, i64 %warp_count)
  %barriers = getelementptr i8, ptr %block, i64 {BLOCK["barriers"]}
  call void @llvm.memset.p0.i64(ptr %barriers, i8 0, i64 256, i1 false)
  ; A cluster of its own, until ww_admit_cluster says otherwise.
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_rank"]}, i64 0)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_index_x"]}, i64 0)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_index_y"]}, i64 0)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_index_z"]}, i64 0)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_id_x"]}, i64 %x)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_id_y"]}, i64 %y)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_id_z"]}, i64 %z)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_blocks"]}, i64 %at)
  %warp_bytes = call i64 @ww_get(ptr %w, i64 {WORKSPACE["warp_bytes"]})
  %save_at = call i64 @ww_get(ptr %w, i64 {WORKSPACE["save_at"]})
  %save_bytes = call i64 @ww_get(ptr %w, i64 {WORKSPACE["save_bytes"]})
  %local_at = call i64 @ww_get(ptr %w, i64 {WORKSPACE["local_at"]})
  %local_bytes = call i64 @ww_get(ptr %w, i64 {WORKSPACE["local_bytes"]})
  %threads = call i64 @ww_get(ptr %w, i64 {WORKSPACE["block_threads"]})
  %sites = call i64 @ww_get(ptr %w, i64 {WORKSPACE["sites"]})
  %launch_i = ptrtoint ptr %l to i64
  %sms = call i64 @ww_get(ptr %l, i64 {LAUNCH["sm_count"]})
  %some_sms = call i64 @llvm.umax.i64(i64 %sms, i64 1)
  %sm = urem i64 %number, %some_sms
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %next ]
  %warp_off = mul i64 %n, %warp_bytes
  %warp_i = add i64 %warps_i, %warp_off
  %warp = inttoptr i64 %warp_i to ptr
  call void @llvm.memset.p0.i64(ptr %warp, i8 0, i64 {WARP.size_bytes}, i1 false)
  call void @ww_put(ptr %warp, i64 {WARP["launch"]}, i64 %launch_i)
  call void @ww_put(ptr %warp, i64 {WARP["block"]}, i64 %at)
  call void @ww_put(ptr %warp, i64 {WARP["warp_in_block"]}, i64 %n)
  %before = shl i64 %n, 5
  %left = sub i64 %threads, %before
  %here = call i64 @llvm.umin.i64(i64 %left, i64 32)
  %one_more = shl i64 1, %here
  %lanes = sub i64 %one_more, 1
  call void @ww_put(ptr %warp, i64 {WARP["lanes"]}, i64 %lanes)
  %local_off = mul i64 %n, %local_bytes
  %local_1 = add i64 %at, %local_at
  %local_i = add i64 %local_1, %local_off
  call void @ww_put(ptr %warp, i64 {WARP["local_base"]}, i64 %local_i)
  %local = inttoptr i64 %local_i to ptr
  call void @ww_zero(ptr %local, i64 %local_bytes)
  call void @ww_put(ptr %warp, i64 {WARP["sm_id"]}, i64 %sm)
  %save_off = mul i64 %n, %save_bytes
  %save_1 = add i64 %at, %save_at
  %save_i = add i64 %save_1, %save_off
  call void @ww_put(ptr %warp, i64 {WARP["spill"]}, i64 %save_i)
  %save = inttoptr i64 %save_i to ptr
  call void @llvm.memset.p0.i64(ptr %save, i8 0, i64 {SPILL_HEADER_BYTES}, i1 false)
  store i64 %sites, ptr %save
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, %warp_count
  %after = add i64 %warp_i, %warp_bytes
  %follower = select i1 %more, i64 %after, i64 0
  call void @ww_put(ptr %warp, i64 {WARP["next"]}, i64 %follower)
  br i1 %more, label %next, label %end
end:
  ret void
}}
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

; Make the blocks of a cluster resident in the slots that ``order`` names.
define internal void @ww_admit_cluster(ptr %l, ptr %w, ptr %order, i64 %number) noinline {{
  %slot_bytes = call i64 @ww_get(ptr %w, i64 {WORKSPACE["slot_bytes"]})
  %base_i = call i64 @ww_get(ptr %w, i64 {WORKSPACE["slot_base"]})
  %gx = call i64 @ww_get(ptr %l, i64 {LAUNCH["grid_x"]})
  %gy = call i64 @ww_get(ptr %l, i64 {LAUNCH["grid_y"]})
  %cx = call i64 @ww_get(ptr %l, i64 {LAUNCH["cluster_x"]})
  %cy = call i64 @ww_get(ptr %l, i64 {LAUNCH["cluster_y"]})
  %cz = call i64 @ww_get(ptr %l, i64 {LAUNCH["cluster_z"]})
  %count = call i64 @ww_get(ptr %l, i64 {LAUNCH["cluster_count"]})
  %nx = call i64 @ww_get(ptr %l, i64 {LAUNCH["clusters_x"]})
  %ny = call i64 @ww_get(ptr %l, i64 {LAUNCH["clusters_y"]})
  %ix = urem i64 %number, %nx
  %iyz = udiv i64 %number, %nx
  %iy = urem i64 %iyz, %ny
  %iz = udiv i64 %iyz, %ny
  br label %next
next:
  %r = phi i64 [ 0, %0 ], [ %r1, %next ]
  %rx = urem i64 %r, %cx
  %ryz = udiv i64 %r, %cx
  %ry = urem i64 %ryz, %cy
  %rz = udiv i64 %ryz, %cy
  %fx = mul i64 %ix, %cx
  %x = add i64 %fx, %rx
  %fy = mul i64 %iy, %cy
  %y = add i64 %fy, %ry
  %fz = mul i64 %iz, %cz
  %z = add i64 %fz, %rz
  %planes = mul i64 %z, %gy
  %rows = add i64 %planes, %y
  %before = mul i64 %rows, %gx
  %linear = add i64 %before, %x
  %slot_p = getelementptr i64, ptr %order, i64 %r
  %slot = load i64, ptr %slot_p
  call void @ww_admit(ptr %l, ptr %w, i64 %slot, i64 %linear)
  %far = mul i64 %slot, %slot_bytes
  %at = add i64 %base_i, %far
  %block = inttoptr i64 %at to ptr
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_rank"]}, i64 %r)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_index_x"]}, i64 %rx)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_index_y"]}, i64 %ry)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_index_z"]}, i64 %rz)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_id_x"]}, i64 %ix)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_id_y"]}, i64 %iy)
  call void @ww_put(ptr %block, i64 {BLOCK["cluster_id_z"]}, i64 %iz)
  %r1 = add i64 %r, 1
  %more = icmp ult i64 %r1, %count
  br i1 %more, label %next, label %tables
tables:
  %t = phi i64 [ 0, %next ], [ %t1, %filled ]
  %t_slot_p = getelementptr i64, ptr %order, i64 %t
  %t_slot = load i64, ptr %t_slot_p
  %t_far = mul i64 %t_slot, %slot_bytes
  %t_at = add i64 %base_i, %t_far
  %t_block = inttoptr i64 %t_at to ptr
  %t_table = getelementptr i8, ptr %t_block, i64 {BLOCK["cluster_blocks"]}
  br label %entry
entry:
  %e = phi i64 [ 0, %tables ], [ %e1, %entry ]
  %e_slot_p = getelementptr i64, ptr %order, i64 %e
  %e_slot = load i64, ptr %e_slot_p
  %e_far = mul i64 %e_slot, %slot_bytes
  %e_at = add i64 %base_i, %e_far
  %e_p = getelementptr i64, ptr %t_table, i64 %e
  store i64 %e_at, ptr %e_p
  %e1 = add i64 %e, 1
  %e_more = icmp ult i64 %e1, %count
  br i1 %e_more, label %entry, label %filled
filled:
  %t1 = add i64 %t, 1
  %t_more = icmp ult i64 %t1, %count
  br i1 %t_more, label %tables, label %end
end:
  ret void
}}

; A block has ended: the others of its cluster no longer reach it.
define internal void @ww_leave(ptr %l, ptr %block) noinline {{
  %count = call i64 @ww_get(ptr %l, i64 {LAUNCH["cluster_count"]})
  %rank = call i64 @ww_get(ptr %block, i64 {BLOCK["cluster_rank"]})
  %own = getelementptr i8, ptr %block, i64 {BLOCK["cluster_blocks"]}
  br label %next
next:
  %r = phi i64 [ 0, %0 ], [ %r1, %done ]
  %p = getelementptr ptr, ptr %own, i64 %r
  %other = load ptr, ptr %p
  %gone = icmp eq ptr %other, null
  br i1 %gone, label %done, label %tell
tell:
  %table = getelementptr i8, ptr %other, i64 {BLOCK["cluster_blocks"]}
  %place = getelementptr ptr, ptr %table, i64 %rank
  store ptr null, ptr %place
  br label %done
done:
  %r1 = add i64 %r, 1
  %more = icmp ult i64 %r1, %count
  br i1 %more, label %next, label %end
end:
  ret void
}}

; Release a block's cluster from its barrier when every living lane has arrived; whether it did.
define internal i1 @ww_release_cluster(ptr %l, ptr %w, ptr %block) noinline {{
  %count = call i64 @ww_get(ptr %l, i64 {LAUNCH["cluster_count"]})
  %warp_bytes = call i64 @ww_get(ptr %w, i64 {WORKSPACE["warp_bytes"]})
  %warps_n = call i64 @ww_get(ptr %w, i64 {WORKSPACE["warp_count"]})
  %table = getelementptr i8, ptr %block, i64 {BLOCK["cluster_blocks"]}
  br label %pass
pass:
  ; First look whether anybody is missing, then wake those that wait.
  %waking = phi i1 [ false, %0 ], [ true, %judge ]
  br label %member
member:
  %r = phi i64 [ 0, %pass ], [ %r1, %member_done ]
  %missing = phi i64 [ 0, %pass ], [ %missing3, %member_done ]
  %some = phi i64 [ 0, %pass ], [ %some3, %member_done ]
  %p = getelementptr ptr, ptr %table, i64 %r
  %other = load ptr, ptr %p
  %gone = icmp eq ptr %other, null
  br i1 %gone, label %member_done, label %warps
warps:
  %first = call i64 @ww_get(ptr %other, i64 {BLOCK["warps"]})
  br label %each
each:
  %n = phi i64 [ 0, %warps ], [ %n1, %next ]
  %missing1 = phi i64 [ %missing, %warps ], [ %missing2, %next ]
  %some1 = phi i64 [ %some, %warps ], [ %some2, %next ]
  %far = mul i64 %n, %warp_bytes
  %warp_i = add i64 %first, %far
  %warp = inttoptr i64 %warp_i to ptr
  %arrived = call i64 @ww_get(ptr %warp, i64 {WARP["cluster_arrived"]})
  br i1 %waking, label %wake, label %look
look:
  %lanes = call i64 @ww_get(ptr %warp, i64 {WARP["lanes"]})
  %exited = call i64 @ww_get(ptr %warp, i64 {WARP["exited"]})
  %out = or i64 %exited, %arrived
  %not_out = xor i64 %out, -1
  %absent = and i64 %lanes, %not_out
  br label %next
wake:
  call void @ww_put(ptr %warp, i64 {WARP["cluster_arrived"]}, i64 0)
  %save_i = call i64 @ww_get(ptr %warp, i64 {WARP["spill"]})
  %save = inttoptr i64 %save_i to ptr
  %state = call i64 @ww_get(ptr %save, i64 {STATE_AT})
  %waits = icmp eq i64 %state, 4
  %now = select i1 %waits, i64 0, i64 %state
  call void @ww_put(ptr %save, i64 {STATE_AT}, i64 %now)
  br label %next
next:
  %lacks = phi i64 [ %absent, %look ], [ 0, %wake ]
  %missing2 = or i64 %missing1, %lacks
  %some2 = or i64 %some1, %arrived
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, %warps_n
  br i1 %more, label %each, label %member_done
member_done:
  %missing3 = phi i64 [ %missing, %member ], [ %missing2, %next ]
  %some3 = phi i64 [ %some, %member ], [ %some2, %next ]
  %r1 = add i64 %r, 1
  %r_more = icmp ult i64 %r1, %count
  br i1 %r_more, label %member, label %judge
judge:
  %nobody_missing = icmp eq i64 %missing3, 0
  %somebody = icmp ne i64 %some3, 0
  %complete0 = and i1 %nobody_missing, %somebody
  %again = xor i1 %waking, true
  %complete = and i1 %complete0, %again
  br i1 %complete, label %pass, label %end
end:
  ret i1 %waking
}}

; Release every barrier that all of its threads have reached; the number of released warps.
define internal i64 @ww_release(ptr %w, ptr %block) noinline {{
  %expected = alloca [16 x i64]
  %waiters = alloca [16 x i64]
  call void @llvm.memset.p0.i64(ptr %expected, i8 0, i64 128, i1 false)
  call void @llvm.memset.p0.i64(ptr %waiters, i8 0, i64 128, i1 false)
  %count = call i64 @ww_get(ptr %block, i64 {BLOCK["warp_count"]})
  %warps_i = call i64 @ww_get(ptr %block, i64 {BLOCK["warps"]})
  %warps = inttoptr i64 %warps_i to ptr
  %warp_bytes = call i64 @ww_get(ptr %w, i64 {WORKSPACE["warp_bytes"]})
  br label %look
look:
  %n = phi i64 [ 0, %0 ], [ %n1, %looked ]
  %living = phi i32 [ 0, %0 ], [ %living1, %looked ]
  %off = mul i64 %n, %warp_bytes
  %warp = getelementptr i8, ptr %warps, i64 %off
  %save_i = call i64 @ww_get(ptr %warp, i64 {WARP["spill"]})
  %save = inttoptr i64 %save_i to ptr
  %state = call i64 @ww_get(ptr %save, i64 {STATE_AT})
  %lanes64 = call i64 @ww_get(ptr %warp, i64 {WARP["lanes"]})
  %exited64 = call i64 @ww_get(ptr %warp, i64 {WARP["exited"]})
  %not_exited = xor i64 %exited64, -1
  %alive64 = and i64 %lanes64, %not_exited
  %alive = trunc i64 %alive64 to i32
  %alive_n = call i32 @llvm.ctpop.i32(i32 %alive)
  %living1 = add i32 %living, %alive_n
  %waits = icmp eq i64 %state, 1
  br i1 %waits, label %count_in, label %looked
count_in:
  %id0 = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_id"]})
  %id = and i64 %id0, 15
  %threads = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_threads"]})
  %e_p = getelementptr i64, ptr %expected, i64 %id
  %e = load i64, ptr %e_p
  %e1 = call i64 @llvm.umax.i64(i64 %e, i64 %threads)
  store i64 %e1, ptr %e_p
  %w_p = getelementptr i64, ptr %waiters, i64 %id
  %w_n = load i64, ptr %w_p
  %w_n1 = add i64 %w_n, 1
  store i64 %w_n1, ptr %w_p
  br label %looked
looked:
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, %count
  br i1 %more, label %look, label %barriers
barriers:
  %living64 = zext i32 %living1 to i64
  br label %each
each:
  %b = phi i64 [ 0, %barriers ], [ %b1, %each_done ]
  %released = phi i64 [ 0, %barriers ], [ %released1, %each_done ]
  %bw_p = getelementptr i64, ptr %waiters, i64 %b
  %bw = load i64, ptr %bw_p
  %has = icmp ne i64 %bw, 0
  br i1 %has, label %test, label %each_done
test:
  %be_p = getelementptr i64, ptr %expected, i64 %b
  %be = load i64, ptr %be_p
  %whole = icmp eq i64 %be, 0
  %need = select i1 %whole, i64 %living64, i64 %be
  %all_arrived = getelementptr i8, ptr %block, i64 {BLOCK["barriers"]}
  %arrived_p = getelementptr i64, ptr %all_arrived, i64 %b
  %arrived = load i64, ptr %arrived_p
  %complete = icmp uge i64 %arrived, %need
  br i1 %complete, label %free, label %each_done
free:
  store i64 0, ptr %arrived_p
  %all_votes = getelementptr i8, ptr %block, i64 {BLOCK["votes"]}
  %votes_p = getelementptr i64, ptr %all_votes, i64 %b
  %votes = load i64, ptr %votes_p
  store i64 0, ptr %votes_p
  %no_votes = icmp eq i64 %votes, 0
  %is_and = zext i1 %no_votes to i64
  %is_or = sub i64 1, %is_and
  br label %wake
wake:
  %k = phi i64 [ 0, %free ], [ %k1, %woken ]
  %k_off = mul i64 %k, %warp_bytes
  %k_warp = getelementptr i8, ptr %warps, i64 %k_off
  %k_save_i = call i64 @ww_get(ptr %k_warp, i64 {WARP["spill"]})
  %k_save = inttoptr i64 %k_save_i to ptr
  %k_state = call i64 @ww_get(ptr %k_save, i64 {STATE_AT})
  %k_id0 = call i64 @ww_get(ptr %k_warp, i64 {WARP["barrier_id"]})
  %k_id = and i64 %k_id0, 15
  %k_same = icmp eq i64 %k_id, %b
  %k_waits = icmp eq i64 %k_state, 1
  %k_go = and i1 %k_same, %k_waits
  br i1 %k_go, label %rouse, label %woken
rouse:
  call void @ww_put(ptr %k_save, i64 {STATE_AT}, i64 0)
  %mode = call i64 @ww_get(ptr %k_warp, i64 {WARP["barrier_mode"]})
  %mode_and = icmp eq i64 %mode, 3
  %mode_or = icmp eq i64 %mode, 4
  %r1 = select i1 %mode_or, i64 %is_or, i64 %votes
  %r2 = select i1 %mode_and, i64 %is_and, i64 %r1
  %mode_red = icmp uge i64 %mode, 2
  %r_old = call i64 @ww_get(ptr %k_warp, i64 {WARP["barrier_result"]})
  %r3 = select i1 %mode_red, i64 %r2, i64 %r_old
  call void @ww_put(ptr %k_warp, i64 {WARP["barrier_result"]}, i64 %r3)
  br label %woken
woken:
  %k1 = add i64 %k, 1
  %k_more = icmp ult i64 %k1, %count
  br i1 %k_more, label %wake, label %freed
freed:
  %released2 = add i64 %released, %bw
  br label %each_done
each_done:
  %released1 = phi i64 [ %released, %each ], [ %released, %test ], [ %released2, %freed ]
  %b1 = add i64 %b, 1
  %b_more = icmp ult i64 %b1, 16
  br i1 %b_more, label %each, label %end
end:
  ret i64 %released1
}}

; A warp arrives at a barrier.
define internal void @ww_arrive(ptr %block, ptr %warp, ptr %save) noinline {{
  %kind = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_mode"]})
  switch i64 %kind, label %of_block [ i64 {CLUSTER_ARRIVE}, label %cluster_arrive i64 {CLUSTER_WAIT}, label %cluster_wait ]
cluster_arrive:
  %c_lanes = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_lanes"]})
  %c_before = call i64 @ww_get(ptr %warp, i64 {WARP["cluster_arrived"]})
  %c_now = or i64 %c_before, %c_lanes
  call void @ww_put(ptr %warp, i64 {WARP["cluster_arrived"]}, i64 %c_now)
  call void @ww_put(ptr %save, i64 {STATE_AT}, i64 0)
  ret void
cluster_wait:
  ; Whose arrival has been taken back is past the barrier already.
  %w_lanes = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_lanes"]})
  %w_arrived = call i64 @ww_get(ptr %warp, i64 {WARP["cluster_arrived"]})
  %w_both = and i64 %w_lanes, %w_arrived
  %w_passes = icmp eq i64 %w_both, 0
  %w_state = select i1 %w_passes, i64 0, i64 4
  call void @ww_put(ptr %save, i64 {STATE_AT}, i64 %w_state)
  ret void
of_block:
  %id0 = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_id"]})
  %id = and i64 %id0, 15
  %arriving64 = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_lanes"]})
  %arriving = trunc i64 %arriving64 to i32
  %threads = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_threads"]})
  %lanes64 = call i64 @ww_get(ptr %warp, i64 {WARP["lanes"]})
  %exited64 = call i64 @ww_get(ptr %warp, i64 {WARP["exited"]})
  %lanes = trunc i64 %lanes64 to i32
  %exited = trunc i64 %exited64 to i32
  %absent0 = xor i32 %lanes, -1
  %absent = or i32 %absent0, %exited
  %all0 = or i32 %absent, %arriving
  %all = icmp eq i32 %all0, -1
  %explicit = icmp ne i64 %threads, 0
  %as_warp = and i1 %all, %explicit
  %n = call i32 @llvm.ctpop.i32(i32 %arriving)
  %n_counted = select i1 %as_warp, i32 32, i32 %n
  %n64 = zext i32 %n_counted to i64
  %all_arrived = getelementptr i8, ptr %block, i64 {BLOCK["barriers"]}
  %arrived_p = getelementptr i64, ptr %all_arrived, i64 %id
  %arrived = load i64, ptr %arrived_p
  %arrived1 = add i64 %arrived, %n64
  store i64 %arrived1, ptr %arrived_p
  %mode = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_mode"]})
  %vote64 = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_vote"]})
  %vote0 = trunc i64 %vote64 to i32
  %vote = and i32 %vote0, %arriving
  %against = xor i32 %vote, %arriving
  %mode_and = icmp eq i64 %mode, 3
  %counted = select i1 %mode_and, i32 %against, i32 %vote
  %votes_n = call i32 @llvm.ctpop.i32(i32 %counted)
  %votes_n64 = zext i32 %votes_n to i64
  %is_red = icmp uge i64 %mode, 2
  %votes_add = select i1 %is_red, i64 %votes_n64, i64 0
  %all_votes = getelementptr i8, ptr %block, i64 {BLOCK["votes"]}
  %votes_p = getelementptr i64, ptr %all_votes, i64 %id
  %votes = load i64, ptr %votes_p
  %votes1 = add i64 %votes, %votes_add
  store i64 %votes1, ptr %votes_p
  %is_arrive = icmp eq i64 %mode, 1
  %state = select i1 %is_arrive, i64 0, i64 1
  call void @ww_put(ptr %save, i64 {STATE_AT}, i64 %state)
  ret void
}}

; Whether a warp that reached a barrier waits for the whole block, with all of its lanes, and nobody was there before.
define internal i1 @ww_plain_barrier(ptr %block, ptr %warp) alwaysinline {{
  %mode = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_mode"]})
  %threads = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_threads"]})
  %arriving = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_lanes"]})
  %lanes = call i64 @ww_get(ptr %warp, i64 {WARP["lanes"]})
  %exited = call i64 @ww_get(ptr %warp, i64 {WARP["exited"]})
  %here = xor i64 %exited, -1
  %alive = and i64 %lanes, %here
  %absent = xor i64 %alive, %arriving
  %id0 = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_id"]})
  %id = and i64 %id0, 15
  %all_arrived = getelementptr i8, ptr %block, i64 {BLOCK["barriers"]}
  %arrived_p = getelementptr i64, ptr %all_arrived, i64 %id
  %arrived = load i64, ptr %arrived_p
  %odd1 = or i64 %mode, %threads
  %odd2 = or i64 %absent, %arrived
  %odd = or i64 %odd1, %odd2
  %plain = icmp eq i64 %odd, 0
  ret i1 %plain
}}

; Those of a block's first warps that have reached a barrier without being counted: count them.
define internal void @ww_arrive_all(ptr %block, ptr %warps, i64 %number, i64 %warp_bytes) noinline {{
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %counted ]
  %more = icmp ult i64 %n, %number
  br i1 %more, label %look, label %end
look:
  %off = mul i64 %n, %warp_bytes
  %warp = getelementptr i8, ptr %warps, i64 %off
  %save_i = call i64 @ww_get(ptr %warp, i64 {WARP["spill"]})
  %save = inttoptr i64 %save_i to ptr
  %state = call i64 @ww_get(ptr %save, i64 {STATE_AT})
  ; Of warps that have run this round, those in the middle of a loop (STEP) have no lanes there.
  %lanes = call i64 @ww_get(ptr %warp, i64 {WARP["barrier_lanes"]})
  %none = icmp eq i64 %lanes, 0
  %nowhere = zext i1 %none to i64
  %busy = or i64 %state, %nowhere
  %waits = icmp eq i64 %busy, 0
  br i1 %waits, label %count, label %counted
count:
  call void @ww_arrive(ptr %block, ptr %warp, ptr %save)
  br label %counted
counted:
  %n1 = add i64 %n, 1
  br label %next
end:
  ret void
}}

; Run one block as far as it goes: -1 it ended, -2 it only yields, -3 it waits for its cluster, else the status that stops
; the launch.
; A round gives every warp that can run a turn.  Mostly all of them come to the same barrier, or to the same loop that they
; take turns in (STEP), or end: then nobody counts who has arrived (march), and the next round follows.  At anything else those
; before are counted, and the round goes on.
; A warp function may go on with the warps that follow: what it returns is about the last of them, BLOCK.running.
define internal i64 @ww_turn(ptr %l, ptr %w, ptr %block) noinline {{
  %n_p = alloca i64
  %ended_p = alloca i64
  %ran_p = alloca i1
  %moved_p = alloca i1
  %at_barrier_p = alloca i1
  %f_i = call i64 @ww_get(ptr %w, i64 {WORKSPACE["warp_function"]})
  %f = inttoptr i64 %f_i to ptr
  %count = call i64 @ww_get(ptr %block, i64 {BLOCK["warp_count"]})
  %warps_i = call i64 @ww_get(ptr %block, i64 {BLOCK["warps"]})
  %warps = inttoptr i64 %warps_i to ptr
  %warp_bytes = call i64 @ww_get(ptr %w, i64 {WORKSPACE["warp_bytes"]})
  %cancel_p = getelementptr i8, ptr %l, i64 {LAUNCH["cancel"]}
  %running_p = getelementptr i8, ptr %block, i64 {BLOCK["running"]}
  br label %round
round:
  store i64 0, ptr %ended_p
  store i1 false, ptr %ran_p
  store i1 false, ptr %at_barrier_p
  br label %march
march:
  %m = phi i64 [ 0, %round ], [ %m1, %marched ]
  ; The barrier that warps of this round wait at, -1 before the first warp is anywhere, -2 where they take turns in a loop.
  %m_id = phi i64 [ -1, %round ], [ %m_id1, %marched ]
  %m_off = mul i64 %m, %warp_bytes
  %m_warp = getelementptr i8, ptr %warps, i64 %m_off
  %m_save_i = call i64 @ww_get(ptr %m_warp, i64 {WARP["spill"]})
  %m_save = inttoptr i64 %m_save_i to ptr
  %m_state = call i64 @ww_get(ptr %m_save, i64 {STATE_AT})
  switch i64 %m_state, label %halt [ i64 0, label %m_run i64 2, label %m_over ]
m_over:
  %o_m = phi i64 [ %m, %march ], [ %r_m, %m_exit ]
  %o_id = phi i64 [ %m_id, %march ], [ %r_id, %m_exit ]
  %m_ended = load i64, ptr %ended_p
  %m_ended1 = add i64 %m_ended, 1
  store i64 %m_ended1, ptr %ended_p
  br label %marched
m_run:
  store i1 true, ptr %ran_p
  store ptr %m_warp, ptr %running_p
  %m_status = call i32 %f(ptr %m_warp)
  %m_last = load ptr, ptr %running_p
  %m_alone = icmp eq ptr %m_last, %m_warp
  br i1 %m_alone, label %m_returned, label %m_passed_on
m_passed_on:
  %p_m = call i64 @ww_get(ptr %m_last, i64 {WARP["warp_in_block"]})
  %p_waits = icmp sge i64 %m_id, 0
  br i1 %p_waits, label %halt, label %m_returned
m_returned:
  %r_m = phi i64 [ %m, %m_run ], [ %p_m, %m_passed_on ]
  %r_warp = phi ptr [ %m_warp, %m_run ], [ %m_last, %m_passed_on ]
  %r_id = phi i64 [ %m_id, %m_run ], [ -2, %m_passed_on ]
  switch i32 %m_status, label %halt [
    i32 {int(Status.BARRIER)}, label %m_barrier
    i32 {int(Status.STEP)}, label %m_step
    i32 {int(Status.EXIT)}, label %m_exit ]
m_exit:
  %x_save_i = call i64 @ww_get(ptr %r_warp, i64 {WARP["spill"]})
  %x_save = inttoptr i64 %x_save_i to ptr
  call void @ww_put(ptr %x_save, i64 {STATE_AT}, i64 2)
  br label %m_over
m_step:
  %s_waits = icmp sge i64 %r_id, 0
  br i1 %s_waits, label %halt, label %marched
m_barrier:
  %m_plain = call i1 @ww_plain_barrier(ptr %block, ptr %r_warp)
  %m_number = call i64 @ww_get(ptr %r_warp, i64 {WARP["barrier_id"]})
  %m_first = icmp eq i64 %r_id, -1
  %m_same = icmp eq i64 %m_number, %r_id
  %m_fits = or i1 %m_first, %m_same
  %m_goes_on = and i1 %m_plain, %m_fits
  store i1 true, ptr %at_barrier_p
  br i1 %m_goes_on, label %marched, label %halt
marched:
  %m_id1 = phi i64 [ %o_id, %m_over ], [ -2, %m_step ], [ %m_number, %m_barrier ]
  %m_at = phi i64 [ %o_m, %m_over ], [ %r_m, %m_step ], [ %r_m, %m_barrier ]
  %m1 = add i64 %m_at, 1
  %m_more = icmp ult i64 %m1, %count
  br i1 %m_more, label %march, label %together
together:
  %together_ended = load i64, ptr %ended_p
  %together_over = icmp eq i64 %together_ended, %count
  br i1 %together_over, label %finished, label %look_up
look_up:
  %called = load atomic i64, ptr %cancel_p monotonic, align 8
  %go_on = icmp eq i64 %called, 0
  br i1 %go_on, label %round, label %break_off
break_off:
  call void @ww_arrive_all(ptr %block, ptr %warps, i64 %count, i64 %warp_bytes)
  ret i64 -2
halt:
  ; A warp that has not run yet, or whose status is to be looked at.
  %fresh = phi i1 [ true, %march ], [ false, %m_passed_on ], [ false, %m_returned ], [ false, %m_step ], [ false, %m_barrier ]
  %h_m = phi i64 [ %m, %march ], [ %p_m, %m_passed_on ], [ %r_m, %m_returned ], [ %r_m, %m_step ], [ %r_m, %m_barrier ]
  %h_id = phi i64 [ %m_id, %march ], [ -2, %m_passed_on ], [ %r_id, %m_returned ], [ %r_id, %m_step ], [ %r_id, %m_barrier ]
  %h_status = phi i32 [ 0, %march ], [ %m_status, %m_passed_on ], [ %m_status, %m_returned ], [ %m_status, %m_step ], [ %m_status, %m_barrier ]
  store i64 %h_m, ptr %n_p
  call void @ww_arrive_all(ptr %block, ptr %warps, i64 %h_m, i64 %warp_bytes)
  %h_moved = load i1, ptr %at_barrier_p
  %h_any = load i64, ptr %ended_p
  %h_ended = icmp ne i64 %h_any, 0
  %h_ran = load i1, ptr %ran_p
  %h_exits = and i1 %h_ended, %h_ran
  %h_moved1 = or i1 %h_moved, %h_exits
  %h_stepped = icmp eq i64 %h_id, -2
  %h_moved2 = or i1 %h_moved1, %h_stepped
  store i1 %h_moved2, ptr %moved_p
  br i1 %fresh, label %each, label %dispatch
each:
  %e_n = load i64, ptr %n_p
  %e_off = mul i64 %e_n, %warp_bytes
  %e_warp = getelementptr i8, ptr %warps, i64 %e_off
  %e_save_i = call i64 @ww_get(ptr %e_warp, i64 {WARP["spill"]})
  %e_save = inttoptr i64 %e_save_i to ptr
  %state = call i64 @ww_get(ptr %e_save, i64 {STATE_AT})
  switch i64 %state, label %each_done [ i64 0, label %run i64 1, label %idle i64 2, label %over ]
idle:
  store i1 true, ptr %at_barrier_p
  br label %each_done
run:
  store i1 true, ptr %ran_p
  store ptr %e_warp, ptr %running_p
  %r_status = call i32 %f(ptr %e_warp)
  %e_last = load ptr, ptr %running_p
  %e_number = call i64 @ww_get(ptr %e_last, i64 {WARP["warp_in_block"]})
  store i64 %e_number, ptr %n_p
  %e_moved = load i1, ptr %moved_p
  %e_passed_on = icmp ne ptr %e_last, %e_warp
  %e_moved1 = or i1 %e_moved, %e_passed_on
  store i1 %e_moved1, ptr %moved_p
  br label %dispatch
dispatch:
  %status = phi i32 [ %h_status, %halt ], [ %r_status, %run ]
  %n = load i64, ptr %n_p
  %off = mul i64 %n, %warp_bytes
  %warp = getelementptr i8, ptr %warps, i64 %off
  %save_i = call i64 @ww_get(ptr %warp, i64 {WARP["spill"]})
  %save = inttoptr i64 %save_i to ptr
  switch i32 %status, label %stop [
    i32 {int(Status.EXIT)}, label %exit
    i32 {int(Status.BARRIER)}, label %barrier
    i32 {int(Status.STEP)}, label %step
    i32 {int(Status.YIELD)}, label %each_done
    i32 {int(Status.SLEEP)}, label %each_done
    i32 {int(Status.DEADLOCK)}, label %stuck ]
exit:
  call void @ww_put(ptr %save, i64 {STATE_AT}, i64 2)
  store i1 true, ptr %moved_p
  br label %over
over:
  %ended = load i64, ptr %ended_p
  %ended1 = add i64 %ended, 1
  store i64 %ended1, ptr %ended_p
  br label %each_done
barrier:
  call void @ww_arrive(ptr %block, ptr %warp, ptr %save)
  store i1 true, ptr %at_barrier_p
  store i1 true, ptr %moved_p
  br label %each_done
step:
  store i1 true, ptr %moved_p
  br label %each_done
stuck:
  call void @ww_put(ptr %save, i64 {STATE_AT}, i64 3)
  store i1 true, ptr %moved_p
  br label %each_done
stop:
  %warp_out = ptrtoint ptr %warp to i64
  call void @ww_put(ptr %w, i64 {WORKSPACE["outcome_warp"]}, i64 %warp_out)
  %status64 = sext i32 %status to i64
  ret i64 %status64
each_done:
  %n0 = load i64, ptr %n_p
  %n1 = add i64 %n0, 1
  store i64 %n1, ptr %n_p
  %more = icmp ult i64 %n1, %count
  br i1 %more, label %each, label %round_done
round_done:
  %r_ended = load i64, ptr %ended_p
  %all_ended = icmp eq i64 %r_ended, %count
  br i1 %all_ended, label %finished, label %alive
finished:
  ret i64 -1
alive:
  %at_barrier = load i1, ptr %at_barrier_p
  br i1 %at_barrier, label %release, label %no_barrier
release:
  %released = call i64 @ww_release(ptr %w, ptr %block)
  %some_released = icmp ne i64 %released, 0
  br label %judge
no_barrier:
  br label %judge
judge:
  %freed = phi i1 [ %some_released, %release ], [ false, %no_barrier ]
  %cancel = load atomic i64, ptr %cancel_p monotonic, align 8
  %stopped = icmp ne i64 %cancel, 0
  br i1 %stopped, label %yields, label %judge2
judge2:
  %moved = load i1, ptr %moved_p
  %progress = or i1 %freed, %moved
  br i1 %progress, label %round, label %judge3
judge3:
  %ran = load i1, ptr %ran_p
  br i1 %ran, label %yields, label %blocked
yields:
  ret i64 -2
blocked:
  %b_n = phi i64 [ 0, %judge3 ], [ %b_n1, %blocked_next ]
  %b_off = mul i64 %b_n, %warp_bytes
  %b_warp = getelementptr i8, ptr %warps, i64 %b_off
  %b_save_i = call i64 @ww_get(ptr %b_warp, i64 {WARP["spill"]})
  %b_save = inttoptr i64 %b_save_i to ptr
  %b_state = call i64 @ww_get(ptr %b_save, i64 {STATE_AT})
  %b_waits = icmp eq i64 %b_state, 4
  br i1 %b_waits, label %for_cluster, label %blocked_next
for_cluster:
  ret i64 -3
blocked_next:
  %b_n1 = add i64 %b_n, 1
  %b_more = icmp ult i64 %b_n1, %count
  br i1 %b_more, label %blocked, label %deadlock
deadlock:
  %first_warp = ptrtoint ptr %warps to i64
  call void @ww_put(ptr %w, i64 {WORKSPACE["outcome_warp"]}, i64 %first_warp)
  ret i64 {int(Status.DEADLOCK)}
}}

; Add what the warps of an ended block have counted.
define internal void @ww_collect(ptr %w, ptr %block) noinline {{
  %count = call i64 @ww_get(ptr %block, i64 {BLOCK["warp_count"]})
  %warps_i = call i64 @ww_get(ptr %block, i64 {BLOCK["warps"]})
  %warps = inttoptr i64 %warps_i to ptr
  %warp_bytes = call i64 @ww_get(ptr %w, i64 {WORKSPACE["warp_bytes"]})
  %i0 = call i64 @ww_get(ptr %w, i64 {WORKSPACE["instructions"]})
  %t0 = call i64 @ww_get(ptr %w, i64 {WORKSPACE["thread_instructions"]})
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %next ]
  %i = phi i64 [ %i0, %0 ], [ %i2, %next ]
  %t = phi i64 [ %t0, %0 ], [ %t2, %next ]
  %off = mul i64 %n, %warp_bytes
  %warp = getelementptr i8, ptr %warps, i64 %off
  %i1 = call i64 @ww_get(ptr %warp, i64 {WARP["instructions"]})
  %i2 = add i64 %i, %i1
  %t1 = call i64 @ww_get(ptr %warp, i64 {WARP["thread_instructions"]})
  %t2 = add i64 %t, %t1
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, %count
  br i1 %more, label %next, label %end
end:
  call void @ww_put(ptr %w, i64 {WORKSPACE["instructions"]}, i64 %i2)
  call void @ww_put(ptr %w, i64 {WORKSPACE["thread_instructions"]}, i64 %t2)
  %d = call i64 @ww_get(ptr %w, i64 {WORKSPACE["blocks_done"]})
  %d1 = add i64 %d, 1
  call void @ww_put(ptr %w, i64 {WORKSPACE["blocks_done"]}, i64 %d1)
  ret void
}}

; The number of the next block to run, or -1: from the shared counter or from this thread's own range.
define internal i64 @ww_next(ptr %w, ptr %own, i64 %end) noinline {{
  %counter_i = call i64 @ww_get(ptr %w, i64 {WORKSPACE["counter"]})
  %private = icmp eq i64 %counter_i, 0
  br i1 %private, label %mine, label %ours
mine:
  %m = load i64, ptr %own
  %m1 = add i64 %m, 1
  store i64 %m1, ptr %own
  br label %check
ours:
  %counter = inttoptr i64 %counter_i to ptr
  %o = atomicrmw add ptr %counter, i64 1 seq_cst, align 8
  br label %check
check:
  %number = phi i64 [ %m, %mine ], [ %o, %ours ]
  %fine = icmp slt i64 %number, %end
  %result = select i1 %fine, i64 %number, i64 -1
  ret i64 %result
}}

define i64 @ww_run_blocks(ptr %l, ptr %w, i64 %first, i64 %count) noinline {{
  %own = alloca i64
  %active = alloca i64
  %turns = alloca i64
  %left = alloca i1
  %fruit = alloca i1
  %awake = alloca i1
  store i64 %first, ptr %own
  store i64 0, ptr %active
  store i64 0, ptr %turns
  store i1 true, ptr %left
  %end = add i64 %first, %count
  %slots = call i64 @ww_get(ptr %w, i64 {WORKSPACE["slots"]})
  %order_i = call i64 @ww_get(ptr %w, i64 {WORKSPACE["order"]})
  %order = inttoptr i64 %order_i to ptr
  %slot_bytes = call i64 @ww_get(ptr %w, i64 {WORKSPACE["slot_bytes"]})
  %base_i = call i64 @ww_get(ptr %w, i64 {WORKSPACE["slot_base"]})
  %cancel_p = getelementptr i8, ptr %l, i64 {LAUNCH["cancel"]}
  %cluster = call i64 @ww_get(ptr %l, i64 {LAUNCH["cluster_count"]})
  %single = icmp eq i64 %cluster, 1
  br label %begin
begin:
  %cancel = load atomic i64, ptr %cancel_p monotonic, align 8
  %stopped = icmp ne i64 %cancel, 0
  br i1 %stopped, label %cancelled, label %need
cancelled:
  ret i64 {CANCELLED}
need:
  %a = load i64, ptr %active
  %t = load i64, ptr %turns
  %idle = icmp eq i64 %a, 0
  %spun = icmp uge i64 %t, {ROUNDS_BEFORE_NEXT_BLOCK}
  %a_then = add i64 %a, %cluster
  %room = icmp ule i64 %a_then, %slots
  %wants0 = or i1 %idle, %spun
  %wants1 = and i1 %wants0, %room
  %more_left = load i1, ptr %left
  %wants = and i1 %wants1, %more_left
  br i1 %wants, label %fetch, label %have
fetch:
  store i64 0, ptr %turns
  %number = call i64 @ww_next(ptr %w, ptr %own, i64 %end)
  %none = icmp slt i64 %number, 0
  br i1 %none, label %no_more, label %admit
no_more:
  store i1 false, ptr %left
  br label %have
admit:
  %slot_p = getelementptr i64, ptr %order, i64 %a
  store i64 %a_then, ptr %active
  br i1 %single, label %admit_one, label %admit_all
admit_one:
  %slot = load i64, ptr %slot_p
  call void @ww_admit(ptr %l, ptr %w, i64 %slot, i64 %number)
  br label %have
admit_all:
  call void @ww_admit_cluster(ptr %l, ptr %w, ptr %slot_p, i64 %number)
  br label %have
have:
  %a_now = load i64, ptr %active
  %empty = icmp eq i64 %a_now, 0
  br i1 %empty, label %maybe_done, label %pass
maybe_done:
  %still = load i1, ptr %left
  br i1 %still, label %begin, label %done
done:
  ret i64 0
pass:
  store i1 false, ptr %fruit
  store i1 false, ptr %awake
  br label %each
each:
  %i = phi i64 [ 0, %pass ], [ %i_next, %each_done ]
  %a_i = load i64, ptr %active
  %in = icmp ult i64 %i, %a_i
  br i1 %in, label %turn, label %pass_done
turn:
  %o_p = getelementptr i64, ptr %order, i64 %i
  %o = load i64, ptr %o_p
  %far = mul i64 %o, %slot_bytes
  %at = add i64 %base_i, %far
  %block = inttoptr i64 %at to ptr
  %r = call i64 @ww_turn(ptr %l, ptr %w, ptr %block)
  switch i64 %r, label %stop [ i64 -1, label %ended i64 -2, label %spins i64 -3, label %waits ]
spins:
  store i1 true, ptr %awake
  br label %waits
waits:
  %freed = call i1 @ww_release_cluster(ptr %l, ptr %w, ptr %block)
  br i1 %freed, label %rouse, label %stay
rouse:
  store i1 true, ptr %awake
  store i1 true, ptr %fruit
  br label %stay
stay:
  %i_stay = add i64 %i, 1
  br label %each_done
ended:
  store i1 true, ptr %fruit
  call void @ww_collect(ptr %w, ptr %block)
  call void @ww_leave(ptr %l, ptr %block)
  %next_left = load i1, ptr %left
  %replaced = and i1 %next_left, %single
  br i1 %replaced, label %replace, label %remove
replace:
  %next_number = call i64 @ww_next(ptr %w, ptr %own, i64 %end)
  %next_none = icmp slt i64 %next_number, 0
  br i1 %next_none, label %exhausted, label %reuse
exhausted:
  store i1 false, ptr %left
  br label %remove
reuse:
  call void @ww_admit(ptr %l, ptr %w, i64 %o, i64 %next_number)
  %still_going = load atomic i64, ptr %cancel_p monotonic, align 8
  %halt = icmp ne i64 %still_going, 0
  br i1 %halt, label %cancelled, label %each_done
remove:
  %last = sub i64 %a_i, 1
  %last_p = getelementptr i64, ptr %order, i64 %last
  %moved = load i64, ptr %last_p
  store i64 %o, ptr %last_p
  store i64 %moved, ptr %o_p
  store i64 %last, ptr %active
  br label %each_done
each_done:
  %i_next = phi i64 [ %i_stay, %stay ], [ %i, %reuse ], [ %i, %remove ]
  br label %each
stop:
  call void @ww_put(ptr %w, i64 {WORKSPACE["outcome_block"]}, i64 %at)
  call void @ww_collect(ptr %w, ptr %block)
  ret i64 %r
pass_done:
  %fruitful = load i1, ptr %fruit
  br i1 %fruitful, label %reset, label %judge
judge:
  %some_awake = load i1, ptr %awake
  br i1 %some_awake, label %fruitless, label %deadlock
deadlock:
  ; Every resident block waits at its cluster's barrier.
  %d_slot = load i64, ptr %order
  %d_far = mul i64 %d_slot, %slot_bytes
  %d_at = add i64 %base_i, %d_far
  %d_block = inttoptr i64 %d_at to ptr
  %d_warps = call i64 @ww_get(ptr %d_block, i64 {BLOCK["warps"]})
  call void @ww_put(ptr %w, i64 {WORKSPACE["outcome_block"]}, i64 %d_at)
  call void @ww_put(ptr %w, i64 {WORKSPACE["outcome_warp"]}, i64 %d_warps)
  call void @ww_collect(ptr %w, ptr %d_block)
  ret i64 {int(Status.DEADLOCK)}
reset:
  store i64 0, ptr %turns
  br label %begin
fruitless:
  %t_old = load i64, ptr %turns
  %t_new = add i64 %t_old, 1
  store i64 %t_new, ptr %turns
  %resident = load i64, ptr %active
  %over = call i1 @ww_stands_still(ptr %l, ptr %w, i64 %t_new, i64 %resident)
  br i1 %over, label %standstill, label %begin
standstill:
  %still_slot = load i64, ptr %order
  %still_far = mul i64 %still_slot, %slot_bytes
  %still_at = add i64 %base_i, %still_far
  %still_block = inttoptr i64 %still_at to ptr
  %still_warps = call i64 @ww_get(ptr %still_block, i64 {BLOCK["warps"]})
  call void @ww_put(ptr %w, i64 {WORKSPACE["outcome_block"]}, i64 %still_at)
  call void @ww_put(ptr %w, i64 {WORKSPACE["outcome_warp"]}, i64 %still_warps)
  call void @ww_put(ptr %w, i64 {WORKSPACE["resident"]}, i64 %resident)
  call void @ww_collect(ptr %w, ptr %still_block)
  ret i64 {int(Status.STANDSTILL)}
}}
"""
