"""Words that many warps want, beside an H200's figures (``bench/data/h200/rivals.json``, ``scattered.json``)."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from bench.micro.kept import IN_FLIGHT, PREPARED, PROBED, WORDS_APART
from warpwright.chips.chip_files import load_chip
from warpwright.native.direct import entry
from warpwright.native.intrinsics import words
from warpwright.timing import SOURCES
from warpwright.timing import state as s
from warpwright.timing.l2_hazards import read_turn, write_from_afar, write_turn
from warpwright.timing.reset import LaunchSizes, initial_state

BENCH = Path(__file__).resolve().parents[1] / "bench"
LINE = 1 << 20
AFTER_WRITE, OTHER_SIDE, OWN = 64, 26, 1.3
READ, WRITE, AFAR = range(3)


@partial(entry, what="", sources=SOURCES)
def turn(state: Any, kind: int, line: int, time: int) -> int:
    """When slice 3 takes a request."""
    m = words(state)
    if kind == READ:
        return read_turn(m, 3, line, time, AFTER_WRITE)
    if kind == WRITE:
        return write_turn(m, 3, line, time, AFTER_WRITE)
    return write_from_afar(m, 3, line, time)


def slice_turns() -> Any:
    state = initial_state(load_chip("h200"), LaunchSizes(100, 1, 1, 1))
    assert (state.words[s.chip.read_after_write], state.words[s.chip.other_side]) == (AFTER_WRITE, OTHER_SIDE)
    return lambda kind, line, time: turn(state.words, kind, line, time)


def test_a_read_waits_for_the_write_before_it_and_all_behind_it_wait() -> None:
    ask = slice_turns()
    assert ask(READ, LINE, 1000) == 1000
    assert ask(WRITE, LINE, 1001) == 1001
    assert ask(READ, LINE + 1, 1002) == 1002
    assert ask(READ, LINE, 1003) == 1001 + AFTER_WRITE
    assert ask(READ, LINE + 1, 1004) == 1001 + AFTER_WRITE + int(OWN)
    assert ask(WRITE, LINE, 2000) == 2000
    assert ask(READ, LINE, 2000 + AFTER_WRITE - 1) == 2000 + AFTER_WRITE
    assert ask(WRITE, LINE, 3000) == 3000
    assert ask(READ, LINE, 3000 + AFTER_WRITE) == 3000 + AFTER_WRITE


def test_reads_of_a_line_that_is_written_take_their_own_time() -> None:
    """The 100 reads after two writes take 1.3 cycles each beside what they wait for; those of a line that nobody writes none."""
    ask = slice_turns()
    assert {ask(READ, LINE, 1000) for _ in range(100)} == {1000}
    for time in (1001, 1002):
        ask(WRITE, LINE, time)
    first, *_, last = (ask(READ, LINE, 1003) for _ in range(100))
    assert 99 * OWN < last - first < 99 * OWN + 2 * AFTER_WRITE


def test_writes_pass_the_reads_that_wait() -> None:
    ask = slice_turns()
    for time in range(1000, 1010):
        ask(WRITE, LINE, time)
        assert ask(READ, LINE, time) >= 1000 + AFTER_WRITE
    assert ask(READ, LINE, 1010) > 1010 + AFTER_WRITE
    assert ask(WRITE, LINE, 1011) == 1011


def test_reads_wait_for_the_writes_of_both_sides() -> None:
    """Beside many writes of its own side a read takes the wait for those; beside those of both, the sum of both waits and of the two changes of sides."""
    cycles = {}
    for sides in ((WRITE,), (AFAR,), (WRITE, AFAR)):
        ask = slice_turns()
        for turn_of in range(40):
            for kind in sides:
                for _ in range(20):
                    ask(kind, LINE, 1000 + turn_of)
            found = ask(READ, LINE, 1000 + turn_of)
            if turn_of == 19:
                before = found
        cycles[sides] = (found - before) / 20
    assert cycles[WRITE,] == pytest.approx(AFTER_WRITE + OWN, rel=0.1)
    assert cycles[AFAR,] == pytest.approx(OTHER_SIDE + OWN, rel=0.1)
    assert cycles[WRITE, AFAR] == pytest.approx(AFTER_WRITE + OTHER_SIDE + OWN + 2 * OTHER_SIDE, rel=0.1)


def test_reads_of_all_lines_of_a_slice_wait_while_writes_change_sides() -> None:
    """Of 100 pairs of writes of both sides, 8 cycles apart, each change of sides holds up reads of another line for up to 26 cycles; writes of one side hold up none."""
    for other, least, most in ((AFAR, 150 * OTHER_SIDE, 200 * OTHER_SIDE), (WRITE, 0, 0)):
        ask = slice_turns()
        for time in range(1000, 2600, 16):
            ask(WRITE, LINE, time)
            ask(other, LINE, time + 8)
        assert least <= ask(READ, LINE + 1, 2600) - 2600 + (1600 if most else 0) <= most


def test_writes_of_both_sides_wait_for_each_other_at_the_home() -> None:
    ask = slice_turns()
    assert [ask(WRITE, LINE, 1000), ask(WRITE, LINE, 1001)] == [1000, 1001]
    assert ask(AFAR, LINE, 1002) == 1001 + OTHER_SIDE
    assert ask(AFAR, LINE, 1040) == 1040
    assert ask(WRITE, LINE, 1041) == 1040 + OTHER_SIDE
    assert ask(AFAR, LINE, 1040 + 2 * OTHER_SIDE) == 1040 + 2 * OTHER_SIDE


@cache
def device() -> ww.GPU:
    return ww.GPU("h200")


@cache
def kernels(source: str) -> Any:
    gpu = device()
    return gpu, gpu.compile(BENCH / "micro" / source, options=[f"-I{BENCH / 'micro'}"])


def card(benchmark: str, metric: str, **where: Any) -> float:
    rows = json.loads((BENCH / "data" / "h200" / "rivals.json").read_text())["results"][benchmark]
    [found] = [r for r in rows if r["metric"] == metric and where.items() <= r.items()]
    return float(found["value"])


def near_load(apart: int, gap: int) -> float:
    """Cycles of a load by SMs of the word's own side."""
    gpu, module = kernels("rivals.cu")
    out, base = gpu.array(np.zeros(1 << 20, np.uint32)), gpu.array(np.zeros(1 << 19, np.uint32))
    module["look_add"][132, 32](out, base, np.uint32(0), np.int32(8))
    sides = np.zeros(256, np.uint32)
    for _, least, _, sm in np.asarray(out)[: 4 * 132].reshape(-1, 4):
        sides[sm] = least > 450
    span = 10_000
    about = [np.uint32(v) for v in (4, 3, 3, 0, apart, gap, span)]
    module["crossfire"][132, 160](out, base, gpu.array(sides), *about)
    each = np.asarray(out)[: 4 * 660].reshape(-1, 4).astype(float)
    near = each[(each[:, 3] == 1) & (each[:, 2] == 0)]
    return float(near[:, 0].sum() / near[:, 1].sum())


