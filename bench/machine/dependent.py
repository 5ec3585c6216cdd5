"""Programmatic dependent launch: ``python -m bench.machine.dependent --cubin FILE --out FILE`` on a card.

On the model: ``warpwright run --gpu h200 bench/machine/dependent.py --cubin FILE --out FILE``; the cubin is ``nvcc -arch=sm_90 -cubin dependent.cu``.

Two kernels follow each other in a stream after a kernel that runs while the host submits them.  With the attribute the second one begins when all blocks of the first one
have let their dependents begin, or have ended; it waits for the first one's end before it reads what that has written.  Times are nanoseconds since the
first kernel's first block began, the median of some turns (``%globaltimer``, whose steps are 32 ns on an H200); on the model each machine has a clock of its own, and only
times of kernels that share it can be compared.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card, smi

TURNS = 9
GATE_ROUNDS = 60_000
SERIALIZATION = 6
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION."""
CASES: dict[str, dict[str, int]] = {
    # blocks and threads of both, rounds of the first before and after its trigger, of the second before and after its wait
    "one block an SM, trigger at the beginning": {"before": 0, "after": 400, "prologue": 200},
    "one block an SM, trigger in the middle": {"before": 200, "after": 200, "prologue": 200},
    "one block an SM, a long prologue": {"before": 0, "after": 200, "prologue": 600},
    "no trigger: the first one's blocks end": {"before": 400, "after": 0, "prologue": 200, "triggers": 0},
    "full SMs: no room before blocks end": {"before": 0, "after": 400, "prologue": 200, "shared": 200 << 10},
    "one small block": {"before": 0, "after": 400, "prologue": 200, "blocks": 1, "threads": 32},
    "two waves": {"before": 0, "after": 200, "prologue": 200, "blocks": 2 * 132, "shared": 200 << 10},
}


class Pairs:
    """The two kernels on a stream of their own."""

    def __init__(self, cubin: bytes) -> None:
        self.card = Card()
        self.call = self.card.call
        self.module = self.card.load(cubin)
        self.functions = {name: self._function(name) for name in (b"first", b"second")}
        for function in self.functions.values():
            self.call("cuFuncSetAttribute", function, ctypes.c_int(8), ctypes.c_int(200 << 10))
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), ctypes.c_uint(1))
        self.events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in self.events:
            self.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        self.times = [self.card.alloc(8 * 4 * 1024) for _ in range(2)]
        self.data = [self.card.alloc(4 * 1024 * 1024) for _ in range(3)]

    def _function(self, name: bytes) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(found), self.module.handle, name)
        return found

    def launch(self, name: bytes, case: dict[str, int], values: list[Any], early: bool = False) -> None:
        attribute = (ctypes.c_uint32 * 18)()  # CUlaunchAttribute: 8 bytes, then a union of 64
        attribute[0], attribute[2] = SERIALIZATION, 1
        blocks, threads = case.get("blocks", 132), case.get("threads", 256)
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))

        class Configuration(ctypes.Structure):
            _fields_ = (
                ("shape", ctypes.c_uint * 7),
                ("stream", ctypes.c_void_p),
                ("attributes", ctypes.c_void_p),
                ("count", ctypes.c_uint),
            )

        shape = (ctypes.c_uint * 7)(blocks, 1, 1, threads, 1, 1, case.get("shared", 0))
        made = Configuration(shape, self.stream, ctypes.addressof(attribute), int(early))
        self.call("cuLaunchKernelEx", ctypes.byref(made), self.functions[name], pointers, None)

    def pair(self, case: dict[str, int], early: bool) -> dict[str, float]:
        """The median times of a pair."""
        rows = []
        for _ in range(TURNS):
            address = [ctypes.c_uint64(one.address) for one in (*self.times, *self.data)]
            gate = [address[0], address[4], ctypes.c_int(GATE_ROUNDS), ctypes.c_int(0), ctypes.c_int(0)]
            self.launch(b"first", {"blocks": 1, "threads": 32}, gate)
            self.call("cuEventRecord", self.events[0], self.stream)
            values = [ctypes.c_int(v) for v in (case["before"], case["after"], case.get("triggers", 1))]
            self.launch(b"first", case, [address[0], address[2], *values])
            rest = [ctypes.c_int(v) for v in (case["prologue"], 100, 1)]
            self.launch(b"second", case, [address[1], address[2], address[3], *rest], early)
            self.call("cuEventRecord", self.events[1], self.stream)
            self.call("cuCtxSynchronize")
            between = ctypes.c_float()
            self.call("cuEventElapsedTime", ctypes.byref(between), *self.events)
            blocks = case.get("blocks", 132)
            one, two = (
                t.read(np.uint64, n * blocks).reshape(blocks, n) for t, n in zip(self.times, (3, 4), strict=True)
            )
            zero = one[:, 0].min()
            one, two = (part.astype(np.int64) - int(zero) for part in (one, two))
            rows.append(
                {
                    "first: last block begins": one[:, 0].max(),
                    "first: last trigger": one[:, 1].max(),
                    "first: last end": one[:, 2].max(),
                    "second: first block begins": two[:, 0].min(),
                    "second: last block begins": two[:, 0].max(),
                    "second: first wait begins": two[:, 1].min(),
                    "second: first wait ends": two[:, 2].min(),
                    "second: last wait ends": two[:, 2].max(),
                    "second: last end": two[:, 3].max(),
                    "between two events": 1e6 * between.value,
                }
            )
        return {name: float(np.median([int(row[name]) for row in rows])) for name in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cubin", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    pairs = Pairs(options.cubin.read_bytes())
    for early in (False, True):  # once for the caches
        pairs.pair(next(iter(CASES.values())), early)
    found = {
        name: {"in order": pairs.pair(case, False), "programmatic": pairs.pair(case, True)}
        for name, case in CASES.items()
    }
    about = {"card": smi(), "command": "python -m bench.machine.dependent --cubin FILE --out FILE"}
    options.out.write_text(json.dumps({**about, "nanoseconds": found}, indent=1) + "\n")
    for name, both in found.items():
        print(name)
        for what in both["in order"]:
            print(f"    {what:28}{both['in order'][what]:8.0f}{both['programmatic'][what]:8.0f}")


if __name__ == "__main__":
    main()
