"""wgmma on a card: sums of random tiles against the model, the places that descriptors name, and times.

    python -m bench.silicon.check_wgmma prepare --to build/wgmma
    python -m bench.silicon.check_wgmma run --from build/wgmma --out build/wgmma_h200     # on the machine with the card

``sums`` first tries constants (fraction bits, products of one sum, mantissa bits kept) on few tiles of each kernel, then
counts the differences on a million with those that fit best.  ``map`` keeps the place of every element as an array.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card
from bench.silicon import wgmma_cases
from bench.silicon.check_mma import FORMATS, LOWEST
from bench.silicon.check_mufu import _read
from bench.silicon.wgmma import MAP_BYTES, MAP_N, QUEUED, SKEWS, SUMS, WAITS, K, descriptor, sources, timed

HERE = Path(__file__).parent
CODES = {**FORMATS, "e4m3": 4, "e5m2": 5}
BATCH = 1 << 18
FEW = 1 << 15
SAMPLE = 16


class Tiles:
    """Random tiles of one kernel on the card, and how many elements of D differ from the model."""

    def __init__(self, card: Card, folder: Path, kernel: str) -> None:
        self.card, self.kernel = card, kernel
        self.multiply = card.load((folder / "wgmma_sums.cubin").read_bytes())
        self.check = card.load((folder / "check_mma.cubin").read_bytes())
        types = SUMS[kernel]
        self.k = K[types[0]]
        self.results = 4 if types[2] == "f32" else 2
        self.registers = 6 + self.results
        self.codes = [np.int32(CODES[t]) for t in types]
        self.into, self.out = card.alloc(BATCH * self.registers * 128), card.alloc(BATCH * self.results * 128)

    def number(self, name: str) -> int:
        return int(_read(self.card, self.check.symbol(name)[0], np.uint64, 1)[0])

    def differences(self, count: int, seeds: int, fraction: int, chunk: int, mantissa: int) -> int:
        for name in ("wrong", "finite"):
            self.check.write_symbol(name, np.zeros(1, np.uint64))
        tiles, registers = np.uint32(count), np.uint32(self.registers)
        for seed in range(seeds):
            given = [self.into, tiles, registers, np.uint32(self.results), *self.codes, np.uint32(seed)]
            self.check.launch("fill", 132 * 8, 256, given)
            self.multiply.launch(self.kernel, count // 4, 128, [self.into, self.out, tiles])
            model = [np.int32(v) for v in (self.k, fraction, chunk, LOWEST, mantissa)]
            given = [self.into, self.out, tiles, registers, *self.codes, *model, np.uint32(3)]
            self.check.launch("compare", 132 * 16, 256, given)
        return self.number("wrong")

    def close(self) -> None:
        self.into.free()
        self.out.free()


def sums(card: Card, folder: Path, batches: int, kept: dict[str, np.ndarray]) -> dict[str, Any]:
    report: dict[str, Any] = {}
    for kernel, (first, _, sum_type) in SUMS.items():
        tiles = Tiles(card, folder, kernel)
        fractions = range(10, 27) if first in ("e4m3", "e5m2") else (23, 24, 25, 26)
        chunks = (tiles.k, tiles.k // 2, tiles.k // 4)
        tried = {
            key: tiles.differences(FEW, 1, *key)
            for key in product(fractions, chunks, (23, 13) if sum_type == "f32" else (23,))
        }
        best = min(tried, key=lambda key: tried[key])
        wrong = tiles.differences(BATCH, batches, *best)
        examples = _read(card, tiles.check.symbol("examples")[0], np.uint32, 68 * 4) if wrong else []
        report[kernel] = {
            "fraction_bits": best[0],
            "products_of_one_sum": best[1],
            "mantissa_bits": best[2],
            "tiles": batches * BATCH,
            "elements": batches * BATCH * 128,
            "numbers": tiles.number("finite"),
            "differences": wrong,
            "tried": {"/".join(map(str, key)): tried[key] for key in sorted(tried, key=lambda key: tried[key])[:6]},
            "first": [f"{v:#x}" for v in examples],
        }
        print(kernel, {x: y for x, y in report[kernel].items() if x != "first"}, flush=True)
        for name, buffer, count in (("in", tiles.into, tiles.registers), ("out", tiles.out, tiles.results)):
            kept[f"{kernel}.{name}"] = buffer.read(np.uint32, SAMPLE * count * 32).reshape(SAMPLE, count, 32)
        tiles.close()
    return report


def places() -> list[tuple[str, int]]:
    """(kernel, descriptor) of every map."""
    found = []
    kernels = ["map_b_f16_0", "map_b_f16_1", "map_b_tf32_0", "map_a_0", "map_a_1"]
    plain = [(128, 256), (256, 128), (1024, 2048), (2048, 1024), (128, 2048), (4096, 512)]
    swizzled = [(16, 1024), (16, 512), (4096, 1024), (1024, 4096), (2048, 256), (256, 2048)]
    for kernel in kernels:
        for leading, stride in plain:
            found.append((kernel, descriptor(0, leading, stride, 0)))
        found.append((kernel, descriptor(48, 128, 512, 0)))
        for mode in (1, 2, 3):
            for leading, stride in swizzled:
                found.append((kernel, descriptor(0, leading, stride, mode)))
            for at in (16, 32, 64, 96, 128, 256, 384, 512, 1024, 1040, 2080):
                found.append((kernel, descriptor(at, 2048, 1024, mode)))
            for base in range(1, 8):
                found.append((kernel, descriptor(128 * base, 2048, 1024, mode, base)))
            found.append((kernel, descriptor(0, 2048, 1024, mode, 3)))
            found.append((kernel, descriptor(32, 2048, 1024, mode, 5)))
    return found


def maps(card: Card, folder: Path) -> dict[str, np.ndarray]:
    module = card.load((folder / "wgmma_map.cubin").read_bytes())
    out = card.alloc(16 * MAP_N * 4)
    found: dict[str, np.ndarray] = {}
    for kernel, word in places():
        shape = (64, 16) if "_a_" in kernel else (16, MAP_N)
        parts = []
        for high in (0, 1):
            module.launch(kernel, 1, 128, [np.uint64(word), np.int32(high), out], MAP_BYTES + 2048)
            parts.append(out.read(np.float32, shape[0] * shape[1]).reshape(shape).astype(np.int64))
        found[f"{kernel} {word:#x}"] = (parts[0] | parts[1] << 10).astype(np.uint16)
    return found


def times(card: Card, folder: Path) -> dict[str, Any]:
    """Cycles of a product while others follow, of all warpgroups together, and from the issue of a warpgroup's last to its end."""
    module = card.load((folder / "wgmma_time.cubin").read_bytes())
    out = card.alloc(256)
    found: dict[str, Any] = {}
    for name in timed():
        for warpgroups in (1, 2) if timed()[name][1] == 256 else (1, 2, 3):
            spans = []
            for count in (16, 48):
                best = 1 << 40
                for _ in range(3):
                    module.launch(name, 1, 128 * warpgroups, [out, np.int32(count), np.int32(0)], 49152 + 1024)
                    best = min(best, int(out.read(np.uint32, 8 * warpgroups)[::2].max()))
                spans.append(best)
            each = (spans[1] - spans[0]) / (32 * 4)
            found[f"{name} x{warpgroups}"] = {"cycles": each / warpgroups, "last": spans[0] - 63 * each}
    return found


