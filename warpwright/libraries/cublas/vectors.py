"""Levels 1 and 2 of cuBLAS: dot, norms, sums, extremes, scal, axpy, copy, swap, gemv."""

from __future__ import annotations

import ctypes
from collections import namedtuple
from collections.abc import Callable
from typing import TypeAlias

from warpwright.driver.driver_state import Device
from warpwright.driver.memory import allocate
from warpwright.libraries import library_kernels
from warpwright.libraries.calls import entry, invalid
from warpwright.libraries.cublas.handles import DEVICE_SCALARS, Handle, handle_of
from warpwright.libraries.cublas.products import Scalar
from warpwright.libraries.element_types import C_32F, C_64F, OF_LETTER, R_16BF, R_16F, R_32F, R_64F, REAL_PART, TYPES

_THREADS, _MOST_BLOCKS = 256, 256
_RESULT_BYTES = 16
_scratch: dict[Device, int] = {}
"""Memory of each device for partial sums and results that go to the host."""


def _code(type: int, out: int | None = None, **more: int) -> library_kernels.Code:
    out = type if out is None else out
    t = TYPES[type]
    return library_kernels.code("vectors.cu", "cuBLAS", ELEMENT=t.name, SUM=t.sum_name, OUT=TYPES[out].name, **more)


def _scratch_of(handle: Handle) -> int:
    if handle.device not in _scratch:
        _scratch[handle.device] = allocate(_RESULT_BYTES * (_MOST_BLOCKS + 1))
    return _scratch[handle.device]


def _with_result(handle: Handle, place: int, size: int, launch: Callable[[int], None]) -> None:
    """Let ``launch`` leave a result on the device, or on the host, which waits for it."""
    if not place:
        raise invalid("the result's pointer is null")
    if handle.pointer_mode == DEVICE_SCALARS:
        launch(place)
        return
    there = _scratch_of(handle) + _RESULT_BYTES * _MOST_BLOCKS
    launch(there)
    library_kernels.synchronize(handle.stream)
    ctypes.memmove(place, there, size)


