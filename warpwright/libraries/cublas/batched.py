"""Triangular solves of cuBLAS, and its batched factorisations: trsm, getrf, getrs, geqrf."""

from __future__ import annotations

from warpwright.driver import cmemory
from warpwright.libraries.calls import entry, invalid
from warpwright.libraries.cublas.handles import DEVICE_SCALARS, Handle, handle_of
from warpwright.libraries.dense import Batch, Solver
from warpwright.libraries.element_types import OF_LETTER, read_scalar


def _alpha(handle: Handle, place: int, type: int) -> tuple[int, complex]:
    if not place:
        raise invalid()
    return (place, complex(0)) if handle.pointer_mode == DEVICE_SCALARS else (0, read_scalar(place, type))


def _register(letter: str) -> None:
    type = OF_LETTER[letter]

    def solver(handle: Handle) -> Solver:
        return Solver(type, handle.stream, "cuBLAS")

    @entry(f"cublas{letter}trsm_v2", f"cublas{letter}trsm_v2_64")
    def trsm(
        number: int, side: int, fill: int, op: int, unit: int, m: int, n: int, alpha: int, a: int, lda: int, b: int, ldb: int
    ) -> None:  # fmt: skip
        handle = handle_of(number)
        given = _alpha(handle, alpha, type)
        solver(handle).trsm(side, fill, op, unit, (m, n), given, (Batch(a), lda), (Batch(b), ldb))

    @entry(f"cublas{letter}trsmBatched", f"cublas{letter}trsmBatched_64")
    def trsm_batched(
        number: int, side: int, fill: int, op: int, unit: int, m: int, n: int, alpha: int, a: int, lda: int, b: int, ldb: int,
        count: int,
    ) -> None:  # fmt: skip
        handle = handle_of(number)
        given, of_a, of_b = _alpha(handle, alpha, type), (Batch(pointers=a), lda), (Batch(pointers=b), ldb)
        solver(handle).trsm(side, fill, op, unit, (m, n), given, of_a, of_b, count)

    @entry(f"cublas{letter}getrfBatched")
    def getrf(number: int, n: int, a: int, lda: int, pivots: int, info: int, count: int) -> None:
        solver(handle_of(number)).getrf(n, n, Batch(pointers=a), lda, pivots, info, count)

    @entry(f"cublas{letter}getrsBatched")
    def getrs(
        number: int, op: int, n: int, columns: int, a: int, lda: int, pivots: int, b: int, ldb: int, info: int, count: int
    ) -> None:  # fmt: skip
        handle = handle_of(number)
        wrong = min(n, columns, count) < 0 or lda < max(1, n) or ldb < max(1, n)
        cmemory.put32(info, 0)
        if wrong:
            raise invalid()
        of_a, of_b = (Batch(pointers=a), lda), (Batch(pointers=b), ldb)
        solver(handle).getrs(op, n, columns, of_a, pivots, of_b, count)

    @entry(f"cublas{letter}geqrfBatched")
    def geqrf(number: int, m: int, n: int, a: int, lda: int, tau: int, info: int, count: int) -> None:
        cmemory.put32(info, 0)
        solver(handle_of(number)).geqrf(m, n, Batch(pointers=a), lda, Batch(pointers=tau), count)


for _letter in "SDCZ":
    _register(_letter)
