"""cuBLASLt: products with descriptors, layouts, preferences and epilogues.

Every product has one algorithm, which the heuristic returns; its configuration may be read and set, and changes nothing.
"""

from __future__ import annotations

import ctypes
import struct
from collections import namedtuple
from dataclasses import dataclass, field
from typing import ClassVar

from warpwright.driver import cmemory
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.libraries.calls import entry, invalid, unsupported
from warpwright.libraries.cublas import product_kernels, products
from warpwright.libraries.cublas.handles import handle_of
from warpwright.libraries.cublas.level3 import scale_type
from warpwright.libraries.cublas.products import Matrix, Product, Scalar
from warpwright.libraries.cublas.vectors import row_sums
from warpwright.libraries.element_types import R_8F_E4M3, R_8F_E5M2

_COMPUTE, _SCALE, _POINTER_MODE, _OP_A, _OP_B, _OP_C, _FILL, _EPILOGUE, _BIAS = range(9)
_BIAS_STRIDE, _AUX, _AUX_LD, _AUX_STRIDE = 10, 11, 12, 13
_SCALE_A, _SCALE_B, _SCALE_C, _SCALE_D, _AMAX_D, _AUX_TYPE = 17, 18, 19, 20, 21, 22
_BIAS_TYPE, _MODE_A, _MODE_D, _MODE_AUX = 26, 31, 34, 35
"""cublasLtMatmulDescAttributes_t."""
_TYPE, _ORDER, _ROWS, _COLUMNS, _LD, _BATCH, _STRIDE = range(7)
"""cublasLtMatrixLayoutAttribute_t."""
_COLUMN_ORDER, _ROW_ORDER = 0, 1
_FULL_FILL = 2
_EPILOGUE_RELU, _EPILOGUE_BIAS, _EPILOGUE_DRELU, _EPILOGUE_BGRAD = 2, 4, 8, 16
_EPILOGUE_GELU, _EPILOGUE_DGELU, _EPILOGUE_AUX, _EPILOGUE_BGRAD_A, _EPILOGUE_BGRAD_B = 32, 64, 128, 256, 512
_ALGORITHM_BYTES, _RESULT_BYTES = 64, 96
"""cublasLtMatmulAlgo_t, cublasLtMatmulHeuristicResult_t."""
_FAST_TF32 = 77


@dataclass(eq=False)
class Attributes:
    """A descriptor: the bytes of its attributes by number."""

    of_null: ClassVar[int] = 0
    kind: str
    values: dict[int, bytes] = field(default_factory=dict)

    def number(self, attribute: int, default: int = 0) -> int:
        """An attribute that is an integer or an address."""
        return int.from_bytes(self.values[attribute], "little") if attribute in self.values else default

    def signed(self, attribute: int) -> int:
        return int.from_bytes(self.values.get(attribute, b"\0"), "little", signed=True)

    def put(self, attribute: int, value: int, size: int) -> None:
        self.values[attribute] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _attributes(number: int, kind: str) -> Attributes:
    try:
        found = state().handles.get(Attributes, number)
    except CudaError:
        raise invalid(f"no such {kind}") from None
    if found.kind != kind:
        raise invalid(f"a {found.kind}, not a {kind}")
    return found


def _create(place: int, kind: str) -> Attributes:
    if not place:
        raise invalid()
    made = Attributes(kind)
    cmemory.put64(place, state().handles.add(made))
    return made


@entry("cublasLtMatmulDescCreate")
def create_product(place: int, compute: int, scale: int) -> None:
    made = _create(place, "product descriptor")
    for attribute, value in ((_COMPUTE, compute), (_SCALE, scale), (_EPILOGUE, 1), (_FILL, _FULL_FILL)):
        made.put(attribute, value, 4)


@entry("cublasLtMatrixLayoutCreate")
def create_layout(place: int, type: int, rows: int, columns: int, ld: int) -> None:
    made = _create(place, "matrix layout")
    for attribute, value, size in ((_TYPE, type, 4), (_ROWS, rows, 8), (_COLUMNS, columns, 8), (_LD, ld, 8)):
        made.put(attribute, value, size)
    made.put(_BATCH, 1, 4)


@entry("cublasLtMatmulPreferenceCreate")
def create_preference(place: int) -> None:
    _create(place, "preference")


_DESTROY = ("cublasLtMatmulDescDestroy", "cublasLtMatrixLayoutDestroy", "cublasLtMatmulPreferenceDestroy")


@entry(*_DESTROY)
def destroy(number: int) -> None:
    state().handles.drop(number)


