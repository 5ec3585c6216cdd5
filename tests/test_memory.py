"""Device memory: allocations, the table that accesses are checked against, copies, freeing."""

from __future__ import annotations

import os
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpwright.engine.abi import DEVICE_BASE
from warpwright.engine.device_memory import ALIGNMENT_BYTES, FIRST_OFFSET_BYTES, GAP_BYTES, DeviceMemory
from warpwright.errors import FreedArrayError, OutOfMemoryError
from warpwright.quantity_text import byte_count_text

MIB = 1 << 20


@pytest.fixture
def memory() -> DeviceMemory:
    return DeviceMemory(64 * MIB)


def test_allocations_are_aligned_and_apart(memory: DeviceMemory) -> None:
    made = [memory.allocate(size, f"a{size}") for size in (1, 255, 256, 257, 5000, 0)]
    for a in made:
        assert a.address % ALIGNMENT_BYTES == 0
    for before, after in pairwise(made):
        assert after.address - before.end >= GAP_BYTES
    assert made[0].address == DEVICE_BASE + FIRST_OFFSET_BYTES


def test_copies_keep_values_of_any_layout(memory: DeviceMemory) -> None:
    values = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    a = memory.allocate(values.nbytes, "values")
    memory.copy_in(a.address, values.transpose(2, 0, 1))
    back = np.zeros((5, 3, 4), np.int32, order="F")
    memory.copy_out(a.address, back)
    np.testing.assert_array_equal(back, values.transpose(2, 0, 1))


def test_table_is_sorted_and_follows_allocations(memory: DeviceMemory) -> None:
    first, second, third = (memory.allocate(100, n) for n in ("first", "second", "third"))
    memory.free(second)
    assert memory.table().tolist() == [[first.address, first.end], [third.address, third.end]]
    assert memory.table().dtype == np.uint64
    held = memory.table()
    memory.free(first)
    assert len(held) == 2, "a table that a launch holds does not change"
    assert len(memory.table()) == 1


def test_freed_memory_is_zero_and_used_again(memory: DeviceMemory) -> None:
    a = memory.allocate(3 * MIB + 17, "a")
    memory.view(a.address, a.size_bytes)[...] = 7
    memory.free(a)
    b = memory.allocate(3 * MIB + 17, "b")
    assert b.address == a.address
    assert not memory.view(b.address, b.size_bytes).any()
    assert memory.used_bytes == b.size_bytes


def test_double_free_is_refused(memory: DeviceMemory) -> None:
    a = memory.allocate(16, "array float32[4]")
    memory.free(a)
    with pytest.raises(FreedArrayError) as error:
        memory.free(a)
    assert str(error.value) == "array float32[4] was freed before"


def test_out_of_memory_says_who_holds_it(memory: DeviceMemory) -> None:
    memory.allocate(40 * MIB, "array 'weights'")
    with pytest.raises(OutOfMemoryError) as error:
        memory.allocate(30 * MIB, "argument 2 'x' of saxpy")
    assert str(error.value) == (
        "out of device memory: argument 2 'x' of saxpy needs 30.0 MiB; 40.0 MiB of 64.0 MiB are in use, "
        "most of it by array 'weights' (40.0 MiB)"
    )


def test_find_and_nearest(memory: DeviceMemory) -> None:
    assert memory.nearest(DEVICE_BASE) is None
    a = memory.allocate(1000, "a")
    b = memory.allocate(1000, "b")
    assert memory.find(a.address) is a
    assert memory.find(a.end - 1) is a
    assert memory.find(a.end) is None
    assert memory.nearest(a.end) is a
    assert memory.nearest(b.address - 4) is b
    assert memory.nearest(b.end + 10**6) is b
    memory.free(a)
    assert memory.freed_at(a.address + 5) is a


def test_abandoned_allocations_go_with_the_next_table(memory: DeviceMemory) -> None:
    a = memory.allocate(10, "a")
    memory.abandon(a)
    assert not a.freed
    assert len(memory.table()) == 0
    assert a.freed


def test_view_outside_memory_is_refused(memory: DeviceMemory) -> None:
    with pytest.raises(IndexError, match=r"^4 bytes at 0x10 are outside device memory$"):
        memory.view(0x10, 4)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 1 << 16)), max_size=60))
def test_any_history_keeps_allocations_apart(steps: list[tuple[bool, int]]) -> None:
    memory = DeviceMemory(64 * MIB)
    live = []
    for free, number in steps:
        if free and live:
            memory.free(live.pop(number % len(live)))
        else:
            a = memory.allocate(number, "a")
            memory.view(a.address, a.size_bytes)[...] = number % 251
            live.append(a)
    ordered = sorted(live, key=lambda a: a.address)
    for before, after in pairwise(ordered):
        assert after.address - before.end >= GAP_BYTES
    for a in live:
        assert (memory.view(a.address, a.size_bytes) == a.size_bytes % 251).all()
    for a in live:
        memory.free(a)
    assert memory.used_bytes == 0
    assert memory.allocate(63 * MIB, "all").address == DEVICE_BASE + FIRST_OFFSET_BYTES, (
        "free ranges grew together again"
    )


@pytest.mark.parametrize(
    ("count", "text"), [(1, "1 byte"), (1536, "1,536 bytes"), (12 * MIB, "12.0 MiB"), (7 * MIB * 512, "3.50 GiB")]
)
def test_format_bytes(count: int, text: str) -> None:
    assert byte_count_text(count) == text


def test_all_addresses_of_unified_memory_can_be_seen() -> None:
    """Also those beyond the chip's capacity, which managed memory has: the interpreter looks at all of them at once."""
    memory = DeviceMemory(1 << 26, unified=True)
    assert memory.span_bytes > memory.capacity_bytes
    assert len(memory.view(memory.base, memory.span_bytes, read_only=True)) == memory.span_bytes
    with pytest.raises(IndexError, match="outside device memory"):
        memory.view(memory.base, memory.span_bytes + 1)


def test_shared_pages_include_those_after_the_chips_own_memory() -> None:
    """A forked process writes the last word that an allocation can have."""
    memory = DeviceMemory(64 << 20, unified=True)
    memory.share_pages()
    last = memory.view(memory.base + memory.span_bytes - 8, 8)
    process = os.fork()
    if not process:
        last[:] = range(8)
        os._exit(0)
    os.waitpid(process, 0)
    assert last.tolist() == list(range(8))
