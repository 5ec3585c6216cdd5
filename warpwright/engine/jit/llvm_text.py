"""LLVM text of values and masks.

A :class:`Val` is one operation's result.  Scalars are plain LLVM values, with the lane offsets recorded in their shape;
a vector form is created when needed and kept for the rest of the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from warpwright.engine.jit import shapes as sh
from warpwright.engine.jit.host_machine import AVX512, Registers
from warpwright.engine.jit.shapes import SCALAR_KIND, UNSET_KIND, VECTOR, VECTOR_KIND, WIDTH, Shape
from warpwright.engine.jit.wave import LLVM_TYPE, wave_of

FLOAT_BITS = {"f16": "i16", "f32": "i32", "f64": "i64"}
BYTE = 8


@dataclass(slots=True)
class Val:
    """A value of an operation: its type, shape and LLVM names."""

    type: str
    shape: Shape
    scalar: str = ""
    vector: str = ""
    parts: tuple[Val, ...] = ()
    """Words of an i32x2, i32x4 or packed i64."""
    rows: tuple[str, ...] = ()
    """The scalar of each row of lanes (``rowwise.py``)."""
    single: str = ""
    """The bits of a uniform i32 as a float, if it is better kept in a vector register."""
    bits: str = ""
    """The lanes of a predicate as an i32, on machines without mask registers."""
    place: str = ""
    """On those: the LLVM block that created ``vector``, the only one that uses it while there are ``bits``."""


@dataclass(slots=True)
class Masks:
    """The lanes of the current block or instruction."""

    bits: str
    """An integer with one bit per lane."""
    vector: str = ""
    """A vector of i1, created on demand."""


@dataclass(slots=True)
class ResumePoint:
    """A place at which the function can be resumed."""

    number: int
    kind: str
    """enter | body | chain | barrier."""
    block: int


@dataclass
class Text:
    """LLVM text and its values: everything independent of the kernel."""

    lanes: int = 32
    """Number of lanes of a wave, from the instruction set (``Program.lanes``)."""
    lines: list[str] = field(default_factory=list)
    globals: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    count: int = 0
    tables: dict[object, str] = field(default_factory=dict)
    bits_from: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Results of bitcasts: their source's LLVM type and name."""
    flushed: set[str] = field(default_factory=set)
    """Float words that are known not to be subnormal."""
    steps: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Pointers computed by adding bytes to others."""
    registers: Registers = AVX512
    """Registers of the machine.  Without mask registers a vector of i1 is as wide as the compared vector, and LLVM
    packs it at the end of a block: masks and predicates are then kept as an i32, and expanded in each block that needs
    lanes."""
    place: str = "entry"
    """The current LLVM block."""
    mask_type: str = field(init=False)
    """Type of a group's lanes, as an integer."""
    vec32: str = field(init=False)
    vec64: str = field(init=False)
    vecptr: str = field(init=False)
    vecbool: str = field(init=False)
    vecmask: str = field(init=False)
    """Type of a mask per lane."""
    all_lanes: tuple[int, ...] = field(init=False)
    entry_type: str = field(init=False)
    """Type of a waiting group: block number and, above 32 bits, lanes."""
    entry_bytes: int = field(init=False)
    row_bytes: int = field(init=False)
    """Size of a register in memory: one word per lane."""
    vector_types: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        width = wave_of(self.lanes)
        self.mask_type, self.all_lanes, self.row_bytes = width.mask_type, width.all, width.row_bytes
        self.entry_bytes, self.entry_type = width.entry_bytes, f"i{8 * width.entry_bytes}"
        self.vector_types = width.vector_types
        self.vec32, self.vec64, self.vecbool = (width.vector_types[type] for type in ("i32", "i64", "i1"))
        self.vecmask, self.vecptr = width.vector_types[width.mask_type], f"<{self.lanes} x ptr>"

    def vector_type(self, type: str) -> str:
        """LLVM type of a vector with one value of this type per lane."""
        return self.vector_types[type]

    # --- text -------------------------------------------------------------------------------------
    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def op(self, text: str) -> str:
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def bitcast(self, source: str, value: str, target: str) -> str:
        """A value's bits as another LLVM type; a bitcast of a bitcast returns the original value."""
        known, origin = self.bits_from.get(value, ("", ""))
        if known == target:
            return origin
        name = self.op(f"bitcast {source} {value} to {target}")
        self.bits_from[name] = (source, value)
        return name

    def label(self, name: str) -> None:
        self.place = name
        self.lines.append(f"{name}:")

    def new_label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def declare(self, name: str, result: str, arguments: str) -> str:
        """Declare an external function; returns its name with '@'."""
        self.declared[name] = f"declare {result} @{name}({arguments})"
        return "@" + name

    # --- constants --------------------------------------------------------------------------------
    def literal(self, type: str, bits: int) -> str:
        """Scalar operand for a known bit pattern."""
        bits &= (1 << WIDTH[type]) - 1
        if type == "i1":
            return "true" if bits else "false"
        if type in FLOAT_BITS:
            return f"bitcast ({FLOAT_BITS[type]} {bits} to {LLVM_TYPE[type]})"
        return str(bits)

    def literal_vector(self, type: str, lanes: Sequence[int]) -> str:
        """Vector operand for a known bit pattern in each lane."""
        key = ("literal", type, tuple(lanes))
        known = self.tables.get(key)
        if known is None:
            mask = (1 << WIDTH[type]) - 1
            integer = FLOAT_BITS.get(type, LLVM_TYPE[type])
            if type == "i1":
                known = "<" + ", ".join("i1 true" if v & 1 else "i1 false" for v in lanes) + ">"
            elif not any(v & mask for v in lanes):
                known = "zeroinitializer"
            else:
                known = "<" + ", ".join(f"{integer} {v & mask}" for v in lanes) + ">"
                if type in FLOAT_BITS:
                    known = f"bitcast (<{self.lanes} x {integer}> {known} to {self.vector_type(type)})"
            self.tables[key] = known
        return known

    # --- values -----------------------------------------------------------------------------------
    def constant(self, type: str, bits: int) -> Val:
        return Val(type, sh.constant(bits & ((1 << WIDTH[type]) - 1)))

    def scalar(self, value: Val) -> str:
        """The scalar part of a value (the value itself if uniform)."""
        if value.scalar:
            return value.scalar
        shape = value.shape
        if shape.kind == UNSET_KIND:
            return self.literal(value.type, 0)
        if shape.const is not None:
            return self.literal(value.type, shape.const)
        if value.parts and value.type == "i64":
            low, high = (self.op(f"zext i32 {self.scalar(p)} to i64") for p in value.parts)
            high = self.op(f"shl i64 {high}, 32")
            value.scalar = self.op(f"or i64 {low}, {high}")
            return value.scalar
        raise AssertionError(f"{value.type} value has no scalar form: {value}")

    def splat(self, type: str, scalar: str) -> str:
        """Broadcast a scalar to all lanes."""
        llvm, vec = LLVM_TYPE[type], self.vector_type(type)
        one = self.op(f"insertelement {vec} poison, {llvm} {scalar}, i64 0")
        return self.op(f"shufflevector {vec} {one}, {vec} poison, <{self.lanes} x i32> zeroinitializer")

    def vector(self, value: Val) -> str:
        """All lanes as an LLVM vector."""
        if value.bits and value.place != self.place:
            value.vector, value.place = self.lanes_of(value.bits), self.place
        if value.vector:
            return value.vector
        shape, type = value.shape, value.type
        if shape.kind == UNSET_KIND:
            return self.literal_vector(type, (0,) * self.lanes)
        if shape.kind == SCALAR_KIND:
            pattern = shape.pattern
            if shape.const is not None:
                value.vector = self.literal_vector(type, [shape.const + p for p in pattern or (0,) * self.lanes])
            else:
                value.vector = self.splat(type, self.scalar(value))
                if pattern is not None:
                    # Offsets are between bit patterns, whatever the type.
                    kind = FLOAT_BITS.get(type, type)
                    lanes = value.vector
                    if kind != type:
                        lanes = self.op(f"bitcast {self.vector_type(type)} {lanes} to {self.vector_type(kind)}")
                    lanes = self.op(f"add {self.vector_type(kind)} {lanes}, {self.literal_vector(kind, pattern)}")
                    if kind != type:
                        lanes = self.op(f"bitcast {self.vector_type(kind)} {lanes} to {self.vector_type(type)}")
                    value.vector = lanes
            return value.vector
        if value.parts and type == "i64":
            low, high = (
                self.op(f"zext {self.vector_type('i32')} {self.vector(p)} to {self.vector_type('i64')}")
                for p in value.parts
            )
            high = self.op(f"shl {self.vector_type('i64')} {high}, {self.literal_vector('i64', (32,) * self.lanes)}")
            value.vector = self.op(f"or {self.vector_type('i64')} {low}, {high}")
            return value.vector
        raise AssertionError(f"{type} value has no vector form: {value}")

    def operand(self, value: Val, vector: bool) -> str:
        return self.vector(value) if vector else self.scalar(value)

    def typed(self, type: str, vector: bool) -> str:
        return self.vector_types[type] if vector else LLVM_TYPE[type]

    def made(self, type: str, shape: Shape, name: str) -> Val:
        """A value for a new LLVM name, scalar or vector according to its shape."""
        if shape.kind == VECTOR_KIND:
            return Val(type, shape, vector=name, place=self.place if type == "i1" else "")
        return Val(type, shape, scalar=name)

    def words_of(self, value: Val, count: int) -> tuple[Val, ...]:
        """The 32-bit words of a value."""
        if value.parts:
            return value.parts
        if count == 1:
            return (value,)
        assert value.type == "i64"
        return (self.word(value, 0), self.word(value, 1))

    def word(self, value: Val, number: int) -> Val:
        """One 32-bit word of an i64."""
        if value.parts:
            return value.parts[number]
        shape = value.shape
        if shape.kind == SCALAR_KIND and shape.pattern is None and shape.const is not None:
            return self.constant("i32", shape.const >> 32 * number)
        if shape.kind == UNSET_KIND:
            return self.constant("i32", 0)
        if shape.kind == SCALAR_KIND and (number == 0 or shape.pattern is None):
            name = self.scalar(value)
            if number:
                name = self.op(f"lshr i64 {name}, 32")
            name = self.op(f"trunc i64 {name} to i32")
            pattern = None if shape.pattern is None else sh._fit(shape.pattern, 32)
            return Val("i32", Shape(SCALAR_KIND, pattern, None, min(shape.align, 1 << 31)), scalar=name)
        name = self.vector(value)
        wide = self.vector_type("i64")
        if number:
            name = self.op(f"lshr {wide} {name}, {self.literal_vector('i64', (32,) * self.lanes)}")
        return Val("i32", VECTOR, vector=self.op(f"trunc {wide} {name} to {self.vector_type('i32')}"))

    # --- masks ------------------------------------------------------------------------------------
    def mask_vector(self, mask: Masks) -> str:
        """The lanes as a vector of i1, for use in the current LLVM block."""
        if not self.registers.masks:
            return self.lanes_of(mask.bits)
        if not mask.vector:
            mask.vector = self.lanes_of(mask.bits)
        return mask.vector

    def mask_lanes(self, mask: Masks, order: Sequence[int]) -> str:
        """Given lanes of a mask as a vector of i1."""
        if order == self.all_lanes:
            return self.mask_vector(mask)
        if not self.registers.masks:
            return self.lanes_of(mask.bits, order)
        lanes = ", ".join(f"i32 {n}" for n in order)
        vec = self.vector_type("i1")
        return self.op(f"shufflevector {vec} {self.mask_vector(mask)}, {vec} poison, <{len(order)} x i32> <{lanes}>")

    def lanes_of(self, bits: str, order: Sequence[int] = ()) -> str:
        """An i1 for each lane (or for the given lane numbers) of a mask."""
        order = order or self.all_lanes
        if bits == "-1":
            return self.literal_vector("i1", (1,) * len(order))
        if self.registers.masks:
            return self.op(f"bitcast {self.mask_type} {bits} to <{self.lanes} x i1>")
        key = ("lanes", bits, self.place, order)
        if key not in self.tables:
            vec = f"<{len(order)} x {self.mask_type}>"
            one = self.op(f"insertelement {vec} poison, {self.mask_type} {bits}, i64 0")
            every = self.op(f"shufflevector {vec} {one}, {vec} poison, <{len(order)} x i32> zeroinitializer")
            own = self.op(f"and {vec} {every}, {self.literal_vector(self.mask_type, [1 << n for n in order])}")
            self.tables[key] = self.op(f"icmp ne {vec} {own}, zeroinitializer")
        return self.tables[key]

    def bits_of(self, vector: str) -> str:
        """A vector of i1 as a mask."""
        if not self.registers.halves:
            return self.op(f"bitcast <{self.lanes} x i1> {vector} to {self.mask_type}")
        # Pack the bits of each register separately: packing them together first would move lanes between halves.
        words, part = self.op(f"sext <{self.lanes} x i1> {vector} to {self.vector_type('i32')}"), f"<{BYTE} x i32>"
        total = ""
        for first in range(0, self.lanes, BYTE):
            lanes = ", ".join(f"i32 {n}" for n in range(first, first + BYTE))
            some = self.op(
                f"shufflevector {self.vector_type('i32')} {words}, {self.vector_type('i32')} poison, {part} <{lanes}>"
            )
            some = self.op(f"icmp slt {part} {some}, zeroinitializer")
            bits = self.op(f"zext i{BYTE} {self.op(f'bitcast <{BYTE} x i1> {some} to i{BYTE}')} to {self.mask_type}")
            total = (
                self.op(f"or {self.mask_type} {total}, {self.op(f'shl {self.mask_type} {bits}, {first}')}")
                if total
                else bits
            )
        return total

    def predicate(self, value: Val) -> str:
        """The lanes of an i1 as a mask."""
        shape = value.shape
        if value.bits:
            return value.bits
        if shape.kind != VECTOR_KIND:
            if shape.kind == UNSET_KIND or shape.const is not None:
                first = shape.const or 0
                return str(sum((first + p & 1) << n for n, p in enumerate(shape.pattern or (0,) * self.lanes)))
            if shape.pattern is None:
                return self.op(f"sext i1 {self.scalar(value)} to {self.mask_type}")
        # The values of lanes that do not execute are undefined.
        name = self.bits_of(self.op(f"freeze <{self.lanes} x i1> {self.vector(value)}"))
        if value.place == self.place:
            value.bits = name
        return name

    def choose(self, bits: str, first: str, second: str) -> str:
        """The mask with bits from one mask where ``bits`` is set, else from another."""
        different = self.op(f"and {self.mask_type} {self.op(f'xor {self.mask_type} {first}, {second}')}, {bits}")
        return self.op(f"xor {self.mask_type} {second}, {different}")

    def wide_mask(self, bits: str) -> str:
        """A mask as an i64, as in the fields of WARP."""
        return bits if self.lanes == 64 else self.op(f"zext {self.mask_type} {bits} to i64")

    def lowest_lane(self, bits: str, some: bool = False) -> str:
        """Number of a mask's lowest lane, of the mask's own type; ``some`` if it is known to have one."""
        name, kind = f"llvm.cttz.{self.mask_type}", self.mask_type
        self.declared[name] = f"declare {kind} @{name}({kind}, i1)"
        return self.op(f"call {kind} @{name}({kind} {bits}, i1 {'true' if some else 'false'})")

    def and_mask(self, mask: Masks, condition: Val, inverted: bool = False) -> Masks:
        """Lanes of ``mask`` where a predicate holds (or does not)."""
        shape = condition.shape
        if shape.kind != VECTOR_KIND and shape.pattern is None:
            if shape.const is not None or shape.kind == UNSET_KIND:
                holds = bool((shape.const or 0) & 1) != inverted
                return mask if holds else Masks("0")
            name = self.scalar(condition)
            first, second = ("0", mask.bits) if inverted else (mask.bits, "0")
            return Masks(self.op(f"select i1 {name}, {self.mask_type} {first}, {self.mask_type} {second}"))
        if not self.registers.masks:
            name = self.predicate(condition)
            return Masks(
                self.op(
                    f"and {self.mask_type} {mask.bits}, {self.op(f'xor {self.mask_type} {name}, -1') if inverted else name}"
                )
            )
        name = self.vector(condition)
        vec, zero = self.vector_type("i1"), self.literal_vector("i1", (0,) * self.lanes)
        inside = self.mask_vector(mask)
        if inverted:
            chosen = self.op(f"select {vec} {name}, {vec} {zero}, {vec} {inside}")
        else:
            chosen = self.op(f"select {vec} {name}, {vec} {inside}, {vec} {zero}")
        return Masks(self.bits_of(chosen), chosen)

    # --- structures -------------------------------------------------------------------------------
    def field(self, base: str, offset: int) -> str:
        """Pointer ``offset`` bytes after another."""
        if not offset:
            return base
        root, before = self.steps.get(base, (base, 0))
        name = self.op(f"getelementptr i8, ptr {root}, i64 {before + offset}")
        self.steps[name] = (root, before + offset)
        return name

    def load_field(self, base: str, offset: int, type: str = "i64") -> str:
        return self.op(f"load {type}, ptr {self.field(base, offset)}")

    def store_field(self, base: str, offset: int, value: str, type: str = "i64") -> None:
        self.emit(f"store {type} {value}, ptr {self.field(base, offset)}")

    def table(self, key: object, element: str, values: Sequence[int] | str, count: int) -> str:
        """A constant array in the module; returns its name."""
        known = self.tables.get(key)
        if known is None:
            known = f"@table{len(self.globals)}"
            body = values if isinstance(values, str) else ", ".join(f"{element} {v}" for v in values)
            self.globals.append(f"{known} = private unnamed_addr constant [{count} x {element}] [{body}], align 64")
            self.tables[key] = known
        return known
