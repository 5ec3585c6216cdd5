"""cuSPARSE: products of a sparse matrix (CSR, CSC, COO) with a dense one or a vector, sampled dense products, COO to CSR."""

from __future__ import annotations

import struct
from collections import namedtuple
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from warpwright.driver import cmemory
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.libraries import library_kernels
from warpwright.libraries.calls import LibraryError, entry, invalid, unsupported
from warpwright.libraries.element_types import OF_LETTER, R_16BF, R_16F, R_32F, TYPES, element_type, read_scalar

_THREADS = 256
_ROW_ORDER = 2
"""CUSPARSE_ORDER_ROW."""
_INDEX_32 = 2
_INDEX_NAMES = {_INDEX_32: "int", 3: "i64"}
"""cusparseIndexType_t."""
Kind = TypeVar("Kind")


@dataclass(eq=False)
class Handle:
    """What cusparseCreate makes."""

    of_null: ClassVar[int] = 0
    stream: int = 0
    on_device: bool = False
    """Scalars are on the device."""


@dataclass(eq=False)
class Sparse:
    """A sparse matrix by rows; ``transposed`` for CSC, whose rows here are its columns."""

    of_null: ClassVar[int] = 0
    rows: int
    columns: int
    nonzeros: int
    places: tuple[int, int, int]
    """Offsets or rows, columns, values."""
    index: int
    base: int
    type: int
    by_offsets: bool
    transposed: bool = False
    batch: int = 1
    strides: tuple[int, int] = (0, 0)

    def argument(self) -> bytes:
        return struct.pack("<3Q4q2i", *self.places, self.rows, self.nonzeros, *self.strides, self.base, self.by_offsets)


@dataclass(eq=False)
class Dense:
    """A dense matrix, or a vector as one of a column."""

    of_null: ClassVar[int] = 0
    rows: int
    columns: int
    ld: int
    address: int
    type: int
    order: int
    batch: int = 1
    stride: int = 0

    def argument(self, op: int = 0) -> bytes:
        steps = (self.ld, 1) if self.order == _ROW_ORDER else (1, self.ld)
        return struct.pack("<Q3q", self.address, *(reversed(steps) if op else steps), self.stride)

    def shape(self, op: int = 0) -> tuple[int, int]:
        return (self.columns, self.rows) if op else (self.rows, self.columns)


@dataclass(eq=False)
class MatrixDescription:
    """cusparseMatDescr_t."""

    of_null: ClassVar[int] = 0
    kind: int = 0
    base: int = 0
    fill: int = 0
    diagonal: int = 0


def _found(kind: type[Kind], number: int) -> Kind:
    try:
        return state().handles.get(kind, number)
    except CudaError:
        raise LibraryError("not_initialized" if kind is Handle else "invalid_value") from None


def _add(place: int, made: object) -> None:
    if not place:
        raise invalid()
    cmemory.put64(place, state().handles.add(made))


@entry("cusparseCreate")
def create(place: int) -> None:
    _add(place, Handle())


@entry("cusparseCreateMatDescr")
def create_description(place: int) -> None:
    _add(place, MatrixDescription())


@entry("cusparseDestroy", *(f"cusparseDestroy{name}" for name in ("MatDescr", "SpMat", "DnMat", "DnVec", "SpVec")))
def destroy(number: int) -> None:
    state().handles.drop(number)


@entry("cusparseSetStream")
def set_stream(number: int, stream: int) -> None:
    _found(Handle, number).stream = stream


@entry("cusparseSetPointerMode")
def set_pointer_mode(number: int, mode: int) -> None:
    _found(Handle, number).on_device = bool(mode)


@entry("cusparseGetVersion")
def get_version(number: int, place: int) -> None:
    cmemory.put32(place, 12710)


@entry("cusparseGetErrorString", "cusparseGetErrorName")
def error_string(status: int) -> int:
    names = {0: "SUCCESS", 1: "NOT_INITIALIZED", 3: "INVALID_VALUE", 10: "NOT_SUPPORTED"}
    return cmemory.static_text(f"CUSPARSE_STATUS_{names.get(status, status)}")


_DESCRIBED = {"MatType": "kind", "MatIndexBase": "base", "MatFillMode": "fill", "MatDiagType": "diagonal"}


def _register_description(name: str, field: str) -> None:
    @entry(f"cusparseSet{name}")
    def put(number: int, value: int) -> None:
        setattr(_found(MatrixDescription, number), field, value)

    @entry(f"cusparseGet{name}")
    def get(number: int) -> int:
        return int(getattr(_found(MatrixDescription, number), field))


