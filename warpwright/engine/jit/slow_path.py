"""Slow paths of memory accesses, arranged so that they do not affect the surrounding code.

If an access's check fails, a shared function serves its lanes one by one.  An ordinary call would make LLVM keep every
vector in memory around each access, although the call is rare, because in the System V ABI all vector registers are
caller-saved.  A branch around it would also end a basic block at each access, which would dominate compile time.  On
x86-64, check and call are therefore one inline assembly statement that changes only its result, with the call out of
line; the called function is written in assembly and saves all registers (Intel SDM, volume 1, chapters 10-15).
Elsewhere they are a branch and an ordinary call.

For a load from a window of neighbouring bytes, the function returns the address of a copy of that window, so that the
fast and the slow path share one load.  If a lane faults, the copy is zeros and the fault is recorded in the warp, which
is tested before any visible effect (``checks.settle_faults``).

Other inputs of a slow path are in the warp function's scratch memory and in a table of its accesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import llvmlite.binding as llvm

from warpwright.engine.abi import BLOCK, LAUNCH, WARP
from warpwright.engine.jit.llvm_snippets import each_lane, load_fields
from warpwright.engine.jit.wave import Wave, wave_of

ACCESS = {
    "instruction": (0, "i64"),
    "offsets": (8, "ptr"),
    "bytes": (16, "i32"),
    "space": (20, "i32"),
    "extent": (24, "i32"),
    "site": (28, "i32"),
    "room": (32, "i32"),
    "at": (36, "i32"),
    "after": (40, "i32"),
    "times": (44, "i32"),
}
"""The entry of one access: byte offsets and types.  ``offsets`` points to the lanes' offsets, or is null where
addresses are given; ``site`` is the byte offset of its allocation cache, negative for none.  Loads from one window are
requested together: the window's copy is at ``room`` in the scratch memory, ``at`` is an access's offset in it, and
``after`` the number of the next access, negative for none.  The same applies to loads from windows that are a stride
apart: ``times`` is the number of strides between an access and the first, and its copy is as many windows after the
first one's."""
ACCESS_BYTES = 48
WINDOW_BYTES = 1024
ROWS = 16
"""Number of words in the scratch memory for all operands of an access, or of a service."""


class Scratch:
    """Scratch memory of a warp function: the lanes' addresses, then values, then the window, then other inputs of slow
    paths.

    Further windows follow, one for each that several loads of a block read (:class:`Entry`).
    """

    def __init__(self, wave: Wave) -> None:
        self.values_at = 8 * wave.lanes
        self.window_at = self.values_at + ROWS * wave.row_bytes
        self.needs_at = self.window_at + WINDOW_BYTES
        self.bytes = self.needs_at + 64
        self.needs = {**NEEDS, "exec": (NEEDS["exec"][0], wave.mask_type)}


NEEDS = {
    "self": (0, "ptr"),
    "warp": (8, "ptr"),
    "sites": (16, "ptr"),
    "accesses": (24, "ptr"),
    "exec": (32, "mask"),
    "stride": (40, "i64"),
}
"""``exec``: the executing lanes; ``stride``: bytes between the requested windows.  Both are kept up to date while the
function runs."""


@cache
def scratch_of(lanes: int) -> Scratch:
    """The scratch memory of functions for waves of this many lanes."""
    return Scratch(wave_of(lanes))


FUNCTIONS = ("window", "load", "store", "load_elements", "store_elements")
REGISTERS = ("rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11")
CLOBBERS = "~{memory},~{flags}"
"""Clobbers of the statements: the x87 unit is excluded, and each register named costs a tenth of a statement's compile
time."""


@dataclass(slots=True)
class Entry:
    """The constants of one access, as LLVM text or numbers (:data:`ACCESS`)."""

    instruction: int
    offsets: str
    bytes: int
    space: int
    extent: str
    site: int
    room: int
    at: int = 0
    after: int = -1
    times: int = 0

    TYPE: ClassVar[str] = "{ i64, ptr, " + ", ".join(["i32"] * 8) + " }"

    def text(self) -> str:
        words = (self.bytes, self.space, self.extent, self.site, self.room, self.at, self.after, self.times)
        rest = ", ".join(f"i32 {word}" for word in words)
        return f"{self.TYPE} {{ i64 {self.instruction}, ptr {self.offsets}, {rest} }}"


@cache
def vector_level() -> str:
    """How registers are saved on this machine: avx512, avx512f, avx, sse, or empty if calls are ordinary ones."""
    triple = llvm.get_process_triple()
    if not triple.startswith("x86_64") or "windows" in triple:
        return "none"
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return "avx512" if features.get("avx512bw") else "avx512f"
    return "avx" if features.get("avx") else "sse"


