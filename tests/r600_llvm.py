"""Programs that LLVM's back end for Cypress and Cayman emits: their code, and LLVM's own text of it."""

from __future__ import annotations

import functools
import re
import struct

import llvmlite.binding as llvm

CPUS = {"evergreen": "cypress", "cayman": "cayman"}

HEAD = """
target triple = "r600--"
declare i32 @llvm.r600.read.tidig.x()
declare i32 @llvm.r600.read.tgid.x()
declare i32 @llvm.r600.read.local.size.x()
declare void @llvm.r600.group.barrier()
declare float @llvm.sqrt.f32(float)
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.exp2.f32(float)
declare float @llvm.log2.f32(float)
declare float @llvm.sin.f32(float)
declare float @llvm.fabs.f32(float)
declare float @llvm.floor.f32(float)
declare float @llvm.minnum.f32(float, float)
declare i32 @llvm.ctpop.i32(i32)
declare i32 @llvm.ctlz.i32(i32, i1)
declare i32 @llvm.fshr.i32(i32, i32, i32)
@tile = internal addrspace(3) global [64 x float] poison
"""
KERNELS = {
    "saxpy": """
define amdgpu_kernel void @saxpy(ptr addrspace(1) %x, ptr addrspace(1) %y, float %a, i32 %n) {
  %t = call i32 @llvm.r600.read.tidig.x()
  %g = call i32 @llvm.r600.read.tgid.x()
  %s = call i32 @llvm.r600.read.local.size.x()
  %m = mul i32 %g, %s
  %i = add i32 %m, %t
  %in = icmp slt i32 %i, %n
  br i1 %in, label %do, label %end
do:
  %p = getelementptr float, ptr addrspace(1) %x, i32 %i
  %q = getelementptr float, ptr addrspace(1) %y, i32 %i
  %u = load float, ptr addrspace(1) %p
  %v = load float, ptr addrspace(1) %q
  %w = call float @llvm.fma.f32(float %a, float %u, float %v)
  store float %w, ptr addrspace(1) %q
  br label %end
end:
  ret void
}""",
    "shared": """
define amdgpu_kernel void @shared(ptr addrspace(1) %x) {
  %t = call i32 @llvm.r600.read.tidig.x()
  %p = getelementptr float, ptr addrspace(1) %x, i32 %t
  %v = load float, ptr addrspace(1) %p
  %l = getelementptr float, ptr addrspace(3) @tile, i32 %t
  store float %v, ptr addrspace(3) %l
  call void @llvm.r600.group.barrier()
  %o = xor i32 %t, 63
  %k = getelementptr float, ptr addrspace(3) @tile, i32 %o
  %w = load float, ptr addrspace(3) %k
  %b = load i8, ptr addrspace(3) %k
  %h = load i16, ptr addrspace(3) %k
  store i8 %b, ptr addrspace(3) %l
  store i16 %h, ptr addrspace(3) %l
  store float %w, ptr addrspace(1) %p
  ret void
}""",
    "private": """
define amdgpu_kernel void @private(ptr addrspace(1) %a, i32 %n) {
  %arr = alloca [8 x i32], addrspace(5)
  %t = call i32 @llvm.r600.read.tidig.x()
  br label %loop
loop:
  %i = phi i32 [0, %0], [%next, %loop]
  %p = getelementptr i32, ptr addrspace(5) %arr, i32 %i
  %x = mul i32 %i, %t
  store i32 %x, ptr addrspace(5) %p
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  %k = and i32 %t, 7
  %q = getelementptr i32, ptr addrspace(5) %arr, i32 %k
  %v = load i32, ptr addrspace(5) %q
  %o = getelementptr i32, ptr addrspace(1) %a, i32 %t
  store i32 %v, ptr addrspace(1) %o
  ret void
}""",
    "atomics": """
define amdgpu_kernel void @atomics(ptr addrspace(1) %a, ptr addrspace(3) %l, i32 %n) {
  %t = call i32 @llvm.r600.read.tidig.x()
  %q1 = atomicrmw add ptr addrspace(1) %a, i32 %n seq_cst
  %q2 = atomicrmw umax ptr addrspace(1) %a, i32 %n seq_cst
  %q3 = atomicrmw xchg ptr addrspace(1) %a, i32 %n seq_cst
  %q4 = atomicrmw xor ptr addrspace(1) %a, i32 %n seq_cst
  %z = cmpxchg ptr addrspace(1) %a, i32 %n, i32 7 seq_cst seq_cst
  %r1 = atomicrmw add ptr addrspace(3) %l, i32 %n seq_cst
  %r2 = atomicrmw umin ptr addrspace(3) %l, i32 %r1 seq_cst
  %r3 = atomicrmw xchg ptr addrspace(3) %l, i32 %r2 seq_cst
  %s = cmpxchg ptr addrspace(3) %l, i32 %r3, i32 7 seq_cst seq_cst
  %s0 = extractvalue {i32, i1} %s, 0
  %o = getelementptr i32, ptr addrspace(1) %a, i32 %t
  store i32 %s0, ptr addrspace(1) %o
  ret void
}""",
    "narrow": """
define amdgpu_kernel void @narrow(ptr addrspace(1) %a, ptr addrspace(1) %b) {
  %t = call i32 @llvm.r600.read.tidig.x()
  %p = getelementptr i8, ptr addrspace(1) %a, i32 %t
  %q = getelementptr i16, ptr addrspace(1) %b, i32 %t
  %c = load i8, ptr addrspace(1) %p
  %d = load i16, ptr addrspace(1) %q
  %e = sext i8 %c to i16
  %f = add i16 %e, %d
  store i16 %f, ptr addrspace(1) %q
  store i8 %c, ptr addrspace(1) %q
  %v2 = load <2 x float>, ptr addrspace(1) %a
  %v4 = load <4 x float>, ptr addrspace(1) %b
  store <4 x float> %v4, ptr addrspace(1) %a
  store <2 x float> %v2, ptr addrspace(1) %b
  ret void
}""",
    "floats": """
define amdgpu_kernel void @floats(ptr addrspace(1) %a, float %x, float %y, i32 %n, i32 %m) {
  %t = call i32 @llvm.r600.read.tidig.x()
  %s = call float @llvm.sqrt.f32(float %x)
  %d = fdiv float %s, %y
  %nx = fneg float %d
  %f = call float @llvm.fma.f32(float %nx, float %y, float -1.0)
  %e = call float @llvm.exp2.f32(float %f)
  %l = call float @llvm.log2.f32(float %x)
  %sn = call float @llvm.sin.f32(float %l)
  %ab = call float @llvm.fabs.f32(float %sn)
  %fl = call float @llvm.floor.f32(float %y)
  %mn = call float @llvm.minnum.f32(float %ab, float %fl)
  %g1 = fmul float %mn, %e
  %i = fptosi float %g1 to i32
  %g = udiv i32 %i, %m
  %h = srem i32 %g, %n
  %u = uitofp i32 %h to float
  %c = fcmp olt float %u, %x
  %r = select i1 %c, float %u, float 0.5
  %hh = fptrunc float %r to half
  %w = fpext half %hh to float
  %o = getelementptr float, ptr addrspace(1) %a, i32 %t
  store float %w, ptr addrspace(1) %o
  ret void
}""",
    "integers": """
define amdgpu_kernel void @integers(ptr addrspace(1) %a, i64 %x, i64 %y, i32 %n) {
  %t = call i32 @llvm.r600.read.tidig.x()
  %s = add i64 %x, %y
  %p = mul i64 %s, %y
  %sh = lshr i64 %p, 13
  %d = sub i64 %sh, %x
  %less = icmp ult i64 %d, %y
  %sel = select i1 %less, i64 %d, i64 %s
  %lo = trunc i64 %sel to i32
  %b = call i32 @llvm.ctpop.i32(i32 %lo)
  %c = call i32 @llvm.ctlz.i32(i32 %n, i1 false)
  %f = call i32 @llvm.fshr.i32(i32 %b, i32 %c, i32 %n)
  %k = lshr i32 %f, 3
  %e = and i32 %k, 31
  %q = getelementptr i32, ptr addrspace(1) %a, i32 %t
  store i32 %e, ptr addrspace(1) %q
  ret void
}""",
    "branches": """
define amdgpu_kernel void @branches(ptr addrspace(1) %a, i32 %n) {
entry:
  %t = call i32 @llvm.r600.read.tidig.x()
  br label %outer
outer:
  %i = phi i32 [0, %entry], [%i2, %latch]
  %acc = phi i32 [%t, %entry], [%acc2, %latch]
  %odd = and i32 %acc, 1
  %is = icmp eq i32 %odd, 0
  br i1 %is, label %even, label %three
even:
  %h = lshr i32 %acc, 1
  br label %latch
three:
  %q = getelementptr i32, ptr addrspace(1) %a, i32 %i
  store i32 %acc, ptr addrspace(1) %q
  %m = mul i32 %acc, 3
  %m1 = add i32 %m, 1
  %big = icmp ugt i32 %m1, 1000
  br i1 %big, label %end, label %latch
latch:
  %acc2 = phi i32 [%h, %even], [%m1, %three]
  %i2 = add i32 %i, 1
  %go = icmp slt i32 %i2, %n
  br i1 %go, label %outer, label %end
end:
  %last = phi i32 [%m1, %three], [%acc2, %latch]
  %o = getelementptr i32, ptr addrspace(1) %a, i32 %t
  store i32 %last, ptr addrspace(1) %o
  ret void
}""",
}