for _name, _field in _DESCRIBED.items():
    _register_description(_name, _field)


# --- matrices ---------------------------------------------------------------------------------------
CreateCompressed = namedtuple(
    "CreateCompressed", "place rows columns nonzeros offsets of values offset_index index base type"
)
"""Arguments of cusparseCreateCsr."""


@entry("cusparseCreateCsr", "cusparseCreateConstCsr", record=CreateCompressed)
def create_csr(call: CreateCompressed) -> None:
    if call.offset_index != call.index or call.index not in _INDEX_NAMES:
        raise unsupported("offsets and columns of different types, or of 16 bits, are not provided")
    _add(
        call.place,
        Sparse(
            call.rows,
            call.columns,
            call.nonzeros,
            (call.offsets, call.of, call.values),
            call.index,
            call.base,
            call.type,
            True,
        ),
    )


@entry("cusparseCreateCsc", "cusparseCreateConstCsc", record=CreateCompressed)
def create_csc(call: CreateCompressed) -> None:
    create_csr(call._replace(rows=call.columns, columns=call.rows))
    _found(Sparse, cmemory.get64(call.place)).transposed = True


CreateCoo = namedtuple("CreateCoo", "place rows columns nonzeros of_rows of values index base type")
"""Arguments of cusparseCreateCoo."""


@entry("cusparseCreateCoo", "cusparseCreateConstCoo", record=CreateCoo)
def create_coo(call: CreateCoo) -> None:
    if call.index not in _INDEX_NAMES:
        raise unsupported("indices of 16 bits are not provided")
    _add(
        call.place,
        Sparse(
            call.rows,
            call.columns,
            call.nonzeros,
            (call.of_rows, call.of, call.values),
            call.index,
            call.base,
            call.type,
            False,
        ),
    )


@entry("cusparseCreateDnMat", "cusparseCreateConstDnMat")
def create_dense(place: int, rows: int, columns: int, ld: int, values: int, type: int, order: int) -> None:
    if ld < max(1, columns if order == _ROW_ORDER else rows):
        raise invalid("the leading dimension is too small")
    _add(place, Dense(rows, columns, ld, values, type, order))


@entry("cusparseCreateDnVec", "cusparseCreateConstDnVec")
def create_vector(place: int, size: int, values: int, type: int) -> None:
    _add(place, Dense(size, 1, max(size, 1), values, type, 1))


@entry("cusparseSpMatGetSize")
def get_size(number: int, rows: int, columns: int, nonzeros: int) -> None:
    a = _found(Sparse, number)
    shape = (a.columns, a.rows) if a.transposed else (a.rows, a.columns)
    for place, value in zip((rows, columns, nonzeros), (*shape, a.nonzeros), strict=True):
        cmemory.put64(place, value)


@entry("cusparseCsrSetPointers", "cusparseCscSetPointers", "cusparseCooSetPointers")
def set_pointers(number: int, offsets: int, of: int, values: int) -> None:
    _found(Sparse, number).places = (offsets, of, values)


@entry("cusparseCsrSetStridedBatch")
def set_csr_batch(number: int, count: int, offsets: int, values: int) -> None:
    a = _found(Sparse, number)
    a.batch, a.strides = count, (offsets, values)


@entry("cusparseDnMatSetStridedBatch")
def set_dense_batch(number: int, count: int, stride: int) -> None:
    b = _found(Dense, number)
    b.batch, b.stride = count, stride


# --- products ---------------------------------------------------------------------------------------
def _code(a: Sparse, transposed: bool) -> library_kernels.Code:
    t = element_type(a.type)
    more = {"TRANSPOSED": 1} if transposed else {}
    return library_kernels.code(
        "sparse.cu", "cuSPARSE", ELEMENT=t.name, SUM=t.sum_name, INDEX=_INDEX_NAMES[a.index], **more
    )


def _scalar(handle: Handle, place: int, type: int) -> list[int | float | bytes]:
    """A scalar as kernels take it: where the device has it, or its parts."""
    if handle.on_device:
        return [place, 0.0, 0.0]
    value = read_scalar(place, type)
    return [0, value.real, value.imag]


