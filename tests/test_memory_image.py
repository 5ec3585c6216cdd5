"""Memory is compared with a copy: what has changed, and where."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from warpwright.engine.device_memory import DeviceMemory
from warpwright.timing.memory_image import JOINED_BYTES, MemoryImage


def context(memory: DeviceMemory, *passing: int) -> Any:
    return SimpleNamespace(memory=memory, passing=passing)


def changed(image: MemoryImage, memory: DeviceMemory, *passing: int) -> list[tuple[int, list[int]]]:
    return [(address, pieces.tolist()) for address, pieces in image.changes(context(memory, *passing), 512)]


def test_small_allocations_are_looked_at_together_and_changes_are_found_in_each() -> None:
    memory, image = DeviceMemory(1 << 26), MemoryImage()
    small = [memory.allocate(100, f"small {n}") for n in range(3)]
    large = memory.allocate(JOINED_BYTES + 13, "large")
    before = image.digest(context(memory))
    assert changed(image, memory) == []
    memory.view(small[2].address + 99, 1)[:] = 1
    memory.view(large.end - 1, 1)[:] = 1
    assert changed(image, memory) == [
        (small[0].address, [(small[2].address - small[0].address) // 512]),
        (large.address, [JOINED_BYTES // 512]),
    ]
    assert image.digest(context(memory)) != before
    assert changed(image, memory) == []
    memory.view(small[2].address + 99, 1)[:] = 0
    memory.view(large.end - 1, 1)[:] = 0
    assert image.digest(context(memory)) == before


def test_memory_of_single_launches_does_not_count() -> None:
    memory, image = DeviceMemory(1 << 26), MemoryImage()
    first, own, last = (memory.allocate(64, name) for name in ("first", "own", "last"))
    before = image.digest(context(memory, own.address))
    memory.view(own.address, 64)[:] = 7
    assert image.digest(context(memory, own.address)) == before
    memory.view(last.address, 8).view(np.int64)[0] = 1
    assert changed(image, memory, own.address) == [(last.address, [0])]
    assert first.address < own.address < last.address


def test_a_range_without_a_copy_has_changed_everywhere(monkeypatch: Any) -> None:
    monkeypatch.setattr("warpwright.timing.memory_image.MOST_COPIED_BYTES", 100)
    memory, image = DeviceMemory(1 << 26), MemoryImage()
    one = memory.allocate(1025, "one")
    before = image.digest(context(memory))
    assert image.digest(context(memory)) == before
    assert changed(image, memory) == [(one.address, [0, 1, 2])]
