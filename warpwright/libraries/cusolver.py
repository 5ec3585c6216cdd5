"""cuSOLVER's dense functions: Cholesky, LU and QR factorisations and their solves, eigenvalues and singular values by Jacobi's method."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from warpwright.driver import cmemory
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.libraries.calls import LibraryError, entry, invalid, unsupported
from warpwright.libraries.dense import ADJOINT, Batch, SingularValues, Solver
from warpwright.libraries.element_types import C_32F, C_64F, COMPLEX, OF_LETTER, R_32F, R_64F, TYPES

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


Potrs = namedtuple("Potrs", "number fill n columns a lda b ldb info")
"""Arguments of cusolverDn…potrs."""

PotrsBatched = namedtuple("PotrsBatched", "number fill n columns a lda b ldb info count")
"""Arguments of cusolverDn…potrsBatched."""


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

    @entry(f"{stem}potrs", record=Potrs)
    def potrs(call: Potrs) -> None:
        solver = _solver(call.number, type)
        solver.potrs(call.fill, call.n, call.columns, (Batch(call.a), call.lda), (Batch(call.b), call.ldb))
        _zero(solver, call.info)

    @entry(f"{stem}potrsBatched", record=PotrsBatched)
    def potrs_batched(call: PotrsBatched) -> None:
        solver = _solver(call.number, type)
        solver.potrs(
            call.fill,
            call.n,
            call.columns,
            (Batch(pointers=call.a), call.lda),
            (Batch(pointers=call.b), call.ldb),
            call.count,
        )
        _zero(solver, call.info)


Getrs = namedtuple("Getrs", "number op n columns a lda pivots b ldb info")
"""Arguments of cusolverDn…getrs."""

Geqrf = namedtuple("Geqrf", "number m n a lda tau work size info")
"""Arguments of cusolverDn…geqrf."""

Orgqr = namedtuple("Orgqr", "number m n k a lda tau work size info")
"""Arguments of cusolverDn…orgqr."""

Ormqr = namedtuple("Ormqr", "number side op m n k a lda tau c ldc work size info")
"""Arguments of cusolverDn…ormqr."""


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

    @entry(f"{stem}getrs", record=Getrs)
    def getrs(call: Getrs) -> None:
        solver = _solver(call.number, type)
        solver.getrs(call.op, call.n, call.columns, (Batch(call.a), call.lda), call.pivots, (Batch(call.b), call.ldb))
        _zero(solver, call.info)

    @entry(f"{stem}geqrf", record=Geqrf)
    def geqrf(call: Geqrf) -> None:
        solver = _solver(call.number, type)
        solver.geqrf(call.m, call.n, Batch(call.a), call.lda, Batch(call.tau))
        _zero(solver, call.info)

    @entry(f"{stem}{orthogonal}gqr", record=Orgqr)
    def orgqr(call: Orgqr) -> None:
        solver = _solver(call.number, type)
        solver.orgqr((call.m, call.n, call.k), (call.a, call.lda), call.tau, call.work)
        _zero(solver, call.info)

    @entry(f"{stem}{orthogonal}mqr", record=Ormqr)
    def ormqr(call: Ormqr) -> None:
        solver = _solver(call.number, type)
        # The transpose of a complex orthogonal matrix is never asked for.
        solver.apply_reflectors(
            call.side, call.op and ADJOINT, (call.m, call.n, call.k), (call.a, call.lda), call.tau, (call.c, call.ldc)
        )
        _zero(solver, call.info)


Evd = namedtuple("Evd", "number vectors fill n a lda values work size info parameters", defaults=(0,))
"""Arguments of cusolverDn…evd."""

EvjBatched = namedtuple("EvjBatched", "number vectors fill n a lda values work size info parameters count")
"""Arguments of cusolverDn…evjBatched."""


def _register_eigenvalues(letter: str) -> None:
    type = OF_LETTER[letter]
    stem = f"cusolverDn{letter}{_SYMMETRIC[letter]}"
    _size([f"{stem}evd_bufferSize", f"{stem}ev_bufferSize"], lambda *a: (a[-1], 2 * a[3] * a[3]))
    _size([f"{stem}evj_bufferSize"], lambda *a: (a[-2], 2 * a[3] * a[3]))
    _size([f"{stem}evjBatched_bufferSize"], lambda *a: (a[-3], 2 * a[3] * a[3] * a[-1]))

    @entry(f"{stem}evd", f"{stem}evj", record=Evd)
    def evd(call: Evd) -> None:
        _solver(call.number, type).heev(
            (call.vectors, call.fill), call.n, (Batch(call.a), call.lda), (call.values, call.work, call.info)
        )

    @entry(f"{stem}evjBatched", record=EvjBatched)
    def evj_batched(call: EvjBatched) -> None:
        batch = Batch(call.a, stride=call.lda * call.n)
        _solver(call.number, type).heev(
            (call.vectors, call.fill), call.n, (batch, call.lda), (call.values, call.work, call.info), call.count
        )


def svd_elements(m: int, n: int) -> int:
    """Elements of a work area for each matrix: A and V, and the conjugate transpose of a wide matrix."""
    least = min(m, n)
    return m * n + least * least + (m * n if m < n else 0)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Where singular values and vectors go: a batch with its leading dimension for U and V, and the columns of each."""

    values: int
    u: tuple[Batch, int]
    v: tuple[Batch, int]
    u_columns: int
    v_columns: int
    info: int


