"""Reductions of a lecture's steps, products of vectors and of matrices with vectors; small systems, paths, sweeps over grids."""

from __future__ import annotations

import numpy as np

from bench.holdout.second.case import Case, Outputs, Rng, Sized, launch, normal, sized

I32, F16, F32, F64 = np.int32, np.float16, np.float32, np.float64


def sum_blocks(kernel: str, words: int, threads: int) -> object:
    """A kernel whose blocks of ``threads`` sum ``words`` each."""

    def make(rng: Rng, blocks: int) -> Case:
        src = rng.integers(-1000, 1000, blocks * words, dtype=I32)
        args = (np.zeros(blocks, I32), src)
        return launch("reductions", kernel, blocks, threads, args, {0: src.reshape(blocks, -1).sum(axis=1, dtype=I32)})

    return make


def sum_unrolled(rng: Rng, n: int, blocks: int) -> Case:
    src = rng.integers(-1000, 1000, n, dtype=I32)
    whole = np.zeros(-(-n // (blocks * 1024)) * blocks * 1024, I32)
    whole[:n] = src
    want = whole.reshape(-1, blocks, 1024).sum(axis=(0, 2), dtype=I32)
    return launch("reductions", "sum_unrolled", blocks, 512, (np.zeros(blocks, I32), src, I32(n)), {0: want})


def square_norm(rng: Rng, n: int, blocks: int) -> Case:
    x = rng.standard_normal(n)
    args = (np.zeros(1), x, I32(n))
    return launch("reductions", "square_norm", blocks, 320, args, {0: np.array([x @ x])}, rtol=1e-12)


def absolute_sum(rng: Rng, quads: int, blocks: int) -> Case:
    x = normal(rng, (quads, 4))
    whole = np.zeros((-(-quads // (blocks * 192)) * blocks * 192, 4), F64)
    whole[:quads] = np.abs(x)
    want = whole.reshape(-1, blocks, 768).sum(axis=(0, 2)).astype(F32)
    args = (np.zeros(blocks, F32), x.ravel(), I32(quads))
    return launch("reductions", "absolute_sum", blocks, 192, args, {0: want}, rtol=1e-5)


def dot_pairs(rng: Rng, pairs: int, blocks: int) -> Case:
    x, y = rng.random(2 * pairs, F32).astype(F16), rng.random(2 * pairs, F32).astype(F16)
    want = np.array([x.astype(F64) @ y.astype(F64)], F32)
    args = (np.zeros(1, F32), x, y, I32(pairs))
    return launch("reductions", "dot_pairs", blocks, 128, args, {0: want}, rtol=1e-4)


def rows_times_halves(rng: Rng, rows: int, columns: int) -> Case:
    a, x = normal(rng, (rows, columns), F16), normal(rng, columns, F16)
    want = (a.astype(F32) @ x.astype(F32)).astype(F16)
    args = (np.zeros(rows, F16), a.ravel(), x, I32(rows), I32(columns // 8))
    return launch("reductions", "rows_times_halves", -(-rows // 5), 160, args, {0: want}, rtol=2e-3, atol=2e-2)


def transposed_times(rng: Rng, rows: int, columns: int, each: int) -> Case:
    a, x = rng.standard_normal((rows, columns)), rng.standard_normal(rows)
    args = (np.zeros(columns), a.ravel(), x, I32(rows), I32(columns), I32(each))
    grid = (-(-columns // 96), -(-rows // each))
    return launch("reductions", "transposed_times", grid, 96, args, {0: x @ a}, rtol=1e-10, atol=1e-10)


def invert_3x3(rng: Rng, n: int) -> Case:
    m = rng.standard_normal((n, 3, 3)) + 4 * np.eye(3)
    want = np.linalg.inv(m).reshape(n, 9).T
    args = (np.zeros(9 * n), m.reshape(n, 9).T.ravel(), I32(n))
    return launch("solvers", "invert_3x3", -(-n // 192), 192, args, {0: want.ravel()}, rtol=1e-8, atol=1e-9)


def givens_local(rng: Rng, systems: int, order: int) -> Case:
    a = normal(rng, (systems, order, order)) + 3 * np.eye(order, dtype=F32)
    r = np.linalg.qr(a.astype(F64), mode="r")

    def check(outputs: Outputs) -> None:
        """Rows of R agree but for their signs."""
        got = np.asarray(outputs[0]).reshape(order, order, systems).transpose(2, 0, 1)
        np.testing.assert_allclose(np.abs(np.triu(got)), np.abs(r), rtol=2e-2, atol=2e-3)

    args = (np.zeros(a.size, F32), a.reshape(systems, -1).T.ravel(), I32(systems), I32(order))
    return launch("solvers", "givens_local", -(-systems // 64), 64, args, check=check)


def gauss_jordan(rng: Rng, systems: int) -> Case:
    a, b = rng.standard_normal((systems, 32, 32)), rng.standard_normal((systems, 32))
    want = np.linalg.solve(a, b[..., None])[..., 0]
    args = (np.zeros(b.size), a.ravel(), b.ravel())
    return launch("solvers", "gauss_jordan", systems, (32, 32), args, {0: want.ravel()}, rtol=1e-6, atol=1e-8)


def paths_through_block(rng: Rng, n: int, k0: int) -> Case:
    d = rng.integers(1, 10000, (n, n), dtype=I32)
    want, keep = d.copy(), np.ones(n, bool)
    keep[k0 : k0 + 32] = False
    for k in range(k0, k0 + 32):
        want[np.ix_(keep, keep)] = np.minimum(want[np.ix_(keep, keep)], d[keep, k][:, None] + d[k, keep])
    args = (d.ravel(), I32(n), I32(k0))
    return launch("solvers", "paths_through_block", (n // 32, n // 32), (32, 8), args, {0: want.ravel()})


def sweep_red(rng: Rng, nx: int, ny: int) -> Case:
    u, f = normal(rng, (ny, nx)), normal(rng, (ny, nx))
    y, x = np.mgrid[1 : ny - 1, 1 : nx - 1]
    red = (x - 1 - (y & 1)) % 2 == 0
    red &= x >= 1 + (y & 1)
    around = u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1] - f[1:-1, 1:-1]
    want = u.copy()
    want[1:-1, 1:-1] += np.where(red, F32(1.5) * (F32(0.25) * around - u[1:-1, 1:-1]), 0).astype(F32)
    grid = (-(-nx // 64), -(-(ny - 2) // 6))
    args = (u.ravel(), f.ravel(), I32(nx), I32(ny), F32(1.5))
    return launch("solvers", "sweep_red", grid, (32, 6), args, {0: want.ravel()}, rtol=1e-4, atol=1e-5)


def restrict_27(rng: Rng, n: int) -> Case:
    fine = rng.standard_normal((2 * n + 1,) * 3)
    want = fine
    for axis in range(3):
        parts = [np.take(want, range(first, first + 2 * n - 1, 2), axis) for first in (0, 1, 2)]
        want = (parts[0] + 2 * parts[1] + parts[2]) / 4
    args = (np.zeros(n**3), fine.ravel(), I32(n))
    grid = (-(-n // 32), -(-n // 4), -(-n // 3))
    return launch("solvers", "restrict_27", grid, (32, 4, 3), args, {0: want.ravel()}, rtol=1e-10, atol=1e-12)


def prolong_add(rng: Rng, nx: int, ny: int) -> Case:
    fine, coarse = normal(rng, (ny, nx)), normal(rng, (ny // 2 + 1, nx // 2 + 1))
    more = np.zeros((ny, nx), F32)
    more[::2, ::2] = coarse[:-1, :-1]
    more[::2, 1::2] = (coarse[:-1, :-1] + coarse[:-1, 1:]) / 2
    more[1::2, ::2] = (coarse[:-1, :-1] + coarse[1:, :-1]) / 2
    more[1::2, 1::2] = (coarse[:-1, :-1] + coarse[:-1, 1:] + coarse[1:, :-1] + coarse[1:, 1:]) / 4
    args = (fine.ravel(), coarse.ravel(), I32(nx), I32(ny))
    grid = (-(-nx // 64), -(-ny // 5))
    return launch("solvers", "prolong_add", grid, (64, 5), args, {0: (fine + more).ravel()}, rtol=1e-5, atol=1e-5)


def yee_electric(rng: Rng, nx: int, ny: int, nz: int) -> Case:
    shape = (nz, ny, nx)
    (ex, ey, ez), (hx, hy, hz) = ([normal(rng, shape) for _ in range(3)] for _ in range(2))
    c, i = F32(0.4), (slice(1, None),) * 3

    def step(h: np.ndarray, axis: int) -> np.ndarray:
        return np.diff(h, axis=axis)[tuple(slice(None) if a == axis else slice(1, None) for a in range(3))]

    wants = [e.copy() for e in (ex, ey, ez)]
    wants[0][i] += c * (step(hz, 1) - step(hy, 0))
    wants[1][i] += c * (step(hx, 0) - step(hz, 2))
    wants[2][i] += c * (step(hy, 2) - step(hx, 1))
    args = (*(v.ravel() for v in (ex, ey, ez, hx, hy, hz)), I32(nx), I32(ny), I32(nz), c)
    grid = (-(-nx // 32), -(-ny // 4), -(-nz // 2))
    expected = {k: w.ravel() for k, w in enumerate(wants)}
    return launch("solvers", "yee_electric", grid, (32, 4, 2), args, expected, rtol=1e-4, atol=1e-5)


CASES: dict[str, Sized] = {
    "sum_interleaved": sized(sum_blocks("sum_interleaved", 256, 256), {"blocks": 3}, blocks=4096),
    "sum_strided": sized(sum_blocks("sum_strided", 256, 256), {"blocks": 3}, blocks=4096),
    "sum_first_add": sized(sum_blocks("sum_first_add", 1024, 512), {"blocks": 3}, blocks=3000),
    "sum_unrolled": sized(sum_unrolled, {"n": 5000, "blocks": 2}, n=6_000_000, blocks=264),
    "square_norm": sized(square_norm, {"n": 5000, "blocks": 3}, n=3_000_000, blocks=396),
    "absolute_sum": sized(absolute_sum, {"quads": 1500, "blocks": 3}, quads=1_500_000, blocks=512),
    "dot_pairs": sized(dot_pairs, {"pairs": 1500, "blocks": 3}, pairs=2_000_000, blocks=1000),
    "rows_times_halves": sized(rows_times_halves, {"rows": 12, "columns": 512}, rows=3000, columns=2048),
    "transposed_times": sized(transposed_times, {"rows": 40, "columns": 100, "each": 16}, rows=1600, columns=1920, each=50),
    "invert_3x3": sized(invert_3x3, {"n": 300}, n=150_000),
    "givens_local": sized(givens_local, {"systems": 70, "order": 5}, systems=20_000, order=8),
    "gauss_jordan": sized(gauss_jordan, {"systems": 1}, systems=200),
    "paths_through_block": sized(paths_through_block, {"n": 96, "k0": 32}, n=1024, k0=512),
    "sweep_red": sized(sweep_red, {"nx": 70, "ny": 15}, nx=2048, ny=1500),
    "restrict_27": sized(restrict_27, {"n": 6}, n=80),
    "prolong_add": sized(prolong_add, {"nx": 70, "ny": 12}, nx=2048, ny=1280),
    "yee_electric": sized(yee_electric, {"nx": 35, "ny": 6, "nz": 5}, nx=160, ny=128, nz=96),
}  # fmt: skip
