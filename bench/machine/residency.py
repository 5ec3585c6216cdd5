"""Which blocks of several kernels an SM holds at once, and in which order they come to it.

On the card: ``python -m bench.machine.residency --cubins FOLDER --out FILE``.  ``python -m bench.machine.residency --build FOLDER`` makes the cubin.
Each case submits kernels of several streams while another kernel runs; the second one waits until the first has begun, and the third a
while longer.  Every block logs its SM and when it began and ended (``%globaltimer``, nanoseconds since the first block of the case).
"""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card, smi

SOURCE = Path(__file__).with_suffix(".cu")
ALL = 132
LOG_WORDS = 4
GATE_NS = 300_000
LATER_MICROSECONDS = 4
TURNS = 3


@dataclass(frozen=True)
class Stay:
    """One kernel: its blocks, their threads, shared memory and how long each stays."""

    blocks: int
    threads: int = 128
    shared_kib: int = 0
    microseconds: int = 20
    priority: int = 0
    more_nanoseconds: int = 0
    """That a block stays longer than the one before it; the ninth as long as the first."""


CASES: dict[str, list[Stay]] = {
    # The shared-memory configuration of the SM when the first kernel's blocks arrived.
    **{f"{a} KiB, then {b} KiB": [Stay(ALL, 128, a, 40), Stay(ALL, 128, b)]
       for a, b in [(0, 0), (0, 1), (0, 2), (0, 4), (0, 8), (0, 32), (0, 100), (0, 200), (1, 0), (1, 2), (1, 4), (8, 0), (8, 8), (8, 16),
                    (32, 0), (32, 8), (32, 32), (100, 0), (100, 8), (100, 100), (200, 0), (200, 8), (200, 20), (16, 100), (64, 100),
                    (100, 64), (64, 64), (64, 48), (48, 64), (20, 200)]},
    "0 KiB of 1,024 threads, then 1 KiB": [Stay(ALL, 1024, 0, 40), Stay(ALL, 128, 1)],
    "0 KiB of 1,024 threads, then 100 KiB": [Stay(ALL, 1024, 0, 40), Stay(ALL, 128, 100)],
    "32 KiB of 1,024 threads, then 8 KiB": [Stay(ALL, 1024, 32, 40), Stay(ALL, 1024, 8)],
    "100 KiB of 1,024 threads, then 32 KiB": [Stay(ALL, 1024, 100, 40), Stay(ALL, 1024, 32)],
    # Where the second kernel's blocks go.
    "half, then half": [Stay(66, 1024, 200, 40), Stay(66, 1024, 200)],
    "half, then all": [Stay(66, 1024, 200, 40), Stay(132, 1024, 200)],
    "half of small blocks, then half": [Stay(66, 128, 0, 40), Stay(66, 128, 0)],
    "33 small blocks, then 33": [Stay(33, 128, 0, 40), Stay(33, 128, 0)],
    "100 small blocks, then 100": [Stay(100, 128, 0, 40), Stay(100, 128, 0)],
    "200 small blocks, then 200": [Stay(200, 128, 0, 40), Stay(200, 128, 0)],
    "66 of 1,024 threads, then 132": [Stay(66, 1024, 0, 40), Stay(132, 1024, 0)],
    "66 of 1,024 threads, then 198": [Stay(66, 1024, 0, 40), Stay(198, 1024, 0)],
    "66 of 512 threads, then 264 of 256": [Stay(66, 512, 0, 40), Stay(264, 256, 0)],
    "one block, then one": [Stay(1, 128, 0, 40), Stay(1, 128, 0)],
    # Who comes next.
    "four waves, then small blocks that would fit": [Stay(4 * ALL, 1024, 200), Stay(16, 32, 0)],
    "full, then one that waits, then one that fits": [Stay(ALL, 1024, 200, 40), Stay(ALL, 1024, 200), Stay(16, 32, 0)],
    "full, then one that waits, then one that fits first": [
        Stay(ALL, 1024, 200, 40), Stay(ALL, 1024, 200), Stay(16, 32, 0, priority=-5)],
    "small set-up, then one that waits, then one that fits": [Stay(ALL, 128, 0, 40), Stay(ALL, 128, 200), Stay(ALL, 128, 0)],
    "uneven waves, then small blocks first": [Stay(4 * ALL, 1024, 200, 10, 0, 1000), Stay(16, 1024, 200, priority=-5)],
    "uneven waves of two, then other set-up first": [Stay(8 * ALL, 1024, 0, 10, 0, 1000), Stay(16, 1024, 200, priority=-5)],
    "uneven waves of two, then other set-up of all first": [Stay(8 * ALL, 1024, 0, 10, 0, 1000), Stay(ALL, 1024, 200, priority=-5)],
    "uneven waves of two, then other set-up": [Stay(4 * ALL, 1024, 0, 10, 0, 1000), Stay(ALL, 1024, 200)],
    "uneven waves of two, then two of the same": [Stay(4 * ALL, 1024, 0, 10, 0, 1000), Stay(2 * ALL, 1024, 0)],
    "two of equal waves": [Stay(4 * ALL, 1024, 200, 10), Stay(4 * ALL, 1024, 200, 10)],
    "uneven, then warps that fit one by one": [Stay(2 * ALL, 1024, 0, 10, 0, 1000), Stay(2 * ALL, 512, 0)],
}  # fmt: skip
"""The kernels of each case in launch order, each in a separate stream."""


