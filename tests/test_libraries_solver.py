"""cuSOLVER and the triangular solves of cuBLAS, called as C programs call them, against NumPy."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from tests.library_calls import Array, Device, Library

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files"),
]
NOT_INITIALIZED, NOT_SUPPORTED = 1, 9
LOWER, UPPER = 0, 1


@pytest.fixture(scope="module")
def solver(memory: Device) -> Library:
    return Library("libcusolver.so.12")


@pytest.fixture(scope="module")
def handle(solver: Library) -> int:
    return solver.word("cusolverDnCreate")


def random(seed: int, *shape: int) -> Array:
    made = np.random.default_rng(seed).standard_normal((2, *shape))
    return np.asfortranarray(made[0] + 1j * made[1])


def positive(n: int) -> Array:
    a = random(n, n, n)
    return np.asfortranarray(a @ a.conj().T + n * np.eye(n))


def space(memory: Device, count: int, kind: type = complex) -> int:
    return memory.put(np.zeros(count, kind))


def test_triangular_solves(memory: Device) -> None:
    blas = Library("libcublas.so.13")
    number = blas.word("cublasCreate_v2")
    m, n, alpha = 5, 4, np.array([0.5 - 1j])
    for side, fill, op, unit in itertools.product((0, 1), (LOWER, UPPER), (0, 1, 2), (0, 1)):
        size = n if side else m
        a, b = random(1, size, size) + 3 * np.eye(size), random(2, m, n)
        a = np.asfortranarray(a)
        places = memory.put(a), memory.put(b)
        blas("cublasZtrsm_v2", number, side, fill, op, unit, m, n, alpha, places[0], size, places[1], m)
        t = np.tril(a) if fill == LOWER else np.triu(a)
        if unit:
            np.fill_diagonal(t, 1)
        t = (t, t.T, t.conj().T)[op]
        expected = alpha[0] * (np.linalg.solve(t.T, b.T).T if side else np.linalg.solve(t, b))
        np.testing.assert_allclose(memory.get(places[1], complex, (m, n)), expected, atol=1e-12)
        memory.free()


@pytest.mark.parametrize("fill", [LOWER, UPPER])
def test_cholesky(memory: Device, solver: Library, handle: int, fill: int) -> None:
    a, b = positive(7), random(3, 7, 2)
    place, right, info = memory.put(a), memory.put(b), space(memory, 1, np.int32)
    solver("cusolverDnZpotrf", handle, fill, 7, place, 7, 0, 0, info)
    found = memory.get(place, complex, (7, 7))
    factor = np.tril(found) if fill == LOWER else np.triu(found).conj().T
    np.testing.assert_allclose(factor, np.linalg.cholesky(a), atol=1e-12)
    solver("cusolverDnZpotrs", handle, fill, 7, 2, place, 7, right, 7, info)
    np.testing.assert_allclose(memory.get(right, complex, (7, 2)), np.linalg.solve(a, b), atol=1e-12)


def test_cholesky_names_the_minor_that_is_not_positive(memory: Device, solver: Library, handle: int) -> None:
    a = np.asfortranarray(np.diag([4, 1, -2, 1]).astype(complex))
    info = space(memory, 1, np.int32)
    solver("cusolverDnZpotrf", handle, LOWER, 4, memory.put(a), 4, 0, 0, info)
    assert memory.get(info, np.int32, (1,))[0] == 3


@pytest.mark.parametrize("op", [0, 1, 2])
def test_lu(memory: Device, solver: Library, handle: int, op: int) -> None:
    a, b = random(1, 6, 6), random(2, 6, 3)
    place, right = memory.put(a), memory.put(b)
    pivots, info = space(memory, 6, np.int32), space(memory, 1, np.int32)
    solver("cusolverDnZgetrf", handle, 6, 6, place, 6, 0, pivots, info)
    found = memory.get(place, complex, (6, 6))
    product = (np.tril(found, -1) + np.eye(6)) @ np.triu(found)
    for k, pivot in reversed([*enumerate(memory.get(pivots, np.int32, (6,)) - 1)]):
        product[[k, pivot]] = product[[pivot, k]]
    np.testing.assert_allclose(product, a, atol=1e-12)
    assert np.abs(np.tril(found, -1)).max() <= 1 + 1e-12
    solver("cusolverDnZgetrs", handle, op, 6, 3, place, 6, pivots, right, 6, info)
    expected = np.linalg.solve((a, a.T, a.conj().T)[op], b)
    np.testing.assert_allclose(memory.get(right, complex, (6, 3)), expected, atol=1e-11)


@pytest.mark.parametrize("shape", [(7, 4), (5, 5), (3, 6)])
def test_qr(memory: Device, solver: Library, handle: int, shape: tuple[int, int]) -> None:
    m, n = shape
    least = min(m, n)
    a, c = random(1, m, n), random(2, m, 2)
    place, tau, info, work = memory.put(a), space(memory, least), space(memory, 1, np.int32), space(memory, m * m)
    solver("cusolverDnZgeqrf", handle, m, n, place, m, tau, 0, 0, info)
    r = np.triu(memory.get(place, complex, (m, n)))[:least]
    right = memory.put(c)
    solver("cusolverDnZunmqr", handle, 0, 2, m, 2, least, place, m, tau, right, m, 0, 0, info)
    solver("cusolverDnZungqr", handle, m, least, least, place, m, tau, work, m * m, info)
    q = memory.get(place, complex, (m, n))[:, :least]
    np.testing.assert_allclose(q @ r, a, atol=1e-12)
    np.testing.assert_allclose(q.conj().T @ q, np.eye(least), atol=1e-12)
    np.testing.assert_allclose(memory.get(right, complex, (m, 2))[:least], q.conj().T @ c, atol=1e-12)


def test_eigenvalues(memory: Device, solver: Library, handle: int) -> None:
    a = positive(6)
    place, values = memory.put(np.asfortranarray(np.tril(a))), space(memory, 6, float)
    work, info = space(memory, 72), space(memory, 1, np.int32)
    solver("cusolverDnZheevd", handle, 1, LOWER, 6, place, 6, values, work, 72, info)
    w, v = memory.get(values, float, (6,)), memory.get(place, complex, (6, 6))
    np.testing.assert_allclose(w, np.linalg.eigvalsh(a), atol=1e-11)
    np.testing.assert_allclose((v * w) @ v.conj().T, a, atol=1e-11)
    assert memory.get(info, np.int32, (1,))[0] == 0


@pytest.mark.parametrize("shape", [(6, 4), (2, 3)])
def test_singular_values(memory: Device, solver: Library, handle: int, shape: tuple[int, int]) -> None:
    m, n = shape
    k = min(shape)
    a = random(1, m, n)
    a[:, 1] = a[:, 0]  # a singular value of 0 where the matrix is high
    place, values, u, v = memory.put(a), space(memory, k, float), space(memory, m * m), space(memory, n * n)
    work, info = space(memory, 200), space(memory, 1, np.int32)
    solver("cusolverDnZgesvdj", handle, 1, 0, m, n, place, m, values, u, m, v, n, work, 200, info, 0)
    s, left, right = memory.get(values, float, (k,)), memory.get(u, complex, (m, m)), memory.get(v, complex, (n, n))
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), atol=1e-12)
    np.testing.assert_allclose(left[:, :k] * s @ right[:, :k].conj().T, a, atol=1e-12)
    np.testing.assert_allclose(left.conj().T @ left, np.eye(m), atol=1e-11)
    np.testing.assert_allclose(right.conj().T @ right, np.eye(n), atol=1e-11)


def test_what_is_wrong_or_absent(solver: Library, handle: int) -> None:
    assert solver.raw("cusolverDnSpotrf", 1234, 0, 1, 0, 1, 0, 0, 0) == NOT_INITIALIZED
    assert solver.raw("cusolverDnXlarft", *([0] * 18)) == NOT_SUPPORTED


@pytest.mark.parametrize("fill", [LOWER, UPPER])
@pytest.mark.parametrize("n", [1, 2, 3, 9, 20])
def test_symmetric_indefinite_matrices(memory: Device, solver: Library, handle: int, fill: int, n: int) -> None:
    a, b = random(n, n, n), random(4, n, 3)
    a = np.asfortranarray(a + a.T)
    if n > 1:
        # The first pivot has to be of two rows.
        np.fill_diagonal(a, 0)
    places, pivots, info = (
        (memory.put(a), memory.put(b)),
        memory.put(np.zeros(n, np.int32)),
        memory.put(np.ones(1, np.int32)),
    )
    solver("cusolverDnZsytrf", handle, fill, n, places[0], n, pivots, 0, 0, info)
    rows = memory.get(pivots, np.int32, (n,)).astype(np.int64)
    assert memory.get(info, np.int32, (1,))[0] == 0
    wide = memory.put(rows)
    c_64f = 5
    call = (handle, fill, n, 3, c_64f, places[0], n, wide, c_64f, places[1], n, 0, 0, 0, 0, info)
    solver("cusolverDnXsytrs", *call)
    np.testing.assert_allclose(memory.get(places[1], complex, (n, 3)), np.linalg.solve(a, b), rtol=1e-9, atol=1e-9)
    assert n == 1 or (rows < 0).any()


def test_a_singular_symmetric_matrix_is_reported(memory: Device, solver: Library, handle: int) -> None:
    a, info = memory.put(np.zeros((3, 3))), memory.put(np.zeros(1, np.int32))
    solver("cusolverDnDsytrf", handle, LOWER, 3, a, 3, memory.put(np.zeros(3, np.int32)), 0, 0, info)
    assert memory.get(info, np.int32, (1,))[0] == 1


def eigen_matrix(kind: str, n: int) -> Array:
    """Random, with equal eigenvalues, of rotations, or with one chain of generalised vectors."""
    a = random(n, n, n)
    if kind == "projection":
        q = np.linalg.qr(a)[0]
        a = q @ np.diag(np.arange(n) % 2) @ q.conj().T
    elif kind == "cycle":
        a = np.roll(np.eye(n), 1, axis=0).astype(complex)
    elif kind == "chain":
        a = 2 * np.eye(n, dtype=complex) + np.diag(np.ones(n - 1), 1)
    return np.asfortranarray(a)


R_64F, C_32F, C_64F, R_32F = 1, 4, 5, 0
EIGEN_TYPES = {"f": (np.float32, R_32F, C_32F), "d": (np.float64, R_64F, C_64F), "F": (np.complex64, C_32F, C_32F), "D": (np.complex128, C_64F, C_64F)}  # fmt: skip


def eigenvectors(vectors: Array, values: Array) -> Array:
    """Of a real matrix's packed pairs, complex columns."""
    found = vectors.astype(complex)
    for k in np.flatnonzero(values.imag > 0):
        found[:, k], found[:, k + 1] = vectors[:, k] + 1j * vectors[:, k + 1], vectors[:, k] - 1j * vectors[:, k + 1]
    return found