@functools.cache
def _ready() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def has_r600() -> bool:
    """Whether this llvmlite was built with the back end."""
    _ready()
    try:
        llvm.Target.from_triple("r600--")
    except RuntimeError:
        return False
    return True


@functools.cache
def emitted(kernel: str, generation: str) -> tuple[bytes, list[str]]:
    """The code of one of KERNELS and the lines that LLVM prints for it."""
    return compiled(HEAD + KERNELS[kernel], kernel, generation)


def compiled(source: str, kernel: str, generation: str) -> tuple[bytes, list[str]]:
    """The code of a kernel of a module and the lines that LLVM prints for it."""
    _ready()
    machine = llvm.Target.from_triple("r600--").create_target_machine(cpu=CPUS[generation], opt=2)
    # Emitting changes a module: a second time it may give other code.
    for_text, for_code = llvm.parse_assembly(source), llvm.parse_assembly(source)
    for_text.verify()
    text = machine.emit_assembly(for_text)
    body = text.partition(f"\n{kernel}:\n")[2].partition(".Lfunc_end")[0]
    return _code(machine.emit_object(for_code)), [line.strip() for line in body.splitlines() if line.strip()]


def _code(elf: bytes) -> bytes:
    """The section .text of a 32-bit ELF."""
    (sections,) = struct.unpack_from("<I", elf, 32)
    size, count, names = struct.unpack_from("<3H", elf, 46)
    headers = [struct.unpack_from("<10I", elf, sections + i * size) for i in range(count)]
    for name, _, _, _, offset, length, *_ in headers:
        at = headers[names][4] + name
        if elf[at : elf.index(b"\0", at)] == b".text":
            return elf[offset : offset + length]
    raise AssertionError("no .text")


