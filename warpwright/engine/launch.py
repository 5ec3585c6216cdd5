"""The context that the warps of a launch read: built once per launch from constant bank 0, arguments and the tables of memory."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import LAUNCH
from warpwright.engine.access_policy import AccessWindow
from warpwright.engine.constant_bank0 import is_cooperative, reachable_shared_bytes, shared_bytes, stack_bytes
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.geometry import Geometry
from warpwright.isa.program import Program

GRID_WORKSPACE_BYTES = 256
"""Workspace of a cooperative launch's grid barrier: a word that blocks add to and spin on, and a line that a launch on several devices uses."""
GRID_BARRIER_AT = 4
"""Offset of that word."""
ALIKE_BYTES = 512
"""Alignment of arrays up to which launches on other arrays count as equal: the alignment that allocators guarantee."""

Words = npt.NDArray[np.int64]


NOT_COOPERATIVE = (
    "grid.sync() traps in a launch that is not cooperative: launch the kernel with cudaLaunchCooperativeKernel"
)


def lacks_grid_barrier(context: LaunchContext) -> bool:
    """Whether a launch is not cooperative although its kernel synchronises its grid."""
    return not context.is_cooperative and is_cooperative(context.program)


@cache
def _all_sms(sm_count: int) -> Words:
    return np.arange(sm_count, dtype=np.int64)


