"""Atomics of an SM that wait for L2: the next one leaves when the oldest of them has been accepted; and barriers, whose atomics wait for long."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.native.direct import entry
from warpwright.native.intrinsics import words
from warpwright.timing import SOURCES, address_hash, atomics, dram, l2, l2_hazards
from warpwright.timing import state as s
from warpwright.timing.reset import LaunchSizes, initial_state

SOURCE = r"""
// Additions of all blocks to one word, by `lanes` of each warp (the compiler cannot see that it is one); in the second round, long after a first with one, when the last of a block has left.
extern "C" __global__ void additions(unsigned *x, unsigned *cycles, int count, int lanes)
{
    __shared__ unsigned last;
#pragma unroll 1
    for (int n = 1, round = 0; round < 2; round++, n = count) {
        last = 0;
        __syncthreads();
        unsigned begin = clock();
        while (clock() - begin < 20000) {}
        __syncthreads();
        begin = clock();
        if (threadIdx.x % 32 < lanes) {
#pragma unroll 1
            for (int i = 0; i < n; i++)
                asm volatile("red.global.add.u32 [%0], 1;" :: "l"(x + threadIdx.x * (lanes >> 6)) : "memory");
            atomicMax(&last, clock() - begin);
        }
        __syncthreads();
    }
    cycles[blockIdx.x] = last;
}

// The same to lines of every thread's own.
extern "C" __global__ void apart(unsigned *x)
{
#pragma unroll 1
    for (int i = 0; i < 32; i++)
        atomicAdd(x + 32 * (blockIdx.x * blockDim.x + threadIdx.x), 1u);
}

// Barriers of the grid without fences: each block adds to a word and polls it.
extern "C" __global__ void barriers(unsigned *word, unsigned *cycles, int repeats)
{
    unsigned begin = clock();
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned mine = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
            unsigned before = atomicAdd(word, mine);
            while (((before ^ *(volatile unsigned *)word) & 0x80000000u) == 0) {}
        }
        __syncthreads();
    }
    if (threadIdx.x == 0 && blockIdx.x == 0)
        *cycles = clock() - begin;
}
"""


def left(places: int, warps: int, count: int, lanes: int) -> int:
    """When the last of so many additions of each of so many warps of all SMs has left its SM; the SMs of this H200 have so many places for those that wait."""
    gpu = ww.GPU(load_chip("h200", atomics_in_flight_count=places))
    spans = np.zeros(gpu.chip.sm.sm_count, np.uint32)
    gpu.compile(SOURCE)["additions"][spans.size, 32 * warps](np.zeros(1, np.uint32), spans, count, lanes)
    return int(spans.max())


@pytest.mark.ci
def test_atomics_leave_while_fewer_than_the_places_wait() -> None:
    """64 of each SM leave at once if there are 64 places; with 16 the last leaves when 48 of each SM are done, 1.45 cycles each."""
    assert left(64, 4, 16, 1) < 1000
    assert left(16, 4, 16, 1) > 48 * 132 * 1.45


@pytest.mark.ci
def test_lanes_on_one_word_take_a_place_each() -> None:
    """Of 104 places, 32 additions by three lanes each take 96; by 32 lanes each they wait."""
    assert left(104, 4, 8, 3) < 1000
    assert left(104, 4, 8, 32) > 512 * 132 * 1.45


@pytest.mark.ci
def test_atomics_that_l2_accepts_at_once_take_no_place() -> None:
    """Additions to lines of their own take as long with 16 places as with 1,000."""
    few, many = (
        ww.GPU(load_chip("h200", atomics_in_flight_count=places))
        .compile(SOURCE)["apart"][8, 32](np.zeros(8 * 1024, np.uint32))
        .cycles
        for places in (16, 1000)
    )
    assert few == pytest.approx(many, rel=0.02)


@cache
def kernel() -> ww.Kernel:
    return ww.GPU("h200").compile(SOURCE)["barriers"]


def cycles_per_block(blocks: int, threads: int) -> float:
    """Of one barrier, by all blocks of the chip, ``blocks`` on each SM.  As on the card, the first eight are left out: until blocks arrive in a steady rhythm, barriers vary by 10 %."""
    count = blocks * kernel().gpu.chip.sm.sm_count
    spans = []
    for repeats in (8, 20):
        cycles = np.zeros(1, np.uint32)
        kernel()[count, threads](np.zeros(1, np.uint32), cycles, np.int32(repeats))
        spans.append(int(cycles[0]))
    return (spans[1] - spans[0]) / 12 / count


@pytest.mark.ci
@pytest.mark.parametrize(("blocks", "threads", "card"), [(8, 32, 5.51), (16, 32, 5.30), (32, 32, 5.47), (32, 64, 5.30)])
def test_polling_takes_time_in_proportion_to_the_blocks(blocks: int, threads: int, card: float) -> None:
    """An H200 (``bench/data/h200/barriers.json``, ``g-vl-``)."""
    assert cycles_per_block(blocks, threads) == pytest.approx(card, rel=0.06)


@partial(entry, what="", sources=SOURCES)
def accepted_at(state: Any, line: int, time: int, sectors: int, passes: int) -> int:
    """When a line's home accepts an atomic from its own side on so many sectors (``passes``: see ``count_passes``)."""
    m = words(state)
    home = address_hash.slice_of(m, line)
    atomics.atomic(m, 0 if home < m[s.chip.half] else 1, home, line, (1 << sectors) - 1, passes, time)
    return m[l2_hazards.queue_of(m, home).accepted]


