"""Cubins: reads NVIDIA's ELF files of machine code and their kernels' attributes.

Sources: the ELF container is the System V ABI's; the meaning of NVIDIA's sections (``.text.NAME``, ``.nv.info.NAME``,
``.nv.constantB.NAME``, ``.nv.shared.NAME``, ``.nv.global``), flags and attributes was compared with the vendor's own
printers (cuobjdump -elf, nvdisasm) on compiled kernels; relocations are in ``relocation.py``, lines in ``lines.py``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from warpwright.errors import KernelNotFoundError
from warpwright.toolchain.callgraph import calls_itself, calls_through_registers, direct_calls
from warpwright.toolchain.compile_errors import ArchitectureError, CubinError
from warpwright.toolchain.demangle import plain_name
from warpwright.toolchain.elf_reader import (
    SHT_NOBITS,
    STO_CUDA_ENTRY,
    STT_FUNC,
    STT_OBJECT,
    ElfFile,
    Section,
)
from warpwright.toolchain.lines import LineTable, read_line_tables
from warpwright.toolchain.nvinfo import Attribute, Record, indirect_branches, read_records

ARCHITECTURES = (60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90)
"""Architectures with the 128-bit encoding that this package reads (compute capability times ten)."""

WHOLE_DOUBLE_WORDS = (2, 4)
"""Relocations of 64 bits of data (R_CUDA_64, R_CUDA_G64)."""

UNKNOWN_STACK = 0xFFFFFFFF
"""Value of ``MIN_STACK_SIZE`` if recursion or an indirect call makes the depth unknown."""

DEFAULT_STACK_BYTES = 1024
"""Stack that the CUDA driver gives a thread by default (cudaLimitStackSize), used if the cubin does not state one."""

_OS_ABI_V8 = 0x41
"""EI_OSABI of cubins since CUDA 13, whose e_flags hold the architecture in bits 8..15."""
_FLAG_ACCELERATED = 0x800
_INFO_NOTE = ".note.nv.cuinfo"
_NOTE_HEAD = struct.Struct("<3I")
"""Header of an ELF note: size of its name, size of its description, type."""
_INFO = struct.Struct("<HHI")
"""Contents of the note (read from cubins of nvcc 13.0): its version, the PTX's architecture, ten times the toolkit's
version."""
_BARRIER_SHIFT, _BARRIER_MASK = 20, 0x7F
_BANKS = frozenset(str(bank) for bank in range(18))
_GLOBAL_BYTES = 4 << 30
_CONSTANT_BANK_BYTES = 64 << 10
_RESERVED_SHARED = ".nv.reservedSmem.offset0"


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """One kernel parameter and its place in the parameter area."""

    ordinal: int
    offset_bytes: int
    """Offset from the start of the parameter area."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A location in a section that depends on an address known only at load time."""

    section: str
    """Name of the section that is patched."""
    offset: int
    type: int
    symbol: str
    """Name of the symbol, or of its section if the symbol has no name."""
    addend: int
    target_section: str
    """Section that defines the symbol, empty when it is defined elsewhere."""
    target_offset: int
    """The symbol's offset in that section."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A global (or constant) variable of the module."""

    name: str
    section: str
    """``.nv.global`` (zeros), ``.nv.global.init`` or ``.nv.constant3``."""
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function symbol: a kernel, a device function, or a function inside another function's section."""

    name: str
    section: str
    offset: int
    size: int
    is_kernel: bool
    registers: int = 0
    frame_bytes: int = 0
    """Stack frame; a kernel's may hold those of the functions in its section."""


