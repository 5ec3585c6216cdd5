"""cuSOLVER's dense functions: Cholesky, LU and QR factorisations and their solves, eigenvalues and singular values by Jacobi's method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from warpwright.driver import cmemory
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.state import state
from warpwright.libraries.calls import LibraryError, entry, invalid, unsupported
from warpwright.libraries.dense import ADJOINT, Batch, Solver
from warpwright.libraries.element_types import C_32F, C_64F, OF_LETTER, R_32F, R_64F, TYPES

_REAL_BYTES = {R_32F: 4, R_64F: 8, C_32F: 4, C_64F: 8}
_ORTHOGONAL = {"S": "or", "D": "or", "C": "un", "Z": "un"}
_SYMMETRIC = {"S": "sy", "D": "sy", "C": "he", "Z": "he"}


@dataclass(eq=False)
class Handle:
    """What cusolverDnCreate makes."""

    of_null: ClassVar[int] = 0
    stream: int = 0


@dataclass(eq=False)
class Parameters:
    """Tolerances and limits of the Jacobi methods, which here have their own; cusolverDnParams_t."""

    of_null: ClassVar[int] = 0


def _solver(number: int, type: int) -> Solver:
    try:
        handle = state().handles.get(Handle, number)
    except CudaError:
        raise LibraryError("not_initialized") from None
    if type not in _REAL_BYTES:
        raise unsupported(f"matrices of cudaDataType {type} are not provided")
    return Solver(type, handle.stream, "cuSOLVER")


@entry("cusolverDnCreate")
def create(place: int) -> None:
    cmemory.put64(place, state().handles.add(Handle()))


@entry("cusolverDnCreateParams", "cusolverDnCreateGesvdjInfo", "cusolverDnCreateSyevjInfo")
def create_parameters(place: int) -> None:
    cmemory.put64(place, state().handles.add(Parameters()))


@entry("cusolverDnDestroy", "cusolverDnDestroyParams", "cusolverDnDestroyGesvdjInfo", "cusolverDnDestroySyevjInfo")
def destroy(number: int) -> None:
    state().handles.drop(number)


@entry("cusolverDnSetStream")
def set_stream(number: int, stream: int) -> None:
    try:
        state().handles.get(Handle, number).stream = stream
    except CudaError:
        raise LibraryError("not_initialized") from None


@entry(
    *("cusolverDnXgesvdjSetTolerance", "cusolverDnXgesvdjSetMaxSweeps", "cusolverDnXgesvdjSetSortEig"),
    *("cusolverDnXsyevjSetTolerance", "cusolverDnXsyevjSetMaxSweeps", "cusolverDnXsyevjSetSortEig"),
)
def set_parameter(number: int, value: float) -> None:
    """Kept by nothing: the methods converge to the type's precision, and sort."""


@entry("cusolverGetVersion")
def get_version(place: int) -> None:
    cmemory.put32(place, 12200)


@entry("cusolverGetProperty")
def get_property(kind: int, place: int) -> None:
    if not 0 <= kind < 3:
        raise invalid()
    cmemory.put32(place, (12, 2, 0)[kind])


def _zero(solver: Solver, info: int) -> None:
    """Report success on the device, in the stream's order."""
    solver.launch("set_info", (1,), [info, 1])


def _size(names: list[str], elements: Callable[..., tuple[int, int]]) -> None:
    """Functions that store the size of a work area in elements; ``elements`` says from their arguments where, and how many."""

    @entry(*names)
    def size(*arguments: int) -> None:
        place, count = elements(*arguments)
        cmemory.put32(place, count)


