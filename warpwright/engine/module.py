"""A compiled module on one device: global variables in memory, constant banks, decoded kernels.

Each global variable that the code refers to is allocated separately, with a name for faults; constant bank 3
(``__constant__`` variables) is in device memory too, so that pointers to it work.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.interpreter import Kernel
from warpwright.engine.jit.codegen import CompiledKernel
from warpwright.errors import KernelNotFoundError, UnsupportedError
from warpwright.isa.machine_code import program_from_cubin
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Program
from warpwright.isa.sass.decode import UnknownEncoding
from warpwright.isa.services import SERVICE_BYTES, SERVICES
from warpwright.toolchain import CompiledModule, Relocation
from warpwright.toolchain import Kernel as CubinKernel
from warpwright.toolchain.cubin import Module as CubinModule
from warpwright.toolchain.demangle import plain_name
from warpwright.toolchain.device_runtime import LIBRARY_CALLS, ROUTINES, routines
from warpwright.toolchain.relocation import CODE_ALIGNMENT, code_layout, relocate, width_bytes

GLOBAL_SECTIONS = (".nv.global", ".nv.global.init")
USER_CONSTANTS = ".nv.constant3"
Fact = TypeVar("Fact")
EXTERNAL_CODE_BASE = 0x7000_0000
"""Code addresses assigned to functions that the driver would provide; a call of one is refused before the launch."""


@dataclass(slots=True)
class LoadedKernel:
    """A kernel ready to be compiled for a block shape."""

    kernel: CubinKernel
    program: Program
    banks: dict[int, npt.NDArray[np.uint8]]
    """Contents of constant banks other than 0."""
    data: dict[str, bytes]
    """Sections of data, relocated for this kernel's code layout."""
    kernels_at: dict[int, str] = field(default_factory=dict)
    """Kernels of the module, by the code address that this kernel uses for them."""
    straight: bool | None = None
    """Whether there is no backward branch; computed on demand."""
    policies: dict[int, int] | None = None
    """Instructions with an access policy, and the uniform register that holds it; computed on demand."""
    lowered: list[Lowered] | None = None
    """Common operations of each instruction; computed on demand."""
    interpreted: Kernel | None = None
    """The interpreter's form; computed on demand."""
    interpreted_instructions: int = 0
    """Number of warp-instructions that the interpreter has executed because there was no code yet (``tiers.py``)."""
    without_code: set[tuple[int, int, int, bool, bool, bool]] = field(default_factory=set)
    """Variants for which no code was found on disk."""
    compiled: dict[tuple[int, int, int, bool, bool, bool], CompiledKernel] = field(default_factory=dict)
    """Host machine code by block shape, tracing, whether the grid fits, and whether there are clusters."""
    compiled_for_checks: dict[tuple[int, int, int, bool, bool, bool, bool], CompiledKernel] = field(
        default_factory=dict
    )
    """The same for code that traces and records operations of mbarriers and, if the last item says so, lanes outside the mask of a ``*_sync`` operation."""
    compiled_with_policies: dict[tuple[int, int, int, bool, bool, bool], CompiledKernel] = field(default_factory=dict)
    """The same for code that traces and records the access policies of instructions."""


def computed_once(fact: Callable[[LoadedKernel], Fact]) -> Callable[[LoadedKernel], Fact]:
    """Decorator of a function that finds a property of a kernel's program: it runs once, and the program keeps the result."""
    name = f"{fact.__module__}.{fact.__qualname__}"

    @wraps(fact)
    def known(loaded: LoadedKernel) -> Fact:
        facts = loaded.program.facts
        if name not in facts:
            facts[name] = fact(loaded)
        found: Fact = facts[name]
        return found

    return known


@dataclass(slots=True)
class DeviceModule:
    """The common part of all modules on a device."""

    compiled: CompiledModule
    memory: DeviceMemory

    def kernel_names(self) -> list[str]:
        """Names of the kernels as the source has them, sorted."""
        return sorted(k.plain_name for k in self.compiled.kernels.values())

    def find(self, name: str) -> CubinKernel:
        """The kernel called ``name``: symbol, plain name or name expression.

        Raises:
            KernelNotFoundError: lists the module's kernels.
        """
        return self.compiled.find(name)

    def bound(
        self, loaded: LoadedKernel, arguments: Sequence[Any], dynamic_shared_bytes: int
    ) -> tuple[LoadedKernel, Sequence[Any]]:
        """The kernel for a launch with such arguments, and its arguments: the same, except where what is bound decides what an instruction does."""
        return loaded, arguments


