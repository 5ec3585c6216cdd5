"""Kernels of several GPUs that run at once in simulated time: barriers over links, determinism, and waits that never end."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.native import intrinsics
from warpwright.timing import host_threads
from warpwright.tools.launch_tables import in_full_summary

SOURCE = """
// One thread of each GPU adds to a word of the first GPU's memory and polls it: a barrier of all of them.
extern "C" __global__ void meet(unsigned* word, unsigned gpus, int rounds, long long* clocks) {
    long long from = clock64();
    for (int round = 1; round <= rounds; round++) {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence_system();
            atomicAdd_system(word, 1u);
            while (*(volatile unsigned*)word < round * gpus);
            __threadfence_system();
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) clocks[0] = clock64() - from;
}
// Each GPU adds the neighbour's values of the step before to its own: a ring.
extern "C" __global__ void ring(unsigned* word, unsigned gpus, int* mine, const int* left, int n) {
    for (unsigned step = 1; step < gpus; step++) {
        int got = ((volatile const int*)left)[threadIdx.x + (step - 1) * n];
        mine[threadIdx.x + step * n] = got;
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence_system();
            atomicAdd_system(word, 1u);
            while (*(volatile unsigned*)word < step * gpus);
            __threadfence_system();
        }
        __syncthreads();
    }
    int sum = 0;
    for (unsigned step = 0; step < gpus; step++) sum += mine[threadIdx.x + step * n];
    mine[threadIdx.x] = sum;
}
// The same without a clock, which could end a wait.
extern "C" __global__ void wait_for(unsigned* word, unsigned count) {
    if (threadIdx.x == 0) {
        atomicAdd_system(word, 1u);
        while (*(volatile unsigned*)word < count);
    }
    __syncthreads();
}
// Each block reads its part of its GPU's values, stores it to the next GPU, and adds what came from the one before.
extern "C" __global__ void pass_on(const int4* own, int4* next, unsigned* raised, const int4* come, const unsigned* flags, int4* sums, int part) {
    int begin = blockIdx.x * part;
    for (int i = threadIdx.x; i < part; i += blockDim.x) next[begin + i] = own[begin + i];
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        ((volatile unsigned*)raised)[blockIdx.x] = 1;
        while (((volatile const unsigned*)flags)[blockIdx.x] == 0);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < part; i += blockDim.x) {
        int4 a = own[begin + i], b = __ldcg(come + begin + i);
        sums[begin + i] = make_int4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
    }
}
extern "C" __global__ void bad(int* p) { p[1 << 28] = 1; }
"""


def meeting(name: str, count: int, rounds: int, gpus: int | None = None, block: int = 32, **options: str) -> tuple[list[ww.Run], list[int]]:  # fmt: skip
    """Runs and clocks of ``count`` GPUs that meet; ``gpus``: how many each waits for."""
    node = ww.System(name, **options)
    word = node.gpus[0].zeros(1, np.uint32)
    clocks = [np.zeros(1, np.int64) for _ in range(count)]
    launches = []
    for number in range(count):
        if number:
            node.enable_peer_access(number, 0)
        kernel = node.gpus[number].compile(SOURCE)["meet"]
        arguments = (np.uint64(word.device_address()), np.uint32(gpus or count), np.int32(rounds), clocks[number])
        launches.append((kernel[1, block], arguments))
    runs = node.launch(*launches)
    assert word.numpy()[0] == count * rounds
    return runs, [int(c[0]) for c in clocks]


def test_gpus_meet_over_their_links_in_simulated_time() -> None:
    """A round takes the GPU that has the word less than a way there and back, and every other one at least that."""
    runs, clocks = meeting("p100x2-nvlink", 2, 8)
    per_ns = runs[0].sm_clock_mhz / 1000
    way = 698 * per_ns
    for one in clocks:
        assert 8 * way < one < 8 * 5 * way
    assert abs(clocks[0] - clocks[1]) < 2 * way
    assert all(run.timed and run.cycles > clock for run, clock in zip(runs, clocks, strict=True))


def test_the_same_launches_take_the_same_cycles_each_time() -> None:
    first, _ = meeting("dgx-1", 3, 3)
    second, _ = meeting("dgx-1", 3, 3)
    assert [run.cycles for run in first] == [run.cycles for run in second]


def test_with_sampled_timing_they_are_timed_in_full_and_say_so() -> None:
    runs, _ = meeting("p100x2-nvlink", 2, 3, timing="sampled")
    full, _ = meeting("p100x2-nvlink", 2, 3)
    assert [run.cycles for run in runs] == [run.cycles for run in full]
    assert in_full_summary(full) == []
    assert in_full_summary(runs) == [
        "timed in full, not sampled: meet (kernels of several GPUs that run at once are not sampled)"
    ]


def passing(threads: int = 1, gpus: int = 3) -> list[int]:
    """Cycles of GPUs that pass values around, each of which reads its own from DRAM."""
    node = ww.System("dgx-1", threads=threads)
    blocks, part = 24, 512
    count = blocks * part * 4
    used = node.gpus[:gpus]
    own = [gpu.array(np.arange(count, dtype=np.int32) * (rank + 1)) for rank, gpu in enumerate(used)]
    come, sums = ([gpu.zeros(count, np.int32) for gpu in used] for _ in range(2))
    flags = [gpu.zeros(blocks, np.uint32) for gpu in used]
    launches = []
    for rank, gpu in enumerate(used):
        following = (rank + 1) % gpus
        node.enable_peer_access(rank, following)
        there = [np.uint64(one[following].device_address()) for one in (come, flags)]
        arguments = (own[rank], *there, come[rank], flags[rank], sums[rank], np.int32(part))
        launches.append((gpu.compile(SOURCE)["pass_on"][blocks, 128], arguments))
    runs = node.launch(*launches)
    for rank in range(gpus):
        assert np.array_equal(sums[rank].numpy(), own[rank].numpy() + own[rank - 1].numpy())
    return [run.cycles for run in runs]


@pytest.mark.skipif(intrinsics.BOUNDSCHECK, reason="with checked indices one thread does all")
def test_the_number_of_host_threads_changes_no_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = passing()
    monkeypatch.setattr(host_threads, "cores", lambda: 3)
    seen: list[int] = []
    team = host_threads.device_helpers

    def watched(group: np.ndarray, threads: int) -> Any:
        found = team(group, threads)
        seen.append(threads)
        return found

    monkeypatch.setattr(host_threads, "device_helpers", watched)
    assert passing(threads=3) == alone
    assert passing(threads=2) == alone
    assert seen == [3, 2]


def test_another_machine_of_the_process_has_the_cycles_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is elsewhere, because that of the first one is still in use; lines have the same banks of DRAM and of L1's tags."""
    kept: list[ww.System] = []
    system = ww.System

    def keep(*args: Any, **options: Any) -> ww.System:
        kept.append(system(*args, **options))
        return kept[-1]

    monkeypatch.setattr(ww, "System", keep)
    assert passing() == passing()
    first, second = (one.gpus[1].memory for one in kept)
    assert first.base != second.base


