"""Compiles a kernel of OpenCL C, as bitcode of clang, to R600 machine code.

Clang's functions are kept unchanged, except for operations that LLVM's back end cannot select or that read data which a
launch does not provide: atomics on global memory, fences, the launch's implicit words and constant variables.  A
generated kernel takes the arguments as words, in PTX's layout, and calls clang's kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import llvmlite.binding as llvm

from warpwright.errors import UnsupportedError
from warpwright.isa.program import Parameter
from warpwright.isa.r600.bindings import IMAGE_RECORD_BYTES, Bindings
from warpwright.isa.r600.compiler.finish import finished
from warpwright.isa.r600.compiler.memory_accesses import GLOBAL_ATOMICS
from warpwright.isa.r600.compiler.opencl_image_functions import reads_levels, refused, with_images
from warpwright.isa.r600.compiler.opencl_images import (
    MOST_LEVELS,
    ImageParameter,
    SamplerParameter,
    assumed_bindings,
    special_parameters,
)
from warpwright.isa.r600.launch_words import ENGINE_PARAMETERS_AT
from warpwright.isa.r600.load import R600Program, program_from_code
from warpwright.isa.r600.meaning_memory import RETURNS_AT
from warpwright.toolchain.r600 import TRIPLE, ObjectCode, compile_ir, variable_images

GLOBAL, SHARED, CONSTANT, IMPLICIT = 1, 3, 4, 7
POINTER_BYTES = 8
LOCAL_ALIGN_BYTES = VARIABLE_ALIGN_BYTES = 16
MOST_STORES = 16
"""Kinds of typed stores that LLVM can number."""
IMPLICIT_BASE = 4096
"""Placeholder for the address of the implicit words: the number of dimensions, then the grid's offsets, which are
zero."""
_NAME = r'(?:[\w.$-]+|"[^"]*")'
_VALUE = rf"(?:%{_NAME}|@{_NAME}|[-\w.]+)"
_ATOMIC = re.compile(
    rf"^  (?P<to>%{_NAME}) = (?:tail )?atomicrmw (?:volatile )?(?P<name>\w+) ptr addrspace\({GLOBAL}\) (?P<at>[^,]+), "
    rf"(?P<type>\w+) (?P<value>{_VALUE}) .*$",
    re.MULTILINE,
)
_COMPARE = re.compile(
    rf"^  (?P<to>%{_NAME}) = cmpxchg (?:weak )?(?:volatile )?ptr addrspace\({GLOBAL}\) (?P<at>[^,]+), "
    rf"(?P<type>\w+) (?P<compare>{_VALUE}), \w+ (?P<value>{_VALUE}) .*$",
    re.MULTILINE,
)
_IMPLICIT_POINTER = re.compile(r"(?:tail )?call [^@\n]*@llvm\.r600\.implicitarg\.ptr\(\)[^\n]*")
_IMPLICIT_LOAD = re.compile(
    rf"^(  %{_NAME} = )load i32, (ptr addrspace\({IMPLICIT}\) %{_NAME}), align \d+[^\n]*$", re.MULTILINE
)
_FENCE = re.compile(r"^  fence [^\n]*$", re.MULTILINE)
_VARIABLE = re.compile(rf"^@(?P<name>{_NAME}) = [^\n]*?addrspace\((?P<space>[14])\) (?:constant|global) (?P<rest>[^\n]*)$", re.MULTILINE)  # fmt: skip
_TYPE = re.compile(rf"^%{_NAME} = type [^\n]*$", re.MULTILINE)
_REQUIRED = re.compile(r"!reqd_work_group_size (![0-9]+)")
_RMW = {"xchg": "exch", "min": "smin", "max": "smax", "uinc_wrap": "inc", "udec_wrap": "dec"}

HELPERS = f"""
define linkonce_odr i32 @ww.implicit(ptr addrspace({IMPLICIT}) %p) alwaysinline {{
  %at = ptrtoint ptr addrspace({IMPLICIT}) %p to i32
  %first = icmp eq i32 %at, {IMPLICIT_BASE}
  %sy = call i32 @llvm.r600.read.global.size.y()
  %sz = call i32 @llvm.r600.read.global.size.z()
  %flat = icmp ule i32 %sz, 1
  %line = icmp ule i32 %sy, 1
  %few = select i1 %line, i32 1, i32 2
  %dimensions = select i1 %flat, i32 %few, i32 3
  %found = select i1 %first, i32 %dimensions, i32 0
  ret i32 %found
}}
define linkonce_odr i32 @ww.slot() alwaysinline {{
  %gx = call i32 @llvm.r600.read.tgid.x()
  %gy = call i32 @llvm.r600.read.tgid.y()
  %gz = call i32 @llvm.r600.read.tgid.z()
  %nx = call i32 @llvm.r600.read.ngroups.x()
  %ny = call i32 @llvm.r600.read.ngroups.y()
  %lx = call i32 @llvm.r600.read.local.size.x()
  %ly = call i32 @llvm.r600.read.local.size.y()
  %lz = call i32 @llvm.r600.read.local.size.z()
  %tx = call i32 @llvm.r600.read.tidig.x()
  %ty = call i32 @llvm.r600.read.tidig.y()
  %tz = call i32 @llvm.r600.read.tidig.z()
  %a = mul i32 %gz, %ny
  %b = add i32 %a, %gy
  %c = mul i32 %b, %nx
  %group = add i32 %c, %gx
  %d = mul i32 %lx, %ly
  %size = mul i32 %d, %lz
  %e = mul i32 %group, %size
  %f = mul i32 %tz, %ly
  %g = add i32 %f, %ty
  %h = mul i32 %g, %lx
  %thread = add i32 %h, %tx
  %slot = add i32 %e, %thread
  ret i32 %slot
}}
define linkonce_odr void @ww.fence() alwaysinline {{
  ret void
}}
declare void @llvm.r600.rat.store.typed(<4 x i32>, <4 x i32>, i32)
"""
FENCES = {
    **dict.fromkeys(("_Z9mem_fencej", "_Z14read_mem_fencej", "_Z15write_mem_fencej"), 1),
    "_Z22atomic_work_item_fencej12memory_order12memory_scope": 3,
}
"""``mem_fence`` and related functions with their number of arguments, which libclc lacks for these chips; a thread's accesses stay in order anyway."""
_READ = ("tgid", "ngroups", "local.size", "tidig", "global.size")
_CHANGE = f"""
define linkonce_odr i32 @ww.atomic.{{name}}(ptr addrspace({GLOBAL}) %p, i32 %value, i32 %compare) alwaysinline {{{{
  %at = ptrtoint ptr addrspace({GLOBAL}) %p to i32
  %word = lshr i32 %at, 2
  %slot = call i32 @ww.slot()
  %d0 = insertelement <4 x i32> poison, i32 %value, i32 0
  %d1 = insertelement <4 x i32> %d0, i32 %slot, i32 1
  %d2 = insertelement <4 x i32> %d1, i32 %compare, i32 2
  %d3 = insertelement <4 x i32> %d2, i32 %compare, i32 3
  %i0 = insertelement <4 x i32> poison, i32 %word, i32 0
  call void @llvm.r600.rat.store.typed(<4 x i32> %d3, <4 x i32> %i0, i32 {{number}})
  %offset = shl i32 %slot, 2
  %place = or disjoint i32 %offset, {RETURNS_AT}
  %q = inttoptr i32 %place to ptr addrspace({IMPLICIT})
  %old = load i32, ptr addrspace({IMPLICIT}) %q
  ret i32 %old
}}}}
"""


