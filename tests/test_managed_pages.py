"""Managed memory whose pages move between the host and the GPUs of a machine: faults, regions, batches, advice, access counters, the host's touches."""

from __future__ import annotations

import dataclasses
import mmap
import os
import sys
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_driver_devices import right
from tests.touch_kernel import TOUCH
from warpwright.engine.abi import MIGRATES
from warpwright.engine.allocation import Allocation
from warpwright.engine.host_touches import HostTouches, can_see_touches
from warpwright.engine.managed_pages import (
    NOWHERE,
    ON_HOST,
    PG_COPIES,
    PG_MAPPED,
    PG_PLACE,
    MigrationCosts,
    PageTable,
    bytes_by_processor,
    region_of,
)
from warpwright.run import Run
from warpwright.system import load_machine, migration_of

GPU0, GPU1 = 2, 3
PAGE = 64 << 10
SOURCE = (
    TOUCH
    + """
extern "C" __global__ void put(char *p, long long step)
{
    *(volatile int *)(p + blockIdx.x * step) = 1;
}
extern "C" __global__ void apart(char *p, long long step, int idle, int *cycles)
{
    for (int i = 0; i < 2; i++) {
        long long begin = clock64();
        int v = *(volatile int *)(p + i * step);
        if (v == 12345) cycles[0] = v;
        long long end = clock64();
        cycles[i] = (int)(end - begin);
        while (clock64() < end + idle) {}
    }
}
extern "C" __global__ void look_twice(char *p, long long step, long long page, int *out)
{
    int v = *(volatile int *)(p + blockIdx.x * step);
    if (v == 12345) out[0] = v;
    if (blockIdx.x == 0) v += *(volatile int *)(p + page + v * 0);
    if (v == 12345) out[0] = v;
}
extern "C" __global__ void look(char *p, long long step, int *out)
{
    int v = *(volatile int *)(p + blockIdx.x * step);
    if (v == 12345) out[0] = v;
}
"""
)


class Machine:
    """Two P100 and an allocation of managed memory of theirs."""

    def __init__(self, threads: int = 1) -> None:
        self.node = ww.System("p100x2-nvlink", threads=threads)
        self.kernels = [gpu.compile(SOURCE) for gpu in self.node.gpus]
        self.original = [gpu.memory.migration for gpu in self.node.gpus]
        self.made: list[Allocation] = []

    def pages(self, count: int, place: int) -> PageTable:
        """Managed memory of so many pages, all with one processor."""
        memory = self.node.gpus[0].memory
        made = memory.allocate(count * PAGE, "managed memory", place=MIGRATES)
        memory.manage(made)
        memory.show_to(self.node.gpus[1].memory, made)
        self.made.append(made)
        assert memory.managed is not None
        table = memory.managed.tables[made.address]
        memory.managed.forget_touches()
        table.words[:, PG_PLACE] = place
        return table

    def costs(self, **changed: Any) -> None:
        """Let the machine's numbers be others; ``counts_accesses`` too."""
        counts = changed.pop("counts_accesses", None)
        for gpu, was in zip(self.node.gpus, self.original, strict=True):
            assert was is not None
            new = dataclasses.replace(was, costs=dataclasses.replace(was.costs, **changed))
            gpu.memory.migration = new if counts is None else dataclasses.replace(new, counts_accesses=counts)

    def touch(self, gpu: int, table: PageTable, first: int, count: int, step: int = PAGE) -> tuple[Run, list[int]]:
        """One thread reads a word of each of some pages; the cycles of each read."""
        clocks = np.zeros(count, np.int32)
        at = np.uint64(table.address + first * PAGE)
        run = self.kernels[gpu]["touch"][1, 1](at, np.int64(step), np.int32(count), clocks)
        return run, clocks.tolist()

    def put(self, gpu: int, table: PageTable, blocks: int = 1) -> Run:
        """A block for each of the first pages writes to it."""
        return self.kernels[gpu]["put"][blocks, 1](np.uint64(table.address), np.int64(PAGE))

    def look(self, gpu: int, table: PageTable, blocks: int) -> Run:
        """A block for each of the first pages reads from it."""
        out = np.zeros(1, np.int32)
        return self.kernels[gpu]["look"][blocks, 1](np.uint64(table.address), np.int64(PAGE), out)