def _register_cholesky(letter: str) -> None:
    type = OF_LETTER[letter]
    stem = f"cusolverDn{letter}"
    _size([f"{stem}potrf_bufferSize"], lambda *a: (a[-1], 1))

    @entry(f"{stem}potrf")
    def potrf(number: int, fill: int, n: int, a: int, lda: int, work: int, size: int, info: int) -> None:
        _solver(number, type).potrf(fill, n, Batch(a), lda, info)

    @entry(f"{stem}potrfBatched")
    def potrf_batched(number: int, fill: int, n: int, a: int, lda: int, info: int, count: int) -> None:
        _solver(number, type).potrf(fill, n, Batch(pointers=a), lda, info, count)

    @entry(f"{stem}potrs")
    def potrs(number: int, fill: int, n: int, columns: int, a: int, lda: int, b: int, ldb: int, info: int) -> None:
        solver = _solver(number, type)
        solver.potrs(fill, n, columns, (Batch(a), lda), (Batch(b), ldb))
        _zero(solver, info)

    @entry(f"{stem}potrsBatched")
    def potrs_batched(
        number: int, fill: int, n: int, columns: int, a: int, lda: int, b: int, ldb: int, info: int, count: int
    ) -> None:
        solver = _solver(number, type)
        solver.potrs(fill, n, columns, (Batch(pointers=a), lda), (Batch(pointers=b), ldb), count)
        _zero(solver, info)


def _register_lu_and_qr(letter: str) -> None:
    type = OF_LETTER[letter]
    stem, orthogonal = f"cusolverDn{letter}", _ORTHOGONAL[letter]
    for name in ("getrf", "geqrf"):
        _size([f"{stem}{name}_bufferSize"], lambda *a: (a[-1], 1))
    _size([f"{stem}{orthogonal}gqr_bufferSize"], lambda *a: (a[-1], max(1, a[1] * a[2])))
    _size([f"{stem}{orthogonal}mqr_bufferSize"], lambda *a: (a[-1], 1))

    @entry(f"{stem}getrf")
    def getrf(number: int, m: int, n: int, a: int, lda: int, work: int, pivots: int, info: int) -> None:
        _solver(number, type).getrf(m, n, Batch(a), lda, pivots, info)

    @entry(f"{stem}getrs")
    def getrs(
        number: int, op: int, n: int, columns: int, a: int, lda: int, pivots: int, b: int, ldb: int, info: int
    ) -> None:
        solver = _solver(number, type)
        solver.getrs(op, n, columns, (Batch(a), lda), pivots, (Batch(b), ldb))
        _zero(solver, info)

    @entry(f"{stem}geqrf")
    def geqrf(number: int, m: int, n: int, a: int, lda: int, tau: int, work: int, size: int, info: int) -> None:
        solver = _solver(number, type)
        solver.geqrf(m, n, Batch(a), lda, Batch(tau))
        _zero(solver, info)

    @entry(f"{stem}{orthogonal}gqr")
    def orgqr(number: int, m: int, n: int, k: int, a: int, lda: int, tau: int, work: int, size: int, info: int) -> None:
        solver = _solver(number, type)
        solver.orgqr((m, n, k), (a, lda), tau, work)
        _zero(solver, info)

    @entry(f"{stem}{orthogonal}mqr")
    def ormqr(
        number: int, side: int, op: int, m: int, n: int, k: int, a: int, lda: int, tau: int, c: int, ldc: int, work: int,
        size: int, info: int,
    ) -> None:  # fmt: skip
        solver = _solver(number, type)
        # The transpose of a complex orthogonal matrix is never asked for.
        solver.apply_reflectors(side, op and ADJOINT, (m, n, k), (a, lda), tau, (c, ldc))
        _zero(solver, info)


def _register_eigenvalues(letter: str) -> None:
    type = OF_LETTER[letter]
    stem = f"cusolverDn{letter}{_SYMMETRIC[letter]}"
    _size([f"{stem}evd_bufferSize", f"{stem}ev_bufferSize"], lambda *a: (a[-1], 2 * a[3] * a[3]))
    _size([f"{stem}evj_bufferSize"], lambda *a: (a[-2], 2 * a[3] * a[3]))
    _size([f"{stem}evjBatched_bufferSize"], lambda *a: (a[-3], 2 * a[3] * a[3] * a[-1]))

    @entry(f"{stem}evd", f"{stem}evj")
    def evd(
        number: int,
        vectors: int,
        fill: int,
        n: int,
        a: int,
        lda: int,
        values: int,
        work: int,
        size: int,
        info: int,
        *_: int,
    ) -> None:
        _solver(number, type).heev(vectors, fill, n, (Batch(a), lda), values, work, info)

    @entry(f"{stem}evjBatched")
    def evj_batched(
        number: int, vectors: int, fill: int, n: int, a: int, lda: int, values: int, work: int, size: int, info: int,
        parameters: int, count: int,
    ) -> None:  # fmt: skip
        batch = Batch(a, stride=lda * n)
        _solver(number, type).heev(vectors, fill, n, (batch, lda), values, work, info, count)


