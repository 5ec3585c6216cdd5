"""cuSPARSELt: products of a dense matrix with a structured sparse one, which has two nonzero elements in each group of four (32-bit elements: one of two).

The product is that of ``ww.sparsity`` (``sparsity/products.cu``: ``mma.sp`` on operands padded to whole tiles); kernels of ``cuda/structured_sparse.cu`` prune and compress,
pad the operands into the caller's workspace, and scale, add, activate and convert the sums. The caller's descriptors hold plain data, so they can be copied and need not be
destroyed. f32 is multiplied as TF32. Only A can be sparse.
"""

from __future__ import annotations

import struct
from collections import namedtuple
from dataclasses import dataclass, fields

from warpwright.driver import cmemory
from warpwright.driver.calls import ENTRIES as DRIVER_CALLS
from warpwright.libraries import library_kernels
from warpwright.libraries.calls import LibraryError, entry, invalid, unsupported
from warpwright.libraries.element_types import R_8I, R_16BF, R_16F, R_32F, R_32I, TYPES

VERSION = 800
"""CUSPARSELT_VERSION of 0.8.0."""
FIRST_ARCH = 80
_ROW_ORDER = 2
_MAGIC = 0x77617270
_HANDLE, _MATRIX, _PRODUCT, _CHOICE, _PLAN = range(1, 6)
_DEPTH_BYTES, _TILE = 128, 128
"""Bytes of a dense row, and rows, of a tile of the product's kernel."""
_THREADS = 256
_RAW = {1: "unsigned char", 2: "unsigned short", 4: "unsigned"}
_NAMES = {R_16F: "f16", R_16BF: "bf16", R_8I: "s8", R_32F: "tf32"}
_OUTPUTS = {R_16F: (R_16F, R_32F), R_16BF: (R_16BF, R_32F), R_8I: (R_8I, R_32I, R_16F, R_16BF), R_32F: (R_32F,)}
"""Types of results by the type of the operands."""
_COMPUTE_32I, _COMPUTE_16F, _COMPUTE_32F = range(3)


@dataclass(slots=True)
class Matrix:
    """A cusparseLtMatDescriptor_t."""

    rows: int
    columns: int
    ld: int
    type: int
    order: int
    sparse: int
    batches: int = 1
    stride: int = 0

    @property
    def size_bytes(self) -> int:
        """Of an element."""
        return TYPES[self.type].size_bytes

    def steps(self, op: int = 0) -> tuple[int, int]:
        """Distances in elements between rows of op(matrix), and between its columns."""
        row, column = (self.ld, 1) if self.order == _ROW_ORDER else (1, self.ld)
        return (column, row) if op else (row, column)

    def shape(self, op: int = 0) -> tuple[int, int]:
        """Rows and columns of op(matrix)."""
        return (self.columns, self.rows) if op else (self.rows, self.columns)


_MATRIX_LAYOUT = "8q"
_ATTRIBUTES = ("i", "f", "f", "i", "f", "i", "i", "q", "Q", "Q")
"""Of cusparseLtMatmulDescAttribute_t, by number."""
_RELU, _RELU_UPPER, _RELU_THRESHOLD, _GELU, _GELU_SCALE, _ALPHAS, _BETAS, _BIAS_STRIDE, _BIAS, _SPARSE_POINTER = range(
    10
)
_PRODUCT_LAYOUT = "3i" + _MATRIX_LAYOUT * 4 + "".join(_ATTRIBUTES)


@dataclass(slots=True)
class Product:
    """A cusparseLtMatmulDescriptor_t."""

    ops: tuple[int, int]
    compute: int
    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix
    attributes: list[float]


# --- the caller's structures ------------------------------------------------------------------------
def _put(place: int, kind: int, layout: str, *values: float) -> None:
    if not place:
        raise invalid()
    cmemory.write(f"<II{layout}", place, _MAGIC, kind, *values)


def _get(place: int, kind: int, layout: str) -> tuple[float, ...]:
    if not place:
        raise invalid()
    magic, found, *values = cmemory.read(f"<II{layout}", place)
    if (magic, found) != (_MAGIC, kind):
        raise LibraryError("not_initialized" if kind == _HANDLE else "invalid_value")
    return tuple(values)


def _matrix(place: int) -> Matrix:
    return Matrix(*(int(value) for value in _get(place, _MATRIX, _MATRIX_LAYOUT)))