@dataclass(slots=True)
class Kernel:
    """One kernel and everything that a launch needs to know about it."""

    name: str
    """The symbol (mangled unless the source says extern "C")."""
    plain_name: str
    """The name in the source, without template arguments and parameters."""
    section: str
    code: bytes
    """The whole section ``.text.NAME``: the kernel, then the device functions that share its section."""
    arch: int
    parameters: list[KernelParameter] = field(default_factory=list)
    """In order of their ordinals."""
    parameter_base_bytes: int = 0x160
    """Where parameters start in constant bank 0."""
    parameter_size_bytes: int = 0
    registers: int = 0
    barriers: int = 0
    """Named barriers (0..16)."""
    shared_static_bytes: int = 0
    """Shared memory before the dynamic part, including the reserved bytes at its start."""
    shared_reserved_bytes: int = 0
    """Bytes at the start of shared memory that are reserved for the system (1024 if the kernel's offsets begin
    there)."""
    frame_bytes: int = 0
    stack_bytes: int = 0
    """Frame of the kernel and its callees; a default if it is ``recursive`` or calls through a pointer."""
    recursive: bool = False
    """Whether its call depth is unknown because of recursion or a call through a pointer."""
    max_threads_per_block: int = 1024
    max_block: tuple[int, int, int] | None = None
    """From ``__launch_bounds__`` (EIATTR_MAX_THREADS)."""
    required_block: tuple[int, int, int] | None = None
    """From ``.reqntid``: the only block shape it may be launched with."""
    cluster: tuple[int, int, int] | None = None
    """From ``__cluster_dims__``."""
    exit_offsets: tuple[int, ...] = ()
    warp_offsets: tuple[int, ...] = ()
    """Offsets of the instructions generated for warp-wide operations (``*_sync``), including NOPs."""
    warp_masks: tuple[int, ...] = ()
    """For each of these, the register that holds its mask (low 24 bits) and the register file (upper byte); all ones if there is none."""
    indirect_branches: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    """Pairs (offset of a BRX or JMX, its possible targets), as offsets in ``code``."""
    constant_banks: dict[int, bytes] = field(default_factory=dict)
    """Initial contents by bank: 0 (parameters' room, then literals), 2, and the module's 3 and 4."""
    externs: tuple[str, ...] = ()
    """Functions it calls that the driver provides (``vprintf``, ``malloc``, ``__assertfail`` …)."""
    lines: LineTable = field(default_factory=LineTable)

    def limit_threads(self, threads: int) -> None:
        """A block has at most this many threads; 0 if unlimited."""
        if threads:
            self.max_threads_per_block = min(self.max_threads_per_block, threads)


CALL_RELOCATIONS = frozenset((58, 75, 114))
"""R_CUDA_ABS47_34, R_CUDA_ABS55_16_34 and R_CUDA_ABS56_16_34: the target of a call or jump."""