@pytest.fixture(scope="module")
def shared() -> Machine:
    return Machine()


@pytest.fixture
def two(shared: Machine) -> Any:
    """The machine with its own numbers and without memory of earlier tests."""
    shared.costs()
    yield shared
    for made in shared.made:
        shared.node.gpus[0].memory.free(made)
    shared.made.clear()


def microseconds(two: Machine, cycles: float) -> float:
    return cycles / two.node.gpus[0].chip.clocks.sm_clock_mhz


# --- faults ----------------------------------------------------------------------------------------
def copy_us(two: Machine, source: int = ON_HOST) -> float:
    """Of a page to GPU 0."""
    migration = two.node.gpus[0].memory.migration
    assert migration is not None
    return PAGE / migration.copy_gb_per_s[source] / 1e3


def costs_of(two: Machine) -> MigrationCosts:
    migration = two.node.gpus[0].memory.migration
    assert migration is not None
    return migration.costs


def test_a_fault_takes_the_drivers_time_and_the_copy_and_no_more(two: Machine) -> None:
    two.costs(prefetch_percent=100)
    table = two.pages(4, ON_HOST)
    run, clocks = two.touch(0, table, 0, 3)
    costs = costs_of(two)
    driver = costs.fault_latency_us + costs.fault_batch_us + costs.fault_region_us + costs.host_region_us
    driver += costs.fault_page_us + costs.fault_entry_us
    resident = two.touch(0, table, 0, 3)[1]
    for number, (taken, there) in enumerate(zip(clocks, resident, strict=True)):
        # A launch finds the driver in deep sleep, later faults find it awake.
        asleep = costs.deep_wake_us if number == 0 else 0
        assert microseconds(two, taken - there) == pytest.approx(driver + copy_us(two) + asleep, abs=0.25)
    assert table.places().tolist() == [GPU0, GPU0, GPU0, ON_HOST]
    assert run.metrics["uvm__gpu_page_faults.sum"] == run.metrics["uvm__fault_batches.sum"] == 3
    assert run.metrics["uvm__pages_migrated.sum"] == run.metrics["uvm__pages_from_host.sum"] == 3


@pytest.mark.parametrize(
    ("sleep_after", "deep_after", "woken"), [(20.0, 100.0, 0.0), (5.0, 100.0, 18.0), (5.0, 12.0, 55.0)]
)
def test_a_driver_that_sleeps_is_woken(two: Machine, sleep_after: float, deep_after: float, woken: float) -> None:
    two.costs(prefetch_percent=100, sleep_after_us=sleep_after, deep_sleep_after_us=deep_after)
    table = two.pages(2, ON_HOST)
    cycles = np.zeros(2, np.int32)
    idle = round(15 * two.node.gpus[0].chip.clocks.sm_clock_mhz)  # 15 us between the two faults
    two.kernels[0]["apart"][1, 1](np.uint64(table.address), np.int64(PAGE), np.int32(idle), cycles)
    costs = costs_of(two)
    assert microseconds(two, cycles[0] - cycles[1]) == pytest.approx(costs.deep_wake_us - woken, abs=0.5)


def test_a_batch_serves_a_region_once(two: Machine) -> None:
    """Four faults of one region, and of four regions: three more services of regions of the host's."""
    two.costs(prefetch_percent=100, prefetch_region_kib=256)
    near, far = (two.kernels[0]["look"][4, 1], two.pages(16, ON_HOST)), two.pages(16, ON_HOST)
    out = np.zeros(1, np.int32)
    one = near[0](np.uint64(near[1].address), np.int64(PAGE), out)
    four = near[0](np.uint64(far.address), np.int64(4 * PAGE), out)
    assert one.metrics["uvm__fault_batches.sum"] == four.metrics["uvm__fault_batches.sum"] == 1
    costs = costs_of(two)
    more = 3 * (costs.fault_region_us + costs.host_region_us)
    assert microseconds(two, four.cycles - one.cycles) == pytest.approx(more, abs=0.5)