def _flat(matrix: Matrix) -> list[int]:
    return [getattr(matrix, one.name) for one in fields(Matrix)]


def _put_product(place: int, kind: int, made: Product) -> None:
    matrices = [value for one in (made.a, made.b, made.c, made.d) for value in _flat(one)]
    _put(place, kind, _PRODUCT_LAYOUT, *made.ops, made.compute, *matrices, *made.attributes)


def _product(place: int, kind: int = _PRODUCT) -> Product:
    values = _get(place, kind, _PRODUCT_LAYOUT)
    whole = [int(value) for value in values[:35]]
    a, b, c, d = (Matrix(*whole[3 + 8 * n : 11 + 8 * n]) for n in range(4))
    return Product((whole[0], whole[1]), whole[2], a, b, c, d, list(values[35:]))


@entry("cusparseLtInit")
def init(handle: int) -> None:
    if library_kernels.architecture() < FIRST_ARCH:
        raise unsupported(f"{library_kernels.chip_name()} has no sparse tensor cores; a100 and h200 have them")
    _put(handle, _HANDLE, "")


def _check(handle: int) -> None:
    _get(handle, _HANDLE, "")


@entry("cusparseLtDestroy")
def destroy(handle: int) -> None:
    _check(handle)
    cmemory.put64(handle, 0)


@entry("cusparseLtGetVersion")
def get_version(handle: int, place: int) -> None:
    _check(handle)
    cmemory.put32(place, VERSION)


