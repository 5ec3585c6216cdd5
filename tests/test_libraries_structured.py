"""cuBLAS on symmetric, Hermitian and triangular matrices, its updates of low rank and its batched least squares, called as C programs call them, against NumPy."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from tests.library_calls import Array, Device, Library, scalar, values

pytestmark = [pytest.mark.ci, pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")]
TYPES = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}
INVALID_VALUE, NOT_SUPPORTED = 7, 15
LOWER, UPPER = 0, 1
FILLS = (LOWER, UPPER)


@pytest.fixture(scope="module")
def handle(blas: Library) -> int:
    return blas.word("cublasCreate_v2")


def is_close(found: Array, expected: Array) -> bool:
    single = found.dtype in (np.float32, np.complex64)
    return bool(
        np.abs(found - expected).max(initial=0) < (2e-5 if single else 1e-12) * max(1.0, np.abs(expected).max())
    )


def whole(a: Array, fill: int, hermitian: bool) -> Array:
    """The matrix of which a triangle is stored."""
    part = np.tril(a, -1) if fill == LOWER else np.triu(a, 1)
    diagonal = np.diag(np.diag(a).real if hermitian else np.diag(a))
    return part + diagonal + (part.conj().T if hermitian else part.T)


def triangle(a: Array, fill: int, op: int, unit: int) -> Array:
    t = np.tril(a) if fill == LOWER else np.triu(a)
    if unit:
        np.fill_diagonal(t, 1)
    return (t, t.T, t.conj().T)[op]


def merged(c: Array, new: Array, fill: int) -> Array:
    """C with the new values of one triangle."""
    rows, columns = np.indices(c.shape)
    return np.where(rows >= columns if fill == LOWER else rows <= columns, new, c)


FORMS = [("S", "sy"), ("D", "sy"), ("C", "sy"), ("C", "he"), ("Z", "he"), ("Z", "sy")]


@pytest.mark.parametrize(("letter", "start"), FORMS)
def test_products_with_a_symmetric_matrix(memory: Device, blas: Library, handle: int, letter: str, start: str) -> None:
    type, m, n = TYPES[letter], 19, 34
    alpha, beta = scalar(0.5 - 0.25j, type), scalar(-0.75 + 0.5j, type)
    for fill, side in itertools.product(FILLS, (0, 1)):
        order = n if side else m
        a, b, c = (values(i, shape, type) for i, shape in enumerate([(order + 2, order), (m, n), (m + 1, n)]))
        places = [memory.put(x) for x in (a, b, c)]
        blas(
            f"cublas{letter}{start}mm_v2",
            handle,
            side,
            fill,
            m,
            n,
            alpha,
            places[0],
            order + 2,
            places[1],
            m,
            beta,
            places[2],
            m + 1,
        )
        s = whole(a[:order], fill, start == "he")
        expected = c.copy()
        expected[:m] = alpha * (b @ s if side else s @ b) + beta * c[:m]
        assert is_close(memory.get(places[2], type, c.shape), expected)
    for fill, x_step, y_step in ((LOWER, 2, -1), (UPPER, -3, 1)):
        a, x, y = values(1, (m, m), type), values(2, (m * abs(x_step),), type), values(3, (m * abs(y_step),), type)
        places = [memory.put(v) for v in (a, x, y)]
        blas(
            f"cublas{letter}{start}mv_v2",
            handle,
            fill,
            m,
            alpha,
            places[0],
            m,
            places[1],
            x_step,
            beta,
            places[2],
            y_step,
        )
        given, old = x[:: abs(x_step)][:: np.sign(x_step)], y[:: abs(y_step)][:: np.sign(y_step)]
        expected = (alpha * (whole(a, fill, start == "he") @ given) + beta * old)[:: np.sign(y_step)]
        assert is_close(memory.get(places[2], type, y.shape)[:: abs(y_step)], expected)


@pytest.mark.parametrize(("letter", "start"), FORMS)
def test_updates_of_rank_k(memory: Device, blas: Library, handle: int, letter: str, start: str) -> None:
    type, hermitian, n, k = TYPES[letter], start == "he", 21, 18
    real = np.zeros(1, type).real.dtype
    alpha = scalar(0.5 - 0.25j, type)
    for fill, op in itertools.product(FILLS, (0, 2 if hermitian else 1)):
        shape = (k, n) if op else (n, k)
        a, b, c = values(1, shape, type), values(2, shape, type), values(3, (n, n), type)
        left, right = ((a.conj() if hermitian else a).T, (b.conj() if hermitian else b).T) if op else (a, b)
        across = [x.conj().T if hermitian else x.T for x in (left, right)]
        old = c - 1j * np.diag(np.diag(c).imag) if hermitian else c
        beta = np.array([0.75], real) if hermitian else scalar(0.75j + 1, type)
        single = np.array([-1.5], real) if hermitian else alpha
        both = alpha * (left @ across[1]) + (alpha.conj() if hermitian else alpha) * (right @ across[0])
        for name, scale, new in (("rk", single, single * (left @ across[0])), ("r2k", alpha, both)):
            places = [memory.put(x) for x in (a, b, c)]
            operands = (places[0], shape[0]) if name == "rk" else (places[0], shape[0], places[1], shape[0])
            blas(f"cublas{letter}{start}{name}_v2", handle, fill, op, n, k, scale, *operands, beta, places[2], n)
            expected = merged(c, new + beta * old, fill)
            assert is_close(memory.get(places[2], type, c.shape), expected), name
        places = [memory.put(x) for x in (a, b, c)]
        blas(
            f"cublas{letter}{start}rkx",
            handle,
            fill,
            op,
            n,
            k,
            alpha,
            places[0],
            shape[0],
            places[1],
            shape[0],
            beta,
            places[2],
            n,
        )
        new = alpha * (left @ across[1]) + beta * old
        if hermitian:
            new = new - 1j * np.diag(np.diag(new).imag)
        assert is_close(memory.get(places[2], type, c.shape), merged(c, new, fill))


@pytest.mark.parametrize(("letter", "start"), FORMS)
def test_updates_of_rank_1_and_2(memory: Device, blas: Library, handle: int, letter: str, start: str) -> None:
    type, hermitian, n = TYPES[letter], start == "he", 18
    alpha, x, y = scalar(0.5 - 0.25j, type), values(1, (n,), type), values(2, (n,), type)
    single = np.array([-1.5], np.zeros(1, type).real.dtype) if hermitian else alpha
    for fill in FILLS:
        a = values(3, (n, n), type)
        old = a - 1j * np.diag(np.diag(a).imag) if hermitian else a
        conj = np.conj if hermitian else np.asarray
        at = memory.put(a)
        blas(f"cublas{letter}{start}r_v2", handle, fill, n, single, memory.put(x), 1, at, n)
        expected = merged(a, single * np.outer(x, conj(x)) + old, fill)
        assert is_close(memory.get(at, type, a.shape), expected)
        at = memory.put(a)
        blas(f"cublas{letter}{start}r2_v2", handle, fill, n, alpha, memory.put(x), 1, memory.put(y), -1, at, n)
        z = y[::-1]
        new = alpha * np.outer(x, conj(z)) + conj(alpha) * np.outer(z, conj(x))
        assert is_close(memory.get(at, type, a.shape), merged(a, new + old, fill))
    for suffix in ("u", "c") if letter in "CZ" else ("",):
        a = values(4, (n, 7), type)
        at = memory.put(a)
        blas(f"cublas{letter}ger{suffix}_v2", handle, n, 7, alpha, memory.put(x), 1, memory.put(y), 2, at, n)
        w = y[:14:2]
        assert is_close(memory.get(at, type, a.shape), a + alpha * np.outer(x, w.conj() if suffix == "c" else w))


@pytest.mark.parametrize("letter", "SDCZ")
def test_triangular_products_and_solutions(memory: Device, blas: Library, handle: int, letter: str) -> None:
    type, m, n = TYPES[letter], 9, 6
    alpha = scalar(0.5 - 0.25j, type)
    for side, fill, op, unit in itertools.product((0, 1), FILLS, (0, 1, 2), (0, 1)):
        order = n if side else m
        a = values(1, (order, order), type) + 3 * np.eye(order, dtype=type)
        a, b = np.asfortranarray(a), values(2, (m, n), type)
        t, of_a, of_b, of_c = triangle(a, fill, op, unit), memory.put(a), memory.put(b), memory.put(np.zeros_like(b))
        expected = alpha * (b @ t if side else t @ b)
        for to in (of_c, of_b):
            blas(f"cublas{letter}trmm_v2", handle, side, fill, op, unit, m, n, alpha, of_a, order, of_b, m, to, m)
            assert is_close(memory.get(to, type, b.shape), expected)
        x = values(3, (2 * order,), type)
        for name, right in (("trmv", t @ x[::2][::-1]), ("trsv", np.linalg.solve(t, x[::2][::-1]))):
            at = memory.put(x)
            blas(f"cublas{letter}{name}_v2", handle, fill, op, unit, order, of_a, order, at, -2)
            assert is_close(memory.get(at, type, x.shape)[::2][::-1], right)


def test_a_complex_vector_times_a_real_number(memory: Device, blas: Library, handle: int) -> None:
    for letters, type, real in (("Cs", np.complex64, np.float32), ("Zd", np.complex128, np.float64)):
        x, alpha = values(1, (9,), type), np.array([-1.5], real)
        at, on_device = memory.put(x), memory.put(alpha)
        blas(f"cublas{letters}scal_v2", handle, 9, alpha, at, 1)
        blas("cublasSetPointerMode_v2", handle, 1)
        blas(f"cublas{letters}scal_v2", handle, 5, on_device, at, 2)
        blas("cublasSetPointerMode_v2", handle, 0)
        expected = -1.5 * x
        expected[::2] *= -1.5
        np.testing.assert_array_equal(memory.get(at, type, x.shape), expected)


@pytest.mark.parametrize("letter", "SDCZ")
@pytest.mark.parametrize("shape", [(7, 4, 3), (5, 5, 1), (300, 3, 2)])
def test_batched_least_squares(
    memory: Device, blas: Library, handle: int, letter: str, shape: tuple[int, int, int]
) -> None:
    type, (m, n, columns), count = TYPES[letter], shape, 3
    a = [values(i, (m + 1, n), type) for i in range(count)]
    c = [values(10 + i, (m + 2, columns), type) for i in range(count)]
    places = [[memory.put(x) for x in some] for some in (a, c)]
    tables = [memory.put(np.array(some, np.uint64)) for some in places]
    info, of_device = np.array([7], np.int32), memory.put(np.full(count, 7, np.int32))
    blas(
        f"cublas{letter}gelsBatched",
        handle,
        0,
        m,
        n,
        columns,
        tables[0],
        m + 1,
        tables[1],
        m + 2,
        info,
        of_device,
        count,
    )
    assert info[0] == 0
    assert not memory.get(of_device, np.int32, (count,)).any()
    for i in range(count):
        found = memory.get(places[1][i], type, c[i].shape)
        expected, *_ = np.linalg.lstsq(a[i][:m], c[i][:m], rcond=None)
        assert np.abs(found[:n] - expected).max() < (1e-4 if letter in "SC" else 1e-11)
        factor, q = np.triu(memory.get(places[0][i], type, a[i].shape)[:n]), np.linalg.qr(a[i][:m])
        np.testing.assert_allclose(np.abs(factor), np.abs(q[1]), atol=1e-4 if letter in "SC" else 1e-11)
        # The residual's size is that of the transformed rows below the solution.
        rest = np.linalg.norm(c[i][:m] - a[i][:m] @ expected, axis=0)
        np.testing.assert_allclose(np.linalg.norm(found[n:m], axis=0), rest, atol=1e-3 if letter in "SC" else 1e-10)
        np.testing.assert_array_equal(found[m:], c[i][m:])


def test_least_squares_of_a_matrix_without_full_rank_name_the_first_zero(
    memory: Device, blas: Library, handle: int
) -> None:
    a = np.asfortranarray(np.diag([2.0, 0.0, 3.0]))
    tables = [memory.put(np.array([memory.put(x)], np.uint64)) for x in (a, np.ones((3, 1)))]
    info, of_device = np.array([7], np.int32), memory.put(np.array([7], np.int32))
    blas("cublasDgelsBatched", handle, 0, 3, 3, 1, tables[0], 3, tables[1], 3, info, of_device, 1)
    assert (info[0], memory.get(of_device, np.int32, (1,))[0]) == (0, 2)


def test_what_is_refused(memory: Device, blas: Library, handle: int) -> None:
    info, tables = np.array([7], np.int32), memory.put(np.zeros(2, np.uint64))

    def gels(op: int, m: int, n: int, lda: int) -> int:
        return blas.raw("cublasSgelsBatched", handle, op, m, n, 1, tables, lda, tables, 9, info, 0, 0)

    assert (gels(0, 4, 3, 3), info[0]) == (INVALID_VALUE, -6)
    assert (gels(0, -1, 3, 3), info[0]) == (INVALID_VALUE, -2)
    assert gels(0, 3, 4, 4) == NOT_SUPPORTED
    assert gels(1, 4, 3, 4) == NOT_SUPPORTED
    one, at = np.ones(1), memory.put(np.zeros(16))
    assert blas.raw("cublasDsyrk_v2", handle, 0, 0, 4, 4, one, at, 3, one, at, 4) == INVALID_VALUE
    assert blas.raw("cublasDsymv_v2", handle, 0, 4, one, at, 4, at, 0, one, at, 1) == INVALID_VALUE
    assert blas.raw("cublasDtrmm_v2", handle, 2, 0, 0, 0, 4, 4, one, at, 4, at, 4, at, 4) == INVALID_VALUE
