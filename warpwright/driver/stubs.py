"""Machine code of the drop-in libraries: one stub per entry point, and the code that starts Python on the first call.

A stub jumps through its slot of a table.  Once Python is attached, the slots hold its callbacks; until then each holds
the address of a late stub, which loads its number and jumps to the common part: save the argument registers, call
``start``, restore them, and jump through the table again.  ``start`` finds the interpreter of the process, or loads
``libpython`` and starts one, and lets it fill the table.

A destructor may make a call while a Python exception propagates through C code that has no handler for it.  Python code
must not run then, so calls made by destructors go through a guard: it saves and clears the exception, makes the call,
and restores it.

Stubs are written as bytes (System V calling conventions of x86-64 and AArch64); ``start`` is LLVM IR.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from warpwright.driver.elf_writer import Layout, SharedObject
from warpwright.driver.entry_points import CLOSED_TEXT, Ending, ending

GUARD_SYMBOL = "warpwright_guard"
"""The exported data of the guard: addresses of Python's functions (:data:`GUARD_FUNCTIONS`), 8 bytes each; of every entry point's guarded stub
or 0; and of every entry point's callback, for the guard to call."""
GUARD_FUNCTIONS = ("PyGILState_Ensure", "PyErr_Fetch", "PyErr_Restore", "PyGILState_Release")
TABLE_SYMBOL = "warpwright_table"
"""The exported table of addresses, 8 bytes per entry point, in the order of the names."""
_START_SLOT, _DLSYM_SLOT, _DLOPEN_SLOT, _STATE = 0, 8, 16, 24
_STRINGS = 32
_STRING_NAMES = (
    "library",
    "code",
    "message",
    "Py_IsInitialized",
    "Py_InitializeEx",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyRun_SimpleString",
    "PyEval_SaveThread",
    "usleep",
    "perror",
)
"""Offsets of these strings follow the slots, 8 bytes each."""
_TEXT_STRINGS = _STRINGS + 8 * len(_STRING_NAMES)
CLOSE_SYMBOL = "warpwright_close"
"""An exported function without arguments after which every entry point ends as its :class:`Ending` says: it runs after
the interpreter has shut down, for calls still made by destructors of C++ objects."""
NOT_INITIALIZED = 3
"""CUDA_ERROR_NOT_INITIALIZED and cudaErrorInitializationError: returned by calls if Python cannot be started."""


@dataclass(frozen=True, slots=True)
class Boot:
    """How a process without a Python interpreter gets one."""

    python_library: str
    """Path of libpython; empty if the interpreter was built without one."""
    code: str
    """The code by which the interpreter attaches itself."""
    message: str
    """Shown when no interpreter can be loaded."""


# --- x86-64 ---------------------------------------------------------------------------------------
_X86_SAVE = bytes.fromhex("554889e5575652514150415141535048 81ec80000000".replace(" ", ""))
"""push rbp; mov rbp, rsp; push rdi, rsi, rdx, rcx, r8, r9, r11, rax; sub rsp, 128."""
_X86_TEST = bytes.fromhex("85c0")
_X86_RESTORE = bytes.fromhex("488da42480000000 58 415b 4159 4158 59 5a 5e 5f 5d 740b".replace(" ", ""))
"""lea rsp, [rsp + 128] and pops, none of which changes flags; then je over the jump."""
_X86_FAIL = bytes.fromhex("b8") + struct.pack("<I", NOT_INITIALIZED) + bytes.fromhex("c3")


def _x86_vectors(opcode: int) -> bytes:
    """movdqu of xmm0..xmm7 to (0x7F) or from (0x6F) [rsp + 16 * i]."""
    rows = b""
    for i in range(8):
        modrm, displacement = (0x04, b"") if i == 0 else (0x44, bytes([16 * i]))
        rows += bytes([0xF3, 0x0F, opcode, modrm | i << 3, 0x24]) + displacement
    return rows


