"""Exact accesses: check every lane's address against the allocations and execute lane by lane.

Functions of the module that all kernels share (``shared_code.py``), as LLVM text.
"""

from __future__ import annotations

from warpwright.engine.abi import (
    BLOCK,
    LAUNCH,
    LOCAL_WINDOW,
    OVERRUN,
    SHARED_OFFSETS,
    SHARED_RANK_SHIFT,
    SHARED_WINDOW,
    SHARED_WINDOW_BYTES,
    WARP,
    WINDOW_BYTES,
    FaultKind,
)
from warpwright.engine.jit.llvm_snippets import copy_value, each_lane
from warpwright.engine.jit.wave import Wave


def _windows() -> str:
    """The space of a generic address, and the block that an address of shared memory names."""
    return f"""\
own_shared:
  ; In a cluster, the rank that the address of a block's own memory may carry counts for nothing.
  %launch_s_p = getelementptr i8, ptr %warp, i64 {WARP["launch"]}
  %launch_s = load ptr, ptr %launch_s_p
  %count_s_p = getelementptr i8, ptr %launch_s, i64 {LAUNCH["cluster_count"]}
  %count_s = load i64, ptr %count_s_p
  %alone = icmp eq i64 %count_s, 1
  %without_rank = and i64 %address, {SHARED_OFFSETS}
  %own_offset = select i1 %alone, i64 %address, i64 %without_rank
  br label %shared
generic:
  %in_shared = sub i64 %address, {SHARED_WINDOW}
  %is_shared = icmp ult i64 %in_shared, {SHARED_WINDOW_BYTES}
  br i1 %is_shared, label %of_cluster, label %not_shared
of_cluster:
  %rank = lshr i64 %in_shared, {SHARED_RANK_SHIFT}
  %in_block = and i64 %in_shared, {SHARED_OFFSETS}
  %launch_c_p = getelementptr i8, ptr %warp, i64 {WARP["launch"]}
  %launch_c = load ptr, ptr %launch_c_p
  %ranks_p = getelementptr i8, ptr %launch_c, i64 {LAUNCH["cluster_count"]}
  %ranks = load i64, ptr %ranks_p
  %known = icmp ult i64 %rank, %ranks
  br i1 %known, label %member, label %no_member
no_member:
  store i32 {int(FaultKind.NO_SUCH_BLOCK)}, ptr %kind
  ret i64 0
member:
  %members = getelementptr i8, ptr %own, i64 {BLOCK["cluster_blocks"]}
  %member_p = getelementptr ptr, ptr %members, i64 %rank
  %named = load ptr, ptr %member_p
  %ended = icmp eq ptr %named, null
  br i1 %ended, label %has_exited, label %shared
has_exited:
  store i32 {int(FaultKind.BLOCK_HAS_EXITED)}, ptr %kind
  ret i64 0
not_shared:
  %in_local = sub i64 %address, {LOCAL_WINDOW}
  %is_local = icmp ult i64 %in_local, {WINDOW_BYTES}
  br i1 %is_local, label %local, label %global
"""


def _in_shared() -> str:
    """Check an address of shared memory against the block's size."""
    return f"""\
shared:
  %s = phi i64 [ %own_offset, %own_shared ], [ %in_block, %member ]
  %block = phi ptr [ %own, %own_shared ], [ %named, %member ]
  store i64 %s, ptr %offset
  %s_low = and i64 %s, %less
  %s_wrong = icmp ne i64 %s_low, 0
  br i1 %s_wrong, label %misaligned, label %shared_check
shared_check:
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
"""


def _in_local(wave: Wave) -> str:
    """Check an address of local memory: one row of words for each word of a lane, one column per lane."""
    return f"""\
local:
  %l = phi i64 [ %address, %0 ], [ %in_local, %not_shared ]
  store i64 %l, ptr %offset
  store i64 {wave.row_bytes}, ptr %step
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
  %row_bytes = shl i64 %row, {wave.row_shift}
  %lane_wide = zext i32 %lane to i64
  %column = shl i64 %lane_wide, 2
  %byte = and i64 %l, 3
  %l1 = add i64 %local_base, %row_bytes
  %l2 = add i64 %l1, %column
  %l3 = add i64 %l2, %byte
  ret i64 %l3
"""


