"""A library that gives a program the simulated clock in place of the host's: machine code for LD_PRELOAD.

It exports the C library's functions that read a clock of the wall (``clock_gettime``, ``gettimeofday``, ``time``) and that sleep. They work on words that this
process's Python shares (:data:`CLOCK_SYMBOL`): the simulated time in picoseconds, and what the real clocks read when
the first of the functions was called. A reading itself takes a little simulated time, so that a loop that waits for a
clock ends; a sleep takes its duration on both clocks.

Processor-time clocks remain the host's, and so do all clocks for callers in the address ranges that Python registers,
because the interpreter's own waits would otherwise end too early or too late.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from warpwright.driver.elf_writer import SharedObject

CLOCK_SYMBOL = "warpwright_clock"
SONAME = "libwarpwright-clock.so"
FUNCTIONS = ("clock_gettime", "gettimeofday", "time", "nanosleep", "clock_nanosleep", "usleep", "sleep")
STATE, PS, READ_PS, WALL_NS, MONOTONIC_NS, RANGES = 1, 4, 5, 6, 7, 8
"""Indices of the shared 64-bit words; state: 0 before the first call, then 1, and 2 once the clocks have started."""
RANGE_COUNT = 4
"""Pairs of words: the first address of a range and one past its last."""
WORDS = RANGES + 2 * RANGE_COUNT
BEGUN = 2
_DLSYM, _READ, _SLEEP = 0, 2, 3
_NAMES = ("clock_gettime", "nanosleep")
_STUB_BYTES = 24

_TEXT = """
target triple = "{machine}-unknown-linux-gnu"
declare ptr @llvm.returnaddress(i32)

define i64 @dispatch(i64 %a, i64 %b, i64 %c, i64 %e, ptr %d, i64 %which) {{
entry:
  %caller_p = call ptr @llvm.returnaddress(i32 0)
  %caller = ptrtoint ptr %caller_p to i64
  call void @begin(ptr %d)
  br label %range
range:
  %i = phi i64 [ 0, %entry ], [ %i_next, %outside ]
  %more = icmp ult i64 %i, {range_count}
  br i1 %more, label %look, label %known
look:
  %index = mul i64 %i, 2
  %low_at = add i64 %index, {ranges}
  %high_at = add i64 %low_at, 1
  %low_p = getelementptr i64, ptr %d, i64 %low_at
  %high_p = getelementptr i64, ptr %d, i64 %high_at
  %low = load i64, ptr %low_p
  %high = load i64, ptr %high_p
  %above = icmp uge i64 %caller, %low
  %below = icmp ult i64 %caller, %high
  %within = and i1 %above, %below
  br i1 %within, label %known, label %outside
outside:
  %i_next = add i64 %i, 1
  br label %range
known:
  %simulated = phi i1 [ true, %range ], [ false, %look ]
  %is_read = icmp eq i64 %which, 0
  br i1 %is_read, label %read, label %not_read

read:
  %id = trunc i64 %a to i32
  %own = call i1 @is_of_the_wall(i32 %id)
  %ours = and i1 %own, %simulated
  br i1 %ours, label %read_ours, label %read_real
read_ours:
  %read_ns = call i64 @now(ptr %d, i1 true, i32 %id)
  call void @store_time(i64 %b, i64 %read_ns, i64 1)
  ret i64 0
read_real:
  %real_p = getelementptr i64, ptr %d, i64 {read}
  %real = load ptr, ptr %real_p
  %place = inttoptr i64 %b to ptr
  %code = call i32 %real(i32 %id, ptr %place)
  %code64 = sext i32 %code to i64
  ret i64 %code64

not_read:
  %is_day = icmp eq i64 %which, 1
  br i1 %is_day, label %day, label %not_day
day:
  %day_ns = call i64 @now(ptr %d, i1 %simulated, i32 0)
  %no_place = icmp eq i64 %a, 0
  br i1 %no_place, label %done, label %day_store
day_store:
  call void @store_time(i64 %a, i64 %day_ns, i64 1000)
  br label %done
done:
  ret i64 0

not_day:
  %is_time = icmp eq i64 %which, 2
  br i1 %is_time, label %time, label %sleeps
time:
  %time_ns = call i64 @now(ptr %d, i1 %simulated, i32 0)
  %seconds = sdiv i64 %time_ns, 1000000000
  %no_word = icmp eq i64 %a, 0
  br i1 %no_word, label %time_done, label %time_store
time_store:
  %word = inttoptr i64 %a to ptr
  store i64 %seconds, ptr %word
  br label %time_done
time_done:
  ret i64 %seconds

sleeps:
  %is_nano = icmp eq i64 %which, 3
  br i1 %is_nano, label %nano, label %not_nano
nano:
  %nano_real_p = getelementptr i64, ptr %d, i64 {sleep}
  %nano_real = load ptr, ptr %nano_real_p
  %wanted = inttoptr i64 %a to ptr
  %left = inttoptr i64 %b to ptr
  %slept = call i32 %nano_real(ptr %wanted, ptr %left)
  %whole = icmp eq i32 %slept, 0
  %counts = and i1 %whole, %simulated
  br i1 %counts, label %nano_counts, label %nano_done
nano_counts:
  %nano_ns = call i64 @load_time(i64 %a)
  call void @pass(ptr %d, i64 %nano_ns)
  br label %nano_done
nano_done:
  %slept64 = sext i32 %slept to i64
  ret i64 %slept64

not_nano:
  %is_clock = icmp eq i64 %which, 4
  br i1 %is_clock, label %clock, label %not_clock
clock:
  %asked = call i64 @load_time(i64 %c)
  %flag = and i64 %b, 1
  %absolute = icmp eq i64 %flag, 1
  br i1 %absolute, label %until, label %rest
until:
  %until_id = trunc i64 %a to i32
  %reached = call i64 @now(ptr %d, i1 %simulated, i32 %until_id)
  %remaining = sub i64 %asked, %reached
  br label %rest
rest:
  %clock_ns = phi i64 [ %asked, %clock ], [ %remaining, %until ]
  call void @wait(ptr %d, i1 %simulated, i64 %clock_ns)
  ret i64 0

not_clock:
  %is_micro = icmp eq i64 %which, 5
  %unit = select i1 %is_micro, i64 1000, i64 1000000000
  %amount = and i64 %a, 4294967295
  %short_ns = mul i64 %amount, %unit
  call void @wait(ptr %d, i1 %simulated, i64 %short_ns)
  ret i64 0
}}

