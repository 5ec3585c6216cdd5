"""LLVM text for the special-function unit and the tensor cores' sums.

The unit executes the programs of ``engine/silicon_mufu.py``, which both engines share.  ``ww_mufu_<function>``
processes all lanes; ``ww_mufu_<function>_1`` processes a uniform value. Both are generated when a kernel needs them.
:class:`Fused` implements the steps of ``silicon_mma.sum_of_products``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from warpwright.engine.jit.wave import Wave
from warpwright.engine.silicon_mma import LOWEST, dropped, limits, unit
from warpwright.engine.silicon_mufu import Programs, constants, program

if TYPE_CHECKING:
    from warpwright.engine.jit.llvm_text import Text, Val
    from warpwright.engine.jit.operation_form import Form
    from warpwright.isa.ops import Op

NARROW_LIMIT = 1 << 31


class Writer:
    """The machine of ``silicon_mufu`` that writes LLVM instructions on i64 or on vectors of them."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self.element = "i64"

    @property
    def type(self) -> str:
        return self.of(self.element)

    def of(self, element: str) -> str:
        return element if self.width == 1 else f"<{self.width} x {element}>"

    def splat(self, element: str, text: str) -> str:
        return text if self.width == 1 else "<" + ", ".join([f"{element} {text}"] * self.width) + ">"

    def put(self, text: str) -> str:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def binary(self, operation: str, a: str, b: str) -> str:
        return self.put(f"{operation} {self.type} {a}, {b}")

    def const(self, value: int) -> str:
        return self.splat(self.element, str(value))

    def short(self, a: str, steps: Callable[[str], str]) -> str:
        """Whether twice as many lanes fit a register."""
        wide, narrow = self.type, self.of("i32")
        given = self.put(f"trunc {wide} {a} to {narrow}")
        self.element = "i32"
        result = steps(given)
        self.element = "i64"
        return self.put(f"sext {narrow} {result} to {wide}")

    def add(self, a: str, b: str) -> str:
        return self.binary("add", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.binary("sub", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.binary("mul", a, b)

    def and_(self, a: str, b: str) -> str:
        return self.binary("and", a, b)

    def or_(self, a: str, b: str) -> str:
        return self.binary("or", a, b)

    def xor(self, a: str, b: str) -> str:
        return self.binary("xor", a, b)

    def shl(self, a: str, b: str) -> str:
        return self.binary("shl", a, b)

    def shr(self, a: str, b: str) -> str:
        return self.binary("ashr", a, b)

    def msb(self, a: str) -> str:
        """The exponent of the number as an exact double: 2**52 + a - 2**52."""
        double, big = self.of("double"), 0x433 << 52
        high = self.put(f"bitcast {self.type} {self.or_(a, self.const(big))} to {double}")
        exact = self.put(f"fsub {double} {high}, {self.splat('double', f'0x{big:016X}')}")
        bits = self.put(f"bitcast {double} {exact} to {self.type}")
        return self.add(self.binary("lshr", bits, self.const(52)), self.const(-1023))

    def eq(self, a: str, b: str) -> str:
        return self.binary("icmp eq", a, b)

    def lt(self, a: str, b: str) -> str:
        return self.binary("icmp slt", a, b)

    def select(self, condition: str, a: str, b: str) -> str:
        return self.put(f"select {self.of('i1')} {condition}, {self.type} {a}, {self.type} {b}")

    def table(self, name: str, index: str) -> str:
        values = constants()[name].tolist()
        element = "i32" if max(abs(v) for v in values) < NARROW_LIMIT else "i64"
        symbol = "@ww_table_" + name.replace(".", "_")
        listed = ", ".join(f"{element} {v}" for v in values)
        self.declared[symbol[1:]] = (
            f"{symbol} = private unnamed_addr constant [{len(values)} x {element}] [{listed}], align 64"
        )
        pointers = self.put(f"getelementptr {element}, ptr {symbol}, {self.type} {index}")
        if self.width == 1:
            found = self.put(f"load {element}, ptr {pointers}")
        else:
            gather = f"llvm.masked.gather.v{self.width}{element}.v{self.width}p0"
            kind = self.of(element)
            self.declared[gather] = f"declare {kind} @{gather}({self.of('ptr')}, i32, {self.of('i1')}, {kind})"
            found = self.put(
                f"call {kind} @{gather}({self.of('ptr')} {pointers}, i32 {4 if element == 'i32' else 8}, "
                f"{self.of('i1')} {self.splat('i1', 'true')}, {kind} poison)"
            )
        return found if element == "i64" else self.put(f"sext {self.of('i32')} {found} to {self.type}")


def call(f: Form, op: Op, args: list[Val]) -> str:
    """The text of a ``mufu`` operation; for f64, from the argument's upper word to the result's upper word."""
    w, type = f.w, op.type
    value = w.operand(args[0], f.vector)
    try:
        which = program(op.attr, type)
    except KeyError as missing:
        raise NotImplementedError(str(missing.args[0])) from None
    if type == "f32":
        word = f.cast("bitcast", "f32", "i32", value)
    elif type == "f64":
        upper = f.op("lshr", "i64", f.cast("bitcast", "f64", "i64", value), f.const("i64", 32))
        word = f.cast("trunc", "i64", "i32", upper)
    else:
        word = f.cast("zext", "i16", "i32", f.cast("bitcast", type, "i16", value))
    name, kind = f"ww_mufu_{which}" + ("" if f.vector else "_1"), f.type("i32")
    w.declare(name, kind, kind)
    result = w.op(f"call {kind} @{name}({kind} {word})")
    if type == "f32":
        return f.cast("bitcast", "i32", "f32", result)
    if type == "f64":
        upper = f.op("shl", "i64", f.cast("zext", "i32", "i64", result), f.const("i64", 32))
        return f.cast("bitcast", "i64", "f64", upper)
    return f.cast("bitcast", "i16", type, f.cast("trunc", "i32", "i16", result))


def function(name: str, wave: Wave) -> tuple[str, dict[str, str]]:
    """The definition of ``ww_mufu_<function>[_1]`` and what it declares."""
    which = name.removeprefix("ww_mufu_").removesuffix("_1")
    writer = Writer(1 if name.endswith("_1") else wave.lanes)
    words = writer.of("i32")
    wide = writer.put(f"zext {words} %x to {writer.type}")
    result = getattr(Programs(writer), which)(wide)
    cut = writer.put(f"trunc {writer.type} {result} to {words}")
    body = "\n".join(writer.lines)
    return f"define {words} @{name}({words} %x) noinline {{\n{body}\n  ret {words} {cut}\n}}\n", writer.declared


class Fused:
    """Steps of a fused sum on vectors of doubles, as defined in ``silicon_mma``."""

    def __init__(self, t: Text, lanes: int, arch: int, element: str, accumulator: str, k: int) -> None:
        """``k``: number of products per result (for a sparse product, of selected ones)."""
        self.t, self.lanes, self.element, self.accumulator = t, lanes, element, accumulator
        self.type, self.words = f"<{lanes} x double>", f"<{lanes} x i64>"
        adder = unit(arch)
        self.chunk, self.bits = adder.chunk(element, k), adder.fraction(element)
        self.zero_bits = dropped(element, accumulator)

    def number(self, value: float) -> str:
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        return "<" + ", ".join([f"double 0x{bits:016X}"] * self.lanes) + ">"

    def masked(self, x: str, mask: int) -> str:
        """x with only some of its bits."""
        word = self.t.op(f"bitcast {self.type} {x} to {self.words}")
        literal = "<" + ", ".join([f"i64 {mask}"] * self.lanes) + ">"
        return self.t.op(f"bitcast {self.words} {self.t.op(f'and {self.words} {word}, {literal}')} to {self.type}")

    def binary(self, operation: str, x: str, y: str) -> str:
        return self.t.op(f"{operation} {self.type} {x}, {y}")

    def call(self, name: str, *values: str) -> str:
        stem = f"llvm.{name}.v{self.lanes}f64"
        self.t.declared[stem] = f"declare {self.type} @{stem}({', '.join([self.type] * len(values))})"
        return self.t.op(f"call {self.type} @{stem}({', '.join(f'{self.type} {v}' for v in values)})")

    def select(self, condition: str, x: str, y: str) -> str:
        return self.t.op(f"select <{self.lanes} x i1> {condition}, {self.type} {x}, {self.type} {y}")

    def larger(self, x: str, y: str) -> str:
        return self.select(self.binary("fcmp ogt", x, y), x, y)

    def powers(self, form: str, x: str) -> str:
        """2**exponent; 0 for zeros."""
        smallest, largest = (self.number(v) for v in limits(form))
        power = self.larger(self.masked(x, 0x7FF << 52), smallest)
        power = self.select(self.binary("fcmp olt", power, largest), power, largest)
        return self.select(self.binary("fcmp oeq", x, self.number(0.0)), self.number(0.0), power)

    def settle(self, x: str) -> str:
        """Truncate to f32 or round to f16, as doubles."""
        smallest, largest = limits(self.accumulator)
        size = self.call("fabs", x)
        if self.accumulator == "f16":
            power = self.larger(self.masked(x, 0x7FF << 52), self.number(smallest))
            shift = self.binary("fmul", power, self.number(1.5 * 2.0**42))
            rounded = self.binary("fsub", self.binary("fadd", x, shift), shift)
            infinite = self.call("copysign", self.number(float("inf")), x)
            beyond = self.binary("fcmp oge", self.call("fabs", rounded), self.number(largest))
            rounded = self.select(beyond, infinite, rounded)
            rounded = self.select(self.binary("fcmp oeq", size, self.number(float("inf"))), x, rounded)
            return self.binary("fadd", rounded, self.number(0.0))
        floats, ints = f"<{self.lanes} x float>", f"<{self.lanes} x i32>"
        short = self.t.op(f"fptrunc {self.type} {self.masked(x, 0xFFFFFFFFE0000000)} to {floats}")
        back = self.t.op(f"fpext {floats} {short} to {self.type}")
        small = self.binary("fcmp olt", size, self.number(1.0))
        above = self.binary("fcmp ogt", self.call("fabs", back), size)
        away = self.t.op(f"and <{self.lanes} x i1> {small}, {above}")
        word = self.t.op(f"bitcast {floats} {short} to {ints}")
        word = self.t.op(f"add {ints} {word}, {self.t.op(f'sext <{self.lanes} x i1> {away} to {ints}')}")
        if self.zero_bits:
            mask = "<" + ", ".join([f"i32 {-1 << self.zero_bits}"] * self.lanes) + ">"
            word = self.t.op(f"and {ints} {word}, {mask}")
        back = self.t.op(f"fpext {floats} {self.t.op(f'bitcast {ints} {word} to {floats}')} to {self.type}")
        return self.binary("fadd", back, self.number(0.0))

    def sum(self, pairs: list[tuple[str, str, str, str]], total: str) -> str:
        """One chunk: (a, b, power of a, power of b) of each product, and the accumulator."""
        largest = self.larger(self.powers(self.accumulator, total), self.number(2.0**LOWEST))
        for _, _, power_a, power_b in pairs:
            largest = self.larger(self.binary("fmul", power_a, power_b), largest)
        scale = self.binary("fdiv", self.number(2.0**self.bits), largest)
        added = self.call("trunc", self.binary("fmul", total, scale))
        for a, b, _, _ in pairs:
            product = self.binary("fmul", self.binary("fmul", a, b), scale)
            added = self.binary("fadd", added, self.call("trunc", product))
        return self.settle(self.binary("fmul", added, self.binary("fmul", largest, self.number(2.0**-self.bits))))
