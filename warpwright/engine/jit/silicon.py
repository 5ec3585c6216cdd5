"""The special-function unit in LLVM text: the programs of ``engine/silicon_mufu.py``, the same for both engines.

``ww_mufu_<function>`` takes 32 lanes in four calls of 8; ``ww_mufu_<function>_1`` is for a value that all lanes share.
Both are written when a kernel needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpwright.engine.silicon_mufu import Programs, constants, program

if TYPE_CHECKING:
    from warpwright.engine.jit.arithmetic import Form
    from warpwright.engine.jit.function import Val
    from warpwright.isa.ops import Op

WIDE = 8
"""Lanes of one call: 64 bits each fill a few registers of any processor."""
NARROW_LIMIT = 1 << 31


class Writer:
    """The machine of ``silicon_mufu`` that writes LLVM instructions over i64 or <8 x i64>."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self.type = self.of("i64")

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
        return self.splat("i64", str(value))

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
        self.declared[symbol[1:]] = f"{symbol} = private unnamed_addr constant [{len(values)} x {element}] [{listed}], align 64"
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
    """The text of a ``mufu`` operation; f64 goes from the argument's upper word to the result's."""
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


def function(name: str) -> tuple[str, dict[str, str]]:
    """The definition of ``ww_mufu_<function>[_1]`` and what it declares."""
    which = name.removeprefix("ww_mufu_").removesuffix("_1")
    one = name.endswith("_1")
    writer = Writer(1 if one else WIDE)
    words, inner = writer.of("i32"), name if one else f"{name}_{WIDE}"
    wide = writer.put(f"zext {words} %x to {writer.type}")
    result = getattr(Programs(writer), which)(wide)
    cut = writer.put(f"trunc {writer.type} {result} to {words}")
    body = "\n".join(writer.lines)
    text = f"define internal {words} @{inner}({words} %x) noinline {{\n{body}\n  ret {words} {cut}\n}}\n"
    if one:
        return text, writer.declared
    lines = []
    parts = []
    for n in range(4):
        lanes = ", ".join(f"i32 {WIDE * n + lane}" for lane in range(WIDE))
        lines.append(f"  %p{n} = shufflevector <32 x i32> %x, <32 x i32> poison, <{WIDE} x i32> <{lanes}>")
        lines.append(f"  %r{n} = call {words} @{inner}({words} %p{n})")
        parts.append(f"%r{n}")
    for n in range(2):
        lanes = ", ".join(f"i32 {lane}" for lane in range(16))
        lines.append(f"  %q{n} = shufflevector {words} %r{2 * n}, {words} %r{2 * n + 1}, <16 x i32> <{lanes}>")
    lanes = ", ".join(f"i32 {lane}" for lane in range(32))
    lines.append(f"  %all = shufflevector <16 x i32> %q0, <16 x i32> %q1, <32 x i32> <{lanes}>")
    outer = "\n".join(lines)
    text += f"define internal <32 x i32> @{name}(<32 x i32> %x) noinline {{\n{outer}\n  ret <32 x i32> %all\n}}\n"
    return text, writer.declared
