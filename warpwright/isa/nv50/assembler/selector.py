"""Common parts of instruction selection: values, constants in registers, tests and address registers.

A value of up to 32 bits is a virtual register or a constant; narrow integers are zero-extended.  A 64-bit value is a
pair of those; a truth value is a register of all ones or all zeros.  ``cleanup`` removes what is not used in the end,
above all the upper words of addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from warpwright.isa.nv50.assembler.virtual_instructions import Code, Inst, word
from warpwright.isa.nv50.fields import Token, address_register, condition_register, immediate
from warpwright.isa.ops import Op
from warpwright.isa.program import Kind, Operand
from warpwright.isa.ptx.meaning import UnsupportedInstruction

MASK32 = 0xFFFFFFFF
CARRY_REGISTER = 3
"""The condition register for multi-word sums; the others hold tests."""
TEST_REGISTERS = 3
ADDRESS_REGISTERS = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Const:
    """A known value of up to 32 bits."""

    bits: int


@dataclass(frozen=True, slots=True)
class Float:
    """A float register whose sign, magnitude or flush modifiers are to be applied by the instruction that reads it."""

    register: int
    negate: bool = False
    absolute: bool = False


Word = int | Const | Float
Value = Word | tuple[Word, ...]
"""Several words: 64 bits or a vector, lowest first."""


def refuse(why: str) -> UnsupportedInstruction:
    return UnsupportedInstruction(why)


@dataclass
class Selector:
    """Chooses the instructions of one kernel."""

    code: Code
    arch: int
    header_bytes: int
    """Bytes of shared memory before the kernel's own."""
    parameter_base: int
    registers: dict[int, int] = field(default_factory=dict)
    """Virtual register for each register of the common operations."""
    predicates: dict[int, int] = field(default_factory=dict)
    labels: dict[object, int] = field(default_factory=dict)
    """Numbers that represent code addresses."""
    line: tuple[str, int] | None = None
    guard: tuple[str, int] | None = None
    clean: set[int] = field(default_factory=set)
    """Registers that hold results of float arithmetic: no subnormals, only canonical NaNs."""
    short: set[int] = field(default_factory=set)
    """Registers known to be less than 2**16: extents and indices of blocks and grids, and results of masks and
    shifts."""
    ops: list[Op] = field(default_factory=list)
    values: dict[int, Value] = field(default_factory=dict)
    position: int = 0
    """Register with the thread's position; it starts in ``$r0``."""
    exchange_base: int = 0
    """Shared-memory address of the words for exchanges between lanes; 0 if there are none."""
    exchange: tuple[Word, Word] | None = None
    """Lane number and address of the warp's words, if known."""
    barrier_result: int = 0
    """Result of the block's last reducing barrier."""

    def __post_init__(self) -> None:
        self.known: dict[int, Word] = {}
        self.constants: dict[int, int] = {}
        self.tests: dict[int, int] = {}
        self.next_test = 0
        self.addresses: dict[int, int] = {}
        self.next_address = 0

    # --- state of a block -------------------------------------------------------------------------
    def begin_block(self) -> None:
        """Forget what was known about registers, because control may come from another block."""
        self.known.clear()
        self.constants.clear()
        self.tests.clear()
        self.addresses.clear()
        self.exchange = None

    def changed(self, number: int) -> None:
        """Record that a virtual register has a new value."""
        self.known.pop(number, None)
        for register in [
            r for r, v in self.known.items() if v == number or (isinstance(v, Float) and v.register == number)
        ]:
            del self.known[register]
        self.tests.pop(number, None)
        self.addresses.pop(number, None)
        self.clean.discard(number)
        self.short.discard(number)

    # --- emitting ---------------------------------------------------------------------------------
    def emit(self, opcode: str, *tokens: Token, guarded: bool = False, label: str = "", tail: str = "") -> Inst:
        guard = self.guard if guarded else None
        made = Inst(opcode, list(tokens), guard, tail, label, self.line)
        self.code.instructions.append(made)
        return made

    def new(self, words: int = 1) -> int:
        return self.code.new(words)

    def result(self, opcode: str, before: tuple[Token, ...], *after: Token) -> int:
        """A new register that an instruction writes; ``before`` and ``after`` are the tokens around it."""
        d = self.new()
        self.emit(opcode, *before, word(d), *after)
        return d

    # --- words ------------------------------------------------------------------------------------
    def raw(self, value: Value) -> int | Const:
        """A word with all pending modifiers applied."""
        if isinstance(value, tuple):
            return self.raw(value[0])
        if isinstance(value, Float):
            marks = tuple(m for m, asked in (("neg", value.negate), ("abs", value.absolute)) if asked)
            d = self.result("cvt", ("cvt", *marks, "f32"), "f32", word(value.register))
            self.clean.add(d)
            return d
        return value

    def reg(self, value: Value) -> int:
        """A register that holds a word."""
        found = self.raw(value)
        if not isinstance(found, Const):
            return found
        bits = found.bits & MASK32
        if bits not in self.constants:
            self.constants[bits] = self.result("mov", ("mov", "b32"), immediate(bits))
        return self.constants[bits]

    def src(self, value: Value) -> Operand:
        return word(self.reg(value))

    def src_or_imm(self, value: Value) -> Operand:
        """For instructions with an immediate form."""
        found = self.raw(value)
        return immediate(found.bits) if isinstance(found, Const) else word(found)

    def float_src(self, value: Value) -> Operand:
        """A float source with its sign and magnitude as modifiers."""
        if isinstance(value, Float):
            return replace(word(value.register), negate=value.negate, absolute=value.absolute)
        return self.src(value)

    def pair(self, value: Value) -> tuple[Word, Word]:
        assert isinstance(value, tuple)
        return value[0], value[1]

    # --- truth values -----------------------------------------------------------------------------
    def test(self, value: Value) -> int:
        """A condition register on which ``lg`` is true where a truth value is true."""
        number = self.reg(value)
        if number in self.tests:
            return self.tests[number]
        chosen = self.next_test
        self.next_test = (chosen + 1) % TEST_REGISTERS
        self.tests = {n: c for n, c in self.tests.items() if c != chosen}
        self.emit(
            "logic", "or", "b32", condition_register(chosen), Operand(Kind.NAME, name="#"), word(number), word(number)
        )
        self.tests[number] = chosen
        return chosen

    def choose(self, condition: Value, yes: Value, no: Value) -> Word:
        """Select one of two words."""
        c, x, y = self.raw(condition), self.raw(yes), self.raw(no)
        if isinstance(c, Const):
            return x if c.bits & 1 else y
        if x == y:
            return x
        d = self.new()
        otherwise = self.src_or_imm(y)
        chosen = self.src(x)
        tested = self.test(c)
        self.emit("mov", "mov", "b32", word(d), otherwise)
        self.emit("mov", "mov", "b32", word(d), chosen).guard = ("lg", tested)
        return d

    # --- addresses --------------------------------------------------------------------------------
    def address_of(self, value: Word) -> Operand:
        """An address register with a word's lower 16 bits."""
        found = self.raw(value)
        if isinstance(found, int) and found in self.addresses:
            return address_register(self.addresses[found])
        chosen = ADDRESS_REGISTERS[self.next_address]
        self.next_address = (self.next_address + 1) % len(ADDRESS_REGISTERS)
        self.addresses = {n: a for n, a in self.addresses.items() if a != chosen}
        a = address_register(chosen)
        if isinstance(found, Const):
            self.emit("add_a", "add", a, address_register(0), immediate(found.bits & 0xFFFF))
        else:
            self.emit("shl_to_a", "shl", a, word(found), immediate(0))
            self.addresses[found] = chosen
        return a

    # --- operations -------------------------------------------------------------------------------
    def run(self, ops: list[Op], guard: tuple[str, int, bool] | None) -> None:
        """Emit one step.

        Raises:
            UnsupportedInstruction: for operations without an equivalent on the chip.
        """
        self.ops, self.values = ops, {}
        self.guard = None
        if guard is not None:
            number = self.predicate(guard[1])
            self.guard = ("e" if guard[2] else "lg", self.test(self.known.get(number, number)))
        for n, op in enumerate(ops):
            handler = HANDLERS.get(op.name)
            if handler is None:
                raise refuse(f"there is no {op.name} on this chip")
            made = handler(self, op, *(self.values[a] for a in op.args))
            if made is not None:
                self.values[n] = made

    def register(self, number: int) -> int:
        if number not in self.registers:
            self.registers[number] = self.new()
        return self.registers[number]

    def predicate(self, number: int) -> int:
        if number not in self.predicates:
            self.predicates[number] = self.new()
        return self.predicates[number]

    def write(self, number: int, value: Word) -> None:
        """Set a virtual register of the program."""
        found = self.raw(value)
        if found == number:
            return
        if self.guard is None:
            self.emit("mov", "mov", "b32", word(number), self.src_or_imm(found))
        else:
            self.emit("mov", "mov", "b32", word(number), self.src(found), guarded=True)
        was_clean = isinstance(found, int) and found in self.clean
        self.changed(number)
        if self.guard is None:
            self.known[number] = found
            if was_clean:
                self.clean.add(number)


Handler = Callable[..., "Value | None"]
HANDLERS: dict[str, Handler] = {}


def select(*names: str) -> Callable[[Handler], Handler]:
    """Register a function that selects instructions for the given operations."""

    def register(function: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise ValueError(f"{name} is chosen twice")
            HANDLERS[name] = function
        return function

    return register


def width(type: str) -> int:
    """Bits of an integer type."""
    return int(type[1:])
