"""Levels 2 and 3 of cuBLAS with symmetric, Hermitian and triangular matrices, and low-rank updates: symv to her2k, ger, trmm, trsv (``cuda/structured.cu``)."""

from __future__ import annotations

import struct
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from warpwright.libraries import library_kernels
from warpwright.libraries.calls import entry, invalid
from warpwright.libraries.cublas.handles import DEVICE_SCALARS, Handle, handle_of
from warpwright.libraries.cublas.products import Scalar
from warpwright.libraries.dense import ADJOINT, LEFT, LOWER, PLAIN, RIGHT, THREADS, TRANSPOSED, UPPER, Solver, Triangle
from warpwright.libraries.element_types import OF_LETTER, REAL_PART, TYPES

_TILE = 16
_GENERAL, _SYMMETRIC, _HERMITIAN = range(3)
_ALL, _LOWER_TRIANGLE, _UPPER_TRIANGLE = range(3)


@dataclass(frozen=True, slots=True)
class _Number:
    """alpha or beta as a kernel takes it; ``real``: of the real type although the matrices are complex."""

    scalar: Scalar
    real: bool = False
    conjugated: bool = False

    def argument(self) -> bytes:
        value = complex(self.scalar.value)
        return struct.pack("<Qddii", self.scalar.address, value.real, value.imag, self.real, self.conjugated)


_ONE = _Number(Scalar(1))


@dataclass(frozen=True, slots=True)
class _Operand:
    """A matrix by its address and the distances of its elements along both dimensions, in elements."""

    place: int
    down: int
    across: int
    kind: int = _GENERAL
    lower: bool = False
    conjugated: bool = False

    def argument(self) -> bytes:
        flags = (self.kind, self.lower, self.conjugated)
        return struct.pack("<Qqqiii4x", self.place, self.down, self.across, *flags)

    def transposed(self) -> _Operand:
        """The same matrix with its dimensions exchanged; of a symmetric or Hermitian one the other triangle is stored then."""
        return replace(self, down=self.across, across=self.down, lower=not self.lower)

    def applied(self, op: int) -> _Operand:
        """As it is, transposed, or conjugated too."""
        return self if op == PLAIN else replace(self.transposed(), conjugated=op == ADJOINT)


@dataclass(frozen=True, slots=True)
class _Result:
    place: int
    down: int
    across: int
    region: int = _ALL
    real_diagonal: bool = False

    def argument(self) -> bytes:
        return struct.pack("<Qqqii", self.place, self.down, self.across, self.region, self.real_diagonal)