define internal void @begin(ptr %d) {{
entry:
  %state_p = getelementptr i64, ptr %d, i64 {state}
  br label %again
again:
  %state = load atomic i64, ptr %state_p acquire, align 8
  %begun = icmp eq i64 %state, 2
  br i1 %begun, label %end, label %try
try:
  %seen = cmpxchg ptr %state_p, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %seen, 1
  br i1 %mine, label %make, label %again
make:
  %find = load ptr, ptr %d
  %next = inttoptr i64 -1 to ptr
  %read_name = getelementptr i8, ptr %d, i64 {read_name}
  %real = call ptr %find(ptr %next, ptr %read_name)
  %real_p = getelementptr i64, ptr %d, i64 {read}
  store ptr %real, ptr %real_p
  %sleep_name = getelementptr i8, ptr %d, i64 {sleep_name}
  %sleep = call ptr %find(ptr %next, ptr %sleep_name)
  %sleep_p = getelementptr i64, ptr %d, i64 {sleep}
  store ptr %sleep, ptr %sleep_p
  %wall = call i64 @real_ns(ptr %d, i32 0)
  %wall_p = getelementptr i64, ptr %d, i64 {wall}
  store i64 %wall, ptr %wall_p
  %monotonic = call i64 @real_ns(ptr %d, i32 1)
  %monotonic_p = getelementptr i64, ptr %d, i64 {monotonic}
  store i64 %monotonic, ptr %monotonic_p
  store atomic i64 2, ptr %state_p seq_cst, align 8
  br label %end
end:
  ret void
}}

define internal i1 @is_of_the_wall(i32 %id) {{
  %processor = add i32 %id, -2
  %is_processor = icmp ult i32 %processor, 2
  %known = icmp ult i32 %id, 8
  %not_processor = xor i1 %is_processor, true
  %found = and i1 %known, %not_processor
  ret i1 %found
}}

define internal i64 @real_ns(ptr %d, i32 %id) {{
  %place = alloca [2 x i64], align 8
  %real_p = getelementptr i64, ptr %d, i64 {read}
  %real = load ptr, ptr %real_p
  %code = call i32 %real(i32 %id, ptr %place)
  %address = ptrtoint ptr %place to i64
  %ns = call i64 @load_time(i64 %address)
  ret i64 %ns
}}

define internal i64 @now(ptr %d, i1 %simulated, i32 %id) {{
entry:
  br i1 %simulated, label %ours, label %theirs
theirs:
  %real = call i64 @real_ns(ptr %d, i32 %id)
  ret i64 %real
ours:
  %step_p = getelementptr i64, ptr %d, i64 {read_ps}
  %step = load i64, ptr %step_p
  %ps_p = getelementptr i64, ptr %d, i64 {ps}
  %before = atomicrmw add ptr %ps_p, i64 %step seq_cst
  %ps = add i64 %before, %step
  %ns = sdiv i64 %ps, 1000
  %real_time = icmp eq i32 %id, 0
  %coarse = icmp eq i32 %id, 5
  %is_wall = or i1 %real_time, %coarse
  %at = select i1 %is_wall, i64 {wall}, i64 {monotonic}
  %base_p = getelementptr i64, ptr %d, i64 %at
  %base = load i64, ptr %base_p
  %found = add i64 %base, %ns
  ret i64 %found
}}

define internal void @pass(ptr %d, i64 %ns) {{
  %ps_p = getelementptr i64, ptr %d, i64 {ps}
  %ps = mul i64 %ns, 1000
  %before = atomicrmw add ptr %ps_p, i64 %ps seq_cst
  ret void
}}

