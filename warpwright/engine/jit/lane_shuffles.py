"""Lane exchanges whose lanes are known only when they run, as LLVM text."""

from __future__ import annotations

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
