"""LLVM text of one operation on a scalar or on a vector of the warp's lanes."""

from __future__ import annotations

import struct
from collections.abc import Callable

from warpwright.engine.jit.llvm_text import Text, Val
from warpwright.isa.ops import Op


class Form:
    """Text of one operation in scalar or vector form: types, constants, intrinsics."""

    def __init__(self, w: Text, vector: bool) -> None:
        self.w = w
        self.vector = vector

    def type(self, type: str) -> str:
        return self.w.typed(type, self.vector)

    def const(self, type: str, bits: int) -> str:
        if self.vector:
            return self.w.literal_vector(type, (bits,) * self.w.lanes)
        return self.w.literal(type, bits)

    def real(self, value: float) -> str:
        """A double constant."""
        return self.const("f64", struct.unpack("<Q", struct.pack("<d", value))[0])

    def suffix(self, type: str) -> str:
        stem = {"f16": "f16", "f32": "f32", "f64": "f64"}.get(type, type)
        return f"v{self.w.lanes}{stem}" if self.vector else stem

    def call(self, name: str, type: str, *args: str, result: str = "") -> str:
        """An intrinsic overloaded on one type (and on the result's type if it differs)."""
        stem = f"llvm.{name}." + (f"{self.suffix(result)}." if result else "") + self.suffix(type)
        kind = self.type(type)
        out = self.type(result or type)
        self.w.declared[stem] = f"declare {out} @{stem}({', '.join([kind] * len(args))})"
        return self.w.op(f"call {out} @{stem}({', '.join(f'{kind} {a}' for a in args)})")

    def op(self, text: str, type: str, *args: str) -> str:
        return self.w.op(f"{text} {self.type(type)} {', '.join(args)}")

    def cast(self, text: str, source: str, target: str, value: str) -> str:
        kind, other = self.type(source), self.type(target)
        if text == "bitcast":
            return value if kind == other else self.w.bitcast(kind, value, other)
        return self.w.op(f"{text} {kind} {value} to {other}")

    def select(self, type: str, condition: str, x: str, y: str) -> str:
        kind = self.type(type)
        return self.w.op(f"select {self.type('i1')} {condition}, {kind} {x}, {kind} {y}")


Handler = Callable[[Form, Op, list[Val]], str]
"""Writes an operation with its arguments; returns the name of the result."""
