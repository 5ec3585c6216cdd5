"""Code that all kernels share: exact memory checks, atomics, lane exchanges, tensor cores, rounding directions.

Functions are written as LLVM text.  Those here that ``SHARED`` lists are compiled once in a process; the
others (atomics, directed rounding, tensor cores) go into the module of the kernel that uses them.
"""

from __future__ import annotations

from warpwright.engine.abi import BLOCK, LAUNCH, LOCAL_WINDOW, SHARED_WINDOW, WARP, FaultKind
from warpwright.engine.jit import arithmetic, cold, silicon
from warpwright.engine.jit.function import LLVM_TYPE, Text, Val, vector_type
from warpwright.engine.jit.shapes import LANES, SCALAR_KIND, Shape
from warpwright.isa.ops import Op

WINDOW_BYTES = 1 << 24
SCALAR = Shape(SCALAR_KIND)

RESOLVE = f"""
; Host address of one lane's access, 0 at fault.  %kind: FaultKind; %offset: the address within its space;
; %step: bytes between the words of one lane.
define internal i64 @ww_resolve(ptr %warp, ptr %site, i64 %address, i32 %lane, i32 %bytes, i32 %space, i32 %extent,
                                ptr %kind, ptr %offset, ptr %step) {{
  %size = zext i32 %bytes to i64
  %less = sub i64 %size, 1
  store i64 4, ptr %step
  store i64 %address, ptr %offset
  switch i32 %space, label %global [ i32 1, label %generic i32 2, label %shared i32 3, label %local ]
generic:
  %in_shared = sub i64 %address, {SHARED_WINDOW}
  %is_shared = icmp ult i64 %in_shared, {WINDOW_BYTES}
  br i1 %is_shared, label %shared, label %not_shared
not_shared:
  %in_local = sub i64 %address, {LOCAL_WINDOW}
  %is_local = icmp ult i64 %in_local, {WINDOW_BYTES}
  br i1 %is_local, label %local, label %global
shared:
  %s = phi i64 [ %address, %0 ], [ %in_shared, %generic ]
  store i64 %s, ptr %offset
  %s_low = and i64 %s, %less
  %s_wrong = icmp ne i64 %s_low, 0
  br i1 %s_wrong, label %misaligned, label %shared_check
shared_check:
  %block_p = getelementptr i8, ptr %warp, i64 {WARP["block"]}
  %block = load ptr, ptr %block_p
  %total_p = getelementptr i8, ptr %block, i64 {BLOCK["shared_bytes"]}
  %total = load i64, ptr %total_p
  %s_end = add i64 %s, %size
  %s_fits = icmp ule i64 %s_end, %total
  br i1 %s_fits, label %shared_ok, label %shared_out
shared_out:
  store i32 {int(FaultKind.SHARED_OUT_OF_BOUNDS)}, ptr %kind
  ret i64 0
shared_ok:
  %base_p = getelementptr i8, ptr %block, i64 {BLOCK["shared_base"]}
  %base = load i64, ptr %base_p
  %s_host = add i64 %base, %s
  ret i64 %s_host
local:
  %l = phi i64 [ %address, %0 ], [ %in_local, %not_shared ]
  store i64 %l, ptr %offset
  store i64 128, ptr %step
  %l_low = and i64 %l, %less
  %l_wrong = icmp ne i64 %l_low, 0
  br i1 %l_wrong, label %misaligned, label %local_check
local_check:
  %launch_l_p = getelementptr i8, ptr %warp, i64 {WARP["launch"]}
  %launch_l = load ptr, ptr %launch_l_p
  %room_p = getelementptr i8, ptr %launch_l, i64 {LAUNCH["local_bytes_per_thread"]}
  %room = load i64, ptr %room_p
  %l_end = add i64 %l, %size
  %l_fits = icmp ule i64 %l_end, %room
  br i1 %l_fits, label %local_ok, label %local_out
local_out:
  store i32 {int(FaultKind.LOCAL_OUT_OF_BOUNDS)}, ptr %kind
  ret i64 0
local_ok:
  %local_p = getelementptr i8, ptr %warp, i64 {WARP["local_base"]}
  %local_base = load i64, ptr %local_p
  %row = lshr i64 %l, 2
  %row_bytes = shl i64 %row, 7
  %lane_wide = zext i32 %lane to i64
  %column = shl i64 %lane_wide, 2
  %byte = and i64 %l, 3
  %l1 = add i64 %local_base, %row_bytes
  %l2 = add i64 %l1, %column
  %l3 = add i64 %l2, %byte
  ret i64 %l3
misaligned:
  store i32 {int(FaultKind.MISALIGNED)}, ptr %kind
  ret i64 0
global:
  %g_low = and i64 %address, %less
  %g_wrong = icmp ne i64 %g_low, 0
  br i1 %g_wrong, label %misaligned, label %search
search:
  %launch_p = getelementptr i8, ptr %warp, i64 {WARP["launch"]}
  %launch = load ptr, ptr %launch_p
  %table_p = getelementptr i8, ptr %launch, i64 {LAUNCH["allocations"]}
  %table = load ptr, ptr %table_p
  %count_p = getelementptr i8, ptr %launch, i64 {LAUNCH["allocation_count"]}
  %count = load i64, ptr %count_p
  br label %halve
halve:
  %low = phi i64 [ 0, %search ], [ %new_low, %step_on ]
  %high = phi i64 [ %count, %search ], [ %new_high, %step_on ]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %step_on, label %found
step_on:
  %both = add i64 %low, %high
  %middle = lshr i64 %both, 1
  %row_i = shl i64 %middle, 1
  %entry_p = getelementptr i64, ptr %table, i64 %row_i
  %entry = load i64, ptr %entry_p
  %before = icmp ule i64 %entry, %address
  %after_middle = add i64 %middle, 1
  %new_low = select i1 %before, i64 %after_middle, i64 %low
  %new_high = select i1 %before, i64 %high, i64 %middle
  br label %halve
found:
  %none = icmp eq i64 %low, 0
  br i1 %none, label %outside, label %candidate
candidate:
  %index = sub i64 %low, 1
  %index2 = shl i64 %index, 1
  %first_p = getelementptr i64, ptr %table, i64 %index2
  %first = load i64, ptr %first_p
  %end_p = getelementptr i8, ptr %first_p, i64 8
  %end = load i64, ptr %end_p
  %place = sub i64 %address, %first
  %bytes_here = sub i64 %end, %first
  %left = sub i64 %bytes_here, %place
  %begins = icmp ult i64 %place, %bytes_here
  %ends = icmp uge i64 %left, %size
  %inside = and i1 %begins, %ends
  br i1 %inside, label %global_ok, label %outside
outside:
  store i32 {int(FaultKind.OUT_OF_BOUNDS)}, ptr %kind
  ret i64 0
global_ok:
  %minus_p = getelementptr i8, ptr %launch, i64 {LAUNCH["host_minus_device"]}
  %minus = load i64, ptr %minus_p
  %host = add i64 %address, %minus
  %skewed = and i64 %first, 15
  %no_site = icmp eq ptr %site, null
  %is_skewed = icmp ne i64 %skewed, 0
  %keep_none = or i1 %no_site, %is_skewed
  br i1 %keep_none, label %done, label %refill
refill:
  %extent_wide = zext i32 %extent to i64
  %short = icmp ult i64 %bytes_here, %extent_wide
  %slack = sub i64 %bytes_here, %extent_wide
  %units = udiv i64 %slack, %size
  %places = add i64 %units, 1
  %kept = select i1 %short, i64 0, i64 %places
  store i64 %first, ptr %site
  %count_at = getelementptr i8, ptr %site, i64 8
  store i64 %kept, ptr %count_at
  br label %done
done:
  ret i64 %host
}}

; Host addresses and word steps of all executing lanes; true when one is at fault (recorded in the warp).
define i1 @ww_serve(ptr %warp, ptr %site, ptr %addresses, ptr %hosts, ptr %steps, i32 %exec, i32 %bytes, i32 %space,
                    i32 %extent, i64 %instruction) noinline {{
  %kind = alloca i32
  %offset = alloca i64
  %faulted_p = getelementptr i8, ptr %warp, i64 {WARP["fault_kind"]}
  %faulted = load i64, ptr %faulted_p
  %fresh_warp = icmp eq i64 %faulted, 0
  br i1 %fresh_warp, label %begin, label %already
already:
  ; What a load at fault brought may have led to this access: the first fault stands.
  ret i1 true
begin:
  br label %next
next:
  %rest = phi i32 [ %exec, %begin ], [ %rest_after, %lane_done ]
  %bad = phi i32 [ 0, %begin ], [ %bad_after, %lane_done ]
  %bad_kind = phi i32 [ 0, %begin ], [ %kind_after, %lane_done ]
  %bad_at = phi i64 [ 0, %begin ], [ %at_after, %lane_done ]
  %any = icmp ne i32 %rest, 0
  br i1 %any, label %lane, label %end
lane:
  %number = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %less = sub i32 %rest, 1
  %rest_after = and i32 %rest, %less
  %n = zext i32 %number to i64
  %a_p = getelementptr i64, ptr %addresses, i64 %n
  %a = load i64, ptr %a_p
  %step_p = getelementptr i64, ptr %steps, i64 %n
  store i32 0, ptr %kind
  %host = call i64 @ww_resolve(ptr %warp, ptr %site, i64 %a, i32 %number, i32 %bytes, i32 %space, i32 %extent, ptr %kind, ptr %offset, ptr %step_p)
  %host_p = getelementptr i64, ptr %hosts, i64 %n
  store i64 %host, ptr %host_p
  %k = load i32, ptr %kind
  %at = load i64, ptr %offset
  %ok = icmp eq i32 %k, 0
  %bit = shl i32 1, %number
  ; The kind reported is the first lane's, except that misalignment comes before everything else.
  %fresh = icmp eq i32 %bad, 0
  %is_misaligned = icmp eq i32 %k, {int(FaultKind.MISALIGNED)}
  %was_misaligned = icmp eq i32 %bad_kind, {int(FaultKind.MISALIGNED)}
  %not_was = xor i1 %was_misaligned, true
  %overrides = and i1 %is_misaligned, %not_was
  %new_group = or i1 %fresh, %overrides
  %same = icmp eq i32 %k, %bad_kind
  %with = or i32 %bad, %bit
  %joined = select i1 %same, i32 %with, i32 %bad
  %bad_new = select i1 %new_group, i32 %bit, i32 %joined
  %kind_new = select i1 %new_group, i32 %k, i32 %bad_kind
  %at_new = select i1 %new_group, i64 %at, i64 %bad_at
  br label %lane_done
lane_done:
  %bad_after = select i1 %ok, i32 %bad, i32 %bad_new
  %kind_after = select i1 %ok, i32 %bad_kind, i32 %kind_new
  %at_after = select i1 %ok, i64 %bad_at, i64 %at_new
  br label %next
end:
  %fine = icmp eq i32 %bad, 0
  br i1 %fine, label %good, label %fault
good:
  ret i1 false
fault:
  %f1 = getelementptr i8, ptr %warp, i64 {WARP["fault_kind"]}
  %kind64 = zext i32 %bad_kind to i64
  store i64 %kind64, ptr %f1
  %f2 = getelementptr i8, ptr %warp, i64 {WARP["fault_address"]}
  store i64 %bad_at, ptr %f2
  %f3 = getelementptr i8, ptr %warp, i64 {WARP["fault_lanes"]}
  %bad64 = zext i32 %bad to i64
  store i64 %bad64, ptr %f3
  %f4 = getelementptr i8, ptr %warp, i64 {WARP["fault_bytes"]}
  %bytes64 = zext i32 %bytes to i64
  store i64 %bytes64, ptr %f4
  %f5 = getelementptr i8, ptr %warp, i64 {WARP["fault_instruction"]}
  store i64 %instruction, ptr %f5
  ret i1 true
}}
declare i32 @llvm.cttz.i32(i32, i1)
"""