@dataclass(slots=True)
class Module:
    """The contents of a cubin: kernels by symbol, and what they share."""

    name: str
    """Its name in messages: a path, or the name given when it was read."""
    arch: int
    accelerated: bool
    """True for code that uses an architecture's own features (``sm_90a``), which runs on that architecture only."""
    kernels: dict[str, Kernel] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    code: dict[str, bytes] = field(default_factory=dict)
    """Every code section by name (``.text.NAME``)."""
    variables: dict[str, Variable] = field(default_factory=dict)
    """Global and constant variables by name."""
    data: dict[str, bytes] = field(default_factory=dict)
    """Initial contents of ``.nv.global``, ``.nv.global.init`` and every constant bank, by section name."""
    alignments: dict[str, int] = field(default_factory=dict)
    """Alignment in bytes of each section of ``data`` and ``code``."""
    relocations: list[Relocation] = field(default_factory=list)
    """Relocations of code, constant banks and global data (not of debug information)."""
    undefined: tuple[str, ...] = ()
    """Functions and variables that the module needs but does not define."""
    line_tables: dict[str, LineTable] = field(default_factory=dict)
    """By code section."""
    virtual_arch: int = 0
    """Architecture of the PTX that the code was assembled from (75 for ``arch=compute_75,code=sm_80``); 0 where unknown."""

    @property
    def ptx_version(self) -> int:
        """The architecture that a driver reports as the PTX version of the module's kernels."""
        return self.virtual_arch or self.arch

    @property
    def target(self) -> str:
        """``sm_80``, ``sm_90a`` …"""
        return f"sm_{self.arch}{'a' if self.accelerated else ''}"

    def find(self, name: str, lowered_names: Mapping[str, str] | None = None) -> Kernel:
        """The kernel called ``name``: a symbol, a name expression, or a plain name if it is unique.

        Raises :class:`KernelNotFoundError`, which lists the module's kernels.
        """
        expressions = {_tight(expression): symbol for expression, symbol in (lowered_names or {}).items()}
        symbol = expressions.get(_tight(name), name)
        if symbol in self.kernels:
            return self.kernels[symbol]
        found = [k for k in self.kernels.values() if name in (k.plain_name, k.plain_name.rpartition("::")[2])]
        if len(found) == 1:
            return found[0]
        if found:
            raise KernelNotFoundError(
                f"{self.name} has {len(found)} kernels named {name}: {', '.join(k.name for k in found)}. "
                "Ask for one by its symbol or by a C++ name expression such as "
                f"{name}<float>."
            )
        listed = ", ".join(sorted({k.plain_name for k in self.kernels.values()})) or "none"
        message = f"{self.name} has no kernel {name}; its kernels are: {listed}."
        if "<" in name:
            message += f' To instantiate a template, compile with name_expressions=["{name}"].'
        raise KernelNotFoundError(message)

    def reachable(self, kernel: str) -> list[str]:
        """Code sections that a kernel may run, its own first: those named by relocations, to any depth.

        A function whose address is stored in a variable is included once the variable is reached. Code that calls through registers may run any function whose
        address is taken anywhere in the module, because another kernel may have stored it.
        """
        order = [self.kernels[kernel].section]
        banks = [s for s in self.data if s in (".nv.constant3", ".nv.constant4") or s.endswith("." + kernel)]
        by_section: dict[str, list[Relocation]] = {}
        for r in self.relocations:
            by_section.setdefault(r.section, []).append(r)
        places = {(v.section, v.offset): v for v in self.variables.values()}
        # A place is a section or the bytes of one variable in a data section.
        queue: list[tuple[str, int, int]] = [(s, 0, 1 << 62) for s in (*order, *banks)]
        seen = set(queue)
        # A kernel may launch another one but never calls it.
        kernels = {k.section for k in self.kernels.values()}
        by_register = False
        while queue:
            section, start, end = queue.pop(0)
            for r in by_section.get(section, ()):
                target = r.target_section
                if not target or not start <= r.offset < end:
                    continue
                variable = places.get((target, r.target_offset)) if target in self.data else None
                place = (target, variable.offset, variable.offset + variable.size) if variable else (target, 0, 1 << 62)
                if place in seen or target in kernels:
                    continue
                seen.add(place)
                queue.append(place)
                if target in self.code and target not in order:
                    order.append(target)
            if not by_register and section in self.code and calls_through_registers(self.code[section], self.arch):
                by_register = True
                taken = [s for s in self.shared_code() if s not in order]
                order += taken
                found = [(s, 0, 1 << 62) for s in taken]
                seen.update(found)
                queue += found
        return order

    def shared_code(self) -> list[str]:
        """Code sections of functions whose address is taken: one kernel may store it and another one call it."""
        kernels = {k.section for k in self.kernels.values()}
        taken = {section for section, _ in self.addresses_taken() if section not in kernels}
        return [s for s in self.code if s in taken]

    def addresses_taken(self) -> set[tuple[str, int]]:
        """Pairs (section, offset) of functions whose address data contains, or code uses other than in calls."""
        starts = {(f.section, f.offset) for f in self.functions.values()}
        named = {
            (r.target_section, r.target_offset + r.addend)
            for r in self.relocations
            if r.target_section in self.code and r.type not in CALL_RELOCATIONS
        }
        return named & starts


def check_architecture(module: Module, chip_arch: int, chip_name: str = "") -> None:
    """Raise :class:`ArchitectureError` unless a chip of ``chip_arch`` (80, 90 …) runs the module's machine code.

    The rule is CUDA's binary compatibility: the same major number and a minor number at least as high; code for
    ``sm_90a`` runs on 90 alone (CUDA C++ Programming Guide, section "Binary Compatibility").
    """
    same_major = module.arch // 10 == chip_arch // 10
    fits = module.arch == chip_arch if module.accelerated else same_major and module.arch <= chip_arch
    if not fits:
        chip = f"the chip {chip_name}" if chip_name else "the chip"
        runs = f"sm_{chip_arch}" if chip_arch % 10 == 0 else f"sm_{chip_arch // 10}0 to sm_{chip_arch}"
        raise ArchitectureError(
            f"{module.name} holds machine code for {module.target}; {chip} runs {runs}: "
            f"compile for sm_{chip_arch} or give PTX."
        )


