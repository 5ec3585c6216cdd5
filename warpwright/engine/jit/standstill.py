"""Endless loops: when every resident warp only repeats itself and memory stays as it is, no warp will ever go on.

Warps are run in turn, each as a function of its own state and of memory.  So once the whole state comes back (what the
warps have saved, their blocks' barriers, shared, local and global memory) it comes back for ever: a lock that nobody will
release, a flag that nobody will set.  Programs that read a clock, or that the host answers, are not judged.

The scheduler asks after every pass in which no block has ended.  Brent's rule keeps that cheap: the warps' digest is
kept at passes 64, 128, 256 and so on and compared at each one after it; memory is read only when it matches.
"""

from __future__ import annotations

from warpwright.engine.abi import BLOCK, LAUNCH, SPILL_HEADER_BYTES, WARP, Layout

FIRST_PASS = 64
"""Passes in which no block ended before states are compared."""
PRIME = 0x9E37_79B9_7F4A_7C15
"""An odd multiplier (2**64 divided by the golden ratio): every step of a digest can be undone, so nothing is lost early."""


def standstill_text(workspace: Layout, state_at: int) -> str:
    """LLVM text of ``i1 @ww_stands_still(launch, workspace, passes, resident)``.

    Args:
        workspace: the scheduler's fields.
        state_at: offset of a warp's state in its save area.
    """
    return f"""
declare i64 @llvm.vector.reduce.xor.v8i64(<8 x i64>)

; A digest of some bytes, which need not be aligned.
define internal i64 @ww_digest(i64 %seed, i64 %at_i, i64 %bytes) noinline {{
  %at = inttoptr i64 %at_i to ptr
  %whole = and i64 %bytes, -64
  %one = insertelement <8 x i64> zeroinitializer, i64 %seed, i64 0
  %first = add <8 x i64> %one, <i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8>
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %line ]
  %h = phi <8 x i64> [ %first, %0 ], [ %h3, %line ]
  %more = icmp ult i64 %n, %whole
  br i1 %more, label %line, label %fold
line:
  %p = getelementptr i8, ptr %at, i64 %n
  %v = load <8 x i64>, ptr %p, align 1
  %h1 = xor <8 x i64> %h, %v
  %h2 = mul <8 x i64> %h1, <{", ".join(f"i64 {PRIME}" for _ in range(8))}>
  %low = lshr <8 x i64> %h2, <{", ".join("i64 29" for _ in range(8))}>
  %h3 = xor <8 x i64> %h2, %low
  %n1 = add i64 %n, 64
  br label %next
fold:
  ; The lanes differ in their seeds alone, so each is made its own before they meet.
  %apart = mul <8 x i64> %h, <i64 3, i64 5, i64 7, i64 11, i64 13, i64 17, i64 19, i64 23>
  %folded = call i64 @llvm.vector.reduce.xor.v8i64(<8 x i64> %apart)
  br label %rest
rest:
  %r = phi i64 [ %whole, %fold ], [ %r1, %byte ]
  %d = phi i64 [ %folded, %fold ], [ %d3, %byte ]
  %left = icmp ult i64 %r, %bytes
  br i1 %left, label %byte, label %end
byte:
  %q = getelementptr i8, ptr %at, i64 %r
  %b = load i8, ptr %q
  %b64 = zext i8 %b to i64
  %d1 = xor i64 %d, %b64
  %d2 = mul i64 %d1, {PRIME}
  %d2_high = lshr i64 %d2, 31
  %d3 = xor i64 %d2, %d2_high
  %r1 = add i64 %r, 1
  br label %rest
end:
  ret i64 %d
}}

; What the warps of one resident block hold, and its barriers.
define internal i64 @ww_digest_warps(i64 %seed, ptr %w, i64 %block_i) noinline {{
  %block = inttoptr i64 %block_i to ptr
  %d0 = call i64 @ww_digest(i64 %seed, i64 %block_i, i64 {BLOCK.size_bytes})
  %count = call i64 @ww_get(ptr %block, i64 {BLOCK["warp_count"]})
  %warps = call i64 @ww_get(ptr %block, i64 {BLOCK["warps"]})
  %warp_bytes = call i64 @ww_get(ptr %w, i64 {workspace["warp_bytes"]})
  %save_bytes = call i64 @ww_get(ptr %w, i64 {workspace["save_bytes"]})
  %kept_bytes = sub i64 %save_bytes, {SPILL_HEADER_BYTES}
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %next ]
  %d = phi i64 [ %d0, %0 ], [ %d5, %next ]
  %far = mul i64 %n, %warp_bytes
  %warp_i = add i64 %warps, %far
  %warp = inttoptr i64 %warp_i to ptr
  %save_i = call i64 @ww_get(ptr %warp, i64 {WARP["spill"]})
  %resume_i = add i64 %warp_i, {WARP["resume"]}
  %d1 = call i64 @ww_digest(i64 %d, i64 %resume_i, i64 8)
  %exited_i = add i64 %warp_i, {WARP["exited"]}
  %d2 = call i64 @ww_digest(i64 %d1, i64 %exited_i, i64 8)
  %arrived_i = add i64 %warp_i, {WARP["barrier_lanes"]}
  %d3 = call i64 @ww_digest(i64 %d2, i64 %arrived_i, i64 8)
  %state_i = add i64 %save_i, {state_at}
  %d4 = call i64 @ww_digest(i64 %d3, i64 %state_i, i64 8)
  %kept_i = add i64 %save_i, {SPILL_HEADER_BYTES}
  %d5 = call i64 @ww_digest(i64 %d4, i64 %kept_i, i64 %kept_bytes)
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, %count
  br i1 %more, label %next, label %end
end:
  ret i64 %d5
}}

; What resident blocks hold: their warps, or else their shared and local memory.
define internal i64 @ww_digest_blocks(ptr %w, i64 %resident, i1 %of_warps) noinline {{
  %order_i = call i64 @ww_get(ptr %w, i64 {workspace["order"]})
  %order = inttoptr i64 %order_i to ptr
  %slot_bytes = call i64 @ww_get(ptr %w, i64 {workspace["slot_bytes"]})
  %base = call i64 @ww_get(ptr %w, i64 {workspace["slot_base"]})
  %shared_at = call i64 @ww_get(ptr %w, i64 {workspace["shared_at"]})
  %memory_bytes = sub i64 %slot_bytes, %shared_at
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %done ]
  %d = phi i64 [ 0, %0 ], [ %d1, %done ]
  %slot_p = getelementptr i64, ptr %order, i64 %n
  %slot = load i64, ptr %slot_p
  %far = mul i64 %slot, %slot_bytes
  %block = add i64 %base, %far
  br i1 %of_warps, label %warps, label %memory
warps:
  %d_warps = call i64 @ww_digest_warps(i64 %d, ptr %w, i64 %block)
  br label %done
memory:
  %shared = add i64 %block, %shared_at
  %d_memory = call i64 @ww_digest(i64 %d, i64 %shared, i64 %memory_bytes)
  br label %done
done:
  %d1 = phi i64 [ %d_warps, %warps ], [ %d_memory, %memory ]
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, %resident
  br i1 %more, label %next, label %end
end:
  ret i64 %d1
}}

; All memory that warps can write.
define internal i64 @ww_digest_memory(ptr %l, ptr %w, i64 %resident) noinline {{
  %d0 = call i64 @ww_digest_blocks(ptr %w, i64 %resident, i1 false)
  %table_i = call i64 @ww_get(ptr %l, i64 {LAUNCH["allocations"]})
  %table = inttoptr i64 %table_i to ptr
  %count = call i64 @ww_get(ptr %l, i64 {LAUNCH["allocation_count"]})
  %minus = call i64 @ww_get(ptr %l, i64 {LAUNCH["host_minus_device"]})
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %one ]
  %d = phi i64 [ %d0, %0 ], [ %d1, %one ]
  %more = icmp ult i64 %n, %count
  br i1 %more, label %one, label %end
one:
  %row = shl i64 %n, 1
  %first_p = getelementptr i64, ptr %table, i64 %row
  %first = load i64, ptr %first_p
  %end_p = getelementptr i8, ptr %first_p, i64 8
  %past = load i64, ptr %end_p
  %bytes = sub i64 %past, %first
  %host = add i64 %first, %minus
  %d1 = call i64 @ww_digest(i64 %d, i64 %host, i64 %bytes)
  %n1 = add i64 %n, 1
  br label %next
end:
  ret i64 %d
}}

; Whether the state after this pass is one that was seen before.
define internal i1 @ww_stands_still(ptr %l, ptr %w, i64 %passes, i64 %resident) noinline {{
  %judged = call i64 @ww_get(ptr %w, i64 {workspace["judged"]})
  %watch = icmp ne i64 %judged, 0
  %late = icmp uge i64 %passes, {FIRST_PASS}
  %look = and i1 %watch, %late
  br i1 %look, label %begin, label %no
begin:
  %less = sub i64 %passes, 1
  %common = and i64 %passes, %less
  %keeps = icmp eq i64 %common, 0
  %seen = call i64 @ww_get(ptr %w, i64 {workspace["seen"]})
  %nothing = icmp eq i64 %seen, 0
  %idle = xor i1 %keeps, true
  %skip = and i1 %idle, %nothing
  br i1 %skip, label %no, label %digest
digest:
  %warps = call i64 @ww_digest_blocks(ptr %w, i64 %resident, i1 true)
  br i1 %keeps, label %keep, label %compare
keep:
  call void @ww_put(ptr %w, i64 {workspace["seen_warps"]}, i64 %warps)
  call void @ww_put(ptr %w, i64 {workspace["seen"]}, i64 1)
  br label %no
compare:
  %old = call i64 @ww_get(ptr %w, i64 {workspace["seen_warps"]})
  %same = icmp eq i64 %old, %warps
  br i1 %same, label %look_at_memory, label %no
look_at_memory:
  %memory = call i64 @ww_digest_memory(ptr %l, ptr %w, i64 %resident)
  %once = icmp eq i64 %seen, 1
  br i1 %once, label %keep_memory, label %compare_memory
keep_memory:
  call void @ww_put(ptr %w, i64 {workspace["seen_memory"]}, i64 %memory)
  call void @ww_put(ptr %w, i64 {workspace["seen"]}, i64 2)
  br label %no
compare_memory:
  %old_memory = call i64 @ww_get(ptr %w, i64 {workspace["seen_memory"]})
  %unchanged = icmp eq i64 %old_memory, %memory
  br i1 %unchanged, label %yes, label %changes
changes:
  ; Work is being done; look again when as many passes have gone by.
  call void @ww_put(ptr %w, i64 {workspace["seen"]}, i64 0)
  br label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
"""
