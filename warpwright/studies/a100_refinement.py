"""Figures 10 and 11 of the A100 whitepaper: linear systems refined to double precision with factors from tensor cores.

Iterations and fallbacks are those of real solves (functional engine) of 37 generated matrices of order 1,024.  At that order launches take most of the time,
so speedups are composed for the order at which dense solvers run: a factorisation of order N is the sum of its steps, and the time of each kernel in a step
comes from timed launches of that kernel on matrices of order 1,024 to 4,096 (between halves of a block: to 16,384), extrapolated by its amount of work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from warpwright.api import GPU
from warpwright.refinement.factors import BLOCK, HALF, PRECISIONS, THREADS, Factors, kernels, update
from warpwright.refinement.solver import MOST_ITERATIONS, Preconditioner, System, solve
from warpwright.run import Run
from warpwright.studies.a100_tensor_cores import PAPER
from warpwright.studies.refinement_matrices import matrices
from warpwright.studies.study import Cell, Plot, Result, Step, Table, study

FALLBACKS = {"fp32": 1, "tf32": 2, "fp16": 3, "bf16": 6}
SPEEDUPS = {"tf32": 2.0, "fp16": 1.9, "bf16": 1.8}
TENSOR_CORES = tuple(SPEEDUPS)
FALLBACK_TOLERANCE, SPEEDUP_TOLERANCE = 2, 0.3
ORDER = 16_384
"""At which speedups are compared.  The paper names one order, about 40,000, for its largest matrices."""
OTHER_ORDERS = (8_192, 32_768)
TIMED_ORDERS = (1024, 2048, 4096)
JOINED_ORDERS = (4096, ORDER)
"""Orders at which the products between the halves of a block are timed, on matrices of that height or width."""
VECTORS = 8
"""Vectors of GMRES in an iteration that is timed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one system and precision."""

    iterations: int
    converged: bool


def outcomes(step: Step) -> dict[str, dict[str, Outcome]]:
    """By precision and matrix, in the order of the matrices."""
    gpu = GPU("a100", timing="off")
    found: dict[str, dict[str, Outcome]] = {precision: {} for precision in FALLBACKS}
    for number, (name, matrix) in enumerate(matrices().items()):
        step(f"{name} ({number + 1} of 37)")
        right = matrix @ np.random.default_rng(number).standard_normal(len(matrix))
        for precision in FALLBACKS:
            solution = solve(gpu, matrix, right, precision)
            found[precision][name] = Outcome(solution.iterations, solution.converged)
    return found


Seconds = Callable[[float], float]
"""By the order of what is left of a matrix."""


def _continued(orders: Sequence[int], seconds: Sequence[float], power: int) -> Seconds:
    """A constant and a part that grows with a power of the order, from the two largest orders."""
    (low, high), (few, many) = orders[-2:], seconds[-2:]
    slope = max(0.0, (many - few) / (high**power - low**power))
    constant = max(0.0, many - slope * high**power)
    return lambda order: constant + slope * order**power


def _timed(timing: str) -> tuple[GPU, dict[str, float], Callable[[str, Run], None]]:
    """A GPU, seconds by kernel, and what adds a launch to them."""
    gpu = GPU("a100", timing=timing)
    spent: dict[str, float] = defaultdict(float)

    def told(name: str, run: Run) -> None:
        spent[name] += run.seconds

    return gpu, spent, told


def step_seconds(precision: str, order: int) -> float:
    """Seconds for the columns of L and the rows of U of the first half of a matrix's first block."""
    gpu, spent, told = _timed("full")
    matrix = np.random.default_rng(order).standard_normal((order, order))
    Factors(gpu, matrix, PRECISIONS[precision], told).factorise(0, HALF)
    return sum(spent.values())


def rest_seconds(precision: str, order: int) -> float:
    """Seconds for the product with the rest of the matrix, whatever its contents."""
    gpu, spent, told = _timed("sampled")
    Factors(gpu, np.zeros((order, order)), PRECISIONS[precision], told).subtract(0, BLOCK)
    return sum(spent.values())


