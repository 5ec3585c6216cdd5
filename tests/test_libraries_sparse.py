"""cuSPARSE of this package, called as C programs call it, against NumPy."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.library_calls import Array, Device, Library

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files"),
]
R_32F, R_64F, C_64F, INDEX_32, INDEX_64, COLUMNS, ROWS = 0, 1, 5, 2, 3, 1, 2
INVALID_VALUE, NOT_SUPPORTED = 3, 10


@pytest.fixture(scope="module")
def sparse(memory: Device) -> Library:
    return Library("libcusparse.so.12")


def matrix(seed: int, rows: int, columns: int) -> Array:
    random = np.random.default_rng(seed)
    values = random.standard_normal((2, rows, columns))
    return (values[0] + 1j * values[1]) * (random.random((rows, columns)) < 0.3)


def stored(memory: Device, a: Array, form: str, base: int, index: type) -> tuple[list[int], int]:
    """Addresses of a matrix's arrays in a form, and its number of elements."""
    a = a.T if form == "Csc" else a
    rows, columns = np.nonzero(a)
    offsets = np.searchsorted(rows, np.arange(a.shape[0] + 1))
    first = rows if form == "Coo" else offsets
    arrays = ((first + base).astype(index), (columns + base).astype(index), a[rows, columns])
    return [memory.put(x) for x in arrays], len(rows)


@pytest.mark.parametrize("op", [0, 1, 2])
@pytest.mark.parametrize(("form", "base", "index"), [("Csr", 0, np.int32), ("Csc", 1, np.int64), ("Coo", 0, np.int64)])
@pytest.mark.parametrize("order", [COLUMNS, ROWS])
def test_products(memory: Device, sparse: Library, form: str, base: int, index: type, order: int, op: int) -> None:
    a = matrix(1, 9, 7)
    applied = (a, a.T, a.conj().T)[op]
    b, c = matrix(2, applied.shape[1], 4), matrix(3, applied.shape[0], 4)
    handle = sparse.word("cusparseCreate")
    places, count = stored(memory, a, form, base, index)
    kind = INDEX_32 if index is np.int32 else INDEX_64
    kinds = [kind] if form == "Coo" else [kind, kind]
    of_a = sparse.word(f"cusparseCreate{form}", 9, 7, count, *places, *kinds, base, C_64F)

    def dense(x: Array) -> tuple[int, int]:
        laid = np.asfortranarray(x) if order == COLUMNS else np.ascontiguousarray(x)
        place = memory.put(laid)
        ld = x.shape[0] if order == COLUMNS else x.shape[1]
        return sparse.word("cusparseCreateDnMat", *x.shape, ld, place, C_64F, order), place

    (of_b, _), (of_c, place) = dense(b), dense(c)
    alpha, beta = np.array([0.5 - 1j]), np.array([2 + 0.5j])
    arguments = (handle, op, 0, alpha, of_a, of_b, beta, of_c, C_64F, 0)
    if form == "Csc" and op == 2:
        assert sparse.raw("cusparseSpMM", *arguments, 0) == NOT_SUPPORTED
        return
    sparse("cusparseSpMM", *arguments, 0)
    found = memory.get(place, complex, c.shape, "F" if order == COLUMNS else "C")
    np.testing.assert_allclose(found, alpha[0] * (applied @ b) + beta[0] * c, atol=1e-12)


def test_vectors_sampled_products_and_offsets(memory: Device, sparse: Library) -> None:
    a, handle = matrix(4, 8, 6), sparse.word("cusparseCreate")
    places, count = stored(memory, a, "Csr", 0, np.int32)
    of_a = sparse.word("cusparseCreateCsr", 8, 6, count, *places, INDEX_32, INDEX_32, 0, C_64F)
    x, y = matrix(5, 6, 1)[:, 0] + 1, np.zeros(8, complex)
    place_y = memory.put(y)
    of_x, of_y = (sparse.word("cusparseCreateDnVec", len(v), p, C_64F) for v, p in ((x, memory.put(x)), (y, place_y)))
    one, zero = np.ones(1, complex), np.zeros(1, complex)
    sparse("cusparseSpMV", handle, 0, one, of_a, of_x, zero, of_y, C_64F, 0, 0)
    np.testing.assert_allclose(memory.get(place_y, complex, (8,)), a @ x, atol=1e-12)

    left, right = matrix(6, 8, 5) + 1, matrix(7, 5, 6) + 1
    dense = [
        sparse.word("cusparseCreateDnMat", *m.shape, m.shape[0], memory.put(np.asfortranarray(m)), C_64F, COLUMNS)
        for m in (left, right)
    ]
    sparse("cusparseSDDMM", handle, 0, 0, one, *dense, one, of_a, C_64F, 0, 0)
    rows, columns = np.nonzero(a)
    expected = a[rows, columns] + (left @ right)[rows, columns]
    np.testing.assert_allclose(memory.get(places[2], complex, (count,)), expected, atol=1e-12)

    offsets = memory.put(np.zeros(9, np.int32))
    sparse("cusparseXcoo2csr", handle, memory.put(rows.astype(np.int32)), count, 8, offsets, 0)
    np.testing.assert_array_equal(memory.get(offsets, np.int32, (9,)), np.searchsorted(rows, np.arange(9)))