def _register(stem: str, kind: str) -> None:
    @entry(f"cublasLt{stem}SetAttribute")
    def set_attribute(number: int, attribute: int, place: int, size: int) -> None:
        if not place or not size:
            raise invalid()
        _attributes(number, kind).values[attribute] = ctypes.string_at(place, size)

    @entry(f"cublasLt{stem}GetAttribute")
    def get_attribute(number: int, attribute: int, place: int, size: int, written: int) -> None:
        value = _attributes(number, kind).values.get(attribute, bytes(8))
        if size == 0:
            cmemory.put64(written, len(value))
            return
        if not place or size < len(value):
            raise invalid()
        ctypes.memmove(place, value, len(value))
        cmemory.put64(written, len(value))


for _stem, _kind in (
    ("MatmulDesc", "product descriptor"),
    ("MatrixLayout", "matrix layout"),
    ("MatmulPreference", "preference"),
):
    _register(_stem, _kind)


# --- algorithms -------------------------------------------------------------------------------------
def _put_result(place: int) -> None:
    raw = bytes(_ALGORITHM_BYTES) + struct.pack("<QIf4i", 0, 0, 1.0, 0, 0, 0, 0)
    ctypes.memmove(place, raw, _RESULT_BYTES)


Heuristic = namedtuple("Heuristic", "number descriptor a b c d preference wanted place count")
"""Arguments of cublasLtMatmulAlgoGetHeuristic."""


@entry("cublasLtMatmulAlgoGetHeuristic", record=Heuristic)
def heuristic(call: Heuristic) -> None:
    handle_of(call.number)
    _product(
        _attributes(call.descriptor, "product descriptor"),
        [_attributes(x, "matrix layout") for x in (call.a, call.b, call.c, call.d)],
    )
    if call.wanted < 1 or not call.place:
        raise invalid()
    _put_result(call.place)
    cmemory.put32(call.count, 1)


@entry("cublasLtMatmulAlgoCheck")
def check(number: int, descriptor: int, a: int, b: int, c: int, d: int, algorithm: int, place: int) -> None:
    handle_of(number)
    _product(_attributes(descriptor, "product descriptor"), [_attributes(x, "matrix layout") for x in (a, b, c, d)])
    _put_result(place)


AlgorithmInit = namedtuple("AlgorithmInit", "number compute scale a b c d identity place")
"""Arguments of cublasLtMatmulAlgoInit."""


@entry("cublasLtMatmulAlgoInit", record=AlgorithmInit)
def algorithm_init(call: AlgorithmInit) -> None:
    handle_of(call.number)
    if call.identity or not call.place:
        raise invalid("there is one algorithm, number 0")
    ctypes.memset(call.place, 0, _ALGORITHM_BYTES)


AlgorithmIds = namedtuple("AlgorithmIds", "number compute scale a b c d wanted ids count")
"""Arguments of cublasLtMatmulAlgoGetIds."""


@entry("cublasLtMatmulAlgoGetIds", record=AlgorithmIds)
def algorithm_ids(call: AlgorithmIds) -> None:
    handle_of(call.number)
    if call.wanted:
        cmemory.put32(call.ids, 0)
    cmemory.put32(call.count, 1)


@entry("cublasLtMatmulAlgoConfigSetAttribute")
def set_configuration(algorithm: int, attribute: int, place: int, size: int) -> None:
    if not algorithm or not place:
        raise invalid()


@entry("cublasLtMatmulAlgoConfigGetAttribute", "cublasLtMatmulAlgoCapGetAttribute")
def get_configuration(algorithm: int, attribute: int, place: int, size: int, written: int) -> None:
    if place and size:
        ctypes.memset(place, 0, size)
    cmemory.put64(written, size)


# --- products ---------------------------------------------------------------------------------------
def _matrix(layout: Attributes, op: int, address: int = 0) -> Matrix:
    if layout.number(_ORDER) not in (_COLUMN_ORDER, _ROW_ORDER):
        raise unsupported(f"the memory order {layout.number(_ORDER)} is not provided")
    if layout.number(_ORDER) == _ROW_ORDER:
        if op == 2:
            raise unsupported("the conjugate transpose of a matrix in row order is not provided")
        op = 1 - op
    return Matrix(address, layout.number(_TYPE), layout.signed(_LD), layout.signed(_STRIDE), op)


def _flags(epilogue: int) -> int:
    pairs = (
        (_EPILOGUE_RELU, products.RELU),
        (_EPILOGUE_BIAS, products.BIAS),
        (_EPILOGUE_GELU, products.GELU),
        (_EPILOGUE_DRELU, products.RELU_GRADIENT),
        (_EPILOGUE_DGELU, products.GELU_GRADIENT),
    )
    flags = sum(flag for bit, flag in pairs if epilogue & bit)
    if epilogue & _EPILOGUE_AUX and epilogue & (_EPILOGUE_RELU | _EPILOGUE_GELU):
        flags |= products.STORE_AUX
    return flags