@pytest.mark.parametrize(("count", "entries"), [(256, 16), (4, 4)])
def test_each_4_kib_that_faults_is_an_entry_of_the_batch_until_it_is_full(
    two: Machine, count: int, entries: int
) -> None:
    """Sixteen blocks touch a part each of one page, or all the same part; the driver's work for the parts delays what faults next."""
    two.costs(prefetch_percent=100, fault_entry_us=5.0, fault_batch_count=count)
    out = np.zeros(1, np.int32)
    apart, together = (
        two.kernels[0]["look_twice"][16, 1](
            np.uint64(two.pages(2, ON_HOST).address), np.int64(step), np.int64(PAGE), out
        ).cycles
        for step in (4096, 128)
    )
    assert microseconds(two, apart - together) == pytest.approx(5.0 * (entries - 1), abs=1.0)


def test_a_page_that_is_there_takes_no_longer_than_ordinary_memory(two: Machine) -> None:
    table = two.pages(4, GPU0)
    run, clocks = two.touch(0, table, 0, 4)
    own = two.node.gpus[0].zeros(4 * PAGE, np.uint8)
    ordinary = np.zeros(4, np.int32)
    two.kernels[0]["touch"][1, 1](np.uint64(own.device_address()), np.int64(PAGE), np.int32(4), ordinary)
    assert max(clocks) <= max(ordinary) + 20
    assert run.metrics["uvm__gpu_page_faults.sum"] == 0


def test_a_page_that_nobody_has_touched_is_populated_without_a_copy(two: Machine) -> None:
    two.costs(prefetch_percent=100)
    table = two.pages(2, NOWHERE)
    fresh = two.touch(0, table, 0, 1)[1][0]
    moved = two.touch(0, two.pages(2, ON_HOST), 0, 1)[1][0]
    costs = costs_of(two)
    more = copy_us(two) + costs.host_region_us - costs.populate_page_us - costs.populate_entry_us
    assert microseconds(two, moved - fresh) == pytest.approx(more, abs=0.25)
    assert table.places().tolist() == [GPU0, NOWHERE]


def test_a_region_moves_once_more_than_its_share_is_there(two: Machine) -> None:
    table = two.pages(8, ON_HOST)
    two.touch(0, table, 0, 2)
    assert table.places().tolist() == [GPU0] * 2 + [ON_HOST] * 6  # 2 of 4 are not more than 51 %
    two.touch(0, table, 2, 1)
    assert table.places().tolist() == [GPU0] * 4 + [ON_HOST] * 4  # 3 of 4 are; 4 of 8 are not
    two.touch(0, table, 5, 1)
    assert table.places().tolist() == [GPU0] * 8
    # The same rule for the host.
    words = two.pages(8, GPU0).words
    costs = two.node.machine.migration
    assert costs is not None
    words[0:2, PG_PLACE] = ON_HOST
    assert region_of(words, 4, ON_HOST, costs) == (4, 5)
    assert region_of(words, 2, ON_HOST, costs) == (0, 4)


@pytest.mark.parametrize(("pages", "batches"), [(16, 1), (17, 2)])
def test_a_batch_has_so_many_faults_and_no_more(two: Machine, pages: int, batches: int) -> None:
    two.costs(prefetch_percent=100, fault_batch_count=16)
    run = two.look(0, two.pages(pages, ON_HOST), pages)
    assert run.metrics["uvm__gpu_page_faults.sum"] == pages
    assert run.metrics["uvm__fault_batches.sum"] == batches


def test_faults_that_come_while_the_driver_serves_others_wait_for_it(two: Machine) -> None:
    two.costs(prefetch_percent=100)
    one, many = (two.look(0, two.pages(32, ON_HOST), blocks) for blocks in (1, 32))
    costs = costs_of(two)
    each = costs.fault_entry_us + costs.fault_page_us + copy_us(two)
    assert microseconds(two, many.cycles - one.cycles) == pytest.approx(31 * each, rel=0.03)


