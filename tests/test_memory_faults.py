"""Accesses outside all allocations that fault as on a card: only outside mapped pages (``memory_faults="page"``)."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from bench.machine.allocations import FREED, SIZES
from bench.machine.memory_faults import CASES
from warpwright.engine.allocation import Allocation
from warpwright.engine.card_pages import OWN_PAGES_FROM_BYTES, PAGE_BYTES
from warpwright.engine.device_memory import DeviceMemory

SOURCE = r"""
#include <cooperative_groups.h>
extern "C" __global__ void writes(int *x, long first) { x[first + threadIdx.x] = threadIdx.x + 1; }
extern "C" __global__ void reads(const int *x, int *out, long first) { out[threadIdx.x] = x[first + threadIdx.x]; }
extern "C" __global__ void adds(int *x, long place) { atomicAdd(x + place, 1); }
extern "C" __global__ void counts(int *x, long place) { x[place] += 1; }
extern "C" __global__ void fills_its_page(int *x, long count) {
    cooperative_groups::this_grid().sync();
    for (long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) x[i] = -1;
    cooperative_groups::this_grid().sync();
}
"""
WAYS: list[dict[str, Any]] = [{"timing": "off"}, {"timing": "full"}, {"timing": "off", "engine": "interpreter"}]
way = pytest.mark.parametrize("how", WAYS, ids=["compiled", "timed", "interpreted"])


def kernels(**how: Any) -> ww.Module:
    return ww.GPU("v100", memory_faults="page", **how).compile(SOURCE)


@way
def test_an_overrun_in_the_page_works_and_is_named_once(how: dict[str, Any]) -> None:
    module = kernels(**how)
    x, out = module.gpu.zeros(2, dtype="i4", name="small"), module.gpu.zeros(64, dtype="i4")
    with pytest.warns(ww.MemoryOverrunWarning) as told:
        module["writes"][1, 64](x, 4096)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module["writes"][1, 64](x, 4096)
    assert len(told) == 1
    message = str(told[0].message)
    assert "of 4 bytes at 0x" in message
    assert "nearest allocation: array " in message
    assert (
        "a card does not detect it, because the address is in a page of 2 MiB that it has mapped (memory faults by page); --check memcheck"
        in message
    )
    if "engine" not in how:
        assert "out-of-bounds write" in message
        assert "block (0, 0, 0), thread (0, 0, 0)" in message
    with pytest.warns(ww.MemoryOverrunWarning, match="kernel reads"):
        module["reads"][1, 64](x, out, 4096)
    assert out.numpy().tolist() == list(range(1, 65))


@way
def test_an_access_outside_the_mapped_pages_fails(how: dict[str, Any]) -> None:
    module = kernels(**how)
    x = module.gpu.zeros(2, dtype="i4")
    with pytest.raises(ww.MemoryFaultError, match="out-of-bounds write of 4 bytes") as fault:
        module["writes"][1, 64](x, PAGE_BYTES // 4 - 8)
    assert fault.value.address == x.device_address() + PAGE_BYTES


def test_by_default_every_overrun_fails() -> None:
    gpu = ww.GPU("v100", timing="off")
    with pytest.raises(ww.MemoryFaultError, match="directly after its end"):
        gpu.compile(SOURCE)["writes"][1, 64](gpu.zeros(2, dtype="i4"), 2)


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
def test_an_overrun_reaches_the_next_allocation_of_the_page(engine: str) -> None:
    module = kernels(timing="off", engine=engine)
    first, second = module.gpu.zeros(2, dtype="i4"), module.gpu.zeros(64, dtype="i4")
    with pytest.warns(ww.MemoryOverrunWarning):
        module["adds"][1, 64](first, 126)
    module["adds"][1, 64](first, 130)  # inside the second one: no allocation is left
    assert second.numpy().tolist()[:4] == [0, 0, 64, 0]


@pytest.mark.parametrize("timing", ["off", "full"])
def test_no_overrun_reaches_memory_of_the_launch(timing: str) -> None:
    """The grid barrier's workspace is not in the pages of the program."""
    module = kernels(timing=timing)
    x = module.gpu.zeros(2, dtype="i4")
    with pytest.warns(ww.MemoryOverrunWarning):
        module["fills_its_page"][4, 256](x, PAGE_BYTES // 4)
    assert x.numpy().tolist() == [-1, -1]


def test_new_allocations_are_zero_where_an_overrun_wrote() -> None:
    module = kernels(timing="off")
    x = module.gpu.zeros(2, dtype="i4")
    with pytest.warns(ww.MemoryOverrunWarning):
        module["writes"][1, 64](x, 128)
    assert not module.gpu.empty(64, dtype="i4").numpy().any()


def test_repeated_launches_count_in_memory_outside_allocations() -> None:
    """Launches are skipped only if the unallocated memory of the pages is unchanged, too."""
    gpu = ww.GPU("v100", device=0, caches="cold", memory_faults="page")
    module = gpu.compile(SOURCE)
    x, out = gpu.zeros(2, dtype="i4"), gpu.zeros(64, dtype="i4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ww.MemoryOverrunWarning)
        for _ in range(6):
            module["counts"][1, 1](x, 100_000)
        module["reads"][1, 64](x, out, 100_000)
    assert out.numpy()[0] == 6


def test_overruns_are_forgotten_with_a_failed_launch() -> None:
    module = kernels(timing="off")
    x = module.gpu.zeros(2, dtype="i4")
    with pytest.raises(ww.MemoryFaultError):
        module["writes"][1, 64](x, PAGE_BYTES // 4 - 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module["writes"][1, 2](x, 0)


def test_unknown_names_and_checks_are_refused() -> None:
    with pytest.raises(ww.UnsupportedError, match="use memory_faults='allocation' or memory_faults='page'"):
        ww.GPU("v100", memory_faults="line")
    with pytest.raises(ww.UnsupportedError, match="checks report every access outside its allocation"):
        ww.GPU("v100", memory_faults="page", check="memcheck")


# --- the card's driver ------------------------------------------------------------------------------
def places(memory: DeviceMemory) -> list[int]:
    """Addresses of the allocations of ``bench.machine.allocations``, in its order."""
    made = [memory.allocate(size, "array", of_program=True) for size in SIZES]
    found = [one.address for one in made]
    for number in FREED:
        memory.free(made[number])
    again = [memory.allocate(SIZES[number], "array", of_program=True) for number in reversed(FREED)]
    return found + [one.address for one in again]


def test_allocations_are_placed_as_on_an_h200() -> None:
    """Small allocations are as far apart as on the card; large ones begin at pages of their own."""
    card = json.loads(Path("bench/data/h200/allocations.json").read_text())
    rows = [row for row in card["arrays, module"] if row[0] in ("array", "after frees")]
    own = places(DeviceMemory(1 << 30, faults_by_page=True))
    assert len(own) == len(rows)
    first = rows[0][1]
    for address, (_, theirs, size) in zip(own, rows, strict=True):
        if size >= OWN_PAGES_FROM_BYTES:
            assert address % PAGE_BYTES == theirs % PAGE_BYTES == 0
        else:
            assert address - own[0] == theirs - first


def test_pages_are_mapped_while_an_allocation_is_in_them() -> None:
    memory = DeviceMemory(1 << 30, faults_by_page=True)

    def mapped() -> list[list[int]]:
        return [[int(first), int(last)] for first, last in memory.page_table()]

    def page(one: Allocation, count: int = 1) -> list[int]:
        begin = one.address // PAGE_BYTES * PAGE_BYTES
        return [begin, begin + count * PAGE_BYTES]

    small, second = (memory.allocate(8, "small", of_program=True) for _ in range(2))
    own = memory.allocate(3 << 20, "large", of_program=True)
    apart = memory.allocate(8, "the simulator's own")
    assert mapped() == [[page(small)[0], page(own, 2)[1]]]
    assert not any(first <= apart.address < last for first, last in mapped())
    memory.free(small)
    assert mapped() == [[page(second)[0], page(own, 2)[1]]]
    memory.free(second)
    assert mapped() == [page(own, 2)]
    memory.free(own)
    assert mapped() == []
    begins = memory.allocate(1 << 29, "most of it", of_program=True).address
    assert begins % PAGE_BYTES == 0
    assert not np.any(memory.view(begins, 4096))


MAPPED_BY_THE_DRIVER = ("first word after the page", "before the first array", "first word after its page")
"""Cases in which the card's driver has mapped the neighbouring page for something of its own."""


@pytest.mark.parametrize("kernel", ["writes", "reads"])
def test_accesses_fault_as_on_an_h200(kernel: str) -> None:
    card = json.loads(Path("bench/data/h200/memory_faults.json").read_text())["rows"]
    works = {name: found == "works" for which, name, found in card if which == kernel}
    source = Path("bench/machine/memory_faults.cu").read_text()
    for case in CASES:
        gpu = ww.GPU("v100", memory_faults="page", timing="off")
        arrays = [gpu.zeros(size, dtype="u1") for size in case.sizes]
        address = arrays[0].device_address()
        for number in case.freed:
            arrays[number].free()
        faulted = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ww.MemoryOverrunWarning)
            try:
                gpu.compile(source)[kernel][1, 1](np.uint64(address), np.int64(case.distance_bytes))
            except ww.MemoryFaultError:
                faulted = True
        assert works[case.name] != faulted or case.name in MAPPED_BY_THE_DRIVER, case.name
