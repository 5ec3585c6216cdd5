"""The CUDA Math API's functions on 100,000 values each: this engine and a real card, bit for bit.

    python -m bench.libdevice prepare --to build/libdevice       # the cubin
    python -m bench.libdevice record --from build/libdevice      # on the machine with the card: digests
    python -m bench.libdevice check                              # digests of now against the card's

The names are those of the CUDA Math API (``bench/math_functions.py``).  Functions are compiled by NVRTC 12.9, so their code is
libdevice's.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import open_device
from bench.math_functions import BITS, FORMATS, SHORT, Function, functions

COUNT = 100_000
BLOCK = 256
DATA = Path(__file__).parent / "data" / "h200" / "libdevice.json"
SECTIONS = {"f": "fp32", "d": "fp64", "h": "fp16", "H": "fp16 pairs", "b": "bf16", "B": "bf16 pairs"}


def section(f: Function) -> str:
    """Which part of the table a function counts in: by its type with an exponent of the fewest bits, else integers."""
    letters = f.results + f.operands
    return next((name for letter, name in reversed(SECTIONS.items()) if letter in letters), "integers")


def source(chosen: Sequence[Function]) -> str:
    """One kernel per function; the results are stored consecutively, each ``n`` long."""
    lines = ["#include <cuda_fp16.h>", "#include <cuda_bf16.h>"]
    for f in chosen:
        outs = ", ".join(f"{SHORT[t]} *o{n}" for n, t in enumerate(f.results))
        parameters = ", ".join(f"const {SHORT[t]} *p{v}" for t, v in zip(f.operands, "abcd", strict=False))
        loads = " ".join(f"{SHORT[t]} {v} = p{v}[i];" for t, v in zip(f.operands, "abcd", strict=False))
        single = len(f.results) == 1
        names = ["r"] if single else [f"r{n}" for n in range(len(f.results))]
        declared = " ".join(f"{SHORT[t]} {name};" for t, name in zip(f.results, names, strict=True))
        stores = " ".join(f"o{n}[i] = {name};" for n, name in enumerate(names))
        lines.append(
            f'extern "C" __global__ void k_{f.name}({outs}, {parameters}, int n) '
            f"{{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) {{ {loads} {declared} {f.text} {stores} }} }}"
        )
    return "\n".join(lines)


def dtype(letter: str) -> type[np.unsignedinteger]:
    return {16: np.uint16, 32: np.uint32, 64: np.uint64}[BITS[letter]]


def values(name: str, letter: str, position: int) -> np.ndarray:
    """Operands of a type: of pairs, both halves are made by themselves."""
    if letter in "HB":
        low, high = (floats(name, letter, 2 * position + n).astype(np.uint32) for n in (0, 1))
        return low | high << np.uint32(16)
    return floats(name, letter, position) if letter in FORMATS else integers(name, letter, position)


def floats(name: str, letter: str, position: int) -> np.ndarray:
    """Any bits, moderate exponents, and specials, a third of each (specials: fewer)."""
    exponent, fraction = FORMATS[letter]
    width, bias = 1 + exponent + fraction, (1 << exponent - 1) - 1
    rng = np.random.default_rng([zlib.crc32(name.encode()), position])
    bits = rng.integers(0, 1 << 64, COUNT, dtype=np.uint64, endpoint=False) & np.uint64((1 << width) - 1)
    near = rng.integers(bias - min(20, bias - 1), bias + min(8, bias), COUNT, dtype=np.uint64) << np.uint64(fraction)
    keep = np.uint64((1 << width) - 1 & ~(((1 << exponent) - 1) << fraction))
    mixed = np.where(np.arange(COUNT) % 3 == 0, bits, bits & keep | near)
    infinity = ((1 << exponent) - 1) << fraction
    special = [
        0,
        1,
        (1 << fraction) - 1,
        1 << fraction,
        bias << fraction,
        infinity - 1,
        infinity,
        infinity | 1 << fraction - 1,
    ]
    special += [s | 1 << width - 1 for s in special]
    mixed[:512] = np.array(special, np.uint64)[rng.integers(0, len(special), 512)]
    return mixed.astype({16: np.uint16, 32: np.uint32, 64: np.uint64}[width])


def integers(name: str, letter: str, position: int) -> np.ndarray:
    """Any bits, small numbers of both signs, and the edges."""
    width = BITS[letter]
    rng = np.random.default_rng([zlib.crc32(name.encode()), position])
    bits = rng.integers(0, 1 << 64, COUNT, dtype=np.uint64, endpoint=False) >> np.uint64(64 - width)
    small = bits.astype(dtype(letter)).view(f"i{width // 8}") >> rng.integers(0, width, COUNT).astype(f"i{width // 8}")
    mixed = np.where(np.arange(COUNT) % 3 == 0, bits, small.astype(np.uint64) & np.uint64((1 << width) - 1))
    edges = [0, 1, 2, (1 << width) - 1, (1 << width) - 2, 1 << width - 1, (1 << width - 1) - 1]
    mixed[:512] = np.array(edges, np.uint64)[rng.integers(0, len(edges), 512)]
    return mixed.astype(dtype(letter))


def run(device: str, cubin: bytes, chosen: Sequence[Function]) -> dict[str, int]:
    """The CRC-32 of each function's results; -1 if it does not run."""
    opened: Any = open_device(device)
    if device == "model":
        import warpwright

        opened.gpu = warpwright.GPU("h200", timing="off")
    module, found = opened.load(cubin), {}
    for f in chosen:
        inputs = [opened.upload(values(f.name, t, n)) for n, t in enumerate(f.operands)]
        outs = [opened.alloc(COUNT * BITS[t] // 8) for t in f.results]
        try:
            launch = getattr(module, "enqueue", None) or module.module[f"k_{f.name}"][-(-COUNT // BLOCK), BLOCK]
            if device == "card":
                launch(f"k_{f.name}", -(-COUNT // BLOCK), BLOCK, [*outs, *inputs, np.int32(COUNT)])
            else:
                launch(*(b.array for b in (*outs, *inputs)), np.int32(COUNT))
            data = b"".join(out.read(dtype(t), COUNT).tobytes() for out, t in zip(outs, f.results, strict=True))
            found[f.name] = zlib.crc32(data)
        except (RuntimeError, NotImplementedError, ValueError) as error:
            found[f.name] = -1
            print(f"{f.name}: {' '.join(str(error).split())[:200]}", file=sys.stderr)
        for buffer in (*outs, *inputs):
            buffer.free()
    return found


def compiled(chosen: Sequence[Function]) -> bytes:
    from warpwright.toolchain import compile_source

    return compile_source(source(chosen), "90", name="libdevice.cu").cubin


def table(mine: dict[str, int], card: dict[str, int]) -> str:
    """Functions and those with the card's bits, by type."""
    total, same = Counter[str](), Counter[str]()
    for f in functions():
        if f.name in mine:
            total[section(f)] += 1
            same[section(f)] += mine[f.name] == card.get(f.name)
    lines = ["| type | functions | the card's bits |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {n} | {same[name]} |" for name, n in total.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "record", "check"])
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/libdevice"))
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--only", default="", help="functions whose names hold this text")
    parser.add_argument("--parts", type=int, default=1, help="check: divide the functions among so many processes")
    parser.add_argument("--part", type=int, default=0, help="the number of this one's share")
    arguments = parser.parse_args()
    path = arguments.folder / "libdevice.cubin"
    chosen = [f for f in functions() if arguments.only in f.name][arguments.part :: arguments.parts]
    if arguments.what == "prepare":
        arguments.folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compiled(functions()))
    elif arguments.what == "record":
        arguments.out.write_text(json.dumps(run("card", path.read_bytes(), functions()), indent=0) + "\n")
    else:
        card, mine = json.loads(DATA.read_text()), run("model", compiled(chosen), chosen)
        wrong = [name for name, digest in mine.items() if digest != card.get(name)]
        print(table(mine, card))
        print(f"{len(mine) - len(wrong)} of {len(mine)} functions have the card's bits on {COUNT:,} values each")
        print(*wrong)
        sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