class Machine:
    """The driver, the kernel and streams of two priorities."""

    def __init__(self, cubin: bytes) -> None:
        self.card = card = Card()
        self.call = card.call
        self.function = card.load(cubin).function("stay")
        self.log = card.alloc(1 << 20)
        self.streams = {p: [self._stream(p) for _ in range(16)] for p in (0, -5)}

    def _stream(self, priority: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call("cuStreamCreateWithPriority", ctypes.byref(handle), ctypes.c_uint(1), ctypes.c_int(priority))
        return handle

    def launch(self, kernel: Stay, place: int, on: ctypes.c_void_p, begun: int = 0) -> None:
        self.call("cuFuncSetAttribute", self.function, ctypes.c_int(8), ctypes.c_int(kernel.shared_kib << 10))
        cells = (
            ctypes.c_uint64(self.log.address + 8 * place),
            ctypes.c_uint32(kernel.microseconds * 1000),
            ctypes.c_uint32(kernel.more_nanoseconds),
            ctypes.c_uint64(begun),
        )
        parameters = (ctypes.c_void_p * 4)(*[ctypes.addressof(cell) for cell in cells])
        dims = [ctypes.c_uint(v) for v in (kernel.blocks, 1, 1, kernel.threads, 1, 1, kernel.shared_kib << 10)]
        self.call("cuLaunchKernel", self.function, *dims, on, parameters, ctypes.c_void_p(0))

    def run(self, kernels: Sequence[Stay]) -> list[list[list[int]]]:
        """The blocks of each kernel: SM, begin, end."""
        self.log.zero()
        self.call("cuCtxSynchronize")
        places = 2 * LOG_WORDS + np.cumsum([0] + [k.blocks * LOG_WORDS for k in kernels])
        begun = self.log.address + 8 * LOG_WORDS
        first = self.streams[0][15]
        self.launch(Stay(1, 32, 0, GATE_NS // 1000), 0, first)
        self.launch(kernels[0], int(places[0]), first, begun)
        for number, kernel in enumerate(kernels[1:], 1):
            on = self.streams[kernel.priority][number]
            self.call("cuStreamWaitValue32_v2", on, ctypes.c_uint64(begun), ctypes.c_uint32(1), ctypes.c_uint(0))
            for _ in range(number - 1):
                self.launch(Stay(1, 32, 0, LATER_MICROSECONDS), 0, on)
            self.launch(kernel, int(places[number]), on)
        self.call("cuCtxSynchronize")
        words = self.log.read(np.int64, int(places[-1]))[places[0] :].reshape(-1, LOG_WORDS)
        words[:, 1:3] -= words[:, 1].min()
        ends = (places - places[0]) // LOG_WORDS
        return [words[a:b, :3].tolist() for a, b in pairwise(ends)]


def summary(blocks: Sequence[Sequence[int]]) -> dict[str, Any]:
    """When a kernel's blocks began and ended, and on how many SMs."""
    rows = np.array(blocks)
    return {"first": int(rows[:, 1].min()), "last": int(rows[:, 1].max()), "end": int(rows[:, 2].max()),
            "sms": len(set(rows[:, 0].tolist()))}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="make the cubin in this folder and end")
    parser.add_argument("--cubins", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", default=list(CASES), help="cases")
    parser.add_argument("--turns", type=int, default=TURNS)
    options = parser.parse_args()
    if options.build:
        from warpwright.toolchain import load

        options.build.mkdir(parents=True, exist_ok=True)
        (options.build / "residency.cubin").write_bytes(load(SOURCE, 90).cubin)
        return
    machine = Machine((options.cubins / "residency.cubin").read_bytes())
    found = {}
    for name in options.only:
        turns = [machine.run(CASES[name]) for _ in range(options.turns)]
        found[name] = {"kernels": [[summary(k) for k in turn] for turn in turns], "blocks": turns[-1]}
        print(name, *found[name]["kernels"][-1], sep="\n    ", flush=True)
    if options.out:
        about = {"card": smi(), "command": "python -m bench.machine.residency --cubins FOLDER --out FILE"}
        options.out.write_text(json.dumps({**about, "cases": found}) + "\n")


if __name__ == "__main__":
    main()