def join_seconds(precision: str, order: int) -> float:
    """Seconds for the products between the halves of a block: of its columns of L, and of its rows of U."""
    gpu, used = GPU("a100", timing="full"), PRECISIONS[precision]
    kernel = kernels(gpu, used, used.kind)["update"]
    high, wide = gpu.zeros((order, BLOCK), used.type), gpu.zeros((BLOCK, order), used.type)
    second = (HALF, BLOCK)
    left = update(kernel, used.kind, high, (HALF, order), second, 0, HALF)
    right = update(kernel, used.kind, wide, second, (BLOCK, order), 0, HALF)
    return left.seconds + right.seconds


@cache
def steps(precision: str) -> tuple[Seconds, Seconds, Seconds]:
    """Functions of the order of the remaining matrix, in seconds: the columns and rows of half a block, the products between its halves, and the product with the rest."""
    orders = TIMED_ORDERS[1:]
    # Half blocks are factorised alike in all precisions whose factors are FP32.
    columns = _continued(orders, [step_seconds(_alike(precision), order) for order in orders], 1)
    joined = _continued(JOINED_ORDERS, [join_seconds(precision, order) for order in JOINED_ORDERS], 1)
    rest = _continued(orders, [rest_seconds(precision, order) for order in orders], 2)
    return columns, joined, rest


def parts(precision: str, order: int) -> tuple[float, float, float]:
    """Seconds that a factorisation spends on each of the three."""
    columns, joined, rest = steps(precision)
    blocks = range(BLOCK, order + 1, BLOCK)
    return (
        sum(columns(left) for left in range(HALF, order + 1, HALF)),
        sum(joined(left) for left in blocks),
        sum(rest(left) for left in blocks),
    )


def factorisation(precision: str) -> Seconds:
    """Seconds of the factorisation of a matrix by its order."""
    return lambda order: sum(parts(precision, int(order)))


def _alike(precision: str) -> str:
    """The precision that has the same factors and no tensor cores."""
    return precision if precision == "fp64" else "fp32"


