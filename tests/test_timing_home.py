"""Loads, atomics and fences of a line that several SMs want, at its home in L2, beside an H200's figures (``bench/data/h200/beside.json``)."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips.chip_files import load_chip
from warpwright.native.direct import entry
from warpwright.native.intrinsics import words
from warpwright.timing import SOURCES
from warpwright.timing.address_hash import slice_of
from warpwright.timing.atomics import atomic
from warpwright.timing.l2 import is_far, read
from warpwright.timing.reset import LaunchSizes, initial_state

CARD = json.loads((Path(__file__).resolve().parents[1] / "bench" / "data" / "h200" / "beside.json").read_text())[
    "results"
]
ONE_WORD = 1 | 1 << 7 | 1 << 51
"""An atomic of one lane on a word of the first sector, with an answer."""
ADD_CYCLES, FAR_CYCLES = 80 / 55, 180
READ, ATOMIC, SIDE = range(3)


@partial(entry, what="", sources=SOURCES)
def ask(state: Any, kind: int, far: int, paired: int, line: int, time: int) -> int:
    """What an SM near a line's home or far from it is answered."""
    m = words(state)
    home = slice_of(m, line)
    partition = 1 if is_far(m, 0, home) == (far == 0) else 0
    if kind == READ:
        return read(m, partition, home, line, 1, time, paired != 0)
    return atomic(m, partition, home, line, 1, ONE_WORD, time)


@partial(entry, what="", sources=SOURCES)
def home_of(state: Any, line: int) -> int:
    """The slice that is a line's home."""
    return slice_of(words(state), line)


class Line:
    """One line of an idle chip's L2, which has it on both sides."""

    def __init__(self) -> None:
        self.words = initial_state(load_chip("h200"), LaunchSizes(100, 1, 1, 1)).words
        for far in (False, True):
            self.read(0, far)

    def read(self, time: int, far: bool = False, paired: bool = False) -> int:
        return int(ask(self.words, READ, int(far), int(paired), 77, time)) - time

    def add(self, time: int, far: bool = False) -> int:
        return int(ask(self.words, ATOMIC, int(far), 0, 77, time)) - time

    def adds(self, count: int, time: int, far: bool = False) -> int:
        """Cycles until the last of additions that come at once is done."""
        return max(self.add(time, far) for _ in range(count))


@pytest.mark.ci
def test_a_read_takes_its_turn_behind_the_atomics_of_its_own_side() -> None:
    alone, line = Line().read(50_000), Line()
    line.adds(1, 10_000)  # the other side's copy is gone
    queue = line.adds(200, 50_000)
    assert queue > 200 * ADD_CYCLES
    assert line.read(50_000) - alone == pytest.approx(200 * ADD_CYCLES, rel=0.1)


def test_a_read_from_the_other_side_passes_atomics_that_wait() -> None:
    line = Line()
    line.adds(1, 10_000)
    line.adds(200, 50_000)
    assert line.read(50_000, far=True) < 150 + FAR_CYCLES


def among(adds: int, reads: int, far: bool, turns: int = 400) -> float:
    """Cycles until the last of so many additions and reads in turn is done, all from one side and there at once."""
    line = Line()
    line.adds(1, 10_000)
    end = 0
    for _ in range(turns):
        for _ in range(adds):
            end = line.add(50_000, far)
        for _ in range(reads):
            line.read(50_000, far)
    return end / turns


@pytest.mark.parametrize(("adds", "reads", "card"), [(1, 4, 1.46), (1, 1, 2.75), (4, 1, 3.6)])
def test_reads_among_atomics_take_longer_where_atomics_are_more(adds: int, reads: int, card: float) -> None:
    """bench.micro ``looks_among``: cycles of each read near the home where additions are 0.2, 0.5 and 0.8 of the accesses."""
    assert (among(adds, reads, False) - among(adds, 0, False)) / reads == pytest.approx(card, rel=0.15)


def test_reads_of_the_other_side_wait_among_its_atomics_at_the_home() -> None:
    """bench.micro ``looks_among``: 528 warps of the other side add 0.20 times a cycle where 528 read, 0.69 times alone."""
    assert among(1, 1, True) > 1.4 * among(1, 0, True)


def test_reads_of_the_homes_side_take_turns_with_atomics_of_the_other() -> None:
    """bench.micro ``looks_among``: 0.287 reads a cycle near the home where 0.271 additions come from the other side."""
    line = Line()
    line.adds(1, 10_000)
    queue = line.adds(400, 50_000, far=True)
    waits = [line.read(50_000) for _ in range(100)]
    assert waits[0] < queue / 2
    assert 2.5 < (waits[99] - waits[49]) / 50 < 5


def test_an_atomic_near_the_home_waits_until_the_other_side_has_let_go() -> None:
    line = Line()
    first, second = line.add(10_000), line.add(20_000)
    assert first - second == pytest.approx(FAR_CYCLES, abs=3)
    line.read(30_000, far=True)
    assert line.add(40_000) == first
    line.read(50_000, far=True)
    from_there = line.add(60_000, far=True)
    assert from_there == line.add(70_000, far=True)