def test_shapes_that_do_not_fit_are_refused(memory: Device, sparse: Library) -> None:
    handle, one = sparse.word("cusparseCreate"), np.ones(1, np.float32)
    of_a = sparse.word("cusparseCreateCsr", 8, 6, 0, 0, 0, 0, INDEX_32, INDEX_32, 0, R_32F)
    b, c = (sparse.word("cusparseCreateDnMat", 5, 2, 5, 0, R_32F, COLUMNS) for _ in range(2))
    assert sparse.raw("cusparseSpMM", handle, 0, 0, one, of_a, b, one, c, R_32F, 0, 0) == INVALID_VALUE


@pytest.mark.parametrize("on_device", [False, True])
def test_sums_of_sparse_matrices(memory: Device, sparse: Library, on_device: bool) -> None:
    """csrgeam2: offsets and the number of elements first, then the elements; each matrix has its own base, and some rows are empty."""
    shape, bases = (300, 40), (0, 1, 1)
    a, b = (matrix(seed, *shape) for seed in (6, 7))
    a[5], b[5], b[9] = 0, 0, 0
    handle = sparse.word("cusparseCreate")
    sparse("cusparseSetPointerMode", handle, int(on_device))
    of_a, of_b, of_c = (sparse.word("cusparseCreateMatDescr") for _ in bases)
    for description, base in zip((of_a, of_b, of_c), bases, strict=True):
        sparse("cusparseSetMatIndexBase", description, base)
    (rows_a, columns_a, values_a), count_a = stored(memory, a, "Csr", bases[0], np.int32)
    (rows_b, columns_b, values_b), count_b = stored(memory, b, "Csr", bases[1], np.int32)
    rows_c = memory.put(np.zeros(shape[0] + 1, np.int32))
    total = np.zeros(1, np.int32)
    place = memory.put(total) if on_device else total
    first = (of_a, count_a, rows_a, columns_a, of_b, count_b, rows_b, columns_b)
    sparse("cusparseXcsrgeam2Nnz", handle, *shape, *first, of_c, rows_c, place, 0)
    total = memory.get(place, np.int32, (1,)) if on_device else total
    expected = 2 * a - 1j * b
    present = (a != 0) | (b != 0)
    assert total[0] == present.sum()
    columns_c, values_c = (memory.put(np.zeros(total[0], type)) for type in (np.int32, complex))
    alpha, beta = np.array([2 + 0j]), np.array([-1j])
    scales = [memory.put(x) if on_device else x for x in (alpha, beta)]
    operands = (
        *(scales[0], of_a, count_a, values_a, rows_a, columns_a),
        *(scales[1], of_b, count_b, values_b, rows_b, columns_b),
        *(of_c, values_c, rows_c, columns_c),
    )
    size = np.ones(1, np.uint64)
    sparse("cusparseZcsrgeam2_bufferSizeExt", handle, *shape, *operands, size)
    assert size[0] == 0
    sparse("cusparseZcsrgeam2", handle, *shape, *operands, 0)
    rows, columns = np.nonzero(present)
    offsets = memory.get(rows_c, np.int32, (shape[0] + 1,))
    np.testing.assert_array_equal(offsets, np.searchsorted(rows, np.arange(shape[0] + 1)) + bases[2])
    np.testing.assert_array_equal(memory.get(columns_c, np.int32, (total[0],)), columns + bases[2])
    np.testing.assert_allclose(memory.get(values_c, complex, (total[0],)), expected[rows, columns], atol=1e-14)


def test_sums_of_matrices_that_are_not_general_are_refused(memory: Device, sparse: Library) -> None:
    handle, description = sparse.word("cusparseCreate"), sparse.word("cusparseCreateMatDescr")
    sparse("cusparseSetMatType", description, 1)
    rows = memory.put(np.zeros(2, np.int32))
    operand = (description, 0, rows, rows)
    assert (
        sparse.raw("cusparseXcsrgeam2Nnz", handle, 1, 1, *operand, *operand, description, rows, 0, 0) == NOT_SUPPORTED
    )