def _x86_stub(at: int, slot: int) -> bytes:
    """jmp *[rip + slot]."""
    return b"\xff\x25" + struct.pack("<i", slot - (at + 6)) + b"\x90\x90"


def _x86_late(at: int, number: int, common: int) -> bytes:
    """mov r11d, number; jmp common."""
    return b"\x41\xbb" + struct.pack("<I", number) + b"\xe9" + struct.pack("<i", common - (at + 11)) + b"\x90" * 5


def _x86_common(at: int, data: int, table: int) -> bytes:
    code = _X86_SAVE + _x86_vectors(0x7F)
    code += b"\x48\x8d\x3d" + struct.pack("<i", data - (at + len(code) + 7))  # lea rdi, [data]
    code += b"\xff\x15" + struct.pack("<i", data + _START_SLOT - (at + len(code) + 6))  # call *[start]
    code += _X86_TEST + _x86_vectors(0x6F) + _X86_RESTORE
    code += b"\x48\x8d\x05" + struct.pack("<i", table - (at + len(code) + 7))  # lea rax, [table]
    return code + b"\x42\xff\x24\xd8" + _X86_FAIL  # jmp *[rax + 8 * r11]


_X86_ENDINGS = {
    Ending.GONE: b"\xb8\x04\0\0\0\xc3",  # mov eax, 4; ret
    Ending.WELL: b"\x31\xc0\xc3",  # xor eax, eax; ret
    Ending.FIRST: b"\xc7\x07\0\0\0\0\x31\xc0\xc3",  # mov dword [rdi], 0; xor eax, eax; ret
    Ending.SECOND: b"\xc7\x06\0\0\0\0\x31\xc0\xc3",  # mov dword [rsi], 0; xor eax, eax; ret
    Ending.INACTIVE: b"\xc7\x06\0\0\0\0\xc7\x02\0\0\0\0\x31\xc0\xc3",  # mov dword [rsi], 0; mov dword [rdx], 0; xor eax, eax; ret
    Ending.TEXT: b"\x48\x8d\x05\x01\0\0\0\xc3" + CLOSED_TEXT + b"\0",  # lea rax, [text]; ret; text
}


def _x86_close(at: int, table: int, endings: Sequence[Ending]) -> bytes:
    """lea rdi, [table]; for each ending: lea rax, [its code]; mov [rdi + 8 * i], rax …; then ret and the codes."""
    numbers = {kind: [i for i, one in enumerate(endings) if one is kind] for kind in _X86_ENDINGS}
    place = 7 + sum(7 + 7 * len(entries) for entries in numbers.values()) + 1
    code = b"\x48\x8d\x3d" + struct.pack("<i", table - (at + 7))
    for kind, entries in numbers.items():
        code += b"\x48\x8d\x05" + struct.pack("<i", place - (len(code) + 7))
        code += b"".join(b"\x48\x89\x87" + struct.pack("<i", 8 * i) for i in entries)
        place += len(_X86_ENDINGS[kind])
    return code + b"\xc3" + b"".join(_X86_ENDINGS.values())


def _x86_guard(at: int, functions: int, callbacks: int) -> bytes:
    """Save the arguments, take the exception, make the call, and restore the exception; r11 is the entry point's number.

    Below rbp are rdi, rsi, rdx, rcx, r8, r9, r11 and the result; at rsp the exception's three words and the state of the interpreter's lock.
    """
    code = bytearray.fromhex("554889e5 57 56 52 51 4150 4151 4153 50 4883ec20")

    def call(function: int) -> None:
        code.extend(b"\xff\x15" + struct.pack("<i", functions + 8 * function - (at + len(code) + 6)))

    call(0)
    code += bytes.fromhex(
        "89442418 488d3c24 488d742408 488d542410"
    )  # mov [rsp + 24], eax; lea rdi, rsi, rdx of the three words
    call(1)
    code += bytes.fromhex("488b7df8 488b75f0 488b55e8 488b4de0 4c8b45d8 4c8b4dd0 4c8b5dc8")
    code += b"\x48\x8d\x05" + struct.pack("<i", callbacks - (at + len(code) + 7))  # lea rax, [callbacks]
    code += bytes.fromhex(
        "42ff14d8 488945c0 488b3c24 488b742408 488b542410"
    )  # call *[rax + 8 * r11]; mov [rbp - 64], rax
    call(2)
    code += bytes.fromhex("8b7c2418")
    call(3)
    return bytes(code) + bytes.fromhex("488b45c0 c9 c3")


