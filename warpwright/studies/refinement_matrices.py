"""37 matrices of the kinds that the SuiteSparse collection has, generated: the collection's own cannot be had here.

Orders are about 1,024, as large as the time of the study allows: rounding errors of a factorisation grow with the order, and the collection's matrices that
dense solvers are tried with have orders of thousands.  Families and parameters were chosen before any of them was solved: for each, what makes such matrices
hard varies (contrast, mixed units, stiffness, near singularity).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
ORDER, SIDE = 1024, 32


def _difference(order: int) -> Matrix:
    """-u'' on a line."""
    return 2 * np.eye(order) - np.eye(order, k=1) - np.eye(order, k=-1)


def _slope(order: int) -> Matrix:
    """u' by central differences."""
    return (np.eye(order, k=1) - np.eye(order, k=-1)) / 2


def poisson(side: int = SIDE, ratio: float = 1.0) -> Matrix:
    """Diffusion on a square, with another coefficient across than down."""
    one = np.eye(side)
    return np.kron(_difference(side), one) + ratio * np.kron(one, _difference(side))


def poisson_3d(side: int = 10) -> Matrix:
    """Diffusion in a cube."""
    one = np.eye(side)
    d = _difference(side)
    return np.kron(np.kron(d, one), one) + np.kron(np.kron(one, d), one) + np.kron(np.kron(one, one), d)


def layered(contrast: float, rng: np.random.Generator) -> Matrix:
    """Flow in a medium of cells whose conductivities differ by a factor: a reservoir."""
    field = contrast ** rng.random((SIDE, SIDE))
    a = np.zeros((ORDER, ORDER))
    for y in range(SIDE):
        for x in range(SIDE):
            here = y * SIDE + x
            a[here, here] += 1e-3 * field[y, x]
            for v, u in ((y + 1, x), (y, x + 1)):
                if v < SIDE and u < SIDE:
                    there, k = v * SIDE + u, 2 / (1 / field[y, x] + 1 / field[v, u])
                    a[here, here] += k
                    a[there, there] += k
                    a[here, there] -= k
                    a[there, here] -= k
    return a


def convection(peclet: float) -> Matrix:
    """Diffusion with a wind, by central differences."""
    one = np.eye(SIDE)
    return poisson() + peclet * (np.kron(_slope(SIDE), one) + 0.5 * np.kron(one, _slope(SIDE)))


def helmholtz(shift: float) -> Matrix:
    """Waves on a square: indefinite."""
    return poisson() - shift * np.eye(ORDER)


def biharmonic(side: int = SIDE) -> Matrix:
    """A thin plate."""
    return poisson(side) @ poisson(side)


def frame(stiff: float, rng: np.random.Generator) -> Matrix:
    """Beams: displacements and rotations in units of their own, members of different stiffness."""
    nodes = ORDER // 2
    a = np.zeros((ORDER, ORDER))
    length = 0.5
    for node in range(nodes - 1):
        k = stiff ** rng.random()
        beam = np.array(
            [
                [12, 6 * length, -12, 6 * length],
                [6 * length, 4 * length**2, -6 * length, 2 * length**2],
                [-12, -6 * length, 12, -6 * length],
                [6 * length, 2 * length**2, -6 * length, 4 * length**2],
            ]
        )
        places = slice(2 * node, 2 * node + 4)
        a[places, places] += k * beam / length**3
    return a + np.diag(np.tile([10.0, 0.1], nodes))


def circuit(decades: float, rng: np.random.Generator) -> Matrix:
    """Nodal analysis: conductances over several decades between random nodes, and to ground."""
    a = np.diag(10 ** (-decades * rng.random(ORDER)))
    for here in range(1, ORDER):
        for there in {here - 1, *rng.integers(0, here, 2).tolist()}:
            g = 10 ** (-decades * rng.random())
            a[here, here] += g
            a[there, there] += g
            a[here, there] -= g
            a[there, here] -= g
    return a


