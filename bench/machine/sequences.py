"""Successive launches that find the caches as earlier ones left them: ``python -m bench.machine.sequences``.

    python -m bench.machine.sequences build --arch 90 --to FOLDER             # where the compiler is
    python -m bench.machine.sequences record --from FOLDER --out FILE         # on the card, with ncu
    python -m bench.machine.sequences compare --gpu h200                      # the model beside bench/data/<gpu>/sequences_kept.json

``record`` profiles one launch after the other (``ncu --cache-control none --clock-control none``): caches keep what they hold and
each launch has its own cycles and counters.  Before each sequence 512 MiB are written, which leaves L2 full of dirty lines of a buffer that
no sequence uses; that launch is a row of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.corpus_card import card_line, under_ncu, value
from bench.device import Buffer, Device, Model, open_device

SOURCE = Path(__file__).with_name("kernels.cu")
DATA = Path(__file__).parents[1] / "data"
CYCLES = "gpc__cycles_elapsed.max"
COUNTERS = (
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_read_lookup_hit.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
)
LAUNCHES = 6
"""Launches of a sequence, including the one that fills L2 with other lines."""
MIB = 1 << 20
BUFFERS_MIB = {"a": 128, "b": 128, "c": 128, "flush": 512}
REPEATS = 3


@dataclass(frozen=True)
class Step:
    """A launch: ``"a+16"`` is buffer a from its 16th MiB on."""

    kernel: str
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    args: tuple[Any, ...]


def _i(n: int) -> np.int32:
    return np.int32(n)


def _quads(mib: float) -> np.int32:
    """Elements of 16 bytes."""
    return np.int32(int(mib * MIB) // 16)


def fill(to: str, mib: float, blocks: int = 528) -> Step:
    return Step("fill", blocks, 512, (to, _quads(mib), np.float32(1)))


def scale(data: str, mib: float, blocks: int = 528) -> Step:
    return Step("scale", blocks, 512, (data, _quads(mib), np.float32(0.5)))


def copy(source: str, to: str, mib: float, blocks: int = 528) -> Step:
    return Step("copy", blocks, 512, (source, to, _quads(mib)))


def words(source: str, to: str, mib: float, blocks: int = 264) -> Step:
    return Step("copy_words", blocks, 256, (source, to, _i(int(mib * MIB) // 4)))


def total(data: str, mib: float, blocks: int = 528) -> Step:
    return Step("total", blocks, 512, (data, "c+127", _quads(mib)))


def add(n: int) -> Step:
    return Step("add", -(-n // 256), 256, ("a", "b", "c", _i(n)))


def stencil(source: str, to: str, side: int) -> Step:
    return Step("stencil", (side // 32, side // 8), (32, 8), (source, to, _i(side), _i(side)))


def transpose(source: str, to: str, side: int) -> Step:
    return Step("transpose", (side // 32, side // 32), (32, 8), (source, to, _i(side), _i(side)))


def gather(table_mib: int, n: int) -> Step:
    return Step("gather", 528, 512, ("a", "b", _i(n), np.uint32(table_mib * MIB // 4 - 1)))


def count(bins_mib: float, n: int) -> Step:
    return Step("count", 264, 512, ("c", _i(n), np.uint32(int(bins_mib * MIB) // 4 - 1)))


def product(a: str, b: str, c: str, n: int) -> Step:
    return Step("product", (n // 16, n // 16), (16, 16), (a, b, c, _i(n)))


def busy(rounds: int) -> Step:
    return Step("multiply_add", 132, 1024, ("c", _i(rounds), np.float32(1.0001)))


SEQUENCES: dict[str, list[Step]] = {
    "read_16": [total("a", 16)] * 5,
    "read_4_one_wave": [total("a", 4, 132)] * 5,
    "read_28": [total("a", 28)] * 5,
    "read_44": [total("a", 44)] * 5,
    "read_100": [total("a", 100)] * 5,
    "write_then_read": [fill("a", 16), total("a", 16), total("a", 16), fill("a", 16), total("a", 16)],
    "rewrite_8": [fill("a", 8)] * 5,
    "rewrite_40": [fill("a", 40)] * 5,
    "scale_12": [scale("a", 12)] * 5,
    "copies_round_6": [copy("a", "b", 6), copy("b", "c", 6), copy("c", "a", 6), copy("a", "b", 6), copy("b", "c", 6)],
    "copies_round_24": [copy("a", "b", 24), copy("b", "c", 24), copy("c", "a", 24), copy("a", "b", 24), copy("b", "c", 24)],
    "words_1": [words("a", "b", 1)] * 5,
    "small_adds": [add(1 << 16)] * 5,
    "mid_adds": [add(1 << 20)] * 5,
    "stencil_1024": [stencil("a", "b", 1024), stencil("b", "a", 1024), stencil("a", "b", 1024), stencil("b", "a", 1024), stencil("a", "b", 1024)],
    "stencil_2048": [stencil("a", "b", 2048), stencil("b", "a", 2048), stencil("a", "b", 2048), stencil("b", "a", 2048), stencil("a", "b", 2048)],
    "transposes_1024": [transpose("a", "b", 1024), transpose("b", "a", 1024), transpose("a", "b", 1024), transpose("b", "c", 1024), transpose("c", "a", 1024)],
    "gather_8": [gather(8, 1 << 20)] * 5,
    "gather_32": [gather(32, 1 << 20)] * 5,
    "count_4": [count(4, 1 << 20)] * 5,
    "products_512": [product("a", "b", "c", 512), product("c", "b", "a", 512), product("a", "b", "c", 512), product("c", "a", "b", 512), product("a", "b", "c", 512)],
    "dirty_then_small": [fill("a", 128), add(1 << 16), fill("b", 128), add(1 << 16), add(1 << 16)],
    "dirty_then_read": [fill("a", 48), total("b", 16), fill("a", 48), total("b", 16), total("b", 16)],
    "arithmetic_between": [total("a", 16), busy(4096), total("a", 16), busy(4096), total("a", 16)],
    "halves_by_turns": [total("a", 16), total("a+16", 16), total("a", 16), total("a+16", 16), total("a", 32)],
    "few_blocks_then_all": [total("a", 2, 8), total("a", 2, 132), total("a", 2, 8), total("a", 2, 132), total("a", 2, 8)],
    "a_layer": [words("a", "b", 2), product("b", "a", "c", 512), scale("c", 1), add(1 << 18), total("c", 1)],
    "reduce_tree": [total("a", 32), total("a", 8), total("a", 2), total("a", 0.5), total("a", 0.125)],
}  # fmt: skip
"""By name; after each the next begins again with L2 full of other lines."""


def build(arch: int, folder: Path) -> None:
    """Compile the kernels for a card's architecture."""
    from warpwright.toolchain import load

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine.cubin").write_bytes(load(SOURCE, arch).cubin)
    (folder / "written.cubin").write_bytes(load(SOURCE.with_name("written.cu"), arch).cubin)


