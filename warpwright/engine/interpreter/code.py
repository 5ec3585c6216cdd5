"""Generates Python code for lowered instructions: one function of (warp, executing lanes) over NumPy arrays each.

A value is an array of raw bits with one element for each lane (uint8 to uint64; bool for i1; shape (2, lanes) or
(4, lanes) for i32x2 and i32x4).  Arithmetic on bits is NumPy's; floats go through ``numerics``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine import numerics, wgmma
from warpwright.engine.blocks import recorded_accesses
from warpwright.engine.interpreter.gather_scatter import mask_bits, mask_dtype
from warpwright.isa.ops import WARP_LANES, WARP_ONLY, Access, GroupProduct, Lowered, Op

Array = npt.NDArray[Any]
BITS = {"i1": 1, "i8": 8, "i16": 16, "f16": 16, "bf16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}
CONTROL = frozenset(
    ("branch", "branch_indirect", "exit", "trap", "bssy", "bsync", "break", "warpsync", "yield", "nanosleep")
) | {"barrier", "barrier_red", "push", "pop", "call"}


def dtype(type: str) -> str:
    """NumPy dtype of a value's elements."""
    return "?" if type == "i1" else f"u{BITS[type] // 8}"


NIBBLES = np.arange(0, 16, 4, dtype=np.uint32)


# --- helpers that the generated code calls --------------------------------------------------------
def shl(x: Array, by: Array) -> Array:
    width = x.dtype.itemsize * 8
    one = x.dtype.type
    return np.where(by < one(width), x << (by & one(width - 1)), one(0))


def lshr(x: Array, by: Array) -> Array:
    width = x.dtype.itemsize * 8
    one = x.dtype.type
    return np.where(by < one(width), x >> (by & one(width - 1)), one(0))


def ashr(x: Array, by: Array) -> Array:
    width = x.dtype.itemsize * 8
    signed = f"i{x.dtype.itemsize}"
    return (x.view(signed) >> np.minimum(by, by.dtype.type(width - 1)).view(signed)).view(x.dtype)


def sext(x: Array, to: str) -> Array:
    if x.dtype == np.bool_:
        return np.where(x, np.array(-1).astype(to), np.array(0).astype(to))
    return x.view(f"i{x.dtype.itemsize}").astype("i" + to[1:]).view(to)


def umulhi(x: Array, y: Array) -> Array:
    if x.dtype == np.uint32:
        return (x.astype(np.uint64) * y >> np.uint64(32)).astype(np.uint32)
    mask, by = np.uint64(0xFFFFFFFF), np.uint64(32)
    xl, xh, yl, yh = x & mask, x >> by, y & mask, y >> by
    middle = xh * yl + (xl * yl >> by)
    other = xl * yh + (middle & mask)
    return xh * yh + (middle >> by) + (other >> by)


def smulhi(x: Array, y: Array) -> Array:
    signed = f"i{x.dtype.itemsize}"
    zero = x.dtype.type(0)
    result = umulhi(x, y)
    result = result - np.where(x.view(signed) < 0, y, zero)
    return result - np.where(y.view(signed) < 0, x, zero)


def clz(x: Array) -> Array:
    width = x.dtype.itemsize * 8
    for shift in [s for s in (1, 2, 4, 8, 16, 32) if s < width]:
        x = x | x >> x.dtype.type(shift)
    return (x.dtype.type(width) - np.bitwise_count(x)).astype(x.dtype)


def bitreverse(x: Array) -> Array:
    size = x.dtype.itemsize
    bits = np.unpackbits(x.view(np.uint8).reshape(-1, size), axis=1, bitorder="little")
    return np.packbits(bits[:, ::-1], axis=1, bitorder="little").view(x.dtype).reshape(-1)


def lop3(a: Array, b: Array, c: Array, table: int) -> Array:
    result = np.zeros_like(a)
    for row in range(8):
        if table >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


