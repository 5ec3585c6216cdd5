"""A module for compute capability 1.x on one device: PTX whose kernels are assembled to NV50 machine code on loading.

Global and constant variables are placed as for PTX; a kernel's machine code holds their addresses, so that it is made when the module
is on a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.module import LoadedKernel
from warpwright.engine.ptx_module import PtxModule, load_ptx, symbols_of
from warpwright.errors import UnsupportedError
from warpwright.isa.nv50.assembler.from_ptx import assemble_kernel
from warpwright.isa.ptx.meaning import UnsupportedInstruction
from warpwright.toolchain import CompiledModule
from warpwright.toolchain import Kernel as CubinKernel


@dataclass(slots=True)
class Nv50Module(PtxModule):
    """PTX on a device of compute capability 1.x.  Make it with :func:`load_nv50`."""

    machine_code: dict[str, bytes] = field(default_factory=dict)
    """NV50 words of the kernels loaded so far."""

    def load(self, kernel: CubinKernel) -> LoadedKernel:
        """Assemble a kernel, once.

        Raises:
            UnsupportedError: naming line and text of what the chip has no equivalent of.
        """
        if kernel.name in self._loaded:
            return self._loaded[kernel.name]
        try:
            made = assemble_kernel(self.text, kernel.name, self.arch, symbols_of(self), self.compiled.name)
        except UnsupportedInstruction as error:
            raise UnsupportedError(str(error)) from None
        program = made.program
        program.source = self.compiled.source if self.text.files else self.compiled.ptx
        banks = {}
        if self.constants is not None:
            banks[3] = self.memory.view(self.constants.address, self.constants.size_bytes)
        own = replace(
            kernel,
            registers=program.registers,
            barriers=program.barriers,
            shared_static_bytes=program.shared_static_bytes,
            stack_bytes=program.local_bytes_per_thread,
            max_threads_per_block=program.max_threads_per_block,
        )
        self.compiled.kernels[kernel.name] = own
        loaded = LoadedKernel(own, program, banks, {})
        self._loaded[kernel.name] = loaded
        self.machine_code[kernel.name] = made.code
        self._code[kernel.name] = {}
        return loaded


def load_nv50(
    text: str,
    arch: int,
    memory: DeviceMemory,
    name: str = "kernel.ptx",
    source: str | None = None,
    source_name: str = "",
    lowered_names: Mapping[str, str] | None = None,
) -> Nv50Module:
    """Read PTX and place its constant variables; arguments and errors as for :func:`~warpwright.engine.ptx_module.load_ptx`."""
    plain = load_ptx(text, arch, memory, name, source, source_name, lowered_names)
    return Nv50Module(
        plain.compiled,
        plain.text,
        plain.arch,
        plain.memory,
        plain.variables,
        plain.constants,
        plain._constant_places,
    )


def load_nv50_compiled(compiled: CompiledModule, arch: int, memory: DeviceMemory) -> Nv50Module:
    """The PTX of a module that was compiled for a later chip, assembled for this one."""
    assert compiled.ptx is not None
    loaded = load_nv50(
        compiled.ptx, arch, memory, compiled.name, compiled.source, compiled.name, compiled.lowered_names
    )
    loaded.compiled.warnings = compiled.warnings
    return loaded