ACCESS_ARGUMENTS = "ptr %warp, ptr %site, ptr %addresses, ptr %values, i32 %exec, i32 %bytes, i32 %space, i32 %extent, i64 %instruction"
SERVE = (
    "call i1 @ww_serve(ptr %warp, ptr %site, ptr %addresses, ptr %hosts, ptr %steps, i32 %exec, i32 %bytes, "
    "i32 %space, i32 %extent, i64 %instruction)"
)


def lane_loop(body: str, result: str) -> str:
    """A function's body: serve the addresses, then run ``body`` for each executing lane (``%n`` its number)."""
    return f"""
  %hosts = alloca [32 x i64]
  %steps = alloca [32 x i64]
  %fault = {SERVE}
  br i1 %fault, label %bad, label %next
bad:
  ret i1 true
next:
  %rest = phi i32 [ %exec, %0 ], [ %rest_after, %lane_done ]
  %any = icmp ne i32 %rest, 0
  br i1 %any, label %lane, label %end
lane:
  %number = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %less = sub i32 %rest, 1
  %rest_after = and i32 %rest, %less
  %n = zext i32 %number to i64
  %host_p = getelementptr i64, ptr %hosts, i64 %n
  %host = load ptr, ptr %host_p
  %step_p = getelementptr i64, ptr %steps, i64 %n
  %step = load i64, ptr %step_p
{body}
end:
{result}
"""