def test_pages_come_from_the_other_gpu_over_its_links(two: Machine) -> None:
    two.costs(prefetch_percent=100)
    table = two.pages(1, GPU1)
    there = two.touch(0, table, 0, 1)
    host = two.touch(0, two.pages(1, ON_HOST), 0, 1)
    migration = two.node.gpus[0].memory.migration
    assert migration is not None
    rates = migration.copy_gb_per_s
    saved = copy_us(two) - copy_us(two, GPU1) + migration.costs.host_region_us
    assert microseconds(two, host[1][0] - there[1][0]) == pytest.approx(saved, abs=0.25)
    assert rates[GPU1] == pytest.approx(4 * 18.82 * migration.costs.copy_percent / 100, rel=0.01)
    assert there[0].metrics["uvm__pages_from_host.sum"] == 0
    assert table.places().tolist() == [GPU0]


def test_the_same_cycles_on_any_number_of_host_threads() -> None:
    def cycles(threads: int) -> tuple[int, float]:
        machine = Machine(threads)
        run = machine.look(0, machine.pages(300, ON_HOST), 300)
        return run.cycles, run.metrics["uvm__gpu_page_faults.sum"]

    assert cycles(1) == cycles(2)


# --- advice ----------------------------------------------------------------------------------------
def test_accessed_by_maps_pages_where_they_are(two: Machine) -> None:
    table = two.pages(4, GPU1)
    table.advise(table.address, table.size_bytes, accessed_by=GPU0)
    run, clocks = two.touch(0, table, 0, 4)
    assert run.metrics["uvm__gpu_page_faults.sum"] == 0
    assert run.metrics["uvm__remote_accesses.sum"] == 4
    assert run.metrics["nvlrx__bytes_data_user.sum"] == 4 * 32
    assert table.places().tolist() == [GPU1] * 4
    assert 600 < max(clocks) < 2500  # a round trip over the link, and not a fault
    table.advise(table.address, table.size_bytes, not_accessed_by=GPU0)
    assert two.touch(0, table, 0, 1)[0].metrics["uvm__gpu_page_faults.sum"] == 1
    assert table.places()[0] == GPU0


def test_a_fault_maps_a_page_that_is_at_its_preferred_location(two: Machine) -> None:
    table = two.pages(4, ON_HOST)
    table.advise(table.address, table.size_bytes, preferred=ON_HOST)
    run, _ = two.touch(0, table, 0, 2)
    assert run.metrics["uvm__gpu_page_faults.sum"] == run.metrics["uvm__pages_mapped.sum"] == 2
    assert run.metrics["pcie__read_bytes.sum"] > 0
    assert table.places().tolist() == [ON_HOST] * 4
    assert (table.words[:, PG_MAPPED] >> GPU0 & 1).tolist() == [1, 1, 0, 0]
    again, _ = two.touch(0, table, 0, 2)
    assert again.metrics["uvm__gpu_page_faults.sum"] == 0
    assert again.metrics["uvm__remote_accesses.sum"] == 2
    # A page that is not there moves to whoever uses it; one that nobody has touched begins there.
    table.words[2:, PG_PLACE] = GPU1, NOWHERE
    two.touch(0, table, 2, 2)
    assert table.places()[2:].tolist() == [GPU0, ON_HOST]


def test_mostly_read_pages_get_copies_that_end_with_a_write(two: Machine) -> None:
    two.costs(prefetch_percent=100)
    table = two.pages(1, ON_HOST)
    table.advise(table.address, table.size_bytes, read_mostly=1)
    for gpu in (0, 1):
        run, _ = two.touch(gpu, table, 0, 1)
        assert run.metrics["uvm__pages_copied.sum"] == 1
        assert run.metrics["uvm__pages_migrated.sum"] == 0
        assert two.touch(gpu, table, 0, 1)[0].metrics["uvm__gpu_page_faults.sum"] == 0
    assert table.places().tolist() == [ON_HOST]
    assert table.words[0, PG_COPIES] == 1 << ON_HOST | 1 << GPU0 | 1 << GPU1
    run = two.put(1, table)
    assert run.metrics["uvm__copies_recalled.sum"] == run.metrics["uvm__gpu_page_faults.sum"] == 1
    assert run.metrics["uvm__pages_migrated.sum"] == 0  # its copy became the page
    assert table.places().tolist() == [GPU1]
    assert two.touch(0, table, 0, 1)[0].metrics["uvm__pages_copied.sum"] == 1


