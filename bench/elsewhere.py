"""Measures kernels' accesses to memory of other devices and of the host: ``python -m bench.elsewhere [--out FILE]`` on a card, ``warpwright run --gpu h200,h200
bench/elsewhere.py`` on the model.

The same accesses to memory of the device itself, to page-locked host memory (PCI Express) and, where there is one, to another device's
(NVLink): latency of a chase, streams by one SM and by all, whole lines and parts, several times over, atomics, fences behind stores,
and streams of two places side by side.  The kernels are ``bench/micro``'s (``elsewhere.cu``, ``memory.cu``): ``--cubins`` names the folder they
were built into (``python -m bench.micro.build``).  ``--profile`` only launches each stream once, for Nsight Compute.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card, smi
from bench.micro.context import Context, Row, row

LINE = 128
SMS = 132
BUFFER_BYTES = 256 << 20
EVERYWHERE = (1 << 63) - 1
"""A mask that lets addresses be."""


@dataclass
class Place:
    """Memory of `BUFFER_BYTES` that kernels of the first device reach."""

    name: str
    address: int
    write: Callable[[int, np.ndarray], None]


def _to_host(address: int, data: np.ndarray) -> None:
    ctypes.memmove(address, data.ctypes.data, data.nbytes)


class Elsewhere:
    """A card with the memories that its kernels can turn to."""

    def __init__(self, cubins: Path, arch: str) -> None:
        self.card = card = Card()
        self.ctx = Context(card, cubins, arch)
        self.flushed = card.alloc(256 << 20)
        self.out = card.alloc(1 << 20)
        own = card.alloc(BUFFER_BYTES)
        own.zero()
        self.places = {"device": Place("device", own.address, self._to_device)}
        host = ctypes.c_uint64()
        card.call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(BUFFER_BYTES), ctypes.c_uint(3))
        ctypes.memset(host.value or 0, 0, BUFFER_BYTES)
        self.places["host"] = Place("host", host.value or 0, _to_host)
        self._open_peer()
        self.kernels: tuple[str, ...] = ()
        """Names of the streams to measure; all if empty."""

    def _to_device(self, address: int, data: np.ndarray) -> None:
        self.card.call(
            "cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(data.nbytes)
        )

    def _open_peer(self) -> None:
        card = self.card
        count = ctypes.c_int()
        card.call("cuDeviceGetCount", ctypes.byref(count))
        if count.value < 2:
            return
        other = ctypes.c_void_p()
        card.call("cuDevicePrimaryCtxRetain", ctypes.byref(other), ctypes.c_int(1))
        card.call("cuCtxEnablePeerAccess", other, ctypes.c_uint(0))
        card.call("cuCtxSetCurrent", other)
        there = ctypes.c_uint64()
        card.call("cuMemAlloc_v2", ctypes.byref(there), ctypes.c_size_t(BUFFER_BYTES))
        card.call("cuMemsetD8_v2", there, ctypes.c_ubyte(0), ctypes.c_size_t(BUFFER_BYTES))
        card.call("cuCtxSynchronize")
        card.call("cuCtxSetCurrent", card.context)

        def write(address: int, data: np.ndarray) -> None:
            card.call("cuCtxSetCurrent", other)
            self._to_device(address, data)
            card.call("cuCtxSetCurrent", card.context)

        self.places["peer"] = Place("peer", there.value, write)

    def flush(self) -> None:
        """Push everything else out of this device's L2."""
        self.flushed.zero()

    def ring(self, place: Place, count: int, stride: int, in_order: bool = False) -> int:
        """A cycle of `count` pointers `stride` bytes apart, random or in the order of addresses; gives the first."""
        order = np.arange(count) if in_order else np.random.default_rng(1).permutation(count)
        words = np.zeros(count * stride // 8, np.uint64)
        words[order * (stride // 8)] = place.address + np.roll(order, -1) * stride
        place.write(place.address, words)
        return place.address + int(order[0]) * stride

    # --- latency ------------------------------------------------------------------------------------
    def steps(self, place: Place, kernel: str, start: int, warm: int, count: int) -> np.ndarray:
        """Cycles of each of `count` dependent loads, with 13 of stamping, after `warm` that are not timed."""
        self.flush()
        args = [self.ctx.words, np.uint64(start), np.int32(warm), np.int32(count)]
        self.ctx.module("memory").launch(kernel, 1, 1, args, 40960)
        return self.ctx.words.read(np.uint32, count)

    def latency(self, place: Place) -> list[Row]:
        """The first touch of lines, the next ones by footprint, in order, over many pages; volatile loads and atomics."""
        rows: list[Row] = []

        def add(name: str, kernel: str, values: np.ndarray, **where: Any) -> None:
            for p in (10, 50, 90):
                rows.append(
                    row(
                        name,
                        f"p{p}",
                        float(np.percentile(values, p)),
                        "cycles",
                        place=place.name,
                        kernel=kernel,
                        **where,
                    )
                )
            rows.append(row(name, "mean", float(values.mean()), "cycles", place=place.name, kernel=kernel, **where))

        for kib in (32, 4096):
            count = kib * 1024 // LINE
            start = self.ring(place, count, LINE)
            for kernel in ("steps_ca", "steps_cg"):
                add("first", kernel, self.steps(place, kernel, start, 0, min(count, 1024)), kib=kib)
                add("again", kernel, self.steps(place, kernel, start, count, min(count, 1024)), kib=kib)
        start = self.ring(place, 1024, (64 << 10) + LINE)
        add("first_by_page", "steps_cg", self.steps(place, "steps_cg", start, 0, 1024), kib=64 << 10)
        add("again_by_page", "steps_cg", self.steps(place, "steps_cg", start, 1024, 1024), kib=64 << 10)
        start = self.ring(place, 4096, 32, in_order=True)
        for kernel in ("steps_ca", "steps_cg"):
            values = self.steps(place, kernel, start, 0, 4096).reshape(-1, 4)
            for sector in range(4):
                add("in_order_32b", kernel, values[:, sector], sector=sector)
        start = self.ring(place, 256, LINE)
        for kernel in ("chase_volatile", "chase_atom_or", "chase_atom_cas"):
            self.flush()
            span = self.ctx.span("memory", kernel, 1, (np.uint64(start), np.int32(256), np.int32(1024)), threads=1)
            rows.append(row("strong", "cycles_per_access", span / 1024, "cycles", place=place.name, kernel=kernel))
        return rows

    # --- streams ------------------------------------------------------------------------------------
    def _measured(self, kernel: str, blocks: int, threads: int, args: Sequence[Any]) -> np.ndarray:
        self.flush()
        self.card.call("cuCtxSynchronize")
        self.ctx.module("elsewhere").launch(kernel, blocks, threads, [self.out, *args], 4096)
        return self.out.read(np.uint64, 4 * blocks).reshape(blocks, 4).astype(np.int64)

    def _slope(
        self, kernel: str, blocks: int, threads: int, args: Sequence[Any], turns: tuple[int, int]
    ) -> tuple[float, float]:
        """Nanoseconds of the grid, and cycles of its longest block, that the turns between two numbers of them take; least of three."""
        spans: list[tuple[float, float]] = []
        for n in turns:
            tries = [self._measured(kernel, blocks, threads, [*args, np.int32(n)]) for _ in range(3)]
            spans.append(
                (
                    min(float(t[:, 1].max() - t[:, 0].min()) for t in tries),
                    min(float((t[:, 3] - t[:, 2]).max()) for t in tries),
                )
            )
        return spans[1][0] - spans[0][0], spans[1][1] - spans[0][1]

    def streams(self, place: Place) -> list[Row]:
        """Bytes that the program named, by nanosecond and by cycle of an SM, of each kind of stream."""
        rows: list[Row] = []
        for name, kernel, step, span, blocks, threads, turns in cases():
            if self.kernels and kernel not in self.kernels:
                continue
            args = [np.uint64(place.address), np.uint64(step), np.uint64(span - 1 if span else EVERYWHERE)]
            nanoseconds, cycles = self._slope(kernel, blocks, threads, args, turns)
            accesses = (turns[1] - turns[0]) * 4 * blocks * threads
            where = {"place": place.name, "kernel": kernel, "step": step, "blocks": blocks, "threads": threads}
            if span:
                where["span_kib"] = span >> 10
            width = 16 if "16" in kernel else 4
            rows.append(row(name, "bytes_per_ns", accesses * width / max(nanoseconds, 1), "B/ns", **where))
            rows.append(row(name, "warp_accesses_per_us", accesses / 32e-3 / max(nanoseconds, 1), "1/us", **where))
            rows.append(
                row(
                    name,
                    "cycles_per_warp_access_per_sm",
                    cycles / (accesses / 32 / min(blocks, SMS)),
                    "cycles",
                    **where,
                )
            )
        return rows

    def copies(self, to: Place, of: Place) -> list[Row]:
        """Bytes of a copy by all SMs."""
        half = BUFFER_BYTES // 2
        rows = []
        for blocks in (1, SMS):
            turns = (2, 6) if blocks == SMS else (16, 48)
            args = [np.uint64(to.address), np.uint64(of.address + half)]
            nanoseconds, _ = self._slope("copy16", blocks, 1024, args, turns)
            moved = (turns[1] - turns[0]) * 4 * blocks * 1024 * 16
            rows.append(
                row("copy", "bytes_per_ns", moved / max(nanoseconds, 1), "B/ns", to=to.name, of=of.name, blocks=blocks)
            )
        return rows

    def beside(self, place: Place) -> list[Row]:
        """A stream of the device's own memory by every second block, alone and together with one of another memory."""
        rows = []
        own = self.places["device"].address
        for name, turns, other in (("own_alone", 12, 0), ("other_alone", 0, 3), ("both", 12, 3)):
            args = [np.uint64(own), np.uint64(place.address), np.int32(turns), np.int32(other)]
            tries = [self._measured("read_two", SMS, 1024, args) for _ in range(3)]
            for which, count, first in (("own", turns, 0), ("other", other, 1)):
                if count:
                    spans = [float(t[first::2, 1].max() - t[first::2, 0].min()) for t in tries]
                    moved = count * 4 * SMS // 2 * 1024 * 16
                    rows.append(
                        row(
                            "beside",
                            "bytes_per_ns",
                            moved / max(min(spans), 1),
                            "B/ns",
                            place=place.name,
                            stream=which,
                            case=name,
                        )
                    )
        return rows

    def fences(self, place: Place) -> list[Row]:
        """Cycles of stores and the fence after them."""
        rows = []
        for kernel in ("fence_gl", "fence_sys"):
            for stores in (0, 1, 4, 16):
                for warps in (1, 16):
                    each = self.ctx.slope(
                        "elsewhere", kernel, warps, (np.uint64(place.address), np.int32(stores)), 8, 24
                    )
                    rows.append(
                        row(kernel, "cycles_each", each, "cycles", place=place.name, stores=stores, warps=warps)
                    )
        return rows

    def profile(self) -> None:
        """Launch each stream of all SMs once, in the order of `cases`, by place."""
        for place in self.places.values():
            for name, kernel, step, span, blocks, threads, turns in cases():
                if blocks < SMS or threads == 128 or kernel in ("red4_sys", "atom4"):
                    continue
                args = [np.uint64(place.address), np.uint64(step), np.uint64(span - 1 if span else EVERYWHERE)]
                print("profiled", place.name, name, kernel, step, span, blocks, threads, turns[0], flush=True)
                self._measured(kernel, blocks, threads, [*args, np.int32(turns[0])])


def cases() -> list[tuple[str, str, int, int, int, int, tuple[int, int]]]:
    """Name, kernel, bytes between neighbours, bytes after which they begin again (0: never), blocks, threads, turns."""
    found: list[tuple[str, str, int, int, int, int, tuple[int, int]]] = []
    for kernel in ("read16", "write16"):
        for blocks, threads in ((1, 32), (1, 128), (1, 512), (1, 1024), (4, 1024), (16, 1024), (SMS, 128), (SMS, 1024)):
            found.append(("lines", kernel, 16, 0, blocks, threads, (2, 6) if blocks == SMS else (16, 48)))
    for kernel in ("read4", "write4"):
        found += [("words", kernel, 4, 0, SMS, 1024, (4, 12)), ("words", kernel, 4, 0, 1, 1024, (16, 48))]
        for step in (8, 32, 64, 128):
            found.append(("apart", kernel, step, 0, SMS, 1024, (1, 3) if step == 128 else (2, 6)))
        found.append(("apart", kernel, 32, 0, 1, 1024, (8, 24)))
        found.append(("apart", kernel, 128, 0, 1, 1024, (8, 24)))
    for kernel in ("read16_cg", "write16"):
        found.append(("over_again", kernel, 16, 4 << 20, SMS, 1024, (4, 12)))
        found.append(("over_again", kernel, 16, 512 << 10, 1, 1024, (32, 96)))
    for kernel in ("red4", "atom4", "red4_sys", "atom4_sys"):
        for step in (0, 4, 32, 128):
            found.append(("atomics", kernel, step, 0, SMS, 256, (1, 3)))
        found.append(("atomics", kernel, 4, 0, 1, 256, (4, 12)))
        found.append(("atomics", kernel, 4, 64 << 10, SMS, 256, (1, 3)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cubins", type=Path, help="folder of built microbenchmarks; built when left out")
    parser.add_argument("--arch", default="90")
    parser.add_argument("--out", type=Path, help="also write them as JSON")
    parser.add_argument("--only", nargs="*", default=("latency", "fences", "streams", "copies", "beside"))
    parser.add_argument("--kernels", nargs="*", default=(), help="of the streams only these")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    if given.cubins is None:
        from bench.micro.build import build

        given.cubins = build(given.arch)
    bench = Elsewhere(given.cubins, given.arch)
    bench.kernels = tuple(given.kernels)
    if given.profile:
        bench.profile()
        return 0
    places = list(bench.places.values())
    suites: dict[str, list[Callable[[], list[Row]]]] = {
        "latency": [lambda p=p: bench.latency(p) for p in places],
        "fences": [lambda p=p: bench.fences(p) for p in places],
        "streams": [lambda p=p: bench.streams(p) for p in places],
        "copies": [lambda p=p, q=q: bench.copies(p, q) for p in places for q in places],
        "beside": [lambda p=p: bench.beside(p) for p in places[1:]],
    }
    results: dict[str, list[Row]] = {}
    for name in given.only:
        began = time.perf_counter()
        results[name] = [r for part in suites[name] for r in part()]
        print(f"== {name}: {len(results[name])} rows in {time.perf_counter() - began:.1f} s", flush=True)
        for item in results[name]:
            where = " ".join(f"{k}={v}" for k, v in item.items() if k not in ("name", "metric", "value", "unit"))
            print(f"{item['name']:14} {item['metric']:30} {where:70} {item['value']:>12} {item['unit']}")
    if given.out is not None:
        parts = [
            f" {json.dumps(k)}: [\n" + ",\n".join("  " + json.dumps(r) for r in v) + "\n ]" for k, v in results.items()
        ]
        head = {
            "command": " ".join(["python -m bench.elsewhere", *sys.argv[1:]]),
            **bench.card.describe(),
            "nvidia_smi": smi(),
        }
        given.out.write_text(json.dumps(head, indent=1)[:-2] + ',\n "results": {\n' + ",\n".join(parts) + "\n }\n}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
