"""The contract of the checks for waves of 16, 32 and 64 lanes, on the instruction set of the tests' own (``wave_machine.py``)."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tests.wave_machine import WIDTHS, Run, Words
from warpwright.tools.checks.checked_execution import CheckedExecution
from warpwright.tools.checks.checker import Checker
from warpwright.tools.checks.findings import Finding
from warpwright.tools.checks.skipped_barriers import detours_of
from warpwright.tools.checks.uninitialized_use import Verdict
from warpwright.tools.checks.watch import Watch

pytestmark = pytest.mark.parametrize("lanes", WIDTHS)


def check(lanes: int, text: str, checks: str, words: Words, threads: int = 0, blocks: int = 1) -> list[Finding]:
    """What the checks find."""
    run = Run(lanes, text, words, threads, blocks)
    checker = Checker(checks, run.memory)
    kernel = run.traced()
    checker._detours[kernel.address] = detours_of(run.program, kernel.blocks, run.lowered)
    launch = SimpleNamespace(checker=checker, context=run.context(), loaded=None, ptx=None, number=1, host=())
    launch.context.exact_shared = True
    watch = Watch(launch, kernel, set(checker.checks))
    CheckedExecution(launch.context, kernel, 2, watch).run()
    return watch.findings(Verdict(None, ""))


def zeros(count: int) -> Words:
    return np.zeros(count, np.uint32)


EXCHANGE = """
        TID r0
        STS r0 r0
        {meet}
        ADD r1 r0 {distance}
        AND r1 r1 {mask}
        LDS r2 r1
        SHL r3 r0 0
        ST r3 r2
        EXIT
"""


def exchange(lanes: int, threads: int, distance: int, meet: str) -> str:
    return EXCHANGE.format(meet=meet, distance=distance, mask=threads - 1)


def test_lanes_of_a_wave_that_read_what_others_wrote_are_told_apart(lanes: int) -> None:
    """Every lane reads the word of the lane half a wave further: of 64 lanes those of the other half."""
    (found,) = check(lanes, exchange(lanes, lanes, lanes // 2, ""), "racecheck", zeros(lanes))
    assert (found.check, found.severity, found.count) == ("racecheck", "warning", lanes)
    before, now = found.places
    assert before.thread[0] == (now.thread[0] + lanes // 2) % lanes
    assert any("__syncwarp" in line for line in found.details)


def test_a_lane_that_reads_its_own_word_is_in_order(lanes: int) -> None:
    assert check(lanes, exchange(lanes, lanes, 0, ""), "racecheck", zeros(lanes)) == []


def test_a_block_barrier_orders_all_lanes_and_waves(lanes: int) -> None:
    for threads in (lanes, 2 * lanes):
        text = exchange(lanes, threads, lanes // 2, "BAR")
        assert check(lanes, text, "racecheck,synccheck", zeros(threads), threads) == []


def test_waves_of_a_block_race_without_a_barrier(lanes: int) -> None:
    """The wave that runs first reads words before the other one writes them; the other reads what the first wrote."""
    text = exchange(lanes, 2 * lanes, lanes, "")
    found = check(lanes, text, "racecheck", zeros(2 * lanes), 2 * lanes)
    assert [one.count for one in found] == [lanes, lanes]
    for one in found:
        before, now = one.places
        assert abs(before.thread[0] - now.thread[0]) == lanes
        assert one.severity == "error"
        assert any("__syncthreads" in line for line in one.details)


def test_blocks_that_write_one_word_race_whichever_lanes_they_are(lanes: int) -> None:
    """The last lane of each of two blocks writes word 0."""
    text = f"""
        LANE r0
        SET r1 0
        LESS p0 r0 {lanes - 1}
        TID r2
        @!p0 ST r1 r2
        EXIT
    """
    found = check(lanes, text, "racecheck", zeros(1), blocks=2)
    assert len(found) == 1
    assert {one.thread[0] for one in found[0].places} == {lanes - 1}
    assert [one.block[0] for one in found[0].places] == [0, 1]


def test_lanes_that_write_one_word_at_once_are_a_race_of_the_wave(lanes: int) -> None:
    """The first and the last lane write word 0 in one instruction."""
    text = f"""
        LANE r0
        SET r1 0
        LESS p0 r0 1
        LESS p1 r0 {lanes - 1}
        @p0 ST r1 r0
        @!p1 ST r1 r0
        EXIT
    """
    (found,) = check(lanes, text, "racecheck", zeros(1))
    assert [one.thread[0] for one in found.places] == [0, lanes - 1]
    assert found.severity == "warning"


def test_shared_words_that_nobody_wrote_are_found_lane_by_lane(lanes: int) -> None:
    """The upper half of the lanes reads words that are written by none."""
    text = f"""
        LANE r0
        LESS p0 r0 {lanes // 2}
        @p0 STS r0 r0
        LDS r2 r0
        EXIT
    """
    (found,) = check(lanes, text, "initcheck", zeros(1))
    assert found.count == lanes - lanes // 2
    assert found.places[0].thread[0] == lanes // 2


@pytest.mark.parametrize(("stride", "shift"), [(8, 3), (1, 0)])
def test_traffic_is_counted_for_the_whole_wave(lanes: int, stride: int, shift: int) -> None:
    """Words 32 bytes apart move a sector each, eight times what their bytes need."""
    text = f"""
        LANE r0
        SHL r1 r0 {shift}
        LD r2 r1
        EXIT
    """
    found = check(lanes, text, "perfcheck", zeros(lanes * 8))
    if stride == 1:
        assert found == []
    else:
        assert f"{lanes} sectors per request, {lanes // 8} would suffice" in found[0].title


def test_partial_waves_are_followed(lanes: int) -> None:
    """A block of one and a half waves: the second has half of its lanes, which meet the first at a barrier."""
    threads = lanes + lanes // 2
    text = """
        TID r0
        STS r0 r0
        BAR
        LDS r1 r0
        ST r0 r1
        EXIT
    """
    assert check(lanes, text, "racecheck,synccheck,initcheck", zeros(threads), threads) == []
