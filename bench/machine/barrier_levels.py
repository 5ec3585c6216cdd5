"""The kernels of ``warpwright study sync-table4``, ``sync-table5`` and ``sync-figure8`` on a card and on the model: barriers of a warp, a block and a grid.

``python -m bench.machine.barrier_levels --build FOLDER`` makes the cubins (beside those of ``bench.machine.barriers``), ``--cubins FOLDER --out FILE`` measures on the card, and ``--card FILE --gpu h200`` compares
the model with what was measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Device, Module, open_device, smi
from bench.machine import barriers
from bench.machine.card_program import cubins_parser

REPEATS = (2, 6)
BARRIERS_PER_REPEAT = 16
THREADS = (32, 64, 128, 256, 512, 1024)
THREADS_PER_SM = 2048
PER_SM = (1, 2, 4, 8, 16, 32)
TURNS = 5
LEVELS = ("warp", "block", "grid")
GRID = "glvll"
"""The protocol of the study's grid barrier."""


def build(folder: Path, arch: int) -> None:
    """Make the cubins from the studies' sources."""
    from warpwright.studies import synchronisation, warp_level
    from warpwright.toolchain import InputKind, compile_source, link

    barriers.build(folder, arch)
    (folder / "levels.cubin").write_bytes(compile_source(synchronisation.SOURCE, arch).cubin)
    (folder / "groups.cubin").write_bytes(compile_source(warp_level.GROUPS, arch).cubin)
    ptx = warp_level.tile_source().encode()
    (folder / "tile.cubin").write_bytes(link([(InputKind.PTX, ptx, "tile.ptx")], arch).cubin)
    counts = {
        "tile": warp_level.SYNCS,
        "coalesced": warp_level.COALESCED_SYNCS,
        "tile_of_today": warp_level.SYNCS,
        "group_of_today": warp_level.SYNCS_OF_TODAY,
    }
    (folder / "counts.json").write_text(json.dumps(counts) + "\n")


