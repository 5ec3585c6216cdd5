"""Triangular solves of cuBLAS, and its batched factorisations and least squares: trsm, getrf, getrs, geqrf, gels."""

from __future__ import annotations

from collections import namedtuple

from warpwright.driver import cmemory
from warpwright.libraries.calls import entry, invalid, unsupported
from warpwright.libraries.cublas.handles import DEVICE_SCALARS, Handle, handle_of
from warpwright.libraries.dense import PLAIN, Batch, Solver, Triangle
from warpwright.libraries.element_types import OF_LETTER, read_scalar


def _alpha(handle: Handle, place: int, type: int) -> tuple[int, complex]:
    if not place:
        raise invalid()
    return (place, complex(0)) if handle.pointer_mode == DEVICE_SCALARS else (0, read_scalar(place, type))


Trsm = namedtuple("Trsm", "number side fill op unit m n alpha a lda b ldb")
"""Arguments of cublas…trsm_v2."""

TrsmBatched = namedtuple("TrsmBatched", "number side fill op unit m n alpha a lda b ldb count")
"""Arguments of cublas…trsmBatched."""

Getrs = namedtuple("Getrs", "number op n columns a lda pivots b ldb info count")
"""Arguments of cublas…getrsBatched."""

Gels = namedtuple("Gels", "number op m n columns a lda c ldc info device_info count")
"""Arguments of cublas…gelsBatched."""


def _refused_argument(call: Gels) -> int:
    """The place of the first argument that no call may have, counted from 1 without the handle; 0: none."""
    least = max(1, call.m)
    wrong = {
        2: call.m < 0,
        3: call.n < 0,
        4: call.columns < 0,
        6: call.lda < least,
        8: call.ldc < least,
        11: call.count < 0,
    }
    return next((place for place, refused in wrong.items() if refused), 0)


def _register(letter: str) -> None:
    type = OF_LETTER[letter]

    def solver(handle: Handle) -> Solver:
        return Solver(type, handle.stream, "cuBLAS")

    @entry(f"cublas{letter}trsm_v2", f"cublas{letter}trsm_v2_64", record=Trsm)
    def trsm(call: Trsm) -> None:
        handle = handle_of(call.number)
        given = _alpha(handle, call.alpha, type)
        solver(handle).trsm(
            Triangle(call.side, call.fill, call.op, call.unit),
            (call.m, call.n),
            given,
            (Batch(call.a), call.lda),
            (Batch(call.b), call.ldb),
        )

    @entry(f"cublas{letter}trsmBatched", f"cublas{letter}trsmBatched_64", record=TrsmBatched)
    def trsm_batched(call: TrsmBatched) -> None:
        handle = handle_of(call.number)
        given, of_a, of_b = (
            _alpha(handle, call.alpha, type),
            (Batch(pointers=call.a), call.lda),
            (Batch(pointers=call.b), call.ldb),
        )
        solver(handle).trsm(
            Triangle(call.side, call.fill, call.op, call.unit), (call.m, call.n), given, of_a, of_b, call.count
        )

    @entry(f"cublas{letter}getrfBatched")
    def getrf(number: int, n: int, a: int, lda: int, pivots: int, info: int, count: int) -> None:
        solver(handle_of(number)).getrf(n, n, Batch(pointers=a), lda, pivots, info, count)

    @entry(f"cublas{letter}getrsBatched", record=Getrs)
    def getrs(call: Getrs) -> None:
        handle = handle_of(call.number)
        wrong = min(call.n, call.columns, call.count) < 0 or call.lda < max(1, call.n) or call.ldb < max(1, call.n)
        cmemory.put32(call.info, 0)
        if wrong:
            raise invalid()
        of_a, of_b = (Batch(pointers=call.a), call.lda), (Batch(pointers=call.b), call.ldb)
        solver(handle).getrs(call.op, call.n, call.columns, of_a, call.pivots, of_b, call.count)

    @entry(f"cublas{letter}geqrfBatched")
    def geqrf(number: int, m: int, n: int, a: int, lda: int, tau: int, info: int, count: int) -> None:
        cmemory.put32(info, 0)
        solver(handle_of(number)).geqrf(m, n, Batch(pointers=a), lda, Batch(pointers=tau), count)

    @entry(f"cublas{letter}gelsBatched", record=Gels)
    def gels(call: Gels) -> None:
        handle = handle_of(call.number)
        refused = _refused_argument(call)
        cmemory.put32(call.info, -refused)
        if refused:
            raise invalid()
        if call.op != PLAIN or call.m < call.n:
            raise unsupported("least squares are those of more equations than unknowns, not transposed")
        of_a, of_c = (Batch(pointers=call.a), call.lda), (Batch(pointers=call.c), call.ldc)
        solver(handle).gels((call.m, call.n, call.columns), of_a, of_c, call.device_info, call.count)


for _letter in "SDCZ":
    _register(_letter)
