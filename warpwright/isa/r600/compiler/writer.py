"""LLVM IR of one thread, written operation by operation.

A register of the common operations is a 32-bit variable, a predicate a 1-bit variable; LLVM promotes them to SSA
values.  Addresses are the lower 32 bits of PTX's addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from warpwright.isa.ops import Op
from warpwright.isa.ptx.meaning import UnsupportedInstruction

IR_TYPES = {
    **{f"i{bits}": f"i{bits}" for bits in (1, 8, 16, 32, 64)},
    **{"f16": "half", "f32": "float", "f64": "double", "i32x2": "<2 x i32>", "i32x4": "<4 x i32>", "bf16": "i16"},
}
GLOBAL, SHARED, PRIVATE, RETURNED = 1, 3, 5, 7
"""Address spaces; loads from the last one are fetches from the buffer in which atomics store old values."""


def refuse(why: str) -> UnsupportedInstruction:
    return UnsupportedInstruction(why)


@dataclass
class Writer:
    """The text of one kernel's function."""

    parameter_base: int
    """Offset of the parameters in the PTX front end's constant bank."""
    constants_address: int = 0
    """Device address of constant bank 3."""
    local_words: int = 0
    exchange_base: int = 0
    """Address in local data share of the threads' words, one each; used with ``exchanges``."""
    shared_pointers: bool = False
    """Whether generic addresses of shared memory may exist."""
    local_pointers: bool = False
    lines: list[str] = field(default_factory=list)
    registers: set[int] = field(default_factory=set)
    predicates: set[int] = field(default_factory=set)
    declared: set[str] = field(default_factory=set)
    labels: dict[object, int] = field(default_factory=dict)
    """Numbers that represent code addresses."""
    guard: str = ""
    """The condition under which register writes take effect; "" for always."""
    serial: int = 0
    ops: list[Op] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    # --- text -----------------------------------------------------------------------------------------------
    def new(self, stem: str = "v") -> str:
        self.serial += 1
        return f"%{stem}{self.serial}"

    def emit(self, line: str) -> None:
        self.lines.append("  " + line)

    def let(self, expression: str) -> str:
        """A new value."""
        name = self.new()
        self.emit(f"{name} = {expression}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f'"{name}":')

    def new_label(self, stem: str) -> str:
        self.serial += 1
        return f"{stem}.{self.serial}"

    def jump(self, label: str) -> None:
        self.emit(f'br label %"{label}"')

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.emit(f'br i1 {condition}, label %"{yes}", label %"{no}"')

    def call(self, type: str, name: str, *arguments: str, attributes: str = "") -> str:
        """Call a function that is declared with the arguments' types; each argument is a type and a value."""
        types = ", ".join(a.rpartition(" ")[0] for a in arguments)
        tail = f" {attributes}" if attributes else ""
        self.declared.add(f"declare {type} @{name}({types}){tail}")
        text = f"call {type} @{name}({', '.join(arguments)}){tail}"
        if type == "void":
            self.emit(text)
            return ""
        return self.let(text)

    # --- values ---------------------------------------------------------------------------------------------
    def type_of(self, position: int) -> str:
        return IR_TYPES[self.ops[position].type]

    def typed(self, position: int) -> str:
        return f"{self.type_of(position)} {self.values[position]}"

    def constant(self, position: int) -> int | None:
        """An operation's value, if it is a constant."""
        op = self.ops[position]
        return op.attr if op.name == "const" and isinstance(op.attr, int) else None

    def word(self, value: str, type: str = "i32") -> str:
        """The lower 32 bits of an integer."""
        if type == "i32":
            return value
        return self.let(f"{'trunc' if type == 'i64' else 'zext'} {type} {value} to i32")

    # --- state ----------------------------------------------------------------------------------------------
    def register(self, number: int) -> str:
        self.registers.add(number)
        return f"ptr addrspace({PRIVATE}) %R{number}"

    def predicate(self, number: int) -> str:
        self.predicates.add(number)
        return f"ptr addrspace({PRIVATE}) %P{number}"

    def read(self, number: int) -> str:
        return self.let(f"load i32, {self.register(number)}")

    def read_predicate(self, number: int) -> str:
        return self.let(f"load i1, {self.predicate(number)}")

    def write(self, place: str, type: str, value: str) -> None:
        """Set a variable under the current guard."""
        if self.guard:
            value = self.let(f"select i1 {self.guard}, {type} {value}, {type} {self.let(f'load {type}, {place}')}")
        self.emit(f"store {type} {value}, {place}")

    # --- operations -----------------------------------------------------------------------------------------
    def run(self, ops: list[Op]) -> None:
        """The operations of one step.

        Raises:
            UnsupportedInstruction: for operations that the back end has no equivalent of.
        """
        self.ops, self.values = ops, []
        for op in ops:
            handler = HANDLERS.get(op.name)
            if handler is None:
                raise refuse(f"there is no {op.name} on this chip")
            if op.type == "f64" or any(ops[a].type == "f64" for a in op.args):
                raise refuse("LLVM's R600 back end has no double precision")
            self.values.append(handler(self, op, *op.args) or "")

    def variables(self) -> list[str]:
        """Declarations for the start of the function."""
        space = f"addrspace({PRIVATE})"
        found = [f"  %R{n} = alloca i32, {space}" for n in sorted(self.registers)]
        found += [f"  %P{n} = alloca i1, {space}" for n in sorted(self.predicates)]
        if self.local_words:
            found.append(f"  %local = alloca [{self.local_words} x i32], align 16, {space}")
        return found


Handler = Callable[..., "str | None"]
HANDLERS: dict[str, Handler] = {}


def operation(*names: str) -> Callable[[Handler], Handler]:
    """Register a function that writes common operations; it receives the writer, the operation and its arguments'
    positions."""

    def register(function: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise ValueError(f"{name} is written twice")
            HANDLERS[name] = function
        return function

    return register


def literal(type: str, bits: Any) -> str:
    """A constant of a type of the common operations."""
    if type == "f32":
        return f"0x{widened(bits):016X}"
    if type == "f16":
        return f"0xH{bits:04X}"
    if type == "i1":
        return "true" if bits & 1 else "false"
    return str(bits)


def widened(bits: int) -> int:
    """The bits of a single, widened to double: LLVM IR writes floats in this form."""
    sign, exponent, fraction = bits >> 31 << 63, bits >> 23 & 255, bits & 0x7FFFFF
    if exponent == 255:
        return sign | 0x7FF << 52 | fraction << 29
    if exponent == 0 and fraction:
        shift = 24 - fraction.bit_length()
        return sign | (897 - shift) << 52 | (fraction << shift & 0x7FFFFF) << 29
    return sign | ((exponent + 896) << 52 if exponent else 0) | fraction << 29
