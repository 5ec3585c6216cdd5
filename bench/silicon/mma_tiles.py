"""Random tiles through every ``mma`` instruction, on a card and on this engine: the same machine code, digests of all results.

    python -m bench.silicon.mma_tiles prepare --to build/mma_tiles     # the cubin
    python -m bench.silicon.mma_tiles record --from build/mma_tiles    # on the machine with the card: 2**20 tiles of each
    python -m bench.silicon.mma_tiles check --groups 2                 # this engine: so many of the 64 groups of each

A kernel makes the registers of its tiles from a hash (exponents near each other and far apart, any bits, mostly zeros by
turns; metadata of sparse products that is valid) and folds D into a digest by lane.  A group is 2**14 tiles.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import open_device
from tests.forms.form import Row
from tests.forms.tensor import DENSE, SPARSE

DATA = Path(__file__).parent / "data" / "mma_tiles.npz"
GROUPS = 64
BLOCKS = 16
"""Of a group."""
WARPS = 4
TILES = 256
"""Of a warp."""
ARCH = 90

HEAD = r"""
typedef unsigned U;
typedef unsigned long long Q;
__device__ __forceinline__ U mix(U x) {
  x ^= x >> 16; x *= 0x7feb352dU; x ^= x >> 15; x *= 0x846ca68bU; return x ^ x >> 16;
}
// Bits of a number of E exponent and M fraction bits: near one, near one or zero, any finite, any.
template <int E, int M> __device__ __forceinline__ U number(U raw, U mode) {
  const U bias = (1 << E - 1) - 1, top = (1 << E) - 1;
  U more = mix(raw), exponent = raw >> M & top;
  if (mode < 2) { int near = (int)bias - 8 + (int)(more & 15); exponent = near < 0 ? 0 : near; }
  if (exponent >= top && (mode < 3 || more & 15)) exponent = top - 1;
  U bits = raw & ((1U << E + M) | ((1U << M) - 1)) | exponent << M;
  return mode == 1 && (more >> 4 & 3) ? 0 : bits;
}
__device__ __forceinline__ U f16(U raw, U mode) {
  return number<5, 10>(raw & 0xffff, mode) | number<5, 10>(raw >> 16, mode) << 16;
}
__device__ __forceinline__ U bf16(U raw, U mode) {
  return number<8, 7>(raw & 0xffff, mode) | number<8, 7>(raw >> 16, mode) << 16;
}
__device__ __forceinline__ U f32(U raw, U mode) { return number<8, 23>(raw, mode); }
__device__ __forceinline__ U tf32(U raw, U mode) { return f32(raw, mode); }
template <int E, int M> __device__ __forceinline__ U bytes(U raw, U mode) {
  U total = 0;
  for (int n = 0; n < 32; n += 8) total |= number<E, M>(raw >> n & 0xff, mode) << n;
  return total;
}
__device__ __forceinline__ U e4m3(U raw, U mode) { return bytes<4, 3>(raw, mode); }
__device__ __forceinline__ U e5m2(U raw, U mode) { return bytes<5, 2>(raw, mode); }
__device__ __forceinline__ U integer(U raw, U mode) { return mode == 1 && raw >> 8 & 3 ? 0 : raw; }
__device__ __forceinline__ Q f64(U raw, U mode) {
  U high = number<11, 20>(raw, mode);
  return (Q)high << 32 | (high ? mix(raw + 1) : 0);
}
__device__ __forceinline__ U metadata(U raw, U table, U count) {
  U total = 0;
  for (int n = 0; n < 32; n += 4) total |= (table >> 4 * (mix(raw + n) % count) & 15) << n;
  return total;
}
"""


@dataclass(frozen=True)
class Product:
    """One instruction."""

    name: str
    types: tuple[str, str, str, str]
    """Of D, A, B and C."""
    counts: tuple[int, int, int, int]
    """Registers of each."""
    selector: int = -1
    """Of a sparse product."""

    @property
    def kernel(self) -> str:
        return re.sub(r"\W+", "_", self.name) + (f"_{self.selector}" if self.selector >= 0 else "")

    def register(self, role: int) -> str:
        return "Q" if self.types[role] == "f64" else "U"

    def maker(self, role: int) -> str:
        type = self.types[role]
        return type if type[0] in "ft" or type[0] == "e" or type == "bf16" else "integer"

    def source(self) -> str:
        """A kernel: out[block][thread] of digests."""
        declared, constraints, at, groups = [], [], 0, []
        for role, (letter, count) in enumerate(zip("dabc", self.counts, strict=True)):
            declared.append(f"{self.register(role)} {letter}[{count}];")
            kind = "d" if self.types[role] == "f64" else "r"
            value = (lambda x: f"__longlong_as_double({x})") if kind == "d" and letter != "d" else str
            constraints.append(
                ", ".join(
                    f'"{"=" if letter == "d" else ""}{kind}"({value(f"{letter}{n}" if letter == "d" else f"{letter}[{n}]")})'
                    for n in range(count)
                )
            )
            groups.append("{" + ", ".join(f"%{at + n}" for n in range(count)) + "}")
            at += count
        sparse = self.selector >= 0
        text = f"{self.name} {', '.join(groups)}" + (f", %{at}, {self.selector}" if sparse else "") + ";"
        inputs = [*constraints[1:], *(['"r"(chosen)'] if sparse else [])]
        fills = []
        number = 0
        for role in (1, 2, 3):
            for n in range(self.counts[role]):
                raw = f"mix(seed + {32 * number}U)"
                fills.append(f"{'dabc'[role]}[{n}] = {self.maker(role)}({raw}, mode);")
                number += 1
        pairs = ("0xe4U", 2) if "tf32" in self.types else ("0xedc984U", 6)
        chosen = f"U chosen = metadata(mix(seed + {32 * number}U), {pairs[0]}, {pairs[1]});" if sparse else ""
        wide = self.types[0] == "f64"
        outputs = " ".join(f"{'double' if wide else 'U'} d{n};" for n in range(self.counts[0]))
        folded = " ".join(
            f"digest = digest * 6364136223846793005ULL + {f'(Q)__double_as_longlong(d{n})' if wide else f'd{n}'};"
            for n in range(self.counts[0])
        )
        return f"""
