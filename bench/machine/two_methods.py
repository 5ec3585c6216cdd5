"""The synchronisation paper's two methods on the studies' kernels, in one program for real and simulated cards: barriers of a warp, a block and a grid, and launches.

The GPU's clock gives latencies within an SM and the host's clock (formulas 1 and 2) everything else, through ``warpwright.studies.timing_methods``.

``python -m bench.machine.barrier_levels --build FOLDER`` makes the cubins.  On a card ``python -m bench.machine.two_methods --cubins FOLDER --out FILE``; on the model the same command
under ``warpwright run --gpu h200 --host-clock simulated``, with fewer repeats (``--repeats 2 4 --launches 1``). ``--compare CARD MODEL`` prints two such files side by side.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card, CardModule, smi
from bench.machine.barrier_levels import BARRIERS_PER_REPEAT, PER_SM, THREADS, THREADS_PER_SM
from warpwright.studies.timing_methods import Readings, by_gpu_clock, by_host_clock, launch_times, read

WARP_SIZES = {"tile": (1, 8, 32), "coalesced": (16, 32), "tile_of_today": (32,), "group_of_today": (8, 32)}
PASSES = 3
Row = dict[str, float]


class Methods:
    """The studies' kernels on the first CUDA device."""

    def __init__(self, cubins: Path, repeats: tuple[int, int], launches: int) -> None:
        self.card, self.repeats, self.launches = Card(), repeats, launches
        self.block, self.groups, self.tile, self.driver = (
            self.card.load((cubins / f"{name}.cubin").read_bytes()) for name in ("levels", "groups", "tile", "driver")
        )
        self.counts: dict[str, int] = json.loads((cubins / "counts.json").read_text())
        self.words = self.card.alloc(64 << 10)
        self.words.zero()
        self.sm_count = int(self.card.describe()["sm_count"])

    def cooperative(self, module: CardModule, kernel: str, blocks: int, threads: int, args: Sequence[Any]) -> None:
        """Enqueue a cooperative launch."""
        cells = [ctypes.create_string_buffer(value.tobytes(), value.nbytes) for value in args]
        parameters = (ctypes.c_void_p * max(len(cells), 1))(*[ctypes.addressof(cell) for cell in cells])
        dims = [ctypes.c_uint(v) for v in (blocks, 1, 1, threads, 1, 1, 0)]
        self.card.call("cuLaunchCooperativeKernel", module.function(kernel), *dims, ctypes.c_void_p(0), parameters)

    def synchronize(self) -> None:
        self.card.call("cuCtxSynchronize")

    def host(self, launch: Callable[[int], object], each: int = 1) -> Row:
        found = by_host_clock(launch, self.synchronize, repeats=self.repeats, launches=self.launches)
        return {"ns": found.mean / each, "deviation_ns": found.deviation / each}

    def warp_rows(self) -> Iterator[tuple[str, Row]]:
        """Latency of one warp's barrier in cycles, and barriers per cycle of 32 warps, by the GPU's clock."""
        for kind, sizes in WARP_SIZES.items():
            module = self.tile if kind == "tile" else self.groups
            for size in sizes:
                for threads in (32, 1024):
                    args: list[Any] = [self.words, np.uint32(size), np.int32(PASSES)]
                    if kind == "tile":
                        lanes = np.arange(threads) % 32
                        mask = (
                            np.full(threads, 0xFFFFFFFF) if size == 32 else ((1 << size) - 1) << (lanes & ~(size - 1))
                        )
                        groups = np.stack([np.zeros(threads), mask], 1).astype(np.uint32)
                        args[1:] = [self.card.upload(groups), np.uint32(PASSES)]
                    latencies, rates = [], []
                    for _ in range(self.launches):
                        module.launch(kind, 1, threads, args)
                        clocks = self.words.read(np.uint32, 64).astype(np.int64)
                        begins, ends = clocks[: threads // 32].tolist(), clocks[32 : 32 + threads // 32].tolist()
                        latency, rate = by_gpu_clock(begins, ends, self.counts[kind])
                        latencies.append(latency)
                        rates.append(rate)
                    name, found = ("cycles", read(latencies)) if threads == 32 else ("per cycle", read(rates))
                    yield f"{kind} of {size}, {name}", {name: found.mean, f"deviation, {name}": found.deviation}

    def block_rows(self) -> Iterator[tuple[str, Row]]:
        """Time of one more barrier: of one block in cycles by the GPU's clock, and of all blocks in nanoseconds by the host's."""
        for threads in THREADS:
            clocks = []
            for repeats in self.repeats:
                self.block.launch("block_barriers", 1, threads, [self.words, np.int32(repeats)])
                clocks.append(float(self.words.read(np.uint32, 1)[0]))
            each = (self.repeats[1] - self.repeats[0]) * BARRIERS_PER_REPEAT
            yield f"block of {threads}, GPU's clock", {"cycles": (clocks[1] - clocks[0]) / each}
            for per_sm in PER_SM:
                if per_sm * threads <= THREADS_PER_SM:

                    def launch(repeats: int, blocks: int = per_sm * self.sm_count, threads: int = threads) -> None:
                        self.block.enqueue("block_barriers", blocks, threads, [self.words, np.int32(repeats)])

                    yield f"block, {per_sm} of {threads} threads", self.host(launch, BARRIERS_PER_REPEAT)

    def grid_rows(self) -> Iterator[tuple[str, Row]]:
        """Nanoseconds of one more barrier of the grid, by the driver's routine and the host's clock."""
        address = np.uint64(self.words.address)
        for per_sm in PER_SM:
            for threads in THREADS:
                if per_sm * threads <= THREADS_PER_SM:

                    def launch(repeats: int, blocks: int = per_sm * self.sm_count, threads: int = threads) -> None:
                        args = [address, np.uint64(address + 512), np.int32(repeats)]
                        self.cooperative(self.driver, "grid", blocks, threads, args)

                    yield f"grid, {per_sm} of {threads} threads", self.host(launch)

    def launch_rows(self) -> Iterator[tuple[str, Row]]:
        """Nanoseconds of launches of a kernel that executes no barrier, by the host's clock."""
        address = np.uint64(self.words.address)

        def shown(found: Readings) -> list[float]:
            return [found.mean, found.deviation]

        for per_sm, threads in ((0, 32), (1, 1024), (2, 1024)):
            blocks = per_sm * self.sm_count or 1

            def ordinary(blocks: int = blocks, threads: int = threads) -> None:
                self.block.enqueue("block_barriers", blocks, threads, [self.words, np.int32(0)])

            def cooperative(blocks: int = blocks, threads: int = threads) -> None:
                self.cooperative(self.block, "block_barriers", blocks, threads, [address, np.int32(0)])

            for name, launch in (("launch", ordinary), ("cooperative launch", cooperative)):
                times = launch_times(launch, self.synchronize, repeats=max(self.launches, 2), many=32)
                row = {}
                for part in ("call", "total", "additional"):
                    row[f"{part}, ns"], row[f"{part}, deviation_ns"] = shown(getattr(times, part))
                yield f"{name}, {per_sm} of {threads} threads", row

    def rows(self, levels: Sequence[str]) -> Iterator[tuple[str, Row]]:
        """The rows of the requested levels."""
        for level in levels:
            yield from getattr(self, f"{level}_rows")()


def compare(card: dict[str, Row], model: dict[str, Row]) -> None:
    """Print each figure on the model and on the card, and the median and the largest difference of each level."""
    by_level: dict[str, list[float]] = {}
    for name, row in model.items():
        for key, ours in row.items():
            if "deviation" in key or name not in card:
                continue
            theirs = card[name][key]
            difference = ours / theirs - 1
            by_level.setdefault(name.split()[0].rstrip(","), []).append(difference)
            print(f"{name:36} {key:16} {ours:12.3f} {theirs:12.3f} {difference:+8.1%}")
    for level, differences in by_level.items():
        sizes = np.abs(differences)
        print(f"{level}: median {np.median(sizes):.1%}, worst {sizes.max():.1%}, of {len(sizes)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cubins", type=Path)
    parser.add_argument("--repeats", type=int, nargs=2, default=(16, 176))
    parser.add_argument("--launches", type=int, default=10)
    parser.add_argument("--levels", nargs="+", default=("warp", "block", "grid", "launch"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("CARD", "MODEL"))
    options = parser.parse_args()
    if options.compare:
        compare(*(json.loads(path.read_text())["rows"] for path in options.compare))
        return
    methods = Methods(options.cubins, tuple(options.repeats), options.launches)
    found: dict[str, Any] = {**methods.card.describe(), "command": "python -m bench.machine.two_methods --cubins FOLDER --out FILE", "rows": {}}  # fmt: skip
    for name, row in methods.rows(options.levels):
        found["rows"][name] = row
        print(f"{name:36}", " ".join(f"{key} {value:.3f}" for key, value in row.items()), flush=True)
    found["after"] = smi()
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
