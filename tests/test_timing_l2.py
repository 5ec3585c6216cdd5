"""L2's rules, with values of a card from ``bench/micro``: ports of slices, partitions, partly written lines, requests of a GPC."""

import numpy as np
import pytest

from tests.memory_units import LINE, ask, idle, read, write
from warpwright.timing import exchange
from warpwright.timing import state as s


def steady(function: object, count: int) -> float:
    """Cycles between the last answers of ``count`` requests at one time."""
    answers = [function(i) for i in range(count)]
    return (answers[-1] - answers[count // 2]) / (count - 1 - count // 2)


@pytest.mark.ci
@pytest.mark.parametrize(("sectors", "whole", "cycles"), [(15, 15, 4.61), (1, 0, 2.32), (15, 0, 5.80)])
def test_a_write_takes_its_home_for_the_request_and_for_each_sector(sectors: int, whole: int, cycles: float) -> None:
    m = idle(l2_partition_count=1)
    assert steady(lambda i: write(m, 0, sectors, whole, 1000), 400) == pytest.approx(cycles, rel=0.03)


def lines_far_away(m: np.ndarray, count: int) -> list[int]:
    """Lines of one slice in the partition that is not the SM's own."""
    half = m[s.chip.slices] // 2
    homes = {line: int(ask(m, 4, line, 0, 0, 0)) for line in range(200 * count)}
    first = next(home for home in homes.values() if home >= half)
    return [line for line, home in homes.items() if home == first][:count]


@pytest.mark.ci
@pytest.mark.parametrize(("sectors", "whole", "card"), [(15, 15, 9.04), (15, 0, 11.2)])
def test_what_is_written_far_away_crosses_at_its_slices_rate(sectors: int, whole: int, card: float) -> None:
    """bench.micro ``crossing``: far stores of whole lines 41.6 sectors per cycle over 94 slices, of every other word 33.6; near ones 81.5 and 64.8."""
    m = idle()
    line = lines_far_away(m, 1)[0]
    assert steady(lambda i: write(m, line, sectors, whole, 1000), 400) == pytest.approx(card, rel=0.03)


@pytest.mark.ci
def test_lines_come_from_far_away_at_a_slices_rate_and_are_near_then() -> None:
    """bench.micro ``crossing``: far loads of lines that are in L2 40.3 sectors per cycle over 94 slices, 9.3 cycles per line."""
    m = idle()
    lines = lines_far_away(m, 300)
    for line in lines:
        write(m, line, 15, 15, 0, partition=1)  # from the home's own side
    assert steady(lambda i: read(m, lines[i], 15, 20_000), 300) == pytest.approx(9.3, rel=0.03)
    assert steady(lambda i: read(m, lines[i], 15, 40_000), 300) == pytest.approx(128 / 55, rel=0.03)


NEAR_CYCLES, FAR_CYCLES = 130, 310
"""At a slice: a line that it has, and one that it fetches from the other side."""


@pytest.mark.ci
@pytest.mark.parametrize("whole", [15, 0])
@pytest.mark.parametrize("partition", [0, 1])
def test_what_a_store_leaves_on_the_readers_side(whole: int, partition: int) -> None:
    """bench.machine.written on an H200: a line whose home is far and that was read before is near still after a store by an SM of the reader's side, of
    whole or partial sectors (median 282 to 287 cycles), and far again after one from the home's side (451)."""
    m = idle()
    line = lines_far_away(m, 1)[0]
    read(m, line, 15, 0)
    assert read(m, line, 15, 10_000) - 10_000 < NEAR_CYCLES
    write(m, line, 15, whole, 20_000, partition)
    took = read(m, line, 15, 30_000) - 30_000
    assert (took < NEAR_CYCLES) if partition == 0 else (NEAR_CYCLES < took < FAR_CYCLES)


def test_whole_sectors_of_a_line_that_nobody_has_read_stay_on_the_writers_side() -> None:
    """bench.machine.written, not read before: 283 cycles where whole sectors were written, DRAM's 725 where words were."""
    for sectors, whole, near in ((15, 15, True), (1, 1, True), (1, 0, False)):
        m = idle()
        line = lines_far_away(m, 1)[0]
        write(m, line, sectors, whole, 0)
        assert (read(m, line, 1, 10_000) - 10_000 < NEAR_CYCLES) == near


def test_an_atomic_takes_the_copy_on_the_readers_side() -> None:
    """bench.machine.written, sums: 452 cycles after them on whichever side they were made."""
    m = idle()
    line = lines_far_away(m, 1)[0]
    read(m, line, 15, 0)
    ask(m, 9, line, 15, 0, 10_000)
    assert NEAR_CYCLES < read(m, line, 15, 20_000) - 20_000 < FAR_CYCLES


@pytest.mark.parametrize(("sectors", "cycles"), [(1, 64 / 55), (3, 64 / 55), (7, 96 / 55), (15, 128 / 55)])
def test_a_read_takes_at_least_a_clock_of_l2(sectors: int, cycles: float) -> None:
    m = idle(l2_partition_count=1)
    read(m, 0, 15, 0)
    assert steady(lambda i: read(m, 0, sectors, 5000), 400) == pytest.approx(cycles, rel=0.03)


def test_reads_pass_beside_writes() -> None:
    m = idle(l2_partition_count=1)
    read(m, 1, 15, 0)  # of the same slice
    alone = read(m, 1, 15, 5000)
    for _ in range(100):
        write(m, 0, 15, 15, 6000)
    assert read(m, 1, 15, 6000) - 6000 <= alone - 5000 + (1 << s.CALENDAR_SHIFT)


def test_a_written_line_takes_room_in_both_partitions() -> None:
    # With all ways allowed to be dirty, room alone decides what is written back.
    m = idle(l2_kib=1536, l2_dirty_ways=16)
    lines = 1536 * 1024 // LINE
    for line in range(lines):
        write(m, line, 15, 15, 1000 + line)
    assert s.dram_counted(m, s.Channel.sectors_written) == pytest.approx(4 * lines // 2, rel=0.1)


def test_lines_are_spread_over_slices_as_a_card_spreads_them() -> None:
    """bench.micro ``slices`` on H200: every other pair of lines of a KiB, 4 KiB of one partition by parity, slices in turn."""
    m = idle()
    homes = np.array([int(ask(m, 4, line, 0, 0, 0)) for line in range(1 << 14)])
    pairs = homes.reshape(-1, 2, 2, 2)  # KiB, half, unit, line
    assert np.array_equal(pairs, np.broadcast_to(pairs[:, :1, :, :1], pairs.shape))
    assert (pairs[:, 0, 0, 0] != pairs[:, 0, 1, 0]).all()
    blocks = homes.reshape(-1, 32) // 47
    number = np.arange(len(blocks))
    assert np.array_equal(blocks, np.tile((sum(number >> bit for bit in (0, 1, 3, 5, 7)) & 1)[:, None], 32))
    for part in homes.reshape(-1, 1024):
        assert set(np.bincount(part, minlength=94) // 4) == {2, 3}


@pytest.mark.parametrize("chip", ["p100", "v100", "a100", "h200"])
def test_every_slice_has_its_share_of_the_lines(chip: str) -> None:
    m = idle(chip)
    counts = np.bincount([int(ask(m, 4, line, 0, 0, 0)) for line in range(1 << 15)], minlength=int(m[s.chip.slices]))
    assert counts.min() >= 0.97 * counts.mean()
    assert counts.max() <= 1.03 * counts.mean()


def completed(lines: int, sectors: int, whole: int) -> int:
    """Sectors that L2 reads and writes back of so many lines that are written once, in a cache of 4 sets x 16 ways a slice."""
    m = idle(l2_kib=752)
    for line in range(lines):
        write(m, line, sectors, whole, 1000 + 20 * line)
    return s.counted(m, s.SliceGroup.completed)


def test_l2_completes_partly_written_lines_beyond_two_ways_of_a_set() -> None:
    held = 752  # of 6016
    assert completed(held // 2, 15, 0) <= 0.1 * 4 * held
    assert completed(3 * held, 15, 0) >= 4 * 2 * held
    assert completed(3 * held, 1, 0) >= 2 * held
    assert completed(3 * held, 15, 15) == 0


@pytest.mark.ci
def test_a_write_waits_until_dram_reads_the_line_that_it_completes() -> None:
    """bench.machine.single_launches on H200: stores of a million words that are 32 words apart, nearly all of which complete a line, take 65 cycles of the chip per thousand."""

    def longest(whole: int) -> int:
        """Cycles until the last of some writes is accepted, where DRAM opens a row in 800 cycles."""
        m = idle(l2_kib=752, dram_four_activates_read_ns=1640, dram_refresh_ns=0, dram_bank_refresh_ns=0)
        return max(write(m, line, 1, whole, 1000) - 1000 for line in range(3 * 752))

    assert longest(1) < 300
    assert longest(0) > 3 * 800  # 16 lines of each slice are completed, four of a row


def test_a_sector_that_is_written_word_by_word_needs_nothing_from_dram() -> None:
    m = idle()
    first, ways = int(m[s.chip.l2_tags]), int(m[s.chip.l2_ways])
    last = first + int(m[s.chip.l2_slice_words]) * int(m[s.chip.slices])
    fills = m[first:last].reshape(-1, s.L2_WAY_WORDS, ways)[:, 2]
    for word in range(8):
        write(m, 0, 1, 0, 1000 + 50 * word)
        assert fills.any() == (word < 7)


def test_sms_of_a_gpc_ask_l2_once_for_what_is_on_its_way() -> None:
    m = idle()
    first = int(ask(m, 5, 0, 15, 0, 1000))
    assert int(ask(m, 5, 0, 15, 1, 1100)) == first
    assert s.counted(m, s.SliceGroup.coalesced) == 4
    ask(m, 5, 0, 3, 2, 1100)  # other sectors of the line: asked for by itself
    ask(m, 5, 0, 15, 1, first + 1000)  # long answered
    assert s.counted(m, s.SliceGroup.coalesced) == 4


@pytest.mark.parametrize(
    ("asked", "joined"),
    [
        ([1, 1], 1),
        ([1] * 4, 3),
        ([1] * 8, 6),
        ([1, 1, 2, 2], 1),
        ([1, 2, 1, 2], 0),
        ([1, 2, 2, 1, 1], 0),
        ([1, 1, 2, 1, 1], 2),
    ],
)
def test_a_request_is_made_for_four_sms_until_one_asks_for_another_sector(asked: list[int], joined: int) -> None:
    """bench.micro ``crowd_once``: 2, 4, 8 SMs that read a sector ask 1.00, 1.00, 2.02 times; 4 and 8 of which half read the next sector 3.67 and 6.45."""
    m = idle()
    for at, sectors in enumerate(asked):
        ask(m, 5, 0, sectors, 0, 1000 + at)
    assert s.counted(m, s.SliceGroup.coalesced) == joined


@pytest.mark.parametrize(("apart", "joined"), [(30, 1), (40, 0)])
def test_what_l2_has_is_joined_within_34_cycles(apart: int, joined: int) -> None:
    """bench.micro ``together_once``."""
    m = idle()
    later = int(ask(m, 5, 0, 1, 0, 1000)) + 1000
    ask(m, 5, 0, 1, 0, later)
    ask(m, 5, 0, 1, 0, later + apart)
    assert s.counted(m, s.SliceGroup.coalesced) == joined


def test_sms_come_in_another_order_each_window() -> None:
    """bench.micro ``crowd_once``: what 8 SMs of a GPC ask for in the same cycle comes in a random order."""
    turns, draw_of, in_turn = (f.py_func for f in (exchange.turns, exchange.window_draw, exchange.sm_in_turn))  # type: ignore[attr-defined]
    for sms in (1, 7, 16, 18):
        width = turns(sms)
        orders = set()
        for window in range(64):
            order = [in_turn(draw_of(window * 200), k, width) for k in range(width)]
            assert sorted(order) == list(range(width))
            orders.add(tuple(sm for sm in order if sm < sms))
        assert len(orders) >= min(sms, 16)