@partial(entry, what="", sources=SOURCES)
def answered_at(state: Any, line: int, time: int) -> int:
    """When a line's home answers a load of a sector from its own side."""
    m = words(state)
    home = address_hash.slice_of(m, line)
    return l2.read(m, 0 if home < m[s.chip.half] else 1, home, line, 1, time, False)


@partial(entry, what="", sources=SOURCES)
def written_at(state: Any, line: int, time: int) -> int:
    """When a line's home accepts a store of a sector from its own side."""
    m = words(state)
    home = address_hash.slice_of(m, line)
    return l2.write(m, 0 if home < m[s.chip.half] else 1, home, line, 1, 32, time)


@partial(entry, what="", sources=SOURCES)
def held_until(state: Any, line: int, time: int) -> int:
    """When an atomic that needs DRAM goes on."""
    m = words(state)
    return dram.hold_channel(m, address_hash.slice_of(m, line), line, time)


@partial(entry, what="", sources=SOURCES)
def place_of(state: Any, line: int, written: int) -> int:
    """The number of a line's DRAM channel, into whose queue a sector of it is written first if ``written`` is a time."""
    m = words(state)
    home = address_hash.slice_of(m, line)
    if written >= 0:
        dram.queue_write(m, home, line, 1, written)
    return address_hash.channel_of(m, home, line)


ONE_WORD = 1 | 1 << 7


def passes_of(sectors: int, named: int) -> int:
    """``count_passes`` of so many words in each of so many sectors, a lane on each."""
    bits = int(memory()[s.chip.pass_bits])
    return sum((1 | named << 7) << bits * sector for sector in range(sectors))


