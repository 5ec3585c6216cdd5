"""LU factorisation with partial pivoting on tensor cores, by kernels of ours (``refinement.cu``).

The matrix is divided into blocks of 512 columns.  A block is factorised recursively down to panels of 32 columns, in the type of the factors (FP32 or
FP64); the rows of U follow, and their product is subtracted from the rest of the matrix.  Almost all operations are in these products, which tensor cores
compute; within a block, tensor cores compute only the product between its halves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.api import GPU
from warpwright.arrays import DeviceArray
from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.kernel import Kernel
from warpwright.run import Run

SOURCE = Path(__file__).with_name("refinement.cu")
WIDTH, SIDE, THREADS = 32, 64, 256
"""Columns of a panel, rows of a triangle that is inverted, and threads of a block."""
BLOCK = 512
"""Columns whose product with the rest of the matrix is one launch."""
HALF = 256
"""Columns of half a block: the fewest that tensor cores multiply."""
PANEL_ROWS = 256
"""Rows of a block of a panel's grid at least."""
FIRST_ARCH = 80
FLOAT, TF32, FP16, BF16, DOUBLE = range(5)
"""KIND of ``refinement.cu``."""


@dataclass(frozen=True, slots=True)
class Precision:
    """How a matrix is factorised."""

    name: str
    type: npt.DTypeLike
    """Of the factors."""
    kind: int
    """How products of at least ``HALF`` columns are computed."""
    inner_kind: int
    """The same for products of fewer columns, within a block."""
    scaled: bool = False
    """Whether rows and columns are scaled to a largest element between one half and one: FP16 has few exponents."""


PRECISIONS = {
    one.name: one
    for one in (
        Precision("fp64", np.float64, DOUBLE, DOUBLE),
        Precision("fp32", np.float32, FLOAT, FLOAT),
        Precision("tf32", np.float32, TF32, FLOAT),
        Precision("fp16", np.float32, FP16, FLOAT, scaled=True),
        Precision("bf16", np.float32, BF16, FLOAT),
    )
}
_STAGE_BYTES = {
    FLOAT: 4 * (128 * 36 + 32 * 136),
    TF32: 4 * (128 * 36 + 32 * 136),
    FP16: 2 * (128 * 40 + 32 * 136),
    BF16: 2 * (128 * 40 + 32 * 136),
    DOUBLE: 8 * (128 * 20 + 16 * 68),
}
"""Shared memory of one of the two stages of ``update``."""
_TILE_BYTES = {kind: 128 * (8 * 72 if kind == DOUBLE else 4 * 136) for kind in _STAGE_BYTES}
"""Shared memory of its tile of C."""

Launched = Callable[[str, Run], None]
"""Told each launch with the name of its kernel."""


def precision_of(name: str) -> Precision:
    """A precision by its name.

    Raises:
        ArgumentError: there is none.
    """
    if name not in PRECISIONS:
        raise ArgumentError(f"precision={name!r} is not known; use one of {', '.join(map(repr, PRECISIONS))}")
    return PRECISIONS[name]


def kernels(gpu: GPU, precision: Precision, kind: int) -> dict[str, Kernel]:
    """The kernels for factors of a precision, whose ``update`` multiplies in one way.

    Raises:
        UnsupportedError: the chip lacks these tensor cores.
    """
    if gpu.chip.arch < FIRST_ARCH:
        raise UnsupportedError(
            f"{gpu.name} has no tensor cores for TF32, BF16 and FP64; a100 and h200 have them, and refinement runs there"
        )
    type_name = "double" if np.dtype(precision.type) == np.float64 else "float"
    return _loaded(gpu, type_name, kind)


@lru_cache(maxsize=8)
def _loaded(gpu: GPU, type_name: str, kind: int) -> dict[str, Kernel]:
    """The kernels, kept for the next system: decoding them takes longer than a small one."""
    module = gpu.compile(SOURCE, defines={"ELEMENT": type_name, "KIND": kind})
    return {name: module[name] for name in _NAMES}


_NAMES = (
    "factor_panel", "exchange_rows", "solve_rows", "update", "invert_triangles", "solve_triangle", "product", "inner_products", "combine",
    "normalise",
)  # fmt: skip


