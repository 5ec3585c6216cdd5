"""cuFFT: plans of one to three dimensions, any size, strided and batched; real and complex, in half, single and double precision."""

from __future__ import annotations

import struct
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

from warpwright.driver import cmemory
from warpwright.driver.memory import allocate
from warpwright.driver.memory import free as free_memory
from warpwright.libraries import library_kernels
from warpwright.libraries.calls import LibraryError, entry, invalid, unsupported

_ARGUMENTS = "<2Qq5i4x2q2i"
_THREADS = 256
_LARGEST_RADIX = 16
_C2C, _R2C, _C2R = 0x29, 0x2A, 0x2C
_Z2Z, _D2Z, _Z2D = 0x69, 0x6A, 0x6C
"""cufftType."""
_FORWARD, _INVERSE = -1, 1
_KINDS: dict[tuple[int, int], tuple[str, bool, bool]] = {
    # cudaDataType of input and output: the scalar, and whether each is real.
    (6, 6): ("half_t", False, False),
    (2, 6): ("half_t", True, False),
    (6, 2): ("half_t", False, True),
    (4, 4): ("float", False, False),
    (0, 4): ("float", True, False),
    (4, 0): ("float", False, True),
    (5, 5): ("double", False, False),
    (1, 5): ("double", True, False),
    (5, 1): ("double", False, True),
}
_OF_TYPE = {_C2C: (4, 4), _R2C: (0, 4), _C2R: (4, 0), _Z2Z: (5, 5), _D2Z: (1, 5), _Z2D: (5, 1)}


@dataclass(slots=True)
class Layout:
    """Where elements are: sizes of the dimensions in memory but the first, steps between elements and transforms."""

    embed: list[int]
    step: int
    distance: int


@dataclass(eq=False)
class Plan:
    """What cufftCreate makes and a plan function fills."""

    of_null: ClassVar[int] = 0
    stream: int = 0
    allocates: bool = True
    work: int = 0
    owned: int = 0
    sizes: list[int] = field(default_factory=list)
    batch: int = 1
    kind: tuple[str, bool, bool] = ("", False, False)
    input: Layout = field(default_factory=lambda: Layout([], 1, 0))
    output: Layout = field(default_factory=lambda: Layout([], 1, 0))

    @property
    def real(self) -> str:
        """The type of computation."""
        return "double" if self.kind[0] == "double" else "float"

    @property
    def count(self) -> int:
        """Elements of all transforms."""
        return self.batch * prod(self.sizes)

    @property
    def work_bytes(self) -> int:
        """Two buffers of complex numbers."""
        return 2 * self.count * (16 if self.real == "double" else 8)


_plans: dict[int, Plan] = {}
"""cufftHandle is an int."""


def _plan(number: int) -> Plan:
    if number not in _plans:
        raise LibraryError("not_initialized")
    return _plans[number]


@entry("cufftCreate")
def create(place: int) -> None:
    number = max(_plans, default=0) + 1
    _plans[number] = Plan()
    cmemory.put32(place, number)


@entry("cufftDestroy")
def destroy(number: int) -> None:
    plan = _plan(number)
    if plan.owned:
        library_kernels.synchronize(plan.stream)
        free_memory(plan.owned)
    del _plans[number]


@entry("cufftSetStream")
def set_stream(number: int, stream: int) -> None:
    _plan(number).stream = stream


@entry("cufftSetAutoAllocation")
def set_auto_allocation(number: int, allocates: int) -> None:
    _plan(number).allocates = bool(allocates)


@entry("cufftSetWorkArea")
def set_work_area(number: int, work: int) -> None:
    _plan(number).work = work


@entry("cufftGetSize")
def get_size(number: int, place: int) -> None:
    cmemory.put64(place, _plan(number).work_bytes)


@entry("cufftGetVersion")
def get_version(place: int) -> None:
    cmemory.put32(place, 12200)


@entry("cufftGetProperty")
def get_property(kind: int, place: int) -> None:
    if not 0 <= kind < 3:
        raise invalid()
    cmemory.put32(place, (12, 2, 0)[kind])


