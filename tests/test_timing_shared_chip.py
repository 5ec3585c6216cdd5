"""Several launches on one chip: which blocks go where, who waits, and whose time it is (bench.machine.residency on an H200)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.arguments import pack
from warpwright.errors import DeadlockError
from warpwright.launch_groups import GroupError, Member, Timed, launch_group, launch_until_idle
from warpwright.timing.state import LoggedBlock

SOURCE = r"""
extern "C" __global__ void work(float *out, int rounds) {
    float a = threadIdx.x, b = 1, c = 2, d = 3;
    for (int i = 0; i < rounds; i++) { a = a * 1.01f + b; b = b * 1.01f + c; c = c * 1.01f + d; d = d * 1.01f + a; }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}
extern "C" __global__ void copy(const float4 *from, float4 *to, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] = from[i];
}
extern "C" __global__ void await(volatile int *flag, int *out) { while (*flag == 0); *out = *flag + 1; }
extern "C" __global__ void raise(volatile int *flag, int value) { *flag = value; }
"""
WHOLE_SM = 200 << 10
SMS = 132
ROUNDS = 100


@cache
def gpu() -> ww.GPU:
    return ww.GPU("h200", threads=1)


@cache
def module() -> Any:
    return gpu().compile(SOURCE)


def member(name: str, grid: int, block: int, args: tuple[Any, ...], shared: int = 0, **how: Any) -> Member:
    kernel = module()[name]
    packed = pack(kernel.parameters, name, args, gpu().memory)
    return Member(kernel[grid, block, shared], bytes(packed.parameters), **how)


def work(blocks: int, threads: int = 256, shared: int = 0, rounds: int = ROUNDS, **how: Any) -> Member:
    out = gpu().zeros(blocks * threads, np.float32)
    kept.append(out)
    return member("work", blocks, threads, (out, np.int32(rounds)), shared, **how)


kept: list[Any] = []


def placed(one: Timed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """SM, start and end of a launch's blocks."""
    log = one.run._timed("blocks").blocks
    return log[:, LoggedBlock.sm], log[:, LoggedBlock.start], log[:, LoggedBlock.end]


def test_kernels_that_fill_half_the_chip_each_run_side_by_side_on_their_own_sms() -> None:
    alone = launch_group([work(66, shared=WHOLE_SM)])[0]
    one, other = launch_group([work(66, shared=WHOLE_SM), work(66, shared=WHOLE_SM)])
    assert not set(placed(one)[0]) & set(placed(other)[0])
    assert max(one.end_seconds, other.end_seconds) < 1.05 * alone.end_seconds
    assert one.run.instructions == other.run.instructions == alone.run.instructions


def test_a_kernel_that_needs_whole_sms_waits_for_those_of_the_one_before() -> None:
    one, other = launch_group([work(SMS, shared=WHOLE_SM), work(SMS, shared=WHOLE_SM)])
    assert placed(other)[1].min() >= placed(one)[2].min()
    assert other.end_seconds > one.end_seconds


def test_blocks_of_two_kernels_share_an_sm_and_its_pipes() -> None:
    alone = launch_group([work(SMS, 1024, rounds=200)])[0]
    one, other = launch_group([work(SMS, 1024, rounds=200), work(SMS, 1024, rounds=200)])
    busy = alone.end_seconds - placed(alone)[1].min() / 1.98e9
    assert set(placed(one)[0]) == set(placed(other)[0])
    assert other.end_seconds > alone.end_seconds + 0.6 * busy


def test_an_sm_in_use_takes_no_block_that_an_idle_one_would_be_set_up_higher_for() -> None:
    small, large = launch_group([work(SMS, 128), work(SMS, 128, shared=100 << 10)])
    for sm in set(placed(large)[0]):
        ends = placed(small)[2][placed(small)[0] == sm]
        assert placed(large)[1][placed(large)[0] == sm].min() >= ends.max()
    large, small = launch_group([work(SMS, 128, shared=100 << 10), work(SMS, 128)])
    assert placed(small)[1].max() < placed(large)[2].min()


def test_nobody_passes_a_kernel_that_has_blocks_left() -> None:
    waves, small = launch_group([work(4 * SMS, 1024, WHOLE_SM), work(16, 32)])
    assert placed(small)[1].min() >= placed(waves)[1].max()


def test_blocks_of_a_higher_priority_go_first() -> None:
    waves, urgent = launch_group([work(4 * SMS, 1024, WHOLE_SM), work(16, 1024, WHOLE_SM, priority=-5)])
    assert placed(urgent)[1].min() < np.sort(placed(waves)[1])[2 * SMS]