def _product(descriptor: Attributes, layouts: list[Attributes], addresses: tuple[int, ...] = (0, 0, 0, 0)) -> Product:
    """A product without its scalars.

    Raises:
        LibraryError: what is not provided.
    """
    a, b, c, d = layouts
    if any(x.number(_ORDER) != _COLUMN_ORDER for x in (c, d)):
        raise unsupported("results in a memory order other than columns are not provided")
    if descriptor.number(_FILL, _FULL_FILL) != _FULL_FILL or descriptor.number(_OP_C):
        raise unsupported("products that fill a triangle, or transpose C, are not provided")
    if descriptor.number(_POINTER_MODE) > 1:
        raise unsupported("vectors of alpha are not provided")
    if any(descriptor.number(mode) for mode in (*range(_MODE_A, _MODE_D + 1), _MODE_AUX)):
        raise unsupported("block-wise scales are not provided; scales of whole tensors are")
    result = d.number(_TYPE)
    if result in (R_8F_E4M3, R_8F_E5M2) or descriptor.number(_AMAX_D):
        raise unsupported("results of 8-bit floating-point types are not provided")
    compute = descriptor.number(_COMPUTE)
    op_a, op_b = descriptor.number(_OP_A), descriptor.number(_OP_B)
    k = a.number(_ROWS) if op_a else a.number(_COLUMNS)
    epilogue = descriptor.number(_EPILOGUE, 1)
    return Product(
        *(d.number(_ROWS), d.number(_COLUMNS), k),
        *(_matrix(a, op_a, addresses[0]), _matrix(b, op_b, addresses[1])),
        *(_matrix(c, 0, addresses[2]), _matrix(d, 0, addresses[3])),
        Scalar(),
        Scalar(),
        scale_type(descriptor.number(_SCALE), result),
        batch=d.number(_BATCH, 1),
        flags=_flags(epilogue),
        tf32=compute == _FAST_TF32,
        bias=descriptor.number(_BIAS) if epilogue & (_EPILOGUE_BIAS) else 0,
        bias_stride=descriptor.signed(_BIAS_STRIDE),
        bias_type=descriptor.signed(_BIAS_TYPE) if descriptor.signed(_BIAS_TYPE) > 0 else result,
        aux=descriptor.number(_AUX),
        aux_ld=descriptor.signed(_AUX_LD),
        aux_stride=descriptor.signed(_AUX_STRIDE),
        scales=(descriptor.number(_SCALE_A), descriptor.number(_SCALE_B), descriptor.number(_SCALE_D)),
        library="cuBLASLt",
    )


Matmul = namedtuple(
    "Matmul",
    "number descriptor alpha a a_layout b b_layout beta c c_layout d d_layout algorithm workspace workspace_bytes stream",
)
"""Arguments of cublasLtMatmul."""


@entry("cublasLtMatmul", record=Matmul)
def matmul(call: Matmul) -> None:
    handle_of(call.number)  # refuses a number that is none
    described = _attributes(call.descriptor, "product descriptor")
    layouts = [_attributes(x, "matrix layout") for x in (call.a_layout, call.b_layout, call.c_layout, call.d_layout)]
    product = _product(described, layouts, (call.a, call.b, call.c, call.d))
    on_device = described.number(_POINTER_MODE) == 1
    product.alpha = Scalar.read(call.alpha, product.scale_type, on_device)
    product.beta = Scalar.read(call.beta, product.scale_type, on_device)
    product_kernels.run(product, call.stream)
    _bias_gradient(product, described, call.stream)


def _bias_gradient(product: Product, descriptor: Attributes, stream: int) -> None:
    """The sums that an epilogue leaves where a bias would be."""
    epilogue, place = descriptor.number(_EPILOGUE, 1), descriptor.number(_BIAS)
    if not epilogue & (_EPILOGUE_BGRAD | _EPILOGUE_BGRAD_A | _EPILOGUE_BGRAD_B):
        return
    if not place or product.batch != 1:
        raise unsupported("gradients of a bias need a place for it, and a single product")
    types = (product.d.type, product.d.type)
    if epilogue & _EPILOGUE_BGRAD:
        row_sums(types, product.m, product.n, product.d.address, (1, product.d.ld), place, stream)
    for bit, matrix, rows, transposed in (
        (_EPILOGUE_BGRAD_A, product.a, product.m, product.a.op != 0),
        (_EPILOGUE_BGRAD_B, product.b, product.n, product.b.op == 0),
    ):
        if epilogue & bit:
            steps = (matrix.ld, 1) if transposed else (1, matrix.ld)
            row_sums((matrix.type, product.d.type), rows, product.k, matrix.address, steps, place, stream)
