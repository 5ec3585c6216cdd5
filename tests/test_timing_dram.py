"""DRAM's rules, with values of a card from ``bench/micro``: refresh, batches of writes, rows and bank groups."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tests.memory_units import LANES, LINE, dram_bank, dram_channel, dram_read, dram_write, idle, read
from warpwright.chips import load_chip
from warpwright.timing import state as s
from warpwright.timing.dram_rules import RULES, Rule


def test_a_bank_in_refresh_answers_when_it_is_over() -> None:
    duration, interval = 495, 3861  # 250 and 1950 ns at 1980 MHz
    m = idle(dram_refresh_ns=0.0)
    turn = itertools.count(1)

    def taken(phase: int) -> int:
        """A read of another row of one bank at some time of a refresh interval, long after the one before."""
        k = next(turn)
        time = 4 * interval * k + phase
        first, channels = int(m[s.chip.dram_banks]), int(m[s.chip.slices] * m[s.chip.channels_per_slice])
        m[first : first + 2 * channels * int(m[s.chip.dram_bank_count])] = 0
        return dram_read(m, 1 << 20, 15, time) - time

    waits = [taken(phase) for phase in range(interval)]
    plain = min(waits)
    late = [wait - plain for wait in waits]
    assert sum(wait > 0 for wait in late) == duration
    first = next(i for i in range(interval) if late[i] > 0 and late[i - 1] == 0)
    turned = late[first:] + late[:first]
    assert turned[:duration] == list(range(duration, 0, -1))


def test_a_channel_postpones_eight_refreshes_for_its_first_requests() -> None:
    """``bench/shapes`` on H200: kernels of 40 to 400 blocks, an element per thread, take what they take without refresh."""
    postponed = 8 * 3861 // 16
    m = idle(dram_refresh_ns=0.0)
    first = dram_read(m, 0, 15, 0)
    took = {time: dram_read(m, 1 << 12, 15, time) - time for time in range(64, 4 * 3861, 64)}
    assert all(cycles <= first for time, cycles in took.items() if time < postponed)
    assert max(cycles for time, cycles in took.items() if time >= postponed) > first + 400


def test_a_bank_in_use_is_refreshed_too() -> None:
    """bench.micro ``loaded`` on H200: turns of loads take as long as they do when some wait, also while all banks are in use."""
    m = idle()
    took = [dram_read(m, 1 << 12, 15, time) - time for time in range(10**6, 10**6 + 8000, 64)]
    assert max(took) - min(took) >= 495


def test_the_same_bank_of_all_channels_is_refreshed_at_once() -> None:
    """bench.micro ``bursts`` on H200, emptied caches: of loads of 16 KiB at once none wait, or most do."""
    found = []
    for time in range(10**7, 10**7 + 40_000, 4000):
        m = idle()
        found.append(
            [read(m, line, 15, time) - time for line in (0, 2, 8, 10, 16, 18, 24, 26)]
        )  # eight slices of one partition
    assert max(max(waits) - min(waits) for waits in found) < 50
    assert max(map(max, found)) - min(map(min, found)) > 200


def test_lanes_on_rows_of_their_own_wait_for_a_refresh_three_times_of_four() -> None:
    """bench.micro ``cold_walks`` on H200: 32 lanes that read 3 to 8 KiB apart take 230 cycles longer than without a refresh."""
    lines = [4096 * lane // LINE for lane in LANES]
    m = idle(dram_refresh_ns=0.0)
    times = [20_000 * k + 200 * (k % 20) for k in range(200)]
    slowest = np.array([max(dram_read(m, line, 15, time) for line in lines) - time for time in times])[1:]
    waits = slowest - slowest.min()
    assert 0.6 < np.mean(waits > 40) < 0.9
    assert 150 < np.mean(waits) < 350


def test_write_batches_turn_the_bus_around_only_between_reads() -> None:
    def cycles(with_reads: bool) -> int:
        m = idle()
        for i in range(2000):
            time = 1000 + 3 * i  # faster than the two channels write
            dram_write(m, i, 15, time)
            if with_reads:
                dram_read(m, i, 1, time)
        return dram_write(m, 0, 15, 10**6) - 1000

    m = idle()
    per_batch = int(m[s.chip.dram_read_to_write] + m[s.chip.dram_write_to_read]) / 256
    batches = 2000 / int(m[s.chip.dram_batch]) / 2  # two channels
    reads = 2000 * int(m[s.chip.dram_sector]) / 256 / 2
    assert cycles(True) - cycles(False) == pytest.approx(per_batch * batches + reads, rel=0.2)


def test_a_read_waits_for_a_batch_of_writes() -> None:
    """bench.micro ``stream_turns`` on H200: once L2 writes back, turns of copies take 130 to 220 cycles longer at 40 % of DRAM's bandwidth."""
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    alone = dram_read(m, 0, 15, 1000) - 1000
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    line = 0
    while not dram_write(m, line, 15, 1000):  # until the first batch leaves its queue
        line += 1
    batch = 4 * int(m[s.chip.dram_batch]) * int(m[s.chip.dram_sector]) / 256
    waits = dram_read(m, line, 15, 1000) - 1000 - alone
    assert waits == pytest.approx(batch, rel=0.15)
    assert 800 < waits < 1200


