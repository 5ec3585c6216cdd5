"""Measures how long copies and fills take: ``python -m bench.transfers [--out FILE]`` on a card, ``warpwright run --gpu h200,h200 bench/transfers.py`` on the
model.

Events around one copy of each size, as programs measure it: between page-locked (``pinned``) or ordinary (``pageable``) host memory and
the device (``to``, ``from``), within the device, to another one (``peer``, where there is one), fills, and copies that the engine of each direction makes
at once (``both``).  Shortest of seven, microseconds by bytes.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path

SIZES = (4, 1024, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20)
TURNS = 7


class _Cuda:
    """The driver by ctypes: nothing else has to be installed."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments: int | bytes | ctypes._CArgObject) -> None:
        given = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
        code = self.library[name](*given)
        if code:
            raise RuntimeError(f"{name} returned {code}")

    def word(self, name: str, *arguments: int) -> int:
        place = ctypes.c_uint64()
        self(name, ctypes.byref(place), *arguments)
        return place.value


def microseconds(cuda: _Cuda, stream: int, work: Callable[[], None]) -> float:
    """Time of the shortest turn, between an event before the work and one after it."""
    first, last = (cuda.word("cuEventCreate", 0) for _ in range(2))
    times = []
    for _ in range(TURNS):
        cuda("cuStreamSynchronize", stream)
        cuda("cuEventRecord", first, stream)
        work()
        cuda("cuEventRecord", last, stream)
        cuda("cuEventSynchronize", last)
        took = ctypes.c_float()
        cuda("cuEventElapsedTime", ctypes.byref(took), first, last)
        times.append(took.value * 1e3)
    return min(times)


def measure() -> dict[str, dict[str, float]]:
    """Microseconds by kind of copy and bytes."""
    cuda = _Cuda()
    cuda("cuInit", 0)
    count = ctypes.c_int32()
    cuda("cuDeviceGetCount", ctypes.byref(count))
    contexts = [cuda.word("cuDevicePrimaryCtxRetain", i) for i in range(min(count.value, 2))]
    most = max(SIZES)
    arrays = []
    for context in contexts:
        cuda("cuCtxSetCurrent", context)
        arrays.append(cuda.word("cuMemAlloc_v2", most))
    if len(contexts) > 1:
        cuda("cuCtxEnablePeerAccess", contexts[0], 0)
    cuda("cuCtxSetCurrent", contexts[0])
    if len(contexts) > 1:
        cuda("cuCtxEnablePeerAccess", contexts[1], 0)
    here, more = arrays[0], cuda.word("cuMemAlloc_v2", most)
    pinned = cuda.word("cuMemHostAlloc", most, 0)
    ordinary = ctypes.create_string_buffer(most)
    pageable = ctypes.addressof(ordinary)
    stream, second = (cuda.word("cuStreamCreate", 1) for _ in range(2))
    event = cuda.word("cuEventCreate", 2)

    def both(n: int) -> None:
        cuda("cuMemcpyHtoDAsync_v2", here, pinned, n, stream)
        cuda("cuMemcpyDtoHAsync_v2", pinned + most // 2 if n <= most // 2 else pinned, more, n, second)
        cuda("cuEventRecord", event, second)
        cuda("cuStreamWaitEvent", stream, event, 0)

    kinds: dict[str, Callable[[int], None]] = {
        "nothing": lambda n: None,
        "pinned to": lambda n: cuda("cuMemcpyHtoDAsync_v2", here, pinned, n, stream),
        "pinned from": lambda n: cuda("cuMemcpyDtoHAsync_v2", pinned, here, n, stream),
        "pageable to": lambda n: cuda("cuMemcpyHtoDAsync_v2", here, pageable, n, stream),
        "pageable from": lambda n: cuda("cuMemcpyDtoHAsync_v2", pageable, here, n, stream),
        "within": lambda n: cuda("cuMemcpyDtoDAsync_v2", more, here, n, stream),
        "fill": lambda n: cuda("cuMemsetD8Async", here, 1, n, stream),
        "both": both,
    }
    if len(contexts) > 1:
        kinds["peer"] = lambda n: cuda("cuMemcpyPeerAsync", arrays[1], contexts[1], here, contexts[0], n, stream)
    return {
        kind: {str(n): round(microseconds(cuda, stream, lambda n=n, work=work: work(n)), 3) for n in SIZES}
        for kind, work in kinds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write them as JSON")
    given = parser.parse_args()
    found = measure()
    print(f"{'bytes':>12s}", *(f"{kind:>14s}" for kind in found))
    for n in map(str, SIZES):
        print(f"{int(n):12,}", *(f"{times[n]:14.2f}" for times in found.values()))
    if given.out is not None:
        record = {"command": " ".join(["python -m bench.transfers", *sys.argv[1:]]), "microseconds": found}
        given.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
