"""cuSPARSELt of this package, called as C programs call it, against NumPy."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import pytest

from tests.library_calls import Array, Device, Library, bfloat, from_bfloat
from warpwright.sparsity import is_sparse, prune_2_4

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files"),
]
INVALID, NOT_SUPPORTED, COLUMNS, ROWS = 3, 10, 1, 2
F32, F16, BF16, I8, I32 = 0, 2, 14, 3, 10
RELU, UPPER, GELU, ALPHAS, BIAS = 0, 1, 3, 5, 8
NAMES = {F32: "tf32", F16: "f16", BF16: "bf16", I8: "s8"}
Room = ctypes.Array[ctypes.c_char]


def room() -> Room:
    return ctypes.create_string_buffer(512)


@pytest.fixture(scope="module")
def lt(memory: Device) -> Library:
    return Library("libcusparseLt.so.0")


@pytest.fixture(scope="module")
def handle(lt: Library) -> Room:
    made = room()
    lt("cusparseLtInit", made)
    return made


def stored(values: Array, type: int) -> Array:
    """Values as the device holds them."""
    if type == BF16:
        return bfloat(values)
    return values.astype({F32: np.float32, F16: np.float16, I8: np.int8, I32: np.int32}[type])


def loaded(raw: Array, type: int) -> Array:
    return from_bfloat(raw).astype(np.float64) if type == BF16 else raw.astype(np.float64)


def held_type(type: int) -> Any:
    return {F32: np.float32, F16: np.float16, BF16: np.uint16, I8: np.int8, I32: np.int32}[type]


def weights(seed: int, m: int, k: int, type: int) -> Array:
    """Sparse numbers that every type holds exactly."""
    random = np.random.default_rng(seed)
    values = random.integers(-6, 7, (m, k)).astype(np.float64)
    return prune_2_4(values, NAMES[type])


class Matmul:
    """A product's descriptors and plan; ``orders`` has a letter for B and one for D: ``r`` (rows) or ``c`` (columns)."""

    def __init__(
        self, lt: Library, handle: Room, shape: tuple[int, int, int], types: tuple[int, int], orders: str
    ) -> None:
        m, n, k = shape
        self.lt, self.handle, self.m, self.n, self.k = lt, handle, m, n, k
        (self.type, self.out), (of_b, of_d) = types, orders
        self.a, self.b, self.d, self.product, self.choice, self.plan = (room() for _ in range(6))
        lt("cusparseLtStructuredDescriptorInit", handle, self.a, m, k, k, _u(16), self.type, ROWS, 0)
        for made, rows, order, type in ((self.b, k, of_b, self.type), (self.d, m, of_d, self.out)):
            ld, number = (n, ROWS) if order == "r" else (rows, COLUMNS)
            lt("cusparseLtDenseDescriptorInit", handle, made, rows, n, ld, _u(16), type, number)
        self.order = "C" if of_d == "r" else "F"
        compute = 0 if self.type == I8 else 2
        lt("cusparseLtMatmulDescriptorInit", handle, self.product, 0, 0, self.a, self.b, self.d, self.d, compute)

    def set(self, number: int, value: Any) -> None:
        size = ctypes.sizeof(value)
        self.lt("cusparseLtMatmulDescSetAttribute", self.handle, self.product, number, ctypes.byref(value), size)

    def __call__(self, memory: Device, compressed: int, b: int, d: int, alpha: Any = 1.0, beta: float = 0.0) -> Array:
        lt, handle = self.lt, self.handle
        lt("cusparseLtMatmulAlgSelectionInit", handle, self.choice, self.product, 0)
        lt("cusparseLtMatmulPlanInit", handle, self.plan, self.product, self.choice)
        size = ctypes.c_size_t()
        lt("cusparseLtMatmulGetWorkspace", handle, self.plan, ctypes.byref(size))
        work = memory.put(np.full(size.value, 0xAB, np.uint8))
        alpha = ctypes.byref(ctypes.c_float(alpha)) if isinstance(alpha, float) else alpha
        stream = ctypes.c_uint64(0)
        operands = (compressed, b, ctypes.byref(ctypes.c_float(beta)), d, d, work, ctypes.byref(stream), 1)
        lt("cusparseLtMatmul", handle, self.plan, alpha, *operands)
        return loaded(memory.get(d, held_type(self.out), (self.m, self.n), self.order), self.out)


def _u(value: int) -> Any:
    return ctypes.c_uint32(value)