AMD_NAMES = {
    "LSHL": "LSHL_INT",
    "LSHR": "LSHR_INT",
    "ASHR": "ASHR_INT",
    "MULHI": "MULHI_UINT",
    "LDS_WRXCHG_RET": "LDS_XCHG_RET",
    # LLVM prints the one that returns the old value without its suffix and without the queue.
    "LDS_CMPST": "LDS_CMP_XCHG_RET",
    "END_LOOP": "LOOP_END",
    "CONTINUE": "LOOP_CONTINUE",
}
"""AMD's name of an operation that LLVM prints under another one."""


def as_amd_names(line: str) -> str:
    """A line of LLVM's, with AMD's names and without the blanks and commas at its end."""
    line = re.sub(r"^(LDS_CMPST)\*? *(\*)? *", r"\1 * OQAP, ", line) if line.startswith("LDS_CMPST") else line
    head, blank, rest = line.partition(" ")
    head, rest = AMD_NAMES.get(head, head), rest.rstrip(" ,")
    if head.startswith("MEM_RAT"):
        rest = re.sub(r"^ATOMIC_(\w+) ", r"\1_RTN ", rest).replace("XCHG_INT", "XCHG").replace("CMPXCHG", "CMPXCHG_INT")
    if head == "GROUP_BARRIER":
        rest, blank = "*", " "
    line = re.sub(r" +", " ", f"{head}{blank}{rest}").rstrip(" ,")
    # A literal is printed with a sign where it comes from an integer and without where it comes from a float.
    return re.sub(r"\b(\d{10})(?=\()", lambda n: str((int(n[1]) + 2**31) % 2**32 - 2**31), line)