def svd(
    solver: Solver,
    wanted: int,
    sizes: tuple[int, int],
    a: tuple[Batch, int],
    to: Vectors,
    work: int,
    count: int = 1,
) -> None:
    """Singular values and vectors of matrices, wide ones by their conjugate transposes."""
    m, n = sizes
    if m >= n:
        places = SingularValues(to.values, to.u, to.v, 0, to.info)
        solver.gesvd(wanted, (m, n, to.u_columns), a, places, work, count)
        return
    adjoints = Batch(work, stride=m * n)
    solver.adjoint(m, n, a, adjoints, count)
    rest = work + count * m * n * TYPES[solver.type].size_bytes
    places = SingularValues(to.values, to.v, to.u, 0, to.info)
    solver.gesvd(wanted, (n, m, to.v_columns), (adjoints, n), places, rest, count)


Gesvd = namedtuple("Gesvd", "number job_u job_v m n a lda values u ldu v ldv work size real_work info")
"""Arguments of cusolverDn…gesvd."""

Gesvdj = namedtuple("Gesvdj", "number wanted economic m n a lda values u ldu v ldv work size info parameters")
"""Arguments of cusolverDn…gesvdj."""

GesvdjBatched = namedtuple(
    "GesvdjBatched", "number wanted m n a lda values u ldu v ldv work size info parameters count"
)
"""Arguments of cusolverDn…gesvdjBatched."""

Gesvda = namedtuple(
    "Gesvda",
    "number wanted rank m n a lda stride_a values stride_values u ldu stride_u v ldv stride_v work size info residuals count",
)
"""Arguments of cusolverDn…gesvdaStridedBatched."""


def _register_singular_values(letter: str) -> None:
    type = OF_LETTER[letter]
    stem = f"cusolverDn{letter}gesvd"
    _size([f"{stem}_bufferSize"], lambda *a: (a[-1], svd_elements(a[1], a[2])))
    _size([f"{stem}j_bufferSize"], lambda *a: (a[-2], svd_elements(a[3], a[4])))

    @entry(stem, record=Gesvd)
    def gesvd(call: Gesvd) -> None:
        if call.m < call.n:
            raise invalid("gesvd takes matrices that are no wider than high")
        jobs = (chr(call.job_u & 0xFF), chr(call.job_v & 0xFF))
        if "O" in jobs or ("N" in jobs and jobs != ("N", "N")):
            raise unsupported(f"gesvd with the jobs {jobs[0]} and {jobs[1]} is not provided")
        columns = call.m if jobs[0] == "A" else call.n
        wanted = int("N" not in jobs)
        _solver(call.number, type).gesvd(
            wanted,
            (call.m, call.n, columns),
            (Batch(call.a), call.lda),
            SingularValues(call.values, (Batch(call.u), call.ldu), (Batch(call.v), call.ldv), 1, call.info),
            call.work,
        )

    @entry(f"{stem}j", record=Gesvdj)
    def gesvdj(call: Gesvdj) -> None:
        least = min(call.m, call.n)
        to = Vectors(
            call.values,
            (Batch(call.u), call.ldu),
            (Batch(call.v), call.ldv),
            least if call.economic else call.m,
            least if call.economic else call.n,
            call.info,
        )
        svd(
            _solver(call.number, type),
            call.wanted,
            (call.m, call.n),
            (Batch(call.a), call.lda),
            to,
            call.work,
        )