class Levels:
    """Kernels of one device, and what they are timed with."""

    def __init__(self, device: Device, cubins: Path) -> None:
        self.device, self.model = device, device.kind == "model"
        self.block, self.groups, self.tile, self.grid = (
            device.load((cubins / f"{name}.cubin").read_bytes()) for name in ("levels", "groups", "tile", "protocols")
        )
        self.sm_count = int(device.describe()["sm_count"])
        self.turns = 1 if self.model else TURNS
        self.counts: dict[str, int] = json.loads((cubins / "counts.json").read_text())
        """Barriers in the code of each kernel."""

    def _difference(self, kernel: str, blocks: int, threads: int) -> list[float]:
        """For each block, the cycles of the additional barriers."""
        out = self.device.upload(np.zeros(max(blocks, 32), np.uint32))
        few, many = [], []
        for found, repeats in ((few, REPEATS[0]), (many, REPEATS[1])):
            self.block.launch(kernel, blocks, threads, [out, np.int32(repeats)])
            found += out.read(np.uint32, blocks).astype(float).tolist()
        out.free()
        return [b - a for a, b in zip(few, many, strict=True)]

    def block_rows(self) -> Iterator[tuple[str, float]]:
        """Latency in one block, and rate of an SM: the best number of blocks.

        The time of several blocks is their mean: half of four blocks of 512 threads, or of eight of 256, run ahead of the others (``block_barrier_turns``), so the median is the time of neither half.
        """
        each = (REPEATS[1] - REPEATS[0]) * BARRIERS_PER_REPEAT
        for threads in THREADS:
            found = [self._difference("block_barriers", 1, threads)[0] / each for _ in range(self.turns)]
            yield f"block, {threads} threads, cycles", float(np.median(found))
            rates = []
            for per_sm in PER_SM:
                if per_sm * threads <= THREADS_PER_SM:
                    times = [np.mean(self._difference("block_barriers", per_sm * self.sm_count, threads))
                             for _ in range(self.turns)]  # fmt: skip
                    yield f"block, {per_sm} of {threads} threads, cycles", float(np.median(times)) / each
                    rates.append(per_sm * each / float(np.median(times)))
            yield f"block, {threads} threads, per cycle", max(rates)

    def _warps(self, module: Module, kernel: str, threads: int, size: int) -> tuple[float, float]:
        clocks = self.device.upload(np.zeros(64, np.uint32))
        args: list[Any] = [clocks, np.uint32(size), np.int32(3)]
        if kernel == "tile":
            lanes = np.arange(threads) % 32
            mask = np.full(threads, 0xFFFFFFFF) if size == 32 else ((1 << size) - 1) << (lanes & ~(size - 1))
            args[1:] = [self.device.upload(np.stack([np.zeros(threads), mask], 1).astype(np.uint32)), np.uint32(3)]
        latency, rate, count = [], [], self.counts[kernel]
        for _ in range(self.turns):
            module.launch(kernel, 1, threads, args)
            read = clocks.read(np.uint32, 64).astype(np.int64)
            begins, ends = read[: threads // 32], read[32 : 32 + threads // 32]
            latency.append((ends.min() - begins.max()) / count)
            rate.append(len(begins) * count / (ends.max() - begins.min()))
        return float(np.median(latency)), float(np.median(rate))

    def warp_rows(self) -> Iterator[tuple[str, float]]:
        """Latency of one warp and rate of 32 by the kinds and sizes of groups."""
        kinds = {"tile": (self.tile, (1, 8, 32)), "coalesced": (self.groups, (1, 16, 31, 32)),
                 "tile_of_today": (self.groups, (32,)), "group_of_today": (self.groups, (8, 32))}  # fmt: skip
        for kind, (module, sizes) in kinds.items():
            for size in sizes:
                yield f"{kind} of {size}, cycles", self._warps(module, kind, 32, size)[0]
                yield f"{kind} of {size}, per cycle", self._warps(module, kind, 1024, size)[1]

    def grid_rows(self) -> Iterator[tuple[str, float]]:
        """Cycles of a grid barrier by blocks per SM and threads per block."""
        word = self.device.upload(np.zeros(32, np.uint32))
        cycles = self.device.upload(np.zeros(32, np.uint32))
        few, many = (2, 4) if self.model else (8, 40)
        for per_sm in PER_SM:
            for threads in THREADS:
                if per_sm * threads > THREADS_PER_SM:
                    continue
                found = []
                for _ in range(self.turns):
                    read = []
                    for repeats in (few, many):
                        self.grid.launch(barriers.name_of(GRID), per_sm * self.sm_count, threads,
                                         [word, cycles, np.int32(repeats)])  # fmt: skip
                        read.append(float(cycles.read(np.uint32, 1)[0]))
                    found.append((read[1] - read[0]) / (many - few))
                yield f"grid, {per_sm} of {threads} threads, cycles", float(np.median(found))

    def rows(self, levels: Sequence[str] = LEVELS) -> Iterator[tuple[str, float]]:
        """Rows of some levels."""
        for level in levels:
            yield from getattr(self, f"{level}_rows")()


def compare(levels: Levels, card: dict[str, float], only: Sequence[str]) -> None:
    """Print the model's and the card's figures, and the differences of each level."""
    by_level: dict[str, list[float]] = {}
    for name, ours in levels.rows(only):
        difference = ours / card[name] - 1
        by_level.setdefault(name.split()[0].rstrip(","), []).append(difference)
        print(f"{name:44} {ours:10.3f} {card[name]:10.3f} {difference:+8.1%}", flush=True)
    for level, differences in by_level.items():
        sizes = np.abs(differences)
        print(f"{level}: median {np.median(sizes):.1%}, worst {sizes.max():.1%}, of {len(sizes)}")


def main() -> None:
    parser = cubins_parser(__doc__)
    parser.add_argument("--card", type=Path, help="compare the model with this file of a card")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=LEVELS)
    options = parser.parse_args()
    if options.build:
        build(options.build, options.arch)
        return
    if options.card:
        levels = Levels(open_device("model", options.gpu), options.cubins)
        compare(levels, json.loads(options.card.read_text())["rows"], options.levels)
        return
    device = open_device("card")
    found: dict[str, Any] = {**device.describe(), "rows": {}}
    for name, value in Levels(device, options.cubins).rows(options.levels):
        found["rows"][name] = value
        print(f"{name:44} {value:10.3f}", flush=True)
    found["after"] = smi()
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