def _allocation() -> str:
    """Find the allocation, or else the mapped pages, that contain an address of global memory, by bisection of the tables."""
    return f"""\
search:
  %launch_p = getelementptr i8, ptr %warp, i64 {WARP["launch"]}
  %launch = load ptr, ptr %launch_p
  %table_p = getelementptr i8, ptr %launch, i64 {LAUNCH["allocations"]}
  %table = load ptr, ptr %table_p
  %count_p = getelementptr i8, ptr %launch, i64 {LAUNCH["allocation_count"]}
  %count = load i64, ptr %count_p
  br label %halve
halve:
  %ranges = phi ptr [ %table, %search ], [ %ranges, %step_on ], [ %pages, %in_pages ]
  %is_page = phi i1 [ false, %search ], [ %is_page, %step_on ], [ true, %in_pages ]
  %low = phi i64 [ 0, %search ], [ %new_low, %step_on ], [ 0, %in_pages ]
  %high = phi i64 [ %count, %search ], [ %new_high, %step_on ], [ %page_count, %in_pages ]
  %more = icmp ult i64 %low, %high
  br i1 %more, label %step_on, label %found
step_on:
  %both = add i64 %low, %high
  %middle = lshr i64 %both, 1
  %row_i = shl i64 %middle, 1
  %entry_p = getelementptr i64, ptr %ranges, i64 %row_i
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
  %first_p = getelementptr i64, ptr %ranges, i64 %index2
  %first = load i64, ptr %first_p
  %end_p = getelementptr i8, ptr %first_p, i64 8
  %end = load i64, ptr %end_p
  %place = sub i64 %address, %first
  %bytes_here = sub i64 %end, %first
  %left = sub i64 %bytes_here, %place
  %begins = icmp ult i64 %place, %bytes_here
  %ends = icmp uge i64 %left, %size
  %inside = and i1 %begins, %ends
  br i1 %inside, label %found_in, label %outside
"""


def _in_pages() -> str:
    """Look for an address outside all allocations in the mapped pages, if there are any."""
    return f"""\
outside:
  %pages_p = getelementptr i8, ptr %launch, i64 {LAUNCH["pages"]}
  %pages = load ptr, ptr %pages_p
  %page_count_p = getelementptr i8, ptr %launch, i64 {LAUNCH["page_count"]}
  %page_count = load i64, ptr %page_count_p
  %no_pages = icmp eq i64 %page_count, 0
  %nowhere = or i1 %no_pages, %is_page
  br i1 %nowhere, label %unmapped, label %in_pages
in_pages:
  br label %halve
unmapped:
  store i32 {int(FaultKind.OUT_OF_BOUNDS)}, ptr %kind
  ret i64 0
found_in:
  br i1 %is_page, label %overrun, label %global_ok
"""


def _overrun() -> str:
    """Note the first access of a launch that is in a mapped page but outside all allocations."""

    def field(name: str, value: str) -> str:
        return f"""\
  %note_{name} = getelementptr i8, ptr %note, i64 {OVERRUN[name]}
  store i64 {value}, ptr %note_{name}
"""

    indices = "".join(
        f"""\
  %index_{axis}_p = getelementptr i8, ptr %own, i64 {BLOCK[f"index_{axis}"]}
  %index_{axis} = load i64, ptr %index_{axis}_p
"""
        + field(f"block_{axis}", f"%index_{axis}")
        for axis in "xyz"
    )
    return f"""\
overrun:
  %note_p = getelementptr i8, ptr %launch, i64 {LAUNCH["overrun"]}
  %note = load ptr, ptr %note_p
  %noted = load i64, ptr %note
  %is_noted = icmp ne i64 %noted, 0
  br i1 %is_noted, label %global_ok, label %fresh_overrun
fresh_overrun:
  store i64 1, ptr %note
  %launch_noted = ptrtoint ptr %launch to i64
  %lane_noted = zext i32 %lane to i64
  %number_p = getelementptr i8, ptr %warp, i64 {WARP["warp_in_block"]}
  %number_noted = load i64, ptr %number_p
{field("launch", "%launch_noted")}{field("address", "%address")}{field("bytes", "%size")}{field("instruction", "%instruction")}{field("lane", "%lane_noted")}{field("warp_in_block", "%number_noted")}{indices}\
  br label %global_ok
"""


def _in_global() -> str:
    """The address on the host, and the data that the access site caches about the allocation."""
    return f"""\
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
"""


