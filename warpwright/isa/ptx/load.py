"""Loads PTX text: from a kernel's text to its :class:`Program` and common operations."""

from __future__ import annotations

from collections.abc import Mapping

from warpwright.errors import KernelNotFoundError
from warpwright.isa.ptx.lower import Assembler, Lowering
from warpwright.isa.ptx.meaning import immediate_bits
from warpwright.isa.ptx.parser import parse
from warpwright.isa.ptx.stack_frames import align
from warpwright.isa.ptx.syntax import Function, Immediate, Module, Symbol, Variable


def program_from_ptx(
    text: str | Module, kernel: str, arch: int, symbols: Mapping[str, int] | None = None, name: str = "kernel.ptx"
) -> Lowering:
    """One kernel of a PTX module.

    Args:
        text: PTX text, or the module that :func:`~warpwright.isa.ptx.parser.parse` made of it.
        kernel: name of an ``.entry``.
        arch: compute capability times ten (70, 80, 90 …): determines where bank 0 holds parameters.
        symbols: device address of each ``.global`` variable and offset in constant bank 3 of each ``.const`` one;
            without it every global is at address 0, which suffices to inspect the code.
        name: name of the text in messages.

    Raises:
        PtxError: for text that is not PTX.
        KernelNotFoundError: for an unknown kernel.
        UnsupportedInstruction: naming kernel, line and text of an instruction without a meaning.
    """
    module = parse(text, name) if isinstance(text, str) else text
    function = find_kernel(module, kernel, name)
    if symbols is None:
        symbols = {**dict.fromkeys(global_variables(module), 0), **constant_layout(module)[0]}
    return Assembler(module, function, arch, symbols, name).assemble()


def find_kernel(module: Module, kernel: str, name: str) -> Function:
    """The entry point with that name.

    Raises:
        KernelNotFoundError: lists the module's entry points.
    """
    function = module.functions.get(module.aliases.get(kernel, kernel))
    if function is None or not function.is_kernel or not function.defined:
        listed = ", ".join(module.kernels) or "none"
        raise KernelNotFoundError(f"{name} has no kernel {kernel}; its kernels are: {listed}.")
    return function


def global_variables(module: Module) -> dict[str, Variable]:
    """Variables in global memory by name."""
    return {v.name: v for v in module.variables.values() if v.space == "global"}


def constant_layout(module: Module) -> tuple[dict[str, int], int]:
    """Offset of each ``.const`` variable in bank 3, and the bank's size."""
    places: dict[str, int] = {}
    offset = 0
    for variable in module.variables.values():
        if variable.space == "const":
            offset = align(offset, variable.align)
            places[variable.name] = offset
            offset += variable.size_bytes
    return places, offset


def initial_bytes(variable: Variable, address_of: Mapping[str, int]) -> bytes:
    """A variable's initial contents.

    Args:
        address_of: address of each variable or function that initialisers name, in its own state space; for
        ``generic(name)``, its generic address, under that name.
    """
    size = variable.element_bytes
    data = bytearray(variable.size_bytes)
    for n, value in enumerate(variable.initial):
        data[n * size : (n + 1) * size] = (element(value, variable.type, address_of) & ((1 << 8 * size) - 1)).to_bytes(
            size, "little"
        )
    return bytes(data)


def element(value: Immediate | Symbol, type: str, address_of: Mapping[str, int]) -> int:
    """The bits of one element."""
    if isinstance(value, Immediate):
        return immediate_bits(value, type)
    address = address_of.get(f"generic({value.name})" if value.generic else value.name, 0) + value.offset
    if value.mask:
        shift = (value.mask & -value.mask).bit_length() - 1
        return (address & value.mask) >> shift
    return address