LOAD = (
    f"define i1 @ww_load({ACCESS_ARGUMENTS}) noinline {{"
    + lane_loop(
        """
  %value_p = getelementptr i32, ptr %values, i64 %n
  switch i32 %bytes, label %wide [ i32 1, label %one i32 2, label %two ]
one:
  %v1 = load i8, ptr %host
  %v1w = zext i8 %v1 to i32
  store i32 %v1w, ptr %value_p
  br label %lane_done
two:
  %v2 = load i16, ptr %host
  %v2w = zext i16 %v2 to i32
  store i32 %v2w, ptr %value_p
  br label %lane_done
wide:
  %words = lshr i32 %bytes, 2
  %words64 = zext i32 %words to i64
  br label %word
word:
  %w = phi i64 [ 0, %wide ], [ %w1, %word ]
  %from_off = mul i64 %w, %step
  %from = getelementptr i8, ptr %host, i64 %from_off
  %v = load i32, ptr %from, align 4
  %to_off = shl i64 %w, 7
  %to = getelementptr i8, ptr %value_p, i64 %to_off
  store i32 %v, ptr %to
  %w1 = add i64 %w, 1
  %again = icmp ult i64 %w1, %words64
  br i1 %again, label %word, label %lane_done
lane_done:
  br label %next""",
        """
  ; A uniform access reads lane 0's value even when lane 0 does not execute.
  %first = call i32 @llvm.cttz.i32(i32 %exec, i1 false)
  %first_in = and i32 %first, 31
  %first64 = zext i32 %first_in to i64
  %source = getelementptr i32, ptr %values, i64 %first64
  br label %copy
copy:
  %c = phi i64 [ 0, %end ], [ %c1, %copy ]
  %c_off = shl i64 %c, 7
  %c_from = getelementptr i8, ptr %source, i64 %c_off
  %c_to = getelementptr i8, ptr %values, i64 %c_off
  %cv = load i32, ptr %c_from
  %c_lane0 = and i32 %exec, 1
  %c_keep = icmp ne i32 %c_lane0, 0
  %c_old = load i32, ptr %c_to
  %c_new = select i1 %c_keep, i32 %c_old, i32 %cv
  store i32 %c_new, ptr %c_to
  %c1 = add i64 %c, 1
  %c_more = icmp ult i64 %c1, 4
  br i1 %c_more, label %copy, label %finished
finished:
  ret i1 false""",
    )
    + "}\n"
)

