"""Loads a cubin into a :class:`~warpwright.isa.program.Program`: every section that a kernel may run, relocated and decoded.

The kernel's own section is first, so its entry is offset 0; device functions in sections of
their own follow, each aligned as the loader would place it.  Relocations are resolved to these places, and
absolute call targets become byte offsets within the program like all other targets.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from warpwright.isa.dynamic_stack import stack_bytes
from warpwright.isa.program import RZ, URZ, Instruction, Kind, Parameter, Program
from warpwright.isa.sass.decode import WORD_BYTES, decode_section
from warpwright.isa.sass.service_calls import ADDRESS_BANK, resolve_calls
from warpwright.toolchain.cubin import CALL_RELOCATIONS, DEFAULT_STACK_BYTES, Kernel, Module
from warpwright.toolchain.relocation import Image, code_layout, relocate

_ADDRESSES = f".nv.constant{ADDRESS_BANK}"
NOP_WORD = 0x000FC000000000000000000000007918
"""Fills the space between sections."""
SLOW_PATH = re.compile(r"__internal_\d+_\$.*(slowpath|mediumpath|(div|rem)_[us]64)")
"""Names of functions that the compiler calls for argument values that its inline code does not handle."""


def _laid_out(
    module: Module,
    image: Image,
    bases: Mapping[str, int],
    code_base: int,
    arch: int,
    services: Mapping[str, int],
    routines: Mapping[str, tuple[int, bytes]],
) -> list[Instruction]:
    """Instructions of all sections at their addresses, followed by driver functions; NOPs fill the space between."""
    instructions: list[Instruction] = []
    for section, base in bases.items():
        start = base - code_base
        instructions += _nops(instructions, start, arch)
        instructions += _section(module, section, image.code[section], start, arch)
    for name, address in services.items():
        instructions += _nops(instructions, address - code_base, arch)
        instructions.append(Instruction(address - code_base, "SERVICE", (name,), ()))
    for address, code in routines.values():
        instructions += _nops(instructions, address - code_base, arch)
        instructions += decode_section(code, arch, address - code_base)
    return instructions


def program_from_cubin(
    module: Module,
    kernel: str | Kernel,
    image: Image | None = None,
    bases: Mapping[str, int] | None = None,
    source: str | None = None,
    services: Mapping[str, int] | None = None,
    routines: Mapping[str, tuple[int, bytes]] | None = None,
) -> Program:
    """Decode ``kernel`` of ``module`` with everything it calls.

    ``bases`` gives the virtual code address of every section to include, the kernel's own first and in ascending
    order (:func:`~warpwright.toolchain.relocation.code_layout`); ``image`` the sections' contents relocated to these
    places (:func:`~warpwright.toolchain.relocation.relocate`).  Without ``image`` every variable and driver function is
    at address 0, which suffices to inspect the code.  A call to a driver function is a ``LABEL`` with the function's
    name.

    ``services`` gives the code addresses, after all sections, of functions that the driver provides, one SERVICE each;
    ``routines`` gives, after these, addresses and machine code of functions that it provides as code.

    Raises :class:`~warpwright.isa.sass.decode.UnknownEncoding` for machine code outside the tables and
    :class:`~warpwright.errors.KernelNotFoundError` for an unknown kernel.
    """
    found, image, bases, code_base = places_of(module, kernel, image, bases)
    instructions = _laid_out(module, image, bases, code_base, found.arch, services or {}, routines or {})
    end = WORD_BYTES * len(instructions)
    externs = {
        bases[r.section] - code_base + r.offset: r.symbol
        for r in module.relocations
        if r.section in bases and not r.target_section
    }
    instructions = [_absolute_targets(i, code_base, end, externs) for i in instructions]
    serving = {name: address - code_base for name, address in (services or {}).items()}
    words = {r.offset: r.symbol for r in module.relocations if r.section == _ADDRESSES and r.symbol in serving}
    instructions, reached = resolve_calls(instructions, {at: name for name, at in serving.items()}, words)
    starts = {bases[f.section] - code_base + f.offset for f in module.functions.values() if f.section in bases}
    program = program_of(found, image, instructions, starts, code_base, source, tuple(services or ()))
    provided = {name: address - code_base for name, (address, _) in (routines or {}).items()}
    program.functions = tuple(sorted({*starts, *serving.values(), *provided.values()}))
    own = {bases[section] - code_base + offset for section, offset in module.addresses_taken() if section in bases}
    program.taken = frozenset(own | _driver_addresses_taken(module, provided, serving) | {serving[n] for n in reached})
    program.of_barriers = _in_barriers(module, {section: at - code_base for section, at in bases.items()}, instructions)
    program.slow_paths = tuple(
        (start, start + f.size)
        for f in module.functions.values()
        if f.section in bases and SLOW_PATH.search(f.name)
        for start in (bases[f.section] - code_base + f.offset,)
    )
    return program


def _in_barriers(module: Module, starts: Mapping[str, int], instructions: Collection[Instruction]) -> frozenset[int]:
    """Addresses of the code that implements ``cuda::barrier``; ``starts``: the sections' offsets in the code."""
    ranges = [
        range(starts[section] + part.start, starts[section] + part.stop)
        for section, table in module.line_tables.items()
        if section in starts
        for part in table.in_barriers()
    ]
    if not ranges:
        return frozenset()
    return frozenset(i.address for i in instructions if any(i.address in part for part in ranges))


