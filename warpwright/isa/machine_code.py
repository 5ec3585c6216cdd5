"""Machine code of any chip: selects the front end by architecture.

sm_70 to sm_90 have 128-bit encodings (``isa.sass``), sm_60 to sm_62 64-bit ones (``isa.maxwell``), sm_10 to sm_13 words of 32 and
64 bits (``isa.nv50``).  Below them are the generations of AMD's chips (``isa.r600``).  All but the first are imported by the first
program that needs them, because their tables take as long to import as the rest of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from warpwright.isa.ops import Lowered
from warpwright.isa.program import Instruction, Program
from warpwright.isa.sass.load import program_from_cubin as wide_program
from warpwright.isa.sass.lower import lower as lower_wide
from warpwright.isa.sass.schedule import from_control_bits
from warpwright.isa.sass.schedule import work_of as work_of_sass
from warpwright.isa.sass.text import format_instruction as sass_text
from warpwright.isa.schedule import Issue, UnknownTiming, Work
from warpwright.isa.scoreboard import Block, from_scoreboard
from warpwright.toolchain.cubin import Kernel, Module
from warpwright.toolchain.relocation import Image

FIRST_NV50 = 10
"""The first architecture of NVIDIA's chips; those below are AMD's."""
FIRST_WIDE = 70
"""The first architecture with 128-bit encodings."""
FIRST_FERMI = 20
"""The first architecture after NV50; its own machine code is not decoded."""
FIRST_MAXWELL = 50
"""The first with 64-bit encodings and control words."""


def program_from_cubin(
    module: Module,
    kernel: str | Kernel,
    image: Image | None = None,
    bases: Mapping[str, int] | None = None,
    source: str | None = None,
    services: Mapping[str, int] | None = None,
    routines: Mapping[str, tuple[int, bytes]] | None = None,
) -> Program:
    """Decode a kernel of a module; arguments and errors as :func:`warpwright.isa.sass.load.program_from_cubin`."""
    found = kernel if isinstance(kernel, Kernel) else module.find(kernel)
    if found.arch >= FIRST_WIDE:
        return wide_program(module, found, image, bases, source, services, routines)
    from warpwright.isa.maxwell.load import program_from_cubin as narrow_program

    return narrow_program(module, found, image, bases, source, services, routines)


def lower(program: Program) -> list[Lowered]:
    """The meaning of every instruction of a program, in order.

    Raises:
        UnsupportedInstruction: naming kernel, address, text and chip.
    """
    if program.meaning is not None:
        return program.meaning
    if program.arch >= FIRST_WIDE:
        return lower_wide(program)
    if program.arch < FIRST_NV50:
        from warpwright.isa.r600.load import R600Program
        from warpwright.isa.r600.lower import lower as lower_r600

        assert isinstance(program, R600Program), program.name
        return lower_r600(program)
    if program.arch < FIRST_FERMI:
        from warpwright.isa.nv50.lower import lower as lower_nv50

        return lower_nv50(program)
    from warpwright.isa.maxwell.lower import lower as lower_narrow

    return lower_narrow(program)


def work_of(program: Program) -> Callable[[Instruction], Work]:
    """The table from a program's instructions to the units that execute them."""
    if program.work is not None:
        return program.work
    if program.arch >= FIRST_FERMI:
        return work_of_sass
    if program.arch < FIRST_NV50:
        from warpwright.isa.r600.schedule import work_of as work_of_r600

        return work_of_r600
    from warpwright.isa.nv50.schedule import work_of as work_of_nv50

    return work_of_nv50


def text_of(program: Program, instruction: Instruction) -> str:
    """An instruction as disassemblers of its architecture print it."""
    if program.arch < FIRST_NV50:
        return instruction.operands[0].name or instruction.opcode
    if program.arch < FIRST_FERMI:
        from warpwright.isa.nv50.text import format_instruction as nv50_text

        return nv50_text(instruction, program.arch)
    return sass_text(instruction)


def schedule(program: Program, lowered: Sequence[Lowered], blocks: Sequence[Block]) -> list[Issue]:
    """Returns when each instruction of a program may issue and what it needs from the SM, derived from its control bits
    or from a scoreboard.

    Args:
        blocks: the program's basic blocks, with the numbers of those that may follow each.

    Raises:
        UnknownTiming: an instruction has no timing row; the message names kernel, architecture, text and address.
    """
    try:
        if program.arch < FIRST_NV50:
            from warpwright.isa.r600.load import R600Program
            from warpwright.isa.r600.schedule import from_clauses

            assert isinstance(program, R600Program), program.name
            return from_clauses(program)
        if program.control_bits:
            return from_control_bits(program, lowered, work_of(program))
        return from_scoreboard(program, lowered, blocks, work_of(program))
    except UnknownTiming as error:
        raise UnknownTiming(f"kernel {program.name} ({program.architecture}): {error}") from None


__all__ = ["lower", "program_from_cubin", "schedule", "text_of", "work_of"]
