"""Physics, chances and geometry."""

from __future__ import annotations

import numpy as np
from scipy import spatial

from bench.holdout.second.case import Case, Outputs, Rng, Sized, launch, normal, sized

I32, I64, F32, F64, U32, U64, U8, C64 = (
    np.int32,
    np.int64,
    np.float32,
    np.float64,
    np.uint32,
    np.uint64,
    np.uint8,
    np.complex64,
)


def heston_paths(_: Rng, paths: int, steps: int) -> Case:
    rate, kappa, theta, sigma, rho, strike = (F32(v) for v in (0.03, 1.5, 0.04, 0.3, -0.7, 95.0))
    state = np.arange(paths, dtype=I64).astype(U64) * U64(2654435769) + U64(12345)
    s, v, dt = np.zeros(paths), np.full(paths, float(theta)), 1.0 / steps
    for _step in range(steps):
        draws = []
        for _draw in range(2):
            state = state * U64(6364136223846793005) + U64(1442695040888963407)
            draws.append(((state >> U64(40)).astype(F64) + 0.5) / 16777216)
        r, angle = np.sqrt(-2 * np.log(draws[0])), 2 * np.pi * draws[1]
        z1 = r * np.cos(angle)
        z2 = rho * z1 + np.sqrt(1 - float(rho) ** 2) * r * np.sin(angle)
        now = np.maximum(v, 0)
        s += (rate - 0.5 * now) * dt + np.sqrt(now * dt) * z1
        v += kappa * (theta - now) * dt + sigma * np.sqrt(now * dt) * z2
    args = (np.zeros(paths, F32), I32(paths), I32(steps), rate, kappa, theta, sigma, rho, strike)
    want = np.maximum(100 * np.exp(s) - strike, 0).astype(F32)
    return launch("nature", "heston_paths", -(-paths // 256), 256, args, {0: want}, rtol=2e-3, atol=2e-2)


def links_times(rng: Rng, sites: int) -> Case:
    links = (normal(rng, (4, 3, 3, sites)) + 1j * normal(rng, (4, 3, 3, sites))).astype(C64)
    src = (normal(rng, (3, sites)) + 1j * normal(rng, (3, sites))).astype(C64)
    side = round(sites ** (1 / 4))
    at = np.arange(sites)
    turns = [side**d for d in range(4) for _ in range(2)]
    neighbours = np.stack([(at + (t if k % 2 == 0 else -t)) % sites for k, t in enumerate(turns)]).astype(I32)
    want = np.zeros((3, sites), np.complex128)
    for mu in range(8):
        to = neighbours[mu]
        u = links[mu // 2][..., to if mu & 1 else at]
        want += np.einsum("rcs,cs->rs", u, src[:, to])
    args = (np.zeros(src.size * 2, F32), links.ravel().view(F32), src.ravel().view(F32), neighbours.ravel(), I32(sites))
    expected = {0: want.astype(C64).ravel().view(F32)}
    return launch("nature", "links_times", -(-sites // 128), 128, args, expected, rtol=1e-3, atol=1e-3)


def cell_forces(rng: Rng, side: int, each: int) -> Case:
    n = side**3 * each
    at = rng.random((n, 3), F32) * F32(side) * F32(0.9999)
    cell = (at[:, 2].astype(int) * side + at[:, 1].astype(int)) * side + at[:, 0].astype(int)
    order = np.argsort(cell, kind="stable")
    at, first = at[order], np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=side**3))]).astype(I32)
    cutoff, want = F32(0.25), np.zeros((n, 4))
    i, j = spatial.cKDTree(at).query_pairs(0.5, output_type="ndarray").T
    d = at[i].astype(F64) - at[j]
    inverse = 1 / (d**2).sum(axis=1)
    six = inverse**3 * 1e-3
    force, energy = (24 * inverse * six * (2 * six - 1))[:, None] * d, 4 * six * (six - 1)
    for who, sign in ((i, 1), (j, -1)):
        np.add.at(want, who, np.column_stack([sign * force, energy]))
    scale = np.abs(want).max(axis=1, keepdims=True) + 1

    def check(outputs: Outputs) -> None:
        """Forces within single precision of the largest of a particle; one at the cutoff may fall on either side."""
        bad = np.abs(np.asarray(outputs[0]).reshape(n, 4) - want) > 2e-3 * scale
        if bad.any(axis=1).mean() > 0.002:
            raise AssertionError(f"cell_forces: {bad.any(axis=1).sum()} of {n} particles differ")

    args = (np.zeros(4 * n, F32), np.column_stack([at, np.zeros(n, F32)]).ravel(), first, I32(side), I32(n), cutoff)
    return launch("nature", "cell_forces", -(-n // 96), 96, args, check=check)


def soft_bodies(rng: Rng, n: int) -> Case:
    bodies = np.column_stack([normal(rng, (n, 3)), rng.random(n, F32)])
    want = np.zeros((n, 4))
    for i, body in enumerate(bodies[:, :3].astype(F64)):
        d = bodies[:, :3] - body
        want[i, :3] = (bodies[:, 3] / ((d * d).sum(axis=1) + 0.05) ** 1.5) @ d
    args = (np.zeros(4 * n, F32), bodies.ravel(), I32(n), F32(0.05))
    expected = {0: want.astype(F32).ravel()}
    return launch("nature", "soft_bodies", n // 64, (64, 4), args, expected, rtol=2e-3, atol=2e-2)


def meet_triangles(rng: Rng, count: int, n: int) -> Case:
    corners = rng.standard_normal((count, 3)) * 4 + np.array([0, 0, 20])
    edges = rng.standard_normal((count, 2, 3)) * 1.5
    triangles = np.concatenate([corners[:, None], edges], axis=1).astype(F32)
    origin = normal(rng, (n, 3)) * F32(0.1)
    direction = np.column_stack([rng.standard_normal((n, 2)) * 0.25, np.ones(n)]).astype(F32)
    nearest, who = np.full(n, 1e30), np.full(n, -1)
    o, d = origin.astype(F64), direction.astype(F64)
    for k in range(count):
        v, e1, e2 = triangles[k].astype(F64)
        p = np.cross(d, e2)
        det = p @ e1
        t = o - v
        u, q = (t * p).sum(axis=1) / det, np.cross(t, e1)
        w, along = (d * q).sum(axis=1) / det, (q @ e2) / det
        hit = (u >= 0) & (w >= 0) & (u + w <= 1) & (along > 1e-4) & (along < nearest)
        nearest, who = np.where(hit, along, nearest), np.where(hit, k, who)

    def check(outputs: Outputs) -> None:
        """Rays through an edge may meet its neighbour: rounding decides."""
        same = np.asarray(outputs[0]) == who
        if same.mean() < 0.995:
            raise AssertionError(f"meet_triangles: {(~same).sum()} of {n} rays meet others")
        np.testing.assert_allclose(np.asarray(outputs[1])[same & (who >= 0)], nearest[same & (who >= 0)], rtol=1e-3)

    rays = np.concatenate([origin.T, direction.T]).astype(F32)
    args = (np.zeros(n, I32), np.zeros(n, F32), triangles.ravel(), rays.ravel(), I32(count), I32(n))
    return launch("nature", "meet_triangles", n // 128, 128, args, check=check)


def march_squares(rng: Rng, nx: int, ny: int) -> Case:
    y, x = np.mgrid[:ny, :nx]
    field = (np.sin(x / 6) * np.cos(y / 5) + 0.05 * rng.standard_normal((ny, nx))).astype(F32)
    level = F32(0.2)
    above = field > level
    kind = above[:-1, :-1] | above[:-1, 1:] << 1 | above[1:, :-1] << 2 | above[1:, 1:] << 3
    a, b, c = field[:-1, :-1], field[:-1, 1:], field[1:, :-1]
    right, down = (a > level) != (b > level), (a > level) != (c > level)
    px, py = x[:-1, :-1], y[:-1, :-1]
    points = np.concatenate([
        np.column_stack([px[right] + (level - a[right]) / (b[right] - a[right]), py[right]]),
        np.column_stack([px[down], py[down] + (level - a[down]) / (c[down] - a[down])]),
    ]).astype(F32)  # fmt: skip
    total = len(points)

    def check(outputs: Outputs) -> None:
        """The same points in any order."""
        if np.asarray(outputs[1])[0] != total:
            raise AssertionError(f"march_squares: {np.asarray(outputs[1])[0]} points for {total}")
        got = np.asarray(outputs[0]).reshape(-1, 2)[:total]
        got, want = (np.sort(np.round(p.astype(F64) * 64) @ np.array([1 << 20, 1])) for p in (got, points))
        if (got != want).mean() > 0.01:
            raise AssertionError(f"march_squares: {(got != want).sum()} of {total} points differ")

    args = (
        np.zeros(4 * nx * ny, F32),
        np.zeros(1, U32),
        np.zeros(kind.size, U8),
        field.ravel(),
        I32(nx),
        I32(ny),
        level,
    )
    return launch(
        "nature", "march_squares", (-(-nx // 32), -(-ny // 8)), (32, 8), args, {2: kind.astype(U8).ravel()}, check=check
    )


def fft_16(rng: Rng, n: int) -> Case:
    data = (normal(rng, (16, n)) + 1j * normal(rng, (16, n))).astype(C64)
    want = np.fft.fft(data, axis=0).astype(C64)
    args = (data.ravel().view(F32), I32(n))
    return launch("nature", "fft_16", -(-n // 224), 224, args, {0: want.ravel().view(F32)}, rtol=1e-3, atol=1e-3)


def lorenz_steps(rng: Rng, n: int, steps: int) -> Case:
    p = rng.standard_normal((3, n)) * 5 + np.array([[0], [0], [25]])
    h, want = 0.002, p.copy()

    def slope(q: np.ndarray) -> np.ndarray:
        return np.stack([10 * (q[1] - q[0]), q[0] * (28 - q[2]) - q[1], q[0] * q[1] - 8 / 3 * q[2]])

    for _ in range(steps):
        a = slope(want)
        b = slope(want + h / 2 * a)
        c = slope(want + h / 2 * b)
        d = slope(want + h * c)
        want = want + h / 6 * (a + 2 * b + 2 * c + d)
    args = (p.ravel(), I32(n), I32(steps), F64(h))
    return launch("nature", "lorenz_steps", -(-n // 128), 128, args, {0: want.ravel()}, rtol=1e-8, atol=1e-8)


def react_diffuse(rng: Rng, nx: int, ny: int) -> Case:
    u, v = rng.random((ny, nx), F32), rng.random((ny, nx), F32)

    def around(w: np.ndarray) -> np.ndarray:
        return sum(np.roll(w.astype(F64), s, a) for s in (1, -1) for a in (0, 1)) - 4 * w.astype(F64)

    mix = u.astype(F64) * v * v
    want_u, want_v = u + 0.16 * around(u) - mix + 0.035 * (1 - u), v + 0.08 * around(v) + mix - (0.035 + 0.06) * v
    args = (np.zeros(u.size, F32), np.zeros(u.size, F32), u.ravel(), v.ravel(), I32(nx), I32(ny), F32(0.035), F32(0.06))
    expected = {0: want_u.astype(F32).ravel(), 1: want_v.astype(F32).ravel()}
    grid = (-(-nx // 24), -(-ny // 8))
    return launch("nature", "react_diffuse", grid, (24, 8), args, expected, rtol=1e-4, atol=1e-5)


CASES: dict[str, Sized] = {
    "heston_paths": sized(heston_paths, {"paths": 300, "steps": 4}, paths=30_000, steps=40),
    "links_times": sized(links_times, {"sites": 256}, sites=20_736),
    "cell_forces": sized(cell_forces, {"side": 3, "each": 4}, side=12, each=10),
    "soft_bodies": sized(soft_bodies, {"n": 256}, n=4096),
    "soft_bodies_few": sized(soft_bodies, {"n": 256}, n=768),
    "meet_triangles": sized(meet_triangles, {"count": 64, "n": 256}, count=256, n=12_800),
    "march_squares": sized(march_squares, {"nx": 40, "ny": 17}, nx=900, ny=700),
    "fft_16": sized(fft_16, {"n": 300}, n=60_000),
    "lorenz_steps": sized(lorenz_steps, {"n": 150, "steps": 3}, n=20_000, steps=40),
    "react_diffuse": sized(react_diffuse, {"nx": 50, "ny": 19}, nx=1200, ny=1000),
}  # fmt: skip