def resolve(wave: Wave) -> str:
    """Text of the look-up of one lane's address."""
    begin = f"""
; Host address of one lane's access, 0 at fault.  %kind: FaultKind; %offset: the address within its space;
; %step: bytes between the words of one lane.
define internal i64 @ww_resolve(ptr %warp, ptr %site, i64 %address, i32 %lane, i32 %bytes, i32 %space, i32 %extent,
                                i64 %instruction, ptr %kind, ptr %offset, ptr %step) {{
  %size = zext i32 %bytes to i64
  %less = sub i64 %size, 1
  store i64 4, ptr %step
  store i64 %address, ptr %offset
  %block_p = getelementptr i8, ptr %warp, i64 {WARP["block"]}
  %own = load ptr, ptr %block_p
  switch i32 %space, label %global [ i32 1, label %generic i32 2, label %own_shared i32 3, label %local ]
"""
    misaligned = f"""\
misaligned:
  store i32 {int(FaultKind.MISALIGNED)}, ptr %kind
  ret i64 0
global:
  %g_low = and i64 %address, %less
  %g_wrong = icmp ne i64 %g_low, 0
  br i1 %g_wrong, label %misaligned, label %search
"""
    spaces = (
        _windows(),
        _in_shared(),
        _in_local(wave),
        misaligned,
        _allocation(),
        _in_pages(),
        _overrun(),
        _in_global(),
    )
    return "".join((begin, *spaces, "}\n"))


def _serve_lanes(wave: Wave) -> str:
    """Look up each lane; collects the lanes that fault for the reported reason."""
    kind = wave.mask_type
    return each_lane(
        wave,
        f"""
  %a_p = getelementptr i64, ptr %addresses, i64 %n
  %a = load i64, ptr %a_p
  %step_p = getelementptr i64, ptr %steps, i64 %n
  store i32 0, ptr %kind
  %host = call i64 @ww_resolve(ptr %warp, ptr %site, i64 %a, i32 %number, i32 %bytes, i32 %space, i32 %extent, i64 %instruction, ptr %kind, ptr %offset, ptr %step_p)
  %host_p = getelementptr i64, ptr %hosts, i64 %n
  store i64 %host, ptr %host_p
  %k = load i32, ptr %kind
  %at = load i64, ptr %offset
  %ok = icmp eq i32 %k, 0
  %bit = shl {kind} 1, {wave.number}
  ; The kind reported is the first lane's, except that misalignment comes before everything else.
  %fresh = icmp eq {kind} %bad, 0
  %is_misaligned = icmp eq i32 %k, {int(FaultKind.MISALIGNED)}
  %was_misaligned = icmp eq i32 %bad_kind, {int(FaultKind.MISALIGNED)}
  %not_was = xor i1 %was_misaligned, true
  %overrides = and i1 %is_misaligned, %not_was
  %new_group = or i1 %fresh, %overrides
  %same = icmp eq i32 %k, %bad_kind
  %with = or {kind} %bad, %bit
  %joined = select i1 %same, {kind} %with, {kind} %bad
  %bad_new = select i1 %new_group, {kind} %bit, {kind} %joined
  %kind_new = select i1 %new_group, i32 %k, i32 %bad_kind
  %at_new = select i1 %new_group, i64 %at, i64 %bad_at
  br label %lane_done""",
        entry="begin",
        carried=f"""  %bad = phi {kind} [ 0, %begin ], [ %bad_after, %lane_done ]
  %bad_kind = phi i32 [ 0, %begin ], [ %kind_after, %lane_done ]
  %bad_at = phi i64 [ 0, %begin ], [ %at_after, %lane_done ]""",
        joined=f"""  %bad_after = select i1 %ok, {kind} %bad, {kind} %bad_new
  %kind_after = select i1 %ok, i32 %bad_kind, i32 %kind_new
  %at_after = select i1 %ok, i64 %bad_at, i64 %at_new""",
    )


def _report_fault(wave: Wave) -> str:
    """Record the faulting lanes in the warp."""
    kind = wave.mask_type
    return f"""
  %fine = icmp eq {kind} %bad, 0
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
  {wave.wide("%bad64", "%bad")}
  store i64 %bad64, ptr %f3
  %f4 = getelementptr i8, ptr %warp, i64 {WARP["fault_bytes"]}
  %bytes64 = zext i32 %bytes to i64
  store i64 %bytes64, ptr %f4
  %f5 = getelementptr i8, ptr %warp, i64 {WARP["fault_instruction"]}
  store i64 %instruction, ptr %f5
  ret i1 true
}}
declare {kind} @llvm.cttz.{kind}({kind}, i1)
"""


def serve(wave: Wave) -> str:
    """Text of the look-up of all executing lanes' addresses."""
    begin = f"""
; Host addresses and word steps of all executing lanes; true when one is at fault (recorded in the warp).
define i1 @ww_serve(ptr %warp, ptr %site, ptr %addresses, ptr %hosts, ptr %steps, {wave.mask_type} %exec, i32 %bytes, i32 %space,
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
"""
    return begin + _serve_lanes(wave) + _report_fault(wave)


def access_arguments(wave: Wave) -> str:
    """Arguments of a function that serves one access."""
    given = f"ptr %warp, ptr %site, ptr %addresses, ptr %values, {wave.mask_type} %exec"
    return f"{given}, i32 %bytes, i32 %space, i32 %extent, i64 %instruction"