def test_the_next_kernels_blocks_go_where_the_most_room_is() -> None:
    _, other = launch_group([work(66, 512, rounds=400), work(264, 256)])
    counts = np.bincount(placed(other)[0], minlength=SMS)
    assert sorted(counts.tolist()) == [1] * 66 + [3] * 66


def test_a_launch_that_waits_for_another_begins_when_that_has_ended() -> None:
    one, other = launch_group([work(SMS), work(SMS, after=(0,), gap_seconds=1e-6)])
    assert other.begin_seconds == pytest.approx(one.end_seconds + 1e-6, abs=2e-9)


def test_each_launch_that_one_waits_for_has_a_delay_of_its_own_and_none_begins_before_its_earliest_time() -> None:
    group = [
        work(SMS),
        work(SMS, rounds=3 * ROUNDS),
        work(1, after=(0, 1), delays_seconds=(50e-6, 1e-6)),
        work(1, after=(1,), delays_seconds=(1e-6,), earliest_seconds=90e-6),
    ]
    first, second, after_both, late = launch_group(group)
    assert first.end_seconds < second.end_seconds < first.end_seconds + 49e-6
    assert after_both.begin_seconds == pytest.approx(first.end_seconds + 50e-6, abs=2e-9)
    assert late.begin_seconds == pytest.approx(90e-6, abs=2e-9)


def test_the_machine_ends_when_the_chip_is_idle_and_a_launch_that_ran_alone_in_it_has_all_its_counters() -> None:
    group = [work(SMS), work(SMS, earliest_seconds=1e-3), work(1, after=(1,), delays_seconds=(2e-6,))]
    # The same launch: how many sectors its stores take depends on where its array is.
    alone = launch_group(group[:1])[0].run
    first, second, third = launch_until_idle(group)
    assert (second, third) == (None, None)
    assert first is not None
    assert first.run.cycles == pytest.approx(alone.cycles, rel=0.01)
    assert not first.run.shared
    assert first.run.metrics.keys() == alone.metrics.keys()
    traffic = "lts__t_sectors.sum"
    assert first.run.metrics[traffic] == pytest.approx(alone.metrics[traffic], rel=0.01)
    every = launch_group(group)
    assert every[1].begin_seconds == pytest.approx(1e-3, abs=2e-9)
    assert every[2].begin_seconds == pytest.approx(every[1].end_seconds + 2e-6, abs=2e-9)
    assert [one.run.shared for one in every] == [False, False, False]


def test_memory_bound_kernels_take_bandwidth_from_each_other() -> None:
    count = 1 << 18
    buffers = [gpu().array(np.arange(4 * count, dtype=np.float32) + i) for i in range(2)]
    results = [gpu().zeros(4 * count, np.float32) for _ in range(2)]
    both = [member("copy", 66, 1024, (a, b, np.int32(count)), WHOLE_SM) for a, b in zip(buffers, results, strict=True)]
    alone = launch_group(both[:1])[0]
    one, other = launch_group(both)
    assert max(one.end_seconds, other.end_seconds) > 1.1 * alone.end_seconds
    for source, result in zip(buffers, results, strict=True):
        np.testing.assert_array_equal(source.get(), result.get())


def test_a_kernel_that_waits_for_another_ones_store_goes_on() -> None:
    flag, out = gpu().zeros(1, np.int32), gpu().zeros(1, np.int32)
    launch_group([member("await", 1, 32, (flag, out)), member("raise", 1, 1, (flag, np.int32(41)))])
    assert out.get()[0] == 42


@pytest.mark.ci
def test_kernels_that_wait_for_each_other_in_vain_are_a_deadlock() -> None:
    flags, out = gpu().zeros(2, np.int32), gpu().zeros(1, np.int32)
    with pytest.raises(GroupError) as failure:
        launch_group([member("await", 1, 32, (flags, out)), member("raise", 1, 1, (flags, np.int32(1)), after=(0,))])
    assert failure.value.place == 0
    assert isinstance(failure.value.error, DeadlockError)


def test_any_number_of_host_threads_gives_the_same_times() -> None:
    group = [work(2 * SMS, 512), work(SMS, 128, shared=50 << 10), work(16, 1024, WHOLE_SM, priority=-1)]
    times = []
    for threads in (1, 2):
        gpu().threads = threads
        times.append([(one.begin_seconds, one.end_seconds) for one in launch_group(group)])
    gpu().threads = 1
    assert times[0] == times[1]
