"""Which fences of system scope leave an SM together: warps that store to memory of some kind, or nothing, and fence at once.

``python -m bench.machine.system_fences --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model, which has fewer rows.
"""

from __future__ import annotations

import ctypes
import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card, Device
from bench.machine.card_program import measure_cubin

KERNELS = ("sc_system", "acq_rel_system", "sc_device")
NOTHING, WORD, LINE, STACK = range(4)
"""What each warp stores before its fence: nothing, one lane's word, 32 words, two words of each thread to the stack."""
WARPS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 17, 18, 20, 24, 28, 31, 32, 34, 36, 40, 48, 56, 62, 64)
SHAPES = tuple((b, t) for b in (1, 2, 4, 8, 16, 32) for t in (32, 64, 128, 256, 512, 1024) if b * t <= 2048)
"""Blocks of each SM and threads of each block."""
MOST_WARPS = 64


def shape_of(warps: int) -> tuple[int, int]:
    """The fewest blocks with so many warps in all: blocks of each SM and threads of each block."""
    return (1, 32 * warps) if warps <= 32 else (2, 16 * warps)


def host_memory(device: Device, nbytes: int, managed: bool) -> np.uint64:
    """The address of page-locked memory of the host, or of managed memory that the host has touched last."""
    assert isinstance(device, Card)
    pointer = ctypes.c_uint64()
    if managed:
        device.call("cuMemAllocManaged", ctypes.byref(pointer), ctypes.c_size_t(nbytes), ctypes.c_uint(1))
    else:
        device.call("cuMemHostAlloc", ctypes.byref(pointer), ctypes.c_size_t(nbytes), ctypes.c_uint(3))
    ctypes.memset(pointer.value or 0, 0, nbytes)
    return np.uint64(pointer.value or 0)


