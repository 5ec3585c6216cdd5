"""A PTX module on one device; the counterpart of :class:`~warpwright.engine.module.LoadedModule`.

Each global variable is allocated when a kernel refers to it; constant variables share bank 3, as in compiled modules.
PTX has no reserved shared memory, so a block's shared memory begins at 0 on every chip.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.module import DeviceModule, LoadedKernel
from warpwright.errors import KernelNotFoundError, UnsupportedError
from warpwright.isa.bank0 import PARAMETER_BASE
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Program
from warpwright.isa.ptx.load import constant_layout, global_variables, initial_bytes, program_from_ptx
from warpwright.isa.ptx.meaning import UnsupportedInstruction
from warpwright.isa.ptx.parser import parse
from warpwright.isa.ptx.stack_frames import kernel_parameters
from warpwright.isa.ptx.syntax import Module as PtxText
from warpwright.isa.ptx.syntax import Symbol, Variable
from warpwright.toolchain import CompiledModule
from warpwright.toolchain import Kernel as CubinKernel
from warpwright.toolchain.cubin import KernelParameter, Module
from warpwright.toolchain.demangle import plain_name
from warpwright.toolchain.lines import own_name


@dataclass(slots=True)
class PtxModule(DeviceModule):
    """PTX on a device, created by :func:`load_ptx`.

    ``compiled`` has one record per kernel; the record's cubin may be empty.
    """

    text: PtxText
    arch: int
    variables: dict[str, Allocation] = field(default_factory=dict)
    constants: Allocation | None = None
    _constant_places: dict[str, int] = field(default_factory=dict)
    _loaded: dict[str, LoadedKernel] = field(default_factory=dict)
    _code: dict[str, dict[str, int]] = field(default_factory=dict)
    """Code addresses of functions, by kernel."""
    _prepared_for: str = ""
    made_from: str = ""
    """Name of the CUDA C++ text from which the PTX was compiled."""

    def place(self, name: str) -> Allocation:
        """The allocation of a global or constant variable, created on first use.

        Raises:
            KernelNotFoundError: lists the module's variables.
        """
        everything = self.text.variables
        if name not in everything or everything[name].space not in ("global", "const"):
            candidates = {plain_name(v): v for v, x in everything.items() if x.space in ("global", "const")}
            if name in candidates:
                return self.place(candidates[name])
            listed = ", ".join(sorted(v for v in candidates if "::" not in v)) or "none"
            raise KernelNotFoundError(
                f"{self.compiled.name} has no global variable called {name!r}; its variables: {listed}"
            )
        variable = everything[name]
        label = f"symbol '{plain_name(name)}'"
        if variable.space == "const":
            assert self.constants is not None
            return Allocation(self.constants.address + self._constant_places[name], variable.size_bytes, label)
        if name not in self.variables:
            if variable.linking == "extern" or variable.unsized:
                raise UnsupportedError(f"{self.compiled.name}: variable {name} is declared extern but defined nowhere")
            allocation = self.memory.allocate(max(1, variable.size_bytes), label)
            self.variables[name] = allocation
            # Allocated before its contents are computed, because they may point to it.
            self._write(variable, allocation.address, {})
        return self.variables[name]

    def _write(self, variable: Variable, address: int, code: Mapping[str, int]) -> None:
        """A variable's initial contents, with the addresses that they refer to."""
        if variable.size_bytes:
            contents = initial_bytes(variable, self._addresses(variable, code))
            self.memory.view(address, variable.size_bytes)[...] = np.frombuffer(contents, dtype=np.uint8)

    def _addresses(self, variable: Variable, code: Mapping[str, int]) -> dict[str, int]:
        named = {x.name for x in variable.initial if isinstance(x, Symbol)}
        found = {name: code[name] for name in named if name in code}
        for name in named & set(self.text.variables):
            address = self.place(name).address
            found[f"generic({name})"] = address
            found[name] = self._constant_places.get(name, address)
        return found

    def load(self, kernel: CubinKernel) -> LoadedKernel:
        """Lower a kernel, once.

        Raises:
            UnsupportedError: naming line and text of what this version does not execute.
        """
        if kernel.name in self._loaded:
            return self._loaded[kernel.name]
        symbols = symbols_of(self)
        try:
            lowering = program_from_ptx(self.text, kernel.name, self.arch, symbols, self.compiled.name)
        except UnsupportedInstruction as error:
            raise UnsupportedError(str(error)) from None
        lowering.program.source, lowering.program.source_name = self.source, self.source_name
        return self.keep(kernel, lowering.program, lowering.addresses, lowering.lowered)

    @property
    def source(self) -> str | None:
        """The text to which the kernels' lines refer."""
        return self.compiled.source if self.text.files else self.compiled.ptx

    @property
    def source_name(self) -> str:
        """The name of that text in the kernels' lines."""
        return self.made_from if self.text.files else self.compiled.name

    def keep(
        self,
        kernel: CubinKernel,
        program: Program,
        addresses: dict[str, int],
        lowered: list[Lowered] | None = None,
        max_threads_per_block: int | None = None,
    ) -> LoadedKernel:
        """Register a kernel's program and its resource usage.

        Args:
            addresses: code addresses of its functions.
            max_threads_per_block: the limit of its code; None for the limit in the text.
        """
        banks = {}
        if self.constants is not None:
            banks[3] = self.memory.view(self.constants.address, self.constants.size_bytes)
        own = replace(
            kernel,
            registers=program.registers,
            barriers=program.barriers,
            shared_static_bytes=program.shared_static_bytes,
            stack_bytes=program.local_bytes_per_thread,
            max_threads_per_block=max_threads_per_block or kernel.max_threads_per_block,
        )
        self.compiled.kernels[kernel.name] = own
        program.meaning = lowered
        loaded = LoadedKernel(own, program, banks, {}, lowered=lowered)
        self._loaded[kernel.name] = loaded
        self._code[kernel.name] = addresses
        return loaded

    def prepare(self, loaded: LoadedKernel) -> None:
        """Write the code addresses that variables hold as this kernel needs them: kernels differ in their layout."""
        if self._prepared_for == loaded.kernel.name:
            return
        self._prepared_for = loaded.kernel.name
        code = self._code[loaded.kernel.name]
        for name, variable in self.text.variables.items():
            if not any(isinstance(x, Symbol) and x.name in code for x in variable.initial):
                continue
            if name in self.variables:
                self._write(variable, self.variables[name].address, code)
            elif variable.space == "const" and self.constants is not None:
                self._write(variable, self.constants.address + self._constant_places[name], code)

    def unload(self) -> None:
        """Free what the module placed on the device."""
        for allocation in (*self.variables.values(), *([self.constants] if self.constants is not None else [])):
            if not allocation.freed:
                self.memory.free(allocation)