STORE = (
    f"define i1 @ww_store({ACCESS_ARGUMENTS}) noinline {{"
    + lane_loop(
        """
  %value_p = getelementptr i32, ptr %values, i64 %n
  switch i32 %bytes, label %wide [ i32 1, label %one i32 2, label %two ]
one:
  %v1 = load i8, ptr %value_p
  store i8 %v1, ptr %host
  br label %lane_done
two:
  %v2 = load i16, ptr %value_p
  store i16 %v2, ptr %host
  br label %lane_done
wide:
  %words = lshr i32 %bytes, 2
  %words64 = zext i32 %words to i64
  br label %word
word:
  %w = phi i64 [ 0, %wide ], [ %w1, %word ]
  %to_off = mul i64 %w, %step
  %to = getelementptr i8, ptr %host, i64 %to_off
  %from_off = shl i64 %w, 7
  %from = getelementptr i8, ptr %value_p, i64 %from_off
  %v = load i32, ptr %from
  store i32 %v, ptr %to, align 4
  %w1 = add i64 %w, 1
  %again = icmp ult i64 %w1, %words64
  br i1 %again, label %word, label %lane_done
lane_done:
  br label %next""",
        "  ret i1 false",
    )
    + "}\n"
)

CONSTANT = f"""
define void @ww_load_constant(ptr %launch, ptr %offsets, ptr %values, i32 %exec, i32 %bank, i32 %bytes) noinline {{
  %bank64 = zext i32 %bank to i64
  %slot = shl i64 %bank64, 3
  %base_off = add i64 %slot, {LAUNCH["constant_banks"]}
  %base_p = getelementptr i8, ptr %launch, i64 %base_off
  %base = load ptr, ptr %base_p
  %size_off = add i64 %slot, {LAUNCH["constant_bytes"]}
  %size_p = getelementptr i8, ptr %launch, i64 %size_off
  %total = load i64, ptr %size_p
  %words = udiv i32 %bytes, 4
  %some_words = call i32 @llvm.umax.i32(i32 %words, i32 1)
  %piece = call i32 @llvm.umin.i32(i32 %bytes, i32 4)
  br label %next
next:
  %lane = phi i64 [ 0, %0 ], [ %lane1, %lane_done ]
  %more = icmp ult i64 %lane, 32
  br i1 %more, label %go, label %end
go:
  %off_p = getelementptr i32, ptr %offsets, i64 %lane
  %off = load i32, ptr %off_p
  %off64 = zext i32 %off to i64
  br label %word
word:
  %w = phi i32 [ 0, %go ], [ %w1, %stored ]
  %w64 = zext i32 %w to i64
  %w4 = shl i64 %w64, 2
  %at = add i64 %off64, %w4
  br label %byte
byte:
  %b = phi i32 [ 0, %word ], [ %b1, %byte_done ]
  %sum = phi i32 [ 0, %word ], [ %sum1, %byte_done ]
  %b64 = zext i32 %b to i64
  %place = add i64 %at, %b64
  %inside = icmp ult i64 %place, %total
  br i1 %inside, label %read, label %byte_done
read:
  %p = getelementptr i8, ptr %base, i64 %place
  %v = load i8, ptr %p
  %v32 = zext i8 %v to i32
  %shift = shl i32 %b, 3
  %moved = shl i32 %v32, %shift
  br label %byte_done
byte_done:
  %part = phi i32 [ 0, %byte ], [ %moved, %read ]
  %sum1 = or i32 %sum, %part
  %b1 = add i32 %b, 1
  %b_more = icmp ult i32 %b1, %piece
  br i1 %b_more, label %byte, label %stored
stored:
  %row = shl i64 %w64, 5
  %to_i = add i64 %row, %lane
  %to = getelementptr i32, ptr %values, i64 %to_i
  store i32 %sum1, ptr %to
  %w1 = add i32 %w, 1
  %w_more = icmp ult i32 %w1, %some_words
  br i1 %w_more, label %word, label %lane_done
lane_done:
  %lane1 = add i64 %lane, 1
  br label %next
end:
  ret void
}}
declare i32 @llvm.umax.i32(i32, i32)
declare i32 @llvm.umin.i32(i32, i32)
"""

EXCHANGE = """
define <32 x i32> @ww_shuffle(<32 x i32> %values, <32 x i32> %lanes) noinline {
  %room = alloca [32 x i32], align 128
  %from = alloca [32 x i32], align 128
  %out = alloca [32 x i32], align 128
  store <32 x i32> %values, ptr %room, align 128
  store <32 x i32> %lanes, ptr %from, align 128
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %next ]
  %lane_p = getelementptr i32, ptr %from, i64 %n
  %lane = load i32, ptr %lane_p
  %in = and i32 %lane, 31
  %in64 = zext i32 %in to i64
  %v_p = getelementptr i32, ptr %room, i64 %in64
  %v = load i32, ptr %v_p
  %o_p = getelementptr i32, ptr %out, i64 %n
  store i32 %v, ptr %o_p
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, 32
  br i1 %more, label %next, label %end
end:
  %result = load <32 x i32>, ptr %out, align 128
  ret <32 x i32> %result
}
define <32 x i32> @ww_match_any(<32 x i32> %values, i32 %exec) noinline {
  %room = alloca [32 x i32], align 128
  %out = alloca [32 x i32], align 128
  store <32 x i32> %values, ptr %room, align 128
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %next ]
  %v_p = getelementptr i32, ptr %room, i64 %n
  %v = load i32, ptr %v_p
  %one = insertelement <32 x i32> poison, i32 %v, i64 0
  %all = shufflevector <32 x i32> %one, <32 x i32> poison, <32 x i32> zeroinitializer
  %same = icmp eq <32 x i32> %all, %values
  %bits = bitcast <32 x i1> %same to i32
  %mask = and i32 %bits, %exec
  %o_p = getelementptr i32, ptr %out, i64 %n
  store i32 %mask, ptr %o_p
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, 32
  br i1 %more, label %next, label %end
end:
  %result = load <32 x i32>, ptr %out, align 128
  ret <32 x i32> %result
}
"""

