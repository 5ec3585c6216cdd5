"""Rare ways of memory accesses, kept from disturbing the code around them.

An access whose check fails calls a shared function that serves the lanes one by one.  An ordinary call would make
LLVM keep every vector in memory around each access, though the call is hardly ever made: all vector registers of
the System V ABI belong to the callee.  So on x86-64 the call is an inline assembly statement that changes nothing
but its result, and its target, written in assembly, saves all registers (Intel SDM, volume 1, chapters 10-15).
A load from a window of neighbouring bytes gets back the address of a copy of that window and reads there, so
that its fast and its rare way share one load.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import llvmlite.binding as llvm

ACCESS = {"instruction": 0, "offsets": 8, "bytes": 16, "space": 20, "extent": 24}
"""Byte offsets in the constant that describes one access; ``offsets`` points to 32 lane offsets or is null."""
VALUES_AT = 256
"""Scratch memory of a warp function: 32 addresses, then values (512 words), then the window."""
WINDOW_AT = VALUES_AT + 2048
WINDOW_BYTES = 1024
SCRATCH_BYTES = WINDOW_AT + WINDOW_BYTES
ARGUMENTS = "ptr %warp, ptr %site, i64 %start, i32 %exec, ptr %access, ptr %scratch"
FUNCTIONS = ("window", "load", "store")
REGISTERS = ("rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")


@cache
def vector_level() -> str:
    """How registers are saved here: avx512, avx512f, avx, sse, or none where calls are ordinary ones."""
    triple = llvm.get_process_triple()
    if not triple.startswith("x86_64") or "windows" in triple:
        return "none"
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return "avx512" if features.get("avx512bw") else "avx512f"
    return "avx" if features.get("avx") else "sse"


def call(function: str, arguments: str, kept: Sequence[str] = ()) -> str:
    """LLVM text of a call of ``ww_rare_<function>`` that returns a pointer, null at fault.

    ``kept``: vector registers, type and name, that the call shall seem to read (:func:`kept_lanes`).
    """
    types = ("ptr", "ptr", "i64", "i32", "ptr", "ptr")
    values = ", ".join(f"{t} {v}" for t, v in zip(types, arguments.split(", "), strict=True))
    if vector_level() == "none":
        return f"call ptr @ww_rare_{function}({values})"
    more = "".join(",v" if vector_level().startswith("avx512") else ",x" for _ in kept)
    return (
        f'call ptr asm sideeffect "callq *%rax", "={{rax}},{{rdi}},{{rsi}},{{rdx}},{{ecx}},{{r8}},{{r9}},0{more},'
        f'~{{memory}},~{{dirflag}},~{{fpsr}},~{{flags}}"({values}, ptr @ww_rare_{function}'
        + "".join(f", {value}" for value in kept)
        + ")"
    )


def kept_lanes() -> int:
    """Words in a vector register, 0 where calls are ordinary ones.

    LLVM moves a computation down to the block that uses its result, and each access begins a block.  A chain of
    multiply-adds would end up behind all loads of a loop, whose values then no longer fit the registers.  A result that
    the rare way seems to read as well stays where it is, at no cost.
    """
    return {"avx512": 16, "avx512f": 16, "avx": 8, "sse": 4}.get(vector_level(), 0)


def _keeper(function: str) -> str:
    """Assembly of ``ww_rare_<function>``: save all registers but rax, call the function proper, restore."""
    level = vector_level()
    count, size, move, name = {
        "avx512": (32, 64, "vmovaps", "zmm"),
        "avx512f": (32, 64, "vmovaps", "zmm"),
        "avx": (16, 32, "vmovaps", "ymm"),
        "sse": (16, 16, "movaps", "xmm"),
    }[level]
    masks = {"avx512": "kmovq", "avx512f": "kmovw"}.get(level)
    room = count * size + 64
    keep = [f"{move} %{name}{n}, {n * size}(%rsp)" for n in range(count)]
    restore = [f"{move} {n * size}(%rsp), %{name}{n}" for n in range(count)]
    if masks:
        keep += [f"{masks} %k{n}, {count * size + 8 * n}(%rsp)" for n in range(8)]
        restore += [f"{masks} {count * size + 8 * n}(%rsp), %k{n}" for n in range(8)]
    lines = [
        ".text",
        f".globl ww_rare_{function}",
        f"ww_rare_{function}:",
        *("pushq %rbp", "movq %rsp, %rbp"),
        *(f"pushq %{r}" for r in REGISTERS),
        *(f"subq ${room}, %rsp", "andq $-64, %rsp"),
        *keep,
        f"callq ww_served_{function}",
        *restore,
        f"leaq -{8 * len(REGISTERS)}(%rbp), %rsp",
        *(f"popq %{r}" for r in reversed(REGISTERS)),
        *("popq %rbp", "retq"),
    ]
    return "\n".join(f'module asm "{line}"' for line in lines)


def _served(function: str, serve: str, rest: str, name: str) -> str:
    fields = "\n".join(
        f"  %{field}_p = getelementptr i8, ptr %access, i64 {at}\n"
        f"  %{field} = load {'i64' if field == 'instruction' else 'ptr' if field == 'offsets' else 'i32'}, ptr %{field}_p"
        for field, at in ACCESS.items()
    )
    return f"""