@dataclass(frozen=True, slots=True)
class OpenClParameter:
    """A kernel's parameter."""

    name: str
    type: str
    """Type in LLVM IR."""
    space: int
    """Address space of a pointer; 0 if it is not a pointer, or a pointer to private memory."""
    size_bytes: int
    align_bytes: int
    special: ImageParameter | SamplerParameter | None = None
    """What it is if it is an image or a sampler."""

    @property
    def is_local(self) -> bool:
        return self.space == SHARED

    @property
    def declared(self) -> str:
        """The parameter's declaration in PTX."""
        if self.is_local or isinstance(self.special, SamplerParameter):
            return f".param .u32 {self.name}"
        if self.space and self.special is None:
            return f".param .u64 .ptr .global .align 1 {self.name}"
        scalar = {"i8": "u8", "i16": "u16", "i32": "u32", "i64": "u64", "float": "f32", "half": "b16"}.get(self.type)
        if scalar is not None:
            return f".param .{scalar} {self.name}"
        return f".param .align {self.align_bytes} .b8 {self.name}[{self.size_bytes}]"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's machine code."""

    program: R600Program
    code: bytes
    ir: str


def ptx_name(name: str) -> str:
    """A variable's name in PTX; names of function-scope variables contain a dot in LLVM IR."""
    return name.replace(".", "$")