class Fences:
    """Launches of warps that fence together."""

    def __init__(self, device: Device, cubin: bytes) -> None:
        self.device, self.module, self.sm_count = device, device.load(cubin), int(device.describe()["sm_count"])
        self.on_card = device.kind == "card"
        self.turns, self.period = (12, 1 << 18) if self.on_card else (3, 1 << 14)
        self.words = device.alloc(8192 * 4)
        own = device.upload(np.zeros(self.sm_count * MOST_WARPS * 32, np.uint32))
        self.places: dict[str, Any] = {"own": own}
        self.out = device.alloc(self.sm_count * MOST_WARPS * (self.turns * 3 + 1) * 4)

    def timed(
        self, kernel: str, shape: tuple[int, int], sms: int, store: int, place: str = "own", apart: int = 0
    ) -> dict[str, Any]:
        """Cycles from the first warp's beginning until each fence of an SM is over, in order: the median over turns on the first SM (``ends``), and over turns and SMs that of the last (``last``)."""
        per_sm, threads = shape
        blocks, warps = per_sm * self.sm_count, per_sm * threads // 32
        self.words.write(np.zeros(8192, np.uint32))
        counts = [np.uint32(blocks), np.int32(sms), np.int32(self.turns), np.uint32(self.period)]
        arguments = [self.out, self.words, self.places[place], *counts, np.int32(store), np.uint32(apart)]
        self.module.launch(kernel, blocks, threads, arguments, threads // 32 * self.turns * 12)
        total = blocks * threads // 32
        read = self.out.read(np.uint32, total * (self.turns * 3 + 1)).astype(np.int32).astype(np.int64)
        rows, sm = read[: total * self.turns * 3].reshape(total, self.turns, 3), read[total * self.turns * 3 :]
        each = []
        for number in range(sms):
            mine = rows[sm == number][:, 1:]
            if len(mine) == warps:
                each.append(np.sort(mine[:, :, 2] - mine[:, :, 0].min(axis=0), axis=0))
        if not each:
            return {}
        found = {"ends": np.median(each[0], axis=1).astype(int).tolist()}
        found["last"] = int(np.median([turns[-1] for turns in each]))
        return found

    def chain(self, kernel: str, shape: tuple[int, int], sms: int, store: int, place: str = "own") -> float:
        """Cycles per turn of a chain of fences of every warp, the last warp's."""
        per_sm, threads = shape
        blocks, total = per_sm * self.sm_count, per_sm * self.sm_count * threads // 32
        longest = []
        for count in (8, 40):
            self.words.write(np.zeros(8192, np.uint32))
            arguments = [self.out, self.words, self.places[place], np.uint32(blocks), np.int32(sms), np.int32(count)]
            self.module.launch(kernel, blocks, threads, [*arguments, np.int32(store)])
            read = self.out.read(np.uint32, total * 2).reshape(total, 2)
            longest.append(int(np.median([read[read[:, 1] == sm, 0].max() for sm in range(sms)])))
        return (longest[1] - longest[0]) / 32

    def barrier(self, kernel: str, shape: tuple[int, int]) -> float:
        """Cycles of a grid barrier in which every thread fences."""
        blocks, repeats = shape[0] * self.sm_count, 21 if self.on_card else 4
        self.words.write(np.zeros(8192, np.uint32))
        self.module.launch(kernel, blocks, shape[1], [self.out, self.words, np.int32(repeats)])
        return round(float(np.mean(self.out.read(np.uint32, blocks))) / (repeats - 1), 1)


def measure(device: Device, cubin: bytes) -> dict[str, Any]:
    """Rows by part; each part's keys are kernel, store, place, shape, and number of SMs (or cycles between two warps)."""
    fences = Fences(device, cubin)
    chip, began = fences.sm_count, time.monotonic()
    found: dict[str, Any] = {
        "warps": {}, "shapes": {}, "sms": {}, "apart": {}, "chains": {}, "barriers": {}, "seconds": {}
    }  # fmt: skip

    def done(part: str) -> None:
        found["seconds"][part] = round(time.monotonic() - began, 1)
        print(part, found["seconds"][part], flush=True)

    def several(places: tuple[tuple[str, int], ...]) -> None:
        for kernel, (place, store) in itertools.product(KERNELS, places):
            for warps, sms in itertools.product(WARPS if fences.on_card else (1, 4, 16, 32, 64), (1, chip)):
                name = f"{kernel} {store} {place} {warps} {sms}"
                found["warps"][name] = fences.timed(kernel, shape_of(warps), sms, store, place)
        done(f"warps {places[0][0]}")

    def shapes(place: str, stores: tuple[int, ...]) -> None:
        for kernel, store, shape in itertools.product(KERNELS, stores, SHAPES):
            name = f"{kernel} {store} {place} {shape[0]}x{shape[1]} {chip}"
            found["shapes"][name] = fences.timed(kernel, shape, chip, store, place)
        done(f"shapes {place}")

    several((("own", NOTHING), ("own", WORD), ("own", LINE), ("own", STACK)))
    for kernel, shape in itertools.product(
        ("barrier_device", "barrier_system", "barrier_device_stack", "barrier_system_stack"),
        SHAPES if fences.on_card else ((1, 32), (4, 32), (1, 1024), (2, 1024)),
    ):
        found["barriers"][f"{kernel} {shape[0]}x{shape[1]}"] = fences.barrier(kernel, shape)
    done("barriers")
    if not fences.on_card:
        return found
    shapes("own", (NOTHING, WORD, STACK))
    for store, warps, sms in itertools.product((NOTHING, WORD), (1, 16, 32, 64), (1, 2, 4, 8, 16, 33, 66, 99, 132)):
        name = f"sc_system {store} own {warps} {sms}"
        found["sms"][name] = fences.timed("sc_system", shape_of(warps), sms, store)
    for store, apart, warps in itertools.product((NOTHING, WORD), (10, 30, 60, 120, 300, 600), (8, 16, 32, 64)):
        name = f"sc_system {store} own {warps} {apart}"
        found["apart"][name] = fences.timed("sc_system", shape_of(warps), 1, store, apart=apart)
    done("sms and apart")
    for kernel, store, warps, sms in itertools.product(
        ("chain_system", "chain_device"), (NOTHING, WORD), WARPS, (1, chip)
    ):
        found["chains"][f"{kernel} {store} own {warps} {sms}"] = fences.chain(kernel, shape_of(warps), sms, store)
    done("chains")
    size = chip * MOST_WARPS * 128
    fences.places["host"] = host_memory(device, size, False)
    several((("host", WORD), ("host", LINE)))
    for store, warps, sms in itertools.product((NOTHING, WORD), WARPS, (1, chip)):  # with host memory mapped
        name = f"sc_system {store} own {warps} {sms}"
        found["warps"][f"mapped {name}"] = fences.timed("sc_system", shape_of(warps), sms, store)
    shapes("host", (WORD,))
    for store, warps, sms in itertools.product((NOTHING, WORD), (1, 16, 32, 64), (1, chip)):
        found["chains"][f"chain_system {store} host {warps} {sms}"] = fences.chain(
            "chain_system", shape_of(warps), sms, store, "host"
        )
    done("host")
    fences.places["managed"] = host_memory(device, size, True)
    several((("managed", WORD),))
    shapes("managed", (WORD,))
    return found


if __name__ == "__main__":
    measure_cubin(Path(__file__), __doc__, measure)
