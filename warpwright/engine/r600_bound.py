"""A module of one compute program that a graphics driver compiled for Cypress or Cayman, with its bindings."""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.machine_code_module import MachineCodeModule
from warpwright.engine.ptx_module import load_ptx
from warpwright.engine.r600_module import GENERATION_OF
from warpwright.errors import UnsupportedError
from warpwright.isa.program import Parameter
from warpwright.isa.r600.bindings import Bindings
from warpwright.isa.r600.fields import UndefinedWord
from warpwright.isa.r600.load import R600Program, program_from_code
from warpwright.isa.sass.meaning import UnsupportedInstruction
from warpwright.toolchain.cubin import Kernel as CubinKernel


@dataclass(frozen=True, slots=True)
class ComputeProgram:
    """Machine code as passed by a driver."""

    name: str
    code: bytes
    bindings: Bindings
    registers: int
    shared_bytes: int
    share_address: int
    """Device address of global data share."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A program with its machine code."""

    program: R600Program
    code: bytes


@dataclass(slots=True)
class R600BoundModule(MachineCodeModule):
    """One such program, created by :func:`load_bound`."""

    made: ComputeProgram | None = None

    @property
    def source(self) -> None:
        """The driver passes no source lines."""
        return

    def make(self, kernel: CubinKernel) -> Decoded:
        """Decode the program.

        Raises:
            UnsupportedError: naming what is not implemented for compute programs.
        """
        made, generation = self.made, GENERATION_OF[self.arch]
        assert made is not None
        try:
            program = program_from_code(made.code, generation, made.name, made.bindings)
        except (UnsupportedInstruction, UndefinedWord) as error:
            raise UnsupportedError(f"{made.name} ({generation}): {error}") from None
        program.parameters = [Parameter(p.ordinal, p.offset_bytes, p.size_bytes) for p in kernel.parameters]
        program.parameter_size_bytes = kernel.parameter_size_bytes
        program.registers = made.registers
        program.shared_static_bytes = made.shared_bytes
        program.barriers = 1
        program.global_share_address = made.share_address
        return Decoded(program, made.code)


def load_bound(made: ComputeProgram, arch: int, memory: DeviceMemory) -> R600BoundModule:
    """The module of a program."""
    words = f".param .align 8 .b8 bindings[{max(8, made.bindings.size_bytes)}]"
    text = f".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry {made.name}({words})\n{{\nret;\n}}\n"
    module = R600BoundModule.of(load_ptx(text, arch, memory, f"{made.name}.r600"))
    module.made = made
    return module
