"""Managed memory larger than a GPU's: regions served least recently leave it for the host, in launches, for prefetches and for allocations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_driver_devices import right
from tests.test_managed_pages import GPU0, GPU1, PAGE, Machine, microseconds, needs_page_map
from warpwright.engine.managed_pages import (
    NOWHERE,
    ON_HOST,
    PG_COPIES,
    PG_HOSTED,
    PG_PLACE,
    PG_USED,
    PageTable,
    processor_of,
)

REGION = 32  # pages


@pytest.fixture(scope="module")
def shared() -> Machine:
    return Machine()


class Clocks:
    """Cycles of reads, in memory that the device has before it is full."""

    def __init__(self, two: Machine) -> None:
        self.arrays = [gpu.zeros(4 * REGION, np.int32) for gpu in two.node.gpus]

    def touch(self, two: Machine, gpu: int, table: PageTable, first: int, count: int) -> tuple[ww.Run, list[int]]:
        """One thread of a GPU reads a word of each of some pages."""
        at = np.uint64(table.address + first * PAGE)
        run = two.kernels[gpu]["touch"][1, 1](at, np.int64(PAGE), np.int32(count), self.arrays[gpu])
        return run, self.arrays[gpu].numpy()[:count].tolist()


@pytest.fixture(scope="module")
def clocks(shared: Machine) -> Clocks:
    return Clocks(shared)


@pytest.fixture
def two(shared: Machine) -> Any:
    shared.costs()
    managed = shared.node.gpus[0].memory.managed
    assert managed is not None
    kept = dict(managed.free_bytes)
    yield shared
    managed.free_bytes |= kept
    for made in shared.made:
        shared.node.gpus[0].memory.free(made)
    shared.made.clear()


def limit(two: Machine, pages: int) -> Any:
    """Let GPU 0 have room for so many managed pages."""
    managed = two.node.gpus[0].memory.managed
    assert managed is not None
    managed.free_bytes[GPU0] = lambda: pages * PAGE
    return managed


def filled(two: Machine, order: list[int], hosted: int = 1) -> PageTable:
    """Regions that GPU 0 has, served in this order, and one more of the host's."""
    table = two.pages((len(order) + 1) * REGION, ON_HOST)
    table.words[:, PG_HOSTED] = hosted
    managed = two.node.gpus[0].memory.managed
    assert managed is not None
    for region in order:
        table.words[region * REGION : (region + 1) * REGION, PG_PLACE] = GPU0
        managed.use(table, table.address + region * REGION * PAGE, PAGE)
    return table


def regions(table: PageTable) -> list[int]:
    """How many pages of each region GPU 0 has."""
    return table.at(GPU0).reshape(-1, REGION).sum(axis=1).tolist()


@pytest.mark.parametrize(("room", "evicted"), [(97, 0), (96, 1)])
def test_a_full_gpu_lets_the_region_go_that_was_served_least_recently(
    two: Machine, clocks: Clocks, room: int, evicted: int
) -> None:
    two.costs(prefetch_percent=100)
    limit(two, room)
    table = filled(two, [1, 0, 2])
    run, full = clocks.touch(two, 0, table, 3 * REGION, 1)
    assert run.metrics["uvm__regions_evicted.sum"] == evicted
    assert run.metrics["uvm__pages_evicted.sum"] == REGION * evicted
    assert regions(table) == [REGION, 0 if evicted else REGION, REGION, 1]
    assert table.places()[REGION : 2 * REGION].tolist() == [ON_HOST if evicted else GPU0] * REGION
    # The copy of what leaves comes before that of what comes.
    limit(two, 1000)
    free = clocks.touch(two, 0, filled(two, [1, 0, 2]), 3 * REGION, 1)[1]
    migration = two.node.gpus[0].memory.migration
    assert migration is not None
    longer = migration.costs.evict_region_us + REGION * PAGE / migration.copy_gb_per_s[ON_HOST] / 1e3
    assert microseconds(two, full[0] - free[0]) == pytest.approx(evicted * longer, abs=0.5)


