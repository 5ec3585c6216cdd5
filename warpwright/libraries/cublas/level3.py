"""Matrix products of cuBLAS: gemm, gemm3m, GemmEx, strided and with arrays of pointers."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from warpwright.libraries.calls import entry, unsupported
from warpwright.libraries.cublas.handles import DEVICE_SCALARS, Handle, handle_of
from warpwright.libraries.cublas.product_kernels import run
from warpwright.libraries.cublas.products import POINTER_ARRAYS, Matrix, Product, Scalar
from warpwright.libraries.element_types import C_32F, C_64F, COMPLEX, OF_LETTER, R_16F, R_32F, R_32I, R_64F

_COMPUTE: dict[int, int] = {
    # cublasComputeType_t: the type of alpha and beta for real matrices.
    **dict.fromkeys((64, 65), R_16F),
    **dict.fromkeys((68, 69, 74, 75, 77, 78, 79), R_32F),
    **dict.fromkeys((70, 71), R_64F),
    **dict.fromkeys((72, 73), R_32I),
}
_FAST_TF32 = 77
_COMPLEX = {R_32F: C_32F, R_64F: C_64F}


def scale_type(compute: int, elements: int) -> int:
    """The type of alpha and beta.

    Raises:
        LibraryError: no such type of computation is provided.
    """
    # CUDA 10's form of cublasGemmEx passes a cudaDataType.
    if compute in (R_32F, R_64F, R_16F, R_32I, C_32F, C_64F):
        return compute
    if compute not in _COMPUTE:
        raise unsupported(f"the type of computation {compute} is not provided")
    found = _COMPUTE[compute]
    return _COMPLEX[found] if elements in COMPLEX else found


def allows_tf32(handle: Handle, compute: int) -> bool:
    """Whether f32 operands may be rounded to TF32."""
    return compute == _FAST_TF32 or (handle.tf32 and compute in (R_32F, 68))


def _product(
    handle: Handle, sizes: Sequence[int], scalars: tuple[int, int], matrices: Sequence[Matrix], compute: int
) -> Product:
    m, n, k = sizes
    a, b, c = matrices
    scale = scale_type(compute, a.type)
    on_device = handle.pointer_mode == DEVICE_SCALARS
    alpha, beta = (Scalar.read(place, scale, on_device) for place in scalars)
    return Product(
        *(m, n, k, a, b, c, c, alpha, beta, scale),
        tf32=allows_tf32(handle, compute),
    )


def _multiply(
    call: Any,
    types: tuple[int, int, int],
    compute: int,
    strides: tuple[int, int, int] = (0, 0, 0),
    batch: int = 1,
    flags: int = 0,
) -> None:
    """Make the product of a call's operands, whose arguments have the same names in every form."""
    handle = handle_of(call.number)
    matrices = (
        Matrix(call.a, types[0], call.lda, strides[0], call.op_a),
        Matrix(call.b, types[1], call.ldb, strides[1], call.op_b),
        Matrix(call.c, types[2], call.ldc, strides[2]),
    )
    product = _product(handle, (call.m, call.n, call.k), (call.alpha, call.beta), matrices, compute)
    product.batch, product.flags = batch, flags
    run(product, handle.stream)


Gemm = namedtuple("Gemm", "number op_a op_b m n k alpha a lda b ldb beta c ldc")
"""Arguments of cublas…gemm."""

Strided = namedtuple("Strided", "number op_a op_b m n k alpha a lda stride_a b ldb stride_b beta c ldc stride_c count")
"""Arguments of cublas…gemmStridedBatched."""

Batched = namedtuple("Batched", "number op_a op_b m n k alpha a lda b ldb beta c ldc count")
"""Arguments of cublas…gemmBatched."""


def _register(letter: str) -> None:
    type = OF_LETTER[letter]
    names = [f"cublas{letter}gemm{suffix}" for suffix in ("_v2", "_v2_64", "_64", "")]
    names += [f"cublas{letter}gemm3m{suffix}" for suffix in ("", "_64")]

    @entry(*names, record=Gemm)
    def gemm(call: Gemm) -> None:
        _multiply(call, (type, type, type), type)

    names = [f"cublas{letter}gemm{three}StridedBatched{suffix}" for three in ("", "3m") for suffix in ("", "_64")]

    @entry(*names, record=Strided)
    def strided(call: Strided) -> None:
        strides = (call.stride_a, call.stride_b, call.stride_c)
        _multiply(call, (type, type, type), type, strides, call.count)

    names = [f"cublas{letter}gemm{three}Batched{suffix}" for three in ("", "3m") for suffix in ("", "_64")]

    @entry(*names, record=Batched)
    def batched(call: Batched) -> None:
        _multiply(call, (type, type, type), type, batch=call.count, flags=POINTER_ARRAYS)


for _letter in "SDCZH":
    _register(_letter)


GemmEx = namedtuple(
    "GemmEx", "number op_a op_b m n k alpha a a_type lda b b_type ldb beta c c_type ldc compute algorithm"
)
"""Arguments of cublasGemmEx."""


@entry("cublasGemmEx", "cublasGemmEx_64", record=GemmEx)
def gemm_ex(call: GemmEx) -> None:
    _multiply(call, (call.a_type, call.b_type, call.c_type), call.compute)


SgemmEx = namedtuple("SgemmEx", "number op_a op_b m n k alpha a a_type lda b b_type ldb beta c c_type ldc")
"""Arguments of cublasSgemmEx."""


@entry("cublasSgemmEx", "cublasSgemmEx_64", "cublasCgemmEx", "cublasCgemmEx_64", record=SgemmEx)
def sgemm_ex(call: SgemmEx) -> None:
    compute = C_32F if call.a_type == C_32F else 68
    gemm_ex(GemmEx(*call, compute, -1))


StridedEx = namedtuple(
    "StridedEx",
    "number op_a op_b m n k alpha a a_type lda stride_a b b_type ldb stride_b beta c c_type ldc stride_c count compute algorithm",
)
"""Arguments of cublasGemmStridedBatchedEx."""


@entry("cublasGemmStridedBatchedEx", "cublasGemmStridedBatchedEx_64", record=StridedEx)
def strided_ex(call: StridedEx) -> None:
    strides = (call.stride_a, call.stride_b, call.stride_c)
    _multiply(call, (call.a_type, call.b_type, call.c_type), call.compute, strides, call.count)


BatchedEx = namedtuple(
    "BatchedEx", "number op_a op_b m n k alpha a a_type lda b b_type ldb beta c c_type ldc count compute algorithm"
)
"""Arguments of cublasGemmBatchedEx."""


@entry("cublasGemmBatchedEx", "cublasGemmBatchedEx_64", record=BatchedEx)
def batched_ex(call: BatchedEx) -> None:
    types = (call.a_type, call.b_type, call.c_type)
    _multiply(call, types, call.compute, batch=call.count, flags=POINTER_ARRAYS)
