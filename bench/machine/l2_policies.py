"""What L2 keeps by policy, and what compressible memory gains: ``python -m bench.machine.l2_policies --cubin FILE --out FILE``.

``--build FILE`` compiles the kernels.  On the model: ``warpwright run --gpu h200 bench/machine/l2_policies.py --cubin FILE --out FILE [--parts …]``.
Each part is caught by itself, and the file is written after each of them.

Residency is seen in two ways: by the time of whole kernels (events), and by a probe, which times single loads of drawn lines and counts those that take
less than DRAM does.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import struct
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Buffer, Card, DeviceError, smi

MIB = 1 << 20
PROBE_BLOCKS = 132
PROBE_COUNT = 48
BIN_CYCLES = 16
BIN_COUNT = 96
PERSISTING_LIMIT = 6
"""CU_LIMIT_PERSISTING_L2_CACHE_SIZE."""
WINDOW = 1
"""CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW."""
NORMAL, STREAMING, PERSISTING = 0, 1, 2
"""CUaccessProperty."""
ATTRIBUTES = {"l2_bytes": 38, "compression": 107, "persisting_bytes": 108, "window_bytes": 109}
POLICIES = {"evict_last": 1, "evict_first": 2, "evict_normal": 3, "evict_unchanged": 4, "last or first": 5}
LINE_WORK = {"prefetch": 0, "prefetch evict_last": 1, "prefetch evict_normal": 2, "applypriority": 3, "discard": 4}
SMALL = 12 * MIB
CAPACITIES = (24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160)
WORDS_PER_SECTOR, WORDS_PER_LINE = 8, 32
DEEP = ("zeros", "constant", "8 bits", "16 bits", "sparse halves, half", "random")
"""Contents that are looked into further."""
L1_KINDS = ("plain", "evict_last", "evict_first", "no_allocate", "evict_unchanged")


class Bench:
    """The card, a separate stream, memory and the kernels."""

    def __init__(self, cubin: bytes, quick: bool) -> None:
        self.card = Card()
        self.call = self.card.call
        self.module = self.card.load(cubin)
        self.quick = quick
        self.turns = 1 if quick else 5
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), ctypes.c_uint(1))
        self.sink = self.card.alloc(4096)
        self.cycles = self.card.alloc(2 << 20)
        self.largest = self.attribute("persisting_bytes")

    def attribute(self, name: str) -> int:
        value = ctypes.c_int()
        number = ctypes.c_int(ATTRIBUTES[name])
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.card.device)
        return value.value

    def launch(self, kernel: str, blocks: int, threads: int, *args: Any) -> None:
        cells = [
            ctypes.c_uint64(a)
            if isinstance(a, int)
            else ctypes.c_uint64(a.address)
            if hasattr(a, "address")
            else ctypes.create_string_buffer(a.tobytes(), a.nbytes)
            for a in args
        ]
        pointers = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells))
        shape = [ctypes.c_uint(v) for v in (blocks, 1, 1, threads, 1, 1, 0)]
        self.call("cuLaunchKernel", self.module.function(kernel), *shape, self.stream, pointers, None)

    def wait(self) -> None:
        self.call("cuStreamSynchronize", self.stream)

    def microseconds(self, *work: Callable[[], None]) -> float:
        """Between events around each call of `work`, all submitted together, of the last one."""
        for one in work[:-1]:
            one()
        self.call("cuEventRecord", self.card.start, self.stream)
        work[-1]()
        self.call("cuEventRecord", self.card.stop, self.stream)
        self.call("cuEventSynchronize", self.card.stop)
        value = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(value), self.card.start, self.card.stop)
        return round(1e3 * value.value, 2)

    def timed(self, *work: Callable[[], None]) -> list[float]:
        return [self.microseconds(*work) for _ in range(self.turns)]

    # ------------------------------------------------------------------------------------------------- kernels

    def read(self, at: int, size: int, passes: int = 1, blocks: int = 132 * 4) -> None:
        self.launch("read", blocks, 512, at, np.uint32(size // 16), np.int32(passes), self.sink)

    def read_policy(self, at: int, size: int, policy: str, fraction: float = 1.0) -> None:
        numbers = (np.uint32(size // 16), np.int32(POLICIES[policy]), np.float32(fraction))
        self.launch("read_policy", 132 * 4, 512, at, *numbers, self.sink)

    def write_policy(self, at: int, size: int, policy: str, fraction: float = 1.0) -> None:
        numbers = (np.uint32(size // 16), np.int32(POLICIES[policy]), np.float32(fraction))
        self.launch("write_policy", 132 * 4, 512, at, *numbers)

    def each_line(self, at: int, size: int, what: str) -> None:
        self.launch("each_line", 132 * 4, 256, at, np.uint32(size // 128), np.int32(LINE_WORK[what]))

    def probe(self, at: int, size: int, first: int = -1, count: int = PROBE_COUNT) -> np.ndarray:
        """Cycles of single loads: drawn from the memory, or of lines that follow each other."""
        self.launch(
            "probe", PROBE_BLOCKS, 1, at, np.uint32(size // 128), np.int32(first), np.uint32(count), self.cycles
        )
        self.wait()
        return self.cycles.read(np.uint16, PROBE_BLOCKS * count)

    def histogram_of(self, at: int, size: int) -> list[int]:
        """A probe's loads by cycles, in bins of 16; the last one has all that took longer."""
        bins = np.minimum(self.probe(at, size) // BIN_CYCLES, BIN_COUNT - 1)
        return [int(n) for n in np.bincount(bins, minlength=BIN_COUNT)]

    # ------------------------------------------------------------------------------------------------- residency

    def set_aside(self, size: int) -> int:
        """Set the set-aside; gives what the driver made of it."""
        value = ctypes.c_size_t()
        self.wait()
        self.call("cuCtxSetLimit", ctypes.c_int(PERSISTING_LIMIT), ctypes.c_size_t(size))
        self.call("cuCtxGetLimit", ctypes.byref(value), ctypes.c_int(PERSISTING_LIMIT))
        return value.value

    def window(self, at: int = 0, size: int = 0, ratio: float = 0.0, hit: int = NORMAL, miss: int = NORMAL) -> None:
        """The stream's access-policy window."""
        packed = ctypes.create_string_buffer(struct.pack("<QQfII36x", at, size, ratio, hit, miss), 64)
        self.call("cuStreamSetAttribute", self.stream, ctypes.c_int(WINDOW), packed)

    def reset(self) -> None:
        self.wait()
        self.call("cuCtxResetPersistingL2Cache")


class Compressible:
    """Physical memory mapped at an address, compressible or not."""

    def __init__(self, bench: Bench, size: int, compress: bool) -> None:
        self.bench, self.nbytes = bench, size
        prop = ctypes.create_string_buffer(struct.pack("<iiiiQBBH4x", 1, 0, 1, 0, 0, int(compress), 0, 0), 32)
        step = ctypes.c_size_t()
        bench.call("cuMemGetAllocationGranularity", ctypes.byref(step), prop, ctypes.c_int(0))
        self.granularity = step.value
        assert size % self.granularity == 0
        self.handle, pointer = ctypes.c_uint64(), ctypes.c_uint64()
        bench.call("cuMemCreate", ctypes.byref(self.handle), ctypes.c_size_t(size), prop, ctypes.c_uint64(0))
        got = ctypes.create_string_buffer(32)
        bench.call("cuMemGetAllocationPropertiesFromHandle", got, self.handle)
        self.compressed = got.raw[24]
        numbers = (ctypes.c_size_t(size), ctypes.c_size_t(0), ctypes.c_uint64(0), ctypes.c_uint64(0))
        bench.call("cuMemAddressReserve", ctypes.byref(pointer), *numbers)
        self.address = pointer.value
        place = (ctypes.c_uint64(self.address), ctypes.c_size_t(size))
        bench.call("cuMemMap", *place, ctypes.c_size_t(0), self.handle, ctypes.c_uint64(0))
        access = ctypes.create_string_buffer(struct.pack("<iii", 1, 0, 3), 12)
        bench.call("cuMemSetAccess", *place, access, ctypes.c_size_t(1))

    def free(self) -> None:
        place = (ctypes.c_uint64(self.address), ctypes.c_size_t(self.nbytes))
        self.bench.wait()
        self.bench.call("cuMemUnmap", *place)
        self.bench.call("cuMemRelease", self.handle)
        self.bench.call("cuMemAddressFree", *place)


def _mixed(words: np.ndarray) -> dict[str, np.ndarray]:
    """Random words of which some lines, sectors or words are left, the others being 0 or repeated."""
    index = np.arange(len(words), dtype=np.uint32)
    sector, line = index // WORDS_PER_SECTOR, index // WORDS_PER_LINE
    return {
        "half the lines random": np.where(line % 2 == 0, words, 0),
        "half the 256 bytes random": np.where(index // 64 % 2 == 0, words, 0),
        "half the sectors random": np.where(sector % 2 == 0, words, 0),
        "1 of 4 sectors random": np.where(sector % 4 == 0, words, 0),
        "1 of 8 sectors random": np.where(sector % 8 == 0, words, 0),
        "a random word a sector": np.where(index % 8 == 3, words, 0),
        "a random word a line": np.where(index % 32 == 3, words, 0),
        "sector four times": words[(line * 8 + index % 8) % len(words)],
        "random": words,
    }


def contents() -> dict[str, np.ndarray]:
    """32 KiB of each kind, as words."""
    rng = np.random.default_rng(22)
    count = 8192
    words = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    floats = rng.random(count, dtype=np.float32)
    index = np.arange(count, dtype=np.uint32)
    sector, line = index // WORDS_PER_SECTOR, index // WORDS_PER_LINE

    def sparse(zeros: float) -> np.ndarray:
        return np.where(rng.random(count) < zeros, np.float32(0), floats)

    def halves(zeros: float) -> np.ndarray:
        values = rng.standard_normal(2 * count).astype(np.float16)
        return np.where(rng.random(2 * count) < zeros, np.float16(0), values).view(np.uint32)

    two_of_four = rng.standard_normal(2 * count).astype(np.float16).reshape(-1, 4)
    two_of_four[:, 2:] = 0
    made: dict[str, Any] = {
        "zeros": np.zeros(count, np.uint32),
        "constant": np.full(count, 0x3F800000, np.uint32),
        "constant random": np.full(count, 0x9E3779B1, np.uint32),
        "a word a sector": words[sector],
        "a word a line": words[line],
        "count": index,
        "1 bit": words & 1,
        "4 bits": words & 15,
        "8 bits": words & 255,
        "12 bits": words & 4095,
        "16 bits": words & 65535,
        "20 bits": words & 0xFFFFF,
        "24 bits": words & 0xFFFFFF,
        "signed 8 bits": (words & 255).astype(np.int32) - 128,
        "top 16 bits": words & 0xFFFF0000,
        "base and 8 bits": 0x12345600 + (words & 255),
        "base a line and 8 bits": (words[line] & 0xFFFFFF00) + (words & 255),
        "base a line and 16 bits": (words[line] & 0xFFFF0000) + (words & 65535),
        "bytes of 1 bit": words & 0x01010101,
        "bytes of 4 bits": words & 0x0F0F0F0F,
        "halves of 8 bits": words & 0x00FF00FF,
        "floats": floats,
        "floats of 8 bits": (words & 255).astype(np.float32),
        "doubles of 8 bits": (words[: count // 2] & 255).astype(np.float64).view(np.uint32),
        "pointers": (np.uint64(0x7F1234500000) + 16 * (words[: count // 2] & 0xFFFF).astype(np.uint64)).view(np.uint32),
        "longs of 16 bits": (words[: count // 2] & 0xFFFF).astype(np.uint64).view(np.uint32),
        "sparse floats, half": sparse(0.5),
        "sparse floats, 3 of 4": sparse(0.75),
        "sparse floats, 7 of 8": sparse(0.875),
        "sparse floats, 31 of 32": sparse(0.96875),
        "sparse halves, half": halves(0.5),
        "sparse halves, 3 of 4": halves(0.75),
        "halves 2 of 4": two_of_four.reshape(-1).view(np.uint32),
        **_mixed(words),
    }
    return {name: np.ascontiguousarray(table).view(np.uint32).reshape(-1) for name, table in made.items()}


# ----------------------------------------------------------------------------------------------------- the parts


def limits(b: Bench) -> Any:
    """Attributes, and what the driver makes of each size of the set-aside."""
    found: dict[str, Any] = {"attributes": {name: b.attribute(name) for name in ATTRIBUTES}, "limits": {}}
    asked = {0, 1, b.largest, b.largest // 2, *(b.largest * n // 16 + d for n in range(1, 17) for d in (-1, 0, 1))}
    for size in (*sorted(asked), b.largest + 1, b.largest + MIB, 2 * b.largest):
        try:
            found["limits"][size] = b.set_aside(size)
        except DeviceError as error:
            found["limits"][size] = str(error)
    windows = {}
    most = found["attributes"]["window_bytes"]
    data = b.card.alloc(MIB)
    for size, ratio, hit, miss in (
        *((size, 1.0, PERSISTING, STREAMING) for size in (0, 1, most, most + 1)),
        *((MIB, ratio, PERSISTING, STREAMING) for ratio in (-0.5, 0.0, 0.3, 1.5)),
        *((MIB, 0.5, hit, miss) for hit in range(4) for miss in range(4)),
    ):
        try:
            b.window(data.address, size, ratio, hit, miss)
            windows[f"{size} {ratio} {hit} {miss}"] = "set"
        except DeviceError as error:
            windows[f"{size} {ratio} {hit} {miss}"] = str(error)
    b.window()
    data.free()
    return {**found, "windows": windows}


def kept(b: Bench) -> Any:
    """Probes of how much persisting memory of a window survives a flood."""
    hot, flood = b.card.alloc(64 * MIB), b.card.alloc(512 * MIB)
    rows = []

    def case(aside: int, size: int, read: int, ratio: float, miss: int, flooded: int, how: str = "") -> None:
        b.reset()
        b.window()
        given = b.set_aside(aside)
        b.read(flood.address + 256 * MIB, 256 * MIB)
        b.window(hot.address, size, ratio, PERSISTING, miss)
        b.read(hot.address, read)
        b.read(hot.address, read)
        if how == "reset":
            b.reset()
        if how == "window off":
            b.window()
        if flooded:
            b.read(flood.address, flooded)
        b.window()
        rows.append(
            {"set_aside": given, "window": size, "read": read, "ratio": ratio, "miss": miss, "flood": flooded, "how": how,
             "cycles": b.histogram_of(hot.address, read)}
        )  # fmt: skip

    full, m = b.largest, MIB
    for flooded in (0, 8, 16, 32, 64, 128, 256, 512):
        case(full, 16 * m, 16 * m, 1.0, STREAMING, flooded * m)
        case(full, 16 * m, 16 * m, 0.0, NORMAL, flooded * m)
        case(0, 16 * m, 16 * m, 1.0, STREAMING, flooded * m)
    for aside in range(0, 17, 2):
        for size in (8, 16, 24, 32, 48):
            case(full * aside // 16, size * m, size * m, 1.0, STREAMING, 128 * m)
    for ratio in (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9):
        for size in (16, 32, 48, 64):
            for miss in (STREAMING, NORMAL):
                case(full, size * m, size * m, ratio, miss, 128 * m)
        case(full, 32 * m, 32 * m, ratio, STREAMING, 0)
        case(full, 32 * m, 32 * m, ratio, STREAMING, 16 * m)
    for how in ("reset", "window off"):
        for flooded in (0, 16, 64, 128):
            case(full, 16 * m, 16 * m, 1.0, STREAMING, flooded * m, how)
    case(full, 16 * m, 48 * m, 1.0, STREAMING, 64 * m)
    for memory in (hot, flood):
        memory.free()
    return rows


def room(b: Bench) -> Any:
    """How much space persisting lines leave for normal ones: memory read twice after the persisting one, then probed, and the persisting one after it."""
    hot, other = b.card.alloc(64 * MIB), b.card.alloc(256 * MIB)
    rows = []
    for aside in (0, b.largest // 2, b.largest):
        for size in (0, 8, 16, 32, 48):
            for beside in (8, 16, 24, 32, 48):
                b.reset()
                b.window()
                given = b.set_aside(aside)
                b.read(other.address + 128 * MIB, 128 * MIB)
                if size:
                    b.window(hot.address, size * MIB, 1.0, PERSISTING, STREAMING)
                    b.read(hot.address, size * MIB)
                    b.read(hot.address, size * MIB)
                for _ in range(3):
                    b.read(other.address, beside * MIB)
                b.window()
                row = {
                    "set_aside": given,
                    "hot": size,
                    "beside": beside,
                    "cycles": b.histogram_of(other.address, beside * MIB),
                }
                rows.append(row | ({"hot_cycles": b.histogram_of(hot.address, size * MIB)} if size else {}))
    for memory in (hot, other):
        memory.free()
    return rows


BEFORE = {
    "flooded": (),
    "read": ("read",),
    "read twice": ("read", "read"),
    "read by other SMs": ("read by other SMs",),
    "read by all SMs": ("read", "read by other SMs", "read"),
    "kept, reset": ("window", "read", "read", "reset"),
    "kept, reset, read": ("window", "read", "read", "reset", "no window", "read"),
    "kept at a ratio of 1/4, reset": ("quarter", "read", "read", "reset"),
}
"""What is done to memory that L2 lacks, before reads with a window."""
REREAD_RATIOS = (0.25, 0.5, 1.0)


def reread(b: Bench) -> Any:
    """How much of the memory that L2 already had when it was read with a window persists, by what had been done to it before."""
    hot, flood = b.card.alloc(64 * MIB), b.card.alloc(512 * MIB)
    rows = []
    for mib in (4, 16):
        size = mib * MIB
        work: dict[str, Callable[[], None]] = {
            "read": lambda n=size: b.read(hot.address, n),  # type: ignore[misc]
            "read by other SMs": lambda n=size: b.read(hot.address, n, blocks=132 * 3),  # type: ignore[misc]
            "window": lambda n=size: b.window(hot.address, n, 1.0, PERSISTING, STREAMING),  # type: ignore[misc]
            "quarter": lambda n=size: b.window(hot.address, n, 0.25, PERSISTING, STREAMING),  # type: ignore[misc]
            "no window": b.window,
            "reset": b.reset,
        }
        for before, steps in BEFORE.items():
            for ratio in REREAD_RATIOS:
                for reads in (1, 2, 4):
                    b.reset()
                    b.window()
                    given = b.set_aside(b.largest)
                    b.read(flood.address + 256 * MIB, 256 * MIB)
                    for step in steps:
                        work[step]()
                    b.window(hot.address, size, ratio, PERSISTING, STREAMING)
                    for _ in range(reads):
                        b.read(hot.address, size)
                    b.window()
                    b.read(flood.address, 256 * MIB)
                    row = {"hot": size, "set_aside": given, "before": before, "ratio": ratio, "reads": reads}
                    rows.append(row | {"cycles": b.histogram_of(hot.address, size)})
    for memory in (hot, flood):
        memory.free()
    return rows


def hashed(b: Bench) -> Any:
    """Which lines a hit ratio picks: cycles of lines that follow each other."""
    hot, flood = b.card.alloc(64 * MIB), b.card.alloc(512 * MIB)
    count = 64
    found: dict[str, Any] = {}
    for size, ratio, first, turn in (
        (32, 0.25, 0, 0), (32, 0.5, 0, 0), (32, 0.5, 0, 1), (32, 0.5, 100_000, 0), (32, 0.75, 0, 0), (16, 0.5, 0, 0), (32, 1.0, 0, 0),
        (32, 0.1, 0, 0), (32, 0.9, 0, 0),
    ):  # fmt: skip
        b.reset()
        b.set_aside(b.largest)
        b.read(flood.address + 256 * MIB, 256 * MIB)
        b.window(hot.address, size * MIB, ratio, PERSISTING, STREAMING)
        b.read(hot.address, size * MIB)
        b.read(hot.address, size * MIB)
        b.read(flood.address, 128 * MIB)
        b.window()
        cycles = b.probe(hot.address, size * MIB, first, count)
        found[f"{size} MiB {ratio} from {first} turn {turn}"] = [int(c) for c in cycles]
    for policy, fraction in (("evict_last", 0.5), ("evict_last", 0.25)):
        b.reset()
        b.read(flood.address + 256 * MIB, 256 * MIB)
        b.read_policy(hot.address, 32 * MIB, policy, fraction)
        b.read(flood.address, 128 * MIB)
        found[f"{policy} {fraction}"] = [int(c) for c in b.probe(hot.address, 32 * MIB, 0, count)]
    for memory in (hot, flood):
        memory.free()
    return found


@dataclass
class HintCases:
    """Memory that is treated with some priority, then other memory is read; the first is probed and read again."""

    bench: Bench
    hot: Buffer
    flood: Buffer
    rows: list[dict[str, Any]] = field(default_factory=list)

    def after(
        self, name: str, mib: int, prepare: Callable[[], None], flooded_mib: int, policy: str = "plain", aside: int = 0
    ) -> None:
        """Add a row: ``prepare`` treats ``mib`` of the first memory, then ``flooded_mib`` of the other are read with a policy."""
        b, flood = self.bench, self.flood.address

        def again() -> None:
            b.reset()
            b.set_aside(aside)
            b.read(flood + 128 * MIB, 128 * MIB)
            prepare()
            if flooded_mib and policy == "plain":
                b.read(flood, flooded_mib * MIB)
            elif flooded_mib:
                b.read_policy(flood, flooded_mib * MIB, policy)

        again()
        size = mib * MIB
        row = {"case": name, "hot": size, "flood": flooded_mib * MIB, "flood_policy": policy, "set_aside": aside}
        row["cycles"] = b.histogram_of(self.hot.address, size)
        row["us"] = b.timed(again, lambda: b.read(self.hot.address, size))
        self.rows.append(row)

    def read(self, mib: int, policy: str, fraction: float = 1.0) -> Callable[[], None]:
        return lambda: self.bench.read_policy(self.hot.address, mib * MIB, policy, fraction)

    def write(self, mib: int, policy: str) -> Callable[[], None]:
        return lambda: self.bench.write_policy(self.hot.address, mib * MIB, policy)

    def each_line(self, mib: int, what: str) -> Callable[[], None]:
        return lambda: self.bench.each_line(self.hot.address, mib * MIB, what)


def _policies(cases: HintCases) -> None:
    """Reads and writes with each priority, all of the memory and fractions of it."""
    largest = cases.bench.largest
    for policy in POLICIES:
        for flood_policy in ("plain", "evict_first", "evict_last", "evict_normal", "evict_unchanged"):
            for flooded in (24, 48, 96):
                cases.after(f"read {policy}", 16, cases.read(16, policy), flooded, flood_policy)
        cases.after(f"read {policy}", 16, cases.read(16, policy), 96, aside=largest)
        cases.after(f"write {policy}", 16, cases.write(16, policy), 96, aside=largest)
    for mib in (24, 32, 40, 48, 60):
        for aside in (0, largest):
            cases.after("read evict_last", mib, cases.read(mib, "evict_last"), 96, aside=aside)
    for fraction in (0.25, 0.5, 0.75):
        for policy in ("evict_last", "last or first", "evict_first"):
            cases.after(f"read {policy} {fraction}", 16, cases.read(16, policy, fraction), 48)


def _lines(cases: HintCases) -> None:
    """A policy for a range of addresses, and instructions that act on single lines."""
    b, first = cases.bench, cases.hot.address

    def ranged() -> None:
        numbers = (np.uint32(MIB), np.uint32(4 * MIB), np.uint32(16 * MIB))
        b.launch("read_range", 528, 512, first, *numbers, b.sink)

    cases.after("range 4 of 16 MiB", 16, ranged, 96)
    for what in LINE_WORK:
        cases.after(what, 16, cases.each_line(16, what), 0)
        cases.after(what, 16, cases.each_line(16, what), 96)

        def both(w: str = what) -> None:
            cases.read(16, "evict_last")()
            cases.each_line(16, w)()

        cases.after(f"read evict_last, {what}", 16, both, 96)


def hints(b: Bench) -> Any:
    """What each priority does: memory is read with one, other memory with another, then the first is probed and read again."""
    cases = HintCases(b, b.card.alloc(64 * MIB), b.card.alloc(256 * MIB))
    _policies(cases)
    _lines(cases)
    written, flood = {}, cases.flood.address
    for discard in (False, True):
        # Dirty lines to write back: a flood after the writes is slowed down by the write-backs.
        def change(d: bool = discard) -> None:
            b.read(flood + 128 * MIB, 128 * MIB)
            cases.write(24, "evict_normal")()
            if d:
                cases.each_line(24, "discard")()

        written[f"written True, discarded {discard}"] = b.timed(change, lambda: b.read(flood, 128 * MIB))
    for memory in (cases.hot, cases.flood):
        memory.free()
    return {"rows": cases.rows, "written": written}


def l1_hints(b: Bench) -> Any:
    """What L1 keeps of words read with one priority after others read with another."""
    hot, flood = b.card.alloc(MIB), b.card.alloc(MIB)
    rows = []
    for kib in (32, 96):
        for flood_kib in (64, 128, 192, 384):
            for one in range(len(L1_KINDS)):
                for other in range(len(L1_KINDS)):
                    words = [np.uint32(n * 256) for n in (kib, flood_kib)]
                    b.launch(
                        "keep_l1", 1, 256, hot, words[0], np.int32(one), flood, words[1], np.int32(other), b.cycles
                    )
                    b.wait()
                    cycles = b.cycles.read(np.uint16, kib * 8)
                    hits = int((cycles < 120).sum())
                    rows.append([kib, flood_kib, L1_KINDS[one], L1_KINDS[other], hits, int(cycles.size)])
    return rows


def histograms(b: Bench) -> Any:
    """Figure 34's histogram, by bins, hit ratio, set-aside and elements."""
    most = 16 if b.quick else 256
    data = b.card.alloc(4 * most * MIB)
    table = b.card.alloc(96 * MIB)
    rows = []
    for bins_million in (2.5, 5, 7.5, 10, 15, 20):
        bins = int(bins_million * 1e6)
        b.launch("random_bins", 1056, 512, data, np.uint32(most * MIB), np.uint32(bins))
        for aside, ratio, miss in (
            (0, 0.0, NORMAL), (b.largest, 0.0, NORMAL), (b.largest, 0.25, STREAMING), (b.largest, 0.5, STREAMING),
            (b.largest, 0.75, STREAMING), (b.largest, 1.0, STREAMING), (b.largest // 2, 0.5, STREAMING), (b.largest // 2, 1.0, STREAMING),
            (b.largest, 0.5, NORMAL),
        ):  # fmt: skip
            for million in (16, most) if most > 16 else (16,):
                b.reset()
                b.window()
                given = b.set_aside(aside)
                if ratio:
                    b.window(table.address, 4 * bins, ratio, PERSISTING, miss)

                def count(n: int = million) -> None:
                    b.launch("histogram", 1056, 512, data, np.uint32(n * MIB // 4), table)

                took = b.timed(count, count)[: 3 if million == most else 5]
                rows.append(
                    {
                        "bins": bins,
                        "elements": million * MIB,
                        "set_aside": given,
                        "ratio": ratio,
                        "miss": miss,
                        "us": took,
                    }
                )
        b.window()
    for memory in (data, table):
        memory.free()
    return rows


def counted_settings(b: Bench) -> list[tuple[int, int, float, int]]:
    """Bins, set-aside, hit ratio and what lines beyond it are, of the histograms whose traffic is counted."""
    full, unit = b.largest, b.largest // 10
    policies = [(unit * n, 0.0, NORMAL) for n in (0, 1, 3, 5, 7, 10)]
    policies += [(full, ratio, STREAMING) for ratio in (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)]
    policies += [(full, ratio, NORMAL) for ratio in (0.25, 0.5, 0.75)]
    policies += [(unit * 5, ratio, STREAMING) for ratio in (0.25, 0.5, 0.75, 1.0)]
    policies += [(unit * 5, 0.5, NORMAL), (unit * 3, 0.5, STREAMING), (unit * 3, 1.0, STREAMING), (0, 0.5, STREAMING)]
    return [(int(bins * 1e6), *policy) for bins in (2.5, 5, 7.5, 10, 15) for policy in policies]


def set_aside_settings(b: Bench) -> list[tuple[int, int, float, int]]:
    """The same for each size of the set-aside, and for hit ratios that are no sixteenths."""
    full, unit = b.largest, b.largest // 10
    policies = [(unit * n, 0.0, NORMAL) for n in range(11)]
    policies += [(full, 0.3, NORMAL), (full, 0.3, STREAMING), (full // 2, 1.0, NORMAL), (0, 1.0, NORMAL)]
    policies += [(unit * 8, 0.25, STREAMING)]
    return [(int(bins * 1e6), *policy) for bins in (2.5, 5, 7.5, 10) for policy in policies]


def window_settings(b: Bench) -> list[tuple[int, int, float, int]]:
    """The same for the settings that ``histograms`` times."""
    policies = [(0, 0.0, NORMAL), (b.largest, 0.0, NORMAL)]
    policies += [(b.largest, ratio, STREAMING) for ratio in (0.25, 0.5, 0.75, 1.0)]
    policies += [(b.largest // 2, 0.5, STREAMING), (b.largest // 2, 1.0, STREAMING)]
    policies += [(b.largest, ratio, NORMAL) for ratio in (0.25, 0.5)]
    return [(int(bins * 1e6), *policy) for bins in (5, 7.5, 10, 15) for policy in policies]


def counted(b: Bench, settings: list[tuple[int, int, float, int]] | None = None) -> Any:
    """The histograms whose traffic ``--counts`` reads under ncu: each twice, the second time in a warm L2."""
    elements = (4 if b.quick else 96) * MIB
    data, table = b.card.alloc(4 * elements), b.card.alloc(64 * MIB)
    rows, last = [], 0
    for bins, aside, ratio, miss in settings or counted_settings(b):
        if bins != last:
            b.launch("random_bins", 1056, 512, data, np.uint32(elements), np.uint32(bins))
            last = bins
        b.reset()
        b.window()
        given = b.set_aside(aside)
        if ratio:
            b.window(table.address, 4 * bins, ratio, PERSISTING, miss)
        for _ in range(2):
            b.launch("histogram", 1056, 512, data, np.uint32(elements // 4), table)
        b.wait()
        rows.append({"bins": bins, "elements": elements, "set_aside": given, "ratio": ratio, "miss": miss})
    b.window()
    for memory in (data, table):
        memory.free()
    return rows


COUNTS = (
    "gpu__time_duration.sum", "dram__sectors_read.sum", "dram__sectors_write.sum", "lts__t_sectors_op_red.sum",
    "lts__t_sectors_op_red_lookup_hit.sum", "lts__t_sectors_op_red_lookup_miss.sum", "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_read_lookup_miss.sum", "lts__t_sectors_op_write.sum", "lts__t_sectors.sum", "lts__t_sectors_srcunit_ltcfabric.sum",
)  # fmt: skip


def count_under_ncu(cubin: Path, out: Path, part: str) -> None:
    """Run the part ``counted``, ``set_asides`` or ``windows`` under ncu and store each setting's counters with it."""
    from bench.corpus_card import under_ncu, value

    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "settings.json"
        own = ["bench.machine.l2_policies", "--cubin", str(cubin), "--out", str(settings), "--parts", part]
        more = ("--cache-control", "none", "--kernel-name", "histogram")
        measured, text = under_ncu(own, COUNTS, more)
        rows = json.loads(settings.read_text())[part]
    if len(measured) != 2 * len(rows):
        print(text[-2000:])
    for row, counts in zip(rows, measured[1::2], strict=False):
        row["counts"] = {name: float(value(counts, name) or "nan") for name in COUNTS}
    command = f"python -m bench.machine.l2_policies --cubin FILE --counts FILE --parts {part}"
    out.write_text(json.dumps({"card": smi(), "command": command, "rows": rows}) + "\n")


def rereads(b: Bench) -> Any:
    """A stream that is read once, and hot words that are read repeatedly, by the hot words' size, hit ratio and set-aside."""
    stream, hot = b.card.alloc(256 * MIB), b.card.alloc(96 * MIB)
    rows = []
    for size in (8, 16, 24, 32, 40, 48, 64):
        for aside, ratio, miss in (
            (0, 0.0, NORMAL), (b.largest, 0.0, NORMAL), (b.largest, 0.25, STREAMING), (b.largest, 0.5, STREAMING),
            (b.largest, 0.75, STREAMING), (b.largest, 1.0, STREAMING), (b.largest // 2, 0.5, STREAMING), (b.largest // 2, 1.0, STREAMING),
            (b.largest, 0.5, NORMAL),
        ):  # fmt: skip
            b.reset()
            b.window()
            given = b.set_aside(aside)
            if ratio:
                b.window(hot.address, size * MIB, ratio, PERSISTING, miss)

            def both(n: int = size) -> None:
                words = (np.uint32(256 * MIB // 16), hot, np.uint32(n * MIB // 16))
                b.launch("reread", 528, 512, stream, *words, b.sink)

            rows.append(
                {"hot": size * MIB, "set_aside": given, "ratio": ratio, "miss": miss, "us": b.timed(both, both)}
            )
    b.window()
    for memory in (stream, hot):
        memory.free()
    return rows


def of_contents(b: Bench, memory: Compressible, words: np.ndarray, deep: bool) -> dict[str, Any]:
    """Times of memory full of some contents; ``deep``: also what L2 holds of it, and after single words of it have changed."""
    at, big, small = memory.address, memory.nbytes, SMALL
    table, other = b.card.upload(words), b.card.alloc(256 * MIB)

    def fill(size: int) -> None:
        b.launch("fill", 528, 512, at, np.uint32(size // 16), table)

    row: dict[str, Any] = {
        "fill": b.timed(lambda: fill(big), lambda: fill(big)),
        "read": b.timed(lambda: b.read(at, big)),
        "fill_l2": b.timed(lambda: fill(small), lambda: fill(small)),
        "read_l2": b.timed(lambda: b.read(at, small, 1), lambda: b.read(at, small, 16)),
    }
    if deep:
        row["capacity"] = {n: b.timed(lambda n=n: b.read(at, n * MIB, 4)) for n in CAPACITIES if n * MIB <= big}
        row["pokes"] = {}
        for stride in (4096, 512, 128, 64, 32, 8):
            fill(big)
            numbers = (np.uint32(big // 4 // stride), np.uint32(stride), np.uint32(2654435761))
            poked = b.microseconds(lambda n=numbers: b.launch("poke", 528, 512, at, *n))
            b.read(other.address, 256 * MIB)
            row["pokes"][stride] = [poked, b.timed(lambda: b.read(at, big))]
    for one in (table, other):
        one.free()
    return row


def compression(b: Bench) -> Any:
    """Writes and reads of each kind of contents in memory that may be compressed and in memory that may not."""
    found: dict[str, Any] = {}
    for compress in (False, True):
        memory = Compressible(b, (64 if b.quick else 256) * MIB, compress)
        rows = {name: of_contents(b, memory, words, name in DEEP) for name, words in contents().items()}
        about = {"granularity": memory.granularity, "compressed": memory.compressed, "bytes": memory.nbytes}
        found["compressible" if compress else "plain"] = {**about, "bytes_l2": SMALL, "rows": rows}
        memory.free()
    return found


PARTS: dict[str, Callable[[Bench], Any]] = {
    "limits": limits,
    "kept": kept,
    "room": room,
    "reread": reread,
    "compression": compression,
    "hints": hints,
    "histograms": histograms,
    "counted": counted,
    "set_asides": lambda b: counted(b, set_aside_settings(b)),
    "windows": lambda b: counted(b, window_settings(b)),
    "rereads": rereads,
    "hashed": hashed,
    "l1_hints": l1_hints,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cubin", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--build", action="store_true", help="compile the kernels into the cubin and end")
    parser.add_argument("--arch", default="90")
    parser.add_argument("--seconds", type=float, default=60, help="begin no part after so many")
    parser.add_argument(
        "--counts",
        type=Path,
        help="only count the traffic of histograms, under ncu, into this file; --parts set_asides: for each size of the set-aside; --parts windows: for the settings of the part histograms",
    )
    parser.add_argument("--quick", action="store_true", help="one turn each and less data, for the model")
    options = parser.parse_args()
    if options.build:
        from warpwright.toolchain import compile_source

        source = Path(__file__).with_suffix(".cu")
        options.cubin.write_bytes(compile_source(source, options.arch, options=["-std=c++17"]).cubin)
        return
    if options.counts:
        count_under_ncu(options.cubin, options.counts, options.parts[0] if len(options.parts) == 1 else "counted")
        return
    found: dict[str, Any] = {
        "card": smi(),
        "command": "python -m bench.machine.l2_policies --cubin FILE --out FILE",
        "bin_cycles": BIN_CYCLES,
    }
    bench = Bench(options.cubin.read_bytes(), options.quick)
    started = time.monotonic()
    for part in options.parts:
        began = time.monotonic()
        if began - started > options.seconds:
            print(f"{part}: left out, {options.seconds} s have passed", flush=True)
            continue
        try:
            found[part] = PARTS[part](bench)
            print(f"{part}: {time.monotonic() - began:.1f} s", flush=True)
        except Exception:  # the other parts' results are worth having
            found[part] = {"error": traceback.format_exc()}
            print(f"{part} failed:\n{found[part]['error']}", flush=True)
        if options.out:
            options.out.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
