"""Compare MUFU on a card with the model, over all 2**32 arguments of every function.

The model's programs (``warpwright.engine.silicon_mufu``) are emitted as CUDA C, one kernel for each function; each
thread runs the instruction and the model on its arguments and counts the differences::

    python -m bench.silicon.check_mufu prepare --to build/silicon       # where the compiler is
    python -m bench.silicon.check_mufu run --from build/silicon         # on the machine with the card
"""

from __future__ import annotations

import argparse
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card

CODES = ("cos", "sin", "ex2", "lg2", "rcp", "rsq", "rcp64h", "rsq64h", "sqrt", "tanh")
"""The functions by their number in the instruction's field (bits 74 to 77)."""

HEAD = """
typedef long long V;
extern "C" {
__device__ unsigned long long wrong;
__device__ unsigned examples[16];
}
"""
KERNEL = """
extern "C" __global__ void check_%(name)s() {
  for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < 0x100000000ull; i += gridDim.x * blockDim.x) {
    float result;
    asm volatile("ex2.approx.ftz.f32 %%0, %%1;" : "=f"(result) : "f"(__uint_as_float((unsigned)i)));
    unsigned expected = (unsigned)model_%(name)s((V)i);
    if (expected != __float_as_uint(result)) {
      unsigned long long n = atomicAdd(&wrong, 1ull);
      if (n < 8) { examples[2 * n] = (unsigned)i; examples[2 * n + 1] = __float_as_uint(result); }
    }
  }
}
"""


class Source:
    """The machine of ``silicon_mufu`` that writes C statements."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def put(self, text: str) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"  V {name} = {text};")
        return name

    def const(self, value: int) -> str:
        return f"({value}ll)"

    def add(self, a: str, b: str) -> str:
        return self.put(f"{a} + {b}")

    def sub(self, a: str, b: str) -> str:
        return self.put(f"{a} - {b}")

    def mul(self, a: str, b: str) -> str:
        return self.put(f"{a} * {b}")

    def and_(self, a: str, b: str) -> str:
        return self.put(f"{a} & {b}")

    def or_(self, a: str, b: str) -> str:
        return self.put(f"{a} | {b}")

    def xor(self, a: str, b: str) -> str:
        return self.put(f"{a} ^ {b}")

    def shl(self, a: str, b: str) -> str:
        return self.put(f"(V)((unsigned long long){a} << {b})")

    def shr(self, a: str, b: str) -> str:
        return self.put(f"{a} >> {b}")

    def msb(self, a: str) -> str:
        return self.put(f"63 - __clzll({a} | 1)")

    def eq(self, a: str, b: str) -> str:
        return self.put(f"{a} == {b}")

    def lt(self, a: str, b: str) -> str:
        return self.put(f"{a} < {b}")

    def select(self, condition: str, a: str, b: str) -> str:
        return self.put(f"{condition} ? {a} : {b}")

    def table(self, name: str, index: str) -> str:
        return self.put(f"{name.replace('.', '_')}[{index}]")


def source() -> str:
    """The CUDA program with every function's model and its comparison."""
    from warpwright.engine.silicon_mufu import Programs, constants

    text = HEAD
    for name, values in constants().items():
        numbers = ",".join(f"{v}ll" for v in values)
        text += f"__device__ const V {name.replace('.', '_')}[{len(values)}] = {{{numbers}}};\n"
    for name in CODES:
        machine = Source()
        result = getattr(Programs(machine), name)("bits")
        text += f"__device__ V model_{name}(V bits) {{\n" + "\n".join(machine.lines) + f"\n  return {result};\n}}\n"
        text += KERNEL % {"name": name}
    return text


def with_function(cubin: bytes, kernels: list[int], number: int) -> bytes:
    """The cubin with MUFU's function field set at the given places."""
    changed = bytearray(cubin)
    for place in kernels:
        word = struct.unpack_from("<Q", changed, place)[0]
        struct.pack_into("<Q", changed, place, word & ~(15 << 10) | number << 10)
    return bytes(changed)


def places(cubin: bytes) -> list[int]:
    """Positions of the upper halves of the MUFU.EX2 instructions (opcode 0x308, function 2, no format bits)."""
    return [m.start() + 8 for m in re.finditer(rb"\x08[\x70-\x7f].{6}\x00\x08.{6}", cubin, re.S) if m.start() % 16 == 0]


def run(folder: Path) -> dict[str, Any]:
    """Differences of every function over all arguments, and up to eight of them."""
    card = Card()
    cubin = (folder / "check_mufu.cubin").read_bytes()
    found = places(cubin)
    report: dict[str, Any] = {"card": card.describe(), "functions": {}}
    for number, name in enumerate(CODES):
        module = card.load(with_function(cubin, found, number))
        module.write_symbol("wrong", np.zeros(1, np.uint64))
        seconds = module.launch(f"check_{name}", 132 * 16, 256, [])
        address, _ = module.symbol("wrong")
        count, examples = _read(card, address, np.uint64, 1), _read(card, module.symbol("examples")[0], np.uint32, 16)
        report["functions"][name] = {
            "arguments": 1 << 32,
            "differences": int(count[0]),
            "first": [f"{v:#010x}" for v in examples[: 2 * min(int(count[0]), 8)]],
            "seconds": round(seconds, 3),
        }
    return report


def _read(card: Card, address: int, dtype: Any, count: int) -> np.ndarray:
    import ctypes

    out = np.empty(count, dtype)
    card.call(
        "cuMemcpyDtoH_v2", ctypes.c_void_p(out.ctypes.data), ctypes.c_uint64(address), ctypes.c_size_t(out.nbytes)
    )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run"])
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/silicon"))
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "prepare":
        from warpwright.toolchain import compile_source

        arguments.folder.mkdir(parents=True, exist_ok=True)
        (arguments.folder / "check_mufu.cubin").write_bytes(compile_source(source(), arguments.arch).cubin)
        return
    text = json.dumps(run(arguments.folder), indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