def symbols_of(module: PtxModule) -> Mapping[str, int]:
    """Addresses of a module's variables, placed on demand."""
    return _Symbols(module)


class _Symbols(Mapping[str, int]):
    """Addresses for the front end, placed on demand."""

    def __init__(self, module: PtxModule) -> None:
        self.module = module
        self.names = [*global_variables(module.text), *module._constant_places]

    def __getitem__(self, name: str) -> int:
        places = self.module._constant_places
        return places[name] if name in places else self.module.place(name).address

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def load_ptx(
    text: str,
    arch: int,
    memory: DeviceMemory,
    name: str = "kernel.ptx",
    source: str | None = None,
    source_name: str = "",
    source_folder: str = "",
    lowered_names: Mapping[str, str] | None = None,
) -> PtxModule:
    """Read PTX and place its constant variables.

    Args:
        arch: compute capability times ten of the chip it is to run on.
        name: what messages call the text.
        source: CUDA C++ text, when the PTX was made from it.
        source_name: what the compiler called that text.
        source_folder: where the compiler ran, which it puts before that name.
        lowered_names: symbol of each C++ name expression.

    Raises:
        PtxError: for text that is not PTX.
    """
    module = parse(text, name)
    for number, path in module.files.items():
        module.files[number] = own_name(path, source_name, source_folder)
    kernels = {k: _record(module, k, arch) for k in module.kernels}
    compiled = CompiledModule(
        Module(name, arch, False, kernels=kernels),
        b"",
        ptx=text,
        source=source,
        name=name,
        lowered_names=dict(lowered_names or {}),
        arch=str(arch),
    )
    loaded = PtxModule(compiled, memory, module, arch, made_from=source_name)
    loaded._constant_places, size = constant_layout(module)
    if size:
        loaded.constants = memory.allocate(size, f"constant memory of {name}")
        for variable_name, offset in loaded._constant_places.items():
            loaded._write(module.variables[variable_name], loaded.constants.address + offset, {})
    return loaded


def is_ptx(source: object) -> bool:
    """Whether a source is PTX text: its first directive is .version."""
    return isinstance(source, str) and re.match(r"(\s|//[^\n]*\n|/\*.*?\*/)*\.version\s", source, re.DOTALL) is not None


def load_compiled(compiled: CompiledModule, arch: int, memory: DeviceMemory) -> PtxModule:
    """The PTX from which a module's machine code was made.

    Raises:
        UnsupportedError: for a module without PTX.
    """
    if compiled.ptx is None:
        raise UnsupportedError(
            f"{compiled.name} holds machine code only; front_end='ptx' takes CUDA C++ or PTX, front_end='sass' a cubin"
        )
    made_from_ptx = compiled.source is None
    loaded = load_ptx(
        compiled.ptx,
        arch,
        memory,
        compiled.name if made_from_ptx else f"{Path(compiled.name).stem}.ptx",
        compiled.source,
        compiled.name,
        compiled.folder,
        compiled.lowered_names,
    )
    loaded.compiled.warnings = compiled.warnings
    return loaded


def _record(module: PtxText, name: str, arch: int) -> CubinKernel:
    """What a launch needs to know about a kernel before it is lowered."""
    function = module.functions[name]
    parameters = [
        KernelParameter(n, offset, variable.size_bytes)
        for n, (variable, offset) in enumerate(
            zip(function.prototype.parameters, kernel_parameters(function, PARAMETER_BASE[arch // 10]), strict=True)
        )
    ]
    required = _extents(function.limits.get("reqntid"))
    block = _extents(function.limits.get("maxntid")) or required
    return CubinKernel(
        name,
        plain_name(name),
        "",
        b"",
        arch,
        parameters=parameters,
        parameter_base_bytes=PARAMETER_BASE[arch // 10],
        parameter_size_bytes=max((p.offset_bytes + p.size_bytes for p in parameters), default=0),
        max_threads_per_block=min(1024, block[0] * block[1] * block[2]) if block else 1024,
        max_block=block,
        required_block=required,
        cluster=_extents(function.limits.get("reqnctapercluster")),
    )


def _extents(values: tuple[int, ...] | None) -> tuple[int, int, int] | None:
    """One to three extents as three."""
    if not values:
        return None
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z