@entry("cusparseLtGetProperty")
def get_property(kind: int, place: int) -> None:
    parts = (VERSION // 1000, VERSION // 100 % 10, VERSION % 100)
    if not (place and 0 <= kind < len(parts)):
        raise invalid()
    cmemory.put32(place, parts[kind])


@entry("cusparseLtGetErrorName", "cusparseLtGetErrorString")
def error_text(status: int) -> int:
    names = {0: "SUCCESS", 1: "NOT_INITIALIZED", 3: "INVALID_VALUE", 10: "NOT_SUPPORTED"}
    return cmemory.static_text(f"CUSPARSE_STATUS_{names.get(status, status)}")


# --- descriptors ------------------------------------------------------------------------------------
Describe = namedtuple("Describe", "handle place rows columns ld alignment type order sparsity", defaults=(0,))
"""Arguments of cusparseLtStructuredDescriptorInit, and without the last of cusparseLtDenseDescriptorInit."""


def _describe(call: Describe, sparse: bool) -> None:
    _check(call.handle)
    if call.type not in _NAMES and not (call.type == R_32I and not sparse):
        raise unsupported(f"matrices of cudaDataType {call.type} are not provided; {', '.join(_NAMES.values())} are")
    size = TYPES[call.type].size_bytes
    along = call.columns if call.order == _ROW_ORDER else call.rows
    if call.order not in (1, _ROW_ORDER) or call.ld < along or not call.alignment or call.alignment % 16:
        raise invalid("the order, the leading dimension or the alignment is not valid")
    # Both sizes of sparse matrices are multiples of a unit of metadata; rows of dense ones are multiples of 16 bytes.
    multiple = (16 if size < 4 else 8) if sparse else max(16 // size, 1)
    sides = (call.rows, call.columns, call.ld) if sparse else (along, call.ld)
    if min(call.rows, call.columns) <= 0 or any(side % multiple for side in sides):
        raise unsupported(
            f"sizes of this matrix must be multiples of {multiple}; it is {call.rows} x {call.columns}, {call.ld} apart"
        )
    made = Matrix(call.rows, call.columns, call.ld, call.type, call.order, int(sparse))
    _put(call.place, _MATRIX, _MATRIX_LAYOUT, *_flat(made))


@entry("cusparseLtDenseDescriptorInit", record=Describe)
def describe_dense(call: Describe) -> None:
    _describe(call, sparse=False)


@entry("cusparseLtStructuredDescriptorInit", record=Describe)
def describe_sparse(call: Describe) -> None:
    if call.sparsity:
        raise invalid()
    _describe(call, sparse=True)


@entry("cusparseLtMatDescriptorDestroy")
def destroy_matrix(place: int) -> None:
    _matrix(place)
    cmemory.put64(place, 0)


@entry("cusparseLtMatDescSetAttribute")
def set_matrix(handle: int, place: int, number: int, value: int, size: int) -> None:
    _check(handle)
    matrix = _matrix(place)
    if number == 0 and size == 4:
        matrix.batches = cmemory.get32(value)
    elif number == 1 and size == 8:
        matrix.stride = cmemory.get64(value)
    else:
        raise invalid()
    if matrix.batches != 1:
        raise unsupported("batches are not provided")
    _put(place, _MATRIX, _MATRIX_LAYOUT, *_flat(matrix))


@entry("cusparseLtMatDescGetAttribute")
def get_matrix(handle: int, place: int, number: int, value: int, size: int) -> None:
    _check(handle)
    matrix = _matrix(place)
    if (number, size) not in ((0, 4), (1, 8)):
        raise invalid()
    cmemory.write("<i" if number == 0 else "<q", value, (matrix.batches, matrix.stride)[number])


Multiply = namedtuple("Multiply", "handle place op_a op_b a b c d compute")
"""Arguments of cusparseLtMatmulDescriptorInit."""


@entry("cusparseLtMatmulDescriptorInit", record=Multiply)
def describe_product(call: Multiply) -> None:
    _check(call.handle)
    a, b, c, d = (_matrix(place) for place in (call.a, call.b, call.c, call.d))
    if not a.sparse or b.sparse or c.sparse or d.sparse:
        raise unsupported("the sparse matrix of a product must be A")
    if call.op_a not in (0, 1) or call.op_b not in (0, 1):
        raise invalid()
    (m, k), (inner, n) = a.shape(call.op_a), b.shape(call.op_b)
    if inner != k or c.shape() != (m, n) or d.shape() != (m, n):
        raise invalid(
            f"({m} x {k}) times ({inner} x {n}) does not give C and D of {c.rows} x {c.columns} and {d.rows} x {d.columns}"
        )
    if b.type != a.type or c.type != d.type or d.type not in _OUTPUTS[a.type]:
        raise unsupported(f"products of {_NAMES[a.type]} with results of cudaDataType {d.type} are not provided")
    if call.compute not in ((_COMPUTE_32I,) if a.type == R_8I else (_COMPUTE_32F, _COMPUTE_16F)):
        raise unsupported(f"products of {_NAMES[a.type]} are not computed in cusparseComputeType {call.compute}")
    attributes = [0, float("inf"), 0.0, 0, 1.0, 0, 0, 0, 0, 0]
    _put_product(call.place, _PRODUCT, Product((call.op_a, call.op_b), call.compute, a, b, c, d, attributes))


def _attribute_layout(number: int, size: int) -> str:
    if not 0 <= number < len(_ATTRIBUTES):
        raise unsupported(f"attribute {number} of a product is not provided")
    if struct.calcsize(_ATTRIBUTES[number]) != size:
        raise invalid()
    return _ATTRIBUTES[number]


@entry("cusparseLtMatmulDescSetAttribute")
def set_product(handle: int, place: int, number: int, value: int, size: int) -> None:
    _check(handle)
    product = _product(place)
    if number in (_ALPHAS, _BETAS) and product.a.type != R_8I:
        # As on an H200 (PyTorch's _cslt_sparse_mm with alpha).
        raise unsupported("vectors of scales are provided for products of int8 only")
    product.attributes[number] = cmemory.read(f"<{_attribute_layout(number, size)}", value)[0]
    _put_product(place, _PRODUCT, product)


@entry("cusparseLtMatmulDescGetAttribute")
def get_product(handle: int, place: int, number: int, value: int, size: int) -> None:
    _check(handle)
    cmemory.write(f"<{_attribute_layout(number, size)}", value, _product(place).attributes[number])


# --- algorithms and plans ---------------------------------------------------------------------------
_CONFIGURATION, _CONFIGURATIONS, _ITERATIONS, _SPLITS, _SPLIT_MODE, _SPLIT_BUFFERS = range(6)
_CHOICES = [0, 1, 5, 1, 0, 0]
"""Values of cusparseLtMatmulAlgAttribute_t: there is one configuration, which does not split k."""


@entry("cusparseLtMatmulAlgSelectionInit")
def choose(handle: int, place: int, product: int, algorithm: int) -> None:
    _check(handle)
    _product(product)
    if algorithm:
        raise invalid()
    _put(place, _CHOICE, "6i", *_CHOICES)


@entry("cusparseLtMatmulAlgSelectionDestroy")
def destroy_choice(place: int) -> None:
    _get(place, _CHOICE, "6i")
    cmemory.put64(place, 0)


@entry("cusparseLtMatmulAlgSetAttribute")
def set_choice(handle: int, place: int, number: int, value: int, size: int) -> None:
    _check(handle)
    values = [int(one) for one in _get(place, _CHOICE, "6i")]
    if size != 4 or not 0 <= number < len(values) or number == _CONFIGURATIONS:
        raise invalid()
    wanted = cmemory.read("<i", value)[0]
    if number == _CONFIGURATION and wanted:
        raise invalid(f"there is no algorithm {wanted}; the only one is 0")
    if (number == _SPLITS and wanted != 1) or (number in (_SPLIT_MODE, _SPLIT_BUFFERS) and wanted):
        raise unsupported("products that split k are not provided")
    values[number] = wanted
    _put(place, _CHOICE, "6i", *values)


@entry("cusparseLtMatmulAlgGetAttribute")
def get_choice(handle: int, place: int, number: int, value: int, size: int) -> None:
    _check(handle)
    values = _get(place, _CHOICE, "6i")
    if size != 4 or not 0 <= number < len(values):
        raise invalid()
    cmemory.put32(value, int(values[number]))


@entry("cusparseLtMatmulPlanInit")
def plan(handle: int, place: int, product: int, choice: int) -> None:
    _check(handle)
    _get(choice, _CHOICE, "6i")
    _put_product(place, _PLAN, _product(product))


@entry("cusparseLtMatmulPlanDestroy")
def destroy_plan(place: int) -> None:
    _product(place, _PLAN)
    cmemory.put64(place, 0)


def _padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of a product's operands padded to whole tiles, and their offsets in the workspace in bytes."""

    m: int
    n: int
    k: int
    rows: int
    columns: int
    depth: int
    """Elements of a padded dense row."""
    lanes: int
    values: int
    dense: int
    sums: int
    total: int

    @classmethod
    def of(cls, product: Product) -> Layout:
        size = product.a.size_bytes
        (m, k), n = product.a.shape(product.ops[0]), product.d.columns
        rows, columns, depth = _padded(m, _TILE), _padded(n, _TILE), _padded(k, _DEPTH_BYTES // size)
        values = rows // 16 * _words(depth, size) * 32 * 4
        dense = values + rows * depth // 2 * size
        sums = dense + columns * depth * size
        return cls(m, n, k, rows, columns, depth, 0, values, dense, sums, sums + 4 * rows * columns)


def _words(depth: int, size_bytes: int) -> int:
    """32-bit words of metadata per lane, for rows of ``depth`` dense elements: four units each."""
    return depth // (4 * _unit(size_bytes))


def _unit(size_bytes: int) -> int:
    """Dense elements that a unit of 16 bits of metadata describes."""
    return 8 if size_bytes == 4 else 16


@entry("cusparseLtMatmulGetWorkspace")
def workspace_size(handle: int, place: int, size: int) -> None:
    _check(handle)
    cmemory.put64(size, Layout.of(_product(place, _PLAN)).total)


# --- pruning and compression ------------------------------------------------------------------------
def _code(size_bytes: int, **more: str | int) -> library_kernels.Code:
    unit = _unit(size_bytes)
    return library_kernels.code(
        "structured_sparse.cu", "cuSPARSELt", RAW=_RAW[size_bytes], UNIT=unit, BITS=8 * size_bytes, **more
    )


def _run(
    code: library_kernels.Code, name: str, threads: int, stream: int, arguments: list[int | float | bytes]
) -> None:
    library_kernels.launch(code, f"warpwright_{name}", (-(-threads // _THREADS),), _THREADS, stream, arguments)


def _sparse(handle: int, place: int, is_a: int = 1) -> Matrix:
    """A sparse matrix.

    Raises:
        LibraryError: the matrix is dense, or it is not A of its product.
    """
    _check(handle)
    matrix = _matrix(place)
    if not matrix.sparse:
        raise invalid("the matrix is not a structured one")
    if not is_a:
        raise unsupported("the sparse matrix of a product must be A")
    return matrix


def _compressed_size(matrix: Matrix) -> int:
    elements = matrix.rows * matrix.columns
    return elements // 2 * matrix.size_bytes + elements // _unit(matrix.size_bytes) * 2


@entry("cusparseLtSpMMACompressedSize2")
def compressed_size(handle: int, place: int, size: int, work: int) -> None:
    matrix = _sparse(handle, place)
    cmemory.put64(size, _compressed_size(matrix))
    cmemory.put64(work, 0)


@entry("cusparseLtSpMMACompressedSize")
def compressed_size_of_plan(handle: int, place: int, size: int, work: int) -> None:
    _check(handle)
    cmemory.put64(size, _compressed_size(_product(place, _PLAN).a))
    cmemory.put64(work, 0)


def _compress(matrix: Matrix, op: int, source: int, target: int, stream: int) -> None:
    m, k = matrix.shape(op)
    metadata = target + m * k // 2 * matrix.size_bytes
    arguments: list[int | float | bytes] = [source, *matrix.steps(op), m, k, target, metadata]
    _run(_code(matrix.size_bytes), "compress", m * k // _unit(matrix.size_bytes), stream, arguments)


Compress = namedtuple("Compress", "handle place is_a op source target work stream")
"""Arguments of cusparseLtSpMMACompress2."""


@entry("cusparseLtSpMMACompress2", record=Compress)
def compress(call: Compress) -> None:
    matrix = _sparse(call.handle, call.place, call.is_a)
    _compress(matrix, call.op, call.source, call.target, call.stream)


@entry("cusparseLtSpMMACompress")
def compress_of_plan(handle: int, place: int, source: int, target: int, work: int, stream: int) -> None:
    _check(handle)
    product = _product(place, _PLAN)
    _compress(product.a, product.ops[0], source, target, stream)


def _group(matrix: Matrix) -> int:
    """Elements of which half are kept."""
    return 2 if matrix.size_bytes == 4 else 4


Prune = namedtuple("Prune", "handle place is_a op source target algorithm stream")
"""Arguments of cusparseLtSpMMAPrune2."""


def _prune(matrix: Matrix, call: Prune) -> None:
    m, k = matrix.shape(call.op)
    group = _group(matrix)
    code = _code(matrix.size_bytes, ELEMENT=TYPES[matrix.type].name)
    arguments: list[int | float | bytes] = [call.source, *matrix.steps(call.op), m, k, call.target]
    if call.algorithm not in (0, 1):
        raise invalid()
    name, threads = ("prune_strips", m * k // group) if call.algorithm else ("prune_tiles", m * k // group**2)
    _run(code, name, threads, call.stream, arguments)


@entry("cusparseLtSpMMAPrune2", record=Prune)
def prune(call: Prune) -> None:
    matrix = _sparse(call.handle, call.place, call.is_a)
    _prune(matrix, call)


@entry("cusparseLtSpMMAPrune")
def prune_of_product(handle: int, place: int, source: int, target: int, algorithm: int, stream: int) -> None:
    _check(handle)
    product = _product(place)
    _prune(product.a, Prune(handle, 0, 1, product.ops[0], source, target, algorithm, stream))


def _prune_check(matrix: Matrix, op: int, source: int, result: int, stream: int) -> None:
    m, k = matrix.shape(op)
    DRIVER_CALLS["cuMemsetD32Async"](result, 0, 1, stream)
    code = _code(matrix.size_bytes, ELEMENT=TYPES[matrix.type].name)
    _run(code, "prune_check", m * k // _group(matrix), stream, [source, *matrix.steps(op), m, k, result])


PruneCheck = namedtuple("PruneCheck", "handle place is_a op source result stream")
"""Arguments of cusparseLtSpMMAPruneCheck2."""


@entry("cusparseLtSpMMAPruneCheck2", record=PruneCheck)
def prune_check(call: PruneCheck) -> None:
    matrix = _sparse(call.handle, call.place, call.is_a)
    _prune_check(matrix, call.op, call.source, call.result, call.stream)


@entry("cusparseLtSpMMAPruneCheck")
def prune_check_of_product(handle: int, place: int, source: int, result: int, stream: int) -> None:
    _check(handle)
    product = _product(place)
    _prune_check(product.a, product.ops[0], source, result, stream)


# --- products ---------------------------------------------------------------------------------------
Matmul = namedtuple("Matmul", "handle place alpha a b beta c d work streams count")
"""Arguments of cusparseLtMatmul."""


@entry("cusparseLtMatmul", "cusparseLtMatmulSearch", record=Matmul)
def matmul(call: Matmul) -> None:
    """``D = activation(alpha op(A) op(B) + beta C + bias)``; a search is the same, because there is one algorithm."""
    _check(call.handle)
    product = _product(call.place, _PLAN)
    if not all((call.alpha, call.a, call.b, call.beta, call.d, call.work)) or call.count < 0:
        raise invalid()
    stream = cmemory.get64(call.streams) if call.count and call.streams else 0
    at = Layout.of(product)
    _lay_out(product, at, call, stream)
    _multiply(product, at, call.work, stream)
    _finish(product, at, call, stream)


def _lay_out(product: Product, at: Layout, call: Matmul, stream: int) -> None:
    """Pad A's kept elements and B, and arrange A's metadata by lanes."""
    size = product.a.size_bytes
    code, half = _code(size), at.k // 2
    words = _words(at.depth, size)
    metadata = call.a + at.m * half * size
    lanes: list[int | float | bytes] = [metadata, at.m, at.k, at.rows // 16, words, call.work + at.lanes]
    _run(code, "lanes", at.rows // 16 * words * 32, stream, lanes)
    steps = product.b.steps(product.ops[1])
    padded = (
        (call.a, (half, 1), (at.m, half), call.work + at.values, (at.rows, at.depth // 2)),
        # Rows of the product's B are columns of op(B).
        (call.b, (steps[1], steps[0]), (at.n, at.k), call.work + at.dense, (at.columns, at.depth)),
    )
    for source, (row, column), shape, target, whole in padded:
        grid = (-(-whole[1] // 32), -(-whole[0] // 32))
        arguments: list[int | float | bytes] = [source, row, column, *shape, target, *whole]
        library_kernels.launch(code, "warpwright_pad", grid, _THREADS, stream, arguments)


def _multiply(product: Product, at: Layout, work: int, stream: int) -> None:
    name, size = _NAMES[product.a.type], product.a.size_bytes
    of_integers = name == "s8"
    sums = "s32" if of_integers else "f32"
    text = f"mma.sp::ordered_metadata.sync.aligned.m16n8k{64 // size}.row.col.{sums}.{name}.{name}.{sums}"
    code = library_kernels.code(
        "structured_sparse_product.cu",
        "cuSPARSELt",
        SPARSE=1,
        MMA=f'"{text}"',
        SUM="int" if of_integers else "float",
        REGISTER='"r"' if of_integers else '"f"',
        SELECTORS=1 if of_integers else 2,
    )
    row_bytes = at.depth * size
    arguments: list[int | float | bytes] = [row_bytes // _DEPTH_BYTES, row_bytes, at.rows]
    arguments += [work + at.values, work + at.lanes, work + at.dense, work + at.sums]
    grid, shared = (at.rows // _TILE, at.columns // _TILE), 3 * (_TILE * _DEPTH_BYTES * 3 // 2)
    library_kernels.launch(code, "warpwright_sparse_product", grid, _THREADS, stream, arguments, shared)


def _finish(product: Product, at: Layout, call: Matmul, stream: int) -> None:
    values = product.attributes
    activation = 1 if values[_RELU] else 2 if values[_GELU] else 0
    alphas, betas = (place if values[n] else 0 for n, place in ((_ALPHAS, call.alpha), (_BETAS, call.beta)))
    alpha, beta = (
        0.0 if vector else cmemory.read("<f", place)[0] for vector, place in ((alphas, call.alpha), (betas, call.beta))
    )
    limits = (values[_RELU_THRESHOLD], values[_RELU_UPPER]) if activation == 1 else (0.0, values[_GELU_SCALE])
    ends = struct.pack("<QQffQiffxxxx", alphas, betas, alpha, beta, int(values[_BIAS]), activation, *limits)
    out = product.d.type
    code = _code(
        product.a.size_bytes,
        SUM="int" if product.a.type == R_8I else "float",
        OUT=TYPES[out].name,
        BIAS=TYPES[out].name if out in (R_16F, R_16BF) else "float",
    )
    arguments: list[int | float | bytes] = [call.work + at.sums, at.rows, at.m, at.n]
    arguments += [call.c, *product.c.steps(), call.d, *product.d.steps(), ends]
    library_kernels.launch(code, "warpwright_finish", (-(-at.m // 32), -(-at.n // 32)), _THREADS, stream, arguments)
