"""Physics, imaging and linear algebra in the manner of Rodinia, Parboil, PolyBench and SHOC."""

from __future__ import annotations

import numpy as np

from bench.holdout.case import Array, Case, Outputs, Sized, launch, sized

I32, I64, F32, F64, U32, U8 = np.int32, np.int64, np.float32, np.float64, np.uint32, np.uint8
Rng = np.random.Generator


def box_forces(rng: Rng, side: int) -> Case:
    boxes, alpha = side**3, 0.5
    particles = rng.random((boxes, 100, 4), F32)
    want = np.zeros((boxes, 100, 4))
    for box in range(boxes):
        at = np.array([box % side, box // side % side, box // side // side])
        near = [
            (z * side + y) * side + x
            for z in range(max(at[2] - 1, 0), min(at[2] + 2, side))
            for y in range(max(at[1] - 1, 0), min(at[1] + 2, side))
            for x in range(max(at[0] - 1, 0), min(at[0] + 2, side))
        ]
        mine, theirs = particles[box], particles[near].reshape(-1, 4)
        d = mine[:, None, :3] - theirs[None, :, :3]
        v = np.exp(-F32(alpha) * (d * d).sum(axis=-1))
        want[box, :, :3] = ((2 * v * theirs[:, 3])[..., None] * d).sum(axis=1)
        want[box, :, 3] = (v * theirs[:, 3]).sum(axis=1)
    args = (np.zeros(want.size, F32), particles.ravel(), I32(side), F32(alpha))
    return launch("physics", "box_forces", boxes, 128, args, {0: want.astype(F32).ravel()}, rtol=1e-3, atol=2e-2)


def euler_fluxes(rng: Rng, n: int) -> Case:
    neighbours = (np.arange(n) + rng.integers(-300, 300, (4, n))).clip(0, n - 1).astype(I32)
    neighbours[rng.random((4, n)) < 0.03] = -1
    neighbours[rng.random((4, n)) < 0.03] = -2
    normals, variables = rng.standard_normal((4, 3, n), F32), rng.standard_normal((5, n), F32) * F32(0.2)
    variables[0], variables[4] = 1 + rng.random(n), 2 + rng.random(n)
    far = np.array([1.4, 0.5, 0, 0, 3.0])

    def derived(v: Array) -> tuple[Array, Array, Array]:
        square = (v[1:4] ** 2).sum(axis=0)
        p = 0.4 * (v[4] - 0.5 * square / v[0])
        return p, np.sqrt(square) / v[0], np.sqrt(1.4 * p / v[0])

    me = variables.astype(F64)
    p, speed, sound = derived(me)
    want = np.zeros((5, n))
    for face in range(4):
        other, normal = neighbours[face], normals[face].astype(F64)
        area = np.sqrt((normal**2).sum(axis=0))
        them = np.where(other >= 0, me[:, np.maximum(other, 0)], far[:, None])
        q, their_speed, their_sound = derived(them)
        along, across = (0.5 * (v[1:4] * normal).sum(axis=0) / v[0] for v in (me, them))
        flux = -0.1 * area * (speed + their_speed + sound + their_sound) * (me - them) + along * me + across * them
        flux[1:4] += 0.5 * normal * (p + q)
        flux[4] += along * p + across * q
        wall = np.zeros((5, n))
        wall[1:4] = normal * p
        want += np.where(other == -1, wall, flux)
    args = (
        *(np.zeros(5 * n, F32), neighbours.ravel(), normals.ravel(), variables.ravel(), I32(n)),
        *(F32(far[0]), F32(far[1]), F32(far[4])),
    )
    return launch(
        "physics", "euler_fluxes", -(-n // 192), 192, args, {0: want.astype(F32).ravel()}, rtol=1e-3, atol=1e-3
    )


def speckle_update(rng: Rng, rows: int, columns: int) -> Case:
    image, c, *sides = rng.random((6, rows, columns), F32)
    below, right = np.minimum(np.arange(rows) + 1, rows - 1), np.minimum(np.arange(columns) + 1, columns - 1)
    north, south, west, east = sides
    divergence = c * north + c[below] * south + c * west + c[:, right] * east
    want = image + F32(0.25) * F32(0.5) * divergence
    arrays = (v.ravel() for v in (image.copy(), c, *sides))
    args = (*arrays, below.astype(I32), right.astype(I32), I32(rows), I32(columns), F32(0.5))
    grid = (-(-columns // 16), -(-rows // 16))
    return launch("physics", "speckle_update", grid, (16, 16), args, {0: want.ravel()}, rtol=1e-5, atol=1e-6)


DIRECTIONS = np.array(
    [
        *((0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)),
        *((1, 1, 0), (-1, -1, 0), (1, -1, 0), (-1, 1, 0), (1, 0, 1), (-1, 0, -1), (1, 0, -1)),
        *((-1, 0, 1), (0, 1, 1), (0, -1, -1), (0, 1, -1), (0, -1, 1)),
    ]
)


def lattice_19(rng: Rng, nx: int, ny: int, nz: int) -> Case:
    src = rng.random((19, nz, ny, nx), F32) * F32(0.05) + F32(0.05)
    f = np.stack([np.roll(src[k], (dz, dy, dx), axis=(0, 1, 2)) for k, (dx, dy, dz) in enumerate(DIRECTIONS)])
    f = f.astype(F64)
    density = f.sum(axis=0)
    u = np.tensordot(DIRECTIONS.T, f, 1) / density
    w = np.array([1 / 3, *[1 / 18] * 6, *[1 / 36] * 12]).reshape(19, 1, 1, 1)
    along = 3 * np.tensordot(DIRECTIONS, u, 1)
    want = f - 0.6 * (f - w * density * (1 + along + 0.5 * along**2 - 1.5 * (u * u).sum(axis=0)))
    args = (np.zeros(src.size, F32), src.ravel(), I32(nx), I32(ny), I32(nz), F32(0.6))
    grid = (-(-nx // 128), ny, nz)
    return launch("physics", "lattice_19", grid, 128, args, {0: want.astype(F32).ravel()}, rtol=1e-4, atol=1e-5)


def resonance_q(rng: Rng, n: int, points: int) -> Case:
    trajectory = rng.random((1024, 4), F32)
    x, y, z = rng.random((3, n), F32) * F32(40)
    t = trajectory[:points]
    phase = F32(6.2831853) * (np.outer(x, t[:, 0]) + np.outer(y, t[:, 1]) + np.outer(z, t[:, 2]))
    args = (np.zeros(n, F32), np.zeros(n, F32), x, y, z, I32(n), I32(points))
    expected = {0: (np.cos(phase) @ t[:, 3]), 1: (np.sin(phase) @ t[:, 3])}
    return launch(
        "physics", "resonance_q", -(-n // 256), 256, args, expected,
        rtol=1e-3, atol=2e-2, device_globals={"trajectory": trajectory.ravel()},
    )  # fmt: skip


def angle_counts(rng: Rng, n: int) -> Case:
    points = rng.standard_normal((3, n))
    points = (points / np.linalg.norm(points, axis=0)).astype(F32)
    bounds = np.cos(np.radians(np.geomspace(1, 170, 20))).astype(F32)
    dots = points.T @ points
    dots = dots[np.triu_indices(n, 1)]
    exact = np.bincount(np.searchsorted(-bounds, -dots, "left"), minlength=21)

    def check(outputs: Outputs) -> None:
        """Rounding moves single pairs from one bin to the next."""
        counts = np.asarray(outputs[0]).astype(I64)
        assert counts.sum() == n * (n - 1) // 2, f"angle_counts: {counts.sum()} pairs"
        np.testing.assert_allclose(counts, exact, atol=6, rtol=1e-4)

    args = (np.zeros(21, U32), points.ravel(), I32(n))
    return launch("physics", "angle_counts", n // 128, 128, args, check=check, device_globals={"bounds": bounds})


def match_blocks(rng: Rng, across: int, down: int) -> Case:
    width, height = across * 8, down * 8
    reference = rng.integers(0, 256, (height + 16, width + 16), dtype=U8)
    frame = reference[5 : 5 + height, 9 : 9 + width].astype(I32) + rng.integers(-6, 7, (height, width))
    frame = frame.clip(0, 255)
    costs = np.zeros((256, down, across), I64)
    for place in range(256):
        dx, dy = place % 16, place // 16
        there = reference[dy : dy + height, dx : dx + width].astype(I32)
        costs[place] = np.abs(frame - there).reshape(down, 8, across, 8).sum(axis=(1, 3))
    want = (costs << 8 | np.arange(256)[:, None, None]).min(axis=0)
    args = (np.zeros(want.size, U32), frame.astype(U8).ravel(), reference.ravel(), I32(width))
    return launch("physics", "match_blocks", (across, down), 256, args, {0: want.astype(U32).ravel()})


def fit_circles(rng: Rng, width: int, height: int) -> Case:
    gx, gy = rng.standard_normal((2, height, width), F32)
    turns = np.arange(64) * (2 * np.pi / 64)
    sines, cosines = np.sin(turns).astype(F32), np.cos(turns).astype(F32)
    radii = np.array([5, 8, 11, 15])[:, None]
    cx, cy = np.rint(radii * cosines).astype(I32), np.rint(radii * sines).astype(I32)
    inner = (slice(16, height - 16), slice(16, width - 16))
    best = np.zeros((height - 32, width - 32))
    for k in range(4):
        total, squares = np.zeros_like(best), np.zeros_like(best)
        for j in range(64):
            there = tuple(
                slice(s.start + d, s.stop + d) for s, d in zip(inner, (int(cy[k, j]), int(cx[k, j])), strict=True)
            )
            g = gx[there].astype(F64) * cosines[j] + gy[there] * sines[j]
            total += g
            squares += g * g
        mean = total / 64
        best = np.maximum(best, mean * mean / ((squares - total * mean) / 63))
    want = np.zeros((height, width), F32)
    want[inner] = best
    tables = {"circle_sin": sines, "circle_cos": cosines, "circle_x": cx.ravel(), "circle_y": cy.ravel()}
    args = (np.zeros(want.size, F32), gx.ravel(), gy.ravel(), I32(width), I32(height))
    grid = (-(-width // 32), -(-height // 4))
    return launch(
        "physics", "fit_circles", grid, (32, 4), args, {0: want.ravel()}, rtol=1e-2, atol=1e-5, device_globals=tables
    )


def gram_schmidt(rng: Rng, rows: int, columns: int) -> Case:
    a, q = rng.standard_normal((rows, columns), F32), rng.standard_normal(rows, F32) / F32(rows**0.5)
    r = q.astype(F64) @ a
    args = (a.ravel().copy(), np.zeros(columns, F32), q, I32(rows), I32(columns))
    expected = {0: (a - np.outer(q, r)).astype(F32).ravel(), 1: r.astype(F32)}
    return launch("linear", "gram_schmidt", -(-columns // 128), 128, args, expected, rtol=1e-3, atol=1e-4)


def product_rows(rng: Rng, rows: int, columns: int) -> Case:
    a, x = rng.random((rows, columns), F32), rng.random(columns, F32)
    args = (np.zeros(rows, F32), a.ravel(), x, I32(rows), I32(columns))
    return launch("linear", "product_rows", -(-rows // 256), 256, args, {0: a @ x}, rtol=1e-4)


def rank_update(rng: Rng, n: int, depth: int) -> Case:
    c, a = rng.random((n, n)), rng.random((n, depth))
    want = np.where(np.tri(n, dtype=bool), a @ a.T + c, c)
    args = (c.ravel(), a.ravel(), I32(n), I32(depth))
    return launch("linear", "rank_update", (n // 32, n // 8), (32, 8), args, {0: want.ravel()}, rtol=1e-12)


def reduce_systems(rng: Rng, systems: int) -> Case:
    lower, upper, right = rng.random((3, systems, 32))
    middle = 3 + rng.random((systems, 32))
    matrix = np.zeros((systems, 32, 32))
    at = np.arange(32)
    matrix[:, at, at], matrix[:, at[1:], at[:-1]], matrix[:, at[:-1], at[1:]] = middle, lower[:, 1:], upper[:, :-1]
    want = np.linalg.solve(matrix, right[..., None])
    args = (np.zeros(systems * 32), *(v.ravel() for v in (lower, middle, upper, right)), I32(systems))
    grid = -(-systems // 8)
    return launch("linear", "reduce_systems", grid, 256, args, {0: want.ravel()}, rtol=1e-9, atol=1e-12)


def fft_512(rng: Rng, transforms: int) -> Case:
    x = (rng.standard_normal((transforms, 512)) + 1j * rng.standard_normal((transforms, 512))).astype(np.complex64)
    want = np.fft.fft(x).astype(np.complex64).view(F32).ravel()
    return launch("linear", "fft_512", transforms, 64, (x.view(F32).ravel(),), {0: want}, rtol=1e-3, atol=1e-2)


CASES: dict[str, Sized] = {
    "box_forces": sized(box_forces, {"side": 1}, side=5),
    "euler_fluxes": sized(euler_fluxes, {"n": 500}, n=150000),
    "speckle_update": sized(speckle_update, {"rows": 19, "columns": 40}, rows=1600, columns=1700),
    "lattice_19": sized(lattice_19, {"nx": 40, "ny": 3, "nz": 3}, nx=128, ny=64, nz=60),
    "resonance_q": sized(resonance_q, {"n": 100, "points": 6}, n=24000, points=120),
    "resonance_q_one_block": sized(resonance_q, {"n": 70, "points": 5}, n=256, points=512),
    "angle_counts": sized(angle_counts, {"n": 128}, n=1536),
    "match_blocks": sized(match_blocks, {"across": 2, "down": 1}, across=80, down=45),
    "fit_circles": sized(fit_circles, {"width": 40, "height": 36}, width=320, height=200),
    "gram_schmidt": sized(gram_schmidt, {"rows": 9, "columns": 140}, rows=700, columns=700),
    "product_rows": sized(product_rows, {"rows": 70, "columns": 40}, rows=3000, columns=1000),
    "rank_update": sized(rank_update, {"n": 32, "depth": 7}, n=384, depth=128),
    "reduce_systems": sized(reduce_systems, {"systems": 9}, systems=16000),
    "fft_512": sized(fft_512, {"transforms": 2}, transforms=4000),
}
