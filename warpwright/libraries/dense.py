"""Dense factorisations and solvers on batches of matrices (``cuda/dense.cu``): the launches that cuBLAS and cuSOLVER share."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from warpwright.libraries import library_kernels
from warpwright.libraries.calls import invalid
from warpwright.libraries.element_types import COMPLEX, TYPES

Argument = int | float | bytes
THREADS = 256
LEFT, RIGHT = 0, 1
LOWER, UPPER = 0, 1
PLAIN, TRANSPOSED, ADJOINT = 0, 1, 2
SWEEPS = 30
"""Jacobi sweeps at most: quadratic convergence needs about ten."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Matrices: one address with a stride in elements, or an array of pointers on the device."""

    address: int = 0
    pointers: int = 0
    stride: int = 0

    def argument(self) -> bytes:
        return struct.pack("<QQq", self.address, self.pointers, self.stride)


@dataclass(frozen=True, slots=True)
class Triangle:
    """A triangular operand: its side, the triangle that is stored, how it is transposed, and whether its diagonal is ones."""

    side: int
    fill: int
    op: int
    unit: int = 0


@dataclass(frozen=True, slots=True)
class SingularValues:
    """Where a decomposition leaves its results; U and V are a batch and a leading dimension each, and V may be stored transposed."""

    values: int
    u: tuple[Batch, int]
    v: tuple[Batch, int]
    v_transposed: int
    info: int


