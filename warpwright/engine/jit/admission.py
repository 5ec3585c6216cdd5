"""Blocks become resident and leave: LLVM text of the functions that fill a block's structures before its warps run.

The blocks of a cluster become resident together and leave one by one.
"""

from __future__ import annotations

from warpwright.engine.abi import BLOCK, LAUNCH, SPILL_HEADER_BYTES, WARP
from warpwright.engine.jit.residence import WORKSPACE

ADMISSION = f"""
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
"""