def multiply(
    handle: Handle, ops: tuple[int, int], alpha: int, a: Sparse, b: Dense, beta: int, c: Dense, compute: int
) -> None:
    """``C = alpha op(A) op(B) + beta C``."""
    if not a.type == b.type == c.type:
        raise unsupported("products of different types are not provided")
    op = ops[0] if not a.transposed else (1 if ops[0] == 0 else 0)
    if a.transposed and ops[0] == 2:
        raise unsupported("the conjugate transpose of a CSC matrix is not provided")
    if ops[1] == 2:
        raise unsupported("conjugate transposes of dense matrices are not provided")
    inner, rows = (a.rows, a.columns) if op else (a.columns, a.rows)
    if b.shape(ops[1]) != (inner, c.columns) or c.rows != rows:
        raise invalid(f"{c.rows} x {c.columns} is not the product's shape")
    scales = _scalar(handle, alpha, compute), _scalar(handle, beta, compute)
    operands: list[int | float | bytes] = [a.argument(), b.argument(ops[1]), c.argument()]
    if not rows * c.columns:
        return
    if op == 0:
        _launch(
            handle, _code(a, False), "spmm", rows * c.columns, c.batch, [*operands, c.columns, *scales[0], *scales[1]]
        )
        return
    if a.type in (R_16F, R_16BF):
        raise unsupported("transposed products of 16-bit types are not provided")
    code = _code(a, True)
    _launch(handle, code, "sparse_scale", rows * c.columns, c.batch, [operands[2], rows, c.columns, *scales[1]])
    arguments = [*operands, c.columns, op == 2, *scales[0]]
    _launch(handle, code, "spmm_transposed", a.nonzeros * c.columns, c.batch, arguments)


