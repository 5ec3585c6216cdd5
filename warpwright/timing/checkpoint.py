"""A machine between two windows, saved and restored: in another process, on another instance of the same size.

A machine consists of its state, the structures and memories of its blocks and warps, and the device's memory.  Fields that hold host addresses are marked as such in
their declarations (``word("host address", …)``, ``engine/abi.py``), and are translated in the process that resumes: arrays by their beginnings,
functions and launches from the newly made machine.  Records of warps that run ahead may point to tables in compiled code; these tables are saved too.
Caches of derived results (patterns of lanes) begin empty.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import BLOCK, TAG_PATTERN, WARP, head_words, record_words
from warpwright.errors import UnsupportedError
from warpwright.timing import state as s
from warpwright.timing.simulate import Prepared

Words = npt.NDArray[np.int64]
PAGE_WORDS = 512
"""Words per page; pages that are all zero are left out."""
HOST_ADDRESS = "host address"
_MEMOS = ("patterns", "passes")
"""Areas of the state that only cache results."""
_WARP_POINTERS = ("launch", "block", "local_base", "trace_base", "spill", "next")
_BLOCK_POINTERS = ("shared_base", "warps", "running")


@dataclass(slots=True)
class MachineCheckpoint:
    """A machine at a cycle; arrays of words by name, without pages of zeros."""

    cycle: int
    sizes: dict[str, int]
    bases: dict[str, int]
    """Host addresses at which the arrays and the launch structure were."""
    pages: dict[str, tuple[Words, Words]]
    """Numbers of pages, and their words."""
    tables: list[tuple[int, list[int]]] = field(default_factory=list)
    """Tables in compiled code to which records point: address, and a word for each lane."""


def _pages(words: Words) -> tuple[Words, Words]:
    whole = len(words) // PAGE_WORDS * PAGE_WORDS
    rows = words[:whole].reshape(-1, PAGE_WORDS)
    used = np.flatnonzero(rows.any(axis=1))
    rest = words[whole:]
    if len(rest):
        last = np.zeros((1, PAGE_WORDS), np.int64)
        last[0, : len(rest)] = rest
        return np.append(used, len(rows)), np.concatenate([rows[used], last])
    return used, rows[used].copy()


def _unpaged(into: Words, pages: tuple[Words, Words]) -> None:
    into.fill(0)
    for number, row in zip(*pages, strict=True):
        first = int(number) * PAGE_WORDS
        part = into[first : first + PAGE_WORDS]
        part[:] = row[: len(part)]


def refuse(launch: Prepared) -> None:
    """Refuse a machine that cannot be saved.

    Raises:
        UnsupportedError: states the reason.
    """
    context = launch.grids[0].context
    reason = ""
    if len(launch.grids) > 1:
        reason = "several launches share the chip"
    elif launch.kept is not None:
        reason = "the device keeps its caches between launches: use caches='cold'"
    elif context.geometry.cluster_blocks > 1 or any(
        i.opcode.startswith("UBLKCP") for i in context.program.instructions
    ):
        reason = "the launch has clusters or bulk copies"
    elif context.services is not None or context.textures is not None:
        reason = "the kernel calls the driver or samples textures"
    elif context.memory.compressible:
        reason = "memory may be compressed"
    elif any(a.mapped for a in context.memory):
        reason = "memory of the host or of another device is mapped"
    if reason:
        raise UnsupportedError(f"{context.program.name}: no checkpoint: {reason}")


def _arrays(launch: Prepared) -> dict[str, Words]:
    return {"state": launch.state.words, **launch.space.arrays}


def _bases(launch: Prepared) -> dict[str, int]:
    found = {name: int(words.ctypes.data) for name, words in launch.space.arrays.items()}
    found["launch"] = launch.grids[0].context.address
    return found


def save(launch: Prepared) -> MachineCheckpoint:
    """The machine as it is now.

    Raises:
        UnsupportedError: it cannot be saved.
    """
    refuse(launch)
    arrays = _arrays(launch)
    words = launch.state.words
    found = MachineCheckpoint(
        int(words[s.chip.now]),
        {name: len(array) for name, array in arrays.items()},
        _bases(launch),
        {name: _pages(array) for name, array in arrays.items()},
    )
    lanes = int(words[s.chip.lanes])
    known = {pointer for _, pointer in _table_pointers(launch)}
    found.tables = [(p, list((ctypes.c_int64 * lanes).from_address(p))) for p in sorted(known)]
    return found


def _table_pointers(launch: Prepared) -> Iterator[tuple[int, int]]:
    """(host address of the word, its value) for each remaining record that points to a table."""
    m = launch.state.words
    lanes = int(m[s.chip.lanes])
    head, sizes = head_words(lanes), record_words(lanes)
    for sm, slot in launch.state.active_warps():
        w = s.SM(sm).warps[slot]
        position, used, trace = (int(m[place]) for place in (w.pos, w.used, w.trace))
        while position < used:
            place = trace + 8 * position
            tag = ctypes.c_uint64.from_address(place).value >> 60
            if tag == TAG_PATTERN:
                pointer = place + 8 * (head + 1)
                yield pointer, ctypes.c_int64.from_address(pointer).value
            if tag not in sizes:
                raise UnsupportedError(f"a record of a warp has the tag {tag}: no checkpoint")
            position += sizes[tag]


def restore(launch: Prepared, saved: MachineCheckpoint) -> list[Any]:
    """Restore the saved state into a machine that has not begun; the returned objects must live as long as the machine.

    Raises:
        UnsupportedError: the machine has another size.
    """
    arrays = _arrays(launch)
    sizes = {name: len(array) for name, array in arrays.items()}
    if sizes != saved.sizes:
        differing = next(name for name in {*sizes, *saved.sizes} if sizes.get(name) != saved.sizes.get(name))
        raise UnsupportedError(
            f"the checkpoint is of a machine of another size ({differing}): resume it on the same chip, or on an instance of the same profile"
        )
    own = _own_addresses(launch)
    memos = {name: _area(launch, name).copy() for name in _MEMOS}
    for name, array in arrays.items():
        _unpaged(array, saved.pages[name])
    for place, value in own.items():
        launch.state.words[place] = value
    for name, words in memos.items():
        _area(launch, name)[:] = words
    now = _bases(launch)
    moves = [(saved.bases[name], 8 * saved.sizes.get(name, 1), now[name]) for name in now]
    _move_slots(launch, moves)
    _move_structures(launch, moves)
    return _move_tables(launch, saved)


def _area(launch: Prepared, name: str) -> Words:
    """An area of the state."""
    first = launch.state.areas[name]
    following = [place for place in launch.state.areas.values() if place > first]
    return launch.state.words[first : min(following, default=len(launch.state.words))]


def _own_addresses(launch: Prepared) -> dict[int, int]:
    """Host addresses of the chip and of its launch, by place: those of the new machine are correct."""
    k = launch.state.kernel(0)
    places = [one.offset for one in s.Header.fields.values() if one.unit == HOST_ADDRESS]
    places += [int(k) + one.offset for one in s.Kernel.fields.values() if one.unit == HOST_ADDRESS]
    return {place: int(launch.state.words[place]) for place in places}


def _moved(values: Words, moves: list[tuple[int, int, int]]) -> Words:
    """Translate addresses in any of the ranges (first byte, bytes) to their new places; others are unchanged."""
    result = values.copy()
    for first, size, target in moves:
        inside = (values >= first) & (values < first + size)
        result[inside] = values[inside] + (target - first)
    return result


def _move_slots(launch: Prepared, moves: list[tuple[int, int, int]]) -> None:
    """Warp slots: their function is the launch's, the rest moves with its array."""
    sms = launch.state.sms()
    function = int(launch.state.words[launch.state.kernel(0).function])
    first, count = int(s.SM.warps), s.SM.fields["warps"].count
    for name, one in s.Warp.fields.items():
        if one.unit != HOST_ADDRESS:
            continue
        columns = first + np.arange(count) * s.Warp.size + one.offset
        values = sms[:, columns]
        if name == "function":
            sms[:, columns] = np.where(values != 0, function, 0)
        else:
            sms[:, columns] = _moved(values, moves)