def _address(buffers: dict[str, Buffer], name: str) -> np.uint64:
    base, _, offset = name.partition("+")
    return np.uint64(buffers[base].address + int(offset or 0) * MIB)


def run_all(device: Device, cubin: bytes, names: list[str]) -> Iterator[tuple[str, int, Any]]:
    """Launch every sequence; gives its name, the number of the launch (0 fills L2 with other lines) and the module."""
    module = device.load(cubin)
    buffers = {name: device.alloc(size * MIB) for name, size in BUFFERS_MIB.items()}
    for name in names:
        for number, step in enumerate([fill("flush", BUFFERS_MIB["flush"]), *SEQUENCES[name]]):
            args = [_address(buffers, a) if isinstance(a, str) else a for a in step.args]
            module.launch(step.kernel, step.grid, step.block, args)
            yield name, number, module


def profile(folder: Path, names: list[str], metrics: tuple[str, ...]) -> list[list[dict[str, str]]]:
    """Each launch's metrics, by sequence and launch, with caches as earlier launches left them."""
    own = ["bench.machine.sequences", "launch", *names, "--from", str(folder)]
    rows, text = under_ncu(own, metrics, ("--cache-control", "none"))
    if len(rows) != LAUNCHES * len(names):
        raise SystemExit(f"{len(rows)} launches measured, {LAUNCHES * len(names)} expected\n{text[-2000:]}")
    return [rows[first : first + LAUNCHES] for first in range(0, len(rows), LAUNCHES)]


def record(folder: Path, out: Path, names: list[str]) -> None:
    """Profile all sequences: cycles some times, counters once, one metric a run: a second pass would find caches emptied."""
    cycles = [profile(folder, names, (CYCLES,)) for _ in range(REPEATS)]
    counters = {metric: profile(folder, names, (metric,)) for metric in COUNTERS}
    found = {}
    for place, name in enumerate(names):
        found[name] = [
            {"cycles": [float(value(run[place][n], CYCLES)) for run in cycles]}
            | {metric: float(value(run[place][n], metric) or "nan") for metric, run in counters.items()}
            for n in range(LAUNCHES)
        ]
    command = "python -m bench.machine.sequences record --from FOLDER --out FILE"
    out.write_text(json.dumps({"card": card_line(), "command": command, "sequences": found}, indent=1) + "\n")


def compare(gpu: str, names: list[str]) -> None:
    """Print each launch's cycles on the model, and how far they are from the card's; launches that fill L2 count for nothing."""
    from warpwright.toolchain import load

    known = json.loads((DATA / gpu / "sequences_kept.json").read_text())["sequences"]
    model = Model(gpu, caches="kept")
    ours: dict[str, list[int]] = {}
    errors: list[float] = []
    for name, number, module in run_all(model, load(SOURCE, model.gpu.chip.arch).cubin, names):
        cycles = ours.setdefault(name, [])
        cycles.append(module.cycles)
        if number < LAUNCHES - 1:
            continue
        card = [statistics.median(step["cycles"]) for step in known[name]]
        off = [100 * (mine / theirs - 1) for mine, theirs in zip(cycles[1:], card[1:], strict=True)]
        whole = 100 * (sum(cycles[1:]) / sum(card[1:]) - 1)
        errors.append(abs(whole))
        print(
            f"{name:22} {whole:+6.1f}% ",
            *(f"{mine:8,} {one:+6.1f}%" for mine, one in zip(cycles[1:], off, strict=True)),
        )
    print(f"{len(errors)} sequences: {statistics.mean(errors):.1f}% off in the mean, {max(errors):.1f}% at worst")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "record", "launch", "compare"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument("--to", type=Path, default=Path("build/machine"))
    parser.add_argument("--from", dest="source", type=Path, default=Path("build/machine"))
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--out", type=Path, default=Path("sequences_kept.json"))
    options = parser.parse_args()
    names = options.names or list(SEQUENCES)
    if options.what == "build":
        build(options.arch, options.to)
    elif options.what == "compare":
        compare(options.gpu, names)
    elif options.what == "record":
        record(options.source, options.out, names)
    else:
        for _ in run_all(open_device("card"), (options.source / "machine.cubin").read_bytes(), names):
            pass


if __name__ == "__main__":
    main()
