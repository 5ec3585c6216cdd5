"""NCCL as a C program sees it, for tests: ranks of one process, or one rank of several, compare every collective with NumPy.

warpwright run --gpu h200,h200 tests/nccl_program.py one
warpwright run --gpu h200,h200 tests/nccl_program.py threads
warpwright run --gpu h200,h200 tests/nccl_program.py processes
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
CUDA, NCCL = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnccl.so.2")
FLOAT, INT64, HALF, SUM, PROD, MAX, MIN, AVG = 7, 4, 6, 0, 1, 2, 3, 4
U64 = ctypes.c_uint64


class Identity(ctypes.Structure):
    _fields_ = (("internal", ctypes.c_char * 128),)


def cu(name: str, *arguments: Any) -> None:
    status = getattr(CUDA, name)(*arguments)
    assert status == 0, (name, status)


def nccl(name: str, *arguments: Any) -> None:
    status = getattr(NCCL, name)(*(U64(a) if isinstance(a, int) else a for a in arguments))
    assert status == 0, (name, status)


class Rank:
    """A device with a stream."""

    def __init__(self, device: int) -> None:
        self.context, self.stream, self.communicator = ctypes.c_void_p(), U64(), U64()
        cu("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.enter()
        cu("cuStreamCreate", ctypes.byref(self.stream), 1)

    def enter(self) -> None:
        cu("cuCtxSetCurrent", self.context)

    def put(self, array: Array) -> int:
        self.enter()
        place = U64()
        cu("cuMemAlloc_v2", ctypes.byref(place), U64(max(16, array.nbytes)))
        cu("cuMemcpyHtoD_v2", place, array.ctypes.data_as(ctypes.c_void_p), U64(array.nbytes))
        return place.value

    def get(self, place: int, like: Array) -> Array:
        self.enter()
        cu("cuStreamSynchronize", self.stream)
        found = np.empty_like(like)
        cu("cuMemcpyDtoH_v2", found.ctypes.data_as(ctypes.c_void_p), U64(place), U64(found.nbytes))
        return found


def inputs(ranks: int, count: int, type: str) -> list[Array]:
    rng = np.random.default_rng(count)
    return [(rng.integers(-9, 9, count) + 0.5 * (type != "i8")).astype(type) for _ in range(ranks)]


def same(found: Array, expected: Array, what: str) -> None:
    assert np.array_equal(found, expected), (what, found, expected)


class Cases:
    """Every collective of one type of elements, for the ranks that the caller has."""

    def __init__(self, mine: Sequence[tuple[int, Rank]], ranks: int, elements: tuple[int, str, int]) -> None:
        self.ranks, (self.count, self.type, self.number) = ranks, elements
        self.all = self.count * ranks
        self.data = inputs(ranks, self.all, self.type)
        self.total = np.sum([d.astype("f8") for d in self.data], axis=0)
        self.held = [(rank, r, r.put(self.data[rank]), r.put(np.zeros(self.all, self.type))) for rank, r in mine]

    def together(self, name: str, *middle: int, count: int = 0, in_place: bool = False) -> list[tuple[int, Array]]:
        """Call a collective for every rank in a group: rank and what its buffer holds then."""
        nccl("ncclGroupStart")
        for _, r, send, receive in self.held:
            target = send if in_place else receive
            nccl(name, send, target, count or self.all, self.number, *middle, r.communicator, r.stream)
        nccl("ncclGroupEnd")
        return [(rank, r.get(send if in_place else receive, self.data[rank])) for rank, r, send, receive in self.held]

    def run(self) -> None:
        average = np.trunc(self.total / self.ranks) if self.type == "i8" else self.total / self.ranks
        for operation, expected in ((SUM, self.total), (MAX, np.max(self.data, axis=0)), (AVG, average)):
            for _, found in self.together("ncclAllReduce", operation):
                same(found, expected.astype(self.type), f"all-reduce {operation}")
        for _, found in self.together("ncclBroadcast", 1):
            same(found, self.data[1], "broadcast")
        for rank, found in self.together("ncclReduce", SUM, 0):
            same(found, self.total.astype(self.type) if rank == 0 else self.data[1], "reduce")
        for _, found in self.together("ncclAllGather", count=self.count):
            same(found, np.concatenate([d[: self.count] for d in self.data]), "all-gather")
        for rank, found in self.together("ncclReduceScatter", SUM, count=self.count):
            part = slice(rank * self.count, (rank + 1) * self.count)
            same(found[: self.count], self.total[part].astype(self.type), "reduce-scatter")
        self.ring()
        for _, found in self.together("ncclAllReduce", SUM, in_place=True):
            same(found, self.total.astype(self.type), "in place")

    def ring(self) -> None:
        nccl("ncclGroupStart")
        for rank, r, send, receive in self.held:
            nccl("ncclSend", send, self.all, self.number, (rank + 1) % self.ranks, r.communicator, r.stream)
            nccl("ncclRecv", receive, self.all, self.number, (rank - 1) % self.ranks, r.communicator, r.stream)
        nccl("ncclGroupEnd")
        for rank, r, _, receive in self.held:
            same(r.get(receive, self.data[rank]), self.data[(rank - 1) % self.ranks], "send and receive")


ELEMENTS = ((1000, "f4", FLOAT), (33, "i8", INT64), (1 << 14, "f2", HALF))


def collectives(mine: Sequence[tuple[int, Rank]], ranks: int, types: Sequence[str] = ()) -> None:
    """Every collective, for the ranks that this caller has; of all types, or those that are named."""
    for elements in ELEMENTS:
        if not types or elements[1] in types:
            Cases(mine, ranks, elements).run()


def begin() -> int:
    cu("cuInit", 0)
    count = ctypes.c_int()
    cu("cuDeviceGetCount", ctypes.byref(count))
    return count.value


def one() -> None:
    """All ranks of one thread; ``one TYPE,...``: of these types of elements."""
    ranks = begin()
    mine = [Rank(i) for i in range(ranks)]
    handles = (U64 * ranks)()
    nccl("ncclCommInitAll", handles, ranks, None)
    for r, handle in zip(mine, handles, strict=True):
        r.communicator = U64(handle)
    collectives(list(enumerate(mine)), ranks, sys.argv[2].split(",") if len(sys.argv) > 2 else ())
    for r in mine:
        nccl("ncclCommDestroy", r.communicator)


def rank_of(rank: int, ranks: int, identity: Identity) -> None:
    mine = Rank(rank)
    assert NCCL.ncclCommInitRank(ctypes.byref(mine.communicator), ranks, identity, rank) == 0
    collectives([(rank, mine)], ranks)
    nccl("ncclCommDestroy", mine.communicator)


def threads() -> None:
    """A thread for each rank."""
    ranks, identity, failed = begin(), Identity(), []
    nccl("ncclGetUniqueId", ctypes.byref(identity))

    def run(rank: int) -> None:
        try:
            rank_of(rank, ranks, identity)
        except BaseException as error:
            failed.append(error)
            os.write(2, f"rank {rank}: {error!r}\n".encode())
            os._exit(1)

    workers = [threading.Thread(target=run, args=(i,)) for i in range(ranks)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failed


def processes() -> None:
    """A process for each rank."""
    ranks, identity = begin(), Identity()
    nccl("ncclGetUniqueId", ctypes.byref(identity))
    text = bytes(identity).hex()
    others = [subprocess.Popen([sys.executable, __file__, "rank", str(i), str(ranks), text]) for i in range(1, ranks)]
    rank_of(0, ranks, identity)
    assert [other.wait() for other in others] == [0] * len(others)


def rank() -> None:
    begin()
    identity = Identity.from_buffer_copy(bytes.fromhex(sys.argv[4]))
    rank_of(int(sys.argv[2]), int(sys.argv[3]), identity)


if __name__ == "__main__":
    {"one": one, "threads": threads, "processes": processes, "rank": rank}[sys.argv[1]]()
    print("equal")