def places_of(
    module: Module, kernel: str | Kernel, image: Image | None, bases: Mapping[str, int] | None
) -> tuple[Kernel, Image, Mapping[str, int], int]:
    """A kernel's record, the relocated sections, their code addresses, and the address of the kernel's own section."""
    found = kernel if isinstance(kernel, Kernel) else module.find(kernel)
    bases = code_layout(module, found.name) if bases is None else bases
    image = image_without_addresses(module, found.name, bases) if image is None else image
    return found, image, bases, bases[found.section]


def _driver_addresses_taken(module: Module, routines: Mapping[str, int], services: Mapping[str, int]) -> set[int]:
    """Names of driver functions whose addresses the code takes other than for a call."""
    taken = [r for r in module.relocations if r.type not in CALL_RELOCATIONS]
    return {routines[r.symbol] for r in taken if r.symbol in routines} | {
        services[r.symbol] for r in taken if r.symbol in services and r.section != _ADDRESSES
    }


def _nops(before: list[Instruction], until: int, arch: int) -> list[Instruction]:
    """NOPs that fill the code up to an offset."""
    start = WORD_BYTES * len(before)
    return decode_section(NOP_WORD.to_bytes(WORD_BYTES, "little") * ((until - start) // WORD_BYTES), arch, start)


def program_of(
    kernel: Kernel,
    image: Image,
    instructions: list[Instruction],
    starts: Collection[int],
    code_base: int,
    source: str | None,
    services: tuple[str, ...] = (),
) -> Program:
    """The program of decoded instructions, whose functions begin at ``starts``, with the kernel's attributes in the cubin."""
    return Program(
        name=kernel.name,
        arch=kernel.arch,
        instructions=instructions,
        parameters=[Parameter(p.ordinal, p.offset_bytes, p.size_bytes) for p in kernel.parameters],
        parameter_base_bytes=kernel.parameter_base_bytes,
        parameter_size_bytes=kernel.parameter_size_bytes,
        registers=kernel.registers,
        shared_static_bytes=kernel.shared_static_bytes,
        local_bytes_per_thread=stack_bytes(instructions, sorted(starts), kernel.stack_bytes, DEFAULT_STACK_BYTES),
        barriers=kernel.barriers,
        constant_banks=constants_of(kernel, image),
        max_threads_per_block=kernel.max_threads_per_block,
        source=source,
        warp_masks=warp_masks(kernel),
        services=services,
        code_base=code_base,
    )


_MASK_FILES = {0x05: ("reg", RZ), 0x0B: ("ureg", URZ)}
"""Register file of a mask's register by the upper byte of EIATTR_COOP_GROUP_MASK_REGIDS (nvJitLink 12.9: ``R`` and
``UR``), and the file's zero register."""


def warp_masks(kernel: Kernel) -> dict[int, tuple[str, int]]:
    """Registers of the masks of ``*_sync`` operations by byte address, where the cubin names them.

    Machine code omits the mask where the lanes are known to be converged; its register is recorded for tools.
    """
    if len(kernel.warp_offsets) != len(kernel.warp_masks):
        return {}
    found: dict[int, tuple[str, int]] = {}
    for offset, word in zip(kernel.warp_offsets, kernel.warp_masks, strict=True):
        file, zero = _MASK_FILES.get(word >> 24, ("", 0))
        if word & 0xFFFFFF < zero:
            found[offset] = file, word & 0xFFFFFF
    return found


def constants_of(kernel: Kernel, image: Image) -> dict[int, bytes]:
    """Contents of the constant banks that a kernel sees, relocated if there is an image."""
    banks = dict(kernel.constant_banks)
    for bank in banks:
        for name in (f".nv.constant{bank}.{kernel.name}", f".nv.constant{bank}"):
            if name in image.data:
                banks[bank] = image.data[name]
                break
    return banks


def image_without_addresses(module: Module, kernel: str, bases: Mapping[str, int]) -> Image:
    """Code and constant banks with every variable and driver function at address 0."""
    own = [r for r in module.relocations if r.section in bases or _is_bank_of(r.section, kernel)]
    addresses = dict.fromkeys((*module.variables, *module.data, *module.undefined), 0)
    return relocate(replace(module, relocations=own), addresses, bases)


def _is_bank_of(section: str, kernel: str) -> bool:
    """Whether a data section is a constant bank that ``kernel`` sees."""
    return section in (".nv.constant3", ".nv.constant4") or (
        section.startswith(".nv.constant") and section.endswith("." + kernel)
    )


def _section(module: Module, section: str, code: bytes, start: int, arch: int) -> list[Instruction]:
    """One section decoded at ``start``, with its source lines."""
    instructions = decode_section(code, arch, start)
    lines = module.line_tables.get(section)
    if lines is None:
        return instructions
    return [replace(i, line=lines.user_line(i.address - start)) for i in instructions]


def _absolute_targets(instruction: Instruction, code_base: int, end: int, externs: Mapping[int, str]) -> Instruction:
    """Turn virtual addresses of absolute targets (CALL.ABS, JMP) into offsets or names of driver functions."""
    if "ABS" not in instruction.modifiers and instruction.opcode != "JMP":
        return instruction
    operands = []
    for operand in instruction.operands:
        if operand.kind is Kind.LABEL:
            named = externs.get(instruction.address, "")
            if named and not code_base <= operand.value < code_base + end:
                operand = replace(operand, name=named)
            elif code_base <= operand.value < code_base + end:
                operand = replace(operand, value=operand.value - code_base)
        operands.append(operand)
    return replace(instruction, operands=tuple(operands))