SHARED = (
    *("ww_serve", "ww_load", "ww_store", "ww_load_constant", "ww_shuffle", "ww_match_any", "ww_run_blocks"),
    *cold.symbols(),
)
"""Functions of the shared module, by name."""


# --- functions made on demand ---------------------------------------------------------------------
def on_demand(name: str) -> tuple[str, dict[str, str]] | None:
    """The definition of a function that goes into the kernel's own module, with what it declares; None if shared."""
    if name in SHARED:
        return None
    if name.startswith("ww_atomic_"):
        return atomic_function(name)
    if name.startswith("ww_mma_"):
        return mma_function(name)
    if name.startswith("ww_mufu_"):
        return silicon.function(name)
    return directed_function(name)


ROUNDING_MODES = {"rz": 0, "rn": 1, "rp": 2, "rm": 3}
"""Arguments of llvm.set.rounding."""


def directed_function(name: str) -> tuple[str, dict[str, str]]:
    """An operation under a rounding direction: ``ww_<op>_<argument types>_<type>_<direction>``."""
    _, op, *types, rounding = name.split("_")
    *inputs, result = types
    arguments = ", ".join(f"{vector_type(t)} %a{n}" for n, t in enumerate(inputs))
    out = vector_type(result)
    suffix = f"v{LANES}{result}"
    if op in ("fptrunc", "sitofp", "uitofp"):
        suffix += f".v{LANES}{inputs[0]}"
    stem = f"llvm.experimental.constrained.{op}.{suffix}"
    kinds = ", ".join([*(vector_type(t) for t in inputs), "metadata", "metadata"])
    declared = {
        stem: f"declare {out} @{stem}({kinds})",
        "llvm.set.rounding": "declare void @llvm.set.rounding(i32)",
    }
    text = f"""
define internal {out} @{name}({arguments}) noinline strictfp {{
  call void @llvm.set.rounding(i32 {ROUNDING_MODES[rounding]}) strictfp
  %r = call {out} @{stem}({arguments}, metadata !"round.dynamic", metadata !"fpexcept.ignore") strictfp
  call void @llvm.set.rounding(i32 1) strictfp
  ret {out} %r
}}
"""
    return text, declared


def _floating(t: Text, name: str, type: str, old: str, operand: str) -> str:
    """New bits of a floating-point atomic on one value of ``type``."""
    integer = arithmetic.INTEGER_OF[type]

    def value(bits: str) -> Val:
        if LLVM_TYPE[type] == integer:
            return Val(type, SCALAR, scalar=bits)
        return Val(type, SCALAR, scalar=t.op(f"bitcast {integer} {bits} to {LLVM_TYPE[type]}"))

    attr = "rn" if name == "fadd" else "number"
    result = arithmetic.emit_pure(t, Op(name, type, (0, 1), attr), [value(old), value(operand)], SCALAR)
    if name == "fadd" or type in ("f16", "bf16"):
        result = arithmetic.emit_pure(t, Op("canonical_nan", type, (0,)), [result], SCALAR)
    if LLVM_TYPE[type] == integer:
        return t.scalar(result)
    return t.op(f"bitcast {LLVM_TYPE[type]} {t.scalar(result)} to {integer}")


