"""LLVM text for lane exchanges whose source lanes are known only at run time."""

from __future__ import annotations

from warpwright.engine.jit.wave import Wave


def exchange(wave: Wave) -> str:
    """Text of shuffles and matches."""
    lanes, kind = wave.lanes, wave.mask_type
    masks, words = f"<{lanes} x {kind}>", f"<{lanes} x i32>"
    return f"""
define {words} @ww_shuffle({words} %values, {words} %lanes) noinline {{
  %room = alloca [{lanes} x i32], align {wave.row_bytes}
  %from = alloca [{lanes} x i32], align {wave.row_bytes}
  %out = alloca [{lanes} x i32], align {wave.row_bytes}
  store {words} %values, ptr %room, align {wave.row_bytes}
  store {words} %lanes, ptr %from, align {wave.row_bytes}
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %next ]
  %lane_p = getelementptr i32, ptr %from, i64 %n
  %lane = load i32, ptr %lane_p
  %in = and i32 %lane, {lanes - 1}
  %in64 = zext i32 %in to i64
  %v_p = getelementptr i32, ptr %room, i64 %in64
  %v = load i32, ptr %v_p
  %o_p = getelementptr i32, ptr %out, i64 %n
  store i32 %v, ptr %o_p
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, {lanes}
  br i1 %more, label %next, label %end
end:
  %result = load {words}, ptr %out, align {wave.row_bytes}
  ret {words} %result
}}
define {masks} @ww_match_any({words} %values, {kind} %exec) noinline {{
  %room = alloca [{lanes} x i32], align {wave.row_bytes}
  %out = alloca [{lanes} x {kind}], align {wave.lanes * wave.lanes // 8}
  store {words} %values, ptr %room, align {wave.row_bytes}
  br label %next
next:
  %n = phi i64 [ 0, %0 ], [ %n1, %next ]
  %v_p = getelementptr i32, ptr %room, i64 %n
  %v = load i32, ptr %v_p
  %one = insertelement {words} poison, i32 %v, i64 0
  %all = shufflevector {words} %one, {words} poison, {words} zeroinitializer
  %same = icmp eq {words} %all, %values
  %bits = bitcast <{lanes} x i1> %same to {kind}
  %mask = and {kind} %bits, %exec
  %o_p = getelementptr {kind}, ptr %out, i64 %n
  store {kind} %mask, ptr %o_p
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, {lanes}
  br i1 %more, label %next, label %end
end:
  %result = load {masks}, ptr %out, align {wave.lanes * wave.lanes // 8}
  ret {masks} %result
}}
"""
