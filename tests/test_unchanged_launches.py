"""Launches of unmodified programs that would leave memory as it is are not executed again."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.timing import unchanged_launches

SOURCE = """
#include <cooperative_groups.h>
extern "C" __global__ void clocks(long long* out, const int* turns) {
    long long begin = clock64();
    float x = threadIdx.x;
    for (int n = 0; n < *turns; n++) x = x * 0.5f + 1;
    out[threadIdx.x] = clock64() - begin + (x < 0);
}
extern "C" __global__ void spans(int* out, const int* turns) {
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    float x = threadIdx.x;
    for (int n = 0; n < *turns; n++) x = x * 0.5f + 1;
    if (threadIdx.x == 0) out[blockIdx.x] = x + (now == 1);
}
extern "C" __global__ void stamps(int* out) {
    int begin = clock();
    float x = threadIdx.x;
    for (int n = 0; n < 50; n++) x = x * 0.5f + 1;
    out[threadIdx.x] = clock() - begin + (x < 0);
}
extern "C" __global__ void halves(int* out) { out[threadIdx.x] /= 2; }
extern "C" __global__ void moves(int* out, const int* in) { out[threadIdx.x + 256] = __ldg(in + threadIdx.x) + (int)clock() * 0; }
extern "C" __global__ void follows(int* out) {
    int begin = clock();
    out[threadIdx.x] = clock() - begin;
    if (threadIdx.x == 0) out[300] = *(volatile int*)(out + 256) + 1;
}
extern "C" __global__ void adds(int* out) { atomicAdd(out, 1); }
extern "C" __global__ void meets(int* out) {
    cooperative_groups::this_grid().sync();
    out[blockIdx.x] = blockIdx.x;
}
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ww.Module:
    """Of a GPU as the driver makes one, but with cold caches; launches of any length are worth a digest."""
    monkeypatch.setattr(unchanged_launches, "LEAST_SECONDS", 0)
    monkeypatch.setattr(unchanged_launches, "BYTES_PER_SECOND", 1e15)
    return ww.GPU("v100", device=0, caches="cold").compile(SOURCE)


@pytest.mark.ci
def test_a_launch_after_one_that_read_nothing_of_what_it_changed_is_not_executed(module: ww.Module) -> None:
    out, turns = module.gpu.array(np.zeros(32, np.int64)), module.gpu.array(np.full(1, 5, np.int32))
    runs = [module["clocks"][1, 32](out, turns) for _ in range(4)]
    # It has read the number of turns, and the times have changed.
    assert [run.repeated for run in runs] == [False, True, True, True]
    assert [run.cycles for run in runs] == [runs[0].cycles] * 4
    assert runs[3].instructions == runs[0].instructions


@pytest.mark.ci
@pytest.mark.parametrize("caches", ["cold", "kept"])
def test_sampled_launches_that_change_nothing_are_not_executed_but_those_on_another_array_are(
    monkeypatch: pytest.MonkeyPatch, caches: str
) -> None:
    monkeypatch.setattr(unchanged_launches, "LEAST_SECONDS", 0)
    monkeypatch.setattr(unchanged_launches, "BYTES_PER_SECOND", 1e15)
    gpu = ww.GPU("v100", device=0, caches=caches, timing="sampled")
    kernel, turns = gpu.compile(SOURCE)["spans"], gpu.array(np.full(1, 5, np.int32))
    blocks = 8000
    one, other = (gpu.array(np.zeros(blocks, np.int32)) for _ in range(2))
    runs = [kernel[blocks, 32](one, turns) for _ in range(6)]
    assert runs[0].sampling is not None
    # What the untimed blocks have read is not known.
    assert [run.repeated for run in runs] == [False, False, True, True, True, True]
    assert runs[5].cycles == runs[1].cycles
    assert runs[5].sampling == runs[1].sampling
    found = one.numpy()
    assert not kernel[blocks, 32](other, turns).repeated
    assert (other.numpy() == found).all()


