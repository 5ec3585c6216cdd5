"""Addresses of a warp's access: the lanes' offsets from a scalar, and LLVM text for pointers and masks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from warpwright.engine.abi import SHARED_OFFSETS
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.load_windows import AccessGroup
from warpwright.engine.jit.shapes import SCALAR_KIND, UNSET_KIND, VECTOR, VECTOR_KIND, Pattern, Shape
from warpwright.isa.ops import Access

WINDOW_LIMIT_BYTES = 512
"""Maximum extent in bytes that a patterned load reads as one window."""
FEW_PLACES = 4
"""A patterned load with at most this many distinct addresses reads each of them once and broadcasts it."""


def is_uniform(value: Val) -> bool:
    return value.shape.kind != VECTOR_KIND and value.shape.pattern is None


def parts_of(type: str) -> int:
    return {"i32x2": 2, "i32x4": 4, "i64": 2}.get(type, 1)


class Spread(NamedTuple):
    """The layout of an access's lanes, given by the pattern of their addresses."""

    low: int
    """The lowest offset, in bytes."""
    span: int
    """Distance in bytes from the lowest to the highest offset."""
    offsets: Sequence[int] | None
    """Each lane's distance from the lowest offset, in units of the access size; None if it is not a whole number."""
    places: int
    """Number of distinct offsets."""


