"""The syntax tree of PTX: modules, functions, variables, instructions, operands.

Names follow the PTX ISA manual (version 8.8): state spaces in chapter 5, instruction operands in chapter 6,
directives in chapter 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from warpwright.errors import WarpwrightError

BITS: Mapping[str, int] = {
    **{f"{kind}{bits}": bits for kind in "usb" for bits in (8, 16, 32, 64)},
    **{"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32, "pred": 1, "b128": 128},
    **{"f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32},
    **{"e4m3": 8, "e5m2": 8, "e4m3x2": 16, "e5m2x2": 16},
}
"""Fundamental and packed types with their widths (PTX ISA, sections 5.2 and 5.3)."""
OPAQUE = ("texref", "samplerref", "surfref")


class PtxError(WarpwrightError, ValueError):
    """Text that is not PTX: names the line, the text and what was expected."""


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register; ``name`` is unique in its function."""

    name: str
    part: str = ""
    """Part of a video instruction's operand: ``b0``, ``h1``, or lanes: ``b7531``, ``h20`` …"""
    offset: int = 0
    """Offset added to the value: ``register + 1`` as an operand."""


@dataclass(frozen=True, slots=True)
class Special:
    """A predefined register such as ``%tid.x``, without the percent sign."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal: ``bits`` as a two's complement integer, or a float's encoding when ``float_bits`` is 32 or 64."""

    bits: int
    float_bits: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, function or label, plus a byte offset."""

    name: str
    offset: int = 0
    generic: bool = False
    """Written ``generic(name)`` in an initialiser."""
    mask: int = 0
    """``mask(symbol)`` in an initialiser: which byte of the address is used, as a shifted 0xFF; 0 for all of it."""


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``: a register, a variable or an absolute address; ``more`` holds further parts in the
    brackets."""

    base: Register | Symbol | None
    offset: int = 0
    more: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b}``, or the parenthesised list of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``p|q``: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """``!p`` or ``-x``."""

    operand: Operand
    sign: str


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a destination that is discarded."""


Operand = Register | Special | Immediate | Symbol | Address | Vector | Pair | Negated | Sink


@dataclass(frozen=True, slots=True)
class Instruction:
    """One statement: ``@guard opcode.modifiers operands;``"""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[str, bool] | None
    """Predicate register and whether it is negated."""
    line: int
    """Line in the PTX text."""
    text: str
    """As written, with spaces collapsed."""
    source: tuple[int, int] | None = None
    """File number in ``Module.files`` and line of the source program (``.loc``)."""

    @property
    def name(self) -> str:
        """Opcode with modifiers: ``cvt.rn.f32.s32``."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Label:
    """A label in the code."""

    name: str
    line: int


Statement = Instruction | Label


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable of any state space."""

    name: str
    space: str
    """reg | global | const | shared | local | param."""
    type: str
    align: int
    """Bytes."""
    shape: tuple[int, ...] = ()
    """Extents of an array; 0 for ``[]``."""
    vector: int = 1
    initial: tuple[Immediate | Symbol, ...] = ()
    """Flattened initialiser, in the order of the elements."""
    linking: str = ""
    """extern | visible | weak | common."""
    line: int = 0

    @property
    def element_bytes(self) -> int:
        return max(1, BITS.get(self.type, 64) // 8)

    @property
    def size_bytes(self) -> int:
        size = self.element_bytes * self.vector
        for extent in self.shape:
            size *= extent
        return size

    @property
    def unsized(self) -> bool:
        """Whether the variable is ``extern .shared name[]``, whose size the launch determines."""
        return 0 in self.shape


@dataclass(slots=True)
class Prototype:
    """Parameters and results of a function, or of a named ``.callprototype``."""

    results: list[Variable] = field(default_factory=list)
    parameters: list[Variable] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    """A kernel (``.entry``) or device function (``.func``)."""

    name: str
    is_kernel: bool
    prototype: Prototype
    registers: dict[str, str] = field(default_factory=dict)
    """Type of each virtual register."""
    variables: dict[str, Variable] = field(default_factory=dict)
    """Local, shared and parameter variables declared in the body."""
    statements: list[Statement] = field(default_factory=list)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Lists of ``.branchtargets`` and ``.calltargets``, by name."""
    prototypes: dict[str, Prototype] = field(default_factory=dict)
    """``.callprototype``, by name."""
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Performance directives: ``maxntid``, ``reqntid``, ``minnctapersm`` …"""
    defined: bool = False
    """False for a declaration without a body."""
    line: int = 0


@dataclass(slots=True)
class Module:
    """A PTX module."""

    version: tuple[int, int] = (0, 0)
    target: str = ""
    address_size: int = 64
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    @property
    def kernels(self) -> list[str]:
        """Names of the entry points with a body, sorted."""
        return sorted(f.name for f in self.functions.values() if f.is_kernel and f.defined)