def sourced_circuit(decades: float, rng: np.random.Generator) -> Matrix:
    """Modified nodal analysis: voltage sources add rows with a zero on the diagonal."""
    sources = ORDER // 16
    a = circuit(decades, rng)
    for source in range(sources):
        row = ORDER - sources + source
        a[row, :] = 0
        a[:, row] = 0
        at = int(rng.integers(0, ORDER - sources))
        a[row, at] = a[at, row] = 1
        a[row, row] = 0 if source % 2 else -1e-3
    # No two sources drive one node.
    return a + 1e-6 * np.eye(ORDER)


def power_grid(rng: np.random.Generator) -> Matrix:
    """The Jacobian of a load flow: susceptances and conductances in blocks."""
    half = ORDER // 2
    b = circuit(1, rng)[:half, :half]
    g = 0.2 * circuit(1, rng)[:half, :half]
    return np.block([[b, g], [-g, 0.9 * b]])


def kinetics(step: float, rng: np.random.Generator) -> Matrix:
    """An implicit step of reactions whose rates differ by six decades."""
    rates = 10 ** rng.uniform(-3, 3, ORDER)
    a = np.diag(1 + step * rates)
    for here in range(ORDER):
        for there in rng.integers(0, ORDER, 3):
            a[there, here] -= step * rates[here] / 3
    return a


def markov(rng: np.random.Generator) -> Matrix:
    """The stationary vector of a chain: I - P with one condition added."""
    p = rng.random((ORDER, ORDER)) * (rng.random((ORDER, ORDER)) < 0.05)
    p += np.diag(np.full(ORDER, 0.5))
    p /= p.sum(axis=0)
    return np.eye(ORDER) - p + np.ones((ORDER, ORDER)) / ORDER


def economy(rng: np.random.Generator) -> Matrix:
    """Inputs and outputs of sectors."""
    a = rng.random((ORDER, ORDER)) * (rng.random((ORDER, ORDER)) < 0.2)
    return np.eye(ORDER) - 0.9 * a / a.sum(axis=0).max()


def web(rng: np.random.Generator) -> Matrix:
    """A Laplacian of a network whose degrees have a long tail."""
    a = np.zeros((ORDER, ORDER))
    ends = [0]
    for node in range(1, ORDER):
        for other in {ends[int(rng.integers(0, len(ends)))] for _ in range(3)}:
            a[node, other] = a[other, node] = -1
            ends += [node, other]
    return np.diag(1e-3 - a.sum(axis=1)) + a


def spectrum(condition: float, mode: str, rng: np.random.Generator, order: int = ORDER) -> Matrix:
    """Random singular vectors, and singular values that fall geometrically, arithmetically, or but for one not at all."""
    u, _ = np.linalg.qr(rng.standard_normal((order, order)))
    v, _ = np.linalg.qr(rng.standard_normal((order, order)))
    steps = np.arange(order) / (order - 1)
    values = {
        "geometric": condition**-steps,
        "arithmetic": 1 - steps * (1 - 1 / condition),
        "one small": np.where(steps < 1, 1.0, 1 / condition),
    }
    return np.asarray(u * values[mode] @ v, np.float64)


def random(rng: np.random.Generator) -> Matrix:
    """Normally distributed."""
    return rng.standard_normal((ORDER, ORDER))


def sparse(diagonal: float, rng: np.random.Generator) -> Matrix:
    """A few random values of a row, and a diagonal."""
    return rng.standard_normal((ORDER, ORDER)) * (rng.random((ORDER, ORDER)) < 0.03) + diagonal * np.eye(ORDER)


def stokes(weight: float) -> Matrix:
    """A saddle point: velocities and pressures, with a stabilised block of pressures."""
    side = SIDE // 2
    velocity = np.kron(np.eye(3), poisson(side))
    gradient = np.vstack(
        [np.kron(_slope(side), np.eye(side)), np.kron(np.eye(side), _slope(side)), 0.1 * np.eye(side * side)]
    )
    return np.block([[velocity, gradient], [gradient.T, -weight * np.eye(side * side)]])


def control(weight: float, rng: np.random.Generator) -> Matrix:
    """Optimal control, with a small weight of the control relative to the constraint."""
    half = ORDER // 2
    dynamics = np.eye(half) - 0.9 * np.eye(half, k=-1) + 0.05 * rng.standard_normal((half, half))
    return np.block([[weight * np.eye(half), dynamics.T], [dynamics, np.zeros((half, half))]])