@pytest.mark.parametrize(
    ("letter", "kind"),
    [
        ("f", "random"),
        pytest.param("F", "random", marks=pytest.mark.slow),
        *itertools.product("dD", ("random", "projection", "cycle", "chain")),
    ],
)
def test_eigenvalues_of_general_matrices(memory: Device, solver: Library, handle: int, letter: str, kind: str) -> None:
    dtype, type, complex_type = EIGEN_TYPES[letter]
    for n in (1, 2, 3, 13) if kind == "random" else (12,):
        a = eigen_matrix(kind, n)
        a = np.asfortranarray((a if letter in "FD" else a.real).astype(dtype))
        place, values, vectors, info = (
            memory.put(a),
            *(space(memory, c) for c in (n, n * n)),
            space(memory, 1, np.int32),
        )
        types = (complex_type, values, type, 0, 1, type, vectors, n, type)
        sizes = np.zeros(2, np.uint64)
        head = (handle, 0, 0, 1, n, type, place, n, *types)
        solver("cusolverDnXgeev_bufferSize", *head, sizes[:1], sizes[1:])
        work = space(memory, int(sizes[0]), np.uint8)
        solver("cusolverDnXgeev", *head, work, int(sizes[0]), 0, 0, info)
        complex_dtype = np.dtype(np.complex64 if letter in "fF" else np.complex128)
        w = memory.get(values, complex_dtype, (n,))
        v = memory.get(vectors, dtype, (n, n))
        v = v if letter in "FD" else eigenvectors(v, w)
        tolerance = 100 * np.finfo(dtype).eps * max(1, np.linalg.norm(a))
        np.testing.assert_allclose(a @ v, v * w, atol=tolerance)
        np.testing.assert_allclose(np.linalg.norm(v, axis=0), 1, rtol=1e-5)
        assert memory.get(info, np.int32, (1,))[0] == 0
        if kind != "chain":  # of which a small change moves the eigenvalues far
            key = lambda x: (np.round(x.real, 3), np.round(x.imag, 3))  # noqa: E731
            expected = sorted(np.linalg.eigvals(a.astype(complex)), key=key)
            np.testing.assert_allclose(sorted(w.astype(complex), key=key), expected, atol=30 * tolerance)


def test_eigenvalues_alone_as_real_and_imaginary_parts(memory: Device, solver: Library, handle: int) -> None:
    n = 8
    a = np.asfortranarray(random(3, n, n).real)
    place, values, info = memory.put(a), space(memory, 2 * n, float), space(memory, 1, np.int32)
    head = (handle, 0, 0, 0, n, R_64F, place, n, R_64F, values, R_64F, 0, 1, R_64F, 0, 1, R_64F)
    work = space(memory, 3 * n * n, float)
    solver("cusolverDnXgeev", *head, work, 24 * n * n, 0, 0, info)
    parts = memory.get(values, float, (2, n), "C")
    found = sorted(parts[0] + 1j * parts[1], key=lambda x: (round(x.real, 6), x.imag))
    expected = sorted(np.linalg.eigvals(a), key=lambda x: (round(x.real, 6), x.imag))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    left = (*head[:2], 1, *head[3:])
    assert solver.raw("cusolverDnXgeev", *left, work, 24 * n * n, 0, 0, info) == NOT_SUPPORTED