@pytest.mark.ci
def test_another_process_has_the_same_cycles() -> None:
    program = "from tests.test_device_launches_at_once import passing; print(passing(), passing(threads=3))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split("\n")[0] == f"{passing()} {passing()}"


def test_a_slower_route_takes_longer() -> None:
    _, nvlink = meeting("p100x2-nvlink", 2, 4)
    _, bus = meeting("p100x2-pcie", 2, 4)
    assert bus[1] > nvlink[1]


def test_a_ring_of_gpus_sums_what_all_have() -> None:
    node = ww.System("h200x4", timing="off")
    n, gpus = 64, 4
    word = node.gpus[0].zeros(1, np.uint32)
    rows = [gpu.zeros(n * gpus, np.int32) for gpu in node.gpus]
    for number, row in enumerate(rows):
        row.numpy()[:n] = (number + 1) * np.arange(n)
    launches = []
    for number, gpu in enumerate(node.gpus):
        left = (number - 1) % gpus
        for other in {0, left} - {number}:
            node.enable_peer_access(number, other)
        arguments = (
            np.uint64(word.device_address()),
            np.uint32(gpus),
            rows[number],
            np.uint64(rows[left].device_address()),
            np.int32(n),
        )
        launches.append((gpu.compile(SOURCE)["ring"][1, n], arguments))
    runs = node.launch(*launches)
    assert not any(run.timed for run in runs)
    for row in rows:
        assert np.array_equal(row.numpy()[:n], 10 * np.arange(n))


@pytest.mark.ci
def test_a_barrier_that_a_gpu_does_not_come_to_is_a_deadlock_and_no_hang() -> None:
    """The second GPU's kernel is satisfied by two arrivals, and the first one's waits for three."""
    node = ww.System("p100x2-nvlink")
    node.enable_peer_access(1, 0)
    word = node.gpus[0].zeros(1, np.uint32)
    place = np.uint64(word.device_address())
    launches = [
        (gpu.compile(SOURCE)["wait_for"][1, 64], (place, np.uint32(count)))
        for gpu, count in zip(node.gpus, (3, 2), strict=True)
    ]
    with pytest.raises(ww.DeadlockError) as error:
        node.launch(*launches)
    assert "launches on 2 GPUs at once: this is GPU 0 of them; ended: 1; not ended: 0" in str(error.value)


def test_a_fault_on_one_gpu_names_it_and_gives_the_others_up() -> None:
    node = ww.System("p100x2-nvlink")
    word = node.gpus[0].zeros(1, np.uint32)
    clocks = np.zeros(1, np.int64)
    waits = node.gpus[0].compile(SOURCE)["meet"][1, 32], (word, np.uint32(2), np.int32(1), clocks)
    faults = node.gpus[1].compile(SOURCE)["bad"][1, 32], (node.gpus[1].zeros(4, np.int32),)
    with pytest.raises(ww.MemoryFaultError, match="this is GPU 1 of them; ended: none; not ended: 0, 1"):
        node.launch(waits, faults)


def test_what_cannot_run_beside_other_gpus_is_refused() -> None:
    node = ww.System("p100x2-nvlink")
    kernel = node.gpus[0].compile('extern "C" __global__ void says() { printf("x"); }')["says"]
    with pytest.raises(ww.UnsupportedError, match="says calls the driver"):
        node.launch((kernel[1, 1], ()))
    meet = node.gpus[0].compile(SOURCE)["meet"][1, 32]
    arguments = (node.gpus[0].zeros(1, np.uint32), np.uint32(1), np.int32(1), np.zeros(1, np.int64))
    with pytest.raises(ww.UnsupportedError, match="two of the launches are on the same GPU"):
        node.launch((meet, arguments), (meet, arguments))