def _ask(function: str, number: int, needs: str = "$1") -> str:
    """Assembly that passes an address ($0) and an access's number, and receives the result.

    The function may be anywhere in the address space, so its address is absolute.
    """
    given = f"pushq {needs}\\0Apushq $0\\0Apushq $${number}"
    return f"{given}\\0Amovabsq $$ww_slow_path_{function}, $0\\0Acallq *$0\\0Apopq $0"


def _unless(fine: str, ask: str) -> str:
    """Assembly that makes the request, out of line, if an operand is 0."""
    return f"testl {fine}, {fine}\\0Aje 2f\\0A1:\\0A.subsection 1\\0A2:\\0A{ask}\\0Ajmp 1b\\0A.previous"


def checked_window(host: str, fine: str, number: int) -> str:
    """LLVM text of a pointer to a window: ``host`` if ``fine`` (an i32) is not 0, else the served copy."""
    text = _unless("$2", _ask("window", number))
    return (
        f'call ptr asm sideeffect "{text}", "=r,*m,r,0,{CLOBBERS}"(ptr elementtype(i64) %needs, i32 {fine}, ptr {host})'
    )


def checked_windows(host: str, fine: str, stride: str, number: int) -> str:
    """LLVM text of a pointer to the first of several windows and the bytes between them (a ``{ ptr, i64 }``), as
    above."""
    ask = _ask("window", number, "$2") + f"\\0Amovl $${WINDOW_BYTES}, ${{1:k}}"
    text = _unless("$3", ask)
    return (
        f'call {{ ptr, i64 }} asm sideeffect "{text}", "=r,=r,*m,r,0,1,{CLOBBERS}"'
        f"(ptr elementtype(i64) %needs, i32 {fine}, ptr {host}, i64 {stride})"
    )


def call(function: str, start: str, number: int, kept: Sequence[str]) -> str:
    """LLVM text of a call of ``ww_slow_path_<function>`` with an i64 result, 0 for a fault.

    ``kept``: vector registers, type and name, that the call should appear to read (:class:`Calls`).
    """
    more = "".join(",v" if value.startswith("<16") else ",x" for value in kept)
    values = "".join(f", {value}" for value in kept)
    return (
        f'call i64 asm sideeffect "{_ask(function, number)}", "=r,*m,0{more},{CLOBBERS}"'
        f"(ptr elementtype(i64) %needs, i64 {start}{values})"
    )


def ordinary_call(function: str, start: str, number: int) -> str:
    """The same as an ordinary call."""
    return f"call i64 @ww_served_{function}(ptr %lane_addresses, i64 {start}, i32 {number})"


@dataclass(frozen=True, slots=True)
class Calls:
    """How a kernel calls slow paths."""

    keeps_registers: bool
    """By inline assembly; otherwise by a branch and an ordinary call."""
    lanes: int = 0
    """Number of words in a vector register that a call should appear to read, 0 for none.

    LLVM sinks a computation to the block that uses its result, and some accesses begin a block.  A chain of
    multiply-adds would end up after all loads of a loop, whose values would then no longer fit the registers.  A result
    that the slow path appears to read stays in place, at no cost.
    """


ORDINARY = Calls(False)


def host_calls() -> Calls:
    """Calls for code that runs on this machine."""
    level = vector_level()
    return Calls(level != "none", {"avx512": 16, "avx512f": 16, "avx": 8, "sse": 4}.get(level, 0))


def _keeper(function: str) -> str:
    """Assembly of ``ww_slow_path_<function>``: save all registers, call the function proper, restore.

    On the stack above the return address: the access's number, the address, and the address of the scratch memory,
    which the result replaces.
    """
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
        # Same section as the function that it calls: a call reaches 2 GB, and sections may be further apart.
        r".section .ltext, \22axl\22, @progbits",
        f".globl ww_slow_path_{function}",
        f"ww_slow_path_{function}:",
        *("pushq %rbp", "movq %rsp, %rbp"),
        *(f"pushq %{r}" for r in REGISTERS),
        *(f"subq ${room}, %rsp", "andq $-64, %rsp"),
        *keep,
        *("movl 16(%rbp), %edx", "movq 24(%rbp), %rsi", "movq 32(%rbp), %rdi"),
        f"callq ww_served_{function}",
        "movq %rax, 32(%rbp)",
        *restore,
        f"leaq -{8 * len(REGISTERS)}(%rbp), %rsp",
        *(f"popq %{r}" for r in reversed(REGISTERS)),
        *("popq %rbp", "retq $16"),
    ]
    return "\n".join(f'module asm "{line}"' for line in lines)