def compressed(lt: Library, handle: Room, memory: Device, of: Room, a: int) -> int:
    size, work = ctypes.c_size_t(), ctypes.c_size_t()
    lt("cusparseLtSpMMACompressedSize2", handle, of, ctypes.byref(size), ctypes.byref(work))
    place = memory.put(np.zeros(size.value, np.uint8))
    lt("cusparseLtSpMMACompress2", handle, of, 1, 0, a, place, 0, 0)
    return place


@pytest.mark.parametrize(
    ("type", "out", "orders", "shape"),
    [
        (F16, F16, "rr", (128, 24, 64)),
        (F16, F16, "cc", (48, 40, 96)),
        (BF16, BF16, "cr", (256, 136, 128)),
        (F32, F32, "rc", (32, 8, 48)),
        (I8, I8, "cr", (64, 16, 160)),
        (I8, I32, "cc", (160, 32, 128)),
        (I8, F16, "rr", (32, 32, 64)),
    ],
)
def test_products(
    lt: Library, handle: Room, memory: Device, type: int, out: int, orders: str, shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    a = weights(1, m, k, type)
    b = np.random.default_rng(2).integers(-3, 4, (k, n)).astype(np.float64)
    c = np.random.default_rng(3).integers(-9, 10, (m, n)).astype(np.float64)
    made = Matmul(lt, handle, shape, (type, out), orders)
    small = compressed(lt, handle, memory, made.a, memory.put(stored(a, type)))
    of_b = memory.put(np.asarray(stored(b, type), order="C" if orders[0] == "r" else "F"))
    of_d = memory.put(np.asarray(stored(c, out), order="C" if orders[1] == "r" else "F"))
    found = made(memory, small, of_b, of_d, 0.5, 2.0)
    expected = 0.5 * (a @ b) + 2 * c
    if out in (I8, I32):
        expected = np.clip(np.rint(expected), -128, 127) if out == I8 else np.rint(expected)
    np.testing.assert_allclose(found, expected, rtol={BF16: 2**-8, F16: 2**-11}.get(out, 0))


def test_metadata_has_the_order_of_pytorchs_kernels(lt: Library, handle: Room, memory: Device) -> None:
    """Units of 16 columns: of a tile of 32 x 32 eight groups of four words, each of which holds rows that are eight apart."""
    m, k = 256, 128
    a = weights(4, m, k, F16)
    made = Matmul(lt, handle, (m, 8, k), (F16, F16), "rr")
    place = compressed(lt, handle, memory, made.a, memory.put(stored(a, F16)))
    raw = memory.get(place, np.uint16, (m * k // 2 + m * k // 16,))
    units = np.zeros((m, k // 16), np.int64)
    values = np.zeros((m, k // 2), np.float16)
    for row in range(m):
        for group in range(k // 4):
            used = [i for i in range(4) if a[row, 4 * group + i]]
            places = sorted((used + [i for i in range(4) if i not in used])[:2])
            units[row, group // 4] |= (places[0] | places[1] << 2) << 4 * (group % 4)
            values[row, 2 * group : 2 * group + 2] = a[row, [4 * group + i for i in places]]
    np.testing.assert_array_equal(raw[: m * k // 2].view(np.float16).reshape(m, k // 2), values)
    tiles = raw[m * k // 2 :].reshape(k // 64, m // 128, 2, 4, 8, 2, 2, 2)
    # Tile of 64 columns, of 128 rows; half of the columns, quarter of the rows; row, 16 rows, 16 columns, eight rows.
    expected = units.reshape(m // 128, 4, 2, 2, 8, k // 64, 2, 2).transpose(5, 0, 6, 1, 4, 2, 7, 3)
    np.testing.assert_array_equal(tiles, expected)


def test_scales_bias_and_activations(lt: Library, handle: Room, memory: Device) -> None:
    """Vectors of scales belong to int8; its results of 16 bits keep the fractions."""
    m, n, k = shape = (32, 32, 64)
    a, random = weights(5, m, k, I8), np.random.default_rng(6)
    b, bias, alphas = random.integers(-3, 4, (k, n)), random.integers(-4, 5, m) / 2, random.integers(1, 5, m) / 64
    zero, of_b = np.zeros((m, n), np.float16), memory.put(np.asfortranarray(stored(b, I8)))
    of_bias, of_alphas = memory.put(bias.astype(np.float16)), memory.put(alphas.astype(np.float32))
    sums = alphas[:, None] * (a @ b) + bias[:, None]
    gelu = 0.5 * sums * (1 + np.tanh(np.sqrt(2 / np.pi) * (sums + 0.044715 * sums**3)))
    for number, expected in ((RELU, np.clip(sums, 0, 3)), (GELU, gelu)):
        made = Matmul(lt, handle, shape, (I8, F16), "cr")
        made.set(number, ctypes.c_int(1))
        made.set(ALPHAS, ctypes.c_int(1))
        made.set(BIAS, ctypes.c_void_p(of_bias))
        if number == RELU:
            made.set(UPPER, ctypes.c_float(3))
        small = compressed(lt, handle, memory, made.a, memory.put(stored(a, I8)))
        found = made(memory, small, of_b, memory.put(zero), ctypes.c_uint64(of_alphas))
        np.testing.assert_allclose(found, expected, rtol=2**-10, atol=1e-3)
    of_halves, one = Matmul(lt, handle, shape, (F16, F16), "rr"), ctypes.byref(ctypes.c_int(1))
    assert lt.raw("cusparseLtMatmulDescSetAttribute", handle, of_halves.product, ALPHAS, one, 4) == NOT_SUPPORTED


@pytest.mark.parametrize("type", [F16, I8, F32])
def test_pruning(lt: Library, handle: Room, memory: Device, type: int) -> None:
    m, k = 16, 32
    values = np.random.default_rng(7).permutation(np.arange(m * k)).reshape(m, k)
    values = (values % 120 + 1 if type == I8 else values + 1).astype(np.float64) * np.where(values % 3 == 0, -1, 1)
    of, group = room(), 2 if type == F32 else 4
    lt("cusparseLtStructuredDescriptorInit", handle, of, m, k, k, _u(16), type, ROWS, 0)
    source = memory.put(stored(values, type))
    target, invalid = memory.put(np.zeros_like(stored(values, type))), memory.put(np.ones(1, np.int32))
    for algorithm in (0, 1):
        lt("cusparseLtSpMMAPrune2", handle, of, 1, 0, source, target, algorithm, 0)
        found = loaded(memory.get(target, held_type(type), (m, k), "C"), type)
        assert is_sparse(found, NAMES[type])
        lt("cusparseLtSpMMAPruneCheck2", handle, of, 1, 0, target, invalid, 0)
        assert memory.get(invalid, np.int32, (1,))[0] == 0
        if algorithm:
            np.testing.assert_array_equal(found, prune_2_4(values, NAMES[type]))
        else:
            tiles = found.reshape(m // group, group, k // group, group).swapaxes(1, 2)
            kept = tiles != 0
            assert (kept.sum(-1) == group // 2).all()
            assert (kept.sum(-2) == group // 2).all()
            np.testing.assert_array_equal(found[found != 0], values[found != 0])
            whole = np.abs(values).reshape(m // group, group, k // group, group).swapaxes(1, 2)
            np.testing.assert_allclose(np.abs(tiles).sum((-1, -2)), best_tiles(whole))
    lt("cusparseLtSpMMAPruneCheck2", handle, of, 1, 0, source, invalid, 0)
    assert memory.get(invalid, np.int32, (1,))[0] == 1


def best_tiles(sizes: Array) -> Array:
    """The largest sums of magnitudes of squares [..., group, group] that keep half of each row and column."""
    group = sizes.shape[-1]
    masks = []
    for code in range(1 << group * group):
        mask = np.array([code >> n & 1 for n in range(group * group)]).reshape(group, group)
        if (mask.sum(0) == group // 2).all() and (mask.sum(1) == group // 2).all():
            masks.append(mask)
    return np.max([(sizes * mask).sum((-1, -2)) for mask in masks], axis=0)


def test_what_is_not_provided_is_refused(lt: Library, handle: Room, memory: Device) -> None:
    of = room()
    name = "cusparseLtStructuredDescriptorInit"
    assert lt.raw(name, handle, of, 32, 32, 32, _u(16), 28, ROWS, 0) == NOT_SUPPORTED
    assert lt.raw(name, handle, of, 32, 30, 30, _u(16), F16, ROWS, 0) == NOT_SUPPORTED
    assert lt.raw(name, handle, of, 32, 32, 16, _u(16), F16, ROWS, 0) == INVALID
    assert lt.raw(name, room(), of, 32, 32, 32, _u(16), F16, ROWS, 0) == 1
    made = Matmul(lt, handle, (32, 32, 32), (F16, F16), "rr")
    lt("cusparseLtMatmulAlgSelectionInit", handle, made.choice, made.product, 0)
    one = ctypes.byref(ctypes.c_int(3))
    assert lt.raw("cusparseLtMatmulAlgSetAttribute", handle, made.choice, 0, one, 4) == INVALID
    assert (
        lt.raw("cusparseLtMatmulDescriptorInit", handle, room(), 0, 0, made.b, made.b, made.d, made.d, 2)
        == NOT_SUPPORTED
    )
