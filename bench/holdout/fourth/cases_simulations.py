"""Simulations: rates and options, molecules, particles in cells, elements, lattices, trees of bodies, light, splines."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from bench.holdout.fourth.case import Array, Case, Outputs, Rng, Sized, launch, mixed, normal, sized

I32, F32, F64, U32 = np.int32, np.float32, np.float64, np.uint32


def libor_paths(rng: Rng, paths: int, steps: int) -> Case:
    z, volatility = normal(rng, (steps, paths)), rng.uniform(0.1, 0.3, 40).astype(F32)
    delta, rate = 0.25, np.full((40, paths), 0.05)
    for s in range(steps):
        drift = np.zeros(paths)
        for k in range(s + 1, 40):
            lam = float(volatility[k - s - 1])
            drift += delta * lam * rate[k] / (1 + delta * rate[k])
            rate[k] *= np.exp(delta * lam * drift + lam * (np.sqrt(delta) * z[s] - 0.5 * delta * lam))
    bond, total, swap = np.ones(paths), np.zeros(paths), np.zeros(paths)
    for k in range(steps, 40):
        bond = bond / (1 + delta * rate[k])
        total = total + delta * bond
        if k % 5 == 4:
            swap += np.maximum(0, 100 * (1 - bond - 0.05 * total))
    args = (np.zeros(paths, F32), z.ravel(), volatility, I32(paths), I32(steps), F32(delta))
    expected = {0: swap.astype(F32)}
    return launch("simulations", "libor_paths", -(-paths // 64), 64, args, expected, rtol=2e-3, atol=2e-3)


def implied_volatility(rng: Rng, n: int) -> Case:
    strike, years, sigma = (
        rng.uniform(80, 125, n).astype(F32),
        rng.uniform(0.3, 2, n).astype(F32),
        rng.uniform(0.15, 0.9, n),
    )
    k, t = strike.astype(F64), years.astype(F64)
    d1 = (np.log(100 / k) + (0.03 + 0.5 * sigma**2) * t) / (sigma * np.sqrt(t))
    price = 100 * ndtr(d1) - k * np.exp(-0.03 * t) * ndtr(d1 - sigma * np.sqrt(t))
    args = (np.zeros(n, F32), price.astype(F32), strike, years, I32(n), F32(100), F32(0.03))
    expected = {0: sigma.astype(F32)}
    return launch("simulations", "implied_volatility", -(-n // 128), 128, args, expected, rtol=2e-3, atol=2e-3)


def lj_verlet(rng: Rng, side: int) -> Case:
    n, box, cutoff = side**3, side * 1.2, 2.5
    grid = np.stack(np.mgrid[:side, :side, :side], axis=-1).reshape(-1, 3) * 1.2
    place = np.zeros((n, 4), F32)
    place[:, :3] = grid + rng.uniform(-0.1, 0.1, (n, 3))
    cell = np.arange(n).reshape(side, side, side)
    reach = [
        (a, b, c) for a in range(-2, 3) for b in range(-2, 3) for c in range(-2, 3) if 0 < a * a + b * b + c * c <= 6
    ]
    names = np.stack([np.roll(cell, shift, (0, 1, 2)).ravel() for shift in reach])
    exact = place[:, :3].astype(F64)
    want = np.zeros((n, 4))
    for other in names:
        d = exact - exact[other]
        d -= box * np.rint(d / box)
        r2 = (d**2).sum(axis=1)
        i6 = r2**-3
        near = r2 < cutoff**2
        want[:, :3] += (near * i6 * (48 * i6 - 24) / r2)[:, None] * d
        want[:, 3] += near * 4 * i6 * (i6 - 1)
    count = np.full(n, len(reach), I32)
    args = (
        *(np.zeros(n * 4, F32), place.ravel(), count, names.astype(I32).ravel()),
        *(I32(n), F32(box), F32(cutoff**2)),
    )
    expected = {0: want.astype(F32).ravel()}
    return launch("simulations", "lj_verlet", -(-n // 128), 128, args, expected, rtol=5e-3, atol=2e-2)


def sph_density(rng: Rng, side: int, each: int) -> Case:
    h, n = 0.1, side**3 * each
    place = np.zeros((n, 4), F32)
    place[:, :3], place[:, 3] = rng.random((n, 3)) * (side * h - 1e-4), 1000 * h**3 / each
    cells = np.minimum((place[:, :3] / F32(h)).astype(I32), side - 1)
    key = (cells[:, 2] * side + cells[:, 1]) * side + cells[:, 0]
    order = np.argsort(key, kind="stable")
    place, key, cells = place[order], key[order], cells[order]
    first = np.searchsorted(key, np.arange(side**3 + 1)).astype(I32)
    exact, total = place.astype(F64), np.zeros(n)
    for dz in (-1, 0, 1):
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                other = cells + np.array([dx, dy, dz])
                ok = ((other >= 0) & (other < side)).all(axis=1)
                at = np.where(ok, (other[:, 2] * side + other[:, 1]) * side + other[:, 0], 0)
                for k in range(int(np.diff(first).max())):
                    j = np.minimum(first[at] + k, n - 1)
                    w = h * h - ((exact[:, :3] - exact[j, :3]) ** 2).sum(axis=1)
                    total += np.where(ok & (first[at] + k < first[at + 1]), exact[j, 3] * np.maximum(w, 0) ** 3, 0)
    density = 1.56668147 / h**9 * total
    want = np.stack([density, 2e5 * ((density / 1000) ** 7 - 1)], axis=1)
    args = (np.zeros(n * 2, F32), place.ravel(), first, I32(n), I32(side), F32(h))
    expected = {0: want.astype(F32).ravel()}
    return launch("simulations", "sph_density", -(-n // 128), 128, args, expected, rtol=5e-3, atol=1e3)


def fem_assemble(rng: Rng, side: int) -> Case:
    grid = np.stack(np.mgrid[:side, :side, :side], axis=-1).reshape(-1, 3)
    place = grid + rng.uniform(-0.1, 0.1, grid.shape)
    cell = np.stack(np.mgrid[: side - 1, : side - 1, : side - 1], axis=-1).reshape(-1, 3) @ [side * side, side, 1]
    steps = np.array([side * side, side, 1])
    parts = []
    for a, b, c in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        parts.append(
            np.stack([cell, cell + steps[a], cell + steps[a] + steps[b], cell + steps[[a, b, c]].sum()], axis=1)
        )
    elements = np.stack(parts, axis=1).reshape(-1, 4)
    x = place[elements]
    b = x[:, 1:] - x[:, :1]
    det = np.linalg.det(b)
    inverse = np.linalg.inv(b)
    gradients = np.concatenate([-inverse.sum(axis=2, keepdims=True), inverse], axis=2)
    volume, diagonal, load = np.abs(det) / 6, np.zeros(len(place)), np.zeros(len(place))
    np.add.at(diagonal, elements, volume[:, None] * (gradients**2).sum(axis=1))
    np.add.at(load, elements, np.repeat(0.25 * volume[:, None], 4, axis=1))
    n = len(elements)
    args = (np.zeros(len(place)), np.zeros(len(place)), elements.astype(I32).ravel(), place.ravel(), I32(n))
    expected = {0: diagonal, 1: load}
    return launch("simulations", "fem_assemble", -(-n // 128), 128, args, expected, rtol=1e-10)


def wilson_dslash(rng: Rng, extent: tuple[int, int, int, int]) -> Case:
    volume = int(np.prod(extent))
    spinor = normal(rng, (4, 3, volume, 2))
    links = normal(rng, (4, 3, 3, volume, 2)) * F32(0.5)
    psi, u = (x.astype(F64)[..., 0] + 1j * x.astype(F64)[..., 1] for x in (spinor, links))
    shape, i = extent[::-1], 1j
    gamma = np.zeros((4, 4, 4), complex)
    rows = (((3, i), (2, i), (1, -i), (0, -i)), ((3, -1), (2, 1), (1, 1), (0, -1)))
    rows += (((2, i), (3, -i), (0, -i), (1, i)), ((2, 1), (3, 1), (0, 1), (1, 1)))
    for mu in range(4):
        for s, (other, factor) in enumerate(rows[mu]):
            gamma[mu, s, other] = factor
    want: Array = np.zeros(psi.shape, complex)
    site = np.arange(volume).reshape(shape)
    for mu in range(4):
        ahead, behind = (np.roll(site, way, 3 - mu).ravel() for way in (-1, 1))
        forward = np.einsum("rcv,scv->srv", u[mu], psi[:, :, ahead])
        backward = np.einsum("crv,scv->srv", u[mu][:, :, behind].conj(), psi[:, :, behind])
        want += np.einsum("st,trv->srv", np.eye(4) - gamma[mu], forward)
        want += np.einsum("st,trv->srv", np.eye(4) + gamma[mu], backward)
    made = np.stack([want.real, want.imag], axis=-1).astype(F32)
    args = (np.zeros(made.size, F32), spinor.ravel(), links.ravel(), *map(I32, extent))
    expected = {0: made.ravel()}
    return launch("simulations", "wilson_dslash", -(-volume // 128), 128, args, expected, rtol=1e-3, atol=1e-3)


def structure_factors(rng: Rng, n: int, waves: int) -> Case:
    charges, vectors = normal(rng, (n, 4)), np.zeros((waves, 4), F32)
    vectors[:, :3] = rng.integers(-8, 9, (waves, 3)) * 0.6
    phase = vectors[:, :3].astype(F64) @ charges[:, :3].astype(F64).T
    want = np.stack([np.cos(phase) @ charges[:, 3], np.sin(phase) @ charges[:, 3]], axis=1).astype(F32)
    args = (np.zeros(waves * 2, F32), charges.ravel(), vectors.ravel(), I32(n))
    return launch("simulations", "structure_factors", waves, 256, args, {0: want.ravel()}, rtol=1e-3, atol=1e-2)


def octree(place: Array, weight: Array) -> tuple[Array, Array, Array]:
    """A tree in depth-first order: centres with masses, first child and rope (-1: none), sizes."""
    mass: list[Array] = []
    child: list[int] = []
    rope: list[int] = []
    size: list[float] = []

    def build(rows: Array, low: Array, wide: float) -> None:
        at = len(mass)
        w = weight[rows]
        mass.append(np.append((place[rows] * w[:, None]).sum(axis=0) / w.sum(), w.sum()))
        size.append(wide)
        child.append(-1 if len(rows) == 1 else at + 1)
        rope.append(-1)
        if len(rows) > 1:
            octant = ((place[rows] >= low + wide / 2) @ [1, 2, 4]).astype(int)
            for o in range(8):
                if (octant == o).any():
                    build(rows[octant == o], low + wide / 2 * np.array([o & 1, o >> 1 & 1, o >> 2]), wide / 2)
        rope[at] = len(mass)

    build(np.arange(len(place)), np.zeros(3), 1.0)
    ends = np.array(rope)
    return np.array(mass), np.stack([np.array(child), np.where(ends == len(mass), -1, ends)], axis=1), np.array(size)


def barnes_hut(rng: Rng, n: int, theta: float) -> Case:
    place = np.clip(rng.normal(0.5, 0.15, (n, 3)), 0, 0.999).astype(F32)
    code = np.zeros(n, np.int64)
    for bit in range(10):
        code |= ((place.astype(F64) * 1024).astype(np.int64) >> bit & 1) @ np.array([1, 2, 4]) << (3 * bit)
    place = place[np.argsort(code, kind="stable")]
    weight = rng.uniform(0.5, 1.5, n)
    mass, links, size = octree(place.astype(F64), weight)
    mass32 = mass.astype(F32)
    words = np.zeros((len(size), 4), I32)
    words[:, :2], words[:, 2] = links, size.astype(F32).view(I32)
    want, at, theta2 = np.zeros((3, n)), np.zeros(n, np.int64), F32(theta * theta)
    while (going := np.flatnonzero(at >= 0)).size:
        m, node = mass32[at[going]], links[at[going]]
        d = m[:, :3].astype(F64) - place[going]
        r2 = (d**2).sum(axis=1)
        use = (node[:, 0] < 0) | (size[at[going]] ** 2 < theta2 * r2)
        want[:, going] += np.where(use, m[:, 3] * (r2 + 1e-4) ** -1.5, 0) * d.T
        at[going] = np.where(use, node[:, 1], node[:, 0])
    bodies = np.concatenate([place, np.zeros((n, 1), F32)], axis=1)
    args = (np.zeros(3 * n, F32), bodies.ravel(), mass32.ravel(), words.ravel(), I32(n), theta2)
    expected = {0: want.astype(F32).ravel()}
    return launch("simulations", "barnes_hut", -(-n // 256), 256, args, expected, rtol=2e-2, atol=n * 1e-2)


def photon_transport(rng: Rng, packets: int) -> Case:
    layers = np.array([[0.3, 8, 0.2, 0.8], [1.0, 5, 0.5, 0.7], [0.5, 9, 1.2, 0.9], [2.0, 4, 1e30, 0.8]], F32)
    layers[:, 0] *= rng.uniform(0.9, 1.1, 4)
    state = mixed((np.arange(packets) * 2 + 1).astype(U32))
    depth, down, weight = np.zeros(packets, F32), np.ones(packets, F32), np.ones(packets, F32)
    count, kept, going = np.zeros(packets, I32), np.zeros(8), np.ones(packets, bool)
    for _ in range(200):
        going &= weight > F32(0.02)
        if not going.any():
            break
        layer = (depth[:, None] > layers[:3, 2]).sum(axis=1)
        a, s, _, g = layers[layer].T
        state = np.where(going, state * U32(1664525) + U32(1013904223), state)
        u = ((state >> U32(8)).astype(F32) + 1) * F32(5.9604645e-8)
        depth = np.where(going, depth + down * (-np.log(u) / (a + s)), depth)
        going &= depth >= 0
        lost = weight * a / (a + s)
        np.add.at(kept, layer[going], np.floor(lost[going] * 4096 + 0.5))
        weight = np.where(going, weight - lost, weight)
        state = np.where(going, state * U32(1664525) + U32(1013904223), state)
        v = (state >> U32(8)).astype(F32) * F32(5.9604645e-8)
        part = (1 - g * g) / (1 - g + 2 * g * v)
        down = np.where(going, (1 + g * g - part * part) / (2 * g) * np.where(down > 0, 1, -1), down).astype(F32)
        count += going

    def check(outputs: Outputs) -> None:
        """Rounding leads a few packets to other layers."""
        assert np.mean(np.asarray(outputs[1]) != count) < 0.02
        np.testing.assert_allclose(np.asarray(outputs[0]), kept, rtol=1e-2, atol=5000)

    args = (np.zeros(8, U32), np.zeros(packets, I32), layers.ravel(), I32(packets))
    return launch("simulations", "photon_transport", -(-packets // 128), 128, args, check=check)


def tricubic_spline(rng: Rng, electrons: int, side: int) -> Case:
    orbitals, places = 128, np.zeros((electrons, 4), F32)
    coefficients = normal(rng, (side, side, side, orbitals))
    places[:, :3] = rng.random((electrons, 3)) * (side - 3.01)
    whole = places[:, :3].astype(I32)
    part = places[:, :3].astype(F64) - whole
    u = 1 - part
    w = np.stack([u**3, 3 * part**3 - 6 * part**2 + 4, 3 * u**3 - 6 * u**2 + 4, part**3], axis=2) / 6
    d = np.stack([-0.5 * u**2, 1.5 * part**2 - 2 * part, -1.5 * u**2 + 2 * u, 0.5 * part**2], axis=2)
    want = np.zeros((electrons, orbitals, 4))
    for e, (x, y, z) in enumerate(whole):
        block = coefficients[x : x + 4, y : y + 4, z : z + 4].astype(F64)
        for k in range(4):
            a, b, c = (d[e, axis] if k == axis + 1 else w[e, axis] for axis in range(3))
            want[e, :, k] = np.einsum("i,j,k,ijko->o", a, b, c, block, optimize=True)
    args = (np.zeros(want.size, F32), coefficients.ravel(), places.ravel(), I32(side), I32(orbitals))
    expected = {0: want.astype(F32).ravel()}
    return launch("simulations", "tricubic_spline", electrons, 128, args, expected, rtol=1e-3, atol=1e-3)


CASES: dict[str, Sized] = {
    "libor_paths": sized(libor_paths, {"paths": 100, "steps": 4}, paths=30000, steps=20),
    "implied_volatility": sized(implied_volatility, {"n": 200}, n=200000),
    "lj_verlet": sized(lj_verlet, {"side": 6}, side=24),
    "sph_density": sized(sph_density, {"side": 3, "each": 5}, side=14, each=8),
    "fem_assemble": sized(fem_assemble, {"side": 4}, side=28),
    "wilson_dslash": sized(wilson_dslash, {"extent": (4, 2, 2, 4)}, extent=(16, 16, 12, 16)),
    "structure_factors": sized(structure_factors, {"n": 300, "waves": 3}, n=6000, waves=500),
    "barnes_hut": sized(barnes_hut, {"n": 200}, n=6000, theta=0.6),
    "photon_transport": sized(photon_transport, {"packets": 200}, packets=40000),
    "tricubic_spline": sized(tricubic_spline, {"electrons": 5, "side": 8}, electrons=500, side=24),
}  # fmt: skip