def update(
    kernel: Kernel,
    kind: int,
    matrix: DeviceArray,
    rows: tuple[int, int],
    columns: tuple[int, int],
    first: int,
    depth: int,
) -> Run:
    """Subtract from a part of a matrix the product of ``depth`` columns of L, beginning with ``first``, and as many rows of U.

    Args:
        kernel: ``update``, compiled for ``kind``.
        matrix: [n][n], or only the rows or columns that are used.
        rows: the first row of the part, and the one after its last.
        columns: the same of its columns.
    """
    tile_n = 64 if kind == DOUBLE else 128
    grid = (-(-(columns[1] - columns[0]) // tile_n), -(-(rows[1] - rows[0]) // 128))
    ints = [np.int32(value) for value in (matrix.shape[1], *rows, *columns, first, depth)]
    return kernel[grid, THREADS, 2 * _STAGE_BYTES[kind] + _TILE_BYTES[kind]](matrix, *ints)


class Factors:
    """L and U of a matrix on a GPU, below and above the diagonal of one array, with the order of its rows.

    Args:
        matrix: square, of an order that is a multiple of 64, in the type of the factors.
        launched: told each launch.
    """

    def __init__(
        self, gpu: GPU, matrix: npt.NDArray[Any], precision: Precision, launched: Launched = lambda name, run: None
    ) -> None:
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) % SIDE or not len(matrix):
            raise ArgumentError(
                f"a matrix of {' x '.join(map(str, matrix.shape))} must be square, of an order that is a multiple of {SIDE}"
            )
        self.n = len(matrix)
        self.precision = precision
        self._gpu = gpu
        self._launched = launched
        self._kernels = {kind: kernels(gpu, precision, kind) for kind in {precision.kind, precision.inner_kind}}
        self.lu = gpu.array(matrix.astype(precision.type))
        self._pivots = gpu.zeros(self.n, np.int32)
        self._singular = gpu.zeros(1, np.int32)
        most = gpu.chip.sm.sm_count
        self._published = gpu.zeros(2 * (most + 1) * WIDTH, self.lu.dtype)
        self._candidates = gpu.zeros(2 * most * 4, np.int32)
        self._number = 1
        """Of the next panel's first column, among all that were factorised."""

    @property
    def singular(self) -> int:
        """The first column, counted from 1, whose pivot was zero or not a number; 0 if there is none."""
        return int(self._singular[0])

    def order(self) -> npt.NDArray[np.int32]:
        """Which row of the matrix each row of the factors was."""
        rows = np.arange(self.n, dtype=np.int32)
        for row, other in enumerate(self._pivots.get()):
            rows[[row, other]] = rows[[other, row]]
        return rows

    def run(self, block: int = BLOCK) -> None:
        """Factorise."""
        for first in range(0, self.n, block):
            width = min(block, self.n - first)
            self.factorise(first, width)
            self.subtract(first, width)

    def factorise(self, first: int, width: int) -> None:
        """Make a block's columns of L and rows of U."""
        self._factorise(first, width)
        if first + width < self.n:
            self._solve_rows(first, width, (first + width, self.n))

    def subtract(self, first: int, width: int) -> None:
        """Take a block's product from the rest of the matrix."""
        rest = (first + width, self.n)
        if rest[0] < self.n:
            self._update(self.precision.kind, rest, rest, first, width)

    def inverses(self) -> tuple[DeviceArray, DeviceArray]:
        """Of the triangles of 64 x 64 on the diagonals of L and U."""
        made = []
        for upper in (0, 1):
            held = self._gpu.zeros((self.n, SIDE), self.lu.dtype)
            shared = (SIDE * (SIDE + 1) + SIDE * SIDE) * self.lu.dtype.itemsize
            self._launch(
                "invert_triangles", self.n // SIDE, SIDE, shared, (self.lu, np.int32(self.n), np.int32(upper), held)
            )
            made.append(held)
        return made[0], made[1]

    def _factorise(self, first: int, width: int) -> None:
        """Factorise columns of all rows from ``first`` on."""
        if width == WIDTH:
            self._panel(first)
            return
        half = width // 2 // WIDTH * WIDTH or WIDTH
        middle, end = first + half, first + width
        self._factorise(first, half)
        self._solve_rows(first, half, (middle, end))
        self._update(self._kind(half), (middle, self.n), (middle, end), first, half)
        self._factorise(middle, width - half)

    def _panel(self, first: int) -> None:
        height = self.n - first
        most = self._gpu.chip.sm.sm_count
        rows = max(PANEL_ROWS, -(-height // most))
        grid = -(-height // rows)
        shared = rows * (WIDTH + 1) * self.lu.dtype.itemsize
        n, at = np.int32(self.n), np.int32(first)
        number, self._number = np.int32(self._number), self._number + WIDTH
        self._launch(
            "factor_panel",
            grid,
            THREADS,
            shared,
            (self.lu, n, at, np.int32(rows), number, self._published, self._candidates, self._pivots, self._singular),
        )
        if self.n > WIDTH:
            self._launch("exchange_rows", -(-(self.n - WIDTH) // THREADS), THREADS, 0, (self.lu, n, at, self._pivots))

    def _solve_rows(self, first: int, width: int, columns: tuple[int, int]) -> None:
        """Make rows of U of the columns from ``columns[0]`` to ``columns[1]``."""
        if width > WIDTH:
            half = width // 2 // WIDTH * WIDTH
            self._solve_rows(first, half, columns)
            self._update(self._kind(half), (first + half, first + width), columns, first, half)
            self._solve_rows(first + half, width - half, columns)
            return
        begin, end = columns
        threads = 64
        ints = [np.int32(value) for value in (self.n, first, begin, end)]
        self._launch("solve_rows", -(-(end - begin) // threads), threads, 0, (self.lu, *ints))

    def _kind(self, depth: int) -> int:
        """How a product within a block is computed."""
        return self.precision.kind if depth >= HALF else self.precision.inner_kind

    def _update(self, kind: int, rows: tuple[int, int], columns: tuple[int, int], first: int, depth: int) -> None:
        run = update(self._kernels[kind]["update"], kind, self.lu, rows, columns, first, depth)
        self._launched("update", run)

    def _launch(
        self,
        name: str,
        grid: int | tuple[int, int],
        threads: int,
        shared: int,
        arguments: tuple[Any, ...],
    ) -> None:
        kernel = self._kernels[self.precision.inner_kind][name]
        self._launched(name, kernel[grid, threads, shared](*arguments))
