"""Particles, trees, spins, tours, tracks, orbits, filters, matrices and graphs; queues, rounds, clusters and bulk copies."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from bench.holdout.third.case import Array, Case, Outputs, Rng, Sized, launch, mixed, normal, sized

I8, I32, I64, F32, F64, U8, U32, U64 = (
    *(np.int8, np.int32, np.int64, np.float32, np.float64),
    *(np.uint8, np.uint32, np.uint64),
)


def spline_weights(f: Array) -> Array:
    """Weights of four grid points on each axis, [..., 4]."""
    g = 1 - f
    middle = [(3 * h**3 - 6 * h**2 + 4) / 6 for h in (f, g)]
    return np.stack([g**3 / 6, *middle, f**3 / 6], axis=-1)


def spread_charges(rng: Rng, n: int, side: int) -> Case:
    atoms = (rng.random((n, 4)) * side).astype(F32)
    atoms[:, :3] = np.minimum(atoms[:, :3], F32(side - 0.01))
    atoms[:, 3] = rng.choice([-1, 1], n)
    first = atoms[:, :3].astype(int)
    w = spline_weights(atoms[:, :3].astype(F64) - first)
    at = (first[:, :, None] + np.arange(4)) % side
    cells = (at[:, 2, :, None, None] * side + at[:, 1, None, :, None]) * side + at[:, 0, None, None, :]
    part = np.einsum("n,nz,ny,nx->nzyx", atoms[:, 3].astype(F64), w[:, 2], w[:, 1], w[:, 0])
    want = np.bincount(cells.ravel(), part.ravel(), side**3).astype(F32)
    args = (np.zeros(side**3, F32), atoms.ravel(), I32(n), I32(side))
    return launch("science", "spread_charges", -(-n // 8), 128, args, {0: want}, rtol=1e-3, atol=1e-4)


def push_particles(rng: Rng, n: int, side: int) -> Case:
    p, v = (rng.random((n, 4)) * side).astype(F32), normal(rng, (n, 4)) * F32(0.3)
    p[:, :3] = np.minimum(p[:, :3], F32(side - 0.01))
    e, b = normal(rng, (side**3, 4)), normal(rng, (side**3, 4))
    step, x = 0.1, p[:, :3].astype(int)
    f = p[:, :3].astype(F64) - x
    fields = np.zeros((2, n, 3))
    for k in range(8):
        corner = np.array([k & 1, k >> 1 & 1, k >> 2])
        at = (x + corner) % side
        w = np.where(corner, f, 1 - f).prod(axis=1)[:, None]
        cell = (at[:, 2] * side + at[:, 1]) * side + at[:, 0]
        fields += w * np.stack([e[cell, :3], b[cell, :3]]).astype(F64)
    electric, magnetic = 0.5 * step * fields
    half = v[:, :3].astype(F64) + electric
    s = 2 / (1 + (magnetic**2).sum(axis=1, keepdims=True))
    after = half + s * np.cross(half + np.cross(half, magnetic), magnetic) + electric
    moved = (p[:, :3] + step * after) % side

    def check(outputs: Outputs) -> None:
        """Places on a ring."""
        place, speed = (np.asarray(outputs[k]).reshape(-1, 4)[:, :3] for k in range(2))
        np.testing.assert_allclose(speed, after, rtol=1e-3, atol=1e-3)
        off = np.abs(place - moved)
        assert (np.minimum(off, side - off) < 1e-3).all()

    args = (p.ravel(), v.ravel(), e.ravel(), b.ravel(), I32(n), I32(side), F32(step))
    return launch("science", "push_particles", -(-n // 128), 128, args, check=check)


def neighbour_lists(rng: Rng, n: int, side: int, most: int) -> Case:
    points = (rng.random((n, 4)) * side).astype(F32)
    points[:, :3] = np.minimum(points[:, :3], F32(side - 0.01))
    cell = (points[:, 2].astype(int) * side + points[:, 1].astype(int)) * side + points[:, 0].astype(int)
    order = np.argsort(cell, kind="stable")
    points, cell = points[order], cell[order]
    starts = np.searchsorted(cell, np.arange(side**3 + 1)).astype(I32)
    want, counts = np.zeros((n, most), I32), np.zeros(n, I32)
    reach = F32(0.9)
    from scipy.spatial import cKDTree

    near = cKDTree(points[:, :3].astype(F64)).query_ball_point(points[:, :3].astype(F64), 0.91)
    for i, those in enumerate(near):
        j = np.sort(np.array(those))
        off = points[i, :3].astype(F64) - points[j, :3]
        j = j[((off * off).sum(axis=1) < float(reach) ** 2) & (j != i)]
        counts[i] = j.size
        want[i, : min(j.size, most)] = j[:most]

    def check(outputs: Outputs) -> None:
        """Pairs at the edge may fall to either side."""
        same = np.asarray(outputs[1]) == counts
        assert same.mean() > 0.999
        rows = np.flatnonzero(same)
        np.testing.assert_array_equal(np.asarray(outputs[0]).reshape(n, most)[rows], want[rows])

    args = (np.zeros(n * most, I32), np.zeros(n, I32), points.ravel(), starts, I32(n), I32(side), reach, I32(most))
    return launch("science", "neighbour_lists", -(-n // 4), 128, args, check=check)


def tree_nodes(rng: Rng, n: int) -> Case:
    codes = np.sort(rng.integers(0, 1 << 24, n, dtype=U32) << U32(6))

    def check(outputs: Outputs) -> None:
        """Every node but the root is some node's child, and the leaves stand in order."""
        children = np.asarray(outputs[0]).reshape(-1, 2)
        leaves, inner = children[children < 0], children[children >= 0]
        np.testing.assert_array_equal(np.sort(~leaves), np.arange(n))
        np.testing.assert_array_equal(np.sort(inner), np.arange(1, n - 1))
        stack, seen = [0], []
        while stack:
            node = stack.pop()
            if node < 0:
                seen.append(~node)
            else:
                stack += [int(children[node, 1]), int(children[node, 0])]
        assert seen == list(range(n))

    args = (np.zeros((n - 1) * 2, I32), codes, I32(n))
    return launch("science", "tree_nodes", -(-(n - 1) // 256), 256, args, check=check)


def spin_sweep(rng: Rng, width: int, height: int) -> Case:
    spins = rng.choice(np.array([-1, 1], I8), (height, width))
    chance = np.minimum(1, np.exp(-2 * 0.44 * np.arange(-4, 5, 2)))
    limits = (chance * (2**32 - 1)).astype(U32)
    around = sum(np.roll(spins.astype(I32), s, a) for s in (-1, 1) for a in (0, 1))
    sums = (spins * around + 4) // 2
    words = np.arange(width * height, dtype=U32).reshape(height, width) * U32(2654435761) + U32(99)
    y, x = np.mgrid[:height, :width]
    turns = (mixed(words) < limits[sums]) & ((x + y) % 2 == 0)
    want = np.where(turns, -spins, spins).astype(I8)
    args = (spins.ravel(), limits, I32(width), I32(height), I32(0), U32(99))
    return launch("science", "spin_sweep", (-(-width // 512), height), 256, args, {0: want.ravel()})


def exchange_legs(rng: Rng, n: int, grid: int) -> Case:
    towns = rng.random((n, 2), F32)
    exact = towns.astype(F64)
    far = np.sqrt(((exact[:, None] - exact[None]) ** 2).sum(axis=2))
    leg = far[np.arange(n), (np.arange(n) + 1) % n]
    after = np.roll(np.roll(far, -1, 0), -1, 1)
    change = far + after - leg[:, None] - leg[None]

    def check(outputs: Outputs) -> None:
        """Near equals may win."""
        pair = int(outputs[0][0]) & 0xFFFFFFFF
        j = int((1 + np.sqrt(1 + 8 * pair)) / 2)
        i = pair - j * (j - 1) // 2
        assert change[i, j] <= change[np.tril_indices(n, -1)].min() + 1e-4

    args = (np.full(1, 2**64 - 1, U64), towns.ravel(), I32(n))
    return launch("science", "exchange_legs", grid, 256, args, check=check, shared_bytes=n * 8)


def warp_distances(rng: Rng, pairs: int) -> Case:
    one, two = (np.cumsum(normal(rng, (pairs, 128)), axis=1) for _ in range(2))
    costs = np.full((129, pairs), np.inf)
    costs[0] = 0
    for row in range(128):
        after = np.full_like(costs, np.inf)
        for c in range(128):
            least = np.minimum(np.minimum(after[c], costs[c + 1]), costs[c])
            after[c + 1] = np.abs(one[:, row].astype(F64) - two[:, c]) + least
        costs = after
    args = (np.zeros(pairs, F32), one.ravel(), two.ravel(), I32(pairs))
    return launch(
        "science", "warp_distances", -(-pairs // 4), 128, args, {0: costs[128].astype(F32)}, rtol=1e-4, atol=1e-3
    )


def filter_tracks(rng: Rng, n: int, steps: int) -> Case:
    seen = np.cumsum(normal(rng, (steps, n, 2)), axis=0)
    dt, noise, spread = 0.1, 0.01, 0.5
    move, look = np.eye(4), np.eye(2, 4)
    move[0, 2] = move[1, 3] = dt
    x, p = np.zeros((n, 4)), np.tile(10 * np.eye(4), (n, 1, 1))
    for z in seen.astype(F64):
        x = x @ move.T
        p = move @ p @ move.T + noise * np.eye(4)
        gain = p @ look.T @ np.linalg.inv(look @ p @ look.T + spread * np.eye(2))
        x = x + (gain @ (z - x[:, :2])[..., None])[..., 0]
        p = p - gain @ look @ p
    args = (np.zeros(n * 4, F32), seen.ravel(), I32(n), I32(steps), F32(dt), F32(noise), F32(spread))
    return launch("science", "filter_tracks", -(-n // 128), 128, args, {0: x.astype(F32).ravel()}, rtol=1e-2, atol=1e-2)


def adaptive_steps(rng: Rng, n: int, until: float) -> Case:
    start, mu = rng.standard_normal((n, 2)), rng.uniform(0.5, 20, n)
    x, y = start.T.copy()
    t, h, taken = np.zeros(n), np.full(n, 0.01), np.zeros(n, I32)

    def slope(u: Array, v: Array) -> tuple[Array, Array]:
        return v, mu * (1 - u * u) * v - u

    for _ in range(2000):
        going = t < until
        if not going.any():
            break
        h = np.where(going, np.minimum(h, until - t), h)
        ax, ay = slope(x, y)
        bx, by = slope(x + 0.5 * h * ax, y + 0.5 * h * ay)
        cx, cy = slope(x + 0.75 * h * bx, y + 0.75 * h * by)
        nx, ny = x + h * (2 / 9 * ax + 1 / 3 * bx + 4 / 9 * cx), y + h * (2 / 9 * ay + 1 / 3 * by + 4 / 9 * cy)
        dx, dy = slope(nx, ny)
        ex, ey = h * (-5 / 72 * ax + bx / 12 + cx / 9 - dx / 8), h * (-5 / 72 * ay + by / 12 + cy / 9 - dy / 8)
        error = np.sqrt(ex * ex + ey * ey) / 1e-6
        good = going & (error <= 1)
        t, x, y = np.where(good, t + h, t), np.where(good, nx, x), np.where(good, ny, y)
        h = np.where(going, h * np.clip(0.9 / np.cbrt(error + 1e-12), 0.25, 4), h)
        taken += going

    def check(outputs: Outputs) -> None:
        """A step that is refused by one rounding and not by another moves what follows."""
        ends = np.asarray(outputs[0]).reshape(-1, 2)
        assert np.mean(np.abs(outputs[1] - taken) <= 2) > 0.99
        np.testing.assert_allclose(ends, np.stack([x, y], axis=1), rtol=1e-2, atol=1e-2)

    args = (np.zeros(n * 2), np.zeros(n, I32), start.ravel(), mu, I32(n), F64(until), F64(1e-6))
    return launch("science", "adaptive_steps", -(-n // 64), 64, args, check=check)


def orbit_places(rng: Rng, n: int) -> Case:
    mean, e = rng.random(n) * 2 * np.pi, rng.random(n) * 0.9
    angle = mean + e * np.where(mean < np.pi, 0.5, -0.5)
    for _ in range(60):
        angle -= (angle - e * np.sin(angle) - mean) / (1 - e * np.cos(angle)) * 0.9
    want = np.stack([np.cos(angle) - e, np.sqrt(1 - e * e) * np.sin(angle)], axis=1)
    args = (np.zeros(n * 2), mean, e, I32(n))
    return launch("science", "orbit_places", -(-n // 128), 128, args, {0: want.ravel()}, rtol=1e-8, atol=1e-9)


def filter_bank(rng: Rng, frames: int) -> Case:
    src, taps = normal(rng, (frames + 8) * 16), normal(rng, (8, 16))
    each = np.lib.stride_tricks.sliding_window_view(src.reshape(-1, 16), (8, 16))[:frames, 0]
    want = np.fft.fft((each.astype(F64) * taps).sum(axis=1), axis=1).astype(np.complex64)
    args = (np.zeros(frames * 32, F32), src, taps.ravel(), I32(frames))
    return launch(
        "science", "filter_bank", -(-frames // 8), 128, args, {0: want.view(F32).ravel()}, rtol=1e-3, atol=1e-3
    )


def recursive_filters(rng: Rng, channels: int, steps: int) -> Case:
    src, factors = normal(rng, (steps, channels)), normal(rng, (3, 5, channels)) * F32(0.3)
    f, s1, s2, want = factors.astype(F64), np.zeros((3, channels)), np.zeros((3, channels)), np.zeros(src.shape)
    for t in range(steps):
        x = src[t].astype(F64)
        for k in range(3):
            y = f[k, 0] * x + s1[k]
            s1[k], s2[k] = f[k, 1] * x - f[k, 3] * y + s2[k], f[k, 2] * x - f[k, 4] * y
            x = y
        want[t] = x
    size = np.abs(want).max(axis=0)
    steady = np.isfinite(size) & (size < 100)

    def check(outputs: Outputs) -> None:
        """Channels whose filters do not grow without end."""
        got = np.asarray(outputs[0]).reshape(steps, channels)[:, steady]
        np.testing.assert_allclose(got, want[:, steady], rtol=1e-2, atol=1e-2)

    args = (np.zeros(src.size, F32), src.ravel(), factors.ravel(), I32(channels), I32(steps))
    return launch("science", "recursive_filters", -(-channels // 64), 64, args, check=check)


def rotate_pairs(rng: Rng, count: int) -> Case:
    a = normal(rng, (count, 16, 16))
    a = (a + a.transpose(0, 2, 1)) * F32(0.5)
    want = np.linalg.eigvalsh(a.astype(F64))

    def check(outputs: Outputs) -> None:
        """Rotations leave eigenvalues in any order."""
        got = np.sort(np.asarray(outputs[0]).reshape(-1, 16), axis=1)
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)

    args = (np.zeros(count * 16, F32), a.ravel(), I32(count), I32(6))
    return launch("science", "rotate_pairs", -(-count // 2), 64, args, check=check)


def reflect_columns(rng: Rng, count: int) -> Case:
    a = normal(rng, (count, 32, 32))

    def check(outputs: Outputs) -> None:
        """The triangle's square is the matrix's."""
        r = np.asarray(outputs[0]).reshape(-1, 32, 32).astype(F64)
        assert np.abs(np.tril(r, -1)).max() < 1e-4
        exact = a.astype(F64)
        np.testing.assert_allclose(r.transpose(0, 2, 1) @ r, exact.transpose(0, 2, 1) @ exact, rtol=1e-3, atol=1e-3)

    return launch("science", "reflect_columns", -(-count // 3), 96, (a.ravel(), I32(count)), check=check)


def merged_rows(rng: Rng, rows: int, mean: int) -> Case:
    lengths = np.minimum((mean / 3 * rng.pareto(1.3, rows)).astype(int), 200 * mean)
    ends = np.cumsum(lengths).astype(I32)
    columns = rng.integers(0, rows, ends[-1], dtype=I32)
    values, x = normal(rng, ends[-1]), normal(rng, rows)
    want = np.bincount(np.repeat(np.arange(rows), lengths), values.astype(F64) * x[columns], rows)
    args = (np.zeros(rows, F32), ends, columns, values, x, I32(rows), I32(ends[-1]))
    grid = -(-(rows + int(ends[-1])) // 1024)
    return launch("science", "merged_rows", grid, 128, args, {0: want.astype(F32)}, rtol=1e-3, atol=1e-2)


def hashed_rows(rng: Rng, rows: int, each: int) -> Case:
    a, b = (sparse.random(rows, rows, each / rows, "csr", F32, random_state=rng) for _ in range(2))
    c = (a.astype(F64) @ b.astype(F64)).tocsr()
    want = np.bincount(np.repeat(np.arange(rows), np.diff(c.indptr)), c.data * (1 + c.indices % 7), rows)
    ones = [sparse.csr_matrix((np.ones(m.nnz), m.indices, m.indptr), m.shape) for m in (a, b)]
    filled = np.diff((ones[0] @ ones[1]).tocsr().indptr)
    assert filled.max() < 250
    parts = [part for m in (a, b) for part in (m.indptr.astype(I32), m.indices.astype(I32), m.data)]
    args = (np.zeros(rows, I32), np.zeros(rows, F32), *parts, I32(rows))
    expected = {0: filled.astype(I32), 1: want.astype(F32)}
    return launch("science", "hashed_rows", -(-rows // 4), 128, args, expected, rtol=1e-3, atol=1e-4)


def peel_round(rng: Rng, vertices: int, degree: int, k: int) -> Case:
    graph = sparse.random(vertices, vertices, degree / vertices / 2, "csr", random_state=rng)
    graph = (graph + graph.T).tocsr()
    degrees = np.diff(graph.indptr).astype(I32)
    removed = rng.random(vertices) < 0.1
    leaves = ~removed & (degrees < k)
    want = degrees.copy()
    rows = np.repeat(np.arange(vertices), degrees)
    np.subtract.at(want, graph.indices[leaves[rows]], 1)
    state = np.concatenate([removed, degrees]).astype(I32)
    expected = {
        0: want,
        1: np.concatenate([removed | leaves, degrees]).astype(I32),
        2: np.array([leaves.sum()], U32),
    }
    args = (
        *(degrees.copy(), state, np.zeros(1, U32), graph.indptr.astype(I32), graph.indices.astype(I32)),
        *(I32(vertices), I32(k)),
    )
    return launch("science", "peel_round", -(-vertices // 32), 256, args, expected)


def heap_nearest(rng: Rng, n: int, queried: int) -> Case:
    points, queries = normal(rng, (n, 4)), normal(rng, (queried, 4))
    from scipy.spatial import cKDTree

    near = cKDTree(points[:, :3].astype(F64)).query(queries[:, :3].astype(F64), 16)[0] ** 2
    want = np.stack([near[:, 15], near[:, :15].sum(axis=1)], axis=1)
    args = (np.zeros(queried * 2, F32), points.ravel(), queries.ravel(), I32(n), I32(queried))
    return launch(
        "science", "heap_nearest", -(-queried // 128), 128, args, {0: want.astype(F32).ravel()}, rtol=1e-4, atol=1e-5
    )


def spilled_pairs(rng: Rng, n: int, rounds: int) -> Case:
    src = normal(rng, (24, n)) * F32(0.3)
    x, y, k = src.astype(F64), np.zeros((24, n)), np.arange(24)
    for _ in range(rounds):
        for j in range(1, 4):
            y = y + x[(k + j * 7) % 24] * x[(k + j * 5 + 1) % 24]
        x, y = 0.5 * x + 0.0625 * y, 0.25 * y
    want = (x * (k + 1)[:, None]).sum(axis=0).astype(F32)
    args = (np.zeros(n, F32), src.ravel(), I32(n), I32(rounds))
    return launch(
        "science", "spilled_pairs", -(-n // 256), 256, args, {0: want}, rtol=1e-3, atol=1e-4,
        options=("-maxrregcount=32",),
    )  # fmt: skip


def take_jobs(rng: Rng, jobs: int, grid: int) -> Case:
    src, rounds = rng.integers(0, 1 << 32, (jobs, 128), dtype=U32), (rng.pareto(1.5, jobs) * 60).astype(I32)
    rounds = np.minimum(rounds, 3000)
    want = src.copy()
    for k in range(int(rounds.max())):
        going = rounds > k
        x = want[going]
        want[going] = x * U32(1664525) + U32(1013904223) ^ x >> U32(13)
    args = (np.zeros(src.size, U32), np.zeros(1, U32), src.ravel(), rounds, I32(jobs))
    return launch("chip", "take_jobs", grid, 128, args, {0: want.ravel()})


def rounds_together(rng: Rng, n: int, rounds: int, grid: int) -> Case:
    one = rng.integers(-1000, 1000, n).astype(F32)
    src, dst = one.astype(F64), np.zeros(n)
    for _ in range(rounds):
        padded = np.pad(src, 1)
        dst, src = src, 0.25 * padded[:-2] + 0.5 * src + 0.25 * padded[2:]
    last, before = src.astype(F32), dst.astype(F32)
    args = (one.copy(), np.zeros(n, F32), np.zeros(1, U32), I32(n), I32(rounds))
    expected = {rounds % 2: last, 1 - rounds % 2: before}
    return launch("chip", "rounds_together", grid, 256, args, expected, rtol=1e-5, atol=1e-3)


def edges_exchanged(rng: Rng, clusters: int, steps: int) -> Case:
    src = normal(rng, (clusters, 4096))
    field = src.astype(F64)
    for _ in range(steps):
        padded = np.pad(field, ((0, 0), (1, 1)))
        field = field + 0.25 * (padded[:, :-2] - 2 * field + padded[:, 2:])
    args = (np.zeros(src.size, F32), src.ravel(), I32(steps))
    return launch(
        "chip", "edges_exchanged", clusters * 4, 256, args, {0: field.astype(F32).ravel()}, rtol=1e-4, atol=1e-5
    )


def multicast_product(rng: Rng, m: int, n: int, depth: int) -> Case:
    a, b = normal(rng, (m, depth)), normal(rng, (depth, n))
    args = (np.zeros(m * n, F32), a.ravel(), b.ravel(), I32(n), I32(depth))
    return launch(
        "chip", "multicast_product", (n // 64, m // 32), 128, args, {0: (a @ b).ravel()}, rtol=1e-3, atol=1e-3
    )


def bulk_sums(rng: Rng, vectors: int, grid: int) -> Case:
    src = rng.integers(-9, 10, (vectors, 1024)).astype(F32)
    args = (np.zeros(1024, F32), src.ravel(), I32(vectors))
    return launch("chip", "bulk_sums", grid, 256, args, {0: src.sum(axis=0)})


def staged_rows(rng: Rng, blocks: int, rows: int, known: int) -> Case:
    table, index = normal(rng, (known, 128)), rng.integers(0, known, (blocks, rows), dtype=I32)
    want = np.stack([table[i].astype(F64).sum(axis=0) for i in index]).astype(F32)
    args = (np.zeros(want.size, F32), table.ravel(), index.ravel(), I32(rows))
    return launch("chip", "staged_rows", blocks, 128, args, {0: want.ravel()}, rtol=1e-3, atol=1e-3)


def whole_warp_sums(rng: Rng, rows: int, columns: int) -> Case:
    src = rng.integers(-(1 << 20), 1 << 20, (rows, columns), dtype=I32)
    bits = np.bitwise_xor.reduce(src.view(U32), axis=1)
    want = np.stack(
        [src.sum(axis=1).astype(I32).view(U32), src.min(axis=1).view(U32), src.max(axis=1).view(U32), bits], axis=1
    )
    args = (np.zeros(rows * 4, U32), src.ravel(), I32(rows), I32(columns))
    return launch("chip", "whole_warp_sums", -(-rows // 4), 128, args, {0: want.ravel()})


CASES: dict[str, Sized] = {
    "spread_charges": sized(spread_charges, {"n": 60, "side": 8}, n=40000, side=64),
    "push_particles": sized(push_particles, {"n": 200, "side": 8}, n=150000, side=40),
    "neighbour_lists": sized(neighbour_lists, {"n": 200, "side": 4}, n=14000, side=14, most=64),
    "tree_nodes": sized(tree_nodes, {"n": 300}, n=150000),
    "spin_sweep": sized(spin_sweep, {"width": 48, "height": 10}, width=2048, height=1000),
    "exchange_legs": sized(exchange_legs, {"n": 60, "grid": 2}, n=1500, grid=264),
    "warp_distances": sized(warp_distances, {"pairs": 3}, pairs=2000),
    "filter_tracks": sized(filter_tracks, {"n": 140, "steps": 5}, n=40000, steps=24),
    "adaptive_steps": sized(adaptive_steps, {"n": 70, "until": 0.3}, n=6000, until=1.0),
    "orbit_places": sized(orbit_places, {"n": 150}, n=60000),
    "filter_bank": sized(filter_bank, {"frames": 11}, frames=30000),
    "recursive_filters": sized(recursive_filters, {"channels": 70, "steps": 9}, channels=8192, steps=64),
    "recursive_filters_one_block": sized(recursive_filters, {"channels": 40, "steps": 9}, channels=64, steps=500),
    "rotate_pairs": sized(rotate_pairs, {"count": 3}, count=300),
    "reflect_columns": sized(reflect_columns, {"count": 4}, count=2000),
    "merged_rows": sized(merged_rows, {"rows": 200}, rows=60000, mean=12),
    "hashed_rows": sized(hashed_rows, {"rows": 40, "each": 4}, rows=12000, each=7),
    "peel_round": sized(peel_round, {"vertices": 200}, vertices=50000, degree=12, k=12),
    "heap_nearest": sized(heap_nearest, {"n": 200, "queried": 70}, n=1500, queried=5000),
    "spilled_pairs": sized(spilled_pairs, {"n": 300, "rounds": 2}, n=60000, rounds=8),
    "take_jobs": sized(take_jobs, {"jobs": 5, "grid": 2}, jobs=6000, grid=528),
    "rounds_together": sized(rounds_together, {"n": 900, "rounds": 3, "grid": 3}, n=300000, rounds=12, grid=132),
    "edges_exchanged": sized(edges_exchanged, {"clusters": 1, "steps": 4}, clusters=60, steps=40),
    "multicast_product": sized(multicast_product, {"m": 64, "n": 64, "depth": 96}, m=512, n=768, depth=512),
    "bulk_sums": sized(bulk_sums, {"vectors": 11, "grid": 2}, vectors=3000, grid=200),
    "staged_rows": sized(staged_rows, {"blocks": 2, "rows": 48, "known": 50}, blocks=500, rows=96, known=20000),
    "whole_warp_sums": sized(whole_warp_sums, {"rows": 6, "columns": 64}, rows=12000, columns=512),
}  # fmt: skip