def _move_structures(launch: Prepared, moves: list[tuple[int, int, int]]) -> None:
    """WARP and BLOCK structures."""
    part = launch.space.parts[0]
    warps, blocks = launch.space.arrays["warps"], launch.space.arrays["blocks"]
    stride, size = part.warp_stride // 8, BLOCK.size_bytes // 8
    _move_fields(
        warps[: len(warps) // stride * stride].reshape(-1, stride), [WARP.slot(name) for name in _WARP_POINTERS], moves
    )
    cluster = BLOCK.slot("cluster_blocks")
    slots = [*(BLOCK.slot(name) for name in _BLOCK_POINTERS), *range(cluster, cluster + 16)]
    _move_fields(blocks[: len(blocks) // size * size].reshape(-1, size), slots, moves)


def _move_fields(rows: Words, columns: list[int], moves: list[tuple[int, int, int]]) -> None:
    for column in columns:
        rows[:, column] = _moved(rows[:, column], moves)


def _move_tables(launch: Prepared, saved: MachineCheckpoint) -> list[Any]:
    """Make records that point to tables point to copies of them."""
    kept: dict[int, Any] = {}
    for address, words in saved.tables:
        kept[address] = (ctypes.c_int64 * len(words))(*words)
    for place, pointer in list(_table_pointers(launch)):
        ctypes.c_int64.from_address(place).value = ctypes.addressof(kept[pointer])
    return list(kept.values())