define internal void @wait(ptr %d, i1 %simulated, i64 %ns) {{
entry:
  %place = alloca [2 x i64], align 8
  %some = icmp sgt i64 %ns, 0
  br i1 %some, label %sleep, label %end
sleep:
  %address = ptrtoint ptr %place to i64
  call void @store_time(i64 %address, i64 %ns, i64 1)
  %real_p = getelementptr i64, ptr %d, i64 {sleep}
  %real = load ptr, ptr %real_p
  %code = call i32 %real(ptr %place, ptr null)
  br i1 %simulated, label %count, label %end
count:
  call void @pass(ptr %d, i64 %ns)
  br label %end
end:
  ret void
}}

define internal void @store_time(i64 %address, i64 %ns, i64 %unit) {{
  %place = inttoptr i64 %address to ptr
  %seconds = sdiv i64 %ns, 1000000000
  %rest = srem i64 %ns, 1000000000
  %small = sdiv i64 %rest, %unit
  store i64 %seconds, ptr %place
  %second_p = getelementptr i64, ptr %place, i64 1
  store i64 %small, ptr %second_p
  ret void
}}

define internal i64 @load_time(i64 %address) {{
  %place = inttoptr i64 %address to ptr
  %seconds = load i64, ptr %place
  %second_p = getelementptr i64, ptr %place, i64 1
  %rest = load i64, ptr %second_p
  %whole = mul i64 %seconds, 1000000000
  %ns = add i64 %whole, %rest
  ret i64 %ns
}}
"""


@lru_cache(maxsize=2)
def _code(machine: str) -> tuple[bytes, int]:
    """The functions as position-independent machine code without relocations, and the offset of ``dispatch`` in it."""
    import llvmlite.binding as llvm

    from warpwright.toolchain.elf_reader import ElfFile

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    names = 8 * WORDS
    text = _TEXT.format(
        machine=machine,
        state=STATE,
        ps=PS,
        read_ps=READ_PS,
        wall=WALL_NS,
        monotonic=MONOTONIC_NS,
        ranges=RANGES,
        range_count=RANGE_COUNT,
        read=_READ,
        sleep=_SLEEP,
        read_name=names,
        sleep_name=names + len(_NAMES[0]) + 1,
    )
    target = llvm.Target.from_triple(f"{machine}-unknown-linux-gnu")
    builder = target.create_target_machine(opt=1, reloc="pic", codemodel="small")
    module = llvm.parse_assembly(text)
    module.verify()
    file = ElfFile(builder.emit_object(module), f"clock code for {machine}", machine=None)
    if any(s.name.startswith(".rela.text") for s in file.sections):
        raise ValueError(f"the clock code for {machine} needs relocations")
    (place,) = (symbol.value for symbol in file.symbols if symbol.name == "dispatch")
    return file.by_name[".text"].data, place


def _x86_stub(at: int, data: int, number: int, target: int) -> bytes:
    """lea r8, [data]; mov r9d, number; jmp target."""
    code = b"\x4c\x8d\x05" + struct.pack("<i", data - (at + 7)) + b"\x41\xb9" + struct.pack("<I", number)
    return code + b"\xe9" + struct.pack("<i", target - (at + len(code) + 5))


def _a64_stub(at: int, data: int, number: int, target: int) -> bytes:
    """adr x4, data; mov w5, number; b target."""
    offset = data - at
    adr = 0x10000000 | (offset & 3) << 29 | (offset >> 2 & 0x7FFFF) << 5 | 4
    jump = 0x14000000 | ((target - (at + 8)) >> 2 & 0x3FFFFFF)
    return struct.pack("<3I", adr, 0x52800000 | number << 5 | 5, jump)


_STUBS = {"x86_64": _x86_stub, "aarch64": _a64_stub}


def build_clock_library(machine: str) -> bytes:
    """The shared object.

    Raises:
        ValueError: for a machine other than x86_64 and aarch64.
    """
    if machine not in _STUBS:
        raise ValueError(f"no clock library for {machine}; there are some for {' and '.join(_STUBS)}")
    library = SharedObject(machine, SONAME, FUNCTIONS, [CLOCK_SYMBOL], ["dlsym"], ["libdl.so.2", "libc.so.6"])
    tail, dispatch = _code(machine)
    data = bytes(8 * WORDS) + b"".join(name.encode() + b"\0" for name in _NAMES)
    where = library.layout(0, _STUB_BYTES * len(FUNCTIONS), len(data))
    text = b""
    symbols = {CLOCK_SYMBOL: where.data}
    for number, name in enumerate(FUNCTIONS):
        at = symbols[name] = where.text + len(text)
        stub = _STUBS[machine](at, where.data, number, where.tail + dispatch)
        text += stub.ljust(_STUB_BYTES, b"\0")
    return library.write(where, text, data, tail, symbols, {}, {where.data + 8 * _DLSYM: "dlsym"})
