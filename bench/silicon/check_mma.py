"""Compare tensor-core sums on a card with the model, on a million random tiles of every format.

``check_mma.cu`` states the model of ``warpwright.engine.silicon_mma`` again in C and makes the tiles: exponents near
each other and far apart, any bits, mostly zeros, near the subnormals and near overflow. With other constants than the
model's (``--fraction 24``) it must find differences::

    python -m bench.silicon.check_mma prepare --to build/silicon
    python -m bench.silicon.check_mma run --from build/silicon          # on the machine with the card
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card
from bench.silicon.check_mufu import _read
from bench.silicon.tiles import KERNELS

HERE = Path(__file__).parent
FORMATS = {"f16": 0, "bf16": 1, "tf32": 2, "f32": 3}
BATCH = 1 << 18
LOWEST = -133
"""Least exponent to which terms are aligned."""
SAMPLE = 28
"""Tiles kept of each kernel; a tile's distribution is a hash of its number."""


def run(folder: Path, batches: int, fraction: int, chunk: int, sample: Path | None = None) -> dict[str, Any]:
    """For every kernel: tiles, elements of D that are numbers, elements that differ from the model.

    ``sample`` receives the registers of the first tiles, inputs and results, as an .npz file.
    """
    kept: dict[str, np.ndarray] = {}
    card = Card()
    multiply = card.load((folder / "mma.cubin").read_bytes())
    check = card.load((folder / "check_mma.cubin").read_bytes())
    report: dict[str, Any] = {"card": card.describe(), "fraction_bits": fraction, "kernels": {}}
    for kernel, (element, accumulator, k) in KERNELS.items():
        per = 1 if element == "tf32" else 2
        results = 4 if accumulator == "f32" else 2
        registers = 3 * k // (4 * per) + results
        into, out = card.alloc(BATCH * registers * 128), card.alloc(BATCH * results * 128)
        for name in ("wrong", "finite"):
            check.write_symbol(name, np.zeros(1, np.uint64))
        f, g = np.int32(FORMATS[element]), np.int32(FORMATS[accumulator])
        for batch in range(batches):
            count = np.uint32(BATCH)
            check.launch("fill", 132 * 8, 256, [into, count, np.uint32(registers), np.uint32(results), f, f, g,
                                                np.uint32(batch)])  # fmt: skip
            multiply.launch(kernel, BATCH // 4, 128, [into, out, count])
            check.launch("compare", 132 * 16, 256, [into, out, count, np.uint32(registers), f, f, g, np.int32(k),
                                                    np.int32(fraction), np.int32(min(k, chunk)), np.int32(LOWEST),
                                                    np.int32(23), np.uint32(0)])  # fmt: skip
        kept[f"{kernel}.in"] = into.read(np.uint32, SAMPLE * registers * 32).reshape(SAMPLE, registers, 32)
        kept[f"{kernel}.out"] = out.read(np.uint32, SAMPLE * results * 32).reshape(SAMPLE, results, 32)
        wrong, finite = (int(_read(card, check.symbol(n)[0], np.uint64, 1)[0]) for n in ("wrong", "finite"))
        report["kernels"][kernel] = {
            "tiles": batches * BATCH,
            "elements": batches * BATCH * 128,
            "numbers": finite,
            "differences": wrong,
            "first": _examples(card, check.symbol("examples")[0]) if wrong else [],
        }
        into.free()
        out.free()
    if sample:
        np.savez_compressed(sample, **kept, provenance=np.array(json.dumps(report["card"])))
    return report


def _examples(card: Card, address: int) -> list[str]:
    """The first difference: place, C, the model's D, the card's D, a row of A and a column of B."""
    return [f"{v:#x}" for v in _read(card, address, np.uint32, 68)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "run"])
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/silicon"))
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument("--batches", type=int, default=4, help="of 2**18 tiles")
    parser.add_argument("--fraction", type=int, default=25)
    parser.add_argument("--chunk", type=int, default=16)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sample", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "prepare":
        from warpwright.toolchain import compile_source

        arguments.folder.mkdir(parents=True, exist_ok=True)
        for name in ("mma", "check_mma"):
            cubin = compile_source((HERE / f"{name}.cu").read_text(), arguments.arch).cubin
            (arguments.folder / f"{name}.cubin").write_bytes(cubin)
        return
    report = run(arguments.folder, arguments.batches, arguments.fraction, arguments.chunk, arguments.sample)
    text = json.dumps(report, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
