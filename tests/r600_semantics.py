"""Random LLVM IR kernels with what each lane must compute: every statement is written and, beside it, evaluated in NumPy.

A lane has 16 words of memory and 16 of local data share for itself, so that lanes do not race.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

LANES, OWN_WORDS = 64, 16
Words = npt.NDArray[Any]


def flushed(x: Words) -> Words:
    """Subnormals as zeros."""
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x).astype(np.float32)


def signed(x: Words) -> Words:
    return x.view(np.int32)


INTEGER: dict[str, Callable[[Words, Words], Words]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "udiv": lambda a, b: a // b,
    "urem": lambda a, b: a % b,
}
SHIFTS: dict[str, Callable[[Words, int], Words]] = {
    "shl": lambda a, n: a << np.uint32(n),
    "lshr": lambda a, n: a >> np.uint32(n),
    "ashr": lambda a, n: (signed(a) >> n).view(np.uint32),
}
FLOAT: dict[str, Callable[[Words, Words], Words]] = {
    "fadd": lambda a, b: a + b,
    "fsub": lambda a, b: a - b,
    "fmul": lambda a, b: a * b,
}
FUNCTIONS: dict[str, Callable[[Words], Words]] = {
    "fabs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
}
EQUALITIES: dict[str, Callable[[Words, Words], Words]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: signed(a) < signed(b),
    "sge": lambda a, b: signed(a) >= signed(b),
    "ult": lambda a, b: a < b,
    "ugt": lambda a, b: a > b,
}
ORDERS: dict[str, Callable[[Words, Words], Words]] = {
    "oeq": lambda a, b: a == b,
    "une": lambda a, b: a != b,
    "olt": lambda a, b: a < b,
    "oge": lambda a, b: a >= b,
    "ult": lambda a, b: ~(a >= b),
    "uno": lambda a, b: np.isnan(a) | np.isnan(b),
}
HEAD = "\n".join(
    (
        'target triple = "r600--"',
        "declare i32 @llvm.r600.read.tidig.x()",
        "declare i32 @llvm.ctpop.i32(i32)",
        "declare i32 @llvm.ctlz.i32(i32, i1)",
        "declare i32 @llvm.bitreverse.i32(i32)",
        *(f"declare float @llvm.{name}.f32(float)" for name in FUNCTIONS),
        *(f"declare float @llvm.{name}.f32(float, float)" for name in ("minnum", "maxnum")),
        "define amdgpu_kernel void @kernel(i32 %a, i32 %n, i32 %m, float %x, float %y) {",
        "entry:",
        "%t = call i32 @llvm.r600.read.tidig.x()\n",
    )
)


class Kernel:
    """A kernel of random statements, its parameters and the memory that it must leave."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        chance = np.random.default_rng(seed)
        n, m = (int(v) for v in chance.integers(1, 1 << 32, 2))
        x, y = (np.float32(v) for v in chance.normal(size=2) * 100)
        lanes = np.arange(LANES, dtype=np.uint32)
        full = lambda v, kind: np.full(LANES, v, kind)  # noqa: E731
        self.integers: dict[str, Words] = {"%t": lanes, "%n": full(n, np.uint32), "%m": full(m, np.uint32)}
        self.floats: dict[str, Words] = {"%x": full(x, np.float32), "%y": full(y, np.float32)}
        self.parameters = [n, m, int(x.view(np.uint32)), int(y.view(np.uint32))]
        self.before = chance.integers(0, 1 << 32, LANES * OWN_WORDS, dtype=np.uint32)
        self.memory = self.before.reshape(LANES, OWN_WORDS).copy()
        self.shared = np.zeros((LANES, OWN_WORDS), np.uint32)
        self.written = np.zeros((LANES, OWN_WORDS), np.bool_)
        self.lines: list[str] = []
        self.count = self.blocks = self.depth = 0
        self.active = np.ones(LANES, np.bool_)
        with np.errstate(all="ignore"):
            self.statements(self.random.randint(8, 30))
            for value in (*list(self.integers)[-2:], *list(self.floats)[-2:]):
                self.store("1", self.slot(), value)

    # --- text and values --------------------------------------------------------------------------------------
    def new(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def integer(self) -> tuple[str, Words]:
        known = [0, 1, 0xFFFFFFFF, 7, 255, 65535, (1 << 31) - 1, self.random.randrange(1 << 32)]
        if self.random.random() < 0.3:
            value = self.random.choice(known)
            return str(value), np.full(LANES, value, np.uint32)
        return self.random.choice(list(self.integers.items()))

    def single(self) -> tuple[str, Words]:
        if self.random.random() < 0.3:
            value = self.random.choice(["0.0", "1.0", "0.5", "-1.0", "2.0", "3.5", "-0.5"])
            return value, np.full(LANES, np.float32(value))
        return self.random.choice(list(self.floats.items()))

    def let(self, kind: str, text: str, value: Words) -> str:
        name = self.new()
        self.lines.append(f"{name} = {text}")
        if kind == "i32":
            self.integers[name] = value.astype(np.uint32)
        elif kind == "float":
            self.floats[name] = flushed(value.astype(np.float32))
        return name

    # --- statements -------------------------------------------------------------------------------------------
    def statements(self, count: int) -> None:
        kinds = [self.arithmetic] * 6 + [self.call, self.select, self.convert, self.access] * 2
        for _ in range(count):
            self.random.choice([*kinds, *([self.branch] if self.depth < 2 else [])])()

    def arithmetic(self) -> None:
        choice = self.random.random()
        (a, x), (b, y) = self.integer(), self.integer()
        if choice < 0.15:
            name, amount = self.random.choice(list(SHIFTS)), self.random.randrange(32)
            self.let("i32", f"{name} i32 {a}, {amount}", SHIFTS[name](x, amount))
        elif choice < 0.55:
            name = self.random.choice(list(INTEGER))
            if name in ("udiv", "urem"):
                b, y = self.let("i32", f"or i32 {b}, 1", y | np.uint32(1)), y | np.uint32(1)
            self.let("i32", f"{name} i32 {a}, {b}", INTEGER[name](x, y))
        else:
            name = self.random.choice(list(FLOAT))
            (a, x), (b, y) = self.single(), self.single()
            self.let("float", f"{name} float {a}, {b}", FLOAT[name](x, y))

    def call(self) -> None:
        if self.random.random() < 0.4:
            a, x = self.integer()
            bits = [f"{int(v):032b}" for v in x]
            found = {
                "ctpop": [v.count("1") for v in bits],
                "bitreverse": [int(v[::-1], 2) for v in bits],
                "ctlz": [len(v) - len(v.lstrip("0")) for v in bits],
            }
            name = self.random.choice(list(found))
            tail = ", i1 false" if name == "ctlz" else ""
            self.let("i32", f"call i32 @llvm.{name}.i32(i32 {a}{tail})", np.array(found[name], np.uint32))
            return
        a, x = self.single()
        if self.random.random() < 0.3:
            b, y = self.single()
            name, value = self.random.choice([("minnum", np.fmin(x, y)), ("maxnum", np.fmax(x, y))])
            self.let("float", f"call float @llvm.{name}.f32(float {a}, float {b})", value)
            return
        name = self.random.choice(list(FUNCTIONS))
        self.let("float", f"call float @llvm.{name}.f32(float {a})", FUNCTIONS[name](x))

    def test(self) -> tuple[str, Words]:
        if self.random.random() < 0.5:
            (a, x), (b, y) = self.integer(), self.integer()
            name = self.random.choice(list(EQUALITIES))
            return self.let("i1", f"icmp {name} i32 {a}, {b}", x), EQUALITIES[name](x, y)
        (a, x), (b, y) = self.single(), self.single()
        name = self.random.choice(list(ORDERS))
        return self.let("i1", f"fcmp {name} float {a}, {b}", x), ORDERS[name](x, y)

    def select(self) -> None:
        test, chosen = self.test()
        if self.random.random() < 0.5:
            (a, x), (b, y) = self.integer(), self.integer()
            self.let("i32", f"select i1 {test}, i32 {a}, i32 {b}", np.where(chosen, x, y))
        else:
            (a, x), (b, y) = self.single(), self.single()
            self.let("float", f"select i1 {test}, float {a}, float {b}", np.where(chosen, x, y))

    def convert(self) -> None:
        if self.random.random() < 0.6:
            a, x = self.integer()
            name, value = self.random.choice([("sitofp", signed(x)), ("uitofp", x)])
            self.let("float", f"{name} i32 {a} to float", value.astype(np.float32))
            return
        a, x = self.single()
        low = self.let("float", f"call float @llvm.minnum.f32(float {a}, float 1.0e6)", np.fmin(x, np.float32(1e6)))
        value = np.fmax(self.floats[low], np.float32(-1e6))
        both = self.let("float", f"call float @llvm.maxnum.f32(float {low}, float -1.0e6)", value)
        self.let("i32", f"fptosi float {both} to i32", self.floats[both].astype(np.int32).view(np.uint32))

    # --- memory -----------------------------------------------------------------------------------------------
    def slot(self) -> tuple[str, Words]:
        """The number of one of the lane's own words."""
        a, x = self.integer()
        name = self.let("", f"and i32 {a}, {OWN_WORDS - 1}", x)
        return name, x & np.uint32(OWN_WORDS - 1)

    def pointer(self, space: str, slot: str) -> str:
        own = self.let("", f"shl i32 %t, {(4 * OWN_WORDS).bit_length() - 1}", self.integers["%t"])
        offset = self.let("", f"shl i32 {slot}, 2", self.integers["%t"])
        at = self.let("", f"add i32 {own}, {offset}", self.integers["%t"])
        if space == "1":
            at = self.let("", f"add i32 %a, {at}", self.integers["%t"])
        return self.let("", f"inttoptr i32 {at} to ptr addrspace({space})", self.integers["%t"])

    def store(self, space: str, slot: tuple[str, Words], value: str) -> None:
        kind, word = (
            ("i32", self.integers[value]) if value in self.integers else ("float", self.floats[value].view(np.uint32))
        )
        at = self.pointer(space, slot[0])
        self.lines.append(f"store {kind} {value}, ptr addrspace({space}) {at}")
        place = np.flatnonzero(self.active), slot[1][self.active]
        (self.memory if space == "1" else self.shared)[place] = word[self.active]
        if space == "3":
            self.written[place] = True

    def access(self) -> None:
        space, slot = self.random.choice("13"), self.slot()
        if self.random.random() < 0.5:
            self.store(space, slot, self.random.choice([*self.integers, *self.floats]))
            return
        if space == "3":
            # Only words that every lane has written hold something known.
            every = np.flatnonzero(self.written.all(axis=0))
            if not every.size:
                return
            number = int(every[0])
            slot = str(number), np.full(LANES, number, np.uint32)
        found = (self.memory if space == "1" else self.shared)[np.arange(LANES), slot[1]]
        at = self.pointer(space, slot[0])
        self.let("i32", f"load i32, ptr addrspace({space}) {at}", found)

    def branch(self) -> None:
        """What is defined in a side is not known after it."""
        test, taken = self.test()
        self.blocks += 1
        yes, no, after = (f"{stem}{self.blocks}" for stem in ("yes", "no", "after"))
        self.lines.append(f"br i1 {test}, label %{yes}, label %{no}")
        before = dict(self.integers), dict(self.floats), self.active
        self.depth += 1
        for label, active in ((yes, before[2] & taken), (no, before[2] & ~taken)):
            self.lines.append(f"{label}:")
            self.active = active
            self.statements(self.random.randint(1, 5))
            self.store("1", self.slot(), self.random.choice([*self.integers, *self.floats]))
            self.lines.append(f"br label %{after}")
            self.integers, self.floats = dict(before[0]), dict(before[1])
        self.active = before[2]
        self.depth -= 1
        self.lines.append(f"{after}:")

    @property
    def text(self) -> str:
        return HEAD + "\n".join(self.lines) + "\nret void\n}\n"