# --- AArch64 --------------------------------------------------------------------------------------
def _a64(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def _a64_adr(register: int, at: int, target: int) -> int:
    offset = target - at
    if not -(1 << 20) <= offset < 1 << 20:
        raise ValueError(f"an address {offset} bytes away is out of reach of adr")
    return 0x10000000 | (offset & 3) << 29 | (offset >> 2 & 0x7FFFF) << 5 | register


def _a64_load(register: int, at: int, target: int) -> int:
    """ldr register, target (literal)."""
    return 0x58000000 | ((target - at) >> 2 & 0x7FFFF) << 5 | register


def _a64_stub(at: int, slot: int) -> bytes:
    return _a64(_a64_load(16, at, slot), 0xD61F0000 | 16 << 5)


def _a64_late(at: int, number: int, common: int) -> bytes:
    return _a64(0x52800000 | number << 5 | 17, 0x14000000 | ((common - (at + 4)) >> 2 & 0x3FFFFFF)) + bytes(8)


_A64_PAIRS = ((29, 30), (0, 1), (2, 3), (4, 5), (6, 7), (8, 17))
_A64_VECTORS = ((0, 1), (2, 3), (4, 5), (6, 7))


def _a64_common(at: int, data: int, table: int) -> bytes:
    push, pop, down, up = 0xA9800000, 0xA8C00000, (-2 & 0x7F) << 15, 2 << 15
    vector_push, vector_pop = 0x6D800000, 0x6CC00000
    words = [push | down | b << 10 | 31 << 5 | a for a, b in _A64_PAIRS]
    words += [vector_push | down | b << 10 | 31 << 5 | a for a, b in _A64_VECTORS]
    words.append(_a64_adr(0, at + 4 * len(words), data))
    words.append(_a64_load(16, at + 4 * len(words), data + _START_SLOT))
    words += [0xD63F0000 | 16 << 5, 0x2A0003E9]  # blr x16; mov w9, w0
    words += [vector_pop | up | b << 10 | 31 << 5 | a for a, b in reversed(_A64_VECTORS)]
    words += [pop | up | b << 10 | 31 << 5 | a for a, b in reversed(_A64_PAIRS)]
    words.append(0x34000000 | 4 << 5 | 9)  # cbz w9, over the jump
    words.append(_a64_adr(16, at + 4 * len(words), table))
    words += [0xF8607800 | 17 << 16 | 16 << 5 | 16, 0xD61F0000 | 16 << 5]  # ldr x16, [x16, x17, lsl 3]; br x16
    return _a64(*words, 0x52800000 | NOT_INITIALIZED << 5, 0xD65F03C0)


_A64_ENDINGS = {
    Ending.GONE: _a64(0x52800080, 0xD65F03C0),  # mov w0, 4; ret
    Ending.WELL: _a64(0x52800000, 0xD65F03C0),  # mov w0, 0; ret
    Ending.FIRST: _a64(0xB900001F, 0x52800000, 0xD65F03C0),  # str wzr, [x0]; mov w0, 0; ret
    Ending.SECOND: _a64(0xB900003F, 0x52800000, 0xD65F03C0),  # str wzr, [x1]; mov w0, 0; ret
    Ending.INACTIVE: _a64(
        0xB900003F, 0xB900005F, 0x52800000, 0xD65F03C0
    ),  # str wzr, [x1]; str wzr, [x2]; mov w0, 0; ret
    Ending.TEXT: _a64(_a64_adr(0, 0, 8), 0xD65F03C0)
    + CLOSED_TEXT
    + bytes(4 - len(CLOSED_TEXT) % 4),  # adr x0, text; ret; text
}


def _a64_close(at: int, table: int, endings: Sequence[Ending]) -> bytes:
    """adr x0, table; for each ending: adr x1, its code; str x1, [x0, 8 * i] …; then ret and the codes."""
    numbers = {kind: [i for i, one in enumerate(endings) if one is kind] for kind in _A64_ENDINGS}
    place = at + 4 * (1 + sum(1 + len(entries) for entries in numbers.values()) + 1)
    words = [_a64_adr(0, at, table)]
    for kind, entries in numbers.items():
        words.append(_a64_adr(1, at + 4 * len(words), place))
        words += [0xF9000001 | i << 10 for i in entries]
        place += len(_A64_ENDINGS[kind])
    return _a64(*words, 0xD65F03C0) + b"".join(_A64_ENDINGS.values())


def _a64_guard(at: int, functions: int, callbacks: int) -> bytes:
    """As :func:`_x86_guard`; w17 is the entry point's number.  In the frame of 112 bytes: x29 and x30, x0 to x5, x17, lock, exception, result."""
    words = [0xA9B97BFD, 0x910003FD, 0xA90107E0, 0xA9020FE2, 0xA90317E4, 0xF90023F1]

    def call(function: int) -> None:
        words.extend((_a64_load(16, at + 4 * len(words), functions + 8 * function), 0xD63F0000 | 16 << 5))

    call(0)
    words += [0xB9004BE0, 0x910143E0, 0x910163E1, 0x910183E2]  # str w0, [sp, 72]; add x0, x1, x2 = sp + 80, 88, 96
    call(1)
    words += [0xA94107E0, 0xA9420FE2, 0xA94317E4, 0xF94023F1]
    words.append(_a64_adr(16, at + 4 * len(words), callbacks))
    words += [0xF8607800 | 17 << 16 | 16 << 5 | 16, 0xD63F0000 | 16 << 5]  # ldr x16, [x16, x17, lsl 3]; blr x16
    words += [0xF90037E0, 0xA94507E0, 0xF94033E2]  # str x0, [sp, 104]; ldp x0, x1, [sp, 80]; ldr x2, [sp, 96]
    call(2)
    words.append(0xB9404BE0)
    call(3)
    return _a64(*words, 0xF94037E0, 0xA8C77BFD, 0xD65F03C0)


@dataclass(frozen=True, slots=True)
class _Machine:
    stub_bytes: int
    late_bytes: int
    stub: Callable[[int, int], bytes]
    late: Callable[[int, int, int], bytes]
    common: Callable[[int, int, int], bytes]
    close: Callable[[int, int, Sequence[Ending]], bytes]
    guard: Callable[[int, int, int], bytes]


_MACHINES = {
    "x86_64": _Machine(8, 16, _x86_stub, _x86_late, _x86_common, _x86_close, _x86_guard),
    "aarch64": _Machine(8, 16, _a64_stub, _a64_late, _a64_common, _a64_close, _a64_guard),
}

# --- start ----------------------------------------------------------------------------------------
_START = """
target triple = "{machine}-unknown-linux-gnu"

define i32 @start(ptr %d) {{
entry:
  %state = getelementptr i8, ptr %d, i64 {state}
  %find_p = getelementptr i8, ptr %d, i64 {dlsym}
  %find = load ptr, ptr %find_p
  br label %attempt
attempt:
  %seen = cmpxchg ptr %state, i64 0, i64 1 seq_cst seq_cst
  %was = extractvalue {{ i64, i1 }} %seen, 0
  %mine = extractvalue {{ i64, i1 }} %seen, 1
  br i1 %mine, label %begin, label %other
other:
  %running = icmp eq i64 %was, 1
  br i1 %running, label %pause, label %known
pause:
  {s_usleep}
  %usleep = call ptr %find(ptr null, ptr %s_usleep)
  %slept = call i32 %usleep(i32 1000)
  br label %attempt
known:
  %good = icmp eq i64 %was, 2
  %known_result = zext i1 %good to i32
  ret i32 %known_result
begin:
  {s_Py_IsInitialized}
  %here = call ptr %find(ptr null, ptr %s_Py_IsInitialized)
  %missing = icmp eq ptr %here, null
  br i1 %missing, label %load, label %run
load:
  %open_p = getelementptr i8, ptr %d, i64 {dlopen}
  %open = load ptr, ptr %open_p
  {s_library}
  %loaded = call ptr %open(ptr %s_library, i32 258)
  %nothing = icmp eq ptr %loaded, null
  br i1 %nothing, label %fail, label %run
run:
  %scope = phi ptr [ null, %begin ], [ %loaded, %load ]
  {s_Py_IsInitialized2}
  %is_initialized = call ptr %find(ptr %scope, ptr %s_Py_IsInitialized2)
  %lives = call i32 %is_initialized()
  {s_PyRun_SimpleString}
  %execute = call ptr %find(ptr %scope, ptr %s_PyRun_SimpleString)
  {s_code}
  %new = icmp eq i32 %lives, 0
  br i1 %new, label %fresh, label %shared
fresh:
  {s_Py_InitializeEx}
  %initialize = call ptr %find(ptr %scope, ptr %s_Py_InitializeEx)
  call void %initialize(i32 0)
  %fresh_failed = call i32 %execute(ptr %s_code)
  {s_PyEval_SaveThread}
  %save = call ptr %find(ptr %scope, ptr %s_PyEval_SaveThread)
  %saved = call ptr %save()
  br label %done
shared:
  {s_PyGILState_Ensure}
  %ensure = call ptr %find(ptr %scope, ptr %s_PyGILState_Ensure)
  %held = call i32 %ensure()
  %shared_failed = call i32 %execute(ptr %s_code)
  {s_PyGILState_Release}
  %release = call ptr %find(ptr %scope, ptr %s_PyGILState_Release)
  call void %release(i32 %held)
  br label %done
done:
  %failed = phi i32 [ %fresh_failed, %fresh ], [ %shared_failed, %shared ]
  %success = icmp eq i32 %failed, 0
  %now = select i1 %success, i64 2, i64 3
  store atomic i64 %now, ptr %state seq_cst, align 8
  %result = zext i1 %success to i32
  ret i32 %result
fail:
  {s_perror}
  %complain = call ptr %find(ptr null, ptr %s_perror)
  {s_message}
  call void %complain(ptr %s_message)
  store atomic i64 3, ptr %state seq_cst, align 8
  ret i32 0
}}
"""


def _string_access(name: str, suffix: str = "") -> str:
    """IR that makes ``%s_NAME`` the address of one of the strings."""
    slot, made = _STRINGS + 8 * _STRING_NAMES.index(name), f"{name}{suffix}"
    return (
        f"%o_{made} = getelementptr i8, ptr %d, i64 {slot}\n"
        f"  %n_{made} = load i64, ptr %o_{made}\n"
        f"  %s_{made} = getelementptr i8, ptr %d, i64 %n_{made}"
    )


@lru_cache(maxsize=2)
def start_code(machine: str) -> bytes:
    """The function ``start`` as position-independent machine code without relocations."""
    import llvmlite.binding as llvm

    from warpwright.toolchain.elf_reader import ElfFile

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    strings = {f"s_{n}": _string_access(n) for n in _STRING_NAMES}
    strings["s_Py_IsInitialized2"] = _string_access("Py_IsInitialized", "2")
    text = _START.format(machine=machine, state=_STATE, dlsym=_DLSYM_SLOT, dlopen=_DLOPEN_SLOT, **strings)
    target = llvm.Target.from_triple(f"{machine}-unknown-linux-gnu")
    # Without optimisation nothing is kept in constant pools or jump tables, which would need relocations.
    builder = target.create_target_machine(opt=1, reloc="pic", codemodel="small")
    module = llvm.parse_assembly(text)
    module.verify()
    file = ElfFile(builder.emit_object(module), f"start code for {machine}", machine=None)
    if any(s.name.startswith(".rela.text") for s in file.sections):
        raise ValueError(f"the start code for {machine} needs relocations")
    return file.by_name[".text"].data


# --- the whole --------------------------------------------------------------------------------------
def build_library(
    machine: str, soname: str, names: Sequence[str], boot: Boot, version: str = "", guarded: Sequence[int] = ()
) -> bytes:
    """Build a shared object that exports ``names``, in this order in its table; the entries numbered in ``guarded`` have a guarded stub.

    Raises:
        ValueError: for a machine other than x86_64 and aarch64.
    """
    if machine not in _MACHINES:
        raise ValueError(f"no stubs for {machine}; there are some for {' and '.join(_MACHINES)}")
    m = _MACHINES[machine]
    start = start_code(machine)
    library = SharedObject(
        machine,
        soname,
        [*names, CLOSE_SYMBOL],
        [TABLE_SYMBOL, GUARD_SYMBOL],
        ["dlsym", "dlopen"],
        ["libdl.so.2", "libc.so.6"],
        version,
    )
    texts = {"library": boot.python_library, "code": boot.code, "message": boot.message}
    blob, offsets = bytearray(), []
    for name in _STRING_NAMES:
        offsets.append(_TEXT_STRINGS + len(blob))
        blob += texts.get(name, name).encode() + b"\0"
    head = bytes(_STRINGS) + struct.pack(f"<{len(offsets)}Q", *offsets) + bytes(blob)
    table_offset = -(-len(head) // 64) * 64
    guard_offset = table_offset + 8 * len(names)
    data = head.ljust(guard_offset, b"\0") + bytes(8 * (len(GUARD_FUNCTIONS) + 2 * len(names)))
    stubs_bytes = m.stub_bytes * len(names)
    text_bytes = stubs_bytes + m.late_bytes * (len(names) + len(guarded)) + 1024 + 8 * len(names)
    where = library.layout(1 + len(names) + len(guarded), text_bytes, len(data))
    late, common = where.text + stubs_bytes, where.text + stubs_bytes + m.late_bytes * len(names)
    table = where.data + table_offset
    text = b"".join(m.stub(where.text + m.stub_bytes * i, table + 8 * i) for i in range(len(names)))
    text += b"".join(m.late(late + m.late_bytes * i, i, common) for i in range(len(names)))
    text += m.common(common, where.data, table)
    text += bytes(-len(text) % 16)
    close = where.text + len(text)
    text += m.close(close, table, [ending(name) for name in names])
    text += bytes(-len(text) % 16)
    functions = where.data + guard_offset
    stubs_of_guard = functions + 8 * len(GUARD_FUNCTIONS)
    guard = where.text + len(text)
    text += m.guard(guard, functions, stubs_of_guard + 8 * len(names))
    text += bytes(-len(text) % 16)
    first = where.text + len(text)
    text += b"".join(m.late(first + m.late_bytes * n, i, guard) for n, i in enumerate(guarded))
    symbols = {name: where.text + m.stub_bytes * i for i, name in enumerate(names)}
    symbols[TABLE_SYMBOL] = table
    symbols[CLOSE_SYMBOL] = close
    symbols[GUARD_SYMBOL] = functions
    pointers = {where.data + _START_SLOT: where.tail}
    pointers |= {table + 8 * i: late + m.late_bytes * i for i in range(len(names))}
    pointers |= {stubs_of_guard + 8 * i: first + m.late_bytes * n for n, i in enumerate(guarded)}
    imported = {where.data + _DLSYM_SLOT: "dlsym", where.data + _DLOPEN_SLOT: "dlopen"}
    return library.write(where, text, data, start, symbols, pointers, imported)


__all__ = [
    "CLOSE_SYMBOL",
    "GUARD_FUNCTIONS",
    "GUARD_SYMBOL",
    "TABLE_SYMBOL",
    "Boot",
    "Layout",
    "build_library",
    "start_code",
]
