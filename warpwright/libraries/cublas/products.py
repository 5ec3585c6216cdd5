"""Matrix products as cuBLAS describes them: operands, scalars, what is done with the sums, and the sizes that are refused."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from warpwright.libraries.calls import invalid
from warpwright.libraries.element_types import TYPES, element_type, read_scalar

POINTER_ARRAYS, BIAS, RELU, GELU, STORE_AUX, RELU_GRADIENT, GELU_GRADIENT, BIAS_OF_COLUMN = (1 << i for i in range(8))
"""Flags of ``cuda/epilogue.cuh``."""
_OP_A, _OP_B, _VECTORS = 256, 1024, 4096
ACTIVATIONS = 254
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


def check(p: Product) -> None:
    """Refuse sizes, leading dimensions and types that no product has.

    Raises:
        LibraryError: CUBLAS_STATUS_INVALID_VALUE, or not supported for element types without kernels.
    """
    if min(p.m, p.n, p.k, p.batch) < 0 or any(x.op not in (0, 1, 2) for x in (p.a, p.b)):
        raise invalid("negative size, or no such operation")
    rows_a, rows_b = (p.m if p.a.op == 0 else p.k), (p.k if p.b.op == 0 else p.n)
    for name, matrix, rows in (("A", p.a, rows_a), ("B", p.b, rows_b), ("C", p.d, p.m)):
        if matrix.ld < max(1, rows):
            raise invalid(f"the leading dimension of {name} is {matrix.ld}, less than its {rows} rows")
    for matrix in (p.a, p.b, p.c, p.d):
        element_type(matrix.type)
