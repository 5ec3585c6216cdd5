"""Work of several streams, events and graphs in time: ``python -m bench.machine.streams --cubins FOLDER --out FILE``.

On the model: ``warpwright run --gpu h200 bench/machine/streams.py --cubins FOLDER --out FILE``.  ``FOLDER`` has the kernels
(``python -m bench.machine.sequences build``).  Times are microseconds between two events, the shortest of some turns:

``alone``  each kernel between two events
``pairs``  two kernels on two streams: from an event before the fork to one after the join
``events``  short kernels, sequences, copies and fills in one stream
``graphs``  launches of graphs: lines and forks of kernel nodes
"""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card, CardModule, smi

MIB = 1 << 20
BUFFER_MIB = 256
GLOBAL = ctypes.c_void_p(0)
TURNS = 7


@dataclass(frozen=True)
class Work:
    """One launch: which kernel, its shape, the buffer it uses first and its other arguments."""

    kernel: str
    blocks: int
    threads: int
    args: tuple[Any, ...]
    shared_bytes: int = 0


GATE = Work("multiply_add", 1, 32, ("c", np.int32(150_000), np.float32(1)))
"""Runs while the host submits what is measured."""
ALL, HALF = 132, 66
WHOLE_SM = 200 << 10
"""Shared memory that lets an SM hold one block."""


def arithmetic(blocks: int, rounds: int, shared_bytes: int = WHOLE_SM, threads: int = 1024) -> Work:
    return Work("multiply_add", blocks, threads, ("c", np.int32(rounds), np.float32(1.0001)), shared_bytes)