def memory() -> np.ndarray:
    """The state of an H200 whose DRAM needs no refresh."""
    chip = load_chip("h200", dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    words: np.ndarray = initial_state(chip, LaunchSizes(100, 1, 1, 1)).words
    return words


def lines_of_a_channel(m: np.ndarray, count: int, beside: bool = False) -> list[int]:
    """So many lines in rows of their own of the first line's channel, or of the other channel of its slice (``beside``)."""
    wanted = int(place_of(m, 0, -1)) ^ beside
    return [n << 15 for n in range(1 << 15) if place_of(m, n << 15, -1) == wanted][:count]


BATCH_AT = 10_000


def fill_queue(m: np.ndarray, lines: list[int], at: int, missing: int = 0) -> float:
    """Queue writes until a batch begins, or lacks ``missing`` writes; returns the cycle at which it has been written."""
    for line in lines[: int(m[s.chip.dram_batch]) - missing]:
        place_of(m, line, at)
    written = int(m[s.chip.dram_batch_rows]) * int(m[s.chip.dram_activate_write])
    turn = int(m[s.chip.dram_read_to_write]) + int(m[s.chip.dram_write_to_read])
    return at + (written + turn) / 256


@pytest.mark.ci
def test_an_atomic_that_misses_is_accepted_when_dram_reads_its_sector() -> None:
    """bench.machine.dram_turns on H200: sums on random words of 1 GiB take 61 ps over the chip, as DRAM reads and writes.  Sums on lines that L2 has do not wait."""
    m = memory()
    lines = lines_of_a_channel(m, 20)
    cold = [int(accepted_at(m, line, 1000, 1, ONE_WORD)) - 1000 for line in lines]
    warm = [
        int(accepted_at(m, line, time, 1, ONE_WORD)) - time
        for line, time in zip(lines, range(10**6, 2 * 10**6, 10**4), strict=False)
    ]
    assert max(cold) == pytest.approx(len(lines) * int(m[s.chip.dram_activate_read]) / 256, rel=0.3)
    assert max(warm) < 20


@pytest.mark.ci
def test_an_atomic_that_misses_during_a_batch_of_writes_holds_up_its_channel() -> None:
    """bench.machine.atomic_misses on H200: additions that hit are as slow as those that miss and replace dirty lines, on whichever SM."""
    m = memory()
    own, other = lines_of_a_channel(m, 120), lines_of_a_channel(m, 1, beside=True)
    held, beside, cold = own[0], other[0], own[1]
    for line in (held, beside):
        accepted_at(m, line, 0, 1, ONE_WORD)
    end = fill_queue(m, own[2:], BATCH_AT)
    assert accepted_at(m, held, BATCH_AT + 5, 1, ONE_WORD) < BATCH_AT + 20
    assert accepted_at(m, cold, BATCH_AT + 10, 1, ONE_WORD) >= end - 1
    assert accepted_at(m, held, BATCH_AT + 20, 1, ONE_WORD) == pytest.approx(end, abs=20)
    assert accepted_at(m, beside, BATCH_AT + 20, 1, ONE_WORD) < BATCH_AT + 40


@pytest.mark.ci
@pytest.mark.parametrize("access", [answered_at, written_at])
def test_an_atomic_that_waits_for_a_batch_of_writes_holds_up_loads_and_stores(access: Callable[..., int]) -> None:
    """bench.machine.atomic_misses ``others`` on H200: loads and stores of other SMs, which hit, lose 48 and 25 % of their rate where one in four additions misses."""
    m = memory()
    own, other = lines_of_a_channel(m, 120), lines_of_a_channel(m, 1, beside=True)
    before, held, beside = own[0], own[1], other[0]
    for line in (before, held, beside):
        accepted_at(m, line, 0, 1, ONE_WORD)
    end = fill_queue(m, own[3:], BATCH_AT)
    assert access(m, before, BATCH_AT + 5) < BATCH_AT + 20
    accepted_at(m, own[2], BATCH_AT + 10, 1, ONE_WORD)
    assert access(m, held, BATCH_AT + 20) == pytest.approx(end, abs=20)
    assert access(m, beside, BATCH_AT + 20) < BATCH_AT + 60


@pytest.mark.ci
def test_an_atomic_whose_victim_completes_a_batch_of_writes_holds_up_nobody() -> None:
    """The read of a miss precedes the write of its victim: in bench.machine.atomic_misses ``dirty`` on H200, a batch costs less than its length where misses are rare."""
    m = memory()
    own = lines_of_a_channel(m, 120)
    accepted_at(m, own[0], 0, 1, ONE_WORD)
    end = fill_queue(m, own[2:], BATCH_AT)
    held = [int(held_until(m, own[1], BATCH_AT + late)) for late in (0, 1)]
    assert held == [BATCH_AT, pytest.approx(end, abs=1)]


@pytest.mark.ci
def test_while_an_atomic_waits_for_a_batch_of_writes_the_slice_serves_the_other_channel_at_half_its_rate() -> None:
    """bench.machine.atomic_misses ``dirty`` on H200: with one miss per 8 and per 4 additions, a batch of 32 costs 264 ns of its channel's time, about its length."""
    m = memory()
    own, beside = lines_of_a_channel(m, 120), lines_of_a_channel(m, 80, beside=True)

    def cycles_each(time: int) -> float:
        accepted = [int(accepted_at(m, line, time, 1, ONE_WORD)) for line in beside]
        return (accepted[-1] - accepted[0]) / (len(accepted) - 1)

    cycles_each(0)  # misses
    assert cycles_each(5_000) == pytest.approx(1.76, rel=0.05)
    end = fill_queue(m, own[1:], BATCH_AT)
    accepted_at(m, own[0], BATCH_AT + 5, 1, ONE_WORD)
    assert cycles_each(BATCH_AT + 10) == pytest.approx(2 * 1.76, rel=0.05)
    assert cycles_each(int(end) + 100) == pytest.approx(1.76, rel=0.05)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("sectors", "named", "card"), [(1, 1, 1.76), (1, 2, 2.43), (1, 8, 2.43), (2, 1, 3.64), (2, 8, 3.73), (4, 1, 6.09)]
)
def test_an_atomic_on_a_new_line_takes_a_turn_for_each_sector_and_one_more(
    sectors: int, named: int, card: float
) -> None:
    """bench.machine.atomic_misses ``several`` on H200: cycles of a slice for each request."""
    m = memory()
    lines = lines_of_a_channel(m, 40)
    for line in lines:
        accepted_at(m, line, 0, 4, passes_of(4, 1))
    times = sorted(int(accepted_at(m, line, 100_000, sectors, passes_of(sectors, named))) for line in lines)
    assert (times[-1] - times[0]) / (len(times) - 1) == pytest.approx(card, rel=0.07)
