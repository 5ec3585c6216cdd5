"""What an addition that misses L2 costs beside additions that hit, and what additions to several words and sectors of a line cost.

``python -m bench.machine.atomic_misses --build FILE`` makes the cubin, ``--cubin FILE --out FILE`` measures on a card, and ``--cubin FILE --model h200`` on the model.
``--parts`` selects some of ``PARTS``.  ``--counts FILE`` counts, under ncu on a card, what additions by SMs of one side read again where lines beyond a hit ratio are streaming.

In each round, a pair of lanes adds to a random sector of a small memory, which stays in L2, or, in one of ``period`` rounds, accesses the next line of a large memory in a scrambled
order.  Where half of the SMs only add to the small memory, the times show whether a miss holds up its SM or its slice.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.device import Buffer, Device, Model, open_device, smi
from bench.machine import l2_policies
from bench.machine.card_program import builds, cubin_parser

MIB = 1 << 20
THREADS = 1024
PAIRS = THREADS // 2
LINE_BYTES = 128
HOT_MIB, COLD_MIB = 4, 512
BLOCK_BYTES = 4096
CLEAN_LINES = 57_000
"""Lines that may become dirty before sets of an H200's L2 hold more than seven of them."""
SPAN_NS = 150_000
KINDS = ("sum", "load", "store", "answered")
PERIODS = (256, 128, 64, 32, 16, 8, 4, 2)
GROUPS = tuple((words, sectors) for sectors in (1, 2, 4) for words in (1, 2, 4, 8))
"""Number of words in each sector, and of sectors in a line."""
SIDES_BYTES, SIDES_ROUNDS = 30_000_000, 300
"""Bytes of memory that ``sides`` adds to (7.6 lines for each set of an H200's L2), and additions per thread."""
SIDES_COUNTS = (
    "gpu__time_duration.sum", "dram__sectors_read.sum", "dram__sectors_write.sum", "lts__t_sectors_op_red.sum",
    "lts__t_sectors_op_red_lookup_hit.sum", "lts__t_sectors_op_red_lookup_miss.sum",
)  # fmt: skip
Row = dict[str, float | str]