@pytest.mark.ci
def test_with_kept_caches_the_fourth_of_equal_launches_is_not_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third is the first that finds the caches as two equal launches leave them."""
    monkeypatch.setattr(unchanged_launches, "LEAST_SECONDS", 0)
    monkeypatch.setattr(unchanged_launches, "BYTES_PER_SECOND", 1e15)
    module = ww.GPU("v100", device=0, caches="kept").compile(SOURCE)
    out, turns = module.gpu.array(np.zeros(32, np.int64)), module.gpu.array(np.full(1, 5, np.int32))
    runs = [module["clocks"][1, 32](out, turns) for _ in range(5)]
    assert [run.repeated for run in runs] == [False, False, False, True, True]
    assert [run.cycles for run in runs[3:]] == [runs[2].cycles] * 2


@pytest.mark.ci
def test_a_launch_that_reads_what_it_changed_is_executed_until_nothing_changes(module: ww.Module) -> None:
    out = module.gpu.array(np.full(32, 5, np.int32))
    runs = [module["halves"][1, 32](out) for _ in range(6)]
    # 5, 2, 1 and 0; the fourth launch has found 0 and left it.
    assert [run.repeated for run in runs] == [False, False, False, False, True, True]
    assert not out.numpy().any()


@pytest.mark.ci
def test_reads_are_known_by_pieces_of_512_bytes(module: ww.Module) -> None:
    out = module.gpu.array(np.arange(512, dtype=np.int32))
    kernel = module["moves"]
    # The launch writes 1,024 bytes after what it reads, and then into the same piece.
    assert [kernel[1, 32](out, out).repeated for _ in range(2)] == [False, True]
    assert (out.numpy()[256:288] == np.arange(32)).all()
    beside = out.device_address() + 1024 + 256
    assert [kernel[1, 32](out, beside).repeated for _ in range(3)] == [False, False, True]
    assert (out.numpy()[256:288] == np.arange(320, 352)).all()


@pytest.mark.ci
def test_strong_loads_count_as_having_read_everything(module: ww.Module) -> None:
    out = module.gpu.array(np.zeros(512, np.int32))
    runs = [module["follows"][1, 32](out) for _ in range(3)]
    assert [run.repeated for run in runs] == [False, False, True]


def test_a_launch_that_finds_other_memory_is_executed(module: ww.Module) -> None:
    out, turns = module.gpu.array(np.zeros(32, np.int64)), module.gpu.array(np.full(1, 5, np.int32))
    for _ in range(3):
        few = module["clocks"][1, 32](out, turns)
    before = out.numpy().copy()
    turns.set(np.full(1, 50, np.int32))
    many = module["clocks"][1, 32](out, turns)
    assert not many.repeated
    assert many.cycles > few.cycles
    assert (out.numpy() > before).all()


@pytest.mark.ci
def test_a_launch_that_reads_nothing_needs_to_find_only_what_the_last_one_left(module: ww.Module) -> None:
    out = module.gpu.array(np.zeros(32, np.int32))
    stamps = module["stamps"]
    stamps[1, 32](out)
    left = out.numpy().copy()
    out.set(np.zeros(32, np.int32))
    # The second launch changes memory; only a kernel that reads memory could do something else in the third.
    assert [stamps[1, 32](out).repeated for _ in range(2)] == [False, True]
    assert (out.numpy() == left).all()
    out.set(np.zeros(32, np.int32))
    assert not stamps[1, 32](out).repeated
    assert (out.numpy() == left).all()


def test_a_launch_that_changes_memory_each_time_is_always_executed(module: ww.Module) -> None:
    out = module.gpu.array(np.zeros(1, np.int32))
    assert not any(module["adds"][1, 32](out).repeated for _ in range(5))
    assert out.numpy()[0] == 5 * 32


def test_the_workspace_of_a_grid_barrier_is_no_memory_of_the_program(module: ww.Module) -> None:
    out = module.gpu.array(np.zeros(4, np.int32))
    assert [module["meets"][4, 32](out).repeated for _ in range(3)] == [False, False, True]


def test_memory_of_the_host_is_not_judged(module: ww.Module) -> None:
    host = np.zeros(4096, np.uint8)
    module.gpu.memory.map(host.ctypes.data, host.nbytes, "host")
    out, turns = module.gpu.array(np.zeros(32, np.int64)), module.gpu.array(np.full(1, 5, np.int32))
    assert not any(module["clocks"][1, 32](out, turns).repeated for _ in range(4))


def test_a_launch_on_two_devices_is_judged_by_the_memory_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unchanged_launches, "LEAST_SECONDS", 0)
    monkeypatch.setattr(unchanged_launches, "BYTES_PER_SECOND", 1e15)
    node = ww.System("dgx-1", caches="cold")
    arrays, kernels = [], []
    for number, gpu in enumerate(node.gpus[:2]):
        gpu._remember(number)
        kernels.append(gpu.compile(SOURCE)["clocks"])
        arrays.append((gpu.array(np.zeros(32, np.int64)), gpu.array(np.full(1, 5, np.int32))))

    def launch() -> list[ww.Run]:
        return node.launch(*((kernel[1, 32], pair) for kernel, pair in zip(kernels, arrays, strict=True)))

    runs = [launch() for _ in range(3)]
    assert [[run.repeated for run in pair] for pair in runs] == [[False, False], [False, False], [True, True]]
    assert [run.cycles for run in runs[2]] == [run.cycles for run in runs[1]]
    arrays[1][1].set(np.full(1, 50, np.int32))
    first, second = launch()
    assert not first.repeated
    assert second.cycles > runs[2][1].cycles
