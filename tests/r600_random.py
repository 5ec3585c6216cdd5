"""Random LLVM IR kernels for the R600 back end: what it emits for them is more varied than what one writes by hand.

LLVM ends its process where it cannot compile a kernel, so they are compiled in a process of their own.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.r600_llvm import compiled
from warpwright.isa.r600.layouts import GENERATIONS

INTEGER = ["add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "udiv", "sdiv", "urem", "srem"]
FLOAT = ["fadd", "fsub", "fmul", "fdiv"]
FUNCTIONS = ["sqrt", "exp2", "log2", "sin", "cos", "fabs", "floor", "ceil", "trunc", "rint"]
EQUALITIES = ["eq", "ne", "slt", "sle", "ult", "ule", "sgt", "ugt"]
ORDERS = ["oeq", "une", "olt", "ole", "ogt", "oge", "ult", "ord", "uno"]

HEAD = "\n".join(
    (
        'target triple = "r600--"',
        "declare i32 @llvm.r600.read.tidig.x()",
        "declare float @llvm.fma.f32(float, float, float)",
        *(f"declare float @llvm.{name}.f32(float)" for name in FUNCTIONS),
        *(f"declare float @llvm.{name}.f32(float, float)" for name in ("minnum", "maxnum")),
        "define amdgpu_kernel void @f(ptr addrspace(1) %a, ptr addrspace(3) %l, i32 %n, i32 %m, float %x, float %y) {",
        "entry:",
        "%t = call i32 @llvm.r600.read.tidig.x()\n",
    )
)


class RandomKernel:
    """A kernel ``f`` of 5 to 30 random statements."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.integers, self.floats = ["%t", "%n", "%m"], ["%x", "%y"]
        self.lines: list[str] = []
        self.value_count = self.block_count = 0

    def new(self) -> str:
        self.value_count += 1
        return f"%v{self.value_count}"

    def integer(self) -> str:
        known = [0, 1, -1, 7, 255, 65535, 2**31 - 1, self.random.randint(-9999, 9999)]
        return self.random.choice([*self.integers, str(self.random.choice(known))])

    def float(self) -> str:
        return self.random.choice([*self.floats, "0.0", "1.0", "0.5", "-1.0", "2.0", "3.5", "-0.5"])

    def variable(self, kind: str) -> str:
        return self.random.choice(self.integers if kind == "i32" else self.floats)

    def define(self, kind: str, text: str) -> str:
        name = self.new()
        self.lines.append(f"{name} = {text}")
        if kind in ("i32", "float"):
            (self.integers if kind == "i32" else self.floats).append(name)
        return name

    def arithmetic(self) -> None:
        choose = self.random.choice
        if choose((True, False)):
            self.define("i32", f"{choose(INTEGER)} i32 {self.variable('i32')}, {self.integer()}")
        else:
            self.define("float", f"{choose(FLOAT)} float {self.variable('float')}, {self.float()}")

    def call(self) -> None:
        x, name = self.variable("float"), self.random.choice([*FUNCTIONS, "fma", "minnum", "maxnum"])
        more = {"fma": 2, "minnum": 1, "maxnum": 1}.get(name, 0)
        others = "".join(f", float {self.float()}" for _ in range(more))
        self.define("float", f"call float @llvm.{name}.f32(float {x}{others})")

    def select(self) -> None:
        choose = self.random.choice
        if choose((True, False)):
            test = self.define("i1", f"icmp {choose(EQUALITIES)} i32 {self.variable('i32')}, {self.integer()}")
            self.define("i32", f"select i1 {test}, i32 {self.integer()}, i32 {self.integer()}")
        else:
            test = self.define("i1", f"fcmp {choose(ORDERS)} float {self.variable('float')}, {self.float()}")
            self.define("float", f"select i1 {test}, float {self.float()}, float {self.float()}")

    def convert(self) -> None:
        choose = self.random.choice
        if choose((True, False)):
            self.define("float", f"{choose(('sitofp', 'uitofp'))} i32 {self.variable('i32')} to float")
        else:
            self.define("i32", f"{choose(('fptosi', 'fptoui'))} float {self.variable('float')} to i32")

    def access(self) -> None:
        space, base = self.random.choice([("1", "%a"), ("3", "%l")])
        at = self.define("ptr", f"getelementptr i32, ptr addrspace({space}) {base}, i32 {self.variable('i32')}")
        kind = self.random.choice(["i32", "float", ""])
        if kind:
            self.define(kind, f"load {kind}, ptr addrspace({space}) {at}")
        else:
            self.lines.append(f"store i32 {self.integer()}, ptr addrspace({space}) {at}")

    def branch(self) -> None:
        self.block_count += 1
        inside, after = f"b{self.block_count}", f"e{self.block_count}"
        test = self.define("i1", f"icmp slt i32 {self.variable('i32')}, {self.integer()}")
        self.lines += [f"br i1 {test}, label %{inside}, label %{after}", f"{inside}:"]
        at = self.define("ptr", f"getelementptr i32, ptr addrspace(1) %a, i32 {self.variable('i32')}")
        self.lines += [f"store i32 {self.integer()}, ptr addrspace(1) {at}", f"br label %{after}", f"{after}:"]

    def text(self) -> str:
        kinds = [self.arithmetic] * 6 + [self.call, self.select, self.convert, self.access] * 2 + [self.branch]
        for _ in range(self.random.randint(5, 30)):
            self.random.choice(kinds)()
        for value in (f"float {self.floats[-1]}", f"i32 {self.integers[-1]}"):
            at = self.define("ptr", f"getelementptr i32, ptr addrspace(1) %a, i32 {self.variable('i32')}")
            self.lines.append(f"store {value}, ptr addrspace(1) {at}")
        return HEAD + "\n".join(self.lines) + "\nret void\n}"


Compiled = tuple[str, bytes, list[str]]
"""Generation, code and LLVM's lines."""


def compiled_kernels(first: int, end: int) -> Iterator[Compiled]:
    """The kernels with seeds from ``first`` to before ``end`` for each generation, without those that LLVM cannot compile."""
    while first < end:
        command = [sys.executable, "-m", "tests.r600_random", str(first), str(end)]
        child = subprocess.run(
            command, capture_output=True, text=True, timeout=600, check=False, cwd=Path(__file__).parents[1]
        )
        if child.returncode > 0:
            raise AssertionError(child.stderr)
        for line in child.stdout.splitlines():
            word, value = json.loads(line)
            if word == "seed":
                first = value + 1
            else:
                yield word, bytes.fromhex(value[0]), value[1]


def main() -> None:
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps(("seed", seed)), flush=True)
        source = RandomKernel(seed).text()
        for generation in GENERATIONS:
            code, lines = compiled(source, "f", generation)
            print(json.dumps((generation, (code.hex(), lines))), flush=True)


if __name__ == "__main__":
    main()