def waits(card: Card, folder: Path) -> dict[str, float]:
    """Cycles of a group of products with its wait."""
    module = card.load((folder / "wgmma_wait.cubin").read_bytes())
    out = card.alloc(256)
    found = {}
    for n, many, left in WAITS:
        spans = []
        for count in (8, 24):
            best = 1 << 40
            for _ in range(3):
                module.launch(f"wait_{n}_{many}_{left}", 1, 128, [out, np.int32(count), np.int32(0)], 49152 + 1024)
                best = min(best, int(out.read(np.uint32, 8)[::2].max()))
            spans.append(best)
        found[f"{n} columns, {many} products, {left} left"] = (spans[1] - spans[0]) / 16
    return found


def skew(card: Card, folder: Path) -> dict[str, Any]:
    """Cycles from a meeting of a warpgroup's warps until each warp has passed the fence, four products, the commit and the wait, while one sleeps at one place."""
    module = card.load((folder / "wgmma_skew.cubin").read_bytes())
    out = card.alloc(1024)
    found = {}
    for place, name in enumerate(SKEWS):
        for late in (-1, 0, 2):
            module.launch(f"skew_{place}", 1, 128, [out, np.int32(late), np.int32(4000), np.int32(0)], 49152 + 1024)
            at = out.read(np.uint32, 20).reshape(4, 5).astype(np.int64)
            found[f"warp {late} {name}" if late >= 0 else f"none {name}"] = (at - at[:, :1].min()).tolist()
    return found


