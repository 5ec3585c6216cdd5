"""A module for Cypress or Cayman on one device: PTX whose kernels are compiled to R600 machine code on loading.

Global and constant variables are placed as for PTX; a kernel's machine code holds their addresses, so that it is made when the module
is on a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from warpwright.chips.chip import GENERATIONS
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.module import LoadedKernel
from warpwright.engine.ptx_module import PtxModule, load_ptx, symbols_of
from warpwright.errors import UnsupportedError
from warpwright.isa.ptx.meaning import UnsupportedInstruction
from warpwright.isa.r600.compiler.from_ptx import compile_kernel
from warpwright.isa.r600.fields import UndefinedWord
from warpwright.isa.sass.meaning import UnsupportedInstruction as UnsupportedMeaning
from warpwright.toolchain import CompiledModule
from warpwright.toolchain.cubin import Kernel as CubinKernel

GENERATION_OF = {number: name for name, number in GENERATIONS.items()}


@dataclass(slots=True)
class R600Module(PtxModule):
    """PTX on a chip of AMD's.  Make it with :func:`load_r600`."""

    machine_code: dict[str, bytes] = field(default_factory=dict)
    """Words of the kernels loaded so far."""
    ir: dict[str, str] = field(default_factory=dict)
    """Their LLVM IR."""

    def load(self, kernel: CubinKernel) -> LoadedKernel:
        """Compile a kernel, once.

        Raises:
            UnsupportedError: naming line and text of what the chip or LLVM's back end has no equivalent of.
        """
        if kernel.name in self._loaded:
            return self._loaded[kernel.name]
        constants = self.constants.address if self.constants is not None else 0
        generation = GENERATION_OF[self.arch]
        try:
            made = compile_kernel(
                *(self.text, kernel.name, generation, symbols_of(self), constants), self.compiled.name
            )
        except (UnsupportedInstruction, UnsupportedMeaning, UndefinedWord) as error:
            raise UnsupportedError(str(error)) from None
        program = made.program
        program.source = self.compiled.source if self.text.files else self.compiled.ptx
        own = replace(
            kernel,
            registers=program.registers,
            barriers=program.barriers,
            shared_static_bytes=program.shared_static_bytes,
            max_threads_per_block=program.max_threads_per_block,
        )
        self.compiled.kernels[kernel.name] = own
        loaded = LoadedKernel(own, program, {}, {})
        self._loaded[kernel.name] = loaded
        self.machine_code[kernel.name] = made.code
        self.ir[kernel.name] = made.ir
        self._code[kernel.name] = {}
        return loaded


def load_r600(
    text: str,
    arch: int,
    memory: DeviceMemory,
    name: str = "kernel.ptx",
    source: str | None = None,
    source_name: str = "",
    lowered_names: Mapping[str, str] | None = None,
) -> R600Module:
    """Read PTX and place its constant variables; arguments and errors as for :func:`~warpwright.engine.ptx_module.load_ptx`."""
    plain = load_ptx(text, arch, memory, name, source, source_name, lowered_names)
    return R600Module(
        plain.compiled,
        plain.text,
        plain.arch,
        plain.memory,
        plain.variables,
        plain.constants,
        plain._constant_places,
    )


def load_r600_compiled(compiled: CompiledModule, arch: int, memory: DeviceMemory) -> R600Module:
    """The PTX of a module that was compiled for another chip, compiled for this one."""
    assert compiled.ptx is not None
    loaded = load_r600(
        compiled.ptx, arch, memory, compiled.name, compiled.source, compiled.name, compiled.lowered_names
    )
    loaded.compiled.warnings = compiled.warnings
    return loaded
