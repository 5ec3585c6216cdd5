"""NCCL as a C program sees it, for tests: ranks of one process, or one rank of several, compare every collective with NumPy.

    warpwright run --gpu h200,h200 tests/programs_nccl.py one
    warpwright run --gpu h200,h200 tests/programs_nccl.py threads
    warpwright run --gpu h200,h200 tests/programs_nccl.py processes
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


def collectives(mine: Sequence[tuple[int, Rank]], ranks: int) -> None:
    """Every collective, for the ranks that this caller has."""
    for count, type, number in ((1000, "f4", FLOAT), (33, "i8", INT64), (1 << 14, "f2", HALF)):
        data = inputs(ranks, count * ranks, type)
        total = np.sum([d.astype("f8") for d in data], axis=0)
        held = [(rank, r, r.put(data[rank]), r.put(np.zeros(count * ranks, type))) for rank, r in mine]

        def together(call: Any, held: Any = held) -> list[Array]:
            nccl("ncclGroupStart")
            for rank, r, send, receive in held:
                call(rank, r, send, receive)
            nccl("ncclGroupEnd")
            return [r.get(receive, data[rank]) for rank, r, send, receive in held]

        for operation, expected in ((SUM, total), (MAX, np.max(data, axis=0)), (AVG, np.trunc(total / ranks) if type == "i8" else total / ranks)):
            for found in together(lambda i, r, s, d: nccl("ncclAllReduce", s, d, count * ranks, number, operation, r.communicator, r.stream)):  # noqa: B023
                same(found, expected.astype(type), f"all-reduce {operation} {type}")
        for found in together(lambda i, r, s, d: nccl("ncclBroadcast", s, d, count * ranks, number, 1, r.communicator, r.stream)):  # noqa: B023
            same(found, data[1], "broadcast")
        answers = together(lambda i, r, s, d: nccl("ncclReduce", s, d, count * ranks, number, SUM, 0, r.communicator, r.stream))  # noqa: B023
        for (rank, *_), found in zip(held, answers, strict=True):
            same(found, total.astype(type) if rank == 0 else data[1], "reduce")
        for found in together(lambda i, r, s, d: nccl("ncclAllGather", s, d, count, number, r.communicator, r.stream)):  # noqa: B023
            same(found, np.concatenate([d[:count] for d in data]), "all-gather")
        answers = together(lambda i, r, s, d: nccl("ncclReduceScatter", s, d, count, number, SUM, r.communicator, r.stream))  # noqa: B023
        for (rank, *_), found in zip(held, answers, strict=True):
            same(found[:count], total[rank * count : (rank + 1) * count].astype(type), "reduce-scatter")

        def ring(rank: int, r: Rank, send: int, receive: int) -> None:
            nccl("ncclSend", send, count * ranks, number, (rank + 1) % ranks, r.communicator, r.stream)  # noqa: B023
            nccl("ncclRecv", receive, count * ranks, number, (rank - 1) % ranks, r.communicator, r.stream)  # noqa: B023

        for (rank, *_), found in zip(held, together(ring), strict=True):
            same(found, data[(rank - 1) % ranks], "send and receive")
        for rank, r, send, _ in held:
            del rank
            nccl("ncclGroupStart") if r is held[0][1] else None
            nccl("ncclAllReduce", send, send, count * ranks, number, SUM, r.communicator, r.stream)
        nccl("ncclGroupEnd")
        for rank, r, send, _ in held:
            same(r.get(send, data[rank]), total.astype(type), "in place")


def begin() -> int:
    cu("cuInit", 0)
    count = ctypes.c_int()
    cu("cuDeviceGetCount", ctypes.byref(count))
    return count.value


def one() -> None:
    """All ranks of one thread."""
    ranks = begin()
    mine = [Rank(i) for i in range(ranks)]
    handles = (U64 * ranks)()
    nccl("ncclCommInitAll", handles, ranks, None)
    for r, handle in zip(mine, handles, strict=True):
        r.communicator = U64(handle)
    collectives(list(enumerate(mine)), ranks)
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
