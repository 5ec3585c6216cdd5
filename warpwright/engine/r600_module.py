"""A module for Cypress or Cayman on one device: PTX whose kernels are compiled to R600 machine code on loading."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpwright.chips.chip import GENERATIONS
from warpwright.engine.machine_code_module import MachineCodeModule
from warpwright.engine.ptx_module import symbols_of
from warpwright.errors import UnsupportedError
from warpwright.isa.ptx.meaning import UnsupportedInstruction
from warpwright.isa.r600.compiler.from_ptx import Compiled, compile_kernel
from warpwright.isa.r600.fields import UndefinedWord
from warpwright.isa.sass.meaning import UnsupportedInstruction as UnsupportedMeaning
from warpwright.toolchain import Kernel as CubinKernel

GENERATION_OF = {number: name for name, number in GENERATIONS.items()}


@dataclass(slots=True)
class R600Module(MachineCodeModule):
    """PTX on an AMD chip."""

    ir: dict[str, str] = field(default_factory=dict)
    """LLVM IR of the kernels loaded so far."""

    def make(self, kernel: CubinKernel) -> Compiled:
        """Compile a kernel.

        Raises:
            UnsupportedError: naming line and text of what the chip or LLVM's back end has no equivalent of.
        """
        constants = self.constants.address if self.constants is not None else 0
        symbols, generation = symbols_of(self), GENERATION_OF[self.arch]
        try:
            made = compile_kernel(self.text, kernel.name, generation, symbols, constants, self.compiled.name)
        except (UnsupportedInstruction, UnsupportedMeaning, UndefinedWord) as error:
            raise UnsupportedError(str(error)) from None
        self.ir[kernel.name] = made.ir
        return made