def _tight(expression: str) -> str:
    """A C++ name without insignificant spaces: ``saxpy< float, 4 >`` is ``saxpy<float,4>``."""
    return re.sub(r"\s*([^\w\s])\s*", r"\1", expression.strip())


def read_cubin(data: bytes, name: str = "cubin", *, source_name: str = "", source_folder: str = "") -> Module:
    """Read a cubin's bytes; ``name`` is what messages call it.

    ``source_name`` is the name under which its source was compiled: the compiler prefixes a relative name with its working folder, which is removed from the
    line tables here.

    Raises :class:`CubinError` if the bytes are not a cubin, are truncated or damaged, or are for an architecture outside sm_60 to sm_90.
    """
    return _Builder(ElfFile(data, name), source_name, source_folder).build()


def _architecture(elf: ElfFile) -> tuple[int, bool]:
    arch = elf.flags >> 8 & 0xFF if elf.os_abi == _OS_ABI_V8 else elf.flags & 0xFF
    if arch not in ARCHITECTURES:
        raise ArchitectureError(
            f"{elf.name} holds machine code for sm_{arch}; "
            f"this release reads sm_{ARCHITECTURES[0]} to sm_{ARCHITECTURES[-1]}: compile for one of those or give PTX."
        )
    return arch, elf.os_abi != _OS_ABI_V8 and bool(elf.flags & _FLAG_ACCELERATED)


