"""Residency control of L2: the set-aside, access-policy windows, reset."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright.errors import UnsupportedError
from warpwright.timing.access_policy import SHARE_BITS, share_of_ratio
from warpwright.timing.simulate import dirty_ways_beside

SOURCE = """
extern "C" __global__ void read(const uint4 *from, unsigned words, unsigned *sink) {
    unsigned sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
        uint4 v = __ldcg(from + i);
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 0x9e3779b9u)
        *sink = sum;
}
extern "C" __global__ void write(unsigned *at, unsigned lines) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < 32 * lines; i += gridDim.x * blockDim.x)
        at[i] = i;
}
extern "C" __global__ void add(unsigned *at, unsigned lines) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += gridDim.x * blockDim.x)
        atomicAdd(at + 32 * i, 1);
}
"""
MIB = 1 << 20
L2_KIB, HOT, FLOOD = 2560, MIB // 2, 8 * MIB
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"


class Bench:
    """A chip with an A100's SMs and a sixteenth of its L2, whose launches find what earlier ones have left."""

    def __init__(self, chip: str = "a100") -> None:
        aside = {} if chip != "a100" else {"l2_set_aside_max_kib": L2_KIB * 3 // 4, "l2_set_aside_default_kib": 0}
        self.gpu = ww.GPU(ww.load_chip(chip, l2_kib=L2_KIB, **aside), caches="kept")
        self.module = self.gpu.compile(SOURCE)
        self.hot = self.gpu.array(np.zeros(4 * HOT, np.uint8))
        self.flood = self.gpu.array(np.zeros(FLOOD, np.uint8))
        self.sink = self.gpu.array(np.zeros(1, np.uint32))

    def window(self, size: int = HOT, ratio: float = 1.0, **how: object) -> ww.AccessWindow:
        return ww.AccessWindow(self.hot.device_address(), size, ratio, **how)

    def read(self, array: object, size: int, window: ww.AccessWindow | None = None) -> ww.Run:
        launch = self.module["read"][216, 256].with_window(window)
        return launch(array, np.uint32(size // 16), self.sink)

    def missed(self, window: ww.AccessWindow | None, size: int = HOT, flood: int = FLOOD) -> float:
        """The share of memory read with a window that DRAM is asked for after a flood."""
        self.read(self.flood, FLOOD)
        for _ in range(2):
            self.read(self.hot, size, window)
        if flood:
            self.read(self.flood, flood)
        return self.read(self.hot, size).metrics[READ] / size

    def write(self, lines: int) -> ww.Run:
        return self.module["write"][108, 256](self.hot, np.uint32(lines))

    def add(self, lines: int, window: ww.AccessWindow | None = None) -> ww.Run:
        self.module["add"][108, 256].with_window(window)(self.hot, np.uint32(lines))
        return self.module["add"][108, 256].with_window(window)(self.hot, np.uint32(lines))


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def aside(bench: Bench, sixteenths: int) -> None:
    bench.gpu.reset_persisting_l2()
    bench.gpu.set_aside(sixteenths * (L2_KIB << 10) // 16)


@pytest.mark.ci
def test_without_a_window_a_flood_takes_all(bench: Bench) -> None:
    aside(bench, 12)
    assert bench.missed(None) > 0.95


@pytest.mark.ci
def test_persisting_lines_stay_up_to_the_set_aside(bench: Bench) -> None:
    aside(bench, 8)
    assert bench.missed(bench.window()) < 0.05  # 512 KiB of 1,280
    aside(bench, 1)
    assert bench.missed(bench.window()) == pytest.approx(1 - 160 / 512, abs=0.1)


@pytest.mark.ci
def test_one_way_persists_where_nothing_is_set_aside(bench: Bench) -> None:
    aside(bench, 0)
    assert bench.missed(bench.window()) == pytest.approx(1 - 160 / 512, abs=0.1)


@pytest.mark.parametrize(
    ("ratio", "sixteenths"),
    [(0.0, 1), (0.1, 2), (0.25, 5), (0.3, 5), (0.4, 7), (0.5, 9), (0.6, 10), (0.75, 13), (0.9, 15), (1.0, 16)],
)
def test_the_hit_ratio_counts_in_sixteenths_of_which_there_is_one_at_least(ratio: float, sixteenths: int) -> None:
    assert share_of_ratio(ratio) == sixteenths << (SHARE_BITS - 4)


@pytest.mark.parametrize(
    "ratio", [0.25, pytest.param(0.5, marks=pytest.mark.ci), pytest.param(0.75, marks=pytest.mark.ci)]
)
def test_the_hit_ratio_is_the_share_that_stays(bench: Bench, ratio: float) -> None:
    aside(bench, 12)
    assert bench.missed(bench.window(ratio=ratio)) == pytest.approx(1 - ratio - 1 / 16, abs=0.06)


REREAD = json.loads((Path(__file__).parents[1] / "bench/data/h200/l2_rereads.json").read_text())
HOME_CYCLES = 416
"""Loads on an H200 that take less find the line at its home, on the SM's side."""


def kept_on_a_card(before: str, ratio: float) -> float:
    """The share of 16 MiB that persists, relative to all of it at a ratio of 1 where L2 did not have it."""

    def home_hits(before: str, ratio: float) -> int:
        rows = [r for r in REREAD["reread"] if (r["hot"], r["before"], r["ratio"]) == (16 * MIB, before, ratio)]
        return sum(sum(row["cycles"][: HOME_CYCLES // REREAD["bin_cycles"]]) for row in rows)

    return home_hits(before, ratio) / home_hits("flooded", 1.0)


@pytest.mark.parametrize("ratio", [0.5, pytest.param(1.0, marks=pytest.mark.ci)])
@pytest.mark.parametrize("before", ["flooded", "read", "kept, reset"])
def test_memory_that_l2_has_already_does_not_persist_as_a_whole(bench: Bench, before: str, ratio: float) -> None:
    aside(bench, 12)
    bench.read(bench.flood, FLOOD)
    if before != "flooded":
        bench.read(bench.hot, HOT, bench.window() if before == "kept, reset" else None)
        bench.gpu.reset_persisting_l2()
    for _ in range(2):
        bench.read(bench.hot, HOT, bench.window(ratio=ratio))
    bench.read(bench.flood, FLOOD)
    kept = 1 - bench.read(bench.hot, HOT).metrics[READ] / HOT
    assert kept == pytest.approx(kept_on_a_card(before, ratio), abs=0.08)


def test_lines_beyond_the_ratio_are_normal_or_leave_first(bench: Bench) -> None:
    aside(bench, 12)
    normal = bench.window(ratio=0.0, miss=ww.AccessProperty.NORMAL)
    streaming = bench.window(ratio=0.0, miss=ww.AccessProperty.STREAMING)
    assert bench.missed(normal, flood=HOT) < 0.1
    assert bench.missed(streaming, flood=HOT) > 0.8


def test_memory_outside_of_the_window_is_normal(bench: Bench) -> None:
    aside(bench, 12)
    assert bench.missed(bench.window(), size=2 * HOT) == pytest.approx(0.5, abs=0.06)


def test_reset_makes_persisting_lines_normal(bench: Bench) -> None:
    aside(bench, 12)
    assert bench.missed(bench.window()) < 0.05
    bench.gpu.reset_persisting_l2()
    bench.read(bench.flood, FLOOD)
    assert bench.read(bench.hot, HOT).metrics[READ] > 0.95 * HOT


def test_normal_reads_use_what_is_unused_of_the_set_aside(bench: Bench) -> None:
    aside(bench, 12)
    assert bench.missed(None, size=HOT, flood=0) < 0.01


@pytest.mark.ci
def test_written_lines_do_not(bench: Bench) -> None:
    lines = HOT // 128
    aside(bench, 0)
    assert bench.add(lines).metrics[WRITTEN] < 0.1 * 32 * lines
    aside(bench, 12)
    assert bench.add(lines).metrics[WRITTEN] > 0.3 * 32 * lines
    aside(bench, 12)
    assert bench.add(lines, bench.window(2 * HOT)).metrics[WRITTEN] < 0.1 * 32 * lines


def test_the_dirty_ways_beside_a_set_aside_are_those_of_an_h100() -> None:
    """``bench/data/h100/l2_set_aside_counts.json``."""
    assert [min(7, dirty_ways_beside(ways, 16)) for ways in range(11)] == [7, 7, 7, 7, 7, 7, 6, 5, 4, 4, 3]
    assert [dirty_ways_beside(ways, 8) for ways in range(6)] == [6, 5, 4, 3, 2, 2]


SETS = L2_KIB * 1024 // 128 // 16


@pytest.mark.ci
@pytest.mark.parametrize(("share", "dirty"), [(0.85, True), (1.15, False)])
def test_seven_of_sixteen_ways_may_be_dirty(share: float, dirty: bool) -> None:
    """Of lines that a kernel writes none reaches DRAM as long as a set has seven of them, and more are written back where it would have eight."""
    bench = Bench()
    aside(bench, 0)
    lines = int(share * 7 * SETS)
    sectors = bench.write(lines).metrics[WRITTEN] / 32
    assert sectors < 0.03 * 4 * lines if dirty else sectors > 0.1 * 4 * lines


@pytest.mark.ci
def test_a_line_beyond_the_limit_is_written_back_and_stays() -> None:
    bench = Bench()
    aside(bench, 0)
    lines = int(1.15 * 7 * SETS)
    bench.write(lines)
    assert bench.read(bench.hot, 128 * lines).metrics[READ] < 0.1 * 128 * lines


@pytest.mark.ci
def test_streaming_lines_that_were_written_back_leave_first(bench: Bench) -> None:
    """A card reads streaming lines beyond the ratio again, and normal ones not."""
    lines = int(0.7 * 16 * SETS)
    missed = {}
    for miss in (ww.AccessProperty.STREAMING, ww.AccessProperty.NORMAL):
        aside(bench, 12)
        window = ww.AccessWindow(bench.hot.device_address(), 128 * lines, 0.0, miss=miss)
        for _ in range(3):
            bench.add(lines, window)
            bench.read(bench.flood, FLOOD // 16)
        missed[miss] = bench.add(lines, window).metrics[READ]
    assert missed[ww.AccessProperty.STREAMING] > 3 * missed[ww.AccessProperty.NORMAL]


def test_l2_is_set_aside_by_whole_sixteenths() -> None:
    gpu = ww.GPU("a100")
    assert [gpu.set_aside(size) for size in (0, 1, 7 << 20)] == [0, 5 << 19, 15 << 19]


def test_a_negative_set_aside_is_no_lack_of_the_chip() -> None:
    with pytest.raises(ValueError, match=r"set_aside\(-1\): the number of bytes must be 0 to 31,457,280 on a100"):
        ww.GPU("a100").set_aside(-1)


def test_a_chip_before_8_0_has_no_set_aside() -> None:
    gpu = ww.GPU("v100")
    with pytest.raises(UnsupportedError, match=r"set_aside\(1\): v100 can set aside at most 0 bytes of L2"):
        gpu.set_aside(1)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"ratio": 1.5}, "hit_ratio=1.5: it is a share between 0 and 1"),
        ({"size": -1}, "size_bytes=-1 must be 0 to 134,217,728, the largest window"),
        ({"size": 1 << 40}, "size_bytes=1,099,511,627,776 must be 0 to 134,217,728, the largest window"),
        ({"miss": ww.AccessProperty.PERSISTING}, "may be normal or streaming, not persisting"),
    ],
)
def test_windows_that_there_are_not(bench: Bench, how: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        bench.window(**how)


POLICIES = (Path(__file__).parents[1] / "bench" / "machine" / "l2_policies.cu").read_text()


class Hints(Bench):
    """The same with loads and stores that name policies of their own."""

    LAST, FIRST, NORMAL, UNCHANGED = 1, 2, 3, 4

    def __init__(self) -> None:
        super().__init__()
        self.module = self.gpu.compile(POLICIES)

    def read(self, array: object, size: int, window: ww.AccessWindow | None = None) -> ww.Run:
        return self.module["read"][216, 256](array, np.uint32(size // 16), np.int32(1), self.sink)

    def stays(self, kernel: str, kind: int, fraction: float = 1.0) -> float:
        """The share of memory read or written with a policy that L2 still has after a flood."""
        aside(self, 8)
        self.read(self.flood, FLOOD)
        words = (np.uint32(HOT // 16), np.int32(kind), np.float32(fraction))
        sink = (self.sink,) if kernel == "read_policy" else ()
        self.module[kernel][216, 256](self.hot, *words, *sink)
        self.read(self.flood, FLOOD)
        return 1 - self.read(self.hot, HOT).metrics[READ] / HOT


@pytest.fixture(scope="module")
def hints() -> Hints:
    return Hints()


@pytest.mark.ci
@pytest.mark.parametrize("kernel", ["read_policy", pytest.param("write_policy", marks=pytest.mark.ci)])
def test_evict_last_persists_and_other_priorities_do_not(hints: Hints, kernel: str) -> None:
    assert hints.stays(kernel, Hints.LAST) > 0.95
    for kind in (Hints.FIRST, Hints.NORMAL, Hints.UNCHANGED):
        assert hints.stays(kernel, kind) < 0.05


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.75])
def test_a_fraction_of_the_addresses_persists(hints: Hints, fraction: float) -> None:
    assert hints.stays("read_policy", Hints.LAST, fraction) == pytest.approx(fraction, abs=0.06)


def test_a_range_persists(hints: Hints) -> None:
    aside(hints, 8)
    hints.read(hints.flood, FLOOD)
    sizes = (np.uint32(HOT // 16), np.uint32(HOT // 4), np.uint32(HOT))
    hints.module["read_range"][216, 256](hints.hot, *sizes, hints.sink)
    hints.read(hints.flood, FLOOD)
    assert hints.read(hints.hot, HOT).metrics[READ] / HOT == pytest.approx(0.75, abs=0.06)


def test_memory_read_to_leave_first_takes_no_room_from_other_memory(hints: Hints) -> None:
    for kind, missed in ((Hints.FIRST, 0.1), (Hints.NORMAL, 0.9)):
        aside(hints, 0)
        hints.read(hints.flood, FLOOD)
        hints.read(hints.hot, HOT)
        words = (np.uint32(FLOOD // 16), np.int32(kind), np.float32(1))
        hints.module["read_policy"][216, 256](hints.flood, *words, hints.sink)
        share = hints.read(hints.hot, HOT).metrics[READ] / HOT
        assert share < missed if kind == Hints.FIRST else share > missed