def host_address(array: npt.NDArray[Any]) -> int:
    """The host address of a contiguous, writable array; a third of the time of ``array.ctypes.data``."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array.data))


def aligned_words(size_bytes: int) -> Words:
    """Zeroed int64 words that begin on a 64-byte boundary, shape (size_bytes // 8,)."""
    raw = np.zeros(size_bytes + 64, dtype=np.uint8)
    skip = -host_address(raw) % 64
    return raw[skip : skip + size_bytes].view(np.int64)


@dataclass(slots=True)
class LaunchContext:
    """The LAUNCH structure of ``engine/abi.py``; keeps everything that it points to alive."""

    program: Program
    geometry: Geometry
    memory: DeviceMemory
    words: Words
    banks: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    """Constant banks by number, bank 0 included."""
    keep: list[Any] = field(default_factory=list)
    sms: Words = field(default_factory=lambda: _all_sms(1))
    """Numbers of the SMs that take blocks: block n runs on the n-th of them, cyclically."""
    services: Any = None
    """The launch's :class:`~warpwright.engine.services.LaunchServices`, if its kernel calls any."""

    textures: Any = None
    """The launch's :class:`~warpwright.engine.textures.launch_textures.LaunchTextures`, if its kernel uses any."""
    exact_shared: bool = False
    """Whether shared memory ends after the requested bytes, as for memcheck, instead of after its last allocation
    unit."""
    window: AccessWindow | None = None
    """Access-policy windows: addresses that L2 is to keep longer or shorter."""
    set_aside_bytes: int = 0
    """Part of L2 set aside for persisting lines."""
    is_cooperative: bool = False
    """Whether blocks may wait for the whole grid: the launch has the workspace of ``grid.sync()``."""
    grid_barrier: int = 0
    """Device address of that workspace, if its barrier is of this grid alone."""
    passing: tuple[int, ...] = ()
    """Addresses of memory that belongs to the launch alone: its grid barrier's workspace, its parameters."""

    @property
    def shared_bytes(self) -> int:
        """Shared memory that a block can reach."""
        reach = shared_bytes if self.exact_shared else reachable_shared_bytes
        return reach(self.program, self.geometry)

    @property
    def address(self) -> int:
        """Host pointer to the structure."""
        return host_address(self.words)

    def constants_digest(self) -> bytes:
        """Digest (16 bytes) of all constant banks, including arguments, which distinguishes launches."""
        found = hashlib.blake2b(digest_size=16)
        for number, bank in sorted(self.banks.items()):
            found.update(number.to_bytes(4, "little"))
            found.update(np.ascontiguousarray(bank).data)
        return found.digest()

    def constants_likeness(self) -> bytes:
        """As :meth:`constants_digest`, but for words that are addresses of device memory, only their alignment and
        which of them are equal count.

        Launches with equal digests do the same work on different arrays, for example the layers of a model on their own
        weights.
        """
        found = hashlib.blake2b(digest_size=16)
        for number, bank in sorted(self.banks.items()):
            raw = np.ascontiguousarray(bank).view(np.uint8).reshape(-1)
            words = raw[: raw.size // 8 * 8].copy().view(np.uint64)
            names: dict[int, int] = {}
            for at in np.flatnonzero(self.memory.holds_each(words)):
                address = int(words[at])
                words[at] = names.setdefault(address, len(names)) * ALIKE_BYTES + address % ALIKE_BYTES
            found.update(number.to_bytes(4, "little"))
            found.update(words.data)
            found.update(raw[raw.size // 8 * 8 :].data)
        return found.digest()

    def __getitem__(self, name: str) -> int:
        return int(self.words[LAUNCH.slot(name)])

    def show_allocations(self, table: npt.NDArray[np.uint64]) -> None:
        """From now on, check accesses against these ranges: first byte and one past the last, ascending."""
        self.keep.append(table)
        self.words[LAUNCH.slot("allocations")] = table.ctypes.data
        self.words[LAUNCH.slot("allocation_count")] = len(table)

    def cancel(self) -> None:
        """Request every warp to stop at its next yield, barrier or backward branch of a long loop."""
        self.words[LAUNCH.slot("cancel")] = 1

    @property
    def cancelled(self) -> bool:
        return bool(self.words[LAUNCH.slot("cancel")])


def make_context(
    program: Program,
    geometry: Geometry,
    memory: DeviceMemory,
    bank0: bytes | bytearray,
    banks: Mapping[int, npt.NDArray[np.uint8]],
    sm_count: int,
    sms: Sequence[int] | None = None,
) -> LaunchContext:
    """Build the launch structure.

    Args:
        bank0: from :func:`constant_bank0`.
        banks: contents of the other constant banks by number; arrays are referenced, not copied.
        sm_count: SMs of the chip (%nsmid).
        sms: numbers of the SMs that take its blocks (%smid); all by default.
    """
    return LaunchTemplate(program, geometry, memory, banks, sm_count, sms).context(bank0)


_BANK0, _BANK0_BYTES = LAUNCH.slot("constant_banks"), LAUNCH.slot("constant_bytes")
_ALLOCATIONS, _ALLOCATION_COUNT = LAUNCH.slot("allocations"), LAUNCH.slot("allocation_count")
_PAGES, _PAGE_COUNT, _OVERRUN = (LAUNCH.slot(name) for name in ("pages", "page_count", "overrun"))
_BANK0_AT = LAUNCH.size_bytes
"""Offset of constant bank 0 in the memory of a launch: after LAUNCH, whose size is in whole lines."""


class LaunchTemplate:
    """What launches of a kernel with the same geometry share: the structure LAUNCH, except for bank 0 and the table of allocations.

    Copying it takes a third of the time of building the structure.  The arguments are those of :func:`make_context`.
    """

    __slots__ = ("_banks", "_geometry", "_memory", "_program", "_sms", "_table", "_words", "_zeros")

    def __init__(
        self,
        program: Program,
        geometry: Geometry,
        memory: DeviceMemory,
        banks: Mapping[int, npt.NDArray[np.uint8]],
        sm_count: int,
        sms: Sequence[int] | None = None,
    ) -> None:
        self._program, self._geometry, self._memory, self._banks = program, geometry, memory, dict(banks)
        self._sms = _all_sms(sm_count) if sms is None else np.array(sms, np.int64)
        self._zeros = aligned_words(64)
        """Contents of absent banks."""
        self._table: tuple[npt.NDArray[np.uint64] | None, int] = None, 0
        """The last launch's table of allocations, and its host address."""
        self._words = words = np.zeros(_BANK0_AT // 8, np.int64)
        values = {
            **dict(zip(("grid_x", "grid_y", "grid_z"), geometry.grid, strict=True)),
            **dict(zip(("block_x", "block_y", "block_z"), geometry.block, strict=True)),
            **dict(zip(("cluster_x", "cluster_y", "cluster_z"), geometry.cluster_shape, strict=True)),
            **dict(zip(("clusters_x", "clusters_y", "clusters_z"), geometry.clusters, strict=True)),
            "cluster_count": geometry.cluster_blocks,
            "explicit_cluster": geometry.cluster is not None,
            "dynamic_shared_bytes": geometry.dynamic_shared_bytes,
            "host_minus_device": memory.host_minus_device,
            "sm_count": sm_count,
            "lanes": program.lanes,
            "taking_sms": self._sms.ctypes.data,
            "taking_sm_count": len(self._sms),
            "local_bytes_per_thread": stack_bytes(program),
        }
        for name, value in values.items():
            words[LAUNCH.slot(name)] = value
        words[_BANK0 : _BANK0 + 8] = host_address(self._zeros)
        for number, contents in banks.items():
            words[_BANK0 + number] = contents.ctypes.data
            words[_BANK0_BYTES + number] = contents.nbytes

    def context(self, bank0: bytes | bytearray) -> LaunchContext:
        """A launch's own copy, with its constant bank 0 (from :func:`constant_bank0`)."""
        size = len(bank0)
        room = aligned_words(_BANK0_AT + (size + 127) // 64 * 64)
        room[: _BANK0_AT // 8] = self._words
        own = room.view(np.uint8)[_BANK0_AT : _BANK0_AT + size]
        own[:] = np.frombuffer(bank0, dtype=np.uint8)
        table = self._memory.table()
        known, table_at = self._table
        if known is not table:
            table_at = int(table.ctypes.data)
            self._table = table, table_at
        room[_ALLOCATIONS], room[_ALLOCATION_COUNT] = table_at, len(table)
        keep: list[Any] = [table, room, self._zeros]
        if self._memory.pages is not None:
            pages = self._memory.page_table()
            room[_PAGES], room[_PAGE_COUNT] = int(pages.ctypes.data), len(pages)
            room[_OVERRUN] = host_address(self._memory.pages.noted)
            keep.append(pages)
        room[_BANK0], room[_BANK0_BYTES] = host_address(room) + _BANK0_AT, size
        return LaunchContext(
            self._program,
            self._geometry,
            self._memory,
            room[: _BANK0_AT // 8],
            {**self._banks, 0: own},
            keep,
            self._sms,
        )