def _launch(
    handle: Handle,
    code: library_kernels.Code,
    kernel: str,
    threads: int,
    batch: int,
    arguments: list[int | float | bytes],
) -> None:
    if threads:
        grid = (-(-threads // _THREADS), 1, batch)
        library_kernels.launch(code, f"warpwright_{kernel}", grid, _THREADS, handle.stream, arguments)


_SIZES = ("cusparseSpMM_bufferSize", "cusparseSDDMM_bufferSize")


ProductSize = namedtuple("ProductSize", "number op_a op_b alpha a b beta c compute algorithm place")
"""Arguments of cusparseSpMM_bufferSize."""


@entry(*_SIZES, record=ProductSize)
def product_size(call: ProductSize) -> None:
    _found(Handle, call.number)
    cmemory.put64(call.place, 0)


VectorSize = namedtuple("VectorSize", "number op alpha a x beta y compute algorithm place")
"""Arguments of cusparseSpMV_bufferSize."""


@entry("cusparseSpMV_bufferSize", record=VectorSize)
def vector_size(call: VectorSize) -> None:
    _found(Handle, call.number)
    cmemory.put64(call.place, 0)


@entry("cusparseSpMM_preprocess", "cusparseSDDMM_preprocess")
def preprocess(*_: int) -> None:
    """There is nothing to prepare."""


@entry("cusparseSpMV_preprocess")
def preprocess_vector(*_: int) -> None:
    """There is nothing to prepare."""


Spmm = namedtuple("Spmm", "number op_a op_b alpha a b beta c compute algorithm work")
"""Arguments of cusparseSpMM."""


@entry("cusparseSpMM", record=Spmm)
def spmm(call: Spmm) -> None:
    a, b, c = _found(Sparse, call.a), _found(Dense, call.b), _found(Dense, call.c)
    multiply(_found(Handle, call.number), (call.op_a, call.op_b), call.alpha, a, b, call.beta, c, call.compute)


Spmv = namedtuple("Spmv", "number op alpha a x beta y compute algorithm work")
"""Arguments of cusparseSpMV."""


@entry("cusparseSpMV", record=Spmv)
def spmv(call: Spmv) -> None:
    a, x, y = _found(Sparse, call.a), _found(Dense, call.x), _found(Dense, call.y)
    multiply(_found(Handle, call.number), (call.op, 0), call.alpha, a, x, call.beta, y, call.compute)


@entry("cusparseSDDMM", record=Spmm)
def sddmm(call: Spmm) -> None:
    handle, left, right, result = (
        _found(Handle, call.number),
        _found(Dense, call.a),
        _found(Dense, call.b),
        _found(Sparse, call.c),
    )
    if call.op_a == 2 or call.op_b == 2 or result.transposed or not left.type == right.type == result.type:
        raise unsupported("sampled products of conjugate transposes, of CSC, or of different types are not provided")
    (rows, k), (other, columns) = left.shape(call.op_a), right.shape(call.op_b)
    if k != other or (rows, columns) != (result.rows, result.columns):
        raise invalid(f"{result.rows} x {result.columns} is not the product's shape")
    arguments: list[int | float | bytes] = [left.argument(call.op_a), right.argument(call.op_b), result.argument(), k]
    scales = [*_scalar(handle, call.alpha, call.compute), *_scalar(handle, call.beta, call.compute)]
    _launch(handle, _code(result, False), "sddmm", result.nonzeros, result.batch, [*arguments, *scales])


@entry("cusparseXcoo2csr")
def coo2csr(number: int, rows: int, nonzeros: int, m: int, offsets: int, base: int) -> None:
    code = library_kernels.code("sparse.cu", "cuSPARSE", ELEMENT=TYPES[0].name, SUM="float", INDEX="int")
    _launch(_found(Handle, number), code, "coo2csr", m + 1, 1, [rows, nonzeros, m, offsets, base])


# --- sums of sparse matrices ------------------------------------------------------------------------
SumSize = namedtuple(
    "SumSize",
    "number m n alpha a nonzeros_a values_a rows_a columns_a beta b nonzeros_b values_b rows_b columns_b c values_c rows_c columns_c place",
)
"""Arguments of cusparse…csrgeam2_bufferSizeExt, and with a work area in the last place of cusparse…csrgeam2."""


CountSum = namedtuple(
    "CountSum", "number m n a nonzeros_a rows_a columns_a b nonzeros_b rows_b columns_b c rows_c total work"
)
"""Arguments of cusparseXcsrgeam2Nnz."""


def _described(
    description: int, shape: tuple[int, int], nonzeros: int, places: tuple[int, int, int], type: int
) -> Sparse:
    """A matrix as the functions with cusparseMatDescr_t take it: rows by 32-bit offsets, with sorted columns.

    Raises:
        LibraryError: CUSPARSE_STATUS_INVALID_VALUE for negative sizes, or not supported for a matrix that is not general.
    """
    of = _found(MatrixDescription, description)
    if of.kind:
        raise unsupported("sums of matrices that are not general are not provided")
    if min(*shape, nonzeros) < 0:
        raise invalid("negative size")
    return Sparse(*shape, nonzeros, places, _INDEX_32, of.base, type, by_offsets=True)


@entry("cusparseXcsrgeam2Nnz", record=CountSum)
def count_sum(call: CountSum) -> None:
    """Offsets of the rows of a sum, and the number of its elements."""
    handle, shape = _found(Handle, call.number), (call.m, call.n)
    a = _described(call.a, shape, call.nonzeros_a, (call.rows_a, call.columns_a, 0), R_32F)
    b = _described(call.b, shape, call.nonzeros_b, (call.rows_b, call.columns_b, 0), R_32F)
    c = _described(call.c, shape, 0, (call.rows_c, 0, 0), R_32F)
    code, nothing = _code(a, False), [0, 0.0, 0.0]
    _launch(handle, code, "csr_sum", call.m, 1, [a.argument(), b.argument(), c.argument(), 0, *nothing, *nothing])
    total = call.total if handle.on_device else 0
    library_kernels.launch(
        code, "warpwright_csr_offsets", (1,), _THREADS, handle.stream, [call.rows_c, call.m, c.base, total]
    )
    if not handle.on_device and call.total:
        library_kernels.synchronize(handle.stream)
        cmemory.put32(call.total, cmemory.get32(call.rows_c + 4 * call.m) - c.base)


def _register_sum(letter: str, type: int) -> None:
    @entry(f"cusparse{letter}csrgeam2_bufferSizeExt", record=SumSize)
    def size(call: SumSize) -> None:
        _found(Handle, call.number)
        cmemory.put64(call.place, 0)

    @entry(f"cusparse{letter}csrgeam2", record=SumSize)
    def add(call: SumSize) -> None:
        """``C = alpha A + beta B``, with the offsets of C's rows from cusparseXcsrgeam2Nnz."""
        handle, shape = _found(Handle, call.number), (call.m, call.n)
        a = _described(call.a, shape, call.nonzeros_a, (call.rows_a, call.columns_a, call.values_a), type)
        b = _described(call.b, shape, call.nonzeros_b, (call.rows_b, call.columns_b, call.values_b), type)
        c = _described(call.c, shape, 0, (call.rows_c, call.columns_c, call.values_c), type)
        scales = [*_scalar(handle, call.alpha, type), *_scalar(handle, call.beta, type)]
        _launch(handle, _code(a, False), "csr_sum", call.m, 1, [a.argument(), b.argument(), c.argument(), 1, *scales])


for _letter, _type in OF_LETTER.items():
    if _letter in "SDCZ":
        _register_sum(_letter, _type)
