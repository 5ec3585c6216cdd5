"""A module for compute capability 1.x on one device: PTX whose kernels are assembled to NV50 machine code on loading."""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.engine.machine_code_module import MachineCodeModule
from warpwright.engine.ptx_module import symbols_of
from warpwright.errors import UnsupportedError
from warpwright.isa.nv50.assembler.from_ptx import Assembled, assemble_kernel
from warpwright.isa.ptx.meaning import UnsupportedInstruction
from warpwright.toolchain import Kernel as CubinKernel


@dataclass(slots=True)
class Nv50Module(MachineCodeModule):
    """PTX on a device of compute capability 1.x."""

    def make(self, kernel: CubinKernel) -> Assembled:
        """Assemble a kernel.

        Raises:
            UnsupportedError: naming line and text of an instruction without an equivalent on the chip.
        """
        try:
            return assemble_kernel(self.text, kernel.name, self.arch, symbols_of(self), self.compiled.name)
        except UnsupportedInstruction as error:
            raise UnsupportedError(str(error)) from None