@pytest.mark.ci
def test_l1_keeps_of_a_line_in_flight_what_an_h200_keeps() -> None:
    """A store while a load of its line is on its way leaves only what it wrote; a load of a sector that was stored in part drops all else of the line."""
    gpu, module = kernels("kept.cu")
    rows = json.loads((BENCH / "data" / "h200" / "written.json").read_text())["results"]["kept_in_flight"]
    assert len(rows) == len(IN_FLIGHT) >= 200
    out, base = gpu.array(np.zeros(1 << 13, np.uint32)), gpu.array(np.zeros(1 << 18, np.uint32))
    wrong = []
    for row in [r for r in rows if r["delay"] != 250][
        ::5
    ]:  # on the card L2 has the lines, and 250 cycles are about what it takes
        kind, lanes = PREPARED[row["before"]]
        for probed, cycles in zip(PROBED, row["cycles"], strict=True):
            numbers = [np.uint32(v) for v in (lanes, row["load"], row["delay"], row["store"], probed)]
            module["kept_in_flight"][1, 32, 1024](
                out, base, np.int32(2), np.uint64(WORDS_APART), np.int32(kind), *numbers
            )
            if (np.asarray(out)[1] > 150) != (cycles > 150):
                wrong.append((row["before"], row["load"], row["store"], row["delay"], probed))
    assert not wrong