def queue(card: Card, folder: Path) -> dict[str, list[int]]:
    """Cycles until a warp has issued products, and until they are complete."""
    module = card.load((folder / "wgmma_queue.cubin").read_bytes())
    out = card.alloc(1024)
    found = {}
    for n, many in QUEUED:
        module.launch(f"queue_{n}_{many}", 1, 128, [out, np.int32(0)], 49152 + 1024)
        found[f"{n} columns, {many} products"] = out.read(np.uint32, 8).reshape(4, 2).max(axis=0).tolist()
    return found


def results(card: Card, folder: Path) -> dict[str, np.ndarray]:
    """The lanes' words after every case of ``wgmma_cases``."""
    loaded = card.load((folder / "wgmma_cases.cubin").read_bytes())
    found = {}
    for n, case in enumerate(wgmma_cases.cases()):
        memory, lanes = case.inputs(n)
        into, held = card.upload(memory), card.upload(lanes)
        given = [into, held, *(np.uint64(d) for d in case.descriptors()), np.uint32(case.keeps)]
        loaded.launch(f"c{n}", 1, 128, given)
        words = held.read(np.uint32, lanes.size).reshape(lanes.shape)
        found[f"c{n}"] = words[:, : case.words]
        into.free()
        held.free()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run"])
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/wgmma"))
    parser.add_argument("--batches", type=int, default=4, help="of 2**18 tiles")
    parser.add_argument("--parts", nargs="+", default=["times", "waits", "skew", "queue", "map", "cases", "sums"])
    parser.add_argument("--out", type=Path, default=Path("build/wgmma_h200"))
    arguments = parser.parse_args()
    if arguments.what == "prepare":
        from warpwright.toolchain import compile_source, link_ptx

        arguments.folder.mkdir(parents=True, exist_ok=True)
        cases = link_ptx(wgmma_cases.module(wgmma_cases.cases()), "90a")
        (arguments.folder / "wgmma_cases.cubin").write_bytes(cases.cubin)
        for name, source in {**sources(), "check_mma": (HERE / "check_mma.cu").read_text()}.items():
            cubin = compile_source(source, "90a" if name != "check_mma" else 90).cubin
            (arguments.folder / f"{name}.cubin").write_bytes(cubin)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    card = Card()
    report: dict[str, Any] = {"card": card.describe()}
    if "times" in arguments.parts:
        report["cycles_per_product"] = times(card, arguments.folder)
    if "waits" in arguments.parts:
        report["cycles_per_group"] = waits(card, arguments.folder)
    if "skew" in arguments.parts:
        report["cycles_of_warps"] = skew(card, arguments.folder)
    if "queue" in arguments.parts:
        report["cycles_of_queue"] = queue(card, arguments.folder)
    if "map" in arguments.parts:
        np.savez_compressed(arguments.out / "wgmma_map.npz", **maps(card, arguments.folder))
    if "cases" in arguments.parts:
        np.savez_compressed(arguments.out / "wgmma_cases.npz", **results(card, arguments.folder))
    kept: dict[str, np.ndarray] = {}
    if "sums" in arguments.parts:
        report["sums"] = sums(card, arguments.folder, arguments.batches, kept)
        np.savez_compressed(arguments.out / "wgmma_sample.npz", **kept, provenance=np.array(json.dumps(report["card"])))
    (arguments.out / "check_wgmma.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