def atomic_function(name: str) -> tuple[str, dict[str, str]]:
    """``ww_atomic_<operation>_<type>``: old values replace the operands in ``%values``."""
    operation, kind = name.removeprefix("ww_atomic_").rsplit("_", 1)
    wide = kind in ("i64", "f64")
    type = "i64" if wide else "i32"
    size = 8 if wide else 4
    t = Text()
    t.emit("%low_p = getelementptr i32, ptr %values, i64 %n")

    def word(row: int) -> str:
        return t.op(f"load i32, ptr {t.field('%low_p', 128 * row)}")

    def read(position: int) -> str:
        low = word(2 * position)
        if not wide:
            return low
        upper = t.op(f"zext i32 {word(2 * position + 1)} to i64")
        high = t.op(f"shl i64 {upper}, 32")
        return t.op(f"or i64 {t.op(f'zext i32 {low} to i64')}, {high}")

    operand = read(0)
    direct = {
        "add": "add",
        "umin": "umin",
        "umax": "umax",
        "smin": "min",
        "smax": "max",
        "and": "and",
        "or": "or",
        "xor": "xor",
        "exch": "xchg",
    }
    if operation == "cas":
        pair = t.op(f"cmpxchg ptr %host, {type} {read(1)}, {type} {operand} seq_cst seq_cst, align {size}")
        old = t.op(f"extractvalue {{ {type}, i1 }} {pair}, 0")
    elif operation in direct:
        old = t.op(f"atomicrmw {direct[operation]} ptr %host, {type} {operand} seq_cst, align {size}")
    else:
        first = t.op(f"load atomic {type}, ptr %host monotonic, align {size}")
        t.emit("br label %try")
        t.label("try")
        t.emit(f"%seen = phi {type} [ {first}, %lane ], [ %found, %try ]")
        new = _combined(t, operation, kind, type, "%seen", operand)
        t.emit(f"%pair = cmpxchg ptr %host, {type} %seen, {type} {new} seq_cst seq_cst, align {size}")
        t.emit(f"%found = extractvalue {{ {type}, i1 }} %pair, 0")
        t.emit(f"%won = extractvalue {{ {type}, i1 }} %pair, 1")
        t.emit("br i1 %won, label %swapped, label %try")
        t.label("swapped")
        old = "%seen"
    if wide:
        t.emit(f"store i32 {t.op(f'trunc i64 {old} to i32')}, ptr %low_p")
        high = t.op(f"trunc i64 {t.op(f'lshr i64 {old}, 32')} to i32")
        t.emit(f"store i32 {high}, ptr {t.field('%low_p', 128)}")
    else:
        t.emit(f"store i32 {old}, ptr %low_p")
    t.emit("br label %lane_done")
    t.label("lane_done")
    t.emit("br label %next")
    body = "\n".join(t.lines)
    declared = dict(t.declared)
    declared["ww_serve"] = "declare i1 @ww_serve(ptr, ptr, ptr, ptr, ptr, i32, i32, i32, i32, i64)"
    declared["llvm.cttz.i32"] = "declare i32 @llvm.cttz.i32(i32, i1)"
    text = f"define internal i1 @{name}({ACCESS_ARGUMENTS}) noinline {{" + lane_loop(body, "  ret i1 false") + "}\n"
    return text, declared


def _combined(t: Text, operation: str, kind: str, type: str, old: str, operand: str) -> str:
    if operation == "inc":
        above = t.op(f"icmp uge {type} {old}, {operand}")
        return t.op(f"select i1 {above}, {type} 0, {type} {t.op(f'add {type} {old}, 1')}")
    if operation == "dec":
        zero = t.op(f"icmp eq {type} {old}, 0")
        above = t.op(f"icmp ugt {type} {old}, {operand}")
        reset = t.op(f"or i1 {zero}, {above}")
        return t.op(f"select i1 {reset}, {type} {operand}, {type} {t.op(f'sub {type} {old}, 1')}")
    if kind in ("f16x2", "bf16x2"):
        element = kind[:-2]
        halves = []
        for shift in (0, 16):
            old_word = t.op(f"lshr i32 {old}, {shift}")
            operand_word = t.op(f"lshr i32 {operand}, {shift}")
            a = t.op(f"trunc i32 {old_word} to i16")
            b = t.op(f"trunc i32 {operand_word} to i16")
            halves.append(t.op(f"zext i16 {_floating(t, operation, element, a, b)} to i32"))
        return t.op(f"or i32 {halves[0]}, {t.op(f'shl i32 {halves[1]}, 16')}")
    return _floating(t, operation, kind, old, operand)


