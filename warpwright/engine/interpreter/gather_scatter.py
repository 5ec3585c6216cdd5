"""The interpreter's memory accesses: checked gathers, scatters and atomics over NumPy bytes.

Global memory is any object with ``bytes`` (a flat uint8 array), ``base`` (the device address of its first
byte) and ``table`` (sorted pairs of first byte and end of each allocation); :func:`global_memory` makes one
of a :class:`~warpwright.engine.device_memory.DeviceMemory`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from warpwright.engine import numerics
from warpwright.engine.abi import (
    LOCAL_WINDOW,
    SHARED_OFFSETS,
    SHARED_RANK_SHIFT,
    SHARED_WINDOW,
    SHARED_WINDOW_BYTES,
    WINDOW_BYTES,
    FaultKind,
)
from warpwright.engine.bulk import BulkFault
from warpwright.engine.card_pages import CardPages
from warpwright.engine.device_memory import DeviceMemory
from warpwright.isa import mbarrier
from warpwright.isa.ops import Access

if TYPE_CHECKING:
    from warpwright.engine.interpreter.warp import WarpState

Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[Any]
DTYPES: dict[int, type[np.unsignedinteger[Any]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Global(Protocol):
    """What global memory must offer."""

    @property
    def bytes(self) -> npt.NDArray[np.uint8]: ...
    @property
    def base(self) -> int: ...
    @property
    def table(self) -> npt.NDArray[np.uint64]: ...
    @property
    def page_table(self) -> npt.NDArray[np.uint64]: ...
    @property
    def pages(self) -> CardPages | None: ...


@dataclass(slots=True)
class GlobalBytes:
    """Global memory as one array of bytes."""

    bytes: npt.NDArray[np.uint8]
    base: int
    table: npt.NDArray[np.uint64]
    page_table: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros((0, 2), np.uint64))
    """Mapped pages, in which accesses outside all allocations do not fault."""
    pages: CardPages | None = None
    """Takes note of such accesses."""


def global_memory(memory: DeviceMemory) -> GlobalBytes:
    """The interpreter's view of a device's memory; valid until the next allocation."""
    whole = memory.view(memory.base, memory.span_bytes)
    return GlobalBytes(whole, memory.base, memory.table(), memory.page_table(), memory.pages)


class MemoryFault(Exception):
    """A misaligned access, or one outside its space."""

    def __init__(self, kind: FaultKind, address: int, lanes: int, size: int) -> None:
        super().__init__(f"{kind.name}: {size} bytes at {address:#x}")
        self.kind = kind
        self.address = address
        self.lanes = lanes
        self.bytes = size


def mask_bits(m: Mask) -> int:
    """A lane mask as an integer, lane 0 lowest."""
    return int.from_bytes(np.packbits(m, bitorder="little").tobytes(), "little")


def mask_dtype(lanes: int) -> type[np.unsignedinteger[Any]]:
    """Type of a mask with one bit per lane."""
    return DTYPES[lanes // 8]


class Space:
    """One address space: the position of a lane's bytes in a flat array, and what counts as a fault."""

    out_of_bounds = FaultKind.OUT_OF_BOUNDS
    journal: list[tuple[Words, Words, Words]] | None = None
    """Journal for undoing a launch: array, positions in it and their old contents, for each write."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        self._look_at(data[: len(data) // 16 * 16])

    def _look_at(self, whole: npt.NDArray[np.uint8]) -> None:
        self.data = whole
        self.views = {n: whole.view(DTYPES[n]) for n in (1, 2, 4, 8)}

    def __deepcopy__(self, memo: dict[int, Any]) -> Space:
        # Its views must refer to one array again.
        twin = copy.copy(self)
        twin._look_at(self.data.copy())
        return twin

    def places(self, at: Words, size: int, m: Mask) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(lanes, byte offsets) of the executing lanes; raises MemoryFault."""
        lanes = np.flatnonzero(m)
        addresses = at[lanes].astype(np.int64)
        if not len(lanes):
            return lanes, addresses
        wrong = (addresses & (size - 1)) != 0
        if wrong.any():
            self.fault(FaultKind.MISALIGNED, lanes, addresses, wrong, size)
        wrong = self.outside(addresses, size)
        if wrong.any():
            self.fault(self.out_of_bounds, lanes, addresses, wrong, size)
        return lanes, self.offsets(addresses, lanes)

    def fault(self, kind: FaultKind, lanes: Words, addresses: Words, wrong: Mask, size: int) -> None:
        first = int(np.flatnonzero(wrong)[0])
        bits = sum(1 << int(lane) for lane in lanes[wrong])
        raise MemoryFault(kind, int(addresses[first]) & 0xFFFFFFFFFFFFFFFF, bits, size)

    def outside(self, addresses: Words, size: int) -> Mask:
        raise NotImplementedError

    def offsets(self, addresses: Words, lanes: Words) -> npt.NDArray[np.int64]:
        raise NotImplementedError

    def word_stride(self) -> int:
        """Bytes between consecutive words of one lane."""
        return 4

    def note(self, view: Words, places: Words) -> None:
        """Record the old contents of a write."""
        if self.journal is not None:
            self.journal.append((view, places, view[places]))

    def take_back(self) -> None:
        """Undo every write recorded in the journal."""
        assert self.journal is not None
        while self.journal:
            view, places, before = self.journal.pop()
            view[places] = before

    def load(self, at: Words, size: int, m: Mask) -> Words:
        lanes, offsets = self.places(at, size, m)
        if size <= 4:
            value = np.zeros(len(m), DTYPES[size])
            value[lanes] = self.views[size][offsets >> (size.bit_length() - 1)]
            return value
        words = np.zeros((size // 4, len(m)), np.uint32)
        stride = self.word_stride()
        for n in range(size // 4):
            words[n, lanes] = self.views[4][(offsets + n * stride) >> 2]
        return words

    def store(self, at: Words, value: Words, size: int, m: Mask) -> None:
        lanes, offsets = self.places(at, size, m)
        if size <= 4:
            view, places = self.views[size], offsets >> (size.bit_length() - 1)
            self.note(view, places)
            view[places] = value[lanes]
            return
        stride = self.word_stride()
        for n in range(size // 4):
            places = (offsets + n * stride) >> 2
            self.note(self.views[4], places)
            self.views[4][places] = value[n, lanes]

    def atomic(self, at: Words, operand: Words, compare: Words | None, how: Access, m: Mask) -> Words:
        """Lane by lane, lowest first."""
        if how.bytes == 16:
            return self.exchange(at, operand, compare, m)
        if how.operation == "cast":
            assert compare is not None
            return self.cast(at, operand, compare, how.bytes, m)
        lanes, offsets = self.places(at, how.bytes, m)
        view = self.views[how.bytes]
        self.note(view, offsets // how.bytes)
        old = np.zeros(len(m), view.dtype)
        for lane, offset in zip(lanes, offsets, strict=True):
            place = int(offset) // how.bytes
            before = view[place : place + 1]
            old[lane] = before[0]
            other = operand[lane : lane + 1]
            third = None if compare is None else compare[lane : lane + 1]
            if how.operation != "cas":
                view[place] = combine(how, before, other, third)[0]
            elif third is not None and before[0] == third[0]:
                view[place] = other[0]
        return old

    def cast(self, at: Words, operand: Words, compare: Words, size: int, m: Mask) -> Words:
        """Compare-and-swap by the lowest lane on each bank (with 8 bytes: in each half-warp); returns 1 where it was
        done."""
        lanes, offsets = self.places(at, size, m)
        view, places = self.views[size], offsets // size
        self.note(view, places)
        done = np.zeros(len(m), view.dtype)
        banks = [
            (place % (128 // size), lane // 16 if size == 8 else 0) for lane, place in zip(lanes, places, strict=True)
        ]
        for n, (lane, place) in enumerate(zip(lanes, places, strict=True)):
            if banks.index(banks[n]) == n and view[place] == compare[lane]:
                view[place] = operand[lane]
                done[lane] = 1
        return done

    def exchange(self, at: Words, operand: Words, compare: Words | None, m: Mask) -> Words:
        """Exchange or compare-and-swap of 16 bytes: words [4, lane]."""
        lanes, offsets = self.places(at, 16, m)
        rows = self.views[4].reshape(-1, 4)
        self.note(rows, offsets // 16)
        old = np.zeros((4, len(m)), np.uint32)
        for lane, offset in zip(lanes, offsets, strict=True):
            row = rows[int(offset) // 16]
            old[:, lane] = row
            if compare is None or np.array_equal(row, compare[:, lane]):
                row[:] = operand[:, lane]
        return old


def _outside(ranges: npt.NDArray[np.int64], addresses: Words, size: int) -> Mask:
    """Which accesses are not inside one of the ranges; rows of ``ranges``: first byte and end, ascending."""
    if not len(ranges):
        return np.ones(len(addresses), np.bool_)
    index = np.searchsorted(ranges[:, 0], addresses, side="right") - 1
    wrong: Mask = (index < 0) | (addresses + size > ranges[index, 1])
    return wrong


class GlobalSpace(Space):
    def __init__(self, memory: Global) -> None:
        super().__init__(memory.bytes)
        self.base = memory.base
        self.allocations = memory.table.astype(np.int64)
        self.mapped = memory.page_table.astype(np.int64)
        self.pages = memory.pages

    def __deepcopy__(self, memo: dict[int, Any]) -> Space:
        # A copy of warps is a copy of their own state; global memory, which belongs to the device, is copied separately.
        return self

    def outside(self, addresses: Words, size: int) -> Mask:
        wrong = _outside(self.allocations, addresses, size)
        if self.pages is None or not wrong.any():
            return wrong
        faults = wrong & _outside(self.mapped, addresses, size)
        overruns = np.flatnonzero(wrong & ~faults)
        if len(overruns):
            self.pages.note(int(addresses[overruns[0]]), size)
        return faults

    def offsets(self, addresses: Words, lanes: Words) -> npt.NDArray[np.int64]:
        return addresses - self.base


class SharedSpace(Space):
    out_of_bounds = FaultKind.SHARED_OUT_OF_BOUNDS

    def __init__(self, size_bytes: int) -> None:
        self.data = np.zeros((size_bytes + 15) // 16 * 16, np.uint8)
        self.size_bytes = size_bytes
        super().__init__(self.data)

    def outside(self, addresses: Words, size: int) -> Mask:
        return addresses + size > self.size_bytes

    def offsets(self, addresses: Words, lanes: Words) -> npt.NDArray[np.int64]:
        return addresses


class LocalSpace(Space):
    """Lane-interleaved: word w of lane l at (w * lanes + l) * 4."""

    out_of_bounds = FaultKind.LOCAL_OUT_OF_BOUNDS

    def __init__(self, bytes_per_lane: int, lanes: int) -> None:
        self.lanes = lanes
        self.size_bytes = (bytes_per_lane + 15) // 16 * 16
        self.data = np.zeros(self.size_bytes * lanes, np.uint8)
        super().__init__(self.data)

    def outside(self, addresses: Words, size: int) -> Mask:
        return addresses + size > self.size_bytes

    def offsets(self, addresses: Words, lanes: Words) -> npt.NDArray[np.int64]:
        return ((addresses >> 2) * self.lanes + lanes) * 4 + (addresses & 3)

    def word_stride(self) -> int:
        return 4 * self.lanes

    def atomic(self, at: Words, operand: Words, compare: Words | None, how: Access, m: Mask) -> Words:
        """For values whose words are not adjacent: no other lane can access them, so they are read, changed and
        written."""
        if how.bytes == 4:
            return super().atomic(at, operand, compare, how, m)
        values = _Values(self.load(at, how.bytes, m))
        old = values.atomic(at, operand, compare, how, m)
        self.store(at, values.words(), how.bytes, m)
        return old


class _Values(Space):
    """One value of several words per lane, independent of its address."""

    def __init__(self, words: Words) -> None:
        super().__init__(np.ascontiguousarray(words.T).view(np.uint8).reshape(-1))
        self._bytes = 4 * len(words)

    def outside(self, addresses: Words, size: int) -> Mask:
        return np.zeros(len(addresses), np.bool_)

    def offsets(self, addresses: Words, lanes: Words) -> npt.NDArray[np.int64]:
        return lanes.astype(np.int64) * self._bytes

    def words(self) -> Words:
        return np.ascontiguousarray(self.views[4].reshape(-1, self._bytes // 4).T)


INTEGER_ATOMICS: dict[str, Callable[[Words, Words], Words]] = {
    "add": lambda a, b: a + b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exch": lambda a, b: b,
    "umin": np.minimum,
    "umax": np.maximum,
    "inc": lambda a, b: np.where(a >= b, a.dtype.type(0), a + a.dtype.type(1)),
    "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - a.dtype.type(1)),
}


def change_half(how: Access, old: Words, operand: Words, place: Words) -> Words:
    """One half of a word: ``place`` is its first bit; the other half does not change."""
    before = (old >> place).astype(np.uint16)
    if how.operation == "cas_half":
        after = np.where(before == (operand >> 16).astype(np.uint16), operand.astype(np.uint16), before)
    else:
        total = numerics.fadd(how.type, before, operand.astype(np.uint16), "rn")
        after = numerics.canonical_nan(how.type, total)
    kept: Words = old & ~(np.uint32(0xFFFF) << place)
    return kept | after.astype(np.uint32) << place


def combine(how: Access, old: Words, operand: Words, third: Words | None = None) -> Words:
    """The result of an atomic in memory, for arrays of one element of raw bits."""
    name = how.operation
    if name in ("cas_half", "fadd_half"):
        assert third is not None
        return change_half(how, old, operand, third)
    if name == "mskor":
        assert third is not None
        kept: Words = old & ~third
        return kept | operand
    if name in INTEGER_ATOMICS:
        result: Words = INTEGER_ATOMICS[name](old, operand)
        return result
    if name == "mbarrier":
        return np.array([mbarrier.changed(int(old[0]), int(operand[0]))], np.uint64)
    if name in ("smin", "smax"):
        signed = f"i{old.dtype.itemsize}"
        choose = np.minimum if name == "smin" else np.maximum
        return choose(old.view(signed), operand.view(signed)).view(old.dtype)
    if name in ("fadd_f16x2", "fadd_bf16x2"):
        type = "f16" if name == "fadd_f16x2" else "bf16"
        return pairwise(type, lambda a, b: numerics.fadd(type, a, b, "rn"), old, operand)
    if name in ("fmin", "fmax") and how.type in ("f16x2", "bf16x2"):
        type = how.type[:-2]
        chosen = numerics.fmin if name == "fmin" else numerics.fmax
        return pairwise(type, lambda a, b: chosen(type, a, b, "number"), old, operand)
    if name == "fadd_ftz":
        total = numerics.fadd("f32", numerics.ftz("f32", old), numerics.ftz("f32", operand), "rn")
        return numerics.ftz("f32", numerics.canonical_nan("f32", total))
    if name == "fadd":
        total = numerics.canonical_nan(how.type, numerics.fadd(how.type, old, operand, "rn"))
        if how.type != "f64":
            return total
        # A NaN in the operand, or else in memory, is propagated unchanged.
        total = np.where(numerics.is_nan("f64", old), old, total)
        return np.where(numerics.is_nan("f64", operand), operand, total)
    if name == "fadd_quiet":
        total = numerics.canonical_nan("f64", numerics.fadd("f64", old, operand, "rn"))
        for x in (operand, old):
            total = np.where(numerics.is_nan("f64", x), x | np.uint64(1 << 51), total)
        return total
    if name in ("fmin", "fmax"):
        return (numerics.fmin if name == "fmin" else numerics.fmax)(how.type, old, operand, "number")
    raise ValueError(f"no atomic operation is called {name!r}")


def pairwise(type: str, operation: Any, old: Words, operand: Words) -> Words:
    """The operation on both halves of packed words."""
    halves = [
        numerics.canonical_nan(type, operation(old.view(np.uint16)[n::2].copy(), operand.view(np.uint16)[n::2].copy()))
        for n in range(2)
    ]
    return halves[0].astype(np.uint32) | halves[1].astype(np.uint32) << np.uint32(16)


class Member(Protocol):
    """What a block's warps need to know to access their cluster's memory."""

    @property
    def shared(self) -> SharedSpace: ...
    @property
    def cluster(self) -> Members: ...
    @property
    def ended(self) -> bool: ...


class Members(Protocol):
    """The blocks of a cluster."""

    @property
    def blocks(self) -> Sequence[Member]: ...


@dataclass(slots=True)
class Memories:
    """The spaces that one warp can access."""

    globals: GlobalSpace
    block: Member
    local: LocalSpace

    @property
    def shared(self) -> SharedSpace:
        """The block's own shared memory."""
        return self.block.shared

    def parts(self, at: Words, space: str, m: Mask) -> list[tuple[Space, Words, Mask]]:
        """(space, addresses in it, lanes): generic addresses are separated by window."""
        if space == "global":
            return [(self.globals, at, m)]
        if space == "shared":
            # In a cluster, an address of a block's own memory may contain a rank, which is ignored.
            alone = len(self.block.cluster.blocks) == 1
            return [(self.shared, at if alone else at & at.dtype.type(SHARED_OFFSETS), m)]
        if space == "local":
            return [(self.local, at, m)]
        shared = m & (at - np.uint64(SHARED_WINDOW) < np.uint64(SHARED_WINDOW_BYTES))
        local = m & (at - np.uint64(LOCAL_WINDOW) < np.uint64(WINDOW_BYTES))
        if not shared.any() and not local.any():
            return [(self.globals, at, m)]
        found: list[tuple[Space, Words, Mask]] = []
        if shared.any():
            found += self.of_cluster(at - np.uint64(SHARED_WINDOW), shared)
        if local.any():
            found.append((self.local, at - np.uint64(LOCAL_WINDOW), local))
        rest = m & ~shared & ~local
        if rest.any():
            found.append((self.globals, at, rest))
        return found

    def of_cluster(self, at: Words, m: Mask) -> list[tuple[Space, Words, Mask]]:
        """Lanes grouped by the block that their addresses in the shared window name."""
        found: list[tuple[Space, Words, Mask]] = []
        ranks = at >> np.uint64(SHARED_RANK_SHIFT)
        blocks = self.block.cluster.blocks
        for rank in sorted({int(r) for r in ranks[m]}):
            lanes = m & (ranks == rank)
            if rank >= len(blocks) or blocks[rank].ended:
                kind = FaultKind.NO_SUCH_BLOCK if rank >= len(blocks) else FaultKind.BLOCK_HAS_EXITED
                raise MemoryFault(kind, int(at[lanes][0]) + SHARED_WINDOW, mask_bits(lanes), 0)
            found.append((blocks[rank].shared, at & np.uint64(SHARED_OFFSETS), lanes))
        return found

    def load(self, at: Words, how: Access, m: Mask) -> Words:
        parts = self.parts(at, how.space, m)
        result = parts[0][0].load(parts[0][1], how.bytes, parts[0][2])
        for space, addresses, lanes in parts[1:]:
            result |= space.load(addresses, how.bytes, lanes)
        return result

    def store(self, at: Words, value: Words, how: Access, m: Mask) -> None:
        for space, addresses, lanes in self.parts(at, how.space, m):
            space.store(addresses, value, how.bytes, lanes)

    def atomic(self, at: Words, operand: Words, compare: Words | None, how: Access, m: Mask) -> Words:
        parts = self.parts(at, how.space, m)
        result = parts[0][0].atomic(parts[0][1], operand, compare, how, parts[0][2])
        for space, addresses, lanes in parts[1:]:
            result |= space.atomic(addresses, operand, compare, how, lanes)
        return result


class ClusterMemory:
    """Memory accessible to a warp's bulk copies."""

    def __init__(self, warp: WarpState) -> None:
        self.warp = warp

    @property
    def rank(self) -> int:
        return self.warp.block.cluster.blocks.index(self.warp.block)

    def shared(self, rank: int) -> npt.NDArray[np.uint8]:
        blocks = self.warp.block.cluster.blocks
        if rank >= len(blocks):
            raise BulkFault(FaultKind.NO_SUCH_BLOCK, SHARED_WINDOW + (rank << SHARED_RANK_SHIFT), 0)
        if blocks[rank].ended:
            raise BulkFault(FaultKind.BLOCK_HAS_EXITED, SHARED_WINDOW + (rank << SHARED_RANK_SHIFT), 0)
        return blocks[rank].shared.data[: blocks[rank].shared.size_bytes]

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        space = self.warp.launch.globals
        if space.outside(np.array([address], np.int64), size)[0]:
            raise BulkFault(FaultKind.OUT_OF_BOUNDS, address, size)
        first = address - space.base
        return space.views[1][first : first + size]
