"""Matrix products of cuBLAS: gemm, gemm3m, GemmEx, strided and with arrays of pointers."""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.libraries.calls import entry, unsupported
from warpwright.libraries.cublas.handles import DEVICE_SCALARS, Handle, handle_of
from warpwright.libraries.cublas.products import POINTER_ARRAYS, Matrix, Product, Scalar, run
from warpwright.libraries.element_types import C_32F, C_64F, OF_LETTER, R_16F, R_32F, R_32I, R_64F

_COMPUTE: dict[int, int] = {
    # cublasComputeType_t: the type of alpha and beta for real matrices.
    **dict.fromkeys((64, 65), R_16F),
    **dict.fromkeys((68, 69, 74, 75, 77, 78, 79), R_32F),
    **dict.fromkeys((70, 71), R_64F),
    **dict.fromkeys((72, 73), R_32I),
}
_FAST_TF32 = 77
_HALF = (64, 65)
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
    return _COMPLEX[found] if elements in (C_32F, C_64F) else found


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
        half_sums=compute in _HALF,
    )


def _register(letter: str) -> None:
    type = OF_LETTER[letter]
    names = [f"cublas{letter}gemm{suffix}" for suffix in ("_v2", "_v2_64", "_64", "")]
    names += [f"cublas{letter}gemm3m{suffix}" for suffix in ("", "_64")]

    @entry(*names)
    def gemm(
        number: int, op_a: int, op_b: int, m: int, n: int, k: int, alpha: int, a: int, lda: int, b: int, ldb: int,
        beta: int, c: int, ldc: int,
    ) -> None:  # fmt: skip
        handle = handle_of(number)
        matrices = (Matrix(a, type, lda, op=op_a), Matrix(b, type, ldb, op=op_b), Matrix(c, type, ldc))
        run(_product(handle, (m, n, k), (alpha, beta), matrices, type), handle.stream)

    names = [f"cublas{letter}gemm{three}StridedBatched{suffix}" for three in ("", "3m") for suffix in ("", "_64")]

    @entry(*names)
    def strided(
        number: int, op_a: int, op_b: int, m: int, n: int, k: int, alpha: int, a: int, lda: int, stride_a: int,
        b: int, ldb: int, stride_b: int, beta: int, c: int, ldc: int, stride_c: int, count: int,
    ) -> None:  # fmt: skip
        handle = handle_of(number)
        matrices = (
            Matrix(a, type, lda, stride_a, op_a),
            Matrix(b, type, ldb, stride_b, op_b),
            Matrix(c, type, ldc, stride_c),
        )
        product = _product(handle, (m, n, k), (alpha, beta), matrices, type)
        product.batch = count
        run(product, handle.stream)

    names = [f"cublas{letter}gemm{three}Batched{suffix}" for three in ("", "3m") for suffix in ("", "_64")]

    @entry(*names)
    def batched(
        number: int, op_a: int, op_b: int, m: int, n: int, k: int, alpha: int, a: int, lda: int, b: int, ldb: int,
        beta: int, c: int, ldc: int, count: int,
    ) -> None:  # fmt: skip
        handle = handle_of(number)
        matrices = (Matrix(a, type, lda, op=op_a), Matrix(b, type, ldb, op=op_b), Matrix(c, type, ldc))
        product = _product(handle, (m, n, k), (alpha, beta), matrices, type)
        product.batch, product.flags = count, POINTER_ARRAYS
        run(product, handle.stream)


for _letter in "SDCZH":
    _register(_letter)


@entry("cublasGemmEx", "cublasGemmEx_64")
def gemm_ex(
    number: int, op_a: int, op_b: int, m: int, n: int, k: int, alpha: int, a: int, a_type: int, lda: int, b: int,
    b_type: int, ldb: int, beta: int, c: int, c_type: int, ldc: int, compute: int, algorithm: int,
) -> None:  # fmt: skip
    handle = handle_of(number)
    matrices = (Matrix(a, a_type, lda, op=op_a), Matrix(b, b_type, ldb, op=op_b), Matrix(c, c_type, ldc))
    run(_product(handle, (m, n, k), (alpha, beta), matrices, compute), handle.stream)


@entry("cublasSgemmEx", "cublasSgemmEx_64", "cublasCgemmEx", "cublasCgemmEx_64")
def sgemm_ex(
    number: int, op_a: int, op_b: int, m: int, n: int, k: int, alpha: int, a: int, a_type: int, lda: int, b: int,
    b_type: int, ldb: int, beta: int, c: int, c_type: int, ldc: int,
) -> None:  # fmt: skip
    compute = C_32F if a_type == C_32F else 68
    gemm_ex(
        number, op_a, op_b, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, -1
    )  # fmt: skip


@entry("cublasGemmStridedBatchedEx", "cublasGemmStridedBatchedEx_64")
def strided_ex(
    number: int, op_a: int, op_b: int, m: int, n: int, k: int, alpha: int, a: int, a_type: int, lda: int,
    stride_a: int, b: int, b_type: int, ldb: int, stride_b: int, beta: int, c: int, c_type: int, ldc: int,
    stride_c: int, count: int, compute: int, algorithm: int,
) -> None:  # fmt: skip
    handle = handle_of(number)
    matrices = (
        Matrix(a, a_type, lda, stride_a, op_a),
        Matrix(b, b_type, ldb, stride_b, op_b),
        Matrix(c, c_type, ldc, stride_c),
    )
    product = _product(handle, (m, n, k), (alpha, beta), matrices, compute)
    product.batch = count
    run(product, handle.stream)


@entry("cublasGemmBatchedEx", "cublasGemmBatchedEx_64")
def batched_ex(
    number: int, op_a: int, op_b: int, m: int, n: int, k: int, alpha: int, a: int, a_type: int, lda: int, b: int,
    b_type: int, ldb: int, beta: int, c: int, c_type: int, ldc: int, count: int, compute: int, algorithm: int,
) -> None:  # fmt: skip
    handle = handle_of(number)
    matrices = (Matrix(a, a_type, lda, op=op_a), Matrix(b, b_type, ldb, op=op_b), Matrix(c, c_type, ldc))
    product = _product(handle, (m, n, k), (alpha, beta), matrices, compute)
    product.batch, product.flags = count, POINTER_ARRAYS
    run(product, handle.stream)