class Bench:
    """A device with the kernels and memory."""

    def __init__(self, device: Device, cubin: bytes) -> None:
        self.device, self.module = device, device.load(cubin)
        self.sm_count = int(device.describe()["sm_count"])
        self.model = device.kind == "model"
        self.hot, self.cold = device.alloc(HOT_MIB * MIB), device.alloc(COLD_MIB * MIB)
        self.out = device.upload(np.zeros(2 * self.sm_count, np.uint64))
        self.first = 1

    def arguments(self, period: int) -> list[Any]:
        """The arguments that all kernels of rounds have."""
        hot, cold = (np.uint32(mib * MIB // LINE_BYTES - 1) for mib in (HOT_MIB, COLD_MIB))
        return [self.out, self.hot, hot, self.cold, cold, np.uint32(period), np.uint32(self.first & 0xFFFFFFFF)]

    def span(self, kernel: str, period: int, count: int, sms: int) -> float:
        """Nanoseconds of ``count`` rounds on ``sms`` SMs."""
        self.module.launch(kernel, sms, THREADS, [*self.arguments(period), np.int32(count)])
        self.first += count * sms * PAIRS
        times = self.out.read(np.uint64, 2 * sms).reshape(sms, 2)
        return float(times[:, 1].max() - times[:, 0].min())

    def each(self, kernel: str, period: int, counts: tuple[int, int], sms: int, before: Callable[[], None]) -> float:
        """Nanoseconds of the whole chip per round of a pair: the slope between two numbers of rounds, each with the shortest of several launches."""
        spans = []
        for count in counts:
            tries = []
            for _ in range(1 if self.model else 5):
                before()
                tries.append(self.span(kernel, period, count, sms))
            spans.append(min(tries))
        return round((spans[1] - spans[0]) / ((counts[1] - counts[0]) * sms * PAIRS), 6)


def _nothing() -> None:
    pass


def dirty(b: Bench) -> list[Row]:
    """Nanoseconds per round with misses that replace dirty lines, by what misses, how rarely, and the number of SMs."""
    if b.model:
        return _dirty_on_model(b)
    rows: list[Row] = []
    for sms in (b.sm_count, b.sm_count // 2, b.sm_count // 4):
        cases = [("none", 0), *((kind, period) for kind in KINDS for period in PERIODS)]
        if sms < b.sm_count:
            cases = [("none", 0), *((kind, period) for kind in ("sum", "load", "store") for period in (64, 16, 4))]
        for kernel, period in cases:
            for _ in range(4):
                # Until the cold memory's lines fill L2.
                b.span(kernel, period, 400, sms)
            rows.append(_dirty_row(b, kernel, period, (96, 288), sms))
    return rows


def _dirty_row(b: Bench, kernel: str, period: int, counts: tuple[int, int], sms: int) -> Row:
    each = b.each(kernel, period, counts, sms, _nothing)
    row: Row = {"part": "dirty", "kernel": kernel, "period": period, "sms": sms, "ns": each}
    print(row, flush=True)
    return row


def _dirty_on_model(b: Bench) -> list[Row]:
    """Additions by all SMs. L2 is filled by additions all of which miss; the rarer the misses, the more rounds."""
    b.span("sum", 1, 6, b.sm_count)
    b.span("none", 0, 8, b.sm_count)
    rows = []
    for kernel, period in [("none", 0), *(("sum", period) for period in PERIODS if period <= 64)]:
        b.span(kernel, period, 8, b.sm_count)
        rows.append(_dirty_row(b, kernel, period, (8, 8 + max(16, 2 * period)), b.sm_count))
    return rows


def clean(b: Bench) -> list[Row]:
    """The same with misses that replace clean lines."""
    other, sink = b.device.alloc(256 * MIB), b.device.alloc(4096)
    rows: list[Row] = []

    def prepare() -> None:
        words = np.uint32((128 if b.model else 256) * MIB // 16)
        b.module.launch("sweep", 4 * b.sm_count, 512, [other, words, sink])
        b.span("none", 0, 12, b.sm_count)

    periods = (64, 16) if b.model else PERIODS[:-2]
    for kernel, period in [("none", 0), *((kind, period) for kind in KINDS for period in periods)]:
        most = CLEAN_LINES * (period or 64) // (b.sm_count * PAIRS)
        each = b.each(kernel, period, (most // 3, most), b.sm_count, prepare)
        rows.append({"part": "clean", "kernel": kernel, "period": period, "ns": each})
        print(rows[-1], flush=True)
    for buffer in (other, sink):
        buffer.free()
    return rows


def _rates(b: Bench, kernel: str, period: int, sms: int) -> npt.NDArray[np.float64]:
    """Rounds per nanosecond of each SM, of which the first ``sms`` do what the kernel's name begins with; of three launches on a card the last."""
    numbers = [np.uint32(sms), np.uint32(SPAN_NS // 5 if b.model else SPAN_NS)]
    for _ in range(1 if b.model else 3):
        b.module.launch(kernel, b.sm_count, THREADS, [*b.arguments(period), *numbers])
        b.first += 1 << 24
    done, took = b.out.read(np.uint64, 2 * b.sm_count).reshape(b.sm_count, 2).T.astype(float)
    return done / (THREADS // 32) * PAIRS / took


def beside(b: Bench) -> list[Row]:
    """Rounds per nanosecond of the SMs that miss and of those that do not, when none, half or all of them miss."""
    rows: list[Row] = []
    for kernel in KINDS:
        for period in (64, 16, 4):
            for missing in (0, b.sm_count // 2, b.sm_count):
                rates = _rates(b, f"{kernel}_beside", period, missing)
                row: Row = {"part": "beside", "kernel": kernel, "period": period, "missing": missing}
                for name, those in (("miss", rates[:missing]), ("hit", rates[missing:])):
                    if len(those):
                        row[name] = round(float(those.sum()), 4)
                rows.append(row)
                print(rows[-1], flush=True)
    return rows


def others(b: Bench) -> list[Row]:
    """Rounds per nanosecond of the half of the SMs that adds, and of the other half, which loads from the small memory or stores to it, by how rarely additions miss (0: never)."""
    rows: list[Row] = []
    adding = b.sm_count // 2
    if b.model:
        b.span("sum", 1, 6, b.sm_count)  # fills L2 with dirty lines
    for other in ("loads", "stores"):
        for period in (0, 64, 16, 8, 4, 2):
            rates = _rates(b, f"sum_beside_{other}", period, adding)
            row: Row = {"part": "others", "other": other, "period": period, "sms": adding}
            row |= {
                name: round(float(part.sum()), 4) for name, part in (("sums", rates[:adding]), (other, rates[adding:]))
            }
            rows.append(row)
            print(row, flush=True)
    return rows


def lists_by_side(b: Bench, memory: Buffer, blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """The side of each SM and the side of each block of 4 KiB: 0 is that of the first SM."""
    cycles = b.device.upload(np.zeros(b.sm_count * blocks, np.uint16))
    b.module.launch("sides", b.sm_count, THREADS, [cycles, memory, np.uint32(blocks)])
    table = cycles.read(np.uint16, b.sm_count * blocks).reshape(b.sm_count, blocks)
    cycles.free()
    return sides_in(table)


def sides_in(cycles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sides of SMs and of blocks, from the cycles of ``sides`` by SM and block."""
    table = cycles.astype(np.int64)
    far = table > (np.percentile(table, 5) + np.percentile(table, 95)) / 2
    sms = np.array([np.mean(row != far[0]) > 0.5 for row in far])
    return sms, np.median(far ^ sms[:, None], axis=0) > 0.5


def sides(cubin: bytes) -> list[Row]:
    """Additions to random words of memory under a window, by all SMs, those of the home's side and those of the other side; each setting three times, for ``count_under_ncu``."""
    b = l2_policies.Bench(cubin, False)
    sm_count = int(b.card.describe()["sm_count"])
    memory, stream = b.card.alloc(32 * MIB), b.card.alloc(256 * MIB)
    every = SIDES_BYTES // BLOCK_BYTES
    found = b.card.upload(np.zeros(sm_count * every, np.uint16))
    b.launch("sides", sm_count, THREADS, found, memory, np.uint32(every))
    b.wait()
    sms, blocks = sides_in(found.read(np.uint16, sm_count * every).reshape(sm_count, every))
    own = [np.flatnonzero(blocks == side) for side in (False, True)]
    half = min(len(o) for o in own)
    both = b.card.upload(np.arange(every).astype(np.uint16))
    halves = b.card.upload(np.concatenate([o[:half] for o in own]).astype(np.uint16))
    rows_of = [b.card.upload(r.astype(np.uint32)) for r in (np.zeros(sm_count), sms, ~sms)]
    rows: list[Row] = []
    for ratio, miss in ((0.25, l2_policies.STREAMING), (0.5, l2_policies.STREAMING), (0.25, l2_policies.NORMAL)):
        for place, lists, numbers, count in zip(
            ("both", "near", "far"), (both, halves, halves), rows_of, (every, half, half), strict=True
        ):
            b.reset()
            b.window()
            b.set_aside(b.largest)
            b.window(memory.address, SIDES_BYTES, ratio, l2_policies.PERSISTING, miss)
            for turn in range(3):
                shape = [np.uint32(64 * MIB - 1), np.uint32(1 + turn * 77_777_777), np.int32(SIDES_ROUNDS)]
                b.launch("sums_by_side", sm_count, THREADS, memory, lists, numbers, np.uint32(count), stream, *shape)
            b.wait()
            additions = sm_count * THREADS * SIDES_ROUNDS
            rows.append({"part": "sides", "place": place, "ratio": ratio, "miss": miss, "additions": additions})
    return rows


def count_under_ncu(cubin: Path) -> list[Row]:
    """The rows of ``sides`` with the counters of each setting's last launch."""
    from bench.corpus_card import under_ncu, value

    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "settings.json"
        own = ["bench.machine.atomic_misses", "--cubin", str(cubin), "--out", str(settings), "--sides"]
        measured, text = under_ncu(own, SIDES_COUNTS, ("--cache-control", "none", "--kernel-name", "sums_by_side"))
        rows: list[Row] = json.loads(settings.read_text())["rows"]
    if len(measured) != 3 * len(rows):
        print(text[-2000:])
    for row, counts in zip(rows, measured[2::3], strict=True):
        row |= {name: float(value(counts, name) or "nan") for name in SIDES_COUNTS}
    return rows


def several(b: Bench) -> list[Row]:
    """Picoseconds of the whole chip per group of lanes on one line, by words and sectors: at random in 4 MiB, on both sides, the own one, the other one."""
    memory = b.device.alloc(HOT_MIB * MIB)
    every = HOT_MIB * MIB // BLOCK_BYTES
    sms, blocks = lists_by_side(b, memory, every)
    print({"far SMs": int(sms.sum()), "far blocks": int(blocks.sum())}, flush=True)
    rows: list[Row] = []
    counts = (8, 24) if b.model else (64, 192)
    groups = [(1, 1), (8, 1), (1, 4), (8, 4)] if b.model else GROUPS
    for place, size in (("both", every), ("near", every), ("far", every)):
        own = [np.flatnonzero(blocks == side) for side in (False, True)]
        count = size if place == "both" else min(len(o) for o in own)
        if not count:
            continue
        table = np.arange(count) if place == "both" else np.concatenate([o[:count] for o in own])
        rows_of = np.zeros(b.sm_count) if place == "both" else sms ^ (place == "far")
        lists, numbers = b.device.upload(table.astype(np.uint16)), b.device.upload(rows_of.astype(np.uint32))
        for kernel, (words, sectors) in ((k, g) for k in ("sums", "stores", "loads") for g in groups):
            spans = []
            for n in counts:
                tries = []
                for _ in range(1 if b.model else 4):
                    shape = [np.uint32(v) for v in (count, words, sectors, b.first & 0xFFFFFFFF)]
                    b.first += 1 << 24
                    b.module.launch(
                        f"several_{kernel}", b.sm_count, THREADS, [b.out, memory, lists, numbers, *shape, np.int32(n)]
                    )
                    times = b.out.read(np.uint64, 2 * b.sm_count).reshape(b.sm_count, 2)
                    tries.append(float(times[:, 1].max() - times[:, 0].min()))
                spans.append(min(tries))
            each = (spans[1] - spans[0]) / ((counts[1] - counts[0]) * b.sm_count * THREADS // (words * sectors))
            row: Row = {"part": "several", "kernel": kernel, "place": place, "blocks": count}
            rows.append(row | {"words": words, "sectors": sectors, "ps": round(1e3 * each, 3)})
            print(rows[-1], flush=True)
        for buffer in (lists, numbers):
            buffer.free()
    memory.free()
    return rows


PARTS: dict[str, Callable[[Bench], list[Row]]] = {
    "dirty": dirty,
    "clean": clean,
    "beside": beside,
    "others": others,
    "several": several,
}


def measure(device: Device, cubin: bytes, parts: list[str]) -> list[Row]:
    """The rows of some of ``PARTS``."""
    bench = Bench(device, cubin)
    return [row for part in parts for row in PARTS[part](bench)]


def main() -> None:
    parser = cubin_parser(__doc__)
    parser.add_argument("--counts", type=Path, help="only count, under ncu, what is read again, into this file")
    parser.add_argument("--sides", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    if builds(Path(__file__), options):
        return
    if options.counts or options.sides:
        rows = sides(options.cubin.read_bytes()) if options.sides else count_under_ncu(options.cubin)
        (options.out or options.counts).write_text(json.dumps({"card": smi(), "rows": rows}) + "\n")
        return
    device: Device = Model(options.model, caches="kept") if options.model else open_device("card")
    found = {**device.describe(), "rows": measure(device, options.cubin.read_bytes(), options.parts)}
    if options.out:
        options.out.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