def test_the_other_side_has_its_copy_until_it_is_asked() -> None:
    line = Line()
    hit = line.read(9_000, far=True)
    line.add(10_000)
    assert line.read(10_000, far=True) == hit
    assert line.read(10_400, far=True) - hit == pytest.approx(FAR_CYCLES, abs=20)


def test_loads_of_the_devices_scope_are_answered_two_at_a_time() -> None:
    """bench.micro ``crowded_looks``: 0.27 cycles each over both sides, 0.53 of the system's scope; one by one beside additions (``beside``)."""
    line = Line()
    single = max(line.read(50_000) for _ in range(400)) / 400
    pairs = max(line.read(100_000, paired=True) for _ in range(400)) / 400
    assert pairs < 0.6 * single
    line.add(150_000)
    after = max(line.read(150_500, paired=True) for _ in range(400)) / 400
    assert after == pytest.approx(single, rel=0.15)
    later = 151_000 + 2700
    assert max(line.read(later, paired=True) for _ in range(400)) / 400 < 0.6 * single


SOURCE = """
extern "C" __global__ void chase(unsigned long long *word, unsigned *out, int n) {
    unsigned long long at = *word = (unsigned long long)word;
    #pragma unroll 1
    for (int i = 0; i < n; i++) asm volatile("ld.relaxed.cta.global.u64 %0, [%1];" : "=l"(at) : "l"(at) : "memory");
    out[threadIdx.x] = at;
}
extern "C" __global__ void waits(unsigned *flag, unsigned *out) {
    unsigned seen = 0;
    if (threadIdx.x == 32) {
        for (int i = 0; i < 50; i++) out[2] = i;
        asm volatile("st.relaxed.cta.global.u32 [%0], 5;" :: "l"(flag) : "memory");
    } else if (threadIdx.x == 0) {
        do asm volatile("ld.relaxed.cta.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory"); while (seen == 0);
        out[0] = seen;
    }
}
extern "C" __global__ void fenced(unsigned *words, unsigned *out, int lines) {
    __shared__ unsigned took[64];
    for (int i = 0; i < 2 * lines; i++) {
        unsigned *at = words + 1024 * (i % lines);
        long long t0 = clock64();
        unsigned old = atomicAdd(at, 1);
        if (old == 0x9e3779b9u) out[9999] = 1;
        long long t1 = clock64();
        __threadfence();
        long long t2 = clock64();
        took[2 * (i % lines)] = t1 - t0;
        took[2 * (i % lines) + 1] = t2 - t1;
    }
    for (int i = 0; i < 2 * lines; i++) out[i] = took[i];
}
"""


@cache
def module(chip: str) -> Any:
    return ww.GPU(chip).compile(SOURCE)


@pytest.mark.parametrize(("chip", "cycles"), [("v100", 28), ("h200", 32)])
def test_l1_has_what_a_strong_load_of_its_blocks_scope_reads(chip: str, cycles: int) -> None:
    """bench.micro ``scopes``: 45 cycles with what follows, as long as a weak one; l1_lat on a V100: 28."""
    word, out = np.zeros(16, np.uint64), np.zeros(1, np.uint32)
    few, more = (module(chip)["chase"][1, 1](word, out, np.int32(n)).cycles for n in (50, 150))
    assert (more - few) / 100 == pytest.approx(cycles, abs=2)


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_a_warp_may_wait_by_strong_loads_of_its_blocks_scope(chip: str) -> None:
    flag, out = np.zeros(1, np.uint32), np.zeros(3, np.uint32)
    module(chip)["waits"][1, 64](flag, out)
    assert (out[0], flag[0]) == (5, 5)


def test_a_fence_takes_longer_behind_what_was_changed_on_the_other_side() -> None:
    words_, out = np.zeros(1024 * 16, np.uint32), np.zeros(10_000, np.uint32)
    module("h200")["fenced"][1, 1](words_, out, np.int32(16))
    changes, fences = out[:32:2].astype(int), out[1:32:2].astype(int)
    far = changes > 450
    assert 0 < far.sum() < 16
    card = {
        side: next(
            r["value"] for r in CARD["fence_sides"]
            if (r["metric"], r["change"], r["fence"], r["apart"], r["active"], r["side"]) == ("fence_cycles", 1, 0, 0, 132, side)
        )
        for side in ("near", "far")
    }  # fmt: skip
    assert fences[~far].mean() == pytest.approx(card["near"], rel=0.07)
    assert fences[far].mean() == pytest.approx(card["far"], rel=0.07)


def test_atomics_on_other_lines_pass_those_that_wait_for_a_lent_line() -> None:
    """A home's atomics on many lines, each of which the other side reads: the reads hold up the atomics of one line only."""

    def adds(lines: int, reads: bool) -> int:
        chip = Line()
        home = home_of(chip.words, 77)
        own = [line for line in range(77, 100_000) if home_of(chip.words, line) == home][:lines]
        ends = []
        for number in range(400):
            line = own[number % lines]
            ends.append(int(ask(chip.words, ATOMIC, 0, 0, line, 50_000)))
            if reads and number >= lines:
                ask(chip.words, READ, 1, 0, own[(number + lines // 2) % lines], 50_000)
        return max(ends) - 50_000

    assert adds(1, True) > adds(1, False) + 1.5 * FAR_CYCLES
    assert adds(4, True) < adds(4, False) + 2 * FAR_CYCLES
