"""Matrix products: which kernel runs for types, sizes and numerics, and its launch."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from warpwright.libraries import library_kernels
from warpwright.libraries.calls import invalid, unsupported
from warpwright.libraries.element_types import (
    C_32F,
    C_64F,
    R_8F_E4M3,
    R_8F_E5M2,
    R_8I,
    R_16BF,
    R_16F,
    R_32F,
    R_32I,
    R_64F,
    TYPES,
    element_type,
    read_scalar,
)

POINTER_ARRAYS, BIAS, RELU, GELU, STORE_AUX, RELU_GRADIENT, GELU_GRADIENT, BIAS_OF_COLUMN = (1 << i for i in range(8))
"""Flags of ``cuda/epilogue.cuh``."""
_OP_A, _OP_B, _VECTORS = 256, 1024, 4096
_ACTIVATIONS = 254
"""Flags that change values beyond alpha and beta."""
_ARGUMENTS = "<3Q Q 2Q Q Q 3Q 2d 2d 11q 4i".replace(" ", "")


@dataclass(slots=True)
class Matrix:
    """An operand: where it is, the type of its elements, how it is laid out in memory."""

    address: int
    type: int
    ld: int
    stride: int = 0
    """Elements between two matrices of a batch."""
    op: int = 0
    """0 as it is, 1 transposed, 2 conjugate-transposed."""


@dataclass(slots=True)
class Scalar:
    """alpha or beta: a number, or where the device has it."""

    value: complex = 0
    address: int = 0

    @classmethod
    def read(cls, place: int, type: int, on_device: bool) -> Scalar:
        """The scalar that a call points at.

        Raises:
            LibraryError: for a null pointer.
        """
        if not place:
            raise invalid("a scalar's pointer is null")
        return cls(address=place) if on_device else cls(read_scalar(place, type))


@dataclass(slots=True)
class Product:
    """``D = epilogue(alpha op(A) op(B) + beta C)``."""

    m: int
    n: int
    k: int
    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix
    alpha: Scalar
    beta: Scalar
    scale_type: int
    batch: int = 1
    flags: int = 0
    tf32: bool = False
    """Operands of f32 may be rounded to TF32."""
    bias: int = 0
    bias_stride: int = 0
    bias_type: int = -1
    """The bias's type; -1: the result's."""
    aux: int = 0
    aux_ld: int = 0
    aux_stride: int = 0
    scales: tuple[int, int, int] = (0, 0, 0)
    """Device addresses of the scales of A, B and D."""
    library: str = field(default="cuBLAS")

    def arguments(self) -> bytes:
        """The structure Arguments of ``cuda/epilogue.cuh``."""
        return struct.pack(
            _ARGUMENTS,
            *(self.a.address, self.b.address, self.c.address, self.d.address),
            *(self.alpha.address, self.beta.address, self.bias, self.aux, *self.scales),
            *(self.alpha.value.real, self.alpha.value.imag, self.beta.value.real, self.beta.value.imag),
            *(self.a.ld, self.b.ld, self.c.ld, self.d.ld, self.aux_ld),
            *(self.a.stride, self.b.stride, self.c.stride, self.d.stride, self.bias_stride, self.aux_stride),
            *(self.m, self.n, self.k, self.flags | self.a.op * _OP_A | self.b.op * _OP_B | self._vectors()),
        )

    def _vectors(self) -> int:
        """The flag of results, four of which can be read and written at once."""
        if self.flags & POINTER_ARRAYS:
            return 0
        for matrix in (self.c, self.d):
            size = TYPES[matrix.type].size_bytes
            together = min(4 * size, 16)
            if any(number % together for number in (matrix.address, matrix.ld * size, matrix.stride * size)):
                return 0
        return _VECTORS


def _check(p: Product) -> None:
    """CUBLAS_STATUS_INVALID_VALUE for sizes and leading dimensions that no product has."""
    if min(p.m, p.n, p.k, p.batch) < 0 or any(x.op not in (0, 1, 2) for x in (p.a, p.b)):
        raise invalid("negative size, or no such operation")
    rows_a, rows_b = (p.m if p.a.op == 0 else p.k), (p.k if p.b.op == 0 else p.n)
    for name, matrix, rows in (("A", p.a, rows_a), ("B", p.b, rows_b), ("C", p.d, p.m)):
        if matrix.ld < max(1, rows):
            raise invalid(f"the leading dimension of {name} is {matrix.ld}, less than its {rows} rows")


_SIMT_TILES = {
    # Block tile, K of a step, thread tile: the first of which there are enough blocks for the chip, or the last.
    # On an H200, products of 4,096: 35 TFLOP/s with 128x256, 29 with 128x128; cuBLAS 51.
    "float": ((128, 256, 8, 8, 16), (128, 128, 8, 8, 8), (64, 64, 16, 8, 4), (32, 32, 16, 4, 4)),
    "int": ((64, 64, 16, 4, 4), (32, 32, 16, 4, 4)),
    "double": ((64, 64, 8, 4, 4), (32, 32, 8, 4, 4)),
    "c64": ((64, 64, 8, 4, 4), (32, 32, 8, 4, 4)),
    "c128": ((32, 32, 8, 2, 2),),
}
_LETTERS = {
    R_32F: "s", R_64F: "d", R_16F: "h", R_16BF: "bf", C_32F: "c", C_64F: "z", R_8I: "i", R_32I: "i", R_8F_E4M3: "e4m3", R_8F_E5M2: "e5m2",
}  # fmt: skip


def run(product: Product, stream: int) -> None:
    """Submit a product to a stream.

    Raises:
        LibraryError: for sizes and types that there are none of.
    """
    _check(product)
    if not (product.m and product.n and product.batch):
        return
    for matrix in (product.a, product.b, product.c, product.d):
        element_type(matrix.type)
    kind = _tensor_kind(product)
    if kind is None:
        _run_simt(product, stream)
    else:
        _run_mma(product, kind, stream)


_KINDS = {R_16F: 0, R_16BF: 1, R_32F: 2, R_8I: 3, R_64F: 4}
"""KIND of ``cuda/gemm_mma.cu``."""


@dataclass(frozen=True, slots=True)
class MmaShape:
    """How ``cuda/gemm_mma.cu`` divides a product."""

    tile_m: int
    tile_n: int
    warps_m: int
    warps_n: int
    slab_columns: int = 4

    def shared_bytes(self, element_bytes: int, along_k: tuple[bool, bool], stages: int, columns: int) -> int:
        """Of the stages, or of the sums that are stored at once, which take their place; ``columns`` are those of one multiply()."""
        tile_k, vector = 64 // element_bytes, 16 // element_bytes
        lines = (
            rows * (tile_k + vector) if along else tile_k * (rows + vector)
            for rows, along in zip((self.tile_m, self.tile_n), along_k, strict=True)
        )
        across = min(self.slab_columns, self.tile_n // self.warps_n // columns) * columns * self.warps_n
        return max(stages * sum(lines) * element_bytes, across * (self.tile_m + 4) * max(4, element_bytes))


_LARGE_MMA, _SMALL_MMA, _DOUBLE_MMA = MmaShape(128, 128, 2, 2), MmaShape(64, 64, 2, 2), MmaShape(64, 64, 4, 2)
_STAGES, _STAGES_VOLTA = 3, 2
"""Tiles on their way: Volta's pass through registers."""
_LEAST_K_BYTES = 32
"""The depth of one instruction: shorter sums gain nothing from tensor cores."""