define ptr @{name}({ARGUMENTS}) noinline {{
{fields}
  %values = getelementptr i8, ptr %scratch, i64 {VALUES_AT}
  %given = icmp eq ptr %offsets, null
  %narrow = icmp uge i32 %space, 2
  %bits = select i1 %narrow, i64 4294967295, i64 -1
  br i1 %given, label %serve, label %spread
spread:
  %n = phi i64 [ 0, %0 ], [ %n1, %spread ]
  %o_p = getelementptr i32, ptr %offsets, i64 %n
  %o = load i32, ptr %o_p
  %o64 = sext i32 %o to i64
  %sum = add i64 %start, %o64
  %address = and i64 %sum, %bits
  %a_p = getelementptr i64, ptr %scratch, i64 %n
  store i64 %address, ptr %a_p
  %n1 = add i64 %n, 1
  %more = icmp ult i64 %n1, 32
  br i1 %more, label %spread, label %serve
serve:
  %fault = call i1 @{serve}(ptr %warp, ptr %site, ptr %scratch, ptr %values, i32 %exec, i32 %bytes, i32 %space, i32 %extent, i64 %instruction)
  br i1 %fault, label %bad, label %good
bad:
  ret ptr null
good:
{rest}
}}
"""


WINDOW_COPY = f"""
  %window = getelementptr i8, ptr %scratch, i64 {WINDOW_AT}
  %words0 = lshr i32 %bytes, 2
  %words = zext i32 %words0 to i64
  br label %next
next:
  %rest = phi i32 [ %exec, %good ], [ %rest1, %lane_done ]
  %any = icmp ne i32 %rest, 0
  br i1 %any, label %lane, label %end
lane:
  %number = call i32 @llvm.cttz.i32(i32 %rest, i1 true)
  %less = sub i32 %rest, 1
  %rest1 = and i32 %rest, %less
  %l = zext i32 %number to i64
  %lo_p = getelementptr i32, ptr %offsets, i64 %l
  %lo = load i32, ptr %lo_p
  %lo64 = sext i32 %lo to i64
  %to = getelementptr i8, ptr %window, i64 %lo64
  %from = getelementptr i32, ptr %values, i64 %l
  switch i32 %bytes, label %wide [ i32 1, label %one i32 2, label %two ]
one:
  %v1 = load i8, ptr %from
  store i8 %v1, ptr %to
  br label %lane_done
two:
  %v2 = load i16, ptr %from
  store i16 %v2, ptr %to
  br label %lane_done
wide:
  %w = phi i64 [ 0, %lane ], [ %w1, %wide ]
  %f_off = shl i64 %w, 7
  %f_p = getelementptr i8, ptr %from, i64 %f_off
  %v4 = load i32, ptr %f_p
  %t_off = shl i64 %w, 2
  %t_p = getelementptr i8, ptr %to, i64 %t_off
  store i32 %v4, ptr %t_p
  %w1 = add i64 %w, 1
  %w_more = icmp ult i64 %w1, %words
  br i1 %w_more, label %wide, label %lane_done
lane_done:
  br label %next
end:
  ret ptr %window"""


def module_text() -> str:
    """The functions and, on x86-64, what keeps the registers around them."""
    kept = vector_level() != "none"
    stem = "ww_served_" if kept else "ww_rare_"
    text = [
        _served("window", "ww_load", WINDOW_COPY, stem + "window"),
        _served("load", "ww_load", "  ret ptr %values", stem + "load"),
        _served("store", "ww_store", "  ret ptr %values", stem + "store"),
    ]
    if kept:
        text += [_keeper(function) for function in FUNCTIONS]
    return "\n".join(text)