@pytest.mark.ci
@pytest.mark.parametrize(
    ("loading", "storing", "writing"), [(1, 1, 8), (1, 1, 64), (2, 2, 64), (2, 1, 64), (3, 3, 64), (1, 2, 8)]
)
def test_loads_among_stores_of_either_side_take_what_they_take_on_a_card(
    loading: int, storing: int, writing: int
) -> None:
    gpu, module = kernels("hot_lines.cu")
    rivals = kernels("rivals.cu")[1]
    out, base = gpu.array(np.zeros(1 << 20, np.uint32)), gpu.array(np.zeros(1 << 19, np.uint32))
    rivals["look_add"][132, 32](out, base, np.uint32(0), np.int32(24))
    sides = np.zeros(256, np.uint32)
    for _, least, _, sm in np.asarray(out)[: 4 * 132].reshape(-1, 4):
        sides[sm] = least > 450
    base.set(np.zeros(1 << 19, np.uint32))
    span = 100_000
    module["hot_sides"][132, 256](
        out, base, gpu.array(sides), *(np.uint32(v) for v in (loading, storing, 1, writing, span))
    )
    found = np.asarray(out)[: 4 * 1056].reshape(-1, 4).astype(float)
    rows = json.loads((BENCH / "data" / "h200" / "written.json").read_text())["results"]["hot_sides"]
    where = {"lines": 1, "loading": loading, "storing": storing, "writing": writing}
    for row in (r for r in rows if where.items() <= r.items() and r["value"]):
        mine = found[found[:, 3] == (row["side"] == "far")]
        assert mine[:, 1].sum() / span == pytest.approx(row["value"], rel=0.45)


@pytest.mark.slow
def test_loads_of_a_line_that_is_written_wait_and_those_of_the_next_one_do_not() -> None:
    where = {"write": "volatile", "load_sides": 3, "write_sides": 3, "gap": 2000}
    beside = card("crossfire", "cycles_per_load_near", apart=128, **where)
    assert near_load(128, 2000) == pytest.approx(beside, rel=0.3)
    assert card("crossfire", "cycles_per_load_near", apart=0, **where) > 10 * beside
    assert near_load(0, 2000) > 4 * beside


@pytest.mark.parametrize(("action", "name"), [(0, "none"), (1, "cas_word"), (3, "cas_line"), (5, "store_line"), (7, "fence"), (9, "red_line")])  # fmt: skip
def test_an_atomic_drops_its_line_from_l1(action: int, name: str) -> None:
    gpu, module = kernels("rivals.cu")
    out = gpu.array(np.zeros(8192, np.uint32))
    module["stale"][2, 32](out, gpu.array(np.zeros(1 << 16, np.uint32)), np.int32(action))
    [row] = [
        r
        for r in json.loads((BENCH / "data" / "h200" / "rivals.json").read_text())["results"]["stale"]
        if r["action"] == name
    ]
    assert (int(np.asarray(out)[3]) > 240) == (row["cycles"] > 240)  # L2 is asked, near or far


def test_a_yield_looks_for_other_lanes_in_vain() -> None:
    gpu, module = kernels("rivals.cu")

    def cycles(others: str) -> float:
        out = gpu.array(np.zeros(64, np.uint32))
        spans = []
        for n in (16, 48):
            module[f"yields_{others}"][1, 32](out, np.int32(n))
            spans.append(int(np.asarray(out)[0]))
        return (spans[1] - spans[0]) / 32

    alone, joined = (card("yields", "cycles_per_turn", name="yields", others=o) for o in ("alone", "joined"))
    assert cycles("joined") - cycles("alone") == pytest.approx(joined - alone, abs=8)


@pytest.mark.ci
def test_lanes_that_each_wait_for_their_turn_let_each_other_go_on() -> None:
    """An H200 takes 903 to 1,140 cycles per turn (``turns``, ``tickets``): about three accesses of L2."""
    gpu, module = kernels("scattered.cu")
    out, base = gpu.array(np.zeros(64, np.uint64)), gpu.array(np.zeros(1 << 18, np.uint32))
    module["tickets"][1, 32](out, base, np.int32(0), np.uint32(4), np.int32(2))
    began, ended = (int(v) for v in np.asarray(out)[:2])
    assert (ended - began) * 1.98 / 8 < 1500
    assert int(np.asarray(base)[64]) == 8