def lane_loop(wave: Wave, body: str, carried: str = "", joined: str = "") -> str:
    """A function's body up to label ``end``: serve the addresses, then run ``body`` for each executing lane.

    ``carried``, ``joined``: values passed from lane to lane (``each_lane``), from entry ``0``.
    """
    before = f"""
  %hosts = alloca [{wave.lanes} x i64]
  %steps = alloca [{wave.lanes} x i64]
  %fault = call i1 @ww_serve(ptr %warp, ptr %site, ptr %addresses, ptr %hosts, ptr %steps, {wave.mask_type} %exec, i32 %bytes, i32 %space, i32 %extent, i64 %instruction)
  br i1 %fault, label %bad, label %next
bad:
  ret i1 true"""
    places = """
  %host_p = getelementptr i64, ptr %hosts, i64 %n
  %host = load ptr, ptr %host_p
  %step_p = getelementptr i64, ptr %steps, i64 %n
  %step = load i64, ptr %step_p
"""
    return before + each_lane(wave, places + body, carried=carried, joined=joined)


VALUE = "  %value_p = getelementptr i32, ptr %values, i64 %n\n"


def load(wave: Wave) -> str:
    """Text of a load, lane by lane."""
    kind = wave.mask_type
    return (
        f"define i1 @ww_load({access_arguments(wave)}) noinline {{"
        + lane_loop(wave, VALUE + copy_value(wave, "%value_p", "%host", "%step", store=False))
        + f"""
  ; A uniform access reads lane 0's value even when lane 0 does not execute.
  %first = call {kind} @llvm.cttz.{kind}({kind} %exec, i1 false)
  %first_in = and {kind} %first, {wave.lanes - 1}
  {wave.wide("%first64", "%first_in")}
  %source = getelementptr i32, ptr %values, i64 %first64
  br label %copy
copy:
  %c = phi i64 [ 0, %end ], [ %c1, %copy ]
  %c_off = shl i64 %c, {wave.row_shift}
  %c_from = getelementptr i8, ptr %source, i64 %c_off
  %c_to = getelementptr i8, ptr %values, i64 %c_off
  %cv = load i32, ptr %c_from
  %c_lane0 = and {kind} %exec, 1
  %c_keep = icmp ne {kind} %c_lane0, 0
  %c_old = load i32, ptr %c_to
  %c_new = select i1 %c_keep, i32 %c_old, i32 %cv
  store i32 %c_new, ptr %c_to
  %c1 = add i64 %c, 1
  %c_more = icmp ult i64 %c1, 4
  br i1 %c_more, label %copy, label %finished
finished:
  ret i1 false
}}
"""
    )


def store(wave: Wave) -> str:
    """Text of a store, lane by lane."""
    return (
        f"define i1 @ww_store({access_arguments(wave)}) noinline {{"
        + lane_loop(wave, VALUE + copy_value(wave, "%value_p", "%host", "%step", store=True))
        + "\n  ret i1 false\n}\n"
    )


def _constant_words(wave: Wave) -> str:
    """One lane's words of a constant bank, byte by byte; bytes beyond the bank are zero."""
    return f"""\
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
  %row = shl i64 %w64, {wave.row_shift - 2}
  %to_i = add i64 %row, %lane
  %to = getelementptr i32, ptr %values, i64 %to_i
  store i32 %sum1, ptr %to
  %w1 = add i32 %w, 1
  %w_more = icmp ult i32 %w1, %some_words
  br i1 %w_more, label %word, label %lane_done
"""


def load_constant(wave: Wave) -> str:
    """Text of a load from a constant bank, byte by byte."""
    return f"""
define void @ww_load_constant(ptr %launch, ptr %offsets, ptr %values, {wave.mask_type} %exec, i32 %bank, i32 %bytes) noinline {{
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
  %more = icmp ult i64 %lane, {wave.lanes}
  br i1 %more, label %go, label %end
go:
  %off_p = getelementptr i32, ptr %offsets, i64 %lane
  %off = load i32, ptr %off_p
  %off64 = zext i32 %off to i64
  br label %word
{_constant_words(wave)}lane_done:
  %lane1 = add i64 %lane, 1
  br label %next
end:
  ret void
}}
declare i32 @llvm.umax.i32(i32, i32)
declare i32 @llvm.umin.i32(i32, i32)
"""


def exact_accesses(wave: Wave) -> str:
    """Text of all these functions."""
    return "\n".join((resolve(wave), serve(wave), load(wave), store(wave), load_constant(wave)))