def _register_batched_singular_values(letter: str) -> None:
    type = OF_LETTER[letter]
    stem = f"cusolverDn{letter}gesvd"
    _size([f"{stem}jBatched_bufferSize"], lambda *a: (a[-3], svd_elements(a[2], a[3]) * a[-1]))
    _size([f"{stem}aStridedBatched_bufferSize"], lambda *a: (a[-2], svd_elements(a[3], a[4]) * a[-1]))

    @entry(f"{stem}jBatched", record=GesvdjBatched)
    def gesvdj_batched(call: GesvdjBatched) -> None:
        to = Vectors(
            call.values,
            (Batch(call.u, stride=call.ldu * call.m), call.ldu),
            (Batch(call.v, stride=call.ldv * call.n), call.ldv),
            call.m,
            call.n,
            call.info,
        )
        svd(
            _solver(call.number, type),
            call.wanted,
            (call.m, call.n),
            (Batch(call.a, stride=call.lda * call.n), call.lda),
            to,
            call.work,
            call.count,
        )

    @entry(f"{stem}aStridedBatched", record=Gesvda)
    def gesvda(call: Gesvda) -> None:
        least = min(call.m, call.n)
        if call.rank != least or (call.stride_values != least and call.count > 1):
            raise unsupported("gesvda with fewer than all singular values, or gaps between them, is not provided")
        to = Vectors(
            call.values,
            (Batch(call.u, stride=call.stride_u), call.ldu),
            (Batch(call.v, stride=call.stride_v), call.ldv),
            least,
            least,
            call.info,
        )
        svd(
            _solver(call.number, type),
            call.wanted,
            (call.m, call.n),
            (Batch(call.a, stride=call.stride_a), call.lda),
            to,
            call.work,
            call.count,
        )


Sytrf = namedtuple("Sytrf", "number fill n a lda pivots work size info")
"""Arguments of cusolverDn…sytrf."""


def _register_indefinite(letter: str) -> None:
    type = OF_LETTER[letter]
    stem = f"cusolverDn{letter}sytrf"
    _size([f"{stem}_bufferSize"], lambda *a: (a[-1], 1))

    @entry(stem, record=Sytrf)
    def sytrf(call: Sytrf) -> None:
        if not call.pivots:
            raise unsupported("sytrf without pivots is not provided")
        _solver(call.number, type).sytrf(call.fill, call.n, (Batch(call.a), call.lda), call.pivots, call.info)


for _letter in "SDCZ":
    _register_cholesky(_letter)
    _register_indefinite(_letter)
    _register_lu_and_qr(_letter)
    _register_eigenvalues(_letter)
    _register_singular_values(_letter)
    _register_batched_singular_values(_letter)


# --- functions with types as arguments --------------------------------------------------------------
def _needs_no_workspace(call: Any) -> None:
    """Store the sizes of the workspaces on the device and on the host."""
    cmemory.put64(call.device, 0)
    cmemory.put64(call.host, 0)


XPotrfSize = namedtuple("XPotrfSize", "number parameters fill n type a lda compute device host")
"""Arguments of cusolverDnXpotrf_bufferSize."""


@entry("cusolverDnXpotrf_bufferSize", record=XPotrfSize)
def x_potrf_size(call: XPotrfSize) -> None:
    _needs_no_workspace(call)


XPotrf = namedtuple("XPotrf", "number parameters fill n type a lda compute work size host host_size info")
"""Arguments of cusolverDnXpotrf."""


@entry("cusolverDnXpotrf", record=XPotrf)
def x_potrf(call: XPotrf) -> None:
    _solver(call.number, call.type).potrf(call.fill, call.n, Batch(call.a), call.lda, call.info)


XPotrs = namedtuple("XPotrs", "number parameters fill n columns type a lda b_type b ldb info")
"""Arguments of cusolverDnXpotrs."""


@entry("cusolverDnXpotrs", record=XPotrs)
def x_potrs(call: XPotrs) -> None:
    solver = _solver(call.number, call.type)
    solver.potrs(call.fill, call.n, call.columns, (Batch(call.a), call.lda), (Batch(call.b), call.ldb))
    _zero(solver, call.info)


XSytrsSize = namedtuple("XSytrsSize", "number fill n columns type a lda pivots b_type b ldb device host")
"""Arguments of cusolverDnXsytrs_bufferSize."""