def lines_of_a_channel(m: np.ndarray, count: int, rows: int) -> list[int]:
    """So many lines of one channel, in turn of so many rows."""
    channel = dram_channel(m, 0)
    steps = [n << 15 for n in range(1 << 13) if dram_channel(m, n << 15) == channel][:rows]
    return [steps[i % rows] for i in range(count)]


def written_alone(m: np.ndarray, lines: list[int]) -> int:
    """When all batches of writes that come at once have left."""
    for line in lines:
        dram_write(m, line, 1, 1000)
    return dram_write(m, lines[0], 1, 10**6)


def test_a_batch_of_writes_opens_32_rows() -> None:
    """bench.machine.dram_turns on H200: of a queue of 96 writes at random 32 leave at once, and a read comes before the next 32."""
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    places, rows = int(m[s.chip.dram_batch]), int(m[s.chip.dram_batch_rows])
    each = int(m[s.chip.dram_activate_write]) / 256
    lines = lines_of_a_channel(m, places, places)
    ends = [dram_write(m, line, 1, 1000) for line in lines]
    assert ends[:-1] == [0] * (places - 1)
    assert ends[-1] - 1000 == pytest.approx(rows * each, abs=2 * each)
    end = written_alone(m, lines_of_a_channel(m, 2 * rows, 2 * rows))
    assert end - ends[-1] == pytest.approx(2 * rows * each, rel=0.05)


def test_a_read_comes_before_the_next_batch() -> None:
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    alone = dram_read(m, 1 << 28, 1, 1000) - 1000
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    places, rows = int(m[s.chip.dram_batch]), int(m[s.chip.dram_batch_rows])
    for line in lines_of_a_channel(m, 2 * places, 2 * places):
        dram_write(m, line, 1, 1000)
    each = int(m[s.chip.dram_activate_write]) / 256
    channel = dram_channel(m, 0)
    line = next(n for n in range(1 << 28, 1 << 29, 1 << 15) if dram_channel(m, n) == channel)
    assert dram_read(m, line, 1, 1001) - 1001 < alone + (rows + 2) * each


@pytest.mark.parametrize(("mib", "card_ns"), [(64, 5.2), (128, 5.7), (1024, 6.1)])
def test_writes_to_a_row_leave_together(mib: int, card_ns: float) -> None:
    """bench.machine.dram_turns on H200: ns of a channel for each line of so many MiB, written at random."""
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    lines = np.random.default_rng(1).integers(0, mib << 13, 8000)
    for i, line in enumerate(lines):
        dram_write(m, int(line), 1, 1000 + 5 * i)
    cycles = dram_write(m, 0, 1, 10**6) - 1000
    assert 2 * cycles / 1.98 / len(lines) == pytest.approx(card_ns, rel=0.12)


@pytest.mark.parametrize(("period", "card_ns"), [(32, 1.34), (8, 2.52), (2, 3.64)])
def test_reads_among_writes_turn_the_bus_around(period: int, card_ns: float) -> None:
    """bench.machine.dram_turns on H200, stores to 1 GiB: ns of a channel that a read for so many writes adds to each write."""

    def each(reads: bool) -> float:
        m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
        lines = np.random.default_rng(2).integers(0, 1 << 23, (8000, 2))
        for i, (line, other) in enumerate(lines.tolist()):
            dram_write(m, line, 1, 1000 + 5 * i)
            if reads and i % period == 0:
                dram_read(m, (1 << 23) + other, 3, 1000 + 5 * i)
        return 2 * (dram_write(m, 0, 1, 10**6) - 1000) / 1.98 / len(lines)

    assert each(True) - each(False) == pytest.approx(card_ns, rel=0.25)


@pytest.mark.parametrize("sectors", [1, 3])
def test_a_queue_of_requests_holds_as_many_writes_of_32_bytes_as_of_64(sectors: int) -> None:
    m = idle("g80", dram_write_batch_requests_count=6)
    ends = [dram_write(m, line, sectors, 1000) for line in range(6)]
    assert ends[:5] == [0] * 5
    assert ends[5] > 1000


