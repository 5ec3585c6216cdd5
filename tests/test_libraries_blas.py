"""cuBLAS and cuBLASLt of this package, called as C programs call them, against NumPy."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.library_calls import Array, Device, Library, bfloat, from_bfloat, scalar, values

pytestmark = [pytest.mark.ci, pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")]

R_32F, R_64F, R_16F, R_8I, C_32F, C_64F, R_32I, R_16BF = 0, 1, 2, 3, 4, 5, 10, 14
NUMPY = {R_32F: np.float32, R_64F: np.float64, R_16F: np.float16, C_32F: np.complex64, C_64F: np.complex128}
LETTERS = {"S": R_32F, "D": R_64F, "C": C_32F, "Z": C_64F}
TOLERANCE = {R_32F: 1e-5, R_64F: 1e-13, R_16F: 2e-3, R_16BF: 1e-2, C_32F: 1e-5, C_64F: 1e-13}
COMPUTE_32F, COMPUTE_64F, COMPUTE_32I, COMPUTE_16F, FAST_TF32 = 68, 70, 72, 64, 77
NOT_INITIALIZED, INVALID_VALUE, NOT_SUPPORTED = 1, 7, 15


@pytest.fixture(scope="module")
def handle(blas: Library) -> int:
    return blas.word("cublasCreate_v2")


def applied(op: int, matrix: Array) -> Array:
    return (matrix, matrix.T, matrix.conj().T)[op]


def error(found: Array, expected: Array) -> float:
    return float(np.abs(found - expected).max(initial=0) / max(1.0, float(np.abs(expected).max(initial=0))))


@settings(max_examples=24, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    letter=st.sampled_from("SDCZ"),
    sizes=st.tuples(st.integers(1, 70), st.integers(1, 70), st.integers(1, 40)),
    ops=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    pads=st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
    alpha=st.sampled_from([1, 0, 0.5 - 0.25j]),
    beta=st.sampled_from([0, 1, -0.75 + 0.5j]),
    seed=st.integers(0, 1000),
)
def test_gemm(
    memory: Device,
    blas: Library,
    handle: int,
    letter: str,
    sizes: tuple[int, int, int],
    ops: tuple[int, int],
    pads: tuple[int, int, int],
    alpha: complex,
    beta: complex,
    seed: int,
) -> None:
    m, n, k = sizes
    type = NUMPY[LETTERS[letter]]
    shapes = ((m, k) if ops[0] == 0 else (k, m), (k, n) if ops[1] == 0 else (n, k), (m, n))
    whole = [values(seed + i, (rows + pads[i], columns), type) for i, (rows, columns) in enumerate(shapes)]
    a, b, c = (w[: s[0]] for w, s in zip(whole, shapes, strict=True))
    places = [memory.put(w) for w in whole]
    given_alpha, given_beta = scalar(alpha, type), scalar(beta, type)
    leading = [w.shape[0] for w in whole]
    blas(
        f"cublas{letter}gemm_v2", handle, *ops, m, n, k, given_alpha, places[0], leading[0], places[1], leading[1],
        given_beta, places[2], leading[2],
    )  # fmt: skip
    found = memory.get(places[2], type, whole[2].shape)
    expected = given_alpha[0] * (applied(ops[0], a) @ applied(ops[1], b)) + given_beta[0] * c
    assert error(found[:m], expected) < TOLERANCE[LETTERS[letter]] * max(1, k / 4)
    # The bytes between the columns stay as they were.
    np.testing.assert_array_equal(found[m:], whole[2][m:])
    memory.free()


def test_beta_of_zero_does_not_read_the_result(memory: Device, blas: Library, handle: int) -> None:
    a = values(1, (8, 8), np.float32)
    places = [memory.put(a), memory.put(a), memory.put(np.full((8, 8), np.nan, np.float32))]
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    blas("cublasSgemm_v2", handle, 0, 0, 8, 8, 8, one, places[0], 8, places[1], 8, zero, places[2], 8)
    assert error(memory.get(places[2], np.float32, (8, 8)), a @ a) < 1e-5


def encoded(array: Array, type: int) -> Array:
    return bfloat(array) if type == R_16BF else array.astype({R_16F: np.float16, R_32F: np.float32}[type])


def decoded(array: Array, type: int) -> Array:
    return from_bfloat(array) if type == R_16BF else array.astype(np.float32)


OPS = ((0, 0), (1, 0), (0, 1), (1, 1))
TYPES = ((R_16F, R_16F), (R_16BF, R_16BF), (R_16F, R_32F), (R_16BF, R_32F))
SIZES = ((72, 136, 40), (33, 17, 21))


@pytest.mark.parametrize(
    # All pairs of types and operations are kernels of their own; each of either has both sizes.
    ("ops", "type", "result", "sizes"),
    [(ops, *types, SIZES[(i + j) % 2]) for i, ops in enumerate(OPS) for j, types in enumerate(TYPES)],
)
def test_gemm_of_16_bit_types(
    memory: Device,
    blas: Library,
    handle: int,
    type: int,
    result: int,
    ops: tuple[int, int],
    sizes: tuple[int, int, int],
) -> None:
    m, n, k = sizes
    shapes = ((m, k) if ops[0] == 0 else (k, m), (k, n) if ops[1] == 0 else (n, k))
    a, b = (encoded(values(7 + i, s, np.float32), type) for i, s in enumerate(shapes))
    c = encoded(values(9, (m, n), np.float32), result)
    places = [memory.put(np.asfortranarray(x)) for x in (a, b, c)]
    half, two = np.array([0.5], np.float32), np.array([2], np.float32)
    blas(
        "cublasGemmEx", handle, *ops, m, n, k, half, places[0], type, shapes[0][0], places[1], type, shapes[1][0],
        two, places[2], result, m, COMPUTE_32F, -1,
    )  # fmt: skip
    product = applied(ops[0], decoded(a, type)) @ applied(ops[1], decoded(b, type))
    expected = 0.5 * product + 2 * decoded(c, result)
    found = decoded(memory.get(places[2], encoded(np.zeros(1), result).dtype, (m, n)), result)
    assert error(found, expected) < TOLERANCE[result]
    memory.free()


@pytest.mark.parametrize("ops", [(0, 0), (1, 1)])
def test_large_tiles(memory: Device, blas: Library, handle: int, ops: tuple[int, int]) -> None:
    """Products with as many tiles of 128x128 as the chip has SMs, whose edges are not whole tiles."""
    m, n, k = 1416, 1288, 72
    shapes = ((m, k) if ops[0] == 0 else (k, m), (k, n) if ops[1] == 0 else (n, k))
    a, b = (encoded(values(7 + i, s, np.float32), R_16F) for i, s in enumerate(shapes))
    places = [memory.put(np.asfortranarray(x)) for x in (a, b, np.zeros((m, n), np.float32))]
    blas(
        "cublasGemmEx", handle, *ops, m, n, k, np.array([1], np.float32), places[0], R_16F, shapes[0][0], places[1], R_16F,
        shapes[1][0], np.array([0], np.float32), places[2], R_32F, m, COMPUTE_32F, -1,
    )  # fmt: skip
    found = memory.get(places[2], np.float32, (m, n))
    assert error(found, applied(ops[0], decoded(a, R_16F)) @ applied(ops[1], decoded(b, R_16F))) < TOLERANCE[R_32F]
    memory.free()


@pytest.mark.parametrize("ops", [(0, 0), (1, 1)])
def test_large_tiles_of_single_precision(memory: Device, blas: Library, handle: int, ops: tuple[int, int]) -> None:
    """Products with as many tiles of 128x256 as the chip has SMs, whose edges are not whole tiles."""
    m, n, k = 1415, 2310, 21
    shapes = ((m, k) if ops[0] == 0 else (k, m), (k, n) if ops[1] == 0 else (n, k))
    a, b = (values(7 + i, s, np.float32) for i, s in enumerate(shapes))
    places = [memory.put(np.asfortranarray(x)) for x in (a, b, np.zeros((m, n), np.float32))]
    one, zero = np.array([1], np.float32), np.array([0], np.float32)
    blas(
        "cublasSgemm_v2",
        handle,
        *ops,
        m,
        n,
        k,
        one,
        places[0],
        shapes[0][0],
        places[1],
        shapes[1][0],
        zero,
        places[2],
        m,
    )
    found = memory.get(places[2], np.float32, (m, n))
    assert error(found, applied(ops[0], a) @ applied(ops[1], b)) < TOLERANCE[R_32F]
    memory.free()


_ON_VOLTA = """
import ctypes
import numpy as np
cuda, blas = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcublas.so.12")
U, P = ctypes.c_uint64, lambda array: ctypes.c_uint64(array.ctypes.data)
context, handle = ctypes.c_void_p(), U()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
rng, one, zero = np.random.default_rng(1), np.array([1], np.float32), np.array([0], np.float32)
for ops in ((0, 0), (0, 1), (1, 0), (1, 1)):
    m, n, k = 72, 104, 40
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    places = []
    for array, op in ((a, ops[0]), (b, ops[1]), (np.zeros((m, n), np.float32), 0)):
        raw, place = (array if op else array.T).tobytes(), U()
        assert cuda.cuMemAlloc_v2(ctypes.byref(place), U(len(raw))) == 0 and cuda.cuMemcpyHtoD_v2(place, raw, U(len(raw))) == 0
        places.append(place)
    lda, ldb = k if ops[0] else m, n if ops[1] else k
    assert blas.cublasGemmEx(handle, U(ops[0]), U(ops[1]), U(m), U(n), U(k), P(one), places[0], U(2), U(lda), places[1], U(2), U(ldb), P(zero),
                             places[2], U(0), U(m), U(68), U(99)) == 0
    found = np.empty((n, m), np.float32)
    assert cuda.cuMemcpyDtoH_v2(P(found), places[2], U(found.nbytes)) == 0
    expected = a.astype(np.float32) @ b.astype(np.float32)
    assert np.abs(found.T - expected).max() < 1e-4, (ops, np.abs(found.T - expected).max())