def test_a_pass_over_twice_as_much_memory_evicts_and_loses_nothing(two: Machine, clocks: Clocks) -> None:
    limit(two, 2 * REGION)
    table = two.pages(4 * REGION, NOWHERE)
    at = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_int32 * (table.size_bytes // 4)).from_address(table.address))
    at[:: PAGE // 4] = np.arange(4 * REGION)
    managed = two.node.gpus[0].memory.managed
    assert managed is not None
    managed.note_touches()
    managed.host = type(managed.host)()
    runs = [clocks.touch(two, 0, table, 0, 4 * REGION)[0] for _ in range(2)]
    # Each pass finds the end of the one before, and what it needs next has just left.
    assert [run.metrics["uvm__regions_evicted.sum"] for run in runs] == [2, 4]
    assert regions(table) == [0, 0, REGION, REGION]
    assert at[:: PAGE // 4].tolist() == list(range(4 * REGION))


def test_copies_leave_without_a_copy(two: Machine, clocks: Clocks) -> None:
    two.costs(prefetch_percent=100)
    table = filled(two, [0, 1])
    table.words[:REGION, PG_COPIES] = 1 << GPU0 | 1 << ON_HOST
    table.words[:REGION, PG_PLACE] = ON_HOST
    limit(two, 2 * REGION)
    with_copies = clocks.touch(two, 0, table, 2 * REGION, 1)[1][0]
    assert table.words[:REGION, PG_COPIES].tolist() == [0] * REGION
    two.node.gpus[0].memory.free(two.made.pop())
    limit(two, 2 * REGION)
    without = clocks.touch(two, 0, filled(two, [0, 1]), 2 * REGION, 1)[1][0]
    migration = two.node.gpus[0].memory.migration
    assert migration is not None
    saved = REGION * PAGE / migration.copy_gb_per_s[ON_HOST] / 1e3
    assert microseconds(two, without - with_copies) == pytest.approx(saved, abs=0.5)


def test_pages_that_the_host_never_had_take_longer_to_leave_and_only_once(two: Machine, clocks: Clocks) -> None:
    two.costs(prefetch_percent=100)
    took = []
    for hosted in (1, 0):
        limit(two, 2 * REGION)
        table = filled(two, [0, 1], hosted)
        took.append(clocks.touch(two, 0, table, 2 * REGION, 1)[1][0])
        assert table.words[:REGION, PG_HOSTED].tolist() == [1] * REGION
        assert table.words[REGION : 2 * REGION, PG_HOSTED].tolist() == [hosted] * REGION
        two.node.gpus[0].memory.free(two.made.pop())
    migration = two.node.gpus[0].memory.migration
    assert migration is not None
    more = REGION * migration.costs.evict_new_page_us
    assert microseconds(two, took[1] - took[0]) == pytest.approx(more, abs=0.5)


def test_pages_that_another_gpu_takes_make_room(two: Machine, clocks: Clocks) -> None:
    two.costs(prefetch_percent=100)
    managed = limit(two, REGION + 1)
    table = filled(two, [0])
    clocks.touch(two, 1, table, 0, 4)
    assert managed.room[GPU1] > 1 << 10
    assert managed.room_of(GPU0) == 5
    run = clocks.touch(two, 0, table, REGION, 5)[0]
    assert run.metrics["uvm__regions_evicted.sum"] == 0
    run = clocks.touch(two, 0, table, REGION + 5, 1)[0]
    assert run.metrics["uvm__regions_evicted.sum"] == 1


def test_prefetches_and_allocations_let_regions_go(two: Machine) -> None:
    managed = limit(two, 3 * REGION)
    table = filled(two, [2, 0, 1])
    managed.host = type(managed.host)()
    managed.bring(table, table.address + 3 * REGION * PAGE, REGION * PAGE, GPU0)
    assert regions(table) == [REGION, REGION, 0, REGION]
    assert (managed.host.evicted_regions, managed.host.evicted_bytes) == (1, {GPU0: REGION * PAGE})
    # A range of more than the GPU has keeps its end there.
    managed.bring(table, table.address, table.size_bytes, GPU0)
    assert sum(regions(table)) <= 3 * REGION
    assert regions(table)[-1] == REGION
    assert managed.make_room(GPU0, 2 * REGION)
    assert sum(regions(table)) <= REGION
    assert not managed.make_room(GPU0, 4 * REGION)
    assert table.words[0, PG_USED] > 0


PROGRAM = """
from warpwright.driver.driver_state import state
from warpwright.engine.managed_pages import ON_HOST
MIB = 1 << 20
on(0)
free, total = ctypes.c_uint64(), ctypes.c_uint64()
def info():
    cuda("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value
before, whole = info()
assert whole == 64 * MIB, whole
x, y = ctypes.c_uint64(), ctypes.c_uint64()
cuda("cuMemAllocManaged", ctypes.byref(x), 96 * MIB, 1)  # more than the device has
assert info()[0] == before
first = cuda.microseconds(lambda: cuda("cuMemPrefetchAsync", x.value, 32 * MIB, 0, 0))
assert info()[0] == before - 32 * MIB
table = state().managed.tables[x.value]
again = cuda.microseconds(lambda: cuda("cuMemPrefetchAsync", x.value + 40 * MIB, 40 * MIB, 0, 0))
assert again > first + 100, (first, again)  # evicts
here = int(table.at(2).sum()) * table.page_bytes
assert 32 * MIB < here <= before, (here, before)
assert info()[0] == before - here, (info(), before, here)
host = state().host_time.ps
cuda("cuMemAlloc_v2", ctypes.byref(y), 40 * MIB)
left = int(table.at(2).sum()) * table.page_bytes
assert left <= before - 40 * MIB and left < here, (left, here, before)
assert (table.places() == ON_HOST).any()
state().host_touches()
assert state().host_time.ps > host
assert cuda.raw("cuMemAlloc_v2", ctypes.byref(y), 32 * MIB) == 2
print("right")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
@needs_page_map
def test_a_program_uses_more_managed_memory_than_its_device_has(tmp_path: Path) -> None:
    chip, machine = tmp_path / "small.toml", tmp_path / "pair.toml"
    chip.write_text('base = "p100"\nname = "small"\n[dram]\ndram_kib = 65536\n', encoding="utf-8")
    machine.write_text(f'base = "p100x2-nvlink"\ngpus = ["{chip}", "{chip}"]\n', encoding="utf-8")
    assert right(PROGRAM, "", WARPWRIGHT_SYSTEM=str(machine), WARPWRIGHT_TIMING="full").strip() == "right"


def test_a_gpu_refuses_more_than_its_memory_and_takes_managed_memory_beyond(tmp_path: Path) -> None:
    chip, machine = tmp_path / "small.toml", tmp_path / "pair.toml"
    chip.write_text('base = "p100"\nname = "small"\n[dram]\ndram_kib = 65536\n', encoding="utf-8")
    machine.write_text(f'base = "p100x2-nvlink"\ngpus = ["{chip}", "{chip}"]\n', encoding="utf-8")
    node = ww.System(str(machine))
    with pytest.raises(ww.OutOfMemoryError, match=r"needs 65\.0 MiB"):
        node.gpus[0].zeros(65 << 20, np.uint8)
    assert node.gpus[0].memory.capacity_bytes == 64 << 20
    managed = node.gpus[0].memory.managed
    assert managed is not None
    assert managed.room_of(processor_of(0)) == (64 << 20) // PAGE - node.gpus[0].memory.used_bytes // PAGE