def iteration_seconds(precision: str, order: int) -> tuple[float, float]:
    """Seconds for a solve with both triangles, and for the rest of a GMRES iteration."""
    gpu, spent, told = _timed("full")
    # Triangles take the same time whatever is in them.
    system = System(gpu, np.eye(order), np.ones(order), told)
    triangles = Preconditioner(system, PRECISIONS[precision], factorised=False)
    spent.clear()
    x = gpu.zeros(order, np.float64)
    triangles.solve(x, x)
    solving = spent.pop("solve_triangle")
    made = kernels(gpu, PRECISIONS["fp64"], PRECISIONS["fp64"].kind)
    n, basis, w, some = (
        np.int32(order),
        gpu.zeros((VECTORS, order), np.float64),
        gpu.zeros(order, np.float64),
        gpu.zeros(VECTORS, np.float64),
    )
    matrix = gpu.zeros((order, order), np.float64)
    grid = -(-order // THREADS)
    other = made["product"][-(-order * 32 // THREADS), THREADS](matrix, n, x, 0, w).seconds
    other += 2 * made["inner_products"][VECTORS, THREADS](n, basis, w, some).seconds
    other += 2 * made["combine"][grid, THREADS](n, np.int32(VECTORS), basis, some, -1.0, w).seconds
    other += made["inner_products"][1, THREADS](n, w, w, some).seconds
    other += made["normalise"][grid, THREADS](n, w, some, x).seconds
    return solving, other


@cache
def iteration(precision: str) -> Seconds:
    """Seconds of an iteration by the order of the matrix."""
    if _alike(precision) != precision:
        return iteration(_alike(precision))
    solving, other = zip(*(iteration_seconds(precision, order) for order in TIMED_ORDERS), strict=True)
    # Blocks that wait for each other take time for each of them and for each element.
    curve = np.polynomial.Polynomial.fit(TIMED_ORDERS, solving, 2).convert()
    rest = _continued(TIMED_ORDERS, other, 2)
    return lambda order: float(curve(order)) + rest(order)


def speedup(outcome: Outcome, precision: str, order: int) -> float:
    """Over FP64 factors and one solve with them; a fallback takes the failed attempt and then those."""
    double = factorisation("fp64")(order) + iteration("fp64")(order)
    attempt = factorisation(precision)(order) + (outcome.iterations + 1) * iteration(precision)(order)
    return double / (attempt + (0.0 if outcome.converged else double))


def mean_speedup(found: dict[str, Outcome], precision: str, order: int) -> float:
    """The geometric mean over the matrices."""
    return float(np.exp(np.mean([np.log(speedup(one, precision, order)) for one in found.values()])))


def _figures(found: dict[str, dict[str, Outcome]]) -> list[Plot]:
    """Figures 10 and 11, with the matrices in the order of TF32."""

    def signed(one: Outcome) -> float:
        return one.iterations if one.converged else -max(one.iterations, 1)

    iterations, speedups = {}, {}
    by_iterations = sorted(found["tf32"], key=lambda name: signed(found["tf32"][name]))
    by_speedup = sorted(found["tf32"], key=lambda name: speedup(found["tf32"][name], "tf32", ORDER))
    for precision, one in found.items():
        iterations[precision] = [(float(i + 1), float(signed(one[name]))) for i, name in enumerate(by_iterations)]
        speedups[precision] = [
            (float(i + 1), speedup(one[name], precision, ORDER)) for i, name in enumerate(by_speedup)
        ]
    return [
        Plot(
            "Iterations to double precision (Figure 10); negative: fell back to FP64",
            "matrix",
            "iterations",
            iterations,
        ),
        Plot(f"Speedup over FP64 at order {ORDER:,} (Figure 11)", "matrix", "times", speedups),
    ]


@study("tcairs-fig11", f"{PAPER}, Figures 10 and 11")
def figure_11(step: Step) -> Result:
    """Iterative refinement with FP32, TF32, FP16 and BF16 factors: fallbacks and speedups over FP64 on tensor cores."""
    found = outcomes(step)
    for precision in PRECISIONS:
        step(f"time of {precision}")
        steps(precision), iteration(precision)
    fallbacks = [
        Cell(
            "fallbacks to FP64",
            precision,
            sum(not one.converged for one in found[precision].values()),
            paper,
            FALLBACK_TOLERANCE,
            True,
        )
        for precision, paper in FALLBACKS.items()
    ]
    speedups = [
        Cell(
            "geometric mean",
            precision,
            mean_speedup(found[precision], precision, ORDER),
            paper,
            SPEEDUP_TOLERANCE,
            True,
        )
        for precision, paper in SPEEDUPS.items()
    ]
    common = [name for name in found["tf32"] if all(found[precision][name].converged for precision in TENSOR_CORES)]
    sums = {precision: sum(found[precision][name].iterations for name in common) for precision in FALLBACKS}
    least = min(sums[precision] for precision in TENSOR_CORES)
    tables = [
        Table("Matrices of 37 that fall back", "matrices", fallbacks),
        Table(f"Speedup over FP64, order {ORDER:,}", "times", speedups),
        Table(
            "TF32 needs the fewest iterations of the tensor cores' formats",
            "1 if so",
            [Cell("fewest", "tf32", int(sums["tf32"] == least), 1, 0, True)],
        ),
    ]
    return Result(tables, _remarks(found, sums, len(common)), _figures(found))


def _remarks(found: dict[str, dict[str, Outcome]], sums: dict[str, int], common: int) -> list[str]:
    """Further results, and the basis of the cells."""
    listed = "; ".join(
        f"{precision}: {', '.join(name for name, outcome in one.items() if not outcome.converged) or 'none'}"
        for precision, one in found.items()
    )
    others = "; ".join(
        f"{order:,}: "
        + ", ".join(f"{precision} {mean_speedup(found[precision], precision, order):.2f}" for precision in FALLBACKS)
        for order in (ORDER, *OTHER_ORDERS)
    )
    return [
        f"Iterations in all, over the {common} matrices that every format of tensor cores solves: "
        + ", ".join(f"{precision} {count}" for precision, count in sums.items())
        + ".",
        f"Fallbacks (more than {MOST_ITERATIONS} iterations, or no factors): {listed}.",
        f"Speedups by order: {others}.",
        f"Milliseconds at order {ORDER:,} (panels and rows of U, products between halves of a block, products with the rest, an iteration): "
        + "; ".join(
            f"{precision} "
            + ", ".join(f"{1e3 * one:.1f}" for one in (*parts(precision, ORDER), iteration(precision)(ORDER)))
            for precision in PRECISIONS
        )
        + ".",
        "The paper's matrices are SuiteSparse's, which cannot be had here; these are generated, of order 1,024 and of the same kinds, and its count of"
        " fallbacks is that of other matrices. Times are those of kernels: the host's, and copies of coefficients, are not in them.",
    ]