def _layout(sizes: list[int], halved: bool, embed: list[int] | None, step: int, distance: int) -> Layout:
    stored = [*sizes[:-1], sizes[-1] // 2 + 1] if halved else sizes
    if embed is None:
        return Layout(stored[1:], 1, prod(stored))
    return Layout(embed[1:], step, distance)


def make(
    plan: Plan,
    sizes: list[int],
    types: tuple[int, int],
    batch: int,
    layouts: tuple[tuple[list[int] | None, int, int], ...],
) -> int:
    """Fill a plan; returns the bytes of its work area.

    Raises:
        LibraryError: no such sizes or types.
    """
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1 or batch < 1:
        raise invalid("sizes of one to three dimensions, and of the batch, are at least 1")
    if types not in _KINDS:
        raise unsupported(f"transforms of cudaDataType {types[0]} to {types[1]} are not provided")
    plan.sizes, plan.batch, plan.kind = sizes, batch, _KINDS[types]
    _, real_in, real_out = plan.kind
    plan.input, plan.output = (
        _layout(sizes, halved, *layout) for halved, layout in zip((real_out, real_in), layouts, strict=True)
    )
    if plan.allocates:
        plan.work = plan.owned = allocate(plan.work_bytes)
    return plan.work_bytes


def _numbers(place: int, count: int, wide: bool) -> list[int] | None:
    return list(cmemory.read(f"{count}{'q' if wide else 'i'}", place)) if place else None


XtMakePlan = namedtuple(
    "XtMakePlan",
    "number rank sizes in_embed in_step in_distance in_type out_embed out_step out_distance out_type batch work execution",
)
"""Arguments of cufftXtMakePlanMany."""


@entry("cufftXtMakePlanMany", record=XtMakePlan)
def xt_make_plan(call: XtMakePlan) -> None:
    given = _numbers(call.sizes, call.rank, True)
    layouts = (
        (_numbers(call.in_embed, call.rank, True), call.in_step, call.in_distance),
        (_numbers(call.out_embed, call.rank, True), call.out_step, call.out_distance),
    )
    if given is None:
        raise invalid()
    cmemory.put64(call.work, make(_plan(call.number), given, (call.in_type, call.out_type), call.batch, layouts))


def _make_many(arguments: Sequence[int], wide: bool) -> None:
    """The arguments of cufftMakePlanMany, whose arrays are of 64-bit numbers where they are wide."""
    number, rank, sizes, *layout, type, batch, work = arguments
    in_embed, in_step, in_distance, out_embed, out_step, out_distance = layout
    given = _numbers(sizes, rank, wide)
    if given is None or type not in _OF_TYPE:
        raise invalid()
    layouts = (
        (_numbers(in_embed, rank, wide), in_step, in_distance),
        (_numbers(out_embed, rank, wide), out_step, out_distance),
    )
    cmemory.put64(work, make(_plan(number), given, _OF_TYPE[type], batch, layouts))


@entry("cufftMakePlanMany")
def make_many(*arguments: int) -> None:
    _make_many(arguments, False)


@entry("cufftMakePlanMany64")
def make_many_64(*arguments: int) -> None:
    _make_many(arguments, True)


@entry("cufftPlanMany")
def plan_many(place: int, *arguments: int) -> None:
    create(place)
    _make_many((cmemory.get32(place), *arguments, 0), False)


def _make_plain(number: int, sizes: list[int], type: int, batch: int, work: int) -> None:
    if type not in _OF_TYPE:
        raise invalid()
    cmemory.put64(work, make(_plan(number), sizes, _OF_TYPE[type], batch, ((None, 1, 0), (None, 1, 0))))


@entry("cufftMakePlan1d")
def make_1d(number: int, n: int, type: int, batch: int, work: int) -> None:
    _make_plain(number, [n], type, batch, work)


@entry("cufftMakePlan2d")
def make_2d(number: int, n: int, m: int, type: int, work: int) -> None:
    _make_plain(number, [n, m], type, 1, work)


@entry("cufftMakePlan3d")
def make_3d(number: int, n: int, m: int, k: int, type: int, work: int) -> None:
    _make_plain(number, [n, m, k], type, 1, work)


@entry("cufftPlan1d")
def plan_1d(place: int, n: int, type: int, batch: int) -> None:
    create(place)
    _make_plain(cmemory.get32(place), [n], type, batch, 0)


@entry("cufftPlan2d")
def plan_2d(place: int, n: int, m: int, type: int) -> None:
    create(place)
    _make_plain(cmemory.get32(place), [n, m], type, 1, 0)


@entry("cufftPlan3d")
def plan_3d(place: int, n: int, m: int, k: int, type: int) -> None:
    create(place)
    _make_plain(cmemory.get32(place), [n, m, k], type, 1, 0)


# --- execution --------------------------------------------------------------------------------------
def radices(size: int) -> list[int]:
    """Factors of a size whose stages are few and cheap: up to 16, and its larger primes."""
    found, rest = [], size
    while rest > 1:
        for radix in range(_LARGEST_RADIX, 1, -1):
            if rest % radix == 0:
                break
        else:
            radix = next(p for p in range(_LARGEST_RADIX + 1, rest + 1) if rest % p == 0)
        found.append(radix)
        rest //= radix
    return found


def _copy_arguments(plan: Plan, source: int, target: int, layout: Layout, halved: bool, real: bool) -> bytes:
    sizes = [1] * (3 - len(plan.sizes)) + plan.sizes
    embed = [1] * (2 - len(layout.embed)) + layout.embed
    return struct.pack(
        _ARGUMENTS, source, target, plan.count, *sizes, *embed, layout.step, layout.distance, halved, real
    )


def execute(plan: Plan, source: int, target: int, direction: int) -> None:
    """Submit a transform to the plan's stream.

    Raises:
        LibraryError: the plan has no sizes, or no work area.
    """
    if not plan.sizes:
        raise LibraryError("not_initialized", "the handle has no plan")
    if not plan.work:
        raise LibraryError("not_initialized", "the plan has no work area: give it one with cufftSetWorkArea")
    scalar, real_in, real_out = plan.kind
    code = library_kernels.code("fft.cu", "cuFFT", SCALAR=scalar, REAL=plan.real)
    grid = [-(-plan.count // _THREADS)]
    here, there = plan.work, plan.work + plan.work_bytes // 2
    arguments = _copy_arguments(plan, source, here, plan.input, real_out, real_in)
    library_kernels.launch(code, "warpwright_fft_load", grid, _THREADS, plan.stream, [arguments])
    inner = 1
    for size in reversed(plan.sizes):
        done = 1
        for radix in radices(size):
            stage = [here, there, plan.count, size, inner, done, radix, direction]
            library_kernels.launch(code, "warpwright_fft_stage", grid, _THREADS, plan.stream, stage)
            here, there, done = there, here, done * radix
        inner *= size
    arguments = _copy_arguments(plan, here, target, plan.output, real_in, real_out)
    library_kernels.launch(code, "warpwright_fft_store", grid, _THREADS, plan.stream, [arguments])


@entry("cufftXtExec", "cufftExecC2C", "cufftExecZ2Z")
def exec_directed(number: int, source: int, target: int, direction: int) -> None:
    plan = _plan(number)
    _, real_in, real_out = plan.kind
    if direction not in (_FORWARD, _INVERSE):
        raise invalid()
    execute(plan, source, target, _FORWARD if real_in else _INVERSE if real_out else direction)


@entry("cufftExecR2C", "cufftExecD2Z")
def exec_forward(number: int, source: int, target: int) -> None:
    execute(_plan(number), source, target, _FORWARD)


@entry("cufftExecC2R", "cufftExecZ2D")
def exec_inverse(number: int, source: int, target: int) -> None:
    execute(_plan(number), source, target, _INVERSE)