def grcar() -> Matrix:
    """A Toeplitz matrix far from normal."""
    return sum((np.eye(ORDER, k=k) for k in range(4)), -np.eye(ORDER, k=-1))


def kernel(jitter: float, rng: np.random.Generator) -> Matrix:
    """Gaussian-process regression: a smooth kernel of random points."""
    points = rng.random((ORDER, 2))
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    return np.exp(-squares / 0.02) + jitter * np.eye(ORDER)


def boundary(rng: np.random.Generator) -> Matrix:
    """Potentials of charges on a circle: boundary elements of different lengths."""
    angles = np.sort(rng.random(ORDER)) * 2 * np.pi
    points = np.exp(1j * angles)
    lengths = np.diff(np.append(angles, angles[0] + 2 * np.pi))
    distances = np.abs(points[:, None] - points[None])
    np.fill_diagonal(distances, lengths / (2 * np.e))
    return -np.log(distances / 4) * lengths[None]


def normal_equations(rng: np.random.Generator) -> Matrix:
    """A least-squares problem of columns in different units."""
    x = rng.standard_normal((2 * ORDER, ORDER)) * 10 ** rng.uniform(-1.5, 1.5, ORDER)
    return np.asarray(x.T @ x, np.float64)


def quantum(offset: float, rng: np.random.Generator) -> Matrix:
    """H - E I of electrons in a disordered lattice, near an eigenvalue."""
    h = poisson() + np.diag(rng.uniform(-2, 2, ORDER))
    values = np.linalg.eigvalsh(h)
    return h - (values[ORDER // 2] + offset) * np.eye(ORDER)


MATRICES: dict[str, Callable[[Any], Matrix]] = {
    "diffusion, square": lambda rng: poisson(),
    "diffusion, cube": lambda rng: poisson_3d(),
    "diffusion, anisotropic": lambda rng: poisson(ratio=1e-3),
    "reservoir, 1e2": lambda rng: layered(1e2, rng),
    "reservoir, 1e4": lambda rng: layered(1e4, rng),
    "reservoir, 1e7": lambda rng: layered(1e7, rng),
    "convection, 1": lambda rng: convection(1),
    "convection, 30": lambda rng: convection(30),
    "Helmholtz, 0.5": lambda rng: helmholtz(0.5),
    "Helmholtz, 2": lambda rng: helmholtz(2.0),
    "plate": lambda rng: biharmonic(),
    "frame, 1e2": lambda rng: frame(1e2, rng),
    "frame, 1e5": lambda rng: frame(1e5, rng),
    "circuit, 3 decades": lambda rng: circuit(3, rng),
    "circuit, 6 decades": lambda rng: circuit(6, rng),
    "circuit with sources": lambda rng: sourced_circuit(3, rng),
    "power grid": power_grid,
    "kinetics, 1e-2": lambda rng: kinetics(1e-2, rng),
    "kinetics, 1e2": lambda rng: kinetics(1e2, rng),
    "Markov chain": markov,
    "economy": economy,
    "network": web,
    "random": random,
    "sparse": lambda rng: sparse(1, rng),
    "sparse, strong diagonal": lambda rng: sparse(8, rng),
    "geometric, 1e3": lambda rng: spectrum(1e3, "geometric", rng),
    "geometric, 1e6": lambda rng: spectrum(1e6, "geometric", rng),
    "geometric, 1e9": lambda rng: spectrum(1e9, "geometric", rng),
    "arithmetic, 1e5": lambda rng: spectrum(1e5, "arithmetic", rng),
    "one small value, 1e7": lambda rng: spectrum(1e7, "one small", rng),
    "Stokes": lambda rng: stokes(1e-2),
    "control, 1e-3": lambda rng: control(1e-3, rng),
    "Grcar": lambda rng: grcar(),
    "Gaussian process, 1e-3": lambda rng: kernel(1e-3, rng),
    "boundary elements": boundary,
    "least squares": normal_equations,
    "quantum, near an eigenvalue": lambda rng: quantum(1e-3, rng),
}


def matrices() -> dict[str, Matrix]:
    """All of them by name."""
    return {name: make(np.random.default_rng(number)) for number, (name, make) in enumerate(MATRICES.items())}
