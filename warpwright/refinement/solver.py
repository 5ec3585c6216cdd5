"""Refinement by flexible GMRES: residuals and vectors in double precision, factors of any precision as the preconditioner.

A system counts as solved when ‖b - A x‖ is at most √n ‖A‖ ‖x‖ 2⁻⁵³ in the infinity norm, the rule of cuSOLVER's iterative-refinement solver and of LAPACK's ``dsgesv``.
What needs more than ``most_iterations`` vectors, or whose factors are singular or not numbers, is solved again with FP64 factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.api import GPU
from warpwright.arrays import DeviceArray
from warpwright.errors import ArgumentError
from warpwright.refinement.factors import BLOCK, SIDE, THREADS, Factors, Launched, Precision, kernels, precision_of

MOST_ITERATIONS = 50
"""cuSOLVER's default."""
UNIT_ROUNDOFF = 2.0**-53
Vector = npt.NDArray[np.float64]


@dataclass(slots=True)
class Solution:
    """What :func:`solve` found."""

    x: Vector
    iterations: int
    """Vectors of GMRES that were made; 0 where the factors' own solution was good enough."""
    converged: bool
    """Whether the factors of the precision asked for led to double precision; otherwise x comes from FP64 factors."""
    backward_error: float
    """‖b - A x‖ / (‖A‖ ‖x‖), in the infinity norm."""


def solve(
    gpu: GPU,
    matrix: npt.ArrayLike,
    right: npt.ArrayLike,
    precision: str = "tf32",
    most_iterations: int = MOST_ITERATIONS,
) -> Solution:
    """Solve A x = b to double precision with factors of a lower one.

    Args:
        matrix: A, n x n.
        right: b, of n values.
        precision: ``"tf32"``, ``"fp16"`` (with scaled rows and columns), ``"bf16"``, ``"fp32"`` or ``"fp64"``.
        most_iterations: vectors of GMRES before FP64 factors are used instead.

    Raises:
        ArgumentError: the shapes do not fit each other, there is no such precision, or A is singular in FP64.
        UnsupportedError: the chip has no tensor cores for these types.
    """
    a, b = np.asarray(matrix, np.float64), np.asarray(right, np.float64)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or b.shape != a.shape[:1] or not len(a):
        raise ArgumentError(f"solve() takes a square matrix and as many values, not shapes {a.shape} and {b.shape}")
    kind = precision_of(precision)
    system = System(gpu, a, b)
    found = _attempt(system, kind, most_iterations)
    converged = found is not None
    iterations = system.iterations
    if found is None:
        found = _attempt(system, precision_of("fp64"), most_iterations)
    if found is None:
        raise ArgumentError(f"the matrix of order {len(a)} is singular, or too close to it for FP64")
    return Solution(found[: len(b)].copy(), iterations, converged, system.backward_error(found))


def _attempt(system: System, precision: Precision, most: int) -> Vector | None:
    """Solve with the factors of one precision; None: they are singular, or the iterations did not suffice."""
    preconditioner = Preconditioner(system, precision)
    if preconditioner.factors.singular:
        return None
    return system.refined(preconditioner, most)