def prmt(a: Array, selector: Array, c: Array) -> Array:
    both = (a.astype(np.uint64) | c.astype(np.uint64) << np.uint64(32)).view(np.uint8).reshape(-1, 8)
    choices = selector[:, None] >> NIBBLES & np.uint32(15)
    bytes = np.take_along_axis(both, choices & np.uint32(7), axis=1)
    signs = (bytes.view(np.int8) >> 7).view(np.uint8)
    return np.where(choices > 7, signs, bytes).view(np.uint32).reshape(-1)


def full(bits: int, m: Array) -> Array:
    """A mask in every lane."""
    return np.full(len(m), bits, mask_dtype(len(m)))


def match_any(x: Array, m: Array) -> Array:
    same = (x[:, None] == x[None, :]) & m[None, :]
    return np.packbits(same, axis=1, bitorder="little").view(mask_dtype(len(m))).reshape(-1)


REDUCTIONS: dict[str, Callable[[Array], Any]] = {
    "add": lambda v: np.add.reduce(v, dtype=np.uint32),
    "umin": np.min,
    "umax": np.max,
    "smin": lambda v: np.min(v.view(np.int32)).view(np.uint32),
    "smax": lambda v: np.max(v.view(np.int32)).view(np.uint32),
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}


def redux(x: Array, how: str, m: Array) -> Array:
    return np.full(len(x), REDUCTIONS[how](x[m]), np.uint32)


def mma(attr: Any, *arguments: Array) -> Array:
    registers = numerics.mma(attr, list(arguments))
    return np.stack(registers + [np.zeros(32, np.uint32)] * (4 - len(registers)))


def group_product(how: GroupProduct, arguments: Sequence[Array], warp: Any, m: Array) -> Array:
    def read(addresses: Array, size: int) -> Array:
        words: Array = warp.load(addresses, Access("shared", size), m, False)
        return words

    return np.stack(wgmma.product(how, arguments, read))


HELPERS: dict[str, Any] = {
    "np": np,
    "N": numerics,
    "mask_bits": mask_bits,
    **{f.__name__: f for f in (shl, lshr, ashr, sext, umulhi, smulhi, clz, bitreverse, lop3, prmt, full, match_any)},
    "redux": redux,
    "mma": mma,
    "group_product": group_product,
}

INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass(slots=True)
class Code:
    """One instruction, ready to run."""

    run: Callable[[Any, Array, Sequence[Any]], Any] | None
    """Executes everything except the control operation for a warp, lanes and ``values``; returns the control
    operation's arguments."""
    guard: tuple[str, int, bool] | None
    control: str = ""
    attr: Any = None
    records: int = 0
    """Number of memory records in a trace."""
    values: Sequence[Any] = ()
    """What distinguishes the instruction from others with the same function: register numbers, constants, kinds of
    access."""


@lru_cache(maxsize=1 << 13)
def function_of(source: str) -> Callable[[Any, Array, Sequence[Any]], Any]:
    """The Python function for a text; instructions of the same form share it."""
    namespace = dict(HELPERS)
    exec(compile(source, "<lowered instruction>", "exec"), namespace)
    return namespace["run"]