def _tensor_kind(p: Product) -> int | None:
    """How tensor cores multiply these operands; None: they do not, or may not."""
    if p.a.type != p.b.type or p.a.type not in _KINDS:
        return None
    arch = library_kernels.architecture()
    if arch < 70 or (arch < 80 and p.a.type != R_16F):
        return None
    if p.a.type == R_32F and not p.tf32:
        return None
    if p.k * TYPES[p.a.type].size_bytes < _LEAST_K_BYTES or min(p.m, p.n) < 8:
        return None
    return _KINDS[p.a.type]


def _is_aligned(matrix: Matrix, flags: int) -> bool:
    """Whether 16 bytes that follow each other in memory can be loaded at once, from each multiple of 16 bytes of a column."""
    size = TYPES[matrix.type].size_bytes
    together = (matrix.address, matrix.ld * size, matrix.stride * size)
    return not flags & POINTER_ARRAYS and not any(number % 16 for number in together)


def _blocks(p: Product, tile_m: int, tile_n: int) -> int:
    return -(-p.m // tile_m) * -(-p.n // tile_n) * p.batch


def _run_mma(p: Product, kind: int, stream: int) -> None:
    volta = library_kernels.architecture() < 80
    large = _blocks(p, _LARGE_MMA.tile_m, _LARGE_MMA.tile_n) >= library_kernels.multiprocessors()
    shape = _DOUBLE_MMA if kind == _KINDS[R_64F] else _LARGE_MMA if large else _SMALL_MMA
    aligned = _is_aligned(p.a, p.flags) and _is_aligned(p.b, p.flags)
    ops = (min(p.a.op, 1), min(p.b.op, 1))
    letter = "tf32" if kind == _KINDS[R_32F] else _LETTERS[p.a.type]
    layout = "".join("nt"[op] for op in ops)
    stages = _STAGES_VOLTA if volta else _STAGES
    name = f"warpwright_{letter}gemm_mma_{layout}_{shape.tile_m}x{shape.tile_n}{'' if aligned else '_unaligned'}"
    code = library_kernels.code(
        "gemm_mma.cu",
        p.library,
        KERNEL=name,
        KIND=kind,
        A_TYPE=TYPES[p.a.type].name,
        **_result_types(p),
        OP_OF_A=ops[0],
        OP_OF_B=ops[1],
        TILE_M=shape.tile_m,
        TILE_N=shape.tile_n,
        WARPS_M=shape.warps_m,
        WARPS_N=shape.warps_n,
        SLAB_COLUMNS=shape.slab_columns,
        STAGES=stages,
        ALIGNED=int(aligned),
        VOLTA=int(volta),
    )
    grid = (-(-p.m // shape.tile_m), -(-p.n // shape.tile_n), p.batch)
    size = TYPES[p.a.type].size_bytes
    shared = shape.shared_bytes(size, (ops[0] != 0 or size == 1, ops[1] == 0 or size == 1), stages, 16 if volta else 8)
    library_kernels.launch(code, name, grid, 32 * shape.warps_m * shape.warps_n, stream, [p.arguments()], shared)


def _result_types(p: Product) -> dict[str, str | int]:
    """Macros for the types of an epilogue."""
    return {
        "C_TYPE": TYPES[p.c.type].name,
        "D_TYPE": TYPES[p.d.type].name,
        "BIAS_TYPE": TYPES[p.d.type if p.bias_type < 0 else p.bias_type].name,
        "SCALE": _scale_name(p),
        "ACTIVATIONS": int(bool(p.flags & _ACTIVATIONS)),
        "DEVICE_SCALARS": int(bool(p.alpha.address or p.beta.address)),
        "SCALED": int(any(p.scales)),
        "ARRAYS": int(bool(p.flags & POINTER_ARRAYS)),
    }


def _scale_name(p: Product) -> str:
    return "float" if p.scale_type in (R_16F, R_32F, R_16BF) else TYPES[p.scale_type].name


def _run_simt(p: Product, stream: int) -> None:
    sum_name = TYPES[p.a.type].sum_name
    scale_name = _scale_name(p)
    if (sum_name in ("c64", "c128")) != (scale_name in ("c64", "c128")):
        raise unsupported(f"products of {TYPES[p.a.type].name} scaled by {scale_name}")
    tiles = _SIMT_TILES[sum_name]
    enough = (tile for tile in tiles if _blocks(p, *tile[:2]) >= library_kernels.multiprocessors())
    tile_m, tile_n, tile_k, thread_m, thread_n = next(enough, tiles[-1])
    threads = tile_m // thread_m * (tile_n // thread_n)
    name = f"warpwright_{_LETTERS[p.a.type]}gemm_{tile_m}x{tile_n}x{tile_k}"
    code = library_kernels.code(
        "gemm.cu",
        p.library,
        KERNEL=name,
        A_TYPE=TYPES[p.a.type].name,
        B_TYPE=TYPES[p.b.type].name,
        **_result_types(p),
        SUM=sum_name,
        TILE_M=tile_m,
        TILE_N=tile_n,
        TILE_K=tile_k,
        THREAD_M=thread_m,
        THREAD_N=thread_n,
    )
    grid = (-(-p.m // tile_m), -(-p.n // tile_n), p.batch)
    library_kernels.launch(code, name, grid, threads, stream, [p.arguments()])
