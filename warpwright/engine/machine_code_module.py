"""PTX whose kernels are compiled to machine code on loading, for chips that NVIDIA's tools do not support: NV50's
words, R600's clauses.

Global and constant variables are placed as for PTX; a kernel's machine code contains their addresses, so it is
generated once the module is on a device.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.module import LoadedKernel
from warpwright.engine.ptx_module import PtxModule, load_ptx
from warpwright.isa.program import Program
from warpwright.toolchain import CompiledModule
from warpwright.toolchain import Kernel as CubinKernel


class MachineCode(Protocol):
    """The result of an assembler or compiler for one kernel."""

    @property
    def program(self) -> Program: ...

    @property
    def code(self) -> bytes: ...


Self = TypeVar("Self", bound="MachineCodeModule")


@dataclass(slots=True)
class MachineCodeModule(PtxModule):
    """PTX on such a chip.  Make it with :meth:`of_ptx` or :meth:`of_compiled` of the chip's own class."""

    machine_code: dict[str, bytes] = field(default_factory=dict)
    """Machine code of the kernels loaded so far."""

    def make(self, kernel: CubinKernel) -> MachineCode:
        """A kernel's machine code.

        Raises:
            UnsupportedError: naming line and text of what the chip has no equivalent of.
        """
        raise AssertionError(f"{type(self).__name__} makes no machine code")

    def load(self, kernel: CubinKernel) -> LoadedKernel:
        """Generate a kernel's machine code, once; errors as for :meth:`make`."""
        if kernel.name in self._loaded:
            return self._loaded[kernel.name]
        made = self.make(kernel)
        made.program.source, made.program.source_name = self.source, self.source_name
        self.machine_code[kernel.name] = made.code
        return self.keep(kernel, made.program, {}, max_threads_per_block=made.program.max_threads_per_block)

    @classmethod
    def of(cls: type[Self], plain: PtxModule) -> Self:
        """A module of PTX whose kernels have not been loaded."""
        return cls(
            plain.compiled,
            plain.memory,
            plain.text,
            plain.arch,
            plain.variables,
            plain.constants,
            plain._constant_places,
            made_from=plain.made_from,
        )

    @classmethod
    def of_ptx(cls: type[Self], text: str, arch: int, memory: DeviceMemory, name: str) -> Self:
        """Read PTX and place its constant variables; arguments and errors as for :func:`~warpwright.engine.ptx_module.load_ptx`."""
        return cls.of(load_ptx(text, arch, memory, name))

    @classmethod
    def of_compiled(cls: type[Self], compiled: CompiledModule, arch: int, memory: DeviceMemory) -> Self:
        """The PTX of a module that was compiled for another chip."""
        assert compiled.ptx is not None
        names = (compiled.name, compiled.source, compiled.name, compiled.folder, compiled.lowered_names)
        loaded = cls.of(load_ptx(compiled.ptx, arch, memory, *names))
        loaded.compiled.warnings = compiled.warnings
        return loaded