def _served(wave: Wave, name: str, serve: str, start: str, fault: str, good: str, values: str = "%values") -> str:
    """A function that serves one access; ``start`` computes %start, the first byte's address in its space, from %given.

    ``values``: where ``serve`` keeps the words, one row of all lanes after another.
    """
    scratch = scratch_of(wave.lanes)
    return f"""
define i64 @{name}(ptr %scratch, i64 %given, i32 %which) noinline {{
  %needs = getelementptr i8, ptr %scratch, i64 {scratch.needs_at}
{load_fields("%needs", {name: field for name, field in scratch.needs.items() if name != "self"})}
  %which64 = zext i32 %which to i64
  %entry_off = mul i64 %which64, {ACCESS_BYTES}
  %access = getelementptr i8, ptr %accesses, i64 %entry_off
{load_fields("%access", {("site_off" if name == "site" else name): field for name, field in ACCESS.items()})}
  %no_site = icmp slt i32 %site_off, 0
  %site_off64 = sext i32 %site_off to i64
  %some_site = getelementptr i8, ptr %sites, i64 %site_off64
  %site = select i1 %no_site, ptr null, ptr %some_site
  %values = getelementptr i8, ptr %scratch, i64 {scratch.values_at}
  %copy_off = add i32 %room, %at
  %copy_off64 = sext i32 %copy_off to i64
  %window = getelementptr i8, ptr %scratch, i64 %copy_off64
  %narrow = icmp uge i32 %space, 2
  %bits = select i1 %narrow, i64 4294967295, i64 -1
{start}
  %are_given = icmp eq ptr %offsets, null
  br i1 %are_given, label %serve, label %spread
spread:
  %l = phi i64 [ 0, %0 ], [ %l1, %spread ]
  %o_p = getelementptr i32, ptr %offsets, i64 %l
  %o = load i32, ptr %o_p
  %o64 = sext i32 %o to i64
  %sum = add i64 %start, %o64
  %address = and i64 %sum, %bits
  %a_p = getelementptr i64, ptr %scratch, i64 %l
  store i64 %address, ptr %a_p
  %l1 = add i64 %l, 1
  %more = icmp ult i64 %l1, {wave.lanes}
  br i1 %more, label %spread, label %serve
serve:
  %fault = call i1 @{serve}(ptr %warp, ptr %site, ptr %scratch, ptr {values}, {wave.mask_type} %exec, i32 %bytes, i32 %space, i32 %extent, i64 %instruction)
  br i1 %fault, label %bad, label %good
bad:
{fault}
good:
{good}
}}
"""


WINDOW_START = f"""
  %block_pp = getelementptr i8, ptr %warp, i64 {WARP["block"]}
  %block = load ptr, ptr %block_pp
  %shared_p = getelementptr i8, ptr %block, i64 {BLOCK["shared_base"]}
  %shared = load i64, ptr %shared_p
  %launch_pp = getelementptr i8, ptr %warp, i64 {WARP["launch"]}
  %launch = load ptr, ptr %launch_pp
  %minus_p = getelementptr i8, ptr %launch, i64 {LAUNCH["host_minus_device"]}
  %minus = load i64, ptr %minus_p
  %origin = select i1 %narrow, i64 %shared, i64 %minus
  %start = sub i64 %given, %origin"""
"""The address of a window is a host address."""


def window_copy(wave: Wave) -> str:
    """Copy the lanes' words to their positions in the copy of a window."""
    return (
        """
  br label %next"""
        + each_lane(
            wave,
            f"""
  %lo_p = getelementptr i32, ptr %offsets, i64 %n
  %lo = load i32, ptr %lo_p
  %lo64 = sext i32 %lo to i64
  %to = getelementptr i8, ptr %window, i64 %lo64
  %from = getelementptr i32, ptr %values, i64 %n
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
  %f_off = shl i64 %w, {wave.row_shift}
  %f_p = getelementptr i8, ptr %from, i64 %f_off
  %v4 = load i32, ptr %f_p
  %t_off = shl i64 %w, 2
  %t_p = getelementptr i8, ptr %to, i64 %t_off
  store i32 %v4, ptr %t_p
  %w1 = add i64 %w, 1
  %t_next = shl i64 %w1, 2
  %bytes64 = zext i32 %bytes to i64
  %w_more = icmp ult i64 %t_next, %bytes64
  br i1 %w_more, label %wide, label %lane_done""",
            entry="good",
        )
        + """
  ret i64 1"""
    )