def stream(name: str, blocks: int, mib: int, shared_bytes: int = 0) -> Work:
    """A copy within a separate buffer."""
    half = f"{name}+{BUFFER_MIB // 2}"
    return Work("copy", blocks, 1024, (name, half, np.int32(mib * MIB // 16)), shared_bytes)


def read(name: str, blocks: int, mib: int, shared_bytes: int = 0) -> Work:
    args = (name, f"{name}+{BUFFER_MIB - 1}", np.int32(mib * MIB // 16))
    return Work("total", blocks, 1024, args, shared_bytes)


KERNELS: dict[str, Work] = {
    "arithmetic, half of the SMs": arithmetic(HALF, 20000),
    "arithmetic, all SMs": arithmetic(ALL, 20000),
    "arithmetic, two blocks an SM": arithmetic(2 * ALL, 10000, 100 << 10),
    "arithmetic, small blocks": arithmetic(ALL, 20000, 0, 128),
    "arithmetic, four waves": arithmetic(4 * ALL, 5000),
    "copy, half of the SMs": stream("a", HALF, 64, WHOLE_SM),
    "copy, all SMs": stream("a", ALL, 96, WHOLE_SM),
    "copy, small grid": stream("a", 16, 8, WHOLE_SM),
    "copy, four waves": stream("a", 4 * ALL, 96, WHOLE_SM),
    "copy in L2, half of the SMs": stream("a", HALF, 4, WHOLE_SM),
    "reads, half of the SMs": read("a", HALF, 128, WHOLE_SM),
    "reads, all SMs": read("a", ALL, 128, 0),
}
PAIRS: list[tuple[str, str, tuple[int, int]]] = [
    ("arithmetic, half of the SMs", "arithmetic, half of the SMs", (0, 0)),
    ("arithmetic, all SMs", "arithmetic, all SMs", (0, 0)),
    ("arithmetic, two blocks an SM", "arithmetic, two blocks an SM", (0, 0)),
    ("arithmetic, small blocks", "arithmetic, small blocks", (0, 0)),
    ("arithmetic, small blocks", "arithmetic, half of the SMs", (0, 0)),
    ("copy, half of the SMs", "copy, half of the SMs", (0, 0)),
    ("copy, all SMs", "copy, all SMs", (0, 0)),
    ("reads, half of the SMs", "reads, half of the SMs", (0, 0)),
    ("reads, all SMs", "reads, all SMs", (0, 0)),
    ("copy in L2, half of the SMs", "copy in L2, half of the SMs", (0, 0)),
    ("arithmetic, half of the SMs", "copy, half of the SMs", (0, 0)),
    ("arithmetic, small blocks", "reads, all SMs", (0, 0)),
    ("arithmetic, all SMs", "copy, all SMs", (0, 0)),
    ("arithmetic, four waves", "copy, half of the SMs", (0, 0)),
    ("arithmetic, four waves", "copy, half of the SMs", (0, -5)),
    ("arithmetic, four waves", "arithmetic, half of the SMs", (0, -5)),
    ("copy, four waves", "arithmetic, all SMs", (0, -5)),
    ("copy, four waves", "copy, small grid", (0, 0)),
    ("copy, four waves", "copy, small grid", (0, -5)),
]
"""Two kernels and the priorities of their streams."""


class Machine:
    """The driver, a module of the kernels and buffers of each stream's own."""

    def __init__(self, cubin: bytes) -> None:
        self.card = card = Card()
        self.call = card.call
        self.module: CardModule = card.load(cubin)
        self.buffers = {name: card.alloc(BUFFER_MIB * MIB) for name in ("a", "b", "c")}
        self.streams = {p: [self._stream(p), self._stream(p)] for p in (0, -5)}
        self.first, self.last, self.fork, self.join = (self._event() for _ in range(4))
        host = ctypes.c_void_p()
        self.call("cuMemAllocHost_v2", ctypes.byref(host), ctypes.c_size_t(64 * MIB))
        self.host = host

    def _stream(self, priority: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call("cuStreamCreateWithPriority", ctypes.byref(handle), ctypes.c_uint(1), ctypes.c_int(priority))
        return handle

    def _event(self) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(handle), ctypes.c_uint(0))
        return handle

    def address(self, name: str) -> int:
        base, _, offset = name.partition("+")
        return self.buffers[base].address + int(offset or 0) * MIB

    def cells(self, work: Work, moved: bool = False) -> tuple[Any, Any]:
        """The parameters of a launch, and what keeps them alive; ``moved``: buffer b in the place of a."""
        kept: list[Any] = []
        for value in work.args:
            if isinstance(value, str):
                kept.append(ctypes.c_uint64(self.address(value.replace("a", "b") if moved else value)))
            else:
                kept.append(ctypes.create_string_buffer(value.tobytes(), value.nbytes))
        return (ctypes.c_void_p * max(1, len(kept)))(*[ctypes.addressof(cell) for cell in kept]), kept

    def launch(self, work: Work, on: ctypes.c_void_p, moved: bool = False) -> None:
        function = self.module.function(work.kernel)
        if work.shared_bytes:
            self.call("cuFuncSetAttribute", function, ctypes.c_int(8), ctypes.c_int(work.shared_bytes))
        parameters, _kept = self.cells(work, moved)
        dims = [ctypes.c_uint(v) for v in (work.blocks, 1, 1, work.threads, 1, 1, work.shared_bytes)]
        self.call("cuLaunchKernel", function, *dims, on, parameters, ctypes.c_void_p(0))

    def microseconds(self, work: Callable[[], None], on: ctypes.c_void_p) -> list[float]:
        """Between an event before the work and one after it, each turn.

        Both and the work are submitted while another kernel runs, so that the host's own time is not in it.
        """
        times = []
        for _ in range(TURNS):
            self.call("cuCtxSynchronize")
            self.launch(GATE, on)
            self.call("cuEventRecord", self.first, on)
            work()
            self.call("cuEventRecord", self.last, on)
            self.call("cuCtxSynchronize")
            took = ctypes.c_float()
            self.call("cuEventElapsedTime", ctypes.byref(took), self.first, self.last)
            times.append(round(took.value * 1e3, 3))
        return times

    def pair(self, one: Work, other: Work, priorities: tuple[int, int]) -> list[float]:
        """Both between the same two events."""
        here, there = self.streams[priorities[0]][0], self.streams[priorities[1]][1]

        def work() -> None:
            self.call("cuEventRecord", self.fork, here)
            self.call("cuStreamWaitEvent", there, self.fork, ctypes.c_uint(0))
            self.launch(one, here)
            self.launch(other, there, moved=True)
            self.call("cuEventRecord", self.join, there)
            self.call("cuStreamWaitEvent", here, self.join, ctypes.c_uint(0))

        return self.microseconds(work, here)

    def graph(self, lists: Sequence[Sequence[Work]], before: Work | None, after: Work | None) -> ctypes.c_void_p:
        """An executable graph: a first node, branches of nodes in a row, a last node."""
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuGraphCreate", ctypes.byref(graph), ctypes.c_uint(0))
        roots = [self._node(graph, before, [])] if before else []
        ends = []
        for branch in lists:
            needed = roots
            for work in branch:
                needed = [self._node(graph, work, needed)]
            ends += needed
        if after:
            self._node(graph, after, ends)
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        return executable

    def _node(self, graph: ctypes.c_void_p, work: Work, needed: list[ctypes.c_void_p]) -> ctypes.c_void_p:
        parameters, kept = self.cells(work)

        class NodeParameters(ctypes.Structure):
            """CUDA_KERNEL_NODE_PARAMS, second version."""

            _fields_ = (
                ("function", ctypes.c_void_p),
                *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
                ("parameters", ctypes.c_void_p),
                ("extra", ctypes.c_void_p),
                ("kernel", ctypes.c_void_p),
                ("context", ctypes.c_void_p),
            )

        function = self.module.function(work.kernel)
        filled = NodeParameters(
            function.value, work.blocks, 1, 1, work.threads, 1, 1, work.shared_bytes, ctypes.addressof(parameters)
        )
        node = ctypes.c_void_p()
        array = (ctypes.c_void_p * max(1, len(needed)))(*[n.value for n in needed])
        self.call(
            "cuGraphAddKernelNode_v2",
            ctypes.byref(node),
            graph,
            array,
            ctypes.c_size_t(len(needed)),
            ctypes.byref(filled),
        )
        del kept
        return node


EMPTY = Work("empty", 1, 32, ())
EMPTY_ALL = Work("empty", 132 * 8, 256, ())
ADD = Work("add", 256, 256, ("a", "b", "c", np.int32(1 << 16)))
ADD_LARGE = Work("add", 1 << 14, 256, ("a", "b", "c", np.int32(1 << 22)))
READ_16 = read("a", 264, 16)


def in_one_stream(machine: Machine) -> dict[str, list[float]]:
    """Short work between two events."""
    here = machine.streams[0][0]

    def both(*works: Callable[[], None]) -> Callable[[], None]:
        def work() -> None:
            for part in works:
                part()

        return work

    def launches(*works: Work) -> Callable[[], None]:
        return both(*(partial(machine.launch, work, here) for work in works))

    def device_copy(mib: float) -> Callable[[], None]:
        to, source = ctypes.c_uint64(machine.address("b")), ctypes.c_uint64(machine.address("a"))
        return lambda: machine.call("cuMemcpyDtoDAsync_v2", to, source, ctypes.c_size_t(int(mib * MIB)), here)

    def upload(mib: float) -> Callable[[], None]:
        to = ctypes.c_uint64(machine.address("a"))
        return lambda: machine.call("cuMemcpyHtoDAsync_v2", to, machine.host, ctypes.c_size_t(int(mib * MIB)), here)

    def memset(mib: float) -> Callable[[], None]:
        to = ctypes.c_uint64(machine.address("a"))
        return lambda: machine.call("cuMemsetD8Async", to, ctypes.c_ubyte(0), ctypes.c_size_t(int(mib * MIB)), here)

    cases: dict[str, Callable[[], None]] = {
        "nothing": lambda: None,
        "empty": launches(EMPTY),
        "empty twice": launches(*[EMPTY] * 2),
        "empty 10 times": launches(*[EMPTY] * 10),
        "empty 50 times": launches(*[EMPTY] * 50),
        "empty, all SMs": launches(EMPTY_ALL),
        "empty, all SMs, 10 times": launches(*[EMPTY_ALL] * 10),
        "add": launches(ADD),
        "add 5 times": launches(*[ADD] * 5),
        "add 20 times": launches(*[ADD] * 20),
        "add of 4 M": launches(ADD_LARGE),
        "add of 4 M, 5 times": launches(*[ADD_LARGE] * 5),
        "read 16 MiB": launches(READ_16),
        "read 16 MiB 5 times": launches(*[READ_16] * 5),
        "fill 16 MiB, read it": launches(Work("fill", 264, 512, ("a", np.int32(MIB), np.float32(1))), READ_16),
        "copy 96 MiB by a kernel": launches(KERNELS["copy, all SMs"]),
        "copy 1 MiB": device_copy(1),
        "copy 16 MiB": device_copy(16),
        "copy 128 MiB": device_copy(128),
        "upload 1 MiB": upload(1),
        "upload 16 MiB": upload(16),
        "memset 1 MiB": memset(1),
        "memset 16 MiB": memset(16),
        "memset 128 MiB": memset(128),
        "upload 16 MiB, read it": both(upload(16), launches(READ_16)),
        "memset 16 MiB, read it": both(memset(16), launches(READ_16)),
        "memset 128 MiB, add": both(memset(128), launches(ADD)),
        "copy 16 MiB, read it": both(device_copy(16), launches(READ_16)),
        "fill 128 MiB, add": launches(Work("fill", 264, 512, ("b", np.int32(8 * MIB), np.float32(1))), ADD),
    }
    return {name: machine.microseconds(work, here) for name, work in cases.items()}


def graphs(machine: Machine) -> dict[str, list[float]]:
    """Launches of graphs."""
    here = machine.streams[0][0]
    short = arithmetic(4, 4000, 0, 128)
    shapes: dict[str, tuple[list[list[Work]], Work | None, Work | None]] = {
        "one node": ([[EMPTY]], None, None),
        "line of 5": ([[EMPTY] * 5], None, None),
        "line of 20": ([[EMPTY] * 20], None, None),
        "line of 100": ([[EMPTY] * 100], None, None),
        "line of 20 adds": ([[ADD] * 20], None, None),
        "line of 100 adds": ([[ADD] * 100], None, None),
        "line of 20, arithmetic": ([[short] * 20], None, None),
        "fork of 2": ([[EMPTY]] * 2, EMPTY, EMPTY),
        "fork of 4": ([[EMPTY]] * 4, EMPTY, EMPTY),
        "fork of 16": ([[EMPTY]] * 16, EMPTY, EMPTY),
        "fork of 4, arithmetic": ([[short]] * 4, EMPTY, EMPTY),
        "fork of 16, arithmetic": ([[short]] * 16, EMPTY, EMPTY),
        "4 lines of 5, arithmetic": ([[short] * 5] * 4, EMPTY, EMPTY),
        "8 roots, arithmetic": ([[short]] * 8, None, None),
    }
    found = {}
    for name, shape in shapes.items():
        executable = machine.graph(*shape)
        found[name] = machine.microseconds(partial(machine.call, "cuGraphLaunch", executable, here), here)
    return found


def alone(machine: Machine) -> dict[str, list[float]]:
    here = machine.streams[0][0]
    return {name: machine.microseconds(partial(machine.launch, work, here), here) for name, work in KERNELS.items()}


def pairs(machine: Machine) -> dict[str, list[float]]:
    return {
        f"{one} | {other}" + (" | first" if priorities[1] else ""): machine.pair(
            KERNELS[one], KERNELS[other], priorities
        )
        for one, other, priorities in PAIRS
    }


PARTS = {"alone": alone, "pairs": pairs, "events": in_one_stream, "graphs": graphs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cubins", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
    options = parser.parse_args()
    machine = Machine((options.cubins / "machine.cubin").read_bytes())
    found = {name: PARTS[name](machine) for name in options.only}
    about = {"card": smi(), "command": "python -m bench.machine.streams --cubins FOLDER --out FILE"}
    options.out.write_text(json.dumps({**about, "microseconds": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