def svd_elements(m: int, n: int) -> int:
    """Elements of a work area for each matrix: A and V, and the conjugate transpose of a wide matrix."""
    least = min(m, n)
    return m * n + least * least + (m * n if m < n else 0)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Where singular vectors go: a batch with its leading dimension for U and V, and the columns of each."""

    u: tuple[Batch, int]
    v: tuple[Batch, int]
    u_columns: int
    v_columns: int


def svd(
    solver: Solver, wanted: int, sizes: tuple[int, int], a: tuple[Batch, int], values: int, to: Vectors, work: int, info: int,
    count: int = 1,
) -> None:  # fmt: skip
    """Singular values and vectors of matrices, wide ones by their conjugate transposes."""
    m, n = sizes
    if m >= n:
        solver.gesvd(wanted, (m, n, to.u_columns), a, values, to.u, to.v, 0, work, info, count)
        return
    adjoints = Batch(work, stride=m * n)
    solver.adjoint(m, n, a, adjoints, count)
    rest = work + count * m * n * TYPES[solver.type].size_bytes
    solver.gesvd(wanted, (n, m, to.v_columns), (adjoints, n), values, to.v, to.u, 0, rest, info, count)


def _register_singular_values(letter: str) -> None:
    type = OF_LETTER[letter]
    stem = f"cusolverDn{letter}gesvd"
    _size([f"{stem}_bufferSize"], lambda *a: (a[-1], svd_elements(a[1], a[2])))
    _size([f"{stem}j_bufferSize"], lambda *a: (a[-2], svd_elements(a[3], a[4])))
    _size([f"{stem}jBatched_bufferSize"], lambda *a: (a[-3], svd_elements(a[2], a[3]) * a[-1]))
    _size([f"{stem}aStridedBatched_bufferSize"], lambda *a: (a[-2], svd_elements(a[3], a[4]) * a[-1]))

    @entry(stem)
    def gesvd(
        number: int, job_u: int, job_v: int, m: int, n: int, a: int, lda: int, values: int, u: int, ldu: int, v: int, ldv: int,
        work: int, size: int, real_work: int, info: int,
    ) -> None:  # fmt: skip
        if m < n:
            raise invalid("gesvd takes matrices that are no wider than high")
        jobs = (chr(job_u & 0xFF), chr(job_v & 0xFF))
        if "O" in jobs or ("N" in jobs and jobs != ("N", "N")):
            raise unsupported(f"gesvd with the jobs {jobs[0]} and {jobs[1]} is not provided")
        columns = m if jobs[0] == "A" else n
        wanted = int("N" not in jobs)
        _solver(number, type).gesvd(
            wanted, (m, n, columns), (Batch(a), lda), values, (Batch(u), ldu), (Batch(v), ldv), 1, work, info
        )

    @entry(f"{stem}j")
    def gesvdj(
        number: int, wanted: int, economic: int, m: int, n: int, a: int, lda: int, values: int, u: int, ldu: int, v: int,
        ldv: int, work: int, size: int, info: int, parameters: int,
    ) -> None:  # fmt: skip
        least = min(m, n)
        to = Vectors((Batch(u), ldu), (Batch(v), ldv), least if economic else m, least if economic else n)
        svd(_solver(number, type), wanted, (m, n), (Batch(a), lda), values, to, work, info)

    @entry(f"{stem}jBatched")
    def gesvdj_batched(
        number: int, wanted: int, m: int, n: int, a: int, lda: int, values: int, u: int, ldu: int, v: int, ldv: int, work: int,
        size: int, info: int, parameters: int, count: int,
    ) -> None:  # fmt: skip
        to = Vectors((Batch(u, stride=ldu * m), ldu), (Batch(v, stride=ldv * n), ldv), m, n)
        svd(_solver(number, type), wanted, (m, n), (Batch(a, stride=lda * n), lda), values, to, work, info, count)

    @entry(f"{stem}aStridedBatched")
    def gesvda(
        number: int, wanted: int, rank: int, m: int, n: int, a: int, lda: int, stride_a: int, values: int, stride_values: int,
        u: int, ldu: int, stride_u: int, v: int, ldv: int, stride_v: int, work: int, size: int, info: int, residuals: int,
        count: int,
    ) -> None:  # fmt: skip
        least = min(m, n)
        if rank != least or (stride_values != least and count > 1):
            raise unsupported("gesvda with fewer than all singular values, or gaps between them, is not provided")
        to = Vectors((Batch(u, stride=stride_u), ldu), (Batch(v, stride=stride_v), ldv), least, least)
        svd(_solver(number, type), wanted, (m, n), (Batch(a, stride=stride_a), lda), values, to, work, info, count)


for _letter in "SDCZ":
    _register_cholesky(_letter)
    _register_lu_and_qr(_letter)
    _register_eigenvalues(_letter)
    _register_singular_values(_letter)


# --- functions with types as arguments --------------------------------------------------------------
@entry("cusolverDnXpotrf_bufferSize")
def x_potrf_size(
    number: int, parameters: int, fill: int, n: int, type: int, a: int, lda: int, compute: int, device: int, host: int
) -> None:  # fmt: skip
    cmemory.put64(device, 0)
    cmemory.put64(host, 0)


@entry("cusolverDnXpotrf")
def x_potrf(
    number: int, parameters: int, fill: int, n: int, type: int, a: int, lda: int, compute: int, work: int, size: int, host: int,
    host_size: int, info: int,
) -> None:  # fmt: skip
    _solver(number, type).potrf(fill, n, Batch(a), lda, info)


@entry("cusolverDnXpotrs")
def x_potrs(
    number: int, parameters: int, fill: int, n: int, columns: int, type: int, a: int, lda: int, b_type: int, b: int, ldb: int,
    info: int,
) -> None:  # fmt: skip
    solver = _solver(number, type)
    solver.potrs(fill, n, columns, (Batch(a), lda), (Batch(b), ldb))
    _zero(solver, info)


@entry("cusolverDnXgeqrf_bufferSize")
def x_geqrf_size(
    number: int, parameters: int, m: int, n: int, type: int, a: int, lda: int, tau_type: int, tau: int, compute: int, device: int,
    host: int,
) -> None:  # fmt: skip
    cmemory.put64(device, 0)
    cmemory.put64(host, 0)


@entry("cusolverDnXgeqrf")
def x_geqrf(
    number: int, parameters: int, m: int, n: int, type: int, a: int, lda: int, tau_type: int, tau: int, compute: int, work: int,
    size: int, host: int, host_size: int, info: int,
) -> None:  # fmt: skip
    solver = _solver(number, type)
    solver.geqrf(m, n, Batch(a), lda, Batch(tau))
    _zero(solver, info)


@entry("cusolverDnXsyevd_bufferSize", "cusolverDnXsyevBatched_bufferSize")
def x_syevd_size(
    number: int, parameters: int, vectors: int, fill: int, n: int, type: int, a: int, lda: int, values_type: int, values: int,
    compute: int, device: int, host: int, count: int = 1,
) -> None:  # fmt: skip
    _solver(number, type)
    cmemory.put64(device, 2 * n * n * TYPES[type].size_bytes * count)
    cmemory.put64(host, 0)


@entry("cusolverDnXsyevd", "cusolverDnXsyevBatched")
def x_syevd(
    number: int, parameters: int, vectors: int, fill: int, n: int, type: int, a: int, lda: int, values_type: int, values: int,
    compute: int, work: int, size: int, host: int, host_size: int, info: int, count: int = 1,
) -> None:  # fmt: skip
    _solver(number, type).heev(vectors, fill, n, (Batch(a, stride=lda * n), lda), values, work, info, count)