def _virtual_architecture(elf: ElfFile) -> int:
    """The PTX's architecture: from a note since CUDA 13, before that from bits 16..23 of e_flags; 0 if neither has one."""
    if elf.os_abi != _OS_ABI_V8:
        return elf.flags >> 16 & 0xFF
    note = elf.by_name.get(_INFO_NOTE)
    if note is None or len(note.data) < _NOTE_HEAD.size:
        return 0
    name_bytes, _, _ = _NOTE_HEAD.unpack_from(note.data)
    at = _NOTE_HEAD.size + -(-name_bytes // 4) * 4
    if at + _INFO.size > len(note.data):
        return 0
    return int(_INFO.unpack_from(note.data, at)[1])


def _is_data(name: str) -> bool:
    return name in (".nv.global", ".nv.global.init") or name.startswith(".nv.constant")


class _Builder:
    """Fills a :class:`Module` from the sections of one file."""

    def __init__(self, elf: ElfFile, source_name: str, source_folder: str) -> None:
        self.elf = elf
        self.source_name, self.source_folder = source_name, source_folder
        arch, accelerated = _architecture(elf)
        self.module = Module(elf.name, arch, accelerated, virtual_arch=_virtual_architecture(elf))
        self.per_symbol: dict[int, dict[int, Record]] = {}
        """Attributes of the module's ``.nv.info`` that name a function: symbol index, attribute."""

    def build(self) -> Module:
        module = self.module
        self._read_module_info()
        for section in self.elf.sections:
            if section.name.startswith(".text."):
                module.code[section.name] = section.data
                module.alignments[section.name] = section.alignment
            elif _is_data(section.name):
                module.data[section.name] = self._contents(section)
                module.alignments[section.name] = section.alignment
        self._read_symbols()
        self._read_relocations()
        self._read_lines()
        for function in module.functions.values():
            if function.is_kernel:
                module.kernels[function.name] = self._kernel(function)
        return module

    def _contents(self, section: Section) -> bytes:
        """Initial contents; zeros for a section that takes no space in the file."""
        if section.name in (".nv.global", ".nv.global.init"):
            if section.size > _GLOBAL_BYTES:
                raise CubinError(
                    f"{self.elf.name} declares {section.size >> 20} MiB of global variables in {section.name}; "
                    f"{_GLOBAL_BYTES >> 20} MiB is the most. Allocate such arrays at run time."
                )
            return bytes(section.size) if section.type == SHT_NOBITS else section.data
        if section.size > _CONSTANT_BANK_BYTES:
            raise CubinError(
                f"{self.elf.name} is damaged: constant bank {section.name} has {section.size} bytes, "
                f"more than {_CONSTANT_BANK_BYTES}."
            )
        return bytes(section.size) if section.type == SHT_NOBITS else section.data

    def _section_name(self, index: int) -> str:
        return self.elf.sections[index].name if 0 < index < len(self.elf.sections) else ""

    def _read_module_info(self) -> None:
        section = self.elf.by_name.get(".nv.info")
        if section is None:
            return
        per_function = (Attribute.FRAME_SIZE, Attribute.MIN_STACK_SIZE, Attribute.MAX_STACK_SIZE, Attribute.REGCOUNT)
        for record in read_records(section.data, f"{self.elf.name}, section .nv.info"):
            words = record.words()
            if record.attribute in per_function and len(words) >= 2:
                self.per_symbol.setdefault(words[0], {})[record.attribute] = record

    def _attribute(self, symbol: int, attribute: Attribute) -> int | None:
        record = self.per_symbol.get(symbol, {}).get(attribute)
        return record.words()[1] if record else None

    def _read_symbols(self) -> None:
        undefined = []
        for symbol in self.elf.symbols:
            home = self._section_name(symbol.section)
            if symbol.section == 0:
                if symbol.name and symbol.name != _RESERVED_SHARED:
                    undefined.append(symbol.name)
            elif symbol.type == STT_FUNC and home in self.module.code:
                registers = self._attribute(symbol.index, Attribute.REGCOUNT)
                if registers is None:
                    registers = self.elf.by_name[home].info >> 24
                self.module.functions[symbol.name] = Function(
                    symbol.name,
                    home,
                    symbol.value,
                    symbol.size,
                    bool(symbol.other & STO_CUDA_ENTRY),
                    registers,
                    self._attribute(symbol.index, Attribute.FRAME_SIZE) or 0,
                )
            elif symbol.type == STT_OBJECT and home in self.module.data:
                self.module.variables[symbol.name] = Variable(symbol.name, home, symbol.value, symbol.size)
        self.module.undefined = tuple(undefined)

    def _read_relocations(self) -> None:
        for r in self.elf.relocations:
            section = self._section_name(r.target)
            if section not in self.module.code and section not in self.module.data:
                continue
            symbol = self.elf.symbols[r.symbol]
            home = self._section_name(symbol.section)
            addend = r.addend
            if addend is None:
                # Without an addend in the table, the relocated location holds it; in instruction fields it is zero.
                word = self.module.data.get(section, b"")[r.offset : r.offset + 8]
                addend = int.from_bytes(word, "little") if r.type in WHOLE_DOUBLE_WORDS and len(word) == 8 else 0
            self.module.relocations.append(
                Relocation(section, r.offset, r.type, symbol.name or home, addend, home, symbol.value)
            )

    def _read_lines(self) -> None:
        section = self.elf.by_name.get(".debug_line")
        if section is None or not section.data:
            return
        places = {
            r.offset: self._section_name(self.elf.symbols[r.symbol].section)
            for r in self.elf.relocations
            if r.target == section.index
        }
        where = f"{self.elf.name}, section .debug_line"
        self.module.line_tables = read_line_tables(section.data, places, where, self.source_name, self.source_folder)

    def _kernel(self, function: Function) -> Kernel:
        elf, module = self.elf, self.module
        section = elf.by_name[function.section]
        symbol = next(s for s in elf.symbols if s.name == function.name and s.type == STT_FUNC)
        kernel = Kernel(
            name=function.name,
            plain_name=plain_name(function.name),
            section=function.section,
            code=section.data,
            arch=module.arch,
            registers=function.registers,
            barriers=section.flags >> _BARRIER_SHIFT & _BARRIER_MASK,
            frame_bytes=function.frame_bytes,
            lines=module.line_tables.get(function.section, LineTable()),
        )
        if len(kernel.code) % 16 or not kernel.code:
            raise CubinError(
                f"{elf.name} is damaged: {function.section} has {len(kernel.code)} bytes, "
                "not a whole number of 16-byte instructions."
            )
        self._stack(kernel, symbol.index)
        shared = elf.by_name.get(f".nv.shared.{function.name}")
        kernel.shared_static_bytes = shared.size if shared else 0
        if any(s.name == _RESERVED_SHARED for s in elf.symbols) and kernel.shared_static_bytes >= 1024:
            kernel.shared_reserved_bytes = 1024
        for name, data in module.data.items():
            bank, _, owner = name.removeprefix(".nv.constant").partition(".")
            if name.startswith(".nv.constant") and bank in _BANKS and owner in ("", function.name):
                kernel.constant_banks[int(bank)] = data
        info = elf.by_name.get(f".nv.info.{function.name}")
        if info is not None:
            for record in read_records(info.data, f"{elf.name}, section {info.name}"):
                self._apply(kernel, record)
        kernel.parameters.sort(key=lambda p: p.ordinal)
        return kernel

    def _stack(self, kernel: Kernel, symbol: int) -> None:
        """The stack that the compiler states, and whether recursion leaves it open."""
        starts = sorted(f.offset for f in self.module.functions.values() if f.section == kernel.section)
        entry = self.module.functions[kernel.name].offset
        recursion = calls_itself(entry, starts, direct_calls(kernel.code, kernel.arch))
        least = self._attribute(symbol, Attribute.MIN_STACK_SIZE)
        most = self._attribute(symbol, Attribute.MAX_STACK_SIZE)
        known = [s for s in (least, most) if s is not None and s != UNKNOWN_STACK]
        kernel.recursive = recursion or least == UNKNOWN_STACK
        kernel.stack_bytes = max([kernel.frame_bytes, *known])
        if kernel.recursive or calls_through_registers(kernel.code, kernel.arch):
            # The callee may be any function of the module, whose frame is not in the kernel's attributes.
            kernel.stack_bytes = max(kernel.stack_bytes, DEFAULT_STACK_BYTES)

    def _apply(self, kernel: Kernel, record: Record) -> None:
        """Apply one attribute of the kernel's own ``.nv.info`` section."""
        words = record.words()
        kind = record.attribute
        if kind == Attribute.KPARAM_INFO and len(words) >= 3:
            ordinal, offset, size = words[1] & 0xFFFF, words[1] >> 16, words[2] >> 18
            kernel.parameters.append(KernelParameter(ordinal, offset, size))
        elif kind == Attribute.KPARAM_INFO_V2 and len(words) >= 3:
            # The form for parameter lists beyond 4 KiB, in which the size has a separate word.
            kernel.parameters.append(KernelParameter(words[1] & 0xFFFF, words[1] >> 16, words[2]))
        elif kind == Attribute.PARAM_CBANK and len(words) >= 2:
            kernel.parameter_base_bytes = words[1] & 0xFFFF
            kernel.parameter_size_bytes = words[1] >> 16
        elif kind == Attribute.CBANK_PARAM_SIZE:
            kernel.parameter_size_bytes = record.value
        elif kind == Attribute.NUM_BARRIERS:
            kernel.barriers = max(kernel.barriers, record.value)
        elif kind == Attribute.EXIT_INSTR_OFFSETS:
            kernel.exit_offsets = words
        elif kind == Attribute.COOP_GROUP_INSTR_OFFSETS:
            kernel.warp_offsets += words
        elif kind == Attribute.COOP_GROUP_MASK_REGIDS:
            kernel.warp_masks += words
        elif kind == Attribute.INDIRECT_BRANCH_TARGETS:
            kernel.indirect_branches += indirect_branches(record)
        elif kind == Attribute.EXTERNS:
            symbols = self.elf.symbols
            kernel.externs += tuple(symbols[w].name for w in words if w < len(symbols))
        elif kind == Attribute.CTA_PER_CLUSTER and len(words) >= 3:
            kernel.cluster = (words[0], words[1], words[2]) if all(words[:3]) else None
        elif kind == Attribute.REQNTID and len(words) >= 3:
            kernel.required_block = (words[0], words[1], words[2])
            kernel.limit_threads(words[0] * words[1] * words[2])
        elif kind == Attribute.MAX_THREADS and len(words) >= 3:
            kernel.max_block = (words[0], words[1], words[2])
            kernel.limit_threads(words[0] * words[1] * words[2])