@dataclass(frozen=True, slots=True)
class Solver:
    """Launches for one type of elements, in one stream."""

    type: int
    stream: int
    library: str

    def launch(self, kernel: str, grid: tuple[int, ...], arguments: list[Argument], file: str = "dense.cu") -> None:
        """Launch a kernel of a file of ``cuda/``."""
        if 0 in grid:
            return
        code = library_kernels.code(file, self.library, ELEMENT=TYPES[self.type].name)
        library_kernels.launch(code, f"warpwright_{kernel}", grid, THREADS, self.stream, arguments)

    @property
    def tolerance(self) -> float:
        """What a Jacobi method takes for zero, relative to the matrix."""
        return 1e-7 if TYPES[self.type].name in ("float", "c64") else 1e-15

    def trsm(
        self,
        form: Triangle,
        sizes: tuple[int, int],
        alpha: tuple[int, complex],
        a: tuple[Batch, int],
        b: tuple[Batch, int],
        count: int = 1,
    ) -> None:
        """Solve with a triangular matrix; operands are a batch and a leading dimension, alpha an address on the device or a number."""
        m, n = sizes
        side, op = form.side, form.op
        if min(m, n, count) < 0 or side not in (LEFT, RIGHT) or form.fill not in (LOWER, UPPER) or op not in (0, 1, 2):
            raise invalid()
        place, value = alpha
        self.launch(
            "trsm",
            (m if side == RIGHT else n, count),
            [
                *(m, n, side, form.fill == LOWER, op, form.unit, place, value.real, value.imag),
                *(a[0].argument(), a[1], b[0].argument(), b[1]),
            ],
        )

    def getrf(self, m: int, n: int, a: Batch, ld: int, pivots: int, info: int, count: int = 1) -> None:
        """Factorise with partial pivoting, without it where there is no place for pivots."""
        if min(m, n, count) < 0 or ld < max(1, m):
            raise invalid()
        self.launch("getrf", (1, count), [m, n, a.argument(), ld, pivots, info])

    def getrs(
        self, op: int, n: int, columns: int, a: tuple[Batch, int], pivots: int, b: tuple[Batch, int], count: int = 1
    ) -> None:
        """Solve with the factors of :meth:`getrf`."""
        one = (0, complex(1))
        grid = (-(-columns // THREADS), count)
        exchange: list[Argument] = [n, columns, pivots, b[0].argument(), b[1]]
        if op == PLAIN and pivots:
            self.launch("exchange_rows", grid, [*exchange, 0])
        order = ((LOWER, 1), (UPPER, 0)) if op == PLAIN else ((UPPER, 0), (LOWER, 1))
        for fill, unit in order:
            self.trsm(Triangle(LEFT, fill, op, unit), (n, columns), one, a, b, count)
        if op != PLAIN and pivots:
            self.launch("exchange_rows", grid, [*exchange, 1])

    def potrf(self, fill: int, n: int, a: Batch, ld: int, info: int, count: int = 1) -> None:
        """Factorise a positive definite matrix."""
        if n < 0 or ld < max(1, n):
            raise invalid()
        self.launch("potrf", (1, count), [fill == LOWER, n, a.argument(), ld, info])

    def potrs(
        self, fill: int, n: int, columns: int, a: tuple[Batch, int], b: tuple[Batch, int], count: int = 1
    ) -> None:
        """Solve with the factor of :meth:`potrf`."""
        ops = (PLAIN, ADJOINT) if fill == LOWER else (ADJOINT, PLAIN)
        for op in ops:
            self.trsm(Triangle(LEFT, fill, op), (n, columns), (0, complex(1)), a, b, count)

    def sytrf(self, fill: int, n: int, a: tuple[Batch, int], pivots: int, info: int) -> None:
        """Factorise a symmetric matrix that need not be definite (Bunch and Kaufman)."""
        if n < 0 or a[1] < max(1, n):
            raise invalid()
        self.launch("sytrf", (1,), [fill == LOWER, n, a[0].argument(), a[1], pivots, info], "indefinite.cu")

    def sytrs(self, fill: int, n: int, columns: int, a: tuple[Batch, int], pivots: int, b: tuple[Batch, int]) -> None:
        """Solve with the factors of :meth:`sytrf`, whose pivots are here of 64 bits."""
        if min(n, columns) < 0 or min(a[1], b[1]) < max(1, n):
            raise invalid()
        operands: list[Argument] = [a[0].argument(), a[1], pivots, b[0].argument(), b[1]]
        self.launch("sytrs", (columns,), [fill == LOWER, n, *operands], "indefinite.cu")

    def geqrf(self, m: int, n: int, a: Batch, ld: int, tau: Batch, count: int = 1) -> None:
        """Factorise into an orthogonal and a triangular matrix."""
        if min(m, n, count) < 0 or ld < max(1, m):
            raise invalid()
        self.launch("geqrf", (1, count), [m, n, a.argument(), ld, tau.argument()])

    def gels(
        self, sizes: tuple[int, int, int], a: tuple[Batch, int], c: tuple[Batch, int], info: int, count: int
    ) -> None:
        """Least squares: sizes are those of A, no wider than high, and the right-hand sides, whose first rows the solutions replace."""
        operands: list[Argument] = [a[0].argument(), a[1], c[0].argument(), c[1], info]
        self.launch("gels", (1, count), [*sizes, *operands])

    def apply_reflectors(
        self, side: int, op: int, sizes: tuple[int, int, int], a: tuple[int, int], tau: int, c: tuple[int, int]
    ) -> None:
        """Multiply by the orthogonal matrix of :meth:`geqrf`; sizes are those of C and the number of reflectors."""
        m, n, k = sizes
        length, lines = (m, n) if side == LEFT else (n, m)
        self.launch("apply_reflectors", (lines,), [length, k, side, op, *a, tau, *c])

    def copy(self, m: int, n: int, a: tuple[int, int], b: tuple[int, int]) -> None:
        self.launch("copy", (-(-m * n // THREADS),), [m, n, *a, *b])

    def orgqr(self, sizes: tuple[int, int, int], a: tuple[int, int], tau: int, work: int) -> None:
        """The orthogonal matrix itself in place of its reflectors; work holds a matrix."""
        m, n, k = sizes
        self.launch("identity", (-(-m * n // THREADS),), [m, n, work, m])
        self.apply_reflectors(LEFT, PLAIN, (m, n, k), a, tau, (work, m))
        self.copy(m, n, (work, m), a)

    def heev(
        self, jobs: tuple[int, int], n: int, a: tuple[Batch, int], places: tuple[int, int, int], count: int = 1
    ) -> None:
        """Eigenvalues and vectors of a Hermitian matrix.

        Args:
            jobs: whether vectors are wanted, and the triangle that is stored.
            places: of the values, of a work area of two matrices for each, and of what went wrong.
        """
        (vectors, fill), (values, work, info) = jobs, places
        arguments: list[Argument] = [
            vectors,
            fill == LOWER,
            n,
            a[0].argument(),
            a[1],
            values,
            work,
            SWEEPS,
            self.tolerance,
            info,
        ]
        self.launch("heev", (1, count), arguments)

    def geev(
        self,
        n: int,
        a: tuple[Batch, int],
        values: tuple[int, bool],
        vectors: tuple[int, int, bool],
        work: int,
        info: int,
    ) -> None:
        """Eigenvalues of a general matrix, and its right eigenvectors if they have an address.

        Args:
            values: their address, and whether they are complex.
            vectors: their address, leading dimension, and whether they are complex.
            work: :meth:`geev_bytes` on the device.
        """
        (place, complex_values), (to, ld, complex_vectors) = values, vectors
        arguments: list[Argument] = [
            *(to != 0, n, a[0].argument(), a[1], place, complex_values, to, ld, complex_vectors, work, info)
        ]
        self.launch("geev", (1, 1), arguments, "unsymmetric.cu")

    def geev_bytes(self, n: int) -> int:
        """The work area of :meth:`geev`: a matrix of its type, and a complex one."""
        size = TYPES[self.type].size_bytes
        return n * n * (size + (size if self.type in COMPLEX else 2 * size))

    def gesvd(
        self,
        vectors: int,
        sizes: tuple[int, int, int],
        a: tuple[Batch, int],
        to: SingularValues,
        work: int,
        count: int = 1,
    ) -> None:
        """Singular values and vectors; sizes are those of A, no wider than high, and the columns of U; work holds A and V."""
        m, n, columns = sizes
        self.launch(
            "gesvd",
            (1, count),
            [
                *(vectors, m, n, a[0].argument(), a[1], to.values, to.u[0].argument(), to.u[1], columns),
                *(to.v[0].argument(), to.v[1], to.v_transposed, work, SWEEPS, self.tolerance, to.info),
            ],
        )

    def adjoint(self, m: int, n: int, a: tuple[Batch, int], to: Batch, count: int = 1) -> None:
        """The conjugate transposes of matrices, without gaps."""
        self.launch("adjoint", (-(-m * n // THREADS), count), [m, n, a[0].argument(), a[1], to.argument()])