class Writer:
    """Writes the function of one instruction."""

    def __init__(self, lowered: Lowered, lanes: int) -> None:
        self.lowered = lowered
        self.lanes = lanes
        self.values: list[Any] = []
        self.lines: list[str] = []
        self.recorded = recorded_accesses(lowered)
        self.written = {
            (op.name[4:].removesuffix("64"), op.attr + extra)
            for op in lowered.ops
            if op.name.startswith("set_")
            for extra in range(2 if op.name.endswith("64") else 1)
        }

    def name(self, value: Any) -> str:
        """The name by which the generated code refers to an object."""
        self.values.append(value)
        return f"k[{len(self.values) - 1}]"

    def read(self, file: str, number: int) -> str:
        array = {"reg": "w.regs", "ureg": "w.uregs", "pred": "w.preds", "upred": "w.upreds", "barrier": "w.barriers"}
        text = f"{array[file]}[{self.name(number)}]"
        return text + ".copy()" if (file, number) in self.written else text

    def write(self, file: str, number: int, value: str) -> None:
        if file in ("ureg", "upred"):
            self.lines.append(f"w.{file}s[{self.name(number)}] = ({value})[m.argmax()]")
        else:
            self.lines.append(f"np.copyto(w.{file}s[{self.name(number)}], {value}, where=m)")

    def type_of(self, value: int) -> str:
        return self.lowered.ops[value].type

    def emit(self) -> Code:
        ops = self.lowered.ops
        control, attr = "", None
        arguments: tuple[int, ...] = ()
        for position, op in enumerate(ops):
            if op.name in CONTROL:
                control, attr, arguments = op.name, op.attr, op.args
                continue
            self.recording = position in self.recorded
            text = self.expression(op)
            if text is not None:
                self.lines.append(f"v{position} = {text}" if op.type != "void" else text)
        if arguments:
            self.lines.append("return " + ", ".join(f"v{a}" for a in arguments) + ",")
        if not self.lines:
            return Code(None, self.lowered.guard, control, attr, len(self.recorded))
        run = function_of("def run(w, m, k):\n " + "\n ".join(self.lines) + "\n")
        return Code(run, self.lowered.guard, control, attr, len(self.recorded), self.values)

    def expression(self, op: Op) -> str | None:
        """The Python expression of an operation; None if it was written as statements."""
        name, a = op.name, [f"v{x}" for x in op.args]
        known = getattr(self, "op_" + name, None)
        if known is not None:
            result: str | None = known(op, a)
            return result
        if name.startswith("get_"):
            file = name[4:]
            if file.endswith("64"):
                low, high = self.read(file[:-2], op.attr), self.read(file[:-2], op.attr + 1)
                return f"{low}.astype('u8') | {high}.astype('u8') << np.uint64(32)"
            return self.read(file, op.attr)
        if name.startswith("set_"):
            file = name[4:]
            if file.endswith("64"):
                self.write(file[:-2], op.attr, f"{a[0]}.astype('u4')")
                self.write(file[:-2], op.attr + 1, f"({a[0]} >> np.uint64(32)).astype('u4')")
            else:
                self.write(file, op.attr, a[0])
            return None
        if name in INFIX:
            return f"{a[0]} {INFIX[name]} {a[1]}"
        if name in ("shl", "lshr", "ashr", "umulhi", "smulhi", "clz", "bitreverse"):
            return f"{name}({', '.join(a)})"
        if name in ("umin", "umax"):
            return f"np.{'min' if name == 'umin' else 'max'}imum({a[0]}, {a[1]})"
        if name in ("smin", "smax"):
            signed = f"'i{BITS[op.type] // 8}'"
            which = "min" if name == "smin" else "max"
            return f"np.{which}imum({a[0]}.view({signed}), {a[1]}.view({signed})).view('{dtype(op.type)}')"
        if name in ("fadd", "fmul", "fma"):
            return f"N.{name}({op.type!r}, {', '.join(a)}, {op.attr!r})"
        if name == "fmad":
            return f"N.fmad({', '.join(a)})"
        if name in ("fmin", "fmax"):
            return f"N.{name}({op.type!r}, {a[0]}, {a[1]}, {op.attr!r})"
        if name == "nan_of":
            return f"N.nan_of({', '.join(a)})"
        if name == "ftz_of":
            return f"N.ftz_of({op.type!r}, {op.attr!r}, {', '.join(a)})"
        if name in ("ftz", "canonical_nan"):
            return f"N.{name}({op.type!r}, {a[0]})"
        raise ValueError(f"the interpreter has no operation {name!r}")

    # each of these is one operation of isa/ops.py
    def op_const(self, op: Op, a: Sequence[str]) -> str:
        value = np.full(self.lanes, op.attr, dtype(op.type))
        value.setflags(write=False)
        return self.name(value)

    def op_special(self, op: Op, a: Sequence[str]) -> str:
        return f"w.special({op.attr!r})"

    def op_special64(self, op: Op, a: Sequence[str]) -> str:
        return f"w.special64({op.attr!r})"

    def op_active(self, op: Op, a: Sequence[str]) -> str:
        return "full(mask_bits(m), m)"

    def op_select(self, op: Op, a: Sequence[str]) -> str:
        return f"np.where({a[0]}, {a[1]}, {a[2]})"

    def op_bitcast(self, op: Op, a: Sequence[str]) -> str:
        return a[0]

    def op_trunc(self, op: Op, a: Sequence[str]) -> str:
        return f"({a[0]} & 1).astype('?')" if op.type == "i1" else f"{a[0]}.astype('{dtype(op.type)}')"

    def op_zext(self, op: Op, a: Sequence[str]) -> str:
        return f"{a[0]}.astype('{dtype(op.type)}')"

    def op_sext(self, op: Op, a: Sequence[str]) -> str:
        return f"sext({a[0]}, '{dtype(op.type)}')"

    def op_pack64(self, op: Op, a: Sequence[str]) -> str:
        return f"{a[0]}.astype('u8') | {a[1]}.astype('u8') << np.uint64(32)"

    def op_pack2(self, op: Op, a: Sequence[str]) -> str:
        return f"np.stack(({', '.join(a)}))"

    op_pack4 = op_pack2

    def op_extract(self, op: Op, a: Sequence[str]) -> str:
        if self.type_of(op.args[0]) != "i64":
            return f"{a[0]}[{op.attr}]"
        return f"({a[0]} >> np.uint64(32)).astype('u4')" if op.attr else f"{a[0]}.astype('u4')"

    def op_not(self, op: Op, a: Sequence[str]) -> str:
        return f"~{a[0]}"

    def op_icmp(self, op: Op, a: Sequence[str]) -> str:
        relation: str = op.attr
        if relation[0] == "s":
            signed = f".view('i{BITS[self.type_of(op.args[0])] // 8}')"
            return f"{a[0]}{signed} {RELATIONS[relation[1:]]} {a[1]}{signed}"
        return f"{a[0]} {RELATIONS[relation[-2:]]} {a[1]}"

    def op_popcount(self, op: Op, a: Sequence[str]) -> str:
        return f"np.bitwise_count({a[0]}).astype('{dtype(op.type)}')"

    def op_lop3(self, op: Op, a: Sequence[str]) -> str:
        return f"lop3({', '.join(a)}, {op.attr})"

    def op_prmt(self, op: Op, a: Sequence[str]) -> str:
        if op.attr != "idx":
            raise ValueError(f"the interpreter has no prmt mode {op.attr!r}")
        return f"prmt({', '.join(a)})"

    def op_fneg(self, op: Op, a: Sequence[str]) -> str:
        return f"{a[0]} ^ N.SIGN[{op.type!r}]"

    def op_fabs(self, op: Op, a: Sequence[str]) -> str:
        return f"{a[0]} & ~N.SIGN[{op.type!r}]"

    def op_fcmp(self, op: Op, a: Sequence[str]) -> str:
        return f"N.fcmp({op.attr!r}, {self.type_of(op.args[0])!r}, {a[0]}, {a[1]})"

    def op_fround(self, op: Op, a: Sequence[str]) -> str:
        return f"N.fround({op.type!r}, {a[0]}, {op.attr!r})"

    def op_fcvt(self, op: Op, a: Sequence[str]) -> str:
        return f"N.fcvt({self.type_of(op.args[0])!r}, {op.type!r}, {a[0]}, {op.attr!r})"

    def op_f2i(self, op: Op, a: Sequence[str]) -> str:
        signed, rounding = op.attr
        return f"N.f2i({self.type_of(op.args[0])!r}, {a[0]}, {BITS[op.type]}, {signed}, {rounding!r})"

    def op_i2f(self, op: Op, a: Sequence[str]) -> str:
        signed, rounding = op.attr
        return f"N.i2f({a[0]}, {signed}, {op.type!r}, {rounding!r})"

    def op_mufu(self, op: Op, a: Sequence[str]) -> str:
        return f"N.mufu({op.attr!r}, {op.type!r}, {a[0]})"

    def op_ballot(self, op: Op, a: Sequence[str]) -> str:
        return f"full(mask_bits({a[0]} & m), m)"

    def op_shuffle(self, op: Op, a: Sequence[str]) -> str:
        return f"{a[0]}[{a[1]} & np.uint32({self.lanes - 1})]"

    def op_executed(self, op: Op, a: Sequence[str]) -> str:
        return f"np.where(m, {a[0]}, np.uint32(0))"

    def op_match_any(self, op: Op, a: Sequence[str]) -> str:
        return f"match_any({a[0]}, m)"

    def op_redux(self, op: Op, a: Sequence[str]) -> str:
        return f"redux({a[0]}, {op.attr!r}, m)"

    def op_first_lane(self, op: Op, a: Sequence[str]) -> str:
        return f"np.full({self.lanes}, {a[0]}[m.argmax()], '{dtype(op.type)}')"

    def op_mma(self, op: Op, a: Sequence[str]) -> str:
        return f"mma({self.name(op.attr)}, {', '.join(a)})"

    def op_wgmma(self, op: Op, a: Sequence[str]) -> str:
        return f"group_product({self.name(op.attr)}, [{', '.join(a)}], w, m)"

    def op_bulk(self, op: Op, a: Sequence[str]) -> str:
        return f"w.bulk({self.name(op.attr)}, [{', '.join(a)}], m)"

    def op_service(self, op: Op, a: Sequence[str]) -> str:
        return f"w.service({op.attr!r}, [{', '.join(a)}], m)"

    def op_texture(self, op: Op, a: Sequence[str]) -> str:
        return f"w.texture({self.name(op.attr)}, [{', '.join(a)}], m)"

    def op_load(self, op: Op, a: Sequence[str]) -> str:
        return f"w.load({a[0]}, {self.name(op.attr)}, {'m' if len(a) == 1 else f'm & {a[1]}'}, {self.recording})"

    def op_aligned(self, op: Op, a: Sequence[str]) -> str:
        return f"w.aligned({a[0]}, {self.name(op.attr)}, m & {a[1]})"

    def op_touch(self, op: Op, a: Sequence[str]) -> str:
        return f"w.touch({a[0]}, {self.name(op.attr)}, {'m' if len(a) == 1 else f'm & {a[1]}'})"

    def op_store(self, op: Op, a: Sequence[str]) -> str:
        return f"w.store({a[0]}, {a[1]}, {self.name(op.attr)}, m, {self.recording})"

    def op_atomic(self, op: Op, a: Sequence[str]) -> str:
        compare = a[2] if len(a) > 2 else "None"
        return f"w.atomic({a[0]}, {a[1]}, {compare}, {self.name(op.attr)}, m, {self.recording})"

    def op_load_const(self, op: Op, a: Sequence[str]) -> str:
        bank, size = op.attr
        source = self.lowered.ops[op.args[0]]
        if source.name == "const":
            return f"w.launch.constant({bank}, {self.name(source.attr)}, {size})"
        return f"w.launch.constants({bank}, {a[0]}, {size})"

    def op_fence(self, op: Op, a: Sequence[str]) -> None:
        return None

    op_async_commit = op_named = op_fence


KEPT = 1 << 15
_made: dict[tuple[int, int], tuple[Lowered, Code]] = {}
"""By identity of the lowered instruction (which the entry keeps alive) and lanes; equal machine words of all programs
share an entry."""


def generate(lowered: Lowered, lanes: int = 32) -> Code:
    """Code of an instruction for waves of a given number of lanes."""
    if lanes != WARP_LANES and (narrow := next((op.name for op in lowered.ops if op.name in WARP_ONLY), "")):
        raise ValueError(f"operation {narrow} is one of waves of {WARP_LANES} lanes, not of {lanes}")
    known = _made.get((id(lowered), lanes))
    if known is not None:
        return known[1]
    if len(_made) >= KEPT:
        _made.clear()
    code = Writer(lowered, lanes).emit()
    _made[id(lowered), lanes] = lowered, code
    return code
