"""The common form of a program: what every instruction-set front end produces.

A :class:`Program` is one kernel of one module: a table of decoded instructions and everything a launch needs
(parameters, registers, shared and local memory, barriers, constant banks).  Front ends produce it, the engine executes
its common operations (``isa/ops.py``), and the timing model reads its control bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from warpwright.isa.ops import Lowered
from warpwright.isa.schedule import Work

RZ = 255
"""Register number that reads as zero (all 128-bit encodings)."""
URZ = 63
"""Uniform register number that reads as zero."""
PT = 7
"""Predicate (and uniform predicate) number that reads as true."""


class Kind(Enum):
    """What an operand is."""

    REGISTER = "R"
    UNIFORM_REGISTER = "UR"
    PREDICATE = "P"
    UNIFORM_PREDICATE = "UP"
    BARRIER = "B"
    """A convergence barrier register B0..B15."""
    SPECIAL = "SR"
    """A special register: ``index`` is its number, ``name`` its printed name."""
    IMMEDIATE = "imm"
    FLOAT = "fimm"
    """A floating-point immediate: ``value`` holds its encoded bits, ``suffix`` is empty."""
    CONSTANT = "c"
    """Constant bank: ``index`` is the bank (``uniform`` for bindless cx[UR]), ``base`` a register, ``value`` the byte
    offset."""
    MEMORY = "mem"
    """Address [``base`` + ``uniform`` + ``value``], optional ``descriptor``."""
    LABEL = "label"
    """A code address: ``value`` is the byte offset within the function's section, or ``name`` a symbol."""
    SCOREBOARD = "SB"
    NAME = "name"
    """Anything else, printed as a bare word."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand, with its modifiers as encoded."""

    kind: Kind
    index: int = 0
    value: int = 0
    """Immediate bits (two's complement, as encoded), byte offset, displacement or target."""
    negate: bool = False
    absolute: bool = False
    invert: bool = False
    """Bitwise complement of a register, or logical not of a predicate."""
    reuse: bool = False
    suffix: str = ""
    """As printed after the name, dots included: ``.H0_H0``, ``.64``, ``.U32``, ``.X4``, ``.B1`` …"""
    name: str = ""
    base: Operand | None = None
    uniform: Operand | None = None
    descriptor: Operand | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """Control bits of one instruction (sources: CuAssembler; Huerta et al., MICRO'25, section 4)."""

    stall_cycles: int = 1
    yield_flag: bool = False
    """True when the warp may yield (encoded as 0)."""
    write_barrier: int = 7
    """Scoreboard 0..5 released when the result is written; 7 = none."""
    read_barrier: int = 7
    """Scoreboard 0..5 released when the sources were read; 7 = none."""
    wait_mask: int = 0
    """Six bits: scoreboards that must be zero before issue."""
    reuse: int = 0
    """Four bits: operand slots kept in the register-file cache."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One decoded instruction."""

    address: int
    """Byte offset from the start of the function's section."""
    opcode: str
    """Mnemonic without modifiers: ``IADD3``."""
    modifiers: tuple[str, ...]
    """Without dots, in printed order: ``("WIDE", "U32")``."""
    operands: tuple[Operand, ...]
    """Operands in printed order, destinations first."""
    guard: Operand | None = None
    """Predicate (``invert`` = ``!``), or None when always executed."""
    control: Control = Control()
    encoding: int = 0
    """The raw 128-bit word."""
    line: tuple[str, int] | None = None
    """Source file and line, when the module has line information."""

    def placed(self, address: int, operands: tuple[Operand, ...]) -> Instruction:
        """The same word at another address, with the operands that it has there."""
        return Instruction(address, self.opcode, self.modifiers, operands, self.guard, self.control, self.encoding)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One kernel parameter in constant bank 0."""

    ordinal: int
    offset_bytes: int
    """Offset from the start of the parameter area."""
    size_bytes: int


@dataclass(slots=True)
class Program:
    """One kernel, decoded, with everything a launch needs."""

    name: str
    arch: int
    """Compute capability times ten: 70, 80, 90."""
    instructions: list[Instruction]
    parameters: list[Parameter] = field(default_factory=list)
    parameter_base_bytes: int = 0x160
    """Where parameters start in constant bank 0 (0x160 on sm_70 and sm_80, 0x210 on sm_90)."""
    parameter_size_bytes: int = 0
    registers: int = 0
    """Registers per thread, as allocated by the compiler."""
    shared_static_bytes: int = 0
    local_bytes_per_thread: int = 0
    """Stack frame of the kernel and everything it calls, or a default if the depth is unknown (recursion)."""
    barriers: int = 0
    """Named barriers used (0..16)."""
    constant_banks: Mapping[int, bytes] = field(default_factory=dict)
    """Initial contents of banks other than 0 and, for compiler-made literals, of bank 0's tail."""
    max_threads_per_block: int = 1024
    source: str | None = None
    """CUDA C++ source text, if known; shown with lines in errors and reports."""
    source_name: str = ""
    """Name by which lines refer to ``source``.  A file of that name may hold a different text."""
    text_lines: tuple[tuple[str, int] | None, ...] = ()
    """File and line that each line of the text comes from: those of a Python program, if the kernel is in its strings."""
    symbols: Mapping[str, int] = field(default_factory=dict)
    """Global variables of the module by name: filled with device addresses when loaded."""
    facts: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """Results of analyses of all instructions, cached by their callers."""
    slow_paths: tuple[tuple[int, int], ...] = ()
    """First byte and end of functions that the compiler adds for rare argument values and calls after a test."""
    functions: tuple[int, ...] = ()
    """First byte of each function, including the kernel's own, in ascending order; empty if unknown."""
    taken: frozenset[int] = frozenset()
    """First bytes of functions and services whose address is taken: possible targets of a call through a register."""
    of_barriers: frozenset[int] = frozenset()
    """Addresses of instructions whose source is the implementation of ``cuda::barrier``."""
    warp_masks: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """For the address of each instruction that a ``*_sync`` operation became: file (``reg``, ``ureg``) and number of
    the register that holds its mask."""
    services: tuple[str, ...] = ()
    """Driver functions that the kernel calls (``isa/services.py``)."""
    lanes: int = 32
    """Number of lanes of a wave, the only place where an instruction set states it: 16, 32 or 64."""
    code_base: int = 0
    """Virtual code address of the first byte (targets of indirect branches and calls are code_base + offset)."""
    work: Callable[[Instruction], Work] | None = field(default=None, repr=False, compare=False)
    """The function that returns the unit that executes an instruction; None selects the table of the architecture's
    machine code."""
    meaning: list[Lowered] | None = field(default=None, repr=False, compare=False)
    """What each instruction does, for PTX, which is lowered as it is read; ``machine_code.lower`` finds that of machine code."""
    control_bits: bool = True
    """Whether the code states when its instructions issue (``Control``); otherwise a scoreboard decides."""

    @property
    def architecture(self) -> str:
        """The architecture's name in messages: ``sm_80``."""
        return f"sm_{self.arch}"

    def origin(self, name: str, number: int) -> tuple[str, int]:
        """The file and line that a line of the source comes from, if they are known; else the line itself."""
        known = name == self.source_name and 1 <= number <= len(self.text_lines)
        return (self.text_lines[number - 1] if known else None) or (name, number)