extern "C" __global__ void __launch_bounds__({32 * WARPS}) {self.kernel}(Q *out, U first) {{
  U warp = (first + blockIdx.x) * {WARPS} + threadIdx.x / 32;
  Q digest = warp;
  {" ".join(declared[1:])} {outputs}
  #pragma unroll 1
  for (U tile = 0; tile < {TILES}; tile++) {{
    U mode = tile & 3, seed = mix(warp * {TILES}U + tile) + (threadIdx.x & 31);
    {" ".join(fills)} {chosen}
    asm volatile("{text}" : {constraints[0]} : {", ".join(inputs)});
    {folded}
  }}
  out[blockIdx.x * {32 * WARPS} + threadIdx.x] = digest;
}}
"""


def product_of(row: Row) -> Product:
    """The instruction of a form's row."""
    types = re.search(r"\.(f16|f32|f64|s32)\.(\w+)\.(\w+)\.(f16|f32|f64|s32)\b", row.pattern)
    assert types is not None
    groups = [group.count("%") for group in re.findall(r"\{([^{}]*%[^{}]*)\}", row.text)]
    selector = re.search(r", (0x[0-9a-f]+);$", row.text)
    d, a, b, c = groups
    return Product(
        row.pattern, (types[1], types[2], types[3], types[4]), (d, a, b, c), int(selector[1], 16) if selector else -1
    )


def products() -> list[Product]:
    """Every instruction once; of the two spellings of sparse ones, that with ordered metadata."""
    rows = [r for r in (*DENSE, *SPARSE) if r.arch <= ARCH and ".sp." not in r.pattern]
    return list(dict.fromkeys(map(product_of, rows)))


def compiled(chosen: Sequence[Product]) -> bytes:
    from warpwright.toolchain import compile_source

    return compile_source(HEAD + "".join(p.source() for p in chosen), ARCH, name="mma_tiles.cu").cubin


def digests(launch: Any, out: Any, groups: Sequence[int]) -> list[int]:
    """CRC-32 of the digests of each group."""
    found = []
    for group in groups:
        launch(np.uint32(group * BLOCKS))
        found.append(zlib.crc32(out.read(np.uint64, BLOCKS * WARPS * 32).tobytes()))
    return found


def record(folder: Path, path: Path) -> None:
    card = open_device("card")
    module = card.load((folder / "mma_tiles.cubin").read_bytes())
    out = card.alloc(BLOCKS * WARPS * 32 * 8)
    found = {
        p.kernel: digests(
            lambda first, p=p: module.launch(p.kernel, BLOCKS, 32 * WARPS, [out, first]), out, range(GROUPS)
        )
        for p in products()
    }
    save(path, found, card.describe())
    print(f"{len(found)} instructions, {GROUPS * BLOCKS * WARPS * TILES:,} tiles each")


def save(path: Path, found: dict[str, list[int]], card: dict[str, Any]) -> None:
    np.savez_compressed(
        path,
        names="\n".join(found),
        digests=np.array(list(found.values()), np.uint32),
        provenance=json.dumps({"command": "python -m bench.silicon.mma_tiles record", "card": card}),
    )


def load(path: Path = DATA) -> dict[str, list[int]]:
    with np.load(path) as data:
        return dict(zip(str(data["names"]).split("\n"), data["digests"].tolist(), strict=True))


def own_digests(
    chosen: Sequence[Product], groups: int, engine: str = "compiled"
) -> Iterator[tuple[Product, list[int]]]:
    """Each instruction with this engine's digests of its first groups."""
    import warpwright as ww

    gpu = ww.GPU("h200", timing="off", engine=engine)
    module = gpu.compile(compiled(chosen))
    out = gpu.zeros(BLOCKS * WARPS * 32, np.uint64)
    for p in chosen:
        mine = []
        for group in range(groups):
            module[p.kernel][BLOCKS, 32 * WARPS](out, np.uint32(group * BLOCKS))
            mine.append(zlib.crc32(out.get().tobytes()))
        yield p, mine


def check(groups: int, only: str, engine: str) -> int:
    """Print how many instructions have the card's digests in the first ``groups`` groups; returns the number that do not."""
    card = load()
    wrong, chosen = 0, [p for p in products() if fnmatch.fnmatch(p.name, only or "*")]
    for p, mine in own_digests(chosen, groups, engine):
        same = mine == card[p.kernel][:groups]
        wrong += not same
        print(f"{p.name}: {'same' if same else 'DIFFERS'}", flush=True)
    tiles = groups * BLOCKS * WARPS * TILES
    print(f"{len(chosen) - wrong} of {len(chosen)} instructions have the card's bits on {tiles:,} tiles each")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "record", "check"])
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/mma_tiles"))
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--only", default="", help="instructions whose names fit this pattern")
    parser.add_argument("--engine", default="compiled", choices=["compiled", "interpreter"])
    arguments = parser.parse_args()
    if arguments.what == "prepare":
        arguments.folder.mkdir(parents=True, exist_ok=True)
        (arguments.folder / "mma_tiles.cubin").write_bytes(compiled(products()))
    elif arguments.what == "record":
        record(arguments.folder, arguments.out)
    else:
        sys.exit(bool(check(arguments.groups, arguments.only, arguments.engine)))


if __name__ == "__main__":
    main()
