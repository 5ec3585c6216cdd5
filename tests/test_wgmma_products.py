"""The libraries' products by wgmma: every operand layout and type, edges, epilogues, batches, and the same results with full timing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import warpwright as ww
from warpwright.libraries import library_kernels
from warpwright.libraries.cublas.product_kernels import Plan, Target, plan
from warpwright.libraries.cublas.products import BIAS, RELU, Matrix, Product, Scalar
from warpwright.libraries.element_types import R_8F_E4M3, R_8F_E5M2, R_8I, R_16BF, R_16F, R_32F, R_32I, R_64F, TYPES

Array = np.ndarray[Any, Any]
TWO_SMS = Target(90, 2)
FEW_SMS = Target(90, 4)
"""A small product has enough tiles for it, and its blocks take several."""
DTYPES: dict[int, Any] = {
    R_16F: np.float16, R_16BF: ml_dtypes.bfloat16, R_32F: np.float32, R_64F: np.float64, R_8I: np.int8, R_32I: np.int32,
    R_8F_E4M3: ml_dtypes.float8_e4m3fn, R_8F_E5M2: ml_dtypes.float8_e5m2,
}  # fmt: skip
TOLERANCE = {R_16F: 1e-3, R_16BF: 8e-3, R_32F: 5e-5, R_64F: 1e-14, R_32I: 0.0}
"""Of the largest element of the result. Operands that are cut to TF32 in place of rounded would be ten times as far off."""


@dataclass(frozen=True)
class Case:
    type: int
    layout: str
    sizes: tuple[int, int, int]
    result: int
    right: int = -1
    """The type of B; -1: that of A."""
    batch: int = 1
    beta: float = 0
    bias: bool = False
    target: Target = FEW_SMS
    tf32: bool = True
    tile: str = ""
    """Of the kernel that is meant, if any."""

    @property
    def file(self) -> str:
        """The source of the kernel for it."""
        if self.type == R_64F or (self.type == R_8I and self.layout == "nt"):
            return "gemm_mma.cu"
        if self.type == R_32F and not self.tf32:
            return "gemm_f32.cu"
        return "gemm_wgmma_tf32.cu" if self.type == R_32F and self.layout == "nn" else "gemm_wgmma.cu"


CASES = [
    *(Case(R_16F, layout, (328, 200, 136), R_16F) for layout in ("nn", "tt")),
    Case(R_16BF, "tt", (328, 136, 200), R_16BF, batch=2),
    Case(R_16F, "tn", (300, 140, 104), R_32F),
    Case(R_16F, "nt", (264, 264, 1000), R_16F, beta=2),
    Case(R_16BF, "nn", (264, 136, 72), R_16BF, bias=True),
    Case(R_16F, "nn", (376, 504, 136), R_16F, target=TWO_SMS, tile="192x256"),
    Case(R_32F, "tn", (300, 260, 68), R_32F),
    Case(R_32F, "nn", (456, 260, 68), R_32F, batch=2, beta=1),
    *(Case(R_32F, layout, (300, 260, 68), R_32F, tf32=False) for layout in ("nn", "tn")),
    Case(R_32F, "tt", (260, 140, 36), R_32F, tf32=False, batch=2, beta=2, bias=True),
    Case(R_8I, "tn", (300, 260, 144), R_32I, beta=1),
    Case(R_8F_E5M2, "tn", (256, 128, 128), R_16BF, right=R_8F_E4M3),
    Case(R_8I, "nt", (96, 80, 64), R_32I),
    Case(R_64F, "nn", (130, 140, 36), R_64F),
]
REPEATED_CASES = [
    Case(R_16BF, "nt", (376, 504, 72), R_16BF, beta=1, target=TWO_SMS, tile="192x256"),
    *(Case(R_16F, layout, (328, 200, 136), R_16F) for layout in ("tn", "nt")),
    Case(R_16F, "tt", (376, 504, 136), R_16F, target=TWO_SMS, tile="192x256"),
    Case(R_32F, "nt", (300, 260, 68), R_32F, tf32=False),
    Case(R_8F_E4M3, "tn", (256, 128, 128), R_16BF),
    Case(R_64F, "tt", (130, 140, 36), R_64F),
]
"""What they have, others have in another combination; each is a kernel of its own, which takes seconds to compile."""


def rounded_to_tf32(values: Array) -> Array:
    """Floats with ten fraction bits, as tensor cores multiply them; ties to even."""
    bits = values.view(np.uint32)
    return ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)


class Operands:
    """Column-major matrices with columns of whole 16 bytes on a simulated H200, their product and what it must be."""

    def __init__(self, gpu: ww.GPU, case: Case) -> None:
        self.gpu, self.case, self.random = gpu, case, np.random.default_rng(3)
        m, n, k = case.sizes
        ops = ["nt".index(letter) for letter in case.layout]
        right = case.type if case.right < 0 else case.right
        a, held_a = self._matrix(case.type, *((k, m) if ops[0] else (m, k)))
        b, held_b = self._matrix(right, *((n, k) if ops[1] else (k, n)))
        self.before = self._values(case.result, (case.batch, n, m))
        self.result = gpu.array(self.before.view(np.uint8).reshape(-1))
        bias = self._values(case.result, (m,))
        self.bias = gpu.array(bias.view(np.uint8))
        self.held = held_a, held_b
        d = Matrix(self.result.device_address(), case.result, m, m * n)
        scale = {R_8I: R_32I, R_64F: R_64F}.get(case.type, R_32F)
        self.product = Product(
            *(m, n, k, Matrix(a[1], case.type, a[2], a[0].shape[1] * a[2], ops[0])),
            *(Matrix(b[1], right, b[2], b[0].shape[1] * b[2], ops[1]), d, d, Scalar(1), Scalar(case.beta), scale),
            batch=case.batch,
            flags=(BIAS | RELU) * case.bias,
            tf32=case.tf32,
            bias=self.bias.device_address(),
        )
        seen = (rounded_to_tf32(x) if case.type == R_32F and case.tf32 else x for x in (a[0], b[0]))
        left, other = (x.astype(np.float64) for x in seen)
        left = left[:, :, : k if ops[0] else m]
        other = other[:, :, : n if ops[1] else k]
        product = (left if ops[0] else left.transpose(0, 2, 1)) @ (
            other if ops[1] else other.transpose(0, 2, 1)
        ).transpose(0, 1, 2)
        self.expected = product.transpose(0, 2, 1) + case.beta * self.before.astype(np.float64)
        if case.bias:
            self.expected = np.maximum(self.expected + bias.astype(np.float64), 0)

    def _values(self, type: int, shape: tuple[int, ...]) -> Array:
        if type in (R_8I, R_32I):
            return self.random.integers(-4, 5, shape).astype(DTYPES[type])
        return self.random.standard_normal(shape).astype(DTYPES[type])

    def _matrix(self, type: int, rows: int, columns: int) -> tuple[tuple[Array, int, int], ww.DeviceArray]:
        whole = 16 // TYPES[type].size_bytes
        leading = -(-rows // whole) * whole
        values = self._values(type, (self.case.batch, columns, leading))
        array = self.gpu.array(values.view(np.uint8).reshape(-1))
        return (values, array.device_address(), leading), array

    def run(self) -> Plan:
        """Launch the product."""
        planned = plan(self.product, self.case.target)
        code = library_kernels.compiled(planned.file, "cuBLAS", {"KERNEL": planned.name, **planned.macros}, 90)
        kernel = self.gpu.compile(code.cubin)[planned.name]
        kernel[planned.grid, planned.threads, planned.shared_bytes](*(np.void(value) for value in planned.arguments))
        return planned

    def error(self) -> float:
        """The largest difference over the largest element."""
        found = np.frombuffer(self.result.numpy().tobytes(), DTYPES[self.case.result]).reshape(self.expected.shape)
        return float(np.abs(found.astype(np.float64) - self.expected).max() / np.abs(self.expected).max())


@pytest.fixture(scope="module")
def gpu() -> ww.GPU:
    return ww.GPU("h200", timing="off")


@pytest.mark.ci
@pytest.mark.parametrize(
    "case",
    [*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in REPEATED_CASES)],
    ids=lambda c: f"{TYPES[c.type].name}-{c.layout}-{TYPES[c.result].name}",
)
def test_products(case: Case, gpu: ww.GPU) -> None:
    operands = Operands(gpu, case)
    planned = operands.run()
    assert planned.file == case.file
    assert planned.name.endswith(case.tile)
    assert operands.error() <= TOLERANCE[case.result]


@pytest.fixture
def timed() -> Iterator[ww.GPU]:
    return ww.GPU("h200", timing="full")


@pytest.mark.ci
def test_a_stage_is_not_written_before_all_warps_of_a_group_have_read_it(timed: ww.GPU) -> None:
    """One warp of a group tells the producer that all four have read a stage. When each warp multiplied on its own, this product was wrong with timing."""
    for type, depth in ((R_16F, 1024), (R_32F, 512)):
        operands = Operands(timed, Case(type, "nn", (512, 512, depth), type))
        operands.run()
        assert operands.error() <= TOLERANCE[type]


@pytest.mark.ci
def test_the_loads_of_a_stage_are_no_race_with_its_next_copy() -> None:
    """Each warp of a group loads its part of A, and one thread tells the producer after the wait for the product."""
    gpu = ww.GPU("h200", timing="off", check="racecheck")
    operands = Operands(gpu, Case(R_32F, "nn", (128, 256, 160), R_32F, target=Target(90, 1)))
    planned = operands.run()
    assert planned.file == "gemm_wgmma_tf32.cu"
    assert int(planned.macros["STAGES"]) < 5  # of 32: a stage is written again
    assert gpu.findings == []
    assert operands.error() <= TOLERANCE[R_32F]


def test_layouts_that_wgmma_cannot_read_take_mma() -> None:
    def chosen(type: int, layout: str, address: int = 0, tf32: bool = True) -> str:
        ops = ["nt".index(letter) for letter in layout]
        matrices = [Matrix(address, type, 512, 512 * 512, op) for op in (*ops, 0, 0)]
        return plan(Product(512, 512, 512, *matrices, Scalar(1), Scalar(0), R_32F, tf32=tf32), FEW_SMS).file

    assert chosen(R_16F, "nt") == chosen(R_32F, "tn") == "gemm_wgmma.cu"
    assert chosen(R_32F, "nn") == "gemm_wgmma_tf32.cu"
    assert chosen(R_16F, "nt", address=2) == chosen(R_32F, "nt") == chosen(R_32F, "nn", address=4) == "gemm_mma.cu"
    assert chosen(R_32F, "tn", tf32=False) == "gemm_f32.cu"
    assert chosen(R_32F, "tn", address=4, tf32=False) == chosen(R_8F_E4M3, "nn") == "gemm.cu"