def window(wave: Wave) -> str:
    """Text of the function that serves the accesses of a window."""
    scratch = scratch_of(wave.lanes)
    return f"""
; The accesses of one window, or of several a stride apart, from the first on; zeros behind one that is at fault.
define i64 @ww_served_window(ptr %scratch, i64 %given, i32 %which) noinline {{
  %needs = getelementptr i8, ptr %scratch, i64 {scratch.needs_at}
{load_fields("%needs", {name: scratch.needs[name] for name in ("accesses", "stride")})}
  %which64 = zext i32 %which to i64
  %first_off = mul i64 %which64, {ACCESS_BYTES}
  %first = getelementptr i8, ptr %accesses, i64 %first_off
{load_fields("%first", {"first_room": ACCESS["room"]})}
  %first_room64 = sext i32 %first_room to i64
  %copies = getelementptr i8, ptr %scratch, i64 %first_room64
  %result = ptrtoint ptr %copies to i64
  br label %access
access:
  %number = phi i32 [ %which, %0 ], [ %after, %next ]
  %sound = phi i1 [ true, %0 ], [ %still, %next ]
  %number64 = zext i32 %number to i64
  %entry_off = mul i64 %number64, {ACCESS_BYTES}
  %entry = getelementptr i8, ptr %accesses, i64 %entry_off
{load_fields("%entry", {name: ACCESS[name] for name in ("room", "at", "after", "times")})}
  br i1 %sound, label %serve, label %zeros
serve:
  %at64 = sext i32 %at to i64
  %times64 = sext i32 %times to i64
  %far = mul i64 %times64, %stride
  %near = add i64 %given, %at64
  %from = add i64 %near, %far
  %fine = call i64 @ww_window_part(ptr %scratch, i64 %from, i32 %number)
  %bad = icmp eq i64 %fine, 0
  br i1 %bad, label %zeros, label %next
zeros:
  %room64 = sext i32 %room to i64
  %window = getelementptr i8, ptr %scratch, i64 %room64
  call void @llvm.memset.p0.i64(ptr %window, i8 0, i64 {WINDOW_BYTES}, i1 false)
  br label %next
next:
  %still = phi i1 [ true, %serve ], [ false, %zeros ]
  %more = icmp sge i32 %after, 0
  br i1 %more, label %access, label %end
end:
  ret i64 %result
}}
"""


GIVEN = "  %start = add i64 %given, 0"
FAULT = "  ret i64 0"
TURN = """
; Rows and columns of words change places.
define internal void @ww_turn(ptr %from, ptr %to, i32 %rows, i32 %columns) {
  %rows64 = zext i32 %rows to i64
  %columns64 = zext i32 %columns to i64
  br label %row
row:
  %r = phi i64 [ 0, %0 ], [ %r1, %row_done ]
  %start = mul i64 %r, %columns64
  br label %column
column:
  %c = phi i64 [ 0, %row ], [ %c1, %column ]
  %f = add i64 %start, %c
  %f_p = getelementptr i32, ptr %from, i64 %f
  %word = load i32, ptr %f_p
  %down = mul i64 %c, %rows64
  %t = add i64 %down, %r
  %t_p = getelementptr i32, ptr %to, i64 %t
  store i32 %word, ptr %t_p
  %c1 = add i64 %c, 1
  %more = icmp ult i64 %c1, %columns64
  br i1 %more, label %column, label %row_done
row_done:
  %r1 = add i64 %r, 1
  %on = icmp ult i64 %r1, %rows64
  br i1 %on, label %row, label %end
end:
  ret void
}
"""
"""Conversion between words in rows of lanes, as in ``exact_accesses.py``, and elements as in memory."""


def to_words(wave: Wave) -> str:
    """Elements to rows of words."""
    return f"""
  %words = lshr i32 %bytes, 2
  call void @ww_turn(ptr %values, ptr %window, i32 {wave.lanes}, i32 %words)"""


def to_elements(wave: Wave) -> str:
    """Rows of words to elements."""
    return f"""
  %words = lshr i32 %bytes, 2
  call void @ww_turn(ptr %values, ptr %window, i32 %words, i32 {wave.lanes})
  %elements = ptrtoint ptr %window to i64
  ret i64 %elements"""


VALUES = "  %served = ptrtoint ptr %values to i64\n  ret i64 %served"


def module_text(wave: Wave, keepers: bool) -> str:
    """The functions and, on x86-64, the wrappers that save registers around them."""
    text = [
        _served(wave, "ww_window_part", "ww_load", WINDOW_START, FAULT, window_copy(wave)),
        window(wave),
        _served(wave, "ww_served_load", "ww_load", GIVEN, FAULT, VALUES),
        _served(wave, "ww_served_store", "ww_store", GIVEN, FAULT, VALUES),
        TURN,
        _served(wave, "ww_served_load_elements", "ww_load", GIVEN, FAULT, to_elements(wave)),
        _served(wave, "ww_served_store_elements", "ww_store", GIVEN + to_words(wave), FAULT, VALUES, values="%window"),
    ]
    if keepers and vector_level() != "none":
        text += [_keeper(function) for function in FUNCTIONS]
    return "\n".join(text)


def symbols() -> tuple[str, ...]:
    """Names of the functions that kernels call."""
    kept = () if vector_level() == "none" else tuple(f"ww_slow_path_{name}" for name in FUNCTIONS)
    return (*kept, *(f"ww_served_{name}" for name in FUNCTIONS))