def mma_function(name: str) -> tuple[str, dict[str, str]]:
    """``ww_mma_<shape>_<element>_<accumulator>_<n_a>_<n_b>_<n_c>_<arch>``: registers in rows of 32 words, D replaces A.

    Sums in f16 and f32 are the silicon's (``engine/silicon_mma.py``); others are added in f64 in the order of k, beginning
    with the accumulator, as ``engine/numerics.py`` defines it.
    """
    _, _, shape, element, accumulator, *numbers = name.split("_")
    n_a, n_b, n_c, arch = (int(n) for n in numbers)
    quads = shape.startswith("m8n8k4.")
    k = 4 if quads else int(shape.split("k")[1])
    rows = 16 if shape.startswith("m16") else 8
    halves = rows // 8
    mixed = len(element) == 4 and element[0] in "su"
    first_element, second_element = (element[:2], element[2:]) if mixed else (element, element)
    t = Text()
    t.emit(f"%a = alloca [{128 if quads else rows * k} x double], align 256")
    t.emit(f"%b = alloca [{128 if quads else 8 * k} x double], align 256")
    t.emit(f"%c = alloca [{rows * 8} x double], align 64")
    f = arithmetic.Form(t, True)

    def register(n: int) -> str:
        return t.op(f"load <32 x i32>, ptr {t.field('%values', 128 * n)}, align 64")

    def values_of(kind: str, first: int, count: int) -> list[str]:
        """The values in consecutive registers."""
        if kind != "f64":
            return [v for n in range(count) for v in elements(kind, register(first + n))]
        found = []
        for n in range(0, count, 2):
            low, high = (f.cast("zext", "i32", "i64", register(first + n + part)) for part in range(2))
            wide = f.op("or", "i64", low, f.op("shl", "i64", high, f.const("i64", 32)))
            found.append(f.cast("bitcast", "i64", "f64", wide))
        return found

    def elements(kind: str, word: str) -> list[str]:
        """Values of a register, lowest first, as <32 x double>."""
        if kind in ("f16", "bf16"):
            parts = []
            for shift in (0, 16):
                moved = f.op("lshr", "i32", word, f.const("i32", shift))
                half = f.cast("trunc", "i32", "i16", moved)
                parts.append(arithmetic.to_double(f, kind, f.cast("bitcast", "i16", kind, half)))
            return parts
        if kind in ("tf32", "f32"):
            if kind == "tf32":
                word = f.op("and", "i32", word, f.const("i32", 0xFFFFE000))
            return [f.cast("fpext", "f32", "f64", f.cast("bitcast", "i32", "f32", word))]
        if kind == "s32":
            return [f.cast("sitofp", "i32", "f64", word)]
        parts = []
        for n in range(4):
            moved = f.op("shl", "i32", word, f.const("i32", 24 - 8 * n))
            moved = f.op("ashr" if kind[0] == "s" else "lshr", "i32", moved, f.const("i32", 24))
            parts.append(f.cast("sitofp", "i32", "f64", moved))
        return parts

    def spread(value: str, base: str, places: list[int]) -> None:
        for lane, place in enumerate(places):
            one = t.op(f"extractelement <32 x double> {value}, i64 {lane}")
            t.emit(f"store double {one}, ptr {t.field(base, 8 * place)}")

    group = [lane // 4 for lane in range(32)]
    thread = [lane % 4 for lane in range(32)]
    a_values = values_of(first_element, 0, n_a)
    b_values = values_of(second_element, n_a, n_b)
    c_values = values_of(accumulator, n_a + n_b, n_c)
    if quads:
        step = silicon.Fused(t, LANES, arch, element, accumulator, 4)
        results = _volta_step(t, f, shape, step, a_values, b_values, c_values)
        _store_results(t, f, accumulator, results)
        return _mma_text(name, t)
    per = max(1, len(a_values) // n_a)
    for n, value in enumerate(a_values):
        r, part = divmod(n, per)
        column = [x * per + part + 4 * per * (r // halves) for x in thread]
        spread(value, "%a", [(g + 8 * (r % halves)) * k + x for g, x in zip(group, column, strict=True)])
    for n, value in enumerate(b_values):
        r, part = divmod(n, per)
        spread(value, "%b", [(x * per + part + 4 * per * r) * 8 + g for g, x in zip(group, thread, strict=True)])
    places = [
        [(g + 8 * (n // 2)) * 8 + x * 2 + n % 2 for g, x in zip(group, thread, strict=True)] for n in range(2 * halves)
    ]
    for n, value in enumerate(c_values):
        spread(value, "%c", places[n])
    row = "<8 x double>"
    fused = silicon.Fused(t, 8, arch, element, accumulator, k) if accumulator in ("f16", "f32") else None
    if fused:
        for base, count in (("a", rows * k), ("b", 8 * k)):
            t.emit(f"%power_{base} = alloca [{count} x double], align 64")
            for place in range(0, 8 * count, 64):
                line = t.op(f"load {row}, ptr {t.field(f'%{base}', place)}, align 64")
                t.emit(f"store {row} {fused.powers(element, line)}, ptr {t.field(f'%power_{base}', place)}, align 64")
    t.emit("br label %row_loop")
    t.label("row_loop")
    t.emit("%r = phi i64 [ 0, %0 ], [ %r1, %row_done ]")
    c_p = t.op(f"getelementptr {row}, ptr %c, i64 %r")
    start = t.op(f"load {row}, ptr {c_p}")
    a_p = t.op(f"getelementptr [{k} x double], ptr %a, i64 %r")
    if fused:
        _fused_row(t, fused, k, a_p, start)
        t.emit("br label %row_done")
    else:
        _ordered_row(t, k, a_p, start)
    t.label("row_done")
    t.emit(f"store {row} %sum1, ptr {c_p}")
    t.emit("%r1 = add i64 %r, 1")
    t.emit(f"br i1 {t.op(f'icmp ult i64 %r1, {rows}')}, label %row_loop, label %out")
    t.label("out")
    results = []
    for lanes in places:
        value = "poison"
        for lane, place in enumerate(lanes):
            one = t.op(f"load double, ptr {t.field('%c', 8 * place)}")
            value = t.op(f"insertelement <32 x double> {value}, double {one}, i64 {lane}")
        results.append(value)
    _store_results(t, f, accumulator, results)
    return _mma_text(name, t)


def _mma_text(name: str, t: Text) -> tuple[str, dict[str, str]]:
    t.emit("ret void")
    return f"define internal void @{name}(ptr %values) noinline {{\n" + "\n".join(t.lines) + "\n}\n", dict(t.declared)


def _ordered_row(t: Text, k: int, a_p: str, start: str) -> None:
    """One row of D as %sum1: products added in the order of k."""
    row = "<8 x double>"
    t.emit("br label %k_loop")
    t.label("k_loop")
    t.emit("%k = phi i64 [ 0, %row_loop ], [ %k1, %k_loop ]")
    t.emit(f"%sum = phi {row} [ {start}, %row_loop ], [ %sum1, %k_loop ]")
    factor_p = t.op(f"getelementptr double, ptr {a_p}, i64 %k")
    factor = t.op(f"load double, ptr {factor_p}")
    line = t.op(f"load {row}, ptr {t.op(f'getelementptr {row}, ptr %b, i64 %k')}")
    t.emit(f"%sum1 = fadd {row} %sum, {t.op(f'fmul {row} {_splat(t, factor)}, {line}')}")
    t.emit("%k1 = add i64 %k, 1")
    t.emit(f"br i1 {t.op(f'icmp ult i64 %k1, {k}')}, label %k_loop, label %row_done")


def _splat(t: Text, value: str) -> str:
    row = "<8 x double>"
    one = t.op(f"insertelement {row} poison, double {value}, i64 0")
    return t.op(f"shufflevector {row} {one}, {row} poison, <8 x i32> zeroinitializer")


def _fused_row(t: Text, fused: silicon.Fused, k: int, a_p: str, start: str) -> None:
    """One row of D as %sum1: the silicon's fused sums."""
    row = "<8 x double>"
    power_p = t.op(f"getelementptr [{k} x double], ptr %power_a, i64 %r")
    total = start
    for first in range(0, k, fused.chunk):
        pairs = []
        for n in range(first, first + fused.chunk):
            factors = [_splat(t, t.op(f"load double, ptr {t.field(p, 8 * n)}")) for p in (a_p, power_p)]
            lines = [t.op(f"load {row}, ptr {t.field(p, 64 * n)}, align 64") for p in ("%b", "%power_b")]
            pairs.append((factors[0], lines[0], factors[1], lines[1]))
        total = fused.sum(pairs, total)
    t.emit(f"%sum1 = select i1 true, {row} {total}, {row} poison")


def _volta_step(
    t: Text, f: arithmetic.Form, shape: str, fused: silicon.Fused, a: list[str], b: list[str], c: list[str]
) -> list[str]:
    """One step of Volta's m8n8k4: four products of 8x4 by 4x8, each by eight lanes."""
    _, layout_a, layout_b, step_text = shape.split(".")
    step = int(step_text)
    for base, values in (("%a", a), ("%b", b)):
        for n, value in enumerate(values):
            t.emit(f"store <32 x double> {value}, ptr {t.field(base, 256 * n)}, align 64")
    gather = "llvm.masked.gather.v32f64.v32p0"
    t.declared[gather] = f"declare <32 x double> @{gather}(<32 x ptr>, i32, <32 x i1>, <32 x double>)"

    def pick(base: str, places: list[int]) -> str:
        pointers = t.op(f"getelementptr double, ptr {base}, <32 x i64> {t.literal_vector('i64', places)}")
        return t.op(
            f"call <32 x double> @{gather}(<32 x ptr> {pointers}, i32 8, <32 x i1> {t.literal_vector('i1', (1,) * 32)}, "
            "<32 x double> zeroinitializer)"
        )

    def source(quad: int, across: int, along: int, by_member: bool) -> int:
        """Place of an element: by lanes of the quad pair along its outer dimension, or along k."""
        member, register = (across % 4, along) if by_member else (along, across % 4)
        return 32 * register + quad * 4 + member + 16 * (across // 4)

    results = []
    for n, total in enumerate(c):
        rows, columns = [], []
        for lane in range(LANES):
            member, upper = lane % 4, 4 * (lane // 16)
            if len(c) == 2:
                rows.append((lane & 1) + 2 * (step & 1) + upper)
                columns.append(4 * (step >> 1) + (lane & 2) + n)
            else:
                rows.append(member + upper)
                columns.append(4 * step + n)
        quads = [lane % 16 // 4 for lane in range(LANES)]
        pairs = []
        for k in range(4):
            left = pick("%a", [source(q, r, k, layout_a == "row") for q, r in zip(quads, rows, strict=True)])
            right = pick("%b", [source(q, x, k, layout_b == "col") for q, x in zip(quads, columns, strict=True)])
            pairs.append((left, right, fused.powers(fused.element, left), fused.powers(fused.element, right)))
        results.append(fused.sum(pairs, total))
    return results


def _store_results(t: Text, f: arithmetic.Form, accumulator: str, values: list[str]) -> None:
    """Round sums to the accumulator's format and leave them as registers."""
    registers: list[str] = []
    for value in values:
        if accumulator == "s32":
            wide = f.call("fptosi.sat", "f64", value, result="i64")
            registers.append(f.cast("trunc", "i64", "i32", wide))
            continue
        if accumulator == "f64":
            short = value
        elif accumulator == "f32":
            short = f.cast("fptrunc", "f64", "f32", value)
        else:
            short = arithmetic.round_single(f, accumulator, arithmetic.odd_single(f, value), "rn")
        nan = arithmetic.is_nan(f, accumulator, short)
        short = f.select(accumulator, nan, f.const(accumulator, arithmetic.CANONICAL[accumulator]), short)
        word = arithmetic.bits(f, accumulator, short)
        if accumulator == "f64":
            registers.append(f.cast("trunc", "i64", "i32", word))
            registers.append(f.cast("trunc", "i64", "i32", f.op("lshr", "i64", word, f.const("i64", 32))))
        else:
            registers.append(word)
    if accumulator in ("f16", "bf16"):
        wide_words = [f.cast("zext", "i16", "i32", r) for r in registers]
        registers = [
            f.op("or", "i32", wide_words[n], f.op("shl", "i32", wide_words[n + 1], f.const("i32", 16)))
            for n in range(0, len(wide_words), 2)
        ]
    for n, word in enumerate(registers):
        t.emit(f"store <32 x i32> {word}, ptr {t.field('%values', 128 * n)}, align 64")


def shared_module() -> str:
    """Text of the module that all kernels share."""
    from warpwright.engine.jit.scheduler import RUN_BLOCKS

    return "\n".join((RESOLVE, LOAD, STORE, CONSTANT, EXCHANGE, cold.module_text(), RUN_BLOCKS))