# --- access counters -------------------------------------------------------------------------------
@pytest.mark.parametrize(("reads", "moves"), [(7, 0), (8, 1)])
def test_a_region_moves_when_its_count_reaches_the_threshold(two: Machine, reads: int, moves: int) -> None:
    two.costs(access_counter_threshold=8, access_counter_kib=256, counts_accesses=True)
    table = two.pages(8, GPU1)
    table.advise(table.address, table.size_bytes, accessed_by=GPU0)
    run, _ = two.touch(0, table, 0, reads, step=128)
    assert run.metrics["uvm__access_counter_migrations.sum"] == moves
    assert run.metrics["uvm__gpu_page_faults.sum"] == 0
    assert table.places().tolist() == [GPU0 if moves else GPU1] * 4 + [GPU1] * 4


def test_a_region_is_used_where_it_was_until_it_leaves(two: Machine) -> None:
    two.costs(access_counter_threshold=2, access_counter_kib=64, access_counter_us=5.0, counts_accesses=True)
    table = two.pages(1, GPU1)
    table.advise(table.address, table.size_bytes, accessed_by=GPU0)
    run, clocks = two.touch(0, table, 0, 64, step=128)
    remote = run.metrics["uvm__remote_accesses.sum"]
    began = 0
    for taken in clocks[2 : int(remote)]:  # after the second access, until the service began
        began += taken
    assert 4.0 < microseconds(two, began) < 6.5
    local = two.touch(0, table, 0, 4, step=128)[0]
    assert local.metrics["uvm__remote_accesses.sum"] == 0


def test_p100_has_no_access_counters_and_volta_has() -> None:
    for name, counts in (("p100x2-nvlink", False), ("dgx-1", True), ("h200x2", True)):
        migration = migration_of(load_machine(name), 0)
        assert migration is not None
        assert migration.counts_accesses is counts
        assert migration.costs.access_counter_threshold == 0


# --- what the host has touched ---------------------------------------------------------------------
needs_page_map = pytest.mark.skipif(not can_see_touches(), reason="this host has no page map")


@needs_page_map
def test_the_hosts_touches_are_seen_and_its_data_stays(two: Machine) -> None:
    table = two.pages(4, NOWHERE)
    touches = table.touches
    assert isinstance(touches, HostTouches)
    at = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * table.size_bytes).from_address(table.address))
    assert not touches.touched(PAGE).any()
    at[PAGE + 5] = 7
    assert touches.touched(PAGE).tolist() == [False, True, False, False]
    touches.forget()
    assert not touches.touched(PAGE).any()
    assert at[PAGE + 5] == 7  # a read brings it back
    assert touches.touched(PAGE).tolist() == [False, True, False, False]
    touches.forget()
    reading, writing = os.pipe()
    os.write(writing, b"from the kernel")
    assert os.readv(reading, [memoryview(at)[3 * PAGE : 3 * PAGE + 15]]) == 15  # a system call writes there
    assert touches.touched(PAGE).tolist() == [False, False, False, True]
    assert bytes(at[3 * PAGE : 3 * PAGE + 15]) == b"from the kernel"
    os.close(reading)
    os.close(writing)