def padded(a: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A matrix up to an order that is a multiple of 64, with ones on the diagonal."""
    order = -(-len(a) // SIDE) * SIDE
    whole = np.eye(order)
    whole[: len(a), : len(a)] = a
    return whole


def scales(a: npt.NDArray[np.float64]) -> tuple[Vector, Vector]:
    """Powers of two by which rows and then columns are multiplied, so that their largest elements are between one half and one."""

    def towards_one(sizes: Vector) -> Vector:
        return np.where(sizes > 0, 2.0 ** -np.ceil(np.log2(np.where(sizes > 0, sizes, 1))), 1.0)

    rows = towards_one(np.abs(a).max(axis=1))
    return rows, towards_one((np.abs(a) * rows[:, None]).max(axis=0))


class System:
    """A x = b on a GPU, with the vectors of GMRES."""

    def __init__(
        self, gpu: GPU, a: npt.NDArray[np.float64], b: Vector, launched: Launched = lambda name, run: None
    ) -> None:
        self.gpu = gpu
        self.launched = launched
        self.host = padded(a)
        self.n = len(self.host)
        self.norm = float(np.abs(self.host).sum(axis=1).max())
        self.iterations = 0
        self._a = gpu.array(self.host)
        self._b = gpu.array(np.concatenate([b, np.ones(self.n - len(b))]))
        self._kernels = kernels(gpu, precision_of("fp64"), precision_of("fp64").kind)
        self._x = gpu.zeros(self.n, np.float64)
        self._w = gpu.zeros(self.n, np.float64)
        self._scalars = gpu.zeros(1, np.float64)

    def launch(self, name: str, grid: int, *arguments: Any) -> None:
        """Launch one of the vectors' kernels."""
        self.launched(name, self._kernels[name][grid, THREADS](*arguments))

    @property
    def _grid(self) -> int:
        """Blocks of a kernel with a thread for each row."""
        return -(-self.n // THREADS)

    def backward_error(self, x: Vector) -> float:
        """Of a solution, computed on the host."""
        residual = self._b.get() - self.host @ x
        return float(np.abs(residual).max() / (self.norm * np.abs(x).max()))

    def _residual(self) -> float:
        """w = b - A x; whether it is small enough as the ratio to what is allowed."""
        self.launch("product", -(-self.n * 32 // THREADS), self._a, np.int32(self.n), self._x, self._b, self._w)
        size, x = float(np.abs(self._w.get()).max()), float(np.abs(self._x.get()).max())
        allowed = self.n**0.5 * self.norm * x * UNIT_ROUNDOFF
        return size / allowed if allowed > 0 else np.inf

    def refined(self, preconditioner: Preconditioner, most: int) -> Vector | None:
        """x, or None if it takes more than ``most`` vectors."""
        self.iterations = 0
        preconditioner.solve(self._b, self._x)
        before = np.inf
        while True:
            ratio = self._residual()
            if ratio <= 1:
                return np.asarray(self._x.get(), np.float64)
            # What one restart no longer makes smaller, the next does not either.
            if self.iterations >= most or not ratio < before:
                return None
            before = ratio
            self._cycle(preconditioner, most - self.iterations, 0.5 / ratio)

    def _inner(self, vectors: DeviceArray, count: int) -> Vector:
        """Inner products of the first vectors with w, on the host too."""
        products = self._products
        self.launch("inner_products", count, np.int32(self.n), vectors, self._w, products)
        return np.asarray(products.get()[:count], np.float64)

    def _cycle(self, preconditioner: Preconditioner, most: int, reduction: float) -> None:
        """GMRES from the residual in w until it has become smaller by the reduction; x moves by what was found."""
        n = np.int32(self.n)
        basis = self.gpu.zeros((most + 1, self.n), np.float64)
        moves = self.gpu.zeros((most, self.n), np.float64)
        self._products = self.gpu.zeros(most + 1, np.float64)
        first = float(self._square() ** 0.5)
        self.launch("normalise", self._grid, n, self._w, self._scalars, basis)
        hessenberg = np.zeros((most + 1, most))
        made = 0
        coefficients: Vector = np.zeros(0)
        while made < most:
            preconditioner.solve(row(basis, made), row(moves, made))
            self.launch("product", -(-self.n * 32 // THREADS), self._a, n, row(moves, made), 0, self._w)
            for _ in range(2):
                hessenberg[: made + 1, made] += self._inner(basis, made + 1)
                self.launch("combine", self._grid, n, np.int32(made + 1), basis, self._products, -1.0, self._w)
            hessenberg[made + 1, made] = self._square() ** 0.5
            self.launch("normalise", self._grid, n, self._w, self._scalars, row(basis, made + 1))
            made += 1
            self.iterations += 1
            part = hessenberg[: made + 1, :made]
            if not np.isfinite(part).all():
                break
            goal = np.zeros(made + 1)
            goal[0] = first
            coefficients = np.asarray(np.linalg.lstsq(part, goal, rcond=None)[0], np.float64)
            if np.linalg.norm(goal - part @ coefficients) <= reduction * first:
                break
        held = self.gpu.array(coefficients if len(coefficients) else np.zeros(1))
        self.launch("combine", self._grid, n, np.int32(len(coefficients)), moves, held, 1.0, self._x)

    def _square(self) -> float:
        """The inner product of w with itself."""
        self.launch("inner_products", 1, np.int32(self.n), self._w, self._w, self._scalars)
        return float(self._scalars[0])


def row(vectors: DeviceArray, number: int) -> int:
    """The address of a vector."""
    return vectors.device_address() + number * vectors.shape[1] * vectors.dtype.itemsize


def block_of(order: int) -> int:
    """Columns of a block: a quarter of a small matrix, so that tensor cores have a part in it."""
    return min(BLOCK, max(SIDE, order // 4 // SIDE * SIDE))


class Preconditioner:
    """x = inverse(A) y by factors of a precision.

    Args:
        factorised: False takes a triangular matrix as its own factors.
    """

    def __init__(self, system: System, precision: Precision, factorised: bool = True) -> None:
        self._system = system
        gpu = system.gpu
        matrix = system.host
        self._rows: DeviceArray | int = 0
        self._columns: DeviceArray | int = 0
        if precision.scaled:
            rows, columns = scales(matrix)
            matrix = matrix * rows[:, None] * columns
            self._rows, self._columns = gpu.array(rows), gpu.array(columns)
        with np.errstate(over="ignore"):
            self.factors = Factors(gpu, matrix, precision, system.launched)
        if factorised:
            self.factors.run(block_of(system.n))
        self._kernel = kernels(gpu, precision, precision.inner_kind)["solve_triangle"]
        if not self.factors.singular:
            self._lower, self._upper = self.factors.inverses()
        self._order = gpu.array(self.factors.order())
        self._half, self._work = gpu.zeros(system.n, np.float64), gpu.zeros(system.n, np.float64)
        self._flags = gpu.zeros((2, system.n // SIDE), np.int32)
        self._turn = 0

    def solve(self, y: DeviceArray | int, x: DeviceArray | int) -> None:
        """Solve with L, then with U."""
        self._turn += 1
        launch = self._kernel[self._system.n // SIDE, THREADS]
        n, turn = np.int32(self._system.n), np.int32(self._turn)
        lower = (self._lower, y, self._order, self._rows, self._half, 0, 0, row(self._flags, 0), turn)
        upper = (self._upper, self._half, 0, 0, self._work, x, self._columns, row(self._flags, 1), turn)
        for side, arguments in enumerate((lower, upper)):
            self._system.launched("solve_triangle", launch(self.factors.lu, n, np.int32(side), *arguments))