"""


def test_tensor_cores_of_volta(tmp_path: Path) -> None:
    """In a process of its own: HMMA.884 for each layout, and launches that say so by their name."""
    program, launches = tmp_path / "product.py", tmp_path / "launches.json"
    program.write_text(_ON_VOLTA)
    command = [
        sys.executable,
        "-m",
        "warpwright",
        "run",
        "--gpu",
        "v100",
        "--timing",
        "off",
        "--json",
        str(launches),
        str(program),
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr[-2000:]
    names = {launch["kernel"] for launch in json.loads(launches.read_text())}
    assert names == {f"warpwright_hgemm_mma_{layout}_64x64" for layout in ("nn", "nt", "tn", "tt")}


def test_tf32_rounds_operands_only_where_it_is_allowed(memory: Device, blas: Library, handle: int) -> None:
    a = values(3, (64, 64), np.float32)
    b = values(4, (64, 64), np.float32)
    places = [memory.put(x) for x in (a, b, np.zeros((64, 64), np.float32))]
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    errors = []
    for mode in (0, 3):
        blas("cublasSetMathMode", handle, mode)
        blas("cublasSgemm_v2", handle, 0, 0, 64, 64, 64, one, places[0], 64, places[1], 64, zero, places[2], 64)
        errors.append(error(memory.get(places[2], np.float32, (64, 64)), exact))
    blas("cublasSetMathMode", handle, 0)
    assert errors[0] < 1e-6
    assert errors[0] <= errors[1] < 2e-3


def test_gemm_of_integers(memory: Device, blas: Library, handle: int) -> None:
    random = np.random.default_rng(5)
    a = np.asfortranarray(random.integers(-128, 128, (36, 20), dtype=np.int8))
    b = np.asfortranarray(random.integers(-128, 128, (20, 44), dtype=np.int8))
    places = [memory.put(x) for x in (a, b, np.zeros((36, 44), np.int32))]
    one, zero = np.ones(1, np.int32), np.zeros(1, np.int32)
    blas(
        "cublasGemmEx", handle, 0, 0, 36, 44, 20, one, places[0], R_8I, 36, places[1], R_8I, 20, zero, places[2],
        R_32I, 36, COMPUTE_32I, -1,
    )  # fmt: skip
    found = memory.get(places[2], np.int32, (36, 44))
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))


def test_batches(memory: Device, blas: Library, handle: int) -> None:
    a, b = (np.random.default_rng(i).standard_normal((3, 10, 10)).astype(np.float32) for i in (1, 2))
    # NumPy's rows are cuBLAS's columns: the products of the transposed matrices in the other order.
    place_a, place_b, place_c = (memory.put(x.reshape(-1)) for x in (a, b, np.zeros_like(a)))
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    blas(
        "cublasSgemmStridedBatched", handle, 0, 0, 10, 10, 10, one, place_b, 10, 100, place_a, 10, 100, zero, place_c,
        10, 100, 3,
    )  # fmt: skip
    found = memory.get(place_c, np.float32, a.shape, "C")
    assert error(found, a @ b) < 1e-5
    tables = [memory.put(np.array([p + 400 * i for i in range(3)], np.uint64)) for p in (place_b, place_a, place_c)]
    blas("cublasSgemmBatched", handle, 0, 0, 10, 10, 10, one, tables[0], 10, tables[1], 10, one, tables[2], 10, 3)
    found = memory.get(place_c, np.float32, a.shape, "C")
    assert error(found, 2 * (a @ b)) < 1e-5


def test_scalars_of_the_device(memory: Device, blas: Library, handle: int) -> None:
    a = values(3, (16, 16), np.float64)
    places = [memory.put(x) for x in (a, a, a, np.array([0.25]), np.array([3.0]))]
    blas("cublasSetPointerMode_v2", handle, 1)
    blas(
        "cublasDgemm_v2", handle, 0, 1, 16, 16, 16, places[3], places[0], 16, places[1], 16, places[4], places[2], 16
    )  # fmt: skip
    blas("cublasDdot_v2", handle, 16, places[0], 1, places[0], 1, places[3])
    blas("cublasSetPointerMode_v2", handle, 0)
    assert error(memory.get(places[2], np.float64, (16, 16)), 0.25 * a @ a.T + 3 * a) < 1e-13
    assert memory.get(places[3], np.float64, (1,))[0] == pytest.approx(a[:, 0] @ a[:, 0])


@pytest.mark.parametrize("letter", "SDCZ")
def test_level_1(memory: Device, blas: Library, handle: int, letter: str) -> None:
    type = NUMPY[LETTERS[letter]]
    real = np.zeros(1, type).real.dtype
    x, y = values(1, (700,), type), values(2, (700,), type)
    place_x, place_y = memory.put(x), memory.put(y)
    of_real = {"C": "Sc", "Z": "Dz"}.get(letter, letter)
    tolerance = 10 * TOLERANCE[LETTERS[letter]]
    for name, expected in (("nrm2", np.linalg.norm(x)), ("asum", (abs(x.real) + abs(x.imag)).sum())):
        result = np.zeros(1, real)
        blas(f"cublas{of_real}{name}_v2", handle, 700, place_x, 1, result)
        assert result[0] == pytest.approx(expected, rel=tolerance)
    for suffix, first in (("u", x), ("c", x.conj())) if letter in "CZ" else (("", x),):
        found = np.zeros(1, type)
        blas(f"cublas{letter}dot{suffix}_v2", handle, 350, place_x, 2, place_y, -1, found)
        assert abs(found[0] - (first[::2] * y[349::-1]).sum()) < tolerance * 350
    for name, index in (("amax", np.argmax), ("amin", np.argmin)):
        place = ctypes.c_int32()
        blas(f"cublasI{letter.lower()}{name}_v2", handle, 700, place_x, 1, ctypes.byref(place))
        assert place.value == index(abs(x.real) + abs(x.imag)) + 1
    blas(f"cublas{letter}axpy_v2", handle, 700, scalar(0.5 + 2j, type), place_x, 1, place_y, 1)
    y = scalar(0.5 + 2j, type)[0] * x + y
    assert error(memory.get(place_y, type, (700,)), y) < tolerance
    blas(f"cublas{letter}scal_v2", handle, 700, scalar(3 - 1j, type), place_y, 1)
    assert error(memory.get(place_y, type, (700,)), scalar(3 - 1j, type)[0] * y) < tolerance
    before = memory.get(place_y, type, (700,))
    blas(f"cublas{letter}swap_v2", handle, 700, place_x, 1, place_y, 1)
    np.testing.assert_array_equal(memory.get(place_y, type, (700,)), x)
    blas(f"cublas{letter}copy_v2", handle, 700, place_x, 1, place_y, 1)
    np.testing.assert_array_equal(memory.get(place_y, type, (700,)), before)


@pytest.mark.parametrize("op", [0, 1, 2])
@pytest.mark.parametrize("letter", "SDCZ")
def test_gemv(memory: Device, blas: Library, handle: int, letter: str, op: int) -> None:
    type = NUMPY[LETTERS[letter]]
    a = values(1, (70, 45), type)
    matrix = applied(op, a)
    x, y = values(2, (matrix.shape[1],), type), values(3, (matrix.shape[0],), type)
    places = [memory.put(v) for v in (a, x, y)]
    alpha, beta = scalar(2 - 1j, type), scalar(0.5, type)
    blas(f"cublas{letter}gemv_v2", handle, op, 70, 45, alpha, places[0], 70, places[1], 1, beta, places[2], 1)
    found = memory.get(places[2], type, y.shape)
    assert error(found, alpha[0] * (matrix @ x) + beta[0] * y) < 20 * TOLERANCE[LETTERS[letter]]


# --- cuBLASLt ---------------------------------------------------------------------------------------
class Lt:
    """Descriptors of one product of float32, which a test changes."""

    def __init__(self, sizes: tuple[int, int, int]) -> None:
        self.call = Library("libcublasLt.so.13")
        m, n, k = sizes
        self.handle = self.call.word("cublasLtCreate")
        self.product = self.call.word("cublasLtMatmulDescCreate", COMPUTE_32F, R_32F)
        shapes = ((m, k), (k, n), (m, n), (m, n))
        self.layouts = [self.call.word("cublasLtMatrixLayoutCreate", R_32F, r, c, r) for r, c in shapes]

    def set(self, attribute: int, value: int, size: int = 8) -> None:
        raw = np.array([value], {4: np.int32, 8: np.int64}[size])
        self.call("cublasLtMatmulDescSetAttribute", self.product, attribute, raw, size)

    def run(self, places: list[int], alpha: float = 1, beta: float = 0) -> None:
        preference = self.call.word("cublasLtMatmulPreferenceCreate")
        result, count = (ctypes.c_byte * 96)(), ctypes.c_int32()
        self.call(
            "cublasLtMatmulAlgoGetHeuristic", self.handle, self.product, *self.layouts, preference, 1, result, ctypes.byref(count)
        )  # fmt: skip
        assert count.value == 1
        given = [np.array([x], np.float32) for x in (alpha, beta)]
        operands = [w for pair in zip(places, self.layouts, strict=True) for w in pair]
        self.call(
            "cublasLtMatmul", self.handle, self.product, given[0], *operands[:4], given[1], *operands[4:], result, 0, 0, 0
        )  # fmt: skip


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


EPILOGUES = {1: lambda x: x, 2: lambda x: np.maximum(x, 0), 32: gelu}


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_epilogues_of_lt(memory: Device, epilogue: int, with_bias: bool) -> None:
    m, n, k = 40, 24, 16
    a, b, c = values(1, (m, k), np.float32), values(2, (k, n), np.float32), values(3, (m, n), np.float32)
    bias = values(4, (m,), np.float32)
    lt = Lt((m, n, k))
    lt.set(7, (epilogue & ~1 if with_bias else epilogue) | (4 if with_bias else 0), 4)
    lt.set(8, memory.put(bias))
    places = [memory.put(x) for x in (a, b, c, c)]
    lt.run(places, 0.5, 2.0)
    before = 0.5 * (a @ b) + 2 * c + (bias[:, None] if with_bias else 0)
    assert error(memory.get(places[3], np.float32, (m, n)), EPILOGUES[epilogue](before)) < 1e-5


@pytest.mark.parametrize(("forward", "backward"), [(2, 8), (32, 64)])
def test_gradients_of_lt(memory: Device, forward: int, backward: int) -> None:
    m, n, k = 64, 24, 16
    a, b = values(1, (m, k), np.float32), values(2, (k, n), np.float32)
    before = a @ b
    lt = Lt((m, n, k))
    aux = memory.put(np.zeros((m, n), np.float32))
    lt.set(7, forward | 128, 4)
    lt.set(11, aux)
    lt.set(12, 128 if forward == 2 else m)
    places = [memory.put(x) for x in (a, b, before, before)]
    lt.run(places)
    gradient = memory.put(np.zeros(m, np.float32))
    lt.set(7, backward | 128 | 16, 4)
    lt.set(8, gradient)
    lt.run(places)
    step = 1e-3
    slope = (before > 0) if forward == 2 else (gelu(before + step) - gelu(before - step)) / (2 * step)
    found = memory.get(places[3], np.float32, (m, n))
    assert error(found, before * slope) < 2e-3
    assert error(memory.get(gradient, np.float32, (m,)), found.sum(1)) < 1e-5


def test_lt_refuses_what_it_has_not(memory: Device, capfd: pytest.CaptureFixture[str]) -> None:
    lt = Lt((8, 8, 8))
    lt.set(6, 0, 4)
    arguments = [lt.handle, lt.product, *lt.layouts, (ctypes.c_byte * 64)(), (ctypes.c_byte * 96)()]
    assert lt.call.raw("cublasLtMatmulAlgoCheck", *arguments) == NOT_SUPPORTED
    assert "cublasLtMatmulAlgoCheck: products that fill a triangle" in capfd.readouterr().err


# --- what is wrong, what is absent ------------------------------------------------------------------
def test_wrong_arguments(blas: Library, handle: int) -> None:
    one = np.ones(1, np.float32)
    assert blas.raw("cublasSetStream_v2", 12345, 0) == NOT_INITIALIZED
    assert blas.raw("cublasSgemm_v2", handle, 0, 0, 8, 8, 8, one, 0, 4, 0, 8, one, 0, 8) == INVALID_VALUE
    assert blas.raw("cublasSgemm_v2", handle, 0, 0, -1, 8, 8, one, 0, 8, 0, 8, one, 0, 8) == INVALID_VALUE
    assert blas.raw("cublasSgemm_v2", handle, 0, 0, 8, 8, 8, 0, 0, 8, 0, 8, one, 0, 8) == INVALID_VALUE


def test_what_is_absent_is_named(blas: Library, handle: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert blas.raw("cublasSrotg_v2", handle, 0, 0, 0, 0) == NOT_SUPPORTED
    told = "warpwright: cublasSrotg_v2 is not provided: the call returns CUBLAS_STATUS_NOT_SUPPORTED\n"
    assert capfd.readouterr().err == told


def test_both_sonames_are_the_library(memory: Device) -> None:
    for soname in ("libcublas.so.12", "libcublas.so.13"):
        library = Library(soname)
        number = library.word("cublasCreate_v2")
        library("cublasDestroy_v2", number)
        assert library.raw("cublasDestroy_v2", number) == NOT_INITIALIZED
