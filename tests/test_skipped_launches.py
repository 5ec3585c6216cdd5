"""A program whose repeated launches are skipped leaves the same memory, and takes the same cycles, as if all were executed."""

from __future__ import annotations

import random

import numpy as np
import pytest

import warpwright as ww
from warpwright.timing import unchanged_launches
from warpwright.tools.launch_tables import launch_columns, repeats_summary

SOURCE = """
extern "C" __global__ void stamps(int* a, int* b) { int begin = clock(); a[threadIdx.x] = begin; a[threadIdx.x + 64] = clock() - begin; }
extern "C" __global__ void copies(int* a, int* b) { a[threadIdx.x] = b[threadIdx.x + 64]; }
extern "C" __global__ void within(int* a, int* b) { a[threadIdx.x] = a[threadIdx.x + 64] / 2; }
extern "C" __global__ void far(int* a, int* b) { a[threadIdx.x + 256] = a[threadIdx.x] + 1; }
extern "C" __global__ void halves(int* a, int* b) { a[threadIdx.x] /= 2; }
extern "C" __global__ void gathers(int* a, int* b) { a[threadIdx.x] = a[256 + (b[threadIdx.x] & 127)]; }
extern "C" __global__ void most(int* a, int* b) { atomicMax(a + threadIdx.x, b[threadIdx.x]); }
extern "C" __global__ void sums(int* a, int* b) { atomicAdd(a, 1); }
extern "C" __global__ void strong(int* a, int* b) { a[threadIdx.x] = *(volatile int*)(b + threadIdx.x + 64); }
extern "C" __global__ void waits(int* a, int* b) {
    __shared__ int part[32];
    part[threadIdx.x] = b[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = part[31 - threadIdx.x] + (int)clock() * 0;
}
"""
KERNELS = ("stamps", "copies", "within", "far", "halves", "gathers", "most", "sums", "strong", "waits")
WORDS = 384


class Machine:
    """A GPU as the driver makes one, and three arrays."""

    def __init__(self, caches: str) -> None:
        self.gpu = ww.GPU("v100", device=0, caches=caches)
        self.module = self.gpu.compile(SOURCE)
        self.arrays = [self.gpu.array(np.arange(WORDS, dtype=np.int32) * n) for n in (1, 3, 7)]

    def step(self, what: tuple[str, int, int]) -> ww.Run | None:
        name, one, other = what
        if name == "write":
            self.arrays[one].set(np.arange(WORDS, dtype=np.int32) * (1 + other))
            return None
        return self.module[name][1, 32](self.arrays[one], self.arrays[other])

    def memory(self) -> list[list[int]]:
        return [array.get().tolist() for array in self.arrays]


def program(seed: int) -> list[tuple[str, int, int]]:
    """Launches in bursts, as a benchmark makes them, some of them alternating, and writes of the host between."""
    chance = random.Random(seed)
    found: list[tuple[str, int, int]] = []
    while len(found) < 60:
        steps = [
            (chance.choice(KERNELS), chance.randrange(3), chance.randrange(3)) for _ in range(chance.choice((1, 1, 2)))
        ]
        found += steps * chance.randrange(1, 7)
        if chance.random() < 0.4:
            found.append(("write", chance.randrange(3), chance.randrange(3)))
    return found


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(4))
def test_skipped_launches_change_neither_memory_nor_cycles(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unchanged_launches, "LEAST_SECONDS", 0)
    monkeypatch.setattr(unchanged_launches, "BYTES_PER_SECOND", 1e15)
    skipping, executing = Machine("cold"), Machine("cold")
    executing.gpu.repeats = None
    skipped = 0
    for number, what in enumerate(program(seed)):
        run, expected = skipping.step(what), executing.step(what)
        assert skipping.memory() == executing.memory(), (number, what)
        if run is not None and expected is not None:
            assert (run.cycles, run.instructions) == (expected.cycles, expected.instructions), (number, what)
            skipped += run.skipped
    assert skipped >= 10


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(4, 6))
def test_with_kept_caches_only_clocks_may_differ(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unchanged_launches, "LEAST_SECONDS", 0)
    monkeypatch.setattr(unchanged_launches, "BYTES_PER_SECOND", 1e15)
    skipping, executing = Machine("kept"), Machine("kept")
    executing.gpu.repeats = None
    steps = [what for what in program(seed) if what[0] != "stamps"]
    skipped = 0
    for number, what in enumerate(steps):
        run = skipping.step(what)
        executing.step(what)
        assert skipping.memory() == executing.memory(), (number, what)
        skipped += run is not None and run.repeated
    assert skipped >= 3


def test_the_table_tells_skipped_launches_from_executed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unchanged_launches, "LEAST_SECONDS", 0)
    monkeypatch.setattr(unchanged_launches, "BYTES_PER_SECOND", 1e15)
    machine = Machine("cold")
    steps = [("within", 0, 0)] * 4 + [("sums", 0, 0)] * 3
    runs = [run for what in steps if (run := machine.step(what)) is not None]
    skipped = [run.skipped for run in runs]
    assert 0 < sum(skipped) == sum(run.repeated for run in runs)
    assert not any(skipped[4:])
    column = next(column for column in launch_columns(runs) if column.heading == "simulated")
    assert [cell == "skipped" for cell in column.cells] == skipped
    assert [run.to_dict()["skipped"] for run in runs] == skipped
    told = f"of 7 launches repeat an earlier one and reuse its time: {sum(skipped)} were skipped, because they would leave memory as it is"
    assert repeats_summary(runs) == f"{sum(skipped)} {told}"
    runs[-1].repeated = True
    assert repeats_summary(runs) == f"{sum(skipped) + 1} {told}; 1 executed for the results"
    assert (
        repeats_summary(runs[4:])
        == "1 of 3 launches repeat an earlier one and reuse its time; each was executed for its results"
    )
    assert repeats_summary(runs[:1]) == ""