@cache
def spread_of(pattern: Pattern, size: int) -> Spread:
    """The layout of accesses of ``size`` bytes whose addresses have a pattern."""
    low, high = min(pattern), max(pattern)
    whole = not any((p - low) % size for p in pattern)
    offsets = tuple((p - low) // size for p in pattern) if whole else None
    return Spread(low, high - low, offsets, len(set(pattern)))


class Place:
    """Address of one access: its checked part, and how lanes spread from it."""

    def __init__(
        self, w: FunctionWriter, address: Val, access: Access, store: bool = False, exact: bool = False
    ) -> None:
        self.w = w
        self.address = address
        self.access = access
        self.size = access.bytes
        shape = address.shape
        self.wide = access.space in ("global", "generic")
        self.pattern: Pattern | None = shape.pattern if shape.kind == SCALAR_KIND else None
        self.scattered = shape.kind == VECTOR_KIND
        self.spread = spread = spread_of(self.pattern or (0,) * w.lanes, self.size)
        self.low = spread.low
        self.extent = spread.span + self.size
        self.offsets: Sequence[int] | None = None
        self.runs: Sequence[tuple[int, int]] = ()
        """(first lane, number of lanes) of runs of neighbouring addresses, if a store consists of few of them."""
        self.group: AccessGroup | None = None
        self.proven = self._is_proven()
        """Whether no lane can fault in any launch."""
        if w.setting.clustered and access.space == "shared" and not self.proven:
            self.address = offset_of(w, address)
        if self.pattern is not None:
            if self.extent > WINDOW_LIMIT_BYTES or spread.offsets is None or access.space == "local":
                self.scattered = True
            else:
                self.offsets = spread.offsets
                length = self.extent // min(self.size, 4)
                readable = spread.places <= FEW_PLACES or length & (length - 1) == 0
                if store and not self.consecutive:
                    # Later runs have higher lanes and overwrite earlier ones.
                    runs = runs_of(self.offsets)
                    self.runs = runs if len(runs) <= FEW_PLACES else ()
                self.scattered = not (self.consecutive or self.runs if store else readable)
        elif not self.scattered and access.space == "generic":
            # A uniform generic address may be in local memory, which differs from lane to lane.
            self.offsets = [0] * w.lanes
        if self.scattered or exact:
            self.extent = self.size

    def _is_proven(self) -> bool:
        """Whether static shared memory holds every address that the shape allows."""
        shape = self.address.shape
        if self.access.space != "shared" or shape.kind != SCALAR_KIND or shape.bound < 0 or shape.align % self.size:
            return False
        below = self.low < 0 and (shape.const is None or shape.const + self.low < 0)
        last = shape.bound + self.low + self.extent
        aligned = self.low % self.size == 0 and self.spread.offsets is not None
        return not below and last <= self.w.program.shared_static_bytes and aligned

    @property
    def kind(self) -> str:
        return "i64" if self.wide else "i32"

    @property
    def consecutive(self) -> bool:
        return self.offsets == self.w.all_lanes

    def start(self) -> str:
        """Address of the lowest byte that any lane accesses."""
        base = self.w.scalar(self.address)
        return base if not self.low else self.w.op(f"add {self.kind} {base}, {self.low}")


def offset_of(w: FunctionWriter, address: Val) -> Val:
    """A shared address without its block's rank, because it refers to the block's own memory whatever the rank.

    Addresses that exceed the window only because of their rank are corrected when their check fails
    (``exact_accesses.py``).
    """
    shape = address.shape
    if shape.kind == UNSET_KIND:
        return address
    if shape.kind == VECTOR_KIND:
        mask = w.literal_vector("i32", (SHARED_OFFSETS,) * w.lanes)
        return Val("i32", VECTOR, vector=w.op(f"and {w.vec32} {w.vector(address)}, {mask}"))
    known = ("shared offset", w.scalar(address))
    if known not in w.numbered:
        name = w.op(f"and i32 {w.scalar(address)}, {SHARED_OFFSETS}")
        w.numbered[known] = Val("i32", Shape(SCALAR_KIND), scalar=name)
    name = w.numbered[known].scalar
    return Val("i32", Shape(SCALAR_KIND, shape.pattern, None, min(shape.align, SHARED_OFFSETS + 1)), scalar=name)


def runs_of(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """(first lane, number of lanes) of each maximal run of lanes whose offsets increase by one."""
    lanes = len(offsets)
    firsts = [n for n in range(lanes) if n == 0 or offsets[n] != offsets[n - 1] + 1]
    return [(a, b - a) for a, b in zip(firsts, [*firsts[1:], lanes], strict=True)]


def shift_of(size: int) -> int:
    return size.bit_length() - 1


def addresses_vector(w: FunctionWriter, place: Place) -> str:
    """Every lane's address as a vector of i64."""
    vector = w.vector(place.address)
    return vector if place.wide else w.op(f"zext {w.vec32} {vector} to {w.vec64}")


def settle(w: FunctionWriter, address: Val) -> None:
    """Give an address an LLVM name before control flow splits."""
    if address.rows:
        return
    if address.shape.kind == VECTOR_KIND:
        w.vector(address)
    elif address.shape.const is None:
        w.scalar(address)


def part_pointer(w: FunctionWriter, place: Place, pointer: str, part: int) -> str:
    """Pointer to a further word: adjacent, or one row below in local memory."""
    if part == 0:
        return pointer
    step = w.row_bytes * part if place.access.space == "local" else 4 * part
    return w.op(f"getelementptr i8, {w.vecptr} {pointer}, i64 {step}")


def lanes_to_touch(w: FunctionWriter, pointers: str) -> tuple[str, str]:
    """(pointers, vector of i1) of a gather or scatter by the executing lanes.

    Machines without mask registers mostly execute gathers lane by lane, with a branch for each.  On these, inactive
    lanes access scratch memory instead.
    """
    mask = w.mask_vector(w.exec)
    if w.registers.masks or w.exec.bits == "-1":
        return pointers, mask
    one = w.op(f"insertelement {w.vecptr} poison, ptr %lane_values, i64 0")
    aside = w.op(f"shufflevector {w.vecptr} {one}, {w.vecptr} poison, {w.vec32} zeroinitializer")
    pointers = w.op(f"select {w.vecbool} {mask}, {w.vecptr} {pointers}, {w.vecptr} {aside}")
    return pointers, w.literal_vector("i1", (1,) * w.lanes)


def masked_stores(w: FunctionWriter, type: str, parts: Sequence[tuple[str, str, Sequence[int]]], align: int) -> None:
    """Store the elements of vectors that belong to executing lanes.

    Args:
        parts: vector, pointer and each element's lane.
    """

    def store_all() -> None:
        for value, pointer, lanes in parts:
            w.emit(f"store <{len(lanes)} x {type}> {value}, ptr {pointer}, align {align}")

    if w.exec.bits == "-1":
        store_all()
        return
    end = ""
    if not w.registers.masks:
        # A masked store takes many times as long as a plain one there.
        whole, some, end = w.new_label("whole"), w.new_label("some"), w.new_label("done")
        w.emit(f"br i1 {w.op(f'icmp eq {w.mask_type} {w.exec.bits}, -1')}, label %{whole}, label %{some}, !prof !0")
        w.label(whole)
        store_all()
        w.emit(f"br label %{end}")
        w.label(some)
    for value, pointer, lanes in parts:
        mask, vec = w.mask_lanes(w.exec, lanes), f"<{len(lanes)} x {type}>"
        name = f"llvm.masked.store.v{len(lanes)}{type}.p0"
        w.declared[name] = f"declare void @{name}({vec}, ptr, i32, <{len(lanes)} x i1>)"
        w.emit(f"call void @{name}({vec} {value}, ptr {pointer}, i32 {align}, <{len(lanes)} x i1> {mask})")
    if end:
        w.emit(f"br label %{end}")
        w.label(end)


def word_lanes(lanes: Iterable[int], count: int) -> tuple[int, ...]:
    """The lane of each word in elements of ``count`` words."""
    return tuple(lane for lane in lanes for _ in range(count))


def mask_literal(indices: Iterable[int]) -> str:
    """Lane numbers of a shuffle as LLVM text."""
    return _mask_literal(tuple(indices))


@cache
def _mask_literal(indices: tuple[int, ...]) -> str:
    return "<" + ", ".join(f"i32 {i}" for i in indices) + ">"