@dataclass(slots=True)
class LoadedModule(DeviceModule):
    """A module on a device.  Make it with :func:`load_module`."""

    variables: dict[str, Allocation] = field(default_factory=dict)
    """Global variables placed so far, by name."""
    constants: Allocation | None = None
    """Constant bank 3, if the module has one."""
    _sections: dict[str, Allocation] = field(default_factory=dict)
    _loaded: dict[str, LoadedKernel] = field(default_factory=dict)
    _contents: dict[str, bytes] = field(default_factory=dict)
    """Data sections as on the device, except for what programs stored there: those of the kernel launched last."""

    @property
    def cubin(self) -> CubinModule:
        return self.compiled.module

    def place(self, name: str) -> Allocation:
        """The allocation of a global variable, created on first use.

        Raises:
            KernelNotFoundError: lists the module's variables.
        """
        variable = self.cubin.variables.get(name)
        if variable is None:
            candidates = {plain_name(v): v for v in self.cubin.variables}
            if name in candidates:
                return self.place(candidates[name])
            listed = ", ".join(sorted(v for v in map(plain_name, self.cubin.variables) if "::" not in v)) or "none"
            raise KernelNotFoundError(
                f"{self.compiled.name} has no global variable called {name!r}; its variables: {listed}"
            )
        if variable.section == USER_CONSTANTS:
            assert self.constants is not None
            return Allocation(self.constants.address + variable.offset, variable.size, f"symbol '{plain_name(name)}'")
        if variable.section in self._sections:
            whole = self._sections[variable.section]
            return Allocation(whole.address + variable.offset, variable.size, f"symbol '{plain_name(name)}'")
        if name not in self.variables:
            allocation = self.memory.allocate(variable.size, f"symbol '{plain_name(name)}'")
            self.variables[name] = allocation
            contents = self._contents[variable.section][variable.offset : variable.offset + variable.size]
            self.memory.view(allocation.address, variable.size)[...] = np.frombuffer(contents, dtype=np.uint8)
        return self.variables[name]

    def _addresses(self) -> dict[str, int]:
        """Device addresses of everything that relocations name."""
        found = {name: whole.address for name, whole in self._sections.items()}
        if self.constants is not None:
            found[USER_CONSTANTS] = self.constants.address
        for i, name in enumerate(self.cubin.undefined):
            found[name] = EXTERNAL_CODE_BASE + 256 * i
        for r in self.cubin.relocations:
            if r.symbol in self.cubin.variables and r.target_section not in self._sections:
                found[r.symbol] = self.place(r.symbol).address
        return found

    def load(self, kernel: CubinKernel) -> LoadedKernel:
        """Relocate and decode a kernel, once.

        Raises:
            UnsupportedError: if it calls a driver function that is not provided, or contains instructions that are not
            modelled.
        """
        if kernel.name in self._loaded:
            return self._loaded[kernel.name]
        unknown = sorted(set(kernel.externs) - {*SERVICES, *ROUTINES, *LIBRARY_CALLS, *self.cubin.functions})
        if unknown:
            raise UnsupportedError(
                f"kernel {kernel.plain_name} calls {', '.join(unknown)}, which this version does not provide"
            )
        # Data that names functions uses this kernel's code layout; code that it cannot reach follows.
        bases = code_layout(self.cubin, kernel.name)
        services = self._services(bases)
        needed = self._routines(kernel, max([*services.values(), *self._ends(bases)], default=0))
        addresses = {**self._addresses(), **services, **{name: at for name, (at, _) in needed.items()}}
        if needed:
            addresses |= {
                call: needed[name][0] for call, name in LIBRARY_CALLS.items() if call not in self.cubin.functions
            }
        everywhere = {**self._foreign_bases(bases), **bases}
        image = relocate(self.cubin, addresses, everywhere)
        try:
            program = program_from_cubin(
                self.cubin, kernel, image, bases, source=self.compiled.source, services=services, routines=needed
            )
        except UnknownEncoding as error:
            raise UnsupportedError(f"kernel {kernel.plain_name}: {error}") from None
        if needed:
            program.local_bytes_per_thread += max(one.frame_bytes for one in routines(kernel.arch).functions.values())
        if self.compiled.source is not None:
            program.source_name = self.compiled.name
        program.text_lines = self.compiled.text_lines
        banks = {n: np.frombuffer(c, dtype=np.uint8) for n, c in program.constant_banks.items() if n not in (0, 3)}
        if self.constants is not None:
            banks[3] = self.memory.view(self.constants.address, self.constants.size_bytes)
        starts = {f.name: everywhere[f.section] + f.offset for f in self.cubin.functions.values() if f.is_kernel}
        kernels_at = {address: name for name, address in starts.items()}
        loaded = LoadedKernel(kernel, program, banks, image.data, kernels_at)
        self._loaded[kernel.name] = loaded
        return loaded

    def _services(self, bases: dict[str, int]) -> dict[str, int]:
        """Code addresses, after the kernel's sections, of the driver functions that these sections or the module's data name.

        Other kernels' calls do not count: a kernel beside one that prints does not print.
        """
        first = -(-max(self._ends(bases), default=0) // CODE_ALIGNMENT) * CODE_ALIGNMENT
        named = {r.symbol for r in self.cubin.relocations if r.section in bases or r.section not in self.cubin.code}
        wanted = [n for n in self.cubin.undefined if n in SERVICES and n in named]
        return {n: first + SERVICE_BYTES * i for i, n in enumerate(wanted)}

    def _ends(self, bases: dict[str, int]) -> list[int]:
        return [base + len(self.cubin.code[name]) for name, base in bases.items()]

    def _routines(self, kernel: CubinKernel, after: int) -> dict[str, tuple[int, bytes]]:
        """Code address and machine code of the driver functions that a kernel calls, placed after an address."""
        if not any(name in kernel.externs for name in (*ROUTINES, *LIBRARY_CALLS)):
            return {}
        module = routines(kernel.arch)
        bases = code_layout(module, None, after + CODE_ALIGNMENT)
        image = relocate(module, {}, bases)
        return {name: (bases[f".text.{name}"], bytes(image.code[f".text.{name}"])) for name in ROUTINES}

    def _foreign_bases(self, bases: dict[str, int]) -> dict[str, int]:
        """Addresses of code that this kernel cannot reach but that data may name; it is never called."""
        end = max(self._ends(bases), default=0)
        # Far enough to leave room for services and routines.
        rest = code_layout(self.cubin, None, (end // 4096 + 2) * 4096)
        return {name: base for name, base in rest.items() if name not in bases}

    def prepare(self, loaded: LoadedKernel) -> None:
        """Write the addresses that the module's own data holds (tables of pointers) as this kernel needs them.

        Code addresses differ between kernels, because each has its own layout.
        """
        before, after = self._contents, loaded.data
        if after is before:
            return
        self._contents = after
        changed = {section for section, contents in after.items() if contents != before[section]}
        places = self._places() if changed else []
        for r in self.cubin.relocations:
            if r.section not in changed:
                continue
            word = slice(r.offset, r.offset + width_bytes(r.type))
            target = _place_of(places, r)
            if before[r.section][word] != after[r.section][word] and target is not None:
                held = self.memory.view(target, word.stop - word.start)
                # Preserve what the program itself stored there.
                if held.tobytes() == before[r.section][word]:
                    held[...] = np.frombuffer(after[r.section][word], dtype=np.uint8)

    def _places(self) -> list[tuple[str, int, int, int]]:
        """Sections, offsets in them, sizes and device addresses of what was placed, in order."""
        found = [(s, 0, whole.size_bytes, whole.address) for s, whole in self._sections.items()]
        if self.constants is not None:
            found.append((USER_CONSTANTS, 0, self.constants.size_bytes, self.constants.address))
        for name, allocation in self.variables.items():
            variable = self.cubin.variables[name]
            found.append((variable.section, variable.offset, variable.size, allocation.address))
        return sorted(found)

    def unload(self) -> None:
        """Free what the module placed on the device."""
        placed = [*self.variables.values(), *self._sections.values()]
        if self.constants is not None:
            placed.append(self.constants)
        for allocation in placed:
            if not allocation.freed:
                self.memory.free(allocation)


def _place_of(places: list[tuple[str, int, int, int]], r: Relocation) -> int | None:
    """The device address of a relocated word of data; None if it was never placed."""
    i = bisect.bisect_right(places, (r.section, r.offset), key=lambda place: place[:2]) - 1
    if i < 0:
        return None
    section, offset, size, address = places[i]
    return address + r.offset - offset if section == r.section and r.offset < offset + size else None


def load_module(compiled: CompiledModule, memory: DeviceMemory) -> LoadedModule:
    """Place a module's constant bank and the sections that are addressed as a whole."""
    module = compiled.module
    loaded = LoadedModule(compiled, memory, _contents=module.data)
    named = module.variables
    for section in GLOBAL_SECTIONS:
        nameless = [r for r in module.relocations if r.target_section == section and r.symbol not in named]
        if nameless and section in module.data:
            whole = memory.allocate(len(module.data[section]), f"global variables of {compiled.name}")
            loaded._sections[section] = whole
            memory.view(whole.address, whole.size_bytes)[...] = np.frombuffer(module.data[section], dtype=np.uint8)
    if USER_CONSTANTS in module.data:
        contents = module.data[USER_CONSTANTS]
        loaded.constants = memory.allocate(len(contents), f"constant memory of {compiled.name}")
        memory.view(loaded.constants.address, len(contents))[...] = np.frombuffer(contents, dtype=np.uint8)
    return loaded
