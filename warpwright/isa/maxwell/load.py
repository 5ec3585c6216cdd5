"""Loads a cubin of sm_50 to sm_62 into a :class:`~warpwright.isa.program.Program`.

The counterpart of :mod:`warpwright.isa.sass.load`: the kernel's section comes first, followed by the sections of device
functions. Instructions keep their addresses, which include the control words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from warpwright.isa.maxwell.decode import decode_section, landing
from warpwright.isa.program import Instruction, Kind, Program
from warpwright.isa.sass.load import places_of, program_of
from warpwright.toolchain.cubin import Kernel, Module
from warpwright.toolchain.relocation import Image


def program_from_cubin(
    module: Module,
    kernel: str | Kernel,
    image: Image | None = None,
    bases: Mapping[str, int] | None = None,
    source: str | None = None,
    services: Mapping[str, int] | None = None,
    routines: Mapping[str, tuple[int, bytes]] | None = None,
) -> Program:
    """Decode ``kernel`` of ``module`` and everything it calls; arguments and errors as for the 128-bit encodings."""
    found, image, bases, code_base = places_of(module, kernel, image, bases)
    instructions: list[Instruction] = []
    for section, base in bases.items():
        start = base - code_base
        made = decode_section(image.code[section], found.arch, start)
        lines = module.line_tables.get(section)
        if lines is not None:
            made = [replace(i, line=lines.user_line(i.address - start)) for i in made]
        instructions += made
    provided = [*(services or {}).values(), *(address for address, _ in (routines or {}).values())]
    end = max([i.address for i in instructions] + [at - code_base for at in provided], default=0)
    instructions = [_absolute_targets(i, code_base, end) for i in instructions]
    # A function begins after its first control word; calls land there.
    instructions += [
        Instruction(landing(address - code_base), "SERVICE", (name,), ()) for name, address in (services or {}).items()
    ]
    for address, code in (routines or {}).values():
        instructions += decode_section(code, found.arch, address - code_base)
    starts = {bases[f.section] - code_base + f.offset for f in module.functions.values() if f.section in bases}
    program = program_of(found, image, instructions, starts, code_base, source, tuple(services or ()))
    program.functions = tuple(sorted(landing(at) for at in (*starts, *(address - code_base for address in provided))))
    return program


def _absolute_targets(instruction: Instruction, code_base: int, end: int) -> Instruction:
    """Virtual addresses of JCAL and JMP as offsets within the program."""
    if instruction.opcode not in ("JCAL", "JMP"):
        return instruction
    operands = tuple(
        replace(o, value=landing(o.value - code_base))
        if o.kind is Kind.LABEL and code_base <= o.value <= code_base + end
        else o
        for o in instruction.operands
    )
    return replace(instruction, operands=operands)