@dataclass(frozen=True, slots=True)
class _Work:
    """Launches for one type of elements in a handle's stream."""

    handle: Handle
    type: int

    @property
    def element_bytes(self) -> int:
        return TYPES[self.type].size_bytes

    def launch(self, kernel: str, grid: tuple[int, ...], arguments: list[int | float | bytes]) -> None:
        if 0 in grid:
            return
        code = library_kernels.code("structured.cu", "cuBLAS", ELEMENT=TYPES[self.type].name)
        library_kernels.launch(code, f"warpwright_{kernel}", grid, THREADS, self.handle.stream, arguments)

    def scalar(self, place: int, real: bool = False) -> _Number:
        """The scalar that a call's pointer refers to."""
        on_device = self.handle.pointer_mode == DEVICE_SCALARS
        return _Number(Scalar.read(place, REAL_PART.get(self.type, self.type) if real else self.type, on_device), real)

    def vector(self, place: int, n: int, step: int) -> _Operand:
        """A vector as a matrix of one column: one with a negative increment begins at its end.

        Raises:
            LibraryError: its increment is 0.
        """
        if not step:
            raise invalid("a vector's increment is 0")
        first = place + (1 - n) * step * self.element_bytes if step < 0 else place
        return _Operand(first, step, 0)

    def product(
        self,
        sizes: tuple[int, int, int],
        alpha: _Number,
        operands: tuple[_Operand, _Operand],
        beta: _Number,
        result: _Result,
    ) -> None:
        """``result = alpha left right + beta result``; sizes are m, n and k."""
        m, n, _ = sizes
        left, right = operands
        arguments: list[int | float | bytes] = [*sizes, alpha.argument(), left.argument(), right.argument()]
        grid = (-(-m // _TILE), -(-n // _TILE))
        self.launch("structured_product", grid, [*arguments, beta.argument(), result.argument()])

    def triangular(
        self, solves: bool, form: Triangle, n: int, alpha: _Number, a: tuple[int, int], x: _Operand, count: int
    ) -> None:
        """Multiply vectors by a triangular matrix or solve with it, in place; ``x.across`` is their distance."""
        # A row times op(A) is the transposed matrix times a column; conjugation stays.
        transposed = (form.op != PLAIN) != (form.side == RIGHT)
        flags = [solves, form.fill == LOWER, transposed, form.op == ADJOINT, form.unit]
        self.launch("triangular_vectors", (count,), [n, *flags, alpha.argument(), *a, x.place, x.down, x.across])


def _check(refused: bool) -> None:
    if refused:
        raise invalid()


def _transposition(conjugates: bool) -> int:
    """The operation by which a matrix becomes the second factor of a symmetric or a Hermitian product."""
    return ADJOINT if conjugates else TRANSPOSED


def _region(fill: int) -> int:
    _check(fill not in (LOWER, UPPER))
    return _LOWER_TRIANGLE if fill == LOWER else _UPPER_TRIANGLE


def _entry(stem: str, record: Any, work: Callable[[_Work, Any], None], type: int) -> None:
    """Register both forms of a function whose first argument is the handle."""

    @entry(f"cublas{stem}_v2", f"cublas{stem}_v2_64", f"cublas{stem}", f"cublas{stem}_64", record=record)
    def call(arguments: Any) -> None:
        work(_Work(handle_of(arguments.number), type), arguments)


# --- symmetric and Hermitian matrices ---------------------------------------------------------------

Symv = namedtuple("Symv", "number fill n alpha a lda x x_step beta y y_step")
"""Arguments of cublas…symv and hemv."""

Symm = namedtuple("Symm", "number side fill m n alpha a lda b ldb beta c ldc")
"""Arguments of cublas…symm and hemm."""


def _stored(fill: int, kind: int, a: int, lda: int) -> _Operand:
    _check(fill not in (LOWER, UPPER))
    return _Operand(a, 1, lda, kind, fill == LOWER)


def _symv(work: _Work, call: Symv, kind: int) -> None:
    _check(call.n < 0 or call.lda < max(1, call.n))
    x, y = work.vector(call.x, call.n, call.x_step), work.vector(call.y, call.n, call.y_step)
    operands = (_stored(call.fill, kind, call.a, call.lda), x)
    result = _Result(y.place, y.down, 0)
    work.product((call.n, 1, call.n), work.scalar(call.alpha), operands, work.scalar(call.beta), result)


def _symm(work: _Work, call: Symm, kind: int) -> None:
    m, n = call.m, call.n
    order = m if call.side == LEFT else n
    _check(min(m, n) < 0 or call.side not in (LEFT, RIGHT))
    _check(call.lda < max(1, order) or min(call.ldb, call.ldc) < max(1, m))
    structured, other = _stored(call.fill, kind, call.a, call.lda), _Operand(call.b, 1, call.ldb)
    operands = (structured, other) if call.side == LEFT else (other, structured)
    scalars = work.scalar(call.alpha), work.scalar(call.beta)
    work.product((m, n, order), scalars[0], operands, scalars[1], _Result(call.c, 1, call.ldc))


# --- updates ----------------------------------------------------------------------------------------

Ger = namedtuple("Ger", "number m n alpha x x_step y y_step a lda")
"""Arguments of cublas…ger, geru and gerc."""

Syr = namedtuple("Syr", "number fill n alpha x x_step a lda")
"""Arguments of cublas…syr and her."""

Syr2 = namedtuple("Syr2", "number fill n alpha x x_step y y_step a lda")
"""Arguments of cublas…syr2 and her2."""

Syrk = namedtuple("Syrk", "number fill op n k alpha a lda beta c ldc")
"""Arguments of cublas…syrk and herk."""

Syr2k = namedtuple("Syr2k", "number fill op n k alpha a lda b ldb beta c ldc")
"""Arguments of cublas…syr2k, her2k, syrkx and herkx."""


def _ger(work: _Work, call: Ger, conjugates: bool) -> None:
    _check(min(call.m, call.n) < 0 or call.lda < max(1, call.m))
    x, y = work.vector(call.x, call.m, call.x_step), work.vector(call.y, call.n, call.y_step)
    row = y.applied(_transposition(conjugates))
    work.product((call.m, call.n, 1), work.scalar(call.alpha), (x, row), _ONE, _Result(call.a, 1, call.lda))


def _syr(work: _Work, call: Syr, hermitian: bool) -> None:
    _check(call.n < 0 or call.lda < max(1, call.n))
    x = work.vector(call.x, call.n, call.x_step)
    operands = (x, x.applied(_transposition(hermitian)))
    result = _Result(call.a, 1, call.lda, _region(call.fill), hermitian)
    work.product((call.n, call.n, 1), work.scalar(call.alpha, hermitian), operands, _ONE, result)


def _twice(
    work: _Work,
    sizes: tuple[int, int, int],
    scalars: tuple[_Number, _Number],
    operands: tuple[_Operand, _Operand],
    result: _Result,
) -> None:
    """``alpha A B^T + alpha B A^T + beta C``, with conjugates where C is Hermitian."""
    (alpha, beta), (a, b) = scalars, operands
    op = _transposition(result.real_diagonal)
    work.product(sizes, alpha, (a, _across(b, op)), beta, replace(result, real_diagonal=False))
    second = replace(alpha, conjugated=result.real_diagonal)
    work.product(sizes, second, (b, _across(a, op)), _ONE, result)


def _across(operand: _Operand, op: int) -> _Operand:
    """The transposed operand, whose conjugation changes with op's."""
    return replace(operand.transposed(), conjugated=operand.conjugated != (op == ADJOINT))


def _syr2(work: _Work, call: Syr2, hermitian: bool) -> None:
    _check(call.n < 0 or call.lda < max(1, call.n))
    vectors = work.vector(call.x, call.n, call.x_step), work.vector(call.y, call.n, call.y_step)
    result = _Result(call.a, 1, call.lda, _region(call.fill), hermitian)
    _twice(work, (call.n, call.n, 1), (work.scalar(call.alpha), _ONE), vectors, result)


def _factor(call: Any, place: int, ld: int, hermitian: bool) -> _Operand:
    """op(A), n x k, of a call of syrk or syr2k."""
    _check(call.op not in (PLAIN, _transposition(hermitian)))
    _check(ld < max(1, call.k if call.op else call.n))
    return _Operand(place, 1, ld).applied(call.op)


def _syrk(work: _Work, call: Syrk, hermitian: bool) -> None:
    _check(min(call.n, call.k) < 0 or call.ldc < max(1, call.n))
    factor = _factor(call, call.a, call.lda, hermitian)
    operands = (factor, _across(factor, _transposition(hermitian)))
    result = _Result(call.c, 1, call.ldc, _region(call.fill), hermitian)
    scalars = work.scalar(call.alpha, hermitian), work.scalar(call.beta, hermitian)
    work.product((call.n, call.n, call.k), scalars[0], operands, scalars[1], result)


def _pair(call: Syr2k, hermitian: bool) -> tuple[_Operand, _Operand]:
    _check(min(call.n, call.k) < 0 or call.ldc < max(1, call.n))
    return _factor(call, call.a, call.lda, hermitian), _factor(call, call.b, call.ldb, hermitian)


def _syr2k(work: _Work, call: Syr2k, hermitian: bool) -> None:
    result = _Result(call.c, 1, call.ldc, _region(call.fill), hermitian)
    scalars = work.scalar(call.alpha), work.scalar(call.beta, hermitian)
    _twice(work, (call.n, call.n, call.k), scalars, _pair(call, hermitian), result)


def _syrkx(work: _Work, call: Syr2k, hermitian: bool) -> None:
    a, b = _pair(call, hermitian)
    operands = (a, _across(b, _transposition(hermitian)))
    result = _Result(call.c, 1, call.ldc, _region(call.fill), hermitian)
    scalars = work.scalar(call.alpha), work.scalar(call.beta, hermitian)
    work.product((call.n, call.n, call.k), scalars[0], operands, scalars[1], result)


# --- triangular matrices ----------------------------------------------------------------------------

Trmv = namedtuple("Trmv", "number fill op unit n a lda x x_step")
"""Arguments of cublas…trmv and trsv."""

Trmm = namedtuple("Trmm", "number side fill op unit m n alpha a lda b ldb c ldc")
"""Arguments of cublas…trmm."""


def _check_triangle(form: Triangle) -> None:
    _check(form.side not in (LEFT, RIGHT) or form.fill not in (LOWER, UPPER))
    _check(form.op not in (PLAIN, TRANSPOSED, ADJOINT) or form.unit not in (0, 1))


def _trmv(work: _Work, call: Trmv, solves: bool) -> None:
    form = Triangle(LEFT, call.fill, call.op, call.unit)
    _check_triangle(form)
    _check(call.n < 0 or call.lda < max(1, call.n))
    x = work.vector(call.x, call.n, call.x_step)
    if call.n:
        work.triangular(solves, form, call.n, _ONE, (call.a, call.lda), x, 1)


def _trmm(work: _Work, call: Trmm) -> None:
    form, (m, n) = Triangle(call.side, call.fill, call.op, call.unit), (call.m, call.n)
    _check_triangle(form)
    order, count = (m, n) if call.side == LEFT else (n, m)
    _check(min(m, n) < 0 or call.lda < max(1, order) or min(call.ldb, call.ldc) < max(1, m))
    if call.c != call.b:
        Solver(work.type, work.handle.stream, "cuBLAS").copy(m, n, (call.b, call.ldb), (call.c, call.ldc))
    vectors = _Operand(call.c, 1, call.ldc)
    if call.side == RIGHT:
        vectors = vectors.transposed()
    if order:
        work.triangular(False, form, order, work.scalar(call.alpha), (call.a, call.lda), vectors, count)


def _register(letter: str) -> None:
    type, is_complex = OF_LETTER[letter], letter in "CZ"
    forms: list[tuple[str, bool]] = [("sy", False), ("he", True)] if is_complex else [("sy", False)]
    for start, hermitian in forms:
        kind = _HERMITIAN if hermitian else _SYMMETRIC
        rows: tuple[tuple[str, Any, Callable[..., None], int | bool], ...] = (
            *((f"{start}mv", Symv, _symv, kind), (f"{start}mm", Symm, _symm, kind)),
            *((f"{start}r", Syr, _syr, hermitian), (f"{start}r2", Syr2, _syr2, hermitian)),
            *((f"{start}rk", Syrk, _syrk, hermitian), (f"{start}r2k", Syr2k, _syr2k, hermitian)),
            (f"{start}rkx", Syr2k, _syrkx, hermitian),
        )
        for stem, record, work, flag in rows:
            _entry(f"{letter}{stem}", record, lambda w, c, work=work, flag=flag: work(w, c, flag), type)  # type: ignore[misc]
    for suffix, conjugates in (("u", False), ("c", True)) if is_complex else (("", False),):
        _entry(f"{letter}ger{suffix}", Ger, lambda w, c, flag=conjugates: _ger(w, c, flag), type)  # type: ignore[misc]
    _entry(f"{letter}trmv", Trmv, lambda w, c: _trmv(w, c, False), type)
    _entry(f"{letter}trsv", Trmv, lambda w, c: _trmv(w, c, True), type)
    _entry(f"{letter}trmm", Trmm, _trmm, type)


for _letter in "SDCZ":
    _register(_letter)