def _blocks(n: int) -> int:
    return max(1, min(_MOST_BLOCKS, -(-n // _THREADS)))


def dot(
    handle: Handle, n: int, type: int, x: tuple[int, int], y: tuple[int, int], conjugates: bool, place: int
) -> None:
    """The dot product of two vectors, each an address and an increment."""
    code, scratch, blocks = _code(type), _scratch_of(handle), _blocks(n)

    def launch(result: int) -> None:
        arguments = [max(n, 0), x[0], x[1], y[0], y[1], conjugates, scratch]
        library_kernels.launch(code, "warpwright_dot", [blocks], _THREADS, handle.stream, arguments)
        library_kernels.launch(code, "warpwright_dot_result", [1], _THREADS, handle.stream, [blocks, scratch, result])

    _with_result(handle, place, TYPES[type].size_bytes, launch)


def norm(handle: Handle, n: int, type: int, x: tuple[int, int], euclidean: bool, place: int) -> None:
    """The Euclidean norm, or the sum of magnitudes; none of a vector whose increment is not positive."""
    out = REAL_PART.get(type, type)
    code, scratch, blocks = _code(type, out), _scratch_of(handle), _blocks(n)
    count = n if n > 0 and x[1] > 0 else 0

    def launch(result: int) -> None:
        arguments = [count, x[0], x[1], euclidean, scratch]
        library_kernels.launch(code, "warpwright_norm", [blocks], _THREADS, handle.stream, arguments)
        arguments = [blocks, scratch, euclidean, result]
        library_kernels.launch(code, "warpwright_norm_result", [1], _THREADS, handle.stream, arguments)

    _with_result(handle, place, TYPES[out].size_bytes, launch)


def extreme(
    handle: Handle, n: int, type: int, x: tuple[int, int], smallest: bool, place: int, long_index: bool
) -> None:
    """The index of the element of largest or smallest magnitude."""
    count = n if n > 0 and x[1] > 0 else 0

    def launch(result: int) -> None:
        arguments = [count, x[0], x[1], smallest, result, long_index]
        library_kernels.launch(_code(type), "warpwright_extreme", [1], _THREADS, handle.stream, arguments)

    _with_result(handle, place, 8 if long_index else 4, launch)


def elementwise(
    handle: Handle, kind: int, n: int, type: int, scale: Scalar, x: tuple[int, int], y: tuple[int, int] = (0, 0)
) -> None:
    """Scale, add, copy or swap vectors (``kind`` as in ``cuda/vectors.cu``)."""
    if n <= 0:
        return
    arguments = [kind, n, scale.address, scale.value.real, scale.value.imag, *x, *y]
    grid = [-(-n // _THREADS)]
    library_kernels.launch(_code(type), "warpwright_elementwise", grid, _THREADS, handle.stream, arguments)


def row_sums(
    types: tuple[int, int], rows: int, columns: int, place: int, steps: tuple[int, int], result: int, stream: int
) -> None:
    """Sums of a matrix's rows; the types are the matrix's and the result's."""
    arguments = [rows, columns, place, *steps, result]
    library_kernels.launch(_code(*types, ROW_SUMS=1), "warpwright_row_sums", [rows], _THREADS, stream, arguments)


Operand: TypeAlias = tuple[int, int, int]
"""Address, leading dimension of a matrix or increment of a vector, and stride of the batch."""


def gemv(
    handle: Handle,
    op: int,
    sizes: tuple[int, int],
    type: int,
    scalars: tuple[Scalar, Scalar],
    operands: tuple[Operand, Operand, Operand],
    batch: int = 1,
) -> None:
    """``y = alpha op(A) x + beta y``; the operands are A, x and y."""
    (m, n), (a, x, y) = sizes, operands
    if min(m, n, batch) < 0 or a[1] < max(1, m) or not x[1] or not y[1] or op not in (0, 1, 2):
        raise invalid()
    if not (m and n and batch):
        return
    rows = n if op else m
    grid = [-(-rows // (_THREADS // 32 if op else _THREADS)), batch]
    alpha, beta = scalars
    arguments = [op, m, n, alpha.address, alpha.value.real, alpha.value.imag]
    arguments += [beta.address, beta.value.real, beta.value.imag, a[0], a[1], x[0], x[1], y[0], y[1], a[2], x[2], y[2]]
    library_kernels.launch(_code(type), "warpwright_gemv", grid, _THREADS, handle.stream, arguments)


def _scalar(handle: Handle, place: int, type: int) -> Scalar:
    return Scalar.read(place, type, handle.pointer_mode == DEVICE_SCALARS)


def _names(stem: str) -> list[str]:
    return [f"cublas{stem}_v2", f"cublas{stem}_v2_64"]


def _register_reductions(letter: str) -> None:
    type = OF_LETTER[letter]
    is_complex = letter in "CZ"
    real = {"C": "S", "Z": "D"}.get(letter, letter)
    of_real = letter if not is_complex else f"{real}{letter.lower()}"

    for suffix, conjugates in (("u", False), ("c", True)) if is_complex else (("", False),):

        @entry(*_names(f"{letter}dot{suffix}"))
        def dot_call(
            number: int, n: int, x: int, x_step: int, y: int, y_step: int, place: int, c: bool = conjugates
        ) -> None:
            dot(handle_of(number), n, type, (x, x_step), (y, y_step), c, place)

    @entry(*_names(f"{of_real}nrm2"))
    def nrm2(number: int, n: int, x: int, x_step: int, place: int) -> None:
        norm(handle_of(number), n, type, (x, x_step), True, place)

    @entry(*_names(f"{of_real}asum"))
    def asum(number: int, n: int, x: int, x_step: int, place: int) -> None:
        norm(handle_of(number), n, type, (x, x_step), False, place)

    for word, smallest in (("amax", False), ("amin", True)):
        for suffix, long_index in (("_v2", False), ("_v2_64", True)):

            @entry(f"cublasI{letter.lower()}{word}{suffix}")
            def extreme_call(
                number: int, n: int, x: int, x_step: int, place: int, s: bool = smallest, long: bool = long_index
            ) -> None:
                extreme(handle_of(number), n, type, (x, x_step), s, place, long)


Gemv = namedtuple("Gemv", "number op m n alpha a ld x x_step beta y y_step")
"""Arguments of cublas…gemv."""

GemvBatched = namedtuple(
    "GemvBatched", "number op m n alpha a ld stride_a x x_step stride_x beta y y_step stride_y count"
)
"""Arguments of cublas…gemvStridedBatched."""


def _register_updates(letter: str) -> None:
    type = OF_LETTER[letter]

    @entry(*_names(f"{letter}scal"))
    def scal(number: int, n: int, alpha: int, x: int, x_step: int) -> None:
        handle = handle_of(number)
        elementwise(handle, 0, n, type, _scalar(handle, alpha, type), (x, x_step))

    if letter in "CZ":

        @entry(*_names(f"{letter}{'sd'['CZ'.index(letter)]}scal"))
        def scale_by_real(number: int, n: int, alpha: int, x: int, x_step: int) -> None:
            handle = handle_of(number)
            elementwise(handle, 4, n, type, _scalar(handle, alpha, REAL_PART[type]), (x, x_step))

    @entry(*_names(f"{letter}axpy"))
    def axpy(number: int, n: int, alpha: int, x: int, x_step: int, y: int, y_step: int) -> None:
        handle = handle_of(number)
        elementwise(handle, 1, n, type, _scalar(handle, alpha, type), (x, x_step), (y, y_step))

    for word, kind in (("copy", 2), ("swap", 3)):

        @entry(*_names(f"{letter}{word}"))
        def move(number: int, n: int, x: int, x_step: int, y: int, y_step: int, kind: int = kind) -> None:
            elementwise(handle_of(number), kind, n, type, Scalar(), (x, x_step), (y, y_step))

    names = [f"cublas{letter}gemvStridedBatched", f"cublas{letter}gemvStridedBatched_64"]

    @entry(*names, record=GemvBatched)
    def gemv_batched(call: GemvBatched) -> None:
        handle = handle_of(call.number)
        scalars = (_scalar(handle, call.alpha, type), _scalar(handle, call.beta, type))
        operands = (
            (call.a, call.ld, call.stride_a),
            (call.x, call.x_step, call.stride_x),
            (call.y, call.y_step, call.stride_y),
        )
        gemv(handle, call.op, (call.m, call.n), type, scalars, operands, call.count)

    @entry(*_names(f"{letter}gemv"), record=Gemv)
    def gemv_call(call: Gemv) -> None:
        gemv_batched(GemvBatched(**call._asdict(), stride_a=0, stride_x=0, stride_y=0, count=1))


for _letter in "SDCZ":
    _register_reductions(_letter)
    _register_updates(_letter)


DotEx = namedtuple("DotEx", "number n x x_type x_step y y_type y_step place result_type sum_type")
"""Arguments of cublasDotEx."""


@entry("cublasDotEx", "cublasDotEx_64", record=DotEx)
def dot_ex(call: DotEx) -> None:
    if not call.x_type == call.y_type == call.result_type or call.x_type not in (
        R_16F,
        R_16BF,
        R_32F,
        R_64F,
        C_32F,
        C_64F,
    ):
        raise invalid()
    dot(handle_of(call.number), call.n, call.x_type, (call.x, call.x_step), (call.y, call.y_step), False, call.place)


def _copy_matrix(rows: int, columns: int, size: int, a: int, lda: int, b: int, ldb: int) -> None:
    for j in range(columns):
        ctypes.memmove(b + j * ldb * size, a + j * lda * size, rows * size)


@entry("cublasSetMatrix", "cublasGetMatrix", "cublasSetMatrix_64", "cublasGetMatrix_64")
def copy_matrix(rows: int, columns: int, size: int, a: int, lda: int, b: int, ldb: int) -> None:
    library_kernels.synchronize(0)
    _copy_matrix(rows, columns, size, a, lda, b, ldb)


@entry("cublasSetMatrixAsync", "cublasGetMatrixAsync", "cublasSetMatrixAsync_64", "cublasGetMatrixAsync_64")
def copy_matrix_async(rows: int, columns: int, size: int, a: int, lda: int, b: int, ldb: int, stream: int) -> None:
    library_kernels.synchronize(stream)
    _copy_matrix(rows, columns, size, a, lda, b, ldb)


@entry("cublasSetVector", "cublasGetVector", "cublasSetVector_64", "cublasGetVector_64")
def copy_vector(n: int, size: int, x: int, x_step: int, y: int, y_step: int) -> None:
    copy_matrix(1, n, size, x, x_step, y, y_step)


@entry("cublasSetVectorAsync", "cublasGetVectorAsync", "cublasSetVectorAsync_64", "cublasGetVectorAsync_64")
def copy_vector_async(n: int, size: int, x: int, x_step: int, y: int, y_step: int, stream: int) -> None:
    copy_matrix_async(1, n, size, x, x_step, y, y_step, stream)