def test_a_channel_opens_no_row_before_the_interval_from_the_last_one_is_over() -> None:
    """A read of another bank comes the interval after the first, and one of the same row does not wait for it."""

    def between(other: int, interval_ns: float) -> int:
        m = idle("g80", dram_activate_interval_ns=interval_ns, dram_refresh_ns=0.0)
        first, second = (dram_read(m, line, 1, 1024) for line in (0, other))
        return second - first

    chip = load_chip("g80")
    next_bank = chip.dram.dram_bank_block_bytes // chip.l1.l1_line_bytes
    interval_cycles = 54
    interval_ns = interval_cycles * 1000 / chip.clocks.sm_clock_mhz
    assert between(next_bank, interval_ns) == interval_cycles
    assert between(next_bank, 0.0) < interval_cycles / 4
    assert between(1, interval_ns) == between(1, 0.0)


@pytest.mark.parametrize(("sectors", "cycles"), [(3, 8.1), (15, 10.1)])
def test_a_channel_opens_rows_in_an_interval(sectors: int, cycles: float) -> None:
    """bench.micro ``scattered`` on H200: 64 bytes at random take 8.1 cycles of a channel, whole lines their time on the bus."""
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    channels = int(m[s.chip.channels_per_slice])
    count = 4000
    end = max(dram_read(m, row << 15, sectors, 1000) for row in range(count))
    assert (end - 1000) * channels / count == pytest.approx(cycles, rel=0.1)


def _bank_group(m: np.ndarray, line: int) -> int:
    return dram_bank(m, line) % int(m[s.chip.dram_groups])


def test_bursts_of_one_bank_group_keep_their_distance() -> None:
    """tCCD_L: two reads of one row are that long apart, reads of two groups as long as without the rule."""
    chip = load_chip("h200")
    cycles = 40
    rule_ns = cycles * 1000 / chip.clocks.sm_clock_mhz

    def between(other: Callable[[np.ndarray, int], bool], latency_ns: float) -> int:
        m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0, dram_group_column_ns=latency_ns)
        channel = dram_channel(m, 0)
        line = next(n for n in range(1, 1 << 16) if dram_channel(m, n) == channel and other(m, n))
        for one in (0, line):
            dram_read(m, one, 1, 1000)  # opens the rows
        first, second = (dram_read(m, one, 1, 51_200) for one in (0, line))
        return int(second - first)

    def same_row(m: np.ndarray, line: int) -> bool:
        return line < 8

    def other_group(m: np.ndarray, line: int) -> bool:
        return _bank_group(m, line) != _bank_group(m, 0)

    assert between(same_row, rule_ns) == cycles
    assert between(other_group, rule_ns) == between(other_group, 0.0) < cycles / 4


def test_a_line_of_one_bank_group_takes_its_bursts_distances() -> None:
    chip = load_chip("h200")
    rule_ns = 40 * 1000 / chip.clocks.sm_clock_mhz
    one, four = (
        int(dram_read(idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0, dram_group_column_ns=rule_ns), 0, n, 1000))
        for n in (1, 15)
    )
    assert four - one == 3 * 40


def test_rows_of_one_bank_group_open_the_interval_apart() -> None:
    """tRRD_L: banks of one group open rows that far apart, banks of two groups at once."""
    chip = load_chip("h200")
    cycles = 90
    rule_ns = cycles * 1000 / chip.clocks.sm_clock_mhz

    def between(same: bool, latency_ns: float) -> int:
        m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0, dram_group_activate_ns=latency_ns)
        channel = dram_channel(m, 0)
        line = next(
            n
            for n in range(1, 1 << 16)
            if dram_channel(m, n) == channel
            and dram_bank(m, n) != dram_bank(m, 0)
            and (_bank_group(m, n) == _bank_group(m, 0)) == same
        )
        first, second = (dram_read(m, one, 1, 1024) for one in (0, line))
        return int(second - first)

    assert between(True, rule_ns) == cycles
    assert between(False, rule_ns) == between(False, 0.0) < cycles / 4


def test_four_rows_open_in_tfaw() -> None:
    """Reads of rows of their own take a quarter of tFAW each, and whole lines their bursts."""
    chip = load_chip("h200")
    cycles = 80
    window_ns = cycles * 1000 / chip.clocks.sm_clock_mhz
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0, dram_four_activates_read_ns=window_ns)
    channels, count = int(m[s.chip.channels_per_slice]), 2000
    end = max(dram_read(m, row << 15, 1, 1000) for row in range(count))
    assert (end - 1000) * channels / count == pytest.approx(cycles / 4, rel=0.05)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_of_dram_has_a_number_and_a_word(rule: Rule) -> None:
    """A chip whose number is larger has a larger latency in the model's state: the row is read."""
    chip = load_chip("g80")
    assert rule.field in type(chip.dram).model_fields
    more = {rule.field: (chip.get(rule.field) or 4.0) * (0.5 if rule.field == "dram_gb_per_s" else 2)}
    before, after = idle("g80"), idle("g80", **more)
    words = {name: field for name, field in s.Header.fields.items() if name.startswith(("dram_", "bank_refresh"))}
    changed = [name for name, field in words.items() if after[field.offset] > before[field.offset]]
    assert changed, rule