class OpenClProgram:
    """A program of OpenCL C: its kernels and its variables."""

    def __init__(self, bitcode: bytes, generation: str, name: str) -> None:
        self.generation, self.name = generation, name
        self.module = llvm.parse_bitcode(bitcode)
        self.parameters: dict[str, tuple[OpenClParameter, ...]] = {}
        self.required_block: dict[str, tuple[int, ...]] = {}
        text = str(self.module)
        data = llvm.create_target_data(self.module.data_layout)
        for function in self.module.functions:
            if function.is_declaration:
                continue
            head = re.search(rf"^define [^\n]*@{re.escape(function.name)}\([^\n]*$", text, re.MULTILINE)
            if head is not None and "amdgpu_kernel" in head[0]:
                special = _special(function.name, head[0], text, MOST_LEVELS if reads_levels(text) else 1)
                self.parameters[function.name] = tuple(self._parameters(function, data, special))
                self._required(function.name, head[0], text)
            function.linkage = "linkonce_odr"
            function.add_function_attribute("alwaysinline")
        self.text = str(self.module)

    def _required(self, kernel: str, head: str, text: str) -> None:
        named = _REQUIRED.search(head)
        if named is not None:
            extents = re.search(rf"^{named[1]} = !\{{([^}}]*)\}}", text, re.MULTILINE)
            if extents is not None:
                self.required_block[kernel] = tuple(int(n) for n in re.findall(r"i32 (\d+)", extents[1]))

    def _parameters(
        self, function: llvm.ValueRef, data: llvm.TargetData, special: Mapping[int, ImageParameter | SamplerParameter]
    ) -> list[OpenClParameter]:
        found = []
        for n, argument in enumerate(function.arguments):
            type = str(argument.type).partition(" = type ")[0]
            space = re.match(r"ptr addrspace\((\d)\)", type)
            where = f"kernel {function.name}: parameter {argument.name or n}"
            if type == "double":
                raise UnsupportedError(f"{where}: LLVM's R600 back end has no double precision")
            name = re.sub(r"\W", "_", argument.name) or f"p{n}"
            if n in special:
                one = special[n]
                size, align = 4, 4
                if isinstance(one, ImageParameter):
                    size, align = IMAGE_RECORD_BYTES * one.records, POINTER_BYTES
                found.append(OpenClParameter(name, type, CONSTANT, size, align, one))
                continue
            found.append(
                OpenClParameter(
                    name,
                    type,
                    int(space[1]) if space else 0,
                    POINTER_BYTES if space else data.get_abi_size(argument.type),
                    POINTER_BYTES if space else data.get_abi_alignment(argument.type),
                )
            )
        return found

    @property
    def declarations(self) -> str:
        """Declarations of the variables and kernels in PTX, without code."""
        found = [
            f".visible .global .align {VARIABLE_ALIGN_BYTES} .b8 {ptx_name(name)}[{len(contents)}] "
            f"= {{{', '.join(map(str, contents))}}};\n"
            for name, contents in self.variables.items()
        ]
        for kernel, parameters in self.parameters.items():
            listed = ", ".join(p.declared for p in parameters)
            extents = self.required_block.get(kernel)
            limit = f".reqntid {', '.join(map(str, extents))}\n" if extents else ""
            found.append(f".visible .entry {kernel}({listed})\n{limit}{{\nret;\n}}\n")
        return "".join(found)

    @cached_property
    def variables(self) -> dict[str, bytes]:
        """The initial contents of the program-scope variables."""
        types = "\n".join(_TYPE.findall(self.text))
        lines = [f"@{m['name']} = addrspace({GLOBAL}) global {m['rest']}" for m in _VARIABLE.finditer(self.text)]
        return variable_images(f"{types}\n" + "\n".join(lines), self.generation) if lines else {}

    def compile(self, kernel: str, parameters: Sequence[Parameter], addresses: Mapping[str, int]) -> Compiled:
        """Compile one kernel.

        Args:
            parameters: offsets at which a launch passes the arguments.
            addresses: device address of each variable.

        Raises:
            UnsupportedError: naming the kernel and what LLVM's back end cannot compile.
        """
        helpers, operations = self.helpers(addresses)
        listed = self.parameters[kernel]
        special = {n: p.special for n, p in enumerate(listed) if p.special is not None}
        assumed = assumed_bindings(special)
        self._check(kernel, helpers, len(operations), assumed)
        made, text = self._compiled(kernel, parameters, 0, helpers)
        if made.local_bytes and any(p.is_local for p in listed):
            made, text = self._compiled(kernel, parameters, -(-made.local_bytes // 16) * 16, helpers)
        code = finished(made.code, self.generation, operations, list(assumed.returns.values()))
        program = program_from_code(code, self.generation, kernel, images=assumed if special else None)
        program.parameters = list(parameters)
        program.parameter_base_bytes = ENGINE_PARAMETERS_AT
        program.parameter_size_bytes = max((p.offset_bytes + p.size_bytes for p in parameters), default=0)
        program.registers = max(made.registers, 1)
        program.shared_static_bytes = made.local_bytes
        program.barriers = 1
        return Compiled(program, code, f"{text}\n{helpers}")

    def _check(self, kernel: str, helpers: str, operations: int, images: Bindings) -> None:
        """Refuse a kernel with a function on images that is not implemented, or with more kinds of typed stores than LLVM can number."""
        name = refused(helpers, kernel)
        if name:
            raise UnsupportedError(f"kernel {kernel} of {self.name}: {name} has no meaning on Cypress and Cayman here")
        reads = max(images.returns.values(), default=0)
        if operations + len(images.targets) + reads > MOST_STORES:
            read = f", up to the {reads}. of them also read" if reads else ""
            raise UnsupportedError(
                f"kernel {kernel} of {self.name}: {operations} kinds of atomics in the program and {len(images.targets)} written images{read}: together at most {MOST_STORES}"
            )

    def _compiled(
        self, kernel: str, parameters: Sequence[Parameter], local_base: int, helpers: str
    ) -> tuple[ObjectCode, str]:
        text = self.entry(kernel, parameters, local_base)
        try:
            return compile_ir(text, helpers, self.generation), text
        except UnsupportedError as error:
            raise UnsupportedError(f"kernel {kernel} of {self.name} ({self.generation}): {error}") from None

    # --- text -------------------------------------------------------------------------------------------------
    def helpers(self, addresses: Mapping[str, int]) -> tuple[str, tuple[str, ...]]:
        """Clang's module, with everything replaced that the back end or a launch does not support; the atomics that typed stores stand for, by number."""
        text = re.sub(r"^target [^\n]*$", "", self.text, flags=re.MULTILINE)
        text = text.replace("amdgpu_kernel ", "")
        text = _VARIABLE.sub("", text)
        for name, address in addresses.items():
            place = f"inttoptr (i32 {address & 0xFFFFFFFF} to ptr addrspace({GLOBAL}))"
            text = re.sub(rf"@{re.escape(name)}(?![\w.$-])", place, text)
        text = text.replace(f"addrspace({CONSTANT})", f"addrspace({GLOBAL})")
        used: set[str] = set()
        text = _ATOMIC.sub(lambda m: _change(m, used), text)
        text = _COMPARE.sub(lambda m: _change(m, used), text)
        text = _IMPLICIT_POINTER.sub(f"inttoptr i32 {IMPLICIT_BASE} to ptr addrspace({IMPLICIT})", text)
        text = _IMPLICIT_LOAD.sub(r"\1call i32 @ww.implicit(\2)", text)
        text = _FENCE.sub("  call void @ww.fence()", text)
        for name, count in FENCES.items():
            line = f"define linkonce_odr void @{name}({', '.join(['i32'] * count)}) alwaysinline {{\n  ret void\n}}"
            text = re.sub(rf"^declare [^\n]*@{name}\([^\n]*$", line, text, flags=re.MULTILINE)
        # "noinline" and "optnone" together with "alwaysinline" are an error; "target-features" are those of clang's target.
        text = re.sub(r"^(attributes #\d+ = \{.*?)\b(noinline|optnone)\b", r"\1", text, flags=re.MULTILINE)
        operations = tuple(sorted(used))
        added = "".join(_CHANGE.format(name=name, number=n) for n, name in enumerate(operations))
        text = with_images(text, len(operations))
        declared = [f"declare i32 @llvm.r600.read.{r}.{axis}()" for r in _READ for axis in "xyz"]
        fresh = [line for line in declared if line.partition("@")[2] not in text]
        return "\n".join((text, HELPERS, added, *fresh, "")), operations

    def entry(self, kernel: str, parameters: Sequence[Parameter], local_base: int) -> str:
        """The kernel that takes words and calls clang's kernel."""
        lines: list[str] = []
        arguments = []
        local = str(local_base)
        words = -(-max((p.offset_bytes + p.size_bytes for p in parameters), default=0) // 4)
        for n, (placed, parameter) in enumerate(zip(parameters, self.parameters[kernel], strict=True)):
            first = placed.offset_bytes // 4
            value = f"%argument{n}"
            if parameter.special is not None:
                handle = parameter.special.handle(placed.offset_bytes)
                lines.append(f"  {value} = inttoptr i32 {handle} to ptr addrspace({GLOBAL})")
            elif parameter.is_local:
                lines.append(f"  {value} = inttoptr i32 {local} to {parameter.type}")
                lines += [
                    f"  %padded{n} = add i32 %parameter{first}, {LOCAL_ALIGN_BYTES - 1}",
                    f"  %whole{n} = and i32 %padded{n}, -{LOCAL_ALIGN_BYTES}",
                    f"  %end{n} = add i32 {local}, %whole{n}",
                ]
                local = f"%end{n}"
            elif parameter.space:
                lines.append(f"  {value} = inttoptr i32 %parameter{first} to ptr addrspace({GLOBAL})")
            else:
                lines += _from_words(n, placed, parameter)
            type = f"ptr addrspace({GLOBAL})" if parameter.space == CONSTANT else parameter.type
            arguments.append(f"{type} {value}")
        types = ", ".join(a.rpartition(" ")[0] for a in arguments)
        listed = ", ".join(f"i32 %parameter{n}" for n in range(words))
        return "\n".join(
            (
                f'target triple = "{TRIPLE}"',
                *_TYPE.findall(self.text),
                f"declare void @{kernel}({types})",
                f"define amdgpu_kernel void @ww.kernel({listed}) {{",
                *lines,
                f"  call void @{kernel}({', '.join(arguments)})",
                "  ret void",
                "}",
                "",
            )
        )


def _special(kernel: str, head: str, text: str, records: int) -> dict[int, ImageParameter | SamplerParameter]:
    """The images and samplers among a kernel's parameters, by position, from the metadata of its definition."""
    listed = []
    for name in ("kernel_arg_base_type", "kernel_arg_access_qual"):
        node = re.search(rf"!{name} (![0-9]+)", head)
        words = re.search(rf"^{node[1]} = !\{{([^}}]*)\}}", text, re.MULTILINE) if node is not None else None
        listed.append(re.findall(r'!"([^"]*)"', words[1]) if words is not None else [])
    return special_parameters(listed[0], listed[1], f"kernel {kernel}", records)


def _change(match: re.Match[str], used: set[str]) -> str:
    """A call that replaces an atomic on global memory.

    Raises:
        UnsupportedError: if the chip has no such atomic.
    """
    groups = match.groupdict()
    name = _RMW.get(groups.get("name") or "", groups.get("name") or "cas")
    to, value = groups["to"], groups["value"]
    own = f"%ww.{to[1:].strip(chr(34))}"
    before = ""
    if name == "sub":
        before, value, name = f"  {own}.negative = sub i32 0, {value}\n", f"{own}.negative", "add"
    if groups["type"] != "i32" or name not in GLOBAL_ATOMICS:
        raise UnsupportedError(f"atomic {name} of {groups['type']} on global memory: the chip has none")
    used.add(name)
    call = f"call i32 @ww.atomic.{name}(ptr addrspace({GLOBAL}) {groups['at']}, i32 {value}, i32 {groups.get('compare') or 0})"
    if name != "cas":
        return f"{before}  {to} = {call}"
    return "\n".join(
        (
            f"  {own}.old = {call}",
            f"  {own}.equal = icmp eq i32 {own}.old, {groups['compare']}",
            f"  {own}.pair = insertvalue {{ i32, i1 }} poison, i32 {own}.old, 0",
            f"  {to} = insertvalue {{ i32, i1 }} {own}.pair, i1 {own}.equal, 1",
        )
    )


def _from_words(n: int, placed: Parameter, parameter: OpenClParameter) -> list[str]:
    """The lines that assemble an argument from the launch's words."""
    first, value = placed.offset_bytes // 4, f"%argument{n}"
    if parameter.type in ("i32", "float") and placed.offset_bytes % 4 == 0:
        return [f"  {value} = bitcast i32 %parameter{first} to {parameter.type}"]
    if parameter.size_bytes < 4:
        bits = 8 * parameter.size_bytes
        lines = [
            f"  %moved{n} = lshr i32 %parameter{first}, {placed.offset_bytes % 4 * 8}",
            f"  %short{n} = trunc i32 %moved{n} to i{bits}",
        ]
        return [*lines, f"  {value} = bitcast i{bits} %short{n} to {parameter.type}"]
    words = -(-parameter.size_bytes // 4)
    lines = [f"  %place{n} = alloca [{words} x i32], align 16, addrspace(5)"]
    for k in range(words):
        lines.append(f"  %word{n}.{k} = getelementptr [{words} x i32], ptr addrspace(5) %place{n}, i32 0, i32 {k}")
        lines.append(f"  store i32 %parameter{first + k}, ptr addrspace(5) %word{n}.{k}")
    return [*lines, f"  {value} = load {parameter.type}, ptr addrspace(5) %place{n}"]
