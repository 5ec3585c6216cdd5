"""Barriers of a block and of a cluster without timing: LLVM text of the functions that count who has arrived.

Barriers count threads: a barrier of the whole block expects all living threads; one with an explicit count takes a
warp of which all living lanes arrived as 32 (PTX ISA, ``barrier``).  A cluster's barrier is complete when every living
lane of its blocks has arrived (PTX ISA, ``barrier.cluster``).
"""

from __future__ import annotations

from warpwright.engine.abi import BARRIER_MODES, BLOCK, LAUNCH, STATE_AT, WARP
from warpwright.engine.jit.residence import WORKSPACE

CLUSTER_ARRIVE, CLUSTER_WAIT = BARRIER_MODES.index("cluster_arrive"), BARRIER_MODES.index("cluster_wait")

BARRIERS = f"""
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
"""