@needs_page_map
def test_pages_that_the_host_touches_move_to_it(two: Machine) -> None:
    two.costs(prefetch_percent=100)
    table = two.pages(4, NOWHERE)
    managed = two.node.gpus[0].memory.managed
    assert managed is not None
    at = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * table.size_bytes).from_address(table.address))
    at[0] = at[PAGE] = 1
    run, _ = two.touch(0, table, 0, 4)
    assert run.metrics["uvm__pages_from_host.sum"] == run.metrics["uvm__pages_populated.sum"] == 2
    assert not managed.host.faults  # nobody had what it touched
    assert at[2 * PAGE] == 0
    managed.note_touches()
    assert table.places().tolist() == [GPU0, GPU0, ON_HOST, GPU0]
    assert managed.host.faults == 1
    assert managed.host.bytes_from == {GPU0: PAGE}
    assert bytes_by_processor([table]) == {GPU0: 3 * PAGE, ON_HOST: PAGE}


def test_memory_that_was_managed_is_zero_for_its_next_owner(two: Machine) -> None:
    table = two.pages(2, NOWHERE)
    memory = two.node.gpus[0].memory
    made = two.made.pop()
    memory.view(made.address, 8)[:] = 9
    memory.free(made)
    again = memory.allocate(PAGE, "next", alignment_bytes=PAGE)
    try:
        assert again.address == table.address
        assert not memory.view(again.address, PAGE).any()
        assert mmap.PAGESIZE <= PAGE
    finally:
        memory.free(again)


# --- programs --------------------------------------------------------------------------------------
PROGRAM = """
from warpwright.driver.driver_state import state
from warpwright.engine.managed_pages import PG_ACCESSED_BY, PG_PREFERRED
size = 1 << 20
x = ctypes.c_uint64()
on(0)
cuda("cuMemAllocManaged", ctypes.byref(x), size, 1)
table = state().managed.tables[x.value]
where = lambda: sorted(set(table.places().tolist()))
assert where() == [0]
words = (ctypes.c_uint32 * (size // 4)).from_address(x.value)
for i in range(0, size // 4, 1024):
    words[i] = i
state().host_touches()
assert where() == [1]
to_gpu = cuda.microseconds(lambda: cuda("cuMemPrefetchAsync", x.value, size, 0, 0))
assert where() == [2]
assert 83 < to_gpu < 94, to_gpu  # 90 % of 13.9 GB/s
assert cuda.microseconds(lambda: cuda("cuMemPrefetchAsync", x.value, size, 0, 0)) < 3
between = cuda.microseconds(lambda: cuda("cuMemPrefetchAsync", x.value, size, 1, 0))
assert where() == [3]
assert 17 < between < 22, between  # 90 % of 75.3 GB/s
before = state().host_time.ps
assert words[1024] == 1024
state().host_touches()
spent = (state().host_time.ps - before) / 1e6
assert 29 < spent < 29.5, spent  # a fault of the host, and a page
assert table.places().tolist() == [1] + [3] * 15
cuda("cuMemAdvise", x.value, size, 3, -1 & 0xFFFFFFFF)
assert table.words[:, PG_PREFERRED].tolist() == [1] * 16  # preferred on the host
cuda("cuMemAdvise", x.value, size, 4, 0)
cuda("cuMemAdvise", x.value, size, 5, 1)
assert table.words[:, PG_ACCESSED_BY].tolist() == [1 << 3] * 16
cuda("cuMemsetD8_v2", x.value, 7, size)
assert where() == [2] and words[5] == 0x07070707
# What the host has touched before it records an event precedes the event.
begin, end = cuda.word("cuEventCreate", 0), cuda.word("cuEventCreate", 0)
cuda("cuEventRecord", begin, 0)
assert words[1 << 17] == 0x07070707
cuda("cuEventRecord", end, 0)
cuda("cuEventSynchronize", end)
spent = 1e3 * cuda.word("cuEventElapsedTime", begin, end, kind=ctypes.c_float)
assert 28 < spent < 30, spent
state().host_touches()
cuda("cuMemFree_v2", x.value)
assert not state().managed.tables
print("right")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
@needs_page_map
def test_programs_prefetch_advise_and_touch() -> None:
    assert right(PROGRAM, "", WARPWRIGHT_SYSTEM="p100x2-nvlink", WARPWRIGHT_TIMING="full").strip() == "right"