@entry("cusolverDnXsytrs_bufferSize", record=XSytrsSize)
def x_sytrs_size(call: XSytrsSize) -> None:
    _needs_no_workspace(call)


XSytrs = namedtuple("XSytrs", "number fill n columns type a lda pivots b_type b ldb work size host host_size info")
"""Arguments of cusolverDnXsytrs."""


@entry("cusolverDnXsytrs", record=XSytrs)
def x_sytrs(call: XSytrs) -> None:
    solver = _solver(call.number, call.type)
    places = (Batch(call.a), call.lda), call.pivots, (Batch(call.b), call.ldb)
    solver.sytrs(call.fill, call.n, call.columns, *places)
    _zero(solver, call.info)


XGeqrfSize = namedtuple("XGeqrfSize", "number parameters m n type a lda tau_type tau compute device host")
"""Arguments of cusolverDnXgeqrf_bufferSize."""


@entry("cusolverDnXgeqrf_bufferSize", record=XGeqrfSize)
def x_geqrf_size(call: XGeqrfSize) -> None:
    _needs_no_workspace(call)


XGeqrf = namedtuple("XGeqrf", "number parameters m n type a lda tau_type tau compute work size host host_size info")
"""Arguments of cusolverDnXgeqrf."""


@entry("cusolverDnXgeqrf", record=XGeqrf)
def x_geqrf(call: XGeqrf) -> None:
    solver = _solver(call.number, call.type)
    solver.geqrf(call.m, call.n, Batch(call.a), call.lda, Batch(call.tau))
    _zero(solver, call.info)


XSyevdSize = namedtuple(
    "XSyevdSize",
    "number parameters vectors fill n type a lda values_type values compute device host count",
    defaults=(1,),
)
"""Arguments of cusolverDnXsyevd_bufferSize."""


@entry("cusolverDnXsyevd_bufferSize", "cusolverDnXsyevBatched_bufferSize", record=XSyevdSize)
def x_syevd_size(call: XSyevdSize) -> None:
    _solver(call.number, call.type)
    cmemory.put64(call.device, 2 * call.n * call.n * TYPES[call.type].size_bytes * call.count)
    cmemory.put64(call.host, 0)


XSyevd = namedtuple(
    "XSyevd",
    "number parameters vectors fill n type a lda values_type values compute work size host host_size info count",
    defaults=(1,),
)
"""Arguments of cusolverDnXsyevd."""


@entry("cusolverDnXsyevd", "cusolverDnXsyevBatched", record=XSyevd)
def x_syevd(call: XSyevd) -> None:
    _solver(call.number, call.type).heev(
        (call.vectors, call.fill),
        call.n,
        (Batch(call.a, stride=call.lda * call.n), call.lda),
        (call.values, call.work, call.info),
        call.count,
    )


XGeevSize = namedtuple(
    "XGeevSize",
    "number parameters left right n type a lda values_type values left_type vl ldvl right_type vr ldvr compute device host",
)
"""Arguments of cusolverDnXgeev_bufferSize."""


@entry("cusolverDnXgeev_bufferSize", record=XGeevSize)
def x_geev_size(call: XGeevSize) -> None:
    cmemory.put64(call.device, _solver(call.number, call.type).geev_bytes(call.n))
    cmemory.put64(call.host, 0)


XGeev = namedtuple(
    "XGeev",
    "number parameters left right n type a lda values_type values left_type vl ldvl right_type vr ldvr compute work size host host_size info",
)
"""Arguments of cusolverDnXgeev."""


@entry("cusolverDnXgeev", record=XGeev)
def x_geev(call: XGeev) -> None:
    if call.left:
        raise unsupported("left eigenvectors are not provided")
    if call.n < 0 or call.lda < max(1, call.n) or (call.right and call.ldvr < max(1, call.n)):
        raise invalid()
    if call.type in COMPLEX and {call.values_type, call.right_type if call.right else call.type} != {call.type}:
        raise invalid("a complex matrix has complex eigenvalues and vectors of its own type")
    _solver(call.number, call.type).geev(
        call.n,
        (Batch(call.a), call.lda),
        (call.values, call.values_type in COMPLEX),
        (call.vr if call.right else 0, call.ldvr, call.right_type in COMPLEX),
        call.work,
        call.info,
    )
