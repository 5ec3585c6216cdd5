"""The block scheduler: all warps of a block in turn, and several blocks when one only spins.

``ww_run_blocks(launch, workspace, first, count)`` runs blocks of a grid on one host thread until they have
ended or something stops them.  A block runs alone as long as it makes progress; when every warp that can run only
yields, further blocks become resident beside it, so that blocks may wait for each other.
``admission.py`` makes blocks resident, ``barriers.py`` counts who arrives at a barrier.
"""

from __future__ import annotations

from warpwright.engine.abi import BLOCK, LAUNCH, PASSED_ON, STATE_AT, WARP, Status
from warpwright.engine.jit.admission import ADMISSION
from warpwright.engine.jit.barriers import BARRIERS
from warpwright.engine.jit.residence import FIELDS, WORKSPACE
from warpwright.engine.jit.standstill import standstill_text

CANCELLED = 100
"""Returned when LAUNCH.cancel was set."""
ROUNDS_BEFORE_NEXT_BLOCK = 4
"""Fruitless turns of all resident blocks before another becomes resident."""

SCHEDULING = f"""
; Run one block as far as it goes: -1 it ended, -2 it only yields, -3 it waits for its cluster, else the status that stops
; the launch.
; A round gives every warp that can run a turn.  Mostly all of them come to the same barrier, or to the same loop that they
; take turns in (STEP), or end: then nobody counts who has arrived (march), and the next round follows.  At anything else those
; before are counted, and the round goes on.
; A warp function may go on with the warps that follow (PASSED_ON): what it returns is about the last of them, BLOCK.running.
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
  %m_told = call i32 %f(ptr %m_warp)
  %m_far = icmp uge i32 %m_told, {PASSED_ON}
  br i1 %m_far, label %m_passed_on, label %m_returned
m_passed_on:
  %p_status = and i32 %m_told, {PASSED_ON - 1}
  %m_last = load ptr, ptr %running_p
  %p_m = call i64 @ww_get(ptr %m_last, i64 {WARP["warp_in_block"]})
  %p_waits = icmp sge i64 %m_id, 0
  br i1 %p_waits, label %halt, label %m_returned
m_returned:
  %m_status = phi i32 [ %m_told, %m_run ], [ %p_status, %m_passed_on ]
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
  %h_status = phi i32 [ 0, %march ], [ %p_status, %m_passed_on ], [ %m_status, %m_returned ], [ %m_status, %m_step ], [ %m_status, %m_barrier ]
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
  %r_told = call i32 %f(ptr %e_warp)
  %r_far = icmp uge i32 %r_told, {PASSED_ON}
  br i1 %r_far, label %passed_on, label %dispatch
passed_on:
  %r_status = and i32 %r_told, {PASSED_ON - 1}
  %e_last = load ptr, ptr %running_p
  %e_number = call i64 @ww_get(ptr %e_last, i64 {WARP["warp_in_block"]})
  store i64 %e_number, ptr %n_p
  store i1 true, ptr %moved_p
  br label %dispatch
dispatch:
  %status = phi i32 [ %h_status, %halt ], [ %r_told, %run ], [ %r_status, %passed_on ]
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

RUN_BLOCKS = "".join((FIELDS, standstill_text(WORKSPACE, STATE_AT), ADMISSION, BARRIERS, SCHEDULING))
"""All functions that a run of blocks needs."""
